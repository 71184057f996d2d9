/* Asking holders for their locks, and what they answer (NL-4). */
#include "base/alloc.h"
#include "lease/term.h"
#include "master/locks/internal.h"
#include "master/tables/answers.h"

void lh_m_notify_demand(struct lh_master *m, struct lh_m_program *p, const struct lh_m_name *n,
    uint64_t token, bool cancel, uint64_t waiting, const char *why)
{
    Leasehold__LeaseAnswer answer = LEASEHOLD__LEASE_ANSWER__INIT;
    Leasehold__Demand demand = LEASEHOLD__DEMAND__INIT;

    demand.name = (char *)(uintptr_t)n->text;
    demand.token = token;
    demand.cancel = cancel;
    demand.waiting = waiting;
    demand.why = (char *)(uintptr_t)why;
    answer.answer_case = LEASEHOLD__LEASE_ANSWER__ANSWER_DEMAND;
    answer.demand = &demand;
    lh_m_reply_answer(m, p, &answer);
}

/* Is the lock one that nobody has asked back yet, or whose end nobody has named? */
static bool is_to_be_asked(
    const struct lh_master *m, const struct lh_m_lock_request *c, uint64_t *token)
{
    struct lh_lease_info info;

    if (!c->recallable || c->program->out.held ||
        !lh_untracked_find(
            &m->leases, &c->program->session.client, lh_m_lock_key(c->lock_state->name), &info) ||
        info.own_end.ns != UINT64_MAX)
        return false;
    *token = info.version;
    return true;
}

static void ask(struct lh_master *m, struct lh_m_lock_state *g, struct lh_m_lock_request *c)
{
    uint64_t token;

    if (!is_to_be_asked(m, c, &token))
        return;
    LH_MARK("lock-recalled");
    c->recalled = true;
    c->refused = false;
    c->recalled_at = g->recalled_at = m->now;
    m->counts.locks_recalled++;
    lh_m_note_lock(
        m, g->name, c->program, LEASEHOLD__LEASE_EVENT_KIND__LEASE_RECALLED, token, NULL);
    lh_m_notify_demand(m, c->program, g->name, token, false, g->waiting, "");
}

void lh_m_ask_all(struct lh_m_lock_state *g, const char *why)
{
    g->round++;
    g->asking = true;
    if (why == NULL)
        return;
    g->cutting = true;
    free(g->why);
    g->why = lh_strdup(why);
}

bool lh_m_ask_some(struct lh_master *m, struct lh_m_lock_state *g, size_t *work)
{
    struct lh_m_lock_request *c;

    while (g->asking) {
        c = TAILQ_FIRST(&g->holders);
        if (c == NULL || c->round == g->round || (RB_EMPTY(&g->queue) && !g->cutting)) {
            g->asking = g->cutting = false;
            break;
        }
        if (*work == 0)
            return false;
        c->round = g->round;
        TAILQ_REMOVE(&g->holders, c, turn);
        TAILQ_INSERT_TAIL(&g->holders, c, turn);
        --*work;
        if (g->cutting)
            lh_m_lock_cut(m, g->name, c->program, g->why);
        else
            ask(m, g, c);
    }
    return true;
}

/* On the first conflict, and again when another request is the first that waits: not more often
 * than `recall_pause`, since a holder may have reason to keep its lock. */
void lh_m_recall_for(struct lh_master *m, struct lh_m_lock_state *g)
{
    const struct lh_m_lock_request *head = RB_MIN(lh_m_queue, &g->queue);

    /* Thousands may wait: who holds is not looked for in vain at each release. */
    if (g->recallable == 0 || g->asking || head->number == g->recalled_for ||
        lh_m_policy_of(m, g->name->text)->no_recall)
        return;
    struct lh_instant next = lh_instant_add(g->recalled_at, m->config.recall_pause);
    if (g->recalled_at.ns != 0 && lh_instant_before(m->now, next)) {
        lh_timer_set(&m->timers, &g->recall_timer, next);
        return;
    }
    g->recalled_for = head->number;
    lh_m_ask_all(g, NULL);
}

void lh_m_lock_yield(struct lh_master *m, struct lh_m_program *p, const Leasehold__Yield *yield)
{
    struct lh_m_name *n = lh_m_name_find(m, yield->name);
    struct lh_lease_info info;
    struct lh_m_lock_request *c;

    if (n == NULL || !lh_untracked_find(&m->leases, &p->session.client, lh_m_lock_key(n), &info) ||
        info.version != yield->token) {
        lh_m_reply_refused(m, p, 0, yield->name, LH_ERR_NOT_LEASED,
            "this session has no lock on the name with that token");
        return;
    }
    /* A program can say either as often as it likes; among the events are a recall's first refusal
     * and a lock's first yield. */
    if (yield->refuse) {
        c = lh_m_lock_request_of(n, p);
        if (c == NULL)
            return;
        if (c->recalled && !c->refused)
            lh_m_note_lock(m, n, p, LEASEHOLD__LEASE_EVENT_KIND__LEASE_KEPT, yield->token, NULL);
        c->refused = true;
        return;
    }
    if (info.own_end.ns == UINT64_MAX)
        lh_m_note_lock(m, n, p, LEASEHOLD__LEASE_EVENT_KIND__LEASE_YIELDED, yield->token, NULL);
    LH_MARK("lock-yielded");
    if (LH_PLANTED("cut-lease-renewed"))
        return;
    struct lh_duration wait =
        lh_term_for_grantor(lh_milliseconds(yield->in_ms), m->config.drift_ppm);
    int error = lh_untracked_cut(&m->leases, &p->session.client, lh_m_lock_key(n),
        lh_term_grantor_end(m->now, wait)); /* TIME-4 */
    LH_ASSERT(error == LH_OK);
    lh_m_lock_happened(m, n, p, LEASEHOLD__LOCK_EVENT_KIND__LOCK_CUT, info.version);
}
