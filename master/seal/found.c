/* A seal that the servers have and the record has not: the store is an older copy (KEEP-4). Nobody
 * can append to the chunk any more, since its members refuse. So the seal is taken on, as if this
 * master had decided it, and the file goes on in its next chunk.
 *
 * Only if there is nothing else: behind an older copy of the store servers may have logs of more
 * than one history, and what a member has that was not heard is not known. */
#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/inventory/inventory.h"
#include "master/seal/seal.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static bool shows_it(const struct lh_master *m, const struct lh_m_member *member)
{
    const struct lh_m_server *s = lh_m_server_of(m, member);

    return member->sealed && !member->lost && s->session.client.session != 0 &&
           member->seen == lh_m_session_of(s);
}

/* Is it known that this member has no log that could be another one (REC-2a)? */
static bool has_nothing(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member)
{
    struct lh_m_member full = *member;
    full.joining = false; /* behind an older copy nobody knows whether it has joined */
    enum lh_m_health health = lh_m_member_health(m, c, &full);

    return health == LH_M_LOST || health == LH_M_MISSING ||
           (health == LH_M_GONE && lh_m_given_up(m, lh_m_server_of(m, member)));
}

/* How many members have shown it; 0: or one may have something else. */
static uint32_t shown_by(const struct lh_master *m, const struct lh_m_chunk *c)
{
    uint32_t shown = 0;

    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        if (shows_it(m, member))
            shown++;
        else if (!has_nothing(m, c, member) && !LH_PLANTED("seal-taken-on-from-some"))
            return 0;
    }
    return shown;
}

bool lh_m_seal_found(struct lh_master *m, struct lh_m_chunk *c)
{
    const struct lh_m_shown_seal seal = c->active->shown_seal;
    uint32_t shown;

    if (c->sealed || seal.version == 0 || !c->created || c->active->dirty ||
        !lh_m_is_durable(m, c->active->ticket) || (lh_m_held(m, c) && !c->intent_to_seal))
        return false;
    if (seal.length > c->file->chunk_size || lh_m_next_version(c) <= seal.version)
        return false; /* makes no sense, or no number is left above it */
    /* Another history went on behind it. */
    if (lh_m_seen_version(c) > seal.version)
        return false;
    if ((shown = shown_by(m, c)) == 0)
        return false;
    if (c->intent_to_seal)
        LH_MARK("seal-taken-on-in-a-roll");
    else
        LH_MARK("seal-taken-on");
    lh_m_roll_free(m, c);
    c->length = seal.length;
    c->checksum = seal.checksum;
    c->version = lh_m_next_version(c); /* none of any history counts any more */
    c->intent_to_seal = true;          /* nobody settles by one disk: see lh_m_backed() */
    c->seal_backed = shown >= c->file->min_replicas;
    for (uint32_t i = 0; i < c->member_count; i++)
        c->members[i].sealed = false; /* not at this version yet */
    lh_m_set_sealed(m, c);
    lh_m_seal(m, c)->rolled_at = m->now;
    lh_m_seal(m, c)->urgent = !lh_m_backed(m, c);
    lh_m_dirty_chunk(m, c);
    lh_fx_log(m->fx, LH_WARN,
        "chunk %" PRIu64 " of \"%s\": the servers have sealed it at %" PRIu64 " bytes, version "
        "%" PRIu64 ", which this copy of the metadata lacked: taken on at version %" PRIu64,
        c->id, c->file->path, c->length, seal.version, c->version);
    lh_m_prealloc_take(m, c->file);
    lh_m_touch(m, c->file);
    return true;
}
