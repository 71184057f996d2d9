/* Where the master's metadata is durable: an ordered map of bytes to bytes, changed in atomic
 * batches. The master serves everything from memory; a store is read once, at the start.
 *
 * A store is for one process at a time, and says so: opening one that is in use fails with IN_USE
 * (INV-3 and LEASE-7 stand on this).
 *
 * Commits are asynchronous: each completes once, in the order in which they were begun, from a
 * thread of the store's. After a commit failed all later ones fail too: nothing is ever durable
 * that was begun after something that is not. That there is no room, or no memory, is no failure:
 * it is said (SHORTAGE), and tried again. A kind that cannot tell whether a commit took effect
 * finds out before it completes it. The kinds that there are: stores.h.
 *
 * A change that a store can never take is our own mistake: it is refused before it is begun, with
 * what a kind's limits are (`key_bytes_max`). A value has at most some 100 KiB. */
#pragma once

#include "base/error.h"
#include "base/step.h"

#include <stddef.h>
#include <stdint.h>

struct lh_metastore;

/* A commit is durable, or failed: `why` then has a sentence for the operator (NULL with LH_OK;
 * valid during the call). SHORTAGE: it has not completed, and is tried again until it has; said at
 * first, and now and then. May call lh_metastore_commit(), not lh_metastore_close(). */
typedef void lh_metastore_committed(void *arg, uint64_t ticket, int error, const char *why);

/* One pair, valid during the call. An error ends the loading and is returned by it. */
typedef int lh_metastore_pair(
    void *arg, const void *key, size_t key_size, const void *value, size_t value_size);

struct lh_metastore_operations {
    int (*load)(struct lh_metastore *store, lh_metastore_pair *on_pair, void *arg, char *why,
        size_t why_size);
    void (*commit)(
        struct lh_metastore *store, uint64_t ticket, struct lh_change *changes, size_t count);
    void (*close)(struct lh_metastore *store);
};

/* What every implementation's object begins with. */
struct lh_metastore {
    const struct lh_metastore_operations *operations;
    size_t key_bytes_max; /* of a key that can be put; at least LH_KEY_BYTES_MAX */
};

/* A kind of store. `open` opens the one at `where`, which the kind reads in its own way.
 * `on_committed` and `arg` are for all commits. On failure `why` says what to do; IN_USE: another
 * process has it. */
struct lh_metastore_kind {
    const char *name;
    int (*open)(const char *where, lh_metastore_committed *on_committed, void *arg,
        struct lh_metastore **store, char *why, size_t why_size);
};

/* Calls `on_pair` for everything stored, in the order of keys (as memcmp() orders them, a prefix
 * first). Before the first commit. Returns what `on_pair` returned if that is not LH_OK, else the
 * store's error with a sentence in `why`. */
LH_MUST_USE static inline int lh_metastore_load(
    struct lh_metastore *store, lh_metastore_pair *on_pair, void *arg, char *why, size_t why_size)
{
    return store->operations->load(store, on_pair, arg, why, why_size);
}

/* Begins to commit `changes`, all or none of them, after all commits begun before. Does not wait.
 * Takes over the array and what it points to (malloc'd). One caller at a time. */
static inline void lh_metastore_commit(
    struct lh_metastore *store, uint64_t ticket, struct lh_change *changes, size_t count)
{
    store->operations->commit(store, ticket, changes, count);
}

/* Waits until all commits have completed, and frees the store. NULL is allowed. */
static inline void lh_metastore_close(struct lh_metastore *store)
{
    if (store != NULL)
        store->operations->close(store);
}
