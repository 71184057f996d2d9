/* How long was the log? What the logs say that answered a roll's fences, step (c) of FAIL-2a: which
 * length and checksum are sealed, and for how long others are waited for. Which log decides, and
 * whether enough is known, is evidence/'s to say. Nobody settles by a single log before it is on as
 * many disks as an append that is acknowledged (APP-5a).
 *
 * Nothing is sent from here: the cause, the intent, the fences and the seal are roll.c's. */
#include "master/seal/seal.h"

#include "evidence/evidence.h"
#include "master/inventory/inventory.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

#include <inttypes.h>

bool lh_m_log_counts(const struct lh_master *m, const struct lh_m_member *member)
{
    return !member->joining && !member->lost && !lh_m_given_up(m, lh_m_server_of(m, member));
}

bool lh_m_log_is_damaged(const struct lh_master *m, const struct lh_m_member *member)
{
    const struct lh_m_server *s = lh_m_server_of(m, member);
    /* Its server said so in the last session that this master saw it in. */
    bool nothing = member->seen != 0 && !member->kept;

    return member->lost && !member->joining && !lh_m_given_up(m, s) &&
           (lh_m_is_kept(m, member) || (!nothing && (!lh_m_live(m, s) || !lh_m_heard_out(s))));
}

const struct lh_m_fenced *lh_m_roll_answer(
    const struct lh_m_roll *roll, const struct lh_m_server *s)
{
    for (uint32_t i = 0; i < roll->answer_count; i++)
        if (roll->answers[i].server == s)
            return &roll->answers[i];
    return NULL;
}

bool lh_m_roll_unfenced(const struct lh_m_roll *roll, const struct lh_m_server *s)
{
    for (uint32_t i = 0; i < roll->unfenced.count; i++)
        if (roll->unfenced.servers[i] == s)
            return true;
    return false;
}

uint32_t lh_m_logs_needed(const struct lh_master *m, const struct lh_m_chunk *c)
{
    uint32_t there = 0;

    for (uint32_t i = 0; i < c->member_count; i++)
        there += lh_m_log_counts(m, &c->members[i]) &&
                 lh_m_member_health(m, c, &c->members[i]) != LH_M_GONE;
    return there < c->file->min_replicas ? there : c->file->min_replicas;
}

void lh_m_set_urgent(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_seal(m, c)->urgent = true;
}

void lh_m_urgent_update(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->active->seal->urgent && lh_m_backed(m, c))
        lh_m_seal(m, c)->urgent = false;
}

uint32_t lh_m_recorded(const struct lh_m_chunk *c)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->member_count; i++)
        count += c->members[i].sealed && !c->members[i].lost && !c->members[i].stale;
    return count;
}

/* A seal by its primary covers what all members have (SEAL-1). And nobody is waited for longer than
 * for members that are away (KEEP-1). */
bool lh_m_backed(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_instant since = lh_instant_max(c->active->seal->rolled_at, m->started_at);

    return !c->sealed || !c->intent_to_seal || c->seal_backed ||
           lh_m_recorded(c) >= c->file->min_replicas ||
           lh_instant_reached(m->now, lh_instant_add(since, m->config.grace)) ||
           LH_PLANTED("settle-told-too-early");
}

/* Are those that look alive and have not answered taken to hang? */
static bool others_hang(const struct lh_master *m, const struct lh_m_roll *roll)
{
    return lh_instant_reached(m->now, lh_instant_add(roll->began, m->config.fence_wait));
}

/* What each member's log is to the roll; as many as the chunk has members. */
static void list_logs(
    const struct lh_master *m, const struct lh_m_roll *roll, struct lh_log logs[LH_REPLICATION_MAX])
{
    const struct lh_m_chunk *c = roll->chunk;

    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        struct lh_m_server *s = lh_m_server_of(m, member);
        const struct lh_m_fenced *a = lh_m_roll_answer(roll, s);
        bool alive = lh_m_looks_alive(m, s), counts = lh_m_log_counts(m, member);
        bool damaged = !counts && lh_m_log_is_damaged(m, member);
        if (a != NULL)
            logs[i] = (struct lh_log){.state = LH_LOG_REPORTED,
                .length = a->length,
                .committed = a->committed,
                .unverified = a->unverified,
                .truncated = a->truncated,
                .damaged = a->damaged,
                .primary = a->primary,
                /* Who registers again has not shown yet whether it still has it. */
                .reachable = alive && member->seen == lh_m_session_of(s)};
        else if (!counts && !damaged)
            logs[i] = (struct lh_log){.state = LH_LOG_NONE};
        else if (alive && !member->excluded && !lh_m_roll_unfenced(roll, s) &&
                 !others_hang(m, roll))
            logs[i] = (struct lh_log){.state = LH_LOG_AWAITED, .damaged = damaged};
        else
            logs[i] = (struct lh_log){.state = LH_LOG_AWAY, .damaged = damaged};
    }
}

static struct lh_evidence weigh(
    const struct lh_master *m, const struct lh_m_roll *roll, const struct lh_log *logs)
{
    return lh_evidence_shortest(&(struct lh_seal_question){
        .logs = logs,
        .count = roll->chunk->member_count,
        .committed = roll->committed,
        .needed = lh_m_logs_needed(m, roll->chunk),
        .found = !roll->resumed,
        .patience_over = lh_instant_reached(m->now, lh_m_roll_patience_end(m, roll)),
        .lone_may = m->behind == NULL,
    });
}

bool lh_m_roll_unsure(const struct lh_master *m, const struct lh_m_roll *roll)
{
    struct lh_log logs[LH_REPLICATION_MAX];

    list_logs(m, roll, logs);
    return roll->answer_count > 0 && !weigh(m, roll, logs).sure;
}

struct lh_instant lh_m_roll_patience_end(const struct lh_master *m, const struct lh_m_roll *roll)
{
    /* After a restart members have to register first. */
    struct lh_duration find = roll->resumed ? m->config.find_timeout : lh_nanoseconds(0);
    struct lh_instant found = lh_instant_add(roll->began, find);
    struct lh_instant lone = lh_instant_max(roll->usable_at, found);
    struct lh_instant many = lh_instant_add(roll->enough_at, m->config.roll_patience);

    return lh_instant_min(lh_instant_max(many, found),
        lh_instant_add(lone,
            LH_PLANTED("lone-log-decides-at-once") ? lh_nanoseconds(0) : m->config.lone_log_after));
}

/* Since when that is so. */
static void since(const struct lh_master *m, struct lh_instant *at, bool now)
{
    if (!now)
        *at = LH_INSTANT_NEVER;
    else if (at->ns == LH_INSTANT_NEVER.ns)
        *at = m->now;
}

/* What a log was that is gone now (its server has registered without it, or has lost it) names no
 * seal: nobody could be given those bytes. What it knew as committed stays known. */
static bool forget_gone(struct lh_master *m, struct lh_m_roll *roll)
{
    uint32_t had = roll->answer_count, kept = 0;

    for (uint32_t i = 0; i < roll->answer_count; i++) {
        const struct lh_m_fenced *a = &roll->answers[i];
        const struct lh_m_member *member = lh_m_member(roll->chunk, a->server);
        enum lh_m_health health = lh_m_member_health(m, roll->chunk, member);
        if (a->committed > roll->committed)
            roll->committed = a->committed;
        bool lost = a->damaged ? !lh_m_is_kept(m, member) : health == LH_M_LOST;
        if (lost || health == LH_M_MISSING)
            LH_MARK("roll-answer-of-a-log-that-is-gone");
        else
            roll->answers[kept++] = *a;
    }
    roll->answer_count = kept;
    return kept < had;
}

void lh_m_roll_decide(struct lh_master *m, struct lh_m_roll *roll)
{
    /* Until the seal is written down a decision can be taken back. */
    if (forget_gone(m, roll))
        roll->decided = false;
    if (roll->decided)
        return;
    const struct lh_m_chunk *c = roll->chunk;
    struct lh_log logs[LH_REPLICATION_MAX];
    list_logs(m, roll, logs);
    struct lh_evidence e = weigh(m, roll, logs);
    since(m, &roll->usable_at, e.sure);
    since(m, &roll->enough_at, e.many);
    e = weigh(m, roll, logs);
    if (e.verdict == LH_VERDICT_WAIT) {
        if (roll->answer_count > 0 && !e.sure)
            LH_MARK("roll-waits-beside-an-unsure-log");
        else if (roll->answer_count > 0 && !e.many)
            LH_MARK("roll-waits-beside-a-lone-log");
        return;
    }
    const struct lh_m_fenced *best =
        lh_m_roll_answer(roll, lh_m_server_of(m, &c->members[e.which]));
    if (e.verdict == LH_VERDICT_LOSS) {
        LH_MARK("roll-all-unverified");
        if (best->damaged)
            LH_MARK("roll-by-a-damaged-log");
        m->counts.possible_losses++;
        lh_fx_log(m->fx, LH_ERROR,
            "chunk %" PRIu64 " of \"%s\": no member's log is sure to be whole (their machines went "
            "down, or their ends were damaged); acknowledged records above %" PRIu64
            " bytes may be lost (version %" PRIu64 ", sealed)",
            c->id, c->file->path, best->length, c->version);
    } else if (!e.many) {
        LH_MARK("roll-by-a-lone-log");
    }
    for (uint32_t i = 0; i < c->member_count; i++)
        if (logs[i].state == LH_LOG_AWAITED && !logs[i].damaged)
            LH_MARK("roll-decided-without-a-live-member");
    roll->decided = true;
    roll->decided_at = m->now;
    roll->length = best->length;
    roll->checksum = best->checksum;
    roll->backed = lh_evidence_backed(logs, c->member_count, best->length, c->file->min_replicas);
}
