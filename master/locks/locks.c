/* Grants and ends of locks (NL-1, NL-2). */
#include "lease/term.h"
#include "master/locks/internal.h"
#include "master/sessions/sessions.h"
#include "master/tables/answers.h"

#include <inttypes.h>

/* NL-2: the reign in the high bits, a counter in the others. */
#define COUNTER_BITS 40
#define COUNTER_LAST ((UINT64_C(1) << COUNTER_BITS) - 1)

static uint64_t numbered(const struct lh_master *m, uint64_t counter)
{
    return LH_PLANTED("token-counter-restarted") ? counter : m->term << COUNTER_BITS | counter;
}

uint64_t lh_m_token(struct lh_master *m)
{
    if (m->locks.tokens == COUNTER_LAST || m->term > UINT64_MAX >> COUNTER_BITS)
        return 0;
    return numbered(m, ++m->locks.tokens);
}

bool lh_m_programs_awaited(const struct lh_master *m)
{
    return m->leases.away > 0;
}

struct lh_instant lh_m_programs_back_by(const struct lh_master *m)
{
    struct lh_m_program *p;
    struct lh_instant end = m->now;

    RB_FOREACH(p, lh_m_programs, (struct lh_m_programs *)(uintptr_t)&m->programs.tree) {
        if (p->session.client.former != 0 && p->session.client.promised != 0)
            end = lh_instant_max(
                end, lh_grantor_session_end_of(m->leases.engine, p->session.client.promised));
    }
    return end;
}

bool lh_m_program_reachable(const struct lh_master *m, const struct lh_m_program *p)
{
    return (p->back || LH_PLANTED("showing-wipes-newer-grant")) && !p->over &&
           lh_m_session_reachable(m, &p->session);
}

void lh_m_note_lock(struct lh_master *m, const struct lh_m_name *n, const struct lh_m_program *p,
    Leasehold__LeaseEventKind kind, uint64_t token, const char *why)
{
    struct lh_m_event event = {
        .subject = lh_m_event_of_name(m, n->text),
        .kind = kind,
        .version = token,
        .left_ms = lh_m_event_left(
            m, lh_term_grantor_end(p->session.client.received_at, p->session.client.term)),
        .why = why,
        .of_session = true,
    };

    memcpy(event.session, p->id, sizeof event.session);
    lh_m_note(m, &event);
}

/* ---- Ends. */

void lh_m_lock_gone(struct lh_master *m, struct lh_m_name *n, struct lh_m_program *p,
    Leasehold__LockEventKind how, uint64_t token)
{
    struct lh_m_lock_request *c = lh_m_lock_request_of(n, p);

    LH_ASSERT(n->leases > 0 && p->locks > 0);
    lh_m_lock_happened(m, n, p, how, token);
    n->leases--;
    p->locks--;
    m->locks.held--;
    if (c != NULL && c->state == LH_M_LOCK_REQUEST_HELD)
        lh_m_lock_request_free(m, c);
    lh_m_program_settle(m, p);
    if (!LH_PLANTED("waiter-lost-on-release"))
        lh_m_lock_touch(m, n);
}

static void expired(void *core, uint64_t id, struct lh_lease_client *client)
{
    struct lh_master *m = core;
    struct lh_m_name *n = lh_m_name_by_number(m, id);

    LH_ASSERT(n != NULL);
    LH_MARK("lock-ran-out");
    m->counts.locks_expired++;
    lh_m_note_lock(m, n, lh_m_client_program(client), LEASEHOLD__LEASE_EVENT_KIND__LEASE_EXPIRED, 0,
        lh_m_client_program(client)->closed ? "its session was closed" : NULL);
    lh_m_lock_gone(m, n, lh_m_client_program(client), LEASEHOLD__LOCK_EVENT_KIND__LOCK_ENDED, 0);
}

const struct lh_untracked_owner lh_m_lock_leases = {.ended = expired};

void lh_m_lock_release(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__ReleaseLock *release)
{
    struct lh_m_name *n = lh_m_name_find(m, release->name);
    int error = n == NULL ? LH_ERR_NOT_LEASED
                          : lh_untracked_release(
                                &m->leases, &p->session.client, lh_m_lock_key(n), release->token);

    if (error != LH_OK) {
        lh_m_reply_refused(m, p, 0, release->name,
            error == LH_ERR_STALE_VERSION ? LH_ERR_STALE_TOKEN : LH_ERR_NOT_LEASED,
            error == LH_ERR_STALE_VERSION ? "this session's lock on the name has another token"
                                          : "this session has no lock on the name");
        return;
    }
    m->counts.locks_released++;
    if (n->noted)
        lh_m_note_lock(m, n, p, LEASEHOLD__LEASE_EVENT_KIND__LEASE_RELEASED, release->token, NULL);
    lh_m_lock_gone(m, n, p, LEASEHOLD__LOCK_EVENT_KIND__LOCK_RELEASED, release->token);
}

void lh_m_lock_withdraw(struct lh_master *m, struct lh_m_program *p, uint64_t id)
{
    struct lh_m_lock_request *c = lh_m_lock_request_by_id(p, id);

    if (c == NULL)
        return; /* it was granted, and that is on its way: the program gives it back then */
    struct lh_m_name *n = c->lock_state->name;
    if (c->noted)
        lh_m_note_lock(m, n, p, LEASEHOLD__LEASE_EVENT_KIND__LEASE_WITHDRAWN, 0, NULL);
    lh_m_lock_request_free(m, c);
    lh_m_lock_touch(m, n);
}

void lh_m_locks_session_over(struct lh_master *m, struct lh_m_program *p)
{
    struct lh_m_lock_request *c;

    while ((c = RB_ROOT(&p->requests)) != NULL) {
        struct lh_m_name *n = c->lock_state->name;
        LH_MARK("waiting-session-over");
        if (c->noted)
            lh_m_note_lock(
                m, n, p, LEASEHOLD__LEASE_EVENT_KIND__LEASE_WITHDRAWN, 0, "its session is over");
        lh_m_lock_request_free(m, c);
        lh_m_lock_touch(m, n);
    }
}

/* ---- Grants. */

/* Can the name be had in that mode now? `*token` is that of the tenure that would be joined; 0: a
 * new one begins. */
static bool is_free_for(
    struct lh_master *m, struct lh_m_name *n, bool shared, uint32_t slots, uint64_t *token)
{
    const struct lh_m_lock_state *g;
    struct lh_lease_info info;

    *token = 0;
    if (lh_m_programs_awaited(m) && !LH_PLANTED("lock-granted-before-all-back"))
        return false; /* PS-3 */
    if (m->locks.cold)
        return false; /* NL-2a */
    if (!lh_untracked_held(&m->leases, lh_m_lock_key(n), &info))
        return true;
    g = n->more->lock_state;
    if (!shared || info.mode != LH_LEASE_SHARED || g == NULL || g->closed == info.version)
        return false;
    *token = info.version;
    const struct lh_m_lock_request *least =
        RB_MIN(lh_m_slotted, (struct lh_m_slotted *)&g->slotted);
    return g->sharers < m->config.sharers_max && (slots == 0 || g->sharers < slots) &&
           (least == NULL || g->sharers < least->slots);
}

void lh_m_lock_taken(struct lh_master *m, struct lh_m_name *n, struct lh_m_program *p,
    struct lh_m_lock_request *c, uint64_t token)
{
    n->leases++;
    p->locks++;
    m->locks.held++;
    n->held_since = (uint32_t)(m->now.ns / 1000000000u);
    if (c != NULL)
        lh_m_lock_request_holds(m, c);
    lh_m_lock_happened(m, n, p, LEASEHOLD__LOCK_EVENT_KIND__LOCK_GRANTED, token);
    if (c == NULL)
        return;
    c->lock_state->recalled_for = 0;
    if (!c->shared && !c->recallable && c->info_size == 0)
        lh_m_lock_request_free(m, c); /* the engine knows all of it */
}

/* Gives it. False: the session is over, or no token is left. */
static bool give(struct lh_master *m, struct lh_m_name *n, struct lh_m_program *p, bool shared,
    uint64_t tenure, uint64_t id, struct lh_m_lock_request *c)
{
    uint64_t token = tenure != 0 ? tenure : lh_m_token(m);

    if (token == 0 ||
        lh_untracked_grant(&m->leases, &p->session.client, lh_m_lock_key(n), token,
            shared ? LH_LEASE_SHARED : LH_LEASE_EXCLUSIVE, LH_DURATION_FOREVER) != LH_OK)
        return false;
    /* What was noted of a request that waited goes on; who shares a lock does not hide another. */
    bool waited = c != NULL && c->state == LH_M_LOCK_REQUEST_WAITS;
    bool noted = waited ? c->noted : lh_m_note_due(m, p);
    n->noted = noted || (tenure != 0 && n->noted);
    lh_m_lock_taken(m, n, p, c, token);
    m->counts.locks_granted++;
    if (noted)
        lh_m_note_lock(
            m, n, p, LEASEHOLD__LEASE_EVENT_KIND__LEASE_GRANTED, token, shared ? "shared" : NULL);
    lh_m_reply_granted(m, p, id, token);
    return true;
}

int lh_m_lock_room(
    const struct lh_master *m, const struct lh_m_program *p, char *text, size_t text_size)
{
    const struct lh_master_config *config = &m->config;

    if (p->locks + p->caches + p->request_count >= config->program_locks_max)
        snprintf(text, text_size,
            "this session has %" PRIu32
            " locks, requests and cached values, the most that a session may have",
            config->program_locks_max);
    else if (m->locks.waiting >= config->waits_max)
        snprintf(text, text_size, "%" PRIu32 " requests for locks wait in all, the most that may",
            config->waits_max);
    else
        return LH_OK;
    return LH_ERR_NO_MEMORY;
}

/* What is wrong with the request; LH_OK: nothing. */
static int check(struct lh_master *m, const struct lh_m_program *p, const Leasehold__Acquire *a,
    char *text, size_t text_size)
{
    int error = lh_m_name_check(a->name, text, text_size);

    if (error != LH_OK)
        return error;
    error = LH_ERR_INVALID_ARGUMENT;
    if (a->id == 0 || lh_m_lock_request_by_id(p, a->id) != NULL)
        snprintf(text, text_size, "a request needs a number of its own in its session");
    else if (a->mode != LEASEHOLD__LOCK_MODE__EXCLUSIVE && a->mode != LEASEHOLD__LOCK_MODE__SHARED)
        snprintf(text, text_size, "a lock is exclusive or shared");
    else if (a->info.len > LH_M_INFO_BYTES_MAX) {
        error = LH_ERR_TOO_LARGE;
        snprintf(text, text_size, "what is said of a lock has %zu bytes; at most %u are allowed",
            a->info.len, LH_M_INFO_BYTES_MAX);
    } else if (lh_grantor_lease_count(m->leases.engine) >= m->config.locks_max) {
        error = LH_ERR_NO_MEMORY;
        snprintf(text, text_size,
            "there are %" PRIu32 " locks and cached values in all, the most that there may be",
            m->config.locks_max);
    } else {
        return lh_m_lock_room(m, p, text, text_size);
    }
    return error;
}

static void refuse_held(struct lh_master *m, struct lh_m_program *p, const Leasehold__Acquire *a,
    const struct lh_m_name *n)
{
    Leasehold__LeaseAnswer answer = LEASEHOLD__LEASE_ANSWER__INIT;
    Leasehold__Refused refused = LEASEHOLD__REFUSED__INIT;

    refused.id = a->id;
    refused.name = a->name;
    refused.error = lh_m_wire_error(LH_ERR_LEASE_HELD);
    refused.text = lh_m_programs_awaited(m) ? "sessions of before this master's start are awaited"
                   : m->locks.cold ? "this master has just started, and waits for chunkservers"
                                   : "somebody else has the lock, or waits for it";
    refused.left_ms = lh_m_lock_left_ms(m, n);
    answer.answer_case = LEASEHOLD__LEASE_ANSWER__ANSWER_REFUSED;
    answer.refused = &refused;
    lh_m_reply_answer(m, p, &answer);
}

static bool remembered(const Leasehold__Acquire *a)
{
    return a->mode == LEASEHOLD__LOCK_MODE__SHARED || a->recallable || a->info.len > 0;
}

/* At once, if nobody waits who can be granted. */
static bool take_at_once(
    struct lh_master *m, struct lh_m_program *p, struct lh_m_name *n, const Leasehold__Acquire *a)
{
    bool shared = a->mode == LEASEHOLD__LOCK_MODE__SHARED;
    const struct lh_m_lock_state *g = n->more->lock_state;
    struct lh_m_lock_request *c = NULL;
    uint64_t tenure;

    if (g != NULL && !RB_EMPTY(&g->queue) && !(shared && LH_PLANTED("shared-starves-exclusive")))
        return false;
    if (!lh_m_program_reachable(m, p) || !is_free_for(m, n, shared, a->slots, &tenure))
        return false;
    if (remembered(a))
        c = lh_m_lock_request_new(m, n, p, shared, a->slots, a->recallable, &a->info);
    if (give(m, n, p, shared, tenure, a->id, c))
        return true;
    if (c != NULL)
        lh_m_lock_request_free(m, c);
    return false;
}

static void wait_for(
    struct lh_master *m, struct lh_m_program *p, struct lh_m_name *n, const Leasehold__Acquire *a)
{
    struct lh_m_lock_request *c = lh_m_lock_request_new(
        m, n, p, a->mode == LEASEHOLD__LOCK_MODE__SHARED, a->slots, a->recallable, &a->info);

    lh_m_lock_request_waits(m, c, a->id, m->term << COUNTER_BITS | ++m->locks.queued);
    m->counts.locks_queued++;
    c->noted = lh_m_note_due(m, p);
    if (c->noted)
        lh_m_note_lock(
            m, n, p, LEASEHOLD__LEASE_EVENT_KIND__LEASE_QUEUED, 0, c->shared ? "shared" : NULL);
    lh_m_reply_queued(m, p, a->id, c->number, c->lock_state->waiting - 1);
}

void lh_m_lock_acquire(struct lh_master *m, struct lh_m_program *p, const Leasehold__Acquire *a)
{
    char text[LH_TEXT_BYTES];
    struct lh_lease_info own;
    int error = check(m, p, a, text, sizeof text);

    if (error != LH_OK) {
        lh_m_reply_refused(m, p, a->id, a->name, error, text);
        return;
    }
    struct lh_m_name *n = lh_m_name_get(m, a->name);
    m->locks.in_hand = n;
    lh_untracked_collect(&m->leases, &p->session.client, lh_m_lock_key(n));
    if (lh_untracked_find(&m->leases, &p->session.client, lh_m_lock_key(n), &own))
        lh_m_reply_refused(m, p, a->id, a->name, LH_ERR_ALREADY_EXISTS,
            "this session has the lock already: release it first, to change its mode, too");
    else if (lh_m_lock_request_of(n, p) != NULL &&
             lh_m_lock_request_of(n, p)->state == LH_M_LOCK_REQUEST_WAITS)
        lh_m_reply_refused(
            m, p, a->id, a->name, LH_ERR_ALREADY_EXISTS, "this session waits for the lock already");
    else if (take_at_once(m, p, n, a))
        ;
    else if (a->no_wait)
        refuse_held(m, p, a, n);
    else
        wait_for(m, p, n, a);
    m->locks.in_hand = NULL;
    lh_m_lock_touch(m, n);
}

/* Whoever can be granted is, in order; for the first one that cannot the holders are asked. False:
 * there is more to do. */
static bool advance(struct lh_master *m, struct lh_m_lock_state *g, size_t *work)
{
    struct lh_m_lock_request *c;
    uint64_t tenure;

    while ((c = RB_MIN(lh_m_queue, &g->queue)) != NULL) {
        if (*work == 0)
            return false;
        --*work;
        if (!lh_m_program_reachable(m, c->program)) {
            LH_MARK("unreachable-request-passed-over");
            lh_m_locks_park(m, c->program);
            continue;
        }
        if (!is_free_for(m, g->name, c->shared, c->slots, &tenure))
            break;
        if (!give(m, g->name, c->program, c->shared, tenure, c->id, c))
            break;
        LH_MARK("lock-handed-over");
    }
    if (!lh_m_ask_some(m, g, work))
        return false;
    if (c != NULL && !lh_m_programs_awaited(m))
        lh_m_recall_for(m, g);
    return lh_m_ask_some(m, g, work);
}

static void go_on(void *core, struct lh_timer *timer)
{
    (void)core;
    (void)timer; /* the step's end does it */
}

void lh_m_locks_step(struct lh_master *m)
{
    struct lh_m_lock_state *g;
    size_t work = (size_t)m->config.step_work + 1; /* of the first name one request at least */

    if (m->stopping || lh_m_programs_awaited(m) || m->locks.cold)
        return; /* PS-3, NL-2a; all of it is looked at then */
    while ((g = TAILQ_FIRST(&m->locks.work)) != NULL && work > 0) {
        struct lh_m_name *n = g->name;
        m->locks.in_hand = n;
        work--;
        lh_m_cancels_look(m, g);
        bool done = advance(m, g, &work);
        m->locks.in_hand = NULL;
        TAILQ_REMOVE(&m->locks.work, g, work_link);
        if (!done) { /* after the others */
            TAILQ_INSERT_TAIL(&m->locks.work, g, work_link);
            continue;
        }
        g->works = false;
        if (RB_EMPTY(&g->queue) && TAILQ_EMPTY(&g->cancels))
            lh_m_lock_touch(m, n);
    }
    if (!TAILQ_EMPTY(&m->locks.work))
        lh_timer_set(&m->timers, &m->locks.work_timer, m->now);
}

void lh_m_locks_all_back(struct lh_master *m)
{
    lh_timer_set(&m->timers, &m->locks.work_timer, m->now);
}

void lh_m_locks_park(struct lh_master *m, struct lh_m_program *p)
{
    struct lh_m_lock_request *c;

    if (p->parked)
        return;
    p->parked = true;
    RB_FOREACH(c, lh_m_lock_requests, &p->requests) {
        lh_m_lock_request_queue(c, false);
        lh_m_lock_touch(m, c->lock_state->name); /* another one may be first now */
    }
}

void lh_m_locks_unpark(struct lh_master *m, struct lh_m_program *p)
{
    struct lh_m_lock_request *c;

    if (!p->parked)
        return;
    p->parked = false;
    RB_FOREACH(c, lh_m_lock_requests, &p->requests) {
        lh_m_lock_request_queue(c, true);
        lh_m_lock_touch(m, c->lock_state->name);
    }
}

bool lh_m_lock_in_force(const struct lh_master *m, const char *name, uint64_t token)
{
    const struct lh_m_name *n = lh_m_name_find(m, name);
    struct lh_lease_info info;

    return n != NULL && lh_grantor_find(m->leases.engine, lh_m_lock_key(n), m->now, &info) &&
           info.version == token;
}

void lh_m_locks_start(struct lh_master *m)
{
    if (m->term > UINT64_MAX >> COUNTER_BITS)
        lh_fx_log(m->fx, LH_ERROR,
            "no locks are granted: tokens have room for %" PRIu64
            " reigns, and this is reign %" PRIu64,
            UINT64_MAX >> COUNTER_BITS, m->term);
}

void lh_m_locks_init(struct lh_master *m)
{
    TAILQ_INIT(&m->locks.work);
    m->locks.work_timer.fire = go_on;
}

void lh_m_locks_deinit(struct lh_master *m)
{
    struct lh_m_cancel *cancel;
    struct lh_m_program *p;
    struct lh_m_lock_request *c;
    struct lh_m_name *n;

    RB_FOREACH(p, lh_m_programs, &m->programs.tree) {
        RB_INIT(&p->requests);
    }
    RB_FOREACH(n, lh_m_name_tree, &m->names.tree) {
        struct lh_m_lock_state *g = n->more->lock_state;
        while (g != NULL && (cancel = TAILQ_FIRST(&g->cancels)) != NULL) {
            TAILQ_REMOVE(&g->cancels, cancel, place);
            lh_m_cancel_free(m, cancel);
        }
        while (g != NULL && (c = RB_ROOT(&g->requests)) != NULL) {
            RB_REMOVE(lh_m_lock_requests_here, &g->requests, c);
            free(c);
        }
        free(g == NULL ? NULL : g->why);
        free(g);
    }
}
