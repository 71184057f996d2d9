/* `leasehold top` on a terminal. */
#pragma once

#include "client/command/top.h"

/* What speaks against a terminal here, as a sentence; NULL: nothing. */
const char *lh_top_screen_obstacle(void);

/* Keeps the signals that end or resize it from all threads that are started from now on: those of
 * the library must not get them. To be called before the cluster is opened. */
void lh_top_screen_prepare(void);

/* Until the user quits or a signal comes, which ends the process with 128 and its number. Does not
 * return, unless the screen cannot be had: then with an exit code, having said why. */
int lh_top_screen_run(
    struct lh_cluster *cluster, struct lh_top_screen *screen, uint64_t timeout_ms);
