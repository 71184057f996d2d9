/* What a service manager is told of this process, and asks of it: the protocol of sd_notify(3),
 * datagrams of lines "NAME=value" to $NOTIFY_SOCKET. Without that nothing happens.
 *
 * These few lines stand here instead of libsystemd: its manual suggests that to programs that need
 * no more of it. The protocol is fixed, and the library brings five others into the process. */
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
