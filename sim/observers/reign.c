/* INV-11, and which of several masters is "the master" for all other observers: the one whose
 * reign is the newest. It is looked at when it has made a step. What comes to it while it is not
 * confirmed it takes when it is (HA-2), and so do they. */
#include "sim/observers/reign.h"
#include "sim/observers/leases.h"

#include "sim/cluster/internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* An input of a master that waits. */
struct deferred {
    struct deferred *next;
    uint64_t at; /* true ns */
    struct lh_sim_sight sight;
    struct lh_input input;
    ProtobufCMessage *message;
};

/* What was delayed when the faults ended has arrived by then, and whoever waited was answered. */
static bool is_quiet(const struct lh_sim_observers *o)
{
    const struct lh_sim_cluster_config *config = &o->cluster->config;

    return o->over &&
           lh_sim_now(o->sim) - o->over_at > 10 * config->reigns.reign_term.ns + lh_seconds(5).ns;
}

/* From here on a master that begins to act is what a master that starts is where there is one. */
static void begin_reign(struct lh_sim_observers *o, struct actor *a, uint64_t reign)
{
    if (is_quiet(o) && o->reign != 0 && o->quiet_reign == o->reign)
        lh_sim_fail(o->sim, "INV-9", 0,
            "%s begins reign %" PRIu64 " after that of %s, and nothing was broken", a->name, reign,
            o->master->name);
    o->master = a;
    o->reign = reign;
    o->master_life++;
    o->ticket = 0;
    a->started = a->clock;
    a->started_at = lh_sim_now(o->sim);
    lh_ob_ledger_ended(o);
    lh_ob_leases_lives(o, a, LH_SIM_LIFE_STARTED);
    lh_ob_model_lives(o, a, LH_SIM_LIFE_STARTED);
    lh_ob_inv9_lives(o, a, LH_SIM_LIFE_STARTED);
    lh_ob_health_lives(o, a, LH_SIM_LIFE_STARTED);
}

/* INV-11: nobody else may take himself for confirmed by his own clock. */
static void check_alone(struct lh_sim_observers *o, const struct actor *a)
{
    struct lh_reign_state state;

    for (size_t i = 0; i < lh_sim_masters(o->cluster); i++) {
        struct lh_sim_node *other = lh_sim_master_at(o->cluster, i + 1);
        if (other == a->node || !lh_sim_reign_of(o->cluster, other, &state) ||
            state.phase != LH_REIGN_ACTING ||
            !lh_instant_before(lh_sim_clock(other), state.confirmed_until))
            continue;
        lh_ob_fail_unless_excused(o, "INV-11", 0, &o->seen_inv11,
            "%s and %s both take themselves for the active master", a->name, lh_sim_name(other));
    }
}

/* HA-2: what a master says to others it decided while it was confirmed, by its own clock. */
void lh_ob_reign_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    struct lh_reign_state state;

    if (s->effect->kind != LH_FX_SEND || (s->effect->link & LH_LINK_SERVED) == 0 ||
        s->method == LH_METHOD_MASTERS || s->method == LH_METHOD_TRANSFER ||
        s->method == LH_METHOD_FORGET_MASTER ||
        lh_master_is_read(s->method) || /* HA-2a: names.c says whether it is true */
        !lh_sim_reign_of(o->cluster, a->node, &state) ||
        (state.phase == LH_REIGN_ACTING && lh_instant_before(a->clock, state.confirmed_until)))
        return;
    lh_sim_fail(o->sim, "INV-11", 0,
        "%s answers, and did not know whether it was still the active master (HA-2)", a->name);
}

void lh_ob_reign_forget(struct lh_sim_observers *o)
{
    struct deferred *d;

    while ((d = o->deferred) != NULL) {
        o->deferred = d->next;
        lh_wire_free(d->message);
        free(d);
    }
    o->deferred_last = NULL;
}

/* What came to a master that is not confirmed is taken when it is. */
static void defer(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    struct deferred *d = lh_alloc(sizeof *d);

    d->at = lh_sim_now(o->sim);
    d->input = *s->input;
    d->input.text = NULL;
    d->sight = *s;
    d->sight.payload = NULL;
    if (s->message != NULL) {
        size_t size = protobuf_c_message_get_packed_size(s->message);
        uint8_t *bytes = lh_alloc(size + 1);
        protobuf_c_message_pack(s->message, bytes);
        d->message = protobuf_c_message_unpack(s->message->descriptor, NULL, size, bytes);
        free(bytes);
    }
    if (o->deferred_last != NULL)
        o->deferred_last->next = d;
    else
        o->deferred = d;
    o->deferred_last = d;
}

static void take_deferred(struct lh_sim_observers *o, struct actor *a)
{
    static const struct lh_buf nothing;
    struct deferred *all = o->deferred, *d;
    struct lh_instant now = a->clock;

    o->deferred = o->deferred_last = NULL;
    o->mixed_at = lh_sim_now(o->sim);
    o->mixed_since = all->at;
    while ((d = all) != NULL) {
        all = d->next;
        d->sight.input = &d->input;
        d->sight.message = d->message;
        d->sight.payload = &nothing;
        a->clock = d->input.now; /* as of then it counts for the core, too */
        if (!failed(o))
            lh_ob_take(o, a, &d->sight);
        lh_wire_free(d->message);
        free(d);
    }
    a->clock = now;
}

/* A master among others has made a step. True: it is the one that acts. */
bool lh_ob_reign_acts(struct lh_sim_observers *o, struct actor *a)
{
    struct lh_reign_state state;

    if (lh_sim_shared_etcd(o->cluster) == NULL)
        return true;
    if (!lh_sim_reign_of(o->cluster, a->node, &state) || state.phase != LH_REIGN_ACTING) {
        if (a == o->master)
            lh_ob_reign_forget(o);
        return false;
    }
    if (state.reign > o->reign) {
        lh_ob_reign_forget(o);
        begin_reign(o, a, state.reign);
    }
    if (a != o->master || state.reign != o->reign)
        return false;
    if (lh_instant_before(lh_sim_clock(a->node), state.confirmed_until)) {
        check_alone(o, a);
        if (is_quiet(o))
            o->quiet_reign = o->reign;
    }
    if (o->deferred != NULL && state.waiting == 0)
        take_deferred(o, a);
    return true;
}

const struct lh_master *lh_ob_master_core(const struct lh_sim_observers *o)
{
    return lh_sim_acting_core(o->cluster, o->master->node);
}

/* Is it an input that the master's core takes now? */
bool lh_ob_reign_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    struct lh_reign_state state;

    if (a->part != PART_MASTER || lh_sim_shared_etcd(o->cluster) == NULL)
        return true;
    if (a != o->master || !lh_sim_reign_of(o->cluster, a->node, &state) ||
        state.phase != LH_REIGN_ACTING)
        return false;
    if (lh_instant_before(s->input->now, state.confirmed_until))
        return true;
    if ((s->input->link & LH_LINK_SERVED) != 0)
        defer(o, s);
    return false;
}

bool lh_ob_reign_confirmed(const struct lh_sim_observers *o)
{
    struct lh_reign_state state;

    return lh_sim_reign_of(o->cluster, o->master->node, &state) && state.phase == LH_REIGN_ACTING &&
           lh_instant_before(lh_sim_clock(o->master->node), state.confirmed_until);
}
