#include "master/copy/copy.h"

#include "base/alloc.h"
#include "master/master.h"
#include "master/reigns/reigns.h"
#include "master/store/metastore_lmdb.h"
#include "proto/stored.pb-c.h"
#include "runtime/loop.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define KIND_LMDB "lmdb:"
#define KIND_ETCD "etcd:"

/* How often the operator is told, and asked whether to go on. */
#define POLL_MS 100

/* Commits: of the mark alone, the core's, and the one that makes a directory a store. */
#define MARK_TICKET  0
#define CORE_TICKET  1
#define WHOLE_TICKET 2

struct copy {
    const struct lh_store_copy *wanted;
    const char *directory;
    char where[PATH_MAX + 300]; /* the directory, as etcd's head names it */
    struct lh_reign_config config;
    struct lh_metastore *store;
    struct lh_master *check; /* while a store is loaded that is to be copied */
    struct lh_reigns *reigns;
    struct lh_loop *loop;

    /* What the directory had at first; of a store that is filled, without the values. */
    struct lh_change *pairs;
    size_t count, capacity;
    LeaseholdStored__Elsewhere *mark; /* NULL: none */
    LeaseholdStored__Master *record;  /* NULL: no metadata */

    bool marked;              /* the mark is not what it was */
    atomic_bool undecided;    /* whether the directory is a store now is not known */
    atomic_bool persisting;   /* a commit of the core's is under way, ... */
    atomic_bool starved;      /* ... for which there is no room */
    pthread_mutex_t mutex;    /* guards what follows, once other threads run */
    pthread_cond_t committed; /* the mark is */
    bool mark_done;
    int mark_error;
    char why[1200];
};

/* Returns `error`. */
static int __attribute__((format(printf, 3, 4)))
refuse(struct copy *c, int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    pthread_mutex_lock(&c->mutex);
    (void)vsnprintf(c->why, sizeof c->why, format, args);
    pthread_mutex_unlock(&c->mutex);
    va_end(args);
    return error;
}

static bool is_interrupted(const struct copy *c)
{
    return c->wanted->interrupted(c->wanted->arg);
}

/* ---- The directory. */

static int on_pair(
    void *arg, const void *key, size_t key_size, const void *value, size_t value_size)
{
    struct copy *c = arg;
    const char *letter = key;
    int error;

    if (key_size == 1 && *letter == LH_MASTER_ELSEWHERE_KEY[0]) {
        c->mark = leasehold_stored__elsewhere__unpack(NULL, value_size, value);
        return c->mark != NULL
                   ? LH_OK
                   : refuse(c, LH_ERR_CORRUPT, "%s: its mark cannot be read", c->directory);
    }
    if (c->check != NULL) {
        char text[512];
        error = lh_master_load(c->check, key, key_size, value, value_size, text, sizeof text);
        if (error != LH_OK)
            return refuse(c, error, "%s: %s", c->directory, text);
    }
    if (key_size == 1 && *letter == 'M')
        c->record = leasehold_stored__master__unpack(NULL, value_size, value);
    LH_GROW(c->pairs, c->capacity, c->count + 1);
    struct lh_change *pair = &c->pairs[c->count++];
    *pair = (struct lh_change){.key = lh_alloc(key_size), .key_size = (uint32_t)key_size};
    memcpy(pair->key, key, key_size);
    if (c->check != NULL) {
        pair->value = lh_alloc(value_size + 1);
        pair->value_size = (uint32_t)value_size;
        memcpy(pair->value, value, value_size);
    }
    return LH_OK;
}

/* A put, or the removal if `mark` is NULL. */
static struct lh_change mark_change(const LeaseholdStored__Elsewhere *mark)
{
    struct lh_change change = {(uint8_t *)lh_strdup(LH_MASTER_ELSEWHERE_KEY), NULL, 1, 0};

    if (mark != NULL) {
        change.value_size = (uint32_t)leasehold_stored__elsewhere__get_packed_size(mark);
        change.value = lh_alloc(change.value_size + 1);
        leasehold_stored__elsewhere__pack(mark, change.value);
    }
    return change;
}

static void commit_one(struct copy *c, uint64_t ticket, const LeaseholdStored__Elsewhere *mark)
{
    struct lh_change *change = lh_alloc(sizeof *change);

    *change = mark_change(mark);
    lh_metastore_commit(c->store, ticket, change, 1);
}

static void on_committed(void *arg, uint64_t ticket, int error, const char *why)
{
    struct copy *c = arg;

    atomic_store(&c->starved, error == LH_ERR_SHORTAGE);
    if (error == LH_ERR_SHORTAGE) {
        c->wanted->say(c->wanted->arg, why);
        return;
    }
    pthread_mutex_lock(&c->mutex);
    if (error != LH_OK)
        (void)snprintf(c->why, sizeof c->why, "%s", why);
    if (ticket == MARK_TICKET) {
        c->mark_done = true;
        c->mark_error = error;
        pthread_cond_signal(&c->committed);
    }
    pthread_mutex_unlock(&c->mutex);
    if (ticket == CORE_TICKET && error == LH_OK && c->config.task == LH_REIGN_TAKE) {
        commit_one(c, WHOLE_TICKET, NULL);
    } else if (ticket == WHOLE_TICKET && error != LH_OK) {
        /* Were this taken for a failure, etcd would allow a reign, and the directory may do so. */
        atomic_store(&c->undecided, true);
    } else if (ticket != MARK_TICKET) {
        atomic_store(&c->persisting, false);
        lh_loop_persisted(c->loop, CORE_TICKET, error);
    }
}

static LeaseholdStored__Elsewhere new_mark(const struct copy *c, bool unfinished)
{
    LeaseholdStored__Elsewhere mark = LEASEHOLD_STORED__ELSEWHERE__INIT;

    mark.where = (char *)(uintptr_t)(unfinished ? c->wanted->from : c->wanted->to);
    mark.unfinished = unfinished;
    return mark;
}

/* The directory's mark is this one, durably; NULL: none. */
static int set_mark(struct copy *c, const LeaseholdStored__Elsewhere *mark)
{
    struct timespec until;

    c->mark_done = false;
    commit_one(c, MARK_TICKET, mark);
    pthread_mutex_lock(&c->mutex);
    while (!c->mark_done) {
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        (void)pthread_cond_timedwait(&c->committed, &c->mutex, &until);
        if (!c->mark_done && is_interrupted(c))
            break;
    }
    int error = c->mark_done ? c->mark_error : LH_ERR_CANCELLED;
    pthread_mutex_unlock(&c->mutex);
    return error;
}

/* A commit of the core's: in etcd all pairs are there, and the directory is marked; or these are
 * the pairs, instead of what the directory has. Its mark is taken away when they are durable. */
static void persist(void *arg, uint64_t ticket, struct lh_change *changes, size_t count)
{
    struct copy *c = arg;
    bool to_etcd = c->config.task == LH_REIGN_FILL;
    LeaseholdStored__Elsewhere mark = new_mark(c, false);
    size_t before = to_etcd ? 0 : c->count;
    struct lh_change *all = lh_alloc_array(before + count + 1, sizeof *all);

    for (size_t i = 0; i < before; i++)
        all[i] = c->pairs[i];
    for (size_t i = 0; i < count; i++)
        all[before + i] = changes[i];
    free(changes);
    if (to_etcd)
        all[count] = mark_change(&mark);
    else
        c->count = 0; /* they are the store's now */
    c->marked = true;
    atomic_store(&c->persisting, true);
    lh_metastore_commit(c->store, ticket, all, before + count + to_etcd);
}

static int check_source(struct copy *c)
{
    const LeaseholdStored__Elsewhere *mark = c->mark;

    if (mark != NULL && mark->unfinished)
        return refuse(c, LH_ERR_IN_USE,
            "%s is not whole: it was being filled from %s; run that copy again", c->directory,
            mark->where);
    if (mark != NULL && strcmp(mark->where, c->wanted->to) != 0 && !c->wanted->even_if_moved)
        return refuse(c, LH_ERR_WRONG_IDENTITY,
            "the content of %s went to %s already: copy from there; or, if no master was ever "
            "started on that and it is lost, give --even-if-moved",
            c->directory, mark->where);
    if (c->record == NULL)
        return refuse(
            c, LH_ERR_NOT_FOUND, "%s has no metadata yet: there is nothing to copy", c->directory);
    return LH_OK;
}

static int check_target(struct copy *c)
{
    const LeaseholdStored__Elsewhere *mark = c->mark;
    bool again = mark != NULL && mark->unfinished && strcmp(mark->where, c->wanted->from) == 0;

    if (mark == NULL && c->count > 0)
        return refuse(c, LH_ERR_ALREADY_EXISTS, "%s holds a store already: give an empty directory",
            c->directory);
    if (mark != NULL && mark->unfinished && !again && c->count > 0)
        return refuse(c, LH_ERR_ALREADY_EXISTS,
            "%s was being filled from %s: run that copy again, or give an empty directory",
            c->directory, mark->where);
    c->config.cluster = c->record == NULL ? NULL : c->record->cluster_id;
    c->config.even_if_moved_to = c->wanted->even_if_moved ? "" : again ? c->where : NULL;
    LeaseholdStored__Elsewhere unfinished = new_mark(c, true);
    c->marked = true;
    return set_mark(c, &unfinished);
}

static int open_directory(struct copy *c)
{
    char path[PATH_MAX], host[256] = "";
    bool to_etcd = c->config.task == LH_REIGN_FILL;

    (void)snprintf(path, sizeof path, "%s/FORMAT", c->directory);
    if (to_etcd && access(path, F_OK) != 0)
        return refuse(
            c, LH_ERR_NOT_FOUND, "%s is no store of a master: it has no file FORMAT", c->directory);
    int error =
        lh_metastore_lmdb_open(c->directory, 0, on_committed, c, &c->store, c->why, sizeof c->why);
    if (error != LH_OK)
        return error;
    if (realpath(c->directory, path) == NULL)
        (void)snprintf(path, sizeof path, "%s", c->directory);
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(c->where, sizeof c->where, KIND_LMDB "%s on %s", path, host);
    c->config.elsewhere = c->where;
    if (to_etcd)
        c->check = lh_master_create(&c->config.master);
    error = lh_metastore_load(c->store, on_pair, c, c->why, sizeof c->why);
    lh_master_destroy(c->check);
    if (error == LH_OK)
        error = to_etcd ? check_source(c) : check_target(c);
    return error;
}

/* ---- The work. */

/* Its log is for this command to show: what went wrong last is why it stops. */
static void core_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct copy *c = self;

    lh_reigns_step(c->reigns, in, fx);
    for (size_t i = 0; i < fx->count; i++) {
        struct lh_effect *e = &fx->items[i];
        if (e->kind != LH_FX_LOG)
            continue;
        if (e->level == LH_WARN)
            c->wanted->say(c->wanted->arg, e->text);
        if (e->level == LH_ERROR)
            (void)refuse(c, LH_OK, "%s", e->text);
        e->level = LH_DEBUG;
    }
}

static struct lh_instant core_deadline(const void *self)
{
    const struct copy *c = self;

    return lh_reigns_deadline(c->reigns);
}

static void on_stopped(void *arg, int error)
{
    (void)arg;
    (void)error;
}

static enum lh_reign_phase look(struct copy *c, struct lh_store_copied *now)
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
    return state.phase;
}

/* For how long nothing may change in this phase. */
static struct lh_duration patience(const struct copy *c, enum lh_reign_phase phase)
{
    struct lh_duration patience = c->wanted->patience;

    if (atomic_load(&c->persisting))
        return LH_DURATION_FOREVER; /* etcd is not asked */
    if (phase == LH_REIGN_STANDBY)
        patience.ns += LH_REIGN_TERM_MAX_NS; /* until the last reign is over for certain */
    return patience;
}

static int give_up(struct copy *c, enum lh_reign_phase phase)
{
    if (phase == LH_REIGN_LEARNING || phase == LH_REIGN_LOADING || phase == LH_REIGN_STANDBY) {
        lh_loop_stop(c->loop);
        (void)lh_loop_wait(c->loop, c->wanted->patience);
        return refuse(c, LH_ERR_UNAVAILABLE, "etcd does not answer; nothing was changed");
    }
    c->marked = false; /* it stays: nobody knows what etcd has */
    return refuse(c, LH_ERR_DEADLINE_EXCEEDED,
        "etcd does not answer any more, and no master can be started on either store now: run the "
        "same copy again when it does");
}

/* Until the core has stopped. */
/* Asks the core to stop; without room for its commit that fails, and the core takes it back. */
static void stop(struct copy *c)
{
    lh_loop_stop(c->loop);
    if (c->store == NULL || !atomic_load(&c->starved))
        return;
    lh_metastore_close(c->store);
    c->store = NULL;
}

/* Until the core has stopped. */
static int work(struct copy *c, struct lh_store_copied *now)
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
        if (lh_instant_reached(at, lh_instant_add(changed_at, patience(c, phase))))
            return give_up(c, phase);
        if (atomic_load(&c->undecided)) {
            c->marked = false;
            return refuse(c, LH_ERR_IO,
                "cannot write to %s; run the same copy again: it ends the work, or says that there "
                "is a store, which is whole then",
                c->directory);
        }
        c->wanted->progress(c->wanted->arg, now);
        if (is_interrupted(c))
            stop(c);
    }
}

static int run(struct copy *c, struct lh_store_copied *result)
{
    const struct lh_loop_config loop = {
        .core = {c, core_step, core_deadline},
        .name = "copy",
        .threads = 1,
        .foreign_tls = c->wanted->etcd->tls,
        .persist = persist,
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
    if (error == LH_ERR_CANCELLED)
        (void)refuse(c, error,
            c->config.task == LH_REIGN_FILL
                ? "interrupted; masters can go on with %s, or the copy be run again"
                : "interrupted, before anything was changed; masters can go on as before",
            c->wanted->from);
    return error;
}

/* ---- The whole. */

static int prepare(struct copy *c, struct lh_store_copied *result)
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
        return refuse(c, LH_ERR_INVALID_ARGUMENT,
            "one store is lmdb:DIRECTORY, and the other one etcd:HOST:PORT,HOST:PORT,.../PREFIX. "
            "With no master running, a directory is copied by cp, and a prefix by etcdctl "
            "make-mirror");
    }
    result->to_etcd = c->config.task == LH_REIGN_FILL;
    if (!lh_etcd_options_take(c->wanted->etcd, etcd, &c->config, c->why, sizeof c->why))
        return LH_ERR_INVALID_ARGUMENT;
    c->config.id = "leasehold store copy";
    c->config.address = "-";
    c->config.master = lh_master_config_default();
    if (getrandom(&c->config.master.seed, sizeof c->config.master.seed, 0) < 0)
        return refuse(c, LH_ERR_SYSTEM, "the operating system gives no random numbers");
    lh_reign_config_fill(&c->config);
    return lh_reign_config_check(&c->config, c->why, sizeof c->why);
}

int lh_store_copy(
    const struct lh_store_copy *wanted, struct lh_store_copied *result, char *why, size_t why_size)
{
    struct copy *c = lh_alloc(sizeof *c);

    *result = (struct lh_store_copied){0};
    c->wanted = wanted;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->committed, NULL);
    int error = prepare(c, result);
    if (error == LH_OK)
        error = open_directory(c);
    if (error == LH_OK)
        error = run(c, result);
    pthread_mutex_lock(&c->mutex);
    (void)snprintf(why, why_size, "%s", c->why);
    pthread_mutex_unlock(&c->mutex);
    /* If that fails, no master starts on the directory, and the copy can be run again. One that was
     * empty stays marked: a master would begin another cluster there. */
    if (error != LH_OK && c->marked && c->store != NULL &&
        (c->mark != NULL || c->config.task == LH_REIGN_FILL))
        (void)set_mark(c, c->mark);
    lh_metastore_close(c->store);
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
