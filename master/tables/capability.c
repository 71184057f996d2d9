#include "master/tables/capability.h"

#include "master/tables/chunk.h"
#include "master/tables/tables.h"

void lh_m_capabilities_start(struct lh_master *m)
{
    lh_capability_issuer_deinit(&m->issuer);
    /* A server whose session lives has been answered within a session term, or hears of the key
     * when it is. */
    lh_capability_issuer_init(&m->issuer, m->config.capability_secret, m->term,
        /* By so much an answer's delay can shorten it. */
        lh_duration_max(m->config.capability_term, m->config.session_term),
        m->config.capability_key_period, m->config.session_term);
}

void lh_m_capability_keys(struct lh_master *m, struct lh_m_wire_keys *keys)
{
    keys->count = 0;
    if (!m->config.capabilities)
        return;
    lh_capability_issuer_housekeep(&m->issuer, m->now);
    for (size_t i = 0; i < m->issuer.count; i++) {
        struct lh_capability_key *key = &m->issuer.keys[i];
        Leasehold__CapabilityKey *wire = &keys->items[keys->count];
        leasehold__capability_key__init(wire);
        wire->number = key->number;
        wire->secret = (ProtobufCBinaryData){sizeof key->secret, key->secret};
        wire->age_ns = lh_instant_until(key->introduced, m->now).ns;
        keys->pointers[keys->count++] = wire;
    }
}

ProtobufCBinaryData lh_m_capability(
    struct lh_master *m, uint64_t chunk, unsigned rights, uint8_t bytes[LH_CAPABILITY_BYTES])
{
    if (!m->config.capabilities)
        return (ProtobufCBinaryData){0};
    LH_MARK("capability-given");
    lh_capability_give(&m->issuer, m->now, chunk, rights, bytes);
    return (ProtobufCBinaryData){LH_CAPABILITY_BYTES, bytes};
}

ProtobufCBinaryData lh_m_lead(struct lh_master *m, const struct lh_m_chunk *c,
    const struct lh_m_server *member, uint8_t bytes[LH_CAPABILITY_BYTES])
{
    const struct lh_lead lead = {
        .chunk = c->id, .version = c->version, .holder = lh_m_holder(c)->id};

    if (!m->config.capabilities)
        return (ProtobufCBinaryData){0};
    lh_capability_give_lead(&m->issuer, member->id, &lead, bytes);
    return (ProtobufCBinaryData){LH_CAPABILITY_BYTES, bytes};
}

ProtobufCBinaryData lh_m_lead_key(struct lh_master *m, const struct lh_m_server *member,
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES])
{
    if (!m->config.capabilities)
        return (ProtobufCBinaryData){0};
    lh_capability_lead_key(&m->issuer, member->id, secret);
    return (ProtobufCBinaryData){LH_CAPABILITY_SECRET_BYTES, secret};
}
