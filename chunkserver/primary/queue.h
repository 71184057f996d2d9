/* The queue of ordered, uncommitted batches of a primary: a ring, in offset order without gaps. */
#pragma once

#include "chunkserver/primary/internal.h"

struct lh_cs_uncommitted *lh_cs_queue_at(struct lh_cs_primary *p, size_t index);
/* Index in the queue of the batch in which log offset `offset` lies; there must be one. */
size_t lh_cs_queue_index(struct lh_cs_primary *p, uint64_t offset);
/* False: no batch ends at log offset `offset`. Below the queue that is not known: true. */
bool lh_cs_queue_batch_ends(struct lh_cs_primary *p, uint64_t offset);
/* Room for one more, at the end. */
struct lh_cs_uncommitted *lh_cs_queue_push(struct lh_cs_primary *p);
/* The first one is gone, committed or not. */
void lh_cs_queue_pop(struct lh_cs_primary *p);
/* Gives its memory back if it is empty: an open chunk may have nothing to do for long. */
void lh_cs_queue_shrink(struct lh_cs_primary *p);
void lh_cs_queue_free(struct lh_cs_primary *p);
