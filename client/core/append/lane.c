/* Lanes, each shared by the appenders of this client that append to the same chunk.
 *
 * When a batch goes. With nothing unanswered, at the end of the step that gave it. With something
 * unanswered, the batches of all writers gather; they go together when nothing is unanswered any
 * more, or beside a single message once they are as much as is unanswered of it, or when
 * `full_message_bytes` have gathered. So one append waits for nobody, many small ones settle into
 * two messages that take turns, a busy pipe is filled by large ones, and there is no timer in it.
 * How lanes share a stream: stream.c.
 *
 * A writer never comes back to a lane that it has left. Late answers to the old lane, to batches or
 * to its opening, then find nobody; on the same one they could be taken for answers to what it
 * sends again. Nor does it come back to an older stream: what it sends there could overtake what it
 * sent on the newer one, and the server gives answers to the newest only (APP-5). */
#include "client/core/append/stream.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static void touch(struct lh_client_lane *l)
{
    struct lh_client_streams *all = l->stream->streams;

    if (l->touched)
        return;
    l->touched = true;
    LL_PREPEND2(all->touched_lanes, l, next_touched);
}

static struct lh_client_writer *find_writer(const struct lh_client_lane *l, uint64_t id)
{
    struct lh_client_writer *w;

    HASH_FIND(hh, l->writers, &id, sizeof id, w);
    return w;
}

/* ---- Patience ---- */

/* When it ends, if nothing comes until then. */
static struct lh_instant patience_ends(const struct lh_client_lane *l)
{
    return lh_instant_add(
        lh_instant_max(l->progress, l->stream->arrived), l->stream->client->config.stall_timeout);
}

/* Batches are answered in the order of the chunk: when none is, that is no matter of one writer.
 * If the last message has not even left, it is a matter of the whole stream. */
static void look_for_progress(void *core, struct lh_timer *timer)
{
    struct lh_client_lane *l = LH_OWNER(timer, struct lh_client_lane, timer);
    struct lh_client_stream *s = l->stream;
    struct lh_client_host *c = core;

    if (l->given == 0)
        return;
    if (!lh_instant_reached(c->now, patience_ends(l))) {
        lh_timer_set(&c->timers, &l->timer, patience_ends(l));
    } else if (s->outbox.in_flight > 0 &&
               lh_instant_reached(
                   c->now, lh_instant_add(s->writing_since, c->config.stall_timeout))) {
        LH_MARK("stream-stuck");
        lh_client_stream_end(s, LH_ERR_UNAVAILABLE, "appends cannot be sent");
    } else {
        LH_MARK("lane-stalled");
        lh_client_lane_end(l, LH_ERR_UNAVAILABLE, "no answer to appends");
    }
}

/* ---- Joining and leaving ---- */

static struct lh_client_lane *joinable(
    const struct lh_client_stream *s, const struct lh_client_lane_key *key)
{
    struct lh_client_lane *l;

    HASH_FIND(of_key, s->joinable, key, sizeof *key, l);
    return l;
}

/* Nobody joins it any more. */
static void close_to_writers(struct lh_client_lane *l)
{
    if (l->joinable)
        HASH_DELETE(of_key, l->stream->joinable, l);
    l->joinable = false;
}

/* One that the writer may join; NULL: there is none. */
static struct lh_client_lane *find_lane(const struct lh_client_streams *all,
    const struct lh_client_writer *w, const char *address, const struct lh_client_lane_key *key)
{
    const struct lh_client_stream *s = lh_client_stream_newest(all, address);
    struct lh_client_lane *l = s == NULL || s->id < w->left_stream ? NULL : joinable(s, key);

    return l != NULL && l->number > w->left ? l : NULL;
}

/* It takes the place of the one of its key that writers have joined so far. */
static struct lh_client_lane *new_lane(struct lh_client_streams *all,
    const struct lh_client_writer *w, const char *address, const struct lh_client_lane_key *key)
{
    struct lh_client_lane *l = lh_alloc(sizeof *l), *before;

    l->stream = lh_client_stream_to(all, address, w->left_stream);
    l->number = ++all->last_lane;
    l->key = *key;
    before = joinable(l->stream, key);
    if (before != NULL)
        close_to_writers(before);
    HASH_ADD(of_key, l->stream->joinable, key, sizeof l->key, l);
    l->joinable = true;
    l->timer.fire = look_for_progress;
    if (l->stream->lanes != NULL)
        LH_MARK("stream-shared");
    HASH_ADD(hh, l->stream->lanes, number, sizeof l->number, l);
    return l;
}

/* The server takes lanes in the order of their numbers. One that it does not know yet has had an
 * opening here since it began, so it is in front of all that began later. */
static void enlist_opening(struct lh_client_writer *w)
{
    struct lh_client_lane *l = w->lane;

    if (l->to_open == NULL)
        DL_APPEND2(l->stream->opening, l, opening_previous, opening_next);
    DL_APPEND2(l->to_open, w, open_previous, open_next);
    w->to_open = true;
}

static void unlist_opening(struct lh_client_writer *w)
{
    struct lh_client_lane *l = w->lane;

    DL_DELETE2(l->to_open, w, open_previous, open_next);
    if (l->to_open == NULL)
        DL_DELETE2(l->stream->opening, l, opening_previous, opening_next);
    w->to_open = false;
}

struct lh_client_writer *lh_client_lane_take_opening(struct lh_client_stream *s)
{
    struct lh_client_writer *w = s->opening == NULL ? NULL : s->opening->to_open;

    if (w == NULL)
        return NULL;
    unlist_opening(w);
    w->lane->known = true;
    return w;
}

void lh_client_lane_join(struct lh_client_streams *all, struct lh_client_writer *w,
    const char *address, const struct lh_client_chunk *chunk, uint64_t first_sequence)
{
    struct lh_client_lane_key key = {chunk->chunk, chunk->version, w->token};
    struct lh_client_lane *l = find_lane(all, w, address, &key);

    LH_ASSERT(w->lane == NULL && w->batches == 0);
    if (l != NULL)
        LH_MARK("lane-shared");
    else
        l = new_lane(all, w, address, &key);
    if (++l->joined >= all->client->config.stream_writers)
        close_to_writers(l);
    w->lane = l;
    w->first_sequence = first_sequence;
    w->capability = &chunk->capability;
    w->opening = true;
    HASH_ADD(hh, l->writers, id, sizeof w->id, w);
    enlist_opening(w);
    lh_client_stream_owes(l->stream, 1);
    lh_client_stream_touch(l->stream);
}

static void opening_over(struct lh_client_writer *w)
{
    if (w->to_open)
        unlist_opening(w);
    if (w->opening)
        lh_client_stream_owes(w->lane->stream, -1);
    w->opening = false;
}

void lh_client_lane_leave(struct lh_client_writer *w)
{
    struct lh_client_lane *l = w->lane;

    if (l == NULL)
        return;
    LH_ASSERT(w->batches == 0 && w->bytes == 0);
    opening_over(w);
    HASH_DEL(l->writers, w);
    w->lane = NULL;
    if (l->writers == NULL)
        close_to_writers(l);
    /* Lanes are numbered as they begin: every one that it left before is lower. */
    if (l->number > w->left)
        w->left = l->number;
    if (l->stream->id > w->left_stream)
        w->left_stream = l->stream->id;
    l->stream->sound = false;
    touch(l);
}

void lh_client_lane_leave_at_rest(struct lh_client_writer *w)
{
    struct lh_client_stream *s = w->lane->stream;

    LH_ASSERT(!w->opening);
    lh_client_lane_leave(w);
    s->sound = true;
}

void lh_client_lane_end(struct lh_client_lane *l, int error, const char *text)
{
    struct lh_client_writer *w, *next;

    close_to_writers(l);
    HASH_ITER(hh, l->writers, w, next) {
        w->on_refused(w->owner, error, text);
    }
    LH_ASSERT(l->writers == NULL);
    touch(l);
}

void lh_client_lane_free(struct lh_client_lane *l)
{
    struct lh_client_stream *s = l->stream;

    LH_ASSERT(l->writers == NULL && !l->joinable && l->given == 0 && l->messages == 0);
    if (s->rest.lane == l) {
        LH_MARK("rest-of-an-ended-lane");
        lh_buf_clear(&s->rest.batch);
        s->rest.lane = NULL;
    }
    if (l->known) {
        LH_GROW(s->ends, s->end_capacity, s->end_count + 1);
        s->ends[s->end_count++] = l->number;
    }
    lh_turns_unlist(&l->turn);
    lh_timer_unset(&s->client->timers, &l->timer);
    HASH_DEL(s->lanes, l);
    lh_client_stream_touch(s);
    free(l);
}

/* ---- Answers ---- */

void lh_client_lane_answered(struct lh_client_lane *l, const Leasehold__AppendAnswer *m)
{
    struct lh_client_host *c = l->stream->client;
    struct lh_client_writer *w;

    for (size_t i = 0; i < m->n_stored; i++) {
        w = find_writer(l, m->stored[i]->writer);
        if (w != NULL)
            w->on_stored(w->owner, m->stored[i]);
        l->progress = c->now;
    }
    w = find_writer(l, m->writer);
    if (m->error != LEASEHOLD__ERROR_CODE__OK) {
        const char *text;
        int error = lh_client_reply_error(m, &text);
        if (m->writer == 0) {
            l->known = false;
            lh_client_lane_end(l, error, text);
        } else if (w != NULL) {
            w->on_refused(w->owner, error, text);
        }
    } else if (m->opened && w != NULL && w->opening) {
        opening_over(w);
        w->on_opened(w->owner, m);
    }
}

/* ---- Batches ---- */

void lh_client_lane_give(struct lh_client_writer *w, struct lh_submit_call *b)
{
    struct lh_client_lane *l = w->lane;
    struct lh_client_host *c = l->stream->client;

    LH_ASSERT(b->message == NULL);
    w->batches++;
    w->bytes += b->batch.size;
    DL_APPEND2(l->waiting, b, waiting_previous, waiting_next);
    l->waiting_bytes += b->batch.size;
    if (l->given++ == 0)
        l->progress = c->now;
    if (!lh_timer_is_set(&l->timer))
        lh_timer_set(&c->timers, &l->timer, patience_ends(l));
    lh_client_stream_owes(l->stream, 1);
    touch(l);
}

void lh_client_lane_release(struct lh_client_writer *w, struct lh_submit_call *b)
{
    struct lh_client_lane *l = w->lane;

    w->batches--;
    w->bytes -= b->batch.size;
    l->given--;
    lh_client_stream_owes(l->stream, -1);
    if (b->message == NULL) {
        DL_DELETE2(l->waiting, b, waiting_previous, waiting_next);
        l->waiting_bytes -= b->batch.size;
    } else {
        l->unanswered_bytes -= b->batch.size;
        if (--b->message->batches == 0) {
            free(b->message);
            l->messages--;
        }
        b->message = NULL;
    }
    touch(l);
}

static bool may_send(const struct lh_client_lane *l)
{
    const struct lh_client_config *config = &l->stream->client->config;

    if (l->waiting == NULL)
        return false;
    return (l->messages < config->messages && l->waiting_bytes >= l->unanswered_bytes) ||
           (l->waiting_bytes >= config->full_message_bytes &&
               l->unanswered_bytes < config->unanswered_bytes);
}

void lh_client_lane_enlist(struct lh_client_lane *l, bool little)
{
    lh_turns_enlist(&l->stream->turns, &l->turn, little);
    lh_client_stream_touch(l->stream);
}

void lh_client_lane_update(struct lh_client_lane *l)
{
    struct lh_client_stream *s = l->stream;
    bool rest = s->rest.lane == l;

    if (!rest && !may_send(l))
        lh_turns_unlist(&l->turn);
    else if (!lh_turn_waits(&l->turn))
        lh_client_lane_enlist(l, !rest && l->waiting_bytes <= s->client->config.small_bytes);
}

/* More of the batch that was sent in part; false: that was not all. */
static bool take_rest(struct lh_client_lane *l, struct lh_buf *bytes, uint64_t most)
{
    struct lh_client_stream *s = l->stream;

    if (s->rest.lane != l)
        return true;
    uint64_t left = s->rest.batch.size - s->rest.sent, take = left < most ? left : most;
    lh_buf_append(bytes, &s->rest.batch, s->rest.sent, take);
    s->rest.sent += take;
    if (take < left)
        return false;
    lh_buf_clear(&s->rest.batch);
    s->rest.lane = NULL;
    return true;
}

/* The first batch that waits is in this message. */
static void count_in(struct lh_client_lane *l, struct lh_client_message *message)
{
    struct lh_submit_call *b = l->waiting;

    DL_DELETE2(l->waiting, b, waiting_previous, waiting_next);
    l->waiting_bytes -= b->batch.size;
    l->unanswered_bytes += b->batch.size;
    b->sent = true;
    b->message = message;
    message->batches++;
}

bool lh_client_lane_take(struct lh_client_lane *l, struct lh_buf *bytes, uint64_t most, bool alone)
{
    struct lh_client_stream *s = l->stream;
    uint64_t shared = s->client->config.shared_bytes, piece = (shared + 3) / 4;
    struct lh_client_message *message = NULL;
    size_t begin = bytes->size;

    if (!take_rest(l, bytes, alone ? UINT64_MAX : piece))
        return true;
    while (s->rest.lane != l && l->waiting != NULL && (message != NULL || may_send(l))) {
        const struct lh_buf *batch = &l->waiting->batch;
        bool first = bytes->size == begin;
        bool in_parts = !alone && batch->size > shared;
        if (in_parts ? !first || s->rest.lane != NULL
                     : bytes->size - begin + batch->size > most && !(first && alone))
            break;
        if (message == NULL) {
            message = lh_alloc(sizeof *message);
            l->messages++;
        }
        if (in_parts) {
            LH_MARK("batch-sent-in-parts");
            s->rest.lane = l;
            s->rest.batch = lh_buf_ref(batch);
            s->rest.sent = piece;
        }
        lh_buf_append(bytes, batch, 0, in_parts ? piece : batch->size);
        count_in(l, message);
    }
    return bytes->size > begin;
}

void lh_client_lane_check(const struct lh_client_lane *l)
{
    const struct lh_submit_call *b;
    uint64_t waiting = 0, given_bytes = 0;
    unsigned given = 0;

    LH_ASSERT(l->writers != NULL && l->joined >= HASH_COUNT(l->writers));
    LH_ASSERT(l->joinable == (joinable(l->stream, &l->key) == l));
    LH_ASSERT(l->known || l->to_open != NULL);
    for (const struct lh_client_writer *w = l->writers; w != NULL; w = w->hh.next) {
        LH_ASSERT(w->lane == l && w->token == l->key.token && w->left < l->number &&
                  w->left_stream <= l->stream->id);
        LH_ASSERT(!w->to_open || w->opening);
        LH_ASSERT((w->batches == 0) == (w->bytes == 0));
        given_bytes += w->bytes;
        given += w->batches;
    }
    DL_FOREACH2(l->waiting, b, waiting_next) {
        LH_ASSERT(b->in_flight && b->message == NULL);
        waiting += b->batch.size;
    }
    LH_ASSERT(waiting == l->waiting_bytes && given_bytes == waiting + l->unanswered_bytes);
    LH_ASSERT(given == l->given && (l->messages == 0) == (l->unanswered_bytes == 0));
    LH_ASSERT(l->given == 0 || lh_timer_is_set(&l->timer));
    LH_ASSERT(lh_turn_waits(&l->turn) || !may_send(l));
}
