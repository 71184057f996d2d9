/* Channels, one per address, name and kind of server, and the settings of both ends. */
#include "grpc/channel.h"
#include "base/alloc.h"
#include "grpc/answers.h"
#include "grpc/credentials.h"
#include "grpc/foreign.h"
#include "grpc/internal.h"
#include "proto/codec.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct channel {
    char *server; /* where, and perhaps who */
    grpc_channel *channel;
    struct answerer *answerer; /* with TLS */
    unsigned references; /* the table's, while it is for new links, and each link's with a call */
    uint64_t generation; /* of the certificates */
    bool ended;          /* whoever answers there is not who is meant any more */
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

    /* A dead peer is noticed while nothing is being sent, too; when, say client and server. */
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

static struct lh_tls *tls_with(const struct lh_rpc *rpc, enum lh_server_kind kind)
{
    return kind == LH_SERVER_ETCD ? rpc->foreign_tls : rpc->tls;
}

static struct channel *connect_to(struct lh_rpc *rpc, const char *server, enum lh_server_kind kind)
{
    grpc_arg args[RPC_ARGS_MAX];
    struct channel *c = lh_alloc(sizeof *c);
    bool foreign = kind == LH_SERVER_ETCD;
    size_t name_size;
    size_t n =
        foreign ? lh_rpc_foreign_args(args) : lh_rpc_common_args(rpc, LH_MESSAGE_BYTES_MAX, args);

#define INT(key, value) args[n++] = lh_rpc_int_arg(key, value)
    if (!foreign)
        INT(GRPC_ARG_KEEPALIVE_TIME_MS, lh_rpc_milliseconds(rpc->config.keepalive));
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
    struct lh_tls *tls = tls_with(rpc, kind);
    if (tls != NULL)
        c->answerer = lh_rpc_answerer_create(rpc, server, kind);
    grpc_channel_credentials *credentials =
        lh_rpc_channel_credentials(tls, c->answerer, &c->generation);
    c->server = lh_strdup(server);
    c->channel = grpc_channel_create(lh_server_address(server, &name_size), credentials, &all);
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
    lh_rpc_answerer_unref(c->answerer);
    free(c->server);
    free(c);
}

static uint64_t generation_of(struct lh_tls *tls)
{
    if (tls == NULL)
        return 0;
    lh_tls_housekeep(tls);
    struct lh_tls_pem *pem = lh_tls_current(tls);
    uint64_t generation = pem->generation;
    lh_tls_pem_unref(pem);
    return generation;
}

/* The one for new links, unless it is older than that; with a reference. With the lock held. */
static struct channel *find(struct channel **channels, const char *server, uint64_t generation)
{
    struct channel *c;

    HASH_FIND_STR(*channels, server, c);
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

struct channel *lh_rpc_channel_take(
    struct lh_rpc *rpc, const char *server, enum lh_server_kind kind)
{
    struct channel **channels = &rpc->channels[kind];
    uint64_t generation = generation_of(tls_with(rpc, kind));

    pthread_mutex_lock(&rpc->lock);
    struct channel *c = find(channels, server, generation);
    pthread_mutex_unlock(&rpc->lock);
    if (c != NULL)
        return c;

    struct channel *made = connect_to(rpc, server, kind);
    pthread_mutex_lock(&rpc->lock);
    c = find(channels, server, made->generation);
    if (c == NULL) {
        c = made;
        c->references++;
        HASH_ADD_KEYPTR(hh, *channels, c->server, strlen(c->server), c);
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
    for (int kind = 0; kind < LH_SERVER_KINDS; kind++)
        forget_all(&rpc->channels[kind]);
    pthread_mutex_unlock(&rpc->lock);
}

char *lh_rpc_channel_refusal(const struct channel *channel, const char *text)
{
    if (channel == NULL || channel->answerer == NULL ||
        strstr(text, "Verify peer callback") == NULL)
        return NULL;
    return lh_rpc_answerer_refusal(channel->answerer);
}

/* ---- who answers, again ---- */

struct asked {
    struct channel **all; /* each with a reference, some several times */
    size_t count, capacity;
};

static void ask_of(struct asked *asked, struct channel *c)
{
    LH_GROW(asked->all, asked->capacity, asked->count + 1);
    c->references++;
    asked->all[asked->count++] = c;
}

/* Those for new links, and those that only calls still have. With the lock held. */
static void collect(struct lh_rpc *rpc, struct asked *asked)
{
    struct channel *c, *next;

    for (int kind = 0; kind < LH_SERVER_KINDS; kind++)
        HASH_ITER(hh, rpc->channels[kind], c, next)
            ask_of(asked, c);
    for (struct lh_rpc_link *l = rpc->links; l != NULL; l = l->next)
        if (l->channel != NULL)
            ask_of(asked, l->channel);
}

/* Nobody uses it any more. With the lock held. */
static void end_channel(struct lh_rpc *rpc, struct channel *c)
{
    c->ended = true;
    for (int kind = 0; kind < LH_SERVER_KINDS; kind++) {
        struct channel *found;
        HASH_FIND_STR(rpc->channels[kind], c->server, found);
        if (found != c)
            continue;
        HASH_DEL(rpc->channels[kind], c);
        lh_rpc_channel_give(c);
    }
    for (struct lh_rpc_link *l = rpc->links; l != NULL; l = l->next)
        if (l->channel == c && l->call != NULL)
            lh_rpc_channel_cancel(l->call);
}

void lh_rpc_channel_cancel(grpc_call *call)
{
    (void)grpc_call_cancel_with_status(call, GRPC_STATUS_UNAVAILABLE,
        "UNAVAILABLE: whoever answers there is not the one that is meant any more", NULL);
}

bool lh_rpc_channel_has_ended(const struct channel *channel)
{
    return channel->ended;
}

void lh_rpc_ask_who_answers(struct lh_rpc *rpc)
{
    struct asked asked = {0};

    pthread_mutex_lock(&rpc->lock);
    collect(rpc, &asked);
    pthread_mutex_unlock(&rpc->lock);
    for (size_t i = 0; i < asked.count; i++) {
        struct channel *c = asked.all[i];
        bool holds = c->answerer == NULL || lh_rpc_answerer_holds(c->answerer);
        pthread_mutex_lock(&rpc->lock);
        if (!holds && !c->ended)
            end_channel(rpc, c);
        lh_rpc_channel_give(c);
        pthread_mutex_unlock(&rpc->lock);
    }
    free(asked.all);
}
