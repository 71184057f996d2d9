/* All processes that come from a program, wherever they have gone: into another process group or
 * session, or to another parent.
 *
 * Who kills them is their ancestor for ever: it takes over the orphans among its descendants
 * (PR_SET_CHILD_SUBREAPER), so nothing leaves its tree, and it finds the tree in /proc. Where the
 * system allows it, they also have a cgroup (v2) of their own, which the kernel kills at once,
 * however fast they fork, and whoever they run as.
 *
 * Out of reach are processes that another process started on request (systemd, docker, at, ssh),
 * and, without the cgroup, those that run as another user. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct lh_reach {
    int enter, kill; /* files of the cgroup; -1: there is none */
    char folder[PATH_MAX];
};

/* Makes the cgroup, if the system allows it. */
void lh_reach_open(struct lh_reach *reach);
/* Once nobody is left in it. Twice does no harm. */
void lh_reach_close(struct lh_reach *reach);

/* ---- Only async-signal-safe functions: for a process that has forked where there are threads. */

/* Orphans among the descendants of the calling process become its children. */
void lh_reach_adopt(void);
/* The calling process, and all that it starts, belongs to the cgroup. */
void lh_reach_enter(const struct lh_reach *reach);
/* The descendants of the calling process get the signal, but for those in `group` (0: none is
 * left out). Returns how many lived. */
unsigned lh_reach_signal(int number, pid_t group);
/* Kills all in the cgroup, if there is one. */
void lh_reach_kill_cgroup(const struct lh_reach *reach);
/* Likewise, and all descendants of the calling process. */
void lh_reach_kill(const struct lh_reach *reach);
/* Does the same, and returns when none is left that it may kill. Reaps all children. */
void lh_reach_end(const struct lh_reach *reach);
