#include "runtime/transports.h"

#include "grpc/rpc.h"

const struct lh_transport_methods *const lh_transport_default = &lh_rpc_transport;
