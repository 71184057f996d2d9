/* Options: units, precedence of the sources, and what a mistyped one is told. */
#include "runtime/flags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
    const char *listen;
    bool sync, follow, final;
    uint64_t count, chunk;
    struct lh_duration term;
    int format;
    struct lh_flag_list masters;
    const char *transfer;
} o;

static const char *const formats[] = {"text", "json", NULL};

static const struct lh_flag table[] = {
    {.name = "listen",
        .type = LH_FLAG_STRING,
        .value = &o.listen,
        .preset = "127.0.0.1:7400",
        .help = "address to serve on",
        .metavar = "ADDRESS"},
    {.name = "sync", .type = LH_FLAG_BOOL, .value = &o.sync, .preset = "true", .help = "sync"},
    {.name = "follow",
        .type = LH_FLAG_BOOL,
        .value = &o.follow,
        .preset = "false",
        .help = "wait for more",
        .letter = 'f'},
    {.name = "final",
        .type = LH_FLAG_BOOL,
        .value = &o.final,
        .help = "for good",
        .command_line_only = true},
    {.name = "count",
        .type = LH_FLAG_UINT,
        .value = &o.count,
        .preset = "3",
        .help = "how many",
        .min = 1,
        .max = 9,
        .letter = 'n'},
    {.name = "chunk-size",
        .type = LH_FLAG_SIZE,
        .value = &o.chunk,
        .preset = "64MiB",
        .help = "size of a chunk",
        .min = 1 << 20},
    {.name = "session-term",
        .type = LH_FLAG_DURATION,
        .value = &o.term,
        .preset = "10s",
        .help = "life of a session",
        .min = 200000000},
    {.name = "log-format",
        .type = LH_FLAG_ENUM,
        .value = &o.format,
        .preset = "text",
        .choices = formats,
        .help = "how to log"},
    {.name = "master",
        .type = LH_FLAG_LIST,
        .value = &o.masters,
        .preset = "a:1",
        .help = "masters"},
    {.name = "transfer",
        .type = LH_FLAG_STRING,
        .value = &o.transfer,
        .metavar = "ID",
        .bare = "any",
        .help = "to whom; who reads this on a terminal of usual width has the lines broken between "
                "words, wherever they are"},
};

static const struct lh_flags flags = {
    .command = "cmd",
    .usage = "[OPTION]... PATH",
    .summary = "Does things.",
    LH_FLAG_ROWS(table),
};

static char *no_environment[] = {NULL};

#define PARSE(env, ...) parse((char *[]){(char *)"cmd", __VA_ARGS__, NULL}, env)

static struct lh_flags_result parse(char **argv, char **environment)
{
    int argc = 0;

    memset(&o, 0, sizeof o);
    while (argv[argc] != NULL)
        argc++;
    return lh_flags_parse(&flags, argc, argv, environment, "1.2");
}

static void refused(struct lh_flags_result r, const char *expected)
{
    assert_int_equal(r.outcome, LH_FLAGS_USAGE);
    if (strstr(r.text, expected) == NULL)
        fail_msg("expected '%s' in: %s", expected, r.text);
    lh_flags_free(&r);
}

static void nothing_given_means_the_defaults(void **state)
{
    struct lh_flags_result r = PARSE(no_environment, "path");

    (void)state;
    assert_int_equal(r.outcome, LH_FLAGS_OK);
    assert_string_equal(o.listen, "127.0.0.1:7400");
    assert_true(o.sync);
    assert_false(o.follow);
    assert_int_equal(o.count, 3);
    assert_int_equal(o.chunk, 64 << 20);
    assert_int_equal(o.term.ns, 10000000000);
    assert_int_equal(o.format, 0);
    assert_int_equal(o.masters.count, 1);
    assert_int_equal(r.arg_count, 1);
    assert_string_equal(r.args[0], "path");
    assert_null(r.args[1]);
    lh_flags_free(&r);
}

static void options_and_arguments_may_mix(void **state)
{
    struct lh_flags_result r = PARSE(no_environment, "one", "--session-term=1.5s", "--no-sync",
        "-fn7", "--log-format", "json", "--master=b:2,c:3", "--master", "d:4", "-", "--", "-x");

    (void)state;
    assert_int_equal(r.outcome, LH_FLAGS_OK);
    assert_int_equal(o.term.ns, 1500000000);
    assert_false(o.sync);
    assert_true(o.follow);
    assert_int_equal(o.count, 7);
    assert_int_equal(o.format, 1);
    assert_int_equal(o.masters.count, 3);
    assert_string_equal(o.masters.items[0], "b:2");
    assert_string_equal(o.masters.items[2], "d:4");
    assert_int_equal(r.arg_count, 3);
    assert_string_equal(r.args[1], "-");
    assert_string_equal(r.args[2], "-x");
    lh_flags_free(&r);
}

static void write_config(char *path, const char *text)
{
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void the_command_line_wins_over_environment_over_file(void **state)
{
    char path[] = "/tmp/flags_test.XXXXXX";
    char *environment[] = {(char *)"LEASEHOLD_CHUNK_SIZE=2MiB", (char *)"LEASEHOLD_COUNT=5",
        (char *)"LEASEHOLD_MASTER=e:1", NULL};

    (void)state;
    write_config(path, "# a comment\n\n  chunk-size = 1MiB\ncount=4\nlisten = \"f:1\" \n"
                       "master = g:1, h:1\n");
    struct lh_flags_result r = PARSE(environment, "--config", path, "--count", "6");
    assert_int_equal(r.outcome, LH_FLAGS_OK);
    assert_int_equal(o.count, 6);
    assert_int_equal(o.chunk, 2 << 20);
    assert_string_equal(o.listen, "f:1");
    assert_int_equal(o.masters.count, 1);
    assert_string_equal(o.masters.items[0], "e:1");
    lh_flags_free(&r);

    r = PARSE(no_environment, "--config", path);
    assert_int_equal(o.count, 4);
    assert_int_equal(o.masters.count, 2);
    assert_string_equal(o.masters.items[1], "h:1");
    lh_flags_free(&r);
    unlink(path);
}

static void a_config_file_s_mistake_is_named_with_its_line(void **state)
{
    char path[] = "/tmp/flags_test.XXXXXX";
    char expected[100];

    (void)state;
    write_config(path, "count = 4\nsession-term = 10\n");
    snprintf(expected, sizeof expected, "%s:2: --session-term: '10' is not a duration", path);
    refused(PARSE(no_environment, "--config", path), expected);
    unlink(path);
    refused(PARSE(no_environment, "--config=/nowhere/at/all"),
        "cannot read the config file /nowhere/at/all: No such file");
}

static void what_cannot_be_undone_is_said_on_the_command_line(void **state)
{
    char path[] = "/tmp/flags_test.XXXXXX";
    char expected[100];
    char *environment[] = {(char *)"LEASEHOLD_FINAL=true", (char *)"LEASEHOLD_FOLLOW=true", NULL};

    (void)state;
    struct lh_flags_result r = PARSE(environment, "a");
    assert_int_equal(r.outcome, LH_FLAGS_OK);
    assert_false(o.final);
    assert_true(o.follow);
    lh_flags_free(&r);
    r = PARSE(environment, "a", "--final");
    assert_true(o.final);
    lh_flags_free(&r);

    write_config(path, "count = 4\nfinal = true\n");
    snprintf(expected, sizeof expected, "%s:2: --final is for the command line alone", path);
    refused(PARSE(no_environment, "--config", path), expected);
    refused(PARSE(no_environment, "--config", path, "--final"), expected);
    unlink(path);
}

static void mistakes_are_named(void **state)
{
    char *environment[] = {(char *)"LEASEHOLD_COUNT=x", NULL};

    (void)state;
    refused(PARSE(no_environment, "--session-term", "10x"),
        "cmd: --session-term: '10x' is not a duration; use for example 10s or 200ms");
    refused(PARSE(no_environment, "--session-term", "1ms"), "too small; the least is 200ms");
    refused(PARSE(no_environment, "--chunk-size", "1KiB"), "too small; the least is 1MiB");
    refused(PARSE(no_environment, "--count", "10"), "too large; the most is 9");
    refused(PARSE(no_environment, "--count", "-1"), "'-1' is not a whole number");
    refused(PARSE(no_environment, "--count"), "--count needs a value");
    refused(PARSE(no_environment, "--counts=1"), "there is no option --counts");
    refused(PARSE(no_environment, "--no-count"), "there is no option --no-count");
    refused(PARSE(no_environment, "-x"), "there is no option -x");
    refused(PARSE(no_environment, "--sync=perhaps"), "neither true nor false");
    refused(PARSE(no_environment, "--log-format=xml"), "'xml' is none of: text, json");
    refused(PARSE(environment, "a"), "LEASEHOLD_COUNT: --count: 'x' is not a whole number");
}

static void an_option_that_may_stand_alone_takes_no_argument_for_its_value(void **state)
{
    struct lh_flags_result r = PARSE(no_environment, "--transfer", "m2");

    (void)state;
    assert_int_equal(r.outcome, LH_FLAGS_OK);
    assert_string_equal(o.transfer, "any");
    assert_int_equal(r.arg_count, 1);
    assert_string_equal(r.args[0], "m2");
    lh_flags_free(&r);
    r = PARSE(no_environment, "--transfer=m2");
    assert_int_equal(r.outcome, LH_FLAGS_OK);
    assert_string_equal(o.transfer, "m2");
    lh_flags_free(&r);
    r = PARSE(no_environment, "--transfer=");
    assert_int_equal(r.outcome, LH_FLAGS_OK);
    assert_string_equal(o.transfer, "");
    lh_flags_free(&r);
    r = PARSE(no_environment, "path");
    assert_int_equal(r.outcome, LH_FLAGS_OK);
    assert_null(o.transfer);
    lh_flags_free(&r);
    r = PARSE(no_environment, "--help");
    assert_non_null(strstr(r.text, "--transfer[=ID]"));
    lh_flags_free(&r);
}

static void help_and_version_are_printed_whatever_else_is_wrong(void **state)
{
    struct lh_flags_result r = PARSE(no_environment, "--count=x", "--help");

    (void)state;
    assert_int_equal(r.outcome, LH_FLAGS_EXIT);
    assert_non_null(strstr(r.text, "Usage: cmd [OPTION]... PATH\nDoes things."));
    assert_non_null(strstr(r.text, "--session-term DURATION"));
    assert_non_null(strstr(r.text, "life of a session [10s]"));
    assert_non_null(strstr(r.text, "--log-format text|json"));
    assert_non_null(strstr(r.text, "for good [command line only]"));
    assert_non_null(
        strstr(r.text, "usual width has the\n                                   lines"));
    for (const char *line = r.text; *line != '\0'; line += strspn(line, "\n")) {
        size_t size = strcspn(line, "\n");
        assert_true(size <= 100);
        line += size;
    }
    lh_flags_free(&r);
    r = PARSE(no_environment, "--version");
    assert_int_equal(r.outcome, LH_FLAGS_EXIT);
    assert_string_equal(r.text, "cmd 1.2\n");
    lh_flags_free(&r);
}

/* What stands in the file from its start on, which then is empty. */
static const char *said(FILE *file)
{
    static char text[8192];

    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    rewind(file);
    assert_int_equal(ftruncate(fileno(file), 0), 0);
    return text;
}

#define ACCEPT(...)                                                                                \
    accept_words((char *[]){(char *)"cmd", __VA_ARGS__, NULL}, output, errors, &code)

/* As a main() of a command with one or two arguments, whose streams are these files. */
static bool accept_words(char **argv, FILE *output, FILE *errors, int *code)
{
    static const struct lh_flags_binary binary = {"1.2", 64};
    FILE *const streams[] = {stdout, stderr}, *const files[] = {output, errors};
    struct lh_flags_result r;
    int argc = 0, kept[2];

    while (argv[argc] != NULL)
        argc++;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fflush(streams[i]), 0);
        kept[i] = dup(fileno(streams[i]));
        assert_true(dup2(fileno(files[i]), fileno(streams[i])) >= 0);
    }
    *code = -1;
    bool accepted = lh_flags_accept(&flags, &binary, argc, argv, 1, 2, &r, code);
    for (int i = 0; i < 2; i++) {
        (void)fflush(streams[i]);
        (void)dup2(kept[i], fileno(streams[i]));
        (void)close(kept[i]);
    }
    if (accepted)
        lh_flags_free(&r);
    return accepted;
}

/* ---- other forms of the table ---- */

static char *page(const char *form)
{
    char *text = lh_flags_page(&flags, form, "1.2");

    assert_non_null(text);
    return text;
}

static void has(const char *text, const char *expected)
{
    if (strstr(text, expected) == NULL)
        fail_msg("expected '%s' in: %s", expected, text);
}

static void a_manual_page_has_every_option_with_its_bounds_and_default(void **state)
{
    char *man = page("man");

    (void)state;
    has(man, ".TH \"CMD\" \"1\" \"\" \"Leasehold 1.2\"");
    has(man, "\\fB\\-\\-listen\\fR \\fIADDRESS\\fR\naddress to serve on [127.0.0.1:7400]\n");
    has(man, "\\fB\\-n\\fR, \\fB\\-\\-count\\fR \\fIN\\fR\n"
             "how many; at least 1, at most 9 [3]\n");
    has(man, "\\fB\\-\\-log\\-format\\fR \\fBtext\\fR|\\fBjson\\fR\n");
    has(man, "\\fB\\-\\-transfer\\fR[=\\fIID\\fR]\n");
    has(man, "for good [on the command line only]\n");
    for (size_t i = 0; i < flags.count; i++)
        has(man, table[i].help);
    free(man);
    assert_null(lh_flags_page(&flags, "tea", "1.2"));
    refused(PARSE(no_environment, "--help=tea"), "--help: 'tea' is none of: text, man");
}

/* What is printed as a config file, with its lines brought into effect, changes nothing. */
static void a_printed_config_file_has_the_defaults(void **state)
{
    char path[] = "/tmp/flags_test.XXXXXX";
    char *config = page("config"), *lines = calloc(1, strlen(config) + 1);

    (void)state;
    assert_null(strstr(config, "final"));
    has(config, "\n#transfer = ID\n");
    for (char *save, *line = strtok_r(config, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save))
        if (line[0] == '#' && line[1] != ' ' && strstr(line, "= ID") == NULL)
            strcat(strcat(lines, line + 1), "\n");
    write_config(path, lines);
    struct lh_flags_result without = PARSE(no_environment, "a"),
                           with = PARSE(no_environment, "--config", path);
    assert_int_equal(with.outcome, LH_FLAGS_OK);
    assert_int_equal(with.setting_count, flags.count);
    size_t given = 0;
    for (size_t i = 0; i < flags.count; i++) {
        assert_string_equal(with.settings[i].name, without.settings[i].name);
        if (without.settings[i].text == NULL)
            assert_null(with.settings[i].text);
        else
            assert_string_equal(with.settings[i].text, without.settings[i].text);
        char start[64];
        (void)snprintf(start, sizeof start, "%s = ", table[i].name);
        given += strstr(lines, start) != NULL;
    }
    assert_int_equal(given, flags.count - 2); /* but for `final` and `transfer` */
    lh_flags_free(&without);
    lh_flags_free(&with);
    unlink(path);
    free(lines);
    free(config);
}

static void a_shell_is_told_what_it_may_complete(void **state)
{
    char *words = page("words");

    (void)state;
    assert_string_equal(words,
        "options=' --listen= --sync --no-sync --follow --final --count= --chunk-size= "
        "--session-term= --log-format= --master= --transfer --config= --help --version'\n"
        "values=' --log-format=text --log-format=json'\n"
        "files=' --config'\n"
        "arguments=' PATH'\n"
        "subcommands=''\n");
    free(words);
}

static size_t said_count;
static char said_last[200];

static void say(void *arg, const struct lh_flag_setting *was, const char *is)
{
    (void)arg;
    said_count++;
    (void)snprintf(said_last, sizeof said_last, "%s: %s to %s%s", was->name, was->text, is,
        was->live ? ", live" : "");
}

static void options_read_again_are_compared_by_what_they_mean(void **state)
{
    static struct lh_flag live[sizeof table / sizeof table[0]];
    const struct lh_flags again = {
        .command = "cmd", .usage = "", .summary = "", LH_FLAG_ROWS(live)};
    char *first[] = {(char *)"cmd", (char *)"--session-term=10s", (char *)"--count=4", NULL};
    char *same[] = {(char *)"cmd", (char *)"--session-term=10000ms", (char *)"--count=4", NULL};
    char *other[] = {(char *)"cmd", (char *)"--session-term=5s", (char *)"--count=4", NULL};
    char *level[] = {(char *)"cmd", (char *)"--count=5", NULL};

    (void)state;
    memcpy(live, table, sizeof table);
    live[4].live = true; /* count */
    struct lh_flags_result now = lh_flags_parse(&again, 3, first, NULL, "1"),
                           fresh = lh_flags_parse(&again, 3, same, NULL, "1");
    said_count = 0;
    lh_flags_refresh(&now, &fresh, say, NULL);
    assert_int_equal(said_count, 0);
    lh_flags_free(&fresh);

    /* What is not live stays as it was, and is said each time. */
    for (size_t i = 1; i <= 2; i++) {
        fresh = lh_flags_parse(&again, 3, other, NULL, "1");
        lh_flags_refresh(&now, &fresh, say, NULL);
        assert_int_equal(said_count, i);
        assert_string_equal(said_last, "session-term: 10s to 5s");
        lh_flags_free(&fresh);
    }
    /* What is live is said once. */
    for (size_t i = 0; i < 2; i++) {
        fresh = lh_flags_parse(&again, 2, level, NULL, "1");
        lh_flags_refresh(&now, &fresh, say, NULL);
        assert_int_equal(said_count, 3);
        assert_string_equal(said_last, "count: 4 to 5, live");
        lh_flags_free(&fresh);
    }
    lh_flags_free(&now);
}

static void a_command_that_is_over_says_why_and_has_its_exit_code(void **state)
{
    FILE *output = tmpfile(), *errors = tmpfile();
    int code;

    (void)state;
    assert_non_null(output);
    assert_non_null(errors);
    assert_true(ACCEPT("one"));
    assert_true(ACCEPT("one", "--count=4", "two"));
    assert_int_equal(o.count, 4);
    assert_string_equal(said(output), "");
    assert_string_equal(said(errors), "");

    assert_false(ACCEPT("--count=4"));
    assert_int_equal(code, 64);
    assert_string_equal(said(errors), "cmd: an argument is missing; usage: cmd [OPTION]... PATH\n");
    assert_false(ACCEPT("one", "two", "three", "four"));
    assert_int_equal(code, 64);
    assert_string_equal(
        said(errors), "cmd: too many arguments, from 'three' on; usage: cmd [OPTION]... PATH\n");
    assert_false(ACCEPT("--count=x", "one"));
    assert_int_equal(code, 64);
    assert_non_null(strstr(said(errors), "--count"));
    assert_string_equal(said(output), "");

    assert_false(ACCEPT("--version"));
    assert_int_equal(code, 0);
    assert_string_equal(said(output), "cmd 1.2\n");
    assert_string_equal(said(errors), "");
    (void)fclose(output);
    (void)fclose(errors);
}

static void units(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
    } sizes[] = {{"0", 0}, {"4096", 4096}, {"1kB", 1000}, {"1.5KiB", 1536}, {"1GB", 1000000000},
        {"16TiB", UINT64_C(16) << 40}, {"18446744073709551615", UINT64_MAX}},
      durations[] = {{"0", 0}, {"10ns", 10}, {"50us", 50000}, {"200ms", 200000000},
          {"0.25s", 250000000}, {"2m", UINT64_C(120000000000)}, {"1h", UINT64_C(3600000000000)}};
    static const char *const bad[] = {"", "x", "1x", "-1s", "1.s", ".5s", "1 s", "s", "1.5.5s",
        "18446744073709551616s", "18446744073709551615s", "99999999999999999999999999s"};
    uint64_t v;
    struct lh_duration d;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_true(lh_parse_size(sizes[i].text, &v));
        assert_int_equal(v, sizes[i].value);
    }
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
        assert_true(lh_parse_duration(durations[i].text, &d));
        assert_int_equal(d.ns, durations[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(lh_parse_duration(bad[i], &d));
        assert_false(lh_parse_size(bad[i], &v));
    }
    assert_false(lh_parse_duration("10", &d));
    assert_false(lh_parse_size("17000000TiB", &v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_given_means_the_defaults),
        cmocka_unit_test(options_and_arguments_may_mix),
        cmocka_unit_test(the_command_line_wins_over_environment_over_file),
        cmocka_unit_test(a_config_file_s_mistake_is_named_with_its_line),
        cmocka_unit_test(what_cannot_be_undone_is_said_on_the_command_line),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(an_option_that_may_stand_alone_takes_no_argument_for_its_value),
        cmocka_unit_test(help_and_version_are_printed_whatever_else_is_wrong),
        cmocka_unit_test(a_manual_page_has_every_option_with_its_bounds_and_default),
        cmocka_unit_test(a_printed_config_file_has_the_defaults),
        cmocka_unit_test(a_shell_is_told_what_it_may_complete),
        cmocka_unit_test(options_read_again_are_compared_by_what_they_mean),
        cmocka_unit_test(a_command_that_is_over_says_why_and_has_its_exit_code),
        cmocka_unit_test(units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
