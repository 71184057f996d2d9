/* What scenario tests share: a cluster in the simulator's world with short terms, and checks that
 * show the world's failure. Time is virtual: waiting costs nothing.
 *
 * With LH_SIM_TRACE=FILE in the environment every input and effect is written there. */
#pragma once

#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"
#include "sim/cluster/cluster.h"
#include "sim/observers/observers.h"
#include "tests/scenario/workload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SESSION_TERM lh_seconds(3)
#define CHUNK_TERM   lh_seconds(9)
#define RHO_PPM      10000

/* Longer than any lease takes to run out, and some. */
#define LONG lh_seconds(30)

/* True, or the test fails with what the observers found. */
#define HOLDS(cluster, condition)                                                                  \
    do {                                                                                           \
        bool holds_ = (condition);                                                                 \
        const char *failure_ = lh_sim_failure(lh_sim_world(cluster));                              \
        if (failure_ != NULL)                                                                      \
            fail_msg("%s", failure_);                                                              \
        if (!holds_)                                                                               \
            fail_msg("%s does not hold", #condition);                                              \
    } while (0)

static inline struct lh_sim_cluster_config short_terms(uint64_t seed)
{
    struct lh_sim_cluster_config config = lh_sim_cluster_config_default(seed);

    config.master.session_term = SESSION_TERM;
    config.master.chunk_term = CHUNK_TERM;
    config.master.drift_ppm = RHO_PPM;
    return config;
}

/* Who checks the invariants of the present story's cluster. */
static struct lh_sim_observers *observers;

static inline struct lh_sim_cluster *cluster_of(const struct lh_sim_cluster_config *config)
{
    struct lh_sim_cluster *c = lh_sim_cluster_create(config);
    const char *trace = getenv("LH_SIM_TRACE");

    observers = lh_sim_observers_create(c, NULL);

    if (trace != NULL) {
        static FILE *to; /* one file for all stories of a binary */
        if (to == NULL)
            to = fopen(trace, "w");
        lh_sim_trace_to(lh_sim_world(c), to);
    }
    HOLDS(c, lh_sim_cluster_start(c, LONG));
    return c;
}

/* A cluster of `servers` chunkservers, all in session. */
static inline struct lh_sim_cluster *cluster(uint64_t seed, size_t servers)
{
    struct lh_sim_cluster_config config = short_terms(seed);

    config.servers = servers;
    return cluster_of(&config);
}

#define FILE_PATH "/log"

/* A file with one acknowledged record, and so with a primary. */
static inline struct lh_sim_writer *file_with_writer(struct lh_sim_cluster *c, bool synced)
{
    struct lh_sim_file_options options = {.synced = synced};

    assert_int_equal(lh_sim_create_file(c, FILE_PATH, &options), LH_OK);
    struct lh_sim_writer *w = lh_sim_writer_open(c, 1, FILE_PATH, LONG);
    assert_non_null(w);
    assert_int_equal(lh_sim_append(w, 1, 100, LONG), LH_OK);
    return w;
}

static inline struct lh_sim_chunk tail_of(struct lh_sim_cluster *c)
{
    struct lh_sim_chunk chunk;

    HOLDS(c, lh_sim_tail(c, FILE_PATH, &chunk));
    return chunk;
}

static inline struct lh_sim_node *primary_of(struct lh_sim_cluster *c)
{
    struct lh_sim_node *node = lh_sim_wait_primary(c, FILE_PATH, LONG);

    HOLDS(c, node != NULL);
    return node;
}

/* Any member of the tail that is not its primary. */
static inline struct lh_sim_node *secondary_of(struct lh_sim_cluster *c)
{
    struct lh_sim_chunk chunk = tail_of(c);
    const struct lh_sim_node *primary = primary_of(c);

    for (size_t i = 0; i < chunk.member_count; i++)
        if (strcmp(chunk.members[i].server, lh_sim_name(primary)) != 0)
            return lh_sim_find(lh_sim_world(c), chunk.members[i].server);
    fail_msg("the chunk has no secondary");
    return NULL;
}

static inline struct lh_replica_status replica_at(struct lh_sim_node *node, uint64_t chunk)
{
    struct lh_replica_status status;

    assert_non_null(lh_sim_core(node));
    assert_true(lh_chunkserver_replica(lh_sim_core(node), chunk, &status));
    return status;
}

static inline void run_for(struct lh_sim_cluster *c, struct lh_duration d)
{
    lh_sim_run_for(lh_sim_world(c), d);
    HOLDS(c, true);
}

static inline uint64_t now_ms(struct lh_sim_cluster *c)
{
    return lh_sim_now(lh_sim_world(c)) / 1000000;
}

/* The story and its world end, whether all is well or not. */
static inline void the_end(struct lh_sim_cluster *c)
{
    lh_sim_observers_destroy(observers);
    lh_sim_cluster_destroy(c);
}

/* Everything is well again, and nothing was lost; then the world ends. */
static inline void all_is_well(struct lh_sim_cluster *c, struct lh_sim_writer *w)
{
    lh_sim_observers_faults_over(observers);
    HOLDS(c, lh_sim_settle(c, w, LONG));
    lh_sim_observers_end(observers);
    HOLDS(c, true);
    the_end(c);
}

/* For main(). */
#define RUN_STORIES(tests) cmocka_run_group_tests(tests, NULL, NULL)
