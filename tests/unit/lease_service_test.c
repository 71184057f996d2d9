/* Two kinds of leases and two kinds of clients in one service: chunks of servers, on record, and
 * locks of programs, of which nothing is. */
#include "base/error.h"
#include "lease/restart.h"
#include "lease/term.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CHUNK = 0, LOCK = 1 };     /* leases */
enum { SERVER = 0, PROGRAM = 1 }; /* clients */

#define SESSION_S 10u
#define WAIT_S    30u
#define CHUNKS    8u
#define LOCKS     16u

struct lock {
    struct lh_lease lease; /* key 0: this place is not in use */
    const struct lh_lease_client *of;
};

struct world {
    struct lh_leases leases;
    struct lh_timers timers;
    uint64_t now_s;
    struct lh_lease_client server, program, other;
    struct lh_lease chunks[CHUNKS]; /* by id */
    struct lock locks[LOCKS];
    bool take_showings; /* as a new owner, which has no record of what programs hold */
    char chunk_events[512], lock_events[512], server_events[128], program_events[128];
    char settled_events[64];
    size_t work; /* in a step */
    unsigned waited;
};

__attribute__((format(printf, 3, 4))) static void note(
    char *to, size_t size, const char *format, ...)
{
    size_t length = strlen(to);
    va_list args;

    va_start(args, format);
    vsnprintf(to + length, size - length, format, args);
    va_end(args);
}

#define NOTE(events, ...) note(events, sizeof events, __VA_ARGS__)

static unsigned id_of(const struct lh_lease *lease)
{
    return (unsigned)lh_lease_id(lease->key);
}

/* ---- The owner of chunks: one record a chunk. */

static struct lh_lease *chunk_find(void *core, uint64_t id, const struct lh_lease_client *client)
{
    struct world *w = core;

    (void)client;
    return id < CHUNKS ? &w->chunks[id] : NULL;
}

static void chunk_continued(void *core, struct lh_lease *lease)
{
    struct world *w = core;
    NOTE(w->chunk_events, "%u continued. ", id_of(lease));
}

static void chunk_disowned(void *core, struct lh_lease *lease)
{
    struct world *w = core;
    NOTE(w->chunk_events, "%u disowned. ", id_of(lease));
}

static void chunk_lost_session(void *core, struct lh_lease *lease)
{
    struct world *w = core;
    NOTE(w->chunk_events, "%u lost its session. ", id_of(lease));
}

static void chunk_over(void *core, struct lh_lease *lease, const struct lh_lease_past *past)
{
    struct world *w = core;
    NOTE(w->chunk_events, "%u %s. ", id_of(lease), past->why);
}

static const struct lh_lease_owner chunk_owner = {
    .find = chunk_find,
    .continued = chunk_continued,
    .disowned = chunk_disowned,
    .lost_session = chunk_lost_session,
    .over = chunk_over,
};

/* ---- The owner of locks: a record for each holder, which goes with the lock. */

static struct lh_lease *lock_record(struct world *w, uint64_t id, const struct lh_lease_client *of)
{
    struct lock *free_one = NULL;

    for (size_t i = 0; i < LOCKS; i++) {
        struct lock *lock = &w->locks[i];
        if (lock->lease.key == 0)
            free_one = free_one == NULL ? lock : free_one;
        else if (lh_lease_id(lock->lease.key) == id && lock->of == of)
            return &lock->lease;
    }
    assert_non_null(free_one);
    lh_lease_init(&free_one->lease, LOCK, id);
    free_one->of = of;
    return &free_one->lease;
}

static struct lh_lease *lock_find(void *core, uint64_t id, const struct lh_lease_client *client)
{
    struct world *w = core;

    for (size_t i = 0; i < LOCKS; i++)
        if (w->locks[i].lease.key != 0 && id_of(&w->locks[i].lease) == id &&
            w->locks[i].of == client)
            return &w->locks[i].lease;
    return NULL;
}

static void lock_continued(void *core, struct lh_lease *lease)
{
    struct world *w = core;
    NOTE(w->lock_events, "%u continued. ", id_of(lease));
}

static void lock_lost_session(void *core, struct lh_lease *lease)
{
    struct world *w = core;
    NOTE(w->lock_events, "%u lost its session. ", id_of(lease));
}

static void lock_over(void *core, struct lh_lease *lease, const struct lh_lease_past *past)
{
    struct world *w = core;
    NOTE(w->lock_events, "%u %s. ", id_of(lease), past->why);
    lease->key = 0;
}

static const struct lh_lease_owner lock_owner = {
    .find = lock_find,
    .continued = lock_continued,
    .lost_session = lock_lost_session,
    .over = lock_over,
};

/* ---- The owners of clients. */

static void server_ended(void *core, struct lh_lease_client *client)
{
    struct world *w = core;
    assert_ptr_equal(client, &w->server);
    NOTE(w->server_events, "ended. ");
}

static void program_ended(void *core, struct lh_lease_client *client)
{
    struct world *w = core;
    NOTE(w->program_events, "%s ended. ", client == &w->program ? "program" : "other");
}

static void program_settled(void *core, struct lh_lease_client *client)
{
    struct world *w = core;
    NOTE(w->settled_events, "%s. ", client == &w->program ? "program" : "other");
}

static void waited(void *core)
{
    struct world *w = core;
    w->waited++;
}

/* ---- The world. */

static struct lh_instant at_s(uint64_t s)
{
    return (struct lh_instant){s * UINT64_C(1000000000)};
}

static void step_to(struct world *w, uint64_t now_s)
{
    w->now_s = now_s;
    lh_leases_step(&w->leases, at_s(now_s), w->work);
    lh_timers_fire(&w->timers, w, at_s(now_s));
    lh_lease_client_check(&w->leases, &w->server);
    lh_lease_client_check(&w->leases, &w->program);
    lh_lease_client_check(&w->leases, &w->other);
    lh_grantor_check(w->leases.engine);
}

static void make(struct world *w, uint64_t now_s, uint64_t wait_s)
{
    static const struct lh_lease_client_owner server = {.ended = server_ended};
    static const struct lh_lease_client_owner program = {
        .ended = program_ended, .settled = program_settled};

    memset(w, 0, sizeof *w);
    w->work = 100;
    lh_leases_init(&w->leases, w, &w->timers, waited);
    lh_leases_kind(&w->leases, CHUNK, &chunk_owner, lh_seconds(60), false);
    lh_leases_kind(&w->leases, LOCK, &lock_owner, lh_seconds(20), true);
    lh_leases_client_kind(&w->leases, SERVER, &server);
    lh_leases_client_kind(&w->leases, PROGRAM, &program);
    lh_lease_client_init(&w->server, SERVER);
    lh_lease_client_init(&w->program, PROGRAM);
    lh_lease_client_init(&w->other, PROGRAM);
    for (unsigned i = 0; i < CHUNKS; i++)
        lh_lease_init(&w->chunks[i], CHUNK, i);
    w->server.process = w->program.process = w->other.process = 1;
    w->now_s = now_s;
    lh_leases_start(&w->leases, at_s(now_s), lh_term_grantor_end(at_s(now_s), lh_seconds(wait_s)));
}

/* All have a session; nothing is waited for. */
static int setup(void **state)
{
    struct world *w = malloc(sizeof *w);

    make(w, 100, 0);
    step_to(w, 101);
    assert_int_equal(w->waited, 1);
    lh_lease_client_open(&w->leases, &w->server, lh_seconds(SESSION_S));
    lh_lease_client_open(&w->leases, &w->program, lh_seconds(SESSION_S));
    lh_lease_client_open(&w->leases, &w->other, lh_seconds(SESSION_S));
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    lh_leases_deinit(&w->leases);
    lh_timers_deinit(&w->timers);
    free(w);
    return 0;
}

static void beat(struct world *w, struct lh_lease_client *client)
{
    assert_int_equal(lh_lease_client_renew(&w->leases, client, at_s(w->now_s)), LH_OK);
}

/* Granted, sent and confirmed. */
static void give(struct world *w, struct lh_lease *lease, struct lh_lease_client *client,
    uint64_t version, enum lh_lease_mode mode)
{
    assert_int_equal(lh_lease_grant(&w->leases, lease, client, version, mode), LH_OK);
    lh_lease_sent(lease);
    lh_lease_confirm(lease);
}

static struct lh_lease *lock(struct world *w, uint64_t id, struct lh_lease_client *client,
    uint64_t token, enum lh_lease_mode mode)
{
    struct lh_lease *lease = lock_record(w, id, client);

    give(w, lease, client, token, mode);
    return lease;
}

static int try_lock(struct world *w, uint64_t id, struct lh_lease_client *client, uint64_t token,
    enum lh_lease_mode mode)
{
    struct lh_lease *lease = lock_record(w, id, client);
    int error = lh_lease_grant(&w->leases, lease, client, token, mode);

    if (error != LH_OK)
        lease->key = 0;
    return error;
}

/* A client registers again as `process`, and shows one lease (`version` 0: none). */
static void register_again(struct world *w, struct lh_lease_client *client, uint64_t process,
    bool proven, unsigned kind, uint64_t id, uint64_t version)
{
    bool same = client->process == process;

    lh_lease_client_close(&w->leases, client);
    client->process = process;
    if (!same)
        lh_lease_client_free_dead(&w->leases, client);
    lh_lease_client_open(&w->leases, client, lh_seconds(SESSION_S));
    lh_lease_client_show_begin(&w->leases, client);
    if (version != 0)
        lh_lease_client_shows(&w->leases, client, kind, id, version, true);
    lh_lease_client_registered(&w->leases, client,
        (struct lh_lease_process){.same = same, .proven = proven, .numbered = proven});
}

/* ---- Stories. */

static void one_id_of_two_kinds_is_two_leases(void **state)
{
    struct world *w = *state;

    give(w, &w->chunks[7], &w->server, 1, LH_LEASE_EXCLUSIVE);
    struct lh_lease *seven = lock(w, 7, &w->program, 50, LH_LEASE_EXCLUSIVE);
    assert_true(lh_lease_held(&w->leases, &w->chunks[7]));
    assert_true(lh_lease_held(&w->leases, seven));
    assert_int_equal(w->server.count, 1);
    assert_int_equal(w->program.count, 1);

    lh_lease_over(&w->leases, &w->chunks[7], LH_LEASE_RELEASED, "was released");
    assert_string_equal(w->chunk_events, "7 was released. ");
    assert_string_equal(w->lock_events, "");
    assert_true(lh_lease_held(&w->leases, seven));
}

static void an_ended_session_is_reported_to_the_owners_of_its_kinds_alone(void **state)
{
    struct world *w = *state;

    give(w, &w->chunks[3], &w->server, 1, LH_LEASE_EXCLUSIVE);
    struct lh_lease *mine = lock(w, 3, &w->program, 50, LH_LEASE_EXCLUSIVE);
    step_to(w, 108);
    beat(w, &w->program);
    step_to(w, 112); /* the sessions of the server and of the other program are over */
    assert_string_equal(w->server_events, "ended. ");
    assert_string_equal(w->chunk_events, "3 has run out. ");
    assert_string_equal(w->program_events, "other ended. ");
    assert_string_equal(w->lock_events, "");
    assert_true(lh_lease_current(&w->leases, mine));

    step_to(w, 119);
    assert_string_equal(w->program_events, "other ended. program ended. ");
    assert_string_equal(w->lock_events, "3 has run out. ");
    assert_int_equal(w->program.count, 0);
}

static void each_kind_has_its_term(void **state)
{
    struct world *w = *state;

    give(w, &w->chunks[1], &w->server, 1, LH_LEASE_EXCLUSIVE);
    lock(w, 1, &w->program, 50, LH_LEASE_EXCLUSIVE);
    for (uint64_t s = 105; s < 125; s += 5) {
        step_to(w, s);
        beat(w, &w->program);
        beat(w, &w->server);
    }
    assert_string_equal(w->lock_events, "");
    step_to(w, 122); /* the lock's twenty seconds are over, its session goes on */
    assert_string_equal(w->lock_events, "1 has run out. ");
    assert_string_equal(w->program_events, "other ended. ");
    assert_string_equal(w->chunk_events, "");
    assert_true(lh_lease_held(&w->leases, &w->chunks[1]));
}

static void locks_are_shared_or_exclusive(void **state)
{
    struct world *w = *state;

    struct lh_lease *a = lock(w, 5, &w->program, 50, LH_LEASE_SHARED);
    struct lh_lease *b = lock(w, 5, &w->other, 50, LH_LEASE_SHARED);
    assert_true(lh_lease_in_force(&w->leases, a));
    assert_true(lh_lease_in_force(&w->leases, b));

    lh_lease_over(&w->leases, a, LH_LEASE_RELEASED, "was released");
    assert_int_equal(try_lock(w, 5, &w->program, 51, LH_LEASE_EXCLUSIVE), LH_ERR_LEASE_HELD);
    assert_true(lh_lease_in_force(&w->leases, b));
    lh_lease_over(&w->leases, b, LH_LEASE_RELEASED, "was released");
    struct lh_lease *c = lock(w, 5, &w->program, 51, LH_LEASE_EXCLUSIVE);
    assert_int_equal(try_lock(w, 5, &w->other, 51, LH_LEASE_SHARED), LH_ERR_LEASE_HELD);
    assert_true(lh_lease_in_force(&w->leases, c));
    assert_string_equal(w->lock_events, "5 was released. 5 was released. ");
}

static void what_is_shown_goes_on_in_the_new_session_and_the_rest_is_free(void **state)
{
    struct world *w = *state;

    struct lh_lease *kept = lock(w, 1, &w->program, 50, LH_LEASE_EXCLUSIVE);
    lock(w, 2, &w->program, 51, LH_LEASE_SHARED);
    struct lh_lease *beside = lock(w, 2, &w->other, 51, LH_LEASE_SHARED);
    give(w, &w->chunks[1], &w->server, 1, LH_LEASE_EXCLUSIVE);
    assert_true(lh_lease_recall(&w->leases, kept));

    step_to(w, 104);
    register_again(w, &w->program, 1, true, LOCK, 1, 50);
    assert_string_equal(w->lock_events, "1 continued. 2 is free: its holder does not show it. ");
    assert_true(lh_lease_current(&w->leases, kept));
    assert_true(kept->recalling && kept->in_todo);
    assert_true(lh_lease_current(&w->leases, beside));
    assert_string_equal(w->chunk_events, "");

    /* And of a process that cannot prove that it is the same one nothing is free. */
    step_to(w, 105);
    register_again(w, &w->program, 1, false, LOCK, 0, 0);
    assert_true(lh_lease_held(&w->leases, kept));
    assert_false(lh_lease_current(&w->leases, kept));
}

static void only_exactly_what_was_granted_goes_on(void **state)
{
    struct world *w = *state;

    struct lh_lease *lease = lock(w, 1, &w->program, 50, LH_LEASE_EXCLUSIVE);
    register_again(w, &w->program, 1, true, LOCK, 1, 49);
    assert_string_equal(w->lock_events, "");
    assert_false(lh_lease_current(&w->leases, lease));
    assert_true(lh_lease_held(&w->leases, lease)); /* it shows some version: it may act on it */

    lh_lease_client_show_begin(&w->leases, &w->other);
    assert_null(lh_lease_client_shows(&w->leases, &w->other, LOCK, 1, 50, true));
    assert_null(lh_lease_client_shows(&w->leases, &w->other, LOCK, UINT64_MAX, 50, true));
    assert_null(lh_lease_client_shows(&w->leases, &w->server, CHUNK, 1, 50, true));
}

static void a_grant_that_was_not_confirmed_goes_over_into_the_new_session(void **state)
{
    struct world *w = *state;
    struct lh_lease *c = &w->chunks[2];

    assert_int_equal(lh_lease_grant(&w->leases, c, &w->server, 1, LH_LEASE_EXCLUSIVE), LH_OK);
    lh_lease_sent(c);
    register_again(w, &w->server, 1, true, CHUNK, 0, 0);
    assert_string_equal(w->chunk_events, "");
    assert_true(lh_lease_current(&w->leases, c));
    assert_true(c->in_todo && !c->sent);
    assert_true(lh_lease_renew(&w->leases, c));
}

static void what_is_recalled_is_not_extended(void **state)
{
    struct world *w = *state;
    struct lh_lease *leases[] = {lock(w, 1, &w->program, 50, LH_LEASE_EXCLUSIVE),
        lock(w, 2, &w->program, 51, LH_LEASE_EXCLUSIVE)};
    int results[2];

    assert_true(lh_lease_recall(&w->leases, leases[1]));
    assert_false(lh_lease_recall(&w->leases, leases[1]));
    assert_ptr_equal(TAILQ_FIRST(&w->program.todo), leases[1]);
    assert_true(lh_lease_extendable(leases[0], &w->program, 50));
    assert_false(lh_lease_extendable(leases[0], &w->program, 51));
    assert_false(lh_lease_extendable(leases[0], &w->other, 50));
    lh_lease_extend_many(&w->leases, &w->program, leases, 2, results);
    assert_int_equal(results[0], LH_OK);
    assert_int_equal(results[1], LH_ERR_LEASE_HELD);

    lh_lease_let_end(leases[0]);
    assert_false(lh_lease_extendable(leases[0], &w->program, 50));
    assert_false(lh_lease_current(&w->leases, leases[0]));
    assert_true(lh_lease_held(&w->leases, leases[0]));
}

static void a_dead_process_holds_nothing(void **state)
{
    struct world *w = *state;

    lock(w, 1, &w->program, 50, LH_LEASE_EXCLUSIVE);
    give(w, &w->chunks[1], &w->server, 1, LH_LEASE_EXCLUSIVE);
    register_again(w, &w->server, 2, false, CHUNK, 1, 1);
    assert_string_equal(w->chunk_events, "1 is free: its process is dead. ");
    assert_string_equal(w->lock_events, "");

    lh_lease_client_dissolve(&w->leases, &w->program, LH_LEASE_RELEASED, "was given up");
    assert_string_equal(w->lock_events, "1 was given up. ");
    assert_int_equal(try_lock(w, 1, &w->program, 51, LH_LEASE_EXCLUSIVE), LH_ERR_UNKNOWN_SESSION);
    lock(w, 1, &w->other, 51, LH_LEASE_EXCLUSIVE);
    step_to(w, 120); /* the end of a session that was dissolved is no news */
    assert_string_equal(w->program_events, "other ended. ");
}

static void what_nobody_speaks_for_runs_out(void **state)
{
    struct world *w = *state;

    give(w, &w->chunks[1], &w->server, 1, LH_LEASE_EXCLUSIVE);
    lh_lease_client_disown(&w->leases, &w->server);
    assert_false(lh_lease_is_of(&w->chunks[1], &w->server));
    register_again(w, &w->server, 1, true, CHUNK, 1, 1);
    assert_string_equal(w->chunk_events, "1 disowned. ");
    assert_true(lh_lease_held(&w->leases, &w->chunks[1]));
    step_to(w, 112);
    assert_string_equal(w->chunk_events, "1 disowned. 1 has run out. ");
}

static void the_sums_of_both_sides_are_of_what_is_confirmed_in_the_session(void **state)
{
    struct world *w = *state;
    struct lh_lease_sum theirs = {0};

    give(w, &w->chunks[1], &w->server, 4, LH_LEASE_EXCLUSIVE);
    give(w, &w->chunks[2], &w->server, 5, LH_LEASE_EXCLUSIVE);
    assert_int_equal(
        lh_lease_grant(&w->leases, &w->chunks[3], &w->server, 6, LH_LEASE_EXCLUSIVE), LH_OK);
    lh_lease_sum_add(&theirs, 1, 4);
    assert_true(lh_lease_client_differs(&w->server, theirs));
    lh_lease_sum_add(&theirs, 2, 5);
    assert_false(lh_lease_client_differs(&w->server, theirs));

    /* It has ended 2, and that was not heard. */
    lh_lease_sum_remove(&theirs, 2, 5);
    assert_true(lh_lease_client_differs(&w->server, theirs));
    lh_lease_client_show_begin(&w->leases, &w->server);
    assert_ptr_equal(
        lh_lease_client_shows(&w->leases, &w->server, CHUNK, 1, 4, false), &w->chunks[1]);
    assert_null(lh_lease_client_shows(&w->leases, &w->server, CHUNK, 5, 1, false));
    lh_lease_client_resolved(&w->leases, &w->server);
    assert_string_equal(w->chunk_events, "2 is over: its holder does not show it. ");
    assert_false(lh_lease_client_differs(&w->server, theirs));
    assert_ptr_equal(w->chunks[3].holder, &w->server); /* its grant may be on its way */

    /* In a new session nothing is confirmed but what it shows. */
    register_again(w, &w->server, 1, true, CHUNK, 1, 4);
    assert_false(lh_lease_client_differs(&w->server, theirs));
}

static void a_new_version_is_for_the_same_holder(void **state)
{
    struct world *w = *state;
    struct lh_lease *c = &w->chunks[1];

    give(w, c, &w->server, 4, LH_LEASE_EXCLUSIVE);
    assert_true(lh_lease_recall(&w->leases, c));
    lh_lease_raise(&w->leases, c, 5);
    assert_true(c->recalling && c->in_todo && !c->confirmed && !c->sent);
    assert_false(lh_lease_client_differs(&w->server, (struct lh_lease_sum){0}));
    assert_int_equal(c->version, 5);
}

/* ---- After a start. */

static int setup_restart(void **state)
{
    struct world *w = malloc(sizeof *w);

    make(w, 100, WAIT_S);
    lh_lease_restore(&w->leases, &w->chunks[1], &w->server, 1, 8);
    lh_lease_restore(&w->leases, &w->chunks[2], &w->server, 1, 9);
    lh_lease_client_restore(&w->leases, &w->program, at_s(100), lh_seconds(15));
    lh_lease_client_restore(&w->leases, &w->other, at_s(100), lh_seconds(20));
    step_to(w, 101);
    *state = w;
    return 0;
}

static void what_is_on_record_waits_for_its_holder(void **state)
{
    struct world *w = *state;

    assert_true(lh_lease_held(&w->leases, &w->chunks[1]));
    assert_int_equal(lh_lease_free_at(&w->leases, &w->chunks[1]).ns, at_s(130).ns + 1000000);
    lh_lease_client_open(&w->leases, &w->server, lh_seconds(SESSION_S));
    lh_lease_client_show_begin(&w->leases, &w->server);
    assert_non_null(lh_lease_client_shows(&w->leases, &w->server, CHUNK, 1, 8, true));
    lh_lease_client_registered(&w->leases, &w->server, (struct lh_lease_process){.same = true});
    assert_true(lh_lease_current(&w->leases, &w->chunks[1]));
    assert_true(w->chunks[1].confirmed);
    /* Without a proof 2 stays held, for a grant that may have been on its way. */
    assert_true(lh_lease_held(&w->leases, &w->chunks[2]));

    /* The answer was lost: its session ends, and the old term runs on. */
    step_to(w, 112);
    assert_true(lh_lease_held(&w->leases, &w->chunks[1]));
    assert_int_equal(w->chunks[1].session, 0);
    step_to(w, 131);
    assert_false(lh_lease_held(&w->leases, &w->chunks[1]));
    assert_int_equal(w->waited, 1);
    assert_int_equal(w->server.count, 0);
}

static void other_chunks_need_not_wait(void **state)
{
    struct world *w = *state;

    lh_lease_client_open(&w->leases, &w->server, lh_seconds(SESSION_S));
    give(w, &w->chunks[5], &w->server, 1, LH_LEASE_EXCLUSIVE);
    assert_true(lh_lease_current(&w->leases, &w->chunks[5]));
}

static void no_lock_is_granted_before_every_program_is_back(void **state)
{
    struct world *w = *state;

    /* The program comes and shows a lock of which no record is left. */
    lh_lease_client_open(&w->leases, &w->program, lh_seconds(SESSION_S));
    lh_lease_client_show_begin(&w->leases, &w->program);
    struct lh_lease *five = lock_record(w, 5, &w->program);
    lh_lease_restore(&w->leases, five, &w->program, 1, 50);
    assert_ptr_equal(lh_lease_client_shows(&w->leases, &w->program, LOCK, 5, 50, true), five);
    assert_int_equal(try_lock(w, 6, &w->program, 51, LH_LEASE_EXCLUSIVE), LH_ERR_LEASE_HELD);
    lh_lease_client_registered(
        &w->leases, &w->program, (struct lh_lease_process){.same = true, .proven = true});
    assert_true(lh_lease_current(&w->leases, five));
    assert_int_equal(try_lock(w, 6, &w->program, 51, LH_LEASE_EXCLUSIVE), LH_ERR_LEASE_HELD);

    step_to(w, 110);
    beat(w, &w->program);
    step_to(w, 119);
    beat(w, &w->program);
    assert_int_equal(try_lock(w, 6, &w->program, 51, LH_LEASE_EXCLUSIVE), LH_ERR_LEASE_HELD);
    step_to(w, 121); /* the other one's term is over: its own, not the longest */
    assert_string_equal(w->program_events, "other ended. ");
    lock(w, 6, &w->program, 51, LH_LEASE_EXCLUSIVE);
    assert_int_equal(w->waited, 0);
}

/* LEASE-9. */
static void what_was_promised_earlier_is_over_earlier(void **state)
{
    struct world *w = *state;

    lh_lease_client_promised(&w->leases, &w->server, at_s(98), lh_seconds(10));
    assert_int_equal(lh_lease_free_at(&w->leases, &w->chunks[1]).ns, at_s(108).ns + 1000000);
    step_to(w, 108);
    assert_true(lh_lease_held(&w->leases, &w->chunks[1]));
    w->work = 1; /* one in each step */
    step_to(w, 109);
    assert_true(
        lh_lease_held(&w->leases, &w->chunks[1]) != lh_lease_held(&w->leases, &w->chunks[2]));
    step_to(w, 110);
    step_to(w, 111);
    assert_false(lh_lease_held(&w->leases, &w->chunks[1]));
    assert_false(lh_lease_held(&w->leases, &w->chunks[2]));
    assert_int_equal(w->waited, 0); /* of others nothing is known */
}

/* Its locks can be granted; it may come back within its term. */
static void a_session_goes_on_when_its_promises_are_over(void **state)
{
    struct world *w = malloc(sizeof *w);

    (void)state;
    make(w, 100, WAIT_S);
    lh_lease_client_restore(&w->leases, &w->program, at_s(95), lh_seconds(10));
    lh_lease_client_restore(&w->leases, &w->other, at_s(80), lh_seconds(10));
    step_to(w, 100);
    assert_string_equal(w->settled_events, "other. ");
    assert_int_equal(w->leases.away, 1);
    assert_int_equal(lh_lease_client_await(&w->leases, &w->program, lh_seconds(10)), LH_OK);
    assert_int_equal(
        lh_lease_client_await(&w->leases, &w->other, lh_seconds(10)), LH_ERR_UNKNOWN_SESSION);
    step_to(w, 106); /* it is awaited until 110 */
    assert_int_equal(w->leases.away, 1);
    lh_lease_client_open(&w->leases, &w->other, lh_seconds(SESSION_S));
    lh_lease_client_registered(&w->leases, &w->other, (struct lh_lease_process){.same = true});
    step_to(w, 111);
    assert_string_equal(w->program_events, "program ended. ");
    assert_int_equal(w->leases.away, 0);
    lock(w, 6, &w->other, 51, LH_LEASE_EXCLUSIVE);
    void *done = w;
    (void)teardown(&done);
}

static void of_conflicting_showings_one_stands(void **state)
{
    struct world *w = *state;

    struct lh_lease_client *clients[] = {&w->program, &w->other};
    for (unsigned i = 0; i < 2; i++) {
        lh_lease_client_open(&w->leases, clients[i], lh_seconds(SESSION_S));
        lh_lease_client_show_begin(&w->leases, clients[i]);
        struct lh_lease *lease = lock_record(w, 5, clients[i]);
        lh_lease_restore(&w->leases, lease, clients[i], 1, 50);
        assert_int_equal(
            lh_lease_client_shows(&w->leases, clients[i], LOCK, 5, 50, true) != NULL, i == 0);
        lh_lease_client_registered(
            &w->leases, clients[i], (struct lh_lease_process){.same = true, .proven = true});
    }
    assert_string_equal(w->lock_events, "5 continued. ");
    /* What does not stand is its owner's to end. */
    lh_lease_over(&w->leases, lock_record(w, 5, &w->other), LH_LEASE_ENDED, "does not stand");
    assert_true(lh_lease_current(&w->leases, lock_record(w, 5, &w->program)));
    assert_int_equal(w->leases.away, 0);
    lock(w, 6, &w->other, 51, LH_LEASE_EXCLUSIVE);
}

static void a_program_that_attached_and_showed_nothing_yet_is_not_back(void **state)
{
    struct world *w = *state;

    lh_lease_client_dissolve(&w->leases, &w->other, LH_LEASE_RELEASED, "was given up");
    lh_lease_client_open(&w->leases, &w->program, lh_seconds(5));
    step_to(w, 107);
    assert_string_equal(w->program_events, "program ended. "); /* that session, not the former */
    assert_int_equal(w->leases.away, 1);
    step_to(w, 116);
    assert_string_equal(w->program_events, "program ended. program ended. ");
    assert_int_equal(w->leases.away, 0);
}

static void the_deadline_is_that_of_what_ends_first(void **state)
{
    struct world *w = *state;

    struct lh_instant sessions = lh_leases_deadline(&w->leases);
    assert_true(sessions.ns > at_s(101).ns && sessions.ns <= at_s(111).ns + 1000000);
    lh_leases_deinit(&w->leases);
    lh_timers_deinit(&w->timers);
    make(w, 100, WAIT_S);
    assert_int_equal(lh_timers_next(&w->timers).ns, at_s(130).ns + 1000000);
    step_to(w, 131);
    assert_int_equal(lh_leases_deadline(&w->leases).ns, LH_INSTANT_NEVER.ns);
}

#define STORY(f)   cmocka_unit_test_setup_teardown(f, setup, teardown)
#define RESTART(f) cmocka_unit_test_setup_teardown(f, setup_restart, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(one_id_of_two_kinds_is_two_leases),
        STORY(an_ended_session_is_reported_to_the_owners_of_its_kinds_alone),
        STORY(each_kind_has_its_term),
        STORY(locks_are_shared_or_exclusive),
        STORY(what_is_shown_goes_on_in_the_new_session_and_the_rest_is_free),
        STORY(only_exactly_what_was_granted_goes_on),
        STORY(a_grant_that_was_not_confirmed_goes_over_into_the_new_session),
        STORY(what_is_recalled_is_not_extended),
        STORY(a_dead_process_holds_nothing),
        STORY(what_nobody_speaks_for_runs_out),
        STORY(the_sums_of_both_sides_are_of_what_is_confirmed_in_the_session),
        STORY(a_new_version_is_for_the_same_holder),
        RESTART(what_is_on_record_waits_for_its_holder),
        RESTART(other_chunks_need_not_wait),
        RESTART(no_lock_is_granted_before_every_program_is_back),
        RESTART(what_was_promised_earlier_is_over_earlier),
        cmocka_unit_test(a_session_goes_on_when_its_promises_are_over),
        RESTART(of_conflicting_showings_one_stands),
        RESTART(a_program_that_attached_and_showed_nothing_yet_is_not_back),
        STORY(the_deadline_is_that_of_what_ends_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
