/* Append streams: what is sent on them (when: flow/outbox.h), their ends, signs of life,
 * pressure. */
#include "chunkserver/primary/streams.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

static void touch(struct lh_cs_stream *s)
{
    lh_outbox_touch(&s->primaries->streams.touched, &s->outbox);
}

struct lh_cs_stream *lh_cs_stream_begin(struct lh_cs_primaries *primaries, struct lh_cs_link *l)
{
    struct lh_cs_stream *s = lh_alloc(sizeof *s);

    s->primaries = primaries;
    s->link = l->id;
    s->spoken = primaries->cs->now;
    l->owner = s;
    DL_APPEND(primaries->streams.all, s);
    return s;
}

void lh_cs_stream_drop_rest(struct lh_cs_stream *s)
{
    s->primaries->streams.arriving_bytes -= s->rest.bytes.size;
    lh_buf_clear(&s->rest.bytes);
    /* Nothing of it is awaited; another message may still be on its way. */
    const struct lh_cs_link *l = lh_cs_link_find(s->primaries->cs, s->link);
    s->arriving = l != NULL && l->arriving;
}

void lh_cs_stream_free(struct lh_cs_stream *s)
{
    while (s->lanes != NULL)
        lh_cs_lane_free(s->lanes);
    lh_cs_stream_drop_rest(s);
    lh_outbox_forget(&s->primaries->streams.touched, &s->outbox);
    DL_DELETE(s->primaries->streams.all, s);
    s->primaries->streams.held -= s->held;
    for (size_t i = 0; i < s->answers.count; i++)
        free(s->answers.items[s->answers.first + i].text);
    free(s->answers.items);
    free(s->answers.stored);
    free(s);
}

/* ---- answers ---- */

void lh_cs_stream_answer(struct lh_cs_stream *s, const Leasehold__AppendAnswer *m, const char *text)
{
    size_t end = s->answers.first + s->answers.count++;

    LH_GROW(s->answers.items, s->answers.capacity, end + 1);
    s->answers.items[end] =
        (struct lh_cs_lane_answer){.m = *m, .text = text == NULL ? NULL : lh_strdup(text)};
    touch(s);
}

struct lh_cs_lane_answer *lh_cs_stream_last_answer(const struct lh_cs_stream *s)
{
    return s->answers.count == 0 ? NULL
                                 : &s->answers.items[s->answers.first + s->answers.count - 1];
}

Leasehold__Stored *lh_cs_stream_one_more_stored(struct lh_cs_stream *s)
{
    size_t end = s->answers.stored_first + s->answers.stored_count++;

    LH_GROW(s->answers.stored, s->answers.stored_capacity, end + 1);
    leasehold__stored__init(&s->answers.stored[end]);
    lh_cs_stream_last_answer(s)->stored++;
    return &s->answers.stored[end];
}

void lh_cs_stream_refuse(struct lh_cs_stream *s, uint64_t lane, uint64_t chunk, uint64_t writer,
    int error, const char *text)
{
    Leasehold__AppendAnswer m = LEASEHOLD__APPEND_ANSWER__INIT;

    s->primaries->cs->counts.append_errors[-error]++;
    m.lane = lane;
    m.chunk = chunk;
    m.writer = writer;
    m.error = (Leasehold__ErrorCode)-error;
    lh_cs_stream_answer(s, &m, text == NULL ? lh_error_text(error) : text);
}

/* What is answered to a stream's only lane is little (LH_WRITER_WINDOW), so it waits for nothing:
 * while the client keeps the rules, and reads. */
static bool may_go_unreported(const struct lh_cs_stream *s, const Leasehold__AppendReply *m)
{
    if (s->lane_count > 1 || s->outbox.in_flight > 0 ||
        s->flying > s->primaries->cs->config.bounds.stream_answers / 4)
        return false;
    for (size_t i = 0; i < m->n_answers; i++)
        if (m->answers[i]->n_stored == 0)
            return false;
    return true;
}

static void send_reply(struct lh_cs_stream *s, Leasehold__AppendReply *m)
{
    struct lh_cs_host *cs = s->primaries->cs;

    m->alive_ms = lh_duration_ms(cs->config.alive_interval);
    m->arriving = s->arriving;
    s->spoken = cs->now;
    s->flying += m->n_answers + 1;
    for (size_t i = 0; i < m->n_answers; i++)
        s->flying += m->answers[i]->n_stored;
    if (may_go_unreported(s, m))
        lh_fx_send(cs->fx, s->link, &m->base, NULL);
    else
        lh_outbox_send(&s->outbox, cs->fx, s->link, &m->base, NULL);
}

/* The first of those that wait, and the batches in them, have been sent. What they leave empty is
 * used again once it is as much as the rest. */
void lh_cs_stream_drop_answers(struct lh_cs_stream *s, size_t count, size_t stored)
{
    for (size_t i = 0; i < count; i++)
        free(s->answers.items[s->answers.first + i].text);
    s->answers.first += count;
    s->answers.count -= count;
    s->answers.stored_first += stored;
    s->answers.stored_count -= stored;
    if (s->answers.first > 0 && s->answers.first >= s->answers.count) {
        memmove(s->answers.items, s->answers.items + s->answers.first,
            s->answers.count * sizeof *s->answers.items);
        s->answers.first = 0;
    }
    if (s->answers.stored_first > 0 && s->answers.stored_first >= s->answers.stored_count) {
        memmove(s->answers.stored, s->answers.stored + s->answers.stored_first,
            s->answers.stored_count * sizeof *s->answers.stored);
        s->answers.stored_first = 0;
    }
}

/* FAIL-4, FAIL-5: what is said of a log that is lost or in doubt is not of what is on this disk. */
static bool is_vouched_for(const struct lh_cs_replica *r)
{
    return r->state != LH_CS_REPLICA_LOST &&
           (!r->in_doubt || LH_PLANTED("answers-of-a-log-in-doubt"));
}

/* As many as one reply may have, batches and answers counted alike. */
static void send_answers(struct lh_cs_stream *s)
{
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;
    Leasehold__AppendAnswer *answers[LH_REPLY_BATCHES_MAX];
    Leasehold__Stored *stored[LH_REPLY_BATCHES_MAX];
    size_t most = s->primaries->cs->config.bounds.reply_batches, count = 0, done = 0;
    size_t taken = 0; /* batches: those that are sent, and those that nobody vouches for */

    m.answers = answers;
    for (; done < s->answers.count && m.n_answers < most && count < most; done++) {
        struct lh_cs_lane_answer *a = &s->answers.items[s->answers.first + done];
        const struct lh_cs_replica *r = lh_cs_replica_find(s->primaries->logs, a->m.chunk);
        if (a->stored > 0 && r != NULL && !is_vouched_for(r)) {
            LH_MARK("answer-of-a-lost-replica"); /* the end of the lane stands behind */
            taken += a->stored;
            continue;
        }
        a->m.version = r == NULL ? 0 : r->adopting; /* as it is by now */
        a->m.error_text = a->text == NULL ? (char *)(uintptr_t) "" : a->text;
        a->m.stored = stored + count;
        a->m.n_stored = a->stored < most - count ? a->stored : most - count;
        for (size_t i = 0; i < a->m.n_stored; i++)
            stored[count++] = &s->answers.stored[s->answers.stored_first + taken++];
        a->stored -= a->m.n_stored;
        answers[m.n_answers++] = &a->m;
        if (LH_PLANTED("answer-to-another-lane"))
            a->m.lane = answers[0]->lane;
        if (a->stored > 0)
            break; /* the others go with the next one */
    }
    if (m.n_answers > 1 && answers[0]->lane != answers[m.n_answers - 1]->lane)
        LH_MARK("reply-to-many-lanes");
    send_reply(s, &m);
    lh_cs_stream_drop_answers(s, done, taken);
}

static void send_all(struct lh_cs_stream *s)
{
    while (s->answers.count > 0)
        send_answers(s);
}

void lh_cs_stream_sent(struct lh_cs_stream *s)
{
    lh_outbox_left(&s->outbox);
    if (s->outbox.in_flight == 0)
        s->flying = 0; /* also what went unreported: it went before */
    if (s->answers.count > 0 || s->held)
        touch(s);
}

/* ------------------------------------------------------------------------------------------------
 * Pressure: what is uncommitted, and answers that the client does not read. */

/* Answers, and batches in them, that the client has not read, as far as is known. */
static size_t unread(const struct lh_cs_stream *s)
{
    return s->answers.count + s->answers.stored_count + s->flying;
}

void lh_cs_stream_hold_if_full(struct lh_cs_stream *s)
{
    struct lh_cs_primaries *primaries = s->primaries;
    const struct lh_chunkserver_config *config = &primaries->cs->config;
    bool pending = primaries->streams.pending_bytes > config->pending_bytes_max;

    if (s->held || (!pending && unread(s) <= config->bounds.stream_answers))
        return;
    LH_MARK("stream-held");
    s->held = true;
    primaries->streams.held++;
    lh_fx_hold(primaries->cs->fx, s->link);
}

static bool pressed(const struct lh_cs_primaries *primaries)
{
    return primaries->streams.pending_bytes > primaries->cs->config.pending_bytes_max / 2;
}

static void release(struct lh_cs_stream *s)
{
    struct lh_cs_primaries *primaries = s->primaries;

    if (!s->held || pressed(primaries) ||
        unread(s) > primaries->cs->config.bounds.stream_answers / 2)
        return;
    s->held = false;
    s->rest.since = primaries->cs->now; /* that it was not read is no fault of the client's */
    primaries->streams.held--;
    lh_fx_unhold(primaries->cs->fx, s->link);
}

void lh_cs_streams_release_pressure(struct lh_cs_primaries *primaries)
{
    struct lh_cs_stream *s;

    if (primaries->streams.held == 0 || pressed(primaries))
        return;
    DL_FOREACH(primaries->streams.all, s)
        release(s);
}

/* ---- ends ---- */

void lh_cs_stream_end(struct lh_cs_stream *s, int error, const char *text)
{
    struct lh_cs_host *cs = s->primaries->cs;
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    cs->counts.append_errors[-error]++;
    send_all(s);
    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)(text == NULL ? lh_error_text(error) : text);
    send_reply(s, &m);
    lh_cs_link_close(cs, s->link, LH_OK, NULL);
    lh_cs_stream_free(s);
}

void lh_cs_stream_half_closed(struct lh_cs_stream *s)
{
    LH_MARK("stream-half-closed");
    s->half_closed = true;
    touch(s);
}

static bool waits(const struct lh_cs_stream *s)
{
    struct lh_cs_lane *lane;

    DL_FOREACH2(s->lanes, lane, stream_next)
        if (lh_cs_lane_waits(lane))
            return true;
    return false;
}

void lh_cs_streams_flush(struct lh_cs_primaries *primaries)
{
    struct lh_outbox *o;

    while ((o = lh_outbox_next(&primaries->streams.touched)) != NULL) {
        struct lh_cs_stream *s = LH_OWNER(o, struct lh_cs_stream, outbox);
        if (s->half_closed && !waits(s)) {
            LH_MARK("stream-half-closed-ends");
            send_all(s);
            lh_cs_link_close(primaries->cs, s->link, LH_OK, NULL);
            lh_cs_stream_free(s);
            continue;
        }
        while (s->answers.count > 0 && (s->outbox.in_flight == 0 || s->urgent))
            send_answers(s);
        s->urgent = false;
        if (s->answers.count > 0)
            LH_MARK("stream-answers-gather");
        release(s);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Signs of life: a client tells a primary that has much to do, or waits for others, from one that
 * hangs. */

/* Twice as often as is promised, so that what was sent just after a look is no matter. */
static struct lh_instant next_look(const struct lh_cs_host *cs)
{
    return lh_instant_add(cs->now, lh_nanoseconds(cs->config.alive_interval.ns / 2));
}

void lh_cs_streams_expect_life(struct lh_cs_primaries *primaries)
{
    if (!lh_timer_is_set(&primaries->streams.alive))
        lh_timer_set(&primaries->cs->timers, &primaries->streams.alive, next_look(primaries->cs));
}

/* Tells clients that wait and have heard nothing for a while that this server lives. */
static void show_life(void *core, struct lh_timer *timer)
{
    struct lh_cs_primaries *primaries = LH_OWNER(timer, struct lh_cs_primaries, streams.alive);
    struct lh_cs_host *cs = core;
    uint64_t half = cs->config.alive_interval.ns / 2;
    struct lh_cs_stream *s;

    DL_FOREACH(primaries->streams.all, s) {
        Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;
        if (!waits(s) && !s->arriving)
            continue;
        lh_cs_streams_expect_life(primaries);
        if (lh_instant_until(s->spoken, cs->now).ns < half || s->outbox.in_flight > 0)
            continue;
        LH_MARK("stream-sign-of-life");
        send_reply(s, &m);
    }
}

void lh_cs_streams_init(struct lh_cs_primaries *primaries)
{
    primaries->streams.alive.fire = show_life;
}
