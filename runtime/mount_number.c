/* There is no call that asks for it: ids of mounts are those of mount points, of which each
 * namespace has its own. But a mounted file system has a folder in sysfs, which is made when it is
 * mounted and removed when it is gone, and the kernel gives no number of a folder there twice. */
#include "runtime/mount_number.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

uint64_t lh_mount_number(int fd)
{
    static const char *const types[] = {"ext4", "xfs", "f2fs"};
    char path[64], target[512];
    struct stat s;

    if (fstat(fd, &s) != 0)
        return 0;
    (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u", major(s.st_dev), minor(s.st_dev));
    ssize_t size = readlink(path, target, sizeof target - 1);
    if (size <= 0)
        return 0;
    target[size] = '\0';
    const char *slash = strrchr(target, '/'), *device = slash == NULL ? target : slash + 1;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char folder[sizeof target + 32];
        (void)snprintf(folder, sizeof folder, "/sys/fs/%s/%s", types[i], device);
        if (stat(folder, &s) == 0)
            return s.st_ino;
    }
    return 0;
}
