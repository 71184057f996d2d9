/* `leasehold salvage`: what is left of a file, and what is damaged everywhere (REC-9a).
 *
 * Every member of every chunk is read for itself, from the first byte to the last. What one of them
 * cannot give is a range; what none can give is the intersection of these ranges, and is lost
 * unless a member that was not reached has it. Nothing is changed.
 *
 * Of a chunk that is not sealed only its primary knows the end: its members are compared as fsck
 * does, as far as each knows that bytes are committed. */
#include "client/command/command.h"

#include "base/alloc.h"
#include "base/plural.h"
#include "client/command/fsck.h"
#include "client/command/json.h"
#include "client/command/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAUSE_NS 200000000
#define PAGE     64u /* chunks; reading takes long, and what the master said gets old */

struct options {
    struct lh_command_common common;
};

/* Bytes of a chunk. */
struct range {
    uint64_t from, to;
};

struct ranges {
    struct range *all;
    size_t count, capacity;
};

/* One replica, read from its beginning to the chunk's end. */
struct member {
    const struct lh_replica_info *info;
    struct ranges damage;
    bool absent;     /* it has nothing of the chunk */
    char *unreached; /* why nothing is known of it, or not of all; NULL: all of it was seen */
};

struct chunk {
    const struct lh_chunk_state *state;
    struct member *members;
    size_t count, unreached;
    uint64_t end;
    struct ranges lost;   /* damaged at each member that was read */
    struct ranges partly; /* damaged at some, and whole at another */
    struct lh_damaged_batch *batches;
    size_t batch_count, batch_capacity;
};

struct totals {
    uint64_t chunks, bytes_read, lost, partly, gaps, undecided;
    uint64_t open, open_degraded, open_damaged; /* not sealed; of these, by what fsck says */
};

struct run {
    struct lh_cluster *cluster;
    const char *path;
    uint64_t file, timeout_ms;
    struct lh_progress progress;
    struct totals totals;
    bool json;
    json_t *chunks, *open;
};

static void ranges_add(struct ranges *r, uint64_t from, uint64_t to)
{
    if (from >= to)
        return;
    if (r->count > 0 && r->all[r->count - 1].to == from) {
        r->all[r->count - 1].to = to;
        return;
    }
    LH_GROW(r->all, r->capacity, r->count + 1);
    r->all[r->count++] = (struct range){from, to};
}

static bool ranges_have(const struct ranges *r, uint64_t at)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->all[i].from <= at && at < r->all[i].to)
            return true;
    return false;
}

static uint64_t ranges_bytes(const struct ranges *r)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < r->count; i++)
        bytes += r->all[i].to - r->all[i].from;
    return bytes;
}

/* The first place behind `at` where some member's damage begins or ends. */
static uint64_t next_edge(const struct chunk *c, uint64_t at)
{
    uint64_t next = c->end;
    for (size_t i = 0; i < c->count; i++) {
        const struct ranges *r = &c->members[i].damage;
        for (size_t k = 0; k < r->count; k++) {
            if (r->all[k].from > at && r->all[k].from < next)
                next = r->all[k].from;
            if (r->all[k].to > at && r->all[k].to < next)
                next = r->all[k].to;
        }
    }
    return next;
}

/* What is damaged at each member that was read, and what at some of them only. */
static void compare(struct chunk *c)
{
    for (uint64_t at = 0, to; at < c->end; at = to) {
        size_t read = 0, damaged = 0;
        to = next_edge(c, at);
        for (size_t i = 0; i < c->count; i++) {
            read += c->members[i].unreached == NULL;
            damaged += c->members[i].unreached == NULL && ranges_have(&c->members[i].damage, at);
        }
        if (damaged == read)
            ranges_add(&c->lost, at, to);
        else if (damaged > 0)
            ranges_add(&c->partly, at, to);
    }
}

/* The same header may be known from several members. */
static void note_batches(struct chunk *c, const struct lh_replica_damage *damage)
{
    for (size_t i = 0; i < damage->batch_count; i++) {
        bool known = false;
        for (size_t k = 0; k < c->batch_count && !known; k++)
            known = c->batches[k].offset == damage->batches[i].offset;
        if (known)
            continue;
        LH_GROW(c->batches, c->batch_capacity, c->batch_count + 1);
        c->batches[c->batch_count++] = damage->batches[i];
    }
}

static void show_progress(struct run *r)
{
    char text[32];
    if (lh_progress_due(&r->progress))
        lh_progress_show(&r->progress, "%" PRIu64 " chunk%s read, %s, %" PRIu64 " gap%s",
            r->totals.chunks, lh_plural(r->totals.chunks),
            lh_command_bytes(text, r->totals.bytes_read), r->totals.gaps,
            lh_plural(r->totals.gaps));
}

/* Reads one replica to its end, over whatever is damaged. */
static void read_member(struct run *r, struct chunk *c, struct member *m)
{
    struct lh_replica_scan scan = {0};
    const char *address = m->info->address;
    uint64_t id = c->state->info.chunk;
    uint64_t until_ms = lh_command_now_ms() + r->timeout_ms;
    int error = LH_OK;
    if (address[0] == '\0') {
        m->unreached = lh_strdup("its server has no session with the master");
        return;
    }
    while (error == LH_OK && scan.offset < c->end) {
        uint64_t from = scan.offset;
        show_progress(r);
        error = lh_replica_check(r->cluster, address, id, c->end, r->timeout_ms, &scan);
        r->totals.bytes_read += scan.offset - from;
        if (error == LH_ERR_RECOVERING && lh_command_now_ms() < until_ms) {
            (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
            error = LH_OK; /* it is being copied to, or read back: for a moment only */
        }
        if (error != LH_ERR_CORRUPT && error != LH_ERR_MALFORMED && error != LH_ERR_IO)
            continue;
        struct lh_replica_damage damage;
        error = lh_replica_resync(r->cluster, address, id, c->end, r->timeout_ms, &scan, &damage);
        if (error >= 0) {
            ranges_add(&m->damage, damage.from, damage.to);
            note_batches(c, &damage);
            lh_replica_damage_deinit(&damage);
        }
    }
    if (error >= 0)
        return;
    if (error == LH_ERR_NO_REPLICA || error == LH_ERR_CORRUPT) {
        m->absent = true; /* not even its header is there */
        ranges_add(&m->damage, scan.offset, c->end);
    } else {
        m->unreached = lh_strdup(lh_last_error());
    }
}

/* --- what is said ------------------------------------------------------------------------- */

static const char *verdict(const struct chunk *c)
{
    if (c->lost.count > 0)
        return c->unreached > 0 ? "undecided" : "damaged";
    return c->partly.count > 0 ? "mended" : c->unreached > 0 ? "readable" : "whole";
}

static json_t *ranges_json(const struct chunk *c, const struct ranges *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->count; i++)
        (void)json_array_append_new(
            list, json_pack("{s:I, s:I, s:I}", "from",
                      (json_int_t)(c->state->info.start + r->all[i].from), "to",
                      (json_int_t)(c->state->info.start + r->all[i].to), "bytes",
                      (json_int_t)(r->all[i].to - r->all[i].from)));
    return list;
}

static json_t *members_json(const struct chunk *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->count; i++) {
        const struct member *m = &c->members[i];
        (void)json_array_append_new(
            list, json_pack("{s:o, s:b, s:b, s:o, s:o}", "server_id",
                      lh_json_text(m->info->server_id), "read", (int)(m->unreached == NULL),
                      "absent", (int)m->absent, "damaged", ranges_json(c, &m->damage), "text",
                      lh_json_text(m->unreached != NULL ? m->unreached : "")));
    }
    return list;
}

static json_t *batches_json(const struct chunk *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->batch_count; i++) {
        const struct lh_damaged_batch *b = &c->batches[i];
        if (ranges_have(&c->lost, b->offset))
            (void)json_array_append_new(
                list, json_pack("{s:I, s:I, s:I, s:I, s:I}", "offset",
                          (json_int_t)(c->state->info.start + b->offset), "bytes",
                          (json_int_t)b->size, "records", (json_int_t)b->count, "writer",
                          (json_int_t)b->writer, "sequence", (json_int_t)b->sequence));
    }
    return list;
}

static void print_ranges(const struct chunk *c, const struct ranges *r, const char *what)
{
    for (size_t i = 0; i < r->count; i++)
        (void)printf("chunk %" PRIu64 ": offsets %" PRIu64 " to %" PRIu64 " of the file, %" PRIu64
                     " byte%s: %s\n",
            c->state->info.chunk, c->state->info.start + r->all[i].from,
            c->state->info.start + r->all[i].to, r->all[i].to - r->all[i].from,
            lh_plural(r->all[i].to - r->all[i].from), what);
}

static void print_chunk(const struct chunk *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->members[i].unreached != NULL)
            (void)printf("chunk %" PRIu64 ": %s was not read: %s\n", c->state->info.chunk,
                c->members[i].info->server_id, lh_command_shown(c->members[i].unreached));
    print_ranges(c, &c->partly,
        "damaged at some members and whole at another; the replicas are mended by themselves");
    print_ranges(c, &c->lost,
        c->unreached == 0 ? "DAMAGED at every member"
        : c->unreached < c->count
            ? "DAMAGED at each member that was read; one that was not may have it"
            : "no member could be read");
    for (size_t i = 0; i < c->batch_count; i++) {
        const struct lh_damaged_batch *b = &c->batches[i];
        if (ranges_have(&c->lost, b->offset))
            (void)printf("chunk %" PRIu64 ":   the batch at %" PRIu64 ": %" PRIu32
                         " record%s of writer %016" PRIx64 ", sequences %" PRIu64 " to %" PRIu64
                         "\n",
                c->state->info.chunk, c->state->info.start + b->offset, b->count,
                lh_plural(b->count), b->writer, b->sequence, b->sequence + b->count - 1);
    }
}

static void notify(struct run *r, const struct chunk *c)
{
    struct totals *t = &r->totals;
    t->chunks++;
    t->lost += ranges_bytes(&c->lost);
    t->gaps += c->lost.count;
    t->partly += ranges_bytes(&c->partly);
    t->undecided += c->lost.count > 0 && c->unreached > 0;
    lh_progress_clear(&r->progress);
    if (!r->json) {
        print_chunk(c);
        return;
    }
    (void)json_array_append_new(
        r->chunks, json_pack("{s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:o}", "chunk",
                       (json_int_t)c->state->info.chunk, "start", (json_int_t)c->state->info.start,
                       "length", (json_int_t)c->end, "verdict", verdict(c), "damaged",
                       ranges_json(c, &c->lost), "mended", ranges_json(c, &c->partly), "batches",
                       batches_json(c), "members", members_json(c)));
}

/* --- all of it ---------------------------------------------------------------------------- */

static void look_at_open(struct run *r, const struct lh_chunk_state *state)
{
    struct lh_fsck_silent silent = LH_FSCK_SILENT_INIT;
    struct lh_fsck_options options = {
        .prefix = r->path, .deep = true, .timeout_ms = r->timeout_ms, .silent = &silent};
    struct lh_fsck_report report;

    show_progress(r);
    lh_fsck_chunk_twice(r->cluster, &options, state, &report);
    r->totals.open++;
    r->totals.open_damaged += report.damage;
    r->totals.open_degraded += report.count > 0 && !report.damage;
    r->totals.bytes_read += report.bytes_read;
    lh_progress_clear(&r->progress);
    for (size_t i = 0; i < report.count; i++) {
        if (r->json)
            (void)json_array_append_new(r->open, lh_fsck_problem_json(state, &report.problems[i]));
        else
            lh_fsck_print_problem(state, &report.problems[i]);
    }
    lh_fsck_report_deinit(&report);
    lh_fsck_silent_deinit(&silent);
}

static void read_chunk(struct run *r, const struct lh_chunk_state *state)
{
    struct chunk c = {.state = state, .end = state->info.length};
    if (!state->info.sealed) {
        look_at_open(r, state);
        return;
    }
    c.members = lh_alloc_array(state->replica_count, sizeof *c.members);
    for (size_t i = 0; i < state->replica_count; i++) {
        if (strcmp(state->replicas[i].state, "COPYING") == 0)
            continue; /* it has nothing but what the others give it */
        struct member *m = &c.members[c.count++];
        *m = (struct member){.info = &state->replicas[i]};
        read_member(r, &c, m);
        c.unreached += m->unreached != NULL;
    }
    compare(&c);
    notify(r, &c);
    for (size_t i = 0; i < c.count; i++) {
        free(c.members[i].damage.all);
        free(c.members[i].unreached);
    }
    free(c.members);
    free(c.lost.all);
    free(c.partly.all);
    free(c.batches);
}

/* The chunks of the one file; others may have a path that begins with its path. */
static int read_all(struct run *r)
{
    uint64_t after = 0;
    for (bool more = true; more;) {
        struct lh_chunk_state_list list;
        int error = lh_chunks(r->cluster, r->path, after, PAGE, r->timeout_ms, &list);
        if (error != LH_OK) {
            lh_progress_clear(&r->progress);
            return lh_command_failed("salvage", r->path, error);
        }
        for (size_t i = 0; i < list.count; i++)
            if (list.chunks[i].file == r->file)
                read_chunk(r, &list.chunks[i]);
        more = list.more;
        after = list.next;
        lh_chunk_state_list_deinit(&list);
    }
    lh_progress_clear(&r->progress);
    return LH_EXIT_OK;
}

static void print_totals(const struct run *r)
{
    const struct totals *t = &r->totals;
    char read[32], lost[32], partly[32];
    (void)printf("%s: %" PRIu64 " sealed chunk%s, %s read: ", lh_command_shown(r->path), t->chunks,
        lh_plural(t->chunks), lh_command_bytes(read, t->bytes_read));
    if (t->gaps == 0)
        (void)printf("nothing is lost%s", t->open_damaged > 0 ? " there" : "");
    else
        (void)printf("%" PRIu64 " gap%s, %s, %s damaged at every member%s", t->gaps,
            lh_plural(t->gaps), lh_command_bytes(lost, t->lost),
            lh_one_or_many(t->gaps, "is", "are"), t->undecided > 0 ? " that was read" : "");
    if (t->partly > 0)
        (void)printf("; %s damaged at some only", lh_command_bytes(partly, t->partly));
    if (t->open_damaged > 0)
        (void)printf("; the chunk that is not sealed is DAMAGED, as above");
    else if (t->open_degraded > 0)
        (void)printf("; the chunk that is not sealed is degraded, as above, with nothing lost");
    (void)printf("\n");
}

static int salvage(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct options *o = options;
    struct lh_file_info info;
    struct run r = {
        .cluster = cluster,
        .path = args[0],
        .timeout_ms = lh_command_timeout_ms(&o->common),
        .json = o->common.json,
        .chunks = json_array(),
        .open = json_array(),
    };
    int error = lh_stat(cluster, r.path, r.timeout_ms, &info);
    if (error != LH_OK) {
        json_decref(r.chunks);
        json_decref(r.open);
        return lh_command_failed("salvage", r.path, error);
    }
    r.file = info.file;
    lh_file_info_deinit(&info);
    lh_progress_begin(&r.progress);
    int code = read_all(&r);
    const struct totals *t = &r.totals;
    if (code != LH_EXIT_OK || !r.json) {
        json_decref(r.chunks);
        json_decref(r.open);
    }
    if (code != LH_EXIT_OK)
        return code;
    if (r.json)
        lh_command_print_json(json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}",
            "path", lh_json_text(r.path), "file", (json_int_t)r.file, "bytes_read",
            (json_int_t)t->bytes_read, "gaps", (json_int_t)t->gaps, "bytes_damaged",
            (json_int_t)t->lost, "bytes_mended", (json_int_t)t->partly, "chunks_undecided",
            (json_int_t)t->undecided, "chunks_open", (json_int_t)t->open, "chunks_open_damaged",
            (json_int_t)t->open_damaged, "open_problems", r.open, "chunks", r.chunks));
    else
        print_totals(&r);
    return t->undecided > 0                     ? LH_EXIT_UNAVAILABLE
           : t->gaps > 0 || t->open_damaged > 0 ? LH_EXIT_DAMAGED
                                                : LH_EXIT_OK;
}

int lh_command_salvage(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_command command = {
        .usage = "[OPTION]... PATH",
        .summary =
            "Reads the sealed chunks of the file PATH at every member, byte for byte, and says "
            "what is damaged at some members only (which the cluster mends by itself) and what is "
            "damaged at every one: its offsets, and the writers and sequences of its records as "
            "far as headers can be read. The chunk that is not sealed is checked as by leasehold "
            "fsck --deep. Changes nothing: it neither closes a damaged chunk nor gives anything "
            "up. To read what is left: leasehold cat --skip-damaged.\n"
            "Exit status: 0 nothing is lost, 2 something is damaged at every member, 69 likewise "
            "at each that could be read, while another one may have it; others as always.",
        .args_min = 1,
        .args_max = 1,
        .run = salvage,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
