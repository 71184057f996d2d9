#include "master/watcher.h"

#include "base/alloc.h"
#include "base/error.h"
#include "grpc/rpc.h"
#include "master/options.h"
#include "master/reigns/reigns.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "runtime/server.h"
#include "runtime/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMPONENT "watcher"

/* The first argument of a watcher; the master's own follow. */
#define WATCH_OF "--watch-of="
/* The descriptor that it has of the master. */
#define MASTER_FD 3

/* For a core that has not stopped by itself when its time is over. */
#define STOP_MS 1000

/* --- when the master has ended ------------------------------------------------------------ */

static void on_stopped(void *arg, int error)
{
    (void)arg;
    (void)error;
}

/* Whatever comes of it, the reign ends: if not by this, then by its term. */
static void resign(const struct lh_master_options *o)
{
    struct lh_reigns *core = lh_reigns_create(&o->reigns);
    struct lh_loop_config config = {
        .core = lh_reigns_core(core),
        .name = COMPONENT,
        .threads = 1,
        .tls = o->server.tls.files,
        .foreign_tls = o->etcd.tls,
        .on_stopped = on_stopped,
    };
    struct lh_loop *loop;
    char why[512];

    lh_rpc_trust_locks();
    if (lh_loop_create(&config, &loop, why, sizeof why) == LH_OK) {
        lh_loop_start(loop);
        (void)lh_loop_wait(loop, lh_duration_add(o->reigns.reign_term, lh_milliseconds(STOP_MS)));
        lh_loop_destroy(loop);
    } else {
        lh_log(LH_ERROR, COMPONENT, "%s", why);
    }
    lh_reigns_destroy(core);
}

/* The options are read as they are now: certificates and passwords are newer than the master. */
static void master_has_ended(int argc, char **argv, uint64_t process)
{
    struct lh_master_options o = {0};
    int code;

    if (!lh_master_options_parse(&o, argc, argv, &code))
        return;
    lh_signals_ignore();
    lh_log_setup((enum lh_level)o.server.log_level, o.server.log_format == 1);
    if (o.data_dir == NULL &&
        getrandom(&o.reigns.master.seed, sizeof o.reigns.master.seed, 0) > 0) {
        o.reigns.task = LH_REIGN_AFTER_DEATH;
        o.reigns.process = process;
        resign(&o);
    }
    lh_log_flush();
    lh_master_options_free(&o);
}

/* --- the master's child ------------------------------------------------------------------- */

bool lh_watcher_is_meant(int argc, char **argv)
{
    return argc > 1 && strncmp(argv[1], WATCH_OF, strlen(WATCH_OF)) == 0;
}

/* It ends by itself, soon after the master: what stops the master need not stop it, too. */
static void ignore_stops(void)
{
    static const int stops[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++)
        (void)signal(stops[i], SIG_IGN);
}

int lh_watcher_main(int argc, char **argv)
{
    uint64_t process = strtoull(argv[1] + strlen(WATCH_OF), NULL, 10);
    struct pollfd master = {.fd = MASTER_FD, .events = POLLIN};

    ignore_stops();
    (void)prctl(PR_SET_NAME, "leasehold-watch");
    while (poll(&master, 1, -1) < 0 && errno == EINTR)
        ;
    if ((master.revents & POLLIN) == 0)
        return LH_SERVER_SYSTEM; /* it was started by hand */
    (void)close(MASTER_FD);
    memmove(&argv[1], &argv[2], (size_t)(argc - 1) * sizeof argv[0]);
    master_has_ended(argc - 1, argv, process);
    return LH_SERVER_DONE;
}

/* In the child: nothing but what may be called between fork() and exec(). */
static void become_watcher(int master, char **argv)
{
    if (master != MASTER_FD && dup2(master, MASTER_FD) < 0)
        _exit(LH_SERVER_SYSTEM);
    (void)fcntl(MASTER_FD, F_SETFD, 0);
    if (close_range(MASTER_FD + 1, ~0u, 0) == 0)
        (void)execv("/proc/self/exe", argv);
    _exit(LH_SERVER_SYSTEM);
}

static bool start_child(int argc, char **argv, uint64_t process)
{
    char **watcher = lh_alloc_array((size_t)argc + 2, sizeof *watcher), of[64];
    int master = pidfd_open(getpid(), 0);
    bool started = false;

    (void)snprintf(of, sizeof of, WATCH_OF "%" PRIu64, process);
    watcher[0] = argv[0];
    watcher[1] = of;
    memcpy(&watcher[2], &argv[1], (size_t)argc * sizeof *watcher); /* with the NULL behind */
    if (master >= 0) {
        pid_t child = fork();
        if (child == 0)
            become_watcher(master, watcher);
        started = child > 0;
        (void)close(master);
    }
    free(watcher);
    return started;
}

/* --- where the master would be the first process ------------------------------------------- */

/* Until the master has ended, everything that it is sent is passed on, and orphans are buried. */
static int wait_for(pid_t master, const sigset_t *signals)
{
    for (;;) {
        int status, taken = sigwaitinfo(signals, NULL);
        pid_t ended;

        if (taken > 0 && taken != SIGCHLD)
            (void)kill(master, taken);
        while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
            if (ended == master && WIFEXITED(status))
                return WEXITSTATUS(status);
            else if (ended == master && WIFSIGNALED(status))
                return 128 + WTERMSIG(status); /* as a shell says it */
    }
}

/* Not there under a sanitizer. */
extern int mallctl(const char *name, void *old, size_t *old_size, void *fresh, size_t fresh_size)
    __attribute__((weak));

/* A child has its parent's memory and none of its threads, nor that which gives memory back. */
static void go_on_as_child(void)
{
    bool on = true;

    if (mallctl != NULL)
        (void)mallctl("background_thread", NULL, NULL, &on, sizeof on);
}

/* True: this is the master, or there is no watcher. */
static bool start_parent(int argc, char **argv, uint64_t process, bool *started, int *code)
{
    static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    sigset_t signals, before;

    (void)sigemptyset(&signals);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++)
        (void)sigaddset(&signals, passed_on[i]);
    (void)sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t master = fork();
    *started = master >= 0;
    if (master == 0)
        go_on_as_child();
    if (master <= 0) {
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        return true;
    }
    *code = wait_for(master, &signals);
    master_has_ended(argc, argv, process);
    return false;
}

bool lh_watcher_start(int argc, char **argv, uint64_t *process, int *code)
{
    bool started = false;

    *process = 0;
    if (getrandom(process, sizeof *process, 0) == sizeof *process && *process != 0) {
        if (getpid() != 1)
            started = start_child(argc, argv, *process);
        else if (!start_parent(argc, argv, *process, &started, code))
            return false;
    }
    if (!started)
        lh_log(LH_WARN, COMPONENT,
            "nobody can watch this process (%s): if it dies, the next master waits until its reign "
            "is over",
            strerror(errno));
    return true;
}
