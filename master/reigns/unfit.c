/* What a member of etcd has, and masters have not written: a seal or a sum does not fit, the head
 * cannot be read (PAIR-4). Each member has a disk and a memory of its own, so the next one is
 * asked. While no member has what fits, this master waits, and neither acts nor ends: the active
 * one may have the only good copy, and write it again. */
#include "master/reigns/internal.h"

#include <stdlib.h>

/* The member that has answered last. */
static uint32_t asked(const struct lh_reigns *r)
{
    return r->calls[LH_R_READ].tried % r->config.member_count;
}

void lh_r_unfit(struct lh_reigns *r, const char *text)
{
    uint32_t member = asked(r), count = r->config.member_count;
    char **said = &r->unfit.said[member];

    LH_MARK("content-does-not-fit");
    /* Once for each member, unless it is something else. */
    if (*said == NULL || strcmp(*said, text) != 0) {
        lh_fx_log(r->fx, LH_ERROR, "what etcd at %s has under %s cannot be used: %s",
            r->config.members[member], r->config.prefix, text);
        free(*said);
        *said = lh_strdup(text);
    }
    r->unfit.loads++;
    if (r->config.task != LH_REIGN_SERVE && r->unfit.loads >= count) {
        lh_r_stop_with(r, LH_ERR_CORRUPT);
        return;
    }
    r->calls[LH_R_READ].tried = r->calls[LH_R_WATCH].tried = member + 1;
    lh_r_learn_later(
        r, r->unfit.loads % count == 0 ? r->config.unfit_again : r->config.retry_after);
}

void lh_r_fit(struct lh_reigns *r)
{
    if (r->unfit.loads > 0)
        lh_fx_log(r->fx, LH_INFO, "what etcd at %s has can be used", r->config.members[asked(r)]);
    lh_r_unfit_clear(r);
}

void lh_r_unfit_clear(struct lh_reigns *r)
{
    for (uint32_t i = 0; i < LH_ETCD_MEMBERS_MAX; i++)
        free(r->unfit.said[i]);
    memset(&r->unfit, 0, sizeof r->unfit);
}

const char *lh_r_unfit_why(const struct lh_reigns *r)
{
    for (uint32_t i = 0; i < LH_ETCD_MEMBERS_MAX; i++)
        if (r->unfit.said[i] != NULL)
            return r->unfit.said[i];
    return "";
}
