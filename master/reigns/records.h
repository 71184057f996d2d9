/* Which masters there are: the record that each keeps in the store, who goes first, and how one is
 * forgotten (forget.c). */
#pragma once

#include "master/reigns/store.h"

#include "base/time.h"

struct lh_reigns;

struct lh_r_record {
    char *id, *address, *page;
    uint64_t start;
    int64_t revision;        /* of its last beat ... */
    struct lh_instant since; /* ... which this process saw first then */
    char **heard;            /* ids of chunkservers that it hears (HA-9a) */
    size_t heard_count;
};

void lh_r_records_step(struct lh_reigns *r);
/* The own record is in the store. */
void lh_r_record_put(struct lh_reigns *r);
void lh_r_records_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply);
/* Whoever was asked has answered, or not (NULL). */
void lh_r_twin_reply(struct lh_reigns *r, const Leasehold__MastersReply *reply);
struct lh_instant lh_r_records_deadline(const struct lh_reigns *r);
void lh_r_records_clear(struct lh_reigns *r);
/* The acting core is told of them. */
void lh_r_records_know(struct lh_reigns *r);
/* How many others go first when a reign ended: that of `head`. */
uint32_t lh_r_rank(const struct lh_reigns *r, const LeaseholdStored__Head *head);
/* As MastersReply.state. */
const char *lh_r_state_name(const struct lh_reigns *r);
void lh_r_answer_masters(struct lh_reigns *r, uint64_t link);
/* malloc'd. */
struct lh_r_bytes lh_r_record_key(const struct lh_reigns *r, const char *id);

/* ---- forget.c */

void lh_r_forget(struct lh_reigns *r, uint64_t link, const Leasehold__ForgetMasterRequest *request);
void lh_r_forget_reply(struct lh_reigns *r, const Etcdserverpb__TxnResponse *m);
