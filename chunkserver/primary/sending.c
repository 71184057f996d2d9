/* What a primary sends to a member: new batches from the queue, older ones from its own disk. */
#include "chunkserver/primary/members.h"
#include "chunkserver/primary/queue.h"

static void fill(
    struct lh_cs_member *m, Leasehold__ReplicatePart *part, Leasehold__ReplicateKind kind)
{
    const struct lh_cs_primary *p = m->primary;

    leasehold__replicate_part__init(part);
    part->kind = kind;
    part->chunk = m->chunk;
    part->version = p->version;
    part->feed = m->feed;
    part->committed = p->state >= LH_CS_PRIMARY_OPEN ? p->replica->committed : 0;
    m->committed_sent = part->committed;
    m->notice = false;
}

static void confirm(struct lh_cs_member *m, Leasehold__ReplicatePart *part)
{
    m->state = LH_CS_MEMBER_CONFIRMING;
    fill(m, part, LEASEHOLD__REPLICATE_KIND__CONFIRM);
    part->length = m->target;
    part->checksum = m->target_checksum;
}

/* A run is whole batches that go one behind the other, in as many messages as it takes. What waits
 * makes the next run once two are unanswered, so that runs grow with the load; large amounts need
 * not wait. */
static bool may_begin_run(const struct lh_cs_member *m, uint64_t waiting)
{
    const struct lh_chunkserver_bounds *b = lh_cs_member_bounds(m);

    if (m->sent - m->length >= b->flight_bytes)
        return false;
    return m->length >= m->run_ends[0] || waiting >= b->no_delay_bytes;
}

static void begin_run(struct lh_cs_member *m, uint64_t end)
{
    m->run_ends[0] = m->run_ends[1];
    m->run_ends[1] = end;
}

static void own_read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);

static const struct lh_cs_disk_user own_read = {.done = own_read_done, .owned = true};

/* The bytes lie below the queue: they are read back from our own disk. */
static void copy_from_disk(struct lh_cs_member *m, uint64_t limit)
{
    struct lh_cs_replica *r = m->primary->replica;
    uint64_t start = m->primary->queue.count > 0 ? lh_cs_queue_at(m->primary, 0)->offset : r->end;

    if (limit > start)
        limit = start;
    if (limit > r->written)
        limit = r->written;
    if (m->copy != NULL || limit <= m->sent)
        return; /* goes on when the read or the write is done */
    LH_MARK("member-copied-to");
    uint64_t most = lh_batch_bytes_max(r->header.chunk_size), bytes = limit - m->sent;
    struct lh_cs_disk_request request = {0};
    if (most < lh_cs_member_bounds(m)->member_read_bytes)
        most = lh_cs_member_bounds(m)->member_read_bytes;
    lh_cs_piece_request(&request, m->sent, bytes < most ? bytes : most);
    m->copy = lh_cs_disk_ask(r->logs, &own_read, r, m, &request);
}

/* Where a run ends that begins at `sent`, in the queue: as many batches as may be unanswered, and
 * at least one. */
static uint64_t run_end(struct lh_cs_member *m, uint64_t limit)
{
    struct lh_cs_primary *p = m->primary;
    uint64_t most = m->length + lh_cs_member_bounds(m)->flight_bytes, at = m->sent;

    if (limit <= most)
        return limit;
    for (size_t i = lh_cs_queue_index(p, at); i < p->queue.count && at < limit; i++) {
        uint64_t end = at + lh_cs_queue_at(p, i)->bytes.size;
        if (end > most && at > m->sent)
            break;
        at = end;
    }
    return at;
}

/* Bytes from `sent` on, as many as may go now; they may end within a batch. */
static void take_bytes(struct lh_cs_member *m, struct lh_buf *bytes, uint64_t most)
{
    struct lh_cs_primary *p = m->primary;
    uint64_t begin = m->sent;
    uint64_t end = m->run_ends[1] - begin < most ? m->run_ends[1] : begin + most;

    if (m->old.size > 0) {
        lh_buf_append(bytes, &m->old, m->sent - m->old_from, end - m->sent);
        m->sent = end;
        if (end == m->old_from + m->old.size)
            lh_buf_clear(&m->old);
        return;
    }
    for (size_t i = lh_cs_queue_index(p, m->sent); m->sent < end; i++) {
        const struct lh_cs_uncommitted *u = lh_cs_queue_at(p, i);
        uint64_t skip = m->sent - u->offset, take = u->bytes.size - skip;
        if (take > end - m->sent) {
            if (m->sent > begin && u->bytes.size <= most)
                break; /* it goes whole with the next message */
            take = end - m->sent;
        }
        lh_buf_append(bytes, &u->bytes, skip, take);
        m->sent += take;
    }
}

/* May bytes up to `limit` go now? Begins a run, or a read of old ones. */
static bool has_bytes(struct lh_cs_member *m, uint64_t limit)
{
    struct lh_cs_primary *p = m->primary;

    if (m->sent < m->run_ends[1])
        return true;
    if (m->sent == limit || !may_begin_run(m, limit - m->sent))
        return false;
    if (p->queue.count == 0 || m->sent < lh_cs_queue_at(p, 0)->offset) {
        copy_from_disk(m, limit);
        return false;
    }
    begin_run(m, run_end(m, limit));
    return true;
}

uint64_t lh_cs_member_waiting(const struct lh_cs_member *m)
{
    return m->state < LH_CS_MEMBER_COPYING    ? 0
           : m->state == LH_CS_MEMBER_COPYING ? m->target - m->sent
                                              : m->primary->replica->end - m->sent;
}

bool lh_cs_member_notify(struct lh_cs_member *m, Leasehold__ReplicatePart *part)
{
    if (m->state != LH_CS_MEMBER_EQUAL || m->committed_sent >= m->primary->replica->committed)
        return false;
    fill(m, part, LEASEHOLD__REPLICATE_KIND__COMMITTED);
    return true;
}

static bool next_part(
    struct lh_cs_member *m, Leasehold__ReplicatePart *part, struct lh_buf *bytes, uint64_t most)
{
    const struct lh_cs_primary *p = m->primary;

    if (m->state == LH_CS_MEMBER_ADOPTING && !m->adopt_sent) {
        m->adopt_sent = true;
        fill(m, part, LEASEHOLD__REPLICATE_KIND__ADOPT);
        part->joining = m->joining;
        part->server_id = m->server_id;
        part->capability = (ProtobufCBinaryData){m->lead_size, m->lead};
        return true;
    }
    if (m->state < LH_CS_MEMBER_COPYING)
        return false;
    if (m->state == LH_CS_MEMBER_COPYING && m->sent == m->target) {
        confirm(m, part);
        return true;
    }
    if (has_bytes(m, m->state == LH_CS_MEMBER_COPYING ? m->target : p->replica->end)) {
        size_t before = bytes->size;
        fill(m, part, LEASEHOLD__REPLICATE_KIND__APPEND);
        part->offset = m->sent;
        take_bytes(m, bytes, most);
        part->bytes = bytes->size - before;
        return true;
    }
    return m->notice && lh_cs_member_notify(m, part);
}

bool lh_cs_member_next(
    struct lh_cs_member *m, Leasehold__ReplicatePart *part, struct lh_buf *bytes, uint64_t most)
{
    bool awaited = lh_cs_member_awaited(m);

    if (!next_part(m, part, bytes, most))
        return false;
    if (!awaited && lh_cs_member_awaited(m)) { /* its time begins now */
        m->progress_at = m->advanced_at = lh_cs_member_host(m)->now;
        lh_cs_primary_set_timer(m->primary);
    }
    return true;
}

static void own_read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_member *m = t->owner;
    struct lh_cs_replica *r = m->primary->replica;
    struct lh_cs_piece piece = {0};

    m->copy = NULL;
    if (error == LH_OK)
        error =
            lh_cs_piece_check(r, m->sent, bytes, lh_cs_member_bounds(m)->member_read_bytes, &piece);
    /* Where its log ends none of this one's batches begins, or behind others than it has. */
    bool differs = error != LH_OK && bytes->size > 0 && m->sent == m->from && m->from > 0 &&
                   piece.batches.size == 0 && piece.before != m->checksum;
    if (differs) {
        lh_cs_member_differs(m, m->from, piece.before);
    } else if (error != LH_OK) {
        /* None that has rotted here is sent. */
        LH_MARK("member-finds-rot-in-its-primary");
        lh_cs_replica_lose(r, LH_ERR_CORRUPT, m->sent + piece.batches.size);
    } else {
        m->old = lh_buf_take(&piece.batches);
        m->old_from = m->sent;
        begin_run(m, m->sent + m->old.size);
        lh_cs_pair_ready(m);
        lh_cs_primary_set_timer(m->primary);
    }
    lh_buf_clear(&piece.batches);
}

void lh_cs_member_notice(struct lh_cs_member *m)
{
    m->notice = m->state == LH_CS_MEMBER_EQUAL;
    lh_cs_pair_ready(m);
}
