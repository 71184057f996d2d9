/* The recovery of a primary at a new version (REC-2). */
#pragma once

#include "chunkserver/primary/internal.h"

/* A member or this replica has come further: takes the next step of the recovery, if all have come
 * as far as it needs. */
void lh_cs_primary_recover(struct lh_cs_primary *p);
/* Does what the logs of those who have adopted this version say suffice for all that was
 * acknowledged (REC-2a, FAIL-3)? Once the recovery is complete it does. */
bool lh_cs_primary_is_sure(const struct lh_cs_primary *p);
/* A job of this primary's own replica, adopting or confirming, has ended. */
void lh_cs_primary_job_done(struct lh_cs_replica *r, const struct lh_cs_job *j, int error);
/* Back to gathering: the member that was fetched from has to report first. */
void lh_cs_primary_fetch_cancel(struct lh_cs_primary *p);
/* Reports to the master that recovery at this version is complete. */
void lh_cs_primary_report_recovered(struct lh_cs_primary *p);
