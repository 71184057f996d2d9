/* libFuzzer target: a whole master's core (world.h). */
#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "fuzz/world.h"
#include "master/master.h"
#include "proto/leasehold.pb-c.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What it has stored it can load again; of what was damaged meanwhile it says what is wrong, or
 * goes on with it. */
static int load(struct world *w, struct lh_master *m)
{
    char text[512] = "";

    for (size_t i = 0; i < w->stored_count; i++) {
        const struct pair *p = &w->stored[i];
        int error =
            lh_master_load(m, p->key, p->key_size, p->value, p->value_size, text, sizeof text);
        if (error == LH_OK)
            continue;
        if (!w->damaged)
            (void)fprintf(stderr, "it cannot load what it stored: %s\n", text);
        LH_ASSERT(w->damaged && text[0] != '\0');
        return error;
    }
    return LH_OK;
}

static void start(struct world *w, struct lh_core *core)
{
    struct lh_master_config config = lh_master_config_default();

    config.seed = 1;
    config.chunk_size = LH_CHUNK_BYTES_MIN;
    config.replication = config.min_replicas = 2;
    config.min_replicas = 1;
    config.grace = lh_seconds(20);
    if ((w->small & 1) != 0) {
#define X(name, preset_ms, what) config.name = lh_milliseconds(1);
        LH_MASTER_TIMES(X)
#undef X
#define X(name, preset, what) config.name = 1;
        LH_MASTER_COUNTS(X)
#undef X
    }
    if ((w->small & 2) != 0)
        config.waiters_max = config.waiters_file_max = 1;
    config.capabilities = (w->small & 4) != 0;
    struct lh_master *m = lh_master_create(&config);
    if (load(w, m) != LH_OK) { /* a new one */
        lh_master_destroy(m);
        world_forget_store(w);
        m = lh_master_create(&config);
    }
    *core = lh_master_core(m);
}

static void check(void *self)
{
    lh_master_check(self);
}

static void destroy(void *self)
{
    lh_master_destroy(self);
}

/* ---- Chunkservers as they are ---- */

static void say(struct world *w, struct link *l, const Leasehold__SessionRequest *m)
{
    world_say(w, l, &m->base, NULL);
}

static void create_done(struct world *w, struct link *l, const Leasehold__CreateReplica *q)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaCreated created = LEASEHOLD__REPLICA_CREATED__INIT;

    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_CREATED;
    m.created = &created;
    created.session = q->session;
    created.chunk = q->chunk;
    say(w, l, &m);
}

static void confirm(struct world *w, struct link *l, const Leasehold__Grant *q)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__GrantConfirm confirmed = LEASEHOLD__GRANT_CONFIRM__INIT;
    Leasehold__Recovered recovered = LEASEHOLD__RECOVERED__INIT;
    uint64_t id = l->id;

    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM;
    m.confirm = &confirmed;
    confirmed.session = recovered.session = q->session;
    confirmed.chunk = recovered.chunk = q->chunk;
    confirmed.version = recovered.version = q->version;
    say(w, l, &m);
    l = world_link(w, LH_METHOD_SESSION);
    if (l == NULL || l->id != id)
        return;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_RECOVERED;
    m.recovered = &recovered;
    say(w, l, &m);
}

/* A program that is greeted has nothing to show, or a lock with a token that it has heard of. */
static void show(struct world *w, struct link *l, const Leasehold__LeaseSessionReply *said)
{
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Show shown = LEASEHOLD__SHOW__INIT;
    Leasehold__ShownLock lock = LEASEHOLD__SHOWN_LOCK__INIT, *locks[] = {&lock};

    if (said->body_case != LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING)
        return;
    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW;
    m.show = &shown;
    shown.stamp = w->now.ns;
    shown.n_locks = take_byte(&w->in) & 1;
    shown.locks = locks;
    lock.name = (char *)"/a";
    lock.token = last_said(&w->said, "token");
    lock.mode = take_byte(&w->in) & 1;
    lock.ends = (take_byte(&w->in) & 3) == 0;
    world_say(w, l, &m.base, NULL);
}

static void answer(struct world *w, struct link *l, const ProtobufCMessage *said)
{
    const Leasehold__SessionReply *q = (const Leasehold__SessionReply *)said;

    if (l->method == LH_METHOD_LEASE_SESSION)
        show(w, l, (const Leasehold__LeaseSessionReply *)said);
    if (l->method != LH_METHOD_SESSION)
        return;
    if (q->body_case == LEASEHOLD__SESSION_REPLY__BODY_CREATE)
        create_done(w, l, q->create);
    else if (q->body_case == LEASEHOLD__SESSION_REPLY__BODY_GRANT)
        confirm(w, l, q->grant);
}

static void register_server(struct world *w, unsigned number)
{
    static const char *const names[] = {"cs1", "cs2", "cs3", "cs4"};
    struct link *l = world_open(w, LH_METHOD_SESSION, "peer:1");
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Register r = LEASEHOLD__REGISTER__INIT;
    uint64_t registration = last_said(&w->said, "registration") + 1;

    if (l == NULL)
        return;
    hear_value(&w->said, "registration", registration);
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
    m.register_ = &r;
    r.server_id = r.address = r.machine_id = r.failure_domain = (char *)names[number % 4];
    r.incarnation = 1 + (take_byte(&w->in) & 1);
    r.registration = registration;
    r.capacity_bytes = r.free_bytes = 1u << 30;
    r.cluster_id = (char *)"";
    r.stamp = w->now.ns;
    say(w, l, &m);
}

static void heartbeat(struct world *w)
{
    struct link *l = world_link(w, LH_METHOD_SESSION);
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Heartbeat h = LEASEHOLD__HEARTBEAT__INIT;

    if (l == NULL)
        return;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT;
    m.heartbeat = &h;
    h.session = last_said(&w->said, "session");
    h.stamp = w->now.ns;
    h.last_stamp = last_said(&w->said, "stamp");
    h.free_bytes = 1u << 30;
    say(w, l, &m);
}

static void ask(struct world *w, enum lh_method method, const void *m)
{
    struct link *l = world_open(w, method, "peer:1");

    if (l != NULL)
        world_say(w, l, m, NULL);
}

/* One of few, so that it comes again (HA-12); or none. */
static Leasehold__CallId *id_of(Leasehold__CallId *id, unsigned what)
{
    leasehold__call_id__init(id);
    id->client = 1;
    id->number = what & 3;
    id->repeated = (what & 4) != 0;
    return id->number == 0 ? NULL : id;
}

/* One of four, on a new stream. */
static void attach_program(struct world *w, unsigned number)
{
    struct link *l = world_open(w, LH_METHOD_LEASE_SESSION, "peer:1");
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Attach a = LEASEHOLD__ATTACH__INIT;
    uint8_t id[16] = {(uint8_t)(1 + number % 4)};
    uint64_t stream = last_said(&w->said, "stream") + 1;

    if (l == NULL)
        return;
    hear_value(&w->said, "stream", stream);
    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    m.attach = &a;
    a.session = (ProtobufCBinaryData){.data = id, .len = sizeof id};
    a.opens = true;
    a.stream = stream;
    a.term_ms = 1000 * (number % 16);
    world_say(w, l, &m.base, NULL);
}

static void operate(struct world *w, unsigned what)
{
    struct link *l = world_link(w, LH_METHOD_LEASE_SESSION);
    char *name = (char *)((what & 1) != 0 ? "/b" : "/a");
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__LeaseOps ops = LEASEHOLD__LEASE_OPS__INIT;
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT, *all[] = {&op};
    Leasehold__Acquire acquire = LEASEHOLD__ACQUIRE__INIT;
    Leasehold__ReleaseLock release = LEASEHOLD__RELEASE_LOCK__INIT;
    Leasehold__Yield yield = LEASEHOLD__YIELD__INIT;

    if (l == NULL)
        return;
    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS;
    m.ops = &ops;
    ops.n_ops = 1;
    ops.ops = all;
    acquire.name = release.name = yield.name = name;
    release.token = yield.token = last_said(&w->said, "token");
    acquire.id = 1 + take_byte(&w->in);
    acquire.mode = what >> 1 & 1;
    acquire.slots = what >> 2 & 3;
    acquire.recallable = (what >> 4 & 1) != 0;
    yield.in_ms = take_byte(&w->in);
    op.op_case = what % 3 == 0   ? LEASEHOLD__LEASE_OP__OP_RELEASE
                 : what % 7 == 1 ? LEASEHOLD__LEASE_OP__OP_YIELD
                                 : LEASEHOLD__LEASE_OP__OP_ACQUIRE;
    if (op.op_case == LEASEHOLD__LEASE_OP__OP_RELEASE)
        op.release = &release;
    else if (op.op_case == LEASEHOLD__LEASE_OP__OP_YIELD)
        op.yield = &yield;
    else
        op.acquire = &acquire;
    world_say(w, l, &m.base, NULL);
}

static void usual(struct world *w, unsigned what)
{
    char *path = (char *)((what & 64) != 0 ? "/b" : "/a");
    Leasehold__CallId id;
    Leasehold__CreateRequest create = LEASEHOLD__CREATE_REQUEST__INIT;
    Leasehold__OpenTailRequest tail = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;
    Leasehold__RemoveRequest gone = LEASEHOLD__REMOVE_REQUEST__INIT;
    Leasehold__RecallRequest recall = LEASEHOLD__RECALL_REQUEST__INIT;

    switch (what % 11) {
    case 0:
    case 1:
        register_server(w, what / 8);
        break;
    case 2:
        heartbeat(w);
        break;
    case 7:
        attach_program(w, what / 11);
        break;
    case 8:
    case 9:
        operate(w, what / 11);
        break;
    case 3:
        create.path = path;
        create.on_primary_loss = 1 + (what >> 3 & 1);
        create.call = id_of(&id, what >> 4);
        ask(w, LH_METHOD_CREATE, &create);
        break;
    case 4:
        tail.path = path;
        tail.wait_ms = 1000;
        ask(w, LH_METHOD_OPEN_TAIL, &tail);
        break;
    case 5: /* it lost the primary, or found the chunk full */
        tail.path = path;
        tail.wait_ms = 1000;
        tail.failed_chunk = last_said(&w->said, "chunk");
        tail.failed_version = last_said(&w->said, "version");
        tail.full_chunk = (what & 8) != 0 ? last_said(&w->said, "chunk") : 0;
        ask(w, LH_METHOD_OPEN_TAIL, &tail);
        break;
    case 6:
        gone.path = path;
        gone.now = (what & 8) != 0;
        gone.call = id_of(&id, what >> 4);
        ask(w, LH_METHOD_REMOVE, &gone);
        break;
    default:
        recall.path = path;
        ask(w, LH_METHOD_RECALL, &recall);
        break;
    }
}

static void completed(struct world *w, void *call, int error)
{
    (void)w;
    (void)call;
    (void)error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct part part = {.first = LH_METHOD_SESSION,
        .last = LH_METHOD_LIST_POLICIES,
        .start = start,
        .check = check,
        .destroy = destroy,
        .usual = usual,
        .answer = answer,
        .completed = completed,
        .store_rots = true};
    struct world *w = lh_alloc(sizeof *w);

    world_run(w, &part, data, size);
    free(w);
    return 0;
}
