/* The fence of a file (TOK-2): whose appends its tail's primary takes.
 *
 * A version of a chunk has one fence, the file's when it was granted. A fence that is raised while
 * the holder cannot be given a version (its session is over, it gives the lease up, the chunk is
 * being sealed) waits for the next grant. Until then the holder may go on under the older one:
 * nobody is admitted under the new one. */
#include "master/grants/grants.h"

#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

bool lh_m_fence_carried(const struct lh_m_chunk *tail)
{
    return tail->active->grant->fence == tail->file->active->fence;
}

void lh_m_fence_carry(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_chunk *tail = lh_m_tail(f);

    if (tail == NULL || tail->sealed || lh_m_holder(tail) == NULL || lh_m_fence_carried(tail) ||
        tail->active->grant->lease.recalling)
        return;
    /* LEASE-3; not after an intent to seal, which ends the lease. */
    if (!lh_lease_current(&m->leases, &tail->active->grant->lease)) {
        LH_MARK("fence-waits-for-a-grant");
        return;
    }
    LH_MARK("fence-with-a-new-version");
    lh_m_regrant(m, tail);
}

void lh_m_fence_raise(struct lh_master *m, struct lh_m_file *f, const char *name, uint64_t token)
{
    struct lh_m_file_active *fm = lh_m_move_file(m, f);

    LH_ASSERT(token > fm->fence || LH_PLANTED("lower-token-admitted-after-roll"));
    LH_ASSERT(fm->lock_name == NULL || strcmp(fm->lock_name, name) == 0);
    if (fm->lock_name == NULL)
        fm->lock_name = lh_strdup(name);
    fm->fence = token;
    lh_m_dirty_file(m, f);
    lh_fx_log(m->fx, LH_INFO, "\"%s\": appends only under lock %s, token %" PRIu64 " from now on",
        f->path, fm->lock_name, token);
    lh_m_fence_carry(m, f);
}

void lh_m_fence_load(struct lh_master *m, struct lh_m_file *f, const char *name, uint64_t token)
{
    struct lh_m_file_active *fm = lh_m_move_file(m, f);

    free(fm->lock_name);
    fm->fence = token;
    fm->lock_name = token == 0 ? NULL : lh_strdup(name);
}
