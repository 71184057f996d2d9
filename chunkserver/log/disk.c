/* Disk operations under way: whom a completion concerns, and what a shortage makes wait.
 *
 * That the machine has no descriptor or no memory for an operation says nothing of the disk, nor of
 * the replica: the operation waits here and is asked again, for as long as it takes. Whoever wanted
 * it sees only that it takes long, and SES-6 sees the same. Asking a sync again is sound: it was
 * not tried (FAIL-5), and a later one covers what the first was to cover. Nor does the order among
 * operations suffer: to the rest of the core what waits is under way. */
#include "chunkserver/log/disk.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/log/replica.h"

#include <inttypes.h>
#include <stdlib.h>
#include <utlist.h>

static void ask(struct lh_cs_logs *logs, struct lh_cs_ticket *t, struct lh_buf *data)
{
    struct lh_effects *fx = logs->cs->fx;

    lh_fx_disk(fx, t->id, t->replica == NULL ? LH_PROBE_FILE : t->replica->chunk, t->op, t->offset,
        t->length, data);
    fx->items[fx->count - 1].for_reply = t->for_reply;
}

struct lh_cs_ticket *lh_cs_disk_ask(struct lh_cs_logs *logs, const struct lh_cs_disk_user *user,
    struct lh_cs_replica *r, void *owner, const struct lh_cs_disk_request *request)
{
    struct lh_cs_disk *d = &logs->disk;
    struct lh_cs_ticket *t = lh_alloc(sizeof *t);

    t->id = ++d->last;
    t->user = user;
    t->replica = r;
    t->owner = owner;
    t->began = logs->cs->now;
    t->op = request->op;
    t->offset = request->offset;
    t->length = request->length;
    t->for_reply = request->for_reply;
    if (HASH_COUNT(d->tickets) == 0)
        d->quiet_since = logs->cs->now;
    HASH_ADD(hh, d->tickets, id, sizeof t->id, t);
    if (r != NULL)
        r->outstanding++;
    ask(logs, t, request->data);
    return t;
}

/* ------------------------------------------------------------------------------------------------
 * Shortages. */

/* Does it still matter to anybody? A read whose reader is gone does not. */
static bool wanted(const struct lh_cs_ticket *t)
{
    return !t->user->owned || t->owner != NULL;
}

/* A reader can ask another member: it is not kept waiting for long. */
static bool patient(const struct lh_cs_logs *logs, const struct lh_cs_ticket *t)
{
    struct lh_duration waited = lh_instant_until(t->began, logs->cs->now);

    return !t->user->impatient ||
           waited.ns < lh_milliseconds(logs->cs->config.bounds.shortage_read_ms).ns;
}

static void starve(struct lh_cs_logs *logs, struct lh_cs_ticket *t, struct lh_buf *bytes)
{
    struct lh_cs_disk *d = &logs->disk;
    struct lh_cs_host *cs = logs->cs;

    LH_MARK("disk-shortage");
    cs->counts.disk_shortages++;
    if (d->shortage.starved == NULL) {
        d->shortage.times = 0;
        d->shortage.pause = lh_milliseconds(cs->config.bounds.shortage_pause_ms);
        lh_fx_log(cs->fx, LH_WARN,
            "the machine is short of descriptors or memory for the disk: what cannot be begun now "
            "is tried again");
    }
    if (!t->starved) {
        t->starved = true;
        DL_APPEND(d->shortage.starved, t);
    }
    d->shortage.times++;
    t->waiting = true;
    t->bytes = lh_buf_take(bytes);
    if (!lh_timer_is_set(&d->shortage.timer))
        lh_timer_set(&cs->timers, &d->shortage.timer, lh_instant_add(cs->now, d->shortage.pause));
}

static void no_longer_starved(struct lh_cs_logs *logs, struct lh_cs_ticket *t)
{
    struct lh_cs_disk *d = &logs->disk;

    DL_DELETE(d->shortage.starved, t);
    if (d->shortage.starved != NULL)
        return;
    LH_MARK("disk-shortage-over");
    lh_fx_log(logs->cs->fx, LH_WARN,
        "the shortage is over: operations on the disk met it %" PRIu64 " times", d->shortage.times);
}

/* What waits because of a shortage is tried again. */
static void ask_again(void *core, struct lh_timer *timer)
{
    struct lh_cs_logs *logs = LH_OWNER(timer, struct lh_cs_logs, disk.shortage.timer);
    struct lh_cs_disk *d = &logs->disk;
    struct lh_cs_ticket *t, *next;

    (void)core;
    d->shortage.pause = lh_duration_min(lh_nanoseconds(d->shortage.pause.ns * 2),
        lh_milliseconds(logs->cs->config.bounds.shortage_pause_most_ms));
    DL_FOREACH_SAFE(d->shortage.starved, t, next) {
        if (!t->waiting)
            continue;
        t->waiting = false;
        if (wanted(t)) {
            struct lh_buf bytes = lh_buf_take(&t->bytes);
            ask(logs, t, &bytes);
            continue;
        }
        struct lh_input in = {
            .kind = LH_IN_DISK, .ticket = t->id, .op = t->op, .error = LH_ERR_CANCELLED};
        lh_cs_disk_done(logs, &in);
    }
}

bool lh_cs_disk_stands_still(const struct lh_cs_logs *logs, struct lh_duration limit)
{
    const struct lh_cs_disk *d = &logs->disk;
    const struct lh_cs_ticket *t;

    if (HASH_COUNT(d->tickets) > 0 &&
        lh_instant_until(d->quiet_since, logs->cs->now).ns >= limit.ns)
        return true;
    DL_FOREACH(d->shortage.starved, t) {
        if (!t->user->owned && !t->user->unleased &&
            lh_instant_until(t->began, logs->cs->now).ns >= limit.ns)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------
 * Completions. */

static bool shortage_counts(const struct lh_cs_ticket *t)
{
    return !LH_PLANTED("shortage-condemns-replica") &&
           !(t->op == LH_DISK_SYNC && LH_PLANTED("shortage-of-sync-forgotten"));
}

static void measure(struct lh_cs_host *cs, const struct lh_cs_ticket *t)
{
    if (t->op == LH_DISK_WRITE)
        lh_histogram_note(&cs->counts.disk_write, lh_instant_until(t->began, cs->now));
    else if (t->op == LH_DISK_SYNC)
        lh_histogram_note(&cs->counts.disk_sync, lh_instant_until(t->began, cs->now));
}

void lh_cs_disk_done(struct lh_cs_logs *logs, struct lh_input *in)
{
    struct lh_cs_disk *d = &logs->disk;
    struct lh_cs_ticket *t;
    int error = in->error;

    HASH_FIND(hh, d->tickets, &in->ticket, sizeof in->ticket, t);
    if (t == NULL)
        return;
    if (error == LH_ERR_SHORTAGE && shortage_counts(t) && wanted(t) && patient(logs, t)) {
        starve(logs, t, &in->payload);
        return;
    }
    if (error == LH_ERR_SHORTAGE && t->op == LH_DISK_SYNC &&
        LH_PLANTED("shortage-of-sync-forgotten"))
        error = LH_OK;
    HASH_DELETE(hh, d->tickets, t);
    if (t->starved)
        no_longer_starved(logs, t);
    struct lh_cs_ticket done = *t;
    free(t);
    if (error != LH_ERR_SHORTAGE)
        d->quiet_since = logs->cs->now;
    measure(logs->cs, &done);
    struct lh_cs_replica *r = done.replica;
    if (r != NULL) {
        LH_ASSERT(r->outstanding > 0);
        r->outstanding--;
    }
    if (wanted(&done))
        done.user->done(&done, error, &in->payload);
    if (r != NULL && !done.user->frees)
        lh_cs_replica_pump(r);
}

void lh_cs_disk_init(struct lh_cs_logs *logs)
{
    logs->disk.shortage.timer.fire = ask_again;
}

void lh_cs_disk_deinit(struct lh_cs_logs *logs)
{
    struct lh_cs_ticket *t, *next;

    HASH_ITER(hh, logs->disk.tickets, t, next) {
        HASH_DELETE(hh, logs->disk.tickets, t);
        lh_buf_clear(&t->bytes);
        free(t);
    }
}
