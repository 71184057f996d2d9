#include "runtime/transports.h"

#include "grpc/rpc.h"
#include "wire/sockets/sockets.h"

const char *const lh_transport_names[] = {
    [LH_TRANSPORT_WIRE] = "wire", [LH_TRANSPORT_GRPC] = "grpc", NULL};

const struct lh_transport_methods *lh_transport_of(enum lh_transport_kind kind)
{
    return kind == LH_TRANSPORT_GRPC ? &lh_rpc_transport : &lh_wire_transport;
}

bool lh_transport_survives_fork(void)
{
    return !lh_rpc_was_begun();
}
