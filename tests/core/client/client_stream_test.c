/* Streams of appends that the appenders of one client share. */
#include "tests/core/client/client_world.h"

#include "base/cluster.h"

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
    uint64_t stream, lane;
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
    const Leasehold__AppendPart *m = expect_part(&s->w, s->stream);

    s->lane = m->lane;
    assert_int_equal(m->chunk, 5);
    assert_int_equal(m->version, 3);
    assert_int_equal(m->writer, s->a[appender].writer);
    assert_int_equal(m->first_sequence, first);
    assert_int_equal(s->w.last.payload.size, 0);
}

static void say_opened(struct shared *s, int appender)
{
    say_writer_opened(&s->w, s->stream, s->lane, s->a[appender].writer);
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
    assert_int_equal(expect_part(&s->w, s->stream)->lane, s->lane);
    expect_packed(&s->w, 0, s->a[appender].writer, sequence, count);
    assert_int_equal(s->w.last.payload.size, BATCH_BYTES(count));
}

static void say_stored(struct shared *s, uint64_t lane, int appender, uint64_t sequence)
{
    say_batch_stored(&s->w, s->stream, lane, s->a[appender].writer, sequence, 0);
}

/* Refuses one writer. */
static void refuse(struct shared *s, int appender, int error)
{
    say_refused(&s->w, s->stream, s->lane, s->a[appender].writer, error);
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

/* Three appenders, each with one batch stored by the way of one lane to s1. */
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
        say_stored(s, s->lane, i, 1);
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
    say_stored(&s, s.lane, 1, 2);
    expect_complete(&s.w, &b[1], LH_OK);
    expect_send(&s.w, s.stream);
    assert_int_equal(s.w.last.payload.size, 3 * BATCH_BYTES(1));
    expect_in(&s, 0, 2, 2);
    expect_in(&s, BATCH_BYTES(1), 0, 3);
    expect_in(&s, 2 * BATCH_BYTES(1), 2, 3);

    /* Another one may go beside it, but not with less than it has unanswered. */
    submit(&s, 1, 1, &b[5]);
    say_stored(&s, s.lane, 0, 2);
    expect_complete(&s.w, &b[0], LH_OK);
    expect_quiet(&s.w);
    say_stored(&s, s.lane, 2, 2);
    expect_complete(&s.w, &b[2], LH_OK);
    expect_quiet(&s.w);
    say_stored(&s, s.lane, 0, 3);
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

    /* The same chunk again: not on the lane that it has left. */
    uint64_t shared = s.lane;
    say_tail(&s.w, asked, open_chunk(5, 3, 1000, 0), 0, NULL);
    expect_opening(&s, 1, 2);
    assert_true(s.lane > shared);

    /* A late answer there is no answer to what it sends here. */
    say_stored(&s, shared, 1, 2);
    expect_quiet(&s.w);
    say_opened(&s, 1);
    assert_int_equal(expect_part(&s.w, s.stream)->lane, s.lane);
    expect_in(&s, 0, 1, 2);
    expect_in(&s, BATCH_BYTES(1), 1, 3);
    say_stored(&s, s.lane, 1, 2);
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
    expect_opening(&s, 0, 2);
    say_tail(&s.w, asked[1], open_chunk(5, 3, 1000, 0), 0, NULL);
    expect_opening(&s, 1, 2);
    expect_quiet(&s.w);
    say_opened(&s, 0);
    expect_alone(&s, 0, 2, 1);
    say_opened(&s, 1);
    expect_alone(&s, 1, 2, 1);
    world_deinit(&s.w);
}

static void another_version_is_another_lane(void **state)
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
    const Leasehold__AppendPart *m = expect_part(&s.w, s.stream);
    assert_int_equal(m->version, 4);
    assert_true(m->lane > s.lane);
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
    expect_request(&s.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL);
    expect_request(&s.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL);
    expect_close(&s.w, s.stream);
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
    expect_request(&s.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL);
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
    say_stored(&s, s.lane, 0, 1);
    expect_complete(&s.w, &first, LH_OK);

    submit(&s, 1, 1, &b);
    find_tail(&s);
    expect_opening(&s, 1, 1);
    pass_alive(&s, s.stream, 5000);
    find_tail(&s);

    /* An answer that comes now is to the opening that was given up. */
    uint64_t shared = s.lane;
    expect_opening(&s, 1, 1);
    say_writer_opened(&s.w, s.stream, shared, s.a[1].writer);
    expect_quiet(&s.w);
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
    say_stored(&s, s.lane, 1, 2);
    expect_quiet(&s.w);
    close_appender(&s, 0);
    expect_quiet(&s.w);
    close_appender(&s, 2);
    expect_close(&s.w, s.stream);
    expect_quiet(&s.w);
    assert_true(lh_client_deadline(s.w.client).ns == UINT64_MAX);
    world_deinit(&s.w);
}

/* Nothing is unanswered when the last one leaves. */
static void a_stream_is_kept_for_the_next_lane(void **state)
{
    struct shared s;
    struct lh_submit_call b;

    (void)state;
    share_stream(&s);
    uint64_t left = s.lane;
    for (int i = 0; i < APPENDERS; i++)
        close_appender(&s, i);
    expect_quiet(&s.w);

    /* The server hears of the end with the next lane's beginning. */
    open_appender(&s, 0);
    submit(&s, 0, 1, &b);
    find_tail(&s);
    const Leasehold__AppendRequest *m = expect_send(&s.w, s.stream);
    assert_int_equal(m->n_parts, 2);
    assert_true(m->parts[0]->lane == left && m->parts[0]->end);
    assert_int_equal(m->parts[1]->writer, s.a[0].writer);
    s.lane = m->parts[1]->lane;
    assert_true(s.lane > left);
    say_opened(&s, 0);
    expect_alone(&s, 0, 1, 1);
    say_stored(&s, s.lane, 0, 1);
    expect_complete(&s.w, &b, LH_OK);

    struct lh_instant left_at = s.w.now;
    close_appender(&s, 0);
    while (s.w.taken == s.w.count)
        pass(&s.w);
    expect_close(&s.w, s.stream);
    assert_int_equal(s.w.now.ns, lh_instant_add(left_at, lh_seconds(10)).ns);
    expect_quiet(&s.w);
    assert_true(lh_client_deadline(s.w.client).ns == UINT64_MAX);
    world_deinit(&s.w);
}

/* A message comes in the very step in which the stream has been idle for long enough. */
static void a_kept_stream_that_is_heard_at_its_end_is_closed_once(void **state)
{
    struct shared s;
    Leasehold__AppendReply alive = LEASEHOLD__APPEND_REPLY__INIT;

    (void)state;
    share_stream(&s);
    for (int i = 0; i < APPENDERS; i++)
        close_appender(&s, i);
    alive.alive_ms = 200;
    s.w.now = lh_instant_add(s.w.now, lh_seconds(10));
    say(&s.w, s.stream, &alive);
    expect_close(&s.w, s.stream);
    expect_quiet(&s.w);
    assert_true(lh_client_deadline(s.w.client).ns == UINT64_MAX);
    world_deinit(&s.w);
}

static void a_kept_stream_that_breaks_is_forgotten(void **state)
{
    struct shared s;
    struct lh_submit_call b;

    (void)state;
    share_stream(&s);
    for (int i = 0; i < APPENDERS; i++)
        close_appender(&s, i);
    break_link(&s.w, s.stream);
    expect_quiet(&s.w);
    assert_true(lh_client_deadline(s.w.client).ns == UINT64_MAX);
    open_appender(&s, 0);
    submit(&s, 0, 1, &b);
    find_tail(&s);
    s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
    expect_opening(&s, 0, 1);
    world_deinit(&s.w);
}

/* Every bound at its smallest: batches go one by one, and writers each on a stream of their own. */
static void the_smallest_bounds_are_only_slow(void **state)
{
    struct shared s = {0};
    struct lh_submit_call b[APPENDERS][4];
    uint64_t streams[APPENDERS], lanes[APPENDERS];

    (void)state;
    world_init_with(&s.w, (struct lh_client_config){.messages = 1,
                              .full_message_bytes = 1,
                              .unanswered_bytes = 1,
                              .message_bytes = 1,
                              .shared_bytes = 1,
                              .small_bytes = 1,
                              .message_parts = 1,
                              .stream_lanes = 1,
                              .stream_writers = 1});
    for (int i = 0; i < APPENDERS; i++) {
        open_appender(&s, i);
        submit(&s, i, 1, &b[i][0]);
        find_tail(&s);
        streams[i] = s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
        expect_opening(&s, i, 1);
        lanes[i] = s.lane;
        say_opened(&s, i);
        expect_alone(&s, i, 1, 1);
    }
    for (int i = 0; i < APPENDERS; i++) {
        s.stream = streams[i];
        s.lane = lanes[i];
        for (int k = 1; k < 4; k++)
            submit(&s, i, 1, &b[i][k]);
        expect_quiet(&s.w);
        for (uint64_t k = 1; k <= 4; k++) {
            say_stored(&s, s.lane, i, k);
            expect_complete(&s.w, &b[i][k - 1], LH_OK);
            if (k < 4)
                expect_alone(&s, i, k + 1, 1);
        }
        expect_quiet(&s.w);
    }
    world_deinit(&s.w);
}

/* ---- Lanes of many chunks on one stream ---- */

/* An appender of its own, not of a `struct shared`. */
static struct appender open_one(struct world *w)
{
    struct shared one = {.w = *w};

    open_appender(&one, 0);
    *w = one.w;
    return one.a[0];
}

static void close_one(struct world *w, struct appender a)
{
    struct shared one = {.w = *w, .a = {a}};

    close_appender(&one, 0);
    *w = one.w;
}

#define LANES 8

/* A batch of more than 512 KiB, which is more than a message has that lanes share. */
#define HUGE 40000u

struct many {
    struct world w;
    uint64_t stream;
    struct appender a[LANES];
    uint64_t lane[LANES];
};

static void give(struct many *m, int i, uint32_t count, struct lh_submit_call *call)
{
    *call = next_batch(&m->a[i], count);
    ask(&m->w, call);
}

/* A lane for each appender, to the chunks 5, 6 and so on, whose primary is on s1; each has one
 * batch stored. From then on what goes leaves only when the test says so. */
static void open_lanes_with(struct many *m, int count, struct lh_client_config config)
{
    struct lh_submit_call b;

    world_init_with(&m->w, config);
    for (int i = 0; i < count; i++) {
        m->a[i] = open_one(&m->w);
        give(m, i, 1, &b);
        say_tail(&m->w, expect_request(&m->w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
            open_chunk(5 + (uint64_t)i, 3, 0, 0), 0, NULL);
        if (i == 0)
            m->stream = expect_open(&m->w, LH_METHOD_APPEND, "s1:1");
        const Leasehold__AppendPart *part = expect_part(&m->w, m->stream);
        assert_int_equal(part->chunk, 5 + i);
        assert_true(part->lane > 0 && (i == 0 || part->lane > m->lane[i - 1]));
        m->lane[i] = part->lane;
        say_writer_opened(&m->w, m->stream, m->lane[i], m->a[i].writer);
        expect_part(&m->w, m->stream);
        say_batch_stored(&m->w, m->stream, m->lane[i], m->a[i].writer, 1, 0);
        expect_complete(&m->w, &b, LH_OK);
    }
    expect_quiet(&m->w);
    m->w.slow = true;
}

static void open_lanes(struct many *m, int count)
{
    open_lanes_with(m, count, (struct lh_client_config){0});
}

/* The message taken last has, at `offset`, those bytes of the batch. */
static void expect_bytes(
    struct many *m, size_t offset, const struct lh_buf *batch, size_t from, size_t size)
{
    uint8_t *x = lh_alloc(size), *y = lh_alloc(size);

    assert_true(lh_buf_read(&m->w.last.payload, offset, x, size));
    assert_true(lh_buf_read(batch, from, y, size));
    assert_memory_equal(x, y, size);
    free(x);
    free(y);
}

/* What it sends there would be answered before what it sent on the newer one. */
static void a_writer_does_not_come_back_to_an_older_stream(void **state)
{
    struct appender a[3];
    struct lh_submit_call b;
    struct world w;
    uint64_t stream[3];

    (void)state;
    world_init_with(&w, (struct lh_client_config){.stream_lanes = 2});
    for (int i = 0; i < 3; i++) {
        a[i] = open_one(&w);
        b = next_batch(&a[i], 1);
        ask(&w, &b);
        say_tail(&w, expect_request(&w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
            open_chunk(5 + (uint64_t)i, 3, 0, 0), 0, NULL);
        stream[i] = i == 1 ? stream[0] : expect_open(&w, LH_METHOD_APPEND, "s1:1");
        uint64_t lane = expect_part(&w, stream[i])->lane;
        say_writer_opened(&w, stream[i], lane, a[i].writer);
        expect_part(&w, stream[i]);
        say_batch_stored(&w, stream[i], lane, a[i].writer, 1, 0);
        expect_complete(&w, &b, LH_OK);
    }
    close_one(&w, a[1]); /* the older stream has room again */
    expect_send(&w, stream[0]);
    b = next_batch(&a[2], 1);
    ask(&w, &b);
    expect_part(&w, stream[2]);
    break_link(&w, stream[2]);
    say_tail(
        &w, expect_request(&w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), open_chunk(7, 3, 0, 0), 0, NULL);
    expect_part(&w, expect_open(&w, LH_METHOD_APPEND, "s1:1"));
    expect_quiet(&w);
    world_deinit(&w);
}

static void lanes_share_a_stream_and_its_messages(void **state)
{
    struct many m;
    struct lh_submit_call b[LANES];
    const Leasehold__AppendRequest *q;

    (void)state;
    open_lanes(&m, LANES);

    /* The first goes at once; what comes while it is being written goes together. */
    for (int i = 0; i < LANES; i++)
        give(&m, i, 1, &b[i]);
    assert_int_equal(expect_part(&m.w, m.stream)->lane, m.lane[0]);
    expect_quiet(&m.w);
    say_sent(&m.w, m.stream);
    q = expect_send(&m.w, m.stream);
    assert_int_equal(q->n_parts, LANES - 1);
    for (int i = 1; i < LANES; i++) {
        const Leasehold__AppendPart *part = q->parts[i - 1];
        assert_int_equal(part->lane, m.lane[i]);
        assert_int_equal(part->chunk, 5 + i);
        assert_int_equal(part->version, 3);
        assert_int_equal(part->bytes, BATCH_BYTES(1));
        expect_packed(
            &m.w, (size_t)(i - 1) * BATCH_BYTES(1), m.a[i].writer, m.a[i].sequence - 1, 1);
    }
    say_sent(&m.w, m.stream);
    expect_quiet(&m.w);
    for (int i = 0; i < LANES; i++) {
        say_batch_stored(&m.w, m.stream, m.lane[i], m.a[i].writer, 2, 0);
        expect_complete(&m.w, &b[i], LH_OK);
    }
    world_deinit(&m.w);
}

/* One record that takes long on a slow link holds up no small ones of other chunks. */
static void a_huge_batch_goes_in_parts_beside_small_ones(void **state)
{
    struct many m;
    struct lh_submit_call huge, behind, other, small[4];
    const Leasehold__AppendRequest *q;
    size_t piece = 128u << 10, sent = piece;

    (void)state;
    open_lanes(&m, 3);
    give(&m, 1, 1, &small[3]);
    give(&m, 0, HUGE, &huge);
    struct lh_buf whole = lh_buf_ref(&huge.batch);
    give(&m, 0, 1, &behind); /* not before the last byte of the one before */
    expect_part(&m.w, m.stream);
    say_batch_stored(&m.w, m.stream, m.lane[1], m.a[1].writer, 2, 0);
    expect_complete(&m.w, &small[3], LH_OK);
    say_sent(&m.w, m.stream);
    assert_int_equal(expect_part(&m.w, m.stream)->bytes, piece);
    expect_bytes(&m, 0, &whole, 0, piece);
    give(&m, 2, HUGE, &other);
    for (int i = 0; sent < whole.size; i++) {
        bool beside = i < 2; /* two may be unanswered, as ever */
        if (i < 3)
            give(&m, 1, 1, &small[i]);
        say_sent(&m.w, m.stream);
        q = expect_send(&m.w, m.stream);
        assert_true(q->n_parts > beside && q->parts[0]->lane == m.lane[beside]);
        const Leasehold__AppendPart *part = q->parts[beside];
        size_t next = whole.size - sent < piece ? whole.size - sent : piece;
        assert_true(part->lane == m.lane[0] && part->bytes == next);
        expect_bytes(&m, beside ? BATCH_BYTES(1) : 0, &whole, sent, next);
        sent += next;
    }
    assert_int_equal(sent, whole.size);

    /* Only one at a time is on its way in parts: the other one begins now. */
    say_sent(&m.w, m.stream);
    const Leasehold__AppendPart *part = expect_part(&m.w, m.stream);
    assert_true(part->lane == m.lane[2] && part->bytes == piece);
    lh_buf_clear(&whole);
    world_deinit(&m.w);
}

/* As many lanes with little as a message has parts, busy all the time. */
static void a_lane_with_much_has_its_turn_beside_any_number_with_little(void **state)
{
    struct many m;
    struct lh_submit_call much, b[5];
    uint64_t expected[] = {2, 2, 2, 2, 2};
    bool went = false;

    (void)state;
    open_lanes_with(&m, 5, (struct lh_client_config){.message_parts = 2});
    for (int i = 1; i < 5; i++)
        give(&m, i, 1, &b[i]);
    give(&m, 0, 2000, &much); /* 28 KB */
    for (int round = 0; round < 10 && !went; round++) {
        const Leasehold__AppendRequest *q = expect_send(&m.w, m.stream);
        uint64_t in[8];
        size_t count = q->n_parts;
        assert_true(count <= 3);
        for (size_t k = 0; k < count; k++)
            in[k] = q->parts[k]->lane;
        for (size_t k = 0; k < count; k++) {
            went = went || in[k] == m.lane[0];
            for (int i = 1; i < 5; i++) {
                if (in[k] != m.lane[i])
                    continue;
                say_batch_stored(&m.w, m.stream, in[k], m.a[i].writer, expected[i]++, 0);
                expect_complete(&m.w, &b[i], LH_OK);
                give(&m, i, 1, &b[i]);
            }
        }
        say_sent(&m.w, m.stream);
    }
    assert_true(went);
    world_deinit(&m.w);
}

/* To the server the batch of that lane is still arriving, and there is room for one. */
static void the_end_of_a_lane_in_the_midst_of_a_batch_goes_before_other_batches(void **state)
{
    struct many m;
    struct lh_submit_call huge, other;
    bool ended = false;

    (void)state;
    open_lanes_with(&m, 3, (struct lh_client_config){.message_parts = 1});
    give(&m, 1, HUGE, &huge);
    assert_int_equal(expect_part(&m.w, m.stream)->lane, m.lane[1]);
    close_one(&m.w, m.a[0]);
    say_refused(&m.w, m.stream, m.lane[1], m.a[1].writer, LH_ERR_NOT_PRIMARY);
    expect_request(&m.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL);
    give(&m, 2, HUGE, &other);
    for (bool went = false; !went;) {
        say_sent(&m.w, m.stream);
        const Leasehold__AppendRequest *q = expect_send(&m.w, m.stream);
        for (size_t i = 0; i < q->n_parts; i++) {
            ended = ended || (q->parts[i]->end && q->parts[i]->lane == m.lane[1]);
            went = went || q->parts[i]->bytes > 0;
        }
        assert_true(ended || !went);
    }
    world_deinit(&m.w);
}

/* A server takes a lane that it does not know, and whose number is no new one, for one that has
 * ended. */
static void lanes_begin_in_the_order_of_their_numbers(void **state)
{
    static const uint64_t chunks[] = {50, 51, 50};
    struct many m;
    struct lh_submit_call b, calls[3];
    struct appender a[3];

    (void)state;
    open_lanes(&m, 2);
    give(&m, 0, 1, &b);
    expect_part(&m.w, m.stream); /* it is being written */
    for (int i = 0; i < 3; i++) {
        a[i] = open_one(&m.w);
        calls[i] = next_batch(&a[i], 1);
        ask(&m.w, &calls[i]);
        say_tail(&m.w, expect_request(&m.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
            open_chunk(chunks[i], 3, 0, 0), 0, NULL);
        expect_quiet(&m.w);
    }
    close_one(&m.w, a[0]); /* the one that began the first of the two new lanes */
    say_sent(&m.w, m.stream);
    const Leasehold__AppendRequest *q = expect_send(&m.w, m.stream);
    assert_int_equal(q->n_parts, 2);
    assert_true(q->parts[0]->lane < q->parts[1]->lane && q->parts[0]->lane > m.lane[1]);
    world_deinit(&m.w);
}

/* ---- One cluster (SES-10). */

/* The message taken last says that it is of that cluster; NULL: it says none. */
static void expect_named(const struct shared *s, const char *cluster)
{
    assert_true(lh_request_cluster(s->w.last.message) == lh_cluster_hash(cluster));
}

static void a_stream_says_its_cluster_once_it_is_known(void **state)
{
    static const char *const masters[] = {"m1:1"};
    struct shared s;
    struct lh_submit_call b;
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;
    struct lh_appender_open_call open = {.call.kind = LH_CALL_APPENDER_OPEN, .path = "/f"};

    (void)state;
    world_init_with(
        &s.w, (struct lh_client_config){.masters = masters, .master_count = 1, .cluster = ""});
    open.deadline = in_ms(&s.w, 1000);
    open.give_up = lh_seconds(300);
    ask(&s.w, &open);
    say_stat(&s.w, expect_request(&s.w, LH_METHOD_STAT, "m1:1", NULL));
    uint64_t round = expect_request(&s.w, LH_METHOD_MASTERS, "m1:1", NULL);
    expect_complete(&s.w, &open, LH_OK);
    s.a[0] = (struct appender){.core = open.appender, .writer = open.writer, .sequence = 1};
    submit(&s, 0, 1, &b);
    find_tail(&s);
    s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
    expect_opening(&s, 0, 1);
    expect_named(&s, NULL);

    m.cluster_id = "one";
    m.reign = 1;
    m.acting = true;
    say(&s.w, round, &m);
    say_opened(&s, 0);
    expect_alone(&s, 0, 1, 1);
    expect_named(&s, "one");
    say_stored(&s, s.lane, 0, 1);
    expect_complete(&s.w, &b, LH_OK);
    submit(&s, 0, 1, &b);
    expect_alone(&s, 0, 2, 1);
    expect_named(&s, NULL);
    world_deinit(&s.w);
}

/* Its address is another cluster's by now. That is no verdict on what is appended: the master is
 * asked who the primary is. */
static void who_is_refused_as_of_another_cluster_asks_the_master(void **state)
{
    struct shared s;
    struct lh_submit_call b;
    const Leasehold__OpenTailRequest *q;

    (void)state;
    share_stream(&s);
    break_link(&s.w, s.stream); /* while nothing was sent */
    submit(&s, 0, 1, &b);
    find_tail(&s);
    s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s1:1");
    expect_opening(&s, 0, 2);
    expect_named(&s, "cluster");
    end_link(&s.w, s.stream, LH_ERR_UNAVAILABLE,
        "the chunkserver at this address is of cluster two, and not of the caller's");
    uint64_t link = expect_request(&s.w, LH_METHOD_OPEN_TAIL, "m1:1", &q);
    assert_true(q->failed_chunk == 5 && q->failed_version == 3);
    say_tail(&s.w, link, open_chunk(5, 4, 1000, 1), 1, NULL);
    s.stream = expect_open(&s.w, LH_METHOD_APPEND, "s2:1");
    s.lane = expect_part(&s.w, s.stream)->lane;
    expect_named(&s, "cluster");
    say_opened(&s, 0);
    expect_alone(&s, 0, 2, 1);
    say_stored(&s, s.lane, 0, 2);
    expect_complete(&s.w, &b, LH_OK);
    world_deinit(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_share_a_stream_and_its_messages),
        cmocka_unit_test(a_huge_batch_goes_in_parts_beside_small_ones),
        cmocka_unit_test(a_writer_does_not_come_back_to_an_older_stream),
        cmocka_unit_test(a_lane_with_much_has_its_turn_beside_any_number_with_little),
        cmocka_unit_test(the_end_of_a_lane_in_the_midst_of_a_batch_goes_before_other_batches),
        cmocka_unit_test(lanes_begin_in_the_order_of_their_numbers),
        cmocka_unit_test(what_gathers_while_messages_are_unanswered_goes_together),
        cmocka_unit_test(large_batches_do_not_wait_for_answers),
        cmocka_unit_test(a_refused_writer_goes_its_own_way),
        cmocka_unit_test(the_end_of_a_stream_is_everybodys),
        cmocka_unit_test(another_version_is_another_lane),
        cmocka_unit_test(a_stream_without_progress_is_given_up_by_all),
        cmocka_unit_test(what_arrives_is_no_stall),
        cmocka_unit_test(a_stream_that_hangs_is_given_up_by_all),
        cmocka_unit_test(a_server_may_set_a_slower_pace),
        cmocka_unit_test(an_opening_that_hangs_is_given_up),
        cmocka_unit_test(an_unanswered_opening_disturbs_nobody),
        cmocka_unit_test(the_last_to_leave_closes_the_stream),
        cmocka_unit_test(a_stream_is_kept_for_the_next_lane),
        cmocka_unit_test(a_kept_stream_that_is_heard_at_its_end_is_closed_once),
        cmocka_unit_test(a_kept_stream_that_breaks_is_forgotten),
        cmocka_unit_test(the_smallest_bounds_are_only_slow),
        cmocka_unit_test(a_stream_says_its_cluster_once_it_is_known),
        cmocka_unit_test(who_is_refused_as_of_another_cluster_asks_the_master),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
