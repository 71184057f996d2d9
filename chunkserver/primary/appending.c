/* The clients' append streams: one per client and chunk, for any number of the client's writers
 * (APP-4, APP-5). */
#include "chunkserver/primary/appending.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "chunkserver/primary/streams.h"

#include <inttypes.h>
#include <stdio.h>

static void link_closed(struct lh_cs_link *gone, const char *text)
{
    (void)text;
    if (gone->owner != NULL)
        lh_cs_stream_free(gone->owner);
}

/* The primary is open: may this writer go on where it says? */
static void open_writer(struct lh_cs_stream *s, struct lh_cs_stream_writer *w)
{
    struct lh_cs_replica *r = s->primary->replica;
    const struct lh_writer *known = lh_writers_find(&r->motion->writers, w->id);
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    if (known != NULL &&
        (w->first_sequence < known->first || w->first_sequence > known->last + 1)) {
        char text[160];
        snprintf(text, sizeof text,
            "writer has sequence numbers %" PRIu64 " to %" PRIu64
            " stored here and cannot go on at %" PRIu64,
            known->first, known->last, w->first_sequence);
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
    lh_cs_stream_send(s, &m);
}

static void progress(struct lh_cs_link *l)
{
    struct lh_cs_stream *s = l->owner;

    if (s == NULL)
        return;
    s->arriving = true;
    lh_cs_streams_expect_life(s->primary->room);
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

/* ------------------------------------------------------------------------------------------------
 * Opening. */

/* A writer joins the stream, or begins anew on it: whatever it sent before came before. */
static void add_writer(struct lh_cs_stream *s, const Leasehold__AppendRequest *m)
{
    struct lh_cs_stream_writer *w = lh_cs_stream_writer(s, m->writer);

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
        lh_cs_streams_expect_life(s->primary->room);
    }
}

void lh_cs_stream_open_all(struct lh_cs_primary *p)
{
    struct lh_cs_stream *s;

    DL_FOREACH(p->streams, s) {
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
        lh_cs_stream_send_error(cs, l->id, error, text, version);
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
    struct lh_cs_stream_writer *w = lh_cs_stream_writer(s, h->writer);
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
    lh_cs_stream_hold_if_full(p->room, s);
    lh_cs_streams_expect_life(p->room);
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
    if (!lh_cs_primary_may_act(p) && !LH_PLANTED("ordered-without-lease")) {
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
