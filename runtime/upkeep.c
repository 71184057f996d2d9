#include "runtime/upkeep.h"

#include "base/alloc.h"
#include "runtime/log.h"
#include "runtime/thread.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct lh_upkeep {
    const struct lh_server *server;
    struct lh_manager *manager;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool reload, stopping;
};

static void update(const struct lh_upkeep *u)
{
    const struct lh_server *server = u->server;
    char why[200] = "";

    /* A core that hangs is not waited for. */
    if (!lh_loop_is_responsive(server->loop, lh_milliseconds(LH_SERVER_UPDATE_MS / 2)))
        return;
    server->update(server->arg);
    bool ready = server->ready(server->arg, why, sizeof why);
    lh_manager_status(u->manager, ready, why);
}

static void reload(const struct lh_server *server)
{
    lh_log(LH_INFO, server->component, "%s: reading the options again", strsignal(SIGHUP));
    lh_manager_reloading();
    server->reload(server->arg);
    lh_manager_reloaded();
}

/* With the lock. */
static void wait_for_the_next(struct lh_upkeep *u)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)LH_SERVER_UPDATE_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!u->stopping && !u->reload && pthread_cond_timedwait(&u->changed, &u->lock, &until) == 0)
        ;
}

static void *upkeep_main(void *arg)
{
    struct lh_upkeep *u = arg;

    pthread_mutex_lock(&u->lock);
    while (!u->stopping) {
        bool asked = u->reload;
        u->reload = false;
        pthread_mutex_unlock(&u->lock);
        if (asked)
            reload(u->server);
        update(u);
        pthread_mutex_lock(&u->lock);
        wait_for_the_next(u);
    }
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

static void end(struct lh_upkeep *u)
{
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
    free(u);
}

struct lh_upkeep *lh_upkeep_start(
    const struct lh_server *server, struct lh_manager *manager, char *why, size_t why_size)
{
    struct lh_upkeep *u = lh_alloc(sizeof *u);
    pthread_condattr_t monotonic;

    u->server = server;
    u->manager = manager;
    pthread_mutex_init(&u->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&u->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (lh_thread_start(&u->thread, upkeep_main, u, why, why_size) == LH_OK)
        return u;
    end(u);
    return NULL;
}

static void ask(struct lh_upkeep *u, bool *what)
{
    pthread_mutex_lock(&u->lock);
    *what = true;
    pthread_cond_signal(&u->changed);
    pthread_mutex_unlock(&u->lock);
}

void lh_upkeep_reload(struct lh_upkeep *u)
{
    ask(u, &u->reload);
}

void lh_upkeep_stop(struct lh_upkeep *u)
{
    if (u == NULL)
        return;
    ask(u, &u->stopping);
    pthread_join(u->thread, NULL);
    end(u);
}

/* ---- The end. */

static const char *ending; /* which part speaks */
static struct lh_duration end_within;

static void *end_main(void *arg)
{
    struct timespec left = {.tv_sec = (time_t)(end_within.ns / 1000000000u),
        .tv_nsec = (long)(end_within.ns % 1000000000u)};

    while (nanosleep(&left, &left) != 0)
        ;
    lh_log(LH_ERROR, ending,
        "something has not ended within %" PRIu64
        " s, such as a disk that hangs; leaving, as after a crash",
        end_within.ns / UINT64_C(1000000000));
    lh_log_flush();
    _exit(LH_SERVER_INTERNAL);
    return arg;
}

void lh_upkeep_end_within(const char *component, struct lh_duration most)
{
    ending = component;
    end_within = most;
    /* Without a thread the service manager's patience is what ends it. */
    (void)!lh_thread_start(NULL, end_main, NULL, NULL, 0);
}
