/* The library: watches, of values and of locks. The core delivers whole replies; here they are
 * taken apart. */
#include "client/library/programs.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

struct lh_watch {
    struct lh_cluster *cluster;
    struct lh_client_watch *core;
    Leasehold__WatchReply *reply; /* whose events are given out; NULL: none */
    bool reset;                   /* is to be said first */
    bool locks;
    size_t at;                    /* the next event */
    struct lh_lock_holder holder; /* of the event that was given out last */
    char session[33];             /* its */
};

static int open_watch(struct lh_cluster *cluster, const char *prefix, uint64_t from, bool locks,
    struct lh_watch **watch)
{
    if (cluster == NULL || prefix == NULL || watch == NULL)
        return lh_missing(cluster == NULL ? "cluster" : prefix == NULL ? "prefix" : "watch");
    struct lh_watch_open_call call = {
        .call.kind = LH_CALL_WATCH_OPEN, .prefix = prefix, .from = from, .locks = locks};
    int error = lh_call_wait(cluster, &call.call);
    if (error != LH_OK)
        return error;
    struct lh_watch *w = lh_alloc(sizeof *w);
    w->cluster = cluster;
    w->core = call.watch;
    w->locks = locks;
    *watch = w;
    return LH_OK;
}

int lh_watch_open(struct lh_cluster *cluster, const char *prefix, uint64_t from,
    uint64_t timeout_ms, struct lh_watch **watch)
{
    (void)timeout_ms; /* lh_watch_next() waits */
    return open_watch(cluster, prefix, from, false, watch);
}

int lh_watch_locks_open(
    struct lh_cluster *cluster, const char *prefix, uint64_t timeout_ms, struct lh_watch **watch)
{
    (void)timeout_ms;
    return open_watch(cluster, prefix, 0, true, watch);
}

/* The next reply, in the place of the one that is used up. */
static int fetch(struct lh_watch *w, struct lh_instant deadline)
{
    struct lh_watch_next_call call = {
        .call.kind = LH_CALL_WATCH_NEXT, .watch = w->core, .deadline = deadline};
    int error = lh_call_wait(w->cluster, &call.call);

    if (error != LH_OK)
        return error;
    lh_free_reply(w->reply);
    w->reply = (Leasehold__WatchReply *)(void *)call.reply;
    w->reset = w->reply->reset;
    w->at = 0;
    return LH_OK;
}

static enum lh_watch_kind kind_of(Leasehold__LockEventKind kind)
{
    switch (kind) {
    case LEASEHOLD__LOCK_EVENT_KIND__LOCK_GRANTED:
        return LH_WATCH_LOCK_GRANTED;
    case LEASEHOLD__LOCK_EVENT_KIND__LOCK_RELEASED:
        return LH_WATCH_LOCK_RELEASED;
    case LEASEHOLD__LOCK_EVENT_KIND__LOCK_CUT:
        return LH_WATCH_LOCK_CUT;
    case LEASEHOLD__LOCK_EVENT_KIND__LOCK_ENDED:
    default:
        return LH_WATCH_LOCK_ENDED;
    }
}

/* A session's id that is too long is some other program's that answers in the master's place. */
static void set_session(struct lh_watch *w, const ProtobufCBinaryData *id)
{
    w->session[0] = '\0';
    for (size_t i = 0; i < id->len && i < 16; i++)
        snprintf(w->session + 2 * i, 3, "%02x", id->data[i]);
}

static void lock_event(
    struct lh_watch *w, const Leasehold__LockEvent *e, struct lh_watch_event *event)
{
    static Leasehold__LockHolder none = LEASEHOLD__LOCK_HOLDER__INIT;
    const Leasehold__LockHolder *h = e->holder != NULL ? e->holder : &none;

    set_session(w, &h->session);
    w->holder = (struct lh_lock_holder){
        .session = w->session,
        .label = h->label,
        .host = h->host,
        .process = h->process,
        .shared = h->mode == LEASEHOLD__LOCK_MODE__SHARED,
        .token = h->token,
        .left_ms = h->left_ms,
        .cut = h->cut,
        .info = h->info.data,
        .info_size = h->info.len,
    };
    *event =
        (struct lh_watch_event){.kind = kind_of(e->kind), .name = e->name, .holder = &w->holder};
}

static size_t count_of(const struct lh_watch *w)
{
    return w->locks ? w->reply->n_locks : w->reply->n_events;
}

int lh_watch_next(struct lh_watch *w, uint64_t timeout_ms, struct lh_watch_event *event)
{
    struct lh_instant deadline = lh_deadline(timeout_ms);

    if (w == NULL || event == NULL)
        return lh_missing(w == NULL ? "watch" : "event");
    if (lh_process_check(w->cluster) != LH_OK)
        return LH_ERR_CLOSED;
    while (w->reply == NULL || (!w->reset && w->at == count_of(w))) {
        int error = fetch(w, deadline);
        if (error != LH_OK)
            return error;
    }
    if (w->reset) {
        w->reset = false;
        *event = (struct lh_watch_event){.kind = LH_WATCH_RESET, .name = ""};
        return LH_OK;
    }
    if (w->locks) {
        lock_event(w, w->reply->locks[w->at++], event);
        return LH_OK;
    }
    const Leasehold__WatchEvent *e = w->reply->events[w->at++];
    *event = (struct lh_watch_event){
        .kind = e->removed ? LH_WATCH_REMOVED : LH_WATCH_CHANGED,
        .name = e->name,
        .data = e->value.data,
        .size = e->value.len,
        .revision = e->revision,
        .attached = e->session.len > 0,
    };
    return LH_OK;
}

void lh_watch_close(struct lh_watch *w)
{
    if (w == NULL || lh_is_inherited(w->cluster))
        return;
    struct lh_watch_close_call call = {.call.kind = LH_CALL_WATCH_CLOSE, .watch = w->core};
    (void)lh_call_wait(w->cluster, &call.call);
    lh_free_reply(w->reply);
    free(w);
}
