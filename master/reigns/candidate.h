/* A standby that may become the active one, and what it knows of masters that died soon. */
#pragma once

#include "master/reigns/store.h"

#include "base/time.h"

struct lh_reigns;

/* A claim was lost: the next one comes later. */
void lh_r_candidate_later(struct lh_reigns *r);
/* What etcd says the head is, when it is asked before a claim. */
void lh_r_candidate_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply);
/* Asks etcd, or claims, if it is time. */
void lh_r_candidate_step(struct lh_reigns *r);
struct lh_instant lh_r_candidate_deadline(const struct lh_reigns *r);

/* ---- death.c */

/* How many processes in a row died soon, as the next head of an acting master says it. */
uint32_t lh_r_deaths(const struct lh_reigns *r);
void lh_r_death_go(struct lh_reigns *r);
void lh_r_death_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply);
