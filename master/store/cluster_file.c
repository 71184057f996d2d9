#include "master/store/cluster_file.h"

#include "base/seal.h"
#include "master/store/disk_error.h"
#include "proto/stored.pb-c.h"
#include "runtime/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEW LH_CLUSTER_FILE ".new"

bool lh_cluster_in_pair(const void *value, size_t size, char id[LH_CLUSTER_TEXT_BYTES])
{
    uint64_t hash;

    id[0] = 0;
    if (lh_seal_look(LH_CLUSTER_KEY, strlen(LH_CLUSTER_KEY), value, &size, &hash) == LH_SEAL_BROKEN)
        return false;
    LeaseholdStored__Master *record = leasehold_stored__master__unpack(NULL, size, value);
    if (record == NULL)
        return true;
    if (strlen(record->cluster_id) < LH_CLUSTER_TEXT_BYTES)
        memcpy(id, record->cluster_id, strlen(record->cluster_id) + 1);
    leasehold_stored__master__free_unpacked(record, NULL);
    return true;
}

static int refuse(const char *path, const char *id, const char *what, char *why, size_t why_size)
{
    snprintf(why, why_size,
        "%s holds the metadata of cluster %s (its file " LH_CLUSTER_FILE
        " says so), and its store data.mdb %s: put the store back, or a backup of it with "
        "--restored; for a new cluster give this master an empty directory",
        path, id, what);
    return LH_ERR_CORRUPT;
}

static int refuse_file(const char *path, char *why, size_t why_size)
{
    snprintf(why, why_size,
        "%s: cannot read the file " LH_CLUSTER_FILE ": it has no id. If the store beside it is "
        "the right one, delete this file: the next start writes it again",
        path);
    return LH_ERR_CORRUPT;
}

int lh_cluster_file_read(
    int directory, const char *path, char id[LH_CLUSTER_TEXT_BYTES], char *why, size_t why_size)
{
    char text[LH_CLUSTER_TEXT_BYTES + 1] = "";
    struct stat store;
    int fd = openat(directory, LH_CLUSTER_FILE, O_RDONLY | O_CLOEXEC);

    id[0] = 0;
    if (fd < 0)
        return errno == ENOENT
                   ? LH_OK
                   : lh_disk_refuse(path, "open the file " LH_CLUSTER_FILE, why, why_size);
    ssize_t size = read(fd, text, sizeof text - 1);
    int code = errno;
    close(fd);
    errno = code;
    if (size < 0)
        return lh_disk_refuse(path, "read the file " LH_CLUSTER_FILE, why, why_size);
    size_t length = strcspn(text, "\n");
    if (length == 0 || text[length] != '\n')
        return refuse_file(path, why, why_size);
    memcpy(id, text, length);
    id[length] = 0;
    if (fstatat(directory, "data.mdb", &store, 0) != 0)
        return errno == ENOENT ? refuse(path, id, "is missing", why, why_size)
                               : lh_disk_refuse(path, "find the file data.mdb", why, why_size);
    return store.st_size == 0 ? refuse(path, id, "is empty", why, why_size) : LH_OK;
}

int lh_cluster_file_check(
    const char *path, const char *id, const char *stored, char *why, size_t why_size)
{
    if (id[0] == 0 || strcmp(id, stored) == 0)
        return LH_OK;
    if (stored[0] == 0)
        return refuse(path, id, "has nothing of it", why, why_size);
    snprintf(why, why_size,
        "%s holds the metadata of cluster %s (its file " LH_CLUSTER_FILE
        " says so), and its store data.mdb is of cluster %s: put the right one back; if this one "
        "is meant, delete the file " LH_CLUSTER_FILE,
        path, id, stored);
    return LH_ERR_WRONG_IDENTITY;
}

/* As a whole: it is renamed into place. */
bool lh_cluster_file_write(int directory, const char *id)
{
    char text[LH_CLUSTER_TEXT_BYTES + 1];
    int size = snprintf(text, sizeof text, "%s\n", id);
    int fd = openat(directory, NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, LH_FILE_MODE);

    if (fd < 0)
        return false;
    bool ok = write(fd, text, (size_t)size) == size && fsync(fd) == 0;
    ok = close(fd) == 0 && ok;
    return ok && renameat(directory, NEW, directory, LH_CLUSTER_FILE) == 0 && fsync(directory) == 0;
}
