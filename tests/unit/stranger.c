#include "tests/unit/stranger.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/sync.h>
#include <grpc/support/time.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lh_stranger {
    grpc_completion_queue *queue;
    grpc_channel *channel;
    grpc_call *call;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    grpc_byte_buffer *reply;
    bool ended, read; /* events that came */
};

/* Events come in any order. */
static void wait_for(struct lh_stranger *s, const bool *event)
{
    while (!*event) {
        grpc_event e =
            grpc_completion_queue_next(s->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        LH_ASSERT(e.type == GRPC_OP_COMPLETE);
        *(bool *)e.tag = true;
    }
}

static void begin(struct lh_stranger *s, const grpc_op *ops, size_t count, bool *event)
{
    *event = false;
    grpc_call_error e = grpc_call_start_batch(s->call, ops, count, event, NULL);
    LH_ASSERT(e == GRPC_CALL_OK);
}

static void send_and_await_end(struct lh_stranger *s, const void *request, size_t size)
{
    grpc_op ops[5];
    size_t n = 0;
    grpc_byte_buffer *sent = NULL;

    memset(ops, 0, sizeof ops);
    ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (request != NULL) {
        grpc_slice slice = grpc_slice_from_copied_buffer(request, size);
        sent = grpc_raw_byte_buffer_create(&slice, 1);
        grpc_slice_unref(slice);
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = sent;
    }
    ops[n++].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[n].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[n++].data.recv_initial_metadata.recv_initial_metadata = &s->initial;
    ops[n].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[n].data.recv_status_on_client.trailing_metadata = &s->trailing;
    ops[n].data.recv_status_on_client.status = &s->status;
    ops[n++].data.recv_status_on_client.status_details = &s->details;
    begin(s, ops, n, &s->ended);
    if (sent != NULL)
        grpc_byte_buffer_destroy(sent);
}

struct lh_stranger *lh_stranger_call(
    const char *address, const char *path, const void *request, size_t size)
{
    struct lh_stranger *s = lh_alloc(sizeof *s);
    grpc_arg unlimited = {.type = GRPC_ARG_INTEGER,
        .key = (char *)(uintptr_t)GRPC_ARG_MAX_SEND_MESSAGE_LENGTH,
        .value.integer = -1};
    grpc_channel_args args = {1, &unlimited};

    grpc_init();
    grpc_metadata_array_init(&s->initial);
    grpc_metadata_array_init(&s->trailing);
    s->details = grpc_empty_slice();
    s->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    s->channel = grpc_channel_create(address, credentials, &args);
    grpc_channel_credentials_release(credentials);
    s->call = grpc_channel_create_call(s->channel, NULL, GRPC_PROPAGATE_DEFAULTS, s->queue,
        grpc_slice_from_static_string(path), NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    send_and_await_end(s, request, size);
    return s;
}

bool lh_stranger_read(struct lh_stranger *s, void *to, size_t capacity, size_t *size)
{
    grpc_op op;
    grpc_byte_buffer_reader reader;

    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &s->reply;
    begin(s, &op, 1, &s->read);
    wait_for(s, &s->read);
    if (s->reply == NULL)
        return false;
    int ok = grpc_byte_buffer_reader_init(&reader, s->reply);
    LH_ASSERT(ok);
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    *size = GRPC_SLICE_LENGTH(all);
    if (*size > 0 && capacity > 0)
        memcpy(to, GRPC_SLICE_START_PTR(all), *size < capacity ? *size : capacity);
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
    grpc_byte_buffer_destroy(s->reply);
    s->reply = NULL;
    return true;
}

void lh_stranger_cancel(struct lh_stranger *s)
{
    (void)grpc_call_cancel(s->call, NULL);
}

int lh_stranger_end(struct lh_stranger *s, char *message, size_t message_size)
{
    wait_for(s, &s->ended);
    int status = (int)s->status;
    char *text = grpc_slice_to_c_string(s->details);
    snprintf(message, message_size, "%s", text);
    gpr_free(text);

    grpc_call_unref(s->call);
    grpc_channel_destroy(s->channel);
    grpc_completion_queue_shutdown(s->queue);
    while (grpc_completion_queue_next(s->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_completion_queue_destroy(s->queue);
    grpc_metadata_array_destroy(&s->initial);
    grpc_metadata_array_destroy(&s->trailing);
    grpc_slice_unref(s->details);
    grpc_shutdown();
    free(s);
    return status;
}

void lh_stranger_lock_in_both_orders(void)
{
    gpr_mu locks[2];

    gpr_mu_init(&locks[0]);
    gpr_mu_init(&locks[1]);
    for (int first = 0; first < 2; first++) {
        gpr_mu_lock(&locks[first]);
        gpr_mu_lock(&locks[!first]);
        gpr_mu_unlock(&locks[!first]);
        gpr_mu_unlock(&locks[first]);
    }
    gpr_mu_destroy(&locks[0]);
    gpr_mu_destroy(&locks[1]);
}
