/* peer_locks.h of Leasehold itself, by the Leases service alone: what its master can do without the
 * library. Each client is a session. What a client asks for is gathered while an earlier message of
 * it has not left. RELEASE counts as done when it is asked for: nobody waits for it. Sessions have
 * the longest term and send no heartbeats, so that a load has a minute at most. */
#include "base/alloc.h"
#include "bench/peer_loop.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TERM_MS    60000u
#define OPS_MAX    4096u      /* in one message; as many as a window has */
#define KEYS_MAX   (1u << 21) /* that are held at once */
#define REQUESTS   (1u << 16) /* under way at once, of a client */
#define NAME_BYTES 32

struct op {
    Leasehold__LeaseOp op;
    union {
        Leasehold__Acquire acquire;
        Leasehold__ReleaseLock release;
        Leasehold__ReadValue read;
    };
    char name[NAME_BYTES];
};

struct request {
    enum lh_bench_op op;
    uint64_t key;
};

struct client {
    uint8_t id[16];
    struct op *ops; /* gathered */
    size_t op_count;
    bool ready, sending, listed;
    uint64_t last_request;
    struct request *requests; /* by id, modulo REQUESTS */
};

struct leasehold {
    struct lh_bench_looped l;
    struct client *clients; /* the link of client i is i + 1 */
    uint32_t client_count, ready;
    uint32_t *listed; /* that have gathered something in this step */
    size_t listed_count;
    uint64_t *tokens; /* by key, modulo KEYS_MAX */
};

static void send_ops(struct leasehold *l, uint32_t i)
{
    struct client *c = &l->clients[i];
    Leasehold__LeaseOp *pointers[OPS_MAX];
    Leasehold__LeaseOps ops = LEASEHOLD__LEASE_OPS__INIT;
    Leasehold__LeaseSessionRequest q = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    size_t n = c->op_count < OPS_MAX ? c->op_count : OPS_MAX;

    if (n == 0 || c->sending || !c->ready)
        return;
    for (size_t k = 0; k < n; k++)
        pointers[k] = &c->ops[k].op;
    ops.ops = pointers;
    ops.n_ops = n;
    q.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS;
    q.ops = &ops;
    lh_fx_send_notified(l->l.fx, i + 1, &q.base, NULL);
    c->sending = true;
    c->op_count -= n;
    if (c->op_count > 0)
        lh_bench_fail("more than %u operations of a client at once", OPS_MAX);
}

static struct op *add_op(struct leasehold *l, uint32_t i, uint64_t key)
{
    struct client *c = &l->clients[i];

    if (c->op_count == OPS_MAX)
        lh_bench_fail("more than %u operations of a client at once", OPS_MAX);
    if (!c->listed)
        l->listed[l->listed_count++] = i;
    c->listed = true;
    struct op *o = &c->ops[c->op_count++];
    leasehold__lease_op__init(&o->op);
    snprintf(o->name, sizeof o->name, "/lock/%012" PRIu64, key);
    return o;
}

static uint64_t add_request(struct client *c, enum lh_bench_op op, uint64_t key)
{
    uint64_t id = ++c->last_request;

    c->requests[id % REQUESTS] = (struct request){op, key};
    return id;
}

static void release(struct leasehold *l, uint32_t client, uint64_t key)
{
    struct op *o = add_op(l, client, key);

    leasehold__release_lock__init(&o->release);
    o->release.name = o->name;
    o->release.token = l->tokens[key % KEYS_MAX];
    o->op.op_case = LEASEHOLD__LEASE_OP__OP_RELEASE;
    o->op.release = &o->release;
    l->l.load->done(l->l.load, &l->l.base, client, LH_BENCH_RELEASE, key, true);
}

static void request(struct lh_bench_peer *peer, uint32_t client, enum lh_bench_op op, uint64_t key)
{
    struct leasehold *l = (struct leasehold *)peer;

    if (op == LH_BENCH_RELEASE) {
        release(l, client, key);
        return;
    }
    struct op *o = add_op(l, client, key);
    uint64_t id = add_request(&l->clients[client], op, key);
    if (op == LH_BENCH_ACQUIRE) {
        leasehold__acquire__init(&o->acquire);
        o->acquire.id = id;
        o->acquire.name = o->name;
        o->op.op_case = LEASEHOLD__LEASE_OP__OP_ACQUIRE;
        o->op.acquire = &o->acquire;
    } else if (op == LH_BENCH_READ) {
        leasehold__read_value__init(&o->read);
        o->read.id = id;
        o->read.name = o->name;
        o->op.op_case = LEASEHOLD__LEASE_OP__OP_READ;
        o->op.read = &o->read;
    } else {
        lh_bench_fail("locks_bench does this load");
    }
}

static void attach(struct leasehold *l, uint32_t i)
{
    Leasehold__Attach attach = LEASEHOLD__ATTACH__INIT;
    Leasehold__LeaseSessionRequest q = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    struct client *c = &l->clients[i];

    if (getrandom(c->id, sizeof c->id, 0) != (ssize_t)sizeof c->id)
        lh_bench_fail("no random bytes");
    attach.session = (ProtobufCBinaryData){sizeof c->id, c->id};
    attach.opens = true;
    attach.stream = 1;
    attach.term_ms = TERM_MS;
    attach.label = (char *)(uintptr_t) "peer_locks_bench";
    q.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    q.attach = &attach;
    lh_fx_open(l->l.fx, i + 1, LH_METHOD_LEASE_SESSION, l->l.address, LH_DURATION_FOREVER);
    lh_fx_send(l->l.fx, i + 1, &q.base, NULL);
}

static void show_nothing(struct leasehold *l, uint64_t link)
{
    Leasehold__Show show = LEASEHOLD__SHOW__INIT;
    Leasehold__LeaseSessionRequest q = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;

    show.stamp = lh_clock_now().ns;
    q.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW;
    q.show = &show;
    lh_fx_send(l->l.fx, link, &q.base, NULL);
}

static void on_answer(struct leasehold *l, uint32_t i, const Leasehold__LeaseAnswer *a)
{
    struct client *c = &l->clients[i];

    if (a->answer_case == LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED) {
        struct request r = c->requests[a->granted->id % REQUESTS];
        l->tokens[r.key % KEYS_MAX] = a->granted->token;
        l->l.load->done(l->l.load, &l->l.base, i, r.op, r.key, true);
    } else if (a->answer_case == LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE) {
        struct request r = c->requests[a->value->id % REQUESTS];
        l->l.load->done(l->l.load, &l->l.base, i, r.op, r.key, a->value->error == 0);
    } else if (a->answer_case == LEASEHOLD__LEASE_ANSWER__ANSWER_REFUSED) {
        lh_bench_fail("refused: %s", a->refused->text);
    }
}

static void on_message(struct leasehold *l, const struct lh_input *in)
{
    const Leasehold__LeaseSessionReply *r = in->message;
    uint32_t i = (uint32_t)in->link - 1;

    if (r->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING) {
        show_nothing(l, in->link);
    } else if (r->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN) {
        l->clients[i].ready = true;
        if (++l->ready == l->client_count)
            l->l.load->begin(l->l.load, &l->l.base);
    } else if (r->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS) {
        for (size_t k = 0; k < r->answers->n_answers; k++)
            on_answer(l, i, r->answers->answers[k]);
    }
}

static void input(struct lh_bench_looped *looped, const struct lh_input *in)
{
    struct leasehold *l = (struct leasehold *)looped;

    if (in->kind == LH_IN_CALL)
        for (uint32_t i = 0; i < l->client_count; i++)
            attach(l, i);
    else if (in->kind == LH_IN_MESSAGE)
        on_message(l, in);
    else if (in->kind == LH_IN_LINK_CLOSED)
        lh_bench_fail("%s: %s", looped->address, in->text == NULL ? "?" : in->text);
    if (in->kind == LH_IN_SENT) {
        l->clients[in->link - 1].sending = false;
        send_ops(l, (uint32_t)in->link - 1);
    }
    for (size_t i = 0; i < l->listed_count; i++) {
        l->clients[l->listed[i]].listed = false;
        send_ops(l, l->listed[i]);
    }
    l->listed_count = 0;
}

struct lh_bench_peer *lh_bench_leasehold(const struct lh_bench_options *o)
{
    struct leasehold *l = lh_alloc(sizeof *l);

    lh_bench_looped_init(&l->l, o, request, input);
    l->client_count = (uint32_t)o->clients;
    l->clients = lh_alloc_array(o->clients, sizeof *l->clients);
    l->listed = lh_alloc_array(o->clients, sizeof *l->listed);
    l->tokens = lh_alloc_array(KEYS_MAX, sizeof *l->tokens);
    for (uint64_t i = 0; i < o->clients; i++) {
        l->clients[i].ops = lh_alloc_array(OPS_MAX, sizeof(struct op));
        l->clients[i].requests = lh_alloc_array(REQUESTS, sizeof(struct request));
    }
    return &l->l.base;
}
