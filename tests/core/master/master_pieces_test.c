/* Registrations that come in pieces (SES-1a). */
#include "tests/core/master/master_story.h"

/* The next piece of `s`, which shows that replica and its lease (0: none). */
static void piece(struct server *s, uint64_t number, bool more, uint64_t chunk, uint64_t version)
{
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;

    report.chunk = held.chunk = chunk;
    report.version = 1;
    held.version = version;
    s->piece = number;
    s->more = more;
    server_register_with(&w, s, &report, chunk != 0, &held, version != 0);
}

/* Its stream broke; it begins to register again. */
static void come_back(struct server *s)
{
    if (s->link != 0)
        world_break_link(&w, s->link);
    s->link = s->session = 0;
    s->registration++;
}

/* Its last lease is in this piece, and replicas follow; or not. */
static void last_lease(
    struct server *s, uint64_t number, bool more, uint64_t chunk, uint64_t version)
{
    s->leases_shown = true;
    piece(s, number, more, chunk, version);
    s->leases_shown = false;
}

static const char *state_at(uint64_t chunk, const char *server)
{
    const Leasehold__ChunkState *state = explain("", chunk)->chunk;

    for (size_t i = 0; i < state->n_replicas; i++)
        if (strcmp(state->replicas[i]->server_id, server) == 0)
            return state->replicas[i]->state;
    return "";
}

/* Two files with one primary, which the test gives to it: the server that has both leases. */
static struct server *two_chunks(uint64_t chunks[2])
{
    struct server *primaries[4];
    uint64_t found[4];

    three_up();
    static const char *const paths[] = {"/a", "/b", "/c", "/d"};
    for (size_t i = 0; i < 4; i++)
        found[i] = file_with_primary(paths[i], &primaries[i]);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = i + 1; k < 4; k++)
            if (primaries[i] == primaries[k]) {
                chunks[0] = found[i];
                chunks[1] = found[k];
                return primaries[i];
            }
    fail_msg("four chunks at three servers have four primaries");
    return NULL;
}

static void a_registration_counts_with_its_last_piece(void **state)
{
    uint64_t chunks[2];

    (void)state;
    struct server *s = two_chunks(chunks);
    come_back(s);
    piece(s, 0, true, chunks[0], 1);
    world_advance(&w, 100);
    assert_true(s->session == 0);
    assert_string_equal(state_of(chunks[0]), "HELD");
    assert_string_equal(state_of(chunks[1]), "HELD"); /* which was not shown yet */
    piece(s, 1, false, chunks[1], 1);
    assert_true(s->session != 0);
    assert_string_equal(state_of(chunks[0]), "HELD");
    assert_string_equal(state_of(chunks[1]), "HELD");
    assert_true(server_heartbeat(&w, s));
}

static void what_no_piece_shows_is_free(void **state)
{
    uint64_t chunks[2];

    (void)state;
    struct server *s = two_chunks(chunks);
    come_back(s);
    piece(s, 0, true, chunks[0], 1);
    piece(s, 1, false, chunks[1], 0);
    assert_true(s->session != 0);
    assert_string_equal(state_of(chunks[0]), "HELD");
    assert_string_equal(state_of(chunks[1]), "FREE");
}

/* The former session goes on: nobody is waited for, and nothing is given away. */
static void pieces_go_with_their_stream(void **state)
{
    uint64_t chunks[2];

    (void)state;
    struct server *s = two_chunks(chunks);
    come_back(s);
    piece(s, 0, true, chunks[0], 1);
    come_back(s);
    assert_string_equal(state_of(chunks[0]), "HELD");
    assert_string_equal(state_of(chunks[1]), "HELD");
    piece(s, 0, false, chunks[1], 1); /* the other one has ended since */
    assert_true(s->session != 0);
    assert_string_equal(state_of(chunks[0]), "FREE");
    assert_string_equal(state_of(chunks[1]), "HELD");
}

static void a_newer_registration_drops_the_pieces_on_its_stream(void **state)
{
    uint64_t chunks[2];

    (void)state;
    struct server *s = two_chunks(chunks);
    come_back(s);
    piece(s, 0, true, chunks[0], 1);
    s->registration++;
    piece(s, 0, true, chunks[1], 1);
    piece(s, 1, false, 0, 0);
    assert_true(s->session != 0);
    assert_string_equal(state_of(chunks[0]), "FREE");
    assert_string_equal(state_of(chunks[1]), "HELD");
}

static void a_piece_that_follows_nothing_ends_its_stream(void **state)
{
    uint64_t chunks[2];

    (void)state;
    struct server *s = two_chunks(chunks);
    come_back(s);
    piece(s, 1, false, chunks[0], 1);
    assert_int_equal(world_end(&w, s->link), LH_ERR_MALFORMED);
    come_back(s);
    piece(s, 0, true, chunks[0], 1);
    piece(s, 2, false, chunks[1], 1); /* one is missing */
    assert_int_equal(world_end(&w, s->link), LH_ERR_MALFORMED);
    come_back(s);
    piece(s, 0, true, chunks[0], 1);
    s->registration++;
    piece(s, 1, false, chunks[1], 1); /* of another registration */
    assert_int_equal(world_end(&w, s->link), LH_ERR_MALFORMED);
    assert_string_equal(state_of(chunks[0]), "HELD");
    assert_string_equal(state_of(chunks[1]), "HELD");
}

/* SES-1: which registration is the last one is seen when it is whole. */
static void one_that_another_has_overtaken_is_refused(void **state)
{
    uint64_t chunks[2];

    (void)state;
    struct server *s = two_chunks(chunks), slow;
    come_back(s);
    piece(s, 0, true, chunks[0], 1);
    slow = *s;
    s->link = 0;
    s->registration++;
    piece(s, 0, false, chunks[1], 1);
    assert_true(s->session != 0);
    piece(&slow, 1, false, 0, 0);
    assert_true(slow.session == 0);
    assert_string_equal(state_of(chunks[0]), "FREE");
    assert_string_equal(state_of(chunks[1]), "HELD");
    assert_true(server_heartbeat(&w, s));
}

/* TIME-4: on a slow link it would be over before it begins. */
static void the_session_begins_with_the_last_piece(void **state)
{
    (void)state;
    three_up();
    come_back(a);
    for (uint64_t i = 0; i < 8; i++) {
        piece(a, i, i < 7, 0, 0);
        world_advance(&w, 2000);
        assert_true(server_heartbeat(&w, b) && server_heartbeat(&w, c));
    }
    assert_true(a->session != 0);
    assert_true(a->last_stamp == w.now.ns - lh_milliseconds(2000).ns);
    world_advance(&w, 7000); /* of ten seconds, two have passed */
    assert_true(server_heartbeat(&w, a));
}

/* Leases come first, and go on with the last of them; what is not shown yet is not missing. */
static void a_session_begins_with_its_leases_and_replicas_follow(void **state)
{
    uint64_t chunks[2];

    (void)state;
    struct server *s = two_chunks(chunks);
    come_back(s);
    piece(s, 0, true, 0, 0);
    assert_true(s->session == 0);
    last_lease(s, 1, true, chunks[0], 1);
    assert_true(s->session != 0);
    assert_string_equal(state_of(chunks[0]), "HELD");
    assert_string_equal(state_of(chunks[1]), "FREE"); /* no lease follows */
    assert_string_equal(state_at(chunks[0], s->id), "AWAY");
    heartbeats(5000);
    assert_true(server_heartbeat(&w, s));
    assert_string_equal(state_at(chunks[1], s->id), "AWAY");
    piece(s, 2, true, 0, 0);
    assert_string_equal(state_at(chunks[0], s->id), "AWAY");
    piece(s, 3, false, 0, 0);
    assert_string_equal(state_at(chunks[0], s->id), "GOOD");
    assert_string_equal(state_at(chunks[1], s->id), "MISSING");
}

static void replicas_that_follow_a_session_that_is_over_count_for_nothing(void **state)
{
    uint64_t chunks[2];

    (void)state;
    struct server *s = two_chunks(chunks);
    come_back(s);
    last_lease(s, 0, true, chunks[0], 1);
    struct server slow = *s;
    s->link = 0;
    s->registration++;
    last_lease(s, 0, true, chunks[0], 1);
    assert_int_equal(world_end(&w, slow.link), LH_ERR_STALE_REGISTRATION);
    assert_string_equal(state_at(chunks[1], s->id), "AWAY");
    piece(s, 1, false, chunks[1], 0);
    assert_string_equal(state_at(chunks[1], s->id), "GOOD");
}

/* SES-1b: it has sent others before it reads that it is refused. */
static void pieces_behind_a_refusal_are_passed_over(void **state)
{
    (void)state;
    three_up();
    down(a);
    struct server next = {.id = a->id, .incarnation = a->incarnation, .process = 77};
    last_lease(&next, 0, true, 0, 0);
    assert_true(next.session == 0 && next.challenged != 0);
    uint64_t challenged = next.challenged;
    piece(&next, 1, true, 0, 0);
    next.challenge = challenged;
    last_lease(&next, 0, false, 0, 0);
    assert_true(next.session != 0);
    next.leases_shown = next.more = false;
    assert_true(server_heartbeat(&w, &next));
}

/* ---- Turns: replicas come when the master asks. */

static bool is_asked(struct server *s)
{
    return world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_SHOW_REPLICAS) != NULL;
}

/* Only one server shows at a time, and it is `a`; `b` waits. */
static void given_a_turn_of_a(void)
{
    w.config.turn_servers = 1;
    crash();
    a->link = b->link = c->link = 0;
    a->session = b->session = c->session = 0;
    a->registration++;
    b->registration++;
    last_lease(a, 0, true, 0, 0);
    last_lease(b, 0, true, 0, 0);
    assert_true(a->session != 0 && b->session != 0);
    assert_true(is_asked(a));
    assert_false(is_asked(b));
}

static void servers_show_their_replicas_in_turns(void **state)
{
    (void)state;
    given_a_turn_of_a();
    piece(a, 1, true, 0, 0);
    assert_true(is_asked(a)); /* until it is done */
    assert_false(is_asked(b));
    piece(a, 2, false, 0, 0);
    assert_false(is_asked(a));
    assert_true(is_asked(b));
}

/* Else a server that breaks off sixteen times is the last to be asked anything. */
static void a_turn_ends_with_its_session(void **state)
{
    (void)state;
    given_a_turn_of_a();
    come_back(a);
    last_lease(a, 0, true, 0, 0);
    assert_true(is_asked(b)); /* it waited before */
    assert_false(is_asked(a));
    piece(b, 1, false, 0, 0);
    assert_true(is_asked(a));
}

/* Members at a server that never gets a turn are gone after the grace period (KEEP-1). */
static void who_shows_nothing_when_asked_lets_others_go_first(void **state)
{
    (void)state;
    given_a_turn_of_a();
    for (int i = 0; i < 10; i++) {
        assert_false(is_asked(b));
        world_advance(&w, 1000);
        assert_true(server_heartbeat(&w, a) && server_heartbeat(&w, b));
    }
    assert_true(is_asked(b));
    piece(b, 1, true, 0, 0);
    assert_true(is_asked(b));
    piece(a, 1, true, 0, 0); /* it was slow: what it shows counts, and it waits for its turn */
    assert_false(is_asked(a));
    piece(b, 2, false, 0, 0);
    assert_true(is_asked(a));
    piece(a, 2, false, 0, 0);
    assert_false(is_asked(a));
}

static void lets_pass(uint64_t seconds, struct server *one, struct server *other)
{
    for (uint64_t i = 0; i < seconds; i++) {
        world_advance(&w, 1000);
        assert_true(server_heartbeat(&w, one) && server_heartbeat(&w, other));
    }
}

/* A piece now and then is no reason to keep the turn for ever. */
static void who_shows_slowly_lets_others_go_on_after_its_time(void **state)
{
    (void)state;
    given_a_turn_of_a();
    lets_pass(6, a, b);
    piece(a, 1, true, 0, 0);
    assert_true(is_asked(a));
    assert_false(is_asked(b));
    lets_pass(6, a, b);
    assert_true(is_asked(b));
    piece(a, 2, true, 0, 0);
    assert_false(is_asked(a));
    piece(b, 1, false, 0, 0);
    assert_true(is_asked(a));
}

static void no_server_without_a_session_gets_a_turn(void **state)
{
    (void)state;
    given_a_turn_of_a();
    c->registration++;
    last_lease(c, 0, true, 0, 0);
    world_break_link(&w, a->link);
    a->link = a->session = 0;
    lets_pass(10, b, c);
    assert_true(is_asked(b));
    lets_pass(10, b, c);
    assert_true(is_asked(c));
    lets_pass(9, b, c);
    piece(c, 1, false, 0, 0);
    assert_true(is_asked(b)); /* not a, whose session is over */
}

/* KEEP-1: what a server has is not gone for want of the master's time. */
static void who_waits_for_its_turn_is_away(void **state)
{
    uint64_t chunks[2];

    (void)state;
    w.config.turn_time = lh_seconds(400);
    (void)two_chunks(chunks);
    given_a_turn_of_a();
    lets_pass(390, a, b);
    assert_string_equal(state_at(chunks[0], a->id), "GONE"); /* it was asked */
    assert_string_equal(state_at(chunks[0], b->id), "AWAY");
    lets_pass(10, a, b);
    assert_true(is_asked(b));
    lets_pass(290, a, b);
    assert_string_equal(state_at(chunks[0], b->id), "AWAY");
    lets_pass(20, a, b);
    assert_string_equal(state_at(chunks[0], b->id), "GONE");
}

/* It was gone before it came, and is not waited for again because it waits. */
static void who_was_gone_is_gone_while_it_waits_for_its_turn(void **state)
{
    uint64_t chunks[2];

    (void)state;
    w.config.turn_time = lh_seconds(400);
    (void)two_chunks(chunks);
    w.config.turn_servers = 1;
    crash();
    a->link = b->link = c->link = 0;
    a->session = b->session = c->session = 0;
    a->registration++;
    last_lease(a, 0, true, 0, 0);
    lets_pass(310, a, a);
    assert_string_equal(state_at(chunks[0], b->id), "GONE");
    b->registration++;
    last_lease(b, 0, true, 0, 0);
    assert_false(is_asked(b));
    assert_string_equal(state_at(chunks[0], b->id), "GONE");
}

/* KEEP-4: behind an older copy of the store, also of what it has not shown yet. */
static void no_chunk_gets_a_number_that_a_server_in_session_has(void **state)
{
    struct server *primary;

    (void)state;
    three_up();
    come_back(a);
    a->last_chunk = 50;
    last_lease(a, 0, true, 0, 0);
    assert_true(a->session != 0);
    assert_true(file_with_primary("/new", &primary) > 50);
}

static void too_many_replicas_are_refused(void **state)
{
    (void)state;
    w.config.replicas_max = 2;
    crash();
    piece(a, 0, true, 1, 0);
    piece(a, 1, true, 2, 0);
    piece(a, 2, false, 3, 0);
    assert_true(a->session == 0);
    come_back(a);
    piece(a, 0, true, 1, 0);
    piece(a, 1, false, 2, 0);
    assert_true(a->session != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_registration_counts_with_its_last_piece),
        STORY(what_no_piece_shows_is_free),
        STORY(pieces_go_with_their_stream),
        STORY(a_newer_registration_drops_the_pieces_on_its_stream),
        STORY(a_piece_that_follows_nothing_ends_its_stream),
        STORY(one_that_another_has_overtaken_is_refused),
        STORY(the_session_begins_with_the_last_piece),
        STORY(a_session_begins_with_its_leases_and_replicas_follow),
        STORY(replicas_that_follow_a_session_that_is_over_count_for_nothing),
        STORY(pieces_behind_a_refusal_are_passed_over),
        STORY(servers_show_their_replicas_in_turns),
        STORY(a_turn_ends_with_its_session),
        STORY(who_shows_nothing_when_asked_lets_others_go_first),
        STORY(who_shows_slowly_lets_others_go_on_after_its_time),
        STORY(no_server_without_a_session_gets_a_turn),
        STORY(who_waits_for_its_turn_is_away),
        STORY(who_was_gone_is_gone_while_it_waits_for_its_turn),
        STORY(no_chunk_gets_a_number_that_a_server_in_session_has),
        STORY(too_many_replicas_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
