/* Errors as statuses of gRPC, and back. */
#pragma once

#include <grpc/grpc.h>
#include <stdbool.h>

struct lh_rpc_link;

/* "NAME: text", with the error's own text if it is NULL. */
grpc_slice lh_rpc_status_message(int error, const char *text);

/* "NAME: text" back to its error, with *details moved on to the text; otherwise by the code. What a
 * foreign server says is left as it is. */
int lh_rpc_error_of(grpc_status_code status, bool foreign, const char **details);

/* What the owner is told of an opened link's end, to be freed: with a hint where connections fail
 * for want of TLS or by it. NULL: nothing was said. */
char *lh_rpc_end_text(const struct lh_rpc_link *link, int error, const char *text);
