/* What tests and scenarios ask of a cluster from outside: what the master's store says, who may
 * act, whether replicas are equal. The store is read again when it has changed and is asked for. */
#include "sim/cluster/cluster.h"

#include "sim/cluster/internal.h"
#include "sim/world/disk.h"

#include "proto/leasehold.pb-c.h"
#include "proto/stored.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- What the master's store says ---- */

/* False: a hand has changed the record, and no master has written it again yet. */
static bool read_chunk(const struct lh_sim_pair *p, struct lh_sim_chunk *out)
{
    LeaseholdStored__Chunk *s = leasehold_stored__chunk__unpack(NULL, p->value_size, p->value);

    if (s == NULL)
        return false;
    *out = (struct lh_sim_chunk){.chunk = s->chunk,
        .file = s->file,
        .index = s->index,
        .start = s->start,
        .version = s->version,
        .length = s->length,
        .created = s->created,
        .sealed = s->sealed};
    (void)snprintf(out->holder, sizeof out->holder, "%s", s->holder);
    for (size_t i = 0; i < s->n_members && i < 16; i++) {
        (void)snprintf(
            out->members[i].server, sizeof out->members[i].server, "%s", s->members[i]->server_id);
        out->members[i].joining = s->members[i]->joining;
        out->member_count++;
    }
    leasehold_stored__chunk__free_unpacked(s, NULL);
    return true;
}

static void read_file(struct lh_sim_cluster *c, const struct lh_sim_pair *p)
{
    LeaseholdStored__File *f = leasehold_stored__file__unpack(NULL, p->value_size, p->value);

    if (f != NULL && !f->trashed) {
        LH_GROW(c->files, c->file_capacity, c->file_count + 1);
        c->files[c->file_count++] =
            (struct named_file){f->file, lh_strdup(f->path), lh_strdup(f->lock_name), f->fence};
    }
    leasehold_stored__file__free_unpacked(f, NULL);
}

static void forget_files(struct lh_sim_cluster *c)
{
    for (size_t i = 0; i < c->file_count; i++) {
        free(c->files[i].path);
        free(c->files[i].lock_name);
    }
    c->file_count = 0;
}

void lh_sim_read_store(struct lh_sim_cluster *c)
{
    uint64_t version = lh_sim_store_version(lh_sim_store(c));

    if (version == c->store_version)
        return;
    c->store_version = version;
    c->chunk_count = 0;
    forget_files(c);
    for (size_t i = 0; i < lh_sim_store_count(lh_sim_store(c)); i++) {
        const struct lh_sim_pair *p = lh_sim_store_pair(lh_sim_store(c), i);
        if (p->key[0] == 'k') {
            LH_GROW(c->chunks, c->chunk_capacity, c->chunk_count + 1);
            c->chunk_count += read_chunk(p, &c->chunks[c->chunk_count]);
        } else if (p->key[0] == 'f') {
            read_file(c, p);
        }
    }
}

void lh_sim_questions_deinit(struct lh_sim_cluster *c)
{
    forget_files(c);
    free(c->files);
    free(c->chunks);
}

/* ---- Questions ---- */

static uint32_t admin_of(struct lh_sim_cluster *c, size_t number)
{
    char key[32];
    uint32_t admin = LEASEHOLD__SERVER_ADMIN__ACTIVE;

    LH_ASSERT(number >= 1 && number <= c->config.servers);
    int size = snprintf(key, sizeof key, "s%s", c->servers[number - 1].name);
    const struct lh_sim_pair *p = lh_sim_store_get(lh_sim_store(c), key, (size_t)size);
    if (p == NULL)
        return admin;
    LeaseholdStored__Server *s = leasehold_stored__server__unpack(NULL, p->value_size, p->value);
    if (s != NULL) /* else a hand has changed it */
        admin = s->admin;
    leasehold_stored__server__free_unpacked(s, NULL);
    return admin;
}

bool lh_sim_is_draining(struct lh_sim_cluster *c, size_t number)
{
    return admin_of(c, number) != LEASEHOLD__SERVER_ADMIN__ACTIVE;
}

bool lh_sim_is_decommissioned(struct lh_sim_cluster *c, size_t number)
{
    return admin_of(c, number) == LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING;
}

/* The file's chunks, which lie side by side in the order of their indexes, as in the store. */
static const struct lh_sim_chunk *chunks_of(
    struct lh_sim_cluster *c, const char *path, size_t *count)
{
    uint64_t file = 0;
    size_t first = 0;

    *count = 0;
    lh_sim_read_store(c);
    for (size_t i = 0; i < c->file_count; i++)
        if (strcmp(c->files[i].path, path) == 0)
            file = c->files[i].file;
    while (first < c->chunk_count && c->chunks[first].file != file)
        first++;
    while (first + *count < c->chunk_count && c->chunks[first + *count].file == file)
        ++*count;
    return *count == 0 ? NULL : &c->chunks[first];
}

const struct lh_sim_chunk *lh_sim_chunk_of_file(
    struct lh_sim_cluster *c, const char *path, uint64_t index)
{
    size_t count;
    const struct lh_sim_chunk *chunks = chunks_of(c, path, &count);

    return index < count ? &chunks[index] : NULL;
}

size_t lh_sim_chunk_count(struct lh_sim_cluster *c, const char *path)
{
    size_t count;

    (void)chunks_of(c, path, &count);
    return count;
}

bool lh_sim_chunk_at(
    struct lh_sim_cluster *c, const char *path, uint64_t index, struct lh_sim_chunk *found)
{
    const struct lh_sim_chunk *there = lh_sim_chunk_of_file(c, path, index);

    if (there != NULL)
        *found = *there;
    return there != NULL;
}

bool lh_sim_tail(struct lh_sim_cluster *c, const char *path, struct lh_sim_chunk *chunk)
{
    size_t count;
    const struct lh_sim_chunk *chunks = chunks_of(c, path, &count);

    if (count == 0)
        return false;
    *chunk = chunks[count - 1];
    return true;
}

bool lh_sim_chunk(struct lh_sim_cluster *c, uint64_t chunk, struct lh_sim_chunk *found)
{
    lh_sim_read_store(c);
    for (size_t i = 0; i < c->chunk_count; i++) {
        if (c->chunks[i].chunk != chunk)
            continue;
        *found = c->chunks[i];
        return true;
    }
    return false;
}

struct lh_sim_node *lh_sim_primary(struct lh_sim_cluster *c, uint64_t chunk)
{
    for (size_t i = 0; i < c->config.servers; i++)
        if (lh_sim_may_act(c->server_nodes[i], chunk))
            return c->server_nodes[i];
    return NULL;
}

struct lh_sim_node *lh_sim_open_primary(struct lh_sim_cluster *c, const char *path)
{
    struct lh_sim_chunk tail;
    struct lh_replica_status status;

    if (!lh_sim_tail(c, path, &tail) || tail.sealed)
        return NULL;
    struct lh_sim_node *node = lh_sim_primary(c, tail.chunk);
    if (node == NULL || lh_sim_is_paused(node) ||
        !lh_chunkserver_replica(lh_sim_chunkserver(node), tail.chunk, &status) || !status.open)
        return NULL;
    return node;
}
