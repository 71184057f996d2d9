/* Whether a server still hears: every some seconds it asks its own health service over a connection
 * made for that, as a new client would. What goes wrong below it, in a library or in the kernel,
 * may leave it with the connections that it has and without any new one, while all who are
 * connected find it well; only a restart helps then. */
#pragma once

#include "base/time.h"
#include "runtime/loop.h"

#include <stdint.h>

struct lh_listener_probe;

struct lh_listener_probe_config {
    struct lh_loop *loop;
    const char *listen;    /* as the server's --listen */
    const char *component; /* in log lines */
    /* It is deaf once every try has failed for so long; NEVER to look at is 0. */
    struct lh_duration deaf_after;
    /* Called once, from a thread of its own. `why` is a sentence. */
    void (*on_deaf)(void *arg, const char *why);
    void *arg;
};

/* Starts a thread that listens to itself, and that tends the loop's network. The config is copied,
 * what it points to must stay. NULL: there is no thread to be had; `why` has a sentence. */
struct lh_listener_probe *lh_listener_probe_start(
    const struct lh_listener_probe_config *config, char *why, size_t why_size);

/* Ends it; waits for a try that is under way. NULL is allowed. */
void lh_listener_probe_stop(struct lh_listener_probe *probe);

/* Tries that failed since the process began. */
uint64_t lh_listener_probe_failures(void);
