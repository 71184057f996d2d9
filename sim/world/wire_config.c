/* How large everything about the wire is in a run: as shipped, or anything down to what is absurdly
 * small; but so that a run that is mended can still become well. */
#include "sim/world/wire.h"

#include "base/prng.h"

#define SHIPPED 1u
/* Parts of a batch that are smaller are refused, if there are many. */
#define REFERRED_MIN 128u

/* Every power of two between the two has the same chance. */
static uint64_t spread(struct lh_prng *random, uint64_t least, uint64_t most)
{
    uint32_t doublings = 0;

    if (least >= most)
        return least;
    while (least << doublings < most / 2)
        doublings++;
    uint64_t low = least << lh_prng_below(random, doublings + 1);
    uint64_t drawn = low + lh_prng_below(random, low);
    return drawn < most ? drawn : most;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What must get through in a second, so that programs get on; and with it what is in flight. */
#define LEAST_RATE (256u << 10)

struct lh_sim_wire_config lh_sim_wire_config_draw(const struct lh_sim_config *world)
{
    struct lh_prng random = {lh_mix64(world->wire ^ UINT64_C(0x77697265))};
    uint64_t round_trip = 2 * world->delay.max.ns + world->timer_late.ns;
    uint64_t wait = 500000000 + 16 * round_trip + 4 * world->delay_tail.most.ns;
    uint64_t in_flight = LEAST_RATE * (round_trip / 1000) / 1000000;
    struct lh_sim_wire_config c = {
        .on = world->wire != 0,
        .window = 1u << 20,
        .session_window = 256u << 10,
        .links_max = 16384,
        .message_max = LH_MESSAGE_BYTES_MAX,
        .frame_bytes = 64u << 10,
        .stage_bytes = 256u << 10,
        .refer_bytes = 32u << 10,
        .alone_bytes = LH_ALONE_BYTES,
        .piece_bytes = LH_PIECE_BYTES,
        .capacity = 4u << 20,
        .ping_after = lh_seconds(20),
        .ping_timeout = lh_seconds(20),
        .hello_timeout = lh_seconds(10),
        .request_timeout = lh_seconds(20),
        .unused = lh_seconds(300),
    };

    if (world->wire <= SHIPPED)
        return c;
    bool smallest = lh_prng_chance(&random, 15);
    c.own_per_thousand =
        lh_prng_chance(&random, 60) ? (uint32_t)lh_prng_between(&random, 1, 60) : 0;
    c.going_per_thousand =
        lh_prng_chance(&random, 40) ? (uint32_t)lh_prng_between(&random, 1, 20) : 0;
    if (lh_prng_chance(&random, 70))
        c.window = c.session_window =
            (uint32_t)(smallest ? at_least(1, in_flight)
                                : spread(&random, at_least(1, in_flight), c.window));
    if (lh_prng_chance(&random, 60))
        c.links_max = (uint32_t)spread(&random, smallest ? 16 : 24, 2048);
    if (lh_prng_chance(&random, 50))
        c.message_max = LH_WIRE_MESSAGE_BYTES_MAX;
    if (lh_prng_chance(&random, 70))
        c.frame_bytes = (uint32_t)(smallest ? LH_FRAME_MORE_BYTES_MIN
                                            : spread(&random, LH_FRAME_MORE_BYTES_MIN,
                                                  LH_FRAME_BODY_BYTES_MAX));
    if (lh_prng_chance(&random, 70))
        c.stage_bytes = (uint32_t)(smallest ? 1 : spread(&random, 1, c.stage_bytes));
    if (lh_prng_chance(&random, 70)) {
        c.piece_bytes = spread(&random, at_least(256, world->piece_bytes), LH_PIECE_BYTES);
        c.alone_bytes = spread(&random, c.piece_bytes, LH_PIECE_BYTES);
    }
    if (lh_prng_chance(&random, 80)) {
        uint64_t least = at_least(100, in_flight);
        c.capacity = smallest ? least : spread(&random, least, c.capacity);
    }
    if (lh_prng_chance(&random, 40))
        c.rate = spread(&random, at_least(4 * LEAST_RATE, c.capacity), UINT64_C(1) << 30);
    if (lh_prng_chance(&random, 60))
        c.ping_after.ns = spread(&random, 100000000, c.ping_after.ns);
    if (lh_prng_chance(&random, 60))
        c.ping_timeout.ns = spread(&random, wait, c.ping_timeout.ns);
    if (lh_prng_chance(&random, 60))
        c.hello_timeout.ns = spread(&random, wait, c.hello_timeout.ns);
    if (lh_prng_chance(&random, 60))
        c.unused.ns = spread(&random, 100000000, c.unused.ns);
    if (lh_prng_chance(&random, 50))
        c.refer_bytes = (uint32_t)(smallest ? UINT32_MAX : spread(&random, REFERRED_MIN, 1u << 20));
    return c;
}
