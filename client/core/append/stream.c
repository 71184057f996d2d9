/* Streams of appends, one to each server, shared by all lanes to it.
 *
 * When a message goes: flow/outbox.h; whose part is in it: flow/turns.h. A batch larger than a
 * message that lanes share goes in parts. How much of one lane may be unanswered is its own affair
 * (lane.c).
 *
 * A primary that lives says so while anything is unanswered. One from which nothing at all comes
 * for a while hangs, or the way to it is broken, and all writers look for another one (FAIL-2a). */
#include "client/core/append/stream.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

void lh_client_stream_touch(struct lh_client_stream *s)
{
    lh_outbox_touch(&s->streams->touched, &s->outbox);
}

/* No lane is begun in it any more. */
static void forget_newest(struct lh_client_stream *s)
{
    if (s->newest)
        HASH_DELETE(of_address, s->streams->newest, s);
    s->newest = false;
}

void lh_client_stream_end(struct lh_client_stream *s, int error, const char *text)
{
    struct lh_client_lane *l, *next;

    lh_client_link_close(s->client, &s->link);
    forget_newest(s);
    HASH_ITER(hh, s->lanes, l, next) {
        lh_client_lane_end(l, error, text);
    }
    lh_client_stream_touch(s);
}

/* ---- What comes ---- */

static struct lh_duration three_times(struct lh_duration d)
{
    return lh_duration_add(d, lh_duration_add(d, d));
}

static void stream_message(
    void *core, struct lh_link *link, const void *message, struct lh_buf *payload)
{
    struct lh_client_stream *s = LH_OWNER(link, struct lh_client_stream, link);
    const Leasehold__AppendReply *m = message;

    (void)core;
    (void)payload;
    s->heard = s->client->now;
    lh_client_stream_touch(s);
    if (m->alive_ms > 0) /* by the server's own pace, should that be a slower one */
        s->silence = lh_duration_min(
            s->client->config.stall_timeout, lh_duration_max(s->client->config.hang_timeout,
                                                 three_times(lh_milliseconds(m->alive_ms))));
    if (m->arriving && !LH_PLANTED("progress-is-no-life"))
        s->arrived = s->client->now;
    for (size_t i = 0; i < m->n_answers; i++) {
        struct lh_client_lane *l;
        HASH_FIND(hh, s->lanes, &m->answers[i]->lane, sizeof l->number, l);
        if (l != NULL)
            lh_client_lane_answered(l, m->answers[i]);
        else
            LH_MARK("answer-to-an-ended-lane");
    }
    if (m->error != LEASEHOLD__ERROR_CODE__OK) {
        const char *text;
        int error = lh_client_reply_error(m, &text);
        lh_client_stream_end(s, error, text);
    }
}

static void stream_sent(void *core, struct lh_link *link)
{
    struct lh_client_stream *s = LH_OWNER(link, struct lh_client_stream, link);

    (void)core;
    lh_outbox_left(&s->outbox);
    lh_client_stream_touch(s);
}

static void stream_closed(void *core, struct lh_link *link, int error, const char *text)
{
    (void)core;
    /* A status of the transport is no verdict, except when the server could not read the request.
     */
    if (error != LH_ERR_MALFORMED && error != LH_ERR_INVALID_ARGUMENT &&
        error != LH_ERR_UNIMPLEMENTED && error != LH_ERR_TOO_LARGE && error != LH_ERR_PERMISSION)
        error = LH_ERR_UNAVAILABLE;
    lh_client_stream_end(LH_OWNER(link, struct lh_client_stream, link), error,
        text != NULL ? text : "the connection was lost");
}

static const struct lh_link_user stream_links = {
    .message = stream_message, .sent = stream_sent, .closed = stream_closed};

void lh_client_stream_owes(struct lh_client_stream *s, int answers)
{
    if (s->owed == 0) {
        s->heard = s->client->now;
        if (!lh_timer_is_set(&s->timer))
            lh_timer_set(&s->client->timers, &s->timer, lh_instant_add(s->client->now, s->silence));
    }
    s->owed += (unsigned)answers;
}

static void look_for_life(void *core, struct lh_timer *timer)
{
    struct lh_client_stream *s = LH_OWNER(timer, struct lh_client_stream, timer);
    struct lh_client_host *c = core;
    struct lh_instant ends = lh_instant_add(s->heard, s->silence);

    if (s->owed == 0)
        return;
    if (!lh_instant_reached(c->now, ends)) {
        lh_timer_set(&c->timers, &s->timer, ends);
        return;
    }
    LH_MARK("stream-hangs");
    lh_client_stream_end(s, LH_ERR_UNAVAILABLE, "no sign of life from the primary");
}

/* ---- Beginning and end ---- */

static void free_stream(struct lh_client_stream *s)
{
    LH_ASSERT(s->lanes == NULL && s->owed == 0 && s->opening == NULL && s->joinable == NULL);
    forget_newest(s);
    lh_client_link_close(s->client, &s->link);
    lh_timer_unset(&s->client->timers, &s->timer);
    lh_timer_unset(&s->client->timers, &s->idle);
    DL_DELETE(s->streams->all, s);
    free(s->ends);
    free(s->address);
    free(s);
}

static void too_long_idle(void *core, struct lh_timer *timer)
{
    struct lh_client_stream *s = LH_OWNER(timer, struct lh_client_stream, idle);

    (void)core;
    LH_MARK("stream-idle");
    forget_newest(s);
    lh_client_stream_touch(s); /* which it may be already: a message came, too */
}

/* All have left it. If nothing is wrong with it, the next lane to that server finds it for a while.
 * Until then the server is not told that the last one has ended. */
static void keep_or_free(struct lh_client_stream *s)
{
    if (!s->sound || !s->newest) {
        free_stream(s);
        return;
    }
    if (!lh_timer_is_set(&s->idle))
        lh_timer_set(&s->client->timers, &s->idle,
            lh_instant_add(s->client->now, s->client->config.stream_idle));
}

struct lh_client_stream *lh_client_stream_newest(
    const struct lh_client_streams *all, const char *address)
{
    struct lh_client_stream *s;

    HASH_FIND(of_address, all->newest, address, strlen(address), s);
    return s;
}

struct lh_client_stream *lh_client_stream_to(
    struct lh_client_streams *all, const char *address, uint64_t oldest)
{
    struct lh_client_host *c = all->client;
    struct lh_client_stream *s = lh_client_stream_newest(all, address);

    if (s != NULL && s->id >= oldest && HASH_COUNT(s->lanes) < c->config.stream_lanes) {
        lh_timer_unset(&c->timers, &s->idle);
        return s;
    }
    if (s != NULL) {
        forget_newest(s);
        lh_client_stream_touch(s); /* nobody may be on it */
    }
    s = lh_alloc(sizeof *s);
    s->client = c;
    s->streams = all;
    s->address = lh_strdup(address);
    s->timer.fire = look_for_life;
    s->idle.fire = too_long_idle;
    s->silence = c->config.hang_timeout;
    s->link.user = &stream_links;
    lh_link_open(&c->links, c->fx, &s->link, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    s->id = s->link.id;
    DL_APPEND(all->all, s);
    HASH_ADD_KEYPTR(of_address, all->newest, s->address, strlen(s->address), s);
    s->newest = true;
    return s;
}

void lh_client_streams_init(struct lh_client_streams *all, struct lh_client_host *c)
{
    size_t parts = c->config.message_parts + 1;

    all->client = c;
    all->parts = lh_alloc_array(parts, sizeof *all->parts);
    all->part_list = lh_alloc_array(parts, sizeof *all->part_list);
}

void lh_client_streams_end(struct lh_client_streams *all)
{
    lh_client_streams_flush(all);
    while (all->all != NULL)
        free_stream(all->all);
}

void lh_client_streams_deinit(struct lh_client_streams *all)
{
    free(all->parts);
    free(all->part_list);
}

/* ---- What goes ---- */

struct outgoing {
    Leasehold__AppendPart *parts;
    size_t count;
    struct lh_buf bytes;
};

static Leasehold__AppendPart *next_part(struct outgoing *o, const struct lh_client_lane *l)
{
    Leasehold__AppendPart *part = &o->parts[o->count++];

    leasehold__append_part__init(part);
    if (l != NULL) {
        part->lane = l->number;
        part->chunk = l->key.chunk;
        part->version = l->key.version; /* FENCE-2 */
    }
    return part;
}

/* Ends first: the server has room for so many lanes, and for one batch that is half there. */
static void put_ends_and_openings(struct lh_client_stream *s, struct outgoing *o, size_t most)
{
    size_t ends = s->end_count < most ? s->end_count : most;
    const struct lh_client_writer *w;

    for (size_t i = 0; i < ends; i++) {
        Leasehold__AppendPart *part = next_part(o, NULL);
        part->lane = s->ends[i];
        part->end = true;
    }
    s->end_count -= ends;
    if (ends > 0)
        memmove(s->ends, s->ends + ends, s->end_count * sizeof *s->ends);
    while (o->count < most && (w = lh_client_lane_take_opening(s)) != NULL) {
        Leasehold__AppendPart *part = next_part(o, w->lane);
        part->writer = w->id;
        part->first_sequence = w->first_sequence;
        part->token = w->token;
        part->capability = *w->capability;
    }
}

/* One turn of a lane. What was little may be more by now, and of what it has maybe nothing may go:
 * both wait behind those with much. */
static void put_next(
    struct lh_client_lane *l, struct outgoing *o, bool little, uint64_t most, bool alone)
{
    size_t before = o->bytes.size;

    if ((little && l->waiting_bytes > l->stream->client->config.small_bytes) ||
        !lh_client_lane_take(l, &o->bytes, most, alone)) {
        lh_client_lane_enlist(l, false);
        return;
    }
    next_part(o, l)->bytes = o->bytes.size - before;
    lh_client_lane_update(l);
}

static void put_parts(struct lh_client_stream *s, struct outgoing *o)
{
    const struct lh_client_config *c = &s->client->config;
    bool alone = HASH_COUNT(s->lanes) == 1;
    struct lh_turn *turn;
    uint64_t most;

    put_ends_and_openings(s, o, c->message_parts);
    if (s->end_count > 0)
        return; /* one of them may have a batch half sent, which another one's must not follow */
    struct lh_turns_message message = {.parts_most = c->message_parts,
        .bytes_most = alone ? c->message_bytes : c->shared_bytes,
        .little_bytes = c->small_bytes,
        .parts = o->count};
    while ((turn = lh_turns_next(&s->turns, &message, &most)) != NULL) {
        put_next(LH_OWNER(turn, struct lh_client_lane, turn), o, message.now == LH_TURNS_OF_LITTLE,
            most, alone);
        message.parts = o->count;
        message.bytes = o->bytes.size;
    }
}

/* False: there is nothing to send. */
static bool send_message(struct lh_client_stream *s)
{
    struct lh_client_host *c = s->client;
    struct lh_client_streams *all = s->streams;
    Leasehold__AppendRequest m = LEASEHOLD__APPEND_REQUEST__INIT;
    struct outgoing o = {.parts = all->parts};

    put_parts(s, &o);
    if (o.count == 0)
        return false;
    for (size_t i = 0; i < o.count; i++)
        all->part_list[i] = &o.parts[i];
    if (o.parts[0].lane != o.parts[o.count - 1].lane)
        LH_MARK("message-of-many-lanes");
    m.parts = all->part_list;
    m.n_parts = o.count;
    if (!s->named)
        m.cluster = lh_client_active_cluster(c);
    s->named = s->named || m.cluster != 0;
    /* What the only lane has in small messages is little (lane.c): nobody has to wait for it. */
    s->writing_since = c->now;
    if (HASH_COUNT(s->lanes) > 1 || o.bytes.size > c->config.small_bytes)
        lh_outbox_send(&s->outbox, c->fx, s->link.id, &m.base, &o.bytes);
    else
        lh_fx_send(c->fx, s->link.id, &m.base, &o.bytes);
    return true;
}

void lh_client_streams_flush(struct lh_client_streams *all)
{
    while (all->touched_lanes != NULL) {
        struct lh_client_lane *l = all->touched_lanes;
        LL_DELETE2(all->touched_lanes, l, next_touched);
        l->touched = false;
        if (l->writers == NULL)
            lh_client_lane_free(l);
        else
            lh_client_lane_update(l);
    }
    struct lh_outbox *o;
    while ((o = lh_outbox_next(&all->touched)) != NULL) {
        struct lh_client_stream *s = LH_OWNER(o, struct lh_client_stream, outbox);
        if (s->lanes == NULL) {
            keep_or_free(s);
            continue;
        }
        while (s->outbox.in_flight == 0 && send_message(s))
            ; /* a message has so many parts at most */
    }
}

void lh_client_streams_check(const struct lh_client_streams *all)
{
    const struct lh_client_stream *s;

    LH_ASSERT(all->touched == NULL && all->touched_lanes == NULL);
    DL_FOREACH(all->all, s) {
        unsigned owed = 0;
        LH_ASSERT(s->link.id != 0 && (s->lanes == NULL) == lh_timer_is_set(&s->idle));
        LH_ASSERT(s->newest == (lh_client_stream_newest(all, s->address) == s));
        for (const struct lh_client_lane *l = s->lanes; l != NULL; l = l->hh.next) {
            lh_client_lane_check(l);
            owed += l->given;
            for (const struct lh_client_writer *w = l->writers; w != NULL; w = w->hh.next)
                owed += w->opening;
        }
        LH_ASSERT(owed == s->owed && (owed == 0 || lh_timer_is_set(&s->timer)));
        LH_ASSERT(s->outbox.in_flight > 0 || s->lanes == NULL ||
                  (s->turns.little == NULL && s->opening == NULL && s->end_count == 0));
        uint64_t highest = 0; /* of those that the server does not know */
        const struct lh_client_lane *l;
        DL_FOREACH2(s->opening, l, opening_next) {
            LH_ASSERT(l->to_open != NULL && (l->known || l->number > highest));
            highest = l->known ? highest : l->number;
        }
    }
}
