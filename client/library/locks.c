/* The library: locks of a session. */
#include "client/library/programs.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* For an answer of the master's that waits for nothing. */
#define NO_WAIT_MS 5000u

/* ---- Records: for the callbacks of a lock. ---- */

bool lh_held_find(struct lh_session *s, uint64_t id, struct lh_held *copy)
{
    struct lh_held *h;

    pthread_mutex_lock(&s->mutex);
    HASH_FIND(hh, s->held, &id, sizeof id, h);
    if (h != NULL)
        *copy = *h;
    pthread_mutex_unlock(&s->mutex);
    return h != NULL;
}

bool lh_held_take(struct lh_session *s, uint64_t id, struct lh_held *copy)
{
    struct lh_held *h;

    pthread_mutex_lock(&s->mutex);
    HASH_FIND(hh, s->held, &id, sizeof id, h);
    if (h != NULL) {
        HASH_DEL(s->held, h);
        *copy = *h;
    }
    pthread_mutex_unlock(&s->mutex);
    free(h);
    return h != NULL;
}

void lh_held_clear(struct lh_session *s)
{
    struct lh_held *h, *after;

    HASH_ITER(hh, s->held, h, after) {
        HASH_DEL(s->held, h);
        free(h);
    }
}

/* ---- Acquiring. ---- */

static int check(const struct lh_session *s, const char *name, const struct lh_lock_options *o)
{
    if (name == NULL)
        return lh_missing("name");
    if (o != NULL && o->info_size > LH_LOCK_INFO_MAX)
        return lh_fail(LH_ERR_INVALID_ARGUMENT, "a lock's info has at most 256 bytes");
    if (o != NULL && o->info_size > 0 && o->info == NULL)
        return lh_missing("info");
    return lh_session_check(s);
}

/* A request that is under way. */
struct acquiring {
    struct lh_acquire_call call;
    struct lh_session *session;
    struct lh_held *held; /* what becomes of it when it is granted */
    /* Of lh_acquire_async(): */
    lh_acquire_callback callback;
    void *arg;
    char *name;
    void *info;
    int error;
    struct lh_task task;
};

static void prepare(struct acquiring *a, struct lh_session *s, const char *name,
    const struct lh_lock_options *options, uint64_t timeout_ms)
{
    struct lh_lock_options o = options == NULL ? (struct lh_lock_options){0} : *options;

    a->session = s;
    /* Whether it is free the master says: that has as long as any question to it. */
    a->call = (struct lh_acquire_call){
        .call.kind = LH_CALL_ACQUIRE,
        .session = s->core,
        .name = name,
        .shared = o.shared,
        .no_wait = timeout_ms == 0,
        .recallable = o.on_recall != NULL,
        .slots = o.slots,
        .info = o.info,
        .info_size = o.info_size,
        .deadline = lh_deadline(timeout_ms == 0 ? NO_WAIT_MS : timeout_ms),
    };
    a->held = lh_alloc(sizeof *a->held);
    a->held->options = o;
    a->held->options.info = NULL;
}

static struct lh_lock lock_of(const struct acquiring *a)
{
    return (struct lh_lock){.session = a->session, .id = a->call.lock, .token = a->call.token};
}

static void free_acquiring(struct acquiring *a)
{
    free(a->name);
    free(a->info);
    free(a);
}

static void run_callback(struct lh_task *task)
{
    struct acquiring *a = LH_OWNER(task, struct acquiring, task);
    struct lh_session *s = a->session;
    struct lh_lock lock = lock_of(a);
    bool open = lh_session_enter(s);

    if (a->error != LH_OK)
        lh_fail(a->error, "%s", a->call.call.text);
    else if (!open)
        a->error = lh_fail(LH_ERR_CANCELLED, "the session is being closed");
    a->callback(a->arg, a->error, a->error == LH_OK ? &lock : NULL);
    free_acquiring(a);
    pthread_mutex_lock(&s->mutex);
    s->running = false;
    s->pending--;
    pthread_cond_broadcast(&s->quiet);
    pthread_mutex_unlock(&s->mutex);
}

bool lh_acquire_completed(struct lh_acquire_call *call, int error)
{
    struct acquiring *a = LH_OWNER(call, struct acquiring, call);
    struct lh_session *s = a->session;

    /* Before anything else can be heard of it. */
    if (error == LH_OK) {
        a->held->lock = lock_of(a);
        pthread_mutex_lock(&s->mutex);
        HASH_ADD(hh, s->held, lock.id, sizeof a->held->lock.id, a->held);
        pthread_mutex_unlock(&s->mutex);
    } else {
        free(a->held);
    }
    a->held = NULL;
    if (a->callback == NULL)
        return false;
    a->error = error;
    a->task.run = run_callback;
    lh_cluster_task(s->cluster, &a->task);
    return true;
}

int lh_acquire(struct lh_session *s, const char *name, const struct lh_lock_options *options,
    uint64_t timeout_ms, struct lh_lock *lock)
{
    int error = lock == NULL ? lh_missing("lock") : check(s, name, options);
    struct acquiring a = {0};

    if (error != LH_OK)
        return error;
    prepare(&a, s, name, options, timeout_ms);
    error = lh_call_wait(s->cluster, &a.call.call);
    free(a.held); /* it was never fed */
    if (error == LH_OK)
        *lock = lock_of(&a);
    return error;
}

int lh_acquire_async(struct lh_session *s, const char *name, const struct lh_lock_options *options,
    uint64_t timeout_ms, lh_acquire_callback callback, void *arg)
{
    int error = callback == NULL ? lh_missing("callback") : check(s, name, options);

    if (error != LH_OK)
        return error;
    struct acquiring *a = lh_alloc(sizeof *a);
    a->name = lh_strdup(name);
    prepare(a, s, a->name, options, timeout_ms);
    a->callback = callback;
    a->arg = arg;
    a->call.tag = arg;
    if (a->call.info_size > 0) {
        a->info = lh_alloc(a->call.info_size);
        memcpy(a->info, options->info, a->call.info_size);
        a->call.info = a->info;
    }
    pthread_mutex_lock(&s->mutex);
    s->pending++;
    pthread_mutex_unlock(&s->mutex);
    if (lh_loop_call(s->cluster->loop, &a->call.call))
        return LH_OK;
    pthread_mutex_lock(&s->mutex);
    s->pending--;
    pthread_mutex_unlock(&s->mutex);
    free(a->held);
    free_acquiring(a);
    return lh_fail(LH_ERR_CLOSED, "the cluster is being closed");
}

int lh_acquire_cancel(struct lh_session *s, const char *name, const void *arg)
{
    int error = name == NULL ? lh_missing("name") : lh_session_check(s);

    if (error != LH_OK)
        return error;
    struct lh_withdraw_call call = {
        .call.kind = LH_CALL_WITHDRAW,
        .session = s->core,
        .name = name,
        .tag = arg,
    };
    return lh_call_wait(s->cluster, &call.call);
}

/* ---- Holding. ---- */

static int check_lock(const struct lh_lock *lock)
{
    return lock == NULL ? lh_missing("lock") : lh_session_check(lock->session);
}

int lh_release(struct lh_lock *lock)
{
    int error = check_lock(lock);
    struct lh_held taken;

    if (error != LH_OK)
        return error;
    struct lh_release_call call = {
        .call.kind = LH_CALL_RELEASE,
        .session = lock->session->core,
        .lock = lock->id,
    };
    (void)lh_held_take(lock->session, lock->id, &taken);
    return lh_call_wait(lock->session->cluster, &call.call);
}

int lh_lock_yield(struct lh_lock *lock, uint64_t in_ms)
{
    int error = check_lock(lock);

    if (error != LH_OK)
        return error;
    struct lh_yield_call call = {
        .call.kind = LH_CALL_YIELD,
        .session = lock->session->core,
        .lock = lock->id,
        .in = lh_milliseconds(in_ms),
    };
    return lh_call_wait(lock->session->cluster, &call.call);
}

uint64_t lh_lock_left_ms(const struct lh_lock *lock)
{
    if (lock == NULL || !lh_session_is_usable(lock->session))
        return 0;
    const struct lh_session *s = lock->session;
    pthread_mutex_lock(&s->cluster->guard);
    struct lh_duration left = lh_client_lock_left(s->core, lock->id, lh_clock_now());
    pthread_mutex_unlock(&s->cluster->guard);
    return left.ns / 1000000;
}

int lh_cancel(struct lh_cluster *cluster, const char *name, uint64_t token, const char *why,
    uint64_t timeout_ms)
{
    Leasehold__CancelRequest m = LEASEHOLD__CANCEL_REQUEST__INIT;
    Leasehold__CancelReply *reply;

    if (cluster == NULL || name == NULL)
        return lh_missing(cluster == NULL ? "cluster" : "name");
    m.name = lh_wire_string(name);
    m.token = token;
    m.why = lh_wire_string(why == NULL ? "" : why);
    m.wait_ms = lh_wait_ms(timeout_ms);
    int error = lh_ask(cluster, LH_METHOD_CANCEL, &m.base, m.wait_ms, timeout_ms, &reply);
    lh_free_reply(reply);
    return error;
}
