/* Stored records to tables, at the start: each pair once, in the order of keys. How records are
 * read is in stored.c; how a loaded core follows another master's commits, in amend.c. */
#include "master/load.h"

#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/master.h"
#include "master/seal/seal.h"
#include "master/tables/call.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"

#include <inttypes.h>

#define CORRUPT LH_M_STORED_CORRUPT

static void load_master(struct lh_master *m, const LeaseholdStored__Master *record)
{
    free(m->cluster_id);
    free(m->behind);
    m->cluster_id = lh_strdup(record->cluster_id);
    m->term = record->master_term;
    m->longest_session_ns = record->longest_session_ns;
    m->commits = record->commits;
    m->next_file = record->next_file;
    m->next_chunk = record->next_chunk;
    m->history.floor = record->revision;
    if (m->history.last < record->revision)
        m->history.last = record->revision;
    m->behind = record->behind[0] == 0 ? NULL : lh_strdup(record->behind);
    m->sealed = record->format > LH_MASTER_FORMAT_BARE;
    m->recorded = (struct lh_m_pairs){record->pairs, record->sum, record->bare};
}

static int load_reign(struct lh_master *m, uint64_t number, const LeaseholdStored__Reign *record,
    char *text, size_t text_size)
{
    if (number > m->term)
        return CORRUPT("the record of reign %" PRIu64
                       " is of a later one than the master's, %" PRIu64,
            number, m->term);
    lh_m_reign_load(m, number, record->name, record->restored);
    return LH_OK;
}

/* The file gets its name; one that has another is out of its index. */
static struct lh_m_file *name_file(struct lh_master *m, const LeaseholdStored__File *record)
{
    struct lh_m_file *f = lh_m_file_by_id(m, record->file);

    if (f == NULL)
        return lh_m_file_new(m, record->file, record->path, record->trashed);
    free(f->path);
    f->path = lh_strdup(record->path);
    f->trashed = record->trashed;
    f->removed = false;
    lh_m_file_enter(m, f);
    return f;
}

static int load_file(
    struct lh_master *m, const LeaseholdStored__File *record, char *text, size_t text_size)
{
    struct lh_m_file *f = lh_m_file_by_id(m, record->file);

    if (record->file >= m->next_file)
        return CORRUPT("the record of file %" PRIu64 " makes no sense", record->file);
    if (f != NULL && !f->removed)
        return CORRUPT("file %" PRIu64 " has two records", record->file);
    if (!record->trashed && lh_m_file_by_path(m, record->path) != NULL)
        return CORRUPT("two files have the path \"%s\"", record->path);
    f = name_file(m, record);
    f->durability = (uint8_t)record->durability;
    f->replication = (uint8_t)record->replication;
    f->min_replicas = (uint8_t)record->min_replicas;
    f->chunk_size = record->chunk_size;
    f->created_unix_ms = record->created_unix_ms;
    f->on_primary_loss = (uint8_t)record->on_primary_loss;
    if (record->trashed || record->fence != 0 || f->active != &lh_m_file_idle) {
        struct lh_m_file_active *fm = lh_m_move_file(m, f);
        lh_m_fence_load(
            m, f, record->lock_name, LH_PLANTED("fence-forgotten-at-restart") ? 0 : record->fence);
        fm->trash_left = lh_milliseconds(record->trashed ? record->trash_left_ms : 0);
        fm->trash_number = record->trashed ? record->trash_number : 0;
    }
    lh_m_file_actives_settle(m);
    return LH_OK;
}

static bool joins(const struct lh_m_chunk *before, uint64_t start)
{
    return before != NULL && before->sealed && start == before->start + before->length;
}

/* Has the record a place in `f`, between its neighbours as far as they are there? */
static bool fits(
    const struct lh_master *m, const struct lh_m_file *f, const LeaseholdStored__Chunk *record)
{
    const struct lh_m_chunk *next;

    if (record->index > f->chunk_count || record->chunk >= m->next_chunk ||
        lh_m_chunk_find(m, record->chunk) != NULL)
        return false;
    if (record->index < f->chunk_count && lh_m_file_chunk(f, record->index) != NULL)
        return false;
    if (record->index == 0 ? record->start != 0
                           : !joins(lh_m_file_chunk(f, record->index - 1), record->start))
        return false;
    next = record->index + 1 < f->chunk_count ? lh_m_file_chunk(f, record->index + 1) : NULL;
    return next == NULL || (record->sealed && next->start == record->start + record->length);
}

static void take_chunk(
    struct lh_master *m, struct lh_m_file *f, const LeaseholdStored__Chunk *record)
{
    struct lh_m_chunk *c = lh_m_chunk_new_at(m, f, (uint32_t)record->index, record->chunk);

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
            record->granted_version == 0 ? record->version : record->granted_version,
            LH_PLANTED("fence-forgotten-at-restart") ? 0 : record->granted_fence);
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

static int load_chunk(
    struct lh_master *m, const LeaseholdStored__Chunk *record, char *text, size_t text_size)
{
    struct lh_m_file *f = lh_m_file_by_id(m, record->file);

    if (f == NULL)
        return CORRUPT("a chunk belongs to file %" PRIu64 ", which does not exist", record->file);
    if (!fits(m, f, record))
        return CORRUPT(
            "chunk %" PRIu64 " of \"%s\" does not fit what is around it", record->index, f->path);
    take_chunk(m, f, record);
    lh_m_actives_settle(m);
    return LH_OK;
}

static void load_server(struct lh_master *m, const LeaseholdStored__Server *record)
{
    struct lh_m_server *s = lh_m_server_get(m, record->server_id);

    s->incarnation = s->session.client.process = record->incarnation;
    s->registration = record->registration;
    s->process = record->process;
    s->reached = record->reached;
    s->reign = record->reign;
    free(s->machine_id);
    free(s->address);
    free(s->failure_domain);
    s->machine_id = lh_strdup(record->machine_id);
    s->address = lh_strdup(record->address);
    s->failure_domain = lh_strdup(record->failure_domain);
    s->admin = (Leasehold__ServerAdmin)record->admin;
}

static void load_program(
    struct lh_master *m, const uint8_t *id, const LeaseholdStored__Program *record)
{
    struct lh_m_program *p = lh_m_program_find(m, id);

    if (p != NULL)
        lh_m_program_free(m, p); /* no master writes a record twice */
    p = lh_m_program_new(
        m, id, lh_nanoseconds(record->term_ns), record->host, record->process, record->label);
    p->lookups = record->lookups;
    if (record->identity[0] != 0)
        p->identity = lh_strdup(record->identity);
    lh_m_values_adopt(m, p);
}

static void load_policy(
    struct lh_master *m, const char *prefix, const LeaseholdStored__Policy *record)
{
    struct lh_m_policy *policy = lh_m_policy_get(m, prefix);

    policy->no_recall = record->no_recall;
    policy->share_percent = record->share_percent;
    policy->term_min = lh_milliseconds(record->term_min_ms);
    policy->term_max = lh_milliseconds(record->term_max_ms);
    policy->no_lease = record->no_lease;
    policy->broadcast = record->broadcast;
}

static const uint8_t *session_of(const ProtobufCBinaryData *session)
{
    return session->len == 0 ? NULL : session->data;
}

static void load_value(struct lh_master *m, const char *name, const LeaseholdStored__Value *record)
{
    LH_MARK("restart-with-value");
    lh_m_value_load(m, name, record->revision, record->value.data, record->value.len,
        session_of(&record->session), record->token);
}

static void load_change(
    struct lh_master *m, uint64_t revision, const LeaseholdStored__ValueChange *record)
{
    lh_m_history_load(m, revision, record->name, record->removed, record->value.data,
        record->value.len, session_of(&record->session));
}

static int take_record(
    struct lh_master *m, const struct lh_m_stored *record, char *text, size_t text_size)
{
    switch (record->key.kind) {
    case LH_M_STORED_MASTER:
        load_master(m, record->master);
        break;
    case LH_M_STORED_REIGN:
        return load_reign(m, record->key.id, record->reign, text, text_size);
    case LH_M_STORED_FILE:
        return load_file(m, record->file, text, text_size);
    case LH_M_STORED_CHUNK:
        return load_chunk(m, record->chunk, text, text_size);
    case LH_M_STORED_TOMBSTONE:
        LH_MARK("restart-with-tombstone");
        lh_m_tombstone_put(m, record->key.id, record->version);
        break;
    case LH_M_STORED_SERVER:
        load_server(m, record->server);
        break;
    case LH_M_STORED_CALL:
        LH_MARK("restart-with-call");
        lh_m_call_load(m, record->key.id, record->key.index, record->call);
        break;
    case LH_M_STORED_PROGRAM:
        LH_MARK("restart-with-program");
        load_program(m, record->key.session, record->program);
        break;
    case LH_M_STORED_POLICY:
        load_policy(m, record->key.text, record->policy);
        break;
    case LH_M_STORED_VALUE:
        load_value(m, record->key.text, record->value);
        break;
    case LH_M_STORED_CHANGE:
        load_change(m, record->key.id, record->change);
        break;
    }
    return LH_OK;
}

/* Where the record that was taken in keeps its pair's word. */
static uint32_t *word_of(struct lh_master *m, const struct lh_m_stored *record)
{
    const struct lh_m_stored_key *key = &record->key;

    switch (key->kind) {
    case LH_M_STORED_MASTER:
        break;
    case LH_M_STORED_REIGN:
        return &lh_m_reign_find(m, key->id)->pair;
    case LH_M_STORED_FILE:
        return &lh_m_file_by_id(m, key->id)->pair;
    case LH_M_STORED_CHUNK:
        return lh_idmap_word(&m->chunks, record->chunk->chunk);
    case LH_M_STORED_TOMBSTONE:
        return lh_idmap_word(&m->tombstones, key->id);
    case LH_M_STORED_SERVER:
        return &lh_m_server_get(m, key->text)->pair;
    case LH_M_STORED_CALL:
        return &lh_m_call_find(m, key->id, key->index)->pair;
    case LH_M_STORED_PROGRAM:
        return &lh_m_program_find(m, key->session)->pair;
    case LH_M_STORED_POLICY:
        return &lh_m_policy_find(m, key->text)->pair;
    case LH_M_STORED_VALUE:
        return &lh_m_name_find(m, key->text)->more->value->pair;
    case LH_M_STORED_CHANGE:
        return &lh_m_history_from(m, key->id)->pair;
    }
    return NULL;
}

int lh_m_load_record(
    struct lh_master *m, const struct lh_m_stored *record, char *text, size_t text_size)
{
    int error = take_record(m, record, text, text_size);
    uint32_t *word = error == LH_OK ? word_of(m, record) : NULL;

    if (word != NULL)
        lh_m_pair_take(m, word, record->hash, record->bare);
    return error;
}

bool lh_m_takes_bare(const struct lh_master *m, const uint8_t *key, size_t key_size)
{
    return !m->sealed || m->recorded.bare > 0 || (key_size == 1 && *key == LH_M_STORED_MASTER);
}

int lh_m_check_pairs(const struct lh_master *m, char *text, size_t text_size)
{
    const struct lh_m_pairs *is = &m->pairs, *was = &m->recorded;

    if (!m->sealed || LH_PLANTED("sum-not-looked-at") || LH_PLANTED("seals-not-looked-at") ||
        (is->count == was->count && is->sum == was->sum && is->bare == was->bare))
        return LH_OK;
    return CORRUPT("it has %" PRIu64 " pairs and the master's record counts %" PRIu64 "%s: a pair "
                   "was lost, added or put back, and no master does that; restore the store from a "
                   "backup (docs/operations.md, \"Restoring\")",
        is->count, was->count, is->count == was->count ? ", with another sum of their hashes" : "");
}

int lh_master_loaded(const struct lh_master *m, char *text, size_t text_size)
{
    LH_ASSERT(!m->started);
    return lh_m_check_pairs(m, text, text_size);
}

/* `leasehold store copy`: masters use the other store. */
static int refuse_elsewhere(const void *value, size_t value_size, char *text, size_t text_size)
{
    LeaseholdStored__Elsewhere *mark = leasehold_stored__elsewhere__unpack(NULL, value_size, value);
    const char *where = mark == NULL ? "another store" : mark->where;

    if (mark != NULL && mark->unfinished)
        (void)snprintf(text, text_size,
            "this store is not whole: it is being filled from %.300s; if `leasehold store copy` "
            "was "
            "interrupted, run it again",
            where);
    else
        (void)snprintf(text, text_size,
            "the content of this store went to %.300s with `leasehold store copy`: start masters "
            "with that --store",
            where);
    if (mark != NULL)
        leasehold_stored__elsewhere__free_unpacked(mark, NULL);
    return LH_ERR_WRONG_IDENTITY;
}

int lh_master_load(struct lh_master *m, const void *key, size_t key_size, const void *value,
    size_t value_size, char *text, size_t text_size)
{
    struct lh_m_stored record;

    LH_ASSERT(!m->started);
    if (key_size == 1 && *(const char *)key == LH_MASTER_ELSEWHERE_KEY[0])
        return refuse_elsewhere(value, value_size, text, text_size);
    if (m->cluster_id == NULL && (key_size != 1 || *(const char *)key != LH_M_STORED_MASTER))
        return CORRUPT("it has no master's record; is this a master's data directory?");
    int error = lh_m_stored_read(&record, key, key_size, value, value_size,
        lh_m_takes_bare(m, key, key_size), text, text_size);
    return error != LH_OK ? error : lh_m_load_record(m, &record, text, text_size);
}
