/* The life of a session: opened, renewed, suspended, expired, lost, closed (PS-1, PS-3, NL-3). When
 * its term runs out on this clock, what is held in it is lost for ever, whatever a master says
 * later. The session itself is over when a master says so. */
#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/session/internal.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static void free_session(struct lh_client_session *s)
{
    struct lh_client_sessions *all = s->sessions;
    struct lh_client_host *c = s->client;

    lh_client_attach_end(s);
    lh_timer_unset(&c->timers, &s->deadline);
    lh_timer_unset(&c->timers, &s->state);
    lh_client_events_deinit(s);
    all->users->freed(s);
    lh_outbox_forget(&all->touched, &s->outbox);
    DL_DELETE(all->all, s);
    all->count--;
    free(s->host);
    free(s->process);
    free(s->label);
    free(s);
}

/* ---- What can be done in it now. */

struct lh_duration lh_client_session_left(const struct lh_client_session *s, struct lh_instant now)
{
    return lh_instant_until(now, s->valid_until);
}

const uint8_t *lh_client_session_id(const struct lh_client_session *s)
{
    return s->id;
}

/* The next moment at which the program is to hear of something. */
static void set_state_timer(struct lh_client_session *s)
{
    struct lh_client_host *c = s->client;
    struct lh_duration third = {s->term.ns / 3};
    struct lh_duration silent =
        c->config.suspended_after.ns != 0 ? c->config.suspended_after : third;
    struct lh_instant at = s->valid_until;

    /* A heartbeat followed the one that was answered last. */
    if (!s->suspended)
        at = lh_instant_min(at, lh_instant_add((struct lh_instant){s->answered_stamp},
                                    lh_duration_add(s->beat_every, silent)));
    if (LH_PLANTED("lost-lock-shown"))
        at = lh_instant_max(at, lh_instant_add(c->now, s->term));
    lh_timer_set(&c->timers, &s->state, at);
}

static void state_changes(void *core, struct lh_timer *timer)
{
    struct lh_client_session *s = LH_OWNER(timer, struct lh_client_session, state);

    (void)core;
    if (lh_client_session_expires(s))
        return;
    if (!s->suspended) {
        LH_MARK("session-suspended");
        s->suspended = true;
        lh_client_event_add(s, LH_CLIENT_SUSPENDED, 0, 0,
            s->text[0] != '\0' && s->phase != LH_CLIENT_STREAM_UP ? s->text
                                                                  : "the master does not answer");
    }
    set_state_timer(s);
}

bool lh_client_session_sent(const struct lh_client_session *s, uint64_t stamp)
{
    return s->first_stamp != 0 && stamp >= s->first_stamp && stamp <= s->last_stamp;
}

static void opened(struct lh_client_session *s)
{
    struct lh_session_open_call *call = s->opening;

    s->life = LH_CLIENT_SESSION_LIVE;
    s->opening = NULL;
    lh_timer_unset(&s->client->timers, &s->deadline);
    call->session = s;
    lh_client_complete(s->client, &call->call, LH_OK, NULL);
}

/* PS-3: a master had its record, and has heard that nothing is held in it. */
static void go_on(struct lh_client_session *s)
{
    LH_MARK("session-goes-on-after-expiry");
    s->life = LH_CLIENT_SESSION_LIVE;
}

bool lh_client_session_renew(struct lh_client_session *s, uint64_t stamp, uint64_t term_ns)
{
    struct lh_client_host *c = s->client;

    if (!lh_client_session_sent(s, stamp))
        return false;
    struct lh_instant sent_at = {stamp};
    if (LH_PLANTED("session-counted-from-answer"))
        sent_at = c->now;
    struct lh_instant end = lh_term_holder_end(sent_at, lh_nanoseconds(term_ns));
    if (stamp > s->answered_stamp)
        s->answered_stamp = stamp;
    if (lh_instant_before(c->now, end)) {
        lh_client_guard(c);
        s->valid_until = lh_instant_max(s->valid_until, end);
        lh_client_unguard(c);
        if (s->life == LH_CLIENT_SESSION_OPENING)
            opened(s);
        else if (s->life == LH_CLIENT_SESSION_EXPIRED)
            go_on(s);
    }
    if (s->life != LH_CLIENT_SESSION_LIVE)
        return true;
    if (s->suspended) {
        s->suspended = false;
        lh_client_event_add(s, LH_CLIENT_RESUMED, 0, 0, "the master answers again");
    }
    set_state_timer(s);
    return true;
}

/* ---- The end. */

/* What was held and cached in it is gone. */
static void empty(struct lh_client_session *s, const char *why)
{
    struct lh_client_host *c = s->client;

    lh_client_guard(c);
    s->valid_until = (struct lh_instant){0};
    lh_client_users(s)->emptied(s, why);
    lh_client_unguard(c);
    lh_timer_unset(&c->timers, &s->state);
}

/* So is what waits in it. */
static void end(struct lh_client_session *s, int error, const char *why)
{
    empty(s, why);
    s->life = LH_CLIENT_SESSION_OVER;
    lh_client_users(s)->ended(s, true, error, why);
}

void lh_client_session_lose(struct lh_client_session *s)
{
    const char *why = "the master does not know the session any more";

    if (s->life == LH_CLIENT_SESSION_OVER)
        return;
    if (s->life == LH_CLIENT_SESSION_OPENING) {
        s->greeted = false; /* nothing is held in it: it is begun again */
        lh_client_attach_failed(s, LH_ERR_UNKNOWN_SESSION, why);
        return;
    }
    LH_MARK("session-lost");
    end(s, LH_ERR_CLOSED, why);
    lh_client_event_add(s, LH_CLIENT_LOST, 0, 0, why);
    lh_client_attach_end(s);
}

bool lh_client_session_expires(struct lh_client_session *s)
{
    const char *why = "no answer came for the session's term";

    if (s->life != LH_CLIENT_SESSION_LIVE || !lh_instant_reached(s->client->now, s->valid_until))
        return false;
    if (LH_PLANTED("lost-lock-shown"))
        return false;
    LH_MARK("session-expired");
    empty(s, why);
    s->life = LH_CLIENT_SESSION_EXPIRED;
    s->suspended = true;
    lh_client_event_add(s, LH_CLIENT_EXPIRED, 0, 0, why);
    lh_client_attach_again(s); /* what was shown on the present stream is held no more */
    return true;
}

bool lh_client_session_refuses(struct lh_client_session *s, struct lh_call *call)
{
    lh_client_session_expires(s);
    if (s->life != LH_CLIENT_SESSION_OVER)
        return false;
    lh_client_complete(s->client, call, LH_ERR_CLOSED, "the session is over");
    return true;
}

static void fail_opening(struct lh_client_session *s, int error, const char *text)
{
    struct lh_session_open_call *call = s->opening;
    struct lh_client_host *c = s->client;

    call->session = NULL;
    lh_client_complete(c, &call->call, error, text);
    free_session(s);
}

void lh_client_session_refused(struct lh_client_session *s, int error, const char *text)
{
    fail_opening(s, error, text);
}

static void end_closing(struct lh_client_session *s, int error, const char *text)
{
    struct lh_session_close_call *call = s->closing;
    struct lh_client_host *c = s->client;

    free_session(s);
    lh_client_complete(c, &call->call, error, text);
}

void lh_client_session_known_closed(struct lh_client_session *s)
{
    end_closing(s, LH_OK, NULL);
}

static void out_of_time(void *core, struct lh_timer *timer)
{
    struct lh_client_session *s = LH_OWNER(timer, struct lh_client_session, deadline);
    const char *refused = ((struct lh_client_host *)core)->active.refused;

    if (s->opening != NULL && refused != NULL)
        fail_opening(s, LH_ERR_PERMISSION, refused);
    else if (s->opening != NULL)
        fail_opening(s, s->reason != LH_OK ? s->reason : LH_ERR_DEADLINE_EXCEEDED,
            s->text[0] != '\0' ? s->text : "no master has greeted the session in time");
    else
        end_closing(s, LH_ERR_DEADLINE_EXCEEDED, "the master has not answered in time");
}

/* ---- All of them. */

struct lh_client_sessions *lh_client_sessions_create(struct lh_client_host *c)
{
    struct lh_client_sessions *all = lh_alloc(sizeof *all);

    all->client = c;
    all->ids.state = lh_mix64(c->config.seed ^ UINT64_C(0x73657373696f6e));
    return all;
}

void lh_client_sessions_serve(
    struct lh_client_sessions *all, const struct lh_client_session_users *users, void *self)
{
    all->users = users;
    all->self = self;
}

void lh_client_sessions_destroy(struct lh_client_sessions *all)
{
    free(all);
}

/* ---- Calls. */

static void draw_id(struct lh_client_sessions *all, uint8_t *id)
{
    do {
        for (unsigned i = 0; i < 2; i++) {
            uint64_t bits = lh_prng_next(&all->ids);
            memcpy(id + 8 * i, &bits, sizeof bits);
        }
    } while (memcmp(id, (uint8_t[16]){0}, 16) == 0);
}

static char *text_or_none(const char *text)
{
    return lh_strdup(text == NULL ? "" : text);
}

void lh_client_session_open(struct lh_client_sessions *all, struct lh_session_open_call *call)
{
    struct lh_client_host *c = all->client;

    call->session = NULL;
    if (all->count == c->config.sessions) {
        lh_client_complete(c, &call->call, LH_ERR_NO_MEMORY, "this program has too many sessions");
        return;
    }
    struct lh_client_session *s = lh_alloc(sizeof *s);
    s->client = c;
    s->sessions = all;
    draw_id(all, s->id);
    s->wanted_term_ms = call->term_ms;
    s->host = text_or_none(call->host);
    s->process = text_or_none(call->process);
    s->label = text_or_none(call->label);
    s->lookups = call->lookups;
    s->opening = call;
    s->deadline.fire = out_of_time;
    s->state.fire = state_changes;
    DL_APPEND(all->all, s);
    all->count++;
    all->users->opened(all->self, s);
    lh_client_attach_init(s);
    lh_timer_set(&c->timers, &s->deadline, call->deadline);
    lh_client_attach(s);
}

/* From now on the program hears of nothing. */
static struct lh_session_event_call *take_events(struct lh_client_session *s)
{
    struct lh_session_event_call *call = s->event_call;

    s->event_call = NULL;
    return call;
}

void lh_client_session_close(struct lh_session_close_call *call)
{
    struct lh_client_session *s = call->session;
    struct lh_client_host *c = s->client;
    struct lh_session_event_call *events = take_events(s);
    const char *why = "the session is being closed";

    s->closing = call;
    if (s->life != LH_CLIENT_SESSION_OVER)
        end(s, LH_ERR_CANCELLED, why);
    if (events != NULL)
        lh_client_complete(c, &events->call, LH_ERR_CANCELLED, why);
    if (s->phase == LH_CLIENT_STREAM_NONE) { /* it is lost: no master has it */
        end_closing(s, LH_OK, NULL);
        return;
    }
    lh_timer_set(&c->timers, &s->deadline, call->deadline);
    lh_client_attach_close(s);
}

void lh_client_sessions_end(struct lh_client_sessions *all, bool complete)
{
    struct lh_client_host *c = all->client;
    const char *why = "the cluster is being closed";

    while (all->all != NULL) {
        struct lh_client_session *s = all->all;
        struct lh_session_event_call *events = take_events(s);
        empty(s, why);
        all->users->ended(s, complete, LH_ERR_CANCELLED, why);
        if (complete && events != NULL)
            lh_client_complete(c, &events->call, LH_ERR_CANCELLED, why);
        if (complete && s->opening != NULL)
            lh_client_complete(c, &s->opening->call, LH_ERR_CANCELLED, why);
        if (complete && s->closing != NULL)
            lh_client_complete(c, &s->closing->call, LH_ERR_CANCELLED, why);
        free_session(s);
    }
}

void lh_client_sessions_check(const struct lh_client_sessions *all)
{
    const struct lh_client_host *c = all->client;
    size_t count = 0;

    LH_ASSERT(c->guards == 0 && all->touched == NULL);
    for (const struct lh_client_session *s = all->all; s != NULL; s = s->next, count++) {
        bool live = s->life == LH_CLIENT_SESSION_LIVE;
        bool linked = s->phase >= LH_CLIENT_STREAM_ATTACHED;
        LH_ASSERT((s->link.id != 0) == linked);
        LH_ASSERT((s->waiter.list == &c->active.waiting) == (s->phase == LH_CLIENT_STREAM_WAITING));
        LH_ASSERT(live == lh_timer_is_set(&s->state) || s->valid_until.ns == UINT64_MAX);
        LH_ASSERT(live || s->opening != NULL || s->valid_until.ns == 0);
        LH_ASSERT((s->opening != NULL) == (s->life == LH_CLIENT_SESSION_OPENING));
        bool expired = s->life == LH_CLIENT_SESSION_EXPIRED;
        LH_ASSERT(!expired || (s->suspended && s->phase != LH_CLIENT_STREAM_UP));
        LH_ASSERT(s->life == LH_CLIENT_SESSION_OVER || s->phase != LH_CLIENT_STREAM_NONE);
        LH_ASSERT(s->phase != LH_CLIENT_STREAM_UP || lh_timer_is_set(&s->beat));
        LH_ASSERT(s->asked.ns == UINT64_MAX || lh_timer_is_set(&s->retry));
        LH_ASSERT(s->asked.ns == UINT64_MAX || linked);
        LH_ASSERT(s->ops == NULL || s->phase == LH_CLIENT_STREAM_SHOWING ||
                  s->phase == LH_CLIENT_STREAM_UP);
        LH_ASSERT(s->stream > 0 || s->phase == LH_CLIENT_STREAM_WAITING);
        all->users->check(s);
    }
    LH_ASSERT(count == all->count);
}
