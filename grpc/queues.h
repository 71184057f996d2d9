/* Completion queues, and the threads that wait for them. */
#pragma once

#include "base/error.h"

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdbool.h>

struct lh_rpc;
struct shared_queue;

/* Of served calls: fewer in a queue cost more in threads that wake each other, more of them in
 * looking for tags (queues.c). */
#define QUEUE_CALLS 2048u
#define QUEUES_MAX  64u

/* A completion queue, and the threads that wait for it. */
struct queue {
    grpc_completion_queue *grpc;
    pthread_t *threads;
    unsigned thread_count; /* that run */
    unsigned calls;        /* served ones, and those that may come; under rpc->lock */
};

/* Before anything of gRPC's: whether it can begin. Errors as lh_thread_start(). */
LH_MUST_USE int lh_rpc_queues_probe(unsigned threads, char *why, size_t why_size);
/* With its threads. Errors as lh_thread_start(); lh_rpc_queues_destroy() is due all the same. */
LH_MUST_USE int lh_rpc_queues_create(struct lh_rpc *rpc, bool serves, char *why, size_t why_size);
void lh_rpc_queues_destroy(struct lh_rpc *rpc);
/* Where the events of the next served call shall come. It counts there until _leave(). */
struct queue *lh_rpc_queue_take(struct lh_rpc *rpc);
void lh_rpc_queue_leave(struct lh_rpc *rpc, struct queue *q);
