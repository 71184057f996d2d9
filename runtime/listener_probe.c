#include "runtime/listener_probe.h"

#include "admission/admission.h"
#include "base/alloc.h"
#include "grpc/rpc.h"
#include "runtime/log.h"
#include "runtime/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define UNIX_PREFIX "unix:"

/* How often the network is tended. */
#define TEND_NS UINT64_C(500000000)

/* A try goes out this often, and may take as long; three in a row have to fail at least. */
#define TRY_NS    UINT64_C(5000000000)
#define TRIES_MIN 3u

struct lh_listener_probe {
    struct lh_listener_probe_config config;
    char address[320];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;
    bool removed_said;
};

static _Atomic uint64_t failures;

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Where this machine reaches `listen`. */
static void own_address(const struct lh_listener_probe_config *c, char *text, size_t size)
{
    const char *colon = strrchr(c->listen, ':');
    int port = lh_loop_port(c->loop);

    if (port == 0 || colon == NULL)
        (void)snprintf(text, size, "%s", c->listen);
    else if (strncmp(c->listen, "0.0.0.0:", 8) == 0)
        (void)snprintf(text, size, "127.0.0.1:%d", port);
    else if (strncmp(c->listen, "[::]:", 5) == 0)
        (void)snprintf(text, size, "[::1]:%d", port);
    else
        (void)snprintf(text, size, "%.*s:%d", (int)(colon - c->listen), c->listen, port);
}

/* A Unix socket whose name is gone: who is connected stays so, and nobody else can come. It may
 * have been removed on purpose. */
static bool socket_removed(struct lh_listener_probe *h)
{
    struct stat is;
    size_t n = strlen(UNIX_PREFIX);

    if (strncmp(h->address, UNIX_PREFIX, n) != 0 || stat(h->address + n, &is) == 0 ||
        errno != ENOENT)
        return false;
    if (!h->removed_said)
        lh_log(LH_WARN, h->config.component,
            "%s was removed: nobody can connect any more; a restart makes it anew", h->address + n);
    h->removed_said = true;
    return true;
}

/* Whether there are the descriptors for a try at all. */
static bool can_try(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    close(fd);
    return true;
}

/* One try. True: it heard itself, or cannot tell. */
static bool hears(struct lh_listener_probe *h, uint64_t timeout_ns, char *why, size_t why_size)
{
    struct lh_connections_figures before, after;

    if (!can_try() || socket_removed(h))
        return true;
    lh_connections_figures(&before);
    int error = lh_rpc_ask_health(
        h->address, lh_loop_tls(h->config.loop), (struct lh_duration){timeout_ns}, why, why_size);
    if (error == LH_OK)
        return true;
    atomic_fetch_add(&failures, 1);
    /* Who turns connections away hears them. */
    lh_connections_figures(&after);
    return after.refused > before.refused;
}

/* Waits until `until`; false: it is over. */
static bool wait_until(struct lh_listener_probe *h, uint64_t until)
{
    const struct timespec at = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};

    pthread_mutex_lock(&h->lock);
    int waited = 0;
    while (!h->stopping && waited == 0)
        waited = pthread_cond_timedwait(&h->changed, &h->lock, &at);
    bool go_on = !h->stopping;
    pthread_mutex_unlock(&h->lock);
    return go_on;
}

static void *probe_main(void *arg)
{
    struct lh_listener_probe *h = arg;
    uint64_t deaf_after = h->config.deaf_after.ns;
    uint64_t each = deaf_after / TRIES_MIN < TRY_NS ? deaf_after / TRIES_MIN : TRY_NS;
    uint64_t next = now_ns() + each, since = 0;
    unsigned failed = 0;
    char why[512] = "";

    while (wait_until(h, now_ns() + TEND_NS)) {
        lh_loop_housekeep(h->config.loop);
        uint64_t begin = now_ns();
        if (deaf_after == 0 || begin < next)
            continue;
        next = begin + each;
        if (hears(h, each, why, sizeof why)) {
            failed = 0;
            continue;
        }
        if (failed++ == 0)
            since = begin;
        uint64_t silent = now_ns() - since;
        if (failed < TRIES_MIN || silent < deaf_after)
            continue;
        char text[1024];
        (void)snprintf(text, sizeof text,
            "deaf: for %.0f s no new connection to %s was answered, not even from here (%s)",
            (double)silent / 1e9, h->address, why);
        h->config.on_deaf(h->config.arg, text);
        deaf_after = 0; /* once */
    }
    return NULL;
}

static void end(struct lh_listener_probe *h)
{
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

struct lh_listener_probe *lh_listener_probe_start(
    const struct lh_listener_probe_config *config, char *why, size_t why_size)
{
    struct lh_listener_probe *h = lh_alloc(sizeof *h);
    pthread_condattr_t monotonic;

    h->config = *config;
    own_address(config, h->address, sizeof h->address);
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&h->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (lh_thread_start(&h->thread, probe_main, h, why, why_size) == LH_OK)
        return h;
    end(h);
    return NULL;
}

void lh_listener_probe_stop(struct lh_listener_probe *h)
{
    if (h == NULL)
        return;
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    end(h);
}

uint64_t lh_listener_probe_failures(void)
{
    return atomic_load(&failures);
}
