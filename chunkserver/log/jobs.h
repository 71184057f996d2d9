/* Jobs, one after another. */
#pragma once

#include "chunkserver/log/log.h"

/* May the first job run now? */
bool lh_cs_jobs_ready(const struct lh_cs_replica *r);
/* One of that kind waits or runs. */
bool lh_cs_jobs_have(const struct lh_cs_replica *r, enum lh_cs_job_kind kind);
/* Begins it. The replica may be freed here. */
void lh_cs_jobs_begin(struct lh_cs_replica *r);
/* Those that wait cannot be done any more; the one that runs ends by itself. */
void lh_cs_jobs_drop_waiting(struct lh_cs_replica *r, int error);
/* Forgets all of them; nobody hears of it. */
void lh_cs_jobs_free(struct lh_cs_replica *r);
