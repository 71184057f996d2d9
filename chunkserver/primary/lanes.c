/* Lanes of append streams, and their ends. */
#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/primary/streams.h"

#include <stdlib.h>

struct lh_cs_lane *lh_cs_lane_find(
    const struct lh_cs_primaries *primaries, const struct lh_cs_lane_key *key)
{
    struct lh_cs_lane *lane;

    HASH_FIND(hh, primaries->streams.lanes, key, sizeof *key, lane);
    return lane;
}

struct lh_cs_lane *lh_cs_lane_begin(
    struct lh_cs_stream *s, uint64_t number, struct lh_cs_primary *p)
{
    struct lh_cs_lane *lane = lh_alloc(sizeof *lane);

    lane->key = (struct lh_cs_lane_key){s->link, number};
    lane->stream = s;
    lane->primary = p;
    if (s->lanes != NULL)
        LH_MARK("stream-of-many-lanes");
    DL_APPEND(p->lanes, lane);
    DL_APPEND2(s->lanes, lane, stream_prev, stream_next);
    s->lane_count++;
    HASH_ADD(hh, s->primaries->streams.lanes, key, sizeof lane->key, lane);
    return lane;
}

void lh_cs_lane_free(struct lh_cs_lane *lane)
{
    struct lh_cs_stream *s = lane->stream;

    if (s->rest.bytes.size > 0 && s->rest.lane == lane->key.number) {
        LH_MARK("lane-ends-within-a-batch");
        lh_cs_stream_drop_rest(s);
    }
    DL_DELETE(lane->primary->lanes, lane);
    DL_DELETE2(s->lanes, lane, stream_prev, stream_next);
    s->lane_count--;
    HASH_DELETE(hh, s->primaries->streams.lanes, lane);
    free(lane->writers);
    free(lane);
}

void lh_cs_lane_end(struct lh_cs_lane *lane, int error, const char *text)
{
    struct lh_cs_stream *s = lane->stream;

    if (LH_PLANTED("answers-lost-with-a-lane"))
        lh_cs_stream_drop_answers(s, s->answers.count, s->answers.stored_count);
    lh_cs_stream_refuse(s, lane->key.number, lane->primary->replica->chunk, 0, error, text);
    /* Nothing is confirmed at its version once a higher one is adopted (FENCE-1). */
    s->urgent = true;
    lh_cs_lane_free(lane);
}

void lh_cs_lane_end_all(struct lh_cs_primary *p, int error, const char *text)
{
    while (p->lanes != NULL)
        lh_cs_lane_end(p->lanes, error, text);
}

struct lh_cs_lane_writer *lh_cs_lane_writer(struct lh_cs_lane *lane, uint64_t id)
{
    for (size_t i = 0; i < lane->writer_count; i++)
        if (lane->writers[i].id == id)
            return &lane->writers[i];
    return NULL;
}

void lh_cs_lane_refuse_writer(
    struct lh_cs_lane *lane, struct lh_cs_lane_writer *w, int error, const char *text)
{
    w->opened = false;
    w->refused = true;
    lh_cs_stream_refuse(
        lane->stream, lane->key.number, lane->primary->replica->chunk, w->id, error, text);
}

void lh_cs_lane_stored(struct lh_cs_lane *lane, const struct lh_cs_uncommitted *u)
{
    struct lh_cs_lane_writer *w = lh_cs_lane_writer(lane, u->writer);
    struct lh_cs_stream *s = lane->stream;
    struct lh_cs_lane_answer *last;
    Leasehold__AppendAnswer m = LEASEHOLD__APPEND_ANSWER__INIT;

    if (w != NULL && w->unanswered > 0)
        w->unanswered--;
    last = lh_cs_stream_last_answer(s);
    if (last == NULL || last->m.lane != lane->key.number || last->stored == 0) {
        m.lane = lane->key.number;
        m.chunk = lane->primary->replica->chunk;
        lh_cs_stream_answer(s, &m, NULL);
        last = lh_cs_stream_last_answer(s);
    }
    Leasehold__Stored *stored = lh_cs_stream_one_more_stored(s);
    stored->writer = u->writer;
    stored->sequence = u->sequence;
    stored->count = u->count;
    stored->offset = u->offset;
    if (LH_PLANTED("offset-given-twice"))
        stored->offset = (stored - last->stored + 1)->offset;
}

bool lh_cs_lane_waits(const struct lh_cs_lane *lane)
{
    if (lane->ignored)
        return true;
    for (size_t i = 0; i < lane->writer_count; i++)
        if (!lane->writers[i].refused &&
            (!lane->writers[i].opened || lane->writers[i].unanswered > 0))
            return true;
    return false;
}

bool lh_cs_lanes_wait(const struct lh_cs_primary *p)
{
    struct lh_cs_lane *lane;

    DL_FOREACH(p->lanes, lane)
        if (lh_cs_lane_waits(lane))
            return true;
    return false;
}

bool lh_cs_lanes_arrive(const struct lh_cs_primary *p)
{
    struct lh_cs_lane *lane;

    DL_FOREACH(p->lanes, lane)
        if (lane->stream->arriving)
            return true;
    return false;
}
