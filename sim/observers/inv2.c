/* INV-2: the master never grants a chunk to a new holder before the old one's lease has ended on the
 * old holder's clock; and, which is how it can know (LEASE-2), not before it has ended on its own
 * clock, unless it was given back or the holder was proved dead (SES-5). A master that has restarted
 * waits for the longest session that its predecessor may have promised (LEASE-7).
 *
 * Looked at where the decision falls: in the step that emits the grant's commit. */
#include "sim/observers/internal.h"

/* What a former master promised its successor does not know, but its own clock went on: it may have
 * written down that the lease had run out. */
struct lh_instant lh_ob_grantor_waits_until(
    const struct lh_sim_observers *o, const struct lh_ob_promised *ends)
{
    return ends->this_master ? ends->grantor
                             : lh_instant_min(ends->grantor,
                                   lh_instant_add(o->master->started, ends->session_term));
}

static void check_promise(struct lh_sim_observers *o, const struct chunk *c,
    const struct promise *p, const struct actor *to, uint64_t version)
{
    const struct actor *from = o->servers[p->server];
    struct lh_instant holder_now = lh_sim_clock(from->node), master_now = o->master->clock;
    struct lh_ob_promised ends;

    lh_ob_book_promise(o, p, &ends);
    if (lh_instant_before(holder_now, ends.holder)) {
        lh_ob_fail_unless_excused(o, "INV-2", c->id, &o->seen_inv2,
            "the master gave chunk %llu at version %llu to %s, and %s may act on version %llu for "
            "another %llu us of its clock",
            U(c->id), U(version), to->name, from->name, U(p->version),
            U(lh_instant_until(holder_now, ends.holder).ns / 1000));
        return;
    }
    struct lh_instant until = lh_ob_grantor_waits_until(o, &ends);
    if (lh_instant_before(master_now, until))
        lh_sim_fail(o->sim, "INV-2", c->id,
            "the master gave chunk %llu at version %llu to %s, and has to wait for %s (version "
            "%llu) for another %llu us of its own clock (%s)",
            U(c->id), U(version), to->name, from->name, U(p->version),
            U(lh_instant_until(master_now, until).ns / 1000),
            ends.this_master ? "LEASE-2" : "LEASE-7");
}

void lh_ob_inv2_decided(
    struct lh_sim_observers *o, struct chunk *c, uint32_t server, uint64_t version)
{
    for (size_t i = 0; i < c->promise_count; i++)
        if (c->promises[i].server != server)
            check_promise(o, c, &c->promises[i], o->servers[server], version);
}
