/* One call as a state machine.
 *
 * What is wanted (messages to send, a read, the end) is written down under link->lock by anybody.
 * lh_rpc_link_flush() turns it into gRPC batches: one thread at a time per link, so that batches
 * start in order, and without the lock, since starting one may write to the socket.
 *
 * Batches of a link: one that waits for its end (the status, or RECV_CLOSE on a served link), one
 * that sends (initial metadata before the first message, a served link's status behind the last),
 * one that receives. Each is one event. The call is given back once its end was seen and no batch
 * is under way. What comes of their events: events.c. */
#include "base/alloc.h"
#include "grpc/batches.h"
#include "grpc/channel.h"
#include "grpc/internal.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <string.h>

static struct lh_rpc_link *link_create(struct lh_rpc *rpc, enum lh_method method)
{
    struct lh_rpc_link *link = lh_alloc(sizeof *link + rpc->config.link_data_size);

    link->base = (struct lh_transport_link){&lh_rpc_link_methods, link->data, ""};
    atomic_init(&link->references, 1);
    link->rpc = rpc;
    atomic_fetch_add_explicit(&rpc->references, 1, memory_order_relaxed);
    link->method = method;
    link->handler = &lh_rpc_owner_handler;
    link->status_tag.done = lh_rpc_link_status_done;
    link->send_tag.done = lh_rpc_link_send_done;
    link->read_tag.done = lh_rpc_link_read_done;
    link->end_tag.done = lh_rpc_link_end_done;
    link->queue_end = &link->queue;
    link->status_details = grpc_empty_slice();
    grpc_metadata_array_init(&link->initial_metadata);
    grpc_metadata_array_init(&link->trailing_metadata);
    pthread_mutex_init(&link->lock, NULL);
    return link;
}

void lh_rpc_link_drop_queue(struct lh_rpc_link *link)
{
    for (struct queued *q = link->queue, *next; q != NULL; q = next) {
        next = q->next;
        lh_buf_clear(&q->bytes);
        free(q);
    }
    link->queue = NULL;
    link->queue_end = &link->queue;
}

void lh_rpc_link_ref(struct lh_rpc_link *link)
{
    atomic_fetch_add_explicit(&link->references, 1, memory_order_relaxed);
}

void lh_rpc_link_unref(struct lh_rpc_link *link)
{
    if (atomic_fetch_sub_explicit(&link->references, 1, memory_order_acq_rel) != 1)
        return;
    if (link->handler->released != NULL)
        link->handler->released(link);
    lh_rpc_link_drop_queue(link);
    grpc_metadata_array_destroy(&link->initial_metadata);
    grpc_metadata_array_destroy(&link->trailing_metadata);
    grpc_slice_unref(link->status_details);
    pthread_mutex_destroy(&link->lock);
    free(link->address);
    free(link->identity);
    free(link->token);
    free(link->close_text);
    free(link->end_text);
    lh_rpc_unref(link->rpc);
    free(link);
}

/* Counts the link among those with a call. False: the rpc is being shut down. */
static bool enlist(struct lh_rpc_link *link)
{
    struct lh_rpc *rpc = link->rpc;

    pthread_mutex_lock(&rpc->lock);
    bool ok = !rpc->stopping || link->served;
    if (ok) {
        link->next = rpc->links;
        if (rpc->links != NULL)
            rpc->links->previous = link;
        rpc->links = link;
        lh_rpc_link_ref(link);
    }
    pthread_mutex_unlock(&rpc->lock);
    return ok;
}

static void delist(struct lh_rpc_link *link)
{
    struct lh_rpc *rpc = link->rpc;

    pthread_mutex_lock(&rpc->lock);
    if (link->previous != NULL)
        link->previous->next = link->next;
    else
        rpc->links = link->next;
    if (link->next != NULL)
        link->next->previous = link->previous;
    if (link->watching) {
        if (link->watch_previous != NULL)
            link->watch_previous->watch_next = link->watch_next;
        else
            rpc->watchers = link->watch_next;
        if (link->watch_next != NULL)
            link->watch_next->watch_previous = link->watch_previous;
        link->watching = false;
    }
    grpc_call_unref(link->call);
    lh_rpc_channel_give(link->channel);
    if (rpc->stopping)
        pthread_cond_broadcast(&rpc->changed);
    pthread_mutex_unlock(&rpc->lock);
    lh_rpc_link_unref(link);
}

struct lh_rpc_link *lh_rpc_link_open(
    struct lh_rpc *rpc, enum lh_method method, const char *address, struct lh_duration timeout)
{
    struct lh_rpc_link *link = link_create(rpc, method);
    const struct lh_method_info *info = lh_method_info(method);

    link->unary_request = !info->request_stream;
    link->unary_reply = !info->reply_stream;
    link->address = lh_strdup(address);
    link->timeout = timeout;
    return link;
}

struct lh_rpc_link *lh_rpc_link_serve(struct lh_rpc *rpc, const struct served_call *call,
    enum lh_method method, bool unary_request, bool unary_reply, const struct link_handler *handler)
{
    struct lh_rpc_link *link = link_create(rpc, method);

    link->served = true;
    link->started = true;
    link->unary_request = unary_request;
    link->unary_reply = unary_reply;
    link->call = call->grpc;
    link->handler = handler;
    link->connection = call->connection;
    link->events = call->events;
    link->served_ns = lh_rpc_now_ns();
    atomic_fetch_add_explicit(&rpc->served, 1, memory_order_relaxed);
    enlist(link);
    return link;
}

/* With the lock held. */
static void count_unsent(struct lh_rpc_link *link, uint64_t bytes)
{
    link->unsent += bytes;
    lh_connections_unsent(link->connection, (int64_t)bytes);
    atomic_fetch_add_explicit(&link->rpc->unsent, bytes, memory_order_relaxed);
}

void lh_rpc_link_count_sent(struct lh_rpc_link *link, uint64_t bytes)
{
    link->unsent -= bytes;
    lh_connections_unsent(link->connection, -(int64_t)bytes);
    atomic_fetch_sub_explicit(&link->rpc->unsent, bytes, memory_order_relaxed);
}

void lh_rpc_link_put(struct lh_rpc_link *link, struct lh_buf bytes, bool notify)
{
    struct queued *q = lh_realloc_array(NULL, 1, sizeof *q);

    *q = (struct queued){.bytes = bytes, .notify = notify};
    pthread_mutex_lock(&link->lock);
    bool useless = link->over || link->close_wanted;
    if (!useless) {
        *link->queue_end = q;
        link->queue_end = &q->next;
        if (link->served)
            count_unsent(link, q->bytes.size);
    }
    pthread_mutex_unlock(&link->lock);
    if (useless) {
        lh_buf_clear(&q->bytes);
        free(q);
    }
}

void lh_rpc_link_send(struct lh_rpc_link *link, struct lh_buf bytes)
{
    lh_rpc_link_put(link, bytes, false);
}

void lh_rpc_link_close(struct lh_rpc_link *link, int error, const char *text)
{
    char *copy = text == NULL ? NULL : lh_strdup(text);

    pthread_mutex_lock(&link->lock);
    if (!link->close_wanted && !link->over) {
        link->close_wanted = true;
        link->close_error = error;
        link->closed_ns = lh_rpc_now_ns();
        link->close_text = copy;
        copy = NULL;
    }
    link->reported = true;
    pthread_mutex_unlock(&link->lock);
    free(copy);
}

void lh_rpc_link_read(struct lh_rpc_link *link)
{
    pthread_mutex_lock(&link->lock);
    link->read_wanted = true;
    pthread_mutex_unlock(&link->lock);
}

/* The call did not come to be. With the lock held. */
static void end_unstarted(struct lh_rpc_link *link, int error)
{
    link->over = true;
    link->ended = true;
    link->end_error = error;
    lh_rpc_link_drop_queue(link);
}

/* Starts a send batch of what is queued first. With the lock held, which is released meanwhile. */
static void flush_send(struct lh_rpc_link *link, bool status_due)
{
    struct queued *q = link->queue;

    if (q != NULL) {
        link->queue = q->next;
        if (link->queue == NULL)
            link->queue_end = &link->queue;
        link->sending_bytes = q->bytes.size;
        link->sending_notify = q->notify;
    }
    bool last = link->queue == NULL;
    bool status = status_due && last;
    bool initial = !link->initial_sent;
    link->initial_sent = true;
    link->close_done = link->close_done || status;
    link->sending = true;
    link->under_way++;
    pthread_mutex_unlock(&link->lock);
    lh_rpc_link_start_send(link, q, last, status, initial);
    pthread_mutex_lock(&link->lock);
}

/* Starts one batch that is due, if there is one. With the lock held,
 * which is released meanwhile. */
static bool flush_one(struct lh_rpc_link *link)
{
    if (link->over) {
        lh_rpc_link_drop_queue(link);
        return false;
    }
    if (!link->started) {
        if (link->close_wanted || !enlist(link)) {
            end_unstarted(link, LH_ERR_SHUTTING_DOWN);
            return false;
        }
        link->started = true;
        pthread_mutex_unlock(&link->lock);
        lh_rpc_link_create_call(link);
        pthread_mutex_lock(&link->lock);
        flush_send(link, false);
        link->under_way++;
        pthread_mutex_unlock(&link->lock);
        lh_rpc_link_await_status(link);
        pthread_mutex_lock(&link->lock);
        return true;
    }
    if (link->close_wanted && !link->served && !link->close_done) {
        link->close_done = true;
        lh_rpc_link_drop_queue(link);
        pthread_mutex_unlock(&link->lock);
        (void)grpc_call_cancel(link->call, NULL);
        pthread_mutex_lock(&link->lock);
        return true;
    }

    bool status_due = link->served && link->close_wanted && !link->close_done;
    if (!link->sending && (link->queue != NULL || status_due)) {
        flush_send(link, status_due);
        return true;
    }
    if (link->read_wanted && !link->reading && !link->read_ended && !link->close_wanted) {
        link->read_wanted = false;
        link->reading = true;
        link->under_way++;
        pthread_mutex_unlock(&link->lock);
        lh_rpc_link_start_read(link);
        pthread_mutex_lock(&link->lock);
        return true;
    }
    return false;
}

void lh_rpc_link_settle(struct lh_rpc_link *link)
{
    if (link->over && !link->reading && link->callbacks == 0 && !link->reported) {
        link->reported = true;
        link->callbacks++;
        pthread_mutex_unlock(&link->lock);
        link->handler->closed(link, link->end_error, link->end_text);
        pthread_mutex_lock(&link->lock);
        link->callbacks--;
    }
    bool end = link->over && link->under_way == 0 && link->callbacks == 0 && !link->flushing &&
               !link->ended;
    if (end) {
        link->ended = true;
        lh_rpc_link_count_sent(link, link->unsent);
    }
    pthread_mutex_unlock(&link->lock);
    if (!end)
        return;
    if (link->served) {
        atomic_fetch_sub_explicit(&link->rpc->served, 1, memory_order_relaxed);
        lh_rpc_call_ended(link->rpc, link->connection, link->events);
    }
    delist(link);
}

void lh_rpc_link_flush_locked(struct lh_rpc_link *link)
{
    if (link->flushing) {
        link->flush_again = true;
        pthread_mutex_unlock(&link->lock);
        return;
    }
    link->flushing = true;
    do {
        link->flush_again = false;
        while (flush_one(link))
            ;
    } while (link->flush_again);
    link->flushing = false;
    lh_rpc_link_settle(link);
}

void lh_rpc_link_flush(struct lh_rpc_link *link)
{
    pthread_mutex_lock(&link->lock);
    lh_rpc_link_flush_locked(link);
}

void lh_rpc_link_enter(struct lh_rpc_link *link)
{
    pthread_mutex_lock(&link->lock);
    link->callbacks++;
    pthread_mutex_unlock(&link->lock);
}

void lh_rpc_link_leave(struct lh_rpc_link *link)
{
    pthread_mutex_lock(&link->lock);
    link->callbacks--;
    lh_rpc_link_flush_locked(link);
}
