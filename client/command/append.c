/* `leasehold append`: records from files or standard input. */
#include "client/command/append.h"

#include "base/alloc.h"
#include "base/plural.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMAND        LH_APPEND_COMMAND
#define INTERRUPTED_MS 5000u /* after the first signal: for what is under way to be stored */
#define STANDSTILL_MS  5000u /* nothing is stored: said after that time, twice that, ... */
#define EXPLAIN_MS     1000u

volatile sig_atomic_t lh_append_interrupted;
atomic_bool lh_append_catches_signals;

static void on_signal(int signal_number)
{
    lh_append_interrupted = signal_number;
}

void lh_append_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    lh_append_catches_signals = true;
    if (lh_append_lock_ended())
        lh_append_interrupted = SIGTERM;
}

static uint64_t elapsed_ms(const struct lh_append_work *a)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = (int64_t)(now.tv_sec - a->started.tv_sec) * 1000 +
                 (now.tv_nsec - a->started.tv_nsec) / 1000000;
    return ms > 0 ? (uint64_t)ms : 0;
}

static void clear_progress(const struct lh_append_work *a)
{
    if (a->show_progress && a->shown_ms > 0)
        (void)fputs("\r\033[K", stderr);
}

/* What the master says of the file: who is missing. */
static void tell_why(const struct lh_append_work *a)
{
    struct lh_explanation e = {0};
    if (lh_explain(a->cluster, a->path, 0, EXPLAIN_MS, &e) != LH_OK)
        return;
    for (size_t i = 0; i < e.sentence_count; i++)
        (void)fprintf(stderr, "  %s\n", lh_command_shown(e.sentences[i]));
    lh_explanation_deinit(&e);
}

/* Nobody waits in silence, with or without a terminal. */
static void tell_standstill(
    struct lh_append_work *a, const struct lh_appender_stats *stats, uint64_t now_ms)
{
    uint64_t waiting = stats->records_taken - stats->records_stored;
    if (stats->records_stored != a->stored || waiting == 0) {
        a->stored = stats->records_stored;
        a->stored_ms = now_ms;
        a->tell_ms = STANDSTILL_MS;
    } else if (now_ms - a->stored_ms >= a->tell_ms) {
        a->tell_ms *= 2;
        clear_progress(a);
        (void)lh_command_error(0, COMMAND,
            "nothing was stored for %" PRIu64 " s, %" PRIu64 " record%s %s in flight; trying on, "
            "see --give-up",
            (now_ms - a->stored_ms) / 1000, waiting, lh_plural(waiting),
            lh_one_or_many(waiting, "is", "are"));
        tell_why(a);
    }
}

void lh_append_show_progress(struct lh_append_work *a)
{
    uint64_t now_ms = elapsed_ms(a);
    if (now_ms < a->shown_ms + LH_APPEND_PROGRESS_MS)
        return;
    a->shown_ms = now_ms;
    struct lh_appender_stats stats;
    lh_appender_stats(a->appender, &stats);
    tell_standstill(a, &stats, now_ms);
    if (!a->show_progress)
        return;
    char bytes[32], rate[32];
    (void)fprintf(stderr, "\r%" PRIu64 " record%s, %s, %s/s, %" PRIu64 " in flight\033[K",
        stats.records_stored, lh_plural(stats.records_stored),
        lh_command_bytes(bytes, stats.bytes_stored),
        lh_command_bytes(rate, stats.bytes_stored * 1000 / now_ms),
        stats.records_taken - stats.records_stored);
}

/* --- the end ------------------------------------------------------------------------------ */

/* Waits for what is under way; the appender itself limits for how long (--give-up). */
static int flush(struct lh_append_work *a)
{
    unsigned waited_ms = 0;
    int error;
    while ((error = lh_flush(a->appender, LH_APPEND_PROGRESS_MS)) == LH_ERR_DEADLINE_EXCEEDED) {
        lh_append_show_progress(a);
        waited_ms += lh_append_interrupted ? LH_APPEND_PROGRESS_MS : 0;
        if (waited_ms >= INTERRUPTED_MS)
            return LH_OK; /* the summary says how many records are unknown */
    }
    return error;
}

#define EXACTLY_BYTES 64u

/* To the byte, and as a size where that says more. */
static const char *exactly(char text[EXACTLY_BYTES], uint64_t bytes)
{
    char size[32];

    if (bytes < 1000)
        return lh_command_bytes(text, bytes);
    (void)snprintf(
        text, EXACTLY_BYTES, "%" PRIu64 " bytes (%s)", bytes, lh_command_bytes(size, bytes));
    return text;
}

static void print_summary(const struct lh_append_work *a, const struct lh_appender_stats *stats)
{
    double seconds = (double)elapsed_ms(a) / 1000;
    uint64_t per_second = seconds > 0 ? (uint64_t)((double)stats->bytes_stored / seconds) : 0;
    char last[48] = "none", bytes[EXACTLY_BYTES], rate[48] = "", text[32];
    if (per_second > 0) /* otherwise it was too little, or too soon over, to say */
        (void)snprintf(rate, sizeof rate, " (%s/s)", lh_command_bytes(text, per_second));
    if (stats->records_stored > 0)
        (void)lh_command_position(last, stats->last);
    if (a->options->common.json) {
        lh_command_print_json(json_pack("{s:I, s:I, s:f, s:s, s:I, s:I}", "records",
            (json_int_t)stats->records_stored, "bytes", (json_int_t)stats->bytes_stored, "seconds",
            seconds, "last_position", last, "taken", (json_int_t)stats->records_taken, "unsent",
            (json_int_t)stats->records_unsent));
        return;
    }
    if (a->options->quiet)
        return;
    /* With --positions, standard output is the positions' alone. */
    (void)fprintf(a->options->positions ? stderr : stdout,
        "%" PRIu64 " record%s, %s in %.3f s%s; last position %s\n", stats->records_stored,
        lh_plural(stats->records_stored), exactly(bytes, stats->bytes_stored), seconds, rate, last);
}

/* Who has appended must know which records to append again. */
static void tell_what_is_not_stored(
    const struct lh_append_work *a, const struct lh_appender_stats *stats, int error)
{
    /* The primary may have taken what was sent, and nobody can be asked for a file that is gone. */
    const char *may = error == LH_ERR_NOT_FOUND ? "may have been stored before the file was removed"
                                                : "may be stored or not";
    uint64_t missing = stats->records_taken - stats->records_stored;
    uint64_t unknown = missing - stats->records_unsent;
    char which[128];

    if (unknown == 0)
        (void)snprintf(which, sizeof which, "none of them is stored");
    else if (stats->records_unsent > 0)
        (void)snprintf(which, sizeof which,
            "the last %" PRIu64 " of them %s not stored, each of the others %s",
            stats->records_unsent, lh_one_or_many(stats->records_unsent, "is", "are"), may);
    else
        (void)snprintf(which, sizeof which, "each %s", may);
    (void)lh_command_error(0, COMMAND,
        "%s: %" PRIu64 " of %" PRIu64 " record%s %s not acknowledged; %s", a->path, missing,
        stats->records_taken, lh_plural(stats->records_taken),
        lh_one_or_many(missing, "was", "were"), which);
    tell_why(a);
}

static int append_all(struct lh_append_work *a, const char **args)
{
    (void)clock_gettime(CLOCK_MONOTONIC, &a->started);
    lh_append_catch_signals();
    int code = lh_append_inputs(a, args + 1);
    int error = flush(a);
    if (error != LH_OK && code == LH_EXIT_OK) {
        clear_progress(a);
        code = lh_command_failed(COMMAND, args[0], error);
    }
    clear_progress(a);

    struct lh_appender_stats stats;
    lh_appender_stats(a->appender, &stats);
    print_summary(a, &stats);
    if (stats.records_taken > stats.records_stored) {
        tell_what_is_not_stored(a, &stats, error);
        if (error == LH_OK || lh_error_may_retry(error))
            code = LH_EXIT_UNKNOWN;
    } else if (lh_append_lock_ended() && code == LH_EXIT_OK) {
        code = lh_command_error(LH_EXIT_LOCK_LOST, COMMAND,
            "%s: the lock %s ended before the input; %" PRIu64 " record%s %s stored", args[0],
            a->options->lock, stats.records_stored, lh_plural(stats.records_stored),
            lh_one_or_many(stats.records_stored, "is", "are"));
    } else if (lh_append_interrupted && code == LH_EXIT_OK) {
        code = lh_command_error(128 + lh_append_interrupted, COMMAND,
            "interrupted before the input's end; %" PRIu64 " record%s %s stored",
            stats.records_stored, lh_plural(stats.records_stored),
            lh_one_or_many(stats.records_stored, "is", "are"));
    }
    (void)lh_appender_close(a->appender, 0);
    return code;
}

static int open_appender(const struct lh_append_options *o, struct lh_cluster *cluster,
    const char *path, uint64_t token, struct lh_appender **appender)
{
    uint64_t timeout_ms = lh_command_timeout_ms(&o->common);
    if (o->create) {
        struct lh_file_options file = lh_command_file_options(&o->file);
        struct lh_file_info info = {0};
        int error = lh_create(cluster, path, &file, timeout_ms, &info);
        if (error == LH_OK && file.replication > 0)
            lh_command_warn_of_few_servers(COMMAND, cluster, info.replication);
        lh_file_info_deinit(&info);
        if (error != LH_OK && error != LH_ERR_ALREADY_EXISTS)
            return lh_command_failed(COMMAND, path, error);
    }
    struct lh_appender_options options = {
        .batch_bytes_max = (uint32_t)o->batch_bytes,
        .memory_bytes_max = o->memory_bytes,
        .give_up_ms = lh_duration_ms(o->give_up),
        .lock_name = o->lock,
        .token = token,
    };
    int error = lh_appender_open(cluster, path, &options, timeout_ms, appender);
    return error == LH_OK ? LH_EXIT_OK : lh_command_failed(COMMAND, path, error);
}

static int check(void *options)
{
    struct lh_append_options *o = options;
    if (o->lock == NULL && o->token != 0)
        return lh_command_error(
            LH_EXIT_USAGE, COMMAND, "--token needs --lock: the lock that it was granted for");
    if (lh_command_parse_delimiter(o->delimiter_text, &o->delimiter))
        return LH_EXIT_OK;
    return lh_command_error(LH_EXIT_USAGE, COMMAND,
        "--delimiter '%s' is not one byte; see leasehold append --help", o->delimiter_text);
}

static int run(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct lh_append_options *o = options;
    struct lh_append_work a = {
        .options = o,
        .cluster = cluster,
        .path = args[0],
        .tell_ms = STANDSTILL_MS,
        .buffer = lh_alloc(LH_APPEND_INPUT_BYTES),
        .capacity = LH_APPEND_INPUT_BYTES,
        .show_progress = !o->quiet && isatty(STDERR_FILENO) == 1,
    };
    struct lh_append_lock lock;
    int code = lh_append_lock_open(&lock, o, cluster);
    if (code == LH_EXIT_OK)
        code = open_appender(o, cluster, args[0], lock.lock.token, &a.appender);
    if (code == LH_EXIT_OK) {
        a.record_max = lh_appender_record_max(a.appender);
        code = append_all(&a, args);
    }
    lh_append_lock_close(&lock);
    free(a.buffer);
    return code;
}

int lh_command_append(int argc, char **argv)
{
    struct lh_append_options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("delimiter", STRING, &o.delimiter_text, "\\n"), .metavar = "BYTE", .letter = 'd',
            .help = "what ends a record: one byte, or \\n \\t \\r \\0 \\xHH"},
        {LH_FLAG("length-prefixed", BOOL, &o.length_prefixed, NULL), .letter = 'l',
            .help = "before each record its length: 4 bytes, little-endian"},
        {LH_FLAG("create", BOOL, &o.create, NULL), .help = "create the file if it does not exist"},
        LH_COMMAND_FILE_FLAGS(o.file),
        {LH_FLAG("give-up", DURATION, &o.give_up, "10m"), .min = 1000000,
            .help = "how long to try to store a record; longer than the chunk lease term and "
                    "the master's --grace"},
        {LH_FLAG("batch-bytes", SIZE, &o.batch_bytes, "1MiB"), .min = 4096, .max = 32u << 20,
            .help = "send at most so much at once"},
        {LH_FLAG("memory", SIZE, &o.memory_bytes, "32MiB"), .min = 1,
            .help = "hold at most so much that is not acknowledged"},
        {LH_FLAG("lock", STRING, &o.lock, NULL), .metavar = "NAME", .command_line_only = true,
            .help =
                "append as the only owner: with a token of this lock, which is acquired first if "
                "none is given"},
        {LH_FLAG("token", UINT, &o.token, "0"), .command_line_only = true,
            .help =
                "the token that --lock was granted with; under `leasehold lock` of that name it "
                "is known"},
        {LH_FLAG("positions", BOOL, &o.positions, NULL),
            .help = "print each record's position when it is acknowledged"},
        {LH_FLAG("quiet", BOOL, &o.quiet, NULL), .letter = 'q',
            .help = "no progress and no summary"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... PATH [FILE]...",
        .summary =
            "Appends a record per line of the FILEs (\"-\" or none: of standard input) to the "
            "file PATH.\nThe delimiter is not part of the record: a last line without one is a "
            "record like the others, and\n`leasehold cat` prints it with one. Use "
            "--length-prefixed for records of any bytes.\nCtrl-C ends the input; what was read by "
            "then is stored and reported (exit status 130).",
        LH_FLAG_ROWS(table),
        .args_min = 1,
        .args_max = SIZE_MAX,
        .check = check,
        .run = run,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
