/* Disk operations under way: whom a completion concerns, and what a shortage makes wait.
 *
 * That the machine has no descriptor or no memory for an operation says nothing of the disk, nor of
 * the replica: the operation waits here and is asked again, for as long as it takes. Whoever wanted
 * it sees only that it takes long, and SES-6 sees the same. Asking a sync again is sound: it was
 * not tried (FAIL-5), and a later one covers what the first was to cover. Nor does the order among
 * operations suffer: to the rest of the core what waits is under way. */
#include "chunkserver/log/frozen.h"
#include "chunkserver/log/internal.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <utlist.h>

struct lh_cs_operation {
    struct lh_cs_ticket ticket; /* its owner's */
    uint64_t id;
    const struct lh_cs_disk_user *user;
    struct lh_instant began;
    uint64_t file;
    uint64_t offset;
    bool for_reply;                      /* lh_effect's */
    struct lh_buf bytes;                 /* waiting: what it writes */
    bool starved;                        /* it met a shortage at least once */
    bool waiting;                        /* and is to be asked again */
    struct lh_cs_operation *prev, *next; /* of those that are starved */
    UT_hash_handle hh;
};

static void ask(struct lh_cs_logs *logs, struct lh_cs_operation *o, struct lh_buf *data)
{
    struct lh_effects *fx = logs->cs->fx;

    lh_fx_disk(fx, o->id, o->file, o->ticket.op, o->offset, o->ticket.length, data);
    fx->items[fx->count - 1].for_reply = o->for_reply;
}

struct lh_cs_ticket *lh_cs_disk_ask(struct lh_cs_logs *logs, const struct lh_cs_disk_user *user,
    struct lh_cs_replica *r, void *owner, const struct lh_cs_disk_request *request)
{
    struct lh_cs_disk *d = &logs->internal->disk;
    struct lh_cs_operation *o = lh_alloc(sizeof *o);

    o->id = ++d->last;
    o->user = user;
    o->ticket.replica = r;
    o->ticket.owner = owner;
    o->began = logs->cs->now;
    o->ticket.op = request->op;
    o->file = r == NULL ? LH_PROBE_FILE : r->chunk;
    if (request->anew || (r != NULL && r->anew))
        o->file |= LH_NEW_FILE;
    o->offset = request->offset;
    o->ticket.length = request->length;
    o->for_reply = request->for_reply;
    if (HASH_COUNT(d->operations) == 0)
        d->quiet_since = logs->cs->now;
    HASH_ADD(hh, d->operations, id, sizeof o->id, o);
    if (r != NULL)
        r->outstanding++;
    ask(logs, o, request->data);
    return &o->ticket;
}

/* ------------------------------------------------------------------------------------------------
 * Shortages. */

/* Does it still matter to anybody? A read whose reader is gone does not. */
static bool wanted(const struct lh_cs_operation *o)
{
    return !o->user->owned || o->ticket.owner != NULL;
}

/* A reader can ask another member: it is not kept waiting for long. */
static bool patient(const struct lh_cs_logs *logs, const struct lh_cs_operation *o)
{
    struct lh_duration waited = lh_instant_until(o->began, logs->cs->now);

    return !o->user->impatient ||
           waited.ns < lh_milliseconds(logs->cs->config.bounds.shortage_read_ms).ns;
}

static void starve(struct lh_cs_logs *logs, struct lh_cs_operation *o, struct lh_buf *bytes)
{
    struct lh_cs_disk *d = &logs->internal->disk;
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
    if (!o->starved) {
        o->starved = true;
        DL_APPEND(d->shortage.starved, o);
    }
    d->shortage.times++;
    o->waiting = true;
    o->bytes = lh_buf_take(bytes);
    if (!lh_timer_is_set(&d->shortage.timer))
        lh_timer_set(&cs->timers, &d->shortage.timer, lh_instant_add(cs->now, d->shortage.pause));
}

static void no_longer_starved(struct lh_cs_logs *logs, struct lh_cs_operation *o)
{
    struct lh_cs_disk *d = &logs->internal->disk;

    DL_DELETE(d->shortage.starved, o);
    if (d->shortage.starved != NULL)
        return;
    LH_MARK("disk-shortage-over");
    lh_fx_log(logs->cs->fx, LH_WARN,
        "the shortage is over: operations on the disk met it %" PRIu64 " times", d->shortage.times);
}

/* What waits because of a shortage is tried again. */
static void ask_again(void *core, struct lh_timer *timer)
{
    struct lh_cs_logs *logs =
        LH_OWNER(timer, struct lh_cs_logs_internal, disk.shortage.timer)->logs;
    struct lh_cs_disk *d = &logs->internal->disk;
    struct lh_cs_operation *o, *next;

    (void)core;
    d->shortage.pause = lh_duration_min(lh_nanoseconds(d->shortage.pause.ns * 2),
        lh_milliseconds(logs->cs->config.bounds.shortage_pause_most_ms));
    DL_FOREACH_SAFE(d->shortage.starved, o, next) {
        if (!o->waiting)
            continue;
        o->waiting = false;
        if (wanted(o)) {
            struct lh_buf bytes = lh_buf_take(&o->bytes);
            ask(logs, o, &bytes);
            continue;
        }
        struct lh_input in = {
            .kind = LH_IN_DISK, .ticket = o->id, .op = o->ticket.op, .error = LH_ERR_CANCELLED};
        lh_cs_disk_done(logs, &in);
    }
}

bool lh_cs_disk_stands_still(const struct lh_cs_logs *logs, struct lh_duration limit)
{
    const struct lh_cs_disk *d = &logs->internal->disk;
    const struct lh_cs_operation *o;

    if (HASH_COUNT(d->operations) > 0 &&
        lh_instant_until(d->quiet_since, logs->cs->now).ns >= limit.ns)
        return true;
    DL_FOREACH(d->shortage.starved, o) {
        if (!o->user->owned && !o->user->unleased &&
            lh_instant_until(o->began, logs->cs->now).ns >= limit.ns)
            return true;
    }
    return false;
}

uint64_t lh_cs_disk_starved(const struct lh_cs_logs *logs)
{
    const struct lh_cs_operation *o;
    uint64_t count;

    DL_COUNT(logs->internal->disk.shortage.starved, o, count);
    return count;
}

struct lh_duration lh_cs_disk_silence(const struct lh_cs_logs *logs)
{
    return lh_instant_until(logs->internal->disk.quiet_since, logs->cs->now);
}

void lh_cs_logs_discount_pause(struct lh_cs_logs *logs, struct lh_duration slept)
{
    struct lh_cs_disk *d = &logs->internal->disk;

    lh_cs_host_discount_pause(logs->cs, &d->quiet_since, &d->discounted, slept);
}

/* ------------------------------------------------------------------------------------------------
 * Completions. */

static bool shortage_counts(const struct lh_cs_operation *o)
{
    return !LH_PLANTED("shortage-condemns-replica") &&
           !(o->ticket.op == LH_DISK_SYNC && LH_PLANTED("shortage-of-sync-forgotten"));
}

static void measure(struct lh_cs_host *cs, const struct lh_cs_operation *o)
{
    if (o->ticket.op == LH_DISK_WRITE)
        lh_histogram_note(&cs->counts.disk_write, lh_instant_until(o->began, cs->now));
    else if (o->ticket.op == LH_DISK_SYNC)
        lh_histogram_note(&cs->counts.disk_sync, lh_instant_until(o->began, cs->now));
}

/* What a disk may answer, as the rest of the core knows it. Whatever else a system says (it has
 * many numbers, and each file system its own) is IO: it concerns this server's disk alone, and must
 * not be taken for a verdict on what a client asked for. */
static int of_the_disk(int error)
{
    switch (error) {
    case LH_OK:
    case LH_ERR_SHORTAGE:
    case LH_ERR_DISK_FULL:
    case LH_ERR_NOT_FOUND:
    case LH_ERR_ALREADY_EXISTS:
    case LH_ERR_UNSYNCED:
    case LH_ERR_CANCELLED: /* ask_again() */
        return error;
    default:
        return LH_ERR_IO;
    }
}

void lh_cs_disk_done(struct lh_cs_logs *logs, struct lh_input *in)
{
    struct lh_cs_disk *d = &logs->internal->disk;
    struct lh_cs_operation *o;
    int error = of_the_disk(in->error);

    HASH_FIND(hh, d->operations, &in->ticket, sizeof in->ticket, o);
    if (o == NULL)
        return;
    if (error == LH_ERR_SHORTAGE && shortage_counts(o) && wanted(o) && patient(logs, o)) {
        starve(logs, o, &in->payload);
        return;
    }
    if (error == LH_ERR_SHORTAGE && o->ticket.op == LH_DISK_SYNC &&
        LH_PLANTED("shortage-of-sync-forgotten"))
        error = LH_OK;
    HASH_DELETE(hh, d->operations, o);
    if (o->starved)
        no_longer_starved(logs, o);
    struct lh_cs_operation done = *o;
    free(o);
    if (error != LH_ERR_SHORTAGE)
        d->quiet_since = logs->cs->now;
    measure(logs->cs, &done);
    struct lh_cs_replica *r = done.ticket.replica;
    if (r != NULL) {
        LH_ASSERT(r->outstanding > 0);
        r->outstanding--;
        if (done.ticket.op == LH_DISK_SYNC && error == LH_OK)
            lh_cs_suspects_synced(r);
    }
    if (error == LH_ERR_UNSYNCED && r != NULL && r->state != LH_CS_REPLICA_LOADING) {
        lh_cs_doubt(r, error); /* the kernel has told of a failure that no sync of ours has met */
        error = LH_ERR_IO;
    }
    if (wanted(&done))
        done.user->done(&done.ticket, error, &in->payload);
    if (r != NULL && !done.user->frees)
        lh_cs_replica_pump(r);
}

void lh_cs_disk_init(struct lh_cs_logs *logs)
{
    logs->internal->disk.shortage.timer.fire = ask_again;
}

void lh_cs_disk_deinit(struct lh_cs_logs *logs)
{
    struct lh_cs_operation *o, *next;

    HASH_ITER(hh, logs->internal->disk.operations, o, next) {
        HASH_DELETE(hh, logs->internal->disk.operations, o);
        lh_buf_clear(&o->bytes);
        free(o);
    }
}
