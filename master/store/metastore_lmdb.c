#include "master/store/metastore_lmdb.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "master/store/cluster_file.h"
#include "master/store/disk_error.h"
#include "master/store/format_file.h"
#include "master/store/lmdb_check.h"
#include "master/store/lmdb_error.h"
#include "master/store/lmdb_settle.h"
#include "runtime/directory.h"
#include "runtime/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAP_BYTES_FIRST (UINT64_C(1) << 30)

/* While there is no room: how often it is tried, and said. */
#define RETRY_S  1
#define REMIND_S 60

/* Of a request, besides its keys and values. */
#define REQUEST_BYTES 128u

struct request {
    uint64_t ticket;
    struct lh_change *changes;
    size_t count;
    STAILQ_ENTRY(request) link;
};
STAILQ_HEAD(requests, request);

struct store {
    struct lh_metastore base;
    char *path;
    int directory, lock;
    char cluster[LH_CLUSTER_TEXT_BYTES]; /* whose metadata it is; "": nobody's yet */
    bool named;                          /* the file CLUSTER says so */
    MDB_env *env;
    MDB_dbi dbi;
    lh_metastore_committed *on_committed;
    void *arg;

    pthread_t thread;
    bool running;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;
    struct requests queue;
    uint64_t waiting_bytes; /* of requests that have not completed */
    bool closing;

    /* The committing thread's. */
    bool settled;
    int failed; /* of the first commit that failed; all later ones fail with it */
    char why[512];
};

static uint64_t size_of(const struct request *r)
{
    uint64_t size = REQUEST_BYTES;

    for (size_t i = 0; i < r->count; i++)
        size += sizeof r->changes[i] + r->changes[i].key_size + r->changes[i].value_size;
    return size;
}

static void free_request(struct request *r)
{
    lh_changes_free(r->changes, r->count);
    free(r);
}

/* ---- Committing. */

static int apply(const struct store *s, MDB_txn *txn, const struct request *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct lh_change *c = &r->changes[i];
        MDB_val key = {c->key_size, c->key}, value = {c->value_size, c->value};
        if (c->value == NULL && c->key_size > s->base.key_bytes_max)
            continue; /* there is none */
        int code = c->value == NULL ? mdb_del(txn, s->dbi, &key, NULL)
                                    : mdb_put(txn, s->dbi, &key, &value, 0);
        if (code != MDB_SUCCESS && !(c->value == NULL && code == MDB_NOTFOUND))
            return code;
    }
    return MDB_SUCCESS;
}

/* All of `batch` in one transaction. */
static int commit_batch(struct store *s, const struct requests *batch)
{
    MDB_txn *txn;
    const struct request *r;
    int code = s->settled ? MDB_SUCCESS : lh_lmdb_settle(s->env);

    s->settled = code == MDB_SUCCESS;
    if (code == MDB_SUCCESS)
        code = mdb_txn_begin(s->env, NULL, 0, &txn);
    if (code != MDB_SUCCESS)
        return code;
    STAILQ_FOREACH(r, batch, link) {
        code = apply(s, txn, r);
        if (code != MDB_SUCCESS) {
            mdb_txn_abort(txn);
            return code;
        }
    }
    return mdb_txn_commit(txn); /* also on failure the transaction is gone */
}

/* Twice as much address space. No transaction is open: this thread's was undone, and loading is
 * over before the first commit. LMDB gives up the old map before it asks for the new one, and is of
 * no use if it gets none. So what it would be refused is asked for first. */
static int grow_map(const struct store *s)
{
    MDB_envinfo info;

    (void)mdb_env_info(s->env, &info);
    size_t size = info.me_mapsize * 2;
    void *probe = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (probe == MAP_FAILED)
        return MDB_MAP_FULL;
    (void)munmap(probe, size);
    return mdb_env_set_mapsize(s->env, size);
}

static int commit_and_grow(struct store *s, const struct requests *batch)
{
    int code;

    do
        code = commit_batch(s, batch);
    while (code == MDB_MAP_FULL && (code = grow_map(s)) == MDB_SUCCESS);
    return code;
}

/* Whether there is any use in waiting. Pauses. */
static bool may_try_again(struct store *s)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RETRY_S;
    pthread_mutex_lock(&s->mutex);
    int r = 0;
    while (r == 0 && !s->closing)
        r = pthread_cond_timedwait(&s->wake, &s->mutex, &until);
    bool may = !s->closing && s->waiting_bytes <= LH_METASTORE_WAITING_MAX;
    pthread_mutex_unlock(&s->mutex);
    return may;
}

/* `cluster` and `named` are the committing thread's, once it runs. */
static void name_cluster(struct store *s, const struct requests *committed)
{
    const struct request *r;

    STAILQ_FOREACH(r, committed, link) {
        for (size_t i = 0; i < r->count && !s->named; i++) {
            const struct lh_change *c = &r->changes[i];
            if (c->value != NULL && c->key_size == 1 && *c->key == LH_CLUSTER_KEY[0])
                (void)lh_cluster_in_pair(c->value, c->value_size, s->cluster);
        }
    }
    if (!s->named && s->cluster[0] != 0)
        s->named = lh_cluster_file_write(s->directory, s->cluster);
}

/* Of a store that was given up. SHORTAGE would say that it tries on. */
static int failure_of(int code)
{
    int error = lh_lmdb_error(code);

    return error == LH_ERR_SHORTAGE ? LH_ERR_IO : error;
}

/* Whether LMDB would begin another transaction: not if the page failed that names the newest ones,
 * since it cannot tell which of them is on the disk. The next start finds out. */
static bool can_go_on(const struct store *s)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(s->env, NULL, 0, &txn);

    if (code == MDB_SUCCESS)
        mdb_txn_abort(txn);
    return code != MDB_PANIC;
}

/* In the end it is committed, or s->failed and s->why say why it is not. */
static void commit_or_wait(struct store *s, const struct requests *batch)
{
    for (unsigned tries = 0;; tries++) {
        int code = commit_and_grow(s, batch);
        if (code == MDB_SUCCESS) {
            name_cluster(s, batch);
            return;
        }
        bool again = lh_lmdb_is_shortage(s->directory, code) && can_go_on(s);
        lh_lmdb_explain(s->path, code, again, s->why, sizeof s->why);
        if (again && tries % (REMIND_S / RETRY_S) == 0)
            s->on_committed(s->arg, STAILQ_FIRST(batch)->ticket, LH_ERR_SHORTAGE, s->why);
        if (!again || !may_try_again(s)) {
            lh_lmdb_explain(s->path, code, false, s->why, sizeof s->why);
            s->failed = failure_of(code);
            return;
        }
    }
}

static void complete_batch(struct store *s, struct requests *batch)
{
    struct request *r;

    while ((r = STAILQ_FIRST(batch)) != NULL) {
        STAILQ_REMOVE_HEAD(batch, link);
        pthread_mutex_lock(&s->mutex);
        s->waiting_bytes -= size_of(r);
        pthread_mutex_unlock(&s->mutex);
        s->on_committed(s->arg, r->ticket, s->failed, s->failed == LH_OK ? NULL : s->why);
        free_request(r);
    }
}

static void *committing_thread(void *arg)
{
    struct store *s = arg;
    bool more = true;

    while (more) {
        struct requests batch = STAILQ_HEAD_INITIALIZER(batch);
        pthread_mutex_lock(&s->mutex);
        while (STAILQ_EMPTY(&s->queue) && !s->closing)
            pthread_cond_wait(&s->wake, &s->mutex);
        STAILQ_CONCAT(&batch, &s->queue);
        more = !s->closing || !STAILQ_EMPTY(&batch);
        pthread_mutex_unlock(&s->mutex);
        if (STAILQ_EMPTY(&batch))
            continue;
        if (s->failed == LH_OK)
            commit_or_wait(s, &batch);
        complete_batch(s, &batch);
    }
    return NULL;
}

static void store_commit(
    struct lh_metastore *store, uint64_t ticket, struct lh_change *changes, size_t count)
{
    struct store *s = (struct store *)store;
    struct request *r = lh_alloc(sizeof *r);

    *r = (struct request){.ticket = ticket, .changes = changes, .count = count};
    pthread_mutex_lock(&s->mutex);
    LH_ASSERT(!s->closing);
    s->waiting_bytes += size_of(r);
    STAILQ_INSERT_TAIL(&s->queue, r, link);
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->mutex);
}

/* ---- Loading. */

static int store_load(
    struct lh_metastore *store, lh_metastore_pair *on_pair, void *arg, char *why, size_t why_size)
{
    struct store *s = (struct store *)store;
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_val key, value;
    int error = LH_OK;
    int code = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn);

    if (code == MDB_SUCCESS) {
        code = mdb_cursor_open(txn, s->dbi, &cursor);
        if (code == MDB_SUCCESS) {
            while (error == LH_OK &&
                   (code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == MDB_SUCCESS)
                error = on_pair(arg, key.mv_data, key.mv_size, value.mv_data, value.mv_size);
            mdb_cursor_close(cursor);
        }
        mdb_txn_abort(txn);
    }
    if (error == LH_OK && code != MDB_NOTFOUND) {
        snprintf(
            why, why_size, "cannot read the metadata store in %s: %s", s->path, mdb_strerror(code));
        return lh_lmdb_error(code);
    }
    return error;
}

/* ---- Opening and closing. */

static void store_close(struct lh_metastore *store)
{
    struct store *s = (struct store *)store;

    if (s->running) {
        pthread_mutex_lock(&s->mutex);
        s->closing = true;
        pthread_cond_signal(&s->wake);
        pthread_mutex_unlock(&s->mutex);
        pthread_join(s->thread, NULL);
    }
    if (s->env != NULL)
        mdb_env_close(s->env);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->mutex);
    if (s->directory >= 0)
        close(s->directory);
    if (s->lock >= 0)
        close(s->lock); /* last: the directory is free from here on */
    free(s->path);
    free(s);
}

static const struct lh_metastore_operations operations = {store_load, store_commit, store_close};

static int in_use(const struct store *s, char *why, size_t why_size)
{
    snprintf(why, why_size,
        "%s is in use by another process, which holds a lock on it: stop that master, or give this "
        "one a directory of its own",
        s->path);
    return LH_ERR_IN_USE;
}

static int lock_directory(struct store *s, char *why, size_t why_size)
{
    int unmade = mkdir(s->path, LH_DIRECTORY_MODE) != 0 ? errno : 0;
    s->directory = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->directory < 0 && errno == ENOENT && unmade != 0)
        return lh_disk_not_created(s->path, unmade, why, why_size);
    if (s->directory < 0)
        return lh_disk_refuse(s->path, "open the directory", why, why_size);
    static const char *const begun[] = {"LOCK", "FORMAT.new", "lock.mdb", NULL};
    static const char *const ours[] = {
        "LOCK", "FORMAT", "data.mdb", "lock.mdb", LH_CLUSTER_FILE, NULL};
    char stranger[256];
    bool has_format = faccessat(s->directory, "FORMAT", F_OK, 0) == 0;
    if (!has_format && errno != ENOENT)
        return lh_disk_refuse(s->path, "look for the file FORMAT", why, why_size);
    if (!has_format && lh_directory_has_stranger(s->directory, begun, stranger, sizeof stranger)) {
        snprintf(why, why_size,
            "%s holds '%s', which is not a master's (it has no file FORMAT): give this master a "
            "directory of its own",
            s->path, stranger);
        return LH_ERR_WRONG_FORMAT;
    }
    /* LOCK besides: older releases lock that file alone, which may have been deleted. */
    if (lh_directory_lock(s->directory) != LH_OK)
        return in_use(s, why, why_size);
    s->lock = openat(s->directory, "LOCK", O_RDWR | O_CREAT | O_CLOEXEC, LH_FILE_MODE);
    if (s->lock < 0)
        return lh_disk_refuse(s->path, "create the file LOCK", why, why_size);
    if (flock(s->lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            return lh_disk_refuse(s->path, "lock the file LOCK", why, why_size);
        return in_use(s, why, why_size);
    }
    lh_directory_close_to_others(s->directory, ours);
    return LH_OK;
}

/* The id in the store; "": it has none. */
static int read_cluster(const struct store *s, MDB_txn *txn, char id[LH_CLUSTER_TEXT_BYTES])
{
    MDB_val key = {strlen(LH_CLUSTER_KEY), (void *)(uintptr_t)LH_CLUSTER_KEY}, value;
    int code = mdb_get(txn, s->dbi, &key, &value);

    id[0] = 0;
    if (code == MDB_SUCCESS && !lh_cluster_in_pair(value.mv_data, value.mv_size, id))
        memcpy(id, s->cluster, sizeof s->cluster); /* that store is not read any further */
    return code == MDB_NOTFOUND ? MDB_SUCCESS : code;
}

/* LMDB reads the store. Of an earlier release's directory it becomes known now whose it is. */
static int check_cluster(struct store *s, const char *stored, char *why, size_t why_size)
{
    int error = lh_cluster_file_check(s->path, s->cluster, stored, why, why_size);

    if (error != LH_OK)
        return error;
    if (fsync(s->directory) != 0)
        return lh_disk_refuse(s->path, "sync the directory", why, why_size);
    s->named = s->cluster[0] != 0;
    if (!s->named && stored[0] != 0) {
        memcpy(s->cluster, stored, strlen(stored) + 1);
        s->named = lh_cluster_file_write(s->directory, s->cluster);
    }
    return LH_OK;
}

static int open_lmdb(struct store *s, uint64_t map_bytes, char *why, size_t why_size)
{
    MDB_txn *txn;
    char stored[LH_CLUSTER_TEXT_BYTES] = "";
    int code = mdb_env_create(&s->env);

    if (code == MDB_SUCCESS)
        code = mdb_env_set_mapsize(s->env, map_bytes == 0 ? MAP_BYTES_FIRST : map_bytes);
    if (code == MDB_SUCCESS)
        code = mdb_env_open(s->env, s->path, 0, LH_FILE_MODE);
    if (code == MDB_SUCCESS)
        code = mdb_txn_begin(s->env, NULL, 0, &txn);
    if (code == MDB_SUCCESS) {
        if (!lh_lmdb_follows(s->env, txn)) {
            mdb_txn_abort(txn);
            return lh_why(LH_ERR_IO, why, why_size,
                "%s: its file lock.mdb is of another state of the store: end what else reads the "
                "store (mdb_copy, mdb_dump), and start again",
                s->path);
        }
        code = mdb_dbi_open(txn, NULL, 0, &s->dbi);
        if (code == MDB_SUCCESS)
            code = read_cluster(s, txn, stored);
        if (code == MDB_SUCCESS)
            code = mdb_txn_commit(txn);
        else
            mdb_txn_abort(txn);
    }
    if (s->env != NULL)
        s->base.key_bytes_max = (size_t)mdb_env_get_maxkeysize(s->env);
    if (code == MDB_SUCCESS && s->base.key_bytes_max < LH_KEY_BYTES_MAX) {
        snprintf(why, why_size, "this LMDB takes keys of %zu bytes, and %u are needed",
            s->base.key_bytes_max, LH_KEY_BYTES_MAX);
        return LH_ERR_SYSTEM;
    }
    if (code == MDB_SUCCESS)
        return check_cluster(s, stored, why, why_size);
    snprintf(why, why_size, "%s: cannot open the metadata store: %s%s", s->path, mdb_strerror(code),
        code == ENOMEM ? "; it needs 1 GiB of address space (ulimit -v), and little memory" : "");
    return lh_lmdb_error(code);
}

int lh_metastore_lmdb_open(const char *path, uint64_t map_bytes,
    lh_metastore_committed *on_committed, void *arg, struct lh_metastore **store, char *why,
    size_t why_size)
{
    struct store *s = lh_alloc(sizeof *s);

    s->base.operations = &operations;
    s->path = lh_strdup(path);
    s->directory = s->lock = -1;
    s->on_committed = on_committed;
    s->arg = arg;
    STAILQ_INIT(&s->queue);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->wake, NULL);

    int error = lock_directory(s, why, why_size);
    if (error == LH_OK)
        error = lh_format_file_check(s->directory, s->path, why, why_size);
    if (error == LH_OK)
        error = lh_cluster_file_read(s->directory, s->path, s->cluster, why, why_size);
    if (error == LH_OK)
        error = lh_lmdb_check(s->directory, s->path, why, why_size);
    if (error == LH_OK)
        error = open_lmdb(s, map_bytes, why, why_size);
    if (error == LH_OK) {
        error = lh_thread_start(&s->thread, committing_thread, s, why, why_size);
        s->running = error == LH_OK;
    }
    if (error != LH_OK) {
        store_close(&s->base);
        return error;
    }
    *store = &s->base;
    return LH_OK;
}

static int open_directory(const char *where, lh_metastore_committed *on_committed, void *arg,
    struct lh_metastore **store, char *why, size_t why_size)
{
    return lh_metastore_lmdb_open(where, 0, on_committed, arg, store, why, why_size);
}

const struct lh_metastore_kind lh_metastore_lmdb = {.name = "lmdb", .open = open_directory};
