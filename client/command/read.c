/* `leasehold cat` and `leasehold tail`: a file's records, byte for byte. */
#include "client/command/command.h"

#include "base/alloc.h"
#include "base/plural.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_BYTES (1u << 20)
#define LOOK_MS      500u  /* between two looks whether somebody reads the output */
#define TROUBLE_MS   5000u /* following: for so long no server may answer before that is said */

struct options {
    struct lh_command_common common;
    const char *delimiter_text;
    uint8_t delimiter;
    bool length_prefixed, positions, follow, skip_damaged;
    const char *from;
    struct lh_position start; /* what `from` says */
    uint64_t lines;
};

#define OUTPUT_FLAGS(o)                                                                            \
    {LH_FLAG("delimiter", STRING, &(o).delimiter_text, "\\n"), .metavar = "BYTE", .letter = 'd',   \
        .help = "what to print after each record: one byte, or \\n \\t \\r \\0 \\xHH"},            \
        {LH_FLAG("length-prefixed", BOOL, &(o).length_prefixed, NULL), .letter = 'l',              \
            .help = "print before each record its length instead: 4 bytes, little-endian"},        \
        {LH_FLAG("skip-damaged", BOOL, &(o).skip_damaged, NULL),                                   \
            .help = "leave out what is damaged at every member of its chunk, say so on standard "  \
                    "error, and end with status 2"},                                               \
    {                                                                                              \
        LH_FLAG("positions", BOOL, &(o).positions, NULL),                                          \
            .help = "print before each record its position and a tab"                              \
    }

/* Writes one record; false when standard output takes no more. */
static bool print_record(
    const struct options *o, struct lh_position position, const void *data, size_t size)
{
    char text[48];
    if (o->positions && printf("%s\t", lh_command_position(text, position)) < 0)
        return false;
    if (o->length_prefixed) {
        uint8_t length[4] = {
            (uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16), (uint8_t)(size >> 24)};
        return fwrite_unlocked(length, sizeof length, 1, stdout) == 1 &&
               fwrite_unlocked(data, 1, size, stdout) == size;
    }
    return fwrite_unlocked(data, 1, size, stdout) == size &&
           putc_unlocked(o->delimiter, stdout) != EOF;
}

static bool print_batch(const struct options *o, const struct lh_batch *batch)
{
    size_t cursor = 0, size;
    const void *data;
    struct lh_position position = {.offset = batch->offset};
    while (lh_batch_next(batch, &cursor, &data, &size)) {
        if (!print_record(o, position, data, size))
            return false;
        position.index++;
    }
    return true;
}

/* Says what is left out: nothing is passed over in silence (REC-9a). */
static void print_gap(const char *command, const char *path, const struct lh_reader *reader)
{
    struct lh_gap gap;
    char members[512] = "";
    size_t n = 0;
    if (lh_reader_gap(reader, &gap) != LH_OK)
        return;
    for (size_t i = 0; i < gap.member_count && n < sizeof members; i++)
        n += (size_t)snprintf(members + n, sizeof members - n, "%s%s: %s", i > 0 ? "; " : "",
            gap.members[i].server_id, lh_error_text(gap.members[i].error));
    (void)fflush(stdout);
    (void)lh_command_error(0, command,
        "%s: left out: %" PRIu64 " byte%s, offsets %" PRIu64 " to %" PRIu64 " (chunk %" PRIu64
        "), which none of %zu member%s can give (%s)",
        lh_command_shown(path), gap.to - gap.from, lh_plural(gap.to - gap.from), gap.from, gap.to,
        gap.chunk, gap.member_count, lh_plural(gap.member_count), members);
}

/* How long it has been waiting for a server, while it follows. */
struct trouble {
    uint64_t since_ms; /* 0: there is none */
    bool notified;
};

/* Whether to go on following after that error. */
static bool rides_out(const char *command, struct trouble *t, int error, uint64_t timeout_ms)
{
    uint64_t now_ms = lh_command_now_ms();

    if (error == LH_OK || error == LH_ERR_DEADLINE_EXCEEDED) {
        *t = (struct trouble){0};
        return true;
    }
    if (t->since_ms == 0)
        t->since_ms = now_ms;
    if (!lh_error_may_retry(error) ||
        (error != LH_ERR_UNAVAILABLE && now_ms - t->since_ms >= timeout_ms))
        return false;
    if (!t->notified && now_ms - t->since_ms >= TROUBLE_MS) {
        t->notified = true;
        (void)lh_command_error(0, command, "%s; trying on", lh_last_error());
    }
    return true;
}

/* The next batch of a file that is followed, however long it takes. */
static int follow(
    const char *command, struct lh_reader *reader, uint64_t timeout_ms, struct lh_batch *batch)
{
    struct trouble trouble = {0};
    int error = lh_reader_next_batch(reader, 0, batch);

    if (error == LH_OK || error == LH_GAP)
        return error;
    /* What was read must be seen before the wait for more. */
    if (fflush(stdout) != 0)
        return LH_ERR_IO;
    do {
        lh_command_end_with_reader();
        error = lh_reader_next_batch(reader, LOOK_MS, batch);
    } while (error < 0 && rides_out(command, &trouble, error, timeout_ms));
    return error;
}

/* Prints from `reader` to the end of what is there, or for ever when it follows. */
static int print_all(const char *command, const char *path, const struct options *o,
    struct lh_reader *reader, uint64_t timeout_ms)
{
    int code = LH_EXIT_OK;
    /* A position in the middle of a batch: the rest of that batch goes record by record. */
    while (lh_reader_position(reader).index > 0) {
        struct lh_record record;
        int error = lh_reader_next(reader, timeout_ms, &record);
        if (error == LH_END)
            return code;
        if (error == LH_GAP) {
            print_gap(command, path, reader);
            code = LH_EXIT_DAMAGED;
            continue;
        }
        if (error == LH_ERR_DEADLINE_EXCEEDED && o->follow)
            continue;
        if (error != LH_OK)
            return lh_command_failed(command, path, error);
        if (!print_record(o, record.position, record.data, record.size))
            return LH_EXIT_IO;
    }
    for (;;) {
        struct lh_batch batch;
        int error = o->follow ? follow(command, reader, timeout_ms, &batch)
                              : lh_reader_next_batch(reader, timeout_ms, &batch);
        if (error == LH_END)
            return code;
        if (error == LH_GAP) {
            print_gap(command, path, reader);
            code = LH_EXIT_DAMAGED;
            continue;
        }
        if (o->follow && error == LH_ERR_IO && ferror(stdout))
            return LH_EXIT_IO;
        if (error != LH_OK)
            return lh_command_failed(command, path, error);
        if (!print_batch(o, &batch))
            return LH_EXIT_IO;
    }
}

static int read_from(const char *command, const char *path, const struct options *o,
    struct lh_cluster *cluster, struct lh_position start)
{
    uint64_t timeout_ms = lh_command_timeout_ms(&o->common);
    struct lh_reader *reader;
    struct lh_reader_options options = {
        .start = start, .follow = o->follow, .skip_damaged = o->skip_damaged};
    int error = lh_reader_open(cluster, path, &options, timeout_ms, &reader);
    if (error != LH_OK)
        return lh_command_failed(command, path, error);
    int code = print_all(command, path, o, reader, timeout_ms);
    lh_reader_close(reader);
    return code;
}

/* Common to both: the output's buffer and what ends a record. */
static int prepare(const char *command, struct options *o)
{
    if (!lh_command_parse_delimiter(o->delimiter_text, &o->delimiter))
        return lh_command_error(
            LH_EXIT_USAGE, command, "--delimiter '%s' is not one byte", o->delimiter_text);
    (void)setvbuf(stdout, NULL, _IOFBF, OUTPUT_BYTES);
    return LH_EXIT_OK;
}

/* --- cat ---------------------------------------------------------------------------------- */

static int check_cat(void *options)
{
    struct options *o = options;
    if (!lh_command_parse_position(o->from, &o->start))
        return lh_command_error(
            LH_EXIT_USAGE, "cat", "--from '%s' is not a position such as 4096:12", o->from);
    return prepare("cat", o);
}

static int cat(void *options, struct lh_cluster *cluster, const char **paths)
{
    const struct options *o = options;
    int code = LH_EXIT_OK;
    for (; *paths != NULL && (code == LH_EXIT_OK || code == LH_EXIT_DAMAGED); paths++) {
        int now = read_from("cat", *paths, o, cluster, o->start);
        code = now == LH_EXIT_OK ? code : now;
    }
    return code;
}

int lh_command_cat(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        OUTPUT_FLAGS(o),
        {LH_FLAG("from", STRING, &o.from, "0:0"), .metavar = "POSITION",
            .help = "begin with the record at this position (as append and --positions print it)"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... PATH...",
        .summary = "Prints the records of each file PATH, each followed by a newline (see "
                   "--delimiter), also the\nlast one: `append` does not keep delimiters, so a "
                   "file that ended without one comes back with one.",
        LH_FLAG_ROWS(table),
        .no_json = true,
        .args_min = 1,
        .args_max = SIZE_MAX,
        .check = check_cat,
        .run = cat,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}

/* --- tail --------------------------------------------------------------------------------- */

/* Where each of the last records is; the oldest at `next` once the ring is full. */
struct ring {
    struct lh_position *positions;
    uint64_t size, count, next;
};

static void ring_add(struct ring *ring, struct lh_position position)
{
    ring->positions[ring->next] = position;
    ring->next = (ring->next + 1) % ring->size;
    if (ring->count < ring->size)
        ring->count++;
}

/* Reads from a chunk's start to the end of the file and remembers the last positions; `*end` is
 * where the next record will be. */
static int scan_positions(const char *path, struct lh_cluster *cluster, uint64_t offset,
    const struct options *o, struct ring *ring, struct lh_position *end)
{
    uint64_t timeout_ms = lh_command_timeout_ms(&o->common);
    struct lh_reader *reader;
    struct lh_reader_options options = {
        .start = {.offset = offset}, .skip_damaged = o->skip_damaged};
    int error = lh_reader_open(cluster, path, &options, timeout_ms, &reader);
    if (error != LH_OK)
        return lh_command_failed("tail", path, error);
    ring->count = ring->next = 0;
    struct lh_batch batch;
    /* What lies before the records that are printed is not reported; what lies among them is. */
    while ((error = lh_reader_next_batch(reader, timeout_ms, &batch)) >= 0 && error != LH_END) {
        for (uint32_t i = 0; error == LH_OK && i < batch.count; i++)
            ring_add(ring, (struct lh_position){batch.offset, i});
    }
    *end = lh_reader_position(reader);
    int code = error == LH_END ? LH_EXIT_OK : lh_command_failed("tail", path, error);
    lh_reader_close(reader);
    return code;
}

/* The starts of all chunks, ascending, in a malloc'd array. */
static int chunk_starts(const char *path, struct lh_cluster *cluster, uint64_t timeout_ms,
    uint64_t **starts, size_t *count)
{
    size_t capacity = 0;
    uint64_t offset = 0;
    *starts = NULL;
    *count = 0;
    for (bool more = true; more;) {
        struct lh_chunk_list list;
        int error = lh_locate(cluster, path, offset, 0, timeout_ms, &list);
        if (error != LH_OK) {
            free(*starts);
            return lh_command_failed("tail", path, error);
        }
        for (size_t i = 0; i < list.count; i++) {
            LH_GROW(*starts, capacity, *count + 1);
            (*starts)[(*count)++] = list.chunks[i].start;
            offset = list.chunks[i].start + list.chunks[i].length;
        }
        more = list.more && list.count > 0;
        lh_chunk_list_deinit(&list);
    }
    return LH_EXIT_OK;
}

/* Finds where the last `lines` records begin. Batches have no pointers back, so it reads from the
 * start of the last chunk, and from further back, doubling, while that is not enough. */
static int find_start(const char *path, const struct options *o, struct lh_cluster *cluster,
    struct lh_position *start)
{
    uint64_t timeout_ms = lh_command_timeout_ms(&o->common);
    uint64_t *starts;
    size_t count;
    int code = chunk_starts(path, cluster, timeout_ms, &starts, &count);
    if (code != LH_EXIT_OK)
        return code;

    struct ring ring = {.size = o->lines > 0 ? o->lines : 1};
    ring.positions = lh_alloc_array(ring.size, sizeof *ring.positions);
    *start = (struct lh_position){0};
    for (size_t back = 1; count > 0 && code == LH_EXIT_OK; back *= 2) {
        size_t first = back < count ? count - back : 0;
        struct lh_position end;
        code = scan_positions(path, cluster, starts[first], o, &ring, &end);
        if (code == LH_EXIT_OK && o->lines == 0) {
            *start = end;
            break;
        }
        if (first == 0 || ring.count == ring.size) {
            if (ring.count == ring.size)
                *start = ring.positions[ring.next];
            break;
        }
    }
    free(ring.positions);
    free(starts);
    return code;
}

static int check_tail(void *options)
{
    return prepare("tail", options);
}

static int tail(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct options *o = options;
    struct lh_position start;
    int code = find_start(args[0], o, cluster, &start);
    if (code == LH_EXIT_OK && (o->lines > 0 || o->follow))
        code = read_from("tail", args[0], o, cluster, start);
    return code;
}

int lh_command_tail(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("lines", UINT, &o.lines, "10"), .max = 100000000, .letter = 'n', .metavar = "N",
            .help = "print the last N records"},
        {LH_FLAG("follow", BOOL, &o.follow, NULL), .letter = 'f',
            .help = "go on printing what is appended"},
        OUTPUT_FLAGS(o),
    };
    const struct lh_command command = {
        .usage = "[OPTION]... PATH",
        .summary = "Prints the last records of the file PATH, each followed by a newline.",
        LH_FLAG_ROWS(table),
        .no_json = true,
        .args_min = 1,
        .args_max = 1,
        .check = check_tail,
        .run = tail,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
