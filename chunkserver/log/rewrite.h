/* Rewriting a log to a new file, since a sync of the one that it lies in has failed (FAIL-5). */
#pragma once

#include "chunkserver/log/log.h"

struct lh_cs_rewriting;

/* The first step of such a job: the log's whole batches up to the job's `length` are read, checked,
 * and written to a new file, which takes the old one's place. */
bool lh_cs_rewrite(struct lh_cs_replica *r, struct lh_cs_job *j);
/* One of its operations is complete; what its error means to the job. */
int lh_cs_rewriting_done(
    struct lh_cs_job *j, const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);
/* What the new file has, when it is whole. */
struct lh_chunk_header lh_cs_rewriting_header(const struct lh_cs_job *j);
/* NULL is fine. */
void lh_cs_rewriting_free(struct lh_cs_rewriting *w);
