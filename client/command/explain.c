/* `leasehold explain`, `garbage`: what the master has to say. */
#include "client/command/command.h"

#include "client/command/json.h"

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
    const struct lh_chunk_info *c = &e->chunk.info;
    const char *verdict = e->writable ? "takes appends" : "takes no appends now";
    if (e->has_chunk)
        (void)printf("chunk %" PRIu64 " of %s%s, version %" PRIu64 ": %s\n", c->chunk,
            lh_command_shown(e->info.path), e->info.trashed ? " (in the trash)" : "", c->version,
            c->sealed ? "sealed, and will never change" : verdict);
    else
        (void)printf("%s%s, no chunk yet: %s\n", lh_command_shown(e->info.path),
            e->info.trashed ? " (in the trash)" : "", verdict);
    for (size_t i = 0; i < e->sentence_count; i++)
        (void)printf("  %s\n", lh_command_shown(e->sentences[i]));
}

static int explain(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct lh_command_common *common = options;
    uint64_t chunk = 0;
    const char *path = args[0][0] == '/' ? args[0] : NULL;
    if (path == NULL && (!lh_parse_uint(args[0], &chunk) || chunk == 0))
        return lh_command_error(LH_EXIT_USAGE, "explain",
            "'%s' is neither a chunk's number (leasehold stat --chunks lists them) nor a file's "
            "path, which begins with /",
            args[0]);
    struct lh_explanation e = {0};
    int error = lh_explain(cluster, path, chunk, lh_command_timeout_ms(common), &e);
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
        .usage = "[OPTION]... PATH|CHUNK",
        .summary = "Says of a file's last chunk, or of the chunk with that number, whether it can "
                   "be appended to\nand why (not): who may act and until when, what is missing, "
                   "and what happens next.",
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
    (void)printf("%" PRIu64 " files in the trash, %" PRIu64
                 " replicas of no use that are still there, %" PRIu64
                 " deleted since the master's start\n",
        g->files_trashed, g->replicas_extra, g->replicas_deleted);
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
