/* `leasehold get`, `put`, `del`: values (VAL-1 to VAL-4). */
#include "client/command/command.h"

#include "client/command/json.h"

#include "base/alloc.h"
#include "base/plural.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPLAIN_MS 1000u

/* --- get ---------------------------------------------------------------------------------- */

static int get(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct lh_command_common *common = options;
    const struct lh_value *v = NULL;
    int error = lh_get_once(cluster, args[0], lh_command_timeout_ms(common), &v);

    if (error != LH_OK)
        return lh_command_failed("get", args[0], error);
    if (common->json) {
        lh_command_print_json(lh_json_value(args[0], v->data, v->size, v->revision));
    } else {
        (void)fwrite(v->data, 1, v->size, stdout);
        if (isatty(STDOUT_FILENO) == 1)
            (void)putchar('\n');
    }
    lh_value_free(v);
    return LH_EXIT_OK;
}

int lh_command_get(int argc, char **argv)
{
    struct lh_command_common common = {0};
    const struct lh_command command = {
        .usage = "[OPTION]... NAME",
        .summary = "Prints the value NAME as it is now, byte by byte; on a terminal with a newline "
                   "behind it.",
        .args_min = 1,
        .args_max = 1,
        .run = get,
        .options = &common,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- put, del ----------------------------------------------------------------------------- */

struct change_options {
    struct lh_command_common common;
    const char *if_revision, *lock;
    uint64_t token;
    bool force;
};

/* As long as values can be, and one byte more. */
static bool read_input(uint8_t *bytes, size_t *size)
{
    *size = fread(bytes, 1, LH_VALUE_BYTES_MAX + 1, stdin);
    return !ferror(stdin);
}

static int conditions(const char *command, const struct change_options *o, const char *name,
    struct lh_change_options *c)
{
    *c = (struct lh_change_options){.lock = o->lock, .token = o->token, .force = o->force};
    if (o->if_revision != NULL) {
        c->if_revision = true;
        if (!lh_parse_uint(o->if_revision, &c->revision))
            return lh_command_error(LH_EXIT_USAGE, command,
                "%s: '%s' is no revision; leasehold get --json prints the value's, 0 means that "
                "there "
                "is none",
                name, o->if_revision);
    }
    if (o->lock != NULL && c->token == 0)
        c->token = lh_command_token_of(o->lock);
    if (o->lock != NULL && c->token == 0)
        return lh_command_error(LH_EXIT_USAGE, command,
            "%s: --lock needs the token that the lock was granted with: --token, or "
            "LEASEHOLD_TOKEN, "
            "which leasehold lock sets",
            name);
    return LH_EXIT_OK;
}

/* What the master waits for, which is why it has not answered. */
static void say_what_is_waited_for(
    struct lh_cluster *cluster, const char *command, const char *name)
{
    struct lh_name_list list = {0};

    if (lh_names(cluster, name, NULL, 1, EXPLAIN_MS, &list) != LH_OK)
        return;
    if (list.sessions_away > 0)
        (void)lh_command_error(0, command,
            "the master answers, and waits for %" PRIu64
            " session%s of the last master, for another %.1f s at most: no value is changed before "
            "%s back, or over",
            list.sessions_away, lh_plural(list.sessions_away), (double)list.waiting_ms / 1000,
            lh_one_or_many(list.sessions_away, "it is", "they are"));
    else if (list.count > 0 && list.names[0].changing && strcmp(list.names[0].name, name) == 0)
        (void)lh_command_error(0, command,
            "the master answers, and waits for programs that cache the value; leasehold explain "
            "%s says more",
            lh_command_shown(name));
    lh_name_list_deinit(&list);
}

static int changed(struct lh_cluster *cluster, const char *command, const struct change_options *o,
    const char *name, int error, uint64_t revision)
{
    if (error != LH_OK) {
        int code = lh_command_failed(command, name, error);
        if (error == LH_ERR_UNAVAILABLE || error == LH_ERR_DEADLINE_EXCEEDED ||
            error == LH_ERR_LEASE_HELD)
            say_what_is_waited_for(cluster, command, name);
        if (error == LH_ERR_ALREADY_EXISTS)
            (void)lh_command_error(
                code, command, "%s has another revision than --if-revision: read it again", name);
        return code;
    }
    if (o->common.json)
        lh_command_print_json(
            json_pack("{s:o, s:I}", "name", lh_json_text(name), "revision", (json_int_t)revision));
    else
        (void)printf("%s: revision %" PRIu64 "\n", lh_command_shown(name), revision);
    return LH_EXIT_OK;
}

static int put(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct change_options *o = options;
    struct lh_change_options c;
    const char *name = args[0], *text = args[1];
    uint8_t *input = NULL;
    uint64_t revision = 0;
    size_t size = 0;
    int code = conditions("put", o, name, &c);

    if (code != LH_EXIT_OK)
        return code;
    if (text != NULL && strcmp(text, "-") != 0) {
        size = strlen(text);
    } else {
        input = lh_alloc(LH_VALUE_BYTES_MAX + 1);
        text = (const char *)input;
        if (!read_input(input, &size))
            code = lh_command_error(LH_EXIT_IO, "put", "cannot read standard input");
    }
    if (code == LH_EXIT_OK && size > LH_VALUE_BYTES_MAX)
        code = lh_command_error(LH_EXIT_DATA, "put",
            "%s: a value has at most %u bytes; append it to a file, and put the file's path", name,
            LH_VALUE_BYTES_MAX);
    if (code == LH_EXIT_OK) {
        int error =
            lh_put(cluster, name, text, size, &c, lh_command_timeout_ms(&o->common), &revision);
        code = changed(cluster, "put", o, name, error, revision);
    }
    free(input);
    return code;
}

static int del(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct change_options *o = options;
    struct lh_change_options c;
    uint64_t revision = 0;
    int code = conditions("del", o, args[0], &c);

    if (code != LH_EXIT_OK)
        return code;
    int error = lh_delete(cluster, args[0], &c, lh_command_timeout_ms(&o->common), &revision);
    return changed(cluster, "del", o, args[0], error, revision);
}

#define CHANGE_FLAGS(o)                                                                            \
    {LH_FLAG("if-revision", STRING, &(o).if_revision, NULL), .metavar = "REVISION",                \
        .help = "only if the value has this revision; 0: only if there is none"},                  \
        {LH_FLAG("lock", STRING, &(o).lock, NULL), .metavar = "NAME", .command_line_only = true,   \
            .help = "the lock that the token is of; else that of the value's own name"},           \
        {LH_FLAG("token", UINT, &(o).token, "0"), .command_line_only = true,                       \
            .help = "only while the lock is held with this token; under `leasehold lock` "         \
                    "that of --lock is known"},                                                    \
    {                                                                                              \
        LH_FLAG("force", BOOL, &(o).force, NULL),                                                  \
            .command_line_only = true,                                                             \
            .help = "without a token also a value that was last changed with one"                  \
    }

int lh_command_put(int argc, char **argv)
{
    struct change_options o = {0};
    const struct lh_flag table[] = {CHANGE_FLAGS(o)};
    const struct lh_command command = {
        .usage = "[OPTION]... NAME [VALUE|-]",
        .summary =
            "Puts the value NAME: VALUE, or what comes from standard input, at most 64 KiB. It "
            "is done when no\nprogram can read the old value any more.",
        LH_FLAG_ROWS(table),
        .args_min = 1,
        .args_max = 2,
        .run = put,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}

int lh_command_del(int argc, char **argv)
{
    struct change_options o = {0};
    const struct lh_flag table[] = {CHANGE_FLAGS(o)};
    const struct lh_command command = {
        .usage = "[OPTION]... NAME",
        .summary =
            "Deletes the value NAME. It is done when no program can read the old value any more.",
        LH_FLAG_ROWS(table),
        .args_min = 1,
        .args_max = 1,
        .run = del,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
