/* Lines that nobody waits for: what is kept, what is dropped, and what is said of it. */
#include "base/say.h"
#include "runtime/sink.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#define LINE "%06u a line of some length, so that not so many of them are needed to fill it\n"

#define PIPE_BYTES 16384 /* several pages: a pipe takes another one where a page is free */

static int fds[2];
static char all[(size_t)4 << 20];

static void open_pipe(void)
{
    assert_int_equal(pipe(fds), 0);
    assert_true(fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES);
    lh_sink_to(fds[1]);
}

static void put(unsigned number)
{
    lh_say(LINE, number);
}

/* Reads until `end` is found; returns what was read. */
static const char *read_until(const char *end)
{
    size_t have = 0;

    for (all[0] = '\0'; strstr(all, end) == NULL;) {
        ssize_t n = read(fds[0], all + have, sizeof all - 1 - have);
        assert_true(n > 0);
        have += (size_t)n;
        all[have] = '\0';
    }
    return all;
}

static void what_nobody_reads_is_dropped_counted_and_said(void **state)
{
    uint64_t before = lh_sink_dropped(), said = 0;
    unsigned next = 0, kept = 0, count = 10 * LH_SINK_WAITING_MAX / (sizeof LINE + 4);

    (void)state;
    open_pipe();
    for (unsigned i = 0; i < count; i++) /* would stand still, if anything waited */
        put(i);
    uint64_t dropped = lh_sink_dropped() - before;
    assert_true(dropped > count / 2 && dropped < count);

    /* The reader is back: lines in order, whole, the gap with its number, and lines again. */
    char *text = strdup(read_until("dropped: nobody read them\n")), *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        unsigned number;
        if (sscanf(line, "leasehold: %" SCNu64 " lines", &said) == 1)
            break;
        assert_int_equal(sscanf(line, "%06u a line", &number), 1);
        assert_int_equal(number, next++);
        kept++;
    }
    free(text);
    assert_int_equal(said, dropped);
    assert_int_equal(kept + dropped, count);
    lh_say("behind it\n");
    assert_null(strstr(read_until("behind it\n"), "dropped"));
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void a_reader_that_has_ended_is_waited_for_by_nobody(void **state)
{
    uint64_t before = lh_sink_dropped();

    (void)state;
    open_pipe();
    (void)close(fds[0]);
    for (unsigned i = 0; i < 100; i++)
        put(i);
    lh_sink_flush(lh_seconds(100));
    assert_int_equal(lh_sink_dropped() - before, 100);

    /* Another reader: of those before it hears the number. */
    (void)close(fds[1]);
    open_pipe();
    put(7);
    const char *text = read_until("000007");
    assert_non_null(strstr(text, "100 lines were dropped"));
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void last_words_come_behind_what_was_said_before(void **state)
{
    (void)state;
    open_pipe();
    put(1);
    lh_say_last("the end %d\n", 7);
    assert_string_equal(strchr(read_until("the end 7\n"), '\n'), "\nthe end 7\n");

    /* And are not waited for where nobody reads. */
    for (unsigned i = 0; i < 1000; i++)
        put(i);
    lh_say_last("the end %d\n", 8);
    assert_null(strstr(read_until("000999"), "the end"));
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void a_descriptor_that_others_made_nonblocking_loses_nothing(void **state)
{
    uint64_t before = lh_sink_dropped();

    (void)state;
    open_pipe();
    assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    for (unsigned i = 0; i < 1000; i++)
        put(i);
    unsigned next = 0;
    char *text = strdup(read_until("000999")), *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        assert_int_equal(strtoul(line, NULL, 10), next++);
    free(text);
    lh_sink_flush(lh_seconds(100));
    assert_int_equal(lh_sink_dropped(), before);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_reads_is_dropped_counted_and_said),
        cmocka_unit_test(a_reader_that_has_ended_is_waited_for_by_nobody),
        cmocka_unit_test(last_words_come_behind_what_was_said_before),
        cmocka_unit_test(a_descriptor_that_others_made_nonblocking_loses_nothing),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    lh_sink_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
