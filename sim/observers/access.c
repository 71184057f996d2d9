/* ACC-3, ACC-7: nobody is answered what his role does not allow, by the table that was in force
 * when his call was decided; and nobody is refused what it allows. What each role may is written
 * down here again, by the protocol's page and not by access/: a stranger reads, or may nothing,
 * or has a chunkserver's certificate. What ends a call is no answer. */
#include "sim/observers/capability.h"

#include "sim/cluster/stranger.h"

#include <stdlib.h>
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

/* As a chunkserver. */
static bool serves(enum lh_method method)
{
    return method == LH_METHOD_LIST_SERVERS || method == LH_METHOD_GARBAGE ||
           method == LH_METHOD_MASTERS || method == LH_METHOD_LIST_POLICIES ||
           method == LH_METHOD_SESSION || method == LH_METHOD_REPLICATE ||
           method == LH_METHOD_READ || method == LH_METHOD_IDENTIFY;
}

static bool has_role(const struct lh_sim_node *node, const char *role)
{
    return strncmp(lh_sim_identity(node), role, strlen(role)) == 0;
}

static bool may_call(const struct lh_sim_node *node, enum lh_method method)
{
    return (has_role(node, "leasehold://reader/") && reads(method)) ||
           (has_role(node, "leasehold://chunkserver/") && serves(method));
}

/* What either may do whatever the request says: of others a part needs more. */
static bool always_may(enum lh_method method)
{
    return (reads(method) || serves(method)) && method != LH_METHOD_OPEN_TAIL &&
           method != LH_METHOD_GARBAGE && method != LH_METHOD_LEASE_SESSION &&
           method != LH_METHOD_READ;
}

/* A call, as it was when it was decided: a stream when it is opened, others with their request. */
struct decided {
    uint64_t link;
    bool may;
    UT_hash_handle hh;
};

static void forget(struct lh_sim_observers *o, struct decided *d)
{
    HASH_DEL(o->decided, d);
    free(d);
}

void lh_ob_access_deinit(struct lh_sim_observers *o)
{
    while (o->decided != NULL)
        forget(o, o->decided);
}

static bool is_stream(enum lh_method method)
{
    return method == LH_METHOD_LEASE_SESSION || method == LH_METHOD_WATCH;
}

void lh_ob_access_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    struct decided *d;

    if (s->peer == NULL || !lh_sim_is_stranger(s->peer))
        return;
    HASH_FIND(hh, o->decided, &s->link, sizeof s->link, d);
    if (s->input->kind == LH_IN_LINK_CLOSED && d != NULL) {
        forget(o, d);
    } else if (s->input->kind == (is_stream(s->method) ? LH_IN_LINK_OPENED : LH_IN_MESSAGE)) {
        if (d == NULL) {
            d = lh_alloc(sizeof *d);
            d->link = s->link;
            HASH_ADD(hh, o->decided, link, sizeof d->link, d);
        }
        d->may = may_call(s->peer, s->method) && lh_sim_has_rights(o->cluster, s->peer);
    }
}

void lh_ob_access_does(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    struct decided *d;

    if (s->peer == NULL || !lh_sim_is_stranger(s->peer) || lh_sim_identity(s->peer)[0] == '\0')
        return;
    HASH_FIND(hh, o->decided, &s->link, sizeof s->link, d);
    bool may = d != NULL && d->may;
    bool now = lh_sim_has_rights(o->cluster, s->peer);
    if (s->effect->kind == LH_FX_SEND && s->direction == LH_REPLY && !may)
        lh_sim_fail(o->sim, now ? "ACC-3" : "ACC-7", 0,
            "%s answers %s, who is %s%s and may not call that", lh_sim_name(s->node),
            lh_sim_name(s->peer), lh_sim_identity(s->peer),
            now ? "" : ", whose rights the table takes away,");
    if (s->effect->kind == LH_FX_CLOSE && s->effect->error == LH_ERR_PERMISSION && may &&
        always_may(s->method))
        lh_sim_fail(o->sim, "ACC-7", 0, "%s refuses %s, who is %s and has the right to call that",
            lh_sim_name(s->node), lh_sim_name(s->peer), lh_sim_identity(s->peer));
}
