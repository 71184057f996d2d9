/* What the master's store says, read again wherever a commit has changed it; and what the master
 * has decided to write there. */
#include "sim/observers/internal.h"
#include "sim/world/disk.h"

#include "proto/stored.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The keys of one commit under way. */
struct pending {
    struct pending *next;
    uint64_t emitted_at; /* true ns */
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

/* What the master has learnt of its members may come with what it decides. */
static void note_lost(struct lh_sim_observers *o, struct chunk *c, const LeaseholdStored__Chunk *s)
{
    for (size_t i = 0; i < s->n_members; i++)
        for (size_t n = 0; n < c->member_count; n++)
            if (s->members[i]->lost &&
                lh_ob_server_named(o, s->members[i]->server_id) == (int32_t)c->members[n].server)
                c->members[n].lost = true;
}

/* REC-2a, FAIL-3: until a version is recovered a member that may be the only one to have everything
 * stays in the set, unless its primary has said that those who are there suffice. */
static void note_left_out(
    struct lh_sim_observers *o, struct chunk *c, const LeaseholdStored__Chunk *s)
{
    bool sure = c->recovered >= c->version || c->sure_version == c->version;

    if (!c->known || !c->created || c->sealed || s->sealed || s->version == c->version || sure ||
        o->restored || c->hopeless)
        return;
    for (size_t i = 0; i < c->member_count; i++) {
        const struct member *m = &c->members[i];
        const struct replica *r = &c->replicas[m->server];
        bool stays = m->joining || m->lost || r->lost || r->damaged || r->missing ||
                     !lh_ob_kernel(o, c, m->server)->valid;
        for (size_t n = 0; n < s->n_members; n++)
            stays = stays || lh_ob_server_named(o, s->members[n]->server_id) == (int32_t)m->server;
        if (stays || lh_sim_is_decommissioned(o->cluster, m->server + 1) ||
            lh_sim_is_scrapped(o->servers[m->server]->node))
            continue;
        lh_sim_fail(o->sim, "INV-4", c->id,
            "the master leaves %s out of chunk %" PRIu64 ", whose version %" PRIu64
            " is not recovered: it may be the only one to have every acknowledged record (REC-2a)",
            o->servers[m->server]->name, c->id, c->version);
    }
}

/* LEASE-2 is about what the master decides, which is in the very step that emits the commit. */
static void note_decision(struct lh_sim_observers *o, const struct lh_change *change)
{
    LeaseholdStored__Chunk *s =
        leasehold_stored__chunk__unpack(NULL, change->value_size, change->value);

    LH_ASSERT(s != NULL);
    struct chunk *c = lh_ob_chunk(o, s->chunk);
    int32_t holder = lh_ob_server_named(o, s->holder);
    if (holder >= 0 && (holder != c->decided_holder || s->version != c->decided_version))
        lh_ob_inv2_decided(o, c, (uint32_t)holder, s->version);
    if (holder >= 0 && holder != c->decided_holder)
        lh_ob_health_granted(o, c, o->servers[holder]);
    if (holder < 0 && c->decided_holder >= 0 && !s->sealed)
        lh_ob_inv2_freed(o, c);
    if (s->intent_to_seal && !c->decided_intent)
        lh_ob_inv9_rolls(o, c);
    else if (s->intent_to_seal && holder >= 0 && holder != c->decided_holder)
        lh_sim_fail(o->sim, "INV-2", c->id,
            "the master grants chunk %" PRIu64 " to %s, and intends to seal it (FAIL-2a)", c->id,
            o->servers[holder]->name);
    note_lost(o, c, s);
    note_left_out(o, c, s);
    if (s->sealed && !c->decided_sealed && s->intent_to_seal)
        lh_ob_roll_sealed(o, c, s->version, s->length, s->checksum);
    c->decided_holder = holder;
    c->decided_version = s->version;
    c->decided_granted = s->granted_version == 0 ? s->version : s->granted_version;
    if (s->intent_to_seal && !c->decided_intent)
        c->intent_at = o->master->clock;
    c->decided_intent = s->intent_to_seal;
    c->decided_sealed = s->sealed;
    leasehold_stored__chunk__free_unpacked(s, NULL);
}

/* Its file is removed: nobody holds it any more. */
static void note_removal(struct lh_sim_observers *o, const struct key *k)
{
    const struct file *f = lh_ob_file_find(o, number_at(k->bytes + 1));
    uint64_t index = number_at(k->bytes + 9);

    if (f != NULL && index < f->chunk_count && f->chunks[index] != NULL)
        f->chunks[index]->decided_holder = -1;
}

void lh_ob_ledger_does(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    const struct lh_effect *e = s->effect;

    if (e->kind != LH_FX_PERSIST)
        return;
    struct pending *p = lh_alloc(sizeof *p + e->change_count * sizeof p->keys[0]);
    p->emitted_at = lh_sim_now(o->sim);
    for (size_t i = 0; i < e->change_count; i++) {
        const struct lh_change *change = &e->changes[i];
        if (change->key_size > sizeof p->keys[0].bytes)
            continue; /* a server's: its id may be long */
        struct key *k = &p->keys[p->count++];
        k->size = change->key_size;
        memcpy(k->bytes, change->key, change->key_size);
        if (is_of(k, 'k', 17) && change->value != NULL)
            note_decision(o, change);
        else if (is_of(k, 'k', 17))
            note_removal(o, k);
    }
    if (o->pending_last != NULL)
        o->pending_last->next = p;
    else
        o->pending_first = p;
    o->pending_last = p;
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

void lh_ob_ledger_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    if (s->input->kind == LH_IN_PERSISTED && s->input->error != LH_OK &&
        s->input->error != LH_ERR_SHORTAGE)
        pop(o); /* it was never told as committed */
}

/* ---- Reading ---- */

static void read_file(struct lh_sim_observers *o, uint64_t id, const struct lh_sim_pair *p)
{
    struct file *f = lh_ob_file_find(o, id);

    if (p == NULL) {
        if (f != NULL && !f->removed) {
            f->removed = true;
            lh_ob_keep_purged(o, f);
            if (!f->trashed)
                lh_ob_names_changed(o, f->path, 0);
        }
        return;
    }
    LeaseholdStored__File *s = leasehold_stored__file__unpack(NULL, p->value_size, p->value);
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
        f->trashed_at = o->pending_first->emitted_at; /* when the master was asked */
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
    return lh_sim_store_get(o->master->node, k->bytes, k->size);
}

static void read_master(struct lh_sim_observers *o, const struct lh_sim_pair *p)
{
    LeaseholdStored__Master *s = leasehold_stored__master__unpack(NULL, p->value_size, p->value);

    LH_ASSERT(s != NULL);
    lh_ob_inv3_master_term(o, s->master_term);
    leasehold_stored__master__free_unpacked(s, NULL);
}

void lh_ob_ledger_committed(struct lh_sim_observers *o)
{
    const struct pending *p = o->pending_first;

    LH_ASSERT(p != NULL);
    /* Files first: what refers to them comes after. */
    for (size_t i = 0; i < p->count; i++) {
        if (is_of(&p->keys[i], 'f', 9))
            read_file(o, number_at(p->keys[i].bytes + 1), stored(o, &p->keys[i]));
        else if (is_of(&p->keys[i], 'M', 1))
            read_master(o, stored(o, &p->keys[i]));
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
