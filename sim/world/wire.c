/* Connections: how they begin and end, and what their machines write and take. Who writes to one of
 * which the other side is gone hears so, if that machine runs and can be heard. */
#include "sim/world/wire.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"

#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 64u

static struct lh_prng *draws(struct connection *c)
{
    return &c->sim->streams[LH_SIM_WIRE];
}

static struct lh_instant clock_of(const struct side *side)
{
    return lh_sim_clock(side->node);
}

/* What a side's machine has, as far as the pipe takes it. Whether something was done. */
static bool write_some(struct connection *c, int which)
{
    struct side *side = &c->sides[which];
    struct pipe *p = &c->sides[!which].in;
    const struct lh_sim_wire_config *config = &c->sim->network.wire;
    struct lh_mux_part parts[PARTS_MAX];
    size_t size = 0, begins = 0;
    uint64_t queued;

    if (!side->connected || !lh_mux_has_output(side->mux))
        return false;
    side->full = p->bytes >= config->capacity;
    if (side->full)
        return false;
    size_t n =
        lh_mux_output(side->mux, parts, 1 + lh_prng_below(draws(c), PARTS_MAX), clock_of(side));
    for (size_t i = 0; i < n; i++)
        size += parts[i].size;
    if (size == 0)
        return false;
    if (size > config->capacity - p->bytes)
        size = config->capacity - p->bytes;
    if (lh_prng_chance(draws(c), 20))
        size = 1 + lh_prng_below(draws(c), size);

    uint64_t line =
        lh_sim_network_transfer(c->sim, side->node, c->sides[!which].node, size, &queued);
    if (config->rate > 0) {
        p->free_at = p->free_at < c->sim->now ? c->sim->now : p->free_at;
        p->free_at += size * UINT64_C(1000000000) / config->rate;
        line = p->free_at - c->sim->now > line ? p->free_at - c->sim->now : line;
    }
    struct chunk *chunk =
        lh_sim_wire_put_chunk(c, !which, CHUNK_BYTES, line + lh_sim_wire_one_way(c, !which));
    chunk->bytes = lh_alloc_array(size, 1);
    chunk->size = size;
    p->bytes += size;
    for (size_t i = 0; begins < size; i++) {
        size_t take = parts[i].size < size - begins ? parts[i].size : size - begins;
        memcpy(chunk->bytes + begins, parts[i].bytes, take);
        begins += take;
    }
    lh_sim_wire_saw_written(c, which, chunk->bytes, size);
    lh_mux_written(side->mux, size);
    lh_sim_wire_advance(c, !which);
    return true;
}

/* ---- life ---- */

static struct lh_mux *machine(struct connection *c, int which)
{
    const struct lh_sim_wire_config *w = &c->sim->network.wire;
    struct lh_mux_config config = {
        .serves = which == 1,
        .class_ = c->class_,
        .window = c->class_ == LH_MUX_SESSIONS ? w->session_window : w->window,
        .links_max = w->links_max,
        .message_max = w->message_max,
        .frame_bytes = w->frame_bytes,
        .refer_bytes = w->refer_bytes,
        .stage_bytes = w->stage_bytes,
        .hello_timeout = w->hello_timeout,
        .ping_after = w->ping_after,
        .ping_timeout = w->ping_timeout,
        .request_timeout = w->request_timeout,
    };

    c->sides[which].used = clock_of(&c->sides[which]);
    return lh_mux_create(&config, clock_of(&c->sides[which]));
}

static void dial(struct connection *c, struct lh_sim_node *server)
{
    struct lh_sim_node *node = c->sides[0].node;

    if (server == NULL || node->deaf || server->deaf || server->hidden) {
        c->sides[1].over = true;
        lh_sim_wire_put_end(c, 0,
            server == NULL   ? "no such address"
            : server->hidden ? "connection refused"
                             : "no descriptors");
        return;
    }
    lh_sim_wire_put_chunk(c, 1, CHUNK_CONNECT, lh_sim_wire_one_way(c, 1));
    lh_sim_wire_advance(c, 1);
}

struct connection *lh_sim_wire_connection(
    struct lh_sim_node *node, const char *called, enum lh_method method)
{
    struct lh_sim *sim = node->sim;
    enum lh_mux_class class_ = lh_mux_class_of(method);

    for (struct connection *c = sim->network.connections; c != NULL; c = c->next) {
        if (!c->in_table || c->sides[0].node != node || c->class_ != class_ ||
            lh_method_info(c->method)->server != lh_method_info(method)->server ||
            strcmp(c->called, called) != 0)
            continue;
        if (lh_mux_may_open(c->sides[0].mux))
            return c;
        c->in_table = false;
        lh_sim_wire_rouse(c, 0);
    }
    struct lh_sim_node *server = lh_sim_network_called(sim, called);
    struct connection *c = lh_alloc(sizeof *c);
    c->sim = sim;
    c->number = ++sim->network.connection_count;
    c->references = 1;
    c->method = method;
    c->class_ = class_;
    c->called = lh_strdup(called);
    c->in_table = c->listed = true;
    c->next = sim->network.connections;
    if (c->next != NULL)
        c->next->prev = c;
    sim->network.connections = c;
    c->sides[0].node = node;
    c->sides[1].node = server == NULL ? node : server;
    c->sides[0].tick_at = c->sides[1].tick_at = UINT64_MAX;
    c->sides[0].mux = machine(c, 0);
    lh_sim_trace_line(sim, node->name, "connection %u of class %d to %s", (unsigned)c->number,
        (int)class_, called);
    dial(c, server);
    return c;
}

static void free_connection(struct connection *c)
{
    lh_sim_wire_sweep(c, true);
    for (int i = 0; i < 2; i++) {
        lh_mux_destroy(c->sides[i].mux);
        lh_sim_wire_empty(&c->sides[i].in);
    }
    if (c->next != NULL)
        c->next->prev = c->prev;
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        c->sim->network.connections = c->next;
    free(c->called);
    free(c);
}

void lh_sim_wire_unref(struct connection *c)
{
    if (--c->references == 0)
        free_connection(c);
}

void lh_sim_wire_deinit(struct lh_sim *sim)
{
    while (sim->network.connections != NULL)
        free_connection(sim->network.connections);
}

void lh_sim_wire_close_side(struct connection *c, int which, bool says_so)
{
    struct side *side = &c->sides[which];
    bool unread = side->in.bytes > 0;

    lh_sim_wire_shut_all(c, which);
    lh_mux_destroy(side->mux);
    side->mux = NULL;
    side->over = true;
    side->connected = false;
    if (which == 0)
        c->in_table = false;
    lh_sim_trace_line(c->sim, side->node->name, "connection %u is closed", (unsigned)c->number);
    if (!c->sides[!which].over) {
        if (!says_so || (unread && lh_prng_chance(draws(c), 50)))
            lh_sim_wire_lose_suffix(c, !which);
        if (says_so)
            lh_sim_wire_put_end(c, !which, "the peer closed the connection");
    }
    if (c->listed && c->sides[!which].over) {
        c->listed = false;
        lh_sim_wire_unref(c); /* whoever calls has another reference */
    }
}

/* The other side is not there (any more). */
static void answer_reset(struct connection *c, int which)
{
    if (c->sides[which].node->powered && !c->sides[!which].over)
        lh_sim_wire_put_end(c, !which, "connection reset");
}

static void take_call(struct connection *c)
{
    struct side *side = &c->sides[1];

    if (side->over)
        return;
    if (side->node->up && lh_sim_network_is_meant(side->node, c->method, c->called)) {
        side->mux = machine(c, 1);
        side->connected = true;
        lh_sim_wire_put_chunk(c, 0, CHUNK_CONNECT, lh_sim_wire_one_way(c, 0));
        lh_sim_wire_advance(c, 0);
        lh_sim_wire_rouse(c, 1);
        return;
    }
    side->over = true;
    if (c->sides[0].over && c->listed) {
        c->listed = false;
        lh_sim_wire_unref(c);
    } else if (side->node->up) {
        LH_MARK("answered-by-another-on-the-wire");
        lh_sim_wire_put_end(c, 0, "who answers there is not who was called");
    } else if (side->node->powered) {
        lh_sim_wire_put_end(c, 0, "connection refused");
    }
}

/* ---- what happens at a side ---- */

static bool is_done(const struct connection *c, int which)
{
    const struct side *side = &c->sides[which];
    struct lh_duration unused = lh_instant_until(side->used, clock_of(side));

    if (lh_mux_broken(side->mux) != NULL)
        return !lh_mux_has_output(side->mux) || side->full || !side->connected;
    if (lh_mux_links(side->mux) > 0 || lh_mux_has_output(side->mux))
        return false;
    if (which == 1)
        return side->going;
    return !lh_mux_may_open(side->mux) || unused.ns >= c->sim->network.wire.unused.ns;
}

static void arm(struct connection *c, int which)
{
    struct side *side = &c->sides[which];
    struct lh_instant deadline = lh_mux_deadline(side->mux);

    if (which == 0 && lh_mux_links(side->mux) == 0)
        deadline =
            lh_instant_min(deadline, lh_instant_add(side->used, c->sim->network.wire.unused));
    uint64_t at =
        deadline.ns == UINT64_MAX ? UINT64_MAX : lh_sim_clock_when(&side->node->clock, deadline);
    if (at >= side->tick_at)
        return;
    if (at <= c->sim->now)
        at = c->sim->now + 1;
    at += lh_prng_below(draws(c), side->node->timer_late + 1);
    if (at >= side->tick_at)
        return;
    side->tick_at = at;
    lh_sim_wire_schedule(c, which, TICKS, at);
}

/* Whether the node can go on: it may have ended, or stand still. */
static bool goes_on(struct connection *c, int which)
{
    const struct side *side = &c->sides[which];

    if (side->over || c->sim->failure != NULL)
        return false;
    if (!side->node->paused)
        return true;
    lh_sim_wire_rouse(c, which);
    return false;
}

/* Everything that is there is reported and written; or a part of it, and the rest just after. */
static void service(struct connection *c, int which)
{
    struct side *side = &c->sides[which];
    bool more = true;

    while (more) {
        more = false;
        while (lh_sim_wire_report(c, which)) {
            if (!goes_on(c, which))
                return;
            side->used = clock_of(side);
            if (lh_prng_chance(draws(c), 10)) {
                lh_sim_wire_rouse(c, which);
                return;
            }
        }
        lh_sim_wire_saw_drained(c, which);
        while (write_some(c, which))
            more = true;
        while (lh_sim_wire_report_sent(c, which)) {
            more = true;
            if (!goes_on(c, which))
                return;
        }
    }
    if (is_done(c, which))
        lh_sim_wire_close_side(c, which, true);
    else
        arm(c, which);
}

void lh_sim_wire_rouse(struct connection *c, int which)
{
    struct side *side = &c->sides[which];

    if (side->over || side->service_due || side->mux == NULL)
        return;
    side->service_due = true;
    lh_sim_wire_schedule(c, which, SERVICE, c->sim->now);
}

static void take_bytes(struct connection *c, int to)
{
    struct side *side = &c->sides[to];
    struct chunk *chunk = side->in.first;
    size_t left = chunk->size - chunk->taken;
    size_t n = lh_prng_chance(draws(c), 70) ? left : 1 + lh_prng_below(draws(c), left);
    uint8_t *copy;
    struct lh_buf bytes = lh_buf_alloc(n, &copy);

    memcpy(copy, chunk->bytes + chunk->taken, n);
    chunk->taken += n;
    side->in.bytes -= n;
    if (chunk->taken == chunk->size)
        lh_sim_wire_pop_chunk(&side->in);
    lh_sim_wire_saw_taken(c, to, copy, n);
    lh_mux_take(side->mux, lh_buf_slices(&bytes)->block, copy, n, clock_of(side));
    lh_buf_clear(&bytes);
}

static void arrive(struct connection *c, int to)
{
    struct side *side = &c->sides[to];
    struct pipe *p = &side->in;
    struct chunk *chunk = p->first;

    p->arriving = false;
    if (chunk == NULL || p->lost)
        return;
    if (chunk->at > c->sim->now ||
        lh_sim_network_is_blocked(c->sim, c->sides[!to].node, side->node)) {
        lh_sim_wire_advance(c, to);
        return;
    }
    enum chunk_kind kind = chunk->kind;
    const char *text = chunk->text;
    if (side->over) {
        lh_sim_wire_empty(p);
        if (kind != CHUNK_END)
            answer_reset(c, to);
        return;
    }
    if (kind == CHUNK_BYTES)
        take_bytes(c, to);
    else
        lh_sim_wire_pop_chunk(p);
    if (kind == CHUNK_CONNECT && to == 1)
        take_call(c);
    else if (kind == CHUNK_CONNECT)
        side->connected = true;
    else if (kind == CHUNK_END && side->mux != NULL)
        lh_mux_break(side->mux, text);
    lh_sim_wire_advance(c, to);
    if (c->sides[!to].full)
        lh_sim_wire_rouse(c, !to);
    if (!side->over && side->mux != NULL)
        service(c, to);
}

void lh_sim_wire_event(struct lh_sim *sim, const struct lh_sim_event *e)
{
    struct connection *c = e->about;
    int which = (int)e->which;
    struct side *side = &c->sides[which];

    (void)sim;
    if (e->number == ARRIVES)
        arrive(c, which);
    if (e->number == SERVICE)
        side->service_due = false;
    if (e->number == TICKS && side->tick_at <= c->sim->now)
        side->tick_at = UINT64_MAX;
    if (e->number != ARRIVES && !side->over && side->mux != NULL) {
        if (e->number == TICKS)
            lh_mux_tick(side->mux, clock_of(side));
        service(c, which);
    }
    if (c->sweep_due)
        lh_sim_wire_sweep(c, false);
}
