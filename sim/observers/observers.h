/* Who checks the invariants of docs/protocol.md while a cluster runs, INV-1 to INV-10, each in a
 * file of its own. They are watchers (sim/world/watch.h): they see messages, answers, bytes on disk
 * and true time, read all formats by themselves, and keep their own models: the lease model
 * (model.c), the committed log of each chunk (committed.c) and the history of what clients asked
 * and were told (history.h). Of a core they believe one word: whether a chunkserver thinks that it
 * may act.
 *
 * What they find becomes the world's failure (lh_sim_fail()) and ends the run. A run is the same
 * with and without them. */
#pragma once

#include "sim/cluster/cluster.h"

struct lh_sim_observers;

struct lh_sim_observers_config {
    /* Clocks leave rho: INV-1, INV-2 and the freshness of reads may break. They are then counted
     * and do not fail (INV-7). */
    bool clocks_beyond_rho;
    /* INV-8: an answer is due within the largest term that any lease had, and this. 0: 60 s. */
    struct lh_duration patience;
};

/* Before anything has run in the cluster. `config` NULL: what the cluster's own config says. */
struct lh_sim_observers *lh_sim_observers_create(
    struct lh_sim_cluster *c, const struct lh_sim_observers_config *config);

/* After the last run of the world; before or after the cluster's end. */
void lh_sim_observers_destroy(struct lh_sim_observers *o);

/* From now on nothing is broken any more, and what is pending has to be answered (INV-8). */
void lh_sim_observers_faults_over(struct lh_sim_observers *o);

/* The run is over: what can only be seen at the end. After lh_sim_observers_faults_over() all
 * replicas that must be equal are (INV-5) and nothing is left unanswered that was due (INV-8). */
void lh_sim_observers_end(struct lh_sim_observers *o);

/* How often `rule` ("INV-1", "INV-2", "INV-11") was seen broken with clocks beyond rho. */
uint64_t lh_sim_observers_seen(const struct lh_sim_observers *o, const char *rule);

/* Damage (lost replicas; nothing copies them again yet) leaves fewer good members than the file may
 * have: its tail takes no appends any more, and no answer is due. Also of a file that the path has
 * named before: whoever opened it then goes on with it. */
bool lh_sim_observers_exempt(struct lh_sim_observers *o, const char *path);

/* All replicas of all files that are not exempt are as they must be when all is well: every full
 * member of a sealed chunk has recorded its seal, every full member of a tail has the newest
 * version and the same bytes to the end; and every chunk has as many members as it should. */
bool lh_sim_observers_settled(struct lh_sim_observers *o);

/* How many chunks have been copied whole so far. */
uint64_t lh_sim_observers_copies(const struct lh_sim_observers *o);

/* That has taken too long: says what is not so (KEEP-1, INV-8). */
void lh_sim_observers_unsettled(struct lh_sim_observers *o);
