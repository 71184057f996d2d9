/* The table of chunks: records, and the indexes they stand in. */
#include "master/tables/chunk.h"

#include "master/tables/tables.h"

static struct lh_m_chunk *find_any(const struct lh_master *m, uint64_t id)
{
    return lh_idmap_find(&m->chunks, id);
}

struct lh_m_chunk *lh_m_chunk_find(const struct lh_master *m, uint64_t id)
{
    struct lh_m_chunk *c = find_any(m, id);

    return c == NULL || c->removed ? NULL : c;
}

bool lh_m_chunk_is_lost_to(const struct lh_m_chunk *c, const struct lh_m_waiter *w)
{
    return w->failed_chunk == c->id && w->failed_version != 0 &&
           w->failed_version == w->arrival_version;
}

struct lh_m_chunk *lh_m_chunk_from(const struct lh_master *m, uint64_t id)
{
    struct lh_m_chunk *c;

    while ((c = lh_idmap_from(&m->chunks, id)) != NULL && c->removed)
        id = c->id + 1;
    return c;
}

bool lh_m_chunk_leaves(const struct lh_master *m, uint64_t id)
{
    const struct lh_m_chunk *c = find_any(m, id);

    return c != NULL && c->removed;
}

struct lh_m_chunk *lh_m_chunk_new(struct lh_master *m, struct lh_m_file *f, uint64_t id)
{
    return lh_m_chunk_new_at(m, f, f->chunk_count, id);
}

struct lh_m_chunk *lh_m_chunk_new_at(
    struct lh_master *m, struct lh_m_file *f, uint32_t index, uint64_t id)
{
    struct lh_m_chunk *c = lh_alloc(sizeof *c);

    c->id = id;
    c->file = f;
    c->active = &lh_m_idle;
    c->members = c->few;
    m->repair.conditions[c->condition]++;
    c->index = index;
    if (index > 0) {
        const struct lh_m_chunk *before = lh_m_file_chunk(f, index - 1);
        LH_ASSERT(before->sealed);
        c->start = before->start + before->length;
    }
    if (index == f->chunk_count)
        lh_m_file_append(f, c);
    else
        lh_m_file_set_chunk(f, index, c);
    lh_idmap_add(&m->chunks, c);
    lh_idmap_add(&m->open, c);
    lh_m_move(m, c);
    return c;
}

void lh_m_set_sealed(struct lh_master *m, struct lh_m_chunk *c)
{
    m->counts.seals += m->started; /* not those that are loaded */
    LH_ASSERT(!c->sealed);
    c->sealed = true;
    lh_idmap_remove(&m->open, c);
    lh_m_move(m, c);
    /* Who was joining gives no sealed length, and is one of them only if it has recorded the seal
     * (REC-4). */
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_member *member = &c->members[i];
        if (member->joining)
            LH_MARK("sealed-while-joining");
        member->stale = member->stale || member->joining;
        member->joining = false;
    }
}

static void members_resize(struct lh_m_chunk *c, uint32_t count)
{
    struct lh_m_member *old = c->members;

    LH_ASSERT(count <= LH_REPLICATION_MAX);
    if (count > LH_M_FEW) {
        c->members = lh_realloc_array(old == c->few ? NULL : old, count, sizeof *old);
        if (old == c->few)
            memcpy(c->members, old, sizeof c->few);
    } else if (old != c->few) {
        memcpy(c->few, old, count * sizeof *old);
        c->members = c->few;
        free(old);
    }
    c->member_count = (uint8_t)count;
}

void lh_m_members_set(struct lh_m_chunk *c, const struct lh_m_member *members, uint32_t count)
{
    members_resize(c, count);
    if (count > 0)
        memcpy(c->members, members, count * sizeof *members);
}

struct lh_m_member *lh_m_member_add(struct lh_m_chunk *c, struct lh_m_member member)
{
    members_resize(c, c->member_count + 1u);
    c->members[c->member_count - 1] = member;
    return &c->members[c->member_count - 1];
}

void lh_m_member_remove(struct lh_m_chunk *c, const struct lh_m_member *member)
{
    uint32_t i = (uint32_t)(member - c->members);

    memmove(&c->members[i], &c->members[i + 1], (c->member_count - i - 1) * sizeof *member);
    members_resize(c, c->member_count - 1u);
}

static struct lh_m_member *find_member(
    struct lh_m_member *members, uint32_t count, const struct lh_m_server *s)
{
    for (uint32_t i = 0; i < count; i++)
        if (members[i].server == s->number)
            return &members[i];
    return NULL;
}

struct lh_m_member *lh_m_member(const struct lh_m_chunk *c, const struct lh_m_server *s)
{
    return find_member(c->members, c->member_count, s);
}

struct lh_m_member *lh_m_prealloc_member(
    const struct lh_m_prealloc *prealloc, const struct lh_m_server *s)
{
    return find_member(prealloc->members, prealloc->member_count, s);
}

uint32_t lh_m_excluded(const struct lh_m_chunk *c, struct lh_m_member *excluded)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->member_count; i++)
        if (c->members[i].excluded)
            excluded[count++] = c->members[i];
    return count;
}

void lh_m_creation_stop(struct lh_master *m, struct lh_m_chunk *c)
{
    if (!c->active->creation->under_way)
        return;
    struct lh_m_creation *creation = lh_m_creation(m, c);
    creation->under_way = false;
    TAILQ_REMOVE(&m->creating, creation, link);
    lh_timer_unset(&m->timers, &creation->timer);
}

struct lh_m_copy *lh_m_copy_find(const struct lh_m_chunk *c, const struct lh_m_server *s)
{
    struct lh_m_copy *copy;

    TAILQ_FOREACH(copy, &c->active->repair.copies, chunk_link)
        if (copy->target == s)
            return copy;
    return NULL;
}

bool lh_m_copy_at(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_server *s)
{
    (void)m;
    return lh_m_copy_find(c, s) != NULL;
}

bool lh_m_prealloc_known(const struct lh_master *m, uint64_t chunk)
{
    return lh_idmap_find(&m->preallocs, chunk) != NULL;
}
