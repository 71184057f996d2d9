/* Reads below the committed length (APP-6) and a primary's fetches (REC-2). Every batch is checked
 * before it leaves (FAIL-4). */
#include "chunkserver/serve/reading.h"

#include "base/alloc.h"
#include "batch/batch.h"

#include <stdlib.h>

#define DAMAGED      "this replica is damaged: read another one"
#define DISK_REFUSES "the disk cannot read this now: read another replica"

static bool answers_as_primary(const struct lh_cs_replica *r)
{
    return lh_cs_primary_of(r) != NULL && lh_cs_primary_has_recovered(lh_cs_primary_of(r)) &&
           (lh_cs_primary_may_act(lh_cs_primary_of(r)) || LH_PLANTED("read-without-lease"));
}

/* A member that is being copied to hears of committed bytes before it has written them. */
static uint64_t readable(const struct lh_cs_replica *r)
{
    if (LH_PLANTED("uncommitted-bytes-read"))
        return r->written;
    return r->committed < r->written ? r->committed : r->written;
}

/* The seal is durable here (SEAL-1), not just being written. */
static bool sealed(const struct lh_cs_replica *r)
{
    return lh_cs_replica_sealed_now(r);
}

static void reading_free(struct lh_cs_reading *rd)
{
    if (rd->ticket != NULL)
        rd->ticket->owner = NULL;
    lh_timer_unset(&rd->replica->logs->cs->timers, &rd->timer);
    DL_DELETE(lh_cs_serve(rd->replica)->readings, rd);
    free(rd->search);
    free(rd);
}

/* `m`: what is set already goes with it. */
static void reply(struct lh_cs_host *cs, uint64_t link, const struct lh_cs_replica *r, int error,
    const char *text, struct lh_cs_piece *piece, Leasehold__ReadReply m)
{
    if (error == LH_OK)
        cs->counts.reads++;
    else
        cs->counts.read_errors[-error]++;
    if (piece != NULL) {
        cs->counts.bytes_read += piece->batches.size;
        m.checksum = piece->before;
    }
    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)(error == LH_OK ? ""
                                       : text == NULL ? lh_error_text(error)
                                                      : text);
    if (r != NULL) {
        m.version = r->header.version;
        m.committed = readable(r);
        m.sealed = sealed(r);
        m.primary = answers_as_primary(r);
    }
    lh_fx_send(cs->fx, link, &m.base, piece == NULL ? NULL : &piece->batches);
    lh_cs_link_close(cs, link, LH_OK, NULL);
}

static void refuse(struct lh_cs_link *l, const Leasehold__ReadRequest *request,
    const struct lh_cs_replica *r, int error, const char *text)
{
    struct lh_cs_serving *serving = l->user_arg;
    Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;

    m.resynced = request->resync;
    reply(serving->cs, l->id, r, error, text, NULL, m);
}

static void finish(struct lh_cs_reading *rd, int error, const char *text, struct lh_cs_piece *piece)
{
    Leasehold__DamagedBatch damaged[LH_SEARCH_DAMAGED], *list[LH_SEARCH_DAMAGED];
    Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;

    m.resynced = rd->search != NULL;
    if (rd->search != NULL && error == LH_OK) {
        m.offset = rd->offset;
        m.damaged = list;
        for (; m.n_damaged < rd->search->damaged_count; m.n_damaged++) {
            const struct lh_damaged *d = &rd->search->damaged[m.n_damaged];
            list[m.n_damaged] = &damaged[m.n_damaged];
            leasehold__damaged_batch__init(list[m.n_damaged]);
            list[m.n_damaged]->offset = d->offset;
            list[m.n_damaged]->size = d->header.size;
            list[m.n_damaged]->count = d->header.count;
            list[m.n_damaged]->writer = d->header.writer;
            list[m.n_damaged]->sequence = d->header.sequence;
        }
    }
    reply(rd->replica->logs->cs, rd->link, rd->replica, error, text, piece, m);
    reading_free(rd);
}

/* How far this reader may see. */
static uint64_t visible(const struct lh_cs_reading *rd)
{
    const struct lh_cs_replica *r = rd->replica;

    return rd->recovery ? r->written : readable(r);
}

static void read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);

static const struct lh_cs_disk_user read = {
    .done = read_done,
    .owned = true,
    .impatient = true,
};

static void start(struct lh_cs_reading *rd, uint64_t bytes)
{
    struct lh_cs_replica *r = rd->replica;
    struct lh_cs_serving *serving = lh_cs_serving_of(r);
    uint64_t left = rd->limit - rd->offset;

    rd->asked = bytes < left ? bytes : left;
    if (rd->paced) {
        lh_pacing_take(&serving->copy_out, r->logs->cs->now, rd->asked);
        serving->copied_out += rd->asked;
    }
    /* A fetch of a new primary's is not kept waiting for those who read slowly. */
    struct lh_cs_disk_request request = {.for_reply = !rd->recovery};
    lh_cs_piece_request(&request, rd->offset, rd->asked);
    rd->ticket = lh_cs_disk_ask(r->logs, &read, r, rd, &request);
}

/* From when on bytes may be read for copies elsewhere (REC-4). */
static struct lh_instant paced_until(const struct lh_cs_replica *r)
{
    return lh_pacing_ready_at(&lh_cs_serving_of(r)->copy_out);
}

/* Reads if there is something to read, waits if it may come, answers otherwise. */
static void look(struct lh_cs_reading *rd)
{
    struct lh_cs_replica *r = rd->replica;

    if (rd->ticket != NULL)
        return;
    if (rd->require_primary && !answers_as_primary(r)) {
        LH_MARK("read-not-primary");
        finish(rd, LH_ERR_NOT_PRIMARY, NULL, NULL);
        return;
    }
    if (rd->recovery && rd->version != r->header.version) {
        finish(rd, LH_ERR_STALE_VERSION, NULL, NULL);
        return;
    }
    uint64_t limit = visible(rd);
    if (rd->search != NULL && rd->offset >= limit && sealed(r)) {
        finish(rd, LH_OK, NULL, NULL); /* nothing of it is here */
        return;
    }
    bool at_end = rd->offset == limit && !sealed(r);
    if (r->state == LH_CS_REPLICA_LOST && (rd->offset > limit || at_end)) {
        finish(rd, LH_ERR_CORRUPT, DAMAGED, NULL); /* more of it may be known elsewhere */
        return;
    }
    if (rd->offset > limit && (sealed(r) || rd->require_primary || rd->recovery)) {
        finish(rd, LH_ERR_INVALID_ARGUMENT, "the offset lies behind the end", NULL);
        return;
    }
    if (rd->offset < limit && rd->paced && !lh_instant_reached(r->logs->cs->now, paced_until(r))) {
        LH_MARK("copy-source-waits");
        lh_timer_set(&r->logs->cs->timers, &rd->timer, paced_until(r));
    } else if (rd->offset < limit) {
        rd->limit = limit;
        start(rd, rd->max_bytes);
    } else if (sealed(r) || lh_instant_reached(r->logs->cs->now, rd->until)) {
        finish(rd, LH_OK, NULL, NULL);
    } else {
        LH_MARK("read-waits");
        lh_timer_set(&r->logs->cs->timers, &rd->timer, rd->until);
    }
}

static void fire(void *core, struct lh_timer *timer)
{
    (void)core;
    look(LH_OWNER(timer, struct lh_cs_reading, timer));
}

static void message(struct lh_cs_link *l, const void *request, struct lh_buf *payload)
{
    const Leasehold__ReadRequest *m = request;
    struct lh_cs_serving *serving = l->user_arg;
    struct lh_cs_host *cs = serving->cs;
    struct lh_cs_replica *r = lh_cs_replica_find(serving->logs, m->chunk);
    uint64_t most = cs->config.bounds.read_bytes, wait_most = cs->config.bounds.read_wait_ms;
    uint64_t wait_ms = m->wait_ms < wait_most ? m->wait_ms : wait_most;

    (void)payload;
    if (l->owner != NULL)
        return; /* one request a call */
    /* ACC-5. Other servers need none (ACC-3). */
    bool for_client =
        m->mode != LEASEHOLD__READ_MODE__RECOVERY && m->mode != LEASEHOLD__READ_MODE__COPY;
    struct lh_instant until;
    const char *text;
    if (for_client && lh_cs_capability(cs, m->chunk, LH_CAPABILITY_READ, &m->capability, &until,
                          &text) != LH_OK) {
        refuse(l, m, NULL, LH_ERR_STALE_CAPABILITY, text);
        return;
    }
    if (r == NULL || r->state == LH_CS_REPLICA_REMOVING || r->state == LH_CS_REPLICA_CREATING) {
        refuse(l, m, NULL, LH_ERR_NO_REPLICA, NULL);
        return;
    }
    if (r->incomplete) {
        LH_MARK("read-incomplete");
        refuse(l, m, NULL, LH_ERR_RECOVERING, "this replica is incomplete");
        return;
    }
    bool damaged = r->state == LH_CS_REPLICA_LOST;
    if (damaged && (r->headless || m->mode == LEASEHOLD__READ_MODE__RECOVERY ||
                       LH_PLANTED("damaged-replica-is-not-read"))) {
        LH_MARK("read-lost-replica");
        refuse(l, m, r, LH_ERR_CORRUPT, DAMAGED);
        return;
    }
    if (damaged)
        LH_MARK("read-damaged-replica");
    if (r->state != LH_CS_REPLICA_READY && !lh_cs_replica_is_kept(r)) {
        refuse(l, m, r, LH_ERR_RECOVERING, "the log is being read back");
        return;
    }
    struct lh_cs_reading *rd = lh_alloc(sizeof *rd);
    rd->link = l->id;
    rd->replica = r;
    rd->version = m->version;
    rd->offset = m->offset;
    rd->max_bytes = m->max_bytes < most ? m->max_bytes : most;
    if (rd->max_bytes < LH_BATCH_HEADER_BYTES)
        rd->max_bytes = LH_BATCH_HEADER_BYTES;
    rd->recovery = m->mode == LEASEHOLD__READ_MODE__RECOVERY;
    rd->paced = m->mode == LEASEHOLD__READ_MODE__COPY;
    if (rd->paced)
        rd->max_bytes = lh_pacing_piece(&serving->copy_out, rd->max_bytes);
    rd->require_primary = m->require_primary;
    if (m->resync && for_client)
        rd->search = lh_alloc(sizeof *rd->search);
    rd->until = lh_instant_add(cs->now, lh_milliseconds(wait_ms));
    rd->timer.fire = fire;
    DL_APPEND(lh_cs_serve(r)->readings, rd);
    l->owner = rd;
    look(rd);
}

/* The first batch is larger than was asked for: it is returned all the same. */
static bool read_larger(struct lh_cs_reading *rd, const struct lh_buf *bytes)
{
    uint8_t header[LH_BATCH_HEADER_BYTES];
    struct lh_batch_header h;

    if (!lh_buf_read(bytes, bytes->size - rd->asked, header, sizeof header) ||
        lh_batch_header_decode(header, &h) != LH_OK || h.size <= rd->asked ||
        h.size > rd->limit - rd->offset || (rd->unreadable > 0 && h.size >= rd->unreadable))
        return false;
    start(rd, h.size);
    return true;
}

/* REC-9a: looks where the next whole batch begins, and reads from there. It concludes nothing from
 * what it sees: an offset that is wrong looks the same as damage. */
static void searched(struct lh_cs_reading *rd, int result)
{
    struct lh_log_search *s = rd->search;
    uint64_t window = rd->replica->logs->cs->config.bounds.read_bytes;

    if (result == LH_ERR_NOT_FOUND && !rd->some_read) {
        finish(rd, LH_ERR_IO, DISK_REFUSES, NULL); /* that is the disk, and not a bad sector */
        return;
    }
    if (result == LH_ERR_NOT_FOUND) {
        rd->offset = rd->limit;
        finish(rd, LH_OK, NULL, NULL);
        return;
    }
    rd->found = result == LH_OK;
    rd->offset = rd->found ? s->start : s->at;
    rd->unreadable = 0;
    start(rd, rd->found ? rd->max_bytes : s->bytes > window ? s->bytes : window);
}

static struct lh_log_search *search_of(struct lh_cs_reading *rd)
{
    struct lh_cs_replica *r = rd->replica;

    if (!rd->searching)
        lh_log_search_init(rd->search, r->chunk, rd->offset, rd->limit,
            lh_batch_bytes_max(r->header.chunk_size), r->logs->cs->config.bounds.search_bytes);
    rd->searching = true;
    return rd->search;
}

/* So often a search asks for the smallest piece, after growing pauses, before it passes it. */
#define SEARCH_TRIES 4u

/* The disk cannot read these bytes in any piece. One refusal says nothing of what is there (REC-6):
 * they are asked for again before the search passes them. */
static void pass_unreadable(struct lh_cs_reading *rd, uint64_t bytes)
{
    struct lh_cs_host *cs = rd->replica->logs->cs;

    if (rd->refused < SEARCH_TRIES) {
        struct lh_duration pause = lh_cs_refusal_pause(&cs->config.bounds, rd->refused++);
        rd->unreadable = 0;
        lh_timer_set(&cs->timers, &rd->timer, lh_instant_add(cs->now, pause));
    } else {
        searched(rd, lh_log_search_unreadable(search_of(rd), bytes));
    }
}

static void search(struct lh_cs_reading *rd, const struct lh_buf *bytes)
{
    struct lh_log_search *s = search_of(rd);
    int result = lh_log_search(s, bytes, bytes->size - rd->asked);

    if (result != LH_ERR_WOULD_BLOCK || rd->unreadable == 0 || s->at != rd->offset)
        searched(rd, result);
    else if (s->bytes > rd->asked && s->bytes < rd->unreadable)
        start(rd, s->bytes);
    else
        pass_unreadable(rd, 1); /* what begins here cannot be read to its end */
}

/* The disk cannot read these bytes. What is whole in front of a bad sector, and behind it, can be
 * read in smaller pieces. False: no smaller piece helps. */
static bool narrow(struct lh_cs_reading *rd)
{
    rd->unreadable = rd->asked;
    if (rd->asked > rd->replica->logs->cs->config.bounds.read_least_bytes)
        start(rd, rd->asked / 2);
    else if (rd->search != NULL && !rd->found)
        pass_unreadable(rd, rd->asked);
    else
        return false;
    return true;
}

/* What is whole is read, and nothing is concluded from what is not. */
static bool is_lenient(const struct lh_cs_reading *rd)
{
    return rd->search != NULL || lh_cs_replica_is_kept(rd->replica);
}

static void take(struct lh_cs_reading *rd, const struct lh_buf *bytes, struct lh_cs_piece *piece)
{
    struct lh_cs_replica *r = rd->replica;
    int error = lh_cs_piece_check(r, rd->offset, bytes, bytes->size, piece);

    if (error == LH_ERR_WOULD_BLOCK && read_larger(rd, bytes))
        return;
    /* TIME-5: the disk may have taken long, or have refused a change meanwhile. */
    if ((is_lenient(rd) || error == LH_OK) && rd->require_primary && !answers_as_primary(r)) {
        finish(rd, LH_ERR_NOT_PRIMARY, NULL, NULL);
        return;
    }
    if (is_lenient(rd)) {
        bool some = piece->batches.size > 0;
        finish(rd, some ? LH_OK : LH_ERR_CORRUPT, NULL, some ? piece : NULL);
        return;
    }
    if (error != LH_OK && (piece->batches.size > 0 || rd->offset == 0)) {
        /* A batch begins here for certain: the bytes have rotted. What lies before it is good, but
         * a replica with rot in it is copied again as a whole (FAIL-4). */
        LH_MARK("read-rotten");
        lh_cs_replica_lose(r, LH_ERR_CORRUPT, rd->offset + piece->batches.size);
    } else if (error != LH_OK) {
        /* Either the reader is wrong or this log: a reader alone condemns no replica. */
        lh_cs_scrub_soon(&lh_cs_serving_of(r)->scrub, r);
        finish(rd, LH_ERR_MALFORMED, "no sound batch begins at this offset", NULL);
    } else {
        finish(rd, LH_OK, NULL, piece);
    }
}

static void read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_reading *rd = t->owner;
    struct lh_cs_replica *r = rd->replica;
    struct lh_cs_piece piece = {.for_copy = rd->paced, .placed = rd->found};

    rd->ticket = NULL;
    if (error == LH_ERR_SHORTAGE) {
        finish(rd, error, "this server is short of descriptors or memory: read another one", NULL);
        return;
    }
    if (error == LH_OK && bytes->size < t->length) {
        if (rd->limit > r->written) {
            finish(rd, LH_ERR_STALE_VERSION, "the log was truncated meanwhile", NULL);
            return;
        }
        error = LH_ERR_CORRUPT; /* the file is shorter than what was written to it */
    }
    bool lenient = is_lenient(rd);
    rd->some_read = rd->some_read || error == LH_OK;
    if (error != LH_OK && lenient && narrow(rd))
        return;
    if (error != LH_OK && error != LH_ERR_IO && lenient &&
        (rd->search == NULL || error == LH_ERR_CORRUPT)) {
        finish(rd, LH_ERR_CORRUPT, DAMAGED, NULL);
        return;
    }
    if (error == LH_ERR_CORRUPT) {
        lh_cs_replica_lose(r, error, rd->offset); /* answers this reader too */
        return;
    }
    if (error != LH_OK) {
        /* One refusal says nothing of what is there. The scrub asks again. */
        LH_MARK("read-refused-by-the-disk");
        lh_cs_scrub_soon(&lh_cs_serving_of(r)->scrub, r);
        finish(rd, LH_ERR_IO, DISK_REFUSES, NULL);
        return;
    }
    if (rd->search != NULL && !rd->found) {
        search(rd, bytes);
        return;
    }
    take(rd, bytes, &piece);
    lh_buf_clear(&piece.batches);
}

static void link_closed(struct lh_cs_link *gone, const char *text)
{
    (void)text;
    if (gone->owner != NULL)
        reading_free(gone->owner);
}

const struct lh_cs_link_user lh_cs_read_links = {.message = message, .closed = link_closed};

void lh_cs_readings_look(struct lh_cs_replica *r)
{
    struct lh_cs_reading *rd, *next;

    DL_FOREACH_SAFE(lh_cs_served(r)->readings, rd, next) {
        look(rd);
    }
}

void lh_cs_readings_refuse_all(struct lh_cs_replica *r, int error)
{
    struct lh_cs_reading *rd, *next;

    DL_FOREACH_SAFE(lh_cs_served(r)->readings, rd, next) {
        finish(rd, error, "this replica is lost or removed: read another one", NULL);
    }
}
