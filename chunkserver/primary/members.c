/* A primary's connection to one other member of the chunk: adopt, report, copy what it lacks,
 * confirm equality (REC-2), then every new append (APP-2). A member that comes back at the same
 * version goes through the same steps, with the log's present end as the target. */
#include "chunkserver/primary/members.h"

#include "base/alloc.h"
#include "chunkserver/primary/pair.h"
#include "chunkserver/primary/queue.h"
#include "chunkserver/primary/recovery.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void take_lead(struct lh_cs_member *m, const ProtobufCBinaryData *lead)
{
    m->lead_size = lead->len <= sizeof m->lead ? lead->len : 0;
    if (m->lead_size > 0)
        memcpy(m->lead, lead->data, m->lead_size);
}

void lh_cs_member_init(struct lh_cs_member *m, struct lh_cs_primary *p,
    const Leasehold__Member *info, const ProtobufCBinaryData *lead)
{
    *m = (struct lh_cs_member){
        .primary = p,
        .chunk = p->replica->chunk,
        .server_id = lh_strdup(info->server_id),
        .address = lh_server_at(info->server_id, info->address),
        .state = LH_CS_MEMBER_DOWN,
        .joining = info->joining,
        .progress_at = p->replica->logs->cs->now,
        .retry_at = p->replica->logs->cs->now,
        .backoff = p->replica->logs->cs->config.reconnect_min,
    };
    take_lead(m, lead);
}

static void end_feed(struct lh_cs_member *m)
{
    if (m->copy != NULL)
        m->copy->owner = NULL;
    m->copy = NULL;
    lh_buf_clear(&m->old);
    lh_cs_pair_leave(m);
    m->adopt_sent = m->notice = false;
    m->sent = m->length;
}

void lh_cs_member_deinit(struct lh_cs_member *m)
{
    end_feed(m);
    free(m->server_id);
    free(m->address);
}

bool lh_cs_member_counts(const struct lh_cs_member *m)
{
    return !m->joining;
}

void lh_cs_member_update(
    struct lh_cs_member *m, const Leasehold__Member *info, const ProtobufCBinaryData *lead)
{
    if (m->joining && !info->joining) {
        LH_MARK("member-joined");
        m->joining = false; /* never the other way round at one version */
    }
    bool same_lead = lead->len == m->lead_size &&
                     (m->lead_size == 0 || memcmp(lead->data, m->lead, m->lead_size) == 0);
    if (!same_lead) {
        take_lead(m, lead);
        lh_cs_member_try_now(m);
    }
    char *address = lh_server_at(info->server_id, info->address);
    bool same = address[0] == '\0' || strcmp(address, m->address) == 0;
    if (same) {
        free(address);
        return;
    }
    free(m->address);
    m->address = address;
    if (m->state == LH_CS_MEMBER_DOWN)
        m->retry_at = lh_cs_member_host(m)->now;
}

void lh_cs_member_try_now(struct lh_cs_member *m)
{
    if (m->state != LH_CS_MEMBER_DOWN)
        return;
    m->progress_at = m->retry_at = lh_cs_member_host(m)->now;
}

/* Is something owed by the member? Then its silence counts. So it does while what is due to it
 * waits behind a message of other chunks: else this chunk would wait for as long as those. */
bool lh_cs_member_awaited(const struct lh_cs_member *m)
{
    return m->state == LH_CS_MEMBER_ADOPTING || m->state == LH_CS_MEMBER_CONFIRMING ||
           m->sent > m->length || (lh_turn_waits(&m->turn) && !LH_PLANTED("part-waits-unnoticed"));
}

void lh_cs_member_connect(struct lh_cs_member *m)
{
    struct lh_cs_host *cs = lh_cs_member_host(m);

    if (m->address[0] == '\0' || !lh_cs_pair_join(m)) {
        m->retry_at = lh_instant_add(cs->now, cs->config.reconnect_max);
        return;
    }
    m->state = LH_CS_MEMBER_ADOPTING;
    m->retry_at = LH_INSTANT_NEVER;
}

/* Back to nothing; tried again after a while. */
void lh_cs_member_down(struct lh_cs_member *m)
{
    struct lh_cs_host *cs = lh_cs_member_host(m);

    if (!lh_cs_member_awaited(m) && m->state != LH_CS_MEMBER_DOWN)
        m->progress_at = cs->now; /* nothing was owed so far: its time begins now */
    if (m->primary->state == LH_CS_PRIMARY_FETCHING && m->primary->fetch_from == m)
        lh_cs_primary_fetch_cancel(m->primary); /* what it has when it is back, it will report */
    end_feed(m);
    m->state = LH_CS_MEMBER_DOWN;
    m->retry_at = lh_instant_add(cs->now, m->backoff);
    m->backoff = lh_duration_min(lh_nanoseconds(m->backoff.ns * 2), cs->config.reconnect_max);
    lh_cs_primary_set_timer(m->primary);
}

/* It cannot go on, and waiting does not mend it. */
void lh_cs_member_refused(struct lh_cs_member *m, int error, const char *text)
{
    lh_fx_log(lh_cs_member_host(m)->fx, LH_WARN, "chunk %" PRIu64 ": member %s refuses: %s%s%s",
        m->primary->replica->chunk, m->server_id, lh_error_text(error), text[0] == '\0' ? "" : ": ",
        text);
    LH_MARK("member-refuses");
    m->refused = true;
    lh_cs_member_down(m);
    lh_cs_primary_report_failed(m->primary);
}

void lh_cs_member_differs(struct lh_cs_member *m, uint64_t length, uint64_t checksum)
{
    struct lh_cs_replica *r = m->primary->replica;

    lh_fx_log(r->logs->cs->fx, LH_ERROR,
        "chunk %" PRIu64 ": the log of %s (%" PRIu64 " bytes, checksum %016" PRIx64
        ") and this one (checksum %016" PRIx64 " "
        "at "
        "%" PRIu64 ") differ; both servers read theirs back",
        r->chunk, m->server_id, m->length, m->checksum, checksum, length);
    lh_cs_member_refused(m, LH_ERR_CORRUPT, "its log is not the beginning of this one");
    lh_cs_replica_differs(r);
}

/* REC-2: it has said so with its report. One that is joining has its header written (REC-4). */
static bool is_equal(const struct lh_cs_member *m)
{
    return m->vouched && !m->joining &&
           ((m->length == m->target && m->checksum == m->target_checksum) ||
               LH_PLANTED("report-taken-for-equality"));
}

void lh_cs_member_set_target(struct lh_cs_member *m, uint64_t length, uint64_t checksum)
{
    if (m->length > length) {
        /* It is joining: whoever counts has no longer log than this. CONFIRM tells it that it has
         * to begin again. */
        LH_MARK("member-joins-with-too-much");
        m->length = length;
    }
    m->target = length;
    m->target_checksum = checksum;
    m->sent = m->from = m->run_ends[0] = m->run_ends[1] = m->length;
    if (is_equal(m)) {
        LH_MARK("member-needs-no-confirm");
        m->sent = m->length = length;
        m->state = LH_CS_MEMBER_EQUAL;
        return;
    }
    m->state = LH_CS_MEMBER_COPYING;
    lh_cs_pair_ready(m);
}

static void adopted(struct lh_cs_member *m, const Leasehold__ReplicateAnswer *reply)
{
    struct lh_cs_primary *p = m->primary;

    if (reply->length > p->replica->header.chunk_size) {
        lh_cs_member_refused(m, LH_ERR_MALFORMED, "it reports a log longer than the chunk");
        return;
    }
    m->length = reply->length;
    m->checksum = reply->checksum;
    m->committed = reply->committed;
    m->unverified = reply->unverified;
    m->truncated = reply->truncated;
    m->vouched = reply->equal;
    if (LH_PLANTED("shortest-log-wins") && p->state < LH_CS_PRIMARY_EQUALIZING &&
        m->length > p->replica->end)
        m->length = p->replica->end;
    m->state = LH_CS_MEMBER_ADOPTED;
    if (m->unverified)
        LH_MARK("member-unverified");
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
        lh_cs_member_refused(m, LH_ERR_CORRUPT, "its log is longer than its primary's");
        return;
    }
    if (m->length <= p->replica->end && !lh_cs_queue_batch_ends(p, m->length)) {
        lh_cs_member_refused(m, LH_ERR_CORRUPT, "its log does not end where a batch does");
        return;
    }
    LH_MARK("member-comes-back");
    lh_cs_member_set_target(m, p->replica->end, p->replica->checksum);
    lh_cs_primary_member_changed(p); /* perhaps its end */
}

/* The member has its log durable up to `length`: what was sent up to there is answered. */
static void note_durable(struct lh_cs_member *m, uint64_t length)
{
    if (length > m->length)
        m->advanced_at = lh_cs_member_host(m)->now;
    m->length = length;
}

static void appended(struct lh_cs_member *m, uint64_t length)
{
    if (m->state < LH_CS_MEMBER_COPYING || length < m->length)
        return;
    if (length > m->sent) {
        lh_cs_member_refused(m, LH_ERR_MALFORMED, "it confirms bytes that it was not sent");
        return;
    }
    note_durable(m, length);
    lh_cs_pair_ready(m);
    lh_cs_primary_member_changed(m->primary);
}

static struct lh_duration at_least_rate(const struct lh_cs_member *m, uint64_t bytes)
{
    uint64_t rate = lh_cs_member_bounds(m)->member_least_bytes;

    return lh_milliseconds(bytes / rate * 1000 + bytes % rate * 1000 / rate);
}

/* It says that pieces arrive. That is progress for as long as they take at the least rate of a
 * member: one that is slower holds up every writer of the file. */
static bool only_arrives(const struct lh_cs_member *m, const Leasehold__ReplicateAnswer *reply)
{
    if (reply->kind != LEASEHOLD__REPLICATE_KIND__APPEND ||
        reply->error != LEASEHOLD__ERROR_CODE__OK || m->sent == m->length ||
        reply->length != m->length)
        return false;

    struct lh_duration allowed = at_least_rate(m, m->sent - m->length);
    return lh_instant_reached(lh_cs_member_host(m)->now, lh_instant_add(m->advanced_at, allowed)) &&
           !LH_PLANTED("slow-member-kept");
}

void lh_cs_member_answered(struct lh_cs_member *m, const Leasehold__ReplicateAnswer *reply)
{
    struct lh_cs_primary *p = m->primary;

    if (reply->error == LEASEHOLD__ERROR_CODE__STALE_CAPABILITY) {
        /* One of the two has yet to register with the present master (ACC-9). That is no refusal,
         * and no progress: it is waited for as for one that is away. */
        LH_MARK("member-asks-who-leads");
        lh_cs_member_down(m);
        return;
    }
    if (only_arrives(m, reply))
        LH_MARK("member-too-slow");
    else
        m->progress_at = m->pair->progress_at = lh_cs_member_host(m)->now;
    m->backoff = lh_cs_member_host(m)->config.reconnect_min;
    if (reply->error == LEASEHOLD__ERROR_CODE__STALE_VERSION && reply->version > p->version) {
        lh_cs_primary_fenced(p, reply->version);
        return;
    }
    if (reply->error == LEASEHOLD__ERROR_CODE__RECOVERING ||
        reply->error == LEASEHOLD__ERROR_CODE__SHUTTING_DOWN) {
        lh_cs_member_down(m);
        return;
    }
    if (reply->error != LEASEHOLD__ERROR_CODE__OK) {
        lh_cs_member_refused(m, lh_error_from_wire(reply->error), reply->error_text);
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
        m->unverified = m->truncated = false;
        /* What it confirmed is durable there; it need not say so again. */
        if (m->length < m->target)
            note_durable(m, m->target);
        lh_cs_pair_ready(m);
        lh_cs_primary_member_changed(p);
        break;
    default:
        break;
    }
}

/* ------------------------------------------------------------------------------------------------
 * Time. */

/* Since when nothing was heard of it. A server that answers about other chunks is busy, not silent,
 * for as long as all that is under way may take: this chunk's may be the last of it. */
static struct lh_instant silent_since(const struct lh_cs_member *m)
{
    struct lh_instant since = lh_instant_max(m->progress_at, m->reported_at);

    if (m->pair == NULL || !lh_instant_before(since, m->pair->progress_at) ||
        LH_PLANTED("busy-member-blamed"))
        return since;
    LH_MARK("member-busy-with-others");
    uint64_t under_way = m->primary->primaries->streams.pending_bytes;
    return lh_instant_min(m->pair->progress_at, lh_instant_add(since, at_least_rate(m, under_way)));
}

/* When its silence has lasted too long; it is reported again each such time after that. */
static struct lh_instant patience_ends(const struct lh_cs_member *m)
{
    if (!lh_cs_primary_needs_members(m->primary))
        return LH_INSTANT_NEVER;
    if (m->state != LH_CS_MEMBER_DOWN && !lh_cs_member_awaited(m))
        return LH_INSTANT_NEVER;
    return lh_instant_add(silent_since(m), lh_cs_member_host(m)->config.member_timeout);
}

struct lh_instant lh_cs_member_deadline(const struct lh_cs_member *m)
{
    return lh_instant_min(
        m->state == LH_CS_MEMBER_DOWN ? m->retry_at : LH_INSTANT_NEVER, patience_ends(m));
}

void lh_cs_member_timer(struct lh_cs_member *m)
{
    struct lh_cs_host *cs = lh_cs_member_host(m);

    if (lh_instant_reached(cs->now, patience_ends(m))) {
        LH_MARK("member-silent");
        m->reported_at = cs->now;
        lh_cs_pair_unstick(m);
        if (m->state != LH_CS_MEMBER_DOWN)
            lh_cs_member_down(m);
        lh_cs_primary_report_failed(m->primary);
    }
    if (m->state == LH_CS_MEMBER_DOWN && lh_instant_reached(cs->now, m->retry_at))
        lh_cs_member_connect(m);
}
