/* Where the loop's inputs come from, but those of links (network.c), and how it begins and ends.
 * What is done with them: dispatch.c. */
#include "runtime/loop.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/dispatch.h"
#include "runtime/thread.h"
#include "runtime/transports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

struct lh_instant lh_clock_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (struct lh_instant){(uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec};
}

uint64_t lh_clock_wall_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* ---- inputs ---- */

static void on_disk_done(void *arg, struct lh_disk_io *first)
{
    struct lh_loop *loop = arg;
    struct lh_dispatch *d = lh_dispatch_begin(loop);

    while (first != NULL) {
        struct lh_disk_io *next = first->next;
        lh_dispatch_disk_input(loop, d, first);
        first = next;
    }
    lh_dispatch_run(loop, d);
}

static void *timer_main(void *arg)
{
    struct lh_loop *loop = arg;

    for (;;) {
        uint64_t expirations;
        ssize_t n = read(loop->timer_fd, &expirations, sizeof expirations);
        if (atomic_load(&loop->ending))
            return NULL;
        if (n < 0) {
            LH_ASSERT(errno == EINTR || errno == ECANCELED);
            continue;
        }
        lh_dispatch_give_way(loop);
        struct lh_dispatch *d = lh_dispatch_begin(loop);
        lh_dispatch_input(d, LH_IN_TIMER);
        pthread_mutex_lock(&loop->lock);
        loop->armed = LH_INSTANT_NEVER;
        lh_dispatch_beat(loop);
        lh_dispatch_run_locked(loop, d);
    }
}

bool lh_loop_call(struct lh_loop *loop, void *call)
{
    struct lh_dispatch *d = lh_dispatch_begin(loop);

    lh_dispatch_input(d, LH_IN_CALL)->call = call;
    lh_dispatch_lock(loop);
    bool take = !loop->stopped;
    if (!take)
        d->inputs.count = 0;
    lh_dispatch_run_locked(loop, d);
    return take;
}

void lh_loop_persisted(struct lh_loop *loop, uint64_t ticket, int error)
{
    struct lh_dispatch *d = lh_dispatch_begin(loop);
    struct lh_input *in = lh_dispatch_input(d, LH_IN_PERSISTED);

    in->ticket = ticket;
    in->error = error;
    lh_dispatch_run(loop, d);
}

void lh_loop_lock(struct lh_loop *loop)
{
    lh_dispatch_lock(loop);
}

void lh_loop_unlock(struct lh_loop *loop)
{
    pthread_mutex_unlock(&loop->lock);
}

void lh_loop_stop(struct lh_loop *loop)
{
    lh_dispatch_lock(loop);
    bool first = !loop->stop_asked;
    loop->stop_asked = true;
    if (!first) {
        pthread_mutex_unlock(&loop->lock);
        return;
    }
    struct lh_dispatch *d = lh_dispatch_begin(loop);
    lh_dispatch_input(d, LH_IN_STOP);
    lh_dispatch_run_locked(loop, d);
}

int lh_loop_wait(struct lh_loop *loop, struct lh_duration timeout)
{
    struct timespec now;
    int waited = 0;

    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t at = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    struct lh_instant deadline = lh_instant_add((struct lh_instant){at}, timeout);
    struct timespec until = {
        (time_t)(deadline.ns / 1000000000u), (long)(deadline.ns % 1000000000u)};

    lh_dispatch_lock(loop);
    while (!loop->stopped_notified && waited == 0)
        waited = pthread_cond_timedwait(&loop->stopped_changed, &loop->lock, &until);
    int error = loop->stopped_notified ? loop->stop_error : LH_ERR_DEADLINE_EXCEEDED;
    pthread_mutex_unlock(&loop->lock);
    return error;
}

/* ---- beginning and end ---- */

static void init_sync(struct lh_loop *loop)
{
    pthread_mutexattr_t adaptive;
    pthread_condattr_t monotonic;

    /* Held for a microsecond or so: worth a short spin before going to sleep. */
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&loop->lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&loop->stopped_changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void stop_timer(struct lh_loop *loop)
{
    struct itimerspec soon = {.it_value = {.tv_nsec = 1}};

    atomic_store(&loop->ending, true);
    timerfd_settime(loop->timer_fd, 0, &soon, NULL);
    pthread_join(loop->timer_thread, NULL);
}

static void loop_free(struct lh_loop *loop)
{
    for (int i = 0; i < DISPATCHES_KEPT; i++)
        lh_dispatch_free(atomic_load(&loop->spare[i]));
    if (loop->timer_fd >= 0)
        close(loop->timer_fd);
    pthread_cond_destroy(&loop->stopped_changed);
    pthread_mutex_destroy(&loop->lock);
    free(loop->outbox.items);
    free(loop->sending.items);
    free(loop);
}

int lh_loop_create(
    const struct lh_loop_config *config, struct lh_loop **out, char *why, size_t why_size)
{
    struct lh_loop *loop = lh_alloc(sizeof *loop);

    loop->config = *config;
    if (config->alone_bytes == 0)
        loop->config.alone_bytes = LH_ALONE_BYTES;
    if (config->piece_bytes == 0)
        loop->config.piece_bytes = LH_PIECE_BYTES;
    if (config->progress_interval.ns == 0)
        loop->config.progress_interval = lh_milliseconds(20);
    loop->armed = LH_INSTANT_NEVER;
    init_sync(loop);
    loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (loop->timer_fd < 0) {
        int error = lh_why(LH_ERR_SYSTEM, why, why_size,
            "cannot make a timer: %s; " LH_DESCRIPTOR_LIMIT, strerror(errno));
        loop_free(loop);
        return error;
    }
    /* All that there may be a shortage of is taken before anything runs. Until the timer is set its
     * thread waits. */
    int error = lh_thread_start(&loop->timer_thread, timer_main, loop, why, why_size);
    if (error == LH_OK) {
        error = lh_loop_network_create(loop, why, why_size);
        if (error != LH_OK)
            stop_timer(loop);
    }
    if (error != LH_OK) {
        loop_free(loop);
        return error;
    }
    if (config->disk != NULL)
        lh_disk_on_done(config->disk, on_disk_done, loop);
    *out = loop;
    return LH_OK;
}

void lh_loop_start(struct lh_loop *loop)
{
    LH_ASSERT(!loop->started);
    loop->started = true;
    struct lh_dispatch *d = lh_dispatch_begin(loop);
    lh_dispatch_input(d, LH_IN_TIMER);
    lh_dispatch_run(loop, d);
    lh_transport_start(loop->transport);
}

void lh_loop_forks(struct lh_loop *loop, enum lh_fork where)
{
    lh_transport_forks(loop->transport, where);
    if (where == LH_FORK_CHILD)
        close(loop->timer_fd);
}

void lh_loop_destroy(struct lh_loop *loop)
{
    if (loop == NULL)
        return;
    lh_dispatch_lock(loop);
    loop->stopped = true;
    pthread_mutex_unlock(&loop->lock);
    stop_timer(loop);
    /* Once before the transport goes, so that no disk thread is still flushing links, and once
     * after, as its threads may have submitted more. */
    if (loop->config.disk != NULL)
        lh_disk_drain(loop->config.disk);
    lh_loop_network_cut_links(loop);
    lh_transport_destroy(loop->transport);
    if (loop->config.disk != NULL) {
        lh_disk_drain(loop->config.disk);
        lh_disk_on_done(loop->config.disk, NULL, NULL);
    }
    loop_free(loop);
}
