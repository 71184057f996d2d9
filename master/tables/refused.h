/* Chunkservers that this master has refused, so that an operator sees them where the others are
 * listed. In memory alone: nothing is decided by it, and a server that is refused tries again. */
#pragma once

#include "master/tables/common.h"

/* The refusals of one server, at one address that it gave, with one identity. Whoever was refused
 * chose what it says: all texts are plain (lh_text_show()). */
struct lh_m_refused {
    char *server_id;      /* that it gave; empty: it was refused before it could */
    char *address;        /* likewise */
    char *peer;           /* where its last connection came from */
    char *identity;       /* by its certificate; empty: it has none */
    char *text;           /* why, the last time: a sentence, ... */
    int error;            /* ... and LH_ERR_* */
    uint64_t times;       /* since it was last not shown */
    struct lh_instant at; /* the last time */
    TAILQ_ENTRY(lh_m_refused) link;
};

struct lh_m_refusals {
    TAILQ_HEAD(lh_m_refused_list, lh_m_refused) list; /* who was refused last is first */
    size_t count;                                     /* at most `refused_max` */
};

/* A chunkserver was refused; strings may be NULL or anything. If there are too many, the one whose
 * last refusal is the oldest is forgotten. */
void lh_m_refused_note(struct lh_master *m, const char *server_id, const char *address,
    const char *peer, const char *identity, int error, const char *text);

/* A chunkserver has registered: what it was refused for is mended. It is taken for one that was
 * refused if two of name, address and identity are the same, or the identity if no name was
 * given. */
void lh_m_refused_mended(
    struct lh_master *m, const char *server_id, const char *address, const char *identity);

/* The next one that was refused within `refused_keep`, from the last one on; NULL: no more. NULL as
 * `after` begins. */
const struct lh_m_refused *lh_m_refused_next(
    const struct lh_master *m, const struct lh_m_refused *after);

void lh_m_refused_deinit(struct lh_master *m);
