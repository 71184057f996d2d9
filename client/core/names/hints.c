/* Chunks of files, as the master listed them last: hints for readers that are opened from memory
 * (VAL-7). They need no lease: a reader that begins with them is in the state of one that was
 * opened when they were listed. Where the file ends it asks, and whom it asks in vain it replaces,
 * as every reader does (APP-6). They go with the stream that the lookups' session had: a master
 * whose store is an older copy may give ids again. */
#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/names/internal.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Chunks of one file, each behind the one before it; only the last may be unsealed. */
struct lh_client_hint {
    uint64_t file;
    Leasehold__LocateReply *list;
    size_t bytes;
    struct lh_client_hint *prev, *next; /* the one that was used last is last */
    UT_hash_handle hh;
};

static struct lh_client_hint *find(const struct lh_client_names *n, uint64_t file)
{
    struct lh_client_hint *h;

    HASH_FIND(hh, n->lookups.hints, &file, sizeof file, h);
    return h;
}

static void forget(struct lh_client_names *n, struct lh_client_hint *h)
{
    struct lh_client_lookups *l = &n->lookups;

    l->hint_bytes -= h->bytes;
    HASH_DELETE(hh, l->hints, h);
    DL_DELETE(l->hints_by_use, h);
    leasehold__locate_reply__free_unpacked(h->list, NULL);
    free(h);
}

void lh_client_hints_clear(struct lh_client_names *n)
{
    while (n->lookups.hints_by_use != NULL)
        forget(n, n->lookups.hints_by_use);
}

static void make_room(struct lh_client_names *n)
{
    const struct lh_client_lookups *l = &n->lookups;

    while (l->hints_by_use != NULL && (HASH_CNT(hh, l->hints) > n->client->config.lookups_max ||
                                          l->hint_bytes > n->client->config.cached_bytes))
        forget(n, l->hints_by_use);
}

/* How many chunks of `list` are in front of a list that begins at that offset; 0 also if there is
 * a gap between them. */
static size_t in_front(const Leasehold__LocateReply *list, uint64_t start)
{
    size_t n = 0;

    while (n < list->n_chunks && list->chunks[n]->start < start)
        n++;
    return n > 0 && list->chunks[n - 1]->sealed &&
                   list->chunks[n - 1]->start + list->chunks[n - 1]->length == start
               ? n
               : 0;
}

/* What is known of the file by now: what was known in front of `m`, and `m`. */
static Leasehold__LocateReply *joined(const struct lh_client_names *n,
    const struct lh_client_hint *h, const Leasehold__LocateReply *m)
{
    Leasehold__LocateReply all = LEASEHOLD__LOCATE_REPLY__INIT;
    size_t front = h == NULL ? 0 : in_front(h->list, m->chunks[0]->start);

    if (front + m->n_chunks > n->client->config.lookup_chunks)
        front = 0;
    all.n_chunks = front + m->n_chunks;
    if (all.n_chunks > n->client->config.lookup_chunks)
        all.n_chunks = n->client->config.lookup_chunks;
    all.chunks = lh_alloc_array(all.n_chunks, sizeof(Leasehold__ChunkInfo *));
    for (size_t i = 0; i < all.n_chunks; i++)
        all.chunks[i] = i < front ? h->list->chunks[i] : m->chunks[i - front];
    Leasehold__LocateReply *copy = (Leasehold__LocateReply *)lh_client_copy_message(&all.base);
    free(all.chunks);
    return copy;
}

void lh_client_hint_keep(struct lh_client_names *n, uint64_t file, const Leasehold__LocateReply *m)
{
    struct lh_client_lookups *l = &n->lookups;

    if (l->state != LH_LOOKUPS_UP || m->n_chunks == 0)
        return;
    struct lh_client_hint *old = find(n, file), *h = lh_alloc(sizeof *h);
    h->file = file;
    h->list = joined(n, old, m);
    h->bytes = sizeof *h + leasehold__locate_reply__get_packed_size(h->list) +
               h->list->n_chunks * sizeof(Leasehold__ChunkInfo);
    if (old != NULL)
        forget(n, old);
    HASH_ADD(hh, l->hints, file, sizeof h->file, h);
    DL_APPEND(l->hints_by_use, h);
    l->hint_bytes += h->bytes;
    make_room(n);
}

/* It holds the byte at that offset, or will. */
static bool holds(const Leasehold__ChunkInfo *chunk, uint64_t offset)
{
    return chunk->start <= offset && (!chunk->sealed || offset - chunk->start < chunk->length);
}

bool lh_client_hint(
    struct lh_client_names *n, uint64_t file, uint64_t offset, Leasehold__LocateReply *list)
{
    struct lh_client_hint *h = find(n, file);
    size_t i = 0;

    if (h == NULL)
        return false;
    while (i < h->list->n_chunks && !holds(h->list->chunks[i], offset))
        i++;
    if (i == h->list->n_chunks)
        return false;
    LH_MARK("chunks-from-memory");
    leasehold__locate_reply__init(list);
    list->chunks = h->list->chunks + i;
    list->n_chunks = h->list->n_chunks - i;
    DL_DELETE(n->lookups.hints_by_use, h);
    DL_APPEND(n->lookups.hints_by_use, h);
    return true;
}

void lh_client_hints_check(const struct lh_client_names *n)
{
    const struct lh_client_lookups *l = &n->lookups;
    const struct lh_client_hint *h;
    size_t count = 0, bytes = 0;

    DL_FOREACH(l->hints_by_use, h) {
        uint64_t at = h->list->chunks[0]->start;
        for (size_t i = 0; i < h->list->n_chunks; i++) {
            const Leasehold__ChunkInfo *chunk = h->list->chunks[i];
            LH_ASSERT(chunk->start == at && (chunk->sealed || i + 1 == h->list->n_chunks));
            at += chunk->length;
        }
        count++;
        bytes += h->bytes;
    }
    LH_ASSERT(count == HASH_CNT(hh, l->hints) && bytes == l->hint_bytes);
    LH_ASSERT(count <= n->client->config.lookups_max && bytes <= n->client->config.cached_bytes);
}
