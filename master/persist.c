/* Tables to stored records and back.
 *
 * Keys, in the order in which they are loaded (what refers comes after what it refers to):
 *   'M'                       the Master record
 *   'f' file                  a File
 *   'k' file index            a Chunk
 *   'r' chunk                 the version (8 bytes, big-endian) at which the chunk was removed;
 *                             0 for a spare (spare.c), until it becomes a chunk
 *   's' server_id             a Server
 * Numbers are 8 bytes, big-endian. Values are the messages of proto/stored.proto but for 'r'. */
#include "master/state.h"

#include <inttypes.h>
#include <stdarg.h>

#define KEY_MAX (1 + LH_NAME_BYTES_MAX)

static void put_u64(uint8_t *to, uint64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8)
        to[i] = (uint8_t)value;
}

static uint64_t get_u64(const uint8_t *from)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | from[i];
    return value;
}

static size_t number_key(uint8_t *key, char letter, uint64_t a)
{
    key[0] = (uint8_t)letter;
    put_u64(key + 1, a);
    return 9;
}

static size_t chunk_key(uint8_t *key, uint64_t file, uint64_t index)
{
    number_key(key, 'k', file);
    put_u64(key + 9, index);
    return 17;
}

static size_t server_key(uint8_t *key, const char *id)
{
    size_t size = strlen(id);

    LH_ASSERT(size <= LH_NAME_BYTES_MAX);
    key[0] = 's';
    memcpy(key + 1, id, size);
    return 1 + size;
}

void lh_m_dirty_master(struct lh_master *m)
{
    m->dirty = true;
}

void lh_m_dirty_server(struct lh_master *m, struct lh_m_server *s)
{
    s->ticket = m->next_ticket;
    if (!s->dirty)
        STAILQ_INSERT_TAIL(&m->dirty_servers, s, dirty_link);
    s->dirty = true;
}

void lh_m_dirty_chunk(struct lh_master *m, struct lh_m_chunk *c)
{
    c->ticket = m->next_ticket;
    if (c->file != NULL)
        c->file->ticket = m->next_ticket;
    if (!c->dirty)
        STAILQ_INSERT_TAIL(&m->dirty_chunks, c, dirty_link);
    c->dirty = true;
}

void lh_m_dirty_file(struct lh_master *m, struct lh_m_file *f)
{
    f->ticket = m->next_ticket;
    m->namespace_ticket = m->next_ticket;
    if (!f->dirty)
        STAILQ_INSERT_TAIL(&m->dirty_files, f, dirty_link);
    f->dirty = true;
}

void lh_m_bury(struct lh_master *m, uint64_t chunk, uint64_t version)
{
    struct lh_m_tombstone *t;
    struct lh_m_mark *mark = lh_alloc(sizeof *mark);

    HASH_FIND(hh, m->tombstones, &chunk, sizeof chunk, t);
    if (t == NULL) {
        t = lh_alloc(sizeof *t);
        t->chunk = chunk;
        HASH_ADD(hh, m->tombstones, chunk, sizeof t->chunk, t);
    }
    t->version = version;
    *mark = (struct lh_m_mark){.chunk = chunk, .version = version, .put = true};
    STAILQ_INSERT_TAIL(&m->dirty_tombstones, mark, link);
}

void lh_m_dirty_tombstone(struct lh_master *m, uint64_t chunk, bool put)
{
    struct lh_m_mark *mark = lh_alloc(sizeof *mark);

    mark->chunk = chunk;
    mark->put = put;
    STAILQ_INSERT_TAIL(&m->dirty_tombstones, mark, link);
}

static void put_message(
    struct lh_master *m, const uint8_t *key, size_t key_size, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *value = lh_alloc(size + 1);

    protobuf_c_message_pack(message, value);
    lh_fx_put(m->fx, key, key_size, value, size);
    free(value);
}

static void put_master(struct lh_master *m)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;

    record.format = LH_MASTER_FORMAT;
    record.cluster_id = m->cluster_id;
    record.master_term = m->term;
    record.longest_session_ns = m->longest_session_ns;
    record.next_file = m->next_file;
    record.next_chunk = m->next_chunk;
    if (m->behind != NULL)
        record.behind = m->behind;
    put_message(m, (const uint8_t *)"M", 1, &record.base);
}

static void put_server(struct lh_master *m, const struct lh_m_server *s)
{
    LeaseholdStored__Server record = LEASEHOLD_STORED__SERVER__INIT;
    uint8_t key[KEY_MAX];

    record.server_id = s->id;
    record.incarnation = s->incarnation;
    record.registration = s->registration;
    record.process = s->process;
    record.machine_id = s->machine_id;
    record.address = s->address;
    record.failure_domain = s->failure_domain;
    record.admin = s->admin;
    put_message(m, key, server_key(key, s->id), &record.base);
}

static void put_chunk(struct lh_master *m, const struct lh_m_chunk *c)
{
    LeaseholdStored__Chunk record = LEASEHOLD_STORED__CHUNK__INIT;
    LeaseholdStored__Member members[LH_REPLICATION_MAX];
    LeaseholdStored__Member *pointers[LH_REPLICATION_MAX];
    uint8_t key[KEY_MAX];

    record.chunk = c->id;
    record.file = c->file->id;
    record.index = c->index;
    record.start = c->start;
    record.version = c->version;
    for (uint32_t i = 0; i < c->member_count; i++) {
        leasehold_stored__member__init(&members[i]);
        members[i].server_id = c->members[i].server->id;
        members[i].joining = c->members[i].joining;
        members[i].lost = c->members[i].lost;
        pointers[i] = &members[i];
    }
    record.n_members = c->member_count;
    record.members = pointers;
    record.created = c->created;
    record.sealed = c->sealed;
    record.length = c->length;
    record.checksum = c->checksum;
    if (c->holder != NULL && !c->sealed) {
        record.holder = c->holder->id;
        record.holder_incarnation = c->holder_incarnation;
        record.granted_version = c->granted_version == c->version ? 0 : c->granted_version;
    }
    record.intent_to_seal = c->intent_to_seal;
    put_message(m, key, chunk_key(key, c->file->id, c->index), &record.base);
}

/* The chunk goes, and its tombstone comes. Its file is still there. */
static void delete_chunk(struct lh_master *m, struct lh_m_chunk *c)
{
    uint8_t key[KEY_MAX], version[8];

    lh_fx_delete(m->fx, key, chunk_key(key, c->file->id, c->index));
    put_u64(version, c->version);
    lh_fx_put(m->fx, key, number_key(key, 'r', c->id), version, sizeof version);
    c->file = NULL;
}

static void put_file(struct lh_master *m, const struct lh_m_file *f)
{
    LeaseholdStored__File record = LEASEHOLD_STORED__FILE__INIT;
    uint8_t key[KEY_MAX];

    record.file = f->id;
    record.path = f->path;
    record.durability = f->durability;
    record.replication = f->replication;
    record.min_replicas = f->min_replicas;
    record.chunk_size = f->chunk_size;
    record.created_unix_ms = f->created_unix_ms;
    record.on_primary_loss = f->on_primary_loss;
    record.trashed = f->trashed;
    if (f->trashed) {
        record.trash_left_ms = lh_duration_ms(f->trash_left);
        record.trash_number = f->trash_number;
    }
    put_message(m, key, number_key(key, 'f', f->id), &record.base);
}

void lh_m_flush(struct lh_master *m)
{
    if (!m->dirty && STAILQ_EMPTY(&m->dirty_servers) && STAILQ_EMPTY(&m->dirty_chunks) &&
        STAILQ_EMPTY(&m->dirty_files) && STAILQ_EMPTY(&m->dirty_tombstones))
        return;

    struct lh_m_commit *commit = lh_alloc(sizeof *commit);
    commit->ticket = m->next_ticket++;
    TAILQ_INSERT_TAIL(&m->commits, commit, link);
    lh_fx_persist(m->fx, commit->ticket);
    if (m->dirty)
        put_master(m);
    m->dirty = false;

    struct lh_m_mark *mark;
    while ((mark = STAILQ_FIRST(&m->dirty_tombstones)) != NULL) {
        uint8_t key[KEY_MAX], version[8];
        STAILQ_REMOVE_HEAD(&m->dirty_tombstones, link);
        put_u64(version, mark->version);
        if (mark->put)
            lh_fx_put(m->fx, key, number_key(key, 'r', mark->chunk), version, sizeof version);
        else
            lh_fx_delete(m->fx, key, number_key(key, 'r', mark->chunk));
        free(mark);
    }
    struct lh_m_server *s;
    while ((s = STAILQ_FIRST(&m->dirty_servers)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->dirty_servers, dirty_link);
        s->dirty = false;
        put_server(m, s);
        LH_GROW(commit->servers, commit->server_capacity, commit->server_count + 1);
        commit->servers[commit->server_count++] = s;
    }
    struct lh_m_chunk *c;
    while ((c = STAILQ_FIRST(&m->dirty_chunks)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->dirty_chunks, dirty_link);
        c->dirty = false;
        if (c->removed)
            delete_chunk(m, c);
        else
            put_chunk(m, c);
        LH_GROW(commit->chunks, commit->chunk_capacity, commit->chunk_count + 1);
        commit->chunks[commit->chunk_count++] = c->id;
    }
    struct lh_m_file *f;
    while ((f = STAILQ_FIRST(&m->dirty_files)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->dirty_files, dirty_link);
        f->dirty = false;
        if (f->removed) {
            uint8_t key[KEY_MAX];
            lh_fx_delete(m->fx, key, number_key(key, 'f', f->id));
            lh_m_file_free(f);
        } else {
            put_file(m, f);
        }
    }
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
    LeaseholdStored__Master *record = leasehold_stored__master__unpack(NULL, size, value);

    if (record == NULL)
        return CORRUPT("the master's record cannot be read; restore the store from a backup");
    int error = LH_OK;
    if (record->format > LH_MASTER_FORMAT) {
        error = refuse(text, text_size, LH_ERR_WRONG_FORMAT,
            "metadata store: written in format %u by a newer release; this one reads up to %u: "
            "start the newer release",
            record->format, LH_MASTER_FORMAT);
    } else if (record->cluster_id[0] == 0 || record->next_chunk == 0 || record->next_file == 0) {
        error = CORRUPT("the master's record is incomplete; restore the store from a backup");
    } else {
        free(m->cluster_id);
        m->cluster_id = lh_strdup(record->cluster_id);
        m->term = record->master_term;
        m->longest_session_ns = record->longest_session_ns;
        m->next_file = record->next_file;
        m->next_chunk = record->next_chunk;
        m->behind = record->behind[0] == 0 ? NULL : lh_strdup(record->behind);
    }
    leasehold_stored__master__free_unpacked(record, NULL);
    return error;
}

static int load_file(struct lh_master *m, uint64_t id, const uint8_t *value, size_t size,
    char *text, size_t text_size)
{
    LeaseholdStored__File *record = leasehold_stored__file__unpack(NULL, size, value);

    if (record == NULL)
        return CORRUPT("file %" PRIu64 " cannot be read", id);
    int error = LH_OK;
    if (record->file != id || id == 0 || id >= m->next_file || record->replication == 0 ||
        record->replication > LH_REPLICATION_MAX || record->min_replicas == 0 ||
        record->min_replicas > record->replication || record->durability > 1 ||
        record->on_primary_loss > LEASEHOLD__ON_PRIMARY_LOSS__WAIT) {
        error = CORRUPT("the record of file %" PRIu64 " makes no sense", id);
    } else if (!record->trashed && lh_m_file_by_path(m, record->path) != NULL) {
        error = CORRUPT("two files have the path \"%s\"", record->path);
    } else {
        struct lh_m_file *f = lh_m_file_new(m, id, record->path, record->trashed);
        f->durability = (Leasehold__Durability)record->durability;
        f->replication = record->replication;
        f->min_replicas = record->min_replicas;
        f->chunk_size = record->chunk_size;
        f->created_unix_ms = record->created_unix_ms;
        f->on_primary_loss = (Leasehold__OnPrimaryLoss)record->on_primary_loss;
        f->trash_left = lh_milliseconds(record->trash_left_ms);
        f->trash_number = record->trash_number;
        if (record->trashed && record->trash_number >= m->trash_number)
            m->trash_number = record->trash_number + 1;
    }
    leasehold_stored__file__free_unpacked(record, NULL);
    return error;
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
    const struct lh_m_chunk *last = f->chunks[f->chunk_count - 1];
    return last->sealed && record->start == last->start + last->length;
}

static void take_chunk(
    struct lh_master *m, struct lh_m_file *f, const LeaseholdStored__Chunk *record)
{
    struct lh_m_chunk *c = lh_m_chunk_new(m, f, record->chunk);

    c->version = record->version;
    c->member_count = (uint32_t)record->n_members;
    c->members = lh_alloc_array(c->member_count, sizeof *c->members);
    for (uint32_t i = 0; i < c->member_count; i++) {
        c->members[i].server = lh_m_server_get(m, record->members[i]->server_id);
        c->members[i].joining = record->members[i]->joining;
        c->members[i].lost = record->members[i]->lost;
        c->members[i].created = record->created;
    }
    c->created = record->created;
    c->length = record->length;
    c->checksum = record->checksum;
    c->intent_to_seal = record->intent_to_seal;
    if (record->holder[0] != 0 && !record->sealed && !LH_PLANTED("leases-forgotten-on-restart")) {
        lh_m_set_holder(m, c, lh_m_server_get(m, record->holder));
        c->holder_incarnation = record->holder_incarnation;
        c->granted_version =
            record->granted_version == 0 ? record->version : record->granted_version;
        LH_MARK("restart-with-lease");
        c->waiting = true; /* LEASE-7 */
        TAILQ_INSERT_TAIL(&m->waiting, c, waiting_link);
        lh_m_lease_changed(c);
    }
    if (record->sealed) {
        lh_m_set_sealed(m, c);
        LH_MARK("restart-with-seal");
        c->seal_told = true; /* who missed it reports its replica unsealed */
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
    LeaseholdStored__Chunk *record = leasehold_stored__chunk__unpack(NULL, size, value);
    if (record == NULL)
        return CORRUPT("chunk %" PRIu64 " of \"%s\" cannot be read", index, f->path);
    int error = LH_OK;
    if (record->file != file || record->index != index || !follows(m, f, record))
        error =
            CORRUPT("chunk %" PRIu64 " of \"%s\" does not fit what is before it", index, f->path);
    else
        take_chunk(m, f, record);
    leasehold_stored__chunk__free_unpacked(record, NULL);
    return error;
}

static int load_server(
    struct lh_master *m, const uint8_t *value, size_t size, char *text, size_t text_size)
{
    LeaseholdStored__Server *record = leasehold_stored__server__unpack(NULL, size, value);

    if (record == NULL || record->server_id[0] == 0 ||
        strlen(record->server_id) > LH_NAME_BYTES_MAX ||
        record->admin > LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING) {
        leasehold_stored__server__free_unpacked(record, NULL);
        return CORRUPT("a chunkserver's record cannot be read");
    }
    struct lh_m_server *s = lh_m_server_get(m, record->server_id);
    s->incarnation = record->incarnation;
    s->registration = record->registration;
    s->process = record->process;
    free(s->machine_id);
    free(s->address);
    free(s->failure_domain);
    s->machine_id = lh_strdup(record->machine_id);
    s->address = lh_strdup(record->address);
    s->failure_domain = lh_strdup(record->failure_domain);
    s->admin = (Leasehold__ServerAdmin)record->admin;
    leasehold_stored__server__free_unpacked(record, NULL);
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
        struct lh_m_tombstone *t = lh_alloc(sizeof *t);
        t->chunk = get_u64(k + 1);
        t->version = get_u64(value);
        LH_MARK("restart-with-tombstone");
        HASH_ADD(hh, m->tombstones, chunk, sizeof t->chunk, t);
        return LH_OK;
    }
    if (key_size > 1 && k[0] == 's')
        return load_server(m, value, value_size, text, text_size);
    return CORRUPT("a key of %zu bytes that begins with 0x%02x has no meaning", key_size,
        key_size == 0 ? 0u : (unsigned)k[0]);
}
