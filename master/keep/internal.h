/* What the files of this folder know of each other. */
#pragma once

#include "master/keep/keep.h"
#include "master/tables/tables.h"

/* ---- sweep.c */

/* From the end of a walk over all chunks to the next one: `pause`, and so many ns for each chunk.
 * So the walks have a small share of the processor, however many chunks there are. */
struct lh_duration lh_m_walk_pause(
    const struct lh_master *m, struct lh_duration pause, uint64_t chunk_ns);

/* ---- repair.c */

/* Does what can be done for `c` without a copy, and says whether copies or a grant are wanting.
 * `swept`: nothing special was heard of it. */
void lh_m_repair_look(struct lh_master *m, struct lh_m_chunk *c, bool swept);
void lh_m_repair_start(struct lh_master *m);
void lh_m_repair_step(struct lh_master *m);
void lh_m_repair_forget(struct lh_master *m, struct lh_m_chunk *c);

/* ---- members.c */

/* What a chunk's members are worth. */
struct lh_m_tally {
    uint32_t good;     /* GOOD */
    uint32_t keep;     /* GOOD or AWAY, and not leaving */
    uint32_t staying;  /* GOOD, and not leaving */
    uint32_t whole;    /* of these: recorded the seal, or the chunk is open */
    uint32_t sources;  /* could be copied from */
    uint32_t sound;    /* of these: not damaged */
    uint32_t readable; /* good, or at a server that cannot write (REC-8) */
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

/* ---- needed.c (REC-10) */

/* Would the chunk be worse off without this member's replica? `staying`: so many good members are
 * not to leave. */
bool lh_m_member_needed(const struct lh_master *m, const struct lh_m_chunk *c,
    const struct lh_m_member *member, uint32_t staying);
/* May it be the last whole replica? */
bool lh_m_extra_needed(const struct lh_master *m, const struct lh_m_extra *e);
/* May it be deleted (KEEP-3)? */
bool lh_m_extra_goes(const struct lh_master *m, const struct lh_m_extra *e);

/* ---- moves.c */

/* The move of the chunk's replica from there; NULL: there is none. */
const struct lh_m_move *lh_m_move_of(
    const struct lh_master *m, uint64_t chunk, const struct lh_m_server *from);
/* Of moves that ended: their places are free again. */
void lh_m_moves_settle(struct lh_master *m);
/* Per mille of the capacity that are in use. */
unsigned lh_m_used(const struct lh_m_server *s);
/* A chunk that is as it should be: may one of its replicas lie better elsewhere? */
void lh_m_move_look(struct lh_master *m, struct lh_m_chunk *c);

/* ---- census.c */

/* May the master move what is well where it is? */
bool lh_m_may_balance(const struct lh_master *m);
/* A walk over all chunks: begins one; a step's share of it. */
void lh_m_census_begin(struct lh_master *m);
void lh_m_census_go_on(struct lh_master *m);

/* ---- primaries.c */

void lh_m_recall_from_drained(struct lh_master *m);
/* One lease of the busiest server that has one which a less busy server could have. */
void lh_m_balance_primaries(struct lh_master *m);
