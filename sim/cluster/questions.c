/* What tests and scenarios ask of a cluster from outside: what the master's store says, who may
 * act, whether replicas are equal. The store is read again when it has changed and is asked for. */
#include "sim/cluster/cluster.h"

#include "sim/cluster/internal.h"

#include "proto/leasehold.pb-c.h"
#include "proto/stored.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- What the master's store says ---- */

static void read_chunk(const struct lh_sim_pair *p, struct lh_sim_chunk *out)
{
    LeaseholdStored__Chunk *s = leasehold_stored__chunk__unpack(NULL, p->value_size, p->value);

    LH_ASSERT(s != NULL);
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
}

static void forget_files(struct lh_sim_cluster *c)
{
    for (size_t i = 0; i < c->file_count; i++)
        free(c->files[i].path);
    c->file_count = 0;
}

void lh_sim_read_store(struct lh_sim_cluster *c)
{
    uint64_t version = lh_sim_store_version(lh_sim_master(c));

    if (version == c->store_version)
        return;
    c->store_version = version;
    c->chunk_count = 0;
    forget_files(c);
    for (size_t i = 0; i < lh_sim_store_count(lh_sim_master(c)); i++) {
        const struct lh_sim_pair *p = lh_sim_store_pair(lh_sim_master(c), i);
        if (p->key[0] == 'k') {
            LH_GROW(c->chunks, c->chunk_capacity, c->chunk_count + 1);
            read_chunk(p, &c->chunks[c->chunk_count++]);
        } else if (p->key[0] == 'f') {
            LeaseholdStored__File *f =
                leasehold_stored__file__unpack(NULL, p->value_size, p->value);
            LH_ASSERT(f != NULL);
            if (!f->trashed) {
                LH_GROW(c->files, c->file_capacity, c->file_count + 1);
                c->files[c->file_count++] = (struct named_file){f->file, lh_strdup(f->path)};
            }
            leasehold_stored__file__free_unpacked(f, NULL);
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

static uint32_t admin_of(const struct lh_sim_cluster *c, size_t number)
{
    char key[32];
    uint32_t admin = LEASEHOLD__SERVER_ADMIN__ACTIVE;

    LH_ASSERT(number >= 1 && number <= c->config.servers);
    int size = snprintf(key, sizeof key, "s%s", c->servers[number - 1].name);
    const struct lh_sim_pair *p = lh_sim_store_get(c->masters[0].node, key, (size_t)size);
    if (p == NULL)
        return admin;
    LeaseholdStored__Server *s = leasehold_stored__server__unpack(NULL, p->value_size, p->value);
    LH_ASSERT(s != NULL);
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

struct wanted {
    struct lh_sim_cluster *cluster;
    const char *path;
};

static bool has_primary(void *arg)
{
    const struct wanted *w = arg;

    return lh_sim_open_primary(w->cluster, w->path) != NULL;
}

struct lh_sim_node *lh_sim_wait_primary(
    struct lh_sim_cluster *c, const char *path, struct lh_duration bound)
{
    struct wanted w = {c, path};

    return lh_sim_run_until(c->sim, has_primary, &w, bound) ? lh_sim_open_primary(c, path) : NULL;
}

/* ---- INV-5 ---- */

/* One member's replica as its disk and its core show it. */
struct replica {
    const struct lh_sim_node *node;
    struct lh_replica_status status;
    const uint8_t *log;
    uint64_t log_size;
};

/* False: it is down, or has no replica at the chunk's version. */
static bool look_at(struct lh_sim_cluster *c, const struct lh_sim_chunk *chunk, const char *server,
    struct replica *r)
{
    uint64_t size;

    *r = (struct replica){.node = lh_sim_find(c->sim, server)};
    LH_ASSERT(r->node != NULL);
    const struct lh_chunkserver *cs = lh_sim_chunkserver(r->node);
    if (cs == NULL || !lh_chunkserver_replica(cs, chunk->chunk, &r->status) || r->status.lost ||
        r->status.version != chunk->version)
        return false;
    const uint8_t *bytes = lh_sim_file(r->node, chunk->chunk, &size);
    if (bytes == NULL)
        return false;
    r->log = bytes + (size < LH_LOG_START ? size : LH_LOG_START);
    r->log_size = size < LH_LOG_START ? 0 : size - LH_LOG_START;
    return true;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* NULL: nothing is wrong between the two. */
static const char *differ(const struct replica *a, const struct replica *b, bool settled)
{
    uint64_t below = least(a->status.committed, b->status.committed);

    if (settled) {
        if (a->status.length != b->status.length)
            return "have different lengths";
        if (a->status.sealed != b->status.sealed)
            return "differ about the seal";
        below = a->status.length;
    }
    if (a->log_size < below || b->log_size < below)
        return "are shorter on disk than they say";
    if (below > 0 && memcmp(a->log, b->log, below) != 0)
        return "differ in their bytes";
    return NULL;
}

/* NULL: the chunk's replicas are as they must be. Otherwise what is wrong, and between whom. */
static const char *chunk_differs(struct lh_sim_cluster *c, const struct lh_sim_chunk *chunk,
    bool settled, struct replica *a, struct replica *b)
{
    bool have_first = false;

    for (size_t i = 0; i < chunk->member_count; i++) {
        if (!look_at(c, chunk, chunk->members[i].server, b)) {
            if (settled && !(b->status.lost && c->config.replicas_may_be_lost)) {
                *a = *b;
                return "a member is not there at the newest version";
            }
            continue;
        }
        if (chunk->sealed && settled && b->status.length != chunk->length) {
            *a = *b;
            return "a member has another length than the seal";
        }
        if (!have_first) {
            *a = *b;
            have_first = true;
            continue;
        }
        const char *what = differ(a, b, settled);
        if (what != NULL)
            return what;
    }
    if (settled && !have_first) {
        *a = *b;
        return "no member has a good replica";
    }
    return NULL;
}

bool lh_sim_check_replicas(struct lh_sim_cluster *c, const char *path, bool settled)
{
    size_t count = lh_sim_chunk_count(c, path);

    for (size_t i = 0; i < count; i++) {
        const struct lh_sim_chunk *chunk = lh_sim_chunk_of_file(c, path, i);
        struct replica a = {0}, b = {0};
        const char *what = chunk_differs(c, chunk, settled, &a, &b);
        if (what == NULL)
            continue;
        lh_sim_fail(c->sim, "INV-5", chunk->chunk,
            "chunk %" PRIu64 " of %s: %s: %s (version %" PRIu64 ", length %" PRIu64
            ") and %s (version %" PRIu64 ", "
            "length "
            "%" PRIu64 ")",
            chunk->chunk, path, what, lh_sim_name(a.node), a.status.version, a.status.length,
            lh_sim_name(b.node), b.status.version, b.status.length);
        return false;
    }
    return true;
}

static bool is_settled(void *arg)
{
    const struct wanted *w = arg;
    size_t count = lh_sim_chunk_count(w->cluster, w->path);

    for (size_t i = 0; i < count; i++) {
        struct replica a, b;
        if (chunk_differs(w->cluster, lh_sim_chunk_of_file(w->cluster, w->path, i), true, &a, &b) !=
            NULL)
            return false;
    }
    return true;
}

bool lh_sim_settle(struct lh_sim_cluster *c, struct lh_sim_writer *writer, struct lh_duration bound)
{
    struct wanted w = {c, writer->path};

    if (!lh_sim_flush(writer, bound) || lh_sim_append(writer, 1, 100, bound) != LH_OK) {
        lh_sim_fail(c->sim, "INV-8", 0, "appends to %s are not answered, or failed", writer->path);
        return false;
    }
    /* Asking this after every event would cost more than the run: once in a while is enough. */
    for (uint64_t waited = 0;
         !is_settled(&w) && waited < bound.ns && lh_sim_failure(c->sim) == NULL;
         waited += UINT64_C(100000000))
        lh_sim_run_for(c->sim, lh_milliseconds(100));
    return lh_sim_check_replicas(c, writer->path, true) &&
           lh_sim_check_file(c, 1, writer->path, bound);
}
