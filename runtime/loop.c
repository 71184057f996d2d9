/* Where the loop's inputs come from, and how it begins and ends. What is done with them:
 * dispatch.c. */
#include "runtime/loop.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/dispatch.h"
#include "runtime/log.h"

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

/* ---- inputs from the network ---- */

static void on_opened(void *arg, struct lh_rpc_link *rpc, enum lh_method method, const char *peer)
{
    const char *identity = lh_rpc_link_identity(rpc);
    struct lh_loop *loop = arg;
    struct lh_dispatch *d = lh_dispatch_begin(loop);
    struct lh_input *in = lh_dispatch_input(d, LH_IN_LINK_OPENED);

    in->method = method;
    in->text = peer;
    in->identity = identity;
    lh_log(LH_DEBUG, loop->config.name, "%s called by %s%s%s", lh_method_info(method)->path, peer,
        identity[0] != '\0' ? ", " : "", identity);
    lh_dispatch_lock(loop);
    if (loop->stopped) {
        pthread_mutex_unlock(&loop->lock);
        lh_rpc_link_close(rpc, LH_ERR_SHUTTING_DOWN, NULL);
        lh_rpc_link_flush(rpc);
        lh_rpc_link_unref(rpc);
        d->inputs.count = 0;
        lh_dispatch_end(loop, d);
        return;
    }
    in->link = LH_LINK_SERVED | ++loop->served_count;
    /* Read even if the core holds the link at once: one message may always arrive. */
    lh_dispatch_want_message(d, lh_loop_enter_link(loop, rpc, in->link, method));
    lh_dispatch_run_locked(loop, d);
}

/* A link whose peer sent what is no message of its method, or too large a one: the end, for both
 * sides. */
static void end_refused(
    struct lh_loop *loop, struct lh_dispatch *d, struct lh_rpc_link *rpc, int error)
{
    struct lh_loop_link *link = lh_rpc_link_data(rpc);
    char text[160];

    lh_dispatch_lock(loop);
    bool known = link->known;
    if (known) {
        bool request = lh_loop_link_served(link);
        snprintf(text, sizeof text, "%s: %s %s message", lh_method_info(link->method)->path,
            error == LH_ERR_TOO_LARGE   ? "too large a"
            : error == LH_ERR_NO_MEMORY ? "no memory for a part of a"
                                        : "not a",
            request ? "request" : "reply");
        lh_dispatch_end_link(loop, d, link, error, text);
    }
    lh_dispatch_run_locked(loop, d);
}

/* Bytes of messages that have come in part, in this process: whoever sends them need not finish. */
static _Atomic size_t arriving;

static int arrive(struct lh_loop *loop, struct lh_loop_link *link, ProtobufCMessage **message,
    struct lh_buf *payload)
{
    size_t before = link->arrival.payload.size, most = loop->config.memory_max;
    int error = lh_wire_arrive(&link->arrival, message, payload);
    size_t grown = link->arrival.payload.size - before; /* or what it shrank by, as a complement */
    size_t all = atomic_fetch_add(&arriving, grown) + grown;

    if (error == LH_ERR_TOO_LARGE) {
        lh_wire_free(*message);
        lh_buf_clear(payload);
    }
    return error == LH_ERR_WOULD_BLOCK && most != 0 && all > most ? LH_ERR_NO_MEMORY : error;
}

static void on_message(void *arg, struct lh_rpc_link *rpc, struct lh_buf bytes)
{
    struct lh_loop *loop = arg;
    struct lh_loop_link *link = lh_rpc_link_data(rpc); /* id and method do not change any more */
    struct lh_dispatch *d = lh_dispatch_begin(loop);
    ProtobufCMessage *message;
    struct lh_buf payload;

    int error = lh_wire_decode(link->method, lh_loop_link_served(link) ? LH_REQUEST : LH_REPLY,
        &bytes, &message, &payload);
    lh_buf_clear(&bytes);
    if (error == LH_OK)
        error = arrive(loop, link, &message, &payload);
    if (error != LH_OK && error != LH_ERR_WOULD_BLOCK) {
        end_refused(loop, d, rpc, error);
        return;
    }
    struct lh_input *in = lh_dispatch_input(d, error == LH_OK ? LH_IN_MESSAGE : LH_IN_PROGRESS);
    in->link = link->id;
    in->method = link->method;
    if (error == LH_OK) {
        in->message = message;
        in->payload = payload;
        in->identity = lh_rpc_link_identity(rpc);
    }
    lh_dispatch_run(loop, d);
}

/* An input about a link alone. */
static void tell_of_link(void *arg, struct lh_rpc_link *rpc, enum lh_input_kind kind)
{
    struct lh_loop *loop = arg;
    struct lh_loop_link *link = lh_rpc_link_data(rpc);
    struct lh_dispatch *d = lh_dispatch_begin(loop);

    lh_dispatch_lock(loop);
    if (link->known) {
        struct lh_input *in = lh_dispatch_input(d, kind);
        in->link = link->id;
        in->method = link->method;
    }
    lh_dispatch_run_locked(loop, d);
}

static void on_sent(void *arg, struct lh_rpc_link *rpc)
{
    tell_of_link(arg, rpc, LH_IN_SENT);
}

static void on_half_closed(void *arg, struct lh_rpc_link *rpc)
{
    const struct lh_loop_link *link = lh_rpc_link_data(rpc);

    if (link->arrival.first != NULL) /* and the rest will never come */
        end_refused(arg, lh_dispatch_begin(arg), rpc, LH_ERR_MALFORMED);
    else
        tell_of_link(arg, rpc, LH_IN_HALF_CLOSED);
}

static void on_released(void *arg, struct lh_rpc_link *rpc)
{
    struct lh_loop_link *link = lh_rpc_link_data(rpc);

    (void)arg;
    atomic_fetch_sub(&arriving, link->arrival.payload.size);
    lh_wire_arrival_deinit(&link->arrival);
}

static void on_closed(void *arg, struct lh_rpc_link *rpc, int error, const char *text)
{
    struct lh_loop *loop = arg;
    struct lh_loop_link *link = lh_rpc_link_data(rpc);
    struct lh_dispatch *d = lh_dispatch_begin(loop);

    lh_dispatch_lock(loop);
    if (link->known) {
        struct lh_input *in = lh_dispatch_input(d, LH_IN_LINK_CLOSED);
        in->link = link->id;
        in->method = link->method;
        in->error = error;
        in->text = text;
        lh_loop_forget_link(loop, link);
    }
    lh_dispatch_run_locked(loop, d);
}

/* ---- the other inputs ---- */

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

void lh_loop_network_figures(const struct lh_loop *loop, struct lh_rpc_figures *figures)
{
    lh_rpc_figures(loop->rpc, figures);
}

void lh_loop_housekeep(struct lh_loop *loop)
{
    lh_rpc_housekeep(loop->rpc);
}

void lh_loop_set_serving(struct lh_loop *loop, bool server, bool services)
{
    lh_rpc_set_serving(loop->rpc, server, services);
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

static bool is_served_stream(const struct lh_loop_link *link)
{
    const struct lh_method_info *info = lh_method_info(link->method);

    return lh_loop_link_served(link) && (info->request_stream || info->reply_stream);
}

void lh_loop_end_streams(struct lh_loop *loop, bool (*over)(void *arg, const char *identity),
    void *arg, const char *text)
{
    struct lh_dispatch *d = lh_dispatch_begin(loop);
    struct lh_loop_link *link, *next;

    lh_dispatch_lock(loop);
    HASH_ITER(hh, loop->links, link, next) {
        if (!is_served_stream(link) || !over(arg, lh_rpc_link_identity(link->rpc)))
            continue;
        lh_dispatch_end_link(loop, d, link, LH_ERR_UNAVAILABLE, text);
    }
    lh_dispatch_run_locked(loop, d);
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

static void log_network(enum lh_level level, const char *text)
{
    lh_log(level, "network", "%s", text);
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
        int error = lh_error_from_errno(errno);
        snprintf(why, why_size, "cannot make a timer: %s", strerror(errno));
        loop_free(loop);
        return error;
    }
    struct lh_rpc_config rpc = {
        .listen = config->listen,
        .threads = config->threads,
        .keepalive = config->keepalive,
        .keepalive_timeout = config->keepalive_timeout,
        .connect_timeout = config->connect_timeout,
        .grace = config->grace,
        .services = config->services,
        .calls_max = config->calls_max,
        .peer_calls_max = config->peer_calls_max,
        .peer_unsent_max = config->peer_unsent_max,
        .handshake_timeout = config->handshake_timeout,
        .idle_timeout = config->idle_timeout,
        .request_timeout = config->request_timeout,
        .memory_max = config->memory_max,
        .unsent_max = config->unsent_max,
        .served_message_max = config->served_message_max,
        .tls = config->tls,
        .foreign_tls = config->foreign_tls,
        .may_answer = lh_loop_may_answer,
        .log = log_network,
        .link_data_size = sizeof(struct lh_loop_link),
        .arg = loop,
        .on_opened = on_opened,
        .on_message = on_message,
        .on_half_closed = on_half_closed,
        .on_sent = on_sent,
        .on_closed = on_closed,
        .on_released = on_released,
    };
    int error = lh_rpc_create(&rpc, &loop->rpc, why, why_size);
    if (error != LH_OK) {
        loop_free(loop);
        return error;
    }
    if (config->disk != NULL)
        lh_disk_on_done(config->disk, on_disk_done, loop);
    *out = loop;
    return LH_OK;
}

struct lh_tls *lh_loop_tls(const struct lh_loop *loop)
{
    return lh_rpc_tls(loop->rpc);
}

int lh_loop_port(const struct lh_loop *loop)
{
    return lh_rpc_port(loop->rpc);
}

void lh_loop_start(struct lh_loop *loop)
{
    LH_ASSERT(!loop->started);
    loop->started = true;
    int e = pthread_create(&loop->timer_thread, NULL, timer_main, loop);
    LH_ASSERT(e == 0);
    struct lh_dispatch *d = lh_dispatch_begin(loop);
    lh_dispatch_input(d, LH_IN_TIMER);
    lh_dispatch_run(loop, d);
    lh_rpc_start(loop->rpc);
}

static void stop_timer(struct lh_loop *loop)
{
    struct itimerspec soon = {.it_value = {.tv_nsec = 1}};

    atomic_store(&loop->ending, true);
    timerfd_settime(loop->timer_fd, 0, &soon, NULL);
    pthread_join(loop->timer_thread, NULL);
}

/* Cuts one link that the core has not closed. False: there is none. */
static bool cut_link(struct lh_loop *loop)
{
    lh_dispatch_lock(loop);
    struct lh_loop_link *link = loop->links;
    struct lh_rpc_link *rpc = link == NULL ? NULL : link->rpc;
    if (rpc != NULL) {
        lh_rpc_link_ref(rpc);
        lh_loop_forget_link(loop, link);
    }
    pthread_mutex_unlock(&loop->lock);
    if (rpc == NULL)
        return false;
    lh_rpc_link_close(rpc, LH_ERR_SHUTTING_DOWN, NULL);
    lh_rpc_link_flush(rpc);
    lh_rpc_link_unref(rpc);
    return true;
}

void lh_loop_destroy(struct lh_loop *loop)
{
    if (loop == NULL)
        return;
    lh_dispatch_lock(loop);
    loop->stopped = true;
    pthread_mutex_unlock(&loop->lock);
    if (loop->started)
        stop_timer(loop);
    /* Once before the rpc goes, so that no disk thread is still flushing links, and once after, as
     * the rpc's threads may have submitted more. */
    if (loop->config.disk != NULL)
        lh_disk_drain(loop->config.disk);
    while (cut_link(loop))
        ;
    lh_rpc_destroy(loop->rpc);
    if (loop->config.disk != NULL) {
        lh_disk_drain(loop->config.disk);
        lh_disk_on_done(loop->config.disk, NULL, NULL);
    }
    loop_free(loop);
}
