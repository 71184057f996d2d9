/* Stories about seals that the servers have and the store, which is an older copy, has not
 * (KEEP-4). */
#include "tests/core/master/master_story.h"

#define CHECKSUM UINT64_C(0x1234)

/* Everybody may act on what the store lacks until then (LEASE-7). */
#define A_SESSION_MS 11000u

static Leasehold__ReplicaReport seal_of(uint64_t chunk, uint64_t version)
{
    Leasehold__ReplicaReport r = report_of(chunk, version, true);

    r.length = 1000;
    r.checksum = CHECKSUM;
    return r;
}

/* The store as it was before the chunk was sealed: nobody has its lease. */
static uint64_t older_copy(void)
{
    struct server *primary = NULL;

    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_release(&w, primary, chunk, 1);
    crash();
    return chunk;
}

/* The seal that a server is to record now; NULL: none. */
static const Leasehold__RecordSeal *notified(struct server *s)
{
    const Leasehold__SessionReply *r =
        world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL);

    return r == NULL ? NULL : r->record_seal;
}

static void is_taken_on(struct server *s, uint64_t version)
{
    const Leasehold__RecordSeal *seal = notified(s);

    assert_non_null(seal);
    assert_int_equal(seal->version, version);
    assert_int_equal(seal->length, 1000);
    assert_int_equal(seal->checksum, CHECKSUM);
}

static void nothing_is_taken_on(void)
{
    heartbeats(A_SESSION_MS);
    for (size_t i = 0; i < SERVERS; i++)
        if (is_up(&servers[i]))
            assert_null(notified(&servers[i]));
}

static void a_seal_that_every_member_shows_is_taken_on(void **state)
{
    struct server *primary = NULL;

    (void)state;
    uint64_t chunk = older_copy();
    const Leasehold__ReplicaReport seal = seal_of(chunk, 1);
    for (size_t i = 0; i < 3; i++) {
        for (size_t n = 0; n < i; n++)
            assert_null(notified(&servers[n]));
        come_with(&servers[i], &seal, 1);
    }
    for (size_t i = 0; i < 3; i++)
        is_taken_on(&servers[i], 2);
    /* It proves that the store is older, at whatever version. */
    assert_false(garbage(false)->deleting);
    assert_non_null(strstr(garbage(false)->why_not, "sealed"));
    open_tail("/f", 5000);
    assert_true(obey(&primary) > chunk);
}

static void a_member_that_is_away_is_waited_for(void **state)
{
    (void)state;
    uint64_t chunk = older_copy();
    const Leasehold__ReplicaReport seal = seal_of(chunk, 1);
    come_with(a, &seal, 1);
    come_with(b, &seal, 1);
    nothing_is_taken_on();
    come_with(c, &seal, 1);
    is_taken_on(a, 2);
}

static void what_a_server_showed_in_a_former_session_does_not_count(void **state)
{
    (void)state;
    uint64_t chunk = older_copy();
    const Leasehold__ReplicaReport seal = seal_of(chunk, 1), open = report_of(chunk, 1, false);
    come_with(a, &seal, 1);
    come_with(b, &seal, 1);
    come_with(a, &open, 1);
    come_with(c, &seal, 1);
    nothing_is_taken_on();
}

static void one_that_is_not_sealed_may_have_more(void **state)
{
    (void)state;
    uint64_t chunk = older_copy();
    const Leasehold__ReplicaReport seal = seal_of(chunk, 1), open = report_of(chunk, 1, false);
    come_with(a, &seal, 1);
    come_with(b, &seal, 1);
    come_with(c, &open, 1);
    nothing_is_taken_on();
}

static void two_seals_are_two_histories(void **state)
{
    (void)state;
    uint64_t chunk = older_copy();
    const Leasehold__ReplicaReport seal = seal_of(chunk, 1);
    for (int field = 0; field < 3; field++) {
        Leasehold__ReplicaReport other = seal;
        if (field == 0)
            other.version = 2;
        else if (field == 1)
            other.length = 900;
        else
            other.checksum = CHECKSUM + 1;
        come_with(a, &seal, 1);
        come_with(b, &seal, 1);
        come_with(c, &other, 1);
        nothing_is_taken_on();
        down(c);
    }
}

/* Nobody appends at a version above a seal's in one history. */
static void a_higher_version_at_any_server_is_another_history(void **state)
{
    (void)state;
    uint64_t chunk = older_copy();
    const Leasehold__ReplicaReport seal = seal_of(chunk, 3), higher = report_of(chunk, 4, false);
    for (int life = 0; life < 2; life++) {
        come_with(d, &higher, 1); /* no member; the next master is told of it, too */
        for (size_t i = 0; i < 3; i++)
            come_with(&servers[i], &seal, 1);
        nothing_is_taken_on();
        crash();
    }
}

static void a_version_that_was_seen_is_remembered_while_nothing_goes_on(void **state)
{
    (void)state;
    uint64_t chunk = older_copy();
    const Leasehold__ReplicaReport seal = seal_of(chunk, 1), open = report_of(chunk, 1, false),
                                   higher = report_of(chunk, 2, false);
    come_with(a, &open, 1);
    come_with(b, &open, 1);
    come_with(c, &higher, 1);
    heartbeats(200000);
    come_with(c, NULL, 0); /* it has lost what it had */
    come_with(a, &seal, 1);
    come_with(b, &seal, 1);
    nothing_is_taken_on();
}

static void a_member_without_a_log_has_no_other_one(void **state)
{
    (void)state;
    uint64_t chunk = older_copy();
    const Leasehold__ReplicaReport seal = seal_of(chunk, 1);
    Leasehold__ReplicaReport lost = report_of(chunk, 1, false);
    lost.lost = true;
    come_with(b, &lost, 1);
    come_with(c, NULL, 0);
    come_with(a, &seal, 1);
    is_taken_on(a, 2);
}

/* A server of an older release says only that its replica is sealed. */
static void a_seal_without_its_checksum_is_none(void **state)
{
    (void)state;
    uint64_t chunk = older_copy();
    Leasehold__ReplicaReport seal = seal_of(chunk, 1);
    seal.checksum = 0;
    for (size_t i = 0; i < 3; i++)
        come_with(&servers[i], &seal, 1);
    nothing_is_taken_on();
}

static void a_seal_behind_the_end_of_any_chunk_is_ignored(void **state)
{
    (void)state;
    uint64_t chunk = older_copy();
    Leasehold__ReplicaReport seal = seal_of(chunk, 1);
    seal.length = UINT64_MAX;
    for (size_t i = 0; i < 3; i++)
        come_with(&servers[i], &seal, 1);
    nothing_is_taken_on();
}

/* The next master's members have recorded it at the version of before: they are told again. */
static void who_did_not_hear_that_it_was_taken_on_is_told_again(void **state)
{
    (void)state;
    uint64_t chunk = older_copy();
    const Leasehold__ReplicaReport seal = seal_of(chunk, 1);
    for (size_t i = 0; i < 3; i++)
        come_with(&servers[i], &seal, 1);
    is_taken_on(a, 2);
    crash();
    for (size_t i = 0; i < 3; i++) {
        come_with(&servers[i], &seal, 1);
        is_taken_on(&servers[i], 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_seal_that_every_member_shows_is_taken_on),
        STORY(a_member_that_is_away_is_waited_for),
        STORY(what_a_server_showed_in_a_former_session_does_not_count),
        STORY(one_that_is_not_sealed_may_have_more),
        STORY(two_seals_are_two_histories),
        STORY(a_higher_version_at_any_server_is_another_history),
        STORY(a_version_that_was_seen_is_remembered_while_nothing_goes_on),
        STORY(a_member_without_a_log_has_no_other_one),
        STORY(a_seal_without_its_checksum_is_none),
        STORY(a_seal_behind_the_end_of_any_chunk_is_ignored),
        STORY(who_did_not_hear_that_it_was_taken_on_is_told_again),
    };

    return cmocka_run_group_tests_name("master found", tests, NULL, NULL);
}
