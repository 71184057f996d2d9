/* What files.c and open_files.c share. */
#pragma once

#include "runtime/files.h"

#include <pthread.h>

#define LH_FILE_NAME_SIZE sizeof "0123456789abcdef.chunk.failed"

struct entry;
struct doubt;
struct fresh;

struct idle {
    struct entry *newest, *oldest; /* by last use */
    unsigned count;
};

struct lh_files {
    int directory;
    unsigned open_max;

    pthread_mutex_t lock;
    struct entry *open; /* by id */
    unsigned open_count;
    struct idle clean, unsynced;
    struct doubt *doubts; /* doubts.c, by id */
    int marks;            /* doubts.c: the directory of marks, or -1 */
    char mark_prefix[64]; /* of this directory's */

    /* files.c: names of files that this process has made. */
    uint64_t made;           /* so far */
    struct fresh *fresh;     /* those whose names may not be durable, by id */
    uint64_t in_doubt;       /* of these, up to that one they never surely are: a sync has failed */
    pthread_mutex_t syncing; /* taken before `lock` */
    bool named;              /* the directory's own name is durable; with `syncing` */
};

/* Also of a new file (LH_NEW_FILE). */
void lh_files_name(uint64_t id, char name[LH_FILE_NAME_SIZE]);

/* What a file is called whose sync has failed (FAIL-5). */
void lh_files_failed_name(uint64_t id, char name[LH_FILE_NAME_SIZE]);

/* openat() of a chunk's file; -1: errno. Descriptors that are only kept for later come first to one
 * that is needed now. */
int lh_files_open_name(struct lh_files *files, uint64_t id, int flags);

/* ---- doubts.c: files of which nobody knows what the disk has (FAIL-5, FAIL-5a). With the lock
 * held, but for the first two. */

/* Finds the marks that processes before have left. */
void lh_doubts_init(struct lh_files *files);
void lh_doubts_deinit(struct lh_files *files);
/* A sync of it has failed. The mark outlives this process, as what the kernel shows of the file
 * does: the file's name, or where that cannot be changed one below /run. */
void lh_doubts_add(struct lh_files *files, uint64_t id, int error);
/* It was found with its mark, or its pages could not be written by a process before; the caller
 * will say so to its user. False: it was said already. */
bool lh_doubts_found(struct lh_files *files, uint64_t id);
/* OK, or how a sync of it ended. */
int lh_doubts_error(const struct lh_files *files, uint64_t id);
/* Is there a mark of it below /run? */
bool lh_doubts_marked(const struct lh_files *files, uint64_t id);
/* It is gone, or another file has taken its place. */
void lh_doubts_forget(struct lh_files *files, uint64_t id);

/* Its name may not be durable yet. With the lock held. */
void lh_files_note_made(struct lh_files *files, uint64_t id);

/* Keeps the descriptor of a file that was just made. */
void lh_files_enter_made(struct lh_files *files, uint64_t id, int fd);

/* Of a file whose name is gone: the last user closes it. */
void lh_files_forget(struct lh_files *files, uint64_t id);
/* With the lock held. What is returned is then closed without it, or NULL. */
struct entry *lh_files_forget_locked(struct lh_files *files, uint64_t id);
void lh_files_close(struct entry *e);

/* Nobody may use any. */
void lh_files_close_all(struct lh_files *files);
