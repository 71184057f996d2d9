/* Everything at once: writers that go on while machines crash, sleep and lose power, links break,
 * clocks drift to the edges of rho and leases are recalled, all of it drawn from the seed. Then the
 * faults stop and everything must be well (INV-8, and with it all the others). A failure names its
 * seed; run it alone with LH_SIM_SEED=N, at length with LH_SIM_SEEDS=COUNT. */
#include "sim/world/disk.h"
#include "sim/world/network.h"
#include "tests/scenario/scenario.h"

#include <inttypes.h>

#define SEEDS 150

static struct lh_sim_node *any_server(struct lh_sim_cluster *c, size_t servers)
{
    return lh_sim_server(c, 1 + lh_prng_below(lh_sim_random(lh_sim_world(c)), servers));
}

static struct lh_sim_node *any_node(struct lh_sim_cluster *c)
{
    struct lh_sim *sim = lh_sim_world(c);

    return lh_sim_node(sim, lh_prng_below(lh_sim_random(sim), lh_sim_node_count(sim)));
}

/* `power` counts the power losses that the file survives. */
static void one_fault(struct lh_sim_cluster *c, size_t servers, uint64_t *power)
{
    struct lh_sim *sim = lh_sim_world(c);
    struct lh_prng *random = lh_sim_random(sim);
    struct lh_sim_node *server = any_server(c, servers);
    struct lh_sim_node *a = any_node(c), *b = any_node(c);

    switch (lh_prng_below(random, 17)) {
    case 0:
        lh_sim_crash(server);
        break;
    case 1:
        lh_sim_crash(server);
        lh_sim_start(server);
        break;
    case 2:
        if (*power > 0) {
            --*power;
            lh_sim_power_loss(server);
        }
        break;
    case 3:
        lh_sim_pause(server);
        break;
    case 4:
        lh_sim_pause_in_step(server);
        break;
    case 5:
        if (a != b)
            lh_sim_cut(a, b);
        break;
    case 6:
        lh_sim_isolate(server, NULL);
        break;
    case 7:
        lh_sim_isolate(server, lh_sim_master(c));
        break;
    case 8:
        if (a != b)
            lh_sim_break(a, b);
        break;
    case 9:
        lh_sim_crash(lh_sim_master(c));
        lh_sim_start(lh_sim_master(c));
        break;
    case 10:
        lh_sim_power_loss(lh_sim_master(c));
        break;
    case 11:
        if (a != b)
            lh_sim_slow(a, b, lh_milliseconds(lh_prng_below(random, 1500)));
        break;
    case 12:
        lh_sim_set_rate(a, (int32_t)lh_prng_below(random, 2 * RHO_PPM + 1) - RHO_PPM);
        break;
    case 13:
        lh_sim_disk_stall(server, true);
        break;
    case 14:
        if (!lh_sim_is_paused(server))
            lh_sim_stop(server);
        break;
    case 15:
        (void)lh_sim_recall(c, FILE_PATH, lh_prng_below(random, 2) == 0, lh_milliseconds(300));
        break;
    case 16:
        lh_sim_disk_capacity(
            server, lh_sim_disk_used(server) + lh_prng_below(random, LH_CHUNK_BYTES_MIN * 2));
        break;
    }
}

/* Mends some of what is broken, or everything. */
static void mend(struct lh_sim_cluster *c, bool all)
{
    struct lh_sim *sim = lh_sim_world(c);
    struct lh_prng *random = lh_sim_random(sim);

    for (size_t i = 0; i < lh_sim_node_count(sim); i++) {
        struct lh_sim_node *node = lh_sim_node(sim, i);
        if (!all && lh_prng_below(random, 3) != 0)
            continue;
        lh_sim_resume(node);
        lh_sim_start(node);
        lh_sim_rejoin(node, NULL);
        for (size_t k = 0; k < lh_sim_node_count(sim); k++)
            if (k != i)
                lh_sim_slow(node, lh_sim_node(sim, k), lh_nanoseconds(0));
        lh_sim_disk_stall(node, false);
        lh_sim_disk_capacity(node, UINT64_MAX);
    }
}

static void run_seed(uint64_t seed)
{
    struct lh_sim_cluster_config config = short_terms(seed);
    struct lh_prng shape = {seed * 1000003};

    config.servers = 3 + lh_prng_below(&shape, 3);
    config.clients = 1 + lh_prng_below(&shape, 3);
    config.world.delay.max = lh_milliseconds(1 + lh_prng_below(&shape, 20));
    config.world.sync.max = lh_milliseconds(2 + lh_prng_below(&shape, 30));
    bool synced = lh_prng_below(&shape, 2) == 0;
    /* In a `buffered` file a second machine may take with it what the first had lost (REC-2a). */
    uint64_t power = synced ? UINT64_MAX : 1;
    config.replicas_may_be_lost = !synced;
    struct lh_sim_cluster *c = cluster_of(&config);
    struct lh_prng *random = lh_sim_random(lh_sim_world(c));
    /* Writers of one client share its stream. */
    size_t writers = config.clients * (1 + lh_prng_below(&shape, 3));
    struct lh_sim_writer *w[9] = {file_with_writer(c, synced)};

    for (size_t i = 1; i < writers; i++) {
        w[i] = lh_sim_writer_open(c, 1 + i % config.clients, FILE_PATH, LONG);
        assert_non_null(w[i]);
    }
    for (uint64_t round = 10 + lh_prng_below(random, 20); round > 0; round--) {
        for (size_t i = 0; i < writers; i++)
            for (uint64_t n = lh_prng_below(random, 6); n > 0; n--)
                lh_sim_append_begin(w[i], 1 + (uint32_t)lh_prng_below(random, 3),
                    (uint32_t)lh_prng_below(random, 5000));
        if (lh_prng_below(random, 3) != 0)
            one_fault(c, config.servers, &power);
        lh_sim_run_for(lh_sim_world(c),
            lh_nanoseconds(lh_prng_below(random, UINT64_C(1) << (20 + lh_prng_below(random, 13)))));
        if (lh_prng_below(random, 3) == 0)
            mend(c, false);
        HOLDS(c, lh_sim_check_replicas(c, FILE_PATH, false));
    }
    mend(c, true);
    run_for(c, lh_seconds(5)); /* clean stops that were under way have ended */
    mend(c, true);
    lh_sim_observers_faults_over(observers);
    for (size_t i = 0; i < writers; i++)
        HOLDS(c, lh_sim_flush(w[i], lh_seconds(120)));
    HOLDS(c, lh_sim_settle(c, w[0], lh_seconds(120)));
    lh_sim_observers_end(observers);
    HOLDS(c, true);
    the_end(c);
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void everything_at_once(void **state)
{
    uint64_t first = number_from("LH_SIM_SEED", 1);
    uint64_t count = number_from("LH_SIM_SEEDS", getenv("LH_SIM_SEED") != NULL ? 1 : SEEDS);

    (void)state;
    for (uint64_t seed = first; seed < first + count; seed++) {
        print_message("seed %" PRIu64 "\n", seed);
        run_seed(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(everything_at_once)};

    return RUN_STORIES(tests);
}
