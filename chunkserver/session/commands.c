/* What the master asks of this server within a session, and the answers: grants and recalls
 * (LEASE-1 to LEASE-6), seals (SEAL-1), replicas to create and to remove. */
#include "chunkserver/session/internal.h"

#include "batch/batch.h"

#include <string.h>

static void on_grant(struct lh_cs_session *s, const Leasehold__Grant *g)
{
    struct lh_cs_host *cs = s->cs;
    struct lh_cs_replica *r = lh_cs_replica_find(s->logs, g->chunk);
    struct lh_cs_primary *p = r == NULL ? NULL : lh_cs_primary_of(r);

    if (!lh_cs_session_named(cs, g->session, g->master_term) || g->stamp > cs->master.stamp_sent)
        return;
    if (p != NULL && g->version < lh_cs_primary_version(p))
        return;
    int refusal = LH_OK;
    if (r == NULL || r->state == LH_CS_REPLICA_CREATING || r->incomplete)
        refusal = LH_ERR_NO_REPLICA;
    else if (r->state == LH_CS_REPLICA_LOST || r->state == LH_CS_REPLICA_REMOVING)
        refusal = LH_ERR_CORRUPT;
    else if (r->state == LH_CS_REPLICA_FROZEN)
        refusal = LH_ERR_IO;
    else if (lh_cs_replica_sealing(r))
        refusal = LH_ERR_CHUNK_FULL;
    else if (g->version < r->adopting)
        refusal = LH_ERR_STALE_VERSION;
    else if (cs->stopping)
        refusal = LH_ERR_SHUTTING_DOWN;
    else if (s->disk.failing)
        refusal = LH_ERR_IO;
    if (refusal == LH_ERR_IO)
        LH_MARK("grant-refused-failing-disk");
    else if (refusal == LH_ERR_CORRUPT)
        LH_MARK("grant-refused-lost-replica");
    else if (refusal == LH_ERR_SHUTTING_DOWN)
        LH_MARK("grant-refused-stopping");
    if (refusal != LH_OK) {
        lh_cs_grant_refuse(s->primaries, g->chunk, g->version, refusal);
        return;
    }
    struct lh_instant sent_at = lh_cs_term_begins(cs, g->stamp);
    int error = lh_holder_grant(
        cs->holder, g->session, g->chunk, g->version, sent_at, lh_nanoseconds(g->term_ns));
    if (error == LH_ERR_STALE_VERSION) {
        LH_MARK("grant-of-released-version");
        lh_cs_grant_confirm(s->primaries, g->chunk, g->version, error);
        return;
    }
    if (error != LH_OK)
        return;
    if (p != NULL && lh_cs_primary_version(p) == g->version) {
        lh_cs_primary_grant_again(p, g);
        return;
    }
    cs->counts.grants++;
    if (!lh_cs_grant_names(cs, g)) {
        lh_cs_grant_refuse(s->primaries, g->chunk, g->version, LH_ERR_INVALID_ARGUMENT);
        return;
    }
    if (p != NULL) {
        LH_MARK("primary-at-new-version");
        lh_cs_primary_discard(p, LH_ERR_STALE_VERSION); /* the holder stays (LEASE-3) */
    }
    lh_cs_secondary_end(r, LH_ERR_STALE_VERSION);
    lh_cs_primary_grant(s->primaries, r, g);
}

static void on_recall(struct lh_cs_session *s, const Leasehold__RecallLease *m)
{
    struct lh_cs_host *cs = s->cs;

    if (!lh_cs_session_live(cs) || m->session != lh_cs_session_id(cs))
        return;
    lh_cs_lease_recall(s->primaries, m->chunk, m->version);
}

/* `kept`: it cannot be recorded, but the log adds up to it, and is read as a sealed one. */
static void seal_recorded(
    struct lh_cs_host *cs, uint64_t chunk, uint64_t version, int error, bool kept)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__SealRecorded recorded = LEASEHOLD__SEAL_RECORDED__INIT;

    recorded.session = lh_cs_session_id(cs);
    recorded.chunk = chunk;
    recorded.version = version;
    recorded.error = (Leasehold__ErrorCode)-error;
    recorded.kept = kept;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED;
    m.seal_recorded = &recorded;
    lh_cs_send(cs, &m);
}

/* Is the answer still wanted in this session? */
static bool asked_now(const struct lh_cs_replica *r, const struct lh_cs_job *j)
{
    return lh_cs_session_live(r->logs->cs) && j->session == lh_cs_session_id(r->logs->cs);
}

static void sealed(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    if (!asked_now(r, j) || (error != LH_OK && !r->unrecorded))
        return;
    seal_recorded(r->logs->cs, r->chunk, j->version, error, error != LH_OK);
}

static void record(struct lh_cs_replica *r, struct lh_cs_job seal)
{
    LH_MARK("seal-recorded");
    seal.owner = sealed;
    lh_cs_replica_seal(r, seal);
}

/* REC-5: it has all that the seal covers, and nobody else may have it any more; or another log, and
 * it is refreshed. */
static void compared(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    if (!asked_now(r, j) || (r->adopting >= j->version && r->state != LH_CS_REPLICA_FROZEN))
        return; /* the master tells it again when this server registers */
    if (error == LH_ERR_IO && (r->state == LH_CS_REPLICA_READY || r->state == LH_CS_REPLICA_FROZEN))
        return; /* it could not be read now: the master tells it again to who says nothing */
    bool frozen = r->state == LH_CS_REPLICA_FROZEN;
    if (error != LH_OK || !j->matches || (r->state != LH_CS_REPLICA_READY && !frozen) ||
        r->incomplete || lh_cs_primary_of(r) != NULL) {
        seal_recorded(r->logs->cs, r->chunk, j->version, LH_ERR_UNAVAILABLE, false);
        return;
    }
    if (frozen) {
        struct lh_cs_job seal = *j;
        seal.owner = sealed;
        lh_cs_replica_seal_kept(r, &seal);
        seal_recorded(r->logs->cs, r->chunk, j->version, LH_ERR_IO, true);
        return;
    }
    LH_MARK("seal-of-missed-version-adds-up");
    if (r->end > j->length)
        LH_MARK("seal-of-missed-version-is-shorter");
    lh_cs_replica_fence(r, j->version);
    lh_cs_secondary_end(r, LH_ERR_CHUNK_FULL);
    record(r, *j); /* of the same seal */
}

/* KEEP-4: behind an older copy of its store the master takes a seal on, at a version of its own. */
static bool is_taken_on(const struct lh_cs_replica *r, const struct lh_cs_job *seal)
{
    return seal->version > r->header.version && seal->length == r->header.sealed_length &&
           seal->checksum == r->header.sealed_checksum;
}

/* If it cannot be recorded now the master tells it again. */
static void record_above(struct lh_cs_replica *r, struct lh_cs_job seal)
{
    if (r->state != LH_CS_REPLICA_READY || r->adopting >= seal.version)
        return;
    LH_MARK("seal-recorded-above");
    lh_cs_replica_fence(r, seal.version);
    record(r, seal);
}

/* REC-9: what is whole of it below the seal is read. Only of a log that was fenced, or followed, at
 * the seal's very version: another one may be another log. */
static void record_damaged(struct lh_cs_replica *r, const struct lh_cs_job *seal)
{
    if (r->headless || r->incomplete || r->in_doubt || r->adopting != seal->version ||
        lh_cs_replica_sealing(r))
        return;
    LH_MARK("seal-recorded-by-a-damaged-replica");
    record(r, *seal);
}

static void on_record_seal(struct lh_cs_session *s, const Leasehold__RecordSeal *m)
{
    struct lh_cs_host *cs = s->cs;
    struct lh_cs_replica *r = lh_cs_replica_find(s->logs, m->chunk);

    if (!lh_cs_session_named(cs, m->session, m->master_term))
        return;
    lh_cs_seal_forget(s->primaries, m->chunk);
    if (r == NULL || r->state == LH_CS_REPLICA_REMOVING)
        return;
    const struct lh_cs_job seal = {
        .session = m->session,
        .version = m->version,
        .length = m->length,
        .checksum = m->checksum,
    };
    if (r->state == LH_CS_REPLICA_LOST) {
        record_damaged(r, &seal);
        return;
    }
    if (r->incomplete) {
        seal_recorded(cs, m->chunk, m->version, LH_ERR_UNAVAILABLE, false);
        return; /* the copy records it (REC-4) */
    }
    if (r->header.sealed && is_taken_on(r, &seal)) {
        record_above(r, seal);
        return;
    }
    if (r->state == LH_CS_REPLICA_READY && lh_cs_replica_sealed_now(r)) {
        seal_recorded(cs, m->chunk, r->header.version, LH_OK, false);
        return;
    }
    if (r->state == LH_CS_REPLICA_FROZEN && r->header.sealed) {
        lh_cs_replica_seal_session(r, m->session);
        seal_recorded(
            cs, m->chunk, r->header.version, r->unrecorded ? LH_ERR_IO : LH_OK, r->unrecorded);
        return;
    }
    /* Only a member of the sealed version holds everything below the sealed length. One that was
     * not reached by the fence is made equal by a copy, unless its log adds up to the very seal. */
    bool frozen = r->state == LH_CS_REPLICA_FROZEN && r->adopting <= m->version;
    bool missed = r->state == LH_CS_REPLICA_READY && r->adopting < m->version;
    if ((missed && lh_cs_primary_of(r) == NULL) || frozen) {
        LH_MARK("seal-of-a-version-that-was-missed");
        struct lh_cs_job comparison = seal;
        comparison.kind = LH_CS_JOB_COMPARE;
        comparison.owner = compared;
        if (lh_cs_job_asked_again(r, &comparison))
            return;
        lh_cs_replica_submit(r, comparison);
        lh_cs_replica_pump(r);
        return;
    }
    if (r->state != LH_CS_REPLICA_READY || r->adopting != m->version)
        return; /* the master resends it when this server registers */
    if (lh_cs_replica_sealing(r))
        return; /* asked again: the answer is on its way */
    if (lh_cs_primary_of(r) != NULL)
        lh_cs_primary_abandon(lh_cs_primary_of(r), LH_ERR_CHUNK_FULL);
    lh_cs_secondary_end(r, LH_ERR_CHUNK_FULL);
    if (r->end < m->length || (r->end == m->length && r->checksum != m->checksum &&
                                  !LH_PLANTED("seal-recorded-over-another-log"))) {
        /* A machine that went down, or was not reached while others went on (FAIL-2a): what is here
         * is used as far as it agrees, and a copy makes it a full member again (REC-5). */
        LH_MARK("seal-above-own-log");
        seal_recorded(cs, m->chunk, m->version, LH_ERR_UNAVAILABLE, false);
        return;
    }
    record(r, seal);
}

static void created(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    (void)j;
    lh_cs_report_creation(r, error);
}

static void on_create(struct lh_cs_session *s, const Leasehold__CreateReplica *m)
{
    struct lh_cs_host *cs = s->cs;
    struct lh_cs_replica *r = lh_cs_replica_find(s->logs, m->chunk);

    if (!lh_cs_session_named(cs, m->session, m->master_term) || !LH_CS_IS_CHUNK(m->chunk))
        return;
    if (m->chunk_size < LH_CHUNK_BYTES_MIN || m->chunk_size > LH_CHUNK_BYTES_MAX ||
        m->version > 1) {
        lh_cs_report_created(cs, m->chunk, LH_ERR_INVALID_ARGUMENT);
        return;
    }
    if (r != NULL && r->state == LH_CS_REPLICA_CREATING && !r->incomplete)
        return; /* asked again: the answer is on its way */
    if (r != NULL && !lh_cs_replica_is_left_over(r)) {
        /* At version 1 also where 0 was asked for: it was created ahead, and a master that started
         * since knows of the chunk alone. */
        bool empty = r->state == LH_CS_REPLICA_READY && r->adopting >= m->version &&
                     r->adopting <= 1 && r->end == 0 && lh_cs_primary_of(r) == NULL &&
                     !r->incomplete;
        lh_cs_report_created(cs, m->chunk, empty ? LH_OK : LH_ERR_ALREADY_EXISTS);
        return;
    }
    if (r == NULL)
        r = lh_cs_replica_add(s->logs, m->chunk, LH_CS_REPLICA_CREATING);
    else
        lh_cs_replica_clear(r, LH_CS_CLEAR_REPLACE); /* its file could not be removed */
    struct lh_chunk_header h = {
        .version = m->version,
        .chunk_size = m->chunk_size,
        .durability = m->durability == LEASEHOLD__DURABILITY__SYNCED
                          ? LEASEHOLD__DURABILITY__SYNCED
                          : LEASEHOLD__DURABILITY__BUFFERED,
    };
    memcpy(h.equal_boot, cs->config.boot_id, LH_BOOT_ID_BYTES);
    lh_cs_replica_create(r, &h, (struct lh_cs_job){.owner = created, .session = m->session});
}

static void replica_removed(struct lh_cs_host *cs, uint64_t chunk, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaRemoved reply = LEASEHOLD__REPLICA_REMOVED__INIT;

    reply.session = lh_cs_session_id(cs);
    reply.chunk = chunk;
    reply.error = (Leasehold__ErrorCode)-error;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REMOVED;
    m.removed = &reply;
    lh_cs_send(cs, &m);
}

static void removed(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    /* That it is still there is news in any session: no registration has told of it meanwhile. */
    if (error != LH_OK || asked_now(r, j))
        replica_removed(r->logs->cs, r->chunk, error);
}

static void on_remove(struct lh_cs_session *s, const Leasehold__RemoveReplica *m)
{
    struct lh_cs_host *cs = s->cs;
    struct lh_cs_replica *r = lh_cs_replica_find(s->logs, m->chunk);

    if (!lh_cs_session_named(cs, m->session, m->master_term))
        return;
    if (r == NULL) {
        replica_removed(cs, m->chunk, LH_OK);
        return;
    }
    if (r->state == LH_CS_REPLICA_CREATING && !r->incomplete)
        return;
    if (r->state == LH_CS_REPLICA_REMOVING) {
        lh_cs_jobs_asked_again(r, m->session);
        return;
    }
    if (m->version == 0 ? r->adopting > 1 || r->end > 0 || lh_cs_primary_of(r) != NULL
                        : r->adopting > m->version) {
        /* FENCE-2; or it is not as unused as the master thinks. */
        replica_removed(cs, m->chunk, LH_ERR_STALE_VERSION);
        return;
    }
    if (r->state != LH_CS_REPLICA_READY && r->state != LH_CS_REPLICA_FROZEN &&
        r->state != LH_CS_REPLICA_LOST && !r->incomplete) {
        replica_removed(cs, m->chunk, LH_ERR_RECOVERING); /* being read back */
        return;
    }
    if (lh_cs_primary_of(r) != NULL)
        lh_cs_primary_abandon(lh_cs_primary_of(r), LH_ERR_NOT_FOUND);
    lh_cs_serving_end(r);
    lh_cs_seal_forget(s->primaries, r->chunk);
    lh_holder_forget(cs->holder, r->chunk);
    lh_cs_replica_remove(r, (struct lh_cs_job){.owner = removed, .session = m->session});
}

void lh_cs_commands_message(struct lh_cs_session *s, const Leasehold__SessionReply *m)
{
    switch (m->body_case) {
    case LEASEHOLD__SESSION_REPLY__BODY_GRANT:
        on_grant(s, m->grant);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_RECALL:
        on_recall(s, m->recall);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL:
        on_record_seal(s, m->record_seal);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_CREATE:
        on_create(s, m->create);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_REMOVE:
        on_remove(s, m->remove);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_COPY:
        lh_cs_copying_message(s->serving, m->copy);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_FENCE:
        lh_cs_fencing_message(s->serving, m->fence);
        break;
    default:
        break; /* a newer master's command that this server does not know */
    }
}
