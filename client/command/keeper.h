/* Runs a program so that it never runs beyond a lease, whatever becomes of `leasehold` itself.
 *
 * A *watchdog*, a process of its own, starts the program in a process group and kills that group at
 * a time on CLOCK_BOOTTIME. `leasehold` moves the time with each renewal. So it comes in time if
 * `leasehold` is stopped, killed or short of processor time. If the watchdog is stopped, too, the
 * kernel helps: a timer of the kernel's kills the watchdog a little later, a stopped one also; with
 * it the only writing end of a pipe is closed; and the kernel has SIGKILL for the whole group when
 * that happens (F_SETOWN, F_SETSIG). The program itself has PR_SET_PDEATHSIG besides.
 *
 * Out of reach are processes that have left the group (setsid), or run as another user. What is
 * left of the group when the program has ended is killed, too. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct lh_keeper {
    pid_t watchdog;
    pid_t group; /* the program's, which is its first process; 0: not known yet */
    int control; /* readable: lh_keeper_next() */
    int pipe;
    bool terminal; /* the program has the terminal */
};

/* Instants of CLOCK_BOOTTIME, in ns. */
struct lh_keeper_limits {
    uint64_t term_at; /* the group gets SIGTERM */
    uint64_t kill_at; /* and SIGKILL */
    uint64_t last_at; /* should the watchdog not have done so */
};
#define LH_KEEPER_NEVER UINT64_MAX

enum lh_keeper_event {
    LH_KEEPER_NOTHING,
    LH_KEEPER_STARTED,
    LH_KEEPER_NOT_STARTED, /* `value` is why: an errno */
    LH_KEEPER_STOPPED,     /* the program has, as by Ctrl-Z */
    LH_KEEPER_WARNED,      /* it got SIGTERM, by the limits */
    LH_KEEPER_ENDED,       /* `value` is its status, as waitpid() has it */
    LH_KEEPER_LOST         /* the watchdog is gone; so is the program */
};

/* Blocks the signals that are passed on, before there are threads: lh_keeper_signals() is readable
 * when one has come. -1: the system refused. */
int lh_keeper_signals(void);

/* `arguments` and `environment` end in NULL. False: the system refused, see errno. */
bool lh_keeper_start(struct lh_keeper *keeper, char *const *arguments, char *const *environment,
    const struct lh_keeper_limits *limits);

void lh_keeper_limit(const struct lh_keeper *keeper, const struct lh_keeper_limits *limits);
void lh_keeper_signal(const struct lh_keeper *keeper, int signal_number);
enum lh_keeper_event lh_keeper_next(struct lh_keeper *keeper, int *value);

/* The program was stopped from the terminal: stops this process, and goes on with it. */
void lh_keeper_stopped(const struct lh_keeper *keeper);

/* After ENDED or LOST. */
void lh_keeper_finish(struct lh_keeper *keeper);

/* What a shell says of the status: that of exit(), or 128 and the signal. */
int lh_keeper_exit_code(int status);

uint64_t lh_keeper_now(void);
