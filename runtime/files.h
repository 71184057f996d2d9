/* The chunk files of one directory, by number: names, open descriptors, and when the directory
 * itself must be synced. All functions may be called from any thread. */
#pragma once

#include "base/error.h"
#include "base/step.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_files;

/* An open file, kept open from lh_files_open() until lh_files_put(). */
struct lh_disk_file {
    int fd;
    bool read_only; /* opened where nothing can be opened for writing (REC-8) */
};

/* Opens <dir>/chunks, making it if need be. What processes before this one left in the operating
 * system's hands is on the disk then (FAIL-5a): this takes as long as writing what the whole file
 * system has in memory. Whoever opens a file first of which something could not be written, or of
 * which a sync has failed before, gets LH_ERR_UNSYNCED; from then on it is read from the disk. */
LH_MUST_USE int lh_files_create(
    const char *dir, unsigned open_max, struct lh_files **files, char *why, size_t why_size);

/* No file may be open. */
void lh_files_destroy(struct lh_files *files);

/* NOT_FOUND, SHORTAGE, UNSYNCED, or what open(2) says. When descriptors are short, those of idle
 * files are given up first. `changes`: it is opened to be written to or cut. */
LH_MUST_USE int lh_files_open(
    struct lh_files *files, uint64_t id, bool changes, struct lh_disk_file **file);

/* Before an open file is written to, cut or given room. What is refused is tried again each time.
 * Errors: what lh_error_from_errno() says. */
LH_MUST_USE int lh_files_make_writable(struct lh_files *files, struct lh_disk_file *file);

/* Is it kept open? Then opening it again needs nothing from the disk. */
bool lh_files_is_open(struct lh_files *files, uint64_t id);

/* The same `changes` as before. True: more files than there should be are kept open for changes
 * that no sync has covered; lh_files_relieve() is to be called soon, from a thread that may wait.
 * Without it whoever opens the next file has to. */
bool lh_files_put(struct lh_files *files, struct lh_disk_file *file, bool changes);

/* Syncs one of these. True: there are still too many. */
bool lh_files_relieve(struct lh_files *files);

/* Around a sync of an open file. What an earlier sync of our own said comes first: then this one
 * is not to be tried. `error` is how it ended. A file whose sync failed gets another name at
 * once, or a mark elsewhere, so that a process that dies now leaves none that looks sound to the
 * next one (FAIL-5). It can be read on. */
LH_MUST_USE int lh_files_sync_begin(
    struct lh_files *files, const struct lh_disk_file *file, uint64_t *covers);
void lh_files_sync_end(
    struct lh_files *files, struct lh_disk_file *file, uint64_t covers, int error);

/* A new file with `length` bytes preallocated. On failure there is none.
 *   ALREADY_EXISTS, DISK_FULL, IO, SYSTEM */
LH_MUST_USE int lh_files_make(struct lh_files *files, uint64_t id, uint64_t length);

/* Room for the first `length` bytes of an open file, also while it is written to. 0: none behind
 * its end; a write that is under way meanwhile may be lost. */
LH_MUST_USE int lh_files_reserve(const struct lh_disk_file *file, uint64_t length);

/* Unlinks, also the new file that was made for it, and makes that durable. No such file is
 * success. */
LH_MUST_USE int lh_files_remove(struct lh_files *files, uint64_t id);

/* The new file (LH_NEW_FILE), which was synced, takes the other one's place, durably. */
LH_MUST_USE int lh_files_replace(struct lh_files *files, uint64_t anew);

/* Whether this process has made the file, and its directory entry may not be durable. */
bool lh_files_dirty(struct lh_files *files, uint64_t id);

/* The error of a sync that was tried and said `system_errno`: never SHORTAGE, for it may have
 * failed on its way, and trying it again would prove nothing (FAIL-5). */
int lh_files_sync_error(int system_errno);

/* Makes the file's name durable. After a failure it keeps failing for files whose names were new
 * then, since the kernel reports an error once and then calls the pages clean (FAIL-5); not for
 * those whose names were durable before, nor for those that are made, or take another's place,
 * later. */
LH_MUST_USE int lh_files_sync_name(struct lh_files *files, uint64_t id);

/* Files whose sync failed, and what they take of the disk. */
struct lh_files_aside {
    uint64_t count, bytes;
};

/* Another number after each mount of the file system that they are on: mount_number.h. */
uint64_t lh_files_mount_number(const struct lh_files *files);
/* The files there are, by number, and how many were set aside. The caller frees `*ids`. */
LH_MUST_USE int lh_files_list(
    const struct lh_files *files, uint64_t **ids, size_t *count, struct lh_files_aside *aside);
LH_MUST_USE int lh_files_space(
    const struct lh_files *files, uint64_t *capacity, uint64_t *available);
