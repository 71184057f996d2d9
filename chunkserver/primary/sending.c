/* What a primary sends to a member: new batches from the queue, older ones from its own disk. And
 * when the member says that its log differs: whose fault is it? */
#include "base/assert.h"
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

static void read_own(struct lh_cs_member *m, uint64_t offset, uint64_t bytes)
{
    struct lh_cs_replica *r = m->primary->replica;
    uint64_t most = lh_batch_bytes_max(r->header.chunk_size);

    if (most < lh_cs_member_bounds(m)->message_bytes)
        most = lh_cs_member_bounds(m)->message_bytes;
    m->copy = lh_cs_disk_ask(r->logs, &own_read, r, m,
        &(struct lh_cs_disk_request){.op = LH_DISK_READ,
            .offset = LH_LOG_START + offset,
            .length = bytes < most ? bytes : most});
}

/* The member's log does not fit ours, and a replica is lost by its own fault only: ours is read
 * from its beginning, up to a length whose running checksum is known without the disk. */
static void check_begin(struct lh_cs_member *m)
{
    struct lh_cs_primary *p = m->primary;
    struct lh_cs_replica *r = p->replica;
    bool recovering = p->state <= LH_CS_PRIMARY_EQUALIZING; /* and nothing is ordered */

    m->check_end = recovering ? r->end : r->committed;
    m->check_sum = recovering ? r->checksum : p->committed_checksum;
    if (m->check_end < m->from) {
        lh_cs_member_refused(m, LH_ERR_CORRUPT, "its log does not fit");
        return;
    }
    if (r->written < m->check_end) {
        lh_cs_member_down(m); /* it will report again */
        return;
    }
    m->checking = true;
    m->fits = m->from == 0;
    m->checked = 0;
    m->checked_sum = 0;
    read_own(m, 0, m->check_end);
}

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
    read_own(m, m->sent, limit - m->sent);
}

void lh_cs_member_pump(struct lh_cs_member *m)
{
    struct lh_cs_primary *p = m->primary;

    if (m->link != 0 && m->state == LH_CS_MEMBER_COPYING && m->checking && m->copy == NULL)
        check_begin(m);
    while (m->link != 0 && m->state >= LH_CS_MEMBER_COPYING && !m->checking) {
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

/* The whole batches at the start of what was read back, and the running checksum behind them if
 * `checksum` is not NULL. CORRUPT: there is none. */
static int whole_batches(const struct lh_cs_replica *r, int error, const struct lh_buf *bytes,
    size_t most, size_t *whole, uint64_t *checksum)
{
    uint32_t batch_max = lh_batch_bytes_max(r->header.chunk_size);

    *whole = 0;
    if (error != LH_OK)
        return error;
    while (*whole < bytes->size && *whole < most) {
        struct lh_batch_header h;
        int check = lh_batch_check(bytes, *whole, batch_max, &h);
        if (check == LH_ERR_WOULD_BLOCK && *whole > 0)
            break;
        if (check != LH_OK)
            return LH_ERR_CORRUPT;
        *whole += h.size;
        if (checksum != NULL)
            *checksum = lh_log_checksum(*checksum, &h);
    }
    return *whole > 0 ? LH_OK
                      : LH_ERR_CORRUPT; /* our file is shorter than what was written to it */
}

static void check_read(struct lh_cs_member *m, int error, const struct lh_buf *bytes)
{
    struct lh_cs_replica *r = m->primary->replica;
    size_t whole;

    /* First to where its log ends, if a batch ends there, for what it has adds up to then. */
    uint64_t stop = m->checked < m->from ? m->from : m->check_end;
    error = whole_batches(r, error, bytes, stop - m->checked, &whole, &m->checked_sum);
    m->checked += whole;
    if (error == LH_OK && m->checked == m->from)
        m->fits = m->checked_sum == m->checksum;
    if (error == LH_OK && m->checked < m->check_end) {
        read_own(m, m->checked, m->check_end - m->checked);
        return;
    }
    m->checking = false;
    if (error != LH_OK || m->checked_sum != m->check_sum) {
        LH_MARK("member-finds-rot-in-its-primary");
        lh_cs_replica_lose(r, error == LH_OK ? LH_ERR_CORRUPT : error, m->checked);
        return;
    }
    if (m->fits) {
        LH_MARK("member-fits-after-all");
        m->differs = false;
        lh_cs_member_pump(m);
        return;
    }
    LH_MARK("member-does-not-fit");
    m->diverged = m->truncated &&
                  !(m->primary->state == LH_CS_PRIMARY_EQUALIZING && m->primary->was_truncated);
    lh_cs_member_refused(m, LH_ERR_CORRUPT, "its log is not the beginning of this one");
}

static void own_read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_member *m = t->owner;
    struct lh_cs_replica *r = m->primary->replica;
    size_t whole;

    m->copy = NULL;
    if (m->checking) {
        check_read(m, error, bytes);
        return;
    }
    /* Only whole batches are sent, and none that has rotted here. */
    error = whole_batches(r, error, bytes, lh_cs_member_bounds(m)->message_bytes, &whole, NULL);
    if (error == LH_ERR_CORRUPT && whole == 0 && bytes->size > 0 && m->sent == m->from &&
        m->from > 0 && !LH_PLANTED("member-believed-before-own-log")) {
        check_begin(m);
        return;
    }
    if (error != LH_OK) {
        lh_cs_replica_lose(r, error, m->sent);
        return;
    }
    struct lh_buf batches = {0};
    lh_buf_append(&batches, bytes, 0, whole);
    send_batches(m, &batches);
    lh_cs_member_pump(m);
    lh_cs_primary_set_timer(m->primary);
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
