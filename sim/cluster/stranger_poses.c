/* A stranger that poses as a master (ACC-8): it has the address of one that is down, and a
 * certificate of its own. Whoever believes it takes its term, and removes all that it has. */
#include "sim/cluster/stranger_internal.h"

#include "sim/world/network.h"

#define REIGN   (UINT64_C(1) << 20) /* as after a restore (HA-8): not far above */
#define SESSION (UINT64_C(1) << 40)

void lh_sim_x_take_address(struct lh_sim_stranger *x)
{
    struct lh_sim_cluster *c = x->cluster;
    struct lh_sim_node *master = lh_sim_master_at(c, 1 + below(x, c->config.masters));

    if (!c->config.roles || lh_sim_is_up(master))
        return;
    LH_MARK("stranger-poses-as-master");
    lh_sim_take_address(master, x->node);
}

static void answer_masters(struct lh_sim_stranger *x, uint64_t link)
{
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;

    m.acting = true;
    m.reign = REIGN;
    lh_fx_reply(x->fx, link, &m.base, NULL);
}

static void answer_registration(
    struct lh_sim_stranger *x, uint64_t link, const Leasehold__Register *r)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Registered registered = LEASEHOLD__REGISTERED__INIT;
    Leasehold__RemoveReplica remove = LEASEHOLD__REMOVE_REPLICA__INIT;

    if (r->more && !r->leases_shown)
        return;
    registered.session = SESSION;
    registered.master_term = REIGN;
    registered.stamp = r->stamp;
    registered.reign_name = 1;
    registered.reign_name_seen = r->reign_name_seen; /* it hears what would be believed */
    registered.term_ns = lh_seconds(10).ns;
    registered.heartbeat_ns = lh_seconds(3).ns;
    registered.cluster_id = r->cluster_id;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_REGISTERED;
    reply.registered = &registered;
    lh_fx_send(x->fx, link, &reply.base, NULL);
    for (size_t i = 0; i < r->n_replicas; i++) {
        remove.session = SESSION;
        remove.master_term = REIGN;
        remove.chunk = r->replicas[i]->chunk;
        remove.version = UINT64_MAX;
        reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_REMOVE;
        reply.remove = &remove;
        lh_fx_send(x->fx, link, &reply.base, NULL);
    }
}

void lh_sim_x_is_called(struct lh_sim_stranger *x, const struct lh_input *in)
{
    const Leasehold__SessionRequest *m = in->message;

    if (in->method == LH_METHOD_MASTERS)
        answer_masters(x, in->link);
    else if (in->method == LH_METHOD_SESSION &&
             m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_REGISTER)
        answer_registration(x, in->link, m->register_);
}
