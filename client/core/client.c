/* Composes the rooms: takes an input to the one that it concerns, and runs what is due. */
#include "client/core/client.h"

#include "base/alloc.h"
#include "client/core/append/append.h"
#include "client/core/host/host.h"
#include "client/core/leases.h"
#include "client/core/names/names.h"
#include "client/core/read/read.h"
#include "client/core/session/session.h"

#include <stdlib.h>

struct lh_client {
    struct lh_client_host host;
    struct lh_client_sessions *sessions;
    struct lh_client_names *names;
    struct lh_client_appenders *appenders;
    struct lh_client_readers *readers;
};

struct lh_client *lh_client_create(const struct lh_client_config *config)
{
    struct lh_client *c = lh_alloc(sizeof *c);

    lh_client_host_init(&c->host, config);
    c->sessions = lh_client_sessions_create(&c->host);
    c->names = lh_client_names_create(&c->host, c->sessions, config);
    c->appenders = lh_client_appenders_create(&c->host, c->names);
    c->readers = lh_client_readers_create(&c->host, c->names);
    return c;
}

void lh_client_destroy(struct lh_client *c)
{
    struct lh_effects dropped = {0};

    if (c == NULL)
        return;
    c->host.fx = &dropped;
    lh_client_appenders_end(c->appenders, false);
    lh_client_appenders_end_streams(c->appenders);
    lh_client_readers_end(c->readers, false);
    lh_client_questions_end(&c->host, false);
    lh_client_masters_end(&c->host, false);
    lh_client_lookups_stop(c->names, false);
    lh_client_sessions_end(c->sessions, false);
    lh_client_watches_end(c->names, false);
    lh_client_active_stop(&c->host);
    lh_effects_deinit(&dropped);
    lh_client_readers_destroy(c->readers);
    lh_client_appenders_destroy(c->appenders);
    lh_client_names_destroy(c->names);
    lh_client_sessions_destroy(c->sessions);
    lh_client_host_deinit(&c->host);
    free(c);
}

/* ---- Dispatch ---- */

static void begin_call(struct lh_client *c, struct lh_call *call)
{
    if (c->host.stopped) {
        lh_client_complete(&c->host, call, LH_ERR_CLOSED, "the cluster is being closed");
        return;
    }
    switch (call->kind) {
    case LH_CALL_MASTER:
        lh_client_master_ask(&c->host, (struct lh_master_call *)call);
        break;
    case LH_CALL_APPENDER_OPEN:
        lh_client_appender_open(c->appenders, (struct lh_appender_open_call *)call);
        break;
    case LH_CALL_APPENDER_CLOSE:
        lh_client_appender_close((struct lh_appender_close_call *)call);
        break;
    case LH_CALL_SUBMIT:
        lh_client_appender_submit((struct lh_submit_call *)call);
        break;
    case LH_CALL_READER_OPEN:
        lh_client_reader_open(c->readers, (struct lh_reader_open_call *)call);
        break;
    case LH_CALL_READER_CLOSE:
        lh_client_reader_close((struct lh_reader_close_call *)call);
        break;
    case LH_CALL_FETCH:
        lh_client_reader_fetch((struct lh_fetch_call *)call);
        break;
    case LH_CALL_SERVER:
        lh_client_server_ask(&c->host, (struct lh_server_call *)call);
        break;
    case LH_CALL_KNOWN_MASTERS:
        lh_client_active_list(&c->host, (struct lh_known_masters_call *)call);
        break;
    case LH_CALL_SESSION_OPEN:
        lh_client_session_open(c->sessions, (struct lh_session_open_call *)call);
        break;
    case LH_CALL_SESSION_CLOSE:
        lh_client_session_close((struct lh_session_close_call *)call);
        break;
    case LH_CALL_SESSION_EVENT:
        lh_client_event_fetch((struct lh_session_event_call *)call);
        break;
    case LH_CALL_ACQUIRE:
        lh_client_acquire((struct lh_acquire_call *)call);
        break;
    case LH_CALL_WITHDRAW:
        lh_client_acquire_withdraw((struct lh_withdraw_call *)call);
        break;
    case LH_CALL_RELEASE:
        lh_client_release((struct lh_release_call *)call);
        break;
    case LH_CALL_YIELD:
        lh_client_yield((struct lh_yield_call *)call);
        break;
    case LH_CALL_GET:
        lh_client_get((struct lh_get_call *)call);
        break;
    case LH_CALL_WATCH_OPEN:
        lh_client_watch_open(c->names, (struct lh_watch_open_call *)call);
        break;
    case LH_CALL_WATCH_NEXT:
        lh_client_watch_next((struct lh_watch_next_call *)call);
        break;
    case LH_CALL_WATCH_CLOSE:
        lh_client_watch_close((struct lh_watch_close_call *)call);
        break;
    case LH_CALL_LOOKUPS_END:
        lh_client_lookups_end(c->names, (struct lh_lookups_end_call *)call);
        break;
    }
}

static void stop(struct lh_client *c)
{
    if (c->host.stopped)
        return;
    c->host.stopped = true;
    lh_client_appenders_end(c->appenders, true);
    lh_client_readers_end(c->readers, true);
    lh_client_questions_end(&c->host, true);
    lh_client_masters_end(&c->host, true);
    lh_client_lookups_stop(c->names, true);
    lh_client_sessions_end(c->sessions, true);
    lh_client_watches_end(c->names, true);
    lh_client_active_stop(&c->host);
    lh_client_appenders_end_streams(c->appenders);
    lh_fx_stopped(c->host.fx, LH_OK);
}

void lh_client_step(struct lh_client *c, struct lh_input *in, struct lh_effects *fx)
{
    c->host.now = in->now;
    c->host.fx = fx;
    switch (in->kind) {
    case LH_IN_MESSAGE:
    case LH_IN_PROGRESS:
    case LH_IN_SENT:
    case LH_IN_HALF_CLOSED:
    case LH_IN_LINK_CLOSED:
        lh_links_take(&c->host.links, &c->host, in);
        break;
    case LH_IN_CALL:
        begin_call(c, in->call);
        break;
    case LH_IN_STOP:
        stop(c);
        break;
    case LH_IN_TIMER:
    case LH_IN_LINK_OPENED: /* nothing is served here, ... */
    case LH_IN_DISK:        /* ... and nothing stored */
    case LH_IN_PERSISTED:
        break;
    }
    lh_timers_fire(&c->host.timers, &c->host, c->host.now);
    lh_client_appenders_flush(c->appenders);
    lh_client_sessions_flush(c->sessions);
    c->host.fx = NULL;
}

struct lh_instant lh_client_deadline(const struct lh_client *c)
{
    return lh_timers_next(&c->host.timers);
}

static void core_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    lh_client_step(self, in, fx);
}

static struct lh_instant core_deadline(const void *self)
{
    return lh_client_deadline(self);
}

struct lh_core lh_client_core(struct lh_client *c)
{
    return (struct lh_core){.self = c, .step = core_step, .deadline = core_deadline};
}

void lh_client_check(const struct lh_client *c)
{
    lh_client_host_check(&c->host);
    lh_client_appenders_check(c->appenders);
    lh_client_readers_check(c->readers);
    lh_client_sessions_check(c->sessions);
    lh_client_names_check(c->names);
}

bool lh_client_looked_up(
    const struct lh_client *c, const char *path, struct lh_instant now, uint64_t *file)
{
    struct lh_client_found found;

    if (!lh_client_lookups_know(c->names, path, now, &found))
        return false;
    *file = found.file;
    return true;
}
