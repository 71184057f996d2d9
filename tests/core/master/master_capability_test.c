/* Stories about capabilities as a master gives them (ACC-5), and the keys that it tells (ACC-6). */
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
    assert_int_equal(a->keys_told, 0);
    assert_true(server_heartbeat(&w, a));
    assert_int_equal(a->keys_told, 0);
}

static void keys_are_told_with_each_answer_before_they_are_used(void **state)
{
    (void)state;
    given_a_file();
    /* When hours pass, then whatever is given holds at a server whose session lives. */
    for (unsigned i = 0; i < 1000; i++) {
        heartbeats(HEARTBEAT_MS);
        assert_int_equal(check(&keys, located(), READ), LH_CAPABILITY_HOLDS);
        assert_true(a->keys_told > 0 && a->keys_told <= LH_CAPABILITY_KEYS);
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
    };

    return cmocka_run_group_tests_name("master capabilities", tests, NULL, NULL);
}
