/* Streams of appends that the appenders of one client share. */
#include "tests/core/client/client_world.h"

#define APPENDERS 3
/* Makes a batch of a little more than 256 KiB, which is a message of its own. */
#define LARGE 19000u

struct appender {
    struct lh_client_appender *core;
    uint64_t writer, sequence;
};

struct shared {
    struct world w;
    struct appender a[APPENDERS];
    uint64_t stream;
};

static struct lh_submit_call next_batch(struct appender *a, uint32_t count)
{
    struct lh_submit_call call = {
        .call.kind = LH_CALL_SUBMIT,
        .appender = a->core,
        .batch = make_batch(a->writer, a->sequence, count),
        .sequence = a->sequence,
        .count = count,
    };

    a->sequence += count;
    return call;
}

static void submit(struct shared *s, int appender, uint32_t count, struct lh_submit_call *call)
{
    *call = next_batch(&s->a[appender], count);
    ask(&s->w, call);
}

static void open_appender(struct shared *s, int i)
{
    struct lh_appender_open_call open = {
        .call.kind = LH_CALL_APPENDER_OPEN,
        .path = "/f",
        .deadline = in_ms(&s->w, 1000),
        .give_up = lh_seconds(300),
    };

    ask(&s->w, &open);
    say_stat(&s->w, expect_request(&s->w, LH_METHOD_STAT, "m1:1", NULL));
    expect_complete(&s->w, &open, LH_OK);
    s->a[i] = (struct appender){.core = open.appender, .writer = open.writer, .sequence = 1};
}

static void expect_opening(struct shared *s, int appender, uint64_t first)
{
    const Leasehold__AppendRequest *m = expect_send(&s->w, s->stream);

    assert_int_equal(m->chunk, 5);
    assert_int_equal(m->version, 3);
    assert_int_equal(m->writer, s->a[appender].writer);
    assert_int_equal(m->first_sequence, first);
    assert_int_equal(s->w.last.payload.size, 0);
}

static void say_opened(struct shared *s, int appender)
{
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    m.opened = true;
    m.writer = s->a[appender].writer;
    m.window_batches = 16;
    m.window_bytes = 16u << 20;
    say(&s->w, s->stream, &m);
}

/* The appender asks for the tail, which is chunk 5 with its primary on s1. */
static void find_tail(struct shared *s)
{
    say_tail(&s->w, expect_request(&s->w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
        open_chunk(5, 3, 1000, 0), 0, NULL);
}

/* One batch of that appender's goes in the message taken last, at `offset`. */
static void expect_in(struct shared *s, size_t offset, int appender, uint64_t sequence)
{
    expect_packed(&s->w, offset, s->a[appender].writer, sequence, 1);
}

/* One message goes out with nothing but that batch. */
static void expect_alone(struct shared *s, int appender, uint64_t sequence, uint32_t count)
{
    expect_send(&s->w, s->stream);
    expect_packed(&s->w, 0, s->a[appender].writer, sequence, count);
    assert_int_equal(s->w.last.payload.size, BATCH_BYTES(count));
}

static void say_stored(struct shared *s, uint64_t link, int appender, uint64_t sequence)
{
    Leasehold__Stored stored = LEASEHOLD__STORED__INIT;
    Leasehold__Stored *list[] = {&stored};
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    stored.writer = s->a[appender].writer;
    stored.sequence = sequence;
    stored.count = 1;
    m.stored = list;
    m.n_stored = 1;
    say(&s->w, link, &m);
}

/* Refuses one writer, or with `appender` -1 ends the stream. */
static void refuse(struct shared *s, int appender, int error)
{
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    m.writer = appender < 0 ? 0 : s->a[appender].writer;
    m.error = (Leasehold__ErrorCode)-error;
    say(&s->w, s->stream, &m);
}

static void close_appender(struct shared *s, int i)
{
    struct lh_appender_close_call close = {
        .call.kind = LH_CALL_APPENDER_CLOSE, .appender = s->a[i].core};

    ask(&s->w, &close);
    while (s->w.events[s->w.taken].call != &close)
        take(&s->w, LH_FX_COMPLETE);
    expect_complete(&s->w, &close, LH_OK);
}

/* Three appenders, each with one batch stored by the way of one stream to s1. */
static void share_stream(struct shared *s)
{
    struct lh_submit_call b;

    world_init(&s->w);
    for (int i = 0; i < APPENDERS; i++) {
        open_appender(s, i);
        submit(s, i, 1, &b);
        find_tail(s);
        if (i == 0)
            s->stream = expect_open(&s->w, LH_METHOD_APPEND, "s1:1");
        expect_opening(s, i, 1);
        say_opened(s, i);
        expect_alone(s, i, 1, 1);
        say_stored(s, s->stream, i, 1);
        expect_complete(&s->w, &b, LH_OK);
    }
    expect_quiet(&s->w);
}

static void what_gathers_while_messages_are_unanswered_goes_together(void **state)
{
    struct shared s;
    struct lh_submit_call b[6];

    (void)state;
    share_stream(&s);

    /* A second message may go beside the first; what comes then waits, whosever it is. */
    submit(&s, 0, 1, &b[0]);
    expect_alone(&s, 0, 2, 1);
    submit(&s, 1, 1, &b[1]);
    expect_alone(&s, 1, 2, 1);
    submit(&s, 2, 1, &b[2]);
    submit(&s, 0, 1, &b[3]);
    submit(&s, 2, 1, &b[4]);
    expect_quiet(&s.w);

    /* One of the two is answered: one message takes all of it along, in order. */
    say_stored(&s, s.stream, 1, 2);
    expect_complete(&s.w, &b[1], LH_OK);
    expect_send(&s.w, s.stream);
    assert_int_equal(s.w.last.payload.size, 3 * BATCH_BYTES(1));
    expect_in(&s, 0, 2, 2);
    expect_in(&s, BATCH_BYTES(1), 0, 3);
    expect_in(&s, 2 * BATCH_BYTES(1), 2, 3);

    /* Another one may go beside it, but not with less than it has unanswered. */
    submit(&s, 1, 1, &b[5]);
    say_stored(&s, s.stream, 0, 2);
    expect_complete(&s.w, &b[0], LH_OK);
    expect_quiet(&s.w);
    say_stored(&s, s.stream, 2, 2);
    expect_complete(&s.w, &b[2], LH_OK);
    expect_quiet(&s.w);
    say_stored(&s, s.stream, 0, 3);
    expect_complete(&s.w, &b[3], LH_OK);
    expect_alone(&s, 1, 3, 1);
    world_deinit(&s.w);
}

static void large_batches_do_not_wait_for_answers(void **state)
{
    struct shared s;
    struct lh_submit_call b[16], small;

    (void)state;
    share_stream(&s);
    for (int i = 0; i < 16; i++) {
        uint64_t sequence = s.a[0].sequence;
        submit(&s, 0, LARGE, &b[i]);
        expect_alone(&s, 0, sequence, LARGE);
    }
    submit(&s, 1, 1, &small);
    expect_quiet(&s.w);
    world_deinit(&s.w);
}

static void a_refused_writer_goes_its_own_way(void **state)
{
    struct shared s;
    struct lh_submit_call b0, b1, b2, b3;

    (void)state;
    share_stream(&s);
    submit(&s, 0, 1, &b0);
    expect_alone(&s, 0, 2, 1);
    submit(&s, 1, 1, &b1);
    expect_alone(&s, 1, 2, 1);
    submit(&s, 1, 1, &b2);
    submit(&s, 2, 1, &b3);

    /* What it had waiting stays behind; its message is not waited for any more. */
    refuse(&s, 1, LH_ERR_NOT_PRIMARY);
    uint64_t asked = expect_request(&s.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL);
    expect_alone(&s, 2, 2, 1);

    /* The same chunk again: not on the stream that it has left. */
    uint64_t shared = s.stream;
    say_tail(&s.w, asked, open_chunk(5, 3, 1000, 0), 0, NULL);
    s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
    expect_opening(&s, 1, 2);

    /* A late answer there is no answer to what it sends here. */
    say_stored(&s, shared, 1, 2);
    expect_quiet(&s.w);
    say_opened(&s, 1);
    expect_send(&s.w, s.stream);
    expect_in(&s, 0, 1, 2);
    expect_in(&s, BATCH_BYTES(1), 1, 3);
    say_stored(&s, s.stream, 1, 2);
    expect_complete(&s.w, &b1, LH_OK);

    /* The others have noticed nothing. */
    say_stored(&s, shared, 0, 2);
    expect_complete(&s.w, &b0, LH_OK);
    say_stored(&s, shared, 2, 2);
    expect_complete(&s.w, &b3, LH_OK);
    expect_quiet(&s.w);
    world_deinit(&s.w);
}

static void the_end_of_a_stream_is_everybodys(void **state)
{
    struct shared s;
    struct lh_submit_call b0, b1;

    (void)state;
    share_stream(&s);
    submit(&s, 0, 1, &b0);
    submit(&s, 1, 1, &b1);
    expect_alone(&s, 0, 2, 1);
    expect_alone(&s, 1, 2, 1);
    break_link(&s.w, s.stream);

    /* Who has something to send asks for the tail, and the first to know it opens the stream that
     * both will use. The third one has nothing to send. */
    uint64_t asked[2];
    for (int i = 0; i < 2; i++)
        asked[i] = expect_request(&s.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL);
    expect_quiet(&s.w);
    say_tail(&s.w, asked[0], open_chunk(5, 3, 1000, 0), 0, NULL);
    s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
    expect_send(&s.w, s.stream);
    say_tail(&s.w, asked[1], open_chunk(5, 3, 1000, 0), 0, NULL);
    expect_send(&s.w, s.stream);
    expect_quiet(&s.w);
    say_opened(&s, 0);
    expect_alone(&s, 0, 2, 1);
    say_opened(&s, 1);
    expect_alone(&s, 1, 2, 1);
    world_deinit(&s.w);
}

static void another_version_is_another_stream(void **state)
{
    struct shared s;
    struct lh_submit_call b;

    (void)state;
    share_stream(&s);
    refuse(&s, 0, LH_ERR_STALE_VERSION);
    expect_quiet(&s.w);
    submit(&s, 0, 1, &b);
    say_tail(&s.w, expect_request(&s.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
        open_chunk(5, 4, 1000, 0), 0, NULL);
    uint64_t newer = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
    const Leasehold__AppendRequest *m = expect_send(&s.w, newer);
    assert_int_equal(m->version, 4);
    expect_quiet(&s.w);
    world_deinit(&s.w);
}

/* Lets time pass while the server says every 100 ms that it lives. */
static void pass_alive(struct shared *s, uint64_t stream, uint64_t ms)
{
    Leasehold__AppendReply alive = LEASEHOLD__APPEND_REPLY__INIT;

    alive.alive_ms = 200;
    for (; ms > 100; ms -= 100) {
        pass_ms(&s->w, 100);
        say(&s->w, stream, &alive);
    }
    pass_ms(&s->w, ms);
}

static void a_stream_without_progress_is_given_up_by_all(void **state)
{
    struct shared s;
    struct lh_submit_call b0, b1;

    (void)state;
    share_stream(&s);
    submit(&s, 0, 1, &b0);
    expect_alone(&s, 0, 2, 1);
    pass_alive(&s, s.stream, 4000);
    submit(&s, 1, 1, &b1);
    expect_alone(&s, 1, 2, 1);
    pass_alive(&s, s.stream, 999);
    expect_quiet(&s.w);
    pass_ms(&s.w, 1);
    expect_close(&s.w, s.stream);
    expect_request(&s.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL);
    expect_request(&s.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL);
    expect_quiet(&s.w);
    world_deinit(&s.w);
}

static void a_stream_that_hangs_is_given_up_by_all(void **state)
{
    struct shared s;
    struct lh_submit_call b0, b1;

    (void)state;
    share_stream(&s);
    pass_ms(&s.w, 60000); /* nothing is owed: silence is no sign of anything */
    expect_quiet(&s.w);
    submit(&s, 0, 1, &b0);
    expect_alone(&s, 0, 2, 1);
    pass_alive(&s, s.stream, 2000);

    /* Silence counts from the last word, not from what was sent into it. */
    pass_ms(&s.w, 300);
    submit(&s, 1, 1, &b1);
    expect_alone(&s, 1, 2, 1);
    pass_ms(&s.w, 299);
    expect_quiet(&s.w);
    pass_ms(&s.w, 1);
    expect_close(&s.w, s.stream);
    for (int i = 0; i < 2; i++) {
        const Leasehold__OpenTailRequest *m;
        expect_request(&s.w, LH_METHOD_OPEN_TAIL, "m1:1", &m);
        assert_int_equal(m->failed_version, 3);
    }
    expect_quiet(&s.w);
    world_deinit(&s.w);
}

/* A large batch on a slow link: that its bytes arrive counts as if it were answered. */
static void what_arrives_is_no_stall(void **state)
{
    struct shared s;
    struct lh_submit_call b;
    Leasehold__AppendReply alive = LEASEHOLD__APPEND_REPLY__INIT;

    (void)state;
    share_stream(&s);
    submit(&s, 0, 1, &b);
    expect_alone(&s, 0, 2, 1);
    alive.alive_ms = 200;
    alive.arriving = true;
    for (int i = 0; i < 100; i++) {
        pass_ms(&s.w, 200);
        say(&s.w, s.stream, &alive);
        expect_quiet(&s.w);
    }
    pass_alive(&s, s.stream, 4900); /* alive, but no more of it comes */
    expect_quiet(&s.w);
    pass_alive(&s, s.stream, 100);
    expect_close(&s.w, s.stream);
    world_deinit(&s.w);
}

static void a_server_may_set_a_slower_pace(void **state)
{
    struct shared s;
    struct lh_submit_call b;
    Leasehold__AppendReply alive = LEASEHOLD__APPEND_REPLY__INIT;

    (void)state;
    share_stream(&s);
    submit(&s, 0, 1, &b);
    expect_alone(&s, 0, 2, 1);
    alive.alive_ms = 1000;
    say(&s.w, s.stream, &alive);
    pass_ms(&s.w, 2999);
    expect_quiet(&s.w);
    pass_ms(&s.w, 1);
    expect_close(&s.w, s.stream);
    expect_request(&s.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL);

    /* Whatever it says, there is an end to it. */
    say_tail(&s.w, s.w.last.link, open_chunk(5, 3, 1000, 0), 0, NULL);
    s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
    expect_opening(&s, 0, 2);
    alive.alive_ms = UINT64_MAX;
    say(&s.w, s.stream, &alive);
    say_opened(&s, 0);
    expect_alone(&s, 0, 2, 1);
    pass_ms(&s.w, 5000);
    expect_close(&s.w, s.stream);
    world_deinit(&s.w);
}

static void an_opening_that_hangs_is_given_up(void **state)
{
    struct shared s;
    struct lh_submit_call b;

    (void)state;
    world_init(&s.w);
    open_appender(&s, 0);
    submit(&s, 0, 1, &b);
    find_tail(&s);
    s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
    expect_opening(&s, 0, 1);
    pass_ms(&s.w, 699);
    expect_quiet(&s.w);
    pass_ms(&s.w, 1);
    expect_close(&s.w, s.stream);
    find_tail(&s);

    /* A recovery that takes long is another matter. */
    s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
    expect_opening(&s, 0, 1);
    pass_alive(&s, s.stream, 4900);
    expect_quiet(&s.w);
    say_opened(&s, 0);
    expect_alone(&s, 0, 1, 1);
    world_deinit(&s.w);
}

static void an_unanswered_opening_disturbs_nobody(void **state)
{
    struct shared s;
    struct lh_submit_call first, b;

    (void)state;
    world_init(&s.w);
    open_appender(&s, 0);
    open_appender(&s, 1);
    submit(&s, 0, 1, &first);
    find_tail(&s);
    s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
    expect_opening(&s, 0, 1);
    say_opened(&s, 0);
    expect_alone(&s, 0, 1, 1);
    say_stored(&s, s.stream, 0, 1);
    expect_complete(&s.w, &first, LH_OK);

    submit(&s, 1, 1, &b);
    find_tail(&s);
    expect_opening(&s, 1, 1);
    pass_alive(&s, s.stream, 5000);
    find_tail(&s);

    /* An answer that comes now is to the opening that was given up. */
    uint64_t shared = s.stream;
    s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
    expect_opening(&s, 1, 1);
    uint64_t fresh = s.stream;
    s.stream = shared;
    say_opened(&s, 1);
    expect_quiet(&s.w);
    s.stream = fresh;
    say_opened(&s, 1);
    expect_alone(&s, 1, 1, 1);
    world_deinit(&s.w);
}

static void the_last_to_leave_closes_the_stream(void **state)
{
    struct shared s;
    struct lh_submit_call b[4];

    (void)state;
    share_stream(&s);
    submit(&s, 0, 1, &b[0]);
    expect_alone(&s, 0, 2, 1);
    submit(&s, 1, 1, &b[1]);
    expect_alone(&s, 1, 2, 1);
    submit(&s, 1, 1, &b[2]);
    submit(&s, 2, 1, &b[3]);

    /* What the leaving one had waiting is not sent any more. */
    close_appender(&s, 1);
    expect_alone(&s, 2, 2, 1);
    say_stored(&s, s.stream, 1, 2);
    expect_quiet(&s.w);
    close_appender(&s, 0);
    expect_quiet(&s.w);
    close_appender(&s, 2);
    expect_close(&s.w, s.stream);
    expect_quiet(&s.w);
    assert_true(lh_client_deadline(s.w.client).ns == UINT64_MAX);
    world_deinit(&s.w);
}

/* Every bound at its smallest: batches go one by one, and writers each on a stream of their own. */
static void the_smallest_bounds_are_only_slow(void **state)
{
    struct shared s = {0};
    struct lh_submit_call b[APPENDERS][4];
    uint64_t streams[APPENDERS];

    (void)state;
    world_init_with(&s.w, (struct lh_client_config){.messages = 1,
                              .full_message_bytes = 1,
                              .unanswered_bytes = 1,
                              .message_bytes = 1,
                              .stream_writers = 1});
    for (int i = 0; i < APPENDERS; i++) {
        open_appender(&s, i);
        submit(&s, i, 1, &b[i][0]);
        find_tail(&s);
        streams[i] = s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
        expect_opening(&s, i, 1);
        say_opened(&s, i);
        expect_alone(&s, i, 1, 1);
    }
    for (int i = 0; i < APPENDERS; i++) {
        s.stream = streams[i];
        for (int k = 1; k < 4; k++)
            submit(&s, i, 1, &b[i][k]);
        expect_quiet(&s.w);
        for (uint64_t k = 1; k <= 4; k++) {
            say_stored(&s, s.stream, i, k);
            expect_complete(&s.w, &b[i][k - 1], LH_OK);
            if (k < 4)
                expect_alone(&s, i, k + 1, 1);
        }
        expect_quiet(&s.w);
    }
    world_deinit(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_gathers_while_messages_are_unanswered_goes_together),
        cmocka_unit_test(large_batches_do_not_wait_for_answers),
        cmocka_unit_test(a_refused_writer_goes_its_own_way),
        cmocka_unit_test(the_end_of_a_stream_is_everybodys),
        cmocka_unit_test(another_version_is_another_stream),
        cmocka_unit_test(a_stream_without_progress_is_given_up_by_all),
        cmocka_unit_test(what_arrives_is_no_stall),
        cmocka_unit_test(a_stream_that_hangs_is_given_up_by_all),
        cmocka_unit_test(a_server_may_set_a_slower_pace),
        cmocka_unit_test(an_opening_that_hangs_is_given_up),
        cmocka_unit_test(an_unanswered_opening_disturbs_nobody),
        cmocka_unit_test(the_last_to_leave_closes_the_stream),
        cmocka_unit_test(the_smallest_bounds_are_only_slow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
