/* What the master's store says, read again wherever a commit has changed it; and what the master
 * has decided to write there. */
#include "sim/observers/history.h"
#include "sim/observers/leases.h"
#include "sim/world/disk.h"

#include "proto/stored.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The keys of one commit under way. */
struct pending {
    struct pending *next;
    uint64_t emitted_at; /* true ns */
    uint64_t ticket;     /* of a master among several */
    size_t count;
    struct key {
        uint8_t bytes[24];
        size_t size;
    } keys[];
};

static uint64_t number_at(const uint8_t *p)
{
    uint64_t v = 0;

    for (int i = 0; i < 8; i++)
        v = v << 8 | p[i];
    return v;
}

static bool is_of(const struct key *k, char kind, size_t size)
{
    return k->size == size && k->bytes[0] == (uint8_t)kind;
}

/* Empty: a server's or a value's, whose name may be long. */
static struct key key_of(const struct lh_change *change)
{
    struct key k = {.size = 0};

    if (change->key_size <= sizeof k.bytes) {
        k.size = change->key_size;
        memcpy(k.bytes, change->key, k.size);
    }
    return k;
}

static struct pending *keys_of(const struct lh_change *changes, size_t count)
{
    struct pending *p = lh_alloc(sizeof *p + count * sizeof p->keys[0]);

    for (size_t i = 0; i < count; i++) {
        struct key k = key_of(&changes[i]);
        if (k.size > 0)
            p->keys[p->count++] = k;
    }
    return p;
}

static struct pending *decides(
    struct lh_sim_observers *o, const struct lh_change *changes, size_t count)
{
    struct pending *p = keys_of(changes, count);

    for (size_t i = 0; i < count; i++) {
        struct key k = key_of(&changes[i]);
        if (is_of(&k, 'k', 17) && changes[i].value != NULL)
            lh_ob_decided(o, &changes[i]);
        else if (is_of(&k, 'k', 17))
            lh_ob_decided_removal(o, number_at(k.bytes + 1), number_at(k.bytes + 9));
    }
    if (o->pending_last != NULL)
        o->pending_last->next = p;
    else
        o->pending_first = p;
    o->pending_last = p;
    return p;
}

static void pop(struct lh_sim_observers *o)
{
    struct pending *p = o->pending_first;

    if (p == NULL)
        return;
    o->pending_first = p->next;
    if (p->next == NULL)
        o->pending_last = NULL;
    free(p);
}

/* Among several masters a commit may wait for long before it is sent, together with others. What
 * the acting master's core has decided is seen where it waits. */
void lh_ob_ledger_looks(struct lh_sim_observers *o)
{
    const void *core = lh_sim_core(o->master->node);
    struct lh_reign_commit commit;

    bool any = lh_reigns_commit_after(core, 0, &commit);
    while (o->pending_first != NULL && (!any || o->pending_first->ticket < commit.ticket))
        pop(o); /* the core knows that it counts */
    while (!failed(o) && lh_reigns_commit_after(core, o->ticket, &commit)) {
        struct pending *p = decides(o, commit.changes, commit.count);
        /* It may have stood still since its step, in which it may have taken what had waited. */
        p->emitted_at = lh_ob_is_mixed(o) ? o->mixed_since : o->master->stepped_at;
        o->ticket = p->ticket = commit.ticket;
        lh_ob_leases_decided(o, commit.changes, commit.count, p->emitted_at);
    }
}

void lh_ob_ledger_does(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    const struct lh_effect *e = s->effect;

    if (e->kind == LH_FX_PERSIST)
        decides(o, e->changes, e->change_count)->emitted_at = lh_sim_now(o->sim);
}

void lh_ob_ledger_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    if (s->input->kind == LH_IN_PERSISTED && s->input->error != LH_OK &&
        s->input->error != LH_ERR_SHORTAGE)
        pop(o); /* it was never told as committed */
}

bool lh_ob_ledger_deciding(const struct lh_sim_observers *o, const struct chunk *c)
{
    struct lh_reign_commit commit = {.ticket = o->ticket};
    struct lh_reign_state state;

    if (!lh_sim_reign_of(o->cluster, o->master->node, &state))
        return false;
    while (lh_reigns_commit_after(lh_sim_core(o->master->node), commit.ticket, &commit))
        for (size_t i = 0; i < commit.count; i++) {
            struct key k = key_of(&commit.changes[i]);
            if (is_of(&k, 'k', 17) && number_at(k.bytes + 1) == c->file &&
                number_at(k.bytes + 9) == c->index)
                return true;
        }
    return false;
}

/* ---- Reading ---- */

/* When the commit that counts now, and has that key, was decided. */
static uint64_t key_decided_at(const struct lh_sim_observers *o, const struct key *k)
{
    const struct pending *p = o->pending_first;

    if (p == NULL || lh_sim_shared_etcd(o->cluster) == NULL)
        return p == NULL ? lh_sim_now(o->sim) : p->emitted_at;
    for (; p != NULL; p = p->next)
        for (size_t i = 0; i < p->count; i++)
            if (p->keys[i].size == k->size && memcmp(p->keys[i].bytes, k->bytes, k->size) == 0)
                return p->emitted_at;
    return lh_sim_now(o->sim);
}

static uint64_t decided_at(const struct lh_sim_observers *o, uint64_t file)
{
    struct key k = {.bytes = {'f'}, .size = 9};

    for (size_t i = 0; i < 8; i++)
        k.bytes[1 + i] = (uint8_t)(file >> (56 - 8 * i));
    return key_decided_at(o, &k);
}

/* `value` NULL: it is removed. */
static void read_file(
    struct lh_sim_observers *o, uint64_t id, const uint8_t *value, size_t value_size)
{
    struct file *f = lh_ob_file_find(o, id);

    if (value == NULL) {
        if (f != NULL && !f->removed) {
            f->removed = true;
            lh_ob_keep_purged(o, f);
            if (!f->trashed)
                lh_ob_names_changed(o, f->path, 0);
        }
        return;
    }
    LeaseholdStored__File *s = leasehold_stored__file__unpack(NULL, value_size, value);
    LH_ASSERT(s != NULL);
    if (f == NULL) {
        f = lh_alloc(sizeof *f);
        f->id = id;
        HASH_ADD(hh, o->files, id, sizeof f->id, f);
    }
    if (f->path == NULL || strcmp(f->path, s->path) != 0 || f->trashed != s->trashed) {
        if (f->path != NULL && !f->trashed)
            lh_ob_names_changed(o, f->path, 0);
        free(f->path);
        f->path = lh_strdup(s->path);
        if (!s->trashed)
            lh_ob_names_changed(o, f->path, id);
    }
    if (s->trashed && !f->trashed)
        f->trashed_at = decided_at(o, id); /* when the master was asked */
    f->trashed = s->trashed;
    f->replication = s->replication;
    f->synced = s->durability == (uint32_t)LEASEHOLD__DURABILITY__SYNCED;
    f->min_replicas = s->min_replicas;
    leasehold_stored__file__free_unpacked(s, NULL);
}

static void remove_chunk(struct lh_sim_observers *o, uint64_t file, uint64_t index)
{
    const struct file *f = lh_ob_file_find(o, file);

    if (f != NULL && index < f->chunk_count && f->chunks[index] != NULL)
        f->chunks[index]->removed = true;
}

static bool is_member(const struct member *members, size_t count, uint32_t server)
{
    for (size_t i = 0; i < count; i++)
        if (members[i].server == server && !members[i].joining)
            return true;
    return false;
}

/* With a chunk's seal whoever was joining becomes one of those that have to record it: it is full
 * when it has (REC-4). */
static bool was_joining(const struct member *members, size_t count, uint32_t server)
{
    for (size_t i = 0; i < count; i++)
        if (members[i].server == server)
            return members[i].joining;
    return false;
}

static void read_members(
    struct lh_sim_observers *o, struct chunk *c, const LeaseholdStored__Chunk *s, bool was_sealed)
{
    struct member before[MEMBERS_MAX];
    size_t before_count = c->member_count;
    bool same = c->member_count == s->n_members;

    memcpy(before, c->members, sizeof before);
    c->member_count = 0;
    for (size_t i = 0; i < s->n_members && c->member_count < MEMBERS_MAX; i++) {
        int32_t server = lh_ob_server_named(o, s->members[i]->server_id);
        if (server < 0)
            continue;
        struct member *m = &c->members[c->member_count++];
        *m = (struct member){(uint32_t)server, s->members[i]->joining, s->members[i]->lost};
        same = same && i < before_count && before[i].server == m->server &&
               before[i].joining == m->joining;
    }
    if (same)
        return;
    /* KEEP-2; an unsealed chunk goes on without members that fail (REC-3). */
    const struct file *f = lh_ob_file_find(o, c->file);
    if (was_sealed && c->member_count < before_count && c->member_count < f->replication)
        lh_sim_fail(o->sim, "KEEP-2", c->id,
            "sealed chunk %" PRIu64 " has %zu members left of %zu, and is to have %u", c->id,
            c->member_count, before_count, f->replication);
    /* Who becomes a full member has every committed batch (REC-1). */
    for (size_t i = 0; i < c->member_count; i++) {
        uint32_t server = c->members[i].server;
        if (before_count == 0 || c->members[i].joining || is_member(before, before_count, server))
            continue;
        if (!c->sealed || !was_joining(before, before_count, server))
            lh_ob_keep_joined(o, c, server);
        lh_ob_commit_check(o, c, server, 0, c->committed, "it was made a full member");
    }
    if (before_count > 0)
        lh_ob_reconsider(o, c); /* the last good member may have been left out */
}

static void read_chunk(struct lh_sim_observers *o, const struct lh_sim_pair *p)
{
    LeaseholdStored__Chunk *s = leasehold_stored__chunk__unpack(NULL, p->value_size, p->value);

    LH_ASSERT(s != NULL);
    struct chunk *c = lh_ob_chunk(o, s->chunk);
    struct file *f = lh_ob_file_find(o, s->file);
    LH_ASSERT(f != NULL); /* written in the same commit or before */
    lh_ob_inv3_stored(o, c, s->version);
    bool was_sealed = c->known && c->sealed;
    uint64_t sealed_length = c->length;
    c->known = true;
    c->removed = false;
    c->file = s->file;
    c->index = s->index;
    c->start = s->start;
    c->version = s->version;
    c->created = s->created;
    c->sealed = s->sealed;
    c->intent = s->intent_to_seal;
    c->length = s->length;
    c->checksum = s->checksum;
    c->holder = lh_ob_server_named(o, s->holder);
    c->holder_incarnation = s->holder_incarnation;
    while (f->chunk_count <= s->index) {
        LH_GROW(f->chunks, f->chunk_capacity, f->chunk_count + 1);
        f->chunks[f->chunk_count++] = NULL;
    }
    f->chunks[s->index] = c;
    read_members(o, c, s, was_sealed);
    leasehold_stored__chunk__free_unpacked(s, NULL);
    if (was_sealed && (!c->sealed || c->length != sealed_length))
        lh_sim_fail(o->sim, "INV-4", c->id,
            "chunk %" PRIu64 " was sealed at %" PRIu64 " bytes, and is not any more (SEAL-1)",
            c->id, sealed_length);
    else if (c->sealed && !was_sealed)
        lh_ob_inv4_sealed(o, c);
}

/* SEAL-1: a chunk follows another one only when that one's seal is durable. */
static void check_order(struct lh_sim_observers *o, const struct key *k)
{
    const struct file *f = lh_ob_file_find(o, number_at(k->bytes + 1));
    uint64_t index = number_at(k->bytes + 9);

    if (f == NULL || index >= f->chunk_count || f->chunks[index] == NULL)
        return;
    const struct chunk *c = f->chunks[index];
    const struct chunk *before = index == 0 ? NULL : f->chunks[index - 1];
    if (c->removed)
        return;
    if (index > 0 && (before == NULL || !before->sealed))
        lh_sim_fail(o->sim, "INV-4", c->id,
            "chunk %" PRIu64 " of %s is there before the seal of the one before it (SEAL-1)", c->id,
            f->path);
    else if (c->start != (before == NULL ? 0 : before->start + before->length))
        lh_sim_fail(o->sim, "INV-4", c->id,
            "chunk %" PRIu64 " of %s begins at %" PRIu64 ", and the one before it ends elsewhere",
            c->id, f->path, c->start);
}

static const struct lh_sim_pair *stored(const struct lh_sim_observers *o, const struct key *k)
{
    return lh_sim_store_get(o->store, k->bytes, k->size);
}

static void read_master(struct lh_sim_observers *o, const struct lh_sim_pair *p)
{
    LeaseholdStored__Master *s = leasehold_stored__master__unpack(NULL, p->value_size, p->value);

    LH_ASSERT(s != NULL);
    lh_ob_inv3_master_term(o, s->master_term);
    leasehold_stored__master__free_unpacked(s, NULL);
}

static void committed(struct lh_sim_observers *o, const struct pending *p)
{
    /* Files first: what refers to them comes after. */
    for (size_t i = 0; i < p->count; i++) {
        const struct lh_sim_pair *pair = stored(o, &p->keys[i]);
        if (is_of(&p->keys[i], 'f', 9))
            read_file(o, number_at(p->keys[i].bytes + 1), pair == NULL ? NULL : pair->value,
                pair == NULL ? 0 : pair->value_size);
        else if (is_of(&p->keys[i], 'M', 1))
            read_master(o, pair);
        else if (is_of(&p->keys[i], 'c', 17) && pair != NULL)
            lh_ob_names_call(o, number_at(p->keys[i].bytes + 1), number_at(p->keys[i].bytes + 9),
                pair->value, pair->value_size);
        else if (is_of(&p->keys[i], 'h', 9) && pair != NULL)
            lh_ob_leases_changed(o, number_at(p->keys[i].bytes + 1), pair->value, pair->value_size,
                key_decided_at(o, &p->keys[i]));
    }
    for (size_t i = 0; i < p->count; i++) {
        const struct key *k = &p->keys[i];
        if (!is_of(k, 'k', 17))
            continue;
        const struct lh_sim_pair *pair = stored(o, k);
        if (pair == NULL)
            remove_chunk(o, number_at(k->bytes + 1), number_at(k->bytes + 9));
        else
            read_chunk(o, pair);
    }
    for (size_t i = 0; i < p->count; i++)
        if (is_of(&p->keys[i], 'k', 17))
            check_order(o, &p->keys[i]);
}

/* Commits that went together count one after the other, at the same moment: what the later ones
 * have replaced was so, too. False: who sent them is gone, and with it what they were. */
static bool read_each(struct lh_sim_observers *o)
{
    struct lh_reign_commit commit = {0};
    struct lh_reign_state state;
    uint64_t reign, number;

    lh_sim_shared_head(o->cluster, &reign, &number);
    if (reign != o->reign || !lh_sim_reign_of(o->cluster, o->master->node, &state) ||
        state.phase != LH_REIGN_ACTING)
        return false;
    while (
        lh_reigns_commit_after(lh_sim_core(o->master->node), commit.ticket, &commit) && commit.sent)
        for (size_t i = 0; i < commit.count; i++) {
            const struct lh_change *c = &commit.changes[i];
            struct key k = key_of(c);
            if (is_of(&k, 'f', 9))
                read_file(o, number_at(k.bytes + 1), c->value, c->value_size);
            else if (is_of(&k, 'c', 17) && c->value != NULL)
                lh_ob_names_call(
                    o, number_at(k.bytes + 1), number_at(k.bytes + 9), c->value, c->value_size);
            else if (is_of(&k, 'h', 9) && c->value != NULL)
                lh_ob_leases_changed(
                    o, number_at(k.bytes + 1), c->value, c->value_size, key_decided_at(o, &k));
        }
    return true;
}

static bool has_several_calls(const struct pending *p)
{
    size_t calls = 0;

    for (size_t i = 0; i < p->count; i++)
        calls += is_of(&p->keys[i], 'c', 17) && number_at(p->keys[i].bytes + 9) != 0;
    return calls > 1;
}

/* It may be of a master that is gone: what it had sent may count long after. */
static void shared_committed(struct lh_sim_observers *o)
{
    size_t count;
    const struct lh_change *changes = lh_sim_shared_commit(o->cluster, &count);
    struct pending *keys = keys_of(changes, count);

    o->blurred = !read_each(o) && has_several_calls(keys);
    lh_ob_leases_count(o, changes, count);
    committed(o, keys);
    o->blurred = false;
    free(keys);
}

void lh_ob_ledger_committed(struct lh_sim_observers *o)
{
    if (lh_sim_shared_etcd(o->cluster) != NULL) {
        shared_committed(o);
        return;
    }
    LH_ASSERT(o->pending_first != NULL);
    committed(o, o->pending_first);
    pop(o);
}

void lh_ob_ledger_ended(struct lh_sim_observers *o)
{
    struct chunk *c, *next;

    while (o->pending_first != NULL)
        pop(o);
    HASH_ITER(hh, o->chunks, c, next) {
        c->decided_holder = c->known ? c->holder : -1;
        c->decided_version = c->decided_granted = c->version;
        c->decided_intent = c->known && c->intent;
        c->decided_sealed = c->known && c->sealed;
    }
}

void lh_ob_ledger_deinit(struct lh_sim_observers *o)
{
    struct file *f, *next_file;
    struct chunk *c, *next_chunk;

    while (o->pending_first != NULL)
        pop(o);
    HASH_ITER(hh, o->files, f, next_file) {
        HASH_DELETE(hh, o->files, f);
        free(f->path);
        free(f->chunks);
        free(f->acks);
        free(f);
    }
    HASH_ITER(hh, o->chunks, c, next_chunk) {
        HASH_DELETE(hh, o->chunks, c);
        free(c->promises);
        free(c->log);
        free(c->replicas);
        free(c);
    }
}
