/* Chunk files: LH_FX_DISK carried out over <dir>/chunks/<16 hex digits>.chunk.
 *
 * What may be waited for cheaply is done in the calling thread (a small buffered write costs less
 * than handing it over, and io_uring hands every buffered write on ext4 to a worker); the rest goes
 * through io_uring, or through a few threads where the kernel refuses io_uring. Operations that are
 * several system calls (create, truncate, remove, the first sync after a creation) always go to the
 * threads.
 *
 * Open files are cached. An operation keeps its file open; beyond the cache's limit the least
 * recently used idle file is closed. One with changes that no sync has covered is synced first, by
 * the threads if there is time: closed, it could lose the word that writing back has failed. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/step.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_disk;
struct lh_disk_file;

struct lh_disk_options {
    bool no_uring;           /* use threads even if the kernel has io_uring */
    unsigned threads;        /* for blocking operations; 0: 4 */
    unsigned open_files_max; /* 0: 1024. Exceeded while more are in use at once. */
    size_t inline_write_max; /* writes up to this many bytes are done in the calling thread;
                                0: 256 KiB; 1 in effect switches that off */
    size_t inline_read_max;  /* the same for reads of cached pages; 0: 1 MiB */
};

/* One operation. The submitter owns the memory; it stays put until the operation is complete. */
struct lh_disk_io {
    uint64_t ticket; /* the submitter's */
    uint64_t file;
    enum lh_disk_op op;
    uint64_t offset;
    uint64_t length;
    struct lh_buf data; /* WRITE: in; released on completion, but left as it was by a SHORTAGE;
                           READ: out, may be shorter than `length` */
    int error;          /* out */
    bool for_reply;     /* the submitter's */

    /* private */
    struct lh_disk *disk;
    struct lh_disk_file *open;
    struct lh_disk_io *next;
    void *iov;
    unsigned iov_count, iov_done;
    uint64_t done;
    uint64_t covers; /* of a sync: the changes before it */
    uint8_t *into;
};

/* Opens (and creates, with its parents' exception) <dir>/chunks. `why` gets a sentence on failure.
 * Errors: what lh_error_from_errno() says; SYSTEM: there is no thread to be had. `options` may be
 * NULL. */
LH_MUST_USE int lh_disk_create(const char *dir, const struct lh_disk_options *options,
    struct lh_disk **disk, char *why, size_t why_size);

/* Waits for what is under way, completes it and frees the rest. NULL is allowed. */
void lh_disk_destroy(struct lh_disk *disk);

/* Who is told of completions that lh_disk_submit() did not return at once: `done` is called from
 * the disk's threads with all operations that completed together, linked by `next` in their order.
 * Set it before the first submit; NULL afterwards only when nothing is under way. */
void lh_disk_on_done(
    struct lh_disk *disk, void (*done)(void *arg, struct lh_disk_io *first), void *arg);

/* Begins `io`. True: it is complete already, `io->error` and `io->data` are set and `done` will not
 * be called. Any thread. A creation that fails leaves no file behind. Errors:
 *   ALREADY_EXISTS  create
 *   NOT_FOUND       all but create and remove
 *   SHORTAGE        no descriptor or no memory: not done (of a write perhaps a part). Never what a
 *                   sync returned that was tried: that is IO (FAIL-5)
 *   DISK_FULL, IO, SYSTEM */
LH_MUST_USE bool lh_disk_submit(struct lh_disk *disk, struct lh_disk_io *io);

/* Returns when nothing is under way any more. */
void lh_disk_drain(struct lh_disk *disk);

/* In what the kernel keeps files' bytes goes with their mount: another number after each; 0: the
 * kernel does not say (mount_number.h). */
uint64_t lh_disk_mount_number(const struct lh_disk *disk);

/* The ids of all chunk files, ascending, in a malloc'd array; and how many files were set aside
 * because they could not be written whole, with the bytes that they take (FAIL-5). Other names in
 * the directory are ignored. */
LH_MUST_USE int lh_disk_list(const struct lh_disk *disk, uint64_t **ids, size_t *count,
    uint64_t *aside, uint64_t *aside_bytes);

/* Bytes that the file system has, and has free for us. */
LH_MUST_USE int lh_disk_space(const struct lh_disk *disk, uint64_t *capacity, uint64_t *available);

/* Whether io_uring is in use. */
bool lh_disk_has_uring(const struct lh_disk *disk);
