/* Copies of replicas: how one is begun, what is heard of it, and how it ends (REC-4, REC-5). What
 * is copied, and whereto, repair.c decides. */
#include "master/keep/keep.h"

#include "master/inventory/inventory.h"
#include "master/keep/internal.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

#include <inttypes.h>

/* ---- How fast it goes. */

static void meter(struct lh_master *m, struct lh_m_copy *copy, uint64_t bytes)
{
    struct lh_duration interval = lh_instant_until(m->repair.meter_from, m->now);

    if (interval.ns >= m->config.meter.ns) {
        m->repair.last_bytes = m->repair.meter_bytes;
        m->repair.last_interval = interval;
        m->repair.meter_bytes = 0;
        m->repair.meter_from = m->now;
    }
    m->repair.meter_bytes += bytes;
    copy->metered += bytes;
}

static uint64_t bytes_per_second(const struct lh_master *m)
{
    struct lh_duration interval =
        lh_duration_add(m->repair.last_interval, lh_instant_until(m->repair.meter_from, m->now));
    unsigned __int128 bytes = (unsigned __int128)m->repair.last_bytes + m->repair.meter_bytes;

    if (m->repair.copies == 0 || interval.ns < lh_seconds(1).ns)
        return 0;
    return (uint64_t)(bytes * lh_seconds(1).ns / interval.ns);
}

void lh_m_repair_info(const struct lh_master *m, Leasehold__RepairInfo *info)
{
    const struct lh_m_copy *copy;

    leasehold__repair_info__init(info);
    info->chunks_unreadable = m->repair.conditions[LH_M_UNREADABLE];
    info->chunks_endangered = m->repair.conditions[LH_M_ENDANGERED];
    info->chunks_degraded =
        m->repair.conditions[LH_M_DEGRADED] + info->chunks_endangered + info->chunks_unreadable;
    info->copies_running = m->repair.copies;
    info->copies_waiting = m->repair.waiting;
    info->bytes_left = m->repair.want_bytes;
    TAILQ_FOREACH(copy, &m->copies, link)
        if (copy->sealed && !copy->chunk->removed && copy->length < copy->chunk->length)
            info->bytes_left += copy->chunk->length - copy->length;
    info->bytes_per_second = bytes_per_second(m);
    if (info->bytes_per_second > 0)
        info->left_ms =
            (uint64_t)((unsigned __int128)info->bytes_left * 1000 / info->bytes_per_second);
    info->copies_done = m->repair.copies_done;
    info->bytes_done = m->repair.bytes_done;
}

/* ---- Copies. */

void lh_m_copy_end(struct lh_master *m, struct lh_m_copy *copy)
{
    struct lh_m_chunk *c = copy->chunk;
    struct lh_m_repair *repair = &lh_m_move(m, c)->repair;

    lh_timer_unset(&m->timers, &copy->timer);
    TAILQ_REMOVE(&m->copies, copy, link);
    TAILQ_REMOVE(&repair->copies, copy, chunk_link);
    repair->copy_count--;
    m->repair.copies--;
    copy->target->copies_in--;
    copy->source->copies_out--;
    free(copy);
    lh_m_enqueue(m, c);
    lh_m_repair_round(m); /* a place is free */
}

/* What is at the target is of no use now, unless another copy begins with it; see garbage.c. */
static void leave_copy(struct lh_master *m, struct lh_m_copy *copy)
{
    struct lh_m_chunk *c = copy->chunk;
    struct lh_m_server *s = copy->target;
    bool member = lh_m_member(c, s) != NULL;

    lh_m_copy_end(m, copy);
    if (!member && !c->removed)
        lh_m_extra_note(m, c, s, c->version, false, true);
}

void lh_m_copy_cancel(struct lh_master *m, struct lh_m_copy *copy)
{
    LH_MARK("copy-cancelled");
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": it has the replicas that it needs; the copy to %s is ended",
        copy->chunk->id, copy->chunk->file->path, copy->target->id);
    leave_copy(m, copy);
}

/* Another server, or the same one after a while. */
static void fail_copy(struct lh_master *m, struct lh_m_copy *copy, const char *why)
{
    struct lh_m_chunk *c = copy->chunk;
    struct lh_m_repair *repair = &lh_m_move(m, c)->repair;

    LH_MARK("copy-failed");
    lh_fx_log(m->fx, LH_WARN, "chunk %" PRIu64 " of \"%s\": copying it to %s failed: %s", c->id,
        c->file->path, copy->target->id, why);
    repair->avoid = copy->target;
    repair->at = lh_instant_add(
        m->now, lh_m_backoff(m->config.copy_retry, m->config.copy_retry_max, repair->failures++));
    leave_copy(m, copy);
}

static void copy_timer(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    struct lh_m_copy *copy = LH_OWNER(timer, struct lh_m_copy, timer);

    fail_copy(m, copy,
        copy->caught_up ? "it could not join: the chunk has no primary" : "it makes no progress");
}

static void progress(struct lh_master *m, struct lh_m_copy *copy)
{
    struct lh_duration patience = m->config.copy_stall;

    /* How far it is comes with heartbeats; one may be lost. */
    if (!LH_PLANTED("copy-stalls-between-heartbeats"))
        patience = lh_duration_max(patience, lh_nanoseconds(3 * m->heartbeat.ns));
    lh_timer_set(&m->timers, &copy->timer, lh_instant_add(m->said_at, patience));
}

void lh_m_copies_end(struct lh_master *m, struct lh_m_server *target)
{
    struct lh_m_copy *copy, *next;

    for (copy = TAILQ_FIRST(&m->copies); copy != NULL; copy = next) {
        next = TAILQ_NEXT(copy, link);
        if (copy->target != target)
            continue;
        LH_MARK("copy-ended-with-session");
        lh_m_copy_end(m, copy);
    }
}

void lh_m_copies_free(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_copy *copy;

    while ((copy = TAILQ_FIRST(&c->active->repair.copies)) != NULL)
        lh_m_copy_end(m, copy);
}

/* Is `a` the better one to ask first? */
static bool better_source(
    const struct lh_m_chunk *c, const struct lh_m_server *a, const struct lh_m_server *b)
{
    bool a_lost = lh_m_member(c, a)->lost, b_lost = lh_m_member(c, b)->lost;

    if (a_lost != b_lost)
        return b_lost; /* it has what no other one has, at best */
    if ((a == c->active->seal->bad_source) != (b == c->active->seal->bad_source))
        return b == c->active->seal->bad_source; /* a checksum does not say whose bytes are wrong */
    if ((a == lh_m_holder(c)) != (b == lh_m_holder(c)))
        return b == lh_m_holder(c); /* the primary has enough to do */
    return a->copies_out < b->copies_out;
}

/* Who can be copied from, the one to be asked first at [0]; how many. */
static uint32_t choose_sources(const struct lh_master *m, const struct lh_m_chunk *c,
    const struct lh_m_server *target, struct lh_m_server **sources)
{
    uint32_t count = 0, limit = 2 * m->config.repair_streams;

    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if (s == target || !lh_m_is_source(m, c, &c->members[i]))
            continue;
        sources[count++] = s;
        if (count > 1 && s->copies_out < limit && better_source(c, s, sources[0])) {
            sources[count - 1] = sources[0];
            sources[0] = s;
        }
    }
    return count;
}

static void send_copy(struct lh_master *m, struct lh_m_copy *copy,
    struct lh_m_server *const *sources, uint32_t source_count)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__CopyReplica order = LEASEHOLD__COPY_REPLICA__INIT;
    Leasehold__Member members[LH_REPLICATION_MAX];
    Leasehold__Member *pointers[LH_REPLICATION_MAX];
    const struct lh_m_chunk *c = copy->chunk;

    LH_ASSERT(lh_m_is_durable(m, c->active->ticket));
    for (uint32_t i = 0; i < source_count; i++) {
        leasehold__member__init(&members[i]);
        members[i].server_id = sources[i]->id;
        members[i].address = sources[i]->address;
        pointers[i] = &members[i];
    }
    order.session = lh_m_wire_session(m, copy->target->session.client.session);
    order.chunk = c->id;
    order.version = copy->version = c->version;
    order.chunk_size = c->file->chunk_size;
    order.durability = c->file->durability;
    order.sealed = copy->sealed = c->sealed;
    if (c->sealed) {
        order.length = c->length;
        order.checksum = c->checksum;
    }
    order.n_sources = source_count;
    order.sources = pointers;
    order.master_term = m->term;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_COPY;
    reply.copy = &order;
    copy->caught_up = false;
    lh_m_send(m, copy->target, &reply);
    progress(m, copy);
}

/* Copies to `target` if the limits allow it. */
bool lh_m_copy_begin(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *target)
{
    struct lh_m_server *sources[LH_REPLICATION_MAX];
    uint32_t count = choose_sources(m, c, target, sources);

    if (count == 0 || sources[0]->copies_out >= 2 * m->config.repair_streams)
        return false;
    struct lh_m_copy *copy = lh_alloc(sizeof *copy);
    copy->chunk = c;
    copy->target = target;
    copy->source = sources[0];
    copy->refresh = lh_m_member(c, target) != NULL;
    copy->begun = m->now;
    copy->timer.fire = copy_timer;
    TAILQ_INSERT_TAIL(&m->copies, copy, link);
    struct lh_m_repair *repair = &lh_m_move(m, c)->repair;
    TAILQ_INSERT_TAIL(&repair->copies, copy, chunk_link);
    repair->copy_count++;
    m->repair.copies++;
    target->copies_in++;
    sources[0]->copies_out++;
    lh_m_reserve(target, c->sealed ? c->length : c->file->chunk_size);
    send_copy(m, copy, sources, count);
    if (copy->refresh)
        LH_MARK("copy-refreshes");
    else if (c->sealed)
        LH_MARK("copy-to-new-member");
    else
        LH_MARK("copy-to-join");
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": copying it from %s to %s", c->id,
        c->file->path, sources[0]->id, target->id);
    return true;
}

/* A copy that was to join goes on as one of the whole chunk. */
void lh_m_copies_finish(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_server *sources[LH_REPLICATION_MAX];
    struct lh_m_copy *copy;

    TAILQ_FOREACH(copy, &c->active->repair.copies, chunk_link) {
        uint32_t count;
        if (copy->sealed || (count = choose_sources(m, c, copy->target, sources)) == 0)
            continue;
        LH_MARK("copy-sealed-on-the-way");
        send_copy(m, copy, sources, count);
    }
}

/* ---- What chunkservers say. */

void lh_m_on_progress(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat)
{
    for (size_t i = 0; i < heartbeat->n_copies; i++) {
        const Leasehold__CopyProgress *report = heartbeat->copies[i];
        struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);
        struct lh_m_copy *copy = c == NULL ? NULL : lh_m_copy_find(c, s);
        if (copy == NULL || copy->caught_up)
            continue;
        if (!copy->reported || report->length != copy->length)
            progress(m, copy);
        if (copy->reported && report->length > copy->length)
            meter(m, copy, report->length - copy->length);
        copy->reported = true;
        copy->length = report->length;
    }
}

/* An answer to what was not asked (any more): a former master's, or a copy that was given up. */
static void copied_unasked(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s,
    const Leasehold__ReplicaCopied *report)
{
    bool whole = report->error == LEASEHOLD__ERROR_CODE__OK && report->sealed && c->sealed &&
                 report->version == c->version;

    const struct lh_m_extra *e = lh_m_extra_find(c, s);
    if (e != NULL && e->going)
        return; /* it goes, whatever it was */
    LH_MARK("copied-unasked");
    const struct lh_m_member *member = lh_m_member(c, s);
    if (member != NULL) {
        if (whole && !member->lost) /* FAIL-5: nobody has asked it to make that good */
            lh_m_complete(m, c, s);
        return;
    }
    lh_m_extra_note(
        m, c, s, report->version < c->version ? report->version : c->version, whole, !whole);
}

void lh_m_on_copied(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCopied *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);
    struct lh_m_copy *copy = c == NULL ? NULL : lh_m_copy_find(c, s);

    if (c == NULL)
        return; /* removed meanwhile: RemoveReplica went, or goes, behind */
    if (copy == NULL) {
        copied_unasked(m, c, s, report);
        return;
    }
    if (report->version != copy->version)
        return; /* to an earlier request */
    if (report->copied_bytes > copy->metered)
        meter(m, copy, report->copied_bytes - copy->metered);
    if (report->error != LEASEHOLD__ERROR_CODE__OK) {
        int error = lh_error_from_wire((unsigned)report->error);
        if (error == LH_ERR_DISK_FULL)
            lh_m_avoid(m, s, m->config.copy_stall);
        if (error == LH_ERR_CORRUPT)
            lh_fx_log(m->fx, LH_ERROR,
                "chunk %" PRIu64 " of \"%s\": what %s copied does not add up to the chunk's "
                "checksum",
                c->id, c->file->path, s->id);
        fail_copy(m, copy, lh_error_text(error));
        return;
    }
    if (report->sealed != copy->sealed)
        return; /* the chunk was sealed meanwhile, and the copy goes on */
    m->repair.bytes_done += report->copied_bytes;
    struct lh_m_repair *repair = &lh_m_move(m, c)->repair;
    repair->failures = 0;
    repair->avoid = NULL;
    if (!copy->sealed) {
        LH_MARK("copy-caught-up");
        copy->caught_up = true;
        progress(m, copy);
        if (lh_m_holder(c) == NULL)
            lh_m_repair_pause(m, c);
        lh_m_enqueue(m, c);
        return;
    }
    LH_MARK("copy-complete");
    m->repair.copies_done++;
    lh_m_copy_end(m, copy);
    lh_m_complete(m, c, s);
}
