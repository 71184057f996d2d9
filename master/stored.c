#include "master/stored.h"

#include "base/seal.h"
#include "lease/service.h"
#include "master/config.h"
#include "master/master.h"
#include "master/tables/tables.h"

#include <inttypes.h>
#include <stdarg.h>

static void *arena_take(void *data, size_t size)
{
    struct lh_m_stored_arena *arena = data;
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

static uint64_t get_u64(const uint8_t *from)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | from[i];
    return value;
}

int lh_m_stored_refuse(char *text, size_t text_size, int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(text, text_size, format, args);
    va_end(args);
    return error;
}

#define CORRUPT LH_M_STORED_CORRUPT

int lh_m_stored_key(struct lh_m_stored_key *parsed, const uint8_t *key, size_t key_size, char *text,
    size_t text_size)
{
    uint8_t letter = key_size == 0 ? 0 : key[0];

    parsed->kind = (enum lh_m_stored_kind)letter;
    parsed->id = parsed->index = 0;
    parsed->text[0] = 0;
    if (letter == 'M' && key_size == 1)
        return LH_OK;
    if ((letter == 'q' || letter == 's' || letter == 'v') && key_size > 1 &&
        key_size < sizeof parsed->text + 1) {
        memcpy(parsed->text, key + 1, key_size - 1);
        parsed->text[key_size - 1] = 0;
        if (strlen(parsed->text) == key_size - 1)
            return LH_OK;
    }
    if (letter == 'p' && key_size == 1 + sizeof parsed->session) {
        memcpy(parsed->session, key + 1, sizeof parsed->session);
        return LH_OK;
    }
    if (((letter == 'f' || letter == 'h' || letter == 'n' || letter == 'r') && key_size == 9) ||
        ((letter == 'k' || letter == 'c') && key_size == 17)) {
        parsed->id = get_u64(key + 1);
        parsed->index = key_size == 17 ? get_u64(key + 9) : 0;
        return LH_OK;
    }
    return CORRUPT("a key of %zu bytes that begins with 0x%02x has no meaning", key_size, letter);
}

static int check_master(
    const LeaseholdStored__Master *record, bool bare, char *text, size_t text_size)
{
    if (record == NULL)
        return CORRUPT("the master's record cannot be read; restore the store from a backup");
    if (record->format > LH_MASTER_FORMAT)
        return lh_m_stored_refuse(text, text_size, LH_ERR_WRONG_FORMAT,
            "metadata store: written in format %u by a newer release; this one reads up to %u: "
            "start the newer release",
            record->format, LH_MASTER_FORMAT);
    if ((bare && record->format > LH_MASTER_FORMAT_BARE) || record->cluster_id[0] == 0 ||
        record->next_chunk == 0 || record->next_chunk > LH_LEASE_ID_LAST / 2 ||
        record->next_file == 0 || record->next_file > LH_M_STORED_NUMBER_MAX ||
        record->master_term > LH_M_STORED_NUMBER_MAX || record->revision > LH_M_STORED_NUMBER_MAX)
        return CORRUPT("the master's record is incomplete; restore the store from a backup");
    return LH_OK;
}

static int check_reign(
    uint64_t number, const LeaseholdStored__Reign *record, char *text, size_t text_size)
{
    if (record == NULL || record->name == 0 || number == 0)
        return CORRUPT("the record of reign %" PRIu64 " cannot be read", number);
    return LH_OK;
}

static int check_file(
    uint64_t id, const LeaseholdStored__File *record, char *text, size_t text_size)
{
    if (record == NULL)
        return CORRUPT("file %" PRIu64 " cannot be read", id);
    if (record->file != id || id == 0 || record->replication == 0 ||
        record->replication > LH_REPLICATION_MAX || record->min_replicas == 0 ||
        record->min_replicas > record->replication || record->durability > 1 ||
        record->on_primary_loss > LH_LOSS_WAIT ||
        (record->fence == 0) != (record->lock_name[0] == 0) ||
        strlen(record->lock_name) > LH_PATH_BYTES_MAX ||
        record->trash_number > LH_M_STORED_NUMBER_MAX)
        return CORRUPT("the record of file %" PRIu64 " makes no sense", id);
    return LH_OK;
}

static bool chunk_makes_sense(
    const struct lh_m_stored_key *key, const LeaseholdStored__Chunk *record)
{
    if (record->file != key->id || record->index != key->index || record->chunk == 0 ||
        record->n_members == 0 || record->n_members > LH_REPLICATION_MAX ||
        record->created != (record->version > 0) || record->version > LH_M_STORED_NUMBER_MAX)
        return false;
    for (size_t i = 0; i < record->n_members; i++) {
        size_t size = strlen(record->members[i]->server_id);
        if (size == 0 || size > LH_NAME_BYTES_MAX)
            return false;
    }
    return strlen(record->holder) <= LH_NAME_BYTES_MAX &&
           record->granted_version <= record->version &&
           (record->granted_fence == 0 || record->holder[0] != 0) &&
           (!record->intent_to_seal || record->created);
}

static int check_chunk(const struct lh_m_stored_key *key, const LeaseholdStored__Chunk *record,
    char *text, size_t text_size)
{
    if (record == NULL)
        return CORRUPT("chunk %" PRIu64 " of file %" PRIu64 " cannot be read", key->index, key->id);
    if (!chunk_makes_sense(key, record))
        return CORRUPT("the record of chunk %" PRIu64 " of file %" PRIu64 " makes no sense",
            key->index, key->id);
    return LH_OK;
}

static int check_server(const uint8_t *key, size_t key_size, const LeaseholdStored__Server *record,
    char *text, size_t text_size)
{
    if (record == NULL || record->server_id[0] == 0 ||
        strlen(record->server_id) > LH_NAME_BYTES_MAX ||
        strlen(record->server_id) != key_size - 1 ||
        memcmp(record->server_id, key + 1, key_size - 1) != 0 ||
        record->admin > LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING)
        return CORRUPT("a chunkserver's record cannot be read");
    return LH_OK;
}

static int check_call(const struct lh_m_stored_key *key, const LeaseholdStored__Call *record,
    char *text, size_t text_size)
{
    if (record == NULL || key->id == 0 || record->order > LH_M_STORED_NUMBER_MAX)
        return CORRUPT("the record of call %" PRIu64 " of client %" PRIx64 " cannot be read",
            key->index, key->id);
    return LH_OK;
}

static int check_program(const LeaseholdStored__Program *record, char *text, size_t text_size)
{
    if (record == NULL || record->term_ns == 0 || record->term_ns > LH_SESSION_TERM_MAX_NS)
        return CORRUPT("the record of a program's session cannot be read");
    if (strlen(record->identity) > LH_LINK_IDENTITY_MAX)
        return CORRUPT("the record of a program's session has too long an identity");
    return LH_OK;
}

static int check_policy(const struct lh_m_stored_key *key, const LeaseholdStored__Policy *record,
    char *text, size_t text_size)
{
    if (record == NULL)
        return CORRUPT("the policy for \"%.256s\" cannot be read", key->text);
    return LH_OK;
}

static bool session_makes_sense(const ProtobufCBinaryData *session)
{
    return session->len == 0 || session->len == LH_M_SESSION_ID_BYTES;
}

static int check_value(const struct lh_m_stored_key *key, const LeaseholdStored__Value *record,
    char *text, size_t text_size)
{
    if (record == NULL || record->revision == 0 || record->revision > LH_M_STORED_NUMBER_MAX ||
        record->value.len > LH_M_VALUE_BYTES_MAX || !session_makes_sense(&record->session))
        return CORRUPT("the value of \"%.256s\" cannot be read", key->text);
    return LH_OK;
}

static int check_change(const struct lh_m_stored_key *key,
    const LeaseholdStored__ValueChange *record, char *text, size_t text_size)
{
    if (record == NULL || key->id == 0 || key->id > LH_M_STORED_NUMBER_MAX ||
        record->value.len > LH_M_VALUE_BYTES_MAX || !session_makes_sense(&record->session) ||
        record->name[0] == 0 || strlen(record->name) > LH_M_NAME_BYTES_MAX)
        return CORRUPT(
            "the record of the change with revision %" PRIu64 " cannot be read", key->id);
    return LH_OK;
}

void lh_m_stored_name(const struct lh_m_stored_key *key, char *name, size_t name_size)
{
    switch (key->kind) {
    case LH_M_STORED_MASTER:
        (void)snprintf(name, name_size, "the master's record");
        return;
    case LH_M_STORED_REIGN:
        (void)snprintf(name, name_size, "the record of reign %" PRIu64, key->id);
        return;
    case LH_M_STORED_FILE:
        (void)snprintf(name, name_size, "the record of file %" PRIu64, key->id);
        return;
    case LH_M_STORED_CHUNK:
        (void)snprintf(name, name_size, "the record of chunk %" PRIu64 " of file %" PRIu64,
            key->index, key->id);
        return;
    case LH_M_STORED_TOMBSTONE:
        (void)snprintf(name, name_size, "the tombstone of chunk %" PRIu64, key->id);
        return;
    case LH_M_STORED_CALL:
        (void)snprintf(name, name_size, "the record of call %" PRIu64 " of client %" PRIx64,
            key->index, key->id);
        return;
    case LH_M_STORED_SERVER:
        (void)snprintf(name, name_size, "the record of chunkserver \"%.256s\"", key->text);
        return;
    case LH_M_STORED_PROGRAM:
        (void)snprintf(name, name_size, "the record of session %016" PRIx64 "%016" PRIx64,
            get_u64(key->session), get_u64(key->session + 8));
        return;
    case LH_M_STORED_POLICY:
        (void)snprintf(name, name_size, "the policy for \"%.256s\"", key->text);
        return;
    case LH_M_STORED_VALUE:
        (void)snprintf(name, name_size, "the value of \"%.256s\"", key->text);
        return;
    case LH_M_STORED_CHANGE:
        (void)snprintf(name, name_size, "the change with revision %" PRIu64, key->id);
        return;
    }
}

/* PAIR-2. `*size` becomes that of the value alone. */
static int unseal(struct lh_m_stored *record, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t *size, bool bare, char *text, size_t text_size)
{
    size_t whole = *size;
    enum lh_seal seal = lh_seal_look(key, key_size, value, size, &record->hash);
    char name[320];

    if (seal == LH_SEAL_BROKEN && bare && record->key.kind != LH_M_STORED_MASTER) {
        /* PAIR-3: it may have none, and end as if it had one, which one of 65,536 does. Number and
         * sum of all pairs tell it from one that is damaged. */
        *size = whole;
        record->hash = lh_seal_hash(key, key_size, value, whole);
        seal = LH_SEAL_NONE;
    }
    record->bare = seal == LH_SEAL_NONE;
    if (seal == LH_SEAL_FITS || (seal == LH_SEAL_NONE && bare) || LH_PLANTED("seals-not-looked-at"))
        return LH_OK;
    lh_m_stored_name(&record->key, name, sizeof name);
    return CORRUPT("%s is not what a master has written (%s): a disk, memory or a hand has changed "
                   "it; restore the store from a backup (docs/operations.md, \"Restoring\")",
        name, seal == LH_SEAL_NONE ? "it has no hash" : "its hash does not fit");
}

int lh_m_stored_read(struct lh_m_stored *record, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size, bool bare, char *text, size_t text_size)
{
    ProtobufCAllocator arena = {arena_take, arena_free, &record->arena};
    int error = lh_m_stored_key(&record->key, key, key_size, text, text_size);

    if (error == LH_OK)
        error = unseal(record, key, key_size, value, &value_size, bare, text, text_size);
    if (error != LH_OK)
        return error;
    record->arena.used = 0;
    switch (record->key.kind) {
    case LH_M_STORED_MASTER:
        record->master = leasehold_stored__master__unpack(&arena, value_size, value);
        return check_master(record->master, record->bare, text, text_size);
    case LH_M_STORED_REIGN:
        record->reign = leasehold_stored__reign__unpack(&arena, value_size, value);
        return check_reign(record->key.id, record->reign, text, text_size);
    case LH_M_STORED_FILE:
        record->file = leasehold_stored__file__unpack(&arena, value_size, value);
        return check_file(record->key.id, record->file, text, text_size);
    case LH_M_STORED_CHUNK:
        record->chunk = leasehold_stored__chunk__unpack(&arena, value_size, value);
        return check_chunk(&record->key, record->chunk, text, text_size);
    case LH_M_STORED_TOMBSTONE:
        if (value_size != 8)
            return CORRUPT("the tombstone of chunk %" PRIu64 " has %zu bytes instead of 8",
                record->key.id, value_size);
        record->version = get_u64(value);
        return LH_OK;
    case LH_M_STORED_SERVER:
        record->server = leasehold_stored__server__unpack(&arena, value_size, value);
        return check_server(key, key_size, record->server, text, text_size);
    case LH_M_STORED_CALL:
        record->call = leasehold_stored__call__unpack(&arena, value_size, value);
        return check_call(&record->key, record->call, text, text_size);
    case LH_M_STORED_PROGRAM:
        record->program = leasehold_stored__program__unpack(&arena, value_size, value);
        return check_program(record->program, text, text_size);
    case LH_M_STORED_POLICY:
        record->policy = leasehold_stored__policy__unpack(&arena, value_size, value);
        return check_policy(&record->key, record->policy, text, text_size);
    case LH_M_STORED_VALUE:
        record->value = leasehold_stored__value__unpack(&arena, value_size, value);
        return check_value(&record->key, record->value, text, text_size);
    case LH_M_STORED_CHANGE:
        record->change = leasehold_stored__value_change__unpack(&arena, value_size, value);
        return check_change(&record->key, record->change, text, text_size);
    }
    LH_ASSERT(false);
    return LH_ERR_CORRUPT;
}

LeaseholdStored__Master *lh_master_record_read(const void *value, size_t value_size)
{
    uint64_t hash;

    (void)lh_seal_look("M", 1, value, &value_size, &hash);
    return leasehold_stored__master__unpack(NULL, value_size, value);
}

uint8_t *lh_master_record_write(const LeaseholdStored__Master *record, uint32_t *value_size)
{
    size_t size = leasehold_stored__master__get_packed_size(record);
    uint8_t *value = lh_alloc(size + LH_SEAL_BYTES);

    leasehold_stored__master__pack(record, value);
    if (record->format > LH_MASTER_FORMAT_BARE) {
        lh_seal_write(value + size, lh_seal_hash("M", 1, value, size));
        size += LH_SEAL_BYTES;
    }
    *value_size = (uint32_t)size;
    return value;
}
