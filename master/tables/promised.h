/* What this machine remembers of the promises that its masters made (LEASE-9): for a chunkserver or
 * a program, the reading of the clock at which the last one was made to it. */
#pragma once

#include "lease/promises.h"
#include "master/tables/tables.h"

/* This master has loaded its store, and its reign has not begun: nothing is remembered that does
 * not fit the store. */
void lh_m_promises_begin(struct lh_master *m);
/* This step has a commit. */
void lh_m_promises_commit(struct lh_master *m);
/* A commit is durable. */
void lh_m_promises_durable(struct lh_master *m);
/* The grants on record wait for what was promised to their holders; `longest`: the longest session
 * term of a chunkserver. */
void lh_m_promises_to_servers(struct lh_master *m, struct lh_duration longest);
/* At this start: nothing was promised to the program after that. */
struct lh_instant lh_m_promised_to_program(const struct lh_master *m, const struct lh_m_program *p);

/* Something is promised to it now. */
void lh_m_promise_to_server(struct lh_master *m, const struct lh_m_server *s);
void lh_m_promise_to_program(struct lh_master *m, const struct lh_m_program *p);
