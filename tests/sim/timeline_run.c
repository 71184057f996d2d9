/* A run for the timeline's test: writes its page to FILE and what must be in it, as JSON, to
 * standard output.
 *
 *   timeline_run KIND SEED FILE      KIND: calm, faults, violation */
#include "base/assert.h"
#include "sim/cluster/program.h"
#include "sim/observers/observers.h"
#include "sim/report/timeline.h"
#include "sim/world/disk.h"
#include "sim/world/network.h"
#include "tests/scenario/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_PATH "/<i>&\"log'"
#define LONG      lh_seconds(20)

static void start_writers(struct lh_sim_cluster *c, uint64_t seed)
{
    char text[256];

    for (uint32_t i = 1; i <= lh_sim_clients(c); i++) {
        struct lh_sim_program_spec spec = lh_sim_program_default(LH_SIM_WRITER);
        snprintf(spec.name, sizeof spec.name, "writer%u", i);
        snprintf(spec.path, sizeof spec.path, "%s", FILE_PATH);
        spec.client = i;
        spec.seed = seed + i;
        LH_ASSERT(lh_sim_program_check(&spec, lh_sim_clients(c), text, sizeof text));
        lh_sim_program_start(c, &spec);
    }
}

/* One of everything that has a length, for 20 s. */
static void break_things(struct lh_sim_cluster *c)
{
    struct lh_sim *sim = lh_sim_world(c);
    struct lh_sim_node *primary = lh_sim_wait_primary(c, FILE_PATH, LONG);

    LH_ASSERT(primary != NULL);
    lh_sim_isolate(primary, lh_sim_master(c));
    lh_sim_run_for(sim, lh_seconds(4));
    lh_sim_rejoin(primary, lh_sim_master(c));
    primary = lh_sim_wait_primary(c, FILE_PATH, LONG);
    LH_ASSERT(primary != NULL);
    lh_sim_pause(primary);
    lh_sim_run_for(sim, lh_seconds(4));
    lh_sim_resume(primary);
    lh_sim_disk_stall(lh_sim_server(c, 1), true);
    lh_sim_set_rate(lh_sim_server(c, 2), 9000);
    lh_sim_slow(lh_sim_server(c, 3), lh_sim_master(c), lh_milliseconds(30));
    lh_sim_run_for(sim, lh_seconds(3));
    lh_sim_disk_stall(lh_sim_server(c, 1), false);
    lh_sim_set_rate(lh_sim_server(c, 2), 0);
    lh_sim_slow(lh_sim_server(c, 3), lh_sim_master(c), lh_nanoseconds(0));
    lh_sim_crash(lh_sim_master(c));
    lh_sim_run_for(sim, lh_seconds(1));
    lh_sim_start(lh_sim_master(c));
    lh_sim_run_for(sim, lh_seconds(5));
}

/* A holder whose clock runs far too slow acts on while the master gives its chunk away. */
static void break_the_rules(struct lh_sim_cluster *c)
{
    struct lh_sim_node *primary = lh_sim_wait_primary(c, FILE_PATH, LONG);

    LH_ASSERT(primary != NULL);
    lh_sim_isolate(primary, NULL);
    lh_sim_set_rate(primary, -400000);
    lh_sim_run_for(lh_sim_world(c), lh_seconds(12));
    LH_ASSERT(lh_sim_failure(lh_sim_world(c)) != NULL);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "timeline_run KIND SEED FILE\n");
        return 64;
    }
    uint64_t seed = strtoull(argv[2], NULL, 10);
    struct lh_sim_cluster_config config = lh_sim_cluster_config_default(seed);
    config.servers = 4;
    config.clients = 2;
    config.master.session_term = lh_seconds(3);
    config.master.chunk_term = lh_seconds(9);
    struct lh_sim_cluster *c = lh_sim_cluster_create(&config);
    struct lh_sim_observers *observers = lh_sim_observers_create(c, NULL);
    struct lh_sim_timeline *t = lh_sim_timeline_attach(c, "seed <" FILE_PATH ">");
    LH_ASSERT(lh_sim_cluster_start(c, LONG));
    LH_ASSERT(lh_sim_create_file(c, FILE_PATH, NULL) == LH_OK);
    start_writers(c, seed);
    lh_sim_run_for(lh_sim_world(c), lh_seconds(3));
    if (strcmp(argv[1], "faults") == 0)
        break_things(c);
    if (strcmp(argv[1], "violation") == 0)
        break_the_rules(c);

    FILE *to = fopen(argv[3], "w");
    if (to == NULL || lh_sim_timeline_write(t, to) != LH_OK || fclose(to) != 0) {
        fprintf(stderr, "timeline_run: cannot write %s\n", argv[3]);
        return 1;
    }
    struct lh_sim_timeline_counts counts = lh_sim_timeline_counts(t);
    printf("{\"lanes\":%zu,\"transitions\":%zu,\"given\":%zu,\"held\":%zu,\"faults\":%zu,"
           "\"arrows\":%zu}\n",
        counts.lanes, counts.transitions, counts.given, counts.held, counts.faults, counts.arrows);
    const char *rule =
        lh_sim_failure(lh_sim_world(c)) == NULL ? "" : lh_sim_failed_rule(lh_sim_world(c));
    printf("%s\n", rule);
    lh_sim_cluster_destroy(c);
    lh_sim_timeline_destroy(t);
    lh_sim_observers_destroy(observers);
    return 0;
}
