/* `leasehold completion`: the script for a shell, and the names that it asks for. */
#include "client/command/command.h"
#include "client/command/completion_script.h"

#include <string.h>

/* So many are offered at most: a person chooses among them. */
#define OFFERED 500u

/* One word that a terminal shows as it is. */
static void offer(const char *text)
{
    if (strcmp(text, lh_command_shown(text)) == 0)
        (void)puts(text);
}

static int offer_files(struct lh_cluster *cluster, bool trash, const char *prefix, uint64_t ms)
{
    struct lh_file_list list = {0};
    int error = trash ? lh_trash(cluster, prefix, NULL, 0, OFFERED, ms, &list)
                      : lh_list(cluster, prefix, NULL, OFFERED, ms, &list);

    for (size_t i = 0; error == LH_OK && i < list.count; i++)
        offer(list.files[i].path);
    if (error == LH_OK)
        lh_file_list_deinit(&list);
    return error;
}

static int offer_names(struct lh_cluster *cluster, const char *prefix, uint64_t ms)
{
    struct lh_name_list list = {0};
    int error = lh_names(cluster, prefix, NULL, OFFERED, ms, &list);

    for (size_t i = 0; error == LH_OK && i < list.count; i++)
        offer(list.names[i].name);
    if (error == LH_OK)
        lh_name_list_deinit(&list);
    return error;
}

static int offer_servers(struct lh_cluster *cluster, const char *prefix, uint64_t ms)
{
    struct lh_server_list list = {0};
    int error = lh_servers(cluster, ms, &list);

    for (size_t i = 0; error == LH_OK && i < list.count; i++)
        if (strncmp(list.servers[i].server_id, prefix, strlen(prefix)) == 0)
            offer(list.servers[i].server_id);
    if (error == LH_OK)
        lh_server_list_deinit(&list);
    return error;
}

static int complete(void *options, struct lh_cluster *cluster, const char **args)
{
    const char *kind = args[0], *prefix = args[1] != NULL ? args[1] : "";
    uint64_t ms = lh_command_timeout_ms(options);
    int error;

    if (strcmp(kind, "bash") == 0) {
        (void)fputs(completion_script, stdout);
        return LH_EXIT_OK;
    }
    if (strcmp(kind, "paths") == 0 || strcmp(kind, "trash") == 0)
        error = offer_files(cluster, strcmp(kind, "trash") == 0, prefix, ms);
    else if (strcmp(kind, "names") == 0)
        error = offer_names(cluster, prefix, ms);
    else if (strcmp(kind, "servers") == 0)
        error = offer_servers(cluster, prefix, ms);
    else
        return lh_command_error(LH_EXIT_USAGE, "completion",
            "'%s' is none of: bash, paths, trash, names, servers", kind);
    return error == LH_OK ? LH_EXIT_OK : lh_command_failed("completion", prefix, error);
}

int lh_command_completion(int argc, char **argv)
{
    struct lh_command_common common = {0};
    const struct lh_command command = {
        .usage = "[OPTION]... bash | paths [PREFIX] | trash [PREFIX] | names [PREFIX] | servers "
                 "[PREFIX]",
        .summary = "Prints the script by which bash completes the programs' commands, options and "
                   "names:\nsource <(leasehold completion bash). The others are what it asks the "
                   "master for.",
        .no_json = true,
        .args_min = 1,
        .args_max = 2,
        .run = complete,
        .options = &common,
    };
    return lh_command_run(&command, argc, argv);
}
