/* Stories of stores that are not what masters have written: pairs vouch for themselves, and the
 * master's record for all of them (PAIR-1, PAIR-2). */
#include "tests/core/master/master_story.h"

#include "base/alloc.h"
#include "base/seal.h"

static void some_files(void)
{
    three_up();
    make_file("/f");
    make_file("/g");
    make_file("/gone");
    world_advance(&w, 100);
    remove_file("/gone", 0, true);
    world_advance(&w, 100);
}

/* What a master that starts on the store says. */
static int loads(void)
{
    struct lh_master *running = w.m;
    int error = world_load(&w);

    if (error == LH_OK)
        lh_master_check(w.m);
    lh_master_destroy(w.m);
    w.m = running;
    return error;
}

static size_t index_of(char letter)
{
    for (size_t i = 0; i < w.store_count; i++)
        if (w.store[i].key[0] == (uint8_t)letter)
            return i;
    fail();
    return 0;
}

static LeaseholdStored__Master *record(void)
{
    const struct pair *pair = &w.store[index_of('M')];

    return lh_master_record_read(pair->value, pair->value_size);
}

static void any_bit_of_any_pair(void **state)
{
    (void)state;
    some_files();
    assert_int_equal(loads(), LH_OK);
    for (size_t i = 0; i < w.store_count; i++) {
        struct pair *pair = &w.store[i];
        size_t bytes = pair->key_size + pair->value_size;
        for (size_t bit = 0; bit < 8 * bytes; bit++) {
            uint8_t *byte = bit / 8 < pair->key_size ? &pair->key[bit / 8]
                                                     : &pair->value[bit / 8 - pair->key_size];
            *byte ^= (uint8_t)(1u << bit % 8);
            assert_int_not_equal(loads(), LH_OK);
            assert_true(strlen(w.load_text) > 20);
            *byte ^= (uint8_t)(1u << bit % 8);
        }
    }
    w.store[index_of('f')].value[3] ^= 1;
    assert_int_equal(loads(), LH_ERR_CORRUPT);
    assert_non_null(strstr(w.load_text, "file 1 is not what a master has written"));
    assert_non_null(strstr(w.load_text, "backup"));
}

static void a_pair_that_is_lost(void **state)
{
    (void)state;
    some_files();
    for (size_t i = 0; i < w.store_count; i++) {
        struct pair pair = w.store[i];
        memmove(&w.store[i], &w.store[i + 1], (--w.store_count - i) * sizeof pair);
        assert_int_equal(loads(), LH_ERR_CORRUPT);
        memmove(&w.store[i + 1], &w.store[i], (w.store_count++ - i) * sizeof pair);
        w.store[i] = pair;
    }
    assert_int_equal(loads(), LH_OK);
}

/* By an operator who meant well: its seal fits. */
static void a_pair_of_before_that_is_put_back(void **state)
{
    (void)state;
    some_files();
    struct pair *pair = &w.store[index_of('s')], before = *pair;
    before.value = malloc(pair->value_size);
    memcpy(before.value, pair->value, pair->value_size);
    a->registration++;
    up(a);
    pair = &w.store[index_of('s')];
    assert_true(memcmp(pair->value, before.value, before.value_size) != 0);
    assert_int_equal(loads(), LH_OK);
    free(pair->value);
    pair->value = before.value;
    pair->value_size = before.value_size;
    assert_int_equal(loads(), LH_ERR_CORRUPT);
    assert_non_null(strstr(w.load_text, "with another sum"));
}

/* Somebody has emptied it (PAIR-5). */
static void any_pair_is_written_again(void **state)
{
    (void)state;
    some_files();
    (void)index_of('n');
    for (size_t i = 0; i < w.store_count; i++) {
        uint32_t size = w.store[i].value_size;
        if (w.store[i].key[0] == 'M')
            continue; /* each commit has it */
        w.store[i].value_size = 0;
        lh_master_write_again(w.m, w.store[i].key, w.store[i].key_size);
        assert_true(server_heartbeat(&w, a));
        assert_int_equal(w.store[i].value_size, size);
        assert_int_equal(loads(), LH_OK);
    }
}

static void strip(struct pair *pair)
{
    size_t size = pair->value_size;
    uint64_t hash;

    assert_int_equal(
        lh_seal_look(pair->key, pair->key_size, pair->value, &size, &hash), LH_SEAL_FITS);
    pair->value_size = (uint32_t)size;
}

/* As releases before this one have left it. */
static void forget_seals(void)
{
    LeaseholdStored__Master *own = record();
    struct pair *pair = &w.store[index_of('M')];

    for (size_t i = 0; i < w.store_count; i++)
        strip(&w.store[i]);
    own->format = LH_MASTER_FORMAT_BARE;
    own->pairs = own->sum = 0;
    free(pair->value);
    pair->value = lh_master_record_write(own, &pair->value_size);
    leasehold_stored__master__free_unpacked(own, NULL);
}

static void a_store_of_an_earlier_release(void **state)
{
    (void)state;
    some_files();
    forget_seals();
    size_t pairs = w.store_count - 1;
    assert_int_equal(loads(), LH_OK);
    crash(); /* the first commit counts all, and is no larger than any */
    LeaseholdStored__Master *own = record();
    assert_int_equal(own->format, LH_MASTER_FORMAT);
    assert_int_equal(own->pairs, pairs + 1); /* the new reign, too */
    assert_in_range(own->bare, 1, pairs);
    leasehold_stored__master__free_unpacked(own, NULL);
    assert_int_equal(loads(), LH_OK);

    /* What no seal shows, the sum does. */
    struct pair *file = &w.store[index_of('f')];
    file->value[3] ^= 1;
    assert_int_equal(loads(), LH_ERR_CORRUPT);
    file->value[3] ^= 1;
    size_t last = --w.store_count;
    assert_int_equal(loads(), LH_ERR_CORRUPT);
    w.store_count = last + 1;
    crash();
    world_advance(&w, 100);
    assert_int_equal(loads(), LH_OK);
}

/* One of 65,536 pairs without a seal ends as if it had one. */
static void a_pair_of_an_earlier_release_that_looks_sealed(void **state)
{
    (void)state;
    some_files();
    forget_seals();
    struct pair *file = &w.store[index_of('f')];
    file->value = lh_realloc_array(file->value, file->value_size + LH_SEAL_BYTES, 1);
    lh_seal_write(file->value + file->value_size, 4711);
    file->value_size += LH_SEAL_BYTES;
    assert_int_equal(loads(), LH_OK);
    crash();
    assert_int_equal(loads(), LH_OK);
    file = &w.store[index_of('f')];
    file->value[file->value_size - 1] ^= 1;
    assert_int_equal(loads(), LH_ERR_CORRUPT);
}

/* A commit of the active master in which etcd has lost a change. */
static void a_change_that_a_watch_did_not_show(void **state)
{
    (void)state;
    some_files();
    struct lh_master *running = w.m;
    assert_int_equal(world_load(&w), LH_OK);
    struct lh_master *standby = w.m;
    w.m = running;
    a->registration++;
    up(a);
    const struct pair *m = &w.store[index_of('M')];
    struct lh_change commit[] = {{m->key, m->value, m->key_size, m->value_size}};
    char text[512];
    assert_int_equal(lh_master_amend(standby, commit, 1, text, sizeof text), LH_ERR_CORRUPT);
    assert_non_null(strstr(text, "sum"));
    lh_master_destroy(standby);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(any_bit_of_any_pair),
        STORY(a_pair_that_is_lost),
        STORY(a_pair_of_before_that_is_put_back),
        STORY(any_pair_is_written_again),
        STORY(a_pair_of_an_earlier_release_that_looks_sealed),
        STORY(a_store_of_an_earlier_release),
        STORY(a_change_that_a_watch_did_not_show),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
