/* One call as a state machine.
 *
 * What is wanted (messages to send, a read, the end) is written down under link->lock by anybody.
 * lh_rpc_link_flush() turns it into gRPC batches: one thread at a time per link, so that batches
 * start in order, and without the lock, since starting one may write to the socket.
 *
 * Batches of a link: one that waits for its end (the status, or RECV_CLOSE on a served link), one
 * that sends (initial metadata before the first message, a served link's status behind the last),
 * one that receives. Each is one event. The call is given back once its end was seen and no batch
 * is under way. */
#include "base/alloc.h"
#include "grpc/internal.h"
#include "proto/codec.h"

#include <grpc/byte_buffer.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

#define LINK_OF(tag, member)                                                                       \
    ((struct lh_rpc_link *)((char *)(tag)-offsetof(struct lh_rpc_link, member)))

static void status_done(struct tag *tag, bool success);
static void send_done(struct tag *tag, bool success);
static void read_done(struct tag *tag, bool success);
static void end_done(struct tag *tag, bool success);

static struct lh_rpc_link *link_create(struct lh_rpc *rpc, enum lh_method method)
{
    struct lh_rpc_link *link = lh_alloc(sizeof *link + rpc->config.link_data_size);

    atomic_init(&link->references, 1);
    link->rpc = rpc;
    atomic_fetch_add_explicit(&rpc->references, 1, memory_order_relaxed);
    link->method = method;
    link->handler = &lh_rpc_owner_handler;
    link->status_tag.done = status_done;
    link->send_tag.done = send_done;
    link->read_tag.done = read_done;
    link->end_tag.done = end_done;
    link->queue_end = &link->queue;
    link->status_details = grpc_empty_slice();
    grpc_metadata_array_init(&link->initial_metadata);
    grpc_metadata_array_init(&link->trailing_metadata);
    pthread_mutex_init(&link->lock, NULL);
    return link;
}

static void drop_queue(struct lh_rpc_link *link)
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
    drop_queue(link);
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

void *lh_rpc_link_data(struct lh_rpc_link *link)
{
    return link->data;
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

/* With the lock held, both. */
static void count_unsent(struct lh_rpc_link *link, uint64_t bytes)
{
    link->unsent += bytes;
    lh_connections_unsent(link->connection, (int64_t)bytes);
    atomic_fetch_add_explicit(&link->rpc->unsent, bytes, memory_order_relaxed);
}

static void count_sent(struct lh_rpc_link *link, uint64_t bytes)
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
    drop_queue(link);
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
        drop_queue(link);
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
        drop_queue(link);
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

/* Reports the link's end if that is due, and gives the call back once nothing can happen to it any
 * more. With the lock held, which it releases. */
static void settle(struct lh_rpc_link *link)
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
        count_sent(link, link->unsent);
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

/* With the lock held, which it releases. Events end this way without letting go of the lock before:
 * whoever has the lock may be the one to give the call, and with it the link, back. */
static void flush_locked(struct lh_rpc_link *link)
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
    settle(link);
}

void lh_rpc_link_flush(struct lh_rpc_link *link)
{
    pthread_mutex_lock(&link->lock);
    flush_locked(link);
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
    flush_locked(link);
}

/* The status of an opened link: its end. */
static void status_done(struct tag *tag, bool success)
{
    struct lh_rpc_link *link = LINK_OF(tag, status_tag);
    char *details = grpc_slice_to_c_string(link->status_details);
    const char *text = details;

    (void)success; /* says nothing: the status does */
    int error = lh_rpc_error_of(link->status, lh_method_info(link->method)->foreign, &text);
    pthread_mutex_lock(&link->lock);
    link->under_way--;
    link->over = true;
    link->end_error = error;
    link->end_text = lh_rpc_channel_refusal(link->channel, text);
    if (link->end_text == NULL)
        link->end_text = lh_rpc_end_text(link, error, text);
    drop_queue(link);
    settle(link);
    gpr_free(details);
}

/* The end of a served link: our status went out, or the peer is gone. */
static void end_done(struct tag *tag, bool success)
{
    struct lh_rpc_link *link = LINK_OF(tag, end_tag);

    (void)success;
    pthread_mutex_lock(&link->lock);
    link->under_way--;
    link->over = true;
    link->end_error = LH_ERR_CANCELLED;
    if (link->end_text == NULL)
        link->end_text = lh_strdup("the peer cancelled the call or its connection broke");
    drop_queue(link);
    settle(link);
}

static void send_done(struct tag *tag, bool success)
{
    struct lh_rpc_link *link = LINK_OF(tag, send_tag);

    /* Of a failed one the call's end says why. */
    if (link->sent != NULL) {
        grpc_byte_buffer_destroy(link->sent);
        link->sent = NULL;
    }
    pthread_mutex_lock(&link->lock);
    link->under_way--;
    link->sending = false;
    /* gRPC says so of a short reply as soon as it has a place in its own buffer. What it keeps of a
     * unary call it keeps until the call's end. */
    if (link->served && !link->unary_reply)
        count_sent(link, link->sending_bytes);
    link->sending_bytes = 0;
    bool notify = link->sending_notify && success && !link->over && !link->reported;
    link->sending_notify = false;
    if (!notify) {
        flush_locked(link);
        return;
    }
    link->callbacks++;
    pthread_mutex_unlock(&link->lock);
    link->handler->sent(link);
    lh_rpc_link_leave(link);
}

static void read_done(struct tag *tag, bool success)
{
    struct lh_rpc_link *link = LINK_OF(tag, read_tag);
    grpc_byte_buffer *received = link->received;

    (void)success;
    link->received = NULL;
    pthread_mutex_lock(&link->lock);
    link->under_way--;
    link->reading = false;
    bool large = received != NULL && link->served && link->unary_request &&
                 grpc_byte_buffer_length(received) > LH_UNARY_REQUEST_BYTES_MAX;
    bool squeezed = received != NULL && received->data.raw.compression != GRPC_COMPRESS_NONE;
    bool refused = (large || squeezed) && !link->reported, half_closed = false;
    bool report = received != NULL && !link->reported && !refused;
    if (received == NULL) {
        link->read_ended = true;
        bool early = link->served && !link->over && !link->reported;
        refused = early && link->unary_request && !link->got_message;
        half_closed = early && !link->unary_request && link->handler->half_closed != NULL;
    }
    link->got_message = link->got_message || received != NULL;
    if (link->served && received != NULL)
        lh_connections_heard(link->connection);
    if (report || refused || half_closed)
        link->callbacks++;
    link->reported = link->reported || refused;
    if (!report && !refused && !half_closed) {
        flush_locked(link);
        if (received != NULL)
            grpc_byte_buffer_destroy(received);
        return;
    }
    pthread_mutex_unlock(&link->lock);

    if (report) {
        link->handler->message(link, lh_rpc_bytes_in(received));
    } else if (half_closed) {
        link->handler->half_closed(link);
    } else {
        int error = squeezed ? LH_ERR_UNIMPLEMENTED : large ? LH_ERR_TOO_LARGE : LH_ERR_MALFORMED;
        const char *why = squeezed ? "the message is compressed: send it as it is"
                          : large  ? "the request is larger than any of its kind"
                                   : "the call ended without a request";
        if (received != NULL)
            grpc_byte_buffer_destroy(received);
        lh_rpc_link_close(link, error, why);
        link->handler->closed(link, error, why);
    }
    lh_rpc_link_leave(link);
}
