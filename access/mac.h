/* The bytes of a capability, with a state of OpenSSL that has a key's secret. */
#pragma once

#include "access/capability.h"

void *lh_mac_create(const uint8_t secret[LH_CAPABILITY_SECRET_BYTES]);
void lh_mac_free(void *mac);

/* As lh_capability_make(). */
void lh_mac_make(void *mac, uint64_t number, uint64_t chunk, struct lh_duration until,
    unsigned rights, uint8_t bytes[LH_CAPABILITY_BYTES]);
/* They were made for this chunk, with this secret. */
bool lh_mac_fits(void *mac, uint64_t chunk, const uint8_t bytes[LH_CAPABILITY_BYTES]);

uint64_t lh_mac_key_of(const uint8_t bytes[LH_CAPABILITY_BYTES]);
struct lh_duration lh_mac_until_of(const uint8_t bytes[LH_CAPABILITY_BYTES]);
unsigned lh_mac_rights_of(const uint8_t bytes[LH_CAPABILITY_BYTES]);
