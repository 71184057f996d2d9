/* Completion queues, and the threads that wait for them.
 *
 * A gRPC that checks itself, such as Debian's, looks for the tag of each event among those of all
 * batches that are under way in its queue, one after the other and under the queue's lock. A served
 * stream has two that wait for its whole life, so with ten thousand streams in one queue an event
 * cost as much for that as for all else. Calls are therefore spread: a queue has at most
 * `queue_calls` of them, as long as there may be further queues. The first one is filled first, and
 * gaps in it: where few calls are open, nothing is passed between threads.
 *
 * An rpc that serves nothing has one queue and one thread. gRPC has one poller in a process, which
 * wakes the thread of the queue that an event is for. With more of these threads than processors
 * that is most of what they do. So beyond one for each processor, they are shared. */
#include "grpc/queues.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "grpc/internal.h"

#include <grpc/support/time.h>
#include <stdlib.h>
#include <unistd.h>

#define SHARED_MAX 16

/* A queue and its thread, of one rpc or several. */
struct shared_queue {
    struct queue queue;
    unsigned users;
};

static struct {
    pthread_mutex_t lock;
    struct shared_queue *queues[SHARED_MAX]; /* NULL: none */
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *poll_thread(void *arg)
{
    grpc_completion_queue *queue = arg;

    for (;;) {
        grpc_event e = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        struct tag *tag = e.tag;
        tag_take(tag);
        tag->done(tag, e.success != 0);
    }
}

/* ---- Shared ones ---- */

static void start_thread(struct queue *q)
{
    int e = pthread_create(&q->threads[q->thread_count], NULL, poll_thread, q->grpc);

    LH_ASSERT(e == 0);
    q->thread_count++;
}

static void end_queue(struct queue *q)
{
    grpc_completion_queue_shutdown(q->grpc);
    for (unsigned i = 0; i < q->thread_count; i++)
        pthread_join(q->threads[i], NULL);
    grpc_completion_queue_destroy(q->grpc);
    free(q->threads);
}

static struct shared_queue *new_shared(void)
{
    struct shared_queue *s = lh_alloc(sizeof *s);

    grpc_init(); /* it may outlive the rpc that it is made for */
    s->queue.grpc = grpc_completion_queue_create_for_next(NULL);
    s->queue.threads = lh_alloc(sizeof *s->queue.threads);
    start_thread(&s->queue);
    return s;
}

/* One that nobody uses, if there may be one more, or else the one that the fewest use. */
static struct shared_queue *take_shared(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = processors < 1 ? 1 : processors > SHARED_MAX ? SHARED_MAX : (size_t)processors;
    struct shared_queue **least = &shared.queues[0];

    pthread_mutex_lock(&shared.lock);
    for (size_t i = 0; i < most && *least != NULL; i++)
        if (shared.queues[i] == NULL || shared.queues[i]->users < (*least)->users)
            least = &shared.queues[i];
    if (*least == NULL)
        *least = new_shared();
    struct shared_queue *taken = *least;
    taken->users++;
    pthread_mutex_unlock(&shared.lock);
    return taken;
}

static void leave_shared(struct shared_queue *s)
{
    pthread_mutex_lock(&shared.lock);
    bool last = --s->users == 0;
    for (size_t i = 0; last && i < SHARED_MAX; i++)
        if (shared.queues[i] == s)
            shared.queues[i] = NULL;
    pthread_mutex_unlock(&shared.lock);
    if (!last)
        return;
    end_queue(&s->queue);
    free(s);
    grpc_shutdown();
}

/* ---- Of an rpc ---- */

void lh_rpc_queues_create(struct lh_rpc *rpc, bool serves)
{
    if (!serves && rpc->config.threads <= 1)
        rpc->shared_queue = take_shared();
    rpc->queues[0].grpc = rpc->shared_queue != NULL ? rpc->shared_queue->queue.grpc
                                                    : grpc_completion_queue_create_for_next(NULL);
    rpc->queue_count = 1;
}

void lh_rpc_queues_start(struct lh_rpc *rpc)
{
    struct queue *q = &rpc->queues[0];
    unsigned wanted = rpc->config.threads == 0 ? 1 : rpc->config.threads;

    if (rpc->shared_queue != NULL)
        return;
    q->threads = lh_alloc_array(wanted, sizeof *q->threads);
    while (q->thread_count < wanted)
        start_thread(q);
}

/* Opens a further queue; NULL: there can be none. With rpc->lock held. */
static struct queue *open_queue(struct lh_rpc *rpc)
{
    struct queue *q = &rpc->queues[rpc->queue_count];

    if (rpc->queue_count == QUEUES_MAX)
        return NULL;
    q->grpc = grpc_completion_queue_create_for_next(NULL);
    q->threads = lh_alloc(sizeof *q->threads);
    if (pthread_create(q->threads, NULL, poll_thread, q->grpc) != 0) {
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
    if (rpc->shared_queue != NULL) {
        leave_shared(rpc->shared_queue);
        rpc->shared_queue = NULL;
        return;
    }
    for (unsigned i = 0; i < rpc->queue_count; i++)
        end_queue(&rpc->queues[i]);
    rpc->queue_count = 0;
}
