/* Scrubbing: every replica's log is read once in a while, slowly, and every batch is checked, so
 * that rot is found while other members are good (FAIL-4).
 *
 * One pass goes through the replicas in the order of their chunks' ids and may take the whole
 * period. The position is kept in the data directory, so that a server that is started often comes
 * to an end too. */
#include "chunkserver/serve/scrub.h"

#include "base/alloc.h"
#include "batch/batch.h"
#include "chunkserver/serve/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static bool off(const struct lh_cs_scrub *s)
{
    return s->cs->config.scrub_period.ns == LH_DURATION_FOREVER.ns;
}

static struct lh_duration age(const struct lh_cs_scrub *s)
{
    return lh_duration_add(s->age, lh_instant_until(s->pass_began, s->cs->now));
}

static void save(struct lh_cs_scrub *s)
{
    char text[48];
    int size =
        snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64, s->finished, (age(s).ns / SECOND));

    s->unsaved = 0;
    s->saved_at = s->cs->now;
    lh_fx_persist(s->cs->fx, 0);
    lh_fx_put(s->cs->fx, LH_SCRUB_KEY, strlen(LH_SCRUB_KEY), text, (size_t)size);
}

static void save_now_and_then(struct lh_cs_scrub *s)
{
    uint64_t since = lh_instant_until(s->saved_at, s->cs->now).ns;

    if (s->unsaved >= s->cs->config.bounds.scrub_save_replicas ||
        (s->unsaved > 0 && since >= lh_milliseconds(s->cs->config.bounds.scrub_save_ms).ns))
        save(s);
}

/* What an earlier process kept. What is not understood is not believed: the pass begins again. */
static void resume(struct lh_cs_scrub *s)
{
    const char *text = s->cs->config.scrub_position;
    uint64_t finished, seconds;

    if (sscanf(text, "%20" SCNu64 " %20" SCNu64, &finished, &seconds) != 2)
        return;
    LH_MARK("scrub-resumed");
    s->finished = finished;
    s->age = lh_seconds(seconds);
}

/* ------------------------------------------------------------------------------------------------
 * A pass. */

/* So fast that all that is held by now takes one period. */
static void set_pace(struct lh_cs_scrub *s)
{
    uint64_t held = 0, seconds = s->cs->config.scrub_period.ns / SECOND;
    struct lh_cs_replica *r;

    LH_IDMAP_FOREACH(r, &s->logs->replicas) {
        held += r->end;
    }
    uint64_t rate = held / (seconds == 0 ? 1 : seconds);
    if (rate < s->cs->config.bounds.scrub_least_bytes)
        rate = s->cs->config.bounds.scrub_least_bytes;
    s->rate = rate < s->cs->config.scrub_rate ? rate : s->cs->config.scrub_rate;
    s->paced_at = s->cs->now;
}

/* Logs grow meanwhile: a pass that began with empty ones would else take for ever. */
static void keep_pace(struct lh_cs_scrub *s)
{
    if (off(s) || lh_instant_until(s->paced_at, s->cs->now).ns < s->cs->config.scrub_period.ns / 16)
        return;
    set_pace(s);
    if (s->in_turn)
        s->pace.rate = s->rate;
}

/* Lists what is to be read behind `finished`. */
static void plan(struct lh_cs_scrub *s)
{
    struct lh_cs_replica *r;

    free(s->chunks);
    s->chunks = lh_alloc_array(s->logs->replicas.count, sizeof *s->chunks);
    s->count = s->next = 0;
    LH_IDMAP_FOREACH(r, &s->logs->replicas) {
        if (r->chunk > s->finished)
            s->chunks[s->count++] = r->chunk;
    }
    set_pace(s);
}

static void set_timer(struct lh_cs_scrub *s)
{
    struct lh_instant at = lh_pacing_ready_at(&s->pace);

    if (s->refused > 0)
        at = lh_instant_max(at, s->again_at);
    if (s->replica == NULL && s->next == s->count && s->soon == 0) {
        /* The pass is done: the next one begins when this one's period is over. */
        struct lh_duration left = {age(s).ns < s->cs->config.scrub_period.ns
                                       ? s->cs->config.scrub_period.ns - age(s).ns
                                       : 0};
        at = lh_instant_max(at, lh_instant_add(s->cs->now, left));
    }
    lh_timer_set(&s->cs->timers, &s->timer, s->ticket != NULL ? LH_INSTANT_NEVER : at);
}

static void go(void *core, struct lh_timer *timer);

void lh_cs_scrub_start(struct lh_cs_serving *serving)
{
    struct lh_cs_scrub *s = &serving->scrub;

    if (s->cs->stopping)
        return;
    s->timer.fire = go;
    s->pass_began = s->saved_at = s->cs->now;
    if (off(s))
        return;
    resume(s);
    plan(s);
    /* What a server does first is more urgent. */
    s->pace.paid = lh_instant_add(s->cs->now, lh_milliseconds(s->cs->config.bounds.scrub_begin_ms));
    set_timer(s);
}

static void pass_done(struct lh_cs_scrub *s)
{
    LH_MARK("scrub-pass-done");
    s->passes++;
    s->finished = 0;
    s->age = lh_nanoseconds(0);
    s->pass_began = s->cs->now;
    plan(s);
    save(s);
}

/* ------------------------------------------------------------------------------------------------
 * A log. */

static void leave(struct lh_cs_scrub *s)
{
    if (s->ticket != NULL)
        s->ticket->owner = NULL;
    s->ticket = NULL;
    s->replica = NULL;
    s->refused = 0;
    lh_buf_clear(&s->rest);
}

void lh_cs_scrub_turn_away(struct lh_cs_scrub *s, struct lh_cs_replica *r)
{
    if (s->replica != r)
        return;
    leave(s);
    if (!s->stopped)
        set_timer(s);
}

static uint64_t limit_of(const struct lh_cs_replica *r)
{
    return r->header.sealed ? r->header.sealed_length : r->written;
}

/* Its log may be shorter soon, or is by now. */
static bool is_cut(const struct lh_cs_replica *r, uint64_t length)
{
    return r->state != LH_CS_REPLICA_READY || limit_of(r) < length ||
           (lh_cs_replica_sealing(r) && !r->header.sealed);
}

void lh_cs_scrub_soon(struct lh_cs_scrub *s, struct lh_cs_replica *r)
{
    if (s->stopped || s->timer.fire == NULL)
        return;
    s->soon = r->chunk;
    set_timer(s);
}

static void finished(struct lh_cs_scrub *s)
{
    s->cs->counts.scrub_replicas++;
    if (s->in_turn) {
        s->finished = s->replica->chunk;
        s->unsaved++;
    }
    leave(s);
    save_now_and_then(s);
}

static void found(struct lh_cs_scrub *s, int error, const char *what)
{
    struct lh_cs_replica *r = s->replica;
    uint64_t at = s->at;

    lh_fx_log(s->cs->fx, LH_ERROR, "chunk %" PRIu64 ": the scrub found %s at %" PRIu64, r->chunk,
        what, at);
    LH_MARK("scrub-finds-rot");
    s->found++;
    s->cs->counts.scrub_replicas--; /* finished, and not good */
    finished(s);
    lh_cs_replica_lose(r, error, at);
    lh_cs_replica_pump(r);
}

static void read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);

static const struct lh_cs_disk_user scrub_read = {.done = read_done, .owned = true};

/* The next piece, or the end of this log. */
static void go_on(struct lh_cs_scrub *s)
{
    struct lh_cs_replica *r = s->replica;
    uint64_t read = s->at + s->rest.size, limit = limit_of(r);

    if (read < limit) {
        s->asked = limit - read;
        if (s->asked > s->cs->config.bounds.scrub_bytes)
            s->asked = s->cs->config.bounds.scrub_bytes;
        lh_pacing_take(&s->pace, s->cs->now, s->asked);
        s->ticket = lh_cs_disk_ask(s->logs, &scrub_read, r, s,
            &(struct lh_cs_disk_request){
                .op = LH_DISK_READ, .offset = LH_LOG_START + read, .length = s->asked});
        return;
    }
    bool checked = !LH_PLANTED("scrub-reads-but-does-not-check");
    if (is_cut(r, read))
        leave(s);
    else if (s->rest.size > 0 && checked)
        found(s, LH_ERR_CORRUPT, "a batch that does not end");
    else if (s->at == r->end && s->checksum != r->checksum && checked)
        found(s, LH_ERR_CORRUPT, "a log that does not add up");
    else
        finished(s);
}

/* Chooses the next log of the pass that can be read. */
static void choose(struct lh_cs_scrub *s)
{
    while (s->replica == NULL && (s->soon != 0 || s->next < s->count)) {
        /* By turns: whoever asks all the time keeps no pass from its end. */
        s->in_turn = s->soon == 0 || (!s->in_turn && s->next < s->count);
        s->pace.rate = s->in_turn ? s->rate : s->cs->config.scrub_rate;
        uint64_t chunk = s->in_turn ? s->chunks[s->next++] : s->soon;
        if (!s->in_turn)
            s->soon = 0;
        struct lh_cs_replica *r = lh_cs_replica_find(s->logs, chunk);
        if (r == NULL || r->state != LH_CS_REPLICA_READY || r->incomplete)
            continue;
        s->replica = r;
        s->at = 0;
        s->checksum = lh_log_seed(r->chunk);
        lh_pacing_take(&s->pace, s->cs->now, s->cs->config.bounds.scrub_look_bytes);
    }
}

static void go(void *core, struct lh_timer *timer)
{
    struct lh_cs_scrub *s = LH_OWNER(timer, struct lh_cs_scrub, timer);

    (void)core;
    if (s->replica == NULL && s->next == s->count && s->soon == 0 && !off(s) &&
        age(s).ns >= s->cs->config.scrub_period.ns)
        pass_done(s);
    keep_pace(s);
    choose(s);
    if (s->replica != NULL)
        go_on(s);
    set_timer(s);
}

/* Every batch that is whole. False: one of them has rotted. */
static bool check_batches(struct lh_cs_scrub *s)
{
    uint32_t batch_max = lh_batch_bytes_max(s->replica->header.chunk_size);
    size_t at = 0;
    int error = LH_OK;

    while (at < s->rest.size) {
        struct lh_batch_header h;
        error = lh_log_check(&s->rest, at, batch_max, &s->checksum, &h);
        if (error != LH_OK)
            break;
        at += h.size;
    }
    struct lh_buf rest = {0};
    lh_buf_append(&rest, &s->rest, at, s->rest.size - at);
    lh_buf_clear(&s->rest);
    s->rest = rest;
    s->at += at;
    return error == LH_OK || error == LH_ERR_WOULD_BLOCK;
}

/* REC-6: one refused read says nothing of what is there; some in a row, with pauses, do. */
static bool is_asked_again(struct lh_cs_scrub *s, int error)
{
    const struct lh_chunkserver_bounds *b = &s->cs->config.bounds;

    if (error != LH_ERR_IO || s->refused + 1 >= b->scan_tries)
        return false;
    LH_MARK("scrub-asks-again");
    s->again_at = lh_instant_add(s->cs->now, lh_cs_refusal_pause(b, s->refused++));
    return true;
}

static void read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_scrub *s = t->owner;

    s->ticket = NULL;
    if (is_cut(s->replica, s->at + s->rest.size + s->asked)) {
        leave(s); /* cut, lost or removed meanwhile */
    } else if (is_asked_again(s, error)) {
        /* its timer is set below */
    } else if (error != LH_OK) {
        found(s, error, "bytes that cannot be read");
    } else if (bytes->size < s->asked) {
        found(s, LH_ERR_CORRUPT, "the end of the file");
    } else {
        s->refused = 0;
        s->read += bytes->size;
        lh_buf_append(&s->rest, bytes, 0, bytes->size);
        if (LH_PLANTED("scrub-reads-but-does-not-check")) {
            s->at += s->rest.size;
            lh_buf_clear(&s->rest);
        } else if (!check_batches(s)) {
            found(s, LH_ERR_CORRUPT, "rot");
        }
    }
    set_timer(s);
}

void lh_cs_scrub_stop(struct lh_cs_serving *serving)
{
    struct lh_cs_scrub *s = &serving->scrub;

    if (s->stopped || s->timer.fire == NULL)
        return; /* or it never began */
    s->stopped = true;
    if (s->unsaved > 0)
        save(s);
    leave(s);
    free(s->chunks);
    s->chunks = NULL;
    s->count = s->next = 0;
    lh_timer_unset(&s->cs->timers, &s->timer);
}
