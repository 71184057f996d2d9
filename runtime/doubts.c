/* Files of which nobody knows what the disk has: a sync has failed, and what the kernel shows of
 * them from its memory may be there or not (FAIL-5).
 *
 * That outlives the process, so that no later one takes what it reads from memory for what is on
 * the disk. The file gets another name, and a mark is made below /run, or in the shared memory's
 * file system: a file system may take no change any more, or lose this one. The mark lasts until
 * the machine goes down. */
#include "base/alloc.h"
#include "runtime/files_internal.h"
#include "runtime/kept.h"
#include "runtime/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <uthash.h>

struct doubt {
    uint64_t id;
    int error;   /* of the sync, or UNSYNCED */
    bool marked; /* below /run */
    bool said;   /* this process knows */
    UT_hash_handle hh;
};

static struct doubt *find(const struct lh_files *files, uint64_t id)
{
    struct doubt *d;

    HASH_FIND(hh, files->doubts, &id, sizeof id, d);
    return d;
}

static struct doubt *find_or_add(struct lh_files *files, uint64_t id)
{
    struct doubt *d = find(files, id);

    if (d != NULL)
        return d;
    d = lh_alloc(sizeof *d);
    d->id = id;
    d->error = LH_ERR_UNSYNCED;
    HASH_ADD(hh, files->doubts, id, sizeof d->id, d);
    return d;
}

static void mark_name(const struct lh_files *files, uint64_t id, char *name, size_t size)
{
    snprintf(name, size, "%s%016" PRIx64, files->mark_prefix, id);
}

static void read_marks(struct lh_files *files)
{
    size_t prefix = strlen(files->mark_prefix);
    int fd = openat(files->marks, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    uint64_t id;

    if (d == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        if (strncmp(e->d_name, files->mark_prefix, prefix) == 0 &&
            sscanf(e->d_name + prefix, "%16" SCNx64, &id) == 1)
            find_or_add(files, id)->marked = true;
    closedir(d);
}

void lh_doubts_init(struct lh_files *files)
{
    struct statvfs system;
    struct stat s;

    files->marks = -1;
    if (fstat(files->directory, &s) != 0 || fstatvfs(files->directory, &system) != 0)
        return;
    /* Its own id, where it has one: a device may have another number when it is mounted again. */
    snprintf(files->mark_prefix, sizeof files->mark_prefix, "%" PRIx64 "-%" PRIx64 "-",
        system.f_fsid != 0 ? (uint64_t)system.f_fsid : (uint64_t)s.st_dev, (uint64_t)s.st_ino);
    files->marks = lh_kept_directory(false);
    if (files->marks >= 0)
        read_marks(files);
}

void lh_doubts_deinit(struct lh_files *files)
{
    struct doubt *d, *next;

    HASH_ITER(hh, files->doubts, d, next) {
        HASH_DEL(files->doubts, d);
        free(d);
    }
    if (files->marks >= 0)
        close(files->marks);
}

static bool make_mark(const struct lh_files *files, uint64_t id)
{
    char name[96];

    mark_name(files, id, name, sizeof name);
    int fd = files->marks < 0
                 ? -1
                 : openat(files->marks, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

void lh_doubts_add(struct lh_files *files, uint64_t id, int error)
{
    char name[LH_FILE_NAME_SIZE], failed[LH_FILE_NAME_SIZE];
    struct doubt *d;

    d = find_or_add(files, id);
    d->error = error;
    d->said = true;
    if ((id & LH_NEW_FILE) != 0)
        return; /* no later process finds it */
    lh_files_name(id, name);
    lh_files_failed_name(id, failed);
    int why = renameat(files->directory, name, files->directory, failed) == 0 ? 0 : errno;
    if (why == ENOENT)
        return;
    d->marked = make_mark(files, id);
    if (!d->marked && why != 0)
        lh_log(LH_ERROR, "disk",
            "%s: a sync of it has failed, and that can be noted nowhere (%s): do not start this "
            "server again before its file system was mounted anew",
            name, strerror(why));
}

bool lh_doubts_found(struct lh_files *files, uint64_t id)
{
    struct doubt *d = find_or_add(files, id);
    bool first = !d->said;

    d->said = true;
    return first;
}

int lh_doubts_error(const struct lh_files *files, uint64_t id)
{
    const struct doubt *d = find(files, id);

    return d == NULL ? LH_OK : d->error;
}

bool lh_doubts_marked(const struct lh_files *files, uint64_t id)
{
    const struct doubt *d = find(files, id);

    return d != NULL && d->marked;
}

void lh_doubts_forget(struct lh_files *files, uint64_t id)
{
    struct doubt *d = find(files, id);
    char name[96];

    if (d == NULL)
        return;
    if (d->marked) {
        mark_name(files, id, name, sizeof name);
        (void)unlinkat(files->marks, name, 0);
    }
    HASH_DEL(files->doubts, d);
    free(d);
}
