/* Preloaded below a program: takes threads or descriptors away from it.
 *
 *     SHORTAGE=CALL:N        the N-th such call fails, of those of the program itself or of
 *                            libleasehold: what another library makes of it is its own affair
 *     SHORTAGE=CALL:N:on     all from the N-th on fail
 *     SHORTAGE=tasks:N       there are at most N threads beside the first one, whoever starts them:
 *                            as with the cgroup's pids.max
 *
 * CALL: thread (pthread_create), epoll, event or timer (the descriptors of each). The first failure
 * makes the file SHORTAGE_HIT, so that a test knows that there was one. A program ends the shortage
 * by unsetting SHORTAGE. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static _Atomic long calls, tasks;

static void note_hit(void)
{
    const char *path = getenv("SHORTAGE_HIT");
    int fd = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
}

static bool is_ours(const void *caller)
{
    Dl_info info;

    if (dladdr(caller, &info) == 0 || info.dli_fname == NULL)
        return false;
    const char *name = strrchr(info.dli_fname, '/');
    name = name == NULL ? info.dli_fname : name + 1;
    return strncmp(name, "lib", 3) != 0 || strncmp(name, "libleasehold", 12) == 0;
}

static bool fails(const char *call, const void *caller)
{
    const char *rule = getenv("SHORTAGE");
    size_t size = strlen(call);

    if (rule == NULL || strncmp(rule, call, size) != 0 || rule[size] != ':' || !is_ours(caller))
        return false;
    char *rest;
    long at = strtol(rule + size + 1, &rest, 10), n = atomic_fetch_add(&calls, 1) + 1;
    if (n != at && (n < at || strcmp(rest, ":on") != 0))
        return false;
    note_hit();
    return true;
}

/* The function that stands behind ours. */
#define BEHIND(name)                                                                               \
    static __typeof__(&name) behind;                                                               \
    if (behind == NULL)                                                                            \
    behind = (__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name)

struct task {
    void *(*run)(void *arg);
    void *arg;
};

static void task_ended(void *arg)
{
    (void)arg;
    atomic_fetch_sub(&tasks, 1);
}

static void *run_task(void *arg)
{
    struct task task = *(struct task *)arg;
    void *result;

    free(arg);
    pthread_cleanup_push(task_ended, NULL);
    result = task.run(task.arg);
    pthread_cleanup_pop(1);
    return result;
}

/* With NULL: there is no limit. */
static const char *tasks_max(void)
{
    const char *rule = getenv("SHORTAGE");

    return rule != NULL && strncmp(rule, "tasks:", 6) == 0 ? rule + 6 : NULL;
}

int pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *arg), void *arg)
{
    BEHIND(pthread_create);
    if (fails("thread", __builtin_return_address(0)))
        return EAGAIN;
    const char *most = tasks_max();
    if (atomic_fetch_add(&tasks, 1) >= (most == NULL ? 1000000 : strtol(most, NULL, 10))) {
        atomic_fetch_sub(&tasks, 1);
        note_hit();
        return EAGAIN;
    }
    struct task *task = malloc(sizeof *task);
    *task = (struct task){run, arg};
    int error = behind(thread, attributes, run_task, task);
    if (error != 0) {
        atomic_fetch_sub(&tasks, 1);
        free(task);
    }
    return error;
}

#define DESCRIPTOR(call, name, parameters, arguments)                                              \
    int name parameters                                                                            \
    {                                                                                              \
        BEHIND(name);                                                                              \
        if (fails(call, __builtin_return_address(0))) {                                            \
            errno = EMFILE;                                                                        \
            return -1;                                                                             \
        }                                                                                          \
        return behind arguments;                                                                   \
    }
DESCRIPTOR("epoll", epoll_create1, (int flags), (flags))
DESCRIPTOR("event", eventfd, (unsigned count, int flags), (count, flags))
DESCRIPTOR("timer", timerfd_create, (int clock, int flags), (clock, flags))
