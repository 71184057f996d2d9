/* Addresses to listen on and to connect to: "host:port", "[v6]:port", "unix:/path". */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct addrinfo;
struct sockaddr_un;

/* Whether it is "unix:" and a path. */
bool lh_address_is_unix(const char *address);

/* Of such a one: false when its path has no byte, or more than a socket's can have. */
bool lh_address_unix(const char *address, struct sockaddr_un *un);

/* Cuts "host:port" or "[v6]:port" in two: the host's copy, at most 255 bytes, and where the port
 * begins in `address`. Whether it is one; the host may be empty. */
bool lh_address_split(const char *address, char *host, size_t host_size, const char **port);

/* Whether something can listen on `address`, as far as can be known beforehand: whoever binds a
 * Unix socket takes it away from a living server without a word. Errors as
 * lh_transport_create(). */
LH_MUST_USE int lh_listen_check(const char *address, char *why, size_t why_size);

/* Why nobody could listen on `address`: never LH_OK. */
LH_MUST_USE int lh_listen_explain(const char *address, char *why, size_t why_size);

/* getaddrinfo() of "host:port" or "[v6]:port", and its errors; freeaddrinfo() frees `found`. May
 * ask a name server, which takes its time, unless `flags` say AI_NUMERICHOST. */
LH_MUST_USE int lh_address_look_up(const char *address, int flags, struct addrinfo **found);
