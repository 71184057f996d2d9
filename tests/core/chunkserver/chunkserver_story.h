/* What stories on a chunkserver_world share. */
#pragma once

#include "tests/core/chunkserver/chunkserver_world.h"

/* Sets of servers. */
#define AB   (1u << A | 1u << B)
#define AC   (1u << A | 1u << C)
#define BC   (1u << B | 1u << C)
#define ABC  (AB | 1u << C)
#define ABD  (AB | 1u << D)
#define ABCD (ABC | 1u << D)

#define WRITER 1001u
#define BATCH  144u /* bytes of a batch with one record of 100 */
#define SEEDS  16u

/* Given three registered servers (and a fourth that stands by): under several orders of events, for
 * synced and for buffered files. */
static inline void each(void (*story)(struct world *w))
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world *w = world_create(seed, seed % 2 == 0);
        story(w);
        world_destroy(w);
    }
}

#define STORY(name)                                                                                \
    static void name##_told(struct world *w);                                                      \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        each(name##_told);                                                                         \
    }                                                                                              \
    static void name##_told(struct world *w)

static inline struct heard *heard(struct world *w, int node)
{
    return &w->nodes[node].heard;
}

/* The process dies, or with `power` the machine, and is started again. */
static inline void restart(struct world *w, int node, bool power)
{
    node_kill(w, node, power);
    settle(w);
    node_start(w, node);
    settle(w);
}

/* A chunk at the members whose primary is A at version 1. */
static inline void given_a_chunk(struct world *w, unsigned members)
{
    master_create(w, members);
    settle(w);
    for (int i = A; i <= D; i++)
        if ((members & 1u << i) != 0)
            assert_true(heard(w, i)->created.n == 1 && heard(w, i)->created.error == LH_OK);
    master_grant(w, A, 1, members, 2);
    settle(w);
    assert_true(heard(w, A)->confirm.n == 1 && heard(w, A)->confirm.error == LH_OK);
    assert_true(heard(w, A)->recovered.n == 1 && heard(w, A)->recovered.version == 1);
    assert_true(node_status(w, A).open);
    heard_clear(w);
}

/* A writer that has `count` batches of 100 bytes acknowledged. */
static inline struct conn *given_a_writer(
    struct world *w, int node, uint64_t version, uint64_t count)
{
    struct conn *c = appender(w, node, version, WRITER, 1);

    settle(w);
    assert_true(c->opened);
    for (uint64_t s = 1; s <= count; s++) {
        append(c, s, 100);
        settle(w);
        (void)position(c, s);
    }
    return c;
}

/* From here on A orders what C does not get; the writer hangs up behind it. */
static inline void append_without_c(struct world *w, struct conn *c, uint64_t first, uint64_t last)
{
    w->stalled[A][C] = true;
    for (uint64_t s = first; s <= last; s++)
        append(c, s, 100);
    settle(w);
    hang_up(c);
    settle(w);
}

/* A chunk at A, B and C whose primary is A at version 1, with `count` batches of the writer. */
static inline struct conn *given_a_written_chunk(struct world *w, uint64_t count)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, count);
    if (count > 0)
        assert_int_equal(position(c, count), (count - 1) * BATCH);
    heard_clear(w);
    return c;
}
