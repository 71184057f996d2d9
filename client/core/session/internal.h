/* What the files of sessions know of each other. */
#pragma once

#include "client/core/session/session.h"
#include "lease/term.h"

struct lh_client_sessions {
    struct lh_client_host *client;
    const struct lh_client_session_users *users;
    void *self; /* the users' */
    struct lh_client_session *all;
    size_t count;              /* at most `sessions` of the config */
    struct lh_outbox *touched; /* by this step */
    struct lh_prng ids;
};

/* Who keeps something in it. */
static inline const struct lh_client_session_users *lh_client_users(
    const struct lh_client_session *s)
{
    return s->sessions->users;
}

/* ---- session.c */

/* A master has no record of it: everything in it is lost for good, and the program hears of it. */
void lh_client_session_lose(struct lh_client_session *s);
/* An answer to what was sent with that stamp renews it. False: there was no such stamp. */
bool lh_client_session_renew(struct lh_client_session *s, uint64_t stamp, uint64_t term_ns);
/* A master knows that the program has closed it. */
void lh_client_session_known_closed(struct lh_client_session *s);
/* It cannot be opened. */
void lh_client_session_refused(struct lh_client_session *s, int error, const char *text);

/* ---- attach.c: its streams. */

void lh_client_attach_init(struct lh_client_session *s);
/* Attaches at the active master, and again until lh_client_attach_end(). */
void lh_client_attach(struct lh_client_session *s);
/* Gives the present stream up, if there is one, for another one. */
void lh_client_attach_again(struct lh_client_session *s);
/* Gives the present stream up; no other one follows. */
void lh_client_attach_end(struct lh_client_session *s);
/* Gives it up, and attaches again after a pause. */
void lh_client_attach_failed(struct lh_client_session *s, int error, const char *text);
/* Tells a master that the session is over, as soon as one has greeted it; then
 * lh_client_session_known_closed() is called. */
void lh_client_attach_close(struct lh_client_session *s);
/* A heartbeat, now. */
void lh_client_attach_beat(struct lh_client_session *s);

/* ---- show.c: showing. */

/* Packs all pieces, with the stamp of the stream's greeting. */
void lh_client_session_show(struct lh_client_session *s);
/* Sends the next piece; the one before has left. False: there is none. */
bool lh_client_session_show_next(struct lh_client_session *s);
/* Drops those that have not been sent. */
void lh_client_session_show_end(struct lh_client_session *s);
void lh_client_session_shown(struct lh_client_session *s, const Leasehold__Shown *m);

/* ---- events.c */

void lh_client_events_deinit(struct lh_client_session *s);

/* ---- ops.c */

/* The session is looked at when the step ends. */
void lh_client_session_touch(struct lh_client_session *s);
void lh_client_ops_clear(struct lh_client_session *s);
/* The last message has left. */
void lh_client_ops_left(struct lh_client_session *s);
