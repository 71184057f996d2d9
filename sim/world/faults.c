/* What can be wrong with the network, and with connections. */
#include "sim/world/internal.h"
#include "sim/world/network.h"

#include "base/assert.h"

#include <inttypes.h>

/* `visit` is given the link and which of its ends is at `a`. */
static void each_between(struct lh_sim_node *a, struct lh_sim_node *b,
    void (*visit)(struct lh_sim *, struct link *, int at))
{
    struct lh_sim *sim = a->sim;
    struct link *next;

    for (struct link *link = sim->network.links; link != NULL; link = next) {
        struct lh_sim_node *x = link->ends[0].node, *y = link->ends[1].node;
        next = link->next;
        if ((x == a && y == b) || (x == b && y == a)) {
            /* The visit may end this link, but no other one. */
            visit(sim, link, x != a);
        }
    }
}

static void watch_link(struct lh_sim *sim, struct link *link, int at)
{
    (void)at;
    for (int i = 0; i < 2; i++)
        if (link->ends[i].open)
            lh_sim_network_watch_silence(sim, &link->ends[i]);
}

static void advance_link(struct lh_sim *sim, struct link *link, int at)
{
    (void)at;
    for (int i = 0; i < 2; i++)
        lh_sim_network_move_on(sim, &link->ends[i]);
}

static void break_link(struct lh_sim *sim, struct link *link, int at)
{
    (void)at;
    link->references++;
    for (int i = 0; i < 2; i++)
        lh_sim_network_break_end(sim, &link->ends[i]);
    lh_sim_network_unref(sim, link);
}

static void break_one_end(struct lh_sim *sim, struct link *link, int at)
{
    if (at == 1 && !link->arrived)
        return; /* it has not heard of the connection yet */
    link->broken = true;
    lh_sim_network_break_end(sim, &link->ends[at]);
    lh_sim_network_watch_silence(sim, &link->ends[!at]);
}

static void watch_one_end(struct lh_sim *sim, struct link *link, int at)
{
    if (link->ends[at].open)
        lh_sim_network_watch_silence(sim, &link->ends[at]);
}

void lh_sim_cut(struct lh_sim_node *from, struct lh_sim_node *to)
{
    struct network *net = &from->sim->network;

    LH_ASSERT(from->sim == to->sim && from != to);
    if (net->cut[from->index][to->index])
        return;
    lh_sim_note(from->sim, "nothing gets from %s to %s any more", from->name, to->name);
    net->cut[from->index][to->index] = true;
    net->cuts[from->index][to->index]++;
    each_between(from, to, watch_link);
}

void lh_sim_heal(struct lh_sim_node *from, struct lh_sim_node *to)
{
    struct network *net = &from->sim->network;

    if (!net->cut[from->index][to->index])
        return;
    lh_sim_note(from->sim, "%s reaches %s again", from->name, to->name);
    net->cut[from->index][to->index] = false;
    each_between(from, to, advance_link);
    lh_sim_wire_move_on(from, to);
}

static void with_each(struct lh_sim_node *a, struct lh_sim_node *b,
    void (*one)(struct lh_sim_node *, struct lh_sim_node *))
{
    for (size_t i = 0; i < a->sim->node_count; i++) {
        struct lh_sim_node *other = a->sim->nodes[i];
        if (other == a || (b != NULL && other != b))
            continue;
        one(a, other);
        one(other, a);
    }
}

void lh_sim_isolate(struct lh_sim_node *a, struct lh_sim_node *b)
{
    with_each(a, b, lh_sim_cut);
}

void lh_sim_rejoin(struct lh_sim_node *a, struct lh_sim_node *b)
{
    with_each(a, b, lh_sim_heal);
}

void lh_sim_break(struct lh_sim_node *a, struct lh_sim_node *b)
{
    lh_sim_note(a->sim, "the connections between %s and %s break", a->name, b->name);
    each_between(a, b, break_link);
    lh_sim_wire_break(a, b);
}

void lh_sim_half_close(struct lh_sim_node *opener, enum lh_method method)
{
    lh_sim_note(
        opener->sim, "%s half-closes its %s streams", opener->name, lh_method_info(method)->path);
    for (struct link *l = opener->sim->network.links; l != NULL; l = l->next)
        if (l->method == method && l->ends[0].node == opener)
            lh_sim_network_half_close(opener->sim, l);
}

void lh_sim_break_at(struct lh_sim_node *at, struct lh_sim_node *other)
{
    lh_sim_note(at->sim, "the connections between %s and %s break, and only %s is told", at->name,
        other->name, at->name);
    each_between(at, other, break_one_end);
    lh_sim_wire_break_at(at, other);
}

void lh_sim_clog(struct lh_sim_node *from, struct lh_sim_node *to)
{
    bool *clogged = &from->sim->network.clogged[from->index][to->index];

    if (*clogged)
        return;
    lh_sim_note(from->sim, "the line from %s to %s is clogged", from->name, to->name);
    *clogged = true;
}

void lh_sim_unclog(struct lh_sim_node *from, struct lh_sim_node *to)
{
    bool *clogged = &from->sim->network.clogged[from->index][to->index];

    if (!*clogged)
        return;
    lh_sim_note(from->sim, "the line from %s to %s is clear again", from->name, to->name);
    *clogged = false;
    each_between(from, to, advance_link);
    lh_sim_wire_move_on(from, to);
}

bool lh_sim_is_clogged(const struct lh_sim_node *from, const struct lh_sim_node *to)
{
    return from->sim->network.clogged[from->index][to->index];
}

void lh_sim_set_notices(struct lh_sim_node *at, struct lh_sim_node *peer, bool notices)
{
    bool *deaf = &at->sim->network.deaf[at->index][peer->index];

    if (*deaf != notices)
        return;
    lh_sim_note(at->sim, "%s %s when %s is silent", at->name,
        notices ? "notices again" : "does not notice", peer->name);
    *deaf = !notices;
    if (notices)
        each_between(at, peer, watch_one_end);
}

void lh_sim_slow(struct lh_sim_node *from, struct lh_sim_node *to, struct lh_duration extra)
{
    uint64_t *now = &from->sim->network.extra[from->index][to->index];

    if (*now == extra.ns)
        return;
    lh_sim_note(from->sim, "what %s sends to %s takes %" PRIu64 " ms longer", from->name, to->name,
        lh_duration_ms(extra));
    *now = extra.ns;
}

void lh_sim_set_bandwidth(
    struct lh_sim_node *from, struct lh_sim_node *to, uint64_t bytes_per_second)
{
    uint64_t *now = &from->sim->network.bandwidth[from->index][to->index];

    if (*now == bytes_per_second)
        return;
    if (bytes_per_second == 0)
        lh_sim_note(from->sim, "the line from %s to %s is wide again", from->name, to->name);
    else
        lh_sim_note(from->sim, "the line from %s to %s carries %" PRIu64 " bytes a second",
            from->name, to->name, bytes_per_second);
    *now = bytes_per_second;
}

void lh_sim_deafen(struct lh_sim_node *node, bool deaf)
{
    if (node->deaf == deaf)
        return;
    lh_sim_note(node->sim, "%s %s", node->name,
        deaf ? "has no descriptor for a new connection" : "has descriptors for connections again");
    node->deaf = deaf;
}

void lh_sim_hide(struct lh_sim_node *node, bool hidden)
{
    if (node->hidden == hidden)
        return;
    lh_sim_note(node->sim, "%s %s", node->name,
        hidden ? "is not reached at its address" : "is reached at its address again");
    node->hidden = hidden;
}

void lh_sim_mislead(struct lh_sim_node *node, struct lh_sim_node *to)
{
    if (node->misleads_to == to)
        return;
    lh_sim_note(node->sim, "the address of %s leads to %s", node->name,
        to == NULL ? "itself again" : to->name);
    node->misleads_to = to;
}

void lh_sim_mend_network(struct lh_sim *sim)
{
    for (size_t i = 0; i < sim->node_count; i++) {
        lh_sim_deafen(sim->nodes[i], false);
        lh_sim_hide(sim->nodes[i], false);
        lh_sim_mislead(sim->nodes[i], NULL);
        for (size_t k = 0; k < sim->node_count; k++) {
            struct lh_sim_node *a = sim->nodes[i], *b = sim->nodes[k];
            lh_sim_set_notices(a, b, true);
            lh_sim_set_bandwidth(a, b, 0);
            lh_sim_slow(a, b, lh_nanoseconds(0));
            lh_sim_unclog(a, b);
            lh_sim_heal(a, b);
        }
    }
    /* What was sent over a slow line keeps its pace else, for hours perhaps. */
    for (struct link *link = sim->network.links; link != NULL; link = link->next)
        for (int i = 0; i < 2; i++)
            lh_sim_network_hurry(sim, &link->ends[i]);
    lh_sim_wire_hurry(sim);
}

bool lh_sim_is_cut(const struct lh_sim_node *from, const struct lh_sim_node *to)
{
    return from->sim->network.cut[from->index][to->index];
}

struct lh_duration lh_sim_slowed_by(const struct lh_sim_node *from, const struct lh_sim_node *to)
{
    return lh_nanoseconds(from->sim->network.extra[from->index][to->index]);
}
