/* The server processes of `leasehold local`; see child.h. */
#include "client/command/child.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_TAIL_LINES 10u

static char *find_program(const char *name)
{
    char self[PATH_MAX], beside[PATH_MAX + NAME_MAX + 2];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size > 0) {
        self[size] = '\0';
        char *slash = strrchr(self, '/');
        if (slash != NULL) {
            *slash = '\0';
            (void)snprintf(beside, sizeof beside, "%s/%s", self, name);
            if (access(beside, X_OK) == 0)
                return lh_strdup(beside);
        }
    }
    return lh_strdup(name);
}

static bool is_in_path(const char *name)
{
    const char *path = getenv("PATH");
    char *folders = lh_strdup(path == NULL ? "" : path), *rest = NULL;
    bool found = false;

    for (char *f = strtok_r(folders, ":", &rest); f != NULL && !found;
         f = strtok_r(NULL, ":", &rest)) {
        char at[PATH_MAX];
        int n = snprintf(at, sizeof at, "%s/%s", f, name);
        found = n > 0 && (size_t)n < sizeof at && access(at, X_OK) == 0;
    }
    free(folders);
    return found;
}

bool lh_child_can_run(const char *program)
{
    char *found = find_program(program);
    bool can = strchr(found, '/') != NULL || is_in_path(found);

    free(found);
    return can;
}

void lh_child_init(struct lh_child *c, const char *name, const char *program, const char *log)
{
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    c->log = lh_strdup(log);
    c->arguments[c->argument_count++] = find_program(program);
}

void lh_child_deinit(struct lh_child *c)
{
    for (size_t i = 0; i < c->argument_count; i++)
        free(c->arguments[i]);
    free(c->log);
    *c = (struct lh_child){0};
}

void lh_child_argument(struct lh_child *c, const char *flag, const char *value)
{
    if (value == NULL)
        return;
    LH_ASSERT(c->argument_count < LH_CHILD_ARGUMENTS_MAX);
    size_t size = strlen(flag) + strlen(value) + sizeof "--=";
    char *text = lh_alloc(size);
    (void)snprintf(text, size, "--%s=%s", flag, value);
    c->arguments[c->argument_count++] = text;
}

/* Runs in the child; only returns when it could not become the server. */
static void become(const struct lh_child *c, pid_t parent, int log_fd, int null_fd)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    lh_signals_restore();
    (void)setpgid(0, 0);
    /* Killed parents leave no servers behind; the check closes the race with a parent already gone.
     */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || dup2(null_fd, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
        dup2(log_fd, STDERR_FILENO) < 0)
        return;
    (void)execvp(c->arguments[0], c->arguments);
}

static bool cannot_start(const struct lh_child *c, int error)
{
    (void)fprintf(stderr,
        "leasehold local: cannot run %s: %s; it must lie beside leasehold or in PATH\n",
        c->arguments[0], strerror(error));
    return false;
}

bool lh_child_start(struct lh_child *c)
{
    int log_fd = open(c->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int failure[2] = {-1, -1};
    if (log_fd < 0 || null_fd < 0 || pipe2(failure, O_CLOEXEC) != 0) {
        (void)fprintf(stderr, "leasehold local: %s: %s\n", c->log, strerror(errno));
        return false;
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        become(c, parent, log_fd, null_fd);
        int error = errno;
        (void)!write(failure[1], &error, sizeof error);
        _exit(127);
    }
    int error = pid < 0 ? errno : 0;
    (void)close(log_fd);
    (void)close(null_fd);
    (void)close(failure[1]);
    /* The pipe closes by itself when the child has become the server. */
    if (pid > 0 && read(failure[0], &error, sizeof error) > 0)
        (void)waitpid(pid, NULL, 0);
    (void)close(failure[0]);
    if (error != 0)
        return cannot_start(c, error);
    c->pid = pid;
    return true;
}

static void report_end(const struct lh_child *c, int status, FILE *to)
{
    if (WIFSIGNALED(status))
        (void)fprintf(to, "%s (pid %d) was killed by signal %d (%s)", c->name, (int)c->pid,
            WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        (void)fprintf(
            to, "%s (pid %d) ended with status %d", c->name, (int)c->pid, WEXITSTATUS(status));
    (void)fputs("; to start it again:\n   ", to);
    for (size_t i = 0; i < c->argument_count; i++)
        (void)fprintf(to, " %s", c->arguments[i]);
    (void)fputc('\n', to);
    (void)fflush(to);
}

bool lh_children_reap(struct lh_child *children, size_t count, FILE *report)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        int status;
        struct lh_child *c = &children[i];
        if (c->pid == 0 || waitpid(c->pid, &status, WNOHANG) != c->pid)
            continue;
        if (report != NULL)
            report_end(c, status, report);
        c->pid = 0;
        any = true;
    }
    return any;
}

bool lh_children_running(const struct lh_child *children, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (children[i].pid != 0)
            return true;
    }
    return false;
}

void lh_children_signal(const struct lh_child *children, size_t count, int signal_number)
{
    for (size_t i = 0; i < count; i++) {
        if (children[i].pid != 0)
            (void)kill(children[i].pid, signal_number);
    }
}

void lh_child_print_log(const struct lh_child *c)
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
        char *text = lines[(next + i) % LOG_TAIL_LINES];
        if (text != NULL)
            (void)fprintf(stderr, "    %s", text);
        free(text);
    }
    free(line);
    if (log != NULL)
        (void)fclose(log);
}
