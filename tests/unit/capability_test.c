/* Capabilities (access/capability.h), as ACC-5, ACC-6 and ACC-9 say it. The expected bytes were
 * computed with `openssl mac -digest SHA256 -macopt hexkey:... HMAC`. */
#include "access/capability.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define BOTH  (LH_CAPABILITY_READ | LH_CAPABILITY_APPEND)
#define CHUNK 4711

static uint8_t root[LH_CAPABILITY_SECRET_BYTES];
static struct lh_capability_issuer issuer;
static struct lh_capability_keys keys;
static uint8_t bytes[LH_CAPABILITY_BYTES];
static struct lh_instant ends;

/* Capabilities for 10 s, a key a minute, 2 s until it is used. */
static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof root; i++)
        root[i] = (uint8_t)i;
    lh_capability_issuer_init(&issuer, root, 7, lh_seconds(10), lh_seconds(60), lh_seconds(2));
    lh_capability_keys_init(&keys, 4);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lh_capability_issuer_deinit(&issuer);
    lh_capability_keys_deinit(&keys);
    return 0;
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static struct lh_instant at(uint64_t s)
{
    return (struct lh_instant){s * 1000000000};
}

/* The server's clock shows `server` when the master's shows `master`. */
static void notify(uint64_t master, uint64_t server)
{
    lh_capability_issuer_housekeep(&issuer, at(master));
    for (size_t i = 0; i < issuer.count; i++)
        lh_capability_learn(&keys, issuer.keys[i].number, issuer.keys[i].secret, at(server),
            lh_instant_until(issuer.keys[i].introduced, at(master)));
}

static enum lh_capability_verdict check(uint64_t chunk, unsigned rights, uint64_t now)
{
    return lh_capability_check(&keys, chunk, rights, bytes, sizeof bytes, at(now), &ends);
}

static void the_bytes_are_as_documented(void **state)
{
    static const uint8_t secret_wanted[] = {0x38, 0x58, 0xef, 0x5b, 0xff, 0x41, 0x73, 0x44, 0xa2,
        0x75, 0x1f, 0xb9, 0xd0, 0xf2, 0x9a, 0x3a, 0x24, 0x88, 0x25, 0xa7, 0x28, 0x84, 0xe9, 0x3f,
        0xdf, 0x0d, 0x43, 0x0c, 0x10, 0xc8, 0x6f, 0x30};
    static const uint8_t wanted[] = {0x02, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x32, 0xef,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x69, 0x14, 0xcb, 0x97, 0x1d, 0xa1, 0xf2, 0xf1,
        0x53, 0xbb, 0xd8, 0x5d, 0xfb, 0x3e, 0x73, 0x99};
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES];

    (void)state;
    lh_capability_secret(root, 7, 2, secret);
    assert_memory_equal(secret, secret_wanted, sizeof secret);
    lh_capability_make(secret, (7u << 24) | 2, CHUNK, lh_milliseconds(61234), BOTH, bytes);
    assert_memory_equal(bytes, wanted, sizeof wanted);
}

static void it_holds_for_its_term(void **state)
{
    (void)state;
    /* Given a server that was started long before the master, or long after it. */
    for (uint64_t server = 5; server < 10000; server += 9000) {
        notify(100, server);
        /* When the master gives one 30 s later */
        lh_capability_give(&issuer, at(130), CHUNK, BOTH, bytes);
        /* Then it holds for 10 s, and not longer. */
        assert_int_equal(check(CHUNK, BOTH, server + 30), LH_CAPABILITY_HOLDS);
        assert_int_equal(check(CHUNK, LH_CAPABILITY_READ, server + 39), LH_CAPABILITY_HOLDS);
        assert_int_equal(ends.ns, at(server + 40).ns);
        assert_int_equal(check(CHUNK, BOTH, server + 40), LH_CAPABILITY_OVER);
    }
}

static void a_late_answer_ends_it_sooner_never_later(void **state)
{
    (void)state;
    /* The stamp is of 95, the answer of 100: what is given at 100 ends before 110. */
    notify(100, 95);
    lh_capability_give(&issuer, at(100), CHUNK, BOTH, bytes);
    assert_int_equal(check(CHUNK, BOTH, 104), LH_CAPABILITY_HOLDS);
    assert_int_equal(check(CHUNK, BOTH, 105), LH_CAPABILITY_OVER);
    /* A newer answer corrects it. */
    notify(104, 104);
    assert_int_equal(check(CHUNK, BOTH, 109), LH_CAPABILITY_HOLDS);
    assert_int_equal(check(CHUNK, BOTH, 110), LH_CAPABILITY_OVER);
}

static void every_bit_counts(void **state)
{
    (void)state;
    notify(100, 100);
    lh_capability_give(&issuer, at(100), CHUNK, LH_CAPABILITY_READ, bytes);
    assert_int_equal(check(CHUNK, LH_CAPABILITY_READ, 100), LH_CAPABILITY_HOLDS);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(check(CHUNK, LH_CAPABILITY_READ, 100),
            bit < 64 ? LH_CAPABILITY_UNKNOWN : LH_CAPABILITY_FORGED);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(check(CHUNK + 1, LH_CAPABILITY_READ, 100), LH_CAPABILITY_FORGED);
}

static void a_right_that_was_not_given_is_lacking(void **state)
{
    (void)state;
    notify(100, 100);
    lh_capability_give(&issuer, at(100), CHUNK, LH_CAPABILITY_READ, bytes);
    assert_int_equal(check(CHUNK, LH_CAPABILITY_APPEND, 100), LH_CAPABILITY_LACKING);
    assert_int_equal(check(CHUNK, BOTH, 100), LH_CAPABILITY_LACKING);
}

static void other_sizes_are_no_capability(void **state)
{
    uint8_t more[LH_CAPABILITY_BYTES + 1] = {0};

    (void)state;
    notify(100, 100);
    lh_capability_give(&issuer, at(100), CHUNK, BOTH, more);
    assert_int_equal(
        lh_capability_check(&keys, CHUNK, BOTH, NULL, 0, at(100), &ends), LH_CAPABILITY_MISSING);
    for (size_t size = 1; size <= sizeof more; size++)
        assert_int_equal(lh_capability_check(&keys, CHUNK, BOTH, more, size, at(100), &ends),
            size == LH_CAPABILITY_BYTES ? LH_CAPABILITY_HOLDS : LH_CAPABILITY_FORGED);
}

static void a_key_is_told_before_it_is_used(void **state)
{
    (void)state;
    /* Given a server that hears of the keys every 2 s, the notice. */
    for (uint64_t now = 100; now < 1300; now++) {
        if (now % 2 == 0)
            notify(now, now);
        /* When one is made at any time, then the server knows its key. */
        lh_capability_give(&issuer, at(now), CHUNK, BOTH, bytes);
        assert_int_equal(check(CHUNK, BOTH, now), LH_CAPABILITY_HOLDS);
        assert_true(issuer.count <= LH_CAPABILITY_KEYS);
    }
    assert_int_equal(issuer.made, 20);
}

static void a_key_is_told_for_as_long_as_it_counts(void **state)
{
    (void)state;
    for (uint64_t given = 100; given < 400; given += 10) {
        lh_capability_give(&issuer, at(given), CHUNK, BOTH, bytes);
        /* When a server starts just before the end, then it knows the key. */
        lh_capability_keys_deinit(&keys);
        lh_capability_keys_init(&keys, 4);
        notify(given + 9, given + 9);
        assert_int_equal(check(CHUNK, BOTH, given + 9), LH_CAPABILITY_HOLDS);
    }
    /* And not for much longer. */
    notify(500, 500);
    notify(512, 512);
    assert_int_equal(issuer.count, 1);
}

static void the_key_told_first_gives_way(void **state)
{
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES];

    (void)state;
    notify(100, 100);
    lh_capability_give(&issuer, at(100), CHUNK, BOTH, bytes);
    for (uint64_t reign = 8; reign < 11; reign++) {
        lh_capability_secret(root, reign, 0, secret);
        lh_capability_learn(&keys, reign << 24, secret, at(101), lh_seconds(0));
    }
    assert_int_equal(check(CHUNK, BOTH, 101), LH_CAPABILITY_HOLDS);
    lh_capability_learn(&keys, UINT64_C(11) << 24, secret, at(101), lh_seconds(0));
    assert_int_equal(check(CHUNK, BOTH, 101), LH_CAPABILITY_UNKNOWN);
    assert_int_equal(keys.count, 4);
}

static void a_number_given_again_has_its_new_secret(void **state)
{
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES];

    (void)state;
    /* Given a capability of one master, and another master of the same term (--restored). */
    notify(100, 100);
    lh_capability_give(&issuer, at(100), CHUNK, BOTH, bytes);
    root[0] ^= 1;
    lh_capability_secret(root, 7, 0, secret);
    lh_capability_learn(&keys, UINT64_C(7) << 24, secret, at(101), lh_seconds(0));
    /* Then the first one's is worth nothing, and the second one's holds. */
    assert_int_equal(check(CHUNK, BOTH, 101), LH_CAPABILITY_FORGED);
    lh_capability_make(secret, UINT64_C(7) << 24, CHUNK, lh_seconds(10), BOTH, bytes);
    assert_int_equal(check(CHUNK, BOTH, 101), LH_CAPABILITY_HOLDS);
    assert_int_equal(keys.count, 1);
}

/* ---- To lead. */

static void the_bytes_of_one_to_lead_are_as_documented(void **state)
{
    static const uint8_t secret_wanted[] = {0x7c, 0x54, 0xc9, 0x4c, 0x19, 0x4e, 0x26, 0x78, 0xb0,
        0x90, 0x93, 0xe5, 0x2e, 0x39, 0x8e, 0xcf, 0x98, 0x5a, 0x3c, 0xbb, 0x33, 0xd7, 0x84, 0x28,
        0xb5, 0xe7, 0xc1, 0x13, 0xbc, 0x20, 0x21, 0xed};
    static const uint8_t wanted[] = {0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x04, 0xfc, 0xe1, 0x74, 0xe0, 0xa5, 0x74, 0xbf, 0x43,
        0xa8, 0xb1, 0xc8, 0xff, 0xc7, 0x97, 0x98, 0x9b};
    const struct lh_lead lead = {.chunk = CHUNK, .version = 12, .holder = "cs1"};
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES], made[LH_CAPABILITY_BYTES];

    (void)state;
    lh_capability_lead_key(&issuer, "cs2", secret);
    assert_memory_equal(secret, secret_wanted, sizeof secret);
    lh_capability_give_lead(&issuer, "cs2", &lead, bytes);
    assert_memory_equal(bytes, wanted, sizeof wanted);
    lh_capability_make_lead(secret, 7, &lead, made);
    assert_memory_equal(made, wanted, sizeof wanted);
}

static enum lh_capability_verdict check_lead(uint64_t chunk, uint64_t version, const char *holder)
{
    const struct lh_lead lead = {.chunk = chunk, .version = version, .holder = holder};

    return lh_capability_check_lead(&keys, &lead, bytes, sizeof bytes);
}

static void one_to_lead_is_of_all_that_it_says(void **state)
{
    const struct lh_lead lead = {.chunk = CHUNK, .version = 12, .holder = "cs1"};
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES];

    (void)state;
    notify(100, 100);
    lh_capability_give_lead(&issuer, "cs2", &lead, bytes);
    assert_int_equal(check_lead(CHUNK, 12, "cs1"), LH_CAPABILITY_UNKNOWN);
    lh_capability_lead_key(&issuer, "cs2", secret);
    lh_capability_learn(&keys, 7, secret, at(100), lh_seconds(0));
    assert_int_equal(check_lead(CHUNK, 12, "cs1"), LH_CAPABILITY_HOLDS);
    assert_int_equal(check_lead(CHUNK + 1, 12, "cs1"), LH_CAPABILITY_FORGED);
    assert_int_equal(check_lead(CHUNK, 13, "cs1"), LH_CAPABILITY_FORGED);
    assert_int_equal(check_lead(CHUNK, 12, "cs11"), LH_CAPABILITY_FORGED);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(
            check_lead(CHUNK, 12, "cs1"), bit < 64 ? LH_CAPABILITY_UNKNOWN : LH_CAPABILITY_FORGED);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    /* What is for another member, and what is for clients, is not for this one. */
    lh_capability_give_lead(&issuer, "cs3", &lead, bytes);
    assert_int_equal(check_lead(CHUNK, 12, "cs1"), LH_CAPABILITY_FORGED);
    lh_capability_give(&issuer, at(100), CHUNK, LH_CAPABILITY_LEAD, bytes);
    assert_int_equal(check_lead(CHUNK, 12, "cs1"), LH_CAPABILITY_FORGED);
    assert_int_equal(lh_capability_check_lead(&keys, &lead, NULL, 0), LH_CAPABILITY_MISSING);
}

static void each_verdict_has_a_sentence(void **state)
{
    (void)state;
    for (unsigned v = 0; v < LH_CAPABILITY_VERDICTS; v++)
        assert_non_null(lh_capability_text((enum lh_capability_verdict)v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(the_bytes_are_as_documented),
        STORY(it_holds_for_its_term),
        STORY(a_late_answer_ends_it_sooner_never_later),
        STORY(every_bit_counts),
        STORY(a_right_that_was_not_given_is_lacking),
        STORY(other_sizes_are_no_capability),
        STORY(a_key_is_told_before_it_is_used),
        STORY(a_key_is_told_for_as_long_as_it_counts),
        STORY(the_key_told_first_gives_way),
        STORY(a_number_given_again_has_its_new_secret),
        STORY(the_bytes_of_one_to_lead_are_as_documented),
        STORY(one_to_lead_is_of_all_that_it_says),
        STORY(each_verdict_has_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
