/* Connections that are not read from for a moment (connections.c), which keeps their bytes with who
 * sends them: gRPC is told that there is nothing to read, and later by the kernel that there is. */
#pragma once

#include <stdbool.h>

/* That descriptor, which epoll(7) watches for edges, has something to read: says so again. */
void lh_pacing_again(int fd);

/* Calls `tend` every some milliseconds as long as that returns true, in a thread of its own; from
 * then on not, until the next call here. `tend` takes the lock that the caller has. False: there is
 * no thread. */
bool lh_pacing_begin(bool (*housekeep)(void));
