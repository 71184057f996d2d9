/* The metadata store below which calls of the disk fail, or whose machine goes down: this program
 * stands in for the functions with which LMDB writes. */
#include "base/alloc.h"
#include "master/store/metastore_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#define METAS_BYTES 8192 /* the two pages that name the newest transactions */
#define TXN_AT      48   /* in lock.mdb: the number of the newest one */

static char directory[256], why[512];

/* The disk of a machine: what of the file is on it if the machine goes down now. */
static int disk = -1;
static _Atomic int pages_fail, meta_fails, lock_fails; /* errno's codes; the others: once */
static _Atomic bool goes_down, wrote, down;

static struct {
    int errors[16];
    char why[512];
    _Atomic unsigned shortages;
    _Atomic size_t count;
} done;

static void copy(int from, int to)
{
    char bytes[4096];
    ssize_t n;

    for (off_t at = 0; (n = pread(from, bytes, sizeof bytes, at)) > 0; at += n)
        assert_int_equal(syscall(SYS_pwrite64, to, bytes, n, at), n);
}

static void reach_disk(const void *from, size_t n, off_t at)
{
    if (disk >= 0 && !down)
        assert_int_equal(syscall(SYS_pwrite64, disk, from, n, at), n);
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    int code = at < METAS_BYTES ? atomic_exchange(&meta_fails, 0) : pages_fail;

    if (code != 0) {
        if (at < METAS_BYTES)
            reach_disk(from, n, at); /* an error says nothing of what is stored */
        errno = code;
        return -1;
    }
    if (at >= METAS_BYTES) {
        reach_disk(from, n, at); /* before a sync asks for it */
        wrote = true;
    }
    return syscall(SYS_pwrite64, fd, from, n, at);
}

ssize_t writev(int fd, const struct iovec *v, int count)
{
    ssize_t all = 0;

    for (int i = 0; i < count; i++) {
        off_t at = lseek(fd, 0, SEEK_CUR);
        ssize_t n = pwrite(fd, v[i].iov_base, v[i].iov_len, at);
        if (n < 0)
            return n;
        (void)lseek(fd, at + n, SEEK_SET);
        all += n;
    }
    return all;
}

int fdatasync(int fd)
{
    if (disk >= 0 && goes_down && wrote)
        down = true; /* the machine is, before it is done */
    else if (disk >= 0 && !down)
        copy(fd, disk);
    return (int)syscall(SYS_fdatasync, fd);
}

/* Locks of lock.mdb: the first one is not had. */
int fcntl(int fd, int what, ...)
{
    va_list args;

    va_start(args, what);
    void *with = va_arg(args, void *);
    va_end(args);
    int code = what == F_SETLK ? atomic_exchange(&lock_fails, 0) : 0;
    if (code != 0) {
        errno = code;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, what, with);
}

static void on_committed(void *arg, uint64_t ticket, int error, const char *text)
{
    (void)arg;
    (void)ticket;
    if (text != NULL)
        snprintf(done.why, sizeof done.why, "%s", text);
    if (error == LH_ERR_SHORTAGE) {
        done.shortages++;
        return;
    }
    if (done.count < sizeof done.errors / sizeof *done.errors)
        done.errors[done.count] = error;
    done.count++;
}

static struct lh_metastore *open_store(void)
{
    struct lh_metastore *store;
    int error = lh_metastore_lmdb_open(directory, 0, on_committed, NULL, &store, why, sizeof why);

    if (error != LH_OK)
        fail_msg("%s", why);
    return store;
}

static void commit(struct lh_metastore *store, uint64_t ticket, const char *key, size_t size)
{
    struct lh_change *c = lh_alloc(sizeof *c);

    *c = (struct lh_change){.key = (uint8_t *)lh_strdup(key),
        .key_size = (uint32_t)strlen(key),
        .value = lh_alloc(size),
        .value_size = (uint32_t)size};
    memset(c->value, key[0], size);
    lh_metastore_commit(store, ticket, c, 1);
}

static int gather(void *arg, const void *key, size_t key_size, const void *value, size_t value_size)
{
    const char *bytes = value;

    for (size_t i = 0; i < value_size; i++)
        assert_int_equal(bytes[i], *(const char *)key);
    strncat(arg, key, key_size);
    return LH_OK;
}

static void assert_stored(const char *keys)
{
    struct lh_metastore *store = open_store();
    char text[64] = "";

    assert_int_equal(lh_metastore_load(store, gather, text, why, sizeof why), LH_OK);
    assert_string_equal(text, keys);
    lh_metastore_close(store);
}

static int set_up(void **state)
{
    const char *base = getenv("TEST_TMPDIR");

    (void)state;
    memset(&done, 0, sizeof done);
    disk = -1;
    pages_fail = meta_fails = lock_fails = 0;
    goes_down = wrote = down = false;
    snprintf(directory, sizeof directory, "%s/metastore.XXXXXX", base == NULL ? "/tmp" : base);
    return mkdtemp(directory) == NULL;
}

static int tear_down(void **state)
{
    char command[300];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

static void with_an_outcome_unknown_it_does_not_say_that_it_tries_again(void **state)
{
    static const int codes[] = {ENOSPC, ENOMEM, EIO};

    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        memset(&done, 0, sizeof done);
        struct lh_metastore *store = open_store();
        commit(store, 1, "a", 10);
        while (done.count == 0)
            sched_yield();
        meta_fails = codes[i];
        commit(store, 2, "b", 10);
        while (done.count == 1)
            sched_yield();
        commit(store, 3, "c", 10);
        lh_metastore_close(store);
        assert_int_equal(done.shortages, 0);
        assert_int_equal(done.errors[1], codes[i] == ENOSPC ? LH_ERR_DISK_FULL : LH_ERR_IO);
        assert_int_equal(done.errors[2], done.errors[1]);
        assert_non_null(
            strstr(done.why, codes[i] == ENOSPC ? "its disk is full" : strerror(codes[i])));
        assert_stored("a");
    }
}

static void a_lack_of_memory_that_is_given_up_is_an_error(void **state)
{
    struct lh_metastore *store = open_store();
    uint64_t ticket = 1;

    (void)state;
    pages_fail = ENOMEM;
    for (uint64_t bytes = 0; bytes <= LH_METASTORE_WAITING_MAX; bytes += 4u << 20)
        commit(store, ticket++, "a", 4u << 20);
    while (done.count == 0)
        sched_yield();
    lh_metastore_close(store);
    assert_int_equal(done.shortages, 1);
    assert_int_equal(done.count, ticket - 1);
    assert_int_equal(done.errors[0], LH_ERR_IO);
}

/* The page that names a transaction reached the disk, and the call said that it did not. The next
 * process goes on from the one before, and uses the same pages; then the machine goes down. */
static void a_transaction_that_failed_does_not_come_back_with_pages_of_another(void **state)
{
    char from[300], to[300];

    (void)state;
    struct lh_metastore *store = open_store();
    commit(store, 1, "a", 10);
    while (done.count == 0)
        sched_yield();
    snprintf(from, sizeof from, "%s/disk", directory);
    snprintf(to, sizeof to, "%s/data.mdb", directory);
    int file = open(to, O_RDONLY);
    assert_true(file >= 0);
    disk = open(from, O_RDWR | O_CREAT, 0600);
    assert_true(disk >= 0);
    copy(file, disk);
    close(file);
    meta_fails = EIO;
    commit(store, 2, "b", 10000);
    while (done.count == 1)
        sched_yield();
    assert_int_equal(done.errors[1], LH_ERR_IO);
    lh_metastore_close(store);

    wrote = false;
    goes_down = true;
    store = open_store();
    commit(store, 3, "c", 10000);
    while (done.count == 2)
        sched_yield();
    lh_metastore_close(store);
    assert_int_equal(done.errors[2], LH_OK);
    assert_true(down);
    close(disk);
    disk = -1;
    assert_int_equal(rename(from, to), 0);
    assert_stored("a");
}

/* What LMDB keeps for readers survives a process in the file lock.mdb, and another state of it the
 * machine. It is not believed. */
static void a_number_of_another_state_is_not_gone_on_from(void **state)
{
    char name[300];
    uint64_t number;

    (void)state;
    struct lh_metastore *store = open_store();
    for (uint64_t ticket = 1; ticket <= 3; ticket++) {
        commit(store, ticket, "a", 10);
        while (done.count < ticket)
            sched_yield();
    }
    lh_metastore_close(store);
    snprintf(name, sizeof name, "%s/lock.mdb", directory);
    int file = open(name, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pread(file, &number, sizeof number, TXN_AT), sizeof number);
    assert_int_equal(number, 3);
    number--;
    assert_int_equal(pwrite(file, &number, sizeof number, TXN_AT), sizeof number);
    close(file);
    lock_fails = EACCES; /* as if a reader had it */
    int error = lh_metastore_lmdb_open(directory, 0, on_committed, NULL, &store, why, sizeof why);
    assert_int_equal(error, LH_ERR_IO);
    if (strstr(why, "lock.mdb is of another state") == NULL)
        fail_msg("%s", why);
    assert_stored("a"); /* alone with it, LMDB writes it again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            with_an_outcome_unknown_it_does_not_say_that_it_tries_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_lack_of_memory_that_is_given_up_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_transaction_that_failed_does_not_come_back_with_pages_of_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_number_of_another_state_is_not_gone_on_from, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
