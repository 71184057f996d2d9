/* `leasehold top`: the views as rows; see top.h. */
#include "client/command/command.h"
#include "client/command/top.h"
#include "client/command/top_rows.h"
#include "client/command/top_tables.h"
#include "client/command/trouble.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

const char *const lh_top_view_names[] = {"overview", "servers", "leases", "locks", NULL};

#define SORTS_MAX 4u
static const char *const sorts[LH_TOP_VIEWS][SORTS_MAX + 1] = {
    [LH_TOP_OVERVIEW] = {"", NULL},
    [LH_TOP_SERVERS] = {"trouble", "appends", "free space", "name", NULL},
    [LH_TOP_LEASES] = {"change", "appends", "file", "chunk", NULL},
    [LH_TOP_LOCKS] = {"waiting", "time left", "name", NULL},
};

void lh_top_next_sort(struct lh_top_screen *screen)
{
    unsigned *sort = &screen->sort[screen->view];

    *sort = sorts[screen->view][*sort + 1] == NULL ? 0 : *sort + 1;
}

static uint64_t age_ms(const struct lh_top_sample *sample, const struct lh_top_screen *screen)
{
    return screen->now_ms > sample->at_ms ? screen->now_ms - sample->at_ms : 0;
}

/* --- the head ----------------------------------------------------------------------------- */

static const char *active_of(const struct lh_top_history *h, const char *otherwise)
{
    const struct lh_master_list *list = &h->newest->masters;

    for (size_t i = 0; i < list->count; i++)
        if (list->masters[i].acting && list->masters[i].master_id[0] != '\0')
            return list->masters[i].master_id;
    return list->active != NULL && list->active[0] != '\0' ? list->active : otherwise;
}

static void title_row(
    const struct lh_top_history *h, const struct lh_top_screen *screen, struct lh_top_rows *rows)
{
    const struct lh_top_sample *good = lh_top_shown(h);
    char left[512], right[96], every[32];

    if (good == NULL)
        (void)snprintf(left, sizeof left, " leasehold top  %s", screen->master);
    else
        (void)snprintf(left, sizeof left,
            " leasehold top  cluster %.8s  master %.64s, term %" PRIu64, good->servers.cluster_id,
            active_of(h, "none"), good->servers.master_term);
    (void)snprintf(right, sizeof right, "%s%severy %s ", screen->clock,
        screen->clock[0] != '\0' ? ", " : "", lh_command_duration(every, screen->interval_ms));
    lh_top_row_ends(rows, LH_TOP_HEAD, left, right);
}

static void view_row(const struct lh_top_screen *screen, struct lh_top_rows *rows)
{
    char left[128], right[96];
    const char *sort = sorts[screen->view][screen->sort[screen->view]];
    int n = 0;

    for (int v = 0; v < LH_TOP_VIEWS; v++)
        n += snprintf(left + n, sizeof left - (size_t)n,
            (int)screen->view == v ? "[%d %s]" : " %d %s ", v + 1, lh_top_view_names[v]);
    (void)snprintf(right, sizeof right, "%s%s%sh help  q quit ", sort[0] != '\0' ? "s by " : "",
        sort, sort[0] != '\0' ? "  " : "");
    lh_top_row_ends(rows, LH_TOP_PLAIN, left, right);
}

static void state_rows(
    const struct lh_top_history *h, const struct lh_top_screen *screen, struct lh_top_rows *rows)
{
    const struct lh_top_sample *good = lh_top_shown(h);
    char text[1024], age[32];

    if (h->newest == NULL) {
        lh_top_row(rows, LH_TOP_PLAIN, "asking %s ...", screen->master);
    } else if (!h->newest->good) {
        int error = h->newest->error;
        int n = snprintf(text, sizeof text, "the active master %s (%.512s)",
            error == LH_ERR_UNAVAILABLE || error == LH_ERR_DEADLINE_EXCEEDED ? "does not answer"
                                                                             : "does not say",
            h->newest->trouble);
        if (good != NULL)
            (void)snprintf(text + n, sizeof text - (size_t)n, ": all but the masters is %s old",
                lh_command_duration(age, age_ms(good, screen)));
        lh_top_sentence(rows, LH_TOP_BAD, "! ", text);
    }
    if (good != NULL && good->withheld != NULL)
        lh_top_sentence(rows, LH_TOP_WARN, "", good->withheld);
    if (screen->paused)
        lh_top_row(rows, LH_TOP_WARN, "paused: p goes on");
}

void lh_top_head(
    const struct lh_top_history *h, const struct lh_top_screen *screen, struct lh_top_rows *rows)
{
    title_row(h, screen, rows);
    view_row(screen, rows);
    state_rows(h, screen, rows);
}

/* --- masters ------------------------------------------------------------------------------ */

static void masters(const struct lh_master_list *list, struct lh_top_rows *rows)
{
    static const char *const titles[] = {"master", "state", ">reign", "copy", "address", NULL};
    struct lh_top_table table;
    char since[32], word[32];

    lh_top_table_init(&table, titles);
    for (size_t i = 0; i < list->count; i++) {
        const struct lh_master_info *m = &list->masters[i];
        lh_top_table_row(&table, !m->answered ? LH_TOP_BAD : LH_TOP_PLAIN);
        lh_top_cell(&table, "%s", m->master_id[0] != '\0' ? m->master_id : "-");
        (void)snprintf(word, sizeof word, "%s", m->answered ? m->state : "no answer");
        for (char *c = word; *c != '\0'; c++)
            *c = (char)tolower((unsigned char)*c);
        if (m->answered && m->acting && word[0] == '\0') /* of one with a store of its own */
            (void)snprintf(word, sizeof word, "active");
        lh_top_cell(&table, "%s%s%s", word, m->answered && m->state_ms > 0 ? " for " : "",
            m->answered && m->state_ms > 0 ? lh_command_duration(since, m->state_ms) : "");
        lh_top_cell(&table, "%" PRIu64, m->reign);
        if (m->follows && m->behind > 0)
            lh_top_cell(&table, "%" PRIu64 " behind", m->behind);
        else
            lh_top_cell(&table, "%s", m->follows ? "up to date" : "-");
        lh_top_cell(&table, "%s", m->address);
    }
    lh_top_table_end(&table, rows);
}

/* --- the overview ------------------------------------------------------------------------- */

struct wrongs {
    struct lh_top_rows *rows;
    enum lh_top_style style;
    size_t count;
};

static void wrong(void *arg, const char *sentence)
{
    struct wrongs *w = arg;

    if (w->count++ == 0)
        lh_top_row(w->rows, LH_TOP_TITLE, "what is wrong");
    lh_top_sentence(w->rows, w->style, "! ", sentence);
}

static void troubles(const struct lh_top_history *h, struct lh_top_rows *rows)
{
    const struct lh_top_sample *good = lh_top_shown(h);
    struct wrongs w = {rows, LH_TOP_BAD, 0};

    lh_trouble_of_masters(&h->newest->masters, wrong, &w);
    if (h->newest->masters.store_trouble[0] != '\0')
        wrong(&w, h->newest->masters.store_trouble);
    if (good != NULL) {
        lh_trouble_of_servers(&good->servers, wrong, &w);
        w.style = LH_TOP_WARN;
        lh_trouble_beside(&good->servers, wrong, &w);
    }
    if (w.count == 0 && good != NULL)
        lh_top_row(rows, LH_TOP_PLAIN, "nothing is wrong");
    lh_top_row(rows, LH_TOP_PLAIN, "%s", "");
}

static void rates(const struct lh_top_history *h, struct lh_top_rows *rows)
{
    struct lh_top_rates r;
    char a[LH_TOP_RATE_BYTES], b[LH_TOP_RATE_BYTES], c[LH_TOP_RATE_BYTES], d[LH_TOP_RATE_BYTES];

    lh_top_rates(h, &r);
    lh_top_row(rows, LH_TOP_TITLE, "a second");
    lh_top_row(rows, LH_TOP_PLAIN, "appends: %s batches, %s", lh_top_rate_text(a, r.batches),
        lh_top_bytes_rate_text(b, r.bytes));
    lh_top_row(rows, LH_TOP_PLAIN, "leases:  %s granted, %s renewed, %s recalled, %s expired",
        lh_top_rate_text(a, r.granted), lh_top_rate_text(b, r.renewed),
        lh_top_rate_text(c, r.recalled), lh_top_rate_text(d, r.expired));
    lh_top_row(rows, LH_TOP_PLAIN, "locks:   %s acquired, %s released; values: %s read, %s changed",
        lh_top_rate_text(a, r.locks_granted), lh_top_rate_text(b, r.locks_released),
        lh_top_rate_text(c, r.values_read), lh_top_rate_text(d, r.values_changed));
}

static void counts(const struct lh_server_list *list, struct lh_top_rows *rows)
{
    const struct lh_master_figures *f = &list->figures;
    uint64_t capacity = 0, room = 0, primaries = 0;
    size_t live = 0;
    char space[32];

    for (size_t i = 0; i < list->count; i++) {
        live += list->servers[i].live;
        primaries += list->servers[i].primaries;
        capacity += list->servers[i].live ? list->servers[i].capacity_bytes : 0;
        room += list->servers[i].live ? list->servers[i].free_bytes : 0;
    }
    lh_top_row(rows, LH_TOP_TITLE, "now");
    lh_top_row(rows, LH_TOP_PLAIN, "servers: %zu of %zu live, %s free, %.0f %% used", live,
        list->count, lh_command_bytes(space, room),
        capacity > room ? 100.0 * (double)(capacity - room) / (double)capacity : 0);
    lh_top_row(rows, LH_TOP_PLAIN,
        "there:   leases of chunks: %" PRIu64 "; files: %" PRIu64 ", chunks: %" PRIu64
        ", values: %" PRIu64,
        primaries, f->files, f->chunks, f->values);
    lh_top_row(rows, LH_TOP_PLAIN,
        "in use:  sessions: %" PRIu64 ", not back: %" PRIu64 "; locks: %" PRIu64
        ", waiting for them: %" PRIu64,
        f->sessions, f->sessions_away, f->locks, f->locks_waiting);
}

static void explained(const struct lh_top_sample *sample, struct lh_top_rows *rows)
{
    char verdict[LH_TROUBLE_VERDICT_BYTES];

    for (size_t i = 0; i < sample->explained_count; i++) {
        const struct lh_explanation *e = &sample->explained[i];
        lh_top_sentence(rows, LH_TOP_WARN, "", lh_trouble_verdict(verdict, e));
        for (size_t k = 0; k < e->sentence_count; k++)
            lh_top_sentence(rows, LH_TOP_PLAIN, "  ", e->sentences[k]);
    }
}

static void overview(const struct lh_top_history *h, struct lh_top_rows *rows)
{
    const struct lh_top_sample *good = lh_top_shown(h);
    char repair[LH_TROUBLE_REPAIR_BYTES];

    troubles(h, rows);
    masters(&h->newest->masters, rows);
    if (good == NULL)
        return;
    lh_top_row(rows, LH_TOP_PLAIN, "%s", "");
    rates(h, rows);
    counts(&good->servers, rows);
    lh_top_sentence(rows, good->servers.repair.chunks_degraded > 0 ? LH_TOP_WARN : LH_TOP_PLAIN, "",
        lh_trouble_repair(repair, &good->servers.repair));
    lh_top_about_to_change(h, rows);
    explained(good, rows);
    lh_top_row(rows, LH_TOP_PLAIN, "%s", "");
    lh_top_servers(h, 0, rows);
}

void lh_top_body(
    const struct lh_top_history *h, const struct lh_top_screen *screen, struct lh_top_rows *rows)
{
    unsigned sort = screen->sort[screen->view];

    if (h->newest == NULL)
        return;
    if (screen->view == LH_TOP_OVERVIEW)
        overview(h, rows);
    else if (lh_top_shown(h) == NULL)
        lh_top_row(rows, LH_TOP_PLAIN, "nothing is known yet");
    else if (screen->view == LH_TOP_SERVERS)
        lh_top_servers(h, sort, rows);
    else if (screen->view == LH_TOP_LEASES)
        lh_top_leases(h, sort, rows);
    else
        lh_top_locks(h, sort, rows);
}

void lh_top_help(struct lh_top_rows *rows)
{
    static const char *const lines[] = {
        "q            quit",
        "1 2 3 4 Tab  another view",
        "Up Down j k  scroll; also Page Up, Page Down, Home, End",
        "s            sort by something else",
        "p            pause, and go on",
        "h            this help, and back",
        "",
        "Rates are over up to 10 s, and \"-\" until two answers are there. Those of appends "
        "are as of the servers' heartbeats.",
        "Leases about to change: their holder is lost, they are on their way to or from it, or "
        "nobody appends, so that they are not renewed and run out.",
        "What is wrong stands in the overview, behind \"!\".",
    };

    lh_top_row(rows, LH_TOP_TITLE, "keys");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        lh_top_sentence(rows, LH_TOP_PLAIN, "", lines[i]);
}
