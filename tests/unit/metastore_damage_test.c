/* A metadata store whose file was changed by a disk, by memory or by a hand: a master finds exactly
 * what was stored, or is refused with a sentence. It never ends by a signal, and never takes one
 * pair for another (PAIR-1, PAIR-2). Each pair has its seal here, and `M` counts them, as a
 * master's do; LH_RUNS says how many bits are flipped, one at a time, and LH_SEED where. */
#include "base/alloc.h"
#include "base/prng.h"
#include "base/seal.h"
#include "master/store/metastore_lmdb.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define KEYS 400u

static char directory[256];
static char why[512];
static uint8_t *whole; /* data.mdb as the store left it */
static size_t whole_size;

struct sum {
    uint64_t count, sum, recorded_count, recorded_sum;
    bool damaged;
};

static struct sum stored;

static void on_committed(void *arg, uint64_t ticket, int error, const char *text)
{
    (void)arg;
    (void)ticket;
    if (error != LH_OK)
        fprintf(stderr, "%s\n", text);
    assert_int_equal(error, LH_OK);
}

static int open_store(struct lh_metastore **store)
{
    why[0] = 0;
    return lh_metastore_lmdb_open(directory, 0, on_committed, NULL, store, why, sizeof why);
}

/* As the master's core looks at it. */
static int on_pair(
    void *arg, const void *key, size_t key_size, const void *value, size_t value_size)
{
    struct sum *s = arg;
    uint64_t hash;
    size_t size = value_size;

    if (lh_seal_look(key, key_size, value, &size, &hash) != LH_SEAL_FITS) {
        s->damaged = true;
        return LH_ERR_CORRUPT;
    }
    if (key_size == 1 && memcmp(key, "M", 1) == 0) {
        assert_int_equal(size, 16);
        memcpy(&s->recorded_count, value, 8);
        memcpy(&s->recorded_sum, (const uint8_t *)value + 8, 8);
        return LH_OK;
    }
    s->count++;
    s->sum += hash;
    return LH_OK;
}

static struct lh_change sealed(const char *key, size_t key_size, const uint8_t *value, size_t size)
{
    struct lh_change c = {.key = lh_alloc(key_size),
        .value = lh_alloc(size + LH_SEAL_BYTES),
        .key_size = (uint32_t)key_size,
        .value_size = (uint32_t)(size + LH_SEAL_BYTES)};

    memcpy(c.key, key, key_size);
    memcpy(c.value, value, size);
    lh_seal_write(c.value + size, lh_seal_hash(c.key, key_size, c.value, size));
    return c;
}

static struct lh_change *record_of(const struct sum *s)
{
    struct lh_change *c = lh_alloc(sizeof *c);
    uint8_t value[16];

    memcpy(value, &s->count, 8);
    memcpy(value + 8, &s->sum, 8);
    *c = sealed("M", 1, value, sizeof value);
    return c;
}

/* Some of the keys get other values, of which a few need pages of their own, and some go. */
static void commit_some(struct lh_metastore *store, struct lh_prng *prng, uint64_t *hashes)
{
    struct lh_change *changes = lh_alloc_array(40, sizeof *changes);
    uint8_t value[20000];
    char key[16];

    for (size_t i = 0; i < 40; i++) {
        uint64_t n = lh_prng_below(prng, 10) + 10 * i;
        size_t size = lh_prng_below(prng, 12) == 0 ? lh_prng_below(prng, sizeof value)
                                                   : lh_prng_below(prng, 200);
        int key_size = snprintf(key, sizeof key, "k%08u", (unsigned)n);
        stored.count -= hashes[n] != 0;
        stored.sum -= hashes[n];
        hashes[n] = 0;
        if (lh_prng_below(prng, 4) == 0) {
            changes[i] = (struct lh_change){
                .key = (uint8_t *)lh_strdup(key), .key_size = (uint32_t)key_size};
            continue;
        }
        for (size_t j = 0; j < size; j++)
            value[j] = (uint8_t)lh_prng_next(prng);
        changes[i] = sealed(key, (size_t)key_size, value, size);
        hashes[n] = lh_seal_hash(key, (size_t)key_size, value, size);
        stored.count++;
        stored.sum += hashes[n];
    }
    lh_metastore_commit(store, 1, changes, 40);
    lh_metastore_commit(store, 2, record_of(&stored), 1);
}

static void path_of(char *path, size_t size)
{
    snprintf(path, size, "%s/data.mdb", directory);
}

static void write_file(const uint8_t *bytes, size_t size)
{
    char path[300];

    path_of(path, sizeof path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* In memory, where there is such a place: there are thousands of files, and each is synced. */
static const char *where(void)
{
    const char *base = getenv("TEST_TMPDIR");

    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : base == NULL ? "/tmp" : base;
}

static int set_up(void **state)
{
    const char *base = where();
    struct lh_prng prng = {4};
    uint64_t hashes[KEYS] = {0};
    struct lh_metastore *store;
    char path[300];

    (void)state;
    memset(&stored, 0, sizeof stored);
    snprintf(directory, sizeof directory, "%s/damage.XXXXXX", base);
    if (mkdtemp(directory) == NULL)
        return 1;
    for (unsigned i = 0; i < 12; i++) { /* each in a transaction of its own */
        assert_int_equal(open_store(&store), LH_OK);
        commit_some(store, &prng, hashes);
        lh_metastore_close(store);
    }
    path_of(path, sizeof path);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    whole_size = (size_t)ftell(f);
    rewind(f);
    whole = lh_alloc(whole_size);
    assert_int_equal(fread(whole, 1, whole_size, f), whole_size);
    fclose(f);
    return 0;
}

static int tear_down(void **state)
{
    char command[300];

    (void)state;
    free(whole);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* What a master makes of the file. True: it serves what was stored. */
static bool serves(void)
{
    struct lh_metastore *store;
    struct sum s = {0};
    int error = open_store(&store);

    if (error != LH_OK) {
        assert_true(error == LH_ERR_CORRUPT || error == LH_ERR_WRONG_FORMAT);
        assert_true(strlen(why) > 20);
        return false;
    }
    error = lh_metastore_load(store, on_pair, &s, why, sizeof why);
    bool same = error == LH_OK && s.count == s.recorded_count && s.sum == s.recorded_sum;
    if (same) {
        assert_int_equal(s.count, stored.count);
        assert_int_equal(s.sum, stored.sum);
    }
    lh_metastore_close(store);
    return same;
}

/* And goes on to write: nothing of what is stored is written over. */
static void goes_on(void)
{
    struct sum before = stored, s = {0};
    struct lh_metastore *store;
    struct lh_prng prng = {9};

    for (unsigned i = 0; i < 3; i++) {
        struct lh_change *changes = lh_alloc_array(2, sizeof *changes);
        uint8_t value[9000] = {0};
        char key[] = "z0";
        key[1] = (char)('0' + i);
        size_t size = lh_prng_below(&prng, sizeof value);
        changes[0] = sealed(key, 2, value, size);
        stored.count++;
        stored.sum += lh_seal_hash(key, 2, value, size);
        struct lh_change *record = record_of(&stored);
        changes[1] = *record;
        free(record);
        assert_int_equal(open_store(&store), LH_OK);
        lh_metastore_commit(store, 1, changes, 2);
        lh_metastore_close(store);
    }
    assert_int_equal(open_store(&store), LH_OK);
    assert_int_equal(lh_metastore_load(store, on_pair, &s, why, sizeof why), LH_OK);
    assert_int_equal(s.count, stored.count);
    assert_int_equal(s.sum, stored.sum);
    lh_metastore_close(store);
    stored = before;
}

static uint64_t number(const char *name, uint64_t preset)
{
    const char *text = getenv(name);

    return text == NULL ? preset : strtoull(text, NULL, 10);
}

static void as_it_was_written(void **state)
{
    (void)state;
    assert_true(serves());
    goes_on();
}

/* Half of them where LMDB's own numbers are: at the beginning of a page. */
static void any_bit_flipped(void **state)
{
    struct lh_prng prng = {number("LH_SEED", 1)};
    uint64_t runs = number("LH_RUNS", 400), served = 0;

    (void)state;
    for (uint64_t i = 0; i < runs; i++) {
        uint64_t at = lh_prng_below(&prng, whole_size);
        if (i % 2 == 0)
            at = at / 4096 * 4096 + lh_prng_below(&prng, i % 4 == 0 ? 16 : 160);
        uint8_t bit = (uint8_t)(1u << lh_prng_below(&prng, 8));
        whole[at] ^= bit;
        write_file(whole, whole_size);
        if (serves() && served++ % 4 == 0)
            goes_on();
        whole[at] ^= bit;
    }
    print_message("%u of %u flips changed nothing\n", (unsigned)served, (unsigned)runs);
    assert_in_range(served, 1, runs - 1);
}

static void many_bits_flipped(void **state)
{
    struct lh_prng prng = {number("LH_SEED", 2)};
    uint8_t *damaged = lh_alloc(whole_size);

    (void)state;
    for (uint64_t i = number("LH_RUNS", 400) / 5; i > 0; i--) {
        memcpy(damaged, whole, whole_size);
        for (unsigned j = 0; j < 20; j++)
            damaged[lh_prng_below(&prng, whole_size)] ^= (uint8_t)(1u << lh_prng_below(&prng, 8));
        write_file(damaged, whole_size);
        (void)serves();
    }
    free(damaged);
}

static void cut_short(void **state)
{
    struct lh_prng prng = {number("LH_SEED", 3)};

    (void)state;
    for (size_t size = 1; size < whole_size; size += 1 + lh_prng_below(&prng, 8192)) {
        write_file(whole, size);
        assert_true(!serves() || size > whole_size / 2);
    }
    write_file(whole, whole_size / 2);
    assert_false(serves());
    assert_non_null(strstr(why, "it was cut short"));
    assert_non_null(strstr(why, "backup"));
}

/* A page from before: each pair in it fits, and the sum does not. */
static void page_of_before(void **state)
{
    (void)state;
    for (size_t to = 2; to < whole_size / 4096; to++)
        for (size_t from = 2; from < whole_size / 4096; from += 17) {
            uint8_t *damaged = lh_alloc(whole_size);
            memcpy(damaged, whole, whole_size);
            memcpy(damaged + to * 4096 + 8, whole + from * 4096 + 8, 4096 - 8);
            write_file(damaged, whole_size);
            (void)serves(); /* which checks what it serves */
            free(damaged);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_it_was_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_bit_flipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_bits_flipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cut_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(page_of_before, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
