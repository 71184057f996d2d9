/* All that a program has started; see reach.h. */
#include "client/command/reach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_MS     5     /* between two looks at what is left */
#define REMOVE_TRIES 100u  /* of the cgroup, whose last processes are ending */
#define DEPTH_MAX    4096u /* of the tree: more would be a circle, which a reused number can make */

/* ---- The cgroup. */

/* Where the process's cgroup of the one hierarchy of v2 is among the files. */
static bool find_cgroup(char *folder, size_t size)
{
    char line[2 * PATH_MAX], own[PATH_MAX] = "", root[PATH_MAX], point[PATH_MAX];
    bool found = false;
    FILE *f = fopen("/proc/self/cgroup", "re");

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "0::%4095[^\n]", own) == 1)
            break;
    if (f != NULL)
        (void)fclose(f);
    if (own[0] != '/' || strstr(own, "/..") != NULL) /* none, or outside of what can be seen */
        return false;
    f = fopen("/proc/self/mountinfo", "re");
    while (!found && f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strstr(line, " - cgroup2 ") == NULL ||
            sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2 ||
            strchr(point, '\\') != NULL)
            continue;
        size_t skipped = strcmp(root, "/") == 0 ? 0 : strlen(root);
        if (strncmp(own, root, skipped) != 0)
            continue;
        const char *rest = own + skipped;
        int n = snprintf(folder, size, "%s%s", point, strcmp(rest, "/") == 0 ? "" : rest);
        found = n > 0 && (size_t)n < size;
    }
    if (f != NULL)
        (void)fclose(f);
    return found;
}

static int open_file(const char *folder, const char *name)
{
    char path[PATH_MAX + NAME_MAX];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, O_WRONLY | O_CLOEXEC);
}

void lh_reach_open(struct lh_reach *r)
{
    char parent[PATH_MAX - 64];
    struct timespec now;

    *r = (struct lh_reach){.enter = -1, .kill = -1};
    if (!find_cgroup(parent, sizeof parent))
        return;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)snprintf(r->folder, sizeof r->folder, "%s/leasehold-%d-%" PRIu64, parent, (int)getpid(),
        (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    if (mkdir(r->folder, 0755) != 0) {
        r->folder[0] = '\0';
        return;
    }
    r->enter = open_file(r->folder, "cgroup.procs");
    r->kill = open_file(r->folder, "cgroup.kill");
    if (r->enter < 0 || r->kill < 0)
        lh_reach_close(r);
}

void lh_reach_close(struct lh_reach *r)
{
    if (r->enter >= 0)
        (void)close(r->enter);
    if (r->kill >= 0)
        (void)close(r->kill);
    r->enter = r->kill = -1;
    for (unsigned i = 0; r->folder[0] != '\0' && i < REMOVE_TRIES; i++) {
        if (rmdir(r->folder) == 0 || errno != EBUSY)
            break;
        (void)poll(NULL, 0, AGAIN_MS);
    }
    r->folder[0] = '\0';
}

void lh_reach_enter(const struct lh_reach *r)
{
    if (r->enter >= 0)
        (void)!write(r->enter, "0", 1);
}

/* ---- The tree. */

void lh_reach_adopt(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

struct seen {
    pid_t parent;
    bool ended; /* a zombie, and none of its threads is left */
};

static size_t append_number(char *to, pid_t number)
{
    char digits[16];
    size_t n = 0, size = 0;

    for (pid_t rest = number; rest > 0 || n == 0; rest /= 10)
        digits[n++] = (char)('0' + rest % 10);
    while (n > 0)
        to[size++] = digits[--n];
    return size;
}

/* After the name, which may have anything in it: state, parent, ...; the 18th is how many threads
 * there are. */
static bool parse(const char *text, size_t size, struct seen *seen)
{
    const char *at = memrchr(text, ')', size), *end = text + size;
    long numbers[18] = {0};

    if (at == NULL || end - at < 4)
        return false;
    char state = at[2];
    at += 3;
    for (size_t i = 1; i < sizeof numbers / sizeof numbers[0] && at < end; i++) {
        bool negative = false;
        for (at++; at < end && *at != ' '; at++) {
            negative |= *at == '-';
            if (*at >= '0' && *at <= '9')
                numbers[i] = numbers[i] * 10 + (*at - '0');
        }
        if (negative)
            numbers[i] = -numbers[i];
    }
    seen->parent = (pid_t)numbers[1];
    seen->ended = state == 'X' || (state == 'Z' && numbers[17] <= 1);
    return true;
}

static bool look_at(pid_t pid, struct seen *seen)
{
    char path[40] = "/proc/", text[1024];
    size_t size = 6;

    size += append_number(path + size, pid);
    memcpy(path + size, "/stat", sizeof "/stat");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text);
    (void)close(fd);
    return n > 0 && parse(text, (size_t)n, seen);
}

enum { NO, YES, MOVED };

static int climb(pid_t pid, pid_t from)
{
    struct seen seen;

    for (unsigned i = 0; i < DEPTH_MAX && pid > 1; i++) {
        if (!look_at(pid, &seen))
            return i == 0 ? NO : MOVED;
        if (seen.parent == from)
            return YES;
        pid = seen.parent;
    }
    return NO;
}

/* An ancestor that ends meanwhile has left its children to another one: the climb begins again. */
static bool descends(pid_t pid, pid_t from)
{
    int found = MOVED;

    for (unsigned i = 0; i < DEPTH_MAX && found == MOVED; i++)
        found = climb(pid, from);
    return found == YES;
}

/* True: it lived, and got the signal. */
static bool signal_one(pid_t pid, int number, pid_t group)
{
    struct seen seen;

    if (!descends(pid, getpid()) || !look_at(pid, &seen) || (group != 0 && getpgid(pid) == group))
        return false;
    return kill(pid, number) == 0 && !seen.ended;
}

static pid_t number_in(const char *name)
{
    pid_t number = 0;

    for (; *name >= '0' && *name <= '9'; name++)
        number = number * 10 + (*name - '0');
    return *name == '\0' ? number : 0;
}

unsigned lh_reach_signal(int number, pid_t group)
{
    _Alignas(struct dirent64) char entries[4096];
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unsigned count = 0;
    long size;

    while (fd >= 0 && (size = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0)
        for (long at = 0; at < size;) {
            const struct dirent64 *e = (const void *)(entries + at);
            pid_t pid = number_in(e->d_name);
            count += pid > 0 && signal_one(pid, number, group);
            at += e->d_reclen;
        }
    if (fd >= 0)
        (void)close(fd);
    return count;
}

void lh_reach_kill_cgroup(const struct lh_reach *r)
{
    if (r->kill >= 0)
        (void)!write(r->kill, "1", 1);
}

void lh_reach_kill(const struct lh_reach *r)
{
    lh_reach_kill_cgroup(r);
    (void)lh_reach_signal(SIGKILL, 0);
}

/* Who has no child has no descendant: then /proc need not be looked through, which takes its time
 * where there are many processes. */
static bool has_children(void)
{
    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
        ;
    return errno != ECHILD;
}

/* A process that has its SIGKILL forks no more. So whoever was started before is there when this
 * looks again, and when it finds nobody, nobody is left. */
void lh_reach_end(const struct lh_reach *r)
{
    lh_reach_kill_cgroup(r);
    while (errno = 0, has_children() && lh_reach_signal(SIGKILL, 0) > 0)
        (void)poll(NULL, 0, AGAIN_MS);
}
