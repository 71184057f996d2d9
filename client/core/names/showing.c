/* What a session shows of locks, requests, cached values and broadcasts (PS-2). */
#include "client/core/names/cache.h"
#include "client/core/names/locks.h"
#include "client/core/names/values.h"

#include <string.h>

struct shown_values {
    struct lh_client_session *s;
    struct lh_client_showing *w;
};

static void show_lock(
    struct lh_client_session *s, struct lh_client_showing *w, struct lh_client_lock *l)
{
    Leasehold__ShownLock *m = lh_client_show_lock(w, strlen(l->name) + l->info_size);

    m->name = l->name;
    m->mode = l->shared ? LEASEHOLD__LOCK_MODE__SHARED : LEASEHOLD__LOCK_MODE__EXCLUSIVE;
    m->token = l->token;
    m->slots = l->slots;
    m->info.data = l->info;
    m->info.len = l->info_size;
    m->recallable = l->recallable;
    if (l->end.ns != UINT64_MAX) {
        m->ends = true;
        m->left_ns = lh_instant_until(s->client->now, l->end).ns;
    }
    l->shown_on = s->stream;
}

static void show_waiting(
    struct lh_client_session *s, struct lh_client_showing *w, struct lh_client_lock *l)
{
    lh_client_acquire_message(lh_client_show_waiting(w, strlen(l->name) + l->info_size), l);
    l->asked_on = s->stream;
}

static void show_locks(struct lh_client_session *s, struct lh_client_showing *w)
{
    struct lh_client_lock *l, *after;

    HASH_ITER(of_name, s->names->by_name, l, after)
        if (lh_client_lock_is_held(l))
            show_lock(s, w, l);
        else if (!l->no_wait) /* that one is asked again */
            show_waiting(s, w, l);
}

static void show_value(void *arg, struct lh_client_cached *e)
{
    struct shown_values *values = arg;
    Leasehold__ShownValue *m = lh_client_show_value(values->w, e->size);

    m->name = e->name;
    m->revision = lh_client_cached_revision(e);
    e->shown_on = values->s->stream;
}

void lh_client_names_show(struct lh_client_session *s, struct lh_client_showing *w)
{
    struct shown_values values = {s, w};
    const char *prefix;
    uint64_t cursor = 0;

    lh_client_guard(s->client);
    lh_client_locks_cut_end(s);
    show_locks(s, w);
    lh_client_cache_each_leased(s, s->client->now, show_value, &values);
    lh_client_unguard(s->client);
    while ((prefix = lh_client_prefix_next(s, &cursor)) != NULL)
        lh_client_show_broadcast(w, prefix);
}
