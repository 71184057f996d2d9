/* ACC-5: the bytes of a capability, and their MAC. */
#include "access/capability.h"

#include "access/mac.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/probe.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <string.h>

/* What a MAC is of begins with its use: one secret never signs two kinds of things alike. */
#define TAG_CAPABILITY "leasehold capability 1"
#define TAG_KEY        "leasehold capability key 1"

#define SHA256_BYTES 32u

enum { AT_KEY = 0, AT_UNTIL = 8, AT_RIGHTS = 16, AT_MAC = 17 };

_Static_assert(AT_MAC + LH_CAPABILITY_MAC_BYTES == LH_CAPABILITY_BYTES, "the layout");
_Static_assert(LH_CAPABILITY_SECRET_BYTES == SHA256_BYTES, "a secret is a whole MAC");

/* ---- HMAC-SHA-256, by OpenSSL. It is a computation: no randomness, and its memory its own. */

void *lh_mac_create(const uint8_t secret[LH_CAPABILITY_SECRET_BYTES])
{
    char digest[] = "SHA256";
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = mac == NULL ? NULL : EVP_MAC_CTX_new(mac);
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string("digest", digest, 0), OSSL_PARAM_construct_end()};

    LH_ASSERT(context != NULL);
    LH_ASSERT(EVP_MAC_init(context, secret, LH_CAPABILITY_SECRET_BYTES, params) == 1);
    EVP_MAC_free(mac);
    return context;
}

void lh_mac_free(void *mac)
{
    EVP_MAC_CTX_free(mac);
}

static void begin(void *mac, const char *tag)
{
    LH_ASSERT(EVP_MAC_init(mac, NULL, 0, NULL) == 1); /* the same secret again */
    LH_ASSERT(EVP_MAC_update(mac, (const unsigned char *)tag, strlen(tag)) == 1);
}

static void add(void *mac, const uint8_t *bytes, size_t size)
{
    LH_ASSERT(EVP_MAC_update(mac, bytes, size) == 1);
}

static void end(void *mac, uint8_t out[SHA256_BYTES])
{
    size_t size = 0;

    LH_ASSERT(EVP_MAC_final(mac, out, &size, SHA256_BYTES) == 1 && size == SHA256_BYTES);
}

/* ---- Secrets. */

void lh_capability_secret(const uint8_t root[LH_CAPABILITY_SECRET_BYTES], uint64_t reign,
    uint64_t index, uint8_t secret[LH_CAPABILITY_SECRET_BYTES])
{
    void *mac = lh_mac_create(root);
    uint8_t of[16];

    lh_put64(of, reign);
    lh_put64(of + 8, index);
    begin(mac, TAG_KEY);
    add(mac, of, sizeof of);
    end(mac, secret);
    lh_mac_free(mac);
}

/* ---- Capabilities. */

/* `bytes` has all but the MAC. */
static void compute(
    void *mac, uint64_t chunk, const uint8_t bytes[LH_CAPABILITY_BYTES], uint8_t out[SHA256_BYTES])
{
    uint8_t of[8];

    lh_put64(of, LH_PLANTED("capability-of-any-chunk") ? 0 : chunk);
    begin(mac, TAG_CAPABILITY);
    add(mac, bytes, AT_MAC);
    add(mac, of, sizeof of);
    end(mac, out);
}

void lh_mac_make(void *mac, uint64_t number, uint64_t chunk, struct lh_duration until,
    unsigned rights, uint8_t bytes[LH_CAPABILITY_BYTES])
{
    uint8_t all[SHA256_BYTES];

    lh_put64(bytes + AT_KEY, number);
    lh_put64(bytes + AT_UNTIL, lh_duration_ms(until));
    bytes[AT_RIGHTS] = (uint8_t)rights;
    compute(mac, chunk, bytes, all);
    memcpy(bytes + AT_MAC, all, LH_CAPABILITY_MAC_BYTES);
}

void lh_capability_make(const uint8_t secret[LH_CAPABILITY_SECRET_BYTES], uint64_t number,
    uint64_t chunk, struct lh_duration until, unsigned rights, uint8_t bytes[LH_CAPABILITY_BYTES])
{
    void *mac = lh_mac_create(secret);

    lh_mac_make(mac, number, chunk, until, rights, bytes);
    lh_mac_free(mac);
}

uint64_t lh_mac_key_of(const uint8_t bytes[LH_CAPABILITY_BYTES])
{
    return lh_get64(bytes + AT_KEY);
}

struct lh_duration lh_mac_until_of(const uint8_t bytes[LH_CAPABILITY_BYTES])
{
    return lh_milliseconds(lh_get64(bytes + AT_UNTIL));
}

unsigned lh_mac_rights_of(const uint8_t bytes[LH_CAPABILITY_BYTES])
{
    return bytes[AT_RIGHTS];
}

bool lh_mac_fits(void *mac, uint64_t chunk, const uint8_t bytes[LH_CAPABILITY_BYTES])
{
    uint8_t all[SHA256_BYTES];

    compute(mac, chunk, bytes, all);
    /* In a time that does not depend on how many bytes are right. */
    return CRYPTO_memcmp(all, bytes + AT_MAC, LH_CAPABILITY_MAC_BYTES) == 0 ||
           LH_PLANTED("capability-mac-not-compared");
}
