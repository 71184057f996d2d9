#include "runtime/thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Of a probe. */
#define THREADS_MAX     128
#define DESCRIPTORS_MAX 16
/* A thread that was joined counts for a moment still: how often that is looked at. */
#define LOOKS   1000
#define LOOK_NS 100000

static int create(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t kept, before;

    (void)sigfillset(&kept);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        (void)sigdelset(&kept, faults[i]);
    (void)pthread_sigmask(SIG_BLOCK, &kept, &before);
    int error = pthread_create(thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int lh_thread_start(
    pthread_t *thread, void *(*run)(void *arg), void *arg, char *why, size_t why_size)
{
    pthread_t started;
    int error = create(&started, run, arg);

    if (error != 0)
        return lh_why(LH_ERR_SYSTEM, why, why_size, "cannot start a thread: %s; " LH_THREAD_LIMITS,
            strerror(error));
    if (thread != NULL)
        *thread = started;
    else
        (void)pthread_detach(started);
    return LH_OK;
}

static void *wait_for_release(void *arg)
{
    pthread_mutex_t *held = arg;

    (void)pthread_mutex_lock(held);
    (void)pthread_mutex_unlock(held);
    return NULL;
}

/* With what lies beside them in that directory, which is always the same; 0: not known. */
static nlink_t threads_now(void)
{
    struct stat all;

    return stat("/proc/self/task", &all) == 0 ? all.st_nlink : 0;
}

static void wait_until_gone(nlink_t before)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};

    for (int i = 0; i < LOOKS && threads_now() > before; i++)
        (void)nanosleep(&pause, NULL);
}

static int probe_threads(unsigned count, char *why, size_t why_size)
{
    pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[THREADS_MAX];
    nlink_t before = threads_now();
    unsigned started = 0;
    int error = LH_OK;

    (void)pthread_mutex_lock(&held);
    while (error == LH_OK && started < count) {
        error = lh_thread_start(&threads[started], wait_for_release, &held, why, why_size);
        started += error == LH_OK;
    }
    (void)pthread_mutex_unlock(&held);
    while (started > 0)
        (void)pthread_join(threads[--started], NULL);
    wait_until_gone(before);
    return error;
}

static int probe_descriptors(unsigned count, char *why, size_t why_size)
{
    int fds[DESCRIPTORS_MAX], error = LH_OK;
    unsigned opened = 0;

    while (error == LH_OK && opened < count) {
        fds[opened] = eventfd(0, EFD_CLOEXEC);
        if (fds[opened] < 0)
            error = lh_why(LH_ERR_SYSTEM, why, why_size,
                "cannot open a descriptor: %s; " LH_DESCRIPTOR_LIMIT, strerror(errno));
        else
            opened++;
    }
    while (opened > 0)
        (void)close(fds[--opened]);
    return error;
}

int lh_threads_probe(unsigned threads, unsigned descriptors, char *why, size_t why_size)
{
    threads = threads < THREADS_MAX ? threads : THREADS_MAX;
    descriptors = descriptors < DESCRIPTORS_MAX ? descriptors : DESCRIPTORS_MAX;
    int error = probe_threads(threads, why, why_size);
    return error == LH_OK ? probe_descriptors(descriptors, why, why_size) : error;
}
