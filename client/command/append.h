/* `leasehold append`: what its two halves share. */
#pragma once

#include "client/command/command.h"

#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#define LH_APPEND_COMMAND     "append"
#define LH_APPEND_INPUT_BYTES (1u << 20) /* at first: the buffer grows to the longest record */
#define LH_APPEND_PROGRESS_MS 200u

struct lh_append_options {
    struct lh_command_common common;
    struct lh_command_file file;
    const char *delimiter_text;
    uint8_t delimiter;
    bool length_prefixed, create, positions, quiet;
    struct lh_duration give_up;
    uint64_t batch_bytes, memory_bytes;
    const char *lock; /* NULL: it appends without one */
    uint64_t token;
};

/* The lock of --lock; with a token that is given another process holds it. */
struct lh_append_lock {
    struct lh_session *session; /* NULL: nothing to release */
    struct lh_lock lock;
};

struct lh_append_work {
    const struct lh_append_options *options;
    struct lh_cluster *cluster;
    struct lh_appender *appender;
    const char *path;
    uint32_t record_max;

    /* Input not yet taken by the appender: bytes [begin, end) of `buffer`. */
    uint8_t *buffer;
    size_t begin, end, capacity;
    const char *input_name;
    uint64_t records_in_input; /* taken from this input, for messages */

    bool show_progress;
    struct timespec started;
    uint64_t shown_ms;
    uint64_t stored, stored_ms; /* so much was stored when last looked, and when it became that */
    uint64_t tell_ms;           /* standing still for so long is told next */
};

/* append.c */

/* The first SIGINT or SIGTERM ends the input, so that what was read is stored and reported; a
 * second one ends the process. 0: none came. */
extern volatile sig_atomic_t lh_append_interrupted;
extern atomic_bool lh_append_catches_signals;
/* From now on. May be called again. */
void lh_append_catch_signals(void);

/* Now and then; says also that nothing is stored. */
void lh_append_show_progress(struct lh_append_work *a);

/* append_input.c: from bytes to records. Returns the exit code. */

/* `names` ends in NULL; with none it is standard input. */
int lh_append_inputs(struct lh_append_work *a, const char **names);

/* append_lock.c */

/* Returns LH_EXIT_OK, or the exit code. Without --lock it has token 0. */
int lh_append_lock_open(struct lh_append_lock *lock, const struct lh_append_options *options,
    struct lh_cluster *cluster);
void lh_append_lock_close(struct lh_append_lock *lock);

/* It was cancelled, or is lost. */
bool lh_append_lock_ended(void);
