/* The threads that wait for the network. */
#include "base/alloc.h"
#include "runtime/thread.h"
#include "tls/gate.h"
#include "wire/sockets/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 64

static _Thread_local struct loop *mine;

struct lh_instant lh_wire_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (struct lh_instant){(uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec};
}

struct loop *lh_loops_choose(struct wire *wire)
{
    return &wire->loops[atomic_fetch_add(&wire->next_loop, 1) % wire->loop_count];
}

/* ---- what other threads want of a loop ---- */

/* With the loop's lock held: whether it has to be woken for something that is due then. */
static bool is_late(struct loop *loop, struct lh_instant at)
{
    bool late = mine != loop && lh_instant_before(at, loop->sleeps_until);

    if (late)
        loop->sleeps_until = (struct lh_instant){0}; /* one is enough */
    return late;
}

static void wake(struct loop *loop)
{
    uint64_t one = 1;

    (void)!write(loop->event, &one, sizeof one);
}

/* With the loop's lock held: whether it was not among them. */
static bool add_kicked(struct connection *c)
{
    if (c->kicked)
        return false;
    c->kicked = true;
    lh_connection_ref(c);
    c->next_kicked = c->loop->kicked;
    c->loop->kicked = c;
    return true;
}

void lh_loop_kick(struct connection *c)
{
    struct loop *loop = c->loop;

    pthread_mutex_lock(&loop->lock);
    bool late = add_kicked(c) && is_late(loop, (struct lh_instant){0});
    pthread_mutex_unlock(&loop->lock);
    if (late)
        wake(loop);
}

static void is_due(void *core, struct lh_timer *timer)
{
    (void)core;
    (void)add_kicked(LH_OWNER(timer, struct connection, timer));
}

void lh_loop_arm(struct connection *c, struct lh_instant at)
{
    struct loop *loop = c->loop;

    /* A later deadline is left to be found out when the earlier one has come. */
    if (!lh_instant_before(at, c->armed))
        return;
    c->armed = at;
    pthread_mutex_lock(&loop->lock);
    lh_timer_set(&loop->timers, &c->timer, at);
    bool late = is_late(loop, at);
    pthread_mutex_unlock(&loop->lock);
    if (late)
        wake(loop);
}

/* ---- its connections ---- */

bool lh_loop_watch(struct connection *c)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};

    return epoll_ctl(c->loop->epoll, EPOLL_CTL_ADD, c->fd, &event) == 0;
}

void lh_loop_close(const struct loop *loop, int fd)
{
    (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
}

void lh_loop_list(struct connection *c)
{
    struct loop *loop = c->loop;

    pthread_mutex_lock(&loop->lock);
    if (!c->listed) {
        c->listed = true;
        lh_connection_ref(c);
        c->timer.fire = is_due;
        c->previous = NULL;
        c->next = loop->connections;
        if (c->next != NULL)
            c->next->previous = c;
        loop->connections = c;
    }
    pthread_mutex_unlock(&loop->lock);
}

void lh_loop_unlist(struct connection *c)
{
    struct loop *loop = c->loop;

    pthread_mutex_lock(&loop->lock);
    bool was = c->listed;
    if (was) {
        if (c->previous != NULL)
            c->previous->next = c->next;
        else
            loop->connections = c->next;
        if (c->next != NULL)
            c->next->previous = c->previous;
        c->listed = false;
    }
    lh_timer_unset(&loop->timers, &c->timer);
    pthread_mutex_unlock(&loop->lock);
    if (was)
        lh_connection_unref(c);
}

void lh_loop_heat(struct connection *c)
{
    if (c->hot)
        return;
    c->hot = true;
    lh_connection_ref(c);
    c->next_hot = c->loop->hot;
    c->loop->hot = c;
}

/* ---- a round ---- */

static int sleep_ms(struct loop *loop)
{
    struct lh_instant now = lh_wire_now();

    pthread_mutex_lock(&loop->lock);
    struct lh_instant next = lh_timers_next(&loop->timers);
    bool busy = loop->hot != NULL || loop->kicked != NULL || loop->ending;
    loop->sleeps_until = busy ? (struct lh_instant){0} : next;
    pthread_mutex_unlock(&loop->lock);
    if (busy)
        return 0;
    if (next.ns == UINT64_MAX)
        return -1;
    uint64_t ms = lh_duration_ms(lh_instant_until(now, next));
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

static void take_event(struct loop *loop, const struct epoll_event *event)
{
    uint64_t count;

    if (event->data.ptr == loop) {
        (void)!read(loop->event, &count, sizeof count);
        return;
    }
    for (unsigned i = 0; i < loop->wire->listener_count; i++)
        if (event->data.ptr == &loop->wire->listeners[i]) {
            lh_wire_accept(loop, &loop->wire->listeners[i]);
            return;
        }
    struct connection *c = event->data.ptr;
    lh_connection_ref(c);
    lh_connection_ready(c, event->events);
    lh_connection_unref(c);
}

static void look_at_hot(struct loop *loop)
{
    struct connection *hot = loop->hot;

    loop->hot = NULL;
    while (hot != NULL) {
        struct connection *c = hot;
        hot = c->next_hot;
        c->hot = false;
        lh_connection_ready(c, 0);
        lh_connection_unref(c);
    }
}

static void look_at_kicked(struct loop *loop)
{
    struct lh_instant now = lh_wire_now();

    if (loop->wire->listener_count == 0)   /* a server has a thread for it (upkeep.c) */
        lh_tls_housekeep(loop->wire->tls); /* looks at most once a second */
    pthread_mutex_lock(&loop->lock);
    lh_timers_fire(&loop->timers, loop, now);
    struct connection *kicked = loop->kicked;
    loop->kicked = NULL;
    while (kicked != NULL) {
        /* Each can be kicked again from now on, and those behind it are still in this list. */
        struct connection *c = kicked;
        kicked = c->next_kicked;
        c->kicked = false;
        pthread_mutex_unlock(&loop->lock);
        lh_connection_tick(c, now);
        lh_connection_unref(c);
        pthread_mutex_lock(&loop->lock);
    }
    pthread_mutex_unlock(&loop->lock);
}

static bool goes_on(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool on = !loop->ending;
    pthread_mutex_unlock(&loop->lock);
    return on;
}

struct connection **lh_loop_connections(struct loop *loop, size_t *count)
{
    struct connection **all = NULL;
    size_t capacity = 0;

    *count = 0;
    pthread_mutex_lock(&loop->lock);
    for (struct connection *c = loop->connections; c != NULL; c = c->next) {
        LH_GROW(all, capacity, *count + 1);
        lh_connection_ref(c);
        all[(*count)++] = c;
    }
    pthread_mutex_unlock(&loop->lock);
    return all;
}

/* A close of a socket with something unread resets the connection, and the other end loses what was
 * sent before: so each says that it sends no more, and hears the other out for a moment. */
static void end_all(struct loop *loop)
{
    size_t count;
    struct connection **all = lh_loop_connections(loop, &count);
    struct lh_instant until = lh_instant_add(lh_wire_now(), loop->wire->config.grace);

    for (size_t i = 0; i < count; i++)
        lh_connection_say_end(all[i]);
    for (size_t i = 0; i < count; i++) {
        lh_connection_hear_out(all[i], until);
        lh_connection_end(all[i]);
        lh_connection_unref(all[i]);
    }
    free(all);
    look_at_kicked(loop);
    look_at_hot(loop);
}

static void *run(void *arg)
{
    struct loop *loop = arg;
    const struct lh_transport_config *config = &loop->wire->config;
    struct epoll_event events[EVENTS_MAX];

    mine = loop;
    while (goes_on(loop)) {
        int n = epoll_wait(loop->epoll, events, EVENTS_MAX, sleep_ms(loop));
        pthread_mutex_lock(&loop->lock);
        loop->sleeps_until = (struct lh_instant){0};
        pthread_mutex_unlock(&loop->lock);
        if (config->on_round != NULL)
            config->on_round(config->arg, true);
        for (int i = 0; i < n; i++)
            take_event(loop, &events[i]);
        look_at_hot(loop);
        look_at_kicked(loop);
        if (config->on_round != NULL)
            config->on_round(config->arg, false);
    }
    if (config->on_round != NULL)
        config->on_round(config->arg, true);
    end_all(loop);
    if (config->on_round != NULL)
        config->on_round(config->arg, false);
    lh_openssl_end_thread();
    return NULL;
}

/* ---- all of them ---- */

static int open_loop(struct loop *loop, char *why, size_t why_size)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = loop};

    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->event = loop->epoll < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->event >= 0 && epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->event, &event) == 0)
        return LH_OK;
    return lh_why(LH_ERR_SYSTEM, why, why_size,
        "cannot wait for the network: %s; " LH_DESCRIPTOR_LIMIT, strerror(errno));
}

int lh_loops_create(struct wire *wire, char *why, size_t why_size)
{
    int error = LH_OK;
    unsigned count = wire->config.threads == 0 ? 1 : wire->config.threads;

    wire->loops = lh_alloc_array(count, sizeof *wire->loops);
    wire->loop_count = count;
    for (unsigned i = 0; i < count; i++) {
        struct loop *loop = &wire->loops[i];
        loop->wire = wire;
        loop->epoll = loop->event = -1;
        pthread_mutex_init(&loop->lock, NULL);
        if (error == LH_OK)
            error = open_loop(loop, why, why_size);
    }
    return error;
}

int lh_loops_start(struct wire *wire, char *why, size_t why_size)
{
    int error = LH_OK;

    for (unsigned i = 0; error == LH_OK && i < wire->loop_count; i++) {
        struct loop *loop = &wire->loops[i];
        error = lh_thread_start(&loop->thread, run, loop, why, why_size);
        loop->started = error == LH_OK;
    }
    return error;
}

/* The child closes and does nothing else: the sets of epoll are the parent's, too, and a shutdown
 * or a close_notify would be said on the parent's connections. */
static void close_inherited(const struct loop *loop)
{
    for (const struct connection *c = loop->connections; c != NULL; c = c->next)
        if (c->fd >= 0)
            close(c->fd);
    close(loop->epoll);
    close(loop->event);
}

void lh_loops_fork(struct lh_transport *transport, enum lh_fork where)
{
    struct wire *wire = wire_of(transport);

    for (unsigned i = 0; i < wire->loop_count; i++) {
        struct loop *loop = &wire->loops[i];
        if (where == LH_FORK_BEFORE)
            pthread_mutex_lock(&loop->lock);
        else
            pthread_mutex_unlock(&loop->lock);
        if (where == LH_FORK_CHILD)
            close_inherited(loop);
    }
}

void lh_loops_end(struct wire *wire)
{
    for (unsigned i = 0; i < wire->loop_count; i++) {
        struct loop *loop = &wire->loops[i];
        pthread_mutex_lock(&loop->lock);
        loop->ending = true;
        pthread_mutex_unlock(&loop->lock);
        wake(loop);
    }
    for (unsigned i = 0; i < wire->loop_count; i++) {
        struct loop *loop = &wire->loops[i];
        if (loop->started)
            pthread_join(loop->thread, NULL);
        if (loop->block != NULL)
            lh_block_unref(loop->block);
        loop->block = NULL;
        if (loop->epoll >= 0)
            close(loop->epoll);
        if (loop->event >= 0)
            close(loop->event);
        lh_timers_deinit(&loop->timers);
        pthread_mutex_destroy(&loop->lock);
    }
}
