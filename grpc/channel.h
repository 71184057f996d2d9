/* Channels, which links to the same server share, and the settings of both ends. */
#pragma once

#include "base/step.h"
#include "proto/codec.h"

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stddef.h>

struct channel;
struct lh_rpc;

/* The shared channel to a server (lh_server_at()); the caller uses it until it gives it back. It is
 * another one than before once certificates were renewed: what began over the old one goes on
 * there. */
struct channel *lh_rpc_channel_take(
    struct lh_rpc *rpc, const char *server, enum lh_server_kind kind);
grpc_channel *lh_rpc_channel_of(const struct channel *channel);
/* With rpc->lock held. NULL is allowed. */
void lh_rpc_channel_give(struct channel *channel);
void lh_rpc_channels_destroy(struct lh_rpc *rpc);
/* Whoever answers there is not meant any more: its calls end. With rpc->lock held, both. */
bool lh_rpc_channel_has_ended(const struct channel *channel);
void lh_rpc_channel_cancel(grpc_call *call);
/* lh_rpc_answerer_refusal(), if that is what `text`, gRPC's, is about. */
char *lh_rpc_channel_refusal(const struct channel *channel, const char *text);

/* Settings that both ends need; see there. Returns how many of `args` were set. */
#define RPC_ARGS_MAX 40
size_t lh_rpc_common_args(const struct lh_rpc *rpc, size_t receive_max, grpc_arg *args);
grpc_arg lh_rpc_int_arg(const char *key, int value);
int lh_rpc_milliseconds(struct lh_duration d);
