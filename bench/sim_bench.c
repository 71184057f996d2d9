/* How fast the simulator is: simulated seconds for each second of one core under a moderate load,
 * events in a second under a heavy one, and what memory that takes.
 *
 *   bazel run --config=release //bench:sim_bench [-- SECONDS]
 *
 * Five chunkservers, four writers and two readers on two files, each program at a client of its
 * own; default terms, chunks of 64 KiB, no faults. Every core's own check, which walks all that it
 * has, comes after each sixteenth of its steps; observers see each of them.
 * Moderate: a writer sends a batch of up to three records of up to 2000 bytes every 50 ms to
 * 350 ms, so that twenty arrive in a second. Heavy: every 2 ms, of up to 200 bytes. SECONDS (300)
 * are simulated of the one and a tenth of it of the other. */
#include "base/assert.h"
#include "sim/cluster/program.h"
#include "sim/observers/observers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define GOAL_SECONDS 1000.0
#define GOAL_EVENTS  500000.0
#define GOAL_MIB     200.0

#define CHECK_EVERY 16

struct load {
    const char *name;
    struct lh_sim_range every; /* a writer's batches */
    uint32_t bytes;            /* of a record at most; one to three are a batch */
    uint64_t seconds;          /* simulated */
};

struct result {
    double took, simulated;
    uint64_t events, appends;
};

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct lh_sim_cluster *cluster_with_programs(
    const struct load *load, struct lh_sim_observers **observers)
{
    struct lh_sim_cluster_config config = lh_sim_cluster_config_default(1);
    static const char *const paths[] = {"/a", "/b"};

    config.servers = 5;
    config.clients = 6;
    config.world.check_every = CHECK_EVERY;
    struct lh_sim_cluster *c = lh_sim_cluster_create(&config);
    *observers = lh_sim_observers_create(c, NULL);
    bool started = lh_sim_cluster_start(c, lh_seconds(60));
    LH_ASSERT(started);
    for (size_t i = 0; i < 2; i++) {
        int error = lh_sim_create_file(c, paths[i], NULL);
        LH_ASSERT(error == LH_OK);
    }
    for (uint32_t i = 0; i < 6; i++) {
        struct lh_sim_program_spec spec =
            lh_sim_program_default(i < 4 ? LH_SIM_WRITER : LH_SIM_READER);
        (void)snprintf(spec.name, sizeof spec.name, "p%u", i + 1);
        (void)snprintf(spec.path, sizeof spec.path, "%s", paths[i % 2]);
        spec.client = i + 1;
        spec.seed = i + 1;
        spec.every = load->every;
        spec.bytes_max = load->bytes;
        lh_sim_program_start(c, &spec);
    }
    return c;
}

static struct result run(const struct load *load)
{
    struct lh_sim_observers *observers;
    struct lh_sim_cluster *c = cluster_with_programs(load, &observers);
    struct lh_sim *sim = lh_sim_world(c);
    uint64_t events = lh_sim_events(sim), before = lh_sim_now(sim);
    struct result r = {.took = -cpu_seconds()};

    lh_sim_run_for(sim, lh_seconds(load->seconds));
    r.took += cpu_seconds();
    if (lh_sim_failure(sim) != NULL) {
        (void)fprintf(stderr, "%s\n", lh_sim_failure(sim));
        exit(1);
    }
    r.simulated = (double)(lh_sim_now(sim) - before) * 1e-9;
    r.events = lh_sim_events(sim) - events;
    for (const struct lh_sim_program *p = NULL; (p = lh_sim_program_next(c, p)) != NULL;)
        if (lh_sim_program_spec(p)->kind == LH_SIM_WRITER)
            r.appends += lh_sim_program_status(p).succeeded;
    lh_sim_observers_destroy(observers);
    lh_sim_cluster_destroy(c);
    printf("%-10s %6.0f s simulated in %6.2f s  %8.0f simulated s/s  %9.0f events/s  %" PRIu64
           " events, %" PRIu64 " appends\n",
        load->name, r.simulated, r.took, r.simulated / r.took, (double)r.events / r.took, r.events,
        r.appends);
    (void)fflush(stdout);
    return r;
}

static bool verdict(const char *what, bool met)
{
    printf("%s  %s\n", met ? "PASS" : "FAIL", what);
    return met;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    uint64_t seconds = argc > 1 ? strtoull(argv[1], &end, 10) : 300;

    if (argc > 2 || (end != NULL && *end != '\0') || seconds < 10 || seconds > 100000) {
        (void)fprintf(stderr, "usage: sim_bench [SECONDS], from 10 to 100000\n");
        return 2;
    }
    struct result moderate =
        run(&(struct load){"moderate", {lh_milliseconds(50), lh_milliseconds(350)}, 2000, seconds});
    struct result heavy =
        run(&(struct load){"heavy", {lh_milliseconds(2), lh_milliseconds(2)}, 200, seconds / 10});
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    double mib = (double)usage.ru_maxrss / 1024;
    printf("%.0f MiB at most\n", mib);

    bool good = verdict("1000 simulated seconds in a second, moderate load",
        moderate.simulated / moderate.took >= GOAL_SECONDS);
    good &= verdict(
        "500000 events in a second, heavy load", (double)heavy.events / heavy.took >= GOAL_EVENTS);
    good &= verdict("less than 200 MiB of memory", mib < GOAL_MIB);
    return good ? 0 : 1;
}
