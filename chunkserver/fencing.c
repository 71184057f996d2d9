/* Adopting a version at the master's word, when the primary of a chunk is lost and the file is to
 * go on in the next one (FAIL-2a). It fences the old primary, which needs this member for every
 * commit, and tells the master how much of the log is here. */
#include "base/assert.h"
#include "chunkserver/internal.h"

static void answer(
    struct lh_chunkserver *cs, const struct replica *r, uint64_t chunk, uint64_t version, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Fenced fenced = LEASEHOLD__FENCED__INIT;

    fenced.session = session_id(cs);
    fenced.chunk = chunk;
    fenced.version = version;
    fenced.error = (Leasehold__ErrorCode)-error;
    if (error == LH_OK) {
        fenced.length = r->end;
        fenced.checksum = r->checksum;
        fenced.doubted = replica_doubted(r);
        fenced.committed = replica_known_committed(r);
        fenced.cut = r->header.cut;
        fenced.read_back = r->read_back;
        if (r->fenced.version == version) {
            LH_MARK("fenced-with-what-is-committed");
            fenced.length = r->fenced.length;
            fenced.checksum = r->fenced.checksum;
            fenced.primary = true;
        }
    }
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_FENCED;
    m.fenced = &fenced;
    session_send(cs, &m);
}

/* Why this replica cannot be fenced now. */
static int refusal(const struct replica *r, uint64_t version)
{
    if (r == NULL || r->state == REPLICA_CREATING || r->state == REPLICA_REMOVING || r->incomplete)
        return LH_ERR_NO_REPLICA;
    if (r->state == REPLICA_LOST)
        return LH_ERR_CORRUPT;
    if (version < r->adopting)
        return LH_ERR_STALE_VERSION;
    if (r->state != REPLICA_READY)
        return LH_ERR_RECOVERING;
    return LH_OK;
}

/* Asked again while the first adoption is under way: its answer goes to the present session. */
static bool under_way(struct replica *r, const Leasehold__Fence *m)
{
    for (struct job *j = r->jobs; j != NULL; j = j->next) {
        if (j->kind == JOB_ADOPT && j->origin == FOR_MASTER && j->version == m->version) {
            j->session = m->session;
            return true;
        }
    }
    return false;
}

void fencing_message(struct lh_chunkserver *cs, const Leasehold__Fence *m)
{
    struct replica *r = replica_find(cs, m->chunk);

    if (!session_named(cs, m->session, m->master_term) || m->version == 0)
        return;
    int error = refusal(r, m->version);
    if (error == LH_OK && replica_sealing(r)) {
        LH_MARK("fence-after-seal");
        return; /* it was decided without this answer */
    }
    if (error != LH_OK || LH_PLANTED("roll-without-fence")) {
        LH_MARK("fence-refused");
        answer(cs, r, m->chunk, error == LH_ERR_STALE_VERSION ? r->adopting : m->version, error);
        return;
    }
    if (under_way(r, m))
        return;
    LH_MARK("fence-adopts");
    replica_submit(r, (struct job){
                          .kind = JOB_ADOPT,
                          .origin = FOR_MASTER,
                          .session = m->session,
                          .version = m->version,
                      });
    /* Both name the version that they are fenced by. */
    if (r->primary != NULL) {
        LH_MARK("fence-ends-primary");
        /* It knows exactly what was acknowledged: all that it has committed, and nothing more. */
        if (r->primary->state >= PRIMARY_OPEN) {
            r->fenced.version = m->version;
            r->fenced.length = r->committed;
            r->fenced.checksum = r->primary->committed_checksum;
        }
        primary_abandon(r->primary, LH_ERR_STALE_VERSION);
    }
    secondary_end(r, LH_ERR_STALE_VERSION);
    replica_pump(r);
}

void fencing_job_done(struct lh_chunkserver *cs, struct replica *r, const struct job *j, int error)
{
    if (error == LH_OK && r->adopting > j->version)
        error = LH_ERR_STALE_VERSION;
    else if (error != LH_OK && r->state == REPLICA_CUTTING)
        error = LH_ERR_RECOVERING;
    else if (error == LH_OK && r->state != REPLICA_READY)
        error = LH_ERR_NO_REPLICA; /* lost or being removed by now: what it has is not for sure */
    /* FENCE-1: the version, and every byte accepted below it. */
    LH_ASSERT(error != LH_OK || (r->written == r->end && r->synced == r->end));
    answer(cs, r, r->chunk, error == LH_ERR_STALE_VERSION ? r->adopting : j->version, error);
}
