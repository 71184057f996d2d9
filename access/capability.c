/* ACC-5, ACC-9: the bytes of a capability, and their MAC. */
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
#define TAG_LEAD       "leasehold capability to lead 1"
#define TAG_LEAD_KEY   "leasehold capability to lead key 1"

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

void lh_mac_rekey(void *mac, const uint8_t secret[LH_CAPABILITY_SECRET_BYTES])
{
    LH_ASSERT(EVP_MAC_init(mac, secret, LH_CAPABILITY_SECRET_BYTES, NULL) == 1);
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

void lh_mac_lead_secret(
    void *mac, uint64_t reign, const char *member, uint8_t secret[LH_CAPABILITY_SECRET_BYTES])
{
    uint8_t of[8];

    lh_put64(of, reign);
    begin(mac, TAG_LEAD_KEY);
    add(mac, of, sizeof of);
    if (!LH_PLANTED("led-by-a-key-of-all"))
        add(mac, (const uint8_t *)member, strlen(member));
    end(mac, secret);
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

/* ---- Capabilities to lead: of a version, and of whom it was granted to. */

static void compute_lead(void *mac, const struct lh_lead *lead,
    const uint8_t bytes[LH_CAPABILITY_BYTES], uint8_t out[SHA256_BYTES])
{
    uint8_t of[16];

    lh_put64(of, lead->chunk);
    lh_put64(of + 8, LH_PLANTED("led-at-any-version") ? 0 : lead->version);
    begin(mac, TAG_LEAD);
    add(mac, bytes, AT_MAC);
    add(mac, of, sizeof of);
    if (!LH_PLANTED("led-by-whoever-has-the-bytes"))
        add(mac, (const uint8_t *)lead->holder, strlen(lead->holder));
    end(mac, out);
}

void lh_mac_make_lead(
    void *mac, uint64_t number, const struct lh_lead *lead, uint8_t bytes[LH_CAPABILITY_BYTES])
{
    uint8_t all[SHA256_BYTES];

    lh_put64(bytes + AT_KEY, number);
    lh_put64(bytes + AT_UNTIL, UINT64_MAX);
    bytes[AT_RIGHTS] = LH_CAPABILITY_LEAD;
    compute_lead(mac, lead, bytes, all);
    memcpy(bytes + AT_MAC, all, LH_CAPABILITY_MAC_BYTES);
}

void lh_capability_make_lead(const uint8_t secret[LH_CAPABILITY_SECRET_BYTES], uint64_t number,
    const struct lh_lead *lead, uint8_t bytes[LH_CAPABILITY_BYTES])
{
    void *mac = lh_mac_create(secret);

    lh_mac_make_lead(mac, number, lead, bytes);
    lh_mac_free(mac);
}

/* ---- What they say. */

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

static bool is_mac_of(const uint8_t all[SHA256_BYTES], const uint8_t bytes[LH_CAPABILITY_BYTES])
{
    /* In a time that does not depend on how many bytes are right. */
    return CRYPTO_memcmp(all, bytes + AT_MAC, LH_CAPABILITY_MAC_BYTES) == 0;
}

bool lh_mac_fits(void *mac, uint64_t chunk, const uint8_t bytes[LH_CAPABILITY_BYTES])
{
    uint8_t all[SHA256_BYTES];

    compute(mac, chunk, bytes, all);
    return is_mac_of(all, bytes) || LH_PLANTED("capability-mac-not-compared");
}

bool lh_mac_fits_lead(
    void *mac, const struct lh_lead *lead, const uint8_t bytes[LH_CAPABILITY_BYTES])
{
    uint8_t all[SHA256_BYTES];

    compute_lead(mac, lead, bytes, all);
    return is_mac_of(all, bytes);
}
