/* The values that a session has cached. All of it is guarded: other threads read it. */
#pragma once

#include "client/core/names/internal.h"

#include <stdatomic.h>

struct lh_client_value {
    struct lh_value view; /* of `bytes` */
    _Atomic uint32_t references;
    char bytes[]; /* and a 0 */
};

struct lh_client_cached {
    struct lh_client_cached *next;                  /* in its bucket */
    struct lh_client_cached *ring_prev, *ring_next; /* of all */
    struct lh_client_value *value;                  /* NULL: there is none under the name */
    struct lh_instant end;                          /* of its lease; zero: it has none */
    struct lh_instant renew_at;            /* whoever reads it from then on asks for a new one */
    const struct lh_client_prefix *prefix; /* it was read at `prefix_revision` of it; NULL: none */
    uint64_t prefix_revision;
    uint64_t shown_on; /* the stream on which it was shown last */
    uint64_t hash;
    size_t size;      /* of the name */
    atomic_bool used; /* since the hand came by */
    char name[];
};

static inline uint64_t lh_client_cached_revision(const struct lh_client_cached *e)
{
    return e->value == NULL ? 0 : e->value->view.revision;
}

struct lh_client_cached *lh_client_cache_find(const struct lh_client_session *s, const char *name);
/* The name's entry with that value, which is taken over. What it had is gone. */
struct lh_client_cached *lh_client_cache_put(
    struct lh_client_session *s, const char *name, struct lh_client_value *value);
void lh_client_cache_remove(struct lh_client_session *s, struct lh_client_cached *e);
void lh_client_cache_clear(struct lh_client_session *s);
/* Those with a lease that runs. `visit` must not change the cache. */
void lh_client_cache_each_leased(struct lh_client_session *s, struct lh_instant now,
    void (*visit)(void *arg, struct lh_client_cached *e), void *arg);
/* It may be served now, while the session is valid. */
bool lh_client_cached_is_current(const struct lh_client_cached *e, struct lh_instant now);
void lh_client_cache_check(const struct lh_client_session *s);
