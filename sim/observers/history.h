/* What clients asked and were told: the calls that were fed to client cores and their completions,
 * with true times. Inside sim/observers only. */
#pragma once

#include "sim/observers/internal.h"

/* One batch that a program submitted. */
struct submitted {
    uint64_t sequence;
    uint32_t count, size, crc;
    int error;           /* once done */
    uint64_t sent_at;    /* true ns */
    uint64_t done_at;    /* UINT64_MAX: not yet, or its client is gone */
    struct chunk *chunk; /* where it was found committed; NULL: nowhere so far */
    uint64_t offset;     /* in the chunk */
    bool lost;           /* ... and lost again, which was reported (REC-2a) */
};

struct writer {
    uint64_t id;
    UT_hash_handle hh;
    uint64_t file;             /* 0: which one is not sure */
    uint64_t token;            /* that it appends with (TOK-2); 0: none */
    bool strange;              /* a stranger's: it settles nothing, and begins anywhere */
    uint64_t next;             /* a stranger's: the sequence number that is its next */
    struct submitted *batches; /* by sequence */
    size_t count, capacity;
};

/* One reader, from the completion of its opening on. */
struct reader {
    struct reader *next, *prev;
    const struct actor *client;
    const void *handle; /* the core's name for it */
    uint64_t file;      /* 0: which one is not sure */
    uint64_t position;
    bool follows; /* it waits at the file's end */
};

/* One call under way. */
struct call {
    struct call *next, *prev; /* in the order of their beginnings */
    UT_hash_handle hh;        /* by `call` */
    const struct lh_call *call;
    const struct actor *client;
    uint64_t begun;        /* true ns */
    struct writer *writer; /* SUBMIT */
    uint64_t sequence;
    struct reader *reader; /* FETCH; NULL: not known */
};

/* Which file a path named since when; 0: none. */
struct name {
    char *path;
    UT_hash_handle hh;
    struct naming {
        uint64_t since; /* true ns */
        uint64_t file;
    } * times;
    size_t count, capacity;
};

/* A call that the store says of that it was carried out, or refused (HA-12). */
struct once {
    struct {
        uint64_t client, number;
    } id;
    UT_hash_handle hh;
    uint64_t order; /* of the record that was read last */
    unsigned times; /* carried out */
    bool blurred;   /* its commit counted together with another call's, and nobody saw it alone */
};

struct history {
    struct once *once;
    struct writer *writers;
    struct call *calls;   /* the list */
    struct call *by_call; /* the hash */
    struct reader *readers;
    struct name *names;
};

struct submitted *lh_ob_submitted(const struct writer *w, uint64_t sequence);

/* Did the path name `file` (0: nothing; UINT64_MAX: anything) at some moment in [from, to]? */
bool lh_ob_named(
    const struct lh_sim_observers *o, const char *path, uint64_t file, uint64_t from, uint64_t to);

/* The file that it named all through [from, to]; 0: none, or several. */
uint64_t lh_ob_named_all(
    const struct lh_sim_observers *o, const char *path, uint64_t from, uint64_t to);

/* ---- inv6.c ---- */

/* A batch was acknowledged to the program that submitted it. */
void lh_ob_inv6_acknowledged(struct lh_sim_observers *o, const struct call *call, uint64_t offset);

/* A FETCH has completed. */
void lh_ob_inv6_fetched(struct lh_sim_observers *o, const struct call *call,
    const struct lh_fetch_call *fetch, int error);

/* ---- lookups.c: VAL-7 ---- */

/* The path has another file now, or none. */
void lh_ob_lookups_changed(struct lh_sim_observers *o, const struct name *n);
void lh_ob_lookups_stepped(struct lh_sim_observers *o, const struct actor *a);
void lh_ob_lookups_opened(struct lh_sim_observers *o, const struct call *call, const char *path,
    uint64_t file, bool from_cache);

/* ---- names.c ---- */

/* The record of the client's call of that number is in the store (HA-12). */
void lh_ob_names_call(struct lh_sim_observers *o, uint64_t client, uint64_t number,
    const uint8_t *record, size_t size);

void lh_ob_names_answered(
    struct lh_sim_observers *o, const struct call *call, const struct lh_master_call *m, int error);
