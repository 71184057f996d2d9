/* Locks at Leasehold's peers, as the loads of peer_locks_bench.c need them: clients of one server,
 * each with a connection (or, where connections carry many, a share of one), that send requests
 * without waiting and hear of the answers in the load's callback. One load runs in a process, once.
 *
 * What an operation is at each peer:
 *
 *   ACQUIRE  etcd: Txn, put with a lease if the key has no version. Redis: SET NX PX. ZooKeeper:
 *            create, ephemeral
 *   RELEASE  etcd: Txn, delete. Redis: a script that deletes the caller's own. ZooKeeper: delete
 *   READ     Range, GET, getData
 *   WRITE    etcd: Txn, put. Redis: SET, or PUBLISH to those that watch. ZooKeeper: setData
 *   WATCH    etcd: a watch, and Redis: SUBSCRIBE; they stay. ZooKeeper: exists, with a
 *            watch; once */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum lh_bench_op {
    LH_BENCH_ACQUIRE,
    LH_BENCH_RELEASE,
    LH_BENCH_READ,
    LH_BENCH_WRITE,
    LH_BENCH_WATCH,
    LH_BENCH_NOTED /* no request: a key that this client watches was released or written */
};

#define LH_BENCH_VALUE_BYTES 100u

struct lh_bench_peer;

struct lh_bench_load {
    void (*begin)(struct lh_bench_load *load, struct lh_bench_peer *peer);
    /* `ok` false: ACQUIRE, the key is there. All else that fails ends the process. */
    void (*done)(struct lh_bench_load *load, struct lh_bench_peer *peer, uint32_t client,
        enum lh_bench_op op, uint64_t key, bool ok);
};

struct lh_bench_options {
    const char *peer, *address; /* "127.0.0.1:2379" */
    uint64_t clients;
    uint64_t lease; /* etcd: of all that is acquired */
    bool notify;    /* Redis: RELEASE and WRITE tell those that watch */
    bool sparing;   /* connections are made when they are used first */
};

struct lh_bench_peer {
    /* Only from the load's callbacks. */
    void (*request)(struct lh_bench_peer *peer, uint32_t client, enum lh_bench_op op, uint64_t key);
    /* Returns when the load has called lh_bench_over(). */
    void (*run)(struct lh_bench_peer *peer, struct lh_bench_load *load);
    void (*over)(struct lh_bench_peer *peer);
    bool watch_stays; /* after what it noted */
    bool claims; /* a lock is not handed over: whoever hears of its release has to acquire it */
};

/* Each ends the process with a sentence if the server cannot be reached. Never freed. */
struct lh_bench_peer *lh_bench_redis(const struct lh_bench_options *o);
struct lh_bench_peer *lh_bench_zookeeper(const struct lh_bench_options *o);
struct lh_bench_peer *lh_bench_leasehold(const struct lh_bench_options *o);
struct lh_bench_peer *lh_bench_etcd(const struct lh_bench_options *o);

_Noreturn void lh_bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
