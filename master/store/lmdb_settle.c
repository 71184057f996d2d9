#include "master/store/lmdb_settle.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define METAS 2u /* pages at the file's begin */

/* Written again, since a sync that has failed may have left them as if they were on the disk. */
int lh_lmdb_settle(MDB_env *env)
{
    MDB_stat stat;
    int fd;
    int code = mdb_env_get_fd(env, &fd);

    if (code == MDB_SUCCESS)
        code = mdb_env_stat(env, &stat);
    if (code != MDB_SUCCESS)
        return code;
    size_t size = (size_t)METAS * stat.ms_psize;
    void *pages = lh_alloc(size);
    ssize_t n = pread(fd, pages, size, 0);
    if (n == (ssize_t)size)
        n = pwrite(fd, pages, size, 0);
    if (n != (ssize_t)size)
        code = n < 0 ? errno : EIO;
    else if (fdatasync(fd) != 0)
        code = errno;
    free(pages);
    return code;
}

bool lh_lmdb_follows(MDB_env *env, MDB_txn *txn)
{
    MDB_envinfo info;

    return mdb_env_info(env, &info) == MDB_SUCCESS && mdb_txn_id(txn) == info.me_last_txnid + 1;
}
