/* `leasehold rm`, `trash`, `restore`: what goes away, and how it comes back. */
#include "client/command/command.h"

#include "client/command/json.h"
#include "client/command/table.h"

#include <inttypes.h>

/* --- rm ----------------------------------------------------------------------------------- */

struct rm_options {
    struct lh_command_common common;
    bool now;
    uint64_t file;
};

static void print_removed(const char *name, const struct lh_remove_result *r)
{
    char left[32];
    if (r->trash_left_ms == 0)
        (void)printf("%s: removed for good\n", lh_command_shown(name));
    else
        (void)printf("%s: in the trash for %s; `leasehold restore --file=%" PRIu64
                     "` brings it back\n",
            lh_command_shown(name), lh_command_duration(left, r->trash_left_ms), r->file);
}

/* `path` may be NULL: then the file is named by its id alone. */
static int remove_one(
    struct lh_cluster *cluster, const char *path, const struct rm_options *o, json_t *json)
{
    struct lh_remove_options options = {.now = o->now, .file = o->file};
    struct lh_remove_result result;
    char id[32];
    (void)snprintf(id, sizeof id, "file %" PRIu64, o->file);
    const char *name = path != NULL ? path : id;
    int error = lh_remove(cluster, path, &options, lh_command_timeout_ms(&o->common), &result);
    if (error != LH_OK)
        return lh_command_failed("rm", name, error);
    if (!o->common.json)
        print_removed(name, &result);
    (void)json_array_append_new(
        json, json_pack("{s:o, s:I, s:I}", "path", lh_json_text(path != NULL ? path : ""), "file",
                  (json_int_t)result.file, "trash_left_ms", (json_int_t)result.trash_left_ms));
    return LH_EXIT_OK;
}

/* What can be removed is, whatever becomes of the others. */
static int remove_all(void *options, struct lh_cluster *cluster, const char **paths)
{
    const struct rm_options *o = options;
    if (o->file == 0 ? paths[0] == NULL : paths[0] != NULL)
        return lh_command_error(LH_EXIT_USAGE, "rm",
            "give either paths or --file (leasehold trash and leasehold stat tell a file's id)");
    json_t *json = json_array();
    int code = LH_EXIT_OK;
    if (o->file != 0)
        code = remove_one(cluster, NULL, o, json);
    for (; *paths != NULL; paths++) {
        int one = remove_one(cluster, *paths, o, json);
        code = one != LH_EXIT_OK ? one : code;
    }
    lh_json_finish(o->common.json, lh_json_list("removed", json));
    return code;
}

int lh_command_rm(int argc, char **argv)
{
    struct rm_options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("now", BOOL, &o.now, NULL),
            .help = "for good: the records are gone and cannot be restored",
            .command_line_only = true},
        {LH_FLAG("file", UINT, &o.file, "0"), .metavar = "ID",
            .help = "the file with this id instead of a path; with --now also one in the trash"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... PATH... | --file=ID",
        .summary = "Moves each file PATH into the trash and says for how long `leasehold restore` "
                   "brings it\nback; after that its records are deleted. Appenders and readers of "
                   "the file fail at once.",
        LH_FLAG_ROWS(table),
        .args_max = SIZE_MAX,
        .run = remove_all,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- trash -------------------------------------------------------------------------------- */

static void trash_row(struct lh_table *table, const struct lh_file_info *f)
{
    char text[32];
    lh_table_add(table, "%" PRIu64, f->file);
    lh_table_add(table, "%" PRIu64, f->sealed_length);
    lh_table_add(table, "%" PRIu64, f->chunks);
    lh_table_add(table, "%s", lh_command_duration(text, f->trash_left_ms));
    lh_table_add(table, "%s", lh_command_time(text, f->created_unix_ms));
    lh_table_add(table, "%s", f->path);
}

static int list_trash(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct lh_command_common *common = options;
    const char *prefix = args[0] != NULL ? args[0] : "";
    static const char *const titles[] = {
        ">file", ">sealed bytes", ">chunks", ">left", "created (UTC)", "path", NULL};
    struct lh_table table;
    lh_table_init(&table, titles);
    json_t *json = json_array();
    struct lh_file_list list = {0};
    int code = LH_EXIT_OK;
    for (bool more = true; more && code == LH_EXIT_OK;) {
        struct lh_file_list next;
        const struct lh_file_info *last = list.count > 0 ? &list.files[list.count - 1] : NULL;
        int error = lh_trash(cluster, prefix, last != NULL ? last->path : NULL,
            last != NULL ? last->file : 0, 0, lh_command_timeout_ms(common), &next);
        if (error != LH_OK) {
            code = lh_command_failed("trash", prefix, error);
            break;
        }
        lh_file_list_deinit(&list);
        list = next;
        for (size_t i = 0; i < list.count; i++) {
            if (common->json)
                (void)json_array_append_new(json, lh_json_file(&list.files[i]));
            else
                trash_row(&table, &list.files[i]);
        }
        more = list.more && list.count > 0;
    }
    lh_file_list_deinit(&list);
    if (code == LH_EXIT_OK && !common->json)
        lh_table_print(&table);
    lh_json_finish(code == LH_EXIT_OK && common->json, lh_json_list("files", json));
    lh_table_deinit(&table);
    return code;
}

int lh_command_trash(int argc, char **argv)
{
    struct lh_command_common common = {0};
    const struct lh_command command = {
        .usage = "[OPTION]... [PREFIX]",
        .summary = "Lists the files in the trash that had a path that begins with PREFIX, or all, "
                   "and for how\nlong they can be restored (of a running master's time).",
        .args_max = 1,
        .run = list_trash,
        .options = &common,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- restore ------------------------------------------------------------------------------ */

struct restore_options {
    struct lh_command_common common;
    const char *to;
    uint64_t file;
};

static int restore(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct restore_options *o = options;
    const char *path = args[0];
    if (path == NULL && o->file == 0)
        return lh_command_error(LH_EXIT_USAGE, "restore",
            "give the path that the file had, or --file (leasehold trash lists both)");
    struct lh_file_info info = {0};
    int error = lh_restore(cluster, path, o->file, o->to, lh_command_timeout_ms(&o->common), &info);
    if (error != LH_OK) {
        int code = lh_command_failed("restore", path, error);
        if (error == LH_ERR_ALREADY_EXISTS)
            (void)lh_command_error(
                code, "restore", "give the restored file another path with --to=PATH");
        return code;
    }
    if (o->common.json)
        lh_command_print_json(lh_json_file(&info));
    else
        (void)printf("%s: restored, file %" PRIu64 "\n", lh_command_shown(info.path), info.file);
    lh_file_info_deinit(&info);
    return LH_EXIT_OK;
}

int lh_command_restore(int argc, char **argv)
{
    struct restore_options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("to", STRING, &o.to, NULL), .metavar = "PATH",
            .help = "the restored file's path, if it shall not be the one that it had"},
        {LH_FLAG("file", UINT, &o.file, "0"), .metavar = "ID",
            .help = "the file with this id; without it, the one of that path removed last"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... [PATH]",
        .summary = "Takes a file out of the trash, with all its records.",
        LH_FLAG_ROWS(table),
        .args_max = 1,
        .run = restore,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
