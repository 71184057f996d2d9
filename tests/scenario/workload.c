#include "tests/scenario/workload.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "proto/leasehold.pb-c.h"
#include "sim/cluster/internal.h"
#include "sim/world/disk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Lives as long as the cluster: as the memory of the request that opened it. */
struct lh_sim_writer {
    struct lh_sim_cluster *cluster;
    struct lh_sim_node *node;
    uint64_t life; /* of the client: its appender is gone with it */
    char path[LH_SIM_PATH_MAX + 1];
    struct lh_client_appender *appender;
    uint64_t id;
    uint64_t next_sequence;
    struct lh_sim_append *first, *last; /* in order of sequence */
    size_t count, pending;
    size_t seen; /* so many of its batches have been read back */
};

static struct lh_instant deadline(const struct lh_sim_node *node, struct lh_duration bound)
{
    return lh_instant_add(lh_sim_clock(node), bound);
}

struct wanted {
    struct lh_sim_cluster *cluster;
    const char *path;
};

static bool has_primary(void *arg)
{
    const struct wanted *w = arg;

    return lh_sim_open_primary(w->cluster, w->path) != NULL;
}

struct lh_sim_node *lh_sim_wait_primary(
    struct lh_sim_cluster *c, const char *path, struct lh_duration bound)
{
    struct wanted w = {c, path};

    return lh_sim_run_until(c->sim, has_primary, &w, bound) ? lh_sim_open_primary(c, path) : NULL;
}

int lh_sim_recall(
    struct lh_sim_cluster *c, const char *path, bool only_release, struct lh_duration bound)
{
    Leasehold__RecallRequest request = LEASEHOLD__RECALL_REQUEST__INIT;

    request.path = (char *)(uintptr_t)path;
    request.only_release = only_release;
    request.wait_ms = lh_duration_ms(bound);
    return lh_sim_ask(
        c, 1, LH_METHOD_RECALL, &request.base, lh_duration_add(bound, lh_seconds(1)), NULL);
}

static struct lh_buf make_batch(const struct lh_sim_writer *w, const struct lh_sim_append *a)
{
    struct lh_batch_builder b;
    uint8_t *record = lh_alloc(a->bytes);

    lh_batch_builder_init(
        &b, LH_BATCH_FRAME_BYTES + a->count * (LH_RECORD_HEADER_BYTES + a->bytes));
    for (uint32_t i = 0; i < a->count; i++) {
        lh_sim_fill_record(record, a->bytes, w->id, a->sequence + i);
        bool fits = lh_batch_builder_add(&b, record, a->bytes);
        LH_ASSERT(fits);
    }
    free(record);
    return lh_batch_builder_finish(&b, w->id, a->sequence);
}

/* ---- Appending ---- */

struct lh_sim_writer *lh_sim_writer_open(
    struct lh_sim_cluster *c, size_t client, const char *path, struct lh_duration bound)
{
    struct lh_sim_node *node = lh_sim_client(c, client);
    struct request *r = lh_sim_request(c, LH_CALL_APPENDER_OPEN);
    struct lh_sim_writer *w = lh_alloc(sizeof *w);

    r->memory = w;
    w->cluster = c;
    w->node = node;
    w->life = lh_sim_incarnation(node);
    (void)snprintf(w->path, sizeof w->path, "%s", path);
    w->next_sequence = 1;
    r->u.open.path = w->path;
    r->u.open.deadline = deadline(node, bound);
    r->u.open.give_up = LH_DURATION_FOREVER;
    if (lh_sim_carry(c, node, r, bound) != LH_OK)
        return NULL;
    w->appender = r->u.open.appender;
    w->id = r->u.open.writer;
    return w;
}

static void append_done(struct request *r)
{
    struct lh_sim_append *a = r->memory;

    a->done_ns = lh_sim_now(a->writer->cluster->sim);
    a->error = r->error;
    a->offset = r->u.submit.offset;
    a->writer->pending--;
    if (r->error != LH_OK)
        lh_sim_note(a->writer->cluster->sim, "append failed: %s", r->u.call.text);
}

struct lh_sim_append *lh_sim_append_begin(struct lh_sim_writer *w, uint32_t count, uint32_t bytes)
{
    struct lh_sim_cluster *c = w->cluster;
    struct request *r = lh_sim_request(c, LH_CALL_SUBMIT);
    struct lh_sim_append *a = lh_alloc(sizeof *a);

    LH_ASSERT(w->appender != NULL && lh_sim_is_up(w->node));
    LH_ASSERT(w->life == lh_sim_incarnation(w->node)); /* its appender went with its process */
    *a = (struct lh_sim_append){.writer = w,
        .index = w->count++,
        .sequence = w->next_sequence,
        .count = count,
        .bytes = bytes,
        .sent_ns = lh_sim_now(c->sim),
        .done_ns = UINT64_MAX};
    r->u.submit.appender = w->appender;
    r->u.submit.sequence = w->next_sequence;
    r->u.submit.count = count;
    r->u.submit.batch = make_batch(w, a);
    w->next_sequence += count;
    if (w->last != NULL)
        w->last->next = a;
    else
        w->first = a;
    w->last = a;
    w->pending++;
    r->memory = a;
    r->then = append_done;
    lh_sim_call(w->node, &r->u);
    return a;
}

static bool is_done(void *arg)
{
    return ((const struct lh_sim_append *)arg)->done_ns != UINT64_MAX;
}

int lh_sim_append(struct lh_sim_writer *w, uint32_t count, uint32_t bytes, struct lh_duration bound)
{
    struct lh_sim_append *a = lh_sim_append_begin(w, count, bytes);

    return lh_sim_run_until(w->cluster->sim, is_done, a, bound) ? a->error
                                                                : LH_ERR_DEADLINE_EXCEEDED;
}

static bool nothing_pending(void *arg)
{
    return ((const struct lh_sim_writer *)arg)->pending == 0;
}

bool lh_sim_flush(struct lh_sim_writer *w, struct lh_duration bound)
{
    if (!lh_sim_run_until(w->cluster->sim, nothing_pending, w, bound))
        return false;
    for (const struct lh_sim_append *a = w->first; a != NULL; a = a->next)
        if (a->error != LH_OK)
            return false;
    return true;
}

/* ---- Reading back ---- */

#define WRITERS_MAX 16

/* A check of one file under way. */
struct comparison {
    struct lh_sim_cluster *cluster;
    const char *path;
    struct lh_sim_writer *writers[WRITERS_MAX]; /* of the file */
    size_t writer_count;
    uint64_t latest_sent; /* of the batches seen so far */
    const struct lh_sim_append *latest;
    size_t found; /* acknowledged ones */
};

static bool wrong(
    struct comparison *k, uint64_t offset, const struct lh_batch_header *h, const char *what)
{
    lh_sim_fail(k->cluster->sim, "history", 0,
        "%s at %" PRIu64 ": batch %" PRIu64 "+%u of writer %" PRIx64 " %s", k->path, offset,
        h->sequence, h->count, h->writer, what);
    return false;
}

/* The batch that this header is of, NULL if nobody sent such a one. */
static struct lh_sim_append *sent_batch(const struct comparison *k, const struct lh_batch_header *h)
{
    for (size_t i = 0; i < k->writer_count; i++) {
        struct lh_sim_append *a = k->writers[i]->id == h->writer ? k->writers[i]->first : NULL;
        for (; a != NULL; a = a->next)
            if (a->sequence == h->sequence && a->count == h->count)
                return a;
    }
    return NULL;
}

static bool is_acknowledged(const struct lh_sim_append *a)
{
    return a->done_ns != UINT64_MAX && a->error == LH_OK;
}

/* One batch as it was read. */
static bool compare_batch(struct comparison *k, const struct lh_buf *bytes, size_t at,
    uint64_t offset, const struct lh_batch_header *h)
{
    const struct lh_sim_append *a = sent_batch(k, h);

    if (a == NULL)
        return wrong(k, offset, h, "was never sent");
    struct lh_sim_writer *w = a->writer;
    struct lh_buf expected = make_batch(w, a);
    uint8_t *have = lh_alloc(h->size);
    bool same = expected.size == h->size && lh_buf_read(bytes, at, have, h->size) &&
                memcmp(have, lh_buf_slices(&expected)[0].data, h->size - LH_BATCH_CHAIN_BYTES) == 0;
    free(have);
    lh_buf_clear(&expected);
    if (!same)
        return wrong(k, offset, h, "has other bytes than were sent");

    if (a->index < w->seen)
        return wrong(k, offset, h, "is there twice, or out of its writer's order");
    if (a->index > w->seen)
        return wrong(k, offset, h, "comes after a gap in its writer's sequence");
    w->seen++;

    bool acknowledged = is_acknowledged(a);
    if (acknowledged && a->offset != offset)
        return wrong(k, offset, h, "was acknowledged at another position");
    k->found += acknowledged;
    if (acknowledged && k->latest != NULL && a->done_ns < k->latest_sent)
        return wrong(k, offset, h, "was acknowledged before one that lies before it was sent");
    if (a->sent_ns > k->latest_sent || k->latest == NULL) {
        k->latest_sent = a->sent_ns;
        k->latest = a;
    }
    return true;
}

static bool compare_batches(struct comparison *k, const struct lh_buf *bytes, uint64_t offset)
{
    size_t at = 0;

    while (at < bytes->size) {
        struct lh_batch_header h;
        int error = lh_batch_check(bytes, at, LH_BATCH_BYTES_LIMIT, &h);
        if (error != LH_OK) {
            lh_sim_fail(k->cluster->sim, "history", 0,
                "%s at %" PRIu64 ": a reader was given no batch: %s", k->path, offset + at,
                lh_error_text(error));
            return false;
        }
        if (!compare_batch(k, bytes, at, offset + at, &h))
            return false;
        at += h.size;
    }
    return true;
}

/* So many of the file's batches were acknowledged. */
static size_t find_writers(struct comparison *k)
{
    size_t acknowledged = 0;

    for (const struct request *r = k->cluster->requests; r != NULL; r = r->next) {
        struct lh_sim_writer *w = r->memory;
        if (r->u.call.kind != LH_CALL_APPENDER_OPEN || w == NULL || strcmp(w->path, k->path) != 0)
            continue;
        LH_ASSERT(k->writer_count < WRITERS_MAX);
        k->writers[k->writer_count++] = w;
        w->seen = 0;
        for (const struct lh_sim_append *a = w->first; a != NULL; a = a->next)
            acknowledged += is_acknowledged(a);
    }
    return acknowledged;
}

static bool read_and_compare(struct comparison *k, struct lh_sim_node *node,
    struct lh_client_reader *reader, struct lh_duration bound)
{
    uint64_t next = 0;

    for (;;) {
        struct request *r = lh_sim_request(k->cluster, LH_CALL_FETCH);
        r->u.fetch.reader = reader;
        r->u.fetch.deadline = deadline(node, bound);
        int error = lh_sim_carry(k->cluster, node, r, bound);
        if (error == LH_ERR_CLOSED)
            return true;
        if (error != LH_OK) {
            lh_sim_fail(k->cluster->sim, "history", 0, "%s: reading at %" PRIu64 " failed: %s (%s)",
                k->path, next, lh_error_name(error), r->u.call.text);
            return false;
        }
        bool good = compare_batches(k, &r->u.fetch.batches, r->u.fetch.offset);
        if (good && r->u.fetch.offset != next) {
            lh_sim_fail(k->cluster->sim, "history", 0,
                "%s: a reader got %" PRIu64 " after %" PRIu64, k->path, r->u.fetch.offset, next);
            good = false;
        }
        next = r->u.fetch.offset + r->u.fetch.batches.size;
        lh_buf_clear(&r->u.fetch.batches);
        if (!good)
            return false;
    }
}

bool lh_sim_check_file(
    struct lh_sim_cluster *c, size_t client, const char *path, struct lh_duration bound)
{
    struct lh_sim_node *node = lh_sim_client(c, client);
    struct comparison k = {.cluster = c, .path = path};
    size_t expected = find_writers(&k);

    if (lh_sim_failure(c->sim) != NULL)
        return false;
    struct request *open = lh_sim_request(c, LH_CALL_READER_OPEN);
    open->u.reader_open.path = path;
    open->u.reader_open.deadline = deadline(node, bound);
    open->u.reader_open.readahead = 1u << 20;
    int error = lh_sim_carry(c, node, open, bound);
    if (error != LH_OK) {
        lh_sim_fail(c->sim, "history", 0, "%s: opening a reader failed: %s (%s)", path,
            lh_error_name(error), open->u.call.text);
        return false;
    }
    bool good = read_and_compare(&k, node, open->u.reader_open.reader, bound);
    if (good && k.found < expected) {
        lh_sim_fail(c->sim, "history", 0, "%s: %zu of %zu acknowledged batches are not there", path,
            expected - k.found, expected);
        good = false;
    }
    struct request *close = lh_sim_request(c, LH_CALL_READER_CLOSE);
    close->u.reader_close.reader = open->u.reader_open.reader;
    if (lh_sim_failure(c->sim) == NULL)
        (void)lh_sim_carry(c, node, close, bound);
    return good;
}

/* ---- INV-5 ---- */

/* One member's replica as its disk and its core show it. */
struct replica {
    const struct lh_sim_node *node;
    struct lh_replica_status status;
    const uint8_t *log;
    uint64_t log_size;
};

/* False: it is down, or has no replica at the chunk's version. */
static bool look_at(struct lh_sim_cluster *c, const struct lh_sim_chunk *chunk, const char *server,
    struct replica *r)
{
    uint64_t size;

    *r = (struct replica){.node = lh_sim_find(c->sim, server)};
    LH_ASSERT(r->node != NULL);
    const struct lh_chunkserver *cs = lh_sim_chunkserver(r->node);
    if (cs == NULL || !lh_chunkserver_replica(cs, chunk->chunk, &r->status) || r->status.lost ||
        r->status.version != chunk->version)
        return false;
    const uint8_t *bytes = lh_sim_file(r->node, chunk->chunk, &size);
    if (bytes == NULL)
        return false;
    r->log = bytes + (size < LH_LOG_START ? size : LH_LOG_START);
    r->log_size = size < LH_LOG_START ? 0 : size - LH_LOG_START;
    return true;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* NULL: nothing is wrong between the two. */
static const char *differ(const struct replica *a, const struct replica *b, bool settled)
{
    uint64_t below = least(a->status.committed, b->status.committed);

    if (settled) {
        if (a->status.length != b->status.length)
            return "have different lengths";
        if (a->status.sealed != b->status.sealed)
            return "differ about the seal";
        below = a->status.length;
    }
    if (a->log_size < below || b->log_size < below)
        return "are shorter on disk than they say";
    if (below > 0 && memcmp(a->log, b->log, below) != 0)
        return "differ in their bytes";
    return NULL;
}

/* NULL: the chunk's replicas are as they must be. Otherwise what is wrong, and between whom. */
static const char *chunk_differs(struct lh_sim_cluster *c, const struct lh_sim_chunk *chunk,
    bool settled, struct replica *a, struct replica *b)
{
    bool have_first = false;

    for (size_t i = 0; i < chunk->member_count; i++) {
        if (!look_at(c, chunk, chunk->members[i].server, b)) {
            if (settled && !(b->status.lost && c->config.replicas_may_be_lost)) {
                *a = *b;
                return "a member is not there at the newest version";
            }
            continue;
        }
        if (chunk->sealed && settled && b->status.length != chunk->length) {
            *a = *b;
            return "a member has another length than the seal";
        }
        if (!have_first) {
            *a = *b;
            have_first = true;
            continue;
        }
        const char *what = differ(a, b, settled);
        if (what != NULL)
            return what;
    }
    if (settled && !have_first) {
        *a = *b;
        return "no member has a good replica";
    }
    return NULL;
}

bool lh_sim_check_replicas(struct lh_sim_cluster *c, const char *path, bool settled)
{
    size_t count = lh_sim_chunk_count(c, path);

    for (size_t i = 0; i < count; i++) {
        const struct lh_sim_chunk *chunk = lh_sim_chunk_of_file(c, path, i);
        struct replica a = {0}, b = {0};
        const char *what = chunk_differs(c, chunk, settled, &a, &b);
        if (what == NULL)
            continue;
        lh_sim_fail(c->sim, "INV-5", chunk->chunk,
            "chunk %" PRIu64 " of %s: %s: %s (version %" PRIu64 ", length %" PRIu64
            ") and %s (version %" PRIu64 ", length %" PRIu64 ")",
            chunk->chunk, path, what, lh_sim_name(a.node), a.status.version, a.status.length,
            lh_sim_name(b.node), b.status.version, b.status.length);
        return false;
    }
    return true;
}

static bool is_settled(void *arg)
{
    const struct wanted *w = arg;
    size_t count = lh_sim_chunk_count(w->cluster, w->path);

    for (size_t i = 0; i < count; i++) {
        struct replica a, b;
        if (chunk_differs(w->cluster, lh_sim_chunk_of_file(w->cluster, w->path, i), true, &a, &b) !=
            NULL)
            return false;
    }
    return true;
}

bool lh_sim_settle(struct lh_sim_cluster *c, struct lh_sim_writer *writer, struct lh_duration bound)
{
    struct wanted w = {c, writer->path};

    if (!lh_sim_flush(writer, bound) || lh_sim_append(writer, 1, 100, bound) != LH_OK) {
        lh_sim_fail(c->sim, "INV-8", 0, "appends to %s are not answered, or failed", writer->path);
        return false;
    }
    /* Asking this after every event would cost more than the run: once in a while is enough. */
    for (uint64_t waited = 0;
         !is_settled(&w) && waited < bound.ns && lh_sim_failure(c->sim) == NULL;
         waited += UINT64_C(100000000))
        lh_sim_run_for(c->sim, lh_milliseconds(100));
    return lh_sim_check_replicas(c, writer->path, true) &&
           lh_sim_check_file(c, 1, writer->path, bound);
}
