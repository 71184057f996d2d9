/* Keys and values with their history, as etcd's mvcc keeps them. Knows nothing of members, time or
 * requests. */
#pragma once

#include "sim/etcd/etcd.h"

/* Immutable once its transaction is over; shared by the store, its history and its copies. */
struct lh_etcd_record {
    struct lh_sim_etcd_record seen;
    uint32_t references;
    uint8_t bytes[]; /* key, then value */
};

void lh_etcd_record_unref(struct lh_etcd_record *r);

/* All that is kept of one key, oldest first. */
struct lh_etcd_line {
    struct lh_etcd_record **records;
    size_t count, capacity;
};

struct lh_etcd_store {
    struct lh_etcd_line **lines; /* by key */
    size_t count, capacity;
    int64_t revision;
    int64_t compacted;               /* reads below it are refused */
    struct lh_etcd_record **changes; /* by revision, and in a transaction by operation */
    size_t change_count, change_capacity;
    uint64_t bytes; /* of all records that lines have */
};

void lh_etcd_store_init(struct lh_etcd_store *s);
void lh_etcd_store_deinit(struct lh_etcd_store *s);
void lh_etcd_store_copy(struct lh_etcd_store *to, const struct lh_etcd_store *from);

/* A range as requests name it: `end` empty means `key` alone, one zero byte all from `key` on. */
struct lh_etcd_range {
    const uint8_t *key, *end;
    size_t key_size, end_size;
};

bool lh_etcd_in_range(const struct lh_etcd_range *r, const uint8_t *key, size_t size);

/* Can any key be in it? */
bool lh_etcd_range_is_empty(const struct lh_etcd_range *r);

/* The first line that may be in the range. */
size_t lh_etcd_store_first(const struct lh_etcd_store *s, const struct lh_etcd_range *r);

/* The record that a reader at revision `at` sees; NULL: the key is not there then. */
const struct lh_sim_etcd_record *lh_etcd_line_at(const struct lh_etcd_line *l, int64_t at);

/* Changes of the transaction whose revision is `at`, one above the store's. Afterwards the caller
 * sets the store's revision if there were any. */
void lh_etcd_store_put(struct lh_etcd_store *s, int64_t at, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size);
int64_t lh_etcd_store_delete(struct lh_etcd_store *s, int64_t at, const struct lh_etcd_range *r);

/* The first change of that revision or a later one. */
size_t lh_etcd_store_change(const struct lh_etcd_store *s, int64_t revision);

/* Forgets what no reader at `revision` or later sees. As in etcd 3.4, that a key was deleted at
 * exactly that revision is forgotten too: a watch from there on does not hear of it. */
void lh_etcd_store_forget(struct lh_etcd_store *s, int64_t revision);
