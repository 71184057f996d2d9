/* Append streams: their ends, what is sent on them, signs of life, pressure. */
#include "chunkserver/primary/streams.h"

#include "base/alloc.h"

#include <stdlib.h>

void lh_cs_stream_send_error(
    struct lh_cs_host *cs, uint64_t link, int error, const char *text, uint64_t version)
{
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)(text == NULL ? lh_error_text(error) : text);
    m.version = version;
    lh_fx_send(cs->fx, link, &m.base, NULL);
    lh_cs_link_close(cs, link, LH_OK, NULL);
}

void lh_cs_stream_free(struct lh_cs_stream *s)
{
    DL_DELETE(s->primary->streams, s);
    if (s->half_closed)
        LL_DELETE2(s->primary->room->streams.half_closed, s, next_half_closed);
    free(s->stored);
    free(s->writers);
    free(s);
}

/* A reply to a stream, which is a sign of life. */
void lh_cs_stream_send(struct lh_cs_stream *s, const Leasehold__AppendReply *m)
{
    struct lh_cs_host *cs = s->primary->replica->cs;

    s->spoken = cs->now;
    lh_fx_send(cs->fx, s->link, &m->base, NULL);
}

void lh_cs_stream_end(struct lh_cs_stream *s, int error, const char *text)
{
    struct lh_cs_replica *r = s->primary->replica;

    r->cs->counts.append_errors[-error]++;
    lh_cs_stream_flush(s);
    lh_cs_stream_send_error(r->cs, s->link, error, text, r->adopting);
    lh_cs_stream_free(s);
}

void lh_cs_stream_end_all(struct lh_cs_primary *p, int error, const char *text)
{
    struct lh_cs_stream *s, *next;

    DL_FOREACH_SAFE(p->streams, s, next) {
        lh_cs_stream_end(s, error, text);
    }
}

void lh_cs_stream_hold_all(struct lh_cs_primary *p)
{
    struct lh_cs_stream *s;

    DL_FOREACH(p->streams, s) {
        if (!s->held)
            lh_fx_hold(p->replica->cs->fx, s->link);
        s->held = true;
    }
}

struct lh_cs_stream_writer *lh_cs_stream_writer(struct lh_cs_stream *s, uint64_t id)
{
    for (size_t i = 0; i < s->writer_count; i++)
        if (s->writers[i].id == id)
            return &s->writers[i];
    return NULL;
}

void lh_cs_stream_stored(struct lh_cs_stream *s, const struct lh_cs_uncommitted *u)
{
    struct lh_cs_stream_writer *w = lh_cs_stream_writer(s, u->writer);

    if (w != NULL && w->unanswered > 0)
        w->unanswered--;
    if (s->stored_count == s->primary->replica->cs->config.bounds.reply_batches)
        lh_cs_stream_flush(s);
    LH_GROW(s->stored, s->stored_capacity, s->stored_count + 1);
    Leasehold__Stored *stored = &s->stored[s->stored_count++];
    leasehold__stored__init(stored);
    stored->writer = u->writer;
    stored->sequence = u->sequence;
    stored->count = u->count;
    stored->offset = u->offset;
    if (LH_PLANTED("offset-given-twice"))
        stored->offset = s->stored[0].offset;
}

void lh_cs_stream_flush(struct lh_cs_stream *s)
{
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;
    Leasehold__Stored *list[LH_REPLY_BATCHES_MAX];

    if (s->stored_count == 0)
        return;
    for (size_t i = 0; i < s->stored_count; i++)
        list[i] = &s->stored[i];
    m.stored = list;
    m.n_stored = s->stored_count;
    lh_cs_stream_send(s, &m);
    free(s->stored);
    s->stored = NULL;
    s->stored_count = s->stored_capacity = 0;
}

void lh_cs_stream_refuse_writer(
    struct lh_cs_stream *s, struct lh_cs_stream_writer *w, int error, const char *text)
{
    struct lh_cs_replica *r = s->primary->replica;
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    r->cs->counts.append_errors[-error]++;
    lh_cs_stream_flush(s);
    w->opened = false;
    w->refused = true;
    m.writer = w->id;
    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)text;
    m.version = r->adopting;
    lh_cs_stream_send(s, &m);
}

/* ------------------------------------------------------------------------------------------------
 * Signs of life: a client tells a primary that has much to do, or waits for others, from one that
 * hangs. */

/* Twice as often as is promised, so that what was sent just after a look is no matter. */
static struct lh_instant next_look(const struct lh_cs_host *cs)
{
    return lh_instant_add(cs->now, lh_nanoseconds(cs->config.alive_interval.ns / 2));
}

/* From now on somebody waits for an answer. */
void lh_cs_streams_expect_life(struct lh_cs_primaries *room)
{
    if (!lh_timer_is_set(&room->streams.alive))
        lh_timer_set(&room->cs->timers, &room->streams.alive, next_look(room->cs));
}

static bool waits(const struct lh_cs_stream *s)
{
    for (size_t i = 0; i < s->writer_count; i++)
        if (!s->writers[i].refused && (!s->writers[i].opened || s->writers[i].unanswered > 0))
            return true;
    return false;
}

bool lh_cs_streams_wait(const struct lh_cs_primary *p)
{
    struct lh_cs_stream *s;

    DL_FOREACH(p->streams, s)
        if (waits(s))
            return true;
    return false;
}

bool lh_cs_streams_arrive(const struct lh_cs_primary *p)
{
    struct lh_cs_stream *s;

    DL_FOREACH(p->streams, s)
        if (s->arriving)
            return true;
    return false;
}

/* Tells clients that wait and have heard nothing for a while that this server lives. */
static void show_life(void *core, struct lh_timer *timer)
{
    struct lh_cs_primaries *room = LH_OWNER(timer, struct lh_cs_primaries, streams.alive);
    struct lh_cs_host *cs = core;
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;
    uint64_t half = cs->config.alive_interval.ns / 2;
    struct lh_cs_primary *p;
    struct lh_cs_stream *s;

    DL_FOREACH(room->all, p) {
        DL_FOREACH(p->streams, s) {
            if (!waits(s) && !s->arriving)
                continue;
            lh_cs_streams_expect_life(room);
            if (lh_instant_until(s->spoken, cs->now).ns < half)
                continue;
            LH_MARK("stream-sign-of-life");
            m.alive_ms = lh_duration_ms(cs->config.alive_interval);
            m.arriving = s->arriving;
            lh_cs_stream_send(s, &m);
        }
    }
}

void lh_cs_streams_close_answered(struct lh_cs_primaries *room)
{
    struct lh_cs_stream *s, *next;

    LL_FOREACH_SAFE2(room->streams.half_closed, s, next, next_half_closed) {
        if (waits(s))
            continue;
        LH_MARK("stream-half-closed-ends");
        lh_cs_stream_flush(s);
        lh_cs_link_close(room->cs, s->link, LH_OK, NULL);
        lh_cs_stream_free(s);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Pressure. */

/* Too much is uncommitted: this client is read again when there is less. */
void lh_cs_stream_hold_if_full(struct lh_cs_primaries *room, struct lh_cs_stream *s)
{
    if (room->streams.pending_bytes <= room->cs->config.pending_bytes_max || s->held)
        return;
    s->held = true;
    room->streams.holding = true;
    lh_fx_hold(room->cs->fx, s->link);
}

void lh_cs_streams_release_pressure(struct lh_cs_primaries *room)
{
    struct lh_cs_primary *p;
    struct lh_cs_stream *s;

    if (!room->streams.holding ||
        room->streams.pending_bytes > room->cs->config.pending_bytes_max / 2)
        return;
    room->streams.holding = false;
    DL_FOREACH(room->all, p) {
        if (p->state != LH_CS_PRIMARY_OPEN)
            continue;
        DL_FOREACH(p->streams, s) {
            if (s->held)
                lh_fx_unhold(room->cs->fx, s->link);
            s->held = false;
        }
    }
}

void lh_cs_primaries_init(
    struct lh_cs_primaries *room, struct lh_cs_host *cs, struct lh_cs_logs *logs)
{
    room->cs = cs;
    room->logs = logs;
    room->streams.alive.fire = show_life;
}
