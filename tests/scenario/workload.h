/* What tests do with a simulated cluster: they append through its clients, remember what they
 * wrote, and compare what is read back, and the replicas, with it. Functions that wait run the
 * world for at most the `bound` given to them. */
#pragma once

#include "sim/cluster/cluster.h"

/* Recalls the lease of the file's tail. */
int lh_sim_recall(
    struct lh_sim_cluster *c, const char *path, bool only_release, struct lh_duration bound);

/* Waits until somebody is the tail's primary. */
struct lh_sim_node *lh_sim_wait_primary(
    struct lh_sim_cluster *c, const char *path, struct lh_duration bound);

/* ---- Appending ---- */

/* One writer of one file. What it wrote is remembered for the checks. */
struct lh_sim_writer;

/* One batch. */
struct lh_sim_append {
    struct lh_sim_append *next;
    struct lh_sim_writer *writer;
    size_t index;      /* among its writer's, from 0 */
    uint64_t sequence; /* of its first record */
    uint32_t count;    /* records */
    uint32_t bytes;    /* of each record */
    uint64_t sent_ns;  /* true time of the call */
    uint64_t done_ns;  /* true time of its completion; UINT64_MAX: none yet */
    int error;         /* once done */
    uint64_t offset;   /* in the file, once acknowledged */
};

/* Waits until the file is known. NULL: that took longer than `bound` or failed. The writer lives as
 * long as the cluster. */
struct lh_sim_writer *lh_sim_writer_open(
    struct lh_sim_cluster *c, size_t client, const char *path, struct lh_duration bound);

/* Submits one batch and does not wait. The client is up. Lives as long as the cluster. */
struct lh_sim_append *lh_sim_append_begin(struct lh_sim_writer *w, uint32_t count, uint32_t bytes);

/* Submits one batch and waits. Its error, or DEADLINE_EXCEEDED while it is still under way. */
int lh_sim_append(
    struct lh_sim_writer *w, uint32_t count, uint32_t bytes, struct lh_duration bound);

/* Waits until nothing of the writer's is under way; true if all of it was acknowledged. */
bool lh_sim_flush(struct lh_sim_writer *w, struct lh_duration bound);

/* Reads the whole file through a client and compares it with what was written: every acknowledged
 * batch is there once and at its position, every writer's batches are in order, nothing else is
 * there, and what was acknowledged before something was sent lies before it (INV-4, INV-6). What is
 * wrong becomes the world's failure. */
bool lh_sim_check_file(
    struct lh_sim_cluster *c, size_t client, const char *path, struct lh_duration bound);

/* Compares the replicas' bytes on disk: all members of each of the file's chunks that are up and
 * hold the chunk's version are identical below what any of them knows to be committed, and, when
 * `settled`, to the end, with every member up and there (INV-5). */
bool lh_sim_check_replicas(struct lh_sim_cluster *c, const char *path, bool settled);

/* Faults are over: waits until every member of every chunk of the file is up, in session and
 * identical, and appends through `writer` work (INV-8), then does the two checks above. */
bool lh_sim_settle(
    struct lh_sim_cluster *c, struct lh_sim_writer *writer, struct lh_duration bound);
