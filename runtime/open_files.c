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

void lh_files_name(uint64_t id, char name[LH_FILE_NAME_SIZE])
{
    snprintf(name, LH_FILE_NAME_SIZE, "%016" PRIx64 ".chunk%s", id & ~LH_NEW_FILE,
        (id & LH_NEW_FILE) != 0 ? ".new" : "");
}

void lh_files_failed_name(uint64_t id, char name[LH_FILE_NAME_SIZE])
{
    snprintf(name, LH_FILE_NAME_SIZE, "%016" PRIx64 ".chunk.failed", id);
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

void lh_files_close(struct entry *e)
{
    if (e == NULL)
        return;
    close(e->file.fd);
    free(e);
}

void lh_files_close_all(struct lh_files *files)
{
    struct entry *e, *next;

    HASH_ITER(hh, files->open, e, next) {
        LH_ASSERT(e->users == 0);
        forget(files, e);
        lh_files_close(e);
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

/* With the lock held, under which nobody makes another file of that number meanwhile. */
static void sync_has_failed(struct lh_files *files, const struct entry *e, int error)
{
    if (!e->removed)
        lh_doubts_add(files, e->id, error);
}

/* Syncs the file that has had changes for longest, of those that nobody uses. Unlocks and locks
 * again. What failed is not tried again, and the file is then as any other. */
static void sync_oldest(struct lh_files *files)
{
    struct entry *e = files->unsynced.oldest;

    use(files, e);
    uint64_t covered = e->changes;
    pthread_mutex_unlock(&files->lock);
    int error = fdatasync(e->file.fd) == 0 ? LH_OK : lh_files_sync_error(errno);
    pthread_mutex_lock(&files->lock);
    if (error != LH_OK)
        sync_has_failed(files, e, error);
    if (e->synced < covered)
        e->synced = covered;
    struct entry *gone = unuse(files, e);
    if (gone == NULL)
        return;
    pthread_mutex_unlock(&files->lock);
    lh_files_close(gone);
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
        lh_files_close(e);
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

static int open_name(struct lh_files *files, const char *name, int flags)
{
    int fd;

    do
        fd = openat(files->directory, name, flags | O_CLOEXEC, LH_FILE_MODE);
    while (
        fd < 0 && (errno == EINTR || ((errno == EMFILE || errno == ENFILE) && close_one(files))));
    return fd;
}

int lh_files_open_name(struct lh_files *files, uint64_t id, int flags)
{
    char name[LH_FILE_NAME_SIZE];

    lh_files_name(id, name);
    return open_name(files, name, flags);
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
 * each file, to whoever asks first. And what it still has to write, on a file system that takes no
 * change any more, fails here. Of this process nothing is unwritten in a file that is not open, so
 * no later sync misses what is said here; and after a start everything was written, if it can be.
 * That the call is not known, or there is no memory for it, says nothing of the file. */
static bool is_sound(int fd)
{
    unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

    return sync_file_range(fd, 0, 0, all) == 0 || errno == ENOSYS || errno == EINVAL ||
           errno == ENOMEM || errno == EINTR;
}

/* From now on the file is read from the disk: what the kernel has of it in memory, and calls clean,
 * may not be there. */
static void drop_pages(int fd)
{
    (void)fdatasync(fd);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* For reading, where writing is refused (REC-8). -1: `errno` is still why it is refused. */
static int open_to_read(struct lh_files *files, const char *name)
{
    int refused = errno;
    int fd = refused == ENOENT || refused == EIO ? -1 : open_name(files, name, O_RDONLY);

    errno = refused;
    return fd;
}

static int open_as(struct lh_files *files, const char *name, bool *read_only)
{
    int fd = open_name(files, name, O_RDWR);

    *read_only = fd < 0;
    return fd < 0 ? open_to_read(files, name) : fd;
}

/* A descriptor, or -1 with errno. `*failed`: the file has the name of those whose sync has
 * failed. */
static int open_existing(struct lh_files *files, uint64_t id, bool *failed, bool *read_only)
{
    char name[LH_FILE_NAME_SIZE];

    lh_files_name(id, name);
    int fd = open_as(files, name, read_only);
    *failed = fd < 0 && errno == ENOENT && (id & LH_NEW_FILE) == 0;
    if (!*failed)
        return fd;
    lh_files_failed_name(id, name);
    return open_as(files, name, read_only);
}

/* FAIL-5, FAIL-5a. True: this process hears of it for the first time. */
static bool is_in_doubt(struct lh_files *files, uint64_t id, int fd, bool failed)
{
    bool sound = is_sound(fd), first = false;

    pthread_mutex_lock(&files->lock);
    if (!sound && lh_doubts_error(files, id) == LH_OK) {
        lh_doubts_add(files, id, LH_ERR_UNSYNCED);
        first = true;
    } else if (failed || lh_doubts_marked(files, id)) {
        first = lh_doubts_found(files, id);
    }
    pthread_mutex_unlock(&files->lock);
    return first;
}

int lh_files_make_writable(struct lh_files *files, struct lh_disk_file *file)
{
    const struct entry *e = (const struct entry *)file;

    pthread_mutex_lock(&files->lock);
    bool writable = !file->read_only;
    pthread_mutex_unlock(&files->lock);
    if (writable)
        return LH_OK;
    bool failed, read_only;
    int fd = open_existing(files, e->id, &failed, &read_only);
    if (fd < 0)
        return lh_error_from_errno(errno);
    if (read_only) {
        int refused = lh_error_from_errno(errno);
        close(fd);
        return refused;
    }
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
        bool failed, read_only;
        int fd = open_existing(files, id, &failed, &read_only);
        if (fd < 0)
            return lh_error_from_errno(errno);
        if (is_in_doubt(files, id, fd, failed)) {
            drop_pages(fd);
            close(fd);
            return LH_ERR_UNSYNCED;
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
    lh_files_close(superfluous);
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
    lh_files_close(superfluous);
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
    int error = lh_doubts_error(files, e->id);
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
        sync_has_failed(files, e, error);
    else if (e->synced < covers)
        e->synced = covers;
    pthread_mutex_unlock(&files->lock);
}

void lh_files_enter_made(struct lh_files *files, uint64_t id, int fd)
{
    struct entry *e = entry_of(id, fd);

    pthread_mutex_lock(&files->lock);
    lh_files_note_made(files, id);
    struct entry *superfluous = enter(files, &e);
    pthread_mutex_unlock(&files->lock);
    lh_files_close(superfluous);
    (void)lh_files_put(files, &e->file, false);
}

struct entry *lh_files_forget_locked(struct lh_files *files, uint64_t id)
{
    struct entry *e = find(files, id);

    lh_doubts_forget(files, id);
    if (e == NULL)
        return NULL;
    forget(files, e);
    return e->users == 0 ? e : NULL;
}

void lh_files_forget(struct lh_files *files, uint64_t id)
{
    pthread_mutex_lock(&files->lock);
    struct entry *idle = lh_files_forget_locked(files, id);
    pthread_mutex_unlock(&files->lock);
    lh_files_close(idle);
}
