/* The library: values. A read that the session can serve from memory costs a lookup under a
 * mutex that hardly anybody else takes; all others are the core's. */
#include "client/library/programs.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

void lh_value_free(const struct lh_value *value)
{
    if (value != NULL)
        lh_client_value_unref(lh_client_value_of(value));
}

static int no_value(const char *name)
{
    return lh_fail(LH_ERR_NOT_FOUND, "there is no value %s", name);
}

/* True: memory says it all; `*value` is NULL if there is none. */
static bool from_memory(
    const struct lh_session *s, const char *name, struct lh_client_value **value)
{
    pthread_mutex_lock(&s->cluster->guard);
    bool found = lh_client_cached(s->core, name, lh_clock_now(), value);
    pthread_mutex_unlock(&s->cluster->guard);
    return found;
}

int lh_get(
    struct lh_session *s, const char *name, uint64_t timeout_ms, const struct lh_value **value)
{
    struct lh_client_value *found;

    if (name == NULL || value == NULL)
        return lh_missing(name == NULL ? "name" : "value");
    if (!lh_session_is_here(s))
        return lh_session_check(s);
    if (!from_memory(s, name, &found)) {
        struct lh_get_call call = {
            .call.kind = LH_CALL_GET,
            .session = s->core,
            .name = name,
            .deadline = lh_deadline(timeout_ms),
        };
        int error = lh_call_wait(s->cluster, &call.call);
        if (error != LH_OK && error != LH_ERR_NOT_FOUND)
            return error;
        found = error == LH_OK ? call.value : NULL;
    }
    if (found == NULL)
        return no_value(name);
    *value = lh_client_value_view(found);
    return LH_OK;
}

int lh_get_once(struct lh_cluster *cluster, const char *name, uint64_t timeout_ms,
    const struct lh_value **value)
{
    Leasehold__GetRequest m = LEASEHOLD__GET_REQUEST__INIT;
    Leasehold__GetReply *reply;

    if (cluster == NULL || name == NULL || value == NULL)
        return lh_missing(cluster == NULL ? "cluster" : name == NULL ? "name" : "value");
    m.name = lh_wire_string(name);
    int error = lh_ask(cluster, LH_METHOD_GET, &m.base, 0, timeout_ms, &reply);
    if (error == LH_ERR_NOT_FOUND)
        error = no_value(name);
    if (error == LH_OK && reply->value == NULL)
        return lh_bad_reply(reply);
    if (error == LH_OK) {
        const Leasehold__ValueInfo *v = reply->value;
        *value = lh_client_value_view(
            lh_client_value_create(v->revision, v->value.data, v->value.len, reply->ttl_ms));
    }
    lh_free_reply(reply);
    return error;
}

/* ---- Changes. ---- */

/* The session's id, as it is sent. */
static bool session_bytes(const struct lh_session *s, ProtobufCBinaryData *to)
{
    if (!lh_session_is_here(s))
        return false;
    to->data = (uint8_t *)(uintptr_t)lh_client_session_id(s->core);
    to->len = 16;
    return true;
}

static int change(struct lh_cluster *cluster, Leasehold__ChangeRequest *m,
    const struct lh_change_options *options, uint64_t timeout_ms, uint64_t *revision)
{
    struct lh_change_options o = options == NULL ? (struct lh_change_options){0} : *options;
    Leasehold__ChangeReply *reply;

    m->if_revision = o.if_revision;
    m->revision = o.revision;
    m->lock = lh_wire_string(o.lock == NULL ? "" : o.lock);
    m->token = o.token;
    m->force = o.force;
    if (o.attach != NULL && !session_bytes(o.attach, &m->attach))
        return lh_session_check(o.attach);
    m->wait_ms = lh_wait_ms(timeout_ms);
    int error = lh_ask(cluster, LH_METHOD_CHANGE, &m->base, m->wait_ms, timeout_ms, &reply);
    if (reply != NULL && revision != NULL)
        *revision = reply->revision;
    lh_free_reply(reply);
    return error;
}

int lh_put(struct lh_cluster *cluster, const char *name, const void *data, size_t size,
    const struct lh_change_options *options, uint64_t timeout_ms, uint64_t *revision)
{
    Leasehold__ChangeRequest m = LEASEHOLD__CHANGE_REQUEST__INIT;

    if (cluster == NULL || name == NULL || (data == NULL && size > 0))
        return lh_missing(cluster == NULL ? "cluster" : name == NULL ? "name" : "data");
    if (size > LH_VALUE_BYTES_MAX)
        return lh_fail(
            LH_ERR_TOO_LARGE, "the value of %s has %zu bytes; it has at most 64 KiB", name, size);
    m.name = lh_wire_string(name);
    m.value.data = (uint8_t *)(uintptr_t)data;
    m.value.len = size;
    return change(cluster, &m, options, timeout_ms, revision);
}

int lh_delete(struct lh_cluster *cluster, const char *name, const struct lh_change_options *options,
    uint64_t timeout_ms, uint64_t *revision)
{
    Leasehold__ChangeRequest m = LEASEHOLD__CHANGE_REQUEST__INIT;

    if (cluster == NULL || name == NULL)
        return lh_missing(cluster == NULL ? "cluster" : "name");
    m.name = lh_wire_string(name);
    m.remove = true;
    return change(cluster, &m, options, timeout_ms, revision);
}
