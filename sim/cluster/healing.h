/* The end of a run: faults stop, and everything must become well again (INV-8). */
#ifndef LH_SIM_HEALING_H
#define LH_SIM_HEALING_H

#include "sim/cluster/cluster.h"

/* Ends every fault that can be ended: nodes are resumed and started, links joined and at their usual
 * speed, disks go on, have room and fail no more, clocks run true. What has been lost stays lost. */
void lh_sim_mend(struct lh_sim_cluster *c);

/* Programs begin nothing more; runs until what they have under way is answered and every
 * chunkserver is in session, then reads every file to its end. Call lh_sim_mend() first. False:
 * that took longer than `bound`, or something went wrong; lh_sim_failure() says what (INV-8).
 *
 * `exempt(arg, path)` tells of files for which damage allows no answer; may be NULL. */
bool lh_sim_heal_and_settle(struct lh_sim_cluster *c, struct lh_duration bound,
    bool (*exempt)(void *arg, const char *path), void *arg);

#endif
