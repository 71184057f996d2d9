/* Stories about servers that ask for capabilities (ACC-5, ACC-9), and are told keys. Each is
 * told under several orders of events, for synced and for buffered files. */
#include "base/probe.h"
#include "tests/core/chunkserver/chunkserver_story.h"

#define TERM_S 30u
#define READ   LH_CAPABILITY_READ
#define BOTH   (READ | LH_CAPABILITY_APPEND)

static struct lh_capability_issuer issuer;
static uint8_t bytes[LH_CAPABILITY_BYTES];

/* Capabilities hold for 30 s; a key is new every 60 s. The servers start again, and ask. */
static void given_capabilities(struct world *w)
{
    static const uint8_t root[LH_CAPABILITY_SECRET_BYTES] = {1, 2, 3};

    lh_capability_issuer_init(&issuer, root, w->master_term, lh_seconds(TERM_S), lh_seconds(60),
        lh_milliseconds(SESSION_TERM_MS));
    w->issuer = &issuer;
    w->capabilities = true;
    for (int i = A; i <= D; i++) {
        node_kill(w, i, false);
        node_start(w, i);
    }
    settle(w);
}

static void forget(void)
{
    lh_capability_issuer_deinit(&issuer);
}

/* From now on this one is shown. */
static void shows(struct world *w, uint64_t chunk, unsigned rights)
{
    lh_capability_give(&issuer, w->now, chunk, rights, bytes);
    w->capability = (ProtobufCBinaryData){sizeof bytes, bytes};
}

static void shows_none(struct world *w)
{
    w->capability = (ProtobufCBinaryData){0};
}

static struct conn *opens(struct world *w, int node)
{
    static uint64_t writers = 7000;
    struct conn *c = appender(w, node, 1, ++writers, 1);

    settle(w);
    return c;
}

static bool stale(const struct conn *c)
{
    return !c->opened && c->error == LH_ERR_STALE_CAPABILITY;
}

static int read_error(struct world *w, Leasehold__ReadMode mode)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    q.chunk = CHUNK;
    q.max_bytes = 1 << 20;
    q.mode = mode;
    q.version = 1;
    q.capability = w->capability;
    struct conn *r = reader(w, A, q);
    settle(w);
    return lh_error_from_wire(read_reply(r)->error);
}

STORY(a_lane_needs_the_right_to_append_to_its_chunk)
{
    given_capabilities(w);
    given_a_chunk(w, ABC);
    shows_none(w);
    assert_true(stale(opens(w, A)));
    shows(w, CHUNK, READ);
    assert_true(stale(opens(w, A)));
    shows(w, CHUNK + 1, BOTH);
    assert_true(stale(opens(w, A)));
    shows(w, CHUNK, BOTH);
    bytes[12] ^= 1; /* for longer */
    assert_true(stale(opens(w, A)));
    bytes[12] ^= 1;
    assert_true(opens(w, A)->opened);
    forget();
}

STORY(nothing_else_is_said_to_who_has_none)
{
    given_capabilities(w);
    given_a_chunk(w, ABC);
    shows_none(w);
    assert_true(stale(opens(w, B))); /* not: this server is not the primary */
    shows(w, CHUNK, BOTH);
    assert_int_equal(opens(w, B)->error, LH_ERR_NOT_PRIMARY);
    forget();
}

STORY(a_read_and_a_settling_need_the_right_to_read)
{
    given_capabilities(w);
    given_a_chunk(w, ABC);
    shows(w, CHUNK, BOTH);
    struct conn *c = opens(w, A);
    append(c, 1, 100);
    settle(w);
    shows_none(w);
    assert_int_equal(read_error(w, LEASEHOLD__READ_MODE__CLIENT), LH_ERR_STALE_CAPABILITY);
    assert_int_equal(read_error(w, (Leasehold__ReadMode)9), LH_ERR_STALE_CAPABILITY);
    struct conn *s = settler(w, A, 1, WRITER);
    settle(w);
    assert_int_equal(settle_reply(s)->error, LEASEHOLD__ERROR_CODE__STALE_CAPABILITY);
    shows(w, CHUNK, READ);
    assert_int_equal(read_error(w, LEASEHOLD__READ_MODE__CLIENT), LH_OK);
    s = settler(w, A, 1, WRITER);
    settle(w);
    pass(w, 1000);
    assert_int_equal(settle_reply(s)->error, LEASEHOLD__ERROR_CODE__RECOVERING);
    forget();
}

STORY(servers_read_from_each_other_without_one)
{
    given_capabilities(w);
    given_a_chunk(w, ABC);
    shows_none(w);
    assert_int_equal(read_error(w, LEASEHOLD__READ_MODE__COPY), LH_OK);
    assert_int_equal(read_error(w, LEASEHOLD__READ_MODE__RECOVERY), LH_OK);
    forget();
}

STORY(a_lane_ends_with_what_was_shown_and_its_batches_come_again)
{
    given_capabilities(w);
    given_a_chunk(w, ABC);
    shows(w, CHUNK, BOTH);
    struct conn *c = opens(w, A);
    append(c, 1, 100);
    settle(w);
    (void)position(c, 1);

    pass(w, (TERM_S - 1) * 1000);
    append(c, 2, 100);
    settle(w);
    (void)position(c, 2);
    pass(w, 1000);
    append(c, 3, 100);
    settle(w);
    assert_true(c->closed && c->error == LH_ERR_STALE_CAPABILITY);
    assert_false(answered(c, 3));

    assert_true(stale(opens(w, A)));
    shows(w, CHUNK, BOTH);
    struct conn *again = appender(w, A, 1, c->writer, 3);
    settle(w);
    assert_true(again->opened);
    append(again, 2, 100); /* a repeat */
    append(again, 3, 100);
    settle(w);
    assert_int_equal(position(again, 2), BATCH);
    assert_int_equal(position(again, 3), 2 * BATCH);
    check_logs(w, ABC);
    forget();
}

STORY(another_writer_of_the_lane_shows_one_for_all_of_it)
{
    given_capabilities(w);
    given_a_chunk(w, ABC);
    shows(w, CHUNK, BOTH);
    struct conn *c = opens(w, A);
    pass(w, (TERM_S - 1) * 1000);
    shows_none(w);
    join_stream(c, 77, 1);
    settle(w);
    assert_int_equal(c->error, LH_ERR_STALE_CAPABILITY);
    c->error = LH_OK;
    shows(w, CHUNK, BOTH);
    join_stream(c, 77, 1);
    pass(w, 5000);
    append(c, 1, 100); /* of the first writer */
    settle(w);
    (void)position(c, 1);
    assert_int_equal(c->error, LH_OK);
    forget();
}

STORY(keys_change_while_clients_go_on)
{
    given_capabilities(w);
    given_a_chunk(w, ABC);
    for (unsigned s = 0; s < 600; s += 4) {
        shows(w, CHUNK, BOTH);
        struct conn *c = opens(w, A);
        assert_true(c->opened);
        append(c, 1, 100); /* or the lease runs out */
        settle(w);
        hang_up(c);
        pass(w, 4000);
    }
    assert_true(issuer.made >= 9);
    forget();
}

STORY(a_server_that_starts_again_hears_the_keys_with_its_registration)
{
    given_capabilities(w);
    given_a_chunk(w, ABC);
    pass(w, 100000);
    shows(w, CHUNK, READ);
    node_kill(w, A, false);
    w->master_deaf = true;
    node_start(w, A);
    settle(w);
    assert_int_equal(read_error(w, LEASEHOLD__READ_MODE__CLIENT), LH_ERR_STALE_CAPABILITY);
    w->master_deaf = false;
    pass(w, 5000);
    assert_int_equal(read_error(w, LEASEHOLD__READ_MODE__CLIENT), LH_OK);
    forget();
}

/* ---- Who leads (ACC-9). */

/* What B answers whoever has the certificate, and has it adopt the version with these bytes. */
static int adopts(
    struct world *w, const char *certificate, uint64_t version, ProtobufCBinaryData lead)
{
    Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;

    w->certificate = certificate;
    struct conn *f = feeder(w, B);
    q.version = version;
    q.capability = lead;
    feed(f, q, NULL);
    settle(w);
    w->certificate = NULL;
    if (f->closed)
        return f->closed_error;
    return lh_error_from_wire(feed_reply(f, 0)->error);
}

static const char *const a_server = "leasehold://chunkserver/a";
static const char *const c_server = "leasehold://chunkserver/c";

STORY(a_version_is_adopted_for_whom_the_master_has_granted_it_to)
{
    uint8_t lead[LH_CAPABILITY_BYTES];

    given_capabilities(w);
    given_a_chunk(w, ABC);
    shows(w, CHUNK, BOTH);
    struct conn *c = given_a_writer(w, A, 1, 1);
    /* When others name versions, then nothing changes. */
    ProtobufCBinaryData granted = master_lead(w, C, B, 2, lead);
    assert_int_equal(adopts(w, c_server, 2, (ProtobufCBinaryData){0}), LH_ERR_STALE_CAPABILITY);
    assert_int_equal(adopts(w, c_server, 1, granted), LH_ERR_STALE_CAPABILITY);
    assert_int_equal(adopts(w, c_server, 3, granted), LH_ERR_STALE_CAPABILITY);
    assert_int_equal(adopts(w, a_server, 2, granted), LH_ERR_STALE_CAPABILITY);
    assert_int_equal(adopts(w, "leasehold://reader/c", 2, granted), LH_ERR_PERMISSION);
    assert_int_equal(adopts(w, "", 2, granted), LH_ERR_STALE_CAPABILITY);
    assert_int_equal(
        adopts(w, c_server, 2, master_lead(w, C, A, 2, lead)), LH_ERR_STALE_CAPABILITY);
    assert_int_equal(node_status(w, B).version, 1);
    append(c, 2, 100);
    settle(w);
    (void)position(c, 2);
    /* However far above: a master has granted it. */
    uint64_t far = UINT64_C(1) << 40;
    assert_int_equal(adopts(w, c_server, far, master_lead(w, C, B, far, lead)), LH_OK);
    assert_int_equal(node_status(w, B).version, far);
    /* A fenced primary hears of it, whatever it shows. */
    assert_int_equal(adopts(w, a_server, 1, (ProtobufCBinaryData){0}), LH_ERR_STALE_VERSION);
    forget();
}

STORY(no_key_that_servers_share_makes_a_leader)
{
    uint8_t lead[LH_CAPABILITY_BYTES], own[LH_CAPABILITY_SECRET_BYTES];
    const struct lh_lead wanted = {.chunk = CHUNK, .version = 2, .holder = "c"};

    given_capabilities(w);
    given_a_chunk(w, ABC);
    lh_capability_make_lead(issuer.keys[0].secret, issuer.reign, &wanted, lead);
    ProtobufCBinaryData forged = {sizeof lead, lead};
    assert_int_equal(adopts(w, c_server, 2, forged), LH_ERR_STALE_CAPABILITY);
    lh_capability_make_lead(issuer.keys[0].secret, issuer.keys[0].number, &wanted, lead);
    assert_int_equal(adopts(w, c_server, 2, forged), LH_ERR_STALE_CAPABILITY);
    lh_capability_lead_key(&issuer, "c", own);
    lh_capability_make_lead(own, issuer.reign, &wanted, lead);
    assert_int_equal(adopts(w, c_server, 2, forged), LH_ERR_STALE_CAPABILITY);
    lh_capability_give(&issuer, w->now, CHUNK, BOTH | LH_CAPABILITY_LEAD, lead);
    assert_int_equal(adopts(w, c_server, 2, forged), LH_ERR_STALE_CAPABILITY);
    assert_int_equal(node_status(w, B).version, 1);
    forget();
}

/* A master of the next reign, with which A and C go on as they are. */
static void given_the_next_reign(struct world *w)
{
    static const uint8_t root[LH_CAPABILITY_SECRET_BYTES] = {4, 5, 6};

    lh_capability_issuer_deinit(&issuer);
    w->master_term++;
    lh_capability_issuer_init(&issuer, root, w->master_term, lh_seconds(TERM_S), lh_seconds(60),
        lh_milliseconds(SESSION_TERM_MS));
    w->master_continues = true;
    for (int i = A; i <= D; i++)
        break_wire(w, w->nodes[i].session_wire);
    pass(w, 200);
}

STORY(a_member_that_starts_in_another_reign_is_led_by_a_grant_of_that)
{
    given_capabilities(w);
    given_a_chunk(w, ABC);
    shows(w, CHUNK, BOTH);
    struct conn *c = given_a_writer(w, A, 1, 1);
    given_the_next_reign(w);
    append(c, 2, 100); /* what was shown before still holds */
    settle(w);
    (void)position(c, 2);
    break_wire(w, w->nodes[B].session_wire);
    pass(w, 200); /* B knows both keys */
    append(c, 3, 100);
    settle(w);
    (void)position(c, 3);

    restart(w, B, false);
    append(c, 4, 100);
    pass(w, 500);
    assert_false(answered(c, 4));
    assert_int_equal(heard(w, A)->failed.n, 0);
    master_grant(w, A, 1, ABC, 2);
    settle(w);
    (void)position(c, 4);
    pass(w, 700);
    assert_int_equal(heard(w, A)->failed.n, 0);
    check_logs(w, ABC);
    forget();
}

STORY(a_member_that_has_not_registered_counts_like_one_that_is_away)
{
    given_capabilities(w);
    given_a_chunk(w, ABC);
    shows(w, CHUNK, BOTH);
    struct conn *c = given_a_writer(w, A, 1, 1);
    node_kill(w, B, false);
    settle(w);
    w->stalled[B][MASTER] = true;
    node_start(w, B);
    append(c, 2, 100);
    pass(w, 500);
    assert_int_equal(heard(w, A)->failed.n, 0);
    pass(w, 1500);
    assert_int_equal(heard(w, A)->failed.members, 1u << B);
    w->stalled[B][MASTER] = false;
    pass(w, 3000);
    (void)position(c, 2);
    check_logs(w, ABC);
    forget();
}

STORY(planted_nothing_is_asked_for)
{
    assert_true(lh_plant("capability-not-asked", true));
    given_capabilities(w);
    given_a_chunk(w, ABC);
    shows_none(w);
    assert_true(opens(w, A)->opened);
    lh_plant_none();
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_needs_the_right_to_append_to_its_chunk),
        cmocka_unit_test(nothing_else_is_said_to_who_has_none),
        cmocka_unit_test(a_read_and_a_settling_need_the_right_to_read),
        cmocka_unit_test(servers_read_from_each_other_without_one),
        cmocka_unit_test(a_lane_ends_with_what_was_shown_and_its_batches_come_again),
        cmocka_unit_test(another_writer_of_the_lane_shows_one_for_all_of_it),
        cmocka_unit_test(keys_change_while_clients_go_on),
        cmocka_unit_test(a_server_that_starts_again_hears_the_keys_with_its_registration),
        cmocka_unit_test(a_version_is_adopted_for_whom_the_master_has_granted_it_to),
        cmocka_unit_test(no_key_that_servers_share_makes_a_leader),
        cmocka_unit_test(a_member_that_starts_in_another_reign_is_led_by_a_grant_of_that),
        cmocka_unit_test(a_member_that_has_not_registered_counts_like_one_that_is_away),
        cmocka_unit_test(planted_nothing_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
