/* The records of locks: requests that wait, and what is remembered of those that hold. */
#include "master/locks/internal.h"

#include <stddef.h>

int lh_m_compare_ids(const struct lh_m_lock_request *a, const struct lh_m_lock_request *b)
{
    return (a->id > b->id) - (a->id < b->id);
}

int lh_m_compare_holders(const struct lh_m_lock_request *a, const struct lh_m_lock_request *b)
{
    return lh_m_compare_programs(a->program, b->program);
}

/* Only programs that make numbers up have the same one. */
int lh_m_compare_numbers(const struct lh_m_lock_request *a, const struct lh_m_lock_request *b)
{
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return lh_m_compare_programs(a->program, b->program);
}

int lh_m_compare_slots(const struct lh_m_lock_request *a, const struct lh_m_lock_request *b)
{
    if (a->slots != b->slots)
        return a->slots < b->slots ? -1 : 1;
    return lh_m_compare_programs(a->program, b->program);
}

RB_GENERATE(lh_m_lock_requests, lh_m_lock_request, by_id, lh_m_compare_ids)
RB_GENERATE(lh_m_lock_requests_here, lh_m_lock_request, by_program, lh_m_compare_holders)
RB_GENERATE(lh_m_queue, lh_m_lock_request, by_number, lh_m_compare_numbers)
RB_GENERATE(lh_m_slotted, lh_m_lock_request, by_slots, lh_m_compare_slots)

static void recall_again(void *core, struct lh_timer *timer)
{
    struct lh_m_lock_state *g = LH_OWNER(timer, struct lh_m_lock_state, recall_timer);

    lh_m_lock_touch(core, g->name);
}

struct lh_m_lock_state *lh_m_lock_state_get(struct lh_master *m, struct lh_m_name *n)
{
    struct lh_m_lock_state *g = n->more->lock_state;

    (void)m;
    if (g != NULL)
        return g;
    g = lh_alloc(sizeof *g);
    g->name = n;
    RB_INIT(&g->requests);
    RB_INIT(&g->queue);
    RB_INIT(&g->slotted);
    TAILQ_INIT(&g->holders);
    TAILQ_INIT(&g->cancels);
    g->recall_timer.fire = recall_again;
    lh_m_name_more(n)->lock_state = g;
    return g;
}

struct lh_m_lock_request *lh_m_lock_request_of(
    const struct lh_m_name *n, const struct lh_m_program *p)
{
    struct lh_m_lock_request key = {.program = (struct lh_m_program *)(uintptr_t)p};

    return n->more->lock_state == NULL
               ? NULL
               : RB_FIND(lh_m_lock_requests_here, &n->more->lock_state->requests, &key);
}

struct lh_m_lock_request *lh_m_lock_request_by_id(const struct lh_m_program *p, uint64_t id)
{
    struct lh_m_lock_request key = {.id = id};

    return RB_FIND(lh_m_lock_requests, (struct lh_m_lock_requests *)(uintptr_t)&p->requests, &key);
}

struct lh_m_lock_request *lh_m_lock_request_new(struct lh_master *m, struct lh_m_name *n,
    struct lh_m_program *p, bool shared, uint32_t slots, bool recallable,
    const ProtobufCBinaryData *info)
{
    struct lh_m_lock_request *c = lh_alloc(offsetof(struct lh_m_lock_request, info) + info->len);

    c->lock_state = lh_m_lock_state_get(m, n);
    c->program = p;
    c->shared = shared;
    c->slots = shared ? slots : 0;
    c->recallable = recallable;
    c->since = m->now;
    c->info_size = (uint16_t)info->len;
    if (info->len > 0)
        memcpy(c->info, info->data, info->len);
    RB_INSERT(lh_m_lock_requests_here, &c->lock_state->requests, c);
    return c;
}

void lh_m_lock_request_queue(struct lh_m_lock_request *c, bool in)
{
    if (in == c->queued)
        return;
    if (in)
        RB_INSERT(lh_m_queue, &c->lock_state->queue, c);
    else
        RB_REMOVE(lh_m_queue, &c->lock_state->queue, c);
    c->queued = in;
}

void lh_m_lock_request_waits(
    struct lh_master *m, struct lh_m_lock_request *c, uint64_t id, uint64_t number)
{
    c->state = LH_M_LOCK_REQUEST_WAITS;
    c->id = id;
    c->number = number;
    RB_INSERT(lh_m_lock_requests, &c->program->requests, c);
    c->program->request_count++;
    c->lock_state->waiting++;
    m->locks.waiting++;
    lh_m_lock_request_queue(c, !c->program->parked);
}

static void waits_no_longer(struct lh_master *m, struct lh_m_lock_request *c)
{
    lh_m_lock_request_queue(c, false);
    RB_REMOVE(lh_m_lock_requests, &c->program->requests, c);
    c->program->request_count--;
    c->lock_state->waiting--;
    m->locks.waiting--;
    lh_m_program_settle(m, c->program);
}

void lh_m_lock_request_holds(struct lh_master *m, struct lh_m_lock_request *c)
{
    if (c->state == LH_M_LOCK_REQUEST_WAITS)
        waits_no_longer(m, c);
    c->state = LH_M_LOCK_REQUEST_HELD;
    c->since = m->now;
    TAILQ_INSERT_TAIL(&c->lock_state->holders, c, turn);
    c->lock_state->recallable += c->recallable;
    c->lock_state->sharers += c->shared;
    if (c->slots != 0)
        RB_INSERT(lh_m_slotted, &c->lock_state->slotted, c);
}

static void holds_no_longer(struct lh_m_lock_request *c)
{
    struct lh_m_lock_state *g = c->lock_state;

    TAILQ_REMOVE(&g->holders, c, turn);
    g->recallable -= c->recallable;
    g->sharers -= c->shared;
    if (c->slots != 0)
        RB_REMOVE(lh_m_slotted, &g->slotted, c);
}

void lh_m_lock_request_free(struct lh_master *m, struct lh_m_lock_request *c)
{
    struct lh_m_lock_state *g = c->lock_state;

    RB_REMOVE(lh_m_lock_requests_here, &g->requests, c);
    if (c->state == LH_M_LOCK_REQUEST_WAITS)
        waits_no_longer(m, c);
    else if (c->state == LH_M_LOCK_REQUEST_HELD)
        holds_no_longer(c);
    free(c);
}

/* Frees what is empty. */
static void settle(struct lh_master *m, struct lh_m_name *n)
{
    struct lh_m_lock_state *g = n->more->lock_state;

    if (n == m->locks.in_hand)
        return;
    if (g != NULL && RB_EMPTY(&g->requests) && TAILQ_EMPTY(&g->cancels)) {
        if (g->works)
            TAILQ_REMOVE(&m->locks.work, g, work_link);
        lh_timer_unset(&m->timers, &g->recall_timer);
        free(g->why);
        free(g);
        lh_m_name_more(n)->lock_state = NULL;
    }
    lh_m_name_settle(m, n);
}

void lh_m_lock_touch(struct lh_master *m, struct lh_m_name *n)
{
    struct lh_m_lock_state *g = n->more->lock_state;
    bool cuts = g != NULL && g->cutting && !TAILQ_EMPTY(&g->holders);

    if (g == NULL || (RB_EMPTY(&g->queue) && TAILQ_EMPTY(&g->cancels) && !cuts)) {
        settle(m, n);
    } else if (!g->works) {
        g->works = true;
        TAILQ_INSERT_TAIL(&m->locks.work, g, work_link);
    }
}
