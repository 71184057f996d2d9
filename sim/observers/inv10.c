/* INV-10: what the master takes for held somebody holds. While holder and master talk, a lease of
 * which the holder knows nothing (any more) does not outlive two heartbeats (LEASE-8, SES-5a).
 *
 * Time does not come into it, nor who could talk to whom: a heartbeat that echoes the answer to an
 * earlier one proves that the two have talked in between. The first heartbeat at which the beliefs
 * differ may have left when they did not yet; the next one that echoes its answer is the first that
 * can tell; with the one that echoes the answer to that it must be over.
 *
 * A chunk that rolls over takes no appends whatever anybody believes: its old lease is left to run
 * out, and is not continued (FAIL-2a, LEASE-7).
 *
 * A grant that the holder has not confirmed does not count: it is sent again until it is answered
 * (LEASE-1). A former master's does, once the process that it names has registered. */
#include "sim/observers/internal.h"

#include "master/master.h"

#include <inttypes.h>
#include <string.h>

static bool is_unheld(
    const struct lh_sim_observers *o, const struct actor *server, const struct chunk *c)
{
    const struct lh_master *m = lh_ob_master_core(o);
    struct lh_master_lease lease;
    uint64_t version;

    return m != NULL && !c->decided_intent &&
           lh_master_lease_of(m, c->id, o->master->clock, &lease) &&
           (lease.confirmed || lease.waiting) && strcmp(lease.holder, server->name) == 0 &&
           /* not what a process before it was granted, which had the same one (SES-1b) */
           lh_sim_stored_incarnation(server->node) == lh_sim_incarnation(server->node) &&
           c->holder_incarnation == lh_sim_incarnation(server->node) &&
           !lh_ob_believes(server, c->id, lh_sim_clock(server->node), &version);
}

bool lh_ob_said_in_session(
    const struct lh_sim_observers *o, const struct actor *server, uint64_t session)
{
    const struct lh_master *master = lh_ob_master_core(o);
    struct lh_instant end;
    uint64_t present;

    return lh_master_session_of(master, server->name, o->master->clock, &present, &end) &&
           present == session;
}

void lh_ob_inv10_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    struct chunk *c, *next;

    if (a->part != PART_MASTER || s->method != LH_METHOD_SESSION || s->message == NULL ||
        s->peer == NULL)
        return;
    const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)s->message;
    if (m->body_case != LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT)
        return;
    const struct actor *server = lh_ob_actor(o, s->peer);
    uint64_t session = m->heartbeat->session;
    if (!lh_ob_said_in_session(o, server, session))
        return;
    HASH_ITER(hh, o->chunks, c, next) {
        struct replica *r = lh_ob_replica(c, server->number);
        if (!is_unheld(o, server, c)) {
            r->unheld = 0;
            continue;
        }
        if (r->unheld_session != session)
            r->unheld = 0;
        if (r->unheld > 0 && m->heartbeat->last_stamp < r->unheld_stamp)
            continue; /* it has not heard the answer to that one yet */
        r->unheld++;
        r->unheld_stamp = m->heartbeat->stamp;
        r->unheld_session = session;
        if (r->unheld < 3)
            continue;
        lh_sim_fail(o->sim, "INV-10", c->id,
            "for the master %s holds chunk %" PRIu64
            ", and %s does not believe so; they have talked "
            "about it (LEASE-8)",
            server->name, c->id, server->name);
        return;
    }
}
