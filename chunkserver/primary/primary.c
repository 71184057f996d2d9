/* The primary of a chunk: the order of appends and their commit (APP-2, APP-3), sealing (SEAL-1),
 * giving the lease up (LEASE-5), and what is reported of members that fail (REC-3).
 *
 * A primary part lives for one version. A new grant ends it and begins another one: lanes end
 * with STALE_VERSION, and their writers' repeats are recognised by the log (APP-5). Before it
 * takes appends it recovers: recovery.c. */
#include "chunkserver/primary/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/primary/leases.h"
#include "chunkserver/primary/members.h"
#include "chunkserver/primary/pair.h"
#include "chunkserver/primary/queue.h"
#include "chunkserver/primary/recovery.h"
#include "chunkserver/primary/streams.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool lh_cs_primary_may_act(const struct lh_cs_primary *p)
{
    const struct lh_cs_host *cs = p->replica->logs->cs;

    if (LH_PLANTED("lease-checked-only-before-write") && p->queue.count > 0)
        return true;
    return lh_holder_may_act(cs->holder, p->replica->chunk, p->version, cs->now);
}

/* ------------------------------------------------------------------------------------------------
 * Beginning and end. */

bool lh_cs_grant_names(const struct lh_cs_host *cs, const Leasehold__Grant *g)
{
    for (size_t i = 0; i < g->n_members; i++)
        if (strcmp(g->members[i]->server_id, cs->config.server_id) == 0 && !g->members[i]->joining)
            return true; /* REC-4 */
    return false;
}

/* What shows the member at that place that this server leads. */
static const ProtobufCBinaryData *lead_of(const Leasehold__Grant *g, size_t i)
{
    static const ProtobufCBinaryData none;

    return i < g->n_leads ? &g->leads[i] : &none;
}

static void out_of_time(void *core, struct lh_timer *timer);

void lh_cs_primary_grant(
    struct lh_cs_primaries *primaries, struct lh_cs_replica *r, const Leasehold__Grant *g)
{
    struct lh_cs_host *cs = r->logs->cs;
    struct lh_cs_primary *p = lh_alloc(sizeof *p);

    LH_ASSERT(lh_cs_primary_of(r) == NULL);
    p->primaries = primaries;
    p->replica = r;
    p->version = g->version;
    p->fence = g->fence;
    p->min_replicas = g->min_replicas;
    p->state = LH_CS_PRIMARY_ADOPTING;
    p->timer.fire = out_of_time;
    p->drain_until = p->notice_at = LH_INSTANT_NEVER;
    p->members = lh_alloc_array(g->n_members - 1, sizeof *p->members); /* one is this server */
    for (size_t i = 0; i < g->n_members; i++)
        if (strcmp(g->members[i]->server_id, cs->config.server_id) != 0)
            lh_cs_member_init(&p->members[p->member_count++], p, g->members[i], lead_of(g, i));
    r->slots[LH_CS_SLOT_PRIMARY] = p;
    DL_APPEND(primaries->all, p);
    lh_cs_replica_submit(
        r, (struct lh_cs_job){
               .kind = LH_CS_JOB_ADOPT, .owner = lh_cs_primary_job_done, .version = p->version});
    /* The others adopt while we do: the version is durable at the master. */
    for (size_t i = 0; i < p->member_count; i++)
        lh_cs_member_connect(&p->members[i]);
    lh_cs_primary_set_timer(p);
    lh_cs_replica_pump(r);
}

void lh_cs_primary_grant_again(struct lh_cs_primary *p, const Leasehold__Grant *g)
{
    for (size_t i = 0; i < p->member_count; i++)
        for (size_t j = 0; j < g->n_members; j++)
            if (strcmp(g->members[j]->server_id, p->members[i].server_id) == 0)
                lh_cs_member_update(&p->members[i], g->members[j], lead_of(g, j));
    lh_cs_primary_set_timer(p);
    if (p->replica->header.version == g->version && p->state != LH_CS_PRIMARY_ADOPTING)
        lh_cs_grant_confirm(p->primaries, g->chunk, g->version, LH_OK);
}

size_t lh_cs_primary_full_members(const struct lh_cs_primary *p)
{
    size_t full = 1;

    for (size_t i = 0; i < p->member_count; i++)
        full += !p->members[i].joining;
    return full;
}

/* What ends a primary its clients have not done: they ask the master, and go on elsewhere. */
static int to_clients(int error)
{
    return lh_error_advice(error) == LH_GIVE_UP && !LH_PLANTED("own-damage-is-a-verdict")
               ? LH_ERR_NO_REPLICA
               : error;
}

void lh_cs_primary_discard(struct lh_cs_primary *p, int error)
{
    struct lh_cs_primaries *primaries = p->primaries;
    struct lh_cs_replica *r = p->replica;
    struct lh_cs_host *cs = r->logs->cs;

    lh_cs_lane_end_all(p, to_clients(error), NULL);
    for (size_t i = 0; i < p->member_count; i++)
        lh_cs_member_deinit(&p->members[i]);
    free(p->members);
    if (p->fetch_link != 0)
        lh_cs_link_close(cs, p->fetch_link, LH_ERR_CANCELLED, NULL);
    lh_cs_queue_free(p);
    lh_timer_unset(&cs->timers, &p->timer);
    DL_DELETE(primaries->all, p);
    r->slots[LH_CS_SLOT_PRIMARY] = NULL;
    free(p);
    lh_cs_streams_release_pressure(primaries);
    lh_cs_replica_readable(r);
}

static void give_up(struct lh_cs_primary *p, int error, bool ran_out)
{
    struct lh_cs_primaries *primaries = p->primaries;
    uint64_t chunk = p->replica->chunk, version = p->version;

    lh_cs_primary_discard(p, error);
    lh_cs_lease_release(primaries, chunk, version, ran_out);
}

void lh_cs_primary_abandon(struct lh_cs_primary *p, int error)
{
    give_up(p, error, false);
}

void lh_cs_primary_run_out(struct lh_cs_primary *p)
{
    struct lh_cs_host *cs = p->replica->logs->cs;

    LH_MARK("primary-lease-run-out");
    cs->counts.expiries++;
    lh_fx_log(cs->fx, LH_INFO, "chunk %" PRIu64 ": the lease at version %" PRIu64 " has run out",
        p->replica->chunk, p->version);
    if (LH_PLANTED("lease-ends-in-silence") || LH_PLANTED("difference-not-resolved")) {
        uint64_t chunk = p->replica->chunk, version = p->version;
        lh_cs_primary_discard(p, LH_ERR_NOT_PRIMARY);
        lh_holder_release(cs->holder, chunk, version);
        return;
    }
    /* One whose session is over hears the master badly: another member should have the next one. */
    give_up(p, LH_ERR_NOT_PRIMARY, lh_holder_session_live(cs->holder, cs->now));
}

void lh_cs_primary_fenced(struct lh_cs_primary *p, uint64_t version)
{
    LH_MARK("primary-fenced");
    p->replica->logs->cs->counts.fenced++;
    lh_fx_log(p->replica->logs->cs->fx, LH_WARN,
        "chunk %" PRIu64 ": fenced at version %" PRIu64 " by version %" PRIu64
        ": no longer its primary",
        p->replica->chunk, p->version, version);
    lh_cs_primary_abandon(p, LH_ERR_STALE_VERSION);
}

/* ------------------------------------------------------------------------------------------------
 * Order and commit. */

static void drained(struct lh_cs_primary *p)
{
    struct lh_cs_replica *r = p->replica;

    if (p->state == LH_CS_PRIMARY_SEALING) {
        LH_MARK("seal-reported");
        lh_fx_log(r->logs->cs->fx, LH_INFO,
            "chunk %" PRIu64 ": full at %" PRIu64 " bytes, asking for its seal", r->chunk, r->end);
        lh_cs_seal_report(p->primaries, r, p->version); /* gives the lease up */
        lh_cs_primary_discard(p, LH_ERR_CHUNK_FULL);
    } else {
        LH_MARK("recall-drained");
        lh_cs_primary_abandon(p, LH_ERR_NOT_PRIMARY);
    }
}

/* APP-3: what every member has durable is committed, and only now answered. */
static void commit(struct lh_cs_primary *p)
{
    struct lh_cs_replica *r = p->replica;
    struct lh_cs_host *cs = r->logs->cs;
    uint64_t durable = lh_cs_replica_durable(r), committed = r->committed;

    for (size_t i = 0; i < p->member_count; i++) {
        if (p->members[i].state != LH_CS_MEMBER_EQUAL &&
            LH_PLANTED("acknowledged-before-every-member"))
            continue;
        if (p->members[i].state != LH_CS_MEMBER_EQUAL)
            return;
        if (p->members[i].length < durable)
            durable = p->members[i].length;
    }
    if (durable > r->committed) {
        while (p->queue.count > 0) {
            const struct lh_cs_uncommitted *u = lh_cs_queue_at(p, 0);
            if (u->offset + u->bytes.size > durable)
                break;
            committed = u->offset + u->bytes.size;
            lh_histogram_note(&cs->counts.append, lh_instant_until(u->ordered_at, cs->now));
            cs->counts.batches_committed++;
            p->committed_checksum = u->checksum;
            struct lh_cs_lane *lane = lh_cs_lane_find(p->primaries, &u->lane);
            if (lane != NULL)
                lh_cs_lane_stored(lane, u);
            lh_cs_queue_pop(p);
        }
        /* Whole batches, whatever a member says that it has: where one ends another may be read,
         * sealed and recovered. */
        lh_cs_replica_note_committed(r, LH_PLANTED("half-batch-committed") ? durable : committed);
        for (size_t i = 0; i < p->member_count; i++)
            lh_cs_pair_committed(&p->members[i]);
        if (p->notice_at.ns == LH_INSTANT_NEVER.ns) {
            p->notice_at = lh_instant_add(cs->now, cs->config.notice_delay);
            lh_cs_primary_set_timer(p);
        }
        lh_cs_streams_release_pressure(p->primaries);
    }
    bool undrained = p->queue.count > 0;
    if (p->state == LH_CS_PRIMARY_SEALING && LH_PLANTED("seal-reported-before-drained"))
        undrained = false;
    if (p->state > LH_CS_PRIMARY_OPEN && !undrained)
        drained(p);
}

void lh_cs_primary_member_changed(struct lh_cs_primary *p)
{
    lh_cs_primary_set_timer(p);
    if (p->state < LH_CS_PRIMARY_OPEN)
        lh_cs_primary_recover(p);
    else
        commit(p);
}

void lh_cs_primary_local_durable(struct lh_cs_primary *p)
{
    if (p->state >= LH_CS_PRIMARY_OPEN)
        commit(p);
}

bool lh_cs_primary_needs_members(const struct lh_cs_primary *p)
{
    return p->queue.count > 0 || p->state < LH_CS_PRIMARY_OPEN || p->state == LH_CS_PRIMARY_SEALING;
}

static void order(struct lh_cs_primary *p, struct lh_cs_lane *lane, struct lh_cs_lane_writer *w,
    const struct lh_batch_header *h, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = p->replica;
    struct lh_cs_host *cs = r->logs->cs;

    if (p->queue.count == 0)
        for (size_t i = 0; i < p->member_count; i++)
            if (p->members[i].state != LH_CS_MEMBER_EQUAL)
                p->members[i].progress_at = cs->now; /* from now on somebody waits for it */
    uint64_t checksum = lh_log_checksum(r->checksum, h);
    lh_batch_stamp(&p->primaries->stamper, bytes, h, checksum);
    struct lh_cs_uncommitted *u = lh_cs_queue_push(p);
    *u = (struct lh_cs_uncommitted){
        .offset = r->end,
        .writer = w->id,
        .sequence = h->sequence,
        .count = h->count,
        .lane = lane->key,
        .checksum = checksum,
        .ordered_at = cs->now,
        .bytes = lh_buf_ref(bytes),
    };
    cs->counts.batches_ordered++;
    cs->counts.bytes_ordered += h->size;
    p->primaries->streams.pending_bytes += h->size;
    bool next = lh_cs_replica_accept(r, h, checksum, bytes);
    LH_ASSERT(next);
    p->appends++;
    w->unanswered++;
}

/* Answered with its first position once that is committed (APP-5). */
static void answer_repeat(struct lh_cs_primary *p, struct lh_cs_lane *lane,
    struct lh_cs_lane_writer *w, const struct lh_stored_batch *stored)
{
    p->replica->logs->cs->counts.repeats++;
    if (stored->offset < p->replica->committed || LH_PLANTED("repeat-answered-before-commit")) {
        struct lh_cs_uncommitted u = {
            .offset = stored->offset,
            .writer = w->id,
            .sequence = stored->sequence,
            .count = stored->count,
        };
        LH_MARK("append-repeat-of-committed");
        w->unanswered++;
        lh_cs_lane_stored(lane, &u);
        return;
    }
    LH_MARK("append-repeat-of-uncommitted");
    struct lh_cs_uncommitted *waiting = lh_cs_queue_at(p, lh_cs_queue_index(p, stored->offset));
    if (lane->key.link < waiting->lane.link) {
        /* Sent before its client took the newer stream, where it waits for the answer. Should it be
         * back here, it must not get the answers to what it sends next without this one. */
        lh_cs_lane_refuse_writer(
            lane, w, LH_ERR_UNAVAILABLE, "this writer's batch waits on a newer stream");
        return;
    }
    if (lh_cs_lane_find(p->primaries, &waiting->lane) != lane)
        w->unanswered++;
    waiting->lane = lane->key;
}

/* The chunk is full: what is under way commits, then SEAL-1. */
static void begin_seal(struct lh_cs_primary *p)
{
    p->state = LH_CS_PRIMARY_SEALING;
    for (size_t i = 0; i < p->member_count; i++)
        if (p->members[i].state != LH_CS_MEMBER_EQUAL)
            p->members[i].progress_at =
                p->replica->logs->cs->now; /* from now on somebody waits for it */
}

bool lh_cs_primary_order(struct lh_cs_primary *p, struct lh_cs_lane *lane,
    struct lh_cs_lane_writer *w, const struct lh_batch_header *h, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = p->replica;
    const struct lh_stored_batch *stored = NULL;

    if (p->state != LH_CS_PRIMARY_OPEN)
        return false; /* draining: the lane's end says so, and the batch is unknown (APP-5a) */
    switch (lh_writers_classify(lh_cs_replica_writers(r), h, w->first_sequence, &stored)) {
    case LH_SEQUENCE_NEXT:
        if (h->size > r->header.chunk_size - r->end) {
            LH_MARK("append-chunk-full");
            begin_seal(p);
            return false;
        }
        LH_MARK("append-ordered");
        order(p, lane, w, h, bytes);
        break;
    case LH_SEQUENCE_REPEAT:
        answer_repeat(p, lane, w, stored);
        break;
    case LH_SEQUENCE_GAP:
        lh_cs_lane_refuse_writer(
            lane, w, LH_ERR_OUT_OF_SEQUENCE, "records before this batch were never stored here");
        break;
    case LH_SEQUENCE_OTHER:
        lh_cs_lane_refuse_writer(lane, w, LH_ERR_OUT_OF_SEQUENCE,
            "these sequence numbers are taken by other records of this writer");
        break;
    }
    return true;
}

void lh_cs_primary_pump(struct lh_cs_primary *p)
{
    struct lh_cs_replica *r = p->replica;

    /* The others first: their round trip is longer than our own write. */
    for (size_t i = 0; i < p->member_count; i++)
        lh_cs_pair_ready(&p->members[i]);
    lh_cs_primary_set_timer(p);
    lh_cs_replica_pump(r);
    if (p->state > LH_CS_PRIMARY_OPEN)
        commit(p); /* there may be nothing to wait for */
}

/* ------------------------------------------------------------------------------------------------
 * Giving the lease up, and time. */

void lh_cs_primary_recall(struct lh_cs_primary *p)
{
    struct lh_cs_host *cs = p->replica->logs->cs;

    if (p->drain_until.ns != LH_INSTANT_NEVER.ns)
        return; /* asked before */
    if (p->state < LH_CS_PRIMARY_OPEN)
        LH_MARK("recall-in-recovery");
    if (p->state < LH_CS_PRIMARY_OPEN || p->queue.count == 0) {
        lh_cs_primary_abandon(p, LH_ERR_NOT_PRIMARY);
        return;
    }
    LH_MARK("recall-drains");
    if (LH_PLANTED("drain-releases-early"))
        lh_cs_lease_report_release(p->primaries, p->replica->chunk, p->version, false);
    p->drain_until = lh_instant_add(cs->now, cs->config.drain_timeout);
    if (p->state == LH_CS_PRIMARY_OPEN)
        p->state = LH_CS_PRIMARY_RECALLED;
    lh_cs_primary_set_timer(p);
}

void lh_cs_primary_report_failed(struct lh_cs_primary *p)
{
    struct lh_cs_host *cs = p->replica->logs->cs;
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__MemberFailed failed = LEASEHOLD__MEMBER_FAILED__INIT;

    /* A member that may be the only one to have every acknowledged byte is waited for; whether it
     * can come back at all, the master knows. */
    failed.unsure = !lh_cs_primary_is_sure(p);
    if (failed.unsure)
        LH_MARK("member-failed-and-waited-for");
    char **ids = lh_alloc_array(p->member_count, sizeof *ids);
    failed.server_ids = ids;
    for (size_t i = 0; i < p->member_count; i++) {
        struct lh_cs_member *member = &p->members[i];
        struct lh_duration silent = lh_instant_until(member->progress_at, cs->now);
        if (!member->refused &&
            (member->state != LH_CS_MEMBER_DOWN || silent.ns < cs->config.member_timeout.ns))
            continue;
        ids[failed.n_server_ids++] = member->server_id;
        if (!member->reported)
            lh_fx_log(cs->fx, LH_WARN, "chunk %" PRIu64 ": member %s fails at version %" PRIu64,
                p->replica->chunk, member->server_id, p->version);
        member->reported_at = cs->now;
        member->reported = true;
    }
    failed.session = lh_holder_session(cs->holder);
    failed.chunk = p->replica->chunk;
    failed.version = p->version;
    failed.reason = (char *)(uintptr_t) "no progress, or refused";
    failed.appends_wait = lh_cs_lanes_wait(p);
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_MEMBER_FAILED;
    m.member_failed = &failed;
    if (failed.n_server_ids > 0) {
        LH_MARK("member-failed-reported");
        lh_cs_send(cs, &m);
    }
    free(ids);
}

void lh_cs_primary_set_timer(struct lh_cs_primary *p)
{
    struct lh_cs_host *cs = p->replica->logs->cs;
    struct lh_instant at = lh_holder_end_of(cs->holder, p->replica->chunk);

    if (LH_PLANTED("lease-checked-only-before-write") && p->queue.count > 0)
        at = LH_INSTANT_NEVER;
    at = lh_instant_min(at, lh_instant_min(p->drain_until, p->notice_at));
    for (size_t i = 0; i < p->member_count; i++)
        at = lh_instant_min(at, lh_cs_member_deadline(&p->members[i]));
    lh_timer_set(&cs->timers, &p->timer, at);
}

static void out_of_time(void *core, struct lh_timer *timer)
{
    struct lh_cs_primary *p = LH_OWNER(timer, struct lh_cs_primary, timer);
    struct lh_cs_host *cs = core;

    if (!lh_cs_primary_may_act(p)) {
        lh_cs_primary_run_out(p);
        return;
    }
    if (lh_instant_reached(cs->now, p->drain_until)) {
        lh_cs_primary_abandon(p, LH_ERR_NOT_PRIMARY);
        return;
    }
    if (lh_instant_reached(cs->now, p->notice_at)) {
        p->notice_at = LH_INSTANT_NEVER;
        lh_cs_queue_shrink(p);
        for (size_t i = 0; i < p->member_count; i++)
            lh_cs_member_notice(&p->members[i]);
    }
    for (size_t i = 0; i < p->member_count; i++)
        lh_cs_member_timer(&p->members[i]);
    lh_cs_primary_set_timer(p);
}
