/* Stories of chunkservers that standbys hear and the active master does not reach (HA-9a). */
#include "tests/core/reigns/etcd_by_hand.h"

#include <stdio.h>

/* It has read the head, and a store of the cluster "c" in which s1, s2 and s3 are registered. */
static void loads(struct world *w, ProtobufCBinaryData head)
{
    static const char *const ids[] = {"s1", "s2", "s3"};
    static const char *const keys[] = {"map/ss1", "map/ss2", "map/ss3"};
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;
    struct world_pair pairs[4] = {{"map/M", {0}, w->revision}};
    uint8_t bytes[4][64];

    record.format = LH_MASTER_FORMAT_BARE;
    record.cluster_id = (char *)(uintptr_t) "c";
    record.next_file = record.next_chunk = record.master_term = 1;
    pairs[0].value =
        (ProtobufCBinaryData){leasehold_stored__master__pack(&record, bytes[3]), bytes[3]};
    for (size_t i = 0; i < 3; i++) {
        LeaseholdStored__Server server = LEASEHOLD_STORED__SERVER__INIT;
        server.server_id = (char *)(uintptr_t)ids[i];
        server.incarnation = 1;
        pairs[i + 1] = (struct world_pair){
            keys[i], {leasehold_stored__server__pack(&server, bytes[i]), bytes[i]}, w->revision};
    }
    world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0),
        (struct world_pair[]){{"head", head, w->revision}}, 1);
    world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
    world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0), pairs, 4);
}

/* ---- A standby. */

static void given_a_standby(struct world *w)
{
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);

    world_begin(w, NULL);
    loads(w, head);
    world_run(w, 10); /* its record is put */
    assert_int_equal(world_phase(w), LH_REIGN_STANDBY);
    free(head.data);
}

/* A chunkserver asks; what the answer says of those that are heard. */
static uint64_t asks(struct world *w, const char *server, const char *cluster, uint64_t reign)
{
    Leasehold__MastersRequest request = LEASEHOLD__MASTERS_REQUEST__INIT;

    request.server_id = (char *)(uintptr_t)server;
    request.cluster_id = (char *)(uintptr_t)cluster;
    request.reign_seen = reign;
    world_says(w, world_opens(w, LH_METHOD_MASTERS), LH_METHOD_MASTERS, &request.base);
    return ((const Leasehold__MastersReply *)w->masters)->servers;
}

/* The ids in the record that it has put last, each with a space behind it. */
static const char *named(const struct world *w)
{
    static char ids[100];
    const Etcdserverpb__TxnRequest *txn = NULL;

    for (size_t i = 0; i < w->count; i++)
        if (w->links[i].method == LH_METHOD_ETCD_TXN &&
            ((const Etcdserverpb__TxnRequest *)w->links[i].request)->n_compare == 0)
            txn = (const Etcdserverpb__TxnRequest *)w->links[i].request;
    assert_non_null(txn);
    const ProtobufCBinaryData *value = &txn->success[0]->request_put->value;
    LeaseholdStored__MasterRecord *record =
        leasehold_stored__master_record__unpack(NULL, value->len, value->data);
    ids[0] = 0;
    for (size_t i = 0; i < record->n_heard; i++)
        strcat(strcat(ids, record->heard[i]), " ");
    leasehold_stored__master_record__free_unpacked(record, NULL);
    return ids;
}

static void a_standby_puts_its_record_while_it_hears_chunkservers(void **state)
{
    struct world w;

    (void)state;
    given_a_standby(&w);
    size_t before = w.records_put;
    world_run(&w, 300);
    assert_int_equal(w.records_put, before);
    assert_int_equal(asks(&w, "s1", "c", 1), 1);
    assert_string_equal(named(&w), "s1 ");      /* at once */
    assert_int_equal(asks(&w, "s2", "", 0), 2); /* of no cluster yet */
    assert_int_equal(asks(&w, "s1", "c", 1), 2);
    world_run(&w, 600);
    assert_string_equal(named(&w), "s1 s2 ");
    assert_true(w.records_put >= before + 2);
    assert_int_equal(asks(&w, "s2", "c", 1), 2);
    world_run(&w, 500); /* s1 is not heard any more */
    assert_string_equal(named(&w), "s2 ");
    assert_int_equal(asks(&w, "", "", 0), 1);
    world_run(&w, 1000);
    before = w.records_put;
    world_run(&w, 200);
    assert_int_equal(w.records_put, before);
    world_end(&w);
}

static void whom_it_would_not_register_it_does_not_hear(void **state)
{
    struct world w;

    (void)state;
    given_a_standby(&w);
    assert_int_equal(asks(&w, "", "c", 1), 0);
    assert_int_equal(asks(&w, "s1", "another", 1), 0);
    assert_int_equal(asks(&w, "s1", "c", 99), 0); /* of another history */
    assert_int_equal(asks(&w, "new", "c", 1), 0);
    world_end(&w);
}

/* ---- The active master. */

/* Another master's record, and what it says. */
static struct {
    Etcdserverpb__RangeResponse reply;
    Etcdserverpb__KeyValue kv, *pointers[1];
    uint8_t bytes[100];
} stored;

static void b_hears(struct world *w, size_t servers)
{
    static const char *const ids[] = {"s1", "s2", "s3"};
    LeaseholdStored__MasterRecord record = LEASEHOLD_STORED__MASTER_RECORD__INIT;
    int64_t revision = stored.kv.mod_revision;

    record.master_id = (char *)(uintptr_t) "b";
    record.address = (char *)(uintptr_t) "b:1";
    record.n_heard = servers;
    record.heard = (char **)(uintptr_t)ids;
    etcdserverpb__range_response__init(&stored.reply);
    etcdserverpb__key_value__init(&stored.kv);
    stored.kv.value.data = stored.bytes;
    stored.kv.value.len = leasehold_stored__master_record__pack(&record, stored.bytes);
    stored.kv.mod_revision = revision + 1;
    stored.pointers[0] = &stored.kv;
    stored.reply.n_kvs = 1;
    stored.reply.kvs = stored.pointers;
    w->records = &stored.reply;
}

/* The head of the write under way; to be freed. */
static LeaseholdStored__Head *written(struct world *w)
{
    return world_unpack_head(world_put(world_link(w, LH_METHOD_ETCD_TXN, 0), "head"));
}

static void not_for_hours(struct lh_reign_config *config)
{
    config->unheard_max = lh_seconds(100);
}

/* It begins a reign of its own behind one that was resigned; so many were so. */
static void given_an_active_one(struct world *w, uint32_t row)
{
    ProtobufCBinaryData bytes = world_head(7, 100, 1, 0);
    LeaseholdStored__Head *head = world_unpack_head(bytes);

    head->state = LEASEHOLD_STORED__HEAD__STATE__RESIGNED;
    head->unheard = row;
    free(bytes.data);
    bytes = world_pack_head(head);
    leasehold_stored__head__free_unpacked(head, NULL);
    world_begin(w, not_for_hours);
    loads(w, bytes);
    world_run(w, 100);
    assert_int_equal(world_phase(w), LH_REIGN_CLAIMING);
    head = written(w);
    assert_int_equal(head->unheard, row);
    leasehold_stored__head__free_unpacked(head, NULL);
    world_applied(w, world_link(w, LH_METHOD_ETCD_TXN, 0));
    free(bytes.data);
}

/* Time passes for one that acts, and whose record-keeper goes on. False: it has resigned. */
static bool acts_for(struct world *w, uint64_t ms, size_t servers)
{
    for (uint64_t run = 0; run < ms && world_phase(w) == LH_REIGN_ACTING; run += 50) {
        if (run % 250 == 0)
            b_hears(w, servers);
        struct link *write = world_link(w, LH_METHOD_ETCD_TXN, 0);
        if (write != NULL)
            world_applied(w, write);
        world_run(w, 50);
    }
    return world_phase(w) == LH_REIGN_ACTING;
}

static void who_hears_more_is_resigned_to(void **state)
{
    struct world w;

    (void)state;
    given_an_active_one(&w, 0);
    assert_true(acts_for(&w, 9900, 3)); /* not before a session's term */
    assert_false(acts_for(&w, 1000, 3));
    assert_int_equal(world_phase(&w), LH_REIGN_RESIGNING);
    struct link *write = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    if (write != NULL) { /* one from before is under way, or none */
        LeaseholdStored__Head *head = written(&w);
        if (head->state == LEASEHOLD_STORED__HEAD__STATE__ACTING)
            world_applied(&w, write);
        leasehold_stored__head__free_unpacked(head, NULL);
    }
    LeaseholdStored__Head *head = written(&w);
    assert_int_equal(head->state, LEASEHOLD_STORED__HEAD__STATE__RESIGNED);
    assert_string_equal(head->successor, "b");
    assert_int_equal(head->unheard, 1);
    leasehold_stored__head__free_unpacked(head, NULL);
    assert_non_null(strstr(w.said, "reaches 0 chunkservers, and the master b hears 3"));
    world_end(&w);
}

/* A standby of an earlier release says nothing; one that has died says the same for ever. */
static void who_says_nothing_new_is_not_resigned_to(void **state)
{
    struct world w;

    (void)state;
    given_an_active_one(&w, 0);
    assert_true(acts_for(&w, 20000, 0));
    b_hears(&w, 3);
    for (int i = 0; i < 400; i++) {
        struct link *write = world_link(&w, LH_METHOD_ETCD_TXN, 0);
        if (write != NULL)
            world_applied(&w, write);
        world_run(&w, 50);
    }
    assert_int_equal(world_phase(&w), LH_REIGN_ACTING);
    world_end(&w);
}

/* As when the active master stood still for a moment, or etcd was away. */
static void who_has_heard_more_for_a_moment_is_not_resigned_to(void **state)
{
    struct world w;

    (void)state;
    given_an_active_one(&w, 0);
    assert_true(acts_for(&w, 12000, 0));
    for (int i = 0; i < 5; i++) {
        assert_true(acts_for(&w, 1250, 3));
        assert_true(acts_for(&w, 500, 0));
    }
    world_end(&w);
}

static void each_such_reign_in_a_row_lasts_longer(void **state)
{
    struct world w;

    (void)state;
    given_an_active_one(&w, 2);
    assert_true(acts_for(&w, 39900, 3));
    assert_false(acts_for(&w, 1000, 3));
    world_end(&w);

    /* One that lasts for twice as long ends the row. */
    given_an_active_one(&w, 2);
    assert_true(acts_for(&w, 80500, 0));
    world_run(&w, 500);
    LeaseholdStored__Head *head = written(&w);
    assert_int_equal(head->unheard, 0);
    leasehold_stored__head__free_unpacked(head, NULL);
    world_end(&w);

    given_an_active_one(&w, 4000000000u);
    assert_true(acts_for(&w, 99900, 3)); /* no longer than this, however many there were */
    assert_false(acts_for(&w, 1000, 3));
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_standby_puts_its_record_while_it_hears_chunkservers),
        cmocka_unit_test(whom_it_would_not_register_it_does_not_hear),
        cmocka_unit_test(who_hears_more_is_resigned_to),
        cmocka_unit_test(who_says_nothing_new_is_not_resigned_to),
        cmocka_unit_test(who_has_heard_more_for_a_moment_is_not_resigned_to),
        cmocka_unit_test(each_such_reign_in_a_row_lasts_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
