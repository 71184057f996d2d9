/* What a command needs of the machine that it runs on: real time and Ctrl-C. Nothing of it reaches
 * a run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The host's monotonic clock. */
uint64_t lh_sim_host_ns(void);

/* From now on SIGINT and SIGTERM are remembered instead of ending the process. The second one ends
 * it all the same. */
void lh_sim_host_catch_interrupts(void);
bool lh_sim_host_interrupted(void);

/* "7.2 s", "3m05s", "2h10m" into `text`. */
const char *lh_sim_host_duration(char text[24], uint64_t ns);

/* "12.3M", "4.5k", "817" into `text`. */
const char *lh_sim_host_count(char text[24], double count);
