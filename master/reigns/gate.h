/* Inputs wait until the reign is confirmed (gate.c). Inside this folder. */
#pragma once

#include "master/reigns/store.h"

#include <sys/queue.h>
#include <uthash.h>

struct lh_r_link {
    uint64_t id;
    enum lh_method method;
    bool known; /* the master's core has heard of it */
    bool taken; /* it has had the message of a unary call */
    UT_hash_handle hh;
};

struct lh_r_waiting {
    TAILQ_ENTRY(lh_r_waiting) link_in_gate;
    enum lh_input_kind kind;
    struct lh_instant at; /* a reading when it came */
    uint64_t wall_ms, link, ticket;
    enum lh_method method;
    struct lh_buf message;
    int error;
    char *text, *identity; /* NULL: none */
    bool asked;            /* a read: etcd was asked for the head after it had come */
};

struct lh_r_gate {
    struct lh_r_link *links; /* the core's that are open: served, and opened by it */
    TAILQ_HEAD(lh_r_waiting_list, lh_r_waiting) waiting;
    size_t count, bytes;
    size_t reads; /* so many have come since etcd was asked for the head last */
};

/* Streams on which nothing is asked that could be done and not answered: whoever has one goes on at
 * the next master. */
static inline bool lh_r_is_session(enum lh_method method)
{
    return method == LH_METHOD_SESSION || method == LH_METHOD_LEASE_SESSION ||
           method == LH_METHOD_WATCH;
}

/* An input of a link of the core's, or a completion. */
void lh_r_gate_take(struct lh_reigns *r, struct lh_input *in);
/* What waited, and the timers that are due, if the reign is confirmed. */
void lh_r_gate_open(struct lh_reigns *r);
/* Unconfirmed: whether reads may be answered is asked, and they are (HA-2a). */
void lh_r_gate_ask(struct lh_reigns *r);
void lh_r_gate_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply);
void lh_r_gate_clear(struct lh_reigns *r);
/* It was answered here. */
void lh_r_link_over(struct lh_reigns *r, uint64_t link);
/* Ends all links of the core's. */
void lh_r_links_end(struct lh_reigns *r, int error, const char *text);
