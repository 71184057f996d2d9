/* Links, and messages that arrive slowly.
 *
 * A large message comes in pieces (base/step.h), and that pieces come is as good as an answer: who
 * waits for one counts from the last piece. But nobody may hold a message open for ever: a message
 * that others have begun to send here has to go on within `arrival_pause_ms`, and to be whole
 * within `arrival_ms`; so has one that this server has asked for. */
#include "chunkserver/host/host.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <utlist.h>

static const struct lh_link_user arrivals;
static void too_late(void *core, struct lh_timer *timer);

static struct lh_cs_link *new_link(
    struct lh_cs_host *cs, const struct lh_cs_link_user *user, void *user_arg, void *owner)
{
    struct lh_cs_link *l = lh_alloc(sizeof *l);

    l->cs = cs;
    l->user = user;
    l->user_arg = user_arg;
    l->owner = owner;
    l->timer.fire = too_late;
    l->link.user = &arrivals;
    return l;
}

void lh_cs_link_serve(struct lh_cs_host *cs, const struct lh_input *in,
    const struct lh_cs_link_user *user, void *user_arg)
{
    struct lh_cs_link *l = new_link(cs, user, user_arg, NULL);

    lh_link_serve(&cs->links.all, &l->link, in->link);
    l->id = in->link;
}

struct lh_cs_link *lh_cs_link_open(struct lh_cs_host *cs, const struct lh_cs_link_user *user,
    void *owner, enum lh_method method, const char *address, struct lh_duration silence)
{
    struct lh_cs_link *l = new_link(cs, user, NULL, owner);

    l->silence = silence;
    lh_timer_set(&cs->timers, &l->timer, lh_instant_add(cs->now, silence));
    lh_link_open(&cs->links.all, cs->fx, &l->link, method, address, LH_DURATION_FOREVER);
    l->id = l->link.id;
    return l;
}

struct lh_cs_link *lh_cs_link_find(const struct lh_cs_host *cs, uint64_t id)
{
    struct lh_link *link = lh_link_find(&cs->links.all, id);

    return link == NULL ? NULL : LH_OWNER(link, struct lh_cs_link, link);
}

/* It is over, and not in the table any more. */
static void free_link(struct lh_cs_link *l)
{
    if (l->held)
        DL_DELETE(l->cs->links.held, l);
    lh_timer_unset(&l->cs->timers, &l->timer);
    free(l);
}

void lh_cs_link_close(struct lh_cs_host *cs, uint64_t id, int error, const char *text)
{
    struct lh_cs_link *l = lh_cs_link_find(cs, id);

    if (l == NULL)
        return;
    lh_link_close(&cs->links.all, cs->fx, &l->link, error, text);
    free_link(l);
}

void lh_cs_link_hold(struct lh_cs_link *l)
{
    if (l->held)
        return;
    l->held = true;
    DL_APPEND(l->cs->links.held, l);
    lh_fx_hold(l->cs->fx, l->id);
}

void lh_cs_links_unhold(struct lh_cs_host *cs)
{
    while (cs->links.held != NULL) {
        struct lh_cs_link *l = cs->links.held;
        l->held = false;
        DL_DELETE(cs->links.held, l);
        lh_fx_unhold(cs->fx, l->id);
    }
}

/* The end of a link that did not end here. */
static void closed(void *core, struct lh_link *link, int error, const char *text)
{
    struct lh_cs_link *l = LH_OWNER(link, struct lh_cs_link, link), gone = *l;

    (void)core;
    gone.error = error;
    free_link(l);
    gone.user->closed(&gone, text);
}

void lh_cs_link_end(struct lh_cs_link *l, int error, const char *text)
{
    lh_link_close(&l->cs->links.all, l->cs->fx, &l->link, error, text);
    closed(l->cs, &l->link, error, text);
}

/* ------------------------------------------------------------------------------------------------
 * Messages on their way. */

/* Until when the next piece has to be here. */
static struct lh_instant patience_ends(const struct lh_cs_link *l)
{
    const struct lh_chunkserver_bounds *b = &l->cs->config.bounds;
    struct lh_duration pause =
        l->silence.ns > 0 ? l->silence : lh_milliseconds(b->arrival_pause_ms);

    struct lh_instant whole_by = lh_instant_add(l->arriving_since, lh_milliseconds(b->arrival_ms));

    if (LH_PLANTED("progress-for-ever"))
        whole_by = LH_INSTANT_NEVER;
    return lh_instant_min(lh_instant_add(l->cs->now, pause), whole_by);
}

void lh_cs_link_await_rest(struct lh_cs_link *l, struct lh_instant since)
{
    l->arriving_since = since;
    lh_timer_set(&l->cs->timers, &l->timer, patience_ends(l));
}

static void progress(void *core, struct lh_link *link)
{
    struct lh_cs_link *l = LH_OWNER(link, struct lh_cs_link, link);
    struct lh_cs_host *cs = core;

    if (!l->arriving) {
        LH_MARK("message-in-pieces");
        l->arriving = true;
        l->arriving_since = cs->now;
    }
    lh_timer_set(&cs->timers, &l->timer, patience_ends(l));
    if (LH_PLANTED("progress-is-no-life"))
        return;
    if (l->user->progress != NULL)
        l->user->progress(l);
}

static void message(void *core, struct lh_link *link, const void *m, struct lh_buf *payload)
{
    struct lh_cs_link *l = LH_OWNER(link, struct lh_cs_link, link);

    (void)core;
    l->arriving = false;
    lh_timer_unset(&l->cs->timers, &l->timer);
    l->user->message(l, m, payload);
}

static void too_late(void *core, struct lh_timer *timer)
{
    const char *text = "the rest of a message did not come in time";
    struct lh_cs_link *l = LH_OWNER(timer, struct lh_cs_link, timer);

    (void)core;
    if (l->held || (l->user->held != NULL && l->user->held(l))) {
        /* It is not read: no fault of the peer's, and its time begins again. */
        l->arriving_since = l->cs->now;
        lh_timer_set(&l->cs->timers, &l->timer, patience_ends(l));
        return;
    }
    if (l->user->late != NULL && l->user->late(l, text))
        return;
    LH_MARK("link-silent");
    lh_cs_link_end(l, LH_ERR_DEADLINE_EXCEEDED, text);
}

static void sent(void *core, struct lh_link *link)
{
    struct lh_cs_link *l = LH_OWNER(link, struct lh_cs_link, link);

    (void)core;
    if (l->user->sent != NULL)
        l->user->sent(l);
}

static void half_closed(void *core, struct lh_link *link)
{
    struct lh_cs_link *l = LH_OWNER(link, struct lh_cs_link, link);

    (void)core;
    if (l->user->half_closed != NULL && !LH_PLANTED("half-close-ignored"))
        l->user->half_closed(l);
}

static const struct lh_link_user arrivals = {.message = message,
    .progress = progress,
    .sent = sent,
    .half_closed = half_closed,
    .closed = closed};

void lh_cs_link_end_with_peer(struct lh_cs_link *l)
{
    lh_cs_link_end(l, LH_OK, NULL);
}

void lh_cs_links_deinit(struct lh_cs_host *cs)
{
    struct lh_link *link, *next;

    HASH_ITER(hh, cs->links.all.by_id, link, next) {
        struct lh_cs_link *l = LH_OWNER(link, struct lh_cs_link, link);
        if (l->user_arg != NULL)
            l->user->closed(l, NULL);
        lh_link_forget(&cs->links.all, link);
        free_link(l);
    }
}
