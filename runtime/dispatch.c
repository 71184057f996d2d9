/* A *dispatch* is what one thread does with one or more inputs: feed them under the lock, carry out
 * what costs system calls after it (links to flush, disk operations), feed what came of that, and
 * so on until nothing is left. Several threads may dispatch at once; only feeding excludes each
 * other.
 *
 * The order of effects is kept where it can be seen: sends of one link are queued under the lock;
 * commits, completions and log lines go through the outbox in the order of their emission. Disk
 * operations have none among each other but through their completions (base/step.h). */
#include "runtime/dispatch.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>

/* ---- Dispatches ---- */

/* The round that this thread is in, and what its dispatches have gathered so far. */
static _Thread_local struct {
    struct lh_loop *loop;
    struct lh_dispatch *dispatch;
} in_round;

static bool is_in_round(const struct lh_loop *loop, const struct lh_dispatch *d)
{
    return in_round.loop == loop && in_round.dispatch == d;
}

struct lh_dispatch *lh_dispatch_begin(struct lh_loop *loop)
{
    if (in_round.loop == loop)
        return in_round.dispatch;
    for (int i = 0; i < DISPATCHES_KEPT; i++) {
        struct lh_dispatch *d =
            atomic_exchange_explicit(&loop->spare[i], NULL, memory_order_acquire);
        if (d != NULL)
            return d;
    }
    struct lh_dispatch *d = lh_alloc(sizeof *d);
    d->last_io = &d->first_io;
    return d;
}

void lh_dispatch_free(struct lh_dispatch *d)
{
    if (d == NULL)
        return;
    free(d->inputs.items);
    free(d->flush);
    lh_effects_deinit(&d->fx);
    free(d);
}

/* A step with an effect for each of thousands of leases makes megabytes of them: not kept. */
static bool is_small(const struct lh_dispatch *d)
{
    return d->fx.capacity <= ITEMS_KEPT && d->inputs.capacity <= ITEMS_KEPT &&
           d->flush_capacity <= ITEMS_KEPT;
}

void lh_dispatch_end(struct lh_loop *loop, struct lh_dispatch *d)
{
    if (is_in_round(loop, d))
        return;
    for (int i = 0; i < DISPATCHES_KEPT && is_small(d); i++) {
        struct lh_dispatch *none = NULL;
        if (atomic_compare_exchange_strong_explicit(
                &loop->spare[i], &none, d, memory_order_release, memory_order_relaxed))
            return;
    }
    lh_dispatch_free(d);
}

/* Adds a zeroed input; valid until the next one is added. */
struct lh_input *lh_dispatch_input(struct lh_dispatch *d, enum lh_input_kind kind)
{
    LH_GROW(d->inputs.items, d->inputs.capacity, d->inputs.count + 1);
    struct lh_input *in = &d->inputs.items[d->inputs.count++];
    memset(in, 0, sizeof *in);
    in->kind = kind;
    return in;
}

/* ---- carrying out, under the lock ---- */

void lh_dispatch_flush_link(struct lh_dispatch *d, struct lh_loop_link *link)
{
    if (atomic_exchange(&link->dirty, true))
        return;
    lh_transport_link_ref(link->carrier);
    LH_GROW(d->flush, d->flush_capacity, d->flush_count + 1);
    d->flush[d->flush_count++] = link->carrier;
}

static struct lh_loop_link *find(struct lh_loop *loop, uint64_t id)
{
    struct lh_loop_link *link;

    HASH_FIND(hh, loop->links, &id, sizeof id, link);
    return link;
}

/* The table holds the owner's reference. */
struct lh_loop_link *lh_loop_enter_link(
    struct lh_loop *loop, struct lh_transport_link *carrier, uint64_t id, enum lh_method method)
{
    struct lh_loop_link *link = lh_transport_link_data(carrier);

    link->id = id;
    link->method = method;
    link->carrier = carrier;
    link->known = true;
    HASH_ADD(hh, loop->links, id, sizeof link->id, link);
    return link;
}

void lh_loop_forget_link(struct lh_loop *loop, struct lh_loop_link *link)
{
    HASH_DEL(loop->links, link);
    link->known = false;
    lh_transport_link_unref(link->carrier);
}

void lh_dispatch_end_link(struct lh_loop *loop, struct lh_dispatch *d, struct lh_loop_link *link,
    int error, const char *text)
{
    struct lh_input *in = lh_dispatch_input(d, LH_IN_LINK_CLOSED);

    in->link = link->id;
    in->method = link->method;
    in->error = error;
    in->text = text;
    lh_transport_link_close(link->carrier, error, text);
    lh_dispatch_flush_link(d, link);
    lh_loop_forget_link(loop, link);
}

void lh_dispatch_want_message(struct lh_dispatch *d, struct lh_loop_link *link)
{
    link->reading = true;
    lh_transport_link_read(link->carrier);
    lh_dispatch_flush_link(d, link);
}

static void open_link(struct lh_loop *loop, struct lh_dispatch *d, const struct lh_effect *e)
{
    LH_ASSERT((e->link & LH_LINK_SERVED) == 0 && find(loop, e->link) == NULL);
    struct lh_transport_link *carrier =
        lh_transport_link_open(loop->transport, e->method, e->text, e->timeout);
    if (e->token != NULL)
        lh_transport_link_set_token(carrier, e->token);
    lh_dispatch_want_message(d, lh_loop_enter_link(loop, carrier, e->link, e->method));
}

static void put_message(void *carrier, struct lh_buf bytes, bool last)
{
    (void)last;
    lh_transport_link_send(carrier, bytes);
}

/* The core sent one message, however many go on the wire for it. */
static void put_told(void *carrier, struct lh_buf bytes, bool last)
{
    lh_transport_link_put(carrier, bytes, last);
}

static void carry_out_link(struct lh_loop *loop, struct lh_dispatch *d, struct lh_effect *e)
{
    struct lh_loop_link *link = find(loop, e->link);

    if (link == NULL) /* it ended, which the core did not know yet */
        return;
    switch (e->kind) {
    case LH_FX_SEND:
        lh_wire_send(link->method, lh_loop_link_served(link) ? LH_REPLY : LH_REQUEST, &e->header,
            &e->payload, loop->config.alone_bytes, loop->config.piece_bytes,
            e->notify ? put_told : put_message, link->carrier);
        lh_dispatch_flush_link(d, link);
        break;
    case LH_FX_CLOSE:
        lh_transport_link_close(link->carrier, e->error, e->text);
        lh_dispatch_flush_link(d, link);
        lh_loop_forget_link(loop, link);
        break;
    case LH_FX_HOLD:
        link->held = true;
        break;
    case LH_FX_UNHOLD:
        if (link->held && !link->reading)
            lh_dispatch_want_message(d, link);
        link->held = false;
        break;
    default:
        LH_UNREACHABLE();
    }
}

static void begin_disk(struct lh_loop *loop, struct lh_dispatch *d, struct lh_effect *e)
{
    LH_ASSERT(loop->config.disk != NULL);
    struct lh_disk_io *io = lh_alloc(sizeof *io);

    io->ticket = e->ticket;
    io->file = e->file;
    io->op = e->op;
    io->offset = e->offset;
    io->length = e->length;
    io->data = lh_buf_take(&e->payload);
    io->for_reply = e->for_reply;
    *d->last_io = io;
    d->last_io = &io->next;
}

static void carry_out_locked(struct lh_loop *loop, struct lh_dispatch *d)
{
    for (size_t i = 0; i < d->fx.count; i++) {
        struct lh_effect *e = &d->fx.items[i];
        switch (e->kind) {
        case LH_FX_OPEN:
            open_link(loop, d, e);
            break;
        case LH_FX_SEND:
        case LH_FX_CLOSE:
        case LH_FX_HOLD:
        case LH_FX_UNHOLD:
            carry_out_link(loop, d, e);
            break;
        case LH_FX_DISK:
            begin_disk(loop, d, e);
            break;
        case LH_FX_STOPPED:
            loop->stopped = true;
            loop->stop_error = e->error;
            lh_outbox_post(loop, e);
            break;
        case LH_FX_PERSIST:
        case LH_FX_COMPLETE:
        case LH_FX_LOG:
            lh_outbox_post(loop, e);
            break;
        }
    }
    lh_effects_clear(&d->fx);
}

/* ---- feeding, under the lock ---- */

static bool about_a_message(const struct lh_input *in)
{
    return in->kind == LH_IN_MESSAGE || in->kind == LH_IN_PROGRESS;
}

/* After a message or a piece of one was fed: asks for the next one, unless the core holds the link
 * or there cannot be another one. */
static void message_fed(struct lh_loop *loop, const struct lh_input *in)
{
    struct lh_loop_link *link = find(loop, in->link);

    if (link == NULL)
        return;
    const struct lh_method_info *info = lh_method_info(link->method);
    bool more = lh_loop_link_served(link) ? info->request_stream : info->reply_stream;
    link->reading = (more || in->kind == LH_IN_PROGRESS) && !link->held;
    /* Not flushed here: the transport does so when its callback is over. gRPC answers each read
     * with a window update, a system call of its own: it comes after what this message caused. */
    if (link->reading)
        lh_transport_link_read(link->carrier);
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

/* Most pieces are no news: the core was told of one just now. */
static bool is_news(struct lh_loop *loop, const struct lh_input *in)
{
    struct lh_loop_link *link = find(loop, in->link);
    struct lh_instant notified = link->progress_notified;

    if (in->kind == LH_IN_MESSAGE) {
        link->progress_notified = (struct lh_instant){0};
        return true;
    }
    if (notified.ns != 0 &&
        lh_instant_until(notified, in->now).ns < loop->config.progress_interval.ns)
        return false;
    link->progress_notified = in->now;
    return true;
}

static void feed_locked(struct lh_loop *loop, struct lh_dispatch *d)
{
    uint64_t wall_ms = lh_clock_wall_ms();

    for (size_t i = 0; i < d->inputs.count && !loop->stopped; i++) {
        struct lh_input *in = &d->inputs.items[i];
        if (about_a_message(in) && find(loop, in->link) == NULL)
            continue; /* the core closed the link while this was on its way */
        in->now = lh_clock_now();
        in->wall_ms = wall_ms;
        if (!about_a_message(in) || is_news(loop, in)) {
            loop->config.core.step(loop->config.core.self, in, &d->fx);
            carry_out_locked(loop, d);
        }
        if (about_a_message(in))
            message_fed(loop, in);
    }
    if (!loop->stopped)
        rearm_timer(loop);
}

/* ---- carrying out, without the lock ---- */

static void release_inputs(struct lh_dispatch *d)
{
    for (size_t i = 0; i < d->inputs.count; i++) {
        struct lh_input *in = &d->inputs.items[i];
        lh_buf_clear(&in->payload);
        if (in->kind == LH_IN_MESSAGE)
            lh_wire_free((ProtobufCMessage *)(uintptr_t)in->message);
    }
    d->inputs.count = 0;
}

void lh_dispatch_disk_input(struct lh_loop *loop, struct lh_dispatch *d, struct lh_disk_io *io)
{
    struct lh_input *in = lh_dispatch_input(d, LH_IN_DISK);

    in->ticket = io->ticket;
    in->file = io->file;
    in->op = io->op;
    in->error = io->error;
    in->payload = lh_buf_take(&io->data);
    if (io->for_reply)
        atomic_fetch_sub(&loop->reading_bytes, io->length);
    free(io);
}

static void flush_links(struct lh_loop *loop, struct lh_dispatch *d)
{
    if (d->flush_count == 0)
        return;
    lh_transport_flush_begin(loop->transport);
    for (size_t i = 0; i < d->flush_count; i++) {
        struct lh_loop_link *link = lh_transport_link_data(d->flush[i]);
        /* Cleared first: what is sent from here on is either seen by this flush
         * or brings its own. */
        atomic_store(&link->dirty, false);
        lh_transport_link_flush(d->flush[i]);
        lh_transport_link_unref(d->flush[i]);
    }
    d->flush_count = 0;
    lh_transport_flush_end(loop->transport);
}

/* Whether the bytes that `io` is to bring for a reply would be too many, with those that peers have
 * asked for and not taken. One may always go. */
static bool refuse_read(struct lh_loop *loop, struct lh_disk_io *io)
{
    if (!io->for_reply)
        return false;
    uint64_t before =
        atomic_fetch_add(&loop->reading_bytes, io->length) + lh_transport_unsent(loop->transport);
    bool refused =
        loop->config.unsent_max != 0 && before > 0 && before + io->length > loop->config.unsent_max;
    if (refused)
        io->error = LH_ERR_SHORTAGE;
    return refused;
}

static void submit_disk(struct lh_loop *loop, struct lh_dispatch *d)
{
    struct lh_disk_io *io = d->first_io;

    d->first_io = NULL;
    d->last_io = &d->first_io;
    while (io != NULL) {
        struct lh_disk_io *next = io->next;
        io->next = NULL;
        if (refuse_read(loop, io) || lh_disk_submit(loop->config.disk, io))
            lh_dispatch_disk_input(loop, d, io);
        io = next;
    }
}

void lh_dispatch_run_locked(struct lh_loop *loop, struct lh_dispatch *d)
{
    for (;;) {
        feed_locked(loop, d);
        pthread_mutex_unlock(&loop->lock);
        release_inputs(d);
        if (is_in_round(loop, d))
            return;
        flush_links(loop, d);
        submit_disk(loop, d);
        if (d->inputs.count == 0 && !atomic_load(&loop->outbox_waits))
            break;
        lh_dispatch_lock(loop);
        if (d->inputs.count > 0)
            continue;
        lh_outbox_empty(loop);
        pthread_mutex_unlock(&loop->lock);
        break;
    }
    lh_dispatch_end(loop, d);
}

void lh_dispatch_run(struct lh_loop *loop, struct lh_dispatch *d)
{
    lh_dispatch_lock(loop);
    lh_dispatch_run_locked(loop, d);
}

void lh_dispatch_round(struct lh_loop *loop, bool begins)
{
    struct lh_dispatch *d = in_round.dispatch;

    in_round.loop = NULL;
    in_round.dispatch = NULL;
    if (begins) {
        in_round.dispatch = lh_dispatch_begin(loop);
        in_round.loop = loop;
    } else if (d->flush_count > 0 || d->first_io != NULL || atomic_load(&loop->outbox_waits)) {
        lh_dispatch_run(loop, d);
    } else {
        lh_dispatch_end(loop, d);
    }
}
