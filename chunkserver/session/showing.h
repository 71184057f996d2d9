/* What the master is shown of leases. */
#pragma once

#include "chunkserver/session/session.h"

/* Every lease that may be acted on, and how many; what has run out ends first. Free them with
 * lh_cs_showing_free(). */
size_t lh_cs_showing_fill(struct lh_cs_session *s, Leasehold__ChunkVersion ***leases);
void lh_cs_showing_free(Leasehold__ChunkVersion **leases, size_t count);
/* The leases that were reported to the master, as a heartbeat carries them (LEASE-8). */
void lh_cs_showing_sum(struct lh_cs_session *s, Leasehold__LeaseSum *sum);
/* The master believes otherwise. */
void lh_cs_showing_answer(struct lh_cs_session *s);
