/* A run in lines: one for each transition that matters, with true time in ms at the left and a
 * column for each node. What happens over and over (batches stored, leases extended, the same thing
 * said again) is one line that counts.
 *
 *         ms          m       cs1     cs2     cs3     c1
 *      1,204.881      |       |       |       o holds chunk 1 v2 from here on
 *                     ==== network: nothing gets from cs3 to m ====
 *     10,052.007      |       |       |       o chunk 1 v2: its lease has run out here
 *     10,254.530      o chunk 1 v2: the lease of cs3 is over: ran out
 *
 * A node's line is `|` while its process runs, `:` while it is paused and blank while it is down. A
 * line that does not fit to the right of its node ends to the left of it. */
#pragma once

#include "sim/cluster/cluster.h"

#include <stdio.h>

struct lh_sim_narrative_options {
    uint64_t from_ns, until_ns; /* only moments in [from, until), true time */
    uint64_t chunk;             /* only this chunk, and what is about none; 0: all */
    size_t last;                /* only that many lines before the end; 0: all of them */
    unsigned columns;           /* of the paper; 0: 160 */
    bool color;                 /* for a terminal */
};

/* Everything, on 160 columns, without colour. */
struct lh_sim_narrative_options lh_sim_narrative_options_default(void);

struct lh_sim_narrative;

/* Begins to listen; before the nodes are started. `to` stays the caller's and is open until
 * lh_sim_narrative_finish(). With `last` nothing is written before that. */
struct lh_sim_narrative *lh_sim_narrative_attach(
    struct lh_sim_cluster *c, const struct lh_sim_narrative_options *options, FILE *to);

/* Writes what is held back and, if the world failed, how; nothing more after that. Before the
 * cluster is destroyed. */
void lh_sim_narrative_finish(struct lh_sim_narrative *n);

/* After the cluster was destroyed. NULL: nothing happens. */
void lh_sim_narrative_destroy(struct lh_sim_narrative *n);
