/* `leasehold store`: begins a cluster in etcd (lh_store_init()), and brings a cluster from one kind
 * of store into the other.
 *
 * `leasehold store copy`: brings a cluster's metadata from LMDB into etcd or back, while no master
 * runs. What is done with etcd is in master/reigns (move.c); this is the process around it, and
 * what is done with LMDB:
 *
 *   - The directory is locked, as by a master, and its pairs are checked as a master does.
 *   - While it is filled, and when its content has gone to etcd, it has a mark (an Elsewhere
 *     record) with which no master starts. From etcd it gets all pairs in one commit; when they
 *     are durable, the mark goes. To etcd, the mark is durable before etcd's store allows a reign.
 *   - When a copy fails and says so, the mark is as it was before; but a directory that was empty
 *     keeps it. */
#pragma once

#include "base/time.h"
#include "master/etcd_options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_store_copied {
    bool to_etcd;
    bool waiting;          /* until the last master's reign is over for certain */
    bool writing;          /* all pairs are known */
    uint64_t pairs;        /* so far; in the end all */
    uint64_t total, bytes; /* of all pairs, as far as they are known */
    uint64_t reign;        /* the number above which the next one is */
};

struct lh_store_copy {
    const char *from, *to; /* lmdb:DIRECTORY, etcd:HOST:PORT,.../PREFIX; one of each */
    struct lh_etcd_options *etcd;
    struct lh_tls_files tls;     /* what etcd is shown where its own options say nothing else */
    struct lh_duration patience; /* for etcd to answer */
    bool even_if_moved; /* what says that its content went elsewhere is copied all the same */
    void (*say)(void *arg, const char *text); /* to the operator; any thread */
    void (*progress)(void *arg, const struct lh_store_copied *so_far); /* now and then */
    bool (*interrupted)(void *arg); /* asked now and then; true: stop as soon as that is safe */
    void *arg;
};

/* Copies. On failure `why` is a sentence with what to do.
 *   UNAVAILABLE        etcd does not answer; nothing was changed
 *   DEADLINE_EXCEEDED  etcd does not answer any more; the same copy can be run again
 *   CANCELLED          interrupted
 *   INVALID_ARGUMENT   `from` and `to` cannot be copied so
 *   IN_USE, ALREADY_EXISTS, NOT_FOUND, WRONG_FORMAT, WRONG_IDENTITY, CORRUPT   a store refuses
 *   others             what the directory's file system says */
LH_MUST_USE int lh_store_copy(
    const struct lh_store_copy *wanted, struct lh_store_copied *result, char *why, size_t why_size);

struct lh_store_init {
    const char *store; /* etcd:HOST:PORT,.../PREFIX */
    struct lh_etcd_options *etcd;
    struct lh_tls_files tls;
    struct lh_duration patience;
    bool (*interrupted)(void *arg); /* asked now and then; true: stop */
    void *arg;
};

/* Of a cluster's id, with its end. */
#define LH_STORE_CLUSTER_BYTES 33u

/* Begins a cluster where there is none (HA-13). `cluster`: its id. On failure `why` is a sentence
 * with what to do.
 *   ALREADY_EXISTS     there is a cluster, or something else
 *   UNAVAILABLE        etcd does not answer; it is run again
 *   CANCELLED          interrupted
 *   INVALID_ARGUMENT   a cluster does not begin so in that store
 *   others             etcd refuses */
LH_MUST_USE int lh_store_init(const struct lh_store_init *wanted,
    char cluster[LH_STORE_CLUSTER_BYTES], char *why, size_t why_size);
