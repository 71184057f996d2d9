/* What the library's appenders are made of: batches on their way from the program's threads to the
 * core and back to the program's callbacks. */
#pragma once

#include "batch/batch.h"
#include "client/library/library.h"

/* Consecutive records of a batch with one callback and argument. */
struct lh_pending_run {
    lh_append_callback callback; /* NULL: nobody is told */
    void *arg;
    uint32_t count;
};

struct lh_pending {
    struct lh_submit_call submit;
    struct lh_task task; /* telling the callbacks */
    struct lh_appender *appender;
    struct lh_batch_builder builder;
    struct lh_pending_run *runs;
    size_t run_count, run_capacity;
    bool has_callbacks;
    unsigned references; /* the appender's while not retired, and one per thread waiting for it */
    unsigned waiters;
    pthread_cond_t done_cond;
    bool done;
    int error;
    size_t charged; /* bytes, of the memory limit */
    struct lh_pending *previous,
        *next; /* among the unretired, by sequence; `next` also among spares */
    struct lh_pending *next_ready;
};

struct lh_appender {
    struct lh_cluster *cluster;
    struct lh_client_appender *core;
    uint64_t writer;
    uint32_t record_max, batch_max, pipeline_bytes;
    uint64_t memory_max; /* its own limit */

    pthread_mutex_t mutex;
    pthread_cond_t room_given; /* memory was given back, or the appender failed */
    pthread_cond_t retired;    /* the first of the unretired has changed */
    unsigned room_waiters;
    struct lh_pending *open;         /* being filled; NULL: none */
    struct lh_pending *first, *last; /* unretired: not completed, or callbacks not told yet */
    struct lh_pending *spare;
    unsigned spare_count;
    unsigned under_way; /* submitted, not completed */
    uint64_t next_sequence;
    uint32_t last_size; /* of the last batch, to guess the next one's */
    uint64_t memory;    /* charged bytes of all batches */
    uint64_t room;      /* how many there may be: as it was when the open batch was begun */
    int error;          /* why it has failed, or LH_OK */
    char text[LH_CALL_TEXT_BYTES];
    bool closing;
    struct lh_appender_stats stats;
};

/* Batches that a thread has detached and will submit once it has left the mutex. */
struct lh_ready {
    struct lh_pending *first, **end;
};

void lh_ready_init(struct lh_ready *ready);

/* Submits them, without the mutex; none are left. */
void lh_ready_submit(struct lh_ready *ready);

/* All of the following with the appender's mutex. */

/* An empty batch with room for at least one record of that size, even one above the batches' limit.
 */
struct lh_pending *lh_pending_new(struct lh_appender *a, uint32_t record_size);

/* False: the record does not fit, and the batch is as it was. */
bool lh_pending_add(struct lh_pending *b, const void *record, uint32_t size, uint32_t batch_max);

/* Whose the record is that was added last. */
void lh_pending_add_run(struct lh_pending *b, lh_append_callback callback, void *arg);

void lh_pending_unref(struct lh_pending *b);
void lh_pending_free_spares(struct lh_appender *a);

/* Whether the open batch should go now. */
bool lh_appender_should_go(const struct lh_appender *a);

/* Numbers the open batch, which thereby is open no more, and puts it behind `ready`. */
void lh_appender_detach_open(struct lh_appender *a, struct lh_ready *ready);
