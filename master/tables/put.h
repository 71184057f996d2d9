/* One record as a pair of the step's commit, or the end of one. Keys: put.c. */
#pragma once

#include "master/tables/tables.h"

enum { LH_M_KEY_SPACE = 1 + LH_M_NAME_BYTES_MAX };

/* Each writes at most LH_M_KEY_SPACE bytes of key, and returns how many. */
size_t lh_m_number_key(uint8_t *key, char letter, uint64_t a);
size_t lh_m_text_key(uint8_t *key, char letter, const char *text);
size_t lh_m_call_key(uint8_t *key, uint64_t client, uint64_t number);
size_t lh_m_program_key(uint8_t *key, const struct lh_m_program *p);

/* With number and sum of all other pairs, as they are now: the last one of a commit. */
void lh_m_put_master(struct lh_master *m);
void lh_m_put_reign(struct lh_master *m, struct lh_m_reign *reign);
void lh_m_put_server(struct lh_master *m, struct lh_m_server *s);
void lh_m_put_chunk(struct lh_master *m, const struct lh_m_chunk *c);
void lh_m_put_call(struct lh_master *m, struct lh_m_call *call);
/* Where the word of a chunk's tombstone is. NULL: nowhere; it is of a preallocated chunk that is a
 * file's now. */
uint32_t *lh_m_tombstone_word(struct lh_master *m, uint64_t chunk);
void lh_m_put_tombstone(struct lh_master *m, uint32_t *word, uint64_t chunk, uint64_t at);
void lh_m_put_file(struct lh_master *m, struct lh_m_file *f);
void lh_m_put_program(struct lh_master *m, struct lh_m_program *p);
void lh_m_put_policy(struct lh_master *m, struct lh_m_policy *policy);
void lh_m_put_value(struct lh_master *m, struct lh_m_value *v);
void lh_m_put_change(struct lh_master *m, struct lh_m_value_change *c);

/* `word`: the record's; NULL: it is gone, and was dropped. */
void lh_m_delete_pair(struct lh_master *m, uint32_t *word, const uint8_t *key, size_t key_size);
/* The chunk goes, and its tombstone comes. Its file is still there. */
void lh_m_delete_chunk(struct lh_master *m, struct lh_m_chunk *c);
