/* Stories of a process that has died: what is done in its place (HA-3a), and what the next master
 * knows of it. */
#include "tests/core/reigns/etcd_by_hand.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/seal.h"

#define DEAD UINT64_C(4711)

static void of_the_dead(struct lh_reign_config *config)
{
    config->task = LH_REIGN_AFTER_DEATH;
    config->process = DEAD;
}

/* A head of that process, number 100 of reign 7. */
static ProtobufCBinaryData head_of(uint64_t process, uint32_t deaths)
{
    ProtobufCBinaryData plain = world_head(7, 100, 1, 0);
    LeaseholdStored__Head *said = world_unpack_head(plain);

    said->process = process;
    said->deaths = deaths;
    ProtobufCBinaryData head = world_pack_head(said);
    leasehold_stored__head__free_unpacked(said, NULL);
    free(plain.data);
    return head;
}

static void etcd_says(struct world *w, ProtobufCBinaryData head)
{
    struct world_pair pair = {"head", head, w->revision};

    world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0), &pair, head.data != NULL);
}

static LeaseholdStored__Head *written(struct world *w)
{
    ProtobufCBinaryData put = world_put(world_link(w, LH_METHOD_ETCD_TXN, 0), "head");
    LeaseholdStored__Head *said = world_unpack_head(put);

    assert_non_null(said);
    return said;
}

static void the_reign_of_a_process_that_died_is_resigned(void **state)
{
    struct world w;
    ProtobufCBinaryData head = head_of(DEAD, 1), newer;

    (void)state;
    /* given: what a later release has put into it */
    size_t size = head.len - LH_SEAL_BYTES;
    newer = (ProtobufCBinaryData){head.len + 3, lh_alloc(head.len + 3)};
    memcpy(newer.data, head.data, size);
    memcpy(newer.data + size, (uint8_t[]){0xf8, 0x3f, 42}, 3); /* field 1023 */
    lh_seal_write(newer.data + size + 3, lh_seal_hash("head", 4, newer.data, size + 3));
    /* when */
    world_begin(&w, of_the_dead);
    etcd_says(&w, newer);
    /* then */
    LeaseholdStored__Head *said = written(&w);
    assert_int_equal(said->reign, 7);
    assert_int_equal(said->number, 101);
    assert_int_equal(said->start, 1);
    assert_int_equal(said->state, LEASEHOLD_STORED__HEAD__STATE__RESIGNED);
    assert_int_equal(said->deaths, 2);
    assert_int_equal(said->base.n_unknown_fields, 1);
    leasehold_stored__head__free_unpacked(said, NULL);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_OK);
    free(head.data);
    free(newer.data);
    world_end(&w);
}

static void whoever_else_reigns_goes_on(void **state)
{
    struct world w;
    ProtobufCBinaryData heads[] = {head_of(DEAD + 1, 0), head_of(0, 0),
        world_head_of(head_of(DEAD, 0), LEASEHOLD_STORED__HEAD__STATE__RESIGNED, ""),
        world_head_of(head_of(DEAD, 0), LEASEHOLD_STORED__HEAD__STATE__MOVED, "x"),
        {3, (uint8_t *)strdup("\xff\xff\xff")}, {0}};

    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        world_begin(&w, of_the_dead);
        etcd_says(&w, heads[i]);
        assert_true(w.stopped);
        assert_int_equal(w.stop_error, LH_OK);
        assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
        free(heads[i].data);
        world_end(&w);
    }
}

/* The last transaction of the dead took effect in between. */
static void what_changed_meanwhile_is_looked_at_again(void **state)
{
    struct world w;
    ProtobufCBinaryData head = head_of(DEAD, 0), other = head_of(DEAD + 1, 0);

    (void)state;
    world_begin(&w, of_the_dead);
    etcd_says(&w, head);
    /* when */
    world_not_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0), &head, 12);
    world_run(&w, 1);
    /* then */
    assert_false(w.stopped);
    etcd_says(&w, head);
    /* when: another reign has begun */
    world_not_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0), &other, 13);
    world_run(&w, 1);
    etcd_says(&w, other);
    /* then */
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_OK);
    free(head.data);
    free(other.data);
    world_end(&w);
}

/* Its answer was lost, and so it was sent again. */
static void a_resignation_that_was_applied_is_found_out(void **state)
{
    struct world w;
    ProtobufCBinaryData head = head_of(DEAD, 0);

    (void)state;
    world_begin(&w, of_the_dead);
    etcd_says(&w, head);
    world_run(&w, 300);
    struct link *txn = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    ProtobufCBinaryData ours = world_put(txn, "head");
    world_not_applied(&w, txn, &ours, 12);
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_OK);
    free(head.data);
    world_end(&w);
}

/* What kills one master may be a call that is repeated at the next one. */
static void the_third_death_in_a_row_is_not_hurried(void **state)
{
    struct world w;
    ProtobufCBinaryData head = head_of(DEAD, 2);

    (void)state;
    world_begin(&w, of_the_dead);
    etcd_says(&w, head);
    assert_true(w.stopped);
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_non_null(strstr(w.said, "3 masters in a row"));
    free(head.data);
    world_end(&w);
}

static void a_silent_etcd_is_not_waited_for_longer_than_a_reign(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, of_the_dead);
    world_run(&w, 1900);
    assert_false(w.stopped);
    world_run(&w, 200);
    assert_true(w.stopped);
    world_end(&w);
}

static void with_a_number(struct lh_reign_config *config)
{
    config->process = 99;
}

/* How many died, by what it writes now. */
static uint32_t writes(struct world *w)
{
    LeaseholdStored__Head *said = written(w);
    uint32_t deaths = said->deaths;

    assert_int_equal(said->reign, 8);
    assert_int_equal(said->process, 99);
    leasehold_stored__head__free_unpacked(said, NULL);
    world_applied(w, world_link(w, LH_METHOD_ETCD_TXN, 0));
    return deaths;
}

/* A row of deaths ends with a reign that lasts. */
static void heads_say_whose_they_are_and_how_many_died(void **state)
{
    struct world w;
    ProtobufCBinaryData head =
        world_head_of(head_of(DEAD, 2), LEASEHOLD_STORED__HEAD__STATE__RESIGNED, "");

    (void)state;
    /* when */
    world_begin(&w, with_a_number);
    world_loads(&w, head);
    world_run(&w, 100);
    /* then */
    assert_int_equal(writes(&w), 2);
    for (int s = 1; s < 70; s++) {
        world_run(&w, 1000);
        while (world_link(&w, LH_METHOD_ETCD_TXN, 0) != NULL) {
            uint32_t deaths = writes(&w);
            if (s < 60 || s > 61)
                assert_int_equal(deaths, s < 60 ? 2 : 0);
        }
    }
    free(head.data);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reign_of_a_process_that_died_is_resigned),
        cmocka_unit_test(whoever_else_reigns_goes_on),
        cmocka_unit_test(what_changed_meanwhile_is_looked_at_again),
        cmocka_unit_test(a_resignation_that_was_applied_is_found_out),
        cmocka_unit_test(the_third_death_in_a_row_is_not_hurried),
        cmocka_unit_test(a_silent_etcd_is_not_waited_for_longer_than_a_reign),
        cmocka_unit_test(heads_say_whose_they_are_and_how_many_died),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
