/* libFuzzer target: a whole chunkserver's core (world.h). */
#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "chunkserver/chunkserver.h"
#include "fuzz/world.h"
#include "proto/leasehold.pb-c.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *stored_text(const struct world *w, const char *key, char *text, size_t size)
{
    const struct pair *p = world_stored(w, key);
    size_t length = p == NULL ? 0 : p->value_size;

    LH_ASSERT(length < size);
    if (length > 0)
        memcpy(text, p->value, length);
    text[length] = '\0';
    return text;
}

static void start(struct world *w, struct lh_core *core)
{
    static const char *const masters[] = {"m"};
    uint64_t chunks[FILES_MAX];
    char cluster[512], term[48], scrub[LH_SCRUB_TEXT_MAX + 1];
    struct lh_chunkserver_config config = {
        .server_id = "cs1",
        .address = "cs1",
        .failure_domain = "",
        .machine_id = "machine",
        .cluster_id = stored_text(w, LH_CLUSTER_ID_KEY, cluster, sizeof cluster),
        .scrub_position = stored_text(w, LH_SCRUB_KEY, scrub, sizeof scrub),
        .incarnation = w->starts,
        .masters = masters,
        .master_count = 1,
        .chunks = chunks,
        .capacity_bytes = 1u << 30,
        .free_bytes = 1u << 30,
        .scrub_period = lh_seconds(20),
    };

    lh_cs_term_read(stored_text(w, LH_MASTER_TERM_KEY, term, sizeof term), &config.master_term,
        &config.reign_name);
    for (size_t i = 0; i < FILES_MAX; i++)
        if (w->files[i].there)
            chunks[config.chunk_count++] = w->files[i].id;
    if ((w->small & 1) != 0) {
#define X(name, least, preset, what) config.bounds.name = least;
        LH_CHUNKSERVER_BOUNDS(X)
#undef X
        config.bounds.scan_bytes = 64;
    }
    if ((w->small & 2) != 0)
        config.pending_bytes_max = 1;
    *core = lh_chunkserver_core(lh_chunkserver_create(&config));
}

static void check(void *self)
{
    lh_chunkserver_check(self);
}

static void destroy(void *self)
{
    lh_chunkserver_destroy(self);
}

static void say(struct world *w, struct link *l, const void *m)
{
    world_say(w, l, m, NULL);
}

/* As a master does. */
static void answer(struct world *w, struct link *l, const ProtobufCMessage *said)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Registered registered = LEASEHOLD__REGISTERED__INIT;
    Leasehold__HeartbeatReply heartbeat = LEASEHOLD__HEARTBEAT_REPLY__INIT;
    const Leasehold__SessionRequest *q = (const Leasehold__SessionRequest *)said;

    if (l->method != LH_METHOD_SESSION)
        return;
    if (q->body_case == LEASEHOLD__SESSION_REQUEST__BODY_REGISTER) {
        hear_value(&w->said, "session", 100 + w->starts);
        hear_value(&w->said, "master_term", 1);
        m.body_case = LEASEHOLD__SESSION_REPLY__BODY_REGISTERED;
        m.registered = &registered;
        registered.session = 100 + w->starts;
        registered.master_term = 1;
        registered.stamp = q->register_->stamp;
        registered.term_ns = UINT64_C(10000000000);
        registered.heartbeat_ns = UINT64_C(1000000000);
        registered.cluster_id = (char *)"c";
        say(w, l, &m);
    } else if (q->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT) {
        m.body_case = LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT;
        m.heartbeat = &heartbeat;
        heartbeat.session = q->heartbeat->session;
        heartbeat.master_term = 1;
        heartbeat.stamp = q->heartbeat->stamp;
        heartbeat.term_ns = UINT64_C(10000000000);
        say(w, l, &m);
    }
}

static void create(struct world *w, struct link *l, uint64_t chunk)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__CreateReplica create = LEASEHOLD__CREATE_REPLICA__INIT;

    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_CREATE;
    m.create = &create;
    create.session = last_said(&w->said, "session");
    create.chunk = chunk;
    create.chunk_size = LH_CHUNK_BYTES_MIN;
    create.durability = take_byte(&w->in) & 1;
    create.master_term = 1;
    say(w, l, &m);
}

static void grant(struct world *w, struct link *l, uint64_t chunk)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Grant grant = LEASEHOLD__GRANT__INIT;
    Leasehold__Member self = LEASEHOLD__MEMBER__INIT, other = LEASEHOLD__MEMBER__INIT;
    Leasehold__Member *members[] = {&self, &other};
    uint8_t how = take_byte(&w->in);

    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_GRANT;
    m.grant = &grant;
    self.server_id = self.address = (char *)"cs1";
    other.server_id = other.address = (char *)"cs2";
    other.joining = (how & 2) != 0;
    grant.session = last_said(&w->said, "session");
    grant.chunk = chunk;
    grant.version = last_said(&w->said, "version") + ((how & 4) == 0);
    grant.stamp = last_said(&w->said, "stamp");
    grant.term_ns = UINT64_C(60000000000);
    grant.members = members;
    grant.n_members = 1 + (how & 1);
    grant.min_replicas = 1;
    grant.durability = (how & 8) != 0;
    grant.chunk_size = LH_CHUNK_BYTES_MIN;
    grant.master_term = 1;
    hear_value(&w->said, "version", grant.version);
    say(w, l, &m);
}

static struct link *stream(struct world *w, enum lh_method method)
{
    struct link *l = world_link(w, method);

    return l != NULL ? l : world_open(w, method, "peer:1");
}

/* The next batch of a writer, or its first words on the stream. */
static void append(struct world *w, uint64_t chunk, bool batch)
{
    struct link *l = stream(w, LH_METHOD_APPEND);
    Leasehold__AppendRequest q = LEASEHOLD__APPEND_REQUEST__INIT;
    Leasehold__AppendPart m = LEASEHOLD__APPEND_PART__INIT, rest, *parts[] = {&m, &rest};
    struct lh_buf bytes = {0};
    uint64_t sequence = last_said(&w->said, "sequence") + 1;

    if (l == NULL)
        return;
    m.lane = 1 + (take_byte(&w->in) & 3);
    m.chunk = chunk;
    m.version = last_said(&w->said, "version");
    m.writer = 7;
    m.first_sequence = sequence;
    hear_value(&w->said, "writer", 7);
    if (batch) {
        struct lh_batch_builder builder;
        uint8_t record[60000] = {0};
        lh_batch_builder_init(&builder, 1u << 16);
        if (lh_batch_builder_add(&builder, record, take_byte(&w->in) * 60u))
            bytes = lh_batch_builder_finish(&builder, 7, sequence);
        else
            lh_batch_builder_deinit(&builder);
        hear_value(&w->said, "sequence", sequence);
    }
    rest = m;
    rest.writer = 0;
    m.bytes = bytes.size == 0 ? 0 : take_byte(&w->in) * bytes.size / 256;
    rest.bytes = bytes.size - m.bytes;
    q.parts = parts;
    q.n_parts = 1 + (rest.bytes > 0);
    world_say(w, l, &q.base, &bytes);
    lh_buf_clear(&bytes);
}

static void replicate(struct world *w, uint64_t chunk, int kind)
{
    struct link *l = stream(w, LH_METHOD_REPLICATE);
    Leasehold__ReplicateRequest q = LEASEHOLD__REPLICATE_REQUEST__INIT;
    Leasehold__ReplicatePart m = LEASEHOLD__REPLICATE_PART__INIT, *parts[] = {&m, &m};

    if (l == NULL)
        return;
    m.kind = kind;
    m.chunk = chunk;
    m.version = last_said(&w->said, "version") + (take_byte(&w->in) & 1);
    m.length = m.offset = last_said(&w->said, "length");
    m.committed = last_said(&w->said, "committed");
    m.checksum = last_said(&w->said, "checksum");
    hear_value(&w->said, "version", m.version);
    m.feed = 1 + (take_byte(&w->in) & 1);
    struct lh_buf batches = make_batches(&w->said, &w->in, m.checksum);
    m.bytes = batches.size;
    q.parts = parts;
    q.n_parts = 1 + (m.bytes == 0);
    world_say(w, l, &q.base, &batches);
    lh_buf_clear(&batches);
}

static void usual(struct world *w, unsigned what)
{
    struct link *master = world_link(w, LH_METHOD_SESSION);
    uint64_t chunk = 1 + ((what & 64) != 0);

    hear_value(&w->said, "chunk", chunk);
    switch (what % 8) {
    case 0:
        if (master != NULL)
            create(w, master, chunk);
        break;
    case 1:
        if (master != NULL)
            grant(w, master, chunk);
        break;
    case 2:
        append(w, chunk, false);
        break;
    case 3:
    case 4:
        append(w, chunk, true);
        break;
    default:
        replicate(w, chunk, (int)(what % 8) - 4);
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
    static const struct part part = {.first = LH_METHOD_APPEND,
        .last = LH_METHOD_SETTLE,
        .start = start,
        .check = check,
        .destroy = destroy,
        .usual = usual,
        .answer = answer,
        .completed = completed};
    struct world *w = lh_alloc(sizeof *w);

    world_run(w, &part, data, size);
    free(w);
    return 0;
}
