/* Whether a loop goes on, for those who watch it from outside. */
#include "base/assert.h"
#include "runtime/dispatch.h"
#include "runtime/loop.h"

#include <sys/timerfd.h>
#include <time.h>

void lh_loop_beat(struct lh_loop *loop)
{
    const struct itimerspec soon = {.it_value = {.tv_nsec = 1}};

    pthread_mutex_lock(&loop->lock);
    loop->armed = (struct lh_instant){0}; /* no deadline is earlier and puts it off */
    int e = timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &soon, NULL);
    LH_ASSERT(e == 0);
    pthread_mutex_unlock(&loop->lock);
}

uint64_t lh_loop_beats(const struct lh_loop *loop)
{
    return atomic_load(&loop->beats);
}

bool lh_loop_goes_on(struct lh_loop *loop, struct lh_duration timeout)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(timeout.ns / 1000000000u);
    until.tv_nsec += (long)(timeout.ns % 1000000000u);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    if (pthread_mutex_clocklock(&loop->lock, CLOCK_MONOTONIC, &until) != 0)
        return false;
    pthread_mutex_unlock(&loop->lock);
    return true;
}
