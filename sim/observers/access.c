/* ACC-3: nobody is answered what his role does not allow. What each role may is written down here
 * once more, by the protocol's page and not by access/: a stranger reads at most, or may nothing.
 * What ends a call is no answer. */
#include "sim/observers/internal.h"

#include "sim/cluster/stranger.h"

#include <string.h>

static bool reads(enum lh_method method)
{
    switch (method) {
    case LH_METHOD_STAT:
    case LH_METHOD_LIST:
    case LH_METHOD_LOCATE:
    case LH_METHOD_OPEN_TAIL: /* it may read there */
    case LH_METHOD_LIST_LEASES:
    case LH_METHOD_LIST_SERVERS:
    case LH_METHOD_EXPLAIN:
    case LH_METHOD_LIST_CHUNKS:
    case LH_METHOD_LIST_EVENTS:
    case LH_METHOD_GARBAGE:
    case LH_METHOD_MASTERS:
    case LH_METHOD_LEASE_SESSION:
    case LH_METHOD_GET:
    case LH_METHOD_WATCH:
    case LH_METHOD_LIST_NAMES:
    case LH_METHOD_LIST_SESSIONS:
    case LH_METHOD_LIST_POLICIES:
    case LH_METHOD_READ:
        return true;
    default:
        return false;
    }
}

void lh_ob_access_does(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    if (s->effect->kind != LH_FX_SEND || s->direction != LH_REPLY || s->peer == NULL ||
        !lh_sim_is_stranger(s->peer))
        return;
    const char *identity = lh_sim_identity(s->peer);
    if (identity[0] == 0 || (strncmp(identity, "leasehold://reader/", 19) == 0 && reads(s->method)))
        return;
    lh_sim_fail(o->sim, "ACC-3", 0, "%s answers %s, who is %s and may not call that",
        lh_sim_name(s->node), lh_sim_name(s->peer), identity);
}
