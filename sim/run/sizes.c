/* How small the cores' bounds are in a run, and the few runs in which they and everything else are
 * as shipped: what is cut at 8 MiB is cut in no chunk of 64 KiB.
 *
 * Drawn from a stream of its own, so that a new bound leaves all other draws alone; one that is
 * `later`, from another, so that it leaves the older bounds alone, too. */
#include "sim/run/sizes.h"

#include "base/assert.h"
#include "sim/run/run.h"
#include <string.h>

#define SHIPPED_CHUNK (UINT64_C(64) << 20)

/* Of what a chunk can hold so many pieces at most: smaller ones only take the simulator's time. And
 * where each waits for an answer, a chunk is read or copied within about so long: else a file's end
 * is not reached in the time that a run has to become well. */
#define PIECES_MOST 512u
#define CHUNK_TIME  UINT64_C(5000000000)

/* Writers and readers of a run. */
#define PROGRAMS_MOST 100u

/* Every power of two between the two has the same chance. */
static uint64_t spread(struct lh_prng *random, uint64_t least, uint64_t most)
{
    uint32_t doublings = 0;

    LH_ASSERT(least > 0);
    while (least << doublings < most / 2)
        doublings++;
    uint64_t low = least << lh_prng_below(random, doublings + 1);
    uint64_t drawn = low + lh_prng_below(random, low);
    return drawn < most ? drawn : most;
}

/* What waits for a message there and back, and for disks on the way, waits longer than these may
 * take: with less nothing would ever be done, and that is no fault. */
static uint64_t shortest_wait(const struct lh_sim_settings *s)
{
    return 100000000 + 12 * s->delay.max.ns + 4 * s->timer_late.ns +
           8 * (s->write.max.ns + s->sync.max.ns + s->read.max.ns + s->commit.max.ns);
}

static uint64_t most_pieces(const struct lh_sim_settings *s)
{
    uint64_t pieces = CHUNK_TIME / (1 + 2 * s->delay.max.ns + s->read.max.ns + s->write.max.ns);

    return pieces < PIECES_MOST ? pieces : PIECES_MOST;
}

static uint64_t least_of(const struct lh_sim_bound *b, const struct lh_sim_settings *s)
{
    uint64_t least = b->least;

    if (b->unit == LH_SIM_BOUND_TIME)
        least = shortest_wait(s);
    else if (b->unit == LH_SIM_BOUND_BYTES && least < s->chunk_size / most_pieces(s))
        least = s->chunk_size / most_pieces(s);
    return least < b->shipped ? least : b->shipped;
}

/* As large, compared with a chunk, as it is as shipped. */
static uint64_t scaled(const struct lh_sim_bound *b, const struct lh_sim_settings *s)
{
    uint64_t value = b->unit == LH_SIM_BOUND_BYTES
                         ? (uint64_t)((double)b->shipped / SHIPPED_CHUNK * (double)s->chunk_size)
                         : b->shipped;
    uint64_t least = least_of(b, s);

    return value > least ? value : least;
}

/* What is shipped, and a few records of up to 15 MB among small ones. Few, so that a run stays
 * quick and fits into memory. */
#define RECORD_MOST 15000000u

static void draw_shipped(struct lh_sim_plan *plan, struct lh_prng *random)
{
    uint32_t large = 1 + (uint32_t)lh_prng_below(random, 2);

    plan->settings.chunk_size = SHIPPED_CHUNK;
    for (size_t i = 0; i < plan->action_count; i++) {
        struct lh_sim_program_spec *p = &plan->actions[i].program;
        if (plan->actions[i].kind != LH_SIM_ACT_WRITER)
            continue;
        if (p->bytes_max > 5000)
            p->bytes_max = 5000;
        if (large == 0)
            continue;
        large--;
        p->records_max = p->records_min = 1;
        p->bytes_min = 0;
        p->bytes_max = RECORD_MOST;
        p->count = 2 + lh_prng_below(random, 5);
        p->window = 1 + (uint32_t)lh_prng_below(random, 3);
        p->every.min = lh_milliseconds(50);
        p->every.max = lh_milliseconds(400);
        p->again = false;
    }
}

uint64_t *lh_sim_bound_of(struct lh_sim_settings *s, const char *core, const char *name)
{
    size_t count;
    const struct lh_sim_bound *all = lh_sim_bounds(&count);
    size_t i = 0;

    while (i < count && (strcmp(all[i].core, core) != 0 || strcmp(all[i].name, name) != 0))
        i++;
    LH_ASSERT(i < count);
    if (s->bounds[i] == 0)
        s->bounds[i] = all[i].shipped;
    return &s->bounds[i];
}

/* Within so long after it was decided a request has arrived or never does, pauses of both ends
 * included. */
#define LATE_MOST UINT64_C(60000000000)

/* A run has fewer clients: beyond the bound on marks none changes anything for a while. */
#define CLIENTS_MOST UINT64_C(100000)

/* What goes together. Answers of calls are kept for twice as long as those are repeated (HA-12). A
 * client asks for no more lanes, and writers on them, than its server takes; and every program of a
 * run may wait at the master, or one that always comes too late waits for ever. */
static void agree(struct lh_sim_settings *s)
{
    static const char *const rooms[] = {"stream_writers", "stream_lanes"};
    uint64_t *repeats = lh_sim_bound_of(s, "client", "repeat_for");
    uint64_t *keeps = lh_sim_bound_of(s, "master", "call_keep");
    uint64_t *marks = lh_sim_bound_of(s, "master", "call_marks_max");
    uint64_t *waits = lh_sim_bound_of(s, "master", "waiters_max");
    uint64_t *waits_for_one = lh_sim_bound_of(s, "master", "waiters_file_max");

    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        uint64_t *asks = lh_sim_bound_of(s, "client", rooms[i]);
        uint64_t takes = *lh_sim_bound_of(s, "chunkserver", rooms[i]);
        if (*asks > takes)
            *asks = takes;
    }
    if (*waits < PROGRAMS_MOST)
        *waits = PROGRAMS_MOST;
    if (*waits_for_one < PROGRAMS_MOST)
        *waits_for_one = PROGRAMS_MOST;
    if (*keeps < 2 * *repeats + LATE_MOST)
        *keeps = 2 * *repeats + LATE_MOST;
    if (*marks < CLIENTS_MOST)
        *marks = CLIENTS_MOST;
}

/* Programs can do something at all; and terms stand in their order. */
static void agree_on_leases(struct lh_sim_settings *s)
{
    static const struct {
        const char *name;
        uint64_t least;
    } leasts[] = {{"programs_max", 24}, {"program_locks_max", 8}, {"locks_max", 32},
        {"waits_max", 24}, {"sharers_max", 4}, {"values_max", 8}, {"values_bytes_max", 1u << 16},
        {"changes_bytes_max", 1u << 16}, {"changes_waiting_max", 8}, {"attached_max", 4},
        {"reads_waiting_max", 16}, {"policies_max", 4}, {"watchers_max", 8}, {"lock_events", 4},
        {"programs_send_bytes", 1u << 16}};
    uint64_t *least = lh_sim_bound_of(s, "master", "program_term_min");
    uint64_t *usual = lh_sim_bound_of(s, "master", "program_term");
    uint64_t *most = lh_sim_bound_of(s, "master", "program_term_max");

    for (size_t i = 0; i < sizeof leasts / sizeof leasts[0]; i++) {
        uint64_t *value = lh_sim_bound_of(s, "master", leasts[i].name);
        if (*value < leasts[i].least)
            *value = leasts[i].least;
    }
    if (*usual < *least)
        *usual = *least;
    if (*most < *usual)
        *most = *usual;
}

/* What programs changed stays in the store for watchers: so many pairs a master cannot load one by
 * one while others wait. */
#define PAGE_KEYS_LEAST UINT64_C(16)

/* Of masters that share an etcd. Times stand to a reign's term as they are shipped, or shrink with
 * it; but what a call of etcd takes there and back fits in. */
static uint64_t reign_value(
    const struct lh_sim_bound *b, const struct lh_sim_settings *s, struct lh_prng *random)
{
    const uint64_t usual = 2000000000; /* the term as shipped */
    uint64_t least = b->least, most = b->shipped;

    if (b->unit == LH_SIM_BOUND_TIME) {
        most = b->shipped / 1000 * (s->reign_term.ns / (usual / 1000));
        least = strcmp(b->name, "call_timeout") == 0
                    ? 3 * (2 * s->delay.max.ns + s->etcd_takes.max.ns + s->timer_late.ns)
                    : most / 50;
        if (least < 1000000)
            least = 1000000;
    }
    if (most < least)
        return least;
    return lh_prng_chance(random, 40)   ? most
           : lh_prng_chance(random, 40) ? least
                                        : spread(random, least, most);
}

static void draw_reigns(struct lh_sim_settings *s, bool leases, uint64_t seed)
{
    struct lh_prng random = {lh_mix64(seed ^ UINT64_C(0x726569676e73))};
    size_t count;
    const struct lh_sim_bound *bounds = lh_sim_bounds(&count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(bounds[i].core, "reign") != 0)
            continue;
        uint64_t value = reign_value(&bounds[i], s, &random);
        s->bounds[i] = value == bounds[i].shipped ? 0 : value;
    }
    uint64_t *page = lh_sim_bound_of(s, "reign", "page_keys");
    if (leases && *page < PAGE_KEYS_LEAST)
        *page = PAGE_KEYS_LEAST;
}

/* They are over many times in a run, or never; and a client has the time to use one. Drawn from a
 * stream of its own, at last: whether there are any changes no other draw. */
static void draw_capabilities(struct lh_sim_settings *s, uint64_t seed)
{
    struct lh_prng random = {lh_mix64(seed ^ UINT64_C(0x6361706162696c69))};
    uint64_t least = 4 * shortest_wait(s), most = UINT64_C(60000000000);

    s->capabilities = s->roles || lh_prng_chance(&random, s->strangers > 0 ? 60 : 20);
    if (!s->capabilities || lh_prng_chance(&random, 20))
        return;
    least = least < s->session_term.ns ? s->session_term.ns : least;
    uint64_t term = least < most ? spread(&random, least, most) : least;
    *lh_sim_bound_of(s, "master", "capability_term") = term;
    *lh_sim_bound_of(s, "master", "capability_key_period") = spread(&random, term / 2, 4 * term);
    *lh_sim_bound_of(s, "chunkserver", "capability_keys") = lh_prng_between(&random, 3, 8);
}

/* Likewise: whose replicas the master asks for (SES-1a). */
static void draw_turns(struct lh_sim_settings *s, uint64_t seed)
{
    struct lh_prng random = {lh_mix64(seed ^ UINT64_C(0x7475726e73))};
    uint64_t least = shortest_wait(s);

    if (lh_prng_chance(&random, 25))
        return;
    *lh_sim_bound_of(s, "master", "turn_servers") = lh_prng_between(&random, 1, 3);
    *lh_sim_bound_of(s, "master", "turn_time") = spread(&random, least, 10 * least);
}

static bool is_drawn_apart(const struct lh_sim_bound *b)
{
    return strncmp(b->name, "capability_", strlen("capability_")) == 0 ||
           strncmp(b->name, "turn_", strlen("turn_")) == 0;
}

static void draw_sizes(struct lh_sim_plan *plan, uint64_t seed)
{
    if (plan->settings.etcd > 0)
        draw_reigns(&plan->settings, plan->mix.lease.ns > 0, seed);

    struct lh_prng random = {lh_mix64(seed ^ UINT64_C(0x73697a6573))};
    struct lh_prng of_leases = {lh_mix64(seed ^ UINT64_C(0x626f756e64))};
    struct lh_prng later = {lh_mix64(seed ^ UINT64_C(0x6c61746572))};
    struct lh_sim_settings *s = &plan->settings;
    size_t count;
    const struct lh_sim_bound *bounds = lh_sim_bounds(&count);
    /* In so many of a hundred runs all is as shipped but the chunks; in others so many bounds of a
     * hundred are anything, and so many the least. */
    bool shipped = lh_prng_chance(&random, 25);
    uint32_t any = (uint32_t[]){0, 5, 30, 60}[lh_prng_below(&random, 4)];
    uint32_t smallest = (uint32_t[]){0, 0, 5, 30}[lh_prng_below(&random, 4)];

    if (lh_prng_chance(&random, 2)) {
        draw_shipped(plan, &random);
        return;
    }
    for (size_t i = 0; i < count && !shipped; i++) {
        const struct lh_sim_bound *b = &bounds[i];
        if (strcmp(b->core, "reign") == 0 || is_drawn_apart(b) ||
            (b->leases && plan->mix.lease.ns == 0) || b->shipped == 0) /* off, or on by the plan */
            continue;
        struct lh_prng *draw = b->leases ? &of_leases : b->later ? &later : &random;
        uint64_t value = scaled(b, s);
        if (lh_prng_chance(draw, any))
            value = spread(draw, least_of(b, s), b->shipped);
        if (lh_prng_chance(draw, smallest))
            value = least_of(b, s);
        s->bounds[i] = value == b->shipped ? 0 : value;
    }
    if (!shipped)
        agree(s);
    if (!shipped && plan->mix.lease.ns > 0)
        agree_on_leases(s);
    if (!shipped)
        s->piece_bytes = spread(&random, 1, s->piece_bytes);
}

void lh_sim_sizes_draw(struct lh_sim_plan *plan, uint64_t seed)
{
    draw_sizes(plan, seed);
    draw_capabilities(&plan->settings, seed);
    draw_turns(&plan->settings, seed);
}
