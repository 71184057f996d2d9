/* What accepting.c and the table of connections ask of each other. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* Admits an accepted connection, or closes it; `address` is what accept(2) said of it. */
bool lh_connections_admit(int fd, const struct sockaddr_storage *address);

/* There are no descriptors: with the one in reserve the connection is taken and closed, so that it
 * does not wait for somebody who may never come. False: that does not help. */
bool lh_connections_turn_away(int (*real)(int, struct sockaddr *, socklen_t *, int), int listener);

/* Calls lh_connections_wake_listeners() some milliseconds from now. */
void lh_connections_housekeep_soon(void);

/* Has those listeners come back to accept whose queue was left as it was. */
void lh_connections_wake_listeners(void);
