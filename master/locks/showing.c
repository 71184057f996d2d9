/* What a program shows of its locks and requests when it attaches (PS-2). */
#include "lease/term.h"
#include "master/locks/internal.h"
#include "master/tables/answers.h"

#define REIGN_SHIFT 40

struct showing {
    struct lh_master *m;
    struct lh_m_program *p;
    Leasehold__Shown *shown;
    size_t lost_capacity, cut_capacity;
    bool first;      /* of this master's reign: what is shown goes on, and nothing is known yet */
    uint32_t *names; /* of locks that go on */
    size_t count, capacity;
};

static void say_lost(struct showing *s, char *name)
{
    LH_MARK("shown-lock-lost");
    LH_GROW(s->shown->lost, s->lost_capacity, s->shown->n_lost + 1);
    s->shown->lost[s->shown->n_lost++] = name;
}

static void say_cut(struct showing *s, char *name)
{
    LH_GROW(s->shown->cut, s->cut_capacity, s->shown->n_cut + 1);
    s->shown->cut[s->shown->n_cut++] = name;
}

/* ---- Locks. */

static bool overthrow(struct lh_master *m, struct lh_m_name *n, struct lh_m_program *p, void *arg)
{
    struct lh_lease_info info;

    (void)arg;
    if (!lh_untracked_find(&m->leases, &p->session.client, lh_m_lock_key(n), &info))
        return true;
    int error = lh_untracked_release(&m->leases, &p->session.client, info.key, info.version);
    LH_ASSERT(error == LH_OK);
    lh_m_notify_demand(
        m, p, n, info.version, true, 0, "another session has a later lock on the name");
    lh_m_note_lock(m, n, p, LEASEHOLD__LEASE_EVENT_KIND__LEASE_ENDED, info.version,
        "another session has a later lock on the name");
    lh_m_lock_gone(m, n, p, LEASEHOLD__LOCK_EVENT_KIND__LOCK_ENDED, info.version);
    return true;
}

/* Two sessions show what conflicts: some clock is out of bounds. The higher token stands. */
static bool stands(struct lh_master *m, struct lh_m_name *n, const Leasehold__ShownLock *lock)
{
    struct lh_lease_info info;
    bool shared = lock->mode == LEASEHOLD__LOCK_MODE__SHARED;

    if (!lh_untracked_held(&m->leases, lh_m_lock_key(n), &info) ||
        (shared && info.mode == LH_LEASE_SHARED && info.version == lock->token))
        return true;
    LH_MARK("shown-locks-conflict");
    lh_fx_log(m->fx, LH_ERROR,
        "two sessions show locks on %s that conflict; the later one stands: check the clocks of "
        "the "
        "programs' machines",
        n->text);
    if (lock->token <= info.version)
        return false;
    lh_m_each_holder(m, n, overthrow, NULL);
    return true;
}

/* The first showing in this reign: what was granted before goes on. */
static bool take_over(struct showing *s, struct lh_m_name *n, const Leasehold__ShownLock *lock)
{
    bool shared = lock->mode == LEASEHOLD__LOCK_MODE__SHARED;
    struct lh_m_lock_request *c = NULL;

    if (lock->token == 0 || lock->token >> REIGN_SHIFT >= s->m->term || !stands(s->m, n, lock) ||
        lh_untracked_continue(&s->m->leases, &s->p->session.client, lh_m_lock_key(n), lock->token,
            shared ? LH_LEASE_SHARED : LH_LEASE_EXCLUSIVE, LH_DURATION_FOREVER) != LH_OK)
        return false;
    if (shared || lock->recallable || lock->info.len > 0)
        c = lh_m_lock_request_new(
            s->m, n, s->p, shared, lock->slots, lock->recallable, &lock->info);
    LH_MARK("lock-continued-after-restart");
    lh_m_note_lock(s->m, n, s->p, LEASEHOLD__LEASE_EVENT_KIND__LEASE_CONTINUED, lock->token, NULL);
    n->noted = true;
    lh_m_lock_taken(s->m, n, s->p, c, lock->token);
    return true;
}

/* It is cut, here or by its holder alone: what that said may not have arrived (NL-4). */
static void cut(struct showing *s, struct lh_m_name *n, const Leasehold__ShownLock *lock)
{
    struct lh_master *m = s->m;
    struct lh_lease_info info;

    bool known = lh_untracked_find(&m->leases, &s->p->session.client, lh_m_lock_key(n), &info) &&
                 info.own_end.ns != UINT64_MAX;
    if (lock->ends && !LH_PLANTED("cut-lease-renewed")) {
        struct lh_duration wait =
            lh_term_for_grantor(lh_nanoseconds(lock->left_ns), m->config.drift_ppm);
        int error = lh_untracked_cut(
            &m->leases, &s->p->session.client, lh_m_lock_key(n), lh_term_grantor_end(m->now, wait));
        LH_ASSERT(error == LH_OK);
    }
    if (lh_untracked_find(&m->leases, &s->p->session.client, lh_m_lock_key(n), &info) &&
        info.own_end.ns != UINT64_MAX) {
        say_cut(s, lock->name);
        if (!known)
            lh_m_lock_happened(m, n, s->p, LEASEHOLD__LOCK_EVENT_KIND__LOCK_CUT, info.version);
    }
}

static void show_lock(struct showing *s, const Leasehold__ShownLock *lock)
{
    char text[LH_TEXT_BYTES];
    struct lh_lease_info info;
    struct lh_m_name *n;

    if (lh_m_name_check(lock->name, text, sizeof text) != LH_OK ||
        lock->info.len > LH_M_INFO_BYTES_MAX) {
        say_lost(s, lock->name);
        return;
    }
    n = lh_m_name_get(s->m, lock->name);
    s->m->locks.in_hand = n;
    lh_untracked_collect(&s->m->leases, &s->p->session.client, lh_m_lock_key(n));
    bool own = lh_untracked_find(&s->m->leases, &s->p->session.client, lh_m_lock_key(n), &info);
    bool goes_on = own ? info.version == lock->token : s->first && take_over(s, n, lock);
    if (goes_on) {
        cut(s, n, lock);
        if (n->more->lock_state != NULL)
            n->more->lock_state->recalled_for = 0; /* it may not have heard that it is asked for */
        LH_GROW(s->names, s->capacity, s->count + 1);
        s->names[s->count++] = n->number;
    } else {
        say_lost(s, lock->name);
    }
    s->m->locks.in_hand = NULL;
    lh_m_lock_touch(s->m, n);
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

/* PS-2: what is not shown is free. It was granted, and that got lost with a stream; or given up. */
static void free_unshown(struct showing *s)
{
    uint64_t cursor = 0, *ids = NULL;
    size_t count = 0, capacity = 0;
    struct lh_lease_info info;
    struct lh_lease_client *client = &s->p->session.client;

    if (s->count > 0)
        qsort(s->names, s->count, sizeof *s->names, compare_numbers);
    while (lh_grantor_session_next(s->m->leases.engine, client->session, &cursor, &info)) {
        uint32_t number = (uint32_t)lh_lease_id(info.key);
        if (lh_lease_kind(info.key) != LH_M_LEASE_LOCK ||
            (s->count > 0 &&
                bsearch(&number, s->names, s->count, sizeof number, compare_numbers) != NULL))
            continue;
        LH_GROW(ids, capacity, count + 2);
        ids[count++] = number;
        ids[count++] = info.version;
    }
    for (size_t i = 0; i < count; i += 2) {
        struct lh_m_name *n = lh_m_name_by_number(s->m, ids[i]);
        LH_MARK("unshown-lock-freed");
        if (lh_untracked_release(&s->m->leases, client, lh_m_lock_key(n), ids[i + 1]) != LH_OK)
            continue;
        lh_m_note_lock(s->m, n, s->p, LEASEHOLD__LEASE_EVENT_KIND__LEASE_ENDED, ids[i + 1],
            "its holder does not show it");
        lh_m_lock_gone(s->m, n, s->p, LEASEHOLD__LOCK_EVENT_KIND__LOCK_ENDED, ids[i + 1]);
    }
    free(ids);
}

/* ---- Requests. */

/* Is the number one that a master may have given? */
static bool was_given(const struct lh_master *m, uint64_t number)
{
    uint64_t counter = number & ((UINT64_C(1) << REIGN_SHIFT) - 1);

    return number != 0 && (number >> REIGN_SHIFT < m->term ||
                              (number >> REIGN_SHIFT == m->term && counter <= m->locks.queued));
}

static bool has_or_waits(
    const struct lh_master *m, const struct lh_m_name *n, const struct lh_m_program *p)
{
    struct lh_lease_info info;

    return lh_m_lock_request_of(n, p) != NULL ||
           lh_untracked_find(&m->leases, &p->session.client, lh_m_lock_key(n), &info);
}

/* A request that this master has goes on waiting, at its place (NL-1). */
static bool goes_on_waiting(struct showing *s, const Leasehold__Acquire *a)
{
    struct lh_m_lock_request *c = lh_m_lock_request_by_id(s->p, a->id);
    bool shared = a->mode == LEASEHOLD__LOCK_MODE__SHARED;

    if (c == NULL || c->kept || c->shared != shared ||
        strcmp(c->lock_state->name->text, a->name) != 0)
        return false;
    c->kept = true;
    if (a->queued != c->number)
        lh_m_reply_queued(s->m, s->p, c->id, c->number, c->lock_state->waiting - 1);
    return true;
}

/* One that it does not have waits from now on, in the order of its number if it has one. */
static void show_request(struct showing *s, const Leasehold__Acquire *a)
{
    struct lh_master *m = s->m;
    char text[LH_TEXT_BYTES];

    if (a->id == 0 || lh_m_lock_request_by_id(s->p, a->id) != NULL ||
        a->info.len > LH_M_INFO_BYTES_MAX || lh_m_name_check(a->name, text, sizeof text) != LH_OK) {
        lh_m_reply_refused(m, s->p, a->id, a->name, LH_ERR_INVALID_ARGUMENT,
            "a request that was shown makes no sense");
        return;
    }
    struct lh_m_name *n = lh_m_name_get(m, a->name);
    if (has_or_waits(m, n, s->p)) {
        lh_m_reply_refused(m, s->p, a->id, a->name, LH_ERR_ALREADY_EXISTS,
            "this session has the lock, or waits for it");
        lh_m_lock_touch(m, n);
        return;
    }
    /* What was not sent yet when the stream broke is shown, too: the bounds are those of asking. */
    if (lh_m_lock_room(m, s->p, text, sizeof text) != LH_OK) {
        lh_m_reply_refused(m, s->p, a->id, a->name, LH_ERR_NO_MEMORY, text);
        lh_m_lock_touch(m, n);
        return;
    }
    LH_MARK("request-shown-again");
    struct lh_m_lock_request *c = lh_m_lock_request_new(
        m, n, s->p, a->mode == LEASEHOLD__LOCK_MODE__SHARED, a->slots, a->recallable, &a->info);
    c->noted = lh_m_note_due(m, s->p);
    lh_m_lock_request_waits(m, c, a->id,
        was_given(m, a->queued) ? a->queued : m->term << REIGN_SHIFT | ++m->locks.queued);
    if (c->number != a->queued)
        lh_m_reply_queued(m, s->p, c->id, c->number, c->lock_state->waiting - 1);
}

/* ACC-3: as if it were asked now. */
static bool may_wait(struct showing *s, const Leasehold__Acquire *a)
{
    char text[LH_ACCESS_TEXT_MAX];

    if (s->p->identity == NULL ||
        lh_m_access_name(s->m, s->p->identity, LH_RIGHT_WRITE, a->name, false, text) == LH_OK)
        return true;
    lh_m_reply_refused(s->m, s->p, a->id, a->name, LH_ERR_PERMISSION, text);
    return false;
}

static void drop_unshown_requests(struct showing *s)
{
    struct lh_m_lock_request *c, *next;

    for (c = RB_MIN(lh_m_lock_requests, &s->p->requests); c != NULL; c = next) {
        struct lh_m_name *n = c->lock_state->name;
        next = RB_NEXT(lh_m_lock_requests, &s->p->requests, c);
        if (c->kept) {
            c->kept = false;
            continue;
        }
        lh_m_lock_request_free(s->m, c);
        lh_m_lock_touch(s->m, n);
    }
}

void lh_m_locks_shown(struct lh_master *m, struct lh_m_program *p,
    const Leasehold__Show *const *pieces, size_t count, Leasehold__Shown *shown)
{
    struct showing s = {.m = m, .p = p, .shown = shown, .first = p->session.client.promised != 0};

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < pieces[i]->n_locks; j++)
            show_lock(&s, pieces[i]->locks[j]);
    free_unshown(&s);
    free(s.names);
}

void lh_m_requests_shown(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__Show *const *pieces, size_t count)
{
    struct showing s = {.m = m, .p = p};
    const Leasehold__Acquire **others = NULL;
    size_t other_count = 0, capacity = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < pieces[i]->n_waiting; j++) {
            if (!may_wait(&s, pieces[i]->waiting[j]) || goes_on_waiting(&s, pieces[i]->waiting[j]))
                continue;
            LH_GROW(others, capacity, other_count + 1);
            others[other_count++] = pieces[i]->waiting[j];
        }
    /* First: a program may ask again for what it has withdrawn. */
    drop_unshown_requests(&s);
    for (size_t i = 0; i < other_count; i++)
        show_request(&s, others[i]);
    free(others);
}
