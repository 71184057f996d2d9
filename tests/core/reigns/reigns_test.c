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

static ProtobufCBinaryData record_of(const char *cluster)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;

    record.format = 1;
    record.cluster_id = (char *)(uintptr_t)cluster;
    record.next_file = record.next_chunk = 1;
    size_t size = leasehold_stored__master__get_packed_size(&record);
    uint8_t *bytes = malloc(size);
    leasehold_stored__master__pack(&record, bytes);
    return (ProtobufCBinaryData){size, bytes};
}

/* A store with that head, and of that cluster. */
static void loads_of(struct world *w, ProtobufCBinaryData head, const char *cluster)
{
    ProtobufCBinaryData record = record_of(cluster);

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
    world_events(&w, (struct world_pair[]){{"map/M", {0}, 11}}, 1);
    world_run(&w, 200);
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
    ProtobufCBinaryData record = record_of("one");

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
    ProtobufCBinaryData record = record_of("one");

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
    /* when: it wants to claim twice, and the head has changed long ago */
    for (int i = 0; i < 2; i++)
        world_hears_nothing(&w, 2100, newer, 30);
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
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
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
    record.format = LH_MASTER_FORMAT;
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
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_ERR_CORRUPT);
    assert_non_null(strstr(w.said, "master term 9"));
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    free(head.data);
    free(next.data);
    world_end(&w);
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
    LeaseholdStored__Head *said = leasehold_stored__head__unpack(NULL, head.len, head.data);
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
    LeaseholdStored__Head *said = leasehold_stored__head__unpack(NULL, head.len, head.data);

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
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
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

static void restored(struct lh_reign_config *config)
{
    config->master.restored = true;
}

/* Reigns that the older copy does not know have been; chunkservers refuse lower ones. */
static void a_restored_store_is_claimed_with_a_reign_that_nobody_has_seen(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);

    (void)state;
    /* given */
    world_begin(&w, restored);
    world_loads(&w, head);
    /* when */
    world_hears_nothing(&w, 2100, head, w.revision);
    ProtobufCBinaryData ours = world_put(world_link(&w, LH_METHOD_ETCD_TXN, 0), "head");
    LeaseholdStored__Head *said = leasehold_stored__head__unpack(NULL, ours.len, ours.data);
    /* then */
    assert_non_null(said);
    assert_true(said->reign > 7 + 1000000);
    leasehold_stored__head__free_unpacked(said, NULL);
    free(head.data);
    world_end(&w);
}

/* ---- Calls of etcd. */

static void a_member_that_hangs_does_not_hold_up_what_others_refused(void **state)
{
    struct world w;
    ProtobufCBinaryData first =
        world_head_of(world_head(1, 1, 4, 0), LEASEHOLD_STORED__HEAD__STATE__RESIGNED, "");

    (void)state;
    /* given: a transaction that three members were asked for */
    world_begin(&w, NULL);
    world_loads(&w, first);
    free(first.data);
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

    (void)state;
    /* given: its registration is durable, and etcd is silent then */
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_run(&w, 2500);
    write = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    assert_non_null(write);
    /* when: the server answers, and its link ends */
    uint64_t link = call->id;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_store_is_no_new_one_to_who_has_seen_its_head),
        cmocka_unit_test(a_master_begins_no_cluster_and_waits_for_one),
        cmocka_unit_test(keys_without_a_head_are_no_place_for_a_cluster),
        cmocka_unit_test(a_cluster_begins_where_there_is_nothing),
        cmocka_unit_test(no_second_cluster_begins),
        cmocka_unit_test(a_standby_names_its_cluster_and_keeps_it),
        cmocka_unit_test(a_watch_that_shows_nothing_is_begun_at_another_member),
        cmocka_unit_test(a_revision_that_is_not_there_yet_is_not_waited_for),
        cmocka_unit_test(a_piece_of_an_absurd_index_is_none),
        cmocka_unit_test(a_term_above_the_head_s_reign_that_a_watch_shows_is_refused),
        cmocka_unit_test(the_highest_reign_that_is_read_has_a_next_one),
        cmocka_unit_test(a_master_with_other_settings_than_the_active_one_ends),
        cmocka_unit_test(an_etcd_of_another_major_version_is_refused),
        cmocka_unit_test(a_successor_that_the_list_lacks_goes_first),
        cmocka_unit_test(an_answer_that_comes_behind_the_next_reign_begins_none),
        cmocka_unit_test(a_restored_store_is_claimed_with_a_reign_that_nobody_has_seen),
        cmocka_unit_test(a_member_that_hangs_does_not_hold_up_what_others_refused),
        cmocka_unit_test(nothing_is_said_on_a_link_that_was_refused),
        cmocka_unit_test(a_program_s_stream_ends_with_its_reign),
        cmocka_unit_test(what_answers_a_master_that_is_not_confirmed_counts_once_it_is),
        cmocka_unit_test(a_master_s_calls_end_with_its_reign),
        cmocka_unit_test(a_transfer_that_cannot_be_done_now_says_so),
        cmocka_unit_test(a_call_that_waits_is_carried_out_with_the_next_confirmation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
