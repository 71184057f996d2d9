/* Stories about guards (TOK-1) on a disk that keeps only what was synced. The program's own
 * pwrite(), fdatasync() and the like stand before libc's, and keep account: when the power fails,
 * each sector of 512 bytes that was written since the last sync has its old bytes, or those of any
 * write since; the file has any of its sizes; and a name that was not synced in its folder is there
 * or is not.
 * Processes are openings of the guard; one that is killed has no effect any more, and what it wrote
 * stays in the page cache. */
#include "client/library/leasehold.h"

#include "base/prng.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/library/leasehold_leases.h"

#define SECTOR  512u
#define PAGE    4096u
#define NAMES   3u
#define SIZE    (129 * PAGE) /* entries that were interrupted take room, too */
#define SECTORS (SIZE / SECTOR)
#define PENDING 1024u

static char folder[4000], path[4096];

struct written {
    uint64_t at, size;
    uint8_t bytes[PAGE];
};

static struct {
    bool on, named; /* the name is durable */
    uint8_t durable[SIZE];
    uint64_t size; /* durable */
    struct written writes[PENDING];
    size_t write_count;
    uint64_t sizes[PENDING];
    size_t size_count;
    /* The process that acts is killed when so many more effects have happened. */
    uint64_t lives;
    bool killed;
    uint32_t failing_syncs; /* of 100 */
    struct lh_prng prng;
} disk;

/* ---- The file system */

static bool is_guard(int fd)
{
    struct stat at, there;

    return disk.on && fstat(fd, &at) == 0 && stat(path, &there) == 0 && at.st_ino == there.st_ino;
}

/* False: the process was killed before. */
static bool lives(void)
{
    if (disk.killed || disk.lives == 0) {
        disk.killed = true;
        errno = EIO;
        return false;
    }
    disk.lives--;
    return true;
}

static void note_size(int fd)
{
    struct stat at;

    assert_int_equal(fstat(fd, &at), 0);
    assert_true(at.st_size <= (off_t)SIZE && disk.size_count < PENDING);
    disk.sizes[disk.size_count++] = (uint64_t)at.st_size;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    if (!is_guard(fd))
        return syscall(SYS_pwrite64, fd, bytes, size, at);
    if (!lives())
        return -1;
    assert_true(disk.write_count < PENDING && size <= PAGE && (uint64_t)at + size <= SIZE);
    struct written *w = &disk.writes[disk.write_count++];
    w->at = (uint64_t)at;
    w->size = size;
    memcpy(w->bytes, bytes, size);
    ssize_t n = syscall(SYS_pwrite64, fd, bytes, size, at);
    note_size(fd);
    return n;
}

int posix_fallocate(int fd, off_t at, off_t size)
{
    if (is_guard(fd) && !lives())
        return EIO;
    if (syscall(SYS_fallocate, fd, 0, at, size) != 0)
        return errno;
    if (is_guard(fd))
        note_size(fd);
    return 0;
}

int ftruncate(int fd, off_t size)
{
    if (is_guard(fd) && !lives())
        return -1;
    int n = (int)syscall(SYS_ftruncate, fd, size);
    if (is_guard(fd))
        note_size(fd);
    return n;
}

/* What the disk has of a sector: the durable bytes, or those of a write since. */
static void settle_sector(uint64_t sector, bool all)
{
    for (size_t i = 0; i < disk.write_count; i++) {
        const struct written *w = &disk.writes[i];
        uint64_t from = sector * SECTOR, to = from + SECTOR;
        if (w->at >= to || w->at + w->size <= from)
            continue;
        if (!all && lh_prng_below(&disk.prng, 2) == 0)
            return;
        from = w->at > from ? w->at : from;
        to = w->at + w->size < to ? w->at + w->size : to;
        memcpy(disk.durable + from, w->bytes + (from - w->at), to - from);
    }
}

static void settle_disk(bool all)
{
    for (uint64_t sector = 0; sector < SECTORS; sector++)
        settle_sector(sector, all);
    uint64_t kept = all ? disk.size_count : lh_prng_below(&disk.prng, disk.size_count + 1);
    if (kept > 0)
        disk.size = disk.sizes[kept - 1];
    memset(disk.durable + disk.size, 0, SIZE - disk.size);
    disk.write_count = disk.size_count = 0;
}

/* One that fails has written what it likes, and the page cache takes it all for written. */
static int sync_fd(int fd, long number)
{
    struct stat at;

    if (disk.on && fstat(fd, &at) == 0 && S_ISDIR(at.st_mode)) {
        if (!lives())
            return -1;
        disk.named = true;
        return 0;
    }
    if (!is_guard(fd))
        return (int)syscall(number, fd);
    if (!lives())
        return -1;
    bool fails = lh_prng_below(&disk.prng, 100) < disk.failing_syncs;
    settle_disk(!fails);
    errno = EIO;
    return fails ? -1 : 0;
}

int fdatasync(int fd)
{
    return sync_fd(fd, SYS_fdatasync);
}

int fsync(int fd)
{
    return sync_fd(fd, SYS_fsync);
}

/* ---- Stories */

static int setup(void **state)
{
    const char *base = getenv("TEST_TMPDIR");

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s/guard-disk-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/guard", folder);
    return 0;
}

static void new_disk(uint64_t seed)
{
    memset(&disk, 0, sizeof disk);
    (void)unlink(path);
    disk.prng.state = seed;
    disk.on = true;
    disk.lives = UINT64_MAX;
}

/* Nobody has the file open. What was not synced is lost, or not. */
static void power_fails(void)
{
    disk.on = false;
    settle_disk(false);
    (void)unlink(path);
    if (disk.named || lh_prng_below(&disk.prng, 2) == 0) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, disk.durable, disk.size, 0), (ssize_t)disk.size);
        (void)close(fd);
        disk.named = true;
    } else {
        memset(disk.durable, 0, SIZE);
        disk.size = 0;
    }
    disk.on = true;
}

static const char *const names[NAMES] = {"/jobs/a", "/jobs/b", "/jobs/c"};
static uint64_t highest[NAMES]; /* that was admitted */

static int enters(struct lh_guard *g, unsigned name, uint64_t token)
{
    int error = lh_guard_enter(g, names[name], token, 0);

    if (error != LH_OK)
        return error;
    if (token < highest[name])
        fail_msg("%s: %" PRIu64 " is admitted after %" PRIu64, names[name], token, highest[name]);
    highest[name] = token;
    lh_guard_leave(g, names[name]);
    return LH_OK;
}

/* Then nothing is forgotten, and nothing is in the way of the next ones. */
static void goes_on(void)
{
    struct lh_guard *g = NULL;
    uint32_t failing = disk.failing_syncs;

    disk.lives = UINT64_MAX;
    disk.killed = false;
    disk.failing_syncs = 0;
    if (lh_guard_open(path, &g) != LH_OK)
        fail_msg("%s", lh_last_error());
    for (unsigned i = 0; i < NAMES; i++) {
        if (highest[i] > 1 && enters(g, i, highest[i] - 1) != LH_ERR_STALE_TOKEN)
            fail_msg("%s: %s", names[i], lh_last_error());
        if (enters(g, i, highest[i] + 4) != LH_OK) /* one that was not admitted may be there */
            fail_msg("%s: %s", names[i], lh_last_error());
    }
    lh_guard_close(g);
    disk.failing_syncs = failing;
}

/* A process that acts until it is killed. */
static void acts(uint64_t lives_for, unsigned rounds)
{
    struct lh_guard *g = NULL;

    disk.lives = lives_for;
    disk.killed = false;
    if (lh_guard_open(path, &g) == LH_OK) {
        for (unsigned i = 0; i < rounds && !disk.killed; i++)
            (void)enters(g, i % NAMES, highest[i % NAMES] + 1);
        lh_guard_close(g);
    }
    disk.lives = UINT64_MAX;
    disk.killed = false;
}

static void the_power_fails_at_each_point(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < 48; at++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            new_disk(at * 1000 + seed);
            memset(highest, 0, sizeof highest);
            acts(at, 9);
            power_fails();
            goes_on();
        }
}

static void a_process_is_killed_and_then_the_power_fails_for_its_successor(void **state)
{
    (void)state;
    for (uint64_t first = 0; first < 36; first++)
        for (uint64_t second = 0; second < 24; second++) {
            new_disk(first * 1000 + second);
            memset(highest, 0, sizeof highest);
            acts(first, 6);
            acts(second, 6);
            power_fails();
            goes_on();
        }
}

/* Several are there at a time; each may be killed, syncs fail, and the power fails again and
 * again. */
static void long_histories(void **state)
{
    const char *runs = getenv("LH_RUNS");

    (void)state;
    for (uint64_t seed = 0; seed < (runs == NULL ? 100 : strtoull(runs, NULL, 10)); seed++) {
        struct lh_guard *open[3] = {NULL};
        new_disk(seed);
        memset(highest, 0, sizeof highest);
        disk.failing_syncs = seed % 3 == 0 ? 20 : 0;
        for (unsigned i = 0; i < 120; i++) {
            unsigned who = (unsigned)lh_prng_below(&disk.prng, 3);
            unsigned name = (unsigned)lh_prng_below(&disk.prng, NAMES);
            disk.lives =
                lh_prng_below(&disk.prng, 4) == 0 ? lh_prng_below(&disk.prng, 5) : UINT64_MAX;
            disk.killed = false;
            if (open[who] == NULL && lh_guard_open(path, &open[who]) != LH_OK)
                open[who] = NULL;
            if (open[who] != NULL)
                (void)enters(open[who], name,
                    highest[name] + lh_prng_below(&disk.prng, 4) -
                        (highest[name] > 1 ? lh_prng_below(&disk.prng, 2) : 0));
            bool ends = lh_prng_below(&disk.prng, 40) == 0;
            for (unsigned k = 0; k < 3; k++)
                if (ends || (k == who && disk.killed)) {
                    lh_guard_close(open[k]);
                    open[k] = NULL;
                }
            if (ends) {
                power_fails();
                goes_on();
            }
        }
        for (unsigned k = 0; k < 3; k++)
            lh_guard_close(open[k]);
    }
}

/* The copy of what was admitted did not reach the disk; what did reach it rots later. */
static void after_a_power_failure_a_page_may_rot(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct lh_guard *g = NULL;
        new_disk(seed);
        memset(highest, 0, sizeof highest);
        acts(UINT64_MAX, 1 + (unsigned)(seed % 7));
        power_fails();
        assert_int_equal(lh_guard_open(path, &g), LH_OK);
        if (enters(g, 0, highest[0]) != LH_OK) /* it is used before */
            fail_msg("%s", lh_last_error());
        lh_guard_close(g);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        assert_int_equal(pwrite(fd, "rotten", 6, PAGE + (off_t)(seed % 2) * PAGE + 16), 6);
        (void)close(fd);
        goes_on();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_power_fails_at_each_point, setup),
        cmocka_unit_test_setup(
            a_process_is_killed_and_then_the_power_fails_for_its_successor, setup),
        cmocka_unit_test_setup(long_histories, setup),
        cmocka_unit_test_setup(after_a_power_failure_a_page_may_rot, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
