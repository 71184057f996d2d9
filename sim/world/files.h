/* Files of bytes, twice: as the kernel shows them to a process, and as they are on the platter. In
 * between lies what was done and not synced. Knows nothing of time, processes or operations. */
#pragma once

#include "base/prng.h"
#include "base/step.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_sim_bytes {
    uint8_t *data;
    uint64_t size, capacity;
};

struct lh_sim_change;

struct lh_sim_file {
    uint64_t number;
    uint64_t reserved; /* bytes preallocated */
    bool on_platter;   /* its directory entry is */
    bool astray;       /* the platter may differ from the cache by more than the changes below */
    bool failed;       /* a sync has, and none succeeds any more (FAIL-5) */
    bool unreported;   /* the process that runs has not heard of that: its first read is to fail */
    bool misled;      /* ... and a sync before it had said of more than there is that it is there */
    uint64_t claimed; /* up to this change a sync said so, and it is not decided yet; 0: none did */
    /* The platter is as the cache: it has no memory of its own. Most files are so most of the time;
     * what is about to change the cache parts the two first. */
    bool together;
    struct lh_sim_bytes cache, platter;
    struct lh_sim_change *first, *last; /* unsynced, in order */
};

/* What a machine's directory holds. */
struct lh_sim_files {
    struct lh_sim_file **list; /* by number, ascending */
    size_t count, capacity;
    uint64_t used;    /* bytes, with what is reserved */
    uint64_t changes; /* made in the kernel's view so far */
};

void lh_sim_files_deinit(struct lh_sim_files *files);

/* NULL: there is none. */
struct lh_sim_file *lh_sim_files_find(const struct lh_sim_files *files, uint64_t number);

/* Bytes that it takes: its own, or what is reserved for it. */
uint64_t lh_sim_file_allocated(const struct lh_sim_file *f);

/* There is none of that number yet. */
void lh_sim_files_create(struct lh_sim_files *files, uint64_t number, uint64_t reserved);

/* Room for so many bytes, or for those that it has. */
void lh_sim_files_reserve(struct lh_sim_files *files, struct lh_sim_file *f, uint64_t bytes);

/* The kernel forgets what is not on the platter. */
void lh_sim_file_drop_cache(struct lh_sim_files *files, struct lh_sim_file *f);

/* The file gets another number, and is durable under it; one that had that number is gone. */
void lh_sim_files_rename(struct lh_sim_files *files, uint64_t from, uint64_t to);

/* Durable at once; none of that number is fine too. */
void lh_sim_files_remove(struct lh_sim_files *files, uint64_t number);

/* The first `size` bytes of `data`, in the kernel's view. */
void lh_sim_files_write(struct lh_sim_files *files, struct lh_sim_file *f, uint64_t offset,
    const struct lh_buf *data, uint64_t size);
void lh_sim_files_truncate(struct lh_sim_files *files, struct lh_sim_file *f, uint64_t size);

/* Takes the changes up to number `upto` to the platter. A sync that fails (`failing` is then where
 * it draws from) takes any of them, and none counts as unsynced afterwards (FAIL-5). */
void lh_sim_file_sync(struct lh_sim_file *f, uint64_t upto, struct lh_prng *failing);

/* A sync of what there was up to change number `upto` says that it has succeeded, and has done
 * nothing. The next one decides what is on the platter. False: there is nothing to do. */
bool lh_sim_file_claim(struct lh_sim_file *f, uint64_t upto);

/* The file system is taken away and mounted again: what is read is what the platter has. */
void lh_sim_files_mount(struct lh_sim_files *files);

/* Of what was not synced any subset is kept, and torn; the rest is as if it had never been. */
void lh_sim_files_lose_power(struct lh_sim_files *files, struct lh_prng *random);

/* The byte is within the file. */
void lh_sim_file_turn_bits(struct lh_sim_file *f, uint64_t offset, uint8_t mask);

/* Never NULL. */
const uint8_t *lh_sim_file_cache(const struct lh_sim_file *f, uint64_t *size);
const uint8_t *lh_sim_file_platter(const struct lh_sim_file *f, uint64_t *size);
