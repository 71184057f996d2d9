/* Stored records to tables, before the first step. */
#pragma once

#include "master/stored.h"
#include "master/tables/tables.h"

/* Takes in one record. In the tables there is nothing of the same key, but a server; or a file that
 * is `removed`, which becomes the new one. Errors as lh_master_load(). */
LH_MUST_USE int lh_m_load_record(
    struct lh_master *m, const struct lh_m_stored *record, char *text, size_t text_size);
/* PAIR-2: May the pair of that key be without a seal? */
bool lh_m_takes_bare(const struct lh_master *m, const uint8_t *key, size_t key_size);
/* Is what was taken in what the master's record counts (PAIR-2)? As lh_master_loaded(). */
LH_MUST_USE int lh_m_check_pairs(const struct lh_master *m, char *text, size_t text_size);
