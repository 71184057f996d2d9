/* The file of a guard: per name, durably, the highest token that was admitted (TOK-1).
 *
 * A header, then an *entry* of two pages for each name. Each page is a whole record by itself:
 * name, token, a sequence number, a checksum. A new token goes to one page, and that is synced,
 * before the other page is touched. So a torn write leaves one page that is whole, and what was
 * admitted is in it. When nothing is being written both pages say the same, so a page that rots
 * later does no harm either; a copy that was lost is written again by the next one to use the name.
 * docs/formats.md has the layout.
 *
 * A token that is read may not be durable: the process that wrote it died before its sync, or
 * its sync failed. So the first one to build on a page that it did not sync itself writes and
 * syncs it again. That is safe on a disk where a write that is cut off leaves each sector with its
 * old bytes or its new ones. */
#pragma once

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#define LH_GUARD_FORMAT 1u

/* A name that this process has used, or found in the file. */
struct lh_guard_name {
    UT_hash_handle hh;
    char *name;
    bool in_file;
    uint64_t entry; /* in_file */
    bool held;      /* by a thread of this process: guard.c */

    /* This process synced `sequence`, in page `page` of the entry. Belongs to whoever holds the
     * name. */
    bool synced;
    unsigned page;
    uint64_t sequence;
};

struct lh_guard_file {
    int fd;
    char *path; /* absolute */

    /* By name; under `mutex`, as what follows. */
    struct lh_guard_name *names;
    pthread_mutex_t mutex;
    uint64_t scanned; /* entries that were looked at */
    uint64_t damaged; /* of these: nobody knows whose they are */
};

/* On failure there is nothing to close, and lh_last_error() says why. */
int lh_guard_file_open(const char *path, struct lh_guard_file *file);
void lh_guard_file_close(struct lh_guard_file *file);

/* Whether the path still leads to this file: CORRUPT if not. */
int lh_guard_file_same(const struct lh_guard_file *file);

/* Under `mutex`. NULL: there are too many. */
struct lh_guard_name *lh_guard_file_name(struct lh_guard_file *file, const char *name);

/* By whoever holds the name, in this process and among all: admits the token durably, or says
 * why not. */
int lh_guard_file_admit(struct lh_guard_file *file, struct lh_guard_name *name, uint64_t token);

/* Takes or gives back the lock on a byte of the file, which excludes all other openings of it.
 * `wait`: until it is free; else false if it is not, with errno EAGAIN. */
bool lh_guard_file_lock(const struct lh_guard_file *file, uint64_t at, bool wait);
void lh_guard_file_unlock(const struct lh_guard_file *file, uint64_t at);
