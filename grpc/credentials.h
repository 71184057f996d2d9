/* TLS as gRPC has it. */
#pragma once

#include "base/step.h"
#include "tls/tls.h"

#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <stdbool.h>
#include <stdint.h>

struct answerer;
struct lh_rpc;

/* What a new channel is made with, and which generation of `tls` that is; NULL: in the clear.
 * `answerer` NULL: to this process itself. */
grpc_channel_credentials *lh_rpc_channel_credentials(
    struct lh_tls *tls, struct answerer *answerer, uint64_t *generation);
/* Of the listener. */
grpc_server_credentials *lh_rpc_server_credentials(struct lh_rpc *rpc);

/* Who makes this call, by its certificate; without TLS "". False: the certificate names nobody, and
 * `identity` says why. */
bool lh_rpc_identity(
    const struct lh_rpc *rpc, grpc_call *call, char identity[LH_LINK_IDENTITY_MAX + 1]);

/* The log of gRPC, which nobody reads otherwise: takes what it says of handshakes. */
void lh_rpc_hear_grpc(gpr_log_func_args *args);
