/* What a table of options says in other forms than the text of --help: a manual page, a config
 * file, and the words that a shell completes. */
#include "runtime/flags.h"

#include "base/assert.h"
#include "runtime/flags_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_COLUMNS 79u

static const char *default_of(const struct lh_flag *f)
{
    if (f->preset_words != NULL)
        return f->preset_words;
    if (f->type == LH_FLAG_BOOL)
        return f->preset != NULL && strcmp(f->preset, "true") == 0 ? "true" : "false";
    return f->preset != NULL && *f->preset != '\0' ? f->preset : NULL;
}

/* "at least 1, at most 64": nothing where there are no bounds. */
static void bounds_of(const struct lh_flag *f, char *to, size_t size)
{
    char least[48], most[48];

    *to = '\0';
    lh_flag_show(f, f->min, least, sizeof least);
    lh_flag_show(f, f->max, most, sizeof most);
    if (f->type != LH_FLAG_UINT && f->type != LH_FLAG_SIZE && f->type != LH_FLAG_DURATION)
        return;
    if (f->min != 0 && f->max != 0)
        (void)snprintf(to, size, "at least %s, at most %s", least, most);
    else if (f->min != 0)
        (void)snprintf(to, size, "at least %s", least);
    else if (f->max != 0)
        (void)snprintf(to, size, "at most %s", most);
}

/* ---- a manual page ---- */

/* Text for roff, its `words` in bold. A dot at the start of a line would be a request to roff. */
static void put_roff(FILE *out, const char *text)
{
    bool bold = false, start = true;

    for (const char *c = text; *c != '\0'; c++) {
        if (start && (*c == '.' || *c == '\''))
            (void)fputs("\\&", out);
        start = *c == '\n';
        if (*c == '`') {
            (void)fputs(bold ? "\\fR" : "\\fB", out);
            bold = !bold;
        } else if (*c == '\\') {
            (void)fputs("\\e", out);
        } else if (*c == '-') {
            (void)fputs("\\-", out);
        } else {
            (void)fputc(*c, out);
        }
    }
}

/* Each line a paragraph of its own. */
static void put_lines(FILE *out, const char *text)
{
    for (size_t n; *text != '\0'; text += n) {
        char line[1024];
        n = strcspn(text, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)n, text);
        (void)fputs(*line == '\0' ? ".PP" : ".br\n", out);
        put_roff(out, line);
        (void)fputc('\n', out);
        n += text[n] == '\n' ? 1 : 0;
    }
}

static void roff_option(FILE *out, const struct lh_flag *f)
{
    const char *preset = default_of(f);
    char bounds[128];

    (void)fputs(".TP\n", out);
    if (f->letter != 0)
        (void)fprintf(out, "\\fB\\-%c\\fR, ", f->letter);
    (void)fputs("\\fB\\-\\-", out);
    put_roff(out, f->name);
    (void)fputs("\\fR", out);
    if (f->type == LH_FLAG_ENUM && f->metavar == NULL) {
        for (int i = 0; f->choices[i] != NULL; i++) {
            (void)fprintf(out, "%s\\fB", i == 0 ? " " : "|");
            put_roff(out, f->choices[i]);
            (void)fputs("\\fR", out);
        }
    } else if (*lh_flag_metavar(f) != '\0') {
        (void)fputs(f->bare != NULL ? "[=\\fI" : " \\fI", out);
        put_roff(out, lh_flag_metavar(f));
        (void)fputs(f->bare != NULL ? "\\fR]" : "\\fR", out);
    }
    (void)fputc('\n', out);
    put_roff(out, f->help);
    bounds_of(f, bounds, sizeof bounds);
    if (*bounds != '\0') {
        (void)fputs("; ", out);
        put_roff(out, bounds);
    }
    if (preset != NULL && (f->type != LH_FLAG_BOOL || strcmp(preset, "true") == 0)) {
        (void)fputs(" [", out);
        put_roff(out, preset);
        if (f->type == LH_FLAG_BOOL) {
            (void)fputs("; \\fB\\-\\-no\\-", out);
            put_roff(out, f->name);
            (void)fputs("\\fR turns it off", out);
        }
        (void)fputc(']', out);
    }
    if (f->command_line_only)
        (void)fputs(" [on the command line only]", out);
    (void)fputc('\n', out);
}

/* The title of a page: "LEASEHOLD-MASTER". */
void lh_flags_roff_header(FILE *out, const struct lh_flags *flags, const char *version)
{
    (void)fputs(".\\\" Made from the program's table of options.\n.TH \"", out);
    for (const char *c = flags->command; *c != '\0'; c++)
        (void)fputc(toupper((unsigned char)*c), out);
    (void)fprintf(out, "\" \"%d\" \"\" \"Leasehold %s\" \"Leasehold\"\n.SH NAME\n",
        flags->section == 0 ? 1 : flags->section, version);
    put_roff(out, flags->command);
    (void)fputs(" \\- ", out);
    put_roff(out, flags->title != NULL ? flags->title : flags->summary);
    (void)fputs("\n.SH SYNOPSIS\n.B ", out);
    put_roff(out, flags->command);
    (void)fputc('\n', out);
    put_roff(out, flags->usage);
    (void)fputs("\n.SH DESCRIPTION\n", out);
    put_roff(out, flags->summary);
    (void)fputc('\n', out);
}

static void roff_sources(FILE *out)
{
    (void)fputs(".SH ENVIRONMENT AND CONFIG FILE\n"
                "A value is taken from the first of these that has it: the command line; the "
                "environment, as\n"
                ".BI " LH_FLAGS_ENV_PREFIX "NAME\n"
                "with _ for \\- (\\fB" LH_FLAGS_ENV_PREFIX "CONFIG\\fR names the config file);\n"
                "the config file, which has a line\n"
                ".IB name \" = \" value\n"
                "for each option, and comments after #; the default.\n"
                "An option that the program does not have is an error, in the file as on the "
                "command line.\n"
                ".PP\n"
                "Durations are written as 200ms, 10s, 1.5s, 1m or 2h, sizes as 4096, 64KiB, 1GiB "
                "or 1GB, addresses as\n"
                "host:port, [v6]:port or unix:/path.\n",
        out);
}

static void put_man(FILE *out, const struct lh_flags *flags, const char *version)
{
    lh_flags_roff_header(out, flags, version);
    (void)fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < flags->count; i++)
        roff_option(out, &flags->flags[i]);
    for (size_t i = 0; i < LH_FLAGS_COMMON; i++)
        roff_option(out, &lh_flags_common[i]);
    lh_flags_roff_footer(out, flags);
}

void lh_flags_roff_footer(FILE *out, const struct lh_flags *flags)
{
    roff_sources(out);
    if (flags->epilog != NULL) {
        (void)fputs(".SH SIGNALS AND EXIT STATUS\n", out);
        put_lines(out, flags->epilog);
    }
    if (flags->files != NULL) {
        (void)fputs(".SH FILES\n", out);
        put_lines(out, flags->files);
    }
    (void)fputs(".SH SEE ALSO\n"
                ".BR leasehold (1),\n.BR leasehold\\-master (8),\n"
                ".BR leasehold\\-chunkserver (8),\n.BR leasehold\\-sim (1)\n",
        out);
}

/* What most commands have. */
static void put_shared(FILE *out, const struct lh_flags *flags)
{
    for (size_t i = 0; i < flags->count; i++)
        if (flags->flags[i].shared)
            roff_option(out, &flags->flags[i]);
    for (size_t i = 0; i < LH_FLAGS_COMMON; i++)
        roff_option(out, &lh_flags_common[i]);
}

/* One command of several in a page. */
static void put_section(FILE *out, const struct lh_flags *flags)
{
    (void)fputs(".SS ", out);
    put_roff(out, flags->command);
    (void)fputc(' ', out);
    put_roff(out, flags->usage);
    (void)fputc('\n', out);
    put_roff(out, flags->summary);
    (void)fputc('\n', out);
    for (size_t i = 0; i < flags->count; i++)
        if (!flags->flags[i].shared)
            roff_option(out, &flags->flags[i]);
    if (flags->epilog != NULL) {
        (void)fputs(".PP\n", out);
        put_lines(out, flags->epilog);
    }
}

/* ---- a config file ---- */

/* `text` as comments, broken between words. */
static void put_comment(FILE *out, const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t n = strcspn(text, " \n");
        if (column != 0 && column + 1 + n > CONFIG_COLUMNS) {
            (void)fputc('\n', out);
            column = 0;
        }
        column += (size_t)fprintf(out, "%s%.*s", column == 0 ? "# " : " ", (int)n, text);
        text += n;
        text += strspn(text, " \n");
    }
    (void)fputc('\n', out);
}

static void config_option(FILE *out, const struct lh_flag *f)
{
    const char *preset = default_of(f);
    char text[1024], bounds[128], all[300] = "";

    for (int i = 0; f->type == LH_FLAG_ENUM && f->choices[i] != NULL; i++) {
        size_t n = strlen(all);
        (void)snprintf(all + n, sizeof all - n, "%s%s", i == 0 ? "; " : ", ", f->choices[i]);
    }
    bounds_of(f, bounds, sizeof bounds);
    (void)snprintf(text, sizeof text, "%s%s%s%s%s", f->help, *bounds == '\0' ? "" : "; ", bounds,
        all, f->live ? ". Taken up by a reload" : "");
    put_comment(out, text);
    if (f->preset_words != NULL || preset == NULL)
        (void)fprintf(out, "#%s = %s\n\n", f->name,
            f->preset_words != NULL ? f->preset_words : lh_flag_metavar(f));
    else
        (void)fprintf(out, "#%s = %s\n\n", f->name, preset);
}

static void put_config(FILE *out, const struct lh_flags *flags)
{
    char text[512];

    (void)snprintf(text, sizeof text,
        "Options of %s, one `name = value` a line. What is commented out here has its default, "
        "which is the value shown; words in capitals stand for a value where there is no default. "
        "The command line wins over the environment (%sNAME), and that over this file. %s --help "
        "says more.",
        flags->command, LH_FLAGS_ENV_PREFIX, flags->command);
    put_comment(out, text);
    (void)fputc('\n', out);
    for (size_t i = 0; i < flags->count; i++)
        if (!flags->flags[i].command_line_only)
            config_option(out, &flags->flags[i]);
}

/* ---- what a shell completes ---- */

static bool takes_file(const struct lh_flag *f)
{
    return f->metavar != NULL &&
           (strstr(f->metavar, "FILE") != NULL || strstr(f->metavar, "DIRECTORY") != NULL);
}

static void words_of_options(FILE *out, const struct lh_flag *flags, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct lh_flag *f = &flags[i];
        bool value = f->type != LH_FLAG_BOOL && f->bare == NULL;
        (void)fprintf(out, " --%s%s", f->name, value ? "=" : "");
        if (f->type == LH_FLAG_BOOL && f->preset != NULL && strcmp(f->preset, "true") == 0)
            (void)fprintf(out, " --no-%s", f->name);
    }
}

static void words_of_values(FILE *out, const struct lh_flag *flags, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (int k = 0; flags[i].type == LH_FLAG_ENUM && flags[i].choices[k] != NULL; k++)
            (void)fprintf(out, " --%s=%s", flags[i].name, flags[i].choices[k]);
}

static void words_of_files(FILE *out, const struct lh_flag *flags, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (takes_file(&flags[i]))
            (void)fprintf(out, " --%s", flags[i].name);
}

/* The words in capitals of "[OPTION]... PATH [FILE]...", which say what each argument is. */
static void words_of_usage(FILE *out, const char *usage)
{
    while (*usage != '\0') {
        usage += strcspn(usage, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-");
        size_t n = strspn(usage, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (n == 0 && strncmp(usage, "--", 2) == 0) {
            if (usage[2] == ' ')
                (void)fputs(" --", out);
            n = strcspn(usage, " "); /* an option of its own: "--file=ID" */
        } else if (n > 1 && strncmp(usage, "OPTION", n) != 0) {
            (void)fprintf(out, " %.*s", (int)n, usage);
        }
        usage += n == 0 && *usage != '\0' ? 1 : n;
    }
}

/* "[OPTION]... init STORE | copy FROM TO": what begins with small letters, behind what may be left
 * out. */
static void words_of_subcommands(FILE *out, const char *usage)
{
    while (usage != NULL) {
        while (*usage == '[')
            usage += strcspn(usage, " ") + strspn(usage + strcspn(usage, " "), " ");
        size_t n = strspn(usage, "abcdefghijklmnopqrstuvwxyz");
        if (n > 0)
            (void)fprintf(out, " %.*s", (int)n, usage);
        usage = strstr(usage, " | ");
        usage = usage == NULL ? NULL : usage + strlen(" | ");
    }
}

static void put_words(FILE *out, const struct lh_flags *flags)
{
    (void)fputs("options='", out);
    words_of_options(out, flags->flags, flags->count);
    words_of_options(out, lh_flags_common, LH_FLAGS_COMMON);
    (void)fputs("'\nvalues='", out);
    words_of_values(out, flags->flags, flags->count);
    (void)fputs("'\nfiles='", out);
    words_of_files(out, flags->flags, flags->count);
    words_of_files(out, lh_flags_common, LH_FLAGS_COMMON);
    (void)fputs("'\narguments='", out);
    words_of_usage(out, flags->usage);
    (void)fputs("'\nsubcommands='", out);
    words_of_subcommands(out, flags->usage);
    (void)fputs("'\n", out);
}

/* ---- together ---- */

char *lh_flags_page(const struct lh_flags *flags, const char *form, const char *version)
{
    char *text = NULL;
    size_t size = 0;

    if (strcmp(form, "text") == 0)
        return lh_flags_help(flags);
    FILE *out = open_memstream(&text, &size);
    LH_ASSERT(out != NULL);
    bool known = true;
    if (strcmp(form, "man") == 0)
        put_man(out, flags, version);
    else if (strcmp(form, "section") == 0)
        put_section(out, flags);
    else if (strcmp(form, "shared") == 0)
        put_shared(out, flags);
    else if (strcmp(form, "config") == 0)
        put_config(out, flags);
    else if (strcmp(form, "words") == 0)
        put_words(out, flags);
    else
        known = false;
    (void)fclose(out);
    if (known)
        return text;
    free(text);
    return NULL;
}
