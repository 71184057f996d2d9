/* The finder's links, and who waits for what it finds. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/cluster.h"
#include "client/core/host/internal.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static struct lh_client_waiter *first_ready(const struct lh_client_host *c)
{
    return lh_client_active_ready(c) ? c->active.waiting : NULL;
}

/* A round without a result is repeated only for those who need one. */
static bool is_wanted(const struct lh_client_host *c)
{
    const struct lh_client_active *a = &c->active;

    return a->waiting != NULL || a->suspecting != NULL || a->moved != NULL;
}

static void set_timer(struct lh_client_host *c)
{
    struct lh_client_active *a = &c->active;
    struct lh_instant at =
        is_wanted(c) ? lh_finder_deadline(&a->finder) : lh_finder_late_at(&a->finder);

    if (first_ready(c) != NULL || a->moved != NULL)
        at = c->now;
    lh_timer_set(&c->timers, &a->timer, at);
}

static void enlist(struct lh_client_waiter *waiter, struct lh_client_waiter **list)
{
    waiter->list = list;
    DL_APPEND(*list, waiter);
}

/* One that doubts learns in which reign the choice acts. When its master was lost and found again,
 * in the same reign, a call that waits there stays; when it is another one, it goes there. */
static void judge(struct lh_client_active *a, struct lh_client_waiter *waiter)
{
    const struct lh_finder *f = &a->finder;

    if (waiter->choice != f->choices && f->choice_reign != 0 && waiter->reign == f->choice_reign &&
        strcmp(waiter->address, lh_finder_address(f)) == 0)
        waiter->choice = f->choices;
    if (waiter->choice == f->choices)
        waiter->reign = f->choice_reign;
    enlist(waiter, waiter->choice == f->choices ? &a->suspecting : &a->moved);
}

/* On a stream on which nothing is to be asked for seconds nobody notices that its master froze, and
 * at the next one others wait for what whoever has that stream may hold. */
static void move_attached(struct lh_client_active *a)
{
    const struct lh_finder *f = &a->finder;
    struct lh_client_waiter *waiter, *next;

    DL_FOREACH_SAFE(a->attached, waiter, next) {
        if (waiter->choice == f->choices) {
            waiter->reign = f->choice_reign;
        } else if (f->choice_reign > waiter->reign) {
            LH_MARK("quiet-stream-moves-to-another-master");
            DL_DELETE(a->attached, waiter);
            enlist(waiter, &a->moved);
        }
    }
}

/* All who doubt are looked at when the choice has changed, and at no other time: there may be
 * thousands of them, and each of their calls comes by here. */
static void keep_up(struct lh_client_host *c)
{
    struct lh_client_active *a = &c->active;
    struct lh_client_waiter *all = a->moved, *waiter;

    if (a->judged_choice == a->finder.choices && a->judged_reign == a->finder.choice_reign)
        return;
    a->judged_choice = a->finder.choices;
    a->judged_reign = a->finder.choice_reign;
    DL_CONCAT(all, a->suspecting);
    a->moved = a->suspecting = NULL;
    while ((waiter = all) != NULL) {
        DL_DELETE(all, waiter);
        judge(a, waiter);
    }
    if (!LH_PLANTED("quiet-stream-stays"))
        move_attached(a);
}

static void ask_at(struct lh_client_host *c, size_t place)
{
    struct lh_client_active *a = &c->active;
    Leasehold__MastersRequest request = LEASEHOLD__MASTERS_REQUEST__INIT;
    struct lh_link *link = &a->links[place];

    request.reign_heard = a->finder.reign;
    lh_link_open(&c->links, c->fx, link, LH_METHOD_MASTERS, lh_finder_address_at(&a->finder, place),
        a->finder.config.answer_timeout);
    lh_fx_send(c->fx, link->id, &request.base, NULL);
}

static void go_on(struct lh_client_host *c)
{
    struct lh_client_active *a = &c->active;
    size_t place;

    while (lh_finder_late(&a->finder, c->now, &place))
        lh_client_link_close(c, &a->links[place]);
    while ((is_wanted(c) && lh_finder_next(&a->finder, c->now, &place)) ||
           lh_finder_introduce(&a->finder, c->now, &place))
        ask_at(c, place);
    keep_up(c);
    set_timer(c);
}

/* Something is known: lets those go that may. */
static void wake(struct lh_client_host *c)
{
    struct lh_client_waiter *waiter;

    go_on(c);
    while ((waiter = c->active.moved) != NULL) {
        lh_client_active_leave(c, waiter);
        waiter->elsewhere(waiter);
    }
    while ((waiter = first_ready(c)) != NULL) {
        lh_client_active_leave(c, waiter);
        waiter->go_on(waiter);
    }
    set_timer(c);
}

static void timer_fires(void *core, struct lh_timer *timer)
{
    (void)timer;
    wake(core);
}

/* Whoever may not ask who acts may do nothing at the one that does (ACC-2). */
static void note_refusal(struct lh_client_active *a, const char *text)
{
    free(a->refused);
    a->refused = text == NULL ? NULL : lh_strdup(text);
}

static void answered(void *core, struct lh_link *link, const void *message, struct lh_buf *payload)
{
    struct lh_client_host *c = core;

    (void)payload;
    note_refusal(&c->active, NULL);
    lh_finder_answered(&c->active.finder, c->now, (size_t)(link - c->active.links), message);
    wake(c);
}

static void unanswered(void *core, struct lh_link *link, int error, const char *text)
{
    struct lh_client_host *c = core;

    if (error == LH_ERR_PERMISSION)
        note_refusal(&c->active, text);
    lh_finder_unanswered(&c->active.finder, c->now, (size_t)(link - c->active.links), error);
    wake(c);
}

static const struct lh_link_user round_links = {.message = answered, .closed = unanswered};

void lh_client_active_init(struct lh_client_host *c, const struct lh_client_config *config)
{
    struct lh_client_active *a = &c->active;

    lh_finder_init(
        &a->finder, &config->finder, config->cluster, config->masters, config->master_count, 0);
    a->timer.fire = timer_fires;
    for (size_t i = 0; i < LH_MASTERS_MAX; i++)
        a->links[i].user = &round_links;
}

void lh_client_active_stop(struct lh_client_host *c)
{
    LH_ASSERT(!is_wanted(c));
    lh_timer_unset(&c->timers, &c->active.timer);
    for (size_t i = 0; i < LH_MASTERS_MAX; i++)
        lh_client_link_close(c, &c->active.links[i]);
}

void lh_client_active_deinit(struct lh_client_host *c)
{
    lh_finder_deinit(&c->active.finder);
    free(c->active.refused);
}

void lh_client_active_check(const struct lh_client_host *c)
{
    const struct lh_client_active *a = &c->active;

    lh_finder_check(&a->finder);
    for (size_t i = 0; i < LH_MASTERS_MAX && !c->stopped; i++)
        LH_ASSERT((a->links[i].id != 0) == a->finder.masters[i].asked);
    LH_ASSERT(a->waiting == NULL || lh_timer_is_set(&a->timer));
    LH_ASSERT(a->moved == NULL || lh_timer_is_set(&a->timer));
    for (const struct lh_client_waiter *s = a->suspecting; s != NULL; s = s->next)
        LH_ASSERT(s->address != NULL && s->choice == a->finder.choices);
    for (const struct lh_client_waiter *s = a->moved; s != NULL; s = s->next)
        LH_ASSERT(s->address != NULL && s->choice != a->finder.choices);
    for (const struct lh_client_waiter *s = a->attached; s != NULL; s = s->next)
        LH_ASSERT(s->address != NULL);
    LH_ASSERT(first_ready(c) == NULL);
}

bool lh_client_active_ready(const struct lh_client_host *c)
{
    return c->active.finder.state != LH_FINDER_LOST;
}

void lh_client_active_choose(struct lh_client_host *c, struct lh_client_waiter *waiter)
{
    waiter->choice = c->active.finder.choices;
    waiter->reign = c->active.finder.choice_reign;
    free(waiter->address);
    waiter->address = lh_strdup(lh_finder_address(&c->active.finder));
}

void lh_client_active_asked(struct lh_client_host *c, struct lh_client_waiter *waiter)
{
    if (c->active.finder.wanted)
        lh_client_active_doubt(c, waiter);
}

void lh_client_active_wait(struct lh_client_host *c, struct lh_client_waiter *waiter)
{
    enlist(waiter, &c->active.waiting);
    go_on(c);
}

void lh_client_active_doubt(struct lh_client_host *c, struct lh_client_waiter *waiter)
{
    struct lh_client_active *a = &c->active;

    if (waiter->choice == a->finder.choices) {
        if (lh_finder_alone(&a->finder))
            return; /* nobody else could be found */
        lh_finder_doubt(&a->finder);
    }
    if (waiter->list == &a->attached)
        lh_client_active_leave(c, waiter);
    if (waiter->list == NULL)
        judge(a, waiter);
    go_on(c);
}

void lh_client_active_attached(struct lh_client_host *c, struct lh_client_waiter *waiter)
{
    if (waiter->list == &c->active.moved)
        return; /* whatever its last master says */
    lh_client_active_leave(c, waiter);
    enlist(waiter, &c->active.attached);
}

void lh_client_active_leave(struct lh_client_host *c, struct lh_client_waiter *waiter)
{
    (void)c;
    if (waiter->list == NULL)
        return;
    DL_DELETE(*waiter->list, waiter);
    waiter->list = NULL;
}

void lh_client_active_forget(struct lh_client_host *c, struct lh_client_waiter *waiter)
{
    lh_client_active_leave(c, waiter);
    free(waiter->address);
    waiter->address = NULL;
}

void lh_client_active_failed(
    struct lh_client_host *c, const struct lh_client_waiter *waiter, int error)
{
    lh_finder_failed(&c->active.finder, waiter->choice, error);
}

bool lh_client_active_moved(const struct lh_client_host *c, const struct lh_client_waiter *waiter)
{
    const struct lh_finder *f = &c->active.finder;

    return f->state == LH_FINDER_LOST || waiter->choice != f->choices;
}

/* The choice has answered. */
static void heard(struct lh_client_host *c)
{
    if (is_wanted(c) || c->active.finder.curious)
        wake(c);
}

bool lh_client_active_is_ours(
    struct lh_client_host *c, const struct lh_client_waiter *waiter, const char *cluster)
{
    return lh_finder_named(&c->active.finder, waiter->choice, cluster);
}

uint64_t lh_client_active_cluster(const struct lh_client_host *c)
{
    return LH_PLANTED("calls-name-no-cluster") ? 0 : lh_cluster_hash(c->active.finder.cluster);
}

void lh_client_active_acts(
    struct lh_client_host *c, const struct lh_client_waiter *waiter, uint64_t reign)
{
    lh_finder_acts(&c->active.finder, waiter->choice, reign);
    heard(c);
}

void lh_client_active_greeted(
    struct lh_client_host *c, struct lh_client_waiter *waiter, const Leasehold__Greeting *greeting)
{
    waiter->reign = greeting->reign;
    lh_finder_learn(&c->active.finder, waiter->choice, greeting->masters, greeting->n_masters);
    lh_client_active_acts(c, waiter, greeting->reign);
}

void lh_client_active_list(struct lh_client_host *c, struct lh_known_masters_call *call)
{
    call->count = 0;
    for (size_t i = 0; i < LH_MASTERS_MAX; i++)
        if (c->active.finder.masters[i].address != NULL)
            call->addresses[call->count++] = lh_strdup(lh_finder_address_at(&c->active.finder, i));
    lh_client_complete(c, &call->call, LH_OK, NULL);
}

void lh_client_active_answered(struct lh_client_host *c, const struct lh_client_waiter *waiter,
    enum lh_method method, const void *reply)
{
    struct lh_finder *f = &c->active.finder;
    uint64_t choice = waiter->choice;

    lh_finder_acts(f, choice, 0);
    if (method == LH_METHOD_OPEN_TAIL) {
        const Leasehold__OpenTailReply *m = reply;
        lh_finder_learn(f, choice, m->masters, m->n_masters);
    } else if (method == LH_METHOD_LOCATE) {
        const Leasehold__LocateReply *m = reply;
        lh_finder_learn(f, choice, m->masters, m->n_masters);
    }
    heard(c);
}
