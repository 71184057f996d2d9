/* The replicated state, who has applied how much of it, and when the cluster has something to do.
 * It wakes by scripts of the world, each of which looks at everything: there is little of it, and
 * what is due once may have been overtaken by a fault since. */
#include "sim/etcd/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "sim/world/network.h"

#include <stdio.h>
#include <stdlib.h>

#define MILLION 1000000u

struct lh_sim_etcd_config lh_sim_etcd_config_default(void)
{
    return (struct lh_sim_etcd_config){
        .name = "etcd",
        .members = 3,
        .propose = {lh_milliseconds(1), lh_milliseconds(3)},
        .read = {lh_nanoseconds(200000), lh_milliseconds(1)},
        .apply = {lh_nanoseconds(0), lh_milliseconds(1)},
        .watch = {lh_nanoseconds(0), lh_milliseconds(1)},
        .timeout = {lh_seconds(7), lh_seconds(7)},
        .retry = {lh_milliseconds(5), lh_milliseconds(50)},
        .kept_per_million = 500000,
        .alone_per_million = 200000,
        .fragment_events = 1000,
        .ops_max = 128,
        .request_bytes_max = 3u << 19,
        .quota_bytes = UINT64_C(2) << 30,
    };
}

struct lh_prng *lh_etcd_random(const struct lh_sim_etcd *e)
{
    return lh_sim_stream(e->sim, LH_SIM_ETCD);
}

uint64_t lh_etcd_draw(const struct lh_sim_etcd *e, const struct lh_sim_range *range)
{
    return lh_prng_between(lh_etcd_random(e), range->min.ns, range->max.ns);
}

bool lh_etcd_chance(const struct lh_sim_etcd *e, uint32_t per_million)
{
    return per_million > 0 && lh_prng_below(lh_etcd_random(e), MILLION) < per_million;
}

/* ---- Life ---- */

static void note_state(struct lh_sim_etcd *e)
{
    LH_GROW(e->log, e->log_capacity, e->log_count + 1);
    e->log[e->log_count++] = (struct entry){e->store.revision, e->store.compacted};
}

struct lh_sim_etcd *lh_sim_etcd_create(struct lh_sim *sim, const struct lh_sim_etcd_config *config)
{
    struct lh_sim_etcd *e = lh_alloc(sizeof *e);

    LH_ASSERT(config->members > 0 && config->members <= LH_SIM_ETCD_MEMBERS_MAX);
    LH_ASSERT(config->fragment_events > 0 && config->retry.min.ns > 0);
    e->sim = sim;
    e->config = *config;
    e->name = lh_strdup(config->name);
    e->config.name = e->name;
    e->wake_at = UINT64_MAX;
    e->forgotten = -1;
    lh_etcd_store_init(&e->store);
    note_state(e);
    for (size_t i = 0; i < config->members; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%zu", config->name, i + 1);
        struct member *m = &e->members[i];
        *m = (struct member){.etcd = e, .index = i, .apply_at = UINT64_MAX};
        m->node = lh_sim_add(sim, name, &lh_etcd_role, m);
    }
    return e;
}

void lh_sim_etcd_destroy(struct lh_sim_etcd *e)
{
    lh_etcd_requests_deinit(e);
    lh_etcd_store_deinit(&e->store);
    if (e->has_kept)
        lh_etcd_store_deinit(&e->kept);
    for (size_t i = 0; i < e->meddled_count; i++)
        lh_etcd_record_unref(e->meddled[i].was);
    free(e->meddled);
    free(e->log);
    free(e->observers);
    free(e->name);
    free(e);
}

void lh_sim_etcd_start(struct lh_sim_etcd *e)
{
    for (size_t i = 0; i < e->config.members; i++)
        lh_sim_start(e->members[i].node);
}

size_t lh_sim_etcd_members(const struct lh_sim_etcd *e)
{
    return e->config.members;
}

struct lh_sim_node *lh_sim_etcd_member(const struct lh_sim_etcd *e, size_t index)
{
    LH_ASSERT(index < e->config.members);
    return e->members[index].node;
}

/* ---- Majorities ---- */

static bool runs(const struct member *m)
{
    return lh_sim_is_up(m->node) && !lh_sim_is_paused(m->node);
}

static bool reach_each_other(const struct member *a, const struct member *b)
{
    return a == b || (!lh_sim_is_cut(a->node, b->node) && !lh_sim_is_cut(b->node, a->node));
}

bool lh_etcd_has_majority(const struct member *m)
{
    const struct lh_sim_etcd *e = m->etcd;
    size_t with = 0;

    if (e->quorum_lost || !runs(m))
        return false;
    for (size_t i = 0; i < e->config.members; i++)
        with += runs(&e->members[i]) && reach_each_other(m, &e->members[i]);
    return with > e->config.members / 2;
}

struct member *lh_etcd_leader(struct lh_sim_etcd *e)
{
    for (size_t i = 0; i < e->config.members; i++)
        if (lh_etcd_has_majority(&e->members[i]))
            return &e->members[i];
    return NULL;
}

/* ---- Views ---- */

#define CLUSTER_ID UINT64_C(0x6c6173652d686f6c)
#define MEMBER_ID  UINT64_C(0x1000)
#define FIRST_TERM 2u

static struct lh_etcd_view named_by(const struct member *m, const struct entry *state)
{
    return (struct lh_etcd_view){.cluster_id = CLUSTER_ID,
        .member_id = MEMBER_ID + m->index,
        .term = FIRST_TERM + m->etcd->restores,
        .revision = state->revision,
        .compacted = state->compacted,
        .damage = m->damage};
}

struct lh_etcd_view lh_etcd_view(const struct member *m)
{
    return named_by(m, &m->etcd->log[m->applied]);
}

struct lh_etcd_view lh_etcd_newest(const struct member *m)
{
    return named_by(m, &m->etcd->log[m->etcd->log_count - 1]);
}

/* ---- Applying ---- */

static void forget(struct lh_sim_etcd *e)
{
    /* What a member has not applied yet is sent by its watches later. */
    for (size_t i = 0; i < e->config.members; i++)
        if (e->log[e->members[i].applied].compacted < e->store.compacted)
            return;
    if (e->forgotten < e->store.compacted) {
        e->forgotten = e->store.compacted;
        lh_etcd_store_forget(&e->store, e->forgotten);
    }
}

static void apply_more(struct member *m)
{
    struct lh_sim_etcd *e = m->etcd;

    if (m->apply_at != UINT64_MAX || m->applied + 1 >= e->log_count)
        return;
    m->apply_to = e->log_count - 1;
    m->apply_at = lh_sim_now(e->sim) + lh_etcd_draw(e, &e->config.apply) + m->extra;
}

static void apply(struct member *m)
{
    m->applied = m->apply_to;
    m->apply_at = UINT64_MAX;
    for (struct stream *s = m->streams; s != NULL; s = s->next)
        lh_etcd_stream_news(m, s);
    forget(m->etcd);
    apply_more(m);
}

/* Once it takes part, a started member first catches up with what it finds committed. */
static void begin_to_serve(struct member *m)
{
    if (!m->has_goal) {
        m->has_goal = true;
        m->goal = m->etcd->log_count - 1;
    }
    m->serves = m->applied >= m->goal;
}

/* True: it waits for a majority. */
static bool look_at_member(struct member *m, uint64_t *next)
{
    struct lh_sim_etcd *e = m->etcd;
    uint64_t now = lh_sim_now(e->sim);

    if (!lh_sim_is_up(m->node))
        return false;
    bool waits = !m->serves || m->apply_at <= now;
    if (waits && lh_etcd_has_majority(m)) {
        waits = false;
        apply_more(m);
        if (m->apply_at <= now)
            apply(m);
        if (!m->serves)
            begin_to_serve(m);
    }
    if (!waits && m->apply_at < *next)
        *next = m->apply_at;
    for (struct stream *s = m->streams; s != NULL; s = s->next) {
        if (s->due_at <= now || s->broken)
            lh_etcd_poke(m);
        else if (s->due_at < *next)
            *next = s->due_at;
    }
    return waits;
}

static void look(struct lh_sim_etcd *e)
{
    uint64_t next = UINT64_MAX;
    bool waits = lh_etcd_requests_look(e, &next);

    for (size_t i = 0; i < e->config.members; i++)
        waits = look_at_member(&e->members[i], &next) || waits;
    /* What they have applied may be what a request waits for. */
    waits = lh_etcd_requests_look(e, &next) || waits;
    if (waits) {
        uint64_t again = lh_sim_now(e->sim) + lh_etcd_draw(e, &e->config.retry);
        next = next < again ? next : again;
    }
    if (next != UINT64_MAX)
        lh_etcd_wake(e, next);
}

static void on_wake(void *arg)
{
    struct lh_sim_etcd *e = arg;

    if (e->wake_at != lh_sim_now(e->sim))
        return; /* an earlier one has taken its place */
    e->wake_at = UINT64_MAX;
    look(e);
}

void lh_etcd_wake(struct lh_sim_etcd *e, uint64_t at)
{
    uint64_t now = lh_sim_now(e->sim);

    if (at < now)
        at = now;
    if (at >= e->wake_at)
        return;
    e->wake_at = at;
    lh_sim_at(e->sim, lh_nanoseconds(at - now), on_wake, e);
}

void lh_etcd_log(struct lh_sim_etcd *e)
{
    note_state(e);
    for (size_t i = 0; i < e->config.members; i++)
        apply_more(&e->members[i]);
    lh_etcd_wake(e, lh_sim_now(e->sim));
}

const struct lh_etcd_refusal *lh_etcd_do_compact(struct lh_sim_etcd *e, int64_t revision)
{
    if (revision <= e->store.compacted)
        return &lh_etcd_compacted_refusal;
    if (revision > e->store.revision)
        return &lh_etcd_future_refusal;
    e->store.compacted = revision;
    lh_etcd_log(e);
    return NULL;
}

/* ---- The truth ---- */

int64_t lh_sim_etcd_revision(const struct lh_sim_etcd *e)
{
    return e->store.revision;
}

int64_t lh_sim_etcd_compacted(const struct lh_sim_etcd *e)
{
    return e->store.compacted;
}

int64_t lh_sim_etcd_member_revision(const struct lh_sim_etcd *e, size_t index)
{
    LH_ASSERT(index < e->config.members);
    return e->log[e->members[index].applied].revision;
}

const struct lh_sim_etcd_record *lh_sim_etcd_get(
    const struct lh_sim_etcd *e, const void *key, size_t key_size)
{
    struct lh_etcd_range r = {.key = key, .key_size = key_size};
    size_t i = lh_etcd_store_first(&e->store, &r);

    if (i == e->store.count)
        return NULL;
    const struct lh_sim_etcd_record *any = &e->store.lines[i]->records[0]->seen;
    return lh_etcd_in_range(&r, any->key, any->key_size)
               ? lh_etcd_line_at(e->store.lines[i], e->store.revision)
               : NULL;
}

void lh_sim_etcd_each(const struct lh_sim_etcd *e, const void *prefix, size_t prefix_size,
    void (*visit)(void *arg, const struct lh_sim_etcd_record *record), void *arg)
{
    struct lh_etcd_range r = {.key = prefix, .key_size = prefix_size};

    for (size_t i = lh_etcd_store_first(&e->store, &r); i < e->store.count; i++) {
        const struct lh_etcd_line *l = e->store.lines[i];
        const struct lh_sim_etcd_record *any = &l->records[0]->seen;
        struct lh_etcd_range begins = {.key = any->key, .key_size = prefix_size};
        if (any->key_size < prefix_size || !lh_etcd_in_range(&begins, prefix, prefix_size))
            break;
        const struct lh_sim_etcd_record *now = lh_etcd_line_at(l, e->store.revision);
        if (now != NULL)
            visit(arg, now);
    }
}

void lh_sim_etcd_observe(struct lh_sim_etcd *e, const struct lh_sim_etcd_observer *observer)
{
    e->observers = lh_realloc_array(e->observers, e->observer_count + 1, sizeof *e->observers);
    e->observers[e->observer_count++] = *observer;
}
