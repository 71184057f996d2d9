/* What comes on append streams (APP-4, APP-5).
 *
 * Each part concerns one lane: whatever is wrong with it ends that lane at most. Parts of a lane
 * that has ended were sent before its end was heard of, and are ignored.
 *
 * A batch may come in several parts, so that a large one of one chunk holds up no small one of
 * another. Only one batch of a stream may be incomplete at a time. */
#include "chunkserver/primary/appending.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "chunkserver/primary/streams.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

static void link_closed(struct lh_cs_link *gone, const char *text)
{
    (void)text;
    if (gone->owner != NULL)
        lh_cs_stream_free(gone->owner);
}

static void progress(struct lh_cs_link *l)
{
    struct lh_cs_stream *s = l->owner;

    if (s == NULL)
        return;
    s->arriving = true;
    lh_cs_streams_expect_life(s->primaries);
}

static void sent(struct lh_cs_link *l)
{
    if (l->owner != NULL)
        lh_cs_stream_sent(l->owner);
}

static bool held(const struct lh_cs_link *l)
{
    const struct lh_cs_stream *s = l->owner;

    return s != NULL && s->held;
}

static bool late(struct lh_cs_link *l, const char *text)
{
    const struct lh_cs_stream *s = l->owner;

    if (s == NULL)
        return false;
    if (!l->arriving && s->rest.bytes.size == 0)
        return true; /* the lane of the batch has ended meanwhile */
    LH_MARK("stream-message-never-whole");
    lh_cs_stream_end(l->owner, LH_ERR_DEADLINE_EXCEEDED, text);
    return true;
}

static void half_closed(struct lh_cs_link *l)
{
    if (l->owner == NULL)
        lh_cs_link_end_with_peer(l);
    else
        lh_cs_stream_half_closed(l->owner);
}

/* ------------------------------------------------------------------------------------------------
 * Opening. */

/* The primary is open: may this writer go on where it says? */
static void open_writer(struct lh_cs_lane *lane, struct lh_cs_lane_writer *w)
{
    struct lh_cs_replica *r = lane->primary->replica;
    const struct lh_writer *known = lh_writers_find(lh_cs_replica_writers(r), w->id);
    Leasehold__AppendAnswer m = LEASEHOLD__APPEND_ANSWER__INIT;

    if (known != NULL &&
        (w->first_sequence < known->first || w->first_sequence > known->last + 1)) {
        char text[160];
        snprintf(text, sizeof text,
            "writer has sequence numbers %" PRIu64 " to %" PRIu64
            " stored here and cannot go on at %" PRIu64,
            known->first, known->last, w->first_sequence);
        lh_cs_lane_refuse_writer(lane, w, LH_ERR_OUT_OF_SEQUENCE, text);
        return;
    }
    w->opened = true;
    m.lane = lane->key.number;
    m.chunk = r->chunk;
    m.writer = w->id;
    m.opened = true;
    m.window_batches = LH_WRITER_WINDOW;
    m.window_bytes = r->logs->cs->config.bounds.window_bytes;
    lh_cs_stream_answer(lane->stream, &m, NULL);
}

/* A writer joins the lane, or begins again on it: whatever it sent before came before. */
static void add_writer(struct lh_cs_lane *lane, const Leasehold__AppendPart *m)
{
    struct lh_cs_lane_writer *w = lh_cs_lane_writer(lane, m->writer);
    const struct lh_cs_host *cs = lane->primary->replica->logs->cs;

    if (w == NULL && lane->writer_count == cs->config.bounds.stream_writers) {
        lh_cs_stream_refuse(lane->stream, m->lane, m->chunk, m->writer, LH_ERR_NO_MEMORY,
            "too many writers on one lane");
        return;
    }
    if (w == NULL) {
        LH_GROW(lane->writers, lane->writer_capacity, lane->writer_count + 1);
        w = &lane->writers[lane->writer_count++];
    }
    *w = (struct lh_cs_lane_writer){.id = m->writer, .first_sequence = m->first_sequence};
    if (lane->primary->state == LH_CS_PRIMARY_OPEN) {
        open_writer(lane, w);
    } else {
        LH_MARK("stream-waits-for-recovery");
        lh_cs_streams_expect_life(lane->stream->primaries);
    }
}

void lh_cs_lane_open_all(struct lh_cs_primary *p)
{
    struct lh_cs_lane *lane;

    DL_FOREACH(p->lanes, lane) {
        for (size_t i = 0; i < lane->writer_count; i++)
            if (!lane->writers[i].opened && !lane->writers[i].refused)
                open_writer(lane, &lane->writers[i]);
    }
}

/* TOK-2: whose appends does this version take? One with a higher token was sent to a later one. */
static int token_refusal(
    const struct lh_cs_primary *p, const Leasehold__AppendPart *m, const char **text)
{
    if (m->token == p->fence || (m->token == 0 && LH_PLANTED("lane-without-token-admitted")))
        return LH_OK;
    if (m->token > p->fence) {
        LH_MARK("lane-token-above-fence");
        return LH_ERR_NOT_PRIMARY;
    }
    LH_MARK("lane-token-below-fence");
    *text = m->token == 0 ? "the file takes appends only under a lock: name it and its token"
                          : "a higher token of the lock was admitted since";
    return LH_ERR_STALE_TOKEN;
}

/* ACC-5. */
static int right_refusal(const struct lh_cs_stream *s, const Leasehold__AppendPart *m,
    struct lh_instant *until, const char **text)
{
    return lh_cs_capability(
        s->primaries->cs, m->chunk, LH_CAPABILITY_APPEND, &m->capability, until, text);
}

/* Why a lane cannot begin; LH_OK: it may. */
static int refusal(const struct lh_cs_stream *s, const Leasehold__AppendPart *m, const char **text)
{
    const struct lh_cs_host *cs = s->primaries->cs;
    const struct lh_cs_replica *r = lh_cs_replica_find(s->primaries->logs, m->chunk);
    const struct lh_cs_primary *p = r == NULL ? NULL : lh_cs_primary_of(r);

    if (m->writer == 0) {
        *text = "the first part of a lane must name the writer: a random number that is not 0";
        return LH_ERR_INVALID_ARGUMENT;
    }
    if (cs->stopping)
        return LH_ERR_SHUTTING_DOWN;
    if (s->lane_count >= cs->config.bounds.stream_lanes) {
        *text = "too many lanes on one stream";
        return LH_ERR_NO_MEMORY;
    }
    if (r == NULL || r->state == LH_CS_REPLICA_REMOVING || r->state == LH_CS_REPLICA_CREATING)
        return LH_ERR_NO_REPLICA;
    if (r->state == LH_CS_REPLICA_LOST) {
        *text = "this server's replica of the chunk is lost";
        return LH_ERR_NO_REPLICA;
    }
    if (lh_cs_replica_sealing(r)) {
        LH_MARK("stream-sealed");
        return LH_ERR_CHUNK_FULL;
    }
    if (m->version < r->adopting) {
        LH_MARK("stream-stale-version");
        return LH_ERR_STALE_VERSION;
    }
    if (p == NULL || p->version != m->version || !lh_cs_primary_may_act(p)) {
        LH_MARK("stream-not-primary");
        return LH_ERR_NOT_PRIMARY;
    }
    return token_refusal(p, m, text);
}

/* Its batches have no opened writer yet: they are not looked at. */
static void first_part(struct lh_cs_stream *s, const Leasehold__AppendPart *m)
{
    const char *text = NULL;
    struct lh_instant until;
    int error = right_refusal(s, m, &until, &text);

    if (error == LH_OK)
        error = refusal(s, m, &text);
    if (error != LH_OK) {
        lh_cs_stream_refuse(s, m->lane, m->chunk, 0, error, text);
        return;
    }
    struct lh_cs_replica *r = lh_cs_replica_find(s->primaries->logs, m->chunk);
    struct lh_cs_lane *lane = lh_cs_lane_begin(s, m->lane, lh_cs_primary_of(r));
    lane->may_until = until;
    add_writer(lane, m);
}

/* Another writer of a lane, or one again: what it shows counts for the whole lane, which is one
 * client's. */
static void next_writer(struct lh_cs_lane *lane, const Leasehold__AppendPart *m)
{
    const char *text = NULL;
    struct lh_instant until;
    int error = right_refusal(lane->stream, m, &until, &text);

    if (error != LH_OK) {
        LH_MARK("writer-without-capability");
        lh_cs_stream_refuse(lane->stream, m->lane, m->chunk, m->writer, error, text);
        return;
    }
    lane->may_until = lh_instant_max(lane->may_until, until);
    add_writer(lane, m);
}

/* ACC-5: what it was opened with has run out. */
static bool right_is_over(struct lh_cs_lane *lane)
{
    struct lh_cs_host *cs = lane->stream->primaries->cs;

    if (!lh_instant_reached(cs->now, lane->may_until) || LH_PLANTED("lane-outlives-its-capability"))
        return false;
    LH_MARK("lane-capability-over");
    cs->counts.capabilities_stale++;
    lh_cs_lane_end(lane, LH_ERR_STALE_CAPABILITY, lh_capability_text(LH_CAPABILITY_OVER));
    return true;
}

/* ------------------------------------------------------------------------------------------------
 * Batches. */

/* Checks the batch at `at` and whose it is. NULL: it ends the lane, `*error` and `text` say why;
 * WOULD_BLOCK: it is not whole. */
static struct lh_cs_lane_writer *check_batch(struct lh_cs_lane *lane, const struct lh_buf *batches,
    size_t at, struct lh_batch_header *h, int *error, char *text, size_t text_size)
{
    uint64_t chunk_size = lane->primary->replica->header.chunk_size;
    uint32_t batch_max = lh_batch_bytes_max(chunk_size);
    uint32_t record_max = lh_record_bytes_max(chunk_size);

    *error = lh_batch_check_records(batches, at, batch_max, record_max, h);
    if (*error != LH_OK) {
        snprintf(text, text_size, "%s (a batch may have %u bytes, a record %u)",
            lh_error_text(*error), batch_max, record_max);
        return NULL;
    }
    struct lh_cs_lane_writer *w = lh_cs_lane_writer(lane, h->writer);
    if (w == NULL || (!w->opened && !w->refused)) {
        *error = w == NULL ? LH_ERR_MALFORMED : LH_ERR_INVALID_ARGUMENT;
        snprintf(text, text_size,
            w == NULL ? "a batch of a writer that was not opened on this lane"
                      : "wait for the answer to the writer's opening");
        return NULL;
    }
    return w;
}

/* Slices cost memory of their own: a stranger's parts must not be all slices and no bytes. */
static bool too_fine(const struct lh_buf *b)
{
    return b->count > 1024 && b->size / b->count < 128;
}

/* What is left at `at` is a batch that is not whole: the rest comes with later parts. */
static int keep_rest(
    struct lh_cs_lane *lane, struct lh_buf *batches, size_t at, bool goes_on, const char **text)
{
    struct lh_cs_stream *s = lane->stream;
    struct lh_cs_primaries *primaries = s->primaries;
    uint64_t size = batches->size - at;

    if (s->rest.bytes.size > 0) {
        *text = "another batch of this stream is not whole yet";
        return LH_ERR_MALFORMED;
    }
    if (too_fine(batches)) {
        *text = "a batch in too small parts";
        return LH_ERR_MALFORMED;
    }
    if (primaries->streams.arriving_bytes + size > primaries->cs->config.bounds.arriving_bytes) {
        LH_MARK("lane-has-no-room");
        *text = "too many large batches are arriving";
        return LH_ERR_NO_MEMORY;
    }
    LH_MARK("batch-in-parts");
    if (at == 0)
        s->rest.bytes = lh_buf_take(batches);
    else
        lh_buf_append(&s->rest.bytes, batches, at, size);
    s->rest.lane = lane->key.number;
    if (!goes_on)
        s->rest.since = primaries->cs->now;
    primaries->streams.arriving_bytes += size;
    return LH_OK;
}

/* The part's bytes, behind those of the lane that came before them. */
static struct lh_buf with_rest(struct lh_cs_lane *lane, struct lh_buf *bytes)
{
    struct lh_cs_stream *s = lane->stream;
    struct lh_buf all;

    if (s->rest.bytes.size == 0 ||
        (s->rest.lane != lane->key.number && !LH_PLANTED("rest-goes-to-another-lane")))
        return lh_buf_take(bytes);
    s->primaries->streams.arriving_bytes -= s->rest.bytes.size;
    all = lh_buf_take(&s->rest.bytes);
    lh_buf_append(&all, bytes, 0, bytes->size);
    return all;
}

/* Takes the part's batches one after another. */
static void take_batches(struct lh_cs_lane *lane, struct lh_buf *bytes)
{
    struct lh_cs_primary *p = lane->primary;
    struct lh_cs_primaries *primaries = p->primaries;
    struct lh_buf batches;
    bool more = true;
    size_t at = 0;
    int error = LH_OK;
    char said[160];
    const char *text = said;

    if (p->state == LH_CS_PRIMARY_OPEN && lh_cs_primary_full_members(p) < p->min_replicas) {
        LH_MARK("append-too-few-replicas");
        lh_cs_lane_end(lane, LH_ERR_UNAVAILABLE, "the chunk has too few replicas to take appends");
        return;
    }
    size_t before = bytes->size;
    batches = with_rest(lane, bytes);
    bool goes_on = batches.size > before;
    while (more && error == LH_OK && at < batches.size) {
        struct lh_batch_header h;
        struct lh_buf one = {0};
        struct lh_cs_lane_writer *w =
            check_batch(lane, &batches, at, &h, &error, said, sizeof said);
        if (w == NULL)
            break;
        if (!w->refused && w->unanswered >= LH_WRITER_WINDOW)
            lh_cs_lane_refuse_writer(
                lane, w, LH_ERR_OUT_OF_SEQUENCE, "more batches under way than the window allows");
        if (!w->refused) {
            lh_buf_append(&one, &batches, at, h.size);
            more = lh_cs_primary_order(p, lane, w, &h, &one);
            lh_buf_clear(&one);
        }
        at += h.size;
        lane->ignored = lane->ignored || !more;
    }
    if (error == LH_ERR_WOULD_BLOCK)
        error = keep_rest(lane, &batches, at, goes_on && at == 0, &text);
    lh_buf_clear(&batches);
    lh_cs_streams_expect_life(primaries);
    if (error != LH_OK)
        lh_cs_lane_end(lane, error, text);
    lh_cs_primary_pump(p); /* perhaps its end */
}

static void take_part(
    struct lh_cs_stream *s, const Leasehold__AppendPart *m, struct lh_buf *batches)
{
    struct lh_cs_lane *lane =
        lh_cs_lane_find(s->primaries, &(struct lh_cs_lane_key){s->link, m->lane});

    if (lane == NULL && m->lane <= s->last_lane) {
        LH_MARK("part-of-an-ended-lane");
        return;
    }
    s->last_lane = m->lane > s->last_lane ? m->lane : s->last_lane;
    if (m->end) {
        if (lane != NULL)
            lh_cs_lane_free(lane);
        return;
    }
    if (lane == NULL) {
        first_part(s, m);
        return;
    }
    struct lh_cs_primary *p = lane->primary;
    if (m->chunk != p->replica->chunk || m->version != p->version) {
        lh_cs_lane_end(
            lane, LH_ERR_INVALID_ARGUMENT, "this lane was opened for another chunk or version");
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
        lane->ignored = true;
        lh_cs_streams_expect_life(s->primaries);
        if (s->rest.lane == m->lane)
            lh_cs_stream_drop_rest(s); /* what is left of it is not looked at */
        return;
    }
    if (m->writer != 0 && m->token != p->fence && !LH_PLANTED("lane-without-token-admitted")) {
        lh_cs_lane_end(
            lane, LH_ERR_INVALID_ARGUMENT, "this lane was opened with another token, or with none");
        return;
    }
    if (m->writer != 0)
        next_writer(lane, m);
    if (batches->size > 0) {
        if (!right_is_over(lane))
            take_batches(lane, batches);
    } else if (m->writer == 0) {
        lh_cs_lane_end(lane, LH_ERR_MALFORMED, "neither a writer nor a batch");
    }
}

/* Do the parts add up to the bytes, and does each name a lane? */
static bool sound(const Leasehold__AppendRequest *m, uint64_t size)
{
    for (size_t i = 0; i < m->n_parts; i++) {
        if (m->parts[i]->lane == 0 || m->parts[i]->bytes > size)
            return false;
        size -= m->parts[i]->bytes;
    }
    return size == 0;
}

static void message(struct lh_cs_link *l, const void *request, struct lh_buf *batches)
{
    const Leasehold__AppendRequest *m = request;
    struct lh_cs_stream *s = l->owner != NULL ? l->owner : lh_cs_stream_begin(l->user_arg, l);

    if (!sound(m, batches->size)) {
        lh_cs_stream_end(
            s, LH_ERR_MALFORMED, "the parts do not add up to the bytes, or one names no lane");
        return;
    }
    for (size_t i = 0, at = 0; i < m->n_parts; i++) {
        struct lh_buf bytes = {0};
        if (m->n_parts == 1)
            bytes = lh_buf_take(batches);
        else
            lh_buf_append(&bytes, batches, at, m->parts[i]->bytes);
        at += m->parts[i]->bytes;
        take_part(s, m->parts[i], &bytes);
        lh_buf_clear(&bytes);
    }
    s->arriving = s->rest.bytes.size > 0;
    if (s->arriving)
        lh_cs_link_await_rest(l, s->rest.since);
    lh_cs_stream_hold_if_full(s);
}

const struct lh_cs_link_user lh_cs_append_links = {
    .message = message,
    .closed = link_closed,
    .progress = progress,
    .sent = sent,
    .half_closed = half_closed,
    .held = held,
    .late = late,
};
