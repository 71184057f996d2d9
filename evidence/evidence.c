#include "evidence/evidence.h"

#include "base/probe.h"

#define NO_LOG UINT32_MAX

/* What the logs are, all together. */
struct tally {
    uint32_t reported, awaited;
    bool all;          /* nobody who may have a log that is not damaged has not reported */
    bool all_damaged;  /* nor a damaged one */
    uint32_t verified; /* REC-2a */
    uint32_t whole;    /* of these: not truncated */
    bool primary;
    uint32_t longest;  /* of all that were reported */
    uint32_t shortest; /* of the whole ones; if there are none, the longest of the truncated */
};

static uint64_t known_committed(const struct lh_log *logs, uint32_t count, uint64_t committed)
{
    for (uint32_t i = 0; i < count; i++)
        if (logs[i].state == LH_LOG_REPORTED && logs[i].committed > committed)
            committed = logs[i].committed;
    return committed;
}

/* Which of two verified logs says where a chunk ends? */
static bool ends_before(const struct lh_log *a, const struct lh_log *b)
{
    if (LH_PLANTED("roll-takes-the-longest"))
        return a->length > b->length;
    if (a->truncated != b->truncated)
        return b->truncated;
    return a->truncated ? a->length > b->length : a->length < b->length;
}

static struct tally count_logs(const struct lh_log *logs, uint32_t count, uint64_t committed)
{
    struct tally t = {.all = true, .all_damaged = true, .longest = NO_LOG, .shortest = NO_LOG};

    committed = known_committed(logs, count, committed);
    for (uint32_t i = 0; i < count; i++) {
        const struct lh_log *a = &logs[i];
        bool heard = a->state == LH_LOG_NONE || a->state == LH_LOG_REPORTED;
        t.awaited += a->state == LH_LOG_AWAITED && !a->damaged;
        t.all = t.all && (heard || a->damaged);
        t.all_damaged = t.all_damaged && (heard || !a->damaged);
        if (a->state != LH_LOG_REPORTED)
            continue;
        t.reported++;
        t.primary = t.primary || a->primary;
        if (t.longest == NO_LOG || a->length > logs[t.longest].length)
            t.longest = i;
        if ((a->damaged || a->unverified || a->length < committed) &&
            !LH_PLANTED("sealed-length-from-doubtful-member"))
            continue;
        t.verified++;
        t.whole += !a->truncated;
        if (t.shortest == NO_LOG || ends_before(a, &logs[t.shortest]))
            t.shortest = i;
    }
    return t;
}

/* Has everybody been heard who has to be? Beside evidence nobody waits for a damaged log. */
static bool is_all(const struct tally *t, bool sure)
{
    return t->all && (sure || t->all_damaged || LH_PLANTED("damaged-logs-not-heard"));
}

/* FAIL-3: a tear looks like rot, and rot is not everywhere. */
static bool is_sure(const struct tally *t)
{
    return t->whole > 0 || t->verified > 1 ||
           (t->verified > 0 && LH_PLANTED("lone-cut-log-counts"));
}

struct lh_evidence lh_evidence_longest(
    const struct lh_log *logs, uint32_t count, uint64_t committed)
{
    struct tally t = count_logs(logs, count, committed);
    struct lh_evidence e = {.sure = is_sure(&t), .which = t.longest};

    if (!is_all(&t, e.sure) || t.reported == 0)
        e.verdict = LH_VERDICT_WAIT;
    else
        e.verdict = e.sure ? LH_VERDICT_ENOUGH : LH_VERDICT_LOSS;
    return e;
}

struct lh_evidence lh_evidence_shortest(const struct lh_seal_question *q)
{
    struct tally t = count_logs(q->logs, q->count, q->committed);
    struct lh_evidence e = {.sure = is_sure(&t)};

    e.many = e.sure && (t.primary || t.verified >= q->needed);
    e.which = e.sure ? t.shortest : t.longest;
    if (t.reported == 0)
        return e;
    bool lone = q->lone_may && t.awaited == 0 && q->logs[e.which].reachable;
    bool hurry = q->found && t.awaited == 0;
    if (is_all(&t, e.sure) || (!e.sure && LH_PLANTED("loss-before-all-answered")))
        e.verdict = e.sure ? LH_VERDICT_ENOUGH : LH_VERDICT_LOSS;
    else if (e.many ? hurry || q->patience_over : e.sure && q->patience_over && lone)
        e.verdict = LH_VERDICT_ENOUGH;
    return e;
}

bool lh_evidence_backed(const struct lh_log *logs, uint32_t count, uint64_t length, uint32_t needed)
{
    uint32_t reach = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (logs[i].state != LH_LOG_REPORTED || logs[i].damaged)
            continue;
        if (logs[i].primary)
            return true;
        reach += !logs[i].unverified && logs[i].length >= length;
    }
    return reach >= needed;
}
