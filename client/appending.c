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
#include "client/library.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES_DEFAULT  (1u << 20)
#define BATCH_BYTES_MIN      (4u << 10)
#define MEMORY_BYTES_DEFAULT (32u << 20)
#define GIVE_UP_MS_DEFAULT   600000u
#define PIPELINE_BYTES       (256u << 10)
#define FIRST_CAPACITY       (16u << 10)
#define SPARE_BATCHES        32u

/* Consecutive records of a batch with one callback and argument. */
struct run {
    lh_append_callback callback; /* NULL: nobody is told */
    void *arg;
    uint32_t count;
};

struct batch {
    struct lh_submit_call submit;
    struct lh_errand errand; /* telling the callbacks */
    struct lh_appender *appender;
    struct lh_batch_builder builder;
    struct run *runs;
    size_t run_count, run_capacity;
    bool has_callbacks;
    unsigned references; /* the appender's while not retired, and one per thread waiting for it */
    unsigned waiters;
    pthread_cond_t done_cond;
    bool done;
    int error;
    size_t charged;                /* bytes, of the memory limit */
    struct batch *previous, *next; /* among the unretired, by sequence; `next` also among spares */
    struct batch *next_ready;
};

struct lh_appender {
    struct lh_cluster *cluster;
    struct lh_client_appender *core;
    uint64_t writer;
    uint32_t record_max, batch_max, pipeline_bytes;
    uint64_t memory_max;

    pthread_mutex_t mutex;
    pthread_cond_t room;    /* memory was given back, or the appender failed */
    pthread_cond_t retired; /* the first of the unretired has changed */
    unsigned room_waiters;
    struct batch *open;         /* being filled; NULL: none */
    struct batch *first, *last; /* unretired: not completed, or callbacks not told yet */
    struct batch *spare;
    unsigned spare_count;
    unsigned under_way; /* submitted, not completed */
    uint64_t next_sequence;
    uint32_t last_size; /* of the last batch, to guess the next one's */
    uint64_t memory;    /* charged bytes of all batches */
    int error;          /* why it has failed, or LH_OK */
    char text[LH_CALL_TEXT_BYTES];
    bool closing;
    struct lh_appender_stats stats;
};

/* ---- Batches ---- */

static void tell_callbacks(struct lh_errand *errand);

/* An empty batch with room for at least one record of that size, even one above the batches' limit.
 */
static struct batch *new_batch(struct lh_appender *a, uint32_t record_size)
{
    struct batch *b = a->spare;
    uint32_t needed = LH_BATCH_HEADER_BYTES + LH_RECORD_HEADER_BYTES + record_size;
    uint32_t capacity = FIRST_CAPACITY;

    if (b != NULL) {
        a->spare = b->next;
        a->spare_count--;
    } else {
        b = lh_alloc(sizeof *b);
        b->appender = a;
        b->errand.run = tell_callbacks;
        lh_cond_init(&b->done_cond);
    }
    while (capacity < a->last_size)
        capacity *= 2;
    if (capacity > a->batch_max)
        capacity = a->batch_max;
    lh_batch_builder_init(&b->builder, capacity < needed ? needed : capacity);
    b->run_count = 0;
    b->has_callbacks = b->done = false;
    b->references = 1;
    b->waiters = 0;
    b->error = LH_OK;
    b->charged = 0;
    b->previous = b->next = b->next_ready = NULL;
    return b;
}

static void free_batch(struct batch *b)
{
    lh_batch_builder_deinit(&b->builder);
    pthread_cond_destroy(&b->done_cond);
    free(b->runs);
    free(b);
}

static void unref_batch(struct batch *b)
{
    struct lh_appender *a = b->appender;

    if (--b->references > 0)
        return;
    if (a->spare_count == SPARE_BATCHES) {
        free_batch(b);
        return;
    }
    b->next = a->spare;
    a->spare = b;
    a->spare_count++;
}

/* The same records in a larger block. */
static void grow_builder(struct lh_batch_builder *b, uint32_t capacity)
{
    struct lh_batch_builder larger;

    lh_batch_builder_init(&larger, capacity);
    memcpy(larger.bytes, b->bytes, b->size);
    larger.size = b->size;
    larger.count = b->count;
    lh_batch_builder_deinit(b);
    *b = larger;
}

static bool add_record(struct batch *b, const void *record, uint32_t size, uint32_t batch_max)
{
    while (!lh_batch_builder_add(&b->builder, record, size)) {
        uint32_t capacity = b->builder.capacity;
        if (capacity >= batch_max)
            return false;
        grow_builder(&b->builder, capacity < batch_max / 4 ? capacity * 4 : batch_max);
    }
    return true;
}

static void add_run(struct batch *b, lh_append_callback callback, void *arg)
{
    struct run *last = b->run_count == 0 ? NULL : &b->runs[b->run_count - 1];

    if (last != NULL && last->callback == callback && last->arg == arg) {
        last->count++;
        return;
    }
    LH_GROW(b->runs, b->run_capacity, b->run_count + 1);
    b->runs[b->run_count++] = (struct run){.callback = callback, .arg = arg, .count = 1};
    b->has_callbacks = b->has_callbacks || callback != NULL;
}

/* ---- From open to submitted ---- */

/* Batches that a thread has detached and will submit once it has left the mutex. */
struct ready {
    struct batch *first, **end;
};

static void ready_init(struct ready *ready)
{
    ready->first = NULL;
    ready->end = &ready->first;
}

static void detach_open(struct lh_appender *a, struct ready *ready)
{
    struct batch *b = a->open;

    a->open = NULL;
    a->under_way++;
    a->last_size = b->builder.size;
    b->submit.sequence = a->next_sequence;
    b->submit.count = b->builder.count;
    a->next_sequence += b->submit.count;
    b->previous = a->last;
    if (a->last == NULL)
        a->first = b;
    else
        a->last->next = b;
    a->last = b;
    *ready->end = b;
    ready->end = &b->next_ready;
}

static bool should_go(const struct lh_appender *a)
{
    if (a->open == NULL)
        return false;
    return a->under_way == 0 ||
           (a->under_way < LH_WRITER_WINDOW && a->open->builder.size >= a->pipeline_bytes);
}

/* Without the mutex. */
static void submit(struct ready *ready)
{
    for (struct batch *b = ready->first, *next; b != NULL; b = next) {
        next = b->next_ready;
        struct lh_appender *a = b->appender;
        struct lh_cluster *cluster = a->cluster;
        b->submit.call.kind = LH_CALL_SUBMIT;
        b->submit.appender = a->core;
        b->submit.batch = lh_batch_builder_finish(&b->builder, a->writer, b->submit.sequence);
        if (!lh_loop_call(cluster->loop, &b->submit.call)) {
            snprintf(
                b->submit.call.text, sizeof b->submit.call.text, "the cluster is being closed");
            lh_buf_clear(&b->submit.batch);
            lh_submit_completed(&b->submit, LH_ERR_CLOSED);
        }
    }
    ready_init(ready);
}

/* ---- Completion ---- */

static void retire(struct batch *b)
{
    struct lh_appender *a = b->appender;
    bool was_first = a->first == b;

    if (b->previous == NULL)
        a->first = b->next;
    else
        b->previous->next = b->next;
    if (b->next == NULL)
        a->last = b->previous;
    else
        b->next->previous = b->previous;
    a->memory -= b->charged;
    if (a->room_waiters > 0)
        pthread_cond_broadcast(&a->room);
    if (was_first)
        pthread_cond_broadcast(&a->retired);
    unref_batch(b);
}

/* In the callback thread. */
static void tell_callbacks(struct lh_errand *errand)
{
    struct batch *b = (struct batch *)((char *)errand - offsetof(struct batch, errand));
    struct lh_appender *a = b->appender;
    struct lh_position at = {.offset = b->submit.offset, .index = 0};

    if (b->error != LH_OK)
        lh_fail(b->error, "%s", b->submit.call.text);
    for (size_t i = 0; i < b->run_count; i++) {
        const struct run *run = &b->runs[i];
        if (run->callback != NULL)
            run->callback(run->arg, b->error, at, run->count);
        at.index += run->count;
    }
    pthread_mutex_lock(&a->mutex);
    retire(b);
    pthread_mutex_unlock(&a->mutex);
}

static void note_stored(struct lh_appender *a, const struct batch *b)
{
    a->stats.records_stored += b->submit.count;
    a->stats.batches_stored++;
    a->stats.bytes_stored +=
        b->charged - LH_BATCH_HEADER_BYTES - (uint64_t)b->submit.count * LH_RECORD_HEADER_BYTES;
    a->stats.last = (struct lh_position){.offset = b->submit.offset, .index = b->submit.count - 1};
}

void lh_submit_completed(struct lh_submit_call *call, int error)
{
    struct batch *b = (struct batch *)((char *)call - offsetof(struct batch, submit));
    struct lh_appender *a = b->appender;
    struct ready ready;

    ready_init(&ready);
    pthread_mutex_lock(&a->mutex);
    a->under_way--;
    b->done = true;
    b->error = error;
    if (error == LH_OK) {
        note_stored(a, b);
    } else if (a->error == LH_OK) {
        a->error = error;
        memcpy(a->text, call->call.text, sizeof a->text);
        pthread_cond_broadcast(&a->room);
    }
    if (should_go(a))
        detach_open(a, &ready);
    if (b->waiters > 0) {
        /* Woken with the mutex free, or they would only fall asleep on it again. The batch is not
         * retired yet, so it and the appender stay. */
        pthread_mutex_unlock(&a->mutex);
        pthread_cond_broadcast(&b->done_cond);
        pthread_mutex_lock(&a->mutex);
    }
    if (b->has_callbacks)
        lh_cluster_errand(a->cluster, &b->errand);
    else
        retire(b);
    pthread_mutex_unlock(&a->mutex);
    submit(&ready);
}

/* ---- Appending ---- */

static int failure(struct lh_appender *a)
{
    if (a->error != LH_OK)
        return lh_fail(a->error, "%s", a->text);
    return lh_fail(LH_ERR_CLOSED, "the appender is being closed");
}

/* With the mutex; may leave it to wait. */
static int wait_for_room(struct lh_appender *a, uint32_t bytes, uint64_t timeout_ms,
    struct timespec *begun, struct ready *ready)
{
    bool in_time = timeout_ms > 0 && !lh_in_callback();

    while (a->error == LH_OK && !a->closing && a->memory > 0 && a->memory + bytes > a->memory_max) {
        if (!in_time)
            return lh_fail(LH_ERR_WOULD_BLOCK,
                "the appender holds %llu bytes that are not acknowledged yet",
                (unsigned long long)a->memory);
        if (ready->first != NULL) {
            pthread_mutex_unlock(&a->mutex);
            submit(ready);
            pthread_mutex_lock(&a->mutex);
            continue;
        }
        a->room_waiters++;
        in_time = lh_cond_wait(&a->room, &a->mutex, timeout_ms, begun);
        a->room_waiters--;
    }
    return a->error != LH_OK || a->closing ? failure(a) : LH_OK;
}

_Static_assert(LH_RECORD_BYTES_MAX ==
                   LH_BATCH_BYTES_LIMIT / 2 - LH_BATCH_HEADER_BYTES - LH_RECORD_HEADER_BYTES,
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
        "a record of %zu bytes: this file takes up to %u; one with chunks of %llu bytes takes it",
        size, a->record_max, (unsigned long long)chunk_size);
}

/* Takes one record; with the mutex. */
static int take_record(struct lh_appender *a, const void *record, size_t size,
    lh_append_callback callback, void *arg, uint64_t timeout_ms, struct timespec *begun,
    struct ready *ready)
{
    if (size > a->record_max)
        return too_large(a, size);
    uint32_t n = (uint32_t)size;
    uint32_t bytes = LH_RECORD_HEADER_BYTES + n;
    if (a->error != LH_OK || a->closing)
        return failure(a);
    if (a->memory + bytes + LH_BATCH_HEADER_BYTES > a->memory_max) {
        int error = wait_for_room(a, bytes + LH_BATCH_HEADER_BYTES, timeout_ms, begun, ready);
        if (error != LH_OK)
            return error;
    }
    if (a->open != NULL && !add_record(a->open, record, n, a->batch_max))
        detach_open(a, ready);
    else if (a->open != NULL)
        goto added;
    a->open = new_batch(a, n);
    bool fits = add_record(a->open, record, n, a->batch_max);
    LH_ASSERT(fits);
    a->open->charged = LH_BATCH_HEADER_BYTES;
    a->memory += LH_BATCH_HEADER_BYTES;
added:
    a->open->charged += bytes;
    a->memory += bytes;
    a->stats.records_taken++;
    add_run(a->open, callback, arg);
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
    struct ready ready;
    struct timespec begun = {0};
    int error = LH_OK;

    *taken = 0;
    ready_init(&ready);
    pthread_mutex_lock(&a->mutex);
    for (; *taken < count; ++*taken) {
        const struct lh_record_ref *r = &records[*taken];
        error = bad_record(r->data, r->size);
        if (error == LH_OK)
            error = take_record(a, r->data, r->size, callback, arg, timeout_ms, &begun, &ready);
        if (error != LH_OK)
            break;
        if (a->open->builder.size >= a->pipeline_bytes && should_go(a))
            detach_open(a, &ready);
    }
    if (should_go(a))
        detach_open(a, &ready);
    pthread_mutex_unlock(&a->mutex);
    submit(&ready);
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
    struct ready ready;
    struct timespec begun = {0};
    int error = bad_record(record, size);

    if (error != LH_OK)
        return error;
    ready_init(&ready);
    pthread_mutex_lock(&a->mutex);
    error = take_record(a, record, size, NULL, NULL, timeout_ms, &begun, &ready);
    if (error != LH_OK) {
        pthread_mutex_unlock(&a->mutex);
        submit(&ready);
        return error;
    }
    struct batch *b = a->open;
    uint32_t index = b->builder.count - 1;
    b->references++;
    b->waiters++;
    if (should_go(a))
        detach_open(a, &ready);
    if (ready.first != NULL) {
        pthread_mutex_unlock(&a->mutex);
        submit(&ready);
        pthread_mutex_lock(&a->mutex);
    }
    bool in_time = true;
    while (!b->done && in_time)
        in_time = lh_cond_wait(&b->done_cond, &a->mutex, timeout_ms, &begun);
    if (!b->done)
        error = lh_fail(LH_ERR_DEADLINE_EXCEEDED,
            "not acknowledged within %llu ms; the appender goes on trying",
            (unsigned long long)timeout_ms);
    else if (b->error != LH_OK)
        error = lh_fail(b->error, "%s", b->submit.call.text);
    else if (position != NULL)
        *position = (struct lh_position){.offset = b->submit.offset, .index = index};
    b->waiters--;
    unref_batch(b);
    pthread_mutex_unlock(&a->mutex);
    return error;
}

/* ---- Flush, open, close ---- */

int lh_flush(struct lh_appender *a, uint64_t timeout_ms)
{
    struct ready ready;
    struct timespec begun = {0};
    bool in_time = true;
    int error = LH_OK;

    if (lh_in_callback())
        return lh_fail(LH_ERR_WOULD_BLOCK, "a flush within a callback would wait for itself");
    ready_init(&ready);
    pthread_mutex_lock(&a->mutex);
    if (a->open != NULL)
        detach_open(a, &ready);
    uint64_t end = a->next_sequence;
    if (ready.first != NULL) {
        pthread_mutex_unlock(&a->mutex);
        submit(&ready);
        pthread_mutex_lock(&a->mutex);
    }
    while (a->first != NULL && a->first->submit.sequence < end && in_time)
        in_time = lh_cond_wait(&a->retired, &a->mutex, timeout_ms, &begun);
    if (a->error != LH_OK)
        error = failure(a);
    else if (a->first != NULL && a->first->submit.sequence < end)
        error = lh_fail(LH_ERR_DEADLINE_EXCEEDED,
            "%llu records are not acknowledged within %llu ms; the appender goes on trying",
            (unsigned long long)(a->stats.records_taken - a->stats.records_stored),
            (unsigned long long)timeout_ms);
    pthread_mutex_unlock(&a->mutex);
    return error;
}

uint32_t lh_appender_record_max(const struct lh_appender *a)
{
    return a->record_max;
}

void lh_appender_stats(struct lh_appender *a, struct lh_appender_stats *stats)
{
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
    pthread_mutex_init(&a->mutex, NULL);
    lh_cond_init(&a->room);
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
    struct lh_appender_open_call call = {
        .call.kind = LH_CALL_APPENDER_OPEN,
        .path = path,
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
    while (a->spare != NULL) {
        struct batch *b = a->spare;
        a->spare = b->next;
        free_batch(b);
    }
    LH_ASSERT(a->open == NULL && a->memory == 0);
    pthread_cond_destroy(&a->room);
    pthread_cond_destroy(&a->retired);
    pthread_mutex_destroy(&a->mutex);
    free(a);
    return error == LH_OK ? LH_OK : lh_fail(error, "%s", text);
}
