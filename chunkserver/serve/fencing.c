/* Adopting a version that the master names, when the primary of a chunk is lost and the file is to
 * go on in the next one (FAIL-2a). It fences the old primary, which needs this member for every
 * commit, and tells the master how much of the log is here. */
#include "chunkserver/serve/internal.h"

#include "base/assert.h"

static void answer(struct lh_cs_host *cs, const struct lh_cs_replica *r, uint64_t chunk,
    uint64_t version, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Fenced fenced = LEASEHOLD__FENCED__INIT;

    fenced.session = lh_cs_session_id(cs);
    fenced.chunk = chunk;
    fenced.version = version;
    fenced.error = (Leasehold__ErrorCode)-error;
    if (error == LH_OK && r != NULL) {
        fenced.length = r->end;
        fenced.checksum = r->checksum;
        fenced.damaged = r->state == LH_CS_REPLICA_LOST;
        fenced.unverified = lh_cs_replica_unverified(r);
        fenced.committed = lh_cs_replica_known_committed(r);
        fenced.truncated = lh_cs_replica_truncated(r);
        if (lh_cs_served(r)->fenced.version == version) {
            LH_MARK("fenced-with-what-is-committed");
            fenced.unverified = fenced.truncated = false; /* it knows, whatever its disk has */
            fenced.length = lh_cs_served(r)->fenced.length;
            fenced.checksum = lh_cs_served(r)->fenced.checksum;
            fenced.primary = true;
        }
    }
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_FENCED;
    m.fenced = &fenced;
    lh_cs_send(cs, &m);
}

/* Why this replica cannot be fenced now. */
static int refusal(const struct lh_cs_replica *r, uint64_t version)
{
    if (r == NULL || r->state == LH_CS_REPLICA_CREATING || r->state == LH_CS_REPLICA_REMOVING ||
        (r->incomplete && !LH_PLANTED("incomplete-replica-gives-a-length")))
        return LH_ERR_NO_REPLICA;
    /* What of a file in doubt is on the disk is not known, and is not going to be (FAIL-5). */
    if (r->state == LH_CS_REPLICA_LOST &&
        (r->headless || r->in_doubt || LH_PLANTED("damaged-log-gives-no-length")))
        return LH_ERR_CORRUPT;
    if (version < r->adopting)
        return LH_ERR_STALE_VERSION;
    if (r->state != LH_CS_REPLICA_READY && !lh_cs_replica_is_kept(r))
        return LH_ERR_RECOVERING;
    return LH_OK;
}

void lh_cs_fencing_primary_ends(struct lh_cs_replica *r)
{
    struct lh_cs_primary *p = lh_cs_primary_of(r);

    if (!lh_cs_primary_has_recovered(p))
        return;
    struct lh_cs_served *s = lh_cs_serve(r);
    s->word.version = lh_cs_primary_version(p);
    s->word.length = r->committed;
    s->word.checksum = lh_cs_primary_committed_checksum(p);
}

/* REC-7: it cannot write the version down, so it is not fenced, whatever it answers. But who was
 * the primary until now, and gave that up since its disk refuses changes, is as good as fenced:
 * the right to commit was in its memory, and nobody has committed anything since without it. */
static void fence_frozen(struct lh_cs_replica *r, uint64_t version)
{
    struct lh_cs_served *s = lh_cs_serve(r);

    if (s->word.version > 0 && s->word.version == r->adopting && !lh_cs_replica_sealing(r)) {
        s->fenced = s->word;
        s->fenced.version = version;
    }
    lh_cs_replica_fence(r, version);
    if (s->fenced.version == version)
        LH_MARK("frozen-primary-gives-its-word");
    else
        LH_MARK("frozen-member-is-not-fenced");
    bool fenced = s->fenced.version == version || LH_PLANTED("fenced-in-memory");
    answer(r->logs->cs, r, r->chunk, version, fenced ? LH_OK : LH_ERR_IO);
}

static void job_done(struct lh_cs_replica *r, const struct lh_cs_job *j, int error);

void lh_cs_fencing_message(struct lh_cs_serving *serving, const Leasehold__Fence *m)
{
    struct lh_cs_host *cs = serving->cs;
    struct lh_cs_replica *r = lh_cs_replica_find(serving->logs, m->chunk);

    if (!lh_cs_session_named(cs, m->session, m->master_term) || m->version == 0)
        return;
    int error = refusal(r, m->version);
    if (error == LH_OK && lh_cs_replica_sealing(r)) {
        LH_MARK("fence-after-seal");
        return; /* it was decided without this answer */
    }
    if (r == NULL && LH_PLANTED("fenced-without-replica")) {
        answer(cs, NULL, m->chunk, m->version, LH_OK);
        return;
    }
    if (error != LH_OK || LH_PLANTED("roll-without-fence")) {
        LH_MARK("fence-refused");
        answer(cs, r, m->chunk, error == LH_ERR_STALE_VERSION ? r->adopting : m->version, error);
        return;
    }
    if (r->state == LH_CS_REPLICA_FROZEN) {
        fence_frozen(r, m->version);
        return;
    }
    const struct lh_cs_job adoption = {
        .kind = LH_CS_JOB_ADOPT,
        .owner = job_done,
        .session = m->session,
        .version = m->version,
    };
    if (lh_cs_job_asked_again(r, &adoption))
        return;
    LH_MARK("fence-adopts");
    lh_cs_replica_submit(r, adoption);
    /* Both name the version that they are fenced by. */
    struct lh_cs_primary *p = lh_cs_primary_of(r);
    if (p != NULL) {
        LH_MARK("fence-ends-primary");
        /* It knows exactly what was acknowledged: all that it has committed, and nothing more. */
        if (lh_cs_primary_has_recovered(p)) {
            struct lh_cs_served *s = lh_cs_serve(r);
            s->fenced.version = m->version;
            s->fenced.length = r->committed;
            s->fenced.checksum = lh_cs_primary_committed_checksum(p);
        }
        lh_cs_primary_abandon(p, LH_ERR_STALE_VERSION);
    }
    lh_cs_secondary_end(r, LH_ERR_STALE_VERSION);
    lh_cs_replica_pump(r);
}

static void job_done(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    if (!lh_cs_session_live(r->logs->cs) || j->session != lh_cs_session_id(r->logs->cs))
        return;
    if (error == LH_OK && r->adopting > j->version)
        error = LH_ERR_STALE_VERSION;
    else if (error != LH_OK && r->state == LH_CS_REPLICA_FROZEN)
        error = lh_cs_served(r)->fenced.version == j->version ? LH_OK : LH_ERR_IO;
    else if (error == LH_OK && r->state == LH_CS_REPLICA_LOST && r->in_doubt)
        error = LH_ERR_CORRUPT; /* by a sync that failed meanwhile */
    else if (error == LH_OK && r->state != LH_CS_REPLICA_READY && r->state != LH_CS_REPLICA_LOST)
        error = LH_ERR_NO_REPLICA; /* being removed by now: what it has is not for sure */
    /* FENCE-1: the version, and every byte accepted below it. */
    LH_ASSERT(error != LH_OK || r->state == LH_CS_REPLICA_FROZEN ||
              (r->written == r->end && r->synced == r->end));
    answer(
        r->logs->cs, r, r->chunk, error == LH_ERR_STALE_VERSION ? r->adopting : j->version, error);
}
