/* The table of files, by id, by path, and in the trash. */
#include "master/tables/file.h"

#include "master/tables/changed.h"
#include "master/tables/tables.h"

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

static void place_in_full_passed(struct lh_master *m, struct lh_m_timer *timer)
{
    lh_m_touch(m, LH_M_OWNER(timer, struct lh_m_file, timer));
}

struct lh_m_file *lh_m_file_new(struct lh_master *m, uint64_t id, const char *path, bool trashed)
{
    struct lh_m_file *f = lh_alloc(sizeof *f), *other;

    f->id = id;
    f->path = lh_strdup(path);
    f->timer.fire = place_in_full_passed;
    f->place_in_full_until = LH_INSTANT_NEVER;
    TAILQ_INIT(&f->waiters);
    lh_idmap_add(&m->files, f);
    f->trashed = trashed;
    if (trashed) {
        other = RB_INSERT(lh_m_trash, &m->trash, f);
        m->trash_count++;
    } else {
        other = RB_INSERT(lh_m_paths, &m->paths, f);
    }
    LH_ASSERT(other == NULL);
    return f;
}

void lh_m_file_free(struct lh_m_file *f)
{
    free(f->path);
    free(f->chunks);
    free(f);
}

struct lh_m_file *lh_m_trash_find(const struct lh_master *m, const char *path)
{
    struct lh_m_file key = {.path = (char *)(uintptr_t)path}, *f, *last = NULL;

    for (f = RB_NFIND(lh_m_trash, (struct lh_m_trash *)(uintptr_t)&m->trash, &key);
         f != NULL && strcmp(f->path, path) == 0; f = RB_NEXT(lh_m_trash, &m->trash, f))
        if (last == NULL || f->trash_number > last->trash_number)
            last = f;
    return last;
}
