/* What the parts of the simulated etcd know of each other. Inside this folder only.
 *
 * The cluster (cluster.c) lives in true time, beside the nodes: it holds the replicated state and
 * the requests that wait, and looks around whenever something is due. A member (member.c) is a core
 * like any other: it hands requests to the cluster, and is poked (LH_IN_CALL) when something of its
 * own is ready to be sent. */
#pragma once

#include "sim/etcd/txn.h"

struct member;

/* ---- Requests (requests.c) ---- */

enum request_kind { REQUEST_TXN, REQUEST_COMPACT, REQUEST_READ, REQUEST_READ_TXN };

enum request_state {
    REQUEST_WAITS,    /* until `ready_at`, and for a majority */
    REQUEST_DONE,     /* it has taken effect, or its read index is known: until the member has
                         applied as much */
    REQUEST_ANSWERED, /* until the member has sent the answer */
};

struct request {
    struct request *next;
    struct member *member;
    uint64_t link; /* of the member's present process; 0: nobody waits for the answer */
    enum request_kind kind;
    enum request_state state;
    ProtobufCMessage *message;   /* owned */
    uint64_t ready_at, deadline; /* true ns */
    size_t index;                /* DONE: of the log */
    bool late;                   /* it takes effect whatever its caller is told */
    bool elects; /* an election met it while it waited, and decided ... */
    bool lost;   /* ... whether it ever takes effect */
    bool handed_on;              /* so it does, and its member is gone: any majority does it */
    const struct lh_etcd_refusal *after; /* told in place of the answer when it has taken effect */
    const struct lh_etcd_refusal *refusal; /* ANSWERED: why; NULL: `answer` */
    ProtobufCMessage *answer;              /* owned */
};

/* Takes a copy of the message. */
void lh_etcd_submit(
    struct member *m, uint64_t link, enum request_kind kind, const ProtobufCMessage *message);

/* Nobody waits for it any more: its link is closed. */
void lh_etcd_request_left(struct member *m, uint64_t link);

/* The process of the member is gone. */
void lh_etcd_requests_orphan(struct member *m);

/* Carries out what is due; true: something waits for a majority. `*next`: lowered to when something
 * is due next. */
bool lh_etcd_requests_look(struct lh_sim_etcd *e, uint64_t *next);

/* Ends all that wait, as when every member's process is replaced. */
void lh_etcd_requests_end(struct lh_sim_etcd *e, const struct lh_etcd_refusal *why);
void lh_etcd_requests_deinit(struct lh_sim_etcd *e);

/* Takes the next answered request of the member out; NULL: there is none. To be freed. */
struct request *lh_etcd_request_answered(struct member *m);
void lh_etcd_request_free(struct request *r);

/* ---- Watches (streams.c) ---- */

struct watch {
    struct watch *next;
    int64_t id;
    struct lh_etcd_range range; /* its bytes are owned */
    int64_t from;               /* the first revision that was not sent */
    bool fragment;
    bool doomed; /* canceled as compacted in place of its next events */
};

/* One watch stream of a member's process. */
struct stream {
    struct stream *next;
    uint64_t link;
    struct watch *watches; /* by id */
    int64_t next_id;
    uint64_t due_at; /* true ns: events are sent; UINT64_MAX: there are none */
    bool broken;
};

void lh_etcd_stream_request(
    struct member *m, struct stream *s, const Etcdserverpb__WatchRequest *q, struct lh_effects *fx);

/* Sends what is due. */
void lh_etcd_stream_flush(struct member *m, struct stream *s, struct lh_effects *fx);

/* The member has applied more, or a watch begins in the past. */
void lh_etcd_stream_news(struct member *m, struct stream *s);
void lh_etcd_stream_free(struct stream *s);

/* ---- Members (member.c) ---- */

struct process; /* the core */

struct member {
    struct lh_sim_etcd *etcd;
    size_t index;
    struct lh_sim_node *node;
    struct process *process; /* NULL: it is down */
    struct stream *streams;  /* of the process */
    size_t applied;          /* of the log */
    size_t apply_to;         /* at `apply_at`, which is UINT64_MAX when all is applied */
    uint64_t apply_at;       /* true ns */
    uint64_t extra;          /* ns that it applies everything later */
    uint64_t damage;         /* txn.h */
    bool serves;             /* it has applied `goal` since its start */
    bool has_goal;
    size_t goal;
    bool poked; /* an LH_IN_CALL is on its way */
};

extern const struct lh_sim_role lh_etcd_role;

/* Something is ready to be sent. */
void lh_etcd_poke(struct member *m);

/* ---- The cluster (cluster.c) ---- */

/* What was applied through Raft: the state of a member that has applied it. */
struct entry {
    int64_t revision, compacted;
};

struct lh_sim_etcd {
    struct lh_sim *sim;
    struct lh_sim_etcd_config config;
    char *name;
    struct lh_etcd_store store, kept; /* `kept`: the snapshot */
    bool has_kept;
    struct entry *log; /* the first one: the state at the beginning */
    size_t log_count, log_capacity;
    int64_t forgotten, kept_forgotten; /* the store has forgotten what is below it */
    struct member members[LH_SIM_ETCD_MEMBERS_MAX];
    struct request *first, *last; /* in the order of their arrival */
    uint64_t wake_at;             /* true ns */
    uint64_t restores;
    struct lh_sim_etcd_observer *observers;
    size_t observer_count;
    /* Faults. */
    bool quorum_lost, electing, full, full_is_certain, nearly_full;
    uint32_t lost_in_election, fail_after, fail_before, late, lose_events;
    struct lh_duration late_most, watch_extra;
    struct meddled {
        struct lh_etcd_record *was; /* before a hand changed it in the revision `at` */
        int64_t at;
    } * meddled;
    size_t meddled_count, meddled_capacity;
};

struct lh_prng *lh_etcd_random(const struct lh_sim_etcd *e);
uint64_t lh_etcd_draw(const struct lh_sim_etcd *e, const struct lh_sim_range *range);
bool lh_etcd_chance(const struct lh_sim_etcd *e, uint32_t per_million);

/* The cluster looks around at that true time, or sooner. */
void lh_etcd_wake(struct lh_sim_etcd *e, uint64_t at);
bool lh_etcd_has_majority(const struct member *m);

/* Some member of a majority; NULL: there is no majority. */
struct member *lh_etcd_leader(struct lh_sim_etcd *e);
struct lh_etcd_view lh_etcd_view(const struct member *m);   /* the member's own state */
struct lh_etcd_view lh_etcd_newest(const struct member *m); /* the cluster's, named by it */

/* Something has been applied: the state is in the log now, and members apply it by and by. */
void lh_etcd_log(struct lh_sim_etcd *e);

/* faults.c: that transaction was applied. What it deletes no operator puts back, though a hand had
 * deleted it before. */
void lh_etcd_decides(struct lh_sim_etcd *e, const Etcdserverpb__TxnRequest *r);

/* As lh_sim_etcd_compact(); `revision` is what a request says. NULL: done. */
const struct lh_etcd_refusal *lh_etcd_do_compact(struct lh_sim_etcd *e, int64_t revision);
