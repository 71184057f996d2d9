/* Tables to stored records (and back: master/stored.c, load.c, amend.c).
 *
 * Keys, in the order in which they are loaded (what refers comes after what it refers to):
 *   'M'                       the Master record
 *   'c' client number         a Call: what it was answered (HA-12); number 0: a client's mark
 *   'f' file                  a File
 *   'h' revision              a ValueChange: one of the last ones (VAL-6)
 *   'k' file index            a Chunk
 *   'p' session id            a Program (PS-1)
 *   'q' prefix                a Policy
 *   'r' chunk                 the version (8 bytes, big-endian) at which the chunk was removed;
 *                             0 for a preallocated chunk, until it becomes a file's
 *   's' server_id             a Server
 *   'v' name                  a Value
 * Numbers are 8 bytes, big-endian. Values are the messages of proto/stored.proto but for 'r'. */
#include "master/tables/write.h"

#include "master/tables/call.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"
#include "proto/stored.pb-c.h"

#define KEY_MAX (1 + LH_M_NAME_BYTES_MAX)

static void put_u64(uint8_t *to, uint64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8)
        to[i] = (uint8_t)value;
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
    record.revision = m->history.floor;
    record.start = m->start;
    record.commits = m->commits + m->commit.next_ticket - 1;
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
    record.reached = s->reached;
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
        record.holder_incarnation = c->motion->grant->lease.process;
        record.granted_version =
            c->motion->grant->lease.version == c->version ? 0 : c->motion->grant->lease.version;
        record.granted_fence = c->motion->grant->fence;
    }
    record.intent_to_seal = c->intent_to_seal;
    put_message(m, key, chunk_key(key, c->file->id, c->index), &record.base);
}

static size_t call_key(uint8_t *key, uint64_t client, uint64_t number)
{
    number_key(key, 'c', client);
    put_u64(key + 9, number);
    return 17;
}

static void put_call(struct lh_master *m, const struct lh_m_call *call)
{
    LeaseholdStored__Call record = LEASEHOLD_STORED__CALL__INIT;
    uint8_t key[KEY_MAX];

    record.order = call->order;
    record.request = call->request;
    record.reply.data = (uint8_t *)(uintptr_t)call->reply;
    record.reply.len = call->reply_size;
    record.forgotten = call->forgotten;
    put_message(m, key, call_key(key, call->client, call->number), &record.base);
}

static void put_tombstone(struct lh_master *m, uint64_t chunk, uint64_t at)
{
    uint8_t key[KEY_MAX], version[8];

    put_u64(version, at);
    lh_fx_put(m->fx, key, number_key(key, 'r', chunk), version, sizeof version);
}

/* The chunk goes, and its tombstone comes. Its file is still there. */
static void delete_chunk(struct lh_master *m, struct lh_m_chunk *c)
{
    uint8_t key[KEY_MAX];

    lh_fx_delete(m->fx, key, chunk_key(key, c->file->id, c->index));
    put_tombstone(m, c->id, c->version);
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
        record.trash_left_ms = lh_duration_ms(f->motion->trash_left);
        record.trash_number = f->motion->trash_number;
    }
    if (f->motion->fence != 0) {
        record.fence = f->motion->fence;
        record.lock_name = f->motion->lock_name;
    }
    put_message(m, key, number_key(key, 'f', f->id), &record.base);
}

static size_t text_key(uint8_t *key, char letter, const char *text)
{
    size_t size = strlen(text);

    LH_ASSERT(size < KEY_MAX);
    key[0] = (uint8_t)letter;
    memcpy(key + 1, text, size);
    return 1 + size;
}

static size_t program_key(uint8_t *key, const struct lh_m_program *p)
{
    key[0] = 'p';
    memcpy(key + 1, p->id, sizeof p->id);
    return 1 + sizeof p->id;
}

static void put_program(struct lh_master *m, const struct lh_m_program *p)
{
    LeaseholdStored__Program record = LEASEHOLD_STORED__PROGRAM__INIT;
    uint8_t key[KEY_MAX];

    record.term_ns = p->term.ns;
    record.host = p->host;
    record.process = p->process;
    record.label = p->label;
    record.lookups = p->lookups;
    if (p->identity != NULL)
        record.identity = p->identity;
    put_message(m, key, program_key(key, p), &record.base);
}

static void put_policy(struct lh_master *m, const struct lh_m_policy *policy)
{
    LeaseholdStored__Policy record = LEASEHOLD_STORED__POLICY__INIT;
    uint8_t key[KEY_MAX];

    record.no_recall = policy->no_recall;
    record.share_percent = policy->share_percent;
    record.term_min_ms = lh_duration_ms(policy->term_min);
    record.term_max_ms = lh_duration_ms(policy->term_max);
    record.no_lease = policy->no_lease;
    record.broadcast = policy->broadcast;
    put_message(m, key, text_key(key, 'q', policy->prefix), &record.base);
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

static void put_value(struct lh_master *m, const struct lh_m_value *v)
{
    LeaseholdStored__Value record = LEASEHOLD_STORED__VALUE__INIT;
    uint8_t key[KEY_MAX];

    record.revision = v->revision;
    record.value = bytes_of(&v->bytes);
    record.session = session_of(v->attached, v->session);
    record.token = v->token;
    put_message(m, key, text_key(key, 'v', v->name->text), &record.base);
}

static void put_change(struct lh_master *m, const struct lh_m_value_change *c)
{
    LeaseholdStored__ValueChange record = LEASEHOLD_STORED__VALUE_CHANGE__INIT;
    uint8_t key[KEY_MAX];

    record.name = (char *)(uintptr_t)c->name;
    record.removed = c->removed;
    record.value = bytes_of(&c->bytes);
    record.session = session_of(c->attached, c->session);
    put_message(m, key, number_key(key, 'h', c->revision), &record.base);
}

static void write_leases(struct lh_master *m)
{
    struct lh_m_program *p;
    struct lh_m_policy *policy;
    const struct lh_m_value_change *c;
    struct lh_m_name *n;

    RB_FOREACH(p, lh_m_programs, &m->programs.tree) {
        if (!p->over)
            put_program(m, p);
    }
    RB_FOREACH(policy, lh_m_policy_tree, &m->policies.tree) {
        if (!policy->gone)
            put_policy(m, policy);
    }
    LH_IDMAP_FOREACH(c, &m->history.changes)
        put_change(m, c);
    RB_FOREACH(n, lh_m_name_tree, &m->names.tree) {
        if (n->more->value != NULL)
            put_value(m, n->more->value);
    }
}

void lh_m_write_all(struct lh_master *m)
{
    const struct lh_m_chunk *c;
    const struct lh_m_file *f;
    const struct lh_m_server *s;
    const struct lh_m_tombstone *t;
    struct lh_m_call *call;

    lh_fx_persist(m->fx, 0);
    if (m->cluster_id != NULL)
        put_master(m);
    RB_FOREACH(call, lh_m_call_tree, &m->calls.tree) {
        put_call(m, call);
    }
    LH_IDMAP_FOREACH(f, &m->files)
        put_file(m, f);
    LH_IDMAP_FOREACH(c, &m->chunks)
        put_chunk(m, c);
    LH_IDMAP_FOREACH(t, &m->tombstones)
        put_tombstone(m, t->chunk, t->version);
    TAILQ_FOREACH(s, &m->all_servers, all_link)
        put_server(m, s);
    write_leases(m);
}

static void flush_programs(struct lh_master *m, struct lh_m_commit *commit)
{
    struct lh_m_program *p;
    uint8_t key[KEY_MAX];

    while ((p = STAILQ_FIRST(&m->commit.dirty_programs)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->commit.dirty_programs, dirty_link);
        p->dirty = false;
        if (p->over)
            lh_fx_delete(m->fx, key, program_key(key, p));
        else
            put_program(m, p);
        LH_GROW(commit->programs, commit->program_capacity, commit->program_count + 1);
        commit->programs[commit->program_count++] = p;
    }
}

static void flush_policies(struct lh_master *m)
{
    struct lh_m_policy *policy;
    uint8_t key[KEY_MAX];

    while ((policy = STAILQ_FIRST(&m->commit.dirty_policies)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->commit.dirty_policies, dirty_link);
        policy->dirty = false;
        if (!policy->gone) {
            put_policy(m, policy);
            continue;
        }
        lh_fx_delete(m->fx, key, text_key(key, 'q', policy->prefix));
        lh_m_policy_free(m, policy);
    }
}

/* A change with the value that it makes, or whose end it is; and the changes that go for it. */
static void flush_changes(struct lh_master *m)
{
    struct lh_m_value_change *c;
    uint8_t key[KEY_MAX];

    while ((c = STAILQ_FIRST(&m->commit.dirty_changes)) != NULL) {
        const struct lh_m_name *name = lh_m_name_find(m, c->name);
        const struct lh_m_value *v = name == NULL ? NULL : name->more->value;
        STAILQ_REMOVE_HEAD(&m->commit.dirty_changes, dirty_link);
        c->dirty = false;
        put_change(m, c);
        LH_ASSERT(c->removed == (v == NULL)); /* once in a step (history.h) */
        if (v == NULL)
            lh_fx_delete(m->fx, key, text_key(key, 'v', c->name));
        else
            put_value(m, v);
    }
    for (size_t i = 0; i < m->history.dropped_count; i++)
        lh_fx_delete(m->fx, key, number_key(key, 'h', m->history.dropped[i]));
    m->history.dropped_count = 0;
}

/* The answers of calls that this step kept, and those that it dropped: never one of both. */
static void flush_calls(struct lh_master *m)
{
    struct lh_m_call *call;
    uint8_t key[KEY_MAX];

    while ((call = TAILQ_FIRST(&m->calls.dirty)) != NULL) {
        TAILQ_REMOVE(&m->calls.dirty, call, dirty_link);
        call->dirty = false;
        put_call(m, call);
    }
    while ((call = TAILQ_FIRST(&m->calls.dropped)) != NULL) {
        TAILQ_REMOVE(&m->calls.dropped, call, link);
        lh_fx_delete(m->fx, key, call_key(key, call->client, call->number));
        free(call);
    }
}

void lh_m_flush(struct lh_master *m)
{
    if (!m->dirty && TAILQ_EMPTY(&m->calls.dirty) && TAILQ_EMPTY(&m->calls.dropped) &&
        STAILQ_EMPTY(&m->commit.dirty_servers) && STAILQ_EMPTY(&m->commit.dirty_chunks) &&
        STAILQ_EMPTY(&m->commit.dirty_files) && STAILQ_EMPTY(&m->commit.dirty_tombstones) &&
        STAILQ_EMPTY(&m->commit.dirty_programs) && STAILQ_EMPTY(&m->commit.dirty_policies) &&
        STAILQ_EMPTY(&m->commit.dirty_changes))
        return;

    struct lh_m_commit *commit = lh_alloc(sizeof *commit);
    commit->ticket = m->commit.next_ticket++;
    TAILQ_INSERT_TAIL(&m->commit.under_way, commit, link);
    lh_fx_persist(m->fx, commit->ticket);
    put_master(m); /* each commit says which one it is */
    m->dirty = false;
    flush_calls(m);
    flush_programs(m, commit);
    flush_policies(m);
    flush_changes(m);

    struct lh_m_mark *mark;
    while ((mark = STAILQ_FIRST(&m->commit.dirty_tombstones)) != NULL) {
        uint8_t key[KEY_MAX];
        STAILQ_REMOVE_HEAD(&m->commit.dirty_tombstones, link);
        if (mark->put)
            put_tombstone(m, mark->chunk, mark->version);
        else
            lh_fx_delete(m->fx, key, number_key(key, 'r', mark->chunk));
        free(mark);
    }
    struct lh_m_server *s;
    while ((s = STAILQ_FIRST(&m->commit.dirty_servers)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->commit.dirty_servers, dirty_link);
        s->dirty = false;
        put_server(m, s);
        LH_GROW(commit->servers, commit->server_capacity, commit->server_count + 1);
        commit->servers[commit->server_count++] = s;
    }
    struct lh_m_motion *mo;
    while ((mo = STAILQ_FIRST(&m->commit.dirty_chunks)) != NULL) {
        struct lh_m_chunk *c = mo->chunk;
        STAILQ_REMOVE_HEAD(&m->commit.dirty_chunks, dirty_link);
        mo->dirty = false;
        if (c->removed)
            delete_chunk(m, c);
        else
            put_chunk(m, c);
        LH_GROW(commit->chunks, commit->chunk_capacity, commit->chunk_count + 1);
        commit->chunks[commit->chunk_count++] = c->id;
    }
    struct lh_m_file_motion *fm;
    while ((fm = STAILQ_FIRST(&m->commit.dirty_files)) != NULL) {
        struct lh_m_file *f = fm->file;
        STAILQ_REMOVE_HEAD(&m->commit.dirty_files, dirty_link);
        fm->dirty = false;
        if (f->removed) {
            uint8_t key[KEY_MAX];
            lh_fx_delete(m->fx, key, number_key(key, 'f', f->id));
            lh_m_file_free(m, f);
        } else {
            put_file(m, f);
        }
    }
}
