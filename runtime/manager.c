#include "runtime/manager.h"

#include "runtime/notify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* So many pings fall into the watchdog's time: the answer to one is looked for at the next. */
#define PINGS 4u

static struct lh_instant now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (struct lh_instant){(uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec};
}

void lh_manager_init(struct lh_manager *m, struct lh_loop *loop)
{
    struct lh_duration watchdog = lh_notify_watchdog();

    *m = (struct lh_manager){.loop = loop, .ping = watchdog};
    if (watchdog.ns != LH_DURATION_FOREVER.ns)
        m->ping.ns = watchdog.ns / PINGS;
}

struct lh_duration lh_manager_interval(const struct lh_manager *m, struct lh_duration wanted)
{
    return lh_duration_min(m->ping, wanted);
}

static void ping(struct lh_manager *m)
{
    struct lh_instant at = now();

    if (m->ping.ns == LH_DURATION_FOREVER.ns || lh_instant_until(m->pinged, at).ns < m->ping.ns / 2)
        return;
    m->pinged = at;
    uint64_t beats = lh_loop_beats(m->loop);
    if (beats != m->beats)
        lh_notify("WATCHDOG=1\n");
    m->beats = beats;
    lh_loop_beat(m->loop);
}

void lh_manager_tick(struct lh_manager *m, bool ready, const char *why)
{
    const char *status = ready ? "ready" : why;

    ping(m);
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
