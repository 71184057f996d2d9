/* `leasehold append`: records from files or standard input. */
#include "client/command.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND            "append"
#define INPUT_BYTES        (1u << 20)
#define RECORDS_MAX        4096u
#define PROGRESS_MS        200u
#define INTERRUPTED_MS     5000u /* after the first signal: for what is under way to be stored */
#define STANDSTILL_MS      5000u /* nothing is stored: said after that time, twice that, ... */
#define EXPLAIN_MS         1000u
#define LENGTH_PREFIX_SIZE 4u

struct options {
    struct lh_command_common common;
    struct lh_command_file file;
    const char *delimiter_text;
    uint8_t delimiter;
    bool length_prefixed, create, positions, quiet;
    struct lh_duration give_up;
    uint64_t batch_bytes, memory_bytes;
};

struct append {
    const struct options *options;
    struct lh_cluster *cluster;
    struct lh_appender *appender;
    const char *path;
    uint32_t record_max;

    /* Input not yet taken by the appender: bytes [begin, end) of `buffer`. */
    uint8_t *buffer;
    size_t begin, end, capacity;
    const char *input_name;
    uint64_t records_in_input; /* taken from this input, for messages */

    bool show_progress;
    struct timespec started;
    uint64_t shown_ms;
    uint64_t stored, stored_ms; /* so much was stored when last looked, and when it became that */
    uint64_t tell_ms;           /* standing still for so long is told next */
};

/* The first SIGINT or SIGTERM ends the input, so that what was read is stored and reported; a
 * second one ends the process. 0: none came. */
static volatile sig_atomic_t interrupted;

static void on_signal(int signal_number)
{
    interrupted = signal_number;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

static uint64_t elapsed_ms(const struct append *a)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = (int64_t)(now.tv_sec - a->started.tv_sec) * 1000 +
                 (now.tv_nsec - a->started.tv_nsec) / 1000000;
    return ms > 0 ? (uint64_t)ms : 0;
}

static void clear_progress(const struct append *a)
{
    if (a->show_progress && a->shown_ms > 0)
        (void)fputs("\r\033[K", stderr);
}

/* What the master says of the file: who is missing. */
static void tell_why(const struct append *a)
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
    struct append *a, const struct lh_appender_stats *stats, uint64_t now_ms)
{
    if (stats->records_stored != a->stored || stats->records_taken == stats->records_stored) {
        a->stored = stats->records_stored;
        a->stored_ms = now_ms;
        a->tell_ms = STANDSTILL_MS;
    } else if (now_ms - a->stored_ms >= a->tell_ms) {
        a->tell_ms *= 2;
        clear_progress(a);
        (void)lh_command_error(0, COMMAND,
            "nothing was stored for %" PRIu64 " s, %" PRIu64 " records are under way; trying on, "
            "see --give-up",
            (now_ms - a->stored_ms) / 1000, stats->records_taken - stats->records_stored);
        tell_why(a);
    }
}

static void show_progress(struct append *a)
{
    uint64_t now_ms = elapsed_ms(a);
    if (now_ms < a->shown_ms + PROGRESS_MS)
        return;
    a->shown_ms = now_ms;
    struct lh_appender_stats stats;
    lh_appender_stats(a->appender, &stats);
    tell_standstill(a, &stats, now_ms);
    if (!a->show_progress)
        return;
    char bytes[32], rate[32];
    (void)fprintf(stderr, "\r%" PRIu64 " records, %s, %s/s, %" PRIu64 " under way\033[K",
        stats.records_stored, lh_command_bytes(bytes, stats.bytes_stored),
        lh_command_bytes(rate, stats.bytes_stored * 1000 / now_ms),
        stats.records_taken - stats.records_stored);
}

/* --positions: one line for each record as soon as it is acknowledged. */
static void on_stored(void *arg, int error, struct lh_position first, uint32_t count)
{
    (void)arg;
    if (error != LH_OK)
        return;
    for (uint32_t i = 0; i < count; i++)
        (void)printf("%" PRIu64 ":%" PRIu32 "\n", first.offset, first.index + i);
    (void)fflush(stdout);
}

/* --- from bytes to records ---------------------------------------------------------------- */

enum split {
    SPLIT_RECORD,
    SPLIT_MORE, /* the record goes on beyond the buffer */
    SPLIT_TOO_LONG,
};

static uint32_t prefix_of(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* Finds the record that begins at `*at`; moves `*at` behind it and its delimiter. */
static enum split split(const struct append *a, size_t *at, struct lh_record_ref *record)
{
    const uint8_t *bytes = a->buffer + *at;
    size_t size = a->end - *at;
    if (a->options->length_prefixed) {
        if (size < LENGTH_PREFIX_SIZE)
            return SPLIT_MORE;
        uint32_t length = prefix_of(bytes);
        if (length > a->record_max)
            return SPLIT_TOO_LONG;
        if (size - LENGTH_PREFIX_SIZE < length)
            return SPLIT_MORE;
        *record = (struct lh_record_ref){bytes + LENGTH_PREFIX_SIZE, length};
        *at += LENGTH_PREFIX_SIZE + length;
        return SPLIT_RECORD;
    }
    const uint8_t *end = size > 0 ? memchr(bytes, a->options->delimiter, size) : NULL;
    if ((end != NULL ? (size_t)(end - bytes) : size) > a->record_max)
        return SPLIT_TOO_LONG;
    if (end == NULL)
        return SPLIT_MORE;
    *record = (struct lh_record_ref){bytes, (size_t)(end - bytes)};
    *at += record->size + 1;
    return SPLIT_RECORD;
}

/* Hands records to the appender, waiting for room as long as it does not fail. */
static int append_records(struct append *a, const struct lh_record_ref *records, size_t count)
{
    size_t done = 0;
    while (done < count && !interrupted) {
        size_t taken = 0;
        int error = lh_append_many(a->appender, records + done, count - done,
            a->options->positions ? on_stored : NULL, NULL, PROGRESS_MS, &taken);
        done += taken;
        a->records_in_input += taken;
        show_progress(a);
        if (error != LH_OK && error != LH_ERR_WOULD_BLOCK)
            return lh_command_failed(COMMAND, a->input_name, error);
    }
    return LH_EXIT_OK;
}

/* The record at `begin`. Without a delimiter in sight nobody knows how long it is. */
static int too_long(const struct append *a)
{
    const uint8_t *bytes = a->buffer + a->begin;
    size_t size = a->end - a->begin;
    const uint8_t *end = memchr(bytes, a->options->delimiter, size);
    uint64_t length = end != NULL ? (uint64_t)(end - bytes) : size;
    bool is_known = a->options->length_prefixed || end != NULL;
    char advice[160] = "split it";

    if (a->options->length_prefixed)
        length = prefix_of(bytes);
    uint64_t chunk_size = lh_chunk_size_for(is_known ? length : LH_RECORD_BYTES_MAX);
    if (a->record_max == LH_RECORD_BYTES_MAX || length > LH_RECORD_BYTES_MAX)
        (void)snprintf(advice, sizeof advice, "split it: no file takes records above %" PRIu32,
            LH_RECORD_BYTES_MAX);
    else
        (void)snprintf(advice, sizeof advice,
            "split it, or create a file with larger chunks: --chunk-size=%" PRIu64
            "%s takes records of up to %" PRIu32,
            chunk_size >> (chunk_size < 1u << 20 ? 10 : 20), chunk_size < 1u << 20 ? "KiB" : "MiB",
            is_known ? (uint32_t)length : LH_RECORD_BYTES_MAX);
    return lh_command_error(LH_EXIT_DATA, COMMAND,
        "%s: record %" PRIu64 " has %s%" PRIu64 " bytes; this file takes up to %" PRIu32 ": %s",
        a->input_name, a->records_in_input + 1, is_known ? "" : "more than ",
        is_known ? length : a->record_max, a->record_max, advice);
}

/* Appends all whole records in the buffer; at the end of the input also what is left. */
static int append_buffered(struct append *a, bool at_end)
{
    struct lh_record_ref records[RECORDS_MAX];
    for (;;) {
        size_t count = 0, at = a->begin;
        enum split state = SPLIT_RECORD;
        while (count < RECORDS_MAX && (state = split(a, &at, &records[count])) == SPLIT_RECORD)
            count++;
        int code = append_records(a, records, count);
        if (code != LH_EXIT_OK)
            return code;
        a->begin = at;
        if (state == SPLIT_TOO_LONG)
            return too_long(a);
        if (state == SPLIT_MORE)
            break;
    }
    size_t rest = a->end - a->begin;
    if (!at_end || rest == 0)
        return LH_EXIT_OK;
    if (a->options->length_prefixed)
        return lh_command_error(LH_EXIT_DATA, COMMAND,
            "%s: record %" PRIu64 " is cut off by the end of the input", a->input_name,
            a->records_in_input + 1);
    struct lh_record_ref last = {a->buffer + a->begin, rest};
    a->begin = a->end;
    return append_records(a, &last, 1);
}

static void make_room(struct append *a)
{
    if (a->begin > 0) {
        memmove(a->buffer, a->buffer + a->begin, a->end - a->begin);
        a->end -= a->begin;
        a->begin = 0;
    }
    if (a->end == a->capacity) {
        a->capacity *= 2;
        a->buffer = lh_realloc_array(a->buffer, a->capacity, 1);
    }
}

static int append_input(struct append *a, int fd, const char *name)
{
    a->input_name = name;
    a->records_in_input = 0;
    a->begin = a->end = 0;
    for (;;) {
        make_room(a);
        struct pollfd input = {.fd = fd, .events = POLLIN};
        while (!interrupted && poll(&input, 1, PROGRESS_MS) == 0)
            show_progress(a);
        ssize_t n = interrupted ? 0 : read(fd, a->buffer + a->end, a->capacity - a->end);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return lh_command_error(LH_EXIT_IO, COMMAND, "%s: %s", name, strerror(errno));
        a->end += (size_t)n;
        /* An interruption is no end of a record: what is incomplete is left out. */
        int code = append_buffered(a, n == 0 && !interrupted);
        if (code != LH_EXIT_OK || n == 0)
            return code;
        show_progress(a);
    }
}

/* `names` ends in NULL; with none it is standard input. */
static int append_inputs(struct append *a, const char **names)
{
    if (*names == NULL)
        return append_input(a, STDIN_FILENO, "standard input");
    for (; *names != NULL && !interrupted; names++) {
        const char *name = *names;
        bool is_stdin = strcmp(name, "-") == 0;
        int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return lh_command_error(LH_EXIT_NO_INPUT, COMMAND, "%s: %s", name, strerror(errno));
        int code = append_input(a, fd, is_stdin ? "standard input" : name);
        if (!is_stdin)
            (void)close(fd);
        if (code != LH_EXIT_OK)
            return code;
    }
    return LH_EXIT_OK;
}

/* --- the end ------------------------------------------------------------------------------ */

/* Waits for what is under way; the appender itself limits for how long (--give-up). */
static int flush(struct append *a)
{
    unsigned waited_ms = 0;
    int error;
    while ((error = lh_flush(a->appender, PROGRESS_MS)) == LH_ERR_DEADLINE_EXCEEDED) {
        show_progress(a);
        waited_ms += interrupted ? PROGRESS_MS : 0;
        if (waited_ms >= INTERRUPTED_MS)
            return LH_OK; /* the summary says how many records are unknown */
    }
    return error;
}

static void print_summary(const struct append *a, const struct lh_appender_stats *stats)
{
    double seconds = (double)elapsed_ms(a) / 1000;
    char last[48] = "none", bytes[32], rate[32];
    if (stats->records_stored > 0)
        (void)lh_command_position(last, stats->last);
    if (a->options->common.json) {
        lh_command_print_json(
            json_pack("{s:I, s:I, s:f, s:s}", "records", (json_int_t)stats->records_stored, "bytes",
                (json_int_t)stats->bytes_stored, "seconds", seconds, "last_position", last));
        return;
    }
    if (a->options->quiet)
        return;
    /* With --positions, standard output is the positions' alone. */
    (void)fprintf(a->options->positions ? stderr : stdout,
        "%" PRIu64 " records, %" PRIu64 " bytes (%s) in %.3f s (%s/s); last position %s\n",
        stats->records_stored, stats->bytes_stored, lh_command_bytes(bytes, stats->bytes_stored),
        seconds,
        lh_command_bytes(rate, seconds > 0 ? (uint64_t)((double)stats->bytes_stored / seconds) : 0),
        last);
}

static int append_all(struct append *a, const char **args)
{
    (void)clock_gettime(CLOCK_MONOTONIC, &a->started);
    catch_signals();
    int code = append_inputs(a, args + 1);
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
        code = lh_command_error(LH_EXIT_UNKNOWN, COMMAND,
            "%s: %" PRIu64 " of %" PRIu64
            " records were not acknowledged; each may be stored or not",
            args[0], stats.records_taken - stats.records_stored, stats.records_taken);
        tell_why(a);
    } else if (interrupted && code == LH_EXIT_OK) {
        code = lh_command_error(128 + interrupted, COMMAND,
            "interrupted before the input's end; %" PRIu64 " records are stored",
            stats.records_stored);
    }
    (void)lh_appender_close(a->appender, 0);
    return code;
}

static int open_appender(const struct options *o, struct lh_cluster *cluster, const char *path,
    struct lh_appender **appender)
{
    uint64_t timeout_ms = lh_command_timeout_ms(&o->common);
    if (o->create) {
        struct lh_file_options file = lh_command_file_options(&o->file);
        int error = lh_create(cluster, path, &file, timeout_ms, NULL);
        if (error != LH_OK && error != LH_ERR_ALREADY_EXISTS)
            return lh_command_failed(COMMAND, path, error);
    }
    struct lh_appender_options options = {
        .batch_bytes_max = (uint32_t)o->batch_bytes,
        .memory_bytes_max = o->memory_bytes,
        .give_up_ms = lh_duration_ms(o->give_up),
    };
    int error = lh_appender_open(cluster, path, &options, timeout_ms, appender);
    return error == LH_OK ? LH_EXIT_OK : lh_command_failed(COMMAND, path, error);
}

static int check(void *options)
{
    struct options *o = options;
    if (lh_command_parse_delimiter(o->delimiter_text, &o->delimiter))
        return LH_EXIT_OK;
    return lh_command_error(LH_EXIT_USAGE, COMMAND,
        "--delimiter '%s' is not one byte; see leasehold append --help", o->delimiter_text);
}

static int run(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct options *o = options;
    struct append a = {
        .options = o,
        .cluster = cluster,
        .path = args[0],
        .tell_ms = STANDSTILL_MS,
        .buffer = lh_alloc(INPUT_BYTES),
        .capacity = INPUT_BYTES,
        .show_progress = !o->quiet && isatty(STDERR_FILENO) == 1,
    };
    int code = open_appender(o, cluster, args[0], &a.appender);
    if (code == LH_EXIT_OK) {
        a.record_max = lh_appender_record_max(a.appender);
        code = append_all(&a, args);
    }
    free(a.buffer);
    return code;
}

int lh_command_append(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        LH_COMMAND_MASTER_FLAGS(o.common),
        {.name = "delimiter",
            .type = LH_FLAG_STRING,
            .value = &o.delimiter_text,
            .preset = "\\n",
            .metavar = "BYTE",
            .letter = 'd',
            .help = "what ends a record: one byte, or \\n \\t \\r \\0 \\xHH"},
        {.name = "length-prefixed",
            .type = LH_FLAG_BOOL,
            .value = &o.length_prefixed,
            .letter = 'l',
            .help = "before each record its length: 4 bytes, little-endian"},
        {.name = "create",
            .type = LH_FLAG_BOOL,
            .value = &o.create,
            .help = "create the file if it does not exist"},
        LH_COMMAND_FILE_FLAGS(o.file),
        {.name = "give-up",
            .type = LH_FLAG_DURATION,
            .value = &o.give_up,
            .preset = "10m",
            .min = 1000000,
            .help = "how long to try to store a record; longer than the chunk lease term and "
                    "the master's --grace"},
        {.name = "batch-bytes",
            .type = LH_FLAG_SIZE,
            .value = &o.batch_bytes,
            .preset = "1MiB",
            .min = 4096,
            .max = 32u << 20,
            .help = "send at most so much at once"},
        {.name = "memory",
            .type = LH_FLAG_SIZE,
            .value = &o.memory_bytes,
            .preset = "32MiB",
            .min = 1,
            .help = "hold at most so much that is not acknowledged"},
        {.name = "positions",
            .type = LH_FLAG_BOOL,
            .value = &o.positions,
            .help = "print each record's position when it is acknowledged"},
        {.name = "quiet",
            .type = LH_FLAG_BOOL,
            .value = &o.quiet,
            .letter = 'q',
            .help = "no progress and no summary"},
        LH_COMMAND_JSON_FLAG(o.common),
    };
    const struct lh_command command = {
        .usage = "[OPTION]... PATH [FILE]...",
        .summary =
            "Appends a record per line of the FILEs (\"-\" or none: of standard input) to the "
            "file PATH.\nThe delimiter is not part of the record: a last line without one is a "
            "record like the others, and\n`leasehold cat` prints it with one. Use "
            "--length-prefixed for records of any bytes.\nCtrl-C ends the input; what was read by "
            "then is stored and reported (exit status 130).",
        .flags = table,
        .count = sizeof table / sizeof table[0],
        .args_min = 1,
        .args_max = SIZE_MAX,
        .check = check,
        .run = run,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
