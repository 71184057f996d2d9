/* The library: sessions. The core keeps them; here is what the program hears of them, in the
 * callback thread: one event at a time, and the next one is asked for when it has been handled. */
#include "client/library/programs.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A call that waits for others is asked again after this. */
#define CALL_WAIT_MS 60000u

bool lh_session_is_usable(const struct lh_session *s)
{
    return s != NULL && !lh_is_inherited(s->cluster) &&
           !atomic_load_explicit(&s->closing, memory_order_acquire);
}

int lh_session_check(const struct lh_session *s)
{
    if (s == NULL)
        return lh_missing("session");
    if (lh_process_check(s->cluster) != LH_OK)
        return LH_ERR_CLOSED;
    if (!lh_session_is_usable(s))
        return lh_fail(LH_ERR_CLOSED, "the session is being closed");
    return LH_OK;
}

bool lh_session_enter(struct lh_session *s)
{
    pthread_mutex_lock(&s->mutex);
    bool open = !s->closing;
    s->running = open;
    pthread_mutex_unlock(&s->mutex);
    return open;
}

void lh_session_leave(struct lh_session *s)
{
    pthread_mutex_lock(&s->mutex);
    s->running = false;
    pthread_cond_broadcast(&s->quiet);
    pthread_mutex_unlock(&s->mutex);
}

uint64_t lh_wait_ms(uint64_t timeout_ms)
{
    uint64_t ms = timeout_ms < CALL_WAIT_MS ? timeout_ms : CALL_WAIT_MS;

    return ms - ms / 8;
}

/* ---- Events. ---- */

static void set_state(struct lh_session *s, enum lh_session_state state)
{
    pthread_mutex_lock(&s->mutex);
    s->state = state;
    pthread_mutex_unlock(&s->mutex);
    if (s->options.on_state != NULL)
        s->options.on_state(s->options.on_state_arg, s, state);
}

static void recalled(struct lh_session *s, bool cancelled)
{
    struct lh_held h;

    if (lh_held_find(s, s->event.lock, &h) && h.options.on_recall != NULL)
        h.options.on_recall(h.options.arg, &h.lock, cancelled, s->event.call.text);
}

static void lost(struct lh_session *s)
{
    struct lh_held h;

    if (lh_held_take(s, s->event.lock, &h) && h.options.on_lost != NULL)
        h.options.on_lost(h.options.arg, &h.lock);
}

static void handle(struct lh_session *s)
{
    switch (s->event.event) {
    case LH_CLIENT_SUSPENDED:
        set_state(s, LH_SESSION_SUSPENDED);
        break;
    case LH_CLIENT_RESUMED:
        set_state(s, LH_SESSION_ACTIVE);
        break;
    case LH_CLIENT_EXPIRED:
        set_state(s, LH_SESSION_EXPIRED);
        break;
    case LH_CLIENT_LOST:
        set_state(s, LH_SESSION_LOST);
        break;
    case LH_CLIENT_RECALLED:
    case LH_CLIENT_CUT:
        recalled(s, s->event.event == LH_CLIENT_CUT);
        break;
    case LH_CLIENT_LOCK_LOST:
        lost(s);
        break;
    }
}

static void end_events(struct lh_session *s)
{
    pthread_mutex_lock(&s->mutex);
    s->over = true;
    pthread_cond_broadcast(&s->quiet);
    pthread_mutex_unlock(&s->mutex);
}

static void await_event(struct lh_session *s)
{
    s->event = (struct lh_session_event_call){
        .call = {.kind = LH_CALL_SESSION_EVENT, .owner = s}, .session = s->core};
    if (!lh_loop_call(s->cluster->loop, &s->event.call))
        end_events(s);
}

static void run_event(struct lh_task *task)
{
    struct lh_session *s = LH_OWNER(task, struct lh_session, task);

    if (s->event_error != LH_OK || !lh_session_enter(s)) {
        end_events(s);
        return;
    }
    handle(s);
    await_event(s);
    lh_session_leave(s);
}

void lh_session_event_completed(struct lh_session_event_call *call, int error)
{
    struct lh_session *s = call->call.owner;

    s->event_error = error;
    s->task.run = run_event;
    lh_cluster_task(s->cluster, &s->task);
}

/* ---- Opening and closing. ---- */

/* "4711 backup"; whatever the file is called, the master takes it. */
void lh_describe_process(char host[LH_SHOWN_BYTES], char process[LH_SHOWN_BYTES])
{
    int n = snprintf(process, LH_SHOWN_BYTES, "%ld ", (long)getpid());

    (void)lh_text_show(process + n, LH_SHOWN_BYTES - (size_t)n, program_invocation_short_name);
    host[0] = host[LH_SHOWN_BYTES - 1] = '\0';
    (void)gethostname(host, LH_SHOWN_BYTES - 1);
}

static void init(struct lh_session *s, struct lh_cluster *cluster,
    const struct lh_session_options *options, struct lh_client_session *core)
{
    const uint8_t *id = lh_client_session_id(core);

    s->cluster = cluster;
    s->core = core;
    s->options = *options;
    s->options.label = NULL; /* the caller's */
    for (unsigned i = 0; i < 16; i++)
        snprintf(s->id + 2 * i, 3, "%02x", id[i]);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->quiet, NULL);
}

int lh_session_open(struct lh_cluster *cluster, const struct lh_session_options *options,
    uint64_t timeout_ms, struct lh_session **session)
{
    struct lh_session_options o = options == NULL ? (struct lh_session_options){0} : *options;
    char host[LH_SHOWN_BYTES], process[LH_SHOWN_BYTES], name[LH_SHOWN_BYTES];

    if (cluster == NULL || session == NULL)
        return lh_missing(cluster == NULL ? "cluster" : "session");
    if (o.term_ms > LH_SESSION_TERM_MAX)
        return lh_fail(
            LH_ERR_INVALID_ARGUMENT, "the term is %" PRIu64 " ms; it is at most 60 s", o.term_ms);
    lh_describe_process(host, process);
    (void)lh_text_show(name, sizeof name, program_invocation_short_name);
    struct lh_session_open_call call = {
        .call.kind = LH_CALL_SESSION_OPEN,
        .term_ms = o.term_ms,
        .host = host,
        .process = process,
        .label = o.label != NULL ? o.label : name,
        .deadline = lh_deadline(timeout_ms),
    };
    int error = lh_call_wait(cluster, &call.call);
    if (error != LH_OK)
        return error;
    struct lh_session *s = lh_alloc(sizeof *s);
    init(s, cluster, &o, call.session);
    *session = s;
    await_event(s);
    return LH_OK;
}

/* No callback of it is running, and none begins that may still use it. */
static void begin_closing(struct lh_session *s)
{
    pthread_mutex_lock(&s->mutex);
    atomic_store(&s->closing, true);
    while (s->running)
        pthread_cond_wait(&s->quiet, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

/* All that the callback thread has of it is done. */
static void await_quiet(struct lh_session *s)
{
    pthread_mutex_lock(&s->mutex);
    while (!s->over || s->pending > 0)
        pthread_cond_wait(&s->quiet, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

void lh_session_close(struct lh_session *s, uint64_t timeout_ms)
{
    if (s == NULL)
        return;
    if (!lh_is_inherited(s->cluster)) {
        LH_ASSERT(!lh_in_callback());
        begin_closing(s);
        struct lh_session_close_call call = {
            .call.kind = LH_CALL_SESSION_CLOSE,
            .session = s->core,
            .deadline = lh_deadline(timeout_ms),
        };
        (void)lh_call_wait(s->cluster, &call.call);
        await_quiet(s);
        pthread_mutex_destroy(&s->mutex);
        pthread_cond_destroy(&s->quiet);
    }
    lh_held_clear(s);
    free(s);
}

uint64_t lh_session_left_ms(const struct lh_session *s)
{
    if (!lh_session_is_usable(s))
        return 0;
    pthread_mutex_lock(&s->cluster->guard);
    struct lh_duration left = lh_client_session_left(s->core, lh_clock_now());
    pthread_mutex_unlock(&s->cluster->guard);
    return left.ns / 1000000;
}

const char *lh_session_id(const struct lh_session *s)
{
    return s == NULL ? "" : s->id;
}
