/* What files.c and open_files.c share. */
#pragma once

#include "runtime/files.h"

#include <pthread.h>

#define LH_CHUNK_NAME_SIZE sizeof "0123456789abcdef.chunk"
#define LH_ASIDE_NAME_SIZE sizeof "0123456789abcdef.chunk.failed"

struct entry;
struct verdict;

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
    struct verdict *verdicts; /* by id */
    uint64_t made;            /* files made so far by this process */
    uint64_t made_synced;     /* of these, how many surely have durable entries */
    bool sync_failed;
};

void lh_files_name(uint64_t id, char name[LH_CHUNK_NAME_SIZE]);

/* What a file is called whose sync has failed (FAIL-5). */
void lh_files_aside_name(uint64_t id, char name[LH_ASIDE_NAME_SIZE]);

/* openat() of a chunk's file; -1: errno. Descriptors that are only kept for later come first to one
 * that is needed now. */
int lh_files_open_name(struct lh_files *files, uint64_t id, int flags);

/* Keeps the descriptor of a file that was just made. */
void lh_files_enter_made(struct lh_files *files, uint64_t id, int fd);

/* Of a file whose name is gone: the last user closes it. */
void lh_files_forget(struct lh_files *files, uint64_t id);

/* Nobody may use any. */
void lh_files_close_all(struct lh_files *files);
