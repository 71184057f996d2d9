/* Capabilities as the master gives them (ACC-5, ACC-9), and the keys that it tells chunkservers
 * (ACC-6). Nothing of it is stored. */
#pragma once

#include "master/tables/common.h"

#include "access/capability.h"

/* As messages have them, while the core is not stepped. */
struct lh_m_wire_keys {
    Leasehold__CapabilityKey items[LH_CAPABILITY_KEYS];
    Leasehold__CapabilityKey *pointers[LH_CAPABILITY_KEYS];
    size_t count; /* 0: this master gives none */
};

/* The reign begins: `m->term` is known. */
void lh_m_capabilities_start(struct lh_master *m);
/* All that may be in use. */
void lh_m_capability_keys(struct lh_master *m, struct lh_m_wire_keys *keys);
/* The bytes of one for that chunk, LH_CAPABILITY_BYTES, in `bytes`; or none. */
ProtobufCBinaryData lh_m_capability(
    struct lh_master *m, uint64_t chunk, unsigned rights, uint8_t bytes[LH_CAPABILITY_BYTES]);
/* That the chunk's present version is the holder's, for a member to see; or none. */
ProtobufCBinaryData lh_m_lead(struct lh_master *m, const struct lh_m_chunk *c,
    const struct lh_m_server *member, uint8_t bytes[LH_CAPABILITY_BYTES]);
/* The key by which that server sees it, in `secret`; or none. */
ProtobufCBinaryData lh_m_lead_key(struct lh_master *m, const struct lh_m_server *member,
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES]);
