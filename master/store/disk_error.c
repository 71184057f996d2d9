#include "master/store/disk_error.h"

#include "base/error.h"

#include <errno.h>
#include <string.h>

int lh_disk_error(int code)
{
    int error = lh_error_from_errno(code);

    return error == LH_OK || error == LH_ERR_DISK_FULL || error == LH_ERR_SHORTAGE ? error
                                                                                   : LH_ERR_IO;
}

int lh_disk_refuse(const char *path, const char *what, char *why, size_t why_size)
{
    int code = errno;

    return lh_why(
        lh_disk_error(code), why, why_size, "%s: cannot %s: %s", path, what, strerror(code));
}

int lh_disk_not_created(const char *path, int code, char *why, size_t why_size)
{
    int error = lh_error_from_errno(code);

    if (error != LH_ERR_NOT_FOUND && error != LH_ERR_PERMISSION)
        error = lh_disk_error(code);
    return lh_why(
        error, why, why_size, "%s: cannot create the directory: %s", path, strerror(code));
}
