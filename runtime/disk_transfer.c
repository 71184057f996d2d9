/* Reads and writes, a stretch at a time. */
#include "runtime/disk_internal.h"

#include "base/alloc.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define FEW_IOV 16

unsigned lh_disk_fill_iov(const struct lh_disk_io *io, struct iovec *iov, unsigned max)
{
    if (io->op == LH_DISK_READ) {
        iov[0] = (struct iovec){io->into + io->done, (size_t)(io->length - io->done)};
        return 1;
    }
    const struct lh_slice *s = lh_buf_slices_const(&io->data);
    uint64_t skip = io->done;
    unsigned n = 0;
    for (uint32_t i = 0; i < io->data.count && n < max; i++) {
        if (skip >= s[i].size) {
            skip -= s[i].size;
            continue;
        }
        /* pwritev only reads; its type lacks the const. */
        iov[n++] =
            (struct iovec){(void *)(uintptr_t)(s[i].data + skip), (size_t)(s[i].size - skip)};
        skip = 0;
    }
    return n;
}

unsigned lh_disk_iov_needed(const struct lh_disk_io *io)
{
    if (io->op == LH_DISK_READ)
        return 1;
    return io->data.count < IOV_MAX ? io->data.count : IOV_MAX;
}

ssize_t lh_disk_transfer(struct lh_disk_io *io, int flags)
{
    struct iovec few[FEW_IOV];
    unsigned needed = lh_disk_iov_needed(io);
    struct iovec *iov = needed <= FEW_IOV ? few : lh_realloc_array(NULL, needed, sizeof *iov);
    unsigned n = lh_disk_fill_iov(io, iov, needed);
    off_t at = (off_t)(io->offset + io->done);
    ssize_t r;

    do {
        r = io->op == LH_DISK_READ ? preadv2(io->open->fd, iov, (int)n, at, flags)
                                   : pwritev2(io->open->fd, iov, (int)n, at, flags);
    } while (r < 0 && errno == EINTR);
    if (r < 0)
        r = -errno;
    if (iov != few)
        free(iov);
    return r;
}

bool lh_disk_advance(struct lh_disk_io *io, ssize_t result)
{
    if (result == -EINTR)
        return false;
    if (result < 0) {
        io->error = lh_disk_refused(io, (int)-result);
        return true;
    }
    if (result == 0) { /* a read: the end of the file; a write of nothing does not get here */
        if (io->op == LH_DISK_WRITE)
            io->error = LH_ERR_IO;
        return true;
    }
    io->done += (uint64_t)result;
    return io->done >= io->length;
}
