/* The library: cluster handles, errors, and how a thread of the program waits for the core. */
#include "client/library/capabilities.h"
#include "client/library/programs.h"
#include "client/library/survey.h"

#include "base/alloc.h"
#include "finder/finder.h"
#include "runtime/thread.h"
#include "runtime/tls_options.h"
#include "runtime/transports.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* The public header's numbers are those of base/error.h: the macros expand to the former, the enum
 * of the latter is told by its own table. */
#define X(name, number, grpc, advice, text)                                                        \
    _Static_assert(LH_ERR_##name == -(number), "leasehold.h and base/error.h differ: " #name);
LH_ERRORS(X)
#undef X

/* For how long closing a cluster may wait for a master to hear that nothing is cached. */
#define LOOKUPS_END_MS 1000u

#define MEMORY_BYTES_DEFAULT (512u << 20)

static _Thread_local char last_error[LH_CALL_TEXT_BYTES];
static _Thread_local bool in_callback;

const char *lh_last_error(void)
{
    return last_error;
}

void lh_leave_callback(void)
{
    in_callback = false;
}

bool lh_in_callback(void)
{
    return in_callback;
}

bool lh_error_may_retry(int error)
{
    return error < 0 && lh_error_advice(error) != LH_GIVE_UP;
}

int lh_fail(int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return error;
}

/* ---- Waiting ---- */

void lh_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

bool lh_cond_wait(
    pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t timeout_ms, struct timespec *begun)
{
    /* Beyond ten years, a time_t would have to be watched for overflow. */
    if (timeout_ms > UINT64_C(315360000000)) {
        pthread_cond_wait(cond, mutex);
        return true;
    }
    if (begun->tv_sec == 0 && begun->tv_nsec == 0)
        clock_gettime(CLOCK_MONOTONIC, begun);
    uint64_t ns = (uint64_t)begun->tv_nsec + timeout_ms % 1000 * 1000000;
    struct timespec end = {
        .tv_sec = begun->tv_sec + (time_t)(timeout_ms / 1000 + ns / 1000000000),
        .tv_nsec = (long)(ns % 1000000000),
    };
    return pthread_cond_timedwait(cond, mutex, &end) == 0;
}

struct lh_instant lh_deadline(uint64_t timeout_ms)
{
    return lh_instant_add(lh_clock_now(), lh_milliseconds(timeout_ms));
}

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    size_t left; /* calls that are not complete */
};

/* The owner of a call that is waited for. */
struct waited {
    struct waiter *waiter;
    int error;
};

static void waiter_init(struct waiter *w, size_t calls)
{
    *w = (struct waiter){.mutex = PTHREAD_MUTEX_INITIALIZER, .left = calls};
    lh_cond_init(&w->cond);
}

static void waiter_deinit(struct waiter *w)
{
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->mutex);
}

static void tell_waiter(struct waited *waited, int error)
{
    struct waiter *w = waited->waiter;

    pthread_mutex_lock(&w->mutex);
    waited->error = error;
    w->left--;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mutex);
}

static void feed(struct lh_cluster *cluster, struct lh_call *call, struct waited *waited)
{
    call->owner = waited;
    if (lh_loop_call(cluster->loop, call))
        return;
    snprintf(call->text, sizeof call->text, "the cluster is being closed");
    tell_waiter(waited, LH_ERR_CLOSED);
}

#define WAITING_MS 2000u
#define REASON_MS  300u

/* For how long the call may be under way before somebody is told. */
static uint64_t silence_ms(const struct lh_cluster *cluster, const struct lh_call *call)
{
    if (cluster->on_waiting == NULL)
        return LH_NO_TIMEOUT;
    switch (call->kind) {
    case LH_CALL_MASTER:
        return WAITING_MS + lh_duration_ms(((const struct lh_master_call *)call)->patience);
    case LH_CALL_SERVER:
    case LH_CALL_APPENDER_OPEN:
    case LH_CALL_READER_OPEN:
    case LH_CALL_SESSION_OPEN:
        return WAITING_MS;
    case LH_CALL_APPENDER_CLOSE:
    case LH_CALL_SUBMIT:
    case LH_CALL_READER_CLOSE:
    case LH_CALL_FETCH:
    case LH_CALL_KNOWN_MASTERS:
    case LH_CALL_SESSION_CLOSE:
    case LH_CALL_SESSION_EVENT:
    case LH_CALL_ACQUIRE:
    case LH_CALL_WITHDRAW:
    case LH_CALL_RELEASE:
    case LH_CALL_YIELD:
    case LH_CALL_GET:
    case LH_CALL_WATCH_OPEN:
    case LH_CALL_WATCH_NEXT:
    case LH_CALL_WATCH_CLOSE:
    case LH_CALL_LOOKUPS_END:
        break;
    }
    return LH_NO_TIMEOUT;
}

static void tell_of_waiting(struct lh_cluster *cluster, const struct lh_call *call, uint64_t ms)
{
    char text[LH_CALL_TEXT_BYTES];
    struct lh_survey s = {0};
    const char *reason = NULL;

    if (call->kind == LH_CALL_SERVER) {
        snprintf(text, sizeof text, "chunkserver %s has not answered for %" PRIu64 " s",
            ((const struct lh_server_call *)call)->address, ms / 1000);
    } else {
        /* What is wrong with the connection shows at once, or not at all. */
        if (lh_survey_all(cluster, &s, REASON_MS) == LH_OK)
            reason = lh_survey_reason(&s);
        snprintf(text, sizeof text, "no master has answered for %" PRIu64 " s (%s)%s%s", ms / 1000,
            cluster->masters, reason != NULL ? ": " : "", reason != NULL ? reason : "");
    }
    cluster->on_waiting(cluster->on_waiting_arg, text);
    lh_survey_deinit(&s);
}

int lh_call_wait(struct lh_cluster *cluster, struct lh_call *call)
{
    struct waiter w;
    struct waited waited = {.waiter = &w};
    struct timespec begun = {0};
    uint64_t ms = silence_ms(cluster, call);

    if (lh_process_check(cluster) != LH_OK)
        return LH_ERR_CLOSED;
    waiter_init(&w, 1);
    feed(cluster, call, &waited);
    pthread_mutex_lock(&w.mutex);
    while (w.left > 0) {
        if (lh_cond_wait(&w.cond, &w.mutex, ms, &begun) || w.left == 0)
            continue;
        pthread_mutex_unlock(&w.mutex);
        tell_of_waiting(cluster, call, ms);
        ms *= 2;
        pthread_mutex_lock(&w.mutex);
    }
    pthread_mutex_unlock(&w.mutex);
    waiter_deinit(&w);
    return waited.error == LH_OK ? LH_OK : lh_fail(waited.error, "%s", call->text);
}

void lh_calls_wait(
    struct lh_cluster *cluster, struct lh_call *const *calls, int *errors, size_t count)
{
    struct waiter w;
    struct waited *waited;

    if (lh_process_check(cluster) != LH_OK) {
        for (size_t i = 0; i < count; i++) {
            errors[i] = LH_ERR_CLOSED;
            snprintf(calls[i]->text, sizeof calls[i]->text, "%s", lh_last_error());
        }
        return;
    }
    waited = lh_alloc_array(count, sizeof *waited);
    waiter_init(&w, count);
    for (size_t i = 0; i < count; i++) {
        waited[i].waiter = &w;
        feed(cluster, calls[i], &waited[i]);
    }
    pthread_mutex_lock(&w.mutex);
    while (w.left > 0)
        pthread_cond_wait(&w.cond, &w.mutex);
    pthread_mutex_unlock(&w.mutex);
    for (size_t i = 0; i < count; i++)
        errors[i] = waited[i].error;
    waiter_deinit(&w);
    free(waited);
}

static void on_complete(void *arg, void *completed, int error)
{
    struct lh_call *call = completed;

    (void)arg;
    if (call->kind == LH_CALL_SUBMIT)
        lh_submit_completed((struct lh_submit_call *)call, error);
    else if (call->kind == LH_CALL_SESSION_EVENT)
        lh_session_event_completed((struct lh_session_event_call *)call, error);
    else if (call->kind != LH_CALL_ACQUIRE ||
             !lh_acquire_completed((struct lh_acquire_call *)call, error))
        tell_waiter(call->owner, error);
}

/* ---- The callback thread ---- */

void lh_cluster_task(struct lh_cluster *cluster, struct lh_task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&cluster->mutex);
    bool was_empty = cluster->tasks == NULL;
    *cluster->tasks_end = task;
    cluster->tasks_end = &task->next;
    pthread_mutex_unlock(&cluster->mutex);
    if (was_empty)
        pthread_cond_signal(&cluster->wake);
}

static void *run_tasks(void *arg)
{
    struct lh_cluster *cluster = arg;

    in_callback = true;
    pthread_mutex_lock(&cluster->mutex);
    for (;;) {
        while (cluster->tasks == NULL && !cluster->stopping)
            pthread_cond_wait(&cluster->wake, &cluster->mutex);
        struct lh_task *e = cluster->tasks;
        if (e == NULL)
            break;
        cluster->tasks = e->next;
        if (cluster->tasks == NULL)
            cluster->tasks_end = &cluster->tasks;
        pthread_mutex_unlock(&cluster->mutex);
        e->run(e);
        pthread_mutex_lock(&cluster->mutex);
    }
    pthread_mutex_unlock(&cluster->mutex);
    return NULL;
}

/* ---- Clusters ---- */

/* Cuts `list` at its commas in place. INVALID_ARGUMENT: lh_fail() was told what is wrong. */
static int split_addresses(char *list, const char ***addresses, size_t *count)
{
    size_t capacity = 0;
    char *rest = NULL;
    char text[256];

    *addresses = NULL;
    *count = 0;
    for (char *a = strtok_r(list, ", ", &rest); a != NULL; a = strtok_r(NULL, ", ", &rest)) {
        LH_GROW(*addresses, capacity, *count + 1);
        (*addresses)[(*count)++] = a;
    }
    if (lh_masters_check(*addresses, *count, text, sizeof text) == LH_OK)
        return LH_OK;
    return lh_fail(LH_ERR_INVALID_ARGUMENT, "%s", text);
}

static void guard(void *arg, bool on)
{
    struct lh_cluster *cluster = arg;

    if (on)
        pthread_mutex_lock(&cluster->guard);
    else
        pthread_mutex_unlock(&cluster->guard);
}

static struct lh_client *create_core(struct lh_cluster *cluster, const char *const *masters,
    size_t count, const struct lh_cluster_options *options)
{
    char host[LH_SHOWN_BYTES], process[LH_SHOWN_BYTES];
    struct lh_client_config config = {.masters = masters,
        .master_count = count,
        .guard = guard,
        .guard_arg = cluster,
        .lookups_host = host,
        .lookups_process = process};

    lh_describe_process(host, process);
    if (getrandom(&config.seed, sizeof config.seed, 0) != (ssize_t)sizeof config.seed)
        return NULL;
    if (options != NULL) {
        config.try_timeout = lh_milliseconds(options->try_timeout_ms);
        config.backoff_max = lh_milliseconds(options->backoff_max_ms);
        config.lookups_max = options->lookups_max;
    }
    return lh_client_create(&config);
}

/* False: there is none of that name. */
static bool choose_transport(const char *name, const struct lh_transport_methods **transport)
{
    if (name == NULL)
        name = getenv("LEASEHOLD_TRANSPORT");
    if (name == NULL || *name == '\0')
        name = lh_transport_names[LH_TRANSPORT_WIRE];
    for (int i = 0; i < LH_TRANSPORT_KINDS; i++) {
        if (strcmp(name, lh_transport_names[i]) != 0)
            continue;
        *transport = lh_transport_of((enum lh_transport_kind)i);
        return true;
    }
    (void)lh_fail(LH_ERR_INVALID_ARGUMENT,
        "there is no transport '%s': wire or grpc, in the options or LEASEHOLD_TRANSPORT", name);
    return false;
}

static int start(struct lh_cluster *cluster, const char *transport, const struct lh_tls_files *tls)
{
    char why[512];
    struct lh_loop_config config = {
        .core = lh_client_core(cluster->core),
        .name = "client",
        .tls = *tls,
        .on_complete = on_complete,
        .arg = cluster,
    };

    if (!choose_transport(transport, &config.transport))
        return LH_ERR_INVALID_ARGUMENT;
    int error = lh_loop_create(&config, &cluster->loop, why, sizeof why);

    if (error != LH_OK)
        return lh_fail(error, "%s", why);
    pthread_mutex_init(&cluster->mutex, NULL);
    pthread_cond_init(&cluster->wake, NULL);
    cluster->tasks_end = &cluster->tasks;
    error = lh_thread_start(&cluster->thread, run_tasks, cluster, why, sizeof why);
    if (error != LH_OK) {
        lh_loop_destroy(cluster->loop);
        pthread_mutex_destroy(&cluster->mutex);
        pthread_cond_destroy(&cluster->wake);
        return lh_fail(error, "%s", why);
    }
    lh_loop_start(cluster->loop);
    return LH_OK;
}

/* lh_fail() is told what is wrong. */
static int start_with(struct lh_cluster *cluster, const struct lh_cluster_options *options)
{
    struct lh_tls_options tls = {0};
    char why[256];

    if (options != NULL)
        tls = (struct lh_tls_options){.dir = options->tls_dir,
            .files = {options->tls_ca, options->tls_cert, options->tls_key}};
    if (!lh_tls_options_take(&tls, why, sizeof why))
        return lh_fail(LH_ERR_INVALID_ARGUMENT, "%s", why);
    int error = start(cluster, options == NULL ? NULL : options->transport, &tls.files);
    lh_tls_options_free(&tls);
    return error;
}

int lh_cluster_open(
    const char *masters, const struct lh_cluster_options *options, struct lh_cluster **cluster)
{
    const char **addresses;
    size_t count;

    if (masters == NULL || cluster == NULL)
        return lh_fail(LH_ERR_INVALID_ARGUMENT, "no master's address was given");
    if (lh_process_enter() != LH_OK)
        return LH_ERR_CLOSED;
    char *list = lh_strdup(masters);
    if (split_addresses(list, &addresses, &count) != LH_OK) {
        free(addresses);
        free(list);
        return LH_ERR_INVALID_ARGUMENT;
    }
    struct lh_cluster *opened = lh_alloc(sizeof *opened);
    pthread_mutex_init(&opened->guard, NULL);
    opened->capabilities = lh_capabilities_create();
    opened->core = create_core(opened, addresses, count, options);
    opened->masters = lh_strdup(masters);
    opened->memory_max = MEMORY_BYTES_DEFAULT;
    if (options != NULL) {
        opened->looks_up = options->lookups_max > 0;
        if (options->memory_bytes_max > 0)
            opened->memory_max = options->memory_bytes_max;
        opened->on_waiting = options->on_waiting;
        opened->on_waiting_arg = options->on_waiting_arg;
    }
    free(addresses);
    free(list);
    int error = opened->core == NULL ? lh_fail(LH_ERR_SYSTEM, "no random numbers to be had")
                                     : start_with(opened, options);
    if (error != LH_OK) {
        lh_client_destroy(opened->core);
        lh_capabilities_destroy(opened->capabilities);
        pthread_mutex_destroy(&opened->guard);
        free(opened->masters);
        free(opened);
        return error;
    }
    lh_process_took(opened);
    *cluster = opened;
    return LH_OK;
}

/* So that no rename waits for this program. */
static void end_lookups(struct lh_cluster *cluster)
{
    struct lh_lookups_end_call call = {
        .call.kind = LH_CALL_LOOKUPS_END, .deadline = lh_deadline(LOOKUPS_END_MS)};

    (void)lh_call_wait(cluster, &call.call);
}

void lh_cluster_close(struct lh_cluster *cluster)
{
    if (cluster == NULL || lh_is_inherited(cluster))
        return;
    if (cluster->looks_up)
        end_lookups(cluster);
    lh_loop_stop(cluster->loop);
    (void)lh_loop_wait(cluster->loop, LH_DURATION_FOREVER);
    lh_process_gave(cluster);
    lh_loop_destroy(cluster->loop);
    pthread_mutex_lock(&cluster->mutex);
    cluster->stopping = true;
    pthread_cond_signal(&cluster->wake);
    pthread_mutex_unlock(&cluster->mutex);
    pthread_join(cluster->thread, NULL);
    pthread_cond_destroy(&cluster->wake);
    pthread_mutex_destroy(&cluster->mutex);
    lh_client_destroy(cluster->core);
    pthread_mutex_destroy(&cluster->guard);
    lh_capabilities_destroy(cluster->capabilities);
    free(cluster->masters);
    free(cluster);
}
