/* The observers see what they are there for. Each story of a violation is told twice: with a
 * mistake planted in the cores (base/probe.h), when the observer of that invariant must name it,
 * and as it is, when all must stay silent. */
#include "tests/scenario/scenario.h"

#include "base/probe.h"
#include "sim/observers/internal.h"
#include "sim/observers/log_reader.h"
#include "sim/world/disk.h"
#include "sim/world/network.h"

#include <inttypes.h>

/* Of one telling. */
struct stage {
    struct lh_sim_cluster *c;
    struct lh_sim *sim;
};

struct tale {
    const char *bug;  /* to be planted */
    const char *rule; /* that must fail then */
    void (*happens)(struct stage *s);
    size_t servers;
    uint64_t seeds; /* the mistake shows in at least one of so many */
};

/* As lh_sim_run_for(), in a world that may have failed already. */
static void pass(struct stage *s, struct lh_duration d)
{
    lh_sim_run_for(s->sim, d);
}

static struct lh_sim_writer *begin(struct stage *s, bool synced)
{
    struct lh_sim_file_options options = {.synced = synced};

    if (lh_sim_create_file(s->c, FILE_PATH, &options) != LH_OK)
        return NULL;
    struct lh_sim_writer *w = lh_sim_writer_open(s->c, 1, FILE_PATH, LONG);
    if (w != NULL)
        (void)lh_sim_append(w, 1, 100, LONG);
    return lh_sim_failure(s->sim) == NULL ? w : NULL;
}

static struct lh_sim_node *a_primary(struct stage *s)
{
    return lh_sim_wait_primary(s->c, FILE_PATH, LONG);
}

static struct lh_sim_node *other_than(struct stage *s, const struct lh_sim_node *node)
{
    struct lh_sim_node *first = lh_sim_server(s->c, 1);

    return first != node ? first : lh_sim_server(s->c, 2);
}

/* ---- What happens ---- */

static void an_append(struct stage *s)
{
    (void)begin(s, true);
}

static void a_primary_is_killed(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, true);
    struct lh_sim_node *primary = w == NULL ? NULL : a_primary(s);

    if (primary == NULL)
        return;
    lh_sim_crash(primary);
    (void)lh_sim_append_begin(w, 1, 100);
    (void)lh_sim_flush(w, LONG);
    if (lh_sim_failure(s->sim) == NULL)
        lh_sim_start(primary);
}

static void a_session_stream_breaks(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, false);
    struct lh_sim_node *primary = w == NULL ? NULL : a_primary(s);

    if (primary == NULL)
        return;
    lh_sim_isolate(primary, lh_sim_master(s->c));
    lh_sim_break(primary, lh_sim_master(s->c));
    (void)lh_sim_append_begin(w, 1, 100);
    pass(s, lh_seconds(8));
    lh_sim_rejoin(primary, NULL);
    (void)lh_sim_flush(w, LONG);
}

static void a_master_restarts_without_the_holder(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, false);
    struct lh_sim_node *primary = w == NULL ? NULL : a_primary(s);

    if (primary == NULL)
        return;
    lh_sim_isolate(primary, NULL);
    (void)lh_sim_append_begin(w, 1, 100);
    lh_sim_crash(lh_sim_master(s->c));
    lh_sim_start(lh_sim_master(s->c));
    pass(s, lh_seconds(8));
    lh_sim_rejoin(primary, NULL);
    (void)lh_sim_flush(w, LONG);
}

static void a_member_is_away(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, false);
    struct lh_sim_node *primary = w == NULL ? NULL : a_primary(s);

    if (primary == NULL)
        return;
    struct lh_sim_node *away = other_than(s, primary);
    lh_sim_crash(away);
    pass(s, lh_milliseconds(100));
    (void)lh_sim_append_begin(w, 1, 100);
    pass(s, lh_milliseconds(500));
    lh_sim_start(away);
    (void)lh_sim_flush(w, LONG);
}

static void a_sync_fails(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, true);
    struct lh_sim_node *primary = w == NULL ? NULL : a_primary(s);

    if (primary == NULL)
        return;
    lh_sim_disk_fail(primary, LH_DISK_SYNC, LH_ERR_IO, 1);
    for (int i = 0; i < 5; i++)
        (void)lh_sim_append_begin(w, 1, 100);
    (void)lh_sim_flush(w, LONG);
}

static void a_machine_loses_power_in_mid_write(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, false);

    for (int i = 0; w != NULL && i < 12; i++) {
        (void)lh_sim_append_begin(w, 1, 3000);
        pass(s, lh_nanoseconds(200000)); /* not all in one message, and so in one write */
    }
    pass(s, lh_milliseconds(1));
    if (w == NULL || lh_sim_failure(s->sim) != NULL)
        return;
    struct lh_sim_node *node = lh_sim_server(s->c, 2);
    lh_sim_power_loss(node);
    lh_sim_start(node);
    (void)lh_sim_flush(w, LONG);
}

static void everybody_loses_power(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, false);

    for (int i = 0; w != NULL && i < 5; i++)
        (void)lh_sim_append(w, 1, 1000, LONG);
    if (w == NULL || lh_sim_failure(s->sim) != NULL)
        return;
    for (size_t i = 1; i <= 3; i++)
        lh_sim_power_loss(lh_sim_server(s->c, i));
    for (size_t i = 1; i <= 3; i++)
        lh_sim_start(lh_sim_server(s->c, i));
    struct lh_sim_writer *next = lh_sim_writer_open(s->c, 1, FILE_PATH, LONG);
    if (next != NULL)
        (void)lh_sim_append(next, 1, 100, LONG);
}

static void a_chunk_fills_while_a_link_breaks(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, false);

    for (int i = 0; w != NULL && i < 7; i++)
        (void)lh_sim_append(w, 1, 8000, LONG);
    for (int i = 0; w != NULL && i < 6; i++)
        (void)lh_sim_append_begin(w, 1, 3000);
    pass(s, lh_nanoseconds(lh_prng_below(lh_sim_random(s->sim), 4000000)));
    struct lh_sim_node *primary = lh_sim_open_primary(s->c, FILE_PATH);
    if (primary != NULL)
        lh_sim_break(primary, lh_sim_client(s->c, 1));
    if (w != NULL)
        (void)lh_sim_flush(w, LONG);
}

static void a_disk_stalls(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, false);
    struct lh_sim_node *primary = w == NULL ? NULL : a_primary(s);

    if (primary == NULL)
        return;
    lh_sim_disk_stall(primary, true);
    (void)lh_sim_append_begin(w, 1, 100);
    pass(s, lh_seconds(10));
    lh_sim_disk_stall(primary, false);
    (void)lh_sim_flush(w, LONG);
}

static void a_server_hears_nothing(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, false);

    if (w == NULL)
        return;
    for (size_t i = 1; i <= 3; i++)
        if (lh_sim_server(s->c, i) != a_primary(s))
            lh_sim_cut(lh_sim_master(s->c), lh_sim_server(s->c, i));
    pass(s, lh_seconds(4));
    struct lh_sim_node *primary = a_primary(s);
    if (primary != NULL)
        lh_sim_crash(primary);
    (void)lh_sim_append_begin(w, 1, 100);
    pass(s, lh_seconds(6));
    for (size_t i = 1; i <= 3; i++)
        lh_sim_heal(lh_sim_master(s->c), lh_sim_server(s->c, i));
    if (primary != NULL)
        lh_sim_start(primary);
    (void)lh_sim_flush(w, LONG);
}

static void a_client_has_a_bad_link(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, false);
    struct lh_sim_node *primary = w == NULL ? NULL : a_primary(s);

    if (primary == NULL)
        return;
    lh_sim_isolate(primary, lh_sim_client(s->c, 1));
    (void)lh_sim_append_begin(w, 1, 100);
    pass(s, lh_seconds(15));
    lh_sim_rejoin(primary, NULL);
    (void)lh_sim_flush(w, LONG);
}

static void appends_come_now_and_then(struct stage *s)
{
    struct lh_sim_writer *w = begin(s, false);

    for (int i = 0; w != NULL && i < 40 && lh_sim_failure(s->sim) == NULL; i++) {
        (void)lh_sim_append(w, 1, 100, LONG);
        pass(s, lh_milliseconds(300));
    }
}

static const struct tale tales[] = {
    {"no-drift-margin", "INV-1", an_append, 3, 1},
    {"holder-counts-from-receipt", "INV-1", an_append, 3, 1},
    {"regrant-when-session-breaks", "INV-2", a_session_stream_breaks, 3, 1},
    {"leases-forgotten-on-restart", "INV-2", a_master_restarts_without_the_holder, 3, 1},
    {"grant-sent-before-durable", "INV-2", an_append, 3, 1},
    {"confirmed-before-durable", "INV-3", a_primary_is_killed, 3, 1},
    {"acknowledged-before-sync", "INV-4", an_append, 3, 1},
    {"acknowledged-before-every-member", "INV-4", a_member_is_away, 3, 1},
    {"fsync-retried", "INV-4", a_sync_fails, 3, 20},
    {"loss-not-reported", "INV-4", everybody_loses_power, 3, 20},
    {"torn-tail-skipped", "INV-5", a_machine_loses_power_in_mid_write, 3, 1000},
    {"torn-tail-kept", "INV-5", a_machine_loses_power_in_mid_write, 3, 1000},
    {"next-chunk-without-asking", "INV-6", a_chunk_fills_while_a_link_breaks, 3, 1000},
    {"heartbeats-from-stalled-disk", "INV-8", a_disk_stalls, 3, 1},
    {"one-way-partition-is-health", "INV-8", a_server_hears_nothing, 3, 1},
    {"hint-takes-lease", "INV-9", a_client_has_a_bad_link, 3, 1},
    {"extension-not-asked", "INV-9", appends_come_now_and_then, 3, 1},
};

/* The rule that failed; "" if none did. `text` holds what was said. */
static void notify(const struct tale *tale, uint64_t seed, char *rule, char *text, size_t text_size)
{
    struct lh_sim_cluster_config config = short_terms(seed);

    config.servers = tale->servers;
    config.master.min_replicas = 2;
    struct lh_sim_cluster *c = lh_sim_cluster_create(&config);
    struct stage s = {c, lh_sim_world(c)};
    observers = lh_sim_observers_create(c, NULL);
    if (lh_sim_cluster_start(c, LONG))
        tale->happens(&s);
    const char *failure = lh_sim_failure(s.sim);
    (void)snprintf(rule, 16, "%s", failure == NULL ? "" : lh_sim_failed_rule(s.sim));
    (void)snprintf(text, text_size, "%s", failure == NULL ? "" : failure);
    the_end(c);
}

static void each_mistake_is_named_and_nothing_else_is(void **state)
{
    char rule[16], text[512];

    (void)state;
    for (size_t i = 0; i < sizeof tales / sizeof tales[0]; i++) {
        const struct tale *tale = &tales[i];
        bool found = false;
        for (uint64_t seed = 1; seed <= tale->seeds && !found; seed++) {
            notify(tale, seed, rule, text, sizeof text);
            if (rule[0] != '\0')
                fail_msg("without %s, seed %" PRIu64 ": %s", tale->bug, seed, text);
            assert_true(lh_plant(tale->bug, true));
            notify(tale, seed, rule, text, sizeof text);
            lh_plant_none();
            if (rule[0] != '\0' && strcmp(rule, tale->rule) != 0)
                fail_msg(
                    "%s, seed %" PRIu64 ": %s instead of %s", tale->bug, seed, text, tale->rule);
            found = rule[0] != '\0';
        }
        if (!found)
            fail_msg("nobody saw %s", tale->bug);
    }
}

/* ---- INV-7 ---- */

static void two_primaries_beyond_rho_are_counted(void **state)
{
    uint64_t seen = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct lh_sim_cluster_config config = short_terms(seed);
        config.clocks_beyond_rho = true;
        struct lh_sim_cluster *c = cluster_of(&config);
        struct lh_sim_writer *w = file_with_writer(c, false);
        struct lh_sim_node *primary = primary_of(c);
        lh_sim_set_rate(primary, -700000); /* its term lasts three times as long */
        lh_sim_isolate(primary, lh_sim_master(c));
        lh_sim_isolate(primary, lh_sim_client(c, 1));
        lh_sim_append_begin(w, 1, 100);
        HOLDS(c, lh_sim_flush(w, LONG));
        seen += lh_sim_observers_seen(observers, "INV-1");
        seen += lh_sim_observers_seen(observers, "INV-2");
        the_end(c);
    }
    assert_true(seen > 0);
}

/* ---- INV-8 ---- */

static void an_append_that_is_never_answered_is_late(void **state)
{
    struct lh_sim_cluster *c = cluster(1, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);

    (void)state;
    lh_sim_isolate(lh_sim_client(c, 1), NULL);
    lh_sim_append_begin(w, 1, 100);
    lh_sim_observers_faults_over(observers); /* which is not so */
    lh_sim_run_for(lh_sim_world(c), lh_seconds(200));
    assert_non_null(lh_sim_failure(lh_sim_world(c)));
    assert_string_equal(lh_sim_failed_rule(lh_sim_world(c)), "INV-8");
    the_end(c);
}

static void damage_is_no_reason_to_wait_for_a_file(void **state)
{
    struct lh_sim_cluster *c = cluster(1, 3);
    struct lh_sim_writer *w = file_with_writer(c, true);

    (void)state;
    assert_false(lh_sim_observers_exempt(observers, FILE_PATH));
    for (size_t i = 1; i <= 2; i++) {
        lh_sim_file_rot(lh_sim_server(c, i), tail_of(c).chunk, LH_SIM_LOG_START + 50, 1);
        assert_false(lh_sim_observers_exempt(observers, FILE_PATH)); /* it can be repaired */
    }
    lh_sim_file_rot(lh_sim_server(c, 3), tail_of(c).chunk, LH_SIM_LOG_START + 50, 1);
    assert_true(lh_sim_observers_exempt(observers, FILE_PATH));
    assert_false(lh_sim_observers_exempt(observers, "/no-such-file"));
    HOLDS(c, w != NULL);
    the_end(c);
}

/* ---- The lease model ---- */

static void the_holder_s_end_comes_before_the_master_s(void **state)
{
    struct lh_sim_cluster *c = cluster(3, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_chunk tail = tail_of(c);
    const struct chunk *k = lh_ob_chunk_find(observers, tail.chunk);

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct lh_instant end;
        struct lh_ob_promised ends;
        uint64_t version;
        HOLDS(c, lh_sim_append(w, 1, 100, LONG) == LH_OK);
        run_for(c, lh_milliseconds(400));
        assert_int_equal(k->promise_count, 1);
        const struct actor *holder = observers->servers[k->promises[0].server];
        assert_ptr_equal(holder->node, primary_of(c));
        assert_int_equal(k->promises[0].version, tail.version);
        assert_true(lh_ob_model_right(observers, holder, tail.chunk, &version, &end));
        assert_int_equal(version, tail.version);
        lh_ob_model_promise(observers, &k->promises[0], &ends);
        assert_true(end.ns <= ends.holder.ns);
        /* Their clocks go alike in this world. */
        struct lh_duration holds = lh_instant_until(lh_sim_clock(holder->node), ends.holder);
        struct lh_duration waits = lh_instant_until(lh_sim_clock(lh_sim_master(c)), ends.grantor);
        assert_true(holds.ns > 0);
        assert_true(holds.ns < waits.ns);
        struct lh_instant session =
            lh_ob_model_session_until(observers, holder, k->promises[0].session);
        assert_true(ends.grantor.ns <= session.ns);
    }
    lh_sim_crash(primary_of(c));
    run_for(c, lh_milliseconds(1));
    assert_int_equal(k->promise_count, 1); /* promised is promised */
    the_end(c);
}

/* ---- The formats ---- */

static void the_worked_example_of_the_formats_page_is_read(void **state)
{
    static const uint8_t example[] = {0x6b, 0x24, 0xa3, 0xbe, 0x4c, 0x48, 0x42, 0x32, 0x3f, 0x00,
        0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x07,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x68, 0x65, 0x6c, 0x6c,
        0x6f, 0x00, 0x00, 0x00, 0x00, 0x06, 0x00, 0x00, 0x00, 0x77, 0x6f, 0x72, 0x6c, 0x64, 0x21,
        0x8d, 0xa0, 0x0e, 0xf4, 0xeb, 0xd3, 0xf3, 0x72};
    /* The chain of the same batch behind the first one. */
    static const uint8_t second_chain[] = {0xa0, 0xa4, 0x07, 0x79, 0x0d, 0x5c, 0x66, 0x78};
    uint8_t log[2 * sizeof example];
    struct lh_sim_batch b;
    uint64_t checksum;

    (void)state;
    memcpy(log, example, sizeof example);
    memcpy(log + sizeof example, example, sizeof example);
    memcpy(log + sizeof log - sizeof second_chain, second_chain, sizeof second_chain);
    assert_true(lh_sim_batch_read(log, sizeof log, sizeof example, &b));
    assert_int_equal(b.offset, sizeof example);
    assert_int_equal(b.size, sizeof example);
    assert_int_equal(b.count, 3);
    assert_true(b.writer == UINT64_C(0x1122334455667788));
    assert_int_equal(b.sequence, 7);
    assert_int_equal(
        lh_sim_log_scan(1, log, sizeof example, UINT64_MAX, &checksum), sizeof example);
    assert_true(checksum == UINT64_C(0x72f3d3ebf40ea08d));
    assert_int_equal(lh_sim_log_scan(1, log, sizeof log, UINT64_MAX, &checksum), sizeof log);
    assert_true(checksum == UINT64_C(0x78665c0d7907a4a0));

    assert_int_equal(lh_sim_log_scan(2, log, sizeof log, UINT64_MAX, &checksum), 0);

    assert_false(lh_sim_batch_read(log, sizeof log - 1, sizeof example, &b)); /* cut off */
    log[sizeof log - 1] ^= 1;
    assert_int_equal(lh_sim_log_scan(1, log, sizeof log, UINT64_MAX, &checksum), sizeof example);
    assert_false(lh_sim_header_read(NULL, 0).valid);
    assert_false(lh_sim_header_read(log, sizeof log).valid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_is_named_and_nothing_else_is),
        cmocka_unit_test(two_primaries_beyond_rho_are_counted),
        cmocka_unit_test(an_append_that_is_never_answered_is_late),
        cmocka_unit_test(damage_is_no_reason_to_wait_for_a_file),
        cmocka_unit_test(the_holder_s_end_comes_before_the_master_s),
        cmocka_unit_test(the_worked_example_of_the_formats_page_is_read),
    };

    return RUN_STORIES(tests);
}
