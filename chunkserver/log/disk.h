/* Disk operations under way: whom a completion concerns, and what a shortage makes wait. */
#pragma once

#include "base/buf.h"
#include "base/step.h"
#include "base/timers.h"

#include <stdbool.h>
#include <uthash.h>

struct lh_cs_logs;
struct lh_cs_replica;
struct lh_cs_ticket;

/* What an operation is for. */
struct lh_cs_disk_user {
    /* `t` is a copy. */
    void (*done)(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);
    bool owned;     /* a read of an old log: without its owner nobody needs it, and `done` is
                       not called */
    bool impatient; /* its owner rather hears of a shortage than waits for long */
    bool unleased;  /* no lease depends on it, as on none that is owned (SES-6) */
    bool frees;     /* the replica may be gone when it is done: `done` goes on with it by itself */
};

/* An operation under way, or waiting because the machine was short of what it needs. An owner that
 * dies before it completes sets `owner` to NULL. */
struct lh_cs_ticket {
    uint64_t id;
    const struct lh_cs_disk_user *user;
    struct lh_cs_replica *replica; /* NULL: it is of the probe's file */
    void *owner;
    struct lh_instant began;
    enum lh_disk_op op;
    uint64_t offset, length;
    bool for_reply;                   /* lh_effect's */
    struct lh_buf bytes;              /* waiting: what it writes */
    bool starved;                     /* it met a shortage at least once */
    bool waiting;                     /* and is to be asked again */
    struct lh_cs_ticket *prev, *next; /* of those that are starved */
    UT_hash_handle hh;
};

struct lh_cs_disk {
    struct lh_cs_ticket *tickets;
    uint64_t last;
    struct lh_instant quiet_since;    /* while tickets are out: when the last one came back, or the
                                      first of these went (SES-6) */
    struct lh_instant forgiven;       /* `quiet_since` as a pause of ours has moved it */
    struct {                          /* operations that could not be begun */
        struct lh_cs_ticket *starved; /* that met it and are not complete */
        uint64_t times;               /* that anything met it, since it began */
        struct lh_duration pause;
        struct lh_timer timer;
    } shortage;
};

struct lh_cs_disk_request {
    enum lh_disk_op op;
    uint64_t offset, length;
    struct lh_buf *data; /* NULL: none */
    bool for_reply;
};

struct lh_cs_ticket *lh_cs_disk_ask(struct lh_cs_logs *logs, const struct lh_cs_disk_user *user,
    struct lh_cs_replica *r, void *owner, const struct lh_cs_disk_request *request);
void lh_cs_disk_done(struct lh_cs_logs *logs, struct lh_input *in);
/* SES-6: has nothing been completed, or something not been begun, for so long? */
bool lh_cs_disk_stands_still(const struct lh_cs_logs *logs, struct lh_duration limit);

void lh_cs_disk_init(struct lh_cs_logs *logs);
void lh_cs_disk_deinit(struct lh_cs_logs *logs);
