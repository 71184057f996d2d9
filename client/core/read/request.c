/* One READ: asking a member for the bytes behind an offset, and what comes of it. */
#include "base/alloc.h"
#include "batch/batch.h"
#include "client/core/read/hedge.h"
#include "client/core/read/silent.h"
#include "proto/codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* What a READ under way holds; its link is closed or answered. */
static void read_over(struct lh_client_read *read)
{
    struct lh_client_chunk_reader *cr = read->cr;
    struct lh_client_host *c = cr->reader->client;

    lh_timer_unset(&c->timers, &read->timer);
    cr->reader->held -= c->config.read_bytes;
    if (!lh_client_chunk_reader_reading(cr))
        lh_timer_unset(&c->timers, &cr->timer);
}

void lh_client_read_cancel(struct lh_client_read *read)
{
    if (read->link.id == 0)
        return;
    lh_client_link_close(read->cr->reader->client, &read->link);
    read_over(read);
}

/* How many bytes from the front of `batches` are whole, sound batches that continue what was read
 * so far; `*error` says why not all. `*checksum`: of the log in front of them, then behind them. */
static size_t sound_bytes(const struct lh_client_chunk_reader *cr, const struct lh_buf *batches,
    uint64_t *checksum, int *error)
{
    size_t at = 0;

    *error = LH_OK;
    while (at < batches->size) {
        struct lh_batch_header h;
        uint64_t behind = *checksum;
        *error = lh_batch_check(batches, at, lh_batch_bytes_max(cr->reader->chunk_size), &h);
        /* Behind a gap nothing is known that the first batch could fit (REC-9a). */
        if (*error == LH_OK && !lh_log_fits(batches, at, &h, &behind) &&
            !(at == 0 && cr->behind_gap))
            *error = LH_ERR_CORRUPT;
        if (*error != LH_OK)
            break;
        *checksum = behind;
        at += h.size;
    }
    if (*error != LH_OK && *error != LH_ERR_CORRUPT)
        *error = LH_ERR_MALFORMED;
    return at;
}

static void take_bytes(struct lh_client_chunk_reader *cr, struct lh_buf *batches, size_t size)
{
    struct lh_client_reader *r = cr->reader;
    struct lh_client_ready *b = lh_alloc(sizeof *b);

    b->offset = lh_client_chunk_reader_position(cr);
    if (size == batches->size)
        b->batches = lh_buf_take(batches);
    else
        lh_buf_append(&b->batches, batches, 0, size);
    if (cr->first == NULL)
        cr->first = b;
    else
        cr->last->next = b;
    cr->last = b;
    cr->offset += size;
    r->held += size;
    cr->at_end = false;
    lh_client_gap_forget(cr);
    lh_client_chunk_reader_helped(cr);
}

/* An answer counts: the other READ is not needed any more. One that began before it and still has
 * no answer is as good as silent. */
static void cancel_other(const struct lh_client_read *read)
{
    struct lh_client_chunk_reader *cr = read->cr;
    struct lh_client_read *other = &cr->reads[read == &cr->reads[0]];

    if (other->link.id == 0)
        return;
    if (other->begun.ns < read->begun.ns) {
        LH_MARK("reader-hedge-wins");
        lh_client_no_answer(cr->reader->readers, other->address);
    }
    lh_client_read_cancel(other);
}

/* The member has nothing behind `offset` now. */
static void nothing_more(struct lh_client_read *read, const Leasehold__ReadReply *m)
{
    struct lh_client_chunk_reader *cr = read->cr;
    struct lh_client_reader *r = cr->reader;
    bool asked_for_this = r->fetch != NULL && read->for_fetch == r->fetches;

    if (m->sealed && m->committed == cr->offset && !cr->chunk.sealed) {
        LH_MARK("reader-told-of-seal");
        cancel_other(read);
        cr->chunk.sealed = true;
        cr->chunk.length = cr->offset;
        cr->at_end = false;
    } else if (m->committed < cr->offset && (m->primary || m->sealed)) {
        char text[LH_CALL_TEXT_BYTES];
        snprintf(text, sizeof text, "%s: offset %" PRIu64 " is beyond the end", r->path,
            lh_client_chunk_reader_position(cr));
        cancel_other(read);
        lh_client_reader_end_fetch(r, LH_ERR_INVALID_ARGUMENT, text);
        cr->at_end = true;
        return;
    } else if (cr->chunk.sealed || m->committed > cr->offset) {
        LH_MARK("reader-at-lagging-member");
        lh_client_chunk_reader_failed(
            cr, LH_ERR_UNAVAILABLE, read->address, "this replica lags behind");
        return;
    } else {
        cancel_other(read);
        cr->at_end = true;
        lh_client_chunk_reader_helped(cr);
        if (!r->follow && asked_for_this &&
            (m->primary || LH_PLANTED("end-taken-from-secondary"))) {
            lh_client_reader_locate(r, true);
            return;
        }
    }
    lh_client_reader_pump(r);
}

static void read_answered(
    void *core, struct lh_link *link, const void *message, struct lh_buf *payload)
{
    struct lh_client_read *read = LH_OWNER(link, struct lh_client_read, link);
    struct lh_client_chunk_reader *cr = read->cr;
    struct lh_client_reader *r = cr->reader;
    const Leasehold__ReadReply *m = message;
    const char *text;
    int error = lh_client_reply_error(m, &text);

    (void)core;
    read_over(read);
    lh_client_answered(r->readers, read->address);
    if (error == LH_OK && !read->waits)
        lh_client_read_took(r->readers, lh_instant_until(read->begun, r->client->now));
    if (error == LH_ERR_INVALID_ARGUMENT && cr == r->chunks && cr->first == NULL) {
        cancel_other(read);
        lh_client_reader_say(r, error, "reading", text);
        cr->at_end = true; /* not asked again before the next FETCH */
        lh_client_reader_end_fetch(r, error, r->text);
        return;
    }
    if (read->resync && !m->resynced && (error == LH_ERR_CORRUPT || error == LH_ERR_MALFORMED)) {
        error = LH_ERR_UNAVAILABLE; /* it says nothing of what lies behind */
        text = "this chunkserver is of an older release, and cannot look behind damage";
    }
    if (error != LH_OK) {
        lh_client_chunk_reader_failed(cr, error, read->address, text);
        return;
    }
    if (m->resynced && payload->size == 0 && m->sealed && cr->chunk.sealed) {
        lh_client_gap_nothing(cr, read->address, LH_ERR_CORRUPT);
        lh_client_chunk_reader_failed(cr, LH_ERR_CORRUPT, read->address, NULL);
        return;
    }
    if (payload->size == 0) {
        nothing_more(read, m);
        return;
    }
    if (m->resynced && m->offset != cr->offset) {
        error = lh_client_gap_answered(cr, read->address, m) ? LH_ERR_CORRUPT : LH_ERR_MALFORMED;
        lh_client_chunk_reader_failed(cr, error, read->address, NULL);
        return;
    }
    uint64_t checksum = cr->checksum_known ? cr->checksum : m->checksum;
    size_t size = sound_bytes(cr, payload, &checksum, &error);
    if (cr->chunk.sealed && size > cr->chunk.length - cr->offset) {
        lh_client_chunk_reader_failed(
            cr, LH_ERR_MALFORMED, read->address, "more bytes than were sealed");
        return;
    }
    if (size > 0) {
        cancel_other(read);
        cr->checksum = checksum;
        cr->checksum_known = true;
        take_bytes(cr, payload, size);
    }
    if (error != LH_OK)
        lh_client_chunk_reader_failed(cr, error, read->address, NULL);
    lh_client_reader_pump(r);
}

/* A part of the answer is here, which is as good as an answer to a question of this size: nobody is
 * silent, and nobody late. */
static void read_progress(void *core, struct lh_link *link)
{
    struct lh_client_read *read = LH_OWNER(link, struct lh_client_read, link);
    struct lh_client_chunk_reader *cr = read->cr;
    struct lh_client_host *c = core;
    struct lh_instant by = LH_PLANTED("progress-for-ever") ? LH_INSTANT_NEVER : read->whole_by;

    LH_MARK("reader-answered-in-pieces");
    if (LH_PLANTED("progress-is-no-life"))
        return;
    lh_timer_set(&c->timers, &read->timer,
        lh_instant_min(lh_instant_add(c->now, c->config.try_timeout), by));
    if (lh_timer_is_set(&cr->timer))
        lh_timer_set(&c->timers, &cr->timer,
            lh_instant_add(c->now, lh_client_late_after(cr->reader->readers)));
}

static void read_closed(void *core, struct lh_link *link, int error, const char *text)
{
    struct lh_client_read *read = LH_OWNER(link, struct lh_client_read, link);

    (void)core;
    if (error == LH_OK || error == LH_ERR_CANCELLED)
        error = LH_ERR_UNAVAILABLE;
    read_over(read);
    if (error == LH_ERR_UNAVAILABLE || error == LH_ERR_DEADLINE_EXCEEDED)
        lh_client_no_answer(read->cr->reader->readers, read->address);
    lh_client_chunk_reader_failed(read->cr, error, read->address, text);
}

static const struct lh_link_user read_links = {
    .message = read_answered, .progress = read_progress, .closed = read_closed};

void lh_client_read_out_of_time(void *core, struct lh_timer *timer)
{
    struct lh_client_read *read = LH_OWNER(timer, struct lh_client_read, timer);

    lh_client_link_close(core, &read->link);
    read_closed(core, &read->link, LH_ERR_UNAVAILABLE, "no answer");
}

/* For how long an answer may take, once the server does not wait any more. Only the primary can
 * tell the end: the master must hear soon when it does not answer, for it may bring another one.
 * But it may be slow: so the time grows. */
static struct lh_duration patience(const struct lh_client_chunk_reader *cr)
{
    const struct lh_client_config *config = &cr->reader->client->config;
    unsigned doublings = cr->failures < 10 ? cr->failures : 10;

    return lh_client_chunk_reader_needs_primary(cr)
               ? lh_duration_min(
                     config->try_timeout, lh_nanoseconds(config->hang_timeout.ns << doublings))
               : config->try_timeout;
}

/* Asks that member for what follows `offset`; it may wait for more bytes for so long. */
void lh_client_read_begin(struct lh_client_chunk_reader *cr, size_t member, struct lh_duration wait)
{
    struct lh_client_reader *r = cr->reader;
    struct lh_client_host *c = r->client;
    struct lh_client_read *read = &cr->reads[cr->reads[0].link.id != 0];
    struct lh_duration timeout = lh_duration_add(wait, patience(cr));
    Leasehold__ReadRequest m = LEASEHOLD__READ_REQUEST__INIT;

    m.chunk = cr->chunk.chunk;
    m.offset = cr->offset;
    m.resync = read->resync = cr->resync || cr->behind_gap;
    m.max_bytes = m.resync ? 1 : c->config.read_bytes; /* only to see what is there */
    m.wait_ms = lh_duration_ms(wait);
    m.capability = cr->chunk.capability;
    m.cluster = lh_client_active_cluster(c);
    m.require_primary = lh_client_chunk_reader_needs_primary(cr);
    cr->member = member;
    cr->tried[member].tried = true;
    free(read->address);
    read->address = lh_strdup(cr->chunk.members[member].address);
    read->begun = c->now;
    read->for_fetch = r->fetch != NULL ? r->fetches : 0;
    read->waits = wait.ns > 0;
    read->link.user = &read_links;
    read->whole_by = lh_instant_add(c->now, lh_duration_add(wait, c->config.arrival_timeout));
    r->held += c->config.read_bytes;
    lh_client_silent_asked(r->readers, read->address);
    lh_link_open(&c->links, c->fx, &read->link, LH_METHOD_READ, read->address, LH_DURATION_FOREVER);
    lh_fx_send(c->fx, read->link.id, &m.base, NULL);
    lh_timer_set(&c->timers, &read->timer, lh_instant_add(c->now, timeout));
}
