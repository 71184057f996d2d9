#include "master/store/begun.h"

#include "runtime/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(const char *path, const char *what, char *why, size_t why_size)
{
    snprintf(why, why_size,
        "%s has held a cluster's metadata (it has a file " LH_BEGUN_FILE ") and its store data.mdb "
        "%s: put the store back, or a copy of it with --restored; for a new cluster give this "
        "master an empty directory",
        path, what);
    return LH_ERR_CORRUPT;
}

int lh_begun_look(int directory, const char *path, bool *begun, char *why, size_t why_size)
{
    struct stat store;

    *begun = faccessat(directory, LH_BEGUN_FILE, F_OK, 0) == 0;
    if (!*begun)
        return LH_OK;
    if (fstatat(directory, "data.mdb", &store, 0) != 0)
        return errno == ENOENT ? refuse(path, "is missing", why, why_size) : LH_OK;
    return store.st_size == 0 ? refuse(path, "is empty", why, why_size) : LH_OK;
}

int lh_begun_refuse_empty(const char *path, char *why, size_t why_size)
{
    return refuse(path, "has nothing in it", why, why_size);
}

bool lh_begun_write(int directory)
{
    int fd = openat(directory, LH_BEGUN_FILE, O_WRONLY | O_CREAT | O_CLOEXEC, LH_FILE_MODE);

    if (fd < 0)
        return false;
    bool ok = fsync(fd) == 0;
    close(fd);
    return ok && fsync(directory) == 0;
}
