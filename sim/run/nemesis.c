/* When a nemesis acts; what it then does is in fault.c. */
#include "sim/run/nemesis.h"

#include "base/alloc.h"
#include "sim/cluster/stranger.h"
#include "sim/run/fault.h"
#include "sim/world/watch.h"

#include <stdlib.h>
#include <string.h>

static bool anything_pending(const struct lh_sim_nemesis *n)
{
    for (const struct lh_sim_program *p = lh_sim_program_next(n->cluster, NULL); p != NULL;
         p = lh_sim_program_next(n->cluster, p))
        if (lh_sim_program_status(p).pending > 0)
            return true;
    return false;
}

static enum lh_sim_fault choose(struct lh_sim_nemesis *n)
{
    uint64_t sum = 0;

    for (int i = 0; i < LH_SIM_FAULT_COUNT; i++)
        sum += n->mix.weights[i];
    uint64_t at = below(n, sum);
    int i = 0;
    while (at >= n->mix.weights[i])
        at -= n->mix.weights[i++];
    return (enum lh_sim_fault)i;
}

static void tick(void *arg)
{
    struct lh_sim_nemesis *n = arg;

    if (n->resting)
        return;
    if (lh_sim_now(n->sim) >= n->quiet_until && (anything_pending(n) || chance(n, 25))) {
        if (chance(n, n->mix.mend_percent))
            lh_sim_mend_some(n);
        else
            lh_sim_inject(n, choose(n));
        if (chance(n, n->mix.quiet_percent))
            n->quiet_until = lh_sim_now(n->sim) + drawn(n, &n->mix.quiet).ns;
    }
    lh_sim_at(n->sim, drawn(n, &n->mix.pace), tick, n);
}

/* What a single process or link can suffer at a given moment. */
static void hit_target(void *arg)
{
    static const enum lh_sim_fault sudden[] = {LH_SIM_FAULT_CRASH, LH_SIM_FAULT_RESTART,
        LH_SIM_FAULT_POWER, LH_SIM_FAULT_PAUSE, LH_SIM_FAULT_ISOLATE, LH_SIM_FAULT_BREAK,
        LH_SIM_FAULT_STALL, LH_SIM_FAULT_IO_ERROR, LH_SIM_FAULT_SHUT_DOWN, LH_SIM_FAULT_LOSE_DISK};
    struct lh_sim_nemesis *n = arg;
    enum lh_sim_fault what = sudden[below(n, sizeof sudden / sizeof sudden[0])];

    if (!n->resting && n->mix.weights[what] > 0)
        lh_sim_inject_at_target(n, what);
    n->target = NULL;
}

/* The moments at which a promise is being made. */
static bool is_critical(const struct lh_sim_sight *s)
{
    const struct lh_effect *e = s->effect;

    switch (e->kind) {
    case LH_FX_PERSIST:
        return true;
    case LH_FX_DISK:
        return e->op != LH_DISK_WRITE && e->op != LH_DISK_READ;
    case LH_FX_SEND:
        return s->method == LH_METHOD_SESSION || s->method == LH_METHOD_SETTLE ||
               s->method == LH_METHOD_ETCD_TXN || s->method == LH_METHOD_LEASE_SESSION ||
               (s->method == LH_METHOD_REPLICATE && s->payload->size == 0);
    default:
        return false;
    }
}

/* ---- Starts ---- */

static void go_down(void *arg)
{
    struct lh_sim_nemesis *n = arg;
    struct lh_sim_who who = lh_sim_who_is(n, n->starting);
    bool by_power = n->power_left > 0;

    n->starting = NULL;
    if (n->resting)
        return;
    lh_sim_act_on(
        n, by_power ? LH_SIM_ACT_POWER_LOSS : LH_SIM_ACT_CRASH, who, 1 + a_while(n).ns / 4);
    if (by_power && n->power_left != UINT32_MAX)
        n->power_left--;
}

/* What a process finds at its start and does about it is done in few steps, and seldom: which of
 * them is its last one is chosen. */
static void note_start(void *arg, struct lh_sim_node *node, enum lh_sim_life what)
{
    struct lh_sim_nemesis *n = arg;

    if (n->resting || what != LH_SIM_LIFE_STARTED || n->starting != NULL)
        return;
    struct lh_sim_who who = lh_sim_who_is(n, node);
    if (who.kind != LH_SIM_WHO_SERVER)
        return;
    uint64_t bit = UINT64_C(1) << who.number;
    bool rotten = (n->rotten_ends & bit) != 0;
    n->rotten_ends &= ~bit;
    if (!rotten && !chance(n, n->mix.starts_percent))
        return;
    n->starting = node;
    /* What is rotten is marked, cut and synced, in an order that matters. */
    n->changes_left = rotten ? 2 + (uint32_t)below(n, 2) : 1 + (uint32_t)below(n, 12);
}

static void note_change(struct lh_sim_nemesis *n, const struct lh_sim_sight *s)
{
    const struct lh_effect *e = s->effect;

    if (s->node != n->starting || n->changes_left == 0 || e->kind != LH_FX_DISK ||
        e->op == LH_DISK_READ || --n->changes_left > 0)
        return;
    lh_sim_at(n->sim, lh_nanoseconds(spread(n, 1000, 4000000)), go_down, n);
}

/* What the master says to a program concerns both: that one acts by it now. */
static struct lh_sim_node *concerned(struct lh_sim_nemesis *n, const struct lh_sim_sight *s)
{
    bool to_program = s->effect->kind == LH_FX_SEND && s->method == LH_METHOD_LEASE_SESSION &&
                      s->direction == LH_REPLY && s->peer != NULL && !lh_sim_is_stranger(s->peer);

    return to_program && chance(n, 60) ? lh_sim_find(n->sim, lh_sim_name(s->peer)) : s->node;
}

static void provoke(void *arg, const struct lh_sim_sight *s)
{
    struct lh_sim_nemesis *n = arg;

    note_change(n, s);
    if (n->resting || n->target != NULL || lh_sim_now(n->sim) < n->quiet_until || !is_critical(s) ||
        below(n, 1000) >= n->mix.targeted_permille)
        return;
    n->target = concerned(n, s);
    lh_sim_at(n->sim, lh_nanoseconds(spread(n, 1000, 4000000)), hit_target, n);
}

/* One that the network's delays leave time to renew. */
static struct lh_duration shortest_term(const struct lh_sim_settings *settings)
{
    uint64_t shortest = settings->delay.max.ns * 12;

    if (shortest < LH_SESSION_TERM_MIN_NS)
        shortest = LH_SESSION_TERM_MIN_NS;
    return lh_nanoseconds(
        shortest < settings->session_term.ns ? shortest : settings->session_term.ns);
}

/* One that a run can wait for. */
#define SHORT_GRACE lh_seconds(20)

/* Most kinds do not happen in most runs: what is left meets more often (swarm testing, Groce and
 * others, 2012). */
void lh_sim_fault_mix_draw(
    struct lh_sim_fault_mix *t, const struct lh_sim_settings *settings, struct lh_prng *random)
{
    struct lh_sim_nemesis n = {.random = *random};
    uint64_t fastest = spread(&n, 1000000, 400000000);
    bool synced = true;

    *t = (struct lh_sim_fault_mix){
        .pace = {lh_nanoseconds(fastest), lh_nanoseconds(fastest << (1 + below(&n, 6)))},
        .quiet = {settings->session_term, lh_nanoseconds(settings->session_term.ns * 3)},
        .quiet_percent = (uint32_t)below(&n, 12),
        .mend_percent = 5 + (uint32_t)below(&n, 40),
        .targeted_permille = chance(&n, 50) ? 0 : 1 + (uint32_t)below(&n, 30),
        .starts_percent = chance(&n, 50) ? 0 : 5 + (uint32_t)below(&n, 60),
        .drift_ppm = (int32_t)settings->drift_ppm,
        .term = settings->session_term,
        .term_min = shortest_term(settings),
    };
    for (int i = 0; i < LH_SIM_FAULTS_EVERYWHERE; i++)
        if (chance(&n, 40))
            t->weights[i] = 1 + (uint32_t)below(&n, 10);
    t->weights[below(&n, LH_SIM_FAULTS_EVERYWHERE)] = 5;
    for (uint32_t i = 0; i < settings->file_count; i++)
        synced = synced && settings->files[i].synced;
    /* In a `buffered` file a second machine may take with it what a first one had lost (REC-2a);
     * with two members left one that is spoilt leaves the file without appends for good. */
    bool spoils = settings->replication >= 3 && chance(&n, 30);
    t->damage_servers = spoils ? 1 : 0;
    t->power_losses = synced ? UINT32_MAX : spoils ? 0 : 1;
    if (!spoils)
        t->weights[LH_SIM_FAULT_IO_ERROR] = t->weights[LH_SIM_FAULT_ROT] =
            t->weights[LH_SIM_FAULT_LOSE_DISK] = t->weights[LH_SIM_FAULT_ROTTEN_END] =
                t->weights[LH_SIM_FAULT_SHUT_DOWN] = 0;
    /* A file goes on without a full set, but not without the least. */
    t->scraps =
        spoils && settings->servers > settings->replication && settings->grace.ns <= SHORT_GRACE.ns;
    t->drains = settings->servers > settings->min_replicas + 1 + (t->scraps ? 1 : 0) ? 1 : 0;
    *random = n.random;
}

void lh_sim_fault_mix_draw_masters(
    struct lh_sim_fault_mix *t, const struct lh_sim_settings *settings, struct lh_prng *random)
{
    struct lh_sim_nemesis n = {.random = *random};
    uint64_t shortest = 4 * settings->reign_term.ns;

    t->reign = settings->reign_term;
    for (int i = LH_SIM_FAULTS_BUT_MASTERS; i < LH_SIM_FAULTS_BUT_LEASES; i++)
        if (chance(&n, 40))
            t->weights[i] = 1 + (uint32_t)below(&n, 10);
    t->weights[LH_SIM_FAULTS_BUT_MASTERS +
               below(&n, LH_SIM_FAULTS_BUT_LEASES - LH_SIM_FAULTS_BUT_MASTERS)] = 5;
    /* Half of the runs are about nothing else, for there masters and etcd meet most. */
    if (chance(&n, 50))
        for (int i = 0; i < LH_SIM_FAULTS_EVERYWHERE; i++)
            t->weights[i] = chance(&n, 10) ? 1 : 0;
    t->weights[LH_SIM_FAULT_STORE] = 0; /* there is none at a master */
    if (t->term_min.ns < shortest)
        t->term_min.ns = shortest;
    *random = n.random;
}

void lh_sim_fault_mix_draw_leases(
    struct lh_sim_fault_mix *t, const struct lh_sim_settings *settings, struct lh_prng *random)
{
    struct lh_sim_nemesis n = {.random = *random};
    uint32_t most = LH_SIM_FAULT_COUNT - LH_SIM_FAULTS_BUT_LEASES;

    t->lease = settings->session_term;
    /* Half of the runs are about little else; a few are about nothing. */
    if (chance(&n, 50))
        for (int i = 0; i < LH_SIM_FAULTS_BUT_LEASES; i++)
            t->weights[i] = chance(&n, 10) ? t->weights[i] : 0;
    for (int i = LH_SIM_FAULTS_BUT_LEASES; i < LH_SIM_FAULT_COUNT; i++)
        if (chance(&n, 40))
            t->weights[i] = 1 + (uint32_t)below(&n, 10);
    t->weights[LH_SIM_FAULTS_BUT_LEASES + (int)below(&n, most)] = 5;
    if (chance(&n, 60)) /* most rules are about this */
        t->weights[LH_SIM_FAULT_LEASE_RESTART] += 4;
    if (chance(&n, 10))
        memset(t->weights, 0, sizeof t->weights);
    *random = n.random;
}

struct lh_sim_nemesis *lh_sim_nemesis_start(struct lh_sim_cluster *c, struct lh_sim_actor *actor,
    const struct lh_sim_fault_mix *mix, uint64_t seed,
    void (*did)(void *arg, const struct lh_sim_action *action), void *arg)
{
    struct lh_sim_nemesis *n = lh_alloc(sizeof *n);
    bool any = false;

    *n = (struct lh_sim_nemesis){
        .cluster = c,
        .actor = actor,
        .sim = lh_sim_world(c),
        .mix = *mix,
        .random = {lh_mix64(seed)},
        .did = did,
        .arg = arg,
        .masters = lh_sim_masters(c),
        .etcd = lh_sim_shared_etcd(c) == NULL ? 0 : lh_sim_etcd_members(lh_sim_shared_etcd(c)),
        .servers = lh_sim_servers(c),
        .clients = lh_sim_clients(c),
        .power_left = mix->power_losses,
    };
    for (int i = 0; i < LH_SIM_FAULT_COUNT; i++)
        any = any || mix->weights[i] > 0;
    n->resting = !any || mix->pace.max.ns == 0;
    if (n->resting)
        return n;
    lh_sim_watch(n->sim, &(struct lh_sim_watcher){.arg = n, .does = provoke, .lives = note_start});
    lh_sim_at(n->sim, drawn(n, &mix->pace), tick, n);
    return n;
}

void lh_sim_nemesis_rest(struct lh_sim_nemesis *n)
{
    n->resting = true;
}

void lh_sim_nemesis_destroy(struct lh_sim_nemesis *n)
{
    while (n->follow_ups != NULL) {
        struct follow_up *next = n->follow_ups->next;
        free(n->follow_ups);
        n->follow_ups = next;
    }
    free(n);
}
