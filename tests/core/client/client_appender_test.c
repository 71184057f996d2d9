/* The client core's appender. */
#include "tests/core/client/client_world.h"

struct appender {
    struct world w;
    struct lh_client_appender *core;
    uint64_t writer, sequence;
    uint64_t stream, lane;
};

static void open_appender(struct appender *a)
{
    struct lh_appender_open_call open = {
        .call.kind = LH_CALL_APPENDER_OPEN,
        .path = "/f",
        .give_up = lh_seconds(300),
    };

    world_init(&a->w);
    open.deadline = in_ms(&a->w, 1000);
    a->sequence = 1;
    ask(&a->w, &open);
    say_stat(&a->w, expect_request(&a->w, LH_METHOD_STAT, "m1:1", NULL));
    expect_complete(&a->w, &open, LH_OK);
    assert_int_equal(open.chunk_size, CHUNK_SIZE);
    assert_int_not_equal(open.writer, 0);
    a->core = open.appender;
    a->writer = open.writer;
}

/* The next batch of one record, not fed yet. */
static struct lh_submit_call next_batch(struct appender *a)
{
    return (struct lh_submit_call){
        .call.kind = LH_CALL_SUBMIT,
        .appender = a->core,
        .batch = make_batch(a->writer, a->sequence, 1),
        .sequence = a->sequence++,
        .count = 1,
    };
}

/* The core opens a stream to `address` that begins with `first`; the server accepts it. */
static void accept_stream(struct appender *a, const char *address, uint64_t chunk, uint64_t first)
{
    a->stream = expect_open(&a->w, LH_METHOD_APPEND, address);
    const Leasehold__AppendPart *m = expect_part(&a->w, a->stream);
    assert_int_equal(m->chunk, chunk);
    assert_int_equal(m->writer, a->writer);
    assert_int_equal(m->first_sequence, first);
    a->lane = m->lane;
    say_writer_opened(&a->w, a->stream, a->lane, a->writer);
}

/* One message goes out with those batches, byte for byte as they were first packed. */
static void expect_batches(struct appender *a, uint64_t first, uint64_t last)
{
    assert_int_equal(expect_part(&a->w, a->stream)->lane, a->lane);
    for (uint64_t sequence = first; sequence <= last; sequence++)
        expect_packed(&a->w, (sequence - first) * BATCH_BYTES(1), a->writer, sequence, 1);
    assert_int_equal(a->w.last.payload.size, (last - first + 1) * BATCH_BYTES(1));
}

static void expect_batch(struct appender *a, uint64_t sequence)
{
    expect_batches(a, sequence, sequence);
}

static void say_stored(struct appender *a, uint64_t sequence, uint64_t offset)
{
    say_batch_stored(&a->w, a->stream, a->lane, a->writer, sequence, offset);
}

/* The lane ends, and last of all the stream, of which it was the only one. */
static void refuse(struct appender *a, int error)
{
    say_refused(&a->w, a->stream, a->lane, 0, error);
    struct event *last = &a->w.events[--a->w.count];
    assert_true(last->kind == LH_FX_CLOSE && last->link == a->stream);
    event_deinit(last);
}

/* Opened, with a stream to s1 in chunk 5, which begins at byte 1000 of the file. */
static void open_stream(struct appender *a, struct lh_submit_call *first)
{
    open_appender(a);
    *first = next_batch(a);
    ask(&a->w, first);
    say_tail(&a->w, expect_request(&a->w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
        open_chunk(5, 3, 1000, 0), 0, NULL);
    accept_stream(a, "s1:1", 5, 1);
    expect_batch(a, 1);
}

/* It has just created its file. */
static struct lh_appender_open_call open_new(struct appender *a)
{
    Leasehold__CreateRequest request = LEASEHOLD__CREATE_REQUEST__INIT;
    Leasehold__CreateReply reply = LEASEHOLD__CREATE_REPLY__INIT;

    world_init(&a->w);
    request.path = (char *)(uintptr_t) "/f";
    struct lh_master_call create = {.call.kind = LH_CALL_MASTER,
        .method = LH_METHOD_CREATE,
        .request = &request.base,
        .deadline = in_ms(&a->w, 1000)};
    ask(&a->w, &create);
    say(&a->w, expect_request(&a->w, LH_METHOD_CREATE, "m1:1", NULL), &reply);
    expect_complete(&a->w, &create, LH_OK);
    lh_wire_free(create.reply);
    a->sequence = 1;
    return (struct lh_appender_open_call){
        .call.kind = LH_CALL_APPENDER_OPEN,
        .path = "/f",
        .give_up = lh_seconds(300),
        .deadline = in_ms(&a->w, 2000),
    };
}

static void a_new_file_is_opened_together_with_its_primary(void **state)
{
    const Leasehold__OpenTailRequest *asked;
    struct lh_appender_open_call open;
    struct appender a;

    (void)state;
    open = open_new(&a);
    ask(&a.w, &open);
    uint64_t link = expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", &asked);
    assert_string_equal(asked->path, "/f");
    assert_true(asked->file == 0 && asked->wait_ms == 500);
    say_tail(&a.w, link, open_chunk(5, 3, 1000, 0), 0, NULL);
    expect_complete(&a.w, &open, LH_OK);
    assert_int_equal(open.chunk_size, CHUNK_SIZE);
    a.core = open.appender;
    a.writer = open.writer;
    accept_stream(&a, "s1:1", 5, 1);
    struct lh_submit_call b = next_batch(&a);
    ask(&a.w, &b);
    expect_batch(&a, 1);
    say_stored(&a, 1, 0);
    expect_complete(&a.w, &b, LH_OK);

    /* Whoever opens it again may have nothing to append. */
    ask(&a.w, &open);
    say_stat(&a.w, expect_request(&a.w, LH_METHOD_STAT, "m1:1", NULL));
    expect_complete(&a.w, &open, LH_OK);
    world_deinit(&a.w);
}

static void a_new_file_without_a_primary_is_opened_all_the_same(void **state)
{
    Leasehold__OpenTailReply none = LEASEHOLD__OPEN_TAIL_REPLY__INIT;
    struct lh_appender_open_call open;
    struct appender a;

    (void)state;
    open = open_new(&a);
    ask(&a.w, &open);
    none.error = LEASEHOLD__ERROR_CODE__NOT_ENOUGH_SERVERS;
    say(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), &none);
    say_stat(&a.w, expect_request(&a.w, LH_METHOD_STAT, "m1:1", NULL));
    expect_complete(&a.w, &open, LH_OK);
    a.core = open.appender;
    a.writer = open.writer;
    struct lh_submit_call b = next_batch(&a);
    ask(&a.w, &b);
    say_tail(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
        open_chunk(5, 3, 1000, 0), 0, NULL);
    accept_stream(&a, "s1:1", 5, 1);
    expect_batch(&a, 1);
    world_deinit(&a.w);
}

static void batches_go_out_in_sequence(void **state)
{
    struct appender a;
    struct lh_submit_call b1, b2, b3;

    (void)state;
    open_stream(&a, &b1);
    b2 = next_batch(&a);
    b3 = next_batch(&a);

    /* Given threads that submit in the wrong order: the third waits for the second. */
    ask(&a.w, &b3);
    expect_quiet(&a.w);
    ask(&a.w, &b2);
    expect_batches(&a, 2, 3);

    say_stored(&a, 1, 0);
    expect_complete(&a.w, &b1, LH_OK);
    assert_int_equal(b1.offset, 1000);
    say_stored(&a, 2, 46);
    expect_complete(&a.w, &b2, LH_OK);
    assert_int_equal(b2.offset, 1046);
    say_stored(&a, 3, 92);
    expect_complete(&a.w, &b3, LH_OK);
    expect_quiet(&a.w);
    world_deinit(&a.w);
}

static void no_more_than_a_window_is_unanswered(void **state)
{
    struct appender a;
    struct lh_submit_call b[20];

    (void)state;
    open_stream(&a, &b[0]);
    for (int i = 1; i < 20; i++) {
        b[i] = next_batch(&a);
        ask(&a.w, &b[i]);
    }
    expect_batch(&a, 2);
    expect_quiet(&a.w);
    say_stored(&a, 1, 0);
    expect_complete(&a.w, &b[0], LH_OK);
    expect_batches(&a, 3, 17);
    expect_quiet(&a.w);
    world_deinit(&a.w);
}

static void a_broken_stream_is_redone_from_the_first_unacknowledged_batch(void **state)
{
    struct appender a;
    struct lh_submit_call b1, b2, b3;
    const Leasehold__OpenTailRequest *m;

    (void)state;
    open_stream(&a, &b1);
    b2 = next_batch(&a);
    b3 = next_batch(&a);
    ask(&a.w, &b2);
    ask(&a.w, &b3);
    expect_batch(&a, 2);
    say_stored(&a, 1, 0);
    expect_complete(&a.w, &b1, LH_OK);
    expect_batch(&a, 3);

    /* When the primary's connection breaks, the master is told which version was tried ... */
    break_link(&a.w, a.stream);
    uint64_t link = expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", &m);
    assert_int_equal(m->failed_version, 3);
    assert_true(m->failed_chunk == m->unsettled_chunk && m->failed_chunk != 0);
    assert_int_equal(m->full_chunk, 0);

    /* ... and with another primary of the same chunk the same bytes go again (APP-5). */
    say_tail(&a.w, link, open_chunk(5, 4, 1000, 1), 1, NULL);
    accept_stream(&a, "s2:1", 5, 2);
    expect_batches(&a, 2, 3);
    say_stored(&a, 2, 46);
    expect_complete(&a.w, &b2, LH_OK);
    say_stored(&a, 3, 92);
    expect_complete(&a.w, &b3, LH_OK);
    world_deinit(&a.w);
}

static void say_settled(
    struct appender *a, uint64_t link, bool known, uint64_t last, uint64_t offset)
{
    Leasehold__Stored stored = LEASEHOLD__STORED__INIT;
    Leasehold__Stored *list[] = {&stored};
    Leasehold__SettleReply m = LEASEHOLD__SETTLE_REPLY__INIT;

    m.known = known;
    if (known) {
        m.first_sequence = 1;
        m.last_sequence = last;
        stored.sequence = last;
        stored.count = 1;
        stored.offset = offset;
        m.last = list;
        m.n_last = 1;
    }
    say(&a->w, link, &m);
}

static void with_capability(Leasehold__ChunkInfo *chunk, const char *bytes)
{
    chunk->capability = (ProtobufCBinaryData){strlen(bytes), (uint8_t *)(uintptr_t)bytes};
}

static bool is_capability(const ProtobufCBinaryData *shown, const char *bytes)
{
    return shown->len == strlen(bytes) && memcmp(shown->data, bytes, shown->len) == 0;
}

static void a_stale_capability_is_replaced_by_the_master_and_blames_nobody(void **state)
{
    struct appender a;
    struct lh_submit_call b1;
    const Leasehold__OpenTailRequest *open;
    const Leasehold__SettleRequest *settle;
    Leasehold__ChunkInfo chunk = open_chunk(5, 3, 1000, 0), old = sealed_chunk(5, 3, 1000, 500);

    (void)state;
    open_appender(&a);
    b1 = next_batch(&a);
    ask(&a.w, &b1);
    with_capability(&chunk, "first");
    say_tail(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), chunk, 0, NULL);
    a.stream = expect_open(&a.w, LH_METHOD_APPEND, "s1:1");
    const Leasehold__AppendPart *m = expect_part(&a.w, a.stream);
    assert_true(is_capability(&m->capability, "first"));
    a.lane = m->lane;
    say_writer_opened(&a.w, a.stream, a.lane, a.writer);
    expect_batch(&a, 1);

    /* When it has run out, the master hears nothing of a failed primary; the batch comes again. */
    refuse(&a, LH_ERR_STALE_CAPABILITY);
    uint64_t link = expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", &open);
    assert_true(open->failed_version == 0 && open->failed_chunk == 0 && open->full_chunk == 0);
    with_capability(&chunk, "second");
    say_tail(&a.w, link, chunk, 0, NULL);
    a.stream = expect_open(&a.w, LH_METHOD_APPEND, "s1:1");
    m = expect_part(&a.w, a.stream);
    assert_true(is_capability(&m->capability, "second"));
    a.lane = m->lane;
    say_writer_opened(&a.w, a.stream, a.lane, a.writer);
    expect_batch(&a, 1);

    /* And a settling shows what came with the sealed chunk. */
    refuse(&a, LH_ERR_CHUNK_FULL);
    pass(&a.w);
    with_capability(&old, "third");
    say_tail(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
        open_chunk(6, 1, 1500, 2), 2, &old);
    link = expect_request(&a.w, LH_METHOD_SETTLE, "s1:1", &settle);
    assert_true(is_capability(&settle->capability, "third"));
    say_settled(&a, link, true, 1, 454);
    expect_complete(&a.w, &b1, LH_OK);
    world_deinit(&a.w);
}

static void a_full_chunk_is_settled_before_anything_goes_to_the_next(void **state)
{
    struct appender a;
    struct lh_submit_call b1, b2;
    Leasehold__ChunkInfo old = sealed_chunk(5, 3, 1000, 500);
    const Leasehold__OpenTailRequest *open;
    const Leasehold__SettleRequest *settle;

    (void)state;
    open_stream(&a, &b1);
    b2 = next_batch(&a);
    ask(&a.w, &b2);
    expect_batch(&a, 2);

    refuse(&a, LH_ERR_CHUNK_FULL);
    uint64_t link = expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", &open);
    assert_int_equal(open->full_chunk, 5);

    /* CHUNK_FULL is no verdict (APP-5a): the first batch had been stored all the same. */
    say_tail(&a.w, link, open_chunk(6, 1, 1500, 2), 2, &old);
    link = expect_request(&a.w, LH_METHOD_SETTLE, "s1:1", &settle);
    assert_int_equal(settle->chunk, 5);
    assert_int_equal(settle->version, 3);
    assert_int_equal(settle->writer, a.writer);
    say_settled(&a, link, true, 1, 454);
    expect_complete(&a.w, &b1, LH_OK);
    assert_int_equal(b1.offset, 1454);

    /* Only the other one goes to the next chunk. */
    accept_stream(&a, "s3:1", 6, 2);
    expect_batch(&a, 2);
    say_stored(&a, 2, 0);
    expect_complete(&a.w, &b2, LH_OK);
    assert_int_equal(b2.offset, 1500);
    world_deinit(&a.w);
}

static void a_retry_that_lands_on_a_later_chunk_asks_every_member_for_the_seal(void **state)
{
    struct appender a;
    struct lh_submit_call b1;
    Leasehold__ChunkInfo old = sealed_chunk(5, 4, 1000, 0);
    Leasehold__SettleReply stale = LEASEHOLD__SETTLE_REPLY__INIT;
    const Leasehold__LocateRequest *locate;

    (void)state;
    open_stream(&a, &b1);

    /* The connection breaks, and meanwhile others have filled the chunk: the master does not say
     * how to settle, so it is asked. */
    break_link(&a.w, a.stream);
    say_tail(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
        open_chunk(9, 1, 1700, 0), 0, NULL);
    uint64_t link = expect_request(&a.w, LH_METHOD_LOCATE, "m1:1", &locate);
    assert_int_equal(locate->file, FILE_ID);
    assert_int_equal(locate->offset, 1000);
    old.length = 700;
    say_chunks(&a.w, link, &old, 1);

    /* One member has not recorded the seal yet, the next is down: only the third may answer. It is
     * the one whose connection broke. */
    link = expect_request(&a.w, LH_METHOD_SETTLE, "s2:1", NULL);
    stale.error = LEASEHOLD__ERROR_CODE__STALE_VERSION;
    say(&a.w, link, &stale);
    link = expect_request(&a.w, LH_METHOD_SETTLE, "s3:1", NULL);
    break_link(&a.w, link);
    link = expect_request(&a.w, LH_METHOD_SETTLE, "s1:1", NULL);
    say_settled(&a, link, false, 0, 0);

    accept_stream(&a, "s1:1", 9, 1);
    expect_batch(&a, 1);
    say_stored(&a, 1, 100);
    expect_complete(&a.w, &b1, LH_OK);
    assert_int_equal(b1.offset, 1800);
    world_deinit(&a.w);
}

static void nothing_is_sent_while_a_seal_cannot_be_asked(void **state)
{
    struct appender a;
    struct lh_submit_call b1;
    Leasehold__ChunkInfo old = sealed_chunk(5, 3, 1000, 500);

    (void)state;
    open_stream(&a, &b1);
    refuse(&a, LH_ERR_CHUNK_FULL);
    uint64_t link = expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL);
    say_tail(&a.w, link, open_chunk(6, 1, 1500, 2), 2, &old);
    for (int i = 0; i < 3; i++) {
        static const char *const address[] = {"s1:1", "s2:1", "s3:1"};
        break_link(&a.w, expect_request(&a.w, LH_METHOD_SETTLE, address[i], NULL));
    }
    expect_quiet(&a.w);

    /* After a pause the master is asked again, and the chunk is still unsettled. */
    pass(&a.w);
    link = expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL);
    say_tail(&a.w, link, open_chunk(6, 1, 1500, 2), 2, NULL);
    say_chunks(&a.w, expect_request(&a.w, LH_METHOD_LOCATE, "m1:1", NULL), &old, 1);
    link = expect_request(&a.w, LH_METHOD_SETTLE, "s1:1", NULL);
    say_settled(&a, link, true, 1, 0);
    expect_complete(&a.w, &b1, LH_OK);
    expect_quiet(&a.w);
    world_deinit(&a.w);
}

static void a_primary_that_says_nothing_is_given_up(void **state)
{
    struct appender a;
    struct lh_submit_call b1;

    (void)state;
    open_stream(&a, &b1);
    pass_ms(&a.w, 699);
    expect_quiet(&a.w);
    pass_ms(&a.w, 1);
    expect_close(&a.w, a.stream);
    const Leasehold__OpenTailRequest *m;
    uint64_t link = expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", &m);
    assert_int_equal(m->failed_version, 3);

    /* The file has been rolled over (FAIL-2a): whoever hangs is asked last how to settle ... */
    Leasehold__ChunkInfo old = sealed_chunk(5, 4, 1000, 500);
    say_tail(&a.w, link, open_chunk(6, 1, 1500, 1), 1, &old);
    link = expect_request(&a.w, LH_METHOD_SETTLE, "s2:1", NULL);

    /* ... and one more that hangs costs little. */
    pass_ms(&a.w, 299);
    expect_quiet(&a.w);
    pass_ms(&a.w, 1);
    expect_close(&a.w, link);
    say_settled(&a, expect_request(&a.w, LH_METHOD_SETTLE, "s3:1", NULL), false, 0, 0);
    accept_stream(&a, "s2:1", 6, 1);
    expect_batch(&a, 1);
    world_deinit(&a.w);
}

/* Takes and gives what one round of settling that fails consists of; each server has `ms`. */
static void settle_in_vain(struct appender *a, Leasehold__ChunkInfo *old, uint64_t ms)
{
    static const char *const address[] = {"s1:1", "s2:1", "s3:1"};
    const Leasehold__OpenTailRequest *m = NULL;
    uint64_t link = expect_request(&a->w, LH_METHOD_OPEN_TAIL, "m1:1", &m);

    /* Nothing is wrong with the new tail: its version is not accused. */
    assert_int_equal(m->failed_version, 0);
    say_tail(&a->w, link, open_chunk(6, 3, 1500, 2), 2, old);
    for (int i = 0; i < 3; i++) {
        link = expect_request(&a->w, LH_METHOD_SETTLE, address[i], NULL);
        pass_ms(&a->w, ms - 1);
        expect_quiet(&a->w);
        pass_ms(&a->w, 1);
        expect_close(&a->w, link);
    }
    expect_quiet(&a->w);
    pass(&a->w); /* the pause */
}

static void a_slow_settler_is_given_more_time_each_round(void **state)
{
    struct appender a;
    struct lh_submit_call b1;
    Leasehold__ChunkInfo old = sealed_chunk(5, 3, 1000, 500);

    (void)state;
    open_stream(&a, &b1);
    refuse(&a, LH_ERR_CHUNK_FULL);
    settle_in_vain(&a, &old, 300);
    settle_in_vain(&a, &old, 600);
    settle_in_vain(&a, &old, 1200);
    settle_in_vain(&a, &old, 2400);
    settle_in_vain(&a, &old, 4800);
    settle_in_vain(&a, &old, 5000);
    settle_in_vain(&a, &old, 5000);
    world_deinit(&a.w);
}

static void a_failure_is_told_once(void **state)
{
    struct appender a;
    struct lh_submit_call b1;
    const Leasehold__OpenTailRequest *m;

    (void)state;
    open_stream(&a, &b1);
    break_link(&a.w, a.stream);
    uint64_t link = expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", &m);
    assert_int_equal(m->failed_version, 3);

    /* The master knows the primary to live, and it does: what comes later is another matter. */
    say_tail(&a.w, link, open_chunk(5, 3, 1000, 0), 0, NULL);
    uint64_t stream = expect_open(&a.w, LH_METHOD_APPEND, "s1:1");
    expect_send(&a.w, stream);
    break_link(&a.w, stream);
    pass(&a.w);
    expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", &m);
    assert_int_equal(m->failed_version, 3);
    world_deinit(&a.w);
}

static void a_held_lease_is_waited_out(void **state)
{
    struct appender a;
    struct lh_submit_call b1;
    Leasehold__OpenTailReply held = LEASEHOLD__OPEN_TAIL_REPLY__INIT;

    (void)state;
    open_stream(&a, &b1);
    break_link(&a.w, a.stream);
    held.error = LEASEHOLD__ERROR_CODE__LEASE_HELD;
    held.lease_left_ms = 700;
    held.retry_after_ms = 700;
    say(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), &held);
    pass_ms(&a.w, 699);
    expect_quiet(&a.w);
    pass_ms(&a.w, 1);
    say_tail(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
        open_chunk(5, 4, 1000, 1), 1, NULL);
    accept_stream(&a, "s2:1", 5, 1);
    expect_batch(&a, 1);
    world_deinit(&a.w);
}

/* No chunk has the number 0; a fuzzer's master said so. */
static void a_tail_that_is_no_chunk_is_asked_for_again(void **state)
{
    struct appender a;
    struct lh_submit_call b1;

    (void)state;
    open_appender(&a);
    b1 = next_batch(&a);
    ask(&a.w, &b1);
    say_tail(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
        open_chunk(0, 3, 1000, 0), 0, NULL);
    pass(&a.w);
    say_tail(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
        open_chunk(5, 3, 1000, 0), 0, NULL);
    accept_stream(&a, "s1:1", 5, 1);
    expect_batch(&a, 1);
    world_deinit(&a.w);
}

static void an_idle_appender_does_not_chase_its_stream(void **state)
{
    struct appender a;
    struct lh_submit_call b1, b2;

    (void)state;
    open_stream(&a, &b1);
    say_stored(&a, 1, 0);
    expect_complete(&a.w, &b1, LH_OK);
    break_link(&a.w, a.stream);
    expect_quiet(&a.w);

    /* Only the next batch looks for the tail; nothing has to be settled in the old chunk. */
    b2 = next_batch(&a);
    ask(&a.w, &b2);
    say_tail(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
        open_chunk(6, 1, 1500, 2), 2, NULL);
    accept_stream(&a, "s3:1", 6, 2);
    expect_batch(&a, 2);
    world_deinit(&a.w);
}

static void out_of_sequence_ends_the_appender(void **state)
{
    struct appender a;
    struct lh_submit_call b1, b2, b3;

    (void)state;
    open_stream(&a, &b1);
    b2 = next_batch(&a);
    ask(&a.w, &b2);
    expect_batch(&a, 2);
    refuse(&a, LH_ERR_OUT_OF_SEQUENCE);
    expect_complete(&a.w, &b1, LH_ERR_OUT_OF_SEQUENCE);
    expect_complete(&a.w, &b2, LH_ERR_OUT_OF_SEQUENCE);

    b3 = next_batch(&a);
    ask(&a.w, &b3);
    expect_complete(&a.w, &b3, LH_ERR_OUT_OF_SEQUENCE);
    expect_quiet(&a.w);
    world_deinit(&a.w);
}

/* What is wrong with a server, or with the way to it, ends no appender: the master is asked. */
static void no_trouble_of_a_server_ends_an_appender(void **state)
{
    static const int of_the_server[] = {LH_ERR_NOT_FOUND, LH_ERR_ALREADY_EXISTS, LH_ERR_IO,
        LH_ERR_DISK_FULL, LH_ERR_SHORTAGE, LH_ERR_SYSTEM, LH_ERR_IN_USE, LH_ERR_WRONG_FORMAT,
        LH_ERR_WRONG_IDENTITY, LH_ERR_ADDRESS_IN_USE, LH_ERR_CLOSED, LH_ERR_NO_REPLICA,
        LH_ERR_NO_MEMORY};

    (void)state;
    for (size_t i = 0; i < sizeof of_the_server / sizeof of_the_server[0]; i++) {
        struct appender a;
        struct lh_submit_call b1;

        open_stream(&a, &b1);
        refuse(&a, of_the_server[i]);
        say_tail(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL),
            open_chunk(5, 4, 1000, 1), 1, NULL);
        accept_stream(&a, "s2:1", 5, 1);
        expect_batch(&a, 1);
        say_stored(&a, 1, 0);
        expect_complete(&a.w, &b1, LH_OK);
        world_deinit(&a.w);
    }
}

static void acknowledging_what_was_not_sent_ends_the_appender(void **state)
{
    struct appender a;
    struct lh_submit_call b1;

    (void)state;
    open_stream(&a, &b1);
    say_stored(&a, 2, 0);
    expect_complete(&a.w, &b1, LH_ERR_MALFORMED);
    expect_close(&a.w, a.stream);
    world_deinit(&a.w);
}

static void an_appender_gives_up_in_the_end(void **state)
{
    struct appender a;
    struct lh_submit_call b1;
    Leasehold__OpenTailReply held = LEASEHOLD__OPEN_TAIL_REPLY__INIT;

    (void)state;
    open_stream(&a, &b1);
    break_link(&a.w, a.stream);
    held.error = LEASEHOLD__ERROR_CODE__LEASE_HELD;
    held.retry_after_ms = 1000;
    say(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), &held);
    pass_ms(&a.w, 300000);
    /* The reason is told. Asking again in the same moment would do no harm. */
    while (a.w.events[a.w.taken].kind != LH_FX_COMPLETE)
        take(&a.w, a.w.events[a.w.taken].kind);
    expect_complete(&a.w, &b1, LH_ERR_LEASE_HELD);
    assert_non_null(strstr(b1.call.text, "/f"));
    world_deinit(&a.w);
}

/* The way to it, the way back, or the way of what is large is broken. The master is told each time,
 * so that it may move the lease with the primary's consent, and no pause becomes long. */
static void a_living_primary_that_cannot_be_reached_is_told_each_time(void **state)
{
    enum way { NO_WAY, NO_WAY_BACK, NOT_FOR_BATCHES, WAYS };

    (void)state;
    for (enum way way = NO_WAY; way < WAYS; way++) {
        struct appender a;
        struct lh_submit_call b1;
        const Leasehold__OpenTailRequest *m;
        uint64_t failed_version = 0;
        struct lh_instant notified;

        open_appender(&a);
        b1 = next_batch(&a);
        ask(&a.w, &b1);
        for (int i = 0; i < 30; i++) {
            while (a.w.taken == a.w.count)
                pass(&a.w);
            uint64_t link = expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", &m);
            assert_int_equal(m->failed_version, failed_version);
            if (i > 0) /* the sign of life that was missed, and the pause */
                assert_in_range(a.w.now.ns - notified.ns, 0, 1700 * 1000000ull);
            notified = a.w.now;
            say_tail(&a.w, link, open_chunk(5, 3, 0, 0), 0, NULL);
            failed_version = 3;
            if (way == NOT_FOR_BATCHES) {
                accept_stream(&a, "s1:1", 5, 1);
                expect_batch(&a, 1);
            } else {
                a.stream = expect_open(&a.w, LH_METHOD_APPEND, "s1:1");
                expect_send(&a.w, a.stream);
            }
            if (way == NO_WAY) {
                break_link(&a.w, a.stream);
            } else {
                pass_ms(&a.w, 700);
                expect_close(&a.w, a.stream);
            }
        }
        world_deinit(&a.w);
    }
}

/* The primary knows what it waits for, the master whom. */
static void what_the_master_said_is_in_the_last_error(void **state)
{
    struct appender a;
    struct lh_submit_call b1;
    Leasehold__OpenTailReply none = LEASEHOLD__OPEN_TAIL_REPLY__INIT;

    (void)state;
    open_stream(&a, &b1);
    break_link(&a.w, a.stream);
    none.error = LEASEHOLD__ERROR_CODE__NOT_LEASED;
    none.error_text = "cs2 and cs3 are away";
    say(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), &none);
    pass(&a.w);
    say_tail(&a.w, expect_request(&a.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), open_chunk(5, 3, 0, 0),
        0, NULL);
    accept_stream(&a, "s1:1", 5, 1);
    expect_batch(&a, 1);
    Leasehold__AppendReply alive = LEASEHOLD__APPEND_REPLY__INIT;
    for (int i = 0; i < 3001; i++) {
        pass_ms(&a.w, 100);
        while (a.w.taken < a.w.count && a.w.events[a.w.taken].kind != LH_FX_COMPLETE) {
            struct event *e = take(&a.w, a.w.events[a.w.taken].kind);
            if (e->kind == LH_FX_SEND && e->method == LH_METHOD_OPEN_TAIL)
                say_tail(&a.w, e->link, open_chunk(5, 3, 0, 0), 0, NULL);
            else if (e->kind == LH_FX_OPEN && e->method == LH_METHOD_APPEND)
                a.stream = e->link;
        }
        if (a.w.taken < a.w.count)
            break;
        say(&a.w, a.stream, &alive);
    }
    expect_complete(&a.w, &b1, LH_ERR_UNAVAILABLE);
    assert_non_null(strstr(b1.call.text, "s1:1: no answer"));
    assert_non_null(strstr(b1.call.text, "the master said: cs2 and cs3 are away"));
    world_deinit(&a.w);
}

static void giving_up_on_silent_masters_is_told_as_unavailable(void **state)
{
    struct appender a;
    struct lh_submit_call b1;

    (void)state;
    open_appender(&a);
    b1 = next_batch(&a);
    ask(&a.w, &b1);

    /* No master ever says a word. */
    for (;;) {
        while (a.w.taken < a.w.count && a.w.events[a.w.taken].kind != LH_FX_COMPLETE)
            take(&a.w, a.w.events[a.w.taken].kind);
        if (a.w.taken < a.w.count)
            break;
        pass(&a.w);
    }

    /* Not as DEADLINE_EXCEEDED, which to a caller means that it is still being tried. */
    expect_complete(&a.w, &b1, LH_ERR_UNAVAILABLE);
    assert_non_null(strstr(b1.call.text, "master m"));
    world_deinit(&a.w);
}

static void closing_cancels_what_is_under_way(void **state)
{
    struct appender a;
    struct lh_submit_call b1;

    (void)state;
    open_stream(&a, &b1);
    struct lh_appender_close_call close = {.call.kind = LH_CALL_APPENDER_CLOSE, .appender = a.core};
    ask(&a.w, &close);
    expect_complete(&a.w, &b1, LH_ERR_CANCELLED);
    expect_complete(&a.w, &close, LH_OK);
    expect_close(&a.w, a.stream);
    assert_true(lh_client_deadline(a.w.client).ns == UINT64_MAX);
    world_deinit(&a.w);
}

static void stopping_completes_everything(void **state)
{
    struct appender a;
    struct lh_submit_call b1;

    (void)state;
    open_stream(&a, &b1);
    step(&a.w, (struct lh_input){.kind = LH_IN_STOP});
    expect_complete(&a.w, &b1, LH_ERR_CANCELLED);
    expect_close(&a.w, a.stream);
    take(&a.w, LH_FX_STOPPED);

    struct lh_master_call call = {.call.kind = LH_CALL_MASTER};
    ask(&a.w, &call);
    expect_complete(&a.w, &call, LH_ERR_CLOSED);
    world_deinit(&a.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_file_is_opened_together_with_its_primary),
        cmocka_unit_test(a_new_file_without_a_primary_is_opened_all_the_same),
        cmocka_unit_test(batches_go_out_in_sequence),
        cmocka_unit_test(no_more_than_a_window_is_unanswered),
        cmocka_unit_test(a_broken_stream_is_redone_from_the_first_unacknowledged_batch),
        cmocka_unit_test(a_stale_capability_is_replaced_by_the_master_and_blames_nobody),
        cmocka_unit_test(a_full_chunk_is_settled_before_anything_goes_to_the_next),
        cmocka_unit_test(a_retry_that_lands_on_a_later_chunk_asks_every_member_for_the_seal),
        cmocka_unit_test(nothing_is_sent_while_a_seal_cannot_be_asked),
        cmocka_unit_test(a_primary_that_says_nothing_is_given_up),
        cmocka_unit_test(a_slow_settler_is_given_more_time_each_round),
        cmocka_unit_test(a_failure_is_told_once),
        cmocka_unit_test(a_held_lease_is_waited_out),
        cmocka_unit_test(a_tail_that_is_no_chunk_is_asked_for_again),
        cmocka_unit_test(an_idle_appender_does_not_chase_its_stream),
        cmocka_unit_test(out_of_sequence_ends_the_appender),
        cmocka_unit_test(no_trouble_of_a_server_ends_an_appender),
        cmocka_unit_test(acknowledging_what_was_not_sent_ends_the_appender),
        cmocka_unit_test(an_appender_gives_up_in_the_end),
        cmocka_unit_test(a_living_primary_that_cannot_be_reached_is_told_each_time),
        cmocka_unit_test(what_the_master_said_is_in_the_last_error),
        cmocka_unit_test(giving_up_on_silent_masters_is_told_as_unavailable),
        cmocka_unit_test(closing_cancels_what_is_under_way),
        cmocka_unit_test(stopping_completes_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
