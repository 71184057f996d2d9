/* What nodes keep: their disks, and the metadata store on one of them. */
#pragma once

#include "sim/world/world.h"

/* No file grows, and none is made, past this many bytes in all. */
void lh_sim_disk_capacity(struct lh_sim_node *node, uint64_t bytes);
uint64_t lh_sim_disk_capacity_of(const struct lh_sim_node *node);
uint64_t lh_sim_disk_used(const struct lh_sim_node *node);

/* Operations, and commits of the store, do not complete while it is stalled. */
void lh_sim_disk_stall(struct lh_sim_node *node, bool stalled);
bool lh_sim_disk_is_stalled(const struct lh_sim_node *node);

/* Operations, and commits of the store, from now on take this much longer. */
void lh_sim_disk_slow(struct lh_sim_node *node, struct lh_duration extra);

/* From now on the process has no descriptor or memory for an operation: each ends with SHORTAGE, of
 * a write perhaps after a part of it. */
void lh_sim_disk_starve(struct lh_sim_node *node, bool starved);

/* From now on whatever would change a file fails with `error`, as on a file system that has
 * become read-only, or is full and writes nothing in place; by chance also syncs do. LH_OK: it
 * takes changes again. */
void lh_sim_disk_refuse(struct lh_sim_node *node, int error);

bool lh_sim_disk_refuses(const struct lh_sim_node *node);

/* The file system shuts itself down: changes and syncs fail until it is mounted again. A sync in
 * flight may say that it has succeeded all the same, and cover less (FAIL-5).
 *
 * The world is kinder than ours in two things that no rule has an answer to. What a sync has
 * covered in words alone, and what was never synced, is on the platter after all if the process
 * ends before it had LH_SIM_TIME_TO_ASK since a sync failed. And the mark of a file in doubt about
 * which a sync has lied outlives a power loss. */
void lh_sim_disk_shut_down(struct lh_sim_node *node);

/* If it is shut down it is mounted again, for which the process ends: what is read is what is on
 * the platter. */
void lh_sim_disk_mount(struct lh_sim_node *node);

#define LH_SIM_TIME_TO_ASK lh_milliseconds(1000)

/* The next `count` operations of that kind fail with `error`. A failed write may have written any
 * part; after a failed sync what it covered counts as clean, and is on the platter or not
 * (FAIL-5). A count of 0 takes back what has not happened yet. */
void lh_sim_disk_fail(struct lh_sim_node *node, enum lh_disk_op op, int error, uint32_t count);

/* The next write lands in that file at that offset instead, as far as the file goes, and the
 * process is told that all is well. Where it was meant to go the old bytes stay, or zeros where
 * there were none. */
void lh_sim_disk_misdirect(struct lh_sim_node *node, uint64_t file, uint64_t offset);

/* No more stall, slowness, failures and misdirection to come, and room without limit. Mounted if
 * it is shut down. */
void lh_sim_mend_disk(struct lh_sim_node *node);

/* What a server's process does first (FAIL-5a): what was not synced is now, or nobody reads it. */
void lh_sim_disk_sync_all(struct lh_sim_node *node);

/* The numbers of the files that the machine's directory shows, ascending.
 * `*files` is to be freed. */
size_t lh_sim_files(const struct lh_sim_node *node, uint64_t **files);

/* The bytes of a file as a process reads them; NULL if there is none.
 * Valid until the next event. */
const uint8_t *lh_sim_file(const struct lh_sim_node *node, uint64_t file, uint64_t *size);

/* The same as on the platter: what a power loss now would leave if it kept nothing unsynced. NULL
 * also when the directory entry is not there yet. */
const uint8_t *lh_sim_platter(const struct lh_sim_node *node, uint64_t file, uint64_t *size);

/* Another, empty disk is in the machine, which is down: files and metadata store are gone. What the
 * machine itself counts (incarnation, boot) goes on. */
void lh_sim_wipe(struct lh_sim_node *node);

/* Turns one bit over, on the platter and in the cache. The byte must be within the file. */
void lh_sim_file_rot(struct lh_sim_node *node, uint64_t file, uint64_t offset, uint8_t mask);

/* ---- Metadata store ---- */

struct lh_sim_pair {
    uint8_t *key, *value;
    size_t key_size, value_size;
};

/* What has been committed, in the order of keys. */
size_t lh_sim_store_count(const struct lh_sim_node *node);
const struct lh_sim_pair *lh_sim_store_pair(const struct lh_sim_node *node, size_t index);
const struct lh_sim_pair *lh_sim_store_get(
    const struct lh_sim_node *node, const void *key, size_t key_size);

/* Changes whenever a commit takes effect. */
uint64_t lh_sim_store_version(const struct lh_sim_node *node);

/* A commit of somebody else's store takes effect, which the node's stands for (a node without a
 * process): whole, and watchers are told. Takes over the array's keys and values, not the array. */
void lh_sim_store_change(struct lh_sim_node *node, struct lh_change *changes, size_t count);

/* The next commit fails with `error`, done or not done, and so do all later ones of that process.
 * LH_OK takes it back as long as it has not happened. */
void lh_sim_store_fail(struct lh_sim_node *node, int error);

/* Keeps a copy of what is committed, in place of an earlier one. */
void lh_sim_store_copy(struct lh_sim_node *node);

/* The copy takes the place of what is committed since. The node is down. False: there is none. */
bool lh_sim_store_restore(struct lh_sim_node *node);
