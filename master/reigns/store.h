/* The store in etcd as a master among others sees it: calls of etcd, names and values, the copy. */
#pragma once

#include "master/reigns/reigns.h"

#include "proto/codec.h"
#include "proto/etcd.pb-c.h"
#include "proto/leasehold.pb-c.h"
#include "proto/stored.pb-c.h"

/* ---- calls.c: calls of etcd */

enum lh_r_purpose {
    LH_R_READ,         /* the head, a page */
    LH_R_ASK,          /* whether the head is what a candidate knows (HA-3) */
    LH_R_WATCH,        /* what changes */
    LH_R_WRITE,        /* a transaction */
    LH_R_RECORD,       /* this master's record */
    LH_R_LIST,         /* all masters' records */
    LH_R_FORGET,       /* the record of one that is gone */
    LH_R_COMPACT,      /* etcd's history */
    LH_R_PREFIX,       /* what else is there */
    LH_R_TWIN,         /* whether another process has this master's id */
    LH_R_STATUS,       /* of the member that is asked */
    LH_R_AUTHENTICATE, /* for a token */
    LH_R_PURPOSES
};

/* Of a request that is sent again and again a member has so many copies: the first, the last. */
#define LH_R_COPIES 2

/* A call of one member. */
struct lh_r_attempt {
    uint64_t link;
    uint32_t member;
};

/* A request, and the same bytes at every member that was asked (HA-5). */
struct lh_r_call {
    enum lh_method method; /* NONE: nothing is asked */
    struct lh_buf request;
    struct lh_instant first_sent; /* a reading before the first copy was sent */
    struct lh_instant again_at;   /* a further attempt is due */
    char *address;                /* who is asked; NULL: etcd's members */
    struct lh_r_attempt attempts[LH_R_COPIES * LH_ETCD_MEMBERS_MAX]; /* in the order of sending */
    size_t attempt_count;
    uint32_t tried;   /* of the members, the one that is asked next */
    bool tried_again; /* it was sent at least once */
};

void lh_r_call_begin(struct lh_reigns *r, enum lh_r_purpose purpose, enum lh_method method,
    const ProtobufCMessage *request);
/* The same of somebody else than etcd, once. */
void lh_r_call_at(struct lh_reigns *r, enum lh_r_purpose purpose, enum lh_method method,
    const ProtobufCMessage *request, const char *address);
/* Nothing more is heard of it. */
void lh_r_call_end(struct lh_reigns *r, enum lh_r_purpose purpose);
bool lh_r_call_is_open(const struct lh_reigns *r, enum lh_r_purpose purpose);
/* Does etcd say that the token is none, or none any more? It is forgotten then. */
bool lh_r_token_refused(struct lh_reigns *r, const char *text);
/* An input of a link that this core opened. */
void lh_r_calls_message(struct lh_reigns *r, struct lh_input *in);
void lh_r_calls_closed(struct lh_reigns *r, const struct lh_input *in);
/* Sends again what is due. */
void lh_r_calls_step(struct lh_reigns *r);
struct lh_instant lh_r_calls_deadline(const struct lh_reigns *r);

/* ---- keys.c: names and values in the store */

struct lh_r_bytes {
    uint8_t *data;
    size_t size;
};

/* malloc'd; with room for another byte. */
struct lh_r_bytes lh_r_bytes_copy(const void *data, size_t size);
/* `prefix` and a name; malloc'd. */
struct lh_r_bytes lh_r_key(const struct lh_reigns *r, const char *name);
struct lh_r_bytes lh_r_map_key(const struct lh_reigns *r, const uint8_t *key, size_t size);
struct lh_r_bytes lh_r_piece_key(const struct lh_reigns *r, uint64_t index);
/* The name behind the prefix, or NULL. */
const uint8_t *lh_r_name_in(
    const struct lh_reigns *r, const ProtobufCBinaryData *key, size_t *size);
bool lh_r_is_head(const uint8_t *name, size_t size);
/* What follows "map/"; NULL: it is no key of the map. */
const uint8_t *lh_r_in_map(const uint8_t *name, size_t size, size_t *key_size);
bool lh_r_is_piece(const uint8_t *name, size_t size, uint64_t *index);
struct lh_r_bytes lh_r_pack(const ProtobufCMessage *message);
/* Of reigns and of their writes, as they are read: a store with a higher one was damaged. */
#define LH_R_NUMBER_MAX (UINT64_MAX / 2)
/* With its seal (PAIR-1). */
struct lh_r_bytes lh_r_head_pack(const LeaseholdStored__Head *head);
/* One that was packed here, whatever the numbers that it goes on from. lh_r_head_free(). */
LeaseholdStored__Head *lh_r_head_own(const struct lh_r_bytes *bytes);
/* NULL: it makes no sense, or no master has written it. To be freed with lh_r_head_free(). */
LeaseholdStored__Head *lh_r_head_read(const void *data, size_t size);
void lh_r_head_free(LeaseholdStored__Head *head);

#define LH_R_HEAD    "head"
#define LH_R_MAP     "map/"
#define LH_R_MAP_END "map0"
#define LH_R_PIECE   "pieces/"
/* Behind head, map and pieces; "records/" follows. */
#define LH_R_END         "q"
#define LH_R_RECORD_OF   "records/"
#define LH_R_RECORDS_END "records0"

/* ---- txn.c: transactions */

enum lh_r_write {
    LH_R_CLAIM,
    LH_R_HEAD_ALONE,
    LH_R_COMMITS,
    LH_R_PUT_PIECE,
    LH_R_NAME_PIECES,
    LH_R_PLACE,
    LH_R_RESIGN
};

/* A transaction that is being put together. */
struct lh_r_txn {
    Etcdserverpb__TxnRequest request;
    Etcdserverpb__RequestOp **operations;
    size_t count, capacity;
};

void lh_r_txn_put(struct lh_r_txn *t, struct lh_r_bytes key, const void *value, size_t size);
void lh_r_txn_delete(struct lh_r_txn *t, struct lh_r_bytes key, struct lh_r_bytes end);
/* One change of the map; a later one of the same key takes its place. */
void lh_r_txn_change(struct lh_reigns *r, struct lh_r_txn *t, const struct lh_change *c);
/* Adds fence and head, and sends it. */
void lh_r_txn_send(struct lh_reigns *r, struct lh_r_txn *t, enum lh_r_write kind,
    const LeaseholdStored__Head *head);

/* ---- load.c, follow.c: the copy */

/* A put (or, with `value.data` NULL, a removal) that was read of one revision. */
struct lh_r_events {
    int64_t revision;
    struct lh_change *changes; /* of the map, or of the pieces' table by `piece` */
    uint64_t *pieces;          /* the piece's index; UINT64_MAX: of the map */
    size_t count, capacity;
    struct lh_r_bytes head;
    bool has_head, head_gone;
};

/* What counts and is not in place, while the map is loaded (overlay.c). */
struct lh_r_overlay {
    struct lh_change *changes; /* in the order of keys */
    size_t count, at;
};

struct lh_r_copy {
    struct lh_r_bytes head;      /* the bytes that the store has */
    LeaseholdStored__Head *said; /* NULL: it has none */
    int64_t head_revision;
    int64_t revision;             /* up to which the copy stands */
    struct lh_instant learned_at; /* a reading after this head was learned of */
    bool followed;                /* it has seen another master's write come */
    bool disagrees;               /* one of its heads was of a master with other settings */
    struct lh_r_bytes from;       /* LOADING: the key at which the next page begins */
    bool in_map;                  /* ... pieces were read before */
    struct lh_r_overlay overlay;
    struct lh_r_events events; /* of the revision that is being read */
    struct lh_r_bytes *pieces; /* by index; NULL data: not there */
    size_t piece_count, piece_capacity;
};

void lh_r_learn(struct lh_reigns *r);
/* What the head is now. */
void lh_r_ask(struct lh_reigns *r);
void lh_r_read_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply);
void lh_r_read_failed(struct lh_reigns *r, const char *text);
void lh_r_watch(struct lh_reigns *r);
/* It has ended; what had come of a revision that was not whole is forgotten. */
void lh_r_watch_over(struct lh_reigns *r);
void lh_r_watch_reply(struct lh_reigns *r, const Etcdserverpb__WatchResponse *reply);
void lh_r_copy_clear(struct lh_reigns *r);
/* It has that head now, and takes both over. */
void lh_r_take_head(
    struct lh_reigns *r, struct lh_r_bytes bytes, LeaseholdStored__Head *said, int64_t revision);
/* `data` NULL: the piece is gone. */
void lh_r_put_piece(struct lh_reigns *r, uint64_t index, const void *data, size_t size);
/* The store's head is this one, without what came before it (a planted bug). */
void lh_r_copy_take_head(struct lh_reigns *r, const void *data, size_t size,
    LeaseholdStored__Head *said, int64_t revision);
/* The head is now what this master has put. */
void lh_r_copy_put_head(struct lh_reigns *r, struct lh_r_bytes head, int64_t revision);
/* All changes of the pieces 0 to `count` - 1. False: one is not there, or makes no sense. */
bool lh_r_pieces_read(struct lh_reigns *r, uint64_t count, struct lh_change **changes, size_t *n);

/* ---- overlay.c: loading what is not in place */

/* ---- mend.c: pairs that somebody else has changed (PAIR-5) */

struct lh_r_mend {
    struct lh_r_bytes *keys; /* of the map, from `next` on */
    size_t next, count, capacity;
    uint64_t writes; /* ACTING: as many had been applied when some were handed over */
};

/* A revision without a head. False: it cannot be mended, or not all of it. */
bool lh_r_mend_note(struct lh_reigns *r, const struct lh_r_events *e);
/* STANDBY: a master has written these. */
void lh_r_mend_forget(struct lh_reigns *r, const struct lh_r_events *e);
/* ACTING, confirmed: some keys are the core's to write with its next step. False: there are none,
 * or they have to wait. */
bool lh_r_mend_next(struct lh_reigns *r);
void lh_r_mend_clear(struct lh_reigns *r);

/* ---- unfit.c: what a member has and masters have not written (PAIR-4) */

/* What the member that is asked has cannot be used: the next one's is loaded. */
void lh_r_unfit(struct lh_reigns *r, const char *text);
/* The copy is whole, and what masters have written. */
void lh_r_fit(struct lh_reigns *r);
void lh_r_unfit_clear(struct lh_reigns *r);
const char *lh_r_unfit_why(const struct lh_reigns *r); /* of the first member that it is known of */

/* Whether the master's record is there, and no term in the store is above the reign of its head: no
 * master leaves it otherwise. */
bool lh_r_head_fits(const struct lh_reigns *r, char *text, size_t text_size);
/* SES-9: that reign is not the one that this process has seen. It ends; true. */
bool lh_r_other_history(struct lh_reigns *r, uint64_t reign);
/* Whether the table of reigns has what this process has seen (SES-9). False: it ends. */
bool lh_r_history_fits(struct lh_reigns *r);

/* All pieces are there. False: one is missing. */
bool lh_r_overlay_begin(struct lh_reigns *r);
/* A pair of the map, in the order of keys; as lh_master_load(). */
int lh_r_overlay_load(struct lh_reigns *r, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size, char *text, size_t text_size);
/* Behind the last one. */
int lh_r_overlay_end(struct lh_reigns *r, char *text, size_t text_size);
/* Is the copy fit for the reign that its head says? No master writes it otherwise; the operator was
 * told. `changes`: of the pieces that the head names. */
bool lh_r_overlay_fits(struct lh_reigns *r, struct lh_change **changes, size_t *count);
void lh_r_overlay_clear(struct lh_r_overlay *o);
