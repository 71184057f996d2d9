/* A set of fingerprints: open addressing, linear probing, at most three quarters full. A
 * fingerprint is a hash already, so its low bits choose the place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_seen {
    uint64_t *places; /* 0: free */
    size_t capacity;  /* a power of two */
    size_t count;
};

void lh_seen_init(struct lh_seen *s);
void lh_seen_deinit(struct lh_seen *s);

/* False: it was in the set already. */
bool lh_seen_add(struct lh_seen *s, uint64_t fingerprint);
