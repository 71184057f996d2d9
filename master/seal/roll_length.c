/* How long was the log? What the logs say that answered a roll's fences, step (c) of FAIL-2a: which
 * length and checksum are sealed, whether enough is known for that, and whom to wait for.
 *
 *   the shortest log that has all that was ever acknowledged counts; not unverified ones (REC-2a)
 *   a single one is enough: everybody has what was acknowledged. But nobody settles by it before it
 *   is on as many disks as an append that is acknowledged (APP-5a); the primary's own is already
 *   a log that was cut at a start vouches for nothing by itself (FAIL-3)
 *
 * Nothing is sent from here: the cause, the intent, the fences and the seal are roll.c's. */
#include "master/seal/seal.h"

#include "master/inventory/inventory.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

#include <inttypes.h>

bool lh_m_log_counts(const struct lh_master *m, const struct lh_m_member *member)
{
    return !member->joining && !member->lost && !lh_m_given_up(m, lh_m_server_of(m, member));
}

const struct lh_m_fenced *lh_m_roll_answer(
    const struct lh_m_roll *roll, const struct lh_m_server *s)
{
    for (uint32_t i = 0; i < roll->answer_count; i++)
        if (roll->answers[i].server == s)
            return &roll->answers[i];
    return NULL;
}

static bool better(const struct lh_m_fenced *a, const struct lh_m_fenced *b)
{
    if (LH_PLANTED("roll-takes-the-longest"))
        return a->length > b->length;
    /* FAIL-3: a tear cannot be told from rot, which may have taken what was acknowledged. Of logs
     * that were all cut the longest has the most, and rot is not everywhere. */
    if (a->truncated != b->truncated)
        return b->truncated;
    return a->truncated ? a->length > b->length : a->length < b->length;
}

/* The shortest log of those that have everything that was ever acknowledged; NULL: none is known
 * to. */
static const struct lh_m_fenced *shortest(const struct lh_m_roll *roll)
{
    const struct lh_m_fenced *best = NULL;

    for (uint32_t i = 0; i < roll->answer_count; i++) {
        const struct lh_m_fenced *a = &roll->answers[i];
        if (!LH_PLANTED("sealed-length-from-doubtful-member") &&
            (a->unverified || a->length < roll->committed))
            continue; /* REC-2a */
        if (best == NULL || better(a, best))
            best = a;
    }
    return best;
}

static const struct lh_m_fenced *longest(const struct lh_m_roll *roll)
{
    const struct lh_m_fenced *best = NULL;

    for (uint32_t i = 0; i < roll->answer_count; i++)
        if (best == NULL || roll->answers[i].length > best->length)
            best = &roll->answers[i];
    return best;
}

uint32_t lh_m_logs_needed(const struct lh_master *m, const struct lh_m_chunk *c)
{
    uint32_t there = 0;

    for (uint32_t i = 0; i < c->member_count; i++)
        there += lh_m_log_counts(m, &c->members[i]) &&
                 lh_m_member_health(m, c, &c->members[i]) != LH_M_GONE;
    return there < c->file->min_replicas ? there : c->file->min_replicas;
}

/* How many logs were shown that are not in doubt? */
static uint32_t logs_shown(const struct lh_m_roll *roll)
{
    uint32_t logs = 0;

    for (uint32_t i = 0; i < roll->answer_count; i++)
        logs += !roll->answers[i].unverified;
    return logs;
}

/* Are so many bytes of the log on as many disks as an append that is acknowledged? What the primary
 * itself shows is: it says what was acknowledged, and that every member has. */
static bool enough(const struct lh_m_roll *roll, uint64_t length, uint32_t needed)
{
    uint32_t logs = 0;

    for (uint32_t i = 0; i < roll->answer_count; i++) {
        const struct lh_m_fenced *a = &roll->answers[i];
        if (a->primary)
            return true;
        logs += !a->unverified && a->length >= length;
    }
    return logs >= needed;
}

void lh_m_set_urgent(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_move(m, c)->seal.urgent = true;
}

void lh_m_urgent_update(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->motion->seal.urgent && lh_m_backed(m, c))
        lh_m_move(m, c)->seal.urgent = false;
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
    struct lh_instant since = lh_instant_max(c->motion->seal.rolled_at, m->started_at);

    return !c->sealed || !c->intent_to_seal || c->seal_backed ||
           lh_m_recorded(c) >= c->file->min_replicas ||
           lh_instant_reached(m->now, lh_instant_add(since, m->config.grace)) ||
           LH_PLANTED("settle-told-too-early");
}

/* A tear cannot be told from rot, so a log that was cut vouches for nothing by itself. Two do: rot
 * is not everywhere (FAIL-3). */
static bool is_sure(const struct lh_m_roll *roll, const struct lh_m_fenced *best)
{
    return !best->truncated || logs_shown(roll) > 1 || LH_PLANTED("lone-cut-log-counts");
}

/* Is there nobody left whose answer would be waited for? `*all`: every full member has answered. */
static bool nobody_awaited(const struct lh_master *m, const struct lh_m_roll *roll, bool *all)
{
    const struct lh_m_chunk *c = roll->chunk;
    bool awaited = false;

    *all = true;
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        if (!lh_m_log_counts(m, member) ||
            lh_m_roll_answer(roll, lh_m_server_of(m, member)) != NULL)
            continue;
        *all = false;
        awaited = awaited || (!member->excluded && lh_m_looks_alive(m, lh_m_server_of(m, member)));
    }
    return !awaited;
}

bool lh_m_roll_unsure(const struct lh_m_roll *roll)
{
    const struct lh_m_fenced *best = shortest(roll);

    return roll->answer_count > 0 && (best == NULL || !is_sure(roll, best));
}

struct lh_instant lh_m_roll_patience_end(const struct lh_master *m, const struct lh_m_roll *roll)
{
    /* After a restart members have to register first. */
    struct lh_duration find = roll->resumed ? m->config.find_timeout : lh_nanoseconds(0);
    struct lh_instant found = lh_instant_add(roll->began, find);
    struct lh_instant lone = lh_instant_max(roll->usable_at, found);
    struct lh_instant many = lh_instant_add(roll->enough_at, m->config.roll_patience);

    return lh_instant_min(
        lh_instant_max(many, found), lh_instant_add(lone, m->config.lone_log_after));
}

/* May a single log say where the chunk ends, while others that are away may have theirs (FAIL-2a)?
 * Not if the store looks older than the servers (KEEP-4), nor before all have answered that look
 * alive; and its server is there for the copy. */
static bool lone_counts(const struct lh_master *m, const struct lh_m_roll *roll,
    const struct lh_m_fenced *best, bool nobody)
{
    struct lh_instant hangs = lh_instant_add(roll->began, m->config.fence_wait);

    return m->behind == NULL && lh_m_looks_alive(m, best->server) &&
           (nobody || lh_instant_reached(m->now, hangs));
}

/* What a log was that is gone now (its server has registered without it, or has lost it) names no
 * seal: nobody could be given those bytes. What it knew as committed stays known. */
static bool forget_gone(struct lh_master *m, struct lh_m_roll *roll)
{
    uint32_t had = roll->answer_count, kept = 0;

    for (uint32_t i = 0; i < roll->answer_count; i++) {
        const struct lh_m_fenced *a = &roll->answers[i];
        const struct lh_m_member *member = lh_m_member(roll->chunk, a->server);
        enum lh_m_health health =
            member == NULL ? LH_M_LOST : lh_m_member_health(m, roll->chunk, member);
        if (a->committed > roll->committed)
            roll->committed = a->committed;
        if (health == LH_M_LOST || health == LH_M_MISSING)
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
    struct lh_m_chunk *c = roll->chunk;
    const struct lh_m_fenced *best = shortest(roll);
    bool all, nobody = nobody_awaited(m, roll, &all);
    bool sure = best != NULL && is_sure(roll, best);
    bool many = sure && enough(roll, 0, lh_m_logs_needed(m, c));

    if (!sure)
        roll->usable_at = LH_INSTANT_NEVER;
    else if (roll->usable_at.ns == LH_INSTANT_NEVER.ns)
        roll->usable_at = m->now;
    if (!many)
        roll->enough_at = LH_INSTANT_NEVER;
    else if (roll->enough_at.ns == LH_INSTANT_NEVER.ns)
        roll->enough_at = m->now;
    if (best == NULL) {
        best = longest(roll);
        if (!all || best == NULL)
            return; /* somebody who is away may have it all (REC-2a) */
        LH_MARK("roll-all-unverified");
        m->counts.possible_losses++;
        lh_fx_log(m->fx, LH_ERROR,
            "chunk %" PRIu64 " of \"%s\": every member's machine went down; acknowledged records "
            "above %" PRIu64 " bytes may be lost (version %" PRIu64 ", sealed)",
            c->id, c->file->path, best->length, c->version);
    } else if (!all && !sure) {
        LH_MARK("roll-waits-beside-a-cut-log");
        return;
    } else {
        if (!all && !(nobody && many && !roll->resumed) &&
            !lh_instant_reached(m->now, lh_m_roll_patience_end(m, roll)))
            return;
        if (!all && !many && !lone_counts(m, roll, best, nobody)) {
            LH_MARK("roll-waits-beside-a-lone-log");
            return;
        }
        if (!nobody)
            LH_MARK("roll-decided-without-a-live-member");
        if (!many)
            LH_MARK("roll-by-a-lone-log");
    }
    roll->decided = true;
    roll->decided_at = m->now;
    roll->length = best->length;
    roll->checksum = best->checksum;
    roll->backed = enough(roll, best->length, c->file->min_replicas);
}
