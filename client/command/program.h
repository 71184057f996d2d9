/* What `leasehold lock` and `leasehold register` share: the program that they run. */
#pragma once

#include "client/command/command.h"

/* Blocks the signals that are passed on to the program; to be called before the cluster is
 * opened, whose threads then block them, too. Returns LH_EXIT_OK, or the exit code. */
int lh_program_prepare(const char *command);

/* From the first on, signals end this process, as they would without lh_program_prepare(): while
 * nothing is held yet. From the second on they are the caller's. */
void lh_program_end_by_signals(void);
void lh_program_take_signals(void);

/* Readable when a signal has come; after lh_program_prepare(). */
extern int lh_program_signals;

/* The next signal; 0: none has come. */
int lh_program_signal(int signals);

/* This process's environment with some variables set: names and values in turn, NULL at the end. */
char **lh_program_environment(const char *const *added);
void lh_program_free_environment(char **environment);

#define LH_PROGRAM_LABEL_BYTES 129u /* what a session's label can have, and a NUL */

/* "WHAT: PROGRAM", as a session's label can be: without the program's folder, shown as on a
 * terminal, and not too long. */
const char *lh_program_label(
    char label[LH_PROGRAM_LABEL_BYTES], const char *what, const char *program);

/* Says why, and returns the exit code: 127 not found, 126 otherwise, as a shell. */
int lh_program_not_started(const char *command, const char *program, int error);
