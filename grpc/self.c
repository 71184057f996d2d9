/* One question to a health service, by the way that every new client comes: a channel of its own,
 * and so a connection of its own. */
#include "grpc/channel.h"
#include "grpc/credentials.h"
#include "grpc/rpc.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <string.h>

/* `host`: what the server's certificate is for; empty: the host of the address. */
static grpc_channel *connect_anew(const char *address, struct lh_tls *tls, char *host)
{
    uint64_t generation;
    grpc_arg args[5] = {
        lh_rpc_int_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        lh_rpc_int_arg(GRPC_ARG_ENABLE_RETRIES, 0),
        lh_rpc_int_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        /* Otherwise gRPC shares connections between channels. */
        lh_rpc_int_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
    };
    size_t count = 4;
    if (host[0] != '\0')
        args[count++] = (grpc_arg){.type = GRPC_ARG_STRING,
            .key = (char *)(uintptr_t)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
            .value.string = host};
    grpc_channel_args all = {.num_args = count, .args = args};
    grpc_channel_credentials *credentials = lh_rpc_channel_credentials(tls, NULL, &generation);
    grpc_channel *channel = grpc_channel_create(address, credentials, &all);

    grpc_channel_credentials_release(credentials);
    return channel;
}

/* Sends an empty HealthCheckRequest and waits for the status, which says that somebody answered. */
static grpc_status_code ask(
    grpc_call *call, grpc_completion_queue *queue, char *why, size_t why_size)
{
    grpc_metadata_array initial, trailing;
    grpc_status_code status = GRPC_STATUS_UNKNOWN;
    grpc_slice details = grpc_empty_slice();
    grpc_slice nothing = grpc_empty_slice();
    grpc_byte_buffer *request = grpc_raw_byte_buffer_create(&nothing, 1), *reply = NULL;
    grpc_op ops[6];

    memset(ops, 0, sizeof ops);
    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &trailing;
    ops[5].data.recv_status_on_client.status = &status;
    ops[5].data.recv_status_on_client.status_details = &details;
    if (grpc_call_start_batch(call, ops, 6, call, NULL) == GRPC_CALL_OK)
        (void)grpc_completion_queue_pluck(queue, call, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    char *text = grpc_slice_to_c_string(details);
    (void)snprintf(why, why_size, "%s", text);
    gpr_free(text);
    grpc_slice_unref(details);
    grpc_byte_buffer_destroy(request);
    if (reply != NULL)
        grpc_byte_buffer_destroy(reply);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    return status;
}

/* Who can end a handshake has heard of it. What is wrong with the certificate, which has perhaps
 * run out, is no better after a restart, and meanwhile connections that are open go on. */
static bool ended_a_handshake(const char *why)
{
    return strstr(why, "andshake failed") != NULL || strstr(why, "Peer name") != NULL ||
           strstr(why, "certificate") != NULL;
}

int lh_rpc_ask_health(
    const char *address, struct lh_tls *tls, struct lh_duration timeout, char *why, size_t why_size)
{
    char host[256];

    /* The server need not be known by the address that it is asked at, perhaps of no network: by a
     * name that is in its certificate. */
    if (tls == NULL || !lh_tls_host(tls, host, sizeof host))
        host[0] = '\0';
    grpc_init();
    grpc_completion_queue *queue = grpc_completion_queue_create_for_pluck(NULL);
    grpc_channel *channel = connect_anew(address, tls, host);
    gpr_timespec deadline = gpr_time_add(
        gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos((int64_t)timeout.ns, GPR_TIMESPAN));
    grpc_call *call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
        grpc_slice_from_static_string("/grpc.health.v1.Health/Check"), NULL, deadline, NULL);
    grpc_status_code status = ask(call, queue, why, why_size);

    grpc_call_unref(call);
    grpc_channel_destroy(channel);
    grpc_completion_queue_shutdown(queue);
    grpc_completion_queue_destroy(queue);
    grpc_shutdown();
    switch (status) {
    case GRPC_STATUS_OK:
    case GRPC_STATUS_RESOURCE_EXHAUSTED: /* it hears well enough to refuse */
        return LH_OK;
    case GRPC_STATUS_DEADLINE_EXCEEDED:
        return LH_ERR_DEADLINE_EXCEEDED;
    default:
        return tls != NULL && ended_a_handshake(why) ? LH_OK : LH_ERR_UNAVAILABLE;
    }
}
