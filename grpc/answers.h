/* Who answers at the other end of a channel, as its handshakes find out (ACC-8). */
#pragma once

#include "base/step.h"
#include "proto/codec.h"

#include <grpc/grpc_security.h>
#include <stdbool.h>

struct lh_rpc;
struct answerer;

/* For one channel; `server` as of lh_server_at(). */
struct answerer *lh_rpc_answerer_create(
    struct lh_rpc *rpc, const char *server, enum lh_server_kind kind);
void lh_rpc_answerer_unref(struct answerer *a);
/* Has gRPC ask it about each certificate; it then has a reference of its own. */
void lh_rpc_answerer_verify(struct answerer *a, grpc_ssl_verify_peer_options *options);
/* Is whoever answered last still the one that is meant? The owner is asked: hold no lock. */
bool lh_rpc_answerer_holds(struct answerer *a);
/* Why whoever answered last is not; NULL: it is. To be freed. */
char *lh_rpc_answerer_refusal(struct answerer *a);
