/* A listener that stays one whatever accept4(2) says (admission.h). */
#include "admission/accepting.h"
#include "admission/admission.h"
#include "base/assert.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define EXEMPTED_MAX 4
/* A server listens at some addresses, each of IPv4 and of IPv6. */
#define WATCHED_MAX 64

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

/* Listeners, and the epoll(7) sets that watch them for edges. */
static struct {
    pthread_mutex_t lock;
    struct watched {
        int set, listener;
        bool used, left; /* left: accept failed, and connections may wait in its queue */
        struct epoll_event event;
    } each[WATCHED_MAX];
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock held. Of that number: the one entry, or a free one; NULL: there is none. */
static struct watched *watched_of(int listener)
{
    struct watched *free_one = NULL;

    for (unsigned i = 0; i < WATCHED_MAX; i++) {
        struct watched *w = &watched.each[i];
        if (w->used && w->listener == listener)
            return w;
        if (!w->used && free_one == NULL)
            free_one = w;
    }
    return free_one;
}

static bool listens(int fd)
{
    int yes = 0;
    socklen_t size = sizeof yes;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 && yes != 0;
}

void lh_connections_watched(int set, int fd, const struct epoll_event *event)
{
    bool is_one = listens(fd);

    pthread_mutex_lock(&watched.lock);
    struct watched *w = watched_of(fd);
    if (w != NULL && is_one)
        *w = (struct watched){.set = set, .listener = fd, .used = true, .event = *event};
    else if (w != NULL)
        w->used = w->left = false; /* a listener was closed, and this has its number */
    pthread_mutex_unlock(&watched.lock);
}

/* The next edge would come only with another connection, and a full queue takes none. */
static void leave(int listener)
{
    pthread_mutex_lock(&watched.lock);
    struct watched *w = watched_of(listener);
    bool begins = w != NULL && w->used && !w->left;
    if (begins)
        w->left = true;
    pthread_mutex_unlock(&watched.lock);
    if (begins)
        lh_connections_housekeep_soon();
}

void lh_connections_wake_listeners(void)
{
    pthread_mutex_lock(&watched.lock);
    for (unsigned i = 0; i < WATCHED_MAX; i++) {
        struct watched *w = &watched.each[i];
        if (!w->left)
            continue;
        w->left = false;
        if (!listens(w->listener) || epoll_ctl(w->set, EPOLL_CTL_MOD, w->listener, &w->event) != 0)
            w->used = false; /* it was closed */
    }
    pthread_mutex_unlock(&watched.lock);
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
            /* Another thread may have had the descriptor in reserve, which was free for a moment.
             */
            leave(listener);
            errno = EAGAIN;
            return -1;
        case ENOMEM:
        case ENOBUFS:
            leave(listener);
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
