/* What the files of this folder know of each other. Inside sim/ and its tests only. */
#pragma once

#include "client/core/leases.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/guard.h"
#include "sim/cluster/program.h"

#include "base/alloc.h"
#include "base/assert.h"

/* One call that is given to a client's core. It belongs to the core until it completes or the core
 * is gone; whoever made it hands it back with lh_sim_request_done() after it completed. What nobody
 * hands back stays until the cluster ends. */
struct request {
    struct request *next, *previous;
    bool done;
    int error;
    void (*then)(struct request *r); /* when it has completed; NULL: who waits looks at `done` */
    struct lh_sim_program *program;  /* of `then` */
    uint64_t begun;                  /* true ns; a program's */
    void *memory;                    /* what the call points to; freed with it */
    union {
        struct lh_call call;
        struct lh_master_call master;
        struct lh_appender_open_call open;
        struct lh_appender_close_call close;
        struct lh_submit_call submit;
        struct lh_reader_open_call reader_open;
        struct lh_reader_close_call reader_close;
        struct lh_fetch_call fetch;
        struct lh_session_open_call session_open;
        struct lh_session_close_call session_close;
        struct lh_session_event_call event;
        struct lh_acquire_call acquire;
        struct lh_withdraw_call withdraw;
        struct lh_release_call release;
        struct lh_yield_call yield;
        struct lh_get_call get;
        struct lh_watch_open_call watch_open;
        struct lh_watch_next_call watch_next;
        struct lh_watch_close_call watch_close;
    } u;
};

struct master {
    struct lh_sim_cluster *cluster;
    char name[16];
    struct lh_promises *promises; /* that its machine remembers (LEASE-9) */
    struct lh_sim_node *node;
    struct lh_master_config running; /* what the process was started with */
    uint64_t restored_term; /* the restored store's: a higher one tells that it has begun */
    enum lh_sim_prefix prefix;   /* of its next start, where masters share an etcd */
    struct lh_sim_node *watcher; /* watchers.c */
    uint64_t process;            /* the process's number */
    uint64_t ended; /* that of one that ended, and whose watcher is to begin; 0: none */
    enum lh_sim_prefix runs_at, ended_at; /* the prefixes of both */
};

/* Of which chunkservers are that were led to another one; no master is. */
#define LH_SIM_OTHER_CLUSTER "of other chunkservers"

/* `leasehold store init` of one prefix. */
struct beginner {
    struct lh_sim_cluster *cluster;
    struct lh_sim_node *node;
    enum lh_sim_prefix prefix;
};

/* So few that programs share some. */
#define LH_SIM_PROMISES 64u

/* What the process has of its machine: the memory that later ones find until it boots. */
void lh_sim_remember(
    struct master *self, const struct lh_sim_node *node, struct lh_master_config *config);

struct server {
    struct lh_sim_cluster *cluster;
    char name[16];
    char machine[24];
    enum lh_sim_prefix prefix; /* of its next start */
};

/* The store that masters share (shared.c). */
struct shared {
    struct lh_sim_etcd *etcd;
    struct lh_sim_node *store; /* it has the pairs of the map */
    struct beginner beginners[LH_SIM_PREFIX_NONE];
    struct lh_change *pieces; /* of a commit that does not count yet */
    size_t piece_count, piece_capacity;
    uint64_t named;                  /* pieces of one that counts and is not in place */
    const struct lh_change *changes; /* of the commit that is told of */
    size_t change_count;
    uint64_t reign, number; /* of the last write */
    bool restored;          /* etcd went back to an older copy */
};

struct lh_sim_cluster {
    struct shared shared;
    struct lh_sim_cluster_config config;
    struct lh_sim *sim;
    struct master *masters;
    const char **master_names; /* as clients and chunkservers are given them */
    struct server *servers;
    struct lh_sim_node **server_nodes;
    struct lh_sim_node **client_nodes;
    struct lh_sim_stranger **strangers;
    struct lh_access *access; /* the table of roles that all nodes have read; NULL without roles */
    uint64_t without_rights;  /* a bit for each stranger that the table takes them from */
    struct request *requests, *idle_requests;
    uint64_t asides_over; /* true ns by which nothing of lh_sim_ask_aside() is under way any more */
    struct lh_sim_program *programs, *last_program;
    struct {
        struct guarded *names;
        struct late_act *late; /* on their way */
        void (*seen)(void *arg, const struct lh_sim_act_guarded *act);
        void *arg;
    } guard; /* guard.c */

    /* What the master's store says, as of lh_sim_read_store(). */
    uint64_t store_version;
    struct lh_sim_chunk *chunks;
    size_t chunk_count, chunk_capacity;
    struct named_file {
        uint64_t file;
        char *path;
        char *lock_name; /* TOK-2; "" ... */
        uint64_t fence;  /* ... and 0: it takes appends under none */
    } * files;
    size_t file_count, file_capacity;
};

/* The core of a chunkserver, NULL while it is down. */
const struct lh_chunkserver *lh_sim_chunkserver(const struct lh_sim_node *node);

/* May the node act as primary of the chunk, by its own clock, at this moment? */
bool lh_sim_may_act(const struct lh_sim_node *node, uint64_t chunk);

/* Every chunkserver that there still is is up and in session, by its own clock. */
bool lh_sim_all_in_session(struct lh_sim_cluster *c);

/* Starts every node that is down, but for the one that stands for a shared store. */
void lh_sim_start_all(struct lh_sim_cluster *c);

/* cluster.c: what the process does when it starts; its secret differs from every other's. */
void lh_sim_give_capabilities(
    struct lh_sim_cluster *c, const struct lh_sim_node *node, struct lh_master_config *config);

/* roles.c */
void lh_sim_roles_init(struct lh_sim_cluster *c);
void lh_sim_roles_deinit(struct lh_sim_cluster *c);

/* shared.c */
/* Of a single master's process of that number, from 1. */
uint64_t lh_sim_master_seed(const struct lh_sim_cluster *c, uint64_t process);
/* The cluster's id, as who starts knows it; "": it does not. */
void lh_sim_known_cluster(const struct lh_sim_cluster *c, char id[LH_CLUSTER_ID_BYTES]);
/* It has no process: the store, and who has begun a cluster. */
bool lh_sim_shared_rests(const struct lh_sim_cluster *c, const struct lh_sim_node *node);
void lh_sim_shared_init(struct lh_sim_cluster *c);
void lh_sim_shared_deinit(struct lh_sim_cluster *c);
extern const struct lh_sim_role lh_sim_reigns_role;
/* What the master's process runs with; its `running` is set. */
void lh_sim_reign_config(
    const struct master *m, enum lh_sim_prefix prefix, struct lh_reign_config *config);

/* watchers.c */
void lh_sim_watchers_init(struct lh_sim_cluster *c);

/* requests.c */
struct request *lh_sim_request(struct lh_sim_cluster *c, enum lh_call_kind kind);

/* Gives the call to the client's core and waits for it. */
int lh_sim_carry(struct lh_sim_cluster *c, struct lh_sim_node *node, struct request *r,
    struct lh_duration bound);

/* It completed and nobody looks at it any more. */
void lh_sim_request_done(struct lh_sim_cluster *c, struct request *r);

/* A record's bytes say whose they are: they can be made again to compare. Records shorter than
 * their identity hold the front of it. */
void lh_sim_fill_record(uint8_t *to, uint32_t size, uint64_t writer, uint64_t sequence);

extern const struct lh_sim_role lh_sim_client_role;
void lh_sim_requests_deinit(struct lh_sim_cluster *c);

/* guard.c */
void lh_sim_guard_deinit(struct lh_sim_cluster *c);

/* program.c */
void lh_sim_programs_deinit(struct lh_sim_cluster *c);

/* questions.c */

/* Before `chunks` and `files` are looked at. */
void lh_sim_read_store(struct lh_sim_cluster *c);
void lh_sim_questions_deinit(struct lh_sim_cluster *c);
const struct lh_sim_chunk *lh_sim_chunk_of_file(
    struct lh_sim_cluster *c, const char *path, uint64_t index);
