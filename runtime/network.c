/* The loop's links: what its transport reports becomes inputs. What is sent: dispatch.c. */
#include "runtime/dispatch.h"

#include "base/assert.h"
#include "runtime/log.h"
#include "runtime/transports.h"

#include <stdio.h>

/* ---- what arrives ---- */

static void on_opened(
    void *arg, struct lh_transport_link *carrier, enum lh_method method, const char *peer)
{
    const char *identity = lh_transport_link_identity(carrier);
    struct lh_loop *loop = arg;
    struct lh_dispatch *d = lh_dispatch_begin(loop);
    struct lh_input *in = lh_dispatch_input(d, LH_IN_LINK_OPENED);

    in->method = method;
    in->text = peer;
    in->identity = identity;
    lh_log(LH_DEBUG, loop->config.name, "%s called by %s%s%s", lh_method_info(method)->path, peer,
        identity[0] != '\0' ? ", " : "", identity);
    lh_dispatch_lock(loop);
    if (loop->stopped) {
        pthread_mutex_unlock(&loop->lock);
        lh_transport_link_close(carrier, LH_ERR_SHUTTING_DOWN, NULL);
        lh_transport_link_flush(carrier);
        lh_transport_link_unref(carrier);
        d->inputs.count = 0;
        lh_dispatch_end(loop, d);
        return;
    }
    in->link = LH_LINK_SERVED | ++loop->served_count;
    /* Read even if the core holds the link at once: one message may always arrive. */
    lh_dispatch_want_message(d, lh_loop_enter_link(loop, carrier, in->link, method));
    lh_dispatch_run_locked(loop, d);
}

/* A link whose peer sent what is no message of its method, or too large a one: the end, for both
 * sides. */
static void end_refused(
    struct lh_loop *loop, struct lh_dispatch *d, struct lh_transport_link *carrier, int error)
{
    struct lh_loop_link *link = lh_transport_link_data(carrier);
    char text[160];

    lh_dispatch_lock(loop);
    bool known = link->known;
    if (known) {
        bool request = lh_loop_link_served(link);
        snprintf(text, sizeof text, "%s: %s %s message", lh_method_info(link->method)->path,
            error == LH_ERR_TOO_LARGE   ? "too large a"
            : error == LH_ERR_NO_MEMORY ? "no memory for a part of a"
                                        : "not a",
            request ? "request" : "reply");
        lh_dispatch_end_link(loop, d, link, error, text);
    }
    lh_dispatch_run_locked(loop, d);
}

/* Bytes of messages that have come in part, in this process: whoever sends them need not finish. */
static _Atomic size_t arriving;

static int arrive(struct lh_loop *loop, struct lh_loop_link *link, ProtobufCMessage **message,
    struct lh_buf *payload)
{
    size_t before = link->arrival.payload.size, most = loop->config.memory_max;
    int error = lh_wire_arrive(&link->arrival, message, payload);
    size_t grown = link->arrival.payload.size - before; /* or what it shrank by, as a complement */
    size_t all = atomic_fetch_add(&arriving, grown) + grown;

    if (error == LH_ERR_TOO_LARGE) {
        lh_wire_free(*message);
        lh_buf_clear(payload);
    }
    return error == LH_ERR_WOULD_BLOCK && most != 0 && all > most ? LH_ERR_NO_MEMORY : error;
}

static void on_message(void *arg, struct lh_transport_link *carrier, struct lh_buf bytes)
{
    struct lh_loop *loop = arg;
    struct lh_loop_link *link =
        lh_transport_link_data(carrier); /* id and method do not change any more */
    struct lh_dispatch *d = lh_dispatch_begin(loop);
    ProtobufCMessage *message;
    struct lh_buf payload;

    int error = lh_wire_decode(link->method, lh_loop_link_served(link) ? LH_REQUEST : LH_REPLY,
        &bytes, &message, &payload);
    lh_buf_clear(&bytes);
    if (error == LH_OK)
        error = arrive(loop, link, &message, &payload);
    if (error != LH_OK && error != LH_ERR_WOULD_BLOCK) {
        end_refused(loop, d, carrier, error);
        return;
    }
    struct lh_input *in = lh_dispatch_input(d, error == LH_OK ? LH_IN_MESSAGE : LH_IN_PROGRESS);
    in->link = link->id;
    in->method = link->method;
    if (error == LH_OK) {
        in->message = message;
        in->payload = payload;
        in->identity = lh_transport_link_identity(carrier);
    }
    lh_dispatch_run(loop, d);
}

/* An input about a link alone. */
static void tell_of_link(void *arg, struct lh_transport_link *carrier, enum lh_input_kind kind)
{
    struct lh_loop *loop = arg;
    struct lh_loop_link *link = lh_transport_link_data(carrier);
    struct lh_dispatch *d = lh_dispatch_begin(loop);

    lh_dispatch_lock(loop);
    if (link->known) {
        struct lh_input *in = lh_dispatch_input(d, kind);
        in->link = link->id;
        in->method = link->method;
    }
    lh_dispatch_run_locked(loop, d);
}

static void on_sent(void *arg, struct lh_transport_link *carrier)
{
    tell_of_link(arg, carrier, LH_IN_SENT);
}

static void on_half_closed(void *arg, struct lh_transport_link *carrier)
{
    const struct lh_loop_link *link = lh_transport_link_data(carrier);

    if (link->arrival.first != NULL) /* and the rest will never come */
        end_refused(arg, lh_dispatch_begin(arg), carrier, LH_ERR_MALFORMED);
    else
        tell_of_link(arg, carrier, LH_IN_HALF_CLOSED);
}

static void on_released(void *arg, struct lh_transport_link *carrier)
{
    struct lh_loop_link *link = lh_transport_link_data(carrier);

    (void)arg;
    LH_ASSERT(!link->known); /* the table has a reference */
    atomic_fetch_sub(&arriving, link->arrival.payload.size);
    lh_wire_arrival_deinit(&link->arrival);
}

static void on_closed(void *arg, struct lh_transport_link *carrier, int error, const char *text)
{
    struct lh_loop *loop = arg;
    struct lh_loop_link *link = lh_transport_link_data(carrier);
    struct lh_dispatch *d = lh_dispatch_begin(loop);

    lh_dispatch_lock(loop);
    if (link->known) {
        struct lh_input *in = lh_dispatch_input(d, LH_IN_LINK_CLOSED);
        in->link = link->id;
        in->method = link->method;
        in->error = error;
        in->text = text;
        lh_loop_forget_link(loop, link);
    }
    lh_dispatch_run_locked(loop, d);
}

static void on_round(void *loop, bool begins)
{
    lh_dispatch_round(loop, begins);
}

/* ---- the network as a whole ---- */

static void log_network(enum lh_level level, const char *text)
{
    lh_log(level, "network", "%s", text);
}

int lh_loop_network_create(struct lh_loop *loop, char *why, size_t why_size)
{
    const struct lh_loop_config *c = &loop->config;
    struct lh_transport_config config = {
        .listen = c->listen,
        .threads = c->threads,
        .keepalive = c->keepalive,
        .keepalive_timeout = c->keepalive_timeout,
        .connect_timeout = c->connect_timeout,
        .grace = c->grace,
        .services = c->services,
        .calls_max = c->calls_max,
        .peer_calls_max = c->peer_calls_max,
        .peer_unsent_max = c->peer_unsent_max,
        .handshake_timeout = c->handshake_timeout,
        .idle_timeout = c->idle_timeout,
        .request_timeout = c->request_timeout,
        .memory_max = c->memory_max,
        .unsent_max = c->unsent_max,
        .served_message_max = c->served_message_max,
        .tls = c->tls,
        .foreign_tls = c->foreign_tls,
        .may_answer = lh_loop_may_answer,
        .log = log_network,
        .link_data_size = sizeof(struct lh_loop_link),
        .arg = loop,
        .on_opened = on_opened,
        .on_message = on_message,
        .on_half_closed = on_half_closed,
        .on_sent = on_sent,
        .on_closed = on_closed,
        .on_released = on_released,
        .on_round = on_round,
    };
    const struct lh_transport_methods *methods =
        c->transport != NULL ? c->transport : lh_transport_of(LH_TRANSPORT_WIRE);

    return lh_transport_create(methods, &config, &loop->transport, why, why_size);
}

struct lh_tls *lh_loop_tls(const struct lh_loop *loop)
{
    return lh_transport_tls(loop->transport);
}

int lh_loop_port(const struct lh_loop *loop)
{
    return lh_transport_port(loop->transport);
}

void lh_loop_network_figures(const struct lh_loop *loop, struct lh_transport_figures *figures)
{
    lh_transport_figures(loop->transport, figures);
}

void lh_loop_housekeep(struct lh_loop *loop)
{
    lh_transport_housekeep(loop->transport);
}

void lh_loop_set_serving(struct lh_loop *loop, bool server, bool services)
{
    lh_transport_set_serving(loop->transport, server, services);
}

void lh_loop_ask_who_answers(struct lh_loop *loop)
{
    lh_transport_ask_who_answers(loop->transport);
}

static bool is_served_stream(const struct lh_loop_link *link)
{
    const struct lh_method_info *info = lh_method_info(link->method);

    return lh_loop_link_served(link) && (info->request_stream || info->reply_stream);
}

void lh_loop_end_streams(struct lh_loop *loop, bool (*over)(void *arg, const char *identity),
    void *arg, const char *text)
{
    struct lh_dispatch *d = lh_dispatch_begin(loop);
    struct lh_loop_link *link, *next;

    lh_dispatch_lock(loop);
    HASH_ITER(hh, loop->links, link, next) {
        if (!is_served_stream(link) || !over(arg, lh_transport_link_identity(link->carrier)))
            continue;
        lh_dispatch_end_link(loop, d, link, LH_ERR_UNAVAILABLE, text);
    }
    lh_dispatch_run_locked(loop, d);
}

/* Cuts one link that the core has not closed. False: there is none. */
static bool cut_link(struct lh_loop *loop)
{
    lh_dispatch_lock(loop);
    struct lh_loop_link *link = loop->links;
    struct lh_transport_link *carrier = link == NULL ? NULL : link->carrier;
    if (carrier != NULL) {
        lh_transport_link_ref(carrier);
        lh_loop_forget_link(loop, link);
    }
    pthread_mutex_unlock(&loop->lock);
    if (carrier == NULL)
        return false;
    lh_transport_link_close(carrier, LH_ERR_SHUTTING_DOWN, NULL);
    lh_transport_link_flush(carrier);
    lh_transport_link_unref(carrier);
    return true;
}

void lh_loop_network_cut_links(struct lh_loop *loop)
{
    while (cut_link(loop))
        ;
}
