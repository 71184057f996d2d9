/* SES-10: no chunkserver answers a call of another cluster. All who call are of one; only who has
 * yet to learn which does not name it. */
#include "sim/observers/capability.h"

#include "base/cluster.h"
#include "proto/codec.h"
#include "sim/cluster/internal.h"
#include "sim/cluster/stranger.h"

#include <stdlib.h>

/* A call to a server of another cluster, which that one has not ended yet. */
struct foreign {
    uint64_t link;
    UT_hash_handle hh;
};

static struct foreign *find(const struct lh_sim_observers *o, uint64_t link)
{
    struct foreign *f;

    HASH_FIND(hh, o->foreign, &link, sizeof link, f);
    return f;
}

static void forget(struct lh_sim_observers *o, struct foreign *f)
{
    HASH_DEL(o->foreign, f);
    free(f);
}

void lh_ob_foreign_deinit(struct lh_sim_observers *o)
{
    while (o->foreign != NULL)
        forget(o, o->foreign);
}

static bool is_meant(const struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    bool named = lh_request_cluster(s->input->message) != 0 || !o->cluster->config.newcomers;

    return named && s->method != LH_METHOD_IDENTIFY && s->peer != NULL &&
           !lh_sim_is_stranger(s->peer);
}

void lh_ob_foreign_takes(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part != PART_SERVER || s->direction != LH_REQUEST)
        return;
    struct foreign *f = find(o, s->link);
    if (s->input->kind == LH_IN_LINK_CLOSED && f != NULL)
        forget(o, f);
    if (s->input->kind != LH_IN_MESSAGE || f != NULL || !lh_sim_is_foreign(o->cluster, a->node) ||
        !is_meant(o, s))
        return;
    f = lh_alloc(sizeof *f);
    f->link = s->link;
    HASH_ADD(hh, o->foreign, link, sizeof f->link, f);
}

void lh_ob_foreign_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    struct foreign *f = a->part == PART_SERVER ? find(o, s->link) : NULL;

    if (f == NULL)
        return;
    if (s->effect->kind == LH_FX_SEND && s->direction == LH_REPLY)
        lh_sim_fail(o->sim, "SES-10", 0, "%s answers %s, which is of another cluster", a->name,
            s->peer == NULL ? "somebody" : lh_sim_name(s->peer));
    else if (s->effect->kind == LH_FX_CLOSE)
        forget(o, f);
}
