/* The loop with tiny cores over real sockets and files: what it feeds, in which order, and from
 * where it calls back. */
#include "base/alloc.h"
#include "grpc/rpc.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"
#include "runtime/disk.h"
#include "runtime/loop.h"
#include "runtime/transport.h"
#include "tests/freed.h"
#include "tests/numbered.h"
#include "tests/unit/stranger.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A core whose behaviour each test supplies. */
struct toy {
    void (*step)(struct toy *toy, struct lh_input *in, struct lh_effects *fx);
    struct lh_instant deadline;
    struct lh_loop *loop;
    sem_t done;
    uint64_t next_link, next_ticket;
    _Atomic int timers, completions, errors;
    _Atomic int depth, deepest;
    int last_error;
    char last_text[128];
    int remaining;
    struct lh_instant first_input, last_input;
    const char *peer;
    uint64_t got;
    uint64_t progress, notified;
    size_t piece_bytes;
    struct lh_buf read;
};

static void toy_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct toy *toy = self;

    assert_false(lh_instant_before(in->now, toy->last_input));
    toy->last_input = in->now;
    toy->step(toy, in, fx);
}

static struct lh_instant toy_deadline(const void *self)
{
    return ((const struct toy *)self)->deadline;
}

static void toy_complete(void *arg, void *call, int error)
{
    struct toy *toy = arg;
    int depth = atomic_fetch_add(&toy->depth, 1) + 1;

    if (depth > atomic_load(&toy->deepest))
        atomic_store(&toy->deepest, depth);
    atomic_fetch_add(&toy->completions, 1);
    if (error != LH_OK)
        atomic_fetch_add(&toy->errors, 1);
    if (call == toy && toy->remaining > 0) {
        toy->remaining--;
        lh_loop_call(toy->loop, toy);
    } else {
        sem_post(&toy->done);
    }
    atomic_fetch_sub(&toy->depth, 1);
}

static void toy_begin(struct toy *toy,
    void (*step)(struct toy *toy, struct lh_input *in, struct lh_effects *fx),
    const struct lh_loop_config *settings)
{
    struct lh_loop_config config = settings == NULL ? (struct lh_loop_config){0} : *settings;
    char why[200];

    toy->step = step;
    if (toy->deadline.ns == 0)
        toy->deadline = LH_INSTANT_NEVER;
    toy->next_link = toy->next_ticket = 1;
    sem_init(&toy->done, 0, 0);
    config.core = (struct lh_core){toy, toy_step, toy_deadline};
    config.name = "toy";
    if (config.on_complete == NULL)
        config.on_complete = toy_complete;
    config.arg = toy;
    int error = lh_loop_create(&config, &toy->loop, why, sizeof why);
    if (error != LH_OK)
        fail_msg("%s", why);
    lh_loop_start(toy->loop);
}

static void toy_end(struct toy *toy)
{
    lh_loop_stop(toy->loop);
    assert_int_equal(lh_loop_wait(toy->loop, lh_seconds(10)), LH_OK);
    lh_loop_destroy(toy->loop);
    sem_destroy(&toy->done);
}

/* ---- calls and completions ---- */

static void answer_at_once(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    (void)toy;
    if (in->kind == LH_IN_CALL)
        lh_fx_complete(fx, in->call, LH_OK);
    if (in->kind == LH_IN_STOP)
        lh_fx_stopped(fx, LH_OK);
}

static void a_callback_may_call_again_without_nesting(void **state)
{
    struct toy toy = {.remaining = 100000};

    (void)state;
    toy_begin(&toy, answer_at_once, NULL);
    assert_true(lh_loop_call(toy.loop, &toy));
    sem_wait(&toy.done);
    assert_int_equal(toy.completions, 100001);
    assert_int_equal(toy.deepest, 1);
    toy_end(&toy);
}

#define MANY 10000

static void complete_often(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    for (int i = 0; in->kind == LH_IN_CALL && i < MANY; i++)
        lh_fx_complete(fx, in->call, LH_OK);
    if (in->kind != LH_IN_CALL)
        answer_at_once(toy, in, fx);
}

/* Of what this thread has allocated. */
static uint64_t in_use(void)
{
    uint64_t bytes = 0;
    size_t size = sizeof bytes;

    assert_int_equal(mallctl("thread.allocated", &bytes, &size, NULL, 0), 0);
    return bytes - freed();
}

static void a_step_with_thousands_of_effects_leaves_no_memory(void **state)
{
    struct toy toy = {0};

    (void)state;
    if (mallctl == NULL)
        skip();
    toy_begin(&toy, complete_often, NULL);
    uint64_t before = in_use();
    assert_true(lh_loop_call(toy.loop, &toy));
    assert_int_equal(toy.completions, MANY);
    assert_true(in_use() < before + MANY * sizeof(struct lh_effect) / 8);
    toy_end(&toy);
}

/* ---- beats ---- */

static sem_t hanging, released;

static void hang_in_calls(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    if (in->kind == LH_IN_CALL) {
        sem_post(&hanging);
        sem_wait(&released);
    }
    answer_at_once(toy, in, fx);
}

static void *call_main(void *arg)
{
    struct toy *toy = arg;

    assert_true(lh_loop_call(toy->loop, toy));
    return NULL;
}

static void *beat_main(void *arg)
{
    (void)lh_loop_beat(((struct toy *)arg)->loop, lh_seconds(100));
    return NULL;
}

static void await_beats_after(struct toy *toy, uint64_t before)
{
    while (lh_loop_beats(toy->loop) <= before)
        usleep(1000);
}

static void a_core_without_deadlines_beats_when_it_is_asked_to(void **state)
{
    struct toy toy = {0};

    (void)state;
    toy_begin(&toy, answer_at_once, NULL);
    for (int i = 0; i < 3; i++) {
        uint64_t before = lh_loop_beats(toy.loop);
        assert_true(lh_loop_beat(toy.loop, lh_seconds(100)));
        await_beats_after(&toy, before);
    }
    toy_end(&toy);
}

static void a_core_that_hangs_has_no_beats(void **state)
{
    struct toy toy = {0};
    pthread_t call, beat;

    (void)state;
    sem_init(&hanging, 0, 0);
    sem_init(&released, 0, 0);
    toy_begin(&toy, hang_in_calls, NULL);
    pthread_create(&call, NULL, call_main, &toy);
    sem_wait(&hanging);
    uint64_t before = lh_loop_beats(toy.loop);
    pthread_create(&beat, NULL, beat_main, &toy);
    usleep(50000); /* for the timer's thread to be wrong */
    assert_int_equal(lh_loop_beats(toy.loop), before);
    assert_false(lh_loop_is_responsive(toy.loop, lh_milliseconds(10)));

    sem_post(&released);
    await_beats_after(&toy, before);
    assert_true(lh_loop_is_responsive(toy.loop, lh_seconds(10)));
    pthread_join(call, NULL);
    pthread_join(beat, NULL);
    toy_end(&toy);
}

static void hang_on_complete(void *arg, void *call, int error)
{
    (void)arg;
    (void)call;
    (void)error;
    sem_post(&hanging);
    sem_wait(&released);
}

static void a_loop_whose_callback_hangs_has_no_beats(void **state)
{
    const struct lh_loop_config settings = {.on_complete = hang_on_complete};
    struct toy toy = {0};
    pthread_t call;

    (void)state;
    sem_init(&hanging, 0, 0);
    sem_init(&released, 0, 0);
    toy_begin(&toy, answer_at_once, &settings);
    pthread_create(&call, NULL, call_main, &toy);
    sem_wait(&hanging);
    uint64_t before = lh_loop_beats(toy.loop);
    assert_true(lh_loop_beat(toy.loop, lh_seconds(100))); /* the core can be stepped */
    usleep(50000);                                        /* for the timer's thread to be wrong */
    assert_int_equal(lh_loop_beats(toy.loop), before);

    sem_post(&released);
    await_beats_after(&toy, before);
    pthread_join(call, NULL);
    toy_end(&toy);
}

static void persist_in_calls(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    if (in->kind == LH_IN_CALL)
        lh_fx_persist(fx, toy->next_ticket++);
    if (in->kind == LH_IN_STOP)
        lh_fx_stopped(fx, LH_OK);
}

static void hang_in_persist(void *store, uint64_t ticket, struct lh_change *changes, size_t count)
{
    (void)store;
    (void)ticket;
    lh_changes_free(changes, count);
    sem_post(&hanging);
    sem_wait(&released);
}

static void a_disk_that_hangs_stops_no_beats(void **state)
{
    const struct lh_loop_config settings = {.persist = hang_in_persist};
    struct toy toy = {0};
    pthread_t call;

    (void)state;
    sem_init(&hanging, 0, 0);
    sem_init(&released, 0, 0);
    toy_begin(&toy, persist_in_calls, &settings);
    pthread_create(&call, NULL, call_main, &toy);
    sem_wait(&hanging);
    for (int i = 0; i < 3; i++) {
        uint64_t before = lh_loop_beats(toy.loop);
        assert_true(lh_loop_beat(toy.loop, lh_seconds(100)));
        await_beats_after(&toy, before);
    }
    sem_post(&released);
    pthread_join(call, NULL);
    toy_end(&toy);
}

static void after_stopped_calls_are_refused(void **state)
{
    struct toy toy = {0};

    (void)state;
    toy_begin(&toy, answer_at_once, NULL);
    lh_loop_stop(toy.loop);
    assert_int_equal(lh_loop_wait(toy.loop, lh_seconds(10)), LH_OK);
    assert_false(lh_loop_call(toy.loop, &toy));
    assert_int_equal(toy.completions, 0);
    toy_end(&toy);
}

struct order {
    _Atomic uint64_t last;
    _Atomic int disorder;
    _Atomic int count;
};

static struct order order;

static void number_calls(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    if (in->kind == LH_IN_CALL)
        lh_fx_complete(fx, (void *)(uintptr_t)++toy->got, LH_OK);
    if (in->kind == LH_IN_STOP)
        lh_fx_stopped(fx, LH_OK);
}

static void check_number(void *arg, void *call, int error)
{
    uint64_t n = (uint64_t)(uintptr_t)call;

    (void)arg;
    (void)error;
    if (atomic_exchange(&order.last, n) + 1 != n)
        atomic_fetch_add(&order.disorder, 1);
    atomic_fetch_add(&order.count, 1);
}

static void *call_often(void *arg)
{
    for (int i = 0; i < 20000; i++)
        lh_loop_call(arg, NULL);
    return NULL;
}

static void completions_of_several_threads_keep_the_core_s_order(void **state)
{
    struct toy toy = {0};
    struct lh_loop_config config = {.on_complete = check_number};
    pthread_t threads[4];

    (void)state;
    toy_begin(&toy, number_calls, &config);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, call_often, toy.loop);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    toy_end(&toy); /* STOPPED is delivered behind all completions */
    assert_int_equal(order.count, 80000);
    assert_int_equal(order.disorder, 0);
}

/* ---- time ---- */

static void tick(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    switch (in->kind) {
    case LH_IN_TIMER:
        if (!lh_instant_reached(in->now, toy->deadline))
            break;
        toy->timers++;
        toy->deadline =
            toy->timers < 5 ? lh_instant_add(in->now, lh_milliseconds(2)) : LH_INSTANT_NEVER;
        if (toy->timers == 5)
            lh_fx_complete(fx, NULL, LH_OK);
        break;
    case LH_IN_CALL: /* earlier than what is armed */
        toy->deadline = lh_instant_add(in->now, lh_milliseconds(1));
        break;
    case LH_IN_STOP:
        lh_fx_stopped(fx, LH_OK);
        break;
    default:
        break;
    }
}

static void the_timer_follows_an_earlier_deadline(void **state)
{
    struct toy toy = {.deadline = lh_instant_add(lh_clock_now(), lh_seconds(3600))};

    (void)state;
    toy_begin(&toy, tick, NULL);
    lh_loop_call(toy.loop, NULL);
    sem_wait(&toy.done);
    assert_int_equal(toy.timers, 5);
    toy_end(&toy);
}

/* ---- commits ---- */

static char committed[64];

static void commit_at_once(void *store, uint64_t ticket, struct lh_change *changes, size_t count)
{
    struct toy *toy = store;

    for (size_t i = 0; i < count; i++)
        strncat(committed, (const char *)changes[i].key, changes[i].key_size);
    lh_changes_free(changes, count);
    lh_loop_persisted(toy->loop, ticket, LH_OK);
}

static void persist_twice(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    switch (in->kind) {
    case LH_IN_CALL:
        for (int i = 0; i < 2; i++) {
            lh_fx_persist(fx, toy->next_ticket++);
            lh_fx_put(fx, i == 0 ? "a" : "b", 1, "x", 1);
            lh_fx_delete(fx, i == 0 ? "A" : "B", 1);
        }
        break;
    case LH_IN_PERSISTED:
        assert_int_equal(in->ticket, ++toy->got);
        assert_int_equal(in->error, LH_OK);
        if (toy->got == 2)
            lh_fx_complete(fx, NULL, LH_OK);
        break;
    case LH_IN_STOP:
        lh_fx_stopped(fx, LH_OK);
        break;
    default:
        break;
    }
}

static void commits_are_handed_over_in_order_and_may_complete_within(void **state)
{
    struct toy toy = {0};
    struct lh_loop_config config = {.persist = commit_at_once, .store = &toy};

    (void)state;
    toy_begin(&toy, persist_twice, &config);
    lh_loop_call(toy.loop, NULL);
    sem_wait(&toy.done);
    assert_string_equal(committed, "aAbB");
    toy_end(&toy);
}

/* ---- links ---- */

/* Serves Append by answering every batch with its size and Stat with its path. */
static void serve_echo(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    if (in->kind == LH_IN_MESSAGE && in->method == LH_METHOD_APPEND) {
        Leasehold__AppendAnswer r = LEASEHOLD__APPEND_ANSWER__INIT;
        r.lane = number_sent(in->message);
        r.window_bytes = in->payload.size;
        answer_number(fx, in->link, r, false);
    } else if (in->kind == LH_IN_MESSAGE && in->method == LH_METHOD_STAT) {
        const Leasehold__StatRequest *q = in->message;
        Leasehold__StatReply r = LEASEHOLD__STAT_REPLY__INIT;
        r.error_text = q->path;
        lh_fx_reply(fx, in->link, &r.base, NULL);
    } else if (in->kind == LH_IN_LINK_CLOSED) {
        toy->last_error = in->error;
    } else if (in->kind == LH_IN_STOP) {
        lh_fx_stopped(fx, LH_OK);
    }
}

#define BATCHES 1000

/* Opens one Append link per call and sends BATCHES batches of growing size, all at once. */
static void append_all(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    switch (in->kind) {
    case LH_IN_CALL:
        lh_fx_open(fx, toy->next_link, LH_METHOD_APPEND, toy->peer, LH_DURATION_FOREVER);
        for (uint64_t i = 1; i <= BATCHES; i++) {
            uint8_t *to;
            struct lh_buf batch = lh_buf_alloc(i * 100, &to);
            memset(to, (int)i, i * 100);
            send_number(fx, toy->next_link, i, &batch);
        }
        break;
    case LH_IN_MESSAGE: {
        const Leasehold__AppendAnswer *r = number_answered(in->message);
        assert_int_equal(r->lane, ++toy->got);
        assert_int_equal(r->window_bytes, toy->got * 100);
        if (toy->got == BATCHES) {
            lh_fx_close(fx, in->link, LH_OK, NULL);
            lh_fx_complete(fx, NULL, LH_OK);
        }
        break;
    }
    case LH_IN_LINK_CLOSED:
        toy->last_error = in->error;
        lh_fx_complete(fx, NULL, in->error);
        break;
    case LH_IN_STOP:
        lh_fx_stopped(fx, LH_OK);
        break;
    default:
        break;
    }
}

static void begin_pair(struct toy *server, struct toy *client, char *address, size_t size,
    void (*step)(struct toy *toy, struct lh_input *in, struct lh_effects *fx))
{
    struct lh_loop_config config = {.listen = "127.0.0.1:0", .threads = 2};

    toy_begin(server, serve_echo, &config);
    snprintf(address, size, "127.0.0.1:%d", lh_loop_port(server->loop));
    client->peer = address;
    config.listen = NULL;
    toy_begin(client, step, &config);
}

static void a_stream_s_messages_arrive_whole_and_in_order(void **state)
{
    struct toy server = {0}, client = {0};
    char address[64];

    (void)state;
    begin_pair(&server, &client, address, sizeof address, append_all);
    lh_loop_call(client.loop, NULL);
    sem_wait(&client.done);
    assert_int_equal(client.errors, 0);
    assert_int_equal(client.got, BATCHES);
    toy_end(&client);
    toy_end(&server);
}

static void ask_stat(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    switch (in->kind) {
    case LH_IN_CALL: {
        Leasehold__StatRequest q = LEASEHOLD__STAT_REQUEST__INIT;
        q.path = (char *)"/a/path";
        lh_fx_open(fx, toy->next_link, LH_METHOD_STAT, toy->peer, lh_seconds(5));
        lh_fx_send(fx, toy->next_link++, &q.base, NULL);
        break;
    }
    case LH_IN_MESSAGE: {
        const Leasehold__StatReply *r = in->message;
        assert_string_equal(r->error_text, "/a/path");
        toy->got++;
        break;
    }
    case LH_IN_LINK_CLOSED:
        toy->last_error = in->error;
        lh_fx_complete(fx, NULL, in->error);
        break;
    case LH_IN_STOP:
        lh_fx_stopped(fx, LH_OK);
        break;
    default:
        break;
    }
}

static void a_unary_call_is_answered_and_then_ends_normally(void **state)
{
    struct toy server = {0}, client = {0};
    char address[64];

    (void)state;
    begin_pair(&server, &client, address, sizeof address, ask_stat);
    for (uint64_t i = 1; i <= 100; i++) {
        lh_loop_call(client.loop, NULL);
        sem_wait(&client.done);
        assert_int_equal(client.last_error, LH_OK);
        assert_int_equal(client.got, i);
    }
    toy_end(&client);
    toy_end(&server);
}

static void an_address_that_nobody_listens_on_is_unavailable(void **state)
{
    struct toy client = {.peer = "127.0.0.1:1"};

    (void)state;
    toy_begin(&client, ask_stat, NULL);
    lh_loop_call(client.loop, NULL);
    sem_wait(&client.done);
    assert_int_equal(client.last_error, LH_ERR_UNAVAILABLE);
    toy_end(&client);
}

/* A transport that counts what it passes on to gRPC's. */
static struct lh_transport_methods counting;
static unsigned created, opened;

static int count_create(
    const struct lh_transport_config *config, struct lh_transport **out, char *why, size_t why_size)
{
    int error = lh_rpc_transport.create(config, out, why, why_size);

    created++;
    if (error == LH_OK)
        (*out)->methods = &counting;
    return error;
}

static struct lh_transport_link *count_open(struct lh_transport *transport, enum lh_method method,
    const char *address, struct lh_duration timeout)
{
    opened++;
    return lh_rpc_transport.open(transport, method, address, timeout);
}

static void a_loop_uses_the_transport_that_it_is_given(void **state)
{
    struct toy client = {.peer = "127.0.0.1:1"};
    const struct lh_loop_config config = {.transport = &counting};

    (void)state;
    counting = lh_rpc_transport;
    counting.create = count_create;
    counting.open = count_open;
    toy_begin(&client, ask_stat, &config);
    lh_loop_call(client.loop, NULL);
    sem_wait(&client.done);
    assert_int_equal(client.last_error, LH_ERR_UNAVAILABLE);
    assert_int_equal(created, 1);
    assert_int_equal(opened, 1);
    toy_end(&client);
}

static void a_server_that_goes_away_ends_its_links(void **state)
{
    struct toy server = {0}, client = {0};
    char address[64];

    (void)state;
    begin_pair(&server, &client, address, sizeof address, append_all);
    client.got = 1; /* the first answer is "out of order": but none will come */
    lh_loop_destroy(server.loop);
    lh_loop_call(client.loop, NULL);
    sem_wait(&client.done);
    assert_int_equal(client.last_error, LH_ERR_UNAVAILABLE);
    toy_end(&client);
}

/* Counts Append links that open and end; a Stat is kept until the loop stops. */
static void serve_waiting(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    if (in->kind == LH_IN_LINK_OPENED && in->method == LH_METHOD_STAT)
        sem_post(&toy->done);
    if (in->kind == LH_IN_MESSAGE && in->method == LH_METHOD_APPEND) {
        Leasehold__AppendAnswer r = LEASEHOLD__APPEND_ANSWER__INIT;
        answer_number(fx, in->link, r, false);
        toy->next_link = in->link;
    } else if (in->kind == LH_IN_LINK_CLOSED && in->method == LH_METHOD_APPEND) {
        toy->last_error = in->error;
        assert_int_equal(in->link, toy->next_link);
        sem_post(&toy->done);
    } else if (in->kind == LH_IN_LINK_CLOSED) {
        atomic_fetch_add(&toy->errors, 1);
    } else if (in->kind == LH_IN_STOP) {
        lh_fx_stopped(fx, LH_OK);
    }
}

/* The first call opens an Append stream, which says when it is answered and when it ends, and with
 * which words; the second one a Stat. */
static void stay_connected(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    if (in->kind == LH_IN_CALL && toy->next_link == 1) {
        lh_fx_open(fx, toy->next_link, LH_METHOD_APPEND, toy->peer, LH_DURATION_FOREVER);
        send_number(fx, toy->next_link++, 1, NULL);
    } else if (in->kind == LH_IN_CALL) {
        Leasehold__StatRequest q = LEASEHOLD__STAT_REQUEST__INIT;
        lh_fx_open(fx, toy->next_link, LH_METHOD_STAT, toy->peer, LH_DURATION_FOREVER);
        lh_fx_send(fx, toy->next_link++, &q.base, NULL);
    } else if (in->kind == LH_IN_MESSAGE) {
        sem_post(&toy->done);
    } else if (in->kind == LH_IN_LINK_CLOSED && in->method == LH_METHOD_APPEND) {
        toy->last_error = in->error;
        (void)snprintf(toy->last_text, sizeof toy->last_text, "%s", in->text);
        sem_post(&toy->done);
    } else if (in->kind == LH_IN_STOP) {
        lh_fx_stopped(fx, LH_OK);
    }
}

static bool answer_of(void *arg, const char *identity)
{
    assert_string_equal(identity, ""); /* nobody has a certificate here */
    return *(const bool *)arg;
}

static void streams_whose_peers_have_other_rights_end_and_calls_go_on(void **state)
{
    struct toy server = {0}, client = {0};
    struct lh_loop_config config = {.listen = "127.0.0.1:0", .threads = 2};
    char address[64];
    bool over = false;

    (void)state;
    toy_begin(&server, serve_waiting, &config);
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_loop_port(server.loop));
    client.peer = address;
    config.listen = NULL;
    toy_begin(&client, stay_connected, &config);
    lh_loop_call(client.loop, NULL);
    sem_wait(&client.done);
    lh_loop_call(client.loop, NULL);
    sem_wait(&server.done);

    lh_loop_end_streams(server.loop, answer_of, &over, "not said");
    over = true;
    lh_loop_end_streams(server.loop, answer_of, &over, "other rights");

    sem_wait(&client.done);
    sem_wait(&server.done);
    assert_int_equal(client.last_error, LH_ERR_UNAVAILABLE);
    assert_string_equal(client.last_text, "other rights");
    assert_int_equal(server.last_error, LH_ERR_UNAVAILABLE);
    assert_int_equal(atomic_load(&server.errors), 0);
    toy_end(&client);
    toy_end(&server);
}

/* Holds each Append link when it opens; a call releases it. */
static void hold_until_called(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    switch (in->kind) {
    case LH_IN_LINK_OPENED:
        toy->next_link = in->link;
        lh_fx_hold(fx, in->link);
        break;
    case LH_IN_MESSAGE:
        toy->got++;
        if (toy->got == 1 || toy->got == BATCHES)
            lh_fx_complete(fx, NULL, LH_OK);
        break;
    case LH_IN_CALL:
        toy->remaining = (int)toy->got; /* what had arrived until now */
        lh_fx_unhold(fx, toy->next_link);
        break;
    case LH_IN_STOP:
        lh_fx_stopped(fx, LH_OK);
        break;
    default:
        break;
    }
}

static void a_held_link_is_read_no_further(void **state)
{
    struct toy server = {0}, client = {0};
    struct lh_loop_config config = {.listen = "127.0.0.1:0"};
    char address[64];

    (void)state;
    toy_begin(&server, hold_until_called, &config);
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_loop_port(server.loop));
    client.peer = address;
    toy_begin(&client, append_all, NULL);
    lh_loop_call(client.loop, NULL);
    sem_wait(&server.done); /* the one message that may always arrive */
    lh_loop_call(server.loop, NULL);
    sem_wait(&server.done);
    lh_loop_lock(server.loop);
    assert_int_equal(server.remaining, 1);
    assert_int_equal(server.got, BATCHES);
    lh_loop_unlock(server.loop);
    toy_end(&client);
    toy_end(&server);
}

struct stranger {
    sem_t ended;
    int error;
    char text[200];
};

static void stranger_closed(void *arg, struct lh_transport_link *link, int error, const char *text)
{
    struct stranger *s = arg;

    (void)link;
    s->error = error;
    snprintf(s->text, sizeof s->text, "%s", text == NULL ? "" : text);
    sem_post(&s->ended);
}

static void a_message_that_is_none_ends_the_link_by_name(void **state)
{
    struct toy server = {0};
    struct stranger s = {0};
    struct lh_transport *transport;
    struct lh_loop_config config = {.listen = "127.0.0.1:0"};
    struct lh_transport_config ours = {.arg = &s, .on_closed = stranger_closed};
    char address[64], why[200];

    (void)state;
    toy_begin(&server, serve_echo, &config);
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_loop_port(server.loop));
    sem_init(&s.ended, 0, 0);
    assert_int_equal(
        lh_transport_create(&lh_rpc_transport, &ours, &transport, why, sizeof why), LH_OK);
    lh_transport_start(transport);
    struct lh_transport_link *link =
        lh_transport_link_open(transport, LH_METHOD_STAT, address, LH_DURATION_FOREVER);
    lh_transport_link_send(link, lh_buf_copy("\377\377", 2));
    lh_transport_link_flush(link);
    sem_wait(&s.ended);
    assert_int_equal(s.error, LH_ERR_MALFORMED);
    assert_string_equal(s.text, "/leasehold.Master/Stat: not a request message");
    lh_transport_link_unref(link);
    lh_transport_destroy(transport);
    sem_destroy(&s.ended);
    lh_loop_lock(server.loop);
    assert_int_equal(server.last_error, LH_ERR_MALFORMED); /* the core heard of the end as well */
    lh_loop_unlock(server.loop);
    toy_end(&server);
}

/* ---- pieces ---- */

/* Appends `size` bytes that can be told apart. */
static struct lh_buf pattern(size_t size)
{
    uint8_t *to;
    struct lh_buf b = lh_buf_alloc(size, &to);

    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)(i * 7 + i / 251);
    return b;
}

static uint32_t crc_of(const struct lh_buf *b)
{
    return lh_buf_crc32c(b, 0, b->size, 0);
}

/* Answers a Read with as many bytes as it asks for, an Append batch with its size and checksum and
 * how many LH_IN_PROGRESS came before it; ends what is half-closed. */
static void serve_pieces(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    switch (in->kind) {
    case LH_IN_PROGRESS:
        toy->progress++;
        break;
    case LH_IN_MESSAGE:
        if (in->method == LH_METHOD_READ) {
            const Leasehold__ReadRequest *q = in->message;
            Leasehold__ReadReply r = LEASEHOLD__READ_REPLY__INIT;
            struct lh_buf bytes = pattern(q->max_bytes);
            r.version = q->version;
            lh_fx_reply(fx, in->link, &r.base, &bytes);
        } else {
            const Leasehold__AppendRequest *q = in->message;
            Leasehold__AppendAnswer r = LEASEHOLD__APPEND_ANSWER__INIT;
            assert_false(q->more);
            r.lane = number_sent(q);
            r.writer = crc_of(&in->payload);
            r.window_bytes = in->payload.size;
            r.window_batches = (uint32_t)toy->progress;
            toy->progress = 0;
            answer_number(fx, in->link, r, true);
        }
        break;
    case LH_IN_SENT:
        toy->notified++;
        break;
    case LH_IN_HALF_CLOSED:
        toy->got++;
        lh_fx_close(fx, in->link, LH_OK, NULL);
        break;
    case LH_IN_LINK_CLOSED:
        toy->last_error = in->error;
        sem_post(&toy->done);
        break;
    case LH_IN_STOP:
        lh_fx_stopped(fx, LH_OK);
        break;
    default:
        break;
    }
}

static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 6, 7, 100, 1000};
#define SIZES (sizeof sizes / sizeof sizes[0])

/* Sends a batch of each size at once, then reads as many. */
static void send_sizes(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    switch (in->kind) {
    case LH_IN_CALL:
        lh_fx_open(fx, toy->next_link, LH_METHOD_APPEND, toy->peer, LH_DURATION_FOREVER);
        for (size_t i = 0; i < SIZES; i++) {
            struct lh_buf batch = pattern(sizes[i]);
            send_number(fx, toy->next_link, i + 1, &batch);
        }
        break;
    case LH_IN_PROGRESS:
        toy->progress++;
        break;
    case LH_IN_MESSAGE: {
        size_t size = sizes[toy->got % SIZES];
        struct lh_buf expected = pattern(size);
        size_t pieces = size == 0 ? 1 : (size + toy->piece_bytes - 1) / toy->piece_bytes;
        if (toy->got < SIZES) {
            const Leasehold__AppendAnswer *r = number_answered(in->message);
            assert_int_equal(r->lane, toy->got + 1);
            assert_int_equal(r->window_bytes, size);
            assert_int_equal(r->writer, crc_of(&expected));
            assert_int_equal(r->window_batches, pieces == 1 ? 0 : pieces);
        } else {
            const Leasehold__ReadReply *r = in->message;
            assert_int_equal(r->version, toy->got);
            assert_int_equal(in->payload.size, size);
            assert_int_equal(crc_of(&in->payload), crc_of(&expected));
            assert_int_equal(toy->progress, pieces == 1 ? 0 : pieces);
            toy->progress = 0;
        }
        lh_buf_clear(&expected);
        if (++toy->got < SIZES)
            break;
        if (toy->got == 2 * SIZES) {
            lh_fx_complete(fx, NULL, LH_OK);
            break;
        }
        Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;
        q.version = toy->got;
        q.max_bytes = sizes[toy->got % SIZES];
        lh_fx_open(fx, ++toy->next_link, LH_METHOD_READ, toy->peer, lh_seconds(60));
        lh_fx_send(fx, toy->next_link, &q.base, NULL);
        break;
    }
    case LH_IN_STOP:
        lh_fx_stopped(fx, LH_OK);
        break;
    default:
        break;
    }
}

static void large_messages_travel_in_pieces_and_arrive_whole(void **state)
{
    (void)state;
    for (size_t piece = 1; piece <= 7; piece += 3) {
        struct toy server = {0}, client = {.piece_bytes = piece};
        struct lh_loop_config config = {
            .listen = "127.0.0.1:0",
            .threads = 2,
            .alone_bytes = piece,
            .piece_bytes = piece,
            .progress_interval = lh_nanoseconds(1), /* every one is news */
        };
        char address[64];
        toy_begin(&server, serve_pieces, &config);
        snprintf(address, sizeof address, "127.0.0.1:%d", lh_loop_port(server.loop));
        client.peer = address;
        config.listen = NULL;
        toy_begin(&client, send_sizes, &config);
        lh_loop_call(client.loop, NULL);
        sem_wait(&client.done);
        for (bool all = false; !all; usleep(1000)) { /* each has left, or the test hangs here */
            lh_loop_lock(server.loop);
            all = server.notified == SIZES;
            lh_loop_unlock(server.loop);
        }
        toy_end(&client);
        toy_end(&server);
    }
}

static void serve_alone(struct toy *server, size_t memory_max, char *address, size_t size)
{
    struct lh_loop_config config = {.listen = "127.0.0.1:0", .memory_max = memory_max};

    toy_begin(server, serve_pieces, &config);
    snprintf(address, size, "127.0.0.1:%d", lh_loop_port(server->loop));
}

/* One that sends raw bytes on an Append stream. */
static struct lh_transport_link *stranger_begin(
    struct stranger *s, struct lh_transport **transport, const char *address)
{
    struct lh_transport_config ours = {.arg = s, .on_closed = stranger_closed};
    char why[200];

    sem_init(&s->ended, 0, 0);
    assert_int_equal(
        lh_transport_create(&lh_rpc_transport, &ours, transport, why, sizeof why), LH_OK);
    lh_transport_start(*transport);
    return lh_transport_link_open(*transport, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
}

static void stranger_finish(
    struct stranger *s, struct lh_transport *transport, struct lh_transport_link *link)
{
    lh_transport_link_unref(link);
    lh_transport_destroy(transport);
    sem_destroy(&s->ended);
}

static struct lh_buf piece_of(size_t size)
{
    struct lh_buf header = lh_buf_copy("\x70\x01", 2), bytes = pattern(size);

    return lh_wire_encode(LH_METHOD_APPEND, LH_REQUEST, &header, &bytes);
}

static void pieces_of_all_links_have_a_bound(void **state)
{
    struct toy server = {0};
    struct stranger s = {0};
    struct lh_transport *transport;
    char address[64];

    (void)state;
    serve_alone(&server, 8u << 20, address, sizeof address);
    struct lh_transport_link *link = stranger_begin(&s, &transport, address);
    for (int i = 0; i < 10; i++)
        lh_transport_link_send(link, piece_of(1u << 20));
    lh_transport_link_flush(link);
    sem_wait(&s.ended);
    assert_int_equal(s.error, LH_ERR_NO_MEMORY);
    stranger_finish(&s, transport, link);
    toy_end(&server);
}

static void more_pieces_than_a_message_may_have_end_the_link(void **state)
{
    struct toy server = {0};
    struct stranger s = {0};
    struct lh_transport *transport;
    char address[64];

    (void)state;
    serve_alone(&server, 0, address, sizeof address);
    struct lh_transport_link *link = stranger_begin(&s, &transport, address);
    for (size_t sent = 0; sent <= LH_MESSAGE_BYTES_MAX; sent += 1u << 20)
        lh_transport_link_send(link, piece_of(1u << 20));
    lh_transport_link_flush(link);
    sem_wait(&s.ended);
    assert_int_equal(s.error, LH_ERR_TOO_LARGE);
    assert_string_equal(s.text, "/leasehold.ChunkServer/Append: too large a request message");
    stranger_finish(&s, transport, link);
    sem_wait(&server.done);
    lh_loop_lock(server.loop);
    assert_int_equal(server.last_error, LH_ERR_TOO_LARGE);
    assert_true(server.progress > 0);
    lh_loop_unlock(server.loop);
    toy_end(&server);
}

static void pieces_without_bytes_end_the_link_too(void **state)
{
    struct toy server = {0};
    struct stranger s = {0};
    struct lh_transport *transport;
    char address[64];

    (void)state;
    serve_alone(&server, 0, address, sizeof address);
    struct lh_transport_link *link = stranger_begin(&s, &transport, address);
    for (int i = 0; i < 2000; i++)
        lh_transport_link_send(link, piece_of(1));
    lh_transport_link_flush(link);
    sem_wait(&s.ended);
    assert_int_equal(s.error, LH_ERR_TOO_LARGE);
    stranger_finish(&s, transport, link);
    toy_end(&server);
}

static void a_break_in_the_middle_loses_the_message(void **state)
{
    struct toy server = {0};
    struct stranger s = {0};
    struct lh_transport *transport;
    char address[64];

    (void)state;
    serve_alone(&server, 0, address, sizeof address);
    struct lh_transport_link *link = stranger_begin(&s, &transport, address);
    lh_transport_link_send(link, piece_of(100));
    lh_transport_link_send(link, piece_of(100));
    lh_transport_link_flush(link);
    for (bool begun = false; !begun; usleep(1000)) {
        lh_loop_lock(server.loop);
        begun = server.progress > 0;
        lh_loop_unlock(server.loop);
    }
    lh_transport_link_close(link, LH_ERR_CANCELLED, NULL);
    lh_transport_link_flush(link);
    stranger_finish(&s, transport, link);
    sem_wait(&server.done); /* closed; and nobody was given half a message */
    toy_end(&server);
}

static void a_half_closed_stream_is_told_of(void **state)
{
    struct toy server = {0};
    char address[64], text[200];
    size_t size;

    (void)state;
    serve_alone(&server, 0, address, sizeof address);
    struct lh_stranger *s = lh_stranger_call(address, "/leasehold.ChunkServer/Append", "", 0);
    assert_true(lh_stranger_read(s, text, sizeof text, &size)); /* answered first */
    assert_int_equal(lh_stranger_end(s, text, sizeof text), 0);
    lh_loop_lock(server.loop);
    assert_int_equal(server.got, 1);
    lh_loop_unlock(server.loop);
    s = lh_stranger_call(address, "/leasehold.ChunkServer/Append", "\x70\x01", 2);
    assert_int_not_equal(lh_stranger_end(s, text, sizeof text), 0);
    assert_string_equal(text, "MALFORMED: /leasehold.ChunkServer/Append: not a request message");
    lh_loop_lock(server.loop);
    assert_int_equal(server.got, 1); /* the rest of it will never come */
    assert_int_equal(server.last_error, LH_ERR_MALFORMED);
    lh_loop_unlock(server.loop);
    toy_end(&server);
}

/* ---- the disk ---- */

static void write_sync_read(struct toy *toy, struct lh_input *in, struct lh_effects *fx)
{
    struct lh_buf data;

    if (in->kind == LH_IN_STOP)
        lh_fx_stopped(fx, LH_OK);
    if (in->kind == LH_IN_CALL)
        lh_fx_disk(fx, 1, 7, LH_DISK_CREATE, 0, 1 << 20, NULL);
    if (in->kind != LH_IN_DISK)
        return;
    assert_int_equal(in->error, LH_OK);
    assert_int_equal(in->file, 7);
    switch (in->op) {
    case LH_DISK_CREATE:
        data = lh_buf_copy("leasehold", 9);
        lh_fx_disk(fx, 2, 7, LH_DISK_WRITE, 0, 9, &data);
        break;
    case LH_DISK_WRITE:
        lh_fx_disk(fx, 3, 7, LH_DISK_SYNC, 0, 0, NULL);
        break;
    case LH_DISK_SYNC:
        lh_fx_disk(fx, 4, 7, LH_DISK_READ, 5, 100, NULL);
        break;
    case LH_DISK_READ:
        toy->read = lh_buf_take(&in->payload);
        lh_fx_complete(fx, NULL, LH_OK);
        break;
    default:
        fail();
    }
}

static void disk_operations_come_back_as_inputs(void **state)
{
    struct toy toy = {0};
    char dir[] = "/tmp/loop_test.XXXXXX";
    char command[64], why[200], text[5] = "";
    struct lh_disk *disk;

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(lh_disk_create(dir, NULL, &disk, why, sizeof why), LH_OK);
    struct lh_loop_config config = {.disk = disk};
    toy_begin(&toy, write_sync_read, &config);
    lh_loop_call(toy.loop, NULL);
    sem_wait(&toy.done);
    assert_int_equal(toy.read.size, 4);
    assert_true(lh_buf_read(&toy.read, 0, text, 4));
    assert_string_equal(text, "hold");
    lh_buf_clear(&toy.read);
    toy_end(&toy);
    lh_disk_destroy(disk);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callback_may_call_again_without_nesting),
        cmocka_unit_test(a_step_with_thousands_of_effects_leaves_no_memory),
        cmocka_unit_test(after_stopped_calls_are_refused),
        cmocka_unit_test(a_core_without_deadlines_beats_when_it_is_asked_to),
        cmocka_unit_test(a_core_that_hangs_has_no_beats),
        cmocka_unit_test(a_loop_whose_callback_hangs_has_no_beats),
        cmocka_unit_test(a_disk_that_hangs_stops_no_beats),
        cmocka_unit_test(completions_of_several_threads_keep_the_core_s_order),
        cmocka_unit_test(the_timer_follows_an_earlier_deadline),
        cmocka_unit_test(commits_are_handed_over_in_order_and_may_complete_within),
        cmocka_unit_test(a_stream_s_messages_arrive_whole_and_in_order),
        cmocka_unit_test(a_unary_call_is_answered_and_then_ends_normally),
        cmocka_unit_test(an_address_that_nobody_listens_on_is_unavailable),
        cmocka_unit_test(a_loop_uses_the_transport_that_it_is_given),
        cmocka_unit_test(a_server_that_goes_away_ends_its_links),
        cmocka_unit_test(streams_whose_peers_have_other_rights_end_and_calls_go_on),
        cmocka_unit_test(a_held_link_is_read_no_further),
        cmocka_unit_test(a_message_that_is_none_ends_the_link_by_name),
        cmocka_unit_test(large_messages_travel_in_pieces_and_arrive_whole),
        cmocka_unit_test(pieces_of_all_links_have_a_bound),
        cmocka_unit_test(more_pieces_than_a_message_may_have_end_the_link),
        cmocka_unit_test(pieces_without_bytes_end_the_link_too),
        cmocka_unit_test(a_break_in_the_middle_loses_the_message),
        cmocka_unit_test(a_half_closed_stream_is_told_of),
        cmocka_unit_test(disk_operations_come_back_as_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
