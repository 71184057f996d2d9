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
#include "client/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum state {
    STARTING, /* asking whether the file exists */
    IDLE,     /* no stream and nothing to send */
    FINDING,  /* asking for the tail and its primary */
    PAUSED,   /* a failed round; FINDING when the timer fires */
    LOCATING, /* asking who holds the unsettled chunk's seal */
    SETTLING, /* asking one of them */
    OPENING,  /* the stream's first message is unanswered */
    OPEN,
    FAILED
};

struct lh_client_appender {
    struct lh_client *client;
    struct lh_client_appender *next;
    enum state state;
    char *path;
    uint64_t file;
    struct lh_client_writer writer;
    struct lh_duration give_up;
    struct lh_appender_open_call *opening; /* until its completion */

    struct lh_submit_call *first, *last; /* unacknowledged, by sequence */
    struct lh_submit_call *unsent;       /* the first that is not in flight; NULL: all are */
    uint64_t sequence;                   /* of the next record to be acknowledged */
    uint64_t sent_end; /* OPEN: the sequence number after the last one in flight */

    struct lh_client_chunk tail; /* the chunk to append to; `chunk` 0: none known */
    char *address;               /* of its primary */
    bool full;                   /* it answered CHUNK_FULL */
    uint64_t failed_version;
    uint64_t window_batches, window_bytes;

    struct lh_client_chunk unsettled; /* `chunk` 0: none */
    size_t settler;                   /* the member to be asked next */
    unsigned settle_rounds;           /* in which none of its members has answered */
    char *silent;                     /* the server whose stream was lost last; NULL: none */

    struct lh_client_ask ask;
    Leasehold__StatRequest stat;
    Leasehold__OpenTailRequest open_tail;
    Leasehold__LocateRequest locate;
    struct lh_client_link settle;
    struct lh_timer timer;         /* PAUSED, OPENING, SETTLING: its end */
    struct lh_timer give_up_timer; /* of the first batch; may be early */
    unsigned failures;             /* since the last acknowledged batch */
    int reason;                    /* of the last one, or why it has failed for good */
    char text[LH_CALL_TEXT_BYTES];
    char master_said[LH_CALL_TEXT_BYTES]; /* why there is no primary; since the same; "": nothing */
};

static void find_tail(struct lh_client_appender *a);
static void join_stream(struct lh_client_appender *a);
static void locate_unsettled(struct lh_client_appender *a);
static void ask_settler(struct lh_client_appender *a);

static void say(struct lh_client_appender *a, int error, const char *what, const char *text)
{
    a->reason = error;
    snprintf(a->text, sizeof a->text, "%s: %s: %s", a->path, what,
        text != NULL && text[0] != '\0' ? text : lh_error_text(error));
}

/* Ends what the appender is waiting for; keeps its batches. */
static void cancel(struct lh_client_appender *a)
{
    struct lh_client *c = a->client;

    lh_client_ask_cancel(&a->ask);
    lh_client_link_close(c, &a->settle);
    lh_timer_unset(&c->timers, &a->timer);
    for (struct lh_submit_call *b = a->first; b != a->unsent; b = b->next) {
        lh_client_stream_release(&a->writer, b);
        b->in_flight = false;
    }
    a->unsent = a->first;
    lh_client_stream_leave(&a->writer);
}

static void pop(struct lh_client_appender *a)
{
    struct lh_submit_call *b = a->first;

    if (a->unsent == b)
        a->unsent = b->next;
    if (b->in_flight)
        lh_client_stream_release(&a->writer, b);
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

static void fail(struct lh_client_appender *a, int error, const char *what, const char *text)
{
    /* To a caller these two say "not yet" and "not taken", never that it is over. */
    if (error == LH_ERR_DEADLINE_EXCEEDED || error == LH_ERR_WOULD_BLOCK)
        error = LH_ERR_UNAVAILABLE;
    cancel(a);
    say(a, error, what, text);
    lh_timer_unset(&a->client->timers, &a->give_up_timer);
    a->state = FAILED;
    complete_all(a, a->reason, a->text);
}

/* The way in use has failed: look for another one, at once the first time. */
static void broken(struct lh_client_appender *a, int error, const char *what, const char *text,
    struct lh_duration at_least)
{
    struct lh_client *c = a->client;

    cancel(a);
    if (error != LH_ERR_CHUNK_FULL)
        say(a, error, what, text);
    /* Batches are sent in order, so the first one tells whether anything is unsettled. */
    if (a->first == NULL || !a->first->sent)
        lh_client_chunk_deinit(&a->unsettled);
    if (a->first == NULL) {
        a->state = IDLE;
        return;
    }
    LH_MARK("appender-tries-again");
    struct lh_duration pause = lh_duration_max(lh_client_backoff(c, ++a->failures), at_least);
    a->state = PAUSED;
    lh_timer_set(&c->timers, &a->timer, lh_instant_add(c->now, pause));
}

static void acknowledge(struct lh_client_appender *a, uint64_t offset)
{
    struct lh_submit_call *b = a->first;

    if (!b->in_flight)
        LH_MARK("batch-settled-as-stored");
    pop(a);
    a->sequence = b->sequence + b->count;
    a->failures = 0;
    a->master_said[0] = '\0';
    b->offset = offset;
    lh_client_complete(a->client, &b->call, LH_OK, NULL);
}

/* ---- The stream ---- */

static bool fits_window(const struct lh_client_appender *a, const struct lh_submit_call *b)
{
    const struct lh_client_writer *w = &a->writer;

    return w->batches < a->window_batches &&
           (w->batches == 0 ||
               (b->batch.size <= a->window_bytes && w->bytes <= a->window_bytes - b->batch.size));
}

static void send_batches(struct lh_client_appender *a)
{
    LH_ASSERT(a->state == OPEN);
    while (a->unsent != NULL && a->unsent->sequence == a->sent_end && fits_window(a, a->unsent)) {
        struct lh_submit_call *b = a->unsent;

        /* APP-5a: nothing goes to this chunk that another one may hold. */
        LH_ASSERT(!b->sent || a->unsettled.chunk == a->tail.chunk);
        lh_client_stream_give(&a->writer, b);
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
        fail(a, LH_ERR_MALFORMED, a->address, "it acknowledged a batch that was not sent");
        return;
    }
    acknowledge(a, a->tail.start + s->offset);
    send_batches(a);
}

static void writer_refused(void *owner, int error, const char *text)
{
    struct lh_client_appender *a = owner;

    if (lh_error_advice(error) == LH_GIVE_UP) {
        fail(a, error, a->address, text);
        return;
    }
    if (error == LH_ERR_CHUNK_FULL) {
        LH_MARK("appender-chunk-full");
        a->full = true;
    } else {
        a->failed_version = a->tail.version;
    }
    if (error == LH_ERR_UNAVAILABLE) {
        free(a->silent);
        a->silent = lh_strdup(a->address);
    }
    broken(a, error, a->address, text, lh_nanoseconds(0));
}

static void writer_opened(void *owner, const Leasehold__AppendReply *m)
{
    struct lh_client_appender *a = owner;

    if (a->state != OPENING)
        return;
    a->state = OPEN;
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
    send_batches(a);
}

static void join_stream(struct lh_client_appender *a)
{
    struct lh_client *c = a->client;

    a->state = OPENING;
    lh_client_stream_join(c, &a->writer, a->address, a->tail.chunk, a->tail.version, a->sequence);
    lh_timer_set(&c->timers, &a->timer, lh_instant_add(c->now, c->config.try_timeout));
}

/* ---- Settling (APP-5a) ---- */

static void settled(struct lh_client_appender *a)
{
    a->settle_rounds = 0;
    lh_client_chunk_deinit(&a->unsettled);
    for (struct lh_submit_call *b = a->first; b != NULL; b = b->next)
        b->sent = false;
    if (a->first == NULL)
        a->state = IDLE;
    else
        join_stream(a);
}

static const Leasehold__Stored *find_stored(
    const Leasehold__SettleReply *m, const struct lh_submit_call *b)
{
    for (size_t i = 0; i < m->n_last; i++)
        if (m->last[i]->sequence == b->sequence && m->last[i]->count == b->count)
            return m->last[i];
    return NULL;
}

static void settler_answered(void *owner, const void *message, struct lh_buf *payload)
{
    struct lh_client_appender *a = owner;
    const Leasehold__SettleReply *m = message;
    const char *text;
    int error = lh_client_reply_error(m, &text);

    (void)payload;
    if (error != LH_OK) {
        say(a, error, a->unsettled.members[a->settler - 1].address, text);
        ask_settler(a);
        return;
    }
    lh_timer_unset(&a->client->timers, &a->timer);
    while (
        m->known && a->first != NULL && a->first->sent && a->first->sequence <= m->last_sequence) {
        const Leasehold__Stored *s = find_stored(m, a->first);
        if (s == NULL) {
            fail(a, LH_ERR_OUT_OF_SEQUENCE, "settling",
                "the sealed chunk knows other records under these numbers");
            return;
        }
        acknowledge(a, a->unsettled.start + s->offset);
    }
    if (a->first != NULL && a->first->sent)
        LH_MARK("batch-settled-as-missing");
    settled(a);
}

static void settler_closed(void *owner, int error, const char *text)
{
    struct lh_client_appender *a = owner;

    say(a, error == LH_OK ? LH_ERR_UNAVAILABLE : error,
        a->unsettled.members[a->settler - 1].address, text);
    ask_settler(a);
}

/* A server that hangs must not hold the writer up while another one could answer. But it may be
 * slow because it reads a whole log back: so the time grows. */
static struct lh_duration settle_patience(const struct lh_client_appender *a)
{
    const struct lh_client_config *config = &a->client->config;
    unsigned doublings = a->settle_rounds < 10 ? a->settle_rounds : 10;

    return lh_duration_min(config->try_timeout, lh_nanoseconds(config->settle_try.ns << doublings));
}

static void ask_settler(struct lh_client_appender *a)
{
    struct lh_client *c = a->client;
    struct lh_duration timeout = settle_patience(a);
    Leasehold__SettleRequest m = LEASEHOLD__SETTLE_REQUEST__INIT;

    while (a->settler < a->unsettled.member_count &&
           a->unsettled.members[a->settler].address[0] == '\0')
        a->settler++;
    if (a->settler == a->unsettled.member_count) {
        a->settle_rounds++;
        broken(a, a->reason == LH_OK ? LH_ERR_UNAVAILABLE : a->reason, "settling",
            "no replica of the sealed chunk answers yet", c->config.backoff_min);
        return;
    }
    a->state = SETTLING;
    a->settle = (struct lh_client_link){
        .owner = a, .on_message = settler_answered, .on_closed = settler_closed};
    lh_client_link_open(
        c, &a->settle, LH_METHOD_SETTLE, a->unsettled.members[a->settler++].address, timeout);
    m.chunk = a->unsettled.chunk;
    m.version = a->unsettled.version;
    m.writer = a->writer.id;
    lh_fx_send(c->fx, a->settle.id, &m.base, NULL);
    lh_timer_set(&c->timers, &a->timer, lh_instant_add(c->now, timeout));
}

/* The server that was found silent goes to the end of those that are asked. */
static void silent_settler_last(struct lh_client_appender *a)
{
    struct lh_client_chunk *chunk = &a->unsettled;

    for (size_t i = 0; a->silent != NULL && i < chunk->member_count; i++) {
        struct lh_client_member m = chunk->members[i];
        if (strcmp(m.address, a->silent) != 0)
            continue;
        memmove(
            chunk->members + i, chunk->members + i + 1, (chunk->member_count - i - 1) * sizeof m);
        chunk->members[chunk->member_count - 1] = m;
        return;
    }
}

static void begin_settling(struct lh_client_appender *a, const Leasehold__ChunkInfo *info)
{
    lh_client_chunk_deinit(&a->unsettled);
    lh_client_chunk_copy(&a->unsettled, info);
    silent_settler_last(a);
    a->settler = 0;
    ask_settler(a);
}

static void unsettled_located(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_appender *a = owner;
    const Leasehold__LocateReply *m = reply;

    if (error != LH_OK) {
        if (lh_error_advice(error) == LH_GIVE_UP)
            fail(a, error, "locating a chunk", text);
        else
            broken(a, error, "locating a chunk", text, a->client->config.backoff_min);
        return;
    }
    const Leasehold__ChunkInfo *info = m->n_chunks > 0 ? m->chunks[0] : NULL;
    if (info != NULL && info->chunk == a->unsettled.chunk && info->unbacked) {
        LH_MARK("unsettled-unbacked");
        broken(a, LH_ERR_UNAVAILABLE, "settling",
            "what is sealed there is on too few disks yet, and is being copied",
            a->client->config.backoff_min);
    } else if (info != NULL && info->chunk == a->unsettled.chunk && info->sealed) {
        LH_MARK("unsettled-located");
        begin_settling(a, info);
    } else if (info != NULL && info->chunk != a->unsettled.chunk &&
               info->start == a->unsettled.start) {
        /* Another chunk begins at the same byte: the unsettled one is sealed and empty. */
        settled(a);
    } else {
        broken(a, LH_ERR_UNAVAILABLE, "locating a chunk", "the sealed chunk is not listed yet",
            a->client->config.backoff_min);
    }
}

static void locate_unsettled(struct lh_client_appender *a)
{
    a->state = LOCATING;
    leasehold__locate_request__init(&a->locate);
    a->locate.path = a->path;
    a->locate.file = a->file;
    a->locate.offset = a->unsettled.start;
    a->locate.limit = 1;
    a->ask.owner = a;
    a->ask.done = unsettled_located;
    lh_client_ask(
        a->client, &a->ask, LH_METHOD_LOCATE, &a->locate.base, lh_nanoseconds(0), LH_INSTANT_NEVER);
}

/* ---- The tail ---- */

static void no_tail_yet(
    struct lh_client_appender *a, int error, const char *text, const Leasehold__OpenTailReply *m)
{
    struct lh_duration wait = a->client->config.backoff_min;
    char said[LH_CALL_TEXT_BYTES];

    if (m != NULL)
        wait = lh_duration_max(wait,
            lh_duration_min(lh_milliseconds(m->retry_after_ms), a->client->config.backoff_max));
    if (error == LH_ERR_LEASE_HELD && m != NULL) {
        snprintf(said, sizeof said, "%s (for at most %.1f s more)", text,
            (double)m->lease_left_ms / 1000.0);
        text = said;
    }
    snprintf(a->master_said, sizeof a->master_said, "%s", text);
    broken(a, error, "finding the primary", text, wait);
}

static void tail_found(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_appender *a = owner;
    const Leasehold__OpenTailReply *m = reply;

    if (error != LH_OK) {
        if (lh_error_advice(error) == LH_GIVE_UP)
            fail(a, error, "finding the primary", text);
        else
            no_tail_yet(a, error, text, m);
        return;
    }
    if (m->chunk == NULL || m->chunk->chunk == 0 || m->primary == NULL ||
        m->primary->address[0] == '\0') {
        no_tail_yet(a, LH_ERR_NOT_LEASED, lh_error_text(LH_ERR_NOT_LEASED), m);
        return;
    }
    a->failed_version = 0; /* it was told, and this is the answer */
    bool verdict = a->full && LH_PLANTED("chunk-full-is-a-verdict");
    if (m->chunk->chunk != a->tail.chunk)
        a->full = false;
    lh_client_chunk_deinit(&a->tail);
    lh_client_chunk_copy(&a->tail, m->chunk);
    free(a->address);
    a->address = lh_strdup(m->primary->address);
    if (a->unsettled.chunk == 0 || a->unsettled.chunk == a->tail.chunk)
        join_stream(a);
    else if (verdict || LH_PLANTED("next-chunk-without-asking"))
        settled(a);
    else if (m->settled != NULL && m->settled->sealed && m->settled->chunk == a->unsettled.chunk)
        begin_settling(a, m->settled);
    else
        locate_unsettled(a);
}

/* For how long the master may wait for a primary: it must say why there is none before the oldest
 * record is given up, or nobody hears it. */
static struct lh_duration patience(const struct lh_client_appender *a)
{
    struct lh_duration wait = a->client->config.tail_wait;

    if (a->first == NULL)
        return wait;
    struct lh_duration left =
        lh_instant_until(a->client->now, lh_instant_add(a->first->submitted, a->give_up));
    return lh_duration_min(wait, lh_nanoseconds(left.ns / 4 * 3));
}

static void find_tail(struct lh_client_appender *a)
{
    struct lh_duration wait = patience(a);

    a->state = FINDING;
    leasehold__open_tail_request__init(&a->open_tail);
    a->open_tail.path = a->path;
    a->open_tail.file = a->file;
    a->open_tail.full_chunk = a->full ? a->tail.chunk : 0;
    a->open_tail.failed_version = a->failed_version;
    a->open_tail.unsettled_chunk = a->unsettled.chunk;
    a->open_tail.wait_ms = lh_duration_ms(wait);
    a->ask.owner = a;
    a->ask.done = tail_found;
    lh_client_ask(
        a->client, &a->ask, LH_METHOD_OPEN_TAIL, &a->open_tail.base, wait, LH_INSTANT_NEVER);
}

/* ---- Calls and timers ---- */

static void free_appender(struct lh_client_appender *a)
{
    struct lh_client_appender **at = &a->client->appenders;

    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    cancel(a);
    lh_timer_unset(&a->client->timers, &a->give_up_timer);
    lh_client_chunk_deinit(&a->tail);
    lh_client_chunk_deinit(&a->unsettled);
    free(a->address);
    free(a->silent);
    free(a->path);
    free(a);
}

static void file_found(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_appender *a = owner;
    struct lh_client *c = a->client;
    struct lh_appender_open_call *call = a->opening;
    const Leasehold__StatReply *m = reply;

    a->opening = NULL;
    if (error == LH_OK && (m->info == NULL || m->info->chunk_size < LH_CHUNK_BYTES_MIN ||
                              m->info->chunk_size > LH_CHUNK_BYTES_MAX)) {
        error = LH_ERR_MALFORMED;
        text = "the master's description of the file makes no sense";
    }
    if (error != LH_OK) {
        say(a, error, "opening", text);
        lh_client_complete(c, &call->call, error, a->text);
        free_appender(a);
        return;
    }
    a->file = m->info->file;
    a->state = IDLE;
    call->appender = a;
    call->writer = a->writer.id;
    call->chunk_size = m->info->chunk_size;
    lh_client_complete(c, &call->call, LH_OK, NULL);
}

void lh_client_appender_open(struct lh_client *c, struct lh_appender_open_call *call)
{
    struct lh_client_appender *a = lh_alloc(sizeof *a);

    a->client = c;
    a->next = c->appenders;
    c->appenders = a;
    a->path = lh_strdup(call->path);
    a->give_up = call->give_up;
    a->sequence = 1;
    do
        a->writer.id = lh_prng_next(&c->prng);
    while (a->writer.id == 0);
    a->writer.owner = a;
    a->writer.on_opened = writer_opened;
    a->writer.on_stored = writer_stored;
    a->writer.on_refused = writer_refused;
    a->timer.kind = LH_TIMER_APPENDER;
    a->timer.owner = a;
    a->give_up_timer.kind = LH_TIMER_GIVE_UP;
    a->give_up_timer.owner = a;
    a->opening = call;
    leasehold__stat_request__init(&a->stat);
    a->stat.path = a->path;
    a->ask.owner = a;
    a->ask.done = file_found;
    lh_client_ask(c, &a->ask, LH_METHOD_STAT, &a->stat.base, lh_nanoseconds(0), call->deadline);
}

void lh_client_appender_close(struct lh_appender_close_call *call)
{
    struct lh_client_appender *a = call->appender;
    struct lh_client *c = a->client;

    LH_ASSERT(a->opening == NULL);
    complete_all(a, LH_ERR_CANCELLED, "the appender was closed");
    free_appender(a);
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
    struct lh_client *c = a->client;

    if (a->state == FAILED) {
        lh_buf_clear(&call->batch);
        lh_client_complete(c, &call->call, a->reason, a->text);
        return;
    }
    LH_ASSERT(a->state != STARTING && call->count > 0 && call->sequence >= a->sequence);
    call->message = NULL;
    call->in_flight = call->sent = false;
    call->submitted = c->now;
    insert(a, call);
    if (!lh_timer_is_set(&a->give_up_timer))
        lh_timer_set(&c->timers, &a->give_up_timer, lh_instant_add(c->now, a->give_up));
    if (a->state == OPEN)
        send_batches(a);
    else if (a->state == IDLE)
        find_tail(a);
}

static void give_up(struct lh_client_appender *a)
{
    struct lh_client *c = a->client;
    char text[LH_CALL_TEXT_BYTES];

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
    fail(a, reason == LH_OK ? LH_ERR_UNAVAILABLE : reason, "gave up", text);
}

void lh_client_appender_timer(struct lh_client_appender *a, enum lh_client_timer kind)
{
    if (kind == LH_TIMER_GIVE_UP) {
        give_up(a);
        return;
    }
    switch (a->state) {
    case PAUSED:
        find_tail(a);
        break;
    case OPENING:
        writer_refused(a, LH_ERR_UNAVAILABLE, "no answer to the opening of a stream");
        break;
    case SETTLING:
        lh_client_link_close(a->client, &a->settle);
        settler_closed(a, LH_ERR_UNAVAILABLE, "no answer");
        break;
    case STARTING:
    case IDLE:
    case FINDING:
    case LOCATING:
    case OPEN:
    case FAILED:
        break;
    }
}

void lh_client_appenders_end(struct lh_client *c, bool complete)
{
    while (c->appenders != NULL) {
        struct lh_client_appender *a = c->appenders;

        if (complete && a->opening != NULL)
            lh_client_complete(c, &a->opening->call, LH_ERR_CANCELLED, NULL);
        complete_all(a, LH_ERR_CANCELLED, "the cluster was closed");
        free_appender(a);
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
    LH_ASSERT(in_flight == 0 || a->state == OPEN);
    LH_ASSERT((a->writer.stream != NULL) == (a->state == OPENING || a->state == OPEN));
    LH_ASSERT(a->state != OPEN || a->unsettled.chunk == a->tail.chunk);
    LH_ASSERT(a->state == IDLE || a->state == STARTING || a->state == FAILED || a->state == OPEN ||
              a->settle.id != 0 || a->ask.active || lh_timer_is_set(&a->timer));
    LH_ASSERT(a->state != FAILED || a->first == NULL);
    LH_ASSERT(
        a->first == NULL || lh_timer_is_set(&a->give_up_timer) || a->give_up.ns == UINT64_MAX);
}

void lh_client_appenders_check(const struct lh_client *c)
{
    for (const struct lh_client_appender *a = c->appenders; a != NULL; a = a->next)
        check(a);
}
