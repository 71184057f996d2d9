/* The transports that there are. */
#pragma once

#include "runtime/transport_methods.h"

/* Which one a loop has that is given none: gRPC. */
extern const struct lh_transport_methods *const lh_transport_default;
