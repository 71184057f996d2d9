/* The clients' append streams: one per client and chunk, for any number of the client's writers
 * (APP-4, APP-5). */
#include "chunkserver/primary/appending.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"

#include <stdio.h>
#include <stdlib.h>

static void send_error(
    struct lh_cs_host *cs, uint64_t link, int error, const char *text, uint64_t version)
{
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)(text == NULL ? lh_error_text(error) : text);
    m.version = version;
    lh_fx_send(cs->fx, link, &m.base, NULL);
    lh_cs_link_close(cs, link, LH_OK, NULL);
}

static void stream_free(struct lh_cs_stream *s)
{
    DL_DELETE(s->primary->streams, s);
    if (s->half_closed)
        LL_DELETE2(s->primary->room->streams.half_closed, s, next_half_closed);
    free(s->writers);
    free(s);
}

static void link_closed(struct lh_cs_link *gone, const char *text)
{
    (void)text;
    if (gone->owner != NULL)
        stream_free(gone->owner);
}

/* A reply to a stream, which is a sign of life. */
static void tell(struct lh_cs_stream *s, const Leasehold__AppendReply *m)
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
    send_error(r->cs, s->link, error, text, r->adopting);
    stream_free(s);
}

void lh_cs_stream_end_all(struct lh_cs_primary *p, int error, const char *text)
{
    struct lh_cs_stream *s, *next;

    DL_FOREACH_SAFE(p->streams, s, next)
    {
        lh_cs_stream_end(s, error, text);
    }
}

void lh_cs_stream_hold_all(struct lh_cs_primary *p)
{
    struct lh_cs_stream *s;

    DL_FOREACH(p->streams, s)
    {
        if (!s->held)
            lh_fx_hold(p->replica->cs->fx, s->link);
        s->held = true;
    }
}

static struct lh_cs_stream_writer *find_writer(struct lh_cs_stream *s, uint64_t id)
{
    for (size_t i = 0; i < s->writer_count; i++)
        if (s->writers[i].id == id)
            return &s->writers[i];
    return NULL;
}

void lh_cs_stream_stored(struct lh_cs_stream *s, const struct lh_cs_uncommitted *u)
{
    struct lh_cs_stream_writer *w = find_writer(s, u->writer);

    if (w != NULL && w->unanswered > 0)
        w->unanswered--;
    if (s->stored_count == s->primary->replica->cs->config.bounds.reply_batches)
        lh_cs_stream_flush(s);
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
    for (unsigned i = 0; i < s->stored_count; i++)
        list[i] = &s->stored[i];
    m.stored = list;
    m.n_stored = s->stored_count;
    tell(s, &m);
    s->stored_count = 0;
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
    tell(s, &m);
}

/* The primary is open: may this writer go on where it says? */
static void open_writer(struct lh_cs_stream *s, struct lh_cs_stream_writer *w)
{
    struct lh_cs_replica *r = s->primary->replica;
    const struct lh_writer *known = lh_writers_find(&r->writers, w->id);
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    if (known != NULL &&
        (w->first_sequence < known->first || w->first_sequence > known->last + 1)) {
        char text[160];
        snprintf(text, sizeof text,
            "writer has sequence numbers %llu to %llu stored here and cannot go on at %llu",
            (unsigned long long)known->first, (unsigned long long)known->last,
            (unsigned long long)w->first_sequence);
        lh_cs_stream_refuse_writer(s, w, LH_ERR_OUT_OF_SEQUENCE, text);
        return;
    }
    w->opened = true;
    m.opened = true;
    m.writer = w->id;
    m.version = r->adopting;
    m.window_batches = LH_WRITER_WINDOW;
    m.window_bytes = r->cs->config.bounds.window_bytes;
    m.alive_ms = lh_duration_ms(r->cs->config.alive_interval);
    tell(s, &m);
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
static void expect_life(struct lh_cs_primaries *room)
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
static void show_life(void *owner)
{
    struct lh_cs_primaries *room = owner;
    struct lh_cs_host *cs = room->cs;
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;
    uint64_t half = cs->config.alive_interval.ns / 2;
    struct lh_cs_primary *p;
    struct lh_cs_stream *s;

    DL_FOREACH(room->all, p)
    {
        DL_FOREACH(p->streams, s)
        {
            if (!waits(s) && !s->arriving)
                continue;
            expect_life(room);
            if (lh_instant_until(s->spoken, cs->now).ns < half)
                continue;
            LH_MARK("stream-sign-of-life");
            m.alive_ms = lh_duration_ms(cs->config.alive_interval);
            m.arriving = s->arriving;
            tell(s, &m);
        }
    }
}

static void progress(struct lh_cs_link *l)
{
    struct lh_cs_stream *s = l->owner;

    if (s == NULL)
        return;
    s->arriving = true;
    expect_life(s->primary->room);
}

static bool held(const struct lh_cs_link *l)
{
    const struct lh_cs_stream *s = l->owner;

    return s != NULL && s->held;
}

static bool late(struct lh_cs_link *l, const char *text)
{
    if (l->owner == NULL)
        return false;
    LH_MARK("stream-message-never-whole");
    lh_cs_stream_end(l->owner, LH_ERR_DEADLINE_EXCEEDED, text);
    return true;
}

/* ------------------------------------------------------------------------------------------------
 * A client that has said all. */

static void half_closed(struct lh_cs_link *l)
{
    struct lh_cs_stream *s = l->owner;

    if (s == NULL) {
        lh_cs_link_end_with_peer(l);
        return;
    }
    LH_MARK("stream-half-closed");
    if (s->half_closed)
        return;
    s->half_closed = true;
    LL_PREPEND2(s->primary->room->streams.half_closed, s, next_half_closed);
}

void lh_cs_streams_close_answered(struct lh_cs_primaries *room)
{
    struct lh_cs_stream *s, *next;

    LL_FOREACH_SAFE2(room->streams.half_closed, s, next, next_half_closed)
    {
        if (waits(s))
            continue;
        LH_MARK("stream-half-closed-ends");
        lh_cs_stream_flush(s);
        lh_cs_link_close(room->cs, s->link, LH_OK, NULL);
        stream_free(s);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Opening. */

/* A writer joins the stream, or begins anew on it: whatever it sent before came before. */
static void add_writer(struct lh_cs_stream *s, const Leasehold__AppendRequest *m)
{
    struct lh_cs_stream_writer *w = find_writer(s, m->writer);

    if (w == NULL && s->writer_count == s->primary->replica->cs->config.bounds.stream_writers) {
        struct lh_cs_stream_writer none = {.id = m->writer};
        lh_cs_stream_refuse_writer(s, &none, LH_ERR_NO_MEMORY, "too many writers on one stream");
        return;
    }
    if (w == NULL) {
        LH_GROW(s->writers, s->writer_capacity, s->writer_count + 1);
        w = &s->writers[s->writer_count++];
    }
    *w = (struct lh_cs_stream_writer){.id = m->writer, .first_sequence = m->first_sequence};
    if (s->primary->state == LH_CS_PRIMARY_OPEN) {
        open_writer(s, w);
    } else {
        LH_MARK("stream-waits-for-recovery");
        expect_life(s->primary->room);
    }
}

void lh_cs_stream_open_all(struct lh_cs_primary *p)
{
    struct lh_cs_stream *s;

    DL_FOREACH(p->streams, s)
    {
        for (size_t i = 0; i < s->writer_count; i++)
            if (!s->writers[i].opened && !s->writers[i].refused)
                open_writer(s, &s->writers[i]);
    }
}

static void first_message(struct lh_cs_link *l, const Leasehold__AppendRequest *m)
{
    struct lh_cs_primaries *room = l->room;
    struct lh_cs_host *cs = room->cs;
    struct lh_cs_replica *r = lh_cs_replica_find(room->logs, m->chunk);
    struct lh_cs_primary *p = r == NULL ? NULL : lh_cs_primary_of(r);
    uint64_t version = r == NULL ? 0 : r->adopting;
    int error = LH_OK;
    const char *text = NULL;

    if (m->writer == 0) {
        error = LH_ERR_INVALID_ARGUMENT;
        text = "the first message must name the writer: a random number that is not 0";
    } else if (cs->stopping) {
        error = LH_ERR_SHUTTING_DOWN;
    } else if (r == NULL || r->state == LH_CS_REPLICA_REMOVING ||
               r->state == LH_CS_REPLICA_CREATING) {
        error = LH_ERR_NO_REPLICA;
    } else if (r->state == LH_CS_REPLICA_LOST) {
        error = LH_ERR_NO_REPLICA;
        text = "this server's replica of the chunk is lost";
    } else if (lh_cs_replica_sealing(r)) {
        error = LH_ERR_CHUNK_FULL;
    } else if (m->version < r->adopting) {
        error = LH_ERR_STALE_VERSION;
    } else if (p == NULL || p->version != m->version || !lh_cs_primary_may_act(p)) {
        error = LH_ERR_NOT_PRIMARY;
    }
    if (error == LH_ERR_CHUNK_FULL)
        LH_MARK("stream-sealed");
    else if (error == LH_ERR_STALE_VERSION)
        LH_MARK("stream-stale-version");
    else if (error == LH_ERR_NOT_PRIMARY)
        LH_MARK("stream-not-primary");
    if (error != LH_OK) {
        send_error(cs, l->id, error, text, version);
        return;
    }
    struct lh_cs_stream *s = lh_alloc(sizeof *s);
    s->link = l->id;
    s->chunk = m->chunk;
    s->version = m->version;
    s->primary = p;
    s->spoken = cs->now;
    l->owner = s;
    DL_APPEND(p->streams, s);
    add_writer(s, m);
}

/* Too much is uncommitted: this client is read again when there is less. */
static void hold_if_full(struct lh_cs_primaries *room, struct lh_cs_stream *s)
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
    DL_FOREACH(room->all, p)
    {
        if (p->state != LH_CS_PRIMARY_OPEN)
            continue;
        DL_FOREACH(p->streams, s)
        {
            if (s->held)
                lh_fx_unhold(room->cs->fx, s->link);
            s->held = false;
        }
    }
}

/* Checks the batch at `at` and whose it is. NULL: it ends the stream, `*error` and `text` say
 * why. */
static struct lh_cs_stream_writer *check_batch(struct lh_cs_stream *s, const struct lh_buf *batches,
    size_t at, struct lh_batch_header *h, int *error, char *text, size_t text_size)
{
    uint64_t chunk_size = s->primary->replica->header.chunk_size;
    uint32_t batch_max = lh_batch_bytes_max(chunk_size);
    uint32_t record_max = lh_record_bytes_max(chunk_size);

    *error = lh_batch_check_records(batches, at, batch_max, record_max, h);
    if (*error != LH_OK) {
        if (*error == LH_ERR_WOULD_BLOCK)
            *error = LH_ERR_MALFORMED;
        snprintf(text, text_size, "%s (a batch may have %u bytes, a record %u)",
            lh_error_text(*error), batch_max, record_max);
        return NULL;
    }
    struct lh_cs_stream_writer *w = find_writer(s, h->writer);
    if (w == NULL || (!w->opened && !w->refused)) {
        *error = w == NULL ? LH_ERR_MALFORMED : LH_ERR_INVALID_ARGUMENT;
        snprintf(text, text_size,
            w == NULL ? "a batch of a writer that was not opened on this stream"
                      : "wait for the answer to the writer's opening");
        return NULL;
    }
    return w;
}

/* Takes the message's batches one after another. */
static void take_batches(struct lh_cs_stream *s, struct lh_buf *batches)
{
    struct lh_cs_primary *p = s->primary;
    bool more = true;
    size_t at = 0;

    if (p->state == LH_CS_PRIMARY_OPEN && lh_cs_primary_full_members(p) < p->min_replicas) {
        LH_MARK("append-too-few-replicas");
        lh_cs_stream_end(s, LH_ERR_UNAVAILABLE, "the chunk has too few replicas to take appends");
        return;
    }
    while (more && at < batches->size) {
        struct lh_batch_header h;
        struct lh_buf one = {0};
        char text[160];
        int error;
        struct lh_cs_stream_writer *w = check_batch(s, batches, at, &h, &error, text, sizeof text);
        if (w == NULL) {
            lh_cs_primary_pump(p);
            lh_cs_stream_end(s, error, text);
            return;
        }
        if (!w->refused && w->unanswered >= LH_WRITER_WINDOW)
            lh_cs_stream_refuse_writer(
                s, w, LH_ERR_OUT_OF_SEQUENCE, "more batches under way than the window allows");
        if (!w->refused) {
            lh_buf_append(&one, batches, at, h.size);
            more = lh_cs_primary_order(p, s, w, &h, &one);
            lh_buf_clear(&one);
        }
        at += h.size;
    }
    hold_if_full(p->room, s);
    expect_life(p->room);
    lh_cs_primary_pump(p);
}

static void message(struct lh_cs_link *l, const void *request, struct lh_buf *batches)
{
    const Leasehold__AppendRequest *m = request;
    struct lh_cs_stream *s = l->owner;

    if (s == NULL) {
        first_message(l, m);
        return; /* batches in it have no opened writer: they are not looked at */
    }
    s->arriving = false;
    struct lh_cs_primary *p = s->primary;
    if (m->chunk != s->chunk || m->version != s->version) {
        lh_cs_stream_end(
            s, LH_ERR_INVALID_ARGUMENT, "this stream was opened for another chunk or version");
        return;
    }
    /* TIME-5: a fresh look at the clock before each step that needs the lease. */
    if (!lh_cs_primary_may_act(p)) {
        LH_MARK("append-without-lease");
        lh_cs_primary_run_out(p);
        return;
    }
    if (p->state > LH_CS_PRIMARY_OPEN) {
        LH_MARK("append-while-draining");
        return;
    }
    if (m->writer != 0)
        add_writer(s, m);
    if (batches->size > 0)
        take_batches(s, batches);
    else if (m->writer == 0)
        lh_cs_stream_end(s, LH_ERR_MALFORMED, "neither a writer nor a batch");
}

const struct lh_cs_link_user lh_cs_append_links = {
    .message = message,
    .closed = link_closed,
    .progress = progress,
    .half_closed = half_closed,
    .held = held,
    .late = late,
};

void lh_cs_primaries_init(
    struct lh_cs_primaries *room, struct lh_cs_host *cs, struct lh_cs_logs *logs)
{
    room->cs = cs;
    room->logs = logs;
    room->streams.alive.fire = show_life;
    room->streams.alive.owner = room;
}
