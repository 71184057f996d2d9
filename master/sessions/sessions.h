/* Sessions of any kind of client: their streams, heartbeats and answers, and who can be reached
 * (SES-3, SES-4). What a client is, what it shows and what its messages mean is its kind's. */
#pragma once

#include "master/tables/tables.h"

/* For one kind of client. */
struct lh_m_session_kind {
    const char *what; /* for logs: "chunkserver" */
    bool many;        /* there are so many of them that their streams are logged as LH_DEBUG */
    void (*message)(struct lh_master *m, struct lh_m_link *l, const void *message);
    /* A message of the session's stream has left. May be NULL. */
    void (*sent)(struct lh_master *m, struct lh_m_session *session);
    /* The registration is durable and answered: from now on the client can be sent something. */
    void (*announced)(struct lh_master *m, struct lh_m_session *session);
    /* A stream is gone; the session goes on. NULL: nobody had registered on it. */
    void (*stream_ended)(struct lh_master *m, struct lh_m_session *session);
    /* The session has run out. */
    void (*ended)(struct lh_master *m, struct lh_m_session *session);
    /* Frees the pieces of a registration that did not become whole (SES-1a). */
    void (*forget_pieces)(void *pieces);
};

/* ---- Streams. */

extern const struct lh_link_user lh_m_stream_links;
void lh_m_stream_opened(struct lh_master *m, const struct lh_input *in, enum lh_m_client kind);
/* NULL: it is over. */
struct lh_m_link *lh_m_stream(const struct lh_master *m, uint64_t link);
/* Ends all of them; `ended`: by whom, in words. */
void lh_m_streams_end(struct lh_master *m, int error, const char *text, const char *ended);
void lh_m_stream_forget(struct lh_master *m, struct lh_m_link *l);
/* What has come of a registration is in pieces that belong to their stream (SES-1a). */
void lh_m_stream_forget_pieces(struct lh_master *m, struct lh_m_link *l);

/* ---- The life of a session. */

/* What the client's last registration left is over: its session (which frees nothing: SES-5), its
 * answer, its stream unless that is `stays`. */
void lh_m_session_replace(
    struct lh_master *m, struct lh_m_session *session, uint64_t stays, int error, const char *why);
/* A new session on the stream. `stamp` is the registration's. */
void lh_m_session_begin(struct lh_master *m, struct lh_m_session *session, struct lh_m_link *l,
    struct lh_duration term, uint64_t stamp);
/* The session goes on, on this stream; its last one is forgotten, and the caller ends it. */
void lh_m_session_bind(struct lh_master *m, struct lh_m_session *session, struct lh_m_link *l);
/* The client has received what was sent to it at `at` (SES-4). */
void lh_m_session_confirmed(struct lh_m_session *session, struct lh_instant at);
/* The answer to the registration, and, once that is durable, the moment to send it. */
void lh_m_session_answer(struct lh_m_session *session, const ProtobufCMessage *answer);
void lh_m_session_announce(struct lh_master *m, struct lh_m_session *session);

/* SES-3: what is said counts only in the session that it names, while that session lives. NULL: it
 * does not. */
struct lh_m_session *lh_m_session_named(
    const struct lh_master *m, const struct lh_m_link *l, uint64_t session);
/* A heartbeat in it: it is renewed. `last_stamp`: of the newest answer that the client received.
 * False: it is over. */
bool lh_m_session_beat(
    struct lh_master *m, struct lh_m_session *session, uint64_t stamp, uint64_t last_stamp);
/* The heartbeat of that stamp is answered now. */
void lh_m_session_answered(const struct lh_master *m, struct lh_m_session *session, uint64_t stamp);

/* Of lease/: it has run out. */
void lh_m_session_expired(void *core, struct lh_lease_client *client);

/* ---- seen.c: what a client has seen of reigns before (SES-9). */

/* `who`, in words, has seen reign `number` last, by that name; 0: none, or without a name. Of this
 * store's reigns it is known to have kept `met_in`; 0: none. LH_OK: what it has seen fits. Else
 * `text` says what to do; KEEP-4 and a higher reign follow.
 *   WRONG_IDENTITY  of another history
 *   STALE_MASTER    another master may run in a higher reign
 *   UNAVAILABLE     it may come again soon, to a higher reign */
LH_MUST_USE int lh_m_reign_check(struct lh_master *m, const char *who, uint64_t number,
    uint64_t name, uint64_t met_in, char *text, size_t text_size);

/* Does that fit, in a store that is not restored? Nothing follows. */
bool lh_m_reign_fits(const struct lh_master *m, uint64_t number, uint64_t name);

/* What whoever asks for the active master has seen is looked at in this step. Without a name only a
 * master that knows its store to be an older copy takes it for more than a mistake. */
void lh_m_reign_hears(struct lh_master *m, const Leasehold__MastersRequest *request);

/* ---- Who can be reached. */

/* Its number on the wire. */
uint64_t lh_m_wire_session(const struct lh_master *m, lh_session_id s);
/* Sends on the client's stream; true if there is one and its registration was answered. */
bool lh_m_session_send(
    struct lh_master *m, const struct lh_m_session *session, const ProtobufCMessage *message);
/* Live, and at `now` it is no longer than a term ago that an answer was sent which it has received
 * (SES-4). */
bool lh_m_session_hears(
    const struct lh_master *m, const struct lh_m_session *session, struct lh_instant now);
/* Live, linked, announced, and lately confirmed an answer (SES-4). */
bool lh_m_session_reachable(const struct lh_master *m, const struct lh_m_session *session);
/* Nothing speaks against its being alive: linked, and a heartbeat came in time. */
bool lh_m_session_looks_alive(const struct lh_master *m, const struct lh_m_session *session);
/* It was asked whether it lives; the answer is a heartbeat. */
void lh_m_session_inquired(const struct lh_master *m, struct lh_m_session *session);
/* It was asked so, and has not answered since. */
bool lh_m_session_is_asked(const struct lh_m_session *session);
