/* What a primary sends to a member: new batches from the queue, older ones from its own disk. */
#include "base/assert.h"
#include "chunkserver/log/piece.h"
#include "chunkserver/primary/members.h"
#include "chunkserver/primary/queue.h"

static void send_batches(struct lh_cs_member *m, struct lh_buf *batches)
{
    struct lh_cs_host *cs = lh_cs_member_host(m);
    Leasehold__ReplicateRequest q;

    LH_ASSERT(m->unanswered < LH_FLIGHT_MESSAGES_MAX);
    if (!lh_cs_member_awaited(m))
        m->progress_at = m->advanced_at = cs->now;
    lh_cs_member_fill(m, &q, LEASEHOLD__REPLICATE_KIND__APPEND);
    q.offset = m->sent;
    m->committed_sent = q.committed;
    m->sent += batches->size;
    m->ends[m->unanswered++] = m->sent;
    lh_fx_send(cs->fx, m->link, &q.base, batches);
}

static void send_confirm(struct lh_cs_member *m)
{
    Leasehold__ReplicateRequest q;

    if (!lh_cs_member_awaited(m))
        m->progress_at = lh_cs_member_host(m)->now;
    m->state = LH_CS_MEMBER_CONFIRMING;
    lh_cs_member_fill(m, &q, LEASEHOLD__REPLICATE_KIND__CONFIRM);
    q.length = m->target;
    q.checksum = m->target_checksum;
    lh_fx_send(lh_cs_member_host(m)->fx, m->link, &q.base, NULL);
}

/* What waits goes with the next message once two are under way, so that messages grow with the
 * load; large amounts need not wait. */
static bool may_send(const struct lh_cs_member *m, uint64_t waiting)
{
    const struct lh_chunkserver_bounds *b = lh_cs_member_bounds(m);

    if (m->unanswered >= b->flight_messages || m->sent - m->length >= b->flight_bytes)
        return false;
    return m->unanswered < 2 || waiting >= b->no_delay_bytes;
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
    if (most < lh_cs_member_bounds(m)->message_bytes)
        most = lh_cs_member_bounds(m)->message_bytes;
    lh_cs_piece_request(&request, m->sent, bytes < most ? bytes : most);
    m->copy = lh_cs_disk_ask(r->logs, &own_read, r, m, &request);
}

void lh_cs_member_pump(struct lh_cs_member *m)
{
    struct lh_cs_primary *p = m->primary;

    while (m->link != 0 && m->state >= LH_CS_MEMBER_COPYING) {
        if (m->state == LH_CS_MEMBER_COPYING && m->sent == m->target) {
            send_confirm(m);
            continue;
        }
        uint64_t limit = m->state == LH_CS_MEMBER_COPYING ? m->target : p->replica->end;
        if (m->sent == limit || !may_send(m, limit - m->sent))
            break;
        if (p->queue.count == 0 || m->sent < lh_cs_queue_at(p, 0)->offset) {
            copy_from_disk(m, limit);
            break;
        }
        struct lh_buf batches = {0};
        uint64_t at = m->sent;
        for (size_t i = lh_cs_queue_index(p, at); i < p->queue.count && at < limit; i++) {
            const struct lh_cs_uncommitted *u = lh_cs_queue_at(p, i);
            if (batches.size > 0 &&
                batches.size + u->bytes.size > lh_cs_member_bounds(m)->message_bytes)
                break;
            lh_buf_append(&batches, &u->bytes, 0, u->bytes.size);
            at += u->bytes.size;
        }
        send_batches(m, &batches);
    }
}

static void own_read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_member *m = t->owner;
    struct lh_cs_replica *r = m->primary->replica;
    struct lh_cs_piece piece = {0};

    m->copy = NULL;
    if (error == LH_OK)
        error = lh_cs_piece_check(r, m->sent, bytes, lh_cs_member_bounds(m)->message_bytes, &piece);
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
        send_batches(m, &piece.batches);
        lh_cs_member_pump(m);
        lh_cs_primary_set_timer(m->primary);
    }
    lh_buf_clear(&piece.batches);
}

void lh_cs_member_notice(struct lh_cs_member *m)
{
    Leasehold__ReplicateRequest q;

    if (m->state != LH_CS_MEMBER_EQUAL || m->committed_sent >= m->primary->replica->committed)
        return;
    lh_cs_member_fill(m, &q, LEASEHOLD__REPLICATE_KIND__COMMITTED);
    m->committed_sent = q.committed;
    lh_fx_send(lh_cs_member_host(m)->fx, m->link, &q.base, NULL);
}
