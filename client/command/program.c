/* The programs that `lock` and `register` run; see program.h. */
#include "client/command/program.h"

#include "base/alloc.h"
#include "base/text.h"
#include "client/command/keeper.h"
#include "runtime/sink.h"
#include "runtime/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* How long the end waits for whoever reads the command's lines. */
#define FLUSH_MS 1000u

int lh_program_signals = -1;

static void flush_lines(void)
{
    lh_sink_flush(lh_milliseconds(FLUSH_MS));
}

int lh_program_prepare(const char *command)
{
    /* The program's lease is worth more than a line of ours that nobody reads. */
    lh_sink_start();
    (void)atexit(flush_lines);
    lh_program_signals = lh_keeper_signals();
    if (lh_program_signals >= 0)
        return LH_EXIT_OK;
    return lh_command_error(
        LH_EXIT_SYSTEM, command, "cannot wait for signals: %s", strerror(errno));
}

/* A thread looks for signals meanwhile. The main thread must not let them come: threads that it
 * starts then, deep in the library, would go on to take them. */
static pthread_t looking;
static int looked = -1; /* readable: the thread is to end */

static void *look(void *arg)
{
    (void)arg;
    for (;;) {
        struct pollfd fds[] = {
            {.fd = lh_program_signals, .events = POLLIN}, {.fd = looked, .events = POLLIN}};
        (void)poll(fds, 2, -1);
        if (fds[1].revents != 0)
            return NULL;
        int number = lh_program_signal(lh_program_signals);
        if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT)
            _exit(128 + number);
    }
}

void lh_program_end_by_signals(void)
{
    looked = eventfd(0, EFD_CLOEXEC);
    if (looked >= 0 && lh_thread_start(&looking, look, NULL, NULL, 0) != LH_OK) {
        (void)close(looked);
        looked = -1;
    }
}

void lh_program_take_signals(void)
{
    uint64_t one = 1;

    if (looked < 0)
        return;
    (void)!write(looked, &one, sizeof one);
    (void)pthread_join(looking, NULL);
    (void)close(looked);
    looked = -1;
}

int lh_program_signal(int signals)
{
    struct signalfd_siginfo info;

    return read(signals, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

static bool sets(const char *variable, const char *name)
{
    size_t length = strlen(name);

    return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

char **lh_program_environment(const char *const *added)
{
    size_t count = 0, extra = 0, n = 0;

    while (environ[count] != NULL)
        count++;
    while (added[extra] != NULL)
        extra++;
    char **all = lh_alloc_array(count + extra / 2 + 1, sizeof *all);
    for (size_t i = 0; i < count; i++) {
        bool replaced = false;
        for (size_t k = 0; k < extra; k += 2)
            replaced |= sets(environ[i], added[k]);
        if (!replaced)
            all[n++] = lh_strdup(environ[i]);
    }
    for (size_t k = 0; k < extra; k += 2) {
        size_t size = strlen(added[k]) + strlen(added[k + 1]) + sizeof "=";
        all[n] = lh_alloc(size);
        (void)snprintf(all[n++], size, "%s=%s", added[k], added[k + 1]);
    }
    return all;
}

void lh_program_free_environment(char **environment)
{
    for (size_t i = 0; environment[i] != NULL; i++)
        free(environment[i]);
    free(environment);
}

const char *lh_program_label(
    char label[LH_PROGRAM_LABEL_BYTES], const char *what, const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : program;
    int n = snprintf(label, LH_PROGRAM_LABEL_BYTES, "%s: ", what);

    (void)lh_text_show(label + n, LH_PROGRAM_LABEL_BYTES - (size_t)n, name);
    return label;
}

int lh_program_not_started(const char *command, const char *program, int error)
{
    return lh_command_error(error == ENOENT ? LH_EXIT_NOT_FOUND : LH_EXIT_CANNOT_RUN, command,
        "cannot run %s: %s", program, strerror(error));
}
