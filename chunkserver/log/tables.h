/* Writer tables of sealed logs: how long they stay in memory. */
#pragma once

struct lh_cs_logs;
struct lh_cs_replica;

void lh_cs_tables_init(struct lh_cs_logs *logs);
/* The writer table of a sealed log is in memory: it stays a while. */
void lh_cs_table_keep(struct lh_cs_replica *r);
void lh_cs_table_forget(struct lh_cs_replica *r);
