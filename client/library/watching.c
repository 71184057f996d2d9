/* The library: watches. The core delivers whole replies; here they are taken apart. */
#include "client/library/programs.h"

#include "base/alloc.h"

#include <stdlib.h>

struct lh_watch {
    struct lh_cluster *cluster;
    struct lh_client_watch *core;
    Leasehold__WatchReply *reply; /* whose events are given out; NULL: none */
    bool reset;                   /* is to be said first */
    size_t at;                    /* the next event */
};

int lh_watch_open(struct lh_cluster *cluster, const char *prefix, uint64_t from,
    uint64_t timeout_ms, struct lh_watch **watch)
{
    (void)timeout_ms; /* lh_watch_next() waits */
    if (cluster == NULL || prefix == NULL || watch == NULL)
        return lh_missing(cluster == NULL ? "cluster" : prefix == NULL ? "prefix" : "watch");
    struct lh_watch_open_call call = {
        .call.kind = LH_CALL_WATCH_OPEN, .prefix = prefix, .from = from};
    int error = lh_call_wait(cluster, &call.call);
    if (error != LH_OK)
        return error;
    struct lh_watch *w = lh_alloc(sizeof *w);
    w->cluster = cluster;
    w->core = call.watch;
    *watch = w;
    return LH_OK;
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

int lh_watch_next(struct lh_watch *w, uint64_t timeout_ms, struct lh_watch_event *event)
{
    struct lh_instant deadline = lh_deadline(timeout_ms);

    if (w == NULL || event == NULL)
        return lh_missing(w == NULL ? "watch" : "event");
    while (w->reply == NULL || (!w->reset && w->at == w->reply->n_events)) {
        int error = fetch(w, deadline);
        if (error != LH_OK)
            return error;
    }
    if (w->reset) {
        w->reset = false;
        *event = (struct lh_watch_event){.kind = LH_WATCH_RESET, .name = ""};
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
    if (w == NULL)
        return;
    struct lh_watch_close_call call = {.call.kind = LH_CALL_WATCH_CLOSE, .watch = w->core};
    (void)lh_call_wait(w->cluster, &call.call);
    lh_free_reply(w->reply);
    free(w);
}
