/* Why a chunk is sealed without its primary: its primary is lost, or too few of its members answer
 * it (FAIL-2a), or its logs are damaged (REC-9). */
#include "master/seal/seal.h"

#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

bool lh_m_rolls(const struct lh_master *m, const struct lh_m_file *f)
{
    if (f->on_primary_loss == LEASEHOLD__ON_PRIMARY_LOSS__AS_CONFIGURED)
        return m->config.on_primary_loss == LH_LOSS_ROLL;
    return f->on_primary_loss == LEASEHOLD__ON_PRIMARY_LOSS__ROLL;
}

/* ---- Its primary. */

/* What is wrong with the tail's primary, as far as the master can see for itself. */
enum trouble { NO_TROUBLE, CUT_OFF, SILENT, SHORT };

/* Does its primary take no appends for want of members (REC-3)? */
static bool is_short(const struct lh_master *m, const struct lh_m_chunk *c)
{
    uint32_t full = 0;

    for (uint32_t i = 0; i < c->member_count; i++)
        full += !c->members[i].joining;
    if (full < c->file->min_replicas)
        return true;
    return c->active->seal->short_version == c->version &&
           lh_instant_before(
               m->now, lh_instant_add(c->active->seal->short_at, m->config.short_for));
}

static enum trouble trouble(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_waiter *w)
{
    const struct lh_m_server *s = lh_m_holder(c);

    if (s->session.link == 0 || c->active->grant->lease.session != s->session.client.session)
        return CUT_OFF; /* no stream, or it has come back without the lease */
    if (is_short(m, c))
        return SHORT;
    if (!lh_instant_before(s->session.client.received_at, w->arrived_at))
        return NO_TROUBLE;
    return lh_m_chunk_is_lost_to(c, w) || !lh_m_looks_alive(m, s) ? SILENT : NO_TROUBLE;
}

/* From when on the primary counts as lost if the trouble lasts. */
static struct lh_instant lost_at(const struct lh_master *m, const struct lh_m_chunk *c,
    const struct lh_m_waiter *w, enum trouble what)
{
    bool failed = lh_m_chunk_is_lost_to(c, w) || w->full_chunk == c->id;
    struct lh_instant at = lh_instant_add(w->arrived_at, m->config.suspect_after);

    switch (what) {
    case SHORT:
        return failed ? w->arrived_at : LH_INSTANT_NEVER;
    case CUT_OFF:
        if (failed)
            at = w->arrived_at;
        /* After a restart it has to find this master first. */
        if (c->active->grant->lease.waiting && c->active->grant->lease.session == 0)
            at = lh_instant_max(at, lh_instant_add(m->started_at, m->config.find_timeout));
        return at;
    case SILENT:
        if (LH_PLANTED("roll-on-hint"))
            return w->arrived_at;
        /* Nobody is lost for silence who was not asked, however long the caller waits already. */
        return lh_instant_max(at, lh_instant_add(lh_m_session_is_asked(&lh_m_holder(c)->session)
                                                     ? lh_m_holder(c)->session.silent_since
                                                     : m->now,
                                      m->config.suspect_after));
    default:
        return LH_INSTANT_NEVER;
    }
}

/* INV-9: asks the primary whether it lives, unless it was asked just now. */
static void inquire(struct lh_master *m, struct lh_m_server *s, struct lh_m_waiter *w)
{
    struct lh_instant next = lh_instant_add(s->session.inquired_at, m->config.inquiry_pause);

    if (s->session.inquired && !lh_instant_before(s->session.inquired_at, w->arrived_at))
        return; /* it was asked since */
    if (s->session.inquired && lh_instant_before(m->now, next)) {
        LH_MARK("inquiry-put-off");
        lh_timer_set(&m->timers, &w->timer, lh_instant_min(w->deadline, next));
        return;
    }
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Inquiry inquiry = LEASEHOLD__INQUIRY__INIT;
    LH_MARK("inquiry-sent");
    m->counts.inquiries++;
    inquiry.session = lh_m_wire_session(m, s->session.client.session);
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_INQUIRY;
    reply.inquiry = &inquiry;
    if (lh_m_send(m, s, &reply)) /* else its registration, when it is answered, shows life */
        lh_m_session_inquired(m, &s->session);
}

static const char *words(enum trouble what)
{
    return what == CUT_OFF  ? "it has no session stream"
           : what == SILENT ? "it does not answer"
                            : "too few of its members answer";
}

/* Whom is the next chunk to be placed without? */
static void exclude(const struct lh_master *m, struct lh_m_chunk *c, enum trouble what)
{
    for (uint32_t i = 0; i < c->member_count; i++)
        if (what != SHORT) /* else it is those that its primary reported */
            c->members[i].excluded = lh_m_server_of(m, &c->members[i]) == lh_m_holder(c);
}

void lh_m_roll_consider(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_chunk *c = lh_m_tail(f);
    struct lh_m_waiter *w;

    if (c == NULL || c->sealed || c->intent_to_seal || !lh_m_rolls(m, f) || !lh_m_held(m, c))
        return;
    TAILQ_FOREACH(w, &f->active->waiters, file_link) {
        enum trouble what = trouble(m, c, w);
        struct lh_instant at = lost_at(m, c, w, what);
        if (w->kind != LH_WAIT_TAIL || at.ns == LH_INSTANT_NEVER.ns)
            continue;
        if (!lh_instant_reached(m->now, at)) {
            if (lh_instant_before(at, w->deadline))
                lh_timer_set(&m->timers, &w->timer, at);
            if (what == SILENT)
                inquire(m, lh_m_holder(c), w);
            continue;
        }
        exclude(m, c, what);
        if (!lh_m_roll_possible(m, c)) {
            LH_MARK("roll-impossible");
            return;
        }
        if (what == CUT_OFF)
            LH_MARK("roll-for-a-broken-stream");
        else if (what == SILENT)
            LH_MARK("roll-for-silence");
        else
            LH_MARK("roll-for-too-few-members");
        lh_m_roll_begin(m, c, words(what));
        return;
    }
}

bool lh_m_roll_short(struct lh_master *m, struct lh_m_chunk *c)
{
    if (!lh_m_rolls(m, c->file) || !lh_m_roll_possible(m, c))
        return false;
    LH_MARK("roll-for-appends-that-wait");
    lh_m_roll_begin(m, c, words(SHORT));
    return true;
}

/* ---- REC-9: no log is whole. */

/* `shown`: one whose server says so now. */
static bool has_damaged_log(const struct lh_master *m, const struct lh_m_chunk *c, bool shown)
{
    for (uint32_t i = 0; i < c->member_count; i++)
        if (lh_m_log_is_damaged(m, &c->members[i]) && (!shown || lh_m_is_kept(m, &c->members[i])))
            return true;
    return false;
}

/* Does any full member have, or may it have, a log that is not damaged? */
static bool has_whole_log(const struct lh_master *m, const struct lh_m_chunk *c)
{
    for (uint32_t i = 0; i < c->member_count; i++)
        if (lh_m_log_counts(m, &c->members[i]) &&
            lh_m_member_health(m, c, &c->members[i]) != LH_M_MISSING)
            return true;
    return false;
}

bool lh_m_roll_damaged(struct lh_master *m, struct lh_m_chunk *c)
{
    if (!c->created || c->sealed || c->intent_to_seal || lh_m_held(m, c) || has_whole_log(m, c) ||
        !has_damaged_log(m, c, true) || !lh_m_roll_possible(m, c) ||
        LH_PLANTED("damaged-chunk-never-sealed"))
        return false;
    if (lh_m_holder(c) != NULL)
        lh_m_lease_over(m, c, "has run out"); /* it ended, and was not collected yet */
    LH_MARK("roll-of-a-damaged-chunk");
    lh_m_roll_begin(m, c, "its log is damaged at every member");
    return true;
}

bool lh_m_roll_unsure_primary(struct lh_master *m, struct lh_m_chunk *c)
{
    if (!has_damaged_log(m, c, false) || LH_PLANTED("damaged-logs-not-heard"))
        return false;
    if (!lh_m_roll_possible(m, c))
        return true;
    LH_MARK("roll-beside-damaged-logs");
    lh_m_roll_begin(m, c, "its log may lack records that are in damaged ones");
    return true;
}
