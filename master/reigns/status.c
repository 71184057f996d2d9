/* What operators and observers see of a master among others. */
#include "master/reigns/internal.h"

#include <inttypes.h>
#include <stdio.h>

void lh_reigns_metrics(const struct lh_reigns *r, struct lh_metrics *out)
{
#define GAUGE(name, help, value)                                                                   \
    lh_metrics_single(out, "leasehold_master_" name, LH_METRIC_GAUGE, help, value)
#define COUNTER(name, help, value)                                                                 \
    lh_metrics_single(out, "leasehold_master_" name "_total", LH_METRIC_COUNTER, help, value)
    GAUGE("reign", "Number of the newest reign that this master knows of.", r->top_reign);
    GAUGE("active", "1: this is the active master.", r->phase == LH_REIGN_ACTING);
    GAUGE("confirmed", "1: it knows that no newer reign can have begun, and acts (HA-2).",
        lh_r_is_confirmed(r));
    GAUGE("standby", "1: this master has a copy of the store that follows the active one.",
        r->phase == LH_REIGN_STANDBY);
    GAUGE("servers_heard",
        "Chunkservers that the active master reaches; that find none and ask this standby (HA-9a).",
        lh_r_servers(r));
    GAUGE("inputs_waiting", "Inputs that wait until the reign is confirmed.", r->gate.count);
    GAUGE("etcd_bytes", "Bytes of the largest file of etcd's members, as of their last answers.",
        r->store_bytes);
    GAUGE(
        "etcd_trouble", "1: etcd's members complain, or have no leader.", r->store_trouble != NULL);
    COUNTER("reigns", "Reigns of this process that began.", r->counts.reigns);
    COUNTER("reigns_lost", "Of these: ended by another master.", r->counts.deposed);
    COUNTER("reigns_unheard",
        "Of these: resigned to a standby that more chunkservers reach (HA-9a).", r->counts.unheard);
    COUNTER("etcd_writes", "Transactions that etcd applied.", r->counts.writes);
    COUNTER("etcd_commits", "Commits in these.", r->counts.commits);
    COUNTER("etcd_retries", "Calls of etcd that failed or came too late, and were sent again.",
        r->counts.retries);
    COUNTER("copies_loaded", "Copies of the store that were loaded.", r->counts.loaded);
#undef GAUGE
#undef COUNTER
    if (r->phase == LH_REIGN_ACTING)
        lh_master_metrics(r->master, out);
}

bool lh_reigns_ready(const struct lh_reigns *r, char *why, size_t why_size)
{
    if (r->out_of_use != NULL) {
        (void)snprintf(why, why_size, "%s", r->out_of_use);
        return false;
    }
    switch (r->phase) {
    case LH_REIGN_ACTING:
        if (lh_r_is_confirmed(r))
            return lh_master_ready(r->master, why, why_size);
        (void)snprintf(why, why_size,
            "this master does not know whether it is still the active one: etcd does not answer");
        return false;
    case LH_REIGN_STANDBY:
    case LH_REIGN_CLAIMING:
        return true;
    case LH_REIGN_LEARNING:
    case LH_REIGN_LOADING:
        if (r->unfit.loads >= r->config.member_count)
            (void)snprintf(why, why_size, "no member of etcd has a store that can be used: %.400s",
                lh_r_unfit_why(r));
        else
            (void)snprintf(why, why_size, "the copy of the store in etcd is being loaded");
        return false;
    case LH_REIGN_COPYING:
    case LH_REIGN_RESIGNING:
    case LH_REIGN_STOPPED:
        (void)snprintf(why, why_size, "the master is stopping");
        return false;
    }
    return false;
}

bool lh_reigns_is_acting(const struct lh_reigns *r)
{
    return r->phase == LH_REIGN_ACTING && lh_r_is_confirmed(r);
}

const char *lh_r_state_name(const struct lh_reigns *r)
{
    switch (r->phase) {
    case LH_REIGN_ACTING:
        return lh_r_is_confirmed(r) ? "ACTIVE" : "UNCONFIRMED";
    case LH_REIGN_STANDBY:
    case LH_REIGN_CLAIMING:
        return r->copy.said == NULL ? "WAITING" : "STANDBY";
    case LH_REIGN_LEARNING:
    case LH_REIGN_LOADING:
        return "LOADING";
    case LH_REIGN_COPYING:
    case LH_REIGN_RESIGNING:
    case LH_REIGN_STOPPED:
        break;
    }
    return "RESIGNING";
}

void lh_reigns_check(const struct lh_reigns *r)
{
    LH_ASSERT(r->phase != LH_REIGN_ACTING || (r->master != NULL && r->copy.said != NULL));
    LH_ASSERT(r->phase == LH_REIGN_ACTING || TAILQ_EMPTY(&r->gate.waiting));
    LH_ASSERT(r->phase != LH_REIGN_CLAIMING || r->calls[LH_R_WRITE].method != LH_METHOD_NONE);
    /* While it is loaded, what refers to something comes before it. */
    if (r->master != NULL && r->phase != LH_REIGN_LOADING && r->phase != LH_REIGN_STOPPED)
        lh_master_check(r->master);
}

void lh_reigns_state(const struct lh_reigns *r, struct lh_reign_state *state)
{
    *state = (struct lh_reign_state){
        .phase = r->phase,
        .reign = r->top_reign,
        .waiting = r->gate.count,
        .revision = r->phase == LH_REIGN_ACTING ? r->copy.head_revision : r->copy.revision,
        .pairs = r->writer.large != NULL ? r->writer.placed : r->move.count,
        .bytes = r->move.bytes,
        .cluster = r->cluster,
        .claimed = r->move.claimed,
    };
    if (r->phase == LH_REIGN_ACTING)
        state->confirmed_until = r->confirmed_until;
}

struct lh_master *lh_reigns_master(const struct lh_reigns *r)
{
    return r->master;
}
