/* What `leasehold top` asks; see top_feed.h. */
#include "client/command/top_feed.h"

#include "client/command/command.h"

#include "base/alloc.h"
#include "runtime/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* --- one sample --------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const struct lh_server_info *x = a, *y = b;
    return strcmp(x->server_id, y->server_id);
}

static int by_address(const void *a, const void *b)
{
    const struct lh_master_info *x = a, *y = b;
    int ids = strcmp(x->master_id, y->master_id);
    return ids != 0 ? ids : strcmp(x->address, y->address);
}

static int ask_leases(struct lh_cluster *cluster, uint64_t timeout_ms, struct lh_top_sample *s)
{
    size_t capacity = 0;

    s->leases_more = true;
    while (s->leases_more && s->lease_count < LH_TOP_LEASES_MAX) {
        struct lh_lease_list list = {0};
        uint64_t after = s->lease_count > 0 ? s->leases[s->lease_count - 1].chunk : 0;
        int error = lh_leases(cluster, after, 0, false, timeout_ms, &list);
        if (error != LH_OK) {
            s->leases_more = false;
            return error;
        }
        LH_GROW(s->leases, capacity, s->lease_count + list.count);
        if (list.count > 0)
            memcpy(s->leases + s->lease_count, list.leases, list.count * sizeof *list.leases);
        s->lease_count += list.count;
        s->leases_more = list.more && list.count > 0;
        free(list.leases); /* and not what they own */
    }
    return LH_OK;
}

static int ask_names(struct lh_cluster *cluster, uint64_t timeout_ms, struct lh_top_sample *s)
{
    struct lh_name_list list = {0};
    int error = lh_names(cluster, "", NULL, LH_TOP_NAMES_MAX, timeout_ms, &list);

    if (error != LH_OK)
        return error;
    s->names = list.names;
    s->name_count = list.count;
    s->names_more = list.more;
    return LH_OK;
}

/* A chunk that is gone by now is not explained. */
static void ask_why(struct lh_cluster *cluster, uint64_t timeout_ms, struct lh_top_sample *s)
{
    size_t chunks[LH_TOP_EXPLAINED_MAX];
    size_t count = lh_top_to_explain(s, chunks);

    for (size_t i = 0; i < count; i++)
        if (lh_explain(cluster, NULL, s->leases[chunks[i]].chunk, timeout_ms,
                &s->explained[s->explained_count]) == LH_OK)
            s->explained_count++;
}

/* Who may see the servers need not see every path: it goes on without. */
static int unless_withheld(int error, const char *what, struct lh_top_sample *s)
{
    char text[512];

    if (error != LH_ERR_PERMISSION)
        return error;
    (void)snprintf(text, sizeof text, "%s are not shown: %s", what, lh_last_error());
    free(s->withheld);
    s->withheld = lh_strdup(text);
    return LH_OK;
}

static int ask_active(
    struct lh_cluster *cluster, enum lh_top_view view, uint64_t timeout_ms, struct lh_top_sample *s)
{
    int error = lh_servers(cluster, timeout_ms, &s->servers);

    if (error == LH_OK) {
        s->at_ms = lh_command_now_ms();
        if (s->servers.count > 0)
            qsort(s->servers.servers, s->servers.count, sizeof *s->servers.servers, by_id);
        error = unless_withheld(ask_leases(cluster, timeout_ms, s), "leases", s);
    }
    if (error == LH_OK && view == LH_TOP_LOCKS)
        error = unless_withheld(ask_names(cluster, timeout_ms, s), "names", s);
    return error;
}

struct lh_top_sample *lh_top_ask(
    struct lh_cluster *cluster, enum lh_top_view view, uint64_t timeout_ms)
{
    struct lh_top_sample *s = lh_alloc(sizeof *s);

    (void)lh_masters(cluster, timeout_ms, &s->masters); /* what is known of them is there anyway */
    if (s->masters.count > 0)
        qsort(s->masters.masters, s->masters.count, sizeof *s->masters.masters, by_address);
    if (s->masters.active == NULL)
        s->masters.active = lh_strdup("");
    if (s->masters.store_trouble == NULL)
        s->masters.store_trouble = lh_strdup("");
    s->at_ms = lh_command_now_ms();
    s->error = ask_active(cluster, view, timeout_ms, s);
    s->good = s->error == LH_OK;
    if (!s->good)
        s->trouble = lh_strdup(lh_last_error());
    else if (view == LH_TOP_OVERVIEW)
        ask_why(cluster, timeout_ms, s);
    return s;
}

/* --- the thread --------------------------------------------------------------------------- */

struct lh_top_feed {
    struct lh_cluster *cluster;
    uint64_t interval_ms, timeout_ms;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    enum lh_top_view view;
    bool paused, at_once;
    struct lh_top_sample *ready;
    int fd;
};

static struct timespec later(uint64_t ms)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    uint64_t ns = (uint64_t)at.tv_nsec + ms % 1000 * 1000000;
    at.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

/* Until it is time for the next sample. With the mutex. */
static void wait_for_next(struct lh_top_feed *f)
{
    struct timespec until = later(f->interval_ms);
    int error = 0;

    while (!f->at_once && (f->paused || error == 0))
        error = f->paused ? pthread_cond_wait(&f->changed, &f->mutex)
                          : pthread_cond_timedwait(&f->changed, &f->mutex, &until);
    f->at_once = false;
}

static void *feed(void *arg)
{
    struct lh_top_feed *f = arg;

    (void)pthread_mutex_lock(&f->mutex);
    for (;;) {
        enum lh_top_view view = f->view;
        (void)pthread_mutex_unlock(&f->mutex);
        struct lh_top_sample *sample = lh_top_ask(f->cluster, view, f->timeout_ms);
        (void)pthread_mutex_lock(&f->mutex);
        lh_top_sample_free(f->ready);
        f->ready = sample;
        (void)eventfd_write(f->fd, 1);
        wait_for_next(f);
    }
    return NULL;
}

struct lh_top_feed *lh_top_feed_start(
    struct lh_cluster *cluster, enum lh_top_view view, uint64_t interval_ms, uint64_t timeout_ms)
{
    struct lh_top_feed *f = lh_alloc(sizeof *f);
    pthread_condattr_t clock;

    *f = (struct lh_top_feed){.cluster = cluster,
        .view = view,
        .interval_ms = interval_ms,
        .timeout_ms = timeout_ms,
        .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    (void)pthread_mutex_init(&f->mutex, NULL);
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&f->changed, &clock);
    (void)pthread_condattr_destroy(&clock);
    if (f->fd >= 0 && lh_thread_start(&f->thread, feed, f, NULL, 0) == LH_OK)
        return f;
    if (f->fd >= 0)
        (void)close(f->fd);
    (void)pthread_cond_destroy(&f->changed);
    (void)pthread_mutex_destroy(&f->mutex);
    free(f);
    return NULL;
}

int lh_top_feed_fd(const struct lh_top_feed *f)
{
    return f->fd;
}

struct lh_top_sample *lh_top_feed_take(struct lh_top_feed *f)
{
    eventfd_t ignored;

    (void)pthread_mutex_lock(&f->mutex);
    (void)eventfd_read(f->fd, &ignored);
    struct lh_top_sample *sample = f->ready;
    f->ready = NULL;
    (void)pthread_mutex_unlock(&f->mutex);
    return sample;
}

static void signal_changed(struct lh_top_feed *f)
{
    (void)pthread_cond_signal(&f->changed);
    (void)pthread_mutex_unlock(&f->mutex);
}

void lh_top_feed_view(struct lh_top_feed *f, enum lh_top_view view)
{
    (void)pthread_mutex_lock(&f->mutex);
    f->at_once |= view != f->view && (view == LH_TOP_LOCKS || view == LH_TOP_OVERVIEW);
    f->view = view;
    signal_changed(f);
}

void lh_top_feed_pause(struct lh_top_feed *f, bool pause)
{
    (void)pthread_mutex_lock(&f->mutex);
    f->at_once |= f->paused && !pause;
    f->paused = pause;
    signal_changed(f);
}
