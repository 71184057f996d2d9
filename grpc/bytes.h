/* Our buffers as gRPC's, and back. */
#pragma once

#include "base/buf.h"

#include <grpc/grpc.h>

/* A byte buffer of `bytes` without copying more than small pieces; takes over `bytes`. */
grpc_byte_buffer *lh_rpc_bytes_out(struct lh_buf bytes);

/* A buf over a received byte buffer, which it takes over. */
struct lh_buf lh_rpc_bytes_in(grpc_byte_buffer *received);
