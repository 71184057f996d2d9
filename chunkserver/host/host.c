/* What a pause of this process excuses. */
#include "chunkserver/host/host.h"

/* Moves a moment from which on somebody's silence counts by what this process has slept since, and
 * a little more, so that what arrived meanwhile is read before anybody is judged. Once: when
 * nothing has been heard since then, a next sleep changes nothing. So a process that is held up
 * again and again, perhaps by the very disk that hangs, does not excuse it for ever. */
void lh_cs_host_discount_pause(const struct lh_cs_host *cs, struct lh_instant *since,
    struct lh_instant *discounted, struct lh_duration slept)
{
    struct lh_duration more = lh_milliseconds(cs->config.bounds.pause_ms);

    if (since->ns == discounted->ns)
        return;
    *since = lh_instant_min(cs->now, lh_instant_add(*since, lh_duration_add(slept, more)));
    *discounted = *since;
}
