/* The finder's links, and the requests that wait for what it finds. */
#include "client/core/active.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/ask.h"
#include "client/core/reply.h"
#include "client/core/state.h"
#include "proto/codec.h"

#include <string.h>
#include <utlist.h>

static struct lh_client_ask *first_ready(const struct lh_client *c)
{
    return lh_client_active_ready(c) ? c->active.waiting : NULL;
}

/* One that doubts while the choice is another one by now. */
static struct lh_client_ask *first_misled(const struct lh_client *c)
{
    struct lh_client_ask *ask = c->active.doubting;

    while (ask != NULL && ask->choice == c->active.finder.choices)
        ask = ask->next;
    return ask;
}

/* A round without a result is repeated only for those who need one. */
static bool is_wanted(const struct lh_client *c)
{
    return c->active.waiting != NULL || c->active.doubting != NULL;
}

static void set_timer(struct lh_client *c)
{
    struct lh_client_active *a = &c->active;
    struct lh_instant at =
        is_wanted(c) ? lh_finder_deadline(&a->finder) : lh_finder_late_at(&a->finder);

    if (first_ready(c) != NULL || first_misled(c) != NULL)
        at = c->now;
    lh_timer_set(&c->timers, &a->timer, at);
}

/* Whoever doubts the choice learns in which reign it acts. When it is lost and found again, in the
 * same reign, a call that waits there stays. */
static void keep_up(struct lh_client *c)
{
    const struct lh_finder *f = &c->active.finder;
    struct lh_client_ask *ask;

    DL_FOREACH(c->active.doubting, ask) {
        if (ask->choice != f->choices && f->choice_reign != 0 && ask->reign == f->choice_reign &&
            strcmp(ask->address, lh_finder_address(f)) == 0)
            ask->choice = f->choices;
        if (ask->choice == f->choices)
            ask->reign = f->choice_reign;
    }
}

static void go_on(struct lh_client *c)
{
    struct lh_client_active *a = &c->active;
    size_t place;

    while (lh_finder_late(&a->finder, c->now, &place))
        lh_client_link_close(c, &a->links[place].link);
    while (is_wanted(c) && lh_finder_next(&a->finder, c->now, &place)) {
        Leasehold__MastersRequest request = LEASEHOLD__MASTERS_REQUEST__INIT;
        struct lh_client_link *link = &a->links[place].link;
        lh_client_link_open(c, link, LH_METHOD_MASTERS, lh_finder_address_at(&a->finder, place),
            a->finder.config.answer_timeout);
        lh_fx_send(c->fx, link->id, &request.base, NULL);
    }
    keep_up(c);
    set_timer(c);
}

/* Something is known: lets those go that may. */
static void wake(struct lh_client *c)
{
    struct lh_client_ask *ask;

    go_on(c);
    while ((ask = first_misled(c)) != NULL) {
        lh_client_active_leave(c, ask);
        lh_client_ask_elsewhere(ask);
    }
    while ((ask = first_ready(c)) != NULL) {
        lh_client_active_leave(c, ask);
        lh_client_ask_go_on(ask);
    }
    set_timer(c);
}

static void timer_fires(void *core, struct lh_timer *timer)
{
    (void)timer;
    wake(core);
}

static void answered(void *owner, const void *message, struct lh_buf *payload)
{
    struct lh_client_active_link *l = owner;
    struct lh_client *c = l->client;

    (void)payload;
    lh_finder_answered(&c->active.finder, c->now, (size_t)(l - c->active.links), message, "");
    wake(c);
}

static void unanswered(void *owner, int error, const char *text)
{
    struct lh_client_active_link *l = owner;
    struct lh_client *c = l->client;

    (void)text;
    lh_finder_unanswered(&c->active.finder, c->now, (size_t)(l - c->active.links), error);
    wake(c);
}

void lh_client_active_init(struct lh_client *c, const struct lh_client_config *config)
{
    struct lh_client_active *a = &c->active;

    lh_finder_init(&a->finder, &config->finder, config->masters, config->master_count, 0);
    a->timer.fire = timer_fires;
    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        a->links[i].client = c;
        a->links[i].link = (struct lh_client_link){
            .owner = &a->links[i], .on_message = answered, .on_closed = unanswered};
    }
}

void lh_client_active_stop(struct lh_client *c)
{
    LH_ASSERT(!is_wanted(c));
    lh_timer_unset(&c->timers, &c->active.timer);
    for (size_t i = 0; i < LH_MASTERS_MAX; i++)
        lh_client_link_close(c, &c->active.links[i].link);
}

void lh_client_active_deinit(struct lh_client *c)
{
    lh_finder_deinit(&c->active.finder);
}

void lh_client_active_check(const struct lh_client *c)
{
    const struct lh_client_active *a = &c->active;

    lh_finder_check(&a->finder);
    for (size_t i = 0; i < LH_MASTERS_MAX && !c->stopped; i++)
        LH_ASSERT((a->links[i].link.id != 0) == a->finder.masters[i].asked);
    LH_ASSERT(a->waiting == NULL || lh_timer_is_set(&a->timer));
    LH_ASSERT(first_misled(c) == NULL || lh_timer_is_set(&a->timer));
    for (const struct lh_client_ask *ask = a->doubting; ask != NULL; ask = ask->next)
        LH_ASSERT(ask->link.id != 0);
    LH_ASSERT(first_ready(c) == NULL);
}

bool lh_client_active_ready(const struct lh_client *c)
{
    return c->active.finder.state != LH_FINDER_LOST;
}

void lh_client_active_wait(struct lh_client *c, struct lh_client_ask *ask)
{
    ask->list = &c->active.waiting;
    DL_APPEND(c->active.waiting, ask);
    go_on(c);
}

void lh_client_active_doubt(struct lh_client *c, struct lh_client_ask *ask)
{
    if (ask->list == NULL) {
        ask->list = &c->active.doubting;
        DL_APPEND(c->active.doubting, ask);
    }
    if (ask->choice == c->active.finder.choices)
        lh_finder_doubt(&c->active.finder);
    go_on(c);
}

void lh_client_active_asked(struct lh_client *c, struct lh_client_ask *ask)
{
    if (c->active.finder.wanted)
        lh_client_active_doubt(c, ask);
}

void lh_client_active_leave(struct lh_client *c, struct lh_client_ask *ask)
{
    (void)c;
    if (ask->list == NULL)
        return;
    DL_DELETE(*ask->list, ask);
    ask->list = NULL;
}

void lh_client_active_list(struct lh_client *c, struct lh_known_masters_call *call)
{
    call->count = 0;
    for (size_t i = 0; i < LH_MASTERS_MAX; i++)
        if (c->active.finder.masters[i].address != NULL)
            call->addresses[call->count++] = lh_strdup(lh_finder_address_at(&c->active.finder, i));
    lh_client_complete(c, &call->call, LH_OK, NULL);
}

void lh_client_active_answered(
    struct lh_client *c, uint64_t choice, enum lh_method method, const void *reply)
{
    struct lh_finder *f = &c->active.finder;

    lh_finder_acts(f, choice, 0);
    if (method == LH_METHOD_OPEN_TAIL) {
        const Leasehold__OpenTailReply *m = reply;
        lh_finder_learn(f, choice, m->masters, m->n_masters);
    } else if (method == LH_METHOD_LOCATE) {
        const Leasehold__LocateReply *m = reply;
        lh_finder_learn(f, choice, m->masters, m->n_masters);
    }
    if (is_wanted(c))
        wake(c);
}
