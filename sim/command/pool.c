#include "sim/command/pool.h"

#include "sim/command/host.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct worker {
    pid_t pid;     /* 0: there is none */
    int socket;    /* tasks go in, results come out */
    int stderr_fd; /* a file in memory: what it said before it died */
    bool busy;
    uint64_t since_ns; /* host time at which it got its task */
    void *task;
};

struct lh_sim_pool {
    struct lh_sim_pool_config config;
    struct worker workers[LH_SIM_POOL_JOBS_MAX];
    void *result, *task; /* of what is over */
    char crash[512];
};

/* False at the end of the stream, or on an error. */
static bool read_all(int fd, void *to, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, (char *)to + done, size - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return false;
    }
    return true;
}

static bool write_all(int fd, const void *from, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = send(fd, (const char *)from + done, size - done, MSG_NOSIGNAL);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            return false;
    }
    return true;
}

/* ---- A worker's process ---- */

_Noreturn static void serve(const struct lh_sim_pool_config *config, int socket)
{
    void *task = lh_alloc(config->task_size);
    void *result = lh_alloc(config->result_size);

    while (read_all(socket, task, config->task_size)) {
        memset(result, 0, config->result_size);
        config->work(config->arg, task, result);
        if (!write_all(socket, result, config->result_size))
            break;
    }
    /* The parent's buffered output is not ours to flush. */
    _exit(0);
}

static bool start_worker(struct lh_sim_pool *pool, struct worker *w)
{
    int sockets[2];
    pid_t parent = getpid();

    w->pid = 0;
    w->busy = false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
        return false;
    w->stderr_fd = memfd_create("leasehold-sim-stderr", MFD_CLOEXEC);
    pid_t pid = w->stderr_fd < 0 ? -1 : fork();
    if (pid == 0) {
        /* Ctrl-C is for the parent, which ends its workers itself. */
        (void)signal(SIGINT, SIG_IGN);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        (void)dup2(w->stderr_fd, STDERR_FILENO);
        for (size_t i = 0; i < pool->config.jobs; i++)
            if (pool->workers[i].pid != 0)
                (void)close(pool->workers[i].socket);
        (void)close(sockets[0]);
        serve(&pool->config, sockets[1]);
    }
    int error = errno;
    (void)close(sockets[1]);
    if (pid < 0) {
        (void)close(sockets[0]);
        if (w->stderr_fd >= 0)
            (void)close(w->stderr_fd);
        errno = error;
        return false;
    }
    w->pid = pid;
    w->socket = sockets[0];
    return true;
}

static int end_worker(struct worker *w)
{
    int status = 0;

    (void)kill(w->pid, SIGKILL);
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
        ;
    (void)close(w->socket);
    (void)close(w->stderr_fd);
    w->pid = 0;
    w->busy = false;
    return status;
}

/* ---- The pool ---- */

void lh_sim_jobs_default(uint64_t *jobs)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    if (*jobs == 0)
        *jobs = processors < 1                      ? 1
                : processors > LH_SIM_POOL_JOBS_MAX ? LH_SIM_POOL_JOBS_MAX
                                                    : (uint64_t)processors;
}

struct lh_sim_pool *lh_sim_pool_create(const struct lh_sim_pool_config *config)
{
    LH_ASSERT(config->jobs >= 1 && config->jobs <= LH_SIM_POOL_JOBS_MAX);
    struct lh_sim_pool *pool = lh_alloc(sizeof *pool);

    pool->config = *config;
    pool->result = lh_alloc(config->result_size);
    pool->task = lh_alloc(config->task_size);
    for (size_t i = 0; i < config->jobs; i++) {
        pool->workers[i].task = lh_alloc(config->task_size);
        if (!start_worker(pool, &pool->workers[i])) {
            int error = errno;
            lh_sim_pool_destroy(pool);
            errno = error;
            return NULL;
        }
    }
    return pool;
}

void lh_sim_pool_destroy(struct lh_sim_pool *pool)
{
    for (size_t i = 0; i < pool->config.jobs; i++) {
        if (pool->workers[i].pid != 0)
            (void)end_worker(&pool->workers[i]);
        free(pool->workers[i].task);
    }
    free(pool->result);
    free(pool->task);
    free(pool);
}

size_t lh_sim_pool_busy(const struct lh_sim_pool *pool)
{
    size_t busy = 0;

    for (size_t i = 0; i < pool->config.jobs; i++)
        busy += pool->workers[i].busy;
    return busy;
}

bool lh_sim_pool_give(struct lh_sim_pool *pool, const void *task)
{
    for (size_t i = 0; i < pool->config.jobs; i++) {
        struct worker *w = &pool->workers[i];
        if (w->busy || (w->pid == 0 && !start_worker(pool, w)))
            continue;
        /* An idle worker that is gone all the same (the system ran out of memory) is replaced. */
        if (!write_all(w->socket, task, pool->config.task_size)) {
            (void)end_worker(w);
            if (!start_worker(pool, w) || !write_all(w->socket, task, pool->config.task_size))
                continue;
        }
        memcpy(w->task, task, pool->config.task_size);
        w->busy = true;
        w->since_ns = lh_sim_host_ns();
        return true;
    }
    return false;
}

/* The line of a dead worker's stderr that says why: what an assertion or a sanitizer wrote, else
 * its last line. */
static void last_words(const struct worker *w, char *to, size_t size)
{
    static const char *const tellers[] = {"assertion failed", "ERROR: ", "runtime error: "};
    char text[8192];
    ssize_t n = pread(w->stderr_fd, text, sizeof text - 1, 0);
    const char *line = NULL;

    text[n > 0 ? n : 0] = '\0';
    for (size_t i = 0; i < sizeof tellers / sizeof tellers[0] && line == NULL; i++)
        line = strstr(text, tellers[i]);
    for (char *word = text; line == NULL && *word != '\0';) {
        char *end = word + strcspn(word, "\n");
        bool last = end[0] == '\0' || end[strspn(end, "\n")] == '\0';
        if (last)
            line = word;
        word = end + strspn(end, "\n");
    }
    (void)snprintf(
        to, size, "%.*s", line == NULL ? 0 : (int)strcspn(line, "\n"), line == NULL ? "" : line);
}

static void bury(struct lh_sim_pool *pool, struct worker *w, bool hung)
{
    char words[400];

    last_words(w, words, sizeof words);
    memcpy(pool->task, w->task, pool->config.task_size);
    int status = end_worker(w);
    if (hung)
        (void)snprintf(pool->crash, sizeof pool->crash, "no end after %" PRIu64 " s",
            pool->config.limit.ns / 1000000000);
    else if (words[0] != '\0')
        (void)snprintf(pool->crash, sizeof pool->crash, "%s", words);
    else if (WIFSIGNALED(status))
        (void)snprintf(pool->crash, sizeof pool->crash, "signal %d (%s)", WTERMSIG(status),
            strsignal(WTERMSIG(status)));
    else
        (void)snprintf(
            pool->crash, sizeof pool->crash, "the process exited with %d", WEXITSTATUS(status));
    (void)start_worker(pool, w);
}

bool lh_sim_pool_wait(
    struct lh_sim_pool *pool, struct lh_duration bound, struct lh_sim_pool_done *done)
{
    struct pollfd polled[LH_SIM_POOL_JOBS_MAX];
    size_t which[LH_SIM_POOL_JOBS_MAX];
    nfds_t count = 0;
    uint64_t now = lh_sim_host_ns(), wait_ns = bound.ns;

    for (size_t i = 0; i < pool->config.jobs; i++) {
        struct worker *w = &pool->workers[i];
        if (!w->busy)
            continue;
        uint64_t used = now - w->since_ns;
        uint64_t left = used < pool->config.limit.ns ? pool->config.limit.ns - used : 0;
        wait_ns = left < wait_ns ? left : wait_ns;
        which[count] = i;
        polled[count++] = (struct pollfd){.fd = w->socket, .events = POLLIN};
    }
    uint64_t wait_ms = wait_ns / 1000000 + 1;
    int ready = poll(polled, count, wait_ms < 60000 ? (int)wait_ms : 60000);
    if (ready < 0)
        return false;

    now = lh_sim_host_ns();
    for (nfds_t i = 0; i < count; i++) {
        struct worker *w = &pool->workers[which[i]];
        bool hung = polled[i].revents == 0 && now - w->since_ns >= pool->config.limit.ns;
        if (polled[i].revents == 0 && !hung)
            continue;
        bool answered = !hung && read_all(w->socket, pool->result, pool->config.result_size);
        if (answered) {
            memcpy(pool->task, w->task, pool->config.task_size);
            w->busy = false;
        } else {
            /* It is dying; let it come to its end, so that the signal is the one that killed it. */
            if (!hung) {
                siginfo_t info;
                while (waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
                    ;
            }
            bury(pool, w, hung);
        }
        *done = (struct lh_sim_pool_done){
            .task = pool->task,
            .result = answered ? pool->result : NULL,
            .crash = answered ? NULL : pool->crash,
        };
        return true;
    }
    return false;
}
