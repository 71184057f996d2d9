/* What etcd needs besides: compaction, and a look at each member's state. */
#pragma once

#include "master/reigns/store.h"

#include "base/time.h"

struct lh_reigns;

struct lh_r_upkeep {
    struct lh_instant compact_at, status_at;
    struct lh_r_seen {
        struct lh_instant at;
        int64_t revision;
    } * seen; /* oldest first */
    size_t count, capacity;
    uint32_t asked; /* the member of which the state is asked for, in turn */
    struct lh_r_member {
        uint64_t bytes; /* of its file; 0: it did not answer */
        char *trouble;  /* what it complains of; NULL: nothing */
    } members[LH_ETCD_MEMBERS_MAX];
};

void lh_r_upkeep_clear(struct lh_reigns *r);
void lh_r_upkeep_step(struct lh_reigns *r);
struct lh_instant lh_r_upkeep_deadline(const struct lh_reigns *r);
/* The acting core is told whether the store fills up. */
void lh_r_status_know(struct lh_reigns *r);
void lh_r_status_reply(
    struct lh_reigns *r, uint32_t member, const Etcdserverpb__StatusResponse *reply);
void lh_r_status_failed(struct lh_reigns *r, uint32_t member);
