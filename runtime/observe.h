/* What a server's operator asks over HTTP (libmicrohttpd), on a port of its own:
 *
 *   /metrics   figures in Prometheus's text format: the core's, the process's and jemalloc's
 *   /healthz   200 while the event loop goes on, else 503 and a sentence
 *   /readyz    200 when the server does its work now, else 503 and a sentence why not
 *
 * One thread serves a few connections at a time; whoever is slow gives way to others. */
#pragma once

#include "base/error.h"
#include "base/metrics.h"
#include "tls/tls.h"

#include <stdbool.h>
#include <stddef.h>

/* Connections at once, where a site does not say how many; and the part of them that one address
 * may have: a half. A new one beyond takes the place of one that has been without a whole request
 * for longest, and a request that is not answered to its end within 15 s is cut
 * (runtime/visitors.h). */
#define LH_OBSERVE_CONNECTIONS_MAX 16u
#define LH_OBSERVE_ADDRESS_SHARE   2u

struct lh_observe;

struct MHD_Connection;

/* Pages beside those, of a caller that knows libmicrohttpd. All callbacks come from the serving
 * thread. */
struct lh_observe_site {
    unsigned connections_max;
    /* A request has begun. `uri` is as it came, with its query; returns the site's part of it. */
    void *(*begin)(void *arg, const char *uri, struct MHD_Connection *connection);
    /* A GET. True: `*result` is an MHD_Result, of a queued response or of a connection that waits
     * (suspended), in which case this is called again. False: there is no such page. */
    bool (*serve)(void *arg, void *request, int *result);
    /* Whether its answer goes on until the site ends it, once it was served. */
    bool (*is_endless)(void *arg, void *request);
    /* Its answer has been sent, or never will be. */
    void (*end)(void *arg, void *request);
    void *arg;
};

struct lh_observe_config {
    const char *listen; /* host:port or [v6]:port; port 0: any free one */
    /* Serves HTTPS with the certificate there, and with those that replace it. Clients are asked
     * for one where there is a site, and need none: lh_observe_identity(). NULL: HTTP. */
    struct lh_tls *tls;
    /* Does the event loop go on? If not, `why` says so in a sentence. Called by the serving thread;
     * waits for nothing. */
    bool (*live)(void *arg, char *why, size_t why_size);
    /* Can its lock be had? Waits for less than a second. What follows is only asked if so. */
    bool (*is_responsive)(void *arg);
    /* Appends the core's figures, under the loop's lock. Called by the serving thread. */
    void (*metrics)(void *arg, struct lh_metrics *out);
    /* Is it doing its work? If not, `why` says so in a sentence. Likewise. */
    bool (*ready)(void *arg, char *why, size_t why_size);
    void *arg;
    struct lh_observe_site site; /* all-zero: none */
};

/* Serves until lh_observe_stop(). `config` is copied, what it points to must stay.
 *   INVALID_ARGUMENT  `listen` cannot be read
 *   ADDRESS_IN_USE    or is not this machine's; `why` is a sentence */
LH_MUST_USE int lh_observe_start(const struct lh_observe_config *config,
    struct lh_observe **observe, char *why, size_t why_size);

/* The port that it serves on. */
int lh_observe_port(const struct lh_observe *observe);

/* Whoever has no certificate, where others have: without a role, unless the table of roles gives it
 * one. */
#define LH_OBSERVE_NOBODY "leasehold://none/page"

/* Who is at the other end of a connection to a server with that `tls`, for the core to decide about
 * (ACC-1): "" without TLS. Only for the serving thread, in `serve`. False: a certificate was shown
 * that says nothing here, and `identity` is a sentence why. */
bool lh_observe_identity(
    struct lh_tls *tls, struct MHD_Connection *connection, char identity[LH_LINK_IDENTITY_MAX + 1]);

/* Ends the thread; no callback runs afterwards. NULL is allowed. */
void lh_observe_stop(struct lh_observe *observe);
