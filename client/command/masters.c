/* `leasehold masters`: which masters there are, and which of them acts; another one takes over; one
 * that is gone is forgotten. */
#include "client/command/command.h"

#include "base/plural.h"
#include "client/command/json.h"
#include "client/command/table.h"
#include "client/command/trouble.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "masters"

struct options {
    struct lh_command_common common;
    const char *transfer; /* to whom; "": to any; NULL: not wanted */
    const char *forget;   /* whom; NULL: not wanted */
};

/* --- the list ----------------------------------------------------------------------------- */

static void state_cell(struct lh_table *table, const struct lh_master_info *m)
{
    char text[32], word[32];
    size_t n = 0;

    for (; m->state[n] != '\0' && n + 1 < sizeof word; n++)
        word[n] = (char)tolower((unsigned char)m->state[n]);
    word[n] = '\0';
    if (!m->answered)
        lh_table_add(table, "no answer");
    else if (m->state_ms == 0)
        lh_table_add(table, "%s", word);
    else
        lh_table_add(table, "%s for %s", word, lh_command_duration(text, m->state_ms));
}

/* A standby that some chunkservers reach while the active master does not is what is to be seen. */
static void servers_cell(struct lh_table *table, const struct lh_master_info *m)
{
    if (m->acting && m->master_id[0] != '\0')
        lh_table_add(table, "%" PRIu64, m->servers);
    else if (m->servers > 0)
        lh_table_add(table, "hears %" PRIu64, m->servers);
    else
        lh_table_add(table, "-");
}

static void master_row(struct lh_table *table, const struct lh_master_info *m)
{
    lh_table_add(table, "%s", lh_command_or_dash(m->master_id));
    lh_table_add(table, "%s", m->address);
    state_cell(table, m);
    if (m->reign > 0)
        lh_table_add(table, "%" PRIu64, m->reign);
    else
        lh_table_add(table, "-");
    if (!m->follows)
        lh_table_add(table, "-");
    else if (m->behind == 0)
        lh_table_add(table, "up to date");
    else
        lh_table_add(table, "%" PRIu64 " revision%s behind", m->behind, lh_plural(m->behind));
    servers_cell(table, m);
}

static const char *id_or_address(const struct lh_master_info *m)
{
    return m->master_id[0] != '\0' ? m->master_id : m->address;
}

static const char *trouble(const struct lh_master_list *list)
{
    if (list->store_trouble[0] != '\0')
        return lh_command_shown(list->store_trouble);
    return list->active[0] == '\0' ? "nothing is known of it: no master acts" : "no trouble known";
}

static void print_store(const struct lh_master_list *list)
{
    char bytes[32], term[32];

    if (!list->shared) {
        (void)puts("a single master: it shares its store with no other one");
        return;
    }
    (void)printf("reign %" PRIu64, list->reign);
    for (size_t i = 0; i < list->count; i++)
        if (list->masters[i].acting && strcmp(list->masters[i].address, list->active) == 0)
            (void)printf(" of %s", lh_command_shown(id_or_address(&list->masters[i])));
    (void)printf(", reign term %s; store: etcd", lh_command_duration(term, list->reign_term_ms));
    if (list->store_bytes > 0)
        (void)printf(", %s", lh_command_bytes(bytes, list->store_bytes));
    (void)printf(", %s\n", trouble(list));
}

static void print_masters(const struct lh_master_list *list)
{
    static const char *const titles[] = {
        "master", "address", "state", ">reign", "copy", "chunkservers", NULL};
    struct lh_table table;

    lh_table_init(&table, titles);
    for (size_t i = 0; i < list->count; i++)
        master_row(&table, &list->masters[i]);
    lh_table_print(&table);
    lh_table_deinit(&table);
}

static void warn(void *arg, const char *sentence)
{
    (void)arg;
    (void)lh_command_error(0, COMMAND, "%s", sentence);
}

static json_t *masters_json(const struct lh_master_list *list)
{
    json_t *masters = json_array();

    for (size_t i = 0; i < list->count; i++)
        (void)json_array_append_new(masters, lh_json_master(&list->masters[i]));
    return json_pack("{s:b, s:o, s:I, s:I, s:I, s:o, s:o}", "shared", (int)list->shared, "active",
        lh_json_text(list->active), "reign", (json_int_t)list->reign, "reign_term_ms",
        (json_int_t)list->reign_term_ms, "store_bytes", (json_int_t)list->store_bytes,
        "store_trouble", lh_json_text(list->store_trouble), "masters", masters);
}

static int by_name(const void *a, const void *b)
{
    const struct lh_master_info *x = a, *y = b;
    int ids = strcmp(x->master_id, y->master_id);

    return ids != 0 ? ids : strcmp(x->address, y->address);
}

static int list_masters(const struct options *o, struct lh_cluster *cluster)
{
    struct lh_master_list list = {0};
    int error = lh_masters(cluster, lh_command_timeout_ms(&o->common), &list);
    int code = error == LH_OK ? LH_EXIT_OK : lh_command_failed(COMMAND, NULL, error);

    if (error != LH_OK && error != LH_ERR_UNAVAILABLE)
        return code;
    if (list.count > 0)
        qsort(list.masters, list.count, sizeof *list.masters, by_name);
    if (o->common.json) {
        lh_command_print_json(masters_json(&list));
    } else {
        print_masters(&list);
        if (error == LH_OK)
            print_store(&list);
    }
    if (error == LH_OK)
        lh_trouble_of_masters(&list, warn, NULL);
    lh_master_list_deinit(&list);
    return code;
}

/* --- transferring ------------------------------------------------------------------------- */

static int transfer(const struct options *o, struct lh_cluster *cluster)
{
    struct lh_transfer_result r = {0};
    int error = lh_transfer(cluster, o->transfer, lh_command_timeout_ms(&o->common), &r);
    int code = LH_EXIT_OK;

    if (error != LH_OK)
        return lh_command_failed(COMMAND, NULL, error);
    if (o->common.json)
        lh_command_print_json(json_pack("{s:o, s:o, s:I, s:I, s:I}", "from", lh_json_text(r.from),
            "to", lh_json_text(r.to), "old_reign", (json_int_t)r.old_reign, "reign",
            (json_int_t)r.reign, "took_ms", (json_int_t)r.took_ms));
    else if (r.reign == r.old_reign)
        (void)printf("%s is the active master already, in reign %" PRIu64 "\n",
            lh_command_shown(r.to), r.reign);
    else
        (void)printf("%s has resigned, %s is the active master after %" PRIu64
                     " ms, in reign %" PRIu64 "\n",
            lh_command_shown(r.from), lh_command_shown(r.to), r.took_ms, r.reign);
    if (o->transfer[0] != '\0' && strcmp(o->transfer, r.to) != 0)
        code = lh_command_error(
            LH_EXIT_FAILED, COMMAND, "%s took over instead of %s", r.to, o->transfer);
    lh_transfer_result_deinit(&r);
    return code;
}

static int forget(const struct options *o, struct lh_cluster *cluster)
{
    int error = lh_forget_master(cluster, o->forget, lh_command_timeout_ms(&o->common));

    if (error != LH_OK)
        return lh_command_failed(COMMAND, NULL, error);
    if (o->common.json)
        lh_command_print_json(json_pack("{s:o}", "forgotten", lh_json_text(o->forget)));
    else
        (void)printf("%s is forgotten\n", lh_command_shown(o->forget));
    return LH_EXIT_OK;
}

static int run(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct options *o = options;

    (void)args;
    if (o->forget != NULL && o->transfer != NULL)
        return lh_command_error(
            LH_EXIT_USAGE, COMMAND, "--forget and --transfer do not go together");
    if (o->forget != NULL)
        return forget(o, cluster);
    return o->transfer == NULL ? list_masters(o, cluster) : transfer(o, cluster);
}

int lh_command_masters(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("transfer", STRING, &o.transfer, NULL), .metavar = "ID", .bare = "",
            .command_line_only = true,
            .help = "have the active master resign, and wait until ID, or any other one, acts"},
        {LH_FLAG("forget", STRING, &o.forget, NULL), .metavar = "ID", .command_line_only = true,
            .help = "delete the record of a master that is gone"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]...",
        .summary = "Lists the masters, asking each of them, those that others name too: which one "
                   "is active, since\nwhen, and whether the others could take over.",
        LH_FLAG_ROWS(table),
        .run = run,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
