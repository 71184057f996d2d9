/* The work: etcd and the directory together, until the core that works on etcd has stopped. */
#include "master/copy/internal.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define KIND_LMDB "lmdb:"
#define KIND_ETCD "etcd:"

/* How often the operator is told, and asked whether to go on. */
#define POLL_MS 100

int lh_copy_refuse(struct lh_copy *c, int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    pthread_mutex_lock(&c->mutex);
    (void)vsnprintf(c->why, sizeof c->why, format, args);
    pthread_mutex_unlock(&c->mutex);
    va_end(args);
    return error;
}

/* Its log is for this command to show: what went wrong last is why it stops. */
static void core_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct lh_copy *c = self;

    lh_reigns_step(c->reigns, in, fx);
    for (size_t i = 0; i < fx->count; i++) {
        struct lh_effect *e = &fx->items[i];
        if (e->kind != LH_FX_LOG)
            continue;
        if (e->level == LH_WARN)
            c->wanted->say(c->wanted->arg, e->text);
        if (e->level == LH_ERROR)
            (void)lh_copy_refuse(c, LH_OK, "%s", e->text);
        e->level = LH_DEBUG;
    }
}

static struct lh_instant core_deadline(const void *self)
{
    const struct lh_copy *c = self;

    return lh_reigns_deadline(c->reigns);
}

static void on_stopped(void *arg, int error)
{
    (void)arg;
    (void)error;
}

static enum lh_reign_phase look(struct lh_copy *c, struct lh_store_copied *now)
{
    struct lh_reign_state state;

    lh_loop_lock(c->loop);
    lh_reigns_state(c->reigns, &state);
    lh_loop_unlock(c->loop);
    now->waiting = state.phase == LH_REIGN_STANDBY;
    now->writing = state.phase == LH_REIGN_COPYING;
    now->pairs = state.pairs;
    now->bytes = state.bytes;
    now->reign = state.reign;
    c->claimed = state.claimed;
    return state.phase;
}

/* For how long nothing may change in this phase. */
static struct lh_duration patience(const struct lh_copy *c, enum lh_reign_phase phase)
{
    struct lh_duration patience = c->wanted->patience;

    if (atomic_load(&c->persisting))
        return LH_DURATION_FOREVER; /* etcd is not asked */
    if (phase == LH_REIGN_STANDBY)
        patience.ns += LH_REIGN_TERM_MAX_NS; /* until the last reign is over for certain */
    return patience;
}

/* Asks the core to stop; without room for its commit that fails, and the core takes it back. */
static void stop(struct lh_copy *c)
{
    lh_loop_stop(c->loop);
    if (atomic_load(&c->starved))
        lh_copy_close_store(c);
}

/* Is it known what becomes of etcd's store if the core is asked to stop? A claim of TAKE, and the
 * last transaction, it waits for. */
static bool may_stop(const struct lh_copy *c, enum lh_reign_phase phase)
{
    return phase != LH_REIGN_RESIGNING &&
           (phase != LH_REIGN_CLAIMING || c->config.task == LH_REIGN_FILL);
}

/* The core was asked to stop, or would not, and etcd has said nothing since. */
static int give_up(struct lh_copy *c)
{
    c->marked = false; /* it stays: nobody knows what etcd has */
    return lh_copy_refuse(c, LH_ERR_DEADLINE_EXCEEDED,
        "etcd does not answer any more, and no master can be started on either store now: run the "
        "same copy again when it does");
}

/* The core has stopped when it was asked to; what it has claimed from etcd it has given back, but
 * for a store that is filled. */
static int say_stopped(struct lh_copy *c)
{
    bool fill = c->config.task == LH_REIGN_FILL, half = fill && c->claimed;
    const char *next = !half || c->mark == NULL
                           ? "masters can go on as before, and the copy be run again"
                           : "the same copy can be run again";

    if (!c->unanswered)
        return lh_copy_refuse(c, LH_ERR_CANCELLED, "interrupted%s; %s",
            half ? "" : ", before anything was changed", next);
    if (half)
        return lh_copy_refuse(
            c, LH_ERR_DEADLINE_EXCEEDED, "etcd does not answer any more; %s when it does", next);
    return lh_copy_refuse(c, LH_ERR_UNAVAILABLE, "etcd does not answer; nothing was changed");
}

/* Until the core has stopped. */
static int work(struct lh_copy *c, struct lh_store_copied *now)
{
    enum lh_reign_phase phase = LH_REIGN_LEARNING, last_phase;
    struct lh_instant changed_at = lh_clock_now();
    uint64_t last_pairs;

    for (;;) {
        int error = lh_loop_wait(c->loop, lh_milliseconds(POLL_MS));
        last_phase = phase;
        last_pairs = now->pairs;
        phase = look(c, now);
        if (error != LH_ERR_DEADLINE_EXCEEDED)
            return error;
        struct lh_instant at = lh_clock_now();
        if (phase != last_phase || now->pairs != last_pairs)
            changed_at = at;
        if (lh_instant_reached(at, lh_instant_add(changed_at, patience(c, phase)))) {
            if (c->unanswered || !may_stop(c, phase))
                return give_up(c);
            c->unanswered = true;
            changed_at = at;
            stop(c);
        }
        if (atomic_load(&c->undecided)) {
            c->marked = false;
            return lh_copy_refuse(c, LH_ERR_IO,
                "cannot write to %s; run the same copy again: it ends the work, or says that there "
                "is a store, which is whole then",
                c->directory);
        }
        c->wanted->progress(c->wanted->arg, now);
        if (lh_copy_is_interrupted(c))
            stop(c);
    }
}

static int run(struct lh_copy *c, struct lh_store_copied *result)
{
    const struct lh_loop_config loop = {
        .core = {c, core_step, core_deadline},
        .name = "copy",
        .threads = 1,
        .tls = c->wanted->tls,
        .foreign_tls = c->wanted->etcd->tls,
        .persist = lh_copy_persist,
        .store = c,
        .on_stopped = on_stopped,
    };

    c->reigns = lh_reigns_create(&c->config);
    if (c->config.task == LH_REIGN_FILL) {
        result->total = c->count;
        lh_reigns_fill(c->reigns, c->pairs, c->count, c->record->master_term);
        c->pairs = NULL;
        c->count = 0;
    }
    int error = lh_loop_create(&loop, &c->loop, c->why, sizeof c->why);
    if (error != LH_OK)
        return error;
    lh_loop_start(c->loop);
    error = work(c, result);
    return error == LH_ERR_CANCELLED ? say_stopped(c) : error;
}

/* ---- The whole. */

static int prepare(struct lh_copy *c, struct lh_store_copied *result)
{
    const char *from = c->wanted->from, *to = c->wanted->to, *etcd;
    size_t n = strlen(KIND_LMDB); /* of both */

    if (strncmp(from, KIND_LMDB, n) == 0 && from[n] != 0 && strncmp(to, KIND_ETCD, n) == 0) {
        c->config.task = LH_REIGN_FILL;
        c->directory = from + n;
        etcd = to + n;
    } else if (strncmp(from, KIND_ETCD, n) == 0 && strncmp(to, KIND_LMDB, n) == 0 && to[n] != 0) {
        c->config.task = LH_REIGN_TAKE;
        c->directory = to + n;
        etcd = from + n;
    } else {
        return lh_copy_refuse(c, LH_ERR_INVALID_ARGUMENT,
            "one store is lmdb:DIRECTORY, and the other one etcd:HOST:PORT,HOST:PORT,.../PREFIX. "
            "With no master running, a directory is copied by cp, and a prefix by etcdctl "
            "make-mirror");
    }
    result->to_etcd = c->config.task == LH_REIGN_FILL;
    if (!lh_etcd_options_take(
            c->wanted->etcd, &c->wanted->tls, etcd, &c->config, c->why, sizeof c->why))
        return LH_ERR_INVALID_ARGUMENT;
    c->config.id = "leasehold store copy";
    c->config.address = "-";
    c->config.master = lh_master_config_default();
    if (getrandom(&c->config.master.seed, sizeof c->config.master.seed, 0) < 0)
        return lh_copy_refuse(c, LH_ERR_SYSTEM, "the operating system gives no random numbers");
    lh_reign_config_fill(&c->config);
    return lh_reign_config_check(&c->config, c->why, sizeof c->why);
}

int lh_store_copy(
    const struct lh_store_copy *wanted, struct lh_store_copied *result, char *why, size_t why_size)
{
    struct lh_copy *c = lh_alloc(sizeof *c);

    *result = (struct lh_store_copied){0};
    c->wanted = wanted;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->committed, NULL);
    int error = prepare(c, result);
    if (error == LH_OK)
        error = lh_copy_open(c);
    if (error == LH_OK)
        error = run(c, result);
    pthread_mutex_lock(&c->mutex);
    (void)snprintf(why, why_size, "%s", c->why);
    pthread_mutex_unlock(&c->mutex);
    /* If that fails, no master starts on the directory, and the copy can be run again. One that was
     * empty stays marked: a master would begin another cluster there. */
    if (error != LH_OK && c->marked && (c->mark != NULL || c->config.task == LH_REIGN_FILL))
        (void)lh_copy_set_mark(c, c->mark);
    lh_copy_close_store(c);
    lh_loop_destroy(c->loop);
    lh_reigns_destroy(c->reigns);
    lh_changes_free(c->pairs, c->count);
    if (c->mark != NULL)
        leasehold_stored__elsewhere__free_unpacked(c->mark, NULL);
    if (c->record != NULL)
        leasehold_stored__master__free_unpacked(c->record, NULL);
    pthread_cond_destroy(&c->committed);
    pthread_mutex_destroy(&c->mutex);
    free(c);
    return error;
}
