/* Log lines: their two shapes, and that no text can forge a second line. */
#include "runtime/log.h"
#include "runtime/sink.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TIME "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z"

static int fds[2];

static void expect_line(const char *pattern)
{
    char line[16384];
    regex_t re;
    ssize_t n = read(fds[0], line, sizeof line - 1);

    assert_true(n > 0);
    line[n] = '\0';
    assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&re, line, 0, NULL, 0) != 0)
        fail_msg("'%s' does not match '%s'", line, pattern);
    regfree(&re);
}

static void text_lines(void **state)
{
    (void)state;
    lh_log_setup(LH_INFO, false);
    lh_log(LH_DEBUG, "test", "not seen");
    lh_log(LH_WARN, "master", "chunk %d\n\033[1mforged", 7);
    expect_line("^" TIME " WARN  master: chunk 7\\\\x0a\\\\x1b\\[1mforged\n$");
}

static void json_lines(void **state)
{
    (void)state;
    lh_log_setup(LH_DEBUG, true);
    lh_log(LH_DEBUG, "chunkserver", "a \"quoted\" \\ and\n");
    expect_line("^\\{\"time\":\"" TIME "\",\"level\":\"debug\",\"component\":\"chunkserver\","
                "\"message\":\"a \\\\\"quoted\\\\\" \\\\\\\\ and\\\\u000a\"\\}\n$");
}

static void what_is_no_utf8_or_turns_text_round_is_told_apart(void **state)
{
    static const char text[] = "\xc3\xa4 \xff \xe2\x80\xae \xc2\x85 \xed\xa0\x80.";

    (void)state;
    lh_log_setup(LH_INFO, false);
    lh_log(LH_INFO, "test", "%s", text);
    expect_line("test: \xc3\xa4 \\\\xff \\\\u202e \\\\u0085 \\\\xed\\\\xa0\\\\x80\\.\n$");
    lh_log_setup(LH_INFO, true);
    lh_log(LH_INFO, "test", "%s", text);
    expect_line("\"message\":\"\xc3\xa4 \\\\\\\\xff \\\\u202e \\\\u0085 "
                "\\\\\\\\xed\\\\\\\\xa0\\\\\\\\x80\\.\"\\}\n$");
}

static void a_very_long_message_is_cut(void **state)
{
    char message[5000];

    (void)state;
    memset(message, '\1', sizeof message - 1);
    message[sizeof message - 1] = '\0';
    lh_log_setup(LH_INFO, true);
    lh_log(LH_ERROR, "test", "%s", message);
    expect_line("(\\\\u0001)+\"\\}\n$");
}

/* How many lines there are by now. */
static size_t lines(void)
{
    static char text[1 << 16];
    size_t count = 0;

    lh_log(LH_ERROR, "test", "the end");
    ssize_t n = read(fds[0], text, sizeof text);
    for (ssize_t i = 0; i < n; i++)
        count += text[i] == '\n';
    return count - 1;
}

static void a_text_that_comes_again_and_again_is_counted(void **state)
{
    (void)state;
    lh_log_flush();
    lh_log_setup(LH_INFO, false);
    for (unsigned i = 0; i < 1000; i++) {
        lh_log(LH_WARN, "master", "version %d was refused", 7);
        lh_log(LH_INFO, "master", "granting version %d", 7);
    }
    assert_int_equal(lines(), 8); /* four of each */
    lh_log_flush();
    expect_line("^" TIME " WARN  master: version 7 was refused \\(repeated 996 times\\)\n"
                ".* INFO  master: granting version 7 \\(repeated 996 times\\)\n$");
    lh_log(LH_WARN, "master", "version %d was refused", 7); /* it begins again */
    expect_line("^" TIME " WARN  master: version 7 was refused\n$");
}

static void a_json_line_says_how_often(void **state)
{
    (void)state;
    lh_log_flush();
    lh_log_setup(LH_INFO, true);
    for (unsigned i = 0; i < 6; i++)
        lh_log(LH_WARN, "master", "again");
    assert_int_equal(lines(), 4);
    lh_log_flush();
    expect_line("\"message\":\"again\",\"repeated\":2\\}\n$");
}

static void more_texts_than_are_told_apart_are_written(void **state)
{
    (void)state;
    lh_log_flush();
    lh_log_setup(LH_INFO, false);
    for (unsigned i = 0; i < 500; i++)
        lh_log(LH_INFO, "master", "chunk %u", i);
    assert_int_equal(lines(), 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_lines),
        cmocka_unit_test(json_lines),
        cmocka_unit_test(what_is_no_utf8_or_turns_text_round_is_told_apart),
        cmocka_unit_test(a_very_long_message_is_cut),
        cmocka_unit_test(a_text_that_comes_again_and_again_is_counted),
        cmocka_unit_test(a_json_line_says_how_often),
        cmocka_unit_test(more_texts_than_are_told_apart_are_written),
    };
    if (pipe(fds) != 0)
        return 1;
    lh_sink_to(fds[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
