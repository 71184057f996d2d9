/* Jobs: changes of a replica's header, of its file's length or of its existence. A job runs alone,
 * after every byte that was accepted before it has been written and before any byte after it. */
#pragma once

#include "base/step.h"

#include <stdbool.h>
#include <stdint.h>

struct lh_cs_job;
struct lh_cs_replica;

enum lh_cs_job_kind {
    LH_CS_JOB_CREATE,
    LH_CS_JOB_ADOPT,
    LH_CS_JOB_CONFIRM,
    LH_CS_JOB_COMPARE, /* with a seal, changing nothing (REC-5) */
    LH_CS_JOB_SEAL,
    LH_CS_JOB_TRUNCATE,
    LH_CS_JOB_COPY, /* says that it is incomplete, then cuts the log to `length` (REC-4) */
    LH_CS_JOB_TRIM, /* gives back what is reserved behind the log's end */
    LH_CS_JOB_LOSE,
    LH_CS_JOB_REMOVE
};

/* True: nothing is left to do. */
typedef bool lh_cs_job_step(struct lh_cs_replica *r, struct lh_cs_job *j);

/* Who wanted it. Called once, when it is done or cannot be done any more. */
typedef void lh_cs_job_owner(struct lh_cs_replica *r, const struct lh_cs_job *j, int error);

struct lh_cs_job {
    enum lh_cs_job_kind kind;
    lh_cs_job_owner *owner; /* NULL: nobody waits for it */
    uint64_t feed;          /* its owner's: whom to answer */
    uint64_t session;       /* its owner's: in which session it was asked */
    uint64_t version;
    uint64_t length;
    uint64_t checksum;
    bool matches;         /* COMPARE: the log has this running checksum at `length` */
    bool at_start;        /* TRUNCATE: what goes was no whole batch when the log was read back */
    uint64_t barrier;     /* the log's end when it was submitted */
    lh_cs_job_step *next; /* steps.c */
    struct lh_cs_job *after;
};

void lh_cs_replica_submit(struct lh_cs_replica *r, struct lh_cs_job job);
/* Is this job submitted already, by its kind, owner and version? Then its answer goes to the
 * session that asks now. */
bool lh_cs_job_asked_again(struct lh_cs_replica *r, const struct lh_cs_job *job);
/* May the first job run now? */
bool lh_cs_jobs_ready(const struct lh_cs_replica *r);
/* Begins it. The replica may be freed here. */
void lh_cs_jobs_begin(struct lh_cs_replica *r);
/* Those that wait cannot be done any more; the one that runs ends by itself. */
void lh_cs_jobs_drop_waiting(struct lh_cs_replica *r, int error);
/* Forgets all of them; nobody hears of it. */
void lh_cs_jobs_free(struct lh_cs_replica *r);
