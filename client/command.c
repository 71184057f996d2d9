/* `leasehold`: finds the subcommand; what the subcommands share. */
#include "client/command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
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
    {"explain", "say why a file or chunk is or is not writable", lh_command_explain},
    {"fsck", "check all replicas against the metadata", lh_command_fsck},
    {"drain", "empty a chunkserver, so that it can be stopped", lh_command_drain},
    {"undrain", "let a chunkserver take part again", lh_command_undrain},
    {"decommission", "empty a chunkserver and forget it", lh_command_decommission},
    {"garbage", "tell whether old replicas are deleted, or go on with it", lh_command_garbage},
    {"recall", "move a chunk to another primary", lh_command_recall},
    {"local", "run a whole cluster on this machine", lh_command_local},
};

static void print_help(FILE *to)
{
    (void)fputs("usage: leasehold COMMAND [OPTION]... [ARGUMENT]...\n"
                "\n"
                "Files of records that only grow, kept on several servers.\n"
                "\n",
        to);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        (void)fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].summary);
    (void)fputs(
        "\n"
        "`leasehold COMMAND --help` says more. --master (or LEASEHOLD_MASTER) names the "
        "cluster.\n"
        "\n"
        "Exit status: 0 done, 1 refused (fsck: nothing is lost, but replicas are missing), 2 "
        "fsck:\n"
        "damage, 64 usage, 65 bad input, 66 no input file, 69 cannot be reached, 71 system, 74 "
        "input\n"
        "or output, 75 time ran out (what was not acknowledged is unknown).\n",
        to);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return LH_EXIT_USAGE;
    }
    const char *name = argv[1];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return LH_EXIT_OK;
    }
    if (strcmp(name, "--version") == 0) {
        (void)puts("leasehold " LH_COMMAND_VERSION);
        return LH_EXIT_OK;
    }
    (void)fprintf(stderr, "leasehold: no command '%s'; see leasehold --help\n", name);
    return LH_EXIT_USAGE;
}

/* --- options ------------------------------------------------------------------------------ */

const char *const lh_command_durabilities[] = {"buffered", "synced", NULL};
const char *const lh_command_losses[] = {"default", "roll", "wait", NULL};

struct lh_file_options lh_command_file_options(const struct lh_command_file *f)
{
    return (struct lh_file_options){
        .durability = f->durability == 1 ? LH_SYNCED : LH_BUFFERED,
        .replication = (uint32_t)f->replication,
        .min_replicas = (uint32_t)f->min_replicas,
        .chunk_size = f->chunk_size,
        .on_primary_loss = (enum lh_on_primary_loss)f->on_primary_loss,
    };
}

bool lh_command_parse(const struct lh_flags *flags, int argc, char **argv, size_t args_min,
    size_t args_max, struct lh_flags_result *result, int *exit_code)
{
    static const struct lh_flags_binary binary = {LH_COMMAND_VERSION, LH_EXIT_USAGE};

    return lh_flags_accept(flags, &binary, argc, argv, args_min, args_max, result, exit_code);
}

uint64_t lh_command_timeout_ms(const struct lh_command_common *common)
{
    return lh_duration_ms(common->timeout);
}

/* Opens the cluster that the options name; on failure prints why. */
static bool open_cluster(const char *command, const struct lh_command_common *common,
    struct lh_cluster **cluster, int *exit_code)
{
    size_t size = 1;
    for (size_t i = 0; i < common->masters.count; i++)
        size += strlen(common->masters.items[i]) + 1;
    char *masters = calloc(1, size);
    if (masters == NULL) {
        *exit_code = lh_command_error(LH_EXIT_SYSTEM, command, "out of memory");
        return false;
    }
    for (size_t i = 0; i < common->masters.count; i++) {
        (void)strcat(masters, i > 0 ? "," : "");
        (void)strcat(masters, common->masters.items[i]);
    }
    int error = lh_cluster_open(masters, NULL, cluster);
    if (error != LH_OK)
        *exit_code = lh_command_failed(command, "--master", error);
    if (error == LH_ERR_INVALID_ARGUMENT)
        *exit_code = LH_EXIT_USAGE;
    free(masters);
    return error == LH_OK;
}

/* LH_EXIT_IO, said on stderr, when not all of stdout could be written. */
static int finish_output(const char *command)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return LH_EXIT_OK;
    return lh_command_error(LH_EXIT_IO, command, "cannot write to standard output");
}

int lh_command_run(const struct lh_command *command, int argc, char **argv)
{
    const char *name = argv[0];
    char full_name[64];
    (void)snprintf(full_name, sizeof full_name, "leasehold %s", name);
    const struct lh_flags flags = {
        .command = full_name,
        .usage = command->usage,
        .summary = command->summary,
        .flags = command->flags,
        .count = command->count,
    };
    struct lh_flags_result args;
    int code;
    if (!lh_command_parse(&flags, argc, argv, command->args_min, command->args_max, &args, &code))
        return code;
    struct lh_cluster *cluster = NULL;
    code = command->check != NULL ? command->check(command->options) : LH_EXIT_OK;
    if (code == LH_EXIT_OK && open_cluster(name, command->options, &cluster, &code)) {
        code = command->run(command->options, cluster, args.args);
        int output = finish_output(name);
        code = code != LH_EXIT_OK ? code : output;
        lh_cluster_close(cluster);
    }
    lh_flags_free(&args);
    return code;
}

/* --- messages ----------------------------------------------------------------------------- */

int lh_command_failed(const char *command, const char *thing, int error)
{
    /* Most of the library's sentences name the thing themselves. */
    bool named = thing != NULL && thing[0] != '\0' && strstr(lh_last_error(), thing) == NULL;
    (void)fprintf(stderr, "leasehold %s: %s%s%s (%s)\n", command, named ? thing : "",
        named ? ": " : "", lh_last_error(), lh_error_name(error));
    switch (error) {
    case LH_ERR_UNAVAILABLE:
        return LH_EXIT_UNAVAILABLE;
    case LH_ERR_DEADLINE_EXCEEDED:
        return LH_EXIT_UNKNOWN;
    case LH_ERR_SYSTEM:
        return LH_EXIT_SYSTEM;
    default:
        return LH_EXIT_FAILED;
    }
}

int lh_command_error(int exit_code, const char *command, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)fprintf(stderr, "leasehold %s: %s\n", command, text);
    return exit_code;
}

void lh_command_print_json(json_t *json)
{
    if (json == NULL)
        return;
    (void)json_dumpf(json, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    (void)putchar('\n');
    json_decref(json);
}
