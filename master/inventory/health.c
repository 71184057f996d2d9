/* What each replica is worth now (KEEP-1). */
#include "master/inventory/inventory.h"

#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static bool within_grace(const struct lh_master *m, struct lh_instant since)
{
    return lh_instant_before(m->now, lh_instant_add(since, m->config.grace));
}

enum lh_m_health lh_m_member_health(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member)
{
    const struct lh_m_server *s = lh_m_server_of(m, member);

    (void)c;
    if (member->joining)
        return LH_M_JOINING;
    if (member->lost)
        return LH_M_LOST;
    if (!lh_m_live(m, s) || !lh_m_heard_out(s))
        return lh_m_is_gone(m, s) ? LH_M_GONE : LH_M_AWAY;
    if (member->seen != lh_m_session_of(s))
        return LH_M_MISSING;
    if (s->space.failing)
        return within_grace(m, s->space.failing_since) ? LH_M_AWAY : LH_M_GONE;
    return member->stale ? LH_M_STALE : LH_M_GOOD;
}

/* Also in sessions that run: nobody is waited for for ever. Who waits for the master's time is what
 * it was when it came. */
bool lh_m_is_gone(const struct lh_master *m, const struct lh_m_server *s)
{
    struct lh_instant end = lh_instant_add(s->report.since, m->config.grace);

    return !lh_m_heard_out(s) &&
           lh_instant_reached(s->report.waits ? s->session.registered_at : m->now, end) &&
           !(s->session.client.session != 0 && LH_PLANTED("shows-for-ever"));
}

bool lh_m_given_up(const struct lh_master *m, const struct lh_m_server *s)
{
    struct lh_instant since =
        s->session.client.session == 0 ? s->session.away_since : s->space.failing_since;
    bool silent = s->session.client.session == 0 || (s->space.failing && !s->space.read_only);

    return silent && !within_grace(m, since) &&
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

/* REC-8: can its server not write, but give what it has shown? */
static bool is_read_only(const struct lh_master *m, const struct lh_m_member *member)
{
    const struct lh_m_server *s = lh_m_server_of(m, member);

    return s->space.read_only && !member->joining && !member->lost && !member->stale &&
           s->session.client.session != 0 && lh_m_live(m, s) && lh_m_heard_out(s) &&
           member->seen == lh_m_session_of(s);
}

bool lh_m_is_source(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member)
{
    enum lh_m_health health = lh_m_member_health(m, c, member);

    if (health == LH_M_STALE && LH_PLANTED("repair-source-stale"))
        return true;
    if (health == LH_M_LOST)
        return c->sealed && lh_m_is_kept(m, member);
    return (health == LH_M_GOOD || is_read_only(m, member)) &&
           (!c->sealed || member->sealed || member->kept);
}

bool lh_m_is_kept(const struct lh_master *m, const struct lh_m_member *member)
{
    const struct lh_m_server *s = lh_m_server_of(m, member);

    return member->kept && lh_m_live(m, s) && member->seen == lh_m_session_of(s);
}

void lh_m_disk_fails(struct lh_master *m, struct lh_m_server *s, bool failing, bool read_only)
{
    bool was = s->space.failing;

    if (was == failing && s->space.read_only == read_only)
        return;
    LH_ASSERT(failing || !read_only);
    if (read_only)
        LH_MARK("server-read-only");
    lh_fx_log(m->fx, failing ? LH_WARN : LH_INFO, "chunkserver %s: its disk %s", s->id,
        read_only ? "cannot be written; it gets no leases and no replicas, and what it has is read"
        : failing ? "does not answer; it gets no leases and no replicas"
                  : "answers again");
    s->space.failing = failing;
    s->space.read_only = read_only;
    if (!was)
        s->space.failing_since = m->now;
    lh_m_server_changed(m, s);
}

struct lh_duration lh_m_grace_left(const struct lh_master *m, const struct lh_m_server *s)
{
    if (lh_m_heard_out(s) && !s->space.failing)
        return lh_nanoseconds(0);
    return lh_instant_until(
        m->now, lh_instant_add(
                    lh_m_heard_out(s) ? s->space.failing_since : s->report.since, m->config.grace));
}

void lh_m_seen(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s)
{
    struct lh_m_member *member = lh_m_member(c, s);

    if (member == NULL || member->seen == lh_m_session_of(s))
        return;
    member->seen = lh_m_session_of(s);
    lh_m_enqueue(m, c);
}

void lh_m_reported(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, const struct lh_m_report *r)
{
    struct lh_m_member *member = lh_m_member(c, s);

    if (member == NULL || r->lost)
        return;
    if (member->lost && member->seen == lh_m_session_of(s))
        return; /* what was told of the loss is newer */
    if (c->sealed)
        member->sealed = r->sealed && r->version == c->version;
    else
        lh_m_note_seal(m, c, member, r);
    member->kept = false;
    member->stale = c->sealed && !r->sealed && (r->version < c->version || r->copying);
    if (!r->copying) {
        lh_m_seen(m, c, s);
    } else if (member->lost && r->kept) { /* REC-9: what is there stays while it is copied to */
        member->kept = true;
        member->seen = lh_m_session_of(s);
    }
}

void lh_m_lose(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member, bool kept)
{
    if (member->lost || c->created) {
        member->kept = kept;
        member->seen = lh_m_session_of(lh_m_server_of(m, member));
    }
    if (member->lost)
        return;
    member->lost = true;
    if (!c->created)
        return; /* it is being made again, or made elsewhere */
    lh_m_dirty_chunk(m, c);
    lh_m_enqueue(m, c);
}

static void grace_timer(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    const struct lh_m_server *s = LH_OWNER(timer, struct lh_m_server, space.grace_timer);

    if (lh_m_forgotten(s))
        return;
    LH_MARK("grace-over");
    lh_fx_log(m->fx, LH_WARN,
        "chunkserver %s %s for %" PRIu64 " s: what it has is copied elsewhere", s->id,
        s->session.client.session == 0 ? "is away"
        : !lh_m_heard_out(s)           ? "has not shown all that it has"
        : s->space.read_only           ? "has not been able to write to its disk"
                                       : "has had a failing disk",
        lh_duration_ms(m->config.grace) / 1000);
    lh_m_sweep(m);
}

void lh_m_server_changed(struct lh_master *m, struct lh_m_server *s)
{
    s->space.grace_timer.fire = grace_timer;
    lh_timer_unset(&m->timers, &s->space.grace_timer);
    if (!lh_m_heard_out(s) && !s->report.waits)
        lh_timer_set(
            &m->timers, &s->space.grace_timer, lh_instant_add(s->report.since, m->config.grace));
    else if (s->space.failing)
        lh_timer_set(&m->timers, &s->space.grace_timer,
            lh_instant_add(s->space.failing_since, m->config.grace));
    lh_m_sweep(m);
}
