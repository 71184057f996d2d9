/* The client core's exclusive appenders (TOK-2): what they say of their token, and when they count
 * as opened. */
#include "tests/core/client/client_world.h"

#define LOCK "/locks/log"

struct owner {
    struct lh_appender_open_call open;
    struct lh_client_appender *core;
    uint64_t writer, sequence;
    uint64_t stream, lane;
};

/* Asks for an appender of /f with that token; the answer is not there yet. */
static void begin_opening(struct world *w, struct owner *o, uint64_t token, uint64_t patience_ms)
{
    *o = (struct owner){
        .open =
            {
                .call.kind = LH_CALL_APPENDER_OPEN,
                .path = "/f",
                .lock_name = token == 0 ? NULL : LOCK,
                .token = token,
                .deadline = in_ms(w, patience_ms),
                .give_up = lh_seconds(300),
            },
        .sequence = 1,
    };
    ask(w, &o->open);
}

/* It asks for the tail at once, and says whose appender it is. */
static uint64_t expect_asking(struct world *w, uint64_t token)
{
    const Leasehold__OpenTailRequest *m = NULL;
    uint64_t link = expect_request(w, LH_METHOD_OPEN_TAIL, "m1:1", &m);

    assert_int_equal(m->token, token);
    assert_string_equal(m->lock_name, token == 0 ? "" : LOCK);
    return link;
}

/* Chunk 5 at that version, with its primary on s1; the file's fence. */
static void say_tail_under(struct world *w, uint64_t link, uint64_t version, uint64_t fence)
{
    Leasehold__FileInfo info = file_info();
    Leasehold__ChunkInfo chunk = open_chunk(5, version, 1000, 0);
    Leasehold__OpenTailReply m = LEASEHOLD__OPEN_TAIL_REPLY__INIT;

    info.fence = fence;
    info.lock_name = (char *)(uintptr_t)(fence == 0 ? "" : LOCK);
    m.info = &info;
    m.chunk = &chunk;
    m.primary = &members[0];
    say(w, link, &m);
}

static void say_no_tail(struct world *w, uint64_t link, int error, const char *text)
{
    Leasehold__OpenTailReply m = LEASEHOLD__OPEN_TAIL_REPLY__INIT;

    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)text;
    m.retry_after_ms = 10;
    say(w, link, &m);
}

/* It opens a lane with its token, on a new stream or on the one that there is. */
static void expect_lane(struct world *w, struct owner *o, uint64_t version, uint64_t stream)
{
    o->stream = stream == 0 ? expect_open(w, LH_METHOD_APPEND, "s1:1") : stream;
    const Leasehold__AppendPart *m = expect_part(w, o->stream);
    assert_int_equal(m->chunk, 5);
    assert_int_equal(m->version, version);
    assert_int_equal(m->token, o->open.token);
    o->lane = m->lane;
    o->writer = m->writer;
}

static void admitted(struct world *w, struct owner *o)
{
    say_writer_opened(w, o->stream, o->lane, o->writer);
    expect_complete(w, &o->open, LH_OK);
    assert_int_equal(o->open.writer, o->writer);
    assert_int_equal(o->open.chunk_size, CHUNK_SIZE);
    o->core = o->open.appender;
}

static void open_owner(struct world *w, struct owner *o, uint64_t token, uint64_t stream)
{
    begin_opening(w, o, token, 1000);
    say_tail_under(w, expect_asking(w, token), 3, token);
    expect_lane(w, o, 3, stream);
    admitted(w, o);
}

static void submit(struct world *w, struct owner *o, struct lh_submit_call *b)
{
    *b = (struct lh_submit_call){
        .call.kind = LH_CALL_SUBMIT,
        .appender = o->core,
        .batch = make_batch(o->writer, o->sequence, 1),
        .sequence = o->sequence++,
        .count = 1,
    };
    ask(w, b);
}

static void it_is_open_once_its_lane_is(void **state)
{
    struct world w;
    struct owner o;
    struct lh_submit_call b;

    (void)state;
    world_init(&w);
    begin_opening(&w, &o, 7, 1000);
    say_tail_under(&w, expect_asking(&w, 7), 3, 7);
    expect_lane(&w, &o, 3, 0);
    expect_quiet(&w); /* the primary recovers */
    admitted(&w, &o);

    submit(&w, &o, &b);
    assert_int_equal(expect_part(&w, o.stream)->lane, o.lane);
    say_batch_stored(&w, o.stream, o.lane, o.writer, 1, 46);
    expect_complete(&w, &b, LH_OK);
    assert_int_equal(b.offset, 1046);
    world_deinit(&w);
}

static void a_new_version_on_the_way_is_followed(void **state)
{
    struct world w;
    struct owner o;

    (void)state;
    world_init(&w);
    begin_opening(&w, &o, 7, 1000);
    say_no_tail(&w, expect_asking(&w, 7), LH_ERR_LEASE_HELD, "s2 holds the lease");
    pass(&w);
    say_tail_under(&w, expect_asking(&w, 7), 3, 7);
    expect_lane(&w, &o, 3, 0);
    say_refused(&w, o.stream, o.lane, 0, LH_ERR_STALE_VERSION);
    expect_close(&w, o.stream);
    pass(&w);
    say_tail_under(&w, expect_asking(&w, 7), 4, 7);
    expect_lane(&w, &o, 4, 0);
    admitted(&w, &o);
    world_deinit(&w);
}

static void an_opening_ends_with_what_the_master_refuses(void **state)
{
    struct world w;
    struct owner o;

    (void)state;
    world_init(&w);
    begin_opening(&w, &o, 7, 1000);
    say_no_tail(&w, expect_asking(&w, 7), LH_ERR_STALE_TOKEN, "8 was admitted since");
    expect_complete(&w, &o.open, LH_ERR_STALE_TOKEN);
    assert_non_null(strstr(o.open.call.text, "8 was admitted since"));
    expect_quiet(&w);
    world_deinit(&w);
}

static void an_opening_ends_with_what_the_primary_refuses(void **state)
{
    struct world w;
    struct owner o;

    (void)state;
    world_init(&w);
    begin_opening(&w, &o, 7, 1000);
    say_tail_under(&w, expect_asking(&w, 7), 3, 7);
    expect_lane(&w, &o, 3, 0);
    say_refused(&w, o.stream, o.lane, 0, LH_ERR_STALE_TOKEN);
    expect_complete(&w, &o.open, LH_ERR_STALE_TOKEN);
    expect_close(&w, o.stream);
    expect_quiet(&w);
    world_deinit(&w);
}

static void a_master_that_knows_no_tokens_is_not_believed(void **state)
{
    struct world w;
    struct owner o;

    (void)state;
    world_init(&w);
    begin_opening(&w, &o, 7, 1000);
    say_tail_under(&w, expect_asking(&w, 7), 3, 0);
    expect_complete(&w, &o.open, LH_ERR_UNIMPLEMENTED);
    expect_quiet(&w);
    world_deinit(&w);
}

static void an_opening_ends_at_its_deadline_with_the_last_reason(void **state)
{
    struct world w;
    struct owner o, other;

    (void)state;
    world_init(&w);
    begin_opening(&w, &o, 7, 100);
    uint64_t link = expect_asking(&w, 7);
    pass_ms(&w, 100);
    expect_close(&w, link);
    take(&w, LH_FX_COMPLETE);
    assert_ptr_equal(w.last.call, &o.open);
    assert_int_equal(w.last.error, LH_ERR_DEADLINE_EXCEEDED);
    expect_quiet(&w);

    begin_opening(&w, &other, 8, 100);
    say_no_tail(&w, expect_asking(&w, 8), LH_ERR_LEASE_HELD, "s2 holds the lease");
    pass(&w);
    expect_asking(&w, 8);
    pass_ms(&w, 100);
    while (w.count > w.taken && w.events[w.taken].kind == LH_FX_CLOSE)
        take(&w, LH_FX_CLOSE);
    expect_complete(&w, &other.open, LH_ERR_LEASE_HELD);
    assert_non_null(strstr(other.open.call.text, "s2 holds the lease"));
    expect_quiet(&w);
    world_deinit(&w);
}

static void a_higher_token_ends_it_for_good(void **state)
{
    struct world w;
    struct owner o;
    struct lh_submit_call b1, b2;

    (void)state;
    world_init(&w);
    open_owner(&w, &o, 7, 0);
    submit(&w, &o, &b1);
    expect_part(&w, o.stream);
    say_refused(&w, o.stream, o.lane, 0, LH_ERR_STALE_VERSION);
    uint64_t link = expect_asking(&w, 7);
    expect_close(&w, o.stream);
    say_no_tail(&w, link, LH_ERR_STALE_TOKEN, "8 was admitted since");
    expect_complete(&w, &b1, LH_ERR_STALE_TOKEN);
    submit(&w, &o, &b2);
    expect_complete(&w, &b2, LH_ERR_STALE_TOKEN);
    expect_quiet(&w);
    world_deinit(&w);
}

static void an_idle_one_hears_of_it_with_its_next_batch(void **state)
{
    struct world w;
    struct owner o;
    struct lh_submit_call b;

    (void)state;
    world_init(&w);
    open_owner(&w, &o, 7, 0);
    say_refused(&w, o.stream, o.lane, 0, LH_ERR_STALE_VERSION);
    expect_close(&w, o.stream);
    expect_quiet(&w);
    submit(&w, &o, &b);
    say_no_tail(&w, expect_asking(&w, 7), LH_ERR_STALE_TOKEN, "8 was admitted since");
    expect_complete(&w, &b, LH_ERR_STALE_TOKEN);
    expect_quiet(&w);
    world_deinit(&w);
}

static void tokens_share_a_stream_and_no_lane(void **state)
{
    struct world w;
    struct owner o, same, other;

    (void)state;
    world_init(&w);
    open_owner(&w, &o, 7, 0);
    open_owner(&w, &same, 7, o.stream);
    assert_int_equal(same.lane, o.lane);
    open_owner(&w, &other, 8, o.stream);
    assert_int_not_equal(other.lane, o.lane);

    /* The primary ends one of them; the other one's goes on. */
    say_refused(&w, o.stream, o.lane, 0, LH_ERR_STALE_TOKEN);
    struct lh_submit_call b1, b2, b3;
    submit(&w, &o, &b1);
    expect_complete(&w, &b1, LH_ERR_STALE_TOKEN);
    submit(&w, &same, &b2);
    expect_complete(&w, &b2, LH_ERR_STALE_TOKEN);
    submit(&w, &other, &b3);
    assert_int_equal(expect_part(&w, o.stream)->lane, other.lane);
    say_batch_stored(&w, o.stream, other.lane, other.writer, 1, 0);
    expect_complete(&w, &b3, LH_OK);
    world_deinit(&w);
}

static void the_end_of_the_client_ends_an_opening(void **state)
{
    struct world w;
    struct owner o;

    (void)state;
    world_init(&w);
    begin_opening(&w, &o, 7, 1000);
    uint64_t link = expect_asking(&w, 7);
    step(&w, (struct lh_input){.kind = LH_IN_STOP});
    bool completed = false;
    while (w.taken < w.count) {
        completed = completed || w.events[w.taken].call == &o.open;
        take(&w, w.events[w.taken].kind);
    }
    assert_true(completed && link != 0);
    world_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_open_once_its_lane_is),
        cmocka_unit_test(a_new_version_on_the_way_is_followed),
        cmocka_unit_test(an_opening_ends_with_what_the_master_refuses),
        cmocka_unit_test(an_opening_ends_with_what_the_primary_refuses),
        cmocka_unit_test(a_master_that_knows_no_tokens_is_not_believed),
        cmocka_unit_test(an_opening_ends_at_its_deadline_with_the_last_reason),
        cmocka_unit_test(a_higher_token_ends_it_for_good),
        cmocka_unit_test(an_idle_one_hears_of_it_with_its_next_batch),
        cmocka_unit_test(tokens_share_a_stream_and_no_lane),
        cmocka_unit_test(the_end_of_the_client_ends_an_opening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
