/* What --help prints. */
#include "runtime/flags.h"

#include "base/assert.h"
#include "runtime/flags_internal.h"

#include <stdio.h>
#include <string.h>

#define INDENT     35 /* of what is said of an option */
#define COLUMNS    100u
#define HELP_BYTES 1000u

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

const char *lh_flag_metavar(const struct lh_flag *f)
{
    static const char *const names[] = {
        [LH_FLAG_STRING] = "TEXT",
        [LH_FLAG_BOOL] = "",
        [LH_FLAG_UINT] = "N",
        [LH_FLAG_SIZE] = "SIZE",
        [LH_FLAG_DURATION] = "DURATION",
        [LH_FLAG_ENUM] = "",
        [LH_FLAG_LIST] = "A,B,...",
    };

    return f->metavar != NULL ? f->metavar : names[f->type];
}

/* One line, `size` bytes of text, in lines that end before COLUMNS, from `indent` on; the first one
 * begins where the output stands. */
static void put_wrapped(FILE *out, size_t indent, const char *text, size_t size)
{
    size_t at = indent;

    for (const char *word = text, *end = text + size; word < end;) {
        size_t length = lesser(strcspn(word, " "), (size_t)(end - word));
        if (at > indent && at + 1 + length > COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
        }
        at += (size_t)fprintf(out, "%s%.*s", at > indent ? " " : "", (int)length, word);
        word += length + strspn(word + length, " ");
    }
    fputc('\n', out);
}

/* Lines of text, each with the blanks that it begins with; what is too long is broken, and goes on
 * below. Whoever wrote it may have broken lines before. */
static void put_lines(FILE *out, const char *text)
{
    while (*text != '\0') {
        size_t size = strcspn(text, "\n"), indent = strspn(text, " ");
        if (size <= COLUMNS) {
            fprintf(out, "%.*s\n", (int)size, text);
        } else {
            fprintf(out, "%*s", (int)indent, "");
            put_wrapped(out, indent, text + indent, size - indent);
        }
        text += size + (text[size] == '\n' ? 1 : 0);
    }
}

static void help_option(FILE *out, const struct lh_flag *f)
{
    char left[200], text[HELP_BYTES];
    size_t n = 0;

    if (f->letter != 0)
        n += (size_t)snprintf(left, sizeof left, "  -%c, --%s", f->letter, f->name);
    else
        n += (size_t)snprintf(left, sizeof left, "      --%s", f->name);
    if (f->type == LH_FLAG_ENUM && f->metavar == NULL) {
        for (int i = 0; f->choices[i] != NULL && n < sizeof left; i++)
            n += (size_t)snprintf(
                left + n, sizeof left - n, "%c%s", i == 0 ? ' ' : '|', f->choices[i]);
    } else if (f->bare != NULL) {
        n += (size_t)snprintf(left + n, sizeof left - n, "[=%s]", lh_flag_metavar(f));
    } else if (*lh_flag_metavar(f) != '\0') {
        n += (size_t)snprintf(left + n, sizeof left - n, " %s", lh_flag_metavar(f));
    }
    if (n < INDENT - 1)
        fprintf(out, "%-*s", INDENT, left);
    else
        fprintf(out, "%s\n%*s", left, INDENT, "");
    int size = snprintf(text, sizeof text, "%s", f->help);
    if (f->preset_words != NULL)
        size += snprintf(text + size, sizeof text - (size_t)size, " [%s]", f->preset_words);
    else if (f->preset != NULL && *f->preset != '\0' && f->type != LH_FLAG_BOOL)
        size += snprintf(text + size, sizeof text - (size_t)size, " [%s]", f->preset);
    else if (f->type == LH_FLAG_BOOL && f->preset != NULL && strcmp(f->preset, "true") == 0)
        size += snprintf(text + size, sizeof text - (size_t)size, " [on; --no-%s]", f->name);
    if (f->command_line_only)
        size += snprintf(text + size, sizeof text - (size_t)size, " [command line only]");
    LH_ASSERT((size_t)size < sizeof text);
    put_wrapped(out, INDENT, text, strlen(text));
}

const struct lh_flag lh_flags_common[LH_FLAGS_COMMON] = {
    {.name = "config",
        .metavar = "FILE",
        .help = "read options from FILE: lines 'name = value', # comments"},
    {.name = "help",
        .metavar = "FORM",
        .bare = "text",
        .help = "print this and exit; FORM may be man, or config for a config file"},
    {.name = "version", .type = LH_FLAG_BOOL, .help = "print the version and exit"},
};

char *lh_flags_help(const struct lh_flags *flags)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    LH_ASSERT(out != NULL);
    fprintf(out, "Usage: %s ", flags->command);
    put_wrapped(
        out, strlen("Usage: ") + strlen(flags->command) + 1, flags->usage, strlen(flags->usage));
    put_lines(out, flags->summary);
    fputs("\nOptions:\n", out);
    for (size_t i = 0; i < flags->count; i++)
        help_option(out, &flags->flags[i]);
    for (size_t i = 0; i < LH_FLAGS_COMMON; i++)
        help_option(out, &lh_flags_common[i]);
    fprintf(out,
        "\nExcept as marked, options can also be given in the environment, as %s<NAME> with\n"
        "_ for -, or in the config file. The command line wins over the environment, and that "
        "over\n"
        "the file.\n",
        LH_FLAGS_ENV_PREFIX);
    if (flags->epilog != NULL) {
        fputc('\n', out);
        put_lines(out, flags->epilog);
    }
    fclose(out);
    return text;
}
