/* Where each operation is done: on the spot, in the ring, or by the threads.
 *
 * All three share one way of making progress (disk_transfer.c); the ring is in disk_ring.c. */
#include "runtime/disk.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/disk_internal.h"
#include "runtime/log.h"
#include "runtime/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SLOW_WRITE_NS UINT64_C(10000000)
#define SLOW_PAUSE_NS UINT64_C(1000000000)

/* ---- errors ---- */

int lh_disk_refused(const struct lh_disk_io *io, int system_errno)
{
    static const char *const operations[LH_DISK_OPS] = {
        [LH_DISK_CREATE] = "making",
        [LH_DISK_REMOVE] = "removing",
        [LH_DISK_READ] = "reading",
        [LH_DISK_WRITE] = "writing",
        [LH_DISK_SYNC] = "syncing",
        [LH_DISK_TRUNCATE] = "truncating",
        [LH_DISK_RESERVE] = "reserving room for",
    };
    int error = lh_error_from_errno(system_errno);

    if (error != LH_OK && error != LH_ERR_SHORTAGE && error != LH_ERR_NOT_FOUND)
        lh_log(LH_WARN, "disk", "%s %016" PRIx64 ".chunk: %s", operations[io->op], io->file,
            strerrordesc_np(system_errno));
    return error;
}

/* ---- beginning and finishing ---- */

static bool changes(const struct lh_disk_io *io)
{
    return io->op == LH_DISK_WRITE || io->op == LH_DISK_TRUNCATE;
}

/* Opens the file and, for a read, makes room for what the file can give.
 * False: finished already. */
static bool prepare(struct lh_disk_io *io)
{
    struct lh_disk *disk = io->disk;

    if (io->offset > INT64_MAX || io->length > INT64_MAX - io->offset) {
        io->error = LH_ERR_INVALID_ARGUMENT;
        return false;
    }
    io->error = lh_files_open(disk->files, io->file, changes(io), &io->open);
    if (io->error != LH_OK)
        return false;
    if (changes(io) || io->op == LH_DISK_RESERVE)
        io->error = lh_files_make_writable(disk->files, io->open);
    if (io->error != LH_OK)
        return false;
    if (io->op == LH_DISK_SYNC) {
        io->error = lh_files_sync_begin(disk->files, io->open, &io->covers);
        return io->error == LH_OK;
    }
    if (io->op == LH_DISK_READ) {
        struct stat s;
        if (fstat(io->open->fd, &s) != 0) {
            io->error = lh_error_from_errno(errno);
            return false;
        }
        /* Removed by somebody else: what is still open here is gone with this process. */
        if (s.st_nlink == 0) {
            io->error = LH_ERR_NOT_FOUND;
            return false;
        }
        uint64_t size = (uint64_t)s.st_size;
        uint64_t there = size > io->offset ? size - io->offset : 0;
        if (io->length > there)
            io->length = there;
        if (io->length == 0)
            return false;
        if (!lh_buf_try_alloc((size_t)io->length, &io->data, &io->into)) {
            io->error = LH_ERR_SHORTAGE;
            return false;
        }
    }
    return true;
}

/* This thread is a worker that tells of an operation's end, and looks at the queue next. */
static _Thread_local bool looks_next;

/* For the threads. What follows from a worker's operation needs no other one to be woken. */
void lh_disk_enqueue(struct lh_disk *disk, struct lh_disk_io *io)
{
    pthread_mutex_lock(&disk->lock);
    *disk->queue_end = io;
    disk->queue_end = &io->next;
    if (!looks_next)
        pthread_cond_signal(&disk->work);
    pthread_mutex_unlock(&disk->lock);
    looks_next = false; /* it takes one */
}

/* Has the threads sync files that are kept open for want of it. */
static void ask_relief(struct lh_disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    bool first = !disk->relief_asked;
    disk->relief_asked = true;
    disk->under_way += first;
    pthread_mutex_unlock(&disk->lock);
    if (first)
        lh_disk_enqueue(disk, &disk->relief);
}

void lh_disk_finish(struct lh_disk_io *io)
{
    if (io->open != NULL) {
        if (io->op == LH_DISK_SYNC)
            lh_files_sync_end(io->disk->files, io->open, io->covers, io->error);
        if (lh_files_put(io->disk->files, io->open, changes(io)))
            ask_relief(io->disk);
    }
    io->open = NULL;
    free(io->iov);
    io->iov = NULL;
    bool given_back = io->op == LH_DISK_WRITE && io->error == LH_ERR_SHORTAGE;
    if (given_back) {
        /* it is asked again */
    } else if (io->op != LH_DISK_READ || io->error != LH_OK) {
        lh_buf_clear(&io->data);
    } else if (io->done < io->data.size) {
        struct lh_buf whole = lh_buf_take(&io->data);
        lh_buf_append(&io->data, &whole, 0, (size_t)io->done);
        lh_buf_clear(&whole);
    }
}

void lh_disk_notify(struct lh_disk *disk, struct lh_disk_io *first, uint64_t count)
{
    if (count == 0)
        return;
    disk->done(disk->done_arg, first);
    pthread_mutex_lock(&disk->lock);
    disk->under_way -= count;
    if (disk->under_way == 0)
        pthread_cond_broadcast(&disk->idle);
    pthread_mutex_unlock(&disk->lock);
}

/* ---- the threads ---- */

static int sync_file(struct lh_disk_io *io)
{
    /* The name first: once the file is synced, so is everything that its sync promises. */
    int error = lh_files_sync_name(io->disk->files, io->file);
    if (error != LH_OK)
        return error;
    if (fdatasync(io->open->fd) == 0)
        return LH_OK;
    int system_errno = errno;
    (void)lh_disk_refused(io, system_errno);
    return lh_files_sync_error(system_errno);
}

static int truncate_file(struct lh_disk_io *io)
{
    int r;

    do
        r = ftruncate(io->open->fd, (off_t)io->length);
    while (r != 0 && errno == EINTR);
    return r == 0 ? LH_OK : lh_disk_refused(io, errno);
}

static void do_blocking(struct lh_disk_io *io)
{
    switch (io->op) {
    case LH_DISK_CREATE:
        io->error = lh_files_make(io->disk->files, io->file, io->length);
        return;
    case LH_DISK_REMOVE:
        io->error = lh_files_remove(io->disk->files, io->file);
        return;
    case LH_DISK_REPLACE:
        io->error = lh_files_replace(io->disk->files, io->file);
        return;
    case LH_DISK_READ:
        if (io->open == NULL && (!prepare(io) || io->length == 0))
            return;
        /* fall through */
    case LH_DISK_WRITE: /* prepared by submit */
        while (!lh_disk_advance(io, lh_disk_transfer(io, 0)))
            ;
        return;
    case LH_DISK_SYNC:
        io->error = sync_file(io);
        return;
    case LH_DISK_TRUNCATE:
        io->error = truncate_file(io);
        return;
    case LH_DISK_RESERVE:
        io->error = lh_files_reserve(io->open, io->length);
        return;
    case LH_DISK_OPS:
        break;
    }
    LH_UNREACHABLE();
}

/* One file, then whoever waits has his turn. */
static void relieve(struct lh_disk *disk)
{
    if (lh_files_relieve(disk->files)) {
        lh_disk_enqueue(disk, &disk->relief);
        return;
    }
    pthread_mutex_lock(&disk->lock);
    disk->relief_asked = false;
    disk->under_way--;
    if (disk->under_way == 0)
        pthread_cond_broadcast(&disk->idle);
    pthread_mutex_unlock(&disk->lock);
}

static void *worker_main(void *arg)
{
    struct lh_disk *disk = arg;

    pthread_mutex_lock(&disk->lock);
    for (;;) {
        while (disk->queue == NULL && !disk->stopping)
            pthread_cond_wait(&disk->work, &disk->lock);
        struct lh_disk_io *io = disk->queue;
        if (io == NULL)
            break;
        disk->queue = io->next;
        if (disk->queue == NULL)
            disk->queue_end = &disk->queue;
        pthread_mutex_unlock(&disk->lock);
        io->next = NULL;
        if (io == &disk->relief) {
            relieve(disk);
            pthread_mutex_lock(&disk->lock);
            continue;
        }
        do_blocking(io);
        lh_disk_finish(io);
        looks_next = true;
        lh_disk_notify(disk, io, 1);
        looks_next = false;
        pthread_mutex_lock(&disk->lock);
    }
    pthread_mutex_unlock(&disk->lock);
    return NULL;
}

/* ---- submitting ---- */

static uint64_t monotonic_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A buffered write is a copy of a few microseconds, until the kernel makes its writers wait for the
 * disk. A submitter that had to wait once does not try again for a while: it is one of the threads
 * that the network is served by. */
static bool write_on_the_spot(struct lh_disk *disk, struct lh_disk_io *io)
{
    uint64_t begin = monotonic_ns();

    if (io->length > disk->options.inline_write_max ||
        begin < atomic_load_explicit(&disk->slow_until, memory_order_relaxed))
        return false;
    while (!lh_disk_advance(io, lh_disk_transfer(io, 0)))
        ;
    uint64_t end = monotonic_ns();
    if (end - begin > SLOW_WRITE_NS)
        atomic_store_explicit(&disk->slow_until, end + SLOW_PAUSE_NS, memory_order_relaxed);
    return true;
}

static bool on_the_spot(struct lh_disk *disk, struct lh_disk_io *io)
{
    if (io->op == LH_DISK_WRITE)
        return write_on_the_spot(disk, io);
    if (io->length > disk->options.inline_read_max)
        return false;
    for (;;) {
        ssize_t r = lh_disk_transfer(io, RWF_NOWAIT);
        if (r == -EAGAIN || r == -EOPNOTSUPP)
            return false; /* not cached */
        if (lh_disk_advance(io, r))
            return true;
    }
}

bool lh_disk_submit(struct lh_disk *disk, struct lh_disk_io *io)
{
    bool threads = false;

    io->disk = disk;
    io->open = NULL;
    io->next = NULL;
    io->iov = NULL;
    io->done = 0;
    io->error = LH_OK;
    if (io->op == LH_DISK_WRITE)
        io->length = io->data.size;
    switch (io->op) {
    case LH_DISK_CREATE:
    case LH_DISK_REMOVE:
    case LH_DISK_REPLACE:
        threads = true;
        break;
    case LH_DISK_READ:
        /* Opening a file may wait for the disk, too. */
        threads = !lh_files_is_open(disk->files, io->file);
        if (threads)
            break;
        /* fall through */
    case LH_DISK_WRITE:
        if (!prepare(io) || io->length == 0 || on_the_spot(disk, io)) {
            lh_disk_finish(io);
            return true;
        }
        break;
    case LH_DISK_OPS:
        LH_UNREACHABLE();
    case LH_DISK_TRUNCATE:
    case LH_DISK_RESERVE:
        threads = true;
        /* fall through */
    case LH_DISK_SYNC:
        if (!prepare(io)) {
            lh_disk_finish(io);
            return true;
        }
        threads = threads || lh_files_dirty(disk->files, io->file);
        break;
    }

    pthread_mutex_lock(&disk->lock);
    LH_ASSERT(disk->done != NULL);
    disk->under_way++;
    pthread_mutex_unlock(&disk->lock);
    if (!threads && lh_disk_ring_enter(disk))
        lh_disk_ring_submit(disk, io);
    else
        lh_disk_enqueue(disk, io);
    return false;
}

/* ---- beginning and end ---- */

int lh_disk_create(const char *dir, const struct lh_disk_options *options, struct lh_disk **out,
    char *why, size_t why_size)
{
    struct lh_disk *disk = lh_alloc(sizeof *disk);
    struct lh_disk_options *o = &disk->options;

    if (options != NULL)
        *o = *options;
    if (o->threads == 0)
        o->threads = 4;
    if (o->open_files_max == 0)
        o->open_files_max = 1024;
    if (o->inline_write_max == 0)
        o->inline_write_max = 256u << 10;
    if (o->inline_read_max == 0)
        o->inline_read_max = 1u << 20;

    int error = lh_files_create(dir, o->open_files_max, &disk->files, why, why_size);
    if (error != LH_OK) {
        free(disk);
        return error;
    }
    disk->queue_end = &disk->queue;
    pthread_mutex_init(&disk->lock, NULL);
    pthread_mutex_init(&disk->ring_lock, NULL);
    pthread_cond_init(&disk->work, NULL);
    pthread_cond_init(&disk->idle, NULL);
    disk->threads = lh_alloc_array(o->threads, sizeof *disk->threads);
    error = lh_disk_ring_start(disk, why, why_size);
    while (error == LH_OK && disk->thread_count < o->threads) {
        error =
            lh_thread_start(&disk->threads[disk->thread_count], worker_main, disk, why, why_size);
        disk->thread_count += error == LH_OK;
    }
    if (error != LH_OK) {
        lh_disk_destroy(disk);
        return error;
    }
    *out = disk;
    return LH_OK;
}

void lh_disk_on_done(
    struct lh_disk *disk, void (*done)(void *arg, struct lh_disk_io *first), void *arg)
{
    pthread_mutex_lock(&disk->lock);
    LH_ASSERT(disk->under_way == 0);
    disk->done = done;
    disk->done_arg = arg;
    pthread_mutex_unlock(&disk->lock);
}

void lh_disk_drain(struct lh_disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    while (disk->under_way > 0)
        pthread_cond_wait(&disk->idle, &disk->lock);
    pthread_mutex_unlock(&disk->lock);
}

void lh_disk_destroy(struct lh_disk *disk)
{
    if (disk == NULL)
        return;
    lh_disk_drain(disk);
    pthread_mutex_lock(&disk->lock);
    disk->stopping = true;
    pthread_cond_broadcast(&disk->work);
    pthread_mutex_unlock(&disk->lock);
    for (unsigned i = 0; i < disk->thread_count; i++)
        pthread_join(disk->threads[i], NULL);
    if (disk->has_ring)
        lh_disk_ring_stop(disk);
    lh_files_destroy(disk->files);
    pthread_cond_destroy(&disk->idle);
    pthread_cond_destroy(&disk->work);
    pthread_mutex_destroy(&disk->ring_lock);
    pthread_mutex_destroy(&disk->lock);
    free(disk->threads);
    free(disk);
}

int lh_disk_list(const struct lh_disk *disk, uint64_t **ids, size_t *count, uint64_t *aside,
    uint64_t *aside_bytes)
{
    struct lh_files_aside found = {0};
    int error = lh_files_list(disk->files, ids, count, &found);

    *aside = found.count;
    *aside_bytes = found.bytes;
    return error;
}

uint64_t lh_disk_mount_number(const struct lh_disk *disk)
{
    return lh_files_mount_number(disk->files);
}

int lh_disk_space(const struct lh_disk *disk, uint64_t *capacity, uint64_t *available)
{
    return lh_files_space(disk->files, capacity, available);
}

bool lh_disk_has_uring(const struct lh_disk *disk)
{
    return disk->has_ring;
}
