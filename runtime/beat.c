/* Whether a loop goes on, for those who watch it from outside. */
#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/dispatch.h"
#include "runtime/loop.h"

#include <sys/timerfd.h>
#include <time.h>

/* A beat shows that the core is stepped, and that callbacks return. But that a commit takes long is
 * no reason to take the process for dead: a disk that hangs does so after a restart, too. */
void lh_dispatch_beat(struct lh_loop *loop)
{
    struct outbox *o = &loop->outbox;

    if (atomic_load(&loop->persisting)) {
        atomic_fetch_add(&loop->beats, 1);
        return;
    }
    if (atomic_exchange(&loop->beat_waits, true))
        return;
    LH_GROW(o->items, o->capacity, o->count + 1);
    o->items[o->count++] = (struct parcel){.beat = true};
    atomic_store(&loop->outbox_waits, true);
}

uint64_t lh_loop_beats(const struct lh_loop *loop)
{
    return atomic_load(&loop->beats);
}

/* The lock is held for microseconds at a time: who tries every millisecond gets it soon. (Thread
 * sanitizers do not know of pthread_mutex_clocklock().) */
static bool lock_within(struct lh_loop *loop, struct lh_duration timeout)
{
    const struct timespec nap = {.tv_nsec = 1000000};

    for (struct lh_instant begin = lh_clock_now(); pthread_mutex_trylock(&loop->lock) != 0;) {
        if (lh_instant_until(begin, lh_clock_now()).ns >= timeout.ns)
            return false;
        (void)nanosleep(&nap, NULL);
    }
    return true;
}

bool lh_loop_is_responsive(struct lh_loop *loop, struct lh_duration timeout)
{
    if (!lock_within(loop, timeout))
        return false;
    pthread_mutex_unlock(&loop->lock);
    return true;
}

bool lh_loop_beat(struct lh_loop *loop, struct lh_duration timeout)
{
    const struct itimerspec soon = {.it_value = {.tv_nsec = 1}};

    if (!lock_within(loop, timeout))
        return false;
    loop->armed = (struct lh_instant){0}; /* no deadline is earlier and puts it off */
    int e = timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &soon, NULL);
    LH_ASSERT(e == 0);
    pthread_mutex_unlock(&loop->lock);
    return true;
}
