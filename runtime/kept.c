#include "runtime/kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#define UNUSED_S (24 * 60 * 60)

/* Beside marks of files (doubts.c). */
#define PREFIX "kept-"

static bool is_in_memory(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static int open_directory(const char *path, bool in_memory)
{
    struct stat s;

    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return -1;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 &&
        (fstat(fd, &s) != 0 || s.st_uid != geteuid() || (in_memory && !is_in_memory(fd)))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int lh_kept_directory(bool in_memory)
{
    const char *given = getenv("RUNTIME_DIRECTORY"); /* by a service manager: below /run */
    char path[64];
    int fd = given == NULL ? -1 : open_directory(given, in_memory);

    for (size_t i = 0; fd < 0 && i < 2; i++) {
        snprintf(path, sizeof path, "%s/leasehold-%u", i == 0 ? "/run" : "/dev/shm",
            (unsigned)geteuid());
        fd = open_directory(path, in_memory);
    }
    return fd;
}

/* Its first line or lines, with single spaces between words. False: it cannot be read. */
static bool read_words(const char *path, char *words, size_t size)
{
    FILE *f = fopen(path, "re");
    size_t used = 0;
    int c;

    if (f == NULL)
        return false;
    while ((c = fgetc(f)) != EOF && used + 1 < size) {
        bool space = c == ' ' || c == '\t' || c == '\n';
        if (!space || (used > 0 && words[used - 1] != ' '))
            words[used++] = space ? ' ' : (char)c;
    }
    words[used] = 0;
    fclose(f);
    return used > 0;
}

/* What the process's time namespace adds to the clocks. What can be read is what that of its
 * children adds: it must be the same one. A kernel without such namespaces adds nothing. */
static bool clock_offsets(char *text, size_t size)
{
    char own[64] = "", of_children[64] = "";

    snprintf(text, size, "-");
    if (readlink("/proc/self/ns/time", own, sizeof own - 1) < 0)
        return errno == ENOENT;
    return readlink("/proc/self/ns/time_for_children", of_children, sizeof of_children - 1) > 0 &&
           strcmp(own, of_children) == 0 && read_words("/proc/self/timens_offsets", text, size);
}

static bool find_place(struct lh_kept *kept)
{
    char boot[48], offsets[96];
    struct stat s;

    return read_words("/proc/sys/kernel/random/boot_id", boot, sizeof boot) &&
           clock_offsets(offsets, sizeof offsets) && fstat(kept->file, &s) == 0 &&
           (size_t)snprintf(kept->place, sizeof kept->place, "%s%s %jx:%jx", boot, offsets,
               (uintmax_t)s.st_dev, (uintmax_t)s.st_ino) < sizeof kept->place;
}

static void remove_unused(int directory)
{
    int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    struct stat s;

    if (d == NULL) {
        if (copy >= 0)
            close(copy);
        return;
    }
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        int fd = openat(directory, e->d_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &s) == 0 && s.st_mtime < time(NULL) - UNUSED_S &&
            flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlinkat(directory, e->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    closedir(d);
}

/* The file, with the lock on it, is still what has the name: nobody has removed it meanwhile. */
static bool has_name(int directory, const char *file, int fd)
{
    struct stat named, opened;

    return fstatat(directory, file, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &opened) == 0 &&
           named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/* Its pages are there: a store to the memory cannot fail. */
static bool map(struct lh_kept *kept, size_t size)
{
    int code = posix_fallocate(kept->file, 0, (off_t)size);

    if (code != 0) {
        errno = code;
        return false;
    }
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, kept->file, 0);
    if (memory == MAP_FAILED)
        return false;
    kept->memory = memory;
    kept->size = size;
    return true;
}

static bool take(struct lh_kept *kept, int directory, const char *file, size_t size)
{
    kept->file = openat(directory, file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (kept->file < 0)
        return false;
    if (flock(kept->file, LOCK_EX | LOCK_NB) != 0)
        return false;
    if (!has_name(directory, file, kept->file)) {
        errno = ESTALE;
        return false;
    }
    (void)futimens(kept->file, NULL); /* stores to its memory do not do that */
    return find_place(kept) && map(kept, size);
}

bool lh_kept_open(struct lh_kept *kept, const char *name, size_t size, char *why, size_t why_size)
{
    char file[96];
    int directory = lh_kept_directory(true);

    *kept = (struct lh_kept){.file = -1};
    if (directory < 0) {
        snprintf(why, why_size, "neither /run nor /dev/shm is memory that this user can write to");
        return false;
    }
    snprintf(file, sizeof file, PREFIX "%s", name);
    bool taken = take(kept, directory, file, size);
    remove_unused(directory); /* now: what is taken is in use, however long ago it was last taken */
    if (!taken)
        snprintf(why, why_size, "%s below /run or /dev/shm: %s", file,
            errno == EWOULDBLOCK ? "another process has it" : strerror(errno));
    close(directory);
    if (!taken)
        lh_kept_close(kept);
    return taken;
}

void lh_kept_close(struct lh_kept *kept)
{
    if (kept->memory != NULL)
        munmap(kept->memory, kept->size);
    if (kept->memory != NULL && kept->file >= 0)
        (void)futimens(kept->file, NULL);
    if (kept->file >= 0)
        close(kept->file);
    *kept = (struct lh_kept){.file = -1};
}
