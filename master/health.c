/* What each replica is worth now, and which chunks are to be looked at because that changed.
 *
 * A change that concerns one chunk puts it into `attention`. One that concerns many (a server came,
 * went, or was away for too long) begins a *patrol*, a walk over all chunks by id; if nothing
 * happens there is one a minute. A step looks at `step_work` chunks at most, `patrol_share` of them
 * for the patrol; the rest follows in steps of its own. */
#include "master/health.h"

#include "master/repair.h"
#include "master/sessions.h"
#include "master/tables/changed.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static bool within_grace(const struct lh_master *m, struct lh_instant since)
{
    return lh_instant_before(m->now, lh_instant_add(since, m->config.grace));
}

/* Has everything that the server's registration told been looked at? */
static bool heard_out(const struct lh_m_server *s)
{
    return s->announced && s->report_next == s->report_count;
}

enum lh_m_health lh_m_member_health(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member)
{
    const struct lh_m_server *s = member->server;

    (void)c;
    if (member->joining)
        return LH_M_JOINING;
    if (member->lost)
        return LH_M_LOST;
    if (s->session == 0)
        return within_grace(m, s->away_since) ? LH_M_AWAY : LH_M_GONE;
    if (!lh_m_live(m, s) || !heard_out(s))
        return LH_M_AWAY;
    if (member->seen != s->session)
        return LH_M_MISSING;
    if (s->failing)
        return within_grace(m, s->failing_since) ? LH_M_AWAY : LH_M_GONE;
    return member->stale ? LH_M_STALE : LH_M_GOOD;
}

bool lh_m_given_up(const struct lh_master *m, const struct lh_m_server *s)
{
    struct lh_instant since = s->session == 0 ? s->away_since : s->failing_since;

    return (s->session == 0 || s->failing) && !within_grace(m, since) &&
           s->admin == LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING;
}

const char *lh_m_health_text(enum lh_m_health health)
{
    static const char *const texts[] = {
        [LH_M_GOOD] = "GOOD",
        [LH_M_AWAY] = "AWAY",
        [LH_M_GONE] = "GONE",
        [LH_M_LOST] = "LOST",
        [LH_M_MISSING] = "MISSING",
        [LH_M_STALE] = "STALE",
        [LH_M_JOINING] = "JOINING",
    };

    return texts[health];
}

bool lh_m_is_source(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member)
{
    enum lh_m_health health = lh_m_member_health(m, c, member);

    if (health == LH_M_STALE && LH_PLANTED("repair-source-stale"))
        return true;
    return health == LH_M_GOOD && (!c->sealed || member->sealed);
}

struct lh_duration lh_m_grace_left(const struct lh_master *m, const struct lh_m_server *s)
{
    if (s->session != 0 && !s->failing)
        return lh_nanoseconds(0);
    return lh_instant_until(m->now,
        lh_instant_add(s->session == 0 ? s->away_since : s->failing_since, m->config.grace));
}

void lh_m_seen(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s)
{
    struct lh_m_member *member = lh_m_member(c, s);

    if (member == NULL || member->seen == s->session)
        return;
    member->seen = s->session;
    lh_m_attend(m, c);
}

void lh_m_reported(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, const struct lh_m_report *r)
{
    struct lh_m_member *member = lh_m_member(c, s);

    if (member == NULL || r->lost)
        return;
    member->sealed = r->sealed && r->version == c->version;
    member->stale = c->sealed && !r->sealed && (r->version < c->version || r->copying);
    if (!r->copying)
        lh_m_seen(m, c, s);
}

void lh_m_lose(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member)
{
    if (member->lost)
        return;
    member->lost = true;
    if (!c->created)
        return; /* it is being made anew, or made elsewhere */
    lh_m_dirty_chunk(m, c);
    lh_m_attend(m, c);
}

void lh_m_on_seal_recorded(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__SealRecorded *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);
    struct lh_m_member *member = c == NULL ? NULL : lh_m_member(c, s);

    if (member == NULL || !c->sealed || member->lost)
        return;
    if (lh_m_copy_find(c, s) != NULL) {
        LH_MARK("seal-recorded-before-a-copy"); /* which begins anew: its end counts */
        return;
    }
    if (report->error == LEASEHOLD__ERROR_CODE__OK && report->version == c->version) {
        member->sealed = true;
        member->stale = false;
        member->seen = s->session;
    } else {
        LH_MARK("seal-not-recorded");
        member->stale = true;
        lh_fx_log(m->fx, LH_WARN,
            "chunk %" PRIu64 " of \"%s\": %s lacks what the seal covers, and is refreshed", c->id,
            c->file->path, s->id);
    }
    lh_m_attend(m, c);
}

/* ---- Who is looked at, and when. */

static void patrol_timer(struct lh_master *m, struct lh_m_timer *timer)
{
    lh_m_timer_arm(m, timer, lh_instant_add(m->now, m->config.patrol));
    lh_m_patrol(m);
}

static void grace_timer(struct lh_master *m, struct lh_m_timer *timer)
{
    const struct lh_m_server *s = LH_M_OWNER(timer, struct lh_m_server, grace_timer);

    if (lh_m_forgotten(s))
        return;
    LH_MARK("grace-over");
    lh_fx_log(m->fx, LH_WARN,
        "chunkserver %s %s for %" PRIu64 " s: what it has is copied elsewhere", s->id,
        s->session == 0 ? "is away" : "has had a failing disk",
        lh_duration_ms(m->config.grace) / 1000);
    lh_m_patrol(m);
}

void lh_m_server_changed(struct lh_master *m, struct lh_m_server *s)
{
    s->grace_timer.fire = grace_timer;
    lh_m_timer_disarm(m, &s->grace_timer);
    if (s->session == 0)
        lh_m_timer_arm(m, &s->grace_timer, lh_instant_add(s->away_since, m->config.grace));
    else if (s->failing)
        lh_m_timer_arm(m, &s->grace_timer, lh_instant_add(s->failing_since, m->config.grace));
    lh_m_patrol(m);
}

void lh_m_health_start(struct lh_master *m)
{
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        s->away_since = m->now;
        lh_m_server_changed(m, s);
    }
    m->repair.meter_from = m->now;
    m->repair.patrol_timer.fire = patrol_timer;
    lh_m_timer_arm(m, &m->repair.patrol_timer, lh_instant_add(m->now, m->config.patrol));
    lh_m_repair_start(m);
    lh_m_patrol(m);
}

static size_t attend(struct lh_master *m, size_t left)
{
    struct lh_m_chunk *c;

    for (; left > 0 && (c = TAILQ_FIRST(&m->attention)) != NULL; left--) {
        TAILQ_REMOVE(&m->attention, c, attention_link);
        c->attended = false;
        lh_m_repair_look(m, c, false);
    }
    return left;
}

static void go_on_patrol(struct lh_master *m, size_t left)
{
    struct lh_m_chunk key = {.id = m->repair.patrol_next};
    struct lh_m_chunk *c = RB_NFIND(lh_m_all, &m->all, &key);

    for (; left > 0 && c != NULL; left--, c = RB_NEXT(lh_m_all, &m->all, c)) {
        m->repair.patrol_next = c->id + 1;
        lh_m_repair_look(m, c, true);
    }
    if (c != NULL)
        return;
    m->repair.patrolling = m->repair.patrol_again;
    m->repair.patrol_again = false;
    m->repair.patrol_next = 0;
    if (!m->repair.patrolling)
        lh_m_repair_round(m);
}

void lh_m_health_step(struct lh_master *m)
{
    size_t share = m->config.patrol_share, work = m->config.step_work;
    size_t left = attend(m, work > share ? work - share : 1);

    if (m->repair.patrolling)
        go_on_patrol(m, left + share);
    lh_m_repair_step(m);
}

bool lh_m_health_busy(const struct lh_master *m)
{
    return !TAILQ_EMPTY(&m->attention) || m->repair.patrolling || m->repair.round;
}

void lh_m_health_forget(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->attended)
        TAILQ_REMOVE(&m->attention, c, attention_link);
    c->attended = false;
    m->repair.conditions[c->condition]--;
    lh_m_repair_forget(m, c);
}
