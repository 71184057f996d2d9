#include "sim/command/guard.h"

#include "sim/command/command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void (*child_last_words)(void *arg);
static void *child_arg;

/* An assertion aborts between two calls of the C library, where everything may still be called; a
 * bad pointer may strike within one, and then this may fail or hang. Nothing is lost by trying. */
static void dying(int signal_number)
{
    (void)alarm(10);
    if (child_last_words != NULL)
        child_last_words(child_arg);
    (void)fflush(stdout);
    (void)raise(signal_number);
}

_Noreturn static void be_child(int (*work)(void *arg), void (*last_words)(void *arg), void *arg)
{
    static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    /* A stack that has overflown cannot carry the handler. */
    static char stack_memory[128 * 1024];
    stack_t stack = {.ss_sp = stack_memory, .ss_size = sizeof stack_memory};
    struct sigaction action = {
        .sa_handler = dying, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER | SA_ONSTACK)};

    child_last_words = last_words;
    child_arg = arg;
    (void)sigaltstack(&stack, NULL);
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        (void)sigaction(deadly[i], &action, NULL);
    _exit(lh_sim_command_finish_output(work(arg)));
}

int lh_sim_guarded(int (*work)(void *arg), void (*last_words)(void *arg), void *arg, char *crash,
    size_t crash_size)
{
    (void)fflush(stdout);
    (void)fflush(stderr);
    pid_t pid = fork();
    if (pid == 0)
        be_child(work, last_words, arg);
    if (pid < 0)
        return lh_sim_command_error(
            LH_SIM_EXIT_OUTPUT, "", "cannot start a process: %s", strerror(errno));
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    (void)snprintf(
        crash, crash_size, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return LH_SIM_EXIT_CRASH;
}
