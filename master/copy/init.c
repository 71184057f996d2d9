/* `leasehold store init`: the process around the core that puts the first head (HA-13). */
#include "master/copy/copy.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "master/reigns/reigns.h"
#include "runtime/loop.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define KIND_ETCD "etcd:"

_Static_assert(LH_STORE_CLUSTER_BYTES == LH_CLUSTER_ID_BYTES, "the caller's has room for an id");

/* How often the caller is asked whether to go on. */
#define POLL_MS 100

struct init {
    const struct lh_store_init *wanted;
    struct lh_reign_config config;
    struct lh_reigns *reigns;
    struct lh_loop *loop;
    pthread_mutex_t mutex; /* guards what follows */
    char why[1200];        /* the last error that the core told of */
};

static int refuse(struct init *i, int error, const char *text)
{
    pthread_mutex_lock(&i->mutex);
    (void)snprintf(i->why, sizeof i->why, "%s", text);
    pthread_mutex_unlock(&i->mutex);
    return error;
}

/* Its log is for the caller: what went wrong last is why it stops. */
static void core_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct init *i = self;

    lh_reigns_step(i->reigns, in, fx);
    for (size_t n = 0; n < fx->count; n++) {
        struct lh_effect *e = &fx->items[n];
        if (e->kind != LH_FX_LOG)
            continue;
        if (e->level == LH_ERROR)
            (void)refuse(i, LH_OK, e->text);
        e->level = LH_DEBUG;
    }
}

static struct lh_instant core_deadline(const void *self)
{
    const struct init *i = self;

    return lh_reigns_deadline(i->reigns);
}

/* It wants nothing durable but in etcd. */
static void persist(void *arg, uint64_t ticket, struct lh_change *changes, size_t count)
{
    (void)arg;
    (void)ticket;
    lh_changes_free(changes, count);
    LH_ASSERT(false);
}

static void on_stopped(void *arg, int error)
{
    (void)arg;
    (void)error;
}

static int prepare(struct init *i)
{
    const char *store = i->wanted->store;

    if (strncmp(store, KIND_ETCD, strlen(KIND_ETCD)) != 0)
        return refuse(i, LH_ERR_INVALID_ARGUMENT,
            "the store is etcd:HOST:PORT,HOST:PORT,.../PREFIX; in a directory a cluster begins at "
            "the first start of a master");
    if (!lh_etcd_options_take(i->wanted->etcd, &i->wanted->tls, store + strlen(KIND_ETCD),
            &i->config, i->why, sizeof i->why))
        return LH_ERR_INVALID_ARGUMENT;
    i->config.task = LH_REIGN_INIT;
    i->config.id = "leasehold store init";
    i->config.address = "-";
    i->config.master = lh_master_config_default();
    if (getrandom(&i->config.master.seed, sizeof i->config.master.seed, 0) < 0)
        return refuse(i, LH_ERR_SYSTEM, "the operating system gives no random numbers");
    lh_reign_config_fill(&i->config);
    return lh_reign_config_check(&i->config, i->why, sizeof i->why);
}

/* Until the core has stopped. */
static int work(struct init *i)
{
    struct lh_instant until = lh_instant_add(lh_clock_now(), i->wanted->patience);
    bool late = false;

    for (;;) {
        int error = lh_loop_wait(i->loop, lh_milliseconds(POLL_MS));
        if (error == LH_ERR_CANCELLED && late)
            return refuse(i, LH_ERR_UNAVAILABLE,
                "etcd does not answer; run it again: it says so if the cluster has begun");
        if (error == LH_ERR_CANCELLED)
            return refuse(
                i, error, "interrupted; run it again: it says so if the cluster has begun");
        if (error != LH_ERR_DEADLINE_EXCEEDED)
            return error;
        late = lh_instant_reached(lh_clock_now(), until);
        if (late || i->wanted->interrupted(i->wanted->arg))
            lh_loop_stop(i->loop);
    }
}

static int run(struct init *i, char *cluster)
{
    struct lh_reign_state state;
    const struct lh_loop_config loop = {
        .core = {i, core_step, core_deadline},
        .name = "init",
        .threads = 1,
        .tls = i->wanted->tls,
        .foreign_tls = i->wanted->etcd->tls,
        .persist = persist,
        .store = i,
        .on_stopped = on_stopped,
    };

    i->reigns = lh_reigns_create(&i->config);
    int error = lh_loop_create(&loop, &i->loop, i->why, sizeof i->why);
    if (error != LH_OK)
        return error;
    lh_loop_start(i->loop);
    error = work(i);
    lh_reigns_state(i->reigns, &state);
    if (error == LH_OK)
        (void)snprintf(cluster, LH_STORE_CLUSTER_BYTES, "%s", state.cluster);
    return error;
}

int lh_store_init(const struct lh_store_init *wanted, char cluster[LH_STORE_CLUSTER_BYTES],
    char *why, size_t why_size)
{
    struct init *i = lh_alloc(sizeof *i);

    i->wanted = wanted;
    pthread_mutex_init(&i->mutex, NULL);
    int error = prepare(i);
    if (error == LH_OK)
        error = run(i, cluster);
    lh_loop_destroy(i->loop);
    lh_reigns_destroy(i->reigns);
    (void)snprintf(why, why_size, "%s", i->why);
    pthread_mutex_destroy(&i->mutex);
    free(i);
    return error;
}
