/* Copies of replicas, joins, and members that are not needed any more (REC-4, KEEP-1, KEEP-2).
 *
 * lh_m_repair_look() decides what a chunk needs. What costs nothing is done at once; a chunk that
 * needs a copy, or a primary to look after its members, goes into `wanting`, ordered by how many
 * good replicas are left. See wanting.c.
 *
 *   sealed              copied whole, from members that recorded the seal; then a durable member
 *   open, with primary  copied up to what is committed; named in a new version as joining; made
 *                       full once the primary reports that very version recovered
 *   open, free          granted, so that a primary finds out who fails; then as above */
#include "master/keep/internal.h"

#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/seal/seal.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static void set_condition(struct lh_master *m, struct lh_m_chunk *c, uint32_t good)
{
    enum lh_m_condition condition = LH_M_WHOLE;

    if (c->created && good < c->file->replication)
        condition = good == 0 ? LH_M_UNREADABLE : good == 1 ? LH_M_ENDANGERED : LH_M_DEGRADED;
    m->repair.conditions[c->condition]--;
    m->repair.conditions[condition]++;
    c->condition = (unsigned)condition & 3u;
}

/* ---- The queue. */

static void round_timer(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    (void)timer;
    lh_m_repair_round(m);
}

void lh_m_repair_start(struct lh_master *m)
{
    m->repair.round_timer.fire = round_timer;
}

/* ---- Where to. */

static uint64_t copy_bytes(const struct lh_m_chunk *c)
{
    return c->sealed ? c->length : c->file->chunk_size;
}

static bool has_room_for_copy(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_server *s)
{
    return lh_m_fits(m, s, copy_bytes(c)) && s->copies_in < m->config.repair_streams &&
           (c->sealed || lh_m_may_join(m, s)) && lh_m_copy_find(c, s) == NULL;
}

/* Would a copy to the member's own server make it good? */
static bool can_refresh(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member)
{
    enum lh_m_health health = lh_m_member_health(m, c, member);

    return (health == LH_M_LOST || health == LH_M_MISSING || health == LH_M_STALE) &&
           !lh_m_leaving(m, member) && has_room_for_copy(m, c, lh_m_server_of(m, member));
}

/* A server that has no part of the chunk, or one that was left there. */
static struct lh_m_server *choose_new(struct lh_master *m, struct lh_m_chunk *c, bool avoid)
{
    struct lh_m_member exclude[3 * LH_REPLICATION_MAX + 1];
    uint32_t count = 0;
    const struct lh_m_copy *copy;
    const struct lh_m_extra *e;
    struct lh_m_server *extra = lh_m_extra_fit(m, c);

    if (extra != NULL && has_room_for_copy(m, c, extra) && lh_m_member(c, extra) == NULL &&
        !(avoid && extra == c->active->repair.avoid))
        return extra;
    for (uint32_t i = 0; i < c->member_count; i++)
        exclude[count++] = c->members[i];
    TAILQ_FOREACH(copy, &c->active->repair.copies, chunk_link)
        if (count < 2 * LH_REPLICATION_MAX)
            exclude[count++] = lh_m_member_at(copy->target);
    /* What one still says of a replica that it was told to remove would be taken for a word about
     * the copy (REC-4). */
    TAILQ_FOREACH(e, &c->active->extras, link)
        if (e->going && count < 3 * LH_REPLICATION_MAX) {
            LH_MARK("copy-waits-for-a-removal");
            exclude[count] = lh_m_member_at(e->server);
            exclude[count++].lost = true;
        }
    if (avoid && c->active->repair.avoid != NULL) {
        exclude[count] = lh_m_member_at(c->active->repair.avoid);
        exclude[count++].lost = true;
    }
    return lh_m_place_copy(m, copy_bytes(c), !c->sealed, exclude, count);
}

/* A member to refresh: not at a server that is to be avoided; `kept`: also one that has something
 * of a damaged chunk. */
static struct lh_m_server *choose_member(
    const struct lh_master *m, const struct lh_m_chunk *c, bool avoid, bool kept)
{
    for (uint32_t i = 0; c->sealed && i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        struct lh_m_server *s = lh_m_server_of(m, member);
        if (can_refresh(m, c, member) && !(avoid && s == c->active->repair.avoid) &&
            (kept || !lh_m_is_kept(m, member)))
            return s;
    }
    return NULL;
}

/* If no replica is sound, those that are damaged come last: they are sources (REC-9). */
static struct lh_m_server *choose_target(
    struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    struct lh_m_server *target = NULL;

    for (int avoid = c->active->repair.avoid != NULL; avoid >= 0 && target == NULL; avoid--) {
        target = choose_member(m, c, avoid, t->sound > 0);
        if (target == NULL)
            target = choose_new(m, c, avoid);
        if (target == NULL)
            target = choose_member(m, c, avoid, true);
    }
    return target;
}

/* ---- Members that are not needed. */

/* KEEP-2: one member at a time, and only if all that there should be are left without it. */
static void drop_one(struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    struct lh_m_member *worst = lh_m_most_useless(m, c);

    if (worst == NULL)
        return;
    if (LH_PLANTED("member-dropped-before-copy")) {
        if (lh_m_uselessness(m, c, worst) > 2 && c->member_count > 1)
            lh_m_member_drop(m, c, worst);
        return;
    }
    if (c->member_count > c->file->replication && t->whole >= c->file->replication &&
        (lh_m_uselessness(m, c, worst) > 1 || t->whole > c->file->replication))
        lh_m_member_drop(m, c, worst);
}

/* ---- Sealed chunks. */

/* How many copies it should have under way. Members that are away count for as long as they may
 * come back (KEEP-1). Not so for a seal by a single log: its file's writers may wait for a second
 * one, and what that log alone has is gone with its disk (FAIL-2a). */
static uint32_t copies_needed(const struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    uint32_t goal = c->file->replication, needed = t->keep < goal ? goal - t->keep : 0;
    uint32_t backed_by = c->file->min_replicas, recorded = lh_m_recorded(c);

    /* REC-9: what a damaged one has nobody can read while it is copied to. Who has not said yet
     * whether it has what was sealed may be a better source. */
    if (t->sound == 0 && needed > 0)
        return t->good == 0;
    if (!c->active->seal->urgent || recorded >= backed_by || backed_by - recorded <= needed ||
        LH_PLANTED("lone-log-not-copied"))
        return needed;
    LH_MARK("lone-log-copied-at-once");
    return backed_by - recorded;
}

static void look_at_sealed(struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    uint32_t needed = copies_needed(c, t);

    while (c->active->repair.copy_count > needed)
        lh_m_copy_cancel(m, TAILQ_LAST(&c->active->repair.copies, lh_m_copies));
    lh_m_copies_finish(m, c);
    if (c->active->repair.copy_count < needed && t->sources > 0)
        lh_m_want(m, c, c->active->seal->urgent ? 0 : t->good,
            (needed - c->active->repair.copy_count) * c->length);
    else
        lh_m_unwant(m, c);
    if (needed == 0 || LH_PLANTED("member-dropped-before-copy"))
        drop_one(m, c, t);
}

/* Who has not said that it recorded the seal is told again: the first time may have been lost. */
static void tell_seal_again(struct lh_master *m, struct lh_m_chunk *c)
{
    for (uint32_t i = 0; i < c->member_count && c->seal_reported; i++)
        if (!c->members[i].sealed && (lh_m_member_health(m, c, &c->members[i]) == LH_M_GOOD ||
                                         lh_m_log_is_damaged(m, &c->members[i]))) {
            LH_MARK("seal-told-again");
            lh_m_record_seal(m, c, lh_m_server_of(m, &c->members[i]));
        }
}

/* ---- Open chunks. */

/* REC-4: the copy's server is named in a new version. */
static void join(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_copy *copy)
{
    struct lh_m_server *s = copy->target;

    if (c->member_count == LH_REPLICATION_MAX || lh_m_member(c, s) != NULL || !lh_m_reached(s)) {
        lh_m_copy_cancel(m, copy);
        return;
    }
    LH_MARK("member-joins");
    m->counts.members_added++;
    struct lh_m_member *member = lh_m_member_add(c, lh_m_member_at(s));
    member->joining = !LH_PLANTED("joining-counts-as-full");
    member->created = true;
    member->seen = lh_m_session_of(s);
    m->repair.copies_done++;
    lh_m_move(m, c)->repair.joined_from = copy->source;
    lh_m_copy_end(m, copy);
    lh_m_regrant(m, c);
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": %s joins it at version %" PRIu64, c->id,
        c->file->path, s->id, c->version);
}

/* Does nothing more need to be copied, so that a member can go? Not the primary. And not before the
 * newest version is recovered: until then a member may be the only one to have everything (REC-2a,
 * FAIL-3). */
static void drop_from_open(struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    struct lh_m_member *worst = lh_m_most_useless(m, c);
    bool recovered = c->active->repair.recovered_version == c->version ||
                     LH_PLANTED("member-dropped-in-recovery");

    if (!recovered || worst == NULL || t->joining > 0 || c->member_count <= c->file->replication ||
        t->staying < c->file->replication ||
        (lh_m_uselessness(m, c, worst) == 1 && t->staying == c->file->replication))
        return;
    lh_m_member_drop(m, c, worst);
    lh_m_regrant(m, c);
}

/* Has a member's stream broken just now? It comes back at once, or is missed: until that is known,
 * a new version would wait for it, and its primary would not even know what is committed. */
static bool is_in_between(const struct lh_master *m, const struct lh_m_chunk *c)
{
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if (!c->members[i].lost && lh_m_live(m, s) && s->session.link == 0)
            return true;
    }
    return false;
}

static void look_at_led(struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    bool needed = t->keep < c->file->replication;
    struct lh_m_copy *copy = TAILQ_FIRST(&c->active->repair.copies);

    if (needed && copy == NULL && t->joining == 0 && t->sources > 0)
        lh_m_want(m, c, t->good, 0);
    else
        lh_m_unwant(m, c);
    if (copy != NULL && !needed)
        lh_m_copy_cancel(m, copy);
    else if (copy != NULL && copy->caught_up && t->joining == 0 && is_in_between(m, c))
        LH_MARK("join-waits-for-a-member");
    else if (copy != NULL && copy->caught_up && t->joining == 0)
        join(m, c, copy);
    else if (copy == NULL && !needed)
        drop_from_open(m, c, t);
}

/* Could a primary let a member go that is to leave? It does once it has the others. */
static bool surplus_leaves(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    bool leaves = false;

    for (uint32_t i = 0; i < c->member_count; i++)
        leaves = leaves || lh_m_leaving(m, &c->members[i]);
    return leaves && c->member_count > c->file->replication && t->staying >= c->file->replication;
}

/* Could a primary do something for the chunk's members? Those of a file in the trash, too (KEEP-5):
 * no client is sent there. */
static bool grant_helps(struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    if (t->good == 0)
        return false;
    if (surplus_leaves(m, c, t))
        return true;
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        enum lh_m_health health = lh_m_member_health(m, c, member);
        if (health == LH_M_JOINING && lh_m_live(m, lh_m_server_of(m, member)))
            return true;
        /* Once the primary has reported it, its own server can join again. */
        if ((health == LH_M_LOST || health == LH_M_MISSING) &&
            lh_m_fits(m, lh_m_server_of(m, member), c->file->chunk_size))
            return true;
    }
    return choose_new(m, c, false) != NULL;
}

/* An open chunk's members change only with the versions of a primary. */
static bool needs_primary(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    return t->keep < c->file->replication || surplus_leaves(m, c, t);
}

static void look_at_free(struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    if (needs_primary(m, c, t) && t->good > 0 && m->config.repair_streams > 0)
        lh_m_want(m, c, t->good, 0);
    else
        lh_m_unwant(m, c);
}

static void settle_grant(struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    if (!c->active->repair.granted ||
        (lh_m_holder(c) != NULL && !c->sealed && needs_primary(m, c, t) &&
            !lh_instant_reached(m->now, c->active->repair.granted_until)))
        return;
    lh_m_move(m, c)->repair.granted = false;
    m->repair.grants--;
    lh_m_repair_round(m);
}

/* ---- Looking, and doing. */

/* Nothing is decided on what is not durable yet, nor on a chunk that rolls over. */
static bool is_settled(const struct lh_master *m, const struct lh_m_chunk *c)
{
    return c->created && lh_m_is_durable(m, c->active->ticket) && !c->active->dirty &&
           (c->sealed || !c->intent_to_seal);
}

static bool is_free(const struct lh_m_chunk *c)
{
    return !c->sealed && lh_m_holder(c) == NULL;
}

void lh_m_repair_look(struct lh_master *m, struct lh_m_chunk *c, bool swept)
{
    struct lh_m_tally t = lh_m_tally(m, c);

    if (c->active != &lh_m_idle)
        lh_m_move(m, c); /* a commit, or time alone, may have made it idle */
    if (swept && lh_m_seal_found(m, c))
        return; /* the end of its commit comes here again */
    set_condition(m, c, t.readable);
    if (c->active->repair.grants > 0 && (c->sealed || !needs_primary(m, c, &t)))
        lh_m_move(m, c)->repair.grants = 0;
    settle_grant(m, c, &t);
    if (!is_settled(m, c)) {
        lh_m_unwant(m, c);
        return;
    }
    if (c->sealed) {
        lh_m_urgent_update(m, c);
        look_at_sealed(m, c, &t);
        lh_m_touch(m, c->file); /* somebody may wait to settle there */
        if (swept && !c->active->dirty)
            tell_seal_again(m, c);
    } else if (is_free(c)) {
        if (!lh_m_roll_damaged(m, c))
            look_at_free(m, c, &t);
    } else if (lh_m_has_primary(m, c)) {
        look_at_led(m, c, &t);
    } else {
        lh_m_unwant(m, c); /* its grant or its end comes here again */
    }
}

static void try_grant(struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_tally *t)
{
    if (m->repair.grants >= m->config.repair_grants_max || !grant_helps(m, c, t))
        return;
    struct lh_m_repair *repair = &lh_m_move(m, c)->repair;
    /* Not again and again, if it does not help. */
    uint32_t tries = repair->grants < 4 ? repair->grants : 4;
    repair->grants++;
    repair->grant_at =
        lh_instant_add(m->now, lh_m_backoff(m->config.repair_grant, LH_DURATION_FOREVER, tries));
    if (!lh_m_grant_free(m, c))
        return;
    LH_MARK("grant-for-repair");
    repair->granted = true;
    repair->granted_until = lh_instant_add(m->now, m->config.repair_grant);
    m->repair.grants++;
}

/* Begins what `c` is waiting for, as far as the limits allow. */
static void try(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_tally t = lh_m_tally(m, c);
    struct lh_m_server *target;

    if (!is_settled(m, c))
        return;
    if (is_free(c)) {
        try_grant(m, c, &t);
        return;
    }
    if (!c->sealed && !lh_m_has_primary(m, c))
        return;
    uint32_t most = c->sealed ? copies_needed(c, &t) : 1;
    while (c->active->repair.copy_count < most && m->repair.copies < m->config.copies_max &&
           (target = choose_target(m, c, &t)) != NULL && lh_m_copy_begin(m, c, target))
        continue;
    lh_m_repair_look(m, c, false);
}

/* Could any server take one more copy? */
static bool any_stream_free(const struct lh_master *m)
{
    const struct lh_m_server *s;

    if (m->repair.copies >= m->config.copies_max)
        return false;
    TAILQ_FOREACH(s, &m->all_servers, all_link)
        if (s->copies_in < m->config.repair_streams && lh_m_live(m, s))
            return true;
    return false;
}

static void end_round(struct lh_master *m)
{
    m->repair.round = false;
    if (m->repair.round_again) {
        m->repair.round_again = false;
        lh_m_repair_round(m);
        return;
    }
    if (m->repair.waiting == 0) {
        lh_timer_unset(&m->timers, &m->repair.round_timer);
        return;
    }
    /* The more there are that nothing can be done for now, the less often. */
    struct lh_duration pause = lh_duration_add(
        m->config.repair_round, lh_nanoseconds((uint64_t)m->repair.waiting * 20000u));
    struct lh_instant at = lh_instant_min(lh_instant_add(m->now, pause), m->repair.round_retry);
    lh_timer_set(&m->timers, &m->repair.round_timer, lh_instant_max(at, m->now));
}

void lh_m_repair_step(struct lh_master *m)
{
    size_t servers = HASH_COUNT(m->servers) + 1;
    size_t tries = m->config.repair_work / servers + 1;

    if (!m->repair.round)
        return;
    if (tries > m->config.step_work)
        tries = m->config.step_work;
    for (; tries > 0; tries--) {
        struct lh_m_chunk from = {.id = m->repair.round_chunk};
        struct lh_m_active key = {.chunk = &from, .repair.want_good = m->repair.round_good};
        struct lh_m_active *mo = RB_NFIND(lh_m_wanting, &m->wanting, &key);
        if (mo == NULL || !any_stream_free(m)) {
            end_round(m);
            return;
        }
        struct lh_m_chunk *c = mo->chunk;
        m->repair.round_good = mo->repair.want_good;
        m->repair.round_chunk = c->id + 1;
        struct lh_instant at = is_free(c) ? mo->repair.grant_at : mo->repair.at;
        if (lh_instant_reached(m->now, at))
            try(m, c);
        else
            m->repair.round_retry = lh_instant_min(m->repair.round_retry, at);
    }
}

void lh_m_repair_forget(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_copy *copy;

    lh_m_unwant(m, c);
    if (c->active->repair.granted)
        m->repair.grants--;
    lh_m_move(m, c)->repair.granted = false;
    /* They end when the removal is durable, and their servers hear of it. */
    TAILQ_FOREACH(copy, &c->active->repair.copies, chunk_link)
        lh_timer_unset(&m->timers, &copy->timer);
}
