/* The finder's links, and when it is asked. */
#include "chunkserver/session/active.h"

#include "base/alloc.h"
#include "chunkserver/session/internal.h"

#include <stdlib.h>

static void answered(struct lh_cs_link *l, const void *reply, struct lh_buf *payload);
static void unanswered(struct lh_cs_link *gone, const char *text);

static const struct lh_cs_link_user round_links = {.message = answered, .closed = unanswered};

/* Asks who is to be asked. */
static void go_on(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;
    struct lh_cs_active_master *a = &s->active;
    size_t place;

    while (lh_finder_late(&a->finder, cs->now, &place)) {
        lh_cs_link_close(cs, a->links[place], LH_ERR_CANCELLED, NULL);
        a->links[place] = 0;
    }
    while (lh_finder_next(&a->finder, cs->now, &place)) {
        Leasehold__MastersRequest m = LEASEHOLD__MASTERS_REQUEST__INIT;
        m.reign_seen = cs->master.master_term;
        m.reign_name_seen = cs->master.reign_name;
        m.reign_heard = a->finder.reign;
        if (lh_finder_is_heard_in_vain(&a->finder, place) ||
            LH_PLANTED("named-to-whom-it-does-not-hear")) {
            m.server_id = (char *)(uintptr_t)cs->config.server_id;
            m.cluster_id = cs->cluster.id;
        }
        a->links[place] = lh_cs_link_open(cs, &round_links, s, LH_METHOD_MASTERS,
            lh_finder_address_at(&a->finder, place), LH_DURATION_FOREVER)
                              ->id;
        lh_fx_send(cs->fx, a->links[place], &m.base, NULL);
    }
    lh_timer_set(&cs->timers, &a->timer, lh_finder_deadline(&a->finder));
}

/* SES-10: it is said while it lasts. */
static void say_trouble(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;
    struct lh_cs_active_master *a = &s->active;
    struct lh_instant again =
        lh_instant_add(a->trouble_logged, lh_milliseconds(cs->config.bounds.unreachable_again_ms));
    char text[LH_FINDER_TEXT_MAX];

    if ((a->trouble_logged.ns != 0 && !lh_instant_reached(cs->now, again)) ||
        !lh_finder_trouble(&a->finder, text))
        return;
    lh_fx_log(cs->fx, LH_ERROR, "%s", text);
    a->trouble_logged = cs->now;
}

static void look(struct lh_cs_session *s)
{
    go_on(s);
    say_trouble(s);
    if (s->active.choice != s->active.finder.choices)
        lh_cs_session_chosen(s);
}

/* The place that was asked on this link; nothing more comes on it. */
static size_t take_place(struct lh_cs_session *s, uint64_t link)
{
    size_t place = 0;

    while (s->active.links[place] != link)
        place++;
    s->active.links[place] = 0;
    return place;
}

static void answered(struct lh_cs_link *l, const void *reply, struct lh_buf *payload)
{
    struct lh_cs_session *s = l->owner;
    size_t place = take_place(s, l->id);

    (void)payload;
    lh_cs_link_close(s->cs, l->id, LH_OK, NULL);
    lh_finder_answered(&s->active.finder, s->cs->now, place, reply);
    if (LH_PLANTED("foreign-answer-ends-a-server") &&
        !lh_finder_is_ours(&s->active.finder, ((const Leasehold__MastersReply *)reply)->cluster_id))
        lh_fx_stopped(s->cs->fx, LH_ERR_WRONG_IDENTITY);
    look(s);
}

static void unanswered(struct lh_cs_link *gone, const char *text)
{
    struct lh_cs_session *s = gone->owner;

    (void)text;
    lh_finder_unanswered(&s->active.finder, s->cs->now, take_place(s, gone->id), gone->error);
    look(s);
}

static void timer_fires(void *core, struct lh_timer *timer)
{
    (void)core;
    look(LH_OWNER(timer, struct lh_cs_session, active.timer));
}

/* A master that froze, or lost its power, closes no connection. */
static void silent(void *core, struct lh_timer *timer)
{
    struct lh_cs_session *s = LH_OWNER(timer, struct lh_cs_session, active.silence);

    (void)core;
    lh_finder_doubt(&s->active.finder);
    go_on(s);
}

void lh_cs_active_init(struct lh_cs_session *s)
{
    const struct lh_chunkserver_config *c = &s->cs->config;

    lh_finder_init(
        &s->active.finder, &c->finder, c->cluster_id, c->masters, c->master_count, c->master_term);
    s->active.choice = s->active.finder.choices;
    s->active.timer.fire = timer_fires;
    s->active.silence.fire = silent;
}

void lh_cs_active_deinit(struct lh_cs_session *s)
{
    lh_finder_deinit(&s->active.finder);
    free(s->active.address);
}

void lh_cs_active_stop(struct lh_cs_session *s)
{
    struct lh_cs_active_master *a = &s->active;

    lh_timer_unset(&s->cs->timers, &a->timer);
    lh_timer_unset(&s->cs->timers, &a->silence);
    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        if (a->links[i] != 0)
            lh_cs_link_close(s->cs, a->links[i], LH_ERR_CANCELLED, NULL);
        a->links[i] = 0;
    }
}

bool lh_cs_active_seeks(struct lh_cs_session *s)
{
    if (s->active.finder.state != LH_FINDER_LOST)
        return false;
    go_on(s);
    return true;
}

const char *lh_cs_active_take(struct lh_cs_session *s)
{
    struct lh_cs_active_master *a = &s->active;

    lh_timer_unset(&s->cs->timers, &a->silence);
    a->choice = a->finder.choices;
    free(a->address);
    a->address = lh_strdup(lh_finder_address(&a->finder));
    return a->address;
}

bool lh_cs_session_trouble(const struct lh_cs_session *s, char *text)
{
    return lh_finder_trouble(&s->active.finder, text);
}

void lh_cs_active_failed(struct lh_cs_session *s, int error)
{
    lh_timer_unset(&s->cs->timers, &s->active.silence);
    lh_finder_failed(&s->active.finder, s->active.choice, error);
    go_on(s);
}

bool lh_cs_active_is_ours(struct lh_cs_session *s, const char *cluster)
{
    bool is = lh_finder_named(&s->active.finder, s->active.choice, cluster);

    if (!is)
        say_trouble(s);
    return is;
}

void lh_cs_active_registered(struct lh_cs_session *s, const Leasehold__Registered *m)
{
    lh_finder_acts(&s->active.finder, s->active.choice, m->master_term);
    lh_finder_learn(&s->active.finder, s->active.choice, m->masters, m->n_masters);
    go_on(s);
}

void lh_cs_active_heartbeat(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;

    if (!lh_finder_alone(&s->active.finder) && !lh_timer_is_set(&s->active.silence))
        lh_timer_set(
            &cs->timers, &s->active.silence, lh_instant_add(cs->now, cs->config.ask_masters_after));
}

void lh_cs_active_answered(struct lh_cs_session *s)
{
    lh_timer_unset(&s->cs->timers, &s->active.silence);
    lh_finder_acts(&s->active.finder, s->active.choice, s->cs->master.master_term);
    go_on(s);
}
