/* Stories about capabilities as a master gives them (ACC-5, ACC-9), and the keys that it tells
 * (ACC-6). */
#include "tests/core/master/master_story.h"

#define READ   LH_CAPABILITY_READ
#define APPEND LH_CAPABILITY_APPEND

static struct lh_capability_keys keys; /* of server a, ... */
static struct lh_capability_keys late; /* ... and of server b */

/* The master gives them for 30 s; a new key each minute. */
static int gives(void **state)
{
    set_up(state);
    w.config.capabilities = true;
    w.config.capability_secret[5] = 17;
    w.config.capability_term = lh_seconds(30);
    w.config.capability_key_period = lh_seconds(60);
    crash();
    lh_capability_keys_init(&keys, 8);
    lh_capability_keys_init(&late, 8);
    a->keys = &keys;
    b->keys = &late;
    return 0;
}

static int forget(void **state)
{
    lh_capability_keys_deinit(&keys);
    lh_capability_keys_deinit(&late);
    return tear_down(state);
}

static enum lh_capability_verdict check(
    const struct lh_capability_keys *by, const Leasehold__ChunkInfo *chunk, unsigned rights)
{
    struct lh_instant until;

    return lh_capability_check(
        by, chunk->chunk, rights, chunk->capability.data, chunk->capability.len, w.now, &until);
}

static const Leasehold__ChunkInfo *tail(bool reads)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    r.path = (char *)(uintptr_t) "/f";
    r.reads = reads;
    const Leasehold__OpenTailReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_OPEN_TAIL, &r));
    return reply->chunk;
}

static const Leasehold__ChunkInfo *located(void)
{
    Leasehold__LocateRequest r = LEASEHOLD__LOCATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t) "/f";
    const Leasehold__LocateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    return reply->chunks[0];
}

static const Leasehold__ChunkInfo *listed(void)
{
    Leasehold__ListChunksRequest r = LEASEHOLD__LIST_CHUNKS_REQUEST__INIT;
    const Leasehold__ListChunksReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_CHUNKS, &r));
    return reply->chunks[0]->chunk;
}

static void given_a_file(void)
{
    struct server *primary;

    three_up();
    (void)file_with_primary("/f", &primary);
}

static void a_chunk_comes_with_the_rights_that_the_call_needed(void **state)
{
    (void)state;
    given_a_file();
    assert_int_equal(check(&keys, tail(false), READ | APPEND), LH_CAPABILITY_HOLDS);
    assert_int_equal(check(&keys, tail(true), READ), LH_CAPABILITY_HOLDS);
    assert_int_equal(check(&keys, tail(true), APPEND), LH_CAPABILITY_LACKING);
    assert_int_equal(check(&keys, located(), READ), LH_CAPABILITY_HOLDS);
    assert_int_equal(check(&keys, located(), APPEND), LH_CAPABILITY_LACKING);
    assert_int_equal(check(&keys, listed(), READ), LH_CAPABILITY_HOLDS);
    assert_int_equal(check(&keys, listed(), APPEND), LH_CAPABILITY_LACKING);
}

static void what_is_for_people_has_none(void **state)
{
    (void)state;
    given_a_file();
    assert_int_equal(explain("/f", 0)->chunk->chunk->capability.len, 0);
}

static void without_certificates_there_are_none(void **state)
{
    (void)state;
    w.config.capabilities = false;
    crash();
    given_a_file();
    assert_int_equal(located()->capability.len, 0);
    assert_int_equal(a->keys_notified, 0);
    assert_true(server_heartbeat(&w, a));
    assert_int_equal(a->keys_notified, 0);
}

static void keys_are_told_with_each_answer_before_they_are_used(void **state)
{
    (void)state;
    given_a_file();
    /* When hours pass, then whatever is given holds at a server whose session lives. */
    for (unsigned i = 0; i < 1000; i++) {
        heartbeats(HEARTBEAT_MS);
        assert_int_equal(check(&keys, located(), READ), LH_CAPABILITY_HOLDS);
        assert_true(a->keys_notified > 0 && a->keys_notified <= LH_CAPABILITY_KEYS);
    }
}

static void a_new_reign_has_keys_of_its_own_and_the_old_ones_end_in_time(void **state)
{
    ProtobufCBinaryData old;
    uint8_t bytes[LH_CAPABILITY_BYTES];
    struct lh_instant until;

    (void)state;
    given_a_file();
    const Leasehold__ChunkInfo *chunk = located();
    memcpy(bytes, chunk->capability.data, sizeof bytes);
    old = (ProtobufCBinaryData){sizeof bytes, bytes};
    uint64_t id = chunk->chunk;
    crash();
    a->registration++;
    b->registration++;
    up(a);
    /* What the former master gave is taken by who knew its key, until it ends. */
    assert_int_equal(lh_capability_check(&keys, id, READ, old.data, old.len, w.now, &until),
        LH_CAPABILITY_HOLDS);
    assert_int_equal(check(&keys, located(), READ), LH_CAPABILITY_HOLDS);
    lh_capability_keys_deinit(&late);
    lh_capability_keys_init(&late, 8);
    up(b);
    assert_int_equal(lh_capability_check(&late, id, READ, old.data, old.len, w.now, &until),
        LH_CAPABILITY_UNKNOWN);
    heartbeats(30000);
    assert_int_equal(
        lh_capability_check(&keys, id, READ, old.data, old.len, w.now, &until), LH_CAPABILITY_OVER);
}

/* ---- Who leads (ACC-9). */

static struct lh_capability_keys led[SERVERS];

static int leads(void **state)
{
    gives(state);
    for (size_t i = 0; i < SERVERS; i++) {
        lh_capability_keys_init(&led[i], 8);
        servers[i].led = &led[i];
    }
    return 0;
}

static int forget_leads(void **state)
{
    for (size_t i = 0; i < SERVERS; i++)
        lh_capability_keys_deinit(&led[i]);
    return forget(state);
}

/* Does the grant show each other member that `holder` was granted it, and nobody else? */
static bool shows_who_leads(const Leasehold__Grant *g, const struct server *holder)
{
    const struct lh_lead lead = {.chunk = g->chunk, .version = g->version, .holder = holder->id};

    for (size_t i = 0; i < g->n_members; i++) {
        const Leasehold__Member *member = g->members[i];
        for (size_t k = 0; k < SERVERS; k++) {
            bool wanted = strcmp(servers[k].id, member->server_id) == 0 && &servers[k] != holder;
            if ((lh_capability_check_lead(&led[k], &lead, g->leads[i].data, g->leads[i].len) ==
                    LH_CAPABILITY_HOLDS) != wanted)
                return false;
        }
    }
    return true;
}

/* The grant of a chunk whose holder registers again, goes on, and says what it has recovered. */
static const Leasehold__Grant *granted_again(struct server **primary, uint64_t *chunk)
{
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;

    held.chunk = *chunk;
    held.version = 1;
    Leasehold__ReplicaReport report = report_of(*chunk, 1, false);
    for (size_t i = 0; i < 3; i++) {
        servers[i].registration++;
        assert_true(server_register_with(
            &w, &servers[i], &report, 1, &held, &servers[i] == *primary ? 1 : 0));
    }
    server_recovered(&w, *primary, *chunk, 1);
    return server_grant(&w, *primary);
}

static void a_grant_shows_each_member_who_leads(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    make_file("/f");
    open_tail("/f", 1000);
    for (size_t i = 0; i < 3; i++) {
        const Leasehold__SessionReply *r =
            world_next(&w, servers[i].link, LEASEHOLD__SESSION_REPLY__BODY_CREATE);
        server_created(&w, &servers[i], r->create->chunk, LH_OK);
    }
    for (size_t i = 0; i < 3 && primary == NULL; i++) {
        const Leasehold__Grant *g = server_grant(&w, &servers[i]);
        primary = g == NULL ? NULL : &servers[i];
        assert_true(g == NULL || shows_who_leads(g, primary));
    }
    assert_non_null(primary);
}

static void a_lease_that_goes_on_is_shown_by_the_keys_of_the_reign(void **state)
{
    struct server *primary;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_recovered(&w, primary, chunk, 1);
    assert_true(shows_who_leads(granted_again(&primary, &chunk), primary));
    crash();
    for (size_t i = 0; i < 3; i++) {
        lh_capability_keys_deinit(&led[i]); /* each is a new process, as far as keys go */
        lh_capability_keys_init(&led[i], 8);
    }
    assert_true(shows_who_leads(granted_again(&primary, &chunk), primary));
    assert_null(server_grant(&w, primary)); /* once in a session */
}

/* Servers know a key to be led by under the term of their registration. */
static void a_reign_that_is_raised_has_keys_of_its_own(void **state)
{
    struct server *primary;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_recovered(&w, primary, chunk, 1);
    /* given: one comes that has seen a reign above (SES-9), and all others' streams end */
    d->term_seen = 5;
    d->name_seen = 4711;
    assert_false(server_register(&w, d));
    assert_int_equal(lh_master_term(w.m), 6);
    for (size_t i = 0; i < 3; i++) {
        servers[i].link = 0;
        lh_capability_keys_deinit(&led[i]);
        lh_capability_keys_init(&led[i], 8);
    }
    assert_true(shows_who_leads(granted_again(&primary, &chunk), primary));
}

static void a_lease_that_is_recalled_is_not_granted_again(void **state)
{
    struct server *primary;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_recovered(&w, primary, chunk, 1);
    Leasehold__RecallRequest r = LEASEHOLD__RECALL_REQUEST__INIT;
    r.chunk = chunk;
    world_call(&w, LH_METHOD_RECALL, &r);
    assert_null(granted_again(&primary, &chunk)); /* which would extend it (LEASE-4) */
}

static void without_certificates_nobody_is_shown(void **state)
{
    struct server *primary;

    (void)state;
    w.config.capabilities = false;
    crash();
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_recovered(&w, primary, chunk, 1);
    const Leasehold__Grant *g = granted_again(&primary, &chunk);
    assert_int_equal(g->n_leads, 0);
    assert_int_equal(led[0].count, 0);
}

int main(void)
{
#undef STORY
#define STORY(name) cmocka_unit_test_setup_teardown(name, gives, forget)
    const struct CMUnitTest tests[] = {
        STORY(a_chunk_comes_with_the_rights_that_the_call_needed),
        STORY(what_is_for_people_has_none),
        STORY(without_certificates_there_are_none),
        STORY(keys_are_told_with_each_answer_before_they_are_used),
        STORY(a_new_reign_has_keys_of_its_own_and_the_old_ones_end_in_time),
#undef STORY
#define STORY(name) cmocka_unit_test_setup_teardown(name, leads, forget_leads)
        STORY(a_grant_shows_each_member_who_leads),
        STORY(a_lease_that_goes_on_is_shown_by_the_keys_of_the_reign),
        STORY(a_reign_that_is_raised_has_keys_of_its_own),
        STORY(a_lease_that_is_recalled_is_not_granted_again),
        STORY(without_certificates_nobody_is_shown),
    };

    return cmocka_run_group_tests_name("master capabilities", tests, NULL, NULL);
}
