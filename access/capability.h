/* Capabilities (docs/protocol.md, ACC-5, ACC-6, ACC-9): what the master gives with a chunk, and a
 * chunkserver asks for before it serves that chunk, or follows its primary. Pure.
 *
 * A capability is LH_CAPABILITY_BYTES bytes (docs/formats.md): the number of a key, until when it
 * holds as an age of that key, rights, and a MAC of these and the chunk's id. Whoever has the bytes
 * has the right: they and the keys are secrets, never logged and never printed. */
#pragma once

#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_CAPABILITY_BYTES        33u
#define LH_CAPABILITY_MAC_BYTES    16u
#define LH_CAPABILITY_SECRET_BYTES 32u
/* Keys of a master that are in use at a time: the newest, the one before it, and one that only
 * capabilities given out earlier are made with. */
#define LH_CAPABILITY_KEYS 3u

/* Rights. */
#define LH_CAPABILITY_READ   1u /* to read, and to settle: what readers of the log see anyway */
#define LH_CAPABILITY_APPEND 2u
#define LH_CAPABILITY_LEAD   4u /* of one version, for one chunkserver, at one member (ACC-9) */

/* What a capability to lead says: the master has granted that version to that chunkserver. */
struct lh_lead {
    uint64_t chunk, version;
    const char *holder; /* server id */
};

/* ---- Keys that make them: the master's. */

struct lh_capability_key {
    uint64_t number;
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES];
    struct lh_instant introduced;
    void *mac; /* OpenSSL's state with this secret */
};

/* Of one reign. Nothing of it is stored: a new reign has keys of its own. */
struct lh_capability_issuer {
    uint8_t root[LH_CAPABILITY_SECRET_BYTES];
    uint64_t reign;
    struct lh_duration term;   /* of a capability, from its making */
    struct lh_duration period; /* a new key is introduced so often */
    struct lh_duration notice; /* and used so long after that: its servers know it by then */
    uint64_t made;             /* keys, so far */
    struct lh_capability_key keys[LH_CAPABILITY_KEYS]; /* in use; the oldest first */
    size_t count;
    void *lead_mac; /* OpenSSL's state, for capabilities to lead; NULL: none was made yet */
};

/* `root`: drawn at random for this process. */
void lh_capability_issuer_init(struct lh_capability_issuer *issuer,
    const uint8_t root[LH_CAPABILITY_SECRET_BYTES], uint64_t reign, struct lh_duration term,
    struct lh_duration period, struct lh_duration notice);
void lh_capability_issuer_deinit(struct lh_capability_issuer *issuer);
/* Introduces a key if that is due, and drops those that no capability in force is made with. Call
 * it before the keys are told to somebody. */
void lh_capability_issuer_housekeep(struct lh_capability_issuer *issuer, struct lh_instant now);
/* Makes one for that chunk, with these rights, that holds for `term` from `now` on. */
void lh_capability_give(struct lh_capability_issuer *issuer, struct lh_instant now, uint64_t chunk,
    unsigned rights, uint8_t bytes[LH_CAPABILITY_BYTES]);
/* The key, numbered like the reign, by which that member checks who leads it. No other member is
 * told it. */
void lh_capability_lead_key(struct lh_capability_issuer *issuer, const char *member,
    uint8_t secret[LH_CAPABILITY_SECRET_BYTES]);
/* Makes one to be shown to that member. It has no end. */
void lh_capability_give_lead(struct lh_capability_issuer *issuer, const char *member,
    const struct lh_lead *lead, uint8_t bytes[LH_CAPABILITY_BYTES]);

/* ---- Keys that check them: a chunkserver's. */

struct lh_capability_known;

struct lh_capability_keys {
    size_t most; /* keys that are kept; beyond it the one told first is dropped */
    struct lh_capability_known *items;
    size_t count;
};

void lh_capability_keys_init(struct lh_capability_keys *keys, size_t most);
void lh_capability_keys_deinit(struct lh_capability_keys *keys);
/* The key had at least this age when this node's clock showed `at` (TIME-1: `at` is the stamp that
 * the answer echoes). A number that is known takes the newest age, and the newest secret: a master
 * whose store is an older copy may give numbers again. */
void lh_capability_learn(struct lh_capability_keys *keys, uint64_t number,
    const uint8_t secret[LH_CAPABILITY_SECRET_BYTES], struct lh_instant at, struct lh_duration age);

enum lh_capability_verdict {
    LH_CAPABILITY_HOLDS,
    LH_CAPABILITY_MISSING, /* there is none */
    LH_CAPABILITY_FORGED,  /* no master has made these bytes for this chunk */
    LH_CAPABILITY_LACKING, /* it does not give the rights */
    LH_CAPABILITY_UNKNOWN, /* made with a key that is not here */
    LH_CAPABILITY_OVER,
    LH_CAPABILITY_VERDICTS
};

/* Do these bytes give all of `rights` on the chunk at `now`? HOLDS: `*until` is when that ends. */
enum lh_capability_verdict lh_capability_check(const struct lh_capability_keys *keys,
    uint64_t chunk, unsigned rights, const uint8_t *bytes, size_t size, struct lh_instant now,
    struct lh_instant *until);
/* Do these bytes say that? `keys`: those to be led by. */
enum lh_capability_verdict lh_capability_check_lead(const struct lh_capability_keys *keys,
    const struct lh_lead *lead, const uint8_t *bytes, size_t size);
/* A sentence for whoever presented it. */
const char *lh_capability_text(enum lh_capability_verdict verdict);

/* ---- For tests and observers. */

/* The secret of the reign's key of that index, from the root. */
void lh_capability_secret(const uint8_t root[LH_CAPABILITY_SECRET_BYTES], uint64_t reign,
    uint64_t index, uint8_t secret[LH_CAPABILITY_SECRET_BYTES]);
/* The bytes, made with that secret. `until`: the age of the key at which it ends. */
void lh_capability_make(const uint8_t secret[LH_CAPABILITY_SECRET_BYTES], uint64_t number,
    uint64_t chunk, struct lh_duration until, unsigned rights, uint8_t bytes[LH_CAPABILITY_BYTES]);
/* The same, to lead. */
void lh_capability_make_lead(const uint8_t secret[LH_CAPABILITY_SECRET_BYTES], uint64_t number,
    const struct lh_lead *lead, uint8_t bytes[LH_CAPABILITY_BYTES]);
