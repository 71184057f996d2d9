/* What the master asks of this server within a session, and what it is told of it: grants and
 * recalls (LEASE-1 to LEASE-6), seals (SEAL-1), replicas to create and to remove. */
#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "chunkserver/internal.h"

#include <stdlib.h>
#include <string.h>

void orders_confirm_grant(struct lh_chunkserver *cs, uint64_t chunk, uint64_t version, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__GrantConfirm c = LEASEHOLD__GRANT_CONFIRM__INIT;

    c.session = session_id(cs);
    c.chunk = chunk;
    c.version = version;
    c.error = (Leasehold__ErrorCode)-error;
    if (error != LH_OK) {
        const struct replica *r = replica_find(cs, chunk);
        c.adopted = r == NULL ? 0 : r->adopting;
        cs->counts.grants_refused++;
    }
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM;
    m.confirm = &c;
    session_send(cs, &m);
}

void orders_refuse_grant(struct lh_chunkserver *cs, uint64_t chunk, uint64_t version, int error)
{
    struct replica *r = replica_find(cs, chunk);

    if (r != NULL && r->primary != NULL && r->primary->version <= version)
        primary_discard(r->primary, error); /* the master hears of it with the refusal */
    lh_holder_release(cs->holder, chunk, version);
    orders_confirm_grant(cs, chunk, version, error);
}

static void on_grant(struct lh_chunkserver *cs, const Leasehold__Grant *g)
{
    struct replica *r = replica_find(cs, g->chunk);
    struct session *s = &cs->session;

    if (!session_named(cs, g->session, g->master_term) || g->stamp > s->stamp_sent)
        return;
    if (r != NULL && r->primary != NULL && g->version < r->primary->version)
        return;
    int refusal = LH_OK;
    if (r == NULL || r->state == REPLICA_CREATING || r->incomplete)
        refusal = LH_ERR_NO_REPLICA;
    else if (r->state == REPLICA_LOST || r->state == REPLICA_REMOVING)
        refusal = LH_ERR_CORRUPT;
    else if (replica_sealing(r))
        refusal = LH_ERR_CHUNK_FULL;
    else if (g->version < r->adopting)
        refusal = LH_ERR_STALE_VERSION;
    else if (cs->stopping)
        refusal = LH_ERR_SHUTTING_DOWN;
    else if (s->failing)
        refusal = LH_ERR_IO;
    if (refusal == LH_ERR_IO)
        LH_MARK("grant-refused-failing-disk");
    else if (refusal == LH_ERR_CORRUPT)
        LH_MARK("grant-refused-lost-replica");
    else if (refusal == LH_ERR_SHUTTING_DOWN)
        LH_MARK("grant-refused-stopping");
    if (refusal != LH_OK) {
        orders_refuse_grant(cs, g->chunk, g->version, refusal);
        return;
    }
    struct lh_instant sent_at = term_begins(cs, g->stamp);
    int error = lh_holder_grant(
        cs->holder, g->session, g->chunk, g->version, sent_at, lh_nanoseconds(g->term_ns));
    if (error == LH_ERR_STALE_VERSION) {
        LH_MARK("grant-of-released-version");
        orders_confirm_grant(cs, g->chunk, g->version, error);
        return;
    }
    if (error != LH_OK)
        return;
    if (r->primary != NULL && r->primary->version == g->version) {
        /* Resent: the term is new, and addresses may be. Confirm again if the version is durable by
         * now. */
        primary_addresses(r->primary, g);
        primary_set_timer(r->primary);
        if (r->header.version == g->version && r->primary->state != PRIMARY_ADOPTING)
            orders_confirm_grant(cs, g->chunk, g->version, LH_OK);
        return;
    }
    cs->counts.grants++;
    primary_grant(r, g);
}

void orders_tell_release(struct lh_chunkserver *cs, uint64_t chunk, uint64_t version, bool ran_out)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Release release = LEASEHOLD__RELEASE__INIT;

    if (cs->session.state != SESSION_LIVE) {
        LH_MARK("release-without-session");
        return; /* the next registration does not show it (SES-5a) */
    }
    release.session = session_id(cs);
    release.chunk = chunk;
    release.version = version;
    release.ran_out = ran_out;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_RELEASE;
    m.release = &release;
    session_send(cs, &m);
}

void orders_release(struct lh_chunkserver *cs, uint64_t chunk, uint64_t version, bool ran_out)
{
    if (!ran_out)
        cs->counts.releases++;
    lh_holder_release(cs->holder, chunk, version);
    orders_tell_release(cs, chunk, version, ran_out);
}

void orders_resend_seals(struct lh_chunkserver *cs)
{
    struct unconfirmed_seal *seal, *next;

    HASH_ITER(hh, cs->seals, seal, next)
    {
        const struct replica *r = replica_find(cs, seal->chunk);
        if (r != NULL && r->adopting > seal->version) {
            /* The version rose before the report arrived: the chunk goes on. */
            LH_MARK("seal-report-outdated");
            HASH_DELETE(hh, cs->seals, seal);
            free(seal);
            continue;
        }
        Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
        Leasehold__SealReport report = LEASEHOLD__SEAL_REPORT__INIT;
        report.session = session_id(cs);
        report.chunk = seal->chunk;
        report.version = seal->version;
        report.length = seal->length;
        report.checksum = seal->checksum;
        m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL;
        m.seal = &report;
        session_send(cs, &m);
    }
}

static struct unconfirmed_seal *find_seal(struct lh_chunkserver *cs, uint64_t chunk)
{
    struct unconfirmed_seal *seal;

    HASH_FIND(hh, cs->seals, &chunk, sizeof chunk, seal);
    return seal;
}

static void forget_seal(struct lh_chunkserver *cs, uint64_t chunk)
{
    struct unconfirmed_seal *seal = find_seal(cs, chunk);

    if (seal != NULL) {
        HASH_DELETE(hh, cs->seals, seal);
        free(seal);
    }
}

void orders_report_seal(struct lh_chunkserver *cs, struct replica *r, uint64_t version)
{
    forget_seal(cs, r->chunk);
    struct unconfirmed_seal *seal = lh_alloc(sizeof *seal);
    seal->chunk = r->chunk;
    seal->version = version;
    seal->length = r->end;
    seal->checksum = r->checksum;
    HASH_ADD(hh, cs->seals, chunk, sizeof seal->chunk, seal);
    if (LH_PLANTED("seal-recorded-before-durable")) {
        replica_submit(r, (struct job){.kind = JOB_SEAL,
                              .origin = FOR_NOBODY,
                              .version = version,
                              .length = r->end,
                              .checksum = r->checksum});
        replica_pump(r);
    }
    lh_holder_release(cs->holder, r->chunk, version);
    if (cs->session.state == SESSION_LIVE)
        orders_resend_seals(cs);
}

static void on_recall(struct lh_chunkserver *cs, const Leasehold__RecallLease *m)
{
    if (cs->session.state != SESSION_LIVE || m->session != session_id(cs))
        return;
    struct replica *r = replica_find(cs, m->chunk);
    if (r != NULL && r->primary != NULL) {
        if (r->primary->version >= m->version)
            primary_recall(r->primary);
        return;
    }
    LH_MARK("recall-of-what-is-not-held");
    orders_resend_seals(cs);
    if (find_seal(cs, m->chunk) == NULL)
        orders_release(cs, m->chunk, m->version, false);
}

static void seal_recorded(struct lh_chunkserver *cs, uint64_t chunk, uint64_t version, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__SealRecorded recorded = LEASEHOLD__SEAL_RECORDED__INIT;

    recorded.session = session_id(cs);
    recorded.chunk = chunk;
    recorded.version = version;
    recorded.error = (Leasehold__ErrorCode)-error;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED;
    m.seal_recorded = &recorded;
    session_send(cs, &m);
}

static void on_record_seal(struct lh_chunkserver *cs, const Leasehold__RecordSeal *m)
{
    struct replica *r = replica_find(cs, m->chunk);

    if (!session_named(cs, m->session, m->master_term))
        return;
    forget_seal(cs, m->chunk);
    if (r == NULL || r->state == REPLICA_LOST || r->state == REPLICA_REMOVING)
        return;
    if (r->incomplete) {
        seal_recorded(cs, m->chunk, m->version, LH_ERR_UNAVAILABLE);
        return; /* the copy records it (REC-4) */
    }
    if (r->header.sealed && r->state == REPLICA_READY && !r->job_running) {
        seal_recorded(cs, m->chunk, r->header.version, LH_OK);
        return;
    }
    /* Only a member of the sealed version holds everything below the sealed length. One that was
     * not reached by the fence is made equal by a copy, unless its log adds up to the very seal:
     * then there is nothing to copy, and maybe nobody else who has it (REC-5). */
    if (r->state == REPLICA_READY && r->adopting < m->version && r->primary == NULL) {
        LH_MARK("seal-of-a-version-that-was-missed");
        if (r->end != m->length || r->checksum != m->checksum) {
            seal_recorded(cs, m->chunk, m->version, LH_ERR_UNAVAILABLE);
            return;
        }
        LH_MARK("seal-of-missed-version-adds-up");
        r->adopting = m->version;
    }
    if (r->state != REPLICA_READY || r->adopting != m->version)
        return; /* the master resends it when this server registers */
    if (replica_sealing(r))
        return; /* asked again: the answer is on its way */
    if (r->primary != NULL)
        primary_abandon(r->primary, LH_ERR_CHUNK_FULL);
    secondary_end(r, LH_ERR_CHUNK_FULL);
    if (r->end < m->length) {
        /* A machine that went down, or was not reached while others went on (FAIL-2a): what is here
         * is good, and a copy of the rest makes it a full member again. */
        LH_MARK("seal-above-own-log");
        seal_recorded(cs, m->chunk, m->version, LH_ERR_UNAVAILABLE);
        return;
    }
    if (r->end == m->length && r->checksum != m->checksum) {
        LH_MARK("seal-of-another-log");
        replica_lose(r, LH_ERR_CORRUPT, r->end);
        replica_pump(r);
        return;
    }
    LH_MARK("seal-recorded");
    if (r->end > m->length && r->writers_known && !lh_writers_cut(&r->writers, m->length)) {
        LH_MARK("seal-cuts-unknown-writers");
        lh_writers_clear(&r->writers);
        r->writers_known = false; /* read back when somebody asks */
    }
    replica_submit(r, (struct job){
                          .kind = JOB_SEAL,
                          .origin = FOR_MASTER,
                          .session = m->session,
                          .version = m->version,
                          .length = m->length,
                          .checksum = m->checksum,
                      });
    readings_wake(r); /* settlings */
    replica_pump(r);
}

static void replica_created(struct lh_chunkserver *cs, uint64_t chunk, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaCreated created = LEASEHOLD__REPLICA_CREATED__INIT;

    created.session = session_id(cs);
    created.chunk = chunk;
    created.error = (Leasehold__ErrorCode)-error;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_CREATED;
    m.created = &created;
    session_send(cs, &m);
}

static void on_create(struct lh_chunkserver *cs, const Leasehold__CreateReplica *m)
{
    struct replica *r = replica_find(cs, m->chunk);

    if (!session_named(cs, m->session, m->master_term) || m->chunk == LH_PROBE_FILE)
        return;
    if (m->chunk_size < LH_CHUNK_BYTES_MIN || m->chunk_size > LH_CHUNK_BYTES_MAX ||
        m->version > 1) {
        replica_created(cs, m->chunk, LH_ERR_INVALID_ARGUMENT);
        return;
    }
    if (r != NULL && r->state == REPLICA_CREATING && !r->incomplete)
        return; /* asked again: the answer is on its way */
    if (r != NULL && !(r->state == REPLICA_LOST && r->headless && r->jobs == NULL)) {
        /* At version 1 also where 0 was asked for: it was created ahead, and a master that started
         * since knows of the chunk alone. */
        bool empty = r->state == REPLICA_READY && r->adopting >= m->version && r->adopting <= 1 &&
                     r->end == 0 && r->primary == NULL && !r->incomplete;
        replica_created(cs, m->chunk, empty ? LH_OK : LH_ERR_ALREADY_EXISTS);
        return;
    }
    if (r == NULL)
        r = replica_add(cs, m->chunk, REPLICA_CREATING);
    r->state = REPLICA_CREATING;
    r->header = (struct lh_chunk_header){
        .chunk = m->chunk,
        .version = m->version,
        .chunk_size = m->chunk_size,
        .durability = m->durability == LEASEHOLD__DURABILITY__SYNCED
                          ? LEASEHOLD__DURABILITY__SYNCED
                          : LEASEHOLD__DURABILITY__BUFFERED,
    };
    r->adopting = m->version;
    memcpy(r->header.equal_boot, cs->config.boot_id, LH_BOOT_ID_BYTES);
    replica_submit(
        r, (struct job){.kind = JOB_CREATE, .origin = FOR_MASTER, .session = m->session});
    replica_pump(r);
}

static void replica_removed(struct lh_chunkserver *cs, uint64_t chunk, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaRemoved removed = LEASEHOLD__REPLICA_REMOVED__INIT;

    removed.session = session_id(cs);
    removed.chunk = chunk;
    removed.error = (Leasehold__ErrorCode)-error;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REMOVED;
    m.removed = &removed;
    session_send(cs, &m);
}

static void on_remove(struct lh_chunkserver *cs, const Leasehold__RemoveReplica *m)
{
    struct replica *r = replica_find(cs, m->chunk);

    if (!session_named(cs, m->session, m->master_term))
        return;
    if (r == NULL) {
        replica_removed(cs, m->chunk, LH_OK);
        return;
    }
    if (r->state == REPLICA_CREATING && !r->incomplete)
        return;
    if (r->state == REPLICA_REMOVING) {
        for (struct job *j = r->jobs; j != NULL; j = j->next)
            j->session = m->session; /* asked again: the answer goes there */
        return;
    }
    if (m->version == 0 ? r->adopting > 1 || r->end > 0 || r->primary != NULL
                        : r->adopting > m->version) {
        /* FENCE-2; or it is not as unused as the master thinks. */
        replica_removed(cs, m->chunk, LH_ERR_STALE_VERSION);
        return;
    }
    if (r->state != REPLICA_READY && r->state != REPLICA_LOST && !r->incomplete) {
        replica_removed(cs, m->chunk, LH_ERR_RECOVERING); /* being read back */
        return;
    }
    if (r->primary != NULL)
        primary_abandon(r->primary, LH_ERR_NOT_FOUND);
    secondary_end(r, LH_ERR_NOT_FOUND);
    if (r->copying != NULL) {
        LH_MARK("copy-removed");
        copying_end(r->copying);
    }
    scrub_turn_away(r);
    forget_seal(cs, r->chunk);
    readings_refuse_all(r, LH_ERR_NO_REPLICA);
    lh_holder_forget(cs->holder, r->chunk);
    replica_drop_unwritten(r);
    r->end = r->written + r->writing;
    r->state = REPLICA_REMOVING;
    /* What waits would vouch for bytes that are not written any more. */
    jobs_drop_waiting(r, LH_ERR_NO_REPLICA);
    replica_submit(
        r, (struct job){.kind = JOB_REMOVE, .origin = FOR_MASTER, .session = m->session});
    replica_pump(r);
}

void orders_job_done(struct lh_chunkserver *cs, struct replica *r, const struct job *j, int error)
{
    if (j->kind == JOB_CREATE) {
        /* Whoever asked for it: a registration does not show what is being created. */
        if (cs->session.state == SESSION_LIVE)
            replica_created(cs, r->chunk, error);
        else
            r->creation_untold = error == LH_OK;
        return;
    }
    if (cs->session.state != SESSION_LIVE || j->session != session_id(cs))
        return;
    if (j->kind == JOB_SEAL && error == LH_OK)
        seal_recorded(cs, r->chunk, j->version, LH_OK);
    else if (j->kind == JOB_ADOPT)
        fencing_job_done(cs, r, j, error);
    else if (j->kind == JOB_REMOVE)
        replica_removed(cs, r->chunk, error);
}

void orders_replica_lost(struct lh_chunkserver *cs, struct replica *r, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaLost lost = LEASEHOLD__REPLICA_LOST__INIT;

    if (cs->session.state != SESSION_LIVE) {
        /* The next registration reports it, unless that is on its way already. */
        r->loss_untold = error;
        return;
    }
    r->loss_untold = LH_OK;
    lost.session = session_id(cs);
    lost.chunk = r->chunk;
    lost.version = r->header.version;
    lost.error = (Leasehold__ErrorCode)-error;
    lost.offset = r->written;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_LOST;
    m.lost = &lost;
    session_send(cs, &m);
}

void orders_tell_untold(struct lh_chunkserver *cs)
{
    struct replica *r, *next;

    HASH_ITER(hh, cs->replicas, r, next)
    {
        if (r->creation_untold && r->state == REPLICA_READY) {
            LH_MARK("replica-created-while-registering");
            replica_created(cs, r->chunk, LH_OK);
        }
        r->creation_untold = false;
        if (r->loss_untold == LH_OK)
            continue;
        LH_MARK("replica-lost-while-registering");
        orders_replica_lost(cs, r, r->loss_untold);
    }
}

void orders_message(struct lh_chunkserver *cs, const Leasehold__SessionReply *m)
{
    switch (m->body_case) {
    case LEASEHOLD__SESSION_REPLY__BODY_GRANT:
        on_grant(cs, m->grant);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_RECALL:
        on_recall(cs, m->recall);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL:
        on_record_seal(cs, m->record_seal);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_CREATE:
        on_create(cs, m->create);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_REMOVE:
        on_remove(cs, m->remove);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_COPY:
        copying_message(cs, m->copy);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_FENCE:
        fencing_message(cs, m->fence);
        break;
    default:
        break; /* a newer master's word that this server does not know */
    }
}
