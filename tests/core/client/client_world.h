/* A world of one client core and nobody else: the test plays the master and the chunkservers.
 * Effects are laid out in one line in the order of their emission; the test takes them off one by
 * one. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "batch/batch.h"
#include "client/core/client.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"
#include "tests/chained.h"

#include <stdlib.h>
#include <string.h>

#define FILE_ID    7u
#define CHUNK_SIZE (1u << 20)

struct event {
    enum lh_effect_kind kind;
    uint64_t link;
    enum lh_method method;
    char *address;
    ProtobufCMessage *message;
    struct lh_buf payload;
    void *call;
    int error;
};

struct world {
    struct lh_client *client;
    struct lh_instant now;
    struct event events[256];
    size_t taken, count;
    struct event last; /* the one taken last; freed with the next */
    enum lh_method methods[4096];
    bool resting[4096]; /* by link: LH_FX_HOLD */
    bool named[4096];   /* likewise: a message has said of which cluster the client is */
    bool of_none;       /* it does not know that from the start */
    bool slow;          /* what goes leaves only when the test says so: say_sent() */
};

static inline void event_deinit(struct event *e)
{
    free(e->address);
    if (e->message != NULL)
        lh_wire_free(e->message);
    lh_buf_clear(&e->payload);
    *e = (struct event){0};
}

/* SES-10: the first message to a chunkserver says it, and no other one. */
static inline void check_cluster(struct world *w, const struct event *e)
{
    if (w->of_none || lh_method_info(e->method)->server != LH_SERVER_CHUNKSERVER)
        return;
    assert_true(w->named[e->link] != (lh_request_cluster(e->message) != 0));
    w->named[e->link] = true;
}

static inline void step(struct world *w, struct lh_input in)
{
    struct lh_effects fx = {0};
    uint64_t notified = 0;

    in.now = w->now;
    lh_client_step(w->client, &in, &fx);
    lh_client_check(w->client);
    lh_buf_clear(&in.payload);
    for (size_t i = 0; i < fx.count; i++) {
        struct lh_effect *e = &fx.items[i];
        if (e->kind == LH_FX_HOLD || e->kind == LH_FX_UNHOLD) {
            w->resting[e->link] = e->kind == LH_FX_HOLD;
            continue;
        }
        assert_true(w->count < 256);
        struct event *v = &w->events[w->count++];
        *v = (struct event){.kind = e->kind,
            .link = e->link,
            .method = e->method,
            .call = e->call,
            .error = e->error};
        if (e->kind == LH_FX_OPEN) {
            assert_true(e->link < 4096);
            size_t name_size; /* of whom: the stories say where alone */
            v->address = lh_strdup(lh_server_address(e->text, &name_size));
            w->methods[e->link] = e->method;
        } else if (e->kind == LH_FX_SEND) {
            v->method = w->methods[e->link];
            notified = e->notify ? e->link : notified;
            struct lh_buf wire = lh_wire_encode(v->method, LH_REQUEST, &e->header, &e->payload);
            assert_int_equal(
                lh_wire_decode(v->method, LH_REQUEST, &wire, &v->message, &v->payload), LH_OK);
            lh_buf_clear(&wire);
            check_cluster(w, v);
        }
    }
    lh_effects_deinit(&fx);
    if (notified != 0 && !w->slow)
        step(w, (struct lh_input){.kind = LH_IN_SENT, .link = notified});
}

/* What was sent on that link has left. */
static inline void say_sent(struct world *w, uint64_t link)
{
    step(w, (struct lh_input){.kind = LH_IN_SENT, .link = link});
}

/* Takes the next effect, which must be of that kind. */
static inline struct event *take(struct world *w, enum lh_effect_kind kind)
{
    assert_true(w->taken < w->count);
    event_deinit(&w->last);
    w->last = w->events[w->taken++];
    if (w->taken == w->count)
        w->taken = w->count = 0;
    assert_int_equal(w->last.kind, kind);
    return &w->last;
}

static inline void expect_quiet(const struct world *w)
{
    assert_int_equal(w->count - w->taken, 0);
}

/* The core opens a link of that method to that address; returns its id. */
static inline uint64_t expect_open(struct world *w, enum lh_method method, const char *address)
{
    struct event *e = take(w, LH_FX_OPEN);

    assert_int_equal(e->method, method);
    assert_string_equal(e->address, address);
    return e->link;
}

static inline const void *expect_send(struct world *w, uint64_t link)
{
    struct event *e = take(w, LH_FX_SEND);

    assert_int_equal(e->link, link);
    return e->message;
}

/* A message to one lane alone. */
static inline const Leasehold__AppendPart *expect_part(struct world *w, uint64_t link)
{
    const Leasehold__AppendRequest *m = expect_send(w, link);

    assert_int_equal(m->n_parts, 1);
    assert_int_equal(m->parts[0]->bytes, w->last.payload.size);
    return m->parts[0];
}

static inline void expect_close(struct world *w, uint64_t link)
{
    assert_int_equal(take(w, LH_FX_CLOSE)->link, link);
}

static inline void expect_complete(struct world *w, const void *call, int error)
{
    struct event *e = take(w, LH_FX_COMPLETE);

    assert_ptr_equal(e->call, call);
    assert_int_equal(e->error, error);
}

/* A unary request: open, send. The message lives until the next effect is taken. */
static inline uint64_t expect_request(
    struct world *w, enum lh_method method, const char *address, const void *message)
{
    uint64_t link = expect_open(w, method, address);
    const void *sent = expect_send(w, link);

    if (message != NULL)
        memcpy((void *)(uintptr_t)message, &sent, sizeof sent);
    return link;
}

static inline void say(struct world *w, uint64_t link, const void *message)
{
    step(w,
        (struct lh_input){
            .kind = LH_IN_MESSAGE, .link = link, .method = w->methods[link], .message = message});
}

static inline void say_with(
    struct world *w, uint64_t link, const void *message, struct lh_buf payload)
{
    step(w, (struct lh_input){.kind = LH_IN_MESSAGE,
                .link = link,
                .method = w->methods[link],
                .message = message,
                .payload = payload});
}

/* One answer on an append stream. */
static inline void say_answer(struct world *w, uint64_t link, Leasehold__AppendAnswer m)
{
    Leasehold__AppendAnswer *list[] = {&m};
    Leasehold__AppendReply reply = LEASEHOLD__APPEND_REPLY__INIT;

    reply.answers = list;
    reply.n_answers = 1;
    say(w, link, &reply);
}

/* The writer is opened, with a window of 16 batches. */
static inline void say_writer_opened(struct world *w, uint64_t link, uint64_t lane, uint64_t writer)
{
    Leasehold__AppendAnswer m = LEASEHOLD__APPEND_ANSWER__INIT;

    m.lane = lane;
    m.opened = true;
    m.writer = writer;
    m.window_batches = 16;
    m.window_bytes = 16u << 20;
    say_answer(w, link, m);
}

/* A batch of one record is stored. */
static inline void say_batch_stored(struct world *w, uint64_t link, uint64_t lane, uint64_t writer,
    uint64_t sequence, uint64_t offset)
{
    Leasehold__Stored stored = LEASEHOLD__STORED__INIT, *list[] = {&stored};
    Leasehold__AppendAnswer m = LEASEHOLD__APPEND_ANSWER__INIT;

    stored.writer = writer;
    stored.sequence = sequence;
    stored.count = 1;
    stored.offset = offset;
    m.lane = lane;
    m.stored = list;
    m.n_stored = 1;
    say_answer(w, link, m);
}

/* The lane ends, or with `writer` that one alone is refused. */
static inline void say_refused(
    struct world *w, uint64_t link, uint64_t lane, uint64_t writer, int error)
{
    Leasehold__AppendAnswer m = LEASEHOLD__APPEND_ANSWER__INIT;

    m.lane = lane;
    m.writer = writer;
    m.error = (Leasehold__ErrorCode)-error;
    say_answer(w, link, m);
}

static inline void end_link(struct world *w, uint64_t link, int error, const char *text)
{
    step(w, (struct lh_input){.kind = LH_IN_LINK_CLOSED,
                .link = link,
                .method = w->methods[link],
                .error = error,
                .text = text});
}

static inline void break_link(struct world *w, uint64_t link)
{
    end_link(w, link, LH_ERR_UNAVAILABLE, "connection lost");
}

static inline void ask(struct world *w, void *call)
{
    step(w, (struct lh_input){.kind = LH_IN_CALL, .call = call});
}

/* Lets time pass up to the core's next deadline and feeds the timer. */
static inline void pass(struct world *w)
{
    struct lh_instant next = lh_client_deadline(w->client);

    assert_true(next.ns != UINT64_MAX);
    w->now = lh_instant_max(w->now, next);
    step(w, (struct lh_input){.kind = LH_IN_TIMER});
}

static inline void pass_ms(struct world *w, uint64_t ms)
{
    w->now = lh_instant_add(w->now, lh_milliseconds(ms));
    step(w, (struct lh_input){.kind = LH_IN_TIMER});
}

static inline struct lh_instant in_ms(const struct world *w, uint64_t ms)
{
    return lh_instant_add(w->now, lh_milliseconds(ms));
}

/* With those bounds and times, and with two masters unless it names others. It knows its cluster,
 * unless that is "". */
static inline void world_init_with(struct world *w, struct lh_client_config config)
{
    static const char *const masters[] = {"m1:1", "m2:1"};

    if (config.master_count == 0) {
        config.masters = masters;
        config.master_count = 2;
    }
    if (config.cluster == NULL)
        config.cluster = "cluster";
    config.seed = 42;
    *w = (struct world){.now = {1000000000}, .of_none = config.cluster[0] == '\0'};
    w->client = lh_client_create(&config);
}

static inline void world_init(struct world *w)
{
    world_init_with(w, (struct lh_client_config){0});
}

static inline void world_deinit(struct world *w)
{
    while (w->taken < w->count)
        event_deinit(&w->events[w->taken++]);
    event_deinit(&w->last);
    lh_client_destroy(w->client);
}

/* ---- What a master would say ---- */

static Leasehold__Member members[] = {
    {PROTOBUF_C_MESSAGE_INIT(&leasehold__member__descriptor), "s1", "s1:1", false},
    {PROTOBUF_C_MESSAGE_INIT(&leasehold__member__descriptor), "s2", "s2:1", false},
    {PROTOBUF_C_MESSAGE_INIT(&leasehold__member__descriptor), "s3", "s3:1", false},
};
static Leasehold__Member *three_members[] = {&members[0], &members[1], &members[2]};

static inline Leasehold__FileInfo file_info(void)
{
    Leasehold__FileInfo info = LEASEHOLD__FILE_INFO__INIT;

    info.file = FILE_ID;
    info.path = (char *)(uintptr_t) "/f";
    info.chunk_size = CHUNK_SIZE;
    return info;
}

/* An unsealed chunk whose primary is member `primary` (0 to 2). */
static inline Leasehold__ChunkInfo open_chunk(
    uint64_t chunk, uint64_t version, uint64_t start, int primary)
{
    Leasehold__ChunkInfo info = LEASEHOLD__CHUNK_INFO__INIT;

    info.chunk = chunk;
    info.version = version;
    info.start = start;
    info.members = three_members;
    info.n_members = 3;
    if (primary >= 0)
        info.primary = members[primary].server_id;
    return info;
}

static inline Leasehold__ChunkInfo sealed_chunk(
    uint64_t chunk, uint64_t version, uint64_t start, uint64_t length)
{
    Leasehold__ChunkInfo info = open_chunk(chunk, version, start, -1);

    info.sealed = true;
    info.length = length;
    return info;
}

static inline void say_stat(struct world *w, uint64_t link)
{
    Leasehold__FileInfo info = file_info();
    Leasehold__StatReply m = LEASEHOLD__STAT_REPLY__INIT;

    m.info = &info;
    say(w, link, &m);
}

static inline void say_tail(struct world *w, uint64_t link, Leasehold__ChunkInfo chunk, int primary,
    Leasehold__ChunkInfo *settled)
{
    Leasehold__FileInfo info = file_info();
    Leasehold__OpenTailReply m = LEASEHOLD__OPEN_TAIL_REPLY__INIT;

    m.info = &info;
    m.chunk = &chunk;
    m.primary = &members[primary];
    m.settled = settled;
    say(w, link, &m);
}

static inline void say_chunks(
    struct world *w, uint64_t link, Leasehold__ChunkInfo *chunks, size_t count)
{
    Leasehold__FileInfo info = file_info();
    Leasehold__LocateReply m = LEASEHOLD__LOCATE_REPLY__INIT;
    Leasehold__ChunkInfo *list[8];

    for (size_t i = 0; i < count; i++)
        list[i] = &chunks[i];
    m.info = &info;
    m.chunks = list;
    m.n_chunks = count;
    say(w, link, &m);
}

/* A batch of `count` records of 10 bytes. */
static inline struct lh_buf make_batch(uint64_t writer, uint64_t sequence, uint32_t count)
{
    struct lh_batch_builder b;

    lh_batch_builder_init(&b, LH_BATCH_FRAME_BYTES + 14 * count);
    for (uint32_t i = 0; i < count; i++)
        assert_true(lh_batch_builder_add(&b, "0123456789", 10));
    return lh_batch_builder_finish(&b, writer, sequence);
}

#define BATCH_BYTES(count) (LH_BATCH_FRAME_BYTES + 14u * (count))

/* The last effect's payload has that batch at `offset`. */
static inline void expect_packed(
    struct world *w, size_t offset, uint64_t writer, uint64_t sequence, uint32_t count)
{
    struct lh_buf wanted = make_batch(writer, sequence, count);
    uint8_t *x = lh_alloc(wanted.size), *y = lh_alloc(wanted.size);

    assert_true(lh_buf_read(&w->last.payload, offset, x, wanted.size));
    assert_true(lh_buf_read(&wanted, 0, y, wanted.size));
    assert_memory_equal(x, y, wanted.size);
    lh_buf_clear(&wanted);
    free(x);
    free(y);
}
