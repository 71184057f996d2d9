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
#include "grpc/internal.h"
#include "runtime/thread.h"

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

static void end_queue(struct queue *q)
{
    grpc_completion_queue_shutdown(q->grpc);
    if (q->thread_count == 0) /* nothing was begun in it: there is its end alone to be taken */
        (void)poll_thread(q->grpc);
    for (unsigned i = 0; i < q->thread_count; i++)
        pthread_join(q->threads[i], NULL);
    grpc_completion_queue_destroy(q->grpc);
    free(q->threads);
}

/* An error leaves a queue that end_queue() is due for. */
static int begin_queue(struct queue *q, unsigned threads, char *why, size_t why_size)
{
    int error = LH_OK;

    q->grpc = grpc_completion_queue_create_for_next(NULL);
    q->threads = lh_alloc_array(threads, sizeof *q->threads);
    while (error == LH_OK && q->thread_count < threads) {
        error = lh_thread_start(&q->threads[q->thread_count], poll_thread, q->grpc, why, why_size);
        q->thread_count += error == LH_OK;
    }
    return error;
}

static void end_shared(struct shared_queue *s)
{
    end_queue(&s->queue);
    free(s);
    grpc_shutdown();
}

static struct shared_queue *new_shared(char *why, size_t why_size)
{
    struct shared_queue *s = lh_alloc(sizeof *s);

    grpc_init(); /* it may outlive the rpc that it is made for */
    if (begin_queue(&s->queue, 1, why, why_size) == LH_OK)
        return s;
    end_shared(s);
    return NULL;
}

/* One that nobody uses, if there may be one more, or else the one that the fewest use. NULL: there
 * is no thread for the first. */
static struct shared_queue *take_shared(char *why, size_t why_size)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = processors < 1 ? 1 : processors > SHARED_MAX ? SHARED_MAX : (size_t)processors;
    struct shared_queue **least = &shared.queues[0];

    pthread_mutex_lock(&shared.lock);
    for (size_t i = 0; i < most && *least != NULL; i++)
        if (shared.queues[i] == NULL || shared.queues[i]->users < (*least)->users)
            least = &shared.queues[i];
    if (*least == NULL)
        *least = new_shared(why, why_size);
    struct shared_queue *taken = *least;
    if (taken != NULL)
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
    if (last)
        end_shared(s);
}

/* ---- Of an rpc ---- */

/* What gRPC starts and opens by itself as it begins, and two more. Where it gets none of these it
 * ends the process, has no timers, or hangs when it is to end. */
#define GRPC_THREADS     6u
#define GRPC_DESCRIPTORS 8u
/* And its event engine's, one for each processor, between these. */
#define GRPC_ENGINE_MIN 2
#define GRPC_ENGINE_MAX 32

int lh_rpc_queues_probe(unsigned threads, char *why, size_t why_size)
{
    long engine = sysconf(_SC_NPROCESSORS_ONLN);

    engine = engine < GRPC_ENGINE_MIN ? GRPC_ENGINE_MIN : engine;
    engine = engine > GRPC_ENGINE_MAX ? GRPC_ENGINE_MAX : engine;
    return lh_threads_probe(GRPC_THREADS + (unsigned)engine + (threads == 0 ? 1 : threads),
        GRPC_DESCRIPTORS, why, why_size);
}

int lh_rpc_queues_create(struct lh_rpc *rpc, bool serves, char *why, size_t why_size)
{
    unsigned wanted = rpc->config.threads == 0 ? 1 : rpc->config.threads;

    if (serves || wanted > 1) {
        rpc->queue_count = 1;
        return begin_queue(&rpc->queues[0], wanted, why, why_size);
    }
    rpc->shared_queue = take_shared(why, why_size);
    if (rpc->shared_queue == NULL)
        return LH_ERR_SYSTEM;
    rpc->queues[0].grpc = rpc->shared_queue->queue.grpc;
    rpc->queue_count = 1;
    return LH_OK;
}

/* Opens a further queue; NULL: there can be none. With rpc->lock held. */
static struct queue *open_queue(struct lh_rpc *rpc)
{
    struct queue *q = &rpc->queues[rpc->queue_count];

    if (rpc->queue_count == QUEUES_MAX)
        return NULL;
    if (begin_queue(q, 1, NULL, 0) != LH_OK) {
        end_queue(q);
        *q = (struct queue){0};
        return NULL;
    }
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
