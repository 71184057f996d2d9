/* Inputs of the master's core, on links that others opened and on those that it opened: fed while
 * the reign is confirmed, kept in order while it is not (HA-2). Timers wait without being kept:
 * they are looked at when the gate opens. */
#include "master/reigns/internal.h"

#include <stdlib.h>

static struct lh_r_link *link_of(struct lh_reigns *r, uint64_t id)
{
    struct lh_r_link *l;

    HASH_FIND(hh, r->gate.links, &id, sizeof id, l);
    return l;
}

static struct lh_r_link *link_add(struct lh_reigns *r, uint64_t id, enum lh_method method)
{
    struct lh_r_link *l = lh_alloc(sizeof *l);

    l->id = id;
    l->method = method;
    HASH_ADD(hh, r->gate.links, id, sizeof l->id, l);
    return l;
}

static void link_forget(struct lh_reigns *r, struct lh_r_link *l)
{
    HASH_DELETE(hh, r->gate.links, l);
    free(l);
}

static void take_out(struct lh_reigns *r, struct lh_r_waiting *w)
{
    TAILQ_REMOVE(&r->gate.waiting, w, link_in_gate);
    r->gate.count--;
    r->gate.bytes -= w->message.size;
}

static void free_taken(struct lh_r_waiting *w)
{
    lh_buf_clear(&w->message);
    free(w->text);
    free(w->identity);
    free(w);
}

static void waiting_free(struct lh_reigns *r, struct lh_r_waiting *w)
{
    take_out(r, w);
    free_taken(w);
}

static void drop_waiting_of(struct lh_reigns *r, uint64_t link)
{
    struct lh_r_waiting *w, *next;

    for (w = TAILQ_FIRST(&r->gate.waiting); w != NULL; w = next) {
        next = TAILQ_NEXT(w, link_in_gate);
        if (w->link == link)
            waiting_free(r, w);
    }
}

static void pass(struct lh_reigns *r, struct lh_effect *e)
{
    struct lh_effect *to = lh_effects_add(r->fx, e->kind);

    *to = *e;
    *e = (struct lh_effect){0};
}

/* What the master's core wants done is done; what it wants committed is the writer's. */
static void pass_on(struct lh_reigns *r)
{
    struct lh_r_link *l;

    for (size_t i = 0; i < r->inner.count; i++) {
        struct lh_effect *e = &r->inner.items[i];
        switch (e->kind) {
        case LH_FX_PERSIST:
            lh_r_commit_add(r, e);
            break;
        case LH_FX_CLOSE:
            l = link_of(r, e->link);
            if (l == NULL)
                break; /* it was refused meanwhile */
            link_forget(r, l);
            drop_waiting_of(r, e->link);
            pass(r, e);
            break;
        case LH_FX_SEND:
        case LH_FX_HOLD:
        case LH_FX_UNHOLD:
            if (link_of(r, e->link) != NULL)
                pass(r, e);
            break;
        case LH_FX_LOG:
            pass(r, e);
            break;
        case LH_FX_OPEN:
            LH_ASSERT((e->link & LH_MASTER_LINK) != 0);
            l = link_add(r, e->link, e->method);
            l->known = true;
            pass(r, e);
            break;
        case LH_FX_DISK:
        case LH_FX_COMPLETE:
        case LH_FX_STOPPED:
            LH_ASSERT(e->kind == LH_FX_STOPPED); /* a master has no disk */
            break;
        }
    }
    lh_effects_clear(&r->inner);
}

/* With the reading of the moment at which the input came: what waited behind an answer of etcd's
 * was not late, and timers that ran out meanwhile have their turn behind what came before. */
static void feed(struct lh_reigns *r, struct lh_input *in)
{
    lh_master_say_at(r->master, r->now);
    lh_master_step(r->master, in, &r->inner);
    pass_on(r);
}

static void feed_now(struct lh_reigns *r, struct lh_input *in)
{
    in->now = r->now;
    in->wall_ms = r->wall_ms;
    feed(r, in);
}

/* The link's end: nothing of it is fed any more but, to a core that knows it, that it is over. */
static void put_end(struct lh_reigns *r, uint64_t link, enum lh_method method, int error)
{
    struct lh_r_waiting *w = lh_alloc(sizeof *w);

    w->kind = LH_IN_LINK_CLOSED;
    w->at = r->now;
    w->wall_ms = r->wall_ms;
    w->link = link;
    w->method = method;
    w->error = error;
    TAILQ_INSERT_TAIL(&r->gate.waiting, w, link_in_gate);
    r->gate.count++;
}

static void refuse(struct lh_reigns *r, struct lh_r_link *l)
{
    LH_MARK("gate-is-full");
    lh_fx_close(r->fx, l->id, LH_ERR_UNAVAILABLE,
        "this master does not know whether it is still the active one, and too many calls wait "
        "for that");
    drop_waiting_of(r, l->id);
    if (l->known)
        put_end(r, l->id, l->method, LH_ERR_CANCELLED);
    link_forget(r, l);
}

static void put_off(struct lh_reigns *r, const struct lh_input *in, struct lh_r_link *l)
{
    struct lh_r_gate *g = &r->gate;
    struct lh_r_waiting *w = lh_alloc(sizeof *w);

    LH_MARK("input-waits-for-confirmation");
    w->kind = in->kind;
    w->at = r->now;
    w->wall_ms = r->wall_ms;
    w->link = in->link;
    w->ticket = in->ticket;
    w->method = in->method;
    w->error = in->error;
    w->text = in->text == NULL ? NULL : lh_strdup(in->text);
    w->identity = in->identity == NULL ? NULL : lh_strdup(in->identity);
    if (in->kind == LH_IN_MESSAGE) {
        const ProtobufCMessage *message = in->message;
        uint8_t *to;
        w->message = lh_buf_alloc(protobuf_c_message_get_packed_size(message), &to);
        protobuf_c_message_pack(message, to);
    }
    TAILQ_INSERT_TAIL(&g->waiting, w, link_in_gate);
    g->count++;
    g->bytes += w->message.size;
    g->reads += in->kind == LH_IN_MESSAGE && lh_master_is_read(in->method);
    if (l != NULL && in->kind != LH_IN_LINK_CLOSED &&
        (g->count > r->config.waiting_max || g->bytes > r->config.waiting_bytes_max))
        refuse(r, l);
}

static bool is_open(const struct lh_reigns *r)
{
    return (lh_r_is_confirmed(r) || LH_PLANTED("acts-unconfirmed")) &&
           TAILQ_EMPTY(&r->gate.waiting);
}

void lh_r_gate_take(struct lh_reigns *r, struct lh_input *in)
{
    struct lh_r_link *l = NULL;
    bool acting = r->phase == LH_REIGN_ACTING;

    if (in->kind == LH_IN_PERSISTED) {
        if (!acting)
            return; /* it has resigned, and nobody waits for what it decided */
        if (is_open(r))
            feed_now(r, in);
        else
            put_off(r, in, NULL);
        return;
    }
    if (in->kind == LH_IN_LINK_OPENED) {
        l = link_add(r, in->link, in->method);
    } else {
        l = link_of(r, in->link);
    }
    if (l == NULL)
        return;
    if (in->kind == LH_IN_LINK_CLOSED) {
        bool known = l->known;
        /* What it was asked need not be done any more; what it has answered still counts. */
        if ((in->link & LH_LINK_SERVED) != 0)
            drop_waiting_of(r, in->link);
        link_forget(r, l);
        if (!known)
            return;
        l = NULL;
    }
    if (!acting)
        return;
    if (!is_open(r)) {
        put_off(r, in, l);
        return;
    }
    if (l != NULL) {
        l->known = true;
        l->taken = l->taken || in->kind == LH_IN_MESSAGE;
    }
    feed_now(r, in);
}

/* `take`: lh_master_step() or lh_master_read(). */
static void feed_waiting(struct lh_reigns *r, struct lh_r_waiting *w,
    void (*take)(struct lh_master *m, struct lh_input *in, struct lh_effects *fx))
{
    struct lh_input in = {.kind = w->kind,
        .now = w->at,
        .wall_ms = w->wall_ms,
        .link = w->link,
        .method = w->method,
        .ticket = w->ticket,
        .error = w->error,
        .text = w->text,
        .identity = w->identity};
    ProtobufCMessage *message = NULL;
    struct lh_r_link *l = link_of(r, w->link);

    if (l != NULL) {
        l->known = true;
        l->taken = l->taken || w->kind == LH_IN_MESSAGE;
    }
    if (w->kind == LH_IN_MESSAGE) {
        struct lh_buf none;
        enum lh_direction way = (w->link & LH_LINK_SERVED) != 0 ? LH_REQUEST : LH_REPLY;
        if (lh_wire_decode(w->method, way, &w->message, &message, &none) != LH_OK)
            LH_UNREACHABLE(); /* it was packed here */
        in.message = message;
    }
    lh_master_say_at(r->master, r->now);
    take(r->master, &in, &r->inner);
    pass_on(r);
    lh_wire_free(message);
}

void lh_r_gate_open(struct lh_reigns *r)
{
    struct lh_r_waiting *w;

    while (lh_r_is_confirmed(r) && (w = TAILQ_FIRST(&r->gate.waiting)) != NULL) {
        /* Taken out first: what the core says of it may be that its link is over. */
        take_out(r, w);
        feed_waiting(r, w, lh_master_step);
        free_taken(w);
    }
    if (is_open(r) && lh_r_mend_next(r))
        feed_now(r, &(struct lh_input){.kind = LH_IN_TIMER});
    if ((is_open(r) || LH_PLANTED("timers-fire-unconfirmed")) &&
        lh_instant_reached(r->now, lh_master_deadline(r->master)))
        feed_now(r, &(struct lh_input){.kind = LH_IN_TIMER});
}

/* ---- HA-2a: reads do not wait for a write of the head, if etcd says that nobody has begun another
 * reign since they came. */

static bool is_read(const struct lh_r_waiting *w)
{
    return w->kind == LH_IN_MESSAGE && lh_master_is_read(w->method);
}

/* What the last answered write has left, or what that under way puts. */
static bool is_own_head(const struct lh_reigns *r, const ProtobufCBinaryData *value)
{
    const struct lh_r_bytes *heads[] = {&r->copy.head, &r->writer.head};

    for (size_t i = 0; i < 2; i++)
        if (heads[i]->data != NULL && heads[i]->size == value->len &&
            memcmp(heads[i]->data, value->data, value->len) == 0)
            return true;
    return false;
}

/* What the core says of one may end links, and with them others that wait: each time the first one
 * is looked for. */
static struct lh_r_waiting *next_asked(struct lh_reigns *r)
{
    struct lh_r_waiting *w;

    TAILQ_FOREACH(w, &r->gate.waiting, link_in_gate) {
        if (w->asked)
            return w;
    }
    return NULL;
}

static void answer_asked(struct lh_reigns *r)
{
    struct lh_r_waiting *w;

    while ((w = next_asked(r)) != NULL) {
        LH_MARK("read-answered-unconfirmed");
        take_out(r, w);
        feed_waiting(r, w, lh_master_read);
        free_taken(w);
    }
}

void lh_r_gate_ask(struct lh_reigns *r)
{
    struct lh_r_waiting *w;
    bool any = false;

    if (r->gate.reads == 0 || lh_r_is_confirmed(r) || lh_r_call_is_open(r, LH_R_ASK))
        return;
    TAILQ_FOREACH(w, &r->gate.waiting, link_in_gate) {
        w->asked = w->asked || is_read(w);
        any = any || w->asked;
    }
    r->gate.reads = 0;
    if (any && LH_PLANTED("reads-not-asked-about"))
        answer_asked(r);
    else if (any)
        lh_r_ask(r);
}

void lh_r_gate_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply)
{
    if (r->phase == LH_REIGN_ACTING && reply->n_kvs > 0 && is_own_head(r, &reply->kvs[0]->value))
        answer_asked(r);
}

void lh_r_link_over(struct lh_reigns *r, uint64_t link)
{
    struct lh_r_link *l = link_of(r, link);

    if (l != NULL)
        link_forget(r, l);
}

void lh_r_gate_clear(struct lh_reigns *r)
{
    struct lh_r_waiting *w;

    while ((w = TAILQ_FIRST(&r->gate.waiting)) != NULL)
        waiting_free(r, w);
}

void lh_r_links_end(struct lh_reigns *r, int error, const char *text)
{
    struct lh_r_link *l, *next;

    HASH_ITER(hh, r->gate.links, l, next) {
        /* What was taken may come true: to refuse it would be to say that it does not (HA-12). */
        bool unknown = l->taken && !lh_r_is_session(l->method) && error == LH_ERR_NOT_ACTIVE &&
                       !LH_PLANTED("taken-call-refused");
        if (r->fx != NULL && unknown)
            lh_fx_close(r->fx, l->id, LH_ERR_UNAVAILABLE,
                "this master is not the active one any more; whether the call was carried out is "
                "not known here");
        else if (r->fx != NULL)
            lh_fx_close(r->fx, l->id, error, text);
        link_forget(r, l);
    }
}
