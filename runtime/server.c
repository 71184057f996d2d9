/* Signals are taken by waiting for them, never by a handler: what follows one may lock and log. */
#include "runtime/server.h"

#include "runtime/log.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define VERSION "0.1"

int lh_server_exit_code(int error)
{
    switch (error) {
    case LH_OK:
        return LH_SERVER_DONE;
    case LH_ERR_ADDRESS_IN_USE:
    case LH_ERR_UNAVAILABLE:
        return LH_SERVER_UNAVAILABLE;
    case LH_ERR_INVALID_ARGUMENT:
        return LH_SERVER_USAGE;
    case LH_ERR_IN_USE:
    case LH_ERR_NOT_FOUND:
    case LH_ERR_PERMISSION:
    case LH_ERR_WRONG_FORMAT:
    case LH_ERR_WRONG_IDENTITY:
    case LH_ERR_CORRUPT:
        return LH_SERVER_DATA_DIR;
    case LH_ERR_IO:
    case LH_ERR_DISK_FULL:
        return LH_SERVER_IO;
    default:
        return LH_SERVER_SYSTEM;
    }
}

int lh_server_refused(const char *component, int error, const char *why)
{
    lh_log(LH_ERROR, component, "%s", why);
    return lh_server_exit_code(error);
}

/* --- options ------------------------------------------------------------------------------ */

const char *const lh_server_log_levels[] = {"debug", "info", "warn", "error", NULL};
const char *const lh_server_log_formats[] = {"text", "json", NULL};

bool lh_server_parse(const struct lh_flags *flags, int argc, char **argv,
    struct lh_flags_result *args, int *exit_code)
{
    static const struct lh_flags_binary binary = {VERSION, LH_SERVER_USAGE};

    return lh_flags_accept(flags, &binary, argc, argv, 0, 0, args, exit_code);
}

void lh_server_prepare(const struct lh_server_options *options)
{
    struct rlimit limit;

    lh_log_setup((enum lh_level)options->log_level, options->log_format == 1);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* --- running ------------------------------------------------------------------------------ */

/* Set before its signal is sent: a SIGUSR1 from outside stops nothing. */
static atomic_bool core_stopped;

/* SIGUSR1 is lh_server_on_stopped()'s. */
static sigset_t signals(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGUSR1);
    return set;
}

void lh_server_block_signals(void)
{
    const sigset_t set = signals();

    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

void lh_server_on_stopped(void *arg, int error)
{
    (void)arg;
    (void)error;
    atomic_store(&core_stopped, true);
    (void)kill(getpid(), SIGUSR1);
}

/* The number of the next signal; 0 when it is time for an update. */
static int next_signal(const struct lh_server *s)
{
    const sigset_t set = signals();
    const struct timespec interval = {
        .tv_sec = (time_t)(s->interval.ns / 1000000000u),
        .tv_nsec = (long)(s->interval.ns % 1000000000u),
    };
    int number = s->update != NULL ? sigtimedwait(&set, NULL, &interval) : sigwaitinfo(&set, NULL);

    return number > 0 ? number : 0;
}

bool lh_server_wait(const struct lh_server *server, int *exit_code)
{
    for (;;) {
        int number = next_signal(server);
        if (number == SIGINT || number == SIGTERM) {
            lh_log(LH_INFO, server->component, "%s: %s", strsignal(number), server->on_signal);
            return true;
        }
        if (number == SIGUSR1 && atomic_load(&core_stopped))
            break;
        if (number == 0 && server->update != NULL)
            server->update(server->arg);
    }
    /* The loop tells us before it tells lh_loop_wait(). */
    int error = lh_loop_wait(server->loop, LH_DURATION_FOREVER);
    lh_log(LH_ERROR, server->component, "stopped: %s", lh_error_text(error));
    *exit_code = error == LH_OK ? LH_SERVER_INTERNAL : lh_server_exit_code(error);
    return false;
}

int lh_server_stop(const struct lh_server *server)
{
    const sigset_t set = signals();

    (void)signal(SIGUSR1, SIG_IGN);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    lh_loop_set_serving(server->loop, false);
    lh_loop_stop(server->loop);
    return lh_loop_wait(server->loop, server->stop_timeout);
}
