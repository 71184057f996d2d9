/* Stories about the simulator's world itself, with a toy core that does what the test tells it to:
 * the world must keep the driver contract of base/step.h to the letter, and break things only in
 * the ways that reality does. */
#include "base/alloc.h"
#include "proto/leasehold.pb-c.h"
#include "sim/world/clock.h"
#include "sim/world/disk.h"
#include "sim/world/network.h"
#include "sim/world/queue.h"
#include "sim/world/watch.h"
#include "tests/numbered.h"

#include "proto/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- A core that writes down what it is told ---- */

struct seen {
    enum lh_input_kind kind;
    struct lh_instant now;
    uint64_t link, ticket, number;
    int error;
    size_t bytes;
    uint8_t first; /* of the bytes */
};

struct toy {
    struct lh_sim_node *node;
    struct seen seen[512];
    size_t count;
    struct lh_instant deadline;
    /* What it does about an input; NULL: nothing. */
    void (*react)(struct toy *t, const struct lh_input *in, struct lh_effects *fx);
    struct lh_effects todo; /* emitted with the next input */
    size_t completed;
    bool refuse_start;
};

static void toy_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct toy *t = self;

    if (in->kind == LH_IN_TIMER && lh_instant_reached(in->now, t->deadline))
        t->deadline = LH_INSTANT_NEVER;
    assert_true(t->count < sizeof t->seen / sizeof t->seen[0]);
    struct seen *s = &t->seen[t->count++];
    *s = (struct seen){.kind = in->kind,
        .now = in->now,
        .link = in->link,
        .ticket = in->ticket,
        .error = in->error,
        .bytes = in->payload.size};
    if (in->payload.size > 0)
        assert_true(lh_buf_read(&in->payload, 0, &s->first, 1));
    if (in->kind == LH_IN_MESSAGE && in->method == LH_METHOD_APPEND)
        s->number = (in->link & LH_LINK_SERVED) != 0 ? number_sent(in->message)
                                                     : number_answered(in->message)->lane;
    for (size_t i = 0; i < t->todo.count; i++) {
        enum lh_effect_kind kind = t->todo.items[i].kind;
        *lh_effects_add(fx, kind) = t->todo.items[i];
    }
    t->todo.count = 0;
    if (t->react != NULL)
        t->react(t, in, fx);
}

static struct lh_instant toy_deadline(const void *self)
{
    return ((const struct toy *)self)->deadline;
}

static bool toy_start(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    struct toy *t = arg;

    t->node = node;
    t->deadline = LH_INSTANT_NEVER;
    *core = (struct lh_core){t, toy_step, toy_deadline};
    return !t->refuse_start;
}

static void toy_destroy(void *arg, void *self)
{
    struct toy *t = arg;

    assert_ptr_equal(arg, self);
    lh_effects_clear(&t->todo);
}

static void toy_completed(void *arg, struct lh_sim_node *node, void *call, int error)
{
    (void)node;
    (void)error;
    assert_ptr_equal(call, arg);
    ((struct toy *)arg)->completed++;
}

static const struct lh_sim_role toy_role = {
    .start = toy_start, .destroy = toy_destroy, .completed = toy_completed};

/* ---- A world of two ---- */

struct pair {
    struct lh_sim *sim;
    struct toy a, b;
};

static struct pair *pair_of(const struct lh_sim_config *config)
{
    struct pair *p = lh_alloc(sizeof *p);

    p->sim = lh_sim_create(config);
    p->a.node = lh_sim_add(p->sim, "a", &toy_role, &p->a);
    p->b.node = lh_sim_add(p->sim, "b", &toy_role, &p->b);
    lh_sim_start(p->a.node);
    lh_sim_start(p->b.node);
    return p;
}

static struct pair *pair_create(uint64_t seed)
{
    struct lh_sim_config config = lh_sim_config_default(seed);

    return pair_of(&config);
}

static void pair_destroy(struct pair *p)
{
    lh_sim_destroy(p->sim);
    lh_effects_deinit(&p->a.todo);
    lh_effects_deinit(&p->b.todo);
    free(p);
}

/* Lets the toy do what stands in its `todo`. */
static void act(struct toy *t)
{
    lh_sim_call(t->node, t);
    while (t->todo.count > 0)
        assert_true(lh_sim_run_one(lh_sim_of(t->node)));
}

static void run_ms(struct pair *p, uint64_t ms)
{
    lh_sim_run_for(p->sim, lh_milliseconds(ms));
}

static size_t count_of(const struct toy *t, enum lh_input_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < t->count; i++)
        n += t->seen[i].kind == kind;
    return n;
}

static const struct seen *last_of(const struct toy *t, enum lh_input_kind kind)
{
    for (size_t i = t->count; i > 0; i--)
        if (t->seen[i - 1].kind == kind)
            return &t->seen[i - 1];
    fail_msg("no such input was seen");
    return NULL;
}

static void say(struct toy *t, uint64_t link, uint64_t number, const char *payload)
{
    struct lh_buf bulk =
        payload == NULL ? (struct lh_buf){0} : lh_buf_copy(payload, strlen(payload));

    if ((link & LH_LINK_SERVED) != 0) {
        Leasehold__AppendAnswer m = LEASEHOLD__APPEND_ANSWER__INIT;
        m.lane = number;
        answer_number(&t->todo, link, m, false);
    } else {
        send_number(&t->todo, link, number, &bulk);
    }
    lh_buf_clear(&bulk);
}

/* a has link 1 open to b, and b knows. */
static struct pair *linked(uint64_t seed)
{
    struct pair *p = pair_create(seed);

    lh_fx_open(&p->a.todo, 1, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
    act(&p->a);
    run_ms(p, 10);
    assert_int_equal(count_of(&p->b, LH_IN_LINK_OPENED), 1);
    return p;
}

#define B_LINK (LH_LINK_SERVED | 1)

/* ---- Clocks and timers ---- */

static void a_clock_gains_exactly_its_rate(void **state)
{
    static const int32_t rates[] = {0, 10000, -10000, 1, -1, 200000};

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct lh_sim_clock c;
        lh_sim_clock_init(&c, 1000, (struct lh_instant){77}, rates[i]);
        uint64_t hour = UINT64_C(3600000000000);
        int64_t gained = (int64_t)(hour / 1000000) * rates[i];
        assert_true(lh_sim_clock_read(&c, 1000 + hour).ns == 77 + hour + (uint64_t)gained);
    }
}

static void no_fraction_is_lost_when_the_rate_changes(void **state)
{
    struct lh_sim_clock c, once;
    struct lh_prng random = {5};
    uint64_t now = 0;

    (void)state;
    lh_sim_clock_init(&c, 0, (struct lh_instant){0}, 7);
    lh_sim_clock_init(&once, 0, (struct lh_instant){0}, 7);
    for (int i = 0; i < 1000; i++) {
        now += lh_prng_below(&random, 1000);
        lh_sim_clock_set_rate(&c, now, 7);
    }
    assert_true(lh_sim_clock_read(&c, now).ns == lh_sim_clock_read(&once, now).ns);
}

static void a_deadline_is_met_at_the_first_moment_that_reaches_it(void **state)
{
    struct lh_prng random = {6};

    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct lh_sim_clock c;
        int32_t rate = (int32_t)lh_prng_below(&random, 400000) - 200000;
        lh_sim_clock_init(&c, lh_prng_below(&random, 1000), (struct lh_instant){500}, 3);
        lh_sim_clock_set_rate(&c, 1000 + lh_prng_below(&random, 1000), rate);
        struct lh_instant deadline = {500 + lh_prng_below(&random, 100000)};
        uint64_t when = lh_sim_clock_when(&c, deadline);
        assert_true(lh_sim_clock_read(&c, when).ns >= deadline.ns);
        if (when > c.true_ns)
            assert_true(lh_sim_clock_read(&c, when - 1).ns < deadline.ns);
    }
    struct lh_sim_clock slow;
    lh_sim_clock_init(&slow, 0, (struct lh_instant){0}, -999999);
    assert_true(lh_sim_clock_when(&slow, (struct lh_instant){UINT64_MAX - 1}) == UINT64_MAX);
}

static void events_keep_their_order_at_equal_times(void **state)
{
    struct lh_sim_queue q = {0};
    struct lh_prng random = {9};
    uint64_t last_at = 0, last_sequence = 0;

    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        lh_sim_queue_push(&q, (struct lh_sim_event){.at = lh_prng_below(&random, 20), .which = i});
    for (int i = 0; i < 1000; i++) {
        struct lh_sim_event e = lh_sim_queue_pop(&q);
        assert_true(e.at > last_at || (e.at == last_at && e.sequence > last_sequence));
        last_at = e.at;
        last_sequence = e.sequence;
    }
    lh_sim_queue_deinit(&q);
}

static void a_timer_never_fires_early_whatever_the_clock_does(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct pair *p = pair_create(seed);
        struct lh_instant deadline = lh_instant_add(lh_sim_clock(p->a.node), lh_milliseconds(100));
        size_t before = count_of(&p->a, LH_IN_TIMER);

        p->a.deadline = deadline;
        lh_fx_log(&p->a.todo, LH_INFO, "wake me");
        act(&p->a);
        run_ms(p, 50);
        lh_sim_set_rate(p->a.node, seed % 2 == 0 ? 10000 : -10000);
        run_ms(p, 200);
        assert_int_equal(count_of(&p->a, LH_IN_TIMER), before + 1);
        const struct seen *fired = last_of(&p->a, LH_IN_TIMER);
        assert_true(fired->now.ns >= deadline.ns);
        assert_true(fired->now.ns <= deadline.ns + 200000); /* late at most as configured */
        pair_destroy(p);
    }
}

static void timers_can_be_made_late(void **state)
{
    uint64_t latest = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct pair *p = pair_create(seed);
        struct lh_instant deadline = lh_instant_add(lh_sim_clock(p->a.node), lh_milliseconds(10));
        p->a.deadline = deadline;
        lh_sim_set_timer_late(p->a.node, lh_milliseconds(500));
        lh_fx_log(&p->a.todo, LH_INFO, "wake me");
        act(&p->a);
        run_ms(p, 600);
        uint64_t late = last_of(&p->a, LH_IN_TIMER)->now.ns - deadline.ns;
        assert_true(late <= 500000000);
        latest = late > latest ? late : latest;
        pair_destroy(p);
    }
    assert_true(latest > 300000000);
}

static void a_wall_clock_jumps_and_nothing_else_does(void **state)
{
    struct pair *p = pair_create(50);
    struct lh_instant before = lh_sim_clock(p->a.node);

    (void)state;
    lh_sim_set_wall(p->a.node, 5000);
    assert_int_equal(lh_sim_wall(p->a.node), 5000);
    run_ms(p, 100);
    assert_int_equal(lh_sim_wall(p->a.node), 5100);
    assert_true(lh_sim_clock(p->a.node).ns == before.ns + 100000000);
    pair_destroy(p);
}

static void a_calls_deadline_is_by_its_openers_clock(void **state)
{
    struct pair *p = pair_create(51);

    (void)state;
    lh_fx_open(&p->a.todo, 1, LH_METHOD_APPEND, "b", lh_milliseconds(1000));
    act(&p->a);
    lh_sim_set_rate(p->a.node, -500000);
    run_ms(p, 1990);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 0);
    run_ms(p, 20);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_DEADLINE_EXCEEDED);
    pair_destroy(p);
}

/* ---- Links ---- */

static void messages_arrive_in_order_and_whole(void **state)
{
    struct pair *p = linked(1);

    (void)state;
    for (uint64_t i = 1; i <= 100; i++)
        say(&p->a, 1, i, i % 3 == 0 ? "payload" : NULL);
    say(&p->b, B_LINK, 1000, NULL);
    act(&p->a);
    act(&p->b);
    run_ms(p, 10);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 100);
    uint64_t next = 1;
    for (size_t i = 0; i < p->b.count; i++) {
        if (p->b.seen[i].kind != LH_IN_MESSAGE)
            continue;
        assert_int_equal(p->b.seen[i].number, next);
        assert_int_equal(p->b.seen[i].bytes, next % 3 == 0 ? 7 : 0);
        assert_true(p->b.seen[i].link == B_LINK);
        next++;
    }
    assert_int_equal(last_of(&p->a, LH_IN_MESSAGE)->number, 1000);
    pair_destroy(p);
}

static void what_was_sent_before_a_served_close_arrives(void **state)
{
    struct pair *p = linked(2);

    (void)state;
    say(&p->b, B_LINK, 5, NULL);
    lh_fx_close(&p->b.todo, B_LINK, LH_ERR_CHUNK_FULL, "full");
    act(&p->b);
    run_ms(p, 10);
    assert_int_equal(last_of(&p->a, LH_IN_MESSAGE)->number, 5);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_CHUNK_FULL);
    /* Both ends are gone: what is still said goes nowhere. */
    say(&p->a, 1, 6, NULL);
    act(&p->a);
    run_ms(p, 10);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 0);
    assert_int_equal(count_of(&p->b, LH_IN_LINK_CLOSED), 0);
    pair_destroy(p);
}

static void an_opener_that_closes_cancels(void **state)
{
    struct pair *p = linked(3);

    (void)state;
    lh_fx_close(&p->a.todo, 1, LH_OK, NULL);
    act(&p->a);
    run_ms(p, 10);
    assert_int_equal(last_of(&p->b, LH_IN_LINK_CLOSED)->error, LH_ERR_CANCELLED);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 0);
    pair_destroy(p);
}

static void nobody_there_is_refused_soon_and_no_machine_is_silence(void **state)
{
    struct pair *p = pair_create(4);

    (void)state;
    lh_sim_crash(p->b.node);
    lh_fx_open(&p->a.todo, 1, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
    lh_fx_open(&p->a.todo, 2, LH_METHOD_APPEND, "nowhere", LH_DURATION_FOREVER);
    act(&p->a);
    run_ms(p, 10);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 2);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_UNAVAILABLE);

    lh_sim_power_loss(p->b.node);
    lh_fx_open(&p->a.todo, 3, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
    lh_fx_open(&p->a.todo, 4, LH_METHOD_APPEND, "b", lh_milliseconds(300));
    act(&p->a);
    run_ms(p, 290);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 2);
    run_ms(p, 20);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->link, 4);
    run_ms(p, 2500);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_UNAVAILABLE);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 4);
    pair_destroy(p);
}

static void a_calls_deadline_ends_it_at_both_ends(void **state)
{
    struct pair *p = pair_create(5);

    (void)state;
    lh_fx_open(&p->a.todo, 1, LH_METHOD_APPEND, "b", lh_milliseconds(50));
    act(&p->a);
    run_ms(p, 49);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 0);
    run_ms(p, 10);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(last_of(&p->b, LH_IN_LINK_CLOSED)->error, LH_ERR_CANCELLED);
    pair_destroy(p);
}

static void a_break_loses_a_suffix_and_both_ends_hear_of_it(void **state)
{
    size_t whole = 0, none = 0, part = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct pair *p = linked(seed);
        for (uint64_t i = 1; i <= 4; i++)
            say(&p->a, 1, i, NULL);
        act(&p->a);
        lh_sim_break(p->a.node, p->b.node);
        run_ms(p, 20);
        size_t got = count_of(&p->b, LH_IN_MESSAGE);
        for (size_t i = 0, n = 0; i < p->b.count; i++)
            if (p->b.seen[i].kind == LH_IN_MESSAGE)
                assert_int_equal(p->b.seen[i].number, ++n); /* never a hole */
        whole += got == 4;
        none += got == 0;
        part += got > 0 && got < 4;
        assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_UNAVAILABLE);
        assert_int_equal(last_of(&p->b, LH_IN_LINK_CLOSED)->error, LH_ERR_UNAVAILABLE);
        pair_destroy(p);
    }
    assert_true(whole > 0 && none > 0 && part > 0);
}

static void a_short_cut_only_delays(void **state)
{
    struct pair *p = linked(6);

    (void)state;
    lh_sim_cut(p->a.node, p->b.node);
    say(&p->a, 1, 1, NULL);
    act(&p->a);
    say(&p->b, B_LINK, 2, NULL);
    act(&p->b);
    run_ms(p, 500);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 0);
    assert_int_equal(count_of(&p->a, LH_IN_MESSAGE), 1); /* the other direction works */
    lh_sim_heal(p->a.node, p->b.node);
    run_ms(p, 3000);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 1);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 0);
    assert_int_equal(count_of(&p->b, LH_IN_LINK_CLOSED), 0);
    pair_destroy(p);
}

static void a_long_cut_is_noticed_at_both_ends_each_at_its_time(void **state)
{
    struct pair *p = linked(7);

    (void)state;
    lh_sim_isolate(p->a.node, NULL);
    run_ms(p, 900);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 0);
    run_ms(p, 2000);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_UNAVAILABLE);
    assert_int_equal(last_of(&p->b, LH_IN_LINK_CLOSED)->error, LH_ERR_UNAVAILABLE);
    assert_int_not_equal(
        last_of(&p->a, LH_IN_LINK_CLOSED)->now.ns, last_of(&p->b, LH_IN_LINK_CLOSED)->now.ns);
    /* New calls get nowhere either, until it is healed. */
    lh_fx_open(&p->a.todo, 2, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
    act(&p->a);
    run_ms(p, 3000);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 2);
    lh_sim_rejoin(p->a.node, NULL);
    lh_fx_open(&p->a.todo, 3, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
    act(&p->a);
    run_ms(p, 10);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 2);
    assert_int_equal(last_of(&p->b, LH_IN_LINK_OPENED)->kind, LH_IN_LINK_OPENED);
    pair_destroy(p);
}

static void a_crash_is_heard_soon_and_a_power_loss_late(void **state)
{
    struct pair *p = linked(8);

    (void)state;
    lh_sim_crash(p->b.node);
    run_ms(p, 10);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_UNAVAILABLE);
    pair_destroy(p);

    p = linked(9);
    lh_sim_power_loss(p->b.node);
    run_ms(p, 900);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 0);
    run_ms(p, 1200);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_UNAVAILABLE);
    pair_destroy(p);
}

static void a_held_link_waits(void **state)
{
    struct pair *p = linked(10);

    (void)state;
    lh_fx_hold(&p->b.todo, B_LINK);
    act(&p->b);
    for (uint64_t i = 1; i <= 5; i++)
        say(&p->a, 1, i, NULL);
    act(&p->a);
    run_ms(p, 100);
    assert_true(count_of(&p->b, LH_IN_MESSAGE) <= 1);
    lh_fx_unhold(&p->b.todo, B_LINK);
    act(&p->b);
    run_ms(p, 100);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 5);
    pair_destroy(p);
}

static void a_clogged_line_delays_and_nobody_notices(void **state)
{
    struct pair *p = linked(52);

    (void)state;
    lh_sim_clog(p->a.node, p->b.node);
    assert_true(lh_sim_is_clogged(p->a.node, p->b.node));
    for (uint64_t i = 1; i <= 5; i++)
        say(&p->a, 1, i, NULL);
    lh_fx_open(&p->a.todo, 2, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
    act(&p->a);
    say(&p->b, B_LINK, 9, NULL);
    act(&p->b);
    run_ms(p, 60000);
    assert_int_equal(last_of(&p->a, LH_IN_MESSAGE)->number, 9); /* the other way is free */
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 0);
    lh_sim_unclog(p->a.node, p->b.node);
    run_ms(p, 10);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 5);
    assert_int_equal(last_of(&p->b, LH_IN_MESSAGE)->number, 5);
    assert_int_equal(count_of(&p->b, LH_IN_LINK_OPENED), 2);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 0);
    assert_int_equal(count_of(&p->b, LH_IN_LINK_CLOSED), 0);
    pair_destroy(p);
}

static void who_does_not_notice_silence_waits_for_the_calls_deadline(void **state)
{
    struct pair *p = linked(53);

    (void)state;
    lh_sim_set_notices(p->a.node, p->b.node, false);
    lh_fx_open(&p->a.todo, 2, LH_METHOD_APPEND, "b", lh_milliseconds(20000));
    act(&p->a);
    run_ms(p, 10);
    lh_sim_isolate(p->a.node, p->b.node);
    run_ms(p, 19000);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 0);
    assert_int_equal(count_of(&p->b, LH_IN_LINK_CLOSED), 2); /* b does notice */
    run_ms(p, 1500);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->link, 2);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_DEADLINE_EXCEEDED);
    run_ms(p, 60000);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 1);
    lh_sim_set_notices(p->a.node, p->b.node, true);
    run_ms(p, 2100);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->link, 1);
    pair_destroy(p);
}

static void a_connection_can_break_at_one_end_alone(void **state)
{
    struct pair *p = linked(54);

    (void)state;
    lh_sim_break_at(p->b.node, p->a.node);
    run_ms(p, 10);
    assert_int_equal(last_of(&p->b, LH_IN_LINK_CLOSED)->error, LH_ERR_UNAVAILABLE);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 0);
    say(&p->a, 1, 1, NULL); /* into the void */
    act(&p->a);
    run_ms(p, 900);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 0);
    run_ms(p, 1200);
    assert_int_equal(last_of(&p->a, LH_IN_LINK_CLOSED)->error, LH_ERR_UNAVAILABLE);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 0);
    pair_destroy(p);
}

static void a_call_on_its_way_does_not_break_at_a_server_that_has_not_heard_of_it(void **state)
{
    struct pair *p = pair_create(58);

    (void)state;
    lh_fx_open(&p->a.todo, 1, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
    act(&p->a);
    lh_sim_break_at(p->b.node, p->a.node);
    run_ms(p, 3000);
    assert_int_equal(count_of(&p->b, LH_IN_LINK_OPENED), 1);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 0);
    lh_fx_open(&p->a.todo, 2, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
    act(&p->a);
    lh_sim_break_at(p->a.node, p->b.node);
    run_ms(p, 3000);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 2);
    assert_int_equal(count_of(&p->b, LH_IN_LINK_CLOSED), count_of(&p->b, LH_IN_LINK_OPENED));
    pair_destroy(p);
}

static void a_narrow_line_carries_so_many_bytes_a_second_in_order(void **state)
{
    struct pair *p = linked(55);
    char kilobyte[1001];

    (void)state;
    memset(kilobyte, 'x', sizeof kilobyte - 1);
    kilobyte[sizeof kilobyte - 1] = 0;
    lh_sim_set_bandwidth(p->a.node, p->b.node, 10000);
    for (uint64_t i = 1; i <= 10; i++)
        say(&p->a, 1, i, kilobyte);
    act(&p->a);
    run_ms(p, 550);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 5);
    run_ms(p, 400);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 9);
    run_ms(p, 100);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 10);
    pair_destroy(p);
}

static void a_few_messages_take_much_longer(void **state)
{
    struct lh_sim_config config = lh_sim_config_default(56);
    size_t slow = 0;

    (void)state;
    config.delay_tail = (struct lh_sim_tail){100000, lh_milliseconds(1000)};
    struct pair *p = pair_of(&config);
    lh_fx_open(&p->a.todo, 1, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
    act(&p->a);
    run_ms(p, 1100);
    for (uint64_t i = 1; i <= 200; i++) {
        uint64_t before = lh_sim_now(p->sim);
        say(&p->a, 1, i, NULL);
        act(&p->a);
        while (count_of(&p->b, LH_IN_MESSAGE) < i)
            assert_true(lh_sim_run_one(p->sim));
        uint64_t took = lh_sim_now(p->sim) - before;
        assert_true(took <= 1000500000);
        slow += took > 500000;
    }
    assert_in_range(slow, 5, 40);
    pair_destroy(p);
}

static void everything_about_a_network_can_be_mended_at_once(void **state)
{
    struct pair *p = linked(57);

    (void)state;
    lh_sim_cut(p->a.node, p->b.node);
    lh_sim_clog(p->b.node, p->a.node);
    lh_sim_slow(p->a.node, p->b.node, lh_milliseconds(5000));
    lh_sim_set_bandwidth(p->b.node, p->a.node, 1);
    lh_sim_set_notices(p->a.node, p->b.node, false);
    lh_sim_mend_network(p->sim);
    say(&p->a, 1, 1, NULL);
    act(&p->a);
    say(&p->b, B_LINK, 2, NULL);
    act(&p->b);
    run_ms(p, 10);
    assert_int_equal(last_of(&p->b, LH_IN_MESSAGE)->number, 1);
    assert_int_equal(last_of(&p->a, LH_IN_MESSAGE)->number, 2);
    pair_destroy(p);
}

/* ---- Processes ---- */

static void a_paused_process_misses_nothing_and_its_clock_goes_on(void **state)
{
    struct pair *p = linked(11);
    struct lh_instant before = lh_sim_clock(p->b.node);
    size_t inputs = p->b.count;

    (void)state;
    lh_sim_pause(p->b.node);
    say(&p->a, 1, 1, NULL);
    say(&p->a, 1, 2, NULL);
    act(&p->a);
    run_ms(p, 5000);
    assert_int_equal(p->b.count, inputs);
    lh_sim_resume(p->b.node);
    run_ms(p, 10);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 2);
    assert_true(last_of(&p->b, LH_IN_MESSAGE)->now.ns >= before.ns + UINT64_C(5000000000));
    pair_destroy(p);
}

static void a_pause_in_a_step_lies_between_decision_and_deed(void **state)
{
    struct pair *p = linked(12);

    (void)state;
    say(&p->a, 1, 7, NULL);
    lh_sim_pause_in_step(p->a.node);
    act(&p->a);
    assert_true(lh_sim_is_paused(p->a.node));
    run_ms(p, 1000);
    assert_int_equal(count_of(&p->b, LH_IN_MESSAGE), 0);
    lh_sim_resume(p->a.node);
    run_ms(p, 10);
    assert_int_equal(last_of(&p->b, LH_IN_MESSAGE)->number, 7);
    pair_destroy(p);
}

static void a_process_that_crashes_while_paused_hears_nothing_any_more(void **state)
{
    struct pair *p = linked(13);

    (void)state;
    lh_fx_disk(&p->b.todo, 1, 9, LH_DISK_CREATE, 0, 100, NULL);
    lh_fx_persist(&p->b.todo, 2);
    lh_fx_put(&p->b.todo, "k", 1, "v", 1);
    act(&p->b);
    lh_sim_pause(p->b.node);
    run_ms(p, 100);
    lh_sim_crash(p->b.node);
    size_t inputs = p->b.count;
    run_ms(p, 100);
    assert_int_equal(p->b.count, inputs);
    lh_sim_start(p->b.node);
    assert_int_equal(lh_sim_incarnation(p->b.node), 2);
    assert_int_equal(lh_sim_boot(p->b.node), 1);
    run_ms(p, 100);
    assert_int_equal(p->b.count, inputs + 1); /* the first TIMER of the new life */
    pair_destroy(p);
}

static void stop_when_asked(struct toy *t, const struct lh_input *in, struct lh_effects *fx)
{
    (void)t;
    if (in->kind == LH_IN_STOP) {
        lh_fx_stopped(fx, LH_OK);
        lh_fx_log(fx, LH_INFO, "after the end");
    }
}

static void a_clean_stop_ends_the_process_when_the_core_says_so(void **state)
{
    struct pair *p = linked(14);

    (void)state;
    p->b.react = stop_when_asked;
    lh_sim_stop(p->b.node);
    assert_int_equal(lh_sim_stopped_with(p->b.node), LH_ERR_CLOSED);
    run_ms(p, 10);
    assert_false(lh_sim_is_up(p->b.node));
    assert_int_equal(lh_sim_stopped_with(p->b.node), LH_OK);
    assert_int_equal(count_of(&p->a, LH_IN_LINK_CLOSED), 1);

    p->b.refuse_start = true;
    lh_sim_start(p->b.node);
    assert_false(lh_sim_is_up(p->b.node));
    p->b.refuse_start = false;
    lh_sim_start(p->b.node);
    assert_true(lh_sim_is_up(p->b.node));
    pair_destroy(p);
}

static void never_move_on(struct toy *t, const struct lh_input *in, struct lh_effects *fx)
{
    (void)fx;
    t->deadline = in->now;
    t->count = 0;
}

static void a_core_that_spins_is_found_out(void **state)
{
    struct lh_sim_config config = lh_sim_config_default(1);
    struct toy t = {.react = never_move_on};

    (void)state;
    config.timer_late = lh_nanoseconds(0);
    struct lh_sim *sim = lh_sim_create(&config);
    lh_sim_start(lh_sim_add(sim, "a", &toy_role, &t));
    lh_sim_run_for(sim, lh_seconds(1));
    assert_non_null(lh_sim_failure(sim));
    assert_non_null(strstr(lh_sim_failure(sim), "deadline"));
    lh_sim_destroy(sim);
}

/* ---- Disk ---- */

static uint64_t next_ticket = 100;

static void disk(struct toy *t, enum lh_disk_op op, uint64_t offset, uint64_t length, int fill)
{
    struct lh_buf data = {0};
    uint8_t *to;

    if (op == LH_DISK_WRITE) {
        data = lh_buf_alloc(length, &to);
        memset(to, fill, length);
    }
    lh_fx_disk(&t->todo, ++next_ticket, 5, op, offset, length, &data);
}

/* One operation on file 5, waited for. */
static int do_disk(struct pair *p, enum lh_disk_op op, uint64_t offset, uint64_t length, int fill)
{
    disk(&p->a, op, offset, length, fill);
    act(&p->a);
    run_ms(p, 5);
    assert_int_equal(last_of(&p->a, LH_IN_DISK)->ticket, next_ticket);
    return last_of(&p->a, LH_IN_DISK)->error;
}

/* True if file 5 of a is `size` bytes, all of them `fill`. */
static bool file_is(struct pair *p, uint64_t size, uint8_t fill)
{
    uint64_t real;
    const uint8_t *bytes = lh_sim_file(p->a.node, 5, &real);

    if (bytes == NULL || real != size)
        return false;
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != fill)
            return false;
    return true;
}

static void files_do_what_files_do(void **state)
{
    struct pair *p = pair_create(20);
    uint64_t *files;

    (void)state;
    assert_int_equal(do_disk(p, LH_DISK_WRITE, 0, 10, 'x'), LH_ERR_NOT_FOUND);
    assert_int_equal(do_disk(p, LH_DISK_CREATE, 0, 4096, 0), LH_OK);
    assert_int_equal(do_disk(p, LH_DISK_CREATE, 0, 4096, 0), LH_ERR_ALREADY_EXISTS);
    assert_true(file_is(p, 0, 0)); /* preallocated, and empty */
    assert_int_equal(lh_sim_disk_used(p->a.node), 4096);
    assert_int_equal(do_disk(p, LH_DISK_WRITE, 0, 1000, 'x'), LH_OK);
    assert_int_equal(do_disk(p, LH_DISK_READ, 900, 1000, 0), LH_OK);
    assert_int_equal(last_of(&p->a, LH_IN_DISK)->bytes, 100); /* short at the end */
    assert_int_equal(last_of(&p->a, LH_IN_DISK)->first, 'x');
    assert_int_equal(do_disk(p, LH_DISK_READ, 5000, 1000, 0), LH_OK);
    assert_int_equal(last_of(&p->a, LH_IN_DISK)->bytes, 0);
    assert_int_equal(do_disk(p, LH_DISK_TRUNCATE, 0, 500, 0), LH_OK);
    assert_true(file_is(p, 500, 'x'));
    assert_int_equal(lh_sim_files(p->a.node, &files), 1);
    assert_int_equal(files[0], 5);
    free(files);
    assert_int_equal(do_disk(p, LH_DISK_REMOVE, 0, 0, 0), LH_OK);
    assert_int_equal(do_disk(p, LH_DISK_REMOVE, 0, 0, 0), LH_OK);
    assert_int_equal(lh_sim_files(p->a.node, &files), 0);
    free(files);
    pair_destroy(p);
}

static void what_was_synced_survives_a_power_loss(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct pair *p = pair_create(seed);
        do_disk(p, LH_DISK_CREATE, 0, 0, 0);
        do_disk(p, LH_DISK_WRITE, 0, 3000, 'x');
        do_disk(p, LH_DISK_SYNC, 0, 0, 0);
        lh_sim_power_loss(p->a.node);
        assert_true(file_is(p, 3000, 'x'));
        lh_sim_start(p->a.node);
        assert_int_equal(lh_sim_boot(p->a.node), 2);
        pair_destroy(p);
    }
}

/* Of 8 sectors that were written with 'x', which are there? Every one is whole or not there. */
static unsigned sectors_there(struct pair *p)
{
    uint64_t size;
    const uint8_t *bytes = lh_sim_file(p->a.node, 5, &size);
    unsigned there = 0;

    assert_int_equal(size % 512, 0);
    for (uint64_t i = 0; i < size; i++) {
        assert_true(bytes[i] == bytes[i / 512 * 512]);
        if (bytes[i] == 'x')
            there |= 1u << i / 512;
    }
    return there;
}

static void what_was_not_synced_survives_a_crash_but_a_power_loss_as_it_likes(void **state)
{
    size_t kept = 0, dropped = 0, torn = 0, holed = 0, empty_tail = 0, file_gone = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct pair *p = pair_create(seed);
        do_disk(p, LH_DISK_CREATE, 0, 0, 0);
        if (seed % 4 != 0)
            do_disk(p, LH_DISK_SYNC, 0, 0, 0);
        do_disk(p, LH_DISK_WRITE, 0, 4096, 'x');
        lh_sim_crash(p->a.node);
        assert_true(file_is(p, 4096, 'x'));
        lh_sim_start(p->a.node);
        lh_sim_power_loss(p->a.node);
        uint64_t size;
        if (lh_sim_file(p->a.node, 5, &size) == NULL) {
            assert_int_equal(seed % 4, 0); /* only without the sync */
            file_gone++;
        } else {
            unsigned there = sectors_there(p);
            kept += there == 0xff;
            dropped += size == 0;
            torn += there > 0 && there < 0xff;
            holed += (there & (there + 1)) != 0; /* not a prefix */
            empty_tail += size == 4096 && there >> 7 == 0;
        }
        pair_destroy(p);
    }
    assert_true(kept > 0 && dropped > 0 && torn > 0 && holed > 0 && empty_tail > 0);
    assert_true(file_gone > 0);
}

static void a_sync_covers_only_what_was_known_done_when_it_was_emitted(void **state)
{
    size_t lost = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct pair *p = pair_create(seed);
        do_disk(p, LH_DISK_CREATE, 0, 0, 0);
        do_disk(p, LH_DISK_WRITE, 0, 512, 'x');
        /* In one step: a write, and a sync that cannot know of it. */
        disk(&p->a, LH_DISK_WRITE, 512, 512, 'x');
        disk(&p->a, LH_DISK_SYNC, 0, 0, 0);
        act(&p->a);
        run_ms(p, 10);
        assert_int_equal(last_of(&p->a, LH_IN_DISK)->error, LH_OK);
        lh_sim_power_loss(p->a.node);
        uint64_t size;
        assert_non_null(lh_sim_file(p->a.node, 5, &size));
        assert_true(size >= 512);
        lost += size == 512;
        pair_destroy(p);
    }
    assert_true(lost > 0);
}

static void a_cut_that_was_not_synced_can_come_back_to_life(void **state)
{
    size_t zombies = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct pair *p = pair_create(seed);
        do_disk(p, LH_DISK_CREATE, 0, 0, 0);
        do_disk(p, LH_DISK_WRITE, 0, 1024, 'x');
        do_disk(p, LH_DISK_SYNC, 0, 0, 0);
        do_disk(p, LH_DISK_TRUNCATE, 0, 100, 0);
        lh_sim_power_loss(p->a.node);
        zombies += file_is(p, 1024, 'x');
        assert_true(file_is(p, 1024, 'x') || file_is(p, 100, 'x'));
        pair_destroy(p);
    }
    assert_true(zombies > 0);
}

static void after_a_failed_sync_the_pages_count_as_clean(void **state)
{
    size_t lost = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct pair *p = pair_create(seed);
        do_disk(p, LH_DISK_CREATE, 0, 0, 0);
        do_disk(p, LH_DISK_SYNC, 0, 0, 0);
        do_disk(p, LH_DISK_WRITE, 0, 512, 'x');
        lh_sim_disk_fail(p->a.node, LH_DISK_SYNC, LH_ERR_IO, 1);
        assert_int_equal(do_disk(p, LH_DISK_SYNC, 0, 0, 0), LH_ERR_IO);
        assert_true(file_is(p, 512, 'x')); /* it reads as if nothing were wrong */
        assert_int_equal(do_disk(p, LH_DISK_SYNC, 0, 0, 0), LH_OK); /* and this says nothing */
        lh_sim_power_loss(p->a.node);
        lost += file_is(p, 0, 0);
        pair_destroy(p);
    }
    assert_true(lost > 0);
}

static void a_full_disk_refuses_what_is_new_and_takes_what_was_reserved(void **state)
{
    struct pair *p = pair_create(21);

    (void)state;
    lh_sim_disk_capacity(p->a.node, 1000);
    assert_int_equal(do_disk(p, LH_DISK_CREATE, 0, 1001, 0), LH_ERR_DISK_FULL);
    assert_int_equal(do_disk(p, LH_DISK_CREATE, 0, 800, 0), LH_OK);
    assert_int_equal(do_disk(p, LH_DISK_WRITE, 0, 800, 'x'), LH_OK);
    assert_int_equal(do_disk(p, LH_DISK_WRITE, 800, 200, 'x'), LH_OK);
    assert_int_equal(do_disk(p, LH_DISK_WRITE, 1000, 1, 'x'), LH_ERR_DISK_FULL);
    assert_true(lh_sim_disk_used(p->a.node) <= 1000);
    pair_destroy(p);
}

static void a_stalled_disk_answers_when_it_goes_on(void **state)
{
    struct pair *p = pair_create(22);

    (void)state;
    do_disk(p, LH_DISK_CREATE, 0, 0, 0);
    size_t before = count_of(&p->a, LH_IN_DISK);
    lh_sim_disk_stall(p->a.node, true);
    disk(&p->a, LH_DISK_WRITE, 0, 10, 'x');
    act(&p->a);
    run_ms(p, 5000);
    assert_int_equal(count_of(&p->a, LH_IN_DISK), before);
    lh_sim_disk_stall(p->a.node, false);
    run_ms(p, 10);
    assert_int_equal(count_of(&p->a, LH_IN_DISK), before + 1);

    /* A process may end while its disk is stalled. */
    lh_sim_disk_stall(p->a.node, true);
    disk(&p->a, LH_DISK_WRITE, 0, 10, 'y');
    disk(&p->a, LH_DISK_SYNC, 0, 0, 0);
    act(&p->a);
    run_ms(p, 100);
    lh_sim_crash(p->a.node);
    run_ms(p, 100);
    assert_int_equal(count_of(&p->a, LH_IN_DISK), before + 1);
    pair_destroy(p);
}

static void a_slow_disk_takes_longer(void **state)
{
    struct pair *p = pair_create(23);

    (void)state;
    do_disk(p, LH_DISK_CREATE, 0, 0, 0);
    lh_sim_disk_slow(p->a.node, lh_milliseconds(300));
    disk(&p->a, LH_DISK_WRITE, 0, 10, 'x');
    act(&p->a);
    run_ms(p, 299);
    assert_int_equal(count_of(&p->a, LH_IN_DISK), 1);
    run_ms(p, 5);
    assert_int_equal(count_of(&p->a, LH_IN_DISK), 2);
    pair_destroy(p);
}

static void the_platter_shows_what_was_synced(void **state)
{
    struct pair *p = pair_create(24);
    uint64_t size;

    (void)state;
    do_disk(p, LH_DISK_CREATE, 0, 0, 0);
    do_disk(p, LH_DISK_WRITE, 0, 10, 'x');
    assert_null(lh_sim_platter(p->a.node, 5, &size)); /* nor is its name there */
    do_disk(p, LH_DISK_SYNC, 0, 0, 0);
    do_disk(p, LH_DISK_WRITE, 10, 10, 'x');
    assert_non_null(lh_sim_platter(p->a.node, 5, &size));
    assert_int_equal(size, 10);
    assert_true(file_is(p, 20, 'x'));
    pair_destroy(p);
}

static void a_misdirected_write_hits_another_place_and_says_all_is_well(void **state)
{
    struct pair *p = pair_create(25);
    uint64_t size;

    (void)state;
    do_disk(p, LH_DISK_CREATE, 0, 0, 0);
    do_disk(p, LH_DISK_WRITE, 0, 1024, 'x');
    lh_sim_disk_misdirect(p->a.node, 5, 512);
    assert_int_equal(do_disk(p, LH_DISK_WRITE, 1024, 700, 'y'), LH_OK);
    const uint8_t *bytes = lh_sim_file(p->a.node, 5, &size);
    assert_int_equal(size, 1724); /* as the process believes */
    assert_int_equal(bytes[511], 'x');
    assert_int_equal(bytes[512], 'y');
    assert_int_equal(bytes[1023], 'y'); /* as far as the file went */
    assert_int_equal(bytes[1024], 0);
    assert_int_equal(do_disk(p, LH_DISK_SYNC, 0, 0, 0), LH_OK);
    lh_sim_power_loss(p->a.node);
    bytes = lh_sim_file(p->a.node, 5, &size);
    assert_int_equal(size, 1724);
    assert_int_equal(bytes[512], 'y');
    assert_int_equal(bytes[1500], 0);

    /* Only once, and a file that is not there takes the bytes with it. */
    lh_sim_start(p->a.node);
    lh_sim_disk_misdirect(p->a.node, 77, 0);
    assert_int_equal(do_disk(p, LH_DISK_WRITE, 0, 1, 'z'), LH_OK);
    assert_int_equal(lh_sim_file(p->a.node, 5, &size)[0], 'x');
    assert_int_equal(do_disk(p, LH_DISK_WRITE, 0, 1, 'z'), LH_OK);
    assert_int_equal(lh_sim_file(p->a.node, 5, &size)[0], 'z');
    pair_destroy(p);
}

/* A file that has come to rest takes memory once; that must not show. */
static void a_file_that_rested_is_torn_like_any_other(void **state)
{
    size_t lost = 0, kept = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct pair *p = pair_create(seed);
        uint64_t size;
        do_disk(p, LH_DISK_CREATE, 0, 0, 0);
        do_disk(p, LH_DISK_WRITE, 0, 1000, 'x');
        do_disk(p, LH_DISK_SYNC, 0, 0, 0);
        lh_fx_disk(&p->a.todo, ++next_ticket, 6, LH_DISK_CREATE, 0, 100, NULL);
        act(&p->a);
        run_ms(p, 5); /* another file: the first one rests */
        assert_int_equal(lh_sim_platter(p->a.node, 5, &size)[0], 'x');
        assert_int_equal(size, 1000);
        do_disk(p, LH_DISK_WRITE, 1000, 512, 'x');
        do_disk(p, LH_DISK_TRUNCATE, 0, 1400, 0);
        assert_true(file_is(p, 1400, 'x'));
        assert_non_null(lh_sim_platter(p->a.node, 5, &size));
        assert_int_equal(size, 1000);
        lh_sim_file_rot(p->a.node, 5, 0, 1);
        assert_int_equal(lh_sim_platter(p->a.node, 5, &size)[0], 'x' ^ 1);
        lh_sim_power_loss(p->a.node);
        assert_int_equal(lh_sim_file(p->a.node, 5, &size)[0], 'x' ^ 1);
        uint64_t other;
        bool both = lh_sim_file(p->a.node, 6, &other) != NULL; /* its name was not synced */
        assert_int_equal(lh_sim_disk_used(p->a.node), size + (both ? 100 : 0));
        lost += size == 1000;
        kept += size == 1400;
        pair_destroy(p);
    }
    assert_true(lost > 0 && kept > 0);
}

static void a_mended_disk_is_well(void **state)
{
    struct pair *p = pair_create(26);

    (void)state;
    do_disk(p, LH_DISK_CREATE, 0, 0, 0);
    lh_sim_disk_stall(p->a.node, true);
    lh_sim_disk_slow(p->a.node, lh_milliseconds(300));
    lh_sim_disk_capacity(p->a.node, 1);
    lh_sim_disk_fail(p->a.node, LH_DISK_WRITE, LH_ERR_IO, 7);
    lh_sim_disk_misdirect(p->a.node, 77, 0);
    lh_sim_mend_disk(p->a.node);
    assert_int_equal(do_disk(p, LH_DISK_WRITE, 0, 100, 'x'), LH_OK);
    assert_true(file_is(p, 100, 'x'));
    pair_destroy(p);
}

/* ---- Metadata store ---- */

static void commit(struct toy *t, uint64_t ticket, const char *key, const char *value)
{
    lh_fx_persist(&t->todo, ticket);
    if (value == NULL)
        lh_fx_delete(&t->todo, key, strlen(key));
    else
        lh_fx_put(&t->todo, key, strlen(key), value, strlen(value));
}

static void commits_take_effect_in_order_and_are_sorted_by_key(void **state)
{
    struct pair *p = pair_create(30);

    (void)state;
    commit(&p->a, 1, "b", "1");
    commit(&p->a, 2, "ab", "2");
    commit(&p->a, 3, "a", "3");
    commit(&p->a, 4, "b", "4");
    commit(&p->a, 5, "ab", NULL);
    commit(&p->a, 6, "none", NULL);
    act(&p->a);
    run_ms(p, 50);
    assert_int_equal(count_of(&p->a, LH_IN_PERSISTED), 6);
    uint64_t next = 1;
    for (size_t i = 0; i < p->a.count; i++)
        if (p->a.seen[i].kind == LH_IN_PERSISTED)
            assert_int_equal(p->a.seen[i].ticket, next++);
    assert_int_equal(lh_sim_store_count(p->a.node), 2);
    assert_memory_equal(lh_sim_store_pair(p->a.node, 0)->key, "a", 1);
    assert_memory_equal(lh_sim_store_get(p->a.node, "b", 1)->value, "4", 1);
    assert_null(lh_sim_store_get(p->a.node, "ab", 2));
    pair_destroy(p);
}

static void a_crash_leaves_the_first_of_the_commits_under_way(void **state)
{
    bool seen[4] = {false};

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct pair *p = pair_create(seed);
        commit(&p->a, 1, "1", "x");
        commit(&p->a, 2, "2", "x");
        commit(&p->a, 3, "3", "x");
        act(&p->a);
        lh_sim_crash(p->a.node);
        size_t n = lh_sim_store_count(p->a.node);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(lh_sim_store_pair(p->a.node, i)->key[0], '1' + i);
        seen[n] = true;
        lh_sim_start(p->a.node);
        run_ms(p, 20);
        assert_int_equal(count_of(&p->a, LH_IN_PERSISTED), 0);
        assert_int_equal(lh_sim_store_count(p->a.node), n);
        pair_destroy(p);
    }
    assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
}

static void after_a_failed_commit_nothing_is_durable_before_the_next_start(void **state)
{
    size_t done = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct pair *p = pair_create(seed);
        lh_sim_store_fail(p->a.node, LH_ERR_IO);
        commit(&p->a, 1, "a", "v");
        commit(&p->a, 2, "b", "v");
        act(&p->a);
        run_ms(p, 20);
        assert_int_equal(count_of(&p->a, LH_IN_PERSISTED), 2);
        assert_int_equal(last_of(&p->a, LH_IN_PERSISTED)->error, LH_ERR_IO);
        done += lh_sim_store_get(p->a.node, "a", 1) != NULL; /* who knows? */
        assert_null(lh_sim_store_get(p->a.node, "b", 1));

        lh_sim_crash(p->a.node);
        lh_sim_start(p->a.node);
        commit(&p->a, 3, "c", "v");
        act(&p->a);
        run_ms(p, 20);
        assert_int_equal(last_of(&p->a, LH_IN_PERSISTED)->error, LH_OK);
        assert_non_null(lh_sim_store_get(p->a.node, "c", 1));
        pair_destroy(p);
    }
    assert_in_range(done, 1, 39);
}

static void commits_wait_for_a_stalled_disk_and_keep_their_order(void **state)
{
    struct pair *p = pair_create(32);

    (void)state;
    lh_sim_disk_stall(p->a.node, true);
    commit(&p->a, 1, "k", "1");
    commit(&p->a, 2, "k", "2");
    commit(&p->a, 3, "k", "3");
    act(&p->a);
    run_ms(p, 5000);
    assert_int_equal(lh_sim_store_count(p->a.node), 0);
    commit(&p->a, 4, "k", "4");
    act(&p->a);
    lh_sim_disk_stall(p->a.node, false);
    run_ms(p, 20);
    assert_int_equal(count_of(&p->a, LH_IN_PERSISTED), 4);
    assert_int_equal(last_of(&p->a, LH_IN_PERSISTED)->ticket, 4);
    assert_memory_equal(lh_sim_store_get(p->a.node, "k", 1)->value, "4", 1);

    /* A crash meanwhile leaves some of them. */
    lh_sim_disk_stall(p->a.node, true);
    commit(&p->a, 5, "k", "5");
    commit(&p->a, 6, "k", "6");
    act(&p->a);
    run_ms(p, 100);
    lh_sim_crash(p->a.node);
    lh_sim_start(p->a.node);
    run_ms(p, 5000);
    assert_int_equal(count_of(&p->a, LH_IN_PERSISTED), 4);
    pair_destroy(p);
}

/* ---- The run as a whole ---- */

static void answer(struct toy *t, const struct lh_input *in, struct lh_effects *fx)
{
    if (in->kind == LH_IN_MESSAGE && t->count < 400) {
        Leasehold__AppendReply reply = LEASEHOLD__APPEND_REPLY__INIT;
        Leasehold__AppendRequest request = LEASEHOLD__APPEND_REQUEST__INIT;
        bool served = (in->link & LH_LINK_SERVED) != 0;
        lh_fx_send(fx, in->link, served ? &reply.base : &request.base, NULL);
    }
}

static uint64_t hash_of_a_run(uint64_t seed, uint64_t *events)
{
    struct pair *p = linked(seed);

    p->a.react = p->b.react = answer;
    say(&p->a, 1, 1, "x");
    act(&p->a);
    run_ms(p, 20);
    lh_sim_break(p->a.node, p->b.node);
    run_ms(p, 20);
    uint64_t hash = lh_sim_hash(p->sim);
    *events = lh_sim_events(p->sim);
    pair_destroy(p);
    return hash;
}

static void the_same_seed_gives_the_same_run(void **state)
{
    uint64_t events[3];
    uint64_t one = hash_of_a_run(1, &events[0]);

    (void)state;
    assert_true(one == hash_of_a_run(1, &events[1]));
    assert_int_equal(events[0], events[1]);
    assert_true(one != hash_of_a_run(2, &events[2]));
}

struct moments {
    struct lh_sim *sim;
    size_t scripts, observed;
};

static void note_a_call(void *arg)
{
    struct moments *m = arg;

    m->scripts++;
    lh_sim_note(m->sim, "a script is called");
}

static void observe_a_note(void *arg, const char *text)
{
    struct moments *m = arg;

    assert_string_equal(text, "a script is called");
    m->observed++;
}

static bool reached_three(void *arg)
{
    return ((struct moments *)arg)->scripts >= 3;
}

static void scripts_and_watchers_are_called_at_their_moments(void **state)
{
    struct pair *p = pair_create(40);
    struct moments m = {.sim = p->sim};

    (void)state;
    lh_sim_watch(p->sim, &(struct lh_sim_watcher){.arg = &m, .noted = observe_a_note});
    for (uint64_t i = 1; i <= 3; i++)
        lh_sim_at(p->sim, lh_milliseconds(10 * i), note_a_call, &m);
    run_ms(p, 10);
    assert_int_equal(m.scripts, 1);
    assert_int_equal(m.observed, 1);
    assert_true(lh_sim_run_until(p->sim, reached_three, &m, lh_seconds(1)));
    assert_int_equal(lh_sim_now(p->sim), 30000000);
    assert_int_equal(m.observed, lh_sim_events(p->sim));
    m.scripts = 0;
    assert_false(lh_sim_run_until(p->sim, reached_three, &m, lh_seconds(1)));
    assert_int_equal(lh_sim_now(p->sim), 1030000000);
    pair_destroy(p);
}

static void streams_of_numbers_do_not_disturb_each_other(void **state)
{
    struct lh_sim_config config = lh_sim_config_default(43);
    struct lh_sim *one = lh_sim_create(&config), *two = lh_sim_create(&config);

    (void)state;
    for (int i = 0; i < 5; i++)
        lh_prng_next(lh_sim_stream(one, LH_SIM_NEMESIS));
    assert_true(lh_prng_next(lh_sim_stream(one, LH_SIM_WORKLOAD)) ==
                lh_prng_next(lh_sim_stream(two, LH_SIM_WORKLOAD)));
    assert_true(lh_prng_next(lh_sim_stream(two, LH_SIM_NEMESIS)) !=
                lh_prng_next(lh_sim_stream(two, LH_SIM_NETWORK)));
    lh_sim_destroy(one);
    lh_sim_destroy(two);
}

/* Writes what it sees in short: a < b says that a takes a message and that it came from b. */
struct diary {
    char text[2048];
    size_t used;
};

static void write_down(struct diary *d, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int n = vsnprintf(d->text + d->used, sizeof d->text - d->used, format, args);
    va_end(args);
    assert_true(n >= 0 && d->used + (size_t)n < sizeof d->text);
    d->used += (size_t)n;
}

static void see_message(
    struct diary *d, const struct lh_sim_sight *s, const char *way, enum lh_direction direction)
{
    assert_int_equal(s->direction, direction);
    write_down(d, "%s%s%s %u:%u:%zu\n", lh_sim_name(s->node), way, lh_sim_name(s->peer),
        (unsigned)s->link, (unsigned)number_sent(s->message), s->payload->size);
}

static void see_take(void *arg, const struct lh_sim_sight *s)
{
    assert_null(s->effect);
    if (s->input->kind == LH_IN_MESSAGE)
        see_message(arg, s, " < ", LH_REQUEST);
    else if (s->input->kind == LH_IN_LINK_OPENED)
        write_down(arg, "%s hears of %u from %s\n", lh_sim_name(s->node), (unsigned)s->link,
            lh_sim_name(s->peer));
}

static void see_deed(void *arg, const struct lh_sim_sight *s)
{
    assert_null(s->input);
    if (s->effect->kind == LH_FX_SEND)
        see_message(arg, s, " > ", LH_REQUEST);
    else if (s->effect->kind == LH_FX_OPEN)
        write_down(arg, "%s opens %u to %s\n", lh_sim_name(s->node), (unsigned)s->link,
            s->peer == NULL ? "nobody" : lh_sim_name(s->peer));
    else if (s->effect->kind == LH_FX_DISK)
        write_down(arg, "%s wants its disk\n", lh_sim_name(s->node));
}

static void see_step(void *arg, struct lh_sim_node *node)
{
    write_down(arg, "%s.\n", lh_sim_name(node));
}

static void see_life(void *arg, struct lh_sim_node *node, enum lh_sim_life what)
{
    static const char *const names[] = {
        "starts", "stops", "crashes", "loses power", "pauses", "resumes"};

    write_down(arg, "%s %s\n", lh_sim_name(node), names[what]);
}

static void see_disk(void *arg, struct lh_sim_node *node, uint64_t file, enum lh_disk_op op,
    uint64_t offset, uint64_t length, int error)
{
    write_down(arg, "disk of %s: %d on %u at %u+%u: %s\n", lh_sim_name(node), (int)op,
        (unsigned)file, (unsigned)offset, (unsigned)length, lh_error_name(error));
}

static void see_commit(void *arg, struct lh_sim_node *node)
{
    write_down(arg, "%s commits\n", lh_sim_name(node));
}

static void see_note(void *arg, const char *text)
{
    write_down(arg, "(%s)\n", text);
}

static void watch(struct pair *p, struct diary *d)
{
    lh_sim_watch(p->sim, &(struct lh_sim_watcher){.arg = d,
                             .takes = see_take,
                             .does = see_deed,
                             .stepped = see_step,
                             .lives = see_life,
                             .disk = see_disk,
                             .committed = see_commit,
                             .noted = see_note});
}

static void a_watcher_sees_what_nodes_take_and_do_in_order(void **state)
{
    struct pair *p = pair_create(44);
    struct diary d = {0};

    (void)state;
    watch(p, &d);
    lh_fx_open(&p->a.todo, 7, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
    say(&p->a, 7, 77, "abc");
    disk(&p->a, LH_DISK_CREATE, 0, 64, 0);
    act(&p->a);
    run_ms(p, 10);
    assert_non_null(strstr(d.text, "a opens 1 to b\na > b 1:77:3\na wants its disk\na.\n"));
    assert_non_null(strstr(d.text, "disk of a: 0 on 5 at 0+64: OK\na.\n"));
    assert_non_null(strstr(d.text, "b hears of 1 from a\nb.\n"));
    assert_non_null(strstr(d.text, "b < a 1:77:3\nb.\n"));

    d = (struct diary){0};
    commit(&p->a, 1, "k", "v");
    act(&p->a);
    run_ms(p, 10);
    assert_string_equal(d.text, "a.\na commits\na.\n");

    /* What was decided before a pause is seen when it is done. */
    d = (struct diary){0};
    lh_fx_open(&p->a.todo, 8, LH_METHOD_APPEND, "nowhere", LH_DURATION_FOREVER);
    lh_sim_pause_in_step(p->a.node);
    act(&p->a);
    lh_sim_resume(p->a.node);
    assert_string_equal(d.text, "(a is paused in the middle of a step)\na pauses\n"
                                "(a goes on)\na resumes\na opens 2 to nobody\na.\n");

    /* A step that wants nothing done is one too; one that a crash cut off is none. */
    d = (struct diary){0};
    lh_sim_pause_in_step(p->a.node);
    lh_sim_call(p->a.node, &p->a);
    run_ms(p, 1);
    lh_sim_resume(p->a.node);
    assert_non_null(strstr(d.text, "a resumes\na.\n"));
    d = (struct diary){0};
    lh_sim_pause_in_step(p->a.node);
    commit(&p->a, 2, "k", "w");
    act(&p->a);
    lh_sim_crash(p->a.node);
    assert_string_equal(d.text, "(a is paused in the middle of a step)\na pauses\n"
                                "(a crashes)\na crashes\n");
    run_ms(p, 10);

    d = (struct diary){0};
    lh_sim_power_loss(p->b.node);
    assert_string_equal(d.text, "(b loses power)\nb loses power\n");
    pair_destroy(p);
}

static void watchers_change_nothing(void **state)
{
    struct diary d = {0};
    uint64_t hashes[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pair *p = pair_create(45);
        if (i == 1)
            watch(p, &d);
        lh_fx_open(&p->a.todo, 1, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
        say(&p->a, 1, 1, "x");
        act(&p->a);
        run_ms(p, 10);
        lh_sim_crash(p->b.node);
        run_ms(p, 10);
        hashes[i] = lh_sim_hash(p->sim);
        pair_destroy(p);
    }
    assert_true(hashes[0] == hashes[1]);
    assert_true(d.used > 0);
}

static void what_is_said_and_written_tells_two_runs_apart(void **state)
{
    static const char *const said[] = {"x", "y"};
    uint64_t hashes[4];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct pair *p = linked(46);
        say(&p->a, 1, 1, said[i % 2]);
        disk(&p->a, LH_DISK_WRITE, 0, 1, i < 2 ? 'x' : 'y');
        p->a.todo.items[p->a.todo.count - 1].ticket = 1;
        act(&p->a); /* the step alone: nothing has arrived yet */
        hashes[i] = lh_sim_hash(p->sim);
        pair_destroy(p);
    }
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(hashes[i] != hashes[k]);
}

static void the_first_failure_is_kept_and_stops_the_run(void **state)
{
    struct pair *p = linked(41);

    (void)state;
    assert_null(lh_sim_failure(p->sim));
    lh_sim_fail(p->sim, "INV-1", 5, "it has two primaries");
    lh_sim_fail(p->sim, "INV-2", 6, "another");
    assert_string_equal(lh_sim_failure(p->sim), "INV-1 at 10.000 ms: it has two primaries");
    assert_string_equal(lh_sim_failed_rule(p->sim), "INV-1");
    assert_int_equal(lh_sim_failed_chunk(p->sim), 5);
    assert_int_equal(lh_sim_failed_at(p->sim), 10000000);
    say(&p->a, 1, 1, NULL);
    lh_sim_call(p->a.node, &p->a);
    assert_false(lh_sim_run_one(p->sim));
    pair_destroy(p);
}

static void the_trace_tells_what_was_said(void **state)
{
    struct pair *p = pair_create(42);
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);

    (void)state;
    lh_sim_trace_to(p->sim, to);
    lh_fx_open(&p->a.todo, 1, LH_METHOD_APPEND, "b", LH_DURATION_FOREVER);
    say(&p->a, 1, 77, "abc");
    act(&p->a);
    run_ms(p, 10);
    lh_sim_crash(p->b.node);
    lh_sim_trace_to(p->sim, NULL);
    fclose(to);
    assert_non_null(strstr(text, "a    > 1 append{parts{lane=77 } } +3 bytes"));
    assert_non_null(strstr(text, "b    < S1 append{parts{lane=77 } } +3 bytes"));
    assert_non_null(strstr(text, "b    < S1 append opened by a"));
    assert_non_null(strstr(text, "b crashes"));
    free(text);
    pair_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_gains_exactly_its_rate),
        cmocka_unit_test(no_fraction_is_lost_when_the_rate_changes),
        cmocka_unit_test(a_deadline_is_met_at_the_first_moment_that_reaches_it),
        cmocka_unit_test(events_keep_their_order_at_equal_times),
        cmocka_unit_test(a_timer_never_fires_early_whatever_the_clock_does),
        cmocka_unit_test(timers_can_be_made_late),
        cmocka_unit_test(a_wall_clock_jumps_and_nothing_else_does),
        cmocka_unit_test(a_calls_deadline_is_by_its_openers_clock),
        cmocka_unit_test(messages_arrive_in_order_and_whole),
        cmocka_unit_test(what_was_sent_before_a_served_close_arrives),
        cmocka_unit_test(an_opener_that_closes_cancels),
        cmocka_unit_test(nobody_there_is_refused_soon_and_no_machine_is_silence),
        cmocka_unit_test(a_calls_deadline_ends_it_at_both_ends),
        cmocka_unit_test(a_break_loses_a_suffix_and_both_ends_hear_of_it),
        cmocka_unit_test(a_short_cut_only_delays),
        cmocka_unit_test(a_long_cut_is_noticed_at_both_ends_each_at_its_time),
        cmocka_unit_test(a_crash_is_heard_soon_and_a_power_loss_late),
        cmocka_unit_test(a_held_link_waits),
        cmocka_unit_test(a_clogged_line_delays_and_nobody_notices),
        cmocka_unit_test(who_does_not_notice_silence_waits_for_the_calls_deadline),
        cmocka_unit_test(a_connection_can_break_at_one_end_alone),
        cmocka_unit_test(a_call_on_its_way_does_not_break_at_a_server_that_has_not_heard_of_it),
        cmocka_unit_test(a_narrow_line_carries_so_many_bytes_a_second_in_order),
        cmocka_unit_test(a_few_messages_take_much_longer),
        cmocka_unit_test(everything_about_a_network_can_be_mended_at_once),
        cmocka_unit_test(a_paused_process_misses_nothing_and_its_clock_goes_on),
        cmocka_unit_test(a_pause_in_a_step_lies_between_decision_and_deed),
        cmocka_unit_test(a_process_that_crashes_while_paused_hears_nothing_any_more),
        cmocka_unit_test(a_clean_stop_ends_the_process_when_the_core_says_so),
        cmocka_unit_test(a_core_that_spins_is_found_out),
        cmocka_unit_test(files_do_what_files_do),
        cmocka_unit_test(what_was_synced_survives_a_power_loss),
        cmocka_unit_test(what_was_not_synced_survives_a_crash_but_a_power_loss_as_it_likes),
        cmocka_unit_test(a_sync_covers_only_what_was_known_done_when_it_was_emitted),
        cmocka_unit_test(a_cut_that_was_not_synced_can_come_back_to_life),
        cmocka_unit_test(after_a_failed_sync_the_pages_count_as_clean),
        cmocka_unit_test(a_full_disk_refuses_what_is_new_and_takes_what_was_reserved),
        cmocka_unit_test(a_stalled_disk_answers_when_it_goes_on),
        cmocka_unit_test(a_slow_disk_takes_longer),
        cmocka_unit_test(the_platter_shows_what_was_synced),
        cmocka_unit_test(a_misdirected_write_hits_another_place_and_says_all_is_well),
        cmocka_unit_test(a_file_that_rested_is_torn_like_any_other),
        cmocka_unit_test(a_mended_disk_is_well),
        cmocka_unit_test(commits_take_effect_in_order_and_are_sorted_by_key),
        cmocka_unit_test(a_crash_leaves_the_first_of_the_commits_under_way),
        cmocka_unit_test(after_a_failed_commit_nothing_is_durable_before_the_next_start),
        cmocka_unit_test(commits_wait_for_a_stalled_disk_and_keep_their_order),
        cmocka_unit_test(the_same_seed_gives_the_same_run),
        cmocka_unit_test(scripts_and_watchers_are_called_at_their_moments),
        cmocka_unit_test(streams_of_numbers_do_not_disturb_each_other),
        cmocka_unit_test(a_watcher_sees_what_nodes_take_and_do_in_order),
        cmocka_unit_test(watchers_change_nothing),
        cmocka_unit_test(what_is_said_and_written_tells_two_runs_apart),
        cmocka_unit_test(the_first_failure_is_kept_and_stops_the_run),
        cmocka_unit_test(the_trace_tells_what_was_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
