/* Whose log counts (evidence/evidence.h), for every combination of what up to three members report,
 * against the rules as docs/protocol.md states them: REC-2, REC-2a, FAIL-2a, FAIL-3. */
#include "evidence/evidence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MEMBERS 3u

/* All that a member can report, and the ways not to. */
static unsigned list_logs(struct lh_log *logs)
{
    unsigned count = 0;

    for (int state = LH_LOG_NONE; state <= LH_LOG_AWAITED; state++)
        logs[count++] = (struct lh_log){.state = (enum lh_log_state)state};
    for (unsigned bits = 0; bits < 16; bits++)
        for (uint64_t length = 1; length <= 3; length++)
            for (uint64_t committed = 0; committed <= length && committed <= 2; committed += 2)
                logs[count++] = (struct lh_log){.state = LH_LOG_REPORTED,
                    .length = length,
                    .committed = committed,
                    .unverified = (bits & 1) != 0,
                    .truncated = (bits & 2) != 0,
                    .reachable = (bits & 4) != 0,
                    .primary = (bits & 8) != 0};
    return count;
}

/* ------------------------------------------------------------------------------------------------
 * The rules, one by one. */

static bool has_reported(const struct lh_log *a)
{
    return a->state == LH_LOG_REPORTED;
}

/* "A replica is unverified also if it reports less than a committed length that another reporter
 * knows." */
static bool is_verified(const struct lh_log *logs, unsigned count, unsigned which)
{
    if (!has_reported(&logs[which]) || logs[which].unverified)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (has_reported(&logs[i]) && logs[i].committed > logs[which].length)
            return false;
    return true;
}

struct facts {
    unsigned reported, verified, whole, missing, awaited;
    bool primary;
};

static struct facts facts_of(const struct lh_log *logs, unsigned count)
{
    struct facts f = {0};

    for (unsigned i = 0; i < count; i++) {
        bool verified = is_verified(logs, count, i);
        f.reported += has_reported(&logs[i]);
        f.verified += verified;
        f.whole += verified && !logs[i].truncated;
        f.primary = f.primary || (has_reported(&logs[i]) && logs[i].primary);
        f.missing += logs[i].state == LH_LOG_AWAY || logs[i].state == LH_LOG_AWAITED;
        f.awaited += logs[i].state == LH_LOG_AWAITED;
    }
    return f;
}

/* "A full member that is neither unverified nor truncated; two full members whose logs were
 * truncated." */
static bool are_evidence(const struct facts *f)
{
    return f->whole >= 1 || f->verified >= 2;
}

/* Is `which` the longest, or the shortest, of the logs that `candidate` marks? */
static bool is_extreme(
    const struct lh_log *logs, unsigned count, unsigned which, const bool *candidate, bool longest)
{
    for (unsigned i = 0; i < count; i++)
        if (candidate[i] &&
            (longest ? logs[i].length > logs[which].length : logs[i].length < logs[which].length))
            return false;
    return candidate[which];
}

/* "The longest log of a full member wins." */
static bool may_lead(const struct lh_log *logs, unsigned count, unsigned which)
{
    bool candidate[MEMBERS];

    for (unsigned i = 0; i < count; i++)
        candidate[i] = has_reported(&logs[i]);
    return is_extreme(logs, count, which, candidate, true);
}

/* "The shortest length that a full member reports, of those that are not unverified and not below a
 * committed length. A truncated log gives the length only if all of these are truncated. Then the
 * longest decides." Without evidence the longest of all counts. */
static bool may_end(
    const struct lh_log *logs, unsigned count, unsigned which, const struct facts *f)
{
    bool candidate[MEMBERS];

    if (!are_evidence(f))
        return may_lead(logs, count, which);
    for (unsigned i = 0; i < count; i++)
        candidate[i] = is_verified(logs, count, i) && (f->whole == 0 || !logs[i].truncated);
    return is_extreme(logs, count, which, candidate, f->whole == 0);
}

/* When a seal is decided by the log `which`: FAIL-2a (c), and when a single log decides. */
static enum lh_verdict sealed_when(
    const struct lh_seal_question *q, uint32_t which, const struct facts *f)
{
    if (f->reported == 0)
        return LH_VERDICT_WAIT;
    if (f->missing == 0)
        return are_evidence(f) ? LH_VERDICT_ENOUGH : LH_VERDICT_LOSS;
    if (!are_evidence(f))
        return LH_VERDICT_WAIT;
    if (f->primary || f->verified >= q->needed)
        return q->patience_over || (q->found && f->awaited == 0) ? LH_VERDICT_ENOUGH
                                                                 : LH_VERDICT_WAIT;
    return q->patience_over && q->lone_may && f->awaited == 0 && q->logs[which].reachable
               ? LH_VERDICT_ENOUGH
               : LH_VERDICT_WAIT;
}

/* ------------------------------------------------------------------------------------------------
 * All combinations. */

static void check_longest(const struct lh_log *logs, unsigned count)
{
    struct facts f = facts_of(logs, count);
    struct lh_evidence e = lh_evidence_longest(logs, count, 0);

    assert_int_equal(e.sure, are_evidence(&f));
    assert_int_equal(e.verdict, f.missing > 0 || f.reported == 0 ? LH_VERDICT_WAIT
                                : !are_evidence(&f)              ? LH_VERDICT_LOSS
                                                                 : LH_VERDICT_ENOUGH);
    if (e.verdict != LH_VERDICT_WAIT)
        assert_true(may_lead(logs, count, e.which));
}

static void check_shortest(const struct lh_log *logs, unsigned count)
{
    struct facts f = facts_of(logs, count);

    for (unsigned bits = 0; bits < 16; bits++) {
        const struct lh_seal_question q = {
            .logs = logs,
            .count = count,
            .needed = 1 + (bits & 1),
            .found = (bits & 2) != 0,
            .patience_over = (bits & 4) != 0,
            .lone_may = (bits & 8) != 0,
        };
        struct lh_evidence e = lh_evidence_shortest(&q);
        assert_int_equal(e.sure, are_evidence(&f));
        assert_int_equal(e.many, are_evidence(&f) && (f.primary || f.verified >= q.needed));
        assert_true(f.reported == 0 || may_end(logs, count, e.which, &f));
        assert_int_equal(e.verdict, sealed_when(&q, e.which, &f));
        /* What anybody knows to be committed does not lie behind the end, or it is said. */
        for (unsigned i = 0; i < count && e.verdict == LH_VERDICT_ENOUGH; i++)
            assert_true(!has_reported(&logs[i]) || logs[i].committed <= logs[e.which].length);
    }
}

static void all_combinations_follow_the_rules(void **state)
{
    struct lh_log all[128], logs[MEMBERS];
    unsigned kinds = list_logs(all);

    (void)state;
    for (unsigned count = 1; count <= MEMBERS; count++) {
        unsigned combinations = 1;
        for (unsigned i = 0; i < count; i++)
            combinations *= kinds;
        for (unsigned c = 0; c < combinations; c++) {
            unsigned rest = c;
            for (unsigned i = 0; i < count; i++, rest /= kinds)
                logs[i] = all[rest % kinds];
            check_longest(logs, count);
            check_shortest(logs, count);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * What the combinations leave out. */

static struct lh_log log_of(uint64_t length)
{
    return (struct lh_log){.state = LH_LOG_REPORTED, .length = length, .reachable = true};
}

static void what_is_known_besides_counts_as_well(void **state)
{
    const struct lh_log logs[] = {log_of(5), log_of(7)};
    struct lh_seal_question q = {.logs = logs, .count = 2, .needed = 2};

    (void)state;
    assert_int_equal(lh_evidence_shortest(&q).which, 0);
    q.committed = 6;
    assert_int_equal(lh_evidence_shortest(&q).which, 1);
    q.committed = 8;
    assert_int_equal(lh_evidence_shortest(&q).verdict, LH_VERDICT_LOSS);
    assert_int_equal(lh_evidence_longest(logs, 2, 8).verdict, LH_VERDICT_LOSS);
}

static void a_length_is_backed_by_as_many_logs_as_acknowledge(void **state)
{
    struct lh_log logs[] = {log_of(5), log_of(7), {.state = LH_LOG_AWAY}};

    (void)state;
    assert_true(lh_evidence_backed(logs, 3, 5, 2));
    assert_false(lh_evidence_backed(logs, 3, 7, 2));
    assert_true(lh_evidence_backed(logs, 3, 7, 1));
    logs[1].unverified = true;
    assert_false(lh_evidence_backed(logs, 3, 5, 2));
    logs[0].primary = true; /* every member has what it has committed */
    assert_true(lh_evidence_backed(logs, 3, 5, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_combinations_follow_the_rules),
        cmocka_unit_test(what_is_known_besides_counts_as_well),
        cmocka_unit_test(a_length_is_backed_by_as_many_logs_as_acknowledge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
