/* `leasehold fsck`: all chunks, a page of them at a time, by several threads. */
#include "client/command/fsck.h"

#include "base/alloc.h"
#include "base/plural.h"
#include "client/command/json.h"
#include "client/command/progress.h"
#include "runtime/thread.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define PAGE      1000u
#define PAGE_DEEP 64u /* reading takes long, and what the master said gets old */
#define JOBS_MAX  64u
#define WAKE_NS   100000000L

struct options {
    struct lh_command_common common;
    bool deep;
    uint64_t jobs;
};

struct totals {
    uint64_t chunks, replicas, bytes, degraded, damaged;
};

/* A page under way. */
struct page {
    struct lh_cluster *cluster;
    struct lh_fsck_options options;
    struct lh_chunk_state_list list;
    struct lh_fsck_report *reports; /* by chunk */
    pthread_mutex_t mutex;
    pthread_cond_t finished; /* a chunk was */
    size_t next, done;
    uint64_t bytes;
};

static void *work(void *arg)
{
    struct page *p = arg;
    (void)pthread_mutex_lock(&p->mutex);
    while (p->next < p->list.count) {
        size_t i = p->next++;
        (void)pthread_mutex_unlock(&p->mutex);
        lh_fsck_chunk_twice(p->cluster, &p->options, &p->list.chunks[i], &p->reports[i]);
        (void)pthread_mutex_lock(&p->mutex);
        p->done++;
        p->bytes += p->reports[i].bytes_read;
        (void)pthread_cond_signal(&p->finished);
    }
    (void)pthread_mutex_unlock(&p->mutex);
    return NULL;
}

static void show(
    struct lh_progress *progress, const struct totals *totals, size_t chunks, uint64_t bytes)
{
    char text[32];
    lh_progress_show(progress,
        "%" PRIu64 " chunk%s checked, %s read, %" PRIu64 " degraded, %" PRIu64 " damaged",
        totals->chunks + chunks, lh_plural(totals->chunks + chunks),
        lh_command_bytes(text, totals->bytes + bytes), totals->degraded, totals->damaged);
}

/* Has the page's chunks checked. False: no thread to be had. */
static bool check_page(
    struct page *p, uint64_t jobs, struct lh_progress *progress, const struct totals *totals)
{
    pthread_t threads[JOBS_MAX];
    size_t started = 0;
    p->next = p->done = 0;
    p->bytes = 0;
    while (started < jobs && started < p->list.count &&
           lh_thread_start(&threads[started], work, p, NULL, 0) == LH_OK)
        started++;
    if (started == 0 && p->list.count > 0)
        return false;
    (void)pthread_mutex_lock(&p->mutex);
    while (p->done < p->list.count) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += (until.tv_nsec + WAKE_NS) / 1000000000;
        until.tv_nsec = (until.tv_nsec + WAKE_NS) % 1000000000;
        (void)pthread_cond_timedwait(&p->finished, &p->mutex, &until);
        show(progress, totals, p->done, p->bytes);
    }
    (void)pthread_mutex_unlock(&p->mutex);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    return true;
}

void lh_fsck_print_problem(const struct lh_chunk_state *s, const struct lh_fsck_problem *p)
{
    (void)printf("chunk %" PRIu64 " of %s%s: %s: %s. %s\n", s->info.chunk,
        lh_command_shown(s->path), s->trashed ? " (in the trash)" : "",
        p->damage ? "DAMAGE" : "degraded", lh_command_shown(p->text), p->advice);
}

json_t *lh_fsck_problem_json(const struct lh_chunk_state *s, const struct lh_fsck_problem *p)
{
    return json_pack("{s:I, s:o, s:I, s:I, s:o, s:s, s:b, s:o, s:s}", "chunk",
        (json_int_t)s->info.chunk, "path", lh_json_text(s->path), "file", (json_int_t)s->file,
        "start", (json_int_t)s->info.start, "server_id", lh_json_text(p->server_id), "kind",
        p->kind, "damage", (int)p->damage, "text", lh_json_text(p->text), "advice", p->advice);
}

/* Tells what was found in the page, in the order of the chunks. */
static void tell_page(struct page *p, struct totals *totals, bool as_json, json_t *json)
{
    for (size_t i = 0; i < p->list.count; i++) {
        const struct lh_chunk_state *s = &p->list.chunks[i];
        struct lh_fsck_report *r = &p->reports[i];
        totals->chunks++;
        totals->replicas += r->replicas_asked;
        totals->bytes += r->bytes_read;
        totals->damaged += r->damage;
        totals->degraded += r->count > 0 && !r->damage;
        for (size_t j = 0; j < r->count; j++) {
            if (as_json)
                (void)json_array_append_new(json, lh_fsck_problem_json(s, &r->problems[j]));
            else
                lh_fsck_print_problem(s, &r->problems[j]);
        }
        lh_fsck_report_deinit(r);
    }
}

/* Every chunk, page by page. */
static int check_all(struct lh_cluster *cluster, const char *prefix, const struct options *o,
    struct totals *totals, json_t *json)
{
    struct lh_progress progress;
    struct lh_fsck_silent silent = LH_FSCK_SILENT_INIT;
    struct page p = {
        .cluster = cluster,
        .options = {.prefix = prefix,
            .deep = o->deep,
            .timeout_ms = lh_command_timeout_ms(&o->common),
            .silent = &silent},
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .finished = PTHREAD_COND_INITIALIZER,
    };
    int code = LH_EXIT_OK;
    uint64_t after = 0;
    lh_progress_begin(&progress);
    for (bool more = true; more && code == LH_EXIT_OK;) {
        int error = lh_chunks(
            cluster, prefix, after, o->deep ? PAGE_DEEP : PAGE, p.options.timeout_ms, &p.list);
        if (error != LH_OK) {
            lh_progress_clear(&progress);
            code = lh_command_failed("fsck", NULL, error);
            /* 1 says that all was looked at. */
            code = code == LH_EXIT_FAILED ? LH_EXIT_UNAVAILABLE : code;
            break;
        }
        p.reports = lh_alloc_array(p.list.count, sizeof *p.reports);
        if (!check_page(&p, o->jobs, &progress, totals))
            code = lh_command_error(LH_EXIT_SYSTEM, "fsck", "cannot start a thread");
        lh_progress_clear(&progress);
        tell_page(&p, totals, o->common.json, json);
        more = p.list.more;
        after = p.list.next;
        free(p.reports);
        lh_chunk_state_list_deinit(&p.list);
    }
    lh_progress_clear(&progress);
    (void)pthread_cond_destroy(&p.finished);
    (void)pthread_mutex_destroy(&p.mutex);
    lh_fsck_silent_deinit(&silent);
    return code;
}

static void print_totals(const struct totals *t)
{
    char bytes[32];
    (void)printf("%" PRIu64 " chunk%s checked at %" PRIu64 " replica%s, %s read: ", t->chunks,
        lh_plural(t->chunks), t->replicas, lh_plural(t->replicas),
        lh_command_bytes(bytes, t->bytes));
    if (t->degraded == 0 && t->damaged == 0)
        (void)puts("clean");
    else
        (void)printf("%" PRIu64 " degraded with nothing lost, %" PRIu64 " damaged\n", t->degraded,
            t->damaged);
}

static int fsck(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct options *o = options;
    const char *prefix = args[0] != NULL ? args[0] : "";
    struct totals t = {0};
    json_t *problems = json_array();
    int code = check_all(cluster, prefix, o, &t, problems);
    if (code != LH_EXIT_OK) {
        json_decref(problems);
        return code;
    }
    if (o->common.json) {
        lh_command_print_json(json_pack("{s:o, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:o}", "prefix",
            lh_json_text(prefix), "deep", (int)o->deep, "clean",
            (int)(t.degraded == 0 && t.damaged == 0), "chunks_checked", (json_int_t)t.chunks,
            "replicas_asked", (json_int_t)t.replicas, "bytes_read", (json_int_t)t.bytes,
            "chunks_degraded", (json_int_t)t.degraded, "chunks_damaged", (json_int_t)t.damaged,
            "problems", problems));
    } else {
        print_totals(&t);
        json_decref(problems);
    }
    return t.damaged > 0 ? LH_EXIT_DAMAGED : t.degraded > 0 ? LH_EXIT_DEGRADED : LH_EXIT_OK;
}

int lh_command_fsck(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("deep", BOOL, &o.deep, NULL),
            .help = "read every byte of every replica, check it, and compare the replicas"},
        {LH_FLAG("jobs", UINT, &o.jobs, "8"), .min = 1, .max = JOBS_MAX, .letter = 'j',
            .help = "how many chunks to check at the same time"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... [PREFIX]",
        .summary = "Compares what the master knows of the chunks of all files, or of those whose "
                   "paths begin with\nPREFIX, with what each chunkserver has of them. Changes "
                   "nothing; may run at any time.\nExit status: 0 clean, 1 nothing is lost but "
                   "replicas are missing, stale or lost, 2 chunks\nare lost, differ or cannot be "
                   "read; others as always.",
        LH_FLAG_ROWS(table),
        .args_max = 1,
        .run = fsck,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
