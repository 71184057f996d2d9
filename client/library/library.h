/* What the library's files share: a cluster handle, waiting for calls, the callback thread,
 * errors. */
#pragma once

/* Before leasehold.h, whose error macros would otherwise meet this enum's definition. */
#include "base/error.h"
#include "base/time.h"

#include "client/core/client.h"
#include "client/library/leasehold.h"
#include "proto/leasehold.pb-c.h"
#include "runtime/loop.h"

#include <pthread.h>

/* Something to be done in the callback thread. Lives inside its owner. */
struct lh_task {
    struct lh_task *next;
    void (*run)(struct lh_task *task);
};

struct lh_cluster {
    struct lh_client *core;
    struct lh_loop *loop;
    struct lh_cluster *prev, *next; /* process.c: of this process */
    unsigned process;               /* that opened it */

    /* The callback thread: runs tasks one at a time, in order. Program code that blocks or calls
     * back into the library thus never stands in the way of the network. */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct lh_task *tasks, **tasks_end;
    bool stopping;

    /* Of all its appenders: what they hold in batches that are on their way. */
    uint64_t memory_max;
    _Atomic uint64_t memory;
    _Atomic unsigned appenders;

    pthread_mutex_t guard; /* of what the core lets other threads read (leases.h) */

    struct lh_capabilities *capabilities;

    bool looks_up; /* files, under leases (VAL-7) */

    char *masters; /* as they were given */
    void (*on_waiting)(void *arg, const char *text);
    void *on_waiting_arg;
};

void lh_cluster_task(struct lh_cluster *cluster, struct lh_task *task);

/* Whether this is the callback thread, of any cluster. */
bool lh_in_callback(void);
/* This thread has just become another process's. */
void lh_leave_callback(void);

/* Remembers the sentence for lh_last_error() and returns `error`. */
int lh_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Feeds the call and waits for its completion; its text goes to lh_last_error(). */
int lh_call_wait(struct lh_cluster *cluster, struct lh_call *call);

/* Feeds all of them at once and waits until each is complete, which their deadlines bound: nobody
 * is told of the waiting. `errors` gets what each completed with; their texts are in the calls. */
void lh_calls_wait(
    struct lh_cluster *cluster, struct lh_call *const *calls, int *errors, size_t count);

/* Of the clock that the core's deadlines are in. */
struct lh_instant lh_deadline(uint64_t timeout_ms);

/* A condition variable whose timed waits use CLOCK_MONOTONIC. */
void lh_cond_init(pthread_cond_t *cond);

/* Waits until signalled or until `timeout_ms` after `*begun`, which the first call sets when it is
 * zero. False when the time is over. */
bool lh_cond_wait(
    pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t timeout_ms, struct timespec *begun);

/* ---- process.c: fork(). What takes a mutex or says something to the core asks first. */

/* Before the first thing that the transport is used for. CLOSED: this process is the child of one
 * that had used gRPC. */
int lh_process_enter(void);
/* A cluster has begun, and is about to end, in this process. */
void lh_process_took(struct lh_cluster *cluster);
void lh_process_gave(struct lh_cluster *cluster);
/* It was opened by a process that this one was forked from. */
bool lh_is_inherited(const struct lh_cluster *cluster);
/* LH_OK; CLOSED, if it was. */
int lh_process_check(const struct lh_cluster *cluster);

/* sessions.c: what a person sees of this process. Of such a text, and a NUL. */
#define LH_SHOWN_BYTES 129u
void lh_describe_process(char host[LH_SHOWN_BYTES], char process[LH_SHOWN_BYTES]);

/* files.c: what asking the master takes. */

/* Asks, for `timeout_ms` in all; the master itself may wait for `patience_ms` before it answers.
 * `*reply` (a pointer to a pointer to the reply's type) is to be freed with lh_free_reply(), also
 * after an error; NULL: nobody answered. */
int lh_ask(struct lh_cluster *cluster, enum lh_method method, const ProtobufCMessage *request,
    uint64_t patience_ms, uint64_t timeout_ms, void *reply);
void lh_free_reply(void *reply);

/* `s` for a message that is only packed: protobuf-c never writes through its strings. */
char *lh_wire_string(const char *s);

/* INVALID_ARGUMENT: "WHAT is NULL". */
int lh_missing(const char *what);

/* Frees the reply, which lacks its main part. */
int lh_bad_reply(void *reply);

void lh_copy_file(struct lh_file_info *to, const Leasehold__FileInfo *from);
void lh_copy_chunk(struct lh_chunk_info *to, const Leasehold__ChunkInfo *from);
void lh_free_chunk(struct lh_chunk_info *chunk);

/* pending.c */
void lh_submit_completed(struct lh_submit_call *call, int error);
