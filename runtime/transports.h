/* The transports that there are. */
#pragma once

#include "runtime/transport_methods.h"

/* How nodes of ours call each other. A server answers in whichever way it is called. */
enum lh_transport_kind {
    LH_TRANSPORT_WIRE, /* by our own protocol; gRPC carries what is foreign */
    LH_TRANSPORT_GRPC, /* by gRPC alone, and nothing else is answered */
    LH_TRANSPORT_KINDS
};

/* "wire", "grpc", and NULL behind the last. */
extern const char *const lh_transport_names[LH_TRANSPORT_KINDS + 1];

const struct lh_transport_methods *lh_transport_of(enum lh_transport_kind kind);
