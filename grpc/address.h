/* Addresses to listen on. */
#pragma once

#include <stddef.h>

/* Whether something can listen on `address`, as far as can be known beforehand: gRPC takes a Unix
 * socket away from a living server without a word. */
int lh_rpc_check_listen(const char *address, char *why, size_t why_size);

/* Why gRPC may have refused to listen on `address`: never LH_OK. */
int lh_rpc_explain_listen(const char *address, char *why, size_t why_size);
