/* INV-15: a cached read never returns a value that was replaced before the read began, while clock
 * rates are within rho; and operations on values are linearizable. Each change has its revision,
 * and counts at the moment at which its commit does: that is the one order. So what a program is
 * told was so at some moment between its question and the answer, and what any program could serve
 * from its memory is what is there now. */
#include "sim/observers/leases.h"

#include "utlist.h"

#include <inttypes.h>
#include <string.h>

const struct lvalue *lh_ob_value_now(const struct lname *n)
{
    const struct lvalue *v = n->value_count == 0 ? NULL : &n->values[n->value_count - 1];

    return v == NULL || v->removed ? NULL : v;
}

/* ---- What could be served now ---- */

static void check_cached(
    struct lh_sim_observers *o, const struct lsession *s, const struct lname *n)
{
    const struct lvalue *now = lh_ob_value_now(n);
    struct lh_client_value *value = NULL;

    if (!lh_client_cached(s->handle, n->text, lh_sim_clock(s->client->node), &value))
        return;
    const struct lh_value *served = value == NULL ? NULL : lh_client_value_view(value);
    uint64_t revision = served == NULL ? 0 : served->revision;
    if (revision != (now == NULL ? 0 : now->revision))
        lh_ob_fail_unless_excused(o, "INV-15", 0, &o->seen_inv15,
            "%s serves revision %" PRIu64 " of %s from its memory, and there is %" PRIu64
            " now (VAL-1)",
            s->client->name, revision, n->text, now == NULL ? 0 : now->revision);
    else if (served != NULL && now != NULL &&
             (served->size != now->size || lh_ob_crc(served->data, served->size) != now->crc))
        lh_sim_fail(o->sim, "INV-15", 0,
            "%s serves other bytes of %s than those of revision %" PRIu64, s->client->name, n->text,
            revision);
    if (value != NULL)
        lh_client_value_unref(value);
}

void lh_ob_inv15_changed(struct lh_sim_observers *o, struct lname *n)
{
    struct lsession *s;

    DL_FOREACH(o->leases->sessions, s)
        if (!failed(o) && lh_sim_is_up(s->client->node))
            check_cached(o, s, n);
}

/* It may have been told of a lease, or a lease may have been extended. */
void lh_ob_inv15_stepped(struct lh_sim_observers *o, const struct actor *a)
{
    struct lsession *s;
    struct lname *n, *next;

    if (!lh_sim_is_up(a->node))
        return;
    DL_FOREACH(o->leases->sessions, s) {
        if (s->client != a)
            continue;
        HASH_ITER(hh, o->leases->names, n, next)
            if (!failed(o))
                check_cached(o, s, n);
    }
}

/* ---- What was so ---- */

/* The state that begins with the change of that index - 1; 0: nothing was there yet. */
static bool was_in(const struct lname *n, size_t index, uint64_t from, uint64_t to)
{
    uint64_t since = index == 0 ? 0 : n->values[index - 1].at;
    uint64_t until = index == n->value_count ? UINT64_MAX : n->values[index].at;

    return since <= to && until >= from;
}

static bool is_there(const struct lname *n, size_t index)
{
    return index > 0 && !n->values[index - 1].removed;
}

/* Had the name that revision (0: no value) at some moment of [from, to]? */
static const struct lvalue *had(
    const struct lname *n, uint64_t revision, uint64_t from, uint64_t to, bool *found)
{
    *found = false;
    for (size_t i = n->value_count + 1; i-- > 0;) {
        bool fits = revision == 0 ? !is_there(n, i)
                                  : is_there(n, i) && n->values[i - 1].revision == revision;
        if (!fits || !was_in(n, i, from, to))
            continue;
        *found = true;
        return revision == 0 ? NULL : &n->values[i - 1];
    }
    return NULL;
}

/* Another one than that? */
static bool had_other(const struct lname *n, uint64_t revision, uint64_t from, uint64_t to)
{
    for (size_t i = n->value_count + 1; i-- > 0;) {
        uint64_t there = is_there(n, i) ? n->values[i - 1].revision : 0;
        if (there != revision && was_in(n, i, from, to))
            return true;
    }
    return false;
}

static void read_of(struct lh_sim_observers *o, const struct call *call, const struct lname *n,
    uint64_t revision, const void *bytes, size_t size, bool has_bytes)
{
    bool found;
    const struct lvalue *v = had(n, revision, call->begun, lh_sim_now(o->sim), &found);

    if (!found)
        lh_ob_fail_unless_excused(o, "INV-15", 0, &o->seen_inv15,
            "%s was told that %s has revision %" PRIu64
            ", which was not so at any moment since it asked, at %" PRIu64 " ns",
            call->client->name, n->text, revision, call->begun);
    else if (v != NULL && has_bytes && (v->size != size || lh_ob_crc(bytes, size) != v->crc))
        lh_sim_fail(o->sim, "INV-15", 0,
            "%s was told other bytes of %s than those of revision %" PRIu64, call->client->name,
            n->text, revision);
}

void lh_ob_inv15_got(
    struct lh_sim_observers *o, const struct call *call, const struct lh_get_call *get, int error)
{
    const struct lname *n = lh_ob_lname(o, get->name);

    if (error == LH_OK) {
        const struct lh_value *v = lh_client_value_view(get->value);
        read_of(o, call, n, v->revision, v->data, v->size, true);
    } else if (error == LH_ERR_NOT_FOUND) {
        read_of(o, call, n, 0, NULL, 0, false);
    }
}

static void asked_once(struct lh_sim_observers *o, const struct call *call,
    const Leasehold__GetRequest *m, const Leasehold__GetReply *r, int error)
{
    const struct lname *n = lh_ob_lname(o, m->name);

    if (error == LH_OK && r != NULL && r->value != NULL)
        read_of(
            o, call, n, r->value->revision, r->value->value.data, r->value->value.len, !r->same);
    else if (error == LH_ERR_NOT_FOUND)
        read_of(o, call, n, 0, NULL, 0, false);
}

/* ---- Changes ---- */

struct change {
    struct lh_sim_observers *o;
    const struct call *call;
    const Leasehold__ChangeRequest *m;
    const struct lname *name;
    uint64_t now;
};

#define WRONG(c, ...) lh_sim_fail((c)->o->sim, "INV-15", 0, __VA_ARGS__)

/* The change with that revision: as it was asked, at some moment between question and answer, and
 * on what the conditions say. */
static void was_applied(const struct change *c, uint64_t revision)
{
    const struct lname *n = c->name;
    const Leasehold__ChangeRequest *m = c->m;
    size_t i = n->value_count;

    while (i > 0 && n->values[i - 1].revision != revision)
        i--;
    if (i == 0) {
        WRONG(c, "%s was told that its change of %s has revision %" PRIu64 ", which no commit has",
            c->call->client->name, n->text, revision);
        return;
    }
    const struct lvalue *v = &n->values[i - 1];
    const char *lock = m->lock != NULL && m->lock[0] != '\0' ? m->lock : m->name;
    uint64_t before = is_there(n, i - 1) ? n->values[i - 2].revision : 0;
    if (v->at < c->call->begun || v->at > c->now)
        WRONG(c,
            "%s was told that its change of %s has revision %" PRIu64
            ", which was made before it asked",
            c->call->client->name, n->text, revision);
    else if (v->removed != (m->remove != 0) ||
             (!v->removed &&
                 (v->size != m->value.len || v->crc != lh_ob_crc(m->value.data, m->value.len))))
        WRONG(c, "revision %" PRIu64 " of %s is not what %s asked for", revision, n->text,
            c->call->client->name);
    else if (!v->removed && v->attached != (m->attach.len == SESSION_ID))
        lh_sim_fail(c->o->sim, "INV-17", 0, "revision %" PRIu64 " of %s is %sattached (VAL-4)",
            revision, n->text, v->attached ? "" : "not ");
    else if (m->if_revision && before != m->revision)
        WRONG(c, "%s changed %s if it had revision %" PRIu64 ", and it had %" PRIu64 " (VAL-2)",
            c->call->client->name, n->text, m->revision, before);
    else if (m->remove && before == 0)
        WRONG(c, "%s removed %s, which was not there", c->call->client->name, n->text);
    else if (m->token != 0 &&
             lh_ob_inv14_highest(lh_ob_lname(c->o, lock), v->decided_at) > m->token)
        lh_ob_fail_unless_excused(c->o, "INV-15", 0, &c->o->seen_inv15,
            "%s changed %s with token %" PRIu64 " of %s, when %" PRIu64 " had been given (VAL-3)",
            c->call->client->name, n->text, m->token, lock,
            lh_ob_inv14_highest(lh_ob_lname(c->o, lock), v->decided_at));
}

static void changed(const struct change *c, const Leasehold__ChangeReply *r, int error)
{
    const struct lname *n = c->name;
    bool found;

    if (error == LH_OK && r != NULL) {
        was_applied(c, r->revision);
    } else if (error == LH_ERR_ALREADY_EXISTS && c->m->if_revision) {
        if (!had_other(n, c->m->revision, c->call->begun, c->now))
            lh_ob_fail_unless_excused(c->o, "INV-15", 0, &c->o->seen_inv15,
                "%s was told that %s has another revision than %" PRIu64 ", and it had none",
                c->call->client->name, n->text, c->m->revision);
    } else if (error == LH_ERR_NOT_FOUND) {
        (void)had(n, 0, c->call->begun, c->now, &found);
        if (!found)
            lh_ob_fail_unless_excused(c->o, "INV-15", 0, &c->o->seen_inv15,
                "%s was told that %s is not there, and it was", c->call->client->name, n->text);
    }
}

void lh_ob_inv15_answered(
    struct lh_sim_observers *o, const struct call *call, const struct lh_master_call *m, int error)
{
    if (m->method == LH_METHOD_GET)
        asked_once(o, call, (const Leasehold__GetRequest *)m->request,
            (const Leasehold__GetReply *)m->reply, error);
    if (m->method != LH_METHOD_CHANGE)
        return;
    const Leasehold__ChangeRequest *request = (const Leasehold__ChangeRequest *)m->request;
    struct change c = {o, call, request, lh_ob_lname(o, request->name), lh_sim_now(o->sim)};
    if (m->reply == NULL || error == LH_ERR_UNAVAILABLE || error == LH_ERR_DEADLINE_EXCEEDED ||
        error == LH_ERR_CANCELLED) /* it may have been carried out, or still be */
        lh_ob_leases_lost_call(o, call->call);
    else
        changed(&c, (const Leasehold__ChangeReply *)m->reply, error);
}
