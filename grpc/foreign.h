/* What servers that are not ours need. */
#pragma once

#include <grpc/grpc.h>
#include <stddef.h>

struct lh_rpc_link;

/* Settings of a channel to a server that is not ours. Returns how many of `args` were set. */
size_t lh_rpc_foreign_args(grpc_arg *args);

/* What an opened link's call is to say besides its message; how many of `metadata` were set, their
 * values to be unreferenced. */
#define FOREIGN_METADATA_MAX 2
size_t lh_rpc_foreign_metadata(const struct lh_rpc_link *link, grpc_metadata *metadata);

/* As lh_transport_link_set_token(). */
void lh_rpc_link_set_token(struct lh_rpc_link *link, const char *token);
