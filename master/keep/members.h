#ifndef LH_MASTER_KEEP_MEMBERS_H
#define LH_MASTER_KEEP_MEMBERS_H

#include "master/tables/tables.h"

/* What a chunk's members are worth. */
struct lh_m_tally {
    uint32_t good;    /* GOOD */
    uint32_t keep;    /* GOOD or AWAY, and not leaving */
    uint32_t staying; /* GOOD, and not leaving */
    uint32_t whole;   /* of these: recorded the seal, or the chunk is open */
    uint32_t sources; /* could be copied from */
    uint32_t joining;
};

/* The server has copied the whole sealed chunk: a good member from now on. */
void lh_m_complete(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s);
struct lh_m_tally lh_m_tally(const struct lh_master *m, const struct lh_m_chunk *c);
/* How little the member is needed: those with the highest number go first. */
unsigned lh_m_uselessness(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member);
/* The one that is needed least; but nobody who still may hold the lease. NULL: none. */
struct lh_m_member *lh_m_most_useless(const struct lh_master *m, const struct lh_m_chunk *c);
/* Takes it out of the set; what lies at its server is left to garbage.c once that is durable. */
void lh_m_member_drop(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member);

#endif
