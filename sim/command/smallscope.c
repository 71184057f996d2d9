/* `leasehold-sim smallscope`: every order of events of one lease, up to a depth. */
#include "sim/smallscope/cores.h"
#include "sim/smallscope/engine.h"

#include "sim/command/command.h"
#include "sim/command/host.h"

#include <inttypes.h>
#include <stdio.h>

#define COMMAND "smallscope"

static int say(const struct lh_space *space, const struct lh_explore_result *r, uint64_t took_ns)
{
    char text[24];

    (void)printf("%" PRIu64 " states (visited %" PRIu64 " times) in %s: ", r->distinct, r->visited,
        lh_sim_host_duration(text, took_ns));
    switch (r->end) {
    case LH_EXPLORE_DEPTH:
        (void)printf("all that %u moves can lead to; no invariant broke\n", r->depth);
        return LH_SIM_EXIT_OK;
    case LH_EXPLORE_EXHAUSTED:
        (void)printf("all that can ever happen, %u moves at most; no invariant broke\n", r->depth);
        return LH_SIM_EXIT_OK;
    case LH_EXPLORE_FULL:
        (void)printf("the limit of states was reached; all that %u moves can lead to was seen, and "
                     "no invariant broke\n",
            r->depth);
        return LH_SIM_EXIT_OK;
    case LH_EXPLORE_VIOLATION:
        break;
    }
    (void)printf("FAILED after %u moves\n  %s\nthe moves:\n", r->move_count, r->violation);
    lh_explore_narrate(space, r->moves, r->move_count, stdout);
    return LH_SIM_EXIT_SAFETY;
}

static const char *const worlds[] = {"engine", "cores", NULL};

int lh_sim_command_smallscope(int argc, char **argv)
{
    struct {
        int world;
        uint64_t depth, states;
    } o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("world", ENUM, &o.world, "engine"), .choices = worlds,
            .help = "the lease engine alone, or the real master and chunkservers, which cannot go "
                    "as deep"},
        {LH_FLAG("depth", UINT, &o.depth, NULL), .help = "moves [7 of the engine, 4 of the cores]",
            .min = 1, .max = LH_EXPLORE_DEPTH_MAX},
        {LH_FLAG("states", UINT, &o.states, "20000000"),
            .help = "at most so many states; each takes up to 28 bytes of memory", .min = 1},
    };
    const struct lh_flags flags = {
        .command = "leasehold-sim smallscope",
        .usage = "[OPTION]...",
        .summary = "One grantor, two holders, one chunk: makes every sequence of grants, renewals, "
                   "expiries, recalls, crashes, restarts, losses and late deliveries, and checks "
                   "INV-1 to INV-3 in each state.",
        LH_FLAG_ROWS(table),
    };
    struct lh_flags_result args;
    struct lh_explore_result result;
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 0, 0, &args, &code))
        return code;
    bool is_engine = o.world == 0;
    struct lh_engine *engine = is_engine ? lh_engine_create() : NULL;
    struct lh_cores *cores = is_engine ? NULL : lh_cores_create();
    struct lh_space space = is_engine ? lh_engine_space(engine) : lh_cores_space(cores);
    unsigned depth = o.depth != 0 ? (unsigned)o.depth : is_engine ? 7 : 4;
    uint64_t start = lh_sim_host_ns();
    lh_explore(&space, depth, o.states, stderr, &result);
    code = say(&space, &result, lh_sim_host_ns() - start);
    if (is_engine)
        lh_engine_destroy(engine);
    else
        lh_cores_destroy(cores);
    lh_flags_free(&args);
    return code;
}
