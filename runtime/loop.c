/* A *turn* is what one thread does with one or more inputs: feed them under the lock, carry out
 * what costs system calls after it (links to flush, disk operations), feed what came of that, and
 * so on until nothing is left. Several threads may be in turns at once; only feeding excludes each
 * other.
 *
 * The order of effects is kept where it can be seen: sends of one link are queued under the lock;
 * commits, completions and log lines go through the outbox in the order of their emission. Disk
 * operations have none among each other but through their completions (base/step.h). */
#include "runtime/loop.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "proto/codec.h"
#include "rpc/rpc.h"
#include "runtime/disk.h"
#include "runtime/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

/* The loop's part of an rpc link. Fields but `dirty` are under the loop's lock. */
struct link {
    uint64_t id;
    enum lh_method method;
    bool known;         /* in the table: the core may name it and hears of it */
    bool held;          /* LH_FX_HOLD */
    bool reading;       /* asked for a message that has not been fed yet */
    _Atomic bool dirty; /* some turn will flush it */
    struct lh_rpc_link *rpc;
    UT_hash_handle hh;
};

struct inputs {
    struct lh_input *items;
    size_t count, capacity;
};

struct turn {
    struct inputs inputs;
    struct lh_effects fx;
    struct lh_rpc_link **flush; /* each with a reference */
    size_t flush_count, flush_capacity;
    struct lh_disk_io *first_io, **last_io;
};

/* What waits in the outbox. */
struct parcel {
    enum lh_effect_kind kind;
    enum lh_level level;
    int error;
    uint64_t ticket;
    void *call;
    char *text;
    struct lh_change *changes;
    size_t change_count;
};

struct outbox {
    struct parcel *items;
    size_t count, capacity;
};

#define SPARE_TURNS 4

struct lh_loop {
    struct lh_loop_config config;
    struct lh_rpc *rpc;
    int timer_fd;
    pthread_t timer_thread;
    bool started;
    _Atomic(struct turn *) spare[SPARE_TURNS];

    pthread_mutex_t lock;
    struct link *links;
    uint64_t served_count;
    struct lh_instant armed; /* when the timer thread will next wake */
    struct outbox outbox;    /* filled under the lock ... */
    struct outbox sending;   /* ... emptied by the one thread that set `delivering` */
    bool delivering;
    _Atomic bool outbox_waits; /* something was put in and may not have been delivered */
    bool stop_asked;
    bool stopped; /* the core emitted STOPPED, or the loop is being destroyed: nothing is fed */
    bool stopped_told;
    int stop_error;
    pthread_cond_t stopped_changed;
    _Atomic bool ending;
};

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

void lh_changes_free(struct lh_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(changes[i].key);
        free(changes[i].value);
    }
    free(changes);
}

/* ---- turns ---- */

static struct turn *turn_begin(struct lh_loop *loop)
{
    for (int i = 0; i < SPARE_TURNS; i++) {
        struct turn *t = atomic_exchange_explicit(&loop->spare[i], NULL, memory_order_acquire);
        if (t != NULL)
            return t;
    }
    struct turn *t = lh_alloc(sizeof *t);
    t->last_io = &t->first_io;
    return t;
}

static void turn_free(struct turn *t)
{
    if (t == NULL)
        return;
    free(t->inputs.items);
    free(t->flush);
    lh_effects_deinit(&t->fx);
    free(t);
}

static void turn_end(struct lh_loop *loop, struct turn *t)
{
    for (int i = 0; i < SPARE_TURNS; i++) {
        struct turn *none = NULL;
        if (atomic_compare_exchange_strong_explicit(
                &loop->spare[i], &none, t, memory_order_release, memory_order_relaxed))
            return;
    }
    turn_free(t);
}

/* Adds a zeroed input; valid until the next one is added. */
static struct lh_input *turn_input(struct turn *t, enum lh_input_kind kind)
{
    LH_GROW(t->inputs.items, t->inputs.capacity, t->inputs.count + 1);
    struct lh_input *in = &t->inputs.items[t->inputs.count++];
    memset(in, 0, sizeof *in);
    in->kind = kind;
    return in;
}

/* ---- carrying out, under the lock ---- */

static void must_flush(struct turn *t, struct link *link)
{
    if (atomic_exchange(&link->dirty, true))
        return;
    lh_rpc_link_ref(link->rpc);
    LH_GROW(t->flush, t->flush_capacity, t->flush_count + 1);
    t->flush[t->flush_count++] = link->rpc;
}

static struct link *find(struct lh_loop *loop, uint64_t id)
{
    struct link *link;

    HASH_FIND(hh, loop->links, &id, sizeof id, link);
    return link;
}

/* The table holds the owner's reference. */
static struct link *enter_link(
    struct lh_loop *loop, struct lh_rpc_link *rpc, uint64_t id, enum lh_method method)
{
    struct link *link = lh_rpc_link_data(rpc);

    link->id = id;
    link->method = method;
    link->rpc = rpc;
    link->known = true;
    HASH_ADD(hh, loop->links, id, sizeof link->id, link);
    return link;
}

static void forget_link(struct lh_loop *loop, struct link *link)
{
    HASH_DEL(loop->links, link);
    link->known = false;
    lh_rpc_link_unref(link->rpc);
}

static bool served(const struct link *link)
{
    return (link->id & LH_LINK_SERVED) != 0;
}

static void want_message(struct turn *t, struct link *link)
{
    link->reading = true;
    lh_rpc_link_read(link->rpc);
    must_flush(t, link);
}

static void open_link(struct lh_loop *loop, struct turn *t, const struct lh_effect *e)
{
    LH_ASSERT((e->link & LH_LINK_SERVED) == 0 && find(loop, e->link) == NULL);
    struct lh_rpc_link *rpc = lh_rpc_link_open(loop->rpc, e->method, e->text, e->timeout);
    want_message(t, enter_link(loop, rpc, e->link, e->method));
}

static void carry_out_link(struct lh_loop *loop, struct turn *t, struct lh_effect *e)
{
    struct link *link = find(loop, e->link);

    if (link == NULL) /* it ended, which the core did not know yet */
        return;
    switch (e->kind) {
    case LH_FX_SEND:
        lh_rpc_link_send(
            link->rpc, lh_wire_encode(link->method, served(link) ? LH_REPLY : LH_REQUEST,
                           &e->header, &e->payload));
        must_flush(t, link);
        break;
    case LH_FX_CLOSE:
        lh_rpc_link_close(link->rpc, e->error, e->text);
        must_flush(t, link);
        forget_link(loop, link);
        break;
    case LH_FX_HOLD:
        link->held = true;
        break;
    case LH_FX_UNHOLD:
        if (link->held && !link->reading)
            want_message(t, link);
        link->held = false;
        break;
    default:
        LH_UNREACHABLE();
    }
}

static void begin_disk(struct lh_loop *loop, struct turn *t, struct lh_effect *e)
{
    LH_ASSERT(loop->config.disk != NULL);
    struct lh_disk_io *io = lh_alloc(sizeof *io);

    io->ticket = e->ticket;
    io->file = e->file;
    io->op = e->op;
    io->offset = e->offset;
    io->length = e->length;
    io->data = lh_buf_take(&e->payload);
    *t->last_io = io;
    t->last_io = &io->next;
}

static void post(struct lh_loop *loop, struct lh_effect *e)
{
    struct outbox *o = &loop->outbox;

    LH_GROW(o->items, o->capacity, o->count + 1);
    o->items[o->count++] = (struct parcel){
        .kind = e->kind,
        .level = e->level,
        .error = e->error,
        .ticket = e->ticket,
        .call = e->call,
        .text = e->text,
        .changes = e->changes,
        .change_count = e->change_count,
    };
    atomic_store(&loop->outbox_waits, true);
    e->text = NULL;
    e->changes = NULL;
    e->change_count = 0;
}

static void carry_out_locked(struct lh_loop *loop, struct turn *t)
{
    for (size_t i = 0; i < t->fx.count; i++) {
        struct lh_effect *e = &t->fx.items[i];
        switch (e->kind) {
        case LH_FX_OPEN:
            open_link(loop, t, e);
            break;
        case LH_FX_SEND:
        case LH_FX_CLOSE:
        case LH_FX_HOLD:
        case LH_FX_UNHOLD:
            carry_out_link(loop, t, e);
            break;
        case LH_FX_DISK:
            begin_disk(loop, t, e);
            break;
        case LH_FX_STOPPED:
            loop->stopped = true;
            loop->stop_error = e->error;
            post(loop, e);
            break;
        case LH_FX_PERSIST:
        case LH_FX_COMPLETE:
        case LH_FX_LOG:
            post(loop, e);
            break;
        }
    }
    lh_effects_clear(&t->fx);
}

/* ---- feeding, under the lock ---- */

/* After a message was fed: asks for the next one, unless the core holds the link or there cannot be
 * another one. */
static void message_fed(struct lh_loop *loop, struct turn *t, uint64_t id)
{
    struct link *link = find(loop, id);

    if (link == NULL)
        return;
    const struct lh_method_info *info = lh_method_info(link->method);
    bool more = served(link) ? info->request_stream : info->reply_stream;
    link->reading = false;
    if (more && !link->held)
        want_message(t, link);
}

static void rearm_timer(struct lh_loop *loop)
{
    struct lh_instant deadline = loop->config.core.deadline(loop->config.core.self);

    /* A later deadline is left to be found out when the earlier one has come. */
    if (!lh_instant_before(deadline, loop->armed))
        return;
    loop->armed = deadline;
    struct itimerspec at = {.it_value = {
                                .tv_sec = (time_t)(deadline.ns / 1000000000u),
                                .tv_nsec = (long)(deadline.ns % 1000000000u),
                            }};
    if (deadline.ns == 0)
        at.it_value.tv_nsec = 1; /* all zero would disarm */
    int e = timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    LH_ASSERT(e == 0);
}

static void feed_locked(struct lh_loop *loop, struct turn *t)
{
    uint64_t wall_ms = lh_clock_wall_ms();

    for (size_t i = 0; i < t->inputs.count && !loop->stopped; i++) {
        struct lh_input *in = &t->inputs.items[i];
        if (in->kind == LH_IN_MESSAGE && find(loop, in->link) == NULL)
            continue; /* the core closed the link while this was on its way */
        in->now = lh_clock_now();
        in->wall_ms = wall_ms;
        loop->config.core.step(loop->config.core.self, in, &t->fx);
        carry_out_locked(loop, t);
        if (in->kind == LH_IN_MESSAGE)
            message_fed(loop, t, in->link);
    }
    if (!loop->stopped)
        rearm_timer(loop);
}

/* ---- carrying out, without the lock ---- */

static void release_inputs(struct turn *t)
{
    for (size_t i = 0; i < t->inputs.count; i++) {
        struct lh_input *in = &t->inputs.items[i];
        lh_buf_clear(&in->payload);
        if (in->kind == LH_IN_MESSAGE)
            lh_wire_free((ProtobufCMessage *)(uintptr_t)in->message);
    }
    t->inputs.count = 0;
}

static void disk_input(struct turn *t, struct lh_disk_io *io)
{
    struct lh_input *in = turn_input(t, LH_IN_DISK);

    in->ticket = io->ticket;
    in->file = io->file;
    in->op = io->op;
    in->error = io->error;
    in->payload = lh_buf_take(&io->data);
    free(io);
}

static void flush_links(struct turn *t)
{
    for (size_t i = 0; i < t->flush_count; i++) {
        struct link *link = lh_rpc_link_data(t->flush[i]);
        /* Cleared first: what is sent from here on is either seen by this flush or brings its own.
         */
        atomic_store(&link->dirty, false);
        lh_rpc_link_flush(t->flush[i]);
        lh_rpc_link_unref(t->flush[i]);
    }
    t->flush_count = 0;
}

static void submit_disk(struct lh_loop *loop, struct turn *t)
{
    struct lh_disk_io *io = t->first_io;

    t->first_io = NULL;
    t->last_io = &t->first_io;
    while (io != NULL) {
        struct lh_disk_io *next = io->next;
        io->next = NULL;
        if (lh_disk_submit(loop->config.disk, io))
            disk_input(t, io);
        io = next;
    }
}

static void tell_stopped(struct lh_loop *loop, int error)
{
    if (loop->config.on_stopped != NULL)
        loop->config.on_stopped(loop->config.arg, error);
    pthread_mutex_lock(&loop->lock);
    loop->stopped_told = true;
    pthread_cond_broadcast(&loop->stopped_changed);
    pthread_mutex_unlock(&loop->lock);
}

static void deliver(struct lh_loop *loop, struct parcel *p)
{
    switch (p->kind) {
    case LH_FX_COMPLETE:
        loop->config.on_complete(loop->config.arg, p->call, p->error);
        break;
    case LH_FX_PERSIST:
        LH_ASSERT(loop->config.persist != NULL);
        loop->config.persist(loop->config.store, p->ticket, p->changes, p->change_count);
        break;
    case LH_FX_LOG:
        lh_log(p->level, loop->config.name, "%s", p->text);
        break;
    case LH_FX_STOPPED:
        tell_stopped(loop, p->error);
        break;
    default:
        LH_UNREACHABLE();
    }
    free(p->text);
}

/* Empties the outbox, unless another thread is at it: that one will come to what we put in. With
 * the lock held, which is released while callbacks run. */
static void empty_outbox(struct lh_loop *loop)
{
    if (loop->delivering)
        return;
    loop->delivering = true;
    while (loop->outbox.count > 0) {
        struct outbox full = loop->outbox;
        loop->outbox = loop->sending;
        loop->outbox.count = 0;
        loop->sending = (struct outbox){0};
        pthread_mutex_unlock(&loop->lock);
        for (size_t i = 0; i < full.count; i++)
            deliver(loop, &full.items[i]);
        pthread_mutex_lock(&loop->lock);
        loop->sending = full;
    }
    atomic_store(&loop->outbox_waits, false);
    loop->delivering = false;
}

/* Feeds the turn's inputs and carries out what comes of it, until there is nothing left. With the
 * lock held, which it releases. */
static void run_locked(struct lh_loop *loop, struct turn *t)
{
    for (;;) {
        feed_locked(loop, t);
        pthread_mutex_unlock(&loop->lock);
        release_inputs(t);
        flush_links(t);
        submit_disk(loop, t);
        if (t->inputs.count == 0 && !atomic_load(&loop->outbox_waits))
            break;
        pthread_mutex_lock(&loop->lock);
        if (t->inputs.count > 0)
            continue;
        empty_outbox(loop);
        pthread_mutex_unlock(&loop->lock);
        break;
    }
    turn_end(loop, t);
}

static void run(struct lh_loop *loop, struct turn *t)
{
    pthread_mutex_lock(&loop->lock);
    run_locked(loop, t);
}

/* ---- inputs from the network ---- */

static void on_opened(void *arg, struct lh_rpc_link *rpc, enum lh_method method, const char *peer)
{
    struct lh_loop *loop = arg;
    struct turn *t = turn_begin(loop);
    struct lh_input *in = turn_input(t, LH_IN_LINK_OPENED);

    in->method = method;
    in->text = peer;
    pthread_mutex_lock(&loop->lock);
    if (loop->stopped) {
        pthread_mutex_unlock(&loop->lock);
        lh_rpc_link_close(rpc, LH_ERR_SHUTTING_DOWN, NULL);
        lh_rpc_link_flush(rpc);
        lh_rpc_link_unref(rpc);
        t->inputs.count = 0;
        turn_end(loop, t);
        return;
    }
    in->link = LH_LINK_SERVED | ++loop->served_count;
    /* Read even if the core holds the link at once: one message may always arrive. */
    want_message(t, enter_link(loop, rpc, in->link, method));
    run_locked(loop, t);
}

/* A link whose peer sent what is no message of its method: the end, for both sides. */
static void end_malformed(struct lh_loop *loop, struct turn *t, struct lh_rpc_link *rpc)
{
    struct link *link = lh_rpc_link_data(rpc);
    char text[160];

    pthread_mutex_lock(&loop->lock);
    bool known = link->known;
    if (known) {
        bool request = served(link);
        snprintf(text, sizeof text, "%s: not a %s message", lh_method_info(link->method)->path,
            request ? "request" : "reply");
        struct lh_input *in = turn_input(t, LH_IN_LINK_CLOSED);
        in->link = link->id;
        in->method = link->method;
        in->error = LH_ERR_MALFORMED;
        in->text = text;
        lh_rpc_link_close(rpc, LH_ERR_MALFORMED, text);
        must_flush(t, link);
        forget_link(loop, link);
    }
    run_locked(loop, t);
}

static void on_message(void *arg, struct lh_rpc_link *rpc, struct lh_buf bytes)
{
    struct lh_loop *loop = arg;
    struct link *link = lh_rpc_link_data(rpc); /* id and method do not change any more */
    struct turn *t = turn_begin(loop);
    ProtobufCMessage *message;
    struct lh_buf payload;

    int error = lh_wire_decode(
        link->method, served(link) ? LH_REQUEST : LH_REPLY, &bytes, &message, &payload);
    lh_buf_clear(&bytes);
    if (error != LH_OK) {
        end_malformed(loop, t, rpc);
        return;
    }
    struct lh_input *in = turn_input(t, LH_IN_MESSAGE);
    in->link = link->id;
    in->method = link->method;
    in->message = message;
    in->payload = payload;
    run(loop, t);
}

static void on_closed(void *arg, struct lh_rpc_link *rpc, int error, const char *text)
{
    struct lh_loop *loop = arg;
    struct link *link = lh_rpc_link_data(rpc);
    struct turn *t = turn_begin(loop);

    pthread_mutex_lock(&loop->lock);
    if (link->known) {
        struct lh_input *in = turn_input(t, LH_IN_LINK_CLOSED);
        in->link = link->id;
        in->method = link->method;
        in->error = error;
        in->text = text;
        forget_link(loop, link);
    }
    run_locked(loop, t);
}

/* ---- the other inputs ---- */

static void on_disk_done(void *arg, struct lh_disk_io *first)
{
    struct lh_loop *loop = arg;
    struct turn *t = turn_begin(loop);

    while (first != NULL) {
        struct lh_disk_io *next = first->next;
        disk_input(t, first);
        first = next;
    }
    run(loop, t);
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
        struct turn *t = turn_begin(loop);
        turn_input(t, LH_IN_TIMER);
        pthread_mutex_lock(&loop->lock);
        loop->armed = LH_INSTANT_NEVER;
        run_locked(loop, t);
    }
}

bool lh_loop_call(struct lh_loop *loop, void *call)
{
    struct turn *t = turn_begin(loop);

    turn_input(t, LH_IN_CALL)->call = call;
    pthread_mutex_lock(&loop->lock);
    bool take = !loop->stopped;
    if (!take)
        t->inputs.count = 0;
    run_locked(loop, t);
    return take;
}

void lh_loop_persisted(struct lh_loop *loop, uint64_t ticket, int error)
{
    struct turn *t = turn_begin(loop);
    struct lh_input *in = turn_input(t, LH_IN_PERSISTED);

    in->ticket = ticket;
    in->error = error;
    run(loop, t);
}

void lh_loop_lock(struct lh_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
}

void lh_loop_unlock(struct lh_loop *loop)
{
    pthread_mutex_unlock(&loop->lock);
}

void lh_loop_set_serving(struct lh_loop *loop, bool serving)
{
    lh_rpc_set_serving(loop->rpc, serving);
}

void lh_loop_stop(struct lh_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool first = !loop->stop_asked;
    loop->stop_asked = true;
    if (!first) {
        pthread_mutex_unlock(&loop->lock);
        return;
    }
    struct turn *t = turn_begin(loop);
    turn_input(t, LH_IN_STOP);
    run_locked(loop, t);
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

    pthread_mutex_lock(&loop->lock);
    while (!loop->stopped_told && waited == 0)
        waited = pthread_cond_timedwait(&loop->stopped_changed, &loop->lock, &until);
    int error = loop->stopped_told ? loop->stop_error : LH_ERR_DEADLINE_EXCEEDED;
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

static void loop_free(struct lh_loop *loop)
{
    for (int i = 0; i < SPARE_TURNS; i++)
        turn_free(atomic_load(&loop->spare[i]));
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
        .health_service = config->health_service,
        .link_data_size = sizeof(struct link),
        .arg = loop,
        .on_opened = on_opened,
        .on_message = on_message,
        .on_closed = on_closed,
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
    struct turn *t = turn_begin(loop);
    turn_input(t, LH_IN_TIMER);
    run(loop, t);
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
    pthread_mutex_lock(&loop->lock);
    struct link *link = loop->links;
    struct lh_rpc_link *rpc = link == NULL ? NULL : link->rpc;
    if (rpc != NULL) {
        lh_rpc_link_ref(rpc);
        forget_link(loop, link);
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
    pthread_mutex_lock(&loop->lock);
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
