/* Watches: events of what a member has applied, by revision, and all of one revision together.
 * What etcd 3.4 does not promise is not kept here: a response to a progress request passes events
 * that are still to be sent (issue 15697). */
#include "sim/etcd/internal.h"

#include "base/alloc.h"
#include "proto/codec.h"

#include <stdlib.h>

static void free_watch(struct watch *w)
{
    free((void *)(uintptr_t)w->range.key);
    free((void *)(uintptr_t)w->range.end);
    free(w);
}

void lh_etcd_stream_free(struct stream *s)
{
    struct watch *next;

    for (struct watch *w = s->watches; w != NULL; w = next) {
        next = w->next;
        free_watch(w);
    }
    free(s);
}

static Etcdserverpb__WatchResponse *response(const struct member *m, int64_t revision, int64_t id)
{
    struct lh_etcd_view view = lh_etcd_view(m);
    Etcdserverpb__WatchResponse *to = lh_alloc(sizeof *to);

    etcdserverpb__watch_response__init(to);
    to->header = lh_etcd_header(&view, revision);
    to->watch_id = id;
    return to;
}

static void say(const struct stream *s, Etcdserverpb__WatchResponse *to, struct lh_effects *fx)
{
    lh_fx_send(fx, s->link, &to->base, NULL);
    lh_wire_free(&to->base);
}

void lh_etcd_stream_news(struct member *m, struct stream *s)
{
    struct lh_sim_etcd *e = m->etcd;

    if (s->due_at == UINT64_MAX)
        s->due_at = lh_sim_now(e->sim) + lh_etcd_draw(e, &e->config.watch) + e->watch_extra.ns;
    lh_etcd_wake(e, s->due_at);
}

/* ---- Requests ---- */

static void create(struct member *m, struct stream *s, const Etcdserverpb__WatchCreateRequest *q,
    struct lh_effects *fx)
{
    static const uint8_t zero[1];
    int64_t now = lh_etcd_view(m).revision;
    struct lh_etcd_range r = {q->key.data, q->range_end.data, q->key.len, q->range_end.len};

    if (r.key_size == 0) {
        r.key = zero;
        r.key_size = 1;
    }
    if (lh_etcd_range_is_empty(&r)) {
        Etcdserverpb__WatchResponse *to = response(m, now, -1);
        to->created = to->canceled = true;
        to->cancel_reason = lh_strdup("mvcc: watcher range is empty");
        say(s, to, fx);
        return;
    }
    struct watch *w = lh_alloc(sizeof *w);
    w->id = s->next_id++;
    w->range = (struct lh_etcd_range){lh_etcd_bytes(r.key, r.key_size).data,
        lh_etcd_bytes(r.end, r.end_size).data, r.key_size, r.end_size};
    w->from = q->start_revision == 0 ? now + 1 : q->start_revision;
    w->fragment = q->fragment;
    struct watch **at = &s->watches;
    while (*at != NULL)
        at = &(*at)->next;
    *at = w;
    Etcdserverpb__WatchResponse *to = response(m, now, w->id);
    to->created = true;
    say(s, to, fx);
    if (w->from <= now)
        lh_etcd_stream_news(m, s);
}

static void cancel(struct member *m, struct stream *s, int64_t id, struct lh_effects *fx)
{
    for (struct watch **at = &s->watches; *at != NULL; at = &(*at)->next) {
        struct watch *w = *at;
        if (w->id != id)
            continue;
        Etcdserverpb__WatchResponse *to = response(m, lh_etcd_view(m).revision, id);
        to->canceled = true;
        say(s, to, fx);
        *at = w->next;
        free_watch(w);
        return;
    }
}

void lh_etcd_stream_request(
    struct member *m, struct stream *s, const Etcdserverpb__WatchRequest *q, struct lh_effects *fx)
{
    switch (q->request_union_case) {
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST:
        create(m, s, q->create_request, fx);
        break;
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST:
        cancel(m, s, q->cancel_request->watch_id, fx);
        break;
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST:
        say(s, response(m, lh_etcd_view(m).revision, -1), fx);
        break;
    default:
        break;
    }
}

/* ---- Events ---- */

static Etcdserverpb__Event *event_of(const struct lh_sim_etcd_record *r)
{
    Etcdserverpb__Event *event = lh_alloc(sizeof *event);
    Etcdserverpb__KeyValue *kv = lh_alloc(sizeof *kv);

    etcdserverpb__event__init(event);
    etcdserverpb__key_value__init(kv);
    event->type = r->version == 0 ? ETCDSERVERPB__EVENT__EVENT_TYPE__DELETE
                                  : ETCDSERVERPB__EVENT__EVENT_TYPE__PUT;
    event->kv = kv;
    kv->key = lh_etcd_bytes(r->key, r->key_size);
    kv->value = lh_etcd_bytes(r->value, r->value_size);
    kv->create_revision = r->create_revision;
    kv->mod_revision = r->mod_revision;
    kv->version = r->version;
    return event;
}

/* Events that go out together. */
struct batch {
    const struct member *member;
    const struct stream *stream;
    const struct watch *watch;
    struct lh_effects *fx;
    Etcdserverpb__WatchResponse *to; /* NULL: none yet */
    size_t capacity;
};

static void send_batch(struct batch *b, bool fragment)
{
    if (b->to == NULL)
        return;
    b->to->fragment = fragment;
    say(b->stream, b->to, b->fx);
    b->to = NULL;
}

static void add(struct batch *b, const struct lh_sim_etcd_record *r)
{
    if (b->to != NULL && b->watch->fragment &&
        b->to->n_events >= b->member->etcd->config.fragment_events)
        send_batch(b, true);
    if (b->to == NULL) {
        b->to = response(b->member, lh_etcd_view(b->member).revision, b->watch->id);
        b->capacity = 0;
    }
    LH_GROW(b->to->events, b->capacity, b->to->n_events + 1);
    b->to->events[b->to->n_events++] = event_of(r);
}

static void send_events(
    struct member *m, struct stream *s, struct watch *w, int64_t to, struct lh_effects *fx)
{
    const struct lh_sim_etcd *e = m->etcd;
    struct batch b = {.member = m, .stream = s, .watch = w, .fx = fx};
    int64_t revision = 0;
    bool lost = false;

    for (size_t i = lh_etcd_store_change(&e->store, w->from); i < e->store.change_count; i++) {
        const struct lh_sim_etcd_record *r = &e->store.changes[i]->seen;
        if (r->mod_revision > to)
            break;
        if (!lh_etcd_in_range(&w->range, r->key, r->key_size))
            continue;
        if (r->mod_revision != revision) {
            revision = r->mod_revision;
            lost = lh_etcd_chance(e, e->lose_events);
            if (lh_etcd_chance(e, e->config.alone_per_million))
                send_batch(&b, false);
        }
        if (!lost)
            add(&b, r);
    }
    send_batch(&b, false);
    w->from = to + 1;
}

static void cancel_as_compacted(const struct member *m, const struct stream *s,
    const struct watch *w, int64_t revision, struct lh_effects *fx)
{
    Etcdserverpb__WatchResponse *to = response(m, 0, w->id);

    to->canceled = true;
    to->compact_revision = revision;
    say(s, to, fx);
}

void lh_etcd_stream_flush(struct member *m, struct stream *s, struct lh_effects *fx)
{
    struct lh_etcd_view view = lh_etcd_view(m);

    s->due_at = UINT64_MAX;
    for (struct watch **at = &s->watches; *at != NULL;) {
        struct watch *w = *at;
        bool due = w->from <= view.revision;
        if (due && (w->doomed || w->from < view.compacted)) {
            cancel_as_compacted(m, s, w, w->doomed ? view.revision : view.compacted, fx);
            *at = w->next;
            free_watch(w);
            continue;
        }
        if (due)
            send_events(m, s, w, view.revision, fx);
        at = &w->next;
    }
}
