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

static void too_late(void *core, struct lh_timer *timer);

struct lh_cs_link *lh_cs_link_add(struct lh_cs_host *cs, uint64_t id,
    const struct lh_cs_link_user *user, void *user_arg, void *owner)
{
    struct lh_cs_link *l = lh_alloc(sizeof *l);

    l->id = id;
    l->cs = cs;
    l->user = user;
    l->user_arg = user_arg;
    l->owner = owner;
    l->timer.fire = too_late;
    HASH_ADD(hh, cs->links.by_id, id, sizeof l->id, l);
    return l;
}

struct lh_cs_link *lh_cs_link_open(struct lh_cs_host *cs, const struct lh_cs_link_user *user,
    void *owner, enum lh_method method, const char *address, struct lh_duration silence)
{
    struct lh_cs_link *l = lh_cs_link_add(cs, ++cs->links.last, user, NULL, owner);

    l->silence = silence;
    lh_timer_set(&cs->timers, &l->timer, lh_instant_add(cs->now, silence));
    lh_fx_open(cs->fx, l->id, method, address, LH_DURATION_FOREVER);
    return l;
}

struct lh_cs_link *lh_cs_link_find(struct lh_cs_host *cs, uint64_t id)
{
    struct lh_cs_link *l;

    HASH_FIND(hh, cs->links.by_id, &id, sizeof id, l);
    return l;
}

/* Drops our record of a link that has ended. */
static void forget(struct lh_cs_host *cs, uint64_t id)
{
    struct lh_cs_link *l = lh_cs_link_find(cs, id);

    if (l == NULL)
        return;
    if (l->held)
        DL_DELETE(cs->links.held, l);
    HASH_DELETE(hh, cs->links.by_id, l);
    lh_timer_unset(&cs->timers, &l->timer);
    free(l);
}

void lh_cs_link_close(struct lh_cs_host *cs, uint64_t id, int error, const char *text)
{
    if (lh_cs_link_find(cs, id) == NULL)
        return;
    forget(cs, id);
    lh_fx_close(cs->fx, id, error, text);
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
static void closed(struct lh_cs_link *l, int error, const char *text)
{
    struct lh_cs_link gone = *l;

    gone.error = error;
    forget(l->cs, l->id);
    gone.user->closed(&gone, text);
}

void lh_cs_link_end(struct lh_cs_link *l, int error, const char *text)
{
    lh_fx_close(l->cs->fx, l->id, error, text);
    closed(l, error, text);
}

void lh_cs_link_closed(struct lh_cs_host *cs, uint64_t id, int error, const char *text)
{
    struct lh_cs_link *l = lh_cs_link_find(cs, id);

    if (l != NULL)
        closed(l, error, text);
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

void lh_cs_link_progress(struct lh_cs_host *cs, uint64_t id)
{
    struct lh_cs_link *l = lh_cs_link_find(cs, id);

    if (l == NULL)
        return;
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

void lh_cs_link_message(
    struct lh_cs_host *cs, uint64_t id, const void *message, struct lh_buf *payload)
{
    struct lh_cs_link *l = lh_cs_link_find(cs, id);

    if (l == NULL)
        return;
    l->arriving = false;
    lh_timer_unset(&cs->timers, &l->timer);
    l->user->message(l, message, payload);
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

void lh_cs_link_sent(struct lh_cs_host *cs, uint64_t id)
{
    struct lh_cs_link *l = lh_cs_link_find(cs, id);

    if (l != NULL && l->user->sent != NULL)
        l->user->sent(l);
}

void lh_cs_link_half_closed(struct lh_cs_host *cs, uint64_t id)
{
    struct lh_cs_link *l = lh_cs_link_find(cs, id);

    if (l != NULL && l->user->half_closed != NULL && !LH_PLANTED("half-close-ignored"))
        l->user->half_closed(l);
}

void lh_cs_link_end_with_peer(struct lh_cs_link *l)
{
    lh_cs_link_end(l, LH_OK, NULL);
}

void lh_cs_links_deinit(struct lh_cs_host *cs)
{
    struct lh_cs_link *l, *next;

    HASH_ITER(hh, cs->links.by_id, l, next) {
        if (l->user_arg != NULL)
            l->user->closed(l, NULL);
        forget(cs, l->id);
    }
}
