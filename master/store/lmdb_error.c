#include "master/store/lmdb_error.h"

#include "base/error.h"
#include "master/store/disk_error.h"

#include <errno.h>
#include <lmdb.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/statvfs.h>

/* A disk with less is full, if LMDB says no more than that a write was cut short. */
#define FULL_BYTES (UINT64_C(4) << 20)

int lh_lmdb_error(int code)
{
    switch (code) {
    case MDB_SUCCESS:
        return LH_OK;
    case MDB_MAP_FULL:
        return LH_ERR_DISK_FULL;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
        return LH_ERR_CORRUPT;
    case MDB_VERSION_MISMATCH:
        return LH_ERR_WRONG_FORMAT;
    default:
        return code > 0 ? lh_disk_error(code) : LH_ERR_IO;
    }
}

static bool disk_is_full(int directory)
{
    struct statvfs v;

    return fstatvfs(directory, &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize < FULL_BYTES;
}

bool lh_lmdb_is_shortage(int directory, int code)
{
    return code == ENOSPC || code == EDQUOT || code == EFBIG || code == ENOMEM || code == EAGAIN ||
           code == EINTR || code == MDB_MAP_FULL ||
           (code == EIO && disk_is_full(directory)); /* its word for a write that was cut short */
}

void lh_lmdb_explain(const char *path, int code, bool again, char *why, size_t why_size)
{
    bool full = code == ENOSPC || code == EDQUOT || (again && code == EIO);

    snprintf(why, why_size, "cannot write the metadata store in %s: %s%s", path,
        code == MDB_MAP_FULL ? "there is no address space for it to grow (ulimit -v)"
        : full               ? "its disk is full; free some room there"
        : code == EFBIG      ? "this process may not make the file larger (ulimit -f)"
                             : mdb_strerror(code),
        again ? ", it is tried again each second" : "");
}
