/* Stories of one master among others, with an etcd that is played by hand: what it must not take
 * for something else, and what it must not wait for. */
#include "tests/core/reigns/etcd_by_hand.h"

#include "base/error.h"

static const Leasehold__CreateRequest create = LEASEHOLD__CREATE_REQUEST__INIT;
static const Leasehold__TransferRequest transfer_request = LEASEHOLD__TRANSFER_REQUEST__INIT;

/* ---- The store. */

static void an_empty_store_is_no_new_one_to_who_has_seen_its_head(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);

    (void)state;
    /* given: a standby of reign 7 */
    world_begin(&w, NULL);
    world_loads(&w, head);
    world_run(&w, 1);
    assert_int_equal(world_phase(&w), LH_REIGN_STANDBY);
    /* when: somebody deletes all keys, and the active master is still confirmed */
    world_events(&w, (struct world_pair[]){{"head", {0}, 11}}, 1);
    world_run(&w, 200);
    w.revision = 11;
    world_loads(&w, (ProtobufCBinaryData){0});
    world_run(&w, 100);
    /* then: no reign is begun */
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_ERR_CORRUPT);
    free(head.data);
    world_end(&w);
}

/* A store with that head, and of that cluster. */
static void loads_of(struct world *w, ProtobufCBinaryData head, const char *cluster)
{
    ProtobufCBinaryData record = world_record(cluster);

    world_pairs(
        w, world_link(w, LH_METHOD_ETCD_RANGE, 0), (struct world_pair[]){{"head", head, 10}}, 1);
    world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
    world_pairs(
        w, world_link(w, LH_METHOD_ETCD_RANGE, 0), (struct world_pair[]){{"map/M", record, 9}}, 1);
    free(record.data);
}

static const char *named_cluster(struct world *w)
{
    Leasehold__MastersRequest request = LEASEHOLD__MASTERS_REQUEST__INIT;
    uint64_t link = world_opens(w, LH_METHOD_MASTERS);

    world_says(w, link, LH_METHOD_MASTERS, &request.base);
    return ((const Leasehold__MastersReply *)w->masters)->cluster_id;
}

static void a_standby_names_its_cluster_and_keeps_it(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0), newer = world_head(8, 1, 2, 0);

    (void)state;
    /* given */
    world_begin(&w, NULL);
    assert_string_equal(named_cluster(&w), "");
    loads_of(&w, head, "one");
    world_run(&w, 1);
    assert_int_equal(world_phase(&w), LH_REIGN_STANDBY);
    assert_string_equal(named_cluster(&w), "one");
    /* when: somebody puts another cluster's content in its place */
    world_events(&w, (struct world_pair[]){{"head", {0}, 11}}, 1);
    world_run(&w, 200);
    w.revision = 11;
    assert_string_equal(named_cluster(&w), "one");
    loads_of(&w, newer, "two");
    /* then */
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_ERR_WRONG_IDENTITY);
    assert_non_null(strstr(w.said, "of cluster two now"));
    free(head.data);
    free(newer.data);
    world_end(&w);
}

/* HA-13: a misspelt prefix has nothing under it, either. */
static void a_master_begins_no_cluster_and_waits_for_one(void **state)
{
    struct world w;
    const Leasehold__MastersReply *said;
    char why[700];
    ProtobufCBinaryData first =
        world_head_of(world_head(1, 1, 4, 0), LEASEHOLD_STORED__HEAD__STATE__RESIGNED, "");
    ProtobufCBinaryData record = world_record("one");

    (void)state;
    /* given */
    world_begin(&w, NULL);
    world_loads(&w, (ProtobufCBinaryData){0});
    /* when */
    world_run(&w, 100000);
    /* then: it says what to do, to its operator and to who calls it */
    assert_int_equal(world_phase(&w), LH_REIGN_STANDBY);
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_non_null(strstr(w.said, "leasehold store init"));
    assert_non_null(strstr(w.said, PREFIX));
    assert_false(lh_reigns_ready(w.r, why, sizeof why));
    assert_string_equal(why, w.said);
    assert_string_equal(named_cluster(&w), "");
    said = (const Leasehold__MastersReply *)w.masters;
    assert_string_equal(said->state, "WAITING");
    assert_string_equal(said->store_trouble, why);
    assert_false(said->acting || said->reign != 0);
    /* when: somebody begins one */
    world_events(&w, (struct world_pair[]){{"head", first, 11}, {"map/M", record, 11}}, 2);
    world_run(&w, 1);
    /* then */
    assert_int_equal(world_phase(&w), LH_REIGN_CLAIMING);
    assert_string_equal(named_cluster(&w), "one");
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_int_equal(world_phase(&w), LH_REIGN_ACTING);
    assert_string_equal(lh_master_cluster(lh_reigns_master(w.r)), "one");
    free(first.data);
    free(record.data);
    world_end(&w);
}

/* ... and no second one, where somebody has deleted the head before it came. */
static void keys_without_a_head_are_no_place_for_a_cluster(void **state)
{
    struct world w;
    ProtobufCBinaryData record = world_record("one");

    (void)state;
    world_begin(&w, NULL);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0),
        (struct world_pair[]){{"map/M", record, 9}}, 1);
    world_run(&w, 100000);
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_non_null(strstr(w.said, "and no head: somebody has deleted it"));
    free(record.data);
    world_end(&w);
}

/* ... and a head without any pair is a store whose pairs are all gone, not a new cluster. */
static void a_head_alone_is_no_place_for_a_cluster(void **state)
{
    struct world w;
    ProtobufCBinaryData head =
        world_head_of(world_head(3, 9, 4, 0), LEASEHOLD_STORED__HEAD__STATE__RESIGNED, "");

    (void)state;
    world_begin(&w, NULL);
    for (int i = 0; i < 3; i++) /* one member after the other */
        for (int page = 0; page < 3; page++) {
            world_run(&w, page == 0 ? 1000 : 0);
            world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0),
                (struct world_pair[]){{"head", head, 10}}, page == 0);
        }
    world_run(&w, 5000);
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_non_null(strstr(w.said, "a head, and not the master's record"));
    assert_string_equal(named_cluster(&w), "");
    assert_false(w.stopped);
    free(head.data);
    world_end(&w);
}

/* ---- `leasehold store init`. */

static void begins(struct lh_reign_config *config)
{
    config->task = LH_REIGN_INIT;
}

static void a_cluster_begins_where_there_is_nothing(void **state)
{
    struct world w;
    struct lh_reign_state it;

    (void)state;
    world_begin(&w, begins);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
    struct link *txn = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    const Etcdserverpb__TxnRequest *request = (const Etcdserverpb__TxnRequest *)txn->request;
    assert_int_equal(request->n_compare, 2); /* that there is nothing else */
    ProtobufCBinaryData bytes = world_put(txn, "head");
    LeaseholdStored__Head *head = leasehold_stored__head__unpack(NULL, bytes.len, bytes.data);
    assert_int_equal(head->state, LEASEHOLD_STORED__HEAD__STATE__RESIGNED);
    assert_true(head->reign == 1 && head->number == 1);
    leasehold_stored__head__free_unpacked(head, NULL);
    bytes = world_put(txn, "map/M");
    LeaseholdStored__Master *record = leasehold_stored__master__unpack(NULL, bytes.len, bytes.data);
    lh_reigns_state(w.r, &it);
    assert_string_equal(record->cluster_id, it.cluster);
    leasehold_stored__master__free_unpacked(record, NULL);
    assert_false(w.stopped);
    world_applied(&w, txn);
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_OK);
    world_end(&w);
}

static void no_second_cluster_begins(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);

    (void)state;
    world_begin(&w, begins);
    world_pairs(
        &w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), (struct world_pair[]){{"head", head, 10}}, 1);
    assert_int_equal(w.stop_error, LH_ERR_ALREADY_EXISTS);
    assert_non_null(strstr(w.said, "of reign 7"));
    world_end(&w);
    /* ... nor at the same time as another one, */
    world_begin(&w, begins);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
    world_not_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0), &head, 11);
    assert_int_equal(w.stop_error, LH_ERR_ALREADY_EXISTS);
    world_end(&w);
    /* ... nor among other keys. */
    world_begin(&w, begins);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
    world_not_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0), NULL, 11);
    assert_int_equal(w.stop_error, LH_ERR_ALREADY_EXISTS);
    world_end(&w);
    /* But an answer that was lost is no refusal (HA-5). */
    world_begin(&w, begins);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
    struct link *txn = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    ProtobufCBinaryData own = world_put(txn, "head");
    world_not_applied(&w, txn, &own, 11);
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_OK);
    free(head.data);
    world_end(&w);
}

/* A member cut off from the others keeps a watch open and shows nothing. */
static void a_watch_that_shows_nothing_is_begun_at_another_member(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0), newer = world_head(7, 110, 1, 0);

    (void)state;
    /* given */
    world_begin(&w, NULL);
    world_loads(&w, head);
    world_run(&w, 1);
    struct link *watch = world_link(&w, LH_METHOD_ETCD_WATCH, 0);
    char *first = strdup(watch->address);
    Etcdserverpb__WatchResponse created = ETCDSERVERPB__WATCH_RESPONSE__INIT;
    created.created = true;
    world_answer(&w, watch, &created.base);
    /* when: it asks for the head again and again, which has changed long ago */
    world_hears_nothing(&w, 3100, newer, 30);
    world_run(&w, 200);
    w.revision = 30;
    world_loads(&w, newer);
    world_run(&w, 1);
    /* then */
    watch = world_link(&w, LH_METHOD_ETCD_WATCH, 0);
    assert_non_null(watch);
    assert_string_not_equal(watch->address, first);
    free(first);
    free(head.data);
    free(newer.data);
    world_end(&w);
}

static void a_revision_that_is_not_there_yet_is_not_waited_for(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);

    (void)state;
    /* given: it is loading */
    world_begin(&w, NULL);
    world_pairs(
        &w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), (struct world_pair[]){{"head", head, 10}}, 1);
    assert_int_equal(world_phase(&w), LH_REIGN_LOADING);
    /* when: etcd was restored from an older copy */
    world_fail(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), LH_ERR_INVALID_ARGUMENT,
        "etcdserver: mvcc: required revision is a future revision");
    /* then */
    assert_int_equal(world_phase(&w), LH_REIGN_LEARNING);
    free(head.data);
    world_end(&w);
}

static void a_piece_of_an_absurd_index_is_none(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__RangeResponse reply = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    Etcdserverpb__KeyValue kv = ETCDSERVERPB__KEY_VALUE__INIT, *kvs[1] = {&kv};

    (void)state;
    /* given */
    world_begin(&w, NULL);
    world_pairs(
        &w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), (struct world_pair[]){{"head", head, 10}}, 1);
    /* when: somebody has put it there; to remember 2^31 places would take 32 GiB */
    kv.key =
        (ProtobufCBinaryData){18, (uint8_t *)(uintptr_t)PREFIX "pieces/\0\0\0\0\x7f\xff\xff\xff"};
    header.revision = 10;
    reply.header = &header;
    reply.n_kvs = 1;
    reply.kvs = kvs;
    world_answer(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), &reply.base);
    world_loads_map(&w);
    /* then */
    assert_int_equal(world_phase(&w), LH_REIGN_STANDBY);
    free(head.data);
    world_end(&w);
}

/* ---- A store that was damaged. */

/* No reign has a master term above its own: no master acts, or chunkservers would hear of both. Nor
 * does one claim: for whoever comes next the term would not be above the claim's reign. */
static void a_term_above_the_head_s_reign_that_a_watch_shows_is_refused(void **state)
{
    struct world w;
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0), next = world_head(7, 101, 1, 0);
    uint8_t bytes[64];

    (void)state;
    /* given */
    world_begin(&w, NULL);
    world_loads(&w, head);
    record.format = LH_MASTER_FORMAT_BARE;
    record.cluster_id = (char *)(uintptr_t) "c";
    record.next_file = record.next_chunk = 1;
    record.master_term = 9;
    size_t size = leasehold_stored__master__pack(&record, bytes);
    /* when: it was damaged, and somebody has put the head beside it */
    world_events(&w,
        (struct world_pair[]){
            {"map/M", {size, bytes}, w.revision + 1}, {"head", next, w.revision + 1}},
        2);
    world_hears_nothing(&w, 2100, next, w.revision + 1);
    /* then */
    assert_false(w.stopped);
    assert_non_null(strstr(w.said, "the metadata of reign 9"));
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    free(head.data);
    free(next.data);
    world_end(&w);
}

/* The decoder leaves the bytes of an empty value NULL. */
static void an_empty_pair_that_a_watch_shows_begins_nothing(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);
    Etcdserverpb__WatchResponse reply = ETCDSERVERPB__WATCH_RESPONSE__INIT;
    Etcdserverpb__Event event = ETCDSERVERPB__EVENT__INIT, *events[1] = {&event};
    Etcdserverpb__KeyValue kv = ETCDSERVERPB__KEY_VALUE__INIT;
    static const char *const keys[] = {PREFIX "map/M", PREFIX "head"};

    (void)state;
    /* given */
    world_begin(&w, NULL);
    world_loads(&w, head);
    /* when */
    for (int i = 0; i < 2; i++) {
        kv.key = (ProtobufCBinaryData){strlen(keys[i]), (uint8_t *)(uintptr_t)keys[i]};
        kv.mod_revision = w.revision + 1 + i;
        event.kv = &kv;
        reply.n_events = 1;
        reply.events = events;
        struct link *watch = world_link(&w, LH_METHOD_ETCD_WATCH, 0);
        if (watch != NULL)
            world_answer(&w, watch, &reply.base);
    }
    /* then */
    assert_int_not_equal(world_phase(&w), LH_REIGN_ACTING);
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    free(head.data);
    world_end(&w);
}

/* One member's disk has flipped a bit: the next one has the head as it was written (PAIR-4). */
static void a_head_that_one_member_has_damaged(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);
    struct link *asked;

    (void)state;
    world_begin(&w, NULL);
    asked = world_link(&w, LH_METHOD_ETCD_RANGE, 0);
    char *member = strdup(asked->address);
    head.data[3] ^= 1;
    world_pairs(&w, asked, (struct world_pair[]){{"head", head, 10}}, 1);
    assert_non_null(strstr(w.said, "not what a master has written"));
    assert_non_null(strstr(w.said, member));
    head.data[3] ^= 1;
    world_run(&w, 110);
    asked = world_link(&w, LH_METHOD_ETCD_RANGE, 0);
    assert_non_null(asked);
    assert_string_not_equal(asked->address, member);
    world_loads(&w, head);
    assert_int_equal(world_phase(&w), LH_REIGN_STANDBY);
    free(member);
    free(head.data);
    world_end(&w);
}

static ProtobufCBinaryData bare_master(uint8_t *bytes)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;

    record.format = LH_MASTER_FORMAT_BARE;
    record.cluster_id = (char *)(uintptr_t) "c";
    record.next_file = record.next_chunk = record.master_term = 1;
    return (ProtobufCBinaryData){leasehold_stored__master__pack(&record, bytes), bytes};
}

/* All members have it so: nobody acts, and nobody ends. */
static void a_pair_that_all_members_have_damaged(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);
    uint8_t bytes[64];
    ProtobufCBinaryData record = bare_master(bytes),
                        value = {3, (uint8_t *)(uintptr_t) "\xff\xff\xff"};
    char why[600];

    (void)state;
    world_begin(&w, NULL);
    for (int i = 0; i < 7; i++) {
        w.said[0] = 0;
        world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0),
            (struct world_pair[]){{"head", head, 10}}, 1);
        world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
        world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0),
            (struct world_pair[]){{"map/M", record, 10}, {"map/vx", value, 10}}, 2);
        assert_false(w.stopped);
        /* Each member's content is told of once. */
        assert_int_equal(strstr(w.said, "the value of \"x\"") != NULL, i < 3);
        world_run(&w, i % 3 == 2 ? 4900 : 110);
        assert_int_equal(world_link(&w, LH_METHOD_ETCD_RANGE, 0) != NULL, i % 3 != 2);
        world_run(&w, 110);
    }
    assert_false(lh_reigns_ready(w.r, why, sizeof why));
    assert_non_null(strstr(why, "the value of \"x\""));
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    free(head.data);
    world_end(&w);
}

static bool deletes(const struct link *txn, const char *name)
{
    const Etcdserverpb__TxnRequest *request = (const Etcdserverpb__TxnRequest *)txn->request;

    for (size_t i = 0; i < request->n_success; i++) {
        const Etcdserverpb__RequestOp *op = request->success[i];
        if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE &&
            op->request_delete_range->key.len == strlen(name) &&
            memcmp(op->request_delete_range->key.data, name, strlen(name)) == 0)
            return true;
    }
    return false;
}

/* The next one is more than others read, and still its own. */
static void the_highest_reign_that_is_read_has_a_next_one(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(UINT64_MAX / 2, UINT64_MAX / 2, 1, 0);

    (void)state;
    world_begin(&w, NULL);
    world_loads(&w, head);
    world_hears_nothing(&w, 2100, head, w.revision);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_int_equal(world_phase(&w), LH_REIGN_ACTING);
    free(head.data);
    world_end(&w);
}

static void an_etcd_of_another_major_version_is_refused(void **state)
{
    struct world w;
    char three[] = "3.6.0", four[] = "4.0.0";

    (void)state;
    world_begin(&w, NULL);
    w.version = three;
    world_acts(&w);
    world_run(&w, 11000);
    assert_false(w.stopped);
    w.version = four;
    world_run(&w, 11000);
    assert_int_equal(w.stop_error, LH_ERR_WRONG_FORMAT);
    world_end(&w);
}

static ProtobufCBinaryData head_with_settings(
    uint64_t number, const char *id, uint64_t session_term_ns, uint32_t drift_ppm)
{
    ProtobufCBinaryData head = world_head(7, number, 1, 0);
    LeaseholdStored__Head *said = world_unpack_head(head);
    LeaseholdStored__Settings settings = LEASEHOLD_STORED__SETTINGS__INIT;

    settings.session_term_ns = session_term_ns;
    settings.chunk_term_ns = lh_seconds(60).ns;
    settings.drift_ppm = drift_ppm;
    said->settings = &settings;
    free(said->master_id);
    said->master_id = strdup(id);
    ProtobufCBinaryData bytes = world_pack_head(said);
    said->settings = NULL;
    leasehold_stored__head__free_unpacked(said, NULL);
    free(head.data);
    return bytes;
}

static void a_master_with_other_settings_than_the_active_one_ends(void **state)
{
    struct world w;
    struct lh_master_config own = lh_master_config_default();
    uint64_t session = own.session_term.ns;
    struct {
        const char *id;
        uint64_t session_term_ns;
        uint32_t drift_ppm;
        bool ends;
    } cases[] = {{"b", session, own.drift_ppm, false}, {"b", session + 1, own.drift_ppm, true},
        {"b", session, own.drift_ppm + 1, true},
        /* Written by the process before this one, and late. */
        {"a", session + 1, own.drift_ppm, false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ProtobufCBinaryData head = head_with_settings(
                                100, cases[i].id, cases[i].session_term_ns, cases[i].drift_ppm),
                            next = head_with_settings(
                                101, cases[i].id, cases[i].session_term_ns, cases[i].drift_ppm),
                            more = head_with_settings(
                                102, cases[i].id, cases[i].session_term_ns, cases[i].drift_ppm);
        world_begin(&w, NULL);
        world_loads(&w, head);
        world_run(&w, 1);
        /* It may be dead, and what it was told goes with it. */
        assert_false(w.stopped);
        world_events(&w, (struct world_pair[]){{"head", next, 11}}, 1);
        /* All masters were stopped, as is told, and etcd applies the last write of one late: one
         * write at most is under way (HA-1). */
        assert_false(w.stopped);
        world_events(&w, (struct world_pair[]){{"head", more, 12}}, 1);
        assert_int_equal(w.stopped, cases[i].ends);
        if (cases[i].ends)
            assert_int_equal(w.stop_error, LH_ERR_INVALID_ARGUMENT);
        free(head.data);
        free(next.data);
        free(more.data);
        world_end(&w);
    }
}

/* ---- Claims. */

/* Lists of masters are read now and then: that of this standby is older than the successor. */
static void a_successor_that_the_list_lacks_goes_first(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);
    LeaseholdStored__Head *said = world_unpack_head(head);

    (void)state;
    /* given: a reign that was ended by its master, for the sake of another one */
    said->state = LEASEHOLD_STORED__HEAD__STATE__RESIGNED;
    said->successor = strdup("newcomer");
    ProtobufCBinaryData bytes = world_pack_head(said);
    /* when */
    world_begin(&w, NULL);
    world_loads(&w, bytes);
    world_run(&w, 40);
    /* then */
    assert_int_equal(world_phase(&w), LH_REIGN_STANDBY);
    /* when: it does not come */
    world_run(&w, 20);
    /* then */
    assert_int_equal(world_phase(&w), LH_REIGN_CLAIMING);
    leasehold_stored__head__free_unpacked(said, NULL);
    free(head.data);
    free(bytes.data);
    world_end(&w);
}

/* The copy has seen the claim, its successor's, and the end of the pieces, before the answer. */
static void an_answer_that_comes_behind_the_next_reign_begins_none(void **state)
{
    struct world w;
    LeaseholdStored__Piece piece = LEASEHOLD_STORED__PIECE__INIT;
    ProtobufCBinaryData head = world_head(7, 100, 1, 1), next = world_head(9, 1, 2, 1),
                        last = world_head(9, 2, 2, 0), bytes;

    (void)state;
    /* given: a commit that is not in place, and nobody has written for T_reign */
    bytes = (ProtobufCBinaryData){0, (uint8_t *)(uintptr_t) ""};
    assert_int_equal(leasehold_stored__piece__get_packed_size(&piece), 0);
    world_begin(&w, NULL);
    world_pairs(
        &w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), (struct world_pair[]){{"head", head, 10}}, 1);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0),
        (struct world_pair[]){{"pieces/0", bytes, 9}}, 1);
    world_loads_map(&w);
    world_hears_nothing(&w, 2100, head, 10);
    assert_int_equal(world_phase(&w), LH_REIGN_CLAIMING);
    struct link *claim = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    ProtobufCBinaryData ours = world_put(claim, "head");
    /* when */
    world_events(&w, (struct world_pair[]){{"head", ours, 11}}, 1);
    world_events(&w, (struct world_pair[]){{"head", next, 12}}, 1);
    world_events(&w, (struct world_pair[]){{"head", last, 13}, {"pieces/0", {0}, 13}}, 2);
    assert_int_equal(world_phase(&w), LH_REIGN_CLAIMING);
    w.revision = 10;
    world_applied(&w, claim);
    /* then */
    assert_int_equal(world_phase(&w), LH_REIGN_STANDBY);
    assert_non_null(world_link(&w, LH_METHOD_ETCD_WATCH, 0));
    free(head.data);
    free(next.data);
    free(last.data);
    world_end(&w);
}

/* A chunkserver that has seen that reign, by a name that nobody here knows. */
static void registers(struct world *w, uint64_t seen)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Register r = LEASEHOLD__REGISTER__INIT;

    r.server_id = "cs1";
    r.address = "cs1:1";
    r.incarnation = r.registration = 1;
    r.master_term_seen = seen;
    r.reign_name_seen = 4711;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
    request.register_ = &r;
    world_says(w, world_opens(w, LH_METHOD_SESSION), LH_METHOD_SESSION, &request.base);
}

static LeaseholdStored__Head *head_put(struct world *w)
{
    ProtobufCBinaryData bytes = world_put(world_link(w, LH_METHOD_ETCD_TXN, 0), "head");
    LeaseholdStored__Head *said = world_unpack_head(bytes);

    assert_non_null(said);
    return said;
}

/* SES-9: the head says so with the first commit of the higher reign, or before. */
static void a_reign_above_one_that_was_seen_is_the_head_s(void **state)
{
    struct world w;
    static const char key[] = "map/n\0\0\0\0\0\0\0\x15"; /* 21 */

    (void)state;
    /* given: a master that acts, and a head alone that is on its way */
    world_begin(&w, NULL);
    world_acts(&w);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0)); /* its first commit */
    world_run(&w, 600);
    LeaseholdStored__Head *before = head_put(&w);
    /* when */
    registers(&w, 20);
    /* then: what is on its way stays what it is */
    LeaseholdStored__Head *said = head_put(&w);
    assert_int_equal(said->reign, 2);
    leasehold_stored__head__free_unpacked(said, NULL);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    said = head_put(&w);
    assert_int_equal(said->reign, 21);
    assert_int_equal(said->number, 1);
    assert_int_equal(said->follows, before->number);
    assert_true(said->start != before->start);
    /* The table has it, by the same name. */
    const Etcdserverpb__TxnRequest *txn =
        (const void *)world_link(&w, LH_METHOD_ETCD_TXN, 0)->request;
    const Etcdserverpb__PutRequest *put = NULL;
    for (size_t i = 0; i < txn->n_success; i++)
        if (txn->success[i]->request_put != NULL &&
            txn->success[i]->request_put->key.len == strlen(PREFIX) + sizeof key - 1 &&
            memcmp(txn->success[i]->request_put->key.data + strlen(PREFIX), key, sizeof key - 1) ==
                0)
            put = txn->success[i]->request_put;
    assert_non_null(put);
    LeaseholdStored__Reign *reign =
        leasehold_stored__reign__unpack(NULL, put->value.len, put->value.data);
    assert_true(reign->name == said->start);
    leasehold_stored__reign__free_unpacked(reign, NULL);
    /* when: it is applied, and the next one follows */
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_run(&w, 600);
    leasehold_stored__head__free_unpacked(said, NULL);
    said = head_put(&w);
    /* then */
    assert_int_equal(said->reign, 21);
    assert_int_equal(said->number, 2);
    leasehold_stored__head__free_unpacked(said, NULL);
    leasehold_stored__head__free_unpacked(before, NULL);
    world_end(&w);
}

/* ---- A store that was restored while this master ran. */

static ProtobufCBinaryData packed(const ProtobufCMessage *m)
{
    static uint8_t bytes[2][128];
    static unsigned next;
    uint8_t *to = bytes[next++ % 2];

    return (ProtobufCBinaryData){protobuf_c_message_pack(m, to), to};
}

/* Loads again: the head, and a map in which reign 7 has that name. */
static void loads_again(struct world *w, ProtobufCBinaryData head, uint64_t name)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;
    LeaseholdStored__Reign reign = LEASEHOLD_STORED__REIGN__INIT;

    record.format = LH_MASTER_FORMAT_BARE;
    record.cluster_id = (char *)(uintptr_t) "c";
    record.next_file = record.next_chunk = 1;
    record.master_term = 7;
    reign.name = name;
    world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0),
        (struct world_pair[]){{"head", head, w->revision}}, 1);
    if (w->stopped)
        return;
    world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
    Etcdserverpb__RangeResponse reply = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__KeyValue kvs[2], *pointers[2] = {&kvs[0], &kvs[1]};
    static uint8_t key[] = PREFIX "map/n\0\0\0\0\0\0\0\7";
    for (int i = 0; i < 2; i++)
        etcdserverpb__key_value__init(&kvs[i]);
    kvs[0].key = (ProtobufCBinaryData){strlen(PREFIX "map/M"), (uint8_t *)PREFIX "map/M"};
    kvs[0].value = packed(&record.base);
    kvs[1].key = (ProtobufCBinaryData){sizeof key - 1, key};
    kvs[1].value = packed(&reign.base);
    header.revision = w->revision;
    reply.header = &header;
    reply.n_kvs = 2;
    reply.kvs = pointers;
    world_answer(w, world_link(w, LH_METHOD_ETCD_RANGE, 0), &reply.base);
}

/* The head that it finds is above all that it has seen: others went on from an older copy. */
static void a_store_that_went_on_from_an_older_copy_is_not_followed(void **state)
{
    static const struct {
        uint64_t reign, start, name;
        bool ends;
    } cases[] = {
        {7, 2, 2, true},  /* its own number was given again */
        {9, 3, 2, true},  /* and others followed */
        {9, 3, 1, false}, /* the same history */
        {7, 1, 1, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world w;
        ProtobufCBinaryData head = world_head(7, 100, 1, 0), later = world_head(7, 102, 1, 0),
                            next = world_head(cases[i].reign, 200, cases[i].start, 0);
        /* given */
        world_begin(&w, NULL);
        world_loads(&w, head);
        world_run(&w, 1);
        /* when: a head that is not shown makes it load again */
        world_events(&w, (struct world_pair[]){{"head", later, w.revision + 1}}, 1);
        world_run(&w, 200);
        loads_again(&w, next, cases[i].name);
        /* then */
        assert_int_equal(w.stopped, cases[i].ends);
        if (cases[i].ends)
            assert_non_null(strstr(w.said, "--restored"));
        else
            assert_int_equal(world_phase(&w), LH_REIGN_STANDBY);
        free(head.data);
        free(later.data);
        free(next.data);
        world_end(&w);
    }
}

/* HA-8: it may be any higher one, if it says which write it followed. */
static void a_standby_follows_a_reign_far_above(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);
    LeaseholdStored__Head *next = world_unpack_head(head);

    (void)state;
    for (int gap = 0; gap < 2; gap++) {
        /* given */
        world_begin(&w, NULL);
        world_loads(&w, head);
        world_run(&w, 1);
        /* when */
        next->reign = 4711;
        next->number = 1;
        next->follows = 100 + (uint64_t)gap;
        ProtobufCBinaryData bytes = world_pack_head(next);
        world_events(&w, (struct world_pair[]){{"head", bytes, 11}}, 1);
        /* then */
        assert_int_equal(world_phase(&w), gap ? LH_REIGN_LEARNING : LH_REIGN_STANDBY);
        free(bytes.data);
        world_end(&w);
    }
    leasehold_stored__head__free_unpacked(next, NULL);
    free(head.data);
}

/* ---- Calls of etcd. */

/* A store in which a cluster has begun, and nobody has acted. */
static void loads_begun(struct world *w)
{
    ProtobufCBinaryData first =
        world_head_of(world_head(1, 1, 4, 0), LEASEHOLD_STORED__HEAD__STATE__RESIGNED, "");

    world_loads(w, first);
    free(first.data);
}

static void a_member_that_hangs_does_not_hold_up_what_others_refused(void **state)
{
    struct world w;

    (void)state;
    /* given: a transaction that three members were asked for */
    world_begin(&w, NULL);
    loads_begun(&w);
    world_run(&w, 1100);
    struct link *third = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    struct link *second = world_link(&w, LH_METHOD_ETCD_TXN, 1);
    assert_non_null(world_link(&w, LH_METHOD_ETCD_TXN, 2));
    uint64_t newest = third->id;
    /* when: two have no leader for a moment, and one says nothing */
    world_fail(&w, second, LH_ERR_UNAVAILABLE, "etcdserver: leader changed");
    third = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    world_fail(&w, third, LH_ERR_UNAVAILABLE, "etcdserver: leader changed");
    world_run(&w, 150);
    /* then */
    assert_true(world_link(&w, LH_METHOD_ETCD_TXN, 0)->id > newest);
    world_end(&w);
}

/* What was on its way to a leader that has died is lost, and nobody says so (HA-5). */
static void a_transaction_without_an_answer_is_sent_again_and_again(void **state)
{
    struct world w;

    (void)state;
    /* given */
    world_begin(&w, NULL);
    loads_begun(&w);
    world_run(&w, 1);
    uint64_t first = world_link(&w, LH_METHOD_ETCD_TXN, 0)->id;
    for (int i = 0; i < 12; i++) {
        /* when: an eighth of T_reign is over */
        uint64_t newest = world_link(&w, LH_METHOD_ETCD_TXN, 0)->id;
        world_run(&w, 250);
        /* then */
        assert_true(world_link(&w, LH_METHOD_ETCD_TXN, 0)->id > newest);
    }
    /* then: each of the three members has two at most, and the first one waits for its answer */
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 6));
    assert_int_equal(world_link(&w, LH_METHOD_ETCD_TXN, 5)->id, first);
    world_end(&w);
}

/* etcd answers slowly, and always so: what asks it faster than that hears nothing. */
static void the_first_copy_of_a_transaction_is_answered_however_late(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    loads_begun(&w);
    world_run(&w, 1);
    uint64_t first = world_link(&w, LH_METHOD_ETCD_TXN, 0)->id;
    world_run(&w, 1900);
    for (size_t i = 0; i < w.count; i++)
        if (w.links[i].id == first) {
            assert_true(w.links[i].open);
            world_applied(&w, &w.links[i]);
            break;
        }
    assert_int_equal(world_phase(&w), LH_REIGN_ACTING);
    world_end(&w);
}

/* etcd elects a leader and answers nobody meanwhile: the active master could not write, either. */
static void time_in_which_etcd_did_not_answer_does_not_count(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);
    struct world_pair pair = {"head", head, 10};

    (void)state;
    /* given: etcd is silent from the middle of T_reign on, and answers before it is over */
    world_begin(&w, NULL);
    world_loads(&w, head);
    world_run(&w, 1);
    world_run(&w, 1800);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), &pair, 1);
    /* when: the rest of T_reign passes */
    world_hears_nothing(&w, 1900, head, 10);
    /* then */
    assert_int_equal(world_phase(&w), LH_REIGN_STANDBY);
    /* when: a T_reign in which etcd answered */
    world_hears_nothing(&w, 200, head, 10);
    /* then */
    assert_int_equal(world_phase(&w), LH_REIGN_CLAIMING);
    free(head.data);
    world_end(&w);
}

/* ---- Who calls it. */

static void small_gate(struct lh_reign_config *config)
{
    config->waiting_max = 1;
}

static void nothing_is_said_on_a_link_that_was_refused(void **state)
{
    struct world w;
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Register body = LEASEHOLD__REGISTER__INIT;

    (void)state;
    /* given: a call and a session, and a reign that is not confirmed any more */
    world_begin(&w, small_gate);
    world_acts(&w);
    for (int i = 0; i < 4; i++) {
        struct link *write = world_link(&w, LH_METHOD_ETCD_TXN, 0);
        if (write == NULL)
            break;
        world_applied(&w, write);
    }
    uint64_t session = world_opens(&w, LH_METHOD_SESSION);
    world_run(&w, 2500);
    struct link *write = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    assert_non_null(write);
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
    request.register_ = &body;
    /* when: the gate is full */
    world_says(&w, session, LH_METHOD_SESSION, &request.base);
    world_says(&w, session, LH_METHOD_SESSION, &request.base);
    assert_int_equal(world_ended(&w, session), LH_ERR_UNAVAILABLE);
    world_applied(&w, write);
    world_run(&w, 10);
    /* then */
    assert_int_equal(w.sent_behind_end, 0);
    world_end(&w);
}

/* What a program has of its last master it shows to the next one (PS-2): its stream asks nothing
 * whose outcome would be unknown. */
static void a_program_s_stream_ends_with_its_reign(void **state)
{
    struct world w;
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Attach attach = LEASEHOLD__ATTACH__INIT;
    uint8_t id[16] = {1};

    (void)state;
    /* given: a program at the active master */
    world_begin(&w, NULL);
    world_acts(&w);
    uint64_t session = world_opens(&w, LH_METHOD_LEASE_SESSION);
    attach.session = (ProtobufCBinaryData){.data = id, .len = sizeof id};
    attach.opens = true;
    attach.stream = 1;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    request.attach = &attach;
    world_says(&w, session, LH_METHOD_LEASE_SESSION, &request.base);
    assert_int_equal(world_ended(&w, session), -1);
    /* when: another master reigns */
    world_run(&w, 600);
    ProtobufCBinaryData other = world_head(700, 1, 4711, 0);
    struct link *write = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    assert_non_null(write);
    world_not_applied(&w, write, &other, 900);
    /* then: the program goes there, and so does one that comes now */
    assert_int_equal(world_ended(&w, session), LH_ERR_NOT_ACTIVE);
    session = world_opens(&w, LH_METHOD_LEASE_SESSION);
    assert_int_equal(world_ended(&w, session), LH_ERR_NOT_ACTIVE);
    free(other.data);
    world_end(&w);
}

/* A chunkserver that registers is called at its address (SES-7); that call. */
static struct link *a_server_that_is_called(struct world *w)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Register body = LEASEHOLD__REGISTER__INIT;

    world_begin(w, NULL);
    world_acts(w);
    body.server_id = "s";
    body.address = "s:1";
    body.incarnation = body.registration = 1;
    body.process = 77;
    body.identifies = true;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
    request.register_ = &body;
    uint64_t session = world_opens(w, LH_METHOD_SESSION);
    world_says(w, session, LH_METHOD_SESSION, &request.base);
    struct link *call = world_link(w, LH_METHOD_IDENTIFY, 0);
    assert_non_null(call);
    assert_string_equal(call->address, "s:1");
    assert_non_null(call->request);
    return call;
}

static void what_answers_a_master_that_is_not_confirmed_counts_once_it_is(void **state)
{
    struct world w;
    Leasehold__IdentifyReply reply = LEASEHOLD__IDENTIFY_REPLY__INIT;
    struct link *call = a_server_that_is_called(&w), *write;
    uint64_t link = call->id;

    (void)state;
    /* given: its registration is durable, and etcd is silent then */
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_run(&w, 2500);
    write = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    assert_non_null(write);
    /* when: the server answers, and its link ends */
    reply.server_id = "s";
    reply.process = 77;
    struct lh_input in = {.kind = LH_IN_MESSAGE, .link = link, .method = LH_METHOD_IDENTIFY};
    in.message = &reply;
    world_feed(&w, &in);
    in = (struct lh_input){
        .kind = LH_IN_LINK_CLOSED, .link = link, .method = LH_METHOD_IDENTIFY, .error = LH_OK};
    world_feed(&w, &in);
    world_applied(&w, write); /* it was sent too long ago to confirm */
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_run(&w, 10);
    /* then: it is written down that it was heard */
    write = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    assert_non_null(write);
    ProtobufCBinaryData put = world_put(write, "map/ss");
    LeaseholdStored__Server *stored = leasehold_stored__server__unpack(NULL, put.len, put.data);
    assert_non_null(stored);
    assert_int_equal(stored->reached, 77);
    leasehold_stored__server__free_unpacked(stored, NULL);
    world_end(&w);
}

/* PAIR-5. */
static void what_another_hand_deletes_is_written_again(void **state)
{
    struct world w;
    ProtobufCBinaryData nonsense = {3, (uint8_t *)(uintptr_t) "abc"};

    (void)state;
    /* given: an active master, with a server on record */
    a_server_that_is_called(&w);
    for (int i = 0; i < 9 && world_link(&w, LH_METHOD_ETCD_TXN, 0) != NULL; i++)
        world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    /* when: somebody deletes the record, and puts one of his own */
    w.revision++;
    world_events(&w,
        (struct world_pair[]){{"map/ss", {0}, w.revision}, {"map/vmine", nonsense, w.revision}}, 2);
    world_run(&w, 1);
    /* then */
    struct link *write = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    assert_non_null(write);
    ProtobufCBinaryData put = world_put(write, "map/ss");
    LeaseholdStored__Server *stored = leasehold_stored__server__unpack(NULL, put.len, put.data);
    assert_non_null(stored);
    assert_string_equal(stored->server_id, "s");
    leasehold_stored__server__free_unpacked(stored, NULL);
    assert_true(deletes(write, PREFIX "map/vmine"));
    (void)world_put(write, "head");
    world_applied(&w, write);
    /* when: what this one wrote is shown */
    world_events(&w,
        (struct world_pair[]){
            {"map/ss", put, w.revision}, {"head", world_put(write, "head"), w.revision}},
        2);
    world_run(&w, 100);
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_end(&w);
}

/* ... by the next reign, if the one that acts has not done it. */
static void what_another_hand_deletes_a_standby_keeps(void **state)
{
    ProtobufCBinaryData head = world_head(7, 100, 1, 0), next = world_head(7, 101, 1, 0),
                        last = world_head(7, 102, 1, 0);
    LeaseholdStored__Server record = LEASEHOLD_STORED__SERVER__INIT;
    uint8_t bytes[64], server[64];

    (void)state;
    record.server_id = (char *)(uintptr_t) "s";
    ProtobufCBinaryData value = {leasehold_stored__server__pack(&record, server), server};
    for (int healed = 0; healed < 2; healed++) {
        struct world w;
        /* given: a standby that knows of a server */
        world_begin(&w, NULL);
        world_loads(&w, head);
        world_run(&w, 1);
        world_events(&w,
            (struct world_pair[]){
                {"map/M", bare_master(bytes), 11}, {"map/ss", value, 11}, {"head", next, 11}},
            3);
        /* when: its record is deleted, and the active master writes it again, or not */
        world_events(&w, (struct world_pair[]){{"map/ss", {0}, 12}}, 1);
        assert_non_null(strstr(w.said, "no master"));
        if (healed)
            world_events(&w, (struct world_pair[]){{"map/ss", value, 13}, {"head", last, 13}}, 2);
        world_hears_nothing(&w, 2100, healed ? last : next, healed ? 13 : 11);
        w.revision = 20;
        world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
        assert_int_equal(world_phase(&w), LH_REIGN_ACTING);
        world_run(&w, 1);
        world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0)); /* the new term */
        world_run(&w, 1);
        /* then */
        struct link *write = world_link(&w, LH_METHOD_ETCD_TXN, 0);
        assert_int_equal(write == NULL, healed);
        if (write != NULL)
            (void)world_put(write, "map/ss");
        world_end(&w);
    }
    free(head.data);
    free(next.data);
    free(last.data);
}

static void a_master_s_calls_end_with_its_reign(void **state)
{
    struct world w;
    struct link *call = a_server_that_is_called(&w);
    uint64_t link = call->id;

    (void)state;
    ProtobufCBinaryData other = world_head(700, 1, 4711, 0);
    world_not_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0), &other, 900);
    for (size_t i = 0; i < w.count; i++)
        assert_false(w.links[i].id == link && w.links[i].open);
    /* What comes late is nobody's. */
    struct lh_input in = {.kind = LH_IN_LINK_CLOSED,
        .link = link,
        .method = LH_METHOD_IDENTIFY,
        .error = LH_ERR_UNAVAILABLE};
    world_feed(&w, &in);
    free(other.data);
    world_end(&w);
}

static void a_transfer_that_cannot_be_done_now_says_so(void **state)
{
    struct world w;

    (void)state;
    /* given: unconfirmed */
    world_begin(&w, NULL);
    world_acts(&w);
    world_run(&w, 2500);
    /* when */
    uint64_t link = world_opens(&w, LH_METHOD_TRANSFER);
    world_says(&w, link, LH_METHOD_TRANSFER, &transfer_request.base);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_run(&w, 10);
    /* then: not that it knows no such call */
    assert_int_equal(world_ended(&w, link), LH_ERR_UNAVAILABLE);
    world_end(&w);
}

static void a_call_that_waits_is_carried_out_with_the_next_confirmation(void **state)
{
    struct world w;

    (void)state;
    /* given */
    world_begin(&w, NULL);
    world_acts(&w);
    world_run(&w, 2500);
    uint64_t link = world_opens(&w, LH_METHOD_CREATE);
    world_says(&w, link, LH_METHOD_CREATE, &create.base);
    assert_int_equal(world_ended(&w, link), -1);
    /* when */
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    for (int i = 0; i < 3 && world_link(&w, LH_METHOD_ETCD_TXN, 0) != NULL; i++)
        world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    /* then: answered (that the path is none) */
    assert_int_equal(world_ended(&w, link), LH_OK);
    world_end(&w);
}

/* HA-7: its commit is on its way, and may count. A caller that hears of a refusal would do it
 * again, as another call. */
static void a_call_that_was_taken_is_not_refused_when_the_reign_is_lost(void **state)
{
    Leasehold__CreateRequest request = LEASEHOLD__CREATE_REQUEST__INIT;
    struct world w;

    (void)state;
    /* given */
    world_begin(&w, NULL);
    world_acts(&w);
    request.path = (char *)(uintptr_t) "/f";
    uint64_t taken = world_opens(&w, LH_METHOD_CREATE), idle = world_opens(&w, LH_METHOD_CREATE);
    world_says(&w, taken, LH_METHOD_CREATE, &request.base);
    assert_int_equal(world_ended(&w, taken), -1);
    /* when */
    ProtobufCBinaryData other = world_head(700, 1, 4711, 0);
    struct link *write = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    assert_non_null(write);
    world_not_applied(&w, write, &other, 900);
    /* then */
    assert_int_equal(world_ended(&w, taken), LH_ERR_UNAVAILABLE);
    assert_int_equal(world_ended(&w, idle), LH_ERR_NOT_ACTIVE);
    free(other.data);
    world_end(&w);
}

/* An unconfirmed master that was asked for a name. `head`: what it put last, to be freed. */
static uint64_t asked_while_unconfirmed(struct world *w, ProtobufCBinaryData *head)
{
    Leasehold__StatRequest stat = LEASEHOLD__STAT_REQUEST__INIT;
    struct link *write;

    world_begin(w, NULL);
    world_acts(w);
    for (int i = 0; i < 4 && (write = world_link(w, LH_METHOD_ETCD_TXN, 0)) != NULL; i++) {
        ProtobufCBinaryData put = world_put(write, "head");
        free(head->data);
        *head = (ProtobufCBinaryData){put.len, malloc(put.len)};
        memcpy(head->data, put.data, put.len);
        world_applied(w, write);
    }
    world_run(w, 2500);
    stat.path = (char *)(uintptr_t) "/f";
    uint64_t link = world_opens(w, LH_METHOD_STAT);
    world_says(w, link, LH_METHOD_STAT, &stat.base);
    return link;
}

/* etcd takes no writes and answers reads: its quota is used up. */
static void a_read_is_answered_when_etcd_says_that_nobody_else_reigns(void **state)
{
    struct world w;
    ProtobufCBinaryData head = {0}, other = world_head(700, 1, 4711, 0);

    (void)state;
    for (int own = 0; own < 2; own++) {
        uint64_t stat = asked_while_unconfirmed(&w, &head);
        uint64_t made = world_opens(&w, LH_METHOD_CREATE);
        world_says(&w, made, LH_METHOD_CREATE, &create.base);
        assert_int_equal(world_ended(&w, stat), -1);
        /* when: another reign has begun, or none has */
        world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0),
            (struct world_pair[]){{"head", own ? head : other, w.revision}}, 1);
        /* then */
        assert_int_equal(world_ended(&w, stat), own ? LH_OK : -1);
        assert_int_equal(world_ended(&w, made), -1);
        world_end(&w);
    }
    free(head.data);
    free(other.data);
}

/* What is under way may have been applied. */
static void a_read_is_answered_while_a_write_is_under_way(void **state)
{
    struct world w;
    ProtobufCBinaryData head = {0};
    uint64_t stat = asked_while_unconfirmed(&w, &head);

    (void)state;
    ProtobufCBinaryData put = world_put(world_link(&w, LH_METHOD_ETCD_TXN, 0), "head");
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0),
        (struct world_pair[]){{"head", put, w.revision + 1}}, 1);
    assert_int_equal(world_ended(&w, stat), LH_OK);
    free(head.data);
    world_end(&w);
}

static void a_read_that_came_behind_the_question_is_asked_about_anew(void **state)
{
    struct world w;
    Leasehold__StatRequest request = LEASEHOLD__STAT_REQUEST__INIT;
    ProtobufCBinaryData head = {0};
    uint64_t first = asked_while_unconfirmed(&w, &head);

    (void)state;
    request.path = (char *)(uintptr_t) "/f";
    uint64_t second = world_opens(&w, LH_METHOD_STAT);
    world_says(&w, second, LH_METHOD_STAT, &request.base);
    struct world_pair pair = {"head", head, w.revision};
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), &pair, 1);
    assert_int_equal(world_ended(&w, first), LH_OK);
    assert_int_equal(world_ended(&w, second), -1);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), &pair, 1);
    assert_int_equal(world_ended(&w, second), LH_OK);
    free(head.data);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_is_answered_when_etcd_says_that_nobody_else_reigns),
        cmocka_unit_test(a_read_is_answered_while_a_write_is_under_way),
        cmocka_unit_test(a_read_that_came_behind_the_question_is_asked_about_anew),
        cmocka_unit_test(an_empty_store_is_no_new_one_to_who_has_seen_its_head),
        cmocka_unit_test(a_master_begins_no_cluster_and_waits_for_one),
        cmocka_unit_test(keys_without_a_head_are_no_place_for_a_cluster),
        cmocka_unit_test(a_head_alone_is_no_place_for_a_cluster),
        cmocka_unit_test(a_cluster_begins_where_there_is_nothing),
        cmocka_unit_test(no_second_cluster_begins),
        cmocka_unit_test(a_standby_names_its_cluster_and_keeps_it),
        cmocka_unit_test(a_watch_that_shows_nothing_is_begun_at_another_member),
        cmocka_unit_test(a_revision_that_is_not_there_yet_is_not_waited_for),
        cmocka_unit_test(a_piece_of_an_absurd_index_is_none),
        cmocka_unit_test(a_term_above_the_head_s_reign_that_a_watch_shows_is_refused),
        cmocka_unit_test(an_empty_pair_that_a_watch_shows_begins_nothing),
        cmocka_unit_test(the_highest_reign_that_is_read_has_a_next_one),
        cmocka_unit_test(a_master_with_other_settings_than_the_active_one_ends),
        cmocka_unit_test(an_etcd_of_another_major_version_is_refused),
        cmocka_unit_test(a_successor_that_the_list_lacks_goes_first),
        cmocka_unit_test(an_answer_that_comes_behind_the_next_reign_begins_none),
        cmocka_unit_test(a_reign_above_one_that_was_seen_is_the_head_s),
        cmocka_unit_test(a_standby_follows_a_reign_far_above),
        cmocka_unit_test(a_store_that_went_on_from_an_older_copy_is_not_followed),
        cmocka_unit_test(a_member_that_hangs_does_not_hold_up_what_others_refused),
        cmocka_unit_test(a_transaction_without_an_answer_is_sent_again_and_again),
        cmocka_unit_test(the_first_copy_of_a_transaction_is_answered_however_late),
        cmocka_unit_test(time_in_which_etcd_did_not_answer_does_not_count),
        cmocka_unit_test(nothing_is_said_on_a_link_that_was_refused),
        cmocka_unit_test(a_program_s_stream_ends_with_its_reign),
        cmocka_unit_test(what_answers_a_master_that_is_not_confirmed_counts_once_it_is),
        cmocka_unit_test(a_head_that_one_member_has_damaged),
        cmocka_unit_test(a_pair_that_all_members_have_damaged),
        cmocka_unit_test(what_another_hand_deletes_is_written_again),
        cmocka_unit_test(what_another_hand_deletes_a_standby_keeps),
        cmocka_unit_test(a_master_s_calls_end_with_its_reign),
        cmocka_unit_test(a_transfer_that_cannot_be_done_now_says_so),
        cmocka_unit_test(a_call_that_waits_is_carried_out_with_the_next_confirmation),
        cmocka_unit_test(a_call_that_was_taken_is_not_refused_when_the_reign_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
