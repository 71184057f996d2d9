/* Links as gRPC gives them: ordered and whole, or broken with an unknown suffix lost. The two ends
 * notice a break at different times; a silent peer only after a while. A cut holds everything back,
 * as TCP does, until it is healed or an end gives up. Large messages come in pieces, of which the
 * receiver hears; a break then loses the whole. */
#include "sim/world/network.h"
#include "sim/world/internal.h"

#include "access/access.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"

#include <stdlib.h>
#include <string.h>

static struct end *peer_of(struct end *end)
{
    return &end->link->ends[end == &end->link->ends[0]];
}

static unsigned which(const struct end *end)
{
    return end == &end->link->ends[1];
}

static bool is_cut(
    const struct lh_sim *sim, const struct lh_sim_node *from, const struct lh_sim_node *to)
{
    return from != to && sim->network.cut[from->index][to->index];
}

bool lh_sim_network_is_blocked(
    const struct lh_sim *sim, const struct lh_sim_node *from, const struct lh_sim_node *to)
{
    return is_cut(sim, from, to) || sim->network.clogged[from->index][to->index];
}

uint64_t lh_sim_network_one_way(
    struct lh_sim *sim, const struct lh_sim_node *from, const struct lh_sim_node *to)
{
    return lh_sim_draw(&sim->streams[LH_SIM_NETWORK], &sim->config.delay) +
           lh_sim_draw_tail(&sim->streams[LH_SIM_NETWORK], &sim->config.delay_tail) +
           sim->network.extra[from->index][to->index];
}

uint64_t lh_sim_network_transfer(struct lh_sim *sim, const struct lh_sim_node *from,
    const struct lh_sim_node *to, uint64_t bytes, uint64_t *begins)
{
    *begins = 0;
    uint64_t rate = sim->network.bandwidth[from->index][to->index];
    uint64_t *free_at = &sim->network.line_free[from->index][to->index];

    if (rate == 0)
        return 0;
    if (*free_at < sim->now)
        *free_at = sim->now;
    *begins = *free_at - sim->now;
    *free_at += bytes * UINT64_C(1000000000) / rate;
    return *free_at - sim->now;
}

static struct end *find(struct lh_sim_node *node, uint64_t id)
{
    struct end *end;

    HASH_FIND(hh, node->links, &id, sizeof id, end);
    return end;
}

static void free_parcel(struct parcel *p)
{
    lh_wire_free(p->message);
    lh_buf_clear(&p->payload);
    free(p->said);
    free(p);
}

static void drop_parcels(struct end *end, struct parcel *from)
{
    struct parcel **p = &end->first;

    end->last = NULL;
    while (*p != from) {
        end->last = *p;
        p = &(*p)->next;
    }
    *p = NULL;
    while (from != NULL) {
        struct parcel *next = from->next;
        free_parcel(from);
        from = next;
    }
}

void lh_sim_network_unref(struct lh_sim *sim, struct link *link)
{
    if (--link->references > 0)
        return;
    for (int i = 0; i < 2; i++)
        drop_parcels(&link->ends[i], link->ends[i].first);
    if (link->next != NULL)
        link->next->prev = link->prev;
    if (link->prev != NULL)
        link->prev->next = link->next;
    else
        sim->network.links = link->next;
    free(link->called);
    free(link);
}

static void schedule(
    struct lh_sim *sim, struct end *end, enum lh_sim_event_kind kind, uint64_t at, uint64_t number)
{
    end->link->references++;
    lh_sim_schedule(sim, at,
        (struct lh_sim_event){.kind = kind,
            .node = end->node->index,
            .which = which(end),
            .number = number,
            .about = end->link});
}

/* One message may still arrive after a hold; so may the news of an end. */
static bool may_arrive(const struct end *end, const struct parcel *p)
{
    return !end->held || end->late_one || p->kind == PARCEL_CLOSED;
}

/* When the next thing about it happens: another piece is there, or all of it. */
static uint64_t due(const struct parcel *p)
{
    return p->notified < p->pieces ? p->begins + (p->at - p->begins) / p->pieces * p->notified
                                   : p->at;
}

/* Schedules the arrival of the next parcel if there is one and nothing stops it. */
static void advance(struct lh_sim *sim, struct end *end)
{
    if (end->arriving || end->first == NULL || !may_arrive(end, end->first) ||
        lh_sim_network_is_blocked(sim, peer_of(end)->node, end->node))
        return;
    end->arriving = true;
    uint64_t at = due(end->first);
    schedule(sim, end, LH_SIM_EV_DELIVER, at > sim->now ? at : sim->now, 0);
}

static struct parcel *put(struct lh_sim *sim, struct end *to, enum parcel_kind kind, uint64_t delay)
{
    struct parcel *p = lh_alloc(sizeof *p);

    p->kind = kind;
    p->at = sim->now + delay;
    if (to->last != NULL && to->last->at > p->at)
        p->at = to->last->at; /* in order */
    if (to->last != NULL)
        to->last->next = p;
    else
        to->first = p;
    to->last = p;
    return p;
}

static void put_closed(
    struct lh_sim *sim, struct end *to, uint64_t delay, int error, const char *text)
{
    /* What was not read when it broke may be gone. */
    if (to->held && error != LH_OK && lh_prng_below(&sim->streams[LH_SIM_NETWORK], 2) == 0)
        drop_parcels(to, to->first);
    struct parcel *p = put(sim, to, PARCEL_CLOSED, delay);
    p->error = error;
    p->text = text;
    advance(sim, to);
}

/* The core will hear nothing more from this end. */
static void shut(struct lh_sim *sim, struct end *end)
{
    if (!end->open)
        return;
    end->open = false;
    if (end->id != 0)
        HASH_DEL(end->node->links, end);
    drop_parcels(end, end->first);
    lh_sim_network_unref(sim, end->link);
}

/* Loses a random suffix of what is under way towards `end`. */
static void lose_suffix(struct lh_sim *sim, struct end *end)
{
    uint64_t count = 0;
    struct parcel *p;

    for (p = end->first; p != NULL; p = p->next)
        count++;
    uint64_t keep = lh_prng_below(&sim->streams[LH_SIM_NETWORK], count + 1);
    for (p = end->first; p != NULL && keep > 0; p = p->next)
        keep--;
    drop_parcels(end, p);
}

void lh_sim_network_watch_silence(struct lh_sim *sim, struct end *end)
{
    const struct lh_sim_node *a = end->node, *b = peer_of(end)->node;

    if (sim->network.deaf[a->index][b->index])
        return;
    schedule(sim, end, LH_SIM_EV_SILENCE,
        sim->now + lh_sim_draw(&sim->streams[LH_SIM_NETWORK], &sim->config.notice),
        sim->network.cuts[a->index][b->index] + sim->network.cuts[b->index][a->index]);
}

static void await_deadline(struct lh_sim *sim, struct end *opener)
{
    uint64_t at = lh_sim_clock_when(&opener->node->clock, opener->link->deadline);

    if (at != UINT64_MAX)
        schedule(sim, opener, LH_SIM_EV_TIMEOUT, at > sim->now ? at : sim->now, 0);
}

void lh_sim_network_show(const struct end *end, struct lh_sim_sight *sight)
{
    const struct link *link = end->link;
    bool opener = end == &link->ends[0];

    sight->link = link->number;
    sight->method = link->method;
    sight->peer = link->nobody ? NULL : link->ends[opener].node;
    /* What an end is told goes the other way than what it says. */
    sight->direction = opener == (sight->effect != NULL) ? LH_REQUEST : LH_REPLY;
}

struct lh_sim_node *lh_sim_network_called(struct lh_sim *sim, const char *server)
{
    size_t name_size;
    struct lh_sim_node *node = lh_sim_find(sim, lh_server_address(server, &name_size));

    if (node != NULL && node->misleads_to != NULL)
        node = node->misleads_to;
    return node != NULL && !node->up && node->in_its_place != NULL ? node->in_its_place : node;
}

void lh_sim_take_address(struct lh_sim_node *of, struct lh_sim_node *by)
{
    of->in_its_place = by;
}

bool lh_sim_network_is_meant(
    const struct lh_sim_node *answers, enum lh_method method, const char *server)
{
    char name[LH_LINK_IDENTITY_MAX + 1] = "", why[LH_ACCESS_TEXT_MAX];
    size_t size;

    (void)lh_server_address(server, &size);
    LH_ASSERT(size < sizeof name);
    memcpy(name, server, size);
    return lh_access_answers(NULL, answers->identity, lh_method_info(method)->server,
               size == 0 ? NULL : name, true, why) == LH_OK;
}

ProtobufCMessage *lh_sim_network_show_effect(
    struct lh_sim_node *node, const struct lh_effect *e, struct lh_sim_sight *sight)
{
    ProtobufCMessage *message;
    struct lh_buf none;

    if (e->kind == LH_FX_OPEN) {
        sight->link = node->sim->network.link_count + 1;
        sight->method = e->method;
        sight->peer = lh_sim_network_called(node->sim, e->text);
        return NULL;
    }
    const struct end *end = e->link == 0 ? NULL : find(node, e->link);
    if (end == NULL)
        return NULL;
    lh_sim_network_show(end, sight);
    if (e->kind != LH_FX_SEND)
        return NULL;
    int error = lh_wire_decode(sight->method, sight->direction, &e->header, &message, &none);
    /* Nobody here makes up bytes: what does not decode was encoded wrongly. */
    LH_ASSERT(error == LH_OK && none.size == 0);
    sight->message = message;
    sight->payload = &e->payload;
    return message;
}

void lh_sim_network_open(struct lh_sim_node *node, const struct lh_effect *e)
{
    struct lh_sim *sim = node->sim;

    LH_ASSERT((e->link & LH_LINK_SERVED) == 0 && find(node, e->link) == NULL);
    if (sim->network.wire.on && !lh_method_info(e->method)->foreign) {
        lh_sim_wire_open(node, e);
        return;
    }
    struct link *link = lh_alloc(sizeof *link);
    struct lh_sim_node *server = lh_sim_network_called(sim, e->text);

    link->number = ++sim->network.link_count;
    link->method = e->method;
    link->nobody = server == NULL;
    link->called = lh_strdup(e->text);
    link->references = 1;
    link->next = sim->network.links;
    if (link->next != NULL)
        link->next->prev = link;
    sim->network.links = link;

    struct end *opener = &link->ends[0], *served = &link->ends[1];
    *opener = (struct end){.link = link, .node = node, .id = e->link, .open = true};
    HASH_ADD(hh, node->links, id, sizeof opener->id, opener);
    *served = (struct end){.link = link, .node = server == NULL ? node : server};
    if (e->timeout.ns != UINT64_MAX) {
        link->deadline = lh_instant_add(lh_sim_clock(node), e->timeout);
        await_deadline(sim, opener);
    }
    if (server == NULL) {
        put_closed(sim, opener, 0, LH_ERR_UNAVAILABLE, "no such address");
        return;
    }
    if (node->deaf || server->deaf || server->hidden) {
        put_closed(sim, opener, lh_sim_network_one_way(sim, node, server), LH_ERR_UNAVAILABLE,
            server->hidden ? "connection refused" : "no descriptors");
        return;
    }
    put(sim, served, PARCEL_OPENED, lh_sim_network_one_way(sim, node, server));
    if (is_cut(sim, node, server) || is_cut(sim, server, node))
        lh_sim_network_watch_silence(sim, opener);
    advance(sim, served);
}

/* A payload field's tag and length add at most this much. */
#define PAYLOAD_FRAME 16u

/* Those that a driver tells of: it is silent about the ones that follow too soon. */
static void take_apart(struct lh_sim *sim, struct parcel *p, size_t bytes, uint64_t begins)
{
    uint64_t piece = sim->config.piece_bytes;

    if (bytes <= piece)
        return;
    p->begins = begins < p->at ? begins : p->at;
    uint64_t apart = sim->config.progress_interval.ns;
    uint64_t heard = apart == 0 ? bytes / piece : (p->at - p->begins) / apart;
    p->pieces = 1 + (heard < bytes / piece ? heard : bytes / piece);
}

void lh_sim_network_send(struct lh_sim_node *node, struct lh_effect *e, ProtobufCMessage *message)
{
    struct lh_sim *sim = node->sim;
    struct end *end = find(node, e->link);

    if (end == NULL)
        return; /* closed by the peer meanwhile */
    struct end *peer = peer_of(end);
    LH_ASSERT(e->header.size + e->payload.size + PAYLOAD_FRAME <= LH_MESSAGE_BYTES_MAX);
    if (end->wired != NULL) {
        lh_wire_free(message);
        lh_sim_wire_send(end, e);
        return;
    }
    if ((which(end) == 1 && !peer->open) || end->half_closed) {
        lh_wire_free(message);
        return;
    }
    uint64_t begins;
    uint64_t delay =
        lh_sim_network_transfer(sim, node, peer->node, e->header.size + e->payload.size, &begins);
    uint64_t way = lh_sim_network_one_way(sim, node, peer->node);
    uint64_t before = peer->last == NULL ? 0 : peer->last->at;
    struct parcel *p = put(sim, peer, PARCEL_MESSAGE, delay + way);
    begins += sim->now + way;
    if (lh_wire_in_pieces(end->link->method, which(end) == 0 ? LH_REQUEST : LH_REPLY))
        take_apart(sim, p, e->payload.size, begins > before ? begins : before);
    p->message = message;
    p->crc = lh_buf_crc32c(
        &e->payload, 0, e->payload.size, lh_buf_crc32c(&e->header, 0, e->header.size, 0));
    p->payload = lh_buf_take(&e->payload);
    p->notify = e->notify;
    advance(sim, peer);
    if (e->notify) /* soon, or when the network has taken all of it */
        schedule(sim, end, LH_SIM_EV_SENT,
            sim->now + delay +
                lh_prng_below(&sim->streams[LH_SIM_NETWORK], way / (p->crc % 2 == 0 ? 8 : 1) + 1),
            0);
}

void lh_sim_network_close(struct lh_sim_node *node, const struct lh_effect *e)
{
    struct lh_sim *sim = node->sim;
    struct end *end = find(node, e->link);

    if (end == NULL)
        return;
    if (end->wired != NULL) {
        lh_sim_wire_close(end, e);
        return;
    }
    struct end *peer = peer_of(end);
    uint64_t delay = lh_sim_network_one_way(sim, node, peer->node);
    end->link->references++;
    shut(sim, end);
    if (which(end) == 0) {
        /* Cancelling does not wait for what was sent. */
        lose_suffix(sim, peer);
        put_closed(sim, peer, delay, LH_ERR_CANCELLED, "cancelled by the caller");
    } else if (peer->open) {
        put_closed(sim, peer, delay, e->error, "");
        /* No core of ours decides anything by a text of ours, but etcd's say what was done. */
        if (lh_method_info(end->link->method)->foreign && e->text != NULL)
            peer->last->said = lh_strdup(e->text);
    }
    lh_sim_network_unref(sim, end->link);
}

void lh_sim_network_half_close(struct lh_sim *sim, struct link *link)
{
    struct end *opener = &link->ends[0], *served = &link->ends[1];

    if (!opener->open || opener->half_closed || link->nobody ||
        !lh_method_info(link->method)->request_stream)
        return;
    opener->half_closed = true;
    put(sim, served, PARCEL_HALF_CLOSED, lh_sim_network_one_way(sim, opener->node, served->node));
    advance(sim, served);
}

void lh_sim_network_hold(struct lh_sim_node *node, uint64_t id, bool held)
{
    struct end *end = find(node, id);

    if (end == NULL || end->held == held)
        return;
    if (end->wired != NULL) {
        lh_sim_wire_hold(end, held);
        return;
    }
    end->held = held;
    end->late_one = held && lh_prng_below(&node->sim->streams[LH_SIM_NETWORK], 2) == 0;
    if (!held)
        advance(node->sim, end);
}

/* A call arrives at a machine: somebody serves there, or it is refused, or nothing answers. */
static void arrive(struct lh_sim *sim, struct end *served)
{
    struct lh_sim_node *node = served->node;
    struct end *opener = peer_of(served);

    if (!opener->open)
        return;
    served->link->arrived = true;
    if (!node->up) {
        drop_parcels(served, served->first);
        if (node->powered)
            put_closed(sim, opener, lh_sim_network_one_way(sim, node, opener->node),
                LH_ERR_UNAVAILABLE, "connection refused");
        else
            lh_sim_network_watch_silence(sim, opener);
        return;
    }
    if (!lh_sim_network_is_meant(node, served->link->method, served->link->called)) {
        LH_MARK("answered-by-another");
        drop_parcels(served, served->first);
        put_closed(sim, opener, lh_sim_network_one_way(sim, node, opener->node), LH_ERR_UNAVAILABLE,
            "who answers there is not who was called");
        return;
    }
    served->id = LH_LINK_SERVED | ++node->served;
    served->open = true;
    served->link->references++;
    HASH_ADD(hh, node->links, id, sizeof served->id, served);
    if (is_cut(sim, node, opener->node))
        lh_sim_network_watch_silence(sim, served);
    struct lh_input in = {.kind = LH_IN_LINK_OPENED,
        .link = served->id,
        .method = served->link->method,
        .text = opener->node->name,
        .identity = opener->node->identity};
    lh_sim_feed(node, &in, served);
}

static void hear(struct end *end, enum lh_input_kind kind)
{
    struct lh_input in = {.kind = kind, .link = end->id, .method = end->link->method};

    lh_sim_feed(end->node, &in, end);
}

static void receive(struct end *end, struct parcel *p)
{
    struct lh_input in = {.kind = LH_IN_MESSAGE,
        .link = end->id,
        .method = end->link->method,
        .identity = end == &end->link->ends[1] ? end->link->ends[0].node->identity : NULL,
        .message = p->message,
        .payload = lh_buf_take(&p->payload)};

    end->node->sim->network.delivered++;
    lh_sim_hash_in(end->node->sim, p->crc);
    lh_sim_feed(end->node, &in, end);
    lh_buf_clear(&in.payload);
}

/* Where nothing gets through, or nobody reads, buffers are full sooner or later: half of the
 * messages stay in their sender's way until they have arrived. */
static bool is_stuck(const struct lh_sim *sim, const struct end *from, const struct parcel *p)
{
    const struct end *to = &from->link->ends[!which(from)];

    return p->crc % 4 >= 2 && (to->held || lh_sim_network_is_blocked(sim, from->node, to->node));
}

void lh_sim_network_sent(struct lh_sim *sim, const struct lh_sim_event *e)
{
    struct end *end = &((struct link *)e->about)->ends[e->which];
    struct parcel *p = peer_of(end)->first;

    if (!end->open || end->half_closed)
        return;
    while (p != NULL && !p->notify)
        p = p->next;
    if (p != NULL && !p->stuck && is_stuck(sim, end, p)) {
        p->stuck = true;
        return;
    }
    hear(end, LH_IN_SENT);
}

static void hear_closed(struct lh_sim *sim, struct end *end, int error, const char *text)
{
    struct lh_input in = {.kind = LH_IN_LINK_CLOSED,
        .link = end->id,
        .method = end->link->method,
        .error = error,
        .text = text};

    shut(sim, end); /* first: the core must not find it any more */
    lh_sim_feed(end->node, &in, end);
}

void lh_sim_network_deliver(struct lh_sim *sim, const struct lh_sim_event *e)
{
    struct link *link = e->about;
    struct end *end = &link->ends[e->which];
    struct parcel *p = end->first;

    end->arriving = false;
    if (p == NULL)
        return;
    if (lh_sim_network_is_blocked(sim, peer_of(end)->node, end->node) || !may_arrive(end, p) ||
        due(p) > sim->now) {
        advance(sim, end);
        return;
    }
    if (p->notified < p->pieces) {
        p->notified++;
        if (end->open)
            hear(end, LH_IN_PROGRESS);
        advance(sim, end);
        return;
    }
    end->first = p->next;
    if (end->first == NULL)
        end->last = NULL;
    if (p->stuck && peer_of(end)->open)
        schedule(sim, peer_of(end), LH_SIM_EV_SENT, sim->now, 0);
    if (p->kind == PARCEL_OPENED) {
        arrive(sim, end);
    } else if (end->open && p->kind == PARCEL_MESSAGE) {
        if (end->held)
            end->late_one = false;
        receive(end, p);
    } else if (end->open && p->kind == PARCEL_HALF_CLOSED) {
        hear(end, LH_IN_HALF_CLOSED);
    } else if (end->open) {
        hear_closed(sim, end, p->error, p->said != NULL ? p->said : p->text);
    }
    free_parcel(p);
    advance(sim, end);
}

/* This end gives the connection up; the other one hears of it if anything gets through. */
static void give_up(struct lh_sim *sim, struct end *end, int error, const char *text)
{
    struct end *peer = peer_of(end);

    end->link->references++;
    lose_suffix(sim, peer);
    if (peer->open || (which(end) == 0 && peer->first != NULL))
        put_closed(sim, peer, lh_sim_network_one_way(sim, end->node, peer->node),
            error == LH_ERR_DEADLINE_EXCEEDED ? LH_ERR_CANCELLED : LH_ERR_UNAVAILABLE,
            "the peer gave up");
    hear_closed(sim, end, error, text);
    lh_sim_network_unref(sim, end->link);
}

void lh_sim_network_timeout(struct lh_sim *sim, const struct lh_sim_event *e)
{
    struct end *end = &((struct link *)e->about)->ends[e->which];

    if (!end->open)
        return;
    if (lh_instant_reached(lh_sim_clock(end->node), end->link->deadline))
        give_up(sim, end, LH_ERR_DEADLINE_EXCEEDED, "the call's deadline has come");
    else
        await_deadline(sim, end); /* its clock has become slower meanwhile */
}

void lh_sim_network_silence(struct lh_sim *sim, const struct lh_sim_event *e)
{
    struct end *end = &((struct link *)e->about)->ends[e->which];
    struct end *peer = peer_of(end);

    uint32_t a = end->node->index, b = peer->node->index;

    if (!end->open || sim->network.deaf[a][b])
        return;
    bool still_cut = (is_cut(sim, end->node, peer->node) || is_cut(sim, peer->node, end->node)) &&
                     e->number == sim->network.cuts[a][b] + sim->network.cuts[b][a];
    bool gone = end->link->broken || (end->link->arrived && !peer->open);
    if (still_cut || (gone && end->first == NULL))
        give_up(sim, end, LH_ERR_UNAVAILABLE, "the peer is silent");
    else if (gone) /* what it said before is still to be heard */
        lh_sim_network_watch_silence(sim, end);
}

void lh_sim_network_drop(struct lh_sim_node *node, bool machine)
{
    struct lh_sim *sim = node->sim;
    struct end *end, *next;

    lh_sim_wire_drop(node, machine);
    HASH_ITER(hh, node->links, end, next) {
        struct end *peer = peer_of(end);
        end->link->references++;
        shut(sim, end);
        lose_suffix(sim, peer);
        if (peer->open && machine)
            lh_sim_network_watch_silence(sim, peer);
        else if (peer->open || (which(end) == 0 && peer->first != NULL))
            put_closed(sim, peer, lh_sim_network_one_way(sim, node, peer->node), LH_ERR_UNAVAILABLE,
                "connection reset");
        lh_sim_network_unref(sim, end->link);
    }
}

void lh_sim_network_break_end(struct lh_sim *sim, struct end *end)
{
    end->link->references++;
    lose_suffix(sim, end);
    if (end->open)
        put_closed(sim, end, lh_sim_network_one_way(sim, peer_of(end)->node, end->node),
            LH_ERR_UNAVAILABLE, "connection broken");
    lh_sim_network_unref(sim, end->link);
}

void lh_sim_network_move_on(struct lh_sim *sim, struct end *end)
{
    uint64_t soonest = sim->now + lh_sim_network_one_way(sim, peer_of(end)->node, end->node);

    for (struct parcel *p = end->first; p != NULL; p = p->next)
        if (p->at < soonest)
            p->at = soonest; /* sent again */
    advance(sim, end);
}

void lh_sim_network_hurry(struct lh_sim *sim, struct end *end)
{
    if (end->first == NULL)
        return;
    uint64_t soonest = sim->now + lh_sim_network_one_way(sim, peer_of(end)->node, end->node);

    for (struct parcel *p = end->first; p != NULL; p = p->next) {
        p->at = p->at < soonest ? p->at : soonest;
        p->begins = p->begins < p->at ? p->begins : p->at;
    }
    end->arriving = false; /* the event that is under way finds nothing, or the next one */
    advance(sim, end);
}

uint64_t lh_sim_delivered(const struct lh_sim *sim)
{
    return sim->network.delivered;
}

void lh_sim_network_deinit(struct lh_sim *sim)
{
    struct link *next;

    lh_sim_wire_deinit(sim);
    for (struct link *link = sim->network.links; link != NULL; link = next) {
        next = link->next;
        for (int i = 0; i < 2; i++) {
            if (link->ends[i].open && link->ends[i].id != 0)
                HASH_DEL(link->ends[i].node->links, &link->ends[i]);
            drop_parcels(&link->ends[i], link->ends[i].first);
        }
        free(link->called);
        free(link);
    }
    sim->network.links = NULL;
}
