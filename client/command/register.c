/* `leasehold register`: a value that is there while a program runs (VAL-4). */
#include "client/command/keeper.h"
#include "client/command/program.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define COMMAND   "register"
#define LOOK_MS   100  /* between two looks at the session */
#define RETRY_MS  500u /* of a registration that was lost */
#define CLOSE_MS  2000u
#define NS_PER_MS UINT64_C(1000000)

struct options {
    struct lh_command_common common;
    struct lh_duration term;
    bool replace;
};

struct work {
    const struct options *options;
    struct lh_cluster *cluster;
    const char *name, *value;
    char *const *program;
    struct lh_session *session; /* NULL: lost, and not opened again yet */
    atomic_int state;           /* of it; written by the callback thread */
    struct lh_keeper keeper;
    int code; /* when open_session() has failed */
};

/* ---- In the callback thread ---- */

static void on_state(void *arg, struct lh_session *session, enum lh_session_state state)
{
    struct work *w = arg;
    int before = atomic_exchange(&w->state, (int)state);

    (void)session;
    if (state == LH_SESSION_EXPIRED)
        (void)lh_command_error(0, COMMAND,
            "%s: no answer for the session's term; the value stays only if the master was away, "
            "too",
            w->name);
    else if (state == LH_SESSION_ACTIVE && before == LH_SESSION_EXPIRED)
        (void)lh_command_error(
            0, COMMAND, "%s: the master answers again; the value is still there", w->name);
}

/* ---- The value ---- */

/* The name's value may be that of a program that has died, and whose session is not over yet:
 * then this waits. */
static int attach(const struct work *w, uint64_t timeout_ms)
{
    struct lh_change_options c = {.if_revision = !w->options->replace, .attach = w->session};
    uint64_t begun_ms = lh_command_now_ms();

    for (bool said = false;; said = true) {
        uint64_t waited_ms = lh_command_now_ms() - begun_ms;
        uint64_t left_ms = timeout_ms > waited_ms ? timeout_ms - waited_ms : 0;
        int error = lh_put(w->cluster, w->name, w->value, strlen(w->value), &c, left_ms, NULL);
        if (error != LH_ERR_ALREADY_EXISTS || left_ms <= LOOK_MS)
            return error;
        if (!said)
            (void)lh_command_error(0, COMMAND,
                "%s has a value already: waiting until its program is gone; see --timeout and "
                "--replace",
                w->name);
        (void)poll(NULL, 0, LOOK_MS);
    }
}

static int open_session(struct work *w, uint64_t timeout_ms)
{
    char label[LH_PROGRAM_LABEL_BYTES];
    struct lh_session_options options = {.term_ms = lh_duration_ms(w->options->term),
        .label = lh_program_label(label, "register", w->program[0]),
        .on_state = on_state,
        .on_state_arg = w};

    atomic_store(&w->state, LH_SESSION_ACTIVE);
    int error = lh_session_open(w->cluster, &options, timeout_ms, &w->session);
    if (error != LH_OK) {
        w->code = lh_command_failed(COMMAND, w->name, error);
        return error;
    }
    error = attach(w, timeout_ms);
    if (error != LH_OK) {
        w->code = lh_command_failed(COMMAND, w->name, error);
        if (error == LH_ERR_ALREADY_EXISTS)
            w->code = LH_EXIT_UNKNOWN;
        lh_session_close(w->session, CLOSE_MS);
        w->session = NULL;
    }
    return error;
}

/* The value went with the session: it is put again in a new one. The program runs on. While the
 * session has only expired, value and session may go on (PS-3). */
static void look_after_session(struct work *w)
{
    if (w->session != NULL && atomic_load(&w->state) != LH_SESSION_LOST)
        return;
    if (w->session != NULL) {
        (void)lh_command_error(
            0, COMMAND, "%s: the session is over at the master: registering again", w->name);
        lh_session_close(w->session, 0);
        w->session = NULL;
    }
    if (open_session(w, RETRY_MS) == LH_OK)
        (void)lh_command_error(0, COMMAND, "%s: registered again", w->name);
}

static int on_keeper(struct work *w)
{
    int value = 0;

    switch (lh_keeper_next(&w->keeper, &value)) {
    case LH_KEEPER_NOT_STARTED:
        return lh_program_not_started(COMMAND, w->program[0], value);
    case LH_KEEPER_STOPPED:
        lh_keeper_stopped(&w->keeper);
        break;
    case LH_KEEPER_ENDED:
        return lh_keeper_exit_code(value);
    case LH_KEEPER_LOST:
        return lh_command_error(
            128 + SIGKILL, COMMAND, "the process that runs %s was killed", w->program[0]);
    case LH_KEEPER_WARNED:
    case LH_KEEPER_STARTED:
    case LH_KEEPER_NOTHING:
        break;
    }
    return -1;
}

static int run_program(struct work *w)
{
    const char *const added[] = {
        "LEASEHOLD_SESSION", lh_session_id(w->session), "LEASEHOLD_NAME", w->name, NULL};
    char **environment = lh_program_environment(added);
    const struct lh_keeper_limits none = {LH_KEEPER_NEVER, LH_KEEPER_NEVER, LH_KEEPER_NEVER};
    int code = -1;

    if (!lh_keeper_start(&w->keeper, w->program, environment, &none))
        code = lh_command_error(
            LH_EXIT_SYSTEM, COMMAND, "cannot start a process: %s", strerror(errno));
    while (code < 0) {
        struct pollfd fds[] = {{.fd = lh_program_signals, .events = POLLIN},
            {.fd = w->keeper.control, .events = POLLIN}};
        (void)poll(fds, 2, LOOK_MS);
        for (int number; (number = lh_program_signal(lh_program_signals)) != 0;)
            lh_keeper_signal(&w->keeper, number);
        code = on_keeper(w);
        if (code < 0)
            look_after_session(w);
    }
    lh_keeper_finish(&w->keeper);
    lh_program_free_environment(environment);
    return code;
}

static int run(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct options *o = options;
    struct work w = {
        .options = o,
        .cluster = cluster,
        .name = args[0],
        .value = args[1],
        .program = (char *const *)(uintptr_t)(args + 2),
        .keeper = {.control = -1, .pipe = -1},
    };
    lh_program_end_by_signals();
    int error = open_session(&w, lh_command_timeout_ms(&o->common));
    lh_program_take_signals();
    if (error != LH_OK)
        return w.code;
    int code = run_program(&w);
    lh_session_close(w.session, CLOSE_MS);
    return code;
}

static int check(void *options)
{
    (void)options;
    return lh_program_prepare(COMMAND);
}

int lh_command_register(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("term", DURATION, &o.term, "10s"), .min = 1000000000,
            .max = LH_SESSION_TERM_MAX * NS_PER_MS,
            .help = "for how long the value stays if this command dies, or is cut off"},
        {LH_FLAG("replace", BOOL, &o.replace, NULL), .command_line_only = true,
            .help = "also if NAME has a value; else wait until it has none"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... NAME VALUE -- CMD [ARGUMENT]...",
        .summary =
            "Runs CMD, and while it runs NAME has the value VALUE: others see it with `leasehold "
            "watch`. When CMD\nends, or this command dies, the value goes. If the session is lost "
            "CMD runs on, and the value is put\nagain.\n\nExit status: that of CMD (128 and the "
            "number of the signal that ended it); 75 NAME had another value\nall the time; 126 "
            "and 127 CMD cannot be run.",
        LH_FLAG_ROWS(table),
        .no_json = true,
        .args_min = 3,
        .args_max = SIZE_MAX,
        .check = check,
        .run = run,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
