/* Links, and messages that arrive slowly.
 *
 * A large message comes in pieces (base/step.h), and that pieces come is as good as an answer: who
 * waits for one counts from the last piece. But nobody may hold a message open for ever: a message
 * that others have begun to send here has to go on within `arrival_pause_ms`, and to be whole
 * within `arrival_ms`; so has one that this server has asked for. */
#include "base/alloc.h"
#include "chunkserver/internal.h"

#include <stdlib.h>

struct link *link_add(struct lh_chunkserver *cs, uint64_t id, enum link_kind kind, void *owner)
{
    struct link *l = lh_alloc(sizeof *l);

    l->id = id;
    l->kind = kind;
    l->owner = owner;
    l->timer.kind = TIMER_LINK;
    l->timer.owner = l;
    HASH_ADD(hh, cs->links, id, sizeof l->id, l);
    return l;
}

struct link *link_open(struct lh_chunkserver *cs, enum link_kind kind, void *owner,
    enum lh_method method, const char *address, struct lh_duration silence)
{
    struct link *l = link_add(cs, ++cs->next_link, kind, owner);

    l->silence = silence;
    lh_timer_set(&cs->timers, &l->timer, lh_instant_add(cs->now, silence));
    lh_fx_open(cs->fx, l->id, method, address, LH_DURATION_FOREVER);
    return l;
}

struct link *link_find(struct lh_chunkserver *cs, uint64_t id)
{
    struct link *l;

    HASH_FIND(hh, cs->links, &id, sizeof id, l);
    return l;
}

void link_forget(struct lh_chunkserver *cs, uint64_t id)
{
    struct link *l = link_find(cs, id);

    if (l == NULL)
        return;
    if (l->held)
        DL_DELETE(cs->feeds, l);
    HASH_DELETE(hh, cs->links, l);
    lh_timer_unset(&cs->timers, &l->timer);
    free(l);
}

void link_close(struct lh_chunkserver *cs, uint64_t id, int error, const char *text)
{
    if (link_find(cs, id) == NULL)
        return;
    link_forget(cs, id);
    lh_fx_close(cs->fx, id, error, text);
}

/* ------------------------------------------------------------------------------------------------
 * The end of a link that did not end here. */

void link_closed(struct lh_chunkserver *cs, struct link *l, const char *text)
{
    struct link gone = *l;

    link_forget(cs, l->id);
    switch (gone.kind) {
    case LINK_MASTER:
        session_link_closed(cs, text);
        break;
    case LINK_MEMBER:
        member_link_closed(gone.owner);
        break;
    case LINK_FETCH:
        primary_fetch_failed(gone.owner);
        break;
    case LINK_COPY:
        copying_link_closed(gone.owner);
        break;
    case LINK_APPEND:
        stream_link_closed(cs, &gone);
        break;
    case LINK_SECONDARY:
        secondary_link_closed(cs, &gone);
        break;
    case LINK_READ:
        reading_link_closed(cs, &gone);
        break;
    case LINK_SETTLE:
        settling_link_closed(cs, &gone);
        break;
    }
}

/* ------------------------------------------------------------------------------------------------
 * Messages on their way. */

/* Until when the next piece has to be here. */
static struct lh_instant patience_ends(const struct lh_chunkserver *cs, const struct link *l)
{
    const struct lh_chunkserver_bounds *b = &cs->config.bounds;
    struct lh_duration pause =
        l->silence.ns > 0 ? l->silence : lh_milliseconds(b->arrival_pause_ms);

    struct lh_instant whole_by = lh_instant_add(l->arriving_since, lh_milliseconds(b->arrival_ms));

    if (LH_PLANTED("progress-for-ever"))
        whole_by = LH_INSTANT_NEVER;
    return lh_instant_min(lh_instant_add(cs->now, pause), whole_by);
}

void link_progress(struct lh_chunkserver *cs, struct link *l)
{
    if (!l->arriving) {
        LH_MARK("message-in-pieces");
        l->arriving = true;
        l->arriving_since = cs->now;
    }
    lh_timer_set(&cs->timers, &l->timer, patience_ends(cs, l));
    if (LH_PLANTED("progress-is-no-life"))
        return;
    switch (l->kind) {
    case LINK_APPEND:
        if (l->owner != NULL)
            stream_progress(l->owner);
        break;
    case LINK_SECONDARY:
        if (l->owner != NULL && ((struct replica *)l->owner)->secondary_link == l->id)
            secondary_progress(l->owner);
        break;
    case LINK_COPY:
        copying_progress(l->owner);
        break;
    default:
        break;
    }
}

void link_whole(struct lh_chunkserver *cs, struct link *l)
{
    l->arriving = false;
    lh_timer_unset(&cs->timers, &l->timer);
}

void link_timer(struct lh_chunkserver *cs, struct link *l)
{
    const char *text = "the rest of a message did not come in time";
    uint64_t id = l->id;

    bool append = l->kind == LINK_APPEND && l->owner != NULL;

    if (l->held || (append && ((struct stream *)l->owner)->held)) {
        /* It is not read: no fault of the peer's, and its time begins anew. */
        l->arriving_since = cs->now;
        lh_timer_set(&cs->timers, &l->timer, patience_ends(cs, l));
        return;
    }
    if (append) {
        struct stream *s = l->owner;
        LH_MARK("stream-message-never-whole");
        stream_end(s, LH_ERR_DEADLINE_EXCEEDED, text);
        return;
    }
    if (l->kind == LINK_SECONDARY && l->owner != NULL &&
        ((struct replica *)l->owner)->secondary_link == id) {
        secondary_end(
            l->owner, LH_ERR_DEADLINE_EXCEEDED); /* it is not fast enough to be a member */
        return;
    }
    LH_MARK("link-silent");
    lh_fx_close(cs->fx, id, LH_ERR_DEADLINE_EXCEEDED, text);
    link_closed(cs, l, text);
}

void link_half_closed(struct lh_chunkserver *cs, struct link *l)
{
    if (l->kind == LINK_APPEND && l->owner != NULL) {
        LH_MARK("stream-half-closed");
        stream_half_closed(l->owner);
    } else if (l->kind == LINK_APPEND || l->kind == LINK_SECONDARY) {
        lh_fx_close(cs->fx, l->id, LH_OK, NULL);
        link_closed(cs, l, NULL);
    }
}
