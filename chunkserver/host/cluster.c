/* Of which cluster this server is, and calls of others (SES-10). An address changes hands: a host
 * is moved, a port is used again. Chunks and versions are counted from 1 in every cluster, so
 * nothing else in a call need differ. */
#include "chunkserver/host/host.h"

#include "base/alloc.h"
#include "base/cluster.h"

#include <stdio.h>
#include <stdlib.h>

void lh_cs_cluster_is(struct lh_cs_host *cs, const char *id)
{
    free(cs->cluster.id);
    cs->cluster.id = lh_strdup(id);
    cs->cluster.hash = lh_cluster_hash(id);
}

uint64_t lh_cs_cluster_name(const struct lh_cs_host *cs)
{
    return LH_PLANTED("servers-name-no-cluster") ? 0 : cs->cluster.hash;
}

/* To the caller this is a server that is not the one that it looks for, and no answer to what it
 * asked: it asks its master, or another server. */
static void refuse(struct lh_cs_host *cs, struct lh_cs_link *l)
{
    char text[LH_ACCESS_TEXT_MAX];

    (void)snprintf(text, sizeof text,
        "a call of another cluster came to this chunkserver, which is of cluster %.64s: there a "
        "chunkserver has had this address, or says that it has. Start that one with its own "
        "address (--advertise). Nothing was done here",
        cs->cluster.id);
    lh_access_say(&cs->refusals, cs->fx, cs->now,
        lh_milliseconds(cs->config.bounds.refusal_log_pause_ms), text);
    cs->counts.foreign_calls++;
    (void)snprintf(text, sizeof text,
        "the chunkserver at this address is of cluster %.64s, and not of the caller's",
        cs->cluster.id);
    lh_cs_link_end(l, LH_ERR_UNAVAILABLE, text);
}

bool lh_cs_cluster_refuses(
    struct lh_cs_host *cs, struct lh_cs_link *l, const ProtobufCMessage *request)
{
    if (l->cluster == 0)
        l->cluster = lh_request_cluster(request); /* which looks the field up by name */
    if (l->cluster == 0 || cs->cluster.hash == 0 || l->cluster == cs->cluster.hash ||
        LH_PLANTED("other-clusters-call-obeyed"))
        return false;
    LH_MARK("call-from-another-cluster-to-server");
    refuse(cs, l);
    return true;
}
