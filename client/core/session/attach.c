/* The streams of a session (PS-2, PS-4): attaching at the active master, its greeting,
 * heartbeats, and what follows when a stream breaks or is silent. */
#include "base/alloc.h"
#include "client/core/session/internal.h"
#include "proto/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Silence. */

/* A stream of which nothing is answered for so long is given up, also if no other master is found:
 * its connection may be dead, and another one good. */
static struct lh_duration patience(const struct lh_client_session *s)
{
    struct lh_duration half = {s->term.ns / 2};

    /* So much takes a master its time, above all if others come back, too. */
    if (s->phase == LH_CLIENT_STREAM_SHOWING && s->in_pieces)
        return lh_duration_max(s->term, s->client->config.try_timeout);
    return s->life == LH_CLIENT_SESSION_LIVE || s->life == LH_CLIENT_SESSION_EXPIRED
               ? lh_duration_min(half, s->client->config.try_timeout)
               : s->client->config.try_timeout;
}

static void set_silence(struct lh_client_session *s, struct lh_instant doubt_at)
{
    struct lh_client_host *c = s->client;

    lh_timer_set(&c->timers, &s->retry,
        s->asked.ns == UINT64_MAX
            ? LH_INSTANT_NEVER
            : lh_instant_min(doubt_at, lh_instant_add(s->asked, patience(s))));
}

static void asked(struct lh_client_session *s)
{
    struct lh_client_host *c = s->client;

    if (s->asked.ns != UINT64_MAX)
        return;
    s->asked = c->now;
    set_silence(s, lh_instant_add(c->now, c->config.ask_masters_after));
}

/* The master has said something. `more`: something else is still unanswered. */
static void heard(struct lh_client_session *s, bool more)
{
    lh_client_active_attached(s->client, &s->waiter);
    s->failures = 0;
    if (!LH_PLANTED("silence-goes-on-after-an-answer"))
        s->asked = LH_INSTANT_NEVER;
    set_silence(s, LH_INSTANT_NEVER);
    if (more)
        asked(s);
}

/* ---- The end of a stream. */

static void forget_stream(struct lh_client_session *s)
{
    struct lh_client_host *c = s->client;

    lh_client_active_leave(c, &s->waiter);
    lh_client_link_close(c, &s->link);
    lh_timer_unset(&c->timers, &s->retry);
    lh_timer_unset(&c->timers, &s->beat);
    lh_client_ops_clear(s);
    lh_client_users(s)->stream_over(s);
    lh_client_session_show_end(s);
    s->asked = LH_INSTANT_NEVER;
    s->outbox.in_flight = 0;
    s->beat_wanted = false;
    s->phase = LH_CLIENT_STREAM_NONE;
}

void lh_client_attach_end(struct lh_client_session *s)
{
    forget_stream(s);
    lh_client_active_forget(s->client, &s->waiter);
}

static void note_failure(struct lh_client_session *s, int error, const char *text)
{
    s->failures++;
    s->reason = error == LH_ERR_DEADLINE_EXCEEDED || error == LH_ERR_NOT_ACTIVE ? LH_ERR_UNAVAILABLE
                                                                                : error;
    snprintf(s->text, sizeof s->text, "master %s: %s", s->waiter.address,
        text != NULL && text[0] != '\0' ? text : lh_error_text(error));
}

void lh_client_attach_failed(struct lh_client_session *s, int error, const char *text)
{
    struct lh_client_host *c = s->client;

    note_failure(s, error, text);
    lh_client_active_failed(c, &s->waiter, error);
    forget_stream(s);
    s->phase = LH_CLIENT_STREAM_PAUSE;
    bool moved = lh_client_active_moved(c, &s->waiter);
    lh_timer_set(&c->timers, &s->retry,
        lh_instant_add(c->now, lh_client_backoff(c, s->failures + (moved ? 0 : 1))));
}

/* ---- Attaching. */

static void send(struct lh_client_session *s, Leasehold__LeaseSessionRequest *m)
{
    lh_fx_send(s->client->fx, s->link.id, &m->base, NULL);
}

static void send_attach(struct lh_client_session *s)
{
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Attach a = LEASEHOLD__ATTACH__INIT;

    a.session.data = s->id;
    a.session.len = sizeof s->id;
    a.stream = ++s->stream;
    a.opens = !s->greeted;
    a.reign_seen = s->reign;
    a.reign_name_seen = s->reign_name;
    if (LH_PLANTED("session-opened-anew-after-expiry") && s->life == LH_CLIENT_SESSION_EXPIRED)
        a.opens = true;
    if (a.opens) {
        a.term_ms = s->wanted_term_ms;
        a.host = s->host;
        a.process = s->process;
        a.label = s->label;
        a.lookups = s->lookups;
    }
    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    m.attach = &a;
    send(s, &m);
}

void lh_client_attach(struct lh_client_session *s)
{
    struct lh_client_host *c = s->client;

    if (!lh_client_active_ready(c)) {
        s->phase = LH_CLIENT_STREAM_WAITING;
        lh_client_active_wait(c, &s->waiter);
        return;
    }
    lh_client_active_choose(c, &s->waiter);
    lh_link_open(&c->links, c->fx, &s->link, LH_METHOD_LEASE_SESSION, s->waiter.address,
        LH_DURATION_FOREVER);
    s->phase = LH_CLIENT_STREAM_ATTACHED;
    s->first_stamp = s->last_stamp = 0;
    send_attach(s);
    asked(s);
    lh_client_active_asked(c, &s->waiter);
}

void lh_client_attach_again(struct lh_client_session *s)
{
    if (s->phase == LH_CLIENT_STREAM_PAUSE || s->phase == LH_CLIENT_STREAM_WAITING)
        return;
    lh_client_attach_end(s);
    lh_client_attach(s);
}

static void go_on(struct lh_client_waiter *waiter)
{
    lh_client_attach(LH_OWNER(waiter, struct lh_client_session, waiter));
}

static void elsewhere(struct lh_client_waiter *waiter)
{
    struct lh_client_session *s = LH_OWNER(waiter, struct lh_client_session, waiter);

    LH_MARK("session-moves-to-another-master");
    note_failure(s, LH_ERR_UNAVAILABLE, "no answer");
    forget_stream(s);
    lh_client_attach(s);
}

static void retry(void *core, struct lh_timer *timer)
{
    struct lh_client_session *s = LH_OWNER(timer, struct lh_client_session, retry);
    struct lh_client_host *c = core;

    if (s->phase == LH_CLIENT_STREAM_PAUSE) {
        lh_client_attach(s);
    } else if (lh_instant_reached(c->now, lh_instant_add(s->asked, patience(s)))) {
        LH_MARK("session-stream-is-silent");
        lh_client_attach_failed(s, LH_ERR_UNAVAILABLE, "no answer");
    } else {
        set_silence(s, lh_instant_add(c->now, c->config.ask_masters_after));
        lh_client_active_doubt(c, &s->waiter);
    }
}

/* ---- Closing. */

static void send_close(struct lh_client_session *s)
{
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__CloseSession close = LEASEHOLD__CLOSE_SESSION__INIT;

    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE;
    m.close = &close;
    send(s, &m);
    lh_timer_unset(&s->client->timers, &s->beat);
    lh_client_ops_clear(s);
    s->phase = LH_CLIENT_STREAM_CLOSING;
    asked(s);
}

void lh_client_attach_close(struct lh_client_session *s)
{
    switch (s->phase) {
    case LH_CLIENT_STREAM_NONE:
        lh_client_attach(s);
        break;
    case LH_CLIENT_STREAM_SHOWING:
    case LH_CLIENT_STREAM_UP:
        send_close(s);
        break;
    case LH_CLIENT_STREAM_PAUSE:
    case LH_CLIENT_STREAM_WAITING:
    case LH_CLIENT_STREAM_ATTACHED: /* when it is greeted */
    case LH_CLIENT_STREAM_CLOSING:
        break;
    }
}

/* ---- What the master says. */

/* HA-10: what a master of a lower reign says of the session is over. */
static bool is_believed(const struct lh_client_session *s, const Leasehold__Greeting *m)
{
    uint64_t seen = s->client->active.finder.reign;

    if (LH_PLANTED("greeting-of-lower-reign-believed"))
        return true;
    return m->reign >= seen && m->reign >= s->reign;
}

/* A third of the term, or what the master says if that is less. */
static struct lh_duration beat_every(const Leasehold__Greeting *m)
{
    struct lh_duration third = {lh_milliseconds(m->term_ms).ns / 3};
    struct lh_duration said = m->beat_ns == 0 ? third : lh_nanoseconds(m->beat_ns);

    return lh_duration_max(lh_duration_min(said, third), lh_milliseconds(1));
}

static void greeting(struct lh_client_session *s, const Leasehold__Greeting *m)
{
    struct lh_client_host *c = s->client;

    if (!is_believed(s, m)) {
        LH_MARK("greeting-of-lower-reign");
        lh_client_attach_failed(s, LH_ERR_STALE_MASTER, NULL);
        return;
    }
    if (!lh_client_active_is_ours(c, &s->waiter, m->cluster_id)) {
        lh_client_attach_failed(s, LH_ERR_WRONG_IDENTITY, "it is of another cluster");
        return;
    }
    if (s->reign_name != 0 && m->reign_name_seen != s->reign_name &&
        !LH_PLANTED("other-history-believed")) {
        lh_client_attach_failed(s, LH_ERR_WRONG_IDENTITY, "it is of another history");
        return;
    }
    heard(s, false);
    s->reign = m->reign;
    s->reign_name = m->reign_name;
    s->greeted = true;
    s->term = lh_milliseconds(m->term_ms);
    s->beat_every = beat_every(m);
    lh_client_active_greeted(c, &s->waiter, m);
    if (s->life == LH_CLIENT_SESSION_OVER) {
        send_close(s);
        return;
    }
    s->first_stamp = s->last_stamp = s->shown_stamp = c->now.ns;
    if (LH_PLANTED("session-renewed-before-shown") && s->life == LH_CLIENT_SESSION_LIVE)
        lh_client_session_renew(s, s->last_stamp, s->term.ns / 10 * 9);
    s->phase = LH_CLIENT_STREAM_SHOWING;
    lh_client_session_show(s);
    bool renews = s->life == LH_CLIENT_SESSION_LIVE;
    if (renews && s->in_pieces)
        lh_client_attach_beat(s); /* before the master has much to do */
    else if (renews)
        lh_timer_set(&c->timers, &s->beat, lh_instant_add(c->now, s->beat_every));
    lh_client_session_show_next(s);
    asked(s);
}

void lh_client_attach_beat(struct lh_client_session *s)
{
    struct lh_client_host *c = s->client;
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Beat beat = LEASEHOLD__BEAT__INIT;

    s->beat_wanted = false;
    beat.stamp = s->last_stamp = c->now.ns;
    beat.last_stamp = s->answered_stamp;
    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_BEAT;
    m.beat = &beat;
    send(s, &m);
    lh_timer_set(&c->timers, &s->beat, lh_instant_add(c->now, s->beat_every));
    lh_client_users(s)->beat(s, beat.stamp);
    asked(s);
}

static void send_beat(void *core, struct lh_timer *timer)
{
    struct lh_client_session *s = LH_OWNER(timer, struct lh_client_session, beat);

    (void)core;
    if (!lh_client_session_expires(s))
        lh_client_attach_beat(s);
}

static void shown(struct lh_client_session *s, const Leasehold__Shown *m)
{
    struct lh_client_host *c = s->client;

    if (m->stamp != s->shown_stamp)
        return; /* of no showing on this stream */
    heard(s, false);
    s->phase = LH_CLIENT_STREAM_UP;
    lh_client_session_touch(s); /* for what was to wait until now */
    lh_timer_set(
        &c->timers, &s->beat, lh_instant_add((struct lh_instant){s->last_stamp}, s->beat_every));
    lh_client_session_shown(s, m);
}

/* PS-2a: the master knows that it is there, and not yet what it has. */
static void awaited(struct lh_client_session *s, const Leasehold__BeatReply *m)
{
    if (s->life != LH_CLIENT_SESSION_LIVE || !lh_client_session_renew(s, m->stamp, m->term_ns))
        return;
    LH_MARK("session-renewed-while-it-shows");
    heard(s, true);
}

static void beat_reply(struct lh_client_session *s, const Leasehold__BeatReply *m)
{
    int error = lh_error_from_wire(m->error);

    if (error == LH_ERR_UNKNOWN_SESSION) {
        lh_client_session_lose(s);
        return;
    }
    if (error != LH_OK) {
        lh_client_attach_failed(s, error, NULL);
        return;
    }
    if (s->phase == LH_CLIENT_STREAM_SHOWING) {
        awaited(s, m);
        return;
    }
    if (!lh_client_session_renew(s, m->stamp, m->term_ns))
        return;
    heard(s, s->answered_stamp < s->last_stamp);
    lh_client_active_acts(s->client, &s->waiter, 0);
    lh_client_users(s)->beat_answered(s, m);
}

static void message(void *core, struct lh_link *link, const void *reply, struct lh_buf *payload)
{
    struct lh_client_session *s = LH_OWNER(link, struct lh_client_session, link);
    const Leasehold__LeaseSessionReply *m = reply;

    (void)core;
    (void)payload;
    if (lh_client_session_expires(s))
        return;
    if (m->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING &&
        s->phase == LH_CLIENT_STREAM_ATTACHED)
        greeting(s, m->greeting);
    else if (m->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN &&
             s->phase == LH_CLIENT_STREAM_SHOWING)
        shown(s, m->shown);
    else if (m->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT &&
             (s->phase == LH_CLIENT_STREAM_UP || s->phase == LH_CLIENT_STREAM_SHOWING))
        beat_reply(s, m->beat);
    else if (m->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS &&
             s->phase == LH_CLIENT_STREAM_UP)
        lh_client_users(s)->answered(s, m->answers);
}

static void sent(void *core, struct lh_link *link)
{
    struct lh_client_session *s = LH_OWNER(link, struct lh_client_session, link);

    (void)core;
    if (!lh_client_session_show_next(s))
        lh_client_ops_left(s);
}

/* Asking again cannot help. */
static bool is_final(int error)
{
    return error == LH_ERR_INVALID_ARGUMENT || error == LH_ERR_NO_MEMORY ||
           error == LH_ERR_UNIMPLEMENTED || error == LH_ERR_MALFORMED ||
           error == LH_ERR_TOO_LARGE || error == LH_ERR_PERMISSION;
}

static void closed(void *core, struct lh_link *link, int error, const char *text)
{
    struct lh_client_session *s = LH_OWNER(link, struct lh_client_session, link);
    bool unknown = error == LH_ERR_UNKNOWN_SESSION && s->greeted;

    (void)core;
    if (s->life == LH_CLIENT_SESSION_OVER) {
        if (unknown || (error == LH_OK && s->phase == LH_CLIENT_STREAM_CLOSING)) {
            forget_stream(s);
            lh_client_session_known_closed(s);
            return;
        }
    } else if (unknown) {
        lh_client_session_lose(s);
        return;
    } else if (!s->greeted && is_final(error)) {
        lh_client_session_refused(s, error, text);
        return;
    }
    lh_client_attach_failed(s, error == LH_OK ? LH_ERR_UNAVAILABLE : error, text);
}

static const struct lh_link_user session_links = {
    .message = message, .sent = sent, .closed = closed};

void lh_client_attach_init(struct lh_client_session *s)
{
    s->link.user = &session_links;
    s->waiter.go_on = go_on;
    s->waiter.elsewhere = elsewhere;
    s->retry.fire = retry;
    s->beat.fire = send_beat;
    s->asked = LH_INSTANT_NEVER;
    s->phase = LH_CLIENT_STREAM_NONE;
}
