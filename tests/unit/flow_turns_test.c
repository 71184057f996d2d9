/* Whose part goes with a message (flow/turns.h). The test is the stream; a flow is a letter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/prng.h"
#include "flow/turns.h"

#include <stdlib.h>

struct flow {
    struct lh_turn turn;
    char name;
    uint64_t waiting; /* bytes that it has to send */
    uint64_t whole;   /* pieces of it cannot be divided below this */
    uint64_t sent, turns;
};

static const struct lh_turns_message fresh = {
    .parts_most = 8, .bytes_most = 1000, .little_bytes = 100};

static void enlist(struct lh_turns *turns, struct flow *f)
{
    if (f->waiting > 0 && !lh_turn_waits(&f->turn))
        lh_turns_enlist(turns, &f->turn, f->waiting <= fresh.little_bytes);
}

/* One turn: as many bytes as may go, in whole pieces. */
static uint64_t put(struct flow *f, uint64_t most)
{
    uint64_t bytes = f->waiting < most ? f->waiting : most;

    if (f->whole > 0)
        bytes -= bytes % f->whole;
    f->waiting -= bytes;
    f->sent += bytes;
    f->turns++;
    return bytes;
}

/* Makes one message; writes down whose parts are in it. */
static struct lh_turns_message send_message(
    struct lh_turns *turns, struct lh_turns_message m, char *names)
{
    struct lh_turn *turn;
    uint64_t most;

    while ((turn = lh_turns_next(turns, &m, &most)) != NULL) {
        struct flow *f = LH_OWNER(turn, struct flow, turn);
        uint64_t bytes = put(f, most);
        m.bytes += bytes;
        if (bytes > 0 && names != NULL)
            names[m.parts] = f->name;
        m.parts += bytes > 0;
        if (bytes == 0 && f->waiting > 0)
            lh_turns_enlist(turns, turn, false);
        else
            enlist(turns, f);
    }
    return m;
}

static void expect_message(struct lh_turns *turns, struct lh_turns_message m, const char *names)
{
    char sent[64] = "";

    (void)send_message(turns, m, sent);
    assert_string_equal(sent, names);
}

static void those_with_little_go_first(void **state)
{
    struct flow big = {.name = 'B', .waiting = 5000}, a = {.name = 'a', .waiting = 100},
                b = {.name = 'b', .waiting = 1};
    struct lh_turns turns = {0};

    (void)state;
    enlist(&turns, &big);
    enlist(&turns, &a);
    enlist(&turns, &b);
    expect_message(&turns, fresh, "abB");
    expect_message(&turns, fresh, "B");
    assert_int_equal(big.sent, 2000);
    assert_false(lh_turns_are_over(&turns));
    lh_turns_unlist(&big.turn);
    assert_true(lh_turns_are_over(&turns));
}

/* Many small ones do not keep a large one from its turn: half of the message is theirs. */
static void half_of_a_message_is_for_those_with_much(void **state)
{
    struct flow big = {.name = 'B', .waiting = 5000}, small[12];
    struct lh_turns turns = {0};

    (void)state;
    enlist(&turns, &big);
    for (size_t i = 0; i < 12; i++) {
        small[i] = (struct flow){.name = (char)('a' + i), .waiting = 100};
        enlist(&turns, &small[i]);
    }
    expect_message(&turns, fresh, "abcdeB");
    lh_turns_unlist(&big.turn);
    expect_message(&turns, fresh, "fghijkl"); /* and all of it if nobody has much */
}

static void those_with_much_take_turns(void **state)
{
    struct flow flows[3];
    struct lh_turns turns = {0};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        flows[i] = (struct flow){.name = (char)('A' + i), .waiting = 10000};
        enlist(&turns, &flows[i]);
    }
    expect_message(&turns, fresh, "A");
    expect_message(&turns, fresh, "B");
    expect_message(&turns, fresh, "C");
    expect_message(&turns, fresh, "A");
    /* Those with less than half of a message share it, each with one turn. */
    for (size_t i = 0; i < 3; i++)
        flows[i].waiting = flows[i].whole = 150;
    flows[1].waiting = 300;
    expect_message(&turns, fresh, "BCA");
}

/* What cannot be divided, and is larger than what others leave of a message, goes all the same. */
static void the_first_with_much_has_a_whole_message(void **state)
{
    struct flow big = {.name = 'B', .waiting = 900, .whole = 900}, small[5];
    struct lh_turns turns = {0};

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        small[i] = (struct flow){.name = (char)('a' + i), .waiting = 100};
        enlist(&turns, &small[i]);
    }
    enlist(&turns, &big);
    expect_message(&turns, fresh, "abcdeB");
}

static void one_that_may_send_nothing_holds_up_no_other(void **state)
{
    struct flow stuck = {.name = 'S', .waiting = 5000, .whole = 4000},
                other = {.name = 'O', .waiting = 500};
    struct lh_turns turns = {0};

    (void)state;
    enlist(&turns, &stuck);
    enlist(&turns, &other);
    expect_message(&turns, fresh, "O");
    assert_true(lh_turn_waits(&stuck.turn));
    expect_message(&turns, fresh, "");
    assert_true(lh_turn_waits(&stuck.turn));
}

static void a_message_has_so_many_parts(void **state)
{
    struct flow small[12];
    struct lh_turns turns = {0};
    struct lh_turns_message m = fresh;

    (void)state;
    for (size_t i = 0; i < 12; i++) {
        small[i] = (struct flow){.name = (char)('a' + i), .waiting = 1};
        enlist(&turns, &small[i]);
    }
    expect_message(&turns, fresh, "abcdefgh");
    m.parts = m.parts_most; /* as many were in it already */
    expect_message(&turns, m, "");
    m.parts = 5;
    struct lh_turns_message sent = send_message(&turns, m, NULL);
    assert_int_equal(sent.parts, 8);
    assert_int_equal(sent.bytes, 3);
}

/* Whatever they have: each message ends and has a bound, nobody waits for ever, and of those that
 * always have much none has more turns than another. */
static void turns_are_fair(void **state)
{
    struct lh_prng random;

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct flow flows[9] = {0};
        struct lh_turns turns = {0};
        random = (struct lh_prng){lh_mix64(seed)};
        struct lh_turns_message m = {.parts_most = 1 + lh_prng_below(&random, 9),
            .bytes_most = 1 + lh_prng_below(&random, 2000),
            .little_bytes = 1 + lh_prng_below(&random, 300)};
        size_t busy = 1 + lh_prng_below(&random, 4);
        for (unsigned round = 0; round < 400; round++) {
            for (size_t i = 0; i < 9; i++) {
                struct flow *f = &flows[i];
                if (i < busy)
                    f->waiting = 1000000;
                else if (f->waiting == 0 && lh_prng_chance(&random, 30))
                    f->waiting = 1 + lh_prng_below(&random, 200);
                enlist(&turns, f);
            }
            struct lh_turns_message sent = send_message(&turns, m, NULL);
            assert_true(sent.parts > 0 && sent.bytes > 0);
            assert_true(sent.bytes <= m.bytes_most * 2 + m.little_bytes);
        }
        for (size_t i = 0; i < busy; i++)
            assert_true(
                flows[i].turns + 1 >= flows[0].turns && flows[i].turns <= flows[0].turns + 1);
        for (size_t i = busy; i < 9; i++)
            assert_true(flows[i].sent > 0 || flows[i].waiting == 0);
        for (size_t i = 0; i < 9; i++)
            lh_turns_unlist(&flows[i].turn);
        assert_true(lh_turns_are_over(&turns));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_with_little_go_first),
        cmocka_unit_test(half_of_a_message_is_for_those_with_much),
        cmocka_unit_test(those_with_much_take_turns),
        cmocka_unit_test(the_first_with_much_has_a_whole_message),
        cmocka_unit_test(one_that_may_send_nothing_holds_up_no_other),
        cmocka_unit_test(a_message_has_so_many_parts),
        cmocka_unit_test(turns_are_fair),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
