/* What arrives over the connections (admission.h): when it is read, and what it is taken for. */
#include "admission/accepting.h"
#include "admission/pacing.h"
#include "admission/table.h"

#include <stdint.h>
#include <utlist.h>

#define SECOND_NS LH_CONNECTIONS_SECOND_NS
#define table     lh_connections_table
/* gRPC would read up to 4 MiB, in which several hundred thousand calls can begin, before anybody
 * has looked: seconds in which it does nothing else. So what is read ends soon after the frame
 * whose header was seen last, and sooner where more calls than that begin in a second. */
#define AHEAD_BYTES (UINT32_C(64) << 10)
#define CROWD       1000u
#define CROWD_BYTES (UINT32_C(16) << 10)

static struct lh_connection *of_fd(int fd)
{
    return fd >= 0 && (size_t)fd < table.fd_capacity ? table.by_fd[fd] : NULL;
}

/* Whether others have calls, or sent something of late: one alone may take all there is. */
static bool is_alone(const struct lh_peer *peer, uint64_t now)
{
    unsigned others = table.calling - (atomic_load(&peer->calls) > 0);

    return others == 0 && now - table.mixed_ns >= SECOND_NS;
}

static bool is_ahead(const struct lh_peer *peer, uint64_t now)
{
    return lh_peer_is_ahead(peer, is_alone(peer, now), now);
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
        if (peer->paced == 0 || is_ahead(peer, now))
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
static bool housekeep(void)
{
    lh_connections_wake_listeners();
    return end_pauses();
}

void lh_connections_housekeep_soon(void)
{
    pthread_mutex_lock(&table.lock);
    (void)lh_pacing_begin(housekeep);
    pthread_mutex_unlock(&table.lock);
}

size_t lh_connections_may_receive(int fd)
{
    size_t most = SIZE_MAX;
    bool may = true;

    pthread_mutex_lock(&table.lock);
    struct lh_connection *c = of_fd(fd);
    if (c != NULL && c->peer != NULL && !c->cut && table.config.peer_calls_rate != 0) {
        uint64_t now = lh_connections_now_ns();
        may = !is_ahead(c->peer, now);
        if (!may && !lh_connections_alive(
                        c)) { /* the descriptor is another connection's by now, or it broke */
            lh_connections_forget(c);
            may = true;
        } else if (may && lh_peer_is_busy(c->peer, now)) {
            DL_DELETE(c->peer->connections, c); /* what waits for longest is woken first */
            DL_APPEND(c->peer->connections, c);
        } else if (!may && !c->paced) {
            may = table.paced == 0 && !lh_pacing_begin(housekeep);
            lh_connections_set_paced(c, !may);
            table.figures.paced += c->paced;
        }
        if (!c->frames.opaque)
            most = c->crowded ? CROWD_BYTES : c->frames.body_left + AHEAD_BYTES;
    }
    pthread_mutex_unlock(&table.lock);
    return may ? most : 0;
}

/* What was read of a connection, in the order of the calls that it begins and cancels. */
static void take_frames(
    struct lh_connection *c, const struct iovec *parts, size_t part_count, size_t size)
{
    unsigned rate = table.config.peer_calls_rate;
    uint64_t now = lh_connections_now_ns();

    if (now - c->second >= SECOND_NS) {
        c->crowded = c->frames.begun > CROWD; /* in the last second that it was read from */
        c->second = now;
        c->frames.begun = c->frames.cancelled = 0;
    }
    unsigned before = c->frames.begun;
    for (size_t i = 0; i < part_count && size > 0; i++) {
        size_t n = parts[i].iov_len < size ? parts[i].iov_len : size;
        lh_frames_take(&c->frames, parts[i].iov_base, n);
        size -= n;
    }
    c->crowded = c->crowded || c->frames.begun > CROWD;
    if (rate != 0 && c->peer != NULL && !c->frames.opaque)
        lh_peer_sent(c->peer, c->frames.begun - before, rate, now);
}

static uint64_t fruitless(const struct lh_connection *c)
{
    return atomic_load_explicit(&c->fruitless, memory_order_relaxed);
}

/* The connection with most of it of the peer with most of it, or `c`. */
static struct lh_connection *most_fruitless(struct lh_connection *c)
{
    uint64_t most = 0;
    struct lh_peer *peer, *next;
    struct lh_connection *one, *found = c;

    HASH_ITER(hh, table.peers.all, peer, next) {
        struct lh_connection *largest = NULL;
        uint64_t sum = 0;
        DL_FOREACH(peer->connections, one) {
            if (one->cut)
                continue;
            sum += fruitless(one);
            if (largest == NULL || fruitless(one) > fruitless(largest))
                largest = one;
        }
        if (sum > most) {
            most = sum;
            found = largest;
        }
    }
    return found;
}

static void cut_fruitless(struct lh_connection *c)
{
    table.figures.cut_fruitless++;
    lh_connections_bear(c);
    lh_connections_cut(c);
    lh_connections_say("much was sent, and nothing came of it", c->peer);
}

/* False: that connection was cut. */
static bool bears(struct lh_connection *c, size_t size)
{
    uint64_t max = table.config.fruitless_max;

    if (max == 0 || c->peer == NULL || c->cut)
        return true;
    uint64_t own = atomic_fetch_add_explicit(&c->fruitless, size, memory_order_relaxed) + size;
    uint64_t all = atomic_fetch_add_explicit(&table.fruitless, size, memory_order_relaxed) + size;
    bool too_much = own > max || c->frames.block_too_long;
    if (!too_much && all / 32 <= max)
        return true;
    struct lh_connection *victim = too_much ? c : most_fruitless(c);
    if (!lh_connections_alive(victim)) {
        lh_connections_forget(victim);
        return true;
    }
    cut_fruitless(victim);
    return victim != c;
}

/* False: it was cut for the calls that it has cancelled. */
static bool ends_calls(struct lh_connection *c)
{
    unsigned max = table.config.cancels_max;

    if (max == 0 || c->frames.begun <= max || c->frames.cancelled <= max ||
        !lh_connections_alive(c))
        return true;
    table.figures.cut_cancelling++;
    lh_connections_cut(c);
    lh_connections_say("calls that are opened only to be cancelled", c->peer);
    return false;
}

bool lh_connections_received(int fd, const struct iovec *parts, size_t part_count, size_t size)
{
    pthread_mutex_lock(&table.lock);
    struct lh_connection *c = of_fd(fd);
    if (c != NULL && c->peer != table.recent) {
        table.recent = c->peer;
        table.mixed_ns = lh_connections_now_ns();
    }
    bool seen = c != NULL && !c->frames.opaque;
    if (seen)
        take_frames(c, parts, part_count, size);
    bool go_on = c == NULL || ((!seen || ends_calls(c)) && bears(c, size));
    pthread_mutex_unlock(&table.lock);
    return go_on;
}
