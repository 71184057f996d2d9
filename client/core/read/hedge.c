/* Hedging: a READ that takes longer than READs usually do is asked of another member as well.
 *
 * What is usual is learned as TCP learns when to send again: a running mean, and four times a
 * running deviation on top of it. How many second READs there may be is bounded by a share of all,
 * so that servers which are slow because they have too much to do do not get twice as much. */
#include "client/core/read/hedge.h"

#define WHOLE 100u /* hundredths in one READ */

void lh_client_hedge_init(struct lh_client_readers *all)
{
    all->hedge_credit = (uint64_t)all->client->config.hedge_burst * WHOLE;
}

void lh_client_read_took(struct lh_client_readers *all, struct lh_duration time)
{
    uint64_t mean = all->read_time.ns, spread = all->read_spread.ns;

    if (mean == 0) {
        mean = time.ns;
        spread = time.ns / 2;
    } else {
        uint64_t off = time.ns > mean ? time.ns - mean : mean - time.ns;
        spread = spread - spread / 4 + off / 4;
        mean = mean - mean / 8 + time.ns / 8;
    }
    all->read_time = lh_nanoseconds(mean == 0 ? 1 : mean);
    all->read_spread = lh_nanoseconds(spread);
}

struct lh_duration lh_client_late_after(const struct lh_client_readers *all)
{
    const struct lh_client_config *config = &all->client->config;
    struct lh_duration twice = lh_duration_add(all->read_spread, all->read_spread);

    if (all->read_time.ns == 0)
        return config->late_first;
    return lh_duration_min(
        config->late_max, lh_duration_max(config->late_min,
                              lh_duration_add(all->read_time, lh_duration_add(twice, twice))));
}

void lh_client_hedge_earn(struct lh_client_readers *all)
{
    uint64_t most = (uint64_t)all->client->config.hedge_burst * WHOLE;

    all->hedge_credit += all->client->config.hedge_percent;
    if (all->hedge_credit > most)
        all->hedge_credit = most;
}

bool lh_client_hedge_spend(struct lh_client_readers *all)
{
    if (all->hedge_credit < WHOLE)
        return false;
    all->hedge_credit -= WHOLE;
    return true;
}
