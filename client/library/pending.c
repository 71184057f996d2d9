/* The library: batches of an appender, from the first record until the last callback was told. */
#include "client/library/appending.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of an empty batch; it grows. */
#define FIRST_CAPACITY (16u << 10)
/* Kept for the next ones, so that a busy appender allocates none. */
#define SPARE_BATCHES 32u

static void tell_callbacks(struct lh_task *task);

/* An empty batch with room for at least one record of that size, even one above the batches' limit.
 */
struct lh_pending *lh_pending_new(struct lh_appender *a, uint32_t record_size)
{
    struct lh_pending *b = a->spare;
    uint32_t needed = LH_BATCH_FRAME_BYTES + LH_RECORD_HEADER_BYTES + record_size;
    uint32_t capacity = FIRST_CAPACITY;

    if (b != NULL) {
        a->spare = b->next;
        a->spare_count--;
    } else {
        b = lh_alloc(sizeof *b);
        b->appender = a;
        b->task.run = tell_callbacks;
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

static void free_batch(struct lh_pending *b)
{
    lh_batch_builder_deinit(&b->builder);
    pthread_cond_destroy(&b->done_cond);
    free(b->runs);
    free(b);
}

void lh_pending_unref(struct lh_pending *b)
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

bool lh_pending_add(struct lh_pending *b, const void *record, uint32_t size, uint32_t batch_max)
{
    while (!lh_batch_builder_add(&b->builder, record, size)) {
        uint32_t capacity = b->builder.capacity;
        if (capacity >= batch_max)
            return false;
        grow_builder(&b->builder, capacity < batch_max / 4 ? capacity * 4 : batch_max);
    }
    return true;
}

void lh_pending_add_run(struct lh_pending *b, lh_append_callback callback, void *arg)
{
    struct lh_pending_run *last = b->run_count == 0 ? NULL : &b->runs[b->run_count - 1];

    if (last != NULL && last->callback == callback && last->arg == arg) {
        last->count++;
        return;
    }
    LH_GROW(b->runs, b->run_capacity, b->run_count + 1);
    b->runs[b->run_count++] = (struct lh_pending_run){.callback = callback, .arg = arg, .count = 1};
    b->has_callbacks = b->has_callbacks || callback != NULL;
}

void lh_pending_free_spares(struct lh_appender *a)
{
    while (a->spare != NULL) {
        struct lh_pending *b = a->spare;
        a->spare = b->next;
        free_batch(b);
    }
}

/* ---- From open to submitted ---- */

void lh_ready_init(struct lh_ready *ready)
{
    ready->first = NULL;
    ready->end = &ready->first;
}

void lh_appender_detach_open(struct lh_appender *a, struct lh_ready *ready)
{
    struct lh_pending *b = a->open;

    a->open = NULL;
    atomic_fetch_add_explicit(&a->cluster->memory, b->charged, memory_order_relaxed);
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

bool lh_appender_should_go(const struct lh_appender *a)
{
    if (a->open == NULL)
        return false;
    return a->under_way == 0 ||
           (a->under_way < LH_WRITER_WINDOW && a->open->builder.size >= a->pipeline_bytes);
}

/* Without the mutex. */
void lh_ready_submit(struct lh_ready *ready)
{
    for (struct lh_pending *b = ready->first, *next; b != NULL; b = next) {
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
    lh_ready_init(ready);
}

/* ---- Completion ---- */

static void retire(struct lh_pending *b)
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
    atomic_fetch_sub_explicit(&a->cluster->memory, b->charged, memory_order_relaxed);
    if (a->room_waiters > 0)
        pthread_cond_broadcast(&a->room_given);
    if (was_first)
        pthread_cond_broadcast(&a->retired);
    lh_pending_unref(b);
}

/* In the callback thread. */
static void tell_callbacks(struct lh_task *task)
{
    struct lh_pending *b = (struct lh_pending *)((char *)task - offsetof(struct lh_pending, task));
    struct lh_appender *a = b->appender;
    struct lh_position at = {.offset = b->submit.offset, .index = 0};

    if (b->error != LH_OK)
        lh_fail(b->error, "%s", b->submit.call.text);
    for (size_t i = 0; i < b->run_count; i++) {
        const struct lh_pending_run *run = &b->runs[i];
        if (run->callback != NULL)
            run->callback(run->arg, b->error, at, run->count);
        at.index += run->count;
    }
    pthread_mutex_lock(&a->mutex);
    retire(b);
    pthread_mutex_unlock(&a->mutex);
}

static void note_stored(struct lh_appender *a, const struct lh_pending *b)
{
    a->stats.records_stored += b->submit.count;
    a->stats.batches_stored++;
    a->stats.bytes_stored +=
        b->charged - LH_BATCH_FRAME_BYTES - (uint64_t)b->submit.count * LH_RECORD_HEADER_BYTES;
    a->stats.last = (struct lh_position){.offset = b->submit.offset, .index = b->submit.count - 1};
}

void lh_submit_completed(struct lh_submit_call *call, int error)
{
    struct lh_pending *b =
        (struct lh_pending *)((char *)call - offsetof(struct lh_pending, submit));
    struct lh_appender *a = b->appender;
    struct lh_ready ready;

    lh_ready_init(&ready);
    pthread_mutex_lock(&a->mutex);
    a->under_way--;
    b->done = true;
    b->error = error;
    if (error == LH_OK)
        note_stored(a, b);
    else if (!call->sent)
        a->stats.records_unsent += call->count;
    if (error != LH_OK && a->error == LH_OK) {
        a->error = error;
        memcpy(a->text, call->call.text, sizeof a->text);
        pthread_cond_broadcast(&a->room_given);
    }
    if (lh_appender_should_go(a))
        lh_appender_detach_open(a, &ready);
    if (b->waiters > 0) {
        /* Woken with the mutex free, or they would only fall asleep on it again. The batch is not
         * retired yet, so it and the appender stay. */
        pthread_mutex_unlock(&a->mutex);
        pthread_cond_broadcast(&b->done_cond);
        pthread_mutex_lock(&a->mutex);
    }
    if (b->has_callbacks)
        lh_cluster_task(a->cluster, &b->task);
    else
        retire(b);
    pthread_mutex_unlock(&a->mutex);
    lh_ready_submit(&ready);
}
