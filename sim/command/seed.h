/* Seeds as text. A seed means a run only together with the generation of the simulator that drew
 * it: "417@1" is seed 417 of generation 1 (LH_SIM_GENERATION). Without a generation this one's is
 * meant. */
#ifndef LH_SIM_COMMAND_SEED_H
#define LH_SIM_COMMAND_SEED_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False, and why in `error`: not a seed, or one of another generation. */
LH_MUST_USE bool lh_sim_seed_parse(const char *text, uint64_t *seed, char *error, size_t size);

/* As lh_sim_seed_parse(), but what does not look like a seed is taken as a name for one: the same
 * text is always the same seed (`--first commit:1a2b3c`). */
LH_MUST_USE bool lh_sim_seed_parse_or_name(
    const char *text, uint64_t *seed, char *error, size_t size);

const char *lh_sim_seed_print(char text[40], uint64_t seed);

#endif
