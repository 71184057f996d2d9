/* Coverage marks (base/probe.h), added up over runs and processes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How many places there are. */
size_t lh_sim_coverage_count(void);

/* Sets all of this process's counters to 0, and reads them. */
void lh_sim_coverage_reset(void);
void lh_sim_coverage_read(uint64_t *counts);

/* One line for each place. */
void lh_sim_coverage_list(FILE *to);

/* One line for each place with its count, or only for those that were never reached. Returns how
 * many those are. `to` NULL: only counts. */
size_t lh_sim_coverage_print(FILE *to, const uint64_t *counts, bool only_missing);
