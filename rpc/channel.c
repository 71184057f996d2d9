/* Channels, one per address and kind of server, and the settings of both ends. */
#include "base/alloc.h"
#include "proto/codec.h"
#include "rpc/internal.h"

#include <grpc/grpc_security.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct channel {
    char *address;
    grpc_channel *channel;
    UT_hash_handle hh;
};

grpc_arg lh_rpc_int_arg(const char *key, int value)
{
    /* gRPC copies the key; its type only lacks the const. */
    return (grpc_arg){
        .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

static int milliseconds(struct lh_duration d)
{
    uint64_t ms = lh_duration_ms(d);

    return ms > INT_MAX ? INT_MAX : (int)ms;
}

size_t lh_rpc_common_args(const struct lh_rpc *rpc, size_t receive_max, grpc_arg *args)
{
    size_t n = 0;

#define INT(key, value) args[n++] = lh_rpc_int_arg(key, value)
    INT(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)receive_max);
    INT(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, (int)LH_MESSAGE_BYTES_MAX);
    INT(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
    INT(GRPC_ARG_ENABLE_CHANNELZ, 0);

    /* A dead peer is noticed while nothing is being sent, too. */
    INT(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds(rpc->config.keepalive));
    INT(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds(rpc->config.keepalive_timeout));
    INT(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    INT(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    INT(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);

    /* A frame is a slice and a header at each end: few large ones. No probe for the bandwidth-delay
     * product: it makes a connection's window larger than 64 KiB, which saves the sender a wait
     * within messages just above that size, but with it 1.51 now and then forgets to reopen the
     * window in the middle of a message of many megabytes until the next probe, ten seconds
     * later. */
    INT(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 4 << 20);
    INT(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8 << 20);
    INT(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    INT(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 1 << 20);
    INT(GRPC_ARG_TCP_READ_CHUNK_SIZE, 256 << 10);
    INT(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 4 << 20);
#undef INT
    return n;
}

static grpc_channel *connect_to(const struct lh_rpc *rpc, const char *address, bool foreign)
{
    grpc_arg args[RPC_ARGS_MAX];
    size_t n =
        foreign ? lh_rpc_foreign_args(args) : lh_rpc_common_args(rpc, LH_MESSAGE_BYTES_MAX, args);

#define INT(key, value) args[n++] = lh_rpc_int_arg(key, value)
    INT(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    INT(GRPC_ARG_ENABLE_RETRIES, 0); /* retries are the cores' business (APP-5) */
    INT(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    INT(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    /* The "minimum backoff" is what gRPC allows one connection attempt to take; as short as the
     * backoff proper it would fail on a busy machine for ever. */
    INT(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, milliseconds(rpc->config.connect_timeout));
    INT(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    INT(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    INT(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 500);
    /* An address that nobody calls any more is not kept connected. */
    INT(GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS, 300000);
#undef INT

    grpc_channel_args all = {.num_args = n, .args = args};
    if (foreign && rpc->foreign_credentials != NULL)
        return grpc_channel_create(address, rpc->foreign_credentials, &all);
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_channel *c = grpc_channel_create(address, credentials, &all);
    grpc_channel_credentials_release(credentials);
    return c;
}

grpc_channel *lh_rpc_channel(struct lh_rpc *rpc, const char *address, bool foreign)
{
    struct channel **channels = &rpc->channels[foreign];
    struct channel *c;
    struct channel *made = NULL;

    pthread_mutex_lock(&rpc->lock);
    HASH_FIND_STR(*channels, address, c);
    pthread_mutex_unlock(&rpc->lock);
    if (c != NULL)
        return c->channel;

    made = lh_alloc(sizeof *made);
    made->address = lh_strdup(address);
    made->channel = connect_to(rpc, address, foreign);
    pthread_mutex_lock(&rpc->lock);
    HASH_FIND_STR(*channels, address, c);
    if (c == NULL) {
        c = made;
        made = NULL;
        HASH_ADD_KEYPTR(hh, *channels, c->address, strlen(c->address), c);
    }
    pthread_mutex_unlock(&rpc->lock);
    if (made != NULL) {
        grpc_channel_destroy(made->channel);
        free(made->address);
        free(made);
    }
    return c->channel;
}

static void destroy_all(struct channel *channels)
{
    struct channel *c, *next;

    HASH_ITER(hh, channels, c, next) {
        HASH_DEL(channels, c);
        grpc_channel_destroy(c->channel);
        free(c->address);
        free(c);
    }
}

void lh_rpc_channels_destroy(struct lh_rpc *rpc)
{
    destroy_all(rpc->channels[false]);
    destroy_all(rpc->channels[true]);
    if (rpc->foreign_credentials != NULL)
        grpc_channel_credentials_release(rpc->foreign_credentials);
}
