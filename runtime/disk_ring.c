/* Operations that the kernel does in an io_uring, and the thread that hears of their end. */
#include "runtime/disk_internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/log.h"
#include "runtime/thread.h"

#include <errno.h>
#include <time.h>

#define RING_ENTRIES  256
#define REAP_MAX      64
#define RING_PAUSE_NS 1000000

bool lh_disk_ring_enter(struct lh_disk *disk)
{
    pthread_mutex_lock(&disk->ring_lock);
    bool room = disk->has_ring && disk->in_ring < RING_ENTRIES;
    if (room)
        disk->in_ring++;
    pthread_mutex_unlock(&disk->ring_lock);
    return room;
}

static void ring_leave(struct lh_disk *disk, unsigned count)
{
    pthread_mutex_lock(&disk->ring_lock);
    disk->in_ring -= count;
    pthread_mutex_unlock(&disk->ring_lock);
}

void lh_disk_ring_submit(struct lh_disk *disk, struct lh_disk_io *io)
{
    int r;

    if (io->op != LH_DISK_SYNC) {
        unsigned needed = lh_disk_iov_needed(io);
        if (io->iov == NULL)
            io->iov = lh_realloc_array(NULL, needed, sizeof(struct iovec));
        io->iov_count = lh_disk_fill_iov(io, io->iov, needed);
    }
    pthread_mutex_lock(&disk->ring_lock);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&disk->ring);
    LH_ASSERT(sqe != NULL);
    uint64_t at = io->offset + io->done;
    switch (io->op) {
    case LH_DISK_READ:
        io_uring_prep_readv(sqe, io->open->fd, io->iov, io->iov_count, at);
        break;
    case LH_DISK_WRITE:
        io_uring_prep_writev(sqe, io->open->fd, io->iov, io->iov_count, at);
        break;
    case LH_DISK_SYNC:
        io_uring_prep_fsync(sqe, io->open->fd, IORING_FSYNC_DATASYNC);
        break;
    default:
        LH_UNREACHABLE();
    }
    io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
    io_uring_sqe_set_data(sqe, io);
    atomic_fetch_add_explicit(&disk->ring_posts, 1, memory_order_release);
    while ((r = io_uring_submit(&disk->ring)) != 1) {
        /* What was put into the ring cannot be taken out again. The kernel is short of memory for a
         * moment, or has to hand out completions first: then the reaper has something to do. */
        LH_ASSERT(r == -EINTR || r == -EAGAIN || r == -EBUSY || r == -ENOMEM);
        if (r != -EINTR)
            (void)nanosleep(&(struct timespec){.tv_nsec = RING_PAUSE_NS}, NULL);
    }
    pthread_mutex_unlock(&disk->ring_lock);
}

/* True: the operation is finished. */
static bool ring_completed(struct lh_disk_io *io, int result)
{
    if (io->op == LH_DISK_SYNC) {
        if (result < 0)
            (void)lh_disk_refused(io, -result);
        io->error = result < 0 ? lh_files_sync_error(-result) : LH_OK;
        return true;
    }
    return lh_disk_advance(io, result);
}

/* The kernel cancels what it has no thread of its own for: nothing was tried, so a sync that comes
 * back has lost no error (FAIL-5). Threads are had already. */
static void do_without_ring(struct lh_disk *disk, struct lh_disk_io *io)
{
    if (!disk->ring_short)
        lh_log(LH_WARN, "disk",
            "the kernel cannot start a thread for io_uring, and others do its "
            "work; " LH_THREAD_LIMITS);
    disk->ring_short = true;
    lh_disk_enqueue(disk, io);
}

static void *reaper_main(void *arg)
{
    struct lh_disk *disk = arg;
    bool stop = false;

    while (!stop) {
        struct io_uring_cqe *cqes[REAP_MAX];
        struct lh_disk_io *first = NULL, **last = &first;
        struct lh_disk_io *again = NULL;
        uint64_t count = 0;
        unsigned cancelled = 0;

        int r = io_uring_wait_cqe(&disk->ring, &cqes[0]);
        if (r == -EINTR || r == -EAGAIN)
            continue;
        LH_ASSERT(r == 0);
        unsigned n = io_uring_peek_batch_cqe(&disk->ring, cqes, REAP_MAX);
        (void)atomic_load_explicit(&disk->ring_posts, memory_order_acquire);
        for (unsigned i = 0; i < n; i++) {
            struct lh_disk_io *io = io_uring_cqe_get_data(cqes[i]);
            if (io == NULL) {
                stop = true;
                continue;
            }
            if (cqes[i]->res == -ECANCELED) {
                do_without_ring(disk, io);
                cancelled++;
            } else if (ring_completed(io, cqes[i]->res)) {
                lh_disk_finish(io);
                io->next = NULL;
                *last = io;
                last = &io->next;
                count++;
            } else {
                io->next = again;
                again = io;
            }
        }
        io_uring_cq_advance(&disk->ring, n);
        while (again != NULL) {
            struct lh_disk_io *io = again;
            again = io->next;
            io->next = NULL;
            lh_disk_ring_submit(disk, io);
        }
        ring_leave(disk, (unsigned)count + cancelled);
        lh_disk_notify(disk, first, count);
    }
    return NULL;
}

int lh_disk_ring_start(struct lh_disk *disk, char *why, size_t why_size)
{
    struct io_uring_params p = {0};

    if (disk->options.no_uring || io_uring_queue_init_params(RING_ENTRIES, &disk->ring, &p) != 0)
        return LH_OK;
    /* Without NODROP a full completion queue would lose completions. */
    if ((p.features & IORING_FEAT_NODROP) == 0) {
        io_uring_queue_exit(&disk->ring);
        return LH_OK;
    }
    int error = lh_thread_start(&disk->reaper, reaper_main, disk, why, why_size);
    disk->has_ring = error == LH_OK;
    if (error != LH_OK)
        io_uring_queue_exit(&disk->ring);
    return error;
}

void lh_disk_ring_stop(struct lh_disk *disk)
{
    pthread_mutex_lock(&disk->ring_lock);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&disk->ring);
    LH_ASSERT(sqe != NULL); /* nothing is under way */
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, NULL);
    io_uring_submit(&disk->ring);
    pthread_mutex_unlock(&disk->ring_lock);
    pthread_join(disk->reaper, NULL);
    io_uring_queue_exit(&disk->ring);
}
