/* Copying a replica from other servers when the master asks for it (REC-4, REC-5).
 *
 * Before the first foreign byte is written the header says that the replica is incomplete, durably.
 * So it does until the whole log has been compared with the seal, or until a primary that this
 * server joins has confirmed that the logs are equal (the jobs SEAL and CONFIRM). What is here
 * already is kept as far as it agrees; nothing of it is given up before a source has answered. */
#include "chunkserver/serve/copying.h"

#include "base/alloc.h"
#include "batch/batch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void out_of_time(void *core, struct lh_timer *timer);
static void job_done(struct lh_cs_replica *r, const struct lh_cs_job *j, int error);

/* ------------------------------------------------------------------------------------------------
 * What is reported to the master. */

static void answer(struct lh_cs_host *cs, const struct lh_cs_copying *c, uint64_t chunk,
    uint64_t version, uint64_t length, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaCopied copied = LEASEHOLD__REPLICA_COPIED__INIT;

    if (!lh_cs_session_live(cs))
        return; /* the next registration says what is here */
    copied.session = lh_cs_session_id(cs);
    copied.chunk = chunk;
    copied.version = version;
    copied.error = (Leasehold__ErrorCode)-error;
    copied.length = length;
    copied.sealed = c != NULL && c->sealed && error == LH_OK;
    copied.copied_bytes = c == NULL ? 0 : c->copied;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_COPIED;
    m.copied = &copied;
    lh_cs_send(cs, &m);
}

static void notify(const struct lh_cs_copying *c, int error)
{
    answer(c->replica->logs->cs, c, c->replica->chunk, c->version, c->replica->written, error);
}

void lh_cs_copying_end(struct lh_cs_copying *c)
{
    struct lh_cs_replica *r = c->replica;

    lh_cs_copy_drop_link(c);
    lh_cs_copy_forget_sources(c);
    lh_timer_unset(&r->logs->cs->timers, &c->timer);
    DL_DELETE(c->serving->copies, c);
    lh_cs_serve(r)->copying = NULL;
    free(c);
    lh_cs_replica_put_back(r);
}

void lh_cs_copying_fail(struct lh_cs_copying *c, int error)
{
    c->replica->logs->cs->counts.copies_failed++;
    lh_fx_log(c->replica->logs->cs->fx, LH_WARN,
        "chunk %" PRIu64 ": cannot be copied at version %" PRIu64 ": %s", c->replica->chunk,
        c->version, lh_error_text(error));
    notify(c, error);
    lh_cs_copying_end(c);
}

/* ------------------------------------------------------------------------------------------------
 * The replica. */

static void end_roles(struct lh_cs_replica *r)
{
    lh_cs_secondary_end(r, LH_ERR_NO_REPLICA);
    lh_cs_serving_refuse(r, LH_ERR_RECOVERING);
    lh_cs_scrub_turn_away(&lh_cs_serving_of(r)->scrub, r);
}

/* Makes the mark of REC-4, cuts the log and reads back what is left of it. */
static void mark_and_cut(struct lh_cs_copying *c, uint64_t length)
{
    struct lh_cs_replica *r = c->replica;

    if (length < r->end)
        LH_MARK("copy-cuts-log");
    end_roles(r);
    lh_cs_replica_mark_incomplete(r);
    lh_cs_serve(r)->diverged = false;
    c->marked = true;
    c->cut_to = LH_CS_NO_CUT;
    lh_cs_replica_submit(r, (struct lh_cs_job){
                                .kind = LH_CS_JOB_COPY,
                                .owner = job_done,
                                .length = length < r->end ? length : r->end,
                            });
    lh_cs_replica_pump(r);
}

/* REC-9: what is there of a sealed chunk stays until what replaces it adds up. */
static enum lh_cs_clearing clearing(const struct lh_cs_copying *c)
{
    bool stays = c->sealed && !c->replica->headless && !LH_PLANTED("damaged-file-goes-first");

    return stays ? LH_CS_CLEAR_ANEW : LH_CS_CLEAR_REPLACE;
}

/* An empty replica in place of what is there, if anything is. The version that this server has
 * adopted stays: it never falls (INV-3). */
static void make_anew(struct lh_cs_copying *c, enum lh_cs_clearing how)
{
    struct lh_cs_replica *r = c->replica;

    end_roles(r);
    lh_cs_replica_clear(r, how);
    lh_cs_replica_mark_incomplete(r);
    lh_cs_serve(r)->diverged = false;
    c->made_anew = c->marked = true;
    c->cut_to = LH_CS_NO_CUT;
    const struct lh_chunk_header h = {
        .version = r->adopting,
        .chunk_size = c->chunk_size,
        .durability = c->durability,
        .copying = true,
    };
    lh_cs_replica_create(r, &h, (struct lh_cs_job){.owner = job_done});
}

void lh_cs_copying_restart(struct lh_cs_copying *c)
{
    if (c->restarted) {
        lh_cs_copying_fail(c, LH_ERR_CORRUPT);
    } else if (!c->met) {
        lh_cs_copy_ask(c, true);
    } else {
        LH_MARK("copy-begins-anew");
        c->restarted = true;
        c->unfit = 0;
        if (c->source_count > 0)
            c->source = (c->source + 1) % c->source_count;
        if (c->sealed && !c->replica->anew)
            make_anew(c, clearing(c));
        else
            mark_and_cut(c, 0);
    }
}

/* The whole length of the seal is here. */
static void whole(struct lh_cs_copying *c)
{
    struct lh_cs_replica *r = c->replica;

    if (r->checksum != c->checksum && !LH_PLANTED("copy-not-verified")) {
        LH_MARK("copy-does-not-add-up");
        lh_cs_copying_restart(c);
        return;
    }
    c->sealing = true;
    lh_cs_replica_fence(r, c->version);
    lh_cs_replica_submit(r, (struct lh_cs_job){
                                .kind = LH_CS_JOB_SEAL,
                                .owner = job_done,
                                .version = c->version,
                                .length = c->length,
                                .checksum = c->checksum,
                            });
    lh_cs_replica_pump(r);
}

/* Why this replica may not be made a copy at that version; LH_OK: it may. Nothing that somebody
 * counts on is given up: a primary, a member of a higher version, or of this very one while the
 * chunk takes appends. */
static int refusal(const struct lh_cs_replica *r, uint64_t version, bool sealed)
{
    if (r->state == LH_CS_REPLICA_REMOVING ||
        (r->state == LH_CS_REPLICA_CREATING && lh_cs_served(r)->copying == NULL))
        return LH_ERR_UNAVAILABLE;
    if (r->adopting > version || lh_cs_primary_of(r) != NULL)
        return LH_ERR_STALE_VERSION;
    if (!sealed && r->adopting == version && r->state != LH_CS_REPLICA_LOST && !r->incomplete)
        return LH_ERR_STALE_VERSION;
    return LH_OK;
}

/* The answer was lost. A header that says so is not enough: what the master has copied again may
 * have rotted, and a process that knew it have ended before the mark was on the disk (FAIL-4). */
static bool good_already(const struct lh_cs_copying *c)
{
    const struct lh_cs_replica *r = c->replica;

    return c->sealed && r->added_up && r->header.sealed && !r->incomplete &&
           r->header.version == c->version && r->header.sealed_length == c->length &&
           r->header.sealed_checksum == c->checksum;
}

/* How much of the log is kept at first (REC-5). Of an open chunk only what is known to be
 * committed, or was copied before: there is no checksum to compare with until it joins. */
static uint64_t kept(const struct lh_cs_copying *c)
{
    const struct lh_cs_replica *r = c->replica;
    uint64_t limit = c->sealed ? c->length : r->incomplete ? r->end : r->committed;

    return lh_cs_served(r)->diverged ? 0 : r->end < limit ? r->end : limit;
}

/* Its log is here and nothing is under way. True: it may go on. */
static bool begin(struct lh_cs_copying *c)
{
    struct lh_cs_replica *r = c->replica;
    int error = refusal(r, c->version, c->sealed);

    if (error != LH_OK) {
        LH_MARK("copy-refused-later");
        lh_cs_copying_fail(c, error);
        return false;
    }
    if (good_already(c)) {
        notify(c, LH_OK);
        lh_cs_copying_end(c);
        return false;
    }
    if (r->header.chunk_size != c->chunk_size) {
        if (c->met)
            make_anew(c, LH_CS_CLEAR_REPLACE);
        else
            lh_cs_copy_ask(c, true);
        return false;
    }
    if (!r->header.copying || kept(c) < r->end) {
        if (kept(c) == 0 && r->end > 0 && !c->met)
            lh_cs_copy_ask(c, true);
        else
            mark_and_cut(c, kept(c));
        return false;
    }
    LH_MARK("copy-resumed");
    end_roles(r); /* a primary may still be feeding it that it was to join */
    c->marked = true;
    return true;
}

static void lost(struct lh_cs_copying *c)
{
    if (c->made_anew) {
        lh_cs_copying_fail(c, c->error == LH_OK ? LH_ERR_CORRUPT : c->error);
    } else if (!c->met) {
        lh_cs_copy_ask(c, true);
    } else {
        LH_MARK("copy-of-lost-replica");
        make_anew(c, clearing(c));
    }
}

void lh_cs_copying_pump(struct lh_cs_copying *c)
{
    struct lh_cs_replica *r = c->replica;

    if (c->sealing || c->link != 0 || lh_cs_replica_changes(r))
        return;
    if (r->state == LH_CS_REPLICA_LOST) {
        lost(c);
        return;
    }
    if (r->state != LH_CS_REPLICA_READY || (!c->marked && !begin(c)))
        return;
    if (c->sealed && c->length < c->cut_to)
        c->cut_to = c->length; /* the command may be another one than it began with */
    if (c->cut_to < r->end) {
        mark_and_cut(c, c->cut_to);
        return;
    }
    if (r->written < r->end)
        return; /* goes on when they are written */
    if (c->sealed && r->end >= c->length) {
        whole(c);
        return;
    }
    if (!c->sealed && c->caught_up && !c->reported) {
        LH_MARK("copy-caught-up");
        r->logs->cs->counts.copies++;
        c->reported = true;
        notify(c, LH_OK);
    }
    lh_cs_copy_ask(c, false);
}

static void job_done(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    struct lh_cs_copying *c = lh_cs_served(r)->copying;

    if (c == NULL)
        return;
    if (j->kind == LH_CS_JOB_CREATE && error != LH_OK) {
        lh_cs_copying_fail(c, error);
    } else if (j->kind == LH_CS_JOB_SEAL) {
        c->sealing = false;
        if (error != LH_OK)
            return; /* the replica is lost */
        LH_MARK("copy-sealed");
        r->added_up = true;
        r->logs->cs->counts.copies++;
        lh_fx_log(r->logs->cs->fx, LH_INFO,
            "chunk %" PRIu64 ": copied: %" PRIu64 " bytes, of which %" PRIu64 " came over",
            r->chunk, r->end, c->copied);
        notify(c, LH_OK);
        lh_cs_copying_end(c);
    }
}

/* ------------------------------------------------------------------------------------------------
 * The master's command, time, sessions. */

static void take_command(struct lh_cs_copying *c, const Leasehold__CopyReplica *m)
{
    lh_cs_copy_forget_sources(c);
    c->sources = lh_alloc_array(m->n_sources, sizeof *c->sources);
    c->source_count = m->n_sources;
    for (size_t i = 0; i < m->n_sources; i++) {
        c->sources[i].server_id = lh_strdup(m->sources[i]->server_id);
        c->sources[i].address = lh_server_at(m->sources[i]->server_id, m->sources[i]->address);
    }
    if (c->sealed != m->sealed)
        c->caught_up = false;
    c->version = m->version;
    c->chunk_size = m->chunk_size;
    c->durability = m->durability == LEASEHOLD__DURABILITY__SYNCED
                        ? LEASEHOLD__DURABILITY__SYNCED
                        : LEASEHOLD__DURABILITY__BUFFERED;
    c->sealed = m->sealed;
    c->length = m->length;
    c->checksum = m->checksum;
    c->source = c->failed = c->unfit = 0;
    c->reported = false;
    c->progress_at = c->retry_at = c->replica->logs->cs->now;
    c->forgotten_at = LH_INSTANT_NEVER;
    c->backoff = c->replica->logs->cs->config.reconnect_min;
}

static struct lh_cs_copying *copying_new(struct lh_cs_serving *serving, struct lh_cs_replica *r)
{
    struct lh_cs_copying *c = lh_alloc(sizeof *c);

    c->serving = serving;
    c->replica = r;
    c->cut_to = LH_CS_NO_CUT;
    c->timer.fire = out_of_time;
    lh_cs_serve(r)->copying = c;
    DL_APPEND(serving->copies, c);
    return c;
}

static bool sound(const Leasehold__CopyReplica *m)
{
    return m->version > 0 && m->chunk_size >= LH_CHUNK_BYTES_MIN &&
           m->chunk_size <= LH_CHUNK_BYTES_MAX && (!m->sealed || m->length <= m->chunk_size);
}

void lh_cs_copying_message(struct lh_cs_serving *serving, const Leasehold__CopyReplica *m)
{
    struct lh_cs_host *cs = serving->cs;
    struct lh_cs_replica *r = lh_cs_replica_find(serving->logs, m->chunk);
    struct lh_cs_copying *c = r == NULL ? NULL : lh_cs_served(r)->copying;
    int error = LH_OK;

    if (!lh_cs_session_named(cs, m->session, m->master_term) || !LH_CS_IS_CHUNK(m->chunk) ||
        cs->stopping)
        return;
    if (!sound(m))
        error = LH_ERR_INVALID_ARGUMENT;
    else if (c != NULL && m->version < c->version)
        error = LH_ERR_STALE_VERSION;
    else if (c != NULL && m->chunk_size != c->chunk_size)
        error = LH_ERR_INVALID_ARGUMENT;
    else if (r != NULL)
        error = refusal(r, m->version, m->sealed);
    if (error != LH_OK) {
        LH_MARK("copy-refused");
        answer(cs, NULL, m->chunk, m->version, 0, error);
        return;
    }
    if (c != NULL) {
        if (c->sealing)
            return; /* the answer is on its way */
        LH_MARK("copy-ordered-again");
        lh_cs_copy_drop_link(c);
        take_command(c, m);
        lh_cs_replica_pump(r);
        return;
    }
    if (r != NULL) {
        take_command(copying_new(serving, r), m);
        lh_cs_replica_pump(r);
        return;
    }
    LH_MARK("copy-from-nothing");
    r = lh_cs_replica_add(serving->logs, m->chunk, LH_CS_REPLICA_CREATING);
    c = copying_new(serving, r);
    take_command(c, m);
    make_anew(c, LH_CS_CLEAR_NEW);
}

static void out_of_time(void *core, struct lh_timer *timer)
{
    struct lh_cs_copying *c = LH_OWNER(timer, struct lh_cs_copying, timer);

    (void)core;
    if (lh_instant_reached(c->replica->logs->cs->now, c->forgotten_at)) {
        LH_MARK("copy-forgotten");
        lh_cs_copying_end(c);
        return;
    }
    lh_cs_replica_pump(c->replica);
}

void lh_cs_copying_session_begins(struct lh_cs_serving *serving)
{
    struct lh_cs_host *cs = serving->cs;
    struct lh_cs_copying *c;

    DL_FOREACH(serving->copies, c) {
        c->forgotten_at =
            lh_instant_add(cs->now, lh_milliseconds(cs->config.bounds.copy_forgotten_ms));
        c->reported = false; /* the session before may have taken it along */
        lh_timer_set(&cs->timers, &c->timer,
            lh_timer_is_set(&c->timer) ? lh_instant_min(c->timer.at, c->forgotten_at)
                                       : c->forgotten_at);
    }
}

void lh_cs_copying_progress(const struct lh_cs_serving *serving, Leasehold__Heartbeat *hb)
{
    const struct lh_cs_copying *c;
    size_t n = 0;

    DL_COUNT(serving->copies, c, n);
    if (n == 0)
        return;
    Leasehold__CopyProgress *copies = lh_alloc_array(n, sizeof *copies);
    hb->copies = lh_alloc_array(n, sizeof(void *));
    DL_FOREACH(serving->copies, c) {
        Leasehold__CopyProgress *progress = &copies[hb->n_copies];
        leasehold__copy_progress__init(progress);
        progress->chunk = c->replica->chunk;
        progress->length = c->replica->written;
        hb->copies[hb->n_copies++] = progress;
    }
}

void lh_cs_copying_progress_free(Leasehold__Heartbeat *hb)
{
    if (hb->n_copies > 0)
        free(hb->copies[0]);
    free(hb->copies);
}

void lh_cs_copying_stop(struct lh_cs_replica *r)
{
    if (lh_cs_served(r)->copying != NULL)
        lh_cs_copying_end(lh_cs_served(r)->copying);
}
