/* What has to happen in the order in which a core emits it, but not under the loop's lock: commits,
 * completions, log lines, the end. */
#include "runtime/dispatch.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/log.h"

#include <stdlib.h>

void lh_outbox_post(struct lh_loop *loop, struct lh_effect *e)
{
    struct outbox *o = &loop->outbox;

    LH_GROW(o->items, o->capacity, o->count + 1);
    o->items[o->count++] = (struct parcel){
        .kind = e->kind,
        .level = e->level,
        .error = e->error,
        .ticket = e->ticket,
        .call = e->call,
        .text = e->text,
        .changes = e->changes,
        .change_count = e->change_count,
    };
    atomic_store(&loop->outbox_waits, true);
    e->text = NULL;
    e->changes = NULL;
    e->change_count = 0;
}

static void tell_stopped(struct lh_loop *loop, int error)
{
    if (loop->config.on_stopped != NULL)
        loop->config.on_stopped(loop->config.arg, error);
    pthread_mutex_lock(&loop->lock);
    loop->stopped_notified = true;
    pthread_cond_broadcast(&loop->stopped_changed);
    pthread_mutex_unlock(&loop->lock);
}

static void persist(struct lh_loop *loop, struct parcel *p)
{
    LH_ASSERT(loop->config.persist != NULL);
    atomic_store(&loop->persisting, true);
    loop->config.persist(loop->config.store, p->ticket, p->changes, p->change_count);
    atomic_store(&loop->persisting, false);
}

static void deliver(struct lh_loop *loop, struct parcel *p)
{
    if (p->beat) {
        atomic_store(&loop->beat_waits, false);
        atomic_fetch_add(&loop->beats, 1);
        return;
    }
    switch (p->kind) {
    case LH_FX_COMPLETE:
        loop->config.on_complete(loop->config.arg, p->call, p->error);
        break;
    case LH_FX_PERSIST:
        persist(loop, p);
        break;
    case LH_FX_LOG:
        lh_log(p->level, loop->config.name, "%s", p->text);
        break;
    case LH_FX_STOPPED:
        tell_stopped(loop, p->error);
        break;
    default:
        LH_UNREACHABLE();
    }
    free(p->text);
}

void lh_outbox_empty(struct lh_loop *loop)
{
    if (loop->delivering)
        return;
    loop->delivering = true;
    while (loop->outbox.count > 0) {
        struct outbox full = loop->outbox;
        loop->outbox = loop->sending;
        loop->outbox.count = 0;
        loop->sending = (struct outbox){0};
        pthread_mutex_unlock(&loop->lock);
        for (size_t i = 0; i < full.count; i++)
            deliver(loop, &full.items[i]);
        if (full.capacity > ITEMS_KEPT) {
            free(full.items);
            full = (struct outbox){0};
        }
        lh_dispatch_lock(loop);
        loop->sending = full;
    }
    atomic_store(&loop->outbox_waits, false);
    loop->delivering = false;
}
