/* gRPC as a transport (runtime/transport.h), and what only gRPC has.
 *
 * The standard services grpc.health.v1.Health and grpc.reflection.v1 (and v1alpha) are answered
 * here and never shown to the owner. Reflection lists the services of the config. Health tells of
 * them, and of the server as a whole (""), what lh_transport_set_serving() said last; watchers hear
 * of each change.
 *
 * A link that ends with an error has a status whose message is "NAME: text". on_sent says that gRPC
 * took all of a message. A connection that was accepted is probed every 20 s. A thread has 2048
 * calls unless the config says otherwise. gRPC compares a message's size with served_message_max
 * when it has all of it.
 *
 * Foreign methods (lh_method_info()) are called at etcd (3.4). A token goes as the metadata of that
 * name. All but Status are asked with `hasleader`: a member without a leader refuses at once and
 * has done nothing. on_closed gets etcd's message unchanged, and of its statuses
 *   DEADLINE_EXCEEDED  also "request timed out": it may have been done, or be done yet
 *   UNAVAILABLE        other UNAVAILABLE, and "raft proposal dropped": the text says whether
 *                      nothing was done ("etcdserver: no leader"); a lost connection leaves it open
 *   UNKNOWN_SESSION    authenticate (again): "invalid auth token", "revision of auth store is old",
 *                      "user name is empty" (there was no token)
 *   PERMISSION         this user may not, or name or password are wrong
 *   UNIMPLEMENTED      "authentication is not enabled", of Authenticate; no such method
 *   STALE_VERSION      the revision has been compacted
 *   OUT_OF_SEQUENCE    the revision is a future one to this member
 *   TOO_LARGE          the request, in bytes or operations; or the reply
 *   DISK_FULL          etcd's quota is used up; it may have been done
 *   NO_MEMORY          other RESOURCE_EXHAUSTED, and "too many requests": nothing was done
 *   CORRUPT            DATA_LOSS
 *   MALFORMED          the token, or the reply
 *   INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, CANCELLED as they are; SYSTEM what is left. */
#pragma once

#include "base/error.h"
#include "base/time.h"
#include "runtime/transport.h"
#include "tls/tls.h"

#include <stdbool.h>
#include <stddef.h>

/* gRPC C core, over TCP or a Unix socket. */
extern const struct lh_transport_methods lh_rpc_transport;
/* Whether this process has begun to use gRPC, ever. */
bool lh_rpc_was_begun(void);

/* Serves a connection that was accepted elsewhere; of one with `handed` in its config. What has
 * arrived of it is still to be read. False: it is shutting down, and the descriptor stays the
 * caller's. */
LH_MUST_USE bool lh_rpc_take_connection(struct lh_transport *transport, int fd);

/* For a whole process, before its first transport: gRPC no longer checks the order in which its
 * threads take its locks. Not for a library: there it is the program's business. */
void lh_rpc_trust_locks(void);

/* Asks the health service of this process, at `address`, over a connection made for it, and waits
 * for that. `tls`: the server's own, or NULL. LH_OK: it answered, whatever it said, and be it that
 * it is not to be trusted. Not from a callback. Any thread; needs no transport. */
LH_MUST_USE int lh_rpc_ask_health(const char *address, struct lh_tls *tls,
    struct lh_duration timeout, char *why, size_t why_size);
