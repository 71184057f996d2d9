/* `leasehold leases`, `servers`, `recall`: what the operator looks at and does. */
#include "client/command.h"

#include "client/command_table.h"

#include <inttypes.h>
#include <jansson.h>

/* Milliseconds as "12.3 s". */
static const char *seconds_text(char text[32], uint64_t ms)
{
    (void)snprintf(text, 32, "%.1f s", (double)ms / 1000);
    return text;
}

static const char *or_dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

/* --- leases ------------------------------------------------------------------------------- */

static json_t *lease_json(const struct lh_lease_info *l)
{
    return json_pack("{s:I, s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:b, s:i, s:i}", "chunk",
        (json_int_t)l->chunk, "path", l->path, "version", (json_int_t)l->version, "primary",
        l->primary, "address", l->address, "state", l->state, "left_ms", (json_int_t)l->left_ms,
        "appends", (json_int_t)l->appends, "session_live", (int)l->session_live, "members",
        (int)l->members, "replication", (int)l->replication);
}

static void lease_row(struct lh_table *table, const struct lh_lease_info *l)
{
    char left[32];
    lh_table_add(table, "%" PRIu64, l->chunk);
    lh_table_add(table, "%" PRIu64, l->version);
    lh_table_add(table, "%s", or_dash(l->primary));
    lh_table_add(
        table, "%s%s", l->state, l->primary[0] == '\0' || l->session_live ? "" : " (session lost)");
    lh_table_add(table, "%s", l->primary[0] != '\0' ? seconds_text(left, l->left_ms) : "-");
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
                (void)json_array_append_new(json, lease_json(&list.leases[i]));
            else
                lease_row(&table, &list.leases[i]);
            after = list.leases[i].chunk;
        }
        more = list.more && list.count > 0;
        lh_lease_list_deinit(&list);
    }
    if (code == LH_EXIT_OK && common->json)
        lh_command_print_json(json_pack("{s:O}", "leases", json));
    else if (code == LH_EXIT_OK)
        lh_table_print(&table);
    json_decref(json);
    lh_table_deinit(&table);
    return code;
}

int lh_command_leases(int argc, char **argv)
{
    struct leases_options o = {0};
    const struct lh_flag table[] = {
        LH_COMMAND_MASTER_FLAGS(o.common),
        {.name = "all",
            .type = LH_FLAG_BOOL,
            .value = &o.all,
            .letter = 'a',
            .help = "also chunks that take appends but that nobody holds now"},
        LH_COMMAND_JSON_FLAG(o.common),
    };
    const struct lh_command command = {
        .usage = "[OPTION]...",
        .summary = "Lists who is primary of which chunk, and for how long.",
        .flags = table,
        .count = sizeof table / sizeof table[0],
        .run = list_leases,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- servers ------------------------------------------------------------------------------ */

static const char *server_state(const struct lh_server_info *s)
{
    if (!s->live)
        return "away";
    if (s->failing)
        return "disk failing";
    return s->reachable ? "live" : "unreachable";
}

static void print_servers(const struct lh_server_list *list)
{
    static const char *const titles[] = {"server", "address", "state", ">session left",
        ">incarnation", ">primaries", ">replicas", ">free", "failure domain", NULL};
    struct lh_table table;
    lh_table_init(&table, titles);
    for (size_t i = 0; i < list->count; i++) {
        const struct lh_server_info *s = &list->servers[i];
        char text[32];
        lh_table_add(&table, "%s", s->server_id);
        lh_table_add(&table, "%s", or_dash(s->address));
        lh_table_add(&table, "%s", server_state(s));
        lh_table_add(&table, "%s", s->live ? seconds_text(text, s->session_left_ms) : "-");
        lh_table_add(&table, "%" PRIu64, s->incarnation);
        lh_table_add(&table, "%" PRIu64, s->primaries);
        lh_table_add(&table, "%" PRIu64, s->replicas);
        lh_table_add(&table, "%s", lh_command_bytes(text, s->free_bytes));
        lh_table_add(&table, "%s", or_dash(s->failure_domain));
    }
    lh_table_print(&table);
    lh_table_deinit(&table);
    (void)printf("cluster %s, master term %" PRIu64
                 ", session term %.1f s, chunk lease term %.1f s\n",
        list->cluster_id, list->master_term, (double)list->session_term_ms / 1000,
        (double)list->chunk_term_ms / 1000);
}

static json_t *servers_json(const struct lh_server_list *list)
{
    json_t *servers = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const struct lh_server_info *s = &list->servers[i];
        (void)json_array_append_new(servers,
            json_pack("{s:s, s:s, s:s, s:I, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I}", "server_id",
                s->server_id, "address", s->address, "failure_domain", s->failure_domain,
                "incarnation", (json_int_t)s->incarnation, "live", (int)s->live, "failing",
                (int)s->failing, "reachable", (int)s->reachable, "session_left_ms",
                (json_int_t)s->session_left_ms, "capacity_bytes", (json_int_t)s->capacity_bytes,
                "free_bytes", (json_int_t)s->free_bytes, "replicas", (json_int_t)s->replicas,
                "primaries", (json_int_t)s->primaries));
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:o}", "cluster_id", list->cluster_id, "master_term",
        (json_int_t)list->master_term, "session_term_ms", (json_int_t)list->session_term_ms,
        "chunk_term_ms", (json_int_t)list->chunk_term_ms, "servers", servers);
}

static int list_servers(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct lh_command_common *common = options;
    struct lh_server_list list = {0};
    int error = lh_servers(cluster, lh_command_timeout_ms(common), &list);
    (void)args;
    if (error != LH_OK)
        return lh_command_failed("servers", NULL, error);
    if (common->json)
        lh_command_print_json(servers_json(&list));
    else
        print_servers(&list);
    lh_server_list_deinit(&list);
    return LH_EXIT_OK;
}

int lh_command_servers(int argc, char **argv)
{
    struct lh_command_common common = {0};
    const struct lh_flag table[] = {
        LH_COMMAND_MASTER_FLAGS(common),
        LH_COMMAND_JSON_FLAG(common),
    };
    const struct lh_command command = {
        .usage = "[OPTION]...",
        .summary = "Lists the chunkservers that the master knows.",
        .flags = table,
        .count = sizeof table / sizeof table[0],
        .run = list_servers,
        .options = &common,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- recall ------------------------------------------------------------------------------- */

static void print_recall(const struct lh_recall_result *r, bool json)
{
    if (json) {
        lh_command_print_json(json_pack("{s:I, s:I, s:s, s:s, s:I}", "chunk", (json_int_t)r->chunk,
            "version", (json_int_t)r->version, "old_primary", r->old_primary, "new_primary",
            r->new_primary, "lease_left_ms", (json_int_t)r->lease_left_ms));
        return;
    }
    (void)printf("chunk %" PRIu64 ": primary %s -> %s, version %" PRIu64 "\n", r->chunk,
        or_dash(r->old_primary), or_dash(r->new_primary), r->version);
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
        LH_COMMAND_MASTER_FLAGS(o.common),
        {.name = "only-release",
            .type = LH_FLAG_BOOL,
            .value = &o.only_release,
            .help = "give the chunk to nobody until somebody appends"},
        LH_COMMAND_JSON_FLAG(o.common),
    };
    const struct lh_command command = {
        .usage = "[OPTION]... CHUNK|PATH",
        .summary =
            "Asks the primary of a chunk (of a file's last chunk) to give its lease up now, "
            "and gives the\nchunk to another member. Nothing that is being appended is lost.",
        .flags = table,
        .count = sizeof table / sizeof table[0],
        .args_min = 1,
        .args_max = 1,
        .run = recall,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
