/* Chunkservers that a standby hears and the active master does not reach (HA-9a; heard.c). Inside
 * this folder. */
#pragma once

#include "master/reigns/store.h"

#include <uthash.h>

struct lh_r_server {
    char *id;
    struct lh_instant at; /* it asked last */
    UT_hash_handle hh;
};

struct lh_r_heard {
    struct lh_r_server *servers; /* STANDBY: that are heard */
    struct lh_instant say_at;    /* STANDBY: the record is put with them then, if there are any */
    struct lh_instant look_at;   /* ACTING: whether chunkservers are missed is looked at then */
    uint64_t reached;            /* ACTING: so many were reached when that was looked at last */
    char *more;                  /* ACTING: id of a master that hears more; NULL: none does ... */
    struct lh_instant since;     /* ... and did so since then, ... */
    int64_t revision;            /* ... the last time by this record */
    uint32_t row;                /* RESIGNING: what its last head says of reigns in a row */
};

/* STANDBY: whoever asks which master acts. */
void lh_r_hears(struct lh_reigns *r, const struct lh_input *in);
/* So many it hears; ACTING: it reaches. As of the last quarter of a second or so. */
uint64_t lh_r_servers(const struct lh_reigns *r);
/* Is the own record to be put now, with those that are heard? */
bool lh_r_heard_is_due(const struct lh_reigns *r);
/* Their ids, in an array that is to be freed. It is put. */
char **lh_r_heard_say(struct lh_reigns *r, size_t *count);
/* Records are read sooner if many chunkservers are missed. */
void lh_r_heard_step(struct lh_reigns *r);
struct lh_instant lh_r_heard_deadline(const struct lh_reigns *r);
/* Records were read. It resigns if another master hears more, unless inputs wait. */
void lh_r_heard_look(struct lh_reigns *r);
/* How many reigns in a row were resigned so, as the next head says it. */
uint32_t lh_r_unheard(const struct lh_reigns *r);
void lh_r_heard_clear(struct lh_reigns *r);
