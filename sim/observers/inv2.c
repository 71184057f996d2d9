/* INV-2: the master never grants a chunk to a new holder before the old one's lease has ended on
 * the old holder's clock; and, which is how it can know (LEASE-2), not before it has ended on its
 * own clock, unless it was given back or the holder was proved dead (SES-5). A master that has
 * restarted waits for the longest session that its predecessor may have promised (LEASE-7). And
 * what it grants is durable first (LEASE-1).
 *
 * Looked at where the decision falls, in the step that emits the grant's commit; and as soon as
 * the master promises something: it believes at least as long that the chunk is not free. That
 * one word of the master's core is to this side of a lease what a holder's belief is to the
 * other (INV-1). */
#include "sim/observers/internal.h"

#include "master/master.h"

#include <inttypes.h>
#include <string.h>

/* What a former master promised its successor may not know, but its own clock went on: it may have
 * written down that the lease had run out. */
struct lh_instant lh_ob_grantor_waits_until(
    const struct lh_sim_observers *o, const struct lh_ob_promised *ends)
{
    if (ends->this_master)
        return ends->grantor;
    /* Clocks outside rho: to the one that promised it this may take long yet. */
    if (ends->waited)
        return (struct lh_instant){0};
    if (ends->clock == o->master->node || ends->clock == NULL)
        return lh_instant_min(ends->grantor, ends->wait_end);
    return lh_instant_reached(lh_sim_clock(ends->clock), ends->grantor) ? (struct lh_instant){0}
                                                                        : ends->wait_end;
}

static void check_promise(struct lh_sim_observers *o, const struct chunk *c,
    const struct promise *p, const struct actor *to, uint64_t version)
{
    const struct actor *from = o->servers[p->server];
    struct lh_instant holder_now = lh_sim_clock(from->node), master_now = o->master->clock;
    struct lh_ob_promised ends;

    lh_ob_model_promise(o, p, &ends);
    if (lh_instant_before(holder_now, ends.holder)) {
        lh_ob_fail_unless_excused(o, "INV-2", c->id, &o->seen_inv2,
            "the master gave chunk %" PRIu64 " at version %" PRIu64
            " to %s, and %s may act on version %" PRIu64 " for "
            "another %" PRIu64 " us of its clock",
            c->id, version, to->name, from->name, p->version,
            lh_instant_until(holder_now, ends.holder).ns / 1000);
        return;
    }
    struct lh_instant until = lh_ob_grantor_waits_until(o, &ends);
    if (lh_instant_before(master_now, until))
        lh_sim_fail(o->sim, "INV-2", c->id,
            "the master gave chunk %" PRIu64 " at version %" PRIu64
            " to %s, and has to wait for %s (version "
            "%" PRIu64 ") for another %" PRIu64 " us of its own clock (%s)",
            c->id, version, to->name, from->name, p->version,
            lh_instant_until(master_now, until).ns / 1000,
            ends.this_master ? "LEASE-2" : "LEASE-7");
}

void lh_ob_inv2_decided(
    struct lh_sim_observers *o, struct chunk *c, uint32_t server, uint64_t version)
{
    for (size_t i = 0; i < c->promise_count; i++)
        if (c->promises[i].server != server) {
            check_promise(o, c, &c->promises[i], o->servers[server], version);
            c->promises[i].waited = true;
        }
}

void lh_ob_inv2_freed(struct lh_sim_observers *o, struct chunk *c)
{
    const struct actor *holder = o->servers[c->decided_holder];

    for (size_t i = 0; i < c->promise_count; i++) {
        struct promise *p = &c->promises[i];
        struct lh_ob_promised ends;
        if (p->server != holder->number || p->version > c->decided_granted)
            continue;
        if (p->version < c->decided_granted) { /* the newer one has taken its place */
            p->waited = true;
            continue;
        }
        lh_ob_model_promise(o, p, &ends);
        struct lh_instant until = lh_ob_grantor_waits_until(o, &ends);
        if (!lh_instant_before(o->master->clock, until)) {
            p->waited = true;
            continue;
        }
        lh_sim_fail(o->sim, "INV-2", c->id,
            "the master takes chunk %" PRIu64 " for free, which %s holds at version %" PRIu64
            " for another %" PRIu64 " us of the master's clock and has not given back (LEASE-2)",
            c->id, holder->name, p->version, lh_instant_until(o->master->clock, until).ns / 1000);
        return;
    }
}

/* What the master believes of a chunk about which it has promised something in this step. */
static void check_belief(struct lh_sim_observers *o, const struct chunk *c)
{
    const struct lh_master *m = lh_ob_master_core(o);
    struct lh_master_lease lease;

    if (m == NULL || !lh_master_lease_of(m, c->id, o->master->clock, &lease))
        return; /* if it should: what it decides then is looked at */
    for (size_t i = 0; i < c->promise_count; i++) {
        struct lh_ob_promised ends;
        lh_ob_model_promise(o, &c->promises[i], &ends);
        struct lh_instant until = lh_ob_grantor_waits_until(o, &ends);
        if (!lh_instant_before(o->master->clock, until) || !lh_instant_before(lease.end, until))
            continue;
        lh_sim_fail(o->sim, "INV-2", c->id,
            "the master takes chunk %" PRIu64 " for free in %" PRIu64
            " us of its clock, and has promised %s that it is not for another %" PRIu64
            " us after that (TIME-4, LEASE-7)",
            c->id, lh_instant_until(o->master->clock, lease.end).ns / 1000,
            o->servers[c->promises[i].server]->name, lh_instant_until(lease.end, until).ns / 1000);
        return;
    }
}

void lh_ob_inv2_stepped(struct lh_sim_observers *o)
{
    uint64_t chunk;

    while (lh_ob_model_promised(o, &chunk))
        check_belief(o, lh_ob_chunk(o, chunk));
}

void lh_ob_inv2_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part != PART_MASTER || s->method != LH_METHOD_SESSION || s->message == NULL ||
        s->peer == NULL)
        return;
    const Leasehold__SessionReply *m = (const Leasehold__SessionReply *)s->message;
    if (m->body_case != LEASEHOLD__SESSION_REPLY__BODY_GRANT)
        return;
    const struct chunk *c = lh_ob_chunk(o, m->grant->chunk);
    const struct actor *to = lh_ob_actor(o, s->peer);
    if (c->decided_intent && !lh_ob_ledger_deciding(o, c))
        lh_sim_fail(o->sim, "INV-2", c->id,
            "the master sends %s a grant of chunk %" PRIu64 ", which it intends to seal (FAIL-2a)",
            to->name, c->id);
    if (c->version != m->grant->version || c->holder != (int32_t)to->number)
        lh_sim_fail(o->sim, "INV-2", c->id,
            "the master sends %s the grant of chunk %" PRIu64 " at version %" PRIu64
            ", which is not what its store says (LEASE-1)",
            to->name, c->id, m->grant->version);
}
