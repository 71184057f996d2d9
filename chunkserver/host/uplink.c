/* The way to the master. */
#include "chunkserver/host/host.h"

bool lh_cs_send(struct lh_cs_host *cs, Leasehold__SessionRequest *m)
{
    if (cs->master.link == 0)
        return false;
    lh_fx_send(cs->fx, cs->master.link, &m->base, NULL);
    return true;
}

bool lh_cs_session_live(const struct lh_cs_host *cs)
{
    return cs->master.state == LH_CS_SESSION_LIVE;
}

uint64_t lh_cs_session_id(const struct lh_cs_host *cs)
{
    return lh_holder_session(cs->holder);
}

bool lh_cs_session_named(const struct lh_cs_host *cs, uint64_t session, uint64_t master_term)
{
    return lh_cs_session_live(cs) && session == lh_cs_session_id(cs) &&
           master_term >= cs->master.master_term;
}

struct lh_instant lh_cs_term_begins(const struct lh_cs_host *cs, uint64_t stamp)
{
    return LH_PLANTED("holder-counts-from-receipt") ? cs->now : (struct lh_instant){stamp};
}
