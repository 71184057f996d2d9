/* Writer tables of sealed logs: how long they stay in memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lh_cs_logs;
struct lh_cs_replica;

void lh_cs_tables_init(struct lh_cs_logs *logs);
/* The writer table of a sealed log is in memory: it stays a while. */
void lh_cs_table_keep(struct lh_cs_replica *r);
/* It is one of those no more, nor to be dropped with them. */
void lh_cs_table_leave(struct lh_cs_replica *r);
void lh_cs_table_forget(struct lh_cs_replica *r);
/* The log is being cut at `length`. False: its writers are not known any more, until somebody reads
 * it back. */
bool lh_cs_table_cut(struct lh_cs_replica *r, uint64_t length);
