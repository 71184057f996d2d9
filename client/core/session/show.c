/* Showing what a session has, after each greeting (PS-2), and the answer. What is not shown is
 * free, so everything that may still be acted on is in it. It is put together at once. Its pieces
 * go one after the other has left, so that heartbeats go between them (PS-2a). */
#include "base/alloc.h"
#include "client/core/session/internal.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <string.h>

/* A showing that is being made: its entries, and where they are. */
struct lh_client_showing {
    struct lh_client_session *s;
    Leasehold__Show show;
    size_t bytes;
    Leasehold__ShownLock *locks;
    Leasehold__Acquire *waiting;
    Leasehold__ShownValue *values;
    size_t lock_room, waiting_room, value_room, broadcast_room;
};

#define ENTRY_OVERHEAD 64u

static void pack_piece(struct lh_client_showing *w, bool more)
{
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Show *show = &w->show;

    show->more = more;
    show->locks = lh_alloc_array(show->n_locks + 1, sizeof *show->locks);
    for (size_t i = 0; i < show->n_locks; i++)
        show->locks[i] = &w->locks[i];
    show->waiting = lh_alloc_array(show->n_waiting + 1, sizeof *show->waiting);
    for (size_t i = 0; i < show->n_waiting; i++)
        show->waiting[i] = &w->waiting[i];
    show->values = lh_alloc_array(show->n_values + 1, sizeof *show->values);
    for (size_t i = 0; i < show->n_values; i++)
        show->values[i] = &w->values[i];
    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW;
    m.show = show;
    LH_GROW(w->s->pieces, w->s->piece_room, w->s->piece_count + 1);
    w->s->pieces[w->s->piece_count++] = lh_wire_pack(&m.base);
    free(show->locks);
    free(show->waiting);
    free(show->values);
    show->n_locks = show->n_waiting = show->n_values = show->n_broadcasts = 0;
    w->bytes = 0;
}

static void add_bytes(struct lh_client_showing *w, size_t bytes)
{
    bytes += ENTRY_OVERHEAD;
    if (w->bytes > 0 && w->bytes + bytes > w->s->client->config.session_message_bytes) {
        LH_MARK("session-shown-in-pieces");
        pack_piece(w, true);
    }
    w->bytes += bytes;
}

Leasehold__ShownLock *lh_client_show_lock(struct lh_client_showing *w, size_t bytes)
{
    add_bytes(w, bytes);
    LH_GROW(w->locks, w->lock_room, w->show.n_locks + 1);
    Leasehold__ShownLock *m = &w->locks[w->show.n_locks++];
    leasehold__shown_lock__init(m);
    return m;
}

Leasehold__Acquire *lh_client_show_waiting(struct lh_client_showing *w, size_t bytes)
{
    add_bytes(w, bytes);
    LH_GROW(w->waiting, w->waiting_room, w->show.n_waiting + 1);
    return &w->waiting[w->show.n_waiting++];
}

Leasehold__ShownValue *lh_client_show_value(struct lh_client_showing *w, size_t bytes)
{
    add_bytes(w, bytes);
    LH_GROW(w->values, w->value_room, w->show.n_values + 1);
    Leasehold__ShownValue *m = &w->values[w->show.n_values++];
    leasehold__shown_value__init(m);
    return m;
}

void lh_client_show_broadcast(struct lh_client_showing *w, const char *prefix)
{
    add_bytes(w, strlen(prefix));
    LH_GROW(w->show.broadcasts, w->broadcast_room, w->show.n_broadcasts + 1);
    w->show.broadcasts[w->show.n_broadcasts++] = (char *)(uintptr_t)prefix;
}

void lh_client_session_show(struct lh_client_session *s)
{
    struct lh_client_showing w = {.s = s};

    leasehold__show__init(&w.show);
    w.show.stamp = s->last_stamp;
    lh_client_users(s)->show(s, &w);
    pack_piece(&w, false);
    free(w.locks);
    free(w.waiting);
    free(w.values);
    free(w.show.broadcasts);
    s->in_pieces = s->piece_count > 1;
}

bool lh_client_session_show_next(struct lh_client_session *s)
{
    if (s->piece_next == s->piece_count)
        return false;
    struct lh_effect *e = lh_effects_add(s->client->fx, LH_FX_SEND);
    e->link = s->link.id;
    e->header = lh_buf_take(&s->pieces[s->piece_next++]);
    e->notify = s->piece_next < s->piece_count;
    if (!e->notify)
        lh_client_session_show_end(s);
    return true;
}

void lh_client_session_show_end(struct lh_client_session *s)
{
    while (s->piece_next < s->piece_count)
        lh_buf_clear(&s->pieces[s->piece_next++]);
    free(s->pieces);
    s->pieces = NULL;
    s->piece_count = s->piece_next = s->piece_room = 0;
}

void lh_client_session_shown(struct lh_client_session *s, const Leasehold__Shown *m)
{
    lh_client_users(s)->shown(s, m, s->valid_until);
    lh_client_session_renew(s, m->stamp, m->term_ns);
    if (s->life == LH_CLIENT_SESSION_EXPIRED) {
        LH_MARK("shown-too-late-after-expiry");
        lh_client_attach_failed(s, LH_ERR_UNAVAILABLE, "its answer took longer than the term");
        return;
    }
    lh_client_users(s)->up(s);
}
