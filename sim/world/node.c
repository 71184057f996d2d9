/* A node's life: its process starts, steps, pauses and ends. */
#include "sim/world/internal.h"

#include "base/assert.h"
#include "base/prng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A core whose deadline never moves on would stop the world: after so many timers at one moment, it
 * is called a bug. */
#define SPINS_MAX 100000u

/* With more files, or pairs in its store, than this a node is checked less often. */
#define CHECKED_OFTEN 64

static void end_process(struct lh_sim_node *node, enum lh_sim_life how);

static void hash_effect(struct lh_sim *sim, const struct lh_effect *e)
{
    lh_sim_hash_in(sim, (uint64_t)e->kind << 56 ^ (uint64_t)e->op << 48 ^ (uint64_t)e->error << 32 ^
                            e->link ^ e->ticket);
    lh_sim_hash_in(sim, e->file ^ e->offset << 20 ^ e->length << 40 ^ e->change_count);
    if (e->header.size + e->payload.size > 0)
        lh_sim_hash_in(sim, lh_buf_crc32c(&e->payload, 0, e->payload.size,
                                lh_buf_crc32c(&e->header, 0, e->header.size, 0)));
}

static void carry_out(struct lh_sim_node *node, struct lh_effects *fx)
{
    uint64_t life = node->life;

    for (size_t i = 0; i < fx->count && node->life == life; i++) {
        struct lh_effect *e = &fx->items[i];
        struct lh_sim_sight sight = {.node = node, .effect = e};
        ProtobufCMessage *message = lh_sim_network_show_effect(node, e, &sight);
        hash_effect(node->sim, e);
        lh_sim_trace_effect(&sight);
        lh_sim_notify_does(node->sim, &sight);
        switch (e->kind) {
        case LH_FX_OPEN:
            lh_sim_network_open(node, e);
            break;
        case LH_FX_SEND:
            lh_sim_network_send(node, e, message);
            break;
        case LH_FX_CLOSE:
            lh_sim_network_close(node, e);
            break;
        case LH_FX_HOLD:
        case LH_FX_UNHOLD:
            lh_sim_network_hold(node, e->link, e->kind == LH_FX_HOLD);
            break;
        case LH_FX_DISK:
            lh_sim_disk_submit(node, e);
            break;
        case LH_FX_PERSIST:
            lh_sim_store_submit(node, e);
            break;
        case LH_FX_COMPLETE:
            LH_ASSERT(node->role->completed != NULL);
            node->role->completed(node->arg, node, e->call, e->error);
            break;
        case LH_FX_LOG:
            break;
        case LH_FX_STOPPED:
            node->stopped_with = e->error;
            lh_sim_note(node->sim, "%s stops: %s", node->name, lh_error_name(e->error));
            end_process(node, LH_SIM_LIFE_STOPPED);
            break;
        }
    }
    lh_effects_clear(fx);
    if (node->life == life)
        lh_sim_notify_stepped(node);
}

static void pause(struct lh_sim_node *node, const char *where)
{
    lh_sim_note(node->sim, "%s is paused %s", node->name, where);
    node->paused = true;
    lh_sim_notify_lives(node, LH_SIM_LIFE_PAUSED);
}

static void hash_input(struct lh_sim_node *node, const struct lh_input *in, uint64_t link)
{
    struct lh_sim *sim = node->sim;

    lh_sim_hash_in(sim, (uint64_t)node->index << 32 | (uint64_t)in->kind);
    lh_sim_hash_in(sim, in->now.ns ^ in->wall_ms << 20);
    lh_sim_hash_in(sim, link ^ in->ticket << 1 ^ in->file << 2 ^ (uint64_t)in->error << 3);
}

/* A check walks what the node keeps, so that one which keeps much is checked less often: else a run
 * that makes ten thousand chunks takes minutes. */
static uint64_t steps_between_checks(const struct lh_sim_node *node)
{
    return node->sim->config.check_every *
           (1 + (node->disk.files.count + node->store.count) / CHECKED_OFTEN);
}

void lh_sim_feed(struct lh_sim_node *node, struct lh_input *in, const struct end *end)
{
    struct lh_sim *sim = node->sim;

    LH_ASSERT(node->up && !node->paused && node->fx.count == 0);
    in->now = lh_sim_clock(node);
    in->wall_ms = lh_sim_wall(node);
    struct lh_sim_sight sight = {.node = node, .input = in};
    if (end != NULL)
        lh_sim_network_show(end, &sight);
    if (in->kind == LH_IN_MESSAGE) {
        sight.message = in->message;
        sight.payload = &in->payload;
    }
    hash_input(node, in, sight.link);
    lh_sim_trace_input(&sight);
    lh_sim_notify_takes(sim, &sight);

    node->core.step(node->core.self, in, &node->fx);
    if (++node->steps >= node->check_at && node->role->check != NULL) {
        node->check_at = node->steps + steps_between_checks(node);
        node->role->check(node->arg, node->core.self);
    }
    if (node->pause_in_step) {
        node->pause_in_step = false;
        node->in_step = true;
        LH_ASSERT(node->kept.count == 0);
        lh_effects_deinit(&node->kept); /* a crash while paused left its memory */
        node->kept = node->fx;
        node->fx = (struct lh_effects){0};
        pause(node, "in the middle of a step");
        return;
    }
    /* Moved out: a clean stop destroys the core while its effects are gone through. */
    struct lh_effects fx = node->fx;
    node->fx = (struct lh_effects){0};
    carry_out(node, &fx);
    if (node->fx.items == NULL)
        node->fx = fx;
    else
        lh_effects_deinit(&fx);
    lh_sim_arm(node);
}

void lh_sim_arm(struct lh_sim_node *node)
{
    struct lh_sim *sim = node->sim;

    if (!node->up || node->paused)
        return;
    struct lh_instant deadline = node->core.deadline(node->core.self);
    uint64_t at =
        deadline.ns == UINT64_MAX ? UINT64_MAX : lh_sim_clock_when(&node->clock, deadline);
    if (at == UINT64_MAX)
        return;
    if (at < sim->now)
        at = sim->now;
    if (at >= node->timer_at)
        return; /* what is under way looks again when it comes */
    at += lh_prng_below(&sim->streams[LH_SIM_CLOCKS], node->timer_late + 1);
    if (at >= node->timer_at)
        return;
    node->timer_at = at;
    lh_sim_schedule(sim, at,
        (struct lh_sim_event){
            .kind = LH_SIM_EV_TIMER, .node = node->index, .life = node->life, .number = at});
}

void lh_sim_timer(struct lh_sim *sim, const struct lh_sim_event *e)
{
    struct lh_sim_node *node = sim->nodes[e->node];

    node->timer_at = UINT64_MAX;
    if (!lh_instant_reached(lh_sim_clock(node), node->core.deadline(node->core.self))) {
        lh_sim_arm(node);
        return;
    }
    node->timer_spins = node->timer_fired_at == sim->now ? node->timer_spins + 1 : 0;
    node->timer_fired_at = sim->now;
    if (node->timer_spins > SPINS_MAX) {
        lh_sim_fail(sim, "check", 0, "%s: its deadline does not move on", node->name);
        return;
    }
    lh_sim_feed(node, &(struct lh_input){.kind = LH_IN_TIMER}, NULL);
}

#define HOUR_NS UINT64_C(3600000000000)

/* Its clock is another one from now on, up to an hour ahead of the old one: by it, all that was
 * noted before is over. */
static void boot(struct lh_sim_node *node)
{
    uint64_t number = (uint64_t)node->index << 32 | ++node->boot;
    uint64_t ahead = lh_mix64(node->sim->config.seed ^ lh_mix64(number)) % HOUR_NS;

    node->powered = true;
    lh_sim_clock_init(&node->clock, node->sim->now,
        lh_instant_add(lh_sim_clock(node), lh_nanoseconds(ahead)), node->clock.rate_ppm);
}

void lh_sim_start(struct lh_sim_node *node)
{
    if (node->up || node->scrapped)
        return;
    if (!node->powered)
        boot(node);
    node->incarnation++;
    if (node->stored == 0 || (node->sim->now >= node->kept_until && !lh_sim_disk_refuses(node)))
        node->stored = node->incarnation;
    lh_sim_note(node->sim, "%s starts, incarnation %" PRIu64 "%s", node->name, node->stored,
        node->stored == node->incarnation ? "" : " as before");
    if (!node->role->start(node->arg, node, &node->core)) {
        lh_sim_note(node->sim, "%s could not start", node->name);
        return;
    }
    node->life++;
    node->up = true;
    node->paused = node->pause_in_step = false;
    node->served = 0;
    node->stopped_with = LH_ERR_CLOSED;
    node->timer_at = UINT64_MAX;
    lh_sim_notify_lives(node, LH_SIM_LIFE_STARTED);
    lh_sim_feed(node, &(struct lh_input){.kind = LH_IN_TIMER}, NULL);
}

/* Events that waited happen now; those of a life that is over are void by then. */
static void let_go(struct lh_sim_node *node)
{
    /* Whoever wakes up finds that timers are due and that messages have come, and nothing says
     * which it looks at first. */
    bool timers_first = node->steps % 2 == 1;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < node->waiting_count; i++) {
            bool first = timers_first ? node->waiting[i].kind == LH_SIM_EV_TIMER : true;
            if (first != (round == 0))
                continue;
            node->waiting[i].at = node->sim->now;
            lh_sim_queue_push(&node->sim->queue, node->waiting[i]);
        }
    }
    node->waiting_count = 0;
}

static void end_process(struct lh_sim_node *node, enum lh_sim_life how)
{
    bool machine = how == LH_SIM_LIFE_POWER_LOST;

    if (node->up) {
        node->up = node->paused = node->in_step = false;
        node->life++;
        lh_effects_clear(&node->kept);
        lh_sim_network_drop(node, machine);
        lh_sim_store_drop(node);
        void *self = node->core.self;
        node->core = (struct lh_core){0};
        node->role->destroy(node->arg, self);
    }
    lh_sim_disk_drop(node, machine);
    lh_sim_notify_lives(node, how);
    let_go(node);
}

void lh_sim_crash(struct lh_sim_node *node)
{
    if (!node->up)
        return;
    lh_sim_note(node->sim, "%s crashes", node->name);
    end_process(node, LH_SIM_LIFE_CRASHED);
}

void lh_sim_power_loss(struct lh_sim_node *node)
{
    lh_sim_note(node->sim, "%s loses power", node->name);
    node->powered = false;
    end_process(node, LH_SIM_LIFE_POWER_LOST);
}

void lh_sim_scrap(struct lh_sim_node *node)
{
    lh_sim_note(node->sim, "%s is gone for good", node->name);
    node->scrapped = true;
    node->powered = false;
    end_process(node, LH_SIM_LIFE_POWER_LOST);
}

bool lh_sim_is_scrapped(const struct lh_sim_node *node)
{
    return node->scrapped;
}

void lh_sim_pause(struct lh_sim_node *node)
{
    if (node->up && !node->paused)
        pause(node, "between two steps");
}

void lh_sim_pause_in_step(struct lh_sim_node *node)
{
    node->pause_in_step = node->up && !node->paused;
}

void lh_sim_resume(struct lh_sim_node *node)
{
    node->pause_in_step = false;
    if (!node->paused)
        return;
    lh_sim_note(node->sim, "%s goes on", node->name);
    node->paused = false;
    lh_sim_notify_lives(node, LH_SIM_LIFE_RESUMED);
    struct lh_effects kept = node->kept;
    node->kept = (struct lh_effects){0};
    if (node->in_step) {
        node->in_step = false;
        carry_out(node, &kept);
    }
    lh_effects_deinit(&kept);
    let_go(node);
    lh_sim_arm(node);
}

void lh_sim_stop(struct lh_sim_node *node)
{
    lh_sim_schedule(node->sim, node->sim->now,
        (struct lh_sim_event){.kind = LH_SIM_EV_STOP, .node = node->index, .life = node->life});
}

void lh_sim_call(struct lh_sim_node *node, void *call)
{
    LH_ASSERT(node->up);
    lh_sim_schedule(node->sim, node->sim->now,
        (struct lh_sim_event){
            .kind = LH_SIM_EV_CALL, .node = node->index, .life = node->life, .about = call});
}

void lh_sim_node_deinit(struct lh_sim_node *node)
{
    lh_effects_deinit(&node->fx);
    lh_effects_deinit(&node->kept);
    lh_sim_disk_deinit(&node->disk);
    lh_sim_store_deinit(&node->store);
    free(node->waiting);
    free(node->name);
    free(node->identity);
    free(node);
}

const char *lh_sim_name(const struct lh_sim_node *node)
{
    return node->name;
}

struct lh_sim *lh_sim_of(struct lh_sim_node *node)
{
    return node->sim;
}

bool lh_sim_is_up(const struct lh_sim_node *node)
{
    return node->up;
}

bool lh_sim_is_paused(const struct lh_sim_node *node)
{
    return node->paused;
}

void *lh_sim_core(const struct lh_sim_node *node)
{
    return node->core.self;
}

int lh_sim_stopped_with(const struct lh_sim_node *node)
{
    return node->stopped_with;
}

uint64_t lh_sim_incarnation(const struct lh_sim_node *node)
{
    return node->incarnation;
}

uint64_t lh_sim_stored_incarnation(const struct lh_sim_node *node)
{
    return node->stored;
}

void lh_sim_keep_incarnation(struct lh_sim_node *node, struct lh_duration hold)
{
    node->kept_until = node->sim->now + hold.ns;
}

uint64_t lh_sim_boot(const struct lh_sim_node *node)
{
    return node->boot;
}

uint64_t lh_sim_memory(const struct lh_sim_node *node)
{
    return node->boot | (uint64_t)node->disk.mounts << 32;
}

struct lh_instant lh_sim_clock(const struct lh_sim_node *node)
{
    return lh_sim_clock_read(&node->clock, node->sim->now);
}

void lh_sim_set_rate(struct lh_sim_node *node, int32_t rate_ppm)
{
    if (rate_ppm == node->clock.rate_ppm)
        return;
    if (rate_ppm == 0)
        lh_sim_note(node->sim, "the clock of %s runs right", node->name);
    else
        lh_sim_note(node->sim, "the clock of %s runs %d ppm %s", node->name, abs(rate_ppm),
            rate_ppm < 0 ? "slow" : "fast");
    lh_sim_clock_set_rate(&node->clock, node->sim->now, rate_ppm);
    lh_sim_arm(node);
}

int32_t lh_sim_rate(const struct lh_sim_node *node)
{
    return node->clock.rate_ppm;
}

void lh_sim_set_wall(struct lh_sim_node *node, uint64_t wall_ms)
{
    int64_t jump = (int64_t)(wall_ms - lh_sim_wall(node));

    lh_sim_note(node->sim, "the wall clock of %s jumps %s by %" PRId64 " ms", node->name,
        jump < 0 ? "back" : "ahead", jump < 0 ? -jump : jump);
    node->wall_ms = wall_ms - node->sim->now / 1000000;
}

uint64_t lh_sim_wall(const struct lh_sim_node *node)
{
    return node->wall_ms + node->sim->now / 1000000;
}

struct lh_duration lh_sim_timer_latest(const struct lh_sim_node *node)
{
    return lh_nanoseconds(node->timer_latest);
}

void lh_sim_set_timer_late(struct lh_sim_node *node, struct lh_duration most)
{
    if (node->timer_late == most.ns)
        return;
    lh_sim_note(
        node->sim, "timers of %s fire up to %" PRIu64 " ms late", node->name, lh_duration_ms(most));
    node->timer_late = most.ns;
    if (node->timer_latest < most.ns)
        node->timer_latest = most.ns;
}
