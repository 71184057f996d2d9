/* What outlives a process, and lasts for as long as the kernel's memory does: files below /run (in
 * RUNTIME_DIRECTORY, where a service manager gives it), or in the shared memory's file system. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define LH_KEPT_PLACE 192u

/* The directory of this user's, made if there is none. Only one that belongs to this user counts:
 * others may write to where it lies. `in_memory`: it must be on a file system that is in the
 * kernel's memory alone. A container's may lie on a disk. -1: there is none. */
int lh_kept_directory(bool in_memory);

/* Memory that later processes of this machine find as this one left it, however it ended. */
struct lh_kept {
    void *memory;
    size_t size;
    int file;
    char place[LH_KEPT_PLACE]; /* the running boot, what this process's clock adds to the machine's,
                                  and the file, so that a copy of it is another place */
};

/* Of that name: all-zero the first time. One process has it at a time. False: there is none, and
 * `why` says why. Others that nobody has taken for a day, and nobody has, are removed. */
bool lh_kept_open(struct lh_kept *kept, const char *name, size_t size, char *why, size_t why_size);
void lh_kept_close(struct lh_kept *kept);
