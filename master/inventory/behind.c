/* An older copy of the metadata (KEEP-4): the signs of it, and what follows.
 *
 * If the store is older than what servers have (it was restored from a backup), records are missing
 * that replicas depend on. Then nothing is deleted at all, until the operator has looked. */
#include "master/inventory/inventory.h"

#include "master/tables/behind.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>
#include <string.h>

/* Above these a number is not raised to what a server reports: it would run out. */
#define VERSION_MAX (UINT64_C(1) << 62)
#define CHUNK_MAX   (UINT64_C(1) << 58)

_Static_assert(CHUNK_MAX < LH_LEASE_ID_LAST / 3, "above it are many that the store takes");

void lh_m_restored(struct lh_master *m)
{
    LH_MARK("metadata-restored");
    m->next_chunk += LH_MASTER_RESTORED_LEAP;
    m->next_file += LH_MASTER_RESTORED_LEAP;
    m->history.last += LH_MASTER_RESTORED_REVISIONS;
    m->history.floor = m->history.last;
    lh_m_set_behind(m, "this master was started with --restored: the metadata is an older copy");
}

bool lh_m_number_evidence(struct lh_master *m, const struct lh_m_server *s, uint64_t chunk)
{
    if (chunk < m->next_chunk)
        return false;
    lh_m_set_behind(m,
        "chunkserver %s has a replica of chunk %" PRIu64
        ", and this master has not given out a number above %" PRIu64
        " yet: the metadata looks like an older copy",
        s->id, chunk, m->next_chunk - 1);
    if (chunk < CHUNK_MAX) {
        m->next_chunk = chunk + 1;
        lh_m_dirty_master(m);
    }
    return true;
}

static bool unknown_evidence(
    struct lh_master *m, const struct lh_m_server *s, const struct lh_m_report *r)
{
    if (lh_m_number_evidence(m, s, r->chunk))
        return true;
    if (lh_m_chunk_leaves(m, r->chunk) || lh_m_prealloc_known(m, r->chunk))
        return false;
    const struct lh_m_tombstone *t = lh_m_tombstone_find(m, r->chunk);
    if (t == NULL) {
        LH_MARK("report-of-unknown-chunk");
        lh_m_set_behind(m,
            "chunkserver %s has a replica of chunk %" PRIu64
            ", which this master neither knows nor removed: the metadata looks like an older copy",
            s->id, r->chunk);
        return true;
    }
    /* A preallocated chunk's has the version of its first grant, and never held a byte. */
    if (t->version == 0 ? r->version <= LH_M_FIRST_VERSION && r->length == 0
                        : r->version <= t->version)
        return false;
    LH_MARK("report-above-tombstone");
    lh_m_set_behind(m,
        "chunkserver %s has version %" PRIu64 " of chunk %" PRIu64
        ", which this master removed at version %" PRIu64 ": the metadata looks like an older copy",
        s->id, r->version, r->chunk, t->version);
    return true;
}

/* A seal is in the store before any server hears of it (SEAL-1). */
static void sealed_evidence(
    struct lh_master *m, const struct lh_m_server *s, const struct lh_m_chunk *c)
{
    LH_MARK("report-of-unknown-seal");
    lh_m_set_behind(m,
        "chunkserver %s has chunk %" PRIu64 " sealed, and it is not on record: the metadata looks "
        "like an older copy",
        s->id, c->id);
}

void lh_m_note_seal(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member,
    const struct lh_m_report *r)
{
    const struct lh_m_shown_seal seal = {r->version, r->length, r->checksum};

    member->sealed = false;
    if (!r->sealed || r->checksum == 0)
        return; /* one of an older release does not say which */
    if (memcmp(&c->active->shown_seal, &seal, sizeof seal) != 0) {
        lh_m_move(m, c)->shown_seal = seal;
        for (uint32_t i = 0; i < c->member_count; i++)
            c->members[i].sealed = false; /* they have shown another one */
    }
    member->sealed = true;
    lh_m_touch(m, c->file);
}

bool lh_m_report_evidence(
    struct lh_master *m, struct lh_m_server *s, struct lh_m_chunk *c, const struct lh_m_report *r)
{
    if (c == NULL)
        return unknown_evidence(m, s, r);
    if (!c->sealed && c->created && r->version > lh_m_seen_version(c) && r->version < VERSION_MAX)
        lh_m_move(m, c)->seen_version = r->version;
    if (!c->sealed && c->created && r->sealed && !r->lost)
        sealed_evidence(m, s, c);
    /* A replica is created with the version of the first grant. */
    if (r->version <= c->version || (!c->created && r->version <= LH_M_FIRST_VERSION))
        return false;
    LH_MARK("report-above-record");
    lh_m_set_behind(m,
        "chunkserver %s has version %" PRIu64 " of chunk %" PRIu64 ", and the newest on record is "
        "%" PRIu64 ": the metadata looks like an older copy",
        s->id, r->version, c->id, c->version);
    if (r->version >= VERSION_MAX)
        return true;
    if (r->version > lh_m_seen_version(c))
        lh_m_move(m, c)->seen_version = r->version;
    /* Under a lease it keeps the lease's version; the next grant goes above what was seen. */
    if (c->created && !c->sealed && !c->intent_to_seal && lh_m_holder(c) == NULL) {
        c->version = r->version;
        lh_m_dirty_chunk(m, c);
    }
    return true;
}
