/* `leasehold-sim`: finds the subcommand; what the subcommands share. */
#include "sim/command/command.h"

#include "base/version.h"
#include "sim/run/run.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* jemalloc reads this before main(). Each run needs what the one before has freed: a fifth of a
 * swarm's time went into giving memory back and taking it again. Kept for ever, it came to
 * gigabytes in a few minutes, since the pieces that one run frees are not those that another one
 * needs. */
extern const char *malloc_conf;
const char *malloc_conf = "dirty_decay_ms:10000,muzzy_decay_ms:0";

static const struct lh_flags_entry commands[] = {
    {"run", "one run from a seed, with its verdict", lh_sim_command_run},
    {"swarm", "many runs, side by side", lh_sim_command_swarm},
    {"replay", "a run as a narrative: what happened, line by line", lh_sim_command_replay},
    {"minimize", "the least that still fails, as a scenario file", lh_sim_command_minimize},
    {"timeline", "a run as a page to look at in a browser", lh_sim_command_timeline},
    {"scenario", "stories in text: do they end as they say", lh_sim_command_scenario},
    {"selftest", "is every planted bug found", lh_sim_command_selftest},
    {"smallscope", "every order of events of one lease, up to a depth", lh_sim_command_smallscope},
    {"bugs", "list the bugs that can be planted", lh_sim_command_bugs},
    {"marks", "list the places that a swarm must reach", lh_sim_command_marks},
    {"bounds", "list what bounds the cores, and what is shipped", lh_sim_command_bounds},
};

#define USAGE "COMMAND [OPTION]... [ARGUMENT]..."
#define SUMMARY                                                                                    \
    "Runs the real master, chunkserver and client in a simulated world of faults and checks the\n" \
    "invariants of docs/protocol.md. The same seed gives the same run."
#define STATUS                                                                                     \
    "Exit status:\n"                                                                               \
    "  0  all fine\n"                                                                              \
    "  1  safety: an invariant broke\n"                                                            \
    "  2  usage: wrong options, seed or scenario, or a file that cannot be read\n"                 \
    "  3  liveness: something that had to happen in time did not\n"                                \
    "  4  crash: an assertion or a signal ended a run, or it did not end\n"                        \
    "  5  what was expected is not so: a scenario's expectation, the same run twice,\n"            \
    "     a planted bug to be found\n"                                                             \
    "  6  a coverage mark was never reached (swarm --require-marks)\n"                             \
    "  7  an output cannot be written, or the system gave no process\n"

static void print_help(FILE *to)
{
    (void)fputs("usage: leasehold-sim " USAGE "\n\n" SUMMARY "\n\n", to);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        (void)fprintf(to, "  %-10s  %s\n", commands[i].name, commands[i].summary);
    (void)fputs("\n"
                "`leasehold-sim COMMAND --help` says more; docs/simulator.md explains it all. To "
                "begin:\n"
                "  leasehold-sim swarm --for 1m\n"
                "\n" STATUS,
        to);
}

/* --help=FORM of the program itself. */
static int print_page(const char *form)
{
    static const struct lh_flags_program program = {
        .name = "leasehold-sim",
        .title = "a cluster of Leasehold in a simulated world of faults",
        .usage = USAGE,
        .summary = SUMMARY,
        .epilog = STATUS,
        .entries = commands,
        .count = sizeof commands / sizeof commands[0],
    };

    if (lh_flags_program_page(&program, form, LH_VERSION))
        return LH_SIM_EXIT_OK;
    return lh_sim_command_error(LH_SIM_EXIT_USAGE, "", "--help: '%s' is none of: man", form);
}

static const char *version(char text[64])
{
    (void)snprintf(text, 64, LH_VERSION " (seeds of generation %u)", LH_SIM_GENERATION);
    return text;
}

int lh_sim_command_finish_output(int code)
{
    struct pollfd output = {.fd = STDOUT_FILENO};
    bool failed = fflush(stdout) != 0;
    if (!failed && !ferror(stdout))
        return code;
    bool reader_ended = poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
    if (!reader_ended)
        (void)lh_sim_command_error(LH_SIM_EXIT_OUTPUT, "", "cannot write to standard output");
    return code != LH_SIM_EXIT_OK ? code : reader_ended ? LH_SIM_EXIT_READER : LH_SIM_EXIT_OUTPUT;
}

/* Where nobody reads any more, the process ends as if by SIGPIPE, quietly as other tools; but a
 * verdict counts for more. */
static int finish(int code)
{
    code = lh_sim_command_finish_output(code);
    if (code == LH_SIM_EXIT_READER) {
        (void)signal(SIGPIPE, SIG_DFL);
        (void)raise(SIGPIPE);
        code = LH_SIM_EXIT_OUTPUT; /* it is blocked */
    }
    return code;
}

int main(int argc, char **argv)
{
    /* A run goes on to its verdict when nobody reads its output any more. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        print_help(stderr);
        return LH_SIM_EXIT_USAGE;
    }
    const char *name = argv[1];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return finish(commands[i].run(argc - 1, argv + 1));
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return finish(LH_SIM_EXIT_OK);
    }
    if (strncmp(name, "--help=", 7) == 0)
        return finish(print_page(name + 7));
    if (strcmp(name, "--version") == 0) {
        char text[64];
        (void)printf("leasehold-sim %s\n", version(text));
        return finish(LH_SIM_EXIT_OK);
    }
    return lh_sim_command_error(
        LH_SIM_EXIT_USAGE, "", "there is no command '%s'; see leasehold-sim --help", name);
}

bool lh_sim_command_parse(const struct lh_flags *flags, int argc, char **argv, size_t args_min,
    size_t args_max, struct lh_flags_result *result, int *exit_code)
{
    char text[64];
    const struct lh_flags_binary binary = {version(text), LH_SIM_EXIT_USAGE};

    return lh_flags_accept(flags, &binary, argc, argv, args_min, args_max, result, exit_code);
}

int lh_sim_command_error(int exit_code, const char *command, const char *format, ...)
{
    va_list args;

    (void)fflush(stdout);
    (void)fprintf(stderr, "leasehold-sim%s%s: ", *command == '\0' ? "" : " ", command);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    return exit_code;
}

int lh_sim_command_worse(int a, int b)
{
    static const int order[] = {LH_SIM_EXIT_SAFETY, LH_SIM_EXIT_CRASH, LH_SIM_EXIT_LIVENESS,
        LH_SIM_EXIT_EXPECTED, LH_SIM_EXIT_MARKS, LH_SIM_EXIT_OUTPUT, LH_SIM_EXIT_USAGE,
        LH_SIM_EXIT_READER};

    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (order[i] == a || order[i] == b)
            return order[i];
    return LH_SIM_EXIT_OK;
}
