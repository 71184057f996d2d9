/* Stories about guards (TOK-1): programs with tokens, some of which are late, killed, or
 * stopped. */
#include "client/library/leasehold.h"

#include "base/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/library/leasehold_leases.h"

#define NAME "/jobs/compact"
#define PAGE 4096

static char folder[4000], path[4096];

/* Given a folder without a guard. */
static int setup(void **state)
{
    (void)state;
    const char *base = getenv("TEST_TMPDIR");
    (void)snprintf(folder, sizeof folder, "%s/guard-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/guard", folder);
    return 0;
}

static struct lh_guard *open_ok(void)
{
    struct lh_guard *g = NULL;
    int error = lh_guard_open(path, &g);
    if (error != LH_OK)
        fail_msg("%s: %s", lh_error_name(error), lh_last_error());
    return g;
}

static void open_fails(int expected, const char *mentions)
{
    struct lh_guard *g = NULL;
    assert_int_equal(lh_guard_open(path, &g), expected);
    assert_null(g);
    if (strstr(lh_last_error(), mentions) == NULL)
        fail_msg("%s", lh_last_error());
}

static void admits(struct lh_guard *g, const char *name, uint64_t token)
{
    int error = lh_guard_enter(g, name, token, LH_NO_TIMEOUT);
    if (error != LH_OK)
        fail_msg("%s: %s", lh_error_name(error), lh_last_error());
    lh_guard_leave(g, name);
}

static void refuses(struct lh_guard *g, const char *name, uint64_t token, int expected)
{
    assert_int_equal(lh_guard_enter(g, name, token, 0), expected);
}

static void a_lower_token_is_refused_and_an_equal_one_is_not(void **state)
{
    (void)state;
    struct lh_guard *g = open_ok();
    admits(g, NAME, 7);
    admits(g, NAME, 7);
    admits(g, NAME, 9);
    refuses(g, NAME, 8, LH_ERR_STALE_TOKEN);
    assert_non_null(strstr(lh_last_error(), "token 8 is lower than 9"));
    refuses(g, NAME, 1, LH_ERR_STALE_TOKEN);
    admits(g, NAME, UINT64_MAX);
    admits(g, "/jobs/other", 1);
    lh_guard_close(g);
}

static void what_was_admitted_is_known_after_opening_again(void **state)
{
    (void)state;
    char name[32];
    for (unsigned round = 1; round <= 3; round++) {
        struct lh_guard *g = open_ok();
        for (unsigned i = 0; i < 20; i++) {
            (void)snprintf(name, sizeof name, "/n/%u", i);
            if (round > 1)
                refuses(g, name, (round - 1) * 100 + i - 1, LH_ERR_STALE_TOKEN);
            admits(g, name, round * 100 + i);
        }
        lh_guard_close(g);
    }
}

static void openings_of_one_file_know_of_each_other(void **state)
{
    (void)state;
    struct lh_guard *a = open_ok(), *b = open_ok();
    admits(a, NAME, 5);
    refuses(b, NAME, 4, LH_ERR_STALE_TOKEN);
    admits(b, NAME, 6);
    refuses(a, NAME, 5, LH_ERR_STALE_TOKEN);
    /* A name that the other one added after this one looked. */
    admits(b, "/later", 3);
    refuses(a, "/later", 2, LH_ERR_STALE_TOKEN);
    admits(a, "/later", 4);
    refuses(b, "/later", 3, LH_ERR_STALE_TOKEN);
    lh_guard_close(a);
    lh_guard_close(b);
}

static void a_guard_is_held_during_the_act(void **state)
{
    (void)state;
    struct lh_guard *a = open_ok(), *b = open_ok();
    assert_int_equal(lh_guard_enter(a, NAME, 1, 0), LH_OK);
    /* Then neither this opening nor another one enters, also with a higher token. */
    refuses(a, NAME, 2, LH_ERR_DEADLINE_EXCEEDED);
    refuses(b, NAME, 2, LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(lh_guard_enter(b, NAME, 2, 30), LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(lh_guard_enter(b, "/another", 2, 0), LH_OK);
    lh_guard_leave(b, "/another");
    /* The token of who waited in vain does not count. */
    lh_guard_leave(a, NAME);
    admits(b, NAME, 1);
    /* Leaving what is not held does nothing. */
    lh_guard_leave(a, NAME);
    lh_guard_leave(a, "/never");
    lh_guard_close(a);
    lh_guard_close(b);
}

static void closing_leaves(void **state)
{
    (void)state;
    struct lh_guard *a = open_ok(), *b = open_ok();
    assert_int_equal(lh_guard_enter(a, NAME, 1, 0), LH_OK);
    lh_guard_close(a);
    admits(b, NAME, 1);
    lh_guard_close(b);
    lh_guard_close(NULL);
}

struct crowd {
    struct lh_guard *guard;
    unsigned first, inside;
    bool together;
};

static void *act_many_times(void *arg)
{
    struct crowd *c = arg;
    for (unsigned i = 0; i < 200; i++) {
        if (lh_guard_enter(c->guard, NAME, 1, LH_NO_TIMEOUT) != LH_OK)
            return c;
        c->together |= c->inside++ != 0;
        sched_yield();
        c->inside--;
        lh_guard_leave(c->guard, NAME);
    }
    return NULL;
}

static void threads_act_one_after_another(void **state)
{
    (void)state;
    struct crowd c = {.guard = open_ok()};
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, act_many_times, &c), 0);
    for (size_t i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_false(c.together);
    lh_guard_close(c.guard);
}

/* ---- Processes ---- */

/* Each act reads the file's number, and writes the next one: two at a time would lose one. */
static void count_up(const char *file)
{
    char text[32] = "0";
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || pread(fd, text, sizeof text - 1, 0) < 0)
        _exit(1);
    int n = snprintf(text, sizeof text, "%lu\n", strtoul(text, NULL, 10) + 1);
    if (pwrite(fd, text, (size_t)n, 0) != n)
        _exit(1);
    (void)close(fd);
}

static unsigned long counted(const char *file)
{
    char text[32] = "0";
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    (void)close(fd);
    return strtoul(text, NULL, 10);
}

static void processes_act_one_after_another(void **state)
{
    (void)state;
    char file[4200];
    pid_t children[4];
    (void)snprintf(file, sizeof file, "%s/count", folder);
    for (size_t i = 0; i < 4; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] != 0)
            continue;
        struct lh_guard *g = open_ok();
        for (unsigned k = 0; k < 100; k++) {
            if (lh_guard_enter(g, NAME, 1, i % 2 == 0 ? LH_NO_TIMEOUT : 60000) != LH_OK)
                _exit(2);
            count_up(file);
            lh_guard_leave(g, NAME);
        }
        _exit(0);
    }
    for (size_t i = 0; i < 4; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(counted(file), 400);
}

/* A process that has entered with the token, and stays inside. */
static pid_t process_inside(uint64_t token)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct lh_guard *g = open_ok();
        (void)close(ready[0]);
        if (lh_guard_enter(g, NAME, token, 0) != LH_OK || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    return pid;
}

static void a_killed_holder_leaves_and_its_token_stays(void **state)
{
    (void)state;
    struct lh_guard *g = open_ok();
    admits(g, NAME, 1);
    pid_t pid = process_inside(5);
    refuses(g, NAME, 6, LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    refuses(g, NAME, 6, LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    refuses(g, NAME, 4, LH_ERR_STALE_TOKEN);
    admits(g, NAME, 5);
    lh_guard_close(g);
}

/* Killed anywhere, also between its write and its sync: what was admitted is never forgotten. */
static void tokens_rise_over_processes_that_are_killed_in_the_middle(void **state)
{
    (void)state;
    uint64_t admitted = 0;
    for (unsigned round = 0; round < 40; round++) {
        int out[2];
        assert_int_equal(pipe(out), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct lh_guard *g = open_ok();
            for (uint64_t token = admitted + 1;; token++) {
                if (lh_guard_enter(g, NAME, token, 0) != LH_OK ||
                    write(out[1], &token, sizeof token) != (ssize_t)sizeof token)
                    _exit(1);
                lh_guard_leave(g, NAME);
            }
        }
        (void)close(out[1]);
        uint64_t token;
        for (unsigned i = 0; read(out[0], &token, sizeof token) == (ssize_t)sizeof token; i++) {
            admitted = token;
            if (i == round % 7)
                assert_int_equal(kill(pid, SIGKILL), 0);
        }
        (void)close(out[0]);
        assert_int_equal(waitpid(pid, NULL, 0), pid);

        struct lh_guard *g = open_ok();
        refuses(g, NAME, admitted - 1, admitted > 1 ? LH_ERR_STALE_TOKEN : LH_ERR_INVALID_ARGUMENT);
        lh_guard_close(g);
        admitted++; /* it may have been admitted, and not said */
    }
}

static void a_guard_belongs_to_the_process_that_opened_it(void **state)
{
    (void)state;
    struct lh_guard *g = open_ok();
    assert_int_equal(lh_guard_enter(g, NAME, 1, 0), LH_OK);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int error = lh_guard_enter(g, "/another", 1, 0);
        lh_guard_leave(g, NAME); /* the parent's: not left */
        lh_guard_close(g);
        _exit(error == LH_ERR_CLOSED ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    struct lh_guard *other = open_ok();
    refuses(other, NAME, 2, LH_ERR_DEADLINE_EXCEEDED);
    lh_guard_close(g);
    admits(other, NAME, 2);
    lh_guard_close(other);
}

/* ---- Files ---- */

static void poke(off_t at, const void *bytes, size_t size)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, at), (ssize_t)size);
    (void)close(fd);
}

static void peek(off_t at, void *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, bytes, size, at), (ssize_t)size);
    (void)close(fd);
}

static uint64_t sequence_of(unsigned page)
{
    uint8_t bytes[8];
    peek(PAGE + (off_t)page * PAGE + 8, bytes, sizeof bytes);
    return lh_get64(bytes);
}

/* Given tokens 1 to `last` for NAME, the file's only name. */
static void given_tokens(uint64_t last)
{
    struct lh_guard *g = open_ok();
    for (uint64_t token = 1; token <= last; token++)
        admits(g, NAME, token);
    lh_guard_close(g);
}

static void one_page_that_is_damaged_does_no_harm(void **state)
{
    (void)state;
    for (unsigned page = 0; page < 2; page++)
        for (uint64_t last = 1; last < 4; last++) {
            (void)unlink(path);
            given_tokens(last);
            poke(PAGE + (off_t)page * PAGE + 16, "\xff\xff\xff", 3);
            struct lh_guard *g = open_ok();
            refuses(g, NAME, last - 1, last > 1 ? LH_ERR_STALE_TOKEN : LH_ERR_INVALID_ARGUMENT);
            admits(g, NAME, last);
            admits(g, NAME, last + 1);
            lh_guard_close(g);
            g = open_ok();
            refuses(g, NAME, last, LH_ERR_STALE_TOKEN);
            lh_guard_close(g);
        }
}

/* The machine went down while a token was written: half of its page is there, and nothing of the
 * copy. */
static void a_torn_write_was_not_admitted(void **state)
{
    (void)state;
    given_tokens(3);
    uint8_t old[2][PAGE], new[2][PAGE];
    peek(PAGE, old, sizeof old);
    struct lh_guard *g = open_ok();
    admits(g, NAME, 4);
    lh_guard_close(g);
    peek(PAGE, new, sizeof new);
    /* Its sequence shows which page was written first: the other one than last time. */
    unsigned first = sequence_of(0) > lh_get64(&old[0][8]) ? 0 : 1;
    for (size_t torn = 512; torn < PAGE; torn += 512) {
        uint8_t page[PAGE];
        memcpy(page, old[first], PAGE);
        memcpy(page, new[first], torn);
        poke(PAGE, old, sizeof old);
        poke(PAGE + (off_t)first * PAGE, page, PAGE);
        g = open_ok();
        refuses(g, NAME, 2, LH_ERR_STALE_TOKEN);
        lh_guard_close(g);
    }
}

static void without_a_whole_page_nothing_is_admitted(void **state)
{
    (void)state;
    given_tokens(3);
    struct lh_guard *before = open_ok();
    admits(before, NAME, 3);
    poke(PAGE + 16, "\xff", 1);
    poke(2 * PAGE + 16, "\xff", 1);
    /* Not by who has the file open, nor by others, and no name that it might have been. */
    refuses(before, NAME, 9, LH_ERR_CORRUPT);
    assert_non_null(strstr(lh_last_error(), "damaged"));
    lh_guard_close(before);
    struct lh_guard *g = open_ok();
    refuses(g, NAME, 9, LH_ERR_CORRUPT);
    refuses(g, "/new", 9, LH_ERR_CORRUPT);
    lh_guard_close(g);
}

static void a_name_whose_adding_was_interrupted_was_never_admitted(void **state)
{
    (void)state;
    given_tokens(3);
    poke(3 * PAGE, "half of a page", 14);
    struct lh_guard *g = open_ok();
    admits(g, NAME, 3);
    admits(g, "/new", 1);
    lh_guard_close(g);
    g = open_ok();
    admits(g, "/new", 2);
    refuses(g, "/new", 1, LH_ERR_STALE_TOKEN);
    refuses(g, NAME, 2, LH_ERR_STALE_TOKEN);
    lh_guard_close(g);
}

static void what_is_no_guard_is_not_touched(void **state)
{
    (void)state;
    char text[] = "important notes\n", found[sizeof text];
    poke(0, text, sizeof text);
    open_fails(LH_ERR_WRONG_FORMAT, "no guard's file");
    peek(0, found, sizeof found);
    assert_memory_equal(found, text, sizeof text);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    open_fails(LH_ERR_SYSTEM, "directory");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    open_fails(LH_ERR_WRONG_FORMAT, "no regular file");
    assert_int_equal(unlink(path), 0);
    (void)strcat(path, "/not/there");
    open_fails(LH_ERR_NOT_FOUND, "not/there");
    assert_int_equal(lh_guard_open(NULL, NULL), LH_ERR_INVALID_ARGUMENT);
}

static void an_empty_file_becomes_a_guard(void **state)
{
    (void)state;
    static const uint8_t zeros[PAGE];
    poke(0, "", 0);
    given_tokens(2);
    assert_int_equal(truncate(path, 0), 0);
    poke(0, zeros, 1000); /* its machine went down while it was made */
    given_tokens(2);
}

static void another_format_is_refused(void **state)
{
    (void)state;
    uint8_t header[16];
    given_tokens(1);
    poke(8, "\x02", 1);
    open_fails(LH_ERR_CORRUPT, "header is damaged");
    /* Given the header of a later version, with its checksum. */
    peek(0, header, sizeof header);
    uint32_t crc = 0xffffffff; /* CRC32C, bit by bit: independent of the library's */
    for (size_t i = 0; i < 12; i++) {
        crc ^= header[i];
        for (unsigned k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    lh_put32(header + 12, ~crc);
    poke(12, header + 12, 4);
    open_fails(LH_ERR_WRONG_FORMAT, "format 2");
}

static void a_file_that_is_removed_or_replaced_admits_nothing(void **state)
{
    (void)state;
    struct lh_guard *old = open_ok();
    admits(old, NAME, 5);
    assert_int_equal(unlink(path), 0);
    refuses(old, NAME, 6, LH_ERR_CORRUPT);
    struct lh_guard *new = open_ok();
    refuses(old, NAME, 6, LH_ERR_CORRUPT);
    assert_non_null(strstr(lh_last_error(), "replaced"));
    admits(new, NAME, 6);
    lh_guard_close(old);
    lh_guard_close(new);
}

static void a_full_disk_admits_nothing_new_and_forgets_nothing(void **state)
{
    (void)state;
    char name[32];
    if (mount("none", folder, "tmpfs", 0, "size=64k") != 0)
        skip(); /* not root */
    struct lh_guard *g = open_ok();
    int error = LH_OK;
    unsigned i = 0;
    for (; error == LH_OK && i < 100; i++) {
        (void)snprintf(name, sizeof name, "/n/%u", i);
        error = lh_guard_enter(g, name, 5, 0);
        lh_guard_leave(g, name);
    }
    assert_int_equal(error, LH_ERR_DISK_FULL);
    /* What is in the file takes no more room. */
    admits(g, "/n/0", 6);
    refuses(g, "/n/1", 4, LH_ERR_STALE_TOKEN);
    lh_guard_close(g);
    g = open_ok();
    refuses(g, "/n/0", 5, LH_ERR_STALE_TOKEN);
    /* And what was refused for want of room is admitted when there is some. */
    assert_int_equal(mount("none", folder, "tmpfs", MS_REMOUNT, "size=1m"), 0);
    admits(g, name, 3);
    lh_guard_close(g);
    assert_int_equal(umount(folder), 0);
}

static void bad_names_and_tokens_are_refused(void **state)
{
    (void)state;
    char name[LH_NAME_LENGTH_MAX + 2];
    struct lh_guard *g = open_ok();
    memset(name, 'x', sizeof name);
    name[0] = '/';
    name[LH_NAME_LENGTH_MAX + 1] = '\0';
    refuses(g, name, 1, LH_ERR_INVALID_ARGUMENT);
    name[LH_NAME_LENGTH_MAX] = '\0';
    admits(g, name, 1);
    refuses(g, "no/slash", 1, LH_ERR_INVALID_ARGUMENT);
    refuses(g, "", 1, LH_ERR_INVALID_ARGUMENT);
    refuses(g, NULL, 1, LH_ERR_INVALID_ARGUMENT);
    refuses(g, NAME, 0, LH_ERR_INVALID_ARGUMENT);
    refuses(NULL, NAME, 1, LH_ERR_INVALID_ARGUMENT);
    lh_guard_close(g);
    g = open_ok();
    refuses(g, name, 0, LH_ERR_INVALID_ARGUMENT);
    admits(g, name, 2);
    refuses(g, name, 1, LH_ERR_STALE_TOKEN);
    lh_guard_close(g);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        STORY(a_lower_token_is_refused_and_an_equal_one_is_not),
        STORY(what_was_admitted_is_known_after_opening_again),
        STORY(openings_of_one_file_know_of_each_other),
        STORY(a_guard_is_held_during_the_act),
        STORY(closing_leaves),
        STORY(threads_act_one_after_another),
        STORY(processes_act_one_after_another),
        STORY(a_killed_holder_leaves_and_its_token_stays),
        STORY(tokens_rise_over_processes_that_are_killed_in_the_middle),
        STORY(a_guard_belongs_to_the_process_that_opened_it),
        STORY(one_page_that_is_damaged_does_no_harm),
        STORY(a_torn_write_was_not_admitted),
        STORY(without_a_whole_page_nothing_is_admitted),
        STORY(a_name_whose_adding_was_interrupted_was_never_admitted),
        STORY(what_is_no_guard_is_not_touched),
        STORY(an_empty_file_becomes_a_guard),
        STORY(another_format_is_refused),
        STORY(a_file_that_is_removed_or_replaced_admits_nothing),
        STORY(a_full_disk_admits_nothing_new_and_forgets_nothing),
        STORY(bad_names_and_tokens_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
