#include "runtime/visitors.h"

#include "base/alloc.h"
#include "runtime/thread.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#define LOOK_NS 500000000 /* how often ages are looked at */

struct lh_visitor {
    TAILQ_ENTRY(lh_visitor) link; /* in the order of `since` */
    int fd;
    struct lh_visitor_address address; /* IPv4 as IPv6 maps it */
    uint64_t since_ns;
    bool asked, endless, cut;
};

struct lh_visitors {
    struct lh_visitors_config config;
    pthread_mutex_t lock;
    TAILQ_HEAD(, lh_visitor) all;
    unsigned count; /* that are not cut */
    pthread_t thread;
    pthread_cond_t changed;
    bool stopping;
};

static struct timespec now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t;
}

static uint64_t now_ns(void)
{
    struct timespec t = now();

    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct lh_visitor_address lh_visitor_address(const struct sockaddr *of)
{
    struct lh_visitor_address address = {{0}};

    if (of != NULL && of->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)of)->sin6_addr;
        memcpy(address.bytes, a, IN6_IS_ADDR_V4MAPPED(a) ? 16 : 8);
    } else if (of != NULL && of->sa_family == AF_INET) {
        address.bytes[10] = address.bytes[11] = 0xff;
        memcpy(address.bytes + 12, &((const struct sockaddr_in *)(const void *)of)->sin_addr, 4);
    }
    return address;
}

bool lh_visitor_is_same(const struct lh_visitor_address *a, const struct lh_visitor_address *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* ---- With the lock. */

static void cut(struct lh_visitors *vs, struct lh_visitor *v)
{
    if (v->cut)
        return;
    v->cut = true;
    vs->count--;
    (void)shutdown(v->fd, SHUT_RDWR);
}

static void begin_request(struct lh_visitors *vs, struct lh_visitor *v)
{
    v->asked = v->endless = false;
    v->since_ns = now_ns();
    TAILQ_INSERT_TAIL(&vs->all, v, link);
}

static unsigned count_of(const struct lh_visitors *vs, const struct lh_visitor_address *address)
{
    const struct lh_visitor *v;
    unsigned count = 0;

    TAILQ_FOREACH(v, &vs->all, link)
        count += !v->cut && lh_visitor_is_same(&v->address, address);
    return count;
}

/* Makes a place for `newest`, which is the last one. `address`: among those of that one; NULL: of
 * all. */
static void make_place(
    struct lh_visitors *vs, struct lh_visitor *newest, const struct lh_visitor_address *address)
{
    struct lh_visitor *v;

    TAILQ_FOREACH(v, &vs->all, link)
        if (!v->cut && !v->asked && (address == NULL || lh_visitor_is_same(&v->address, address)))
            break;
    cut(vs, v != NULL ? v : newest);
}

static void cut_old(struct lh_visitors *vs)
{
    uint64_t at = now_ns();
    struct lh_visitor *v;

    TAILQ_FOREACH(v, &vs->all, link) {
        if (at - v->since_ns < vs->config.age_max.ns)
            return; /* and so are all behind it */
        if (!v->endless)
            cut(vs, v);
    }
}

/* ---- */

static void *look_main(void *arg)
{
    struct lh_visitors *vs = arg;

    (void)pthread_mutex_lock(&vs->lock);
    while (!vs->stopping) {
        struct timespec until = now();
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        cut_old(vs);
        if (TAILQ_EMPTY(&vs->all))
            (void)pthread_cond_wait(&vs->changed, &vs->lock);
        else
            (void)pthread_cond_timedwait(&vs->changed, &vs->lock, &until);
    }
    (void)pthread_mutex_unlock(&vs->lock);
    return NULL;
}

static void deinit(struct lh_visitors *vs)
{
    (void)pthread_cond_destroy(&vs->changed);
    (void)pthread_mutex_destroy(&vs->lock);
    free(vs);
}

struct lh_visitors *lh_visitors_create(
    const struct lh_visitors_config *config, char *why, size_t why_size)
{
    struct lh_visitors *vs = lh_alloc(sizeof *vs);
    pthread_condattr_t monotonic;

    vs->config = *config;
    TAILQ_INIT(&vs->all);
    (void)pthread_mutex_init(&vs->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&vs->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    if (lh_thread_start(&vs->thread, look_main, vs, why, why_size) == LH_OK)
        return vs;
    deinit(vs);
    return NULL;
}

void lh_visitors_destroy(struct lh_visitors *vs)
{
    if (vs == NULL)
        return;
    (void)pthread_mutex_lock(&vs->lock);
    vs->stopping = true;
    (void)pthread_cond_signal(&vs->changed);
    (void)pthread_mutex_unlock(&vs->lock);
    (void)pthread_join(vs->thread, NULL);
    deinit(vs);
}

struct lh_visitor *lh_visitor_enter(struct lh_visitors *vs, int fd, const struct sockaddr *address)
{
    struct lh_visitor *v = lh_alloc(sizeof *v);

    v->fd = fd;
    v->address = lh_visitor_address(address);
    (void)pthread_mutex_lock(&vs->lock);
    if (TAILQ_EMPTY(&vs->all))
        (void)pthread_cond_signal(&vs->changed);
    begin_request(vs, v);
    vs->count++;
    if (count_of(vs, &v->address) > vs->config.address_max)
        make_place(vs, v, &v->address);
    else if (vs->count > vs->config.max)
        make_place(vs, v, NULL);
    (void)pthread_mutex_unlock(&vs->lock);
    return v;
}

void lh_visitor_leave(struct lh_visitors *vs, struct lh_visitor *v)
{
    (void)pthread_mutex_lock(&vs->lock);
    vs->count -= !v->cut;
    TAILQ_REMOVE(&vs->all, v, link);
    (void)pthread_mutex_unlock(&vs->lock);
    free(v);
}

void lh_visitor_asked(struct lh_visitors *vs, struct lh_visitor *v, bool endless)
{
    (void)pthread_mutex_lock(&vs->lock);
    v->asked = true;
    v->endless = endless;
    (void)pthread_mutex_unlock(&vs->lock);
}

void lh_visitor_answered(struct lh_visitors *vs, struct lh_visitor *v)
{
    (void)pthread_mutex_lock(&vs->lock);
    TAILQ_REMOVE(&vs->all, v, link);
    begin_request(vs, v);
    (void)pthread_mutex_unlock(&vs->lock);
}
