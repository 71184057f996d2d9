/* One writer's way from chunk to chunk.
 *
 * Batches wait in the order of their sequence numbers until they are acknowledged; nothing else
 * takes one out of the list except the appender's end. Whatever goes wrong on the way, the appender
 * asks the master for the tail and sends again from the first batch, the same bytes: where the
 * chunk is still the same its primary recognises the repeats (APP-5).
 *
 * APP-5a. No refusal is a verdict on a batch. What was sent to a chunk and not acknowledged is
 * *unsettled* there. Before any of it goes to a later chunk, the appender asks a replica that holds
 * the earlier chunk's very seal. Since it settles all of it before it sends any of it elsewhere,
 * there is never more than one unsettled chunk. */
#include "client/core/append/appender.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

void lh_client_appender_say(
    struct lh_client_appender *a, int error, const char *what, const char *text)
{
    a->reason = lh_client_reason(error);
    snprintf(a->text, sizeof a->text, "%s: %s: %s", a->path, what,
        text != NULL && text[0] != '\0' ? text : lh_error_text(error));
}

void lh_client_appender_cancel(struct lh_client_appender *a)
{
    struct lh_client_host *c = a->client;

    lh_client_ask_cancel(&a->ask);
    lh_client_link_close(c, &a->settle);
    lh_timer_unset(&c->timers, &a->timer);
    for (struct lh_submit_call *b = a->first; b != a->unsent; b = b->next) {
        lh_client_lane_release(&a->writer, b);
        b->in_flight = false;
    }
    a->unsent = a->first;
    lh_client_lane_leave(&a->writer);
}

static void pop(struct lh_client_appender *a)
{
    struct lh_submit_call *b = a->first;

    if (a->unsent == b)
        a->unsent = b->next;
    if (b->in_flight)
        lh_client_lane_release(&a->writer, b);
    a->first = b->next;
    if (a->first == NULL)
        a->last = NULL;
    else
        a->first->previous = NULL;
    lh_buf_clear(&b->batch);
}

static void complete_all(struct lh_client_appender *a, int error, const char *text)
{
    while (a->first != NULL) {
        struct lh_submit_call *b = a->first;
        pop(a);
        lh_client_complete(a->client, &b->call, error, text);
    }
}

void lh_client_appender_free(struct lh_client_appender *a)
{
    DL_DELETE(a->appenders->all, a);
    lh_client_appender_cancel(a);
    lh_timer_unset(&a->client->timers, &a->give_up_timer);
    lh_client_chunk_deinit(&a->tail);
    lh_client_chunk_deinit(&a->unsettled);
    free(a->address);
    free(a->silent);
    free(a->lock_name);
    free(a->path);
    free(a);
}

void lh_client_appender_fail(
    struct lh_client_appender *a, int error, const char *what, const char *text)
{
    /* To a caller these two say "not yet" and "not taken", never that it is over. */
    if (error == LH_ERR_DEADLINE_EXCEEDED || error == LH_ERR_WOULD_BLOCK)
        error = LH_ERR_UNAVAILABLE;
    if (a->opening != NULL) {
        lh_client_opening_failed(a, error, what, text);
        return;
    }
    lh_client_appender_cancel(a);
    lh_client_appender_say(a, error, what, text);
    lh_timer_unset(&a->client->timers, &a->give_up_timer);
    a->state = LH_APPENDER_FAILED;
    complete_all(a, a->reason, a->text);
}

/* The way in use has failed: look for another one, at once the first time. */
void lh_client_appender_broken(struct lh_client_appender *a, int error, const char *what,
    const char *text, struct lh_duration at_least)
{
    struct lh_client_host *c = a->client;

    lh_client_appender_cancel(a);
    if (error != LH_ERR_CHUNK_FULL)
        lh_client_appender_say(a, error, what, text);
    /* Batches are sent in order, so the first one tells whether anything is unsettled. */
    if (a->first == NULL || !a->first->sent)
        lh_client_chunk_deinit(&a->unsettled);
    if (a->first == NULL && a->opening == NULL) {
        a->state = LH_APPENDER_IDLE;
        return;
    }
    LH_MARK("appender-tries-again");
    struct lh_duration pause = lh_duration_max(lh_client_backoff(c, ++a->failures), at_least);
    a->state = LH_APPENDER_PAUSED;
    lh_timer_set(&c->timers, &a->timer, lh_instant_add(c->now, pause));
}

void lh_client_appender_acknowledge(struct lh_client_appender *a, uint64_t offset)
{
    struct lh_submit_call *b = a->first;

    if (!b->in_flight)
        LH_MARK("batch-settled-as-stored");
    pop(a);
    a->sequence = b->sequence + b->count;
    a->failures = 0;
    a->reason = LH_OK; /* what was wrong is over */
    a->text[0] = '\0';
    a->master_said[0] = '\0';
    b->offset = offset;
    lh_client_complete(a->client, &b->call, LH_OK, NULL);
}

/* ---- The lane ---- */

static bool fits_window(const struct lh_client_appender *a, const struct lh_submit_call *b)
{
    const struct lh_client_writer *w = &a->writer;

    return w->batches < a->window_batches &&
           (w->batches == 0 ||
               (b->batch.size <= a->window_bytes && w->bytes <= a->window_bytes - b->batch.size));
}

static void send_batches(struct lh_client_appender *a)
{
    LH_ASSERT(a->state == LH_APPENDER_OPEN);
    while (a->unsent != NULL && a->unsent->sequence == a->sent_end && fits_window(a, a->unsent)) {
        struct lh_submit_call *b = a->unsent;

        /* APP-5a: nothing goes to this chunk that another one may hold. */
        LH_ASSERT(!b->sent || a->unsettled.chunk == a->tail.chunk);
        lh_client_lane_give(&a->writer, b);
        b->in_flight = true;
        a->unsent = b->next;
        a->sent_end = b->sequence + b->count;
    }
}

static void writer_stored(void *owner, const Leasehold__Stored *s)
{
    struct lh_client_appender *a = owner;
    const struct lh_submit_call *b = a->first;

    if (s->sequence < a->sequence)
        return;
    if (b == NULL || b->message == NULL || s->sequence != b->sequence || s->count != b->count) {
        lh_client_appender_fail(
            a, LH_ERR_MALFORMED, a->address, "it acknowledged a batch that was not sent");
        return;
    }
    lh_client_appender_acknowledge(a, a->tail.start + s->offset);
    send_batches(a);
}

/* What a chunkserver can say of what was asked of it. All else is about itself, or about the way to
 * it: its disk, its machine, what lies between. Then the master is asked, and the file goes on
 * elsewhere, for as long as the caller waits. */
static bool is_verdict(int error)
{
    switch (error) {
    case LH_ERR_INVALID_ARGUMENT:
    case LH_ERR_MALFORMED:
    case LH_ERR_TOO_LARGE:
    case LH_ERR_CORRUPT:
    case LH_ERR_OUT_OF_SEQUENCE:
    case LH_ERR_PERMISSION:
    case LH_ERR_STALE_TOKEN:
    case LH_ERR_UNIMPLEMENTED:
        return true;
    default:
        return false;
    }
}

static void writer_refused(void *owner, int error, const char *text)
{
    struct lh_client_appender *a = owner;

    if (is_verdict(error)) {
        lh_client_appender_fail(a, error, a->address, text);
        return;
    }
    if (error == LH_ERR_CHUNK_FULL) {
        LH_MARK("appender-chunk-full");
        a->full = true;
    } else if (error == LH_ERR_STALE_CAPABILITY) {
        LH_MARK("appender-capability-stale"); /* nothing is wrong with the primary */
    } else {
        a->failed_version = a->tail.version;
    }
    if (error == LH_ERR_UNAVAILABLE) {
        free(a->silent);
        a->silent = lh_strdup(a->address);
    }
    lh_client_appender_broken(a, error, a->address, text, lh_nanoseconds(0));
}

static void writer_opened(void *owner, const Leasehold__AppendAnswer *m)
{
    struct lh_client_appender *a = owner;

    if (a->state != LH_APPENDER_OPENING)
        return;
    a->state = LH_APPENDER_OPEN;
    a->window_batches = m->window_batches == 0 ? 1 : m->window_batches;
    if (a->window_batches > LH_WRITER_WINDOW)
        a->window_batches = LH_WRITER_WINDOW;
    a->window_bytes = m->window_bytes;
    a->sent_end = a->sequence;
    a->full = false;
    a->failed_version = 0;
    lh_timer_unset(&a->client->timers, &a->timer);
    /* From here on batches may be in this chunk: it is the unsettled one until it answers. */
    if (a->unsettled.chunk == 0) {
        a->unsettled.chunk = a->tail.chunk;
        a->unsettled.start = a->tail.start;
    }
    LH_ASSERT(a->unsettled.chunk == a->tail.chunk);
    if (a->opening != NULL) {
        LH_MARK("appender-admitted");
        lh_client_opening_done(
            a); /* TOK-2: this primary has recovered at a version under its token */
    }
    send_batches(a);
}

void lh_client_appender_join(struct lh_client_appender *a)
{
    struct lh_client_host *c = a->client;

    a->state = LH_APPENDER_OPENING;
    lh_client_lane_join(&a->appenders->streams, &a->writer, a->address, &a->tail, a->sequence);
    lh_timer_set(&c->timers, &a->timer, lh_instant_add(c->now, c->config.try_timeout));
}

/* ---- Calls and timers ---- */

static void state_over(void *core, struct lh_timer *timer);
static void give_up(void *core, struct lh_timer *timer);

void lh_client_appender_open(struct lh_client_appenders *all, struct lh_appender_open_call *call)
{
    struct lh_client_appender *a = lh_alloc(sizeof *a);

    a->client = all->client;
    a->appenders = all;
    DL_APPEND(all->all, a);
    a->path = lh_strdup(call->path);
    a->give_up = call->give_up;
    a->sequence = 1;
    do
        a->writer.id = lh_prng_next(&a->client->prng);
    while (a->writer.id == 0);
    a->writer.owner = a;
    a->writer.on_opened = writer_opened;
    a->writer.on_stored = writer_stored;
    a->writer.on_refused = writer_refused;
    a->timer.fire = state_over;
    a->give_up_timer.fire = give_up;
    lh_client_opening_begin(a, call);
}

void lh_client_appender_close(struct lh_appender_close_call *call)
{
    struct lh_client_appender *a = call->appender;
    struct lh_client_host *c = a->client;

    LH_ASSERT(a->opening == NULL);
    if (a->state == LH_APPENDER_OPEN && a->first == NULL)
        lh_client_lane_leave_at_rest(&a->writer);
    complete_all(a, LH_ERR_CANCELLED, "the appender was closed");
    lh_client_appender_free(a);
    lh_client_complete(c, &call->call, LH_OK, NULL);
}

static void insert(struct lh_client_appender *a, struct lh_submit_call *b)
{
    struct lh_submit_call *before = a->last;

    while (before != NULL && before->sequence > b->sequence)
        before = before->previous;
    b->previous = before;
    b->next = before == NULL ? a->first : before->next;
    if (b->next != NULL)
        b->next->previous = b;
    else
        a->last = b;
    if (before == NULL)
        a->first = b;
    else
        before->next = b;
    LH_ASSERT(before == NULL || before->sequence + before->count <= b->sequence);
    if (a->unsent == b->next)
        a->unsent = b;
}

void lh_client_appender_submit(struct lh_submit_call *call)
{
    struct lh_client_appender *a = call->appender;
    struct lh_client_host *c = a->client;

    call->message = NULL;
    call->in_flight = call->sent = false;
    if (a->state == LH_APPENDER_FAILED) {
        lh_buf_clear(&call->batch);
        lh_client_complete(c, &call->call, a->reason, a->text);
        return;
    }
    LH_ASSERT(a->state != LH_APPENDER_STARTING && call->count > 0 && call->sequence >= a->sequence);
    call->submitted = c->now;
    insert(a, call);
    if (!lh_timer_is_set(&a->give_up_timer))
        lh_timer_set(&c->timers, &a->give_up_timer, lh_instant_add(c->now, a->give_up));
    if (a->state == LH_APPENDER_OPEN)
        send_batches(a);
    else if (a->state == LH_APPENDER_IDLE)
        lh_client_appender_find_tail(a);
}

static void give_up(void *core, struct lh_timer *timer)
{
    struct lh_client_appender *a = LH_OWNER(timer, struct lh_client_appender, give_up_timer);
    struct lh_client_host *c = core;
    char text[LH_CALL_TEXT_BYTES];

    if (a->opening != NULL) {
        lh_client_opening_late(a);
        return;
    }
    if (a->first == NULL)
        return;
    struct lh_instant end = lh_instant_add(a->first->submitted, a->give_up);
    if (!lh_instant_reached(c->now, end)) {
        lh_timer_set(&c->timers, &a->give_up_timer, end);
        return;
    }
    /* The newest reason: of the masters, if it is they who do not answer. */
    bool asking = a->ask.active && a->ask.reason != LH_OK;
    int reason = asking ? a->ask.reason : a->reason;
    const char *newest = asking ? a->ask.text : a->text;
    /* A server knows what it waits for, the master who is missing. */
    if (a->master_said[0] != '\0' && strstr(newest, a->master_said) == NULL)
        snprintf(text, sizeof text, "%.200s; before that the master said: %.270s", newest,
            a->master_said);
    else
        snprintf(text, sizeof text, "%s", newest);
    lh_client_appender_fail(a, reason == LH_OK ? LH_ERR_UNAVAILABLE : reason, "gave up", text);
}

static void state_over(void *core, struct lh_timer *timer)
{
    struct lh_client_appender *a = LH_OWNER(timer, struct lh_client_appender, timer);

    (void)core;
    switch (a->state) {
    case LH_APPENDER_PAUSED:
        lh_client_appender_find_tail(a);
        break;
    case LH_APPENDER_OPENING:
        writer_refused(a, LH_ERR_UNAVAILABLE, "no answer to the opening of a writer");
        break;
    case LH_APPENDER_SETTLING:
        lh_client_appender_settle_timer(a);
        break;
    case LH_APPENDER_STARTING:
    case LH_APPENDER_IDLE:
    case LH_APPENDER_FINDING:
    case LH_APPENDER_LOCATING:
    case LH_APPENDER_OPEN:
    case LH_APPENDER_FAILED:
        break;
    }
}

struct lh_client_appenders *lh_client_appenders_create(
    struct lh_client_host *c, struct lh_client_names *names)
{
    struct lh_client_appenders *all = lh_alloc(sizeof *all);

    all->client = c;
    all->names = names;
    lh_client_streams_init(&all->streams, c);
    return all;
}

void lh_client_appenders_destroy(struct lh_client_appenders *all)
{
    lh_client_streams_deinit(&all->streams);
    free(all);
}

void lh_client_appenders_flush(struct lh_client_appenders *all)
{
    lh_client_streams_flush(&all->streams);
}

void lh_client_appenders_end_streams(struct lh_client_appenders *all)
{
    lh_client_streams_end(&all->streams);
}

void lh_client_appenders_end(struct lh_client_appenders *all, bool complete)
{
    while (all->all != NULL) {
        struct lh_client_appender *a = all->all;

        if (complete && a->opening != NULL)
            lh_client_complete(all->client, &a->opening->call, LH_ERR_CANCELLED, NULL);
        complete_all(a, LH_ERR_CANCELLED, "the cluster was closed");
        lh_client_appender_free(a);
    }
}

static void check(const struct lh_client_appender *a)
{
    const struct lh_submit_call *previous = NULL;
    size_t in_flight = 0;
    uint64_t bytes = 0;
    bool before_unsent = true;

    for (const struct lh_submit_call *b = a->first; b != NULL; previous = b, b = b->next) {
        if (b == a->unsent)
            before_unsent = false;
        LH_ASSERT(b->previous == previous && b->appender == a);
        LH_ASSERT(b->in_flight == before_unsent);
        LH_ASSERT(b->message == NULL || (b->in_flight && b->sent));
        if (previous == NULL)
            LH_ASSERT(b->sequence >= a->sequence);
        else
            LH_ASSERT(b->sequence >= previous->sequence + previous->count);
        if (b->in_flight) {
            /* What is in flight has no gap. */
            LH_ASSERT(previous == NULL ? b->sequence == a->sequence
                                       : b->sequence == previous->sequence + previous->count);
            in_flight++;
            bytes += b->batch.size;
        }
        /* APP-5a: somebody must be asked about what was sent. */
        LH_ASSERT(!b->sent || a->unsettled.chunk != 0);
    }
    LH_ASSERT(a->last == previous);
    LH_ASSERT(in_flight == a->writer.batches && bytes == a->writer.bytes);
    LH_ASSERT(in_flight == 0 || a->state == LH_APPENDER_OPEN);
    LH_ASSERT((a->writer.lane != NULL) ==
              (a->state == LH_APPENDER_OPENING || a->state == LH_APPENDER_OPEN));
    LH_ASSERT(a->state != LH_APPENDER_OPEN || a->unsettled.chunk == a->tail.chunk);
    LH_ASSERT(a->state == LH_APPENDER_IDLE || a->state == LH_APPENDER_STARTING ||
              a->state == LH_APPENDER_FAILED || a->state == LH_APPENDER_OPEN || a->settle.id != 0 ||
              a->ask.active || lh_timer_is_set(&a->timer));
    LH_ASSERT(a->state != LH_APPENDER_FAILED || a->first == NULL);
    LH_ASSERT((a->writer.token == 0) == (a->lock_name == NULL));
    LH_ASSERT(a->opening == NULL ||
              (a->first == NULL && a->state != LH_APPENDER_IDLE && a->state != LH_APPENDER_OPEN));
    LH_ASSERT(
        a->first == NULL || lh_timer_is_set(&a->give_up_timer) || a->give_up.ns == UINT64_MAX);
}

void lh_client_appenders_check(const struct lh_client_appenders *all)
{
    lh_client_streams_check(&all->streams);
    for (const struct lh_client_appender *a = all->all; a != NULL; a = a->next)
        check(a);
}
