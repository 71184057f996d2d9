/* Records to pairs (and back: master/stored.c, load.c, amend.c).
 *
 * Keys, in the order in which they are loaded (what refers comes after what it refers to):
 *   'M'                       the Master record
 *   'c' client number         a Call: what it was answered (HA-12); number 0: a client's mark
 *   'f' file                  a File
 *   'h' revision              a ValueChange: one of the last ones (VAL-6)
 *   'k' file index            a Chunk
 *   'n' number                a Reign (SES-9)
 *   'p' session id            a Program (PS-1)
 *   'q' prefix                a Policy
 *   'r' chunk                 the version (8 bytes, big-endian) at which the chunk was removed;
 *                             0 for a preallocated chunk, until it becomes a file's
 *   's' server_id             a Server
 *   'v' name                  a Value
 * Numbers are 8 bytes, big-endian. Values are the messages of proto/stored.proto but for 'r'. */
#include "master/tables/put.h"

#include "base/seal.h"
#include "master/tables/call.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"
#include "proto/stored.pb-c.h"

static void put_u64(uint8_t *to, uint64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8)
        to[i] = (uint8_t)value;
}

size_t lh_m_number_key(uint8_t *key, char letter, uint64_t a)
{
    key[0] = (uint8_t)letter;
    put_u64(key + 1, a);
    return 9;
}

static size_t chunk_key(uint8_t *key, uint64_t file, uint64_t index)
{
    lh_m_number_key(key, 'k', file);
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

/* With its seal (PAIR-1). `value` has LH_SEAL_BYTES more bytes than its size. `word`: the record's;
 * NULL: none is kept, of the master's record and while all is written for tests. */
static void put_sealed(struct lh_master *m, uint32_t *word, const uint8_t *key, size_t key_size,
    uint8_t *value, size_t size)
{
    uint64_t hash = lh_seal_hash(key, key_size, value, size);

    lh_seal_write(value + size, hash);
    lh_fx_put(m->fx, key, key_size, value, size + LH_SEAL_BYTES);
    if (word != NULL && !m->commit.writes_all)
        lh_m_pair_take(m, word, hash, false);
}

static void put_message(struct lh_master *m, uint32_t *word, const uint8_t *key, size_t key_size,
    const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *value = lh_alloc(size + LH_SEAL_BYTES);

    protobuf_c_message_pack(message, value);
    put_sealed(m, word, key, key_size, value, size);
    free(value);
}

void lh_m_delete_pair(struct lh_master *m, uint32_t *word, const uint8_t *key, size_t key_size)
{
    lh_fx_delete(m->fx, key, key_size);
    lh_m_pair_drop(m, word);
}

void lh_m_put_master(struct lh_master *m)
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
    record.revision = m->history.floor;
    record.pairs = m->pairs.count;
    record.sum = m->pairs.sum;
    record.bare = m->pairs.bare;
    record.commits = m->commits + m->commit.next_ticket - 1;
    put_message(m, NULL, (const uint8_t *)"M", 1, &record.base);
}

void lh_m_put_reign(struct lh_master *m, struct lh_m_reign *reign)
{
    LeaseholdStored__Reign record = LEASEHOLD_STORED__REIGN__INIT;
    uint8_t key[LH_M_KEY_SPACE];

    record.name = reign->name;
    record.restored = reign->restored;
    put_message(m, &reign->pair, key, lh_m_number_key(key, 'n', reign->number), &record.base);
}

void lh_m_put_server(struct lh_master *m, struct lh_m_server *s)
{
    LeaseholdStored__Server record = LEASEHOLD_STORED__SERVER__INIT;
    uint8_t key[LH_M_KEY_SPACE];

    record.server_id = s->id;
    record.incarnation = s->incarnation;
    record.registration = s->registration;
    record.process = s->process;
    record.reached = s->reached;
    record.reign = s->reign;
    record.machine_id = s->machine_id;
    record.address = s->address;
    record.failure_domain = s->failure_domain;
    record.admin = s->admin;
    put_message(m, &s->pair, key, server_key(key, s->id), &record.base);
}

void lh_m_put_chunk(struct lh_master *m, const struct lh_m_chunk *c)
{
    LeaseholdStored__Chunk record = LEASEHOLD_STORED__CHUNK__INIT;
    LeaseholdStored__Member members[LH_REPLICATION_MAX];
    LeaseholdStored__Member *pointers[LH_REPLICATION_MAX];
    uint8_t key[LH_M_KEY_SPACE];

    record.chunk = c->id;
    record.file = c->file->id;
    record.index = c->index;
    record.start = c->start;
    record.version = c->version;
    for (uint32_t i = 0; i < c->member_count; i++) {
        leasehold_stored__member__init(&members[i]);
        members[i].server_id = lh_m_server_of(m, &c->members[i])->id;
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
    if (lh_m_holder(c) != NULL && !c->sealed) {
        record.holder = lh_m_holder(c)->id;
        record.holder_incarnation = c->active->grant->lease.process;
        record.granted_version =
            c->active->grant->lease.version == c->version ? 0 : c->active->grant->lease.version;
        record.granted_fence = c->active->grant->fence;
    }
    record.intent_to_seal = c->intent_to_seal;
    put_message(m, lh_idmap_word(&m->chunks, c->id), key, chunk_key(key, c->file->id, c->index),
        &record.base);
}

size_t lh_m_call_key(uint8_t *key, uint64_t client, uint64_t number)
{
    lh_m_number_key(key, 'c', client);
    put_u64(key + 9, number);
    return 17;
}

void lh_m_put_call(struct lh_master *m, struct lh_m_call *call)
{
    LeaseholdStored__Call record = LEASEHOLD_STORED__CALL__INIT;
    uint8_t key[LH_M_KEY_SPACE];

    if (lh_m_call_is_mark(call))
        record.forgotten = call->forgotten;
    else
        record.order = call->order;
    record.request = call->request;
    record.reply.data = (uint8_t *)(uintptr_t)call->reply;
    record.reply.len = call->reply_size;
    put_message(m, &call->pair, key, lh_m_call_key(key, call->client, call->number), &record.base);
}

/* Where the word of a chunk's tombstone is. NULL: nowhere; it is of a preallocated chunk that is a
 * file's now. */
uint32_t *lh_m_tombstone_word(struct lh_master *m, uint64_t chunk)
{
    struct lh_m_prealloc *prealloc = lh_idmap_find(&m->preallocs, chunk);

    return prealloc != NULL ? &prealloc->pair : lh_idmap_word(&m->tombstones, chunk);
}

void lh_m_put_tombstone(struct lh_master *m, uint32_t *word, uint64_t chunk, uint64_t at)
{
    uint8_t key[LH_M_KEY_SPACE], version[8 + LH_SEAL_BYTES];

    put_u64(version, at);
    put_sealed(m, word, key, lh_m_number_key(key, 'r', chunk), version, 8);
}

/* The chunk goes, and its tombstone comes. Its file is still there. */
void lh_m_delete_chunk(struct lh_master *m, struct lh_m_chunk *c)
{
    uint8_t key[LH_M_KEY_SPACE];
    uint32_t *word = lh_idmap_word(&m->chunks, c->id);

    lh_m_delete_pair(m, word, key, chunk_key(key, c->file->id, c->index));
    lh_m_put_tombstone(m, lh_m_tombstone_word(m, c->id), c->id, c->version);
    c->file = NULL;
}

void lh_m_put_file(struct lh_master *m, struct lh_m_file *f)
{
    LeaseholdStored__File record = LEASEHOLD_STORED__FILE__INIT;
    uint8_t key[LH_M_KEY_SPACE];

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
        record.trash_left_ms = lh_duration_ms(f->active->trash_left);
        record.trash_number = f->active->trash_number;
    }
    if (f->active->fence != 0) {
        record.fence = f->active->fence;
        record.lock_name = f->active->lock_name;
    }
    put_message(m, &f->pair, key, lh_m_number_key(key, 'f', f->id), &record.base);
}

size_t lh_m_text_key(uint8_t *key, char letter, const char *text)
{
    size_t size = strlen(text);

    LH_ASSERT(size < LH_M_KEY_SPACE);
    key[0] = (uint8_t)letter;
    memcpy(key + 1, text, size);
    return 1 + size;
}

size_t lh_m_program_key(uint8_t *key, const struct lh_m_program *p)
{
    key[0] = 'p';
    memcpy(key + 1, p->id, sizeof p->id);
    return 1 + sizeof p->id;
}

void lh_m_put_program(struct lh_master *m, struct lh_m_program *p)
{
    LeaseholdStored__Program record = LEASEHOLD_STORED__PROGRAM__INIT;
    uint8_t key[LH_M_KEY_SPACE];

    record.term_ns = p->term.ns;
    record.host = p->host;
    record.process = p->process;
    record.label = p->label;
    record.lookups = p->lookups;
    if (p->identity != NULL)
        record.identity = p->identity;
    put_message(m, &p->pair, key, lh_m_program_key(key, p), &record.base);
}

void lh_m_put_policy(struct lh_master *m, struct lh_m_policy *policy)
{
    LeaseholdStored__Policy record = LEASEHOLD_STORED__POLICY__INIT;
    uint8_t key[LH_M_KEY_SPACE];

    record.no_recall = policy->no_recall;
    record.share_percent = policy->share_percent;
    record.term_min_ms = lh_duration_ms(policy->term_min);
    record.term_max_ms = lh_duration_ms(policy->term_max);
    record.no_lease = policy->no_lease;
    record.broadcast = policy->broadcast;
    put_message(m, &policy->pair, key, lh_m_text_key(key, 'q', policy->prefix), &record.base);
}

static ProtobufCBinaryData session_of(bool attached, const uint8_t *session)
{
    return (ProtobufCBinaryData){
        .data = (uint8_t *)(uintptr_t)session, .len = attached ? LH_M_SESSION_ID_BYTES : 0};
}

static ProtobufCBinaryData bytes_of(const struct lh_buf *b)
{
    if (b->size == 0)
        return (ProtobufCBinaryData){0};
    LH_ASSERT(b->count == 1);
    return (ProtobufCBinaryData){
        .data = (uint8_t *)(uintptr_t)lh_buf_slices_const(b)[0].data, .len = b->size};
}

void lh_m_put_value(struct lh_master *m, struct lh_m_value *v)
{
    LeaseholdStored__Value record = LEASEHOLD_STORED__VALUE__INIT;
    uint8_t key[LH_M_KEY_SPACE];

    record.revision = v->revision;
    record.value = bytes_of(&v->bytes);
    record.session = session_of(v->attached, v->session);
    record.token = v->token;
    put_message(m, &v->pair, key, lh_m_text_key(key, 'v', v->name->text), &record.base);
}

void lh_m_put_change(struct lh_master *m, struct lh_m_value_change *c)
{
    LeaseholdStored__ValueChange record = LEASEHOLD_STORED__VALUE_CHANGE__INIT;
    uint8_t key[LH_M_KEY_SPACE];

    record.name = (char *)(uintptr_t)c->name;
    record.removed = c->removed;
    record.value = bytes_of(&c->bytes);
    record.session = session_of(c->attached, c->session);
    put_message(m, &c->pair, key, lh_m_number_key(key, 'h', c->revision), &record.base);
}
