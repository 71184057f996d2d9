#include "admission/admission.h"

#include "admission/accepting.h"
#include "admission/table.h"
#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#define SECOND_NS LH_CONNECTIONS_SECOND_NS
/* The table is gone through for connections that gRPC has closed at most this often. */
#define SWEEP_NS (SECOND_NS / 10)
#define LOG_NS   (10 * SECOND_NS)
/* Connections of which a sweep looks whether they are still there at once. */
#define SWEEP_AT_ONCE 64u

struct lh_connections_table lh_connections_table = {.lock = PTHREAD_MUTEX_INITIALIZER, .spare = -1};
#define table lh_connections_table

/* ---- the table; all with the lock held ---- */

void lh_connections_say(const char *what, const struct lh_peer *peer)
{
    const struct lh_connections_figures *f = &table.figures;
    uint64_t now = lh_connections_now_ns();
    char text[480], name[LH_PEER_TEXT_BYTES] = "";

    if (table.config.log == NULL || (table.logged != 0 && now - table.logged < LOG_NS))
        return;
    table.logged = now;
    if (peer != NULL)
        lh_peer_print(peer, name);
    (void)snprintf(text, sizeof text,
        "%s%s%s: %u of at most %u connections; so far %" PRIu64 " idle ones closed, %" PRIu64
        " new ones turned away, %" PRIu64 " cut for cancelling calls without end, %" PRIu64
        " for sending what nothing came of",
        what, peer != NULL ? " from " : "", name, table.open, table.config.max, f->cut_idle,
        f->refused, f->cut_cancelling, f->cut_fruitless);
    table.config.log(LH_WARN, text);
}

/* Not listed, and without a call. */
static void dispose(struct lh_connection *c)
{
    if (c->peer != NULL)
        lh_peer_give(&table.peers, c->peer, lh_connections_now_ns());
    free(c);
}

void lh_connections_set_paced(struct lh_connection *c, bool paced)
{
    table.paced += paced - c->paced;
    c->peer->paced += paced - c->paced;
    c->paced = paced;
}

void lh_connections_bear(struct lh_connection *c)
{
    uint64_t bytes = atomic_exchange_explicit(&c->fruitless, 0, memory_order_relaxed);

    atomic_fetch_sub_explicit(&table.fruitless, bytes, memory_order_relaxed);
}

void lh_connections_forget(struct lh_connection *c)
{
    lh_connections_bear(c);
    if (c->named) {
        HASH_DEL(table.by_end, c);
        DL_DELETE(c->peer->connections, c);
        c->peer->open--;
        lh_connections_set_paced(c, false);
    }
    table.by_fd[c->fd] = NULL;
    table.open--;
    c->listed = false;
    if (c->calls == 0 && !c->owned)
        dispose(c);
}

/* Whether the descriptor still is this connection: gRPC closes it without telling us. */
static bool is_still(int fd, const struct lh_end *end)
{
    struct lh_end now;

    if (end == NULL) {
        struct sockaddr_storage any;
        socklen_t size = sizeof any;
        return getpeername(fd, (struct sockaddr *)&any, &size) == 0 && any.ss_family == AF_UNIX;
    }
    return lh_end_of_socket(fd, &now) && memcmp(&now, end, sizeof now) == 0;
}

bool lh_connections_alive(const struct lh_connection *c)
{
    return is_still(c->fd, c->named ? &c->end : NULL);
}

/* Some connections from descriptor `fd` on, and forgets those that are gone; returns where to go
 * on. Looks without the lock, which whoever reads from a connection needs. */
static size_t sweep_some(size_t fd)
{
    struct {
        struct lh_end end;
        int fd;
        bool named;
    } some[SWEEP_AT_ONCE];
    size_t n = 0, gone = 0;

    for (; fd < table.fd_capacity && n < SWEEP_AT_ONCE; fd++) {
        const struct lh_connection *c = table.by_fd[fd];
        if (c == NULL)
            continue;
        some[n].end = c->end;
        some[n].named = c->named;
        some[n++].fd = c->fd;
    }
    pthread_mutex_unlock(&table.lock);
    for (size_t i = 0; i < n; i++)
        if (!is_still(some[i].fd, some[i].named ? &some[i].end : NULL))
            some[gone++].fd = some[i].fd;
    pthread_mutex_lock(&table.lock);
    for (size_t i = 0; i < gone; i++) {
        struct lh_connection *c = table.by_fd[some[i].fd];
        if (c != NULL && !lh_connections_alive(c)) /* it may be another one by now */
            lh_connections_forget(c);
    }
    return fd;
}

static void sweep(void)
{
    for (size_t fd = 0; fd < table.fd_capacity;)
        fd = sweep_some(fd);
}

void lh_connections_cut(struct lh_connection *c)
{
    c->cut = true;
    if (c->listed && lh_connections_alive(c))
        (void)shutdown(c->fd, SHUT_RDWR);
}

static void sweep_peer(struct lh_peer *peer)
{
    struct lh_connection *c, *next;

    DL_FOREACH_SAFE(peer->connections, c, next)
        if (!lh_connections_alive(c))
            lh_connections_forget(c);
}

static int by_use(const void *a, const void *b)
{
    const struct lh_connection *x = *(struct lh_connection *const *)a;
    const struct lh_connection *y = *(struct lh_connection *const *)b;

    return (x->used > y->used) - (x->used < y->used);
}

/* Closes up to `count` idle connections, of `peer` if that is not NULL: those first that have been
 * idle for longest. */
static void cut_idle(unsigned count, const struct lh_peer *peer)
{
    struct lh_connection **idle = lh_alloc_array(table.open + 1, sizeof *idle);
    struct lh_connection *c, *next;
    size_t n = 0;

    if (peer != NULL) {
        DL_FOREACH(peer->connections, c)
            if (c->calls == 0 && !c->cut)
                idle[n++] = c;
    } else {
        HASH_ITER(hh, table.by_end, c, next) {
            if (c->calls == 0 && !c->cut)
                idle[n++] = c;
        }
    }
    qsort(idle, n, sizeof *idle, by_use);
    for (size_t i = 0; i < n && i < count; i++) {
        lh_connections_cut(idle[i]);
        table.figures.cut_idle++;
    }
    if (n > 0)
        lh_connections_say("closing idle connections to have room for others", peer);
    free(idle);
}

/* How many of at most `max` are to be closed for a new one to come: a little at a time and ahead of
 * need, since what is cut is closed by gRPC some moments later. */
static unsigned excess(unsigned open, unsigned max)
{
    unsigned full = max - max / 8;

    return open < full ? 0 : open - full + 1 + max / 16;
}

/* Whether one more may come. */
static bool room(void)
{
    unsigned max = table.config.max;
    uint64_t now = lh_connections_now_ns();

    if (excess(table.open, max) > 0 && now - table.swept >= SWEEP_NS) {
        sweep();
        table.swept = now;
        if (excess(table.open, max) > 0)
            cut_idle(excess(table.open, max), NULL);
    }
    return table.open < max;
}

/* Whether one more of this peer may. */
static bool room_for_peer(struct lh_peer *peer)
{
    unsigned max = table.config.peer_max;
    uint64_t now = lh_connections_now_ns();

    if (max == 0)
        return true;
    if (excess(peer->open, max) > 0 && now - peer->swept >= SWEEP_NS) {
        peer->swept = now;
        sweep_peer(peer);
        if (excess(peer->open, max) > 0)
            cut_idle(excess(peer->open, max), peer);
    }
    return peer->open < max && lh_peer_may_begin(peer, table.config.peer_rate, now);
}

/* `end` NULL: it has none; else `peer` is its own, and taken over. */
static void enter(int fd, const struct lh_end *end, struct lh_peer *peer)
{
    struct lh_connection *c = lh_alloc(sizeof *c), *old;

    c->fd = fd;
    c->named = end != NULL;
    c->used = lh_connections_now_ns();
    c->listed = true;
    if ((size_t)fd >= table.fd_capacity) {
        size_t before = table.fd_capacity;
        LH_GROW(table.by_fd, table.fd_capacity, (size_t)fd + 1);
        memset(table.by_fd + before, 0, (table.fd_capacity - before) * sizeof *table.by_fd);
    }
    if (table.by_fd[fd] != NULL)
        lh_connections_forget(table.by_fd[fd]);
    if (c->named) {
        c->end = *end;
        c->peer = peer;
        HASH_FIND(hh, table.by_end, &c->end, sizeof c->end, old);
        if (old != NULL)
            lh_connections_forget(old);
        HASH_ADD(hh, table.by_end, end, sizeof c->end, c);
        DL_APPEND(peer->connections, c);
        peer->open++;
    }
    table.by_fd[fd] = c;
    table.open++;
    table.figures.accepted++;
}

/* ---- accepting ---- */

void lh_connections_limit(const struct lh_connections_config *config)
{
    pthread_mutex_lock(&table.lock);
    table.config = *config;
    if (table.spare < 0)
        table.spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_unlock(&table.lock);
}

/* With the lock held. */
static bool turn_away_locked(int (*real)(int, struct sockaddr *, socklen_t *, int), int listener)
{
    if (table.spare < 0)
        table.spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (table.spare < 0)
        return false;
    close(table.spare);
    table.spare = -1;
    int fd = real(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    table.spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    table.figures.refused++;
    sweep();
    cut_idle(1 + table.open / 16, NULL);
    lh_connections_say("no descriptors are left", NULL);
    return true;
}

bool lh_connections_turn_away(int (*real)(int, struct sockaddr *, socklen_t *, int), int listener)
{
    pthread_mutex_lock(&table.lock);
    bool gone = turn_away_locked(real, listener);
    pthread_mutex_unlock(&table.lock);
    return gone;
}

static void refuse(const char *why, const struct lh_peer *peer)
{
    table.figures.refused++;
    table.figures.refused_peer += peer != NULL;
    lh_connections_say(why, peer);
}

/* With the lock held. Whether it came in. */
static bool admit_locked(int fd, const struct lh_end *end)
{
    struct lh_peer *peer = NULL;

    if (end != NULL)
        peer = lh_peer_take(&table.peers, end->ip, lh_connections_now_ns());
    bool for_peer = peer == NULL || room_for_peer(peer);
    bool in = for_peer && room();
    if (in)
        enter(fd, end, peer);
    else
        refuse(for_peer ? "too many connections" : "too many connections or too fast",
            for_peer ? NULL : peer);
    if (!in && peer != NULL)
        lh_peer_give(&table.peers, peer, lh_connections_now_ns());
    return in;
}

bool lh_connections_admit(int fd, const struct sockaddr_storage *address)
{
    struct lh_end end, still;
    bool in = true;

    /* Of a connection that was broken in the queue the socket does not say any more whose it was:
     * that it has an address is what accept(2) says. gRPC need not see it at all. */
    bool named = lh_end_of_address(address, &end);
    bool gone = named && !lh_end_of_socket(fd, &still);

    pthread_mutex_lock(&table.lock);
    if (table.config.max != 0) {
        in = !gone && admit_locked(fd, named ? &end : NULL);
        table.figures.gone += gone;
    }
    pthread_mutex_unlock(&table.lock);
    if (!in)
        close(fd);
    return in;
}

/* ---- calls ---- */

static void call_of_peer(struct lh_connection *c)
{
    unsigned rate = table.config.peer_calls_rate;

    table.calling += atomic_fetch_add_explicit(&c->peer->calls, 1, memory_order_relaxed) == 0;
    if (rate == 0)
        return;
    if (c->frames.opaque)
        lh_peer_began(c->peer, 1, rate, c->used);
    else
        lh_peer_seen(c->peer, rate, c->used);
}

struct lh_connection *lh_connections_take(int fd)
{
    struct lh_connection *c = NULL;

    pthread_mutex_lock(&table.lock);
    if (fd >= 0 && (size_t)fd < table.fd_capacity)
        c = table.by_fd[fd];
    if (c != NULL) {
        c->owned = true;
        c->frames.opaque = true;
        lh_connections_bear(c);
    }
    pthread_mutex_unlock(&table.lock);
    return c;
}

void lh_connections_closing(struct lh_connection *c)
{
    pthread_mutex_lock(&table.lock);
    c->owned = false;
    if (c->listed)
        lh_connections_forget(c);
    else if (c->calls == 0)
        dispose(c);
    pthread_mutex_unlock(&table.lock);
}

static void begin_call(struct lh_connection *c)
{
    c->calls++;
    c->used = lh_connections_now_ns();
    if (c->peer != NULL)
        call_of_peer(c);
}

struct lh_connection *lh_connections_call_on(struct lh_connection *c, bool *is_cut)
{
    pthread_mutex_lock(&table.lock);
    begin_call(c);
    *is_cut = c->cut;
    pthread_mutex_unlock(&table.lock);
    return c;
}

unsigned lh_connections_cancels_max(void)
{
    pthread_mutex_lock(&table.lock);
    unsigned max = table.config.cancels_max;
    pthread_mutex_unlock(&table.lock);
    return max;
}

struct lh_connection *lh_connections_call(const char *peer, bool *is_cut)
{
    struct lh_connection *c = NULL;
    struct lh_end key;

    *is_cut = false;
    if (peer == NULL || !lh_end_of_text(peer, &key))
        return NULL;
    pthread_mutex_lock(&table.lock);
    HASH_FIND(hh, table.by_end, &key, sizeof key, c);
    if (c != NULL) {
        lh_connections_bear(c);
        begin_call(c);
        *is_cut = c->cut;
    }
    pthread_mutex_unlock(&table.lock);
    return c;
}

void lh_connections_call_ended(struct lh_connection *c)
{
    if (c == NULL)
        return;
    pthread_mutex_lock(&table.lock);
    c->calls--;
    c->used = lh_connections_now_ns();
    if (c->peer != NULL)
        table.calling -= atomic_fetch_sub_explicit(&c->peer->calls, 1, memory_order_relaxed) == 1;
    if (!c->listed && c->calls == 0 && !c->owned)
        dispose(c);
    pthread_mutex_unlock(&table.lock);
}

void lh_connections_heard(struct lh_connection *c)
{
    if (c != NULL)
        lh_connections_bear(c);
}

unsigned lh_connections_peer_calls(const struct lh_connection *c)
{
    return c == NULL || c->peer == NULL ? 0 : atomic_load(&c->peer->calls);
}

uint64_t lh_connections_peer_unsent(const struct lh_connection *c)
{
    return c == NULL || c->peer == NULL ? 0 : atomic_load(&c->peer->unsent);
}

void lh_connections_unsent(struct lh_connection *c, int64_t bytes)
{
    if (c != NULL && c->peer != NULL)
        atomic_fetch_add_explicit(&c->peer->unsent, (uint64_t)bytes, memory_order_relaxed);
}

void lh_connections_refused_call(struct lh_connection *c, const char *why)
{
    pthread_mutex_lock(&table.lock);
    lh_connections_say(why, c == NULL ? NULL : c->peer);
    pthread_mutex_unlock(&table.lock);
}

void lh_connections_figures(struct lh_connections_figures *figures)
{
    pthread_mutex_lock(&table.lock);
    sweep();
    *figures = table.figures;
    figures->open = table.open;
    figures->max = table.config.max;
    pthread_mutex_unlock(&table.lock);
}
