/* Stories about the search for the next whole batch behind damage (REC-9a): it finds the log's own
 * batches and nothing else, and what it costs has a bound. */
#include "base/buf.h"
#include "batch/search.h"
#include "tests/chained.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK     7u
#define BATCHES   8u
#define RECORD    200u
#define BATCH     ((uint64_t)LH_BATCH_FRAME_BYTES + LH_RECORD_HEADER_BYTES + RECORD)
#define BATCH_MAX 4096u
#define LOG_MAX   (64u << 10)

struct log {
    uint8_t bytes[LOG_MAX];
    uint64_t size, checksum;
};

static void log_init(struct log *l, uint64_t chunk)
{
    *l = (struct log){.checksum = lh_log_seed(chunk)};
}

static void log_append(struct log *l, const void *record, uint32_t size)
{
    struct lh_batch_builder b;

    lh_batch_builder_init(&b, size + LH_BATCH_FRAME_BYTES + LH_RECORD_HEADER_BYTES);
    assert_true(lh_batch_builder_add(&b, record, size));
    struct lh_buf plain = lh_batch_builder_finish(&b, 9, l->size + 1);
    struct lh_buf batch = chained(&plain, &l->checksum);
    assert_true(l->size + batch.size <= LOG_MAX);
    assert_true(lh_buf_read(&batch, 0, l->bytes + l->size, batch.size));
    l->size += batch.size;
    lh_buf_clear(&batch);
}

static struct log *given_a_log(uint64_t batches)
{
    struct log *l = malloc(sizeof *l);
    uint8_t record[RECORD];

    log_init(l, CHUNK);
    for (uint64_t i = 0; i < batches; i++) {
        memset(record, (int)i + 1, sizeof record);
        log_append(l, record, sizeof record);
    }
    return l;
}

/* Searches with windows of that size, or as many bytes as are asked for. */
static int search(struct lh_log_search *s, const struct log *l, uint64_t offset, uint64_t window)
{
    int result = LH_ERR_WOULD_BLOCK;

    lh_log_search_init(s, CHUNK, offset, l->size, BATCH_MAX, 1u << 20);
    while (result == LH_ERR_WOULD_BLOCK) {
        uint64_t front = s->at < 8 ? s->at : 8, bytes = s->bytes > window ? s->bytes : window;
        if (bytes > l->size - s->at)
            bytes = l->size - s->at;
        struct lh_buf b = lh_buf_copy(l->bytes + s->at - front, front + bytes);
        result = lh_log_search(s, &b, front);
        lh_buf_clear(&b);
    }
    return result;
}

static const uint64_t windows[] = {1, 40, BATCH, 1000, LOG_MAX};

static void expect_found(const struct log *l, uint64_t offset, uint64_t start, size_t damaged)
{
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        struct lh_log_search s;
        assert_int_equal(search(&s, l, offset, windows[i]), LH_OK);
        assert_int_equal(s.start, start);
        assert_int_equal(s.damaged_count, damaged);
    }
}

static void expect_nothing(const struct log *l, uint64_t offset)
{
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        struct lh_log_search s;
        assert_int_equal(search(&s, l, offset, windows[i]), LH_ERR_NOT_FOUND);
    }
}

static void a_whole_batch_is_found_where_it_is(void **state)
{
    struct log *l = given_a_log(BATCHES);

    (void)state;
    for (uint64_t i = 0; i < BATCHES; i++)
        expect_found(l, i * BATCH, i * BATCH, 0);
    free(l);
}

static void any_damaged_byte_costs_its_batch_only(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < BATCH; at++) {
        struct log *l = given_a_log(BATCHES);
        l->bytes[2 * BATCH + at] ^= 0x10;
        for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
            struct lh_log_search s;
            assert_int_equal(search(&s, l, 2 * BATCH, windows[i]), LH_OK);
            assert_int_equal(s.start, 3 * BATCH);
        }
        free(l);
    }
}

static void a_damaged_batch_is_described_if_its_header_is_known(void **state)
{
    struct log *l = given_a_log(BATCHES);
    struct lh_log_search s;

    (void)state;
    l->bytes[2 * BATCH + 50] ^= 1;
    l->bytes[3 * BATCH + 50] ^= 1;
    expect_found(l, 2 * BATCH, 4 * BATCH, 2);
    assert_int_equal(search(&s, l, 2 * BATCH, LOG_MAX), LH_OK);
    assert_int_equal(s.damaged[0].offset, 2 * BATCH);
    assert_int_equal(s.damaged[1].header.sequence, 3 * BATCH + 1);
    assert_int_equal(s.damaged[1].header.writer, 9);
    assert_int_equal(s.damaged[1].header.size, BATCH);
    l->bytes[2 * BATCH + 9] ^= 1; /* its size */
    expect_found(l, 2 * BATCH, 4 * BATCH, 0);
    free(l);
}

static void damage_at_the_end_leaves_nothing(void **state)
{
    struct log *l = given_a_log(BATCHES);

    (void)state;
    l->bytes[7 * BATCH + 50] ^= 1;
    expect_nothing(l, 7 * BATCH);
    l->bytes[7 * BATCH + 5] ^= 1;
    expect_nothing(l, 7 * BATCH);
    free(l);
}

/* A record holds a part of another log, or of this very one. */
static void a_batch_inside_a_record_is_never_found(void **state)
{
    struct log *inner = given_a_log(5), *l = given_a_log(2);

    (void)state;
    log_append(l, inner->bytes, (uint32_t)inner->size);
    uint64_t behind = l->size;
    for (unsigned i = 0; i < 3; i++)
        log_append(l, "record", 6);
    l->bytes[2 * BATCH + 5] ^= 1; /* the magic of the batch with that record */
    expect_found(l, 2 * BATCH, behind, 0);
    /* Nothing shows what is behind, either: then nothing is found. */
    for (uint64_t at = behind; at < l->size; at++)
        l->bytes[at] ^= 0x55;
    expect_nothing(l, 2 * BATCH);
    free(l);
    free(inner);
}

/* A window is never asked for twice, and what looks like batches does not make it expensive. */
static void what_looks_like_batches_has_a_bounded_cost(void **state)
{
    static uint8_t record[LOG_MAX / 2];
    struct log *l = given_a_log(1);
    struct lh_log_search s;

    (void)state;
    for (size_t at = 0; at + 32 <= sizeof record; at += 32)
        memcpy(record + at,
            "....LHB2\x00\x0f\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00", 24);
    log_append(l, record, sizeof record);
    l->bytes[BATCH + 5] ^= 1;
    lh_log_search_init(&s, CHUNK, BATCH, l->size, BATCH_MAX, 1u << 20);
    s.left = 100000;
    struct lh_buf b = lh_buf_copy(l->bytes + BATCH - 8, l->size - BATCH + 8);
    assert_int_equal(lh_log_search(&s, &b, 8), LH_ERR_NOT_FOUND);
    assert_int_equal(s.left, 0);
    lh_buf_clear(&b);
    free(l);
}

static void bytes_that_cannot_be_read_are_passed(void **state)
{
    struct log *l = given_a_log(BATCHES);
    struct lh_log_search s;

    (void)state;
    lh_log_search_init(&s, CHUNK, BATCH, l->size, BATCH_MAX, 1u << 20);
    assert_int_equal(lh_log_search_unreadable(&s, BATCH + 10), LH_ERR_WOULD_BLOCK);
    assert_int_equal(s.at, 2 * BATCH + 10);
    struct lh_buf b = lh_buf_copy(l->bytes + s.at, l->size - s.at);
    assert_int_equal(lh_log_search(&s, &b, 0), LH_OK);
    assert_int_equal(s.start, 3 * BATCH);
    lh_buf_clear(&b);
    lh_log_search_init(&s, CHUNK, BATCH, l->size, BATCH_MAX, 1u << 20);
    assert_int_equal(lh_log_search_unreadable(&s, l->size), LH_ERR_NOT_FOUND);
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_batch_is_found_where_it_is),
        cmocka_unit_test(any_damaged_byte_costs_its_batch_only),
        cmocka_unit_test(a_damaged_batch_is_described_if_its_header_is_known),
        cmocka_unit_test(damage_at_the_end_leaves_nothing),
        cmocka_unit_test(a_batch_inside_a_record_is_never_found),
        cmocka_unit_test(what_looks_like_batches_has_a_bounded_cost),
        cmocka_unit_test(bytes_that_cannot_be_read_are_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
