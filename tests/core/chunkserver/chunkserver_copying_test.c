/* Stories about replicas that are copied to (REC-4, REC-5): such a one counts for nothing until
 * all of it is here and agrees, whatever happens on the way. */
#include "tests/core/chunkserver/chunkserver_story.h"

#include <stdlib.h>
#include <string.h>

/* Every server is started again with this --repair-rate. */
static void given_a_pace(struct world *w, uint64_t rate)
{
    w->repair_rate = rate;
    for (int i = A; i <= D; i++)
        restart(w, i, false);
}

/* Batches of 100 bytes of two writers, in turn. */
static void given_appends(struct world *w, uint64_t version, uint64_t first, uint64_t last)
{
    struct conn *c = appender(w, A, version, WRITER, first);

    join_stream(c, WRITER + 1, first);
    settle(w);
    assert_true(c->opened);
    for (uint64_t s = first; s <= last; s++) {
        append(c, s, 100);
        append_bytes(c, make_batch(WRITER + 1, s, 1, 100));
        settle(w);
        (void)position(c, s);
    }
    hang_up(c);
    settle(w);
}

struct seal {
    uint64_t version, length, checksum;
};

/* About 50 KiB, sealed at `version` on A and B and, if it is a member, C. */
static struct seal given_a_seal(struct world *w, uint64_t version, unsigned members)
{
    struct conn *c = appender(w, A, version, WRITER + 7, 1);

    settle(w);
    for (uint64_t s = 1; s <= 13; s++) {
        append(c, s, 4000);
        settle(w);
    }
    append(c, 14, 16000);
    settle(w);
    assert_int_equal(c->error, LH_ERR_CHUNK_FULL);
    struct seal seal = {version, heard(w, A)->seal.length, node_status(w, A).checksum};
    assert_true(seal.length > 48000);
    for (int i = A; i <= C; i++)
        if ((members & 1u << i) != 0)
            master_record_seal(w, i, version, seal.length, seal.checksum);
    settle(w);
    assert_true(node_status(w, B).sealed);
    return seal;
}

static struct seal given_a_sealed_chunk(struct world *w)
{
    given_a_chunk(w, ABC);
    given_appends(w, 1, 1, 3);
    return given_a_seal(w, 1, ABC);
}

static void copy_sealed(struct world *w, int node, struct seal s, unsigned sources)
{
    master_copy(w, node, s.version, true, s.length, s.checksum, sources);
}

static void assert_copied(struct world *w, int node, struct seal s, unsigned equal_to)
{
    struct lh_replica_status status = node_status(w, node);

    assert_int_equal(heard(w, node)->copied.n, 1);
    assert_int_equal(heard(w, node)->copied.error, LH_OK);
    assert_true(heard(w, node)->copied.sealed);
    assert_int_equal(heard(w, node)->copied.version, s.version);
    assert_int_equal(heard(w, node)->copied.length, s.length);
    assert_true(status.sealed && !status.copying && !status.lost);
    assert_true(status.version == s.version && status.length == s.length);
    check_logs(w, equal_to | 1u << node);
}

static int read_error(struct world *w, int node, Leasehold__ReadMode mode)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    q.mode = mode;
    struct conn *c = reader(w, node, q);
    settle(w);
    return -(int)read_reply(c)->error;
}

/* What the last registration said of the chunk; NULL: nothing. */
static const Leasehold__ReplicaReport *report(struct world *w, int node)
{
    const Leasehold__Register *r = w->nodes[node].registered->register_;

    for (size_t i = 0; i < r->n_replicas; i++)
        if (r->replicas[i]->chunk == CHUNK)
            return r->replicas[i];
    return NULL;
}

/* ------------------------------------------------------------------------------------------------
 * Sealed chunks. */

STORY(a_sealed_chunk_is_copied_from_nothing)
{
    struct seal s = given_a_sealed_chunk(w);

    copy_sealed(w, D, s, ABC);
    pass(w, 100);
    assert_copied(w, D, s, ABC);
    assert_int_equal(heard(w, D)->copied.bytes, s.length);

    /* It serves, and settles, and a loss of power takes nothing of it. */
    for (int again = 0; again < 2; again++) {
        assert_int_equal(read_error(w, D, LEASEHOLD__READ_MODE__CLIENT), LH_OK);
        struct conn *found = settler(w, D, 1, WRITER);
        settle(w);
        assert_true(settle_reply(found)->known && settle_reply(found)->last_sequence == 3);
        restart(w, D, true);
        assert_true(report(w, D)->sealed && !report(w, D)->copying);
    }
    check_logs(w, ABCD);
}

STORY(an_empty_sealed_chunk_is_copied)
{
    struct seal s = {1, 0, lh_log_seed(CHUNK)};

    given_a_chunk(w, ABC);
    for (int i = A; i <= C; i++)
        master_record_seal(w, i, 1, 0, s.checksum);
    settle(w);
    copy_sealed(w, D, s, AB);
    pass(w, 100);
    assert_copied(w, D, s, ABC);
}

STORY(what_is_incomplete_serves_nobody)
{
    struct seal s = given_a_sealed_chunk(w);

    w->stalled[A][D] = true;
    copy_sealed(w, D, s, 1u << A);
    settle(w);
    for (int again = 0; again < 2; again++) {
        assert_true(node_status(w, D).copying && !node_status(w, D).sealed);
        assert_int_equal(read_error(w, D, LEASEHOLD__READ_MODE__CLIENT), LH_ERR_RECOVERING);
        assert_int_equal(read_error(w, D, LEASEHOLD__READ_MODE__RECOVERY), LH_ERR_RECOVERING);
        assert_int_equal(read_error(w, D, LEASEHOLD__READ_MODE__COPY), LH_ERR_RECOVERING);
        struct conn *c = settler(w, D, 1, WRITER);
        settle(w);
        assert_int_equal(settle_reply(c)->error, LEASEHOLD__ERROR_CODE__RECOVERING);
        master_grant(w, D, 9, ABCD, 2);
        master_record_seal(w, D, 1, s.length, s.checksum);
        Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;
        q.version = 9;
        struct conn *primary = feeder(w, D);
        feed(primary, q, NULL);
        settle(w);
        assert_int_equal(heard(w, D)->confirm.error, LH_ERR_NO_REPLICA);
        assert_int_equal(heard(w, D)->recorded.error, LH_ERR_UNAVAILABLE);
        assert_int_equal(feed_reply(primary, 0)->error, LEASEHOLD__ERROR_CODE__NO_REPLICA);
        restart(w, D, again == 0);
        assert_true(report(w, D)->copying && !report(w, D)->sealed);
    }
    w->stalled[A][D] = false;
    settle(w);
    copy_sealed(w, D, s, AB);
    pass(w, 100);
    assert_copied(w, D, s, ABC);
}

/* C is left at version 1 with `batches` of what A and B seal at version 2. */
static struct seal given_a_stale_member(struct world *w)
{
    given_a_chunk(w, ABC);
    given_appends(w, 1, 1, 3);
    pass(w, 50);
    w->stalled[A][C] = w->stalled[C][A] = true;
    master_grant(w, A, 2, AB, 2);
    settle(w);
    given_appends(w, 2, 4, 4);
    struct seal s = given_a_seal(w, 2, AB);
    w->stalled[A][C] = w->stalled[C][A] = false;
    settle(w);
    heard_clear(w);
    return s;
}

STORY(a_stale_replica_keeps_what_agrees)
{
    struct seal s = given_a_stale_member(w);

    assert_int_equal(node_status(w, C).length, 6 * 144);
    copy_sealed(w, C, s, AB);
    pass(w, 100);
    assert_copied(w, C, s, AB);
    assert_int_equal(heard(w, C)->copied.bytes, s.length - UINT64_C(6) * 144);
}

/* A primary of version `v` that came to nothing gave the server these bytes. */
static void given_a_tail_of_its_own(struct world *w, int node, uint64_t v, struct lh_buf batch)
{
    Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;
    struct conn *primary = feeder(w, node);
    uint64_t checksum = node_status(w, node).checksum;

    q.version = v;
    q.joining = node_status(w, node).copying;
    feed(primary, q, NULL);
    settle(w);
    assert_int_equal(feed_reply(primary, 0)->error, LEASEHOLD__ERROR_CODE__OK);
    q.kind = LEASEHOLD__REPLICATE_KIND__APPEND;
    q.offset = node_status(w, node).length;
    batch = chained(&batch, &checksum);
    feed(primary, q, &batch);
    settle(w);
    hang_up(primary);
    settle(w);
}

STORY(a_stale_replica_gives_up_a_tail_that_diverges)
{
    struct seal s = given_a_stale_member(w);

    given_a_tail_of_its_own(w, C, 2, make_batch(WRITER + 9, 1, 1, 77));
    assert_int_equal(node_status(w, C).length, 6 * 144 + 121);
    copy_sealed(w, C, s, AB);
    pass(w, 100);
    assert_copied(w, C, s, AB);
    /* What it knew to be committed it kept. */
    assert_true(heard(w, C)->copied.bytes == s.length - UINT64_C(6) * 144);
}

/* Where its own batch ends one of the others' begins: it does not fit behind that. */
STORY(a_tail_that_diverges_is_found_where_it_ends)
{
    struct seal s = given_a_stale_member(w);

    given_a_tail_of_its_own(w, C, 2, make_batch(WRITER + 9, 1, 1, 100));
    copy_sealed(w, C, s, AB);
    pass(w, 100);
    assert_copied(w, C, s, AB);
    assert_true(heard(w, C)->copied.bytes == s.length - UINT64_C(6) * 144);
}

STORY(a_replica_longer_than_the_seal_is_cut)
{
    struct seal s = given_a_sealed_chunk(w);

    /* D has it all, and more. */
    copy_sealed(w, D, s, ABC);
    pass(w, 100);
    restart(w, D, false);
    struct file *f = node_file(w, D, CHUNK);
    struct seal shorter = {2, 6 * 144, lh_log_seed(CHUNK)};
    heard_clear(w);
    (void)f;
    /* The checksum at 6 batches is what a fresh chunk of them has. */
    struct lh_buf log = lh_buf_copy(f->cache + LH_LOG_START, (size_t)shorter.length);
    struct lh_batch_header h;
    for (size_t at = 0; at < log.size; at += h.size) {
        assert_int_equal(lh_log_check(&log, at, UINT32_MAX, &shorter.checksum, &h), LH_OK);
    }
    lh_buf_clear(&log);
    copy_sealed(w, D, shorter, ABC);
    pass(w, 100);
    assert_int_equal(heard(w, D)->copied.error, LH_OK);
    assert_int_equal(heard(w, D)->copied.bytes, 0);
    assert_true(node_status(w, D).sealed && node_status(w, D).length == shorter.length);
    assert_int_equal(node_file(w, D, CHUNK)->durable_size, LH_LOG_START + shorter.length);
}

STORY(a_member_that_is_shorter_than_the_seal_is_refreshed)
{
    struct seal s = given_a_stale_member(w);
    Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;
    struct conn *primary = feeder(w, C);

    q.version = 2; /* it adopted the sealed version, and got nothing more */
    feed(primary, q, NULL);
    settle(w);
    master_record_seal(w, C, 2, s.length, s.checksum);
    settle(w);
    assert_int_equal(heard(w, C)->recorded.error, LH_ERR_UNAVAILABLE);
    assert_false(node_status(w, C).lost);
    copy_sealed(w, C, s, AB);
    pass(w, 100);
    assert_copied(w, C, s, AB);
    assert_int_equal(heard(w, C)->copied.bytes, s.length - UINT64_C(6) * 144);
}

static void given_rot(struct world *w, int node, size_t at)
{
    struct file *f = node_file(w, node, CHUNK);

    f->cache[LH_LOG_START + at] ^= 4;
    f->durable[LH_LOG_START + at] ^= 4;
}

STORY(a_lost_replica_is_made_anew_once_a_source_answers)
{
    struct seal s = given_a_sealed_chunk(w);

    given_rot(w, C, 40);
    assert_int_equal(read_error(w, C, LEASEHOLD__READ_MODE__CLIENT), LH_ERR_CORRUPT);
    assert_true(node_status(w, C).lost);

    /* Nobody has it: what is left of it is not given up. */
    copy_sealed(w, C, s, 1u << D);
    pass(w, 12000);
    assert_int_equal(heard(w, C)->copied.error, LH_ERR_UNAVAILABLE);
    assert_true(node_file(w, C, CHUNK)->size >= LH_LOG_START + s.length);

    heard_clear(w);
    copy_sealed(w, C, s, AB);
    pass(w, 100);
    assert_copied(w, C, s, AB);
    restart(w, C, true);
    assert_true(report(w, C)->sealed && !report(w, C)->lost);
}

STORY(a_file_without_a_header_is_made_anew)
{
    struct seal s = given_a_sealed_chunk(w);
    static const uint8_t junk[LH_LOG_START + 10];

    node_kill(w, C, false);
    settle(w);
    node_put_file(w, C, CHUNK, junk, sizeof junk);
    node_start(w, C);
    settle(w);
    assert_true(report(w, C)->lost);
    copy_sealed(w, C, s, AB);
    pass(w, 100);
    assert_copied(w, C, s, AB);
}

STORY(a_copy_goes_on_from_another_source)
{
    struct seal s = given_a_sealed_chunk(w);

    given_a_pace(w, 64u << 10);
    copy_sealed(w, D, s, AB);
    pass(w, 400);
    uint64_t length = node_status(w, D).length;
    assert_true(length > 0 && length < s.length);
    node_kill(w, A, false);
    pass(w, 3000);
    assert_copied(w, D, s, 1u << B | 1u << C);
    assert_int_equal(heard(w, D)->copied.bytes, s.length); /* nothing twice */
}

STORY(a_copy_tells_how_far_it_has_come)
{
    struct seal s = given_a_sealed_chunk(w);

    given_a_pace(w, 8u << 10);
    copy_sealed(w, D, s, ABC);
    pass(w, SESSION_TERM_MS / 3 - 1000);
    assert_int_equal(heard(w, D)->copied.n, 0);
    pass(w, 1001);
    uint64_t progress = heard(w, D)->copy_progress;
    assert_true(progress > 0 && progress <= s.length);
    pass(w, SESSION_TERM_MS + 3000);
    assert_copied(w, D, s, ABC);
    assert_int_equal(heard(w, D)->copy_progress, 0);
}

STORY(a_source_of_an_older_version_is_not_believed)
{
    struct seal s = given_a_stale_member(w);

    copy_sealed(w, D, s, 1u << C);
    pass(w, 12000);
    assert_int_equal(heard(w, D)->copied.error, LH_ERR_UNAVAILABLE);
    assert_int_equal(node_status(w, D).length, 0);
    heard_clear(w);
    copy_sealed(w, D, s, 1u << C | 1u << B);
    pass(w, 1000);
    assert_copied(w, D, s, AB);
}

STORY(a_source_that_has_rotted_is_left_and_loses_its_replica)
{
    struct seal s = given_a_sealed_chunk(w);

    given_a_pace(w, 64u << 10);
    given_rot(w, A, 40000);
    copy_sealed(w, D, s, AB);
    pass(w, 5000);
    assert_copied(w, D, s, 1u << B | 1u << C);
    assert_true(node_status(w, A).lost);
    assert_int_equal(heard(w, A)->lost.error, LH_ERR_CORRUPT);
}

/* The first two batches have one size: each lies where the other belongs. */
static void given_batches_in_each_others_place(struct world *w, int node)
{
    struct file *f = node_file(w, node, CHUNK);
    uint8_t *log[] = {f->cache + LH_LOG_START, f->durable + LH_LOG_START};

    for (int i = 0; i < (f->durable_size > LH_LOG_START + 288 ? 2 : 1); i++) {
        uint8_t first[144];
        memcpy(first, log[i], sizeof first);
        memcpy(log[i], log[i] + 144, 144);
        memcpy(log[i] + 144, first, sizeof first);
    }
}

STORY(a_batch_in_the_wrong_place_is_found_by_the_source)
{
    struct seal s = given_a_sealed_chunk(w);

    given_batches_in_each_others_place(w, A);
    copy_sealed(w, D, s, AB);
    pass(w, 1000);
    assert_copied(w, D, s, 1u << B | 1u << C);
    assert_true(node_status(w, A).lost);
}

/* ------------------------------------------------------------------------------------------------
 * Crashes. */

/* Lets D's disk do `steps` operations, one after another, then takes its power. False: there were
 * not so many. */
static bool crash_after(struct world *w, int node, unsigned steps, bool power)
{
    bool enough = true;

    w->nodes[node].disk_stalled = true;
    settle(w);
    for (unsigned i = 0; i < steps && enough; i++) {
        enough = false;
        for (size_t j = 0; j < w->op_count && !enough; j++) {
            if (w->ops[j].node != node || w->ops[j].file != CHUNK)
                continue;
            disk_complete(w, j);
            enough = true;
        }
        pass(w, 20);
    }
    w->nodes[node].disk_stalled = false;
    if (!enough)
        return false;
    w->torn = true;
    restart(w, node, power);
    pass(w, 10);
    return true;
}

/* It is all there, or says that it is not. */
static void assert_honest(struct world *w, int node, struct seal s)
{
    const Leasehold__ReplicaReport *r = report(w, node);

    if (r == NULL || r->lost || r->copying || r->version < s.version)
        return; /* or it is what it was before */
    assert_true(r->sealed && r->length == s.length);
    check_logs(w, AB | 1u << node);
}

/* Returns how many steps there were. */
static unsigned crashes(struct world *w, int node, struct seal s)
{
    unsigned steps = 0;

    while (crash_after(w, node, steps, lh_prng_below(&w->prng, 3) > 0)) {
        assert_honest(w, node, s);
        heard_clear(w);
        copy_sealed(w, node, s, AB);
        steps++;
        assert_true(steps < 100);
    }
    pass(w, 100);
    assert_int_equal(heard(w, node)->copied.error, LH_OK);
    assert_true(node_status(w, node).sealed && !node_status(w, node).copying);
    check_logs(w, AB | 1u << node);
    return steps;
}

STORY(a_crash_at_any_step_of_a_copy_from_nothing_leaves_what_is_honest)
{
    struct seal s = given_a_sealed_chunk(w);

    copy_sealed(w, D, s, AB);
    assert_true(crashes(w, D, s) > 3);
}

static struct seal given_a_refresh(struct world *w)
{
    struct seal s = given_a_stale_member(w);

    given_a_tail_of_its_own(w, C, 1, make_batch(WRITER + 9, 1, 1, 100));
    copy_sealed(w, C, s, AB);
    return s;
}

/* Each goes on from what the crash before it left, which is on the disk (FAIL-5a): few are left to
 * do. Each step by itself is the next story's. */
STORY(a_crash_at_any_step_of_a_refresh_leaves_what_is_honest)
{
    struct seal s = given_a_refresh(w);

    assert_true(crashes(w, C, s) >= 3);
}

/* False: there were not so many. */
static bool refreshed_in_spite_of_a_crash(uint64_t seed, unsigned steps)
{
    struct world *w = world_create(seed, seed % 2 == 0);
    struct seal s = given_a_refresh(w);
    bool crashed = crash_after(w, C, steps, lh_prng_below(&w->prng, 3) > 0);

    if (crashed) {
        assert_honest(w, C, s);
        heard_clear(w);
        copy_sealed(w, C, s, AB);
    }
    pass(w, 200);
    assert_int_equal(heard(w, C)->copied.error, LH_OK);
    assert_true(node_status(w, C).sealed && !node_status(w, C).copying);
    check_logs(w, ABC);
    world_destroy(w);
    return crashed;
}

static void a_crash_at_each_step_of_one_refresh_leaves_what_is_honest(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        unsigned steps = 0;
        while (refreshed_in_spite_of_a_crash(seed, steps))
            steps++;
        assert_in_range(steps, 4, 100);
    }
}

STORY(a_crash_at_each_step_of_one_copy_leaves_what_is_honest)
{
    struct seal s = given_a_sealed_chunk(w);

    for (unsigned steps = 0;; steps++) {
        heard_clear(w);
        copy_sealed(w, D, s, AB);
        if (!crash_after(w, D, steps, lh_prng_below(&w->prng, 3) > 0))
            break;
        assert_honest(w, D, s);
        master_remove(w, D, 1); /* from nothing each time */
        settle(w);
        assert_null(node_file(w, D, CHUNK));
        assert_true(steps < 100);
    }
    pass(w, 100);
    assert_copied(w, D, s, ABC);
}

/* ------------------------------------------------------------------------------------------------
 * Open chunks. */

STORY(an_open_chunk_is_caught_up_with_followed_and_joined)
{
    given_a_chunk(w, AB);
    given_appends(w, 1, 1, 5);
    pass(w, 50);
    master_copy(w, D, 1, false, 0, 0, 1u << B);
    pass(w, 50);
    assert_int_equal(heard(w, D)->copied.n, 1);
    assert_int_equal(heard(w, D)->copied.error, LH_OK);
    assert_false(heard(w, D)->copied.sealed);
    assert_int_equal(node_status(w, D).length, 10 * 144);

    given_appends(w, 1, 6, 9);
    pass(w, 100);
    assert_int_equal(node_status(w, D).length, 18 * 144);
    assert_int_equal(heard(w, D)->copied.n, 1);
    assert_true(node_status(w, D).copying);

    struct conn *c = appender(w, A, 1, WRITER, 10);
    settle(w);
    append(c, 10, 100); /* D does not have it when it joins */
    settle(w);
    w->joining = 1u << D;
    master_grant(w, A, 2, ABD, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.version, 2);
    assert_true(node_status(w, A).open);
    assert_false(node_status(w, D).copying);
    assert_int_equal(node_status(w, D).version, 2);
    check_logs(w, ABD);
    given_appends(w, 2, 11, 12);
    check_logs(w, ABD);

    /* From now on it is a member like any other. */
    restart(w, D, false);
    assert_false(report(w, D)->copying);
    pass(w, 600);
    given_appends(w, 2, 13, 13);
    check_logs(w, ABD);
}

STORY(a_replica_that_joined_and_was_not_confirmed_is_incomplete)
{
    Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;

    given_a_chunk(w, AB);
    given_appends(w, 1, 1, 5);
    pass(w, 50);
    master_copy(w, D, 1, false, 0, 0, 1u << B);
    pass(w, 50);
    struct conn *primary = feeder(w, D);
    q.version = 2;
    q.joining = true;
    feed(primary, q, NULL);
    settle(w);
    assert_int_equal(feed_reply(primary, 0)->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(feed_reply(primary, 0)->length, 10 * 144);
    restart(w, D, true);
    assert_true(report(w, D)->copying);
    assert_int_equal(report(w, D)->version, 2);

    primary = feeder(w, D);
    feed(primary, q, NULL);
    settle(w);
    uint64_t length = feed_reply(primary, 0)->length;
    q.kind = LEASEHOLD__REPLICATE_KIND__CONFIRM;
    q.length = length;
    q.checksum = feed_reply(primary, 0)->checksum;
    feed(primary, q, NULL);
    settle(w);
    assert_int_equal(feed_reply(primary, 1)->error, LEASEHOLD__ERROR_CODE__OK);
    assert_false(node_status(w, D).copying);
    restart(w, D, true);
    assert_false(report(w, D)->copying);
    assert_int_equal(node_status(w, D).length, length);
}

STORY(an_open_copy_goes_on_where_it_was_after_a_restart)
{
    given_a_chunk(w, AB);
    given_appends(w, 1, 1, 20);
    pass(w, 50);
    master_copy(w, D, 1, false, 0, 0, AB);
    pass(w, 50);
    restart(w, D, false);
    assert_true(report(w, D)->copying && node_status(w, D).length == UINT64_C(40) * 144);
    heard_clear(w);
    master_copy(w, D, 1, false, 0, 0, AB);
    pass(w, 50);
    assert_int_equal(heard(w, D)->copied.error, LH_OK);
    assert_int_equal(heard(w, D)->copied.bytes, 0);
    assert_int_equal(node_status(w, D).length, 40 * 144);
}

STORY(a_former_member_joins_with_committed_bytes_only)
{
    given_a_chunk(w, ABC);
    given_appends(w, 1, 1, 3);
    pass(w, 50);
    w->stalled[A][C] = w->stalled[C][A] = true;
    master_grant(w, A, 2, AB, 2);
    settle(w);
    given_appends(w, 2, 4, 4);
    w->stalled[A][C] = w->stalled[C][A] = false;
    settle(w);
    given_a_tail_of_its_own(
        w, C, 1, make_batch(WRITER + 9, 1, 1, 100)); /* it ends where one begins */
    heard_clear(w);
    master_copy(w, C, 2, false, 0, 0, AB);
    pass(w, 50);
    assert_int_equal(heard(w, C)->copied.error, LH_OK);
    w->joining = 1u << C;
    master_grant(w, A, 3, ABC, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.version, 3);
    check_logs(w, ABC);
}

STORY(a_log_that_is_being_read_back_is_copied_to_afterwards)
{
    struct seal s = given_a_sealed_chunk(w);

    restart(w, C, false);
    w->nodes[C].disk_stalled = true;
    struct conn *asked = settler(w, C, 1, WRITER); /* reads the log back */
    settle(w);
    s.version = 2; /* nobody seals twice; but an order is an order */
    copy_sealed(w, C, s, AB);
    settle(w);
    w->nodes[C].disk_stalled = false;
    pass(w, 100);
    assert_true(asked->closed);
    assert_copied(w, C, s, AB);
    assert_int_equal(heard(w, C)->copied.bytes, 0);
}

STORY(a_copy_of_an_open_chunk_that_does_not_fit_is_begun_anew)
{
    given_a_chunk(w, AB);
    given_appends(w, 1, 1, 5);
    pass(w, 50);
    master_copy(w, D, 1, false, 0, 0, 1u << B);
    pass(w, 50);
    assert_int_equal(heard(w, D)->copied.error, LH_OK);
    given_a_tail_of_its_own(w, D, 1, make_batch(WRITER + 9, 1, 1, 100));
    given_appends(w, 1, 6, 6);
    w->joining = 1u << D;
    master_grant(w, A, 2, ABD, 2);
    settle(w);
    assert_int_equal(heard(w, A)->failed.members, 1u << D); /* it is no prefix */
    assert_true(node_status(w, D).copying);
    master_grant(w, A, 3, AB, 2);
    settle(w);
    heard_clear(w);
    master_copy(w, D, 3, false, 0, 0, 1u << A);
    pass(w, 50);
    assert_int_equal(heard(w, D)->copied.bytes, 12 * 144);
    master_grant(w, A, 4, ABD, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.version, 4);
    check_logs(w, 1u << A | 1u << D);
}

/* ------------------------------------------------------------------------------------------------
 * Orders. */

STORY(nothing_that_counts_is_made_a_copy)
{
    given_a_chunk(w, ABC);
    given_appends(w, 1, 1, 2);
    master_copy(w, A, 1, false, 0, 0, 1u << B); /* the primary */
    master_copy(w, B, 1, false, 0, 0, 1u << A); /* a full member of that version */
    settle(w);
    assert_int_equal(heard(w, A)->copied.error, LH_ERR_STALE_VERSION);
    assert_int_equal(heard(w, B)->copied.error, LH_ERR_STALE_VERSION);
    master_grant(w, A, 3, ABC, 2);
    settle(w);
    master_copy(w, C, 2, false, 0, 0, 1u << A); /* of a higher version */
    master_copy(w, D, 3, true, CHUNK_SIZE + 1, 0, 1u << A);
    settle(w);
    assert_int_equal(heard(w, C)->copied.error, LH_ERR_STALE_VERSION);
    assert_int_equal(heard(w, D)->copied.error, LH_ERR_INVALID_ARGUMENT);
    assert_null(node_file(w, D, CHUNK));
    given_appends(w, 3, 3, 4);
    check_logs(w, ABC);

    /* What is good already is not copied. */
    struct seal s = given_a_seal(w, 3, ABC);
    heard_clear(w);
    copy_sealed(w, B, s, 1u << A);
    settle(w);
    assert_copied(w, B, s, ABC);
    assert_int_equal(heard(w, B)->copied.bytes, 0);
}

STORY(an_order_may_change_while_it_is_carried_out)
{
    struct seal s = given_a_sealed_chunk(w);
    uint64_t checksum = lh_log_seed(CHUNK);

    given_a_pace(w, 16u << 10);
    master_copy(w, D, 1, false, 0, 0, AB);
    pass(w, 1500);
    assert_true(node_status(w, D).length > 2 * 144);
    /* Now it is to be sealed, where it has passed already. */
    struct lh_buf log = lh_buf_copy(node_file(w, D, CHUNK)->cache + LH_LOG_START, 2 * 144);
    for (size_t at = 0; at < log.size; at += 144) {
        struct lh_batch_header h;
        assert_int_equal(lh_log_check(&log, at, UINT32_MAX, &checksum, &h), LH_OK);
    }
    lh_buf_clear(&log);
    heard_clear(w);
    master_copy(w, D, 2, true, 2 * 144, checksum, AB);
    master_copy(w, D, 1, true, s.length, s.checksum, AB); /* late */
    pass(w, 5000);
    assert_int_equal(heard(w, D)->copied.n, 2); /* the late one is refused, first or last */
    assert_true(
        heard(w, D)->copied.error == LH_OK || heard(w, D)->copied.error == LH_ERR_STALE_VERSION);
    assert_true(node_status(w, D).sealed && node_status(w, D).length == 2 * 144);
    assert_true(node_status(w, D).checksum == checksum && node_status(w, D).version == 2);
}

STORY(a_primary_that_it_was_to_join_feeds_a_copy_no_more)
{
    Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;
    struct seal s = given_a_sealed_chunk(w);
    struct conn *primary;

    given_a_pace(w, 16u << 10);
    master_copy(w, D, 1, false, 0, 0, AB);
    pass(w, 300);
    primary = feeder(w, D);
    q.version = 1;
    q.joining = true;
    feed(primary, q, NULL);
    settle(w);
    uint64_t length = feed_reply(primary, 0)->length;
    assert_true(length < s.length);
    heard_clear(w);
    copy_sealed(w, D, s, AB);
    settle(w);
    assert_int_equal(feed_reply(primary, 1)->error, LEASEHOLD__ERROR_CODE__NO_REPLICA);
    q.kind = LEASEHOLD__REPLICATE_KIND__APPEND;
    q.offset = length;
    struct lh_buf junk = make_batch(WRITER + 9, 1, 1, 100);
    feed(primary, q, &junk);
    pass(w, 5000);
    assert_copied(w, D, s, ABC);
}

STORY(a_copy_is_removed_in_the_middle)
{
    struct seal s = given_a_sealed_chunk(w);

    given_a_pace(w, 16u << 10);
    for (unsigned ms = 0; ms < 1500; ms += 250) {
        heard_clear(w);
        copy_sealed(w, D, s, AB);
        if (ms > 0)
            pass(w, ms);
        else
            w->nodes[D].disk_stalled = true; /* its file is being made */
        settle(w);
        master_remove(w, D, 1);
        settle(w);
        w->nodes[D].disk_stalled = false;
        settle(w);
        assert_int_equal(heard(w, D)->removed.n, 1);
        assert_int_equal(heard(w, D)->removed.error, LH_OK);
        assert_null(node_file(w, D, CHUNK));
        pass(w, 1000);
        assert_int_equal(heard(w, D)->copied.n, 0);
    }
}

STORY(a_full_disk_ends_a_copy)
{
    struct seal s = given_a_sealed_chunk(w);

    node_fail_disk(w, D, LH_DISK_CREATE, 0, LH_ERR_DISK_FULL);
    copy_sealed(w, D, s, AB);
    pass(w, 100);
    assert_int_equal(heard(w, D)->copied.error, LH_ERR_DISK_FULL);
    assert_null(node_file(w, D, CHUNK));

    node_fail_disk(w, D, LH_DISK_WRITE, 1, LH_ERR_DISK_FULL); /* behind the header */
    copy_sealed(w, D, s, AB);
    pass(w, 100);
    assert_int_equal(heard(w, D)->copied.n, 2);
    assert_int_equal(heard(w, D)->copied.error, LH_ERR_DISK_FULL);
    assert_true(node_status(w, D).copying);

    heard_clear(w);
    copy_sealed(w, D, s, AB);
    pass(w, 100);
    assert_copied(w, D, s, ABC);
}

STORY(a_failed_sync_begins_the_copy_anew_in_another_file)
{
    struct seal s = given_a_sealed_chunk(w);

    node_fail_disk(w, D, LH_DISK_SYNC, 1, LH_ERR_IO);
    copy_sealed(w, D, s, AB);
    pass(w, 100);
    assert_int_equal(heard(w, D)->copied.error, LH_ERR_IO);
    assert_false(node_status(w, D).lost);
    assert_true(node_status(w, D).copying);
    heard_clear(w);
    copy_sealed(w, D, s, AB);
    pass(w, 100);
    assert_copied(w, D, s, ABC);
}

STORY(a_copy_that_nobody_asks_for_in_a_new_session_is_given_up)
{
    given_a_chunk(w, AB);
    given_appends(w, 1, 1, 2);
    master_copy(w, D, 1, false, 0, 0, AB);
    pass(w, 100);
    assert_int_equal(heard(w, D)->copied.n, 1);
    break_wire(w, w->nodes[D].session_wire);
    pass(w, 29000);
    given_appends(w, 1, 3, 3);
    pass(w, 100);
    assert_int_equal(node_status(w, D).length, 6 * 144); /* it still follows */
    assert_int_equal(heard(w, D)->copied.n, 2);          /* and says so in this session */
    pass(w, 2000);
    given_appends(w, 1, 4, 4);
    pass(w, 100);
    assert_int_equal(node_status(w, D).length, 6 * 144);
    assert_true(node_status(w, D).copying);

    master_copy(w, D, 1, false, 0, 0, AB);
    pass(w, 100);
    assert_int_equal(node_status(w, D).length, 8 * 144);
}

/* ------------------------------------------------------------------------------------------------
 * The pace. */

STORY(a_copy_keeps_its_pace)
{
    struct seal s = given_a_sealed_chunk(w);

    w->repair_rate = UINT64_MAX;
    for (int i = A; i <= C; i++)
        restart(w, i, false); /* the sources are in a hurry */
    w->repair_rate = 16u << 10;
    restart(w, D, false);
    copy_sealed(w, D, s, ABC); /* about 53 KB: three seconds */
    for (uint64_t ms = 0; ms < 2000; ms += 100) {
        pass(w, 100);
        /* What a tenth of a second and one read may bring at once, and what the rate allows. */
        assert_true(node_status(w, D).length <= (ms + 100 + 1100) * 16384 / 1000);
    }
    assert_int_equal(heard(w, D)->copied.n, 0);
    pass(w, 2000);
    assert_copied(w, D, s, ABC);
}

STORY(a_source_keeps_its_pace)
{
    struct seal s = given_a_sealed_chunk(w);

    /* Whoever copies is in a hurry; the source is not. */
    w->repair_rate = 16u << 10;
    restart(w, A, false);
    w->repair_rate = UINT64_MAX;
    restart(w, D, false);
    copy_sealed(w, D, s, 1u << A);
    pass(w, 1500);
    assert_int_equal(heard(w, D)->copied.n, 0);
    pass(w, 4000);
    assert_copied(w, D, s, ABC);
    /* Other readers do not wait for it. */
    copy_sealed(w, D, (struct seal){9, s.length, 0}, 1u << A);
    assert_int_equal(read_error(w, A, LEASEHOLD__READ_MODE__CLIENT), LH_OK);
}

/* REC-4: also if the log is cut back, since the disk is full, before the mark is made. */
STORY(the_mark_is_made_before_the_first_foreign_byte_is_written)
{
    struct conn *c = given_a_written_chunk(w, 3);

    w->nodes[B].disk_stalled = true;
    append_without_c(w, c, 4, 5);
    uint64_t whole = node_status(w, A).checksum;
    assert_int_equal(node_status(w, A).length, 5 * BATCH);
    master_fence(w, A, 2);
    settle(w);
    master_record_seal(w, A, 2, 5 * BATCH, whole);
    settle(w);
    assert_true(node_status(w, A).sealed);
    master_copy(w, B, 2, true, 5 * BATCH, whole, 1u << A);
    settle(w);
    node_fail_disk(w, B, LH_DISK_WRITE, 0, LH_ERR_DISK_FULL);
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_int_equal(heard(w, B)->copied.error, LH_ERR_DISK_FULL);
    w->nodes[B].disk_stalled = true;
    master_copy(w, B, 2, true, 5 * BATCH, whole, 1u << A);
    for (int i = 0; i < 100 && node_file(w, B, CHUNK)->size <= LH_LOG_START + 3 * BATCH; i++) {
        size_t n = 0;
        while (n < w->op_count && w->ops[n].node != B)
            n++;
        if (n < w->op_count)
            disk_complete(w, n);
        settle(w);
        pass(w, 10);
    }
    assert_true(node_file(w, B, CHUNK)->size > LH_LOG_START + 3 * BATCH); /* foreign bytes */
    node_kill(w, B, false);
    w->nodes[B].disk_stalled = false;
    node_start(w, B);
    settle(w);
    assert_true(node_status(w, B).copying || node_status(w, B).sealed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sealed_chunk_is_copied_from_nothing),
        cmocka_unit_test(an_empty_sealed_chunk_is_copied),
        cmocka_unit_test(what_is_incomplete_serves_nobody),
        cmocka_unit_test(a_stale_replica_keeps_what_agrees),
        cmocka_unit_test(a_stale_replica_gives_up_a_tail_that_diverges),
        cmocka_unit_test(a_tail_that_diverges_is_found_where_it_ends),
        cmocka_unit_test(a_replica_longer_than_the_seal_is_cut),
        cmocka_unit_test(a_member_that_is_shorter_than_the_seal_is_refreshed),
        cmocka_unit_test(a_lost_replica_is_made_anew_once_a_source_answers),
        cmocka_unit_test(a_file_without_a_header_is_made_anew),
        cmocka_unit_test(a_copy_goes_on_from_another_source),
        cmocka_unit_test(a_copy_tells_how_far_it_has_come),
        cmocka_unit_test(a_source_of_an_older_version_is_not_believed),
        cmocka_unit_test(a_source_that_has_rotted_is_left_and_loses_its_replica),
        cmocka_unit_test(a_batch_in_the_wrong_place_is_found_by_the_source),
        cmocka_unit_test(a_crash_at_any_step_of_a_copy_from_nothing_leaves_what_is_honest),
        cmocka_unit_test(a_crash_at_any_step_of_a_refresh_leaves_what_is_honest),
        cmocka_unit_test(a_crash_at_each_step_of_one_refresh_leaves_what_is_honest),
        cmocka_unit_test(a_crash_at_each_step_of_one_copy_leaves_what_is_honest),
        cmocka_unit_test(an_open_chunk_is_caught_up_with_followed_and_joined),
        cmocka_unit_test(a_replica_that_joined_and_was_not_confirmed_is_incomplete),
        cmocka_unit_test(an_open_copy_goes_on_where_it_was_after_a_restart),
        cmocka_unit_test(a_former_member_joins_with_committed_bytes_only),
        cmocka_unit_test(a_log_that_is_being_read_back_is_copied_to_afterwards),
        cmocka_unit_test(a_copy_of_an_open_chunk_that_does_not_fit_is_begun_anew),
        cmocka_unit_test(nothing_that_counts_is_made_a_copy),
        cmocka_unit_test(an_order_may_change_while_it_is_carried_out),
        cmocka_unit_test(a_primary_that_it_was_to_join_feeds_a_copy_no_more),
        cmocka_unit_test(a_copy_is_removed_in_the_middle),
        cmocka_unit_test(a_full_disk_ends_a_copy),
        cmocka_unit_test(a_failed_sync_begins_the_copy_anew_in_another_file),
        cmocka_unit_test(a_copy_that_nobody_asks_for_in_a_new_session_is_given_up),
        cmocka_unit_test(a_copy_keeps_its_pace),
        cmocka_unit_test(a_source_keeps_its_pace),
        cmocka_unit_test(the_mark_is_made_before_the_first_foreign_byte_is_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
