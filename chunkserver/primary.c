/* The primary of a chunk: the order of appends and their commit (APP-2, APP-3), sealing (SEAL-1),
 * giving the lease up (LEASE-5), and what the master is told of members that fail (REC-3).
 *
 * A primary part lives for one version. A new grant ends it and begins another one: streams are
 * told STALE_VERSION, and their writers' repeats are recognised by the log (APP-5). Before it takes
 * appends it recovers: recovery.c. */
#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/internal.h"

#include <stdlib.h>
#include <string.h>

bool primary_may_act(const struct primary *p)
{
    const struct lh_chunkserver *cs = p->replica->cs;

    if (LH_PLANTED("lease-checked-only-before-write") && p->queue_count > 0)
        return true;
    return lh_holder_may_act(cs->holder, p->replica->chunk, p->version, cs->now);
}

/* ------------------------------------------------------------------------------------------------
 * The queue of ordered, uncommitted batches. */

struct uncommitted *primary_queue_at(struct primary *p, size_t index)
{
    LH_ASSERT(index < p->queue_count);
    return &p->queue[(p->queue_first + index) % p->queue_capacity];
}

/* Index of the first batch that begins at `offset` or behind it; `queue_count` if there is none. */
static size_t queue_search(struct primary *p, uint64_t offset)
{
    size_t low = 0, high = p->queue_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (primary_queue_at(p, mid)->offset < offset)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

size_t primary_queue_index(struct primary *p, uint64_t offset)
{
    size_t i = queue_search(p, offset);

    LH_ASSERT(i < p->queue_count && primary_queue_at(p, i)->offset == offset);
    return i;
}

bool primary_batch_ends(struct primary *p, uint64_t offset)
{
    if (p->queue_count == 0 || offset <= primary_queue_at(p, 0)->offset ||
        offset == p->replica->end)
        return true;
    size_t i = queue_search(p, offset);
    return i < p->queue_count && primary_queue_at(p, i)->offset == offset;
}

static struct uncommitted *queue_push(struct primary *p)
{
    if (p->queue_count == p->queue_capacity) {
        size_t capacity = p->queue_capacity == 0 ? 32 : p->queue_capacity * 2;
        struct uncommitted *queue = lh_alloc_array(capacity, sizeof *queue);
        for (size_t i = 0; i < p->queue_count; i++)
            queue[i] = *primary_queue_at(p, i);
        free(p->queue);
        p->queue = queue;
        p->queue_first = 0;
        p->queue_capacity = capacity;
    }
    return &p->queue[(p->queue_first + p->queue_count++) % p->queue_capacity];
}

static void queue_pop(struct primary *p)
{
    struct uncommitted *u = primary_queue_at(p, 0);

    p->replica->cs->pending_bytes -= u->bytes.size;
    lh_buf_clear(&u->bytes);
    p->queue_first = (p->queue_first + 1) % p->queue_capacity;
    p->queue_count--;
}

/* ------------------------------------------------------------------------------------------------
 * Beginning and end. */

void primary_grant(struct replica *r, const Leasehold__Grant *g)
{
    struct lh_chunkserver *cs = r->cs;
    bool named = false;

    for (size_t i = 0; i < g->n_members; i++)
        named = named || (strcmp(g->members[i]->server_id, cs->config.server_id) == 0 &&
                             !g->members[i]->joining); /* REC-4 */
    if (!named) {
        orders_refuse_grant(cs, g->chunk, g->version, LH_ERR_INVALID_ARGUMENT);
        return;
    }
    if (r->primary != NULL) {
        LH_MARK("primary-at-new-version");
        primary_discard(r->primary, LH_ERR_STALE_VERSION); /* the holder stays (LEASE-3) */
    }
    secondary_end(r, LH_ERR_STALE_VERSION);

    struct primary *p = lh_alloc(sizeof *p);
    p->replica = r;
    p->version = g->version;
    p->min_replicas = g->min_replicas;
    p->state = PRIMARY_ADOPTING;
    p->timer.kind = TIMER_PRIMARY;
    p->timer.owner = p;
    p->drain_until = p->notice_at = LH_INSTANT_NEVER;
    p->members = lh_alloc_array(g->n_members, sizeof *p->members);
    for (size_t i = 0; i < g->n_members; i++)
        if (strcmp(g->members[i]->server_id, cs->config.server_id) != 0)
            member_init(&p->members[p->member_count++], p, g->members[i]);
    r->primary = p;
    DL_APPEND(cs->primaries, p);
    replica_submit(
        r, (struct job){.kind = JOB_ADOPT, .origin = FOR_PRIMARY, .version = p->version});
    /* The others adopt while we do: the version is durable at the master. */
    for (size_t i = 0; i < p->member_count; i++)
        member_connect(&p->members[i]);
    primary_set_timer(p);
    replica_pump(r);
}

void primary_addresses(struct primary *p, const Leasehold__Grant *g)
{
    for (size_t i = 0; i < p->member_count; i++)
        for (size_t j = 0; j < g->n_members; j++)
            if (strcmp(g->members[j]->server_id, p->members[i].server_id) == 0)
                member_told(&p->members[i], g->members[j]);
}

size_t primary_full_members(const struct primary *p)
{
    size_t full = 1;

    for (size_t i = 0; i < p->member_count; i++)
        full += !p->members[i].joining;
    return full;
}

void primary_discard(struct primary *p, int error)
{
    struct replica *r = p->replica;
    struct lh_chunkserver *cs = r->cs;

    stream_end_all(p, error, NULL);
    for (size_t i = 0; i < p->member_count; i++)
        member_deinit(&p->members[i]);
    free(p->members);
    if (p->fetch_link != 0)
        link_close(cs, p->fetch_link, LH_ERR_CANCELLED, NULL);
    while (p->queue_count > 0)
        queue_pop(p);
    free(p->queue);
    lh_timer_unset(&cs->timers, &p->timer);
    DL_DELETE(cs->primaries, p);
    r->primary = NULL;
    free(p);
    streams_release_pressure(cs);
    readings_wake(r);
}

static void give_up(struct primary *p, int error, bool ran_out)
{
    struct lh_chunkserver *cs = p->replica->cs;
    uint64_t chunk = p->replica->chunk, version = p->version;

    primary_discard(p, error);
    orders_release(cs, chunk, version, ran_out);
}

void primary_abandon(struct primary *p, int error)
{
    give_up(p, error, false);
}

void primary_run_out(struct primary *p)
{
    struct lh_chunkserver *cs = p->replica->cs;

    LH_MARK("primary-lease-run-out");
    cs->counts.expiries++;
    lh_fx_log(cs->fx, LH_INFO, "chunk %llu: the lease at version %llu has run out",
        (unsigned long long)p->replica->chunk, (unsigned long long)p->version);
    if (LH_PLANTED("lease-ends-in-silence") || LH_PLANTED("difference-not-resolved")) {
        uint64_t chunk = p->replica->chunk, version = p->version;
        primary_discard(p, LH_ERR_NOT_PRIMARY);
        lh_holder_release(cs->holder, chunk, version);
        return;
    }
    /* One whose session is over hears the master badly: another member should have the next one. */
    give_up(p, LH_ERR_NOT_PRIMARY, lh_holder_session_live(cs->holder, cs->now));
}

void primary_fenced(struct primary *p, uint64_t version)
{
    LH_MARK("primary-fenced");
    p->replica->cs->counts.fenced++;
    lh_fx_log(p->replica->cs->fx, LH_WARN,
        "chunk %llu: fenced at version %llu by version %llu: no longer its primary",
        (unsigned long long)p->replica->chunk, (unsigned long long)p->version,
        (unsigned long long)version);
    primary_abandon(p, LH_ERR_STALE_VERSION);
}

/* ------------------------------------------------------------------------------------------------
 * Order and commit. */

static void drained(struct primary *p)
{
    struct replica *r = p->replica;

    if (p->state == PRIMARY_SEALING) {
        LH_MARK("seal-reported");
        lh_fx_log(r->cs->fx, LH_INFO, "chunk %llu: full at %llu bytes, asking for its seal",
            (unsigned long long)r->chunk, (unsigned long long)r->end);
        orders_report_seal(r->cs, r, p->version); /* gives the lease up */
        primary_discard(p, LH_ERR_CHUNK_FULL);
    } else {
        LH_MARK("recall-drained");
        primary_abandon(p, LH_ERR_NOT_PRIMARY);
    }
}

/* APP-3: what every member has durable is committed, and only now answered. */
static void commit(struct primary *p)
{
    struct replica *r = p->replica;
    struct lh_chunkserver *cs = r->cs;
    uint64_t durable = replica_durable(r), committed = r->committed;

    for (size_t i = 0; i < p->member_count; i++) {
        if (p->members[i].state != MEMBER_EQUAL && LH_PLANTED("acknowledged-before-every-member"))
            continue;
        if (p->members[i].state != MEMBER_EQUAL)
            return;
        if (p->members[i].length < durable)
            durable = p->members[i].length;
    }
    if (durable > r->committed) {
        struct stream *touched = NULL, *s;
        while (p->queue_count > 0) {
            const struct uncommitted *u = primary_queue_at(p, 0);
            if (u->offset + u->bytes.size > durable)
                break;
            committed = u->offset + u->bytes.size;
            lh_histogram_note(&cs->counts.append, lh_instant_until(u->ordered_at, cs->now));
            cs->counts.batches_committed++;
            p->committed_checksum = u->checksum;
            struct link *l = u->stream == 0 ? NULL : link_find(cs, u->stream);
            s = l == NULL ? NULL : l->owner;
            if (s != NULL) {
                stream_stored(s, u);
                if (!s->touched)
                    LL_PREPEND2(touched, s, next_touched);
                s->touched = true;
            }
            queue_pop(p);
        }
        /* One reply a stream for all of its batches that this committed. */
        LL_FOREACH2(touched, s, next_touched)
        {
            s->touched = false;
            stream_flush(s);
        }
        /* Whole batches, whatever a member says that it has: where one ends another may be read,
         * sealed and recovered. */
        replica_note_committed(r, LH_PLANTED("half-batch-committed") ? durable : committed);
        if (p->notice_at.ns == LH_INSTANT_NEVER.ns) {
            p->notice_at = lh_instant_add(cs->now, cs->config.notice_delay);
            primary_set_timer(p);
        }
        streams_release_pressure(cs);
    }
    bool undrained = p->queue_count > 0;
    if (p->state == PRIMARY_SEALING && LH_PLANTED("seal-reported-before-drained"))
        undrained = false;
    if (p->state > PRIMARY_OPEN && !undrained)
        drained(p);
}

void primary_member_changed(struct primary *p)
{
    primary_set_timer(p);
    if (p->state < PRIMARY_OPEN)
        primary_recover(p);
    else
        commit(p);
}

void primary_local_durable(struct primary *p)
{
    if (p->state >= PRIMARY_OPEN)
        commit(p);
}

bool primary_needs_members(const struct primary *p)
{
    return p->queue_count > 0 || p->state < PRIMARY_OPEN || p->state == PRIMARY_SEALING;
}

static void order(struct primary *p, struct stream *s, struct stream_writer *w,
    const struct lh_batch_header *h, struct lh_buf *bytes)
{
    struct replica *r = p->replica;
    struct lh_chunkserver *cs = r->cs;

    if (p->queue_count == 0)
        for (size_t i = 0; i < p->member_count; i++)
            if (p->members[i].state != MEMBER_EQUAL)
                p->members[i].progress_at = cs->now; /* from now on somebody waits for it */
    struct uncommitted *u = queue_push(p);
    *u = (struct uncommitted){
        .offset = r->end,
        .writer = w->id,
        .sequence = h->sequence,
        .count = h->count,
        .stream = s->link,
        .ordered_at = cs->now,
        .bytes = lh_buf_ref(bytes),
    };
    cs->counts.batches_ordered++;
    cs->counts.bytes_ordered += h->size;
    cs->pending_bytes += h->size;
    bool next = replica_accept(r, h, bytes);
    LH_ASSERT(next);
    u->checksum = r->checksum;
    p->appends++;
    w->unanswered++;
}

/* Answered with its first position once that is committed (APP-5). */
static void answer_repeat(struct primary *p, struct stream *s, struct stream_writer *w,
    const struct lh_stored_batch *stored)
{
    p->replica->cs->counts.repeats++;
    if (stored->offset < p->replica->committed || LH_PLANTED("repeat-answered-before-commit")) {
        struct uncommitted u = {
            .offset = stored->offset,
            .writer = w->id,
            .sequence = stored->sequence,
            .count = stored->count,
        };
        LH_MARK("append-repeat-of-committed");
        w->unanswered++;
        stream_stored(s, &u);
        stream_flush(s);
        return;
    }
    LH_MARK("append-repeat-of-uncommitted");
    struct uncommitted *waiting = primary_queue_at(p, primary_queue_index(p, stored->offset));
    if (waiting->stream != s->link)
        w->unanswered++;
    waiting->stream = s->link;
}

/* The chunk is full: what is under way commits, then SEAL-1. */
static void begin_seal(struct primary *p)
{
    p->state = PRIMARY_SEALING;
    stream_hold_all(p);
    for (size_t i = 0; i < p->member_count; i++)
        if (p->members[i].state != MEMBER_EQUAL)
            p->members[i].progress_at = p->replica->cs->now; /* from now on somebody waits for it */
}

bool primary_order(struct primary *p, struct stream *s, struct stream_writer *w,
    const struct lh_batch_header *h, struct lh_buf *bytes)
{
    struct replica *r = p->replica;
    const struct lh_stored_batch *stored = NULL;

    if (p->state != PRIMARY_OPEN)
        return false; /* draining: the stream's end says so, and the batch is unknown (APP-5a) */
    switch (lh_writers_classify(&r->writers, h, w->first_sequence, &stored)) {
    case LH_SEQUENCE_NEXT:
        if (h->size > r->header.chunk_size - r->end) {
            LH_MARK("append-chunk-full");
            begin_seal(p);
            return false;
        }
        LH_MARK("append-ordered");
        order(p, s, w, h, bytes);
        break;
    case LH_SEQUENCE_REPEAT:
        answer_repeat(p, s, w, stored);
        break;
    case LH_SEQUENCE_GAP:
        stream_refuse_writer(
            s, w, LH_ERR_OUT_OF_SEQUENCE, "records before this batch were never stored here");
        break;
    case LH_SEQUENCE_OTHER:
        stream_refuse_writer(s, w, LH_ERR_OUT_OF_SEQUENCE,
            "these sequence numbers are taken by other records of this writer");
        break;
    }
    return true;
}

void primary_pump(struct primary *p)
{
    struct replica *r = p->replica;

    /* The others first: their round trip is longer than our own write. */
    for (size_t i = 0; i < p->member_count; i++)
        member_pump(&p->members[i]);
    primary_set_timer(p);
    replica_pump(r);
    if (p->state > PRIMARY_OPEN)
        commit(p); /* there may be nothing to wait for */
}

/* ------------------------------------------------------------------------------------------------
 * Giving the lease up, and time. */

void primary_recall(struct primary *p)
{
    struct lh_chunkserver *cs = p->replica->cs;

    if (p->drain_until.ns != LH_INSTANT_NEVER.ns)
        return; /* asked before */
    if (p->state < PRIMARY_OPEN)
        LH_MARK("recall-in-recovery");
    if (p->state < PRIMARY_OPEN || p->queue_count == 0) {
        primary_abandon(p, LH_ERR_NOT_PRIMARY);
        return;
    }
    LH_MARK("recall-drains");
    if (LH_PLANTED("drain-releases-early"))
        orders_tell_release(cs, p->replica->chunk, p->version, false);
    p->drain_until = lh_instant_add(cs->now, cs->config.drain_timeout);
    if (p->state == PRIMARY_OPEN) {
        p->state = PRIMARY_RECALLED;
        stream_hold_all(p);
    }
    primary_set_timer(p);
}

void primary_report_failed(struct primary *p)
{
    struct lh_chunkserver *cs = p->replica->cs;
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__MemberFailed failed = LEASEHOLD__MEMBER_FAILED__INIT;

    /* A member that may be the only one to have every acknowledged byte is waited for; whether it
     * can come back at all, the master knows. */
    failed.unsure = !primary_is_sure(p);
    if (failed.unsure)
        LH_MARK("member-failed-and-waited-for");
    char **ids = lh_alloc_array(p->member_count, sizeof *ids);
    char **lost = lh_alloc_array(p->member_count, sizeof *lost);
    failed.server_ids = ids;
    failed.lost_ids = lost;
    for (size_t i = 0; i < p->member_count; i++) {
        struct member *member = &p->members[i];
        struct lh_duration silent = lh_instant_until(member->progress_at, cs->now);
        if (!member->refused &&
            (member->state != MEMBER_DOWN || silent.ns < cs->config.member_timeout.ns))
            continue;
        ids[failed.n_server_ids++] = member->server_id;
        if (member->misfit)
            lost[failed.n_lost_ids++] = member->server_id;
        if (!member->said)
            lh_fx_log(cs->fx, LH_WARN, "chunk %llu: member %s fails at version %llu",
                (unsigned long long)p->replica->chunk, member->server_id,
                (unsigned long long)p->version);
        member->reported_at = cs->now;
        member->said = true;
    }
    failed.session = lh_holder_session(cs->holder);
    failed.chunk = p->replica->chunk;
    failed.version = p->version;
    failed.reason = (char *)(uintptr_t) "no progress, or refused";
    failed.appends_wait = streams_wait(p);
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_MEMBER_FAILED;
    m.member_failed = &failed;
    if (failed.n_server_ids > 0) {
        LH_MARK("member-failed-reported");
        session_send(cs, &m);
    }
    free(ids);
    free(lost);
}

void primary_set_timer(struct primary *p)
{
    struct lh_chunkserver *cs = p->replica->cs;
    struct lh_instant at = lh_holder_end_of(cs->holder, p->replica->chunk);

    if (LH_PLANTED("lease-checked-only-before-write") && p->queue_count > 0)
        at = LH_INSTANT_NEVER;
    at = lh_instant_min(at, lh_instant_min(p->drain_until, p->notice_at));
    for (size_t i = 0; i < p->member_count; i++)
        at = lh_instant_min(at, member_deadline(&p->members[i]));
    lh_timer_set(&cs->timers, &p->timer, at);
}

void primary_timer(struct primary *p)
{
    struct lh_chunkserver *cs = p->replica->cs;

    if (!primary_may_act(p)) {
        primary_run_out(p);
        return;
    }
    if (lh_instant_reached(cs->now, p->drain_until)) {
        primary_abandon(p, LH_ERR_NOT_PRIMARY);
        return;
    }
    if (lh_instant_reached(cs->now, p->notice_at)) {
        p->notice_at = LH_INSTANT_NEVER;
        for (size_t i = 0; i < p->member_count; i++)
            member_notice(&p->members[i]);
    }
    for (size_t i = 0; i < p->member_count; i++)
        member_timer(&p->members[i]);
    primary_set_timer(p);
}
