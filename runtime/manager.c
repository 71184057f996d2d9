#include "runtime/manager.h"

#include "base/alloc.h"
#include "runtime/notify.h"
#include "runtime/thread.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* So many pings fall into the watchdog's time: whether the core was stepped since one is looked at
 * for the next. They come at least this often, watched or not. */
#define PINGS   4u
#define PING_MS 500u

/* Who has been silent for longer is not live. */
#define LIVE_S 5u

struct lh_manager {
    struct lh_loop *loop;
    struct lh_duration ping; /* so often */
    char status[256];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;
};

/* The core's silence, in pings rather than time: a process that was stopped has none of it. */
static _Atomic uint64_t silent_ns;

static struct lh_instant now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (struct lh_instant){(uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec};
}

/* Waits; false: it is over. */
static bool wait_for(struct lh_manager *m, struct lh_duration d)
{
    struct lh_instant until = lh_instant_add(now(), d);
    const struct timespec at = {(time_t)(until.ns / 1000000000u), (long)(until.ns % 1000000000u)};
    int waited = 0;

    pthread_mutex_lock(&m->lock);
    while (!m->stopping && waited == 0)
        waited = pthread_cond_timedwait(&m->changed, &m->lock, &at);
    bool go_on = !m->stopping;
    pthread_mutex_unlock(&m->lock);
    return go_on;
}

static void *ping_main(void *arg)
{
    struct lh_manager *m = arg;
    uint64_t before = lh_loop_beats(m->loop);

    do {
        uint64_t beats = lh_loop_beats(m->loop);
        if (beats != before) {
            lh_notify("WATCHDOG=1\n");
            atomic_store(&silent_ns, 0);
        } else {
            atomic_fetch_add(&silent_ns, m->ping.ns);
        }
        before = beats;
        /* Who stops this does not wait for a core that hangs. */
        (void)lh_loop_beat(m->loop, m->ping);
    } while (wait_for(m, m->ping));
    return NULL;
}

static void end(struct lh_manager *m)
{
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

struct lh_manager *lh_manager_start(struct lh_loop *loop, char *why, size_t why_size)
{
    struct lh_manager *m = lh_alloc(sizeof *m);
    struct lh_duration watchdog = lh_notify_watchdog();
    pthread_condattr_t monotonic;

    m->loop = loop;
    m->ping = lh_milliseconds(PING_MS);
    if (watchdog.ns / PINGS < m->ping.ns)
        m->ping.ns = watchdog.ns / PINGS;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&m->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (lh_thread_start(&m->thread, ping_main, m, why, why_size) == LH_OK)
        return m;
    end(m);
    return NULL;
}

void lh_manager_stop(struct lh_manager *m)
{
    if (m == NULL)
        return;
    pthread_mutex_lock(&m->lock);
    m->stopping = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    end(m);
}

bool lh_manager_is_live(char *why, size_t why_size)
{
    uint64_t silent = atomic_load(&silent_ns);

    if (silent < LIVE_S * UINT64_C(1000000000))
        return true;
    (void)snprintf(why, why_size, "the event loop has stood still for %" PRIu64 " s",
        silent / UINT64_C(1000000000));
    return false;
}

void lh_manager_status(struct lh_manager *m, bool ready, const char *why)
{
    const char *status = ready ? "ready" : why;

    if (!lh_notify_is_heard() || strcmp(status, m->status) == 0)
        return;
    (void)snprintf(m->status, sizeof m->status, "%s", status);
    lh_notify("STATUS=%s\n", m->status);
}

void lh_manager_reloading(void)
{
    lh_notify("RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\n", now().ns / 1000);
}

void lh_manager_reloaded(void)
{
    lh_notify("READY=1\n");
}
