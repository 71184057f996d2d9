/* Stories of `leasehold store copy` with an etcd that is played by hand: at no time two stores can
 * be acted on, and none is left that nothing can be done with. */
#include "tests/core/reigns/etcd_by_hand.h"

#include "base/alloc.h"
#include "base/error.h"

#define HERE "lmdb:/here"

#define ACTING   LEASEHOLD_STORED__HEAD__STATE__ACTING
#define RESIGNED LEASEHOLD_STORED__HEAD__STATE__RESIGNED
#define COPYING  LEASEHOLD_STORED__HEAD__STATE__COPYING
#define MOVED    LEASEHOLD_STORED__HEAD__STATE__MOVED

static const ProtobufCBinaryData none = {0, NULL};

/* The head that a transaction puts, to be freed. */
static LeaseholdStored__Head *head_put(const struct link *txn)
{
    ProtobufCBinaryData bytes = world_put(txn, "head");
    LeaseholdStored__Head *head = world_unpack_head(bytes);

    assert_non_null(head);
    return head;
}

static void assert_puts_head(
    struct world *w, LeaseholdStored__Head__State state, uint64_t reign, uint64_t number)
{
    struct link *txn = world_link(w, LH_METHOD_ETCD_TXN, 0);
    LeaseholdStored__Head *head = head_put(txn);

    assert_int_equal(head->state, state);
    assert_int_equal(head->reign, reign);
    assert_int_equal(head->number, number);
    assert_string_equal(head->elsewhere, state == RESIGNED ? "" : HERE);
    leasehold_stored__head__free_unpacked(head, NULL);
}

static void assert_refused(const struct world *w, int error, const char *part)
{
    assert_true(w->stopped);
    assert_int_equal(w->stop_error, error);
    if (strstr(w->said, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, w->said);
    assert_int_equal(w->commits, 0);
}

static struct lh_change pair(char letter, size_t number, size_t size)
{
    struct lh_change c = {lh_alloc(9), lh_alloc(size + 1), 9, (uint32_t)size};

    c.key[0] = (uint8_t)letter;
    for (int i = 8; number > 0; i--, number >>= 8)
        c.key[i] = (uint8_t)number;
    return c;
}

/* ---- To etcd. */

static void fills(struct lh_reign_config *config)
{
    config->task = LH_REIGN_FILL;
    config->elsewhere = HERE;
}

/* `count` pairs of `size` bytes of a master of term 5. */
static void world_fills(struct world *w, size_t count, size_t size)
{
    struct lh_change *pairs = lh_alloc_array(count, sizeof *pairs);

    for (size_t i = 0; i < count; i++)
        pairs[i] = pair('f', i, size);
    world_begin(w, fills);
    lh_reigns_fill(w->r, pairs, count, 5);
}

static struct link *learns(struct world *w, ProtobufCBinaryData head)
{
    struct world_pair p = {"head", head, w->revision};

    world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0), &p, head.data != NULL);
    return w->stopped ? NULL : world_link(w, LH_METHOD_ETCD_TXN, 0);
}

static size_t pairs_put(const struct link *txn, size_t *bytes)
{
    const Etcdserverpb__TxnRequest *request = (const Etcdserverpb__TxnRequest *)txn->request;
    size_t count = 0;

    *bytes = etcdserverpb__txn_request__get_packed_size(request);
    for (size_t i = 0; i < request->n_success; i++)
        count += request->success[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    assert_true(request->n_success <= 128);
    assert_int_equal(request->n_compare, 2);
    return count - 1; /* the head's */
}

static void an_empty_store_is_filled_before_a_reign_may_begin(void **state)
{
    struct world w;
    uint64_t number = 1;
    size_t left = 300, bytes;

    (void)state;
    /* given */
    world_fills(&w, left, 10);
    struct link *claim = learns(&w, none);
    /* then: it claims what nobody has */
    const Etcdserverpb__TxnRequest *request = (const Etcdserverpb__TxnRequest *)claim->request;
    assert_int_equal(request->n_compare, 2);
    for (size_t i = 0; i < 2; i++) {
        const Etcdserverpb__Compare *c = request->compare[i];
        assert_int_equal(c->target, ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE);
        assert_true(c->create_revision == 0 && c->range_end.len > 0);
    }
    assert_puts_head(&w, COPYING, 5, 1);
    world_applied(&w, claim);
    /* when, then: all pairs, fenced, in transactions that etcd takes */
    while (left > 0) {
        assert_puts_head(&w, COPYING, 5, ++number);
        struct link *txn = world_link(&w, LH_METHOD_ETCD_TXN, 0);
        size_t count = pairs_put(txn, &bytes);
        assert_true(count > 0 && count <= left);
        left -= count;
        assert_int_equal(w.commits, 0);
        world_applied(&w, txn);
    }
    /* then: the other store is told first */
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_int_equal(w.commits, 1);
    world_committed(&w, LH_OK);
    world_run(&w, 1);
    assert_puts_head(&w, RESIGNED, 5, ++number);
    assert_false(w.stopped);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_OK);
    world_end(&w);
}

static void large_pairs_go_in_several_transactions(void **state)
{
    struct world w;
    size_t left = 40, bytes, transactions = 0;

    (void)state;
    /* given: 4 MiB */
    world_fills(&w, left, 100 << 10);
    world_applied(&w, learns(&w, none));
    /* when, then */
    for (; left > 0; transactions++) {
        struct link *txn = world_link(&w, LH_METHOD_ETCD_TXN, 0);
        left -= pairs_put(txn, &bytes);
        assert_true(bytes < (1 << 20) + (1 << 10));
        world_applied(&w, txn);
    }
    assert_true(transactions >= 4);
    world_end(&w);
}

static void a_store_that_has_a_head_is_not_filled(void **state)
{
    struct world w;
    ProtobufCBinaryData heads[] = {world_head(7, 100, 1, 0),
        world_head_of(world_head(7, 100, 1, 0), RESIGNED, ""),
        world_head_of(world_head(7, 100, 1, 0), MOVED, HERE),
        world_head_of(world_head(7, 100, 1, 0), COPYING, "lmdb:/there")};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        world_fills(&w, 3, 10);
        (void)learns(&w, heads[i]);
        assert_refused(&w, LH_ERR_ALREADY_EXISTS, i < 3 ? "there is a store" : "from lmdb:/there");
        world_end(&w);
        free(heads[i].data);
    }
}

static void a_store_with_other_keys_is_not_filled(void **state)
{
    struct world w;

    (void)state;
    world_fills(&w, 3, 10);
    world_not_applied(&w, learns(&w, none), NULL, 20);
    assert_refused(&w, LH_ERR_ALREADY_EXISTS, "nothing was changed");
    world_end(&w);
}

static void an_earlier_attempt_is_cleared_and_done_again(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head_of(world_head(5, 3, 1, 0), COPYING, HERE);

    (void)state;
    /* given */
    world_fills(&w, 3, 10);
    /* when */
    struct link *claim = learns(&w, head);
    /* then: this head and no other is replaced, and what it left goes */
    const Etcdserverpb__TxnRequest *request = (const Etcdserverpb__TxnRequest *)claim->request;
    assert_int_equal(request->n_compare, 2);
    assert_int_equal(request->compare[1]->value.len, head.len);
    bool map = false;
    for (size_t i = 0; i < request->n_success; i++)
        map |= request->success[i]->request_case ==
                   ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE &&
               memcmp(request->success[i]->request_delete_range->key.data, PREFIX "map/", 7) == 0;
    assert_true(map);
    assert_puts_head(&w, COPYING, 5, 4);
    free(head.data);
    world_end(&w);
}

/* HA-5 */
static void the_answer_to_the_last_transaction_is_found_out(void **state)
{
    struct world w;
    size_t bytes;

    (void)state;
    /* given: all is there, and the other store knows */
    world_fills(&w, 3, 10);
    world_applied(&w, learns(&w, none));
    assert_int_equal(pairs_put(world_link(&w, LH_METHOD_ETCD_TXN, 0), &bytes), 3);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_committed(&w, LH_OK);
    world_run(&w, 1);
    ProtobufCBinaryData last = world_put(world_link(&w, LH_METHOD_ETCD_TXN, 0), "head");
    uint8_t *copy = malloc(last.len);
    memcpy(copy, last.data, last.len);
    last.data = copy;
    /* when: the answer is lost, and the same is sent again, whatever an operator wishes */
    world_fail(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0), LH_ERR_UNAVAILABLE, "lost");
    world_stop(&w);
    world_run(&w, 10000);
    struct link *again = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    ProtobufCBinaryData same = world_put(again, "head");
    assert_int_equal(same.len, last.len);
    assert_memory_equal(same.data, last.data, same.len);
    assert_false(w.stopped);
    world_not_applied(&w, again, &last, 30);
    /* then */
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_OK);
    free(copy);
    world_end(&w);
}

static void who_fills_and_is_not_alone_says_so(void **state)
{
    struct world w;
    ProtobufCBinaryData other = world_head(6, 1, 1, 0);

    (void)state;
    world_fills(&w, 3, 10);
    world_applied(&w, learns(&w, none));
    world_not_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0), &other, 30);
    assert_refused(&w, LH_ERR_IN_USE, "another process has written");
    free(other.data);
    world_end(&w);
}

/* ---- From etcd. */

static void takes(struct lh_reign_config *config)
{
    config->task = LH_REIGN_TAKE;
    config->elsewhere = HERE;
}

static void takes_again(struct lh_reign_config *config)
{
    takes(config);
    config->even_if_moved_to = HERE;
}

static void takes_of_another_cluster(struct lh_reign_config *config)
{
    takes(config);
    config->cluster = "another";
}

static ProtobufCBinaryData master_record(uint64_t term)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;
    ProtobufCBinaryData bytes;

    record.format = 2;
    record.cluster_id = (char *)(uintptr_t) "cluster";
    record.master_term = term;
    record.next_file = record.next_chunk = 1;
    bytes.len = leasehold_stored__master__get_packed_size(&record);
    bytes.data = lh_alloc(bytes.len);
    leasehold_stored__master__pack(&record, bytes.data);
    return bytes;
}

/* It has read a store of that head, with nothing but the master's record of reign 7. */
static void reads(struct world *w, ProtobufCBinaryData head)
{
    ProtobufCBinaryData record = master_record(7);

    world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0),
        (struct world_pair[]){{"head", head, w->revision}}, 1);
    if (!w->stopped) {
        world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
        world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0),
            (struct world_pair[]){{"map/M", record, 3}}, 1);
        world_run(w, 1);
    }
    free(record.data);
}

static void a_store_is_taken_once_its_last_reign_is_over(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0);

    (void)state;
    /* given */
    world_begin(&w, takes);
    reads(&w, head);
    world_hears_nothing(&w, 1900, head, w.revision);
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    /* when */
    world_hears_nothing(&w, 200, head, w.revision);
    assert_puts_head(&w, MOVED, 8, 1);
    assert_int_equal(w.commits, 0);
    struct link *claim = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    ProtobufCBinaryData ours = world_put(claim, "head");
    /* ... and the watch shows it, too */
    world_events(&w, (struct world_pair[]){{"head", ours, 11}}, 1);
    world_applied(&w, claim);
    /* then: the next term is above all reigns */
    assert_int_equal(w.commits, 1);
    assert_int_equal(w.persisted_count, 1);
    LeaseholdStored__Master *record =
        leasehold_stored__master__unpack(NULL, w.persisted[0].value_size, w.persisted[0].value);
    assert_int_equal(record->master_term, 8);
    leasehold_stored__master__free_unpacked(record, NULL);
    assert_null(world_link(&w, LH_METHOD_ETCD_WATCH, 0));
    world_committed(&w, LH_OK);
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_OK);
    free(head.data);
    world_end(&w);
}

static void a_resigned_store_is_taken_at_once(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head_of(world_head(7, 100, 1, 0), RESIGNED, "");

    (void)state;
    world_begin(&w, takes);
    reads(&w, head);
    assert_puts_head(&w, MOVED, 8, 1);
    free(head.data);
    world_end(&w);
}

/* HA-6: of a commit some changes are in place, and others in pieces. */
static void what_is_in_pieces_is_taken(void **state)
{
    struct world w;
    LeaseholdStored__Piece piece = LEASEHOLD_STORED__PIECE__INIT;
    LeaseholdStored__Change change = LEASEHOLD_STORED__CHANGE__INIT, *changes[1] = {&change};
    ProtobufCBinaryData head = world_head_of(world_head(7, 100, 1, 1), RESIGNED, "");
    ProtobufCBinaryData record = master_record(7), old = master_record(3), bytes;

    (void)state;
    /* given */
    change.key = (ProtobufCBinaryData){1, (uint8_t *)(uintptr_t) "M"};
    change.value = record;
    piece.n_changes = 1;
    piece.changes = changes;
    bytes.len = leasehold_stored__piece__get_packed_size(&piece);
    bytes.data = malloc(bytes.len);
    leasehold_stored__piece__pack(&piece, bytes.data);
    /* when */
    world_begin(&w, takes);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0),
        (struct world_pair[]){{"head", head, w.revision}}, 1);
    world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0),
        (struct world_pair[]){{"pieces/0", bytes, 3}}, 1);
    world_pairs(
        &w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), (struct world_pair[]){{"map/M", old, 3}}, 1);
    world_run(&w, 1);
    /* then: the pieces stay where they are, also if it is taken back */
    LeaseholdStored__Head *claim = head_put(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_int_equal(claim->pieces, 1);
    leasehold_stored__head__free_unpacked(claim, NULL);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_int_equal(w.persisted_count, 1);
    world_committed(&w, LH_ERR_IO);
    world_run(&w, 1);
    claim = head_put(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_int_equal(claim->pieces, 1);
    assert_int_equal(claim->state, RESIGNED);
    leasehold_stored__head__free_unpacked(claim, NULL);
    free(head.data);
    free(record.data);
    free(old.data);
    free(bytes.data);
    world_end(&w);
}

static void a_master_that_acts_is_not_taken_from(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 100, 1, 0), next = world_head(7, 101, 1, 0);

    (void)state;
    /* given, when: the watch shows its next write */
    world_begin(&w, takes);
    reads(&w, head);
    world_run(&w, 400);
    world_events(&w, (struct world_pair[]){{"head", next, 11}}, 1);
    /* then */
    assert_refused(&w, LH_ERR_IN_USE, "a master acts");
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_end(&w);

    /* given, when: another reign begins before this claim */
    free(next.data);
    next = world_head(8, 1, 2, 0);
    world_begin(&w, takes);
    reads(&w, head);
    world_hears_nothing(&w, 2100, head, w.revision);
    world_not_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0), &next, 12);
    /* then */
    assert_refused(&w, LH_ERR_IN_USE, "another process has written");
    free(head.data);
    free(next.data);
    world_end(&w);
}

static void stores_that_are_not_taken(void **state)
{
    static const struct {
        LeaseholdStored__Head__State state;
        const char *elsewhere;
        void (*change)(struct lh_reign_config *config);
        int error;
        const char *part;
    } rows[] = {
        {COPYING, HERE, takes, LH_ERR_IN_USE, "is not whole"},
        {MOVED, HERE, takes, LH_ERR_WRONG_IDENTITY, "went to " HERE},
        {MOVED, "lmdb:/there", takes_again, LH_ERR_WRONG_IDENTITY, "went to lmdb:/there"},
        {RESIGNED, "", takes_of_another_cluster, LH_ERR_WRONG_IDENTITY, "is of cluster cluster"},
    };
    struct world w;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ProtobufCBinaryData head =
            world_head_of(world_head(7, 100, 1, 0), rows[i].state, rows[i].elsewhere);
        world_begin(&w, rows[i].change);
        reads(&w, head);
        assert_refused(&w, rows[i].error, rows[i].part);
        assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
        free(head.data);
        world_end(&w);
    }
    world_begin(&w, takes);
    (void)learns(&w, none);
    assert_refused(&w, LH_ERR_NOT_FOUND, "there is no store");
    world_end(&w);
}

static void a_copy_that_was_interrupted_is_taken_up(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head_of(world_head(8, 1, 1, 0), MOVED, HERE);

    (void)state;
    world_begin(&w, takes_again);
    reads(&w, head);
    assert_puts_head(&w, MOVED, 9, 1);
    free(head.data);
    world_end(&w);
}

static void what_cannot_be_stored_is_given_back(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head_of(world_head(7, 100, 1, 0), RESIGNED, "");

    (void)state;
    /* given */
    world_begin(&w, takes);
    reads(&w, head);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    /* when: no room for a while is no failure */
    world_committed(&w, LH_ERR_SHORTAGE);
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_committed(&w, LH_ERR_DISK_FULL);
    world_run(&w, 1);
    /* then */
    assert_puts_head(&w, RESIGNED, 8, 2);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_ERR_DISK_FULL);
    free(head.data);
    world_end(&w);
}

static void an_operator_interrupts(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head_of(world_head(7, 100, 1, 0), RESIGNED, "");

    (void)state;
    /* given: nobody knows whether the claim was applied */
    world_begin(&w, takes);
    reads(&w, head);
    world_stop(&w);
    assert_false(w.stopped);
    /* when: it was */
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_run(&w, 1);
    /* then */
    assert_int_equal(w.commits, 0);
    assert_puts_head(&w, RESIGNED, 8, 2);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_int_equal(w.stop_error, LH_ERR_CANCELLED);
    world_end(&w);

    /* given, when: the content is on its way */
    world_begin(&w, takes);
    reads(&w, head);
    world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_stop(&w);
    assert_false(w.stopped);
    world_committed(&w, LH_OK);
    /* then: it is done */
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_OK);
    world_end(&w);

    /* given, when: half of the pairs are in etcd */
    world_fills(&w, 300, 10);
    world_applied(&w, learns(&w, none));
    world_stop(&w);
    /* then */
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_ERR_CANCELLED);
    free(head.data);
    world_end(&w);
}

/* HA-5: the head allows masters, whose answer is late; one begins a reign at once. */
static void a_master_begins_before_the_last_answer(void **state)
{
    struct world w;
    ProtobufCBinaryData next = world_head(6, 1, 9, 0), later = world_head(6, 40, 9, 0);
    const ProtobufCBinaryData *heads[] = {&next, &later};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        /* given: all is there, the other store knows, and this one may be started on */
        world_fills(&w, 3, 10);
        world_applied(&w, learns(&w, none));
        world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
        world_committed(&w, LH_OK);
        world_run(&w, 1);
        assert_puts_head(&w, RESIGNED, 5, 3);
        world_fail(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0), LH_ERR_UNAVAILABLE, "lost");
        world_run(&w, 1000);
        /* when: a master that waited has begun a reign, so it was applied */
        world_not_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0), heads[i], 31);
        /* then: it is done. With an error the other store's mark would be taken away, and masters
         * would start on both. */
        assert_true(w.stopped);
        assert_int_equal(w.stop_error, LH_OK);
        world_end(&w);
    }
    free(next.data);
    free(later.data);
}

/* A copy whose claim is answered late; an operator has given it up and run another one. */
static void a_copy_that_was_replaced_claims_no_more(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head_of(world_head(7, 100, 1, 0), RESIGNED, ""),
                        other = world_head_of(world_head(9, 1, 2, 0), MOVED, "lmdb:/there");

    (void)state;
    /* given */
    world_begin(&w, takes);
    reads(&w, head);
    struct link *claim = world_link(&w, LH_METHOD_ETCD_TXN, 0);
    ProtobufCBinaryData ours = world_put(claim, "head");
    /* when: the watch shows both claims before the answer comes */
    world_events(&w, (struct world_pair[]){{"head", ours, 11}}, 1);
    world_events(&w, (struct world_pair[]){{"head", other, 12}}, 1);
    if (!w.stopped)
        world_applied(&w, world_link(&w, LH_METHOD_ETCD_TXN, 0));
    world_run(&w, 100);
    /* then */
    assert_refused(&w, LH_ERR_IN_USE, "");
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    free(head.data);
    free(other.data);
    world_end(&w);
}

/* ---- Masters. */

static void a_master_waits_while_its_store_is_filled(void **state)
{
    struct world w;
    Leasehold__MastersRequest request = LEASEHOLD__MASTERS_REQUEST__INIT;
    ProtobufCBinaryData head = world_head_of(world_head(7, 1, 1, 0), COPYING, HERE);
    char why[700];

    (void)state;
    /* given */
    world_begin(&w, NULL);
    (void)learns(&w, head);
    /* when: it looks again, now and then */
    for (int i = 0; i < 10; i++) {
        world_run(&w, 500);
        (void)learns(&w, head);
    }
    /* then: it neither loads nor claims, and says why */
    assert_int_equal(world_phase(&w), LH_REIGN_LEARNING);
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_non_null(strstr(w.said, "is being filled from " HERE));
    assert_false(lh_reigns_ready(w.r, why, sizeof why));
    assert_string_equal(why, w.said);
    uint64_t link = world_opens(&w, LH_METHOD_MASTERS);
    world_says(&w, link, LH_METHOD_MASTERS, &request.base);
    /* when */
    free(head.data);
    head = world_head_of(world_head(7, 9, 1, 0), RESIGNED, "");
    world_run(&w, 500);
    world_loads(&w, head);
    world_run(&w, 1);
    /* then */
    assert_int_equal(world_phase(&w), LH_REIGN_CLAIMING);
    assert_true(lh_reigns_ready(w.r, why, sizeof why));
    free(head.data);
    world_end(&w);
}

static void a_standby_whose_store_goes_away_says_so(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head(7, 1, 1, 0),
                        moved = world_head_of(world_head(8, 1, 2, 0), MOVED, HERE),
                        back = world_head_of(world_head(8, 2, 2, 0), RESIGNED, "");

    (void)state;
    /* given */
    world_begin(&w, NULL);
    world_loads(&w, head);
    world_run(&w, 1);
    /* when */
    world_events(&w, (struct world_pair[]){{"head", moved, 11}}, 1);
    world_run(&w, 60000);
    /* then */
    assert_int_equal(world_phase(&w), LH_REIGN_STANDBY);
    assert_null(world_link(&w, LH_METHOD_ETCD_TXN, 0));
    assert_non_null(strstr(w.said, "content went to " HERE));
    /* when: nothing came of it */
    world_events(&w, (struct world_pair[]){{"head", back, 12}}, 1);
    world_run(&w, 100);
    /* then */
    assert_int_equal(world_phase(&w), LH_REIGN_CLAIMING);
    free(head.data);
    free(moved.data);
    free(back.data);
    world_end(&w);
}

/* The sentence that it logs says: run the copy again. That one begins again. */
static void a_master_waits_on_when_the_copy_is_run_again(void **state)
{
    struct world w, c;
    ProtobufCBinaryData head = world_head_of(world_head(5, 20, 1, 0), COPYING, HERE);

    (void)state;
    /* given: a master that waits, and the copy is killed */
    world_begin(&w, NULL);
    (void)learns(&w, head);
    world_run(&w, 500);
    /* when: the same one is run again */
    world_fills(&c, 3, 10);
    ProtobufCBinaryData again = world_put(learns(&c, head), "head");
    (void)learns(&w, again);
    /* then */
    if (w.stopped)
        fail_msg("it stops, and says: %s", w.said);
    assert_int_equal(world_phase(&w), LH_REIGN_LEARNING);
    free(head.data);
    world_end(&w);
    world_end(&c);
}

/* HA-11: each member has a file of its own, and defragments it by itself. */
static void every_members_size_is_asked_for(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head_of(world_head(7, 1, 1, 0), MOVED, HERE);
    unsigned asked[3] = {0};

    (void)state;
    /* given */
    world_begin(&w, NULL);
    world_loads(&w, head);
    /* when */
    world_run(&w, 100000);
    /* then */
    for (size_t i = 0; i < w.count; i++)
        if (w.links[i].method == LH_METHOD_ETCD_STATUS)
            asked[w.links[i].address[1] - '1']++;
    for (size_t i = 0; i < 3; i++)
        if (asked[i] == 0)
            fail_msg(
                "e%zu was not asked; e1: %u, e2: %u, e3: %u", i + 1, asked[0], asked[1], asked[2]);
    free(head.data);
    world_end(&w);
}

/* Strange bytes: behind this reign there is no other one. */
static void the_last_number_is_no_reign(void **state)
{
    struct world w;
    ProtobufCBinaryData head = world_head_of(world_head(UINT64_MAX, 1, 1, 0), RESIGNED, "");

    (void)state;
    world_begin(&w, NULL);
    world_pairs(
        &w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), (struct world_pair[]){{"head", head, 10}}, 1);
    if (world_phase(&w) == LH_REIGN_LOADING) {
        for (int i = 0; i < 2; i++)
            world_pairs(&w, world_link(&w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
        world_run(&w, 100);
        struct link *claim = world_link(&w, LH_METHOD_ETCD_TXN, 0);
        if (claim != NULL) {
            LeaseholdStored__Head *put = head_put(claim);
            uint64_t reign = put->reign;
            leasehold_stored__head__free_unpacked(put, NULL);
            assert_true(reign > 0); /* nobody reads a head of reign 0; this process would abort */
        }
    }
    free(head.data);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_store_is_filled_before_a_reign_may_begin),
        cmocka_unit_test(large_pairs_go_in_several_transactions),
        cmocka_unit_test(a_store_that_has_a_head_is_not_filled),
        cmocka_unit_test(a_store_with_other_keys_is_not_filled),
        cmocka_unit_test(an_earlier_attempt_is_cleared_and_done_again),
        cmocka_unit_test(the_answer_to_the_last_transaction_is_found_out),
        cmocka_unit_test(who_fills_and_is_not_alone_says_so),
        cmocka_unit_test(a_store_is_taken_once_its_last_reign_is_over),
        cmocka_unit_test(a_resigned_store_is_taken_at_once),
        cmocka_unit_test(what_is_in_pieces_is_taken),
        cmocka_unit_test(a_master_that_acts_is_not_taken_from),
        cmocka_unit_test(stores_that_are_not_taken),
        cmocka_unit_test(a_copy_that_was_interrupted_is_taken_up),
        cmocka_unit_test(what_cannot_be_stored_is_given_back),
        cmocka_unit_test(an_operator_interrupts),
        cmocka_unit_test(a_master_waits_while_its_store_is_filled),
        cmocka_unit_test(a_standby_whose_store_goes_away_says_so),
        cmocka_unit_test(a_master_begins_before_the_last_answer),
        cmocka_unit_test(a_copy_that_was_replaced_claims_no_more),
        cmocka_unit_test(a_master_waits_on_when_the_copy_is_run_again),
        cmocka_unit_test(every_members_size_is_asked_for),
        cmocka_unit_test(the_last_number_is_no_reign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
