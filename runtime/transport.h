/* The door of the transports: links that carry whole messages as counted buffers between nodes.
 *
 * One *link* is one call of one method (enum lh_method), opened by us or served to a peer. A
 * lh_transport is a node's end of all its links: at most one listening port, connections to the
 * addresses that it calls, and the threads in which everything that arrives is reported. Which
 * transport that is says whoever creates it; gRPC's is in grpc/rpc.h. What follows holds for each.
 *
 * Two halves. lh_transport_link_open(), _send(), _close() and _read() only write down what is
 * wanted: they make no system call, so that an owner can call them under a lock of its own, where
 * the order of sends is decided. lh_transport_link_flush() then does it, and is to be called
 * outside that lock: it may encode, copy to a socket and take hundreds of microseconds. What is
 * wanted of a link within a callback for it is also done when that callback has returned.
 *
 * Reading is on demand: each lh_transport_link_read() lets one message in. Who does not ask is not
 * given; the peer is then stopped by flow control.
 *
 * Callbacks come from the transport's threads and, for one link, in order: on_opened (served
 * links), on_message..., on_half_closed, on_closed. A message that was asked for from within a
 * callback may be reported, by another thread, before that callback has returned; on_closed waits
 * until all others have. on_sent may come beside any other, and before on_closed. A callback may
 * call everything here but lh_transport_destroy().
 *
 * Links are reference-counted. The owner gets one reference with lh_transport_link_open() or
 * on_opened and gives it back with lh_transport_link_unref() when it will not name the link again.
 *
 * Foreign methods (lh_method_info()) are called at servers that are not ours, which is etcd. Which
 * transport carries them, and what their links end with: grpc/rpc.h. They have connections of their
 * own, even to the same address, and files for TLS of their own. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/step.h"
#include "base/time.h"
#include "proto/codec.h"
#include "runtime/transport_methods.h"
#include "tls/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_TRANSPORT_SERVICES_MAX 4u
struct lh_transport_config {
    /* Where to listen: "host:port", "[v6]:port" or "unix:/path"; port 0 picks one.
     * NULL: nowhere. */
    const char *listen;
    /* It listens nowhere, and serves connections that another transport accepts. */
    bool handed;
    /* Threads that wait for the network; 0: one. More help only where callbacks take long. */
    unsigned threads;
    /* Served calls at once beyond which further ones get threads of their own, one for so many;
     * 0: the transport's default. */
    unsigned queue_calls;
    /* An idle connection that was opened here is probed this often, one that was accepted as the
     * transport sees fit. Either is given up when a probe stays unanswered for keepalive_timeout.
     * 0: the defaults of 2 s each. */
    struct lh_duration keepalive, keepalive_timeout;
    /* A connection attempt may take this long. 0: the default of 2 s. */
    struct lh_duration connect_timeout;
    /* How long lh_transport_destroy() lets served links finish. 0: the default of 200 ms. */
    struct lh_duration grace;
    /* What peers may take of this process; 0: no bound. Calls that they have open here at once (of
     * one connection a quarter of them), further ones are refused; memory for what they have begun
     * to send; bytes of replies that they have not taken, beyond which unary calls without bulk
     * bytes are refused (lh_transport_unsent() tells the owner, for those with). */
    unsigned calls_max;
    size_t memory_max, unsent_max;
    /* What the connections with one peer (admission/) may take of calls_max and unsent_max
     * together; further calls of it are refused, of any kind. 0: all. */
    unsigned peer_calls_max;
    size_t peer_unsent_max;
    /* A connection that does not speak the transport's protocol (and TLS) so long after it was
     * accepted is closed; 0: the default of 20 s. One on which there was no call for so long is; 0:
     * none. */
    struct lh_duration handshake_timeout, idle_timeout;
    /* A unary call whose request is not there in whole so long after it began is ended. 0: the
     * default of 30 s. */
    struct lh_duration request_timeout;
    /* The largest message that a peer may send to what is served here; it may be found out only
     * when all of it is there. 0: LH_MESSAGE_BYTES_MAX. */
    size_t served_message_max;
    /* A reply that its peer has not taken after so long is dropped, with its call, while more than
     * half of unsent_max is unsent. 0: the default of 10 s. */
    struct lh_duration reply_timeout;
    /* The services that are served here, for peers that ask: at most LH_TRANSPORT_SERVICES_MAX
     * static names, NULL behind the last; or NULL. */
    const char *const *services;
    /* Of connections with nodes of ours, both ways, and of those to foreign servers; without files,
     * in the clear. Both sides show certificates (tls.h). `log`, which may be NULL, is told what
     * becomes of files that replace these, by any thread; it must not call anything here. */
    struct lh_tls_files tls, foreign_tls;
    /* `tls`, if it was opened before; NULL: it was not. A reference is taken. */
    struct lh_tls *shared_tls;
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
     * lh_transport_link_read(). */
    void (*on_opened)(
        void *arg, struct lh_transport_link *link, enum lh_method method, const char *peer);
    /* One message arrived; the callback takes over `bytes`. */
    void (*on_message)(void *arg, struct lh_transport_link *link, struct lh_buf bytes);
    /* The peer of a served stream will send nothing more, and may still listen; also seen when the
     * link is about to end. Only while a read is wanted, once, before on_closed. May be NULL. */
    void (*on_half_closed)(void *arg, struct lh_transport_link *link);
    /* A message that was sent with `notify` has left: nothing of it waits for its turn here any
     * more. Nothing is known of its arrival. */
    void (*on_sent)(void *arg, struct lh_transport_link *link);
    /* The link is over: the last callback for it, and never after lh_transport_link_close() (except
     * that one already in flight in another thread may still come). `error` LH_OK: the server ended
     * it normally. `text` says more, valid during the call, may be NULL. A served link ends
     * CANCELLED, which is also what a lost connection looks like. */
    void (*on_closed)(void *arg, struct lh_transport_link *link, int error, const char *text);
    /* Around a thread's callbacks: what they cause may wait for the second one. May be NULL. */
    void (*on_round)(void *arg, bool begins);
    /* The last reference to a link is gone: release what the owner's bytes refer to. May be NULL.
     * The one callback that can come after lh_transport_destroy(), from an
     * lh_transport_link_unref(). */
    void (*on_released)(void *arg, struct lh_transport_link *link);
};

struct lh_transport_figures {
    uint64_t calls, unsent;      /* open now; bytes of replies not taken */
    uint64_t calls_refused;      /* since the start: too many calls, or too much unsent */
    uint64_t peer_calls_refused; /* of these, for what one peer has */
    uint64_t replies_dropped, requests_dropped;
    struct lh_tls_figures tls; /* of both kinds of connections */
};

/* ---- A node's end ---- */

/* Sets up the node's end and its threads and binds the port, but accepts and reports nothing before
 * lh_transport_start(). The config is copied; its strings too. On failure `why` (of `why_size`
 * bytes) has a sentence that names the address, or the file.
 *   ADDRESS_IN_USE    somebody listens there
 *   INVALID_ARGUMENT  not an address; what lh_tls_open() finds wrong with a file
 *   UNAVAILABLE       not one of this machine; SYSTEM: no thread or descriptor is to be had */
LH_MUST_USE static inline int lh_transport_create(const struct lh_transport_methods *methods,
    const struct lh_transport_config *config, struct lh_transport **transport, char *why,
    size_t why_size)
{
    return methods->create(config, transport, why, why_size);
}

/* Accepts calls. Call once. */
static inline void lh_transport_start(struct lh_transport *transport)
{
    transport->methods->start(transport);
}

/* Ends everything: no new calls, served links get the grace time to finish sending, then all links
 * are cut. Callbacks may come until it returns, none after. Not from a callback. Links that the
 * owner still holds references to stay valid memory until it gives them back. NULL is allowed. */
static inline void lh_transport_destroy(struct lh_transport *transport)
{
    if (transport != NULL)
        transport->methods->destroy(transport);
}

/* The TCP port that is listened on; 0 for none or a Unix socket. */
static inline int lh_transport_port(const struct lh_transport *transport)
{
    return transport->methods->port(transport);
}

/* Bytes of replies that peers have not taken. Any thread. */
static inline uint64_t lh_transport_unsent(const struct lh_transport *transport)
{
    return transport->methods->unsent(transport);
}

static inline void lh_transport_figures(
    const struct lh_transport *transport, struct lh_transport_figures *figures)
{
    transport->methods->figures(transport, figures);
}

/* The files behind its connections with nodes of ours; NULL: in the clear. It stays the
 * transport's. */
static inline struct lh_tls *lh_transport_tls(const struct lh_transport *transport)
{
    return transport->methods->tls(transport);
}

/* To be called every some hundred milliseconds by a server: drops replies that nobody takes and
 * requests that do not come, and looks for renewed certificates. Any thread. */
static inline void lh_transport_housekeep(struct lh_transport *transport)
{
    transport->methods->housekeep(transport);
}

/* Whether this server, and its services, are said to serve from now on, to peers that ask for it;
 * neither at first. Any thread. */
static inline void lh_transport_set_serving(
    struct lh_transport *transport, bool server, bool services)
{
    transport->methods->set_serving(transport, server, services);
}

/* What `may_answer` says may have changed: it is asked again of whoever answers now. */
static inline void lh_transport_ask_who_answers(struct lh_transport *transport)
{
    transport->methods->ask_who_answers(transport);
}

/* Around a thread's flushes of several links: what they have for a connection leaves together. */
static inline void lh_transport_flush_begin(struct lh_transport *transport)
{
    transport->methods->flush_begin(transport);
}
static inline void lh_transport_flush_end(struct lh_transport *transport)
{
    transport->methods->flush_end(transport);
}

/* ---- Links ---- */

/* A new link to `address` ("host:port" or "unix:/path", perhaps with a name: lh_server_at()), to be
 * started by lh_transport_link_flush(). Connections are shared by address, name and kind of server.
 * An address that cannot be reached ends the link with UNAVAILABLE as soon as that is known.
 * `timeout` counts from the flush; LH_DURATION_FOREVER for none. For a unary method exactly one
 * message is sent and at most one read. */
static inline struct lh_transport_link *lh_transport_link_open(struct lh_transport *transport,
    enum lh_method method, const char *address, struct lh_duration timeout)
{
    return transport->methods->open(transport, method, address, timeout);
}

/* Before the first flush of a link of a foreign method: its call shows `token`. It is copied. One
 * that no call can carry ends the link with MALFORMED. */
static inline void lh_transport_link_set_token(struct lh_transport_link *link, const char *token)
{
    link->methods->set_token(link, token);
}

/* The owner's bytes. */
static inline void *lh_transport_link_data(const struct lh_transport_link *link)
{
    return link->data;
}

/* Who opened a served link, by its certificate (see LH_IN_LINK_OPENED). The link's; never NULL. */
static inline const char *lh_transport_link_identity(const struct lh_transport_link *link)
{
    return link->identity;
}

static inline void lh_transport_link_ref(struct lh_transport_link *link)
{
    link->methods->ref(link);
}

static inline void lh_transport_link_unref(struct lh_transport_link *link)
{
    link->methods->unref(link);
}

/* Queues one message; takes over `bytes`. With `notify` on_sent says when it has left, unless the
 * link ends first. Without effect on a link that is over or was closed. */
static inline void lh_transport_link_put(
    struct lh_transport_link *link, struct lh_buf bytes, bool notify)
{
    link->methods->put(link, bytes, notify);
}

/* The same without `notify`. */
static inline void lh_transport_link_send(struct lh_transport_link *link, struct lh_buf bytes)
{
    link->methods->put(link, bytes, false);
}

/* Ends the link. A served one sends what was queued and then its end, with which the peer's link
 * ends: `error` and `text`. An opened one is cancelled, and what was queued is dropped. `text` is
 * copied and may be NULL. */
static inline void lh_transport_link_close(
    struct lh_transport_link *link, int error, const char *text)
{
    link->methods->close(link, error, text);
}

/* Lets one more message in. Without effect while an earlier one is still awaited. */
static inline void lh_transport_link_read(struct lh_transport_link *link)
{
    link->methods->read(link);
}

/* Carries out what was written down for the link. Any thread; several at once are fine: one works,
 * the others leave it to that one. */
static inline void lh_transport_link_flush(struct lh_transport_link *link)
{
    link->methods->flush(link);
}
