/* `leasehold policy`: what holds for names under a prefix (NL-4, NL-5, VAL-5). */
#include "client/command/command.h"

#include "client/command/json.h"
#include "client/command/table.h"

#include <inttypes.h>
#include <string.h>

#define COMMAND "policy"

struct options {
    struct lh_command_common common;
    struct lh_flag_list set;
    bool remove;
};

/* What follows "KEY=" in `text`; NULL: it is another key's. */
static const char *value_of(const char *text, const char *key)
{
    size_t length = strlen(key);

    return strncmp(text, key, length) == 0 && text[length] == '=' ? text + length + 1 : NULL;
}

static bool set_term(const char *text, uint64_t *ms)
{
    struct lh_duration d;

    if (!lh_parse_duration(text, &d) || lh_duration_ms(d) == 0)
        return false;
    *ms = lh_duration_ms(d);
    return true;
}

static bool set_one(const char *text, struct lh_policy *p)
{
    const char *value;
    uint64_t percent;

    if (strcmp(text, "default") == 0)
        return true;
    if (strcmp(text, "no-recall") == 0)
        return p->no_recall = true;
    if (strcmp(text, "no-lease") == 0)
        return p->no_lease = true;
    if (strcmp(text, "broadcast") == 0)
        return p->broadcast = true;
    if ((value = value_of(text, "term-min")) != NULL)
        return set_term(value, &p->term_min_ms);
    if ((value = value_of(text, "term-max")) != NULL)
        return set_term(value, &p->term_max_ms);
    if ((value = value_of(text, "share")) == NULL || !lh_parse_uint(value, &percent) ||
        percent == 0 || percent > 100)
        return false;
    p->share_percent = (uint32_t)percent;
    return true;
}

static json_t *policy_json(const struct lh_policy *p)
{
    return json_pack("{s:o, s:b, s:I, s:I, s:I, s:b, s:b}", "prefix", lh_json_text(p->prefix),
        "no_recall", (int)p->no_recall, "share_percent", (json_int_t)p->share_percent,
        "term_min_ms", (json_int_t)p->term_min_ms, "term_max_ms", (json_int_t)p->term_max_ms,
        "no_lease", (int)p->no_lease, "broadcast", (int)p->broadcast);
}

static void policy_row(struct lh_table *table, const struct lh_policy *p)
{
    char text[32];

    lh_table_add(table, "%s", p->prefix);
    lh_table_add(table, "%s", p->no_recall ? "no" : "yes");
    if (p->broadcast || p->no_lease)
        lh_table_add(table, "%s", p->broadcast ? "broadcast" : "time to live");
    else
        lh_table_add(table, "lease");
    if (p->share_percent == 0)
        lh_table_add(table, "default");
    else
        lh_table_add(table, "%" PRIu32 " %%", p->share_percent);
    lh_table_add(
        table, "%s", p->term_min_ms == 0 ? "default" : lh_command_duration(text, p->term_min_ms));
    lh_table_add(
        table, "%s", p->term_max_ms == 0 ? "default" : lh_command_duration(text, p->term_max_ms));
}

/* Policies that the caller may not see are not listed. Whether it may is seen from the names that
 * begin so. */
static int not_there(const struct options *o, struct lh_cluster *cluster, const char *prefix)
{
    struct lh_name_list names = {0};
    char text[512];

    if (lh_names(cluster, prefix, NULL, 1, lh_command_timeout_ms(&o->common), &names) ==
        LH_ERR_PERMISSION)
        return lh_command_failed(COMMAND, prefix, LH_ERR_PERMISSION);
    lh_name_list_deinit(&names);
    (void)snprintf(text, sizeof text, "there is no policy for %s", prefix);
    return lh_command_refused(COMMAND, prefix, LH_ERR_NOT_FOUND, text);
}

/* `prefix`: only the one for it; NULL: all. */
static int list(const struct options *o, struct lh_cluster *cluster, const char *prefix)
{
    static const char *const titles[] = {
        "prefix", "recall", "cached by", ">share", ">term at least", ">at most", NULL};
    struct lh_policy_list policies = {0};
    struct lh_table table;
    json_t *json = json_array();
    size_t found = 0;
    int error = lh_policies(cluster, lh_command_timeout_ms(&o->common), &policies);

    lh_table_init(&table, titles);
    for (size_t i = 0; error == LH_OK && i < policies.count; i++) {
        const struct lh_policy *p = &policies.policies[i];
        if (prefix != NULL && strcmp(p->prefix, prefix) != 0)
            continue;
        found++;
        if (o->common.json)
            (void)json_array_append_new(json, policy_json(p));
        else
            policy_row(&table, p);
    }
    int code = error == LH_OK ? LH_EXIT_OK : lh_command_failed(COMMAND, prefix, error);
    if (error == LH_OK && prefix != NULL && found == 0)
        code = not_there(o, cluster, prefix);
    if (code == LH_EXIT_OK && !o->common.json)
        lh_table_print(&table);
    lh_json_finish(code == LH_EXIT_OK && o->common.json, lh_json_list("policies", json));
    lh_table_deinit(&table);
    lh_policy_list_deinit(&policies);
    return code;
}

static int set(const struct options *o, struct lh_cluster *cluster, const char *prefix)
{
    struct lh_policy p = {.prefix = (char *)(uintptr_t)prefix};

    for (size_t i = 0; i < o->set.count; i++)
        if (!set_one(o->set.items[i], &p))
            return lh_command_error(LH_EXIT_USAGE, COMMAND,
                "--set %s: give no-recall, no-lease, broadcast, share=1..100, term-min=D, "
                "term-max=D or "
                "default",
                o->set.items[i]);
    int error = lh_set_policy(cluster, &p, o->remove, lh_command_timeout_ms(&o->common));
    if (error != LH_OK)
        return lh_command_failed(COMMAND, prefix, error);
    if (o->common.json)
        lh_command_print_json(json_pack("{s:o, s:b}", "policy",
            o->remove ? json_null() : policy_json(&p), "removed", o->remove));
    else
        (void)printf("%s: policy %s\n", lh_command_shown(prefix), o->remove ? "removed" : "set");
    return LH_EXIT_OK;
}

static int run(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct options *o = options;
    bool changes = o->remove || o->set.count > 0;

    if (changes && args[0] == NULL)
        return lh_command_error(
            LH_EXIT_USAGE, COMMAND, "give the prefix: it ends in \"/\", or is a whole name");
    if (o->remove && o->set.count > 0)
        return lh_command_error(LH_EXIT_USAGE, COMMAND, "--set or --remove, not both");
    return changes ? set(o, cluster, args[0]) : list(o, cluster, args[0]);
}

int lh_command_policy(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("set", LIST, &o.set, NULL), .metavar = "WHAT,...", .command_line_only = true,
            .help =
                "no-recall, share=PERCENT, term-min=D, term-max=D, no-lease, broadcast, default; "
                "what is not named gets its default"},
        {LH_FLAG("remove", BOOL, &o.remove, NULL), .command_line_only = true,
            .help = "what holds for shorter prefixes holds again"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... [PREFIX]",
        .summary =
            "Lists the policies, or that of PREFIX, or changes it. For a name the longest prefix "
            "holds. A policy\nsays whether the holders of a lock are asked for it when others "
            "wait, and how values are cached:\nby leases (for a share of the time since the last "
            "change, between two bounds), with a time to\nlive, or by broadcast.",
        LH_FLAG_ROWS(table),
        .args_max = 1,
        .run = run,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
