/* `leasehold explain`, `garbage`: what the master has to say. */
#include "client/command/command.h"

#include "base/plural.h"
#include "client/command/json.h"
#include "client/command/trouble.h"

#include <inttypes.h>

/* --- explain ------------------------------------------------------------------------------ */

static json_t *explanation_json(const struct lh_explanation *e)
{
    json_t *sentences = json_array();
    for (size_t i = 0; i < e->sentence_count; i++)
        (void)json_array_append_new(sentences, lh_json_text(e->sentences[i]));
    return json_pack("{s:b, s:o, s:o, s:o}", "writable", (int)e->writable, "sentences", sentences,
        "file", lh_json_file(&e->info), "chunk",
        e->has_chunk ? lh_json_chunk_state(&e->chunk) : json_null());
}

/* The verdict, before the reasons. */
static void print_explanation(const struct lh_explanation *e)
{
    char verdict[LH_TROUBLE_VERDICT_BYTES];

    (void)puts(lh_command_shown(lh_trouble_verdict(verdict, e)));
    for (size_t i = 0; i < e->sentence_count; i++)
        (void)printf("  %s\n", lh_command_shown(e->sentences[i]));
}

/* --- names -------------------------------------------------------------------------------- */

static void print_holders(const struct lh_name_info *n)
{
    if (n->holder_count == 0)
        (void)printf("lock %s: free\n", lh_command_shown(n->name));
    else
        (void)printf("lock %s: held %s, token %" PRIu64 "\n", lh_command_shown(n->name),
            n->holders[0].shared ? "by several at a time" : "by one", n->holders[0].token);
}

/* Locks and values of one name are explained together: the master's sentences name both. */
static void print_name(const struct lh_name_info *n)
{
    char size[32];

    if (n->holder_count > 0 || n->waiting > 0 || !n->has_value)
        print_holders(n);
    if (n->has_value)
        (void)printf("value %s: revision %" PRIu64 ", %s%s\n", lh_command_shown(n->name),
            n->revision, lh_command_bytes(size, n->size), n->changing ? ", changing" : "");
    for (size_t i = 0; i < n->sentence_count; i++)
        (void)printf("  %s\n", lh_command_shown(n->sentences[i]));
}

/* What is there under this path: a file, a name, or both. `file` is NULL if there is none. */
static int print_both(const struct lh_command_common *common, struct lh_cluster *cluster,
    const char *path, const struct lh_explanation *file, bool *found)
{
    struct lh_name_list list = {0};
    int error = lh_explain_name(cluster, path, lh_command_timeout_ms(common), &list);

    *found = error == LH_OK && list.count > 0;
    /* An older master knows files only. */
    if (error != LH_OK && error != LH_ERR_NOT_FOUND && error != LH_ERR_UNIMPLEMENTED &&
        error != LH_ERR_INVALID_ARGUMENT)
        return lh_command_failed("explain", path, error);
    if (common->json) {
        json_t *json = file != NULL ? explanation_json(file) : json_object();
        if (*found)
            (void)json_object_set_new(json, "name", lh_json_name(&list.names[0]));
        lh_json_finish(file != NULL || *found, json);
    } else {
        if (file != NULL)
            print_explanation(file);
        if (*found)
            print_name(&list.names[0]);
    }
    lh_name_list_deinit(&list);
    return LH_EXIT_OK;
}

static int explain_path(
    const struct lh_command_common *common, struct lh_cluster *cluster, const char *path)
{
    struct lh_explanation e = {0};
    bool found = false;
    int error = lh_explain(cluster, path, 0, lh_command_timeout_ms(common), &e);

    if (error != LH_OK && error != LH_ERR_NOT_FOUND)
        return lh_command_failed("explain", path, error);
    int code = print_both(common, cluster, path, error == LH_OK ? &e : NULL, &found);
    if (error == LH_OK)
        lh_explanation_deinit(&e);
    else if (code == LH_EXIT_OK && !found)
        code = lh_command_refused("explain", path, error,
            "this is no file, and nobody has a lock or a value of that name");
    return code;
}

static int explain(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct lh_command_common *common = options;
    uint64_t chunk = 0;
    if (args[0][0] == '/')
        return explain_path(common, cluster, args[0]);
    if (!lh_parse_uint(args[0], &chunk) || chunk == 0)
        return lh_command_error(LH_EXIT_USAGE, "explain",
            "'%s' is neither a chunk's number (leasehold stat --chunks lists them) nor a file's "
            "path or the name of a lock or value, which begin with /",
            args[0]);
    struct lh_explanation e = {0};
    int error = lh_explain(cluster, NULL, chunk, lh_command_timeout_ms(common), &e);
    if (error != LH_OK)
        return lh_command_failed("explain", args[0], error);
    if (common->json)
        lh_command_print_json(explanation_json(&e));
    else
        print_explanation(&e);
    lh_explanation_deinit(&e);
    return LH_EXIT_OK;
}

int lh_command_explain(int argc, char **argv)
{
    struct lh_command_common common = {0};
    const struct lh_command command = {
        .usage = "[OPTION]... PATH|CHUNK|NAME",
        .summary = "Says of a file's last chunk, or of the chunk with that number, whether it can "
                   "be appended to\nand why (not): who may act and until when, what is missing, "
                   "and what happens next. Says of a lock\nor a value who has it, who waits, and "
                   "what is next. If a file and a name are the same, both.",
        .args_min = 1,
        .args_max = 1,
        .run = explain,
        .options = &common,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- garbage ------------------------------------------------------------------------------ */

struct garbage_options {
    struct lh_command_common common;
    bool resume;
};

static void print_garbage(const struct lh_garbage_info *g)
{
    if (g->deleting)
        (void)puts("deleting: what nobody needs is deleted as it is found");
    else
        (void)printf("not deleting: %s. Make sure that this master has the newest metadata; then "
                     "leasehold garbage --resume\n",
            g->why_not[0] != '\0' ? lh_command_shown(g->why_not) : "the master does not say why");
    (void)printf("%" PRIu64 " file%s in the trash, %" PRIu64
                 " replica%s of no use still there, %" PRIu64 " deleted since the master's start\n",
        g->files_trashed, lh_plural(g->files_trashed), g->replicas_extra,
        lh_plural(g->replicas_extra), g->replicas_deleted);
}

static int garbage(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct garbage_options *o = options;
    struct lh_garbage_info g = {0};
    int error = lh_garbage(cluster, o->resume, lh_command_timeout_ms(&o->common), &g);
    (void)args;
    if (error != LH_OK)
        return lh_command_failed("garbage", NULL, error);
    if (o->common.json)
        lh_command_print_json(json_pack("{s:b, s:o, s:I, s:I, s:I}", "deleting", (int)g.deleting,
            "why_not", lh_json_text(g.why_not), "files_trashed", (json_int_t)g.files_trashed,
            "replicas_extra", (json_int_t)g.replicas_extra, "replicas_deleted",
            (json_int_t)g.replicas_deleted));
    else
        print_garbage(&g);
    lh_garbage_info_deinit(&g);
    return LH_EXIT_OK;
}

int lh_command_garbage(int argc, char **argv)
{
    struct garbage_options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("resume", BOOL, &o.resume, NULL),
            .help = "delete again: only when this master's metadata is known to be the newest, or "
                    "the newest that is left",
            .command_line_only = true},
    };
    const struct lh_command command = {
        .usage = "[OPTION]...",
        .summary = "Tells whether the master deletes the replicas that nobody needs. It stops by "
                   "itself when its\nmetadata looks like an older copy: then what looks useless "
                   "may be all that is left of a file.",
        LH_FLAG_ROWS(table),
        .run = garbage,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
