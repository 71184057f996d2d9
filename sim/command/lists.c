/* `leasehold-sim bugs` and `leasehold-sim marks`: what there is. */
#include "sim/command/command.h"
#include "sim/command/coverage.h"

#include "base/probe.h"
#include "sim/run/bugs.h"

#include <inttypes.h>
#include <stdio.h>

int lh_sim_command_bugs(int argc, char **argv)
{
    const struct lh_flags flags = {
        .command = "leasehold-sim bugs",
        .usage = "[OPTION]...",
        .summary =
            "Lists the mistakes that can be planted: name, the rule that is broken, the "
            "invariant that should find it,\nand what the mistake is. `--plant NAME` switches "
            "one on.",
    };
    struct lh_flags_result args;
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 0, 0, &args, &code))
        return code;
    size_t count;
    const struct lh_sim_bug *bugs = lh_sim_bugs(&count);
    for (size_t i = 0; i < count; i++)
        (void)printf(
            "%-42s %-9s %-9s %s\n", bugs[i].name, bugs[i].rule, bugs[i].expected, bugs[i].mistake);
    lh_flags_free(&args);
    return LH_SIM_EXIT_OK;
}

int lh_sim_command_marks(int argc, char **argv)
{
    const struct lh_flags flags = {
        .command = "leasehold-sim marks",
        .usage = "[OPTION]...",
        .summary = "Lists the places in the cores that a swarm must reach: name and place. "
                   "`leasehold-sim swarm --marks`\nsays how often each was.",
    };
    struct lh_flags_result args;
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 0, 0, &args, &code))
        return code;
    lh_sim_coverage_list(stdout);
    lh_flags_free(&args);
    return LH_SIM_EXIT_OK;
}
