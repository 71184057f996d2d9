/* The step's commit: which records it writes, and in which order. */
#include "master/tables/write.h"

#include "base/seal.h"
#include "master/tables/call.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/promised.h"
#include "master/tables/put.h"

static void write_leases(struct lh_master *m)
{
    struct lh_m_program *p;
    struct lh_m_policy *policy;
    struct lh_m_value_change *c;
    struct lh_m_name *n;

    RB_FOREACH(p, lh_m_programs, &m->programs.tree) {
        if (!p->over)
            lh_m_put_program(m, p);
    }
    RB_FOREACH(policy, lh_m_policy_tree, &m->policies.tree) {
        if (!policy->gone)
            lh_m_put_policy(m, policy);
    }
    LH_IDMAP_FOREACH(c, &m->history.changes)
        lh_m_put_change(m, c);
    RB_FOREACH(n, lh_m_name_tree, &m->names.tree) {
        if (n->more->value != NULL)
            lh_m_put_value(m, n->more->value);
    }
}

void lh_m_write_all(struct lh_master *m)
{
    const struct lh_m_chunk *c;
    const struct lh_m_tombstone *t;
    struct lh_m_file *f;
    struct lh_m_server *s;
    struct lh_m_call *call;

    m->commit.writes_all = true;
    lh_fx_persist(m->fx, 0);
    if (m->cluster_id != NULL)
        lh_m_put_master(m);
    for (size_t i = 0; i < m->reigns.count; i++)
        lh_m_put_reign(m, &m->reigns.items[i]);
    RB_FOREACH(call, lh_m_call_tree, &m->calls.tree) {
        lh_m_put_call(m, call);
    }
    LH_IDMAP_FOREACH(f, &m->files)
        lh_m_put_file(m, f);
    LH_IDMAP_FOREACH(c, &m->chunks)
        lh_m_put_chunk(m, c);
    LH_IDMAP_FOREACH(t, &m->tombstones)
        lh_m_put_tombstone(m, NULL, t->chunk, t->version);
    TAILQ_FOREACH(s, &m->all_servers, all_link)
        lh_m_put_server(m, s);
    write_leases(m);
    m->commit.writes_all = false;
}

/* ---- Pairs that somebody else has changed (PAIR-5). */

static uint64_t number_at(const uint8_t *from)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | from[i];
    return value;
}

/* Records whose keys are numbers. False: there is none. */
static bool put_numbered(struct lh_master *m, const struct lh_m_again *a)
{
    uint64_t first = number_at(a->key + 1), second = a->key_size == 17 ? number_at(a->key + 9) : 0;
    struct lh_m_file *f = lh_m_file_by_id(m, first);
    const struct lh_m_tombstone *t = lh_m_tombstone_find(m, first);
    struct lh_m_value_change *change = lh_idmap_find(&m->history.changes, first);
    struct lh_m_call *call = lh_m_call_find(m, first, second);
    struct lh_m_reign *reign = lh_m_reign_find(m, first);
    uint32_t *word = lh_m_tombstone_word(m, first);

    if (a->key[0] == 'f' && f != NULL)
        lh_m_put_file(m, f);
    else if (a->key[0] == 'k' && f != NULL && second < f->chunk_count)
        lh_m_put_chunk(m, lh_m_file_chunk(f, second));
    else if (a->key[0] == 'r' && word != NULL)
        lh_m_put_tombstone(m, word, first, t == NULL ? 0 : t->version);
    else if (a->key[0] == 'h' && change != NULL)
        lh_m_put_change(m, change);
    else if (a->key[0] == 'c' && call != NULL)
        lh_m_put_call(m, call);
    else if (a->key[0] == 'n' && reign != NULL)
        lh_m_put_reign(m, reign);
    else
        return false;
    return true;
}

static bool put_named(struct lh_master *m, char letter, const char *text)
{
    struct lh_m_name *name = lh_m_name_find(m, text);
    struct lh_m_policy *policy = lh_m_policy_find(m, text);
    struct lh_m_server *s = lh_m_server_find(m, text);

    if (letter == 's' && s != NULL)
        lh_m_put_server(m, s);
    else if (letter == 'q' && policy != NULL && !policy->gone)
        lh_m_put_policy(m, policy);
    else if (letter == 'v' && name != NULL && name->more->value != NULL)
        lh_m_put_value(m, name->more->value);
    else
        return false;
    return true;
}

/* As memory has it; what memory does not know goes. */
static void write_again(struct lh_master *m, const struct lh_m_again *a)
{
    char letter = a->key_size == 0 ? 0 : (char)a->key[0], text[LH_M_NAME_BYTES_MAX + 1] = "";
    bool numbered =
        ((letter == 'f' || letter == 'h' || letter == 'n' || letter == 'r') && a->key_size == 9) ||
        ((letter == 'k' || letter == 'c') && a->key_size == 17);
    struct lh_m_program *p = letter == 'p' && a->key_size == 1 + LH_M_SESSION_ID_BYTES
                                 ? lh_m_program_find(m, a->key + 1)
                                 : NULL;

    if (letter == 'M' && a->key_size == 1)
        return; /* each commit has it */
    if (a->key_size > 1 && a->key_size <= sizeof text)
        memcpy(text, a->key + 1, a->key_size - 1);
    if (numbered ? put_numbered(m, a)
                 : strlen(text) + 1 == a->key_size && put_named(m, letter, text))
        return;
    if (p != NULL && !p->over)
        lh_m_put_program(m, p);
    else
        lh_fx_delete(m->fx, a->key, a->key_size);
}

static struct lh_m_commit *begin(struct lh_master *m)
{
    struct lh_m_commit *commit = lh_alloc(sizeof *commit);

    commit->ticket = m->commit.next_ticket++;
    TAILQ_INSERT_TAIL(&m->commit.under_way, commit, link);
    lh_fx_persist(m->fx, commit->ticket);
    lh_m_promises_commit(m);
    return commit;
}

void lh_m_flush_again(struct lh_master *m)
{
    struct lh_m_again *a;

    if (STAILQ_EMPTY(&m->commit.again))
        return;
    LH_MARK("written-again");
    (void)begin(m);
    while ((a = STAILQ_FIRST(&m->commit.again)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->commit.again, link);
        write_again(m, a);
        free(a);
    }
    lh_m_put_master(m);
}

/* ---- The step's commit. */

static void flush_tombstone(struct lh_master *m, const struct lh_m_mark *mark)
{
    uint8_t key[LH_M_KEY_SPACE], version[8] = {0};
    size_t size = lh_m_number_key(key, 'r', mark->chunk);
    uint32_t *word = lh_m_tombstone_word(m, mark->chunk), none = 0;

    if (mark->put) {
        lh_m_put_tombstone(m, word != NULL ? word : &none, mark->chunk, mark->version);
        return;
    }
    /* A preallocated chunk is a file's now; what is stored of it says version 0. */
    LH_ASSERT(word == NULL);
    none = lh_m_pair_word_of(lh_seal_hash(key, size, version, sizeof version));
    lh_m_delete_pair(m, &none, key, size);
}

static void flush_programs(struct lh_master *m, struct lh_m_commit *commit)
{
    struct lh_m_program *p;
    uint8_t key[LH_M_KEY_SPACE];

    while ((p = STAILQ_FIRST(&m->commit.dirty_programs)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->commit.dirty_programs, dirty_link);
        p->dirty = false;
        if (p->over)
            lh_m_delete_pair(m, &p->pair, key, lh_m_program_key(key, p));
        else
            lh_m_put_program(m, p);
        LH_GROW(commit->programs, commit->program_capacity, commit->program_count + 1);
        commit->programs[commit->program_count++] = p;
    }
}

static void flush_policies(struct lh_master *m)
{
    struct lh_m_policy *policy;
    uint8_t key[LH_M_KEY_SPACE];

    while ((policy = STAILQ_FIRST(&m->commit.dirty_policies)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->commit.dirty_policies, dirty_link);
        policy->dirty = false;
        if (!policy->gone) {
            lh_m_put_policy(m, policy);
            continue;
        }
        lh_fx_delete(m->fx, key, lh_m_text_key(key, 'q', policy->prefix));
        lh_m_policy_free(m, policy);
    }
}

/* A change with the value that it makes, or whose end it is; and the changes that go for it. */
static void flush_changes(struct lh_master *m)
{
    struct lh_m_value_change *c;
    uint8_t key[LH_M_KEY_SPACE];

    while ((c = STAILQ_FIRST(&m->commit.dirty_changes)) != NULL) {
        const struct lh_m_name *name = lh_m_name_find(m, c->name);
        struct lh_m_value *v = name == NULL ? NULL : name->more->value;
        STAILQ_REMOVE_HEAD(&m->commit.dirty_changes, dirty_link);
        c->dirty = false;
        lh_m_put_change(m, c);
        LH_ASSERT(c->removed == (v == NULL)); /* once in a step (history.h) */
        if (v == NULL)
            lh_fx_delete(m->fx, key, lh_m_text_key(key, 'v', c->name));
        else
            lh_m_put_value(m, v);
    }
    for (size_t i = 0; i < m->history.dropped_count; i++)
        lh_fx_delete(m->fx, key, lh_m_number_key(key, 'h', m->history.dropped[i]));
    m->history.dropped_count = 0;
}

/* The answers of calls that this step kept, and those that it dropped: never one of both. */
static void flush_calls(struct lh_master *m)
{
    struct lh_m_call *call;
    uint8_t key[LH_M_KEY_SPACE];

    for (size_t i = 0; i < m->calls.dirty_count; i++) {
        m->calls.dirty[i]->dirty = false;
        lh_m_put_call(m, m->calls.dirty[i]);
    }
    m->calls.dirty_count = 0;
    while ((call = TAILQ_FIRST(&m->calls.dropped)) != NULL) {
        TAILQ_REMOVE(&m->calls.dropped, call, link);
        lh_m_delete_pair(m, &call->pair, key, lh_m_call_key(key, call->client, call->number));
        free(call);
    }
}

static void flush_reigns(struct lh_master *m)
{
    struct lh_m_reigns *r = &m->reigns;
    uint8_t key[LH_M_KEY_SPACE];

    if (r->dirty)
        lh_m_put_reign(m, &r->items[r->count - 1]);
    r->dirty = false;
    if (r->forgotten != 0)
        lh_fx_delete(m->fx, key, lh_m_number_key(key, 'n', r->forgotten));
    r->forgotten = 0;
}

void lh_m_flush(struct lh_master *m)
{
    if (!m->dirty && m->calls.dirty_count == 0 && TAILQ_EMPTY(&m->calls.dropped) &&
        STAILQ_EMPTY(&m->commit.dirty_servers) && STAILQ_EMPTY(&m->commit.dirty_chunks) &&
        STAILQ_EMPTY(&m->commit.dirty_files) && STAILQ_EMPTY(&m->commit.dirty_tombstones) &&
        STAILQ_EMPTY(&m->commit.dirty_programs) && STAILQ_EMPTY(&m->commit.dirty_policies) &&
        STAILQ_EMPTY(&m->commit.dirty_changes))
        return;

    struct lh_m_commit *commit = begin(m);
    flush_reigns(m);
    flush_calls(m);
    flush_programs(m, commit);
    flush_policies(m);
    flush_changes(m);

    struct lh_m_mark *mark;
    while ((mark = STAILQ_FIRST(&m->commit.dirty_tombstones)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->commit.dirty_tombstones, link);
        flush_tombstone(m, mark);
        free(mark);
    }
    struct lh_m_server *s;
    while ((s = STAILQ_FIRST(&m->commit.dirty_servers)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->commit.dirty_servers, dirty_link);
        s->dirty = false;
        lh_m_put_server(m, s);
        LH_GROW(commit->servers, commit->server_capacity, commit->server_count + 1);
        commit->servers[commit->server_count++] = s;
    }
    struct lh_m_active *mo;
    while ((mo = STAILQ_FIRST(&m->commit.dirty_chunks)) != NULL) {
        struct lh_m_chunk *c = mo->chunk;
        STAILQ_REMOVE_HEAD(&m->commit.dirty_chunks, dirty_link);
        mo->dirty = false;
        if (c->removed)
            lh_m_delete_chunk(m, c);
        else
            lh_m_put_chunk(m, c);
        LH_GROW(commit->chunks, commit->chunk_capacity, commit->chunk_count + 1);
        commit->chunks[commit->chunk_count++] = c->id;
    }
    struct lh_m_file_active *fm;
    while ((fm = STAILQ_FIRST(&m->commit.dirty_files)) != NULL) {
        struct lh_m_file *f = fm->file;
        STAILQ_REMOVE_HEAD(&m->commit.dirty_files, dirty_link);
        fm->dirty = false;
        if (f->removed) {
            uint8_t key[LH_M_KEY_SPACE];
            lh_fx_delete(m->fx, key, lh_m_number_key(key, 'f', f->id));
            lh_m_file_free(m, f);
        } else {
            lh_m_put_file(m, f);
        }
    }
    lh_m_put_master(m); /* with the sum of all that is stored then (PAIR-1) */
    m->dirty = false;
}
