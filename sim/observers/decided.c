/* What the master decides about a chunk, at the moment at which it does. */
#include "sim/observers/internal.h"

#include "proto/stored.pb-c.h"

#include <inttypes.h>

/* What the master has learnt of its members may come with what it decides. */
static void note_lost(struct lh_sim_observers *o, struct chunk *c, const LeaseholdStored__Chunk *s)
{
    for (size_t i = 0; i < s->n_members; i++)
        for (size_t n = 0; n < c->member_count; n++)
            if (s->members[i]->lost && !c->members[n].lost &&
                lh_ob_server_named(o, s->members[i]->server_id) == (int32_t)c->members[n].server) {
                lh_ob_roll_log_goes(o, c, c->members[n].server);
                c->members[n].lost = true;
            }
}

/* SES-8. Of a preallocated chunk its servers are heard when it becomes the tail. */
static void note_placed(
    struct lh_sim_observers *o, const struct chunk *c, const LeaseholdStored__Chunk *s)
{
    bool first = !c->known && !c->decided && !s->created;

    for (size_t i = 0; i < s->n_members && first; i++) {
        int32_t server = lh_ob_server_named(o, s->members[i]->server_id);
        if (server >= 0)
            lh_ob_health_placed(o, c, o->servers[server]);
    }
}

/* REC-2a, FAIL-3: until a version is recovered a member that may be the only one to have everything
 * stays in the set, unless its primary has said that those who are there suffice. */
static void note_left_out(
    struct lh_sim_observers *o, struct chunk *c, const LeaseholdStored__Chunk *s)
{
    bool sure = c->recovered >= c->version || c->sure_version == c->version;

    if (!c->known || !c->created || c->sealed || s->sealed || s->version == c->version || sure ||
        o->restored || c->hopeless)
        return;
    for (size_t i = 0; i < c->member_count; i++) {
        const struct member *m = &c->members[i];
        const struct replica *r = &c->replicas[m->server];
        bool stays = m->joining || m->lost || r->lost || r->damaged || r->missing ||
                     !lh_ob_kernel(o, c, m->server)->valid;
        for (size_t n = 0; n < s->n_members; n++)
            stays = stays || lh_ob_server_named(o, s->members[n]->server_id) == (int32_t)m->server;
        if (stays || lh_sim_is_decommissioned(o->cluster, m->server + 1) ||
            lh_sim_is_scrapped(o->servers[m->server]->node))
            continue;
        lh_sim_fail(o->sim, "INV-4", c->id,
            "the master leaves %s out of chunk %" PRIu64 ", whose version %" PRIu64
            " is not recovered: it may be the only one to have every acknowledged record (REC-2a)",
            o->servers[m->server]->name, c->id, c->version);
    }
}

/* LEASE-2 is about what the master decides, which is in the very step that emits the commit. */
void lh_ob_decided(struct lh_sim_observers *o, const struct lh_change *change)
{
    LeaseholdStored__Chunk *s =
        leasehold_stored__chunk__unpack(NULL, change->value_size, change->value);

    LH_ASSERT(s != NULL);
    struct chunk *c = lh_ob_chunk(o, s->chunk);
    int32_t holder = lh_ob_server_named(o, s->holder);
    if (holder >= 0 && (holder != c->decided_holder || s->version != c->decided_version))
        lh_ob_inv2_decided(o, c, (uint32_t)holder, s->version);
    if (holder >= 0 && holder != c->decided_holder)
        lh_ob_health_granted(o, c, o->servers[holder]);
    /* A seal by its primary gives up the version that it names (SEAL-1); one by fences any. */
    if (holder < 0 && c->decided_holder >= 0 && !(s->sealed && s->intent_to_seal))
        lh_ob_inv2_freed(o, c);
    if (s->intent_to_seal && !c->decided_intent)
        lh_ob_inv9_rolls(o, c);
    else if (s->intent_to_seal && holder >= 0 && holder != c->decided_holder)
        lh_sim_fail(o->sim, "INV-2", c->id,
            "the master grants chunk %" PRIu64 " to %s, and intends to seal it (FAIL-2a)", c->id,
            o->servers[holder]->name);
    note_placed(o, c, s);
    c->decided = true;
    note_lost(o, c, s);
    note_left_out(o, c, s);
    if (s->sealed && !c->decided_sealed && s->intent_to_seal)
        lh_ob_roll_sealed(o, c, s->version, s->length, s->checksum);
    c->decided_holder = holder;
    c->decided_version = s->version;
    c->decided_granted = s->granted_version == 0 ? s->version : s->granted_version;
    if (s->intent_to_seal && !c->decided_intent)
        c->intent_at = o->master->clock;
    c->decided_intent = s->intent_to_seal;
    c->decided_sealed = s->sealed;
    leasehold_stored__chunk__free_unpacked(s, NULL);
}

void lh_ob_decided_removal(struct lh_sim_observers *o, uint64_t file, uint64_t index)
{
    const struct file *f = lh_ob_file_find(o, file);

    if (f != NULL && index < f->chunk_count && f->chunks[index] != NULL)
        f->chunks[index]->decided_holder = -1;
}
