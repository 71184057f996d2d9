/* Stories of the masters' records: who is in the list that every master gives (HA-10). */
#include "tests/core/reigns/etcd_by_hand.h"

#include <stdio.h>

#define MOST 40

/* Records as they stand in etcd, by id: "m00", "m01" and so on, with their last beats' revisions;
 * and the own one, "a". */
static struct {
    Etcdserverpb__RangeResponse reply;
    Etcdserverpb__KeyValue kvs[MOST], *pointers[MOST];
    uint8_t bytes[MOST][80];
    char ids[MOST][24];
} stored;

static void store(size_t at, const char *id, int64_t revision)
{
    LeaseholdStored__MasterRecord record = LEASEHOLD_STORED__MASTER_RECORD__INIT;
    char address[30];

    (void)snprintf(stored.ids[at], sizeof stored.ids[at], "%s", id);
    (void)snprintf(address, sizeof address, "%s:1", id);
    record.master_id = stored.ids[at];
    record.address = address;
    etcdserverpb__key_value__init(&stored.kvs[at]);
    stored.kvs[at].value.data = stored.bytes[at];
    stored.kvs[at].value.len = leasehold_stored__master_record__pack(&record, stored.bytes[at]);
    stored.kvs[at].mod_revision = revision;
    stored.pointers[at] = &stored.kvs[at];
}

/* The list is read so often, in ms; 360 of them are a beat. */
#define EVERY 10
#define BEAT  (360 * EVERY)

static void often(struct lh_reign_config *config)
{
    config->records_every = lh_milliseconds(EVERY);
}

static void given(struct world *w, size_t others)
{
    etcdserverpb__range_response__init(&stored.reply);
    store(0, "a", 1000);
    for (size_t i = 0; i < others; i++) {
        char id[24];
        (void)snprintf(id, sizeof id, "m%02zu", i);
        store(i + 1, id, 100 + (int64_t)i);
    }
    stored.reply.n_kvs = others + 1;
    stored.reply.kvs = stored.pointers;
    world_begin(w, often);
    w->records = &stored.reply;
    world_acts(w);
    world_run(w, 2 * EVERY); /* the list was read again */
}

static bool lists(struct world *w, const char *id)
{
    Leasehold__MastersRequest request = LEASEHOLD__MASTERS_REQUEST__INIT;
    bool there = false;

    world_says(w, world_opens(w, LH_METHOD_MASTERS), LH_METHOD_MASTERS, &request.base);
    assert_non_null(w->masters);
    const Leasehold__MastersReply *reply = (const Leasehold__MastersReply *)w->masters;
    assert_true(reply->n_masters <= 16);
    for (size_t i = 0; i < reply->n_masters; i++)
        there = there || strcmp(reply->masters[i]->master_id, id) == 0;
    return there;
}

/* Masters whose ids are their addresses leave a record behind wherever they were. */
static void records_of_masters_that_are_gone_hide_no_living_one(void **state)
{
    struct world w;

    (void)state;
    given(&w, 30);
    assert_true(lists(&w, "a"));
    assert_true(lists(&w, "m29"));
    assert_true(lists(&w, "m15"));
    assert_false(lists(&w, "m14"));
    store(1, "m00", 2000); /* it was put again */
    world_run(&w, 2 * EVERY);
    assert_true(lists(&w, "m00"));
    assert_false(lists(&w, "m15"));
    world_end(&w);
}

static void a_record_without_a_beat_counts_no_more(void **state)
{
    struct world w;

    (void)state;
    given(&w, 2);
    assert_true(lists(&w, "m00") && lists(&w, "m01"));
    for (int64_t i = 1; i <= 4; i++) {
        store(0, "a", 1000 + i);
        store(1, "m00", 2000 + i);
        world_run(&w, BEAT);
    }
    assert_true(lists(&w, "a") && lists(&w, "m00"));
    assert_false(lists(&w, "m01"));
    store(2, "m01", 3000); /* it was frozen */
    world_run(&w, 2 * EVERY);
    assert_true(lists(&w, "m01"));
    world_end(&w);
}

static void a_master_puts_its_record_each_hour_and_when_it_misses_it(void **state)
{
    struct world w;

    (void)state;
    given(&w, 2);
    size_t before = w.records_put;
    world_run(&w, BEAT - 10 * EVERY);
    assert_int_equal(w.records_put, before);
    world_run(&w, 20 * EVERY);
    assert_int_equal(w.records_put, before + 1);
    stored.reply.kvs = stored.pointers + 1;
    stored.reply.n_kvs = 2;
    world_run(&w, 2 * EVERY);
    assert_true(w.records_put > before + 1);
    world_end(&w);
}

/* ---- An operator has one forgotten. */

static uint64_t forget(struct world *w, const char *id)
{
    Leasehold__ForgetMasterRequest request = LEASEHOLD__FORGET_MASTER_REQUEST__INIT;
    uint64_t link = world_opens(w, LH_METHOD_FORGET_MASTER);

    request.master_id = (char *)(uintptr_t)id;
    w->replies = 0;
    world_says(w, link, LH_METHOD_FORGET_MASTER, &request.base);
    return link;
}

/* What it was answered; -1: nothing yet. */
static int answer(struct world *w, const char *text)
{
    ProtobufCMessage *message;
    struct lh_buf none;

    if (w->replies == 0)
        return -1;
    assert_int_equal(
        lh_wire_decode(LH_METHOD_FORGET_MASTER, LH_REPLY, &w->replied, &message, &none), LH_OK);
    int error = (int)((Leasehold__ForgetMasterReply *)message)->error;
    assert_non_null(strstr(((Leasehold__ForgetMasterReply *)message)->error_text, text));
    lh_wire_free(message);
    return error;
}

/* The transaction that deletes a record, and what it compares. */
static struct link *deletion(struct world *w, const char *id, int64_t revision)
{
    for (size_t i = 0; world_link(w, LH_METHOD_ETCD_TXN, i) != NULL; i++) {
        struct link *l = world_link(w, LH_METHOD_ETCD_TXN, i);
        const Etcdserverpb__TxnRequest *txn = (const Etcdserverpb__TxnRequest *)l->request;
        char key[80];
        if (txn->n_success != 1 || txn->success[0]->request_case !=
                                       ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE)
            continue;
        (void)snprintf(key, sizeof key, PREFIX "records/%s", id);
        assert_int_equal(txn->compare[0]->key.len, strlen(key));
        assert_memory_equal(txn->compare[0]->key.data, key, strlen(key));
        assert_int_equal(txn->compare[0]->mod_revision, revision);
        return l;
    }
    return NULL;
}

static void a_master_that_is_gone_is_forgotten(void **state)
{
    struct world w;

    (void)state;
    given(&w, 2);
    uint64_t link = forget(&w, "m00");
    struct link *txn = deletion(&w, "m00", 100);
    assert_non_null(txn);
    assert_int_equal(answer(&w, ""), -1);
    /* when: it is done */
    stored.reply.kvs = stored.pointers;
    stored.pointers[1] = &stored.kvs[2];
    stored.reply.n_kvs = 2;
    world_applied(&w, txn);
    assert_int_equal(answer(&w, ""), LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(world_ended(&w, link), LH_OK);
    world_run(&w, 2 * EVERY);
    assert_false(lists(&w, "m00"));
    assert_true(lists(&w, "m01"));
    world_end(&w);
}

static void whose_record_was_put_again_is_not_forgotten(void **state)
{
    struct world w;
    ProtobufCBinaryData record = {4, (uint8_t *)"data"};

    (void)state;
    given(&w, 2);
    forget(&w, "m00");
    world_not_applied(&w, deletion(&w, "m00", 100), &record, 120);
    assert_int_equal(answer(&w, "it runs"), LEASEHOLD__ERROR_CODE__IN_USE);
    /* But nothing is there if an earlier copy of the request took effect. */
    forget(&w, "m00");
    world_not_applied(&w, deletion(&w, "m00", 100), NULL, 0);
    assert_int_equal(answer(&w, ""), LEASEHOLD__ERROR_CODE__OK);
    world_end(&w);
}

static void nobody_else_is_forgotten(void **state)
{
    struct world w;
    char id[3000];

    (void)state;
    given(&w, 2);
    forget(&w, "a");
    assert_int_equal(answer(&w, "active"), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    memset(id, 'm', sizeof id - 1);
    id[sizeof id - 1] = 0;
    forget(&w, id);
    assert_int_equal(answer(&w, "no record"), LEASEHOLD__ERROR_CODE__NOT_FOUND);
    forget(&w, "m7");
    assert_int_equal(
        answer(&w, "there is no record of a master \"m7\""), LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_null(deletion(&w, "m7", 0));
    /* One at a time; who has gone is not told. */
    uint64_t first = forget(&w, "m00"), second = forget(&w, "m01");
    assert_int_equal(world_ended(&w, second), LH_ERR_UNAVAILABLE);
    world_closes(&w, first);
    world_applied(&w, deletion(&w, "m00", 100));
    assert_int_equal(answer(&w, ""), -1);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_master_that_is_gone_is_forgotten),
        cmocka_unit_test(whose_record_was_put_again_is_not_forgotten),
        cmocka_unit_test(nobody_else_is_forgotten),
        cmocka_unit_test(records_of_masters_that_are_gone_hide_no_living_one),
        cmocka_unit_test(a_record_without_a_beat_counts_no_more),
        cmocka_unit_test(a_master_puts_its_record_each_hour_and_when_it_misses_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
