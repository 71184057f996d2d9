/* INV-17: an attached value is there while its session lives, and is gone within a bounded time
 * after. A watcher gets every change once and in order, or a reset with what is there. What one
 * stream tells of locks never conflicts (NL-6). */
#include "sim/observers/leases.h"

#include "utlist.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Attached values ---- */

/* Somebody has asked for it, and it is not known how that ended. */
static bool was_asked_for(struct lh_sim_observers *o, const struct lname *n)
{
    struct call *call;

    DL_FOREACH(o->history->calls, call) {
        const struct lh_master_call *m = (const struct lh_master_call *)call->call;
        if (call->call->kind != LH_CALL_MASTER || m->method != LH_METHOD_CHANGE)
            continue;
        const Leasehold__ChangeRequest *c = (const Leasehold__ChangeRequest *)m->request;
        if (c->remove && strcmp(c->name, n->text) == 0)
            return true;
    }
    return lh_sim_now(o->sim) < n->unsure_until;
}

void lh_ob_inv17_changed(struct lh_sim_observers *o, struct lname *n, const struct lvalue *before)
{
    const struct lvalue *v = &n->values[n->value_count - 1];

    if (!v->removed || was_asked_for(o, n))
        return;
    struct lsession *s =
        before == NULL || !before->attached ? NULL : lh_ob_lsession_of_id(o, before->session);
    if (before == NULL || !before->attached)
        lh_sim_fail(o->sim, "INV-17", 0, "%s is deleted, and nobody has asked for it", n->text);
    else if (s != NULL && lh_sim_is_up(s->client->node) && lh_ob_session_believed(s))
        lh_ob_fail_unless_excused(o, "INV-17", 0, &o->seen_inv15,
            "%s is deleted, and the session of %s that it is attached to is valid", n->text,
            s->client->name);
    else if (s != NULL)
        s->removed = n; /* it has expired, and is over for the master: it does not go on */
}

bool lh_ob_inv17_settled(struct lh_sim_observers *o, char *text, size_t text_size)
{
    struct lname *n, *next;

    HASH_ITER(hh, o->leases->names, n, next) {
        const struct lvalue *v = lh_ob_value_now(n);
        if (v == NULL || !v->attached)
            continue;
        const struct lsession *s = lh_ob_lsession_of_id(o, v->session);
        if (s != NULL && lh_ob_session_believed(s))
            continue;
        (void)snprintf(
            text, text_size, "%s is attached to a session that is over (VAL-4)", n->text);
        return false;
    }
    return true;
}

/* ---- Watchers ---- */

static struct lwatch *find_watch(
    const struct lh_sim_observers *o, const struct actor *a, const void *handle)
{
    struct lwatch *w;

    DL_FOREACH(o->leases->watches, w)
        if (w->client == a && w->handle == handle)
            return w;
    return NULL;
}

static void forget_lock(struct lwatch *w, struct lock_reported *t)
{
    LL_DELETE(w->locks_reported, t);
    free(t->name);
    free(t);
}

static void forget_locks(struct lwatch *w)
{
    while (w->locks_reported != NULL)
        forget_lock(w, w->locks_reported);
}

void lh_ob_inv17_watch_opened(
    struct lh_sim_observers *o, const struct call *call, const struct lh_watch_open_call *open)
{
    struct lwatch *w = lh_alloc(sizeof *w);

    w->client = call->client;
    w->handle = open->watch;
    w->prefix = lh_strdup(open->prefix);
    w->position = open->from;
    w->locks = open->locks;
    DL_APPEND(o->leases->watches, w);
}

void lh_ob_inv17_watch_closed(struct lh_sim_observers *o, const struct actor *a, const void *handle)
{
    struct lwatch *w = find_watch(o, a, handle);

    if (w == NULL)
        return;
    DL_DELETE(o->leases->watches, w);
    forget_locks(w);
    free(w->prefix);
    free(w->notified);
    free(w);
}

static bool is_under(const struct lwatch *w, const char *name)
{
    return strncmp(name, w->prefix, strlen(w->prefix)) == 0;
}

/* The first change under its prefix that is not before that revision. */
static const struct lchange *change_from(
    const struct leases *l, const struct lwatch *w, uint64_t revision)
{
    size_t low = 0, high = l->change_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->changes[middle].revision < revision)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < l->change_count && !is_under(w, l->changes[low].name->text))
        low++;
    return low < l->change_count ? &l->changes[low] : NULL;
}

static bool is_event(const struct lchange *c, const Leasehold__WatchEvent *e)
{
    return strcmp(c->name->text, e->name) == 0 && c->removed == (e->removed != 0) &&
           (c->removed ||
               (c->size == e->value.len && c->crc == lh_ob_crc(e->value.data, e->value.len)));
}

static void check_event(
    struct lh_sim_observers *o, struct lwatch *w, const Leasehold__WatchEvent *e)
{
    const struct lchange *c = change_from(o->leases, w, w->position);

    if (e->revision < w->position)
        lh_sim_fail(o->sim, "INV-17", 0, "%s is told again of revision %" PRIu64 " of %s (VAL-6)",
            w->client->name, e->revision, e->name);
    else if (c == NULL || c->revision > e->revision)
        lh_sim_fail(o->sim, "INV-17", 0,
            "%s is told of revision %" PRIu64 " of %s, which no commit has (VAL-6)",
            w->client->name, e->revision, e->name);
    else if (c->revision < e->revision)
        lh_sim_fail(o->sim, "INV-17", 0,
            "%s is told of revision %" PRIu64 " of %s, and not of %" PRIu64 " of %s (VAL-6)",
            w->client->name, e->revision, e->name, c->revision, c->name->text);
    else if (!is_event(c, e))
        lh_sim_fail(o->sim, "INV-17", 0,
            "%s is told of revision %" PRIu64 " of %s, and not as it was (VAL-6)", w->client->name,
            e->revision, e->name);
    w->position = e->revision + 1;
}

/* The value as of the revisions before that one; NULL: there was none. */
static const struct lvalue *value_as_of(const struct lname *n, uint64_t revision)
{
    size_t i = n->value_count;

    while (i > 0 && n->values[i - 1].revision >= revision)
        i--;
    return i == 0 || n->values[i - 1].removed ? NULL : &n->values[i - 1];
}

static struct notified *told_of(struct lwatch *w, const struct lname *n)
{
    for (size_t i = 0; i < w->notified_count; i++)
        if (w->notified[i].name == n)
            return &w->notified[i];
    LH_GROW(w->notified, w->notified_capacity, w->notified_count + 1);
    w->notified[w->notified_count] = (struct notified){n, 0};
    return &w->notified[w->notified_count++];
}

/* What is there; or a change since the reset began. */
static void check_there(
    struct lh_sim_observers *o, struct lwatch *w, const Leasehold__WatchEvent *e)
{
    struct lname *n = lh_ob_lname(o, e->name);
    struct notified *notified = told_of(w, n);
    size_t i = n->value_count;

    while (i > 0 && n->values[i - 1].revision != e->revision)
        i--;
    bool same = i > 0 && n->values[i - 1].removed == (e->removed != 0) &&
                (e->removed || (n->values[i - 1].size == e->value.len &&
                                   n->values[i - 1].crc == lh_ob_crc(e->value.data, e->value.len)));
    if (!is_under(w, e->name) || !same)
        lh_sim_fail(o->sim, "INV-17", 0,
            "%s is told after a reset that %s has revision %" PRIu64 ", which it never had so",
            w->client->name, e->name, e->revision);
    notified->revision = e->removed ? 0 : e->revision;
}

/* All is told that is there. */
static void reset_is_whole(struct lh_sim_observers *o, struct lwatch *w, uint64_t next_one)
{
    struct lname *n, *next;

    HASH_ITER(hh, o->leases->names, n, next) {
        if (!is_under(w, n->text) || failed(o))
            continue;
        const struct lvalue *v = value_as_of(n, next_one);
        uint64_t notified = told_of(w, n)->revision;
        if (notified != (v == NULL ? 0 : v->revision))
            lh_sim_fail(o->sim, "INV-17", 0,
                "%s is told after a reset that %s has revision %" PRIu64
                " (0: it is not there), and before %" PRIu64 " it had %" PRIu64 " (VAL-6)",
                w->client->name, n->text, notified, next_one, v == NULL ? 0 : v->revision);
    }
}

static void end_of(struct lh_sim_observers *o, struct lwatch *w, const Leasehold__WatchReply *r)
{
    const struct lchange *c;

    if (w->reset) {
        reset_is_whole(o, w, r->next);
        w->reset = false;
        w->position = r->next;
        return;
    }
    c = change_from(o->leases, w, w->position);
    if (c != NULL && c->revision < r->next)
        lh_sim_fail(o->sim, "INV-17", 0,
            "%s is told to go on at revision %" PRIu64 ", and not of %" PRIu64 " of %s (VAL-6)",
            w->client->name, r->next, c->revision, c->name->text);
    if (r->next > w->position)
        w->position = r->next;
}

/* ---- Locks ---- */

static struct lock_reported *lock_reported_of(
    const struct lwatch *w, const char *name, const Leasehold__LockHolder *h)
{
    struct lock_reported *t;

    LL_FOREACH(w->locks_reported, t)
        if (strcmp(t->name, name) == 0 && memcmp(t->session, h->session.data, SESSION_ID) == 0)
            return t;
    return NULL;
}

static void lock_is_granted(
    struct lh_sim_observers *o, struct lwatch *w, const Leasehold__LockEvent *e)
{
    bool shared = e->holder->mode == LEASEHOLD__LOCK_MODE__SHARED;
    struct lock_reported *t;

    LL_FOREACH(w->locks_reported, t)
        if (strcmp(t->name, e->name) == 0 && !(shared && t->shared))
            lh_sim_fail(o->sim, "INV-17", 0,
                "%s is told that the lock of %s is granted with token %" PRIu64
                ", and not that the one before is over (NL-6)",
                w->client->name, e->name, e->holder->token);
    t = lh_alloc(sizeof *t);
    t->name = lh_strdup(e->name);
    memcpy(t->session, e->holder->session.data, SESSION_ID);
    t->shared = shared;
    LL_PREPEND(w->locks_reported, t);
}

static void locks_reported(
    struct lh_sim_observers *o, struct lwatch *w, const Leasehold__WatchReply *r)
{
    if (r->reset)
        forget_locks(w);
    for (size_t i = 0; i < r->n_locks && !failed(o); i++) {
        const Leasehold__LockEvent *e = r->locks[i];
        struct lock_reported *t = lock_reported_of(w, e->name, e->holder);
        if (!is_under(w, e->name))
            lh_sim_fail(o->sim, "INV-17", 0, "%s is told of a lock of %s, and watches %s",
                w->client->name, e->name, w->prefix);
        else if (e->kind == LEASEHOLD__LOCK_EVENT_KIND__LOCK_GRANTED)
            lock_is_granted(o, w, e);
        else if (e->kind != LEASEHOLD__LOCK_EVENT_KIND__LOCK_CUT && t != NULL)
            forget_lock(w, t);
    }
}

void lh_ob_inv17_notified(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_watch_next_call *next)
{
    struct lwatch *w = find_watch(o, a, next->watch);
    const Leasehold__WatchReply *r = (const Leasehold__WatchReply *)next->reply;

    if (w == NULL || r == NULL || r->error != LEASEHOLD__ERROR_CODE__OK)
        return;
    if (w->locks) {
        locks_reported(o, w, r);
        return;
    }
    if (r->reset) {
        w->reset = true;
        w->notified_count = 0;
    } else if (w->position == 0 && !w->reset) {
        lh_sim_fail(o->sim, "INV-17", 0, "%s is told of changes, and not what there is (VAL-6)",
            w->client->name);
    }
    for (size_t i = 0; i < r->n_events && !failed(o); i++)
        if (w->reset)
            check_there(o, w, r->events[i]);
        else
            check_event(o, w, r->events[i]);
    if (!r->more && !failed(o))
        end_of(o, w, r);
}
