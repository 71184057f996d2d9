#include "runtime/sink.h"

#include "base/say.h"
#include "runtime/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

/* How long the last words of a process wait for what is before them, and then for the reader. */
#define LAST_MS 1000
#define NAP_NS  1000000

struct line {
    STAILQ_ENTRY(line) link;
    uint64_t gap; /* so many dropped lines are what it says; 0: it is a line of somebody's */
    size_t size;
    char text[];
};
STAILQ_HEAD(lines, line);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct lines waiting = STAILQ_HEAD_INITIALIZER(waiting);
static size_t waiting_bytes;
static uint64_t unsaid; /* dropped lines */
static bool started, writing;

static _Atomic uint64_t dropped;
static _Atomic int sink_fd = STDERR_FILENO;

static size_t plain_gap(char *to, size_t size, uint64_t lines)
{
    return (size_t)snprintf(
        to, size, "leasehold: %" PRIu64 " lines were dropped: nobody read them\n", lines);
}

static lh_sink_gap *say_gap = plain_gap;

/* ---- Writing. */

/* Whether all of it was taken. */
static bool write_out(const char *text, size_t size)
{
    int fd = atomic_load_explicit(&sink_fd, memory_order_relaxed);

    while (size > 0) {
        ssize_t n = write(fd, text, size);
        if (n >= 0) {
            text += n;
            size -= (size_t)n;
        } else if (errno == EAGAIN) { /* another process has made it so, for all that share it */
            struct pollfd to = {.fd = fd, .events = POLLOUT};
            (void)poll(&to, 1, -1);
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

static uint64_t newlines(const char *text, size_t size)
{
    uint64_t count = 0;

    for (size_t i = 0; i < size; i++)
        count += text[i] == '\n';
    return count;
}

/* ---- The queue, under the lock. */

static void drop(const char *text, size_t size)
{
    uint64_t lines = newlines(text, size);

    unsaid += lines;
    atomic_fetch_add(&dropped, lines);
}

static bool enqueue(const char *text, size_t size, uint64_t gap)
{
    struct line *line = NULL;
    size_t bytes = sizeof *line + size;

    if (waiting_bytes + bytes <= LH_SINK_WAITING_MAX)
        line = malloc(bytes); /* a line is no reason to end */
    if (line == NULL)
        return false;
    line->gap = gap;
    line->size = size;
    memcpy(line->text, text, size);
    STAILQ_INSERT_TAIL(&waiting, line, link);
    waiting_bytes += bytes;
    (void)pthread_cond_signal(&more);
    return true;
}

/* Behind what was put before the gap. */
static bool enqueue_gap(void)
{
    char text[LH_SINK_GAP_BYTES];

    if (!enqueue(text, say_gap(text, sizeof text, unsaid), unsaid))
        return false;
    unsaid = 0;
    return true;
}

/* What comes after a gap waits until there is room for more than a line: else every second line
 * would say that one was dropped. */
static void put_locked(const char *text, size_t size)
{
    bool room = unsaid == 0 || (waiting_bytes <= LH_SINK_WAITING_MAX / 2 && enqueue_gap());

    if (!room || !enqueue(text, size, 0))
        drop(text, size);
}

/* ---- The thread. */

/* The next line, which it waits for. */
static struct line *take(void)
{
    (void)pthread_mutex_lock(&lock);
    writing = false;
    while (STAILQ_EMPTY(&waiting))
        (void)pthread_cond_wait(&more, &lock);
    struct line *line = STAILQ_FIRST(&waiting);
    STAILQ_REMOVE_HEAD(&waiting, link);
    waiting_bytes -= sizeof *line + line->size;
    writing = true;
    (void)pthread_mutex_unlock(&lock);
    return line;
}

static void note_written(const struct line *line, bool taken)
{
    (void)pthread_mutex_lock(&lock);
    if (!taken && line->gap != 0)
        unsaid += line->gap;
    else if (!taken)
        drop(line->text, line->size);
    else if (unsaid > 0 && STAILQ_EMPTY(&waiting))
        (void)enqueue_gap();
    (void)pthread_mutex_unlock(&lock);
}

static void *write_main(void *arg)
{
    for (;;) {
        struct line *line = take();
        note_written(line, write_out(line->text, line->size));
        free(line);
    }
    return arg;
}

static struct timespec nap = {.tv_nsec = NAP_NS};

/* Tries the lock: it may be held by whoever is to say its last words. */
static bool is_idle(void)
{
    if (pthread_mutex_trylock(&lock) != 0)
        return false;
    bool idle = !started || (STAILQ_EMPTY(&waiting) && !writing);
    (void)pthread_mutex_unlock(&lock);
    return idle;
}

static bool wait_until_idle(uint64_t most_ns)
{
    for (uint64_t waited = 0; !is_idle(); waited += NAP_NS) {
        if (waited >= most_ns)
            return false;
        (void)nanosleep(&nap, NULL);
    }
    return true;
}

/* By the caller: nobody can be woken any more who would. */
static void put_last(const char *text, size_t size)
{
    struct pollfd to = {.fd = atomic_load(&sink_fd), .events = POLLOUT};

    if (wait_until_idle(LAST_MS * UINT64_C(1000000)) && poll(&to, 1, LAST_MS) == 1)
        (void)!write(to.fd, text, size);
}

void lh_sink_start(void)
{
    static const struct lh_say_way way = {lh_sink_put, put_last};

    if (started)
        return;
    /* Without a thread lines are written as they come. */
    started = lh_thread_start(NULL, write_main, NULL, NULL, 0) == LH_OK;
    if (started)
        lh_say_through(&way);
}

void lh_sink_to(int fd)
{
    atomic_store(&sink_fd, fd);
}

void lh_sink_on_gap(lh_sink_gap *say)
{
    say_gap = say;
}

void lh_sink_put(const char *text, size_t size)
{
    (void)pthread_mutex_lock(&lock);
    if (started) {
        put_locked(text, size);
    } else if (!write_out(text, size)) {
        drop(text, size);
        unsaid = 0; /* nobody would say it */
    }
    (void)pthread_mutex_unlock(&lock);
}

void lh_sink_flush(struct lh_duration most)
{
    (void)wait_until_idle(most.ns);
}

uint64_t lh_sink_dropped(void)
{
    return atomic_load(&dropped);
}
