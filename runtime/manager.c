#include "runtime/manager.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/notify.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* So many pings fall into the watchdog's time: whether the core was stepped since one is looked at
 * for the next. */
#define PINGS 4u

struct lh_manager {
    struct lh_loop *loop;
    struct lh_duration ping; /* so often; FOREVER: nobody watches */
    char status[256];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;
};

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
        if (beats != before)
            lh_notify("WATCHDOG=1\n");
        before = beats;
        /* Who stops this does not wait for a core that hangs. */
        if (lh_loop_goes_on(m->loop, m->ping))
            lh_loop_beat(m->loop);
    } while (wait_for(m, m->ping));
    return NULL;
}

struct lh_manager *lh_manager_start(struct lh_loop *loop)
{
    struct lh_manager *m = lh_alloc(sizeof *m);
    struct lh_duration watchdog = lh_notify_watchdog();
    pthread_condattr_t monotonic;

    m->loop = loop;
    m->ping = watchdog;
    if (watchdog.ns == LH_DURATION_FOREVER.ns)
        return m;
    m->ping.ns /= PINGS;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&m->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int e = pthread_create(&m->thread, NULL, ping_main, m);
    LH_ASSERT(e == 0);
    return m;
}

void lh_manager_stop(struct lh_manager *m)
{
    if (m->ping.ns != LH_DURATION_FOREVER.ns) {
        pthread_mutex_lock(&m->lock);
        m->stopping = true;
        pthread_cond_broadcast(&m->changed);
        pthread_mutex_unlock(&m->lock);
        pthread_join(m->thread, NULL);
        pthread_cond_destroy(&m->changed);
        pthread_mutex_destroy(&m->lock);
    }
    free(m);
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
