/* What the batches of a link are made of. */
#include "grpc/batches.h"

#include "base/assert.h"
#include "grpc/bytes.h"
#include "grpc/channel.h"
#include "grpc/foreign.h"
#include "grpc/internal.h"
#include "grpc/statuses.h"
#include "proto/codec.h"

#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

/* Our own batches are well-formed, and a batch that cannot be carried out any more still yields its
 * event: anything but OK is our mistake. */
static void start_batch(struct lh_rpc_link *link, const grpc_op *ops, size_t count, struct tag *tag)
{
    tag_post(tag);
    grpc_call_error e = grpc_call_start_batch(link->call, ops, count, tag, NULL);
    LH_ASSERT(e == GRPC_CALL_OK);
}

void lh_rpc_link_create_call(struct lh_rpc_link *link)
{
    struct lh_rpc *rpc = link->rpc;
    gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);

    struct channel *channel =
        lh_rpc_channel_take(rpc, link->address, lh_method_info(link->method)->server);

    if (link->timeout.ns < (uint64_t)INT64_MAX)
        deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
            gpr_time_from_nanos((int64_t)link->timeout.ns, GPR_TIMESPAN));
    grpc_call *call = grpc_channel_create_call(lh_rpc_channel_of(channel), NULL,
        GRPC_PROPAGATE_DEFAULTS, rpc->queues[0].grpc,
        grpc_slice_from_static_string(lh_method_info(link->method)->path), NULL, deadline, NULL);

    /* A shutdown that came in between, or a change of who may answer, has not seen the call. */
    pthread_mutex_lock(&rpc->lock);
    link->channel = channel;
    link->call = call;
    bool stopping = rpc->stopping;
    if (lh_rpc_channel_has_ended(channel))
        lh_rpc_channel_cancel(call);
    pthread_mutex_unlock(&rpc->lock);
    if (stopping)
        (void)grpc_call_cancel(call, NULL);
}

void lh_rpc_link_await_status(struct lh_rpc_link *link)
{
    grpc_op ops[2];

    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[0].data.recv_initial_metadata.recv_initial_metadata = &link->initial_metadata;
    ops[1].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[1].data.recv_status_on_client.trailing_metadata = &link->trailing_metadata;
    ops[1].data.recv_status_on_client.status = &link->status;
    ops[1].data.recv_status_on_client.status_details = &link->status_details;
    start_batch(link, ops, 2, &link->status_tag);
}

void lh_rpc_link_start_send(
    struct lh_rpc_link *link, struct queued *q, bool last, bool status, bool initial)
{
    grpc_op ops[3];
    size_t n = 0;
    grpc_slice message = grpc_empty_slice();
    grpc_metadata metadata[FOREIGN_METADATA_MAX];
    size_t metadata_count = initial && !link->served ? lh_rpc_foreign_metadata(link, metadata) : 0;

    memset(ops, 0, sizeof ops);
    if (initial) {
        ops[n].op = GRPC_OP_SEND_INITIAL_METADATA;
        ops[n].data.send_initial_metadata.count = metadata_count;
        ops[n++].data.send_initial_metadata.metadata = metadata;
    }
    if (q != NULL) {
        link->sent = lh_rpc_bytes_out(q->bytes);
        free(q);
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        /* Not together with the initial metadata: the hint would hold that back too, and the batch,
         * and with it the message that is to follow, would wait until something else is written. */
        ops[n].flags = last || initial ? 0 : GRPC_WRITE_BUFFER_HINT;
        ops[n++].data.send_message.send_message = link->sent;
        if (!link->served && link->unary_request)
            ops[n++].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    }
    if (status) {
        ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        ops[n].data.send_status_from_server.status =
            (grpc_status_code)lh_error_grpc(link->close_error);
        if (link->close_error != LH_OK) {
            message = lh_rpc_status_message(link->close_error, link->close_text);
            ops[n].data.send_status_from_server.status_details = &message;
        }
        n++;
    }
    start_batch(link, ops, n, &link->send_tag);
    grpc_slice_unref(message);
    for (size_t i = 0; i < metadata_count; i++)
        grpc_slice_unref(metadata[i].value);
}

void lh_rpc_link_start_read(struct lh_rpc_link *link)
{
    grpc_op op;

    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &link->received;
    start_batch(link, &op, 1, &link->read_tag);
}

void lh_rpc_link_await_end(struct lh_rpc_link *link)
{
    grpc_op op;

    pthread_mutex_lock(&link->lock);
    link->under_way++;
    pthread_mutex_unlock(&link->lock);
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op.data.recv_close_on_server.cancelled = &link->cancelled;
    start_batch(link, &op, 1, &link->end_tag);
}
