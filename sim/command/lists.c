/* `leasehold-sim bugs`, `marks` and `bounds`: what there is. */
#include "sim/command/command.h"
#include "sim/command/coverage.h"

#include "sim/run/bugs.h"
#include "sim/scenario/bounds.h"

#include <inttypes.h>
#include <stdio.h>

int lh_sim_command_bugs(int argc, char **argv)
{
    const struct lh_flags flags = {
        .command = "leasehold-sim bugs",
        .usage = "[OPTION]...",
        .summary =
            "Lists the mistakes that can be planted: name, the rule that is broken, the "
            "invariant that should find it, and what the mistake is. `--plant NAME` switches "
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
                   "`leasehold-sim swarm --marks` says how often each was.",
    };
    struct lh_flags_result args;
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 0, 0, &args, &code))
        return code;
    lh_sim_coverage_list(stdout);
    lh_flags_free(&args);
    return LH_SIM_EXIT_OK;
}

static void print_value(const struct lh_sim_bound *b, uint64_t value)
{
    if (b->unit == LH_SIM_BOUND_TIME)
        (void)printf(" %9g ms", (double)value / 1e6);
    else
        (void)printf(" %12" PRIu64, value);
}

int lh_sim_command_bounds(int argc, char **argv)
{
    const struct lh_flags flags = {
        .command = "leasehold-sim bounds",
        .usage = "[OPTION]...",
        .summary =
            "Lists what bounds the cores: whose it is, its name, what is shipped, and what it "
            "is. A plan draws each, down to absurdly small; a scenario sets one with `bound "
            "CORE NAME VALUE`.",
    };
    struct lh_flags_result args;
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 0, 0, &args, &code))
        return code;
    size_t count;
    const struct lh_sim_bound *bounds = lh_sim_bounds(&count);
    for (size_t i = 0; i < count; i++) {
        (void)printf("%-11s %-20s", bounds[i].core, bounds[i].name);
        print_value(&bounds[i], bounds[i].shipped);
        (void)printf("  %s\n", bounds[i].what);
    }
    lh_flags_free(&args);
    return LH_SIM_EXIT_OK;
}
