/* A name whose value changes, from the first change that waits to the end of the last (VAL-2). */
#include "lease/term.h"
#include "master/sessions/sessions.h"
#include "master/values/internal.h"
#include "master/values/lookups.h"

/* ---- Its life. */

static struct lh_m_pending_changes *of_timer(struct lh_timer *timer)
{
    return LH_OWNER(timer, struct lh_m_pending_changes, timer);
}

static void promise_over(void *core, struct lh_timer *timer)
{
    lh_m_pending_changes_work(core, of_timer(timer));
}

static uint64_t next_number(struct lh_master *m)
{
    return m->term << 40 | ++m->value_state->last_number;
}

static struct lh_m_pending_changes *begin(struct lh_master *m, struct lh_m_name *name)
{
    struct lh_m_pending_changes *g = lh_alloc(sizeof *g);

    g->name = name;
    g->number = next_number(m);
    g->since = m->now;
    g->timer.fire = promise_over;
    TAILQ_INIT(&g->changes);
    STAILQ_INIT(&g->reads);
    lh_m_name_more(name)->changing = g;
    TAILQ_INSERT_TAIL(&m->value_state->all, g, all_link);
    lh_m_broadcast_pending(m, name->text, 1);
    return g;
}

void lh_m_pending_changes_free(struct lh_master *m, struct lh_m_pending_changes *g)
{
    struct lh_m_waiting_read *r;
    struct lh_m_change *c;

    while ((c = TAILQ_FIRST(&g->changes)) != NULL)
        lh_m_change_free(m, c);
    while ((r = STAILQ_FIRST(&g->reads)) != NULL) {
        STAILQ_REMOVE_HEAD(&g->reads, next);
        m->value_state->read_count--;
        free(r);
    }
    if (g->in_work)
        TAILQ_REMOVE(&m->value_state->work, g, work_link);
    if (g->phase == LH_M_COMMITTED)
        TAILQ_REMOVE(&m->value_state->committed, g, committed_link);
    TAILQ_REMOVE(&m->value_state->all, g, all_link);
    lh_timer_unset(&m->timers, &g->timer);
    lh_m_name_more(g->name)->changing = NULL;
    free(g);
}

static void end(struct lh_master *m, struct lh_m_pending_changes *g)
{
    struct lh_m_name *name = g->name;

    lh_m_pending_changes_free(m, g);
    lh_m_broadcast_pending(m, name->text, -1);
    lh_m_name_settle(m, name);
}

void lh_m_pending_changes_work(struct lh_master *m, struct lh_m_pending_changes *g)
{
    if (!g->in_work)
        TAILQ_INSERT_TAIL(&m->value_state->work, g, work_link);
    g->in_work = true;
}

void lh_m_change_add(struct lh_master *m, struct lh_m_name *name, struct lh_m_change *c)
{
    struct lh_m_pending_changes *g = name->more->changing;

    if (g == NULL)
        g = begin(m, name);
    else
        LH_MARK("change-waits-behind-another");
    c->changing = g;
    TAILQ_INSERT_TAIL(&g->changes, c, link);
    g->change_count++;
    m->value_state->change_count++;
    if (c->carry_out == NULL)
        c->size = c->bytes.size;
    m->value_state->change_bytes += c->size;
    m->value_state->follow_count += c->follows;
    lh_m_pending_changes_work(m, g);
}

void lh_m_change_free(struct lh_master *m, struct lh_m_change *c)
{
    struct lh_m_pending_changes *g = c->changing;

    TAILQ_REMOVE(&g->changes, c, link);
    g->change_count--;
    m->value_state->change_count--;
    m->value_state->change_bytes -= c->size;
    m->value_state->follow_count -= c->follows;
    lh_timer_unset(&m->timers, &c->timer);
    lh_m_pending_forget(m, &c->call);
    lh_buf_clear(&c->bytes);
    if (c->request != NULL)
        protobuf_c_message_free_unpacked(c->request, NULL);
    free(c->lock);
    free(c);
}

/* ---- (3): caches are told to drop the value. */

void lh_m_notify_drop(
    struct lh_master *m, struct lh_m_program *p, const struct lh_m_pending_changes *g)
{
    Leasehold__LeaseAnswer answer = LEASEHOLD__LEASE_ANSWER__INIT;
    Leasehold__Drop drop = LEASEHOLD__DROP__INIT;

    if (!p->back)
        return; /* it has given up its last stream, and shows what it has on the next one */
    drop.name = g->name->text;
    drop.change = g->number;
    answer.answer_case = LEASEHOLD__LEASE_ANSWER__ANSWER_DROP;
    answer.drop = &drop;
    m->counts.caches_dropped++;
    lh_m_reply_answer(m, p, &answer);
}

/* True: all caches were told. One name has its share of a step, so that others are not kept
 * waiting. */
static bool tell_caches(struct lh_master *m, struct lh_m_pending_changes *g)
{
    struct lh_lease_info info;

    for (uint32_t i = 0; !g->all_notified && i < m->config.drops_step; i++) {
        if (i > 0 && m->value_state->left.work == 0)
            return false;
        g->all_notified =
            !lh_grantor_cut_next(m->leases.engine, lh_m_cache_key(g->name), m->now, &info);
        if (g->all_notified)
            break;
        LH_MARK("cache-told-to-drop");
        g->awaited = lh_instant_max(g->awaited, info.end);
        lh_m_spend(m->value_state);
        lh_m_notify_drop(m, lh_m_client_program(info.context), g);
    }
    return g->all_notified;
}

/* A share of the time that the change has waited: so the promise delays it by no more than that,
 * and never beyond the end of the longest lease that it had to wait for. */
struct lh_duration lh_m_pending_changes_promise(
    struct lh_master *m, const struct lh_m_program *p, struct lh_m_pending_changes *g)
{
    uint64_t waited = lh_instant_until(g->since, m->now).ns;
    struct lh_duration share = {waited / 100 * m->config.change_promise_percent};
    struct lh_instant received_at = p->session.client.received_at;

    if (g->phase != LH_M_DROPPING || !g->all_notified || g->name->caches == 0)
        return lh_nanoseconds(0);
    if (LH_PLANTED("promise-outlives-awaited-leases"))
        return lh_duration_add(p->term, lh_instant_until(received_at, m->now));
    struct lh_instant end = lh_instant_min(lh_instant_add(m->now, share), g->awaited);
    /* The end that TIME-4 gives to this term is `end`. */
    uint64_t margin =
        lh_instant_until(received_at, lh_term_grantor_end(received_at, lh_nanoseconds(0))).ns;
    uint64_t term = lh_instant_until(received_at, end).ns;
    if (!lh_instant_before(m->now, end) || term <= margin)
        return lh_nanoseconds(0);
    LH_MARK("old-value-promised-while-changing");
    g->promised = lh_instant_max(g->promised, end);
    return lh_nanoseconds(term - margin);
}

static bool promise_runs(struct lh_master *m, struct lh_m_pending_changes *g)
{
    if (lh_instant_reached(m->now, g->promised))
        return false;
    LH_MARK("change-waits-for-promise");
    lh_timer_set(&m->timers, &g->timer, g->promised);
    return true;
}

/* ---- (4): nobody caches the value. */

static bool sessions_awaited(const struct lh_master *m, const struct lh_m_pending_changes *g)
{
    if (lh_m_is_lookup(g->name->text))
        return lh_m_lookups_awaited(m) && !LH_PLANTED("path-changes-before-all-back");
    return lh_m_programs_awaited(m) && !LH_PLANTED("change-before-all-back");
}

static bool must_wait(struct lh_master *m, struct lh_m_pending_changes *g)
{
    struct lh_instant promised = lh_m_broadcast_promised(m, g->name->text);

    if (sessions_awaited(m, g)) {
        LH_MARK("change-waits-for-sessions");
        return true; /* lh_m_values_all_back() */
    }
    if (!lh_instant_reached(m->now, promised)) {
        LH_MARK("change-waits-for-broadcast");
        lh_timer_set(&m->timers, &g->timer, promised);
        return true;
    }
    return false;
}

/* This step's commit changes it. `revision` 0: it is a lookup. */
static void committed(
    struct lh_master *m, struct lh_m_pending_changes *g, uint64_t revision, size_t size)
{
    g->revision = revision;
    g->ticket = m->commit.next_ticket;
    g->phase = LH_M_COMMITTED;
    TAILQ_INSERT_TAIL(&m->value_state->committed, g, committed_link);
    m->value_state->left.commits--;
    m->value_state->left.bytes -=
        size < m->value_state->left.bytes ? (uint32_t)size : m->value_state->left.bytes;
}

/* False: it was refused. Either way it is gone. */
static bool commit(struct lh_master *m, struct lh_m_pending_changes *g, struct lh_m_change *c)
{
    char text[LH_TEXT_BYTES];
    size_t size = c->size;

    if (c->carry_out != NULL) {
        if (!lh_m_path_carry_out(m, c))
            return false;
        committed(m, g, 0, size);
        return true;
    }
    int error = lh_m_change_judge(m, g->name, c, text, sizeof text);
    if (error != LH_OK) {
        lh_m_change_refuse(m, c, error, text);
        return false;
    }
    committed(m, g, lh_m_change_apply(m, g->name, c), size);
    lh_m_change_free(m, c);
    return true;
}

static void change(struct lh_master *m, struct lh_m_pending_changes *g)
{
    struct lh_m_change *c;

    while ((c = TAILQ_FIRST(&g->changes)) != NULL)
        if (commit(m, g, c))
            return;
    end(m, g);
}

static void advance_dropping(struct lh_master *m, struct lh_m_pending_changes *g)
{
    if (!tell_caches(m, g)) {
        lh_m_pending_changes_work(m, g);
        return;
    }
    if (g->name->caches > 0 &&
        !(lh_m_is_lookup(g->name->text) ? LH_PLANTED("path-changes-before-lookups-dropped")
                                        : LH_PLANTED("change-before-caches-gone")))
        return; /* lh_m_value_dropped(), lh_m_cache_leases */
    if (promise_runs(m, g))
        return;
    if (TAILQ_EMPTY(&g->changes))
        end(m, g);
    else if (!must_wait(m, g))
        change(m, g);
}

/* ---- (5): it is durable. */

static struct lh_m_program *program_on(const struct lh_master *m, uint64_t link)
{
    const struct lh_m_link *l = lh_m_stream(m, link);

    if (l == NULL || l->kind != LH_M_PROGRAM || l->session == NULL || l->session->link != link)
        return NULL;
    return lh_m_session_program(l->session);
}

static void answer_reads(struct lh_master *m, struct lh_m_pending_changes *g)
{
    Leasehold__ReadValue asked = LEASEHOLD__READ_VALUE__INIT;
    struct lh_m_waiting_read *r;

    asked.name = g->name->text;
    for (uint32_t i = 0; i < m->config.drops_step && (i == 0 || m->value_state->left.work > 0) &&
                         (r = STAILQ_FIRST(&g->reads)) != NULL;
         i++) {
        struct lh_m_program *p = program_on(m, r->link);
        STAILQ_REMOVE_HEAD(&g->reads, next);
        m->value_state->read_count--;
        lh_m_spend(m->value_state);
        asked.id = r->id;
        asked.revision = r->revision;
        asked.lease = r->lease;
        if (p != NULL && p->back)
            lh_m_answer_read(m, p, &asked, g->name);
        free(r);
    }
}

static void advance_answering(struct lh_master *m, struct lh_m_pending_changes *g)
{
    answer_reads(m, g);
    if (!STAILQ_EMPTY(&g->reads)) {
        lh_m_pending_changes_work(m, g);
        return;
    }
    if (TAILQ_EMPTY(&g->changes)) {
        end(m, g);
        return;
    }
    g->phase = LH_M_DROPPING;
    g->number = next_number(m);
    g->since = m->now;
    g->awaited = (struct lh_instant){0};
    g->all_notified = false;
    advance_dropping(m, g);
}

void lh_m_pending_changes_durable(struct lh_master *m)
{
    struct lh_m_pending_changes *g;
    bool changed = false;

    while ((g = TAILQ_FIRST(&m->value_state->committed)) != NULL && lh_m_is_durable(m, g->ticket)) {
        TAILQ_REMOVE(&m->value_state->committed, g, committed_link);
        g->phase = LH_M_ANSWERING;
        lh_m_pending_changes_work(m, g);
        if (g->revision == 0)
            continue;
        m->value_state->durable = g->revision;
        lh_m_broadcast_changed(m, g->name->text, g->revision);
        changed = true;
    }
    if (changed)
        lh_m_watch_wake(m);
}

/* ---- Work. */

static void late_drops(struct lh_master *m)
{
    struct lh_m_late_drop *d;

    while (
        m->value_state->left.work > 0 && (d = STAILQ_FIRST(&m->value_state->late_drops)) != NULL) {
        struct lh_m_program *p = program_on(m, d->link);
        const struct lh_m_name *name = lh_m_name_by_number(m, d->name);
        const struct lh_m_pending_changes *g = lh_m_pending_changes_of(name);
        STAILQ_REMOVE_HEAD(&m->value_state->late_drops, next);
        m->value_state->late_drop_count--;
        lh_m_spend(m->value_state);
        if (p != NULL && g != NULL && g->phase == LH_M_DROPPING)
            lh_m_notify_drop(m, p, g);
        free(d);
    }
}

void lh_m_pending_changes_step(struct lh_master *m)
{
    struct lh_m_value_state *v = m->value_state;
    struct lh_m_pending_changes *g;

    late_drops(m);
    while (v->left.work > 0 && v->left.commits > 0 && v->left.bytes > 0 &&
           (g = TAILQ_FIRST(&v->work)) != NULL) {
        TAILQ_REMOVE(&v->work, g, work_link);
        g->in_work = false;
        if (g->phase == LH_M_DROPPING)
            advance_dropping(m, g);
        else if (g->phase == LH_M_ANSWERING)
            advance_answering(m, g);
        lh_m_spend(v);
    }
}
