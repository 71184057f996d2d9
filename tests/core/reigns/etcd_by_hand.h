/* A small world around one master among others: its clock, its calls of etcd, and links that others
 * opened. The test says what etcd answers, call by call. What is no matter of a story (records, the
 * members' state, compaction) is answered by itself. */
#pragma once

#include "base/step.h"
#include "master/reigns/reigns.h"
#include "proto/codec.h"
#include "proto/etcd.pb-c.h"
#include "proto/leasehold.pb-c.h"
#include "proto/stored.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PREFIX "/t/"

/* A link of the core's. */
struct link {
    uint64_t id;
    enum lh_method method;
    char *address;
    ProtobufCMessage *request;
    bool open;
};

struct world {
    struct lh_reigns *r;
    struct lh_instant now;
    struct lh_effects fx;
    struct link *links;
    size_t count, capacity;
    uint64_t next_served;
    uint64_t ended[64]; /* served links that it has ended */
    int ended_with[64];
    size_t ended_count;
    size_t sent_behind_end; /* messages on such links */
    bool stopped;
    int stop_error;
    struct lh_change *persisted; /* the last commit that it wanted (LH_FX_PERSIST) */
    size_t persisted_count, commits;
    char said[1200];                            /* the last warning or error */
    int64_t revision;                           /* of the answers */
    char *version;                              /* of etcd; NULL: it does not say */
    const Etcdserverpb__RangeResponse *records; /* of masters; NULL: there are none */
    size_t records_put;                         /* by this master */
    ProtobufCMessage *masters;                  /* its last answer of which there are */
    struct lh_buf replied;                      /* its last answer to anybody ... */
    size_t replies;                             /* ... of so many */
};

/* A master of three members of etcd, with a T_reign of 2 s. `change` may be NULL. */
void world_begin(struct world *w, void (*change)(struct lh_reign_config *config));
void world_end(struct world *w);

/* The commit is durable, or failed. */
void world_committed(struct world *w, int error);
void world_stop(struct world *w);

/* Time passes, in steps at the core's deadlines. */
void world_run(struct world *w, uint64_t ms);

/* An input as a driver feeds it. */
void world_feed(struct world *w, struct lh_input *in);

/* The newest open link of that method, or the one before it (`nth` 1), and so on; NULL: none. */
struct link *world_link(struct world *w, enum lh_method method, size_t nth);
void world_answer(struct world *w, struct link *l, const ProtobufCMessage *message);
void world_fail(struct world *w, struct link *l, int error, const char *text);

/* ---- What etcd says. */

/* The value that the transaction puts under that name; it must be there. */
ProtobufCBinaryData world_put(const struct link *txn, const char *name);
/* Applied, with the next revision. */
void world_applied(struct world *w, struct link *txn);
/* Its compare failed; the head is `head` (NULL: there is none) of that revision. */
void world_not_applied(
    struct world *w, struct link *txn, const ProtobufCBinaryData *head, int64_t revision);
struct world_pair {
    const char *name;
    ProtobufCBinaryData value; /* of a watch, NULL data: it is gone */
    int64_t revision;
};
/* To a range request, with that revision in the header. */
void world_pairs(struct world *w, struct link *range, const struct world_pair *pairs, size_t count);
void world_events(struct world *w, const struct world_pair *pairs, size_t count);
/* malloc'd bytes of a head; world_head_of() frees `head`. */
ProtobufCBinaryData world_pack_head(const LeaseholdStored__Head *said);
LeaseholdStored__Head *world_unpack_head(ProtobufCBinaryData head);
ProtobufCBinaryData world_head(uint64_t reign, uint64_t number, uint64_t start, uint64_t pieces);
ProtobufCBinaryData world_head_of(
    ProtobufCBinaryData head, LeaseholdStored__Head__State state, const char *elsewhere);

/* malloc'd bytes of a master's record. */
ProtobufCBinaryData world_record(const char *cluster);
/* It has read the map: the master's record. */
void world_loads_map(struct world *w);
/* It has read the store: the head (NULL data: there is nothing), and the master's record. */
void world_loads(struct world *w, ProtobufCBinaryData head);
/* It hears nothing for `ms`, asks for the head now and then, and is told that it is this one. */
void world_hears_nothing(struct world *w, uint64_t ms, ProtobufCBinaryData head, int64_t revision);
/* A store in which a cluster has just begun; it claims and acts. */
void world_acts(struct world *w);

/* ---- Who calls it. */

uint64_t world_opens(struct world *w, enum lh_method method);
void world_says(
    struct world *w, uint64_t link, enum lh_method method, const ProtobufCMessage *message);
/* Who opened it has gone. */
void world_closes(struct world *w, uint64_t link);
/* -1: it has not ended that link. */
int world_ended(const struct world *w, uint64_t link);

enum lh_reign_phase world_phase(const struct world *w);
