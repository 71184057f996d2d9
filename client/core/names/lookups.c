/* Looking up files from memory (VAL-7). Entries, leases, drops and showings are those of values
 * (values.c, cache.c): a path's entry has the name ":" and the path. */
#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "client/core/names/cache.h"
#include "client/core/names/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lh_client_lookups_init(struct lh_client_names *n, const struct lh_client_config *config)
{
    struct lh_client_lookups *l = &n->lookups;

    l->host = lh_strdup(config->lookups_host == NULL ? "" : config->lookups_host);
    l->process = lh_strdup(config->lookups_process == NULL ? "" : config->lookups_process);
}

void lh_client_lookups_deinit(struct lh_client_names *n)
{
    free(n->lookups.host);
    free(n->lookups.process);
}

/* ---- The session. */

static void end_ending(struct lh_client_names *n, int error)
{
    struct lh_lookups_end_call *call = n->lookups.ending;

    n->lookups.ending = NULL;
    if (call != NULL)
        lh_client_complete(n->client, &call->call, error, NULL);
}

static void session_opened(struct lh_call *call, int error)
{
    struct lh_client_names *n = call->owner;
    struct lh_client_lookups *l = &n->lookups;

    if (error == LH_OK) {
        l->state = LH_LOOKUPS_UP;
        l->session = l->opening.session;
    } else {
        l->state = LH_LOOKUPS_NONE;
        l->rest_until = lh_instant_add(n->client->now, n->client->config.silent_min);
        end_ending(n, LH_OK); /* nothing is cached in it */
    }
}

static void session_closed(struct lh_call *call, int error)
{
    struct lh_client_names *n = call->owner;

    n->lookups.state = LH_LOOKUPS_NONE;
    end_ending(n, error);
}

static void open_session(struct lh_client_names *n)
{
    struct lh_client_lookups *l = &n->lookups;

    if (lh_instant_before(n->client->now, l->rest_until))
        return;
    l->state = LH_LOOKUPS_OPENING;
    l->opening = (struct lh_session_open_call){
        .call = {.kind = LH_CALL_SESSION_OPEN, .owner = n, .completed = session_opened},
        .host = l->host,
        .process = l->process,
        .label = "lookups of files",
        .lookups = true,
        .deadline = lh_instant_add(n->client->now, n->client->config.silent_max),
    };
    lh_client_session_open(n->sessions, &l->opening);
}

static void close_session(struct lh_client_names *n)
{
    struct lh_client_lookups *l = &n->lookups;

    lh_client_hints_clear(n);
    l->state = LH_LOOKUPS_CLOSING;
    l->closing = (struct lh_session_close_call){
        .call = {.kind = LH_CALL_SESSION_CLOSE, .owner = n, .completed = session_closed},
        .session = l->session,
        .deadline = l->ending != NULL
                        ? l->ending->deadline
                        : lh_instant_add(n->client->now, n->client->config.silent_max),
    };
    l->session = NULL;
    lh_client_session_close(&l->closing);
}

void lh_client_lookups_end(struct lh_client_names *n, struct lh_lookups_end_call *call)
{
    struct lh_client_lookups *l = &n->lookups;

    LH_ASSERT(l->ending == NULL);
    l->ended = true;
    if (l->state == LH_LOOKUPS_NONE || l->state == LH_LOOKUPS_OPENING) {
        lh_client_complete(n->client, &call->call, LH_OK, NULL); /* nothing is cached */
        return;
    }
    l->ending = call;
    if (l->state == LH_LOOKUPS_UP)
        close_session(n);
}

void lh_client_lookups_stop(struct lh_client_names *n, bool complete)
{
    struct lh_client_lookups *l = &n->lookups;

    l->ended = true;
    l->state = LH_LOOKUPS_NONE;
    l->session = NULL;
    lh_client_hints_clear(n);
    if (!complete)
        l->ending = NULL;
    end_ending(n, LH_ERR_CANCELLED);
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
static bool is_valid(struct lh_client_names *n)
{
    struct lh_client_lookups *l = &n->lookups;

    if (l->state == LH_LOOKUPS_NONE && !l->ended)
        open_session(n);
    if (l->state != LH_LOOKUPS_UP)
        return false;
    if (LH_PLANTED("lookup-served-after-its-session"))
        return true;
    lh_client_session_expires(l->session);
    if (l->session->life == LH_CLIENT_SESSION_LIVE)
        return true;
    LH_MARK("lookups-session-lost");
    close_session(n); /* the next lookup opens another one */
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

bool lh_client_lookup(struct lh_client_names *n, const char *path, struct lh_client_found *found)
{
    char name[LH_CLIENT_NAME_BYTES_MAX + 2];

    if (n->client->config.lookups_max == 0 || path[0] != '/' ||
        strlen(path) > LH_CLIENT_NAME_BYTES_MAX || !is_valid(n))
        return false;
    struct lh_client_session *s = n->lookups.session;
    struct lh_client_cached *e = current(s, path, n->client->now, found);
    if (e == NULL || lh_instant_reached(n->client->now, e->renew_at)) {
        snprintf(name, sizeof name, ":%s", path);
        lh_client_read_aside(s, name);
    }
    if (e == NULL)
        return false;
    LH_MARK("file-opened-from-cache");
    atomic_store_explicit(&e->used, true, memory_order_relaxed);
    return true;
}

bool lh_client_lookups_know(const struct lh_client_names *n, const char *path,
    struct lh_instant now, struct lh_client_found *found)
{
    const struct lh_client_session *s = n->lookups.session;

    if (n->lookups.state != LH_LOOKUPS_UP || strlen(path) > LH_CLIENT_NAME_BYTES_MAX ||
        (!lh_instant_before(now, s->valid_until) && !LH_PLANTED("lookup-served-after-its-session")))
        return false;
    return current(s, path, now, found) != NULL;
}

void lh_client_lookups_check(const struct lh_client_names *n)
{
    const struct lh_client_lookups *l = &n->lookups;

    LH_ASSERT((l->session != NULL) == (l->state == LH_LOOKUPS_UP));
    LH_ASSERT(l->session == NULL || l->session->lookups);
    LH_ASSERT(l->ending == NULL || l->ended);
    lh_client_hints_check(n);
}
