/* Every order of events in a very small world: the exploration itself, on a space of which we know
 * everything; the lease engine and the real cores, in which nothing must break; and planted bugs,
 * which must be found, each by the fewest moves that show it.
 *
 * The numbers of states are part of the tests. They change with the engine and with the moves, and
 * should: but if they fall, less is looked at than before, and somebody should know why. */
#include "base/prng.h"
#include "base/probe.h"
#include "sim/smallscope/cores.h"
#include "sim/smallscope/engine.h"
#include "sim/smallscope/explore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STATES_MAX 2000000u

/* Each way begins with a whole cluster, which sanitizers make slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CORES_DEPTH   3
#define CORES_VISITED 771
#else
#define CORES_DEPTH   4
#define CORES_VISITED 4880
#endif

/* ------------------------------------------------------------------------------------------------
 * A space of which we know everything: a token on a board of SIDE x SIDE fields goes right or down,
 * and never leaves it. */

#define SIDE 8u

struct board {
    unsigned right, down;
    unsigned trap; /* this far to the right and down; 0: there is none */
};

static void board_begin(void *self, FILE *words)
{
    struct board *b = self;

    b->right = b->down = 0;
    if (words != NULL)
        (void)fprintf(words, "a board\n");
}

static size_t board_moves(void *self, lh_move *moves)
{
    const struct board *b = self;
    size_t n = 0;

    if (b->right + 1 < SIDE)
        moves[n++] = 'r';
    if (b->down + 1 < SIDE)
        moves[n++] = 'd';
    return n;
}

static void board_make(void *self, lh_move move)
{
    struct board *b = self;

    b->right += move == 'r';
    b->down += move == 'd';
}

static struct lh_fingerprint board_fingerprint(void *self)
{
    const struct board *b = self;
    uint64_t field = lh_mix64(b->right * SIDE + b->down + 1);
    uint64_t mirrored = lh_mix64(b->down * SIDE + b->right + 1);

    return (struct lh_fingerprint){.exact = field, .kind = field < mirrored ? field : mirrored};
}

static const char *board_violation(void *self)
{
    const struct board *b = self;

    return b->trap != 0 && b->right == b->trap && b->down == b->trap ? "the trap" : NULL;
}

static struct lh_space board_space(struct board *b)
{
    return (struct lh_space){
        b, board_begin, board_moves, board_make, board_fingerprint, board_violation};
}

static void everything_is_visited_once_and_then_it_ends(void **state)
{
    struct board b = {0};
    struct lh_space space = board_space(&b);
    struct lh_explore_result r;
    (void)state;

    lh_explore(&space, LH_EXPLORE_DEPTH_MAX, STATES_MAX, NULL, &r);
    assert_int_equal(r.end, LH_EXPLORE_EXHAUSTED);
    assert_int_equal(r.distinct, SIDE * (SIDE + 1) / 2); /* a field and its mirror image are one */
}

static void depth_is_the_number_of_moves(void **state)
{
    struct board b = {0};
    struct lh_space space = board_space(&b);
    struct lh_explore_result r;
    (void)state;

    lh_explore(&space, 2, STATES_MAX, NULL, &r);
    assert_int_equal(r.end, LH_EXPLORE_DEPTH);
    assert_int_equal(r.depth, 2);
    assert_int_equal(r.distinct, 1 + 1 + 2); /* start; r or d; rr or dd, rd or dr */
}

static void a_violation_comes_with_the_fewest_moves(void **state)
{
    struct board b = {.trap = 2};
    struct lh_space space = board_space(&b);
    struct lh_explore_result r;
    (void)state;

    lh_explore(&space, LH_EXPLORE_DEPTH_MAX, STATES_MAX, NULL, &r);
    assert_int_equal(r.end, LH_EXPLORE_VIOLATION);
    assert_string_equal(r.violation, "the trap");
    assert_int_equal(r.move_count, 4);

    /* They lead there again. */
    char *words = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&words, &size);
    lh_explore_narrate(&space, r.moves, r.move_count, to);
    (void)fclose(to);
    assert_non_null(board_violation(&b));
    assert_memory_equal(words, "a board\n", 8);
    free(words);
}

static void the_limit_of_states_is_kept_and_told(void **state)
{
    struct board b = {0};
    struct lh_space space = board_space(&b);
    struct lh_explore_result r;
    (void)state;

    lh_explore(&space, LH_EXPLORE_DEPTH_MAX, 5, NULL, &r);
    assert_int_equal(r.end, LH_EXPLORE_FULL);
    assert_int_equal(r.distinct, 5);
    assert_int_equal(r.depth, 2); /* what three moves lead to is not all there */
}

/* ------------------------------------------------------------------------------------------------
 * The lease engine. */

static void explore_engine(unsigned depth, struct lh_explore_result *r)
{
    struct lh_engine *e = lh_engine_create();
    struct lh_space space = lh_engine_space(e);

    lh_explore(&space, depth, STATES_MAX, NULL, r);
    if (r->violation != NULL)
        lh_explore_narrate(&space, r->moves, r->move_count, stdout);
    lh_engine_destroy(e);
}

static void nothing_that_seven_moves_can_do_breaks_an_invariant(void **state)
{
    struct lh_explore_result r;
    (void)state;

    explore_engine(7, &r);
    assert_int_equal(r.end, LH_EXPLORE_DEPTH);
    assert_int_equal(r.visited, 2175025);
    assert_int_equal(r.distinct, 726116);
}

static void a_counterexample_is_told_in_words(void **state)
{
    struct lh_engine *e = lh_engine_create();
    struct lh_space space = lh_engine_space(e);
    struct lh_explore_result r;
    char *words = NULL;
    size_t size = 0;
    (void)state;

    assert_true(lh_plant("leases-forgotten-on-restart", true));
    lh_explore(&space, LH_EXPLORE_DEPTH_MAX, STATES_MAX, NULL, &r);
    FILE *to = open_memstream(&words, &size);
    lh_explore_narrate(&space, r.moves, r.move_count, to);
    (void)fclose(to);
    lh_plant_none();
    lh_engine_destroy(e);

    assert_string_equal(words,
        "A term is 200 ms for a session, 300 ms for a lease; clocks are up to 20 % off. A and B "
        "have registered.\n"
        "  1. the grantor grants version 1 to A\n"
        "  2. A hears the grant of version 1; A takes it\n"
        "     A may act at version 1 for 134 ms of its clock\n"
        "  3. the grantor crashes and starts again\n"
        "     A may act at version 1 for 134 ms of its clock\n"
        "  4. B registers, registration 2 of incarnation 1, showing no lease\n"
        "     A may act at version 1 for 134 ms of its clock\n"
        "  5. the grantor hears B's registration 1.2; the grantor opens session 2\n"
        "     A may act at version 1 for 134 ms of its clock\n"
        "  6. the grantor grants version 2 to B\n"
        "     A may act at version 1 for 134 ms of its clock\n"
        "     INV-2: granted while the other holder may still act\n");
    free(words);
}

static void planted_bugs_are_found(void **state)
{
    static const struct {
        const char *name, *rule;
        unsigned moves;
    } bugs[] = {
        {"delayed-grant-revives-lease", "INV-3", 5},
        {"leases-freed-on-reregistration", "INV-2", 5},
        {"leases-forgotten-on-restart", "INV-2", 6},
        {"no-drift-margin", "INV-2", 6},
        {"chunk-lease-outlives-session", "INV-2", 6},
        {"any-version-released", "INV-2", 7},
        {"holder-counts-from-receipt", "INV-2", 8},
    };
    (void)state;

    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        struct lh_explore_result r;
        print_message("%s\n", bugs[i].name);
        assert_true(lh_plant(bugs[i].name, true));
        explore_engine(bugs[i].moves, &r);
        lh_plant_none();
        assert_int_equal(r.end, LH_EXPLORE_VIOLATION);
        assert_memory_equal(r.violation, bugs[i].rule, strlen(bugs[i].rule));
        assert_int_equal(r.move_count, bugs[i].moves);
    }
}

/* ------------------------------------------------------------------------------------------------
 * The real cores. */

static void explore_cores(unsigned depth, struct lh_explore_result *r, char *violation, size_t size)
{
    struct lh_cores *c = lh_cores_create();
    struct lh_space space = lh_cores_space(c);

    lh_explore(&space, depth, STATES_MAX, NULL, r);
    violation[0] = '\0';
    if (r->violation != NULL) {
        (void)snprintf(violation, size, "%s", r->violation);
        lh_explore_narrate(&space, r->moves, r->move_count, stdout);
    }
    lh_cores_destroy(c);
}

static void nothing_that_a_few_moves_can_do_to_the_cores_breaks_an_invariant(void **state)
{
    struct lh_explore_result r;
    char violation[256];
    (void)state;

    explore_cores(CORES_DEPTH, &r, violation, sizeof violation);
    assert_int_equal(r.end, LH_EXPLORE_DEPTH);
    assert_int_equal(r.visited, CORES_VISITED);
    assert_int_equal(r.distinct, CORES_VISITED); /* every way is one */
}

static void planted_bugs_are_found_in_the_cores(void **state)
{
    static const struct {
        const char *name, *rule;
        unsigned moves;
    } bugs[] = {
        {"regrant-when-session-breaks", "INV-2", 2},
        {"leases-freed-on-reregistration", "INV-2", 2},
        {"leases-forgotten-on-restart", "INV-2", 3},
        {"no-drift-margin", "INV-2", 3},
        {"chunk-lease-outlives-session", "INV-2", 3},
        {"grantor-clock-read-before-receipt", "INV-2", 4},
    };
    (void)state;

    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        struct lh_explore_result r;
        char violation[256];
        print_message("%s\n", bugs[i].name);
        assert_true(lh_plant(bugs[i].name, true));
        explore_cores(bugs[i].moves, &r, violation, sizeof violation);
        lh_plant_none();
        assert_int_equal(r.end, LH_EXPLORE_VIOLATION);
        assert_memory_equal(violation, bugs[i].rule, strlen(bugs[i].rule));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_visited_once_and_then_it_ends),
        cmocka_unit_test(depth_is_the_number_of_moves),
        cmocka_unit_test(a_violation_comes_with_the_fewest_moves),
        cmocka_unit_test(the_limit_of_states_is_kept_and_told),
        cmocka_unit_test(nothing_that_seven_moves_can_do_breaks_an_invariant),
        cmocka_unit_test(a_counterexample_is_told_in_words),
        cmocka_unit_test(planted_bugs_are_found),
        cmocka_unit_test(nothing_that_a_few_moves_can_do_to_the_cores_breaks_an_invariant),
        cmocka_unit_test(planted_bugs_are_found_in_the_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
