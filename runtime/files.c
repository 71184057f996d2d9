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

struct entry {
    struct lh_disk_file file; /* first: what callers hold */
    uint64_t id;
    unsigned users;
    bool removed;                /* not in the table any more: closed by the last user */
    struct entry *newer, *older; /* among the idle ones */
    UT_hash_handle hh;
};

struct lh_files {
    int directory;
    unsigned open_max;

    pthread_mutex_t lock;
    struct entry *open; /* by id */
    unsigned open_count;
    struct entry *newest, *oldest; /* idle, by last use */
    uint64_t made;                 /* files made so far */
    uint64_t made_synced;          /* of these, how many surely have durable entries */
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

static void idle_remove(struct lh_files *files, struct entry *e)
{
    if (e->newer != NULL)
        e->newer->older = e->older;
    else
        files->newest = e->older;
    if (e->older != NULL)
        e->older->newer = e->newer;
    else
        files->oldest = e->newer;
    e->newer = e->older = NULL;
}

static void idle_add(struct lh_files *files, struct entry *e)
{
    e->older = files->newest;
    if (files->newest != NULL)
        files->newest->newer = e;
    else
        files->oldest = e;
    files->newest = e;
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

    HASH_ITER(hh, files->open, e, next)
    {
        LH_ASSERT(e->users == 0);
        forget(files, e);
        entry_close(e);
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

/* Closes the file that has been idle for longest. False: there is none. */
static bool close_idle(struct lh_files *files)
{
    pthread_mutex_lock(&files->lock);
    struct entry *e = files->oldest;
    if (e != NULL)
        forget(files, e);
    pthread_mutex_unlock(&files->lock);
    entry_close(e);
    return e != NULL;
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
        fd < 0 && (errno == EINTR || ((errno == EMFILE || errno == ENFILE) && close_idle(files))));
    return fd;
}

static void use(struct lh_files *files, struct entry *e)
{
    if (e->users++ == 0)
        idle_remove(files, e);
}

/* Enters a descriptor and takes it into use. If another thread was faster, its entry is used and
 * ours is returned to be closed; else one that had to make room, or NULL. */
static struct entry *enter(struct lh_files *files, struct entry **mine)
{
    struct entry *other = find(files, (*mine)->id);
    struct entry *superfluous = NULL;

    if (other != NULL) {
        superfluous = *mine;
        *mine = other;
        use(files, other);
        return superfluous;
    }
    if (files->open_count >= files->open_max && files->oldest != NULL) {
        superfluous = files->oldest;
        forget(files, superfluous);
    }
    struct entry *e = *mine;
    HASH_ADD(hh, files->open, id, sizeof e->id, e);
    files->open_count++;
    e->users = 1;
    return superfluous;
}

int lh_files_open(struct lh_files *files, uint64_t id, struct lh_disk_file **file)
{
    pthread_mutex_lock(&files->lock);
    struct entry *e = find(files, id);
    if (e != NULL)
        use(files, e);
    pthread_mutex_unlock(&files->lock);
    if (e != NULL) {
        *file = &e->file;
        return LH_OK;
    }

    int fd = open_name(files, id, O_RDWR);
    if (fd < 0)
        return lh_error_from_errno(errno);
    e = lh_alloc(sizeof *e);
    e->file.fd = fd;
    e->id = id;
    pthread_mutex_lock(&files->lock);
    struct entry *superfluous = enter(files, &e);
    pthread_mutex_unlock(&files->lock);
    entry_close(superfluous);
    *file = &e->file;
    return LH_OK;
}

void lh_files_put(struct lh_files *files, struct lh_disk_file *file)
{
    struct entry *e = (struct entry *)file;
    struct entry *superfluous = NULL;

    pthread_mutex_lock(&files->lock);
    if (--e->users == 0) {
        if (e->removed) {
            superfluous = e;
        } else {
            idle_add(files, e);
            if (files->open_count > files->open_max) {
                superfluous = files->oldest;
                forget(files, superfluous);
            }
        }
    }
    pthread_mutex_unlock(&files->lock);
    entry_close(superfluous);
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

    struct entry *entry = lh_alloc(sizeof *entry);
    entry->file.fd = fd;
    entry->id = id;
    pthread_mutex_lock(&files->lock);
    files->made++;
    struct entry *superfluous = enter(files, &entry);
    pthread_mutex_unlock(&files->lock);
    entry_close(superfluous);
    lh_files_put(files, &entry->file);
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
