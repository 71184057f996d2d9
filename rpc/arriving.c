/* What arrives over the connections (connections.h): when it is read, and what it is taken for. */
#include "rpc/admission.h"
#include "rpc/pacing.h"
#include "rpc/table.h"

#include <utlist.h>

#define SECOND_NS LH_CONNECTIONS_SECOND_NS
#define table     lh_connections_table

static struct lh_connection *of_fd(int fd)
{
    return fd >= 0 && (size_t)fd < table.fd_capacity ? table.by_fd[fd] : NULL;
}

/* Whether there were several peers of late: one alone may take all there is. */
static bool is_shared(uint64_t now)
{
    return now - table.mixed_ns < SECOND_NS;
}

/* Lets those be read again whose peer may go on, those first that were not read for longest: gRPC
 * comes to them in this order, and after some calls the peer is ahead again. */
static bool end_pauses(void)
{
    struct lh_peer *peer, *next;
    struct lh_connection *c;
    uint64_t now = lh_connections_now_ns();

    pthread_mutex_lock(&table.lock);
    HASH_ITER(hh, table.peers.all, peer, next) {
        if (peer->paced == 0 || (lh_peer_is_ahead(peer, now) && is_shared(now)))
            continue;
        for (c = peer->connections; c != NULL && peer->paced > 0; c = c->next) {
            if (c->paced) {
                lh_connections_set_paced(c, false);
                lh_pacing_again(c->fd);
            }
        }
    }
    bool more = table.paced > 0;
    pthread_mutex_unlock(&table.lock);
    return more;
}

/* Does what is due of what waits. */
static bool tend(void)
{
    lh_connections_wake_listeners();
    return end_pauses();
}

void lh_connections_tend_soon(void)
{
    (void)lh_pacing_begin(tend);
}

bool lh_connections_may_receive(int fd)
{
    bool may = true;

    pthread_mutex_lock(&table.lock);
    struct lh_connection *c = of_fd(fd);
    if (c != NULL && c->peer != NULL && !c->cut && table.config.peer_calls_rate != 0) {
        uint64_t now = lh_connections_now_ns();
        may = !lh_peer_is_ahead(c->peer, now) || !is_shared(now);
        if (!may && !lh_connections_alive(
                        c)) { /* the descriptor is another connection's by now, or it broke */
            lh_connections_forget(c);
            may = true;
        } else if (may && lh_peer_is_busy(c->peer, now)) {
            DL_DELETE(c->peer->connections, c); /* what waits for longest is woken first */
            DL_APPEND(c->peer->connections, c);
        } else if (!may && !c->paced) {
            may = table.paced == 0 && !lh_pacing_begin(tend);
            lh_connections_set_paced(c, !may);
            table.figures.paced += c->paced;
        }
    }
    pthread_mutex_unlock(&table.lock);
    return may;
}

bool lh_connections_received(int fd, const struct iovec *parts, size_t part_count, size_t size)
{
    bool go_on = true;

    pthread_mutex_lock(&table.lock);
    unsigned max = table.config.cancels_max;
    struct lh_connection *c = of_fd(fd);
    if (c != NULL && c->peer != table.recent) {
        table.recent = c->peer;
        table.mixed_ns = lh_connections_now_ns();
    }
    if (max == 0)
        c = NULL;
    if (c != NULL && !c->frames.opaque) {
        uint64_t now = lh_connections_now_ns();
        if (now - c->second >= SECOND_NS) {
            c->second = now;
            c->frames.begun = c->frames.cancelled = 0;
        }
        for (size_t i = 0; i < part_count && size > 0; i++) {
            size_t n = parts[i].iov_len < size ? parts[i].iov_len : size;
            lh_frames_take(&c->frames, parts[i].iov_base, n);
            size -= n;
        }
        if (c->frames.begun > max && c->frames.cancelled > max && lh_connections_alive(c)) {
            table.figures.cut_cancelling++;
            lh_connections_cut(c);
            lh_connections_say("calls that are opened only to be cancelled", c->peer);
            go_on = false;
        }
    }
    pthread_mutex_unlock(&table.lock);
    return go_on;
}
