/* A run as a picture: one HTML page that needs nothing else, with a lane for each node. In a
 * chunkserver's lane lie its leases, as the master believes and, upon that, as the server itself
 * believes, so that the gap between the two ends can be seen (TIME-4). Sessions, appends, faults,
 * messages and every transition of the story are there too; the page zooms, searches and explains
 * itself. */
#pragma once

#include "sim/cluster/cluster.h"

#include <stdio.h>

struct lh_sim_timeline;

/* Begins to listen; before the nodes are started. `title`: what run this is ("seed 417@1"). */
struct lh_sim_timeline *lh_sim_timeline_attach(struct lh_sim_cluster *c, const char *title);

/* Ends the story, with the world's failure if it has one, and writes the page. Before the cluster
 * is destroyed. LH_ERR_IO: `to` did not take it. */
LH_MUST_USE int lh_sim_timeline_write(struct lh_sim_timeline *t, FILE *to);

/* What the page shows, for tests. */
struct lh_sim_timeline_counts {
    size_t lanes;
    size_t transitions; /* told in words; neither appends nor extensions */
    size_t given, held; /* leases, as the master and as the holders believe */
    size_t faults;      /* spans */
    size_t arrows;
    size_t locks; /* that programs believed in */
};

struct lh_sim_timeline_counts lh_sim_timeline_counts(const struct lh_sim_timeline *t);

/* After the cluster was destroyed. NULL: nothing happens. */
void lh_sim_timeline_destroy(struct lh_sim_timeline *t);
