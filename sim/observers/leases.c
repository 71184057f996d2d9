/* What programs asked of leases and were told, and what the store says of values. */
#include "sim/observers/leases.h"

#include "base/crc32c.h"
#include "proto/stored.pb-c.h"
#include "utlist.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

uint32_t lh_ob_crc(const void *data, size_t size)
{
    return lh_crc32c(0, data, size);
}

/* ---- Finding ---- */

struct lname *lh_ob_lname(struct lh_sim_observers *o, const char *text)
{
    struct lname *n;

    HASH_FIND_STR(o->leases->names, text, n);
    if (n != NULL)
        return n;
    n = lh_alloc(sizeof *n);
    n->text = lh_strdup(text);
    HASH_ADD_KEYPTR(hh, o->leases->names, n->text, strlen(n->text), n);
    return n;
}

struct lsession *lh_ob_lsession(const struct lh_sim_observers *o, const struct actor *client,
    const struct lh_client_session *handle)
{
    struct lsession *s;

    DL_FOREACH(o->leases->sessions, s)
        if (s->client == client && s->handle == handle)
            return s;
    return NULL;
}

struct lsession *lh_ob_lsession_of_id(const struct lh_sim_observers *o, const uint8_t *id)
{
    struct lsession *s;

    DL_FOREACH(o->leases->sessions, s)
        if (memcmp(s->id, id, SESSION_ID) == 0)
            return s;
    return NULL;
}

bool lh_ob_session_believed(const struct lsession *s)
{
    return lh_client_session_left(s->handle, lh_sim_clock(s->client->node)).ns > 0;
}

bool lh_ob_lock_believed(const struct lsession *s, const struct held *h)
{
    return lh_client_lock_left(s->handle, h->lock, lh_sim_clock(s->client->node)).ns > 0;
}

/* ---- Sessions and locks, as programs know them ---- */

static void drop_held(struct lsession *s, uint64_t lock)
{
    struct held *h, *next;

    LL_FOREACH_SAFE(s->held, h, next) {
        if (h->lock != lock && lock != 0)
            continue;
        LL_DELETE(s->held, h);
        free(h);
    }
}

static void forget_session(struct leases *l, struct lsession *s)
{
    drop_held(s, 0);
    DL_DELETE(l->sessions, s);
    free(s);
}

static void opened(
    struct lh_sim_observers *o, const struct call *call, const struct lh_session_open_call *open)
{
    struct lsession *s = lh_alloc(sizeof *s);

    s->client = call->client;
    s->handle = open->session;
    s->opened_at = lh_sim_now(o->sim);
    memcpy(s->id, lh_client_session_id(open->session), SESSION_ID);
    DL_APPEND(o->leases->sessions, s);
}

static void acquired(
    struct lh_sim_observers *o, const struct call *call, const struct lh_acquire_call *a)
{
    struct lsession *s = lh_ob_lsession(o, call->client, a->session);

    if (s == NULL)
        return; /* it has closed the session meanwhile */
    struct held *h = lh_alloc(sizeof *h);
    *h = (struct held){.name = lh_ob_lname(o, a->name),
        .lock = a->lock,
        .token = a->token,
        .shared = a->shared,
        .slots = a->slots};
    LL_PREPEND(s->held, h);
    lh_ob_inv14_acquired(o, s, h->name, h->token);
    o->leases->notified[lh_ob_actor_index(o, call->client)] = true;
}

/* INV-9: when nothing is broken any more nobody loses what he has. */
static void lost(struct lh_sim_observers *o, struct lsession *s)
{
    uint64_t rest = 4 * o->leases->longest.ns + lh_seconds(10).ns;

    if (lh_ob_session_believed(s))
        lh_sim_fail(o->sim, "INV-13", 0,
            "a program at %s is told that its session is lost, and it is valid", s->client->name);
    if (o->over && !o->config.clocks_beyond_rho && s->opened_at > o->over_at + rest)
        lh_sim_fail(o->sim, "INV-9", 0, "a program at %s lost its session, and nothing was broken",
            s->client->name);
    drop_held(s, 0);
}

/* INV-17: all that is attached to a session that goes on is there (PS-3). */
static void resumed(struct lh_sim_observers *o, const struct lsession *s)
{
    if (s->removed != NULL)
        lh_ob_fail_unless_excused(o, "INV-17", 0, &o->seen_inv15,
            "a session of %s goes on after it had expired, and %s, which was attached to it, is "
            "deleted",
            s->client->name, s->removed->text);
}

static void happened(
    struct lh_sim_observers *o, const struct call *call, const struct lh_session_event_call *e)
{
    struct lsession *s = lh_ob_lsession(o, call->client, e->session);

    if (s == NULL)
        return;
    if (e->event == LH_CLIENT_LOST || e->event == LH_CLIENT_EXPIRED)
        lost(o, s);
    else if (e->event == LH_CLIENT_RESUMED)
        resumed(o, s);
    else if (e->event == LH_CLIENT_LOCK_LOST)
        drop_held(s, e->lock);
}

/* ---- Calls ---- */

void lh_ob_leases_begun(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_call *asked)
{
    struct lsession *s;

    switch (asked->kind) {
    case LH_CALL_SESSION_CLOSE:
        s = lh_ob_lsession(o, a, ((const struct lh_session_close_call *)asked)->session);
        if (s != NULL)
            forget_session(o->leases, s);
        break;
    case LH_CALL_RELEASE: {
        const struct lh_release_call *r = (const struct lh_release_call *)asked;
        s = lh_ob_lsession(o, a, r->session);
        if (s != NULL)
            drop_held(s, r->lock);
        break;
    }
    case LH_CALL_WATCH_CLOSE:
        lh_ob_inv17_watch_closed(o, a, ((const struct lh_watch_close_call *)asked)->watch);
        break;
    default:
        break;
    }
}

void lh_ob_leases_done(struct lh_sim_observers *o, const struct call *call, int error)
{
    const struct lh_call *asked = call->call;

    switch (asked->kind) {
    case LH_CALL_SESSION_OPEN:
        if (error == LH_OK)
            opened(o, call, (const struct lh_session_open_call *)asked);
        break;
    case LH_CALL_ACQUIRE:
        if (error == LH_OK)
            acquired(o, call, (const struct lh_acquire_call *)asked);
        break;
    case LH_CALL_SESSION_EVENT:
        if (error == LH_OK)
            happened(o, call, (const struct lh_session_event_call *)asked);
        break;
    case LH_CALL_GET:
        lh_ob_inv15_got(o, call, (const struct lh_get_call *)asked, error);
        break;
    case LH_CALL_MASTER:
        lh_ob_inv15_answered(o, call, (const struct lh_master_call *)asked, error);
        break;
    case LH_CALL_WATCH_OPEN:
        if (error == LH_OK)
            lh_ob_inv17_watch_opened(o, call, (const struct lh_watch_open_call *)asked);
        break;
    case LH_CALL_WATCH_NEXT:
        if (error == LH_OK)
            lh_ob_inv17_notified(o, call->client, (const struct lh_watch_next_call *)asked);
        break;
    default:
        break;
    }
}

/* What it asked may be carried out all the same. */
#define UNSURE_NS UINT64_C(120000000000)

void lh_ob_leases_lost_call(struct lh_sim_observers *o, const struct lh_call *asked)
{
    const struct lh_master_call *m = (const struct lh_master_call *)asked;

    if (asked->kind == LH_CALL_MASTER && m->method == LH_METHOD_CHANGE)
        lh_ob_lname(o, ((const Leasehold__ChangeRequest *)m->request)->name)->unsure_until =
            lh_sim_now(o->sim) + UNSURE_NS;
}

/* ---- Messages ---- */

/* PS-2: a program refuses a lower reign than the highest that it has seen. */
static void is_greeted(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    const Leasehold__LeaseSessionReply *m = (const Leasehold__LeaseSessionReply *)s->message;
    size_t i = lh_ob_actor_index(o, a);

    if (m == NULL || m->body_case != LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING)
        return;
    if (m->greeting->reign < o->leases->reign[i])
        o->leases->low_link[i] = s->link;
    else
        o->leases->reign[i] = m->greeting->reign;
}

static void shows(struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    const Leasehold__LeaseSessionRequest *m = (const Leasehold__LeaseSessionRequest *)s->message;

    if (s->effect->kind != LH_FX_SEND || m == NULL ||
        m->body_case != LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW ||
        o->leases->low_link[lh_ob_actor_index(o, a)] != s->link)
        return;
    lh_sim_fail(o->sim, "INV-13", 0,
        "%s shows what it has to a master of a lower reign than the highest that greeted it (PS-2)",
        a->name);
}

void lh_ob_leases_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    struct lstream *t;

    if (s->method != LH_METHOD_LEASE_SESSION)
        return;
    if (a->part == PART_CLIENT) {
        o->leases->notified[lh_ob_actor_index(o, a)] = true;
        is_greeted(o, a, s);
        return;
    }
    if (a->part != PART_MASTER)
        return;
    HASH_FIND(hh, o->leases->streams, &s->link, sizeof s->link, t);
    if (s->input->kind == LH_IN_LINK_CLOSED) {
        if (t != NULL)
            lh_ob_inv18_stream_gone(o, t);
        return;
    }
    if (s->message == NULL)
        return;
    if (t == NULL) {
        t = lh_alloc(sizeof *t);
        t->link = s->link;
        HASH_ADD(hh, o->leases->streams, link, sizeof t->link, t);
    }
    lh_ob_inv18_takes(o, t, (const Leasehold__LeaseSessionRequest *)s->message);
}

void lh_ob_leases_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    struct lstream *t;

    if (s->method == LH_METHOD_LEASE_SESSION && a->part == PART_CLIENT && !failed(o))
        shows(o, a, s);
    if (s->method != LH_METHOD_LEASE_SESSION || a->part != PART_MASTER)
        return;
    HASH_FIND(hh, o->leases->streams, &s->link, sizeof s->link, t);
    if (t == NULL)
        return;
    if (s->effect->kind == LH_FX_SEND && s->message != NULL)
        lh_ob_inv18_says(o, t, (const Leasehold__LeaseSessionReply *)s->message);
    else if (s->effect->kind == LH_FX_CLOSE)
        lh_ob_inv18_stream_gone(o, t);
}

void lh_ob_leases_says_late(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    const Leasehold__LeaseSessionReply *m = (const Leasehold__LeaseSessionReply *)s->message;
    struct leases *l = o->leases;

    if (s->method != LH_METHOD_LEASE_SESSION || s->effect->kind != LH_FX_SEND || m == NULL ||
        m->body_case != LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS)
        return;
    for (size_t i = 0; i < m->answers->n_answers; i++) {
        const Leasehold__LeaseAnswer *a = m->answers->answers[i];
        if (a->answer_case != LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED)
            continue;
        LH_GROW(l->late, l->late_capacity, l->late_count + 1);
        l->late[l->late_count++] = a->granted->token;
    }
}

void lh_ob_leases_stepped(struct lh_sim_observers *o, const struct actor *a)
{
    if (a->part == PART_MASTER) {
        lh_ob_inv18_stepped(o);
        return;
    }
    if (!o->leases->notified[lh_ob_actor_index(o, a)])
        return;
    o->leases->notified[lh_ob_actor_index(o, a)] = false;
    lh_ob_inv13_stepped(o, a);
    if (!failed(o))
        lh_ob_inv15_stepped(o, a);
    lh_ob_lookups_stepped(o, a);
}

void lh_ob_leases_lives(struct lh_sim_observers *o, const struct actor *a, enum lh_sim_life what)
{
    struct lsession *s, *next;
    struct lwatch *w, *next_watch;

    if (what == LH_SIM_LIFE_PAUSED || what == LH_SIM_LIFE_RESUMED || what == LH_SIM_LIFE_RESTORED)
        return;
    if (a->part == PART_MASTER)
        lh_ob_inv18_forget(o);
    if (a->part != PART_CLIENT)
        return;
    o->leases->reign[lh_ob_actor_index(o, a)] = 0;
    o->leases->low_link[lh_ob_actor_index(o, a)] = 0;
    DL_FOREACH_SAFE(o->leases->sessions, s, next)
        if (s->client == a)
            forget_session(o->leases, s);
    DL_FOREACH_SAFE(o->leases->watches, w, next_watch)
        if (w->client == a)
            lh_ob_inv17_watch_closed(o, a, w->handle);
}

/* ---- The store ---- */

/* The revision of a change of a value; 0: the record is another one. */
static uint64_t revision_of(const struct lh_change *change)
{
    uint64_t revision = 0;

    if (change->key_size != 9 || change->key[0] != 'h')
        return 0;
    for (unsigned i = 1; i < 9; i++)
        revision = revision << 8 | change->key[i];
    return revision;
}

static void decided(struct lh_sim_observers *o, uint64_t reign, const struct lh_change *change,
    uint64_t revision, uint64_t at)
{
    struct ldecided *d = lh_alloc(sizeof *d + change->value_size);

    *d = (struct ldecided){
        .reign = reign, .revision = revision, .at = at, .size = change->value_size};
    memcpy(d->record, change->value, change->value_size);
    DL_APPEND(o->leases->decided, d);
}

void lh_ob_leases_decided(
    struct lh_sim_observers *o, const struct lh_change *changes, size_t count, uint64_t at)
{
    struct lh_reign_state state;

    if (!lh_sim_reign_of(o->cluster, o->master->node, &state))
        return;
    for (size_t i = 0; i < count; i++)
        if (revision_of(&changes[i]) != 0 && changes[i].value != NULL)
            decided(o, state.reign, &changes[i], revision_of(&changes[i]), at);
}

void lh_ob_leases_count(struct lh_sim_observers *o, const struct lh_change *changes, size_t count)
{
    uint64_t reign, number, revision = 0;
    struct ldecided *d, *next;

    for (size_t i = 0; i < count; i++)
        if (revision_of(&changes[i]) > revision)
            revision = revision_of(&changes[i]);
    lh_sim_shared_head(o->cluster, &reign, &number);
    if (revision == 0)
        return;
    DL_FOREACH_SAFE(o->leases->decided, d, next) {
        if (d->reign > reign || (d->reign == reign && d->revision > revision))
            continue;
        DL_DELETE(o->leases->decided, d);
        if (d->reign == reign && !failed(o))
            lh_ob_leases_changed(o, d->revision, d->record, d->size, d->at);
        free(d);
    }
}

void lh_ob_leases_changed(struct lh_sim_observers *o, uint64_t revision, const uint8_t *record,
    size_t size, uint64_t decided_at)
{
    struct leases *l = o->leases;
    LeaseholdStored__ValueChange *c = leasehold_stored__value_change__unpack(NULL, size, record);

    LH_ASSERT(c != NULL);
    if (revision <= l->last_revision) {
        /* A record may be written again as it was. */
        leasehold_stored__value_change__free_unpacked(c, NULL);
        return;
    }
    struct lname *n = lh_ob_lname(o, c->name);
    const struct lvalue *now = lh_ob_value_now(n);
    struct lvalue before = now == NULL ? (struct lvalue){0} : *now;
    struct lvalue v = {.revision = revision,
        .at = lh_sim_now(o->sim),
        .decided_at = decided_at,
        .removed = c->removed,
        .attached = c->session.len == SESSION_ID,
        .size = (uint32_t)c->value.len,
        .crc = lh_ob_crc(c->value.data, c->value.len)};
    if (v.attached)
        memcpy(v.session, c->session.data, SESSION_ID);
    LH_GROW(n->values, n->value_capacity, n->value_count + 1);
    n->values[n->value_count++] = v;
    LH_GROW(l->changes, l->change_capacity, l->change_count + 1);
    l->changes[l->change_count++] = (struct lchange){revision, n, v.removed, v.size, v.crc};
    l->last_revision = revision;
    leasehold_stored__value_change__free_unpacked(c, NULL);
    lh_ob_inv15_changed(o, n);
    if (!failed(o))
        lh_ob_inv17_changed(o, n, now == NULL ? NULL : &before);
}

bool lh_ob_leases_settled(struct lh_sim_observers *o, char *text, size_t text_size)
{
    return o->ruin || lh_ob_inv17_settled(o, text, text_size);
}

/* ---- All together ---- */

void lh_ob_leases_init(struct lh_sim_observers *o)
{
    o->leases = lh_alloc(sizeof *o->leases);
    lh_ob_inv16_init(o);
}

void lh_ob_leases_deinit(struct lh_sim_observers *o)
{
    struct leases *l = o->leases;
    struct lname *n, *next;
    struct lrequest *r, *next_request;

    while (l->sessions != NULL)
        forget_session(l, l->sessions);
    while (l->watches != NULL)
        lh_ob_inv17_watch_closed(o, l->watches->client, l->watches->handle);
    lh_ob_inv18_forget(o);
    while (l->decided != NULL) {
        struct ldecided *d = l->decided;
        DL_DELETE(l->decided, d);
        free(d);
    }
    HASH_ITER(hh, l->requests, r, next_request) {
        HASH_DELETE(hh, l->requests, r);
        free(r);
    }
    HASH_ITER(hh, l->names, n, next) {
        HASH_DELETE(hh, l->names, n);
        free(n->text);
        free(n->values);
        free(n->grants);
        free(n);
    }
    free(l->changes);
    free(l->late);
    free(l);
}
