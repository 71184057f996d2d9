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

/* To be called before and after fork(), in the thread that calls it. In between the transport's
 * lists are as they should be and its threads wait for them; the child closes what it inherited of
 * connections. Nothing else may be done with the transport there, not even to destroy it: its
 * threads did not go along. */
static inline void lh_transport_forks(struct lh_transport *transport, enum lh_fork where)
{
    transport->methods->forks(transport, where);
}

/* Whether a child of fork() can have transports of its own: not once gRPC was used in this process,
 * which keeps state that a child cannot get rid of. */
bool lh_transport_survives_fork(void);
