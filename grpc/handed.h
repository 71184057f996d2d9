/* Connections that were accepted elsewhere. */
#pragma once

#include <grpc/grpc.h>
#include <stdbool.h>

struct lh_rpc;

/* The port of a server that is handed its connections, and the setting by which gRPC gives the
 * handler of it to `rpc`. */
#define LH_RPC_HANDED "external:leasehold"
grpc_arg lh_rpc_handed_arg(struct lh_rpc *rpc);
/* Whether it has, once the port was added. */
bool lh_rpc_may_be_handed(const struct lh_rpc *rpc);
/* Before the server is shut down: its handler must not be called any more. */
void lh_rpc_stop_handing(struct lh_rpc *rpc);
