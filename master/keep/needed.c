/* Is a replica needed (REC-10)? Whoever lets one go asks here: a drain, a decommissioning, the
 * census behind "safe to stop", and the garbage. */
#include "master/keep/internal.h"

#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

/* What its server says that it has nothing of. One that cannot be asked may have something. */
static bool is_empty(const struct lh_master *m, const struct lh_m_member *member)
{
    return member->lost && lh_m_live(m, lh_m_server_of(m, member)) && !lh_m_is_kept(m, member);
}

bool lh_m_member_needed(const struct lh_master *m, const struct lh_m_chunk *c,
    const struct lh_m_member *member, uint32_t staying)
{
    return staying < c->file->replication && !member->joining && !is_empty(m, member);
}

/* A member that a deletion can rely on: what counts as good for a repair may have been down for as
 * long as its session still runs, or may not have heard of the seal. */
static bool well(const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *i)
{
    return lh_m_member_health(m, c, i) == LH_M_GOOD &&
           (lh_m_looks_alive(m, lh_m_server_of(m, i)) || LH_PLANTED("garbage-by-silent-members")) &&
           (lh_m_reachable(m, lh_m_server_of(m, i)) || LH_PLANTED("garbage-by-deaf-members") ||
               LH_PLANTED("garbage-by-silent-members")) &&
           (!c->sealed || i->sealed || LH_PLANTED("garbage-by-unsealed-members"));
}

static uint32_t members_well(const struct lh_master *m, const struct lh_m_chunk *c)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->member_count; i++)
        count += well(m, c, &c->members[i]);
    return count;
}

bool lh_m_extra_needed(const struct lh_master *m, const struct lh_m_extra *e)
{
    const struct lh_m_chunk *c = e->chunk;

    if (e->copying)
        return false; /* it has never been whole */
    for (uint32_t i = 0; i < c->member_count; i++)
        if (lh_m_member_health(m, c, &c->members[i]) == LH_M_GOOD)
            return false;
    return c->created && !c->removed;
}

/* KEEP-3. */
bool lh_m_extra_goes(const struct lh_master *m, const struct lh_m_extra *e)
{
    const struct lh_m_chunk *c = e->chunk;
    uint32_t count;

    if (c->removed || !c->created || !lh_m_is_durable(m, c->active->ticket) ||
        (c->intent_to_seal && !c->sealed) || lh_m_copy_at(m, c, e->server))
        return false;
    if (LH_PLANTED("garbage-ignores-health"))
        return true;
    count = members_well(m, c);
    /* As many as there should be. A server that is being drained does not keep a replica for a
     * file that asks for more of them than there are servers. */
    return count == c->member_count &&
           (count >= c->file->replication || LH_PLANTED("garbage-by-too-few-members") ||
               (count >= c->file->min_replicas && lh_m_drained(e->server)));
}
