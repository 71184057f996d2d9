/* `leasehold append`: from bytes to records. */
#include "client/command/append.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define COMMAND            LH_APPEND_COMMAND
#define RECORDS_MAX        4096u
#define LENGTH_PREFIX_SIZE 4u

/* --positions: one line for each record as soon as it is acknowledged. */
static void on_stored(void *arg, int error, struct lh_position first, uint32_t count)
{
    (void)arg;
    if (error != LH_OK)
        return;
    for (uint32_t i = 0; i < count; i++)
        (void)printf("%" PRIu64 ":%" PRIu32 "\n", first.offset, first.index + i);
    if (fflush(stdout) != 0)
        lh_command_end_with_reader(); /* with the next record it would be too late */
}

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
static enum split split(const struct lh_append_work *a, size_t *at, struct lh_record_ref *record)
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
static int append_records(
    struct lh_append_work *a, const struct lh_record_ref *records, size_t count)
{
    size_t done = 0;
    while (done < count && !lh_append_interrupted) {
        size_t taken = 0;
        int error = lh_append_many(a->appender, records + done, count - done,
            a->options->positions ? on_stored : NULL, NULL, LH_APPEND_PROGRESS_MS, &taken);
        done += taken;
        a->records_in_input += taken;
        lh_append_show_progress(a);
        if (error != LH_OK && error != LH_ERR_WOULD_BLOCK)
            return lh_command_failed(COMMAND, a->input_name, error);
    }
    return LH_EXIT_OK;
}

/* The record at `begin`. Without a delimiter in sight nobody knows how long it is. */
static int too_long(const struct lh_append_work *a)
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
static int append_buffered(struct lh_append_work *a, bool at_end)
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

static void make_room(struct lh_append_work *a)
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

static int append_input(struct lh_append_work *a, int fd, const char *name)
{
    a->input_name = name;
    a->records_in_input = 0;
    a->begin = a->end = 0;
    for (;;) {
        make_room(a);
        struct pollfd input = {.fd = fd, .events = POLLIN};
        while (!lh_append_interrupted && poll(&input, 1, LH_APPEND_PROGRESS_MS) == 0)
            lh_append_show_progress(a);
        ssize_t n = lh_append_interrupted ? 0 : read(fd, a->buffer + a->end, a->capacity - a->end);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return lh_command_error(LH_EXIT_IO, COMMAND, "%s: %s", name, strerror(errno));
        a->end += (size_t)n;
        /* An interruption is no end of a record: what is incomplete is left out. */
        int code = append_buffered(a, n == 0 && !lh_append_interrupted);
        if (code != LH_EXIT_OK || n == 0)
            return code;
        lh_append_show_progress(a);
    }
}

int lh_append_inputs(struct lh_append_work *a, const char **names)
{
    if (*names == NULL)
        return append_input(a, STDIN_FILENO, "standard input");
    for (; *names != NULL && !lh_append_interrupted; names++) {
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
