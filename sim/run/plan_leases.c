/* Programs with leases in the plan of a seed. All that is drawn comes from a stream of its own. */
#include "sim/run/plan_parts.h"
#include "sim/run/sizes.h"

#include <string.h>

#define LEASES_PATH "/lease"
#define OWNED_PATH  "/owned"

/* Of a hundred seeds. */
#define OWNED     20
#define LOOKED_UP 35
#define BROADCAST 20
#define STRANGERS 15 /* where there is one master */

/* Beside them little else is going on: so many appending and reading programs stay. */
#define LEASES_OTHERS 4u

/* Every power of two between the two has the same chance. */
static uint64_t spread_over(struct lh_prng *random, uint64_t least, uint64_t most)
{
    uint32_t doublings = 0;

    while (least << doublings < most / 2)
        doublings++;
    uint64_t low = least << lh_prng_below(random, doublings + 1);
    return low + lh_prng_below(random, low);
}

static void thin_out(struct lh_sim_plan *plan)
{
    size_t kept = 0;

    for (size_t i = 0; i < plan->action_count; i++)
        if (!lh_sim_action_begins(plan->actions[i].kind) || kept < LEASES_OTHERS)
            plan->actions[kept++] = plan->actions[i];
    plan->action_count = kept;
}

static struct lh_sim_action client(struct lh_sim_plan *plan, struct lh_prng *random,
    enum lh_sim_action_kind kind, const char *name, uint32_t number, uint32_t names)
{
    struct lh_sim_action a = lh_sim_action_default(kind);
    struct lh_sim_program_spec *p = &a.program;
    uint64_t term = plan->settings.session_term.ns;

    (void)snprintf(p->name, sizeof p->name, "%s%u", name, number);
    (void)snprintf(p->path, sizeof p->path, "%s", LEASES_PATH);
    p->client = (uint32_t)lh_prng_between(random, 1, plan->settings.clients);
    p->seed = lh_prng_next(random) >> 32;
    p->names = names;
    /* The master raises what is below the least that it takes. */
    p->term.ns = lh_prng_chance(random, 60) ? term : lh_prng_between(random, term / 2, 2 * term);
    p->every = lh_sim_up_to(lh_milliseconds(1), lh_milliseconds(lh_prng_between(random, 2, 200)));
    p->bytes_max = lh_sim_few(random, 0, 3000);
    a.at = lh_prng_below(random, UINT64_C(2000000000));
    return a;
}

static void draw_lockers(struct lh_sim_plan *plan, struct lh_prng *random, uint32_t names)
{
    uint32_t count = 1 + lh_sim_few(random, 0, 7);
    uint64_t term = plan->settings.session_term.ns;
    uint64_t longest = lh_prng_chance(random, 50) ? lh_prng_between(random, term / 4, 3 * term)
                                                  : spread_over(random, 2000000, 2 * term);

    for (uint32_t i = 1; i <= count; i++) {
        struct lh_sim_action a = client(plan, random, LH_SIM_ACT_LOCKER, "lock", i, names);
        struct lh_sim_program_spec *p = &a.program;
        p->window = lh_sim_few(random, 1, 4);
        p->hold = lh_sim_up_to(lh_milliseconds(1), lh_nanoseconds(longest));
        p->shared = lh_prng_chance(random, 10);
        p->exclusive = !p->shared && lh_prng_chance(random, 30);
        p->recall = (enum lh_sim_recall)lh_prng_below(random, LH_SIM_RECALLS);
        p->patience = lh_prng_chance(random, 30) ? lh_seconds(600) : p->patience;
        lh_sim_plan_add(plan, &a);
    }
}

/* A file that belongs to whoever has some lock (TOK-2): beside each locker that has exclusive ones
 * a program of the same client appends with its tokens. Sometimes one does without. */
static void draw_owners(struct lh_sim_plan *plan, struct lh_prng *random)
{
    struct lh_sim_settings *s = &plan->settings;
    size_t count = plan->action_count;
    uint32_t owners = 0;
    bool without = lh_prng_chance(random, 40);

    if (s->file_count >= LH_SIM_FILES_MAX)
        return;
    for (size_t i = 0; i < count; i++) {
        const struct lh_sim_program_spec locker = plan->actions[i].program;
        if (plan->actions[i].kind != LH_SIM_ACT_LOCKER || locker.shared)
            continue;
        /* A file has one lock. */
        for (size_t n = 0; owners == 0 && n < count; n++)
            if (plan->actions[n].kind == LH_SIM_ACT_LOCKER)
                plan->actions[n].program.names = 1;
        struct lh_sim_action a = client(plan, random, LH_SIM_ACT_WRITER, "own", ++owners, 0);
        a.program.client = locker.client;
        a.program.again = lh_prng_chance(random, 30);
        memcpy(a.program.owner, locker.name, sizeof a.program.owner);
        (void)snprintf(a.program.path, sizeof a.program.path, "%s", OWNED_PATH);
        lh_sim_plan_add(plan, &a);
    }
    if (owners == 0)
        return;
    struct lh_sim_file_setting *f = &s->files[s->file_count++];
    *f = (struct lh_sim_file_setting){.synced = lh_prng_chance(random, 40)};
    (void)snprintf(f->path, sizeof f->path, "%s", OWNED_PATH);
    if (without) {
        struct lh_sim_action a = client(plan, random, LH_SIM_ACT_WRITER, "own", ++owners, 0);
        (void)snprintf(a.program.path, sizeof a.program.path, "%s", OWNED_PATH);
        lh_sim_plan_add(plan, &a);
    }
}

static void add_opener(struct lh_sim_plan *plan, struct lh_prng *random,
    enum lh_sim_action_kind kind, const char *name, uint32_t number, const char *path)
{
    struct lh_sim_action a = lh_sim_action_default(kind);
    struct lh_sim_program_spec *p = &a.program;

    *p = lh_sim_program_default(kind == LH_SIM_ACT_FILES ? LH_SIM_FILES : LH_SIM_READER);
    (void)snprintf(p->name, sizeof p->name, "%s%u", name, (unsigned)number);
    (void)snprintf(p->path, sizeof p->path, "%s", path);
    p->client = (uint32_t)lh_prng_between(random, 1, plan->settings.clients);
    p->seed = lh_prng_next(random) >> 32;
    p->every = lh_sim_up_to(lh_milliseconds(1), lh_milliseconds(lh_prng_between(random, 5, 200)));
    p->follow = false;
    p->again = kind == LH_SIM_ACT_READER;
    lh_sim_plan_add(plan, &a);
}

/* Clients that remember which file has a path (VAL-7); programs that open, rename and remove the
 * same few files, and readers that open others again and again to read to their ends. */
static void draw_lookups(struct lh_sim_plan *plan, struct lh_prng *random)
{
    uint32_t names = 1 + lh_sim_few(random, 1, 3), readers = lh_sim_few(random, 0, 3);

    *lh_sim_bound_of(&plan->settings, "client", "lookups_max") =
        lh_prng_chance(random, 30) ? lh_prng_between(random, 1, 3) : 64;
    for (uint32_t i = 1; i <= names; i++)
        add_opener(plan, random, LH_SIM_ACT_FILES, "names", i, "/name");
    for (uint32_t i = 1; i <= readers; i++)
        add_opener(plan, random, LH_SIM_ACT_READER, "ends", i,
            plan->settings.files[lh_prng_below(random, plan->settings.file_count)].path);
}

/* Of some name, or of all of them. */
static void draw_broadcast(struct lh_sim_plan *plan, struct lh_prng *random, uint32_t names)
{
    struct lh_sim_action a = client(plan, random, LH_SIM_ACT_OPERATOR, "broadcast", 1, 1);

    a.program.count = 1;
    a.program.broadcast = true;
    if (lh_prng_chance(random, 50))
        (void)snprintf(a.program.path, sizeof a.program.path, "/");
    else
        (void)snprintf(a.program.path, sizeof a.program.path, "%s-%u", LEASES_PATH,
            (unsigned)lh_prng_below(random, names));
    lh_sim_plan_add(plan, &a);
}

void lh_sim_plan_leases(struct lh_sim_plan *plan, struct lh_prng *random)
{
    uint32_t names = lh_sim_few(random, 1, 5) + 1, cachers = lh_sim_few(random, 0, 5),
             changers = lh_sim_few(random, 0, 4), watchers = lh_sim_few(random, 0, 3);

    thin_out(plan);
    if (lh_prng_chance(random, 85))
        draw_lockers(plan, random, names);
    for (uint32_t i = 1; i <= cachers; i++) {
        struct lh_sim_action a = client(plan, random, LH_SIM_ACT_CACHER, "cache", i, names);
        a.program.window = lh_sim_few(random, 1, 4);
        if (lh_prng_chance(random, 30)) /* its leases end, and it has not asked for others */
            a.program.every =
                lh_sim_up_to(lh_milliseconds(100), lh_nanoseconds(plan->settings.session_term.ns));
        lh_sim_plan_add(plan, &a);
    }
    for (uint32_t i = 1; i <= changers; i++) {
        struct lh_sim_action a = client(plan, random, LH_SIM_ACT_CHANGER, "change", i, names);
        a.program.window = lh_sim_few(random, 1, 3);
        a.program.attached = lh_prng_chance(random, 50);
        lh_sim_plan_add(plan, &a);
    }
    for (uint32_t i = 1; i <= watchers; i++) {
        struct lh_sim_action a = client(plan, random, LH_SIM_ACT_WATCHER, "watch", i, 1);
        a.program.locks = lh_prng_chance(random, 40);
        lh_sim_plan_add(plan, &a);
    }
    if (lh_prng_chance(random, 40)) {
        struct lh_sim_action a = client(plan, random, LH_SIM_ACT_OPERATOR, "operator", 1, names);
        a.program.every.max = lh_milliseconds(lh_prng_between(random, 50, 3000));
        lh_sim_plan_add(plan, &a);
    }
    if (lh_prng_chance(random, OWNED))
        draw_owners(plan, random);
    if (lh_prng_chance(random, LOOKED_UP))
        draw_lookups(plan, random);
    if (lh_prng_chance(random, BROADCAST))
        draw_broadcast(plan, random, names);
    if (lh_prng_chance(random, STRANGERS) && plan->settings.etcd == 0)
        plan->settings.strangers = lh_sim_few(random, 1, 3);
}
