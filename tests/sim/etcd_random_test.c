/* Several clients write, read and watch while members crash, pause and lose each other and etcd
 * misbehaves. A writer's request has one shape: if the key is still as I saw it, put my value, else
 * show it; and is sent again, the same, until it has an answer (HA-5). Checked against what truly
 * happened:
 * - applied transactions are one order, each has one revision, and its compare held at that place;
 * - who is told of a success finds its transaction in that order at the revision of the answer;
 * - who is told by all answers that nothing was done finds that nothing was;
 * - who is told that the compare failed has its value there already, or it never gets there;
 * - a linearizable read shows nothing older than what was there when it was asked for;
 * - a watch shows each revision once, in order, and none is missing unless it was compacted.
 *
 * LH_SEED=n replays one seed, LH_RUNS=n tries so many. */
#include "tests/sim/etcd_world.h"

#include <inttypes.h>

#define KEYS    3
#define WRITERS 4
#define READERS 2
#define RUNS    12

/* One revision of the true history. */
struct step {
    int key;
    char value[16];
    int64_t before; /* the key's last revision */
};

struct writer {
    int index;
    uint64_t sequence;
    int key;
    int64_t seen; /* the key's revision that it compares with */
    char value[16];
    uint64_t first, last; /* links of its copies; 0: it has no request */
    uint64_t patient_until;
    uint64_t done;
};

struct reader {
    uint64_t link; /* 0: none */
    bool serializable;
    int64_t floor;
};

struct world {
    struct lh_sim *sim;
    struct lh_sim_etcd *etcd;
    struct lh_prng random;
    struct client clients[WRITERS + READERS + 1];
    struct writer writers[WRITERS];
    struct reader readers[READERS];
    struct step *history; /* by revision */
    int64_t revision;
    size_t history_capacity;
    int64_t newest[KEYS];
    uint64_t
        dead[WRITERS]; /* of its values up to this one, none comes any more that is not there */
    bool is_there[WRITERS]; /* the present one of each is */
    /* The watch. */
    uint64_t watch;
    size_t watch_heard;
    int64_t watch_next;
    uint64_t repeats, failed, unheard, events;
};

static uint64_t below(struct world *w, uint64_t bound)
{
    return lh_prng_below(&w->random, bound);
}

static bool same(const uint8_t *bytes, size_t size, const char *text)
{
    return size == strlen(text) && memcmp(bytes, text, size) == 0;
}

static int key_of(const uint8_t *key, size_t size)
{
    assert_true(size == 2 && key[0] == 'k' && key[1] >= '0' && key[1] < '0' + KEYS);
    return key[1] - '0';
}

/* ---- What truly happens ---- */

static void note_value(struct world *w, const struct step *s)
{
    unsigned writer;
    uint64_t sequence;

    assert_int_equal(sscanf(s->value, "%u:%" SCNu64, &writer, &sequence), 2);
    assert_true(writer < WRITERS && sequence == w->writers[writer].sequence);
    assert_true(sequence > w->dead[writer]);
    assert_false(w->is_there[writer]);
    w->is_there[writer] = true;
}

static void saw_applied(void *arg, const struct lh_sim_etcd_applied *txn)
{
    struct world *w = arg;
    const Etcdserverpb__Compare *c = txn->request->compare[0];
    int key = key_of(c->key.data, c->key.len);

    assert_int_equal(txn->succeeded, c->mod_revision == w->newest[key]);
    assert_int_equal(txn->count, txn->succeeded ? 1 : 0);
    assert_int_equal(txn->revision, w->revision + (int64_t)txn->count);
    if (txn->count == 0)
        return;
    const struct lh_sim_etcd_record *r = txn->changes[0];
    assert_int_equal(key_of(r->key, r->key_size), key);
    assert_int_equal(r->mod_revision, txn->revision);
    w->revision = txn->revision;
    LH_GROW(w->history, w->history_capacity, (size_t)w->revision + 1);
    struct step *s = &w->history[w->revision];
    *s = (struct step){.key = key, .before = w->newest[key]};
    assert_true(r->value_size < sizeof s->value);
    memcpy(s->value, r->value, r->value_size);
    w->newest[key] = w->revision;
    note_value(w, s);
}

/* The revision at which the key was last written, at `at`. */
static int64_t newest_at(const struct world *w, int key, int64_t at)
{
    int64_t r = w->newest[key];

    while (r > at)
        r = w->history[r].before;
    return r;
}

static void check_kv(const struct world *w, const Etcdserverpb__KeyValue *kv)
{
    assert_true(kv->mod_revision >= 2 && kv->mod_revision <= w->revision);
    const struct step *s = &w->history[kv->mod_revision];
    assert_int_equal(key_of(kv->key.data, kv->key.len), s->key);
    assert_true(same(kv->value.data, kv->value.len, s->value));
}

static void check_range(const struct world *w, const Etcdserverpb__RangeResponse *r)
{
    size_t there = 0;

    assert_true(r->header->revision <= w->revision);
    for (int key = 0; key < KEYS; key++)
        there += newest_at(w, key, r->header->revision) != 0;
    assert_int_equal(r->n_kvs, there);
    for (size_t i = 0; i < r->n_kvs; i++) {
        check_kv(w, r->kvs[i]);
        assert_int_equal(r->kvs[i]->mod_revision,
            newest_at(w, key_of(r->kvs[i]->key.data, r->kvs[i]->key.len), r->header->revision));
    }
}

/* ---- Clients ---- */

static struct lh_sim_node *any_member(struct world *w)
{
    return lh_sim_etcd_member(w->etcd, below(w, lh_sim_etcd_members(w->etcd)));
}

static void send_copy(struct world *w, struct writer *x)
{
    struct txn *t = txn_new();
    char key[] = {'k', (char)('0' + x->key), 0};

    if_mod(t, key, x->seen);
    put(t, THEN, key, x->value);
    get(t, ELSE, key, NULL);
    x->last = ask(&w->clients[x->index], any_member(w), LH_METHOD_ETCD_TXN, &t->request.base);
    if (x->first == 0)
        x->first = x->last;
    x->patient_until = lh_sim_now(w->sim) + 1000000 * (5 + below(w, 500));
}

static void begin(struct world *w, struct writer *x, int key, int64_t seen)
{
    x->sequence++;
    w->is_there[x->index] = false;
    x->key = key;
    x->seen = seen;
    x->first = 0;
    snprintf(x->value, sizeof x->value, "%d:%" PRIu64, x->index, x->sequence);
    send_copy(w, x);
}

static void take_answer(struct world *w, struct writer *x, const Etcdserverpb__TxnResponse *r)
{
    int64_t seen = r->header->revision;

    assert_true(r->header->revision <= w->revision);
    if (r->succeeded) {
        assert_true(strcmp(w->history[seen].value, x->value) == 0);
        assert_int_equal(w->history[seen].before, x->seen);
    } else {
        const Etcdserverpb__RangeResponse *read = r->responses[0]->response_range;
        bool own =
            read->n_kvs == 1 && same(read->kvs[0]->value.data, read->kvs[0]->value.len, x->value);
        if (read->n_kvs == 1)
            check_kv(w, read->kvs[0]);
        seen = read->n_kvs == 0 ? 0 : read->kvs[0]->mod_revision;
        assert_true(!own || w->is_there[x->index]);
        w->failed += !own;
        w->unheard += own;
    }
    /* From here on no copy of it takes effect. */
    w->dead[x->index] = x->sequence;
    x->done++;
    int key = (int)below(w, KEYS);
    begin(w, x, key, key == x->key ? seen : below(w, 2) == 0 ? w->newest[key] : 0);
}

/* Those are the two ways to say that. */
static bool says_not_done(const struct call *call)
{
    return call->closed && (strcmp(call->text, "etcdserver: too many requests") == 0 ||
                               strcmp(call->text, "raft proposal dropped") == 0);
}

static void step_writer(struct world *w, struct writer *x)
{
    const struct client *c = &w->clients[x->index];
    bool done = false;

    for (uint64_t link = x->first; link <= x->last; link++) {
        const struct call *call = &c->calls[link - 1];
        if (call->count == 1) {
            take_answer(w, x, (const Etcdserverpb__TxnResponse *)call->messages[0]);
            return;
        }
        done = done || !says_not_done(call);
    }
    assert_true(done || !w->is_there[x->index]);
    const struct call *last = &c->calls[x->last - 1];
    if (last->closed || lh_sim_now(w->sim) >= x->patient_until) {
        w->repeats++;
        send_copy(w, x);
    }
}

static void step_reader(struct world *w, struct reader *x, struct client *c)
{
    if (x->link != 0 && !c->calls[x->link - 1].closed)
        return;
    if (x->link != 0 && c->calls[x->link - 1].count == 1) {
        const Etcdserverpb__RangeResponse *r =
            (const Etcdserverpb__RangeResponse *)c->calls[x->link - 1].messages[0];
        check_range(w, r);
        assert_true(x->serializable || r->header->revision >= x->floor);
    }
    Etcdserverpb__RangeRequest q = range_request("k", TO_THE_END);
    q.serializable = x->serializable = below(w, 2) == 0;
    x->floor = w->revision;
    x->link = ask(c, any_member(w), LH_METHOD_ETCD_RANGE, &q.base);
}

static void open_watch(struct world *w, struct client *c)
{
    Etcdserverpb__WatchRequest q = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;

    create.key = bytes_of("k");
    create.range_end = end_of(TO_THE_END);
    create.start_revision = w->watch_next;
    q.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    q.create_request = &create;
    w->watch = ask(c, any_member(w), LH_METHOD_ETCD_WATCH, &q.base);
    w->watch_heard = 0;
}

static void step_watch(struct world *w, struct client *c)
{
    const struct call *call = &c->calls[w->watch - 1];

    for (; w->watch_heard < call->count; w->watch_heard++) {
        const Etcdserverpb__WatchResponse *r =
            (const Etcdserverpb__WatchResponse *)call->messages[w->watch_heard];
        for (size_t i = 0; i < r->n_events; i++) {
            check_kv(w, r->events[i]->kv);
            assert_int_equal(r->events[i]->kv->mod_revision, w->watch_next);
            w->watch_next++;
            w->events++;
        }
        if (r->canceled) {
            assert_true(r->compact_revision >= w->watch_next);
            w->watch_next = r->compact_revision;
            lh_fx_close(&c->todo, w->watch, LH_ERR_CANCELLED, "");
            open_watch(w, c);
            return;
        }
    }
    if (call->closed)
        open_watch(w, c);
}

/* ---- Faults ---- */

static void disturb_member(struct world *w)
{
    struct lh_sim_node *m = any_member(w), *other = any_member(w);

    switch (below(w, 6)) {
    case 0:
        if (lh_sim_is_up(m))
            lh_sim_crash(m);
        break;
    case 1:
        lh_sim_power_loss(m);
        break;
    case 2:
        lh_sim_pause(m);
        break;
    case 3:
        lh_sim_pause_in_step(m);
        break;
    case 4:
        lh_sim_isolate(m, NULL);
        break;
    default:
        if (m != other)
            lh_sim_cut(m, other);
        break;
    }
}

static void mend(struct world *w)
{
    lh_sim_etcd_mend(w->etcd);
    lh_sim_mend_network(w->sim);
    for (size_t i = 0; i < lh_sim_etcd_members(w->etcd); i++)
        lh_sim_resume(lh_sim_etcd_member(w->etcd, i));
    lh_sim_etcd_start(w->etcd);
}

static void disturb(struct world *w)
{
    struct lh_sim_etcd *e = w->etcd;
    uint32_t rate = (uint32_t)below(w, 300000);

    switch (below(w, 14)) {
    case 0:
        lh_sim_etcd_lose_quorum(e, below(w, 2) == 0);
        break;
    case 1:
        lh_sim_etcd_fail_after(e, rate);
        break;
    case 2:
        lh_sim_etcd_fail_before(e, rate);
        break;
    case 3:
        lh_sim_etcd_apply_late(e, rate, lh_milliseconds(3000));
        break;
    case 4:
        lh_sim_etcd_lag(e, below(w, lh_sim_etcd_members(e)), lh_milliseconds(below(w, 2000)));
        break;
    case 5:
        lh_sim_etcd_break_watches(e);
        break;
    case 6:
        lh_sim_etcd_lag_watches(e, lh_milliseconds(below(w, 1000)));
        break;
    case 7:
        lh_sim_etcd_cancel_watches(e);
        break;
    case 8:
        lh_sim_etcd_compact(e, (int64_t)below(w, 20));
        break;
    case 9:
        lh_sim_etcd_no_space(e, below(w, 2) == 0);
        break;
    case 10:
    case 11:
        mend(w);
        break;
    default:
        disturb_member(w);
        break;
    }
}

/* ---- A run ---- */

static void run_for(struct world *w, uint64_t ms, bool disturbed)
{
    uint64_t next = 0;

    for (uint64_t i = 0; i < ms; i++) {
        lh_sim_run_for(w->sim, lh_milliseconds(1));
        assert_null(lh_sim_failure(w->sim));
        for (int k = 0; k < WRITERS; k++)
            step_writer(w, &w->writers[k]);
        for (int k = 0; k < READERS; k++)
            step_reader(w, &w->readers[k], &w->clients[WRITERS + k]);
        step_watch(w, &w->clients[WRITERS + READERS]);
        if (disturbed && i >= next) {
            disturb(w);
            next = i + 20 + below(w, 400);
        }
    }
}

struct sum {
    uint64_t hash, done, repeats, failed, unheard, events;
};

static void add_client(struct world *w, size_t i)
{
    char name[16];

    snprintf(name, sizeof name, "c%zu", i);
    w->clients[i].node = lh_sim_add(w->sim, name, &client_role, &w->clients[i]);
    lh_sim_start(w->clients[i].node);
}

static struct sum run(uint64_t seed)
{
    struct world *w = lh_alloc(sizeof *w);
    struct lh_sim_config sim = lh_sim_config_default(seed);
    struct lh_sim_etcd_config config = lh_sim_etcd_config_default();
    struct lh_sim_etcd_observer observer = {w, saw_applied, NULL};
    struct sum sum = {0};

    w->random.state = seed;
    w->revision = 1;
    w->watch_next = 2;
    config.members = 1 + (uint32_t)below(w, 5);
    config.timeout = (struct lh_sim_range){lh_milliseconds(50), lh_milliseconds(2000)};
    w->sim = lh_sim_create(&sim);
    w->etcd = lh_sim_etcd_create(w->sim, &config);
    lh_sim_etcd_observe(w->etcd, &observer);
    lh_sim_etcd_start(w->etcd);
    for (size_t i = 0; i < WRITERS + READERS + 1; i++)
        add_client(w, i);
    for (int i = 0; i < WRITERS; i++) {
        w->writers[i].index = i;
        begin(w, &w->writers[i], (int)below(w, KEYS), 0);
    }
    open_watch(w, &w->clients[WRITERS + READERS]);
    run_for(w, 6000, true);
    /* Once nothing is wrong any more all go on, and every member has everything. */
    mend(w);
    run_for(w, 4000, false);
    for (int i = 0; i < WRITERS; i++) {
        uint64_t before = w->writers[i].done;
        run_for(w, 200, false);
        assert_true(w->writers[i].done > before);
        sum.done += w->writers[i].done;
    }
    assert_true(w->watch_next > w->revision - 20);
    for (size_t i = 0; i < config.members; i++)
        assert_true(lh_sim_etcd_member_revision(w->etcd, i) > w->revision - 20);
    assert_int_equal(lh_sim_etcd_revision(w->etcd), w->revision);
    sum.hash = lh_sim_hash(w->sim);
    sum.repeats = w->repeats;
    sum.failed = w->failed;
    sum.unheard = w->unheard;
    sum.events = w->events;
    lh_sim_destroy(w->sim);
    lh_sim_etcd_destroy(w->etcd);
    for (size_t i = 0; i < WRITERS + READERS + 1; i++)
        client_deinit(&w->clients[i]);
    free(w->history);
    free(w);
    return sum;
}

static void what_clients_are_told_is_what_happened(void **state)
{
    const char *one = getenv("LH_SEED"), *many = getenv("LH_RUNS");
    uint64_t first = one == NULL ? 1 : strtoull(one, NULL, 0);
    uint64_t runs = one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 0) : RUNS;
    struct sum all = {0};

    (void)state;
    for (uint64_t seed = first; seed < first + runs; seed++) {
        printf("seed %" PRIu64 "\n", seed);
        fflush(stdout);
        struct sum sum = run(seed);
        all.done += sum.done;
        all.repeats += sum.repeats;
        all.failed += sum.failed;
        all.unheard += sum.unheard;
        all.events += sum.events;
    }
    printf("%" PRIu64 " answered, %" PRIu64 " repeats, %" PRIu64 " compares failed, %" PRIu64
           " applied by a copy whose answer was lost, %" PRIu64 " events\n",
        all.done, all.repeats, all.failed, all.unheard, all.events);
    assert_true(all.done > 0 && all.repeats > 0 && all.failed > 0 && all.unheard > 0);
    assert_true(all.events > 0);
}

static void the_same_seed_gives_the_same_run(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++)
        assert_true(run(seed).hash == run(seed).hash);
    assert_true(run(1).hash != run(2).hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_clients_are_told_is_what_happened),
        cmocka_unit_test(the_same_seed_gives_the_same_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
