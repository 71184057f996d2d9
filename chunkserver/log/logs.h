/* The room of what is on the disk: all replicas of a server, and who above is to know what happens
 * to them. */
#pragma once

#include "base/idmap.h"
#include "chunkserver/host/host.h"
#include "chunkserver/log/disk.h"

struct lh_cs_logs;
struct lh_cs_motion;
struct lh_cs_replica;

/* Rooms above keep a record of their own with a replica, each in its slot. */
enum lh_cs_slot { LH_CS_SLOT_PRIMARY, LH_CS_SLOT_SERVED, LH_CS_SLOTS };

/* Who does something with replicas: filled in by the server's top. Each function is called where it
 * says and may do whatever asks for a replica's doors, but not free it. */
struct lh_cs_log_users {
    /* All that was found at the start is read back. */
    void (*loaded)(void *self);
    /* Less waits to be written. */
    void (*pressure_fell)(void *self);
    /* It ends: what rooms above keep with it ends as well. */
    void (*removed)(struct lh_cs_replica *r);
    /* The step ends: what they keep with it ends if it is idle. */
    void (*settled)(struct lh_cs_replica *r);
    /* Something was done or written: whoever waited for that goes on. */
    void (*pumped)(struct lh_cs_replica *r);
    /* More of it may be read: committed, written or sealed. */
    void (*readable)(struct lh_cs_replica *r);
    /* More of it is durable, in the meaning of lh_cs_replica_durable(). */
    void (*durable)(struct lh_cs_replica *r);
    /* Its log is cut back to what was written. */
    void (*cut_back)(struct lh_cs_replica *r, int error);
    /* It is about to be lost: every role of it ends. */
    void (*lost)(struct lh_cs_replica *r, int error);
    /* Another server's log does not fit it. */
    void (*differs)(struct lh_cs_replica *r);
    /* A sealed log was read back again, or turned out to be rotten. */
    void (*read_back)(struct lh_cs_replica *r);
};

struct lh_cs_logs {
    struct lh_cs_host *cs;
    const struct lh_cs_log_users *users;
    void *self;               /* theirs */
    void *rooms[LH_CS_SLOTS]; /* theirs, as they keep something with replicas */

    struct lh_idmap replicas;
    uint64_t *stirred; /* motion.c: chunks whose replicas are looked at when the step ends */
    size_t stirred_count, stirred_capacity;
    uint64_t unwritten; /* bytes accepted in all replicas and not written */
    struct lh_cs_disk disk;

    size_t loading;   /* replicas whose header or log is still being read at start */
    size_t load_next; /* index into config.chunks of the next one to load */

    struct { /* space.c: those written to lately, longest ago first */
        struct lh_cs_motion *growing;
        struct lh_timer timer;
    } space;
    struct { /* tables.c: sealed ones, with their writer tables; asked longest ago first */
        struct lh_cs_motion *kept;
        size_t count;
        struct lh_timer timer;
    } tables;
};

void lh_cs_logs_init(struct lh_cs_logs *logs, struct lh_cs_host *cs,
    const struct lh_cs_log_users *users, void *self);
/* Frees all replicas; nothing is reported to anybody. */
void lh_cs_logs_deinit(struct lh_cs_logs *logs);
