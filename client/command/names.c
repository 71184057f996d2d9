/* `leasehold holders`, `cancel`: who has which lock. */
#include "client/command/command.h"

#include "client/command/json.h"
#include "client/command/table.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/plural.h"

/* --- holders ------------------------------------------------------------------------------ */

static void holder_row(
    struct lh_table *table, const struct lh_name_info *n, const struct lh_lock_holder *h)
{
    char left[32];

    lh_table_add(table, "%s", n->name);
    lh_table_add(table, "%s", h == NULL ? "free" : h->shared ? "shared" : "exclusive");
    if (h == NULL) {
        for (unsigned i = 0; i < 5; i++)
            lh_table_add(table, "-");
    } else {
        lh_table_add(table, "%" PRIu64, h->token);
        lh_table_add(table, "%s%s", lh_command_duration(left, h->left_ms), h->cut ? ", ends" : "");
        lh_table_add(table, "%s", lh_command_or_dash(h->label));
        lh_table_add(table, "%s", lh_command_or_dash(h->host));
        lh_table_add(table, "%s", lh_command_or_dash(h->process));
    }
    lh_table_add(table, "%" PRIu64, n->waiting);
}

static void name_rows(struct lh_table *table, const struct lh_name_info *n)
{
    for (size_t i = 0; i < n->holder_count; i++)
        holder_row(table, n, &n->holders[i]);
    if (n->holder_count == 0 && n->waiting > 0)
        holder_row(table, n, NULL);
}

static void tell_who_is_away(const char *command, const struct lh_name_list *list)
{
    char left[32];

    if (list->sessions_away > 0)
        (void)lh_command_error(0, command,
            "%" PRIu64 " session%s %s not back since the last master: until %s, for %s at most, "
            "no lock is granted and no value changed",
            list->sessions_away, lh_plural(list->sessions_away),
            lh_one_or_many(list->sessions_away, "is", "are"),
            lh_one_or_many(list->sessions_away, "it is", "they are"),
            lh_command_duration(left, list->waiting_ms));
}

static int holders(void *options, struct lh_cluster *cluster, const char **args)
{
    static const char *const titles[] = {
        "name", "mode", ">token", ">left", "label", "host", "process", ">waiting", NULL};
    const struct lh_command_common *common = options;
    const char *prefix = args[0] != NULL ? args[0] : "";
    char *after = NULL;
    struct lh_table table;
    json_t *json = json_array();
    int code = LH_EXIT_OK;

    lh_table_init(&table, titles);
    for (bool more = true; more && code == LH_EXIT_OK;) {
        struct lh_name_list list = {0};
        int error = lh_names(cluster, prefix, after, 0, lh_command_timeout_ms(common), &list);
        if (error != LH_OK) {
            code = lh_command_failed("holders", prefix, error);
            break;
        }
        for (size_t i = 0; i < list.count; i++) {
            const struct lh_name_info *n = &list.names[i];
            if (!common->json)
                name_rows(&table, n);
            else if (n->holder_count > 0 || n->waiting > 0)
                (void)json_array_append_new(json, lh_json_name(n));
        }
        if (after == NULL)
            tell_who_is_away("holders", &list);
        more = list.more && list.count > 0;
        free(after);
        after = more ? lh_strdup(list.names[list.count - 1].name) : NULL;
        lh_name_list_deinit(&list);
    }
    free(after);
    if (code == LH_EXIT_OK && !common->json)
        lh_table_print(&table);
    lh_json_finish(code == LH_EXIT_OK && common->json, lh_json_list("names", json));
    lh_table_deinit(&table);
    return code;
}

int lh_command_holders(int argc, char **argv)
{
    struct lh_command_common common = {0};
    const struct lh_command command = {
        .usage = "[OPTION]... [NAME|PREFIX]",
        .summary =
            "Lists who holds the locks whose names begin with NAME or PREFIX, or all, and how many "
            "wait.\n\"left\" is for how long at most if the holder is not heard of again; "
            "\"ends\": it is not\nrenewed any more.",
        .args_max = 1,
        .run = holders,
        .options = &common,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- cancel ------------------------------------------------------------------------------- */

struct cancel_options {
    struct lh_command_common common;
    uint64_t token;
    const char *why;
};

static int cancel(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct cancel_options *o = options;
    uint64_t begun_ms = lh_command_now_ms();
    int error = lh_cancel(cluster, args[0], o->token, o->why, lh_command_timeout_ms(&o->common));
    uint64_t took_ms = lh_command_now_ms() - begun_ms;
    char took[32];

    if (error == LH_ERR_LEASE_HELD || error == LH_ERR_DEADLINE_EXCEEDED) {
        (void)lh_command_failed("cancel", args[0], error);
        return lh_command_error(LH_EXIT_UNKNOWN, "cancel",
            "%s: the holder was told to stop, and the lock is not over yet; it will be at the end "
            "that leasehold holders shows",
            args[0]);
    }
    if (error != LH_OK)
        return lh_command_failed("cancel", args[0], error);
    if (o->common.json)
        lh_command_print_json(
            json_pack("{s:o, s:I}", "name", lh_json_text(args[0]), "took_ms", (json_int_t)took_ms));
    else
        (void)printf("%s: cancelled, the lock is over after %s\n", lh_command_shown(args[0]),
            lh_command_duration(took, took_ms));
    return LH_EXIT_OK;
}

int lh_command_cancel(int argc, char **argv)
{
    struct cancel_options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("token", UINT, &o.token, "0"), .command_line_only = true,
            .help = "only if it is held with this token; 0: whoever holds it"},
        {LH_FLAG("why", STRING, &o.why, "cancelled by an operator"), .metavar = "TEXT",
            .help = "what its holder is told"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... NAME",
        .summary =
            "Ends the lock NAME. Its holder is told to stop, and the lock is not renewed any more. "
            "Returns when\nit is over: when its holder has released it, or at the end that it "
            "had. Nobody gets it before.",
        LH_FLAG_ROWS(table),
        .args_min = 1,
        .args_max = 1,
        .run = cancel,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
