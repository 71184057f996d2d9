#include "chunkserver/log/behind.h"

#include "base/alloc.h"
#include "chunkserver/log/active.h"
#include "chunkserver/log/disk.h"
#include "chunkserver/log/internal.h"
#include "chunkserver/log/log.h"
#include "chunkserver/log/scan.h"

static void read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);

static const struct lh_cs_disk_user behind_read = {.done = read_done};

void lh_cs_behind_again(struct lh_cs_replica *r)
{
    struct lh_cs_behind *b = r->active->scan->behind;

    b->left -= b->asked < b->left ? b->asked : b->left;
    lh_cs_disk_ask(r->logs, &behind_read, r, NULL,
        &(struct lh_cs_disk_request){
            .op = LH_DISK_READ, .offset = LH_LOG_START + b->at, .length = b->asked});
}

/* Reads so many bytes from `from` on, and `front` before them. */
static void ask(struct lh_cs_replica *r, uint64_t from, uint64_t front, uint64_t bytes)
{
    struct lh_cs_behind *b = r->active->scan->behind;

    b->front = front;
    b->at = from - front;
    b->asked = front + bytes;
    lh_cs_behind_again(r);
}

/* As many bytes as are convenient, and at least `wanted`. */
static void ask_window(struct lh_cs_replica *r, uint64_t from, uint64_t front, uint64_t wanted)
{
    uint64_t window = r->logs->cs->config.bounds.scan_bytes;

    r->active->scan->behind->unreadable = 0;
    ask(r, from, front, wanted > window ? wanted : window);
}

static void look(struct lh_cs_replica *r)
{
    struct lh_cs_behind *b = r->active->scan->behind;

    if (b->left == 0) { /* it is damaged again and again */
        LH_MARK("scan-behind-damage-costs-too-much");
        lh_cs_scan_lost(r, b->error, b->damaged_at);
        return;
    }
    b->searching = true;
    lh_log_search_init(&b->search, r->chunk, r->end, r->header.chunk_size,
        lh_batch_bytes_max(r->header.chunk_size), r->logs->cs->config.bounds.search_bytes);
    ask_window(r, r->end, r->end == 0 ? 0 : LH_BATCH_CHAIN_BYTES, 0);
}

void lh_cs_behind_begin(struct lh_cs_replica *r, int error, uint64_t offset)
{
    struct lh_cs_behind *b = r->active->scan->behind = lh_alloc(sizeof *b);

    b->error = error;
    b->damaged_at = offset;
    /* All searches together as much as one: each damaged batch costs a window or two. */
    b->left = 2 * r->header.chunk_size + r->logs->cs->config.bounds.search_bytes;
    look(r);
}

static void searched(struct lh_cs_replica *r, int result)
{
    struct lh_cs_behind *b = r->active->scan->behind;

    if (result == LH_ERR_WOULD_BLOCK && b->search.at < b->search.limit) {
        ask_window(r, b->search.at, 0, b->search.bytes);
    } else if (result == LH_OK) {
        LH_MARK("scan-goes-on-behind-damage");
        b->searching = false;
        b->next = b->search.start;
        b->placed = true;
        ask_window(r, b->next, 0, 0);
    } else {
        lh_cs_scan_lost(r, b->error, b->damaged_at);
    }
}

/* The disk cannot read what was asked for: smaller pieces are tried, and the smallest asked for
 * again, before it is passed (REC-6). */
static void not_read(struct lh_cs_replica *r, int error)
{
    struct lh_cs_behind *b = r->active->scan->behind;
    uint64_t piece = b->asked - b->front;

    b->unreadable = piece;
    if (piece > r->logs->cs->config.bounds.read_least_bytes) {
        b->asked = b->front + piece / 2;
        lh_cs_behind_again(r);
    } else if (lh_cs_scan_asked_again(r, error)) {
        LH_MARK("scan-behind-damage-asked-again");
    } else if (!b->searching) {
        look(r);
    } else {
        LH_MARK("scan-passes-what-cannot-be-read");
        /* So many in a row are the disk, and no bad sector. */
        bool too_many = ++b->skipped > r->logs->cs->config.bounds.scan_tries;
        int result = lh_log_search_unreadable(&b->search, piece);
        searched(r, too_many ? LH_ERR_NOT_FOUND : result);
    }
}

static void search(struct lh_cs_replica *r, const struct lh_buf *bytes)
{
    struct lh_cs_behind *b = r->active->scan->behind;
    uint64_t from = b->search.at, piece = b->asked - b->front;

    b->skipped = 0;
    if (bytes->size < b->asked) /* the file ends here */
        b->search.limit = b->at + bytes->size;
    int result =
        bytes->size < b->front ? LH_ERR_NOT_FOUND : lh_log_search(&b->search, bytes, b->front);
    if (result != LH_ERR_WOULD_BLOCK || b->unreadable == 0 || b->search.at != from)
        searched(r, result);
    else if (b->search.bytes > piece && b->search.bytes < b->unreadable)
        ask(r, from, 0, b->search.bytes);
    else /* what begins here cannot be read to its end */
        searched(r, lh_log_search_unreadable(&b->search, 1));
}

/* The whole batches of `bytes`, which begin at `next`. OK: up to their end. */
static int take(struct lh_cs_replica *r, const struct lh_buf *bytes)
{
    struct lh_cs_behind *b = r->active->scan->behind;
    uint32_t batch_max = lh_batch_bytes_max(r->header.chunk_size);
    struct lh_batch_header h;
    size_t at = 0;
    int error = LH_OK;

    while (at < bytes->size) {
        uint64_t checksum = r->checksum;
        error = lh_batch_check(bytes, at, batch_max, &h);
        if (error == LH_OK && h.size > r->header.chunk_size - b->next)
            error = LH_ERR_CORRUPT;
        if (error == LH_OK && !lh_log_fits(bytes, at, &h, &checksum) && !b->placed)
            error = LH_ERR_CORRUPT;
        if (error != LH_OK)
            break;
        at += h.size;
        b->placed = false;
        b->next += h.size;
        lh_cs_scan_reaches(r, b->next, checksum);
    }
    return error;
}

/* The bytes that the batch takes which begins with these. */
static uint64_t wanted(const struct lh_buf *bytes)
{
    uint8_t raw[LH_BATCH_HEADER_BYTES];
    struct lh_batch_header h;

    if (!lh_buf_read(bytes, 0, raw, sizeof raw))
        return sizeof raw;
    return lh_batch_header_decode(raw, &h) == LH_OK ? h.size : 0;
}

static void read_batches(struct lh_cs_replica *r, const struct lh_buf *bytes)
{
    struct lh_cs_behind *b = r->active->scan->behind;
    uint64_t from = b->next;
    int error = take(r, bytes);
    bool ends = bytes->size < b->asked;

    if (ends && (error == LH_OK || error == LH_ERR_WOULD_BLOCK))
        lh_cs_scan_lost(r, b->error, b->damaged_at);
    else if (error == LH_OK || (error == LH_ERR_WOULD_BLOCK && b->next > from))
        ask_window(r, b->next, 0, 0);
    else if (error == LH_ERR_WOULD_BLOCK && b->unreadable == 0)
        ask_window(r, b->next, 0, 2 * b->asked);
    else if (error == LH_ERR_WOULD_BLOCK && wanted(bytes) > b->asked &&
             wanted(bytes) < b->unreadable)
        ask(r, b->next, 0, wanted(bytes));
    else
        look(r);
}

static void read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = t->replica;

    if (r->state != LH_CS_REPLICA_SCANNING) {
        lh_cs_scan_stop(r);
        return;
    }
    if (error != LH_OK) {
        not_read(r, error);
        return;
    }
    (void)lh_cs_scan_asked_again(r, LH_OK);
    if (r->active->scan->behind->searching)
        search(r, bytes);
    else
        read_batches(r, bytes);
}
