/* `leasehold-sim`: what its subcommands share. Each is one function in a file of its own. Results
 * go to stdout, progress and errors to stderr. */
#pragma once

#include "base/error.h"
#include "runtime/flags.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes. `leasehold-sim --help` and docs/simulator.md repeat this table. */
enum lh_sim_exit {
    LH_SIM_EXIT_OK = 0,
    LH_SIM_EXIT_SAFETY = 1,   /* an invariant of safety broke */
    LH_SIM_EXIT_USAGE = 2,    /* wrong options, seed or scenario, or a file that cannot be read */
    LH_SIM_EXIT_LIVENESS = 3, /* something that had to happen in time did not */
    LH_SIM_EXIT_CRASH = 4,    /* an assertion or a signal ended a run, or nothing did */
    LH_SIM_EXIT_EXPECTED = 5, /* a scenario's expectation, the same run twice, a planted bug to be
                                 found: what was expected is not so */
    LH_SIM_EXIT_MARKS = 6,    /* a coverage mark was never reached */
    LH_SIM_EXIT_OUTPUT = 7,   /* an output cannot be written, or the system gave no process */
    LH_SIM_EXIT_READER = 8,   /* all fine, but nobody reads stdout any more: never of the program,
                                 which ends as if by SIGPIPE then */
};

/* lh_flags_accept() of this binary. */
LH_MUST_USE bool lh_sim_command_parse(const struct lh_flags *flags, int argc, char **argv,
    size_t args_min, size_t args_max, struct lh_flags_result *result, int *exit_code);

/* Prints "leasehold-sim COMMAND: ..." to stderr and returns `exit_code`. */
int lh_sim_command_error(int exit_code, const char *command, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Flushes stdout, and says so when not all of it could be written. Returns `code`, or if that is OK
 * what became of the output. */
int lh_sim_command_finish_output(int code);

/* The worse of two exit codes: safety, crash, liveness, then what else is not OK. */
int lh_sim_command_worse(int a, int b);

/* The subcommands: `argv[0]` is "leasehold-sim NAME"; they return the exit code. */
int lh_sim_command_run(int argc, char **argv);
int lh_sim_command_swarm(int argc, char **argv);
int lh_sim_command_replay(int argc, char **argv);
int lh_sim_command_minimize(int argc, char **argv);
int lh_sim_command_timeline(int argc, char **argv);
int lh_sim_command_scenario(int argc, char **argv);
int lh_sim_command_selftest(int argc, char **argv);
int lh_sim_command_smallscope(int argc, char **argv);
int lh_sim_command_bugs(int argc, char **argv);
int lh_sim_command_marks(int argc, char **argv);
int lh_sim_command_bounds(int argc, char **argv);
