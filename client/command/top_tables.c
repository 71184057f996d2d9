/* `leasehold top`: servers, leases and locks as tables; see top_tables.h. */
#include "client/command/top_tables.h"

#include "client/command/command.h"
#include "client/command/top_rows.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct lh_top_sample *lh_top_shown(const struct lh_top_history *h)
{
    return h->count > 0 ? h->good[h->count - 1] : NULL;
}

const char *lh_top_rate_text(char text[LH_TOP_RATE_BYTES], double rate)
{
    if (rate < 0)
        (void)snprintf(text, LH_TOP_RATE_BYTES, "-");
    else
        (void)snprintf(text, LH_TOP_RATE_BYTES, rate < 10 ? "%.1f" : "%.0f", rate);
    return text;
}

const char *lh_top_bytes_rate_text(char text[LH_TOP_RATE_BYTES], double rate)
{
    char bytes[32];

    if (rate < 0)
        (void)snprintf(text, LH_TOP_RATE_BYTES, "-");
    else
        (void)snprintf(text, LH_TOP_RATE_BYTES, "%s", lh_command_bytes(bytes, (uint64_t)rate));
    return text;
}

/* --- servers ------------------------------------------------------------------------------ */

struct server_row {
    const struct lh_server_info *info;
    double batches, bytes;
    unsigned trouble;
};

static unsigned trouble_of(const struct lh_server_info *s)
{
    if (!s->live)
        return 4;
    if (s->failing || !s->reachable || s->unheard[0] != '\0')
        return 3;
    return s->obstacle[0] != '\0' ? 2 : s->admin != LH_SERVER_ACTIVE ? 1 : 0;
}

/* The larger one first. */
static int falling(double a, double b)
{
    return (a < b) - (a > b);
}

static int compare_servers(const void *a, const void *b, void *arg)
{
    const struct server_row *x = a, *y = b;
    unsigned sort = *(const unsigned *)arg;
    int order = 0;

    if (sort == 0)
        order = falling(x->trouble, y->trouble);
    else if (sort == 1)
        order = falling(x->bytes, y->bytes);
    else if (sort == 2)
        order = -falling((double)x->info->free_bytes, (double)y->info->free_bytes);
    return order != 0 ? order : strcmp(x->info->server_id, y->info->server_id);
}

static void server_cells(struct lh_top_table *table, const struct server_row *row)
{
    const struct lh_server_info *s = row->info;
    char away[32], text[32], rate[LH_TOP_RATE_BYTES];
    uint64_t used = s->capacity_bytes > s->free_bytes ? s->capacity_bytes - s->free_bytes : 0;

    lh_top_cell(table, "%s", s->server_id);
    lh_top_cell(table, "%s%s%s%s", lh_command_server_state(s), s->live ? "" : " ",
        s->live ? "" : lh_command_duration(away, s->away_ms),
        s->safe_to_stop                  ? ", safe to stop"
        : s->admin == LH_SERVER_DRAINING ? ", draining"
        : s->admin == LH_SERVER_ACTIVE   ? ""
                                         : ", leaving");
    lh_top_cell(table, "%" PRIu64, s->primaries);
    lh_top_cell(table, "%s", lh_top_rate_text(rate, row->batches));
    lh_top_cell(table, "%s", lh_top_bytes_rate_text(rate, row->bytes));
    lh_top_cell(table, "%s", lh_command_bytes(text, s->free_bytes));
    lh_top_cell(table, "%.0f %%",
        s->capacity_bytes > 0 ? 100.0 * (double)used / (double)s->capacity_bytes : 0);
    lh_top_cell(table, "%" PRIu64, s->replicas);
    if (s->copies_in + s->copies_out + s->replicas_to_move == 0)
        lh_top_cell(table, "-");
    else
        lh_top_cell(table, "%" PRIu64 " in %" PRIu64 " out %" PRIu64 " to move", s->copies_in,
            s->copies_out, s->replicas_to_move);
    lh_top_cell(table, "%s", lh_command_or_dash(s->address));
    lh_top_cell(table, "%s", lh_command_or_dash(s->failure_domain));
}

void lh_top_servers(const struct lh_top_history *h, unsigned sort, struct lh_top_rows *rows)
{
    static const char *const titles[] = {"server", "state", ">leases", ">app/s", ">bytes/s",
        ">free", ">used", ">replicas", "repair", "address", "failure domain", NULL};
    const struct lh_server_list *list = &lh_top_shown(h)->servers;
    struct server_row *all = lh_alloc_array(list->count + 1, sizeof *all);
    struct lh_top_table table;

    for (size_t i = 0; i < list->count; i++) {
        all[i] = (struct server_row){.info = &list->servers[i]};
        all[i].trouble = trouble_of(all[i].info);
        lh_top_server_rates(h, all[i].info, &all[i].batches, &all[i].bytes);
    }
    qsort_r(all, list->count, sizeof *all, compare_servers, &sort);
    lh_top_table_init(&table, titles);
    for (size_t i = 0; i < list->count; i++) {
        lh_top_table_row(&table, all[i].trouble >= 3   ? LH_TOP_BAD
                                 : all[i].trouble >= 1 ? LH_TOP_WARN
                                                       : LH_TOP_PLAIN);
        server_cells(&table, &all[i]);
    }
    lh_top_table_end(&table, rows);
    free(all);
}

/* --- leases ------------------------------------------------------------------------------- */

struct lease_row {
    const struct lh_lease_info *info;
    double rate;
    unsigned changing;
};

static int compare_leases(const void *a, const void *b, void *arg)
{
    const struct lease_row *x = a, *y = b;
    unsigned sort = *(const unsigned *)arg;
    int order = 0;

    if (sort == 0) {
        order = falling(x->changing, y->changing);
        if (order == 0 && x->changing > 0)
            order = -falling((double)x->info->left_ms, (double)y->info->left_ms);
    } else if (sort == 1) {
        order = falling(x->rate, y->rate);
    } else if (sort == 2) {
        order = strcmp(x->info->path, y->info->path);
    }
    return order != 0 ? order
                      : (x->info->chunk > y->info->chunk) - (x->info->chunk < y->info->chunk);
}

static void lease_cells(struct lh_top_table *table, const struct lease_row *row)
{
    const struct lh_lease_info *l = row->info;
    char left[32], rate[LH_TOP_RATE_BYTES];
    const char *state = l->state;

    if (row->changing == 4)
        state = strcmp(l->state, "HELD") == 0 ? "HELD, not heard of" : l->state;
    else if (row->changing == 2)
        state = "HELD, not renewed";
    lh_top_cell(table, "%" PRIu64, l->chunk);
    lh_top_cell(table, "%" PRIu64, l->version);
    lh_top_cell(table, "%s", state);
    lh_top_cell(table, "%s", lh_command_or_dash(l->primary));
    lh_top_cell(table, "%s", l->primary[0] != '\0' ? lh_command_duration(left, l->left_ms) : "-");
    lh_top_cell(table, "%s", lh_top_rate_text(rate, row->rate));
    lh_top_cell(table, "%" PRIu32 "/%" PRIu32, l->members, l->replication);
    lh_top_cell(table, "%s", l->path);
}

/* All of them, sorted. To be freed. */
static struct lease_row *sorted_leases(const struct lh_top_history *h, unsigned sort)
{
    const struct lh_top_sample *sample = lh_top_shown(h);
    struct lease_row *all = lh_alloc_array(sample->lease_count + 1, sizeof *all);

    for (size_t i = 0; i < sample->lease_count; i++) {
        all[i] = (struct lease_row){.info = &sample->leases[i]};
        all[i].rate = lh_top_lease_rate(h, all[i].info);
        all[i].changing = lh_top_changing(all[i].info, &sample->servers);
    }
    qsort_r(all, sample->lease_count, sizeof *all, compare_leases, &sort);
    return all;
}

static void lease_table(const struct lease_row *all, size_t count, struct lh_top_rows *rows)
{
    static const char *const titles[] = {
        ">chunk", ">version", "state", "primary", ">left", ">app/s", ">copies", "file", NULL};
    struct lh_top_table table;

    lh_top_table_init(&table, titles);
    for (size_t i = 0; i < count; i++) {
        lh_top_table_row(&table, all[i].changing >= 4   ? LH_TOP_BAD
                                 : all[i].changing >= 3 ? LH_TOP_WARN
                                                        : LH_TOP_PLAIN);
        lease_cells(&table, &all[i]);
    }
    lh_top_table_end(&table, rows);
}

void lh_top_leases(const struct lh_top_history *h, unsigned sort, struct lh_top_rows *rows)
{
    const struct lh_top_sample *sample = lh_top_shown(h);
    struct lease_row *all = sorted_leases(h, sort);

    lease_table(all, sample->lease_count, rows);
    if (sample->leases_more)
        lh_top_row(rows, LH_TOP_WARN, "there are more than these %zu leases", sample->lease_count);
    free(all);
}

void lh_top_about_to_change(const struct lh_top_history *h, struct lh_top_rows *rows)
{
    struct lease_row *all = sorted_leases(h, 0);
    size_t count = 0;

    while (count < lh_top_shown(h)->lease_count && all[count].changing > 0)
        count++;
    if (count > 0) {
        lh_top_row(rows, LH_TOP_PLAIN, "%s", "");
        lh_top_row(rows, LH_TOP_TITLE, "leases about to change: %zu", count);
        lease_table(all, count < LH_TOP_CHANGING_MAX ? count : LH_TOP_CHANGING_MAX, rows);
    }
    free(all);
}

/* --- locks -------------------------------------------------------------------------------- */

static int compare_locks(const void *a, const void *b, void *arg)
{
    const struct lh_name_info *x = *(const struct lh_name_info *const *)a,
                              *y = *(const struct lh_name_info *const *)b;
    unsigned sort = *(const unsigned *)arg;
    int order = 0;

    if (sort == 0)
        order = falling((double)x->waiting, (double)y->waiting);
    else if (sort == 1)
        order = -falling(x->holder_count > 0 ? (double)x->holders[0].left_ms : 0,
            y->holder_count > 0 ? (double)y->holders[0].left_ms : 0);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static void lock_cells(
    struct lh_top_table *table, const struct lh_name_info *n, const struct lh_lock_holder *holder)
{
    char left[32];

    lh_top_table_row(table, holder != NULL && holder->cut ? LH_TOP_WARN : LH_TOP_PLAIN);
    lh_top_cell(table, "%s", n->name);
    if (holder == NULL)
        lh_top_cell(table, "not granted");
    else
        lh_top_cell(
            table, "%s%s", holder->shared ? "shared" : "exclusive", holder->cut ? ", ends" : "");
    lh_top_cell(table, "%s", holder != NULL ? lh_command_duration(left, holder->left_ms) : "-");
    lh_top_cell(table, "%" PRIu64, n->waiting);
    lh_top_cell(table, "%s", holder != NULL ? lh_command_or_dash(holder->host) : "-");
    lh_top_cell(table, "%s", holder != NULL ? lh_command_or_dash(holder->process) : "-");
    lh_top_cell(table, "%s", holder != NULL ? lh_command_or_dash(holder->label) : "-");
}

void lh_top_locks(const struct lh_top_history *h, unsigned sort, struct lh_top_rows *rows)
{
    static const char *const titles[] = {
        "lock", "mode", ">left", ">waiting", "host", "process", "label", NULL};
    const struct lh_top_sample *sample = lh_top_shown(h);
    const struct lh_name_info **all = lh_alloc_array(sample->name_count + 1, sizeof(void *));
    struct lh_top_table table;
    size_t count = 0;

    for (size_t i = 0; i < sample->name_count; i++)
        if (sample->names[i].holder_count + sample->names[i].waiting > 0)
            all[count++] = &sample->names[i];
    qsort_r(all, count, sizeof *all, compare_locks, &sort);
    lh_top_table_init(&table, titles);
    for (size_t i = 0; i < count; i++) {
        if (all[i]->holder_count == 0)
            lock_cells(&table, all[i], NULL);
        for (size_t k = 0; k < all[i]->holder_count; k++)
            lock_cells(&table, all[i], &all[i]->holders[k]);
    }
    lh_top_table_end(&table, rows);
    if (sample->names_more)
        lh_top_row(rows, LH_TOP_WARN, "only locks of the first %zu of %" PRIu64 " names are shown",
            sample->name_count, sample->servers.figures.names);
    free(all);
}
