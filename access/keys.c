/* ACC-6, ACC-9: keys, as the master makes them and as chunkservers keep them. */
#include "access/mac.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

/* ---- The master's. */

#define NUMBER_BITS 24u /* of a key's number within its reign; the reign is above */

void lh_capability_issuer_init(struct lh_capability_issuer *issuer,
    const uint8_t root[LH_CAPABILITY_SECRET_BYTES], uint64_t reign, struct lh_duration term,
    struct lh_duration period, struct lh_duration notice)
{
    *issuer = (struct lh_capability_issuer){
        .reign = reign, .term = term, .period = period, .notice = notice};
    memcpy(issuer->root, root, sizeof issuer->root);
}

static void drop_oldest(struct lh_capability_issuer *issuer)
{
    lh_mac_free(issuer->keys[0].mac);
    OPENSSL_cleanse(&issuer->keys[0], sizeof issuer->keys[0]);
    issuer->count--;
    memmove(issuer->keys, issuer->keys + 1, issuer->count * sizeof issuer->keys[0]);
}

void lh_capability_issuer_deinit(struct lh_capability_issuer *issuer)
{
    while (issuer->count > 0)
        drop_oldest(issuer);
    lh_mac_free(issuer->lead_mac);
    OPENSSL_cleanse(issuer, sizeof *issuer);
}

/* A key is used from `notice` after its introduction on. The first of a reign at once: a server is
 * told it with the answer to its registration. */
static bool used(const struct lh_capability_issuer *issuer, size_t i, struct lh_instant now)
{
    const struct lh_capability_key *key = &issuer->keys[i];

    return i == 0 || lh_instant_reached(now, lh_instant_add(key->introduced, issuer->notice));
}

static void introduce(struct lh_capability_issuer *issuer, struct lh_instant now)
{
    struct lh_capability_key *key = &issuer->keys[issuer->count++];
    uint64_t index = issuer->made++;

    LH_ASSERT(index < UINT64_C(1) << NUMBER_BITS);
    key->number = (issuer->reign << NUMBER_BITS) | index;
    key->introduced = now;
    lh_capability_secret(issuer->root, issuer->reign, index, key->secret);
    key->mac = lh_mac_create(key->secret);
}

void lh_capability_issuer_housekeep(struct lh_capability_issuer *issuer, struct lh_instant now)
{
    /* The last capability of a key is made before the next one is used. */
    while (issuer->count > 1 &&
           lh_instant_reached(now, lh_instant_add(issuer->keys[1].introduced,
                                       lh_duration_add(issuer->notice, issuer->term))))
        drop_oldest(issuer);
    if (issuer->count == LH_CAPABILITY_KEYS)
        return; /* a while later, then */
    if (issuer->count == 0 ||
        lh_instant_reached(
            now, lh_instant_add(issuer->keys[issuer->count - 1].introduced, issuer->period)))
        introduce(issuer, now);
}

void lh_capability_give(struct lh_capability_issuer *issuer, struct lh_instant now, uint64_t chunk,
    unsigned rights, uint8_t bytes[LH_CAPABILITY_BYTES])
{
    lh_capability_issuer_housekeep(issuer, now);
    size_t i = issuer->count - 1;
    while (!used(issuer, i, now))
        i--;
    const struct lh_capability_key *key = &issuer->keys[i];
    lh_mac_make(key->mac, key->number, chunk,
        lh_duration_add(lh_instant_until(key->introduced, now), issuer->term), rights, bytes);
}

void lh_capability_lead_key(struct lh_capability_issuer *issuer, const char *member,
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES])
{
    if (issuer->lead_mac == NULL)
        issuer->lead_mac = lh_mac_create(issuer->root);
    else
        lh_mac_rekey(issuer->lead_mac, issuer->root);
    lh_mac_lead_secret(issuer->lead_mac, issuer->reign, member, secret);
}

void lh_capability_give_lead(struct lh_capability_issuer *issuer, const char *member,
    const struct lh_lead *lead, uint8_t bytes[LH_CAPABILITY_BYTES])
{
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES];

    lh_capability_lead_key(issuer, member, secret);
    lh_mac_rekey(issuer->lead_mac, secret);
    lh_mac_make_lead(issuer->lead_mac, issuer->reign, lead, bytes);
    OPENSSL_cleanse(secret, sizeof secret);
}

/* ---- A chunkserver's. */

struct lh_capability_known {
    uint64_t number;
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES];
    void *mac;
    struct lh_instant at; /* its age was at least `age` at this moment */
    struct lh_duration age;
};

void lh_capability_keys_init(struct lh_capability_keys *keys, size_t most)
{
    *keys = (struct lh_capability_keys){.most = most};
    keys->items = lh_alloc_array(most, sizeof *keys->items);
}

static void drop(struct lh_capability_keys *keys, size_t i)
{
    lh_mac_free(keys->items[i].mac);
    OPENSSL_cleanse(&keys->items[i], sizeof keys->items[i]);
    keys->count--;
    memmove(keys->items + i, keys->items + i + 1, (keys->count - i) * sizeof keys->items[0]);
}

void lh_capability_keys_deinit(struct lh_capability_keys *keys)
{
    while (keys->count > 0)
        drop(keys, keys->count - 1);
    free(keys->items);
    *keys = (struct lh_capability_keys){0};
}

static struct lh_capability_known *find(const struct lh_capability_keys *keys, uint64_t number)
{
    for (size_t i = 0; i < keys->count; i++)
        if (keys->items[i].number == number)
            return &keys->items[i];
    return NULL;
}

void lh_capability_learn(struct lh_capability_keys *keys, uint64_t number,
    const uint8_t secret[LH_CAPABILITY_SECRET_BYTES], struct lh_instant at, struct lh_duration age)
{
    struct lh_capability_known *k = find(keys, number);

    if (k != NULL && CRYPTO_memcmp(k->secret, secret, sizeof k->secret) != 0) {
        drop(keys, (size_t)(k - keys->items));
        k = NULL;
    }
    if (k == NULL) {
        if (keys->count == keys->most)
            drop(keys, 0);
        k = &keys->items[keys->count++];
        k->number = number;
        memcpy(k->secret, secret, sizeof k->secret);
        k->mac = lh_mac_create(secret);
    }
    k->at = at;
    k->age = age;
}

/* When a capability of that key ends which names `until`. */
static struct lh_instant ends(const struct lh_capability_known *k, struct lh_duration until)
{
    if (LH_PLANTED("capability-never-over"))
        return LH_INSTANT_NEVER;
    return until.ns <= k->age.ns ? (struct lh_instant){0}
                                 : lh_instant_add(k->at, lh_nanoseconds(until.ns - k->age.ns));
}

/* The key that they say they were made with. */
static enum lh_capability_verdict find_key(const struct lh_capability_keys *keys,
    const uint8_t *bytes, size_t size, const struct lh_capability_known **key)
{
    if (size == 0)
        return LH_CAPABILITY_MISSING;
    if (size != LH_CAPABILITY_BYTES)
        return LH_CAPABILITY_FORGED;
    *key = find(keys, lh_mac_key_of(bytes));
    return *key == NULL ? LH_CAPABILITY_UNKNOWN : LH_CAPABILITY_HOLDS;
}

enum lh_capability_verdict lh_capability_check(const struct lh_capability_keys *keys,
    uint64_t chunk, unsigned rights, const uint8_t *bytes, size_t size, struct lh_instant now,
    struct lh_instant *until)
{
    const struct lh_capability_known *k;
    enum lh_capability_verdict found = find_key(keys, bytes, size, &k);

    if (found != LH_CAPABILITY_HOLDS)
        return found;
    if (!lh_mac_fits(k->mac, chunk, bytes))
        return LH_CAPABILITY_FORGED;
    if ((lh_mac_rights_of(bytes) & rights) != rights && !LH_PLANTED("capability-rights-ignored"))
        return LH_CAPABILITY_LACKING;
    *until = ends(k, lh_mac_until_of(bytes));
    return lh_instant_reached(now, *until) ? LH_CAPABILITY_OVER : LH_CAPABILITY_HOLDS;
}

enum lh_capability_verdict lh_capability_check_lead(const struct lh_capability_keys *keys,
    const struct lh_lead *lead, const uint8_t *bytes, size_t size)
{
    const struct lh_capability_known *k;
    enum lh_capability_verdict found = find_key(keys, bytes, size, &k);

    if (found != LH_CAPABILITY_HOLDS)
        return found;
    return lh_mac_fits_lead(k->mac, lead, bytes) ? LH_CAPABILITY_HOLDS : LH_CAPABILITY_FORGED;
}

const char *lh_capability_text(enum lh_capability_verdict verdict)
{
    static const char *const texts[LH_CAPABILITY_VERDICTS] = {
        [LH_CAPABILITY_HOLDS] = "the capability holds",
        [LH_CAPABILITY_MISSING] = "no capability was shown: the master gives one with the chunk",
        [LH_CAPABILITY_FORGED] = "the capability was not made for this",
        [LH_CAPABILITY_LACKING] = "the capability does not give this right",
        [LH_CAPABILITY_UNKNOWN] = "the capability was made with a key that this server does not "
                                  "know: ask the master again",
        [LH_CAPABILITY_OVER] = "the capability has run out: ask the master again",
    };

    return texts[verdict];
}
