/* Stories about the simulator's etcd: what a transaction does, what a read and a watch show, and
 * each way in which etcd may disappoint its callers. What is expected of values, texts and orders
 * was seen at etcd 3.4.23. */
#include "tests/sim/etcd_world.h"

#define MOST 1000000u /* of a million: all */

/* ---- A world with one client ---- */

struct world {
    struct lh_sim *sim;
    struct lh_sim_etcd *etcd;
    struct client c;
    /* What an observer saw. */
    size_t applied, restored;
    int64_t revision;
    size_t changes;
    bool succeeded;
};

static void saw_applied(void *arg, const struct lh_sim_etcd_applied *txn)
{
    struct world *w = arg;

    w->applied++;
    w->revision = txn->revision;
    w->changes = txn->count;
    w->succeeded = txn->succeeded;
    assert_non_null(txn->request);
    assert_non_null(txn->member);
}

static void saw_restored(void *arg, int64_t revision)
{
    struct world *w = arg;

    w->restored++;
    assert_int_equal(revision, lh_sim_etcd_revision(w->etcd));
}

static struct world *world_of(const struct lh_sim_etcd_config *config, uint64_t seed)
{
    struct world *w = lh_alloc(sizeof *w);
    struct lh_sim_config sim = lh_sim_config_default(seed);

    w->sim = lh_sim_create(&sim);
    w->etcd = lh_sim_etcd_create(w->sim, config);
    w->c.node = lh_sim_add(w->sim, "c", &client_role, &w->c);
    struct lh_sim_etcd_observer observer = {w, saw_applied, saw_restored};
    lh_sim_etcd_observe(w->etcd, &observer);
    lh_sim_etcd_start(w->etcd);
    lh_sim_start(w->c.node);
    lh_sim_run_for(w->sim, lh_milliseconds(100));
    return w;
}

static struct world *world(void)
{
    struct lh_sim_etcd_config config = lh_sim_etcd_config_default();

    return world_of(&config, 1);
}

static void world_end(struct world *w)
{
    assert_null(lh_sim_failure(w->sim));
    lh_sim_destroy(w->sim);
    lh_sim_etcd_destroy(w->etcd);
    client_deinit(&w->c);
    free(w);
}

static void run_ms(struct world *w, uint64_t ms)
{
    lh_sim_run_for(w->sim, lh_milliseconds(ms));
}

static struct lh_sim_node *member(const struct world *w, size_t i)
{
    return lh_sim_etcd_member(w->etcd, i);
}

/* The call, when it has ended. */
static const struct call *ended(struct world *w, uint64_t link)
{
    for (int i = 0; i < 20000 && !w->c.calls[link - 1].closed; i++)
        run_ms(w, 1);
    assert_true(w->c.calls[link - 1].closed);
    return &w->c.calls[link - 1];
}

static uint64_t ask_txn(struct world *w, size_t i, const struct txn *t)
{
    return ask(&w->c, member(w, i), LH_METHOD_ETCD_TXN, &t->request.base);
}

static const Etcdserverpb__TxnResponse *txn_answer(const struct call *call)
{
    assert_int_equal(call->error, LH_OK);
    assert_int_equal(call->count, 1);
    return (const Etcdserverpb__TxnResponse *)call->messages[0];
}

static const Etcdserverpb__TxnResponse *do_txn(struct world *w, const struct txn *t)
{
    return txn_answer(ended(w, ask_txn(w, 0, t)));
}

/* Returns the revision. */
static int64_t do_put(struct world *w, const char *key, const char *value)
{
    struct txn *t = txn_new();

    put(t, THEN, key, value);
    return do_txn(w, t)->header->revision;
}

static int64_t do_delete(struct world *w, const char *key, const char *end)
{
    struct txn *t = txn_new();

    delete_range(t, THEN, key, end);
    return do_txn(w, t)->header->revision;
}

static uint64_t ask_range(struct world *w, size_t i, const Etcdserverpb__RangeRequest *r)
{
    return ask(&w->c, member(w, i), LH_METHOD_ETCD_RANGE, &r->base);
}

static const Etcdserverpb__RangeResponse *range_answer(const struct call *call)
{
    assert_int_equal(call->error, LH_OK);
    assert_int_equal(call->count, 1);
    return (const Etcdserverpb__RangeResponse *)call->messages[0];
}

static const Etcdserverpb__RangeResponse *do_range(
    struct world *w, const Etcdserverpb__RangeRequest *r)
{
    return range_answer(ended(w, ask_range(w, 0, r)));
}

static uint64_t ask_compact(struct world *w, int64_t revision)
{
    Etcdserverpb__CompactionRequest q = ETCDSERVERPB__COMPACTION_REQUEST__INIT;

    q.revision = revision;
    return ask(&w->c, member(w, 0), LH_METHOD_ETCD_COMPACT, &q.base);
}

static void expect_end(const struct call *call, int error, const char *text)
{
    assert_int_equal(call->error, error);
    assert_string_equal(call->text, text);
}

static bool is(const ProtobufCBinaryData *bytes, const char *text)
{
    return bytes->len == strlen(text) && memcmp(bytes->data, text, bytes->len) == 0;
}

/* The key as it truly is; "" when it is not there. */
static const char *value_of(const struct world *w, const char *key)
{
    static char text[64];
    const struct lh_sim_etcd_record *r = lh_sim_etcd_get(w->etcd, key, strlen(key));

    snprintf(text, sizeof text, "%.*s", r == NULL ? 0 : (int)r->value_size,
        r == NULL ? "" : (const char *)r->value);
    return text;
}

static const Etcdserverpb__KeyValue *kv(
    const Etcdserverpb__RangeResponse *r, size_t i, const char *key)
{
    assert_true(i < r->n_kvs);
    assert_true(is(&r->kvs[i]->key, key));
    return r->kvs[i];
}

/* ---- Transactions ---- */

static void a_key_has_revisions_and_a_version(void **state)
{
    struct world *w = world();
    Etcdserverpb__RangeRequest q = range_request("a", NULL);

    (void)state;
    assert_int_equal(do_range(w, &q)->header->revision, 1);
    assert_int_equal(do_put(w, "a", "1"), 2);
    assert_int_equal(do_put(w, "b", "1"), 3);
    assert_int_equal(do_put(w, "a", "2"), 4);
    const Etcdserverpb__KeyValue *a = kv(do_range(w, &q), 0, "a");
    assert_true(is(&a->value, "2"));
    assert_int_equal(a->create_revision, 2);
    assert_int_equal(a->mod_revision, 4);
    assert_int_equal(a->version, 2);
    /* A key that was deleted begins again. */
    assert_int_equal(do_delete(w, "a", NULL), 5);
    assert_int_equal(do_range(w, &q)->n_kvs, 0);
    assert_int_equal(do_put(w, "a", "3"), 6);
    a = kv(do_range(w, &q), 0, "a");
    assert_int_equal(a->create_revision, 6);
    assert_int_equal(a->version, 1);
    world_end(w);
}

static void all_changes_of_a_transaction_have_one_revision(void **state)
{
    struct world *w = world();
    struct txn *t = txn_new();

    (void)state;
    get(t, THEN, "a", TO_THE_END);
    put(t, THEN, "a", "1");
    put(t, THEN, "b", "2");
    get(t, THEN, "a", TO_THE_END);
    const Etcdserverpb__TxnResponse *r = do_txn(w, t);
    assert_true(r->succeeded);
    assert_int_equal(r->header->revision, 2);
    assert_int_equal(r->n_responses, 4);
    assert_int_equal(r->responses[0]->response_range->count, 0);
    assert_int_equal(r->responses[0]->response_range->header->revision, 1);
    assert_int_equal(r->responses[1]->response_put->header->revision, 2);
    /* What is read behind a change shows it. */
    const Etcdserverpb__RangeResponse *read = r->responses[3]->response_range;
    assert_int_equal(read->header->revision, 2);
    assert_int_equal(kv(read, 0, "a")->mod_revision, 2);
    assert_int_equal(kv(read, 1, "b")->mod_revision, 2);
    assert_int_equal(w->applied, 1);
    assert_int_equal(w->changes, 2);
    world_end(w);
}

static void the_failure_branch_is_done_when_a_compare_does_not_hold(void **state)
{
    struct world *w = world();

    (void)state;
    do_put(w, "a", "1");
    struct txn *t = txn_new();
    if_value(t, "a", "1");
    if_mod(t, "a", 77);
    put(t, THEN, "a", "2");
    get(t, ELSE, "a", NULL);
    const Etcdserverpb__TxnResponse *r = do_txn(w, t);
    assert_false(r->succeeded);
    assert_true(is(&kv(r->responses[0]->response_range, 0, "a")->value, "1"));
    /* Nothing was changed, so the revision is that of before. */
    assert_int_equal(r->header->revision, 2);
    assert_int_equal(w->applied, 2);
    assert_false(w->succeeded);
    world_end(w);
}

static void a_delete_of_nothing_has_no_revision(void **state)
{
    struct world *w = world();

    (void)state;
    do_put(w, "a", "1");
    struct txn *t = txn_new();
    delete_range(t, THEN, "a", "z");
    delete_range(t, THEN, "a", NULL);
    put(t, THEN, "z", "outside");
    const Etcdserverpb__TxnResponse *r = do_txn(w, t);
    assert_int_equal(r->responses[0]->response_delete_range->deleted, 1);
    assert_int_equal(r->responses[1]->response_delete_range->deleted, 0);
    assert_int_equal(r->header->revision, 3);
    assert_int_equal(do_delete(w, "q", NULL), 3);
    world_end(w);
}

#define RESULT(name) ETCDSERVERPB__COMPARE__COMPARE_RESULT__##name
#define TARGET(name) ETCDSERVERPB__COMPARE__COMPARE_TARGET__##name

static bool compares(struct world *w, const char *key, const char *end,
    Etcdserverpb__Compare__CompareTarget target, Etcdserverpb__Compare__CompareResult result,
    int64_t number, const char *value)
{
    struct txn *t = txn_new();
    Etcdserverpb__Compare *c = compare(t, key);

    c->range_end = end_of(end);
    c->target = target;
    c->result = result;
    if (target == TARGET(VERSION)) {
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION;
        c->version = number;
    } else if (target == TARGET(CREATE)) {
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
        c->create_revision = number;
    } else if (target == TARGET(MOD)) {
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
        c->mod_revision = number;
    } else if (value != NULL) {
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
        c->value = bytes_of(value);
    }
    get(t, THEN, "x", NULL);
    return do_txn(w, t)->succeeded;
}

/* `order`: of what is there to the given number or value. */
static void expect_compares(struct world *w, const char *key,
    Etcdserverpb__Compare__CompareTarget target, int64_t number, const char *value, int order)
{
    assert_int_equal(compares(w, key, NULL, target, RESULT(EQUAL), number, value), order == 0);
    assert_int_equal(compares(w, key, NULL, target, RESULT(GREATER), number, value), order > 0);
    assert_int_equal(compares(w, key, NULL, target, RESULT(LESS), number, value), order < 0);
    assert_int_equal(compares(w, key, NULL, target, RESULT(NOT_EQUAL), number, value), order != 0);
}

static void compares_know_every_target_and_result(void **state)
{
    struct world *w = world();

    (void)state;
    do_put(w, "a", "1");
    do_put(w, "b", "1");
    do_put(w, "b", "22"); /* created at 3, modified at 4, version 2 */
    for (int d = -1; d <= 1; d++) {
        expect_compares(w, "b", TARGET(VERSION), 2 - d, NULL, d);
        expect_compares(w, "b", TARGET(CREATE), 3 - d, NULL, d);
        expect_compares(w, "b", TARGET(MOD), 4 - d, NULL, d);
    }
    expect_compares(w, "b", TARGET(VALUE), 0, "22", 0);
    expect_compares(w, "b", TARGET(VALUE), 0, "2", 1);
    expect_compares(w, "b", TARGET(VALUE), 0, "221", -1);
    expect_compares(w, "b", TARGET(VALUE), 0, NULL, 1); /* no value: the empty one */
    world_end(w);
}

static void a_key_that_is_not_there_has_zeros_and_no_value(void **state)
{
    static const Etcdserverpb__Compare__CompareResult results[] = {
        RESULT(EQUAL), RESULT(GREATER), RESULT(LESS), RESULT(NOT_EQUAL)};
    struct world *w = world();

    (void)state;
    for (int d = -1; d <= 1; d++) {
        expect_compares(w, "a", TARGET(VERSION), -d, NULL, d);
        expect_compares(w, "a", TARGET(CREATE), -d, NULL, d);
        expect_compares(w, "a", TARGET(MOD), -d, NULL, d);
    }
    for (size_t i = 0; i < 4; i++)
        assert_false(compares(w, "a", NULL, TARGET(VALUE), results[i], 0, "v"));
    /* Nor has one that was deleted. */
    do_put(w, "a", "1");
    do_delete(w, "a", NULL);
    expect_compares(w, "a", TARGET(MOD), 0, NULL, 0);
    world_end(w);
}

static void a_compare_of_a_range_holds_for_each_key(void **state)
{
    struct world *w = world();

    (void)state;
    do_put(w, "a", "1");
    do_put(w, "b", "1");
    assert_true(compares(w, "a", "c", TARGET(VALUE), RESULT(EQUAL), 0, "1"));
    assert_true(compares(w, "a", TO_THE_END, TARGET(MOD), RESULT(GREATER), 1, NULL));
    assert_false(compares(w, "a", "c", TARGET(MOD), RESULT(EQUAL), 2, NULL));
    assert_true(compares(w, "a", "b", TARGET(MOD), RESULT(EQUAL), 2, NULL));
    world_end(w);
}

static void expect_refused(struct world *w, const struct txn *t, int error, const char *text)
{
    size_t applied = w->applied;

    expect_end(ended(w, ask_txn(w, 0, t)), error, text);
    assert_int_equal(w->applied, applied);
}

static void transactions_that_make_no_sense_are_refused(void **state)
{
    static const char twice[] = "etcdserver: duplicate key given in txn request";
    static const char too_many[] = "etcdserver: too many operations in txn request";
    static const char no_key[] = "etcdserver: key is not provided";
    struct world *w = world();
    char names[OPS_MAX][16];

    (void)state;
    struct txn *t = txn_new();
    put(t, THEN, "a", "1");
    put(t, THEN, "a", "2");
    expect_refused(w, t, LH_ERR_INVALID_ARGUMENT, twice);
    t = txn_new();
    put(t, ELSE, "a", "1");
    delete_range(t, ELSE, "a", NULL);
    expect_refused(w, t, LH_ERR_INVALID_ARGUMENT, twice);
    t = txn_new();
    delete_range(t, THEN, "a", "z");
    put(t, THEN, "b", "1");
    expect_refused(w, t, LH_ERR_INVALID_ARGUMENT, twice);
    t = txn_new();
    put(t, THEN, "", "1");
    expect_refused(w, t, LH_ERR_INVALID_ARGUMENT, no_key);
    t = txn_new();
    if_mod(t, "", 0);
    expect_refused(w, t, LH_ERR_INVALID_ARGUMENT, no_key);
    t = txn_new();
    operation(t, THEN);
    expect_refused(w, t, LH_ERR_INVALID_ARGUMENT, "etcdserver: key not found");
    t = txn_new();
    for (int i = 0; i < 129; i++) {
        snprintf(names[i], sizeof names[i], "k%d", i);
        put(t, ELSE, names[i], "");
    }
    expect_refused(w, t, LH_ERR_INVALID_ARGUMENT, too_many);
    t->request.n_failure = 128;
    assert_true(do_txn(w, t)->succeeded);
    t = txn_new();
    for (int i = 0; i < 129; i++)
        if_mod(t, "k", 0);
    expect_refused(w, t, LH_ERR_INVALID_ARGUMENT, too_many);
    /* The same key in both branches is put once at most. */
    t = txn_new();
    put(t, THEN, "a", "1");
    put(t, ELSE, "a", "2");
    assert_true(do_txn(w, t)->succeeded);
    world_end(w);
}

static void a_request_that_is_too_large_is_refused(void **state)
{
    struct world *w = world();
    char *value = lh_alloc((3u << 20) + 1);

    (void)state;
    memset(value, 'x', 1600000);
    struct txn *t = txn_new();
    put(t, THEN, "a", value);
    expect_refused(w, t, LH_ERR_INVALID_ARGUMENT, "etcdserver: request is too large");
    memset(value, 'x', 2200000);
    t = txn_new();
    put(t, THEN, "a", value);
    expect_refused(w, t, LH_ERR_TOO_LARGE, "grpc: received message larger than max");
    value[1500000] = 0;
    do_put(w, "a", value);
    free(value);
    world_end(w);
}

/* ---- Ranges ---- */

static void a_range_has_a_limit_and_a_count(void **state)
{
    struct world *w = world();

    (void)state;
    do_put(w, "a", "1");
    do_put(w, "ab", "2");
    do_put(w, "b", "3");
    do_put(w, "c", "4");
    Etcdserverpb__RangeRequest q = range_request("a", "c");
    q.limit = 2;
    const Etcdserverpb__RangeResponse *r = do_range(w, &q);
    assert_int_equal(r->n_kvs, 2);
    kv(r, 0, "a");
    assert_true(is(&kv(r, 1, "ab")->value, "2"));
    assert_int_equal(r->count, 3);
    assert_true(r->more);
    q.limit = 3;
    r = do_range(w, &q);
    assert_int_equal(r->n_kvs, 3);
    assert_false(r->more);
    q = range_request("ab", TO_THE_END);
    q.keys_only = true;
    r = do_range(w, &q);
    assert_int_equal(r->n_kvs, 3);
    assert_int_equal(kv(r, 2, "c")->value.len, 0);
    q.count_only = true;
    q.limit = 1;
    r = do_range(w, &q);
    assert_int_equal(r->n_kvs, 0);
    assert_int_equal(r->count, 3);
    assert_false(r->more);
    q = range_request("z", "a");
    assert_int_equal(do_range(w, &q)->count, 0);
    q = range_request("", NULL);
    expect_end(
        ended(w, ask_range(w, 0, &q)), LH_ERR_INVALID_ARGUMENT, "etcdserver: key is not provided");
    world_end(w);
}

#define COMPACTED "etcdserver: mvcc: required revision has been compacted"
#define FUTURE    "etcdserver: mvcc: required revision is a future revision"

static void an_old_revision_can_be_read_until_it_is_compacted(void **state)
{
    struct world *w = world();

    (void)state;
    do_put(w, "a", "1");     /* 2 */
    do_put(w, "b", "1");     /* 3 */
    do_put(w, "a", "2");     /* 4 */
    do_delete(w, "b", NULL); /* 5 */
    do_put(w, "a", "3");     /* 6 */
    Etcdserverpb__RangeRequest q = range_request("a", TO_THE_END);
    q.revision = 3;
    const Etcdserverpb__RangeResponse *r = do_range(w, &q);
    assert_int_equal(r->n_kvs, 2);
    assert_true(is(&kv(r, 0, "a")->value, "1"));
    assert_int_equal(r->header->revision, 6);
    q.revision = 7;
    expect_end(ended(w, ask_range(w, 0, &q)), LH_ERR_SYSTEM, FUTURE);
    assert_int_equal(ended(w, ask_compact(w, 4))->error, LH_OK);
    run_ms(w, 10);
    assert_int_equal(lh_sim_etcd_compacted(w->etcd), 4);
    q.revision = 3;
    expect_end(ended(w, ask_range(w, 0, &q)), LH_ERR_SYSTEM, COMPACTED);
    q.revision = 4;
    r = do_range(w, &q);
    assert_true(is(&kv(r, 0, "a")->value, "2"));
    assert_int_equal(kv(r, 1, "b")->create_revision, 3);
    q.revision = 5;
    assert_int_equal(do_range(w, &q)->n_kvs, 1);
    expect_end(ended(w, ask_compact(w, 4)), LH_ERR_SYSTEM, COMPACTED);
    expect_end(ended(w, ask_compact(w, 7)), LH_ERR_SYSTEM, FUTURE);
    /* A transaction that reads so is refused as a whole. */
    struct txn *t = txn_new();
    get(t, THEN, "a", NULL)->revision = 3;
    put(t, THEN, "n", "n");
    expect_refused(w, t, LH_ERR_SYSTEM, COMPACTED);
    t = txn_new();
    get(t, THEN, "a", NULL)->revision = 99;
    put(t, THEN, "n", "n");
    expect_refused(w, t, LH_ERR_SYSTEM, FUTURE);
    world_end(w);
}

/* ---- Watches ---- */

static uint64_t watch_of(struct world *w, size_t i, const char *key, const char *end, int64_t from)
{
    Etcdserverpb__WatchRequest q = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;

    create.key = bytes_of(key);
    create.range_end = end_of(end);
    create.start_revision = from;
    create.fragment = true;
    q.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    q.create_request = &create;
    uint64_t link = ask(&w->c, member(w, i), LH_METHOD_ETCD_WATCH, &q.base);
    run_ms(w, 10);
    return link;
}

static void say_to_watch(struct world *w, uint64_t link, const Etcdserverpb__WatchRequest *q)
{
    lh_fx_send(&w->c.todo, link, &q->base, NULL);
    act(&w->c);
    run_ms(w, 10);
}

static const Etcdserverpb__WatchResponse *response(const struct world *w, uint64_t link, size_t i)
{
    assert_true(i < w->c.calls[link - 1].count);
    return (const Etcdserverpb__WatchResponse *)w->c.calls[link - 1].messages[i];
}

static size_t responses(const struct world *w, uint64_t link)
{
    return w->c.calls[link - 1].count;
}

/* "a=1@2 b!@3": all events of a watch, in order. */
static const char *events(const struct world *w, uint64_t link, int64_t id)
{
    static char text[1024];
    size_t n = 0;

    text[0] = 0;
    for (size_t i = 0; i < responses(w, link); i++) {
        const Etcdserverpb__WatchResponse *r = response(w, link, i);
        for (size_t k = 0; k < r->n_events && r->watch_id == id; k++) {
            const Etcdserverpb__KeyValue *e = r->events[k]->kv;
            bool gone = r->events[k]->type == ETCDSERVERPB__EVENT__EVENT_TYPE__DELETE;
            assert_true(r->header->revision >= e->mod_revision);
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s%s%.*s@%d", n == 0 ? "" : " ",
                (int)e->key.len, (char *)e->key.data, gone ? "!" : "=", (int)e->value.len,
                e->value.len == 0 ? "" : (char *)e->value.data, (int)e->mod_revision);
        }
    }
    return text;
}

static void a_watch_shows_what_changes_from_now_on(void **state)
{
    struct world *w = world();

    (void)state;
    do_put(w, "a", "0");
    uint64_t link = watch_of(w, 1, "a", "c", 0);
    assert_int_equal(responses(w, link), 1);
    assert_true(response(w, link, 0)->created);
    assert_int_equal(response(w, link, 0)->header->revision, 2);
    do_put(w, "a", "1");
    do_put(w, "c", "out");
    struct txn *t = txn_new();
    put(t, THEN, "b", "2");
    delete_range(t, THEN, "a", NULL);
    do_txn(w, t);
    run_ms(w, 10);
    assert_string_equal(events(w, link, 0), "a=1@3 b=2@5 a!@5");
    assert_false(w->c.calls[link - 1].closed);
    world_end(w);
}

static void a_watch_can_begin_in_the_past_and_in_the_future(void **state)
{
    struct world *w = world();

    (void)state;
    do_put(w, "a", "1");
    do_put(w, "a", "2");
    uint64_t past = watch_of(w, 0, "a", NULL, 2), future = watch_of(w, 0, "a", NULL, 5);
    assert_string_equal(events(w, past, 0), "a=1@2 a=2@3");
    do_put(w, "a", "3");
    do_put(w, "a", "4");
    run_ms(w, 10);
    assert_string_equal(events(w, past, 0), "a=1@2 a=2@3 a=3@4 a=4@5");
    assert_string_equal(events(w, future, 0), "a=4@5");
    world_end(w);
}

static void a_watch_that_begins_in_compacted_history_is_canceled(void **state)
{
    struct world *w = world();

    (void)state;
    do_put(w, "a", "1");
    do_put(w, "b", "1");
    do_put(w, "a", "2");
    do_delete(w, "a", NULL); /* 5 */
    do_put(w, "b", "2");
    ended(w, ask_compact(w, 5));
    run_ms(w, 10);
    uint64_t link = watch_of(w, 0, "a", "c", 4);
    assert_int_equal(responses(w, link), 2);
    assert_true(response(w, link, 0)->created);
    assert_true(response(w, link, 1)->canceled);
    assert_int_equal(response(w, link, 1)->compact_revision, 5);
    assert_false(w->c.calls[link - 1].closed);
    /* At the compacted revision itself it may begin, and does not hear of what was deleted there:
     * so does etcd 3.4. */
    link = watch_of(w, 0, "a", "c", 5);
    assert_string_equal(events(w, link, 0), "b=2@6");
    world_end(w);
}

static void a_stream_has_several_watches(void **state)
{
    struct world *w = world();
    Etcdserverpb__WatchRequest q = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    Etcdserverpb__WatchCancelRequest cancel = ETCDSERVERPB__WATCH_CANCEL_REQUEST__INIT;
    Etcdserverpb__WatchProgressRequest progress = ETCDSERVERPB__WATCH_PROGRESS_REQUEST__INIT;

    (void)state;
    uint64_t link = watch_of(w, 0, "a", NULL, 0);
    create.key = bytes_of("b");
    q.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    q.create_request = &create;
    say_to_watch(w, link, &q);
    assert_int_equal(response(w, link, 1)->watch_id, 1);
    create.range_end = bytes_of("a"); /* nothing is between b and a */
    say_to_watch(w, link, &q);
    assert_true(response(w, link, 2)->created && response(w, link, 2)->canceled);
    assert_int_equal(response(w, link, 2)->watch_id, -1);
    do_put(w, "a", "1");
    do_put(w, "b", "1");
    run_ms(w, 10);
    q.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
    q.cancel_request = &cancel; /* watch 0 */
    say_to_watch(w, link, &q);
    cancel.watch_id = 7; /* nobody's: no answer */
    say_to_watch(w, link, &q);
    q.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST;
    q.progress_request = &progress;
    say_to_watch(w, link, &q);
    size_t last = responses(w, link) - 1;
    assert_true(response(w, link, last - 1)->canceled);
    assert_int_equal(response(w, link, last - 1)->watch_id, 0);
    assert_int_equal(response(w, link, last)->watch_id, -1);
    assert_int_equal(response(w, link, last)->header->revision, 3);
    do_put(w, "a", "2");
    do_put(w, "b", "2");
    run_ms(w, 10);
    assert_string_equal(events(w, link, 0), "a=1@2");
    assert_string_equal(events(w, link, 1), "b=1@3 b=2@5");
    world_end(w);
}

static void a_revision_comes_in_one_response_or_in_fragments(void **state)
{
    struct lh_sim_etcd_config config = lh_sim_etcd_config_default();

    (void)state;
    config.fragment_events = 2;
    struct world *w = world_of(&config, 3);
    uint64_t link = watch_of(w, 0, "a", TO_THE_END, 0);
    struct txn *t = txn_new();
    put(t, THEN, "a", "1");
    put(t, THEN, "b", "1");
    put(t, THEN, "c", "1");
    put(t, THEN, "d", "1");
    put(t, THEN, "e", "1");
    do_txn(w, t);
    run_ms(w, 10);
    assert_int_equal(responses(w, link), 4);
    assert_true(response(w, link, 1)->fragment && response(w, link, 2)->fragment);
    assert_false(response(w, link, 3)->fragment);
    assert_string_equal(events(w, link, 0), "a=1@2 b=1@2 c=1@2 d=1@2 e=1@2");
    world_end(w);
}

/* ---- Who answers ---- */

static void a_minority_answers_nothing_new(void **state)
{
    struct world *w = world();

    (void)state;
    do_put(w, "a", "1");
    run_ms(w, 10);
    /* given: the third member is alone */
    lh_sim_isolate(member(w, 2), member(w, 0));
    lh_sim_isolate(member(w, 2), member(w, 1));
    struct txn *t = txn_new();
    put(t, THEN, "a", "lonely");
    uint64_t lonely = ask_txn(w, 2, t);
    Etcdserverpb__RangeRequest q = range_request("a", NULL);
    uint64_t read = ask_range(w, 2, &q);
    /* when: the others go on */
    do_put(w, "a", "2");
    /* then: it shows what it has to who asks for no more */
    q.serializable = true;
    assert_true(is(&kv(range_answer(ended(w, ask_range(w, 2, &q))), 0, "a")->value, "1"));
    q.revision = 3;
    expect_end(ended(w, ask_range(w, 2, &q)), LH_ERR_SYSTEM, FUTURE);
    assert_false(w->c.calls[lonely - 1].closed || w->c.calls[read - 1].closed);
    /* and when it is back within their time, it answers the others, too */
    lh_sim_rejoin(member(w, 2), member(w, 0));
    lh_sim_rejoin(member(w, 2), member(w, 1));
    assert_true(txn_answer(ended(w, lonely))->succeeded);
    assert_string_equal(value_of(w, "a"), "lonely");
    const Etcdserverpb__RangeResponse *r = range_answer(ended(w, read));
    assert_true(r->header->revision >= 3);
    world_end(w);
}

/* With a proposal that waits in vain for a majority. */
static void time_out_story(uint32_t kept_per_million, const char *value)
{
    struct lh_sim_etcd_config config = lh_sim_etcd_config_default();

    config.kept_per_million = kept_per_million;
    struct world *w = world_of(&config, 1);
    lh_sim_etcd_lose_quorum(w->etcd, true);
    struct txn *t = txn_new();
    put(t, THEN, "a", "1");
    uint64_t link = ask_txn(w, 0, t);
    run_ms(w, 6900);
    assert_false(w->c.calls[link - 1].closed);
    run_ms(w, 200);
    assert_true(w->c.calls[link - 1].closed);
    expect_end(&w->c.calls[link - 1], LH_ERR_UNAVAILABLE, "etcdserver: request timed out");
    run_ms(w, 60000);
    assert_int_equal(w->applied, 0);
    lh_sim_etcd_lose_quorum(w->etcd, false);
    run_ms(w, 100);
    assert_string_equal(value_of(w, "a"), value);
    world_end(w);
}

static void what_timed_out_may_take_effect_later(void **state)
{
    (void)state;
    time_out_story(MOST, "1");
    time_out_story(0, "");
}

static void a_proposal_takes_effect_when_its_caller_has_gone(void **state)
{
    struct world *w = world();

    (void)state;
    lh_sim_etcd_lose_quorum(w->etcd, true);
    struct txn *t = txn_new();
    put(t, THEN, "a", "1");
    uint64_t link = ask_txn(w, 0, t);
    run_ms(w, 100);
    lh_fx_close(&w->c.todo, link, LH_ERR_CANCELLED, "");
    act(&w->c);
    run_ms(w, 100);
    lh_sim_etcd_lose_quorum(w->etcd, false);
    run_ms(w, 100);
    assert_string_equal(value_of(w, "a"), "1");
    world_end(w);
}

static void crash_story(uint32_t kept_per_million, const char *value)
{
    struct lh_sim_etcd_config config = lh_sim_etcd_config_default();

    config.kept_per_million = kept_per_million;
    config.propose = (struct lh_sim_range){lh_milliseconds(50), lh_milliseconds(50)};
    struct world *w = world_of(&config, 1);
    struct txn *t = txn_new();
    put(t, THEN, "a", "1");
    uint64_t link = ask_txn(w, 1, t);
    run_ms(w, 10);
    lh_sim_crash(member(w, 1));
    assert_int_equal(ended(w, link)->error, LH_ERR_UNAVAILABLE);
    run_ms(w, 200);
    assert_string_equal(value_of(w, "a"), value);
    world_end(w);
}

static void a_crash_loses_a_proposal_or_not(void **state)
{
    (void)state;
    crash_story(MOST, "1");
    crash_story(0, "");
}

static void state_outlives_every_member(void **state)
{
    struct world *w = world();
    Etcdserverpb__RangeRequest q = range_request("a", NULL);

    (void)state;
    do_put(w, "a", "1");
    for (size_t i = 0; i < 3; i++)
        lh_sim_power_loss(member(w, i));
    run_ms(w, 1000);
    /* One alone has no majority to catch up with, and serves nobody. */
    lh_sim_start(member(w, 0));
    run_ms(w, 100);
    q.serializable = true;
    expect_end(ended(w, ask_range(w, 0, &q)), LH_ERR_UNAVAILABLE, "connection refused");
    lh_sim_start(member(w, 2));
    run_ms(w, 200);
    assert_true(is(&kv(do_range(w, &q), 0, "a")->value, "1"));
    assert_int_equal(do_put(w, "a", "2"), 3);
    world_end(w);
}

static void a_started_member_shows_nothing_old(void **state)
{
    struct world *w = world();

    (void)state;
    lh_sim_etcd_lag(w->etcd, 2, lh_milliseconds(500));
    lh_sim_crash(member(w, 2));
    do_put(w, "a", "1");
    lh_sim_start(member(w, 2));
    Etcdserverpb__RangeRequest q = range_request("a", NULL);
    q.serializable = true;
    run_ms(w, 100);
    assert_int_equal(ended(w, ask_range(w, 2, &q))->error, LH_ERR_UNAVAILABLE);
    run_ms(w, 1000);
    assert_int_equal(range_answer(ended(w, ask_range(w, 2, &q)))->n_kvs, 1);
    world_end(w);
}

static void a_lagging_member_is_old_and_linearizable_reads_wait(void **state)
{
    struct world *w = world();

    (void)state;
    do_put(w, "a", "1");
    run_ms(w, 10);
    lh_sim_etcd_lag(w->etcd, 2, lh_seconds(3));
    do_put(w, "a", "2");
    assert_int_equal(lh_sim_etcd_member_revision(w->etcd, 2), 2);
    /* A transaction in which nothing must be linearizable is the member's own, compares and all. */
    struct txn *t = txn_new();
    if_value(t, "a", "1");
    const Etcdserverpb__TxnResponse *r = txn_answer(ended(w, ask_txn(w, 2, t)));
    assert_true(r->succeeded);
    assert_int_equal(r->header->revision, 2);
    t = txn_new();
    if_value(t, "a", "1");
    get(t, THEN, "a", NULL)->serializable = true;
    get(t, ELSE, "a", NULL)->serializable = true;
    assert_true(txn_answer(ended(w, ask_txn(w, 2, t)))->succeeded);
    /* One with a linearizable read waits. */
    uint64_t before = lh_sim_now(w->sim);
    t = txn_new();
    if_value(t, "a", "2");
    get(t, ELSE, "a", NULL);
    assert_true(txn_answer(ended(w, ask_txn(w, 2, t)))->succeeded);
    assert_true(lh_sim_now(w->sim) - before > UINT64_C(2500000000));
    /* Its watches are as old as it is. */
    uint64_t link = watch_of(w, 2, "a", NULL, 0);
    do_put(w, "a", "3");
    run_ms(w, 1000);
    assert_string_equal(events(w, link, 0), "");
    lh_sim_etcd_lag(w->etcd, 2, lh_nanoseconds(0));
    run_ms(w, 10);
    assert_string_equal(events(w, link, 0), "a=3@4");
    world_end(w);
}

static void status_and_authentication(void **state)
{
    struct world *w = world();
    Etcdserverpb__StatusRequest q = ETCDSERVERPB__STATUS_REQUEST__INIT;
    Etcdserverpb__AuthenticateRequest a = ETCDSERVERPB__AUTHENTICATE_REQUEST__INIT;

    (void)state;
    do_put(w, "a", "1");
    const struct call *call = ended(w, ask(&w->c, member(w, 0), LH_METHOD_ETCD_STATUS, &q.base));
    const Etcdserverpb__StatusResponse *s = (void *)call->messages[0];
    assert_string_equal(s->version, "3.4.23");
    assert_true(s->db_size > 0 && s->leader != 0 && s->n_errors == 0);
    assert_int_equal(s->header->revision, 2);
    lh_sim_etcd_lose_quorum(w->etcd, true);
    lh_sim_etcd_no_space(w->etcd, true);
    call = ended(w, ask(&w->c, member(w, 0), LH_METHOD_ETCD_STATUS, &q.base));
    s = (void *)call->messages[0];
    assert_int_equal(s->leader, 0);
    assert_int_equal(s->n_errors, 2);
    assert_string_equal(s->errors[0], "etcdserver: no leader");
    expect_end(ended(w, ask(&w->c, member(w, 0), LH_METHOD_ETCD_AUTHENTICATE, &a.base)),
        LH_ERR_SYSTEM, "etcdserver: authentication is not enabled");
    world_end(w);
}

/* ---- Faults ---- */

static void an_error_may_come_after_the_effect(void **state)
{
    struct world *w = world();

    (void)state;
    lh_sim_etcd_fail_after(w->etcd, MOST);
    struct txn *t = txn_new();
    put(t, THEN, "a", "1");
    expect_end(ended(w, ask_txn(w, 0, t)), LH_ERR_UNAVAILABLE,
        "etcdserver: request timed out, possibly due to previous leader failure");
    assert_string_equal(value_of(w, "a"), "1");
    run_ms(w, 20000);
    assert_int_equal(w->applied, 1);
    world_end(w);
}

static void an_error_may_come_before_the_effect(void **state)
{
    struct world *w = world();
    Etcdserverpb__RangeRequest q = range_request("a", NULL);

    (void)state;
    lh_sim_etcd_fail_before(w->etcd, MOST);
    for (int i = 0; i < 20; i++) {
        struct txn *t = txn_new();
        put(t, THEN, "a", "1");
        const struct call *call = ended(w, ask_txn(w, 0, t));
        assert_int_equal(call->error, LH_ERR_SYSTEM);
        assert_true(strcmp(call->text, "etcdserver: too many requests") == 0 ||
                    strcmp(call->text, "raft proposal dropped") == 0);
    }
    expect_end(ended(w, ask_range(w, 0, &q)), LH_ERR_UNAVAILABLE, "etcdserver: leader changed");
    run_ms(w, 20000);
    assert_int_equal(w->applied, 0);
    world_end(w);
}

static void a_proposal_may_take_effect_long_after_its_caller_was_told(void **state)
{
    struct lh_sim_etcd_config config = lh_sim_etcd_config_default();

    (void)state;
    config.timeout = (struct lh_sim_range){lh_milliseconds(100), lh_milliseconds(100)};
    config.kept_per_million = 0;
    struct world *w = world_of(&config, 1);
    lh_sim_etcd_apply_late(w->etcd, MOST, lh_seconds(60));
    struct txn *t = txn_new();
    put(t, THEN, "a", "1");
    expect_end(ended(w, ask_txn(w, 0, t)), LH_ERR_UNAVAILABLE, "etcdserver: request timed out");
    assert_int_equal(w->applied, 0);
    lh_sim_etcd_mend(w->etcd);
    assert_int_equal(do_put(w, "b", "1"), 2);
    run_ms(w, 60000);
    assert_string_equal(value_of(w, "a"), "1");
    world_end(w);
}

static void watches_break_and_lag_and_are_canceled(void **state)
{
    struct world *w = world();

    (void)state;
    uint64_t broken = watch_of(w, 0, "a", NULL, 0);
    lh_sim_etcd_break_watches(w->etcd);
    expect_end(ended(w, broken), LH_ERR_UNAVAILABLE, "etcdserver: no leader");
    uint64_t late = watch_of(w, 0, "a", NULL, 0);
    lh_sim_etcd_lag_watches(w->etcd, lh_seconds(2));
    do_put(w, "a", "1");
    do_put(w, "a", "2");
    run_ms(w, 1900);
    assert_string_equal(events(w, late, 0), "");
    run_ms(w, 200);
    assert_string_equal(events(w, late, 0), "a=1@2 a=2@3");
    /* What is compacted before it was sent is not sent any more. */
    do_put(w, "a", "3");
    do_put(w, "a", "4");
    lh_sim_etcd_compact(w->etcd, 0);
    run_ms(w, 10);
    lh_sim_etcd_mend(w->etcd);
    run_ms(w, 10);
    assert_string_equal(events(w, late, 0), "a=1@2 a=2@3");
    assert_true(response(w, late, responses(w, late) - 1)->canceled);
    assert_int_equal(response(w, late, responses(w, late) - 1)->compact_revision, 5);
    uint64_t doomed = watch_of(w, 0, "a", NULL, 0);
    lh_sim_etcd_cancel_watches(w->etcd);
    run_ms(w, 100);
    assert_int_equal(responses(w, doomed), 1);
    do_put(w, "a", "5");
    run_ms(w, 10);
    assert_int_equal(responses(w, doomed), 2);
    assert_true(response(w, doomed, 1)->canceled && response(w, doomed, 1)->compact_revision > 0);
    world_end(w);
}

static void a_watch_may_lose_revisions_silently(void **state)
{
    struct world *w = world();

    (void)state;
    uint64_t link = watch_of(w, 0, "a", NULL, 0);
    lh_sim_etcd_lose_events(w->etcd, MOST);
    do_put(w, "a", "1");
    run_ms(w, 10);
    lh_sim_etcd_mend(w->etcd);
    do_put(w, "a", "2");
    run_ms(w, 10);
    assert_string_equal(events(w, link, 0), "a=2@3");
    world_end(w);
}

static void a_hand_changes_what_is_the_masters_and_an_operator_puts_it_back(void **state)
{
    struct world *w = world();

    (void)state;
    assert_false(lh_sim_etcd_meddle(w->etcd, false));
    do_put(w, "other", "1");
    assert_false(lh_sim_etcd_meddle(w->etcd, false));
    do_put(w, "/map/a", "1");
    uint64_t link = watch_of(w, 0, "/map/a", NULL, 0);
    assert_true(lh_sim_etcd_meddle(w->etcd, false));
    run_ms(w, 1000);
    assert_string_equal(value_of(w, "/map/a"), "");
    lh_sim_etcd_put_back(w->etcd);
    run_ms(w, 1000);
    assert_string_equal(value_of(w, "/map/a"), "1");
    assert_true(lh_sim_etcd_meddle(w->etcd, true));
    run_ms(w, 1000);
    assert_string_equal(value_of(w, "/map/a"), "5");
    /* Somebody has written it since: it stays. */
    do_put(w, "/map/a", "2");
    lh_sim_etcd_mend(w->etcd);
    run_ms(w, 1000);
    assert_string_equal(value_of(w, "/map/a"), "2");
    assert_string_equal(events(w, link, 0), "/map/a!@4 /map/a=1@5 /map/a=5@6 /map/a=2@7");
    world_end(w);
}

/* As that member says. */
static const char *value_at(struct world *w, size_t i, const char *key)
{
    static char text[64];
    Etcdserverpb__RangeRequest q = ETCDSERVERPB__RANGE_REQUEST__INIT;

    q.key = (ProtobufCBinaryData){strlen(key), (uint8_t *)(uintptr_t)key};
    const Etcdserverpb__KeyValue *found = kv(range_answer(ended(w, ask_range(w, i, &q))), 0, key);
    snprintf(text, sizeof text, "%.*s", (int)found->value.len, (const char *)found->value.data);
    return text;
}

static void one_member_reads_flipped_bits(void **state)
{
    struct world *w = world();
    unsigned wrong = 0;
    char key[] = "/map/a";

    (void)state;
    lh_sim_etcd_flip(w->etcd, 1, true);
    for (key[5] = 'a'; key[5] < 'u'; key[5]++) {
        do_put(w, key, "1");
        for (size_t i = 0; i < 3; i++) {
            bool same = strcmp(value_at(w, i, key), "1") == 0;
            assert_true(same || i == 1);
            wrong += !same;
            assert_true(same == (strcmp(value_at(w, i, key), "1") == 0)); /* always the same */
        }
    }
    assert_in_range(wrong, 1, 19);
    lh_sim_etcd_mend(w->etcd);
    for (key[5] = 'a'; key[5] < 'u'; key[5]++)
        assert_string_equal(value_at(w, 1, key), "1");
    world_end(w);
}

static void at_the_quota_puts_are_refused(void **state)
{
    bool applied = false, refused = false;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lh_sim_etcd_config config = lh_sim_etcd_config_default();
        struct world *w = world_of(&config, seed);
        do_put(w, "b", "1");
        lh_sim_etcd_no_space(w->etcd, true);
        for (int i = 0; i < 3; i++) {
            struct txn *t = txn_new();
            put(t, THEN, "a", "1");
            expect_end(ended(w, ask_txn(w, 0, t)), LH_ERR_NO_MEMORY,
                "etcdserver: mvcc: database space exceeded");
        }
        /* The first one may have been applied, no later one. */
        assert_true(w->applied == 1 || w->applied == 2);
        applied = applied || w->applied == 2;
        refused = refused || w->applied == 1;
        int64_t before = lh_sim_etcd_revision(w->etcd);
        assert_int_equal(do_delete(w, "b", NULL), before + 1);
        lh_sim_etcd_mend(w->etcd);
        do_put(w, "a", "2");
        world_end(w);
    }
    assert_true(applied && refused);
}

static void the_quota_is_of_bytes(void **state)
{
    struct lh_sim_etcd_config config = lh_sim_etcd_config_default();
    char value[1001] = "";

    (void)state;
    memset(value, 'x', 1000);
    config.quota_bytes = 9000;
    struct world *w = world_of(&config, 1);
    for (int i = 0; i < 9; i++)
        do_put(w, "a", value);
    struct txn *t = txn_new();
    put(t, THEN, "a", "1");
    for (int i = 0; i < 2; i++)
        ended(w, ask_txn(w, 0, t));
    assert_int_equal(ended(w, ask_txn(w, 0, t))->error, LH_ERR_NO_MEMORY);
    world_end(w);
}

static void a_restored_store_repeats_revisions(void **state)
{
    struct world *w = world();

    (void)state;
    assert_false(lh_sim_etcd_restore(w->etcd));
    do_put(w, "a", "1");
    do_put(w, "b", "1");
    lh_sim_etcd_snapshot(w->etcd);
    do_put(w, "a", "2");
    ended(w, ask_compact(w, 4));
    uint64_t watch = watch_of(w, 0, "a", NULL, 0);
    lh_sim_etcd_lose_quorum(w->etcd, true);
    struct txn *t = txn_new();
    put(t, THEN, "a", "lost");
    uint64_t lost = ask_txn(w, 0, t);
    run_ms(w, 10);
    for (int i = 0; i < 2; i++) {
        assert_true(lh_sim_etcd_restore(w->etcd));
        assert_int_equal(w->restored, i + 1);
        assert_int_equal(lh_sim_etcd_revision(w->etcd), 3);
        assert_int_equal(lh_sim_etcd_compacted(w->etcd), -1);
        lh_sim_etcd_mend(w->etcd);
        assert_int_equal(ended(w, lost)->error, LH_ERR_UNAVAILABLE);
        assert_int_equal(ended(w, watch)->error, LH_ERR_UNAVAILABLE);
        assert_string_equal(value_of(w, "a"), "1");
        assert_int_equal(do_put(w, "a", "other"), 4);
        uint64_t past = watch_of(w, 1, "a", TO_THE_END, 1);
        assert_string_equal(events(w, past, 0), "a=1@2 b=1@3 a=other@4");
    }
    world_end(w);
}

static void append_key(void *arg, const struct lh_sim_etcd_record *r)
{
    strncat(arg, (const char *)r->key, r->key_size);
    strcat(arg, " ");
}

static void each_shows_the_keys_with_a_prefix(void **state)
{
    struct world *w = world();
    char all[64] = "", some[64] = "";

    (void)state;
    do_put(w, "a/1", "x");
    do_put(w, "a/2", "x");
    do_put(w, "b/1", "x");
    do_put(w, "a", "x");
    do_delete(w, "a/1", NULL);
    lh_sim_etcd_each(w->etcd, "", 0, append_key, all);
    lh_sim_etcd_each(w->etcd, "a/", 2, append_key, some);
    assert_string_equal(all, "a a/2 b/1 ");
    assert_string_equal(some, "a/2 ");
    world_end(w);
}

static void compaction_forgets_and_keeps_what_is_there(void **state)
{
    struct world *w = world();

    (void)state;
    for (int i = 0; i < 30; i++) {
        do_put(w, i % 3 == 0 ? "a" : "b", "x");
        if (i % 7 == 0)
            do_delete(w, "a", NULL);
        if (i % 5 == 0)
            lh_sim_etcd_compact(w->etcd, i % 4);
    }
    run_ms(w, 100);
    lh_sim_etcd_compact(w->etcd, 0);
    run_ms(w, 100);
    Etcdserverpb__RangeRequest q = range_request("a", TO_THE_END);
    assert_int_equal(do_range(w, &q)->n_kvs, 1);
    assert_string_equal(value_of(w, "b"), "x");
    world_end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_revisions_and_a_version),
        cmocka_unit_test(all_changes_of_a_transaction_have_one_revision),
        cmocka_unit_test(the_failure_branch_is_done_when_a_compare_does_not_hold),
        cmocka_unit_test(a_delete_of_nothing_has_no_revision),
        cmocka_unit_test(compares_know_every_target_and_result),
        cmocka_unit_test(a_key_that_is_not_there_has_zeros_and_no_value),
        cmocka_unit_test(a_compare_of_a_range_holds_for_each_key),
        cmocka_unit_test(transactions_that_make_no_sense_are_refused),
        cmocka_unit_test(a_request_that_is_too_large_is_refused),
        cmocka_unit_test(a_range_has_a_limit_and_a_count),
        cmocka_unit_test(an_old_revision_can_be_read_until_it_is_compacted),
        cmocka_unit_test(each_shows_the_keys_with_a_prefix),
        cmocka_unit_test(compaction_forgets_and_keeps_what_is_there),
        cmocka_unit_test(a_watch_shows_what_changes_from_now_on),
        cmocka_unit_test(a_watch_can_begin_in_the_past_and_in_the_future),
        cmocka_unit_test(a_watch_that_begins_in_compacted_history_is_canceled),
        cmocka_unit_test(a_stream_has_several_watches),
        cmocka_unit_test(a_revision_comes_in_one_response_or_in_fragments),
        cmocka_unit_test(a_minority_answers_nothing_new),
        cmocka_unit_test(what_timed_out_may_take_effect_later),
        cmocka_unit_test(a_proposal_takes_effect_when_its_caller_has_gone),
        cmocka_unit_test(a_crash_loses_a_proposal_or_not),
        cmocka_unit_test(state_outlives_every_member),
        cmocka_unit_test(a_started_member_shows_nothing_old),
        cmocka_unit_test(a_lagging_member_is_old_and_linearizable_reads_wait),
        cmocka_unit_test(status_and_authentication),
        cmocka_unit_test(an_error_may_come_after_the_effect),
        cmocka_unit_test(an_error_may_come_before_the_effect),
        cmocka_unit_test(a_proposal_may_take_effect_long_after_its_caller_was_told),
        cmocka_unit_test(watches_break_and_lag_and_are_canceled),
        cmocka_unit_test(a_watch_may_lose_revisions_silently),
        cmocka_unit_test(a_hand_changes_what_is_the_masters_and_an_operator_puts_it_back),
        cmocka_unit_test(one_member_reads_flipped_bits),
        cmocka_unit_test(at_the_quota_puts_are_refused),
        cmocka_unit_test(the_quota_is_of_bytes),
        cmocka_unit_test(a_restored_store_repeats_revisions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
