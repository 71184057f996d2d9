/* `leasehold create`, `ls`, `stat`, `mv`, `rm`: the namespace. */
#include "client/command.h"

#include "client/command_table.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <time.h>

/* Wall-clock milliseconds as "2026-01-31 12:00:00" in UTC. */
static const char *time_text(char text[32], uint64_t unix_ms)
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL || strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        (void)snprintf(text, 32, "%" PRIu64, unix_ms);
    return text;
}

static json_t *info_json(const struct lh_file_info *info)
{
    return json_pack("{s:s, s:I, s:s, s:i, s:i, s:I, s:I, s:I, s:I}", "path", info->path, "file",
        (json_int_t)info->file, "durability", lh_command_durabilities[info->durability],
        "replication", (int)info->replication, "min_replicas", (int)info->min_replicas,
        "chunk_size", (json_int_t)info->chunk_size, "chunks", (json_int_t)info->chunks,
        "sealed_length", (json_int_t)info->sealed_length, "created_unix_ms",
        (json_int_t)info->created_unix_ms);
}

/* --- create ------------------------------------------------------------------------------- */

struct create_options {
    struct lh_command_common common;
    struct lh_command_file file;
};

static int create_all(void *options, struct lh_cluster *cluster, const char **paths)
{
    const struct create_options *o = options;
    struct lh_file_options file = lh_command_file_options(&o->file);
    int code = LH_EXIT_OK;
    for (; *paths != NULL && code == LH_EXIT_OK; paths++) {
        struct lh_file_info info = {0};
        int error = lh_create(cluster, *paths, &file, lh_command_timeout_ms(&o->common), &info);
        if (error != LH_OK)
            code = lh_command_failed("create", *paths, error);
        else if (o->common.json)
            lh_command_print_json(info_json(&info));
        lh_file_info_deinit(&info);
    }
    return code;
}

int lh_command_create(int argc, char **argv)
{
    struct create_options o = {0};
    const struct lh_flag table[] = {
        LH_COMMAND_MASTER_FLAGS(o.common),
        LH_COMMAND_FILE_FLAGS(o.file),
        LH_COMMAND_JSON_FLAG(o.common),
    };
    const struct lh_command command = {
        .usage = "[OPTION]... PATH...",
        .summary = "Creates an empty file at each PATH.",
        .flags = table,
        .count = sizeof table / sizeof table[0],
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
                (void)json_array_append_new(json, info_json(f));
            } else if (o->details) {
                lh_table_add(&table, "%" PRIu64, f->sealed_length);
                lh_table_add(&table, "%" PRIu64, f->chunks);
                lh_table_add(&table, "%s", lh_command_durabilities[f->durability]);
                lh_table_add(&table, "%" PRIu32, f->replication);
                lh_table_add(&table, "%s", time_text(text, f->created_unix_ms));
                lh_table_add(&table, "%s", f->path);
            } else {
                (void)puts(f->path);
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
        lh_command_print_json(json_pack("{s:O}", "files", json));
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
        LH_COMMAND_MASTER_FLAGS(o.common),
        {.name = "long",
            .type = LH_FLAG_BOOL,
            .value = &o.details,
            .letter = 'l',
            .help = "with size, chunks, durability and age"},
        LH_COMMAND_JSON_FLAG(o.common),
    };
    const struct lh_command command = {
        .usage = "[OPTION]... [PREFIX]",
        .summary = "Lists the files whose paths begin with PREFIX, or all.",
        .flags = table,
        .count = sizeof table / sizeof table[0],
        .args_max = 1,
        .run = list_all,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- stat --------------------------------------------------------------------------------- */

static json_t *chunk_json(const struct lh_chunk_info *c)
{
    json_t *members = json_array();
    for (size_t i = 0; i < c->member_count; i++)
        (void)json_array_append_new(
            members, json_pack("{s:s, s:s}", "server_id", c->members[i].server_id, "address",
                         c->members[i].address));
    return json_pack("{s:I, s:I, s:I, s:b, s:I, s:s, s:o}", "chunk", (json_int_t)c->chunk,
        "version", (json_int_t)c->version, "start", (json_int_t)c->start, "sealed", (int)c->sealed,
        "length", (json_int_t)c->length, "primary", c->primary, "members", members);
}

static void print_chunk(const struct lh_chunk_info *c)
{
    (void)printf("  chunk %" PRIu64 " version %" PRIu64 " from %" PRIu64 ", ", c->chunk, c->version,
        c->start);
    if (c->sealed)
        (void)printf("sealed at %" PRIu64 " bytes", c->length);
    else
        (void)printf("growing, primary %s", c->primary[0] != '\0' ? c->primary : "none");
    (void)fputs(", on", stdout);
    for (size_t i = 0; i < c->member_count; i++)
        (void)printf(
            " %s%s", c->members[i].server_id, c->members[i].address[0] != '\0' ? "" : " (away)");
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
                (void)json_array_append_new(json, chunk_json(&list.chunks[i]));
            else
                print_chunk(&list.chunks[i]);
            offset = list.chunks[i].start + list.chunks[i].length;
        }
        more = list.more && list.count > 0;
        lh_chunk_list_deinit(&list);
    }
    return LH_EXIT_OK;
}

static int stat_one(struct lh_cluster *cluster, const char *path, bool chunks,
    const struct lh_command_common *common)
{
    struct lh_file_info info = {0};
    int error = lh_stat(cluster, path, lh_command_timeout_ms(common), &info);
    if (error != LH_OK)
        return lh_command_failed("stat", path, error);
    int code = LH_EXIT_OK;
    if (common->json) {
        json_t *json = info_json(&info), *list = json_array();
        if (chunks)
            code = stat_chunks(cluster, path, common, list);
        if (chunks && code == LH_EXIT_OK)
            (void)json_object_set(json, "chunk_list", list);
        json_decref(list);
        if (code == LH_EXIT_OK)
            lh_command_print_json(json);
        else
            json_decref(json);
    } else {
        char size[32], created[32];
        (void)printf("%s: file %" PRIu64 ", %s, %" PRIu32 " replicas (at least %" PRIu32
                     "), %" PRIu64 " chunks of at most %s, %" PRIu64
                     " bytes in sealed ones, created %s UTC\n",
            info.path, info.file, lh_command_durabilities[info.durability], info.replication,
            info.min_replicas, info.chunks, lh_command_bytes(size, info.chunk_size),
            info.sealed_length, time_text(created, info.created_unix_ms));
        if (chunks)
            code = stat_chunks(cluster, path, common, NULL);
    }
    lh_file_info_deinit(&info);
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
    for (; *paths != NULL && code == LH_EXIT_OK; paths++)
        code = stat_one(cluster, *paths, o->chunks, &o->common);
    return code;
}

int lh_command_stat(int argc, char **argv)
{
    struct stat_options o = {0};
    const struct lh_flag table[] = {
        LH_COMMAND_MASTER_FLAGS(o.common),
        {.name = "chunks",
            .type = LH_FLAG_BOOL,
            .value = &o.chunks,
            .letter = 'c',
            .help = "list the chunks and where they are"},
        LH_COMMAND_JSON_FLAG(o.common),
    };
    const struct lh_command command = {
        .usage = "[OPTION]... PATH...",
        .summary = "Describes each file PATH.",
        .flags = table,
        .count = sizeof table / sizeof table[0],
        .args_min = 1,
        .args_max = SIZE_MAX,
        .run = stat_all,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- mv, rm ------------------------------------------------------------------------------- */

static int rename_one(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct lh_command_common *common = options;
    int error = lh_rename(cluster, args[0], args[1], lh_command_timeout_ms(common));
    return error == LH_OK ? LH_EXIT_OK : lh_command_failed("mv", args[0], error);
}

int lh_command_mv(int argc, char **argv)
{
    struct lh_command_common common = {0};
    const struct lh_flag table[] = {LH_COMMAND_MASTER_FLAGS(common)};
    const struct lh_command command = {
        .usage = "[OPTION]... FROM TO",
        .summary = "Renames the file FROM to TO, which must not exist. Whoever appends or reads "
                   "stays with the file.",
        .flags = table,
        .count = sizeof table / sizeof table[0],
        .args_min = 2,
        .args_max = 2,
        .run = rename_one,
        .options = &common,
    };
    return lh_command_run(&command, argc, argv);
}

/* What can be removed is, whatever becomes of the others. */
static int remove_all(void *options, struct lh_cluster *cluster, const char **paths)
{
    const struct lh_command_common *common = options;
    int code = LH_EXIT_OK;
    for (; *paths != NULL; paths++) {
        int error = lh_remove(cluster, *paths, lh_command_timeout_ms(common));
        if (error != LH_OK)
            code = lh_command_failed("rm", *paths, error);
    }
    return code;
}

int lh_command_rm(int argc, char **argv)
{
    struct lh_command_common common = {0};
    const struct lh_flag table[] = {LH_COMMAND_MASTER_FLAGS(common)};
    const struct lh_command command = {
        .usage = "[OPTION]... PATH...",
        .summary = "Removes each file PATH and its records.",
        .flags = table,
        .count = sizeof table / sizeof table[0],
        .args_min = 1,
        .args_max = SIZE_MAX,
        .run = remove_all,
        .options = &common,
    };
    return lh_command_run(&command, argc, argv);
}
