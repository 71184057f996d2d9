/* A primary's connection to one other member of the chunk: adopt, report, copy what it lacks,
 * confirm equality (REC-2), then every new append (APP-2). A member that comes back at the same
 * version goes through the same steps, with the log's present end as the target. */
#include "chunkserver/primary/members.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/primary/queue.h"
#include "chunkserver/primary/recovery.h"

#include <stdlib.h>
#include <string.h>

void lh_cs_member_init(
    struct lh_cs_member *m, struct lh_cs_primary *p, const Leasehold__Member *info)
{
    *m = (struct lh_cs_member){
        .primary = p,
        .server_id = lh_strdup(info->server_id),
        .address = lh_strdup(info->address),
        .state = LH_CS_MEMBER_DOWN,
        .joining = info->joining,
        .progress_at = p->replica->cs->now,
        .retry_at = p->replica->cs->now,
        .backoff = p->replica->cs->config.reconnect_min,
    };
}

static void replied(struct lh_cs_link *l, const void *message, struct lh_buf *payload);
static void link_closed(struct lh_cs_link *gone, const char *text);
static void own_read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);

static const struct lh_cs_link_user member_links = {.message = replied, .closed = link_closed};
static const struct lh_cs_disk_user own_read = {.done = own_read_done, .owned = true};

static struct lh_cs_host *server(const struct lh_cs_member *m)
{
    return m->primary->replica->cs;
}

static const struct lh_chunkserver_bounds *bounds(const struct lh_cs_member *m)
{
    return &server(m)->config.bounds;
}

static void drop_link(struct lh_cs_member *m)
{
    if (m->copy != NULL)
        m->copy->owner = NULL;
    m->copy = NULL;
    m->checking = false;
    if (m->link != 0)
        lh_cs_link_close(server(m), m->link, LH_ERR_CANCELLED, NULL);
    m->link = 0;
    m->unanswered = 0;
}

void lh_cs_member_deinit(struct lh_cs_member *m)
{
    drop_link(m);
    free(m->server_id);
    free(m->address);
}

static void fill(
    const struct lh_cs_member *m, Leasehold__ReplicateRequest *q, Leasehold__ReplicateKind kind)
{
    const struct lh_cs_primary *p = m->primary;

    leasehold__replicate_request__init(q);
    q->kind = kind;
    q->chunk = p->replica->chunk;
    q->version = p->version;
    q->committed = p->state >= LH_CS_PRIMARY_OPEN ? p->replica->committed : 0;
}

bool lh_cs_member_counts(const struct lh_cs_member *m)
{
    return !m->joining;
}

void lh_cs_member_update(struct lh_cs_member *m, const Leasehold__Member *info)
{
    if (m->joining && !info->joining) {
        LH_MARK("member-joined");
        m->joining = false; /* never the other way round at one version */
    }
    if (info->address[0] == '\0' || strcmp(info->address, m->address) == 0)
        return;
    free(m->address);
    m->address = lh_strdup(info->address);
    if (m->state == LH_CS_MEMBER_DOWN)
        m->retry_at = server(m)->now;
}

/* Is something owed by the member? Then its silence counts. */
static bool awaited(const struct lh_cs_member *m)
{
    return m->state == LH_CS_MEMBER_ADOPTING || m->state == LH_CS_MEMBER_CONFIRMING ||
           m->unanswered > 0;
}

void lh_cs_member_connect(struct lh_cs_member *m)
{
    struct lh_cs_host *cs = server(m);
    Leasehold__ReplicateRequest q;

    if (m->address[0] == '\0') {
        m->retry_at = lh_instant_add(cs->now, cs->config.reconnect_max);
        return;
    }
    struct lh_cs_link *l =
        lh_cs_link_open(cs, &member_links, m, LH_METHOD_REPLICATE, m->address, LH_DURATION_FOREVER);
    m->link = l->id;
    m->state = LH_CS_MEMBER_ADOPTING;
    m->retry_at = LH_INSTANT_NEVER;
    fill(m, &q, LEASEHOLD__REPLICATE_KIND__ADOPT);
    q.master_term = cs->master.master_term;
    q.joining = m->joining;
    lh_fx_send(cs->fx, l->id, &q.base, NULL);
}

/* Back to nothing; tried again after a while. */
static void down(struct lh_cs_member *m)
{
    struct lh_cs_host *cs = server(m);

    if (!awaited(m) && m->state != LH_CS_MEMBER_DOWN)
        m->progress_at = cs->now; /* nothing was owed so far: its time begins now */
    if (m->primary->state == LH_CS_PRIMARY_FETCHING && m->primary->fetch_from == m)
        lh_cs_primary_fetch_cancel(m->primary); /* what it has when it is back, it will report */
    drop_link(m);
    m->state = LH_CS_MEMBER_DOWN;
    m->retry_at = lh_instant_add(cs->now, m->backoff);
    m->backoff = lh_duration_min(lh_nanoseconds(m->backoff.ns * 2), cs->config.reconnect_max);
    lh_cs_primary_set_timer(m->primary);
}

void lh_cs_member_lost_link(struct lh_cs_member *m)
{
    m->link = 0;
    down(m);
}

static void link_closed(struct lh_cs_link *gone, const char *text)
{
    (void)text;
    lh_cs_member_lost_link(gone->owner);
}

/* It cannot go on, and waiting does not mend it. */
static void refused(struct lh_cs_member *m, int error, const char *text)
{
    lh_fx_log(server(m)->fx, LH_WARN, "chunk %llu: member %s refuses: %s%s%s",
        (unsigned long long)m->primary->replica->chunk, m->server_id, lh_error_text(error),
        text[0] == '\0' ? "" : ": ", text);
    LH_MARK("member-refuses");
    m->refused = true;
    down(m);
    lh_cs_primary_report_failed(m->primary);
}

void lh_cs_member_set_target(struct lh_cs_member *m, uint64_t length, uint64_t checksum)
{
    if (m->length > length) {
        /* It is joining: whoever counts has no longer log than this. CONFIRM tells it that it has
         * to begin anew. */
        LH_MARK("member-joins-with-too-much");
        m->length = length;
    }
    m->target = length;
    m->target_checksum = checksum;
    m->sent = m->from = m->length;
    m->state = LH_CS_MEMBER_COPYING;
    if (m->differs && m->truncated && !m->joining)
        m->checking = true; /* begun as soon as it can be: see lh_cs_member_pump() */
    lh_cs_member_pump(m);
}

static void adopted(struct lh_cs_member *m, const Leasehold__ReplicateReply *reply)
{
    struct lh_cs_primary *p = m->primary;

    if (reply->length > p->replica->header.chunk_size) {
        refused(m, LH_ERR_MALFORMED, "it reports a log longer than the chunk");
        return;
    }
    m->diverged = false;
    m->length = reply->length;
    m->checksum = reply->checksum;
    m->committed = reply->committed;
    m->unverified = reply->doubted;
    m->truncated = reply->cut;
    if (LH_PLANTED("shortest-log-wins") && p->state < LH_CS_PRIMARY_EQUALIZING &&
        m->length > p->replica->end)
        m->length = p->replica->end;
    m->state = LH_CS_MEMBER_ADOPTED;
    if (m->unverified)
        LH_MARK("member-doubted");
    if (m->length < p->replica->end)
        LH_MARK("member-behind");
    else if (m->length == p->replica->end)
        LH_MARK("member-equal");
    else
        LH_MARK("member-ahead");
    if (p->state < LH_CS_PRIMARY_EQUALIZING) {
        lh_cs_primary_member_changed(p);
        return;
    }
    if (m->length > p->replica->end && !m->joining) {
        refused(m, LH_ERR_CORRUPT, "its log is longer than its primary's");
        return;
    }
    if (m->length <= p->replica->end && !lh_cs_queue_batch_ends(p, m->length)) {
        refused(m, LH_ERR_CORRUPT, "its log does not end where a batch does");
        return;
    }
    LH_MARK("member-comes-back");
    lh_cs_member_set_target(m, p->replica->end, p->replica->checksum);
    lh_cs_primary_set_timer(p);
}

/* The member has its log durable up to `length`: what was sent up to there is answered. */
static void note_durable(struct lh_cs_member *m, uint64_t length)
{
    unsigned done = 0;

    if (length > m->length)
        m->advanced_at = server(m)->now;
    m->length = length;
    while (done < m->unanswered && m->ends[done] <= length)
        done++;
    m->unanswered -= done;
    memmove(m->ends, m->ends + done, m->unanswered * sizeof m->ends[0]);
}

static void appended(struct lh_cs_member *m, uint64_t length)
{
    if (m->state < LH_CS_MEMBER_COPYING || length < m->length)
        return;
    if (length > m->sent) {
        refused(m, LH_ERR_MALFORMED, "it confirms bytes that it was not sent");
        return;
    }
    note_durable(m, length);
    lh_cs_member_pump(m);
    lh_cs_primary_member_changed(m->primary);
}

/* REC-2: do two full members say that their logs differ from this one, and none that it is equal? A
 * misdirected write leaves a log that is sound by itself, here as well as there. */
static bool is_outvoted(const struct lh_cs_primary *p)
{
    unsigned differ = 0;

    if (p->state != LH_CS_PRIMARY_EQUALIZING)
        return false;
    for (size_t i = 0; i < p->member_count; i++) {
        const struct lh_cs_member *m = &p->members[i];
        if (!lh_cs_member_counts(m))
            continue;
        if (m->state == LH_CS_MEMBER_EQUAL)
            return false;
        differ += m->differs;
    }
    return differ > 1;
}

/* It says that pieces arrive. That is progress for as long as they take at the least rate of a
 * member: one that is slower holds up every writer of the file. */
static bool only_arrives(const struct lh_cs_member *m, const Leasehold__ReplicateReply *reply)
{
    if (reply->kind != LEASEHOLD__REPLICATE_KIND__APPEND ||
        reply->error != LEASEHOLD__ERROR_CODE__OK || m->unanswered == 0 ||
        reply->length != m->length)
        return false;

    uint64_t flight = m->sent - m->length, rate = bounds(m)->member_least_bytes;
    struct lh_duration allowed =
        lh_milliseconds(flight / rate * 1000 + flight % rate * 1000 / rate);
    return lh_instant_reached(server(m)->now, lh_instant_add(m->advanced_at, allowed)) &&
           !LH_PLANTED("slow-member-kept");
}

static void replied(struct lh_cs_link *l, const void *message, struct lh_buf *payload)
{
    const Leasehold__ReplicateReply *reply = message;
    struct lh_cs_member *m = l->owner;
    struct lh_cs_primary *p = m->primary;

    (void)payload;
    if (only_arrives(m, reply))
        LH_MARK("member-too-slow");
    else
        m->progress_at = server(m)->now;
    m->backoff = server(m)->config.reconnect_min;
    if (reply->error == LEASEHOLD__ERROR_CODE__STALE_VERSION && reply->version > p->version) {
        lh_cs_primary_fenced(p, reply->version);
        return;
    }
    if (reply->error == LEASEHOLD__ERROR_CODE__RECOVERING ||
        reply->error == LEASEHOLD__ERROR_CODE__SHUTTING_DOWN) {
        down(m);
        return;
    }
    if (reply->error != LEASEHOLD__ERROR_CODE__OK) {
        m->differs = m->differs || reply->differs;
        refused(m, lh_error_from_wire(reply->error), reply->error_text);
        if (reply->differs && is_outvoted(p)) {
            LH_MARK("recovery-outvoted");
            lh_cs_replica_lose(p->replica, LH_ERR_CORRUPT, p->replica->end);
        }
        return;
    }
    m->refused = false;
    switch (reply->kind) {
    case LEASEHOLD__REPLICATE_KIND__ADOPT:
        if (m->state == LH_CS_MEMBER_ADOPTING)
            adopted(m, reply);
        break;
    case LEASEHOLD__REPLICATE_KIND__APPEND:
        appended(m, reply->length);
        break;
    case LEASEHOLD__REPLICATE_KIND__CONFIRM:
        if (m->state != LH_CS_MEMBER_CONFIRMING)
            break;
        LH_MARK("member-confirms");
        m->state = LH_CS_MEMBER_EQUAL;
        m->unverified = m->truncated = m->differs = false;
        /* What it confirmed is durable there; it need not say so once more. */
        if (m->length < m->target)
            note_durable(m, m->target);
        lh_cs_member_pump(m);
        lh_cs_primary_member_changed(p);
        break;
    default:
        break;
    }
}

/* ------------------------------------------------------------------------------------------------
 * Sending. */

static void send_batches(struct lh_cs_member *m, struct lh_buf *batches)
{
    struct lh_cs_host *cs = server(m);
    Leasehold__ReplicateRequest q;

    LH_ASSERT(m->unanswered < LH_FLIGHT_MESSAGES_MAX);
    if (!awaited(m))
        m->progress_at = m->advanced_at = cs->now;
    fill(m, &q, LEASEHOLD__REPLICATE_KIND__APPEND);
    q.offset = m->sent;
    m->committed_sent = q.committed;
    m->sent += batches->size;
    m->ends[m->unanswered++] = m->sent;
    lh_fx_send(cs->fx, m->link, &q.base, batches);
}

static void send_confirm(struct lh_cs_member *m)
{
    Leasehold__ReplicateRequest q;

    if (!awaited(m))
        m->progress_at = server(m)->now;
    m->state = LH_CS_MEMBER_CONFIRMING;
    fill(m, &q, LEASEHOLD__REPLICATE_KIND__CONFIRM);
    q.length = m->target;
    q.checksum = m->target_checksum;
    lh_fx_send(server(m)->fx, m->link, &q.base, NULL);
}

/* What waits goes with the next message once two are under way, so that messages grow with the
 * load; large amounts need not wait. */
static bool may_send(const struct lh_cs_member *m, uint64_t waiting)
{
    const struct lh_chunkserver_bounds *b = bounds(m);

    if (m->unanswered >= b->flight_messages || m->sent - m->length >= b->flight_bytes)
        return false;
    return m->unanswered < 2 || waiting >= b->no_delay_bytes;
}

static void read_own(struct lh_cs_member *m, uint64_t offset, uint64_t bytes)
{
    struct lh_cs_replica *r = m->primary->replica;
    uint64_t most = lh_batch_bytes_max(r->header.chunk_size);

    if (most < bounds(m)->message_bytes)
        most = bounds(m)->message_bytes;
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
        refused(m, LH_ERR_CORRUPT, "its log does not fit");
        return;
    }
    if (r->written < m->check_end) {
        down(m); /* it will report again */
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
            if (batches.size > 0 && batches.size + u->bytes.size > bounds(m)->message_bytes)
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
    refused(m, LH_ERR_CORRUPT, "its log is not the beginning of this one");
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
    error = whole_batches(r, error, bytes, bounds(m)->message_bytes, &whole, NULL);
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
    fill(m, &q, LEASEHOLD__REPLICATE_KIND__COMMITTED);
    m->committed_sent = q.committed;
    lh_fx_send(server(m)->fx, m->link, &q.base, NULL);
}

/* ------------------------------------------------------------------------------------------------
 * Time. */

/* When its silence has lasted too long; it is reported again each such time after that. */
static struct lh_instant patience_ends(const struct lh_cs_member *m)
{
    struct lh_duration timeout = server(m)->config.member_timeout;

    if (!lh_cs_primary_needs_members(m->primary))
        return LH_INSTANT_NEVER;
    if (m->state != LH_CS_MEMBER_DOWN && !awaited(m))
        return LH_INSTANT_NEVER;
    return lh_instant_add(lh_instant_max(m->progress_at, m->reported_at), timeout);
}

struct lh_instant lh_cs_member_deadline(const struct lh_cs_member *m)
{
    return lh_instant_min(
        m->state == LH_CS_MEMBER_DOWN ? m->retry_at : LH_INSTANT_NEVER, patience_ends(m));
}

void lh_cs_member_timer(struct lh_cs_member *m)
{
    struct lh_cs_host *cs = server(m);

    if (lh_instant_reached(cs->now, patience_ends(m))) {
        LH_MARK("member-silent");
        m->reported_at = cs->now;
        if (m->state != LH_CS_MEMBER_DOWN)
            down(m);
        lh_cs_primary_report_failed(m->primary);
    }
    if (m->state == LH_CS_MEMBER_DOWN && lh_instant_reached(cs->now, m->retry_at))
        lh_cs_member_connect(m);
}
