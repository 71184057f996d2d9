/* Thousands of appenders and calls in one client core: what is done for one of them does not grow
 * with how many there are. Work is counted, not timed: the core is built so that it reports each
 * basic block that it runs (BUILD: core_counted). A look at each of n things for each of n things
 * would be found here, wherever it stands.
 *
 * The test plays the masters and the servers. Answers come one at a time, in the order in which
 * they were asked for, so the oldest of a list is always wanted first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "client/core/client.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEW  500u
#define MANY 10000u

#define CHUNK_SIZE  (1u << 30)
#define BATCH_BYTES (LH_BATCH_FRAME_BYTES + 14u)

static uint64_t work;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    work++;
}

/* What a server, or a master, has to answer: an Append message, or a request. */
struct question {
    uint64_t link;
    enum lh_method method;
    uint64_t writer;           /* SETTLE */
    Leasehold__AppendReply *m; /* APPEND */
};

struct link {
    enum lh_method method;
    bool over;
    int server; /* 1, 2 */
};

struct world {
    struct lh_client *client;
    struct lh_instant now;
    struct link *links;
    size_t link_count, link_capacity;
    struct question *questions;
    size_t taken, question_count, question_capacity;
    int primary; /* the tail's */
    bool silent; /* calls of the master are not answered, but Masters */
    size_t completed;
    struct lh_appender_open_call *opens;
    struct lh_submit_call *submits;
    struct lh_appender_close_call *closes;
    size_t count;
};

static void say(struct world *w, uint64_t link, const void *message);

/* ---- What comes from the core. */

static struct question *add_question(struct world *w, uint64_t link)
{
    LH_GROW(w->questions, w->question_capacity, w->question_count + 1);
    struct question *q = &w->questions[w->question_count++];

    *q = (struct question){.link = link, .method = w->links[link].method};
    return q;
}

static Leasehold__AppendAnswer *add_answer(
    Leasehold__AppendReply *m, const Leasehold__AppendPart *part)
{
    Leasehold__AppendAnswer *a = lh_alloc(sizeof *a);

    leasehold__append_answer__init(a);
    a->lane = part->lane;
    m->answers[m->n_answers++] = a;
    return a;
}

static void add_stored(
    Leasehold__AppendAnswer *a, const struct lh_buf *bytes, size_t *at, size_t end)
{
    a->stored = lh_alloc_array((end - *at) / BATCH_BYTES + 1, sizeof *a->stored);
    while (*at < end) {
        Leasehold__Stored *s = lh_alloc(sizeof *s);
        struct lh_batch_header h;
        assert_int_equal(lh_batch_check(bytes, *at, BATCH_BYTES, &h), LH_OK);
        leasehold__stored__init(s);
        s->writer = h.writer;
        s->sequence = h.sequence;
        s->count = h.count;
        a->stored[a->n_stored++] = s;
        *at += h.size;
    }
}

static void append_comes(
    struct world *w, uint64_t link, const Leasehold__AppendRequest *m, const struct lh_buf *bytes)
{
    Leasehold__AppendReply *reply = lh_alloc(sizeof *reply);
    size_t at = 0;

    leasehold__append_reply__init(reply);
    reply->answers = lh_alloc_array(m->n_parts + 1, sizeof *reply->answers);
    for (size_t i = 0; i < m->n_parts; i++) {
        if (m->parts[i]->end)
            continue;
        Leasehold__AppendAnswer *a = add_answer(reply, m->parts[i]);
        a->opened = m->parts[i]->writer != 0;
        a->writer = m->parts[i]->writer;
        a->window_batches = 16;
        a->window_bytes = 1u << 20;
        if (m->parts[i]->bytes > 0)
            add_stored(a, bytes, &at, at + m->parts[i]->bytes);
    }
    add_question(w, link)->m = reply;
}

static void sent(struct world *w, struct lh_effect *e)
{
    struct link *l = &w->links[e->link];
    struct lh_buf wire = lh_wire_encode(l->method, LH_REQUEST, &e->header, &e->payload);
    ProtobufCMessage *m = NULL;
    struct lh_buf payload = {0};

    assert_int_equal(lh_wire_decode(l->method, LH_REQUEST, &wire, &m, &payload), LH_OK);
    lh_buf_clear(&wire);
    if (l->method == LH_METHOD_APPEND)
        append_comes(w, e->link, (const Leasehold__AppendRequest *)m, &payload);
    else
        add_question(w, e->link)->writer =
            l->method == LH_METHOD_SETTLE ? ((const Leasehold__SettleRequest *)m)->writer : 0;
    lh_wire_free(m);
    lh_buf_clear(&payload);
}

static void feed(struct world *w, struct lh_input in)
{
    struct lh_effects fx = {0};

    in.now = w->now;
    lh_client_step(w->client, &in, &fx);
    for (size_t i = 0; i < fx.count; i++) {
        struct lh_effect *e = &fx.items[i];
        if (e->kind == LH_FX_OPEN) {
            LH_GROW(w->links, w->link_capacity, e->link + 1);
            w->links[e->link] = (struct link){.method = e->method, .server = e->text[1] - '0'};
            w->link_count = e->link + 1;
        } else if (e->kind == LH_FX_SEND) {
            sent(w, e);
            if (e->notify)
                feed(w, (struct lh_input){.kind = LH_IN_SENT, .link = e->link});
        } else if (e->kind == LH_FX_CLOSE) {
            w->links[e->link].over = true;
        } else if (e->kind == LH_FX_COMPLETE) {
            assert_int_equal(e->error, LH_OK);
            w->completed++;
        }
    }
    lh_effects_deinit(&fx);
}

/* ---- What it is told. */

static void say(struct world *w, uint64_t link, const void *message)
{
    feed(w, (struct lh_input){.kind = LH_IN_MESSAGE,
                .link = link,
                .method = w->links[link].method,
                .message = message});
}

static Leasehold__Member members[] = {
    {PROTOBUF_C_MESSAGE_INIT(&leasehold__member__descriptor), "s1", "s1:1", false},
    {PROTOBUF_C_MESSAGE_INIT(&leasehold__member__descriptor), "s2", "s2:1", false},
};
static Leasehold__Member *both[] = {&members[0], &members[1]};

static Leasehold__FileInfo file_info(void)
{
    Leasehold__FileInfo info = LEASEHOLD__FILE_INFO__INIT;

    info.file = 7;
    info.path = (char *)(uintptr_t) "/f";
    info.chunk_size = CHUNK_SIZE;
    return info;
}

static void say_stat(struct world *w, uint64_t link)
{
    Leasehold__StatReply m = LEASEHOLD__STAT_REPLY__INIT;
    Leasehold__FileInfo info = file_info();

    m.info = &info;
    say(w, link, &m);
}

/* Chunk 1 at server 1; then chunk 2 at server 2, behind the sealed chunk 1. */
static void say_tail(struct world *w, uint64_t link)
{
    Leasehold__OpenTailReply m = LEASEHOLD__OPEN_TAIL_REPLY__INIT;
    Leasehold__ChunkInfo chunk = LEASEHOLD__CHUNK_INFO__INIT, settled = LEASEHOLD__CHUNK_INFO__INIT;
    Leasehold__FileInfo info = file_info();

    chunk.chunk = chunk.version = (uint64_t)w->primary;
    chunk.start = w->primary == 2 ? 1u << 20 : 0;
    chunk.members = settled.members = both;
    chunk.n_members = settled.n_members = 2;
    chunk.primary = members[w->primary - 1].server_id;
    settled.chunk = settled.version = 1;
    settled.length = 1u << 20;
    settled.sealed = true;
    m.info = &info;
    m.chunk = &chunk;
    m.primary = &members[w->primary - 1];
    m.settled = w->primary == 2 ? &settled : NULL;
    say(w, link, &m);
}

/* The first batch is there, the second is not. */
static void say_settled(struct world *w, const struct question *q)
{
    Leasehold__SettleReply m = LEASEHOLD__SETTLE_REPLY__INIT;

    m.known = true;
    m.first_sequence = m.last_sequence = 1;
    say(w, q->link, &m);
}

static void say_masters(struct world *w, uint64_t link)
{
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;

    m.reign = 3;
    m.acting = w->links[link].server == 1;
    m.active = (char *)(uintptr_t) "m1:1";
    say(w, link, &m);
}

static void answer(struct world *w, const struct question *q)
{
    if (w->links[q->link].over)
        return;
    switch (q->method) {
    case LH_METHOD_STAT:
        say_stat(w, q->link);
        break;
    case LH_METHOD_OPEN_TAIL:
        say_tail(w, q->link);
        break;
    case LH_METHOD_MASTERS:
        say_masters(w, q->link);
        break;
    case LH_METHOD_SETTLE:
        say_settled(w, q);
        break;
    case LH_METHOD_APPEND:
        say(w, q->link, q->m);
        break;
    default:
        fail();
    }
}

static bool is_kept_back(const struct world *w, const struct question *q)
{
    return w->silent && (q->method == LH_METHOD_STAT || q->method == LH_METHOD_OPEN_TAIL);
}

/* All questions that there are get their answers, in order; what is kept back is asked on. */
static void serve(struct world *w)
{
    size_t kept = 0;

    for (size_t i = 0; i < w->question_count; i++) {
        struct question q = w->questions[i];
        if (is_kept_back(w, &q)) {
            w->questions[kept++] = q;
            continue;
        }
        answer(w, &q);
        if (q.m != NULL)
            leasehold__append_reply__free_unpacked(q.m, NULL);
    }
    w->question_count = kept;
}

static void pass_ms(struct world *w, uint64_t ms)
{
    struct lh_instant end = lh_instant_add(w->now, lh_milliseconds(ms));

    while (!lh_instant_before(end, lh_client_deadline(w->client))) {
        w->now = lh_instant_max(w->now, lh_client_deadline(w->client));
        feed(w, (struct lh_input){.kind = LH_IN_TIMER});
        serve(w);
    }
    w->now = end;
}

/* ---- Appenders. */

static struct world *given(size_t masters, size_t count)
{
    static const char *const addresses[] = {"m1:1", "m2:1"};
    static struct world w;
    struct lh_client_config config = {.masters = addresses, .master_count = masters, .seed = 42};

    w = (struct world){.now = {1000000000}, .primary = 1, .count = count};
    w.client = lh_client_create(&config);
    w.opens = lh_alloc_array(count, sizeof *w.opens);
    w.submits = lh_alloc_array(count, sizeof *w.submits);
    w.closes = lh_alloc_array(count, sizeof *w.closes);
    work = 0;
    return &w;
}

static void end(struct world *w)
{
    lh_client_check(w->client);
    lh_client_destroy(w->client);
    free(w->links);
    free(w->questions);
    free(w->opens);
    free(w->submits);
    free(w->closes);
}

/* Everything that was asked for so far is done. */
static void expect_completed(struct world *w)
{
    serve(w);
    assert_int_equal(w->completed, w->count);
    w->completed = 0;
}

static void open_all(struct world *w)
{
    for (size_t i = 0; i < w->count; i++) {
        w->opens[i] = (struct lh_appender_open_call){.call.kind = LH_CALL_APPENDER_OPEN,
            .path = "/f",
            .deadline = LH_INSTANT_NEVER,
            .give_up = LH_DURATION_FOREVER};
        feed(w, (struct lh_input){.kind = LH_IN_CALL, .call = &w->opens[i]});
    }
    expect_completed(w);
}

static void submit_all(struct world *w, uint64_t sequence)
{
    for (size_t i = 0; i < w->count; i++) {
        struct lh_batch_builder b;
        lh_batch_builder_init(&b, BATCH_BYTES);
        assert_true(lh_batch_builder_add(&b, "0123456789", 10));
        w->submits[i] = (struct lh_submit_call){.call.kind = LH_CALL_SUBMIT,
            .appender = w->opens[i].appender,
            .batch = lh_batch_builder_finish(&b, w->opens[i].writer, sequence),
            .sequence = sequence,
            .count = 1};
        feed(w, (struct lh_input){.kind = LH_IN_CALL, .call = &w->submits[i]});
    }
}

static void close_all(struct world *w)
{
    for (size_t i = 0; i < w->count; i++) {
        w->closes[i] = (struct lh_appender_close_call){
            .call.kind = LH_CALL_APPENDER_CLOSE, .appender = w->opens[i].appender};
        feed(w, (struct lh_input){.kind = LH_IN_CALL, .call = &w->closes[i]});
    }
    expect_completed(w);
}

static void primary_dies(struct world *w)
{
    w->primary = 2;
    w->silent = true;
    for (size_t i = 1; i < w->link_count; i++)
        if (w->links[i].method == LH_METHOD_APPEND && w->links[i].server == 1 &&
            !w->links[i].over) {
            w->links[i].over = true;
            feed(w, (struct lh_input){.kind = LH_IN_LINK_CLOSED,
                        .link = i,
                        .method = LH_METHOD_APPEND,
                        .error = LH_ERR_UNAVAILABLE});
        }
}

/* Opens them, appends, loses the primary with a record of each unanswered, and waits for so long
 * for the next one that each call comes to doubt its master. */
static uint64_t work_of_a_lost_primary(size_t masters, size_t count)
{
    struct world *w = given(masters, count);

    open_all(w);
    submit_all(w, 1);
    expect_completed(w);
    submit_all(w, 2);
    primary_dies(w);
    serve(w);
    pass_ms(w, 1200);
    assert_int_equal(w->completed, 0);
    w->silent = false;
    expect_completed(w);
    close_all(w);
    uint64_t done = work;
    end(w);
    return done;
}

static void expect_linear(const char *what, uint64_t few, uint64_t many)
{
    print_message("%s: %.1f blocks for each of %u, %.1f for each of %u\n", what, (double)few / FEW,
        FEW, (double)many / MANY, MANY);
    assert_true(few > 0);
    assert_true((double)many / MANY < 1.25 * (double)few / FEW);
}

static void a_lost_primary_costs_each_of_many_appenders_what_it_costs_one(void **state)
{
    (void)state;
    expect_linear("one master", work_of_a_lost_primary(1, FEW), work_of_a_lost_primary(1, MANY));
    expect_linear("two masters", work_of_a_lost_primary(2, FEW), work_of_a_lost_primary(2, MANY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_primary_costs_each_of_many_appenders_what_it_costs_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
