#include "sim/command/show.h"

#include "sim/command/guard.h"

#include <string.h>

struct show {
    const struct lh_sim_subject *subject;
    const struct lh_sim_narrative_options *options;
    bool trace;
    struct lh_sim_narrative *narrative;
    bool finished;
};

static void attach(void *arg, struct lh_sim_cluster *c, struct lh_sim_observers *o)
{
    struct show *show = arg;

    (void)o;
    show->narrative = lh_sim_narrative_attach(c, show->options, stdout);
}

static void finish(struct show *show)
{
    if (show->narrative != NULL && !show->finished)
        lh_sim_narrative_finish(show->narrative);
    show->finished = true;
}

static void detach(void *arg, struct lh_sim_cluster *c, struct lh_sim_observers *o)
{
    (void)c;
    (void)o;
    finish(arg);
}

static void last_words(void *arg)
{
    finish(arg);
}

static int work(void *arg)
{
    struct show *show = arg;
    struct lh_sim_run_options options = {
        .stage.trace = show->trace ? stdout : NULL,
        .stage.attach = show->trace ? NULL : attach,
        .stage.detach = show->trace ? NULL : detach,
        .stage.arg = show,
    };
    struct lh_sim_outcome outcome;

    lh_sim_subject_run(show->subject, &options, &outcome);
    if (show->narrative != NULL)
        lh_sim_narrative_destroy(show->narrative);
    return (int)outcome.verdict;
}

int lh_sim_show(const struct lh_sim_subject *subject,
    const struct lh_sim_narrative_options *options, bool trace)
{
    struct show show = {.subject = subject, .options = options, .trace = trace};
    char crash[256] = "";

    int code = lh_sim_guarded(work, last_words, &show, crash, sizeof crash);
    if (code == LH_SIM_EXIT_CRASH) {
        (void)printf("the process died here: %s\n", crash);
        (void)fflush(stdout);
    }
    return code;
}
