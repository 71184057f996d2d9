/* `leasehold lock`: runs a program while a lock is held (NL-3, NL-4). keeper.h says how the
 * program is kept from running beyond the lease. */
#include "client/command/keeper.h"
#include "client/command/program.h"

#include "base/alloc.h"
#include "base/say.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define COMMAND      "lock"
#define RENEW_MS     50    /* how often the watchdog hears how long the lease is */
#define PATIENCE_MS  2000u /* of a wait in silence */
#define EXPLAIN_MS   1000u
#define OPEN_MS      30000u /* for the session, if no --timeout is given */
#define CLOSE_MS     2000u
#define MARGIN_SHARE 5u /* of the term, if no --margin is given */
#define NS_PER_MS    UINT64_C(1000000)
/* A session that has just been opened has less left than this of the term that was asked for: it
 * was shortened, or the answer took very long, and the margin is better short, too. */
#define SHORTENED_PERCENT 75u

struct options {
    struct lh_command_common common;
    bool shared, no_wait;
    uint64_t slots;
    struct lh_duration term, margin, yield;
};

struct work {
    const struct options *options;
    struct lh_cluster *cluster;
    const char *name;
    char *const *program;
    uint64_t margin_ns;
    uint64_t begun_ms;          /* on the clock that counts sleep: lh_keeper_now() */
    struct lh_session *session; /* NULL: none is open */
    struct lh_lock lock;
    struct lh_keeper keeper;
    int signals;

    /* Set by callbacks, which then wake the main thread: under `mutex`. */
    pthread_mutex_t mutex;
    int wake;
    bool answered; /* lh_acquire_async() is complete: */
    int error;
    char text[512];
    bool recalled, cancelled;
    char why[256];

    bool ending; /* the lock is cut: the program was told to end */
    bool warned; /* by the watchdog */
};

static bool is_answered(struct work *w)
{
    (void)pthread_mutex_lock(&w->mutex);
    bool answered = w->answered;
    (void)pthread_mutex_unlock(&w->mutex);
    return answered;
}

/* ---- In the callback thread ---- */

static void wake(const struct work *w)
{
    uint64_t one = 1;

    (void)!write(w->wake, &one, sizeof one);
}

static void on_acquired(void *arg, int error, const struct lh_lock *lock)
{
    struct work *w = arg;

    (void)pthread_mutex_lock(&w->mutex);
    w->answered = true;
    w->error = error;
    if (error == LH_OK)
        w->lock = *lock;
    else
        (void)snprintf(w->text, sizeof w->text, "%s", lh_last_error());
    (void)pthread_mutex_unlock(&w->mutex);
    wake(w);
}

static void on_recall(void *arg, const struct lh_lock *lock, bool cancelled, const char *why)
{
    struct work *w = arg;

    (void)lock;
    (void)pthread_mutex_lock(&w->mutex);
    w->recalled |= !cancelled;
    w->cancelled |= cancelled;
    (void)snprintf(w->why, sizeof w->why, "%s", why != NULL ? why : "");
    (void)pthread_mutex_unlock(&w->mutex);
    wake(w);
}

static void on_lost(void *arg, const struct lh_lock *lock)
{
    (void)lock;
    wake(arg); /* lh_lock_left_ms() says it */
}

static void on_state(void *arg, struct lh_session *session, enum lh_session_state state)
{
    struct work *w = arg;
    bool waits = !is_answered(w);

    if (state == LH_SESSION_SUSPENDED && waits)
        (void)lh_command_error(0, COMMAND, "%s: the master does not answer", w->name);
    else if (state == LH_SESSION_SUSPENDED)
        (void)lh_command_error(0, COMMAND,
            "%s: the master does not answer; the lock is valid for another %.1f s", w->name,
            (double)lh_session_left_ms(session) / 1000);
    else if (state == LH_SESSION_ACTIVE)
        (void)lh_command_error(0, COMMAND, "%s: the master answers again", w->name);
    wake(w);
}

/* ---- Waiting for the lock ---- */

/* The signal that has come; 0: none. */
static int next_signal(const struct work *w)
{
    return lh_program_signal(w->signals);
}

static bool wait_for_events(const struct work *w, int timeout_ms)
{
    uint64_t ignored;
    struct pollfd fds[] = {
        {.fd = w->wake, .events = POLLIN},
        {.fd = w->signals, .events = POLLIN},
        {.fd = w->keeper.control, .events = POLLIN},
    };
    bool any = poll(fds, sizeof fds / sizeof fds[0], timeout_ms) > 0;

    (void)!read(w->wake, &ignored, sizeof ignored);
    return any;
}

/* Nobody waits in silence. */
static void tell_who_holds(const struct work *w)
{
    struct lh_name_list list = {0};

    (void)lh_command_error(0, COMMAND, "%s: waiting; see --timeout and --no-wait", w->name);
    if (lh_explain_name(w->cluster, w->name, EXPLAIN_MS, &list) != LH_OK)
        return;
    for (size_t i = 0; i < list.count; i++)
        for (size_t k = 0; k < list.names[i].sentence_count; k++)
            lh_say("  %s\n", lh_command_shown(list.names[i].sentences[k]));
    lh_name_list_deinit(&list);
}

static int refused(const struct work *w)
{
    if (w->error != LH_ERR_LEASE_HELD && w->error != LH_ERR_DEADLINE_EXCEEDED)
        return lh_command_refused(COMMAND, w->name, w->error, w->text);
    (void)lh_command_refused(COMMAND, w->name, w->error, w->text);
    return LH_EXIT_UNKNOWN;
}

/* What is left of --timeout; without one there is no limit. */
static uint64_t timeout_left_ms(const struct work *w)
{
    uint64_t timeout_ms = lh_duration_ms(w->options->common.timeout);
    uint64_t gone_ms = lh_keeper_now() / NS_PER_MS - w->begun_ms;

    if (timeout_ms == 0)
        return LH_NO_TIMEOUT;
    return timeout_ms > gone_ms ? timeout_ms - gone_ms : 0;
}

/* Returns LH_EXIT_OK, or the exit code. */
static int ask(struct work *w)
{
    const struct options *o = w->options;
    struct lh_lock_options options = {
        .shared = o->shared || o->slots > 0,
        .slots = (uint32_t)o->slots,
        .info = w->program[0],
        .info_size = strnlen(w->program[0], LH_LOCK_INFO_MAX),
        .on_recall = on_recall,
        .on_lost = on_lost,
        .arg = w,
    };
    w->answered = false;
    int error = lh_acquire_async(
        w->session, w->name, &options, o->no_wait ? 0 : timeout_left_ms(w), on_acquired, w);
    return error == LH_OK ? LH_EXIT_OK : lh_command_failed(COMMAND, w->name, error);
}

static int wait_for_answer(struct work *w)
{
    uint64_t asked_ms = lh_command_now_ms();
    bool said = false;

    while (!is_answered(w)) {
        (void)wait_for_events(w, RENEW_MS);
        int number = next_signal(w);
        if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT)
            return 128 + number;
        if (!said && lh_command_now_ms() - asked_ms >= PATIENCE_MS && !is_answered(w)) {
            tell_who_holds(w);
            said = true;
        }
    }
    return LH_EXIT_OK;
}

/* The session with which it waited is over, as when the machine slept for longer than its term:
 * the request has lost its place, and nothing else. */
static bool waits_on(struct work *w)
{
    if (w->error != LH_ERR_CLOSED || timeout_left_ms(w) == 0)
        return false;
    (void)lh_command_error(0, COMMAND,
        "%s: the session is over, and with it the place among those that wait: waiting in a new "
        "session",
        w->name);
    lh_session_close(w->session, 0);
    return true;
}

/* The margin fits into the term that the master has granted, which may be shorter than the one
 * that was asked for. */
static int take_term(struct work *w)
{
    uint64_t asked_ms = lh_duration_ms(w->options->term);
    uint64_t margin_ms = lh_duration_ms(w->options->margin);
    uint64_t granted_ms = lh_session_left_ms(w->session);

    if (granted_ms == 0 || granted_ms > asked_ms * SHORTENED_PERCENT / 100)
        granted_ms = asked_ms;
    else
        (void)lh_command_error(0, COMMAND,
            "%s: the master shortens --term to about %.1f s (--program-term-max)", w->name,
            (double)granted_ms / 1000);
    if (margin_ms * 2 > granted_ms)
        return lh_command_error(LH_EXIT_USAGE, COMMAND,
            "%s: --margin must be at most half of the term that the master grants", w->name);
    w->margin_ns = (margin_ms > 0 ? margin_ms : granted_ms / MARGIN_SHARE) * NS_PER_MS;
    return LH_EXIT_OK;
}

static int open_session(struct work *w, uint64_t timeout_ms)
{
    char label[LH_PROGRAM_LABEL_BYTES];
    struct lh_session_options session = {.term_ms = lh_duration_ms(w->options->term),
        .label = lh_program_label(label, "lock", w->program[0]),
        .on_state = on_state,
        .on_state_arg = w};

    lh_program_end_by_signals();
    int error = lh_session_open(w->cluster, &session, timeout_ms, &w->session);
    lh_program_take_signals();
    return error == LH_OK ? take_term(w) : lh_command_failed(COMMAND, w->name, error);
}

/* Returns LH_EXIT_OK, or the exit code. `w->session` is NULL if there is none. */
static int acquire(struct work *w)
{
    uint64_t limit_ms = timeout_left_ms(w);
    int code = open_session(w, limit_ms == LH_NO_TIMEOUT ? OPEN_MS : limit_ms);

    while (code == LH_EXIT_OK) {
        code = ask(w);
        if (code == LH_EXIT_OK)
            code = wait_for_answer(w);
        if (code != LH_EXIT_OK || w->error == LH_OK)
            break;
        if (!waits_on(w))
            return refused(w);
        w->session = NULL;
        code = open_session(w, timeout_left_ms(w));
    }
    return code;
}

/* ---- While the program runs ---- */

static uint64_t before(uint64_t instant, uint64_t ns)
{
    return instant > ns ? instant - ns : 0;
}

/* For how long the program may run. The clock is read first: should this thread stand still in
 * between, the end is too early, never too late. */
static struct lh_keeper_limits limits_now(const struct work *w)
{
    uint64_t now = lh_keeper_now(), left_ms = lh_lock_left_ms(&w->lock);
    uint64_t most = UINT64_MAX / NS_PER_MS / 4;
    uint64_t end = left_ms == 0 ? 0 : now + (left_ms < most ? left_ms : most) * NS_PER_MS;

    return (struct lh_keeper_limits){
        .term_at = w->ending ? 0 : before(end, w->margin_ns),
        .kill_at = before(end, w->margin_ns / 4),
        .last_at = before(end, w->margin_ns / 8),
    };
}

static void tell_to_end(struct work *w, const char *why)
{
    w->ending = true;
    (void)lh_command_error(0, COMMAND,
        "%s: %s; %s gets SIGTERM, and SIGKILL in %.1f s at the latest", w->name, why, w->program[0],
        (double)lh_lock_left_ms(&w->lock) / 1000);
}

static void on_events(struct work *w)
{
    char why[300];

    (void)pthread_mutex_lock(&w->mutex);
    bool recalled = w->recalled, cancelled = w->cancelled;
    (void)snprintf(why, sizeof why, "%s", w->why);
    w->recalled = w->cancelled = false;
    (void)pthread_mutex_unlock(&w->mutex);
    if (cancelled && !w->ending) {
        char text[400];
        (void)snprintf(
            text, sizeof text, "the lock was cancelled%s%s", why[0] != '\0' ? ": " : "", why);
        tell_to_end(w, text);
    }
    uint64_t yield_ms = lh_duration_ms(w->options->yield);
    if (recalled && yield_ms > 0 && !w->ending && lh_lock_yield(&w->lock, yield_ms) == LH_OK)
        tell_to_end(w, "others wait for the lock, which is given up (--yield)");
}

/* What becomes of the program until it ends. Returns its exit code, or -1. */
static int on_keeper(struct work *w)
{
    int value = 0;

    switch (lh_keeper_next(&w->keeper, &value)) {
    case LH_KEEPER_NOT_STARTED:
        return lh_program_not_started(COMMAND, w->program[0], value);
    case LH_KEEPER_STOPPED:
        lh_keeper_stopped(&w->keeper);
        break;
    case LH_KEEPER_WARNED:
        w->warned = true;
        break;
    case LH_KEEPER_ENDED:
        return lh_keeper_exit_code(value);
    case LH_KEEPER_LOST:
        w->warned = true;
        return LH_EXIT_LOCK_LOST;
    case LH_KEEPER_STARTED:
    case LH_KEEPER_NOTHING:
        break;
    }
    return -1;
}

static int run_program(struct work *w)
{
    char token[32];
    (void)snprintf(token, sizeof token, "%" PRIu64, w->lock.token);
    const char *const added[] = {"LEASEHOLD_TOKEN", token, "LEASEHOLD_LOCK", w->name,
        "LEASEHOLD_SESSION", lh_session_id(w->session), NULL};
    char **environment = lh_program_environment(added);
    struct lh_keeper_limits limits = limits_now(w);
    int code = -1;

    if (!lh_keeper_start(&w->keeper, w->program, environment, &limits))
        code = lh_command_error(
            LH_EXIT_SYSTEM, COMMAND, "cannot start a process: %s", strerror(errno));
    while (code < 0) {
        (void)wait_for_events(w, RENEW_MS);
        for (int number; (number = next_signal(w)) != 0;)
            lh_keeper_signal(&w->keeper, number);
        on_events(w);
        limits = limits_now(w);
        lh_keeper_limit(&w->keeper, &limits);
        if (lh_keeper_now() >= limits.kill_at)
            lh_keeper_kill(&w->keeper);
        code = on_keeper(w);
    }
    lh_keeper_finish(&w->keeper);
    lh_program_free_environment(environment);
    return code;
}

static int hold(struct work *w)
{
    int code = run_program(w);

    if (w->warned) {
        (void)lh_command_error(0, COMMAND, "%s: %s was stopped%s", w->name, w->program[0],
            w->ending ? ""
                      : ": the lock is lost, or would have been, since the master did not answer");
        code = LH_EXIT_LOCK_LOST;
    }
    (void)lh_release(&w->lock);
    return code;
}

static int run(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct options *o = options;
    static struct work w; /* a callback may come when this function has returned */
    w = (struct work){
        .options = o,
        .cluster = cluster,
        .name = args[0],
        .program = (char *const *)(uintptr_t)(args + 1),
        .begun_ms = lh_keeper_now() / NS_PER_MS,
        .signals = lh_program_signals,
        .keeper = {.control = -1, .pipe = -1},
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
    };
    if (w.wake < 0)
        return lh_command_error(LH_EXIT_SYSTEM, COMMAND, "%s", strerror(errno));
    int code = acquire(&w);
    if (code == LH_EXIT_OK)
        code = hold(&w);
    if (w.session != NULL)
        lh_session_close(w.session, CLOSE_MS);
    return code;
}

static int check(void *options)
{
    const struct options *o = options;
    uint64_t term_ms = lh_duration_ms(o->term), margin_ms = lh_duration_ms(o->margin);

    if (margin_ms * 2 > term_ms)
        return lh_command_error(LH_EXIT_USAGE, COMMAND,
            "--margin must be at most half of --term: the lease is renewed in the other half");
    if (o->slots > 0 && !o->shared)
        return lh_command_error(LH_EXIT_USAGE, COMMAND, "--slots needs --shared");
    return lh_program_prepare(COMMAND);
}

int lh_command_lock(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("shared", BOOL, &o.shared, NULL), .letter = 's',
            .help = "with others that ask for the lock so; else alone"},
        {LH_FLAG("slots", UINT, &o.slots, "0"), .max = UINT32_MAX,
            .help = "with --shared: at most so many at a time; 0: any number"},
        {LH_FLAG("no-wait", BOOL, &o.no_wait, NULL), .letter = 'n',
            .help = "only if the lock is free"},
        {LH_FLAG("term", DURATION, &o.term, "10s"), .min = 1000000000,
            .max = LH_SESSION_TERM_MAX * NS_PER_MS,
            .help = "for how long the lock is held without an answer of the master"},
        {LH_FLAG("margin", DURATION, &o.margin, "0s"),
            .help =
                "CMD gets SIGTERM so long before the lock is lost, and SIGKILL a quarter of that "
                "before; 0: a fifth of --term"},
        {LH_FLAG("yield", DURATION, &o.yield, "0s"),
            .help =
                "if others wait for the lock, CMD gets SIGTERM, and so long to end; 0: they wait"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... NAME -- CMD [ARGUMENT]...",
        .summary =
            "Runs CMD while the lock NAME is held. CMD finds the lock's token in LEASEHOLD_TOKEN, "
            "its "
            "name in\nLEASEHOLD_LOCK, and the session in LEASEHOLD_SESSION. When the lock is lost, "
            "cancelled, or about to\nrun out without answers of the master, CMD and all that it "
            "has "
            "started get SIGTERM, and SIGKILL\nbefore the lease ends; also if this command is "
            "stopped or killed. What CMD leaves running is killed\nwhen CMD ends, a daemon, too. "
            "Without --timeout the lock is waited for without an end.\n\nExit status: that of CMD "
            "(128 and the number of the "
            "signal "
            "that ended it); 75 the lock could not be\nhad in time; 76 the lock ended before CMD "
            "did, "
            "which was stopped; 126 and 127 CMD cannot be run.",
        LH_FLAG_ROWS(table),
        .no_json = true,
        .no_timeout = true,
        .args_min = 2,
        .args_max = SIZE_MAX,
        .check = check,
        .run = run,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
