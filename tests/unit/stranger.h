/* A caller that uses gRPC as a stranger would, without our limits, methods and
 * messages. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct lh_stranger;

/* Calls `path` ("/package.Service/Method", kept) with one request of `size` bytes, or none if it is
 * NULL, and closes its side. */
struct lh_stranger *lh_stranger_call(
    const char *address, const char *path, const void *request, size_t size);

/* Waits for the next reply and copies it. False: there is none any more. At most `capacity` bytes
 * are copied; `*size` tells how long the reply was. */
bool lh_stranger_read(struct lh_stranger *s, void *to, size_t capacity, size_t *size);

void lh_stranger_cancel(struct lh_stranger *s);

/* Waits for the call's end, frees everything and returns the gRPC status code, with its message. */
int lh_stranger_end(struct lh_stranger *s, char *message, size_t message_size);

/* Takes two of gRPC's locks in one order and then in the other: a gRPC that checks it aborts. */
void lh_stranger_lock_in_both_orders(void);
