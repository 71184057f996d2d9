/* How leases and sessions end: by themselves, cut, stopped; and how that is found (grantor.h). */
#include "lease/grantor.h"

#include "base/probe.h"
#include "lease/table.h"

/* How many ends that moved on since they were filed one call of lh_grantor_expire() looks at. */
#define EXPIRE_WORK_MAX 1024

/* Files it again, by its present end. */
static inline void refile_session(struct lh_grantor *g, uint32_t slot)
{
    lh_wheel_remove(&g->session_wheel, slot);
    lh_wheel_insert(&g->session_wheel, slot, lh_session_at(g, slot)->end);
}

static inline void refile_lease(struct lh_grantor *g, uint32_t i)
{
    lh_wheel_remove(&g->lease_wheel, i);
    lh_wheel_insert(&g->lease_wheel, i, lh_record_at(g, i)->end);
}

void lh_grantor_session_stop(struct lh_grantor *g, lh_session_id s, struct lh_instant now)
{
    struct lh_session *session = lh_table_session(g, s);

    lh_table_note_time(g, now);
    if (session == NULL || session->end.ns <= g->seen.ns)
        return;
    session->end = g->seen;
    refile_session(g, lh_session_slot(s));
}

int lh_grantor_cut(struct lh_grantor *g, uint64_t key, lh_session_id s, struct lh_instant now,
    struct lh_instant at)
{
    lh_table_note_time(g, now);
    now = g->seen;
    uint32_t of_key = lh_table_find(g, key);
    if (of_key == 0 || lh_table_session(g, s) == NULL)
        return LH_ERR_NOT_LEASED;
    uint32_t own = lh_table_own(g, of_key, lh_session_slot(s));
    if (own == 0 || !lh_record_in_force(g, lh_record_at(g, own), now))
        return LH_ERR_NOT_LEASED;
    struct lh_record *r = lh_record_at(g, own);
    struct lh_instant end = lh_instant_min(lh_record_end(g, r), lh_instant_max(now, at));
    if (end.ns == r->end.ns)
        return LH_OK;
    r->end = end;
    refile_lease(g, own);
    return LH_OK;
}

bool lh_grantor_cut_next(
    struct lh_grantor *g, uint64_t key, struct lh_instant now, struct lh_lease_info *info)
{
    uint32_t group = lh_table_find(g, key);

    lh_table_note_time(g, now);
    if (group == 0 || lh_record_at(g, group)->kind != LH_RECORD_GROUP)
        return false;
    uint32_t i = lh_record_at(g, group)->members.first;
    struct lh_record *r = lh_record_at(g, i);
    if (r->recalling)
        return false; /* those behind it, too: nobody has joined them since */
    r->recalling = true;
    struct lh_instant end = lh_record_end(g, r);
    if (end.ns != r->end.ns && !LH_PLANTED("cut-cache-lease-renewed")) {
        r->end = end;
        refile_lease(g, i);
    }
    lh_table_share_to_last(g, i);
    *info = lh_table_info(g, i);
    return true;
}

bool lh_grantor_collect(struct lh_grantor *g, uint64_t key, lh_session_id s, struct lh_instant now,
    struct lh_lease_info *info)
{
    lh_table_note_time(g, now);
    uint32_t i = lh_table_find(g, key);
    if (i == 0)
        return false;
    const struct lh_record *r = lh_record_at(g, i);
    if (r->kind == LH_RECORD_GROUP) {
        uint32_t own = s == 0 ? 0 : lh_table_find_share(g, key, lh_session_slot(s));
        i = r->members.first;
        if (lh_record_in_force(g, lh_record_at(g, i), g->seen) && own != 0)
            i = own;
    }
    if (lh_record_in_force(g, lh_record_at(g, i), g->seen))
        return false;
    *info = lh_table_info(g, i);
    lh_table_remove(g, i);
    return true;
}

/* Expiry. */

/* The next lease of a session that was reported as ended. */
static bool take_from_ended(struct lh_grantor *g, struct lh_expired *what)
{
    while (g->ended_first != 0) {
        uint32_t slot = g->ended_first;
        struct lh_session *session = lh_session_at(g, slot);
        if (session->first != 0) {
            *what = (struct lh_expired){.lease = lh_table_info(g, session->first)};
            lh_table_remove(g, session->first);
            return true;
        }
        g->ended_first = session->next;
        if (g->ended_first == 0)
            g->ended_last = 0;
        lh_table_session_free(g, slot);
    }
    return false;
}

static bool take_session(
    struct lh_grantor *g, struct lh_instant now, uint32_t *work, struct lh_expired *what)
{
    uint32_t slot;
    while (*work > 0 && (slot = lh_wheel_due(&g->session_wheel, now)) != 0) {
        const struct lh_session *session = lh_session_at(g, slot);
        if (lh_instant_reached(now, session->end)) {
            *what = (struct lh_expired){
                .is_session = true, .session = session->id, .context = session->context};
            lh_table_session_to_ended(g, slot);
            return true;
        }
        refile_session(g, slot);
        (*work)--;
    }
    return false;
}

/* What comes due after lease `i` is needed at the next step, or at the next call. */
static inline __attribute__((always_inline)) void prefetch_after(
    const struct lh_grantor *g, uint32_t i)
{
    uint32_t next = lh_links_at(g, i)->wheel.next;
    if ((next & LH_WHEEL_HEAD) == 0) {
        __builtin_prefetch(lh_record_at(g, next), 1);
        __builtin_prefetch(lh_links_at(g, next), 1);
    }
}

static bool take_lease(
    struct lh_grantor *g, struct lh_instant now, uint32_t *work, struct lh_expired *what)
{
    uint32_t i;
    while (*work > 0 && (i = lh_wheel_due(&g->lease_wheel, now)) != 0) {
        const struct lh_record *r = lh_record_at(g, i);
        prefetch_after(g, i);
        if (lh_instant_reached(now, r->end)) {
            *what = (struct lh_expired){.lease = lh_table_info(g, i)};
            lh_table_remove(g, i);
            return true;
        }
        refile_lease(g, i);
        (*work)--;
    }
    return false;
}

bool lh_grantor_expire(struct lh_grantor *g, struct lh_instant now, struct lh_expired *what)
{
    uint32_t work = EXPIRE_WORK_MAX;
    lh_table_note_time(g, now);
    return take_from_ended(g, what) || take_session(g, now, &work, what) ||
           take_lease(g, now, &work, what);
}

struct lh_instant lh_grantor_deadline(const struct lh_grantor *g)
{
    if (g->ended_first != 0)
        return g->seen;
    return lh_instant_min(lh_wheel_deadline(&g->session_wheel), lh_wheel_deadline(&g->lease_wheel));
}
