/* KEEP-4: a master whose store is an older copy takes a seal on only if its members have nothing
 * else. Their disks are read for that, also of servers that are away: a log of another history that
 * the master has not heard of would be refreshed by the sealed one, and what was acknowledged there
 * would be gone. */
#include "sim/observers/own_log.h"

#include "sim/observers/internal.h"

#include "proto/stored.pb-c.h"
#include "sim/observers/log_reader.h"
#include "sim/world/disk.h"

#include <inttypes.h>

#define CHUNK_KEY_BYTES 17u /* 'k', file, index */

static bool is_this_seal(const struct lh_sim_header *h, const LeaseholdStored__Chunk *s)
{
    return h->sealed && h->sealed_length == s->length && h->sealed_checksum == s->checksum;
}

/* A log that is not sealed, and is what the seal says: a roll may have ended with it (FAIL-2a). */
static bool is_all_of_it(
    const struct lh_sim_observers *o, int32_t server, const LeaseholdStored__Chunk *s)
{
    uint64_t size = 0, checksum;
    const uint8_t *bytes = lh_sim_file(o->servers[server]->node, s->chunk, &size);

    if (bytes == NULL || size < LH_SIM_LOG_START)
        return s->length == 0;
    size -= LH_SIM_LOG_START;
    return lh_sim_log_scan(s->chunk, bytes + LH_SIM_LOG_START, size, size, &checksum) ==
               s->length &&
           checksum == s->checksum;
}

/* The header of that member's replica; not valid: it has none, or it counts for nothing. What a
 * master has had removed may be there still, until its server's disk lets it go. */
static struct lh_sim_header header_of(
    struct lh_sim_observers *o, uint64_t chunk, const LeaseholdStored__Member *member)
{
    int32_t server = lh_ob_server_named(o, member->server_id);
    uint64_t size = 0;

    if (server < 0 || member->lost || lh_sim_is_decommissioned(o->cluster, (uint32_t)server + 1) ||
        lh_sim_is_scrapped(o->servers[server]->node) ||
        lh_ob_replica(lh_ob_chunk(o, chunk), (uint32_t)server)->to_go)
        return (struct lh_sim_header){0};
    const uint8_t *bytes = lh_sim_file(o->servers[server]->node, chunk, &size);
    struct lh_sim_header h = lh_sim_header_read(bytes, size);
    h.valid = h.valid && !h.copying && !h.lost;
    return h;
}

static void look_at(struct lh_sim_observers *o, const LeaseholdStored__Chunk *s)
{
    const char *other = NULL;
    bool taken_on = false;

    for (size_t i = 0; i < s->n_members; i++) {
        struct lh_sim_header h = header_of(o, s->chunk, s->members[i]);
        if (!h.valid)
            continue;
        if (!is_this_seal(&h, s)) {
            if (h.sealed || !is_all_of_it(o, lh_ob_server_named(o, s->members[i]->server_id), s))
                other = s->members[i]->server_id;
        } else if (h.version >= s->version)
            return; /* it is recorded already: nothing new is decided */
        else
            taken_on = true;
    }
    if (!taken_on || other == NULL)
        return;
    lh_sim_fail(o->sim, "KEEP-4", s->chunk,
        "the master takes on a seal of chunk %" PRIu64 " at %" PRIu64
        ", which its store lacked, and %s has another log of it",
        s->chunk, s->length, other);
}

void lh_ob_taken_on_does(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    const struct lh_effect *e = s->effect;

    if (e->kind != LH_FX_PERSIST || !o->restored)
        return;
    for (size_t i = 0; i < e->change_count && lh_sim_failure(o->sim) == NULL; i++) {
        const struct lh_change *c = &e->changes[i];
        if (c->key_size != CHUNK_KEY_BYTES || c->key[0] != 'k' || c->value == NULL)
            continue;
        LeaseholdStored__Chunk *chunk =
            leasehold_stored__chunk__unpack(NULL, c->value_size, c->value);
        LH_ASSERT(chunk != NULL);
        if (chunk->sealed && chunk->intent_to_seal)
            look_at(o, chunk);
        leasehold_stored__chunk__free_unpacked(chunk, NULL);
    }
}
