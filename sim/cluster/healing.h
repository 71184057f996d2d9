/* The end of a run: faults stop, and everything must become well again (INV-8). */
#pragma once

#include "sim/cluster/cluster.h"

/* Ends every fault that can be ended: nodes are resumed and started, links joined and at their
 * usual speed, disks go on, have room and fail no more, clocks run true. What has been lost stays
 * lost. */
void lh_sim_mend(struct lh_sim_cluster *c);

/* What the cluster cannot know by itself. Each may be NULL. */
struct lh_sim_settling {
    void *arg;
    /* Damage that nothing can undo leaves this file without a primary: no answer is due. */
    bool (*exempt)(void *arg, const char *path);
    /* All that must become equal is equal. */
    bool (*settled)(void *arg);
    /* Grows as long as healing goes on. */
    uint64_t (*healed)(void *arg);
    /* That took too long: says what is wrong (lh_sim_fail()). */
    void (*unsettled)(void *arg);
};

/* Programs begin nothing more; runs until what they have under way is answered and every
 * chunkserver is in session, appends one more batch to every file, waits until all is settled, and
 * reads every file from its start to its end. Call lh_sim_mend() first, once in a cluster. False:
 * a step of this took longer than `bound`, or something went wrong; lh_sim_failure() says what
 * (INV-8). */
bool lh_sim_settle_all(
    struct lh_sim_cluster *c, const struct lh_sim_settling *settling, struct lh_duration bound);
