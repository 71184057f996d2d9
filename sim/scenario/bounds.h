/* Every bound, cut, batch size and time of the cores that no other setting names: one row each,
 * with what is shipped and the least that is right. A plan draws them, a scenario sets them,
 * `leasehold-sim bounds` prints them:
 *
 *   bound chunkserver write_bytes 4KiB
 *   bound master roll_patience 20ms
 *
 * The rows of master and chunkserver are made of their own lists (bounds.h of each); a client's
 * stand in bounds.c. A new one is a row there, and nothing here. */
#pragma once

#include "sim/cluster/cluster.h"
#include "sim/scenario/phrase.h"

#define LH_SIM_BOUNDS_MAX 320 /* rows */

enum lh_sim_bound_unit { LH_SIM_BOUND_TIME, LH_SIM_BOUND_BYTES, LH_SIM_BOUND_COUNT };

struct lh_sim_bound {
    const char *core; /* "master", "chunkserver", "client" or "reign" */
    const char *name;
    enum lh_sim_bound_unit unit;
    uint64_t least, shipped, most; /* ns, bytes or a number */
    const char *what;              /* a phrase */
    size_t offset;                 /* in struct lh_sim_cluster_config ... */
    int stored;                    /* ... and how it stands there */
    bool later;                    /* drawn apart, so that older seeds keep what they draw */
    bool leases;                   /* of leases for programs: drawn where there are any */
};

const struct lh_sim_bound *lh_sim_bounds(size_t *count);

/* `values`, one for each row; 0: as it is shipped. */
void lh_sim_bounds_apply(const uint64_t *values, struct lh_sim_cluster_config *config);

void lh_sim_bound_print(struct lh_sim_text *t, size_t row, uint64_t value);

/* "bound CORE NAME VALUE"; false: `w` knows what would have been possible. */
bool lh_sim_bound_parse(struct lh_sim_words *w, uint64_t *values);
