/* The table of files, by id, by path, and in the trash. */
#include "master/tables/file.h"

#include "master/tables/changed.h"
#include "master/tables/tables.h"

const struct lh_m_file_active lh_m_file_idle = {.place_in_full_until = {UINT64_MAX}};

static int compare_paths(const struct lh_m_file *a, const struct lh_m_file *b)
{
    return strcmp(a->path, b->path);
}

static int compare_trash(const struct lh_m_file *a, const struct lh_m_file *b)
{
    int order = strcmp(a->path, b->path);

    return order != 0 ? order : a->id < b->id ? -1 : a->id > b->id;
}

RB_GENERATE(lh_m_paths, lh_m_file, path_node, compare_paths)

RB_GENERATE(lh_m_trash, lh_m_file, path_node, compare_trash)

struct lh_m_file *lh_m_file_by_path(const struct lh_master *m, const char *path)
{
    struct lh_m_file key = {.path = (char *)(uintptr_t)path};

    return RB_FIND(lh_m_paths, (struct lh_m_paths *)(uintptr_t)&m->paths, &key);
}

struct lh_m_file *lh_m_file_by_id(const struct lh_master *m, uint64_t id)
{
    return lh_idmap_find(&m->files, id);
}

void lh_m_file_attributes(const struct lh_m_file *f, Leasehold__FileInfo *info)
{
    leasehold__file_info__init(info);
    info->file = f->id;
    info->durability = f->durability;
    info->replication = f->replication;
    info->min_replicas = f->min_replicas;
    info->chunk_size = f->chunk_size;
    info->created_unix_ms = f->created_unix_ms;
    info->on_primary_loss = f->on_primary_loss;
}

static void place_in_full_passed(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    lh_m_touch(m, LH_OWNER(timer, struct lh_m_file_active, timer)->file);
}

void lh_m_file_enter(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_file *other =
        f->trashed ? RB_INSERT(lh_m_trash, &m->trash, f) : RB_INSERT(lh_m_paths, &m->paths, f);

    LH_ASSERT(other == NULL);
    m->trash_count += f->trashed;
}

void lh_m_file_leave(struct lh_master *m, struct lh_m_file *f)
{
    if (f->trashed)
        RB_REMOVE(lh_m_trash, &m->trash, f);
    else
        RB_REMOVE(lh_m_paths, &m->paths, f);
    m->trash_count -= f->trashed;
}

struct lh_m_file *lh_m_file_new(struct lh_master *m, uint64_t id, const char *path, bool trashed)
{
    struct lh_m_file *f = lh_alloc(sizeof *f);

    f->id = id;
    f->path = lh_strdup(path);
    f->active = &lh_m_file_idle;
    lh_idmap_add(&m->files, f);
    f->trashed = trashed;
    lh_m_file_enter(m, f);
    return f;
}

void lh_m_file_set_chunk(struct lh_m_file *f, uint32_t index, struct lh_m_chunk *c)
{
    LH_ASSERT(index < f->chunk_count);
    if (f->chunk_capacity == 0)
        f->chunks.only = c;
    else
        f->chunks.many[index] = c;
}

void lh_m_file_drop_last(struct lh_m_file *f)
{
    LH_ASSERT(f->chunk_count > 0);
    f->chunk_count--;
    if (f->chunk_count > 0)
        return;
    if (f->chunk_capacity > 0)
        free(f->chunks.many);
    f->chunk_capacity = 0;
    f->chunks.only = NULL;
}

void lh_m_file_append(struct lh_m_file *f, struct lh_m_chunk *c)
{
    if (f->chunk_count == 0) {
        f->chunks.only = c;
    } else if (f->chunk_count >= f->chunk_capacity) {
        struct lh_m_chunk *only = f->chunk_capacity == 0 ? f->chunks.only : NULL;
        uint32_t capacity = f->chunk_count + f->chunk_count / 4 + 1; /* few are left unused */
        f->chunks.many = lh_realloc_array(
            only != NULL ? NULL : f->chunks.many, capacity, sizeof *f->chunks.many);
        if (only != NULL)
            f->chunks.many[0] = only;
        f->chunk_capacity = capacity;
    }
    if (f->chunk_count > 0)
        f->chunks.many[f->chunk_count] = c;
    f->chunk_count++;
}

/* ---- What it has while something is going on. */

static bool is_idle(const struct lh_master *m, const struct lh_m_file *f)
{
    const struct lh_m_file_active *fm = f->active;

    return !f->trashed && fm->fence == 0 && !fm->dirty && !fm->in_work && fm->prealloc == NULL &&
           TAILQ_EMPTY(&fm->waiters) && fm->place_in_full_until.ns == LH_INSTANT_NEVER.ns &&
           !lh_timer_is_set(&fm->timer) &&
           lh_instant_reached(m->now, lh_instant_add(fm->consent_from, fm->consent_rest));
}

struct lh_m_file_active *lh_m_move_file(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_file_active *fm = (struct lh_m_file_active *)(uintptr_t)f->active;

    if (f->active == &lh_m_file_idle) {
        fm = lh_alloc(sizeof *fm);
        fm->file = f;
        fm->timer.fire = place_in_full_passed;
        fm->place_in_full_until = LH_INSTANT_NEVER;
        TAILQ_INIT(&fm->waiters);
        f->active = fm;
    }
    if (!fm->unsettled)
        TAILQ_INSERT_TAIL(&m->unsettled_files, fm, unsettled_link);
    fm->unsettled = true;
    return fm;
}

static void active_free(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_file_active *fm = (struct lh_m_file_active *)(uintptr_t)f->active;

    if (f->active == &lh_m_file_idle)
        return;
    if (fm->unsettled)
        TAILQ_REMOVE(&m->unsettled_files, fm, unsettled_link);
    f->active = &lh_m_file_idle;
    free(fm->lock_name);
    free(fm);
}

void lh_m_file_actives_settle(struct lh_master *m)
{
    struct lh_m_file_active *fm;

    while ((fm = TAILQ_FIRST(&m->unsettled_files)) != NULL) {
        TAILQ_REMOVE(&m->unsettled_files, fm, unsettled_link);
        fm->unsettled = false;
        if (is_idle(m, fm->file))
            active_free(m, fm->file);
    }
}

void lh_m_file_free(struct lh_master *m, struct lh_m_file *f)
{
    active_free(m, f);
    if (f->chunk_capacity > 0)
        free(f->chunks.many);
    lh_m_pair_drop(m, &f->pair);
    free(f->path);
    free(f);
}

struct lh_m_file *lh_m_trash_find(const struct lh_master *m, const char *path)
{
    struct lh_m_file key = {.path = (char *)(uintptr_t)path}, *f, *last = NULL;

    for (f = RB_NFIND(lh_m_trash, (struct lh_m_trash *)(uintptr_t)&m->trash, &key);
         f != NULL && strcmp(f->path, path) == 0; f = RB_NEXT(lh_m_trash, &m->trash, f))
        if (last == NULL || f->active->trash_number > last->active->trash_number)
            last = f;
    return last;
}
