/* Copies of replicas, joins, and members that are not needed any more (REC-4, KEEP-1, KEEP-2).
 *
 * lh_m_repair_look() decides what a chunk needs. What costs nothing is done at once; a chunk that
 * needs a copy, or a primary to look after its members, goes into `wanting`, ordered by how many
 * good replicas are left. A *round* walks that order and begins what the limits allow; it starts
 * over when a copy ended or something new is wanting, and every few seconds.
 *
 *   sealed              copied whole, from members that recorded the seal; then a durable member
 *   open, with primary  copied up to what is committed; named in a new version as joining; made
 *                       full once the primary reports that very version recovered
 *   open, free          granted, so that a primary finds out who fails; then as above */
#include "master/state.h"

#include <inttypes.h>

#define COPIES_MAX     64u    /* under way, in the whole cluster */
#define GRANTS_MAX     8u     /* of idle chunks, for the sake of their members */
#define GRANT_S        60u    /* such a grant counts for this long at most */
#define PAUSE_S        2u     /* and none earlier than this after the last lease */
#define STALL_S        30u    /* a copy without progress for this long is ended */
#define ROUND_S        5u     /* the next round, if nothing happens before */
#define ROUND_WORK_MAX 65536u /* chunks tried in a step, times servers */
#define METER_S        10u

static int compare_wanting(const struct lh_m_chunk *a, const struct lh_m_chunk *b)
{
    if (a->want_good != b->want_good)
        return a->want_good < b->want_good ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

RB_GENERATE(lh_m_wanting, lh_m_chunk, wanting_node, compare_wanting)

/* What a chunk's members are worth. */
struct tally {
    uint32_t good;    /* GOOD */
    uint32_t keep;    /* GOOD or AWAY, and not leaving */
    uint32_t staying; /* GOOD, and not leaving */
    uint32_t whole;   /* of these: recorded the seal, or the chunk is open */
    uint32_t sources; /* could be copied from */
    uint32_t joining;
};

static bool is_source(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member)
{
    enum lh_m_health health = lh_m_member_health(m, c, member);

    if (health == LH_M_STALE && LH_PLANTED("repair-source-stale"))
        return true;
    return health == LH_M_GOOD && (!c->sealed || member->sealed);
}

static struct tally count(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct tally t = {0};

    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        enum lh_m_health health = lh_m_member_health(m, c, member);
        bool good = health == LH_M_GOOD, stays = !lh_m_leaving(member);
        t.good += good;
        t.keep += (good || health == LH_M_AWAY) && stays;
        t.staying += good && stays;
        t.whole += good && stays && (!c->sealed || member->sealed);
        t.sources += is_source(m, c, member);
        t.joining += health == LH_M_JOINING;
    }
    return t;
}

static void set_condition(struct lh_master *m, struct lh_m_chunk *c, uint32_t good)
{
    enum lh_m_condition condition = LH_M_WHOLE;

    if (c->created && good < c->file->replication)
        condition = good == 0 ? LH_M_UNREADABLE : good == 1 ? LH_M_ENDANGERED : LH_M_DEGRADED;
    m->repair.conditions[c->condition]--;
    m->repair.conditions[condition]++;
    c->condition = condition;
}

/* ---- The queue. */

static void unwant(struct lh_master *m, struct lh_m_chunk *c)
{
    if (!c->wanting)
        return;
    RB_REMOVE(lh_m_wanting, &m->wanting, c);
    m->repair.waiting--;
    m->repair.want_bytes -= c->want_bytes;
    c->wanting = false;
}

/* `bytes`: still to be copied, but for what copies under way bring. */
static void want(struct lh_master *m, struct lh_m_chunk *c, uint32_t good, uint64_t bytes)
{
    bool sooner = !c->wanting || good < c->want_good;

    unwant(m, c);
    c->wanting = true;
    c->want_good = good;
    c->want_bytes = bytes;
    RB_INSERT(lh_m_wanting, &m->wanting, c);
    m->repair.waiting++;
    m->repair.want_bytes += bytes;
    if (sooner)
        lh_m_repair_round(m);
}

void lh_m_repair_round(struct lh_master *m)
{
    if (m->repair.round) {
        m->repair.round_again = true;
        return;
    }
    m->repair.round = true;
    m->repair.round_good = 0;
    m->repair.round_chunk = 0;
    m->repair.round_retry = LH_INSTANT_NEVER;
}

static void round_timer(struct lh_master *m, struct lh_m_timer *timer)
{
    (void)timer;
    lh_m_repair_round(m);
}

void lh_m_repair_start(struct lh_master *m)
{
    m->repair.round_timer.fire = round_timer;
}

/* ---- How fast it goes. */

static void meter(struct lh_master *m, struct lh_m_copy *copy, uint64_t bytes)
{
    struct lh_duration interval = lh_instant_until(m->repair.meter_from, m->now);

    if (interval.ns >= lh_seconds(METER_S).ns) {
        m->repair.last_bytes = m->repair.meter_bytes;
        m->repair.last_interval = interval;
        m->repair.meter_bytes = 0;
        m->repair.meter_from = m->now;
    }
    m->repair.meter_bytes += bytes;
    copy->metered += bytes;
}

static uint64_t bytes_per_second(const struct lh_master *m)
{
    struct lh_duration interval =
        lh_duration_add(m->repair.last_interval, lh_instant_until(m->repair.meter_from, m->now));
    unsigned __int128 bytes = (unsigned __int128)m->repair.last_bytes + m->repair.meter_bytes;

    if (m->repair.copies == 0 || interval.ns < lh_seconds(1).ns)
        return 0;
    return (uint64_t)(bytes * lh_seconds(1).ns / interval.ns);
}

void lh_m_repair_info(const struct lh_master *m, Leasehold__RepairInfo *info)
{
    const struct lh_m_copy *copy;

    leasehold__repair_info__init(info);
    info->chunks_unreadable = m->repair.conditions[LH_M_UNREADABLE];
    info->chunks_endangered = m->repair.conditions[LH_M_ENDANGERED];
    info->chunks_degraded =
        m->repair.conditions[LH_M_DEGRADED] + info->chunks_endangered + info->chunks_unreadable;
    info->copies_running = m->repair.copies;
    info->copies_waiting = m->repair.waiting;
    info->bytes_left = m->repair.want_bytes;
    TAILQ_FOREACH(copy, &m->copies, link)
    if (copy->sealed && !copy->chunk->removed && copy->length < copy->chunk->length)
        info->bytes_left += copy->chunk->length - copy->length;
    info->bytes_per_second = bytes_per_second(m);
    if (info->bytes_per_second > 0)
        info->left_ms =
            (uint64_t)((unsigned __int128)info->bytes_left * 1000 / info->bytes_per_second);
    info->copies_done = m->repair.copies_done;
    info->bytes_done = m->repair.bytes_done;
}

/* ---- Copies. */

static struct lh_m_copy *find_copy(const struct lh_m_chunk *c, const struct lh_m_server *s)
{
    struct lh_m_copy *copy;

    TAILQ_FOREACH(copy, &c->copies, chunk_link)
    if (copy->target == s)
        return copy;
    return NULL;
}

bool lh_m_copy_at(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_server *s)
{
    (void)m;
    return find_copy(c, s) != NULL;
}

static void end_copy(struct lh_master *m, struct lh_m_copy *copy)
{
    struct lh_m_chunk *c = copy->chunk;

    lh_m_timer_disarm(m, &copy->timer);
    TAILQ_REMOVE(&m->copies, copy, link);
    TAILQ_REMOVE(&c->copies, copy, chunk_link);
    c->copy_count--;
    m->repair.copies--;
    copy->target->copies_in--;
    copy->source->copies_out--;
    free(copy);
    lh_m_attend(m, c);
    lh_m_repair_round(m); /* a place is free */
}

/* What is at the target is of no use now, unless another copy begins with it; see garbage.c. */
static void leave_copy(struct lh_master *m, struct lh_m_copy *copy)
{
    struct lh_m_chunk *c = copy->chunk;
    struct lh_m_server *s = copy->target;
    bool member = lh_m_member(c, s) != NULL;

    end_copy(m, copy);
    if (!member && !c->removed)
        lh_m_extra_note(m, c, s, c->version, false, true);
}

static void cancel_copy(struct lh_master *m, struct lh_m_copy *copy)
{
    LH_MARK("copy-cancelled");
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": it has the replicas that it needs; the copy to %s is ended",
        copy->chunk->id, copy->chunk->file->path, copy->target->id);
    leave_copy(m, copy);
}

/* Another server, or the same one after a while. */
static void fail_copy(struct lh_master *m, struct lh_m_copy *copy, const char *why)
{
    struct lh_m_chunk *c = copy->chunk;
    unsigned shift = c->repair_failures < 6 ? c->repair_failures : 6;

    LH_MARK("copy-failed");
    lh_fx_log(m->fx, LH_WARN, "chunk %" PRIu64 " of \"%s\": copying it to %s failed: %s", c->id,
        c->file->path, copy->target->id, why);
    c->repair_failures++;
    c->repair_avoid = copy->target;
    c->repair_at = lh_instant_add(m->now, lh_seconds(UINT64_C(1) << shift));
    leave_copy(m, copy);
}

static void copy_timer(struct lh_master *m, struct lh_m_timer *timer)
{
    struct lh_m_copy *copy = LH_M_OWNER(timer, struct lh_m_copy, timer);

    fail_copy(m, copy,
        copy->caught_up ? "it could not join: the chunk has no primary" : "it makes no progress");
}

static void progress(struct lh_master *m, struct lh_m_copy *copy)
{
    lh_m_timer_arm(m, &copy->timer, lh_instant_add(m->now, lh_seconds(STALL_S)));
}

void lh_m_copies_end(struct lh_master *m, struct lh_m_server *target)
{
    struct lh_m_copy *copy, *next;

    for (copy = TAILQ_FIRST(&m->copies); copy != NULL; copy = next) {
        next = TAILQ_NEXT(copy, link);
        if (copy->target != target)
            continue;
        LH_MARK("copy-ended-with-session");
        end_copy(m, copy);
    }
}

void lh_m_copies_free(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_copy *copy;

    while ((copy = TAILQ_FIRST(&c->copies)) != NULL)
        end_copy(m, copy);
}

/* Is `a` the better one to ask first? */
static bool better_source(
    const struct lh_m_chunk *c, const struct lh_m_server *a, const struct lh_m_server *b)
{
    if ((a == c->holder) != (b == c->holder))
        return b == c->holder; /* the primary has enough to do */
    return a->copies_out < b->copies_out;
}

/* Who can be copied from, the one to be asked first at [0]; how many. */
static uint32_t choose_sources(const struct lh_master *m, const struct lh_m_chunk *c,
    const struct lh_m_server *target, struct lh_m_server **sources)
{
    uint32_t count = 0, limit = 2 * m->config.repair_streams;

    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_server *s = c->members[i].server;
        if (s == target || !is_source(m, c, &c->members[i]))
            continue;
        sources[count++] = s;
        if (count > 1 && s->copies_out < limit && better_source(c, s, sources[0])) {
            sources[count - 1] = sources[0];
            sources[0] = s;
        }
    }
    return count;
}

static void send_copy(struct lh_master *m, struct lh_m_copy *copy,
    struct lh_m_server *const *sources, uint32_t source_count)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__CopyReplica order = LEASEHOLD__COPY_REPLICA__INIT;
    Leasehold__Member members[LH_REPLICATION_MAX];
    Leasehold__Member *pointers[LH_REPLICATION_MAX];
    const struct lh_m_chunk *c = copy->chunk;

    LH_ASSERT(lh_m_is_durable(m, c->ticket));
    for (uint32_t i = 0; i < source_count; i++) {
        leasehold__member__init(&members[i]);
        members[i].server_id = sources[i]->id;
        members[i].address = sources[i]->address;
        pointers[i] = &members[i];
    }
    order.session = lh_m_wire_session(m, copy->target->session);
    order.chunk = c->id;
    order.version = copy->version = c->version;
    order.chunk_size = c->file->chunk_size;
    order.durability = c->file->durability;
    order.sealed = copy->sealed = c->sealed;
    if (c->sealed) {
        order.length = c->length;
        order.checksum = c->checksum;
    }
    order.n_sources = source_count;
    order.sources = pointers;
    order.master_term = m->term;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_COPY;
    reply.copy = &order;
    copy->caught_up = false;
    lh_m_send(m, copy->target, &reply);
    progress(m, copy);
}

/* Copies to `target` if the limits allow it. */
static bool begin_copy(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *target)
{
    struct lh_m_server *sources[LH_REPLICATION_MAX];
    uint32_t count = choose_sources(m, c, target, sources);

    if (count == 0 || sources[0]->copies_out >= 2 * m->config.repair_streams)
        return false;
    struct lh_m_copy *copy = lh_alloc(sizeof *copy);
    copy->chunk = c;
    copy->target = target;
    copy->source = sources[0];
    copy->refresh = lh_m_member(c, target) != NULL;
    copy->begun = m->now;
    copy->timer.fire = copy_timer;
    TAILQ_INSERT_TAIL(&m->copies, copy, link);
    TAILQ_INSERT_TAIL(&c->copies, copy, chunk_link);
    c->copy_count++;
    m->repair.copies++;
    target->copies_in++;
    sources[0]->copies_out++;
    lh_m_reserve(target, c->sealed ? c->length : c->file->chunk_size);
    send_copy(m, copy, sources, count);
    if (copy->refresh)
        LH_MARK("copy-refreshes");
    else if (c->sealed)
        LH_MARK("copy-to-new-member");
    else
        LH_MARK("copy-to-join");
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": copying it from %s to %s", c->id,
        c->file->path, sources[0]->id, target->id);
    return true;
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
           find_copy(c, s) == NULL;
}

/* Would a copy to the member's own server make it good? */
static bool can_refresh(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member)
{
    enum lh_m_health health = lh_m_member_health(m, c, member);

    return (health == LH_M_LOST || health == LH_M_MISSING || health == LH_M_STALE) &&
           !lh_m_leaving(member) && has_room_for_copy(m, c, member->server);
}

/* A server that has no part of the chunk, or one that was left there. */
static struct lh_m_server *choose_new(struct lh_master *m, struct lh_m_chunk *c, bool avoid)
{
    struct lh_m_member exclude[2 * LH_REPLICATION_MAX + 1];
    uint32_t count = 0;
    const struct lh_m_copy *copy;
    struct lh_m_server *extra = lh_m_extra_fit(m, c);

    if (extra != NULL && has_room_for_copy(m, c, extra) && lh_m_member(c, extra) == NULL &&
        !(avoid && extra == c->repair_avoid))
        return extra;
    for (uint32_t i = 0; i < c->member_count; i++)
        exclude[count++] = c->members[i];
    TAILQ_FOREACH(copy, &c->copies, chunk_link)
    if (count < 2 * LH_REPLICATION_MAX)
        exclude[count++] = (struct lh_m_member){.server = copy->target};
    if (avoid && c->repair_avoid != NULL)
        exclude[count++] = (struct lh_m_member){.server = c->repair_avoid, .lost = true};
    return lh_m_place_copy(m, copy_bytes(c), exclude, count);
}

static struct lh_m_server *choose_target(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_server *target = NULL;

    for (int avoid = c->repair_avoid != NULL; avoid >= 0 && target == NULL; avoid--) {
        for (uint32_t i = 0; c->sealed && i < c->member_count && target == NULL; i++)
            if (can_refresh(m, c, &c->members[i]) &&
                !(avoid && c->members[i].server == c->repair_avoid))
                target = c->members[i].server;
        if (target == NULL)
            target = choose_new(m, c, avoid);
    }
    return target;
}

/* ---- Members that are not needed. */

/* The higher, the rather it goes. */
static unsigned uselessness(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member)
{
    switch (lh_m_member_health(m, c, member)) {
    case LH_M_GONE:
        return 7;
    case LH_M_LOST:
    case LH_M_MISSING:
        return 6;
    case LH_M_STALE:
        return 5;
    case LH_M_AWAY:
        return lh_m_leaving(member) ? 4 : 2;
    default:
        return lh_m_leaving(member) ? 3 : 1;
    }
}

/* The one that is needed least; but nobody who still may hold the lease. NULL: none. */
static struct lh_m_member *most_useless(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_m_member *worst = NULL;

    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_member *member = &c->members[i];
        if (member->server == c->holder)
            continue;
        if (worst == NULL || uselessness(m, c, member) >= uselessness(m, c, worst))
            worst = member;
    }
    return worst;
}

/* Takes it out of the set; what lies at its server is left to garbage.c once that is durable. */
static void drop(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member)
{
    struct lh_m_member gone = *member;

    LH_MARK("member-dropped");
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": %s (%s%s) is no member any more", c->id,
        c->file->path, gone.server->id, lh_m_health_text(lh_m_member_health(m, c, member)),
        lh_m_leaving(member) ? ", leaving" : "");
    memmove(
        member, member + 1, (size_t)(c->members + c->member_count - member - 1) * sizeof *member);
    c->member_count--;
    lh_m_dirty_chunk(m, c);
    lh_m_extra_note(m, c, gone.server, c->version, gone.sealed, false);
}

/* KEEP-2: one member at a time, and only if all that there should be are left without it. */
static void drop_one(struct lh_master *m, struct lh_m_chunk *c, const struct tally *t)
{
    struct lh_m_member *worst = most_useless(m, c);

    if (worst == NULL)
        return;
    if (LH_PLANTED("member-dropped-before-copy")) {
        if (uselessness(m, c, worst) > 2 && c->member_count > 1)
            drop(m, c, worst);
        return;
    }
    if (c->member_count > c->file->replication && t->whole >= c->file->replication &&
        (uselessness(m, c, worst) > 1 || t->whole > c->file->replication))
        drop(m, c, worst);
}

/* ---- Sealed chunks. */

/* A copy that was to join goes on as one of the whole chunk. */
static void finish_copies(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_server *sources[LH_REPLICATION_MAX];
    struct lh_m_copy *copy;

    TAILQ_FOREACH(copy, &c->copies, chunk_link)
    {
        uint32_t count;
        if (copy->sealed || (count = choose_sources(m, c, copy->target, sources)) == 0)
            continue;
        LH_MARK("copy-sealed-on-the-way");
        send_copy(m, copy, sources, count);
    }
}

static void look_at_sealed(struct lh_master *m, struct lh_m_chunk *c, const struct tally *t)
{
    uint32_t goal = c->file->replication, needed = t->keep < goal ? goal - t->keep : 0;

    while (c->copy_count > needed)
        cancel_copy(m, TAILQ_LAST(&c->copies, lh_m_copies));
    finish_copies(m, c);
    if (c->copy_count < needed && t->sources > 0)
        want(m, c, t->good, (needed - c->copy_count) * c->length);
    else
        unwant(m, c);
    if (needed == 0 || LH_PLANTED("member-dropped-before-copy"))
        drop_one(m, c, t);
}

/* Who has not said that it recorded the seal is told again: the first time may have been lost. */
static void tell_seal_again(struct lh_master *m, struct lh_m_chunk *c)
{
    for (uint32_t i = 0; i < c->member_count && c->seal_told; i++)
        if (!c->members[i].sealed && lh_m_member_health(m, c, &c->members[i]) == LH_M_GOOD) {
            LH_MARK("seal-told-again");
            lh_m_record_seal(m, c, c->members[i].server);
        }
}

static void complete(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s)
{
    struct lh_m_member *member = lh_m_member(c, s);

    if (member == NULL) {
        if (c->member_count == LH_REPLICATION_MAX) {
            member = most_useless(m, c);
            if (member == NULL || uselessness(m, c, member) < 3)
                return;
            drop(m, c, member);
        }
        c->members = lh_realloc_array(c->members, (size_t)c->member_count + 1, sizeof *c->members);
        member = &c->members[c->member_count++];
        *member = (struct lh_m_member){.server = s, .created = true};
        lh_m_dirty_chunk(m, c);
    } else if (member->lost) {
        lh_m_dirty_chunk(m, c);
    }
    member->lost = member->stale = false;
    member->sealed = true;
    member->seen = s->session;
    lh_m_attend(m, c);
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": %s has a whole replica", c->id,
        c->file->path, s->id);
}

/* ---- Open chunks. */

/* REC-4: the copy's server is named in a new version. */
static void join(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_copy *copy)
{
    struct lh_m_server *s = copy->target;

    if (c->member_count == LH_REPLICATION_MAX || lh_m_member(c, s) != NULL) {
        cancel_copy(m, copy);
        return;
    }
    LH_MARK("member-joins");
    c->members = lh_realloc_array(c->members, (size_t)c->member_count + 1, sizeof *c->members);
    c->members[c->member_count++] = (struct lh_m_member){
        .server = s,
        .joining = !LH_PLANTED("joining-counts-as-full"),
        .created = true,
        .seen = s->session,
    };
    m->repair.copies_done++;
    end_copy(m, copy);
    lh_m_regrant(m, c);
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": %s joins it at version %" PRIu64, c->id,
        c->file->path, s->id, c->version);
}

void lh_m_on_recovered(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Recovered *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);

    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " version %" PRIu64 ": recovered by %s at %" PRIu64 " bytes",
        report->chunk, report->version, s->id, report->length);
    if (c == NULL || c->holder != s || c->session != s->session || c->sealed || c->intent_to_seal ||
        !c->sent)
        return;
    /* What was complete at an older version says nothing of the newest one. */
    if (c->version != report->version) {
        LH_MARK("recovered-at-older-version");
        return;
    }
    bool joined = false;
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_member *member = &c->members[i];
        if (!member->joining)
            continue;
        LH_MARK("joining-member-is-full");
        member->joining = false;
        joined = true;
        lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": %s is a full member", c->id,
            c->file->path, member->server->id);
    }
    if (joined)
        lh_m_dirty_chunk(m, c);
    /* The primary counts on full members alone. If it says so in a new session, to this master or to
     * one that started since, it may not have heard who is one by now. */
    bool again =
        c->recovered_session != s->session && (c->waiting || c->recovered_version == c->version);
    if (joined || again)
        c->tell_full = true;
    c->recovered_version = c->version;
    c->recovered_session = s->session;
    lh_m_tell_full(m, c);
    if (c->repair_granted) {
        c->repair_at = m->now; /* what it was granted for can begin */
        lh_m_repair_round(m);
    }
    lh_m_attend(m, c);
}

void lh_m_tell_full(struct lh_master *m, struct lh_m_chunk *c)
{
    if (!c->tell_full || !lh_m_is_durable(m, c->ticket))
        return;
    c->tell_full = false;
    if (c->holder != NULL && lh_m_has_primary(m, c))
        lh_m_send_grant(m, c);
}

/* Does nothing more need to be copied, so that a member can go? Not the primary. */
static void drop_from_open(struct lh_master *m, struct lh_m_chunk *c, const struct tally *t)
{
    struct lh_m_member *worst = most_useless(m, c);

    if (worst == NULL || t->joining > 0 || c->member_count <= c->file->replication ||
        t->staying < c->file->replication ||
        (uselessness(m, c, worst) == 1 && t->staying == c->file->replication))
        return;
    drop(m, c, worst);
    lh_m_regrant(m, c);
}

static void look_at_led(struct lh_master *m, struct lh_m_chunk *c, const struct tally *t)
{
    bool needed = t->keep < c->file->replication;
    struct lh_m_copy *copy = TAILQ_FIRST(&c->copies);

    if (needed && copy == NULL && t->joining == 0 && t->sources > 0)
        want(m, c, t->good, 0);
    else
        unwant(m, c);
    if (copy != NULL && !needed)
        cancel_copy(m, copy);
    else if (copy != NULL && copy->caught_up && t->joining == 0)
        join(m, c, copy);
    else if (copy == NULL && !needed)
        drop_from_open(m, c, t);
}

/* Could a primary do something for the chunk's members? */
static bool grant_helps(struct lh_master *m, struct lh_m_chunk *c, const struct tally *t)
{
    if (t->good == 0)
        return false;
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        enum lh_m_health health = lh_m_member_health(m, c, member);
        if (health == LH_M_JOINING && lh_m_live(m, member->server))
            return true;
        /* Once the primary has reported it, its own server can join anew. */
        if ((health == LH_M_LOST || health == LH_M_MISSING) &&
            lh_m_fits(m, member->server, c->file->chunk_size))
            return true;
    }
    return choose_new(m, c, false) != NULL;
}

static void look_at_free(struct lh_master *m, struct lh_m_chunk *c, const struct tally *t)
{
    if (t->keep < c->file->replication && t->good > 0 && m->config.repair_streams > 0)
        want(m, c, t->good, 0);
    else
        unwant(m, c);
}

static void settle_grant(struct lh_master *m, struct lh_m_chunk *c, const struct tally *t)
{
    if (!c->repair_granted || (c->holder != NULL && !c->sealed && t->keep < c->file->replication &&
                                  !lh_instant_reached(m->now, c->granted_until)))
        return;
    c->repair_granted = false;
    m->repair.grants--;
    lh_m_repair_round(m);
}

/* ---- Looking, and doing. */

/* Nothing is decided on what is not durable yet, nor on a chunk that rolls over. */
static bool is_settled(const struct lh_master *m, const struct lh_m_chunk *c)
{
    return c->created && lh_m_is_durable(m, c->ticket) && !c->dirty &&
           (c->sealed || !c->intent_to_seal);
}

static bool is_free(const struct lh_m_chunk *c)
{
    return !c->sealed && c->holder == NULL;
}

void lh_m_repair_look(struct lh_master *m, struct lh_m_chunk *c, bool patrol)
{
    struct tally t = count(m, c);

    set_condition(m, c, t.good);
    if (t.keep >= c->file->replication)
        c->repair_grants = 0;
    settle_grant(m, c, &t);
    if (!is_settled(m, c)) {
        unwant(m, c);
        return;
    }
    if (c->sealed) {
        look_at_sealed(m, c, &t);
        if (patrol && !c->dirty)
            tell_seal_again(m, c);
    } else if (c->file->trashed) {
        unwant(m, c);
    } else if (is_free(c)) {
        look_at_free(m, c, &t);
    } else if (lh_m_has_primary(m, c)) {
        look_at_led(m, c, &t);
    } else {
        unwant(m, c); /* its grant or its end comes here again */
    }
}

void lh_m_repair_pause(struct lh_master *m, struct lh_m_chunk *c)
{
    c->repair_grant_at =
        lh_instant_max(c->repair_grant_at, lh_instant_add(m->now, lh_seconds(PAUSE_S)));
    lh_m_attend(m, c);
}

static void try_grant(struct lh_master *m, struct lh_m_chunk *c, const struct tally *t)
{
    if (m->repair.grants >= GRANTS_MAX || !grant_helps(m, c, t))
        return;
    /* Not again and again, if it does not help. */
    unsigned shift = c->repair_grants < 4 ? c->repair_grants : 4;
    c->repair_grants++;
    c->repair_grant_at = lh_instant_add(m->now, lh_seconds((uint64_t)GRANT_S << shift));
    if (!lh_m_grant_free(m, c))
        return;
    LH_MARK("grant-for-repair");
    c->repair_granted = true;
    c->granted_until = lh_instant_add(m->now, lh_seconds(GRANT_S));
    m->repair.grants++;
}

/* Begins what `c` is waiting for, as far as the limits allow. */
static void try(struct lh_master *m, struct lh_m_chunk *c)
{
    struct tally t = count(m, c);
    struct lh_m_server *target;

    if (!is_settled(m, c))
        return;
    if (is_free(c)) {
        try_grant(m, c, &t);
        return;
    }
    if (!c->sealed && !lh_m_has_primary(m, c))
        return;
    uint32_t most = c->sealed ? c->file->replication - t.keep : 1;
    while (c->copy_count < most && m->repair.copies < COPIES_MAX &&
           (target = choose_target(m, c)) != NULL && begin_copy(m, c, target))
        continue;
    lh_m_repair_look(m, c, false);
}

/* Could any server take one more copy? */
static bool any_stream_free(const struct lh_master *m)
{
    const struct lh_m_server *s;

    if (m->repair.copies >= COPIES_MAX)
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
        lh_m_timer_disarm(m, &m->repair.round_timer);
        return;
    }
    /* The more there are that nothing can be done for now, the less often. */
    struct lh_duration pause =
        lh_duration_add(lh_seconds(ROUND_S), lh_nanoseconds((uint64_t)m->repair.waiting * 20000u));
    struct lh_instant at = lh_instant_min(lh_instant_add(m->now, pause), m->repair.round_retry);
    lh_m_timer_arm(m, &m->repair.round_timer, lh_instant_max(at, m->now));
}

void lh_m_repair_step(struct lh_master *m)
{
    size_t servers = HASH_COUNT(m->servers) + 1;
    size_t tries = ROUND_WORK_MAX / servers > 16 ? ROUND_WORK_MAX / servers : 16;

    if (!m->repair.round)
        return;
    if (tries > LH_STEP_WORK_MAX)
        tries = LH_STEP_WORK_MAX;
    for (; tries > 0; tries--) {
        struct lh_m_chunk key = {.id = m->repair.round_chunk, .want_good = m->repair.round_good};
        struct lh_m_chunk *c = RB_NFIND(lh_m_wanting, &m->wanting, &key);
        if (c == NULL || !any_stream_free(m)) {
            end_round(m);
            return;
        }
        m->repair.round_good = c->want_good;
        m->repair.round_chunk = c->id + 1;
        struct lh_instant at = is_free(c) ? c->repair_grant_at : c->repair_at;
        if (lh_instant_reached(m->now, at))
            try(m, c);
        else
            m->repair.round_retry = lh_instant_min(m->repair.round_retry, at);
    }
}

/* ---- What chunkservers say. */

void lh_m_on_progress(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat)
{
    for (size_t i = 0; i < heartbeat->n_copies; i++) {
        const Leasehold__CopyProgress *told = heartbeat->copies[i];
        struct lh_m_chunk *c = lh_m_chunk_find(m, told->chunk);
        struct lh_m_copy *copy = c == NULL ? NULL : find_copy(c, s);
        if (copy == NULL || copy->caught_up)
            continue;
        if (!copy->told || told->length != copy->length)
            progress(m, copy);
        if (copy->told && told->length > copy->length)
            meter(m, copy, told->length - copy->length);
        copy->told = true;
        copy->length = told->length;
    }
}

/* An answer to what was not asked (any more): a former master's, or a copy that was given up. */
static void copied_unasked(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s,
    const Leasehold__ReplicaCopied *report)
{
    bool whole = report->error == LEASEHOLD__ERROR_CODE__OK && report->sealed && c->sealed &&
                 report->version == c->version;

    LH_MARK("copied-unasked");
    if (lh_m_member(c, s) != NULL) {
        if (whole)
            complete(m, c, s);
        return;
    }
    lh_m_extra_note(
        m, c, s, report->version < c->version ? report->version : c->version, whole, !whole);
}

void lh_m_on_copied(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCopied *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);
    struct lh_m_copy *copy = c == NULL ? NULL : find_copy(c, s);

    if (c == NULL)
        return; /* removed meanwhile: RemoveReplica went, or goes, behind */
    if (copy == NULL) {
        copied_unasked(m, c, s, report);
        return;
    }
    if (report->version != copy->version)
        return; /* to an earlier request */
    if (report->copied_bytes > copy->metered)
        meter(m, copy, report->copied_bytes - copy->metered);
    if (report->error != LEASEHOLD__ERROR_CODE__OK) {
        int error = lh_error_from_wire((unsigned)report->error);
        if (error == LH_ERR_DISK_FULL)
            s->avoid_until = lh_instant_add(m->now, lh_seconds(STALL_S));
        if (error == LH_ERR_CORRUPT)
            lh_fx_log(m->fx, LH_ERROR,
                "chunk %" PRIu64 " of \"%s\": what %s copied does not add up to the chunk's "
                "checksum",
                c->id, c->file->path, s->id);
        fail_copy(m, copy, lh_error_text(error));
        return;
    }
    if (report->sealed != copy->sealed)
        return; /* the chunk was sealed meanwhile, and the copy goes on */
    m->repair.bytes_done += report->copied_bytes;
    c->repair_failures = 0;
    c->repair_avoid = NULL;
    if (!copy->sealed) {
        LH_MARK("copy-caught-up");
        copy->caught_up = true;
        progress(m, copy);
        lh_m_attend(m, c);
        return;
    }
    LH_MARK("copy-complete");
    m->repair.copies_done++;
    end_copy(m, copy);
    complete(m, c, s);
}

void lh_m_repair_forget(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_copy *copy;

    unwant(m, c);
    if (c->repair_granted)
        m->repair.grants--;
    c->repair_granted = false;
    /* They end when the removal is durable, and their servers hear of it. */
    TAILQ_FOREACH(copy, &c->copies, chunk_link)
    lh_m_timer_disarm(m, &copy->timer);
}
