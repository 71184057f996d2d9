/* The client core's reader. */
#include "tests/core/client/client_world.h"

#define WRITER 99u

/* What a READ asked for. */
struct asked {
    uint64_t link, chunk, offset;
};

struct reader {
    struct world w;
    struct lh_client_reader *core;
    struct lh_fetch_call fetch;
    struct asked asked[32]; /* the last READs */
    unsigned reads;
    bool skips; /* what is damaged everywhere */
};

/* A reader of the world that there is. */
static void open_in_world(
    struct reader *r, bool follow, uint64_t offset, Leasehold__ChunkInfo *chunks, size_t count)
{
    const Leasehold__LocateRequest *m;
    struct lh_reader_open_call open = {
        .call.kind = LH_CALL_READER_OPEN,
        .path = "/f",
        .offset = offset,
        .follow = follow,
        .readahead = 8u << 20,
        .skip_damaged = r->skips,
    };

    open.deadline = in_ms(&r->w, 1000);
    ask(&r->w, &open);
    say_stat(&r->w, expect_request(&r->w, LH_METHOD_STAT, "m1:1", NULL));
    expect_complete(&r->w, &open, LH_OK);
    r->core = open.reader;
    uint64_t link = expect_request(&r->w, LH_METHOD_LOCATE, "m1:1", &m);
    assert_int_equal(m->file, FILE_ID);
    assert_int_equal(m->offset, offset);
    say_chunks(&r->w, link, chunks, count);
}

/* Opened at `offset`, in a world of its own; the master lists those chunks. */
static void open_reader(
    struct reader *r, bool follow, uint64_t offset, Leasehold__ChunkInfo *chunks, size_t count)
{
    *r = (struct reader){0};
    world_init(&r->w);
    open_in_world(r, follow, offset, chunks, count);
}

/* As open_reader(); no READ is ever late. */
static void open_patient_reader(
    struct reader *r, bool follow, uint64_t offset, Leasehold__ChunkInfo *chunks, size_t count)
{
    struct lh_duration never = LH_DURATION_FOREVER;

    *r = (struct reader){0};
    world_init_with(&r->w,
        (struct lh_client_config){.late_first = never, .late_min = never, .late_max = never});
    open_in_world(r, follow, offset, chunks, count);
}

/* What was under way is closed, and not looked at. */
static void close_reader(struct reader *r)
{
    struct lh_reader_close_call close = {.call.kind = LH_CALL_READER_CLOSE, .reader = r->core};

    ask(&r->w, &close);
    while (r->w.count - r->w.taken > 1)
        event_deinit(&r->w.events[r->w.taken++]);
    expect_complete(&r->w, &close, LH_OK);
}

static void fetch(struct reader *r)
{
    r->fetch = (struct lh_fetch_call){
        .call.kind = LH_CALL_FETCH, .reader = r->core, .deadline = in_ms(&r->w, 20000)};
    ask(&r->w, &r->fetch);
}

static void expect_bytes(struct reader *r, uint64_t offset, size_t size)
{
    expect_complete(&r->w, &r->fetch, LH_OK);
    assert_int_equal(r->fetch.offset, offset);
    assert_int_equal(r->fetch.batches.size, size);
    lh_buf_clear(&r->fetch.batches);
}

/* Any member is asked; returns which one in `*member`. */
static uint64_t expect_read(struct reader *r, uint64_t chunk, uint64_t offset, int *member,
    const Leasehold__ReadRequest **request)
{
    struct event *e = take(&r->w, LH_FX_OPEN);

    assert_int_equal(e->method, LH_METHOD_READ);
    assert_int_equal(e->address[0], 's');
    if (member != NULL)
        *member = e->address[1] - '1';
    uint64_t link = e->link;
    const Leasehold__ReadRequest *m = expect_send(&r->w, link);
    assert_int_equal(m->chunk, chunk);
    assert_int_equal(m->offset, offset);
    if (request != NULL)
        *request = m;
    r->asked[r->reads++ % 32] = (struct asked){link, chunk, offset};
    return link;
}

static const struct asked *asked_on(const struct reader *r, uint64_t link)
{
    for (unsigned i = 0; i < 32; i++)
        if (r->asked[i].link == link)
            return &r->asked[i];
    fail_msg("no READ was asked there");
    return NULL;
}

/* As many one-record batches, from where that READ asked for them. */
static void say_batches(
    struct reader *r, uint64_t link, unsigned count, uint64_t committed, bool sealed)
{
    Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;
    struct lh_buf all = {0};
    const struct asked *q = asked_on(r, link);
    uint64_t first = q->offset / BATCH_BYTES(1), checksum = lh_log_seed(q->chunk);

    for (uint64_t i = 0; i < first + count; i++) {
        struct lh_buf b = make_batch(WRITER, i + 1, 1);
        if (i == first)
            m.checksum = checksum;
        b = chained(&b, &checksum);
        if (i >= first)
            lh_buf_append(&all, &b, 0, b.size);
        lh_buf_clear(&b);
    }
    m.committed = committed;
    m.sealed = sealed;
    say_with(&r->w, link, &m, all);
}

static void say_empty(
    struct reader *r, uint64_t link, uint64_t committed, bool sealed, bool primary)
{
    Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;

    m.committed = committed;
    m.sealed = sealed;
    m.primary = primary;
    say(&r->w, link, &m);
}

static void say_refusal(struct reader *r, uint64_t link, int error)
{
    Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;

    m.error = (Leasehold__ErrorCode)-error;
    say(&r->w, link, &m);
}

/* The master knows no chunk there: the file's chunks are all sealed, that many bytes together. */
static void say_no_chunks(struct reader *r, uint64_t link, uint64_t sealed_length)
{
    Leasehold__LocateReply none = LEASEHOLD__LOCATE_REPLY__INIT;
    Leasehold__FileInfo info = file_info();

    info.sealed_length = sealed_length;
    none.info = &info;
    say(&r->w, link, &none);
}

#define B BATCH_BYTES(1)

static void sealed_chunks_are_read_ahead_and_given_out_in_order(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunks[] = {sealed_chunk(5, 2, 0, 3 * B), sealed_chunk(6, 4, 3 * B, B)};

    (void)state;
    open_reader(&r, false, 0, chunks, 2);

    /* Both chunks are read before anybody asks; the second one's bytes come first. */
    uint64_t one = expect_read(&r, 5, 0, NULL, NULL);
    uint64_t two = expect_read(&r, 6, 0, NULL, NULL);
    say_batches(&r, two, 1, B, true);
    say_batches(&r, one, 2, 3 * B, true);
    one = expect_read(&r, 5, 2 * B, NULL, NULL);

    fetch(&r);
    expect_bytes(&r, 0, 2 * B);
    fetch(&r);
    expect_quiet(&r.w);
    say_batches(&r, one, 1, 3 * B, true);
    expect_bytes(&r, 2 * B, B);
    fetch(&r);
    expect_bytes(&r, 3 * B, B);

    /* The end: nothing behind the last sealed chunk, says the master. */
    fetch(&r);
    const Leasehold__LocateRequest *m;
    uint64_t link = expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", &m);
    assert_int_equal(m->offset, 4 * B);
    say_no_chunks(&r, link, 4 * B);
    expect_complete(&r.w, &r.fetch, LH_ERR_CLOSED);
    expect_quiet(&r.w);
    world_deinit(&r.w);
}

static void a_reader_begins_in_the_middle(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(6, 4, 3 * B, 2 * B);

    (void)state;
    open_reader(&r, false, 4 * B, &chunk, 1);
    uint64_t link = expect_read(&r, 6, B, NULL, NULL);
    fetch(&r);
    say_batches(&r, link, 1, 2 * B, true);
    expect_bytes(&r, 4 * B, B);
    world_deinit(&r.w);
}

static void a_start_beyond_the_end_is_refused(void **state)
{
    struct reader r;

    (void)state;
    open_reader(&r, false, 500, NULL, 0);
    fetch(&r);
    say_no_chunks(&r, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), 400);
    expect_complete(&r.w, &r.fetch, LH_ERR_INVALID_ARGUMENT);
    world_deinit(&r.w);
}

/* The first batch is sound, the second has a flipped bit so many bytes before its end. */
static void a_corrupt_batch_is_passed_over(size_t where)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, 2 * B);
    int bad, good;

    open_reader(&r, false, 0, &chunk, 1);
    fetch(&r);
    uint64_t link = expect_read(&r, 5, 0, &bad, NULL);

    Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;
    struct lh_buf bytes = make_batch(WRITER, 1, 1), second = make_batch(WRITER, 2, 1);
    uint8_t flipped[B];
    uint64_t checksum = lh_log_seed(5);
    bytes = chained(&bytes, &checksum);
    second = chained(&second, &checksum);
    assert_true(lh_buf_read(&second, 0, flipped, B));
    flipped[B - 1 - where] ^= 1;
    lh_buf_clear(&second);
    second = lh_buf_copy(flipped, B);
    lh_buf_append(&bytes, &second, 0, B);
    lh_buf_clear(&second);
    m.committed = 2 * B;
    m.sealed = true;
    say_with(&r.w, link, &m, bytes);

    expect_bytes(&r, 0, B);
    link = expect_read(&r, 5, B, &good, NULL);
    assert_int_not_equal(bad, good);
    fetch(&r);
    say_batches(&r, link, 1, 2 * B, true);
    expect_bytes(&r, B, B);
    world_deinit(&r.w);
}

static void a_corrupt_batch_is_read_from_another_member(void **state)
{
    (void)state;
    a_corrupt_batch_is_passed_over(LH_BATCH_CHAIN_BYTES);
}

/* Sound in itself, and of another place. */
static void a_batch_from_elsewhere_is_read_from_another_member(void **state)
{
    (void)state;
    a_corrupt_batch_is_passed_over(0);
}

/* Two members' logs agree with themselves; only what was read before tells that one of them is not
 * this log. A reader that begins in the middle has nothing but the server's word. */
static void what_is_read_continues_what_was_read(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, 3 * B);
    int bad, good;

    (void)state;
    for (uint64_t start = 0; start <= B; start += B) {
        open_reader(&r, false, start, &chunk, 1);
        fetch(&r);
        say_batches(&r, expect_read(&r, 5, start, NULL, NULL), 1, 3 * B, true);
        expect_bytes(&r, start, B);
        fetch(&r);
        uint64_t link = expect_read(&r, 5, start + B, &bad, NULL);
        Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;
        uint64_t checksum = m.checksum = 4711;
        struct lh_buf other = make_batch(WRITER, 2 + start / B, 1);
        m.committed = 3 * B;
        m.sealed = true;
        say_with(&r.w, link, &m, chained(&other, &checksum));
        link = expect_read(&r, 5, start + B, &good, NULL);
        assert_int_not_equal(bad, good);
        say_batches(&r, link, 1, 3 * B, true);
        expect_bytes(&r, start + B, B);
        world_deinit(&r.w);
    }
}

static void what_is_corrupt_everywhere_is_told(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, B);

    (void)state;
    open_reader(&r, false, 0, &chunk, 1);
    fetch(&r);
    for (int i = 0; i < 3; i++) {
        uint64_t link = expect_read(&r, 5, 0, NULL, NULL);
        if (i == 1) {
            say_refusal(&r, link, LH_ERR_CORRUPT);
        } else {
            Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;
            say_with(&r.w, link, &m, lh_buf_copy("rubbish that is no batch at all, really", 39));
        }
    }
    expect_complete(&r.w, &r.fetch, LH_ERR_CORRUPT);

    /* Nothing is asked for nobody; who asks again may find it repaired. */
    pass(&r.w);
    expect_quiet(&r.w);
    fetch(&r);
    uint64_t link = expect_read(&r, 5, 0, NULL, NULL);
    say_batches(&r, link, 1, B, true);
    expect_bytes(&r, 0, B);
    world_deinit(&r.w);
}

/* ---- What is damaged everywhere, for a reader that skips it (REC-9a) ---- */

static void open_skipping_reader(struct reader *r, Leasehold__ChunkInfo *chunks, size_t count)
{
    struct lh_duration never = LH_DURATION_FOREVER;

    *r = (struct reader){.skips = true};
    world_init_with(&r->w,
        (struct lh_client_config){.late_first = never, .late_min = never, .late_max = never});
    open_in_world(r, false, 0, chunks, count);
}

/* The next batch is at `at`; 0: there is none. */
static void say_resync(struct reader *r, uint64_t link, uint64_t at)
{
    Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;
    struct lh_buf b = {0};
    uint64_t checksum = m.checksum = 4711;

    if (at > 0) {
        b = make_batch(WRITER, at / B + 1, 1);
        b = chained(&b, &checksum);
    }
    m.committed = 4 * B;
    m.sealed = m.resynced = true;
    m.offset = at > 0 ? at : 4 * B;
    say_with(&r->w, link, &m, b);
}

/* Each member was asked, and refused. */
static void refuse_round(struct reader *r, uint64_t offset)
{
    const Leasehold__ReadRequest *m;

    for (int i = 0; i < 3; i++) {
        uint64_t link = expect_read(r, 5, offset, NULL, &m);
        assert_false(m->resync);
        say_refusal(r, link, LH_ERR_CORRUPT);
    }
}

static void expect_gap(struct reader *r, uint64_t from, uint64_t to)
{
    expect_complete(&r->w, &r->fetch, LH_OK);
    assert_int_equal(r->fetch.batches.size, 0);
    assert_int_equal(r->fetch.gap.from, from);
    assert_int_equal(r->fetch.gap.to, to);
    assert_int_equal(r->fetch.gap.chunk, 5);
    assert_int_equal(r->fetch.gap.member_count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(r->fetch.gap.members[i].error, LH_ERR_CORRUPT);
    lh_client_gap_deinit(&r->fetch.gap);
}

static void a_gap_is_reported_and_reading_goes_on_where_any_member_can(void **state)
{
    static const uint64_t next[] = {0, 2 * B, 3 * B};
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, 4 * B);
    const Leasehold__ReadRequest *m;

    (void)state;
    open_skipping_reader(&r, &chunk, 1);
    fetch(&r);
    refuse_round(&r, 0);
    say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &chunk, 1);
    pass(&r.w);
    for (int i = 0; i < 3; i++) {
        uint64_t link = expect_read(&r, 5, 0, NULL, &m);
        assert_true(m->resync);
        say_resync(&r, link, next[i]);
    }
    expect_gap(&r, 0, 2 * B);

    /* What is behind it need not fit what is in front of it. */
    fetch(&r);
    uint64_t link = expect_read(&r, 5, 2 * B, NULL, &m);
    assert_true(m->resync);
    say_resync(&r, link, 2 * B);
    expect_bytes(&r, 2 * B, B);
    close_reader(&r);
    world_deinit(&r.w);
}

static void a_gap_ends_with_its_chunk(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, 4 * B);

    (void)state;
    open_skipping_reader(&r, &chunk, 1);
    fetch(&r);
    refuse_round(&r, 0);
    say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &chunk, 1);
    pass(&r.w);
    for (int i = 0; i < 3; i++)
        say_resync(&r, expect_read(&r, 5, 0, NULL, NULL), 0);
    expect_gap(&r, 0, 4 * B);
    close_reader(&r);
    world_deinit(&r.w);
}

/* One that does not answer, or is of an older release, may have what the others have lost. */
static void nothing_is_skipped_that_a_member_may_have(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, 4 * B);

    (void)state;
    for (int old = 0; old < 2; old++) {
        open_skipping_reader(&r, &chunk, 1);
        fetch(&r);
        refuse_round(&r, 0);
        for (int round = 0; round < 2; round++) {
            say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &chunk, 1);
            pass(&r.w);
            for (int i = 0; i < 3; i++) {
                int member;
                uint64_t link = expect_read(&r, 5, 0, &member, NULL);
                if (member == 1)
                    say_refusal(&r, link, old == 1 ? LH_ERR_CORRUPT : LH_ERR_RECOVERING);
                else
                    say_resync(&r, link, 2 * B);
            }
        }
        say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &chunk, 1);
        pass(&r.w);
        /* It has it. */
        for (int i = 0, member = 0; member != 1; i++) {
            uint64_t link = expect_read(&r, 5, 0, &member, NULL);
            if (member == 1)
                say_batches(&r, link, 1, 4 * B, true);
            else
                say_resync(&r, link, 2 * B);
        }
        expect_bytes(&r, 0, B);
        close_reader(&r);
        world_deinit(&r.w);
    }
}

/* A member that the master has named since has not been asked yet. */
static void nothing_is_skipped_before_the_master_has_named_the_members_again(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, 4 * B);

    (void)state;
    open_skipping_reader(&r, &chunk, 1);
    fetch(&r);
    refuse_round(&r, 0);
    uint64_t link = expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL);
    pass(&r.w); /* the master takes its time */
    for (int i = 0; i < 3; i++)
        say_resync(&r, expect_read(&r, 5, 0, NULL, NULL), 2 * B);
    say_chunks(&r.w, link, &chunk, 1);
    pass(&r.w);
    for (int i = 0; i < 3; i++)
        say_resync(&r, expect_read(&r, 5, 0, NULL, NULL), 2 * B);
    expect_gap(&r, 0, 2 * B);
    close_reader(&r);
    world_deinit(&r.w);
}

/* A master that has just started does not know yet where all members are. The one whose address it
 * knows has rotted: that says nothing about the others, which are asked for again. */
static void a_member_without_an_address_is_not_corrupt(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo known = sealed_chunk(5, 2, 0, B), chunk = known;
    Leasehold__Member some[3], *listed[3];
    int bad, good;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        some[i] = *known.members[i];
        listed[i] = &some[i];
    }
    some[0].address = some[1].address = (char *)(uintptr_t) "";
    chunk.members = listed;
    open_reader(&r, false, 0, &chunk, 1);
    fetch(&r);
    uint64_t link = expect_read(&r, 5, 0, &bad, NULL);
    assert_int_equal(bad, 2);
    say_refusal(&r, link, LH_ERR_CORRUPT);
    say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &known, 1);
    pass(&r.w);
    link = expect_read(&r, 5, 0, &good, NULL);
    assert_int_not_equal(bad, good);
    say_batches(&r, link, 1, B, true);
    expect_bytes(&r, 0, B);
    world_deinit(&r.w);
}

static bool shows(const Leasehold__ReadRequest *m, const char *bytes)
{
    return m->capability.len == strlen(bytes) &&
           memcmp(m->capability.data, bytes, m->capability.len) == 0;
}

/* Nobody takes it any more: the master is asked, and the program sees nothing of it. */
static void a_stale_capability_is_replaced_by_the_master(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, B);
    const Leasehold__ReadRequest *m;

    (void)state;
    chunk.capability = (ProtobufCBinaryData){5, (uint8_t *)(uintptr_t) "first"};
    open_reader(&r, false, 0, &chunk, 1);
    fetch(&r);
    for (int i = 0; i < 3; i++) {
        uint64_t link = expect_read(&r, 5, 0, NULL, &m);
        assert_true(shows(m, "first"));
        say_refusal(&r, link, LH_ERR_STALE_CAPABILITY);
    }
    chunk.capability = (ProtobufCBinaryData){6, (uint8_t *)(uintptr_t) "second"};
    say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &chunk, 1);
    uint64_t link = expect_read(&r, 5, 0, NULL, &m);
    assert_true(shows(m, "second"));
    say_batches(&r, link, 1, B, true);
    expect_bytes(&r, 0, B);
    world_deinit(&r.w);
}

/* One member does not know the key yet; another one does not answer in time. The program hears that
 * nothing came. */
static void a_stale_capability_is_no_reason(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, B);

    (void)state;
    open_reader(&r, false, 0, &chunk, 1);
    r.fetch = (struct lh_fetch_call){
        .call.kind = LH_CALL_FETCH, .reader = r.core, .deadline = in_ms(&r.w, 100)};
    ask(&r.w, &r.fetch);
    say_refusal(&r, expect_read(&r, 5, 0, NULL, NULL), LH_ERR_STALE_CAPABILITY);
    (void)expect_read(&r, 5, 0, NULL, NULL);
    pass_ms(&r.w, 100);
    expect_complete(&r.w, &r.fetch, LH_ERR_DEADLINE_EXCEEDED);
    world_deinit(&r.w);
}

/* The same of a chunk that is read ahead: its bytes are there before the program comes to them. */
static void a_chunk_ahead_gets_a_new_capability(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunks[] = {sealed_chunk(5, 2, 0, B), sealed_chunk(6, 4, B, B)};
    const Leasehold__ReadRequest *m;

    (void)state;
    chunks[1].capability = (ProtobufCBinaryData){5, (uint8_t *)(uintptr_t) "first"};
    open_reader(&r, false, 0, chunks, 2);
    uint64_t first = expect_read(&r, 5, 0, NULL, NULL);
    uint64_t ahead = expect_read(&r, 6, 0, NULL, NULL);
    say_batches(&r, first, 1, B, true);
    for (int i = 0; i < 3; i++) {
        say_refusal(&r, ahead, LH_ERR_STALE_CAPABILITY);
        if (i < 2)
            ahead = expect_read(&r, 6, 0, NULL, NULL);
    }
    chunks[1].capability = (ProtobufCBinaryData){6, (uint8_t *)(uintptr_t) "second"};
    say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &chunks[1], 1);
    ahead = expect_read(&r, 6, 0, NULL, &m); /* at once */
    assert_true(shows(m, "second"));
    say_batches(&r, ahead, 1, B, true);
    fetch(&r);
    expect_bytes(&r, 0, B);
    fetch(&r);
    expect_bytes(&r, B, B);
    world_deinit(&r.w);
}

/* While the head waits for its member the bytes that were read ahead stay. */
static void a_new_capability_keeps_what_was_read_ahead(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunks[] = {sealed_chunk(5, 2, 0, B), sealed_chunk(6, 4, B, B)};

    (void)state;
    open_patient_reader(&r, false, 0, chunks, 2);
    fetch(&r);
    uint64_t head = expect_read(&r, 5, 0, NULL, NULL);
    say_batches(&r, expect_read(&r, 6, 0, NULL, NULL), 1, B, true);
    for (int i = 0; i < 3; i++) {
        say_refusal(&r, head, LH_ERR_STALE_CAPABILITY);
        if (i < 2)
            head = expect_read(&r, 5, 0, NULL, NULL);
    }
    say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), chunks, 2);
    say_batches(&r, expect_read(&r, 5, 0, NULL, NULL), 1, B, true);
    expect_bytes(&r, 0, B);
    fetch(&r);
    expect_bytes(&r, B, B);
    world_deinit(&r.w);
}

/* Servers that take none of the master's: after the first round each waits for its pause. */
static void servers_that_take_no_capability_are_not_hammered(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, B);

    (void)state;
    open_patient_reader(&r, false, 0, &chunk, 1);
    fetch(&r);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++)
            say_refusal(&r, expect_read(&r, 5, 0, NULL, NULL), LH_ERR_STALE_CAPABILITY);
        say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &chunk, 1);
        if (round > 0) {
            expect_quiet(&r.w);
            pass(&r.w);
        }
    }
    say_batches(&r, expect_read(&r, 5, 0, NULL, NULL), 1, B, true);
    expect_bytes(&r, 0, B);
    world_deinit(&r.w);
}

/* The master lists a chunk's members again, in another order, while one of them is being asked:
 * nobody counts twice, and who was not asked yet still is. */
static void a_newer_list_of_members_begins_a_new_round(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, B), now = chunk;
    int bad, worse, good;

    (void)state;
    open_reader(&r, false, 0, &chunk, 1);
    fetch(&r);
    for (int i = 0; i < 3; i++)
        say_refusal(&r, expect_read(&r, 5, 0, NULL, NULL), LH_ERR_RECOVERING);
    uint64_t locate = expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL);
    pass(&r.w);
    say_refusal(&r, expect_read(&r, 5, 0, &bad, NULL), LH_ERR_CORRUPT);
    uint64_t link = expect_read(&r, 5, 0, &worse, NULL);
    Leasehold__Member *listed[] = {
        three_members[3 - bad - worse], three_members[bad], three_members[worse]};
    now.members = listed;
    say_chunks(&r.w, locate, &now, 1);
    expect_quiet(&r.w);
    say_refusal(&r, link, LH_ERR_CORRUPT);
    link = expect_read(&r, 5, 0, &good, NULL);
    if (good == bad) {
        say_refusal(&r, link, LH_ERR_CORRUPT);
        link = expect_read(&r, 5, 0, &good, NULL);
    }
    assert_int_equal(good, 3 - bad - worse);
    say_batches(&r, link, 1, B, true);
    expect_bytes(&r, 0, B);
    world_deinit(&r.w);
}

/* Nobody waits for what is read ahead: its members are asked again after a pause, and the master
 * only once it is this chunk's turn. */
static void a_chunk_that_is_read_ahead_in_vain_hammers_nobody(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunks[] = {sealed_chunk(5, 2, 0, B), sealed_chunk(6, 4, B, B)};

    (void)state;
    open_reader(&r, false, 0, chunks, 2);
    fetch(&r);
    uint64_t hangs = expect_read(&r, 5, 0, NULL, NULL);
    uint64_t ahead = expect_read(&r, 6, 0, NULL, NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            say_refusal(&r, ahead, LH_ERR_RECOVERING);
            if (i == 2)
                expect_quiet(&r.w);
            else
                ahead = expect_read(&r, 6, 0, NULL, NULL);
        }
        pass(&r.w);
        ahead = expect_read(&r, 6, 0, NULL, NULL);
    }
    say_batches(&r, hangs, 1, B, true);
    expect_bytes(&r, 0, B);
    fetch(&r);
    for (int i = 0; i < 3; i++) {
        say_refusal(&r, ahead, LH_ERR_RECOVERING);
        if (i < 2)
            ahead = expect_read(&r, 6, 0, NULL, NULL);
    }
    say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &chunks[1], 1);
    pass(&r.w);
    say_batches(&r, expect_read(&r, 6, 0, NULL, NULL), 1, B, true);
    expect_bytes(&r, B, B);
    world_deinit(&r.w);
}

static void a_start_where_no_batch_begins_is_the_programs_mistake(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, 2 * B);

    (void)state;
    open_reader(&r, false, 3, &chunk, 1);
    fetch(&r);
    for (int i = 0; i < 3; i++)
        say_refusal(&r, expect_read(&r, 5, 3, NULL, NULL), LH_ERR_MALFORMED);
    expect_complete(&r.w, &r.fetch, LH_ERR_INVALID_ARGUMENT);
    world_deinit(&r.w);
}

static void an_unreachable_member_is_passed_over(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, B);
    int one, other;

    (void)state;
    open_patient_reader(&r, false, 0, &chunk, 1);
    fetch(&r);
    break_link(&r.w, expect_read(&r, 5, 0, &one, NULL));
    uint64_t silent = expect_read(&r, 5, 0, &other, NULL);
    assert_int_not_equal(one, other);
    pass_ms(&r.w, 5000);
    expect_close(&r.w, silent);
    say_batches(&r, expect_read(&r, 5, 0, NULL, NULL), 1, B, true);
    expect_bytes(&r, 0, B);
    world_deinit(&r.w);
}

/* Whom another reader of the same client asks first for a sealed chunk that nobody has read yet; it
 * is closed before there is an answer. */
static int first_asked(struct reader *r)
{
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, B);
    int member;

    open_in_world(r, false, 0, &chunk, 1);
    expect_read(r, 5, 0, &member, NULL);
    close_reader(r);
    return member;
}

static unsigned times_asked_first(struct reader *r, int member)
{
    unsigned times = 0;

    for (int i = 0; i < 30; i++)
        times += first_asked(r) == member;
    return times;
}

static void a_silent_server_is_asked_last_by_all_readers(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunks[] = {sealed_chunk(5, 2, 0, B), sealed_chunk(6, 4, B, B)};
    int silent, refuses, other;

    (void)state;
    open_patient_reader(&r, false, 0, chunks, 1);
    fetch(&r);
    expect_read(&r, 5, 0, &silent, NULL);
    pass_ms(&r.w, 5000);
    take(&r.w, LH_FX_CLOSE);
    uint64_t link = expect_read(&r, 5, 0, &refuses, NULL);
    say_refusal(&r, link, LH_ERR_RECOVERING);
    say_batches(&r, expect_read(&r, 5, 0, &other, NULL), 1, B, true);
    expect_bytes(&r, 0, B);
    close_reader(&r);

    /* Nobody pays for it again; who answered, whatever it said, is asked as before. */
    assert_int_equal(times_asked_first(&r, silent), 0);
    assert_int_not_equal(times_asked_first(&r, refuses), 0);

    /* It is asked all the same when nobody else can help. */
    open_in_world(&r, false, B, &chunks[1], 1);
    fetch(&r);
    int member;
    for (int i = 0; i < 2; i++) {
        link = expect_read(&r, 6, 0, &member, NULL);
        assert_int_not_equal(member, silent);
        say_refusal(&r, link, LH_ERR_NO_REPLICA);
    }
    link = expect_read(&r, 6, 0, &member, NULL);
    assert_int_equal(member, silent);
    say_batches(&r, link, 1, B, true);
    expect_bytes(&r, B, B);
    close_reader(&r);

    /* And then it has answered. */
    assert_int_not_equal(times_asked_first(&r, silent), 0);
    world_deinit(&r.w);
}

static void one_reader_at_a_time_tries_a_silent_server_again(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, B);
    int silent, member;

    (void)state;
    open_reader(&r, false, 0, &chunk, 1);
    break_link(&r.w, expect_read(&r, 5, 0, &silent, NULL));
    close_reader(&r);
    pass_ms(&r.w, 4999);
    assert_int_equal(times_asked_first(&r, silent), 0);
    pass_ms(&r.w, 1);
    assert_int_equal(times_asked_first(&r, silent), 1);

    /* Each vain try makes the next one later, up to a minute. */
    pass_ms(&r.w, 5000);
    for (uint64_t pause_ms = 10000, i = 0; i < 6; i++) {
        do {
            open_in_world(&r, false, 0, &chunk, 1);
            uint64_t link = expect_read(&r, 5, 0, &member, NULL);
            if (member == silent)
                break_link(&r.w, link);
            close_reader(&r);
        } while (member != silent);
        pass_ms(&r.w, pause_ms - 1);
        assert_int_equal(times_asked_first(&r, silent), 0);
        pass_ms(&r.w, 1);
        pause_ms = pause_ms * 2 < 60000 ? pause_ms * 2 : 60000;
    }
    world_deinit(&r.w);
}

/* A silent primary costs one try, not one for the bytes and another one for the end. */
static void a_silent_primary_is_asked_for_the_end_once_the_master_says_so(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo tail = open_chunk(5, 2, 0, 1);
    int member;

    (void)state;
    open_reader(&r, false, 0, &tail, 1);
    fetch(&r);
    uint64_t link = expect_read(&r, 5, 0, &member, NULL);
    assert_int_equal(member, 1);
    break_link(&r.w, link);
    say_batches(&r, expect_read(&r, 5, 0, &member, NULL), 1, B, false);
    assert_int_not_equal(member, 1);
    expect_bytes(&r, 0, B);
    fetch(&r);
    say_empty(&r, expect_read(&r, 5, B, &member, NULL), B, false, false);
    assert_int_not_equal(member, 1);
    say_refusal(&r, expect_read(&r, 5, B, &member, NULL), LH_ERR_NOT_PRIMARY);
    assert_int_not_equal(member, 1);
    const Leasehold__OpenTailRequest *notified;
    link = expect_request(&r.w, LH_METHOD_OPEN_TAIL, "m1:1", &notified);
    assert_true(notified->failed_chunk == 5);
    assert_int_equal(notified->failed_version, 2);
    assert_true(notified->reads);
    say_tail(&r.w, link, tail, 1, NULL);

    /* Silent or not, nobody else knows. */
    link = expect_read(&r, 5, B, &member, NULL);
    assert_int_equal(member, 1);
    say_empty(&r, link, B, false, true);
    say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &tail, 1);
    expect_complete(&r.w, &r.fetch, LH_ERR_CLOSED);
    close_reader(&r);

    /* Another reader of the tail of a primary that is silent again begins elsewhere. */
    open_in_world(&r, true, 0, &tail, 1);
    break_link(&r.w, expect_read(&r, 5, 0, &member, NULL));
    assert_int_equal(member, 1);
    close_reader(&r);
    open_in_world(&r, true, 0, &tail, 1);
    expect_read(&r, 5, 0, &member, NULL);
    assert_int_not_equal(member, 1);
    world_deinit(&r.w);
}

/* ---- Hedging ---- */

/* Two READs of the same bytes are under way, the first one late. */
static void open_late(
    struct reader *r, Leasehold__ChunkInfo *chunks, size_t count, uint64_t links[2], int asked[2])
{
    open_reader(r, false, 0, chunks, count);
    fetch(r);
    links[0] = expect_read(r, 5, 0, &asked[0], NULL);
    pass_ms(&r->w, 299);
    expect_quiet(&r->w);
    pass_ms(&r->w, 1);
    links[1] = expect_read(r, 5, 0, &asked[1], NULL);
    assert_int_not_equal(asked[0], asked[1]);
    pass_ms(&r->w, 1000);
    expect_quiet(&r->w);
}

static void a_late_read_is_asked_of_another_member_too(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunks[] = {sealed_chunk(5, 2, 0, 2 * B), sealed_chunk(6, 4, 2 * B, B)};
    uint64_t links[2];
    int asked[2], member;

    (void)state;
    open_late(&r, chunks, 1, links, asked);
    say_batches(&r, links[1], 1, 2 * B, true);
    expect_close(&r.w, links[0]);
    expect_bytes(&r, 0, B);
    /* What comes of the other one finds nobody, and the way goes on where the answer was. */
    say_batches(&r, links[0], 1, 2 * B, true);
    say_batches(&r, expect_read(&r, 5, B, &member, NULL), 1, 2 * B, true);
    assert_int_equal(member, asked[1]);
    fetch(&r);
    expect_bytes(&r, B, B);
    close_reader(&r);
    /* Nobody waits for the late one again. */
    assert_int_equal(times_asked_first(&r, asked[0]), 0);
    assert_int_not_equal(times_asked_first(&r, asked[1]), 0);
    world_deinit(&r.w);
}

static void the_late_answer_counts_if_it_is_the_first(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, B);
    uint64_t links[2];
    int asked[2];

    (void)state;
    open_late(&r, &chunk, 1, links, asked);
    say_batches(&r, links[0], 1, B, true);
    expect_close(&r.w, links[1]);
    expect_bytes(&r, 0, B);
    close_reader(&r);
    assert_int_not_equal(times_asked_first(&r, asked[0]), 0);
    assert_int_not_equal(times_asked_first(&r, asked[1]), 0);
    world_deinit(&r.w);
}

static void a_refusal_waits_for_the_other_answer(void **state)
{
    for (int first = 0; first < 2; first++) {
        struct reader r;
        Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, B);
        uint64_t links[2];
        int asked[2], member;

        (void)state;
        /* Whether it is the refusal or rot that comes first, the other READ goes on. */
        open_late(&r, &chunk, 1, links, asked);
        say_refusal(&r, links[first], LH_ERR_CORRUPT);
        expect_quiet(&r.w);
        say_batches(&r, links[!first], 1, B, true);
        expect_bytes(&r, 0, B);
        world_deinit(&r.w);

        /* When neither helps, the third is asked. */
        open_late(&r, &chunk, 1, links, asked);
        say_refusal(&r, links[first], LH_ERR_NO_REPLICA);
        break_link(&r.w, links[!first]);
        uint64_t link = expect_read(&r, 5, 0, &member, NULL);
        assert_int_equal(member + asked[0] + asked[1], 3);
        say_batches(&r, link, 1, B, true);
        expect_bytes(&r, 0, B);
        world_deinit(&r.w);
    }
}

/* One chunk of many batches, read one by one. */
struct pieces {
    struct reader r;
    Leasehold__ChunkInfo chunk;
    uint64_t link; /* the READ under way */
    uint64_t at;
    unsigned hedges;
};

static void open_pieces(struct pieces *p)
{
    *p = (struct pieces){.chunk = sealed_chunk(5, 2, 0, CHUNK_SIZE)};
    open_reader(&p->r, false, 0, &p->chunk, 1);
    p->link = expect_read(&p->r, 5, 0, NULL, NULL);
}

/* The READ under way is answered after that time, hedged or not. */
static void next_piece(struct pieces *p, uint64_t ms)
{
    struct reader *r = &p->r;

    pass_ms(&r->w, ms);
    bool hedged = r->w.count > r->w.taken;
    if (hedged)
        expect_read(r, 5, p->at, NULL, NULL);
    p->hedges += hedged;
    say_batches(r, p->link, 1, CHUNK_SIZE, true);
    if (hedged)
        take(&r->w, LH_FX_CLOSE);
    p->at += B;
    p->link = expect_read(r, 5, p->at, NULL, NULL);
    fetch(r);
    expect_bytes(r, p->at - B, B);
}

static void what_is_late_is_learned(void **state)
{
    static const struct {
        uint64_t takes_ms, late_ms;
    } times[] = {{2, 50}, {200, 200}, {600, 600}, {4000, 2000}, {200, 200}, {2, 50}};
    struct pieces p;

    (void)state;
    open_pieces(&p);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        for (unsigned k = 0; k < 100; k++)
            next_piece(&p, times[i].takes_ms);
        p.hedges = 0;
        next_piece(&p, times[i].late_ms - times[i].late_ms / 50);
        assert_int_equal(p.hedges, 0);
        next_piece(&p, times[i].late_ms + times[i].late_ms / 10);
        assert_true(p.hedges == 1 || times[i].takes_ms > 2000);
    }
    world_deinit(&p.r.w);
}

/* All servers are too slow: they do not get twice as much to do. */
static void hedges_are_a_share_of_the_reads(void **state)
{
    struct pieces p;

    (void)state;
    open_pieces(&p);
    for (unsigned k = 0; k < 200; k++)
        next_piece(&p, 3000);
    assert_in_range(p.hedges, 20, 24);
    world_deinit(&p.r.w);
}

static void a_read_that_waits_is_late_after_its_wait(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo tail = open_chunk(5, 2, 0, 1);
    const Leasehold__ReadRequest *m;
    int member, other;

    (void)state;
    open_reader(&r, true, B, &tail, 1);
    fetch(&r);
    pass_ms(&r.w, 2);
    say_empty(&r, expect_read(&r, 5, B, NULL, NULL), B, false, true);
    uint64_t link = expect_read(&r, 5, B, &member, &m);
    assert_int_equal(m->wait_ms, 10000);
    assert_int_equal(member, 1);
    pass_ms(&r.w, 10049);
    expect_quiet(&r.w);
    pass_ms(&r.w, 1);

    /* Another one says at once what it has, and is then the one to wait. */
    uint64_t hedge = expect_read(&r, 5, B, &other, &m);
    assert_int_equal(m->wait_ms, 0);
    assert_false(m->require_primary);
    assert_int_not_equal(other, 1);
    say_empty(&r, hedge, B, false, false);
    expect_close(&r.w, link);
    expect_read(&r, 5, B, &member, &m);
    assert_int_equal(m->wait_ms, 10000);
    assert_int_equal(member, other);
    world_deinit(&r.w);
}

/* The master hears early that the primary does not answer. Should it be merely slow, it has more
 * time with each try. */
static void the_end_is_never_asked_of_two(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo tail = open_chunk(5, 2, 0, 1);
    const Leasehold__ReadRequest *m;
    const Leasehold__OpenTailRequest *opened;

    (void)state;
    open_reader(&r, false, B, &tail, 1);
    fetch(&r);
    say_empty(&r, expect_read(&r, 5, B, NULL, NULL), B, false, false);
    for (uint64_t patience_ms = 700; patience_ms < 11200; patience_ms *= 2) {
        uint64_t link = expect_read(&r, 5, B, NULL, &m);
        assert_true(m->require_primary);
        pass_ms(&r.w, (patience_ms < 5000 ? patience_ms : 5000) - 1);
        expect_quiet(&r.w);
        pass_ms(&r.w, 1);
        expect_close(&r.w, link);
        link = expect_request(&r.w, LH_METHOD_OPEN_TAIL, "m1:1", &opened);
        assert_int_equal(opened->failed_version, 2);
        say_tail(&r.w, link, tail, 1, NULL);
        while (r.w.count == r.w.taken)
            pass(&r.w);
    }
    world_deinit(&r.w);
}

static void the_smallest_bounds_are_only_slow(void **state)
{
    struct reader r = {0};
    Leasehold__ChunkInfo chunks[] = {sealed_chunk(5, 2, 0, B), sealed_chunk(6, 4, B, B)};
    static const struct lh_duration least = {1};

    (void)state;
    world_init_with(&r.w, (struct lh_client_config){.read_bytes = 1,
                              .chunks_ahead = 1,
                              .silent_servers = 1,
                              .late_first = least,
                              .late_min = least,
                              .late_max = least,
                              .hedge_percent = 1,
                              .hedge_burst = 1});
    open_in_world(&r, false, 0, chunks, 2);
    uint64_t link = expect_read(&r, 5, 0, NULL, NULL);
    pass_ms(&r.w, 1);
    uint64_t hedge = expect_read(&r, 5, 0, NULL, NULL);
    break_link(&r.w, link);
    break_link(&r.w, hedge);
    say_batches(&r, expect_read(&r, 5, 0, NULL, NULL), 1, B, true);
    /* Nothing of the next chunk before this one's bytes are given out. */
    expect_quiet(&r.w);
    fetch(&r);
    expect_bytes(&r, 0, B);
    fetch(&r);
    link = expect_read(&r, 6, 0, NULL, NULL);
    pass_ms(&r.w, 1000);
    expect_quiet(&r.w);
    say_batches(&r, link, 1, B, true);
    expect_bytes(&r, B, B);
    world_deinit(&r.w);
}

static void the_end_is_asked_of_the_primary_and_of_the_master(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = open_chunk(5, 2, 0, 1);
    const Leasehold__ReadRequest *m;
    int member;

    (void)state;
    open_reader(&r, false, 0, &chunk, 1);
    fetch(&r);
    uint64_t link = expect_read(&r, 5, 0, &member, &m);
    assert_int_equal(member, 1);
    say_batches(&r, link, 1, B, false);
    expect_bytes(&r, 0, B);

    /* What was read ahead of the FETCH may be older than it and proves nothing (APP-6). */
    link = expect_read(&r, 5, B, &member, NULL);
    fetch(&r);
    say_empty(&r, link, B, false, true);
    link = expect_read(&r, 5, B, &member, &m);
    assert_int_equal(member, 1);
    assert_true(m->require_primary);
    say_empty(&r, link, B, false, true);
    link = expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL);
    say_chunks(&r.w, link, &chunk, 1);
    expect_complete(&r.w, &r.fetch, LH_ERR_CLOSED);
    expect_quiet(&r.w);

    /* A later FETCH looks again. */
    fetch(&r);
    link = expect_read(&r, 5, B, NULL, NULL);
    say_batches(&r, link, 1, 2 * B, false);
    expect_bytes(&r, B, B);
    world_deinit(&r.w);
}

static void a_tail_that_was_sealed_meanwhile_is_not_the_end(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo tail = open_chunk(5, 2, 0, 1);
    Leasehold__ChunkInfo now[] = {sealed_chunk(5, 2, 0, B), open_chunk(6, 1, B, 0)};

    (void)state;
    open_reader(&r, false, B, &tail, 1);
    uint64_t link = expect_read(&r, 5, B, NULL, NULL);
    fetch(&r);
    say_empty(&r, link, B, false, true);
    say_empty(&r, expect_read(&r, 5, B, NULL, NULL), B, false, true);
    link = expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL);
    say_chunks(&r.w, link, now, 2);
    say_batches(&r, expect_read(&r, 6, 0, NULL, NULL), 1, B, false);
    expect_bytes(&r, B, B);
    world_deinit(&r.w);
}

/* Whom the last bytes came from is asked for the end, and is not the primary: nothing is said
 * against that one. */
static void a_primary_that_was_not_asked_has_not_failed(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo tail = open_chunk(5, 2, 0, 1);
    const Leasehold__OpenTailRequest *m;
    int member;

    (void)state;
    open_reader(&r, false, 0, &tail, 1);
    fetch(&r);
    say_refusal(&r, expect_read(&r, 5, 0, &member, NULL), LH_ERR_RECOVERING);
    assert_int_equal(member, 1);
    say_batches(&r, expect_read(&r, 5, 0, &member, NULL), 1, B, false);
    expect_bytes(&r, 0, B);
    fetch(&r);
    say_empty(&r, expect_read(&r, 5, B, &member, NULL), B, false, false);
    say_refusal(&r, expect_read(&r, 5, B, &member, NULL), LH_ERR_NOT_PRIMARY);
    assert_int_not_equal(member, 1);
    uint64_t link = expect_request(&r.w, LH_METHOD_OPEN_TAIL, "m1:1", &m);
    assert_int_equal(m->failed_version, 0);
    say_tail(&r.w, link, tail, 1, NULL);

    /* Asked itself, it has. */
    say_refusal(&r, expect_read(&r, 5, B, &member, NULL), LH_ERR_NOT_PRIMARY);
    assert_int_equal(member, 1);
    expect_request(&r.w, LH_METHOD_OPEN_TAIL, "m1:1", &m);
    assert_int_equal(m->failed_version, 2);
    world_deinit(&r.w);
}

static void the_master_is_asked_to_bring_a_primary(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo tail = open_chunk(5, 2, 0, -1);
    const Leasehold__OpenTailRequest *m;
    int member;

    (void)state;
    open_reader(&r, false, B, &tail, 1);
    uint64_t link = expect_read(&r, 5, B, NULL, NULL);
    fetch(&r);
    say_empty(&r, link, B, false, false);
    say_refusal(&r, expect_read(&r, 5, B, NULL, NULL), LH_ERR_NOT_PRIMARY);
    link = expect_request(&r.w, LH_METHOD_OPEN_TAIL, "m1:1", &m);
    assert_int_equal(m->file, FILE_ID);
    expect_quiet(&r.w);
    say_tail(&r.w, link, open_chunk(5, 3, 0, 2), 2, NULL);
    link = expect_read(&r, 5, B, &member, NULL);
    assert_int_equal(member, 2);
    say_empty(&r, link, B, false, true);
    tail = open_chunk(5, 3, 0, 2);
    say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &tail, 1);
    expect_complete(&r.w, &r.fetch, LH_ERR_CLOSED);
    world_deinit(&r.w);
}

/* Its lease may be short: who pauses for longer and longer never finds it. */
static void another_primary_is_asked_at_once(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo tail = open_chunk(5, 2, 0, 1);

    (void)state;
    open_reader(&r, false, B, &tail, 1);
    uint64_t link = expect_read(&r, 5, B, NULL, NULL);
    fetch(&r);
    say_empty(&r, link, B, false, false);
    for (uint64_t version = 2; version < 12; version++) {
        say_refusal(&r, expect_read(&r, 5, B, NULL, NULL), LH_ERR_NOT_PRIMARY);
        tail = open_chunk(5, 2, 0, 1);
        tail.version = version;
        say_tail(&r.w, expect_request(&r.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), tail, 1, NULL);
    }
    /* It is asked while it recovers, and soon again. */
    say_refusal(&r, expect_read(&r, 5, B, NULL, NULL), LH_ERR_NOT_PRIMARY);
    say_tail(&r.w, expect_request(&r.w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), tail, 1, NULL);
    pass_ms(&r.w, 100);
    say_empty(&r, expect_read(&r, 5, B, NULL, NULL), B, false, true);
    say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &tail, 1);
    expect_complete(&r.w, &r.fetch, LH_ERR_CLOSED);
    world_deinit(&r.w);
}

static void following_waits_at_the_end_and_goes_on_in_the_next_chunk(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo tail = open_chunk(5, 2, 0, 0), next = open_chunk(6, 1, 2 * B, 1);
    const Leasehold__ReadRequest *m;

    (void)state;
    open_reader(&r, true, B, &tail, 1);
    uint64_t link = expect_read(&r, 5, B, NULL, NULL);
    say_empty(&r, link, B, false, true);
    expect_quiet(&r.w);
    fetch(&r);
    link = expect_read(&r, 5, B, NULL, &m);
    assert_true(m->wait_ms == 10000);
    assert_false(m->require_primary);

    /* Nothing comes: the FETCH ends, and the server's answer is for a later one. */
    pass_ms(&r.w, 9000);
    expect_quiet(&r.w);
    say_batches(&r, link, 1, 2 * B, false);
    expect_bytes(&r, B, B);

    /* The chunk is sealed; the next one is there a moment later. */
    link = expect_read(&r, 5, 2 * B, NULL, NULL);
    say_empty(&r, link, 2 * B, true, true);
    fetch(&r);
    say_no_chunks(&r, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), 2 * B);
    expect_quiet(&r.w);
    pass(&r.w);
    say_chunks(&r.w, expect_request(&r.w, LH_METHOD_LOCATE, "m1:1", NULL), &next, 1);
    say_batches(&r, expect_read(&r, 6, 0, NULL, NULL), 1, B, false);
    expect_bytes(&r, 2 * B, B);
    world_deinit(&r.w);
}

static void a_fetch_that_ends_in_vain_loses_nothing(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo tail = open_chunk(5, 2, 0, 0);

    (void)state;
    open_reader(&r, true, B, &tail, 1);
    say_empty(&r, expect_read(&r, 5, B, NULL, NULL), B, false, true);
    fetch(&r);
    uint64_t link = expect_read(&r, 5, B, NULL, NULL);

    /* The server was to wait longer than this FETCH. */
    r.w.now = r.fetch.deadline;
    struct lh_fetch_call *ended = &r.fetch;
    say_empty(&r, link, B, false, true);
    link = expect_read(&r, 5, B, NULL, NULL);
    expect_complete(&r.w, ended, LH_ERR_DEADLINE_EXCEEDED);
    say_batches(&r, link, 1, 2 * B, false);
    expect_read(&r, 5, 2 * B, NULL, NULL);
    fetch(&r);
    expect_bytes(&r, B, B);
    world_deinit(&r.w);
}

static void closing_cancels_the_fetch(void **state)
{
    struct reader r;
    Leasehold__ChunkInfo chunk = sealed_chunk(5, 2, 0, B);

    (void)state;
    open_reader(&r, false, 0, &chunk, 1);
    uint64_t link = expect_read(&r, 5, 0, NULL, NULL);
    fetch(&r);
    struct lh_reader_close_call close = {.call.kind = LH_CALL_READER_CLOSE, .reader = r.core};
    ask(&r.w, &close);
    expect_complete(&r.w, &r.fetch, LH_ERR_CANCELLED);
    expect_close(&r.w, link);
    expect_complete(&r.w, &close, LH_OK);
    assert_true(lh_client_deadline(r.w.client).ns == UINT64_MAX);
    world_deinit(&r.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealed_chunks_are_read_ahead_and_given_out_in_order),
        cmocka_unit_test(a_reader_begins_in_the_middle),
        cmocka_unit_test(a_start_beyond_the_end_is_refused),
        cmocka_unit_test(a_corrupt_batch_is_read_from_another_member),
        cmocka_unit_test(a_batch_from_elsewhere_is_read_from_another_member),
        cmocka_unit_test(what_is_read_continues_what_was_read),
        cmocka_unit_test(what_is_corrupt_everywhere_is_told),
        cmocka_unit_test(a_member_without_an_address_is_not_corrupt),
        cmocka_unit_test(a_gap_is_reported_and_reading_goes_on_where_any_member_can),
        cmocka_unit_test(a_gap_ends_with_its_chunk),
        cmocka_unit_test(nothing_is_skipped_that_a_member_may_have),
        cmocka_unit_test(nothing_is_skipped_before_the_master_has_named_the_members_again),
        cmocka_unit_test(a_stale_capability_is_replaced_by_the_master),
        cmocka_unit_test(a_stale_capability_is_no_reason),
        cmocka_unit_test(a_chunk_ahead_gets_a_new_capability),
        cmocka_unit_test(a_new_capability_keeps_what_was_read_ahead),
        cmocka_unit_test(servers_that_take_no_capability_are_not_hammered),
        cmocka_unit_test(a_newer_list_of_members_begins_a_new_round),
        cmocka_unit_test(a_chunk_that_is_read_ahead_in_vain_hammers_nobody),
        cmocka_unit_test(a_start_where_no_batch_begins_is_the_programs_mistake),
        cmocka_unit_test(an_unreachable_member_is_passed_over),
        cmocka_unit_test(a_silent_server_is_asked_last_by_all_readers),
        cmocka_unit_test(one_reader_at_a_time_tries_a_silent_server_again),
        cmocka_unit_test(a_silent_primary_is_asked_for_the_end_once_the_master_says_so),
        cmocka_unit_test(a_late_read_is_asked_of_another_member_too),
        cmocka_unit_test(the_late_answer_counts_if_it_is_the_first),
        cmocka_unit_test(a_refusal_waits_for_the_other_answer),
        cmocka_unit_test(what_is_late_is_learned),
        cmocka_unit_test(hedges_are_a_share_of_the_reads),
        cmocka_unit_test(a_read_that_waits_is_late_after_its_wait),
        cmocka_unit_test(the_end_is_never_asked_of_two),
        cmocka_unit_test(the_smallest_bounds_are_only_slow),
        cmocka_unit_test(the_end_is_asked_of_the_primary_and_of_the_master),
        cmocka_unit_test(a_tail_that_was_sealed_meanwhile_is_not_the_end),
        cmocka_unit_test(a_primary_that_was_not_asked_has_not_failed),
        cmocka_unit_test(the_master_is_asked_to_bring_a_primary),
        cmocka_unit_test(another_primary_is_asked_at_once),
        cmocka_unit_test(following_waits_at_the_end_and_goes_on_in_the_next_chunk),
        cmocka_unit_test(a_fetch_that_ends_in_vain_loses_nothing),
        cmocka_unit_test(closing_cancels_the_fetch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
