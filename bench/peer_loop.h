/* A peer of peer_locks.h whose client is one core on the loop. */
#pragma once

#include "base/step.h"
#include "bench/peer_locks.h"
#include "runtime/loop.h"

#include <semaphore.h>

struct lh_bench_looped {
    struct lh_bench_peer base;
    struct lh_bench_load *load;
    const char *address;
    struct lh_effects *fx; /* during a step */
    void (*input)(struct lh_bench_looped *l, const struct lh_input *in);
    struct lh_loop *loop;
    sem_t done;
};

/* `l` begins a struct of the peer's. The first input that it gets is an LH_IN_CALL: the load is to
 * begin. */
void lh_bench_looped_init(struct lh_bench_looped *l, const struct lh_bench_options *o,
    void (*request)(struct lh_bench_peer *peer, uint32_t client, enum lh_bench_op op, uint64_t key),
    void (*input)(struct lh_bench_looped *l, const struct lh_input *in));
