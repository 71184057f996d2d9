/* What programs do: they ask the master, append and read through the client's core, and remember
 * what they did, so that what they read can be compared with it. */
#include "sim/cluster/cluster.h"

#include "sim/cluster/internal.h"

#include "batch/batch.h"
#include "proto/codec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct request *lh_sim_request(struct lh_sim_cluster *c, enum lh_call_kind kind)
{
    struct request *r = c->idle_requests;

    if (r != NULL)
        c->idle_requests = r->next;
    else
        r = lh_alloc(sizeof *r);
    *r = (struct request){.next = c->requests};
    r->u.call.kind = kind;
    r->u.call.owner = r;
    c->requests = r;
    if (r->next != NULL)
        r->next->previous = r;
    return r;
}

void lh_sim_request_done(struct lh_sim_cluster *c, struct request *r)
{
    LH_ASSERT(r->done);
    free(r->memory);
    r->memory = NULL;
    if (r->next != NULL)
        r->next->previous = r->previous;
    if (r->previous != NULL)
        r->previous->next = r->next;
    else
        c->requests = r->next;
    r->next = c->idle_requests;
    c->idle_requests = r;
}

static struct request *new_request(struct lh_sim_cluster *c, enum lh_call_kind kind)
{
    return lh_sim_request(c, kind);
}

/* ---- The client as a node ---- */

static bool client_start(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    struct lh_sim_cluster *c = arg;
    struct lh_client_config config = c->config.client;

    (void)node;
    config.masters = c->master_names;
    config.master_count = c->config.masters;
    config.seed = lh_prng_next(lh_sim_random(c->sim));
    *core = lh_client_core(lh_client_create(&config));
    return true;
}

static void client_check(void *arg, void *self)
{
    (void)arg;
    lh_client_check(self);
}

static void client_destroy(void *arg, void *self)
{
    (void)arg;
    lh_client_destroy(self);
}

static void completed(void *arg, struct lh_sim_node *node, void *call, int error)
{
    struct lh_sim_cluster *c = arg;
    struct request *r = ((struct lh_call *)call)->owner;

    (void)node;
    if (r->done)
        lh_sim_fail(c->sim, "check", 0, "a call completed twice");
    r->done = true;
    r->error = error;
    if (r->then != NULL) {
        r->then(r);
        return;
    }
    if (r->u.call.kind != LH_CALL_SUBMIT)
        return;
    r->append.done_ns = lh_sim_now(c->sim);
    r->append.error = error;
    r->append.offset = r->u.submit.offset;
    r->append.writer->pending--;
    if (error != LH_OK)
        lh_sim_note(c->sim, "append failed: %s", r->u.call.text);
}

static void abandoned(void *arg, struct lh_sim_node *node, void *call)
{
    struct request *r = ((struct lh_call *)call)->owner;

    (void)arg;
    (void)node;
    if (r->u.call.kind == LH_CALL_SUBMIT)
        lh_buf_clear(&r->u.submit.batch);
}

const struct lh_sim_role lh_sim_client_role = {.start = client_start,
    .check = client_check,
    .destroy = client_destroy,
    .completed = completed,
    .abandoned = abandoned};

static bool is_done(void *arg)
{
    return ((const struct request *)arg)->done;
}

/* Gives the call to the client's core and waits for it. */
static int carry(
    struct lh_sim_cluster *c, struct lh_sim_node *node, struct request *r, struct lh_duration bound)
{
    if (!lh_sim_is_up(node))
        return LH_ERR_DEADLINE_EXCEEDED;
    lh_sim_call(node, &r->u);
    /* Somewhat longer, so that it is the core's deadline that ends it. */
    if (!lh_sim_run_until(c->sim, is_done, r, lh_duration_add(bound, lh_seconds(1))))
        return LH_ERR_DEADLINE_EXCEEDED;
    return r->error;
}

static struct lh_instant deadline(const struct lh_sim_node *node, struct lh_duration bound)
{
    return lh_instant_add(lh_sim_clock(node), bound);
}

int lh_sim_ask(struct lh_sim_cluster *c, size_t client, enum lh_method method,
    const ProtobufCMessage *request, struct lh_duration bound, ProtobufCMessage **reply)
{
    struct lh_sim_node *node = lh_sim_client(c, client);
    struct request *r = new_request(c, LH_CALL_MASTER);

    r->u.master.method = method;
    r->u.master.request = request;
    r->u.master.patience = bound;
    r->u.master.deadline = deadline(node, bound);
    int error = carry(c, node, r, bound);
    /* A core that keeps it beyond its deadline would read memory that is gone. */
    LH_ASSERT(r->done || !lh_sim_is_up(node) || lh_sim_failure(c->sim) != NULL);
    if (reply != NULL)
        *reply = r->done ? r->u.master.reply : NULL;
    else if (r->done)
        lh_wire_free(r->u.master.reply);
    if (r->done)
        r->u.master.reply = NULL;
    return error;
}

static void answered_aside(struct request *r)
{
    lh_wire_free(r->u.master.reply);
    r->u.master.reply = NULL; /* the request stays the cluster's, which frees what it points to */
}

void lh_sim_ask_aside(struct lh_sim_cluster *c, size_t client, enum lh_method method,
    ProtobufCMessage *request, struct lh_duration patience)
{
    struct lh_sim_node *node = lh_sim_client(c, client);
    struct request *r = new_request(c, LH_CALL_MASTER);

    r->memory = request;
    r->then = answered_aside;
    r->u.master.method = method;
    r->u.master.request = request;
    r->u.master.patience = patience;
    r->u.master.deadline = deadline(node, patience);
    lh_sim_call(node, &r->u);
    uint64_t over = lh_sim_now(c->sim) + lh_duration_add(patience, lh_seconds(1)).ns;
    if (over > c->asides_over)
        c->asides_over = over;
}

/* ---- Records ---- */

void lh_sim_fill_record(uint8_t *to, uint32_t size, uint64_t writer, uint64_t sequence)
{
    struct lh_prng bytes = {lh_mix64(writer) ^ sequence};

    for (uint32_t at = 0; at < size; at += 8) {
        uint64_t word = lh_prng_next(&bytes);
        memcpy(to + at, &word, size - at < 8 ? size - at : 8);
    }
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
    struct request *r = new_request(c, LH_CALL_APPENDER_OPEN);
    struct lh_sim_writer *w = lh_alloc(sizeof *w);

    w->cluster = c;
    w->node = node;
    w->life = lh_sim_incarnation(node);
    w->path = lh_strdup(path);
    w->next_sequence = 1;
    w->next = c->writers;
    c->writers = w;
    r->u.open.path = w->path;
    r->u.open.deadline = deadline(node, bound);
    r->u.open.give_up = LH_DURATION_FOREVER;
    if (carry(c, node, r, bound) != LH_OK)
        return NULL;
    w->appender = r->u.open.appender;
    w->id = r->u.open.writer;
    return w;
}

struct lh_sim_append *lh_sim_append_begin(struct lh_sim_writer *w, uint32_t count, uint32_t bytes)
{
    struct lh_sim_cluster *c = w->cluster;
    struct request *r = new_request(c, LH_CALL_SUBMIT);

    LH_ASSERT(w->appender != NULL && lh_sim_is_up(w->node));
    LH_ASSERT(w->life == lh_sim_incarnation(w->node)); /* its appender went with its process */
    r->append = (struct lh_sim_append){.writer = w,
        .sequence = w->next_sequence,
        .count = count,
        .bytes = bytes,
        .sent_ns = lh_sim_now(c->sim),
        .done_ns = UINT64_MAX};
    r->u.submit.appender = w->appender;
    r->u.submit.sequence = w->next_sequence;
    r->u.submit.count = count;
    r->u.submit.batch = make_batch(w, &r->append);
    w->next_sequence += count;
    LH_GROW(w->appends, w->capacity, w->count + 1);
    w->appends[w->count++] = &r->append;
    w->pending++;
    lh_sim_call(w->node, &r->u);
    return &r->append;
}

static bool append_done(void *arg)
{
    return ((const struct lh_sim_append *)arg)->done_ns != UINT64_MAX;
}

int lh_sim_append(struct lh_sim_writer *w, uint32_t count, uint32_t bytes, struct lh_duration bound)
{
    struct lh_sim_append *a = lh_sim_append_begin(w, count, bytes);

    return lh_sim_run_until(w->cluster->sim, append_done, a, bound) ? a->error
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
    for (size_t i = 0; i < w->count; i++)
        if (w->appends[i]->error != LH_OK)
            return false;
    return true;
}

size_t lh_sim_acknowledged(const struct lh_sim_cluster *c)
{
    size_t n = 0;

    for (const struct lh_sim_writer *w = c->writers; w != NULL; w = w->next)
        for (size_t i = 0; i < w->count; i++)
            n += w->appends[i]->done_ns != UINT64_MAX && w->appends[i]->error == LH_OK;
    return n;
}

/* ---- Reading back ---- */

/* A check of one file under way. */
struct comparison {
    struct lh_sim_cluster *cluster;
    const char *path;
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
static struct lh_sim_append *sent_batch(struct comparison *k, const struct lh_batch_header *h,
    struct lh_sim_writer **writer, size_t *index)
{
    for (struct lh_sim_writer *w = k->cluster->writers; w != NULL; w = w->next) {
        if (w->id != h->writer || strcmp(w->path, k->path) != 0)
            continue;
        for (size_t i = 0; i < w->count; i++) {
            if (w->appends[i]->sequence == h->sequence && w->appends[i]->count == h->count) {
                *writer = w;
                *index = i;
                return w->appends[i];
            }
        }
    }
    return NULL;
}

/* One batch as it was read. `seen[writer's number]` is the index of that writer's last batch, plus
 * one. */
static bool compare_batch(struct comparison *k, const struct lh_buf *bytes, size_t at,
    uint64_t offset, const struct lh_batch_header *h, size_t *seen)
{
    struct lh_sim_writer *w;
    size_t index;
    const struct lh_sim_append *a = sent_batch(k, h, &w, &index);

    if (a == NULL)
        return wrong(k, offset, h, "was never sent");
    struct lh_buf expected = make_batch(w, a);
    uint8_t *have = lh_alloc(h->size);
    bool same = expected.size == h->size && lh_buf_read(bytes, at, have, h->size) &&
                memcmp(have, lh_buf_slices(&expected)[0].data, h->size - LH_BATCH_CHAIN_BYTES) == 0;
    free(have);
    lh_buf_clear(&expected);
    if (!same)
        return wrong(k, offset, h, "has other bytes than were sent");

    size_t number = 0;
    for (const struct lh_sim_writer *o = k->cluster->writers; o != w; o = o->next)
        number++;
    if (index < seen[number])
        return wrong(k, offset, h, "is there twice, or out of its writer's order");
    if (index > seen[number])
        return wrong(k, offset, h, "comes after a gap in its writer's sequence");
    seen[number] = index + 1;

    bool acknowledged = a->done_ns != UINT64_MAX && a->error == LH_OK;
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

static bool compare_batches(
    struct comparison *k, const struct lh_buf *bytes, uint64_t offset, size_t *seen)
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
        if (!compare_batch(k, bytes, at, offset + at, &h, seen))
            return false;
        at += h.size;
    }
    return true;
}

static size_t acknowledged_in(const struct lh_sim_cluster *c, const char *path, size_t *writers)
{
    size_t n = 0;

    *writers = 0;
    for (const struct lh_sim_writer *w = c->writers; w != NULL; w = w->next) {
        ++*writers;
        for (size_t i = 0; i < w->count && strcmp(w->path, path) == 0; i++)
            n += w->appends[i]->done_ns != UINT64_MAX && w->appends[i]->error == LH_OK;
    }
    return n;
}

static bool read_and_compare(struct comparison *k, struct lh_sim_node *node,
    struct lh_client_reader *reader, size_t *seen, struct lh_duration bound)
{
    uint64_t next = 0;

    for (;;) {
        struct request *r = new_request(k->cluster, LH_CALL_FETCH);
        r->u.fetch.reader = reader;
        r->u.fetch.deadline = deadline(node, bound);
        int error = carry(k->cluster, node, r, bound);
        if (error == LH_ERR_CLOSED)
            return true;
        if (error != LH_OK) {
            lh_sim_fail(k->cluster->sim, "history", 0, "%s: reading at %" PRIu64 " failed: %s (%s)",
                k->path, next, lh_error_name(error), r->u.call.text);
            return false;
        }
        bool good = compare_batches(k, &r->u.fetch.batches, r->u.fetch.offset, seen);
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
    size_t writers;
    size_t expected = acknowledged_in(c, path, &writers);

    if (lh_sim_failure(c->sim) != NULL)
        return false;
    struct request *open = new_request(c, LH_CALL_READER_OPEN);
    open->u.reader_open.path = path;
    open->u.reader_open.deadline = deadline(node, bound);
    open->u.reader_open.readahead = 1u << 20;
    int error = carry(c, node, open, bound);
    if (error != LH_OK) {
        lh_sim_fail(c->sim, "history", 0, "%s: opening a reader failed: %s (%s)", path,
            lh_error_name(error), open->u.call.text);
        return false;
    }
    size_t *seen = lh_alloc_array(writers, sizeof *seen);
    bool good = read_and_compare(&k, node, open->u.reader_open.reader, seen, bound);
    free(seen);
    if (good && k.found < expected) {
        lh_sim_fail(c->sim, "history", 0, "%s: %zu of %zu acknowledged batches are not there", path,
            expected - k.found, expected);
        good = false;
    }
    struct request *close = new_request(c, LH_CALL_READER_CLOSE);
    close->u.reader_close.reader = open->u.reader_open.reader;
    if (lh_sim_failure(c->sim) == NULL)
        (void)carry(c, node, close, bound);
    return good;
}

static void free_requests(struct request *r)
{
    while (r != NULL) {
        struct request *next = r->next;
        free(r->memory);
        free(r);
        r = next;
    }
}

void lh_sim_workload_deinit(struct lh_sim_cluster *c)
{
    while (c->writers != NULL) {
        struct lh_sim_writer *next = c->writers->next;
        free(c->writers->path);
        free(c->writers->appends);
        free(c->writers);
        c->writers = next;
    }
    free_requests(c->requests);
    free_requests(c->idle_requests);
}
