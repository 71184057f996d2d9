#include "chunkserver/log/writers.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"

#include <stdlib.h>

/* Most chunks have few writers. The table grows. */
#undef HASH_INITIAL_NUM_BUCKETS
#undef HASH_INITIAL_NUM_BUCKETS_LOG2
#define HASH_INITIAL_NUM_BUCKETS      2U
#define HASH_INITIAL_NUM_BUCKETS_LOG2 1U

struct lh_writer *lh_writers_find(const struct lh_writers *w, uint64_t id)
{
    struct lh_writer *found;

    HASH_FIND(hh, w->by_id, &id, sizeof id, found);
    return found;
}

const struct lh_stored_batch *lh_writer_recent(const struct lh_writer *w, uint32_t i)
{
    LH_ASSERT(i < w->count);
    return &w->recent[(w->oldest + i) % w->capacity];
}

bool lh_writers_note(struct lh_writers *w, const struct lh_batch_header *h, uint64_t offset)
{
    struct lh_writer *writer = lh_writers_find(w, h->writer);

    if (writer == NULL) {
        writer = lh_alloc(sizeof *writer);
        writer->id = h->writer;
        writer->first = h->sequence;
        HASH_ADD(hh, w->by_id, id, sizeof writer->id, writer);
    } else if (h->sequence != writer->last + 1) {
        return false;
    }
    writer->last = lh_batch_last(h);

    /* Before it is as large as it gets nothing goes out of it: it begins at 0. */
    if (writer->count == writer->capacity && writer->capacity < LH_WRITER_WINDOW) {
        LH_ASSERT(writer->oldest == 0);
        writer->capacity = writer->capacity == 0 ? 1 : writer->capacity * 2;
        writer->recent = lh_realloc_array(writer->recent, writer->capacity, sizeof *writer->recent);
    }
    uint32_t at;
    if (writer->count == LH_WRITER_WINDOW) {
        at = writer->oldest;
        writer->oldest = (writer->oldest + 1) % LH_WRITER_WINDOW;
    } else {
        at = (writer->oldest + writer->count++) % writer->capacity;
    }
    writer->recent[at] = (struct lh_stored_batch){
        .sequence = h->sequence,
        .offset = offset,
        .count = h->count,
        .size = h->size,
        .crc = h->crc,
    };
    return true;
}

static void forget(struct lh_writers *w, struct lh_writer *writer)
{
    HASH_DELETE(hh, w->by_id, writer);
    free(writer->recent);
    free(writer);
}

enum lh_sequence lh_writers_classify(const struct lh_writers *w, const struct lh_batch_header *h,
    uint64_t opened_at, const struct lh_stored_batch **found)
{
    const struct lh_writer *writer = lh_writers_find(w, h->writer);

    if (writer == NULL)
        return h->sequence == opened_at  ? LH_SEQUENCE_NEXT
               : h->sequence < opened_at ? LH_SEQUENCE_OTHER
               : LH_PLANTED("gap-taken") ? LH_SEQUENCE_NEXT
                                         : LH_SEQUENCE_GAP;
    if (h->sequence == writer->last + 1)
        return LH_SEQUENCE_NEXT;
    if (h->sequence > writer->last)
        return LH_SEQUENCE_GAP;
    for (uint32_t i = 0; i < writer->count; i++) {
        const struct lh_stored_batch *b = lh_writer_recent(writer, i);
        if (b->sequence == h->sequence && b->count == h->count && b->size == h->size &&
            b->crc == h->crc) {
            *found = b;
            return LH_SEQUENCE_REPEAT;
        }
    }
    return LH_SEQUENCE_OTHER;
}

/* False: everything that is remembered of it lies behind `length`, and so may what is not. */
static bool cut_writer(struct lh_writers *w, struct lh_writer *writer, uint64_t length)
{
    while (writer->count > 0) {
        const struct lh_stored_batch *newest = lh_writer_recent(writer, writer->count - 1);
        if (newest->offset < length)
            return true;
        bool oldest_of_all = newest->sequence == writer->first;
        writer->last = newest->sequence - 1;
        writer->count--;
        if (oldest_of_all) {
            forget(w, writer);
            return true;
        }
    }
    return false;
}

bool lh_writers_cut(struct lh_writers *w, uint64_t length)
{
    struct lh_writer *writer, *next;

    HASH_ITER(hh, w->by_id, writer, next) {
        if (!cut_writer(w, writer, length))
            return false;
    }
    return true;
}

void lh_writers_clear(struct lh_writers *w)
{
    struct lh_writer *writer, *next;

    HASH_ITER(hh, w->by_id, writer, next) {
        forget(w, writer);
    }
}
