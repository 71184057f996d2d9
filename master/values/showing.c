/* What a program shows of its cache when it attaches (PS-2): what it may go on serving, and until
 * when. What it does not show it does not serve. */
#include "lease/term.h"
#include "master/values/internal.h"
#include "master/values/lookups.h"

struct showing {
    struct lh_master *m;
    struct lh_m_program *p;
    Leasehold__Shown *shown;
    size_t dropped_capacity;
    struct lh_duration term; /* of all that go on: one for all of them */
    uint32_t *names;         /* numbers of those that were shown, and that the engine has */
    size_t count, capacity;
};

static void say_dropped(struct showing *s, const char *name)
{
    LH_GROW(s->shown->dropped, s->dropped_capacity, s->shown->n_dropped + 1);
    s->shown->dropped[s->shown->n_dropped++] = (char *)(uintptr_t)name;
}

static void drop_later(struct showing *s, const struct lh_m_name *name)
{
    if (s->m->value_state->late_drop_count >= s->m->config.late_drops_max)
        return; /* then its lease ends with its session as it is now */
    struct lh_m_late_drop *d = lh_alloc(sizeof *d);
    s->m->value_state->late_drop_count++;
    d->link = s->p->session.link;
    d->name = name->number;
    STAILQ_INSERT_TAIL(&s->m->value_state->late_drops, d, next);
}

/* The program may serve the value until it hears otherwise, so the lease is there, and ends with
 * the session as it is now; within a reign it is there already, or it was over. */
static bool hold(struct showing *s, struct lh_m_name *name)
{
    struct lh_master *m = s->m;
    struct lh_m_program *p = s->p;
    struct lh_lease_info info;
    uint64_t key = lh_m_cache_key(name);

    if (!lh_untracked_find(&m->leases, &p->session.client, key, &info) &&
        (p->session.client.promised == 0 || !lh_m_cache_grant(m, p, name, p->term)))
        return false;
    return lh_untracked_cut(&m->leases, &p->session.client, key, LH_INSTANT_NEVER) == LH_OK;
}

static bool may_go_on(struct showing *s, struct lh_m_name *name, struct lh_duration *term)
{
    const struct lh_m_policy *policy = lh_m_policy_of(s->m, name->text);

    *term =
        lh_m_is_lookup(name->text) ? lh_m_lookup_term(s->m) : lh_m_value_term(s->m, name, policy);
    return !policy->no_lease && !policy->broadcast && !lh_m_leases_full(s->m) &&
           s->p->caches < s->m->config.program_locks_max;
}

static void note(struct showing *s, const struct lh_m_name *name)
{
    LH_GROW(s->names, s->capacity, s->count + 1);
    s->names[s->count++] = name->number;
}

/* For how long it may serve a value without having heard of the term that it is given now. A new
 * master knows only that it is not longer than the session's; within a reign the engine knows. */
static struct lh_duration served_unheard(const struct showing *s)
{
    return s->p->session.client.promised != 0 && !LH_PLANTED("unheard-cache-lease-not-waited-for")
               ? s->p->term
               : lh_nanoseconds(0);
}

static void show(struct showing *s, const Leasehold__ShownValue *shown)
{
    struct lh_master *m = s->m;
    struct lh_duration term;
    char why[LH_TEXT_BYTES];

    if (lh_m_cached_name_check(s->p, shown->name, why, sizeof why) != LH_OK) {
        say_dropped(s, shown->name);
        return;
    }
    struct lh_m_name *name = lh_m_name_get(m, shown->name);
    const struct lh_m_pending_changes *g = name->more->changing;
    bool changing = g != NULL && (g->phase == LH_M_DROPPING || !TAILQ_EMPTY(&g->changes));
    /* Reads that waited may be answered yet: those that were have leases of the new value. */
    bool commits = g != NULL && g->phase == LH_M_COMMITTED;
    if (shown->revision != lh_m_cached_revision(m, name) || commits) {
        LH_MARK("shown-value-is-old");
        say_dropped(s, shown->name);
    } else if (changing) {
        /* The term of the others is not this one's: its lease is cut. Once the program has heard
         * that it may not serve the value, it is asked to say so. */
        LH_MARK("shown-value-is-changing");
        if (hold(s, name)) {
            note(s, name);
            drop_later(s, name);
        }
        if (!LH_PLANTED("shown-value-served-while-changing"))
            say_dropped(s, shown->name);
    } else if (!may_go_on(s, name, &term)) {
        if (hold(s, name))
            note(s, name);
        say_dropped(s, shown->name);
    } else if (lh_m_cache_grant(m, s->p, name, lh_duration_max(term, served_unheard(s)))) {
        LH_MARK("shown-value-goes-on");
        s->term = lh_duration_min(s->term, term);
        note(s, name);
    } else {
        say_dropped(s, shown->name);
    }
    lh_m_name_settle(m, name);
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

static void free_unshown(struct showing *s)
{
    struct lh_lease_client *client = &s->p->session.client;
    size_t count = 0, capacity = 0;
    struct lh_lease_info info;
    uint32_t *gone = NULL;
    uint64_t cursor = 0;

    if (s->count > 0)
        qsort(s->names, s->count, sizeof *s->names, compare_numbers);
    while (lh_grantor_session_next(s->m->leases.engine, client->session, &cursor, &info)) {
        uint32_t number = (uint32_t)lh_lease_id(info.key);
        if (lh_lease_kind(info.key) != LH_M_LEASE_VALUE ||
            (s->count > 0 &&
                bsearch(&number, s->names, s->count, sizeof number, compare_numbers) != NULL))
            continue;
        LH_GROW(gone, capacity, count + 1);
        gone[count++] = number;
    }
    for (size_t i = 0; i < count; i++) {
        LH_MARK("unshown-cache-lease-freed");
        lh_m_cache_release(s->m, s->p, lh_m_name_by_number(s->m, gone[i]));
    }
    free(gone);
}

static void subscribe(struct showing *s, const char *prefix)
{
    const char *why;

    if (!lh_m_subscribe(s->m, s->p, prefix, &why))
        lh_m_reply_refused(s->m, s->p, 0, prefix, LH_ERR_INVALID_ARGUMENT, why);
}

void lh_m_values_shown(struct lh_master *m, struct lh_m_program *p,
    const Leasehold__Show *const *pieces, size_t count, Leasehold__Shown *shown)
{
    struct showing s = {.m = m, .p = p, .shown = shown, .term = LH_DURATION_FOREVER};

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < pieces[i]->n_values; j++)
            show(&s, pieces[i]->values[j]);
    free_unshown(&s);
    if (s.term.ns != LH_DURATION_FOREVER.ns)
        shown->values_term_ns = lh_term_for_holder(s.term, m->config.drift_ppm).ns;
    lh_m_subscriptions_free(p);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < pieces[i]->n_broadcasts; j++)
            subscribe(&s, pieces[i]->broadcasts[j]);
    free(s.names);
}
