/* `leasehold local`: a whole cluster on this machine, for trying things out and for tests.
 *
 * The servers are child processes with a process group of their own each, so that Ctrl-C reaches
 * only this process, which then stops them in order: chunkservers first (they release their leases
 * to the master), the master last. A child that dies is reported and left dead: what the others do
 * then is what a user of `local` may want to see. */
#include "client/command.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND          "local"
#define CHUNKSERVERS_MAX 64u
#define ARGUMENTS_MAX    24u
#define STOP_SECONDS     15
#define LOG_TAIL_LINES   10u

struct options {
    struct lh_duration timeout;
    uint64_t chunkservers, port;
    const char *dir, *session_term, *chunk_term, *replication, *log_level, *log_format;
};

struct child {
    char name[32], address[64];
    char *log;
    const char *program;
    char *arguments[ARGUMENTS_MAX]; /* NULL-terminated; [0] is the program */
    size_t argument_count;
    pid_t pid; /* 0: not running */
};

struct cluster {
    const struct options *options;
    char *dir;
    bool dir_is_temporary;
    struct child children[CHUNKSERVERS_MAX + 1]; /* the master first */
    size_t count;
    bool stop; /* a signal asked for it */
};

static char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *format_text(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&text, format, args);
    va_end(args);
    return size >= 0 ? text : lh_strdup("");
}

/* --- one child ---------------------------------------------------------------------------- */

static void add_argument(struct child *c, const char *flag, const char *value)
{
    if (value == NULL || c->argument_count + 2 >= ARGUMENTS_MAX)
        return;
    c->arguments[c->argument_count++] = format_text("--%s=%s", flag, value);
}

/* Where a server's program is: beside this one, or wherever PATH has it. */
static char *find_program(const char *name)
{
    char self[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size > 0) {
        self[size] = '\0';
        char *slash = strrchr(self, '/');
        if (slash != NULL) {
            char *beside = format_text("%.*s/%s", (int)(slash - self), self, name);
            if (access(beside, X_OK) == 0)
                return beside;
            free(beside);
        }
    }
    return lh_strdup(name);
}

static struct child *add_child(
    struct cluster *cluster, const char *name, const char *program, uint64_t port)
{
    const struct options *o = cluster->options;
    struct child *c = &cluster->children[cluster->count++];
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    (void)snprintf(c->address, sizeof c->address, "127.0.0.1:%" PRIu64, port);
    c->log = format_text("%s/%s.log", cluster->dir, name);
    c->arguments[c->argument_count++] = find_program(program);
    char *data = format_text("%s/%s", cluster->dir, name);
    add_argument(c, "listen", c->address);
    add_argument(c, "data-dir", data);
    add_argument(c, "log-level", o->log_level);
    add_argument(c, "log-format", o->log_format);
    free(data);
    return c;
}

/* Runs in the child; only returns when it could not become the server. */
static void become(const struct child *c, pid_t parent, int log_fd, int null_fd)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0);
    /* Killed parents leave no servers behind; the check closes the race with a parent already gone.
     */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || dup2(null_fd, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
        dup2(log_fd, STDERR_FILENO) < 0)
        return;
    (void)execvp(c->arguments[0], c->arguments);
}

static int start(struct child *c)
{
    int log_fd = open(c->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int failure[2] = {-1, -1};
    if (log_fd < 0 || null_fd < 0 || pipe2(failure, O_CLOEXEC) != 0)
        return lh_command_error(LH_EXIT_SYSTEM, COMMAND, "%s: %s", c->log, strerror(errno));

    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        become(c, parent, log_fd, null_fd);
        int error = errno;
        (void)!write(failure[1], &error, sizeof error);
        _exit(127);
    }
    int fork_error = errno, child_error = 0;
    (void)close(log_fd);
    (void)close(null_fd);
    (void)close(failure[1]);
    /* The pipe closes by itself when the child has become the server. */
    bool failed = pid > 0 && read(failure[0], &child_error, sizeof child_error) > 0;
    (void)close(failure[0]);
    if (pid < 0)
        return lh_command_error(
            LH_EXIT_SYSTEM, COMMAND, "cannot start a process: %s", strerror(fork_error));
    if (failed) {
        (void)waitpid(pid, NULL, 0);
        return lh_command_error(LH_EXIT_SYSTEM, COMMAND,
            "cannot run %s: %s; it must lie beside leasehold or in PATH", c->arguments[0],
            strerror(child_error));
    }
    c->pid = pid;
    return LH_EXIT_OK;
}

static void print_command_line(FILE *to, const struct child *c)
{
    for (size_t i = 0; i < c->argument_count; i++)
        (void)fprintf(to, "%s%s", i > 0 ? " " : "", c->arguments[i]);
    (void)fputc('\n', to);
}

/* The last lines of a log, for a server that did not come up. */
static void print_log_tail(const struct child *c)
{
    char *lines[LOG_TAIL_LINES] = {NULL}, *line = NULL;
    size_t capacity = 0, next = 0;
    FILE *log = fopen(c->log, "re");
    while (log != NULL && getline(&line, &capacity, log) > 0) {
        free(lines[next]);
        lines[next] = lh_strdup(line);
        next = (next + 1) % LOG_TAIL_LINES;
    }
    for (size_t i = 0; i < LOG_TAIL_LINES; i++) {
        const char *text = lines[(next + i) % LOG_TAIL_LINES];
        if (text != NULL)
            (void)fprintf(stderr, "    %s", text);
    }
    for (size_t i = 0; i < LOG_TAIL_LINES; i++)
        free(lines[i]);
    free(line);
    if (log != NULL)
        (void)fclose(log);
}

/* --- all of them -------------------------------------------------------------------------- */

/* Collects children that have ended; `*any` when there was one. */
static void reap(struct cluster *cluster, bool expected, bool *any)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (size_t i = 0; i < cluster->count; i++) {
            struct child *c = &cluster->children[i];
            if (c->pid != pid)
                continue;
            c->pid = 0;
            *any = true;
            if (expected)
                continue;
            if (WIFSIGNALED(status))
                (void)printf("%s (pid %d) was killed by signal %d (%s)", c->name, (int)pid,
                    WTERMSIG(status), strsignal(WTERMSIG(status)));
            else
                (void)printf(
                    "%s (pid %d) ended with status %d", c->name, (int)pid, WEXITSTATUS(status));
            (void)fputs("; to start it again:\n    ", stdout);
            print_command_line(stdout, c);
            (void)fflush(stdout);
        }
    }
}

/* Waits up to `ms` for a signal and handles it. True when a child ended. */
static bool wait_for_signal(
    struct cluster *cluster, const sigset_t *signals, long ms, bool expected)
{
    struct timespec timeout = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    int signal_number = sigtimedwait(signals, NULL, &timeout);
    bool ended = false;
    if (signal_number == SIGINT || signal_number == SIGTERM || signal_number == SIGHUP)
        cluster->stop = true;
    else if (signal_number == SIGCHLD)
        reap(cluster, expected, &ended);
    return ended;
}

static bool any_running(const struct cluster *cluster, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (cluster->children[i].pid != 0)
            return true;
    }
    return false;
}

static void signal_range(const struct cluster *cluster, size_t from, size_t to, int signal_number)
{
    for (size_t i = from; i < to; i++) {
        if (cluster->children[i].pid != 0)
            (void)kill(cluster->children[i].pid, signal_number);
    }
}

static void stop_range(struct cluster *cluster, const sigset_t *signals, size_t from, size_t to)
{
    signal_range(cluster, from, to, SIGTERM);
    for (int tenths = 0; any_running(cluster, from, to) && tenths < STOP_SECONDS * 10; tenths++) {
        (void)wait_for_signal(cluster, signals, 100, true);
        bool any = false;
        reap(cluster, true, &any); /* several that end at once are one pending signal */
    }
    if (any_running(cluster, from, to)) {
        (void)fprintf(stderr, "leasehold local: not everything stopped within %d s; killing it\n",
            STOP_SECONDS);
        signal_range(cluster, from, to, SIGKILL);
        while (any_running(cluster, from, to))
            (void)wait_for_signal(cluster, signals, 100, true);
    }
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static size_t servers_ready(struct lh_cluster *cluster, struct lh_server_list *list)
{
    size_t ready = 0;
    if (lh_servers(cluster, 500, list) != LH_OK)
        return 0;
    for (size_t i = 0; i < list->count; i++)
        ready += list->servers[i].live && list->servers[i].reachable;
    return ready;
}

/* Until the master has heard of every chunkserver, or one of them has died. */
static int wait_until_ready(struct cluster *cluster, const sigset_t *signals)
{
    const struct options *o = cluster->options;
    struct lh_cluster *client;
    int error = lh_cluster_open(cluster->children[0].address, NULL, &client);
    if (error != LH_OK)
        return lh_command_failed(COMMAND, NULL, error);

    int code = LH_EXIT_UNAVAILABLE;
    uint64_t until_ms = now_ms() + lh_duration_ms(o->timeout);
    while (now_ms() < until_ms && !cluster->stop) {
        struct lh_server_list list = {0};
        bool ready = servers_ready(client, &list) >= o->chunkservers;
        if (ready)
            (void)printf("cluster %s, session term %.1f s, chunk lease term %.1f s, data in %s%s\n",
                list.cluster_id, (double)list.session_term_ms / 1000,
                (double)list.chunk_term_ms / 1000, cluster->dir,
                cluster->dir_is_temporary ? " (removed at the end)" : "");
        lh_server_list_deinit(&list);
        if (ready) {
            code = LH_EXIT_OK;
            break;
        }
        if (wait_for_signal(cluster, signals, 50, false))
            break;
    }
    lh_cluster_close(client);
    if (code == LH_EXIT_OK || cluster->stop)
        return code;
    for (size_t i = 0; i < cluster->count; i++) {
        const struct child *c = &cluster->children[i];
        if (c->pid == 0) {
            (void)lh_command_error(
                0, COMMAND, "%s did not come up; the end of %s:", c->name, c->log);
            print_log_tail(c);
            return LH_EXIT_FAILED;
        }
    }
    return lh_command_error(code, COMMAND,
        "the cluster is not ready after %" PRIu64 " s; see the logs in %s",
        lh_duration_ms(o->timeout) / 1000, cluster->dir);
}

static int start_all(struct cluster *cluster)
{
    const struct options *o = cluster->options;
    struct child *master = add_child(cluster, "master", "leasehold-master", o->port);
    add_argument(master, "session-term", o->session_term);
    add_argument(master, "chunk-term", o->chunk_term);
    add_argument(master, "replication", o->replication);
    for (uint64_t i = 1; i <= o->chunkservers; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "cs%" PRIu64, i);
        struct child *c = add_child(cluster, name, "leasehold-chunkserver", o->port + 100 + i);
        add_argument(c, "server-id", name);
        add_argument(c, "master", master->address);
    }
    for (size_t i = 0; i < cluster->count; i++) {
        int code = start(&cluster->children[i]);
        if (code != LH_EXIT_OK)
            return code;
    }
    return LH_EXIT_OK;
}

static int run(struct cluster *cluster)
{
    /* Blocked before any thread starts, so that all of them leave signals to sigtimedwait(). */
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);

    int code = start_all(cluster);
    if (code == LH_EXIT_OK)
        code = wait_until_ready(cluster, &signals);
    if (code == LH_EXIT_OK) {
        for (size_t i = 0; i < cluster->count; i++) {
            const struct child *c = &cluster->children[i];
            (void)printf(
                "  %-6s %-15s pid %-7d log %s\n", c->name, c->address, (int)c->pid, c->log);
        }
        (void)printf("ready at %s; Ctrl-C stops it\n", cluster->children[0].address);
        (void)fflush(stdout);
        while (!cluster->stop) {
            (void)wait_for_signal(cluster, &signals, 1000, false);
            bool any = false;
            reap(cluster, false, &any);
        }
        (void)puts("stopping");
        (void)fflush(stdout);
    } else if (cluster->stop) {
        code = LH_EXIT_FAILED;
    }
    /* Chunkservers release their leases to the master, so it goes last. */
    stop_range(cluster, &signals, 1, cluster->count);
    stop_range(cluster, &signals, 0, cluster->count);
    return code;
}

/* --- the directory ------------------------------------------------------------------------ */

static int remove_entry(const char *path, const struct stat *s, int type, struct FTW *where)
{
    (void)s;
    (void)type;
    (void)where;
    return remove(path);
}

static int prepare_dir(struct cluster *cluster)
{
    const char *dir = cluster->options->dir;
    if (dir == NULL) {
        const char *base = getenv("TMPDIR");
        cluster->dir = format_text("%s/leasehold-local.XXXXXX", base != NULL ? base : "/tmp");
        cluster->dir_is_temporary = true;
        if (mkdtemp(cluster->dir) == NULL)
            return lh_command_error(
                LH_EXIT_SYSTEM, COMMAND, "cannot create %s: %s", cluster->dir, strerror(errno));
        return LH_EXIT_OK;
    }
    if (mkdir(dir, 0755) != 0 && errno != EEXIST)
        return lh_command_error(
            LH_EXIT_SYSTEM, COMMAND, "cannot create %s: %s", dir, strerror(errno));
    /* Absolute, so that the command lines printed for a dead server work anywhere. */
    cluster->dir = realpath(dir, NULL);
    if (cluster->dir == NULL)
        return lh_command_error(LH_EXIT_SYSTEM, COMMAND, "%s: %s", dir, strerror(errno));
    return LH_EXIT_OK;
}

static void deinit(struct cluster *cluster)
{
    if (cluster->dir_is_temporary && cluster->dir != NULL)
        (void)nftw(cluster->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < cluster->count; i++) {
        struct child *c = &cluster->children[i];
        for (size_t k = 0; k < c->argument_count; k++)
            free(c->arguments[k]);
        free(c->log);
    }
    free(cluster->dir);
    free(cluster);
}

int lh_command_local(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {.name = "chunkservers",
            .type = LH_FLAG_UINT,
            .value = &o.chunkservers,
            .preset = "3",
            .min = 1,
            .max = CHUNKSERVERS_MAX,
            .help = "how many chunkservers to run"},
        {.name = "dir",
            .type = LH_FLAG_STRING,
            .value = &o.dir,
            .metavar = "DIRECTORY",
            .help = "keep data and logs there; without it, in a temporary directory that is "
                    "removed at the end"},
        {.name = "port",
            .type = LH_FLAG_UINT,
            .value = &o.port,
            .preset = "7400",
            .min = 1,
            .max = 65535 - 100 - CHUNKSERVERS_MAX,
            .help = "the master's port; the chunkservers' are 101, 102, ... higher"},
        {.name = "session-term",
            .type = LH_FLAG_STRING,
            .value = &o.session_term,
            .metavar = "DURATION",
            .help = "how long a chunkserver's session lives without a heartbeat"},
        {.name = "chunk-term",
            .type = LH_FLAG_STRING,
            .value = &o.chunk_term,
            .metavar = "DURATION",
            .help = "how long a chunk's lease lasts without an extension"},
        {.name = "replication",
            .type = LH_FLAG_STRING,
            .value = &o.replication,
            .metavar = "N",
            .help = "servers that keep each record of a new file"},
        {.name = "log-level",
            .type = LH_FLAG_STRING,
            .value = &o.log_level,
            .metavar = "LEVEL",
            .help = "of the servers: debug, info, warn, error"},
        {.name = "log-format",
            .type = LH_FLAG_STRING,
            .value = &o.log_format,
            .metavar = "FORMAT",
            .help = "of the servers: text, json"},
        {.name = "timeout",
            .type = LH_FLAG_DURATION,
            .value = &o.timeout,
            .preset = "30s",
            .min = 1000000,
            .help = "how long the servers may take to come up"},
    };
    const struct lh_flags flags = {
        .command = "leasehold local",
        .usage = "[OPTION]...",
        .summary = "Runs a master and chunkservers on this machine until Ctrl-C. What dies is "
                   "reported, not restarted.",
        .flags = table,
        .count = sizeof table / sizeof table[0],
    };
    struct lh_flags_result args;
    int code;
    if (!lh_command_parse(&flags, argc, argv, 0, 0, &args, &code))
        return code;
    struct cluster *cluster = lh_alloc(sizeof *cluster);
    cluster->options = &o;
    code = prepare_dir(cluster);
    if (code == LH_EXIT_OK)
        code = run(cluster);
    deinit(cluster);
    lh_flags_free(&args);
    return code;
}
