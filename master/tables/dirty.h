/* Marks records that the step's commit writes. */
#pragma once

#include "master/tables/tables.h"

/* A preallocated chunk's tombstone, at version 0: put, or taken back. */
void lh_m_dirty_tombstone(struct lh_master *m, uint64_t chunk, bool put);
/* NULL: there is none. */
const struct lh_m_tombstone *lh_m_tombstone_find(const struct lh_master *m, uint64_t chunk);
/* In memory alone. */
void lh_m_tombstone_put(struct lh_master *m, uint64_t chunk, uint64_t version);
void lh_m_tombstone_forget(struct lh_master *m, uint64_t chunk); /* nothing if there is none */
/* Replicas of a chunk that has no record, up to this version, may go: durably. */
void lh_m_bury(struct lh_master *m, uint64_t chunk, uint64_t version);
void lh_m_dirty_master(struct lh_master *m);
void lh_m_dirty_server(struct lh_master *m, struct lh_m_server *s);
void lh_m_dirty_chunk(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_dirty_program(struct lh_master *m, struct lh_m_program *p);
void lh_m_dirty_policy(struct lh_master *m, struct lh_m_policy *policy);
void lh_m_dirty_change(struct lh_master *m, struct lh_m_value_change *c);
void lh_m_dirty_file(struct lh_master *m, struct lh_m_file *f);
