/* grpc.health.v1: Check answers once, Watch whenever the answer changes. */
#include "base/alloc.h"
#include "grpc/batches.h"
#include "grpc/internal.h"
#include "grpc/services.h"
#include "proto/health.pb-c.h"

#include <stdlib.h>
#include <string.h>

#define CHECK "/grpc.health.v1.Health/Check"
#define WATCH "/grpc.health.v1.Health/Watch"

typedef Grpc__Health__V1__HealthCheckRequest check_request;
typedef Grpc__Health__V1__HealthCheckResponse check_response;

static struct lh_buf pack(Grpc__Health__V1__HealthCheckResponse__ServingStatus status)
{
    check_response r = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    uint8_t *to;

    r.status = status;
    struct lh_buf b =
        lh_buf_alloc(grpc__health__v1__health_check_response__get_packed_size(&r), &to);
    grpc__health__v1__health_check_response__pack(&r, to);
    return b;
}

static struct lh_buf pack_serving(bool serving)
{
    return pack(serving ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                        : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING);
}

/* From here on the link hears of changes; the present state is sent first. */
static void watch(struct lh_rpc_link *link, enum health of)
{
    struct lh_rpc *rpc = link->rpc;

    pthread_mutex_lock(&rpc->health_lock);
    pthread_mutex_lock(&rpc->lock);
    link->watching = true;
    link->watched = of;
    link->watch_next = rpc->watchers;
    if (rpc->watchers != NULL)
        rpc->watchers->watch_previous = link;
    rpc->watchers = link;
    bool serving = rpc->serving[of];
    pthread_mutex_unlock(&rpc->lock);
    lh_rpc_link_send(link, pack_serving(serving));
    pthread_mutex_unlock(&rpc->health_lock);
}

static bool is_served(const struct lh_rpc *rpc, const char *service)
{
    const char *const *s = rpc->config.services;

    for (; s != NULL && *s != NULL; s++)
        if (strcmp(*s, service) == 0)
            return true;
    return false;
}

static void health_message(struct lh_rpc_link *link, struct lh_buf bytes)
{
    struct lh_rpc *rpc = link->rpc;
    uint8_t flat[512];
    check_request *q = NULL;

    if (bytes.size <= sizeof flat && lh_buf_read(&bytes, 0, flat, bytes.size))
        q = grpc__health__v1__health_check_request__unpack(NULL, bytes.size, flat);
    lh_buf_clear(&bytes);
    if (q == NULL) {
        lh_rpc_link_close(link, LH_ERR_MALFORMED, "not a HealthCheckRequest");
        return;
    }
    enum health of = q->service[0] == '\0' ? HEALTH_SERVER : HEALTH_SERVICES;
    bool known = of == HEALTH_SERVER || is_served(rpc, q->service);
    grpc__health__v1__health_check_request__free_unpacked(q, NULL);

    if (!link->unary_reply) {
        if (known)
            watch(link, of);
        else
            lh_rpc_link_send(link,
                pack(GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN));
        return;
    }
    if (!known) {
        lh_rpc_link_close(link, LH_ERR_NOT_FOUND, "no such service");
        return;
    }
    pthread_mutex_lock(&rpc->lock);
    bool serving = rpc->serving[of];
    pthread_mutex_unlock(&rpc->lock);
    lh_rpc_link_send(link, pack_serving(serving));
    lh_rpc_link_close(link, LH_OK, NULL);
}

static void health_closed(struct lh_rpc_link *link, int error, const char *text)
{
    (void)link;
    (void)error;
    (void)text;
}

static const struct link_handler health_handler = {
    .message = health_message,
    .closed = health_closed,
};

bool lh_rpc_health_serve(
    struct lh_rpc *rpc, const struct served_call *call, const char *path, size_t size)
{
    bool check = size == strlen(CHECK) && memcmp(path, CHECK, size) == 0;
    bool watching = size == strlen(WATCH) && memcmp(path, WATCH, size) == 0;

    if (!check && !watching)
        return false;
    struct lh_rpc_link *link =
        lh_rpc_link_serve(rpc, call, LH_METHOD_NONE, true, check, &health_handler);
    lh_rpc_link_await_end(link);
    lh_rpc_link_read(link);
    lh_rpc_link_flush(link);
    lh_rpc_link_unref(link);
    return true;
}

/* The watchers of `of`, each with a reference, in a malloc'd array. With rpc->lock held. */
static struct lh_rpc_link **watchers_of(struct lh_rpc *rpc, enum health of, size_t *count)
{
    struct lh_rpc_link **all = NULL;
    size_t capacity = 0;

    *count = 0;
    for (struct lh_rpc_link *l = rpc->watchers; l != NULL; l = l->watch_next) {
        if (l->watched != of)
            continue;
        LH_GROW(all, capacity, *count + 1);
        lh_rpc_link_ref(l);
        all[(*count)++] = l;
    }
    return all;
}

static void set(struct lh_rpc *rpc, enum health of, bool serving)
{
    struct lh_rpc_link **all = NULL;
    size_t count = 0;

    pthread_mutex_lock(&rpc->health_lock);
    pthread_mutex_lock(&rpc->lock);
    if (rpc->serving[of] != serving)
        all = watchers_of(rpc, of, &count);
    rpc->serving[of] = serving;
    pthread_mutex_unlock(&rpc->lock);
    for (size_t i = 0; i < count; i++) {
        lh_rpc_link_send(all[i], pack_serving(serving));
        lh_rpc_link_flush(all[i]);
        lh_rpc_link_unref(all[i]);
    }
    pthread_mutex_unlock(&rpc->health_lock);
    free(all);
}

void lh_rpc_set_serving(struct lh_rpc *rpc, bool server, bool services)
{
    set(rpc, HEALTH_SERVER, server);
    set(rpc, HEALTH_SERVICES, services);
}
