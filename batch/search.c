/* Finding the next whole batch of a log; see search.h. */
#include "batch/search.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC_AT 4u

/* What is at hand of the log. */
struct window {
    const struct lh_buf *buf;
    uint64_t base, end; /* in the log */
};

/* A step: over when it is WOULD_BLOCK, OK or NOT_FOUND. */
#define GO_ON 1

void lh_log_search_init(struct lh_log_search *s, uint64_t chunk, uint64_t offset, uint64_t limit,
    uint32_t batch_max, uint64_t more)
{
    *s = (struct lh_log_search){.chunk = chunk,
        .limit = limit,
        .batch_max = batch_max,
        .left = 2 * (limit > offset ? limit - offset : 0) + more,
        .at = offset};
}

static int want(struct lh_log_search *s, uint64_t bytes)
{
    s->bytes = bytes;
    return LH_ERR_WOULD_BLOCK;
}

/* False: it has cost too much. */
static bool spend(struct lh_log_search *s, uint64_t bytes)
{
    bool may = s->left >= bytes;

    s->left = may ? s->left - bytes : 0;
    return may;
}

/* The header at `at`, if it could be one.
 *   WOULD_BLOCK  more bytes are wanted
 *   MALFORMED    no batch begins here */
static int header_at(struct lh_log_search *s, const struct window *w, struct lh_batch_header *h)
{
    uint8_t bytes[LH_BATCH_HEADER_BYTES];

    if (s->limit - s->at < LH_BATCH_FRAME_BYTES)
        return LH_ERR_MALFORMED;
    if (s->at < w->base || !lh_buf_read(w->buf, s->at - w->base, bytes, sizeof bytes))
        return want(s, sizeof bytes);
    if (lh_batch_header_decode(bytes, h) != LH_OK || h->size > s->batch_max ||
        h->size > s->limit - s->at)
        return LH_ERR_MALFORMED;
    return s->at + h->size > w->end ? want(s, h->size) : LH_OK;
}

static bool is_whole(const struct lh_log_search *s, const struct window *w)
{
    struct lh_batch_header h;

    return lh_batch_check(w->buf, s->at - w->base, s->batch_max, &h) == LH_OK;
}

static void note_damaged(struct lh_log_search *s, const struct lh_batch_header *h)
{
    if (s->damaged_count < LH_SEARCH_DAMAGED)
        s->damaged[s->damaged_count++] = (struct lh_damaged){s->at, *h};
}

/* The batches that were followed do not go on at `at`: looks for others. None of them can have
 * begun before: what was followed was either the log, or inside a record that ends behind it. */
static int unfollow(struct lh_log_search *s)
{
    if (s->anchored)
        s->at++;
    s->following = s->anchored = false;
    return GO_ON;
}

static int follow(struct lh_log_search *s, const struct window *w)
{
    struct lh_batch_header h;
    uint64_t checksum = s->checksum;

    if (s->at >= s->limit)
        return s->anchored ? LH_ERR_NOT_FOUND : LH_OK;
    int error = header_at(s, w, &h);
    if (error == LH_ERR_WOULD_BLOCK)
        return error;
    if (error != LH_OK)
        return unfollow(s);
    if (!spend(s, h.size))
        return LH_ERR_NOT_FOUND;
    bool fits = lh_log_fits(w->buf, s->at - w->base, &h, &checksum);
    bool whole = s->anchored && is_whole(s, w);
    if (fits && whole) {
        s->start = s->at;
        return LH_OK;
    }
    /* Its records say that the header is right, or the chain does. */
    if (s->anchored && (fits || whole))
        note_damaged(s, &h);
    if (!fits)
        return unfollow(s);
    s->checksum = checksum;
    s->at += h.size;
    return !s->anchored && s->at - s->start > s->batch_max ? LH_OK : GO_ON;
}

/* The first place from `at` on where a batch could begin; moves `at` there, or to where the window
 * has no more. */
static bool next_magic(struct lh_log_search *s, const struct window *w, const uint8_t *flat)
{
    static const uint8_t magic[4] = {'L', 'H', 'B', '2'};
    uint64_t from = s->at + MAGIC_AT;

    if (from < w->end) {
        const uint8_t *found = memmem(flat + (from - w->base), w->end - from, magic, sizeof magic);
        if (found != NULL) {
            s->at = w->base + (uint64_t)(found - flat) - MAGIC_AT;
            return true;
        }
    }
    uint64_t looked =
        w->end < MAGIC_AT + sizeof magic - 1 ? 0 : w->end - MAGIC_AT - sizeof magic + 1;
    s->at = looked > s->at ? looked : s->at;
    return false;
}

static int look(struct lh_log_search *s, const struct window *w, const uint8_t *flat)
{
    struct lh_batch_header h;

    if (s->at < w->base || s->at >= w->end)
        return s->at < s->limit ? want(s, 0) : LH_ERR_NOT_FOUND;
    if (!next_magic(s, w, flat))
        return w->end >= s->limit ? LH_ERR_NOT_FOUND : want(s, LH_BATCH_HEADER_BYTES);
    int error = header_at(s, w, &h);
    if (error == LH_ERR_WOULD_BLOCK)
        return error;
    if (error == LH_OK && !spend(s, h.size))
        return LH_ERR_NOT_FOUND;
    if (error != LH_OK || !is_whole(s, w)) {
        s->at++;
        return GO_ON;
    }
    /* Whether it fits what lies before it means nothing: that may be what is damaged. What lies
     * behind has to fit it. */
    bool fits = lh_log_fits(w->buf, s->at - w->base, &h, &s->checksum);
    (void)fits;
    s->start = s->at;
    s->following = true;
    s->at += h.size;
    return GO_ON;
}

int lh_log_search_unreadable(struct lh_log_search *s, uint64_t bytes)
{
    s->begun = true;
    s->following = s->anchored = false;
    s->at += bytes < s->limit - s->at ? bytes : s->limit - s->at;
    return s->at < s->limit && spend(s, bytes) ? want(s, 0) : LH_ERR_NOT_FOUND;
}

int lh_log_search(struct lh_log_search *s, const struct lh_buf *b, size_t front)
{
    struct window w = {.buf = b, .base = s->at - front};
    uint8_t *flat = lh_alloc_array(b->size + 1, 1);
    bool whole = lh_buf_read(b, 0, flat, b->size);
    int result = GO_ON;

    LH_ASSERT(whole);
    w.end = w.base + b->size;
    if (!s->begun) {
        s->begun = true;
        s->following = s->anchored =
            lh_log_checksum_before(b, s->at, s->chunk, &s->checksum) == LH_OK;
    }
    if (!spend(s, b->size))
        result = LH_ERR_NOT_FOUND;
    while (result == GO_ON)
        result = s->following ? follow(s, &w) : look(s, &w, flat);
    free(flat);
    return result;
}
