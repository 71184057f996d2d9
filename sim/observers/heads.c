/* HA-13: no cluster begins by itself.
 *
 * INV-12: the heads that masters put into a store which they share are one history: a reign is
 * never followed by an older one, nor a write by an earlier one of its reign (HA-1). Seen where a
 * transaction takes effect, whoever waits for it. */
#include "sim/observers/heads.h"

#include "sim/observers/internal.h"

#include "sim/cluster/internal.h"

#include <inttypes.h>
#include <string.h>

struct heads {
    struct lh_sim_observers *o;
    uint64_t reign, number; /* of the newest */
};

/* Nobody begins a cluster there. */
static void check_no_prefix(struct lh_sim_observers *o, const struct lh_sim_etcd_applied *txn)
{
    static const char head[] = LH_SIM_NO_PREFIX "head";

    for (size_t i = 0; i < txn->count && lh_sim_failure(o->sim) == NULL; i++)
        if (txn->changes[i]->key_size == strlen(head) &&
            memcmp(txn->changes[i]->key, head, strlen(head)) == 0)
            lh_sim_fail(o->sim, "HA-13", 0, "a cluster begins under %s, and nobody wanted one",
                LH_SIM_NO_PREFIX);
}

static void applied(void *arg, const struct lh_sim_etcd_applied *txn)
{
    struct heads *h = arg;
    struct lh_sim_observers *o = h->o;
    uint64_t reign, number;

    check_no_prefix(o, txn);

    lh_sim_shared_head(o->cluster, &reign, &number);
    bool goes_back = reign < h->reign || (reign == h->reign && number < h->number);
    if (goes_back && !lh_sim_shared_restored(o->cluster) && lh_sim_failure(o->sim) == NULL)
        lh_sim_fail(o->sim, "INV-12", 0,
            "revision %" PRId64 " puts the head of reign %" PRIu64 ", write %" PRIu64
            ", over that of reign %" PRIu64 ", write %" PRIu64 " (HA-1)",
            txn->revision, reign, number, h->reign, h->number);
    h->reign = reign;
    h->number = number;
}

void lh_ob_heads_init(struct lh_sim_observers *o)
{
    struct lh_sim_etcd *etcd = lh_sim_shared_etcd(o->cluster);

    if (etcd == NULL)
        return;
    o->heads = lh_alloc(sizeof *o->heads);
    o->heads->o = o;
    lh_sim_etcd_observe(etcd, &(struct lh_sim_etcd_observer){.arg = o->heads, .applied = applied});
}

void lh_ob_heads_deinit(struct lh_sim_observers *o)
{
    free(o->heads);
}
