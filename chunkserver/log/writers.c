#include "chunkserver/log/writers.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/prng.h"
#include "base/probe.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * The table. */

/* Of a table with so much room, how many places has the index? */
static uint32_t index_places(uint32_t capacity)
{
    return capacity > LH_WRITERS_FEW ? 2 * capacity : 0;
}

static size_t bytes_of(uint32_t capacity)
{
    return sizeof(struct lh_writers) + capacity * sizeof(struct lh_writer) +
           index_places(capacity) * sizeof(uint32_t);
}

/* The place in the index in which `id` is, or would be. At least half of them are free. */
static uint32_t *place_of(const struct lh_writers *w, uint64_t id)
{
    uint32_t *index = (uint32_t *)(uintptr_t)&w->all[w->capacity];
    uint32_t last = index_places(w->capacity) - 1, i = (uint32_t)lh_mix64(id) & last;

    while (index[i] != 0 && w->all[index[i] - 1].id != id)
        i = (i + 1) & last;
    return &index[i];
}

static void index_all(struct lh_writers *w)
{
    if (index_places(w->capacity) == 0)
        return;
    memset(&w->all[w->capacity], 0, index_places(w->capacity) * sizeof(uint32_t));
    for (uint32_t i = 0; i < w->count; i++)
        *place_of(w, w->all[i].id) = i + 1;
}

static struct lh_writer *find(const struct lh_writers *w, uint64_t id)
{
    const struct lh_writer *found = NULL;

    if (w == NULL)
        return NULL;
    if (index_places(w->capacity) > 0) {
        uint32_t at = *place_of(w, id);
        found = at == 0 ? NULL : &w->all[at - 1];
    } else {
        for (uint32_t i = 0; i < w->count && found == NULL; i++)
            if (w->all[i].id == id)
                found = &w->all[i];
    }
    return (struct lh_writer *)(uintptr_t)found;
}

static struct lh_writer *add(struct lh_writers **table, uint64_t id)
{
    struct lh_writers *w = *table;

    if (w == NULL || w->count == w->capacity) {
        uint32_t count = w == NULL ? 0 : w->count, capacity = w == NULL ? 1 : 2 * w->capacity;
        *table = w = lh_realloc_array(w, 1, bytes_of(capacity));
        w->count = count;
        w->capacity = capacity;
        index_all(w);
    }
    struct lh_writer *writer = &w->all[w->count++];
    *writer = (struct lh_writer){.id = id, .capacity = 1};
    if (index_places(w->capacity) > 0)
        *place_of(w, id) = w->count;
    return writer;
}

const struct lh_writer *lh_writers_find(const struct lh_writers *w, uint64_t id)
{
    return find(w, id);
}

size_t lh_writers_count(const struct lh_writers *w)
{
    return w == NULL ? 0 : w->count;
}

/* ------------------------------------------------------------------------------------------------
 * What is remembered of a writer. */

static struct lh_stored_batch *ring_of(const struct lh_writer *writer)
{
    return writer->capacity == 1 ? (struct lh_stored_batch *)(uintptr_t)&writer->recent.one
                                 : writer->recent.more;
}

static void ring_free(struct lh_writer *writer)
{
    if (writer->capacity > 1)
        free(writer->recent.more);
}

const struct lh_stored_batch *lh_writer_recent(const struct lh_writer *w, uint32_t i)
{
    LH_ASSERT(i < w->count);
    return &ring_of(w)[(w->oldest + i) % w->capacity];
}

/* Before it is as large as it gets nothing goes out of it: it begins at 0. */
static void ring_grow(struct lh_writer *writer)
{
    struct lh_stored_batch *was = ring_of(writer);
    struct lh_stored_batch *more = lh_alloc_array(2u * writer->capacity, sizeof *more);

    LH_ASSERT(writer->oldest == 0);
    memcpy(more, was, writer->count * sizeof *more);
    ring_free(writer);
    writer->recent.more = more;
    writer->capacity = (uint8_t)(2 * writer->capacity);
}

bool lh_writers_note(struct lh_writers **w, const struct lh_batch_header *h, uint64_t offset)
{
    struct lh_writer *writer = find(*w, h->writer);

    if (writer == NULL) {
        writer = add(w, h->writer);
        writer->first = h->sequence;
    } else if (h->sequence != writer->last + 1) {
        return false;
    }
    writer->last = lh_batch_last(h);

    if (writer->count == writer->capacity && writer->capacity < LH_WRITER_WINDOW)
        ring_grow(writer);
    uint32_t at;
    if (writer->count == LH_WRITER_WINDOW) {
        at = writer->oldest;
        writer->oldest = (uint8_t)((writer->oldest + 1) % LH_WRITER_WINDOW);
    } else {
        at = (uint32_t)(writer->oldest + writer->count++) % writer->capacity;
    }
    ring_of(writer)[at] = (struct lh_stored_batch){
        .sequence = h->sequence,
        .offset = (uint32_t)offset,
        .count = h->count,
        .size = h->size,
        .crc = h->crc,
    };
    return true;
}

enum lh_sequence lh_writers_classify(const struct lh_writers *w, const struct lh_batch_header *h,
    uint64_t opened_at, const struct lh_stored_batch **found)
{
    const struct lh_writer *writer = find(w, h->writer);

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

/* ------------------------------------------------------------------------------------------------
 * Cutting. */

/* Forgets what of it lies at `length` or behind it; of a writer of which nothing is left `count` is
 * 0. False: everything that is remembered of it lies there, and so may what is not. */
static bool cut_writer(struct lh_writer *writer, uint64_t length)
{
    while (writer->count > 0) {
        const struct lh_stored_batch *newest = lh_writer_recent(writer, writer->count - 1u);
        if (newest->offset < length)
            return true;
        writer->last = newest->sequence - 1;
        writer->count--;
        if (newest->sequence == writer->first)
            return true;
    }
    return LH_PLANTED("table-outlives-its-log");
}

bool lh_writers_cut(struct lh_writers **table, uint64_t length)
{
    struct lh_writers *w = *table;
    uint32_t i = 0;

    if (w == NULL)
        return true;
    while (i < w->count && cut_writer(&w->all[i], length)) {
        struct lh_writer *writer = &w->all[i];
        if (writer->count > 0) {
            i++;
            continue;
        }
        ring_free(writer);
        *writer = w->all[--w->count];
    }
    bool whole = i == w->count;
    if (w->count == 0)
        lh_writers_clear(table);
    else
        index_all(w);
    return whole;
}

void lh_writers_clear(struct lh_writers **table)
{
    struct lh_writers *w = *table;

    for (uint32_t i = 0; w != NULL && i < w->count; i++)
        ring_free(&w->all[i]);
    free(w);
    *table = NULL;
}
