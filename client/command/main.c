/* `leasehold`: finds the subcommand. */
#include "client/command/command.h"

#include "base/alloc.h"
#include "base/say.h"
#include "base/version.h"
#include "runtime/descriptors.h"
#include "runtime/signals.h"

#include <stdlib.h>
#include <string.h>

LH_DESCRIPTORS_STANDARD_AT_FIRST;

static const struct lh_flags_entry commands[] = {
    {"create", "create a file", lh_command_create},
    {"append", "append records from files or standard input", lh_command_append},
    {"cat", "print a file's records", lh_command_cat},
    {"tail", "print a file's last records, and follow it", lh_command_tail},
    {"ls", "list files", lh_command_ls},
    {"stat", "describe files and their chunks", lh_command_stat},
    {"mv", "rename a file", lh_command_mv},
    {"rm", "remove files: into the trash, or for good", lh_command_rm},
    {"trash", "list what is in the trash", lh_command_trash},
    {"restore", "take a file out of the trash", lh_command_restore},
    {"leases", "list the chunks' leases", lh_command_leases},
    {"servers", "list the chunkservers, and how the repair goes on", lh_command_servers},
    {"top", "show what the cluster does, on a terminal", lh_command_top},
    {"masters", "list the masters, or have the active one hand over", lh_command_masters},
    {"explain", "say what holds of a file, a chunk, a lock or a value, and why",
        lh_command_explain},
    {"fsck", "check all replicas against the metadata", lh_command_fsck},
    {"salvage", "say what of a file is damaged everywhere", lh_command_salvage},
    {"drain", "empty a chunkserver, so that it can be stopped", lh_command_drain},
    {"undrain", "let a chunkserver take part again", lh_command_undrain},
    {"decommission", "empty a chunkserver and forget it", lh_command_decommission},
    {"garbage", "tell whether old replicas are deleted, or go on with it", lh_command_garbage},
    {"recall", "move a chunk to another primary", lh_command_recall},
    {"lock", "run a program while a lock is held", lh_command_lock},
    {"holders", "list who holds which lock", lh_command_holders},
    {"cancel", "end somebody's lock", lh_command_cancel},
    {"sessions", "list the programs that hold leases", lh_command_sessions},
    {"get", "print a value", lh_command_get},
    {"put", "put a value", lh_command_put},
    {"del", "delete a value", lh_command_del},
    {"watch", "print values as they change", lh_command_watch},
    {"register", "run a program, and have a value while it runs", lh_command_register},
    {"policy", "list or set how locks are recalled and values cached", lh_command_policy},
    {"store", "begin a cluster in etcd; copy metadata between the kinds of stores",
        lh_command_store},
    {"certs", "make keys and certificates for TLS", lh_command_certs},
    {"local", "run a whole cluster on this machine", lh_command_local},
    {"completion", "print what a shell needs to complete commands", lh_command_completion},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

#define USAGE   "COMMAND [OPTION]... [ARGUMENT]..."
#define SUMMARY "Files of records that only grow, kept on several servers."
#define STATUS                                                                                     \
    "Exit status: 0 done, 1 refused (fsck: nothing is lost, but replicas are missing), 2 fsck:\n"  \
    "damage, 64 usage, 65 bad input, 66 no input file, 69 cannot be reached, 71 system, 74 "       \
    "input\n"                                                                                      \
    "or output, 75 time ran out (what was not acknowledged is unknown), 76 a lock was lost, 126 "  \
    "and\n"                                                                                        \
    "127 lock, register: the program cannot be run, 130 and 143 append: interrupted (SIGINT, "     \
    "SIGTERM),\n"                                                                                  \
    "what was read by then is stored.\n"

static void print_help(FILE *to)
{
    (void)fputs("usage: leasehold " USAGE "\n\n" SUMMARY "\n\n", to);
    for (size_t i = 0; i < COMMANDS; i++)
        (void)fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].summary);
    (void)fputs("\n"
                "`leasehold COMMAND --help` says more. --master (or LEASEHOLD_MASTER) names the "
                "cluster.\n"
                "Options may stand before COMMAND, too.\n"
                "\n" STATUS,
        to);
}

/* --help=FORM of the program itself. */
static int print_page(const char *form)
{
    static const struct lh_flags_program program = {
        .name = "leasehold",
        .title = "files of records that only grow, locks and values, on several servers",
        .usage = USAGE,
        .summary = SUMMARY " Options may stand before COMMAND, too.",
        .epilog = STATUS,
        .entries = commands,
        .count = COMMANDS,
    };

    if (strcmp(form, "text") == 0) {
        print_help(stdout);
        return LH_EXIT_OK;
    }
    if (lh_flags_program_page(&program, form, LH_VERSION))
        return LH_EXIT_OK;
    (void)fprintf(stderr, "leasehold: --help: '%s' is none of: text, man\n", form);
    return LH_EXIT_USAGE;
}

static const struct lh_flags_entry *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

#define NAME_MAX_ 16u /* bytes that are compared */

/* How many letters are to be put in, left out, changed or swapped to make `b` of `a`. */
static size_t distance(const char *a, const char *b)
{
    size_t n = least(strlen(a), NAME_MAX_), m = least(strlen(b), NAME_MAX_);
    size_t d[NAME_MAX_ + 1][NAME_MAX_ + 1];

    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least(
                least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n][m];
}

/* What was meant; NULL: no idea. */
static const struct lh_flags_entry *nearest(const char *name)
{
    const struct lh_flags_entry *found = NULL;
    size_t best = strlen(name) < 4 ? 2 : 3; /* it must be less */

    for (size_t i = 0; i < COMMANDS; i++) {
        size_t d = distance(name, commands[i].name);
        bool begins = strlen(name) >= 3 && strncmp(commands[i].name, name, strlen(name)) == 0;
        if (d < best || (begins && found == NULL)) {
            found = &commands[i];
            best = d < best ? d : best;
        }
    }
    return found;
}

static int no_such_command(const char *name)
{
    const struct lh_flags_entry *meant = nearest(name);

    (void)fprintf(stderr, "leasehold: there is no command '%s'", lh_command_shown(name));
    if (meant != NULL)
        (void)fprintf(stderr, "; did you mean '%s'?\n", meant->name);
    else
        (void)fputs("; see leasehold --help\n", stderr);
    return LH_EXIT_USAGE;
}

/* `leasehold help append` is `leasehold append --help`. */
static int help(const char *name)
{
    if (name == NULL || strcmp(name, "help") == 0) {
        print_help(stdout);
        return LH_EXIT_OK;
    }
    const struct lh_flags_entry *command = find(name);
    if (command == NULL)
        return no_such_command(name);
    char option[] = "--help";
    char *argv[] = {(char *)(uintptr_t)name, option, NULL};
    return command->run(2, argv);
}

/* Where the command's name stands behind `argv[0]`; `argc`: nowhere. Options with a value of its
 * own are those that most commands have. */
static int find_name(int argc, char **argv)
{
    static const char *const valued[] = {
        "--master", "--timeout", "--config", "--tls-dir", "--tls-ca", "--tls-cert", "--tls-key"};
    int i = 1;

    for (; i < argc && argv[i][0] == '-'; i++) {
        for (size_t k = 0; k < sizeof valued / sizeof valued[0]; k++) {
            if (strcmp(argv[i], valued[k]) == 0 && i + 1 < argc) {
                i++;
                break;
            }
        }
    }
    return i;
}

/* With the options that stand before its name behind it. */
static int run(const struct lh_flags_entry *command, int argc, char **argv, int at)
{
    char **moved = lh_alloc_array((size_t)argc, sizeof *moved);

    moved[0] = argv[at];
    for (int i = 1; i < at; i++)
        moved[i] = argv[i];
    for (int i = at + 1; i < argc; i++)
        moved[i - 1] = argv[i];
    int code = command->run(argc - 1, moved);
    free(moved);
    return code;
}

static int run_command(int argc, char **argv)
{
    int at = find_name(argc, argv);

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return help(at < argc ? argv[at] : NULL);
    if (argc == 2 && strncmp(argv[1], "--help=", 7) == 0)
        return print_page(argv[1] + 7);
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        (void)puts("leasehold " LH_VERSION);
        return LH_EXIT_OK;
    }
    if (at >= argc) {
        print_help(stderr);
        return LH_EXIT_USAGE;
    }
    if (strcmp(argv[at], "help") == 0)
        return help(at + 1 < argc ? argv[at + 1] : NULL);
    const struct lh_flags_entry *command = find(argv[at]);
    return command == NULL ? no_such_command(argv[at]) : run(command, argc, argv, at);
}

int main(int argc, char **argv)
{
    lh_signals_ignore();
    int code = run_command(argc, argv);

    if (code != LH_EXIT_OK || (fflush(stdout) == 0 && !ferror(stdout)))
        return code;
    lh_command_end_with_reader();
    lh_say("leasehold: cannot write to standard output\n");
    return LH_EXIT_IO;
}
