/* The bytes of a capability, with a state of OpenSSL that has a key's secret. */
#pragma once

#include "access/capability.h"

void *lh_mac_create(const uint8_t secret[LH_CAPABILITY_SECRET_BYTES]);
void lh_mac_free(void *mac);
/* The state has this secret from now on. */
void lh_mac_rekey(void *mac, const uint8_t secret[LH_CAPABILITY_SECRET_BYTES]);
/* The secret by which that member is led in that reign, with a state that has the reign's root. */
void lh_mac_lead_secret(
    void *mac, uint64_t reign, const char *member, uint8_t secret[LH_CAPABILITY_SECRET_BYTES]);

/* As lh_capability_make(). */
void lh_mac_make(void *mac, uint64_t number, uint64_t chunk, struct lh_duration until,
    unsigned rights, uint8_t bytes[LH_CAPABILITY_BYTES]);
/* As lh_capability_make_lead(). */
void lh_mac_make_lead(
    void *mac, uint64_t number, const struct lh_lead *lead, uint8_t bytes[LH_CAPABILITY_BYTES]);
/* They were made for this chunk, with this secret. */
bool lh_mac_fits(void *mac, uint64_t chunk, const uint8_t bytes[LH_CAPABILITY_BYTES]);
bool lh_mac_fits_lead(
    void *mac, const struct lh_lead *lead, const uint8_t bytes[LH_CAPABILITY_BYTES]);

uint64_t lh_mac_key_of(const uint8_t bytes[LH_CAPABILITY_BYTES]);
struct lh_duration lh_mac_until_of(const uint8_t bytes[LH_CAPABILITY_BYTES]);
unsigned lh_mac_rights_of(const uint8_t bytes[LH_CAPABILITY_BYTES]);
