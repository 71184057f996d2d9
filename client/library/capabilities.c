/* Two pages of the longest listing fit: whoever lists and looks finds them all. */
#include "client/library/capabilities.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define KEPT_MAX 20000u

struct kept {
    uint64_t chunk;
    char *prefix;
    ProtobufCBinaryData bytes;
    UT_hash_handle hh;
};

struct lh_capabilities {
    pthread_mutex_t mutex;
    struct kept *all; /* in the order in which they were kept */
};

struct lh_capabilities *lh_capabilities_create(void)
{
    struct lh_capabilities *all = lh_alloc(sizeof *all);

    (void)pthread_mutex_init(&all->mutex, NULL);
    return all;
}

static void forget(struct lh_capabilities *all, struct kept *k)
{
    HASH_DEL(all->all, k);
    free(k->bytes.data);
    free(k->prefix);
    free(k);
}

void lh_capabilities_destroy(struct lh_capabilities *all)
{
    while (all->all != NULL)
        forget(all, all->all);
    (void)pthread_mutex_destroy(&all->mutex);
    free(all);
}

static ProtobufCBinaryData copy(const ProtobufCBinaryData *from)
{
    ProtobufCBinaryData to = {from->len, from->len == 0 ? NULL : lh_alloc(from->len)};

    if (from->len > 0)
        memcpy(to.data, from->data, from->len);
    return to;
}

void lh_capabilities_keep(
    struct lh_capabilities *all, const char *prefix, const Leasehold__ChunkInfo *listed)
{
    uint64_t chunk = listed->chunk;
    struct kept *k;

    if (listed->capability.len == 0)
        return;
    (void)pthread_mutex_lock(&all->mutex);
    HASH_FIND(hh, all->all, &chunk, sizeof chunk, k);
    if (k != NULL)
        forget(all, k);
    else if (HASH_COUNT(all->all) == KEPT_MAX)
        forget(all, all->all);
    k = lh_alloc(sizeof *k);
    k->chunk = chunk;
    k->prefix = lh_strdup(prefix);
    k->bytes = copy(&listed->capability);
    HASH_ADD(hh, all->all, chunk, sizeof k->chunk, k);
    (void)pthread_mutex_unlock(&all->mutex);
}

ProtobufCBinaryData lh_capabilities_of(struct lh_capabilities *all, uint64_t chunk, char **prefix)
{
    ProtobufCBinaryData bytes = {0};
    struct kept *k;

    (void)pthread_mutex_lock(&all->mutex);
    HASH_FIND(hh, all->all, &chunk, sizeof chunk, k);
    *prefix = lh_strdup(k == NULL ? "" : k->prefix);
    if (k != NULL)
        bytes = copy(&k->bytes);
    (void)pthread_mutex_unlock(&all->mutex);
    return bytes;
}
