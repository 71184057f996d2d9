/* `leasehold sessions`: the programs that hold leases. */
#include "client/command/command.h"

#include "client/command/json.h"
#include "client/command/table.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *state_of(const struct lh_session_info *s)
{
    if (!s->back)
        return "not back";
    return s->linked ? "connected" : "away";
}

static void session_row(struct lh_table *table, const struct lh_session_info *s)
{
    char left[32];

    lh_table_add(table, "%s", s->id);
    lh_table_add(table, "%s", state_of(s));
    lh_table_add(table, "%s", lh_command_duration(left, s->left_ms));
    lh_table_add(table, "%" PRIu64, s->locks);
    lh_table_add(table, "%" PRIu64, s->waiting);
    lh_table_add(table, "%" PRIu64, s->values);
    lh_table_add(table, "%" PRIu64, s->attached);
    lh_table_add(table, "%s", lh_command_or_dash(s->label));
    lh_table_add(table, "%s", lh_command_or_dash(s->host));
    lh_table_add(table, "%s", lh_command_or_dash(s->process));
}

static json_t *session_json(const struct lh_session_info *s)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:s, s:b, s:b, s:I, s:I, s:I, s:I}", "session",
        lh_json_text(s->id), "label", lh_json_text(s->label), "host", lh_json_text(s->host),
        "process", lh_json_text(s->process), "term_ms", (json_int_t)s->term_ms, "left_ms",
        (json_int_t)s->left_ms, "state", state_of(s), "back", (int)s->back, "linked",
        (int)s->linked, "locks", (json_int_t)s->locks, "waiting", (json_int_t)s->waiting, "values",
        (json_int_t)s->values, "attached", (json_int_t)s->attached);
}

static int run(void *options, struct lh_cluster *cluster, const char **args)
{
    static const char *const titles[] = {"session", "state", ">left", ">locks", ">waiting",
        ">cached", ">attached", "label", "host", "process", NULL};
    const struct lh_command_common *common = options;
    char *after = NULL;
    struct lh_table table;
    json_t *json = json_array();
    int code = LH_EXIT_OK;

    (void)args;
    lh_table_init(&table, titles);
    for (bool more = true; more;) {
        struct lh_session_list list = {0};
        int error = lh_sessions(cluster, after, 0, lh_command_timeout_ms(common), &list);
        if (error != LH_OK) {
            code = lh_command_failed("sessions", NULL, error);
            break;
        }
        for (size_t i = 0; i < list.count; i++) {
            if (common->json)
                (void)json_array_append_new(json, session_json(&list.sessions[i]));
            else
                session_row(&table, &list.sessions[i]);
        }
        more = list.more && list.count > 0;
        free(after);
        after = more ? lh_strdup(list.sessions[list.count - 1].id) : NULL;
        lh_session_list_deinit(&list);
    }
    free(after);
    if (code == LH_EXIT_OK && !common->json)
        lh_table_print(&table);
    lh_json_finish(code == LH_EXIT_OK && common->json, lh_json_list("sessions", json));
    lh_table_deinit(&table);
    return code;
}

int lh_command_sessions(int argc, char **argv)
{
    struct lh_command_common common = {0};
    const struct lh_command command = {
        .usage = "[OPTION]...",
        .summary =
            "Lists the programs that have a session: locks that they hold, requests that wait, "
            "values that\nthey cache, and values that are attached to the session. States: "
            "connected; away: without a\nconnection, until \"left\" is over; not back: of the "
            "last master.",
        .run = run,
        .options = &common,
    };
    return lh_command_run(&command, argc, argv);
}
