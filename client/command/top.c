/* `leasehold top`: what the cluster does, on a terminal or as plain text. */
#include "client/command/top.h"

#include "client/command/command.h"
#include "client/command/top_feed.h"
#include "client/command/top_screen.h"

#include <locale.h>
#include <time.h>

#define COMMAND "top"
#define ASK_MS  2000u /* on a terminal: then it is shown that there was no answer */

struct options {
    struct lh_command_common common;
    struct lh_duration interval;
    uint64_t batch;
    int view;
    bool once;
};

static bool in_batch(const struct options *o)
{
    return o->once || o->batch > 0;
}

/* --- plain text --------------------------------------------------------------------------- */

static void print_rows(const struct lh_top_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        (void)puts(rows->items[i].text);
}

static void print_report(const struct lh_top_history *history, struct lh_top_screen *screen)
{
    struct lh_top_rows rows = {0};
    char clock[32];

    screen->clock = lh_command_time(clock, (uint64_t)time(NULL) * 1000);
    screen->now_ms = lh_command_now_ms();
    lh_top_head(history, screen, &rows);
    lh_top_body(history, screen, &rows);
    print_rows(&rows);
    (void)puts("");
    lh_top_rows_deinit(&rows);
}

/* Rates need two samples: the first one is not reported. The status is the last one's. */
static int batch(const struct options *o, struct lh_cluster *cluster, struct lh_top_screen *screen)
{
    uint64_t timeout_ms = lh_command_timeout_ms(&o->common), reports = o->once ? 1 : o->batch;
    struct lh_top_history history = {0};
    int code = LH_EXIT_OK;

    for (uint64_t n = 0; n <= reports; n++) {
        if (n > 0)
            lh_command_pause(screen->interval_ms);
        lh_top_history_add(&history, lh_top_ask(cluster, screen->view, timeout_ms));
        if (n == 0)
            continue;
        print_report(&history, screen);
        if (fflush(stdout) != 0)
            break; /* said at the end */
    }
    if (!history.newest->good)
        code = lh_command_refused(COMMAND, NULL, history.newest->error, history.newest->trouble);
    lh_top_history_deinit(&history);
    return code;
}

/* --- the command -------------------------------------------------------------------------- */

static int check(void *options)
{
    const struct options *o = options;

    (void)setlocale(LC_CTYPE, ""); /* which characters the terminal shows, and how wide they are */
    if (o->once && o->batch > 0)
        return lh_command_error(LH_EXIT_USAGE, COMMAND, "--once is --batch 1: one of them");
    if (in_batch(o))
        return LH_EXIT_OK;
    const char *obstacle = lh_top_screen_obstacle();
    if (obstacle != NULL)
        return lh_command_error(LH_EXIT_USAGE, COMMAND, "%s", obstacle);
    lh_top_screen_prepare();
    return LH_EXIT_OK;
}

static int run(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct options *o = options;
    uint64_t timeout_ms = lh_command_timeout_ms(&o->common);
    struct lh_top_screen screen = {
        .view = (enum lh_top_view)o->view,
        .master = o->common.masters.items[0],
        .interval_ms = lh_duration_ms(o->interval),
        .clock = "",
    };

    (void)args;
    if (in_batch(o))
        return batch(o, cluster, &screen);
    return lh_top_screen_run(cluster, &screen, timeout_ms < ASK_MS ? timeout_ms : ASK_MS);
}

int lh_command_top(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("interval", DURATION, &o.interval, "2s"), .letter = 'i', .min = 200000000,
            .max = UINT64_C(3600000000000), .help = "how often the masters are asked"},
        {LH_FLAG("batch", UINT, &o.batch, "0"), .letter = 'b', .max = UINT32_MAX,
            .help = "print so many reports as plain text, without a terminal"},
        {LH_FLAG("once", BOOL, &o.once, NULL), .help = "print one report, as --batch 1"},
        {LH_FLAG("view", ENUM, &o.view, "overview"), .choices = lh_top_view_names,
            .help = "what is shown at first, or printed"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]...",
        .summary =
            "Shows what the cluster does, on a terminal: what is wrong, masters and reigns, rates, "
            "counts,\nrepair, leases about to change, and servers. q quits, h helps, 1 to 4 or Tab "
            "are the views, s sorts,\np pauses, arrows scroll. It goes on when the active master "
            "dies, and says so.",
        LH_FLAG_ROWS(table),
        .no_json = true,
        .no_waiting = true,
        .check = check,
        .run = run,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
