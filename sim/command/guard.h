/* Work in a process of its own, so that whatever it dies of the command still says what it was
 * doing. */
#pragma once

#include <stddef.h>

/* Calls `work(arg)` in a child process and waits for it; its output goes where ours goes. Returns
 * what it returned. When the process died instead: LH_SIM_EXIT_CRASH, and of what in `crash`. A
 * dying process first calls `last_words(arg)` if it is not NULL: an attempt, since it may have died
 * anywhere. */
int lh_sim_guarded(int (*work)(void *arg), void (*last_words)(void *arg), void *arg, char *crash,
    size_t crash_size);
