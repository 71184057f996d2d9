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

/* Its stream broke; it begins to register anew. */
static void come_back(struct server *s)
{
    if (s->link != 0)
        world_break_link(&w, s->link);
    s->link = s->session = 0;
    s->registration++;
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
        STORY(too_many_replicas_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
