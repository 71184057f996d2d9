#include "runtime/files.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <uthash.h>

#define NAME_SIZE sizeof "0123456789abcdef.chunk"

/* That writing back has failed the kernel says only while the file's inode is in memory, which an
 * open descriptor makes sure of. So a file with changes that no sync has covered is not simply
 * closed: it is synced first, and what came of that is kept for the next sync (FAIL-5). */
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

struct idle {
    struct entry *newest, *oldest; /* by last use */
    unsigned count;
};

/* What the sync of a file said that nobody had asked for. */
struct verdict {
    uint64_t id;
    int error;
    UT_hash_handle hh;
};

struct lh_files {
    int directory;
    unsigned open_max;

    pthread_mutex_t lock;
    struct entry *open; /* by id */
    unsigned open_count;
    struct idle clean, unsynced;
    struct verdict *verdicts; /* by id */
    uint64_t made;            /* files made so far */
    uint64_t made_synced;     /* of these, how many surely have durable entries */
    bool sync_failed;
};

static void name_of(uint64_t id, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "%016" PRIx64 ".chunk", id);
}

/* Fails with errno set. */
static int open_directory(const char *dir)
{
    int parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (parent < 0)
        return -1;
    int fd = -1;
    if (mkdirat(parent, "chunks", 0755) == 0 || errno == EEXIST)
        fd = openat(parent, "chunks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && fsync(parent) != 0) {
        int e = errno;
        close(fd);
        errno = e;
        fd = -1;
    }
    int e = errno;
    close(parent);
    errno = e;
    return fd;
}

int lh_files_create(
    const char *dir, unsigned open_max, struct lh_files **out, char *why, size_t why_size)
{
    int fd = open_directory(dir);

    if (fd < 0) {
        int error = lh_error_from_errno(errno);
        snprintf(why, why_size, "cannot open %s/chunks: %s", dir, strerror(errno));
        return error;
    }
    struct lh_files *files = lh_alloc(sizeof *files);
    files->directory = fd;
    files->open_max = open_max;
    pthread_mutex_init(&files->lock, NULL);
    *out = files;
    return LH_OK;
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

void lh_files_destroy(struct lh_files *files)
{
    struct entry *e, *next;

    struct verdict *v, *after;

    HASH_ITER(hh, files->open, e, next)
    {
        LH_ASSERT(e->users == 0);
        forget(files, e);
        entry_close(e);
    }
    HASH_ITER(hh, files->verdicts, v, after)
    {
        HASH_DEL(files->verdicts, v);
        free(v);
    }
    close(files->directory);
    pthread_mutex_destroy(&files->lock);
    free(files);
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

/* openat() of a chunk's file; -1: errno. Descriptors that are only kept for later come first to one
 * that is needed now. */
static int open_name(struct lh_files *files, uint64_t id, int flags)
{
    char name[NAME_SIZE];
    int fd;

    name_of(id, name);
    do
        fd = openat(files->directory, name, flags | O_CLOEXEC, 0644);
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

int lh_files_open(struct lh_files *files, uint64_t id, bool changes, struct lh_disk_file **file)
{
    struct entry *superfluous = NULL;

    pthread_mutex_lock(&files->lock);
    struct entry *e = find(files, id);
    if (e != NULL) {
        use(files, e);
    } else {
        pthread_mutex_unlock(&files->lock);
        int fd = open_name(files, id, O_RDWR);
        if (fd < 0)
            return lh_error_from_errno(errno);
        e = entry_of(id, fd);
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

void lh_files_sync_end(struct lh_files *files, struct lh_disk_file *file, uint64_t covers)
{
    struct entry *e = (struct entry *)file;

    pthread_mutex_lock(&files->lock);
    if (e->synced < covers)
        e->synced = covers;
    pthread_mutex_unlock(&files->lock);
}

/* KEEP_SIZE: the file's length stays the end of what was written, which is what a scan after a
 * crash relies on. A file system that cannot preallocate costs speed, not correctness. */
static int preallocate(int fd, uint64_t from, uint64_t to)
{
    int r;

    if (to <= from)
        return 0;
    if (to > INT64_MAX)
        return EFBIG;
    do
        r = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from));
    while (r != 0 && errno == EINTR);
    return r == 0 || errno == EOPNOTSUPP ? 0 : errno;
}

int lh_files_reserve(const struct lh_disk_file *file, uint64_t length)
{
    struct stat s;
    int r;

    if (fstat(file->fd, &s) != 0)
        return lh_error_from_errno(errno);
    if (length > (uint64_t)s.st_size)
        /* Not from the start: file systems visit each block of the range. */
        return lh_error_from_errno(preallocate(file->fd, (uint64_t)s.st_size, length));
    /* Cutting a file to the size that it has frees what lies behind it. */
    if ((uint64_t)s.st_blocks * 512 <= (uint64_t)s.st_size + (uint64_t)s.st_blksize)
        return LH_OK;
    do
        r = ftruncate(file->fd, s.st_size);
    while (r != 0 && errno == EINTR);
    return r == 0 ? LH_OK : lh_error_from_errno(errno);
}

int lh_files_make(struct lh_files *files, uint64_t id, uint64_t length)
{
    char name[NAME_SIZE];
    int fd = open_name(files, id, O_RDWR | O_CREAT | O_EXCL);

    if (fd < 0)
        return lh_error_from_errno(errno);
    int e = preallocate(fd, 0, length);
    if (e != 0) {
        name_of(id, name);
        unlinkat(files->directory, name, 0);
        close(fd);
        return lh_error_from_errno(e);
    }

    struct entry *entry = entry_of(id, fd);
    pthread_mutex_lock(&files->lock);
    files->made++;
    struct entry *superfluous = enter(files, &entry);
    pthread_mutex_unlock(&files->lock);
    entry_close(superfluous);
    (void)lh_files_put(files, &entry->file, false);
    return LH_OK;
}

int lh_files_remove(struct lh_files *files, uint64_t id)
{
    char name[NAME_SIZE];
    struct entry *idle = NULL;

    name_of(id, name);
    if (unlinkat(files->directory, name, 0) != 0 && errno != ENOENT)
        return lh_error_from_errno(errno);
    pthread_mutex_lock(&files->lock);
    struct entry *e = find(files, id);
    (void)take_verdict(files, id);
    if (e != NULL) {
        forget(files, e);
        idle = e->users == 0 ? e : NULL;
    }
    pthread_mutex_unlock(&files->lock);
    entry_close(idle);
    if (fsync(files->directory) == 0)
        return LH_OK;
    int error = lh_files_sync_error(errno);
    pthread_mutex_lock(&files->lock);
    files->sync_failed = true; /* of what was made, too: the kernel says it once */
    pthread_mutex_unlock(&files->lock);
    return error;
}

bool lh_files_dirty(struct lh_files *files)
{
    pthread_mutex_lock(&files->lock);
    bool dirty = files->made > files->made_synced;
    pthread_mutex_unlock(&files->lock);
    return dirty;
}

int lh_files_sync_error(int system_errno)
{
    int error = lh_error_from_errno(system_errno);

    return error == LH_ERR_SHORTAGE || error == LH_OK ? LH_ERR_IO : error;
}

int lh_files_sync_directory(struct lh_files *files)
{
    pthread_mutex_lock(&files->lock);
    uint64_t made = files->made;
    bool failed = files->sync_failed;
    bool clean = made <= files->made_synced;
    pthread_mutex_unlock(&files->lock);
    if (clean)
        return LH_OK;
    if (failed)
        return LH_ERR_IO;

    int e = fsync(files->directory) == 0 ? 0 : errno;
    pthread_mutex_lock(&files->lock);
    if (e != 0)
        files->sync_failed = true;
    if (!files->sync_failed && made > files->made_synced)
        files->made_synced = made;
    failed = files->sync_failed;
    pthread_mutex_unlock(&files->lock);
    return e != 0 ? lh_files_sync_error(e) : failed ? LH_ERR_IO : LH_OK;
}

static bool id_of(const char *name, uint64_t *id)
{
    char again[NAME_SIZE];

    if (strlen(name) != NAME_SIZE - 1 || sscanf(name, "%16" SCNx64, id) != 1)
        return false;
    name_of(*id, again);
    return strcmp(name, again) == 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

int lh_files_list(const struct lh_files *files, uint64_t **ids, size_t *count)
{
    size_t capacity = 0;
    int fd = openat(files->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (d == NULL) {
        int error = lh_error_from_errno(errno);
        if (fd >= 0)
            close(fd);
        return error;
    }
    *ids = NULL;
    *count = 0;
    errno = 0;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        uint64_t id;
        if (!id_of(e->d_name, &id))
            continue;
        LH_GROW(*ids, capacity, *count + 1);
        (*ids)[(*count)++] = id;
    }
    int error = errno;
    closedir(d);
    if (error != 0) {
        free(*ids);
        *ids = NULL;
        return lh_error_from_errno(error);
    }
    if (*count > 0)
        qsort(*ids, *count, sizeof **ids, by_number);
    return LH_OK;
}

int lh_files_space(const struct lh_files *files, uint64_t *capacity, uint64_t *available)
{
    struct statvfs v;

    if (fstatvfs(files->directory, &v) != 0)
        return lh_error_from_errno(errno);
    *capacity = (uint64_t)v.f_blocks * v.f_frsize;
    *available = (uint64_t)v.f_bavail * v.f_frsize;
    return LH_OK;
}
