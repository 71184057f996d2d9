/* Replicas whose disk has refused a change or a sync. What a replica has and what its disk can
 * do are two facts: a refusal says nothing of what is there (REC-6). */
#pragma once

#include "chunkserver/log/log.h"

void lh_cs_frozen_init(struct lh_cs_logs *logs);

/* A write of its log or of its header was refused with `error`. It takes no more, what is
 * written of its log is synced once, and then it is tried now and again whether the disk takes
 * changes. */
void lh_cs_freeze(struct lh_cs_replica *r, int error);
/* A sync of its file has failed: the same, and what is there goes to a new file (FAIL-5). */
void lh_cs_doubt(struct lh_cs_replica *r, int error);
/* The file that was to take its place cannot be written: what was there before is read again. */
void lh_cs_put_old_back(struct lh_cs_replica *r, int error);
/* And that begins if nothing goes on with the new file any more. */
void lh_cs_old_is_read(struct lh_cs_replica *r);
/* A job has failed, which has changed what there is in memory. */
void lh_cs_job_refused(struct lh_cs_replica *r, const struct lh_cs_job *j, int error);
/* A job of this file's own has ended well. */
void lh_cs_kept(struct lh_cs_replica *r);
/* A read of what is read back was refused, as `before` others in a row: it is asked for later. */
void lh_cs_read_later(struct lh_cs_replica *r, uint32_t before);
/* It waits for its disk no longer. */
void lh_cs_thawed(struct lh_cs_replica *r);
