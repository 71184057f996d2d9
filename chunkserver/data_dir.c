/* Whose data directory this is; see data_dir.h.
 *
 * A disk that cannot be written keeps nobody from reading what is on it (REC-8): then the stored
 * identity stands, and what is to be written is tried again with the next change.
 *
 * IDENTITY is only ever replaced whole (written beside it, synced, the two exchange their names,
 * the directory is synced), so a crash leaves the old one or the new one. Both files stay there,
 * and open: a full disk, or a process without descriptors, keeps nothing from being written. */
#include "chunkserver/data_dir.h"

#include "base/alloc.h"
#include "runtime/directory.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDENTITY_NAME "IDENTITY"
#define IDENTITY_TEMP "IDENTITY.new"
#define LOCK_NAME     "LOCK"
#define MAGIC         "leasehold-chunkserver"
#define FORMAT        2u

struct lh_data_dir {
    char *path;
    int fd;                    /* the directory */
    int lock_fd;               /* LOCK, locked as the directory itself */
    int identity_fd, spare_fd; /* IDENTITY, and what is written next; -1: not there yet */
    bool unwritten;            /* the last attempt failed */
    struct lh_identity identity;
};

static int fail_errno(const char *what, const char *path, char *why, size_t why_size)
{
    int saved = errno;
    return lh_why(
        lh_error_from_errno(saved), why, why_size, "cannot %s %s: %s", what, path, strerror(saved));
}

static bool text_is_id(const char *text)
{
    size_t size = strlen(text);
    if (size == 0 || size > LH_IDENTITY_TEXT_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (!isalnum(c) && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

/* --- the file ----------------------------------------------------------------------------- */

/* The file then holds just this, durably. */
static bool write_all(int fd, const char *text, size_t size)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pwrite(fd, text + done, size - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        done += (size_t)n;
    }
    return ftruncate(fd, (off_t)size) == 0 && fsync(fd) == 0;
}

static int open_spare(struct lh_data_dir *dir)
{
    return openat(dir->fd, IDENTITY_TEMP, O_RDWR | O_CREAT | O_CLOEXEC, LH_FILE_MODE);
}

static void swap(struct lh_data_dir *dir)
{
    int fd = dir->identity_fd;

    dir->identity_fd = dir->spare_fd;
    dir->spare_fd = fd;
}

/* What was written takes IDENTITY's place; what was there is written next time. */
static bool put_in_place(struct lh_data_dir *dir)
{
    if (dir->identity_fd < 0 ||
        renameat2(dir->fd, IDENTITY_TEMP, dir->fd, IDENTITY_NAME, RENAME_EXCHANGE) != 0) {
        /* It is the first one, or the file system cannot exchange names. */
        if (renameat(dir->fd, IDENTITY_TEMP, dir->fd, IDENTITY_NAME) != 0)
            return false;
        if (dir->identity_fd >= 0)
            (void)close(dir->identity_fd);
        dir->identity_fd = -1;
    }
    swap(dir);
    return fsync(dir->fd) == 0;
}

/* Room for the next identity: taken while there is some. */
static void keep_room(struct lh_data_dir *dir, const char *text, size_t size)
{
    if (dir->spare_fd >= 0)
        return;
    dir->spare_fd = open_spare(dir);
    if (dir->spare_fd >= 0)
        (void)write_all(dir->spare_fd, text, size);
}

size_t lh_identity_print(const struct lh_identity *identity, char *text, size_t size)
{
    return (size_t)snprintf(text, size,
        MAGIC " %u\nserver_id %s\ncluster_id %s\nincarnation %" PRIu64 "\nmaster_term %" PRIu64
              "\nscrub %s\nreign_name %" PRIx64 "\n",
        FORMAT, identity->server_id, identity->cluster_id[0] != '\0' ? identity->cluster_id : "-",
        identity->incarnation, identity->master_term,
        identity->scrub[0] != '\0' ? identity->scrub : "-", identity->reign_name);
}

static int write_identity(
    struct lh_data_dir *dir, const struct lh_identity *identity, char *why, size_t why_size)
{
    char text[LH_IDENTITY_BYTES_MAX];
    size_t size = lh_identity_print(identity, text, sizeof text);

    if (dir->spare_fd < 0)
        dir->spare_fd = open_spare(dir);
    if (dir->spare_fd < 0)
        return fail_errno("create " IDENTITY_TEMP " in", dir->path, why, why_size);
    if (!write_all(dir->spare_fd, text, size))
        return fail_errno("write " IDENTITY_TEMP " in", dir->path, why, why_size);
    if (!put_in_place(dir))
        return fail_errno("replace " IDENTITY_NAME " in", dir->path, why, why_size);
    keep_room(dir, text, size);
    return LH_OK;
}

static int store(
    struct lh_data_dir *dir, const struct lh_identity *identity, char *why, size_t why_size)
{
    int error = write_identity(dir, identity, why, why_size);

    dir->unwritten = error != LH_OK;
    return error;
}

/* What has changed of it counts from now on, and is written with the next change if it cannot be
 * written now. */
static int change(
    struct lh_data_dir *dir, const struct lh_identity *identity, char *why, size_t why_size)
{
    dir->identity = *identity;
    return store(dir, identity, why, why_size);
}

static bool text_is_position(const char *text)
{
    return strlen(text) <= LH_IDENTITY_TEXT_MAX && text[strspn(text, "0123456789 ")] == '\0';
}

/* An older release wrote no such line; then, and where it makes no sense, a pass begins again. */
static void parse_scrub(const char *text, struct lh_identity *identity)
{
    const char *line = strstr(text, "\nscrub ");
    if (line == NULL || sscanf(line, "\nscrub %64[0-9 ]", identity->scrub) != 1)
        identity->scrub[0] = '\0';
}

/* An older release wrote no such line, and an operator may take it out. */
static void parse_reign_name(const char *text, struct lh_identity *identity)
{
    const char *line = strstr(text, "\nreign_name ");

    if (line == NULL || sscanf(line, "\nreign_name %" SCNx64, &identity->reign_name) != 1)
        identity->reign_name = 0;
}

int lh_identity_parse(
    const char *path, const char *text, struct lh_identity *identity, char *why, size_t why_size)
{
    unsigned format = 0;
    if (sscanf(text, MAGIC " %u", &format) != 1)
        return lh_why(LH_ERR_WRONG_FORMAT, why, why_size,
            "%s/" IDENTITY_NAME " is not a chunkserver's; give --data-dir another directory", path);
    if (format < FORMAT)
        return lh_why(LH_ERR_WRONG_FORMAT, why, why_size,
            "%s was written in format %u by an older release, and nothing in it is changed; start "
            "with an empty --data-dir and let the chunks be copied to it, or read it with the "
            "release that wrote it",
            path, format);
    if (format != FORMAT)
        return lh_why(LH_ERR_WRONG_FORMAT, why, why_size,
            "%s was written in format %u by another release; this one reads format %u: run the "
            "release that wrote it, or a newer one",
            path, format, FORMAT);

    char incarnation[32], master_term[32];
    const char *line = strchr(text, '\n');
    if (line == NULL ||
        sscanf(line,
            "\nserver_id %64s\ncluster_id %64s\nincarnation %31[0-9]\nmaster_term %31[0-9]\n",
            identity->server_id, identity->cluster_id, incarnation, master_term) != 4 ||
        !text_is_id(identity->server_id))
        return lh_why(LH_ERR_CORRUPT, why, why_size,
            "%s/" IDENTITY_NAME " is damaged; restore it from a backup, or set this server up anew "
            "in an empty directory and let the others' replicas be copied to it",
            path);
    parse_scrub(line, identity);
    parse_reign_name(line, identity);
    if (strcmp(identity->cluster_id, "-") == 0)
        identity->cluster_id[0] = '\0';
    errno = 0;
    identity->incarnation = strtoull(incarnation, NULL, 10);
    identity->master_term = strtoull(master_term, NULL, 10);
    if (errno != 0 || identity->incarnation == UINT64_MAX)
        return lh_why(
            LH_ERR_CORRUPT, why, why_size, "%s/" IDENTITY_NAME " has no usable incarnation", path);
    return LH_OK;
}

/* NOT_FOUND, without a sentence, when there is no IDENTITY. */
static int load(struct lh_data_dir *dir, struct lh_identity *identity, char *why, size_t why_size)
{
    char text[LH_IDENTITY_BYTES_MAX];
    int fd = openat(dir->fd, IDENTITY_NAME, O_RDWR | O_CLOEXEC);

    dir->identity_fd = fd;
    if (fd < 0)
        fd = openat(dir->fd, IDENTITY_NAME, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return LH_ERR_NOT_FOUND;
    if (fd < 0)
        return fail_errno("open " IDENTITY_NAME " in", dir->path, why, why_size);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    int saved = errno;
    if (dir->identity_fd < 0)
        (void)close(fd);
    errno = saved;
    if (n < 0)
        return fail_errno("read " IDENTITY_NAME " in", dir->path, why, why_size);
    text[n] = '\0';
    return lh_identity_parse(dir->path, text, identity, why, why_size);
}

/* --- the directory ------------------------------------------------------------------------ */

static DIR *open_chunks(const struct lh_data_dir *dir)
{
    int fd = openat(dir->fd, "chunks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *chunks = fd >= 0 ? fdopendir(fd) : NULL;
    if (chunks == NULL && fd >= 0) {
        (void)close(fd);
        errno = EMFILE;
    }
    return chunks;
}

/* With which the disk is probed: not a replica's. */
#define PROBE_NAME "0000000000000000.chunk"

/* A directory without IDENTITY may be new, or one whose IDENTITY was lost. In the latter its
 * incarnations would start again from 1 and old ones come back to life: it is refused. */
static bool has_chunks(const struct lh_data_dir *dir)
{
    DIR *chunks = open_chunks(dir);
    bool any = false;
    if (chunks == NULL)
        return errno != ENOENT;
    for (const struct dirent *entry; !any && (entry = readdir(chunks)) != NULL;)
        any = entry->d_name[0] != '.' && strcmp(entry->d_name, PROBE_NAME) != 0;
    (void)closedir(chunks);
    return any;
}

static int in_use(const struct lh_data_dir *dir, char *why, size_t why_size)
{
    return lh_why(LH_ERR_IN_USE, why, why_size,
        "the data directory %s is in use by another process; stop that one, or give this server a "
        "directory of its own (--data-dir)",
        dir->path);
}

static int open_locked(struct lh_data_dir *dir, char *why, size_t why_size)
{
    if (mkdir(dir->path, LH_DIRECTORY_MODE) != 0 && errno != EEXIST)
        return fail_errno("create the data directory", dir->path, why, why_size);
    dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd < 0)
        return fail_errno("open the data directory", dir->path, why, why_size);
    static const char *const ours[] = {LOCK_NAME, IDENTITY_NAME, IDENTITY_TEMP, "chunks", NULL};
    char stranger[256];
    if (faccessat(dir->fd, IDENTITY_NAME, F_OK, 0) != 0 &&
        lh_directory_has_stranger(dir->fd, ours, stranger, sizeof stranger))
        return lh_why(LH_ERR_WRONG_FORMAT, why, why_size,
            "%s holds '%s', which is not a chunkserver's; give --data-dir an empty directory",
            dir->path, stranger);
    /* LOCK besides: older releases lock that file alone, which may have been deleted. */
    if (lh_directory_lock(dir->fd) != LH_OK)
        return in_use(dir, why, why_size);
    dir->lock_fd = openat(dir->fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC, LH_FILE_MODE);
    int saved = errno;
    if (dir->lock_fd < 0)
        dir->lock_fd = openat(dir->fd, LOCK_NAME, O_RDONLY | O_CLOEXEC);
    errno = saved;
    if (dir->lock_fd < 0)
        return fail_errno("create " LOCK_NAME " in", dir->path, why, why_size);
    if (flock(dir->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return in_use(dir, why, why_size);
        return fail_errno("lock " LOCK_NAME " in", dir->path, why, why_size);
    }
    lh_directory_close_to_others(dir->fd, ours);
    return LH_OK;
}

/* `name`: NULL if it has been given none. */
static int identify(
    struct lh_data_dir *dir, const char *server_id, const char *name, char *why, size_t why_size)
{
    struct lh_identity identity = {0};
    int error = load(dir, &identity, why, why_size);
    bool stored = error == LH_OK;
    if (error == LH_ERR_NOT_FOUND) {
        if (has_chunks(dir))
            return lh_why(LH_ERR_WRONG_FORMAT, why, why_size,
                "%s holds chunks but no " IDENTITY_NAME
                "; restore that file, or give --data-dir an "
                "empty directory",
                dir->path);
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return fail_errno("draw a random server id for", dir->path, why, why_size);
        (void)snprintf(identity.server_id, sizeof identity.server_id, "cs-%016" PRIx64, random);
    } else if (error != LH_OK) {
        return error;
    }
    /* A name that no master has accepted is nobody's. */
    if (name != NULL && identity.cluster_id[0] == '\0' && !has_chunks(dir))
        (void)snprintf(identity.server_id, sizeof identity.server_id, "%s", name);
    if (server_id != NULL && strcmp(identity.server_id, server_id) != 0)
        return lh_why(LH_ERR_WRONG_IDENTITY, why, why_size,
            "the data directory %s belongs to server %s, not to %s; check --data-dir and "
            "--server-id",
            dir->path, identity.server_id, server_id);
    dir->identity = identity;
    identity.incarnation++;
    error = store(dir, &identity, why, why_size);
    if (error == LH_OK)
        dir->identity = identity;
    /* REC-8: then this process has the incarnation of the one before, whose lock is free. A
     * shortage says nothing of the disk (FAIL-6), and a new directory needs its identity. */
    return stored && error != LH_ERR_SHORTAGE ? LH_OK : error;
}

int lh_data_dir_open(const char *path, const char *server_id, const char *certified,
    struct lh_data_dir **out, char *why, size_t why_size)
{
    const char *name = server_id != NULL                            ? server_id
                       : certified != NULL && text_is_id(certified) ? certified
                                                                    : NULL;

    if (server_id != NULL && !text_is_id(server_id))
        return lh_why(LH_ERR_INVALID_ARGUMENT, why, why_size,
            "'%s' is no server id: 1 to %u letters, digits, '.', '_' or '-'", server_id,
            LH_IDENTITY_TEXT_MAX);

    struct lh_data_dir *dir = lh_alloc(sizeof *dir);
    dir->path = lh_strdup(path);
    dir->fd = dir->lock_fd = dir->identity_fd = dir->spare_fd = -1;
    int error = open_locked(dir, why, why_size);
    if (error == LH_OK)
        error = identify(dir, server_id, name, why, why_size);
    if (error == LH_OK && !dir->unwritten)
        why[0] = '\0';
    if (error != LH_OK) {
        lh_data_dir_close(dir);
        return error;
    }
    *out = dir;
    return LH_OK;
}

const struct lh_identity *lh_data_dir_identity(const struct lh_data_dir *dir)
{
    return &dir->identity;
}

bool lh_data_dir_unwritten(const struct lh_data_dir *dir)
{
    return dir->unwritten;
}

int lh_data_dir_join(struct lh_data_dir *dir, const char *cluster_id, char *why, size_t why_size)
{
    if (strcmp(dir->identity.cluster_id, cluster_id) == 0)
        return LH_OK;
    if (dir->identity.cluster_id[0] != '\0')
        return lh_why(LH_ERR_WRONG_IDENTITY, why, why_size,
            "the data directory %s belongs to cluster %s, the master is of cluster %s; check "
            "--master and --data-dir",
            dir->path, dir->identity.cluster_id, cluster_id);
    if (!text_is_id(cluster_id))
        return lh_why(LH_ERR_MALFORMED, why, why_size, "the master sent no usable cluster id");
    struct lh_identity identity = dir->identity;
    (void)snprintf(identity.cluster_id, sizeof identity.cluster_id, "%s", cluster_id);
    return change(dir, &identity, why, why_size);
}

int lh_data_dir_note_master_term(
    struct lh_data_dir *dir, uint64_t master_term, uint64_t reign_name, char *why, size_t why_size)
{
    struct lh_identity identity = dir->identity;

    if (master_term < identity.master_term ||
        (master_term == identity.master_term && reign_name == identity.reign_name))
        return LH_OK;
    identity.master_term = master_term;
    identity.reign_name = reign_name;
    return change(dir, &identity, why, why_size);
}

int lh_data_dir_note_scrub(
    struct lh_data_dir *dir, const char *position, char *why, size_t why_size)
{
    struct lh_identity identity = dir->identity;

    if (!text_is_position(position))
        return lh_why(LH_ERR_MALFORMED, why, why_size, "'%s' is no position of a scrub", position);
    (void)snprintf(identity.scrub, sizeof identity.scrub, "%s", position);
    return change(dir, &identity, why, why_size);
}

uint64_t lh_data_dir_used(const struct lh_data_dir *dir)
{
    DIR *chunks = open_chunks(dir);
    uint64_t used = 0;
    if (chunks == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(chunks)) != NULL;) {
        struct stat s;
        if (fstatat(dirfd(chunks), entry->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(s.st_mode))
            used += (uint64_t)s.st_blocks * 512;
    }
    (void)closedir(chunks);
    return used;
}

void lh_data_dir_close(struct lh_data_dir *dir)
{
    if (dir == NULL)
        return;
    if (dir->spare_fd >= 0)
        (void)close(dir->spare_fd);
    if (dir->identity_fd >= 0)
        (void)close(dir->identity_fd);
    if (dir->lock_fd >= 0)
        (void)close(dir->lock_fd);
    if (dir->fd >= 0)
        (void)close(dir->fd);
    free(dir->path);
    free(dir);
}
