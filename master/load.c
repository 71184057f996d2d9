/* Stored records to tables, at the start. The keys are in master/tables/write.c. */
#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/master.h"
#include "master/seal/seal.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"
#include "proto/stored.pb-c.h"

#include <inttypes.h>
#include <stdarg.h>

/* What a stored record is unpacked into: nothing in it is freed by itself. One that does not fit
 * makes no sense. */
struct arena {
    ProtobufCAllocator allocator;
    size_t used;
    _Alignas(max_align_t) uint8_t bytes[32768];
};

static void *arena_take(void *data, size_t size)
{
    struct arena *arena = data;
    size_t step = _Alignof(max_align_t), whole = (size + step - 1) / step * step;

    if (whole < size || whole > sizeof arena->bytes - arena->used)
        return NULL;
    arena->used += whole;
    return arena->bytes + arena->used - whole;
}

static void arena_free(void *data, void *part)
{
    (void)data;
    (void)part;
}

static ProtobufCAllocator *arena_open(struct arena *arena)
{
    arena->allocator = (ProtobufCAllocator){arena_take, arena_free, arena};
    arena->used = 0;
    return &arena->allocator;
}

static uint64_t get_u64(const uint8_t *from)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | from[i];
    return value;
}

/* ---- Loading. */

__attribute__((format(printf, 4, 5))) static int refuse(
    char *text, size_t text_size, int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(text, text_size, format, args);
    va_end(args);
    return error;
}

#define CORRUPT(...) refuse(text, text_size, LH_ERR_CORRUPT, "metadata store: " __VA_ARGS__)

static int load_master(
    struct lh_master *m, const uint8_t *value, size_t size, char *text, size_t text_size)
{
    struct arena arena;
    LeaseholdStored__Master *record =
        leasehold_stored__master__unpack(arena_open(&arena), size, value);

    if (record == NULL)
        return CORRUPT("the master's record cannot be read; restore the store from a backup");
    if (record->format > LH_MASTER_FORMAT)
        return refuse(text, text_size, LH_ERR_WRONG_FORMAT,
            "metadata store: written in format %u by a newer release; this one reads up to %u: "
            "start the newer release",
            record->format, LH_MASTER_FORMAT);
    if (record->cluster_id[0] == 0 || record->next_chunk == 0 ||
        record->next_chunk > LH_LEASE_ID_LAST / 2 || record->next_file == 0)
        return CORRUPT("the master's record is incomplete; restore the store from a backup");
    free(m->cluster_id);
    m->cluster_id = lh_strdup(record->cluster_id);
    m->term = record->master_term;
    m->longest_session_ns = record->longest_session_ns;
    m->next_file = record->next_file;
    m->next_chunk = record->next_chunk;
    m->behind = record->behind[0] == 0 ? NULL : lh_strdup(record->behind);
    return LH_OK;
}

static int load_file(struct lh_master *m, uint64_t id, const uint8_t *value, size_t size,
    char *text, size_t text_size)
{
    struct arena arena;
    LeaseholdStored__File *record = leasehold_stored__file__unpack(arena_open(&arena), size, value);

    if (record == NULL)
        return CORRUPT("file %" PRIu64 " cannot be read", id);
    if (record->file != id || id == 0 || id >= m->next_file || record->replication == 0 ||
        record->replication > LH_REPLICATION_MAX || record->min_replicas == 0 ||
        record->min_replicas > record->replication || record->durability > 1 ||
        record->on_primary_loss > LEASEHOLD__ON_PRIMARY_LOSS__WAIT)
        return CORRUPT("the record of file %" PRIu64 " makes no sense", id);
    if (!record->trashed && lh_m_file_by_path(m, record->path) != NULL)
        return CORRUPT("two files have the path \"%s\"", record->path);
    struct lh_m_file *f = lh_m_file_new(m, id, record->path, record->trashed);
    f->durability = (uint8_t)record->durability;
    f->replication = (uint8_t)record->replication;
    f->min_replicas = (uint8_t)record->min_replicas;
    f->chunk_size = record->chunk_size;
    f->created_unix_ms = record->created_unix_ms;
    f->on_primary_loss = (uint8_t)record->on_primary_loss;
    if (record->trashed) {
        struct lh_m_file_motion *fm = lh_m_move_file(m, f);
        fm->trash_left = lh_milliseconds(record->trash_left_ms);
        fm->trash_number = record->trash_number;
        if (record->trash_number >= m->trash_number)
            m->trash_number = record->trash_number + 1;
    }
    return LH_OK;
}

/* Does the record follow the chunks of `f` that were loaded so far? */
static bool follows(
    const struct lh_master *m, const struct lh_m_file *f, const LeaseholdStored__Chunk *record)
{
    if (record->index != f->chunk_count || record->chunk == 0 || record->chunk >= m->next_chunk ||
        lh_m_chunk_find(m, record->chunk) != NULL || record->n_members == 0 ||
        record->n_members > LH_REPLICATION_MAX || record->created != (record->version > 0))
        return false;
    for (size_t i = 0; i < record->n_members; i++) {
        size_t size = strlen(record->members[i]->server_id);
        if (size == 0 || size > LH_NAME_BYTES_MAX)
            return false;
    }
    if (strlen(record->holder) > LH_NAME_BYTES_MAX || record->granted_version > record->version ||
        (record->intent_to_seal && !record->created))
        return false;
    if (f->chunk_count == 0)
        return record->start == 0;
    const struct lh_m_chunk *last = lh_m_tail(f);
    return last->sealed && record->start == last->start + last->length;
}

static void take_chunk(
    struct lh_master *m, struct lh_m_file *f, const LeaseholdStored__Chunk *record)
{
    struct lh_m_chunk *c = lh_m_chunk_new(m, f, record->chunk);

    c->version = record->version;
    for (size_t i = 0; i < record->n_members; i++) {
        const LeaseholdStored__Member *stored = record->members[i];
        struct lh_m_member member = lh_m_member_at(lh_m_server_get(m, stored->server_id));
        member.joining = stored->joining;
        member.lost = stored->lost;
        member.created = record->created;
        lh_m_member_add(c, member);
    }
    c->created = record->created;
    c->length = record->length;
    c->checksum = record->checksum;
    c->intent_to_seal = record->intent_to_seal;
    if (record->holder[0] != 0 && !record->sealed && !LH_PLANTED("leases-forgotten-on-restart")) {
        LH_MARK("restart-with-lease");
        lh_m_grant_load(m, c, lh_m_server_get(m, record->holder), record->holder_incarnation,
            record->granted_version == 0 ? record->version : record->granted_version);
    }
    if (record->sealed) {
        LH_MARK("restart-with-seal");
        lh_m_seal_load(m, c);
    } else {
        if (!record->created)
            LH_MARK("restart-in-creation");
        lh_m_creation_start(m, c);
        if (record->intent_to_seal)
            lh_m_roll_resume(m, c);
    }
}

static int load_chunk(struct lh_master *m, uint64_t file, uint64_t index, const uint8_t *value,
    size_t size, char *text, size_t text_size)
{
    struct lh_m_file *f = lh_m_file_by_id(m, file);

    if (f == NULL)
        return CORRUPT("a chunk belongs to file %" PRIu64 ", which does not exist", file);
    struct arena arena;
    LeaseholdStored__Chunk *record =
        leasehold_stored__chunk__unpack(arena_open(&arena), size, value);
    if (record == NULL)
        return CORRUPT("chunk %" PRIu64 " of \"%s\" cannot be read", index, f->path);
    if (record->file != file || record->index != index || !follows(m, f, record))
        return CORRUPT(
            "chunk %" PRIu64 " of \"%s\" does not fit what is before it", index, f->path);
    take_chunk(m, f, record);
    lh_m_motions_settle(m);
    return LH_OK;
}

static int load_server(
    struct lh_master *m, const uint8_t *value, size_t size, char *text, size_t text_size)
{
    struct arena arena;
    LeaseholdStored__Server *record =
        leasehold_stored__server__unpack(arena_open(&arena), size, value);

    if (record == NULL || record->server_id[0] == 0 ||
        strlen(record->server_id) > LH_NAME_BYTES_MAX ||
        record->admin > LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING)
        return CORRUPT("a chunkserver's record cannot be read");
    struct lh_m_server *s = lh_m_server_get(m, record->server_id);
    s->incarnation = s->session.lessee.process = record->incarnation;
    s->registration = record->registration;
    s->process = record->process;
    free(s->machine_id);
    free(s->address);
    free(s->failure_domain);
    s->machine_id = lh_strdup(record->machine_id);
    s->address = lh_strdup(record->address);
    s->failure_domain = lh_strdup(record->failure_domain);
    s->admin = (Leasehold__ServerAdmin)record->admin;
    return LH_OK;
}

int lh_master_load(struct lh_master *m, const void *key, size_t key_size, const void *value,
    size_t value_size, char *text, size_t text_size)
{
    const uint8_t *k = key;

    LH_ASSERT(!m->started);
    if (key_size == 1 && k[0] == 'M')
        return load_master(m, value, value_size, text, text_size);
    if (m->cluster_id == NULL)
        return CORRUPT("it has no master's record; is this a master's data directory?");
    if (key_size == 9 && k[0] == 'f')
        return load_file(m, get_u64(k + 1), value, value_size, text, text_size);
    if (key_size == 17 && k[0] == 'k')
        return load_chunk(m, get_u64(k + 1), get_u64(k + 9), value, value_size, text, text_size);
    if (key_size == 9 && k[0] == 'r' && value_size == 8) {
        LH_MARK("restart-with-tombstone");
        lh_m_tombstone_put(m, get_u64(k + 1), get_u64(value));
        return LH_OK;
    }
    if (key_size > 1 && k[0] == 's')
        return load_server(m, value, value_size, text, text_size);
    return CORRUPT("a key of %zu bytes that begins with 0x%02x has no meaning", key_size,
        key_size == 0 ? 0u : (unsigned)k[0]);
}
