/* Rolling over (FAIL-2a): when the primary of a file's tail is lost, the chunk is sealed by fences
 * instead of waiting for the lease, and the file goes on in its next chunk.
 *
 *   (a) the intent to seal, a version above the grant's and the id of the next chunk: one commit
 *   (b) Fence to every full member, CreateReplica to the members of the next chunk, at once
 *   (c) the shortest log of those whose member is not unverified is what is sealed (roll_length.c)
 *   (d) the seal, the next chunk and its grant: one commit
 *
 * The old lease is left to run out. It stays in the table under `granted_version`, so that nothing
 * is granted over it; and nothing will be, for the chunk is sealed. */
#include "master/seal/seal.h"

#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/inventory/inventory.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

/* ---- (b) Fences. */

static bool may_answer(const struct lh_master *m, const struct lh_m_member *member)
{
    return lh_m_log_counts(m, member) || lh_m_log_is_damaged(m, member);
}

static void send_fence(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Fence fence = LEASEHOLD__FENCE__INIT;

    if (!lh_m_live(m, s))
        return;
    fence.session = lh_m_wire_session(m, s->session.client.session);
    fence.chunk = c->id;
    fence.version = c->version;
    fence.master_term = m->term;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_FENCE;
    reply.fence = &fence;
    lh_m_send(m, s, &reply);
}

/* To the members that have not answered; to `only` if not NULL. */
static void send_fences(struct lh_master *m, struct lh_m_roll *roll, const struct lh_m_server *only)
{
    struct lh_m_chunk *c = roll->chunk;

    if (roll->decided)
        return;
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if (may_answer(m, &c->members[i]) && lh_m_roll_answer(roll, s) == NULL &&
            (only == NULL || only == s))
            send_fence(m, c, s);
    }
}

/* ---- (d) The seal. */

static void seal(struct lh_master *m, struct lh_m_roll *roll)
{
    struct lh_m_chunk *c = roll->chunk;
    struct lh_m_file *f = c->file;

    c->length = roll->length;
    c->checksum = roll->checksum;
    lh_histogram_note(&m->counts.roll, lh_instant_until(roll->began, m->now));
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": rolled over: sealed at %" PRIu64 " bytes, version %" PRIu64
        ", after %" PRIu64 " ms, by the logs of %u of %u members",
        c->id, f->path, c->length, c->version,
        lh_duration_ms(lh_instant_until(roll->began, m->now)), roll->answer_count, c->member_count);
    c->seal_backed = roll->backed;
    lh_m_seal(m, c)->rolled_at = m->now;
    if (!c->seal_backed)
        lh_fx_log(m->fx, LH_WARN,
            "chunk %" PRIu64 " of \"%s\": a single member has shown its log: it is copied at once, "
            "and appends that were under way are answered once that is done",
            c->id, f->path);
    lh_m_roll_free(m, c);
    lh_m_set_sealed(m, c);
    lh_m_seal(m, c)->urgent = !lh_m_backed(m, c);
    lh_m_dirty_chunk(m, c);
    if (f->active->prealloc == NULL)
        LH_MARK("roll-sealed-without-next-chunk");
    lh_m_prealloc_take(m, f);
    lh_m_touch(m, f);
}

/* Is the next chunk there, or has it been waited for long enough? */
static bool next_is_there(struct lh_master *m, const struct lh_m_roll *roll)
{
    struct lh_m_file *f = roll->chunk->file;
    struct lh_duration patience = m->config.roll_patience;

    if (f->active->prealloc == NULL || lh_m_prealloc_ready(m, f))
        return true;
    LH_MARK("roll-waits-for-next-chunk");
    if (lh_instant_reached(m->now, lh_instant_add(roll->decided_at, patience)) &&
        lh_m_prealloc_shrink(m, f))
        return true;
    return lh_instant_reached(m->now, lh_instant_add(roll->decided_at, m->config.create_timeout));
}

static void arm(struct lh_master *m, struct lh_m_roll *roll)
{
    struct lh_instant at = lh_instant_add(m->now, m->config.fence_pause);
    struct lh_instant end = roll->decided
                                ? lh_instant_add(roll->decided_at, m->config.roll_patience)
                                : lh_m_roll_patience_end(m, roll);

    if (lh_instant_before(m->now, end))
        at = lh_instant_min(at, end);
    lh_timer_set(&m->timers, &roll->timer, at);
}

static void advance(struct lh_master *m, struct lh_m_roll *roll)
{
    if (!lh_m_is_durable(m, roll->ticket))
        return;
    lh_m_roll_decide(m, roll);
    if (roll->decided && next_is_there(m, roll))
        seal(m, roll);
    else
        arm(m, roll);
}

static void roll_timer(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    struct lh_m_roll *roll = LH_OWNER(timer, struct lh_m_roll, timer);

    if (lh_m_is_durable(m, roll->ticket))
        send_fences(m, roll, NULL);
    arm(m, roll);
    advance(m, roll);
}

/* KEEP-4: a member has adopted a version above the intent's: the store is older than the servers.
 * A log shown at the intent's version binds nobody who acts at a higher one: everybody is fenced
 * again, above that, once it is durable. */
static void fence_above(
    struct lh_master *m, struct lh_m_roll *roll, struct lh_m_server *s, uint64_t adopted)
{
    struct lh_m_chunk *c = roll->chunk;
    const struct lh_m_report report = {.chunk = c->id, .version = adopted};

    LH_MARK("fence-below-adopted-version");
    lh_m_report_evidence(m, s, c, &report);
    if (lh_m_next_version(c) <= adopted)
        return; /* too high to go above */
    c->version = lh_m_next_version(c);
    roll->answer_count = 0;
    roll->usable_at = roll->enough_at = LH_INSTANT_NEVER;
    lh_m_dirty_chunk(m, c);
    roll->ticket = c->active->ticket;
}

void lh_m_on_fenced(struct lh_master *m, struct lh_m_server *s, const Leasehold__Fenced *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);
    struct lh_m_member *member = c == NULL ? NULL : lh_m_member(c, s);
    struct lh_m_roll *roll = c == NULL ? NULL : c->active->seal->roll;

    if (roll == NULL || roll->decided || member == NULL || !may_answer(m, member) ||
        !lh_m_is_durable(m, roll->ticket) || lh_m_roll_answer(roll, s) != NULL)
        return;
    if (report->error == LEASEHOLD__ERROR_CODE__OK) {
        if (report->version != c->version || report->length > c->file->chunk_size)
            return; /* makes no sense, or is an answer to a fence before a jump */
        if (report->damaged)
            lh_m_lose(m, c, member, true);
        else if (member->lost)
            return; /* it was lost since */
        member->seen = lh_m_session_of(s);
        roll->answers[roll->answer_count++] = (struct lh_m_fenced){.server = s,
            .length = report->length,
            .checksum = report->checksum,
            .committed = report->committed,
            .unverified = report->unverified,
            .primary = report->primary,
            .damaged = report->damaged,
            .truncated = report->truncated && !LH_PLANTED("sealed-length-from-doubtful-member")};
    } else if (report->error == LEASEHOLD__ERROR_CODE__NO_REPLICA ||
               report->error == LEASEHOLD__ERROR_CODE__CORRUPT) {
        LH_MARK("fence-finds-no-replica");
        lh_fx_log(m->fx, LH_WARN, "chunk %" PRIu64 " of \"%s\": %s has lost its replica", c->id,
            c->file->path, s->id);
        lh_m_lose(m, c, member, false);
    } else if (report->error == LEASEHOLD__ERROR_CODE__STALE_VERSION &&
               report->version > c->version) {
        fence_above(m, roll, s, report->version);
        return;
    } else if (report->error == LEASEHOLD__ERROR_CODE__IO) {
        LH_MARK("fence-refused-by-the-disk"); /* it is asked again, and nobody is held up by it */
        if (!lh_m_roll_unfenced(roll, s) && roll->unfenced.count < LH_REPLICATION_MAX)
            roll->unfenced.servers[roll->unfenced.count++] = s;
    } else {
        LH_MARK("fence-answered-later"); /* it is asked again */
        return;
    }
    advance(m, roll);
}

void lh_m_roll_durable(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_roll *roll = c->active->seal->roll;

    if (roll == NULL || !lh_m_is_durable(m, roll->ticket))
        return;
    send_fences(m, roll, NULL);
    advance(m, roll);
}

void lh_m_roll_announced(struct lh_master *m, struct lh_m_server *s)
{
    struct lh_m_roll *roll;

    TAILQ_FOREACH(roll, &m->rolls, link)
        if (lh_m_is_durable(m, roll->ticket))
            send_fences(m, roll, s);
}

void lh_m_rolls_advance(struct lh_master *m)
{
    struct lh_m_roll *roll, *next;

    for (roll = TAILQ_FIRST(&m->rolls); roll != NULL; roll = next) {
        next = TAILQ_NEXT(roll, link);
        advance(m, roll);
    }
}

void lh_m_roll_prealloc_changed(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_chunk *tail = lh_m_tail(f);

    if (tail != NULL && tail->active->seal->roll != NULL && tail->active->seal->roll->decided)
        advance(m, tail->active->seal->roll);
}

/* ---- (a) The beginning. */

static struct lh_m_roll *roll_new(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_roll *roll = lh_alloc(sizeof *roll);

    LH_ASSERT(c->active->seal->roll == NULL && c->intent_to_seal && !c->sealed);
    roll->chunk = c;
    roll->usable_at = roll->enough_at = LH_INSTANT_NEVER;
    roll->timer.fire = roll_timer;
    TAILQ_INSERT_TAIL(&m->rolls, roll, link);
    lh_m_seal(m, c)->roll = roll;
    return roll;
}

void lh_m_roll_free(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->active->seal->roll == NULL)
        return;
    lh_timer_unset(&m->timers, &c->active->seal->roll->timer);
    TAILQ_REMOVE(&m->rolls, c->active->seal->roll, link);
    free(c->active->seal->roll);
    lh_m_seal(m, c)->roll = NULL;
}

void lh_m_roll_resume(struct lh_master *m, struct lh_m_chunk *c)
{
    LH_MARK("restart-with-intent");
    roll_new(m, c)->resumed = true;
    if (lh_m_holder(c) != NULL && lh_m_member(c, lh_m_holder(c)) != NULL)
        lh_m_member(c, lh_m_holder(c))->excluded = true;
}

void lh_m_rolls_start(struct lh_master *m)
{
    struct lh_m_roll *roll;

    TAILQ_FOREACH(roll, &m->rolls, link) {
        roll->began = m->now;
        roll->ticket = m->commit.next_ticket; /* the start's: before it nobody is told anything */
        arm(m, roll);
    }
}

void lh_m_roll_begin(struct lh_master *m, struct lh_m_chunk *c, const char *why)
{
    struct lh_m_member excluded[LH_REPLICATION_MAX];
    uint32_t excluded_count = lh_m_excluded(c, excluded);

    if (lh_m_holder(c) != NULL)
        lh_fx_log(m->fx, LH_WARN,
            "chunk %" PRIu64 " of \"%s\": primary %s is lost (%s); rolling over at version %" PRIu64
            ", while its lease at version %" PRIu64 " runs out in at most %" PRIu64 " ms",
            c->id, c->file->path, lh_m_holder(c)->id, why, lh_m_next_version(c),
            c->active->grant->lease.version, lh_duration_ms(lh_m_lease_left(m, c)));
    else
        lh_fx_log(m->fx, LH_WARN,
            "chunk %" PRIu64 " of \"%s\": %s; rolling over at version %" PRIu64, c->id,
            c->file->path, why, lh_m_next_version(c));
    m->counts.rolls++;
    for (uint32_t i = 0; i < excluded_count; i++)
        lh_m_note_missed(m, lh_m_server_of(m, &excluded[i]));
    c->intent_to_seal = true;
    c->version = lh_m_next_version(c); /* `granted_version` stays: it is the lease's */
    if (lh_m_holder(c) != NULL)
        lh_lease_let_end(&lh_m_grant(m, c)->lease);
    lh_m_dirty_chunk(m, c);
    struct lh_m_roll *roll = roll_new(m, c);
    roll->began = m->now;
    roll->ticket = c->active->ticket;
    lh_m_prealloc_for_roll(m, c->file, excluded, excluded_count);
    arm(m, roll);
    if (LH_PLANTED("roll-fence-before-durable"))
        send_fences(m, roll, NULL);
}

bool lh_m_roll_possible(struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_m_member excluded[LH_REPLICATION_MAX];
    struct lh_m_server *chosen[LH_REPLICATION_MAX];
    uint32_t excluded_count = lh_m_excluded(c, excluded), wanted = c->file->min_replicas;
    uint32_t logs = 0;

    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        bool there = may_answer(m, member) && lh_m_looks_alive(m, lh_m_server_of(m, member)) &&
                     !(member->excluded && lh_m_server_of(m, member) == lh_m_holder(c));
        logs += there;
    }
    if (logs == 0)
        return false;
    if (lh_m_prealloc_fit(m, c->file, excluded, excluded_count) >= wanted)
        return true;
    /* HA-11: there is no next chunk then. A member that follows when the lease is over has room. */
    return m->store_fills == NULL &&
           lh_m_place(m, c->file->chunk_size, wanted, excluded, excluded_count, chosen) == wanted;
}
