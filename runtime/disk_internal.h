/* What the files of a disk share. */
#pragma once

#include "runtime/disk.h"
#include "runtime/files.h"

#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

struct lh_disk {
    struct lh_disk_options options;
    struct lh_files *files;
    void (*done)(void *arg, struct lh_disk_io *first);
    void *done_arg;

    _Atomic uint64_t slow_until; /* CLOCK_MONOTONIC; no writes on the spot before */

    bool has_ring;
    struct io_uring ring;
    pthread_mutex_t ring_lock; /* for submitting */
    unsigned in_ring;
    bool ring_short; /* the reaper's: it was said that the kernel had no thread */
    /* The kernel orders a submission before its completion. Stated here again, since thread
     * sanitizers do not see into the ring: added to before the one, read after the other. */
    _Atomic unsigned ring_posts;
    pthread_t reaper;

    pthread_mutex_t lock;
    pthread_cond_t work;                   /* the queue is not empty, or stopping */
    pthread_cond_t idle;                   /* under_way became 0 */
    struct lh_disk_io *queue, **queue_end; /* for the threads */
    pthread_t *threads;
    unsigned thread_count;
    uint64_t under_way;       /* submitted and not yet told */
    struct lh_disk_io relief; /* in the queue: lh_files_relieve() is to be called */
    bool relief_asked;
    bool stopping;
};

/* disk_transfer.c: one way of making progress, whoever makes the system call. */

/* The bytes of `io` that are still to be moved, as at most `max` vectors. */
unsigned lh_disk_fill_iov(const struct lh_disk_io *io, struct iovec *iov, unsigned max);
unsigned lh_disk_iov_needed(const struct lh_disk_io *io);

/* Moves the next stretch of a read or write with one system call. Returns its result, or -errno. */
ssize_t lh_disk_transfer(struct lh_disk_io *io, int flags);

/* Books the result of a transfer. True: the operation is finished, io->error says how. */
bool lh_disk_advance(struct lh_disk_io *io, ssize_t result);

/* disk_ring.c */

/* With none, has_ring stays false. */
LH_MUST_USE int lh_disk_ring_start(struct lh_disk *disk, char *why, size_t why_size);
void lh_disk_ring_stop(struct lh_disk *disk);

/* A place among the operations in the ring. There are never more than the submission queue has room
 * for, and half of what the completion queue has: neither can overflow. */
bool lh_disk_ring_enter(struct lh_disk *disk);

/* Always by the ring's workers: the attempt to do it on the spot, which the kernel would otherwise
 * make first, was either made before or is known to be in vain, and would hold up the submitter. */
void lh_disk_ring_submit(struct lh_disk *disk, struct lh_disk_io *io);

/* disk.c */

/* The lh_error of what the system says, and a line for the operator that names the file and what
 * was done with it: to the core one error is much like another. */
int lh_disk_refused(const struct lh_disk_io *io, int system_errno);

/* Leaves it to the threads. */
void lh_disk_enqueue(struct lh_disk *disk, struct lh_disk_io *io);

/* Gives back what the operation has had, and puts its result together. */
void lh_disk_finish(struct lh_disk_io *io);

/* Tells of `count` finished operations, linked by `next`. */
void lh_disk_notify(struct lh_disk *disk, struct lh_disk_io *first, uint64_t count);
