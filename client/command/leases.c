/* `leasehold leases`, `recall`: who orders the appends of what. */
#include "client/command/command.h"

#include "client/command/json.h"
#include "client/command/table.h"

#include <inttypes.h>

/* --- leases ------------------------------------------------------------------------------- */

static void lease_row(struct lh_table *table, const struct lh_lease_info *l)
{
    char left[32];
    lh_table_add(table, "%" PRIu64, l->chunk);
    lh_table_add(table, "%" PRIu64, l->version);
    lh_table_add(table, "%s", lh_command_or_dash(l->primary));
    lh_table_add(
        table, "%s%s", l->state, l->primary[0] == '\0' || l->session_live ? "" : " (session lost)");
    lh_table_add(table, "%s", l->primary[0] != '\0' ? lh_command_duration(left, l->left_ms) : "-");
    lh_table_add(table, "%" PRIu64, l->appends);
    lh_table_add(table, "%" PRIu32 "/%" PRIu32, l->members, l->replication);
    lh_table_add(table, "%s", l->path);
}

struct leases_options {
    struct lh_command_common common;
    bool all;
};

static int list_leases(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct leases_options *o = options;
    const struct lh_command_common *common = &o->common;
    static const char *const titles[] = {
        ">chunk", ">version", "primary", "state", ">left", ">appends", ">replicas", "file", NULL};
    struct lh_table table;
    lh_table_init(&table, titles);
    json_t *json = json_array();
    int code = LH_EXIT_OK;
    uint64_t after = 0;
    (void)args;
    for (bool more = true; more;) {
        struct lh_lease_list list;
        int error = lh_leases(cluster, after, 0, o->all, lh_command_timeout_ms(common), &list);
        if (error != LH_OK) {
            code = lh_command_failed("leases", NULL, error);
            break;
        }
        for (size_t i = 0; i < list.count; i++) {
            if (common->json)
                (void)json_array_append_new(json, lh_json_lease(&list.leases[i]));
            else
                lease_row(&table, &list.leases[i]);
            after = list.leases[i].chunk;
        }
        more = list.more && list.count > 0;
        lh_lease_list_deinit(&list);
    }
    if (code == LH_EXIT_OK && !common->json)
        lh_table_print(&table);
    lh_json_finish(code == LH_EXIT_OK && common->json, lh_json_list("leases", json));
    lh_table_deinit(&table);
    return code;
}

int lh_command_leases(int argc, char **argv)
{
    struct leases_options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("all", BOOL, &o.all, NULL), .letter = 'a',
            .help = "also chunks that take appends but that nobody holds now"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]...",
        .summary = "Lists who is primary of which chunk, and for how long. States: HELD; GRANTING, "
                   "RECALLING:\non the way to or from its holder; WAITING: the master was "
                   "restarted and its holder has not\ncome back yet; EXPIRING: of a lost "
                   "primary, whose file has gone on in its next chunk; FREE.",
        LH_FLAG_ROWS(table),
        .run = list_leases,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- recall ------------------------------------------------------------------------------- */

static void print_recall(const struct lh_recall_result *r, bool json)
{
    if (json) {
        lh_command_print_json(
            json_pack("{s:I, s:I, s:o, s:o, s:I}", "chunk", (json_int_t)r->chunk, "version",
                (json_int_t)r->version, "old_primary", lh_json_text(r->old_primary), "new_primary",
                lh_json_text(r->new_primary), "lease_left_ms", (json_int_t)r->lease_left_ms));
        return;
    }
    (void)printf("chunk %" PRIu64 ": primary %s -> %s, version %" PRIu64 "\n", r->chunk,
        lh_command_shown(lh_command_or_dash(r->old_primary)),
        lh_command_shown(lh_command_or_dash(r->new_primary)), r->version);
}

struct recall_options {
    struct lh_command_common common;
    bool only_release;
};

static int recall(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct recall_options *o = options;
    const char *name = args[0];
    uint64_t chunk = 0;
    const char *path = name[0] == '/' ? name : NULL;
    if (path == NULL && (!lh_parse_uint(name, &chunk) || chunk == 0))
        return lh_command_error(LH_EXIT_USAGE, "recall",
            "'%s' is neither a chunk's number (leasehold leases lists them) nor a file's path",
            name);
    struct lh_recall_result result = {0};
    int error = lh_recall(
        cluster, chunk, path, o->only_release, lh_command_timeout_ms(&o->common), &result);
    int code = LH_EXIT_OK;
    if (error == LH_OK) {
        print_recall(&result, o->common.json);
    } else {
        code = lh_command_failed("recall", name, error);
        if (error == LH_ERR_LEASE_HELD)
            code = lh_command_error(code, "recall",
                "the primary did not answer; its lease runs out in %.1f s at the latest",
                (double)result.lease_left_ms / 1000);
    }
    lh_recall_result_deinit(&result);
    return code;
}

int lh_command_recall(int argc, char **argv)
{
    struct recall_options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("only-release", BOOL, &o.only_release, NULL),
            .help = "give the chunk to nobody until somebody appends"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... CHUNK|PATH",
        .summary =
            "Asks the primary of a chunk (of a file's last chunk) to give its lease up now, "
            "and gives the\nchunk to another member. Nothing that is being appended is lost.",
        LH_FLAG_ROWS(table),
        .args_min = 1,
        .args_max = 1,
        .run = recall,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
