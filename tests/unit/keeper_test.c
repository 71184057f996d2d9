/* Stories about `leasehold lock` and the program that it runs: whatever is stopped or killed, the
 * program and all of its group are gone at the limit. */
#include "client/command/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MS       UINT64_C(1000000)
#define PATIENCE 60000 /* milliseconds: only a test that fails waits so long */
#define ALIVE_FD 9     /* open in all processes of the program, and in none else */

/* It neither obeys SIGTERM nor ends, and neither does its child. */
static const char stubborn[] = "trap '' TERM; (while :; do sleep 1000; done) & "
                               "echo up >&9; while :; do sleep 1000; done";
static const char obedient[] = "trap 'exit 5' TERM; (trap '' TERM; sleep 1000) & "
                               "echo up >&9; while :; do sleep 1000 & wait; done";

static int alive; /* the other end: it hangs up when the last process is gone */

static uint64_t in_ms(uint64_t ms)
{
    return lh_keeper_now() + ms * MS;
}

static struct lh_keeper_limits never(void)
{
    return (struct lh_keeper_limits){LH_KEEPER_NEVER, LH_KEEPER_NEVER, LH_KEEPER_NEVER};
}

static struct lh_keeper start(const char *script, struct lh_keeper_limits limits)
{
    char sh[] = "sh", c[] = "-c", text[512];
    char *arguments[] = {sh, c, text, NULL};
    struct lh_keeper k;
    int ends[2];

    (void)snprintf(text, sizeof text, "%s", script);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(dup2(ends[1], ALIVE_FD), ALIVE_FD);
    (void)close(ends[1]);
    alive = ends[0];
    assert_true(lh_keeper_start(&k, arguments, environ, &limits));
    (void)close(ALIVE_FD);
    return k;
}

static void program_is_up(void)
{
    char text[3];
    assert_int_equal(read(alive, text, sizeof text), 3);
}

static bool all_gone(int wait_ms)
{
    struct pollfd p = {.fd = alive};
    return poll(&p, 1, wait_ms) == 1 && (p.revents & POLLHUP) != 0;
}

static void they_are_gone(void)
{
    assert_true(all_gone(PATIENCE));
    (void)close(alive);
}

/* Until the program has ended; `warned` says whether it got SIGTERM by the limit. */
static int ended(struct lh_keeper *k, bool *warned)
{
    *warned = false;
    for (;;) {
        struct pollfd p = {.fd = k->control, .events = POLLIN};
        int value = 0;
        assert_int_equal(poll(&p, 1, PATIENCE), 1);
        enum lh_keeper_event event = lh_keeper_next(k, &value);
        *warned |= event == LH_KEEPER_WARNED;
        if (event == LH_KEEPER_ENDED || event == LH_KEEPER_LOST) {
            lh_keeper_finish(k);
            return event == LH_KEEPER_ENDED ? lh_keeper_exit_code(value) : -1;
        }
    }
}

static void program_has_started(struct lh_keeper *k)
{
    while (k->group == 0) {
        struct pollfd p = {.fd = k->control, .events = POLLIN};
        int value;
        assert_int_equal(poll(&p, 1, PATIENCE), 1);
        assert_int_not_equal(lh_keeper_next(k, &value), LH_KEEPER_LOST);
    }
}

static void a_program_ends_with_its_status_and_with_what_it_left_running(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper k = start("sleep 1000 & exit 3", never());
    assert_int_equal(ended(&k, &warned), 3);
    assert_false(warned);
    they_are_gone();
    k = start("kill -SEGV $$", never());
    assert_int_equal(ended(&k, &warned), 128 + SIGSEGV);
    they_are_gone();
}

static void a_program_that_is_not_there_is_said_to_be(void **state)
{
    (void)state;
    char name[] = "/not/there";
    char *arguments[] = {name, NULL};
    struct lh_keeper_limits limits = never();
    struct lh_keeper k;
    int value = 0;
    enum lh_keeper_event event = LH_KEEPER_NOTHING;
    assert_true(lh_keeper_start(&k, arguments, environ, &limits));
    while (event == LH_KEEPER_NOTHING || event == LH_KEEPER_STARTED) {
        struct pollfd p = {.fd = k.control, .events = POLLIN};
        assert_int_equal(poll(&p, 1, PATIENCE), 1);
        event = lh_keeper_next(&k, &value);
    }
    assert_int_equal(event, LH_KEEPER_NOT_STARTED);
    assert_int_equal(value, ENOENT);
    lh_keeper_finish(&k);
}

static void a_signal_reaches_the_program(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper k = start(obedient, never());
    program_is_up();
    program_has_started(&k);
    lh_keeper_signal(&k, SIGTERM);
    assert_int_equal(ended(&k, &warned), 5);
    assert_false(warned);
    they_are_gone();
}

static void at_the_limit_it_gets_sigterm_and_then_sigkill(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper k = start(stubborn, never());
    program_is_up();
    struct lh_keeper_limits limits = {in_ms(10), in_ms(60), in_ms(60000)};
    lh_keeper_limit(&k, &limits);
    assert_int_equal(ended(&k, &warned), 128 + SIGKILL);
    assert_true(lh_keeper_now() >= limits.kill_at);
    assert_true(warned);
    they_are_gone();

    k = start(obedient, never());
    program_is_up();
    limits = (struct lh_keeper_limits){in_ms(10), in_ms(60000), in_ms(60000)};
    lh_keeper_limit(&k, &limits);
    assert_int_equal(ended(&k, &warned), 5);
    assert_true(warned);
    they_are_gone();
}

static void a_stopped_program_is_ended_too(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper k = start(obedient, never());
    program_is_up();
    program_has_started(&k);
    lh_keeper_signal(&k, SIGSTOP);
    struct lh_keeper_limits limits = {0, in_ms(60000), in_ms(60000)};
    lh_keeper_limit(&k, &limits);
    assert_int_equal(ended(&k, &warned), 5);
    they_are_gone();
}

static void a_limit_that_moves_on_ends_nothing(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper_limits limits = {in_ms(300), in_ms(300), in_ms(60000)};
    struct lh_keeper k = start(stubborn, limits);
    program_is_up();
    limits = (struct lh_keeper_limits){in_ms(60000), in_ms(60000), in_ms(60000)};
    lh_keeper_limit(&k, &limits);
    assert_false(all_gone(500));
    limits.kill_at = 0;
    lh_keeper_limit(&k, &limits);
    assert_int_equal(ended(&k, &warned), 128 + SIGKILL);
    they_are_gone();
}

/* The only child of the process. */
static pid_t child_of(pid_t pid)
{
    char path[80];
    int child = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &child), 1);
    (void)fclose(f);
    return child;
}

/* What `leasehold lock` is: a process that has started a program, and can be killed. */
static pid_t holder(
    const char *script, struct lh_keeper_limits limits, pid_t *guard, pid_t *watchdog)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    /* What is left of it is not this process's to end. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char sh[] = "sh", c[] = "-c", text[512];
        char *arguments[] = {sh, c, text, NULL};
        struct lh_keeper k;
        (void)snprintf(text, sizeof text, "%s", script);
        if (dup2(ends[1], ALIVE_FD) != ALIVE_FD ||
            !lh_keeper_start(&k, arguments, environ, &limits))
            _exit(1);
        (void)close(ALIVE_FD);
        (void)close(ends[1]);
        for (;;)
            (void)pause();
    }
    (void)close(ends[1]);
    alive = ends[0];
    program_is_up();
    *guard = child_of(pid);
    *watchdog = child_of(*guard);
    return pid;
}

static void buried(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void if_leasehold_is_killed_the_program_ends_by_the_last_limit(void **state)
{
    (void)state;
    pid_t guard, watchdog;
    struct lh_keeper_limits limits = {in_ms(60000), in_ms(1500), in_ms(60000)};
    pid_t pid = holder(stubborn, limits, &guard, &watchdog);
    buried(pid);
    they_are_gone();
    assert_true(lh_keeper_now() >= limits.kill_at);
    /* One that obeys ends at once. */
    limits = (struct lh_keeper_limits){in_ms(600000), in_ms(600000), in_ms(600000)};
    pid = holder(obedient, limits, &guard, &watchdog);
    buried(pid);
    they_are_gone();
}

static void if_leasehold_is_stopped_the_program_ends_at_the_limit(void **state)
{
    (void)state;
    pid_t guard, watchdog;
    struct lh_keeper_limits limits = {in_ms(60000), in_ms(700), in_ms(60000)};
    pid_t pid = holder(stubborn, limits, &guard, &watchdog);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    they_are_gone();
    buried(pid);
}

static void if_the_watchdog_is_killed_the_program_ends_at_once(void **state)
{
    (void)state;
    pid_t guard, watchdog;
    pid_t pid = holder(stubborn, never(), &guard, &watchdog);
    assert_int_equal(kill(watchdog, SIGKILL), 0);
    they_are_gone();
    buried(pid);
}

static void if_all_are_stopped_the_kernel_ends_the_program(void **state)
{
    (void)state;
    pid_t guard, watchdog;
    struct lh_keeper_limits limits = {in_ms(60000), in_ms(60000), in_ms(900)};
    pid_t pid = holder(stubborn, limits, &guard, &watchdog);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(kill(guard, SIGSTOP), 0);
    assert_int_equal(kill(watchdog, SIGSTOP), 0);
    they_are_gone();
    assert_true(lh_keeper_now() >= limits.last_at);
    buried(pid);
}

static void if_all_are_killed_the_program_ends(void **state)
{
    (void)state;
    pid_t guard, watchdog;
    pid_t pid = holder(stubborn, never(), &guard, &watchdog);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(kill(guard, SIGSTOP), 0);
    assert_int_equal(kill(watchdog, SIGSTOP), 0);
    assert_int_equal(kill(watchdog, SIGKILL), 0);
    assert_int_equal(kill(guard, SIGKILL), 0);
    buried(pid);
    they_are_gone();
    /* Nobody was left to remove it. */
    struct lh_reach here;
    lh_reach_open(&here);
    char *slash = strrchr(here.folder, '/');
    if (slash != NULL) {
        char pattern[PATH_MAX + 40];
        glob_t found;
        (void)snprintf(pattern, sizeof pattern, "%.*s/leasehold-%d-*", (int)(slash - here.folder),
            here.folder, (int)pid);
        assert_int_equal(glob(pattern, 0, NULL, &found), 0);
        while (rmdir(found.gl_pathv[0]) != 0)
            assert_int_equal(errno, EBUSY); /* the last one is ending */
        globfree(&found);
    }
    lh_reach_close(&here);
}

/* ---- A program whose child has left: for a session of its own and another parent, without any
 * descriptor but the one that the test looks at, and deaf to SIGTERM. */

#define LEAVES                                                                                     \
    "(setsid bash -c 'for n in 0 {1..8} {10..40}; do eval \"exec $n>&-\"; done; "                  \
    "trap \"\" TERM; echo up >&9; while :; do sleep 1000; done' &); "

static const char leaving[] = LEAVES "while :; do sleep 1000; done";

static void what_has_left_is_ended_with_the_program(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper k =
        start("trap 'exit 4' TERM; " LEAVES "while :; do sleep 1000 & wait; done", never());
    program_is_up();
    program_has_started(&k);
    lh_keeper_signal(&k, SIGTERM);
    assert_int_equal(ended(&k, &warned), 4);
    they_are_gone();
}

static void what_has_left_is_ended_at_the_limit(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper_limits limits = {in_ms(60000), in_ms(300), in_ms(60000)};
    struct lh_keeper k = start(leaving, limits);
    program_is_up();
    assert_int_equal(ended(&k, &warned), 128 + SIGKILL);
    they_are_gone();
}

static void what_has_left_gets_sigterm_too(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper_limits limits = {0, in_ms(60000), in_ms(60000)};
    struct lh_keeper k = start("trap : TERM; setsid sh -c 'trap \"echo term >&9; exit\" TERM; "
                               "echo up >&9; while :; do sleep 1000 & wait; done' & "
                               "while :; do sleep 1000 & wait; done",
        never());
    program_is_up();
    lh_keeper_limit(&k, &limits);
    char text[5];
    assert_int_equal(read(alive, text, sizeof text), 5);
    assert_memory_equal(text, "term\n", 5);
    limits.kill_at = 0;
    lh_keeper_limit(&k, &limits);
    assert_int_equal(ended(&k, &warned), 128 + SIGKILL);
    assert_true(warned);
    they_are_gone();
}

/* Which of the three are killed: bits. */
static void what_has_left_is_ended_whoever_is_killed(void **state)
{
    (void)state;
    enum { COMMAND = 1, GUARD = 2, WATCHDOG = 4 };
    static const unsigned killed[] = {GUARD, WATCHDOG, COMMAND | GUARD, COMMAND | WATCHDOG};
    for (size_t i = 0; i < sizeof killed / sizeof killed[0]; i++) {
        pid_t guard, watchdog;
        pid_t pid = holder(leaving, never(), &guard, &watchdog);
        /* At once, as far as they can tell. */
        assert_int_equal(kill(pid, SIGSTOP) + kill(guard, SIGSTOP) + kill(watchdog, SIGSTOP), 0);
        assert_int_equal((killed[i] & WATCHDOG) != 0 ? kill(watchdog, SIGKILL) : 0, 0);
        assert_int_equal((killed[i] & GUARD) != 0 ? kill(guard, SIGKILL) : 0, 0);
        if ((killed[i] & COMMAND) != 0)
            buried(pid);
        (void)kill(watchdog, SIGCONT);
        (void)kill(guard, SIGCONT);
        they_are_gone();
        if ((killed[i] & COMMAND) == 0)
            buried(pid);
    }
}

/* Its guards are gone; what they had to end becomes this process's. */
static void what_has_left_is_ended_by_leasehold_alone(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper k = start(leaving, never());
    program_is_up();
    program_has_started(&k);
    pid_t watchdog = child_of(k.guard);
    assert_int_equal(kill(k.guard, SIGSTOP) + kill(watchdog, SIGSTOP), 0);
    assert_int_equal(kill(watchdog, SIGKILL) + kill(k.guard, SIGKILL), 0);
    assert_int_equal(ended(&k, &warned), -1);
    they_are_gone();
}

/* The watchdog ends with a limit that it has not read: what it said before is heard anyway. */
static void a_limit_that_comes_too_late_hides_no_status(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper k = start(obedient, never());
    struct lh_keeper_limits limits = never();
    program_is_up();
    program_has_started(&k);
    pid_t watchdog = child_of(k.guard);
    assert_int_equal(kill(watchdog, SIGSTOP), 0);
    lh_keeper_signal(&k, SIGTERM);
    lh_keeper_limit(&k, &limits);
    assert_int_equal(kill(watchdog, SIGCONT), 0);
    assert_int_equal(ended(&k, &warned), 5);
    they_are_gone();
}

static void a_guard_that_is_stopped_delays_nothing(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper k = start(obedient, never());
    program_is_up();
    program_has_started(&k);
    assert_int_equal(kill(k.guard, SIGSTOP), 0);
    lh_keeper_signal(&k, SIGTERM);
    assert_int_equal(ended(&k, &warned), 5);
    they_are_gone();
}

/* Where there is a cgroup, it is gone with the program. */
static void no_cgroup_is_left(void **state)
{
    (void)state;
    bool warned;
    struct lh_keeper k = start("exit 3", never());
    char folder[sizeof k.reach.folder];
    (void)snprintf(folder, sizeof folder, "%s", k.reach.folder);
    if (folder[0] == '\0')
        print_message("the system allows no cgroup here\n");
    else
        assert_int_equal(access(folder, F_OK), 0);
    assert_int_equal(ended(&k, &warned), 3);
    they_are_gone();
    if (folder[0] != '\0')
        assert_int_equal(access(folder, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_ends_with_its_status_and_with_what_it_left_running),
        cmocka_unit_test(a_program_that_is_not_there_is_said_to_be),
        cmocka_unit_test(a_signal_reaches_the_program),
        cmocka_unit_test(at_the_limit_it_gets_sigterm_and_then_sigkill),
        cmocka_unit_test(a_stopped_program_is_ended_too),
        cmocka_unit_test(a_limit_that_moves_on_ends_nothing),
        cmocka_unit_test(if_leasehold_is_killed_the_program_ends_by_the_last_limit),
        cmocka_unit_test(if_leasehold_is_stopped_the_program_ends_at_the_limit),
        cmocka_unit_test(if_the_watchdog_is_killed_the_program_ends_at_once),
        cmocka_unit_test(if_all_are_stopped_the_kernel_ends_the_program),
        cmocka_unit_test(if_all_are_killed_the_program_ends),
        cmocka_unit_test(what_has_left_is_ended_with_the_program),
        cmocka_unit_test(what_has_left_is_ended_at_the_limit),
        cmocka_unit_test(what_has_left_gets_sigterm_too),
        cmocka_unit_test(what_has_left_is_ended_whoever_is_killed),
        cmocka_unit_test(what_has_left_is_ended_by_leasehold_alone),
        cmocka_unit_test(a_limit_that_comes_too_late_hides_no_status),
        cmocka_unit_test(a_guard_that_is_stopped_delays_nothing),
        cmocka_unit_test(no_cgroup_is_left),
    };
    int failed = cmocka_run_group_tests_name("keeper", tests, NULL, NULL);
    /* Whoever may make a cgroup here may also do without: all of it again. */
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        umount2("/sys/fs/cgroup", MNT_DETACH) == 0)
        failed += cmocka_run_group_tests_name("keeper without a cgroup", tests, NULL, NULL);
    return failed;
}
