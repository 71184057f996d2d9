/* What observers and operators see of a chunkserver, and its own invariants. */
#include "base/assert.h"
#include "chunkserver/primary/members.h"
#include "chunkserver/rooms.h"
#include "chunkserver/serve/copying.h"

bool lh_chunkserver_replica(
    const struct lh_chunkserver *cs, uint64_t chunk, struct lh_replica_status *status)
{
    const struct lh_cs_replica *r = lh_idmap_find(&cs->logs.replicas, chunk);

    if (r == NULL)
        return false;
    *status = (struct lh_replica_status){
        .version = r->header.version,
        .length = r->end,
        .committed = r->committed,
        .checksum = r->checksum,
        .sealed = r->header.sealed && !r->incomplete,
        .unverified = lh_cs_replica_unverified(r),
        .lost = r->state == LH_CS_REPLICA_LOST,
        .copying = r->incomplete,
        .primary = lh_cs_primary_of(r) != NULL,
        .open = lh_cs_primary_of(r) != NULL && lh_cs_primary_of(r)->state == LH_CS_PRIMARY_OPEN,
        .appends = lh_cs_primary_of(r) == NULL ? 0 : lh_cs_primary_of(r)->appends,
    };
    return true;
}

void lh_chunkserver_stats(const struct lh_chunkserver *cs, struct lh_chunkserver_stats *stats)
{
    const struct lh_cs_copying *c;

    *stats = (struct lh_chunkserver_stats){
        .copied_in = cs->serving.copied_in,
        .copied_out = cs->serving.copied_out,
        .scrub_passes = cs->serving.scrub.passes,
        .scrub_read = cs->serving.scrub.read,
        .scrub_found = cs->serving.scrub.found,
        .scrub_chunk = cs->serving.scrub.finished,
        .scrub_rate = cs->serving.scrub.rate,
    };
    DL_COUNT(cs->serving.copies, c, stats->copies);
}

bool lh_chunkserver_may_act(
    const struct lh_chunkserver *cs, uint64_t chunk, struct lh_instant now, uint64_t *version)
{
    const struct lh_cs_replica *r = lh_idmap_find(&cs->logs.replicas, chunk);

    if (r == NULL || lh_cs_primary_of(r) == NULL || cs->host.stopped)
        return false;
    *version = lh_cs_primary_of(r)->version;
    return lh_holder_may_act(cs->host.holder, chunk, lh_cs_primary_of(r)->version, now);
}

bool lh_chunkserver_in_session(const struct lh_chunkserver *cs, struct lh_instant now)
{
    return lh_cs_session_live(&cs->host) && lh_holder_session_live(cs->host.holder, now);
}

static void check_primary(const struct lh_cs_primary *p)
{
    const struct lh_cs_replica *r = p->replica;
    uint64_t at = r->end;

    LH_ASSERT(lh_cs_primary_of(r) == p);
    LH_ASSERT(p->version <= r->adopting);
    for (size_t i = p->queue.count; i-- > 0;) {
        const struct lh_cs_uncommitted *u =
            &p->queue.items[(p->queue.first + i) % p->queue.capacity];
        LH_ASSERT(u->offset + u->bytes.size == at);
        at = u->offset;
    }
    LH_ASSERT(p->queue.count == 0 || at == r->committed || LH_PLANTED("half-batch-committed"));
    for (size_t i = 0; i < p->member_count; i++) {
        const struct lh_cs_member *m = &p->members[i];
        LH_ASSERT(m->sent <= r->end || m->state < LH_CS_MEMBER_COPYING);
        if (p->state >= LH_CS_PRIMARY_OPEN && m->state == LH_CS_MEMBER_EQUAL)
            LH_ASSERT(m->length <= r->end);
    }
}

void lh_chunkserver_check(const struct lh_chunkserver *cs)
{
    const struct lh_cs_replica *r;
    size_t primaries = 0;

    LH_IDMAP_FOREACH(r, &cs->logs.replicas) {
        primaries += lh_cs_primary_of(r) != NULL;
        LH_ASSERT(lh_cs_primary_of(r) == NULL ||
                  lh_holder_version(cs->host.holder, r->chunk) == lh_cs_primary_of(r)->version);
        LH_ASSERT(r->header.version <= r->adopting);
        LH_ASSERT(r->stirred || r->motion == &lh_cs_idle || !lh_cs_is_idle(r));
        if (r->state != LH_CS_REPLICA_READY)
            continue;
        LH_ASSERT(r->written + r->motion->writing + r->motion->unwritten == r->end);
        LH_ASSERT(r->synced <= r->written);
        LH_ASSERT(r->committed <= r->end);
        LH_ASSERT(r->end <= r->header.chunk_size);
        LH_ASSERT(!r->header.sealed || lh_cs_primary_of(r) == NULL);
        LH_ASSERT(
            !r->incomplete || (lh_cs_primary_of(r) == NULL && lh_cs_served(r)->readings == NULL));
        LH_ASSERT(lh_cs_served(r)->copying == NULL || lh_cs_served(r)->copying->replica == r);
        LH_ASSERT(r->motion->space.reserved <= r->motion->space.tried &&
                  r->motion->space.tried <= r->header.chunk_size);
        if (lh_cs_primary_of(r) != NULL)
            check_primary(lh_cs_primary_of(r));
    }
    /* No lease without a primary part, which shows it (SES-5a, LEASE-8). */
    LH_ASSERT(lh_holder_count(cs->host.holder) == primaries);
    lh_holder_check(cs->host.holder);
}
