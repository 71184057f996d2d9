/* `leasehold servers`: the chunkservers, and the repair of what they keep. */
#include "client/command/command.h"

#include "client/command/json.h"
#include "client/command/table.h"
#include "client/command/trouble.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void state_cell(struct lh_table *table, const struct lh_server_info *s)
{
    char away[32];
    lh_table_add(table, "%s%s%s%s%s", lh_command_server_state(s),
        s->live || s->away_ms == 0 ? "" : " for ",
        s->live || s->away_ms == 0 ? "" : lh_command_duration(away, s->away_ms),
        s->admin == LH_SERVER_ACTIVE ? "" : ", ",
        s->admin == LH_SERVER_ACTIVE ? "" : lh_command_server_admin(s->admin));
}

/* What the repair does with this server. */
static void repair_cell(struct lh_table *table, const struct lh_server_info *s)
{
    char text[160], grace[32];
    int n = 0;
    text[0] = '\0';
    if (s->copies_in > 0)
        n += snprintf(text, sizeof text, "%" PRIu64 " in", s->copies_in);
    if (s->copies_out > 0)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%" PRIu64 " out", n > 0 ? ", " : "",
            s->copies_out);
    if (s->replicas_to_move > 0)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%" PRIu64 " to move", n > 0 ? ", " : "",
            s->replicas_to_move);
    if (!s->live && s->grace_left_ms > 0)
        n += snprintf(text + n, sizeof text - (size_t)n, "%sreplaced in %s", n > 0 ? ", " : "",
            lh_command_duration(grace, s->grace_left_ms));
    lh_table_add(table, "%s", n > 0 ? text : "-");
}

static void server_row(struct lh_table *table, const struct lh_server_info *s)
{
    char text[32];
    lh_table_add(table, "%s", s->server_id);
    lh_table_add(table, "%s", lh_command_or_dash(s->address));
    state_cell(table, s);
    lh_table_add(table, "%s", s->live ? lh_command_duration(text, s->session_left_ms) : "-");
    lh_table_add(table, "%" PRIu64, s->primaries);
    lh_table_add(table, "%" PRIu64, s->replicas);
    uint64_t used = s->capacity_bytes > s->free_bytes ? s->capacity_bytes - s->free_bytes : 0;
    lh_table_add(table, "%s", lh_command_bytes(text, used));
    lh_table_add(table, "%s", lh_command_bytes(text, s->free_bytes));
    repair_cell(table, s);
    lh_table_add(table, "%s", s->safe_to_stop ? "yes" : "no");
    lh_table_add(table, "%s", lh_command_or_dash(s->failure_domain));
}

static void warn(void *arg, const char *sentence)
{
    (void)arg;
    (void)lh_command_error(0, "servers", "%s", sentence);
}

static void print_servers(const struct lh_server_list *list)
{
    static const char *const titles[] = {"server", "address", "state", ">session left",
        ">primaries", ">replicas", ">used", ">free", "repair", "safe to stop", "failure domain",
        NULL};
    struct lh_table table;
    char session[32], chunk[32], repair[LH_TROUBLE_REPAIR_BYTES];
    lh_table_init(&table, titles);
    for (size_t i = 0; i < list->count; i++)
        server_row(&table, &list->servers[i]);
    lh_table_print(&table);
    lh_table_deinit(&table);
    (void)printf("cluster %s, master term %" PRIu64 ", session term %s, chunk lease term %s\n",
        lh_command_shown(list->cluster_id), list->master_term,
        lh_command_duration(session, list->session_term_ms),
        lh_command_duration(chunk, list->chunk_term_ms));
    (void)puts(lh_trouble_repair(repair, &list->repair));
}

static json_t *servers_json(const struct lh_server_list *list)
{
    json_t *servers = json_array();
    json_t *refused = json_array();
    for (size_t i = 0; i < list->count; i++)
        (void)json_array_append_new(servers, lh_json_server(&list->servers[i]));
    for (size_t i = 0; i < list->refused_count; i++)
        (void)json_array_append_new(refused, lh_json_refused(&list->refused[i]));
    return json_pack("{s:o, s:I, s:I, s:I, s:o, s:b, s:o, s:o, s:o, s:o}", "cluster_id",
        lh_json_text(list->cluster_id), "master_term", (json_int_t)list->master_term,
        "session_term_ms", (json_int_t)list->session_term_ms, "chunk_term_ms",
        (json_int_t)list->chunk_term_ms, "repair", lh_json_repair(&list->repair), "deleting",
        (int)list->deleting, "deleting_text", lh_json_text(list->deleting_text), "figures",
        lh_json_figures(&list->figures), "servers", servers, "refused", refused);
}

static int by_name(const void *a, const void *b)
{
    const struct lh_server_info *x = a, *y = b;
    return strcmp(x->server_id, y->server_id);
}

static int list_servers(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct lh_command_common *common = options;
    struct lh_server_list list = {0};
    int error = lh_servers(cluster, lh_command_timeout_ms(common), &list);
    (void)args;
    if (error != LH_OK)
        return lh_command_failed("servers", NULL, error);
    if (list.count > 0)
        qsort(list.servers, list.count, sizeof *list.servers, by_name);
    if (common->json)
        lh_command_print_json(servers_json(&list));
    else
        print_servers(&list);
    lh_trouble_of_servers(&list, warn, NULL);
    lh_server_list_deinit(&list);
    return LH_EXIT_OK;
}

int lh_command_servers(int argc, char **argv)
{
    struct lh_command_common common = {0};
    const struct lh_command command = {
        .usage = "[OPTION]...",
        .summary = "Lists the chunkservers that the master knows, what each has and does, whether "
                   "it is drained\nand can be switched off for good (safe to stop), and how the "
                   "repair of all chunks goes on.",
        .run = list_servers,
        .options = &common,
    };
    return lh_command_run(&command, argc, argv);
}
