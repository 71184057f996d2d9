/* What rooms above may do to a replica as a whole. */
#include "chunkserver/log/frozen.h"
#include "chunkserver/log/internal.h"
#include "chunkserver/log/jobs.h"
#include "chunkserver/log/tables.h"

void lh_cs_replica_create(
    struct lh_cs_replica *r, const struct lh_chunk_header *h, struct lh_cs_job job)
{
    r->state = LH_CS_REPLICA_CREATING;
    r->header = *h;
    r->adopting = h->version;
    job.kind = LH_CS_JOB_CREATE;
    lh_cs_replica_submit(r, job);
    lh_cs_replica_pump(r);
}

void lh_cs_replica_clear(struct lh_cs_replica *r, enum lh_cs_clearing how)
{
    r->headless = how == LH_CS_CLEAR_REPLACE;
    r->anew = how == LH_CS_CLEAR_ANEW;
    r->end = r->written = r->synced = r->committed = 0;
    r->checksum = lh_log_seed(r->chunk);
    lh_cs_replica_drop_unwritten(r);
    lh_writers_clear(&r->writers);
}

void lh_cs_replica_put_back(struct lh_cs_replica *r)
{
    if (r->anew)
        lh_cs_put_old_back(r, LH_ERR_CANCELLED);
}

void lh_cs_replica_mark_incomplete(struct lh_cs_replica *r)
{
    r->incomplete = true;
}

void lh_cs_replica_fence(struct lh_cs_replica *r, uint64_t version)
{
    if (version > r->adopting)
        r->adopting = version;
}

void lh_cs_replica_seal(struct lh_cs_replica *r, struct lh_cs_job job)
{
    if (!lh_cs_table_cut(r, job.length))
        LH_MARK("seal-cuts-unknown-writers");
    job.kind = LH_CS_JOB_SEAL;
    lh_cs_replica_submit(r, job);
    lh_cs_replica_readable(r); /* settlings */
    lh_cs_replica_pump(r);
}

void lh_cs_replica_remove(struct lh_cs_replica *r, struct lh_cs_job job)
{
    lh_cs_replica_drop_unwritten(r);
    r->end = r->written + r->active->writing;
    r->anew = false; /* the file that was to take its place goes with it */
    lh_cs_thawed(r);
    r->state = LH_CS_REPLICA_REMOVING;
    /* What waits would vouch for bytes that are not written any more. */
    lh_cs_jobs_drop_waiting(r, LH_ERR_NO_REPLICA);
    job.kind = LH_CS_JOB_REMOVE;
    lh_cs_replica_submit(r, job);
    lh_cs_replica_pump(r);
}

void lh_cs_replica_differs(struct lh_cs_replica *r)
{
    LH_MARK("log-differs-from-anothers");
    r->logs->users->differs(r);
}

void lh_cs_replica_take_away(struct lh_cs_replica *r, uint64_t length, uint64_t checksum)
{
    r->end = r->written = r->synced = length;
    r->checksum = checksum;
    if (r->committed > length)
        r->committed = length;
    lh_writers_clear(&r->writers);
    lh_cs_replica_submit(r, (struct lh_cs_job){.kind = LH_CS_JOB_TRUNCATE, .length = length});
}
