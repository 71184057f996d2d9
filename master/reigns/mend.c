/* Pairs of the map that were changed by somebody else than a master, which shows in a revision
 * without a head (PAIR-5). The copy in memory is as masters have left it, and may be the only one:
 * so a standby keeps it, and notes the keys; the active master writes them again, by commits like
 * any other. */
#include "master/reigns/internal.h"

#include <inttypes.h>
#include <stdlib.h>

bool lh_r_mend_note(struct lh_reigns *r, const struct lh_r_events *e)
{
    struct lh_r_mend *m = &r->mend;
    size_t before = m->count;

    for (size_t i = 0; i < e->count; i++) {
        const struct lh_change *c = &e->changes[i];
        if (e->pieces[i] != UINT64_MAX)
            return false; /* what a commit left there is not in the core any more */
        if (m->count - m->next >= r->config.mends_max)
            return false;
        LH_GROW(m->keys, m->capacity, m->count + 1);
        m->keys[m->count++] = lh_r_bytes_copy(c->key, c->key_size);
    }
    LH_MARK("changed-by-another-hand");
    lh_fx_log(r->fx, LH_WARN,
        "somebody who is no master has changed or deleted %zu keys under %smap/ (etcd's revision "
        "%" PRId64 "): %s",
        m->count - before, r->config.prefix, e->revision,
        r->phase == LH_REIGN_ACTING ? "they are written again"
                                    : "the active master writes them again");
    return true;
}

void lh_r_mend_forget(struct lh_reigns *r, const struct lh_r_events *e)
{
    struct lh_r_mend *m = &r->mend;

    for (size_t i = 0; i < e->count && m->count > 0; i++) {
        const struct lh_change *c = &e->changes[i];
        size_t kept = 0;
        for (size_t k = 0; k < m->count; k++) {
            bool same = e->pieces[i] == UINT64_MAX && m->keys[k].size == c->key_size &&
                        memcmp(m->keys[k].data, c->key, c->key_size) == 0;
            if (same)
                lh_r_bytes_clear(&m->keys[k]);
            else
                m->keys[kept++] = m->keys[k];
        }
        m->count = kept;
    }
}

bool lh_r_mend_next(struct lh_reigns *r)
{
    struct lh_r_mend *m = &r->mend;
    uint32_t count = 0;

    if (m->next == m->count || m->writes == r->counts.writes || LH_PLANTED("foreign-changes-stay"))
        return false; /* a few with each transaction, behind all that waits */
    m->writes = r->counts.writes;
    for (; m->next < m->count && count < r->config.mends_at_once; count++) {
        struct lh_r_bytes *key = &m->keys[m->next++];
        lh_master_write_again(r->master, key->data, key->size);
        lh_r_bytes_clear(key);
    }
    if (m->next == m->count)
        lh_r_mend_clear(r);
    return count > 0;
}

void lh_r_mend_clear(struct lh_reigns *r)
{
    for (size_t i = r->mend.next; i < r->mend.count; i++)
        lh_r_bytes_clear(&r->mend.keys[i]);
    free(r->mend.keys);
    r->mend = (struct lh_r_mend){.writes = r->mend.writes};
}
