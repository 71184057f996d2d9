/* Channels, one per address and kind of server, and the settings of both ends. */
#include "base/alloc.h"
#include "proto/codec.h"
#include "rpc/internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct channel {
    char *address;
    grpc_channel *channel;
    unsigned references; /* the table's, while it is for new links, and each link's with a call */
    uint64_t generation; /* of the certificates */
    UT_hash_handle hh;
};

grpc_arg lh_rpc_int_arg(const char *key, int value)
{
    /* gRPC copies the key; its type only lacks the const. */
    return (grpc_arg){
        .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

int lh_rpc_milliseconds(struct lh_duration d)
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
    /* Nor is anything uncompressed: 1.51 compares a message's size with the largest when it has all
     * of it in memory, a thousand times what was sent. */
    INT(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    INT(GRPC_ARG_ENABLE_CHANNELZ, 0);

    /* A dead peer is noticed while nothing is being sent, too. */
    INT(GRPC_ARG_KEEPALIVE_TIME_MS, lh_rpc_milliseconds(rpc->config.keepalive));
    INT(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, lh_rpc_milliseconds(rpc->config.keepalive_timeout));
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

static struct channel *connect_to(struct lh_rpc *rpc, const char *address, bool foreign)
{
    grpc_arg args[RPC_ARGS_MAX];
    struct channel *c = lh_alloc(sizeof *c);
    size_t n =
        foreign ? lh_rpc_foreign_args(args) : lh_rpc_common_args(rpc, LH_MESSAGE_BYTES_MAX, args);

#define INT(key, value) args[n++] = lh_rpc_int_arg(key, value)
    INT(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    INT(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    INT(GRPC_ARG_ENABLE_RETRIES, 0); /* retries are the cores' business (APP-5) */
    INT(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    INT(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    /* The "minimum backoff" is what gRPC allows one connection attempt to take; as short as the
     * backoff proper it would fail on a busy machine for ever. */
    INT(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, lh_rpc_milliseconds(rpc->config.connect_timeout));
    INT(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    INT(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    INT(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 500);
    /* An address that nobody calls any more is not kept connected. */
    INT(GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS, 300000);
#undef INT

    grpc_channel_args all = {.num_args = n, .args = args};
    grpc_channel_credentials *credentials =
        lh_rpc_channel_credentials(foreign ? rpc->foreign_tls : rpc->tls, &c->generation);
    c->address = lh_strdup(address);
    c->channel = grpc_channel_create(address, credentials, &all);
    c->references = 1;
    grpc_channel_credentials_release(credentials);
    return c;
}

grpc_channel *lh_rpc_channel_of(const struct channel *channel)
{
    return channel->channel;
}

void lh_rpc_channel_give(struct channel *c)
{
    if (c == NULL || --c->references > 0)
        return;
    grpc_channel_destroy(c->channel);
    free(c->address);
    free(c);
}

static uint64_t generation_of(struct lh_tls *tls)
{
    if (tls == NULL)
        return 0;
    lh_tls_tend(tls);
    struct lh_tls_pem *pem = lh_tls_current(tls);
    uint64_t generation = pem->generation;
    lh_tls_pem_unref(pem);
    return generation;
}

/* The one for new links, unless it is older than that; with a reference. With the lock held. */
static struct channel *find(struct channel **channels, const char *address, uint64_t generation)
{
    struct channel *c;

    HASH_FIND_STR(*channels, address, c);
    if (c == NULL)
        return NULL;
    if (c->generation < generation) {
        HASH_DEL(*channels, c);
        lh_rpc_channel_give(c);
        return NULL;
    }
    c->references++;
    return c;
}

struct channel *lh_rpc_channel_take(struct lh_rpc *rpc, const char *address, bool foreign)
{
    struct channel **channels = &rpc->channels[foreign];
    uint64_t generation = generation_of(foreign ? rpc->foreign_tls : rpc->tls);

    pthread_mutex_lock(&rpc->lock);
    struct channel *c = find(channels, address, generation);
    pthread_mutex_unlock(&rpc->lock);
    if (c != NULL)
        return c;

    struct channel *made = connect_to(rpc, address, foreign);
    pthread_mutex_lock(&rpc->lock);
    c = find(channels, address, made->generation);
    if (c == NULL) {
        c = made;
        c->references++;
        HASH_ADD_KEYPTR(hh, *channels, c->address, strlen(c->address), c);
    } else {
        lh_rpc_channel_give(made);
    }
    pthread_mutex_unlock(&rpc->lock);
    return c;
}

static void forget_all(struct channel **channels)
{
    struct channel *c, *next;

    HASH_ITER(hh, *channels, c, next) {
        HASH_DEL(*channels, c);
        lh_rpc_channel_give(c);
    }
}

void lh_rpc_channels_destroy(struct lh_rpc *rpc)
{
    pthread_mutex_lock(&rpc->lock);
    forget_all(&rpc->channels[false]);
    forget_all(&rpc->channels[true]);
    pthread_mutex_unlock(&rpc->lock);
}
