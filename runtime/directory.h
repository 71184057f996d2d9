/* Whose a directory is, before a server makes it its own, and who else may look into it. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Does the directory open as `fd` hold anything whose name is not in `ours`, a list that ends in
 * NULL? Then `name` gets one such name. What a fresh filesystem brings (lost+found) does not count,
 * and a directory that cannot be listed holds nothing. `fd` stays open, its offset unchanged. */
bool lh_directory_has_stranger(int fd, const char *const *ours, char *name, size_t size);

/* Keeps other processes out of the directory open as `fd` until that is closed: the lock is on the
 * directory itself, which nobody can delete as they can a file in it. IN_USE: another process has
 * it. LH_OK also where the file system has no locks on directories. */
LH_MUST_USE int lh_directory_lock(int fd);

/* Files and directories of servers are for their owner and its group. */
#define LH_DIRECTORY_MODE 0750
#define LH_FILE_MODE      0640

/* Takes from all others what they may do with the directory and with what is directly in it under
 * one of these names (as above; NULL: any), as older releases made it. What cannot be changed stays
 * as it is. */
void lh_directory_close_to_others(int fd, const char *const *ours);
