/* Seeds as text. A seed means a run only together with the generation of the simulator that drew
 * it: "417@1" is seed 417 of generation 1 (LH_SIM_GENERATION). Without a generation this one's is
 * meant. */
#pragma once

#include "base/error.h"

#include <stdint.h>

/* The seed that `option` ("--seed") of `command` says. LH_SIM_EXIT_OK, or the exit code, with an
 * error printed: not a seed, or one of another generation. */
LH_MUST_USE int lh_sim_seed_parse(
    const char *text, uint64_t *seed, const char *option, const char *command);

/* As lh_sim_seed_parse(), but what does not look like a seed is taken as a name for one: the same
 * text is always the same seed (`--first commit:1a2b3c`). */
LH_MUST_USE int lh_sim_seed_parse_or_name(
    const char *text, uint64_t *seed, const char *option, const char *command);

const char *lh_sim_seed_print(char text[40], uint64_t seed);
