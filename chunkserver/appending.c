/* The clients' append streams: one per writer and chunk (APP-4, APP-5). */
#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "chunkserver/internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Unanswered bytes that a writer may have; told to it when it opens. */
#define WINDOW_BYTES (16u << 20)

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
    if (s->primary != NULL)
        DL_DELETE(s->primary->streams, s);
    free(s);
}

void stream_link_closed(struct lh_chunkserver *cs, struct link *l)
{
    (void)cs;
    if (l->owner != NULL)
        stream_free(l->owner);
}

void stream_end(struct stream *s, int error, const char *text)
{
    struct replica *r = s->primary->replica;

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

void stream_stored(struct stream *s, const struct uncommitted *u)
{
    if (s->stored_count == LH_WRITER_WINDOW)
        stream_flush(s);
    Leasehold__Stored *stored = &s->stored[s->stored_count++];
    leasehold__stored__init(stored);
    stored->sequence = u->sequence;
    stored->count = u->count;
    stored->offset = u->offset;
    if (s->unanswered > 0)
        s->unanswered--;
}

void stream_flush(struct stream *s)
{
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;
    Leasehold__Stored *list[LH_WRITER_WINDOW];

    if (s->stored_count == 0)
        return;
    for (unsigned i = 0; i < s->stored_count; i++)
        list[i] = &s->stored[i];
    m.stored = list;
    m.n_stored = s->stored_count;
    lh_fx_send(s->primary->replica->cs->fx, s->link, &m.base, NULL);
    s->stored_count = 0;
}

/* The primary is open: may this writer go on where it says? */
static void open_stream(struct stream *s)
{
    struct replica *r = s->primary->replica;
    const struct lh_writer *w = lh_writers_find(&r->writers, s->writer);
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    if (w != NULL && (s->first_sequence < w->first || s->first_sequence > w->last + 1)) {
        char text[160];
        snprintf(text, sizeof text,
            "writer has sequence numbers %llu to %llu stored here and cannot go on at %llu",
            (unsigned long long)w->first, (unsigned long long)w->last,
            (unsigned long long)s->first_sequence);
        stream_end(s, LH_ERR_OUT_OF_SEQUENCE, text);
        return;
    }
    s->opened = true;
    m.opened = true;
    m.version = r->adopting;
    m.window_batches = LH_WRITER_WINDOW;
    m.window_bytes = WINDOW_BYTES;
    lh_fx_send(r->cs->fx, s->link, &m.base, NULL);
}

void stream_open_all(struct primary *p)
{
    struct stream *s, *next;

    DL_FOREACH_SAFE(p->streams, s, next)
    {
        if (!s->opened)
            open_stream(s);
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
    if (error != LH_OK) {
        send_error(cs, l->id, error, text, version);
        return;
    }
    struct stream *s = lh_alloc(sizeof *s);
    s->link = l->id;
    s->chunk = m->chunk;
    s->version = m->version;
    s->writer = m->writer;
    s->first_sequence = m->first_sequence;
    s->primary = r->primary;
    l->owner = s;
    DL_APPEND(r->primary->streams, s);
    if (r->primary->state == PRIMARY_OPEN)
        open_stream(s);
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

void stream_message(struct lh_chunkserver *cs, struct link *l, const Leasehold__AppendRequest *m,
    struct lh_buf *batch)
{
    struct stream *s = l->owner;

    if (s == NULL) {
        first_message(cs, l, m);
        return;
    }
    struct primary *p = s->primary;
    struct replica *r = p->replica;
    if (m->chunk != s->chunk || m->version != s->version) {
        stream_end(
            s, LH_ERR_INVALID_ARGUMENT, "this stream was opened for another chunk or version");
        return;
    }
    /* TIME-5: a fresh look at the clock before each step that needs the lease. */
    if (!primary_may_act(p)) {
        primary_end(p, LH_ERR_NOT_PRIMARY);
        return;
    }
    if (p->state > PRIMARY_OPEN)
        return; /* draining */
    if (!s->opened) {
        stream_end(s, LH_ERR_INVALID_ARGUMENT, "wait for the answer to the first message");
        return;
    }
    if (s->unanswered >= LH_WRITER_WINDOW) {
        stream_end(s, LH_ERR_OUT_OF_SEQUENCE, "more batches under way than the window allows");
        return;
    }
    struct lh_batch_header h;
    uint32_t batch_max = lh_batch_bytes_max(r->header.chunk_size);
    int error =
        lh_batch_check_records(batch, 0, batch_max, lh_record_bytes_max(r->header.chunk_size), &h);
    if (error == LH_ERR_WOULD_BLOCK)
        error = LH_ERR_MALFORMED;
    if (error == LH_OK && (h.size != batch->size || h.writer != s->writer))
        error = LH_ERR_MALFORMED;
    if (error != LH_OK) {
        char text[128];
        snprintf(text, sizeof text, "%s (a batch may have %u bytes, a record %u)",
            lh_error_text(error), batch_max, lh_record_bytes_max(r->header.chunk_size));
        stream_end(s, error, text);
        return;
    }
    uint64_t link = s->link;
    primary_order(p, s, &h, batch);
    struct link *still = link_find(cs, link);
    if (still != NULL)
        hold_if_full(cs, still->owner);
}
