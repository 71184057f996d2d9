/* A random life of a master: peers that say anything at any time, commits that take their time,
 * links that break, masters that die. After every step the core's own invariants are checked
 * (lh_master_check), and an observer who sees all messages checks
 *   INV-2  nobody is granted a chunk while the last holder may believe that it holds it,
 *   INV-3  versions sent for a chunk never fall, and no version is given to two servers,
 *   SEAL-1, FAIL-2a  a seal never changes, and nothing is granted once a chunk is fenced. */
#pragma once

#include "tests/core/master/master_world.h"

#define LIFE_STEPS 2500u

extern struct world life_world;
extern struct lh_master_config life_next_config; /* what it has after the next crash */

void life_open(uint64_t seed);
void life_step(void);
void life_close(void);
/* With the seeds from 1 on; LH_SEED=n: that one alone; LH_RUNS=n: so many. */
void life_run_all(void run(uint64_t seed));
