/* A server with many replicas registers in pieces (SES-1a). The master, which the test plays, keeps
 * what it has heard on the present stream. */
#include "tests/core/chunkserver/chunkserver_sealed.h"

#include "base/assert.h"
#include "proto/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define REPLICAS 5u

static struct {
    struct lh_chunkserver *cs;
    struct lh_instant now;
    uint64_t link;   /* the newest */
    bool notified;   /* it wants to hear when its last piece is written */
    unsigned pieces; /* on that link */
    uint64_t first, last, stamp;
    bool more, leases_shown;
    uint64_t shown[16];
    size_t count;
} w;

static void note_piece(const Leasehold__Register *m)
{
    if (m->piece == 0) {
        w.count = w.pieces = 0;
        assert_string_equal(m->server_id, "cs1");
    }
    assert_int_equal(m->piece, w.pieces++);
    w.more = m->more;
    w.leases_shown = m->leases_shown;
    w.stamp = m->stamp;
    for (size_t i = 0; i < m->n_replicas; i++) {
        assert_true(m->replicas[i]->sealed);
        w.shown[w.count++] = m->replicas[i]->chunk;
    }
}

static void other(const struct lh_effect *e)
{
    ProtobufCMessage *message;
    struct lh_buf payload = {0};

    if (e->kind == LH_FX_OPEN)
        w.link = e->link;
    if (e->kind != LH_FX_SEND)
        return;
    w.notified = e->notify;
    int error = lh_wire_decode(LH_METHOD_SESSION, LH_REQUEST, &e->header, &message, &payload);
    assert_int_equal(error, LH_OK);
    const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)message;
    if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_REGISTER)
        note_piece(m->register_);
    lh_wire_free(message);
}

static void feed(enum lh_input_kind kind)
{
    struct lh_input in = {.kind = kind, .link = w.link, .text = "it broke"};

    run_sealed(w.cs, w.now, &in, other);
    lh_chunkserver_check(w.cs);
}

static void pass(uint64_t ms)
{
    w.now = lh_instant_add(w.now, lh_milliseconds(ms));
    run_sealed(w.cs, w.now, NULL, other);
}

static int set_up(void **state)
{
    const struct lh_chunkserver_bounds bounds = {.register_replicas = 2};

    (void)state;
    memset(&w, 0, sizeof w);
    w.now = (struct lh_instant){1000000000};
    w.cs = sealed_server(REPLICAS, &bounds);
    pass(0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lh_chunkserver_destroy(w.cs);
    return 0;
}

static void assert_all_shown(void)
{
    assert_false(w.more);
    assert_int_equal(w.count, REPLICAS);
    for (size_t i = 0; i < REPLICAS; i++)
        assert_int_equal(w.shown[i], i + 1);
}

/* A master of an earlier release answers when it has all. */
static void given_an_earlier_master(void)
{
    pass(2000);
    assert_int_equal(w.pieces, 2);
}

static void a_piece_goes_out_when_the_one_before_is_written(void **state)
{
    (void)state;
    assert_true(w.pieces == 1 && w.count == 2 && w.more && !w.notified);
    feed(LH_IN_SENT);
    pass(1);
    assert_int_equal(w.pieces, 1); /* its leases are shown: the master may ask for the rest */
    given_an_earlier_master();
    assert_true(w.count == 4 && w.more && w.notified);
    pass(1);
    assert_int_equal(w.pieces, 2);
    feed(LH_IN_SENT);
    assert_int_equal(w.pieces, 3);
    assert_all_shown();
    assert_false(w.notified);
}

static void on_another_stream_it_begins_with_the_first_piece(void **state)
{
    (void)state;
    given_an_earlier_master();
    uint64_t broken = w.link;
    feed(LH_IN_LINK_CLOSED);
    pass(1000);
    assert_true(w.link != broken);
    assert_true(w.pieces == 1 && w.count == 2 && w.shown[0] == 1);
    given_an_earlier_master();
    feed(LH_IN_SENT);
    assert_all_shown();
}

/* On a slow link each piece is waited for, not the whole: 2 s are the most for one. */
static void a_slow_link_is_no_unanswered_registration(void **state)
{
    uint64_t link = w.link;

    (void)state;
    given_an_earlier_master();
    pass(1900);
    feed(LH_IN_SENT);
    pass(1900);
    assert_true(w.link == link);
    assert_all_shown();
    pass(200);
    assert_true(w.link == link);
    pass(1000); /* and another one is tried */
    assert_true(w.link != link);
}

static void take(Leasehold__SessionReply *m)
{
    struct lh_input in = {.kind = LH_IN_MESSAGE, .link = w.link, .message = &m->base};
    run_sealed(w.cs, w.now, &in, other);
}

static void answer_of(uint64_t stamp, int error, bool asks)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Registered r = LEASEHOLD__REGISTERED__INIT;

    r.session = 1;
    r.stamp = stamp;
    r.term_ns = lh_seconds(9).ns;
    r.heartbeat_ns = lh_seconds(3).ns;
    r.master_term = 1;
    r.cluster_id = (char *)(uintptr_t) "cluster";
    r.error = (Leasehold__ErrorCode)-error;
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_REGISTERED;
    r.asks = asks;
    m.registered = &r;
    take(&m);
}

static void answer(uint64_t stamp, int error)
{
    answer_of(stamp, error, true);
}

static void ask(void)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__ShowReplicas show = LEASEHOLD__SHOW_REPLICAS__INIT;

    show.session = 1;
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_SHOW_REPLICAS;
    m.show_replicas = &show;
    take(&m);
}

static void its_session_counts_from_the_piece_that_is_answered(void **state)
{
    (void)state;
    given_an_earlier_master();
    w.now = lh_instant_add(w.now, lh_milliseconds(1500));
    feed(LH_IN_SENT);
    assert_true(w.stamp == w.now.ns);
    answer(w.stamp, LH_OK);
    assert_true(lh_chunkserver_in_session(w.cs, w.now));
    assert_true(lh_chunkserver_in_session(w.cs, lh_instant_add(w.now, lh_milliseconds(8999))));
    assert_false(lh_chunkserver_in_session(w.cs, lh_instant_add(w.now, lh_milliseconds(9000))));
}

/* SES-1a: it has no lease, so its session begins with the first piece. The others follow one by
 * one, so that heartbeats wait for one at most. */
static void replicas_follow_in_the_session_when_the_master_asks(void **state)
{
    (void)state;
    assert_true(w.leases_shown && w.more);
    answer(w.stamp, LH_OK);
    assert_true(lh_chunkserver_in_session(w.cs, w.now));
    feed(LH_IN_SENT);
    pass(1000);
    assert_int_equal(w.pieces, 1);
    ask();
    assert_int_equal(w.pieces, 2);
    feed(LH_IN_SENT);
    assert_int_equal(w.pieces, 2);
    ask();
    assert_all_shown();
    ask();
    assert_int_equal(w.pieces, 3);
    assert_true(lh_chunkserver_in_session(w.cs, w.now));
}

/* It was slow, and got what an earlier one would have waited for. */
static void a_master_that_asks_is_pressed_no_more(void **state)
{
    uint64_t stamp = w.stamp;

    (void)state;
    given_an_earlier_master();
    answer(stamp, LH_OK);
    feed(LH_IN_SENT);
    assert_int_equal(w.pieces, 2);
    ask();
    assert_all_shown();
}

static void a_master_that_does_not_ask_gets_all(void **state)
{
    (void)state;
    answer_of(w.stamp, LH_OK, false);
    assert_int_equal(w.pieces, 2);
    feed(LH_IN_SENT);
    assert_all_shown();
}

/* The master need not wait for the rest of what it will not have. */
static void a_refusal_ends_it_before_the_last_piece(void **state)
{
    uint64_t link = w.link, stamp = w.stamp;

    (void)state;
    given_an_earlier_master();
    answer(stamp, LH_ERR_NO_MEMORY); /* to the first */
    pass(1000);
    assert_true(w.link != link);
    assert_true(w.pieces == 1 && w.shown[0] == 1);
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_piece_goes_out_when_the_one_before_is_written),
        STORY(on_another_stream_it_begins_with_the_first_piece),
        STORY(a_slow_link_is_no_unanswered_registration),
        STORY(its_session_counts_from_the_piece_that_is_answered),
        STORY(replicas_follow_in_the_session_when_the_master_asks),
        STORY(a_master_that_asks_is_pressed_no_more),
        STORY(a_master_that_does_not_ask_gets_all),
        STORY(a_refusal_ends_it_before_the_last_piece),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
