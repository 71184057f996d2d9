/* Chunk files through io_uring and through threads: every test runs both ways, and with everything
 * done on the spot or nothing. */
#include "base/alloc.h"
#include "runtime/disk.h"
#include "runtime/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- what a kernel does that could not write a file's pages back ----
 *
 * It says so to the next sync of the file, once; and to nobody if the inode left memory before, for
 * which the last descriptor must be closed. */

static struct {
    pthread_mutex_t lock;
    ino_t failed; /* 0: none */
    unsigned syncs;
} kernel = {.lock = PTHREAD_MUTEX_INITIALIZER};

static ino_t inode_of(int fd)
{
    struct stat s;

    return fstat(fd, &s) == 0 ? s.st_ino : 0;
}

/* Of the process, of a chunk's file: with `inode`, or of any if that is 0. */
static unsigned descriptors_of_chunks(ino_t inode)
{
    unsigned count = 0;
    DIR *d = opendir("/proc/self/fd");

    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char target[PATH_MAX] = "";
        if (readlinkat(dirfd(d), e->d_name, target, sizeof target - 1) > 0 &&
            strstr(target, ".chunk") != NULL &&
            (inode == 0 || inode_of((int)strtol(e->d_name, NULL, 10)) == inode))
            count++;
    }
    closedir(d); /* by no close() of ours */
    return count;
}

int close(int fd)
{
    pthread_mutex_lock(&kernel.lock);
    ino_t inode = kernel.failed != 0 ? inode_of(fd) : 0;
    int r = (int)syscall(SYS_close, fd);
    if (inode != 0 && inode == kernel.failed && descriptors_of_chunks(inode) == 0)
        kernel.failed = 0;
    pthread_mutex_unlock(&kernel.lock);
    return r;
}

int fdatasync(int fd)
{
    pthread_mutex_lock(&kernel.lock);
    bool failed = kernel.failed != 0 && inode_of(fd) == kernel.failed;
    if (failed)
        kernel.failed = 0;
    kernel.syncs++;
    pthread_mutex_unlock(&kernel.lock);
    if (!failed)
        return (int)syscall(SYS_fdatasync, fd);
    errno = EIO;
    return -1;
}

static atomic_bool directory_syncs_fail;

int fsync(int fd)
{
    struct stat s;

    if (!directory_syncs_fail || fstat(fd, &s) != 0 || !S_ISDIR(s.st_mode))
        return (int)syscall(SYS_fsync, fd);
    errno = EIO;
    return -1;
}

int sync_file_range(int fd, off_t offset, off_t length, unsigned flags)
{
    (void)offset;
    (void)length;
    assert_int_equal(
        flags, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    pthread_mutex_lock(&kernel.lock);
    bool failed = kernel.failed != 0 && inode_of(fd) == kernel.failed;
    if (failed)
        kernel.failed = 0;
    pthread_mutex_unlock(&kernel.lock);
    errno = EIO;
    return failed ? -1 : 0;
}

/* ---- A file that a write reaches just before it is cut ---- */

static atomic_bool is_written_to;

int ftruncate(int fd, off_t length)
{
    if (is_written_to && pwrite(fd, "late", 4, length) != 4)
        return -1;
    return (int)syscall(SYS_ftruncate, fd, length);
}

/* ---- A kernel that takes and gives little at a time ---- */

static atomic_bool is_mean;
static atomic_uint asked;

/* In place of libc's. True: `errno` says why nothing is moved now; else `first` is what may be. */
static bool is_refused(const struct iovec *iov, int flags, struct iovec *first)
{
    unsigned turn = atomic_fetch_add(&asked, 1) % 4;

    *first = *iov;
    if (first->iov_len > 333)
        first->iov_len = 333;
    errno = turn == 1 ? EINTR : EAGAIN;
    return turn == 1 || (turn == 2 && (flags & RWF_NOWAIT) != 0);
}

ssize_t preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
    struct iovec first;

    if (!is_mean)
        return syscall(SYS_preadv2, fd, iov, count, offset, 0, flags);
    return is_refused(iov, flags, &first) ? -1
                                          : syscall(SYS_preadv2, fd, &first, 1, offset, 0, flags);
}

ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
    struct iovec first;

    if (!is_mean)
        return syscall(SYS_pwritev2, fd, iov, count, offset, 0, flags);
    return is_refused(iov, flags, &first) ? -1
                                          : syscall(SYS_pwritev2, fd, &first, 1, offset, 0, flags);
}

struct bed {
    char dir[64];
    struct lh_disk *disk;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int notified;
};

static void on_done(void *arg, struct lh_disk_io *first)
{
    struct bed *bed = arg;

    pthread_mutex_lock(&bed->lock);
    while (first != NULL) {
        bed->notified++;
        first = first->next;
    }
    pthread_cond_broadcast(&bed->changed);
    pthread_mutex_unlock(&bed->lock);
}

static void open_disk(struct bed *bed, const struct lh_disk_options *options)
{
    char why[200];

    if (lh_disk_create(bed->dir, options, &bed->disk, why, sizeof why) != LH_OK)
        fail_msg("%s", why);
    lh_disk_on_done(bed->disk, on_done, bed);
}

static const struct lh_disk_options ways[] = {
    {.no_uring = false},
    {.no_uring = true},
    {.no_uring = false, .inline_write_max = 1, .inline_read_max = 1, .open_files_max = 2},
    {.no_uring = true,
        .inline_write_max = 1,
        .inline_read_max = 1,
        .open_files_max = 2,
        .threads = 1},
};

#define WAYS (sizeof ways / sizeof ways[0])

static void bed_begin(struct bed *bed, const struct lh_disk_options *options)
{
    *bed = (struct bed){.dir = "/tmp/disk_test.XXXXXX"};
    pthread_mutex_init(&bed->lock, NULL);
    pthread_cond_init(&bed->changed, NULL);
    assert_non_null(mkdtemp(bed->dir));
    open_disk(bed, options);
}

static void bed_end(struct bed *bed)
{
    char command[128];

    lh_disk_destroy(bed->disk);
    snprintf(command, sizeof command, "rm -rf %s", bed->dir);
    assert_int_equal(system(command), 0);
}

/* Does one operation and waits for it. `data` in and out. */
static int run(struct bed *bed, enum lh_disk_op op, uint64_t file, uint64_t offset, uint64_t length,
    struct lh_buf *data)
{
    struct lh_disk_io io = {.op = op, .file = file, .offset = offset, .length = length};

    if (op == LH_DISK_WRITE)
        io.data = lh_buf_take(data);
    pthread_mutex_lock(&bed->lock);
    int notified = bed->notified;
    pthread_mutex_unlock(&bed->lock);
    if (!lh_disk_submit(bed->disk, &io)) {
        pthread_mutex_lock(&bed->lock);
        while (bed->notified == notified)
            pthread_cond_wait(&bed->changed, &bed->lock);
        pthread_mutex_unlock(&bed->lock);
    }
    if (op == LH_DISK_READ && io.error == LH_OK)
        *data = io.data;
    else
        assert_int_equal(io.data.size, 0);
    return io.error;
}

static struct lh_buf pattern(size_t size, unsigned seed)
{
    uint8_t *to;
    struct lh_buf b = lh_buf_alloc(size, &to);

    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)((i + seed) * 2654435761u >> 11);
    return b;
}

static void expect_bytes(
    struct bed *bed, uint64_t file, uint64_t offset, uint64_t ask, const struct lh_buf *expected)
{
    struct lh_buf got = {0};

    assert_int_equal(run(bed, LH_DISK_READ, file, offset, ask, &got), LH_OK);
    assert_int_equal(got.size, expected->size);
    assert_int_equal(
        lh_buf_crc32c(&got, 0, got.size, 0), lh_buf_crc32c(expected, 0, expected->size, 0));
    lh_buf_clear(&got);
}

static void path_of(const struct bed *bed, uint64_t file, char *to, size_t size)
{
    snprintf(to, size, "%s/chunks/%016" PRIx64 ".chunk%s", bed->dir, file & ~LH_NEW_FILE,
        (file & LH_NEW_FILE) != 0 ? ".new" : "");
}

static void what_was_written_is_read_back(const struct lh_disk_options *options)
{
    static const size_t sizes[] = {1, 100, 4096, 300000, 3000000, 9000000};
    struct bed bed;
    struct stat s;
    char path[128];

    bed_begin(&bed, options);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 0xabc, 0, 16 << 20, NULL), LH_OK);
    path_of(&bed, 0xabc, path, sizeof path);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_size, 0); /* preallocated beyond the end of the file */
    assert_true(s.st_blocks >= (16 << 20) / 512);
    uint64_t at = 0;
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct lh_buf data = pattern(sizes[i], i), copy = lh_buf_ref(&data);
        assert_int_equal(run(&bed, LH_DISK_WRITE, 0xabc, at, 0, &data), LH_OK);
        expect_bytes(&bed, 0xabc, at, sizes[i], &copy);
        expect_bytes(&bed, 0xabc, at, sizes[i] + 1000, &copy); /* short at the end */
        lh_buf_clear(&copy);
        at += sizes[i];
    }
    assert_int_equal(run(&bed, LH_DISK_SYNC, 0xabc, 0, 0, NULL), LH_OK);
    assert_int_equal(run(&bed, LH_DISK_SYNC, 0xabc, 0, 0, NULL), LH_OK);

    struct lh_buf none = {0};
    expect_bytes(&bed, 0xabc, at, 100, &none);
    expect_bytes(&bed, 0xabc, at + 5, 100, &none);
    expect_bytes(&bed, 0xabc, 0, 0, &none);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 0xabc, 0, 0, &none), LH_OK);

    struct lh_buf first = pattern(1, 0);
    assert_int_equal(run(&bed, LH_DISK_TRUNCATE, 0xabc, 0, 1, NULL), LH_OK);
    expect_bytes(&bed, 0xabc, 0, 100, &first);
    lh_buf_clear(&first);
    bed_end(&bed);
}

/* More slices than one system call takes. */
static void a_write_of_very_many_slices_arrives_whole(const struct lh_disk_options *options)
{
    struct bed bed;
    struct lh_buf many = {0};

    bed_begin(&bed, options);
    struct lh_buf whole = pattern(3 * IOV_MAX * 7, 5);
    for (size_t i = 0; i < 3 * IOV_MAX; i++)
        lh_buf_append(&many, &whole, i * 7, 7);
    assert_int_equal(many.count, 3 * IOV_MAX);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 1, 10, 0, &many), LH_OK);
    expect_bytes(&bed, 1, 10, whole.size, &whole);
    lh_buf_clear(&whole);
    bed_end(&bed);
}

static void what_is_there_or_not_is_said(const struct lh_disk_options *options)
{
    struct bed bed;
    struct lh_buf data = pattern(10, 1), got;
    char path[128];

    bed_begin(&bed, options);
    assert_int_equal(run(&bed, LH_DISK_READ, 5, 0, 10, &got), LH_ERR_NOT_FOUND);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 5, 0, 0, &data), LH_ERR_NOT_FOUND);
    assert_int_equal(run(&bed, LH_DISK_SYNC, 5, 0, 0, NULL), LH_ERR_NOT_FOUND);
    assert_int_equal(run(&bed, LH_DISK_TRUNCATE, 5, 0, 0, NULL), LH_ERR_NOT_FOUND);
    assert_int_equal(run(&bed, LH_DISK_REMOVE, 5, 0, 0, NULL), LH_OK);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 5, 0, 0, NULL), LH_OK);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 5, 0, 0, NULL), LH_ERR_ALREADY_EXISTS);
    data = pattern(10, 1);
    assert_int_equal(
        run(&bed, LH_DISK_WRITE, 5, UINT64_MAX - 3, 0, &data), LH_ERR_INVALID_ARGUMENT);
    assert_int_equal(run(&bed, LH_DISK_REMOVE, 5, 0, 0, NULL), LH_OK);
    path_of(&bed, 5, path, sizeof path);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(run(&bed, LH_DISK_READ, 5, 0, 10, &got), LH_ERR_NOT_FOUND);
    bed_end(&bed);
}

/* Far more files than may stay open, and a removed one that comes back is a new one. */
static void files_are_listed_and_survive_being_closed(const struct lh_disk_options *options)
{
    struct bed bed;
    uint64_t *ids, capacity, available;
    size_t count;
    uint64_t aside, aside_bytes;
    char path[128];

    bed_begin(&bed, options);
    for (uint64_t f = 50; f > 0; f--) {
        struct lh_buf data = pattern(100, (unsigned)f);
        assert_int_equal(run(&bed, LH_DISK_CREATE, f << 40, 0, 4096, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_WRITE, f << 40, 0, 0, &data), LH_OK);
    }
    assert_int_equal(run(&bed, LH_DISK_REMOVE, UINT64_C(7) << 40, 0, 0, NULL), LH_OK);
    snprintf(path, sizeof path, "%s/chunks/ABCDEF0000000000.chunk", bed.dir);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    snprintf(path, sizeof path, "%s/chunks/notes", bed.dir);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(lh_disk_list(bed.disk, &ids, &count, &aside, &aside_bytes), LH_OK);
    assert_int_equal(count, 49);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ids[i], (i < 6 ? i + 1 : i + 2) << 40);
    free(ids);

    lh_disk_destroy(bed.disk);
    open_disk(&bed, options);
    struct lh_buf data = pattern(100, 9), none = {0};
    expect_bytes(&bed, UINT64_C(9) << 40, 0, 200, &data);
    lh_buf_clear(&data);
    assert_int_equal(run(&bed, LH_DISK_REMOVE, UINT64_C(9) << 40, 0, 0, NULL), LH_OK);
    assert_int_equal(run(&bed, LH_DISK_CREATE, UINT64_C(9) << 40, 0, 0, NULL), LH_OK);
    expect_bytes(&bed, UINT64_C(9) << 40, 0, 200, &none);

    assert_int_equal(lh_disk_space(bed.disk, &capacity, &available), LH_OK);
    assert_true(available > 0 && available <= capacity);
    bed_end(&bed);
}

/* Everything at once, more than the ring has places, then all of it is there. */
static void many_operations_may_be_under_way(const struct lh_disk_options *options)
{
    enum { N = 1000 };
    struct bed bed;
    struct lh_disk_io *ios = lh_alloc_array(N, sizeof *ios);
    int notified = 0;

    bed_begin(&bed, options);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
    pthread_mutex_lock(&bed.lock);
    bed.notified = 0;
    pthread_mutex_unlock(&bed.lock);
    for (int i = 0; i < N; i++) {
        ios[i] = (struct lh_disk_io){.op = i % 10 == 9 ? LH_DISK_SYNC : LH_DISK_WRITE,
            .file = 1,
            .offset = (uint64_t)i * 1000};
        if (ios[i].op == LH_DISK_WRITE)
            ios[i].data = pattern(1000, (unsigned)i);
        notified += !lh_disk_submit(bed.disk, &ios[i]);
    }
    lh_disk_drain(bed.disk);
    pthread_mutex_lock(&bed.lock);
    assert_int_equal(bed.notified, notified);
    pthread_mutex_unlock(&bed.lock);
    for (int i = 0; i < N; i++) {
        assert_int_equal(ios[i].error, LH_OK);
        if (ios[i].op == LH_DISK_SYNC)
            continue;
        struct lh_buf data = pattern(1000, (unsigned)i);
        expect_bytes(&bed, 1, (uint64_t)i * 1000, 1000, &data);
        lh_buf_clear(&data);
    }
    free(ios);
    bed_end(&bed);
}

/* A small tmpfs; skipped where mounting is not allowed. */
static void a_full_disk_refuses_and_leaves_nothing_behind(const struct lh_disk_options *options)
{
    struct bed bed;
    uint64_t *ids;
    size_t count;
    uint64_t aside, aside_bytes;

    bed_begin(&bed, options);
    lh_disk_destroy(bed.disk);
    if (mount("disk_test", bed.dir, "tmpfs", 0, "size=2m") != 0) {
        print_message("not allowed to mount: %s\n", strerror(errno));
        open_disk(&bed, options);
        bed_end(&bed);
        skip();
    }
    open_disk(&bed, options);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 1 << 20, NULL), LH_OK);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 2, 0, 8 << 20, NULL), LH_ERR_DISK_FULL);
    assert_int_equal(lh_disk_list(bed.disk, &ids, &count, &aside, &aside_bytes), LH_OK);
    assert_int_equal(count, 1);
    free(ids);
    struct lh_buf data = pattern(3 << 20, 1);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 1, 0, 0, &data), LH_ERR_DISK_FULL);
    data = pattern(1000, 1);
    struct lh_buf copy = lh_buf_ref(&data);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 1, 0, 0, &data), LH_OK);
    expect_bytes(&bed, 1, 0, 1000, &copy);
    lh_buf_clear(&copy);
    lh_disk_destroy(bed.disk);
    assert_int_equal(umount(bed.dir), 0);
    open_disk(&bed, options);
    bed_end(&bed);
}

/* REC-8. Also where a read came first, and its descriptor is for reading alone. */
static void what_cannot_be_written_is_read(const struct lh_disk_options *options)
{
    struct bed bed;

    bed_begin(&bed, options);
    lh_disk_destroy(bed.disk);
    if (mount("disk_test", bed.dir, "tmpfs", 0, "size=2m") != 0) {
        print_message("not allowed to mount: %s\n", strerror(errno));
        open_disk(&bed, options);
        bed_end(&bed);
        skip();
    }
    open_disk(&bed, options);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
    struct lh_buf data = pattern(1000, 1), more = pattern(1000, 2);
    struct lh_buf copy = lh_buf_ref(&data), other = lh_buf_ref(&more);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 1, 0, 0, &data), LH_OK);
    lh_disk_destroy(bed.disk);

    assert_int_equal(mount("disk_test", bed.dir, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
    open_disk(&bed, options);
    expect_bytes(&bed, 1, 0, 1000, &copy);
    data = pattern(1000, 2);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 1, 0, 0, &data), LH_ERR_PERMISSION);
    assert_int_equal(run(&bed, LH_DISK_TRUNCATE, 1, 0, 10, NULL), LH_ERR_PERMISSION);
    assert_int_equal(run(&bed, LH_DISK_RESERVE, 1, 0, 1 << 20, NULL), LH_ERR_PERMISSION);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 2, 0, 0, NULL), LH_ERR_PERMISSION);
    expect_bytes(&bed, 1, 0, 1000, &copy);

    assert_int_equal(mount("disk_test", bed.dir, "tmpfs", MS_REMOUNT, NULL), 0);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 1, 0, 0, &more), LH_OK);
    assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_OK);
    expect_bytes(&bed, 1, 0, 1000, &other);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 2, 0, 0, NULL), LH_OK);
    lh_buf_clear(&copy);
    lh_buf_clear(&other);
    lh_disk_destroy(bed.disk);
    assert_int_equal(umount(bed.dir), 0);
    open_disk(&bed, options);
    bed_end(&bed);
}

static void a_directory_that_is_not_there_is_named(void **state)
{
    struct lh_disk *disk;
    char why[200];

    (void)state;
    assert_int_equal(
        lh_disk_create("/nowhere/at/all", NULL, &disk, why, sizeof why), LH_ERR_NOT_FOUND);
    assert_string_equal(why, "cannot open /nowhere/at/all/chunks: No such file or directory");
}

static void threads_are_used_when_asked_for(void **state)
{
    struct bed bed;

    (void)state;
    bed_begin(&bed, &ways[1]);
    assert_false(lh_disk_has_uring(bed.disk));
    bed_end(&bed);
}

/* Takes every descriptor that is left. */
static void take_all(int fds[], unsigned *count)
{
    for (*count = 0; (fds[*count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0; ++*count)
        assert_true(*count < 63);
    assert_int_equal(errno, EMFILE);
}

static void when_descriptors_are_short_idle_files_are_closed(const struct lh_disk_options *options)
{
    struct rlimit before, few;
    struct bed bed;
    int fds[64];
    unsigned count;

    bed_begin(&bed, options);
    for (uint64_t file = 1; file <= 4; file++) {
        struct lh_buf data = pattern(100, (unsigned)file);
        assert_int_equal(run(&bed, LH_DISK_CREATE, file, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_WRITE, file, 0, 0, &data), LH_OK);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){.rlim_cur = 32, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    take_all(fds, &count);
    /* What is kept open for later makes room for what is needed now. */
    for (uint64_t file = 1; file <= 4; file++) {
        struct lh_buf expected = pattern(100, (unsigned)file);
        expect_bytes(&bed, file, 0, 100, &expected);
        lh_buf_clear(&expected);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    while (count > 0)
        close(fds[--count]);
    bed_end(&bed);
}

/* Nothing is idle: what needs a descriptor is told so, nothing is done, and a write's bytes come
 * back. */
static void a_shortage_of_descriptors_is_no_verdict(const struct lh_disk_options *options)
{
    static const enum lh_disk_op ops[] = {
        LH_DISK_CREATE, LH_DISK_WRITE, LH_DISK_SYNC, LH_DISK_READ, LH_DISK_TRUNCATE};
    struct rlimit before, few;
    struct bed bed;
    int fds[64];
    unsigned count;

    bed_begin(&bed, options);
    struct lh_buf data = pattern(100, 1);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 1, 0, 0, &data), LH_OK);
    lh_disk_destroy(bed.disk);
    open_disk(&bed, options);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){.rlim_cur = 32, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    take_all(fds, &count);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct lh_disk_io io = {
            .op = ops[i], .file = ops[i] == LH_DISK_CREATE ? 2 : 1, .length = 10};
        if (ops[i] == LH_DISK_WRITE)
            io.data = pattern(50, 9);
        int notified = bed.notified;
        if (!lh_disk_submit(bed.disk, &io)) {
            pthread_mutex_lock(&bed.lock);
            while (bed.notified == notified)
                pthread_cond_wait(&bed.changed, &bed.lock);
            pthread_mutex_unlock(&bed.lock);
        }
        assert_int_equal(io.error, LH_ERR_SHORTAGE);
        assert_int_equal(io.data.size, ops[i] == LH_DISK_WRITE ? 50 : 0);
        lh_buf_clear(&io.data);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    while (count > 0)
        close(fds[--count]);
    struct lh_buf expected = pattern(100, 1);
    expect_bytes(&bed, 1, 0, 200, &expected);
    lh_buf_clear(&expected);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 2, 0, 0, NULL), LH_OK);
    bed_end(&bed);
}

static void write_to(struct bed *bed, uint64_t file)
{
    struct lh_buf data = pattern(100, (unsigned)file);

    assert_int_equal(run(bed, LH_DISK_WRITE, file, 0, 0, &data), LH_OK);
}

static void fail_writing_back(const struct bed *bed, uint64_t file)
{
    char path[160];
    struct stat s;

    path_of(bed, file, path, sizeof path);
    assert_int_equal(stat(path, &s), 0);
    pthread_mutex_lock(&kernel.lock);
    kernel.failed = s.st_ino;
    pthread_mutex_unlock(&kernel.lock);
}

/* Only threads sync by fdatasync(2), which the test can make fail. */
static const struct lh_disk_options few_files[] = {
    {.no_uring = true, .open_files_max = 2},
    {.no_uring = true, .open_files_max = 2, .inline_write_max = 1, .threads = 1},
    {.no_uring = true, .open_files_max = 8, .inline_write_max = 1, .threads = 1},
};

#define FEW_FILES (sizeof few_files / sizeof few_files[0])

/* FAIL-5: a file's descriptor makes room for others' before its writes were synced. */
static void a_failure_to_write_back_is_not_forgotten(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEW_FILES; i++) {
        struct bed bed;
        bed_begin(&bed, &few_files[i]);
        for (uint64_t file = 1; file <= 20; file++)
            assert_int_equal(run(&bed, LH_DISK_CREATE, file, 0, 0, NULL), LH_OK);
        write_to(&bed, 1);
        lh_disk_drain(bed.disk);
        fail_writing_back(&bed, 1);
        for (uint64_t file = 2; file <= 20; file++)
            write_to(&bed, file);
        /* Whoever hears it gives the replica up. */
        assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_ERR_IO);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 2, 0, 0, NULL), LH_OK);
        bed_end(&bed);
    }
}

/* FAIL-5: the process dies as soon as it was told, before it has done anything about it. */
static void the_next_process_hears_of_a_file_whose_sync_failed(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEW_FILES; i++) {
        struct bed bed;
        struct lh_buf data = {0};
        char path[128], aside[160];
        uint64_t *files, found, found_bytes;
        size_t count;
        bed_begin(&bed, &few_files[i]);
        path_of(&bed, 1, path, sizeof path);
        snprintf(aside, sizeof aside, "%s.failed", path);
        assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
        write_to(&bed, 1);
        fail_writing_back(&bed, 1);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_ERR_IO);
        lh_disk_destroy(bed.disk);
        open_disk(&bed, &few_files[i]);
        assert_int_equal(lh_disk_list(bed.disk, &files, &count, &found, &found_bytes), LH_OK);
        assert_int_equal(count, 1);
        assert_int_equal(run(&bed, LH_DISK_READ, 1, 0, 100, &data), LH_ERR_UNSYNCED);
        assert_int_equal(run(&bed, LH_DISK_READ, 1, 0, 100, &data), LH_OK);
        lh_buf_clear(&data);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_ERR_UNSYNCED);
        assert_int_equal(access(aside, F_OK), 0);
        assert_int_equal(found, 1);
        assert_true(found_bytes > 0);
        free(files);
        /* It goes with the replica, and makes room for another. */
        assert_int_equal(run(&bed, LH_DISK_REMOVE, 1, 0, 0, NULL), LH_OK);
        assert_int_equal(access(aside, F_OK), -1);
        assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
        lh_buf_clear(&data);
        bed_end(&bed);
    }
}

/* Its name is free at once, and what is made by it is another file. */
static void a_file_made_in_place_of_one_that_was_set_aside_is_another_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEW_FILES; i++) {
        struct bed bed;
        struct lh_buf data = {0};
        char path[128];
        struct stat s;
        bed_begin(&bed, &few_files[i]);
        path_of(&bed, 1, path, sizeof path);
        assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
        write_to(&bed, 1);
        fail_writing_back(&bed, 1);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_ERR_IO);
        assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
        write_to(&bed, 1);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_OK);
        assert_int_equal(stat(path, &s), 0);
        assert_int_equal(s.st_size, 100);
        lh_buf_clear(&data);
        bed_end(&bed);
    }
}

/* FAIL-5: so it is with a file that is to take another one's place, whose descriptor made room. */
static void a_failure_of_a_new_file_is_not_forgotten(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEW_FILES; i++) {
        struct bed bed;
        const uint64_t second = 1 | LH_NEW_FILE;
        bed_begin(&bed, &few_files[i]);
        for (uint64_t file = 1; file <= 20; file++)
            assert_int_equal(run(&bed, LH_DISK_CREATE, file, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_CREATE, second, 0, 0, NULL), LH_OK);
        write_to(&bed, second);
        lh_disk_drain(bed.disk);
        fail_writing_back(&bed, second);
        for (uint64_t file = 2; file <= 20; file++)
            write_to(&bed, file);
        assert_int_equal(run(&bed, LH_DISK_SYNC, second, 0, 0, NULL), LH_ERR_IO);
        /* Nobody doubts the one that is still there, nor what is made again. */
        assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_REMOVE, second, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_CREATE, second, 0, 0, NULL), LH_OK);
        write_to(&bed, second);
        assert_int_equal(run(&bed, LH_DISK_SYNC, second, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_REPLACE, second, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_OK);
        bed_end(&bed);
    }
}

/* FAIL-5: what is not known is whether the new name is there, not what the other files have. */
static void a_failed_sync_of_the_directory_says_nothing_of_other_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEW_FILES; i++) {
        struct bed bed;
        char path[128];
        bed_begin(&bed, &few_files[i]);
        assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_CREATE, 2, 0, 0, NULL), LH_OK);
        directory_syncs_fail = true;
        write_to(&bed, 2);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 2, 0, 0, NULL), LH_ERR_IO);
        write_to(&bed, 1);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_OK);
        directory_syncs_fail = false;
        write_to(&bed, 1);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_OK);
        path_of(&bed, 1, path, sizeof path);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 2, 0, 0, NULL), LH_ERR_IO);
        bed_end(&bed);
    }
}

/* A failure is over some time: the disk's next files say for themselves whether they are there. */
static void a_name_that_is_new_after_a_failed_sync_is_made_durable(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEW_FILES; i++) {
        struct bed bed;
        const uint64_t second = 1 | LH_NEW_FILE;
        bed_begin(&bed, &few_files[i]);
        directory_syncs_fail = true;
        for (uint64_t id = 1; id <= 2; id++) {
            assert_int_equal(run(&bed, LH_DISK_CREATE, id, 0, 0, NULL), LH_OK);
            write_to(&bed, id);
            assert_int_equal(run(&bed, LH_DISK_SYNC, id, 0, 0, NULL), LH_ERR_IO);
        }
        directory_syncs_fail = false;
        assert_int_equal(run(&bed, LH_DISK_CREATE, second, 0, 0, NULL), LH_OK);
        write_to(&bed, second);
        assert_int_equal(run(&bed, LH_DISK_SYNC, second, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_REPLACE, second, 0, 0, NULL), LH_OK);
        for (uint64_t id = 2; id <= 3; id++) {
            assert_int_equal(run(&bed, LH_DISK_CREATE, id, 0, 0, NULL), LH_OK);
        }
        for (uint64_t id = 1; id <= 3; id++) {
            write_to(&bed, id);
            assert_int_equal(run(&bed, LH_DISK_SYNC, id, 0, 0, NULL), LH_OK);
        }
        bed_end(&bed);
    }
}

/* FAIL-5: the new file has the name, and nobody knows for how long. It is there all the same. */
static void a_file_whose_new_name_is_in_doubt_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEW_FILES; i++) {
        struct bed bed;
        struct lh_buf data = {0};
        const uint64_t second = 1 | LH_NEW_FILE;
        bed_begin(&bed, &few_files[i]);
        assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_CREATE, second, 0, 0, NULL), LH_OK);
        write_to(&bed, second);
        assert_int_equal(run(&bed, LH_DISK_SYNC, second, 0, 0, NULL), LH_OK);
        directory_syncs_fail = true;
        assert_int_equal(run(&bed, LH_DISK_REPLACE, second, 0, 0, NULL), LH_ERR_IO);
        directory_syncs_fail = false;
        assert_int_equal(run(&bed, LH_DISK_READ, 1, 0, 100, &data), LH_OK);
        assert_int_equal(data.size, 100);
        lh_buf_clear(&data);
        assert_true(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL) != LH_OK);
        bed_end(&bed);
    }
}

/* Nor does it come over a file that was made again. */
static void a_failure_goes_with_its_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEW_FILES; i++) {
        struct bed bed;
        bed_begin(&bed, &few_files[i]);
        for (uint64_t file = 1; file <= 20; file++)
            assert_int_equal(run(&bed, LH_DISK_CREATE, file, 0, 0, NULL), LH_OK);
        write_to(&bed, 1);
        lh_disk_drain(bed.disk);
        fail_writing_back(&bed, 1);
        for (uint64_t file = 2; file <= 20; file++)
            write_to(&bed, file);
        lh_disk_drain(bed.disk);
        assert_int_equal(run(&bed, LH_DISK_REMOVE, 1, 0, 0, NULL), LH_OK);
        kernel.failed = 0;
        assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_SYNC, 1, 0, 0, NULL), LH_OK);
        bed_end(&bed);
    }
}

/* FAIL-5a: what a process before left in the kernel's hands, and the kernel could not write, is
 * believed by no process: not by the one that hears of it, and not by the next, which does not. */
static void what_a_process_before_left_unwritten_is_not_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEW_FILES; i++) {
        struct bed bed;
        struct lh_buf data = {0};
        uint64_t *files;
        size_t count;
        uint64_t aside, aside_bytes;
        bed_begin(&bed, &few_files[i]);
        for (uint64_t file = 1; file <= 3; file++) {
            assert_int_equal(run(&bed, LH_DISK_CREATE, file, 0, 0, NULL), LH_OK);
            write_to(&bed, file);
        }
        lh_disk_destroy(bed.disk);
        fail_writing_back(&bed, 2);
        open_disk(&bed, &few_files[i]);
        assert_int_equal(run(&bed, LH_DISK_READ, 2, 0, 100, &data), LH_ERR_UNSYNCED);
        assert_int_equal(run(&bed, LH_DISK_READ, 1, 0, 100, &data), LH_OK);
        lh_buf_clear(&data);
        lh_disk_destroy(bed.disk);
        open_disk(&bed, &few_files[i]);
        assert_int_equal(run(&bed, LH_DISK_READ, 2, 0, 100, &data), LH_ERR_UNSYNCED);
        assert_int_equal(lh_disk_list(bed.disk, &files, &count, &aside, &aside_bytes), LH_OK);
        assert_int_equal(count, 3);
        free(files);
        assert_int_equal(run(&bed, LH_DISK_REMOVE, 2, 0, 0, NULL), LH_OK);
        assert_int_equal(run(&bed, LH_DISK_CREATE, 2, 0, 0, NULL), LH_OK);
        write_to(&bed, 2);
        assert_int_equal(run(&bed, LH_DISK_READ, 2, 0, 100, &data), LH_OK);
        lh_buf_clear(&data);
        bed_end(&bed);
    }
}

/* However many have writes that nobody synced: the limit of open files stands. And those that were
 * synced are closed without another one. */
static void unsynced_files_keep_to_the_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEW_FILES; i++) {
        struct bed bed;
        bed_begin(&bed, &few_files[i]);
        for (uint64_t file = 1; file <= 50; file++) {
            assert_int_equal(run(&bed, LH_DISK_CREATE, file, 0, 0, NULL), LH_OK);
            write_to(&bed, file);
            assert_in_range(descriptors_of_chunks(0), 1, few_files[i].open_files_max);
        }
        lh_disk_drain(bed.disk);
        for (uint64_t file = 1; file <= 50; file++)
            assert_int_equal(run(&bed, LH_DISK_SYNC, file, 0, 0, NULL), LH_OK);
        unsigned syncs = kernel.syncs;
        for (uint64_t file = 1; file <= 50; file++) {
            struct lh_buf expected = pattern(100, (unsigned)file);
            expect_bytes(&bed, file, 0, 200, &expected);
            lh_buf_clear(&expected);
        }
        assert_int_equal(kernel.syncs, syncs);
        bed_end(&bed);
    }
}

static void a_file_that_somebody_removed_is_noticed(const struct lh_disk_options *options)
{
    struct bed bed;
    char name[128];

    bed_begin(&bed, options);
    struct lh_buf data = pattern(100, 1), got = {0};
    assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 1, 0, 0, &data), LH_OK);
    snprintf(name, sizeof name, "%s/chunks/0000000000000001.chunk", bed.dir);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(run(&bed, LH_DISK_READ, 1, 0, 100, &got), LH_ERR_NOT_FOUND);
    bed_end(&bed);
}

static void room_ahead_is_no_danger_to_writes(const struct lh_disk_options *options)
{
    struct bed bed;
    struct lh_buf data, all;

    bed_begin(&bed, options);
    data = pattern(100000, 3);
    all = lh_buf_ref(&data);
    assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
    assert_int_equal(run(&bed, LH_DISK_RESERVE, 1, 0, 4 << 20, NULL), LH_OK);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 1, 0, 0, &data), LH_OK);
    /* One that was asked for when the log was shorter, and that its writes have overtaken. */
    is_written_to = true;
    int error = run(&bed, LH_DISK_RESERVE, 1, 0, 50000, NULL);
    is_written_to = false;
    assert_int_equal(error, LH_OK);
    data = pattern(7, 4);
    struct lh_buf more = lh_buf_ref(&data);
    assert_int_equal(run(&bed, LH_DISK_WRITE, 1, all.size, 0, &data), LH_OK);
    struct stat s;
    char name[128];
    snprintf(name, sizeof name, "%s/chunks/0000000000000001.chunk", bed.dir);
    assert_int_equal(stat(name, &s), 0);
    assert_true(s.st_blocks * 512 >= 4 << 20); /* nor was anything given back */
    assert_int_equal(run(&bed, LH_DISK_RESERVE, 1, 0, 0, NULL), LH_OK);
    assert_int_equal(stat(name, &s), 0);
    assert_true(s.st_blocks * 512 < 1 << 20);
    expect_bytes(&bed, 1, 0, all.size, &all);
    expect_bytes(&bed, 1, all.size, more.size, &more);
    lh_buf_clear(&all);
    lh_buf_clear(&more);
    bed_end(&bed);
}

static void short_reads_and_writes_are_gone_on_with(const struct lh_disk_options *options)
{
    struct lh_disk_options meant = *options;
    struct bed bed;

    meant.inline_write_max = meant.inline_read_max = 1u << 20;
    bed_begin(&bed, &meant);
    struct lh_buf expected = pattern(20000, 7), data = lh_buf_ref(&expected), got = {0};
    assert_int_equal(run(&bed, LH_DISK_CREATE, 1, 0, 0, NULL), LH_OK);
    asked = 0;
    is_mean = true;
    int wrote = run(&bed, LH_DISK_WRITE, 1, 100, 0, &data);
    int read = run(&bed, LH_DISK_READ, 1, 100, 30000, &got);
    is_mean = false;
    assert_int_equal(wrote, LH_OK);
    assert_int_equal(read, LH_OK);
    assert_int_equal(got.size, expected.size);
    assert_true(asked > 0);
    lh_buf_clear(&got);
    expect_bytes(&bed, 1, 100, expected.size, &expected);
    lh_buf_clear(&expected);
    bed_end(&bed);
}

static void a_sync_that_was_tried_is_never_called_a_shortage(void **state)
{
    (void)state;
    assert_int_equal(lh_files_sync_error(ENOMEM), LH_ERR_IO);
    assert_int_equal(lh_files_sync_error(EAGAIN), LH_ERR_IO);
    assert_int_equal(lh_files_sync_error(EIO), LH_ERR_IO);
    assert_int_equal(lh_files_sync_error(ENOSPC), LH_ERR_DISK_FULL);
}

#define EACH_WAY(test)                                                                             \
    static void test##_each_way(void **state)                                                      \
    {                                                                                              \
        (void)state;                                                                               \
        for (size_t i = 0; i < WAYS; i++)                                                          \
            test(&ways[i]);                                                                        \
    }

EACH_WAY(what_was_written_is_read_back)
EACH_WAY(room_ahead_is_no_danger_to_writes)
EACH_WAY(a_write_of_very_many_slices_arrives_whole)
EACH_WAY(what_is_there_or_not_is_said)
EACH_WAY(files_are_listed_and_survive_being_closed)
EACH_WAY(many_operations_may_be_under_way)
EACH_WAY(a_full_disk_refuses_and_leaves_nothing_behind)
EACH_WAY(what_cannot_be_written_is_read)
EACH_WAY(when_descriptors_are_short_idle_files_are_closed)
EACH_WAY(a_shortage_of_descriptors_is_no_verdict)
EACH_WAY(a_file_that_somebody_removed_is_noticed)
EACH_WAY(short_reads_and_writes_are_gone_on_with)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back_each_way),
        cmocka_unit_test(a_write_of_very_many_slices_arrives_whole_each_way),
        cmocka_unit_test(what_is_there_or_not_is_said_each_way),
        cmocka_unit_test(files_are_listed_and_survive_being_closed_each_way),
        cmocka_unit_test(many_operations_may_be_under_way_each_way),
        cmocka_unit_test(a_full_disk_refuses_and_leaves_nothing_behind_each_way),
        cmocka_unit_test(what_cannot_be_written_is_read_each_way),
        cmocka_unit_test(when_descriptors_are_short_idle_files_are_closed_each_way),
        cmocka_unit_test(a_shortage_of_descriptors_is_no_verdict_each_way),
        cmocka_unit_test(a_file_that_somebody_removed_is_noticed_each_way),
        cmocka_unit_test(room_ahead_is_no_danger_to_writes_each_way),
        cmocka_unit_test(short_reads_and_writes_are_gone_on_with_each_way),
        cmocka_unit_test(a_sync_that_was_tried_is_never_called_a_shortage),
        cmocka_unit_test(a_failure_to_write_back_is_not_forgotten),
        cmocka_unit_test(the_next_process_hears_of_a_file_whose_sync_failed),
        cmocka_unit_test(a_file_made_in_place_of_one_that_was_set_aside_is_another_one),
        cmocka_unit_test(a_failure_of_a_new_file_is_not_forgotten),
        cmocka_unit_test(a_failed_sync_of_the_directory_says_nothing_of_other_files),
        cmocka_unit_test(a_name_that_is_new_after_a_failed_sync_is_made_durable),
        cmocka_unit_test(a_file_whose_new_name_is_in_doubt_is_read),
        cmocka_unit_test(a_failure_goes_with_its_file),
        cmocka_unit_test(what_a_process_before_left_unwritten_is_not_read),
        cmocka_unit_test(unsynced_files_keep_to_the_limit),
        cmocka_unit_test(a_directory_that_is_not_there_is_named),
        cmocka_unit_test(threads_are_used_when_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
