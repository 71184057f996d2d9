/* The library: appenders. Records are packed into batches here, by the threads of the program; the
 * core gets whole batches.
 *
 * When a batch goes. With nothing under way, at once: one record waits for nobody. With something
 * under way, records gather; they go when nothing is under way any more, or when PIPELINE_BYTES
 * have gathered, so that a busy pipe is filled by large batches and needs no timer. With a whole
 * window under way, the batch grows to its limit.
 *
 * Locks. The appender's mutex covers everything in it and is never held while the core is called:
 * completions take it, and a thread that feeds the core may be the one that runs them. So two
 * batches may reach the core in the wrong order; it sorts them by sequence number. */
#include "client/library/appending.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES_DEFAULT  (1u << 20)
#define BATCH_BYTES_MIN      (4u << 10)
#define MEMORY_BYTES_DEFAULT (32u << 20)
#define GIVE_UP_MS_DEFAULT   600000u

/* So much fills the pipe to the servers: waiting for more only adds to the latency. */
#define PIPELINE_BYTES (256u << 10)

static int failure(struct lh_appender *a)
{
    if (a->error != LH_OK)
        return lh_fail(a->error, "%s", a->text);
    return lh_fail(LH_ERR_CLOSED, "the appender is being closed");
}

/* How many bytes the appender may hold now: what it was given, or its share while all appenders of
 * the cluster together hold as much as they may. Who holds more than its share hears of an answer
 * sooner or later and looks again, so nobody has to be woken by another appender's answers. */
static uint64_t room_now(const struct lh_appender *a)
{
    struct lh_cluster *c = a->cluster;

    if (atomic_load_explicit(&c->memory, memory_order_relaxed) < c->memory_max)
        return a->memory_max;
    uint64_t share = c->memory_max / atomic_load_explicit(&c->appenders, memory_order_relaxed);
    return share < a->memory_max ? share : a->memory_max;
}

/* With the mutex; may leave it to wait. */
static int wait_for_room(struct lh_appender *a, uint32_t bytes, uint64_t timeout_ms,
    struct timespec *begun, struct lh_ready *ready)
{
    bool in_time = timeout_ms > 0 && !lh_in_callback();

    for (;;) {
        a->room = room_now(a);
        if (a->error != LH_OK || a->closing || a->memory == 0 || a->memory + bytes <= a->room)
            break;
        if (!in_time)
            return lh_fail(LH_ERR_WOULD_BLOCK,
                "the appender holds %" PRIu64 " bytes that are not acknowledged yet", a->memory);
        if (lh_appender_should_go(a))
            lh_appender_detach_open(a, ready); /* a share may be less than a batch */
        if (ready->first != NULL) {
            pthread_mutex_unlock(&a->mutex);
            lh_ready_submit(ready);
            pthread_mutex_lock(&a->mutex);
            continue;
        }
        a->room_waiters++;
        in_time = lh_cond_wait(&a->room_given, &a->mutex, timeout_ms, begun);
        a->room_waiters--;
    }
    return a->error != LH_OK || a->closing ? failure(a) : LH_OK;
}

_Static_assert(
    LH_RECORD_BYTES_MAX == LH_BATCH_BYTES_LIMIT / 2 - LH_BATCH_FRAME_BYTES - LH_RECORD_HEADER_BYTES,
    "leasehold.h and batch/batch.h differ");

uint64_t lh_chunk_size_for(uint64_t record_bytes)
{
    uint64_t size = LH_CHUNK_BYTES_MIN;

    while (size < LH_CHUNK_BYTES_MAX && lh_record_bytes_max(size) < record_bytes)
        size *= 2;
    return lh_record_bytes_max(size) < record_bytes ? 0 : size;
}

static int too_large(const struct lh_appender *a, size_t size)
{
    uint64_t chunk_size = lh_chunk_size_for(size);

    if (chunk_size == 0)
        return lh_fail(LH_ERR_TOO_LARGE,
            "a record of %zu bytes: this file takes up to %u, and none takes more than %u", size,
            a->record_max, LH_RECORD_BYTES_MAX);
    return lh_fail(LH_ERR_TOO_LARGE,
        "a record of %zu bytes: this file takes up to %u; one with chunks of %" PRIu64
        " bytes takes it",
        size, a->record_max, chunk_size);
}

/* Takes one record; with the mutex. */
static int take_record(struct lh_appender *a, const void *record, size_t size,
    lh_append_callback callback, void *arg, uint64_t timeout_ms, struct timespec *begun,
    struct lh_ready *ready)
{
    if (size > a->record_max)
        return too_large(a, size);
    uint32_t n = (uint32_t)size;
    uint32_t bytes = LH_RECORD_HEADER_BYTES + n;
    if (a->error != LH_OK || a->closing)
        return failure(a);
    if (a->memory + bytes + LH_BATCH_FRAME_BYTES > a->room) {
        int error = wait_for_room(a, bytes + LH_BATCH_FRAME_BYTES, timeout_ms, begun, ready);
        if (error != LH_OK)
            return error;
    }
    if (a->open != NULL && !lh_pending_add(a->open, record, n, a->batch_max))
        lh_appender_detach_open(a, ready);
    else if (a->open != NULL)
        goto added;
    a->open = lh_pending_new(a, n);
    a->room = room_now(a);
    bool fits = lh_pending_add(a->open, record, n, a->batch_max);
    LH_ASSERT(fits);
    a->open->charged = LH_BATCH_FRAME_BYTES;
    a->memory += LH_BATCH_FRAME_BYTES;
added:
    a->open->charged += bytes;
    a->memory += bytes;
    a->stats.records_taken++;
    lh_pending_add_run(a->open, callback, arg);
    return LH_OK;
}

static int bad_record(const void *record, size_t size)
{
    return record == NULL && size > 0
               ? lh_fail(LH_ERR_INVALID_ARGUMENT, "record is NULL but its size is %zu", size)
               : LH_OK;
}

int lh_append_many(struct lh_appender *a, const struct lh_record_ref *records, size_t count,
    lh_append_callback callback, void *arg, uint64_t timeout_ms, size_t *taken)
{
    struct lh_ready ready;
    struct timespec begun = {0};
    int error = LH_OK;

    *taken = 0;
    if (lh_process_check(a->cluster) != LH_OK)
        return LH_ERR_CLOSED;
    lh_ready_init(&ready);
    pthread_mutex_lock(&a->mutex);
    for (; *taken < count; ++*taken) {
        const struct lh_record_ref *r = &records[*taken];
        error = bad_record(r->data, r->size);
        if (error == LH_OK)
            error = take_record(a, r->data, r->size, callback, arg, timeout_ms, &begun, &ready);
        if (error != LH_OK)
            break;
        if (a->open->builder.size >= a->pipeline_bytes && lh_appender_should_go(a))
            lh_appender_detach_open(a, &ready);
    }
    if (lh_appender_should_go(a))
        lh_appender_detach_open(a, &ready);
    pthread_mutex_unlock(&a->mutex);
    lh_ready_submit(&ready);
    return error;
}

int lh_append_async(struct lh_appender *a, const void *record, size_t size,
    lh_append_callback callback, void *arg, uint64_t timeout_ms)
{
    struct lh_record_ref r = {.data = record, .size = size};
    size_t taken;

    return lh_append_many(a, &r, 1, callback, arg, timeout_ms, &taken);
}

int lh_append(struct lh_appender *a, const void *record, size_t size, uint64_t timeout_ms,
    struct lh_position *position)
{
    struct lh_ready ready;
    struct timespec begun = {0};
    int error = lh_process_check(a->cluster);

    if (error == LH_OK)
        error = bad_record(record, size);
    if (error != LH_OK)
        return error;
    lh_ready_init(&ready);
    pthread_mutex_lock(&a->mutex);
    error = take_record(a, record, size, NULL, NULL, timeout_ms, &begun, &ready);
    if (error != LH_OK) {
        pthread_mutex_unlock(&a->mutex);
        lh_ready_submit(&ready);
        return error;
    }
    struct lh_pending *b = a->open;
    uint32_t index = b->builder.count - 1;
    b->references++;
    b->waiters++;
    if (lh_appender_should_go(a))
        lh_appender_detach_open(a, &ready);
    if (ready.first != NULL) {
        pthread_mutex_unlock(&a->mutex);
        lh_ready_submit(&ready);
        pthread_mutex_lock(&a->mutex);
    }
    bool in_time = true;
    while (!b->done && in_time)
        in_time = lh_cond_wait(&b->done_cond, &a->mutex, timeout_ms, &begun);
    if (!b->done)
        error = lh_fail(LH_ERR_DEADLINE_EXCEEDED,
            "not acknowledged within %" PRIu64 " ms; the appender goes on trying", timeout_ms);
    else if (b->error != LH_OK)
        error = lh_fail(b->error, "%s", b->submit.call.text);
    else if (position != NULL)
        *position = (struct lh_position){.offset = b->submit.offset, .index = index};
    b->waiters--;
    lh_pending_unref(b);
    pthread_mutex_unlock(&a->mutex);
    return error;
}

/* ---- Flush, open, close ---- */

int lh_flush(struct lh_appender *a, uint64_t timeout_ms)
{
    struct lh_ready ready;
    struct timespec begun = {0};
    bool in_time = true;
    int error = lh_process_check(a->cluster);

    if (error != LH_OK)
        return error;
    if (lh_in_callback())
        return lh_fail(LH_ERR_WOULD_BLOCK, "a flush within a callback would wait for itself");
    lh_ready_init(&ready);
    pthread_mutex_lock(&a->mutex);
    if (a->open != NULL)
        lh_appender_detach_open(a, &ready);
    uint64_t end = a->next_sequence;
    if (ready.first != NULL) {
        pthread_mutex_unlock(&a->mutex);
        lh_ready_submit(&ready);
        pthread_mutex_lock(&a->mutex);
    }
    while (a->first != NULL && a->first->submit.sequence < end && in_time)
        in_time = lh_cond_wait(&a->retired, &a->mutex, timeout_ms, &begun);
    if (a->error != LH_OK)
        error = failure(a);
    else if (a->first != NULL && a->first->submit.sequence < end)
        error = lh_fail(LH_ERR_DEADLINE_EXCEEDED,
            "%" PRIu64 " records are not acknowledged within %" PRIu64
            " ms; the appender goes on trying",
            a->stats.records_taken - a->stats.records_stored, timeout_ms);
    pthread_mutex_unlock(&a->mutex);
    return error;
}

uint32_t lh_appender_record_max(const struct lh_appender *a)
{
    return a->record_max;
}

void lh_appender_stats(struct lh_appender *a, struct lh_appender_stats *stats)
{
    *stats = (struct lh_appender_stats){0};
    if (lh_is_inherited(a->cluster))
        return;
    pthread_mutex_lock(&a->mutex);
    *stats = a->stats;
    pthread_mutex_unlock(&a->mutex);
}

static struct lh_appender *create_appender(struct lh_cluster *cluster,
    const struct lh_appender_open_call *call, const struct lh_appender_options *o)
{
    struct lh_appender *a = lh_alloc(sizeof *a);
    uint32_t most = lh_batch_bytes_max(call->chunk_size);

    a->cluster = cluster;
    a->core = call->appender;
    a->writer = call->writer;
    a->next_sequence = 1;
    a->record_max = lh_record_bytes_max(call->chunk_size);
    a->batch_max = o->batch_bytes_max < most ? o->batch_bytes_max : most;
    a->pipeline_bytes = a->batch_max < PIPELINE_BYTES ? a->batch_max : PIPELINE_BYTES;
    a->memory_max = o->memory_bytes_max;
    if (a->memory_max < 2 * (uint64_t)a->batch_max)
        a->memory_max = 2 * (uint64_t)a->batch_max;
    a->room = a->memory_max;
    cluster->appenders++;
    pthread_mutex_init(&a->mutex, NULL);
    lh_cond_init(&a->room_given);
    lh_cond_init(&a->retired);
    return a;
}

int lh_appender_open(struct lh_cluster *cluster, const char *path,
    const struct lh_appender_options *options, uint64_t timeout_ms, struct lh_appender **appender)
{
    struct lh_appender_options o = options == NULL ? (struct lh_appender_options){0} : *options;

    if (cluster == NULL || path == NULL || appender == NULL)
        return lh_fail(LH_ERR_INVALID_ARGUMENT, "cluster, path or appender is NULL");
    if (o.batch_bytes_max == 0)
        o.batch_bytes_max = BATCH_BYTES_DEFAULT;
    if (o.batch_bytes_max < BATCH_BYTES_MIN)
        return lh_fail(LH_ERR_INVALID_ARGUMENT, "batch_bytes_max is %u, less than %u",
            o.batch_bytes_max, BATCH_BYTES_MIN);
    if (o.memory_bytes_max == 0)
        o.memory_bytes_max = MEMORY_BYTES_DEFAULT;
    if (o.give_up_ms == 0)
        o.give_up_ms = GIVE_UP_MS_DEFAULT;
    if ((o.lock_name == NULL) != (o.token == 0))
        return lh_fail(
            LH_ERR_INVALID_ARGUMENT, "lock_name and token belong together: one of them is not set");
    struct lh_appender_open_call call = {
        .call.kind = LH_CALL_APPENDER_OPEN,
        .path = path,
        .lock_name = o.lock_name,
        .token = o.token,
        .deadline = lh_deadline(timeout_ms),
        .give_up = lh_milliseconds(o.give_up_ms),
    };
    int error = lh_call_wait(cluster, &call.call);
    if (error == LH_OK)
        *appender = create_appender(cluster, &call, &o);
    return error;
}

int lh_appender_close(struct lh_appender *a, uint64_t timeout_ms)
{
    if (a == NULL)
        return LH_OK;
    if (lh_process_check(a->cluster) != LH_OK)
        return LH_ERR_CLOSED;
    LH_ASSERT(!lh_in_callback());
    int error = lh_flush(a, timeout_ms);
    char text[LH_CALL_TEXT_BYTES];
    snprintf(text, sizeof text, "%s", lh_last_error());

    pthread_mutex_lock(&a->mutex);
    a->closing = true;
    pthread_mutex_unlock(&a->mutex);
    struct lh_appender_close_call call = {.call.kind = LH_CALL_APPENDER_CLOSE, .appender = a->core};
    (void)lh_call_wait(a->cluster, &call.call);

    pthread_mutex_lock(&a->mutex);
    while (a->first != NULL)
        pthread_cond_wait(&a->retired, &a->mutex);
    pthread_mutex_unlock(&a->mutex);
    lh_pending_free_spares(a);
    LH_ASSERT(a->open == NULL && a->memory == 0);
    a->cluster->appenders--;
    pthread_cond_destroy(&a->room_given);
    pthread_cond_destroy(&a->retired);
    pthread_mutex_destroy(&a->mutex);
    free(a);
    return error == LH_OK ? LH_OK : lh_fail(error, "%s", text);
}
