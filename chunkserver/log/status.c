/* What operators see of the logs, and their own invariants. */
#include "chunkserver/log/internal.h"

#include "base/assert.h"
#include "chunkserver/log/space.h"

struct lh_cs_log_figures lh_cs_logs_figures(const struct lh_cs_logs *logs)
{
    struct lh_cs_log_figures f = {
        .settle_tables = logs->internal->tables.count,
        .starved = lh_cs_disk_starved(logs),
        .promised = lh_cs_space_promised(logs),
    };
    const struct lh_cs_replica *r;

    LH_IDMAP_FOREACH(r, &logs->replicas) {
        f.bytes += r->end;
        f.writers += lh_writers_count(r->writers);
        f.lost += r->state == LH_CS_REPLICA_LOST;
        f.sealed += r->header.sealed;
        f.copying += r->header.copying;
    }
    return f;
}

void lh_cs_replica_check(const struct lh_cs_replica *r)
{
    LH_ASSERT(r->header.version <= r->adopting);
    LH_ASSERT(r->changed || r->active == &lh_cs_idle || !lh_cs_is_idle(r));
    LH_ASSERT(
        r->state != LH_CS_REPLICA_FROZEN || r->active->jobs != NULL || r->active->frozen.listed);
    if (r->state != LH_CS_REPLICA_READY)
        return;
    LH_ASSERT(r->written + r->active->writing + r->active->unwritten == r->end);
    LH_ASSERT(r->synced <= r->written);
    LH_ASSERT(r->committed <= r->end);
    LH_ASSERT(r->end <= r->header.chunk_size);
    LH_ASSERT(r->active->space.reserved <= r->active->space.tried &&
              r->active->space.tried <= r->header.chunk_size);
}
