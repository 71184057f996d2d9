/* One transaction at a time: what a reign writes, and commits that one transaction cannot take
 * (large.c). */
#pragma once

#include "master/reigns/store.h"

#include "base/step.h"

#include <sys/queue.h>

struct lh_reigns;

struct lh_r_commit {
    TAILQ_ENTRY(lh_r_commit) link;
    uint64_t ticket;
    struct lh_change *changes;
    size_t count;
    size_t bytes; /* of a transaction */
};

struct lh_r_writer {
    TAILQ_HEAD(lh_r_commits, lh_r_commit) commits; /* in order, those under way first */
    size_t under_way;                              /* of them */
    enum lh_r_write kind;                          /* of the transaction under way */
    struct lh_r_bytes head;                        /* that it puts */
    uint64_t start;
    struct lh_instant sent_at; /* a reading before the first copy of it was sent */
    struct lh_instant next_at; /* the head is written then at the latest */
    /* A commit that one transaction cannot take. */
    struct lh_change *large;
    size_t large_count, placed, placing;
    size_t piece_count, pieces_put;
    size_t *piece_ends; /* the index behind each piece's last change */
    bool named;
    bool cut, resigns; /* of planted bugs */
};

void lh_r_writer_go(struct lh_reigns *r);
/* The transaction with which a reign begins (HA-3). */
void lh_r_claim(struct lh_reigns *r);
/* Its outcome is not known. True: it is given up, which is a mistake. */
bool lh_r_write_unknown(struct lh_reigns *r);
void lh_r_write_reply(struct lh_reigns *r, const Etcdserverpb__TxnResponse *reply);
void lh_r_writer_clear(struct lh_reigns *r);
/* What a change takes of a transaction's bytes: its key's prefix and the encoding, too. */
size_t lh_r_change_cost(const struct lh_reigns *r, const struct lh_change *c);
void lh_r_commit_add(struct lh_reigns *r, struct lh_effect *e);
struct lh_instant lh_r_writer_deadline(const struct lh_reigns *r);

/* The head as it is to be written next. */
LeaseholdStored__Head lh_r_head_next(struct lh_reigns *r);

/* ---- large.c */

/* Is it more than one transaction takes? */
bool lh_r_is_large(const struct lh_reigns *r, const struct lh_r_commit *c);
void lh_r_large_begin(struct lh_reigns *r, struct lh_r_commit *c);
/* A reign begins with a commit that counts and is not in place. */
void lh_r_large_resume(struct lh_reigns *r, struct lh_change *changes, size_t count);
/* The next transaction of it. */
void lh_r_large_go(struct lh_reigns *r);
void lh_r_large_applied(struct lh_reigns *r, enum lh_r_write kind);
void lh_r_large_clear(struct lh_reigns *r);
