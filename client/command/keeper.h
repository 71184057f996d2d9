/* Runs a program so that it never runs beyond a lease, whatever becomes of `leasehold` itself.
 *
 * A *watchdog*, a process of its own, starts the program in a process group, and kills all that
 * comes from it (reach.h) at a time on CLOCK_BOOTTIME. `leasehold` moves the time with each
 * renewal. So it comes in time if `leasehold` is stopped, killed or short of processor time.
 *
 * A *guard* is the watchdog's parent, and `leasehold` is the guard's. The guard only waits: when
 * the watchdog is gone, it kills what is left. If the guard is gone, the watchdog does so at once.
 * Each of the three is an ancestor of all that comes from the program, so any of them is enough.
 *
 * If they are stopped, the kernel helps: a timer of the kernel's kills the watchdog a little after
 * the time, a stopped one also; with it the only writing end of a pipe is closed; and the kernel
 * has SIGKILL for the whole group when that happens (F_SETOWN, F_SETSIG). The program itself has
 * PR_SET_PDEATHSIG besides. Out of reach are then processes that have left the group; and if all
 * three are killed at once, also those of the group, once nobody has the pipe open.
 *
 * What is left when the program has ended is killed, too. */
#pragma once

#include "client/command/reach.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct lh_keeper {
    struct lh_reach reach;
    pid_t guard; /* the watchdog's parent */
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
/* The program's group gets it. */
void lh_keeper_signal(const struct lh_keeper *keeper, int signal_number);
/* The time has come, and the watchdog may be stopped. */
void lh_keeper_kill(const struct lh_keeper *keeper);
enum lh_keeper_event lh_keeper_next(struct lh_keeper *keeper, int *value);

/* The program was stopped from the terminal: stops this process, and goes on with it. */
void lh_keeper_stopped(const struct lh_keeper *keeper);

/* After ENDED or LOST. */
void lh_keeper_finish(struct lh_keeper *keeper);

/* What a shell says of the status: that of exit(), or 128 and the signal. */
int lh_keeper_exit_code(int status);

uint64_t lh_keeper_now(void);
