/* A listener that stays one whatever accept4(2) says (connections.h). */
#include "rpc/admission.h"
#include "rpc/connections.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

static _Atomic int exempted = -1;

void lh_connections_exempt(int listener)
{
    atomic_store(&exempted, listener);
}

int lh_connections_accept(int (*real)(int, struct sockaddr *, socklen_t *, int), int listener,
    struct sockaddr *address, socklen_t *size, int flags)
{
    socklen_t given = size == NULL ? 0 : *size;

    if (listener == atomic_load_explicit(&exempted, memory_order_relaxed))
        return real(listener, address, size, flags);
    for (;;) {
        if (size != NULL)
            *size = given;
        int fd = real(listener, address, size, flags);
        if (fd >= 0 && lh_connections_admit(fd))
            return fd;
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
