/* The file that a call names, and what replies say of one. */
#include "master/calls/internal.h"

#include "master/inventory/inventory.h"
#include "master/tables/behind.h"
#include "master/tables/chunk.h"
#include "master/tables/path.h"
#include "master/tables/tables.h"

#include <inttypes.h>

struct lh_m_file *lh_m_file_named(const struct lh_master *m, uint64_t id, const char *path,
    int *error, char *text, size_t text_size)
{
    struct lh_m_file *f;

    if (id != 0) {
        f = lh_m_file_by_id(m, id);
        if (f != NULL && !f->trashed)
            return f;
        *error = LH_ERR_NOT_FOUND;
        if (f == NULL)
            snprintf(text, text_size, "file %" PRIu64 " does not exist (any more)", id);
        else
            snprintf(text, text_size,
                "file %" PRIu64 " \"%.256s\" is in the trash: restore it to go on with it", id,
                f->path);
        return NULL;
    }
    *error = lh_path_check(path, text, text_size);
    if (*error != LH_OK)
        return NULL;
    f = lh_m_file_by_path(m, path);
    if (f == NULL) {
        *error = LH_ERR_NOT_FOUND;
        snprintf(text, text_size, "\"%.256s\" does not exist%s", path,
            lh_m_trash_find(m, path) == NULL ? "" : "; a file of that path is in the trash");
    }
    return f;
}

void lh_m_file_info(const struct lh_m_file *f, Leasehold__FileInfo *info)
{
    lh_m_file_attributes(f, info);
    info->path = f->path;
    info->trashed = f->trashed;
    info->fence = f->active->fence;
    if (f->active->fence != 0)
        info->lock_name = f->active->lock_name;
    info->chunks = f->chunk_count;
    if (f->chunk_count > 0) {
        const struct lh_m_chunk *tail = lh_m_tail(f);
        info->sealed_length = tail->start + (tail->sealed ? tail->length : 0);
        if (!tail->created)
            info->chunks--; /* nobody can read or append there yet */
    }
}

struct lh_duration lh_m_trash_left(const struct lh_master *m, const struct lh_m_file *f)
{
    struct lh_duration passed = {0};

    if (lh_m_deleting(m)) /* while nothing is deleted no time passes, either */
        passed = lh_instant_until(f->active->trash_from, m->now);
    return lh_nanoseconds(
        passed.ns < f->active->trash_left.ns ? f->active->trash_left.ns - passed.ns : 0);
}

void lh_m_trash_info(
    const struct lh_master *m, const struct lh_m_file *f, Leasehold__FileInfo *info)
{
    lh_m_file_info(f, info);
    if (f->trashed)
        info->trash_left_ms = lh_duration_ms(lh_m_trash_left(m, f));
}
