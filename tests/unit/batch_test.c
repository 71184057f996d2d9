/* Stories about the record-batch format (APP-1): what a writer frames is what every reader gets,
 * and bytes that are no batch are told apart, however they are sliced. */
#include "base/buf.h"
#include "base/crc32c.h"
#include "batch/batch.h"
#include "tests/chained.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX LH_BATCH_BYTES_LIMIT

/* A batch of `count` records "r0", "r1x", "r2xx", ... */
static struct lh_buf batch_of(unsigned count, uint64_t writer, uint64_t sequence)
{
    struct lh_batch_builder b;

    lh_batch_builder_init(&b, 4096);
    for (unsigned i = 0; i < count; i++) {
        char record[32] = "r";
        record[1] = (char)('0' + i % 10);
        memset(record + 2, 'x', i % 16);
        assert_true(lh_batch_builder_add(&b, record, 2 + i % 16));
    }
    return lh_batch_builder_finish(&b, writer, sequence);
}

static size_t flatten(const struct lh_buf *b, uint8_t *to)
{
    assert_true(lh_buf_read(b, 0, to, b->size));
    return b->size;
}

/* The same bytes in slices of `step`. */
static struct lh_buf sliced(const uint8_t *bytes, size_t size, size_t step)
{
    struct lh_buf b = {0};

    for (size_t at = 0; at < size; at += step) {
        struct lh_buf part = lh_buf_copy(bytes + at, size - at < step ? size - at : step);
        lh_buf_append(&b, &part, 0, part.size);
        lh_buf_clear(&part);
    }
    return b;
}

static int check(const uint8_t *bytes, size_t size, struct lh_batch_header *h)
{
    struct lh_buf b = lh_buf_copy(bytes, size);
    int error = lh_batch_check_records(&b, 0, MAX, MAX, h);

    lh_buf_clear(&b);
    return error;
}

/* Makes changed bytes pass the checksum, so that what lies behind it is what gets tested. */
static void reseal(uint8_t *bytes, size_t size)
{
    uint32_t crc = lh_crc32c(0, bytes + 4, size - 4 - LH_BATCH_CHAIN_BYTES);

    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(crc >> (8 * i));
}

static void what_was_framed_is_what_is_read(void **state)
{
    struct lh_buf batch = batch_of(40, 77, 1000);
    uint8_t bytes[4096];
    size_t size = flatten(&batch, bytes);
    struct lh_batch_header h;

    (void)state;
    assert_int_equal(lh_batch_check_records(&batch, 0, MAX, MAX, &h), LH_OK);
    assert_int_equal(h.size, size);
    assert_int_equal(h.count, 40);
    assert_int_equal(h.writer, 77);
    assert_int_equal(h.sequence, 1000);
    assert_int_equal(lh_batch_last(&h), 1039);

    struct lh_batch_cursor c;
    const uint8_t *record;
    uint32_t length;
    lh_batch_cursor_init(&c, bytes, h.size);
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(lh_batch_cursor_next(&c, &record, &length), LH_OK);
        assert_int_equal(length, 2 + i % 16);
        assert_int_equal(record[1], '0' + i % 10);
    }
    assert_int_equal(lh_batch_cursor_next(&c, &record, &length), LH_ERR_NOT_FOUND);
    assert_int_equal(lh_batch_cursor_next(&c, &record, &length), LH_ERR_NOT_FOUND);
    lh_buf_clear(&batch);
}

/* docs/formats.md promises these very bytes; a change here is a change of the format. */
static void the_format_is_fixed_to_the_byte(void **state)
{
    struct lh_batch_builder b;
    uint8_t bytes[64];
    static const uint8_t expected[] = {'L', 'H', 'B', '2', 50, 0, 0, 0, 2, 0, 0, 0, 0x88, 0x77,
        0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 'h', 'i', 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0};

    (void)state;
    lh_batch_builder_init(&b, 64);
    assert_true(lh_batch_builder_add(&b, "hi", 2));
    assert_true(lh_batch_builder_add(&b, NULL, 0));
    struct lh_buf batch = lh_batch_builder_finish(&b, 0x1122334455667788u, 5);
    assert_int_equal(flatten(&batch, bytes), 50);
    assert_memory_equal(bytes + 4, expected, sizeof expected);
    uint32_t crc = lh_crc32c(0, bytes + 4, 38);
    for (int i = 0; i < 4; i++)
        assert_int_equal(bytes[i], crc >> (8 * i) & 0xff);
    lh_buf_clear(&batch);
}

static void slices_make_no_difference(void **state)
{
    struct lh_buf batch = batch_of(20, 3, 1);
    uint8_t bytes[4096];
    size_t size = flatten(&batch, bytes);
    struct lh_batch_header whole, h;

    (void)state;
    assert_int_equal(lh_batch_check_records(&batch, 0, MAX, MAX, &whole), LH_OK);
    for (size_t step = 1; step <= size; step++) {
        struct lh_buf b = sliced(bytes, size, step);
        assert_int_equal(lh_batch_check_records(&b, 0, MAX, MAX, &h), LH_OK);
        assert_int_equal(h.crc, whole.crc);
        assert_int_equal(h.count, whole.count);
        lh_buf_clear(&b);
    }
    lh_buf_clear(&batch);
}

static void a_log_is_scanned_batch_by_batch_up_to_its_torn_end(void **state)
{
    uint8_t bytes[8192];
    size_t size = 0;
    uint64_t checksum = 0, writing = lh_log_seed(5);

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        struct lh_buf batch = batch_of(i + 1, 9, i * 10 + 1);
        batch = chained(&batch, &writing);
        size += flatten(&batch, bytes + size);
        lh_buf_clear(&batch);
    }
    for (size_t step = 1; step < 64; step += 7) {
        struct lh_buf log = sliced(bytes, size - 3, step);
        struct lh_batch_header h;
        size_t at = 0;
        unsigned found = 0;
        uint64_t running = lh_log_seed(5);
        int error;
        while ((error = lh_log_check(&log, at, MAX, &running, &h)) == LH_OK) {
            assert_int_equal(h.sequence, found * 10 + 1);
            at += h.size;
            found++;
        }
        assert_int_equal(found, 4);
        assert_int_equal(error, LH_ERR_WOULD_BLOCK);
        if (checksum != 0)
            assert_true(running == checksum);
        checksum = running;
        lh_buf_clear(&log);
    }
}

static void a_batch_cut_anywhere_wants_more_bytes(void **state)
{
    struct lh_buf batch = batch_of(3, 5, 8);
    struct lh_batch_header h = {.size = 12345};

    (void)state;
    for (size_t size = 0; size < batch.size; size++) {
        struct lh_buf part = {0};
        lh_buf_append(&part, &batch, 0, size);
        assert_int_equal(lh_batch_check(&part, 0, MAX, &h), LH_ERR_WOULD_BLOCK);
        assert_int_equal(lh_batch_check_records(&part, 0, MAX, MAX, &h), LH_ERR_WOULD_BLOCK);
        assert_int_equal(h.size, 12345);
        lh_buf_clear(&part);
    }
    assert_int_equal(lh_batch_check(&batch, batch.size, MAX, &h), LH_ERR_WOULD_BLOCK);
    assert_int_equal(lh_batch_check(&batch, SIZE_MAX, MAX, &h), LH_ERR_WOULD_BLOCK);
    lh_buf_clear(&batch);
}

static int check_in_log(const uint8_t *bytes, size_t size, uint64_t checksum)
{
    struct lh_buf b = lh_buf_copy(bytes, size);
    struct lh_batch_header h;
    int error = lh_log_check(&b, 0, MAX, &checksum, &h);

    lh_buf_clear(&b);
    return error;
}

static void every_single_flipped_bit_is_noticed(void **state)
{
    struct lh_buf batch = batch_of(4, 5, 8);
    uint8_t bytes[4096];
    uint64_t checksum = lh_log_seed(5);
    batch = chained(&batch, &checksum);
    size_t size = flatten(&batch, bytes);

    (void)state;
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(check_in_log(bytes, size, lh_log_seed(5)), LH_OK);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(check_in_log(bytes, size, lh_log_seed(5)), LH_OK);
    bytes[size - 1] ^= 1;
    assert_int_equal(check_in_log(bytes, size, lh_log_seed(5)), LH_ERR_CORRUPT);
    lh_buf_clear(&batch);
}

/* A whole batch of another log, or of another place in this one, does not fit. */
static void a_batch_fits_its_place_and_no_other(void **state)
{
    struct lh_buf log[3];
    uint64_t checksum[4] = {lh_log_seed(5)};
    uint8_t bytes[4096];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct lh_buf b = batch_of(4, 5, i + 1);
        checksum[i + 1] = checksum[i];
        log[i] = chained(&b, &checksum[i + 1]);
    }
    for (unsigned i = 0; i < 3; i++) {
        size_t size = flatten(&log[i], bytes);
        for (unsigned place = 0; place < 3; place++)
            assert_int_equal(
                check_in_log(bytes, size, checksum[place]), place == i ? LH_OK : LH_ERR_CORRUPT);
        assert_int_equal(check_in_log(bytes, size, lh_log_seed(6)), LH_ERR_CORRUPT);
        lh_buf_clear(&log[i]);
    }
}

/* Bytes that others share stay as they are, whatever the batch's size, and its slices. */
static void a_batch_gets_its_chain_without_being_written_to(void **state)
{
    static const unsigned sizes[] = {1, 900, LH_BATCH_COPIED_BYTES, 5000, 40000};
    struct lh_batch_stamper stamper = {0};

    (void)state;
    for (unsigned round = 0; round < 40; round++) {
        struct lh_batch_builder b;
        struct lh_batch_header h;
        uint32_t size = sizes[round % 5];
        uint64_t checksum = lh_log_seed(round);
        uint8_t *record = calloc(1, size);
        lh_batch_builder_init(&b, LH_BATCH_FRAME_BYTES + LH_RECORD_HEADER_BYTES + size);
        assert_true(lh_batch_builder_add(&b, record, size));
        struct lh_buf sent = lh_batch_builder_finish(&b, 7, round + 1), stored = lh_buf_ref(&sent);
        assert_int_equal(lh_batch_check(&sent, 0, MAX, &h), LH_OK);
        lh_batch_stamp(&stamper, &stored, &h, lh_log_checksum(checksum, &h));
        assert_int_equal(stored.size, sent.size);
        assert_int_equal(lh_log_check(&stored, 0, MAX, &checksum, &h), LH_OK);
        uint64_t chain = 1;
        assert_true(lh_buf_read(&sent, h.size - sizeof chain, &chain, sizeof chain));
        assert_int_equal(chain, 0);
        lh_buf_clear(&sent);
        lh_buf_clear(&stored);
        free(record);
    }
    lh_batch_stamper_deinit(&stamper);
}

struct lie {
    const char *what;
    size_t at;
    uint8_t bytes[8];
    size_t size;
    int error;
};

/* Each is what a hostile or broken writer could frame with a right checksum. */
static void headers_that_cannot_be_are_refused(void **state)
{
    static const struct lie lies[] = {
        {"wrong magic", 4, "LHB1", 4, LH_ERR_MALFORMED},
        {"no records", 12, {0}, 4, LH_ERR_MALFORMED},
        {"more records than fit", 12, {0xff, 0xff, 0xff, 0x7f}, 4, LH_ERR_MALFORMED},
        {"writer 0", 16, {0}, 8, LH_ERR_MALFORMED},
        {"sequence overflows", 24, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8,
            LH_ERR_MALFORMED},
        {"smaller than its frame", 8, {39, 0, 0, 0}, 4, LH_ERR_MALFORMED},
        {"size 0", 8, {0}, 4, LH_ERR_MALFORMED},
        {"larger than any limit", 8, {0xff, 0xff, 0xff, 0xff}, 4, LH_ERR_TOO_LARGE},
        {"one record more than there is", 12, {3, 0, 0, 0}, 4, LH_ERR_MALFORMED},
        {"one record fewer than there is", 12, {1, 0, 0, 0}, 4, LH_ERR_MALFORMED},
        {"record longer than the batch", 32, {0xff, 0xff, 0xff, 0xff}, 4, LH_ERR_MALFORMED},
        {"record shorter than it is", 32, {1, 0, 0, 0}, 4, LH_ERR_MALFORMED},
    };
    struct lh_buf batch = batch_of(2, 5, 8);
    struct lh_batch_header h = {.size = 12345};

    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        uint8_t bytes[4096];
        size_t size = flatten(&batch, bytes);
        memcpy(bytes + lies[i].at, lies[i].bytes, lies[i].size);
        reseal(bytes, size);
        int error = check(bytes, size, &h);
        if (error != lies[i].error)
            fail_msg("%s: %s", lies[i].what, lh_error_name(error));
        assert_int_equal(h.size, 12345);
    }
    lh_buf_clear(&batch);
}

static void limits_are_held_to_the_byte(void **state)
{
    struct lh_buf batch = batch_of(1, 5, 8);
    struct lh_batch_header h;
    uint32_t size = (uint32_t)batch.size;

    (void)state;
    assert_int_equal(lh_batch_check(&batch, 0, size, &h), LH_OK);
    assert_int_equal(lh_batch_check(&batch, 0, size - 1, &h), LH_ERR_TOO_LARGE);
    assert_int_equal(lh_batch_check_records(&batch, 0, size, 2, &h), LH_OK);
    assert_int_equal(lh_batch_check_records(&batch, 0, size, 1, &h), LH_ERR_TOO_LARGE);
    lh_buf_clear(&batch);
}

static void the_longest_record_fits_a_batch_and_two_batches_fit_a_chunk(void **state)
{
    static const uint64_t sizes[] = {
        LH_CHUNK_BYTES_MIN, LH_CHUNK_BYTES_MIN + 1, LH_CHUNK_BYTES_DEFAULT, LH_CHUNK_BYTES_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t batch = lh_batch_bytes_max(sizes[i]);
        uint32_t record = lh_record_bytes_max(sizes[i]);
        assert_true((uint64_t)batch * 2 <= sizes[i]);
        assert_true(batch <= LH_BATCH_BYTES_LIMIT);
        assert_true(LH_BATCH_FRAME_BYTES + LH_RECORD_HEADER_BYTES + record <= batch / 2);
        assert_true(record <= sizes[i] / 4);
    }
}

static void a_full_builder_refuses_and_stays_as_it_was(void **state)
{
    struct lh_batch_builder b;
    struct lh_batch_header h;

    (void)state;
    lh_batch_builder_init(&b, LH_BATCH_FRAME_BYTES + 10);
    assert_false(lh_batch_builder_add(&b, "1234567", 7));
    assert_true(lh_batch_builder_add(&b, "123456", 6));
    assert_false(lh_batch_builder_add(&b, "", 0));
    struct lh_buf batch = lh_batch_builder_finish(&b, 1, 1);
    assert_int_equal(lh_batch_check_records(&batch, 0, MAX, MAX, &h), LH_OK);
    assert_int_equal(h.count, 1);
    lh_buf_clear(&batch);

    lh_batch_builder_init(&b, 100);
    assert_true(lh_batch_builder_add(&b, "dropped", 7));
    lh_batch_builder_deinit(&b);
}

static void the_running_checksum_tells_logs_apart(void **state)
{
    struct lh_batch_header a = {.crc = 1, .size = 100}, b = {.crc = 2, .size = 100};
    struct lh_batch_header longer = {.crc = 1, .size = 101};

    (void)state;
    uint64_t ab = lh_log_checksum(lh_log_checksum(0, &a), &b);
    uint64_t ba = lh_log_checksum(lh_log_checksum(0, &b), &a);
    assert_true(ab != ba);
    assert_true(lh_log_checksum(0, &a) != lh_log_checksum(0, &b));
    assert_true(lh_log_checksum(0, &a) != lh_log_checksum(0, &longer));
    assert_true(ab == lh_log_checksum(lh_log_checksum(0, &a), &b));
    assert_true(lh_log_seed(1) != lh_log_seed(2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_framed_is_what_is_read),
        cmocka_unit_test(the_format_is_fixed_to_the_byte),
        cmocka_unit_test(slices_make_no_difference),
        cmocka_unit_test(a_log_is_scanned_batch_by_batch_up_to_its_torn_end),
        cmocka_unit_test(a_batch_cut_anywhere_wants_more_bytes),
        cmocka_unit_test(every_single_flipped_bit_is_noticed),
        cmocka_unit_test(a_batch_fits_its_place_and_no_other),
        cmocka_unit_test(a_batch_gets_its_chain_without_being_written_to),
        cmocka_unit_test(headers_that_cannot_be_are_refused),
        cmocka_unit_test(limits_are_held_to_the_byte),
        cmocka_unit_test(the_longest_record_fits_a_batch_and_two_batches_fit_a_chunk),
        cmocka_unit_test(a_full_builder_refuses_and_stays_as_it_was),
        cmocka_unit_test(the_running_checksum_tells_logs_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
