#include "tests/core/lease/lease_world.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/prng.h"
#include "lease/grantor.h"
#include "lease/holder.h"
#include "lease/term.h"

#include <stdlib.h>
#include <string.h>

#define HOLDERS 4
#define KEYS    4
#define NOBODY  UINT32_MAX

/* Holder 0 has a good link, is never restarted and always renews; its lease is on key 0, and INV-9
 * says that it keeps it. */
#define STAR     0
#define STAR_KEY 0

#define MS          UINT64_C(1000000)
#define SESSION_MS  1000
#define LEASE_MS    2500
#define RUN_NS      (60000 * MS)
#define GOOD_NS_MAX (10 * MS)
#define BAD_NS_MAX  (1200 * MS)

enum kind {
    TICK_HOLDER,  /* a holder's heartbeat time */
    TICK_GRANTOR, /* the grantor has an idea: grant, recall, move a version */
    TICK_CHAOS,   /* something breaks */
    REGISTER,
    REGISTERED,
    HEARTBEAT,
    ANSWER,
    UNKNOWN,
    GRANT,
    RECALL,
    RELEASE,
};

struct event {
    uint64_t at; /* true time */
    uint64_t order;
    enum kind kind;
    uint32_t holder; /* from it or to it */
    uint64_t session;
    struct lh_instant stamp;                     /* the holder's; echoed (TIME-1) */
    struct lh_duration session_term, lease_term; /* the holder's shares */
    uint64_t incarnation, number;
    uint64_t key, version;
    uint64_t versions[KEYS]; /* leases shown, asked for, extended or continued; 0: not */
};

struct clock {
    uint64_t true_base, local_base;
    uint64_t ppm; /* rate: millionths of true time */
};

struct holder {
    struct lh_holder *table;
    struct clock clock;
    uint64_t incarnation, number;
    bool must_register; /* its session is unknown to the grantor, though it may still run here */
};

/* What the grantor wrote down, and so knows after a restart. */
struct durable {
    uint64_t version;
    uint32_t holder;
    uint64_t incarnation;
};

struct registration {
    uint64_t incarnation, number;
    lh_session_id session;                /* 0: none */
    struct lh_instant received_at, stamp; /* of the last heartbeat */
};

struct world {
    uint64_t now;
    struct lh_prng prng;
    uint32_t drift_ppm;
    enum lease_world_fault fault;
    struct event *queue;
    size_t queued, queue_capacity;
    uint64_t order;

    struct lh_grantor *grantor;
    struct clock clock;
    uint64_t master_term;
    struct lh_instant wait_end; /* LEASE-7 */
    struct durable durable[KEYS];
    struct registration seen[HOLDERS];

    struct holder holders[HOLDERS];
    bool star_has_lease;
    uint64_t version_acted[KEYS];
    struct lease_world_result result;
};

static uint64_t below(struct world *w, uint64_t bound)
{
    return lh_prng_below(&w->prng, bound);
}

static bool one_in(struct world *w, uint64_t n)
{
    return below(w, n) == 0;
}

static void violated(struct world *w, const char *what)
{
    if (w->result.violation == NULL) {
        w->result.violation = what;
        w->result.at_ns = w->now;
    }
}

static void trace(struct world *w, uint64_t a, uint64_t b)
{
    w->result.trace = lh_mix64(w->result.trace ^ lh_mix64(w->now + lh_mix64(a + lh_mix64(b))));
}

/* Clocks. */

static struct lh_instant reading(const struct world *w, const struct clock *c)
{
    unsigned __int128 passed = (unsigned __int128)(w->now - c->true_base) * c->ppm / 1000000;
    return (struct lh_instant){c->local_base + (uint64_t)passed};
}

/* The first true time at which the clock shows `t`, not before the present. */
static uint64_t true_time_of(const struct world *w, const struct clock *c, struct lh_instant t)
{
    if (t.ns <= c->local_base)
        return w->now;
    unsigned __int128 scaled = (unsigned __int128)(t.ns - c->local_base) * 1000000;
    unsigned __int128 at = c->true_base + (scaled + c->ppm - 1) / c->ppm;
    if (at > UINT64_MAX)
        return UINT64_MAX;
    return (uint64_t)at > w->now ? (uint64_t)at : w->now;
}

/* A new rate from now on; both edges are as likely as all that lies between. */
static void set_rate(struct world *w, struct clock *c)
{
    c->local_base = reading(w, c).ns;
    c->true_base = w->now;
    switch (below(w, 3)) {
    case 0:
        c->ppm = 1000000 - w->drift_ppm;
        break;
    case 1:
        c->ppm = 1000000 + w->drift_ppm;
        break;
    default:
        c->ppm = 1000000 - w->drift_ppm + below(w, 2 * (uint64_t)w->drift_ppm + 1);
    }
}

static struct clock clock_new(struct world *w)
{
    struct clock c = {.true_base = w->now, .local_base = below(w, 1000000000 * MS), .ppm = 1000000};
    set_rate(w, &c);
    return c;
}

/* The network and the agenda. */

static void at(struct world *w, uint64_t delay, struct event e)
{
    e.at = w->now + delay;
    e.order = w->order++;
    LH_GROW(w->queue, w->queue_capacity, w->queued + 1);
    w->queue[w->queued++] = e;
}

static uint64_t delay(struct world *w, uint32_t holder)
{
    if (holder == STAR)
        return below(w, GOOD_NS_MAX);
    return one_in(w, 4) ? below(w, BAD_NS_MAX) : below(w, GOOD_NS_MAX);
}

static void send(struct world *w, struct event e)
{
    if (e.holder != STAR && one_in(w, 8))
        return;
    at(w, delay(w, e.holder), e);
    if (one_in(w, 8))
        at(w, 3 * delay(w, e.holder), e);
}

static struct event take_next(struct world *w)
{
    size_t first = 0;
    for (size_t i = 1; i < w->queued; i++) {
        const struct event *a = &w->queue[i], *b = &w->queue[first];
        if (a->at < b->at || (a->at == b->at && a->order < b->order))
            first = i;
    }
    struct event e = w->queue[first];
    w->queue[first] = w->queue[--w->queued];
    return e;
}

/* The watcher. */

static bool acts(const struct world *w, uint32_t holder, uint64_t key)
{
    const struct holder *h = &w->holders[holder];
    uint64_t version = lh_holder_version(h->table, key);
    return version != 0 && lh_holder_may_act(h->table, key, version, reading(w, &h->clock));
}

static void watch(struct world *w)
{
    for (uint64_t key = 0; key < KEYS; key++) {
        int acting = 0;
        for (uint32_t i = 0; i < HOLDERS; i++) {
            if (!acts(w, i, key))
                continue;
            acting++;
            uint64_t version = lh_holder_version(w->holders[i].table, key);
            if (version < w->version_acted[key])
                violated(w, "INV-3: acts at a lower version than was acted at before");
            w->version_acted[key] = version;
        }
        if (acting > 1)
            violated(w, "INV-1: two holders may act");
    }
    if (acts(w, STAR, STAR_KEY))
        w->star_has_lease = true;
    else if (w->star_has_lease)
        violated(w, "INV-9: a connected holder that renews lost its lease");
}

static void watch_grant(struct world *w, uint64_t key, uint32_t to)
{
    for (uint32_t i = 0; i < HOLDERS; i++)
        if (i != to && acts(w, i, key))
            violated(w, "INV-2: granted while the old holder may act");
}

/* The grantor's part. */

static uint64_t wire_session(const struct world *w, lh_session_id s)
{
    return s == 0 ? 0 : w->master_term << 56 | s;
}

static lh_session_id local_session(const struct world *w, uint64_t wire)
{
    return wire >> 56 == w->master_term ? wire & ~(UINT64_C(0xff) << 56) : 0;
}

static struct lh_duration holder_share(const struct world *w, uint64_t ms)
{
    struct lh_duration term = lh_milliseconds(ms);
    return w->fault == FAULT_NO_DRIFT_MARGIN ? term : lh_term_for_holder(term, w->drift_ppm);
}

static struct lh_instant received(const struct world *w)
{
    struct lh_instant t = reading(w, &w->clock);
    if (w->fault == FAULT_COUNT_BEFORE_READ)
        t.ns -= 100 * MS;
    return t;
}

static bool grant(struct world *w, uint64_t key, uint32_t to, bool is_new_holder)
{
    struct registration *r = &w->seen[to];
    struct durable *d = &w->durable[key];
    struct lh_instant now = reading(w, &w->clock);
    if (r->session == 0)
        return false;
    /* LEASE-7: what a durable grant names waits. */
    if (w->fault != FAULT_NO_RESTART_WAIT && is_new_holder && d->holder != NOBODY &&
        lh_instant_before(now, w->wait_end))
        return false;
    int error = lh_grantor_grant(w->grantor, key, d->version + 1, LH_LEASE_EXCLUSIVE, r->session,
        now, r->received_at, lh_milliseconds(LEASE_MS));
    w->result.refused += error == LH_ERR_LEASE_HELD;
    if (error != LH_OK)
        return false;
    watch_grant(w, key, to);
    w->result.grants++;
    w->result.takeovers += d->holder != NOBODY && d->holder != to;
    *d = (struct durable){d->version + 1, to, r->incarnation};
    trace(w, key, d->version);
    send(w, (struct event){.kind = GRANT,
                .holder = to,
                .session = wire_session(w, r->session),
                .stamp = r->stamp,
                .lease_term = holder_share(w, LEASE_MS),
                .key = key,
                .version = d->version});
    return true;
}

static void grant_to_any(struct world *w, uint64_t key)
{
    uint32_t to = (uint32_t)below(w, HOLDERS);
    if (key == STAR_KEY && !w->star_has_lease)
        to = STAR;
    struct lh_lease_info info;
    bool is_held = lh_grantor_find(w->grantor, key, reading(w, &w->clock), &info);
    bool is_own = is_held && info.session == w->seen[to].session;
    if (is_own && key == STAR_KEY)
        return;
    grant(w, key, to, !is_own);
}

static void grantor_timer(struct world *w)
{
    struct lh_expired expired;
    while (lh_grantor_expire(w->grantor, reading(w, &w->clock), &expired)) {
        if (expired.is_session) {
            uint32_t holder = (uint32_t)(uintptr_t)expired.context;
            if (w->seen[holder].session == expired.session)
                w->seen[holder].session = 0;
        } else {
            w->result.expiries++;
            trace(w, 1, expired.lease.key);
            grant_to_any(w, expired.lease.key);
        }
    }
}

static void grantor_idea(struct world *w)
{
    uint64_t key = below(w, KEYS);
    struct lh_lease_info info;
    at(w, below(w, 200 * MS), (struct event){.kind = TICK_GRANTOR});
    if (w->fault == FAULT_FREE_ON_SUSPICION) {
        for (uint32_t i = 0; i < HOLDERS; i++) {
            struct lh_instant limit =
                lh_instant_add(w->seen[i].received_at, lh_milliseconds(SESSION_MS / 2));
            if (w->seen[i].session == 0 || !lh_instant_reached(reading(w, &w->clock), limit))
                continue;
            lh_grantor_session_end(w->grantor, w->seen[i].session, NULL, NULL);
            w->seen[i].session = 0;
        }
    }
    if (one_in(w, 3) && key != STAR_KEY && lh_grantor_recall(w->grantor, key) == LH_OK) {
        bool found = lh_grantor_find(w->grantor, key, reading(w, &w->clock), &info);
        for (uint32_t i = 0; found && i < HOLDERS; i++)
            if (w->seen[i].session == info.session)
                send(w, (struct event){
                            .kind = RECALL, .holder = i, .key = key, .version = info.version});
        return;
    }
    grant_to_any(w, key);
}

static void free_dead(void *arg, const struct lh_lease_info *lease)
{
    struct world *w = arg;
    w->durable[lease->key].holder = NOBODY;
}

/* Does the lease that the registration shows go on in the session that it opened? */
static bool continues(struct world *w, uint64_t key, const struct event *e, lh_session_id before)
{
    const struct registration *r = &w->seen[e->holder];
    struct durable *d = &w->durable[key];
    struct lh_instant now = reading(w, &w->clock);
    if (d->holder != e->holder)
        return false;
    if (d->incarnation < e->incarnation) {
        d->holder = NOBODY; /* SES-5 */
        return false;
    }
    if (d->incarnation > e->incarnation || e->versions[key] != d->version)
        return false;
    if (lh_grantor_continue(w->grantor, key, d->version, before, r->session, now, r->received_at,
            lh_milliseconds(LEASE_MS)) == LH_OK)
        return true;
    return lh_instant_before(now, w->wait_end) && /* LEASE-7 */
           lh_grantor_grant(w->grantor, key, d->version, LH_LEASE_EXCLUSIVE, r->session, now,
               r->received_at, lh_milliseconds(LEASE_MS)) == LH_OK;
}

static void on_register(struct world *w, const struct event *e)
{
    struct registration *r = &w->seen[e->holder];
    if (e->incarnation < r->incarnation ||
        (e->incarnation == r->incarnation && e->number <= r->number))
        return; /* SES-1 */
    lh_session_id before = r->session;
    if (before != 0 && e->incarnation > r->incarnation)
        lh_grantor_session_end(w->grantor, before, free_dead, w); /* SES-5 */
    else if (before != 0)
        lh_grantor_session_close(w->grantor, before);
    *r = (struct registration){e->incarnation, e->number, 0, received(w), e->stamp};
    r->session = lh_grantor_session_open(
        w->grantor, r->received_at, lh_milliseconds(SESSION_MS), (void *)(uintptr_t)e->holder);
    struct event answer = {.kind = REGISTERED,
        .holder = e->holder,
        .session = wire_session(w, r->session),
        .stamp = e->stamp,
        .session_term = holder_share(w, SESSION_MS),
        .lease_term = holder_share(w, LEASE_MS),
        .incarnation = e->incarnation,
        .number = e->number};
    for (uint64_t key = 0; key < KEYS; key++)
        if (continues(w, key, e, before)) {
            answer.versions[key] = e->versions[key];
            w->result.continued++;
        }
    send(w, answer);
}

static void on_heartbeat(struct world *w, const struct event *e)
{
    struct registration *r = &w->seen[e->holder];
    lh_session_id s = local_session(w, e->session);
    struct lh_instant now = reading(w, &w->clock);
    if (lh_grantor_session_renew(w->grantor, s, received(w), lh_milliseconds(SESSION_MS)) !=
        LH_OK) {
        send(w, (struct event){.kind = UNKNOWN, .holder = e->holder, .session = e->session});
        return;
    }
    /* A repeated or overtaken heartbeat has an older stamp: what counts from it must be no less
     * safe, so stamp and reading stay together. */
    r->received_at = received(w);
    r->stamp = e->stamp;
    struct event answer = {.kind = ANSWER,
        .holder = e->holder,
        .session = e->session,
        .stamp = e->stamp,
        .session_term = holder_share(w, SESSION_MS),
        .lease_term = holder_share(w, LEASE_MS)};
    for (uint64_t key = 0; key < KEYS; key++)
        if (e->versions[key] != 0 && lh_grantor_extend(w->grantor, key, e->versions[key], s, now,
                                         r->received_at, lh_milliseconds(LEASE_MS)) == LH_OK)
            answer.versions[key] = e->versions[key];
    send(w, answer);
}

static void on_release(struct world *w, const struct event *e)
{
    lh_session_id s = local_session(w, e->session);
    if (lh_grantor_release(w->grantor, e->key, e->version, s) != LH_OK)
        return;
    w->result.releases++;
    w->durable[e->key].holder = NOBODY;
    grant_to_any(w, e->key);
}

static void restart_grantor(struct world *w)
{
    lh_grantor_destroy(w->grantor);
    w->grantor = lh_grantor_create(0);
    w->clock = clock_new(w);
    w->wait_end = lh_term_grantor_end(reading(w, &w->clock), lh_milliseconds(SESSION_MS));
    w->master_term++;
    memset(w->seen, 0, sizeof w->seen);
    w->result.restarts++;
}

/* The holders' part. */

static void holder_start(struct world *w, uint32_t i)
{
    struct holder *h = &w->holders[i];
    lh_holder_destroy(h->table);
    h->table = lh_holder_create();
    h->clock = clock_new(w);
    h->incarnation++;
    h->number = 0;
    h->must_register = true;
}

static struct lh_instant counts_from(
    const struct world *w, const struct holder *h, struct lh_instant stamp)
{
    return w->fault == FAULT_COUNT_FROM_RECEIPT ? reading(w, &h->clock) : stamp;
}

static uint64_t named_session(const struct world *w, const struct holder *h, uint64_t session)
{
    return w->fault == FAULT_NO_SESSION_NAMES ? lh_holder_session(h->table) : session;
}

static void speak(struct world *w, uint32_t i)
{
    struct holder *h = &w->holders[i];
    struct event e = {.holder = i,
        .session = lh_holder_session(h->table),
        .stamp = reading(w, &h->clock),
        .incarnation = h->incarnation};
    e.kind = h->must_register ? REGISTER : HEARTBEAT;
    e.number = e.kind == REGISTER ? ++h->number : h->number;
    uint64_t cursor = 0, key, version;
    struct lh_instant end;
    while (lh_holder_next(h->table, &cursor, &key, &version, &end))
        if (i == STAR || e.kind == REGISTER || !one_in(w, 3))
            e.versions[key] = version;
    send(w, e);
}

static void holder_tick(struct world *w, uint32_t i)
{
    uint64_t parts = w->fault == FAULT_RARE_HEARTBEATS ? 1 : 3;
    uint64_t interval = SESSION_MS * MS / parts * 1000000 / w->holders[i].clock.ppm;
    speak(w, i);
    at(w, interval, (struct event){.kind = TICK_HOLDER, .holder = i});
}

static void give_up(struct world *w, uint32_t i, uint64_t key)
{
    struct holder *h = &w->holders[i];
    uint64_t version = lh_holder_version(h->table, key);
    if (version == 0)
        return;
    lh_holder_release(h->table, key, version);
    if (w->fault == FAULT_NO_RELEASE_MARK)
        lh_holder_forget(h->table, key);
    send(w, (struct event){.kind = RELEASE,
                .holder = i,
                .session = lh_holder_session(h->table),
                .key = key,
                .version = version});
}

static void on_registered(struct world *w, const struct event *e)
{
    struct holder *h = &w->holders[e->holder];
    if (e->incarnation != h->incarnation || e->number != h->number ||
        lh_holder_session(h->table) == e->session)
        return;
    struct lh_instant from = counts_from(w, h, e->stamp);
    h->must_register = false;
    lh_holder_session_begin(h->table, e->session, from, e->session_term);
    for (uint64_t key = 0; key < KEYS; key++)
        if (e->versions[key] != 0 && lh_holder_continue(h->table, e->session, key, e->versions[key],
                                         from, e->lease_term) != LH_OK)
            w->result.refused++;
    lh_holder_session_settle(h->table, NULL, NULL);
}

static void on_answer(struct world *w, const struct event *e)
{
    struct holder *h = &w->holders[e->holder];
    struct lh_instant from = counts_from(w, h, e->stamp);
    uint64_t session = named_session(w, h, e->session);
    if (lh_holder_session_renew(h->table, session, from, e->session_term) != LH_OK)
        return;
    for (uint64_t key = 0; key < KEYS; key++)
        if (e->versions[key] != 0 && lh_holder_extend(h->table, session, key, e->versions[key],
                                         from, e->lease_term) != LH_OK)
            w->result.refused++;
}

static void on_grant(struct world *w, const struct event *e)
{
    struct holder *h = &w->holders[e->holder];
    struct lh_instant from = counts_from(w, h, e->stamp);
    uint64_t session = named_session(w, h, e->session);
    if (lh_holder_grant(h->table, session, e->key, e->version, from, e->lease_term) != LH_OK)
        w->result.refused++;
    else if (e->key != STAR_KEY && one_in(w, 4))
        give_up(w, e->holder, e->key);
}

/* What goes wrong. */

static void chaos(struct world *w)
{
    uint32_t i = (uint32_t)below(w, HOLDERS);
    switch (below(w, 6)) {
    case 0:
        restart_grantor(w);
        break;
    case 1:
        if (i != STAR)
            holder_start(w, i);
        break;
    case 2:
        set_rate(w, &w->clock);
        break;
    case 3:
        set_rate(w, &w->holders[i].clock);
        break;
    case 4: /* registers again within its life: by a broken link, or giving its session up */
        w->holders[i].must_register = true;
        if (i != STAR && one_in(w, 2))
            lh_holder_session_end(w->holders[i].table);
        break;
    default:
        give_up(w, i, 1 + below(w, KEYS - 1));
    }
    at(w, below(w, 2000 * MS), (struct event){.kind = TICK_CHAOS});
}

static void happen(struct world *w, const struct event *e)
{
    trace(w, (uint64_t)e->kind << 8 | e->holder, e->version);
    switch (e->kind) {
    case TICK_HOLDER:
        holder_tick(w, e->holder);
        break;
    case TICK_GRANTOR:
        grantor_idea(w);
        break;
    case TICK_CHAOS:
        chaos(w);
        break;
    case REGISTER:
        on_register(w, e);
        break;
    case REGISTERED:
        on_registered(w, e);
        break;
    case HEARTBEAT:
        on_heartbeat(w, e);
        break;
    case ANSWER:
        on_answer(w, e);
        break;
    case UNKNOWN:
        if (e->session == lh_holder_session(w->holders[e->holder].table)) {
            w->holders[e->holder].must_register = true;
            speak(w, e->holder);
        }
        break;
    case GRANT:
        on_grant(w, e);
        break;
    case RECALL:
        if (lh_holder_version(w->holders[e->holder].table, e->key) == e->version)
            give_up(w, e->holder, e->key);
        break;
    case RELEASE:
        on_release(w, e);
        break;
    }
}

struct lease_world_result lease_world_run(
    uint64_t seed, uint32_t drift_ppm, enum lease_world_fault fault)
{
    struct world w = {
        .prng = {seed}, .drift_ppm = drift_ppm, .fault = fault, .now = MS, .master_term = 1};
    w.grantor = lh_grantor_create(0);
    w.clock = clock_new(&w);
    for (uint64_t key = 0; key < KEYS; key++)
        w.durable[key].holder = NOBODY;
    for (uint32_t i = 0; i < HOLDERS; i++) {
        holder_start(&w, i);
        at(&w, below(&w, 100 * MS), (struct event){.kind = TICK_HOLDER, .holder = i});
    }
    at(&w, 0, (struct event){.kind = TICK_GRANTOR});
    at(&w, 0, (struct event){.kind = TICK_CHAOS});

    /* What comes after a violation proves nothing. */
    int timers_in_place = 0;
    while (w.now < RUN_NS && w.result.violation == NULL) {
        struct event e = take_next(&w);
        struct lh_instant deadline = lh_grantor_deadline(w.grantor);
        uint64_t timer = true_time_of(&w, &w.clock, deadline);
        if (timer <= e.at) {
            w.queue[w.queued++] = e;
            timers_in_place = timer == w.now ? timers_in_place + 1 : 0;
            if (timers_in_place > 100)
                violated(&w, "the deadline does not move on");
            w.now = timer;
            grantor_timer(&w);
        } else {
            timers_in_place = 0;
            w.now = e.at;
            happen(&w, &e);
        }
        watch(&w);
        lh_grantor_check(w.grantor);
    }

    for (uint32_t i = 0; i < HOLDERS; i++) {
        lh_holder_check(w.holders[i].table);
        lh_holder_destroy(w.holders[i].table);
    }
    lh_grantor_destroy(w.grantor);
    free(w.queue);
    return w.result;
}
