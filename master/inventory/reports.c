/* What chunkservers say of their replicas, when they register and later. */
#include "master/inventory/inventory.h"

#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static bool pending(const struct lh_m_server *s)
{
    return s->report.next < s->report.count;
}

bool lh_m_heard_out(const struct lh_m_server *s)
{
    return s->session.client.session != 0 && s->session.announced && !pending(s) && !s->report.more;
}

void lh_m_reports_follow(struct lh_master *m, struct lh_m_server *s)
{
    s->report.heard = lh_m_heard_out(s);
    s->report.waits = s->report.more;
    m->showing.look = m->showing.look || s->report.more;
    lh_m_server_changed(m, s);
}

/* ---- Pieces that are asked for (SES-1a). */

/* What a server sends unasked would be in front of its heartbeats, and with a thousand of them for
 * longer than a session's term. */
static void ask(struct lh_master *m, struct lh_m_server *s)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__ShowReplicas show = LEASEHOLD__SHOW_REPLICAS__INIT;

    show.session = lh_m_wire_session(m, s->session.client.session);
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_SHOW_REPLICAS;
    reply.show_replicas = &show;
    (void)lh_m_send(m, s, &reply); /* a stream that broke is one that registers again */
}

/* Until now it was the master that had no time for it (KEEP-1). */
static void end_wait(struct lh_master *m, struct lh_m_server *s)
{
    if (s->report.waits)
        s->report.since =
            lh_instant_add(s->report.since, lh_instant_until(s->session.registered_at, m->now));
    s->report.waits = false;
}

static void begin_turn(struct lh_master *m, struct lh_m_server *s)
{
    m->showing.turns++;
    s->report.turn = true;
    s->report.turn_since = m->now;
    if (s->report.waits) {
        end_wait(m, s);
        lh_m_server_changed(m, s);
    }
    ask(m, s);
}

static void end_turn(struct lh_master *m, struct lh_m_server *s)
{
    m->showing.turns -= s->report.turn;
    m->showing.look = m->showing.look || s->report.turn;
    s->report.turn = false;
}

static struct lh_instant end_of_turn(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_instant_add(s->report.turn_since, m->config.turn_time);
}

static bool is_over(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_instant_reached(m->now, end_of_turn(m, s));
}

static void showing_timer(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;

    (void)timer;
    m->showing.look = true;
}

/* Who waited longest for a turn, or has had none. */
static struct lh_m_server *next_to_show(const struct lh_master *m)
{
    struct lh_m_server *s, *next = NULL;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
        if (s->report.more && !s->report.turn && s->session.announced && s->session.link != 0 &&
            s->session.client.session != 0 && !pending(s) &&
            (next == NULL || lh_instant_before(s->report.turn_since, next->report.turn_since)))
            next = s;
    return next;
}

/* Another one waits. Who has had its time lets it go on; false: nobody. */
static bool take_turn_away(struct lh_master *m)
{
    struct lh_instant soonest = LH_INSTANT_NEVER;
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        if (!s->report.turn)
            continue;
        soonest = lh_instant_min(soonest, end_of_turn(m, s));
        if (is_over(m, s) && !pending(s)) {
            end_turn(m, s);
            return true;
        }
    }
    m->showing.timer.fire = showing_timer;
    lh_timer_set(&m->timers, &m->showing.timer, lh_instant_max(soonest, m->now));
    return false;
}

static void give_turns(struct lh_master *m)
{
    struct lh_m_server *s;

    while ((s = next_to_show(m)) != NULL &&
           (m->showing.turns < m->config.turn_servers || take_turn_away(m)))
        begin_turn(m, s);
    m->showing.look = false;
}

/* All that has come was looked at. */
static void go_on(struct lh_master *m, struct lh_m_server *s)
{
    if (!s->report.more) {
        end_turn(m, s);
        lh_m_reports_follow(m, s);
    } else if (s->report.turn && !is_over(m, s)) {
        ask(m, s);
    } else {
        end_turn(m, s);
        m->showing.look = true;
    }
}

/* ---- What they say. */

void lh_m_reports_end(struct lh_master *m, struct lh_m_server *s)
{
    end_wait(m, s);
    if (s->report.heard || s->report.since.ns == 0)
        s->report.since = m->now;
    s->report.heard = false;
    end_turn(m, s);
}

void lh_m_reports_add(struct lh_master *m, struct lh_m_server *s, const struct lh_m_report *items,
    size_t count, bool more)
{
    m->reporting += !pending(s) && count > 0;
    LH_GROW(s->report.items, s->report.capacity, s->report.count + count);
    for (size_t i = 0; i < count; i++) {
        struct lh_m_chunk *c = items[i].lost ? lh_m_chunk_find(m, items[i].chunk) : NULL;
        struct lh_m_member *member = c == NULL ? NULL : lh_m_member(c, s);
        if (member != NULL)
            lh_m_lose(m, c, member, items[i].kept); /* only a copy makes it good again (FAIL-4) */
        s->report.items[s->report.count++] = items[i];
    }
    s->report.more = more && !LH_PLANTED("heard-out-with-its-leases");
    if (count == 0 && s->session.announced && !pending(s))
        go_on(m, s);
}

static void empty(struct lh_m_server *s)
{
    free(s->report.items);
    s->report.items = NULL;
    s->report.count = s->report.capacity = s->report.next = 0;
}

void lh_m_reports_forget(struct lh_master *m, struct lh_m_server *s)
{
    m->reporting -= pending(s);
    if (s->report.more && LH_PLANTED("pieces-outlive-their-stream")) {
        s->report.next = 0;
        m->reporting += pending(s);
        return;
    }
    empty(s);
    s->report.unknown = 0;
    s->report.more = false;
}

/* It may be a preallocated chunk's. */
static void look_at_prealloc(
    struct lh_master *m, struct lh_m_server *s, const struct lh_m_report *r)
{
    struct lh_m_prealloc *prealloc = lh_idmap_find(&m->preallocs, r->chunk);

    if (prealloc == NULL || !prealloc->asked)
        return;
    struct lh_m_member *member = lh_m_prealloc_member(prealloc, s);
    if (member == NULL) {
        /* It was left out while it was away, and has not heard of that. */
        LH_MARK("report-of-left-preallocated");
        lh_m_send_remove(m, s, prealloc->id, 0);
    } else if (!r->lost) {
        member->seen = lh_m_session_of(s);
    }
}

/* A reported replica of a chunk that there is not. */
static void look_at_unknown(struct lh_master *m, struct lh_m_server *s, const struct lh_m_report *r)
{
    look_at_prealloc(m, s, r);
    if (lh_m_report_evidence(m, s, NULL, r)) {
        /* Left alone until the operator has looked (KEEP-4). */
        s->report.unknown++;
        lh_m_keep(m, s, r->chunk, r->version);
        return;
    }
    const struct lh_m_tombstone *t = lh_m_tombstone_find(m, r->chunk);
    if (t != NULL && !lh_m_chunk_leaves(m, r->chunk)) {
        LH_MARK("report-of-removed-chunk");
        lh_m_send_remove(m, s, r->chunk, t->version);
    }
}

/* One reported replica: does its server have to hear something about it? */
static void look_at(struct lh_master *m, struct lh_m_server *s, const struct lh_m_report *r)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, r->chunk);

    if (c == NULL) {
        look_at_unknown(m, s, r);
        return;
    }
    lh_m_report_evidence(m, s, c, r);
    lh_m_reported(m, c, s, r);
    if (lh_m_member(c, s) == NULL && (r->version > 0 || r->copying)) {
        LH_MARK("report-of-left-replica");
        lh_m_extra_note(m, c, s, r->version, r->sealed, r->copying);
        return;
    }
    if (!lh_m_is_durable(m, c->active->ticket))
        return;
    if (lh_m_member(c, s) == NULL) {
        /* Its creation came too late or failed half-way; it was never used. */
        LH_MARK("report-of-vain-creation");
        lh_m_send_remove(m, s, c->id, 0);
    } else if (c->sealed && (!r->sealed || r->version < c->version)) { /* or KEEP-4: taken on */
        LH_MARK("report-of-missed-seal");
        lh_m_record_seal(m, c, s);
    }
    if (r->lost)
        lh_fx_log(
            m->fx, LH_WARN, "chunkserver %s has lost its replica of chunk %" PRIu64, s->id, c->id);
}

/* All that has come was looked at. */
static void looked_at(struct lh_master *m, struct lh_m_server *s)
{
    m->reporting--;
    if (s->report.more && LH_PLANTED("pieces-outlive-their-stream"))
        return;
    empty(s);
    if (s->report.unknown > 0 && !s->report.more)
        lh_fx_log(m->fx, LH_WARN,
            "chunkserver %s has %zu replicas that this master knows nothing of; they are left "
            "alone",
            s->id, s->report.unknown);
    go_on(m, s);
}

static void look_at_pending(struct lh_master *m)
{
    struct lh_m_server *s;
    size_t left = m->config.step_work;

    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        if (!pending(s) || !s->session.announced)
            continue;
        while (left > 0 && pending(s)) {
            look_at(m, s, &s->report.items[s->report.next++]);
            left--;
        }
        if (!pending(s))
            looked_at(m, s);
    }
}

void lh_m_look_at_reports(struct lh_master *m)
{
    if (m->reporting > 0)
        look_at_pending(m);
    if (m->showing.look)
        give_turns(m);
}

bool lh_m_reports_wait(const struct lh_master *m)
{
    const struct lh_m_server *s;

    if (m->reporting == 0)
        return false;
    TAILQ_FOREACH(s, &m->all_servers, all_link)
        if (s->session.announced && pending(s))
            return true; /* of the others the turn comes with a commit */
    return false;
}

void lh_m_on_lost(struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaLost *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);
    struct lh_m_member *member = c == NULL ? NULL : lh_m_member(c, s);

    if (member == NULL)
        return;
    /* It stays a member until the primary reports it: only the primary knows who has what. */
    LH_MARK("replica-lost-heard");
    m->counts.replicas_lost++;
    lh_m_lose(m, c, member, report->kept);
    lh_fx_log(m->fx, LH_WARN,
        "chunk %" PRIu64 " of \"%s\": %s has lost its replica (%s at %" PRIu64
        "); it needs to be copied anew",
        c->id, c->file->path, s->id, lh_error_text(lh_error_from_wire((unsigned)report->error)),
        report->offset);
}

void lh_m_on_possible_loss(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__PossibleLoss *report)
{
    const struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);

    m->counts.possible_losses++;
    lh_fx_log(m->fx, LH_ERROR,
        "chunk %" PRIu64 " of \"%s\": no member's log is sure to be whole (their machines went "
        "down, or their ends were damaged); acknowledged records above %" PRIu64
        " bytes may be lost (version %" PRIu64 ", primary %s)",
        report->chunk, c == NULL ? "?" : c->file->path, report->length, report->version, s->id);
}
