/* The descriptors of chunk files, kept open as long as there is room for them.
 *
 * That writing back has failed the kernel says only while the file's inode is in memory, which an
 * open descriptor makes sure of. So a file with changes that no sync has covered is not simply
 * closed: it is synced first, and what came of that is kept for the next sync (FAIL-5). */
#include "runtime/files_internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uthash.h>

struct entry {
    struct lh_disk_file file; /* first: what callers hold */
    uint64_t id;
    unsigned users;
    unsigned changing;           /* of these, how many change it */
    uint64_t changes, synced;    /* begun so far; and how many of these a sync has covered */
    bool removed;                /* not in the table any more: closed by the last user */
    struct entry *newer, *older; /* among the idle ones */
    UT_hash_handle hh;
};

/* What the sync of a file said that nobody had asked for. */
struct verdict {
    uint64_t id;
    int error;
    UT_hash_handle hh;
};

void lh_files_name(uint64_t id, char name[LH_CHUNK_NAME_SIZE])
{
    snprintf(name, LH_CHUNK_NAME_SIZE, "%016" PRIx64 ".chunk", id);
}

void lh_files_aside_name(uint64_t id, char name[LH_ASIDE_NAME_SIZE])
{
    snprintf(name, LH_ASIDE_NAME_SIZE, "%016" PRIx64 ".chunk.failed", id);
}

static struct idle *idle_of(struct lh_files *files, const struct entry *e)
{
    return e->changes != e->synced ? &files->unsynced : &files->clean;
}

static void idle_remove(struct lh_files *files, struct entry *e)
{
    struct idle *idle = idle_of(files, e);

    if (e->newer != NULL)
        e->newer->older = e->older;
    else
        idle->newest = e->older;
    if (e->older != NULL)
        e->older->newer = e->newer;
    else
        idle->oldest = e->newer;
    e->newer = e->older = NULL;
    idle->count--;
}

static void idle_add(struct lh_files *files, struct entry *e)
{
    struct idle *idle = idle_of(files, e);

    e->older = idle->newest;
    if (idle->newest != NULL)
        idle->newest->newer = e;
    else
        idle->oldest = e;
    idle->newest = e;
    idle->count++;
}

/* Takes the entry out of the table; the caller closes it if nobody uses it. */
static void forget(struct lh_files *files, struct entry *e)
{
    HASH_DEL(files->open, e);
    files->open_count--;
    e->removed = true;
    if (e->users == 0)
        idle_remove(files, e);
}

static void entry_close(struct entry *e)
{
    if (e == NULL)
        return;
    close(e->file.fd);
    free(e);
}

void lh_files_close_all(struct lh_files *files)
{
    struct entry *e, *next;

    struct verdict *v, *after;

    HASH_ITER(hh, files->open, e, next) {
        LH_ASSERT(e->users == 0);
        forget(files, e);
        entry_close(e);
    }
    HASH_ITER(hh, files->verdicts, v, after) {
        HASH_DEL(files->verdicts, v);
        free(v);
    }
}

static struct entry *find(struct lh_files *files, uint64_t id)
{
    struct entry *e;

    HASH_FIND(hh, files->open, &id, sizeof id, e);
    return e;
}

static void use(struct lh_files *files, struct entry *e)
{
    if (e->users++ == 0)
        idle_remove(files, e);
}

/* The user's end; what is to be closed, or NULL. */
static struct entry *unuse(struct lh_files *files, struct entry *e)
{
    if (--e->users > 0)
        return NULL;
    if (e->removed)
        return e;
    idle_add(files, e);
    return NULL;
}

static struct verdict *find_verdict(struct lh_files *files, uint64_t id)
{
    struct verdict *v;

    HASH_FIND(hh, files->verdicts, &id, sizeof id, v);
    return v;
}

/* OK, or what was kept: it is said once, as the kernel does. */
static int take_verdict(struct lh_files *files, uint64_t id)
{
    struct verdict *v = find_verdict(files, id);
    int error = v == NULL ? LH_OK : v->error;

    if (v != NULL) {
        HASH_DEL(files->verdicts, v);
        free(v);
    }
    return error;
}

static void keep_verdict(struct lh_files *files, uint64_t id, int error)
{
    struct verdict *v = find_verdict(files, id);

    if (v == NULL) {
        v = lh_alloc(sizeof *v);
        v->id = id;
        HASH_ADD(hh, files->verdicts, id, sizeof v->id, v);
    }
    v->error = error;
}

/* No process reads it again: the kernel has called its pages clean, and says so once. The name
 * that it gets outlives this process. After a loss of power the old one may be there again, and
 * what is read is what the disk has. */
static void set_aside(struct lh_files *files, uint64_t id)
{
    char name[LH_CHUNK_NAME_SIZE], aside[LH_ASIDE_NAME_SIZE];

    lh_files_name(id, name);
    lh_files_aside_name(id, aside);
    (void)renameat(files->directory, name, files->directory, aside);
}

/* With the lock held, under which nobody makes another file of that number meanwhile. */
static void sync_has_failed(struct lh_files *files, const struct entry *e)
{
    if (!e->removed)
        set_aside(files, e->id);
}

/* Syncs the file that has had changes for longest, of those that nobody uses. Unlocks and locks
 * anew. What failed is not tried again, and the file is then as any other. */
static void sync_oldest(struct lh_files *files)
{
    struct entry *e = files->unsynced.oldest;

    use(files, e);
    uint64_t covered = e->changes;
    pthread_mutex_unlock(&files->lock);
    int error = fdatasync(e->file.fd) == 0 ? LH_OK : lh_files_sync_error(errno);
    pthread_mutex_lock(&files->lock);
    if (error != LH_OK && !e->removed)
        keep_verdict(files, e->id, error);
    if (error != LH_OK)
        sync_has_failed(files, e);
    if (e->synced < covered)
        e->synced = covered;
    struct entry *gone = unuse(files, e);
    if (gone == NULL)
        return;
    pthread_mutex_unlock(&files->lock);
    entry_close(gone);
    pthread_mutex_lock(&files->lock);
}

/* Closes files that nobody uses, those idle for longest first, while more than `most` are open.
 * False: nothing was to be closed. */
static bool close_idle(struct lh_files *files, unsigned most)
{
    bool closed = false;

    pthread_mutex_lock(&files->lock);
    while (files->open_count > most && (files->clean.count > 0 || files->unsynced.count > 0)) {
        struct entry *e = files->clean.oldest;
        if (e == NULL) {
            sync_oldest(files);
            continue;
        }
        forget(files, e);
        pthread_mutex_unlock(&files->lock);
        entry_close(e);
        pthread_mutex_lock(&files->lock);
        closed = true;
    }
    pthread_mutex_unlock(&files->lock);
    return closed;
}

/* For a descriptor that is needed now. */
static bool close_one(struct lh_files *files)
{
    pthread_mutex_lock(&files->lock);
    unsigned open = files->open_count;
    pthread_mutex_unlock(&files->lock);
    return open > 0 && close_idle(files, open - 1);
}

int lh_files_open_name(struct lh_files *files, uint64_t id, int flags)
{
    char name[LH_CHUNK_NAME_SIZE];
    int fd;

    lh_files_name(id, name);
    do
        fd = openat(files->directory, name, flags | O_CLOEXEC, LH_FILE_MODE);
    while (
        fd < 0 && (errno == EINTR || ((errno == EMFILE || errno == ENFILE) && close_one(files))));
    return fd;
}

static struct entry *entry_of(uint64_t id, int fd)
{
    struct entry *e = lh_alloc(sizeof *e);

    e->file.fd = fd;
    e->id = id;
    return e;
}

/* Enters a descriptor and takes it into use. If another thread was faster, its entry is used and
 * ours is returned to be closed. */
static struct entry *enter(struct lh_files *files, struct entry **mine)
{
    struct entry *other = find(files, (*mine)->id);

    if (other != NULL) {
        struct entry *superfluous = *mine;
        *mine = other;
        use(files, other);
        return superfluous;
    }
    struct entry *e = *mine;
    HASH_ADD(hh, files->open, id, sizeof e->id, e);
    files->open_count++;
    e->users = 1;
    return NULL;
}

static void begin_change(struct entry *e)
{
    e->changing++;
    e->changes++;
}

/* FAIL-5a: could the kernel write what a process before left in its hands? It says so once for
 * each file, to whoever asks first. This asks, and writes nothing. Of this process nothing is
 * unwritten in a file that is not open, so no later sync misses what is said here. */
static bool is_sound(int fd)
{
    return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE) == 0 ||
           (errno != EIO && errno != ENOSPC && errno != EDQUOT);
}

/* Of a file that was set aside, what its sync has said. */
static int cannot_open(struct lh_files *files, uint64_t id, int system_errno)
{
    pthread_mutex_lock(&files->lock);
    const struct verdict *v = find_verdict(files, id);
    int error = v == NULL ? lh_error_from_errno(system_errno) : v->error;
    pthread_mutex_unlock(&files->lock);
    return error;
}

/* For reading, where writing is refused (REC-8). -1: `errno` is still why it is refused. */
static int open_to_read(struct lh_files *files, uint64_t id)
{
    int refused = errno;
    int fd = refused == ENOENT || refused == EIO ? -1 : lh_files_open_name(files, id, O_RDONLY);

    errno = refused;
    return fd;
}

int lh_files_make_writable(struct lh_files *files, struct lh_disk_file *file)
{
    const struct entry *e = (const struct entry *)file;

    pthread_mutex_lock(&files->lock);
    bool writable = !file->read_only;
    pthread_mutex_unlock(&files->lock);
    if (writable)
        return LH_OK;
    int fd = lh_files_open_name(files, e->id, O_RDWR);
    if (fd < 0)
        return lh_error_from_errno(errno);
    /* It takes the place of the one that others read by meanwhile. */
    int replaced = dup3(fd, file->fd, O_CLOEXEC), error = errno;
    close(fd);
    if (replaced < 0)
        return lh_error_from_errno(error);
    pthread_mutex_lock(&files->lock);
    file->read_only = false;
    pthread_mutex_unlock(&files->lock);
    return LH_OK;
}

int lh_files_open(struct lh_files *files, uint64_t id, bool changes, struct lh_disk_file **file)
{
    struct entry *superfluous = NULL;

    pthread_mutex_lock(&files->lock);
    struct entry *e = find(files, id);
    if (e != NULL) {
        use(files, e);
    } else {
        pthread_mutex_unlock(&files->lock);
        int fd = lh_files_open_name(files, id, O_RDWR);
        bool read_only = fd < 0;
        if (read_only)
            fd = open_to_read(files, id);
        if (fd < 0)
            return cannot_open(files, id, errno);
        if (!is_sound(fd)) {
            set_aside(files, id);
            (void)fsync(files->directory);
            close(fd);
            return LH_ERR_IO;
        }
        e = entry_of(id, fd);
        e->file.read_only = read_only;
        pthread_mutex_lock(&files->lock);
        superfluous = enter(files, &e);
    }
    if (changes)
        begin_change(e);
    bool many = files->open_count > files->open_max;
    pthread_mutex_unlock(&files->lock);
    entry_close(superfluous);
    if (many)
        (void)close_idle(files, files->open_max);
    *file = &e->file;
    return LH_OK;
}

bool lh_files_is_open(struct lh_files *files, uint64_t id)
{
    pthread_mutex_lock(&files->lock);
    bool open = find(files, id) != NULL;
    pthread_mutex_unlock(&files->lock);
    return open;
}

static bool crowded(const struct lh_files *files)
{
    return files->unsynced.count > files->open_max / 2;
}

bool lh_files_put(struct lh_files *files, struct lh_disk_file *file, bool changed)
{
    struct entry *e = (struct entry *)file;

    pthread_mutex_lock(&files->lock);
    e->changing -= changed;
    struct entry *superfluous = unuse(files, e);
    bool many = files->open_count > files->open_max;
    bool relief = crowded(files);
    pthread_mutex_unlock(&files->lock);
    entry_close(superfluous);
    if (many)
        (void)close_idle(files, files->open_max);
    return relief;
}

bool lh_files_relieve(struct lh_files *files)
{
    pthread_mutex_lock(&files->lock);
    if (crowded(files))
        sync_oldest(files);
    bool more = crowded(files);
    pthread_mutex_unlock(&files->lock);
    return more;
}

int lh_files_sync_begin(struct lh_files *files, const struct lh_disk_file *file, uint64_t *covers)
{
    const struct entry *e = (const struct entry *)file;

    pthread_mutex_lock(&files->lock);
    int error = take_verdict(files, e->id);
    *covers = e->changing == 0 ? e->changes : e->synced;
    pthread_mutex_unlock(&files->lock);
    return error;
}

void lh_files_sync_end(
    struct lh_files *files, struct lh_disk_file *file, uint64_t covers, int error)
{
    struct entry *e = (struct entry *)file;

    pthread_mutex_lock(&files->lock);
    if (error != LH_OK)
        sync_has_failed(files, e);
    else if (e->synced < covers)
        e->synced = covers;
    pthread_mutex_unlock(&files->lock);
}

void lh_files_enter_made(struct lh_files *files, uint64_t id, int fd)
{
    struct entry *e = entry_of(id, fd);

    pthread_mutex_lock(&files->lock);
    files->made++;
    struct entry *superfluous = enter(files, &e);
    pthread_mutex_unlock(&files->lock);
    entry_close(superfluous);
    (void)lh_files_put(files, &e->file, false);
}

void lh_files_forget(struct lh_files *files, uint64_t id)
{
    struct entry *idle = NULL;

    pthread_mutex_lock(&files->lock);
    struct entry *e = find(files, id);
    (void)take_verdict(files, id);
    if (e != NULL) {
        forget(files, e);
        idle = e->users == 0 ? e : NULL;
    }
    pthread_mutex_unlock(&files->lock);
    entry_close(idle);
}
