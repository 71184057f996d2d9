/* The clients' append streams: one per client and chunk, for any number of the client's writers
 * (APP-4, APP-5). */
#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "chunkserver/internal.h"

#include <stdio.h>
#include <stdlib.h>

static void send_error(
    struct lh_chunkserver *cs, uint64_t link, int error, const char *text, uint64_t version)
{
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)(text == NULL ? lh_error_text(error) : text);
    m.version = version;
    lh_fx_send(cs->fx, link, &m.base, NULL);
    link_close(cs, link, LH_OK, NULL);
}

static void stream_free(struct stream *s)
{
    DL_DELETE(s->primary->streams, s);
    if (s->half_closed)
        LL_DELETE2(s->primary->replica->cs->half_closed, s, next_half_closed);
    free(s->writers);
    free(s);
}

void stream_link_closed(struct lh_chunkserver *cs, struct link *l)
{
    (void)cs;
    if (l->owner != NULL)
        stream_free(l->owner);
}

/* A reply to a stream, which is a sign of life. */
static void tell(struct stream *s, const Leasehold__AppendReply *m)
{
    struct lh_chunkserver *cs = s->primary->replica->cs;

    s->spoken = cs->now;
    lh_fx_send(cs->fx, s->link, &m->base, NULL);
}

void stream_end(struct stream *s, int error, const char *text)
{
    struct replica *r = s->primary->replica;

    r->cs->counts.append_errors[-error]++;
    stream_flush(s);
    send_error(r->cs, s->link, error, text, r->adopting);
    stream_free(s);
}

void stream_end_all(struct primary *p, int error, const char *text)
{
    struct stream *s, *next;

    DL_FOREACH_SAFE(p->streams, s, next)
    {
        stream_end(s, error, text);
    }
}

void stream_hold_all(struct primary *p)
{
    struct stream *s;

    DL_FOREACH(p->streams, s)
    {
        if (!s->held)
            lh_fx_hold(p->replica->cs->fx, s->link);
        s->held = true;
    }
}

static struct stream_writer *find_writer(struct stream *s, uint64_t id)
{
    for (size_t i = 0; i < s->writer_count; i++)
        if (s->writers[i].id == id)
            return &s->writers[i];
    return NULL;
}

void stream_stored(struct stream *s, const struct uncommitted *u)
{
    struct stream_writer *w = find_writer(s, u->writer);

    if (w != NULL && w->unanswered > 0)
        w->unanswered--;
    if (s->stored_count == s->primary->replica->cs->config.bounds.reply_batches)
        stream_flush(s);
    Leasehold__Stored *stored = &s->stored[s->stored_count++];
    leasehold__stored__init(stored);
    stored->writer = u->writer;
    stored->sequence = u->sequence;
    stored->count = u->count;
    stored->offset = u->offset;
    if (LH_PLANTED("offset-given-twice"))
        stored->offset = s->stored[0].offset;
}

void stream_flush(struct stream *s)
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

void stream_refuse_writer(struct stream *s, struct stream_writer *w, int error, const char *text)
{
    struct replica *r = s->primary->replica;
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    r->cs->counts.append_errors[-error]++;
    stream_flush(s);
    w->opened = false;
    w->refused = true;
    m.writer = w->id;
    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)text;
    m.version = r->adopting;
    tell(s, &m);
}

/* The primary is open: may this writer go on where it says? */
static void open_writer(struct stream *s, struct stream_writer *w)
{
    struct replica *r = s->primary->replica;
    const struct lh_writer *known = lh_writers_find(&r->writers, w->id);
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    if (known != NULL &&
        (w->first_sequence < known->first || w->first_sequence > known->last + 1)) {
        char text[160];
        snprintf(text, sizeof text,
            "writer has sequence numbers %llu to %llu stored here and cannot go on at %llu",
            (unsigned long long)known->first, (unsigned long long)known->last,
            (unsigned long long)w->first_sequence);
        stream_refuse_writer(s, w, LH_ERR_OUT_OF_SEQUENCE, text);
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
static struct lh_instant next_look(const struct lh_chunkserver *cs)
{
    return lh_instant_add(cs->now, lh_nanoseconds(cs->config.alive_interval.ns / 2));
}

/* From now on somebody waits for an answer. */
static void expect_life(struct lh_chunkserver *cs)
{
    if (!lh_timer_is_set(&cs->alive_timer))
        lh_timer_set(&cs->timers, &cs->alive_timer, next_look(cs));
}

static bool waits(const struct stream *s)
{
    for (size_t i = 0; i < s->writer_count; i++)
        if (!s->writers[i].refused && (!s->writers[i].opened || s->writers[i].unanswered > 0))
            return true;
    return false;
}

bool streams_wait(const struct primary *p)
{
    struct stream *s;

    DL_FOREACH(p->streams, s)
    if (waits(s))
        return true;
    return false;
}

bool streams_arrive(const struct primary *p)
{
    struct stream *s;

    DL_FOREACH(p->streams, s)
    if (s->arriving)
        return true;
    return false;
}

void streams_show_life(struct lh_chunkserver *cs)
{
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;
    uint64_t half = cs->config.alive_interval.ns / 2;
    struct primary *p;
    struct stream *s;

    DL_FOREACH(cs->primaries, p)
    {
        DL_FOREACH(p->streams, s)
        {
            if (!waits(s) && !s->arriving)
                continue;
            expect_life(cs);
            if (lh_instant_until(s->spoken, cs->now).ns < half)
                continue;
            LH_MARK("stream-sign-of-life");
            m.alive_ms = lh_duration_ms(cs->config.alive_interval);
            m.arriving = s->arriving;
            tell(s, &m);
        }
    }
}

void stream_progress(struct stream *s)
{
    s->arriving = true;
    expect_life(s->primary->replica->cs);
}

/* ------------------------------------------------------------------------------------------------
 * A client that has said all. */

void stream_half_closed(struct stream *s)
{
    struct lh_chunkserver *cs = s->primary->replica->cs;

    if (s->half_closed)
        return;
    s->half_closed = true;
    LL_PREPEND2(cs->half_closed, s, next_half_closed);
}

void streams_close_answered(struct lh_chunkserver *cs)
{
    struct stream *s, *next;

    LL_FOREACH_SAFE2(cs->half_closed, s, next, next_half_closed)
    {
        if (waits(s))
            continue;
        LH_MARK("stream-half-closed-ends");
        stream_flush(s);
        link_close(cs, s->link, LH_OK, NULL);
        stream_free(s);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Opening. */

/* A writer joins the stream, or begins anew on it: whatever it sent before came before. */
static void add_writer(struct stream *s, const Leasehold__AppendRequest *m)
{
    struct stream_writer *w = find_writer(s, m->writer);

    if (w == NULL && s->writer_count == s->primary->replica->cs->config.bounds.stream_writers) {
        struct stream_writer none = {.id = m->writer};
        stream_refuse_writer(s, &none, LH_ERR_NO_MEMORY, "too many writers on one stream");
        return;
    }
    if (w == NULL) {
        LH_GROW(s->writers, s->writer_capacity, s->writer_count + 1);
        w = &s->writers[s->writer_count++];
    }
    *w = (struct stream_writer){.id = m->writer, .first_sequence = m->first_sequence};
    if (s->primary->state == PRIMARY_OPEN) {
        open_writer(s, w);
    } else {
        LH_MARK("stream-waits-for-recovery");
        expect_life(s->primary->replica->cs);
    }
}

void stream_open_all(struct primary *p)
{
    struct stream *s;

    DL_FOREACH(p->streams, s)
    {
        for (size_t i = 0; i < s->writer_count; i++)
            if (!s->writers[i].opened && !s->writers[i].refused)
                open_writer(s, &s->writers[i]);
    }
}

static void first_message(
    struct lh_chunkserver *cs, struct link *l, const Leasehold__AppendRequest *m)
{
    struct replica *r = replica_find(cs, m->chunk);
    uint64_t version = r == NULL ? 0 : r->adopting;
    int error = LH_OK;
    const char *text = NULL;

    if (m->writer == 0) {
        error = LH_ERR_INVALID_ARGUMENT;
        text = "the first message must name the writer: a random number that is not 0";
    } else if (cs->stopping) {
        error = LH_ERR_SHUTTING_DOWN;
    } else if (r == NULL || r->state == REPLICA_REMOVING || r->state == REPLICA_CREATING) {
        error = LH_ERR_NO_REPLICA;
    } else if (r->state == REPLICA_LOST) {
        error = LH_ERR_NO_REPLICA;
        text = "this server's replica of the chunk is lost";
    } else if (replica_sealing(r)) {
        error = LH_ERR_CHUNK_FULL;
    } else if (m->version < r->adopting) {
        error = LH_ERR_STALE_VERSION;
    } else if (r->primary == NULL || r->primary->version != m->version ||
               !primary_may_act(r->primary)) {
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
    struct stream *s = lh_alloc(sizeof *s);
    s->link = l->id;
    s->chunk = m->chunk;
    s->version = m->version;
    s->primary = r->primary;
    s->spoken = cs->now;
    l->owner = s;
    DL_APPEND(r->primary->streams, s);
    add_writer(s, m);
}

/* Too much is uncommitted: this client is read again when there is less. */
static void hold_if_full(struct lh_chunkserver *cs, struct stream *s)
{
    if (cs->pending_bytes <= cs->config.pending_bytes_max || s->held)
        return;
    s->held = true;
    cs->holding = true;
    lh_fx_hold(cs->fx, s->link);
}

void streams_release_pressure(struct lh_chunkserver *cs)
{
    struct primary *p;
    struct stream *s;

    if (!cs->holding || cs->pending_bytes > cs->config.pending_bytes_max / 2)
        return;
    cs->holding = false;
    DL_FOREACH(cs->primaries, p)
    {
        if (p->state != PRIMARY_OPEN)
            continue;
        DL_FOREACH(p->streams, s)
        {
            if (s->held)
                lh_fx_unhold(cs->fx, s->link);
            s->held = false;
        }
    }
}

/* Checks the batch at `at` and whose it is. NULL: it ends the stream, `*error` and `text` say
 * why. */
static struct stream_writer *check_batch(struct stream *s, const struct lh_buf *batches, size_t at,
    struct lh_batch_header *h, int *error, char *text, size_t text_size)
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
    struct stream_writer *w = find_writer(s, h->writer);
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
static void take_batches(struct lh_chunkserver *cs, struct stream *s, struct lh_buf *batches)
{
    struct primary *p = s->primary;
    bool more = true;
    size_t at = 0;

    if (p->state == PRIMARY_OPEN && primary_full_members(p) < p->min_replicas) {
        LH_MARK("append-too-few-replicas");
        stream_end(s, LH_ERR_UNAVAILABLE, "the chunk has too few replicas to take appends");
        return;
    }
    while (more && at < batches->size) {
        struct lh_batch_header h;
        struct lh_buf one = {0};
        char text[160];
        int error;
        struct stream_writer *w = check_batch(s, batches, at, &h, &error, text, sizeof text);
        if (w == NULL) {
            primary_pump(p);
            stream_end(s, error, text);
            return;
        }
        if (!w->refused && w->unanswered >= LH_WRITER_WINDOW)
            stream_refuse_writer(
                s, w, LH_ERR_OUT_OF_SEQUENCE, "more batches under way than the window allows");
        if (!w->refused) {
            lh_buf_append(&one, batches, at, h.size);
            more = primary_order(p, s, w, &h, &one);
            lh_buf_clear(&one);
        }
        at += h.size;
    }
    hold_if_full(cs, s);
    expect_life(cs);
    primary_pump(p);
}

void stream_message(struct lh_chunkserver *cs, struct link *l, const Leasehold__AppendRequest *m,
    struct lh_buf *batches)
{
    struct stream *s = l->owner;

    if (s == NULL) {
        first_message(cs, l, m);
        return; /* batches in it have no opened writer: they are not looked at */
    }
    s->arriving = false;
    struct primary *p = s->primary;
    if (m->chunk != s->chunk || m->version != s->version) {
        stream_end(
            s, LH_ERR_INVALID_ARGUMENT, "this stream was opened for another chunk or version");
        return;
    }
    /* TIME-5: a fresh look at the clock before each step that needs the lease. */
    if (!primary_may_act(p)) {
        LH_MARK("append-without-lease");
        primary_run_out(p);
        return;
    }
    if (p->state > PRIMARY_OPEN) {
        LH_MARK("append-while-draining");
        return;
    }
    if (m->writer != 0)
        add_writer(s, m);
    if (batches->size > 0)
        take_batches(cs, s, batches);
    else if (m->writer == 0)
        stream_end(s, LH_ERR_MALFORMED, "neither a writer nor a batch");
}
