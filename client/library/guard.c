/* Guards (TOK-1): a name is entered by one thread of one process at a time, and only with a
 * token that is not lower than one before it.
 *
 * Threads of one opening of the file wait at a condition variable. Openings exclude each other
 * by a lock of the kernel on one byte of the file, which lies far behind its end and is chosen
 * by the name. Such a lock ends when its process does. It cannot be waited for with a timeout:
 * without one the kernel wakes us; with one we look again after 1 ms, 2 ms, 4 ms, up to LOOK_MS. */
#include "client/library/guard_file.h"

#include "base/alloc.h"
#include "client/library/library.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/library/leasehold_leases.h"

#define LOOK_MS 16u

struct lh_guard {
    struct lh_guard_file file;
    pthread_cond_t left; /* a name is not held any more; with file.mutex */
    pid_t process;       /* its child would share the kernel's locks with it */
};

int lh_guard_open(const char *path, struct lh_guard **guard)
{
    if (path == NULL || guard == NULL)
        return lh_missing(path == NULL ? "path" : "guard");
    struct lh_guard *g = lh_alloc(sizeof *g);
    int error = lh_guard_file_open(path, &g->file);
    if (error != LH_OK) {
        free(g);
        return error;
    }
    g->process = getpid();
    lh_cond_init(&g->left);
    *guard = g;
    return LH_OK;
}

void lh_guard_close(struct lh_guard *g)
{
    if (g == NULL)
        return;
    lh_guard_file_close(&g->file);
    pthread_cond_destroy(&g->left);
    free(g);
}

/* FNV-1a; the file does not reach to 2^62. Two names of one guard have the same byte by a chance
 * of 2^-62. */
static uint64_t byte_of(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    return UINT64_C(1) << 62 | hash >> 2;
}

/* ---- Waiting ---- */

struct wait {
    uint64_t timeout_ms;
    struct timespec begun;
};

static uint64_t waited_ms(const struct wait *w)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms =
        (int64_t)(now.tv_sec - w->begun.tv_sec) * 1000 + (now.tv_nsec - w->begun.tv_nsec) / 1000000;
    return ms > 0 ? (uint64_t)ms : 0;
}

static int too_late(const char *name, const struct wait *w)
{
    return lh_fail(LH_ERR_DEADLINE_EXCEEDED,
        "'%s': another act has held the guard for %" PRIu64 " ms", name, waited_ms(w));
}

/* Among the threads of this opening. */
static int hold_here(
    struct lh_guard *g, const char *name, struct wait *w, struct lh_guard_name **held)
{
    int error = LH_OK;

    pthread_mutex_lock(&g->file.mutex);
    struct lh_guard_name *n = lh_guard_file_name(&g->file, name);
    if (n == NULL)
        error = lh_fail(LH_ERR_NO_MEMORY,
            "guard %s has all the names that it can have: use several guards", g->file.path);
    while (error == LH_OK && n->held)
        if (!lh_cond_wait(&g->left, &g->file.mutex, w->timeout_ms, &w->begun) && n->held)
            error = too_late(name, w);
    if (error == LH_OK)
        n->held = true;
    pthread_mutex_unlock(&g->file.mutex);
    *held = n;
    return error;
}

static void let_go_here(struct lh_guard *g, struct lh_guard_name *n)
{
    pthread_mutex_lock(&g->file.mutex);
    n->held = false;
    pthread_cond_broadcast(&g->left);
    pthread_mutex_unlock(&g->file.mutex);
}

/* Among all openings of the file. */
static int hold_there(const struct lh_guard *g, const char *name, const struct wait *w)
{
    bool patient = w->timeout_ms == LH_NO_TIMEOUT;

    for (unsigned pause_ms = 1; !lh_guard_file_lock(&g->file, byte_of(name), patient);) {
        if (errno != EAGAIN)
            return lh_fail(
                LH_ERR_SYSTEM, "guard %s: cannot lock it: %s", g->file.path, strerror(errno));
        uint64_t waited = waited_ms(w);
        if (waited >= w->timeout_ms)
            return too_late(name, w);
        uint64_t left = w->timeout_ms - waited;
        struct timespec pause = {.tv_nsec = (long)(left < pause_ms ? left : pause_ms) * 1000000};
        (void)nanosleep(&pause, NULL);
        pause_ms = pause_ms < LOOK_MS ? pause_ms * 2 : LOOK_MS;
    }
    return LH_OK;
}

/* ---- Entering ---- */

static int check(const struct lh_guard *g, const char *name, uint64_t token)
{
    if (g == NULL || name == NULL)
        return lh_missing(g == NULL ? "guard" : "name");
    if (name[0] != '/' || strlen(name) > LH_NAME_LENGTH_MAX)
        return lh_fail(LH_ERR_INVALID_ARGUMENT, "a name begins with / and has at most %u bytes",
            LH_NAME_LENGTH_MAX);
    if (token == 0)
        return lh_fail(LH_ERR_INVALID_ARGUMENT, "'%s': 0 is no token", name);
    if (g->process != getpid())
        return lh_fail(
            LH_ERR_CLOSED, "guard %s was opened before fork(): open it in the child", g->file.path);
    return LH_OK;
}

int lh_guard_enter(struct lh_guard *g, const char *name, uint64_t token, uint64_t timeout_ms)
{
    struct wait w = {.timeout_ms = timeout_ms};
    struct lh_guard_name *n;
    int error = check(g, name, token);

    if (error != LH_OK)
        return error;
    (void)clock_gettime(CLOCK_MONOTONIC, &w.begun);
    error = hold_here(g, name, &w, &n);
    if (error != LH_OK)
        return error;
    error = hold_there(g, name, &w);
    if (error == LH_OK) {
        error = lh_guard_file_same(&g->file);
        if (error == LH_OK)
            error = lh_guard_file_admit(&g->file, n, token);
        if (error != LH_OK)
            lh_guard_file_unlock(&g->file, byte_of(name));
    }
    if (error != LH_OK)
        let_go_here(g, n);
    return error;
}

void lh_guard_leave(struct lh_guard *g, const char *name)
{
    struct lh_guard_name *n = NULL;

    if (g == NULL || name == NULL || g->process != getpid())
        return;
    pthread_mutex_lock(&g->file.mutex);
    HASH_FIND_STR(g->file.names, name, n);
    bool held = n != NULL && n->held;
    pthread_mutex_unlock(&g->file.mutex);
    if (!held)
        return;
    lh_guard_file_unlock(&g->file, byte_of(name));
    let_go_here(g, n);
}
