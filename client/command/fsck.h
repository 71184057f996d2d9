/* `leasehold fsck`: what is found at one chunk. */
#pragma once

#include "client/command/command.h"

#include <pthread.h>

struct lh_fsck_problem {
    const char *kind;   /* a word that stays, for JSON: docs/command.md lists them. Static */
    char *server_id;    /* whose replica; "" for the whole chunk */
    char *text;         /* what is wrong, a sentence */
    const char *advice; /* what to do. Static */
    bool damage;        /* otherwise nothing is lost */
};

struct lh_fsck_report {
    struct lh_fsck_problem *problems;
    size_t count, capacity;
    bool passing; /* one of them may be a moment's: an order under way, a seal, a start */
    bool damage;  /* one of them is */
    size_t replicas_asked;
    uint64_t bytes_read;
};

/* Servers that did not answer, not even at the second look: they are not waited for again. Shared
 * by all threads of a run. */
struct lh_fsck_silent {
    pthread_mutex_t mutex;
    char **server_ids;
    size_t count, capacity;
};
#define LH_FSCK_SILENT_INIT                                                                        \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                         \
    }
void lh_fsck_silent_deinit(struct lh_fsck_silent *silent);

struct lh_fsck_options {
    const char *prefix; /* of the files that are looked at */
    bool deep;          /* read every byte */
    uint64_t timeout_ms;
    struct lh_fsck_silent *silent;
};

/* Compares what the master says of a chunk with what its members say themselves. A server that
 * does not answer within the timeout is a problem, not an error. For any thread. Deinit the report
 * afterwards. */
void lh_fsck_chunk(struct lh_cluster *cluster, const struct lh_fsck_options *options,
    const struct lh_chunk_state *state, struct lh_fsck_report *report);

/* The same, and a second look at what may pass by itself: only what is found then counts, and
 * nothing of a chunk that is gone by then. */
void lh_fsck_chunk_twice(struct lh_cluster *cluster, const struct lh_fsck_options *options,
    const struct lh_chunk_state *state, struct lh_fsck_report *report);

/* One line on stdout, and the same as JSON. */
void lh_fsck_print_problem(const struct lh_chunk_state *state, const struct lh_fsck_problem *p);
json_t *lh_fsck_problem_json(const struct lh_chunk_state *state, const struct lh_fsck_problem *p);

void lh_fsck_report_deinit(struct lh_fsck_report *report);
