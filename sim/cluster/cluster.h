/* A whole Leasehold in the simulator's world: masters, chunkservers and clients, all of them the
 * real cores. What checks the invariants of docs/protocol.md meanwhile is in sim/observers.
 *
 * Nodes are named "m", "m2", ..., "cs1", "cs2", ..., "c1", "c2", ... Functions that wait run the
 * world for at most the `bound` given to them. When an invariant breaks, the run stops and
 * lh_sim_failure() says how. */
#pragma once

#include "chunkserver/chunkserver.h"
#include "client/core/client.h"
#include "master/master.h"
#include "master/reigns/reigns.h"
#include "sim/etcd/etcd.h"
#include "sim/world/world.h"

#include <protobuf-c/protobuf-c.h>

struct lh_sim_cluster;

struct lh_sim_cluster_config {
    struct lh_sim_config world;
    /* May be changed between the master's restarts: lh_sim_master_config(). */
    struct lh_master_config master;
    struct lh_chunkserver_config server; /* times and limits; identities are filled in for each */
    struct lh_client_config client;      /* the same */
    size_t masters, servers, clients;
    /* Not 0: the masters share a store in an etcd of so many members (HA). */
    uint32_t etcd_members;
    bool watchers; /* then each master's process has one (HA-3a) */
    struct lh_sim_etcd_config etcd;
    struct lh_reign_config reigns; /* times and limits; identities are filled in for each */
    size_t strangers;              /* that misbehave from the beginning on (stranger.h) */
    bool roles;        /* all have certificates: strangers are readers, or nobody of ours (ACC) */
    bool capabilities; /* chunkservers ask for what the master gives (ACC-5) */
    bool newcomers;    /* who starts, and has no cluster stored, does not know which is its own */
    /* Clocks will leave rho: INV-1 and INV-2 may break then, and are not checked (INV-7). */
    bool clocks_beyond_rho;
    /* Faults will make single replicas useless for good (FAIL-5; a `buffered` one that is shorter
     * than its chunk's seal after a power loss): a settled chunk then needs one good member, not
     * all. */
    bool replicas_may_be_lost;
    /* Faults will do more damage than the protocol survives: no answer is due (INV-8), but nothing
     * may be answered wrongly. */
    bool ruin;
};

/* Three chunkservers, one client, chunks of 64 KiB. Nothing happens by itself that was not asked
 * for: files wait for their primaries, what is removed is gone at once, nothing is scrubbed or
 * balanced. */
struct lh_sim_cluster_config lh_sim_cluster_config_default(uint64_t seed);

/* Makes the nodes and starts none. */
struct lh_sim_cluster *lh_sim_cluster_create(const struct lh_sim_cluster_config *config);
void lh_sim_cluster_destroy(struct lh_sim_cluster *c);

struct lh_sim *lh_sim_world(struct lh_sim_cluster *c);

/* The table of roles takes its rights from a stranger that may read, or gives them back; all nodes
 * read it now (ACC-7). False: there is no such stranger, or it is so already. */
bool lh_sim_set_rights(struct lh_sim_cluster *c, uint64_t stranger, bool has);
/* The table takes none from it. */
bool lh_sim_has_rights(const struct lh_sim_cluster *c, const struct lh_sim_node *node);

/* The master that acts. Where each has a store of its own that is the first, and observers know no
 * other one. Where they share one: who reigns and knows it is confirmed, else who reigned last. */
struct lh_sim_node *lh_sim_master(struct lh_sim_cluster *c);
struct lh_sim_node *lh_sim_master_at(struct lh_sim_cluster *c, size_t number); /* from 1 */
/* The process that watches that master; NULL: there are none. */
struct lh_sim_node *lh_sim_watcher_of(const struct lh_sim_cluster *c, size_t number);
struct lh_sim_node *lh_sim_server(struct lh_sim_cluster *c, size_t number); /* from 1 */
struct lh_sim_node *lh_sim_client(struct lh_sim_cluster *c, size_t number); /* from 1 */

/* Whose store (lh_sim_store_get()) is the master's: the first master's, or that of a node without a
 * process which stands for what the masters share. */
struct lh_sim_node *lh_sim_store(struct lh_sim_cluster *c);

/* The master's core on that node, if it acts; NULL: it does not, or is down. */
const struct lh_master *lh_sim_acting_core(
    struct lh_sim_cluster *c, const struct lh_sim_node *node);

/* NULL: masters share nothing. */
struct lh_sim_etcd *lh_sim_shared_etcd(const struct lh_sim_cluster *c);

/* Of which cluster a master or a chunkserver is: under which keys a master looks for its store in
 * that etcd; which one a chunkserver's directory names. */
enum lh_sim_prefix {
    LH_SIM_PREFIX_OWN,
    LH_SIM_PREFIX_ANOTHER, /* another cluster's, which nobody else is of */
    LH_SIM_PREFIX_NONE     /* there is no cluster */
};

/* From that node's next start on. A chunkserver keeps its name, its address and its chunks: it is
 * one of another cluster where all of them happen to be the same. Its masters are not there. */
void lh_sim_set_prefix(
    struct lh_sim_cluster *c, const struct lh_sim_node *node, enum lh_sim_prefix prefix);
/* Is it a chunkserver of another cluster? */
bool lh_sim_is_foreign(const struct lh_sim_cluster *c, const struct lh_sim_node *node);
/* It is of its own cluster again. If it was of another one it crashes; the caller starts it. False:
 * it was of its own. */
bool lh_sim_mend_prefix(struct lh_sim_cluster *c, struct lh_sim_node *node);
/* All are; who crashes is started with all others. */
void lh_sim_mend_prefixes(struct lh_sim_cluster *c);
/* What is put under LH_SIM_PREFIX_NONE begins with this. */
#define LH_SIM_NO_PREFIX "none/"
/* What this master among others knows of its reign. False: it is down, or alone. */
bool lh_sim_reign_of(
    const struct lh_sim_cluster *c, const struct lh_sim_node *node, struct lh_reign_state *state);

/* The keys of the commit that lh_sim_watcher.committed() tells of, while it does; of a store that
 * is shared. */
const struct lh_change *lh_sim_shared_commit(const struct lh_sim_cluster *c, size_t *count);
/* What masters share went back to an older copy. */
bool lh_sim_shared_restored(const struct lh_sim_cluster *c);

/* The head that the last write left; zeros before the first. */
void lh_sim_shared_head(const struct lh_sim_cluster *c, uint64_t *reign, uint64_t *number);

size_t lh_sim_masters(const struct lh_sim_cluster *c);
size_t lh_sim_servers(const struct lh_sim_cluster *c);
size_t lh_sim_clients(const struct lh_sim_cluster *c);

/* An operator wants that server (from 1) empty, or rid of. */
bool lh_sim_is_draining(struct lh_sim_cluster *c, size_t number);
bool lh_sim_is_decommissioned(struct lh_sim_cluster *c, size_t number);

/* What the master's next start will use. */
struct lh_master_config *lh_sim_master_config(struct lh_sim_cluster *c);
/* What the present process of that master, or the last one, was started with. */
const struct lh_master_config *lh_sim_running_config(
    const struct lh_sim_cluster *c, const struct lh_sim_node *node);
/* Its store was replaced by an older copy: it is started with `restored`, and so again until such a
 * start has got as far as the store. */
void lh_sim_master_restored(struct lh_sim_cluster *c);

/* Starts everything that is down and waits until every chunkserver has a session. */
bool lh_sim_cluster_start(struct lh_sim_cluster *c, struct lh_duration bound);

/* ---- Requests ---- */

/* Asks the master through a client's core and waits. The reply, if there is one, is to be freed
 * with lh_wire_free(); `reply` may be NULL. LH_ERR_DEADLINE_EXCEEDED also when the client is
 * down. */
int lh_sim_ask(struct lh_sim_cluster *c, size_t client, enum lh_method method,
    const ProtobufCMessage *request, struct lh_duration bound, ProtobufCMessage **reply);

/* Asks and does not wait; nobody hears the answer. `request`, one piece of memory from lh_alloc()
 * with all that it points to, is taken over. The client is up. */
void lh_sim_ask_aside(struct lh_sim_cluster *c, size_t client, enum lh_method method,
    ProtobufCMessage *request, struct lh_duration patience);

struct lh_sim_file_options {
    bool synced;
    uint32_t replication, min_replicas; /* 0: the master's default */
    uint64_t chunk_size;
    uint32_t on_loss; /* Leasehold__OnPrimaryLoss */
};

int lh_sim_create_file(
    struct lh_sim_cluster *c, const char *path, const struct lh_sim_file_options *options);

/* ---- Questions ---- */

/* A chunk as the master's store names it. */
struct lh_sim_chunk {
    uint64_t chunk, file, index, start, version, length;
    bool created, sealed;
    char holder[64]; /* "" when the durable grant names nobody */
    struct {
        char server[64];
        bool joining;
    } members[16];
    size_t member_count;
};

/* The files that the master's store names, in the order of their ids. The path is valid until the
 * store changes; ask for the count before. */
size_t lh_sim_file_count(struct lh_sim_cluster *c);
const char *lh_sim_file_path(const struct lh_sim_cluster *c, size_t index);

/* The file's last chunk. False: no such file, or no chunk yet. */
bool lh_sim_tail(struct lh_sim_cluster *c, const char *path, struct lh_sim_chunk *chunk);
bool lh_sim_chunk(struct lh_sim_cluster *c, uint64_t chunk, struct lh_sim_chunk *found);
size_t lh_sim_chunk_count(struct lh_sim_cluster *c, const char *path);

/* The file's chunk at that place, from 0. */
bool lh_sim_chunk_at(
    struct lh_sim_cluster *c, const char *path, uint64_t index, struct lh_sim_chunk *found);

/* The server that believes now that it may act as primary of the chunk; NULL: none does. */
struct lh_sim_node *lh_sim_primary(struct lh_sim_cluster *c, uint64_t chunk);

/* As lh_sim_primary() of the file's tail, which also takes appends. */
struct lh_sim_node *lh_sim_open_primary(struct lh_sim_cluster *c, const char *path);
