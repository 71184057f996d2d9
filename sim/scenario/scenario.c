/* The text of scenario files. */
#include "sim/scenario/scenario.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- Statements ---- */

static bool parse_rule(struct lh_sim_words *w, void *to)
{
    static const char *const rules[] = {"INV-1", "INV-2", "INV-3", "INV-4", "INV-5", "INV-6",
        "INV-8", "INV-9", "INV-10", "INV-11", "INV-13", "INV-14", "INV-15", "INV-16", "INV-17",
        "INV-18", "KEEP-1", "KEEP-2", "KEEP-3", "KEEP-4", "KEEP-5", "history", "check"};

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!lh_sim_words_take(w, rules[i]))
            continue;
        memset(to, 0, sizeof((struct lh_sim_statement *)0)->rule);
        memcpy(to, rules[i], strlen(rules[i]));
        return true;
    }
    return false;
}

static bool parse_condition(struct lh_sim_words *w, void *to)
{
    return lh_sim_condition_parse_words(to, w);
}

static void print_condition(struct lh_sim_text *t, const void *from)
{
    char text[LH_SIM_CONDITION_TEXT];

    lh_sim_condition_print(from, text, sizeof text);
    lh_sim_text_add(t, "%s", text);
}

static bool parse_action(struct lh_sim_words *w, void *to)
{
    return lh_sim_action_parse_words(to, w);
}

static void print_action(struct lh_sim_text *t, const void *from)
{
    char text[LH_SIM_ACTION_TEXT];

    lh_sim_action_print(from, false, text, sizeof text);
    lh_sim_text_add(t, "%s", text);
}

static const struct lh_sim_slot_type slot_rule = {parse_rule, lh_sim_print_string,
                                         sizeof((struct lh_sim_statement *)0)->rule, NULL},
                                     slot_condition = {parse_condition, print_condition,
                                         sizeof(struct lh_sim_condition), NULL},
                                     slot_action = {parse_action, print_action,
                                         sizeof(struct lh_sim_action), NULL};

#define SLOT(name, type, member) LH_SIM_SLOT(name, type, struct lh_sim_statement, member)

static const struct lh_sim_slot slots[] = {
    SLOT("time", lh_sim_slot_duration, time),
    SLOT("within", lh_sim_slot_duration, within),
    SLOT("hold", lh_sim_slot_duration, hold),
    SLOT("action", slot_action, action),
    SLOT("condition", slot_condition, condition),
    SLOT("rule", slot_rule, rule),
    {0},
};

static const struct {
    enum lh_sim_statement_kind kind;
    enum lh_sim_moment moment;
    const char *pattern;
} phrases[] = {
    {LH_SIM_SAYS_VIOLATION, LH_SIM_NOW, "expect violation <rule> [within <within>]"},
    {LH_SIM_SAYS_EXPECT, LH_SIM_AT, "at <time> expect <condition> [within <within>] [for <hold>]"},
    {LH_SIM_SAYS_EXPECT, LH_SIM_AFTER,
        "after <time> expect <condition> [within <within>] [for <hold>]"},
    {LH_SIM_SAYS_EXPECT, LH_SIM_NOW, "expect <condition> [within <within>] [for <hold>]"},
    {LH_SIM_SAYS_WAIT, LH_SIM_AFTER, "wait <time>"},
    {LH_SIM_SAYS_SETTLE, LH_SIM_AT, "at <time> settle [within <within>]"},
    {LH_SIM_SAYS_SETTLE, LH_SIM_AFTER, "after <time> settle [within <within>]"},
    {LH_SIM_SAYS_SETTLE, LH_SIM_SINCE,
        "settle when <time> have passed since the start [within <within>]"},
    {LH_SIM_SAYS_SETTLE, LH_SIM_NOW, "settle [within <within>]"},
    {LH_SIM_SAYS_ACTION, LH_SIM_AT, "at <time> <action>"},
    {LH_SIM_SAYS_ACTION, LH_SIM_AFTER, "after <time> <action>"},
    {LH_SIM_SAYS_ACTION, LH_SIM_NOW, "<action>"},
};

#define PHRASES (sizeof phrases / sizeof phrases[0])

/* How long `settle` may take where the file does not say. */
#define SETTLE_BOUND lh_seconds(60)

static struct lh_sim_statement statement_of(
    enum lh_sim_statement_kind kind, enum lh_sim_moment moment)
{
    struct lh_sim_statement s;

    memset(&s, 0, sizeof s);
    s.kind = kind;
    s.moment = moment;
    if (kind == LH_SIM_SAYS_SETTLE)
        s.within = SETTLE_BOUND;
    return s;
}

static bool parse_statement(struct lh_sim_statement *s, struct lh_sim_words *w)
{
    for (size_t i = 0; i < PHRASES; i++) {
        w->at = 0;
        *s = statement_of(phrases[i].kind, phrases[i].moment);
        if (lh_sim_phrase_parse(slots, phrases[i].pattern, w, s) && lh_sim_words_end(w))
            return true;
    }
    return false;
}

void lh_sim_statement_print(const struct lh_sim_statement *s, char *text, size_t text_size)
{
    struct lh_sim_statement defaults = statement_of(s->kind, s->moment);
    struct lh_sim_text t = lh_sim_text_at(text, text_size);

    for (size_t i = 0; i < PHRASES; i++)
        if (phrases[i].kind == s->kind && phrases[i].moment == s->moment)
            lh_sim_phrase_print(slots, phrases[i].pattern, s, &defaults, &t);
}

void lh_sim_scenario_add(struct lh_sim_scenario *scenario, const struct lh_sim_statement *statement)
{
    LH_GROW(scenario->statements, scenario->capacity, scenario->count + 1);
    scenario->statements[scenario->count++] = *statement;
}

void lh_sim_scenario_print(const struct lh_sim_scenario *scenario, FILE *to)
{
    char text[LH_SIM_LINE_MAX + 1];

    (void)fprintf(to, "leasehold scenario %d\n", LH_SIM_SCENARIO_FORMAT);
    lh_sim_settings_print(&scenario->settings, to);
    for (size_t i = 0; i < scenario->broken_by_count; i++)
        (void)fprintf(to, "broken by %s\n", scenario->broken_by[i]);
    (void)fprintf(to, "\n");
    for (size_t i = 0; i < scenario->count; i++) {
        lh_sim_statement_print(&scenario->statements[i], text, sizeof text);
        (void)fprintf(to, "%s\n", text);
    }
}

void lh_sim_scenario_deinit(struct lh_sim_scenario *scenario)
{
    free(scenario->statements);
    *scenario = (struct lh_sim_scenario){0};
}

/* ---- A file ---- */

struct reading {
    struct lh_sim_scenario scenario;
    const char *name;
    uint32_t line, settings_line; /* the last one of the settings */
    uint64_t last_at;
    bool begun; /* the first line was there */
    char *error;
    size_t error_size;
};

static int complain(struct reading *r, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int complain(struct reading *r, uint32_t line, const char *format, ...)
{
    va_list args;
    int n = snprintf(r->error, r->error_size, "%s:%u: ", r->name, line);

    if (n < 0 || (size_t)n >= r->error_size)
        return LH_ERR_INVALID_ARGUMENT;
    va_start(args, format);
    (void)vsnprintf(r->error + n, r->error_size - (size_t)n, format, args);
    va_end(args);
    return LH_ERR_INVALID_ARGUMENT;
}

static int complain_words(struct reading *r, const struct lh_sim_words *w)
{
    char text[LH_SIM_SCENARIO_TEXT];

    lh_sim_words_error(w, text, sizeof text);
    return complain(r, r->line, "%s", text);
}

static int take_first_line(struct reading *r, struct lh_sim_words *w)
{
    uint32_t format;

    if (!lh_sim_words_take(w, "leasehold") || !lh_sim_words_take(w, "scenario") ||
        !lh_sim_slot_small.parse(w, &format) || !lh_sim_words_end(w))
        return complain_words(r, w);
    if (format != LH_SIM_SCENARIO_FORMAT)
        return complain(r, r->line, "found a scenario of format %u, expected format %d", format,
            LH_SIM_SCENARIO_FORMAT);
    r->begun = true;
    return LH_OK;
}

static int check_settings(struct reading *r)
{
    char text[256];
    int error = lh_sim_settings_check(&r->scenario.settings, text, sizeof text);

    return error == LH_OK ? LH_OK : complain(r, r->settings_line, "%s", text);
}

/* The name was given by an earlier `let`; the program was begun before. */
static bool is_named(const struct reading *r, const struct lh_sim_who *who)
{
    if (who->kind != LH_SIM_WHO_NAMED)
        return true;
    for (size_t i = 0; i < r->scenario.count; i++) {
        const struct lh_sim_statement *s = &r->scenario.statements[i];
        if (s->kind == LH_SIM_SAYS_ACTION && s->action.kind == LH_SIM_ACT_LET &&
            strcmp(s->action.name, who->text) == 0)
            return true;
    }
    return false;
}

static bool is_begun(const struct reading *r, const char *program)
{
    for (size_t i = 0; i < r->scenario.count; i++) {
        const struct lh_sim_statement *s = &r->scenario.statements[i];
        if (s->kind == LH_SIM_SAYS_ACTION && strcmp(s->action.program.name, program) == 0 &&
            lh_sim_action_begins(s->action.kind))
            return true;
    }
    return false;
}

static int check_action(struct reading *r, const struct lh_sim_action *a)
{
    const struct lh_sim_crew crew = lh_sim_settings_crew(&r->scenario.settings);
    char text[256];

    if (!lh_sim_action_check(a, &crew, text, sizeof text))
        return complain(r, r->line, "%s", text);
    if (!is_named(r, &a->who))
        return complain(r, r->line, "nobody was named %s before", a->who.text);
    if (!is_named(r, &a->peer))
        return complain(r, r->line, "nobody was named %s before", a->peer.text);
    if (a->kind == LH_SIM_ACT_END && !is_begun(r, a->program.name))
        return complain(r, r->line, "no program %s was begun before", a->program.name);
    if (lh_sim_action_begins(a->kind) && is_begun(r, a->program.name))
        return complain(r, r->line, "there is a program %s already", a->program.name);
    return LH_OK;
}

static int check_condition(struct reading *r, const struct lh_sim_condition *k)
{
    const struct lh_sim_crew crew = lh_sim_settings_crew(&r->scenario.settings);
    struct lh_sim_action about = lh_sim_action_default(LH_SIM_ACT_START);
    char text[256];

    about.who = k->who;
    if (!lh_sim_action_check(&about, &crew, text, sizeof text))
        return complain(r, r->line, "%s", text);
    if (!is_named(r, &k->who))
        return complain(r, r->line, "nobody was named %s before", k->who.text);
    if (k->program[0] != '\0' && !is_begun(r, k->program))
        return complain(r, r->line, "no program %s was begun before", k->program);
    return LH_OK;
}

/* Far from the end of time, and longer than anybody waits. */
#define LONGEST lh_seconds(1000 * 3600)

static int check_statement(struct reading *r, const struct lh_sim_statement *s)
{
    if (s->time.ns > LONGEST.ns || s->within.ns > LONGEST.ns || s->hold.ns > LONGEST.ns)
        return complain(r, r->line, "a time is longer than 1000h");
    if (s->within.ns != 0 && s->hold.ns != 0)
        return complain(r, r->line, "found \"within\" and \"for\", expected one of them");
    if (s->moment == LH_SIM_AT) {
        if (s->time.ns < r->last_at)
            return complain(r, r->line, "a moment before one that stands above");
        r->last_at = s->time.ns;
    }
    if (r->scenario.count > 0 &&
        r->scenario.statements[r->scenario.count - 1].kind == LH_SIM_SAYS_SETTLE &&
        s->kind != LH_SIM_SAYS_EXPECT && s->kind != LH_SIM_SAYS_VIOLATION)
        return complain(r, r->line, "after \"settle\" only \"expect\" may follow");
    if (s->kind == LH_SIM_SAYS_ACTION)
        return check_action(r, &s->action);
    if (s->kind == LH_SIM_SAYS_EXPECT)
        return check_condition(r, &s->condition);
    return LH_OK;
}

static int take_statement(struct reading *r, struct lh_sim_words *w)
{
    struct lh_sim_statement s;

    if (r->scenario.count == 0) {
        int error = check_settings(r);
        if (error != LH_OK)
            return error;
    }
    s.line = 0;
    if (!parse_statement(&s, w))
        return complain_words(r, w);
    s.line = r->line;
    if (s.kind == LH_SIM_SAYS_ACTION && s.moment == LH_SIM_AT)
        s.action.at = s.time.ns;
    int error = check_statement(r, &s);
    if (error == LH_OK)
        lh_sim_scenario_add(&r->scenario, &s);
    return error;
}

static bool take_broken_by(struct reading *r, struct lh_sim_words *w)
{
    struct lh_sim_scenario *to = &r->scenario;

    w->at = 0;
    if (!lh_sim_words_take(w, "broken") || !lh_sim_words_take(w, "by"))
        return false;
    const char *name = lh_sim_words_peek(w);
    if (to->broken_by_count == LH_SIM_BROKEN_BY_MAX || name == NULL || !lh_sim_is_planted(name)) {
        lh_sim_words_expected(w, "the name of a planted bug, of at most 8");
        return false;
    }
    return lh_sim_slot_plant.parse(w, to->broken_by[to->broken_by_count++]) && lh_sim_words_end(w);
}

static int take_line(struct reading *r, const char *line, size_t size)
{
    struct lh_sim_words w;
    char text[256];

    int error = lh_sim_words_split(&w, line, size, text, sizeof text);
    if (error != LH_OK)
        return complain(r, r->line, "%s", text);
    if (w.count == 0)
        return LH_OK;
    if (!r->begun)
        return take_first_line(r, &w);
    if (r->scenario.count == 0 && lh_sim_settings_parse_words(&r->scenario.settings, &w) &&
        lh_sim_words_end(&w)) {
        r->settings_line = r->line;
        return LH_OK;
    }
    if (r->scenario.count == 0 && take_broken_by(r, &w))
        return LH_OK;
    return take_statement(r, &w);
}

int lh_sim_scenario_parse(struct lh_sim_scenario *scenario, const char *text, size_t size,
    const char *name, char *error, size_t error_size)
{
    struct reading r = {.scenario = {.settings = lh_sim_settings_default(1)},
        .name = name,
        .settings_line = 1,
        .error = error,
        .error_size = error_size};
    int result = LH_OK;

    for (size_t at = 0; at < size && result == LH_OK;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end == NULL ? size - at : (size_t)(end - (text + at));
        r.line++;
        result = take_line(&r, text + at, length);
        at += length + 1;
    }
    if (result == LH_OK && !r.begun)
        result = complain(
            &r, 1, "found nothing, expected \"leasehold scenario %d\"", LH_SIM_SCENARIO_FORMAT);
    if (result == LH_OK && r.scenario.count == 0)
        result = check_settings(&r);
    if (result == LH_OK)
        *scenario = r.scenario;
    else
        lh_sim_scenario_deinit(&r.scenario);
    return result;
}
