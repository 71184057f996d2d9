/* Stories about the small things that everything stands on: bufs, local time, errors, effects,
 * checksums, the generator. */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/prng.h"
#include "base/seal.h"
#include "base/step.h"
#include "base/text.h"
#include "base/time.h"
#include "base/timers.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_bytes(const struct lh_buf *b, const char *expected)
{
    char got[256];
    size_t size = strlen(expected);

    assert_int_equal(b->size, size);
    assert_true(lh_buf_read(b, 0, got, size));
    assert_memory_equal(got, expected, size);
}

/* "abcdefghij" in slices of `step` bytes. */
static struct lh_buf alphabet(size_t step)
{
    static const char text[] = "abcdefghij";
    struct lh_buf b = {0};

    for (size_t at = 0; at < 10; at += step) {
        struct lh_buf part = lh_buf_copy(text + at, 10 - at < step ? 10 - at : step);
        lh_buf_append(&b, &part, 0, part.size);
        lh_buf_clear(&part);
    }
    return b;
}

static void buf_reads_as_one_run_however_it_is_sliced(void **state)
{
    (void)state;
    for (size_t step = 1; step <= 10; step++) {
        struct lh_buf b = alphabet(step);
        assert_int_equal(b.count, (10 + step - 1) / step);
        assert_bytes(&b, "abcdefghij");

        for (size_t from = 0; from <= 10; from++) {
            for (size_t size = 0; size <= 10 - from; size++) {
                char got[10];
                assert_true(lh_buf_read(&b, from, got, size));
                assert_memory_equal(got, &"abcdefghij"[from], size);
                assert_int_equal(
                    lh_buf_crc32c(&b, from, size, 0), lh_crc32c(0, &"abcdefghij"[from], size));
            }
        }
        lh_buf_clear(&b);
        assert_int_equal(b.size, 0);
    }
}

static void buf_refuses_to_read_past_its_end(void **state)
{
    struct lh_buf b = alphabet(3);
    char got[16] = "untouched";

    (void)state;
    assert_false(lh_buf_read(&b, 0, got, 11));
    assert_false(lh_buf_read(&b, 10, got, 1));
    assert_false(lh_buf_read(&b, 11, got, 0));
    assert_false(lh_buf_read(&b, 5, got, SIZE_MAX));
    assert_true(lh_buf_read(&b, 10, got, 0));
    assert_string_equal(got, "untouched");
    lh_buf_clear(&b);
}

static void buf_parts_share_the_bytes_and_outlive_the_whole(void **state)
{
    struct lh_buf whole = alphabet(4);
    struct lh_buf part = {0};

    (void)state;
    lh_buf_append(&part, &whole, 3, 4);
    struct lh_buf again = lh_buf_ref(&part);
    const uint8_t *shared = lh_buf_slices(&part)[0].data;
    assert_ptr_equal(shared, lh_buf_slices(&whole)[0].data + 3);

    lh_buf_clear(&whole);
    assert_bytes(&part, "defg");
    lh_buf_clear(&part);
    assert_bytes(&again, "defg");
    lh_buf_clear(&again);
}

struct counted_block {
    struct lh_block block;
    int released;
};

static void count_release(struct lh_block *block)
{
    ((struct counted_block *)block)->released++;
}

static void block_is_released_once_by_its_last_owner(void **state)
{
    struct counted_block c = {.block = {.references = 1, .release = count_release}};
    struct lh_buf b = {0};

    (void)state;
    lh_buf_push(&b, &c.block, (const uint8_t *)"xyz", 3);
    struct lh_buf other = lh_buf_ref(&b);
    lh_buf_clear(&b);
    assert_int_equal(c.released, 0);
    lh_buf_clear(&other);
    assert_int_equal(c.released, 1);

    /* An empty slice is not kept, and neither is its reference. */
    atomic_store(&c.block.references, 1);
    lh_buf_push(&b, &c.block, (const uint8_t *)"", 0);
    assert_int_equal(c.released, 2);
    assert_int_equal(b.count, 0);
}

static void buf_take_leaves_nothing_behind(void **state)
{
    struct lh_buf b = alphabet(1); /* on the heap: more slices than fit inline */

    (void)state;
    struct lh_buf taken = lh_buf_take(&b);
    assert_int_equal(b.size, 0);
    assert_int_equal(b.count, 0);
    lh_buf_clear(&b);
    assert_bytes(&taken, "abcdefghij");
    lh_buf_clear(&taken);
}

static void time_saturates_and_never_wraps_into_the_past(void **state)
{
    struct lh_instant late = {UINT64_MAX - 5};

    (void)state;
    assert_true(lh_instant_add(late, lh_nanoseconds(5)).ns == UINT64_MAX);
    assert_true(lh_instant_add(late, lh_nanoseconds(6)).ns == UINT64_MAX);
    assert_true(lh_instant_add(late, LH_DURATION_FOREVER).ns == UINT64_MAX);
    assert_true(lh_instant_add(late, lh_nanoseconds(4)).ns == UINT64_MAX - 1);
    assert_true(lh_milliseconds(UINT64_MAX).ns == UINT64_MAX);
    assert_true(lh_seconds(UINT64_MAX / 1000000000u + 1).ns == UINT64_MAX);
    assert_true(lh_seconds(UINT64_MAX / 1000000000u).ns < UINT64_MAX);
    assert_true(lh_duration_add(LH_DURATION_FOREVER, lh_seconds(1)).ns == UINT64_MAX);
}

static void time_left_until_the_past_is_nothing(void **state)
{
    struct lh_instant a = {1000}, b = {1500};

    (void)state;
    assert_int_equal(lh_instant_until(a, b).ns, 500);
    assert_int_equal(lh_instant_until(b, a).ns, 0);
    assert_int_equal(lh_instant_until(a, a).ns, 0);
    assert_true(lh_instant_until((struct lh_instant){0}, LH_INSTANT_NEVER).ns == UINT64_MAX);
}

static void deadline_has_come_at_the_deadline_itself(void **state)
{
    struct lh_instant deadline = {1000};

    (void)state;
    assert_false(lh_instant_reached((struct lh_instant){999}, deadline));
    assert_true(lh_instant_reached((struct lh_instant){1000}, deadline));
    assert_true(lh_instant_before((struct lh_instant){999}, deadline));
    assert_false(lh_instant_before(deadline, deadline));
    assert_false(lh_instant_reached((struct lh_instant){UINT64_MAX - 1}, LH_INSTANT_NEVER));
}

static void milliseconds_shown_are_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(lh_duration_ms(lh_nanoseconds(0)), 0);
    assert_int_equal(lh_duration_ms(lh_nanoseconds(1)), 1);
    assert_int_equal(lh_duration_ms(lh_nanoseconds(1000000)), 1);
    assert_int_equal(lh_duration_ms(lh_nanoseconds(1000001)), 2);
    assert_true(lh_duration_ms(LH_DURATION_FOREVER) == UINT64_MAX / 1000000 + 1);
}

static void every_error_has_a_name_a_text_and_a_wire_number(void **state)
{
    (void)state;
#define X(name, number, grpc, advice, text)                                                        \
    assert_string_equal(lh_error_name(LH_ERR_##name), #name);                                      \
    assert_string_equal(lh_error_text(LH_ERR_##name), text);                                       \
    assert_int_equal(lh_error_grpc(LH_ERR_##name), grpc);                                          \
    assert_int_equal(lh_error_advice(LH_ERR_##name), LH_##advice);                                 \
    assert_int_equal(lh_error_from_wire((number)), LH_ERR_##name);
    LH_ERRORS(X)
#undef X
#define X(name, number, grpc, advice, text) assert_in_range(number, 1, LH_ERROR_NUMBERS - 1);
    LH_ERRORS(X)
#undef X
    assert_string_equal(lh_error_name(LH_OK), "OK");
    assert_int_equal(lh_error_grpc(LH_OK), 0);
    assert_int_equal(lh_error_from_wire(0), LH_OK);
}

static void unknown_errors_are_survived(void **state)
{
    (void)state;
    assert_string_equal(lh_error_name(-9999), "UNKNOWN");
    assert_string_equal(lh_error_name(7), "UNKNOWN");
    assert_string_equal(lh_error_name(-2147483647 - 1), "UNKNOWN");
    assert_string_equal(lh_error_text(-9999), "unknown error");
    assert_int_equal(lh_error_grpc(-9999), 2);
    assert_int_equal(lh_error_advice(-9999), LH_GIVE_UP);
    assert_int_equal(lh_error_from_wire(9999), LH_ERR_SYSTEM);
    assert_int_equal(lh_error_from_wire(UINT32_MAX), LH_ERR_SYSTEM);
}

static void system_errors_map_to_what_a_caller_can_act_on(void **state)
{
    (void)state;
    assert_int_equal(lh_error_from_errno(0), LH_OK);
    assert_int_equal(lh_error_from_errno(ENOSPC), LH_ERR_DISK_FULL);
    assert_int_equal(lh_error_from_errno(EDQUOT), LH_ERR_DISK_FULL);
    assert_int_equal(lh_error_from_errno(EIO), LH_ERR_IO);
    assert_int_equal(lh_error_from_errno(ENOENT), LH_ERR_NOT_FOUND);
    assert_int_equal(lh_error_from_errno(EXDEV), LH_ERR_SYSTEM);
    static const int shortages[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, EAGAIN};
    for (size_t i = 0; i < sizeof shortages / sizeof shortages[0]; i++)
        assert_int_equal(lh_error_from_errno(shortages[i]), LH_ERR_SHORTAGE);
}

static void effects_keep_their_order_and_own_their_parts(void **state)
{
    struct lh_effects fx = {0};
    char address[] = "cs1:7000";
    struct lh_buf bytes = lh_buf_copy("batch", 5);

    (void)state;
    lh_fx_open(&fx, 7, LH_METHOD_READ, address, lh_seconds(1));
    address[0] = 'X'; /* the effect has a copy */
    lh_fx_disk(&fx, 3, 9, LH_DISK_WRITE, 100, 5, &bytes);
    assert_int_equal(bytes.size, 0); /* taken over */
    lh_fx_hold(&fx, 7);
    lh_fx_unhold(&fx, 7);
    lh_fx_close(&fx, 7, LH_ERR_CANCELLED, NULL);
    lh_fx_log(&fx, LH_WARN, "chunk %d", 9);
    for (int i = 0; i < 50; i++) /* past the first allocation */
        lh_fx_complete(&fx, NULL, i);
    lh_fx_stopped(&fx, LH_OK);
    char token[] = "secret.1";
    lh_fx_open_with_token(&fx, 8, LH_METHOD_ETCD_TXN, "etcd:2379", lh_seconds(2), token);
    token[0] = 'X';
    lh_fx_open_with_token(&fx, 9, LH_METHOD_ETCD_TXN, "etcd:2379", lh_seconds(2), NULL);

    assert_int_equal(fx.count, 59);
    assert_int_equal(fx.items[0].kind, LH_FX_OPEN);
    assert_string_equal(fx.items[0].text, "cs1:7000");
    assert_int_equal(fx.items[0].timeout.ns, 1000000000);
    assert_int_equal(fx.items[1].kind, LH_FX_DISK);
    assert_bytes(&fx.items[1].payload, "batch");
    assert_int_equal(fx.items[2].kind, LH_FX_HOLD);
    assert_int_equal(fx.items[3].kind, LH_FX_UNHOLD);
    assert_int_equal(fx.items[4].error, LH_ERR_CANCELLED);
    assert_null(fx.items[4].text);
    assert_string_equal(fx.items[5].text, "chunk 9");
    assert_int_equal(fx.items[55].error, 49);
    assert_int_equal(fx.items[56].kind, LH_FX_STOPPED);
    assert_int_equal(fx.items[57].kind, LH_FX_OPEN);
    assert_int_equal(fx.items[57].method, LH_METHOD_ETCD_TXN);
    assert_string_equal(fx.items[57].text, "etcd:2379");
    assert_int_equal(fx.items[57].timeout.ns, 2000000000);
    assert_string_equal(fx.items[57].token, "secret.1");
    assert_null(fx.items[58].token);

    lh_effects_clear(&fx);
    assert_int_equal(fx.count, 0);
    lh_effects_deinit(&fx);
}

static void persisted_changes_join_the_batch_opened_last(void **state)
{
    struct lh_effects fx = {0};

    (void)state;
    lh_fx_persist(&fx, 1);
    lh_fx_put(&fx, "k1", 2, "value", 5);
    lh_fx_delete(&fx, "k2", 2);
    lh_fx_persist(&fx, 2);
    lh_fx_put(&fx, "k3", 2, "", 0);

    assert_int_equal(fx.count, 2);
    assert_int_equal(fx.items[0].ticket, 1);
    assert_int_equal(fx.items[0].change_count, 2);
    assert_memory_equal(fx.items[0].changes[0].value, "value", 5);
    assert_null(fx.items[0].changes[1].value); /* a delete */
    assert_int_equal(fx.items[1].change_count, 1);
    assert_non_null(fx.items[1].changes[0].value); /* an empty value is no delete */
    assert_int_equal(fx.items[1].changes[0].value_size, 0);
    lh_effects_deinit(&fx);
}

static void long_log_lines_are_cut_not_overrun(void **state)
{
    struct lh_effects fx = {0};
    char line[2000];

    (void)state;
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    lh_fx_log(&fx, LH_INFO, "%s", line);
    assert_int_equal(strlen(fx.items[0].text), 511);
    lh_effects_deinit(&fx);
}

static void crc32c_is_castagnolis_and_continues(void **state)
{
    uint8_t zeros[32] = {0};

    (void)state;
    assert_int_equal(lh_crc32c(0, "", 0), 0);
    assert_int_equal(lh_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(lh_crc32c(0, zeros, sizeof zeros), 0x8a9136aau); /* RFC 3720, B.4 */
    assert_int_equal(lh_crc32c(lh_crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
}

static enum lh_seal look(uint8_t *pair, size_t key_size, size_t size)
{
    size_t value_size = size - key_size;
    uint64_t hash;

    return lh_seal_look(pair, key_size, pair + key_size, &value_size, &hash);
}

static void seal_sees_each_bit_of_key_and_value(void **state)
{
    uint8_t pair[8 + LH_SEAL_BYTES] = "keyvalue";
    size_t size = 5 + LH_SEAL_BYTES;
    uint64_t hash;

    (void)state;
    assert_int_equal(look(pair, 3, 8), LH_SEAL_NONE);
    lh_seal_write(pair + 8, lh_seal_hash("key", 3, "value", 5));
    assert_int_equal(lh_seal_look("key", 3, pair + 3, &size, &hash), LH_SEAL_FITS);
    assert_int_equal(size, 5);
    assert_int_equal(hash, lh_seal_hash("key", 3, "value", 5));
    for (size_t bit = 0; bit < 8 * sizeof pair; bit++) {
        pair[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(look(pair, 3, sizeof pair), LH_SEAL_FITS);
        pair[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(look(pair, 3, sizeof pair), LH_SEAL_FITS);
    assert_int_equal(look(pair, 4, sizeof pair), LH_SEAL_BROKEN); /* a byte is the key's */
    size = LH_SEAL_BYTES;
    lh_seal_write(pair, lh_seal_hash("k", 1, NULL, 0));
    assert_int_equal(lh_seal_look("k", 1, pair, &size, &hash), LH_SEAL_FITS);
    assert_int_equal(size, 0);
}

static void same_seed_same_numbers_all_below_the_bound(void **state)
{
    struct lh_prng a = {42}, b = {42}, c = {43};
    int differ = 0;

    (void)state;
    assert_true(lh_prng_next(&(struct lh_prng){0}) == 0xe220a8397b1dcdafu); /* reference value */
    for (int i = 0; i < 1000; i++) {
        uint64_t x = lh_prng_next(&a);
        assert_true(x == lh_prng_next(&b));
        differ += x != lh_prng_next(&c);
        assert_true(lh_prng_below(&a, 10) < 10);
        lh_prng_next(&b);
    }
    assert_true(differ > 990);
    assert_int_equal(lh_prng_below(&a, 0), 0);
    assert_int_equal(lh_prng_below(&a, 1), 0);
}

static void arrays_grow_by_doubling(void **state)
{
    int *items = NULL;
    uint32_t capacity = 0;

    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        LH_GROW(items, capacity, i + 1);
        items[i] = (int)i;
    }
    assert_int_equal(capacity, 128);
    assert_int_equal(items[99], 99);
    free(items);
}

static void expect_shown(const char *text, const char *shown)
{
    char to[64];

    assert_int_equal(lh_text_show(to, sizeof to, text), strlen(shown));
    assert_string_equal(to, shown);
}

static void text_is_shown_as_what_it_is(void **state)
{
    char to[8], mended[] = "\xc3\xa4\xc3.\xed\xa0\x80\xf0\x9f\x98\x80";

    (void)state;
    expect_shown("/a b\xc3\xa4\xf0\x9f\x98\x80", "/a b\xc3\xa4\xf0\x9f\x98\x80");
    expect_shown("\x1b[2J\n\x7f", "\\x1b[2J\\x0a\\x7f");
    expect_shown("\xc2\x9b"
                 "1m",
        "\\u009b1m");
    expect_shown("\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "\\u061c\\u200e\\u200f");
    expect_shown("\xe2\x80\xa8\xe2\x80\xaa\xe2\x80\xae", "\\u2028\\u202a\\u202e");
    expect_shown("\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa", "\\u2066\\u2069\xe2\x81\xaa");
    /* Overlong forms, surrogates, beyond the last character, cut off, a continuation alone. */
    expect_shown("\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82",
        "\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80\\xe2\\x82");
    /* Cut to whole ones. */
    assert_int_equal(lh_text_show(to, sizeof to, "123456\xc3\xa4"), 6);
    assert_int_equal(lh_text_show(to, sizeof to, "1234\x01"), 4);
    assert_string_equal(to, "1234");
    assert_int_equal(lh_text_show(to, 0, "1"), 0);

    assert_false(lh_utf8_is_valid(mended, strlen(mended)));
    lh_utf8_mend(mended, strlen(mended));
    assert_string_equal(mended, "\xc3\xa4?.???\xf0\x9f\x98\x80");
    assert_true(lh_utf8_is_valid(mended, strlen(mended)));
}

/* Timers of a small core. */
struct alarm {
    struct lh_timers timers;
    struct lh_timer a, b, c;
    struct lh_instant now;
    char fired[32];
};

static void fired(void *core, struct lh_timer *timer)
{
    struct alarm *w = core;
    char name[] = {timer == &w->a ? 'a' : timer == &w->b ? 'b' : 'c', 0};

    strcat(w->fired, name);
}

static void fired_and_set_again(void *core, struct lh_timer *timer)
{
    struct alarm *w = core;

    fired(core, timer);
    if (strlen(w->fired) < 8)
        lh_timer_set(&w->timers, timer, w->now);
}

static void timers_fire_in_the_order_of_time_and_then_of_setting(void **state)
{
    struct alarm w = {.a.fire = fired, .b.fire = fired, .c.fire = fired, .now = {7}};

    (void)state;
    lh_timer_set(&w.timers, &w.c, (struct lh_instant){5});
    lh_timer_set(&w.timers, &w.b, (struct lh_instant){7});
    lh_timer_set(&w.timers, &w.a, (struct lh_instant){7});
    assert_int_equal(lh_timers_next(&w.timers).ns, 5);
    lh_timers_fire(&w.timers, &w, w.now);
    assert_string_equal(w.fired, "cba");
    assert_false(lh_timer_is_set(&w.a));
    assert_int_equal(lh_timers_next(&w.timers).ns, LH_INSTANT_NEVER.ns);

    lh_timer_set(&w.timers, &w.a, (struct lh_instant){9});
    lh_timer_set(&w.timers, &w.b, (struct lh_instant){8});
    lh_timer_set(&w.timers, &w.a, LH_INSTANT_NEVER);
    lh_timers_fire(&w.timers, &w, (struct lh_instant){20});
    assert_string_equal(w.fired, "cbab");
    lh_timers_deinit(&w.timers);
}

static void a_bounded_queue_leaves_what_is_set_meanwhile_to_the_next_step(void **state)
{
    struct alarm w = {.a.fire = fired_and_set_again, .b.fire = fired, .now = {7}};

    (void)state;
    w.timers.bounded = true;
    lh_timer_set(&w.timers, &w.a, w.now);
    lh_timer_set(&w.timers, &w.b, w.now);
    lh_timers_fire(&w.timers, &w, w.now);
    assert_string_equal(w.fired, "ab");
    assert_int_equal(lh_timers_next(&w.timers).ns, 7);
    lh_timers_fire(&w.timers, &w, w.now);
    assert_string_equal(w.fired, "aba");

    w.timers.bounded = false;
    lh_timers_fire(&w.timers, &w, w.now);
    assert_string_equal(w.fired, "abaaaaaa");
    lh_timers_deinit(&w.timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf_reads_as_one_run_however_it_is_sliced),
        cmocka_unit_test(buf_refuses_to_read_past_its_end),
        cmocka_unit_test(buf_parts_share_the_bytes_and_outlive_the_whole),
        cmocka_unit_test(block_is_released_once_by_its_last_owner),
        cmocka_unit_test(buf_take_leaves_nothing_behind),
        cmocka_unit_test(time_saturates_and_never_wraps_into_the_past),
        cmocka_unit_test(time_left_until_the_past_is_nothing),
        cmocka_unit_test(deadline_has_come_at_the_deadline_itself),
        cmocka_unit_test(milliseconds_shown_are_rounded_up),
        cmocka_unit_test(every_error_has_a_name_a_text_and_a_wire_number),
        cmocka_unit_test(unknown_errors_are_survived),
        cmocka_unit_test(system_errors_map_to_what_a_caller_can_act_on),
        cmocka_unit_test(effects_keep_their_order_and_own_their_parts),
        cmocka_unit_test(persisted_changes_join_the_batch_opened_last),
        cmocka_unit_test(long_log_lines_are_cut_not_overrun),
        cmocka_unit_test(crc32c_is_castagnolis_and_continues),
        cmocka_unit_test(seal_sees_each_bit_of_key_and_value),
        cmocka_unit_test(same_seed_same_numbers_all_below_the_bound),
        cmocka_unit_test(arrays_grow_by_doubling),
        cmocka_unit_test(text_is_shown_as_what_it_is),
        cmocka_unit_test(timers_fire_in_the_order_of_time_and_then_of_setting),
        cmocka_unit_test(a_bounded_queue_leaves_what_is_set_meanwhile_to_the_next_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
