/* What ends by itself: replies that nobody takes, requests that do not come. */
#include "base/alloc.h"
#include "grpc/internal.h"

#include <stdlib.h>

/* Slow requests are looked for this often. */
#define SLOW_NS UINT64_C(1000000000)

/* A peer that has more than its share of replies gets a part of the time of others. */
#define OVER_SHARE 10u

/* Is it longer ago than that? What happened after `now` was read is not. */
static bool is_past(uint64_t then_ns, uint64_t most_ns, uint64_t now_ns)
{
    return then_ns < now_ns && now_ns - then_ns > most_ns;
}

/* Cancels the call of a served link that its owner has closed some time ago and whose peer has not
 * taken what it was sent. False: it is not so. */
static bool drop_stuck(struct lh_rpc_link *link, uint64_t now_ns)
{
    const struct lh_transport_config *c = &link->rpc->config;
    uint64_t most = c->reply_timeout.ns;

    pthread_mutex_lock(&link->lock);
    bool stuck = link->close_wanted && !link->over && link->unsent > 0;
    /* The connection is known until the call has ended. */
    if (stuck && c->peer_unsent_max != 0 &&
        lh_connections_peer_unsent(link->connection) > c->peer_unsent_max)
        most /= OVER_SHARE;
    stuck = stuck && is_past(link->closed_ns, most, now_ns);
    if (stuck) /* with the lock held: the call is given back only by who has it */
        (void)grpc_call_cancel(link->call, NULL);
    pthread_mutex_unlock(&link->lock);
    return stuck;
}

/* Cancels a unary call whose request has not come in whole for too long. */
static bool drop_slow(struct lh_rpc_link *link, uint64_t now_ns)
{
    uint64_t most = link->rpc->config.request_timeout.ns;

    pthread_mutex_lock(&link->lock);
    bool slow = link->unary_request && link->reading && !link->got_message && !link->over &&
                !link->close_wanted && is_past(link->served_ns, most, now_ns);
    if (slow)
        (void)grpc_call_cancel(link->call, NULL);
    pthread_mutex_unlock(&link->lock);
    return slow;
}

/* The served links, each with a reference, in a malloc'd array. */
static struct lh_rpc_link **served_links(struct lh_rpc *rpc, size_t *count)
{
    struct lh_rpc_link **all = NULL;
    size_t capacity = 0;

    *count = 0;
    pthread_mutex_lock(&rpc->lock);
    for (struct lh_rpc_link *l = rpc->links; l != NULL; l = l->next) {
        if (!l->served)
            continue;
        LH_GROW(all, capacity, *count + 1);
        lh_rpc_link_ref(l);
        all[(*count)++] = l;
    }
    pthread_mutex_unlock(&rpc->lock);
    return all;
}

void lh_rpc_housekeep(struct lh_rpc *rpc)
{
    const struct lh_transport_config *c = &rpc->config;
    uint64_t now = lh_rpc_now_ns();
    size_t count;

    lh_tls_housekeep(rpc->tls);
    lh_tls_housekeep(rpc->foreign_tls);
    uint64_t unsent = lh_rpc_unsent(rpc);
    bool stuck = (c->unsent_max != 0 && unsent > c->unsent_max / 2) ||
                 (c->peer_unsent_max != 0 && unsent > c->peer_unsent_max / 2);
    bool slow = now - rpc->tended_ns >= SLOW_NS;
    if (!stuck && !slow)
        return;
    rpc->tended_ns = slow ? now : rpc->tended_ns;
    struct lh_rpc_link **all = served_links(rpc, &count);
    for (size_t i = 0; i < count; i++) {
        if (stuck && drop_stuck(all[i], now))
            atomic_fetch_add_explicit(&rpc->replies_dropped, 1, memory_order_relaxed);
        if (slow && drop_slow(all[i], now))
            atomic_fetch_add_explicit(&rpc->requests_dropped, 1, memory_order_relaxed);
        lh_rpc_link_unref(all[i]);
    }
    free(all);
}
