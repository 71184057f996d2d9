#include "master/store/format_file.h"

#include "master/store/disk_error.h"
#include "runtime/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define DIRECTORY_FORMAT 1

/* Writes FORMAT as a whole and durably: it is renamed into place. */
static int write_format(int directory, const char *path, char *why, size_t why_size)
{
    char text[64];
    int size = snprintf(text, sizeof text, "leasehold-master %d\n", DIRECTORY_FORMAT);
    int fd =
        openat(directory, "FORMAT.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, LH_FILE_MODE);

    if (fd < 0)
        return lh_disk_refuse(path, "create the file FORMAT", why, why_size);
    errno = ENOSPC; /* a write that was cut short says nothing */
    bool ok = write(fd, text, (size_t)size) == size && fsync(fd) == 0;
    int code = errno;
    ok = close(fd) == 0 && ok;
    if (ok && renameat(directory, "FORMAT.new", directory, "FORMAT") == 0 && fsync(directory) == 0)
        return LH_OK;
    if (!ok)
        errno = code;
    return lh_disk_refuse(path, "write the file FORMAT", why, why_size);
}

int lh_format_file_check(int directory, const char *path, char *why, size_t why_size)
{
    char text[64] = "";
    int format = 0;
    int fd = openat(directory, "FORMAT", O_RDONLY | O_CLOEXEC);

    if (fd < 0 && errno != ENOENT)
        return lh_disk_refuse(path, "open the file FORMAT", why, why_size);
    if (fd < 0)
        return write_format(directory, path, why, why_size);
    ssize_t size = read(fd, text, sizeof text - 1);
    int code = errno;
    close(fd);
    if (size < 0) {
        errno = code;
        return lh_disk_refuse(path, "read the file FORMAT", why, why_size);
    }
    if (sscanf(text, "leasehold-master %d", &format) != 1 || format < 1) {
        snprintf(why, why_size, "%s: the file FORMAT is not a master's", path);
        return LH_ERR_WRONG_FORMAT;
    }
    if (format > DIRECTORY_FORMAT) {
        snprintf(why, why_size,
            "%s is in format %d, written by a newer release; this one reads up to %d: start the "
            "newer release",
            path, format, DIRECTORY_FORMAT);
        return LH_ERR_WRONG_FORMAT;
    }
    return LH_OK;
}
