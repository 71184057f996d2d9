/* What a service manager is told of this process, and asks of it: sd_notify(3)'s protocol, datagrams
 * of lines "NAME=value" to $NOTIFY_SOCKET. Without that nothing happens.
 *
 * The few lines are here, and not libsystemd's, because its own manual says so for programs that
 * need no more of it: the protocol is fixed, and the library brings five others into the process. */
#pragma once

#include "base/time.h"

#include <stdbool.h>

/* Sends lines, as of printf. Any thread. What the manager does not take is lost: it is asked for
 * nothing. */
void lh_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether there is a manager to listen. */
bool lh_notify_is_heard(void);

/* WATCHDOG=1 must come more often than this, or the process is killed; FOREVER: it need not. */
struct lh_duration lh_notify_watchdog(void);
