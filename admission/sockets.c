/* accept4(2), recvmsg(2) and epoll_ctl(2) of the two servers' programs, in front of libc's.
 *
 * gRPC's listener (1.51) reads accept4's errors in a way that makes a server deaf: after EMFILE,
 * ENFILE, ENOMEM, ECONNABORTED and all others but EAGAIN and EINTR it gives up listening for the
 * rest of the process's life, without a word. Nor does it limit how many it accepts. And calls that
 * a peer opens only to cancel them are taken apart and put together inside gRPC faster than it
 * comes to tell us of any: they have to be seen before gRPC sees them (connections.c). epoll_ctl
 * shows which of gRPC's sets watches a listener, to wake it when accept4 can go on.
 *
 * What else there would be: an accept loop of our own with grpc_server_add_channel_from_fd(), which
 * in 1.51 takes no other than insecure credentials, so that it would have to go when connections
 * are encrypted; and it would still not see resets. gRPC is a shared library that finds these
 * functions by name, as every program may replace a function of libc's: ours are found first.
 * Sanitizers do the same, and are behind ours (RTLD_NEXT).
 *
 * Only the servers link this. A program that uses our client library has its own functions. */
#include "admission/admission.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/* libc's function of that name, or the next one before it. */
static void *next_one(void *_Atomic *known, const char *name)
{
    void *f = atomic_load_explicit(known, memory_order_relaxed);

    if (f == NULL) {
        f = dlsym(RTLD_NEXT, name);
        if (f == NULL)
            abort(); /* a libc without it */
        atomic_store_explicit(known, f, memory_order_relaxed);
    }
    return f;
}

int accept4(int listener, struct sockaddr *restrict address, socklen_t *restrict size, int flags)
{
    static void *_Atomic known;
    int (*real)(int, struct sockaddr *, socklen_t *, int);

    /* POSIX has the address of a function fit into a pointer to an object. */
    *(void **)&real = next_one(&known, "accept4");
    return lh_connections_accept(real, listener, address, size, flags);
}

/* More parts than gRPC has; what does not fit into the first ones is read the next time. */
#define PARTS_MAX 8u

/* At most so many bytes. */
static ssize_t receive_some(ssize_t (*real)(int, struct msghdr *, int), int fd,
    struct msghdr *message, int flags, size_t most)
{
    struct iovec *parts = message->msg_iov, first[PARTS_MAX];
    size_t count = message->msg_iovlen, n = 0;

    for (; n < count && n < PARTS_MAX && most > 0; n++) {
        first[n] = parts[n];
        if (first[n].iov_len > most)
            first[n].iov_len = most;
        most -= first[n].iov_len;
    }
    message->msg_iov = first;
    message->msg_iovlen = n;
    ssize_t received = real(fd, message, flags);
    message->msg_iov = parts;
    message->msg_iovlen = count;
    return received;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    static void *_Atomic known;
    ssize_t (*real)(int, struct msghdr *, int);

    *(void **)&real = next_one(&known, "recvmsg");
    size_t most = lh_connections_may_receive(fd);
    if (most == 0) {
        errno = EAGAIN;
        return -1;
    }
    ssize_t n =
        most == SIZE_MAX ? real(fd, message, flags) : receive_some(real, fd, message, flags, most);
    if (n > 0 && !lh_connections_received(fd, message->msg_iov, message->msg_iovlen, (size_t)n))
        return 0;
    return n;
}

int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    static void *_Atomic known;
    int (*real)(int, int, int, struct epoll_event *);

    *(void **)&real = next_one(&known, "epoll_ctl");
    int error = real(set, op, fd, event);
    if (error == 0 && op == EPOLL_CTL_ADD)
        lh_connections_watched(set, fd, event);
    return error;
}
