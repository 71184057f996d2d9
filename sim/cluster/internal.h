/* What cluster.c, workload.c and observers.c know of each other. Inside sim/ only. */
#ifndef LH_SIM_CLUSTER_INTERNAL_H
#define LH_SIM_CLUSTER_INTERNAL_H

#include "sim/cluster/cluster.h"

#include "base/alloc.h"
#include "base/assert.h"

struct request; /* a call that was given to a client's core */

struct server {
    struct lh_sim_cluster *cluster;
    char name[16];
    char machine[24];
    uint64_t *versions; /* of its replicas, by chunk id, as seen last in this life (INV-3) */
    size_t version_count, version_capacity;
    uint64_t life;
};

struct lh_sim_writer {
    struct lh_sim_writer *next;
    struct lh_sim_cluster *cluster;
    struct lh_sim_node *node;
    uint64_t life; /* of the client: its appender is gone with it */
    char *path;
    struct lh_client_appender *appender;
    uint64_t id;
    uint64_t next_sequence;
    struct lh_sim_append **appends; /* in order of sequence */
    size_t count, capacity;
    size_t pending;
};

struct lh_sim_cluster {
    struct lh_sim_cluster_config config;
    struct lh_sim *sim;
    struct lh_sim_node *master;
    struct server *servers;
    struct lh_sim_node **server_nodes;
    struct lh_sim_node **client_nodes;
    struct request *requests;
    struct lh_sim_writer *writers;

    /* What the master's store says, read again whenever it changed. */
    uint64_t store_version;
    struct lh_sim_chunk *chunks;
    size_t chunk_count, chunk_capacity;
    struct named_file {
        uint64_t file;
        char *path;
    } * files;
    size_t file_count, file_capacity;
};

/* The core of a chunkserver, NULL while it is down. */
const struct lh_chunkserver *lh_sim_chunkserver(const struct lh_sim_node *node);

/* May the node act as primary of the chunk, by its own clock, at this moment? */
bool lh_sim_may_act(const struct lh_sim_node *node, uint64_t chunk);

/* workload.c */
extern const struct lh_sim_role lh_sim_client_role;
void lh_sim_workload_deinit(struct lh_sim_cluster *c);

/* observers.c */
void lh_sim_observers_init(struct lh_sim_cluster *c);
void lh_sim_observers_deinit(struct lh_sim_cluster *c);
const struct lh_sim_chunk *lh_sim_chunk_of_file(
    struct lh_sim_cluster *c, const char *path, uint64_t index);

#endif
