/* `leasehold append --lock`: the lock under which it appends (TOK-2). That nothing is stored
 * after another owner has taken over is up to the file; the lock says whose turn it is. */
#include "client/command/append.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND  LH_APPEND_COMMAND
#define CLOSE_MS 2000u

static pthread_t main_thread;
static atomic_bool cancelled;

/* Ends the input, as a signal of a user does: what was read is stored. A second signal would end
 * the process. Said first and signalled then: the main thread may be done at once, and asks. */
static void end_input(void)
{
    if (!atomic_exchange(&cancelled, true) && lh_append_catches_signals &&
        lh_append_interrupted == 0)
        (void)pthread_kill(main_thread, SIGTERM);
}

static void on_recall(void *arg, const struct lh_lock *lock, bool is_cancelled, const char *why)
{
    (void)lock;
    if (!is_cancelled)
        return; /* it keeps the lock until its input has ended */
    (void)lh_command_error(0, COMMAND, "%s: the lock was cancelled: %s", (const char *)arg, why);
    end_input();
}

static void on_lost(void *arg, const struct lh_lock *lock)
{
    (void)arg;
    (void)lock;
    end_input();
}

bool lh_append_lock_ended(void)
{
    return cancelled;
}

static bool is_acquired(const struct lh_append_lock *l)
{
    return l->session != NULL;
}

/* ---- Waiting for it. */

struct waiting {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool answered;
    int error;
    char text[512];
    struct lh_lock lock;
};

static void on_answer(void *arg, int error, const struct lh_lock *lock)
{
    struct waiting *w = arg;

    (void)pthread_mutex_lock(&w->mutex);
    w->answered = true;
    w->error = error;
    if (error == LH_OK)
        w->lock = *lock;
    else
        (void)snprintf(w->text, sizeof w->text, "%s", lh_last_error());
    (void)pthread_cond_signal(&w->cond);
    (void)pthread_mutex_unlock(&w->mutex);
}

/* For a moment: the handler of a signal can do no more than to leave word. */
static bool is_answered(struct waiting *w)
{
    struct timespec end;

    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += LH_APPEND_PROGRESS_MS * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    (void)pthread_mutex_lock(&w->mutex);
    if (!w->answered)
        (void)pthread_cond_timedwait(&w->cond, &w->mutex, &end);
    bool answered = w->answered;
    (void)pthread_mutex_unlock(&w->mutex);
    return answered;
}

/* Who is interrupted while it waits leaves the queue. Returns LH_EXIT_OK, or the exit code. */
static int acquire(struct lh_append_lock *l, const struct lh_append_options *o)
{
    struct waiting w = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct lh_lock_options how = {
        .on_recall = on_recall, .on_lost = on_lost, .arg = (void *)(uintptr_t)o->lock};
    bool gave_up = false;

    lh_append_catch_signals();
    int error = lh_acquire_async(
        l->session, o->lock, &how, lh_command_timeout_ms(&o->common), on_answer, &w);
    if (error != LH_OK)
        return lh_command_failed(COMMAND, o->lock, error);
    while (!is_answered(&w)) {
        if (!lh_append_interrupted || gave_up)
            continue;
        gave_up = true;
        (void)lh_acquire_cancel(l->session, o->lock, &w);
    }
    l->lock = w.lock;
    if (w.error == LH_OK)
        return LH_EXIT_OK;
    if (w.error == LH_ERR_CANCELLED && gave_up)
        return lh_command_error(128 + lh_append_interrupted, COMMAND,
            "interrupted while it waited for the lock %s; no record is stored", o->lock);
    int code = lh_command_refused(COMMAND, o->lock, w.error, w.text);
    return w.error == LH_ERR_LEASE_HELD ? LH_EXIT_UNKNOWN : code;
}

int lh_append_lock_open(
    struct lh_append_lock *l, const struct lh_append_options *o, struct lh_cluster *cluster)
{
    uint64_t timeout_ms = lh_command_timeout_ms(&o->common);
    struct lh_session_options session = {.label = "append"};

    *l = (struct lh_append_lock){0};
    if (o->lock == NULL)
        return LH_EXIT_OK;
    l->lock.token = o->token != 0 ? o->token : lh_command_token_of(o->lock);
    if (l->lock.token != 0)
        return LH_EXIT_OK;
    main_thread = pthread_self();
    int error = lh_session_open(cluster, &session, timeout_ms, &l->session);
    if (error != LH_OK)
        return lh_command_failed(COMMAND, o->lock, error);
    int code = acquire(l, o);
    if (code == LH_EXIT_OK)
        return code;
    lh_session_close(l->session, CLOSE_MS);
    l->session = NULL;
    return code;
}

void lh_append_lock_close(struct lh_append_lock *l)
{
    if (!is_acquired(l))
        return;
    (void)lh_release(&l->lock);
    lh_session_close(l->session, CLOSE_MS);
    l->session = NULL;
}
