/* gRPC behind one small interface: links that carry whole messages as counted buffers.
 *
 * One *link* is one call of one method of ours (enum lh_method), opened by us or served to a peer.
 * An lh_rpc is a node's end of all its links: at most one listening port, one channel per address
 * that it calls, and the threads in which everything that arrives is reported.
 *
 * Two halves. lh_rpc_link_open(), _send(), _close() and _read() only write down what is wanted:
 * they make no system call, so that an owner can call them under a lock of its own, where the order
 * of sends is decided. lh_rpc_link_flush() then does it, and is to be called outside that lock: it
 * may encode, copy to a socket and take hundreds of microseconds.
 *
 * Reading is on demand: each lh_rpc_link_read() lets one message in. Who does not ask is not given;
 * the peer is then stopped by flow control.
 *
 * Callbacks come from the rpc's threads and, for one link, in order: on_opened (served links),
 * on_message..., on_half_closed, on_closed. A message that was asked for from within a callback may
 * be reported, by another thread, before that callback has returned; on_closed waits until all
 * others have. A callback may call everything here but lh_rpc_destroy().
 *
 * Links are reference-counted. The owner gets one reference with lh_rpc_link_open() or on_opened
 * and gives it back with lh_rpc_link_unref() when it will not name the link again.
 *
 * The standard services grpc.health.v1.Health and grpc.reflection.v1 (and v1alpha) are answered
 * here and never shown to the owner.
 *
 * Foreign methods (lh_method_info()) are called at servers that are not ours, which is etcd (3.4).
 * They have connections of their own, even to the same address, and files for TLS of their own.
 * All but Status are asked with `hasleader`: a member without a leader refuses at once and has done
 * nothing. on_closed gets etcd's message unchanged, and of its statuses
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

#include "base/buf.h"
#include "base/error.h"
#include "base/step.h"
#include "base/time.h"
#include "proto/codec.h"
#include "tls/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_rpc;
struct lh_rpc_link;

#define LH_RPC_SERVICES_MAX 4u

struct lh_rpc_config {
    /* Where to listen: "host:port", "[v6]:port" or "unix:/path"; port 0 picks one.
     * NULL: nowhere. */
    const char *listen;
    /* Threads that wait for the network; 0: one. More help only where callbacks take long. */
    unsigned threads;
    /* Served calls at once beyond which further ones get threads of their own, one for so many;
     * 0: the default of 2048. */
    unsigned queue_calls;
    /* An idle connection that was opened here is probed this often, one that was accepted every
     * 20 s. Either is given up when a probe stays unanswered for keepalive_timeout. 0: the defaults
     * of 2 s each. */
    struct lh_duration keepalive, keepalive_timeout;
    /* A connection attempt may take this long. 0: the default of 2 s. */
    struct lh_duration connect_timeout;
    /* How long lh_rpc_destroy() lets served links finish. 0: the default of 200 ms. */
    struct lh_duration grace;
    /* What peers may take of this process; 0: no bound. Calls that they have open here at once (of
     * one connection a quarter of them), further ones are refused; memory for what they have begun
     * to send; bytes of replies that they have not taken, beyond which unary calls without bulk
     * bytes are refused (lh_rpc_unsent() tells the owner, for those with). */
    unsigned calls_max;
    size_t memory_max, unsent_max;
    /* What the connections with one peer (peers.h) may take of calls_max and unsent_max together;
     * further calls of it are refused, of any kind. 0: all. */
    unsigned peer_calls_max;
    size_t peer_unsent_max;
    /* A connection that does not speak HTTP/2 (and TLS) so long after it was accepted is closed; 0:
     * the default of 20 s. One on which there was no call for so long is; 0: none. */
    struct lh_duration handshake_timeout, idle_timeout;
    /* A unary call whose request is not there in whole so long after it began is ended. 0: the
     * default of 30 s. */
    struct lh_duration request_timeout;
    /* The largest message that a peer may send to what is served here; gRPC finds out when it has
     * all of it. 0: LH_MESSAGE_BYTES_MAX. */
    size_t served_message_max;
    /* A reply that its peer has not taken after so long is dropped, with its call, while more than
     * half of unsent_max is unsent. 0: the default of 10 s. */
    struct lh_duration reply_timeout;
    /* The services that are served here, which reflection lists and health tells of besides the
     * server's own (""): at most LH_RPC_SERVICES_MAX static names, NULL behind the last; or
     * NULL. */
    const char *const *services;
    /* Of connections with nodes of ours, both ways, and of those to foreign servers; without files,
     * in the clear. Both sides show certificates (tls.h). `log`, which may be NULL, is told what
     * becomes of files that replace these, by any thread; it must not call anything here. */
    struct lh_tls_files tls, foreign_tls;
    void (*log)(enum lh_level level, const char *text);
    /* With TLS: is whoever has this identity, and answers at an address, the server that was called
     * there (ACC-8)? `name`: of a chunkserver, or NULL. `apart`: its certificate's authority is not
     * that of `tls`. LH_OK, or `text` says why not: then nothing is sent there, and links end with
     * UNAVAILABLE. By any thread, which holds no lock. */
    int (*may_answer)(void *arg, enum lh_server_kind kind, const char *name, const char *identity,
        bool apart, char *text, size_t text_size);
    /* Bytes of the owner's that each link carries, zeroed when the link is made. */
    size_t link_data_size;
    void *arg;
    /* A peer opened a link. `peer` is its address, valid during the call. Nothing is read before
     * lh_rpc_link_read(). */
    void (*on_opened)(void *arg, struct lh_rpc_link *link, enum lh_method method, const char *peer);
    /* One message arrived; the callback takes over `bytes`. */
    void (*on_message)(void *arg, struct lh_rpc_link *link, struct lh_buf bytes);
    /* The peer of a served stream will send nothing more, and may still listen; also seen when the
     * link is about to end. Only while a read is wanted, once, before on_closed. */
    void (*on_half_closed)(void *arg, struct lh_rpc_link *link);
    /* A message that was sent with `notify` has left: gRPC took all of it. */
    void (*on_sent)(void *arg, struct lh_rpc_link *link);
    /* The link is over: the last callback for it, and never after lh_rpc_link_close() (except that
     * one already under way in another thread may still come). `error` LH_OK: the server ended it
     * normally. `text` says more, valid during the call, may be NULL. A served link ends CANCELLED,
     * which is also what a lost connection looks like. */
    void (*on_closed)(void *arg, struct lh_rpc_link *link, int error, const char *text);
    /* The last reference to a link is gone: release what the owner's bytes refer to. May be NULL.
     * The one callback that can come after lh_rpc_destroy(), from an lh_rpc_link_unref(). */
    void (*on_released)(void *arg, struct lh_rpc_link *link);
};

/* For a whole process, before its first lh_rpc: gRPC no longer checks the order in which its
 * threads take its locks. Not for a library: there it is the program's business. */
void lh_rpc_trust_locks(void);

/* Sets up the node's end and binds the port, but accepts and reports nothing before lh_rpc_start().
 * The config is copied; its strings too. On failure `why` (of `why_size` bytes) has a sentence that
 * names the address, or the file.
 *   ADDRESS_IN_USE    somebody listens there
 *   INVALID_ARGUMENT  not an address; what lh_tls_open() finds wrong with a file
 *   UNAVAILABLE       not one of this machine */
LH_MUST_USE int lh_rpc_create(
    const struct lh_rpc_config *config, struct lh_rpc **rpc, char *why, size_t why_size);

/* Starts the threads and accepts calls. Call once. */
void lh_rpc_start(struct lh_rpc *rpc);

/* The TCP port that is listened on; 0 for none or a Unix socket. */
int lh_rpc_port(const struct lh_rpc *rpc);

/* Bytes of replies that peers have not taken. Any thread. */
uint64_t lh_rpc_unsent(const struct lh_rpc *rpc);

struct lh_rpc_figures {
    uint64_t calls, unsent;      /* open now; bytes of replies not taken */
    uint64_t calls_refused;      /* since the start: too many calls, or too much unsent */
    uint64_t peer_calls_refused; /* of these, for what one peer has */
    uint64_t replies_dropped, requests_dropped;
    struct lh_tls_figures tls; /* of both kinds of connections */
};

void lh_rpc_figures(const struct lh_rpc *rpc, struct lh_rpc_figures *figures);

/* To be called every some hundred milliseconds by a server: drops replies that nobody takes and
 * requests that do not come, and looks for renewed certificates. Any thread. */
void lh_rpc_housekeep(struct lh_rpc *rpc);

/* The files behind its connections with nodes of ours; NULL: in the clear. It stays the rpc's. */
struct lh_tls *lh_rpc_tls(const struct lh_rpc *rpc);

/* Asks the health service of this process, at `address`, over a connection made for it, and waits
 * for that. `tls`: the server's own, or NULL. LH_OK: it answered, whatever it said, and be it that
 * it is not to be trusted. Not from a callback. Any thread; needs no lh_rpc. */
LH_MUST_USE int lh_rpc_ask_health(const char *address, struct lh_tls *tls,
    struct lh_duration timeout, char *why, size_t why_size);

/* What the health service says from now on, of the server ("") and of its services; watchers are
 * told. NOT_SERVING at first. Any thread. */
void lh_rpc_set_serving(struct lh_rpc *rpc, bool server, bool services);

/* Ends everything: no new calls, served links get the grace time to finish sending, then all links
 * are cut. Callbacks may come until it returns, none after. Not from a callback. Links that the
 * owner still holds references to stay valid memory until it gives them back. NULL is allowed. */
void lh_rpc_destroy(struct lh_rpc *rpc);

/* What `may_answer` says may have changed: it is asked again of whoever answers now. */
void lh_rpc_ask_who_answers(struct lh_rpc *rpc);

/* A new link to `address` ("host:port" or "unix:/path", perhaps with a name: lh_server_at()), to be
 * started by lh_rpc_link_flush(). Connections are shared by address, name and kind of server. An
 * address that cannot be reached ends the link with UNAVAILABLE as soon as that is known. `timeout`
 * counts from the flush; LH_DURATION_FOREVER for none. For a unary method exactly one message is
 * sent and at most one read. */
struct lh_rpc_link *lh_rpc_link_open(
    struct lh_rpc *rpc, enum lh_method method, const char *address, struct lh_duration timeout);

/* Before the first flush of a link of a foreign method: its call carries `token` as the metadata of
 * that name. It is copied. One that no call can carry ends the link with MALFORMED. */
void lh_rpc_link_set_token(struct lh_rpc_link *link, const char *token);

/* The owner's bytes. */
void *lh_rpc_link_data(struct lh_rpc_link *link);
/* Who opened a served link, by its certificate (see LH_IN_LINK_OPENED). The link's; never NULL. */
const char *lh_rpc_link_identity(const struct lh_rpc_link *link);

void lh_rpc_link_ref(struct lh_rpc_link *link);
void lh_rpc_link_unref(struct lh_rpc_link *link);

/* Queues one message; takes over `bytes`. Without effect on a link that is over or was closed. */
void lh_rpc_link_send(struct lh_rpc_link *link, struct lh_buf bytes);
/* The same; with `notify` on_sent says when it has left, unless the link ends first. */
void lh_rpc_link_put(struct lh_rpc_link *link, struct lh_buf bytes, bool notify);

/* Ends the link. A served one sends what was queued and then `error` as a gRPC status whose message
 * is "NAME: text"; an opened one is cancelled. `text` is copied and may be NULL. */
void lh_rpc_link_close(struct lh_rpc_link *link, int error, const char *text);

/* Lets one more message in. Without effect while an earlier one is still awaited. */
void lh_rpc_link_read(struct lh_rpc_link *link);

/* Carries out what was written down for the link. Any thread; several at once are fine: one works,
 * the others leave it to that one. */
void lh_rpc_link_flush(struct lh_rpc_link *link);
