/* Strangers with a chunkserver's stolen certificate, which have replicas of others adopt versions
 * (ACC-9). What they show was found in the memory of primaries and members, or is made with the key
 * that the stolen one's server was told. It is never what the master granted to that server. */
#include "sim/cluster/stranger_internal.h"

#include "access/capability.h"
#include "sim/world/network.h"
#include "sim/world/watch.h"

#include <stdio.h>

#define CERTIFICATE "leasehold://chunkserver/"

/* The chunkserver that the certificate is of; NULL: it is none's. */
static const char *stolen_name(const struct lh_sim_stranger *x)
{
    const char *identity = lh_sim_identity(x->node);

    return strncmp(identity, CERTIFICATE, strlen(CERTIFICATE)) == 0 ? identity + strlen(CERTIFICATE)
                                                                    : NULL;
}

bool lh_sim_x_may_lead(const struct lh_sim_stranger *x)
{
    return x->cluster->config.capabilities && stolen_name(x) != NULL;
}

/* ---- What it finds ---- */

static void find_leads(struct lh_sim_stranger *x, const char *holder, const Leasehold__Grant *grant)
{
    for (size_t i = 0; i < grant->n_leads; i++) {
        struct found_lead *found = &x->leads[x->found % LEADS];
        if (grant->leads[i].len == 0)
            continue;
        LH_ASSERT(grant->leads[i].len == sizeof found->bytes);
        x->found++;
        found->chunk = grant->chunk;
        found->version = grant->version;
        (void)snprintf(found->holder, sizeof found->holder, "%s", holder);
        (void)snprintf(found->member, sizeof found->member, "%s", grant->members[i]->server_id);
        memcpy(found->bytes, grant->leads[i].data, sizeof found->bytes);
    }
}

static void does(void *arg, const struct lh_sim_sight *s)
{
    struct lh_sim_stranger *x = arg;
    const Leasehold__SessionReply *m = (const Leasehold__SessionReply *)s->message;

    if (s->effect->kind != LH_FX_SEND || s->method != LH_METHOD_SESSION || m == NULL ||
        s->direction != LH_REPLY || s->peer == NULL || lh_sim_is_stranger(s->node))
        return;
    if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_GRANT)
        find_leads(x, lh_sim_name(s->peer), m->grant);
    if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_REGISTERED && x->node != NULL &&
        stolen_name(x) != NULL && strcmp(stolen_name(x), lh_sim_name(s->peer)) == 0 &&
        m->registered->lead_key.len == sizeof x->lead_key) {
        memcpy(x->lead_key, m->registered->lead_key.data, sizeof x->lead_key);
        x->lead_reign = m->registered->master_term;
    }
}

void lh_sim_x_looks_for_leads(struct lh_sim_stranger *x)
{
    const struct lh_sim_watcher watcher = {.arg = x, .does = does};

    if (x->cluster->config.capabilities)
        lh_sim_watch(x->cluster->sim, &watcher);
}

/* ---- What it shows ---- */

/* Of that chunk, mostly; NULL: it has found none. */
static const struct found_lead *pick(struct lh_sim_stranger *x, uint64_t chunk)
{
    size_t count = x->found < LEADS ? x->found : LEADS;
    size_t from = count == 0 ? 0 : below(x, count);

    for (size_t i = 0; i < count; i++)
        if (x->leads[(from + i) % count].chunk == chunk)
            return &x->leads[(from + i) % count];
    return count == 0 ? NULL : &x->leads[from];
}

static bool is_granted(const struct lh_sim_stranger *x, const struct found_lead *found,
    const Leasehold__ReplicatePart *m, const char *server)
{
    return found->chunk == m->chunk && found->version == m->version &&
           strcmp(found->holder, stolen_name(x)) == 0 && strcmp(found->member, server) == 0;
}

/* False: it would be what a primary can say. */
static bool show_found(struct lh_sim_stranger *x, Leasehold__ReplicatePart *m, const char *server)
{
    const struct found_lead *found = pick(x, m->chunk);

    if (found == NULL)
        return false;
    memcpy(x->shown, found->bytes, sizeof found->bytes);
    m->capability.len = sizeof found->bytes;
    switch (below(x, 4)) {
    case 0: /* of another chunkserver */
        m->chunk = found->chunk;
        m->version = found->version;
        break;
    case 1:
        x->shown[below(x, m->capability.len)] ^= (uint8_t)(1 + below(x, 255));
        return true;
    default: /* of another version */
        m->chunk = found->chunk;
        break;
    }
    return !is_granted(x, found, m, server);
}

/* Every chunkserver can do so, with whatever keys it is told. */
static bool show_forged(struct lh_sim_stranger *x, Leasehold__ReplicatePart *m, const char *server)
{
    const struct lh_lead lead = {
        .chunk = m->chunk, .version = m->version, .holder = stolen_name(x)};

    if (x->lead_reign == 0 || strcmp(server, stolen_name(x)) == 0)
        return false;
    lh_capability_make_lead(x->lead_key, x->lead_reign, &lead, x->shown);
    m->capability.len = LH_CAPABILITY_BYTES;
    return true;
}

void lh_sim_x_lead(struct lh_sim_stranger *x)
{
    Leasehold__ReplicateRequest q = LEASEHOLD__REPLICATE_REQUEST__INIT;
    Leasehold__ReplicatePart m = LEASEHOLD__REPLICATE_PART__INIT, *parts[] = {&m};
    struct lh_sim_chunk c;

    if (!lh_sim_x_chunk(x, &c) || c.member_count == 0)
        return;
    const char *server = c.members[below(x, c.member_count)].server;
    m.kind = LEASEHOLD__REPLICATE_KIND__ADOPT;
    m.chunk = c.chunk;
    m.version = below(x, 2) == 0 ? c.version + below(x, 3) : lh_sim_x_absurd(x, c.version);
    m.feed = 1 + below(x, 3);
    m.joining = below(x, 2) == 0;
    m.capability.data = x->shown;
    uint64_t kind = below(x, 4);
    if ((kind == 0 && !show_forged(x, &m, server)) || (kind > 1 && !show_found(x, &m, server)))
        return;
    LH_MARK("stranger-leads");
    q.parts = parts;
    q.n_parts = 1;
    lh_sim_x_say(x, lh_sim_x_begin(x, LH_METHOD_REPLICATE, server), &q);
}
