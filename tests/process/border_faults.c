/* Preloaded below a server: makes its calls to the disk fail as a file says, which is read again
 * whenever it changes, so that a test turns faults on and off in a process that runs.
 *
 * The file (BORDER_FAULTS) has a line for each rule; the first that fits a call decides:
 *
 *     CALL ERRNO SKIP COUNT PATTERN
 *
 * CALL: open, create, read, write, header (a write in the first 8 KiB), sync, syncfs, truncate,
 * allocate, rename or unlink; for the small files of a master's store also read-next, write-next
 * (where the last one ended), mkdir, look (whether a file is there), lock and map. PATTERN: of
 * fnmatch(3), for the whole path. So many calls that fit are let through first (SKIP), so many fail
 * then (COUNT; -1: all). ERRNO 0: it is let through.
 * What failed is written to BORDER_FAULTS.hits, a line for each call: CALL ERRNO PATH.
 *
 * A server must be started with --no-uring: what the kernel does for a ring passes by here. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define RULES_MAX    32
#define HEADER_BYTES 8192 /* of a chunk's file: docs/formats.md */

struct rule {
    char call[16], pattern[256];
    int error;
    long skip, count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX];
static unsigned rule_count;
static struct stat seen;

/* By system calls alone: what this file stands in place of is not to be called. */
static void load(const char *name)
{
    char text[8192];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
    long size = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof text - 1);

    if (fd >= 0)
        (void)syscall(SYS_close, fd);
    rule_count = 0;
    if (size <= 0)
        return;
    text[size] = '\0';
    char *rest = text;
    for (char *line; rule_count < RULES_MAX && (line = strsep(&rest, "\n")) != NULL;) {
        struct rule *r = &rules[rule_count];
        rule_count += sscanf(line, "%15s %d %ld %ld %255s", r->call, &r->error, &r->skip, &r->count,
                          r->pattern) == 5;
    }
}

static void refresh(const char *name)
{
    struct stat now = {0};

    if (stat(name, &now) != 0)
        memset(&now, 0, sizeof now);
    if (now.st_ino == seen.st_ino && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec && now.st_size == seen.st_size)
        return;
    seen = now;
    load(name);
}

static void note(const char *control, const char *call, int error, const char *path)
{
    char name[PATH_MAX], line[PATH_MAX + 64];

    (void)snprintf(name, sizeof name, "%s.hits", control);
    int size = snprintf(line, sizeof line, "%s %d %s\n", call, error, path);
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    (void)syscall(SYS_write, fd, line, (size_t)size);
    (void)syscall(SYS_close, fd);
}

/* What the call is to fail with; 0: with nothing. */
static int verdict(const char *call, const char *path)
{
    const char *control = getenv("BORDER_FAULTS");
    int error = 0;

    if (control == NULL)
        return 0;
    pthread_mutex_lock(&lock);
    refresh(control);
    for (unsigned i = 0; i < rule_count; i++) {
        struct rule *r = &rules[i];
        if (strcmp(r->call, call) != 0 || fnmatch(r->pattern, path, 0) != 0)
            continue;
        if (r->skip > 0)
            r->skip--;
        else if (r->count != 0) {
            r->count -= r->count > 0;
            error = r->error;
        } else
            continue; /* it has failed as often as it was to: the next rule */
        break;
    }
    pthread_mutex_unlock(&lock);
    if (error != 0)
        note(control, call, error, path);
    return error;
}

static bool fails(const char *call, const char *path)
{
    int before = errno, error = verdict(call, path);

    errno = error != 0 ? error : before;
    return error != 0;
}

static bool fails_at(const char *call, int directory, const char *name)
{
    char link[64], path[PATH_MAX];

    if (name[0] == '/' || directory == AT_FDCWD)
        return fails(call, name);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0)
        return false;
    (void)snprintf(path + n, sizeof path - (size_t)n, "/%s", name);
    return fails(call, path);
}

static bool fails_on(const char *call, int fd)
{
    char link[64], path[PATH_MAX];

    if (getenv("BORDER_FAULTS") == NULL)
        return false;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0 || path[0] != '/')
        return false; /* a socket, a pipe */
    path[n] = '\0';
    return fails(call, path);
}

/* The function that stands behind ours. */
#define BEHIND(name)                                                                               \
    static __typeof__(&name) behind;                                                               \
    if (behind == NULL)                                                                            \
    behind = (__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name)

static mode_t mode_of(int flags, va_list args)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list args;                                                                              \
        BEHIND(name);                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = mode_of(flags, args);                                                        \
        va_end(args);                                                                              \
        if (fails_at((flags & O_CREAT) != 0 ? "create" : "open", AT_FDCWD, path))                  \
            return -1;                                                                             \
        return behind(path, flags, mode);                                                          \
    }
#define OPENAT(name)                                                                               \
    int name(int directory, const char *path, int flags, ...)                                      \
    {                                                                                              \
        va_list args;                                                                              \
        BEHIND(name);                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = mode_of(flags, args);                                                        \
        va_end(args);                                                                              \
        if (fails_at((flags & O_CREAT) != 0 ? "create" : "open", directory, path))                 \
            return -1;                                                                             \
        return behind(directory, path, flags, mode);                                               \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* A function whose first argument is a descriptor. */
#define ON(call, result, name, parameters, arguments)                                              \
    result name parameters                                                                         \
    {                                                                                              \
        BEHIND(name);                                                                              \
        return fails_on(call, fd) ? -1 : behind arguments;                                         \
    }
ON("read", ssize_t, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
ON("read", ssize_t, pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at))
ON("read", ssize_t, preadv, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
ON("read", ssize_t, preadv64, (int fd, const struct iovec *v, int n, off64_t at), (fd, v, n, at))
ON("read", ssize_t, preadv2, (int fd, const struct iovec *v, int n, off_t at, int f),
    (fd, v, n, at, f))
ON("read", ssize_t, preadv64v2, (int fd, const struct iovec *v, int n, off64_t at, int f),
    (fd, v, n, at, f))
#define WRITE(name, parameters, arguments)                                                         \
    ON(at < HEADER_BYTES ? "header" : "write", ssize_t, name, parameters, arguments)
WRITE(pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
WRITE(pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at))
WRITE(pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
WRITE(pwritev64, (int fd, const struct iovec *v, int n, off64_t at), (fd, v, n, at))
WRITE(pwritev2, (int fd, const struct iovec *v, int n, off_t at, int f), (fd, v, n, at, f))
WRITE(pwritev64v2, (int fd, const struct iovec *v, int n, off64_t at, int f), (fd, v, n, at, f))
ON("sync", int, fsync, (int fd), (fd))
ON("sync", int, fdatasync, (int fd), (fd))
ON("syncfs", int, syncfs, (int fd), (fd))
ON("truncate", int, ftruncate, (int fd, off_t n), (fd, n))
ON("truncate", int, ftruncate64, (int fd, off64_t n), (fd, n))
ON("allocate", int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
ON("allocate", int, fallocate64, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n))

int renameat(int from, const char *old, int to, const char *new)
{
    BEHIND(renameat);
    return fails_at("rename", from, old) ? -1 : behind(from, old, to, new);
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    BEHIND(renameat2);
    return fails_at("rename", from, old) ? -1 : behind(from, old, to, new, flags);
}

int unlinkat(int directory, const char *name, int flags)
{
    BEHIND(unlinkat);
    return fails_at("unlink", directory, name) ? -1 : behind(directory, name, flags);
}

/* An allocator of memory may call these before anything else runs: they look up no function. */
ssize_t read(int fd, void *to, size_t n)
{
    return fails_on("read-next", fd) ? -1 : syscall(SYS_read, fd, to, n);
}

ssize_t write(int fd, const void *from, size_t n)
{
    return fails_on("write-next", fd) ? -1 : syscall(SYS_write, fd, from, n);
}

/* LMDB's pages in a row, behind the header. */
ssize_t writev(int fd, const struct iovec *v, int n)
{
    BEHIND(writev);
    return fails_on("write", fd) ? -1 : behind(fd, v, n);
}

static void *map(void *where, size_t n, int allowed, int flags, int fd, off_t at)
{
    if (fd >= 0 && fails_on("map", fd))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, where, n, allowed, flags, fd, at);
}

void *mmap(void *where, size_t n, int allowed, int flags, int fd, off_t at)
{
    return map(where, n, allowed, flags, fd, at);
}

void *mmap64(void *where, size_t n, int allowed, int flags, int fd, off64_t at)
{
    return map(where, n, allowed, flags, fd, at);
}

int mkdir(const char *path, mode_t mode)
{
    BEHIND(mkdir);
    return fails("mkdir", path) ? -1 : behind(path, mode);
}

int faccessat(int directory, const char *name, int mode, int flags)
{
    BEHIND(faccessat);
    return fails_at("look", directory, name) ? -1 : behind(directory, name, mode, flags);
}

int access(const char *path, int mode)
{
    BEHIND(access);
    return fails("look", path) ? -1 : behind(path, mode);
}

int flock(int fd, int how)
{
    BEHIND(flock);
    return fails_on("lock", fd) ? -1 : behind(fd, how);
}

#define FCNTL(name)                                                                                \
    int name(int fd, int what, ...)                                                                \
    {                                                                                              \
        va_list args;                                                                              \
        BEHIND(name);                                                                              \
        va_start(args, what);                                                                      \
        void *with = va_arg(args, void *);                                                         \
        va_end(args);                                                                              \
        bool locks = what == F_SETLK || what == F_SETLKW;                                          \
        return locks && fails_on("lock", fd) ? -1 : behind(fd, what, with);                        \
    }
FCNTL(fcntl)
FCNTL(fcntl64)
