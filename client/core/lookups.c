/* Looking up files from memory (VAL-7). Entries, leases, drops and showings are those of values
 * (values.c, cache.c): a path's entry has the name ":" and the path. */
#include "client/core/lookups.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "client/core/cache.h"
#include "client/core/hints.h"
#include "client/core/reply.h"
#include "client/core/session.h"
#include "client/core/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lh_client_lookups_init(struct lh_client *c, const struct lh_client_config *config)
{
    struct lh_client_lookups *l = &c->lookups;

    l->host = lh_strdup(config->lookups_host == NULL ? "" : config->lookups_host);
    l->process = lh_strdup(config->lookups_process == NULL ? "" : config->lookups_process);
    c->config.lookups_host = c->config.lookups_process = NULL;
}

void lh_client_lookups_deinit(struct lh_client *c)
{
    free(c->lookups.host);
    free(c->lookups.process);
}

/* ---- The session. */

static void open_session(struct lh_client *c)
{
    struct lh_client_lookups *l = &c->lookups;

    if (lh_instant_before(c->now, l->rest_until))
        return;
    l->state = LH_LOOKUPS_OPENING;
    l->opening = (struct lh_session_open_call){
        .call.kind = LH_CALL_SESSION_OPEN,
        .host = l->host,
        .process = l->process,
        .label = "lookups of files",
        .lookups = true,
        .deadline = lh_instant_add(c->now, c->config.silent_max),
    };
    lh_client_session_open(c, &l->opening);
}

static void close_session(struct lh_client *c)
{
    struct lh_client_lookups *l = &c->lookups;

    lh_client_hints_clear(c);
    l->state = LH_LOOKUPS_CLOSING;
    l->closing = (struct lh_session_close_call){
        .call.kind = LH_CALL_SESSION_CLOSE,
        .session = l->session,
        .deadline =
            l->ending != NULL ? l->ending->deadline : lh_instant_add(c->now, c->config.silent_max),
    };
    l->session = NULL;
    lh_client_session_close(&l->closing);
}

static void end_ending(struct lh_client *c, int error)
{
    struct lh_lookups_end_call *call = c->lookups.ending;

    c->lookups.ending = NULL;
    if (call != NULL)
        lh_client_complete(c, &call->call, error, NULL);
}

bool lh_client_lookups_completed(struct lh_client *c, const struct lh_call *call, int error)
{
    struct lh_client_lookups *l = &c->lookups;

    if (call == &l->opening.call && error == LH_OK) {
        l->state = LH_LOOKUPS_UP;
        l->session = l->opening.session;
    } else if (call == &l->opening.call) {
        l->state = LH_LOOKUPS_NONE;
        l->rest_until = lh_instant_add(c->now, c->config.silent_min);
        end_ending(c, LH_OK); /* nothing is cached in it */
    } else if (call == &l->closing.call) {
        l->state = LH_LOOKUPS_NONE;
        end_ending(c, error);
    } else {
        return false;
    }
    return true;
}

void lh_client_lookups_end(struct lh_client *c, struct lh_lookups_end_call *call)
{
    struct lh_client_lookups *l = &c->lookups;

    LH_ASSERT(l->ending == NULL);
    l->ended = true;
    if (l->state == LH_LOOKUPS_NONE || l->state == LH_LOOKUPS_OPENING) {
        lh_client_complete(c, &call->call, LH_OK, NULL); /* nothing is cached */
        return;
    }
    l->ending = call;
    if (l->state == LH_LOOKUPS_UP)
        close_session(c);
}

void lh_client_lookups_stop(struct lh_client *c, bool complete)
{
    struct lh_client_lookups *l = &c->lookups;

    l->ended = true;
    l->state = LH_LOOKUPS_NONE;
    l->session = NULL;
    lh_client_hints_clear(c);
    if (!complete)
        l->ending = NULL;
    end_ending(c, LH_ERR_CANCELLED);
}

/* ---- Lookups. */

static bool makes_sense(const struct lh_client_cached *e, struct lh_client_found *found)
{
    const struct lh_client_value *v = e->value;
    Leasehold__FileInfo *info =
        v == NULL ? NULL
                  : leasehold__file_info__unpack(NULL, v->view.size, (const uint8_t *)v->bytes);

    if (info == NULL)
        return false;
    *found = (struct lh_client_found){.file = info->file, .chunk_size = info->chunk_size};
    leasehold__file_info__free_unpacked(info, NULL);
    return found->file == v->view.revision && found->chunk_size >= LH_CHUNK_BYTES_MIN &&
           found->chunk_size <= LH_CHUNK_BYTES_MAX;
}

/* The session may be acted on (TIME-5): it is there, and its term is not over. */
static bool is_valid(struct lh_client *c)
{
    struct lh_client_lookups *l = &c->lookups;

    if (l->state == LH_LOOKUPS_NONE && !l->ended)
        open_session(c);
    if (l->state != LH_LOOKUPS_UP)
        return false;
    if (LH_PLANTED("lookup-served-after-its-session"))
        return true;
    lh_client_session_expires(l->session);
    if (l->session->life == LH_CLIENT_SESSION_LIVE)
        return true;
    LH_MARK("lookups-session-lost");
    close_session(c); /* the next lookup opens another one */
    return false;
}

/* The path's entry, if it may be served while the session is valid. */
static struct lh_client_cached *current(const struct lh_client_session *s, const char *path,
    struct lh_instant now, struct lh_client_found *found)
{
    char name[LH_CLIENT_NAME_BYTES_MAX + 2];

    snprintf(name, sizeof name, ":%s", path);
    struct lh_client_cached *e = lh_client_cache_find(s, name);
    return e != NULL && lh_client_cached_is_current(e, now) && makes_sense(e, found) ? e : NULL;
}

bool lh_client_lookup(struct lh_client *c, const char *path, struct lh_client_found *found)
{
    char name[LH_CLIENT_NAME_BYTES_MAX + 2];

    if (c->config.lookups_max == 0 || path[0] != '/' || strlen(path) > LH_CLIENT_NAME_BYTES_MAX ||
        !is_valid(c))
        return false;
    struct lh_client_session *s = c->lookups.session;
    struct lh_client_cached *e = current(s, path, c->now, found);
    if (e == NULL || lh_instant_reached(c->now, e->renew_at)) {
        snprintf(name, sizeof name, ":%s", path);
        lh_client_read_aside(s, name);
    }
    if (e == NULL)
        return false;
    LH_MARK("file-opened-from-cache");
    atomic_store_explicit(&e->used, true, memory_order_relaxed);
    return true;
}

bool lh_client_looked_up(
    const struct lh_client *c, const char *path, struct lh_instant now, uint64_t *file)
{
    const struct lh_client_session *s = c->lookups.session;
    struct lh_client_found found;

    if (c->lookups.state != LH_LOOKUPS_UP || strlen(path) > LH_CLIENT_NAME_BYTES_MAX ||
        (!lh_instant_before(now, s->valid_until) && !LH_PLANTED("lookup-served-after-its-session")))
        return false;
    if (current(s, path, now, &found) == NULL)
        return false;
    *file = found.file;
    return true;
}

void lh_client_lookups_check(const struct lh_client *c)
{
    const struct lh_client_lookups *l = &c->lookups;

    LH_ASSERT((l->session != NULL) == (l->state == LH_LOOKUPS_UP));
    LH_ASSERT(l->session == NULL || l->session->lookups);
    LH_ASSERT(l->ending == NULL || l->ended);
    lh_client_hints_check(c);
}
