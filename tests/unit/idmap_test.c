/* Records by number, against a plain array of what should be there. */
#include "base/alloc.h"
#include "base/idmap.h"
#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define NUMBERS 4000u

struct record {
    uint64_t id;
    bool there;
};

static struct record records[NUMBERS];

static const struct record *expected_from(uint64_t id)
{
    for (; id < NUMBERS; id++)
        if (records[id].there)
            return &records[id];
    return NULL;
}

static uint32_t word_of(uint64_t id)
{
    return (uint32_t)(id * 7 + 1);
}

static void check(const struct lh_idmap *map)
{
    const struct record *record, *expected = expected_from(0);
    size_t count = 0;

    LH_IDMAP_FOREACH(record, map) {
        assert_ptr_equal(record, expected);
        if (map->words)
            assert_int_equal(*lh_idmap_word(map, record->id), word_of(record->id));
        expected = expected_from(record->id + 1);
        count++;
    }
    assert_null(expected);
    assert_int_equal(count, map->count);
}

static void change(struct lh_idmap *map, uint64_t id)
{
    struct record *record = &records[id];

    record->id = id;
    if (record->there)
        lh_idmap_remove(map, record);
    else
        lh_idmap_add(map, record);
    record->there = !record->there;
    if (!map->words)
        return;
    uint32_t *word = lh_idmap_word(map, id);
    assert_int_equal(word != NULL, record->there);
    if (word != NULL) {
        assert_int_equal(*word, 0);
        *word = word_of(id);
    }
}

static void forget(struct lh_idmap *map)
{
    lh_idmap_deinit(map);
    for (size_t i = 0; i < NUMBERS; i++)
        records[i].there = false;
}

/* Grows and shrinks again and again, with dense and with sparse numbers. */
static void random_changes(void **state)
{
    struct lh_prng prng = {7};
    struct lh_idmap map = {.words = true};

    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        uint64_t width = round % 3 == 0 ? NUMBERS : round % 3 == 1 ? 300 : 40;
        uint64_t from = lh_prng_next(&prng) % (NUMBERS - width + 1);
        for (unsigned i = 0; i < 2000; i++) {
            uint64_t id = from + lh_prng_next(&prng) % width;
            if (!records[id].there || round % 2 == 1)
                change(&map, id);
            id = lh_prng_next(&prng) % NUMBERS;
            assert_ptr_equal(lh_idmap_from(&map, id), expected_from(id));
            assert_ptr_equal(lh_idmap_find(&map, id), records[id].there ? &records[id] : NULL);
        }
        check(&map);
    }
    for (uint64_t id = 0; id < NUMBERS; id++)
        if (records[id].there)
            change(&map, id);
    check(&map);
    assert_int_equal(map.place_count, 0);
    forget(&map);
}

/* Rising numbers fill each page. */
static void rising(void **state)
{
    struct lh_idmap map = {0};

    (void)state;
    for (uint64_t id = 0; id < NUMBERS; id++)
        change(&map, id);
    check(&map);
    assert_int_equal(map.place_count, (NUMBERS + 254) / 255);
    assert_null(lh_idmap_from(&map, NUMBERS));
    assert_null(lh_idmap_find(&map, UINT64_MAX));
    forget(&map);
}

/* Found by a fuzzer: a loop over them began again behind the last one. */
static void the_last_number_there_is(void **state)
{
    uint64_t first = 0, last = UINT64_MAX, seen = 0;
    struct lh_idmap map = {0};
    const uint64_t *record;

    (void)state;
    lh_idmap_add(&map, &last);
    lh_idmap_add(&map, &first);
    LH_IDMAP_FOREACH(record, &map)
        assert_true(++seen <= 2);
    assert_int_equal(seen, 2);
    lh_idmap_deinit(&map);
}

/* What is left of many does not keep their pages. */
static void thinned_out(void **state)
{
    struct lh_idmap map = {.words = true};

    (void)state;
    for (uint64_t id = 0; id < NUMBERS; id++)
        change(&map, id);
    for (uint64_t id = 0; id < NUMBERS; id++)
        if (id % 40 != 0)
            change(&map, id);
    check(&map);
    assert_in_range(map.place_count, 1, 2);
    forget(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_changes),
        cmocka_unit_test(rising),
        cmocka_unit_test(the_last_number_there_is),
        cmocka_unit_test(thinned_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
