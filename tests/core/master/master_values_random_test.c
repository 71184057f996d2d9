/* Values under random schedules: programs that cache and serve, changes that are repeated,
 * watchers, streams that break, a master that dies. What a program may serve is compared with
 * what is stored, at every moment (INV-15); what was acknowledged, or refused, with the history
 * (INV-12, HA-12); what watchers have put together with what there is (INV-17).
 *
 * LH_SEED=n replays one schedule, LH_RUNS=n tries so many. */
#include "base/prng.h"
#include "base/probe.h"
#include "proto/stored.pb-c.h"
#include "tests/core/master/values_story.h"

#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAMS 4
#define NAMES    4
#define CHANGES  400
#define WATCHERS 2
#define STEPS    600
#define RUNS     60

#define BROADCAST "/b/"

static const char *const names[NAMES] = {"/a", "/b/x", "/b/y", "/c"};

struct entry {
    bool has; /* a lease */
    uint64_t revision;
    struct lh_instant end;
    uint64_t read_at; /* the revision of the broadcast prefix; 0: it has not read it */
};

struct client {
    struct prog p;
    bool greeted, back, deaf; /* `deaf`: it takes no messages for now */
    struct lh_instant end;    /* of its session, as it knows */
    struct entry cache[NAMES];
    uint64_t promised; /* of the prefix; 0: nothing */
    struct lh_instant promise_end;
};

struct change {
    unsigned name;
    uint64_t link, number;
    bool remove, done, refused, unknown;
    uint64_t revision;
    Leasehold__ChangeRequest request;
    Leasehold__CallId id;
    char value[24];
    uint8_t session[16];
};

struct watcher {
    uint64_t link, next;
    bool resetting;
    uint64_t last;
    uint64_t revisions[NAMES]; /* of what it has put together */
};

static struct lh_prng prng;
static struct client clients[PROGRAMS];
static struct change changes[CHANGES];
static size_t change_count;
static struct watcher watchers[WATCHERS];
static unsigned sessions;
static bool broadcasts; /* BROADCAST is */

static uint64_t below(uint64_t n)
{
    return lh_prng_next(&prng) % n;
}

static unsigned name_of(const char *name)
{
    for (unsigned i = 0; i < NAMES; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    fail_msg("an unknown name: %s", name);
    return 0;
}

/* ---- What is stored. */

static uint64_t stored_revision(unsigned name)
{
    char key[16];

    snprintf(key, sizeof key, "v%s", names[name]);
    const struct pair *pair = world_find(&w, key, strlen(key));
    if (pair == NULL)
        return 0;
    LeaseholdStored__Value *v =
        leasehold_stored__value__unpack(NULL, pair->value_size, pair->value);
    uint64_t revision = v->revision;
    leasehold_stored__value__free_unpacked(v, NULL);
    return revision;
}

/* INV-15: what any program may serve now is what there is. */
static void check_caches(void)
{
    for (unsigned n = 0; n < NAMES; n++) {
        uint64_t revision = stored_revision(n);
        for (unsigned i = 0; i < PROGRAMS; i++) {
            const struct client *c = &clients[i];
            const struct entry *e = &c->cache[n];
            if (e->read_at != 0 && e->read_at == c->promised &&
                lh_instant_before(w.now, c->promise_end))
                assert_int_equal(e->revision, revision);
            if (e->has && lh_instant_before(w.now, e->end) &&
                lh_instant_before(w.now, clients[i].end))
                assert_int_equal(e->revision, revision);
        }
    }
}

/* ---- Programs. */

static void new_session(struct client *c)
{
    *c = (struct client){.p = {.term_ms = 2000 + below(3) * 2000}};
    memset(c->p.id, 1, sizeof c->p.id);
    sessions++;
    memcpy(c->p.id, &sessions, sizeof sessions);
}

static void show_all(struct client *c)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Show show = LEASEHOLD__SHOW__INIT;
    Leasehold__ShownValue values[NAMES], *pointers[NAMES];
    char *prefix = (char *)(uintptr_t)BROADCAST;

    for (unsigned n = 0; n < NAMES; n++) {
        struct entry *e = &c->cache[n];
        e->has = e->has && lh_instant_before(w.now, e->end) && lh_instant_before(w.now, c->end);
        if (!e->has)
            continue;
        leasehold__shown_value__init(&values[show.n_values]);
        values[show.n_values].name = (char *)(uintptr_t)names[n];
        values[show.n_values].revision = e->revision;
        pointers[show.n_values] = &values[show.n_values];
        show.n_values++;
    }
    show.values = pointers;
    show.n_broadcasts = broadcasts;
    show.broadcasts = &prefix;
    show.stamp = w.now.ns;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW;
    request.show = &show;
    prog_send(&c->p, &request);
}

static struct lh_instant until(uint64_t stamp, uint64_t term_ns)
{
    return (struct lh_instant){stamp + term_ns};
}

static void on_shown(struct client *c, const Leasehold__Shown *shown)
{
    c->back = true;
    c->end = until(shown->stamp, shown->term_ns);
    for (unsigned n = 0; n < NAMES; n++)
        if (c->cache[n].has && shown->values_term_ns != 0)
            c->cache[n].end = until(shown->stamp, shown->values_term_ns);
    for (size_t i = 0; i < shown->n_dropped; i++)
        c->cache[name_of(shown->dropped[i])].has = false;
}

static void on_beat(struct client *c, const Leasehold__BeatReply *beat)
{
    c->end = until(beat->stamp, beat->term_ns);
    if (beat->n_broadcasts == 0)
        return;
    const Leasehold__BroadcastState *state = beat->broadcasts[0];
    c->promised = state->revision;
    c->promise_end = state->promised ? c->end : until(beat->stamp, state->promised_ns);
}

static void on_answer(struct client *c, const Leasehold__LeaseAnswer *a)
{
    if (a->answer_case == LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE) {
        struct entry *e = &c->cache[a->value->id];
        assert_true(a->value->error == LEASEHOLD__ERROR_CODE__OK ||
                    a->value->error == LEASEHOLD__ERROR_CODE__NOT_FOUND);
        /* VAL-2: what is promised while it changes is served as what is leased. */
        bool promised = a->value->changing != 0 && a->value->term_ns != 0;
        *e = (struct entry){a->value->leased || promised, a->value->revision,
            until(a->value->stamp, a->value->term_ns), a->value->prefix_revision};
    } else if (a->answer_case == LEASEHOLD__LEASE_ANSWER__ANSWER_DROP) {
        c->cache[name_of(a->drop->name)].has = false;
        has_dropped(&c->p, a->drop->name, a->drop->change);
    }
}

/* The next message of its stream. False: there is none. */
static bool hear(struct client *c)
{
    for (size_t i = 0; i < w.line_count; i++) {
        struct line *line = &w.lines[i];
        const Leasehold__LeaseSessionReply *reply = (const void *)line->message;
        if (line->link != c->p.link || line->taken)
            continue;
        line->taken = true;
        if (reply != NULL)
            world_sent(&w, c->p.link);
        if (reply == NULL) {
            c->p.link = 0;
            if (line->error == LH_ERR_UNKNOWN_SESSION)
                new_session(c);
        } else if (reply->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING) {
            c->greeted = true;
            show_all(c);
        } else if (reply->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN) {
            on_shown(c, reply->shown);
        } else if (reply->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT) {
            if (reply->beat->error == LEASEHOLD__ERROR_CODE__OK)
                on_beat(c, reply->beat);
        } else if (reply->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS) {
            for (size_t k = 0; k < reply->answers->n_answers; k++)
                on_answer(c, reply->answers->answers[k]);
        }
        check_caches();
        return true;
    }
    return false;
}

static void attach_again(struct client *c)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Attach a = LEASEHOLD__ATTACH__INIT;

    c->back = false;
    c->promised = 0; /* VAL-5 */
    c->p.link = world_open_link(&w, LH_METHOD_LEASE_SESSION);
    a.session = (ProtobufCBinaryData){.data = c->p.id, .len = sizeof c->p.id};
    a.opens = !c->greeted;
    a.stream = ++c->p.stream;
    a.term_ms = c->p.term_ms;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    request.attach = &a;
    prog_send(&c->p, &request);
}

static void act(struct client *c)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Beat b = LEASEHOLD__BEAT__INIT;
    unsigned n = (unsigned)below(NAMES);

    if (c->p.link == 0) {
        attach_again(c);
    } else if (below(40) == 0) { /* the stream breaks */
        world_break_link(&w, c->p.link);
        c->p.link = 0;
    } else if (c->back && below(60) == 0) {
        closes(&c->p);
        new_session(c);
    } else if (c->back && below(2) == 0) {
        ask_value(&c->p, n, names[n], c->cache[n].has ? c->cache[n].revision : 0, below(8) != 0);
    } else if (c->back) {
        b.stamp = w.now.ns;
        request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_BEAT;
        request.beat = &b;
        prog_send(&c->p, &request);
    }
}

/* ---- Changes. */

static void send_change(struct change *c)
{
    c->link = world_call(&w, LH_METHOD_CHANGE, &c->request);
}

static void new_change(void)
{
    if (change_count == CHANGES)
        return;
    struct change *c = &changes[change_count++];
    *c = (struct change){.name = (unsigned)below(NAMES), .remove = below(4) == 0};
    snprintf(c->value, sizeof c->value, "%zu", change_count);
    c->request = change_to(names[c->name], c->remove ? NULL : c->value);
    c->id = call_id(change_count, false);
    c->request.call = &c->id;
    c->request.wait_ms = below(4) == 0 ? 100 : 60000;
    if (below(6) == 0) {
        c->request.if_revision = true;
        c->request.revision = below(2) == 0 ? stored_revision(c->name) : below(20);
    }
    if (!c->remove && below(4) == 0) {
        memcpy(c->session, clients[below(PROGRAMS)].p.id, sizeof c->session);
        c->request.attach = (ProtobufCBinaryData){.data = c->session, .len = sizeof c->session};
    }
    send_change(c);
}

/* Answers are taken; who got none says it again. */
static void look_at_changes(void)
{
    for (size_t i = 0; i < change_count; i++) {
        struct change *c = &changes[i];
        if (c->done)
            continue;
        const Leasehold__ChangeReply *reply = c->link == 0 ? NULL : change_reply(c->link);
        if (reply != NULL) {
            c->done = true;
            c->refused = reply->error != LEASEHOLD__ERROR_CODE__OK;
            c->revision = reply->revision;
        } else if (c->link == 0 || world_end(&w, c->link) != LH_OK) {
            c->id.repeated = true;
            send_change(c);
        }
    }
}

static void a_change_breaks(void)
{
    for (size_t i = 0; i < change_count; i++)
        if (!changes[i].done && changes[i].link != 0 && below(2) == 0) {
            world_break_link(&w, changes[i].link);
            changes[i].link = 0;
            return;
        }
}

/* ---- Watchers. */

static void watch_event(struct watcher *v, const Leasehold__WatchEvent *e)
{
    v->revisions[name_of(e->name)] = e->removed ? 0 : e->revision;
    if (v->resetting)
        return;
    assert_true(e->revision > v->last);
    v->last = e->revision;
}

static bool watcher_hears(struct watcher *v)
{
    const Leasehold__WatchReply *r = v->link == 0 ? NULL : watched(v->link);

    if (r == NULL)
        return false;
    if (r->reset) {
        v->resetting = true;
        memset(v->revisions, 0, sizeof v->revisions);
    }
    for (size_t i = 0; i < r->n_events; i++)
        watch_event(v, r->events[i]);
    if (!r->more) {
        v->resetting = false;
        v->next = r->next;
        v->last = v->next - 1;
    }
    world_sent(&w, v->link);
    return true;
}

static void watcher_acts(struct watcher *v)
{
    if (v->link == 0)
        v->link = watch("/", v->resetting ? 0 : v->next);
    else if (below(30) == 0) {
        world_break_link(&w, v->link);
        v->link = 0;
    }
}

/* ---- The master, and a standby that follows it and is the next one (HA-8): what they do must not
 * differ from what a master does that loads the store. */

static struct lh_master *standby;

static void follow(const struct lh_change *items, size_t count)
{
    char text[256];

    if (standby != NULL && lh_master_amend(standby, items, count, text, sizeof text) != LH_OK)
        fail_msg("%s", text);
}

static void take_over(void)
{
    w.successor = standby;
    standby = NULL;
}

static void begin_standby(void)
{
    char text[256];

    standby = lh_master_create(&w.config);
    for (size_t i = 0; i < w.store_count; i++)
        assert_int_equal(lh_master_load(standby, w.store[i].key, w.store[i].key_size,
                             w.store[i].value, w.store[i].value_size, text, sizeof text),
            LH_OK);
}

static void the_master_dies(void)
{
    crash();
    begin_standby();
    for (unsigned i = 0; i < PROGRAMS; i++) {
        clients[i].p.link = 0;
        clients[i].back = false;
    }
    for (size_t i = 0; i < change_count; i++)
        changes[i].link = 0;
    for (unsigned i = 0; i < WATCHERS; i++)
        watchers[i].link = 0;
}

static void step(void)
{
    unsigned i = (unsigned)below(PROGRAMS), v = (unsigned)below(WATCHERS);

    switch (below(12)) {
    case 0:
        new_change();
        break;
    case 1:
        world_advance(&w, below(700));
        break;
    case 2:
        w.hold_commits = below(3) == 0;
        if (!w.hold_commits)
            world_commit_all(&w);
        break;
    case 3:
        if (w.commit_count > 0)
            world_commit(&w);
        break;
    case 4:
        watcher_acts(&watchers[v]);
        break;
    case 5:
        watcher_hears(&watchers[v]);
        break;
    case 6:
        if (below(12) == 0)
            a_change_breaks();
        if (below(30) == 0)
            the_master_dies();
        if (below(20) == 0)
            clients[i].deaf = !clients[i].deaf;
        break;
    case 7:
    case 8:
        act(&clients[i]);
        break;
    default:
        if (!clients[i].deaf)
            hear(&clients[i]);
        break;
    }
    look_at_changes();
    check_caches();
    if (w.line_count > 3000)
        fail_msg("too many lines");
}

/* ---- The end: everything that waits comes through. */

static void settle(void)
{
    w.hold_commits = false;
    world_commit_all(&w);
    for (unsigned round = 0; round < 400; round++) {
        bool quiet = true;
        for (unsigned i = 0; i < PROGRAMS; i++) {
            clients[i].deaf = false;
            if (clients[i].p.link == 0)
                attach_again(&clients[i]);
            while (hear(&clients[i]))
                quiet = false;
        }
        look_at_changes();
        for (unsigned i = 0; i < WATCHERS; i++) {
            if (watchers[i].link == 0)
                watchers[i].link = watch("/", watchers[i].resetting ? 0 : watchers[i].next);
            while (watcher_hears(&watchers[i]))
                quiet = false;
        }
        check_caches();
        if (quiet && round > 200)
            break;
        world_advance(&w, 500);
    }
    for (size_t i = 0; i < change_count; i++)
        assert_true(changes[i].done);
}

/* The changes of values in the history, which has all of them. */
static void check_history(void)
{
    static unsigned applied[CHANGES + 1];
    static uint64_t at[CHANGES + 1];

    memset(applied, 0, sizeof applied);
    for (size_t i = 0; i < w.store_count; i++) {
        if (w.store[i].key[0] != 'h')
            continue;
        LeaseholdStored__ValueChange *h =
            leasehold_stored__value_change__unpack(NULL, w.store[i].value_size, w.store[i].value);
        char text[24] = {0};
        if (h->value.len > 0)
            memcpy(text, h->value.data, h->value.len);
        unsigned long number = strtoul(text, NULL, 10);
        if (!h->removed) {
            assert_true(number >= 1 && number <= change_count);
            applied[number]++;
            for (unsigned k = 0; k < 8; k++)
                at[number] = at[number] << 8 | w.store[i].key[1 + k];
        }
        leasehold_stored__value_change__free_unpacked(h, NULL);
    }
    for (size_t i = 0; i < change_count; i++) {
        if (changes[i].remove)
            continue;
        assert_int_equal(applied[i + 1], !changes[i].refused);
        if (!changes[i].refused)
            assert_int_equal(at[i + 1], changes[i].revision);
    }
}

static void check_attached(void)
{
    for (size_t i = 0; i < w.store_count; i++) {
        if (w.store[i].key[0] != 'v')
            continue;
        LeaseholdStored__Value *v =
            leasehold_stored__value__unpack(NULL, w.store[i].value_size, w.store[i].value);
        if (v->session.len > 0) {
            uint8_t key[17] = {'p'};
            memcpy(key + 1, v->session.data, 16);
            assert_non_null(world_find(&w, key, sizeof key));
        }
        leasehold_stored__value__free_unpacked(v, NULL);
    }
}

static void run(uint64_t seed)
{
    prng = (struct lh_prng){seed};
    change_count = 0;
    world_open(&w);
    if (below(2) == 0) {
        w.config.step_work = 1 + (uint32_t)below(6);
        w.config.drops_step = 1 + (uint32_t)below(3);
        w.config.changes_step = 1 + (uint32_t)below(2);
        w.config.follows_max = 1;
        w.config.watch_events = 1 + (uint32_t)below(3);
        w.config.program_term_min = lh_milliseconds(500);
    }
    crash();
    broadcasts = below(2) == 0;
    if (broadcasts) {
        Leasehold__Policy p = policy_for(BROADCAST);
        p.broadcast = true;
        set_policy(&p, false);
    }
    w.committed = follow;
    w.crashed = take_over;
    begin_standby();
    for (unsigned i = 0; i < PROGRAMS; i++)
        new_session(&clients[i]);
    memset(watchers, 0, sizeof watchers);
    for (unsigned i = 0; i < STEPS; i++)
        step();
    settle();
    check_history();
    check_attached();
    for (unsigned i = 0; i < WATCHERS; i++)
        for (unsigned n = 0; n < NAMES; n++)
            assert_int_equal(watchers[i].revisions[n], stored_revision(n));
    lh_master_destroy(standby);
    standby = NULL;
    world_close(&w);
}

static void random_schedules_keep_the_invariants(void **state)
{
    (void)state;
    const char *only = getenv("LH_SEED"), *many = getenv("LH_RUNS");
    uint64_t first = only != NULL ? strtoull(only, NULL, 10) : 1;
    uint64_t count = only != NULL ? 1 : many != NULL ? strtoull(many, NULL, 10) : RUNS;

    for (uint64_t seed = first; seed < first + count; seed++) {
        /* If it fails, this is the last line before it: replay with LH_SEED. */
        print_message("seed %" PRIu64 "\n", seed);
        run(seed);
    }
}

/* ---- Planted bugs. */

static void one_after_the_other(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10 * RUNS; seed++) /* until the first that fails */
        run(seed);
}

/* A process of its own: what it finds is a failure there. */
static bool is_noticed(const char *bug)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_after_the_other)};
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL)
            _exit(0);
        _exit(lh_plant(bug, true) && cmocka_run_group_tests(tests, NULL, NULL) > 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status != 0;
}

static void planted_bugs_are_noticed(void **state)
{
    (void)state;
    static const char *const bugs[] = {
        "attached-value-kept",
        "broadcast-promise-stretched",
        "call-applied-twice",
        "change-before-all-back",
        "change-before-caches-gone",
        "lease-given-while-changing",
        "old-drop-confirmation-counts",
        "promise-outlives-awaited-leases",
        "promise-outlives-last-broadcast",
        "watch-event-lost",
        "watch-event-twice",
    };

    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        if (!is_noticed(bugs[i]))
            fail_msg("%s was not noticed", bugs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_schedules_keep_the_invariants),
        cmocka_unit_test(planted_bugs_are_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
