/* What one address has of a server, and what is seen of its calls in the frames that it sends. */
#include "admission/frames.h"
#include "admission/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

static struct lh_end end_of(const char *text)
{
    struct lh_end end;

    assert_true(lh_end_of_text(text, &end));
    return end;
}

/* Two ends of one peer, and one of another. */
static void assert_peers(const char *one, const char *same, const char *other, const char *printed)
{
    struct lh_peers peers = {0};
    char text[LH_PEER_TEXT_BYTES];
    struct lh_end a = end_of(one), b = end_of(same), c = end_of(other);

    struct lh_peer *peer = lh_peer_take(&peers, a.ip, 1);
    assert_ptr_equal(lh_peer_take(&peers, b.ip, 1), peer);
    struct lh_peer *second = lh_peer_take(&peers, c.ip, 1);
    assert_ptr_not_equal(second, peer);
    lh_peer_print(peer, text);
    assert_string_equal(text, printed);
    lh_peer_give(&peers, peer, 1);
    lh_peer_give(&peers, peer, 1);
    lh_peer_give(&peers, second, 1);
    assert_null(peers.all);
}

static void ends_are_told_apart_by_address(void **state)
{
    (void)state;
    assert_peers("ipv4:10.0.0.1:4711", "ipv4:10.0.0.1:9", "ipv4:10.0.0.2:4711", "10.0.0.1");
}

static void a_network_of_ipv6_is_one_peer(void **state)
{
    (void)state;
    assert_peers("ipv6:%5B2001:db8::1%5D:1", "ipv6:[2001:db8::ffff]:2", "ipv6:[2001:db8:0:1::1]:1",
        "2001:db8::/64");
}

static void what_is_no_address_is_nobody(void **state)
{
    static const char *const texts[] = {"", "unix:/x", "ipv4:10.0.0:1", "ipv6:[x]:1",
        "ipv4:", "ipv6:%5B0123456789012345678901234567890123456789012345678901234567890%5D:1"};
    struct lh_end end;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(lh_end_of_text(texts[i], &end));
}

static void connections_begin_at_a_rate(void **state)
{
    struct lh_peers peers = {0};
    struct lh_end end = end_of("ipv4:10.0.0.1:1");
    struct lh_peer *peer = lh_peer_take(&peers, end.ip, SECOND_NS);
    unsigned begun = 0;

    (void)state;
    while (begun < 1000 && lh_peer_may_begin(peer, 10, SECOND_NS))
        begun++;
    assert_int_equal(begun, 21); /* those of two seconds, and one */
    assert_false(lh_peer_may_begin(peer, 10, SECOND_NS + SECOND_NS / 20));
    assert_true(lh_peer_may_begin(peer, 10, SECOND_NS + SECOND_NS / 10));
    /* Who hangs up has begun them all the same. */
    lh_peer_give(&peers, peer, SECOND_NS + SECOND_NS / 10);
    assert_ptr_equal(lh_peer_take(&peers, end.ip, SECOND_NS + SECOND_NS / 10), peer);
    assert_false(lh_peer_may_begin(peer, 10, SECOND_NS + SECOND_NS / 10));
    assert_true(lh_peer_may_begin(peer, 0, SECOND_NS));
    lh_peer_give(&peers, peer, 60 * SECOND_NS);
    assert_null(peers.all);
}

static void calls_are_ahead_of_their_rate_for_a_while(void **state)
{
    struct lh_peers peers = {0};
    struct lh_end end = end_of("ipv4:10.0.0.1:1");
    struct lh_peer *peer = lh_peer_take(&peers, end.ip, SECOND_NS);

    (void)state;
    lh_peer_began(peer, 10, 1000, SECOND_NS);
    assert_false(lh_peer_is_ahead(peer, false, SECOND_NS));
    lh_peer_began(peer, 90, 1000, SECOND_NS);
    assert_true(lh_peer_is_ahead(peer, false, SECOND_NS));
    assert_false(lh_peer_is_ahead(peer, true, SECOND_NS));
    assert_true(lh_peer_is_ahead(peer, false, SECOND_NS + SECOND_NS / 20));
    assert_false(lh_peer_is_ahead(peer, false, SECOND_NS + SECOND_NS / 10));
    /* However many there were, not for longer than two seconds. */
    lh_peer_began(peer, 1000000, 1000, 2 * SECOND_NS);
    assert_true(lh_peer_is_ahead(peer, false, 2 * SECOND_NS + 2 * SECOND_NS - SECOND_NS / 10));
    assert_false(lh_peer_is_ahead(peer, false, 2 * SECOND_NS + 2 * SECOND_NS));
    lh_peer_give(&peers, peer, 60 * SECOND_NS);
}

static void calls_that_become_none_are_ahead_even_of_one_that_is_alone(void **state)
{
    struct lh_peers peers = {0};
    struct lh_end end = end_of("ipv4:10.0.0.1:1");
    struct lh_peer *peer = lh_peer_take(&peers, end.ip, SECOND_NS);

    (void)state;
    for (int i = 0; i < 100; i++) {
        lh_peer_sent(peer, 100, 1000, SECOND_NS);
        for (int k = 0; k < 100; k++)
            lh_peer_seen(peer, 1000, SECOND_NS);
        assert_false(lh_peer_is_ahead(peer, true, SECOND_NS));
    }
    lh_peer_sent(peer, 400, 1000, SECOND_NS);
    assert_false(lh_peer_is_ahead(peer, true, SECOND_NS));
    lh_peer_sent(peer, 400, 1000, SECOND_NS);
    assert_true(lh_peer_is_ahead(peer, true, SECOND_NS));
    lh_peer_seen(peer, 1000, SECOND_NS);
    assert_true(lh_peer_is_ahead(peer, true, SECOND_NS));
    assert_false(lh_peer_is_ahead(peer, true, SECOND_NS + SECOND_NS / 2));
    /* It is remembered for as long as that, too. */
    lh_peer_give(&peers, peer, SECOND_NS);
    assert_ptr_equal(peers.all, peer);
    assert_ptr_equal(lh_peer_take(&peers, end.ip, SECOND_NS), peer);
    lh_peer_give(&peers, peer, 60 * SECOND_NS);
    assert_null(peers.all);
}

static void frames_are_counted_however_they_are_cut(void **state)
{
    static const uint8_t bytes[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                   "\0\0\2\1\4\0\0\0\1xx"
                                   "\0\0\4\3\0\0\0\0\1\0\0\0\10"
                                   "\0\0\0\1\4\0\0\0\3";

    (void)state;
    for (size_t cut = 0; cut < sizeof bytes; cut++) {
        struct lh_frames f = {0};
        lh_frames_take(&f, bytes, cut);
        lh_frames_take(&f, bytes + cut, sizeof bytes - 1 - cut);
        assert_false(f.opaque);
        assert_int_equal(f.begun, 2);
        assert_int_equal(f.cancelled, 1);
    }
    struct lh_frames f = {0};
    lh_frames_take(&f, (const uint8_t *)"\x16\3\1\1\3\3", 6);
    assert_true(f.opaque);
    assert_int_equal(f.begun + f.cancelled, 0);
}

/* Headers that go on in further frames: bounded in bytes and frames, until they end. */
static void headers_that_do_not_end_are_found(void **state)
{
    static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    static const uint8_t headers[] = "\0\0\0\1\0\0\0\0\1";  /* no END_HEADERS */
    static const uint8_t large[] = "\0\x40\0\11\0\0\0\0\1"; /* CONTINUATION, 16 KiB */
    static const uint8_t empty[] = "\0\0\0\11\0\0\0\0\1", last[] = "\0\0\0\11\4\0\0\0\1";
    static const uint8_t body[16 << 10];

    (void)state;
    for (int is_large = 0; is_large < 2; is_large++) {
        unsigned most =
            is_large ? LH_FRAMES_BLOCK_BYTES_MAX / sizeof body : LH_FRAMES_BLOCK_MAX - 2;
        struct lh_frames f = {0};
        lh_frames_take(&f, preface, sizeof preface - 1);
        for (int round = 0; round < 3; round++) { /* each block has its own bounds */
            lh_frames_take(&f, headers, sizeof headers - 1);
            for (unsigned i = 0; i < most; i++) {
                lh_frames_take(&f, is_large ? large : empty, LH_FRAME_HEADER_BYTES);
                if (is_large)
                    lh_frames_take(&f, body, sizeof body);
            }
            lh_frames_take(&f, last, sizeof last - 1);
            assert_false(f.block_too_long);
        }
        lh_frames_take(&f, headers, sizeof headers - 1);
        for (unsigned i = 0; i < most + 2 && !f.block_too_long; i++) {
            lh_frames_take(&f, is_large ? large : empty, LH_FRAME_HEADER_BYTES);
            if (is_large && !f.block_too_long)
                lh_frames_take(&f, body, sizeof body);
        }
        assert_true(f.block_too_long); /* when its header is there: before its bytes */
        assert_int_equal(f.body_left, is_large ? sizeof body : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_are_told_apart_by_address),
        cmocka_unit_test(a_network_of_ipv6_is_one_peer),
        cmocka_unit_test(what_is_no_address_is_nobody),
        cmocka_unit_test(connections_begin_at_a_rate),
        cmocka_unit_test(calls_are_ahead_of_their_rate_for_a_while),
        cmocka_unit_test(calls_that_become_none_are_ahead_even_of_one_that_is_alone),
        cmocka_unit_test(frames_are_counted_however_they_are_cut),
        cmocka_unit_test(headers_that_do_not_end_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
