/* Completion queues, and the threads that wait for them.
 *
 * A gRPC that checks itself, such as Debian's, looks for the tag of each event among those of all
 * batches that are under way in its queue, one after the other and under the queue's lock. A served
 * stream has two that wait for its whole life, so with ten thousand streams in one queue an event
 * cost as much for that as for all else. Calls are therefore spread: a queue has at most
 * `queue_calls` of them, as long as there may be further queues. The first one is filled first, and
 * gaps in it: where few calls are open, nothing is passed between threads. */
#include "base/alloc.h"
#include "base/assert.h"
#include "rpc/internal.h"

#include <grpc/support/time.h>
#include <stdlib.h>

static void *poll_thread(void *arg)
{
    const struct queue *q = arg;

    for (;;) {
        grpc_event e =
            grpc_completion_queue_next(q->grpc, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        struct tag *tag = e.tag;
        tag_take(tag);
        tag->done(tag, e.success != 0);
    }
}

void lh_rpc_queues_create(struct lh_rpc *rpc)
{
    rpc->queues[0].grpc = grpc_completion_queue_create_for_next(NULL);
    rpc->queue_count = 1;
}

void lh_rpc_queues_start(struct lh_rpc *rpc)
{
    struct queue *q = &rpc->queues[0];
    unsigned wanted = rpc->config.threads == 0 ? 1 : rpc->config.threads;

    q->threads = lh_alloc_array(wanted, sizeof *q->threads);
    for (; q->thread_count < wanted; q->thread_count++) {
        int e = pthread_create(&q->threads[q->thread_count], NULL, poll_thread, q);
        LH_ASSERT(e == 0);
    }
}

/* Opens a further queue; NULL: there can be none. With rpc->lock held. */
static struct queue *open_queue(struct lh_rpc *rpc)
{
    struct queue *q = &rpc->queues[rpc->queue_count];

    if (rpc->queue_count == QUEUES_MAX)
        return NULL;
    q->grpc = grpc_completion_queue_create_for_next(NULL);
    q->threads = lh_alloc(sizeof *q->threads);
    if (pthread_create(q->threads, NULL, poll_thread, q) != 0) {
        grpc_completion_queue_shutdown(q->grpc);
        grpc_completion_queue_destroy(q->grpc);
        free(q->threads);
        *q = (struct queue){0};
        return NULL;
    }
    q->thread_count = 1;
    rpc->queue_count++;
    return q;
}

struct queue *lh_rpc_queue_take(struct lh_rpc *rpc)
{
    unsigned most = rpc->config.queue_calls;

    pthread_mutex_lock(&rpc->lock);
    struct queue *least = &rpc->queues[0];
    for (unsigned i = 1; least->calls >= most && i < rpc->queue_count; i++)
        if (rpc->queues[i].calls < least->calls)
            least = &rpc->queues[i];
    if (least->calls >= most) {
        struct queue *further = open_queue(rpc);
        least = further != NULL ? further : least;
    }
    least->calls++;
    pthread_mutex_unlock(&rpc->lock);
    return least;
}

void lh_rpc_queue_leave(struct lh_rpc *rpc, struct queue *q)
{
    pthread_mutex_lock(&rpc->lock);
    q->calls--;
    pthread_mutex_unlock(&rpc->lock);
}

void lh_rpc_queues_destroy(struct lh_rpc *rpc)
{
    for (unsigned i = 0; i < rpc->queue_count; i++)
        grpc_completion_queue_shutdown(rpc->queues[i].grpc);
    for (unsigned i = 0; i < rpc->queue_count; i++) {
        struct queue *q = &rpc->queues[i];
        for (unsigned k = 0; k < q->thread_count; k++)
            pthread_join(q->threads[k], NULL);
        grpc_completion_queue_destroy(q->grpc);
        free(q->threads);
    }
    rpc->queue_count = 0;
}
