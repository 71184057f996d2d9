/* One chunk's check; see fsck.h.
 *
 * The master's word is taken for what it knows to be wrong (a server that is away, a lost replica).
 * What it believes to be good is asked for at its server. Members of a sealed chunk must have
 * exactly its length and checksum. Members of an unsealed one grow while they are looked at, and
 * each knows a committed length of its own; below it all bytes are final (APP-6), so each is
 * compared with the longest one there. */
#include "client/command/fsck.h"

#include "base/alloc.h"
#include "base/plural.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_LOOK_MS 500u  /* orders that were under way have arrived by then */
#define STAT_MS        5000u /* a server that lives has answered by then */

#define REFUSED            "refused"
#define UNREACHABLE        "unreachable"
#define UNREACHABLE_ADVICE "Check that it runs, and the network between here and there."

/* A replica that its server shows. */
struct shown {
    const struct lh_replica_info *info;
    struct lh_replica_status status;
    struct lh_replica_scan scan;
    bool good; /* as far as it was looked at */
};

struct check {
    struct lh_cluster *cluster;
    const struct lh_fsck_options *options;
    const struct lh_chunk_state *state;
    struct lh_fsck_report *report;
    struct shown *shown;
    size_t count;
    bool refused; /* a server does not show its replica to whoever runs this */
};

enum weight { DEGRADED, PASSING, DAMAGE, DAMAGE_OR_PASSING };

static void __attribute__((format(printf, 6, 7)))
add(struct check *c, enum weight weight, const char *kind, const struct lh_replica_info *replica,
    const char *advice, const char *format, ...)
{
    struct lh_fsck_report *r = c->report;
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    LH_GROW(r->problems, r->capacity, r->count + 1);
    r->problems[r->count++] = (struct lh_fsck_problem){
        .kind = kind,
        .server_id = lh_strdup(replica != NULL ? replica->server_id : ""),
        .text = lh_strdup(text),
        .advice = advice,
        .damage = weight == DAMAGE || weight == DAMAGE_OR_PASSING,
    };
    r->passing = r->passing || weight == PASSING || weight == DAMAGE_OR_PASSING;
    r->damage = r->damage || weight == DAMAGE || weight == DAMAGE_OR_PASSING;
}

/* --- by the master's word ----------------------------------------------------------------- */

static const struct known {
    const char *state, *kind, *text, *advice;
} known[] = {
    {"AWAY", "away", "is away, or its disk does not answer",
        "Start it again; if it stays away its replica is copied elsewhere by itself."},
    {"GONE", "gone", "has been away for longer than the grace period",
        "Its replica is being copied elsewhere; see leasehold servers for how far that is."},
    {"LOST", "lost", "has lost its replica: damaged bytes or a failed disk",
        "It is copied anew by itself; look at that server's disk and log."},
    {"MISSING", "missing", "does not have the replica that the metadata says it has",
        "It is copied anew by itself; find out who deleted files on that server."},
    {"STALE", "stale", "has a replica that misses the chunk's last bytes or its seal",
        "It is refreshed by itself while the server is there."},
};

/* True: nothing more is to be asked about this replica. */
static bool master_knows(struct check *c, const struct lh_replica_info *r)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].state, r->state) == 0) {
            add(c, DEGRADED, known[i].kind, r, known[i].advice, "%s %s", r->server_id,
                known[i].text);
            return true;
        }
    }
    /* Not counted yet, or not any more: JOINING, COPYING, EXTRA, and a newer master's words. */
    return strcmp(r->state, "GOOD") != 0;
}

/* --- by the servers' ---------------------------------------------------------------------- */

#define OLDER_COPY                                                                                 \
    "The master may run on an older copy of its metadata: stop appending and see leasehold "       \
    "garbage and \"Backup\" in docs/operations.md."

/* What a server answered instead of showing its replica. */
static void refused(struct check *c, const struct lh_replica_info *r, int error)
{
    switch (error) {
    case LH_ERR_NO_REPLICA:
        add(c, PASSING, "missing", r,
            "It is copied anew once the server has registered again: restart it.",
            "%s has no such replica, though the master believes it", r->server_id);
        break;
    case LH_ERR_CORRUPT:
    case LH_ERR_IO:
        add(c, DEGRADED, "lost", r,
            "It is copied anew by itself; look at that server's disk and log.",
            "%s cannot show its replica: %s", r->server_id, lh_last_error());
        break;
    case LH_ERR_RECOVERING:
        add(c, PASSING, "busy", r, "Run leasehold fsck again later.",
            "%s is reading its replica back or copying it", r->server_id);
        break;
    case LH_ERR_PERMISSION:
        c->refused = true;
        add(c, DEGRADED, REFUSED, r,
            "Run leasehold fsck with a certificate that has this right, or correct the table of "
            "roles of the node that refused.",
            "%s was not looked at: %s", r->server_id, lh_last_error());
        break;
    case LH_ERR_STALE_CAPABILITY:
        c->refused = true;
        add(c, PASSING, REFUSED, r, "Run leasehold fsck again once a master answers.",
            "%s was not looked at: %s", r->server_id, lh_last_error());
        break;
    default:
        add(c, PASSING, UNREACHABLE, r, UNREACHABLE_ADVICE, "%s at %s does not answer: %s",
            r->server_id, r->address, lh_last_error());
    }
}

static void look_sealed(struct check *c, struct shown *s)
{
    const struct lh_chunk_info *chunk = &c->state->info;
    const struct lh_replica_status *at = &s->status;

    if (at->version > chunk->version) {
        add(c, DAMAGE_OR_PASSING, "newer", s->info, OLDER_COPY,
            "%s has version %" PRIu64 ", the metadata only %" PRIu64, s->info->server_id,
            at->version, chunk->version);
    } else if (at->sealed && at->committed != chunk->length) {
        add(c, DAMAGE_OR_PASSING, "differs", s->info,
            "Keep that server's data as it is and report it.",
            "%s is sealed at %" PRIu64 " bytes, the metadata says %" PRIu64, s->info->server_id,
            at->committed, chunk->length);
    } else if (!at->sealed || at->version < chunk->version) {
        add(c, PASSING, "stale", s->info,
            "The master tells it by and by, or has it refreshed; if it stays so restart the "
            "server.",
            "%s has not recorded the seal at %" PRIu64 " bytes (it knows %" PRIu64
            " at version %" PRIu64 ")",
            s->info->server_id, chunk->length, at->committed, at->version);
    } else {
        s->good = true;
    }
}

static void look_unsealed(struct check *c, struct shown *s)
{
    const struct lh_chunk_info *chunk = &c->state->info;

    if (s->status.version > chunk->version || s->status.sealed)
        add(c, DAMAGE_OR_PASSING, "newer", s->info, OLDER_COPY,
            "%s has version %" PRIu64 "%s, the metadata version %" PRIu64 ", not sealed",
            s->info->server_id, s->status.version, s->status.sealed ? ", sealed" : "",
            chunk->version);
    else
        s->good = true; /* an older version is brought up to date by the next primary (REC-2) */
}

static bool is_silent(struct lh_fsck_silent *silent, const char *server_id)
{
    bool found = false;
    (void)pthread_mutex_lock(&silent->mutex);
    for (size_t i = 0; i < silent->count && !found; i++)
        found = strcmp(silent->server_ids[i], server_id) == 0;
    (void)pthread_mutex_unlock(&silent->mutex);
    return found;
}

/* Whether something is wrong at that server, of that kind or (NULL) of any. */
static bool complains(const struct lh_fsck_report *report, const char *server_id, const char *kind)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct lh_fsck_problem *p = &report->problems[i];
        if (strcmp(p->server_id, server_id) == 0 && (kind == NULL || strcmp(p->kind, kind) == 0))
            return true;
    }
    return false;
}

/* Who did not answer, and at the second look did not either, or is away by then. */
static void note_silent(struct lh_fsck_silent *silent, const struct lh_fsck_report *first,
    const struct lh_fsck_report *second)
{
    for (size_t i = 0; i < first->count; i++) {
        const char *server_id = first->problems[i].server_id;
        if (!complains(first, server_id, UNREACHABLE) || !complains(second, server_id, NULL) ||
            is_silent(silent, server_id))
            continue;
        (void)pthread_mutex_lock(&silent->mutex);
        LH_GROW(silent->server_ids, silent->capacity, silent->count + 1);
        silent->server_ids[silent->count++] = lh_strdup(server_id);
        (void)pthread_mutex_unlock(&silent->mutex);
    }
}

void lh_fsck_silent_deinit(struct lh_fsck_silent *silent)
{
    for (size_t i = 0; i < silent->count; i++)
        free(silent->server_ids[i]);
    free(silent->server_ids);
    (void)pthread_mutex_destroy(&silent->mutex);
}

static void look(struct check *c, const struct lh_replica_info *r)
{
    if (master_knows(c, r))
        return;
    struct shown *s = &c->shown[c->count];
    *s = (struct shown){.info = r};
    c->report->replicas_asked++;
    if (is_silent(c->options->silent, r->server_id)) {
        add(c, DEGRADED, UNREACHABLE, r, UNREACHABLE_ADVICE,
            "%s at %s was not asked: it did not answer before", r->server_id, r->address);
        return;
    }
    uint64_t patience_ms = c->options->timeout_ms;
    patience_ms = patience_ms < STAT_MS ? patience_ms : STAT_MS;
    int error =
        lh_replica_stat(c->cluster, r->address, c->state->info.chunk, patience_ms, &s->status);
    if (error != LH_OK) {
        refused(c, r, error);
        return;
    }
    c->count++;
    if (c->state->info.sealed)
        look_sealed(c, s);
    else
        look_unsealed(c, s);
}

/* --- by their bytes ----------------------------------------------------------------------- */

/* Reads on up to `end`; false, and the replica is not good, when it does not get there. */
static bool read_to(struct check *c, struct shown *s, uint64_t end)
{
    int error = LH_OK;
    while (error == LH_OK) {
        uint64_t from = s->scan.offset;
        error = lh_replica_check(c->cluster, s->info->address, c->state->info.chunk, end,
            c->options->timeout_ms, &s->scan);
        c->report->bytes_read += s->scan.offset - from;
    }
    if (error == LH_END)
        return true;
    s->good = false;
    if (error == LH_ERR_CORRUPT || error == LH_ERR_IO)
        add(c, DEGRADED, "corrupt", s->info,
            "The server gives this replica up and it is copied anew by itself; look at its disk.",
            "%s cannot show the bytes from %" PRIu64 " on: %s", s->info->server_id, s->scan.offset,
            lh_last_error());
    else if (error == LH_ERR_MALFORMED)
        add(c, DAMAGE_OR_PASSING, "differs", s->info,
            "Keep that server's data as it is and report it.",
            "%s has other batches than it should, from %" PRIu64 " on: %s", s->info->server_id,
            s->scan.offset, lh_last_error());
    else
        refused(c, s->info, error);
    return false;
}

static void differs(struct check *c, struct shown *s, uint64_t checksum, const char *than)
{
    s->good = false;
    add(c, DAMAGE_OR_PASSING, "differs", s->info, "Keep that server's data as it is and report it.",
        "%s has other bytes than %s below %" PRIu64 ": checksum %016" PRIx64 ", not %016" PRIx64,
        s->info->server_id, than, s->scan.offset, s->scan.checksum, checksum);
}

static void read_sealed(struct check *c)
{
    const struct lh_chunk_state *state = c->state;
    for (size_t i = 0; i < c->count; i++) {
        struct shown *s = &c->shown[i];
        if (s->good && read_to(c, s, state->info.length) && s->scan.checksum != state->checksum)
            differs(c, s, state->checksum, "the seal");
    }
}

static int by_committed(const void *a, const void *b)
{
    const struct shown *x = a, *y = b;
    return (x->status.committed > y->status.committed) -
           (x->status.committed < y->status.committed);
}

/* Compares the first `count` with the last of them, which knows most. */
static void compare(struct check *c, size_t count)
{
    struct shown *longest = &c->shown[count - 1];
    for (size_t i = 0; i < count; i++) {
        struct shown *s = &c->shown[i];
        if (!s->good || !read_to(c, s, s->status.committed) || s == longest)
            continue;
        if (longest->good && read_to(c, longest, s->status.committed) &&
            s->scan.checksum != longest->scan.checksum)
            differs(c, s, longest->scan.checksum, longest->info->server_id);
    }
}

static void read_unsealed(struct check *c)
{
    if (c->count == 0)
        return;
    qsort(c->shown, c->count, sizeof *c->shown, by_committed);
    for (size_t count = c->count; count > 0; count--) {
        for (size_t i = 0; i < count; i++)
            c->shown[i].scan = (struct lh_replica_scan){0};
        if (!c->shown[count - 1].good)
            continue;
        compare(c, count);
        if (c->shown[count - 1].good)
            break; /* otherwise it was no measure for the others */
    }
}

/* --- all of it ---------------------------------------------------------------------------- */

static void unreadable(struct check *c)
{
    const struct lh_chunk_info *chunk = &c->state->info;
    char end[32] = "the end";
    bool in_part = false;
    for (size_t i = 0; i < c->state->replica_count; i++)
        in_part = in_part || strcmp(c->state->replicas[i].state, "LOST") == 0;
    if (chunk->sealed)
        (void)snprintf(end, sizeof end, "%" PRIu64, chunk->start + chunk->length);
    add(c, DAMAGE_OR_PASSING, "unreadable", NULL,
        in_part ? "What is whole of the damaged replicas can be read (leasehold cat, leasehold "
                  "salvage). Start the servers that are away, and keep what all have on their "
                  "disks: what is damaged at each of them is lost."
                : "Start the servers that are away, and keep what the others have on their disks: "
                  "without them these records are lost.",
        "no good replica can be reached now of the file's bytes from %" PRIu64 " to %s",
        chunk->start, end);
}

void lh_fsck_chunk(struct lh_cluster *cluster, const struct lh_fsck_options *options,
    const struct lh_chunk_state *state, struct lh_fsck_report *report)
{
    struct check c = {
        .cluster = cluster,
        .options = options,
        .state = state,
        .report = report,
        .shown = lh_alloc_array(state->replica_count, sizeof *c.shown),
    };
    size_t good = 0;
    *report = (struct lh_fsck_report){0};
    if (!state->created) { /* it never held a byte */
        free(c.shown);
        return;
    }
    for (size_t i = 0; i < state->replica_count; i++)
        look(&c, &state->replicas[i]);
    if (options->deep && state->info.sealed)
        read_sealed(&c);
    else if (options->deep)
        read_unsealed(&c);
    for (size_t i = 0; i < c.count; i++)
        good += c.shown[i].good;
    if (good == 0 && !c.refused)
        unreadable(&c);
    else if (good > 0 && good < state->replication && report->count == 0)
        add(&c, DEGRADED, "too_few", NULL,
            "It is copied by itself if there are enough other servers with room.",
            "it has %zu good replica%s instead of %" PRIu32, good, lh_plural(good),
            state->replication);
    free(c.shown);
}

void lh_fsck_chunk_twice(struct lh_cluster *cluster, const struct lh_fsck_options *options,
    const struct lh_chunk_state *state, struct lh_fsck_report *report)
{
    struct lh_chunk_state_list now = {0};

    lh_fsck_chunk(cluster, options, state, report);
    if (!report->passing)
        return;
    lh_command_pause(SECOND_LOOK_MS);
    if (lh_chunks(cluster, options->prefix, state->info.chunk - 1, 1, options->timeout_ms, &now) !=
        LH_OK)
        return; /* what was found stands */
    bool listed = now.count == 1 && now.chunks[0].info.chunk == state->info.chunk;
    if (!listed && options->prefix != NULL && options->prefix[0] != '\0') {
        lh_chunk_state_list_deinit(&now);
        return; /* its file has another name now, and what was found stands */
    }
    struct lh_fsck_report first = *report;
    *report = (struct lh_fsck_report){0};
    if (listed)
        lh_fsck_chunk(cluster, options, &now.chunks[0], report);
    note_silent(options->silent, &first, report);
    report->replicas_asked = first.replicas_asked;
    report->bytes_read += first.bytes_read;
    lh_fsck_report_deinit(&first);
    lh_chunk_state_list_deinit(&now);
}

void lh_fsck_report_deinit(struct lh_fsck_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        free(report->problems[i].server_id);
        free(report->problems[i].text);
    }
    free(report->problems);
    *report = (struct lh_fsck_report){0};
}
