/* Which masters there are (HA-10). Whoever answers here acts: when several masters share a store,
 * standbys are answered for before their inputs come to a core. */
#include "master/calls/calls.h"

#include "master/sessions/sessions.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

#include <stdlib.h>

void lh_m_masters_call(struct lh_master *m, uint64_t link, const Leasehold__MastersRequest *request)
{
    Leasehold__MastersReply reply = LEASEHOLD__MASTERS_REPLY__INIT;
    Leasehold__MasterInfo *masters = lh_alloc_array(m->master_count, sizeof *masters);
    uint64_t ticket = 1; /* the term that is told is durable; later commits need not be */

    reply.masters = lh_alloc_array(m->master_count, sizeof *reply.masters);
    for (size_t i = 0; i < m->master_count; i++) {
        leasehold__master_info__init(&masters[i]);
        masters[i].address = m->masters[i];
        reply.masters[i] = &masters[i];
    }
    reply.n_masters = m->master_count;
    reply.cluster_id = m->cluster_id;
    reply.reign = m->term;
    reply.acting = true;
    lh_m_reign_hears(m, request);
    lh_m_reply(m, link, ticket, &reply.base);
    free(reply.masters);
    free(masters);
}
