/* How a finder finds the active master; the test plays its owner and the masters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "finder/finder.h"

#include <stdio.h>
#include <string.h>

struct world {
    struct lh_finder f;
    struct lh_instant now;
};

static void pass_ms(struct world *w, uint64_t ms)
{
    w->now = lh_instant_add(w->now, lh_milliseconds(ms));
}

static void known_to(struct world *w, const char *cluster, uint64_t reign,
    const char *const *addresses, size_t count)
{
    static const struct lh_finder_config standard;

    *w = (struct world){.now = {1000000000}};
    lh_finder_init(&w->f, &standard, cluster, addresses, count, reign);
}

static void known(struct world *w, uint64_t reign, const char *const *addresses, size_t count)
{
    known_to(w, "cluster", reign, addresses, count);
}

/* Given three masters, of which the first is the choice. */
static void three(struct world *w)
{
    static const char *const abc[] = {"a:1", "b:1", "c:1"};

    known(w, 0, abc, 3);
}

static void over(struct world *w)
{
    lh_finder_check(&w->f);
    lh_finder_deinit(&w->f);
}

/* Exactly these are asked now, in this order: "a:1 b:1", or "". */
static void expect_asked(struct world *w, const char *addresses)
{
    char asked[1024] = "";
    size_t place;

    while (lh_finder_next(&w->f, w->now, &place)) {
        lh_finder_check(&w->f);
        strcat(asked, asked[0] == '\0' ? "" : " ");
        strcat(asked, lh_finder_address_at(&w->f, place));
    }
    assert_string_equal(asked, addresses);
}

static void expect_choice(const struct world *w, const char *address, enum lh_finder_state state)
{
    assert_string_equal(lh_finder_address(&w->f), address);
    assert_int_equal(w->f.state, state);
}

static size_t place_of(const struct world *w, const char *address)
{
    for (size_t i = 0; i < LH_MASTERS_MAX; i++)
        if (w->f.masters[i].address != NULL && strcmp(w->f.masters[i].address, address) == 0)
            return i;
    fail_msg("%s is not known", address);
    return 0;
}

static bool knows(const struct world *w, const char *address)
{
    for (size_t i = 0; i < LH_MASTERS_MAX; i++)
        if (w->f.masters[i].address != NULL && strcmp(w->f.masters[i].address, address) == 0)
            return true;
    return false;
}

static void say(struct world *w, const char *from, Leasehold__MastersReply m)
{
    lh_finder_answered(&w->f, w->now, place_of(w, from), &m);
    lh_finder_check(&w->f);
}

static void acts(struct world *w, const char *from, uint64_t reign)
{
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;

    m.reign = reign;
    m.acting = true;
    say(w, from, m);
}

static void stands_by(struct world *w, const char *from, uint64_t reign, const char *active)
{
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;

    m.reign = reign;
    m.active = (char *)(uintptr_t)active;
    say(w, from, m);
}

/* One of that cluster acts, or (reign 0) has none and waits. */
static void names(struct world *w, const char *from, const char *cluster, uint64_t reign)
{
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;

    m.cluster_id = (char *)(uintptr_t)cluster;
    m.reign = reign;
    m.acting = reign != 0;
    m.store_trouble = reign != 0 ? "" : "there is no cluster yet";
    say(w, from, m);
}

static void expect_trouble(struct world *w, const char *text)
{
    char said[LH_FINDER_TEXT_MAX];

    assert_int_equal(lh_finder_trouble(&w->f, said), text != NULL);
    if (text != NULL && strstr(said, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", said, text);
}

static void is_down(struct world *w, const char *address)
{
    lh_finder_unanswered(&w->f, w->now, place_of(w, address), LH_ERR_UNAVAILABLE);
    lh_finder_check(&w->f);
}

static void choice_fails(struct world *w, int error)
{
    lh_finder_failed(&w->f, w->f.choices, error);
    lh_finder_check(&w->f);
}

/* ---- Who is asked, and believed. */

static void a_single_master_that_is_down_is_not_asked(void **state)
{
    static const char *const a[] = {"a:1"};
    static const int errors[] = {
        LH_ERR_UNAVAILABLE, LH_ERR_DEADLINE_EXCEEDED, LH_ERR_STALE_MASTER, LH_ERR_SHUTTING_DOWN};
    struct world w;

    (void)state;
    known(&w, 0, a, 1);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        choice_fails(&w, errors[i]);
    lh_finder_doubt(&w.f);
    expect_choice(&w, "a:1", LH_FINDER_UNPROVEN);
    expect_asked(&w, "");
    assert_true(lh_finder_deadline(&w.f).ns == LH_INSTANT_NEVER.ns);
    over(&w);
}

static void a_single_master_that_is_not_active_is_asked_who_is(void **state)
{
    static const char *const a[] = {"a:1"};
    struct world w;

    (void)state;
    known(&w, 0, a, 1);
    choice_fails(&w, LH_ERR_NOT_ACTIVE);
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    expect_asked(&w, "a:1");
    stands_by(&w, "a:1", 7, "b:1");
    expect_choice(&w, "a:1", LH_FINDER_LOST); /* that b acts is hearsay */
    expect_asked(&w, "b:1");
    acts(&w, "b:1", 7);
    expect_choice(&w, "b:1", LH_FINDER_PROVEN);
    expect_asked(&w, "");
    assert_true(w.f.reign == 7);
    over(&w);
}

/* Nobody else is known to be asked: it is used again, at the pace of its user. */
static void a_single_master_that_knows_nobody_is_used_again(void **state)
{
    static const char *const a[] = {"a:1"};
    struct world w;

    (void)state;
    known(&w, 0, a, 1);
    choice_fails(&w, LH_ERR_NOT_ACTIVE);
    expect_asked(&w, "a:1");
    stands_by(&w, "a:1", 7, "");
    expect_choice(&w, "a:1", LH_FINDER_UNPROVEN);
    choice_fails(&w, LH_ERR_NOT_ACTIVE);
    expect_asked(&w, ""); /* but the next round has its pause */
    pass_ms(&w, 50);
    expect_asked(&w, "a:1");
    is_down(&w, "a:1");
    expect_choice(&w, "a:1", LH_FINDER_UNPROVEN);
    over(&w);
}

static void the_first_that_acts_is_the_choice(void **state)
{
    struct world w;

    (void)state;
    three(&w);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1 c:1");
    is_down(&w, "a:1");
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    acts(&w, "c:1", 4);
    expect_choice(&w, "c:1", LH_FINDER_PROVEN);
    stands_by(&w, "b:1", 4, "c:1");
    expect_choice(&w, "c:1", LH_FINDER_PROVEN);
    assert_true(lh_finder_deadline(&w.f).ns == LH_INSTANT_NEVER.ns);
    over(&w);
}

/* A standby names the master that has just died until the store says otherwise. */
static void what_one_says_of_another_is_not_enough(void **state)
{
    struct world w;

    (void)state;
    three(&w);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1 c:1");
    stands_by(&w, "b:1", 4, "a:1");
    stands_by(&w, "c:1", 4, "a:1");
    is_down(&w, "a:1");
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    expect_asked(&w, "");
    pass_ms(&w, 50);
    expect_asked(&w, "a:1 b:1 c:1");
    acts(&w, "b:1", 5);
    expect_choice(&w, "b:1", LH_FINDER_PROVEN);
    over(&w);
}

/* etcd takes no writes: nobody acts, and what there is can be read where the reign is. */
static void who_does_not_know_whether_it_acts_is_the_choice_when_nobody_acts(void **state)
{
    Leasehold__MastersReply unconfirmed = LEASEHOLD__MASTERS_REPLY__INIT;
    struct world w;

    (void)state;
    three(&w);
    choice_fails(&w, LH_ERR_NOT_ACTIVE);
    expect_asked(&w, "a:1 b:1 c:1");
    unconfirmed.reign = 5;
    unconfirmed.state = "UNCONFIRMED";
    stands_by(&w, "a:1", 5, "c:1");
    say(&w, "c:1", unconfirmed);
    assert_int_equal(w.f.state, LH_FINDER_LOST);
    stands_by(&w, "b:1", 5, "c:1");
    expect_choice(&w, "c:1", LH_FINDER_UNPROVEN);
    /* when: it fails, too, and another one acts */
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    pass_ms(&w, 50);
    expect_asked(&w, "a:1 b:1 c:1");
    say(&w, "c:1", unconfirmed);
    acts(&w, "b:1", 6);
    expect_choice(&w, "b:1", LH_FINDER_PROVEN);
    over(&w);
}

static void a_lower_reign_is_not_believed(void **state)
{
    static const char *const ab[] = {"a:1", "b:1"};
    struct world w;

    (void)state;
    known(&w, 6, ab, 2); /* as its owner has kept it */
    choice_fails(&w, LH_ERR_STALE_MASTER);
    expect_asked(&w, "a:1 b:1");
    acts(&w, "a:1", 5);
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    stands_by(&w, "b:1", 7, "c:1"); /* a reign that begins is seen through any master */
    expect_asked(&w, "c:1");
    acts(&w, "c:1", 6);
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    pass_ms(&w, 50);
    expect_asked(&w, "a:1 b:1 c:1");
    acts(&w, "c:1", 7);
    expect_choice(&w, "c:1", LH_FINDER_PROVEN);
    over(&w);
}

/* The old one woke up and has not noticed yet. */
static void a_higher_reign_that_answers_later_wins(void **state)
{
    struct world w;

    (void)state;
    three(&w);
    choice_fails(&w, LH_ERR_DEADLINE_EXCEEDED);
    expect_asked(&w, "a:1 b:1 c:1");
    acts(&w, "a:1", 3);
    expect_choice(&w, "a:1", LH_FINDER_PROVEN);
    acts(&w, "b:1", 4);
    expect_choice(&w, "b:1", LH_FINDER_PROVEN);
    uint64_t choice = w.f.choices;
    lh_finder_failed(&w.f, choice - 1, LH_ERR_UNAVAILABLE); /* of a call to the old one */
    lh_finder_acts(&w.f, choice - 1, 3);
    expect_choice(&w, "b:1", LH_FINDER_PROVEN);
    over(&w);
}

static void a_reign_that_is_newer_than_the_choices_makes_it_ask_on(void **state)
{
    struct world w;

    (void)state;
    three(&w);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1 c:1");
    acts(&w, "b:1", 3);
    stands_by(&w, "c:1", 4, "");
    expect_choice(&w, "b:1", LH_FINDER_UNPROVEN);
    lh_finder_acts(&w.f, w.f.choices, 0); /* it answers still; its reign is over */
    expect_choice(&w, "b:1", LH_FINDER_UNPROVEN);
    is_down(&w, "a:1");
    pass_ms(&w, 50);
    expect_asked(&w, "a:1 b:1 c:1");
    acts(&w, "c:1", 5);
    expect_choice(&w, "c:1", LH_FINDER_PROVEN);
    over(&w);
}

static void another_cluster_and_an_error_are_no_answer(void **state)
{
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;
    struct world w;

    (void)state;
    three(&w);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1 c:1");
    m.acting = true;
    m.reign = 9;
    m.cluster_id = "another";
    say(&w, "a:1", m);
    m.cluster_id = "cluster";
    m.error = LEASEHOLD__ERROR_CODE__SHUTTING_DOWN;
    say(&w, "b:1", m);
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    assert_true(w.f.reign == 0);
    over(&w);
}

/* ---- One cluster (SES-10). */

static void what_a_foreign_master_says_counts_for_nothing(void **state)
{
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;
    Leasehold__MasterInfo x = LEASEHOLD__MASTER_INFO__INIT, *only_x[] = {&x};
    struct world w;

    (void)state;
    three(&w);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1 c:1");
    m.cluster_id = "another";
    m.reign = 9;
    m.acting = true;
    m.active = "y:1";
    x.address = "x:1";
    m.masters = only_x;
    m.n_masters = 1;
    say(&w, "a:1", m);
    assert_false(knows(&w, "x:1") || knows(&w, "y:1"));
    expect_trouble(&w, "a:1 is of cluster another, and this is of cluster cluster");
    names(&w, "b:1", "cluster", 3);
    expect_choice(&w, "b:1", LH_FINDER_PROVEN);
    assert_true(w.f.reign == 3);
    over(&w);
}

/* The choice comes back with another prefix: nobody is left to be asked, and it is asked on. */
static void the_only_master_is_not_used_while_it_is_foreign(void **state)
{
    static const char *const a[] = {"a:1"};
    struct world w;

    (void)state;
    known(&w, 3, a, 1);
    assert_true(lh_finder_named(&w.f, w.f.choices, "cluster"));
    assert_false(lh_finder_named(&w.f, w.f.choices, "another"));
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    for (unsigned i = 0; i < 5; i++) {
        expect_asked(&w, "a:1");
        names(&w, "a:1", "another", 9);
        expect_choice(&w, "a:1", LH_FINDER_LOST);
        pass_ms(&w, 250);
    }
    lh_finder_acts(&w.f, w.f.choices, 9); /* what it was asked before */
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    expect_asked(&w, "a:1");
    names(&w, "a:1", "cluster", 4);
    expect_choice(&w, "a:1", LH_FINDER_PROVEN);
    expect_trouble(&w, NULL);
    over(&w);
}

/* It is found out by a round that began since it was silent. */
static void a_choice_that_became_foreign_is_left(void **state)
{
    struct world w;

    (void)state;
    three(&w);
    lh_finder_acts(&w.f, w.f.choices, 3);
    lh_finder_doubt(&w.f);
    expect_asked(&w, "a:1 b:1 c:1");
    names(&w, "a:1", "another", 3);
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    names(&w, "c:1", "cluster", 3);
    expect_choice(&w, "c:1", LH_FINDER_PROVEN);
    over(&w);
}

static void who_belongs_to_none_asks_all_before_it_chooses(void **state)
{
    static const char *const abc[] = {"a:1", "b:1", "c:1"};
    struct world w;
    size_t place;

    (void)state;
    known_to(&w, NULL, 0, abc, 3);
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    expect_asked(&w, "a:1 b:1 c:1");
    names(&w, "a:1", "one", 3);
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    pass_ms(&w, 100); /* the others may say something else */
    assert_false(lh_finder_late(&w.f, w.now, &place));
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    names(&w, "b:1", "one", 2); /* most of them do not, and the third one hangs */
    expect_choice(&w, "a:1", LH_FINDER_PROVEN);
    /* It keeps that one for life. */
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    names(&w, "c:1", "two", 9);
    pass_ms(&w, 50);
    expect_asked(&w, "a:1 b:1 c:1");
    names(&w, "a:1", "two", 9);
    names(&w, "b:1", "two", 9);
    names(&w, "c:1", "two", 9);
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    expect_trouble(&w, "of cluster two, and this is of cluster one");
    over(&w);
}

static void of_two_clusters_none_is_chosen(void **state)
{
    static const char *const ab[] = {"a:1", "b:1"};
    struct world w;

    (void)state;
    known_to(&w, "", 0, ab, 2);
    for (unsigned i = 0; i < 3; i++) {
        expect_asked(&w, "a:1 b:1");
        names(&w, "a:1", "one", 900);
        names(&w, "b:1", "two", 3);
        expect_choice(&w, "a:1", LH_FINDER_LOST);
        expect_trouble(&w, "a:1 is of cluster one and the one at b:1 of cluster two");
        pass_ms(&w, 250);
    }
    /* When one is stopped, the other one is taken, whatever its reign. */
    expect_asked(&w, "a:1 b:1");
    is_down(&w, "a:1");
    names(&w, "b:1", "two", 3);
    expect_choice(&w, "b:1", LH_FINDER_PROVEN);
    expect_trouble(&w, "a:1 is of cluster one, and this is of cluster two");
    assert_string_equal(w.f.cluster, "two");
    over(&w);
}

/* A stream that was opened before the round greets late: from then on the owner belongs to that
 * cluster, and whoever has said that it acts may be of another one. */
static void a_late_greeting_decides_which_cluster_it_is(void **state)
{
    static const char *const ab[] = {"a:1", "b:1"};
    struct world w;

    (void)state;
    known_to(&w, "", 0, ab, 2);
    expect_asked(&w, "a:1 b:1");
    names(&w, "b:1", "two", 5);
    assert_true(lh_finder_named(&w.f, w.f.choices, "one"));
    is_down(&w, "a:1");
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    assert_string_equal(w.f.cluster, "one");
    expect_trouble(&w, "b:1 is of cluster two, and this is of cluster one");
    over(&w);
}

static void a_master_without_a_cluster_is_waited_for(void **state)
{
    static const char *const ab[] = {"a:1", "b:1"};
    struct world w;

    (void)state;
    known_to(&w, "", 0, ab, 2);
    expect_asked(&w, "a:1 b:1");
    names(&w, "a:1", "", 0);
    names(&w, "b:1", "", 0);
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    expect_trouble(&w, "there is no cluster yet");
    pass_ms(&w, 50);
    expect_asked(&w, "a:1 b:1");
    names(&w, "a:1", "one", 2);
    names(&w, "b:1", "", 0);
    expect_choice(&w, "a:1", LH_FINDER_PROVEN);
    over(&w);
}

/* Which other masters there are it hears in its answer. */
static void who_was_given_one_address_asks_there_once(void **state)
{
    static const char *const a[] = {"a:1"};
    char *bd[] = {"b:1", "d:1"};
    struct world w;
    size_t place;

    (void)state;
    known_to(&w, NULL, 0, a, 1);
    assert_false(lh_finder_introduce(&w.f, w.now, &place));
    lh_finder_acts(&w.f, w.f.choices, 0);
    assert_true(lh_finder_introduce(&w.f, w.now, &place));
    assert_false(lh_finder_introduce(&w.f, w.now, &place));
    lh_finder_learn(&w.f, w.f.choices, bd, 2);
    names(&w, "a:1", "one", 3);
    assert_string_equal(w.f.cluster, "one");
    assert_true(knows(&w, "a:1") && w.f.reign == 3);
    assert_true(lh_finder_deadline(&w.f).ns == LH_INSTANT_NEVER.ns);
    over(&w);
}

/* A master from before there were several: it cannot say that it acts. */
static void a_master_that_does_not_know_the_question_acts(void **state)
{
    struct world w;

    (void)state;
    three(&w);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1 c:1");
    lh_finder_unanswered(&w.f, w.now, place_of(&w, "b:1"), LH_ERR_UNIMPLEMENTED);
    expect_choice(&w, "b:1", LH_FINDER_PROVEN);
    over(&w);
}

/* ---- Silence. */

static void a_silent_choice_stays_until_a_higher_reign_is_found(void **state)
{
    struct world w;

    (void)state;
    three(&w);
    lh_finder_acts(&w.f, w.f.choices, 3);
    lh_finder_doubt(&w.f);
    expect_choice(&w, "a:1", LH_FINDER_UNPROVEN);
    expect_asked(&w, "a:1 b:1 c:1");
    stands_by(&w, "b:1", 3, "a:1");
    acts(&w, "c:1", 3); /* another way to the same master */
    expect_choice(&w, "a:1", LH_FINDER_UNPROVEN);
    size_t place;
    pass_ms(&w, 500);
    assert_true(lh_finder_late(&w.f, w.now, &place));
    assert_int_equal(place, place_of(&w, "a:1"));
    assert_false(lh_finder_late(&w.f, w.now, &place));
    w.now = lh_finder_deadline(&w.f);
    expect_asked(&w, "a:1 b:1 c:1");
    acts(&w, "b:1", 4);
    expect_choice(&w, "b:1", LH_FINDER_PROVEN);
    over(&w);
}

/* One hangs; who stands by now acts soon, and is asked again before the other's time is over. */
static void a_round_does_not_wait_for_who_hangs(void **state)
{
    struct world w;
    size_t place;

    (void)state;
    three(&w);
    lh_finder_acts(&w.f, w.f.choices, 3);
    lh_finder_doubt(&w.f);
    struct lh_instant begun = w.now;
    expect_asked(&w, "a:1 b:1 c:1");
    stands_by(&w, "b:1", 3, "a:1");
    stands_by(&w, "c:1", 3, "a:1");
    w.now = lh_finder_deadline(&w.f);
    assert_int_equal(w.now.ns - begun.ns, 100 * 1000000ull);
    assert_false(lh_finder_late(&w.f, w.now, &place));
    expect_asked(&w, "");
    w.now = lh_finder_deadline(&w.f);
    assert_int_equal(w.now.ns - begun.ns, 150 * 1000000ull);
    expect_asked(&w, "b:1 c:1");
    /* Its answer to the first round still counts. */
    acts(&w, "a:1", 3);
    expect_choice(&w, "a:1", LH_FINDER_PROVEN);
    stands_by(&w, "b:1", 3, "a:1");
    stands_by(&w, "c:1", 3, "a:1");
    assert_true(lh_finder_deadline(&w.f).ns == LH_INSTANT_NEVER.ns);
    over(&w);
}

static void an_answer_ends_the_doubt(void **state)
{
    struct world w;

    (void)state;
    three(&w);
    lh_finder_acts(&w.f, w.f.choices, 3);
    lh_finder_doubt(&w.f);
    expect_asked(&w, "a:1 b:1 c:1");
    is_down(&w, "a:1");
    is_down(&w, "b:1");
    is_down(&w, "c:1");
    assert_true(lh_finder_deadline(&w.f).ns == lh_instant_add(w.now, lh_milliseconds(50)).ns);
    lh_finder_acts(&w.f, w.f.choices, 3);
    assert_true(lh_finder_deadline(&w.f).ns == LH_INSTANT_NEVER.ns);
    expect_choice(&w, "a:1", LH_FINDER_PROVEN);
    over(&w);
}

static void pauses_between_rounds_grow_up_to_their_bound(void **state)
{
    static const uint64_t pauses_ms[] = {50, 100, 200, 250, 250};
    struct world w;

    (void)state;
    three(&w);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    for (size_t i = 0; i < sizeof pauses_ms / sizeof pauses_ms[0]; i++) {
        expect_asked(&w, "a:1 b:1 c:1");
        is_down(&w, "a:1");
        is_down(&w, "b:1");
        is_down(&w, "c:1");
        pass_ms(&w, pauses_ms[i] - 1);
        expect_asked(&w, "");
        pass_ms(&w, 1);
    }
    expect_asked(&w, "a:1 b:1 c:1");
    acts(&w, "b:1", 1);
    is_down(&w, "a:1");
    is_down(&w, "c:1");
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    pass_ms(&w, 50); /* from the beginning */
    expect_asked(&w, "a:1 b:1 c:1");
    over(&w);
}

/* ---- Lists. */

static bool in_vain(const struct world *w, const char *address)
{
    return lh_finder_is_heard_in_vain(&w->f, place_of(w, address));
}

/* HA-9a: whoever finds no active master names itself to those that answer. */
static void who_answers_while_nobody_acts_is_heard_in_vain(void **state)
{
    struct world w;

    (void)state;
    three(&w);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1 c:1");
    assert_false(in_vain(&w, "b:1"));
    stands_by(&w, "b:1", 1, "a:1");
    assert_false(in_vain(&w, "b:1")); /* the round is not over */
    is_down(&w, "a:1");
    is_down(&w, "c:1");
    assert_true(in_vain(&w, "b:1"));
    assert_false(in_vain(&w, "a:1") || in_vain(&w, "c:1"));
    pass_ms(&w, 50);
    expect_asked(&w, "a:1 b:1 c:1");
    is_down(&w, "b:1");
    assert_false(in_vain(&w, "b:1"));
    stands_by(&w, "c:1", 1, "a:1");
    assert_true(in_vain(&w, "c:1"));
    acts(&w, "a:1", 1);
    assert_false(in_vain(&w, "c:1"));
    over(&w);
}

/* etcd does not answer it: that is no fault of the way to it. */
static void who_does_not_know_whether_it_acts_is_not_sought_in_vain(void **state)
{
    struct world w;

    (void)state;
    three(&w);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1 c:1");
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;
    m.reign = 1;
    m.state = (char *)(uintptr_t) "UNCONFIRMED";
    say(&w, "a:1", m);
    stands_by(&w, "b:1", 1, "a:1");
    stands_by(&w, "c:1", 1, "a:1");
    assert_false(in_vain(&w, "b:1"));
    over(&w);
}

/* It acts, and has not answered a round in time: then it answers otherwise. */
static void a_choice_that_is_heard_is_not_sought_in_vain(void **state)
{
    struct world w;

    (void)state;
    three(&w);
    lh_finder_doubt(&w.f);
    expect_asked(&w, "a:1 b:1 c:1");
    stands_by(&w, "b:1", 1, "a:1");
    is_down(&w, "a:1");
    is_down(&w, "c:1");
    assert_true(in_vain(&w, "b:1"));
    lh_finder_acts(&w.f, w.f.choices, 1);
    assert_false(in_vain(&w, "b:1"));
    over(&w);
}

static void a_new_list_replaces_what_was_learned_and_not_what_was_configured(void **state)
{
    static const char *const a[] = {"a:1"};
    char *abc[] = {"a:1", "b:1", "c:1"}, *bd[] = {"b:1", "d:1"};
    struct world w;

    (void)state;
    known(&w, 0, a, 1);
    lh_finder_learn(&w.f, w.f.choices, abc, 3);
    assert_false(lh_finder_alone(&w.f));
    assert_true(knows(&w, "b:1") && knows(&w, "c:1"));
    lh_finder_learn(&w.f, w.f.choices, NULL, 0);
    assert_true(knows(&w, "b:1") && knows(&w, "c:1"));
    lh_finder_learn(&w.f, w.f.choices, bd, 2);
    assert_true(knows(&w, "a:1") && knows(&w, "b:1") && knows(&w, "d:1"));
    assert_false(knows(&w, "c:1"));
    lh_finder_learn(&w.f, w.f.choices - 1, abc, 3); /* of an old choice */
    assert_false(knows(&w, "c:1"));
    over(&w);
}

static void who_is_asked_or_chosen_keeps_its_place(void **state)
{
    static const char *const a[] = {"a:1"};
    char *abc[] = {"a:1", "b:1", "c:1"};
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;
    Leasehold__MasterInfo d = LEASEHOLD__MASTER_INFO__INIT, *only_d[] = {&d};
    struct world w;

    (void)state;
    known(&w, 0, a, 1);
    lh_finder_learn(&w.f, w.f.choices, abc, 3);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1 c:1");
    d.address = "d:1";
    m.reign = 2;
    m.acting = true;
    m.masters = only_d;
    m.n_masters = 1;
    say(&w, "b:1", m);
    expect_asked(&w, "d:1");       /* learned during the round, and asked in it */
    assert_true(knows(&w, "c:1")); /* its answer is awaited */
    is_down(&w, "c:1");
    say(&w, "d:1", (Leasehold__MastersReply)LEASEHOLD__MASTERS_REPLY__INIT);
    is_down(&w, "a:1");
    expect_choice(&w, "b:1", LH_FINDER_PROVEN);
    char *list[] = {"d:1"};
    lh_finder_learn(&w.f, w.f.choices, list, 1);
    assert_true(knows(&w, "b:1") && !knows(&w, "c:1"));
    over(&w);
}

static void what_is_too_much_is_left_out(void **state)
{
    static const char *const a[] = {"a:1"};
    char names[40][8], huge[400], *list[40];
    struct world w;

    (void)state;
    known(&w, 0, a, 1);
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    for (size_t i = 0; i < 40; i++) {
        (void)snprintf(names[i], sizeof names[i], "m%zu:1", i);
        list[i] = names[i];
    }
    list[0] = huge;
    list[1] = "";
    list[2] = "a:1";
    lh_finder_learn(&w.f, w.f.choices, list, 40);
    assert_int_equal(w.f.count, 14); /* of the first 16, without two that are none */
    lh_finder_learn(&w.f, w.f.choices, list + 3, 37);
    assert_int_equal(w.f.count, LH_MASTERS_MAX);
    assert_true(knows(&w, "a:1") && knows(&w, "m17:1") && !knows(&w, "m18:1"));
    over(&w);
}

static void lists_of_people_are_checked(void **state)
{
    static const struct {
        const char *addresses[2], *wrong;
    } cases[] = {
        {{"a:1", "b:2"}, NULL},
        {{"[::1]:7400", "unix:/run/m"}, NULL},
        {{"a:1", "a:1"}, "the master \"a:1\" is named twice"},
        {{"a:1", "b"}, "\"b\" is no address of a master"},
        {{"a:1", ":1"}, "is no address"},
        {{"a:1", "b:"}, "is no address"},
        {{"a:1", "b:0"}, "is no address"},
        {{"a:1", "b:65536"}, "is no address"},
        {{"a:1", "b:7x"}, "is no address"},
        {{"a:1", "unix:"}, "is no address"},
        {{"a:1", "http://b:7400"}, "\"http://b:7400\" is no address of a master: it is a URL"},
    };
    char text[512], names[17][8];
    const char *many[17];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int error = lh_masters_check(cases[i].addresses, 2, text, sizeof text);
        assert_int_equal(error, cases[i].wrong == NULL ? LH_OK : LH_ERR_INVALID_ARGUMENT);
        if (cases[i].wrong != NULL)
            assert_non_null(strstr(text, cases[i].wrong));
    }
    for (size_t i = 0; i < 17; i++) {
        (void)snprintf(names[i], sizeof names[i], "m:%zu", i + 1);
        many[i] = names[i];
    }
    assert_int_equal(lh_masters_check(many, 16, text, sizeof text), LH_OK);
    assert_int_equal(lh_masters_check(many, 17, text, sizeof text), LH_ERR_INVALID_ARGUMENT);
    assert_string_equal(text, "17 masters are named; at most 16 can be");
    assert_int_equal(lh_masters_check(NULL, 0, text, sizeof text), LH_ERR_INVALID_ARGUMENT);
}

/* SES-7. */
static void a_reign_far_above_is_no_successors(void **state)
{
    static const char *const a[] = {"a:1", "b:1"};
    struct world w;

    (void)state;
    known(&w, 3, a, 2);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1");
    acts(&w, "a:1", 3 + LH_REIGN_LEAP);
    expect_choice(&w, "a:1", LH_FINDER_LOST);
    assert_true(w.f.reign == 3);
    acts(&w, "b:1", 4);
    expect_choice(&w, "b:1", LH_FINDER_PROVEN);
    over(&w);

    /* A restored store's is, and whoever has seen none takes any. */
    known(&w, 3, a, 2);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1");
    acts(&w, "a:1", 2 + LH_REIGN_LEAP);
    expect_choice(&w, "a:1", LH_FINDER_PROVEN);
    over(&w);
    known(&w, 0, a, 2);
    choice_fails(&w, LH_ERR_UNAVAILABLE);
    expect_asked(&w, "a:1 b:1");
    acts(&w, "a:1", UINT64_C(1) << 62);
    expect_choice(&w, "a:1", LH_FINDER_PROVEN);
    over(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_master_that_is_down_is_not_asked),
        cmocka_unit_test(a_single_master_that_is_not_active_is_asked_who_is),
        cmocka_unit_test(a_single_master_that_knows_nobody_is_used_again),
        cmocka_unit_test(the_first_that_acts_is_the_choice),
        cmocka_unit_test(what_one_says_of_another_is_not_enough),
        cmocka_unit_test(who_does_not_know_whether_it_acts_is_the_choice_when_nobody_acts),
        cmocka_unit_test(a_lower_reign_is_not_believed),
        cmocka_unit_test(a_higher_reign_that_answers_later_wins),
        cmocka_unit_test(a_reign_that_is_newer_than_the_choices_makes_it_ask_on),
        cmocka_unit_test(another_cluster_and_an_error_are_no_answer),
        cmocka_unit_test(what_a_foreign_master_says_counts_for_nothing),
        cmocka_unit_test(the_only_master_is_not_used_while_it_is_foreign),
        cmocka_unit_test(a_choice_that_became_foreign_is_left),
        cmocka_unit_test(who_belongs_to_none_asks_all_before_it_chooses),
        cmocka_unit_test(of_two_clusters_none_is_chosen),
        cmocka_unit_test(a_late_greeting_decides_which_cluster_it_is),
        cmocka_unit_test(a_master_without_a_cluster_is_waited_for),
        cmocka_unit_test(who_was_given_one_address_asks_there_once),
        cmocka_unit_test(a_master_that_does_not_know_the_question_acts),
        cmocka_unit_test(a_silent_choice_stays_until_a_higher_reign_is_found),
        cmocka_unit_test(a_round_does_not_wait_for_who_hangs),
        cmocka_unit_test(an_answer_ends_the_doubt),
        cmocka_unit_test(pauses_between_rounds_grow_up_to_their_bound),
        cmocka_unit_test(who_answers_while_nobody_acts_is_heard_in_vain),
        cmocka_unit_test(who_does_not_know_whether_it_acts_is_not_sought_in_vain),
        cmocka_unit_test(a_choice_that_is_heard_is_not_sought_in_vain),
        cmocka_unit_test(a_new_list_replaces_what_was_learned_and_not_what_was_configured),
        cmocka_unit_test(who_is_asked_or_chosen_keeps_its_place),
        cmocka_unit_test(a_reign_far_above_is_no_successors),
        cmocka_unit_test(what_is_too_much_is_left_out),
        cmocka_unit_test(lists_of_people_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
