/* Calls that happen once: those that changed something, with their answers (HA-12). */
#pragma once

#include "master/tables/common.h"

#include "proto/stored.pb-c.h"

/* A call that was carried out, or refused when it was repeated. Durable but for `since`.
 *
 * One of number 0 is a client's mark: answers of its calls up to `forgotten` went before their
 * time, so one of these that is not known may have been carried out. */
struct lh_m_call {
    uint64_t client, number; /* its id */
    union {
        uint64_t order;     /* of an answer: rises with each */
        uint64_t forgotten; /* of a mark */
    };
    struct lh_instant since; /* when this master took it, or started with it */
    uint64_t ticket;
    RB_ENTRY(lh_m_call) place;
    TAILQ_ENTRY(lh_m_call) link; /* by order, or among the marks; or it is dropped */
    uint32_t request;            /* checksum of what was asked */
    uint32_t reply_size;
    uint32_t pair;
    bool dirty;      /* in `dirty`: it is kept in this step */
    uint8_t reply[]; /* packed */
};
/* With the answer to a Create it takes 128 bytes. */
_Static_assert(offsetof(struct lh_m_call, reply) <= 104, "each file that was just made has one");

/* Up to where a client's calls are forgotten; else it is an answer. */
static inline bool lh_m_call_is_mark(const struct lh_m_call *call)
{
    return call->number == 0;
}

TAILQ_HEAD(lh_m_call_list, lh_m_call);
RB_HEAD(lh_m_call_tree, lh_m_call);
RB_PROTOTYPE(lh_m_call_tree, lh_m_call, place, compare_ids)

/* The call that is being answered: its answer is kept. `client` 0: none has an id. */
struct lh_m_taken {
    uint64_t link, client, number;
    uint32_t request;
    bool repeated;
    const char *path; /* of the file that its answer is about, as the request has it */
};

struct lh_m_calls {
    struct lh_m_call_tree tree;     /* by id */
    struct lh_m_call_list by_order; /* the answers of them */
    struct lh_m_call_list marks;    /* the others, the one that was raised last at the end */
    size_t count, mark_count;
    uint64_t next_order;
    struct lh_m_call_list dropped; /* in this step; freed by its commit */
    struct lh_m_call **dirty;      /* kept in this step, in order; written by its commit */
    size_t dirty_count, dirty_capacity;
    struct lh_timer timer;         /* set while there are any */
    struct lh_instant looked, due; /* when it was looked for old ones last, and the time before */
    struct lh_m_taken taken;
};

void lh_m_calls_init(struct lh_master *m);
void lh_m_calls_deinit(struct lh_master *m);
/* The master starts: what was loaded is kept for the whole time again, by order. */
void lh_m_calls_start(struct lh_master *m);
/* The end of a step: some of those go that are too old, or too many. */
void lh_m_calls_step(struct lh_master *m);

/* NULL: it is not known. */
struct lh_m_call *lh_m_call_find(const struct lh_master *m, uint64_t client, uint64_t number);
/* May the call, which is not known, have been carried out, its answer gone before its time? */
bool lh_m_call_maybe_forgotten(const struct lh_master *m, uint64_t client, uint64_t number);
/* There is room for no more answers, and none may go yet. */
bool lh_m_calls_full(const struct lh_master *m);
void lh_m_call_load(
    struct lh_master *m, uint64_t client, uint64_t number, const LeaseholdStored__Call *record);
/* In memory alone; nothing if there is none. */
void lh_m_call_forget(struct lh_master *m, uint64_t client, uint64_t number);
/* Keeps the answer to the call that was taken, in this step's commit. */
void lh_m_call_keep(struct lh_master *m, const ProtobufCMessage *reply);
