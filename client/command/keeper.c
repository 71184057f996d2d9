/* A program under a limit; see keeper.h. What the watchdog does after its fork is limited to
 * async-signal-safe functions: there are other threads here. */
#include "client/command/keeper.h"

#include "runtime/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct message {
    int event, value;
};

/* The watchdog's, all of it. */
struct watchdog {
    struct lh_reach *reach;
    int control, pipe, children, clock;
    int reading; /* the pipe's other end, for the program */
    pid_t guard;
    timer_t last; /* ends this process */
    pid_t program;
    struct lh_keeper_limits limits;
    bool warned;
    bool alone; /* `leasehold` is gone */
};

static sigset_t signals_before; /* lh_keeper_signals() */

#define FINISH_TRIES 500u /* milliseconds */

#define KEEPER_NONE                                                                                \
    (struct lh_keeper)                                                                             \
    {                                                                                              \
        .reach = {.enter = -1, .kill = -1}, .control = -1, .pipe = -1                              \
    }

uint64_t lh_keeper_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
    /* Zero would mean "no timer". */
    if (ns == 0)
        ns = 1;
    return (struct timespec){
        .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

int lh_keeper_exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- The program ---- */

/* In the program's process; returns if it could not become the program. */
static void become(const struct watchdog *w, pid_t watchdog, bool terminal, char *const *arguments,
    char *const *environment)
{
    struct pollfd gone = {.fd = w->reading};

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fcntl(w->reading, F_SETOWN, -getpid()) != 0 || fcntl(w->reading, F_SETSIG, SIGKILL) != 0 ||
        fcntl(w->reading, F_SETFL, O_ASYNC | O_NONBLOCK) != 0 || fcntl(w->reading, F_SETFD, 0) != 0)
        return;
    (void)close(w->pipe);
    lh_reach_enter(w->reach);
    if (getppid() != watchdog || poll(&gone, 1, 0) != 0)
        _exit(127); /* the watchdog is gone already */
    if (terminal) {
        (void)tcsetpgrp(STDIN_FILENO, getpid());
        (void)signal(SIGTTOU, SIG_DFL);
    }
    lh_signals_restore();
    (void)sigprocmask(SIG_SETMASK, &signals_before, NULL);
    (void)execvpe(arguments[0], arguments, environment);
}

static void report(const struct watchdog *w, enum lh_keeper_event event, int value)
{
    struct message m = {event, value};

    (void)!send(w->control, &m, sizeof m, MSG_NOSIGNAL);
}

static bool start_program(
    struct watchdog *w, bool terminal, char *const *arguments, char *const *environment)
{
    pid_t watchdog = getpid();

    w->program = _Fork();
    if (w->program == 0) {
        become(w, watchdog, terminal, arguments, environment);
        report(w, LH_KEEPER_NOT_STARTED, errno);
        _exit(127);
    }
    if (w->program < 0) {
        report(w, LH_KEEPER_NOT_STARTED, errno);
        return false;
    }
    (void)setpgid(w->program, w->program);
    report(w, LH_KEEPER_STARTED, w->program);
    return true;
}

/* ---- The watchdog ---- */

/* The connections of the process that forked are not this one's to hold open. */
static void close_others(const struct watchdog *w)
{
    const int kept[] = {
        w->control, w->pipe, w->reading, w->children, w->clock, w->reach->enter, w->reach->kill};
    int from = 0;

    for (;;) {
        int next = -1;
        for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
            if (kept[i] >= from && (next < 0 || kept[i] < next))
                next = kept[i];
        if (next < 0)
            break;
        if (next > from)
            (void)close_range((unsigned)from, (unsigned)next - 1, 0);
        from = next + 1;
    }
    (void)close_range((unsigned)from, ~0u, 0);
}

static void set_timers(const struct watchdog *w)
{
    uint64_t next =
        w->warned || w->limits.kill_at < w->limits.term_at ? w->limits.kill_at : w->limits.term_at;
    struct itimerspec at = {.it_value = timespec_of(next)}, none = {0};
    struct itimerspec last = {.it_value = timespec_of(w->limits.last_at)};

    (void)timerfd_settime(w->clock, TFD_TIMER_ABSTIME, next == LH_KEEPER_NEVER ? &none : &at, NULL);
    (void)timer_settime(
        w->last, TIMER_ABSTIME, w->limits.last_at == LH_KEEPER_NEVER ? &none : &last, NULL);
}

static void enforce(struct watchdog *w)
{
    uint64_t now = lh_keeper_now();

    if (now >= w->limits.kill_at) {
        (void)kill(-w->program, SIGKILL);
        lh_reach_kill(w->reach);
        w->limits.kill_at = LH_KEEPER_NEVER; /* until a new limit */
    }
    if (now >= w->limits.term_at && !w->warned) {
        w->warned = true;
        (void)kill(-w->program, SIGTERM);
        (void)lh_reach_signal(SIGTERM, w->program);
        (void)kill(-w->program, SIGCONT); /* a stopped one could not obey */
        (void)lh_reach_signal(SIGCONT, w->program);
        report(w, LH_KEEPER_WARNED, 0);
    }
    set_timers(w);
}

/* What `leasehold` says, the last of it; or that it is gone: then nobody renews. */
static void hear(struct watchdog *w)
{
    struct lh_keeper_limits limits;
    ssize_t n;

    while ((n = recv(w->control, &limits, sizeof limits, MSG_DONTWAIT)) == (ssize_t)sizeof limits)
        w->limits = limits;
    if (n == 0) {
        w->alone = true;
        w->limits.term_at = 0;
    }
}

/* Orphans from the program have become this process's children. */
static void bury_others(const struct watchdog *w)
{
    siginfo_t info = {0};

    /* The program's status is for look_after(), which comes at once. */
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
           info.si_pid != w->program) {
        (void)waitpid(info.si_pid, NULL, 0);
        info = (siginfo_t){0};
    }
}

/* True: the program has ended. What is left of it goes with it, before its group's number can be
 * another's. */
static bool look_after(const struct watchdog *w)
{
    struct signalfd_siginfo ignored;
    siginfo_t info = {0};
    int status;

    while (read(w->children, &ignored, sizeof ignored) > 0)
        ;
    bury_others(w);
    if (waitid(P_PID, (id_t)w->program, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid != 0)
        report(w, LH_KEEPER_STOPPED, info.si_status);
    info = (siginfo_t){0};
    if (waitid(P_PID, (id_t)w->program, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return false;
    (void)kill(-w->program, SIGKILL);
    bool has_status = waitpid(w->program, &status, 0) == w->program;
    lh_reach_end(w->reach);
    if (has_status)
        report(w, LH_KEEPER_ENDED, status);
    return true;
}

/* The watchdog's process. It has a group of its own: what stops `leasehold` from a terminal does
 * not stop it. */
static void watch(
    struct watchdog *w, bool terminal, char *const *arguments, char *const *environment)
{
    struct sigevent kill_me = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    sigset_t all, children;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "lease watchdog");
    lh_reach_adopt();
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)sigemptyset(&children);
    (void)sigaddset(&children, SIGCHLD);
    (void)sigaddset(&children, SIGUSR1);
    (void)prctl(PR_SET_PDEATHSIG, SIGUSR1); /* only wakes it */
    w->children = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    w->clock = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (w->children < 0 || w->clock < 0 || timer_create(CLOCK_BOOTTIME, &kill_me, &w->last) != 0) {
        report(w, LH_KEEPER_NOT_STARTED, errno);
        return;
    }
    set_timers(w);
    if (!start_program(w, terminal, arguments, environment))
        return;
    (void)close(w->reading);
    w->reading = -1;
    close_others(w);
    for (;;) {
        if (getppid() != w->guard)
            w->limits.term_at = w->limits.kill_at = 0;
        enforce(w);
        struct pollfd fds[] = {
            {.fd = w->children, .events = POLLIN},
            {.fd = w->clock, .events = POLLIN},
            {.fd = w->alone ? -1 : w->control, .events = POLLIN},
        };
        (void)poll(fds, sizeof fds / sizeof fds[0], -1);
        if (look_after(w))
            return;
        if (fds[2].revents != 0)
            hear(w);
    }
}

/* The guard's process. It does nothing while the watchdog lives, so there is no time of its own to
 * be late for. */
static void guard(
    struct watchdog *w, bool terminal, char *const *arguments, char *const *environment)
{
    sigset_t all;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "lease guard");
    lh_reach_adopt();
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    w->guard = getpid();
    pid_t watchdog = _Fork();
    if (watchdog == 0) {
        watch(w, terminal, arguments, environment);
        lh_reach_close(w->reach); /* the others may be gone */
        _exit(0);
    }
    if (watchdog < 0)
        report(w, LH_KEEPER_NOT_STARTED, errno);
    (void)close(w->control);
    (void)close(w->pipe);
    w->control = w->pipe = -1;
    close_others(w); /* but the pipe's other end: the kernel acts only while somebody has it */
    if (watchdog > 0)
        (void)waitpid(watchdog, NULL, 0);
    lh_reach_end(w->reach);
}

/* ---- What starts it ---- */

static sigset_t passed_on(void)
{
    static const int numbers[] = {
        SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        (void)sigaddset(&set, numbers[i]);
    return set;
}

int lh_keeper_signals(void)
{
    sigset_t set = passed_on();
    int error = pthread_sigmask(SIG_BLOCK, &set, &signals_before);
    if (error != 0) {
        errno = error;
        return -1;
    }
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool lh_keeper_start(struct lh_keeper *k, char *const *arguments, char *const *environment,
    const struct lh_keeper_limits *limits)
{
    int control[2], pipe_ends[2];

    *k = KEEPER_NONE;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0)
        return false;
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
        (void)close(control[0]);
        (void)close(control[1]);
        return false;
    }
    k->terminal = isatty(STDIN_FILENO) == 1 && tcgetpgrp(STDIN_FILENO) == getpgrp();
    /* From here on a change of the terminal's group does not stop this process. */
    if (k->terminal)
        (void)signal(SIGTTOU, SIG_IGN);
    lh_reach_open(&k->reach);
    lh_reach_adopt();
    k->guard = _Fork();
    if (k->guard == 0) {
        struct watchdog w = {.control = control[1],
            .pipe = pipe_ends[1],
            .reading = pipe_ends[0],
            .children = -1,
            .clock = -1,
            .reach = &k->reach,
            .limits = *limits};
        (void)close(control[0]);
        guard(&w, k->terminal, arguments, environment);
        lh_reach_close(&k->reach);
        _exit(0);
    }
    (void)close(control[1]);
    (void)close(pipe_ends[1]);
    k->control = control[0];
    k->pipe = pipe_ends[0]; /* so that it stays, should the program close its own */
    if (k->guard < 0)
        lh_keeper_finish(k);
    return k->guard > 0;
}

void lh_keeper_limit(const struct lh_keeper *k, const struct lh_keeper_limits *limits)
{
    /* A stopped watchdog does not read: the earlier limits hold. */
    (void)!send(k->control, limits, sizeof *limits, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void lh_keeper_signal(const struct lh_keeper *k, int signal_number)
{
    if (k->group > 0)
        (void)kill(-k->group, signal_number);
}

void lh_keeper_kill(const struct lh_keeper *k)
{
    lh_keeper_signal(k, SIGKILL);
    lh_reach_kill_cgroup(&k->reach);
}

enum lh_keeper_event lh_keeper_next(struct lh_keeper *k, int *value)
{
    struct message m;
    ssize_t n;

    /* A watchdog that has ended with limits that it had not read: what it said is still there. */
    do
        n = recv(k->control, &m, sizeof m, MSG_DONTWAIT);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0 && errno == EAGAIN)
        return LH_KEEPER_NOTHING;
    if (n != (ssize_t)sizeof m) {
        lh_keeper_signal(k, SIGKILL);
        k->group = 0;
        lh_reach_end(&k->reach); /* the guard, too: it may be stopped */
        return LH_KEEPER_LOST;
    }
    if (m.event == LH_KEEPER_STARTED)
        k->group = m.value;
    if (m.event == LH_KEEPER_ENDED)
        k->group = 0; /* its number may be another's soon */
    *value = m.value;
    return (enum lh_keeper_event)m.event;
}

void lh_keeper_stopped(const struct lh_keeper *k)
{
    if (!k->terminal)
        return;
    (void)tcsetpgrp(STDIN_FILENO, getpgrp());
    (void)kill(getpid(), SIGSTOP);
    if (tcgetpgrp(STDIN_FILENO) == getpgrp())
        (void)tcsetpgrp(STDIN_FILENO, k->group);
    lh_keeper_signal(k, SIGCONT);
}

void lh_keeper_finish(struct lh_keeper *k)
{
    if (k->terminal)
        (void)tcsetpgrp(STDIN_FILENO, getpgrp());
    if (k->control >= 0)
        (void)close(k->control);
    if (k->pipe >= 0)
        (void)close(k->pipe);
    /* Nothing is left but the guard, which ends now, unless it is stopped. */
    for (unsigned i = 0; k->guard > 0 && i < FINISH_TRIES; i++) {
        if (waitpid(k->guard, NULL, WNOHANG) != 0)
            break;
        (void)poll(NULL, 0, 1);
    }
    if (k->guard > 0)
        lh_reach_end(&k->reach);
    lh_reach_close(&k->reach);
    *k = KEEPER_NONE;
}
