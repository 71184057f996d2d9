#include "sim/command/failure.h"

#include "sim/command/show.h"

#include <inttypes.h>
#include <string.h>

#define EVENTS 24 /* lines before the failure */

static void print_indented(const char *text)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        (void)printf("  %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

void lh_sim_failure_print(
    const struct lh_sim_subject *subject, const struct lh_sim_outcome *outcome)
{
    const char *arguments = subject->arguments;
    char about[40] = "";

    if (outcome->chunk != 0)
        (void)snprintf(about, sizeof about, " --chunk %" PRIu64, outcome->chunk);
    (void)printf(
        "\nFAILED  %s (%s), %s\n", outcome->rule, lh_sim_outcome_word(outcome), subject->name);
    print_indented(outcome->text);
    (void)printf("what led to it:\n");
    struct lh_sim_narrative_options options = lh_sim_narrative_options_default();
    options.chunk = outcome->chunk;
    options.last = EVENTS;
    (void)lh_sim_show(subject, &options, false);
    (void)printf("to see it happen:  leasehold-sim replay %s%s --last 100\n", arguments, about);
    (void)printf("to make it small:  leasehold-sim minimize %s -o failure.scenario\n", arguments);
    (void)printf("to look at it:     leasehold-sim timeline %s -o failure.html\n\n", arguments);
    (void)fflush(stdout);
}
