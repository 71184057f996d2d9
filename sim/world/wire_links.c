/* Effects and inputs of links that the wire carries: as runtime/ has them. */
#include "sim/world/wire.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int which_of(const struct end *end)
{
    return end == &end->link->ends[1];
}

static struct lh_mux *machine_of(const struct end *end)
{
    return end->wired->connection->sides[which_of(end)].mux;
}

struct wired *lh_sim_wire_find(struct connection *c, uint64_t id)
{
    struct wired *wired;

    HASH_FIND(hh, c->links, &id, sizeof id, wired);
    return wired;
}

/* ---- life ---- */

static struct wired *create(struct connection *c, enum lh_method method, struct lh_duration timeout)
{
    struct wired *wired = lh_alloc(sizeof *wired);
    struct link *link = &wired->link;

    link->method = method;
    wired->connection = c;
    for (int i = 0; i < 2; i++) {
        link->ends[i] = (struct end){.link = link, .wired = wired, .node = c->sides[i].node};
        lh_sim_wire_way_init(&wired->ways[i]);
    }
    wired->mux[0] = lh_mux_open(
        c->sides[0].mux, method, timeout, &link->ends[0], lh_sim_clock(c->sides[0].node));
    wired->id = wired->mux[0]->id;
    for (int i = 0; i < 2; i++)
        if (c->sides[i].greeted)
            wired->ways[i].credit = c->sides[i].window;
    HASH_ADD(hh, c->links, id, sizeof wired->id, wired);
    return wired;
}

/* The core will hear nothing more from this end. */
static void shut(struct end *end)
{
    struct wired *wired = end->wired;
    int which = which_of(end);

    wired->mux[which] = NULL;
    wired->ways[which].eligible_from = UINT64_MAX;
    wired->reading[which] = false;
    wired->served_over |= which == 1;
    wired->connection->sweep_due = true;
    if (!end->open)
        return;
    end->open = false;
    if (end->id != 0)
        HASH_DEL(end->node->links, end);
}

void lh_sim_wire_shut_all(struct connection *c, int which)
{
    for (struct wired *wired = c->links; wired != NULL; wired = wired->hh.next)
        shut(&wired->link.ends[which]);
}

void lh_sim_wire_sweep(struct connection *c, bool all)
{
    struct wired *wired, *next;

    c->sweep_due = false;
    HASH_ITER(hh, c->links, wired, next) {
        bool over = wired->mux[0] == NULL && wired->served_over;
        if (!over && !all)
            continue;
        HASH_DEL(c->links, wired);
        if (c->half_closed == wired)
            c->half_closed = NULL;
        free(wired->end_text);
        for (int i = 0; i < 2; i++) {
            shut(&wired->link.ends[i]);
            lh_wire_arrival_deinit(&wired->arrivals[i]);
            lh_sim_wire_way_deinit(&wired->ways[i]);
        }
        free(wired);
    }
    c->sweep_due = false;
}

static void want_message(struct end *end)
{
    struct wired *wired = end->wired;
    int which = which_of(end);

    wired->reading[which] = true;
    lh_mux_read(machine_of(end), wired->mux[which]);
    lh_sim_wire_rouse(wired->connection, which);
}

/* ---- effects ---- */

/* Refused for what it sends, or ended by the serving end when its time is over although nobody says
 * so: links of the world's own show both. No core hears of them. */
static void open_own(struct connection *c)
{
    struct lh_sim *sim = c->sim;
    struct lh_prng *random = &sim->streams[LH_SIM_WIRE];
    bool large = lh_prng_chance(random, 50);
    struct lh_duration timeout = lh_milliseconds(lh_prng_between(random, 10, 400));

    if (!lh_mux_may_open(c->sides[0].mux))
        return;
    struct wired *wired = create(c, LH_METHOD_STAT, large ? LH_DURATION_FOREVER : timeout);
    wired->own = true;
    if (!large) {
        wired->own_ends = timeout.ns;
        return;
    }
    uint8_t *bytes;
    size_t size = LH_UNARY_REQUEST_BYTES_MAX + 1 + lh_prng_below(random, 100);
    struct lh_buf message = lh_buf_alloc(size, &bytes);
    memset(bytes, 0, size);
    lh_sim_wire_saw_put(&wired->link.ends[0], &message, false);
    lh_mux_put(c->sides[0].mux, wired->mux[0], message, false);
}

void lh_sim_wire_open(struct lh_sim_node *node, const struct lh_effect *e)
{
    struct lh_sim *sim = node->sim;
    struct connection *c = lh_sim_wire_connection(node, e->text, e->method);
    struct wired *wired = create(c, e->method, e->timeout);
    struct end *opener = &wired->link.ends[0];

    wired->link.number = ++sim->network.link_count;
    wired->link.nobody = lh_sim_network_called(sim, e->text) == NULL;
    opener->id = e->link;
    opener->open = true;
    HASH_ADD(hh, node->links, id, sizeof opener->id, opener);
    want_message(opener);
    if (lh_prng_below(&sim->streams[LH_SIM_WIRE], 1000) < sim->network.wire.own_per_thousand)
        open_own(c);
}

static void put(struct end *end, struct lh_buf bytes, bool notify)
{
    struct wired *wired = end->wired;
    int which = which_of(end);

    lh_sim_wire_saw_put(end, &bytes, notify);
    lh_mux_put(machine_of(end), wired->mux[which], bytes, notify);
}

static void put_message(void *end, struct lh_buf bytes, bool last)
{
    (void)last;
    put(end, bytes, false);
}

static void put_notified(void *end, struct lh_buf bytes, bool last)
{
    put(end, bytes, last);
}

void lh_sim_wire_send(struct end *end, struct lh_effect *e)
{
    const struct lh_sim_wire_config *config = &end->node->sim->network.wire;

    if (end->wired->mux[which_of(end)] == NULL)
        return; /* half-closed: the peer has ended it */
    lh_wire_send(end->link->method, which_of(end) == 0 ? LH_REQUEST : LH_REPLY, &e->header,
        &e->payload, config->alone_bytes, config->piece_bytes,
        e->notify ? put_notified : put_message, end);
    lh_sim_wire_rouse(end->wired->connection, which_of(end));
}

void lh_sim_wire_close(struct end *end, const struct lh_effect *e)
{
    struct wired *wired = end->wired;
    int which = which_of(end);

    wired->finished |= which == 1 && e->error == LH_OK;
    if (wired->mux[which] != NULL)
        lh_mux_close(machine_of(end), wired->mux[which], e->error, e->text);
    bool says = which == 1;
    uint64_t eligible = wired->ways[1].eligible_from;
    shut(end);
    if (says) /* what was sent still goes out */
        wired->ways[1].eligible_from = eligible;
    lh_sim_wire_rouse(wired->connection, which);
}

void lh_sim_wire_hold(struct end *end, bool held)
{
    end->held = held;
    if (!held && !end->wired->reading[which_of(end)] && end->wired->mux[which_of(end)] != NULL)
        want_message(end);
}

/* ---- inputs ---- */

static void feed(struct end *end, enum lh_input_kind kind, int error, const char *text)
{
    struct lh_input in = {
        .kind = kind, .link = end->id, .method = end->link->method, .error = error, .text = text};

    lh_sim_feed(end->node, &in, end);
}

static void report_opened(struct connection *c, struct lh_mux_link *opened)
{
    struct lh_sim *sim = c->sim;
    struct lh_sim_node *node = c->sides[1].node, *opener = c->sides[0].node;
    struct wired *wired = lh_sim_wire_find(c, opened->id);

    if (wired == NULL || wired->mux[1] != NULL || wired->served_over ||
        wired->link.method != opened->method) {
        lh_sim_fail(
            sim, "check", 0, "wire: link %" PRIu64 " was opened, which nobody opens", opened->id);
        return;
    }
    struct end *served = &wired->link.ends[1];
    opened->owner = served;
    wired->mux[1] = opened;
    if (wired->own) {
        if (wired->own_ends != 0) {
            /* What the other end says comes later than that. */
            c->sides[1].in.stalled_until = sim->now + wired->own_ends + lh_milliseconds(500).ns;
            wired->own_ends = lh_sim_clock(node).ns + wired->own_ends + wired->own_ends / 2 +
                              lh_milliseconds(100).ns + 2 * node->timer_late;
        }
        lh_mux_read(c->sides[1].mux, opened);
        return;
    }
    served->id = LH_LINK_SERVED | ++node->served;
    served->open = true;
    HASH_ADD(hh, node->links, id, sizeof served->id, served);
    want_message(served); /* even if the core holds the link at once: one may always arrive */
    if (lh_prng_below(&sim->streams[LH_SIM_WIRE], 1000) < sim->network.wire.going_per_thousand) {
        LH_MARK("wire-went-away");
        c->sides[1].going = true;
        lh_mux_go_away(c->sides[1].mux, LH_ERR_SHUTTING_DOWN, "the server is shutting down");
    }
    struct lh_input in = {.kind = LH_IN_LINK_OPENED,
        .link = served->id,
        .method = served->link->method,
        .text = opener->name,
        .identity = opener->identity};
    lh_sim_feed(node, &in, served);
}

/* Most pieces are no news: the core heard of one just now. */
static bool is_news(struct end *end)
{
    struct lh_instant *notified = &end->wired->progress_notified[which_of(end)];
    struct lh_instant now = lh_sim_clock(end->node);

    if (notified->ns != 0 &&
        lh_instant_until(*notified, now).ns < end->node->sim->config.progress_interval.ns)
        return false;
    *notified = now;
    return true;
}

/* Asks for the next one, unless the core holds the link or there cannot be another one. */
static void message_fed(struct lh_sim_node *node, uint64_t id, bool is_part)
{
    struct end *end;

    if (node->up)
        HASH_FIND(hh, node->links, &id, sizeof id, end);
    if (!node->up || end == NULL)
        return;
    const struct lh_method_info *info = lh_method_info(end->link->method);
    bool more = which_of(end) == 1 ? info->request_stream : info->reply_stream;
    if ((more || is_part) && !end->held && end->wired->mux[which_of(end)] != NULL)
        want_message(end);
}

static void report_message(struct end *end, struct lh_buf *bytes)
{
    struct wired *wired = end->wired;
    struct lh_sim_node *node = end->node;
    int which = which_of(end);
    ProtobufCMessage *message;
    struct lh_buf payload;

    wired->reading[which] = false;
    if (wired->own) {
        lh_sim_fail(node->sim, "check", 0, "wire: a message of %zu bytes, too large, was delivered",
            bytes->size);
        return;
    }
    uint32_t crc = lh_buf_crc32c(bytes, 0, bytes->size, 0);
    if (!lh_sim_wire_saw_delivered(end, bytes))
        return;
    int error = lh_wire_decode(
        wired->link.method, which == 1 ? LH_REQUEST : LH_REPLY, bytes, &message, &payload);
    if (error == LH_OK)
        error = lh_wire_arrive(&wired->arrivals[which], &message, &payload);
    if (error != LH_OK && error != LH_ERR_WOULD_BLOCK) {
        lh_sim_fail(
            node->sim, "check", 0, "wire: what arrived is no message: %s", lh_error_name(error));
        return;
    }
    lh_sim_hash_in(node->sim, crc);
    bool is_part = error == LH_ERR_WOULD_BLOCK;
    uint64_t id = end->id;
    struct lh_input in = {
        .kind = is_part ? LH_IN_PROGRESS : LH_IN_MESSAGE, .link = id, .method = wired->link.method};
    if (!is_part) {
        wired->progress_notified[which] = (struct lh_instant){0};
        in.identity = which == 1 ? wired->link.ends[0].node->identity : NULL;
        in.message = message;
        in.payload = payload;
        node->sim->network.delivered++;
    }
    if (!is_part || is_news(end))
        lh_sim_feed(node, &in, end);
    if (!is_part) {
        lh_buf_clear(&in.payload);
        lh_wire_free(message);
    }
    message_fed(node, id, is_part);
}

/* The end of a link of which its core has heard that nothing more comes. */
static void report_end(struct end *end, int error, const char *text)
{
    bool open = end->open;

    shut(end); /* first: the core must not find it any more */
    if (open)
        feed(end, LH_IN_LINK_CLOSED, error, text);
}

static void report_closed(struct end *end, struct lh_mux_event *event)
{
    struct wired *wired = end->wired;
    struct connection *c = wired->connection;

    if (wired->own || !lh_sim_wire_saw_closed(end, event->error)) {
        shut(end);
    } else if (event->by_peer && which_of(end) == 1 &&
               lh_method_info(wired->link.method)->request_stream) {
        wired->mux[1] = NULL;
        wired->reading[1] = false;
        wired->ways[1].eligible_from = UINT64_MAX;
        wired->end_error = event->error;
        wired->end_text = event->text;
        event->text = NULL;
        c->half_closed = wired; /* its end comes next */
        feed(end, LH_IN_HALF_CLOSED, LH_OK, NULL);
    } else {
        report_end(end, event->error, event->text);
    }
    free(event->text);
}

bool lh_sim_wire_report(struct connection *c, int which)
{
    if (which == 1 && c->half_closed != NULL) {
        struct wired *wired = c->half_closed;
        c->half_closed = NULL;
        report_end(&wired->link.ends[1], wired->end_error, wired->end_text);
        return true;
    }
    struct lh_mux_event event = lh_mux_next(c->sides[which].mux);
    struct end *end = event.owner;

    switch (event.kind) {
    case LH_MUX_NOTHING:
        return false;
    case LH_MUX_OPENED:
        report_opened(c, event.link);
        break;
    case LH_MUX_MESSAGE:
        report_message(end, &event.bytes);
        lh_buf_clear(&event.bytes);
        break;
    case LH_MUX_CLOSED:
        report_closed(end, &event);
        break;
    }
    return true;
}

bool lh_sim_wire_report_sent(struct connection *c, int which)
{
    struct lh_mux_link *sent = lh_mux_next_sent(c->sides[which].mux);

    if (sent == NULL)
        return false;
    struct end *end = sent->owner;
    if (lh_sim_wire_saw_sent(end) && !end->wired->own)
        feed(end, LH_IN_SENT, LH_OK, NULL);
    return true;
}
