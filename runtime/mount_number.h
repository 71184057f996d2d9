/* Which mount of a file system files are on: what the kernel keeps of them in its memory, and has
 * not written, goes with the mount, though the machine is up all the time (REC-2a). */
#pragma once

#include <stdint.h>

/* Another number after each mount of that file system, under the same boot; `fd` is a file or a
 * directory on it. 0: the kernel does not say (ext4, XFS and F2FS on a block device do). */
uint64_t lh_mount_number(int fd);
