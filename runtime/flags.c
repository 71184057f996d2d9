/* The parser: which source says what. */
#include "runtime/flags.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/flags_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    const struct lh_flags *flags;
    struct lh_flags_result *result;
    bool *given; /* by the source that is being read: a list then starts again */
    bool *set;   /* by a stronger source */
    const char *config_file;
    char *error;
};

/* ---- the parser ---- */

static void *keep(struct parser *p, size_t size)
{
    return lh_flags_keep(p->result, size);
}

static const char *keep_string(struct parser *p, const char *s, size_t n)
{
    char *copy = keep(p, n + 1);

    memcpy(copy, s, n);
    return copy;
}

/* The first error counts. Returns false. */
static bool fail(struct parser *p, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail(struct parser *p, const char *where, const char *format, ...)
{
    char text[600];
    va_list args;

    if (p->error != NULL)
        return false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (asprintf(&p->error, "%s: %s%s%s\nTry '%s --help'.\n", p->flags->command, where,
            *where == '\0' ? "" : ": ", text, p->flags->command) < 0)
        abort();
    return false;
}

static bool in_range(
    struct parser *p, const struct lh_flag *f, const char *where, uint64_t v, const char *text)
{
    char limit[48];

    if (v < f->min) {
        lh_flag_show(f, f->min, limit, sizeof limit);
        return fail(p, where, "--%s: %s is too small; the least is %s", f->name, text, limit);
    }
    if (f->max != 0 && v > f->max) {
        lh_flag_show(f, f->max, limit, sizeof limit);
        return fail(p, where, "--%s: %s is too large; the most is %s", f->name, text, limit);
    }
    return true;
}

static bool set_choice(
    struct parser *p, const struct lh_flag *f, const char *where, const char *text)
{
    char all[300] = "";

    for (int i = 0; f->choices[i] != NULL; i++) {
        if (strcmp(f->choices[i], text) == 0) {
            *(int *)f->value = i;
            return true;
        }
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s%s", i == 0 ? "" : ", ", f->choices[i]);
    }
    return fail(p, where, "--%s: '%s' is none of: %s", f->name, text, all);
}

static void add_items(struct parser *p, const struct lh_flag *f, const char *text, bool anew)
{
    struct lh_flag_list *list = f->value;

    if (anew)
        *list = (struct lh_flag_list){0};
    while (*text != '\0') {
        text += strspn(text, " ");
        size_t n = strcspn(text, ", ");
        if (n > 0) {
            const char **items = keep(p, (list->count + 1) * sizeof *items);
            if (list->count > 0)
                memcpy(items, list->items, list->count * sizeof *items);
            items[list->count++] = keep_string(p, text, n);
            list->items = items;
        }
        text += n;
        text += strspn(text, ", ");
    }
}

/* Sets the value from its text. `again`: the first time in this source. */
static bool set_value(
    struct parser *p, const struct lh_flag *f, const char *where, const char *text, bool anew)
{
    uint64_t v;
    struct lh_duration d;

    switch (f->type) {
    case LH_FLAG_STRING:
        if (f->address && lh_address_fault(text, 0) != NULL)
            return fail(p, where, "--%s: '%s': %s", f->name, text, lh_address_fault(text, 0));
        *(const char **)f->value = keep_string(p, text, strlen(text));
        return true;
    case LH_FLAG_BOOL:
        if (!lh_flag_parse_bool(text, f->value))
            return fail(p, where, "--%s: '%s' is neither true nor false", f->name, text);
        return true;
    case LH_FLAG_UINT:
        if (!lh_parse_uint(text, &v))
            return fail(p, where, "--%s: '%s' is not a whole number", f->name, text);
        if (!in_range(p, f, where, v, text))
            return false;
        *(uint64_t *)f->value = v;
        return true;
    case LH_FLAG_SIZE:
        if (!lh_parse_size(text, &v))
            return fail(
                p, where, "--%s: '%s' is not a size; use for example 64MiB or 1GB", f->name, text);
        if (!in_range(p, f, where, v, text))
            return false;
        *(uint64_t *)f->value = v;
        return true;
    case LH_FLAG_DURATION:
        if (!lh_parse_duration(text, &d))
            return fail(p, where, "--%s: '%s' is not a duration; use for example 10s or 200ms",
                f->name, text);
        if (!in_range(p, f, where, d.ns, text))
            return false;
        *(struct lh_duration *)f->value = d;
        return true;
    case LH_FLAG_ENUM:
        return set_choice(p, f, where, text);
    case LH_FLAG_LIST:
        add_items(p, f, text, anew);
        return true;
    }
    LH_UNREACHABLE();
}

static const struct lh_flag *by_name(const struct parser *p, const char *name, size_t n)
{
    for (size_t i = 0; i < p->flags->count; i++) {
        const struct lh_flag *f = &p->flags->flags[i];
        if (strlen(f->name) == n && memcmp(f->name, name, n) == 0)
            return f;
    }
    return NULL;
}

/* Sets a value unless a stronger source did. */
static bool give(struct parser *p, const struct lh_flag *f, const char *where, const char *text)
{
    size_t i = (size_t)(f - p->flags->flags);

    if (p->set[i])
        return true;
    bool anew = !p->given[i];
    p->given[i] = true;
    return set_value(p, f, where, text, anew);
}

/* What this source gave is not touched by weaker ones. */
static void end_source(struct parser *p)
{
    for (size_t i = 0; i < p->flags->count; i++) {
        p->set[i] = p->set[i] || p->given[i];
        p->given[i] = false;
    }
}

/* ---- the command line ---- */

struct words {
    char **argv;
    int argc, at;
};

static bool needed(struct parser *p, struct words *w, const char *option, const char **value)
{
    if (w->at + 1 >= w->argc)
        return fail(p, "", "%s needs a value", option);
    *value = w->argv[++w->at];
    return true;
}

static bool long_option(struct parser *p, struct words *w)
{
    const char *word = w->argv[w->at] + 2;
    size_t n = strcspn(word, "=");
    const char *value = word[n] == '=' ? word + n + 1 : NULL;

    if (n == 6 && memcmp(word, "config", n) == 0) {
        if (value == NULL && !needed(p, w, "--config", &value))
            return false;
        p->config_file = value;
        return true;
    }
    const struct lh_flag *f = by_name(p, word, n);
    if (f == NULL && n > 3 && memcmp(word, "no-", 3) == 0 && value == NULL) {
        f = by_name(p, word + 3, n - 3);
        if (f != NULL && f->type == LH_FLAG_BOOL)
            return give(p, f, "", "false");
        f = NULL;
    }
    if (f == NULL)
        return fail(p, "", "there is no option --%.*s", (int)n, word);
    if (f->type == LH_FLAG_BOOL)
        return give(p, f, "", value == NULL ? "true" : value);
    if (value == NULL)
        value = f->bare;
    if (value == NULL && !needed(p, w, w->argv[w->at], &value))
        return false;
    return give(p, f, "", value);
}

static const struct lh_flag *by_letter(const struct parser *p, char letter)
{
    for (size_t i = 0; i < p->flags->count; i++)
        if (p->flags->flags[i].letter == letter)
            return &p->flags->flags[i];
    return NULL;
}

/* -f, -fn, -n 10, -n10 */
static bool short_options(struct parser *p, struct words *w)
{
    for (const char *c = w->argv[w->at] + 1; *c != '\0'; c++) {
        char option[3] = {'-', *c, '\0'};
        const struct lh_flag *f = by_letter(p, *c);
        if (f == NULL)
            return fail(p, "", "there is no option %s", option);
        if (f->type == LH_FLAG_BOOL) {
            if (!give(p, f, "", "true"))
                return false;
            continue;
        }
        const char *value = c[1] != '\0' ? c + 1 : NULL;
        if (value == NULL && !needed(p, w, option, &value))
            return false;
        return give(p, f, "", value);
    }
    return true;
}

static bool read_command_line(struct parser *p, int argc, char **argv)
{
    struct lh_flags_result *result = p->result;
    struct words w = {argv, argc, 1};
    bool options = true;

    result->args = keep(p, ((size_t)argc + 1) * sizeof *result->args);
    for (; w.at < argc; w.at++) {
        const char *word = argv[w.at];
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && strncmp(word, "--", 2) == 0) {
            if (!long_option(p, &w))
                return false;
        } else if (options && word[0] == '-' && word[1] != '\0') {
            if (!short_options(p, &w))
                return false;
        } else {
            result->args[result->arg_count++] = word;
        }
    }
    end_source(p);
    return true;
}

/* --help and --version count wherever they stand before "--", whatever else is wrong. What stands
 * behind `option`: "" or "=..."; NULL: it does not stand there. */
static const char *asked_for(int argc, char **argv, const char *option)
{
    size_t n = strlen(option);

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strncmp(argv[i], option, n) == 0 && (argv[i][n] == '\0' || argv[i][n] == '='))
            return argv[i] + n;
    return NULL;
}

/* --help[=FORM]. False: there is no such form. */
static bool help(struct parser *p, const char *form, const char *version)
{
    form = *form == '=' ? form + 1 : "text";
    p->result->text = lh_flags_page(p->flags, form, version);
    return p->result->text != NULL ||
           fail(p, "", "--help: '%s' is none of: text, man, config, words", form);
}

/* ---- the environment and the file ---- */

static void env_name(const char *flag, char *to, size_t size)
{
    size_t n = (size_t)snprintf(to, size, "%s", LH_FLAGS_ENV_PREFIX);

    for (; *flag != '\0' && n + 1 < size; flag++)
        to[n++] = *flag == '-' ? '_' : (char)toupper((unsigned char)*flag);
    to[n] = '\0';
}

static const char *lookup(char **environment, const char *name)
{
    size_t n = strlen(name);

    for (; environment != NULL && *environment != NULL; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=')
            return *environment + n + 1;
    return NULL;
}

static bool read_environment(struct parser *p, char **environment)
{
    char name[100];

    for (size_t i = 0; i < p->flags->count; i++) {
        if (p->flags->flags[i].command_line_only)
            continue;
        env_name(p->flags->flags[i].name, name, sizeof name);
        const char *value = lookup(environment, name);
        if (value != NULL && !give(p, &p->flags->flags[i], name, value))
            return false;
    }
    if (p->config_file == NULL)
        p->config_file = lookup(environment, LH_FLAGS_ENV_PREFIX "CONFIG");
    end_source(p);
    return true;
}

static char *trim(char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    size_t n = strlen(s);
    while (n > 0 && isspace((unsigned char)s[n - 1]))
        s[--n] = '\0';
    return s;
}

static bool read_line(struct parser *p, const char *where, char *line)
{
    char *s = trim(line);

    if (*s == '\0' || *s == '#')
        return true;
    char *equals = strchr(s, '=');
    if (equals == NULL)
        return fail(p, where, "'%s' is not of the form 'name = value'", s);
    *equals = '\0';
    char *name = trim(s);
    char *value = trim(equals + 1);
    size_t n = strlen(value);
    if (n >= 2 && value[0] == '"' && value[n - 1] == '"') {
        value[n - 1] = '\0';
        value++;
    }
    const struct lh_flag *f = by_name(p, name, strlen(name));
    if (f == NULL)
        return fail(p, where, "there is no option '%s'", name);
    if (f->command_line_only)
        return fail(p, where, "--%s is for the command line alone", name);
    return give(p, f, where, value);
}

static bool read_config(struct parser *p)
{
    char *line = NULL;
    size_t capacity = 0;
    bool ok = true;

    if (p->config_file == NULL)
        return true;
    FILE *f = fopen(p->config_file, "re");
    if (f == NULL)
        return fail(p, "", "cannot read the config file %s: %s", p->config_file, strerror(errno));
    for (unsigned number = 1; ok && getline(&line, &capacity, f) >= 0; number++) {
        char where[300];
        snprintf(where, sizeof where, "%.250s:%u", p->config_file, number);
        ok = read_line(p, where, line);
    }
    if (ok && ferror(f))
        ok = fail(p, "", "cannot read the config file %s", p->config_file);
    free(line);
    fclose(f);
    end_source(p);
    return ok;
}

static void set_presets(struct parser *p)
{
    for (size_t i = 0; i < p->flags->count; i++) {
        const struct lh_flag *f = &p->flags->flags[i];
        if (f->preset == NULL || p->set[i])
            continue;
        bool ok = set_value(p, f, "", f->preset, true);
        LH_ASSERT(ok);
    }
}

/* ---- all together ---- */

struct lh_flags_result lh_flags_parse(
    const struct lh_flags *flags, int argc, char **argv, char **environment, const char *version)
{
    struct lh_flags_result result = {0};
    struct parser p = {
        .flags = flags,
        .result = &result,
        .given = lh_alloc_array(flags->count, sizeof *p.given),
        .set = lh_alloc_array(flags->count, sizeof *p.set),
    };

    const char *form = asked_for(argc, argv, "--help");
    const char *wanted = asked_for(argc, argv, "--version");

    if (form != NULL && help(&p, form, version)) {
        result.outcome = LH_FLAGS_EXIT;
    } else if (form == NULL && wanted != NULL && *wanted == '\0') {
        result.outcome = LH_FLAGS_EXIT;
        if (asprintf(&result.text, "%s %s\n", flags->command, version) < 0)
            abort();
    } else if (form == NULL && read_command_line(&p, argc, argv) &&
               read_environment(&p, environment) && read_config(&p)) {
        set_presets(&p);
        lh_flags_note(&result, flags);
    } else {
        result.outcome = LH_FLAGS_USAGE;
        result.text = p.error;
    }
    free(p.given);
    free(p.set);
    return result;
}
