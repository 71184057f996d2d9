/* Disk operations under way: whom a completion concerns, and what a shortage makes wait.
 *
 * That the machine has no descriptor or no memory for an operation says nothing of the disk, nor of
 * the replica: the operation waits here and is asked again, for as long as it takes. Whoever wanted
 * it sees only that it takes long, and SES-6 sees the same. Asking a sync again is sound: it was
 * not tried (FAIL-5), and a later one covers what the first was to cover. Nor does the order among
 * operations suffer: to the rest of the core what waits is under way. */
#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/internal.h"

#include <stdlib.h>

static void ask(struct lh_chunkserver *cs, struct ticket *t, struct lh_buf *data)
{
    lh_fx_disk(cs->fx, t->id, t->replica == NULL ? LH_PROBE_FILE : t->replica->chunk, t->op,
        t->offset, t->length, data);
    /* A fetch of a new primary's is not kept waiting for those who read slowly. */
    const struct reading *rd = t->kind == TICKET_READ ? t->owner : NULL;
    cs->fx->items[cs->fx->count - 1].for_reply = rd != NULL && !rd->recovery;
}

struct ticket *disk(struct lh_chunkserver *cs, enum ticket_kind kind, struct replica *r,
    void *owner, enum lh_disk_op op, uint64_t offset, uint64_t length, struct lh_buf *data)
{
    struct ticket *t = lh_alloc(sizeof *t);

    t->id = ++cs->next_ticket;
    t->kind = kind;
    t->replica = r;
    t->owner = owner;
    t->began = cs->now;
    t->op = op;
    t->offset = offset;
    t->length = length;
    if (HASH_COUNT(cs->tickets) == 0)
        cs->disk_quiet_since = cs->now;
    HASH_ADD(hh, cs->tickets, id, sizeof t->id, t);
    if (r != NULL)
        r->outstanding++;
    ask(cs, t, data);
    return t;
}

/* ------------------------------------------------------------------------------------------------
 * Shortages. */

/* A read for a reader, a member or the scrub. */
static bool owned(const struct ticket *t)
{
    return t->kind == TICKET_READ || t->kind == TICKET_COPY || t->kind == TICKET_SCRUB;
}

/* Does it still matter to anybody? A read whose reader is gone does not. */
static bool wanted(const struct ticket *t)
{
    return !owned(t) || t->owner != NULL;
}

/* A reader can ask another member: it is not kept waiting for long. */
static bool patient(const struct lh_chunkserver *cs, const struct ticket *t)
{
    struct lh_duration waited = lh_instant_until(t->began, cs->now);

    return t->kind != TICKET_READ ||
           waited.ns < lh_milliseconds(cs->config.bounds.shortage_read_ms).ns;
}

static void starve(struct lh_chunkserver *cs, struct ticket *t, struct lh_buf *bytes)
{
    struct shortage *s = &cs->shortage;

    LH_MARK("disk-shortage");
    cs->counts.disk_shortages++;
    if (s->starved == NULL) {
        s->times = 0;
        s->pause = lh_milliseconds(cs->config.bounds.shortage_pause_ms);
        lh_fx_log(cs->fx, LH_WARN,
            "the machine is short of descriptors or memory for the disk: what cannot be begun now "
            "is tried again");
    }
    if (!t->starved) {
        t->starved = true;
        DL_APPEND(s->starved, t);
    }
    s->times++;
    t->waiting = true;
    t->bytes = lh_buf_take(bytes);
    if (!lh_timer_is_set(&s->timer))
        lh_timer_set(&cs->timers, &s->timer, lh_instant_add(cs->now, s->pause));
}

static void no_longer_starved(struct lh_chunkserver *cs, struct ticket *t)
{
    struct shortage *s = &cs->shortage;

    DL_DELETE(s->starved, t);
    if (s->starved != NULL)
        return;
    LH_MARK("disk-shortage-over");
    lh_fx_log(cs->fx, LH_WARN, "the shortage is over: operations on the disk met it %llu times",
        (unsigned long long)s->times);
}

void disk_ask_again(struct lh_chunkserver *cs)
{
    struct shortage *s = &cs->shortage;
    struct ticket *t, *next;

    s->pause = lh_duration_min(
        lh_nanoseconds(s->pause.ns * 2), lh_milliseconds(cs->config.bounds.shortage_pause_most_ms));
    DL_FOREACH_SAFE(s->starved, t, next)
    {
        if (!t->waiting)
            continue;
        t->waiting = false;
        if (wanted(t)) {
            struct lh_buf bytes = lh_buf_take(&t->bytes);
            ask(cs, t, &bytes);
            continue;
        }
        struct lh_input in = {
            .kind = LH_IN_DISK, .ticket = t->id, .op = t->op, .error = LH_ERR_CANCELLED};
        disk_done(cs, &in);
    }
}

bool disk_stands_still(const struct lh_chunkserver *cs, struct lh_duration limit)
{
    const struct ticket *t;

    if (HASH_COUNT(cs->tickets) > 0 &&
        lh_instant_until(cs->disk_quiet_since, cs->now).ns >= limit.ns)
        return true;
    DL_FOREACH(cs->shortage.starved, t)
    {
        /* No lease depends on a read of an old log, nor on room. */
        if (!owned(t) && t->kind != TICKET_RESERVE &&
            lh_instant_until(t->began, cs->now).ns >= limit.ns)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------
 * Completions. */

static bool shortage_counts(const struct ticket *t)
{
    return !LH_PLANTED("shortage-condemns-replica") &&
           !(t->op == LH_DISK_SYNC && LH_PLANTED("shortage-of-sync-forgotten"));
}

static void measure(struct lh_chunkserver *cs, const struct ticket *t)
{
    if (t->op == LH_DISK_WRITE)
        lh_histogram_note(&cs->counts.disk_write, lh_instant_until(t->began, cs->now));
    else if (t->op == LH_DISK_SYNC)
        lh_histogram_note(&cs->counts.disk_sync, lh_instant_until(t->began, cs->now));
}

void disk_done(struct lh_chunkserver *cs, struct lh_input *in)
{
    struct ticket *t;
    int error = in->error;

    HASH_FIND(hh, cs->tickets, &in->ticket, sizeof in->ticket, t);
    if (t == NULL)
        return;
    if (error == LH_ERR_SHORTAGE && shortage_counts(t) && wanted(t) && patient(cs, t)) {
        starve(cs, t, &in->payload);
        return;
    }
    if (error == LH_ERR_SHORTAGE && t->op == LH_DISK_SYNC &&
        LH_PLANTED("shortage-of-sync-forgotten"))
        error = LH_OK;
    HASH_DELETE(hh, cs->tickets, t);
    if (t->starved)
        no_longer_starved(cs, t);
    struct ticket done = *t;
    free(t);
    if (error != LH_ERR_SHORTAGE)
        cs->disk_quiet_since = cs->now;
    measure(cs, &done);
    struct replica *r = done.replica;
    if (r != NULL) {
        LH_ASSERT(r->outstanding > 0);
        r->outstanding--;
    }
    switch (done.kind) {
    case TICKET_HEADER:
        if (in->op == LH_DISK_SYNC)
            scan_header_synced(r, error);
        else if (in->op == LH_DISK_RESERVE)
            scan_sealed(r);
        else
            scan_header_done(r, error, &in->payload);
        break;
    case TICKET_SCAN:
        scan_read_done(r, error, &in->payload);
        break;
    case TICKET_WRITE:
    case TICKET_SYNC:
    case TICKET_JOB:
        replica_disk_done(r, done.kind, in->op, error);
        return; /* the replica may be gone */
    case TICKET_RESERVE:
        space_reserved(r, error);
        break;
    case TICKET_READ:
        if (done.owner != NULL)
            reading_disk_done(done.owner, error, &in->payload);
        break;
    case TICKET_COPY:
        if (done.owner != NULL)
            member_copied(done.owner, error, &in->payload);
        break;
    case TICKET_SCRUB:
        if (done.owner != NULL)
            scrub_disk_done(cs, error, &in->payload);
        break;
    case TICKET_PROBE:
        session_probe_done(cs, in->op, error);
        return;
    }
    replica_pump(r);
}
