#include "sim/command/seed.h"

#include "sim/command/command.h"
#include "sim/run/run.h"

#include "base/prng.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int lh_sim_seed_parse(const char *text, uint64_t *seed, const char *option, const char *command)
{
    size_t n = strcspn(text, "@");
    char number[24];
    uint64_t generation = LH_SIM_GENERATION;

    (void)snprintf(number, sizeof number, "%.*s", (int)n, text);
    if (n >= sizeof number || !lh_parse_uint(number, seed) ||
        (text[n] == '@' && !lh_parse_uint(text + n + 1, &generation)))
        return lh_sim_command_error(LH_SIM_EXIT_USAGE, command,
            "%s: '%s' is not a seed; use a number, for example 417 or 417@%u", option, text,
            LH_SIM_GENERATION);
    if (generation != LH_SIM_GENERATION)
        return lh_sim_command_error(LH_SIM_EXIT_USAGE, command,
            "%s: seed %s is of generation %" PRIu64
            " of the simulator and this is generation %u: it "
            "would be another run; build leasehold-sim at the commit that printed the seed",
            option, text, generation, LH_SIM_GENERATION);
    return LH_SIM_EXIT_OK;
}

int lh_sim_seed_parse_or_name(
    const char *text, uint64_t *seed, const char *option, const char *command)
{
    size_t digits = strspn(text, "0123456789");

    if (digits > 0 && (text[digits] == '\0' || text[digits] == '@'))
        return lh_sim_seed_parse(text, seed, option, command);
    if (text[0] == '\0')
        return lh_sim_command_error(
            LH_SIM_EXIT_USAGE, command, "%s: an empty text is no seed", option);
    /* FNV-1a. Few digits, since people type seeds. */
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *c = text; *c != '\0'; c++)
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3;
    *seed = lh_mix64(hash) % 1000000000;
    return LH_SIM_EXIT_OK;
}

const char *lh_sim_seed_print(char text[40], uint64_t seed)
{
    (void)snprintf(text, 40, "%" PRIu64 "@%u", seed, LH_SIM_GENERATION);
    return text;
}
