/* The file of a guard; see guard_file.h. Whoever adds an entry holds the lock on byte 0. */
#include "client/library/guard_file.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "client/library/library.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/library/leasehold_leases.h"

#define PAGE        4096u
#define NAMES_MAX   16384u /* in one file: 128 MiB */
#define HEADER_USED 16u    /* bytes of the header's page */
#define NAME_AT     32u    /* in a page */

static const uint8_t MAGIC[8] = {'L', 'H', 'G', 'U', 'A', 'R', 'D', '\n'};
#define PAGE_MAGIC UINT32_C(0x3147484c) /* "LHG1" */

struct page {
    bool whole, zero;
    uint64_t sequence, token;
    char name[LH_NAME_LENGTH_MAX + 1];
};

static int system_failed(const struct lh_guard_file *f, const char *what)
{
    int error = lh_error_from_errno(errno);

    return lh_fail(error == LH_ERR_INVALID_ARGUMENT ? LH_ERR_SYSTEM : error,
        "guard %s: cannot %s: %s", f->path, what, strerror(errno));
}

/* ---- Locks on bytes ---- */

/* The lock is the opening's, not the process's: it excludes other openings in this process, too,
 * ends with the last process that has it, and closing another opening of the file does not end
 * it. */
static bool lock_byte(const struct lh_guard_file *f, short type, int how, uint64_t at)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1, .l_pid = 0};
    int n;

    do
        n = fcntl(f->fd, how, &lock);
    while (n != 0 && errno == EINTR);
    return n == 0;
}

bool lh_guard_file_lock(const struct lh_guard_file *f, uint64_t at, bool wait)
{
    if (lock_byte(f, F_WRLCK, wait ? F_OFD_SETLKW : F_OFD_SETLK, at))
        return true;
    if (errno == EACCES)
        errno = EAGAIN;
    return false;
}

void lh_guard_file_unlock(const struct lh_guard_file *f, uint64_t at)
{
    (void)lock_byte(f, F_UNLCK, F_OFD_SETLK, at);
}

/* ---- Bytes ---- */

/* What lies behind the end is zeros. */
static int read_at(const struct lh_guard_file *f, uint8_t *bytes, size_t size, uint64_t at)
{
    size_t done = 0;

    memset(bytes, 0, size);
    while (done < size) {
        ssize_t n = pread(f->fd, bytes + done, size - done, (off_t)(at + done));
        if (n == 0)
            return LH_OK;
        if (n < 0 && errno != EINTR)
            return system_failed(f, "read it");
        done += n > 0 ? (size_t)n : 0;
    }
    return LH_OK;
}

static int write_at(const struct lh_guard_file *f, const uint8_t *bytes, size_t size, uint64_t at)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pwrite(f->fd, bytes + done, size - done, (off_t)(at + done));
        if (n < 0 && errno != EINTR)
            return system_failed(f, "write it");
        done += n > 0 ? (size_t)n : 0;
    }
    return LH_OK;
}

static int sync_file(const struct lh_guard_file *f)
{
    return fdatasync(f->fd) == 0 ? LH_OK : system_failed(f, "make durable what was written");
}

static bool all_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* ---- Pages ---- */

static void pack_page(uint8_t bytes[PAGE], const char *name, uint64_t sequence, uint64_t token)
{
    size_t length = strlen(name);

    memset(bytes, 0, PAGE);
    lh_put32(bytes, PAGE_MAGIC);
    lh_put64(bytes + 8, sequence);
    lh_put64(bytes + 16, token);
    lh_put32(bytes + 24, (uint32_t)length);
    memcpy(bytes + NAME_AT, name, length);
    lh_put32(bytes + 4, lh_crc32c(0, bytes + 8, PAGE - 8));
}

static void unpack_page(const uint8_t bytes[PAGE], struct page *p)
{
    uint32_t length = lh_get32(bytes + 24);

    *p = (struct page){.zero = all_zero(bytes, PAGE)};
    if (lh_get32(bytes) != PAGE_MAGIC || lh_get32(bytes + 4) != lh_crc32c(0, bytes + 8, PAGE - 8) ||
        length == 0 || length > LH_NAME_LENGTH_MAX)
        return;
    memcpy(p->name, bytes + NAME_AT, length);
    p->whole = strlen(p->name) == length;
    p->sequence = lh_get64(bytes + 8);
    p->token = lh_get64(bytes + 16);
}

static uint64_t page_at(uint64_t entry, unsigned page)
{
    return PAGE + (entry * 2 + page) * PAGE;
}

static int read_entry(const struct lh_guard_file *f, uint64_t entry, struct page pages[2])
{
    uint8_t bytes[2 * PAGE];
    int error = read_at(f, bytes, sizeof bytes, page_at(entry, 0));

    for (unsigned i = 0; error == LH_OK && i < 2; i++)
        unpack_page(bytes + (size_t)i * PAGE, &pages[i]);
    return error;
}

static int write_page(const struct lh_guard_file *f, const struct lh_guard_name *n, unsigned page,
    uint64_t sequence, uint64_t token)
{
    uint8_t bytes[PAGE];

    pack_page(bytes, n->name, sequence, token);
    return write_at(f, bytes, PAGE, page_at(n->entry, page));
}

/* ---- Names ---- */

struct lh_guard_name *lh_guard_file_name(struct lh_guard_file *f, const char *name)
{
    struct lh_guard_name *n = NULL;

    HASH_FIND_STR(f->names, name, n);
    if (n != NULL || HASH_COUNT(f->names) >= NAMES_MAX)
        return n;
    n = lh_alloc(sizeof *n);
    n->name = lh_strdup(name);
    HASH_ADD_KEYPTR(hh, f->names, n->name, strlen(n->name), n);
    return n;
}

/* The second page is written when the first one is durable, and nothing is admitted before both
 * are. So an entry without a first page, and with nothing in the second, was never admitted: its
 * machine went down while it was added. */
static int scan_entry(struct lh_guard_file *f, uint64_t entry)
{
    struct page pages[2];
    int error = read_entry(f, entry, pages);

    if (error != LH_OK)
        return error;
    if (!pages[0].whole && !pages[1].whole) {
        f->damaged += pages[1].zero ? 0 : 1;
        return LH_OK;
    }
    struct lh_guard_name *n = lh_guard_file_name(f, pages[pages[0].whole ? 0 : 1].name);
    if (n == NULL)
        return lh_fail(LH_ERR_NO_MEMORY, "guard %s: more than %u names", f->path, NAMES_MAX);
    n->in_file = true;
    n->entry = entry;
    return LH_OK;
}

/* Takes in what other processes have added. Under both locks. */
static int scan(struct lh_guard_file *f, uint64_t *entries)
{
    struct stat at;
    int error = LH_OK;

    if (fstat(f->fd, &at) != 0)
        return system_failed(f, "ask for its size");
    uint64_t size = (uint64_t)at.st_size;
    *entries = size <= PAGE ? 0 : (size - PAGE + 2u * PAGE - 1) / (2u * PAGE);
    while (error == LH_OK && f->scanned < *entries) {
        error = scan_entry(f, f->scanned);
        f->scanned += error == LH_OK ? 1 : 0;
    }
    return error;
}

/* With its first token, which is not admitted before both pages are durable: settle(). */
static int write_first(const struct lh_guard_file *f, struct lh_guard_name *n, uint64_t token)
{
    int error = posix_fallocate(f->fd, (off_t)page_at(n->entry, 0), (off_t)(2u * PAGE));

    if (error != 0) {
        errno = error;
        return system_failed(f, "make it longer");
    }
    error = write_page(f, n, 0, 1, token);
    n->in_file = error == LH_OK;
    return error;
}

/* Looks for the name among what is new in the file, and adds it if it is not there. */
static int find_or_add(struct lh_guard_file *f, struct lh_guard_name *n, uint64_t token)
{
    uint64_t entries = 0;
    int error = LH_OK;

    pthread_mutex_lock(&f->mutex);
    if (!lh_guard_file_lock(f, 0, true))
        error = system_failed(f, "lock it");
    else
        error = scan(f, &entries);
    if (error == LH_OK && !n->in_file && f->damaged > 0)
        error = lh_fail(LH_ERR_CORRUPT,
            "guard %s: the records of %" PRIu64
            " names are damaged, and this may be one of them: '%s' is not "
            "admitted. If no program can act with an old token any more, remove the file",
            f->path, f->damaged, n->name);
    if (error == LH_OK && !n->in_file) {
        n->entry = entries;
        error = write_first(f, n, token);
        if (error == LH_OK)
            f->scanned = entries + 1;
        else
            (void)!ftruncate(f->fd, (off_t)page_at(entries, 0));
    }
    lh_guard_file_unlock(f, 0);
    pthread_mutex_unlock(&f->mutex);
    return error;
}

/* ---- Admitting ---- */

static int write_durably(const struct lh_guard_file *f, const struct lh_guard_name *n,
    unsigned page, const struct page *p)
{
    int error = write_page(f, n, page, p->sequence, p->token);

    return error == LH_OK ? sync_file(f) : error;
}

/* Which page to build on: one that is durable. A copy that was lost, with a process or with the
 * machine's power, is written again: a page that rots is replaced by the other one. */
static int settle(
    const struct lh_guard_file *f, struct lh_guard_name *n, const struct page pages[2])
{
    unsigned top =
        pages[1].whole && (!pages[0].whole || pages[1].sequence > pages[0].sequence) ? 1 : 0;
    const struct page *p = &pages[top], *copy = &pages[1 - top];

    if (n->synced && pages[n->page].whole && pages[n->page].sequence == n->sequence &&
        p->sequence == n->sequence)
        return LH_OK;
    n->synced = false;
    int error = write_durably(f, n, top, p);
    if (error == LH_OK && (!copy->whole || copy->sequence != p->sequence))
        error = write_durably(f, n, 1 - top, p);
    if (error != LH_OK)
        return error;
    n->synced = true;
    n->page = top;
    n->sequence = p->sequence;
    return LH_OK;
}

static int raise_token(const struct lh_guard_file *f, struct lh_guard_name *n, uint64_t token)
{
    unsigned from = n->page, to = 1 - from;
    int error = write_page(f, n, to, n->sequence + 1, token);

    if (error == LH_OK)
        error = sync_file(f);
    if (error != LH_OK) {
        n->synced = false; /* what the pages are is not known */
        return error;
    }
    n->page = to;
    n->sequence++;
    (void)write_page(f, n, from, n->sequence, token); /* durable or not: it is only the copy */
    return LH_OK;
}

int lh_guard_file_admit(struct lh_guard_file *f, struct lh_guard_name *n, uint64_t token)
{
    struct page pages[2];
    int error = n->in_file ? LH_OK : find_or_add(f, n, token);

    if (error == LH_OK)
        error = read_entry(f, n->entry, pages);
    if (error != LH_OK)
        return error;
    for (unsigned i = 0; i < 2; i++)
        pages[i].whole = pages[i].whole && strcmp(pages[i].name, n->name) == 0;
    if (!pages[0].whole && !pages[1].whole)
        return lh_fail(LH_ERR_CORRUPT,
            "guard %s: the record of '%s' is damaged. If no program can act with an old token any "
            "more, "
            "remove the file",
            f->path, n->name);
    error = settle(f, n, pages);
    if (error != LH_OK)
        return error;
    uint64_t admitted = pages[n->page].token;
    if (token < admitted)
        return lh_fail(LH_ERR_STALE_TOKEN,
            "'%s': token %" PRIu64 " is lower than %" PRIu64
            ", which guard %s has admitted: another program has the lock",
            n->name, token, admitted, f->path);
    return token > admitted ? raise_token(f, n, token) : LH_OK;
}

/* ---- Opening ---- */

static int write_header(const struct lh_guard_file *f)
{
    uint8_t page[PAGE] = {0};
    char *folder = lh_strdup(f->path), *slash = strrchr(folder, '/');

    memcpy(page, MAGIC, sizeof MAGIC);
    lh_put32(page + 8, LH_GUARD_FORMAT);
    lh_put32(page + 12, lh_crc32c(0, page, 12));
    int error = write_at(f, page, PAGE, 0);
    if (error == LH_OK && fsync(f->fd) != 0)
        error = system_failed(f, "make it durable");
    /* Its name is durable, too, before a token is admitted. */
    slash[slash == folder ? 1 : 0] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (error == LH_OK && (fd < 0 || (fsync(fd) != 0 && errno != EINVAL)))
        error = system_failed(f, "make its name durable");
    if (fd >= 0)
        (void)close(fd);
    free(folder);
    return error;
}

/* Of a file that is there. As long as it has no names, whoever opens it makes the header durable,
 * and the file's own name: the one who made it may have been killed before. */
static int check_header(const struct lh_guard_file *f)
{
    uint8_t page[PAGE];
    struct stat at;
    int error = read_at(f, page, PAGE, 0);

    if (error != LH_OK)
        return error;
    if (fstat(f->fd, &at) != 0)
        return system_failed(f, "ask for its size");
    bool nameless = at.st_size <= (off_t)PAGE;
    if (nameless && all_zero(page, PAGE))
        return write_header(f);
    if (memcmp(page, MAGIC, sizeof MAGIC) != 0)
        return lh_fail(LH_ERR_WRONG_FORMAT,
            "%s is no guard's file: give the guard a file of its own", f->path);
    if (lh_get32(page + 12) != lh_crc32c(0, page, 12) ||
        !all_zero(page + HEADER_USED, PAGE - HEADER_USED))
        return lh_fail(LH_ERR_CORRUPT,
            "guard %s: its header is damaged. If no program can act with an old token any more, "
            "remove "
            "the file",
            f->path);
    if (lh_get32(page + 8) != LH_GUARD_FORMAT)
        return lh_fail(LH_ERR_WRONG_FORMAT,
            "guard %s has format %" PRIu32
            ", and this library knows format %u: use a library of the "
            "version that wrote it",
            f->path, lh_get32(page + 8), LH_GUARD_FORMAT);
    return nameless ? write_header(f) : LH_OK;
}

int lh_guard_file_same(const struct lh_guard_file *f)
{
    struct stat open, there;

    if (fstat(f->fd, &open) != 0)
        return system_failed(f, "ask for what it is");
    if (stat(f->path, &there) == 0 && there.st_ino == open.st_ino && there.st_dev == open.st_dev)
        return LH_OK;
    return lh_fail(LH_ERR_CORRUPT,
        "guard %s: the file was removed or replaced while it was open: what it has admitted would "
        "be "
        "forgotten. Open it again when no program uses the old one",
        f->path);
}

static int open_checked(struct lh_guard_file *f)
{
    struct stat at;
    uint64_t entries;

    if (fstat(f->fd, &at) != 0)
        return system_failed(f, "ask for what it is");
    if (!S_ISREG(at.st_mode))
        return lh_fail(LH_ERR_WRONG_FORMAT, "%s is no regular file", f->path);
    if (!lh_guard_file_lock(f, 0, true))
        return system_failed(f, "lock it");
    int error = lh_guard_file_same(f);
    if (error == LH_OK)
        error = check_header(f);
    if (error == LH_OK)
        error = scan(f, &entries);
    lh_guard_file_unlock(f, 0);
    return error;
}

int lh_guard_file_open(const char *path, struct lh_guard_file *f)
{
    *f = (struct lh_guard_file){.mutex = PTHREAD_MUTEX_INITIALIZER};
    f->path = lh_strdup(path);
    /* Not to wait for the other side of a pipe that lies there. */
    f->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    int error = f->fd < 0 ? system_failed(f, "open it") : LH_OK;
    char *absolute = error == LH_OK ? realpath(path, NULL) : NULL;
    if (error == LH_OK && absolute == NULL)
        error = system_failed(f, "find it");
    if (absolute != NULL) {
        free(f->path);
        f->path = absolute;
    }
    if (error == LH_OK)
        error = open_checked(f);
    if (error != LH_OK)
        lh_guard_file_close(f);
    return error;
}

void lh_guard_file_close(struct lh_guard_file *f)
{
    struct lh_guard_name *n, *next;

    HASH_ITER(hh, f->names, n, next) {
        HASH_DEL(f->names, n);
        free(n->name);
        free(n);
    }
    if (f->fd >= 0)
        (void)close(f->fd);
    free(f->path);
    f->path = NULL;
    f->fd = -1;
    pthread_mutex_destroy(&f->mutex);
}
