#include "lease/term.h"

#include "base/assert.h"
#include "base/probe.h"

#define PPM UINT64_C(1000000)

struct lh_duration lh_term_for_holder(struct lh_duration term, uint32_t drift_ppm)
{
    LH_ASSERT(drift_ppm <= LH_DRIFT_PPM_MAX);
    if (LH_PLANTED("no-drift-margin"))
        return term;
    /* The holder's clock may be slow by rho while the grantor's is fast by rho. */
    unsigned __int128 scaled = (unsigned __int128)term.ns * (PPM - drift_ppm);
    return (struct lh_duration){(uint64_t)(scaled / (PPM + drift_ppm))};
}

struct lh_duration lh_term_for_grantor(struct lh_duration own, uint32_t drift_ppm)
{
    LH_ASSERT(drift_ppm <= LH_DRIFT_PPM_MAX);
    unsigned __int128 scaled = (unsigned __int128)own.ns * (PPM + drift_ppm);
    unsigned __int128 wait = (scaled + (PPM - drift_ppm) - 1) / (PPM - drift_ppm);
    return wait > UINT64_MAX ? LH_DURATION_FOREVER : (struct lh_duration){(uint64_t)wait};
}

struct lh_instant lh_term_grantor_end(struct lh_instant received_at, struct lh_duration term)
{
    /* The millisecond covers what a clock's own granularity may hide on either side. */
    return lh_instant_add(lh_instant_add(received_at, term), lh_milliseconds(1));
}

struct lh_instant lh_term_holder_end(struct lh_instant sent_at, struct lh_duration holder_term)
{
    return lh_instant_add(sent_at, holder_term);
}
