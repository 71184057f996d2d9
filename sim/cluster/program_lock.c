/* A program with locks. It looks at the lock before each act (TIME-5), and names its token to a
 * guard and in changes of values. */
#include "sim/cluster/guard.h"
#include "sim/cluster/holder.h"

#include "base/probe.h"

#include <stdlib.h>
#include <string.h>

/* Of a hundred: what a locker does now and then, each time that it looks. */
#define CLOSES      1 /* it ends its session */
#define ACTS        60
#define ACTS_LATE   10 /* its act is on its way for a while */
#define CHANGES     15
#define NO_WAIT     10 /* of its requests */
#define IMPATIENT   20
#define CANCELS     2  /* it does not wait any more */
#define UNNAMED     5  /* of its changes: without a token */
#define BLIND_HOLDS 10 /* it does not look at its holds before it acts; the guard has to */

/* So many share a name for which no program says it: 0 any number. All programs think the same. */
static uint32_t slots_of(const struct lh_sim_program *p, uint64_t number)
{
    static const uint32_t usual[] = {0, 2, 0, 3};

    return p->spec.slots != 0 ? p->spec.slots : usual[number % 4];
}

static struct hold *hold_of(struct lh_sim_program *p, uint64_t lock)
{
    for (size_t i = 0; i < HOLDS_MAX; i++) {
        struct hold *h = &p->holder->holds[i];
        if (h->phase == HOLD_HELD && h->lock == lock)
            return h;
    }
    return NULL;
}

static bool uses(const struct lh_sim_program *p, const char *name)
{
    for (size_t i = 0; i < HOLDS_MAX; i++)
        if (p->holder->holds[i].phase != HOLD_NONE && strcmp(p->holder->holds[i].name, name) == 0)
            return true;
    return false;
}

static bool is_held(const struct lh_sim_program *p, const struct hold *h)
{
    return lh_client_lock_left(p->holder->session, h->lock, lh_sim_clock(p->node)).ns > 0;
}

/* ---- Acquiring ---- */

static void release(struct lh_sim_program *p, struct hold *h);

static void acquired(struct request *r)
{
    struct lh_sim_program *p = r->program;
    const struct lh_acquire_call *a = &r->u.acquire;

    lh_sim_p_end(r);
    for (size_t i = 0; i < HOLDS_MAX && a->session == p->holder->session; i++) {
        struct hold *h = &p->holder->holds[i];
        if (h->phase != HOLD_ASKED || strcmp(h->name, a->name) != 0)
            continue;
        if (r->error != LH_OK) {
            h->phase = HOLD_NONE;
            break;
        }
        h->phase = HOLD_HELD;
        h->lock = a->lock;
        h->token = a->token;
        h->until = lh_sim_now(p->cluster->sim) +
                   lh_prng_between(&p->random, p->spec.hold.min.ns, p->spec.hold.max.ns);
        break;
    }
    lh_sim_request_done(p->cluster, r);
}

static void acquire(struct lh_sim_program *p, struct hold *h)
{
    uint64_t number = lh_prng_below(&p->random, p->spec.names);
    char name[sizeof h->name];
    bool shared = p->spec.shared || (!p->spec.exclusive && lh_prng_chance(&p->random, 35));

    lh_sim_p_name(p, number, name);
    if (uses(p, name))
        return; /* a session has one lock on a name (NL-1) */
    struct request *r = lh_sim_p_begin(p, LH_CALL_ACQUIRE, acquired);
    *h = (struct hold){.phase = HOLD_ASKED, .shared = shared};
    memcpy(h->name, name, sizeof h->name);
    char *copy = lh_strdup(name);
    r->memory = copy;
    r->u.acquire.session = p->holder->session;
    r->u.acquire.name = copy;
    r->u.acquire.shared = shared;
    r->u.acquire.slots = shared ? slots_of(p, number) : 0;
    r->u.acquire.no_wait = lh_prng_chance(&p->random, NO_WAIT) && p->spec.names > 1;
    r->u.acquire.recallable = p->spec.recall != LH_SIM_RECALL_SILENT;
    r->u.acquire.deadline = lh_instant_add(lh_sim_clock(p->node), p->spec.patience);
    if (p->spec.names > 1 && lh_prng_chance(&p->random, IMPATIENT))
        r->u.acquire.deadline = lh_instant_add(
            lh_sim_clock(p->node), lh_nanoseconds(lh_prng_below(&p->random, 500000000)));
    lh_sim_call(p->node, &r->u);
}

/* Its completion says what became of the request: CANCELLED, or it was granted before. */
static void cancel(struct lh_sim_program *p, const struct hold *h)
{
    struct request *r = lh_sim_p_call(p, LH_CALL_WITHDRAW, lh_sim_p_discard);
    char *copy = lh_strdup(h->name);

    r->memory = copy;
    r->u.withdraw.session = p->holder->session;
    r->u.withdraw.name = copy;
    lh_sim_call(p->node, &r->u);
}

/* ---- Holding ---- */

static void release(struct lh_sim_program *p, struct hold *h)
{
    struct request *r = lh_sim_p_call(p, LH_CALL_RELEASE, lh_sim_p_discard);

    r->u.release.session = p->holder->session;
    r->u.release.lock = h->lock;
    h->phase = HOLD_NONE;
    lh_sim_call(p->node, &r->u);
}

static void yield(struct lh_sim_program *p, struct hold *h, struct lh_duration in)
{
    struct request *r = lh_sim_p_call(p, LH_CALL_YIELD, lh_sim_p_discard);

    r->u.yield.session = p->holder->session;
    r->u.yield.lock = h->lock;
    r->u.yield.in = in;
    h->yielded = h->yielded || in.ns != LH_DURATION_FOREVER.ns;
    lh_sim_call(p->node, &r->u);
}

static void change(struct lh_sim_program *p, const struct hold *h)
{
    struct changing *c = lh_sim_p_change(p, 0, lh_prng_chance(&p->random, 10));

    memcpy(c->name, h->name, sizeof h->name);
    if (!lh_prng_chance(&p->random, UNNAMED))
        c->request.token = h->token;
    else
        c->request.force = lh_prng_chance(&p->random, 50);
    (void)lh_sim_p_ask(p, LH_METHOD_CHANGE, &c->request.base, lh_sim_p_answered);
}

static void use(struct lh_sim_program *p, struct hold *h)
{
    bool held = is_held(p, h);

    if (!held && !lh_prng_chance(&p->random, BLIND_HOLDS)) {
        h->phase = HOLD_NONE; /* an event tells why */
        return;
    }
    if (lh_prng_chance(&p->random, ACTS_LATE))
        lh_sim_guard_act_late(p->cluster, p->node, h->name, h->token,
            lh_nanoseconds(lh_prng_below(&p->random, UINT64_C(3000000000))));
    else if (lh_prng_chance(&p->random, ACTS))
        (void)lh_sim_guard_act(p->cluster, p->node, h->name, h->token, held);
    if (!h->shared && lh_prng_chance(&p->random, CHANGES))
        change(p, h);
    if (lh_sim_now(p->cluster->sim) >= h->until)
        release(p, h);
}

static void recalled(struct lh_sim_program *p, struct hold *h)
{
    enum lh_sim_recall answer = p->spec.recall;

    if (answer == LH_SIM_RECALL_ANY)
        answer = (enum lh_sim_recall)lh_prng_between(&p->random, 1, LH_SIM_RECALLS - 1);
    switch (answer) {
    case LH_SIM_RECALL_RELEASES:
        release(p, h);
        break;
    case LH_SIM_RECALL_YIELDS:
        yield(p, h, lh_nanoseconds(lh_prng_below(&p->random, p->spec.hold.max.ns)));
        break;
    case LH_SIM_RECALL_KEEPS:
        yield(p, h, LH_DURATION_FOREVER);
        break;
    default:
        break;
    }
}

static void event(struct lh_sim_program *p, const struct lh_session_event_call *e)
{
    struct hold *h = e->lock == 0 ? NULL : hold_of(p, e->lock);

    if (e->event == LH_CLIENT_LOST)
        memset(p->holder->holds, 0, sizeof p->holder->holds);
    if (h == NULL)
        return;
    if (e->event == LH_CLIENT_RECALLED)
        recalled(p, h);
    else if (e->event == LH_CLIENT_LOCK_LOST)
        h->phase = HOLD_NONE;
    else if (e->event == LH_CLIENT_CUT && p->spec.recall != LH_SIM_RECALL_SILENT &&
             lh_prng_chance(&p->random, 40))
        release(p, h);
}

/* ---- The program ---- */

static void go_on(struct lh_sim_program *p)
{
    uint64_t window = p->spec.window < HOLDS_MAX ? p->spec.window : HOLDS_MAX;

    if (p->holder == NULL)
        p->holder = lh_alloc(sizeof *p->holder);
    p->holder->event = event;
    if (!lh_sim_p_session(p))
        return;
    if (p->spec.names > 1 && lh_prng_chance(&p->random, CLOSES)) {
        lh_sim_p_session_close(p);
        return;
    }
    for (size_t i = 0; i < window; i++) {
        struct hold *h = &p->holder->holds[i];
        if (h->phase == HOLD_HELD)
            use(p, h);
        else if (h->phase == HOLD_NONE && p->status.begun < p->spec.count)
            acquire(p, h);
        else if (h->phase == HOLD_ASKED && p->spec.names > 1 && lh_prng_chance(&p->random, CANCELS))
            cancel(p, h);
    }
}

/* Holds what it has as long as it meant to, and takes what it still waits for. */
static bool wind_up(struct lh_sim_program *p)
{
    bool any = false;

    if (p->holder == NULL)
        return true;
    for (size_t i = 0; i < HOLDS_MAX && p->holder->session != NULL && !p->holder->lost; i++) {
        struct hold *h = &p->holder->holds[i];
        if (h->phase == HOLD_HELD)
            use(p, h);
        any = any || h->phase != HOLD_NONE;
    }
    return !any && lh_sim_p_session_wind_up(p) && p->status.pending == 0;
}

static void forget(struct lh_sim_program *p)
{
    if (p->holder != NULL)
        lh_sim_p_session_forget(p);
}

const struct program_kind lh_sim_locker = {
    .go_on = go_on, .forget = forget, .wind_up = wind_up, .deinit = lh_sim_p_session_deinit};
