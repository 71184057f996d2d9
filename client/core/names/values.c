/* Reading values (VAL-1): from memory while the lease runs, else by a request, one for each name
 * at a time. A value that is dropped is forgotten before that is confirmed (VAL-2). */
#include "client/core/names/values.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/names/cache.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* A call that waits for an answer. */
struct lh_client_get {
    struct lh_client_get *prev, *next;
    struct lh_client_read *read;
    struct lh_get_call *call;
    struct lh_timer timer; /* its deadline */
    bool early;            /* it began before the read was sent: any answer will do */
};

/* A read that was asked for. Without calls it renews a lease. */
struct lh_client_read {
    struct lh_client_session *session;
    uint64_t id;
    struct lh_client_value *value; /* what the program has, while it is asked; NULL: nothing */
    struct lh_client_get *gets;
    struct lh_client_op *op; /* not sent yet */
    uint64_t asked_on;       /* the stream on which it was asked last */
    UT_hash_handle of_name, of_id;
    char name[];
};

/* ---- Requests. */

static struct lh_client_read *by_name(const struct lh_client_session *s, const char *name)
{
    struct lh_client_read *r;

    HASH_FIND(of_name, s->names->reads, name, strlen(name), r);
    return r;
}

static struct lh_client_read *by_id(const struct lh_client_session *s, uint64_t id)
{
    struct lh_client_read *r;

    HASH_FIND(of_id, s->names->read_ids, &id, sizeof id, r);
    return r;
}

static bool is_in_flight(const struct lh_client_read *r)
{
    return r->op == NULL && r->asked_on == r->session->stream &&
           r->session->phase == LH_CLIENT_STREAM_UP;
}

/* Under a new id, so that no older answer is taken for this one's. */
static void send_read(struct lh_client_read *r)
{
    struct lh_client_session *s = r->session;
    struct lh_client_get *g;
    struct lh_client_op *op = lh_client_op_add(s, LEASEHOLD__LEASE_OP__OP_READ, 0, &r->op);

    if (op == NULL)
        return; /* when a stream is up */
    const struct lh_client_cached *e = lh_client_cache_find(s, r->name);
    lh_client_value_unref(r->value);
    r->value = e == NULL ? NULL : lh_client_value_ref(e->value);
    HASH_DELETE(of_id, s->names->read_ids, r);
    r->id = ++s->names->last_id;
    HASH_ADD(of_id, s->names->read_ids, id, sizeof r->id, r);
    r->asked_on = s->stream;
    op->size += strlen(r->name);
    op->body.read.id = r->id;
    op->body.read.name = r->name;
    op->body.read.revision = r->value == NULL ? 0 : r->value->view.revision;
    op->body.read.lease = true;
    DL_FOREACH(r->gets, g)
        g->early = true;
}

static struct lh_client_read *read_for(struct lh_client_session *s, const char *name)
{
    struct lh_client_read *r = by_name(s, name);
    size_t size = strlen(name);

    if (r != NULL)
        return r;
    r = lh_alloc(sizeof *r + size + 1);
    memcpy(r->name, name, size);
    r->session = s;
    r->id = ++s->names->last_id;
    HASH_ADD(of_name, s->names->reads, name, size, r);
    HASH_ADD(of_id, s->names->read_ids, id, sizeof r->id, r);
    send_read(r);
    return r;
}

void lh_client_read_aside(struct lh_client_session *s, const char *name)
{
    if (s->phase == LH_CLIENT_STREAM_UP &&
        HASH_CNT(of_name, s->names->reads) < s->client->config.session_reads)
        read_for(s, name);
}

static void free_read(struct lh_client_read *r)
{
    struct lh_client_session *s = r->session;

    LH_ASSERT(r->gets == NULL);
    if (r->op != NULL)
        lh_client_op_drop(s, r->op);
    HASH_DELETE(of_name, s->names->reads, r);
    HASH_DELETE(of_id, s->names->read_ids, r);
    lh_client_value_unref(r->value);
    free(r);
}

static void end_get(struct lh_client_get *g, bool complete, int error, const char *text,
    struct lh_client_value *value)
{
    struct lh_client_host *c = g->read->session->client;

    DL_DELETE(g->read->gets, g);
    g->read->session->names->get_count--;
    lh_timer_unset(&c->timers, &g->timer);
    if (complete) {
        g->call->value = error == LH_OK ? lh_client_value_ref(value) : NULL;
        lh_client_complete(c, &g->call->call, error, text);
    }
    free(g);
}

static void get_late(void *core, struct lh_timer *timer)
{
    struct lh_client_get *g = LH_OWNER(timer, struct lh_client_get, timer);
    struct lh_client_read *r = g->read;

    (void)core;
    end_get(g, true, LH_ERR_DEADLINE_EXCEEDED, "the master did not answer in time", NULL);
    if (r->gets == NULL && !is_in_flight(r))
        free_read(r);
}

/* True: it was answered from memory. The last third of the lease: it is renewed meanwhile. */
static bool serve(struct lh_client_session *s, struct lh_get_call *call)
{
    struct lh_client_host *c = s->client;
    struct lh_client_cached *e = lh_client_cache_find(s, call->name);

    if (e == NULL || !lh_client_cached_is_current(e, c->now))
        return false;
    atomic_store_explicit(&e->used, true, memory_order_relaxed);
    call->from_cache = true;
    call->value = lh_client_value_ref(e->value);
    if (e->prefix == NULL && lh_instant_reached(c->now, e->renew_at) &&
        HASH_CNT(of_name, s->names->reads) < c->config.session_reads) {
        LH_MARK("cache-lease-renewed-early");
        read_for(s, call->name);
    }
    lh_client_complete(
        c, &call->call, e->value == NULL ? LH_ERR_NOT_FOUND : LH_OK, "there is no such value");
    return true;
}

void lh_client_get(struct lh_get_call *call)
{
    struct lh_client_session *s = call->session;
    struct lh_client_host *c = s->client;
    size_t size = call->name == NULL ? 0 : strnlen(call->name, LH_CLIENT_NAME_BYTES_MAX + 1);

    call->value = NULL;
    call->from_cache = false;
    if (lh_client_session_refuses(s, &call->call))
        return;
    if (size == 0 || size > LH_CLIENT_NAME_BYTES_MAX) {
        lh_client_complete(
            c, &call->call, LH_ERR_INVALID_ARGUMENT, "a value's name has 1 to 1024 bytes");
        return;
    }
    if (serve(s, call))
        return;
    if (s->names->get_count >= c->config.session_reads ||
        HASH_CNT(of_name, s->names->reads) >= c->config.session_reads) {
        lh_client_complete(
            c, &call->call, LH_ERR_NO_MEMORY, "too many reads of this session wait for answers");
        return;
    }
    struct lh_client_get *g = lh_alloc(sizeof *g);
    g->call = call;
    g->timer.fire = get_late;
    g->read = read_for(s, call->name);
    g->early = !is_in_flight(g->read);
    DL_APPEND(g->read->gets, g);
    s->names->get_count++;
    lh_timer_set(&c->timers, &g->timer, call->deadline);
}

/* ---- Answers. */

/* Those that began before the read was sent, or all. */
static void answer_gets(
    struct lh_client_read *r, bool all, int error, const char *text, struct lh_client_value *value)
{
    struct lh_client_get *g, *after;

    DL_FOREACH_SAFE(r->gets, g, after)
        if (all || g->early)
            end_get(g, true, error, text, value);
}

/* What the answer says is there: a reference, or NULL. False: that makes no sense. */
static bool value_of(
    const struct lh_client_read *r, const Leasehold__ValueRead *m, struct lh_client_value **value)
{
    *value = NULL;
    if (m->error == LEASEHOLD__ERROR_CODE__NOT_FOUND)
        return true;
    if (!m->same) {
        *value = lh_client_value_create(m->revision, m->value.data, m->value.len, 0);
        return true;
    }
    if (r->value == NULL || r->value->view.revision != m->revision)
        return false;
    LH_MARK("value-revalidated");
    *value = lh_client_value_ref(r->value);
    return true;
}

/* The end of the lease that the answer gives, or of what a change waits for (VAL-2); zero: it
 * gives none. */
static struct lh_instant lease_end(const struct lh_client_session *s, const Leasehold__ValueRead *m)
{
    struct lh_instant end = {0};

    if (m->leased == (m->changing == 0) && lh_client_session_sent(s, m->stamp))
        end = lh_term_holder_end((struct lh_instant){m->stamp}, lh_nanoseconds(m->term_ns));
    return lh_instant_before(s->client->now, end) ? end : (struct lh_instant){0};
}

static struct lh_instant two_thirds(struct lh_instant from, struct lh_instant end)
{
    uint64_t whole = lh_instant_until(from, end).ns;

    return lh_instant_add(from, lh_nanoseconds(whole - whole / 3));
}

static const struct lh_client_prefix *prefix_of(
    struct lh_client_session *s, const Leasehold__ValueRead *m)
{
    return m->prefix_revision == 0 ? NULL : lh_client_prefix_subscribe(s, m->prefix);
}

/* Takes `value` over. */
static void cache(struct lh_client_session *s, const char *name, const Leasehold__ValueRead *m,
    struct lh_client_value *value, struct lh_instant end)
{
    const struct lh_client_prefix *prefix = prefix_of(s, m);
    struct lh_client_cached *e = lh_client_cache_find(s, name);
    bool same =
        e != NULL && lh_client_cached_revision(e) == (value == NULL ? 0 : value->view.revision);
    struct lh_instant earlier = same ? e->end : (struct lh_instant){0};

    if (end.ns == 0 && prefix == NULL) {
        if (e != NULL && !same)
            lh_client_cache_remove(s, e);
        lh_client_value_unref(value);
        return;
    }
    lh_client_guard(s->client);
    e = lh_client_cache_put(s, name, value);
    e->end = lh_instant_max(end, earlier);
    e->renew_at = two_thirds(s->client->now, e->end);
    e->prefix = prefix;
    e->prefix_revision = m->prefix_revision;
    lh_client_unguard(s->client);
}

static void take(struct lh_client_session *s, const Leasehold__ValueRead *m)
{
    struct lh_client_read *r = by_id(s, m->id);
    struct lh_instant end = lease_end(s, m);
    struct lh_client_value *value;
    int error = lh_error_from_wire(m->error);

    if (r == NULL || r->op != NULL)
        return; /* it was not asked, or is to be asked again */
    if (error != LH_OK && error != LH_ERR_NOT_FOUND) {
        answer_gets(r, true, error, m->text, NULL);
        free_read(r);
        return;
    }
    if (!value_of(r, m, &value)) {
        struct lh_client_cached *e = lh_client_cache_find(s, r->name);
        if (e != NULL)
            lh_client_cache_remove(s, e);
        send_read(r);
        return;
    }
    /* With a lease the value is current now. Without, it was when the master answered: that may
     * have been before a call began. */
    answer_gets(r, end.ns != 0, error, "there is no such value", value);
    cache(s, r->name, m, value, end);
    if (r->gets == NULL) {
        free_read(r);
        return;
    }
    LH_MARK("read-again-for-a-later-call");
    send_read(r);
}

void lh_client_value_read(struct lh_client_session *s, const Leasehold__ValueRead *m)
{
    if (LH_PLANTED("drop-confirmed-before-lease") && m->leased && s->names->aside == NULL) {
        s->names->aside = (Leasehold__ValueRead *)(void *)lh_client_copy_message(&m->base);
        return;
    }
    take(s, m);
}

void lh_client_values_late(struct lh_client_session *s)
{
    Leasehold__ValueRead *m = s->names->aside;

    if (m == NULL)
        return;
    s->names->aside = NULL;
    take(s, m);
    lh_wire_free(&m->base);
}

void lh_client_read_refused(struct lh_client_session *s, const Leasehold__Refused *m)
{
    struct lh_client_read *r = by_id(s, m->id);
    int error = lh_error_from_wire(m->error);

    if (r == NULL)
        return;
    answer_gets(r, true, error == LH_OK ? LH_ERR_UNAVAILABLE : error, m->text, NULL);
    free_read(r);
}

/* VAL-2: it is not served any more when this is confirmed. What is not cached is confirmed, too:
 * the master may wait for a lease that was evicted here. */
void lh_client_value_drop(struct lh_client_session *s, const Leasehold__Drop *m)
{
    struct lh_client_cached *e = lh_client_cache_find(s, m->name);
    size_t size = strlen(m->name);

    if (e != NULL && !LH_PLANTED("cache-served-after-drop"))
        lh_client_cache_remove(s, e);
    struct lh_client_op *op = lh_client_op_add(s, LEASEHOLD__LEASE_OP__OP_DROPPED, size + 1, NULL);
    if (op == NULL)
        return;
    memcpy(op->bytes, m->name, size);
    op->body.dropped.name = op->bytes;
    op->body.dropped.change = m->change;
}

/* ---- Streams. */

struct continued {
    struct lh_client_session *s;
    struct lh_instant end;
};

static void go_on(void *arg, struct lh_client_cached *e)
{
    struct continued *w = arg;

    if (e->shown_on == w->s->stream) {
        e->end = w->end;
        e->renew_at = two_thirds(w->s->client->now, w->end);
    } else {
        e->end = (struct lh_instant){0};
    }
}

void lh_client_values_shown(struct lh_client_session *s, const Leasehold__Shown *m)
{
    struct continued w = {s, {0}};

    for (size_t i = 0; i < m->n_dropped; i++) {
        struct lh_client_cached *e = lh_client_cache_find(s, m->dropped[i]);
        if (e != NULL)
            lh_client_cache_remove(s, e);
    }
    /* In place of the old terms, which this master may not know (LEASE-7). */
    if (m->values_term_ns != 0)
        w.end =
            lh_term_holder_end((struct lh_instant){m->stamp}, lh_nanoseconds(m->values_term_ns));
    lh_client_cache_each_leased(s, (struct lh_instant){0}, go_on, &w);
}

void lh_client_reads_up(struct lh_client_session *s)
{
    struct lh_client_read *r, *after;

    HASH_ITER(of_name, s->names->reads, r, after)
        if (r->gets == NULL)
            free_read(r);
        else if (r->op == NULL)
            send_read(r);
}

void lh_client_reads_end(struct lh_client_session *s, bool complete, int error, const char *text)
{
    struct lh_client_read *r, *after;

    HASH_ITER(of_name, s->names->reads, r, after) {
        while (r->gets != NULL)
            end_get(r->gets, complete, error, text, NULL);
        free_read(r);
    }
}

void lh_client_values_deinit(struct lh_client_session *s)
{
    lh_client_cache_clear(s);
    if (s->names->aside != NULL)
        lh_wire_free(&s->names->aside->base);
    s->names->aside = NULL;
}

void lh_client_values_check(const struct lh_client_session *s)
{
    const struct lh_client_read *r, *after;
    const struct lh_client_get *g;

    lh_client_cache_check(s);
    HASH_ITER(of_name, s->names->reads, r, after) {
        LH_ASSERT(by_id(s, r->id) == r && by_name(s, r->name) == r);
        DL_FOREACH(r->gets, g)
            LH_ASSERT(g->read == r && lh_timer_is_set(&g->timer));
    }
    LH_ASSERT(HASH_CNT(of_name, s->names->reads) == HASH_CNT(of_id, s->names->read_ids));
}
