/* Stories about what a chunkserver keeps of a chunk: the header slots of its file, the writer
 * table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "chunkserver/log/header.h"
#include "chunkserver/log/writers.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * Header slots. */

static const struct lh_chunk_header example = {
    .generation = 6,
    .version = 5,
    .chunk_size = 64u << 20,
    .durability = 1,
    .sealed = true,
    .lost = true,
    .copying = true,
    .sealed_length = 1234567,
    .sealed_checksum = UINT64_C(0x0123456789abcdef),
    .equal_length = 1000,
    .committed = 900,
    .equal_boot = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
};

struct slots {
    uint8_t bytes[2 * LH_SLOT_BYTES];
};

static void write_slot_of(uint64_t chunk, struct slots *s, const struct lh_chunk_header *h)
{
    struct lh_buf b = lh_chunk_header_encode(chunk, h);

    assert_int_equal(b.size, LH_SLOT_BYTES);
    assert_true(lh_buf_read(&b, 0, s->bytes + lh_chunk_header_offset(h), b.size));
    lh_buf_clear(&b);
}

static void write_slot(struct slots *s, const struct lh_chunk_header *h)
{
    write_slot_of(77, s, h);
}

static int decode(const struct slots *s, size_t size, uint64_t chunk, struct lh_chunk_header *h)
{
    struct lh_buf b = lh_buf_copy(s->bytes, size);
    int error = lh_chunk_header_decode(&b, chunk, h);

    lh_buf_clear(&b);
    return error;
}

static void everything_that_was_written_is_read_back(void **state)
{
    (void)state;
    struct slots s = {0};
    struct lh_chunk_header h;
    write_slot(&s, &example);
    assert_int_equal(decode(&s, sizeof s.bytes, 77, &h), LH_OK);
    assert_int_equal(h.generation, 6);
    assert_int_equal(h.version, 5);
    assert_int_equal(h.chunk_size, 64u << 20);
    assert_int_equal(h.durability, 1);
    assert_true(h.sealed && h.lost && h.copying);
    assert_int_equal(h.sealed_length, 1234567);
    assert_int_equal(h.sealed_checksum, UINT64_C(0x0123456789abcdef));
    assert_int_equal(h.equal_length, 1000);
    assert_int_equal(h.committed, 900);
    assert_memory_equal(h.equal_boot, example.equal_boot, LH_BOOT_ID_BYTES);
}

static void the_bytes_are_those_of_the_format(void **state)
{
    (void)state;
    struct slots s = {0};
    const uint8_t *p = s.bytes;
    write_slot(&s, &example);
    assert_memory_equal(p, "LHCHUNK\0", 8);
    const uint8_t head[] = {2, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 5};
    assert_memory_equal(p + 12, head, sizeof head);
    assert_int_equal(p[52], 7); /* sealed, lost, incomplete */
    assert_memory_equal(p + 88, example.equal_boot, LH_BOOT_ID_BYTES);
    uint32_t crc = lh_crc32c(0, p + 12, LH_SLOT_BYTES - 12);
    const uint8_t little[] = {
        (uint8_t)crc, (uint8_t)(crc >> 8), (uint8_t)(crc >> 16), (uint8_t)(crc >> 24)};
    assert_memory_equal(p + 8, little, 4);
}

static void the_newer_of_two_slots_counts(void **state)
{
    (void)state;
    struct slots s = {0};
    struct lh_chunk_header h, newer = example;
    newer.generation = 7;
    newer.version = 9;
    write_slot(&s, &newer);
    write_slot(&s, &example);
    assert_int_equal(decode(&s, sizeof s.bytes, 77, &h), LH_OK);
    assert_int_equal(h.version, 9);
    newer.generation = 8; /* the other slot */
    newer.version = 10;
    write_slot(&s, &newer);
    assert_int_equal(decode(&s, sizeof s.bytes, 77, &h), LH_OK);
    assert_int_equal(h.version, 10);
}

/* Wherever a write was torn, the header before it is still there. */
static void a_torn_write_leaves_the_older_header(void **state)
{
    (void)state;
    struct lh_chunk_header h, newer = example;
    newer.generation = 7;
    newer.version = 6;
    newer.sealed = false;
    struct slots whole = {0};
    write_slot(&whole, &example);
    write_slot(&whole, &newer);
    for (size_t torn = 0; torn < LH_SLOT_BYTES; torn += 1 + torn / 64) {
        struct slots s = {0};
        write_slot(&s, &example);
        memcpy(s.bytes + LH_SLOT_BYTES, whole.bytes + LH_SLOT_BYTES, torn);
        memset(s.bytes + LH_SLOT_BYTES + torn, 0xa5, LH_SLOT_BYTES - torn);
        assert_int_equal(decode(&s, sizeof s.bytes, 77, &h), LH_OK);
        assert_int_equal(h.version, 5);
    }
}

static void no_rotten_bit_goes_unnoticed(void **state)
{
    (void)state;
    struct lh_chunk_header h;
    for (size_t bit = 0; bit < 8 * LH_SLOT_BYTES; bit += bit < 1024 ? 1 : 37) {
        struct slots s = {0};
        write_slot(&s, &example);
        s.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(decode(&s, sizeof s.bytes, 77, &h), LH_ERR_CORRUPT);
    }
}

static void short_empty_and_foreign_files_are_told_apart(void **state)
{
    (void)state;
    struct slots s = {0};
    struct lh_chunk_header h, odd = example;
    assert_int_equal(decode(&s, 0, 77, &h), LH_ERR_CORRUPT);
    assert_int_equal(decode(&s, sizeof s.bytes, 77, &h), LH_ERR_CORRUPT);
    write_slot(&s, &example);
    assert_int_equal(decode(&s, LH_SLOT_BYTES, 77, &h), LH_OK); /* the second was never written */
    assert_int_equal(decode(&s, LH_SLOT_BYTES - 1, 77, &h), LH_ERR_CORRUPT);
    assert_int_equal(decode(&s, sizeof s.bytes, 78, &h), LH_ERR_WRONG_IDENTITY);

    /* One slot of another chunk (a misdirected write), the other good. */
    odd.generation = 7;
    write_slot_of(78, &s, &odd);
    assert_int_equal(decode(&s, sizeof s.bytes, 77, &h), LH_OK);
    assert_int_equal(h.generation, 6);
}

static void a_newer_format_is_left_alone(void **state)
{
    (void)state;
    struct slots s = {0};
    struct lh_chunk_header h, newer = example;
    newer.generation = 7;
    write_slot(&s, &example);
    write_slot(&s, &newer);
    uint8_t *p = s.bytes + LH_SLOT_BYTES;
    p[12] = 3;
    uint32_t crc = lh_crc32c(0, p + 12, LH_SLOT_BYTES - 12);
    for (size_t i = 0; i < 4; i++)
        p[8 + i] = (uint8_t)(crc >> 8 * i);
    assert_int_equal(decode(&s, sizeof s.bytes, 77, &h), LH_ERR_WRONG_FORMAT);
}

/* ------------------------------------------------------------------------------------------------
 * The writer table. */

static struct lh_batch_header batch(uint64_t writer, uint64_t sequence, uint32_t count)
{
    return (struct lh_batch_header){
        .crc = (uint32_t)(sequence * 7 + writer),
        .size = LH_BATCH_HEADER_BYTES + 10 * count,
        .count = count,
        .writer = writer,
        .sequence = sequence,
    };
}

static bool note(struct lh_writers **w, struct lh_batch_header h, uint64_t offset)
{
    return lh_writers_note(w, &h, offset);
}

static enum lh_sequence classify(
    const struct lh_writers *w, struct lh_batch_header h, uint64_t opened_at, uint64_t *offset)
{
    const struct lh_stored_batch *found = NULL;
    enum lh_sequence s = lh_writers_classify(w, &h, opened_at, &found);

    assert_true((s == LH_SEQUENCE_REPEAT) == (found != NULL));
    if (found != NULL && offset != NULL)
        *offset = found->offset;
    return s;
}

static void a_new_writer_begins_where_it_opened(void **state)
{
    (void)state;
    struct lh_writers *w = NULL;
    assert_null(lh_writers_find(w, 1));
    assert_int_equal(classify(w, batch(1, 5, 2), 5, NULL), LH_SEQUENCE_NEXT);
    assert_int_equal(classify(w, batch(1, 6, 2), 5, NULL), LH_SEQUENCE_GAP);
    assert_int_equal(classify(w, batch(1, 4, 2), 5, NULL), LH_SEQUENCE_OTHER);
    assert_true(note(&w, batch(1, 5, 2), 0));
    assert_int_equal(lh_writers_find(w, 1)->first, 5);
    assert_int_equal(lh_writers_find(w, 1)->last, 6);
    /* From then on what is stored counts, not what a later opening says. */
    assert_int_equal(classify(w, batch(1, 7, 1), 99, NULL), LH_SEQUENCE_NEXT);
    lh_writers_clear(&w);
    assert_null(lh_writers_find(w, 1));
}

static void a_break_of_the_sequence_is_not_noted(void **state)
{
    (void)state;
    struct lh_writers *w = NULL;
    assert_true(note(&w, batch(1, 1, 3), 0));
    assert_false(note(&w, batch(1, 5, 1), 100));
    assert_false(note(&w, batch(1, 3, 1), 100));
    assert_true(note(&w, batch(1, 4, 1), 100));
    assert_true(note(&w, batch(2, 17, 1), 200)); /* another writer's own numbers */
    assert_int_equal(lh_writers_find(w, 1)->last, 4);
    lh_writers_clear(&w);
}

static void a_whole_window_of_repeats_is_recognised(void **state)
{
    (void)state;
    struct lh_writers *w = NULL;
    for (uint64_t i = 0; i < 3 * LH_WRITER_WINDOW; i++)
        assert_true(note(&w, batch(1, 1 + 2 * i, 2), 1000 * i));
    uint64_t end = 3 * LH_WRITER_WINDOW;
    const struct lh_writer *writer = lh_writers_find(w, 1);
    assert_int_equal(writer->count, LH_WRITER_WINDOW);
    for (uint64_t i = end - LH_WRITER_WINDOW; i < end; i++) {
        uint64_t offset = 0;
        assert_int_equal(classify(w, batch(1, 1 + 2 * i, 2), 1, &offset), LH_SEQUENCE_REPEAT);
        assert_int_equal(offset, 1000 * i);
        assert_int_equal(
            lh_writer_recent(writer, (uint32_t)(i - (end - LH_WRITER_WINDOW)))->offset, 1000 * i);
    }
    /* Older than the window, or not as it was: never called a repeat. */
    assert_int_equal(classify(w, batch(1, 1, 2), 1, NULL), LH_SEQUENCE_OTHER);
    struct lh_batch_header other = batch(1, 2 * end - 1, 2);
    other.crc++;
    assert_int_equal(classify(w, other, 1, NULL), LH_SEQUENCE_OTHER);
    other = batch(1, 2 * end - 1, 1); /* framed otherwise */
    assert_int_equal(classify(w, other, 1, NULL), LH_SEQUENCE_OTHER);
    assert_int_equal(classify(w, batch(1, 2 * end, 1), 1, NULL), LH_SEQUENCE_OTHER);
    assert_int_equal(classify(w, batch(1, 2 * end + 1, 1), 1, NULL), LH_SEQUENCE_NEXT);
    assert_int_equal(classify(w, batch(1, 2 * end + 2, 1), 1, NULL), LH_SEQUENCE_GAP);
    lh_writers_clear(&w);
}

static void numbers_at_the_very_end_do_not_wrap_around(void **state)
{
    (void)state;
    struct lh_writers *w = NULL;
    assert_true(note(&w, batch(1, UINT64_MAX - 2, 2), 0)); /* the last that a header may hold */
    assert_int_equal(lh_writers_find(w, 1)->last, UINT64_MAX - 1);
    assert_int_equal(classify(w, batch(1, 0, 1), 0, NULL), LH_SEQUENCE_OTHER);
    assert_int_equal(classify(w, batch(1, 1, 1), 0, NULL), LH_SEQUENCE_OTHER);
    lh_writers_clear(&w);
}

/* The table as it is on both sides of each of its bounds: one writer and more, few of them and so
 * many that there is an index, and a ring of each size in each of them. Numbers of writers are
 * dense, or far apart. */
static void tables_of_any_size_find_the_same(void **state)
{
    (void)state;
    const size_t most = 4 * LH_WRITERS_FEW + 1;
    for (uint64_t step = 1; step < UINT64_C(1) << 56; step <<= 21) {
        struct lh_writers *w = NULL;
        for (uint64_t i = 1; i <= most; i++) {
            uint64_t batches = i % (LH_WRITER_WINDOW + 3) + 1;
            for (uint64_t k = 0; k < batches; k++)
                assert_true(note(&w, batch(i * step, 1 + k, 1), 1000 * i + k));
            assert_int_equal(lh_writers_count(w), i);
            assert_null(lh_writers_find(w, (i + 1) * step));
            for (uint64_t j = 1; j <= i; j++) {
                const struct lh_writer *writer = lh_writers_find(w, j * step);
                uint64_t of_j = j % (LH_WRITER_WINDOW + 3) + 1, offset = 0;
                assert_int_equal(writer->id, j * step);
                assert_int_equal(writer->first, 1);
                assert_int_equal(writer->last, of_j);
                assert_int_equal(
                    classify(w, batch(j * step, of_j, 1), 1, &offset), LH_SEQUENCE_REPEAT);
                assert_int_equal(offset, 1000 * j + of_j - 1);
            }
        }
        lh_writers_clear(&w);
        assert_int_equal(lh_writers_count(w), 0);
    }
}

/* Writers 1 to `count`, in turn, so many batches of each; batch number i of all lies at 10 * i. */
static struct lh_writers *table_of(uint64_t count, uint64_t batches)
{
    struct lh_writers *w = NULL;

    for (uint64_t i = 0; i < count * batches; i++)
        assert_true(note(&w, batch(1 + i % count, 1 + i / count, 1), 10 * i));
    return w;
}

/* Whatever the table's size is, and wherever it is cut. */
static void a_cut_leaves_what_lies_before_it(void **state)
{
    (void)state;
    static const uint64_t counts[] = {
        1, 2, 3, LH_WRITERS_FEW - 1, LH_WRITERS_FEW, LH_WRITERS_FEW + 1, 3 * LH_WRITERS_FEW};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (uint64_t batches = 1; batches <= 5; batches++) {
            for (uint64_t left = 0; left <= counts[c] * batches; left++) {
                struct lh_writers *w = table_of(counts[c], batches);
                assert_true(lh_writers_cut(&w, 10 * left));
                assert_int_equal(lh_writers_count(w), left < counts[c] ? left : counts[c]);
                for (uint64_t id = 1; id <= counts[c]; id++) {
                    const struct lh_writer *writer = lh_writers_find(w, id);
                    uint64_t has = left / counts[c] + (id <= left % counts[c] ? 1 : 0);
                    assert_true((writer == NULL) == (has == 0));
                    if (has == 0)
                        continue;
                    assert_int_equal(writer->last, has);
                    assert_int_equal(writer->count, has);
                }
                /* And it goes on from there, with writers old and new. */
                for (uint64_t id = counts[c] + 1; id > 0; id--) {
                    const struct lh_writer *writer = lh_writers_find(w, id);
                    uint64_t next = writer == NULL ? 1 : writer->last + 1;
                    assert_true(note(&w, batch(id, next, 1), 10 * (left + counts[c] - id + 1)));
                    assert_int_equal(lh_writers_find(w, id)->last, next);
                }
                assert_int_equal(lh_writers_count(w), counts[c] + 1);
                assert_true(lh_writers_cut(&w, 0));
                assert_null(w);
            }
        }
    }
}

static void a_cut_behind_which_more_may_lie_is_told(void **state)
{
    (void)state;
    const uint64_t batches = LH_WRITER_WINDOW + 1; /* the first is forgotten */
    for (uint64_t count = 1; count <= LH_WRITERS_FEW + 1; count += LH_WRITERS_FEW) {
        struct lh_writers *w = table_of(count, batches);
        assert_true(lh_writers_cut(&w, 10 * (2 * count)));
        assert_int_equal(lh_writers_count(w), count);
        assert_int_equal(lh_writers_find(w, 1)->last, 2);
        assert_false(lh_writers_cut(&w, 10 * count));
        lh_writers_clear(&w);

        w = table_of(count, batches);
        assert_false(lh_writers_cut(&w, 0));
        lh_writers_clear(&w);
        assert_null(w);
    }
    struct lh_writers *none = NULL;
    assert_true(lh_writers_cut(&none, 0));
    lh_writers_clear(&none);
}

/* A ring that has gone round and was cut is filled again. */
static void a_ring_that_was_cut_goes_round_again(void **state)
{
    (void)state;
    for (uint64_t left = 1; left < LH_WRITER_WINDOW; left++) {
        struct lh_writers *w = table_of(1, 2 * LH_WRITER_WINDOW + 3);
        uint64_t end = LH_WRITER_WINDOW + 3 + left;
        assert_true(lh_writers_cut(&w, 10 * end));
        for (uint64_t i = end; i < end + 2 * LH_WRITER_WINDOW; i++) {
            assert_true(note(&w, batch(1, 1 + i, 1), 10 * i));
            const struct lh_writer *writer = lh_writers_find(w, 1);
            uint64_t remembered = left + (i + 1 - end);
            if (remembered > LH_WRITER_WINDOW)
                remembered = LH_WRITER_WINDOW;
            assert_int_equal(writer->count, remembered);
            for (uint32_t k = 0; k < writer->count; k++)
                assert_int_equal(lh_writer_recent(writer, k)->sequence, i + 2 - remembered + k);
        }
        lh_writers_clear(&w);
    }
}

int main(void)
{
    const struct CMUnitTest stories[] = {
        cmocka_unit_test(everything_that_was_written_is_read_back),
        cmocka_unit_test(the_bytes_are_those_of_the_format),
        cmocka_unit_test(the_newer_of_two_slots_counts),
        cmocka_unit_test(a_torn_write_leaves_the_older_header),
        cmocka_unit_test(no_rotten_bit_goes_unnoticed),
        cmocka_unit_test(short_empty_and_foreign_files_are_told_apart),
        cmocka_unit_test(a_newer_format_is_left_alone),
        cmocka_unit_test(a_new_writer_begins_where_it_opened),
        cmocka_unit_test(a_break_of_the_sequence_is_not_noted),
        cmocka_unit_test(a_whole_window_of_repeats_is_recognised),
        cmocka_unit_test(numbers_at_the_very_end_do_not_wrap_around),
        cmocka_unit_test(tables_of_any_size_find_the_same),
        cmocka_unit_test(a_cut_leaves_what_lies_before_it),
        cmocka_unit_test(a_cut_behind_which_more_may_lie_is_told),
        cmocka_unit_test(a_ring_that_was_cut_goes_round_again),
    };
    return cmocka_run_group_tests(stories, NULL, NULL);
}
