/* The primary's recovery at a new version (REC-2). Every member adopts the version and reports its
 * log; the longest log of a full member is fetched, unless it is here; every member is brought to
 * it and confirms that it is equal; then appends are taken (primary.c).
 *
 * A member that is away is waited for until what others report is evidence for everything that was
 * acknowledged (REC-2a, FAIL-3: evidence/); a possible loss is reported if nothing is. */
#include "chunkserver/primary/recovery.h"

#include "base/alloc.h"
#include "chunkserver/primary/appending.h"
#include "chunkserver/primary/leases.h"
#include "chunkserver/primary/members.h"
#include "chunkserver/primary/pair.h"
#include "chunkserver/primary/streams.h"
#include "evidence/evidence.h"

#include <inttypes.h>
#include <stdlib.h>

/* What the logs of this version's members say; this replica's is the first, the others' follow in
 * the members' order. */
static struct lh_evidence weigh(const struct lh_cs_primary *p)
{
    const struct lh_cs_replica *r = p->replica;
    struct lh_log *logs = lh_alloc_array(p->member_count + 1, sizeof *logs);

    logs[0] = (struct lh_log){
        .state = p->state > LH_CS_PRIMARY_ADOPTING ? LH_LOG_REPORTED : LH_LOG_AWAITED,
        .length = r->end,
        .committed = lh_cs_replica_known_committed(r),
        .unverified = lh_cs_replica_unverified(r),
        .truncated = r->header.truncated,
    };
    for (size_t i = 0; i < p->member_count; i++) {
        const struct lh_cs_member *m = &p->members[i];
        logs[i + 1] = (struct lh_log){
            .state = !lh_cs_member_counts(m)            ? LH_LOG_NONE
                     : m->state >= LH_CS_MEMBER_ADOPTED ? LH_LOG_REPORTED
                                                        : LH_LOG_AWAITED,
            .length = m->length,
            .committed = m->committed,
            .unverified = m->unverified,
            .truncated = m->truncated,
        };
    }
    struct lh_evidence e = lh_evidence_longest(logs, (uint32_t)p->member_count + 1, 0);
    free(logs);
    return e;
}

bool lh_cs_primary_is_sure(const struct lh_cs_primary *p)
{
    return p->state > LH_CS_PRIMARY_EQUALIZING || weigh(p).sure;
}

/* ------------------------------------------------------------------------------------------------
 * The longest log, and everybody brought to it (REC-2). */

static void equalize(struct lh_cs_primary *p)
{
    struct lh_cs_replica *r = p->replica;

    p->state = LH_CS_PRIMARY_EQUALIZING;
    p->self_equal = false;
    lh_cs_replica_submit(r, (struct lh_cs_job){
                                .kind = LH_CS_JOB_CONFIRM,
                                .owner = lh_cs_primary_job_done,
                                .version = p->version,
                                .length = r->end,
                                .checksum = r->checksum,
                            });
    for (size_t i = 0; i < p->member_count; i++)
        if (p->members[i].state == LH_CS_MEMBER_ADOPTED)
            lh_cs_member_set_target(&p->members[i], r->end, r->checksum);
    lh_cs_replica_pump(r);
}

static void fetched(struct lh_cs_link *l, const void *message, struct lh_buf *batches);
static void fetch_closed(struct lh_cs_link *gone, const char *text);

static const struct lh_cs_link_user fetch_links = {.message = fetched, .closed = fetch_closed};

static void fetch(struct lh_cs_primary *p)
{
    struct lh_cs_host *cs = p->replica->logs->cs;
    Leasehold__ReadRequest m = LEASEHOLD__READ_REQUEST__INIT;

    p->state = LH_CS_PRIMARY_FETCHING;
    struct lh_cs_link *l = lh_cs_link_open(cs, &fetch_links, p, LH_METHOD_READ,
        p->fetch_from->address, lh_milliseconds(cs->config.bounds.fetch_timeout_ms));
    p->fetch_link = l->id;
    m.chunk = p->replica->chunk;
    m.version = p->version;
    m.offset = p->replica->end;
    m.max_bytes = cs->config.bounds.fetch_bytes;
    m.mode = LEASEHOLD__READ_MODE__RECOVERY;
    m.cluster = lh_cs_cluster_name(cs);
    lh_fx_send(cs->fx, l->id, &m.base, NULL);
}

static void report_possible_loss(struct lh_cs_primary *p, uint64_t length)
{
    struct lh_cs_host *cs = p->replica->logs->cs;

    lh_fx_log(cs->fx, LH_ERROR,
        "chunk %" PRIu64
        ": no member's log is sure to be whole (their machines went down, or their ends were "
        "damaged); going on with the longest (%" PRIu64
        " bytes); acknowledged records may be missing",
        p->replica->chunk, length);
    lh_cs_loss_report(p->primaries, p->replica->chunk, p->version, length);
}

static void gathered(struct lh_cs_primary *p)
{
    struct lh_cs_replica *r = p->replica;
    struct lh_evidence e = weigh(p);

    if (e.verdict == LH_VERDICT_WAIT)
        return;
    p->fetch_from = e.which == 0 ? NULL : &p->members[e.which - 1];
    if (lh_cs_replica_unverified(r))
        LH_MARK("recovery-by-unverified-primary");
    if (e.verdict == LH_VERDICT_LOSS && !LH_PLANTED("loss-not-reported")) {
        LH_MARK("recovery-all-unverified");
        report_possible_loss(p, p->fetch_from == NULL ? r->end : p->fetch_from->length);
    }
    for (size_t i = 0; i < p->member_count; i++)
        if (!lh_cs_member_counts(&p->members[i]))
            LH_MARK("recovery-with-joining-member");
    if (p->fetch_from != NULL) {
        LH_MARK("recovery-fetches");
        fetch(p);
    } else {
        LH_MARK("recovery-with-own-log");
        equalize(p);
    }
}

static void fetch_failed(struct lh_cs_primary *p)
{
    struct lh_cs_member *m = p->fetch_from;

    /* Whoever was to be fetched from reports again, and the choice is made again. */
    p->fetch_link = 0;
    lh_cs_primary_fetch_cancel(p);
    if (m->pair != NULL)
        lh_cs_member_down(m);
}

static void fetch_closed(struct lh_cs_link *gone, const char *text)
{
    (void)text;
    fetch_failed(gone->owner);
}

void lh_cs_primary_fetch_cancel(struct lh_cs_primary *p)
{
    if (p->fetch_link != 0)
        lh_cs_link_close(p->replica->logs->cs, p->fetch_link, LH_ERR_CANCELLED, NULL);
    p->fetch_link = 0;
    p->fetch_from = NULL;
    p->state = LH_CS_PRIMARY_GATHERING;
}

/* Takes what a fetch brought. UNAVAILABLE: it is not what the member had promised. CORRUPT: it is
 * sound, but does not fit what is here. */
static int take_fetched(struct lh_cs_primary *p, struct lh_buf *batches)
{
    if (batches->size == 0)
        return LH_ERR_UNAVAILABLE;
    size_t taken;
    int error = lh_cs_replica_take(p->replica, batches, p->fetch_from->length, &taken);
    return error == LH_OK                    ? LH_OK
           : error == LH_ERR_OUT_OF_SEQUENCE ? LH_ERR_CORRUPT
                                             : LH_ERR_UNAVAILABLE;
}

static void fetched(struct lh_cs_link *l, const void *message, struct lh_buf *batches)
{
    const Leasehold__ReadReply *m = message;
    struct lh_cs_primary *p = l->owner;
    struct lh_cs_replica *r = p->replica;

    if (p->state != LH_CS_PRIMARY_FETCHING)
        return;
    lh_cs_link_close(r->logs->cs, p->fetch_link, LH_OK, NULL);
    p->fetch_link = 0;
    /* MALFORMED: no batch of the longest log begins where this one ends. */
    int error = m->error == LEASEHOLD__ERROR_CODE__MALFORMED ? LH_ERR_CORRUPT
                : m->error != LEASEHOLD__ERROR_CODE__OK      ? LH_ERR_UNAVAILABLE
                                                             : take_fetched(p, batches);
    if (error == LH_ERR_UNAVAILABLE)
        fetch_failed(p);
    else if (error != LH_OK)
        lh_cs_member_differs(p->fetch_from, r->end, r->checksum);
    else if (r->end < p->fetch_from->length)
        fetch(p);
    else
        equalize(p);
    lh_cs_replica_pump(r);
}

/* ------------------------------------------------------------------------------------------------
 * From one step to the next. */

void lh_cs_primary_report_recovered(struct lh_cs_primary *p)
{
    struct lh_cs_host *cs = p->replica->logs->cs;
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Recovered done = LEASEHOLD__RECOVERED__INIT;

    done.session = lh_cs_session_id(cs);
    done.chunk = p->replica->chunk;
    done.version = p->version;
    done.length = p->replica->committed; /* what was ordered since may not be yet */
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_RECOVERED;
    m.recovered = &done;
    lh_cs_send(cs, &m);
}

static void recovered(struct lh_cs_primary *p)
{
    struct lh_cs_replica *r = p->replica;
    struct lh_cs_host *cs = r->logs->cs;

    LH_MARK("recovery-done");
    cs->counts.recoveries++;
    p->state = LH_CS_PRIMARY_OPEN;
    p->committed_checksum = r->checksum;
    lh_cs_replica_note_committed(r, r->end);
    lh_fx_log(cs->fx, LH_INFO,
        "chunk %" PRIu64 ": primary at version %" PRIu64 " with %zu members, %" PRIu64 " bytes",
        r->chunk, p->version, p->member_count + 1, r->end);
    lh_cs_primary_report_recovered(p);
    p->notice_at = lh_instant_add(cs->now, cs->config.notice_delay);
    lh_cs_primary_set_timer(p);
    lh_cs_lane_open_all(p);
}

void lh_cs_primary_recover(struct lh_cs_primary *p)
{
    bool all_adopted = true, all_equal = p->self_equal;

    for (size_t i = 0; i < p->member_count; i++) {
        all_adopted = all_adopted && p->members[i].state >= LH_CS_MEMBER_ADOPTED;
        all_equal = all_equal && (p->members[i].state == LH_CS_MEMBER_EQUAL ||
                                     LH_PLANTED("open-before-all-are-equal"));
    }
    if (p->state == LH_CS_PRIMARY_GATHERING && all_adopted)
        gathered(p);
    else if (p->state == LH_CS_PRIMARY_EQUALIZING && all_equal)
        recovered(p);
}

void lh_cs_primary_job_done(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    struct lh_cs_primary *p = lh_cs_primary_of(r);

    if (p == NULL || p->version != j->version || error != LH_OK)
        return; /* the replica is lost or cut back, and this part has ended or will */
    if (j->kind == LH_CS_JOB_ADOPT && p->state == LH_CS_PRIMARY_ADOPTING) {
        p->state = LH_CS_PRIMARY_GATHERING;
        lh_cs_grant_confirm(p->primaries, p->replica->chunk, p->version, LH_OK);
    } else if (j->kind == LH_CS_JOB_CONFIRM) {
        p->self_equal = true;
        /* What was fetched is written by now: members that lack it can be sent it. */
        for (size_t i = 0; i < p->member_count && !LH_PLANTED("fetched-bytes-not-passed-on"); i++)
            lh_cs_pair_ready(&p->members[i]);
    }
    lh_cs_primary_member_changed(p);
}
