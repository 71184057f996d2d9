/* `leasehold append --lock`: the lock under which it appends (TOK-2). That nothing is stored
 * after another owner has taken over is up to the file; the lock says whose turn it is. */
#include "client/command/append.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

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

int lh_append_lock_open(
    struct lh_append_lock *l, const struct lh_append_options *o, struct lh_cluster *cluster)
{
    uint64_t timeout_ms = lh_command_timeout_ms(&o->common);
    struct lh_session_options session = {.label = "append"};
    struct lh_lock_options how = {
        .on_recall = on_recall, .on_lost = on_lost, .arg = (void *)(uintptr_t)o->lock};

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
    error = lh_acquire(l->session, o->lock, &how, timeout_ms, &l->lock);
    if (error == LH_OK)
        return LH_EXIT_OK;
    int code = lh_command_failed(COMMAND, o->lock, error);
    lh_session_close(l->session, CLOSE_MS);
    l->session = NULL;
    return error == LH_ERR_LEASE_HELD ? LH_EXIT_UNKNOWN : code;
}

void lh_append_lock_close(struct lh_append_lock *l)
{
    if (!is_acquired(l))
        return;
    (void)lh_release(&l->lock);
    lh_session_close(l->session, CLOSE_MS);
    l->session = NULL;
}
