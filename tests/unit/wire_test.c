/* The wire's machine: two of them, with a stream of bytes each way that is split anywhere. */
#include "base/alloc.h"
#include "base/prng.h"
#include "wire/mux.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- two ends ---- */

struct pipe {
    uint8_t *bytes;
    size_t size, capacity;
};

struct end {
    struct lh_mux *mux;
    struct pipe to; /* what it has written and the other has not read */
};

struct pair {
    struct end client, server;
    struct lh_instant now;
};

static struct lh_mux_config config_of(bool serves)
{
    return (struct lh_mux_config){
        .serves = serves,
        .window = 1u << 20,
        .links_max = 1000,
        .cancels_max = 100,
        .message_max = 2u << 20,
        .frame_bytes = 64u << 10,
        .refer_bytes = 32u << 10,
        .stage_bytes = 256u << 10,
        .hello_timeout = lh_seconds(5),
        .ping_after = lh_seconds(2),
        .ping_timeout = lh_seconds(2),
        .request_timeout = lh_seconds(30),
    };
}

static void begin_with(
    struct pair *p, const struct lh_mux_config *client, const struct lh_mux_config *server)
{
    *p = (struct pair){.now = {1000}};
    p->client.mux = lh_mux_create(client, p->now);
    p->server.mux = lh_mux_create(server, p->now);
}

static void begin(struct pair *p)
{
    const struct lh_mux_config client = config_of(false), server = config_of(true);

    begin_with(p, &client, &server);
}

static void finish(struct pair *p)
{
    lh_mux_destroy(p->client.mux);
    lh_mux_destroy(p->server.mux);
    free(p->client.to.bytes);
    free(p->server.to.bytes);
}

/* What `from` would write now, up to `most` bytes. */
static size_t write_some(struct end *from, size_t most, struct lh_instant now)
{
    struct lh_mux_part parts[8];
    size_t n = lh_mux_output(from->mux, parts, 8, now), written = 0;

    for (size_t i = 0; i < n && written < most; i++) {
        size_t size = parts[i].size < most - written ? parts[i].size : most - written;
        LH_GROW(from->to.bytes, from->to.capacity, from->to.size + size);
        memcpy(from->to.bytes + from->to.size, parts[i].bytes, size);
        from->to.size += size;
        written += size;
    }
    lh_mux_written(from->mux, written);
    return written;
}

static size_t read_some(struct end *to, struct pipe *pipe, size_t most, struct lh_instant now)
{
    size_t n = pipe->size < most ? pipe->size : most;
    uint8_t *copy;

    if (n == 0)
        return 0;
    struct lh_buf block = lh_buf_alloc(n, &copy);
    memcpy(copy, pipe->bytes, n);
    memmove(pipe->bytes, pipe->bytes + n, pipe->size - n);
    pipe->size -= n;
    lh_mux_take(to->mux, lh_buf_slices(&block)->block, copy, n, now);
    lh_buf_clear(&block);
    return n;
}

/* Until neither has anything to write. */
static void carry_all(struct pair *p)
{
    size_t n;

    do {
        n = write_some(&p->client, SIZE_MAX, p->now);
        n += read_some(&p->server, &p->client.to, SIZE_MAX, p->now);
        n += write_some(&p->server, SIZE_MAX, p->now);
        n += read_some(&p->client, &p->server.to, SIZE_MAX, p->now);
    } while (n > 0);
}

static struct lh_mux_event expect(struct end *end, enum lh_mux_event_kind kind)
{
    struct lh_mux_event event = lh_mux_next(end->mux);

    assert_int_equal(event.kind, kind);
    return event;
}

static void expect_nothing(struct end *end)
{
    struct lh_mux_event event = lh_mux_next(end->mux);

    assert_int_equal(event.kind, LH_MUX_NOTHING);
}

static void expect_message(struct end *end, const char *text)
{
    struct lh_mux_event event = expect(end, LH_MUX_MESSAGE);
    char got[100] = "";

    assert_int_equal(event.bytes.size, strlen(text));
    assert_true(lh_buf_read(&event.bytes, 0, got, event.bytes.size));
    assert_string_equal(got, text);
    lh_buf_clear(&event.bytes);
}

static void expect_closed(struct end *end, int error, const char *text)
{
    struct lh_mux_event event = expect(end, LH_MUX_CLOSED);

    assert_int_equal(event.error, error);
    if (text != NULL)
        assert_string_equal(event.text == NULL ? "" : event.text, text);
    free(event.text);
}

static struct lh_mux_link *open_link(struct pair *p, enum lh_method method)
{
    struct lh_mux_link *link =
        lh_mux_open(p->client.mux, method, LH_DURATION_FOREVER, NULL, p->now);

    lh_mux_read(p->client.mux, link);
    return link;
}

static struct lh_mux_link *served(struct pair *p)
{
    carry_all(p);
    struct lh_mux_link *link = expect(&p->server, LH_MUX_OPENED).link;
    lh_mux_read(p->server.mux, link);
    return link;
}

static void put(struct end *end, struct lh_mux_link *link, const char *text)
{
    lh_mux_put(end->mux, link, lh_buf_copy(text, strlen(text)), false);
}

/* ---- stories ---- */

static void a_call_is_answered_and_ends(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    struct lh_mux_link *call = open_link(&p, LH_METHOD_STAT);
    put(&p.client, call, "what");
    struct lh_mux_link *at = served(&p);
    assert_int_equal(at->method, LH_METHOD_STAT);
    expect_message(&p.server, "what");
    put(&p.server, at, "this");
    lh_mux_close(p.server.mux, at, LH_OK, NULL);
    carry_all(&p);
    expect_message(&p.client, "this");
    expect_closed(&p.client, LH_OK, "");
    assert_int_equal(lh_mux_links(p.client.mux), 0);
    assert_int_equal(lh_mux_links(p.server.mux), 0);
    finish(&p);
}

static void a_link_that_is_not_read_holds_up_no_other(void **state)
{
    struct pair p;
    static char large[300000];

    (void)state;
    begin(&p);
    struct lh_mux_link *held = open_link(&p, LH_METHOD_APPEND);
    struct lh_mux_link *other = open_link(&p, LH_METHOD_APPEND);
    carry_all(&p);
    (void)expect(&p.server, LH_MUX_OPENED);
    struct lh_mux_link *at = expect(&p.server, LH_MUX_OPENED).link;
    lh_mux_read(p.server.mux, at);
    for (int i = 0; i < 20; i++)
        lh_mux_put(p.client.mux, held, lh_buf_copy(large, sizeof large), false);
    carry_all(&p);
    /* No more than the window, and the message that was begun within it. */
    assert_in_range(lh_mux_waiting_bytes(p.server.mux), 1u << 20, (1u << 20) + sizeof large);
    put(&p.client, other, "hello");
    carry_all(&p);
    expect_message(&p.server, "hello");
    finish(&p);
}

static void what_is_read_gives_credit_for_more(void **state)
{
    struct pair p;
    static char large[300000];
    struct lh_mux_event event;

    (void)state;
    begin(&p);
    struct lh_mux_link *link = open_link(&p, LH_METHOD_APPEND);
    struct lh_mux_link *at = served(&p);
    for (int i = 0; i < 20; i++)
        lh_mux_put(p.client.mux, link, lh_buf_copy(large, sizeof large), false);
    for (int i = 0; i < 20; i++) {
        carry_all(&p);
        event = expect(&p.server, LH_MUX_MESSAGE);
        assert_int_equal(event.bytes.size, sizeof large);
        lh_buf_clear(&event.bytes);
        lh_mux_read(p.server.mux, at);
    }
    expect_nothing(&p.server);
    assert_int_equal(lh_mux_queued_bytes(p.client.mux), 0);
    finish(&p);
}

static void a_cancelled_link_ends_at_the_server(void **state)
{
    struct pair p;
    static char large[300000];

    (void)state;
    begin(&p);
    struct lh_mux_link *link = open_link(&p, LH_METHOD_APPEND);
    struct lh_mux_link *at = served(&p);
    lh_mux_put(p.client.mux, link, lh_buf_copy(large, sizeof large), false);
    (void)write_some(&p.client, 100000, p.now); /* a part of it */
    lh_mux_close(p.client.mux, link, LH_ERR_CANCELLED, NULL);
    lh_mux_put(p.server.mux, at, lh_buf_copy(large, sizeof large), false);
    carry_all(&p);
    expect_closed(&p.server, LH_ERR_CANCELLED, NULL);
    expect_nothing(&p.client);
    assert_int_equal(lh_mux_links(p.server.mux), 0);
    assert_int_equal(lh_mux_waiting_bytes(p.server.mux), 0);
    finish(&p);
}

static void the_end_comes_behind_what_was_sent(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    struct lh_mux_link *link = open_link(&p, LH_METHOD_WATCH);
    struct lh_mux_link *at = served(&p);
    put(&p.server, at, "one");
    put(&p.server, at, "two");
    lh_mux_close(p.server.mux, at, LH_ERR_SHUTTING_DOWN, "later");
    carry_all(&p);
    expect_message(&p.client, "one");
    expect_nothing(&p.client); /* it has not asked for more */
    lh_mux_read(p.client.mux, link);
    expect_message(&p.client, "two");
    expect_closed(&p.client, LH_ERR_SHUTTING_DOWN, "later");
    finish(&p);
}

static void what_was_sent_before_a_cancelled_link_ends_arrives(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    struct lh_mux_link *link = open_link(&p, LH_METHOD_SESSION);
    (void)served(&p);
    put(&p.client, link, "the last word");
    (void)write_some(&p.client, SIZE_MAX, p.now);
    lh_mux_close(p.client.mux, link, LH_ERR_CANCELLED, NULL);
    carry_all(&p);
    expect_message(&p.server, "the last word");
    expect_closed(&p.server, LH_ERR_CANCELLED, NULL);
    finish(&p);
}

static void a_single_reply_may_come_in_pieces(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    struct lh_mux_link *link = open_link(&p, LH_METHOD_READ);
    put(&p.client, link, "request");
    struct lh_mux_link *at = served(&p);
    expect_message(&p.server, "request");
    put(&p.server, at, "head");
    put(&p.server, at, "piece");
    put(&p.server, at, "last");
    lh_mux_close(p.server.mux, at, LH_OK, NULL);
    carry_all(&p);
    expect_message(&p.client, "head");
    lh_mux_read(p.client.mux, link);
    expect_message(&p.client, "piece");
    lh_mux_read(p.client.mux, link);
    expect_message(&p.client, "last");
    expect_closed(&p.client, LH_OK, NULL);
    finish(&p);
}

static void a_second_reply_of_a_call_ends_the_connection(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    struct lh_mux_link *link = open_link(&p, LH_METHOD_STAT);
    put(&p.client, link, "request");
    struct lh_mux_link *at = served(&p);
    put(&p.server, at, "one");
    put(&p.server, at, "two");
    carry_all(&p);
    assert_non_null(lh_mux_broken(p.client.mux));
    finish(&p);
}

static void links_are_opened_in_their_order(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    (void)open_link(&p, LH_METHOD_APPEND);
    (void)write_some(&p.client, SIZE_MAX, p.now); /* which waits for the greeting */
    struct lh_mux_link *second = open_link(&p, LH_METHOD_APPEND);
    (void)write_some(&p.server, SIZE_MAX, p.now);
    (void)read_some(&p.client, &p.server.to, SIZE_MAX, p.now);
    put(&p.client, second, "text");
    carry_all(&p);
    assert_null(lh_mux_broken(p.server.mux));
    assert_int_equal(expect(&p.server, LH_MUX_OPENED).link->id, 1);
    assert_int_equal(expect(&p.server, LH_MUX_OPENED).link->id, 2);
    finish(&p);
}

static void what_trickles_in_is_handed_on_in_few_slices(void **state)
{
    struct pair p;
    static char large[100000];

    (void)state;
    begin(&p);
    struct lh_mux_link *link = open_link(&p, LH_METHOD_APPEND);
    (void)served(&p);
    lh_mux_put(p.client.mux, link, lh_buf_copy(large, sizeof large), false);
    while (write_some(&p.client, SIZE_MAX, p.now) > 0)
        ;
    while (read_some(&p.server, &p.client.to, 50, p.now) > 0)
        ;
    struct lh_mux_event event = expect(&p.server, LH_MUX_MESSAGE);
    assert_int_equal(event.bytes.size, sizeof large);
    assert_true(event.bytes.count <= 4);
    lh_buf_clear(&event.bytes);
    finish(&p);
}

static unsigned blocks;

static void forget_block(struct lh_block *block)
{
    blocks--;
    free(block);
}

/* The other end reads so much of it into a block of its own, of which the rest is for others. */
static bool read_into_block(struct end *to, struct pipe *pipe, size_t most, struct lh_instant now)
{
    size_t n = pipe->size < most ? pipe->size : most;
    struct lh_block *block = lh_alloc(sizeof *block + n);

    atomic_init(&block->references, 1);
    block->release = forget_block;
    blocks++;
    memcpy(block + 1, pipe->bytes, n);
    memmove(pipe->bytes, pipe->bytes + n, pipe->size - n);
    pipe->size -= n;
    lh_mux_take(to->mux, block, (const uint8_t *)(block + 1), n, now);
    lh_block_unref(block);
    return pipe->size > 0;
}

/* What waits keeps no more memory than it counts as, or a little for each connection. */
static void what_waits_keeps_no_blocks(void **state)
{
    struct lh_mux_config client = config_of(false), server = config_of(true);
    static char large[70000];
    struct pair p;

    (void)state;
    server.refer_bytes = 64u << 10; /* of blocks of 256 KiB */
    begin_with(&p, &client, &server);
    carry_all(&p);
    for (int i = 0; i < 20; i++) { /* not asked for, and in part */
        struct lh_mux_link *link = open_link(&p, LH_METHOD_APPEND);
        put(&p.client, link, "text");
        lh_mux_put(p.client.mux, link, lh_buf_copy(large, sizeof large), false);
        while (write_some(&p.client, SIZE_MAX, p.now) > 0)
            ;
        unsigned before = blocks;
        while (read_into_block(&p.server, &p.client.to, i == 0 ? 1 : 700, p.now))
            assert_true(blocks <= before + 4);
    }
    size_t waiting = lh_mux_waiting_bytes(p.server.mux);
    assert_int_equal(waiting, 20 * (sizeof large + 4));
    assert_true((size_t)blocks * 4 * server.refer_bytes <= 4 * waiting);
    finish(&p);
    assert_int_equal(blocks, 0);
}

static void what_was_written_is_notified(void **state)
{
    struct pair p;
    static char large[300000];

    (void)state;
    begin(&p);
    struct lh_mux_link *link = open_link(&p, LH_METHOD_APPEND);
    carry_all(&p);
    lh_mux_put(p.client.mux, link, lh_buf_copy(large, sizeof large), true);
    (void)write_some(&p.client, 299999, p.now);
    assert_null(lh_mux_next_sent(p.client.mux));
    (void)write_some(&p.client, SIZE_MAX, p.now);
    assert_ptr_equal(lh_mux_next_sent(p.client.mux), link);
    assert_null(lh_mux_next_sent(p.client.mux));
    finish(&p);
}

static void a_call_without_an_answer_ends_at_its_deadline(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    struct lh_mux_link *call =
        lh_mux_open(p.client.mux, LH_METHOD_STAT, lh_seconds(1), NULL, p.now);
    lh_mux_read(p.client.mux, call);
    put(&p.client, call, "what");
    (void)served(&p);
    expect_message(&p.server, "what");
    p.now = lh_instant_add(p.now, lh_seconds(1));
    lh_mux_tick(p.client.mux, p.now);
    expect_closed(&p.client, LH_ERR_DEADLINE_EXCEEDED, NULL);
    carry_all(&p);
    expect_closed(&p.server, LH_ERR_CANCELLED, NULL);
    assert_int_equal(lh_mux_links(p.client.mux), 0);
    assert_int_equal(lh_mux_links(p.server.mux), 0);
    finish(&p);
}

static void a_silent_end_is_pinged_and_then_given_up(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    (void)open_link(&p, LH_METHOD_SESSION);
    (void)served(&p);
    p.now = lh_instant_add(p.now, lh_seconds(2));
    lh_mux_tick(p.client.mux, p.now);
    carry_all(&p); /* is answered */
    p.now = lh_instant_add(p.now, lh_seconds(2));
    lh_mux_tick(p.client.mux, p.now);
    assert_null(lh_mux_broken(p.client.mux));
    (void)write_some(&p.client, SIZE_MAX, p.now); /* and is not */
    p.now = lh_instant_add(p.now, lh_seconds(2));
    lh_mux_tick(p.client.mux, p.now);
    assert_non_null(lh_mux_broken(p.client.mux));
    expect_closed(&p.client, LH_ERR_UNAVAILABLE, NULL);
    finish(&p);
}

static void who_does_not_greet_is_given_up(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    (void)open_link(&p, LH_METHOD_SESSION);
    p.now = lh_mux_deadline(p.client.mux);
    lh_mux_tick(p.client.mux, p.now);
    expect_closed(&p.client, LH_ERR_UNAVAILABLE, NULL);
    finish(&p);
}

static void who_connects_late_waits_as_long_for_a_greeting(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    (void)lh_mux_open(p.client.mux, LH_METHOD_APPEND, LH_DURATION_FOREVER, &p, p.now);
    p.now = lh_instant_add(p.now, lh_seconds(60));
    lh_mux_begin(p.client.mux, p.now);
    p.now = lh_instant_add(p.now, lh_seconds(4));
    lh_mux_tick(p.client.mux, p.now);
    assert_null(lh_mux_broken(p.client.mux));
    p.now = lh_instant_add(p.now, lh_seconds(1));
    lh_mux_tick(p.client.mux, p.now);
    assert_non_null(lh_mux_broken(p.client.mux));
    finish(&p);
}

static void more_links_than_the_server_takes_wait(void **state)
{
    struct lh_mux_config client = config_of(false), server = config_of(true);
    struct lh_mux_link *at[2];
    struct pair p;

    (void)state;
    server.links_max = 2;
    begin_with(&p, &client, &server);
    carry_all(&p);
    for (int i = 0; i < 3; i++)
        put(&p.client, open_link(&p, LH_METHOD_STAT), "what");
    carry_all(&p);
    for (int i = 0; i < 2; i++)
        at[i] = expect(&p.server, LH_MUX_OPENED).link;
    expect_nothing(&p.server);
    lh_mux_close(p.server.mux, at[0], LH_ERR_NOT_FOUND, NULL);
    carry_all(&p);
    expect_closed(&p.client, LH_ERR_NOT_FOUND, NULL);
    carry_all(&p);
    (void)expect(&p.server, LH_MUX_OPENED);
    assert_null(lh_mux_broken(p.server.mux));
    finish(&p);
}

/* What a peer has cancelled does not count, even if its owner does not know yet. */
static void a_cancelled_link_makes_room_at_once(void **state)
{
    struct lh_mux_config client = config_of(false), server = config_of(true);
    struct lh_mux_link *links[2];
    struct pair p;

    (void)state;
    server.links_max = 2;
    begin_with(&p, &client, &server);
    for (int i = 0; i < 2; i++) {
        links[i] = open_link(&p, LH_METHOD_APPEND);
        (void)served(&p);
    }
    lh_mux_close(p.client.mux, links[0], LH_OK, NULL);
    (void)write_some(&p.client, SIZE_MAX, p.now);
    (void)open_link(&p, LH_METHOD_APPEND);
    (void)write_some(&p.client, SIZE_MAX, p.now);
    carry_all(&p);
    assert_null(lh_mux_broken(p.server.mux));
    expect_closed(&p.server, LH_ERR_CANCELLED, NULL);
    (void)expect(&p.server, LH_MUX_OPENED);
    finish(&p);
}

static void a_server_that_goes_away_finishes_what_is_open(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    struct lh_mux_link *before = open_link(&p, LH_METHOD_STAT);
    put(&p.client, before, "what");
    struct lh_mux_link *at = served(&p);
    expect_message(&p.server, "what");
    lh_mux_go_away(p.server.mux, LH_ERR_SHUTTING_DOWN, "it stops");
    (void)open_link(&p, LH_METHOD_STAT);
    carry_all(&p);
    expect_closed(&p.client, LH_ERR_UNAVAILABLE, NULL);
    assert_false(lh_mux_may_open(p.client.mux));
    put(&p.server, at, "this");
    lh_mux_close(p.server.mux, at, LH_OK, NULL);
    carry_all(&p);
    expect_message(&p.client, "this");
    expect_closed(&p.client, LH_OK, NULL);
    finish(&p);
}

static void a_damaged_byte_ends_the_connection(void **state)
{
    (void)state;
    for (size_t at = 0; at < 160; at++) {
        struct pair p;
        begin(&p);
        carry_all(&p);
        struct lh_mux_link *link = open_link(&p, LH_METHOD_STAT);
        put(&p.client, link, "a request of sixty-four bytes or so, all of which are covered");
        (void)write_some(&p.client, SIZE_MAX, p.now);
        if (at < p.client.to.size) {
            p.client.to.bytes[at] ^= 4;
            (void)read_some(&p.server, &p.client.to, SIZE_MAX, p.now);
            struct lh_mux_event event = lh_mux_next(p.server.mux);
            if (event.kind == LH_MUX_OPENED) {
                lh_mux_read(p.server.mux, event.link);
                event = lh_mux_next(p.server.mux);
            }
            assert_int_not_equal(event.kind, LH_MUX_MESSAGE);
            free(event.text);
        }
        finish(&p);
    }
}

static void links_to_a_server_that_does_not_speak_this_can_be_taken_back(void **state)
{
    struct lh_mux_link *link;
    struct lh_instant ends;
    struct lh_buf bytes;
    bool notify, asks;
    struct pair p;

    (void)state;
    begin(&p);
    (void)lh_mux_open(p.client.mux, LH_METHOD_STAT, lh_seconds(1), NULL, p.now);
    put(&p.client, open_link(&p, LH_METHOD_STAT), "what");
    (void)write_some(&p.client, SIZE_MAX, p.now);                    /* its greeting alone */
    lh_mux_tick(p.client.mux, lh_instant_add(p.now, lh_seconds(1))); /* the first one is late */
    link = lh_mux_unbegun(p.client.mux, &ends, &asks);
    assert_non_null(link);
    assert_true(asks);
    assert_true(ends.ns == LH_INSTANT_NEVER.ns);
    assert_true(lh_mux_take_back(p.client.mux, link, &bytes, &notify));
    assert_int_equal(bytes.size, 4);
    lh_buf_clear(&bytes);
    assert_false(lh_mux_take_back(p.client.mux, link, &bytes, &notify));
    lh_mux_close(p.client.mux, link, LH_OK, NULL);
    assert_null(lh_mux_unbegun(p.client.mux, &ends, &asks));
    finish(&p);
}

static void too_large_a_message_ends_its_link_alone(void **state)
{
    struct pair p;
    static char large[128 << 10];

    (void)state;
    begin(&p);
    struct lh_mux_link *link = open_link(&p, LH_METHOD_STAT);
    lh_mux_put(p.client.mux, link, lh_buf_copy(large, sizeof large), false);
    carry_all(&p);
    expect_closed(&p.client, LH_ERR_TOO_LARGE, NULL);
    expect_nothing(&p.server);
    assert_null(lh_mux_broken(p.server.mux));
    finish(&p);
}

static void who_opens_and_cancels_without_end_is_cut_off(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    for (int i = 0; i < 200 && lh_mux_may_open(p.client.mux); i++) {
        struct lh_mux_link *link = open_link(&p, LH_METHOD_STAT);
        carry_all(&p);
        lh_mux_close(p.client.mux, link, LH_ERR_CANCELLED, NULL);
        carry_all(&p);
    }
    assert_non_null(lh_mux_broken(p.server.mux));
    assert_false(lh_mux_may_open(p.client.mux));
    finish(&p);
}

/* ---- any schedule ---- */

#define LINKS 24
struct side {
    struct lh_mux_link *link;
    uint32_t sent, received;
    bool open;
};

static struct lh_buf numbered(struct lh_prng *r, uint32_t link, uint32_t number)
{
    uint8_t *to;
    size_t size = 8 + (lh_prng_below(r, 4) == 0 ? lh_prng_below(r, 200000) : lh_prng_below(r, 300));
    struct lh_buf b = lh_buf_alloc(size, &to);

    memset(to, (int)(link * 31 + number), size);
    memcpy(to, &link, 4);
    memcpy(to + 4, &number, 4);
    return b;
}

static void check(const struct lh_buf *b, uint32_t link, uint32_t number)
{
    uint32_t got[2];
    uint8_t *all = malloc(b->size);

    assert_true(lh_buf_read(b, 0, got, sizeof got));
    assert_int_equal(got[0], link);
    assert_int_equal(got[1], number);
    assert_true(lh_buf_read(b, 0, all, b->size));
    for (size_t i = 8; i < b->size; i++)
        if (all[i] != (uint8_t)(link * 31 + number))
            fail_msg("byte %zu of message %u of link %u", i, number, link);
    free(all);
}

static void one_schedule(uint64_t seed)
{
    struct lh_prng r = {seed};

    struct lh_mux_config client = config_of(false), server = config_of(true);
    struct side c[LINKS] = {0}, s[LINKS] = {0};
    struct pair p;

    client.window = 1 + (uint32_t)lh_prng_below(&r, lh_prng_below(&r, 2) ? 100 : 1 << 20);
    server.window = 1 + (uint32_t)lh_prng_below(&r, lh_prng_below(&r, 2) ? 100 : 1 << 20);
    server.links_max = 1 + (uint32_t)lh_prng_below(&r, LINKS);
    client.frame_bytes = 1024 + (uint32_t)lh_prng_below(&r, 60 << 10);
    server.refer_bytes = (uint32_t)lh_prng_below(&r, 4000);
    server.stage_bytes = 1 + (uint32_t)lh_prng_below(&r, 256 << 10);
    begin_with(&p, &client, &server);
    for (int i = 0; i < LINKS; i++) {
        c[i].link = lh_mux_open(p.client.mux, LH_METHOD_APPEND, LH_DURATION_FOREVER, &c[i], p.now);
        c[i].open = true;
        lh_mux_read(p.client.mux, c[i].link);
    }
    size_t at_once = 1 + lh_prng_below(&r, lh_prng_below(&r, 2) ? 30 : 300000);
    int steps = 1500, quiet = 0;
    while (quiet < 4) {
        bool drain = steps-- < 0;
        size_t n = 0;
        size_t most = drain ? SIZE_MAX : 1 + lh_prng_below(&r, at_once);
        if (!drain && lh_prng_below(&r, 3) == 0) {
            struct side *side = lh_prng_below(&r, 2) == 0 ? c : s;
            uint32_t i = (uint32_t)lh_prng_below(&r, LINKS);
            if (side[i].open)
                lh_mux_put(side == c ? p.client.mux : p.server.mux, side[i].link,
                    numbered(&r, i, side[i].sent++), false);
        }
        n += write_some(&p.client, most, p.now);
        n += read_some(&p.server, &p.client.to, most, p.now);
        n += write_some(&p.server, most, p.now);
        n += read_some(&p.client, &p.server.to, most, p.now);
        if (lh_mux_broken(p.server.mux) != NULL || lh_mux_broken(p.client.mux) != NULL)
            fail_msg("seed %" PRIu64 ": %s", seed,
                lh_mux_broken(lh_mux_broken(p.server.mux) != NULL ? p.server.mux : p.client.mux));
        struct lh_mux_event e;
        while ((e = lh_mux_next(p.server.mux)).kind != LH_MUX_NOTHING) {
            n++;
            if (e.kind == LH_MUX_OPENED) {
                uint32_t i = (uint32_t)e.link->id - 1;
                e.link->owner = &s[i];
                s[i] = (struct side){.link = e.link, .open = true};
                lh_mux_read(p.server.mux, e.link);
            } else {
                assert_int_equal(e.kind, LH_MUX_MESSAGE);
                struct side *side = e.owner;
                check(&e.bytes, (uint32_t)(side - s), side->received++);
                lh_buf_clear(&e.bytes);
                lh_mux_read(p.server.mux, e.link);
            }
        }
        while ((e = lh_mux_next(p.client.mux)).kind != LH_MUX_NOTHING) {
            n++;
            struct side *side = e.owner;
            if (e.kind == LH_MUX_CLOSED) {
                side->open = false;
                free(e.text);
                continue;
            }
            assert_int_equal(e.kind, LH_MUX_MESSAGE);
            check(&e.bytes, (uint32_t)(side - c), side->received++);
            lh_buf_clear(&e.bytes);
            lh_mux_read(p.client.mux, e.link);
        }
        /* Those that wait for their place get it. */
        if (drain && n == 0)
            for (int i = 0; i < LINKS; i++)
                if (s[i].open && c[i].sent == s[i].received && s[i].sent == c[i].received) {
                    lh_mux_close(p.server.mux, s[i].link, LH_OK, NULL);
                    s[i].open = false;
                    n++;
                }
        quiet = n > 0 || !drain ? 0 : quiet + 1;
    }
    for (int i = 0; i < LINKS; i++) {
        assert_int_equal(c[i].sent, s[i].received);
        assert_int_equal(s[i].sent, c[i].received);
        assert_false(c[i].open);
    }
    assert_int_equal(lh_mux_queued_bytes(p.client.mux), 0);
    assert_int_equal(lh_mux_queued_bytes(p.server.mux), 0);
    assert_int_equal(lh_mux_waiting_bytes(p.server.mux), 0);
    assert_int_equal(lh_mux_links(p.client.mux), 0);
    assert_int_equal(lh_mux_links(p.server.mux), 0);
    finish(&p);
}

static void any_split_delivers_all_of_it_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        one_schedule(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_answered_and_ends),
        cmocka_unit_test(a_link_that_is_not_read_holds_up_no_other),
        cmocka_unit_test(what_is_read_gives_credit_for_more),
        cmocka_unit_test(a_cancelled_link_ends_at_the_server),
        cmocka_unit_test(the_end_comes_behind_what_was_sent),
        cmocka_unit_test(what_was_sent_before_a_cancelled_link_ends_arrives),
        cmocka_unit_test(a_single_reply_may_come_in_pieces),
        cmocka_unit_test(a_second_reply_of_a_call_ends_the_connection),
        cmocka_unit_test(links_are_opened_in_their_order),
        cmocka_unit_test(what_trickles_in_is_handed_on_in_few_slices),
        cmocka_unit_test(what_waits_keeps_no_blocks),
        cmocka_unit_test(what_was_written_is_notified),
        cmocka_unit_test(a_call_without_an_answer_ends_at_its_deadline),
        cmocka_unit_test(a_silent_end_is_pinged_and_then_given_up),
        cmocka_unit_test(who_does_not_greet_is_given_up),
        cmocka_unit_test(who_connects_late_waits_as_long_for_a_greeting),
        cmocka_unit_test(more_links_than_the_server_takes_wait),
        cmocka_unit_test(a_cancelled_link_makes_room_at_once),
        cmocka_unit_test(a_server_that_goes_away_finishes_what_is_open),
        cmocka_unit_test(a_damaged_byte_ends_the_connection),
        cmocka_unit_test(links_to_a_server_that_does_not_speak_this_can_be_taken_back),
        cmocka_unit_test(too_large_a_message_ends_its_link_alone),
        cmocka_unit_test(who_opens_and_cancels_without_end_is_cut_off),
        cmocka_unit_test(any_split_delivers_all_of_it_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
