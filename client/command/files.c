/* `leasehold create`, `ls`, `stat`, `mv`: the namespace. */
#include "client/command/command.h"

#include "base/plural.h"
#include "client/command/json.h"
#include "client/command/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* --- create ------------------------------------------------------------------------------- */

struct create_options {
    struct lh_command_common common;
    struct lh_command_file file;
};

static int create_all(void *options, struct lh_cluster *cluster, const char **paths)
{
    const struct create_options *o = options;
    struct lh_file_options file = lh_command_file_options(&o->file);
    json_t *json = json_array();
    int code = LH_EXIT_OK;
    uint32_t replicas = 0;
    for (; *paths != NULL && code == LH_EXIT_OK; paths++) {
        struct lh_file_info info = {0};
        int error = lh_create(cluster, *paths, &file, lh_command_timeout_ms(&o->common), &info);
        if (error != LH_OK)
            code = lh_command_failed("create", *paths, error);
        else
            (void)json_array_append_new(json, lh_json_file(&info));
        if (info.replication > replicas)
            replicas = info.replication;
        lh_file_info_deinit(&info);
    }
    lh_command_warn_of_few_servers("create", cluster, replicas);
    lh_json_finish(o->common.json, lh_json_one_or_list("files", json));
    return code;
}

int lh_command_create(int argc, char **argv)
{
    struct create_options o = {0};
    const struct lh_flag table[] = {
        LH_COMMAND_FILE_FLAGS(o.file),
    };
    const struct lh_command command = {
        .usage = "[OPTION]... PATH...",
        .summary = "Creates an empty file at each PATH.",
        LH_FLAG_ROWS(table),
        .args_min = 1,
        .args_max = SIZE_MAX,
        .run = create_all,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- ls ----------------------------------------------------------------------------------- */

struct ls_options {
    struct lh_command_common common;
    bool details;
};

static int list_all(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct ls_options *o = options;
    const struct lh_command_common *common = &o->common;
    const char *prefix = args[0] != NULL ? args[0] : "";
    static const char *const titles[] = {
        ">sealed bytes", ">chunks", "durability", ">replicas", "created (UTC)", "path", NULL};
    struct lh_table table;
    lh_table_init(&table, titles);
    json_t *json = json_array();
    char *after = NULL;
    int code = LH_EXIT_OK;
    for (bool more = true; more && code == LH_EXIT_OK;) {
        struct lh_file_list list;
        int error = lh_list(cluster, prefix, after, 0, lh_command_timeout_ms(common), &list);
        if (error != LH_OK) {
            code = lh_command_failed("ls", prefix, error);
            break;
        }
        free(after);
        after = NULL;
        for (size_t i = 0; i < list.count; i++) {
            const struct lh_file_info *f = &list.files[i];
            char text[32];
            if (common->json) {
                (void)json_array_append_new(json, lh_json_file(f));
            } else if (o->details) {
                lh_table_add(&table, "%" PRIu64, f->sealed_length);
                lh_table_add(&table, "%" PRIu64, f->chunks);
                lh_table_add(&table, "%s", lh_command_durabilities[f->durability]);
                lh_table_add(&table, "%" PRIu32, f->replication);
                lh_table_add(&table, "%s", lh_command_time(text, f->created_unix_ms));
                lh_table_add(&table, "%s", f->path);
            } else {
                (void)puts(isatty(STDOUT_FILENO) == 1 ? lh_command_shown(f->path) : f->path);
            }
        }
        more = list.more && list.count > 0;
        if (more) {
            after = list.files[list.count - 1].path;
            list.files[list.count - 1].path = NULL;
        }
        lh_file_list_deinit(&list);
    }
    free(after);
    if (code == LH_EXIT_OK && common->json) {
        lh_command_print_json(lh_json_list("files", json_incref(json)));
    } else if (code == LH_EXIT_OK && o->details) {
        lh_table_print(&table);
    }
    json_decref(json);
    lh_table_deinit(&table);
    return code;
}

int lh_command_ls(int argc, char **argv)
{
    struct ls_options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("long", BOOL, &o.details, NULL), .letter = 'l',
            .help = "with size, chunks, durability and age"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... [PREFIX]",
        .summary = "Lists the files whose paths begin with PREFIX, or all.",
        LH_FLAG_ROWS(table),
        .args_max = 1,
        .run = list_all,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- stat --------------------------------------------------------------------------------- */

static void print_chunk(const struct lh_chunk_info *c)
{
    (void)printf("  chunk %" PRIu64 " version %" PRIu64 " from %" PRIu64 ", ", c->chunk, c->version,
        c->start);
    if (c->sealed)
        (void)printf("sealed at %" PRIu64 " byte%s", c->length, lh_plural(c->length));
    else
        (void)printf(
            "growing, primary %s", c->primary[0] != '\0' ? lh_command_shown(c->primary) : "none");
    (void)fputs(", on", stdout);
    for (size_t i = 0; i < c->member_count; i++)
        (void)printf(" %s%s%s", lh_command_shown(c->members[i].server_id),
            c->members[i].address[0] != '\0' ? "" : " (away)",
            c->members[i].joining ? " (joining)" : "");
    (void)putchar('\n');
}

/* Prints the chunks, or appends them to `json`. */
static int stat_chunks(struct lh_cluster *cluster, const char *path,
    const struct lh_command_common *common, json_t *json)
{
    uint64_t offset = 0;
    for (bool more = true; more;) {
        struct lh_chunk_list list;
        int error = lh_locate(cluster, path, offset, 0, lh_command_timeout_ms(common), &list);
        if (error != LH_OK)
            return lh_command_failed("stat", path, error);
        for (size_t i = 0; i < list.count; i++) {
            if (common->json)
                (void)json_array_append_new(json, lh_json_chunk(&list.chunks[i]));
            else
                print_chunk(&list.chunks[i]);
            offset = list.chunks[i].start + list.chunks[i].length;
        }
        more = list.more && list.count > 0;
        lh_chunk_list_deinit(&list);
    }
    return LH_EXIT_OK;
}

static void print_info(const struct lh_file_info *info)
{
    char size[32], created[32], sealed[64];

    /* How much is in the last one, the master does not know. */
    (void)snprintf(sealed, sizeof sealed, "%" PRIu64 " byte%s in the sealed ones",
        info->sealed_length, lh_plural(info->sealed_length));
    (void)printf("%s: file %" PRIu64 ", %s, %" PRIu32 " replica%s (at least %" PRIu32 "), %" PRIu64
                 " chunk%s of at most %s, %s, created %s UTC, on the loss of a primary: %s\n",
        lh_command_shown(info->path), info->file, lh_command_durabilities[info->durability],
        info->replication, lh_plural(info->replication), info->min_replicas, info->chunks,
        lh_plural(info->chunks), lh_command_bytes(size, info->chunk_size),
        info->sealed_length == 0 ? "nothing sealed yet" : sealed,
        lh_command_time(created, info->created_unix_ms), lh_command_losses[info->on_primary_loss]);
    if (info->fence != 0)
        (void)printf("  appends only under lock %s, token %" PRIu64 "\n",
            lh_command_shown(info->lock_name), info->fence);
}

/* Prints the file, or appends it to `json` once all of it is known. */
static int stat_one(struct lh_cluster *cluster, const char *path, bool chunks,
    const struct lh_command_common *common, json_t *json)
{
    struct lh_file_info info = {0};
    int error = lh_stat(cluster, path, lh_command_timeout_ms(common), &info);
    if (error != LH_OK)
        return lh_command_failed("stat", path, error);
    if (!common->json)
        print_info(&info);
    json_t *list = json_array(), *file = lh_json_file(&info);
    lh_file_info_deinit(&info);
    int code = chunks ? stat_chunks(cluster, path, common, list) : LH_EXIT_OK;
    if (chunks)
        (void)json_object_set(file, "chunk_list", list);
    if (code == LH_EXIT_OK)
        (void)json_array_append(json, file);
    json_decref(list);
    json_decref(file);
    return code;
}

struct stat_options {
    struct lh_command_common common;
    bool chunks;
};

static int stat_all(void *options, struct lh_cluster *cluster, const char **paths)
{
    const struct stat_options *o = options;
    int code = LH_EXIT_OK;
    json_t *json = json_array();
    for (; *paths != NULL && code == LH_EXIT_OK; paths++)
        code = stat_one(cluster, *paths, o->chunks, &o->common, json);
    lh_json_finish(o->common.json, lh_json_one_or_list("files", json));
    return code;
}

int lh_command_stat(int argc, char **argv)
{
    struct stat_options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("chunks", BOOL, &o.chunks, NULL), .letter = 'c',
            .help = "list the chunks and where they are"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... PATH...",
        .summary = "Describes each file PATH.",
        LH_FLAG_ROWS(table),
        .args_min = 1,
        .args_max = SIZE_MAX,
        .run = stat_all,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- mv ----------------------------------------------------------------------------------- */

static int rename_one(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct lh_command_common *common = options;
    int error = lh_rename(cluster, args[0], args[1], lh_command_timeout_ms(common));
    return error == LH_OK ? LH_EXIT_OK : lh_command_failed("mv", args[0], error);
}

int lh_command_mv(int argc, char **argv)
{
    struct lh_command_common common = {0};
    const struct lh_command command = {
        .usage = "[OPTION]... FROM TO",
        .summary = "Renames the file FROM to TO, which must not exist. Whoever appends or reads "
                   "stays with the file.",
        .no_json = true,
        .args_min = 2,
        .args_max = 2,
        .run = rename_one,
        .options = &common,
    };
    return lh_command_run(&command, argc, argv);
}
