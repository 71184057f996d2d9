/* Streams of appends, each shared by the appenders of this client that append to the same chunk.
 *
 * A stream is one APPEND link to the primary of one chunk at one version. Writers join it, give it
 * batches, and leave it; it is closed when the last one has left.
 *
 * When a batch goes. With nothing under way, at the end of the step that gave it. With something
 * under way, the batches of all writers gather; they go together when nothing is under way any
 * more, or beside a single message once they are as much as is unanswered of it, or when
 * `full_message_bytes` have gathered. So one append waits for nobody, many small ones settle into
 * two messages that take turns, a busy pipe is filled by large ones, and there is no timer in it.
 *
 * A primary that lives says so while anything is unanswered. One from which nothing at all comes
 * for a while hangs, or the way to it is broken, and all writers look for another one (FAIL-2a).
 *
 * A writer never comes back to a stream that it has left. Late answers on the old stream, to
 * batches or to its opening, then find nobody; on the same one they could be taken for answers to
 * what it sends anew. */
#include "client/core/stream.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/link.h"
#include "client/core/reply.h"
#include "client/core/state.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* A message under way. */
struct lh_client_message {
    unsigned batches; /* unanswered, at least 1 */
};

struct lh_client_stream {
    struct lh_client *client;
    struct lh_client_stream *next; /* of the client */
    bool touched;                  /* in the client's list of those to be looked at */
    struct lh_client_stream *next_touched;
    struct lh_client_link link; /* `id` 0: it is over and its writers are leaving */
    char *address;
    uint64_t chunk, version;
    struct lh_client_writer *writers; /* by id */
    unsigned joined;                  /* writers that ever did */
    struct lh_submit_call *waiting;   /* batches to be sent */
    uint64_t waiting_bytes;
    unsigned openings;          /* unanswered */
    unsigned messages;          /* under way */
    uint64_t unanswered_bytes;  /* in them */
    struct lh_timer timer;      /* set while anything is unanswered; may be early */
    struct lh_instant progress; /* the last answer to a batch, or news of a part of one that has
                                   arrived, or the first message after a rest */
    struct lh_instant heard;    /* the last message, or when something began to be unanswered */
    struct lh_duration silence; /* for so long it may say nothing */
};

static void touch(struct lh_client_stream *s)
{
    if (s->touched)
        return;
    s->touched = true;
    LL_PREPEND2(s->client->touched_streams, s, next_touched);
}

static struct lh_client_writer *find_writer(const struct lh_client_stream *s, uint64_t id)
{
    struct lh_client_writer *w;

    HASH_FIND(hh, s->writers, &id, sizeof id, w);
    return w;
}

static bool owes_answer(const struct lh_client_stream *s)
{
    return s->messages > 0 || s->openings > 0;
}

/* When patience ends, if nothing comes until then. */
static struct lh_instant patience_ends(const struct lh_client_stream *s)
{
    struct lh_instant stalled = lh_instant_add(s->progress, s->client->config.stall_timeout);
    struct lh_instant hung = lh_instant_add(s->heard, s->silence);

    if (!owes_answer(s))
        return LH_INSTANT_NEVER;
    return s->messages > 0 ? lh_instant_min(stalled, hung) : hung;
}

/* Something is about to be unanswered. */
static void expect_answer(struct lh_client_stream *s)
{
    if (!owes_answer(s))
        s->heard = s->client->now;
}

static void watch(struct lh_client_stream *s)
{
    if (!lh_timer_is_set(&s->timer))
        lh_timer_set(&s->client->timers, &s->timer, patience_ends(s));
}

static void opening_over(struct lh_client_writer *w)
{
    if (!w->opening)
        return;
    w->opening = false;
    w->stream->openings--;
}

static void end(struct lh_client_stream *s, int error, const char *text)
{
    struct lh_client_writer *w, *next;

    lh_client_link_close(s->client, &s->link);
    HASH_ITER(hh, s->writers, w, next) {
        w->on_refused(w->owner, error, text);
    }
    LH_ASSERT(s->writers == NULL);
    touch(s);
}

static struct lh_duration three_times(struct lh_duration d)
{
    return lh_duration_add(d, lh_duration_add(d, d));
}

static void stream_message(void *owner, const void *message, struct lh_buf *payload)
{
    struct lh_client_stream *s = owner;
    const Leasehold__AppendReply *m = message;
    struct lh_client_writer *w;

    (void)payload;
    s->heard = s->client->now;
    if (m->alive_ms > 0) /* by the server's own pace, should that be a slower one */
        s->silence = lh_duration_min(
            s->client->config.stall_timeout, lh_duration_max(s->client->config.hang_timeout,
                                                 three_times(lh_milliseconds(m->alive_ms))));
    if (m->arriving && !LH_PLANTED("progress-is-no-life"))
        s->progress = s->client->now;
    for (size_t i = 0; i < m->n_stored; i++) {
        w = find_writer(s, m->stored[i]->writer);
        if (w != NULL)
            w->on_stored(w->owner, m->stored[i]);
        s->progress = s->client->now;
    }
    w = find_writer(s, m->writer);
    if (m->error != LEASEHOLD__ERROR_CODE__OK) {
        const char *text;
        int error = lh_client_reply_error(m, &text);
        if (m->writer == 0)
            end(s, error, text);
        else if (w != NULL)
            w->on_refused(w->owner, error, text);
    } else if (m->opened && w != NULL) {
        opening_over(w);
        w->on_opened(w->owner, m);
    }
}

static void stream_closed(void *owner, int error, const char *text)
{
    /* A status of the transport is no verdict, except when the server could not read the request.
     */
    if (error != LH_ERR_MALFORMED && error != LH_ERR_INVALID_ARGUMENT &&
        error != LH_ERR_UNIMPLEMENTED && error != LH_ERR_TOO_LARGE)
        error = LH_ERR_UNAVAILABLE;
    end(owner, error, text != NULL ? text : "the connection was lost");
}

/* Batches are answered in the order of the chunk: when none is, that is no matter of one writer. */
static void look_for_life(void *core, struct lh_timer *timer)
{
    struct lh_client_stream *s = LH_OWNER(timer, struct lh_client_stream, timer);
    struct lh_client *c = core;
    struct lh_instant ends = patience_ends(s);

    if (!owes_answer(s))
        return;
    if (!lh_instant_reached(c->now, ends)) {
        lh_timer_set(&c->timers, &s->timer, ends);
    } else if (lh_instant_reached(c->now, lh_instant_add(s->heard, s->silence))) {
        LH_MARK("stream-hangs");
        end(s, LH_ERR_UNAVAILABLE, "no sign of life from the primary");
    } else {
        LH_MARK("stream-stalled");
        end(s, LH_ERR_UNAVAILABLE, "no answer to appends");
    }
}

/* ---- Joining and leaving ---- */

/* One that the writer may join; NULL: there is none. */
static struct lh_client_stream *find_stream(const struct lh_client *c,
    const struct lh_client_writer *w, const char *address, uint64_t chunk, uint64_t version)
{
    for (struct lh_client_stream *s = c->streams; s != NULL; s = s->next)
        if (s->chunk == chunk && s->version == version && s->link.id > w->left &&
            s->joined < c->config.stream_writers && strcmp(s->address, address) == 0)
            return s;
    return NULL;
}

static struct lh_client_stream *new_stream(
    struct lh_client *c, const char *address, uint64_t chunk, uint64_t version)
{
    struct lh_client_stream *s = lh_alloc(sizeof *s);

    s->client = c;
    s->address = lh_strdup(address);
    s->chunk = chunk;
    s->version = version;
    s->timer.fire = look_for_life;
    s->silence = c->config.hang_timeout;
    s->link = (struct lh_client_link){
        .owner = s, .on_message = stream_message, .on_closed = stream_closed};
    lh_client_link_open(c, &s->link, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    LL_PREPEND(c->streams, s);
    return s;
}

void lh_client_stream_join(struct lh_client *c, struct lh_client_writer *w, const char *address,
    uint64_t chunk, uint64_t version, uint64_t first_sequence)
{
    struct lh_client_stream *s = find_stream(c, w, address, chunk, version);
    Leasehold__AppendRequest m = LEASEHOLD__APPEND_REQUEST__INIT;

    LH_ASSERT(w->stream == NULL && w->batches == 0);
    if (s != NULL)
        LH_MARK("stream-shared");
    else
        s = new_stream(c, address, chunk, version);
    s->joined++;
    w->stream = s;
    HASH_ADD(hh, s->writers, id, sizeof w->id, w);
    expect_answer(s);
    w->opening = true;
    s->openings++;
    watch(s);
    m.chunk = chunk;
    m.version = version;
    m.writer = w->id;
    m.first_sequence = first_sequence;
    lh_fx_send(c->fx, s->link.id, &m.base, NULL);
}

void lh_client_stream_leave(struct lh_client_writer *w)
{
    struct lh_client_stream *s = w->stream;

    if (s == NULL)
        return;
    LH_ASSERT(w->batches == 0 && w->bytes == 0);
    opening_over(w);
    HASH_DEL(s->writers, w);
    w->stream = NULL;
    /* Links are numbered in the order of their opening: every earlier one that it left is lower. */
    if (s->link.id > w->left)
        w->left = s->link.id;
    touch(s);
}

/* ---- Batches ---- */

void lh_client_stream_give(struct lh_client_writer *w, struct lh_submit_call *b)
{
    struct lh_client_stream *s = w->stream;

    LH_ASSERT(b->message == NULL);
    w->batches++;
    w->bytes += b->batch.size;
    DL_APPEND2(s->waiting, b, waiting_previous, waiting_next);
    s->waiting_bytes += b->batch.size;
    touch(s);
}

void lh_client_stream_release(struct lh_client_writer *w, struct lh_submit_call *b)
{
    struct lh_client_stream *s = w->stream;

    w->batches--;
    w->bytes -= b->batch.size;
    if (b->message == NULL) {
        DL_DELETE2(s->waiting, b, waiting_previous, waiting_next);
        s->waiting_bytes -= b->batch.size;
    } else {
        s->unanswered_bytes -= b->batch.size;
        if (--b->message->batches == 0) {
            free(b->message);
            s->messages--;
        }
        b->message = NULL;
    }
    touch(s);
}

static bool may_send(const struct lh_client_stream *s)
{
    const struct lh_client_config *config = &s->client->config;

    if (s->waiting == NULL)
        return false;
    return (s->messages < config->messages && s->waiting_bytes >= s->unanswered_bytes) ||
           (s->waiting_bytes >= config->full_message_bytes &&
               s->unanswered_bytes < config->unanswered_bytes);
}

static void send_message(struct lh_client_stream *s)
{
    struct lh_client *c = s->client;
    Leasehold__AppendRequest m = LEASEHOLD__APPEND_REQUEST__INIT;
    struct lh_client_message *message = lh_alloc(sizeof *message);
    struct lh_buf bytes = {0};

    do {
        struct lh_submit_call *b = s->waiting;
        DL_DELETE2(s->waiting, b, waiting_previous, waiting_next);
        lh_buf_append(&bytes, &b->batch, 0, b->batch.size);
        b->sent = true;
        b->message = message;
        message->batches++;
    } while (s->waiting != NULL && bytes.size + s->waiting->batch.size <= c->config.message_bytes);
    s->waiting_bytes -= bytes.size;
    s->unanswered_bytes += bytes.size;
    expect_answer(s);
    if (s->messages++ == 0)
        s->progress = c->now;
    watch(s);
    m.chunk = s->chunk; /* FENCE-2 */
    m.version = s->version;
    lh_fx_send(c->fx, s->link.id, &m.base, &bytes);
}

static void free_stream(struct lh_client_stream *s)
{
    LH_ASSERT(s->waiting == NULL && s->messages == 0);
    lh_client_link_close(s->client, &s->link);
    lh_timer_unset(&s->client->timers, &s->timer);
    LL_DELETE(s->client->streams, s);
    free(s->address);
    free(s);
}

void lh_client_streams_flush(struct lh_client *c)
{
    while (c->touched_streams != NULL) {
        struct lh_client_stream *s = c->touched_streams;

        LL_DELETE2(c->touched_streams, s, next_touched);
        s->touched = false;
        if (s->writers == NULL) {
            free_stream(s);
            continue;
        }
        while (may_send(s))
            send_message(s);
    }
}

void lh_client_streams_check(const struct lh_client *c)
{
    LH_ASSERT(c->touched_streams == NULL);
    for (const struct lh_client_stream *s = c->streams; s != NULL; s = s->next) {
        const struct lh_submit_call *b;
        uint64_t waiting = 0, given = 0;
        unsigned openings = 0;

        LH_ASSERT(s->link.id != 0 && s->writers != NULL && s->joined >= HASH_COUNT(s->writers));
        for (const struct lh_client_writer *w = s->writers; w != NULL; w = w->hh.next) {
            LH_ASSERT(w->stream == s && w->left < s->link.id);
            LH_ASSERT((w->batches == 0) == (w->bytes == 0));
            given += w->bytes;
            openings += w->opening;
        }
        LH_ASSERT(openings == s->openings);
        DL_FOREACH2(s->waiting, b, waiting_next) {
            LH_ASSERT(b->in_flight && b->message == NULL);
            waiting += b->batch.size;
        }
        LH_ASSERT(waiting == s->waiting_bytes && given == waiting + s->unanswered_bytes);
        LH_ASSERT((s->messages == 0) == (s->unanswered_bytes == 0));
        LH_ASSERT(!owes_answer(s) || lh_timer_is_set(&s->timer));
        LH_ASSERT(!may_send(s));
    }
}
