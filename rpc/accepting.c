/* A listener that stays one whatever accept4(2) says (connections.h). */
#include "base/assert.h"
#include "rpc/admission.h"
#include "rpc/connections.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define EXEMPTED_MAX 4

/* Descriptors plus one; those behind the first 0 are none. */
static _Atomic int exempted[EXEMPTED_MAX];

void lh_connections_exempt(int listener)
{
    for (int i = 0; i < EXEMPTED_MAX; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&exempted[i], &none, listener + 1))
            return;
    }
    LH_ASSERT(false);
}

static bool is_exempted(int listener)
{
    for (int i = 0; i < EXEMPTED_MAX; i++) {
        int one = atomic_load_explicit(&exempted[i], memory_order_relaxed);
        if (one == 0 || one == listener + 1)
            return one != 0;
    }
    return false;
}

/* What accept(2) says of the other end, into the caller's. */
static void give(const struct sockaddr_storage *from, socklen_t from_size, struct sockaddr *address,
    socklen_t *size)
{
    if (address == NULL || size == NULL)
        return;
    memcpy(address, from, *size < from_size ? *size : from_size);
    *size = from_size;
}

int lh_connections_accept(int (*real)(int, struct sockaddr *, socklen_t *, int), int listener,
    struct sockaddr *address, socklen_t *size, int flags)
{
    struct sockaddr_storage from;
    socklen_t from_size;

    if (is_exempted(listener))
        return real(listener, address, size, flags);
    for (;;) {
        from_size = sizeof from;
        int fd = real(listener, (struct sockaddr *)&from, &from_size, flags);
        if (fd >= 0 && lh_connections_admit(fd, &from)) {
            give(&from, from_size, address, size);
            return fd;
        }
        /* However many come: EAGAIN with connections in the queue leaves them there until another
         * one joins it, and none can join a queue that is full. */
        if (fd >= 0)
            continue;
        switch (errno) {
        case EMFILE:
        case ENFILE:
            if (lh_connections_turn_away(real, listener))
                continue;
            errno = EAGAIN;
            return -1;
        case ENOMEM:
        case ENOBUFS:
            errno = EAGAIN;
            return -1;
        /* Of the connection, not of the listener. */
        case ECONNABORTED:
        case EPERM:
        case EPROTO:
        case ENETDOWN:
        case ENOPROTOOPT:
        case EHOSTDOWN:
        case ENONET:
        case EHOSTUNREACH:
        case ENETUNREACH:
            continue;
        default:
            return -1;
        }
    }
}
