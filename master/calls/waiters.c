/* Calls that wait until a file has a primary, and their answers. */
#include "master/calls/calls.h"

#include "master/calls/internal.h"
#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/seal/seal.h"
#include "master/tables/chunk.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

void lh_m_waiter_free(struct lh_master *m, struct lh_m_waiter *w)
{
    struct lh_m_file_active *fm = lh_m_move_file(m, w->file);

    lh_timer_unset(&m->timers, &w->timer);
    TAILQ_REMOVE(&fm->waiters, w, file_link);
    fm->waiter_count--;
    if (fm->waiter_count == 0)
        TAILQ_REMOVE(&m->waited, fm, waited_link);
    lh_link_forget(&m->links, &w->link);
    m->waiter_count--;
    free(w->old_primary);
    free(w->lock_name);
    free(w);
}

static void closed(void *core, struct lh_link *link, int error, const char *text)
{
    (void)error;
    (void)text;
    lh_m_waiter_free(core, LH_OWNER(link, struct lh_m_waiter, link));
}

const struct lh_link_user lh_m_waiter_links = {.closed = closed};

/* Where the caller may have to settle what it sent: in the chunk that it names, or that was full,
 * or whose primary it lost, should that be sealed by now. */
static struct lh_m_chunk *settled_for(const struct lh_master *m, const struct lh_m_waiter *w)
{
    uint64_t id = w->unsettled_chunk != 0 ? w->unsettled_chunk
                  : w->full_chunk != 0    ? w->full_chunk
                                          : w->failed_chunk;
    struct lh_m_chunk *c = lh_m_chunk_find(m, id);

    return c != NULL && c->file == w->file && c->sealed ? c : NULL;
}

struct lh_m_chunk *lh_m_unbacked_for(const struct lh_master *m, const struct lh_m_waiter *w)
{
    struct lh_m_chunk *c = w->unsettled_chunk == 0 ? NULL : settled_for(m, w);

    return c == NULL || lh_m_backed(m, c) ? NULL : c;
}

/* Members that can be asked now come first. */
static void best_first(
    const struct lh_master *m, const struct lh_m_chunk *c, struct lh_m_chunk_view *view)
{
    size_t count = 0;

    for (int good = 1; good >= 0; good--)
        for (uint32_t i = 0; i < c->member_count; i++) {
            const struct lh_m_member *member = &c->members[i];
            int this_one = !member->excluded && !member->joining && !member->lost &&
                           !member->stale && lh_m_looks_alive(m, lh_m_server_of(m, member));
            if (this_one == good)
                view->pointers[count++] = &view->members[i];
        }
}

static void answer_tail(struct lh_master *m, struct lh_m_waiter *w, int error, const char *text)
{
    Leasehold__OpenTailReply reply = LEASEHOLD__OPEN_TAIL_REPLY__INIT;
    Leasehold__FileInfo info;
    Leasehold__Member primary = LEASEHOLD__MEMBER__INIT;
    struct lh_m_chunk_view tail_view, settled_view;
    const struct lh_m_file *f = w->file;
    const struct lh_m_chunk *tail = lh_m_tail(f);
    /* What the call itself needed (ACC-3). */
    unsigned rights = w->reads ? LH_CAPABILITY_READ : LH_CAPABILITY_READ | LH_CAPABILITY_APPEND;

    reply.error = lh_m_wire_error(error);
    reply.error_text = (char *)(uintptr_t)text;
    lh_m_file_info(f, &info);
    reply.info = &info;
    if (tail != NULL && tail->created) {
        lh_m_chunk_view(m, tail, &tail_view);
        lh_m_chunk_view_capability(m, &tail_view, rights);
        reply.chunk = &tail_view.info;
    }
    if (error == LH_OK) {
        lh_histogram_note(&m->counts.tail_wait, lh_instant_until(w->arrived_at, m->now));
        primary.server_id = lh_m_holder(tail)->id;
        primary.address = lh_m_holder(tail)->address;
        reply.primary = &primary;
    } else if (tail != NULL) {
        uint64_t left_ms = lh_duration_ms(lh_m_lease_left(m, tail));
        uint64_t retry_ms = lh_duration_ms(m->heartbeat);
        reply.lease_left_ms = left_ms;
        reply.retry_after_ms =
            error == LH_ERR_LEASE_HELD && left_ms < retry_ms ? left_ms : retry_ms;
    } else {
        reply.retry_after_ms = lh_duration_ms(m->heartbeat);
    }
    reply.masters = m->masters;
    reply.n_masters = m->master_count;
    const struct lh_m_chunk *settled = settled_for(m, w);
    if (settled != NULL && lh_m_backed(m, settled)) {
        lh_m_chunk_view(m, settled, &settled_view);
        best_first(m, settled, &settled_view);
        lh_m_chunk_view_capability(m, &settled_view, LH_CAPABILITY_READ);
        reply.settled = &settled_view.info;
    }
    lh_m_reply(m, w->link.id, lh_m_ticket(m, f), &reply.base);
}

static void answer_recall(struct lh_master *m, struct lh_m_waiter *w, int error, const char *text)
{
    Leasehold__RecallReply reply = LEASEHOLD__RECALL_REPLY__INIT;
    const struct lh_m_chunk *c = lh_m_chunk_find(m, w->chunk);

    reply.error = lh_m_wire_error(error);
    reply.error_text = (char *)(uintptr_t)text;
    reply.chunk = w->chunk;
    reply.old_primary = w->old_primary;
    if (c != NULL) {
        reply.version = c->version;
        if (lh_m_held(m, c) && lh_m_has_primary(m, c))
            reply.new_primary = lh_m_holder(c)->id;
        if (error != LH_OK)
            reply.lease_left_ms = lh_duration_ms(lh_m_lease_left(m, c));
    }
    lh_m_reply(m, w->link.id, lh_m_ticket(m, w->file), &reply.base);
}

void lh_m_answer(struct lh_master *m, struct lh_m_waiter *w, int error, const char *text)
{
    if (w->kind == LH_WAIT_TAIL)
        answer_tail(m, w, error, text);
    else
        answer_recall(m, w, error, text);
    lh_m_waiter_free(m, w);
}

void lh_m_fail_waiters(struct lh_master *m, struct lh_m_file *f, int error, const char *text)
{
    struct lh_m_waiter *w;
    struct lh_m_file_active *each;

    if (f != NULL) {
        while ((w = TAILQ_FIRST(&f->active->waiters)) != NULL)
            lh_m_answer(m, w, error, text);
        return;
    }
    while ((each = TAILQ_FIRST(&m->waited)) != NULL)
        lh_m_fail_waiters(m, each->file, error, text);
}
