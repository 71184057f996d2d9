#include "sim/world/clock.h"

#include "base/assert.h"

static uint64_t rate_of(const struct lh_sim_clock *c)
{
    return (uint64_t)((int64_t)LH_SIM_MILLION + c->rate_ppm);
}

/* Millionths of a ns that the clock counts from its last change of rate until `true_ns`. */
static unsigned __int128 counted(const struct lh_sim_clock *c, uint64_t true_ns)
{
    LH_ASSERT(true_ns >= c->true_ns);
    return (unsigned __int128)(true_ns - c->true_ns) * rate_of(c) + c->fraction;
}

void lh_sim_clock_init(
    struct lh_sim_clock *c, uint64_t true_ns, struct lh_instant shows, int32_t rate_ppm)
{
    LH_ASSERT(rate_ppm > -LH_SIM_MILLION);
    *c = (struct lh_sim_clock){.true_ns = true_ns, .local_ns = shows.ns, .rate_ppm = rate_ppm};
}

struct lh_instant lh_sim_clock_read(const struct lh_sim_clock *c, uint64_t true_ns)
{
    return (struct lh_instant){c->local_ns + (uint64_t)(counted(c, true_ns) / LH_SIM_MILLION)};
}

void lh_sim_clock_set_rate(struct lh_sim_clock *c, uint64_t true_ns, int32_t rate_ppm)
{
    unsigned __int128 n = counted(c, true_ns);

    LH_ASSERT(rate_ppm > -LH_SIM_MILLION);
    c->local_ns += (uint64_t)(n / LH_SIM_MILLION);
    c->fraction = (uint32_t)(n % LH_SIM_MILLION);
    c->true_ns = true_ns;
    c->rate_ppm = rate_ppm;
}

uint64_t lh_sim_clock_when(const struct lh_sim_clock *c, struct lh_instant local)
{
    if (local.ns <= c->local_ns)
        return c->true_ns;
    unsigned __int128 need = (unsigned __int128)(local.ns - c->local_ns) * LH_SIM_MILLION;
    need -= c->fraction;
    unsigned __int128 wait = (need + rate_of(c) - 1) / rate_of(c);
    return wait > UINT64_MAX - c->true_ns ? UINT64_MAX : c->true_ns + (uint64_t)wait;
}
