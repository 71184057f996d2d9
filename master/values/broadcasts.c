/* Broadcast prefixes (VAL-5): of who reads names under them nothing is kept but, for each
 * prefix, the end of the last promise.
 *
 * A prefix's revision is that of the last durable change under it, or a higher one: bytes that
 * were read at a revision are current while it is still the prefix's. A master that has just
 * started does not know of deletions that the history has forgotten; for them it takes the
 * revision before the oldest change that it has. */
#include "lease/term.h"
#include "master/values/internal.h"

int lh_m_compare_broadcasts(const struct lh_m_broadcasting *a, const struct lh_m_broadcasting *b)
{
    return strcmp(a->prefix, b->prefix);
}

RB_GENERATE(lh_m_broadcast_tree, lh_m_broadcasting, place, lh_m_compare_broadcasts)

static struct lh_m_broadcasting *find(const struct lh_master *m, const char *prefix)
{
    struct lh_m_broadcasting key = {.prefix = (char *)(uintptr_t)prefix};

    return RB_FIND(lh_m_broadcast_tree,
        (struct lh_m_broadcast_tree *)(uintptr_t)&m->value_state->broadcasts, &key);
}

/* Those that cover a name: the whole name, and its prefixes that end in "/", the longest first. */
struct walk {
    char text[LH_M_NAME_BYTES_MAX + 1];
    size_t size;
};

static bool walk_begin(const struct lh_master *m, struct walk *w, const char *name)
{
    w->size = strlen(name);
    if (RB_EMPTY(&m->value_state->broadcasts) || w->size >= sizeof w->text)
        return false;
    memcpy(w->text, name, w->size + 1);
    return true;
}

static struct lh_m_broadcasting *walk_next(const struct lh_master *m, struct walk *w)
{
    struct lh_m_broadcasting *b = NULL;

    while (b == NULL && w->size > 0) {
        b = find(m, w->text);
        do
            w->size--;
        while (w->size > 0 && w->text[w->size - 1] != '/');
        w->text[w->size] = 0;
    }
    return b;
}

static bool covers(const struct lh_m_broadcasting *b, const char *name)
{
    size_t size = strlen(b->prefix);

    return strncmp(b->prefix, name, size) == 0 && (name[size] == 0 || b->prefix[size - 1] == '/');
}

/* ---- Prefixes. */

static void drop(struct lh_master *m, struct lh_m_broadcasting *b)
{
    RB_REMOVE(lh_m_broadcast_tree, &m->value_state->broadcasts, b);
    lh_timer_unset(&m->timers, &b->timer);
    free(b->prefix);
    free(b);
}

static void promise_over(void *core, struct lh_timer *timer)
{
    struct lh_m_broadcasting *b = LH_OWNER(timer, struct lh_m_broadcasting, timer);

    if (!b->wanted)
        drop(core, b);
}

static struct lh_m_broadcasting *get(struct lh_master *m, const char *prefix)
{
    struct lh_m_broadcasting *b = find(m, prefix);
    const struct lh_m_pending_changes *g;

    if (b != NULL)
        return b;
    b = lh_alloc(sizeof *b);
    b->prefix = lh_strdup(prefix);
    b->timer.fire = promise_over;
    b->revision = m->value_state->durable;
    TAILQ_FOREACH(g, &m->value_state->all, all_link)
        b->changing += covers(b, g->name->text);
    RB_INSERT(lh_m_broadcast_tree, &m->value_state->broadcasts, b);
    return b;
}

void lh_m_broadcast_policy(struct lh_master *m, const char *prefix)
{
    const struct lh_m_policy *policy = lh_m_policy_find(m, prefix);
    struct lh_m_broadcasting *b = find(m, prefix);

    if (policy != NULL && policy->broadcast) {
        get(m, prefix)->wanted = true;
    } else if (b != NULL) { /* what was promised holds */
        b->wanted = false;
        lh_timer_set(&m->timers, &b->timer,
            LH_PLANTED("promise-ends-with-its-policy") ? m->now
                                                       : lh_instant_max(b->promised, m->now));
    }
}

void lh_m_broadcasts_start(struct lh_master *m)
{
    const struct lh_m_value_change *c = lh_m_history_from(m, 0);
    uint64_t forgotten = c == NULL ? m->history.last : c->revision - 1;
    struct lh_m_broadcasting *b;
    struct lh_m_policy *policy;
    struct lh_m_name *n;

    if (LH_PLANTED("forgotten-changes-ignored"))
        forgotten = 0;

    RB_FOREACH(policy, lh_m_policy_tree, &m->policies.tree) {
        if (!policy->broadcast)
            continue;
        b = get(m, policy->prefix);
        b->wanted = true;
        b->revision = forgotten;
    }
    if (RB_EMPTY(&m->value_state->broadcasts))
        return;
    LH_IDMAP_FOREACH(c, &m->history.changes)
        if (!LH_PLANTED("deletions-forgotten-at-start"))
            lh_m_broadcast_changed(m, c->name, c->revision);
    RB_FOREACH(n, lh_m_name_tree, &m->names.tree) {
        lh_m_broadcast_changed(m, n->text, lh_m_revision_of(n));
    }
}

void lh_m_broadcasts_deinit(struct lh_master *m)
{
    struct lh_m_broadcasting *b;

    while ((b = RB_ROOT(&m->value_state->broadcasts)) != NULL)
        drop(m, b);
    free(m->value_state->states.items);
    free(m->value_state->states.pointers);
}

/* ---- Changes. */

void lh_m_broadcast_pending(struct lh_master *m, const char *name, int by)
{
    struct lh_m_broadcasting *b;
    struct walk w;

    if (walk_begin(m, &w, name))
        while ((b = walk_next(m, &w)) != NULL)
            b->changing += (size_t)by;
}

struct lh_instant lh_m_broadcast_promised(struct lh_master *m, const char *name)
{
    struct lh_instant until = {0};
    struct lh_m_broadcasting *b;
    struct walk w;

    if (walk_begin(m, &w, name))
        while ((b = walk_next(m, &w)) != NULL)
            until = lh_instant_max(until, b->promised);
    return until;
}

void lh_m_broadcast_changed(struct lh_master *m, const char *name, uint64_t revision)
{
    struct lh_m_broadcasting *b;
    struct walk w;

    if (walk_begin(m, &w, name))
        while ((b = walk_next(m, &w)) != NULL)
            if (b->revision < revision)
                b->revision = revision;
}

const char *lh_m_broadcast_of(const struct lh_master *m, const char *name, uint64_t *revision)
{
    const struct lh_m_broadcasting *b = NULL;
    struct walk w;

    if (walk_begin(m, &w, name))
        while ((b = walk_next(m, &w)) != NULL && !b->wanted)
            ;
    *revision = b == NULL ? 0 : b->revision;
    return b == NULL ? "" : b->prefix;
}

/* ---- Programs. */

static size_t subscribed(const struct lh_m_subscriptions *s, const char *prefix)
{
    size_t i = 0;

    while (s != NULL && i < s->count && strcmp(s->prefixes[i], prefix) != 0)
        i++;
    return i;
}

static void subscribe(struct lh_m_program *p, const char *prefix)
{
    if (p->subscriptions == NULL)
        p->subscriptions = lh_alloc(sizeof *p->subscriptions);
    struct lh_m_subscriptions *s = p->subscriptions;
    LH_GROW(s->prefixes, s->capacity, s->count + 1);
    s->prefixes[s->count++] = lh_strdup(prefix);
}

static void unsubscribe(struct lh_m_program *p, size_t i)
{
    struct lh_m_subscriptions *s = p->subscriptions;

    free(s->prefixes[i]);
    memmove(&s->prefixes[i], &s->prefixes[i + 1], (s->count - i - 1) * sizeof *s->prefixes);
    s->count--;
}

void lh_m_subscriptions_free(struct lh_m_program *p)
{
    struct lh_m_subscriptions *s = p->subscriptions;

    if (s == NULL)
        return;
    while (s->count > 0)
        unsubscribe(p, s->count - 1);
    free(s->prefixes);
    free(s);
    p->subscriptions = NULL;
}

bool lh_m_subscribe(
    struct lh_master *m, struct lh_m_program *p, const char *prefix, const char **why)
{
    const struct lh_m_broadcasting *b = find(m, prefix);

    if (b == NULL || !b->wanted) {
        *why = "no policy says that this prefix is broadcast";
        return false;
    }
    if (subscribed(p->subscriptions, prefix) <
        (p->subscriptions == NULL ? 0 : p->subscriptions->count))
        return true;
    if (p->subscriptions != NULL && p->subscriptions->count >= m->config.broadcasts_max) {
        *why = "the session has subscribed to as many prefixes as it may";
        return false;
    }
    subscribe(p, prefix);
    return true;
}

void lh_m_broadcast(struct lh_master *m, struct lh_m_program *p, const Leasehold__Broadcast *asked)
{
    const char *why = NULL;

    if (asked->end) {
        size_t i = subscribed(p->subscriptions, asked->prefix);
        if (p->subscriptions != NULL && i < p->subscriptions->count)
            unsubscribe(p, i);
        return;
    }
    if (!lh_m_subscribe(m, p, asked->prefix, &why))
        lh_m_reply_refused(m, p, asked->id, asked->prefix, LH_ERR_INVALID_ARGUMENT, why);
}

/* While a change waits for the last promise, others may have what is left of it: of a term that
 * begins now, for the grantor. */
static struct lh_duration left_of(
    const struct lh_master *m, const struct lh_m_broadcasting *b, struct lh_duration term)
{
    struct lh_instant least = lh_term_grantor_end(m->now, lh_nanoseconds(0));

    if (LH_PLANTED("promise-outlives-last-broadcast"))
        return term;
    if (!lh_instant_before(least, b->promised))
        return lh_nanoseconds(0);
    LH_MARK("rest-of-a-broadcast-promised");
    return lh_duration_min(term, lh_instant_until(least, b->promised));
}

size_t lh_m_broadcasts(
    struct lh_master *m, struct lh_m_program *p, Leasehold__BroadcastState ***states)
{
    const struct lh_m_subscriptions *s = p->subscriptions;
    size_t count = s == NULL ? 0 : s->count, capacity = m->value_state->states.capacity;

    LH_GROW(m->value_state->states.items, capacity, count);
    LH_GROW(m->value_state->states.pointers, m->value_state->states.capacity, count);
    for (size_t i = 0; i < count; i++) {
        Leasehold__BroadcastState *state = &m->value_state->states.items[i];
        struct lh_m_broadcasting *b = find(m, s->prefixes[i]);
        leasehold__broadcast_state__init(state);
        m->value_state->states.pointers[i] = state;
        state->prefix = s->prefixes[i];
        if (b == NULL || !b->wanted)
            continue;
        state->revision = b->revision;
        state->promised = b->changing == 0 || LH_PLANTED("broadcast-promise-stretched");
        if (state->promised && b->changing == 0)
            b->promised =
                lh_instant_max(b->promised, lh_term_grantor_end(m->now, p->session.client.term));
        if (!state->promised)
            state->promised_ns =
                lh_term_for_holder(left_of(m, b, p->session.client.term), m->config.drift_ppm).ns;
    }
    *states = m->value_state->states.pointers;
    return count;
}
