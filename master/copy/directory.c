/* The directory, its pairs and its mark. */
#include "master/copy/internal.h"

#include "base/alloc.h"
#include "master/master.h"
#include "master/store/metastore_lmdb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Commits: of the mark alone, the core's, and the one that makes a directory a store. */
#define MARK_TICKET  0
#define CORE_TICKET  1
#define WHOLE_TICKET 2

static int on_pair(
    void *arg, const void *key, size_t key_size, const void *value, size_t value_size)
{
    struct lh_copy *c = arg;
    const char *letter = key;
    int error;

    if (key_size == 1 && *letter == LH_MASTER_ELSEWHERE_KEY[0]) {
        c->mark = leasehold_stored__elsewhere__unpack(NULL, value_size, value);
        return c->mark != NULL
                   ? LH_OK
                   : lh_copy_refuse(c, LH_ERR_CORRUPT, "%s: its mark cannot be read", c->directory);
    }
    if (c->check != NULL) {
        char text[512];
        error = lh_master_load(c->check, key, key_size, value, value_size, text, sizeof text);
        if (error != LH_OK)
            return lh_copy_refuse(c, error, "%s: %s", c->directory, text);
    }
    if (key_size == 1 && *letter == 'M')
        c->record = lh_master_record_read(value, value_size);
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

/* False: the store is being closed. Takes over the changes. */
static bool commit(struct lh_copy *c, uint64_t ticket, struct lh_change *changes, size_t count)
{
    pthread_mutex_lock(&c->mutex);
    bool open = !c->closed;
    if (open)
        lh_metastore_commit(c->store, ticket, changes, count);
    pthread_mutex_unlock(&c->mutex);
    if (!open)
        lh_changes_free(changes, count);
    return open;
}

static bool commit_mark(struct lh_copy *c, uint64_t ticket, const LeaseholdStored__Elsewhere *mark)
{
    struct lh_change *change = lh_alloc(sizeof *change);

    *change = mark_change(mark);
    return commit(c, ticket, change, 1);
}

void lh_copy_close_store(struct lh_copy *c)
{
    pthread_mutex_lock(&c->mutex);
    bool was_open = !c->closed;
    c->closed = true;
    pthread_mutex_unlock(&c->mutex);
    if (was_open)
        lh_metastore_close(c->store);
}

static void on_committed(void *arg, uint64_t ticket, int error, const char *why)
{
    struct lh_copy *c = arg;

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
    bool taken = ticket == CORE_TICKET && error == LH_OK && c->config.task == LH_REIGN_TAKE;
    if (taken ? !commit_mark(c, WHOLE_TICKET, NULL) : ticket == WHOLE_TICKET && error != LH_OK) {
        /* Were this taken for a failure, etcd would allow a reign, and the directory may do so. */
        atomic_store(&c->undecided, true);
    } else if (!taken && ticket != MARK_TICKET) {
        atomic_store(&c->persisting, false);
        if (error == LH_OK)
            c->marked = false; /* it stays, since etcd may allow a reign from now on */
        lh_loop_persisted(c->loop, CORE_TICKET, error);
    }
}

static LeaseholdStored__Elsewhere new_mark(const struct lh_copy *c, bool unfinished)
{
    LeaseholdStored__Elsewhere mark = LEASEHOLD_STORED__ELSEWHERE__INIT;

    mark.where = (char *)(uintptr_t)(unfinished ? c->wanted->from : c->wanted->to);
    mark.unfinished = unfinished;
    mark.copy = unfinished ? c->copy : 0;
    return mark;
}

int lh_copy_set_mark(struct lh_copy *c, const LeaseholdStored__Elsewhere *mark)
{
    struct timespec until;

    c->mark_done = false;
    if (!commit_mark(c, MARK_TICKET, mark))
        return LH_ERR_CANCELLED;
    pthread_mutex_lock(&c->mutex);
    while (!c->mark_done) {
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        (void)pthread_cond_timedwait(&c->committed, &c->mutex, &until);
        if (!c->mark_done && lh_copy_is_interrupted(c))
            break;
    }
    int error = c->mark_done ? c->mark_error : LH_ERR_CANCELLED;
    pthread_mutex_unlock(&c->mutex);
    return error;
}

/* What a kind of store cannot take that the other one could. */
static bool is_refused(struct lh_copy *c, const struct lh_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (changes[i].value == NULL || changes[i].key_size <= c->store->key_bytes_max)
            continue;
        (void)lh_copy_refuse(c, LH_ERR_TOO_LARGE,
            "%s cannot hold \"%.*s...\": its key has %u bytes, of at most %zu; an older release "
            "has "
            "made it; start a master on the store in etcd again, and delete it",
            c->directory, 200, (const char *)changes[i].key + 1, changes[i].key_size,
            c->store->key_bytes_max);
        return true;
    }
    return false;
}

void lh_copy_persist(void *arg, uint64_t ticket, struct lh_change *changes, size_t count)
{
    struct lh_copy *c = arg;
    bool to_etcd = c->config.task == LH_REIGN_FILL;
    LeaseholdStored__Elsewhere mark = new_mark(c, !to_etcd);
    size_t before = to_etcd ? 0 : c->count;

    if (is_refused(c, changes, count)) {
        lh_changes_free(changes, count);
        lh_loop_persisted(c->loop, ticket, LH_ERR_TOO_LARGE);
        return;
    }
    struct lh_change *all = lh_alloc_array(before + count + 1, sizeof *all);

    for (size_t i = 0; i < before; i++)
        all[i] = c->pairs[i];
    for (size_t i = 0; i < count; i++)
        all[before + i] = changes[i];
    free(changes);
    all[before + count] = mark_change(&mark);
    if (!to_etcd)
        c->count = 0; /* they are the store's now */
    c->marked = true;
    atomic_store(&c->persisting, true);
    (void)commit(c, ticket, all, before + count + 1);
}

/* Where its content went, which it still has; NULL: nowhere, or it has none. */
static const char *went_to(const LeaseholdStored__Elsewhere *mark)
{
    const char *where = mark == NULL ? "" : mark->unfinished ? mark->before : mark->where;

    return where[0] == 0 ? NULL : where;
}

static int check_source(struct lh_copy *c)
{
    const LeaseholdStored__Elsewhere *mark = c->mark;
    const char *where = went_to(mark);

    if (mark != NULL && where == NULL)
        return lh_copy_refuse(c, LH_ERR_IN_USE,
            "%s is not whole: it was being filled from %s; run that copy again", c->directory,
            mark->where);
    c->config.began_before = where != NULL && !c->wanted->even_if_moved;
    if (c->config.began_before && strcmp(where, c->wanted->to) != 0)
        return lh_copy_refuse(c, LH_ERR_WRONG_IDENTITY,
            "the content of %s went to %s already: copy from there; or, if no master was ever "
            "started on that and it is lost, give --even-if-moved",
            c->directory, where);
    if (c->record == NULL)
        return lh_copy_refuse(
            c, LH_ERR_NOT_FOUND, "%s has no metadata yet: there is nothing to copy", c->directory);
    return LH_OK;
}

static int check_target(struct lh_copy *c)
{
    const LeaseholdStored__Elsewhere *mark = c->mark;
    bool again = mark != NULL && mark->unfinished && strcmp(mark->where, c->wanted->from) == 0;

    if (mark == NULL && c->count > 0)
        return lh_copy_refuse(c, LH_ERR_ALREADY_EXISTS,
            "%s holds a store already: give an empty directory", c->directory);
    if (mark != NULL && mark->unfinished && !again && went_to(mark) == NULL && c->count > 0)
        return lh_copy_refuse(c, LH_ERR_ALREADY_EXISTS,
            "%s was being filled from %s: run that copy again, or give an empty directory",
            c->directory, mark->where);
    c->config.cluster = c->record == NULL ? NULL : c->record->cluster_id;
    c->config.even_if_moved_to = c->wanted->even_if_moved ? "" : again ? c->where : NULL;
    /* MOVED of an earlier copy into a directory of this name is not taken for this one's. */
    if (again)
        c->copy = mark->copy;
    else if (getrandom(&c->copy, sizeof c->copy, 0) < 0)
        return lh_copy_refuse(c, LH_ERR_SYSTEM, "the operating system gives no random numbers");
    size_t said = strlen(c->where);
    if (c->copy != 0)
        (void)snprintf(c->where + said, sizeof c->where - said, " (copy %016" PRIx64 ")", c->copy);
    LeaseholdStored__Elsewhere unfinished = new_mark(c, true);
    if (went_to(mark) != NULL)
        unfinished.before = (char *)(uintptr_t)went_to(mark);
    c->marked = true;
    return lh_copy_set_mark(c, &unfinished);
}

int lh_copy_open(struct lh_copy *c)
{
    char path[PATH_MAX], host[256] = "";
    bool to_etcd = c->config.task == LH_REIGN_FILL;

    (void)snprintf(path, sizeof path, "%s/FORMAT", c->directory);
    if (to_etcd && access(path, F_OK) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            return lh_copy_refuse(c, LH_ERR_IO, "%s: cannot look for the file FORMAT: %s",
                c->directory, strerror(errno));
        return lh_copy_refuse(
            c, LH_ERR_NOT_FOUND, "%s is no store of a master: it has no file FORMAT", c->directory);
    }
    int error =
        lh_metastore_lmdb_open(c->directory, 0, on_committed, c, &c->store, c->why, sizeof c->why);
    if (error != LH_OK)
        return error;
    if (realpath(c->directory, path) == NULL)
        (void)snprintf(path, sizeof path, "%s", c->directory);
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(c->where, sizeof c->where, "lmdb:%s on %s", path, host);
    c->config.elsewhere = c->where;
    if (to_etcd)
        c->check = lh_master_create(&c->config.master);
    error = lh_metastore_load(c->store, on_pair, c, c->why, sizeof c->why);
    if (error == LH_OK && c->check != NULL && c->record != NULL) {
        char text[512];
        error = lh_master_loaded(c->check, text, sizeof text);
        if (error != LH_OK)
            (void)lh_copy_refuse(c, error, "%s: %s", c->directory, text);
    }
    lh_master_destroy(c->check);
    if (error == LH_OK)
        error = to_etcd ? check_source(c) : check_target(c);
    return error;
}
