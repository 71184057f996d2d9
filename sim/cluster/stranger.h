/* Programs that nobody has written with care: they speak Leasehold's messages, well formed and out
 * of place. A stranger is a node of its own ("x1") without any core of ours. It leaves out sequence
 * numbers, repeats old messages, names wrong versions, chunks, writers and sessions, puts absurd
 * numbers into fields, reads nothing of what it is answered, and ends nothing that it began.
 *
 * With certificates it also takes the addresses of masters that are down, and answers there with
 * its own certificate. The second one has stolen a chunkserver's, and has replicas at others adopt
 * versions. But it says nothing that the present primary or that chunkserver could say now. It may
 * append, like anybody; what it appended in order may be stored, what it did not never. Who uses
 * the cluster beside it must notice nothing. */
#pragma once

#include "sim/cluster/cluster.h"

extern const struct lh_sim_role lh_sim_stranger_role;

/* A stranger's node, by the number that follows its "x". */
struct lh_sim_stranger;
struct lh_sim_stranger *lh_sim_stranger_create(struct lh_sim_cluster *c, uint32_t number);
void lh_sim_stranger_destroy(struct lh_sim_stranger *x);

/* It does nothing more, and leaves what it began as it is. */
void lh_sim_stranger_end(struct lh_sim_stranger *x);

bool lh_sim_is_stranger(const struct lh_sim_node *node);
