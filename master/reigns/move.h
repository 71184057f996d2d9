/* Stores that are filled from a copy, taken to another kind of store, or begun there. */
#pragma once

#include "master/reigns/store.h"

#include "base/step.h"

struct lh_reigns;

struct lh_r_move {
    struct lh_change *pairs; /* FILL: until the writer has them; TAKE: until they are handed out */
    size_t count, capacity;
    uint64_t bytes, term;
    uint64_t seen_reign, seen_number; /* TAKE: of the head that was there first */
    bool claimed, persisting, interrupted;
};

/* The store may be read, followed, claimed as it is: its head is new to this process. False: not,
 * and what is to be done then is done. */
bool lh_r_move_allows(struct lh_reigns *r);
/* Likewise for a head that a watch has shown. */
bool lh_r_move_follows(struct lh_reigns *r, const LeaseholdStored__Head *said);
/* TAKE: a pair of the map, as it counts. */
void lh_r_move_keep(
    struct lh_reigns *r, const uint8_t *key, size_t key_size, const uint8_t *value, size_t size);
void lh_r_move_forget(struct lh_reigns *r);
/* TAKE: the copy is whole. False: it may not be taken. */
bool lh_r_move_whole(struct lh_reigns *r);
/* What a claim of FILL and TAKE has besides. */
void lh_r_move_claim(struct lh_reigns *r, struct lh_r_txn *t, LeaseholdStored__Head *head);
/* The claim was applied. */
void lh_r_move_begin(struct lh_reigns *r);
/* FILL: the compare of the last transaction failed, over this head. A later reign than COPYING's
 * has begun, which nobody begins before that transaction: an earlier copy of it was applied. */
bool lh_r_move_was_ended(const struct lh_reigns *r, const Etcdserverpb__KeyValue *kv);
/* A compare failed. */
void lh_r_move_lost(struct lh_reigns *r);
void lh_r_move_go(struct lh_reigns *r);
void lh_r_move_persisted(struct lh_reigns *r, int error);
void lh_r_move_stop(struct lh_reigns *r);
/* A head was taken: what it says to operators. */
void lh_r_move_notice(struct lh_reigns *r);
