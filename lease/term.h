/* TIME-4, once on each side: how long a term lasts for the one who grants it and for the one who
 * holds it. Nothing else in the project computes an expiry. */
#pragma once

#include "base/time.h"

/* Clock rates lie within 1 +- ppm / 1,000,000 of true time (TIME-3). */
#define LH_DRIFT_PPM_DEFAULT 10000u
#define LH_DRIFT_PPM_MAX     200000u

/* The holder's share of `term`: term * (1 - rho) / (1 + rho), rounded down. `drift_ppm` is at most
 * LH_DRIFT_PPM_MAX. The grantor computes it and sends it, so two settings of rho cannot
 * disagree. */
struct lh_duration lh_term_for_holder(struct lh_duration term, uint32_t drift_ppm);

/* The other way round: a holder said that it stops `own` after it sent the message. For so long the
 * grantor waits from when it received that: own * (1 + rho) / (1 - rho), rounded up, since the
 * holder's clock may be slow by rho while the grantor's is fast by rho. Saturates. */
struct lh_duration lh_term_for_grantor(struct lh_duration own, uint32_t drift_ppm);

/* When the lease is over for the grantor, whose clock showed `received_at` *after* it received the
 * request: received_at + term + 1 ms. Saturates at LH_INSTANT_NEVER. */
struct lh_instant lh_term_grantor_end(struct lh_instant received_at, struct lh_duration term);

/* When the lease is over for the holder, which sent the request at `sent_at`; `holder_term` is what
 * the answer carried. */
struct lh_instant lh_term_holder_end(struct lh_instant sent_at, struct lh_duration holder_term);
