/* Threads of a product: the one place where they are started. A process may be out of tasks or of
 * memory for a stack at any time; that is an error of the world, and whoever starts a thread says
 * what becomes of it. */
#pragma once

#include "base/error.h"

#include <pthread.h>
#include <stddef.h>

/* What a sentence of a shortage ends with. */
#define LH_THREAD_LIMITS                                                                           \
    "raise the limit of tasks (pids.max, TasksMax=, ulimit -u) or of address space (ulimit -v)"
#define LH_DESCRIPTOR_LIMIT "raise the limit of open files (LimitNOFILE=, ulimit -n)"

/* Starts a thread that takes no signals: they are the program's. Those of the thread's own faults
 * are left as they are, for whoever reports crashes. `thread` NULL: it is detached.
 *   SYSTEM  there is no thread to be had: `why` has a sentence; `*thread` is not set. It may be
 *           tried again later */
LH_MUST_USE int lh_thread_start(
    pthread_t *thread, void *(*run)(void *arg), void *arg, char *why, size_t why_size);

/* Whether so many threads and descriptors can be had at this moment, for a library that ends the
 * process without them. Errors as lh_thread_start(). */
LH_MUST_USE int lh_threads_probe(
    unsigned threads, unsigned descriptors, char *why, size_t why_size);
