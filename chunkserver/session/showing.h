/* What the master is shown of leases. */
#pragma once

#include "chunkserver/session/session.h"

/* What has run out ends: first, before leases are shown. */
void lh_cs_showing_end_run_out(struct lh_cs_session *s);
/* The lease that this server may act on with this replica; false: there is none. */
bool lh_cs_showing_lease(const struct lh_cs_replica *r, Leasehold__ChunkVersion *lease);
/* The leases that were reported to the master, as a heartbeat carries them (LEASE-8). */
void lh_cs_showing_sum(struct lh_cs_session *s, Leasehold__LeaseSum *sum);
/* The master believes otherwise. */
void lh_cs_showing_answer(struct lh_cs_session *s);
