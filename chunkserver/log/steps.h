/* What each kind of job does: a chain of steps. A step begins one operation on the disk and names
 * the step that follows when that is done. */
#pragma once

#include "chunkserver/log/log.h"

/* By the kind of job. */
extern lh_cs_job_step *const lh_cs_job_first_steps[];

/* What the operations of steps are for (jobs.c). */
extern const struct lh_cs_disk_user lh_cs_job_disk;

/* What a CREATE that failed has left. */
enum lh_cs_create_left {
    LH_CS_LEFT_NOTHING,
    LH_CS_LEFT_WHAT_WAS_THERE, /* and could not be removed */
    LH_CS_LEFT_NO_HEADER       /* the file, without a header */
};
enum lh_cs_create_left lh_cs_create_left(const struct lh_cs_job *j);
