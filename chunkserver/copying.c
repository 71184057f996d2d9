/* Copying a replica from other servers at the master's word (REC-4, REC-5).
 *
 * Before the first foreign byte is written the header says that the replica is incomplete, durably.
 * So it does until the whole log has been compared with the seal, or until a primary that this
 * server joins has confirmed that the logs are equal (JOB_SEAL, JOB_CONFIRM). What is here already
 * is kept as far as it agrees, and nothing of it is given up before a source has answered. */
#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "chunkserver/internal.h"

#include <stdlib.h>
#include <string.h>

#define NO_CUT UINT64_MAX

/* ------------------------------------------------------------------------------------------------
 * What the master is told. */

static void answer(struct lh_chunkserver *cs, const struct copying *c, uint64_t chunk,
    uint64_t version, uint64_t length, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaCopied copied = LEASEHOLD__REPLICA_COPIED__INIT;

    if (cs->session.state != SESSION_LIVE)
        return; /* the next registration says what is here */
    copied.session = session_id(cs);
    copied.chunk = chunk;
    copied.version = version;
    copied.error = (Leasehold__ErrorCode)-error;
    copied.length = length;
    copied.sealed = c != NULL && c->sealed && error == LH_OK;
    copied.copied_bytes = c == NULL ? 0 : c->copied;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_COPIED;
    m.copied = &copied;
    session_send(cs, &m);
}

static void tell(const struct copying *c, int error)
{
    answer(c->replica->cs, c, c->replica->chunk, c->version, c->replica->written, error);
}

static void forget_sources(struct copying *c)
{
    for (size_t i = 0; i < c->source_count; i++) {
        free(c->sources[i].server_id);
        free(c->sources[i].address);
    }
    free(c->sources);
    c->sources = NULL;
    c->source_count = 0;
}

static void drop_link(struct copying *c)
{
    struct lh_chunkserver *cs = c->replica->cs;

    if (c->link != 0)
        link_close(cs, c->link, LH_ERR_CANCELLED, NULL);
    c->link = 0;
    pacing_give_back(&cs->copy_in, c->reserved);
    c->reserved = 0;
}

void copying_end(struct copying *c)
{
    struct replica *r = c->replica;

    drop_link(c);
    forget_sources(c);
    lh_timer_unset(&r->cs->timers, &c->timer);
    DL_DELETE(r->cs->copies, c);
    r->copying = NULL;
    free(c);
}

void copying_fail(struct copying *c, int error)
{
    c->replica->cs->counts.copies_failed++;
    lh_fx_log(c->replica->cs->fx, LH_WARN, "chunk %llu: cannot be copied at version %llu: %s",
        (unsigned long long)c->replica->chunk, (unsigned long long)c->version,
        lh_error_text(error));
    tell(c, error);
    copying_end(c);
}

/* ------------------------------------------------------------------------------------------------
 * Sources. */

static void set_timer(struct copying *c)
{
    struct lh_chunkserver *cs = c->replica->cs;
    struct lh_instant at = c->forgotten_at;

    if (c->link == 0)
        at = lh_instant_min(at, lh_instant_max(c->retry_at, pacing_ready_at(&cs->copy_in)));
    lh_timer_set(&cs->timers, &c->timer, at);
}

/* The next one is tried at once, and after each round of all of them a pause. The copying may end
 * here. */
static void source_failed(struct copying *c)
{
    struct lh_chunkserver *cs = c->replica->cs;

    LH_MARK("copy-source-fails");
    if (lh_instant_until(c->progress_at, cs->now).ns >=
        lh_milliseconds(cs->config.bounds.copy_silence_ms).ns) {
        copying_fail(c, LH_ERR_UNAVAILABLE);
        return;
    }
    c->retry_at = cs->now;
    c->failed++;
    if (c->source_count > 0)
        c->source = (c->source + 1) % c->source_count;
    if (c->source_count == 0 || c->failed % c->source_count == 0) {
        c->retry_at = lh_instant_add(cs->now, c->backoff);
        c->backoff = lh_duration_min(lh_nanoseconds(c->backoff.ns * 2), cs->config.reconnect_max);
    }
    set_timer(c);
}

static void ask(struct copying *c, bool from_start)
{
    struct lh_chunkserver *cs = c->replica->cs;
    struct lh_instant at = lh_instant_max(c->retry_at, pacing_ready_at(&cs->copy_in));
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    if (!lh_instant_reached(cs->now, at)) {
        set_timer(c);
        return;
    }
    if (c->source_count == 0 || c->sources[c->source].address[0] == '\0') {
        source_failed(c);
        return;
    }
    q.chunk = c->replica->chunk;
    q.version = c->version;
    q.offset = from_start ? 0 : c->replica->end;
    q.max_bytes = from_start ? LH_BATCH_HEADER_BYTES
                             : pacing_piece(&cs->copy_in, cs->config.bounds.copy_bytes);
    q.mode = LEASEHOLD__READ_MODE__COPY;
    q.wait_ms = c->caught_up && !from_start ? cs->config.bounds.copy_follow_ms : 0;
    /* What a source has nothing of may be long in coming: that is paid for when it is here. */
    c->reserved = q.wait_ms > 0 || from_start ? 0 : q.max_bytes;
    pacing_take(&cs->copy_in, cs->now, c->reserved);
    c->from_start = from_start;
    c->link = link_open(cs, LINK_COPY, c, LH_METHOD_READ, c->sources[c->source].address,
        lh_milliseconds(cs->config.bounds.copy_timeout_ms + q.wait_ms))
                  ->id;
    lh_fx_send(cs->fx, c->link, &q.base, NULL);
    set_timer(c);
}

void copying_progress(struct copying *c)
{
    c->progress_at = c->replica->cs->now;
}

void copying_link_closed(struct copying *c)
{
    c->link = 0;
    drop_link(c);
    source_failed(c);
}

/* ------------------------------------------------------------------------------------------------
 * The replica. */

static void end_roles(struct replica *r)
{
    secondary_end(r, LH_ERR_NO_REPLICA);
    readings_refuse_all(r, LH_ERR_RECOVERING);
    scrub_turn_away(r);
}

/* Makes the mark of REC-4, cuts the log and reads back what is left of it. */
static void mark_and_cut(struct copying *c, uint64_t length)
{
    struct replica *r = c->replica;

    if (length < r->end)
        LH_MARK("copy-cuts-log");
    end_roles(r);
    r->incomplete = true;
    r->misfit = false;
    c->marked = true;
    c->cut_to = NO_CUT;
    replica_submit(r, (struct job){
                          .kind = JOB_COPY,
                          .origin = FOR_COPYING,
                          .length = length < r->end ? length : r->end,
                      });
    replica_pump(r);
}

/* An empty replica in place of what is there, if anything is. The version that this server has
 * adopted stays: it never falls (INV-3). */
static void make_anew(struct copying *c, bool replace)
{
    struct replica *r = c->replica;

    end_roles(r);
    r->state = REPLICA_CREATING;
    r->headless = replace; /* JOB_CREATE: the file that is there goes first */
    r->header = (struct lh_chunk_header){
        .chunk = r->chunk,
        .version = r->adopting,
        .chunk_size = c->chunk_size,
        .durability = c->durability,
        .copying = true,
    };
    r->header_synced = false;
    r->incomplete = true;
    r->misfit = false;
    r->end = r->written = r->synced = r->committed = r->checksum = 0;
    replica_drop_unwritten(r);
    lh_writers_clear(&r->writers);
    c->made_anew = c->marked = true;
    c->cut_to = NO_CUT;
    replica_submit(r, (struct job){.kind = JOB_CREATE, .origin = FOR_COPYING});
    replica_pump(r);
}

/* What is here does not go on as any source does, or does not add up to the seal. Once it is begun
 * anew, from another source. The copying may end here. */
static void restart(struct copying *c)
{
    if (c->restarted) {
        copying_fail(c, LH_ERR_CORRUPT);
    } else if (!c->met) {
        ask(c, true);
    } else {
        LH_MARK("copy-begins-anew");
        c->restarted = true;
        c->unfit = 0;
        if (c->source_count > 0)
            c->source = (c->source + 1) % c->source_count;
        mark_and_cut(c, 0);
    }
}

/* The whole length of the seal is here. */
static void whole(struct copying *c)
{
    struct replica *r = c->replica;

    if (r->checksum != c->checksum && !LH_PLANTED("copy-not-verified")) {
        LH_MARK("copy-does-not-add-up");
        restart(c);
        return;
    }
    c->sealing = true;
    if (c->version > r->adopting)
        r->adopting = c->version;
    replica_submit(r, (struct job){
                          .kind = JOB_SEAL,
                          .origin = FOR_COPYING,
                          .version = c->version,
                          .length = c->length,
                          .checksum = c->checksum,
                      });
    replica_pump(r);
}

/* Why this replica may not be made a copy at that version; LH_OK: it may. Nothing that somebody
 * counts on is given up: a primary, a member of a higher version, or of this very one while the
 * chunk takes appends. */
static int refusal(const struct replica *r, uint64_t version, bool sealed)
{
    if (r->state == REPLICA_REMOVING || (r->state == REPLICA_CREATING && r->copying == NULL))
        return LH_ERR_UNAVAILABLE;
    if (r->adopting > version || r->primary != NULL)
        return LH_ERR_STALE_VERSION;
    if (!sealed && r->adopting == version && r->state != REPLICA_LOST && !r->incomplete)
        return LH_ERR_STALE_VERSION;
    return LH_OK;
}

/* The answer was lost. A header that says so is not enough: what the master has copied anew may
 * have rotted, and a process that knew it have ended before the mark was on the disk (FAIL-4). */
static bool good_already(const struct copying *c)
{
    const struct replica *r = c->replica;

    return c->sealed && r->added_up && r->header.sealed && !r->incomplete &&
           r->header.version == c->version && r->header.sealed_length == c->length &&
           r->header.sealed_checksum == c->checksum;
}

/* How much of the log is kept at first (REC-5). Of an open chunk only what is known to be
 * committed, or was copied before: there is no checksum to compare with until it joins. */
static uint64_t kept(const struct copying *c)
{
    const struct replica *r = c->replica;
    uint64_t limit = c->sealed ? c->length : r->incomplete ? r->end : r->committed;

    return r->misfit ? 0 : r->end < limit ? r->end : limit;
}

/* Its log is here and nothing is under way. True: it may go on. */
static bool begin(struct copying *c)
{
    struct replica *r = c->replica;
    int error = refusal(r, c->version, c->sealed);

    if (error != LH_OK) {
        LH_MARK("copy-refused-later");
        copying_fail(c, error);
        return false;
    }
    if (good_already(c)) {
        tell(c, LH_OK);
        copying_end(c);
        return false;
    }
    if (r->header.chunk_size != c->chunk_size) {
        if (c->met)
            make_anew(c, true);
        else
            ask(c, true);
        return false;
    }
    if (!r->incomplete || kept(c) < r->end) {
        if (kept(c) == 0 && r->end > 0 && !c->met)
            ask(c, true);
        else
            mark_and_cut(c, kept(c));
        return false;
    }
    LH_MARK("copy-resumed");
    end_roles(r); /* a primary may still be feeding it that it was to join */
    c->marked = true;
    return true;
}

static void lost(struct copying *c)
{
    if (c->made_anew) {
        copying_fail(c, c->error == LH_OK ? LH_ERR_CORRUPT : c->error);
    } else if (!c->met) {
        ask(c, true);
    } else {
        LH_MARK("copy-of-lost-replica");
        make_anew(c, true);
    }
}

void copying_pump(struct copying *c)
{
    struct replica *r = c->replica;

    if (c->sealing || c->link != 0 || r->jobs != NULL || r->scanning)
        return;
    if (r->state == REPLICA_LOST) {
        lost(c);
        return;
    }
    if (r->state != REPLICA_READY || (!c->marked && !begin(c)))
        return;
    if (c->sealed && c->length < c->cut_to)
        c->cut_to = c->length; /* the order may be another one than it began with */
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
    if (!c->sealed && c->caught_up && !c->told) {
        LH_MARK("copy-caught-up");
        r->cs->counts.copies++;
        c->told = true;
        tell(c, LH_OK);
    }
    ask(c, false);
}

void copying_job_done(struct replica *r, const struct job *j, int error)
{
    struct copying *c = r->copying;

    if (c == NULL)
        return;
    if (j->kind == JOB_CREATE && error != LH_OK) {
        copying_fail(c, error);
    } else if (j->kind == JOB_SEAL) {
        c->sealing = false;
        if (error != LH_OK)
            return; /* the replica is lost */
        LH_MARK("copy-sealed");
        r->added_up = true;
        r->cs->counts.copies++;
        lh_fx_log(r->cs->fx, LH_INFO, "chunk %llu: copied: %llu bytes, of which %llu came over",
            (unsigned long long)r->chunk, (unsigned long long)r->end,
            (unsigned long long)c->copied);
        tell(c, LH_OK);
        copying_end(c);
    }
}

/* ------------------------------------------------------------------------------------------------
 * What a source says. */

/* No batch of the source begins where this log ends, or none that fits. What is above the committed
 * length may be of a version that came to nothing; below it this log and the source should agree,
 * and another one is asked before anything is given up. The copying may end here. */
static void does_not_fit(struct copying *c)
{
    struct replica *r = c->replica;

    LH_MARK("copy-does-not-fit");
    if (r->committed < r->end) {
        c->cut_to = r->committed;
        return;
    }
    c->unfit++;
    if (c->unfit >= c->source_count && r->end > 0)
        restart(c);
    else
        source_failed(c);
}

/* Takes the batches that the source sent. MALFORMED: one is sound and does not fit here. */
static int take(struct copying *c, struct lh_buf *batches)
{
    struct replica *r = c->replica;
    uint32_t batch_max = lh_batch_bytes_max(r->header.chunk_size);
    uint64_t limit = c->sealed ? c->length : r->header.chunk_size;
    size_t at = 0;

    LH_ASSERT(r->end <= limit && limit <= r->header.chunk_size);

    while (at < batches->size) {
        struct lh_batch_header h;
        if (lh_batch_check(batches, at, batch_max, &h) != LH_OK)
            return LH_ERR_UNAVAILABLE;
        if (h.size > limit - r->end)
            return LH_ERR_MALFORMED;
        bool committed = r->committed == r->end;
        struct lh_buf one = {0};
        lh_buf_append(&one, batches, at, h.size);
        if (!replica_accept(r, &h, &one)) {
            lh_buf_clear(&one);
            return LH_ERR_MALFORMED;
        }
        if (committed)
            replica_note_committed(r, r->end); /* no source gives more than that */
        at += h.size;
        c->copied += h.size;
        r->cs->copied_in += h.size;
    }
    return LH_OK;
}

/* A source that has not got as far as the order that the master gave. */
static bool stale(const struct copying *c, const Leasehold__ReadReply *m)
{
    return m->version < c->version && !(c->sealed && m->sealed);
}

void copying_received(struct copying *c, const Leasehold__ReadReply *m, struct lh_buf *batches)
{
    struct replica *r = c->replica;
    struct lh_chunkserver *cs = r->cs;
    uint64_t had = c->copied;
    int error = lh_error_from_wire(m->error);

    drop_link(c);
    if ((error != LH_OK && error != LH_ERR_MALFORMED) || stale(c, m)) {
        if (error == LH_OK)
            LH_MARK("copy-source-stale");
        source_failed(c);
        return;
    }
    c->met = true;
    if (c->from_start || r->state != REPLICA_READY) {
        /* It was asked whether it is there; or the replica was lost meanwhile. */
        c->from_start = false;
        replica_pump(r);
        return;
    }
    pacing_take(&cs->copy_in, cs->now, batches->size);
    if (error == LH_OK)
        error = take(c, batches);
    if (c->copied > had || (error == LH_OK && !c->sealed)) {
        c->progress_at = c->retry_at = cs->now;
        c->failed = c->unfit = 0;
        c->backoff = cs->config.reconnect_min;
    }
    if (error == LH_ERR_MALFORMED) {
        does_not_fit(c);
    } else if (error != LH_OK || (c->sealed && c->copied == had)) {
        source_failed(c); /* what it sent is not sound, or it has no more */
    } else {
        if (!c->sealed && m->committed <= r->end + r->cs->config.bounds.copy_near_bytes)
            c->caught_up = true;
        if (c->copied == had && (m->sealed || !c->caught_up))
            c->retry_at = lh_instant_add(cs->now, cs->config.reconnect_max); /* it did not wait */
    }
    replica_pump(r); /* what was taken is written; goes on */
}

/* ------------------------------------------------------------------------------------------------
 * The master's order, time, sessions. */

static void take_order(struct copying *c, const Leasehold__CopyReplica *m)
{
    forget_sources(c);
    c->sources = lh_alloc_array(m->n_sources, sizeof *c->sources);
    c->source_count = m->n_sources;
    for (size_t i = 0; i < m->n_sources; i++) {
        c->sources[i].server_id = lh_strdup(m->sources[i]->server_id);
        c->sources[i].address = lh_strdup(m->sources[i]->address);
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
    c->told = false;
    c->progress_at = c->retry_at = c->replica->cs->now;
    c->forgotten_at = LH_INSTANT_NEVER;
    c->backoff = c->replica->cs->config.reconnect_min;
}

static struct copying *copying_new(struct replica *r)
{
    struct copying *c = lh_alloc(sizeof *c);

    c->replica = r;
    c->cut_to = NO_CUT;
    c->timer.kind = TIMER_COPYING;
    c->timer.owner = c;
    r->copying = c;
    DL_APPEND(r->cs->copies, c);
    return c;
}

static bool sound(const Leasehold__CopyReplica *m)
{
    return m->version > 0 && m->chunk_size >= LH_CHUNK_BYTES_MIN &&
           m->chunk_size <= LH_CHUNK_BYTES_MAX && (!m->sealed || m->length <= m->chunk_size);
}

void copying_message(struct lh_chunkserver *cs, const Leasehold__CopyReplica *m)
{
    struct replica *r = replica_find(cs, m->chunk);
    int error = LH_OK;

    if (!session_named(cs, m->session, m->master_term) || m->chunk == LH_PROBE_FILE || cs->stopping)
        return;
    if (!sound(m))
        error = LH_ERR_INVALID_ARGUMENT;
    else if (r != NULL && r->copying != NULL && m->version < r->copying->version)
        error = LH_ERR_STALE_VERSION;
    else if (r != NULL && r->copying != NULL && m->chunk_size != r->copying->chunk_size)
        error = LH_ERR_INVALID_ARGUMENT;
    else if (r != NULL)
        error = refusal(r, m->version, m->sealed);
    if (error != LH_OK) {
        LH_MARK("copy-refused");
        answer(cs, NULL, m->chunk, m->version, 0, error);
        return;
    }
    if (r != NULL && r->copying != NULL) {
        struct copying *c = r->copying;
        if (c->sealing)
            return; /* the answer is on its way */
        LH_MARK("copy-ordered-again");
        drop_link(c);
        take_order(c, m);
        replica_pump(r);
        return;
    }
    if (r != NULL) {
        take_order(copying_new(r), m);
        replica_pump(r);
        return;
    }
    LH_MARK("copy-from-nothing");
    r = replica_add(cs, m->chunk, REPLICA_CREATING);
    take_order(copying_new(r), m);
    make_anew(r->copying, false);
}

void copying_timer(struct copying *c)
{
    if (lh_instant_reached(c->replica->cs->now, c->forgotten_at)) {
        LH_MARK("copy-forgotten");
        copying_end(c);
        return;
    }
    replica_pump(c->replica);
}

void copying_session_begins(struct lh_chunkserver *cs)
{
    struct copying *c;

    DL_FOREACH(cs->copies, c)
    {
        c->forgotten_at =
            lh_instant_add(cs->now, lh_milliseconds(cs->config.bounds.copy_forgotten_ms));
        c->told = false; /* the session before may have taken it along */
        lh_timer_set(&cs->timers, &c->timer,
            lh_timer_is_set(&c->timer) ? lh_instant_min(c->timer.at, c->forgotten_at)
                                       : c->forgotten_at);
    }
}
