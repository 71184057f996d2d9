/* What a seed stands for. */
#include "sim/run/run.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "proto/leasehold.pb-c.h"
#include "sim/run/plan_parts.h"
#include "sim/run/sizes.h"

#include <stdlib.h>
#include <string.h>

static const char *const profiles[LH_SIM_PROFILE_COUNT] = {"swarm", "faults", "calm", "clocks",
    "ruin", "restored", "strangers", "masters", "leases", "wire"};

const char *lh_sim_profile_name(enum lh_sim_profile profile)
{
    return profiles[profile];
}

bool lh_sim_profile_find(const char *name, enum lh_sim_profile *profile)
{
    for (int i = 0; i < LH_SIM_PROFILE_COUNT; i++) {
        if (strcmp(profiles[i], name) == 0) {
            *profile = (enum lh_sim_profile)i;
            return true;
        }
    }
    return false;
}

/* A session term is at least this many of the longest delays. */
#define SESSION_DELAYS 12

/* And at least so many terms of a reign. */
#define REIGN_SESSIONS 4

/* Small numbers more often than large ones. */
uint32_t lh_sim_few(struct lh_prng *random, uint32_t min, uint32_t max)
{
    uint32_t a = (uint32_t)lh_prng_between(random, min, max),
             b = (uint32_t)lh_prng_between(random, min, max);

    return a < b ? a : b;
}

/* ---- Settings ---- */

static void draw_network(struct lh_sim_settings *s, struct lh_prng *random)
{
    switch (lh_prng_below(random, 4)) {
    case 0: /* a fast local one: the default */
        break;
    case 1:
        s->delay =
            lh_sim_up_to(lh_nanoseconds(100000), lh_milliseconds(lh_prng_between(random, 2, 20)));
        break;
    case 2: /* far apart */
        s->delay =
            lh_sim_up_to(lh_milliseconds(10), lh_milliseconds(lh_prng_between(random, 12, 60)));
        break;
    default: /* everything overtakes everything */
        s->delay =
            lh_sim_up_to(lh_nanoseconds(1000), lh_milliseconds(lh_prng_between(random, 20, 120)));
        break;
    }
    if (lh_prng_chance(random, 30))
        s->notice = lh_sim_up_to(lh_milliseconds(100), lh_seconds(lh_prng_between(random, 1, 8)));
}

static void draw_disks(struct lh_sim_settings *s, struct lh_prng *random)
{
    if (lh_prng_chance(random, 50))
        s->sync =
            lh_sim_up_to(lh_nanoseconds(200000), lh_milliseconds(lh_prng_between(random, 2, 40)));
    if (lh_prng_chance(random, 30))
        s->write =
            lh_sim_up_to(lh_nanoseconds(5000), lh_milliseconds(lh_prng_between(random, 1, 20)));
    if (lh_prng_chance(random, 30))
        s->commit =
            lh_sim_up_to(lh_nanoseconds(200000), lh_milliseconds(lh_prng_between(random, 2, 50)));
    if (lh_prng_chance(random, 30))
        s->timer_late = lh_milliseconds(lh_prng_between(random, 1, 50));
}

static void draw_terms(struct lh_sim_settings *s, struct lh_prng *random)
{
    static const uint32_t session_ms[] = {500, 1000, 3000, 3000, 10000};
    static const uint32_t drift_ppm[] = {10000, 10000, 10000, 1000, 100000};

    s->session_term = lh_milliseconds(session_ms[lh_prng_below(random, 5)]);
    /* A session that an answer's way back and forth uses up can never be held. */
    while (s->session_term.ns < s->delay.max.ns * SESSION_DELAYS)
        s->session_term.ns *= 2;
    s->chunk_term = lh_nanoseconds(s->session_term.ns * lh_prng_between(random, 1, 4));
    s->drift_ppm = drift_ppm[lh_prng_below(random, 5)];
}

static void draw_files(struct lh_sim_settings *s, struct lh_prng *random)
{
    bool all_synced = lh_prng_chance(random, 40);

    s->file_count = lh_sim_few(random, 1, 3);
    for (uint32_t i = 0; i < s->file_count; i++) {
        struct lh_sim_file_setting *f = &s->files[i];
        *f = (struct lh_sim_file_setting){.synced = all_synced || lh_prng_chance(random, 40)};
        (void)snprintf(f->path, sizeof f->path, "/log-%u", (unsigned)(i + 1));
    }
}

static uint64_t one_of(struct lh_prng *random, const uint64_t *values, size_t count)
{
    return values[lh_prng_below(random, count)];
}

#define ONE_OF(random, ...)                                                                        \
    one_of((random), (const uint64_t[]){__VA_ARGS__},                                              \
        sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* How replicas are kept, in a run's measure of time. */
static void draw_keeping(struct lh_sim_settings *s, struct lh_prng *random)
{
    s->on_loss = lh_prng_chance(random, 60) ? LEASEHOLD__ON_PRIMARY_LOSS__ROLL
                                            : LEASEHOLD__ON_PRIMARY_LOSS__WAIT;
    for (uint32_t i = 0; i < s->file_count; i++)
        if (lh_prng_chance(random, 20))
            s->files[i].on_loss = lh_prng_chance(random, 50) ? LEASEHOLD__ON_PRIMARY_LOSS__ROLL
                                                             : LEASEHOLD__ON_PRIMARY_LOSS__WAIT;
    s->suspect_after = lh_milliseconds(ONE_OF(random, 100, 300, 300, 1000));
    s->grace = lh_seconds(ONE_OF(random, 1, 3, 10, 300));
    s->repair_streams = lh_sim_few(random, 1, 4);
    s->repair_rate = ONE_OF(random, UINT64_MAX, UINT64_MAX, 1 << 20, 8 << 20);
    s->scrub_period = lh_seconds(ONE_OF(random, 0, 2, 5, 15));
    s->trash_retention = lh_seconds(ONE_OF(random, 0, 2, 10, 300));
    s->balance = lh_prng_chance(random, 20);
}

static void draw_settings(struct lh_sim_settings *s, struct lh_prng *random)
{
    s->servers = lh_sim_few(random, 3, 7);
    s->clients = lh_sim_few(random, 1, 4);
    s->replication = lh_sim_few(random, 2, 5);
    if (s->replication > s->servers)
        s->replication = s->servers;
    s->min_replicas = s->replication < 4 ? 2 : (uint32_t)lh_prng_between(random, 2, 3);
    s->chunk_size = (uint64_t)LH_CHUNK_BYTES_MIN << lh_prng_below(random, 3);
    draw_network(s, random);
    draw_terms(s, random);
    draw_disks(s, random);
    draw_files(s, random);
    draw_keeping(s, random);
}

/* Masters that share an etcd. All that is drawn comes from a stream of its own: other profiles are
 * as if there were none. */
static void draw_masters(struct lh_sim_plan *plan, struct lh_prng *random)
{
    struct lh_sim_settings *s = &plan->settings;

    s->masters = lh_sim_few(random, 2, 4);
    s->etcd = (uint32_t[]){1, 3, 3, 3, 5}[lh_prng_below(random, 5)];
    s->watchers = lh_prng_chance(random, 60);
    if (lh_prng_chance(random, 40))
        s->etcd_takes =
            lh_sim_up_to(lh_nanoseconds(200000), lh_milliseconds(lh_prng_between(random, 3, 40)));
    /* A transaction, its copy at another member and late timers fit into a fraction of it. */
    uint64_t least = 8 * (2 * s->delay.max.ns + s->etcd_takes.max.ns + s->timer_late.ns);
    if (least < LH_REIGN_TERM_MIN_NS)
        least = LH_REIGN_TERM_MIN_NS;
    s->reign_term.ns =
        lh_prng_chance(random, 50) ? least : lh_prng_between(random, least, 3 * least);
    /* A session outlives what a change of masters takes. */
    while (s->session_term.ns < s->reign_term.ns * REIGN_SESSIONS) {
        s->session_term.ns *= 2;
        s->chunk_term.ns *= 2;
    }
}

/* ---- Programs ---- */

void lh_sim_plan_add(struct lh_sim_plan *plan, const struct lh_sim_action *a)
{
    LH_GROW(plan->actions, plan->action_capacity, plan->action_count + 1);
    plan->actions[plan->action_count++] = *a;
}

static struct lh_sim_action program(struct lh_sim_plan *plan, struct lh_prng *random,
    enum lh_sim_action_kind kind, enum lh_sim_program_kind program_kind, const char *name,
    uint32_t number)
{
    const struct lh_sim_settings *s = &plan->settings;
    struct lh_sim_action a = lh_sim_action_default(kind);

    a.program = lh_sim_program_default(program_kind);
    (void)snprintf(a.program.name, sizeof a.program.name, "%s%u", name, number);
    a.program.client = (uint32_t)lh_prng_between(random, 1, s->clients);
    a.program.seed = lh_prng_next(random) >> 32;
    (void)snprintf(a.program.path, sizeof a.program.path, "%s",
        s->files[lh_prng_below(random, s->file_count)].path);
    return a;
}

static void draw_writer(struct lh_sim_plan *plan, struct lh_prng *random, uint32_t number,
    uint64_t slowest_ms, bool all_alike)
{
    struct lh_sim_action a = program(plan, random, LH_SIM_ACT_WRITER, LH_SIM_WRITER, "w", number);
    struct lh_sim_program_spec *p = &a.program;

    p->records_max = lh_sim_few(random, 1, 12);
    switch (lh_prng_below(random, 4)) {
    case 0:
        p->bytes_max = (uint32_t)lh_prng_between(random, 0, 100);
        break;
    case 1: /* up to the largest batch: half a chunk */
        p->records_max = 1;
        p->bytes_max = (uint32_t)(plan->settings.chunk_size / 4 - 64);
        break;
    default:
        p->bytes_max = (uint32_t)lh_prng_between(random, 100, 5000 / p->records_max);
        break;
    }
    p->every =
        lh_sim_up_to(lh_milliseconds(1), lh_milliseconds(lh_prng_between(random, 2, slowest_ms)));
    p->window = lh_sim_few(random, 1, 20);
    if (all_alike) {
        p->records_max = 1;
        p->bytes_min = p->bytes_max = 100;
        p->again = lh_prng_chance(random, 50);
    }
    a.at = lh_prng_below(random, UINT64_C(2000000000));
    lh_sim_plan_add(plan, &a);
}

/* Files that come and go, and writers that append to some of them. */
static void draw_files_program(struct lh_sim_plan *plan, struct lh_prng *random, uint32_t writers)
{
    struct lh_sim_action a = program(plan, random, LH_SIM_ACT_FILES, LH_SIM_FILES, "f", 1);
    uint32_t more = lh_sim_few(random, 0, 3);

    (void)snprintf(a.program.path, sizeof a.program.path, "/other");
    a.program.every =
        lh_sim_up_to(lh_milliseconds(10), lh_milliseconds(lh_prng_between(random, 20, 500)));
    lh_sim_plan_add(plan, &a);
    for (uint32_t i = 0; i < more; i++) {
        a = program(plan, random, LH_SIM_ACT_WRITER, LH_SIM_WRITER, "w", writers + 1 + i);
        (void)snprintf(a.program.path, sizeof a.program.path, "/other-%u", (unsigned)i);
        lh_sim_plan_add(plan, &a);
    }
}

static void draw_programs(struct lh_sim_plan *plan, struct lh_prng *random)
{
    uint32_t writers =
        lh_prng_chance(random, 5) ? lh_sim_few(random, 16, 64) : lh_sim_few(random, 1, 8);
    uint32_t readers = lh_sim_few(random, 0, 4);
    /* Together they append at about the same rate, however many they are. */
    uint64_t slowest_ms = 20 + (uint64_t)writers * lh_prng_between(random, 5, 60);

    bool all_alike = lh_prng_chance(random, 25); /* batches that can be taken for one another */

    for (uint32_t i = 1; i <= writers; i++)
        draw_writer(plan, random, i, slowest_ms, all_alike);
    for (uint32_t i = 1; i <= readers; i++) {
        struct lh_sim_action a = program(plan, random, LH_SIM_ACT_READER, LH_SIM_READER, "r", i);
        a.at = lh_prng_below(random, plan->duration.ns / 2);
        if (lh_prng_chance(random, 40)) { /* it wants to know the very end, again and again */
            a.program.follow = false;
            a.program.again = true;
        }
        lh_sim_plan_add(plan, &a);
    }
    if (lh_prng_chance(random, 30))
        draw_files_program(plan, random, writers);
}

/* Names are what masters know: several programs change the same ones. */
static void add_files_program(struct lh_sim_plan *plan, struct lh_prng *random)
{
    uint32_t count = lh_sim_few(random, 1, 3);

    for (uint32_t i = 1; i <= count; i++) {
        struct lh_sim_action a = program(plan, random, LH_SIM_ACT_FILES, LH_SIM_FILES, "names", i);
        (void)snprintf(a.program.path, sizeof a.program.path, "/name");
        a.program.every =
            lh_sim_up_to(lh_milliseconds(5), lh_milliseconds(lh_prng_between(random, 10, 300)));
        lh_sim_plan_add(plan, &a);
    }
}

/* A copy is kept, the master goes on, and some time later starts again with the copy. */
static void draw_restoring(struct lh_sim_plan *plan, struct lh_prng *random)
{
    struct lh_sim_action keep = lh_sim_action_default(LH_SIM_ACT_BACK_UP);
    struct lh_sim_action restore = lh_sim_action_default(LH_SIM_ACT_RESTORE_STORE);

    keep.who.kind = restore.who.kind = LH_SIM_WHO_MASTER;
    keep.at = UINT64_C(1000000000) + lh_prng_below(random, plan->duration.ns / 3);
    restore.at = keep.at + lh_prng_below(random, plan->duration.ns / 2);
    lh_sim_plan_add(plan, &keep);
    lh_sim_plan_add(plan, &restore);
}

/* ---- All together ---- */

static int by_time(const void *a, const void *b)
{
    const struct lh_sim_action *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

/* Insertion: equal times keep their order, which qsort() does not promise. */
static void sort(struct lh_sim_plan *plan)
{
    for (size_t i = 1; i < plan->action_count; i++) {
        struct lh_sim_action a = plan->actions[i];
        size_t k = i;
        for (; k > 0 && by_time(&plan->actions[k - 1], &a) > 0; k--)
            plan->actions[k] = plan->actions[k - 1];
        plan->actions[k] = a;
    }
}

#define LARGE_CHUNK (UINT64_C(4) << 20)

/* What else is drawn where the wire carries links, from a stream of its own. */
static enum lh_sim_profile profile_on_the_wire(struct lh_prng *random)
{
    uint64_t of_twenty = lh_prng_below(random, 20);

    return of_twenty < 10   ? LH_SIM_PROFILE_FAULTS
           : of_twenty < 14 ? LH_SIM_PROFILE_LEASES
           : of_twenty < 17 ? LH_SIM_PROFILE_MASTERS
           : of_twenty < 19 ? LH_SIM_PROFILE_STRANGERS
                            : LH_SIM_PROFILE_CALM;
}

void lh_sim_plan_draw(struct lh_sim_plan *plan, uint64_t seed, enum lh_sim_profile profile)
{
    struct lh_prng random = {lh_mix64(seed ^ UINT64_C(0x6c656173656c6468))};
    struct lh_prng of_wire = {lh_mix64(seed ^ UINT64_C(0x6f6e77697265))};
    bool on_the_wire = profile == LH_SIM_PROFILE_WIRE;
    char text[256];

    if (on_the_wire)
        profile = profile_on_the_wire(&of_wire);
    if (profile == LH_SIM_PROFILE_SWARM) {
        uint64_t of_twenty = lh_prng_below(&random, 20);
        profile = of_twenty < 2    ? LH_SIM_PROFILE_CLOCKS
                  : of_twenty == 2 ? LH_SIM_PROFILE_RUIN
                  : of_twenty == 3 ? LH_SIM_PROFILE_RESTORED
                                   : LH_SIM_PROFILE_FAULTS;
    }
    *plan = (struct lh_sim_plan){.settings = lh_sim_settings_default(seed)};
    draw_settings(&plan->settings, &random);
    struct lh_prng shared = {lh_mix64(seed ^ UINT64_C(0x6d617374657273))};
    struct lh_prng leases = {lh_mix64(seed ^ UINT64_C(0x6c6561736573))};
    bool with_masters = profile == LH_SIM_PROFILE_MASTERS ||
                        (profile == LH_SIM_PROFILE_LEASES && lh_prng_chance(&leases, 45));
    if (profile == LH_SIM_PROFILE_LEASES)
        plan->settings.clients = 1 + lh_sim_few(&leases, 1, 5);
    if (with_masters)
        draw_masters(plan, &shared);
    plan->duration = lh_nanoseconds(
        plan->settings.session_term.ns * lh_prng_between(&random, 2, 10) + 2000000000);
    draw_programs(plan, &random);
    lh_sim_fault_mix_draw(&plan->mix, &plan->settings, &random);
    switch (profile) {
    case LH_SIM_PROFILE_CALM:
        plan->mix = (struct lh_sim_fault_mix){0};
        break;
    case LH_SIM_PROFILE_CLOCKS:
        plan->settings.clocks_beyond_rho = true;
        plan->mix.weights[LH_SIM_FAULT_DRIFT] = 10;
        plan->mix.weights[LH_SIM_FAULT_PRIMARY_CUT] = 5;
        plan->mix.weights[LH_SIM_FAULT_OUTLIVE] = 10;
        plan->mix.drift_ppm = 900000;
        break;
    case LH_SIM_PROFILE_RUIN:
        plan->settings.ruin = true;
        plan->mix.weights[LH_SIM_FAULT_IO_ERROR] = 3;
        plan->mix.weights[LH_SIM_FAULT_ROT] = 3;
        plan->mix.weights[LH_SIM_FAULT_SHUT_DOWN] =
            0; /* what all disks lie about nobody can tell */
        plan->mix.weights[LH_SIM_FAULT_POWER] = 5;
        plan->mix.weights[LH_SIM_FAULT_RACK] = 2;
        plan->mix.weights[LH_SIM_FAULT_LOSE_DISK] = 2;
        plan->mix.damage_servers = plan->settings.servers;
        plan->mix.power_losses = UINT32_MAX;
        break;
    case LH_SIM_PROFILE_RESTORED:
        draw_restoring(plan, &random);
        break;
    case LH_SIM_PROFILE_STRANGERS:
        plan->settings.strangers = lh_sim_few(&random, 1, 4);
        plan->settings.roles = lh_prng_chance(&random, 30);
        if (plan->settings.roles) {
            plan->mix.readers = (plan->settings.strangers + 1) / 2;
            plan->mix.weights[LH_SIM_FAULT_ROLES] = 1 + (uint32_t)lh_prng_below(&random, 10);
        }
        break;
    case LH_SIM_PROFILE_MASTERS:
        lh_sim_fault_mix_draw_masters(&plan->mix, &plan->settings, &shared);
        if (lh_prng_chance(&shared, 10)) {
            plan->settings.clocks_beyond_rho = true;
            plan->mix.weights[LH_SIM_FAULT_DRIFT] = 10;
            plan->mix.drift_ppm = 900000;
        }
        if (lh_prng_chance(&shared, 40))
            add_files_program(plan, &shared);
        /* Who starts while only the wrong one is there would choose it. */
        plan->settings.newcomers = lh_prng_chance(&shared, 30);
        if (plan->settings.newcomers)
            plan->mix.weights[LH_SIM_FAULT_ASTRAY] = 0;
        break;
    case LH_SIM_PROFILE_LEASES:
        if (with_masters)
            lh_sim_fault_mix_draw_masters(&plan->mix, &plan->settings, &shared);
        lh_sim_fault_mix_draw_leases(&plan->mix, &plan->settings, &leases);
        if (lh_prng_chance(&leases, 10)) {
            plan->settings.clocks_beyond_rho = true;
            plan->mix.weights[LH_SIM_FAULT_LEASE_EDGE] = 10;
            plan->mix.drift_ppm = 900000;
        }
        lh_sim_plan_leases(plan, &leases);
        break;
    default:
        break;
    }
    plan->settings.replicas_may_be_lost =
        plan->mix.damage_servers > 0 || plan->mix.power_losses != UINT32_MAX;
    lh_sim_sizes_draw(plan, seed);
    /* In a tenth all of it is as shipped; and where chunks are, else a run takes minutes. */
    if (on_the_wire)
        plan->settings.wire =
            1 + lh_prng_below(&of_wire, 10) * (1 + (lh_prng_next(&of_wire) >> 40));
    if (on_the_wire && plan->settings.chunk_size > LARGE_CHUNK)
        plan->settings.wire = 1;
    sort(plan);
    LH_ASSERT(lh_sim_settings_check(&plan->settings, text, sizeof text) == LH_OK);
}

void lh_sim_plan_deinit(struct lh_sim_plan *plan)
{
    free(plan->actions);
    *plan = (struct lh_sim_plan){0};
}

void lh_sim_plan_copy(struct lh_sim_plan *to, const struct lh_sim_plan *from)
{
    *to = *from;
    to->action_capacity = from->action_count;
    to->actions = lh_alloc_array(from->action_count, sizeof *to->actions);
    if (from->action_count > 0)
        memcpy(to->actions, from->actions, from->action_count * sizeof *to->actions);
}
