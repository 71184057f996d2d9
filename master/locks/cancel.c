/* Locks that an operator cancels (NL-4): they are cut, and whoever asked is answered when they are
 * over. Nothing is free before. */
#include "master/locks/internal.h"
#include "master/tables/answers.h"
#include "master/tables/replies.h"

#include "base/text.h"

void lh_m_each_holder(struct lh_master *m, struct lh_m_name *n,
    bool (*function)(struct lh_master *m, struct lh_m_name *n, struct lh_m_program *p, void *arg),
    void *arg)
{
    struct lh_m_lock_request *c, *next;
    struct lh_lease_info info;

    if (!lh_untracked_held(&m->leases, lh_m_lock_key(n), &info))
        return;
    if (info.mode == LH_LEASE_EXCLUSIVE) {
        function(m, n, lh_m_client_program(info.context), arg);
        return;
    }
    for (c = RB_MIN(lh_m_lock_requests_here, &n->more->lock_state->requests); c != NULL; c = next) {
        next = RB_NEXT(lh_m_lock_requests_here, &n->more->lock_state->requests, c);
        if (c->state == LH_M_LOCK_REQUEST_HELD &&
            lh_untracked_find(&m->leases, &c->program->session.client, lh_m_lock_key(n), &info) &&
            !function(m, n, c->program, arg))
            return;
    }
}

uint64_t lh_m_lock_left_ms(const struct lh_master *m, const struct lh_m_name *n)
{
    const struct lh_m_lock_state *g = n->more->lock_state;

    /* Not each of very many is looked at: no session runs for longer. */
    if (g != NULL && g->sharers > m->config.names_shown)
        return lh_duration_ms(m->config.program_term_max);
    return lh_duration_ms(
        lh_instant_until(m->now, lh_grantor_free_at(m->leases.engine, lh_m_lock_key(n), m->now)));
}

static void answer(
    struct lh_master *m, uint64_t link, const struct lh_m_name *n, int error, const char *text)
{
    Leasehold__CancelReply reply = LEASEHOLD__CANCEL_REPLY__INIT;

    reply.error = lh_m_wire_error(error);
    reply.error_text = (char *)(uintptr_t)text;
    if (error == LH_ERR_LEASE_HELD && n != NULL)
        reply.left_ms = lh_m_lock_left_ms(m, n);
    lh_m_reply(m, link, 1, &reply.base);
}

void lh_m_cancel_free(struct lh_master *m, struct lh_m_cancel *cancel)
{
    lh_link_forget(&m->links, &cancel->link);
    m->locks.cancels--;
    free(cancel->why);
    free(cancel);
}

static void forget(struct lh_master *m, struct lh_m_cancel *cancel)
{
    struct lh_m_name *n = cancel->lock_state->name;

    lh_timer_unset(&m->timers, &cancel->timer);
    TAILQ_REMOVE(&cancel->lock_state->cancels, cancel, place);
    lh_m_cancel_free(m, cancel);
    lh_m_lock_touch(m, n);
}

void lh_m_lock_cut(
    struct lh_master *m, struct lh_m_name *n, struct lh_m_program *p, const char *why)
{
    struct lh_lease_info info;

    if (!lh_untracked_find(&m->leases, &p->session.client, lh_m_lock_key(n), &info))
        return;
    lh_m_note_lock(
        m, n, p, LEASEHOLD__LEASE_EVENT_KIND__LEASE_CANCELLED, info.version, "by an operator");
    if (LH_PLANTED("cancel-frees-at-once")) {
        int freed = lh_untracked_release(&m->leases, &p->session.client, info.key, info.version);
        LH_ASSERT(freed == LH_OK);
        lh_m_notify_demand(m, p, n, info.version, true, 0, why);
        lh_m_lock_gone(m, n, p, LEASEHOLD__LOCK_EVENT_KIND__LOCK_ENDED, info.version);
        return;
    }
    if (!LH_PLANTED("cut-lease-renewed")) {
        int error = lh_untracked_cut(&m->leases, &p->session.client, info.key, LH_INSTANT_NEVER);
        LH_ASSERT(error == LH_OK);
    }
    lh_m_lock_happened(m, n, p, LEASEHOLD__LOCK_EVENT_KIND__LOCK_CUT, info.version);
    lh_m_notify_demand(m, p, n, info.version, true,
        n->more->lock_state == NULL ? 0 : n->more->lock_state->waiting, why);
}

/* Cuts what is held with that token (0: any), if many share it a part; the steps that follow do the
 * rest. Returns the token, 0: nobody holds it so. */
static uint64_t cut_all(struct lh_master *m, struct lh_m_name *n, uint64_t token, const char *why)
{
    struct lh_lease_info info;

    if (!lh_untracked_held(&m->leases, lh_m_lock_key(n), &info) ||
        (token != 0 && info.version != token))
        return 0;
    LH_MARK("lock-cancelled");
    m->counts.locks_cancelled++;
    if (info.mode == LH_LEASE_EXCLUSIVE) {
        lh_m_lock_cut(m, n, lh_m_client_program(info.context), why);
        return info.version;
    }
    n->more->lock_state->closed = info.version;
    lh_m_ask_all(n->more->lock_state, why);
    /* No such step follows while sessions are awaited. */
    size_t work = lh_m_programs_awaited(m) ? SIZE_MAX : m->config.step_work;
    lh_m_ask_some(m, n->more->lock_state, &work);
    return info.version;
}

static bool is_over(struct lh_master *m, struct lh_m_name *n, uint64_t token)
{
    struct lh_lease_info info;

    return !lh_untracked_held(&m->leases, lh_m_lock_key(n), &info) || info.version != token;
}

#define NOBODY "nobody holds the lock, or not with that token"

void lh_m_cancels_look(struct lh_master *m, struct lh_m_lock_state *g)
{
    struct lh_m_cancel *cancel, *next;

    for (cancel = TAILQ_FIRST(&g->cancels); cancel != NULL; cancel = next) {
        next = TAILQ_NEXT(cancel, place);
        bool known = cancel->token != 0;
        if (!known)
            cancel->token = cut_all(m, g->name, cancel->asked, cancel->why);
        if (cancel->token != 0 && !is_over(m, g->name, cancel->token))
            continue;
        answer(m, cancel->link.id, NULL, cancel->token != 0 ? LH_OK : LH_ERR_NOT_LEASED,
            cancel->token != 0 ? "" : NOBODY);
        forget(m, cancel);
    }
}

static void waited(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    struct lh_m_cancel *cancel = LH_OWNER(timer, struct lh_m_cancel, timer);

    answer(m, cancel->link.id, cancel->lock_state->name, LH_ERR_LEASE_HELD,
        cancel->token != 0 ? "the lock is cancelled, and not over yet"
                           : "sessions of before this master's start are awaited");
    forget(m, cancel);
}

static void closed(void *core, struct lh_link *link, int error, const char *text)
{
    (void)error;
    (void)text;
    forget(core, LH_OWNER(link, struct lh_m_cancel, link));
}

static const struct lh_link_user cancel_links = {.closed = closed};

static void wait(struct lh_master *m, uint64_t link, struct lh_m_name *n,
    const Leasehold__CancelRequest *request, uint64_t token, const char *why)
{
    struct lh_m_cancel *cancel = lh_alloc(sizeof *cancel);
    struct lh_duration longest =
        lh_duration_min(lh_milliseconds(request->wait_ms), m->config.cancel_wait_max);

    cancel->lock_state = lh_m_lock_state_get(m, n);
    cancel->token = token;
    cancel->asked = request->token;
    cancel->why = lh_strdup(why);
    cancel->timer.fire = waited;
    TAILQ_INSERT_TAIL(&cancel->lock_state->cancels, cancel, place);
    cancel->link.user = &cancel_links;
    lh_link_serve(&m->links, &cancel->link, link);
    m->locks.cancels++;
    lh_timer_set(&m->timers, &cancel->timer, lh_instant_add(m->now, longest));
}

static void cancel_name(struct lh_master *m, uint64_t link, struct lh_m_name *n,
    const Leasehold__CancelRequest *request, const char *why)
{
    uint64_t token = cut_all(m, n, request->token, why);
    bool unknown = token == 0 && lh_m_programs_awaited(m);

    if (token == 0 && !unknown)
        answer(m, link, NULL, LH_ERR_NOT_LEASED, NOBODY);
    else if (token != 0 && is_over(m, n, token))
        answer(m, link, NULL, LH_OK, "");
    else if (request->wait_ms == 0)
        answer(m, link, n, LH_ERR_LEASE_HELD,
            unknown ? "sessions of before this master's start are awaited"
                    : "the lock is cancelled, and not over yet");
    else if (m->locks.cancels >= m->config.cancels_max)
        answer(m, link, n, LH_ERR_NO_MEMORY, "too many calls wait for the end of a lock");
    else
        wait(m, link, n, request, token, why);
}

void lh_m_cancel(struct lh_master *m, uint64_t link, const Leasehold__CancelRequest *request)
{
    char text[LH_TEXT_BYTES], why[LH_TEXT_BYTES];
    int error = lh_m_name_check(request->name, text, sizeof text);

    if (error != LH_OK) {
        answer(m, link, NULL, error, text);
        return;
    }
    snprintf(why, sizeof why, "%.400s", request->why);
    lh_utf8_mend(why, strlen(why));
    struct lh_m_name *n = lh_m_name_get(m, request->name);
    m->locks.in_hand = n;
    cancel_name(m, link, n, request, why);
    m->locks.in_hand = NULL;
    lh_m_lock_touch(m, n);
}

void lh_m_locks_stop(struct lh_master *m)
{
    struct lh_link *l, *next;

    LH_LINKS_FOREACH(&m->links, &cancel_links, l, next) {
        lh_fx_close(m->fx, l->id, LH_ERR_SHUTTING_DOWN, "the master is shutting down");
        forget(m, LH_OWNER(l, struct lh_m_cancel, link));
    }
}
