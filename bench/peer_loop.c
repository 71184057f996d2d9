#include "bench/peer_loop.h"

static void step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct lh_bench_looped *l = self;

    l->fx = fx;
    l->input(l, in);
    l->fx = NULL;
}

static struct lh_instant never(const void *self)
{
    (void)self;
    return LH_INSTANT_NEVER;
}

static void completed(void *arg, void *call, int error)
{
    (void)call;
    (void)error;
    sem_post(&((struct lh_bench_looped *)arg)->done);
}

static void over(struct lh_bench_peer *peer)
{
    lh_fx_complete(((struct lh_bench_looped *)peer)->fx, NULL, LH_OK);
}

static void run(struct lh_bench_peer *peer, struct lh_bench_load *load)
{
    struct lh_bench_looped *l = (struct lh_bench_looped *)peer;

    l->load = load;
    lh_loop_start(l->loop);
    lh_loop_call(l->loop, NULL);
    while (sem_wait(&l->done) != 0)
        ;
}

void lh_bench_looped_init(struct lh_bench_looped *l, const struct lh_bench_options *o,
    void (*request)(struct lh_bench_peer *peer, uint32_t client, enum lh_bench_op op, uint64_t key),
    void (*input)(struct lh_bench_looped *l, const struct lh_input *in))
{
    struct lh_loop_config config = {
        .core = {l, step, never}, .name = "client", .on_complete = completed, .arg = l};
    char why[200];

    l->base = (struct lh_bench_peer){.request = request, .run = run, .over = over};
    l->address = o->address;
    l->input = input;
    sem_init(&l->done, 0, 0);
    if (lh_loop_create(&config, &l->loop, why, sizeof why) != LH_OK)
        lh_bench_fail("%s", why);
}
