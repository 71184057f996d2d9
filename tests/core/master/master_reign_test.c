/* Reigns have names, and servers and programs have seen some of them (SES-9). */
#include "tests/core/master/master_story.h"

#include "base/alloc.h"

/* ---- A store that becomes an older copy. */

static struct pair *saved;
static size_t saved_count;

static void save_store(void)
{
    saved = lh_alloc_array(w.store_count, sizeof *saved);
    saved_count = w.store_count;
    for (size_t i = 0; i < saved_count; i++) {
        saved[i] = w.store[i];
        saved[i].key = lh_alloc(saved[i].key_size);
        saved[i].value = lh_alloc(saved[i].value_size + 1);
        memcpy(saved[i].key, w.store[i].key, saved[i].key_size);
        memcpy(saved[i].value, w.store[i].value, saved[i].value_size);
    }
}

/* Each master draws its reign's name. */
static void next_master(bool restored)
{
    w.config.seed++;
    w.config.restored = restored;
    crash();
    w.config.restored = false;
}

static void restore_store(void)
{
    world_free_store(&w);
    for (size_t i = 0; i < saved_count; i++) {
        struct lh_change change = {
            saved[i].key, saved[i].value, saved[i].key_size, saved[i].value_size};
        world_apply(&w, &change);
        free(saved[i].key);
        free(saved[i].value);
    }
    free(saved);
    saved = NULL;
}

/* The link that the server's registration came on. */
static int refused_with(struct server *s)
{
    uint64_t before = w.next_link;
    const Leasehold__SessionReply *reply = NULL;

    s->registration++;
    assert_false(server_register(&w, s));
    for (size_t i = 0; i < w.line_count; i++)
        if (w.lines[i].link > before && w.lines[i].message != NULL)
            reply = (const void *)w.lines[i].message;
    assert_non_null(reply);
    s->link = 0;
    return lh_error_from_wire(reply->registered->error);
}

static void again(struct server *s)
{
    s->registration++;
    up(s);
}

static uint64_t term(void)
{
    return lh_master_term(w.m);
}

/* ---- Stories. */

static void who_has_seen_this_history_comes_again(void **state)
{
    (void)state;
    three_up();
    for (int i = 0; i < 3; i++) {
        next_master(false);
        again(a);
    }
    again(b); /* it was away for three reigns */
    assert_null(w.m == NULL ? NULL : strstr(w.complaint, "history"));
}

/* The store is an older copy and nobody says so: the next reign has a number that was there. */
static void a_reign_of_the_same_number_is_another_one(void **state)
{
    (void)state;
    three_up();
    save_store();
    next_master(false);
    again(a);
    assert_int_equal(term(), 2);
    restore_store();
    next_master(false);
    assert_int_equal(term(), 2);
    again(b); /* it has not been in the reign that is lost */
    assert_int_equal(refused_with(a), LH_ERR_WRONG_IDENTITY);
    assert_non_null(strstr(w.complaint, "another history"));
    assert_non_null(strstr(w.complaint, "--restored"));
}

static void another_restart_does_not_hide_it(void **state)
{
    (void)state;
    three_up();
    save_store();
    next_master(false);
    again(a);
    restore_store();
    for (int i = 0; i < 4; i++)
        next_master(false);
    assert_int_equal(refused_with(a), LH_ERR_WRONG_IDENTITY);
    assert_non_null(strstr(w.complaint, "was another one"));
}

/* Nothing that the lost reigns may have given out is given out again. */
static void a_reign_begins_above_each_one_that_was_seen(void **state)
{
    (void)state;
    three_up();
    save_store();
    for (int i = 0; i < 5; i++)
        next_master(false);
    again(a);
    assert_int_equal(term(), 6);
    restore_store();
    next_master(false);
    again(b);
    uint64_t link = b->link;
    assert_int_equal(refused_with(a), LH_ERR_WRONG_IDENTITY);
    assert_int_equal(term(), 7);
    /* Whoever was in session comes again, to the new reign. */
    assert_int_equal(world_end(&w, link), LH_ERR_UNAVAILABLE);
    b->link = 0;
    again(b);
    assert_int_equal(b->term_seen, 7);
    /* It is still of another history, and says nothing new. */
    assert_int_equal(refused_with(a), LH_ERR_WRONG_IDENTITY);
    assert_int_equal(term(), 7);
    next_master(false);
    assert_int_equal(term(), 8);
    again(b);
}

static void what_was_seen_before_a_restore_is_accepted_once(void **state)
{
    (void)state;
    three_up();
    save_store();
    for (int i = 0; i < 3; i++)
        next_master(false);
    again(a);
    again(d); /* which the older copy does not know */
    struct server old_a = *a;
    restore_store();
    next_master(true);
    assert_int_equal(term(), 2);
    assert_int_equal(refused_with(a), LH_ERR_UNAVAILABLE);
    assert_int_equal(term(), 5); /* above what it has seen */
    again(a);
    again(d);
    again(b);
    assert_int_equal(a->term_seen, 5);
    /* It dies before that is on its disk, and comes again. */
    struct server forgot = old_a;
    forgot.incarnation = ++a->incarnation;
    forgot.link = 0;
    again(&forgot);
    /* Then its next process shows that it is. */
    next_master(false);
    a->incarnation++;
    again(a);
    /* Its data directory is put back, or it was with the other store meanwhile. */
    old_a.incarnation = 9;
    old_a.link = 0;
    assert_int_equal(refused_with(&old_a), LH_ERR_WRONG_IDENTITY);
    again(c); /* it has seen what both histories have */
}

/* A later restore, of a copy from before. */
static void each_restore_accepts_once(void **state)
{
    (void)state;
    three_up();
    for (int i = 0; i < 2; i++) {
        save_store();
        next_master(false);
        again(a);
        restore_store();
        next_master(true);
        assert_int_equal(refused_with(a), LH_ERR_UNAVAILABLE);
        again(a);
    }
}

/* The operator did not say it at first: the way back from there. */
static void a_restore_that_is_said_later_counts(void **state)
{
    (void)state;
    three_up();
    save_store();
    next_master(false);
    again(a);
    restore_store();
    next_master(false);
    again(b);
    assert_int_equal(refused_with(a), LH_ERR_WRONG_IDENTITY);
    b->link = 0;
    next_master(true);
    again(a);
    again(b);
}

static void an_older_releases_server_counts_by_its_number(void **state)
{
    (void)state;
    three_up();
    a->name_seen = 0;
    next_master(false);
    again(a);
    a->name_seen = 0;
    a->term_seen = 9;
    a->link = 0;
    assert_int_equal(refused_with(a), LH_ERR_STALE_MASTER);
    assert_int_equal(term(), 2);
    next_master(true);
    assert_int_equal(refused_with(a), LH_ERR_UNAVAILABLE);
    assert_int_equal(term(), 10);
    again(a);
}

/* SES-7: no such reign follows from any here. */
static void a_reign_far_above_is_not_followed(void **state)
{
    (void)state;
    three_up();
    next_master(true);
    a->term_seen = UINT64_C(1) << 40;
    assert_int_equal(refused_with(a), LH_ERR_STALE_MASTER);
    assert_int_equal(term(), 2);
}

static void the_oldest_names_go(void **state)
{
    (void)state;
    w.config.reigns_max = 3;
    three_up();
    for (int i = 0; i < 5; i++)
        next_master(false);
    assert_int_equal(term(), 6);
    assert_true(lh_master_reign_name(w.m, 3) == 0);
    for (uint64_t i = 4; i <= 6; i++)
        assert_true(lh_master_reign_name(w.m, i) != 0);
    again(a); /* from below all that is known: its number counts */
    /* None is left in the store. */
    size_t records = 0;
    for (size_t i = 0; i < w.store_count; i++)
        records += w.store[i].key[0] == 'n';
    assert_int_equal(records, 3);
}

static void asks_for_masters(uint64_t seen, uint64_t name, uint64_t heard)
{
    Leasehold__MastersRequest r = LEASEHOLD__MASTERS_REQUEST__INIT;

    r.reign_seen = seen;
    r.reign_name_seen = name;
    r.reign_heard = heard;
    assert_non_null(world_reply(&w, world_call(&w, LH_METHOD_MASTERS, &r)));
}

/* Who believes no master of a lower reign does not register with it, but asks who acts. */
static void who_asks_who_acts_has_seen_reigns_too(void **state)
{
    (void)state;
    three_up();
    asks_for_masters(1, a->name_seen, 1);
    asks_for_masters(0, 0, 9); /* a mistake, as far as is known here */
    assert_int_equal(term(), 1);
    asks_for_masters(5, 4711, 5);
    assert_int_equal(term(), 6);
    assert_non_null(strstr(w.complaint, "another history"));
    next_master(true);
    asks_for_masters(0, 0, 9);
    assert_int_equal(term(), 10);
    asks_for_masters(0, 0, UINT64_MAX);
    assert_int_equal(term(), 10);
}

/* An open chunk's holder goes on, as when its stream broke. */
static void leases_go_on_in_a_raised_reign(void **state)
{
    struct server *primary = NULL;
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    d->term_seen = 5;
    d->name_seen = 4711;
    assert_int_equal(refused_with(d), LH_ERR_WRONG_IDENTITY);
    assert_int_equal(term(), 6);
    assert_string_not_equal(state_of(chunk), "FREE");
    held.chunk = chunk;
    held.version = 1;
    primary->link = 0;
    primary->registration++;
    assert_true(server_register_with(&w, primary, NULL, 0, &held, 1));
    assert_true(server_heartbeat(&w, primary));
    assert_string_not_equal(state_of(chunk), "FREE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(who_has_seen_this_history_comes_again),
        STORY(a_reign_of_the_same_number_is_another_one),
        STORY(another_restart_does_not_hide_it),
        STORY(a_reign_begins_above_each_one_that_was_seen),
        STORY(what_was_seen_before_a_restore_is_accepted_once),
        STORY(each_restore_accepts_once),
        STORY(a_restore_that_is_said_later_counts),
        STORY(an_older_releases_server_counts_by_its_number),
        STORY(a_reign_far_above_is_not_followed),
        STORY(the_oldest_names_go),
        STORY(who_asks_who_acts_has_seen_reigns_too),
        STORY(leases_go_on_in_a_raised_reign),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
