/* The server processes that `leasehold local` runs: start, look after, stop.
 *
 * Each has a process group of its own, so that Ctrl-C reaches only this process, which then stops
 * them in an order of its choosing; and each is told to stop when this process dies. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#define LH_CHILD_ARGUMENTS_MAX 24u

struct lh_child {
    char name[32], address[64];
    char *log;                                   /* path of the file that gets its output */
    char *arguments[LH_CHILD_ARGUMENTS_MAX + 1]; /* NULL-terminated; [0] is the program */
    size_t argument_count;
    pid_t pid; /* 0: not running */
};

/* `program` is looked for beside this executable, and left to PATH otherwise. `child` is zeroed
 * memory of the caller's; deinit it when it does not run any more. */
void lh_child_init(struct lh_child *child, const char *name, const char *program, const char *log);
void lh_child_deinit(struct lh_child *child);

/* Whether lh_child_start() would find a program of that name. */
bool lh_child_can_run(const char *program);

/* Adds --flag=value; nothing when `value` is NULL. */
void lh_child_argument(struct lh_child *child, const char *flag, const char *value);

/* Starts it. False, with a message on stderr, when it cannot run. To be called by the thread that
 * lives as long as the process. */
bool lh_child_start(struct lh_child *child);

/* Collects those of `children` that have ended and says on `report` (NULL: nowhere) how, and how to
 * start them again. True if there was any. */
bool lh_children_reap(struct lh_child *children, size_t count, FILE *report);

bool lh_children_running(const struct lh_child *children, size_t count);
void lh_children_signal(const struct lh_child *children, size_t count, int signal_number);

/* The last lines of its log, to stderr, for a server that did not come up. */
void lh_child_print_log(const struct lh_child *child);
