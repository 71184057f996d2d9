/* What becomes of a link's batches (link.c), as their events say. */
#include "base/alloc.h"
#include "grpc/bytes.h"
#include "grpc/channel.h"
#include "grpc/internal.h"
#include "grpc/statuses.h"
#include "proto/codec.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <stddef.h>

#define LINK_OF(tag, member)                                                                       \
    ((struct lh_rpc_link *)((char *)(tag)-offsetof(struct lh_rpc_link, member)))

/* The status of an opened link: its end. */
void lh_rpc_link_status_done(struct tag *tag, bool success)
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
    lh_rpc_link_drop_queue(link);
    lh_rpc_link_settle(link);
    gpr_free(details);
}

/* The end of a served link: our status went out, or the peer is gone. */
void lh_rpc_link_end_done(struct tag *tag, bool success)
{
    struct lh_rpc_link *link = LINK_OF(tag, end_tag);

    (void)success;
    pthread_mutex_lock(&link->lock);
    link->under_way--;
    link->over = true;
    link->end_error = LH_ERR_CANCELLED;
    if (link->end_text == NULL)
        link->end_text = lh_strdup("the peer cancelled the call or its connection broke");
    lh_rpc_link_drop_queue(link);
    lh_rpc_link_settle(link);
}

void lh_rpc_link_send_done(struct tag *tag, bool success)
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
        lh_rpc_link_count_sent(link, link->sending_bytes);
    link->sending_bytes = 0;
    bool notify = link->sending_notify && success && !link->over && !link->reported;
    link->sending_notify = false;
    if (!notify) {
        lh_rpc_link_flush_locked(link);
        return;
    }
    link->callbacks++;
    pthread_mutex_unlock(&link->lock);
    link->handler->sent(link);
    lh_rpc_link_leave(link);
}

void lh_rpc_link_read_done(struct tag *tag, bool success)
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
        lh_rpc_link_flush_locked(link);
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
