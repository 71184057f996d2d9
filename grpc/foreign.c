/* Servers that are not ours: what etcd's connections and calls need that ours do not. */
#include "grpc/foreign.h"
#include "base/alloc.h"
#include "base/error.h"
#include "grpc/channel.h"
#include "grpc/internal.h"
#include "proto/codec.h"

#include <grpc/slice.h>
#include <stdlib.h>
#include <string.h>

/* etcd ends a connection that is probed more often than every five seconds, or while it has no call
 * (GRPCKeepAliveMinTime; GOAWAY "too_many_pings"). Calls that cannot wait so long have a deadline
 * of their own. */
#define KEEPALIVE_MS         10000
#define KEEPALIVE_TIMEOUT_MS 3000

size_t lh_rpc_foreign_args(grpc_arg *args)
{
    size_t n = 0;

#define INT(key, value) args[n++] = lh_rpc_int_arg(key, value)
    INT(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)LH_MESSAGE_BYTES_MAX);
    INT(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, (int)LH_MESSAGE_BYTES_MAX);
    INT(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
    INT(GRPC_ARG_ENABLE_CHANNELZ, 0);

    INT(GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS);
    INT(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS);
    INT(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
    /* A watch on which nothing happens is probed on and on. */
    INT(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);

    /* Of the settings for our own servers, those that concern what arrives here: large pages come
     * without a wait for each 64 KiB. The bandwidth-delay probe is a ping, too. */
    INT(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8 << 20);
    INT(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    INT(GRPC_ARG_TCP_READ_CHUNK_SIZE, 256 << 10);
#undef INT
    return n;
}

size_t lh_rpc_foreign_metadata(const struct lh_rpc_link *link, grpc_metadata *metadata)
{
    size_t n = 0;

    if (!lh_method_info(link->method)->foreign)
        return 0;
    memset(metadata, 0, FOREIGN_METADATA_MAX * sizeof *metadata);
    /* A member that has no leader refuses at once, so that certainly nothing was done and another
     * member can be asked, instead of after seven seconds, and ends a watch instead of falling
     * silent. Status alone is to be had without a leader: it says whether there is one. */
    if (link->method != LH_METHOD_ETCD_STATUS) {
        metadata[n].key = grpc_slice_from_static_string("hasleader");
        metadata[n++].value = grpc_slice_from_static_string("true");
    }
    if (link->token != NULL) {
        metadata[n].key = grpc_slice_from_static_string("token");
        metadata[n++].value = grpc_slice_from_copied_string(link->token);
    }
    return n;
}

void lh_rpc_link_set_token(struct lh_rpc_link *link, const char *token)
{
    grpc_slice value = grpc_slice_from_copied_string(token);
    bool legal = grpc_header_nonbin_value_is_legal(value) != 0;

    grpc_slice_unref(value);
    pthread_mutex_lock(&link->lock);
    if (legal) {
        link->token = lh_strdup(token);
    } else { /* the call does not come to be; the flush reports it */
        link->over = true;
        link->ended = true;
        link->end_error = LH_ERR_MALFORMED;
        link->end_text = lh_strdup("the token has bytes that a call's metadata cannot carry");
    }
    pthread_mutex_unlock(&link->lock);
}
