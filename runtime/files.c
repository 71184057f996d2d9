#include "runtime/files_internal.h"
#include "runtime/mount_number.h"

#include "base/alloc.h"
#include "runtime/directory.h"

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

/* A file that this process has made. */
struct fresh {
    uint64_t id;
    uint64_t number; /* as which one */
    UT_hash_handle hh;
};

static struct fresh *find_fresh(const struct lh_files *files, uint64_t id)
{
    struct fresh *f;

    HASH_FIND(hh, files->fresh, &id, sizeof id, f);
    return f;
}

static void forget_fresh(struct lh_files *files, uint64_t id)
{
    struct fresh *f = find_fresh(files, id);

    if (f == NULL)
        return;
    HASH_DEL(files->fresh, f);
    free(f);
}

void lh_files_note_made(struct lh_files *files, uint64_t id)
{
    struct fresh *f = find_fresh(files, id);

    if (f == NULL) {
        f = lh_alloc(sizeof *f);
        f->id = id;
        HASH_ADD(hh, files->fresh, id, sizeof f->id, f);
    }
    f->number = ++files->made;
}

/* Makes the directory's own name durable; an errno. */
static int sync_own_name(int directory)
{
    int parent = openat(directory, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (parent < 0)
        return errno;
    int e = fsync(parent) == 0 ? 0 : errno;
    close(parent);
    return e;
}

/* Fails with errno set. `*named`: the directory's own name is durable. It surely is if there were
 * files in it (REC-8: they can be read where nothing can be synced). */
static int open_directory(const char *dir, bool *named)
{
    int parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (parent < 0)
        return -1;
    int fd = -1;
    bool made = mkdirat(parent, "chunks", LH_DIRECTORY_MODE) == 0;
    if (made || errno == EEXIST)
        fd = openat(parent, "chunks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int e = fd < 0 ? errno : sync_own_name(fd);
    close(parent);
    *named = e == 0;
    if (fd >= 0 && made && e != 0) {
        close(fd);
        fd = -1;
    }
    if (fd >= 0)
        lh_directory_close_to_others(fd, NULL);
    errno = e;
    return fd;
}

/* FAIL-5a. What could not be written each file says itself, when it is opened. Some file systems
 * have the drive write its cache only when there was something to log: a new file is. */
static void write_what_was_left(int directory)
{
    (void)syncfs(directory);
    int fd = openat(directory, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

int lh_files_create(
    const char *dir, unsigned open_max, struct lh_files **out, char *why, size_t why_size)
{
    bool named;
    int fd = open_directory(dir, &named);

    if (fd < 0) {
        int error = lh_error_from_errno(errno);
        snprintf(why, why_size, "cannot open %s/chunks: %s", dir, strerror(errno));
        return error;
    }
    struct lh_files *files = lh_alloc(sizeof *files);
    files->directory = fd;
    files->open_max = open_max;
    files->named = named;
    pthread_mutex_init(&files->lock, NULL);
    pthread_mutex_init(&files->syncing, NULL);
    lh_doubts_init(files);
    write_what_was_left(fd);
    *out = files;
    return LH_OK;
}

uint64_t lh_files_mount_number(const struct lh_files *files)
{
    return lh_mount_number(files->directory);
}

void lh_files_destroy(struct lh_files *files)
{
    lh_files_close_all(files);
    lh_doubts_deinit(files);
    struct fresh *f, *next;
    HASH_ITER(hh, files->fresh, f, next) {
        forget_fresh(files, f->id);
    }
    close(files->directory);
    pthread_mutex_destroy(&files->syncing);
    pthread_mutex_destroy(&files->lock);
    free(files);
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
    if (length > 0)
        return LH_OK; /* it has grown meanwhile; a write may be under way, so nothing is cut */
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
    char name[LH_FILE_NAME_SIZE];
    int fd = lh_files_open_name(files, id, O_RDWR | O_CREAT | O_EXCL);

    if (fd < 0)
        return lh_error_from_errno(errno);
    int e = preallocate(fd, 0, length);
    if (e != 0) {
        lh_files_name(id, name);
        unlinkat(files->directory, name, 0);
        close(fd);
        return lh_error_from_errno(e);
    }
    /* One of that number whose sync has failed has gone on under its other name. */
    lh_files_forget(files, id);
    lh_files_enter_made(files, id, fd);
    return LH_OK;
}

/* Makes all changes of names so far durable. The kernel says once that it could not, so none of the
 * names that were new then ever surely is; those that are made later say for themselves. One at a
 * time: nobody takes a failure with him that was another one's, too, and whoever has waited may
 * find that nothing is left to do. With `syncing` held. */
static int sync_names(struct lh_files *files)
{
    struct fresh *f, *next;

    pthread_mutex_lock(&files->lock);
    uint64_t made = files->made;
    pthread_mutex_unlock(&files->lock);
    int e = fsync(files->directory) == 0 ? 0 : errno;
    if (e == 0 && !files->named)
        e = sync_own_name(files->directory);
    files->named = files->named || e == 0;
    pthread_mutex_lock(&files->lock);
    if (e != 0)
        files->in_doubt = files->made;
    HASH_ITER(hh, files->fresh, f, next) {
        if (e == 0 && f->number > files->in_doubt && f->number <= made)
            forget_fresh(files, f->id);
    }
    pthread_mutex_unlock(&files->lock);
    return e == 0 ? LH_OK : lh_files_sync_error(e);
}

static int sync_names_alone(struct lh_files *files)
{
    pthread_mutex_lock(&files->syncing);
    int error = sync_names(files);
    pthread_mutex_unlock(&files->syncing);
    return error;
}

static bool unlink_name(const struct lh_files *files, const char *name)
{
    return unlinkat(files->directory, name, 0) == 0 || errno == ENOENT;
}

int lh_files_remove(struct lh_files *files, uint64_t id)
{
    char name[LH_FILE_NAME_SIZE], failed[LH_FILE_NAME_SIZE], anew[LH_FILE_NAME_SIZE];
    bool is_new = (id & LH_NEW_FILE) != 0;

    lh_files_name(id, name);
    lh_files_failed_name(id, failed);
    lh_files_name(id | LH_NEW_FILE, anew);
    if (!unlink_name(files, anew) || (!is_new && !unlink_name(files, name)) ||
        (!is_new && !unlink_name(files, failed)))
        return lh_error_from_errno(errno);
    lh_files_forget(files, id | LH_NEW_FILE);
    pthread_mutex_lock(&files->lock);
    forget_fresh(files, id | LH_NEW_FILE);
    if (!is_new)
        forget_fresh(files, id);
    pthread_mutex_unlock(&files->lock);
    if (is_new)
        return LH_OK; /* a process removes those that it finds */
    lh_files_forget(files, id);
    return sync_names_alone(files);
}

/* The name and what is open by it change in one step: nobody who hears of a failure of the old file
 * gives the new one its mark. */
static int rename_new(struct lh_files *files, uint64_t anew)
{
    uint64_t id = anew & ~LH_NEW_FILE;
    char from[LH_FILE_NAME_SIZE], name[LH_FILE_NAME_SIZE];

    lh_files_name(anew, from);
    lh_files_name(id, name);
    pthread_mutex_lock(&files->lock);
    int e = renameat(files->directory, from, files->directory, name) == 0 ? 0 : errno;
    struct entry *idle[] = {NULL, NULL};
    if (e == 0) {
        idle[0] = lh_files_forget_locked(files, anew);
        idle[1] = lh_files_forget_locked(files, id);
    }
    pthread_mutex_unlock(&files->lock);
    lh_files_close(idle[0]);
    lh_files_close(idle[1]);
    return e == 0 ? LH_OK : lh_error_from_errno(e);
}

int lh_files_replace(struct lh_files *files, uint64_t anew)
{
    uint64_t id = anew & ~LH_NEW_FILE;
    char failed[LH_FILE_NAME_SIZE];
    int error = rename_new(files, anew);

    if (error != LH_OK)
        return error;
    error = sync_names_alone(files);
    lh_files_failed_name(id, failed);
    pthread_mutex_lock(&files->lock);
    forget_fresh(files, anew);
    forget_fresh(files, id);
    if (error != LH_OK)
        lh_doubts_add(files, id, error); /* which of the two a later process finds, nobody knows */
    else if (lh_doubts_error(files, id) == LH_OK)
        /* Now that the new one is there for good. If both are found, that one counts. */
        (void)unlink_name(files, failed);
    pthread_mutex_unlock(&files->lock);
    return error;
}

bool lh_files_dirty(struct lh_files *files, uint64_t id)
{
    pthread_mutex_lock(&files->lock);
    bool dirty = find_fresh(files, id) != NULL;
    pthread_mutex_unlock(&files->lock);
    return dirty;
}

int lh_files_sync_error(int system_errno)
{
    int error = lh_error_from_errno(system_errno);

    return error == LH_ERR_SHORTAGE || error == LH_OK ? LH_ERR_IO : error;
}

int lh_files_sync_name(struct lh_files *files, uint64_t id)
{
    if (!lh_files_dirty(files, id))
        return LH_OK;
    pthread_mutex_lock(&files->syncing);
    pthread_mutex_lock(&files->lock);
    const struct fresh *f = find_fresh(files, id);
    bool dirty = f != NULL, in_doubt = dirty && f->number <= files->in_doubt;
    pthread_mutex_unlock(&files->lock);
    int error = in_doubt ? LH_ERR_IO : dirty ? sync_names(files) : LH_OK;
    pthread_mutex_unlock(&files->syncing);
    return error;
}

static bool is_named(const char *name, uint64_t *id, uint64_t flag,
    void (*print)(uint64_t id, char text[LH_FILE_NAME_SIZE]))
{
    char again[LH_FILE_NAME_SIZE];

    if (sscanf(name, "%16" SCNx64, id) != 1)
        return false;
    *id |= flag;
    print(*id, again);
    return strcmp(name, again) == 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Sorts them, each once: of one whose sync has failed there may be two names. */
static size_t sort_numbers(uint64_t *ids, size_t count)
{
    size_t kept = 0;

    if (count > 0)
        qsort(ids, count, sizeof *ids, by_number);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || ids[kept - 1] != ids[i])
            ids[kept++] = ids[i];
    return kept;
}

int lh_files_list(
    const struct lh_files *files, uint64_t **ids, size_t *count, struct lh_files_aside *aside)
{
    struct stat s;
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
    *aside = (struct lh_files_aside){0};
    errno = 0;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        uint64_t id;
        /* It has not taken the other one's place, and will not. */
        if (is_named(e->d_name, &id, LH_NEW_FILE, lh_files_name))
            (void)unlinkat(files->directory, e->d_name, 0);
        bool failed = is_named(e->d_name, &id, 0, lh_files_failed_name);
        if (failed && fstatat(files->directory, e->d_name, &s, 0) == 0) {
            aside->count++;
            aside->bytes += (uint64_t)s.st_blocks * 512;
        }
        errno = 0;
        if (!failed && !is_named(e->d_name, &id, 0, lh_files_name))
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
    *count = sort_numbers(*ids, *count);
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
