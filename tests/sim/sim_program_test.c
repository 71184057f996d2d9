/* Programs in the simulator's world go on by themselves, and a run ends with everything well. */
#include "tests/scenario/scenario.h"

#include "sim/cluster/healing.h"
#include "sim/cluster/program.h"

static struct lh_sim_program *start(struct lh_sim_cluster *c, enum lh_sim_program_kind kind,
    const char *name, uint32_t client, uint64_t count)
{
    struct lh_sim_program_spec spec = lh_sim_program_default(kind);

    (void)snprintf(spec.name, sizeof spec.name, "%s", name);
    (void)snprintf(spec.path, sizeof spec.path, "%s", kind == LH_SIM_FILES ? "/other" : FILE_PATH);
    spec.client = client;
    spec.count = count;
    spec.seed = 7;
    return lh_sim_program_start(c, &spec);
}

static struct lh_sim_cluster *two_clients(uint64_t seed)
{
    struct lh_sim_cluster_config config = short_terms(seed);

    config.clients = 2;
    struct lh_sim_cluster *c = cluster_of(&config);
    assert_int_equal(lh_sim_create_file(c, FILE_PATH, NULL), LH_OK);
    return c;
}

static void settle(struct lh_sim_cluster *c)
{
    lh_sim_mend(c);
    HOLDS(c, lh_sim_settle_all(c, &(struct lh_sim_settling){0}, LONG));
    the_end(c);
}

static void a_reader_gets_what_a_writer_wrote(void **state)
{
    struct lh_sim_cluster *c = two_clients(1);
    struct lh_sim_program *w = start(c, LH_SIM_WRITER, "w", 1, 100);
    struct lh_sim_program *r = start(c, LH_SIM_READER, "r", 2, UINT64_MAX);
    struct lh_sim_chunk tail;

    (void)state;
    run_for(c, lh_seconds(20));
    struct lh_sim_program_status s = lh_sim_program_status(w);
    assert_int_equal(s.succeeded, 100);
    assert_int_equal(s.pending, 0);
    assert_true(s.ended);
    tail = tail_of(c);
    struct lh_replica_status replica =
        replica_at(lh_sim_find(lh_sim_world(c), tail.members[0].server), tail.chunk);
    assert_int_equal(lh_sim_program_status(r).position, tail.start + replica.length);
    settle(c);
}

static void a_client_that_is_killed_begins_anew(void **state)
{
    struct lh_sim_cluster *c = two_clients(2);
    struct lh_sim_program *w = start(c, LH_SIM_WRITER, "w", 1, 400);
    struct lh_sim_program *r = start(c, LH_SIM_READER, "r", 1, UINT64_MAX);

    (void)state;
    run_for(c, lh_seconds(2));
    uint64_t before = lh_sim_program_status(r).position;
    assert_true(before > 0);
    lh_sim_crash(lh_sim_client(c, 1));
    assert_int_equal(lh_sim_program_status(w).pending, 0);
    run_for(c, lh_seconds(1));
    lh_sim_start(lh_sim_client(c, 1));
    run_for(c, lh_seconds(20));
    struct lh_sim_program_status s = lh_sim_program_status(w);
    assert_int_equal(s.begun, 400);
    assert_int_equal(s.succeeded + s.lost, 400);
    assert_true(lh_sim_program_status(r).position > before);
    settle(c);
}

static void a_program_without_its_file_asks_again(void **state)
{
    struct lh_sim_cluster_config config = short_terms(3);
    struct lh_sim_cluster *c = cluster_of(&config);
    struct lh_sim_program *w = start(c, LH_SIM_WRITER, "w", 1, 10);

    (void)state;
    run_for(c, lh_seconds(2));
    assert_int_equal(lh_sim_program_status(w).begun, 0);
    assert_int_equal(lh_sim_create_file(c, FILE_PATH, NULL), LH_OK);
    run_for(c, lh_seconds(5));
    assert_int_equal(lh_sim_program_status(w).succeeded, 10);
    settle(c);
}

static void files_come_and_go(void **state)
{
    struct lh_sim_cluster *c = two_clients(4);
    struct lh_sim_program *f = start(c, LH_SIM_FILES, "f", 2, 200);

    (void)state;
    run_for(c, lh_seconds(30));
    struct lh_sim_program_status s = lh_sim_program_status(f);
    assert_int_equal(s.succeeded + s.failed, 200);
    assert_true(s.succeeded > 50 && s.failed > 10);
    settle(c);
}

static void the_same_seed_gives_the_same_run(void **state)
{
    uint64_t hash[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct lh_sim_cluster *c = two_clients(5);
        start(c, LH_SIM_WRITER, "w", 1, 200);
        start(c, LH_SIM_READER, "r", 2, UINT64_MAX);
        start(c, LH_SIM_FILES, "f", 2, 50);
        run_for(c, lh_seconds(3));
        lh_sim_crash(lh_sim_server(c, 2));
        run_for(c, lh_seconds(10));
        hash[i] = lh_sim_hash(lh_sim_world(c));
        settle(c);
    }
    assert_true(hash[0] == hash[1]);
}

static void what_cannot_be_a_program_is_refused(void **state)
{
    struct lh_sim_program_spec spec = lh_sim_program_default(LH_SIM_WRITER);
    char text[160];

    (void)state;
    (void)snprintf(spec.name, sizeof spec.name, "w");
    (void)snprintf(spec.path, sizeof spec.path, "/log");
    assert_true(lh_sim_program_check(&spec, 1, text, sizeof text));
    spec.client = 2;
    assert_false(lh_sim_program_check(&spec, 1, text, sizeof text));
    assert_string_equal(text, "there is no client 2; clients are 1 to 1");
    spec.client = 1;
    spec.records_min = 4;
    assert_false(lh_sim_program_check(&spec, 1, text, sizeof text));
    spec.records_max = UINT32_MAX;
    spec.bytes_max = UINT32_MAX;
    assert_false(lh_sim_program_check(&spec, 1, text, sizeof text));
    assert_non_null(strstr(text, "above 33554432 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_gets_what_a_writer_wrote),
        cmocka_unit_test(a_client_that_is_killed_begins_anew),
        cmocka_unit_test(a_program_without_its_file_asks_again),
        cmocka_unit_test(files_come_and_go),
        cmocka_unit_test(the_same_seed_gives_the_same_run),
        cmocka_unit_test(what_cannot_be_a_program_is_refused),
    };

    return RUN_STORIES(tests);
}
