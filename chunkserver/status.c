/* What observers and operators see of a chunkserver, and its own invariants. */
#include "base/assert.h"
#include "chunkserver/rooms.h"

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
        .open = lh_cs_primary_of(r) != NULL && lh_cs_primary_is_open(lh_cs_primary_of(r)),
        .appends = lh_cs_primary_of(r) == NULL ? 0 : lh_cs_primary_appends(lh_cs_primary_of(r)),
    };
    return true;
}

void lh_chunkserver_stats(const struct lh_chunkserver *cs, struct lh_chunkserver_stats *stats)
{
    const struct lh_cs_serving_figures serving = lh_cs_serving_figures(cs->serving);

    *stats = (struct lh_chunkserver_stats){
        .copies = serving.copies,
        .copied_in = serving.copied_in,
        .copied_out = serving.copied_out,
        .scrub_passes = serving.scrub.passes,
        .scrub_read = serving.scrub.read,
        .scrub_found = serving.scrub.found,
        .scrub_chunk = serving.scrub.chunk,
        .scrub_rate = serving.scrub.rate,
    };
}

bool lh_chunkserver_may_act(
    const struct lh_chunkserver *cs, uint64_t chunk, struct lh_instant now, uint64_t *version)
{
    const struct lh_cs_replica *r = lh_idmap_find(&cs->logs.replicas, chunk);

    if (r == NULL || lh_cs_primary_of(r) == NULL || cs->host.stopped)
        return false;
    *version = lh_cs_primary_version(lh_cs_primary_of(r));
    return lh_holder_may_act(
        cs->host.holder, chunk, lh_cs_primary_version(lh_cs_primary_of(r)), now);
}

bool lh_chunkserver_in_session(const struct lh_chunkserver *cs, struct lh_instant now)
{
    return lh_cs_session_live(&cs->host) && lh_holder_session_live(cs->host.holder, now);
}

void lh_chunkserver_check(const struct lh_chunkserver *cs)
{
    const struct lh_cs_replica *r;
    size_t primaries = 0;

    LH_IDMAP_FOREACH(r, &cs->logs.replicas) {
        primaries += lh_cs_primary_of(r) != NULL;
        LH_ASSERT(lh_cs_primary_of(r) == NULL || lh_holder_version(cs->host.holder, r->chunk) ==
                                                     lh_cs_primary_version(lh_cs_primary_of(r)));
        lh_cs_replica_check(r);
        if (r->state != LH_CS_REPLICA_READY)
            continue;
        LH_ASSERT(!r->header.sealed || lh_cs_primary_of(r) == NULL);
        LH_ASSERT(!r->incomplete || lh_cs_primary_of(r) == NULL);
        lh_cs_serving_check(r);
        if (lh_cs_primary_of(r) != NULL)
            lh_cs_primary_check(lh_cs_primary_of(r));
    }
    /* No lease without a primary part, which shows it (SES-5a, LEASE-8). */
    LH_ASSERT(lh_holder_count(cs->host.holder) == primaries);
    lh_holder_check(cs->host.holder);
}
