/* `leasehold-sim replay`: a run as a narrative. */
#include "sim/command/command.h"
#include "sim/command/show.h"
#include "sim/command/subject.h"

#include <sys/ioctl.h>
#include <unistd.h>

#define COMMAND "replay"

static const char *const when[] = {"auto", "always", "never", NULL};

/* The paper's width: the terminal's, if there is one. */
static unsigned columns(void)
{
    struct winsize size;

    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 80)
        return size.ws_col;
    return 0;
}

int lh_sim_command_replay(int argc, char **argv)
{
    struct {
        struct lh_sim_subject_options subject;
        struct lh_duration from, until;
        uint64_t chunk, last, columns;
        int color;
        bool trace;
    } o = {0};
    const struct lh_flag table[] = {
        LH_SIM_SEED_FLAG(o.subject),
        LH_SIM_PROFILE_FLAGS(o.subject),
        {LH_FLAG("from", DURATION, &o.from, "0"), .help = "only from this moment on"},
        {LH_FLAG("until", DURATION, &o.until, NULL), .help = "only until this moment"},
        {LH_FLAG("chunk", UINT, &o.chunk, NULL), .help = "only this chunk, and what is about none"},
        {LH_FLAG("last", UINT, &o.last, NULL), .help = "only that many lines before the end"},
        {LH_FLAG("columns", UINT, &o.columns, NULL),
            .help = "width of a line [the terminal's, else 160]", .min = 60, .max = 1000},
        {LH_FLAG("color", ENUM, &o.color, "auto"), .choices = when, .help = "auto: on a terminal"},
        {LH_FLAG("trace", BOOL, &o.trace, NULL),
            .help = "every input and effect instead of a narrative"},
    };
    const struct lh_flags flags = {
        .command = "leasehold-sim replay",
        .usage = "(--seed S | FILE.scenario) [OPTION]...",
        .summary = "Tells a run line by line: true time at the left, a column for each node. A "
                   "failure stands at the end.",
        LH_FLAG_ROWS(table),
    };
    struct lh_flags_result args;
    struct lh_sim_subject subject;
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 0, 1, &args, &code))
        return code;
    bool window = o.from.ns != 0 || o.until.ns != 0 || o.chunk != 0 || o.last != 0;
    if (o.until.ns != 0 && o.until.ns <= o.from.ns)
        code = lh_sim_command_error(
            LH_SIM_EXIT_USAGE, COMMAND, "--until is not after --from: nothing lies between them");
    else if (o.trace && window)
        code = lh_sim_command_error(LH_SIM_EXIT_USAGE, COMMAND,
            "--trace shows everything; --from, --until, --chunk and --last are for the narrative");
    else
        code = lh_sim_subject_of_options(&subject, &o.subject, args.args[0], COMMAND);
    if (code == LH_SIM_EXIT_OK) {
        struct lh_sim_narrative_options options = lh_sim_narrative_options_default();
        options.from_ns = o.from.ns;
        options.until_ns = o.until.ns != 0 ? o.until.ns : options.until_ns;
        options.chunk = o.chunk;
        options.last = o.last;
        options.columns = o.columns != 0 ? (unsigned)o.columns : columns();
        options.color = o.color == 1 || (o.color == 0 && isatty(STDOUT_FILENO));
        code = lh_sim_show(&subject, &options, o.trace);
        lh_sim_subject_deinit(&subject);
    }
    lh_flags_free(&args);
    return code;
}
