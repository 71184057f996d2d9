/* Reading ahead over chunks.
 *
 * A reader knows a run of consecutive chunks and has a *chunk reader* (chunk_reader.c) for each.
 * The bytes of the first one are being given out; the next one, if sealed, is read ahead as well.
 * Which chunks there are is asked of the master.
 *
 * The end (APP-6). That a primary under a valid lease has nothing more is not enough: the master
 * must then still call this chunk the file's unsealed tail. Both are asked after the FETCH was fed,
 * so that every append acknowledged before it has been given out. */
#include "client/core/read/reader.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "client/core/read/hedge.h"
#include "client/core/read/silent.h"
#include "proto/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

void lh_client_reader_say(struct lh_client_reader *r, int error, const char *what, const char *text)
{
    r->reason = lh_client_reason(error);
    snprintf(r->text, sizeof r->text, "%s: %s: %s", r->path, what,
        text != NULL && text[0] != '\0' ? text : lh_error_text(error));
}

void lh_client_reader_end_fetch(struct lh_client_reader *r, int error, const char *text)
{
    struct lh_fetch_call *call = r->fetch;

    if (call == NULL)
        return;
    r->fetch = NULL;
    lh_timer_unset(&r->client->timers, &r->fetch_timer);
    lh_client_complete(r->client, &call->call, error, text);
}

/* ---- What the master knows ---- */

static void retry_later(struct lh_client_reader *r, struct lh_duration at_least)
{
    struct lh_client_host *c = r->client;
    struct lh_duration pause = lh_duration_max(lh_client_backoff(c, ++r->failures), at_least);

    lh_timer_set(&c->timers, &r->timer, lh_instant_add(c->now, pause));
}

/* Makes chunk readers of what the master lists. False when the list cannot be true. */
static bool take_chunks(struct lh_client_reader *r, const Leasehold__LocateReply *m)
{
    struct lh_client_chunk_reader *last = r->chunks;
    size_t i = 0;

    if (r->chunks != NULL && m->n_chunks > 0) {
        struct lh_client_chunk_reader *cr = r->chunks;
        if (m->chunks[0]->chunk == cr->chunk.chunk) {
            if (!lh_client_chunk_reader_refresh(cr, m->chunks[0]))
                return false;
            i = 1;
        } else if (m->chunks[0]->start == lh_client_chunk_reader_position(cr)) {
            /* The chunk that holds the next byte is another one: this one was sealed here. */
            LH_MARK("reader-at-chunk-end");
            cr->chunk.sealed = true;
            cr->chunk.length = cr->offset;
            cr->at_end = false;
        } else {
            return false;
        }
        while (cr->next != NULL && i < m->n_chunks &&
               m->chunks[i]->chunk == cr->next->chunk.chunk &&
               lh_client_chunk_reader_refresh(cr->next, m->chunks[i])) {
            cr = cr->next;
            i++;
        }
        last = cr;
        while (cr->next != NULL) {
            struct lh_client_chunk_reader *gone = cr->next;
            cr->next = gone->next;
            lh_client_chunk_reader_free(gone);
        }
    }
    for (; i < m->n_chunks; i++) {
        const Leasehold__ChunkInfo *info = m->chunks[i];
        uint64_t at = last == NULL ? r->position : last->chunk.start + last->chunk.length;
        if ((last != NULL && (!last->chunk.sealed || info->start != at)) || info->start > at ||
            (info->sealed && at - info->start > info->length))
            return false;
        last = lh_client_chunk_reader_add(r, info, at - info->start);
    }
    return true;
}

static void located(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_reader *r = owner;
    const Leasehold__LocateReply *m = reply;
    bool verified = r->verifying && r->fetch != NULL && r->located_for == r->fetches;

    r->verifying = false;
    if (error != LH_OK) {
        lh_client_reader_say(r, error, "locating", text);
        if (lh_error_advice(error) == LH_GIVE_UP)
            lh_client_reader_end_fetch(r, error, r->text);
        else
            retry_later(r, lh_nanoseconds(0));
        return;
    }
    if (!take_chunks(r, m)) {
        lh_client_reader_say(
            r, LH_ERR_MALFORMED, "reading", "the master's list of chunks makes no sense");
        lh_client_reader_end_fetch(r, r->reason, r->text);
        return;
    }
    lh_client_hint_keep(r->readers->names, r->file, m);
    struct lh_client_chunk_reader *cr = r->chunks;
    if (cr == NULL && m->info != NULL && r->position > m->info->sealed_length) {
        lh_client_reader_say(
            r, LH_ERR_INVALID_ARGUMENT, "reading", "the start is beyond the file's end");
        lh_client_reader_end_fetch(r, r->reason, r->text);
        return;
    }
    if (cr == NULL ||
        (lh_client_chunk_reader_exhausted(cr) && cr->first == NULL && cr->next == NULL)) {
        /* Every chunk is sealed and was given out. */
        if (r->follow)
            retry_later(r, r->client->config.backoff_min);
        else if (r->fetch != NULL && r->located_for == r->fetches)
            lh_client_reader_end_fetch(r, LH_ERR_CLOSED, "the end");
        else
            lh_client_reader_pump(r);
        return;
    }
    if (verified && !cr->chunk.sealed && cr->next == NULL && cr->first == NULL) {
        LH_MARK("reader-end-verified");
        lh_client_reader_end_fetch(r, LH_ERR_CLOSED, "the end");
    } else {
        lh_client_reader_pump(r);
    }
}

/* True: the chunks from its start on are remembered. Of the end they say nothing; and only once, or
 * a chunk that is remembered as the tail would be begun with again and again. */
static bool begin_from_memory(struct lh_client_reader *r)
{
    bool may = r->from_cache;
    Leasehold__LocateReply m;

    r->from_cache = false;
    return may && lh_client_hint(r->readers->names, r->file, r->position, &m) && take_chunks(r, &m);
}

void lh_client_reader_locate(struct lh_client_reader *r, bool verifying)
{
    if (r->ask.active)
        return;
    lh_timer_unset(&r->client->timers, &r->timer);
    if (begin_from_memory(r)) {
        lh_client_reader_pump(r);
        return;
    }
    r->verifying = verifying;
    r->located_for = r->fetch != NULL ? r->fetches : 0;
    leasehold__locate_request__init(&r->locate);
    r->locate.path = r->path;
    r->locate.file = r->file;
    r->locate.offset = r->chunks != NULL ? lh_client_chunk_reader_position(r->chunks) : r->position;
    r->ask.owner = r;
    r->ask.done = located;
    lh_client_ask(
        r->client, &r->ask, LH_METHOD_LOCATE, &r->locate.base, lh_nanoseconds(0), LH_INSTANT_NEVER);
}

static void tail_opened(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_reader *r = owner;
    const Leasehold__OpenTailReply *m = reply;
    struct lh_client_host *c = r->client;

    if (error != LH_OK) {
        lh_client_reader_say(r, error, "finding the primary", text);
        if (lh_error_advice(error) == LH_GIVE_UP)
            lh_client_reader_end_fetch(r, error, r->text);
        else
            retry_later(r, lh_duration_min(m == NULL ? c->config.backoff_min
                                                     : lh_milliseconds(m->retry_after_ms),
                               c->config.backoff_max));
        return;
    }
    if (m->chunk != NULL && r->chunks != NULL && m->chunk->chunk == r->chunks->chunk.chunk &&
        lh_client_chunk_reader_refresh(r->chunks, m->chunk)) {
        lh_client_reader_pump(r);
    } else {
        lh_client_reader_locate(r, false);
    }
}

void lh_client_reader_open_tail(struct lh_client_reader *r, bool primary_failed)
{
    struct lh_duration wait = r->client->config.tail_wait;

    if (r->ask.active || lh_timer_is_set(&r->timer))
        return;
    leasehold__open_tail_request__init(&r->open_tail);
    r->open_tail.path = r->path;
    r->open_tail.file = r->file;
    r->open_tail.reads = true;
    if (r->chunks != NULL && primary_failed) {
        r->open_tail.failed_chunk = r->chunks->chunk.chunk;
        r->open_tail.failed_version = r->chunks->chunk.version;
    }
    r->open_tail.wait_ms = lh_duration_ms(wait);
    r->ask.owner = r;
    r->ask.done = tail_opened;
    lh_client_ask(
        r->client, &r->ask, LH_METHOD_OPEN_TAIL, &r->open_tail.base, wait, LH_INSTANT_NEVER);
}

/* ---- The reader ---- */

static void give_out(struct lh_client_reader *r)
{
    struct lh_client_chunk_reader *cr = r->chunks;
    struct lh_client_ready *b = cr->first;

    cr->first = b->next;
    r->held -= b->batches.size;
    r->fetch->offset = b->offset;
    r->fetch->batches = b->batches;
    free(b);
    lh_client_reader_end_fetch(r, LH_OK, NULL);
}

/* Reads where there is room and something to read. */
static void read_ahead(struct lh_client_reader *r)
{
    size_t active = 0;

    for (struct lh_client_chunk_reader *cr = r->chunks;
         cr != NULL && active < r->client->config.chunks_ahead; cr = cr->next, active++) {
        /* The first one may always hold something, or the reader would stand still. */
        bool room = r->held + r->client->config.read_bytes <= r->readahead ||
                    (cr == r->chunks && cr->first == NULL);
        if (lh_client_chunk_reader_reading(cr) || lh_timer_is_set(&cr->timer) ||
            lh_client_chunk_reader_exhausted(cr) || !room)
            continue;
        /* At the end, and after failures, only for somebody who waits. */
        if (r->fetch == NULL && (cr->at_end || cr->failures > 0))
            continue;
        if (!cr->chunk.sealed && cr != r->chunks)
            continue;
        if (lh_client_chunk_reader_needs_primary(cr) && r->ask.active)
            continue;
        lh_client_chunk_reader_read(cr);
    }
}

void lh_client_reader_pump(struct lh_client_reader *r)
{
    while (r->chunks != NULL && lh_client_chunk_reader_exhausted(r->chunks) &&
           r->chunks->first == NULL) {
        struct lh_client_chunk_reader *cr = r->chunks;
        r->position = cr->chunk.start + cr->chunk.length;
        r->chunks = cr->next;
        lh_client_chunk_reader_free(cr);
    }
    if (r->fetch != NULL && r->chunks != NULL && r->chunks->first != NULL)
        give_out(r);
    if (r->chunks != NULL)
        read_ahead(r);
    else if (r->fetch != NULL && !lh_timer_is_set(&r->timer))
        lh_client_reader_locate(r, false);
}

static void free_reader(struct lh_client_reader *r)
{
    DL_DELETE(r->readers->all, r);
    while (r->chunks != NULL) {
        struct lh_client_chunk_reader *cr = r->chunks;
        r->chunks = cr->next;
        lh_client_chunk_reader_free(cr);
    }
    LH_ASSERT(r->held == 0);
    lh_client_ask_cancel(&r->ask);
    lh_timer_unset(&r->client->timers, &r->timer);
    lh_timer_unset(&r->client->timers, &r->fetch_timer);
    free(r->path);
    free(r);
}

static void is_file(struct lh_client_reader *r, struct lh_reader_open_call *call, uint64_t file,
    uint64_t chunk_size)
{
    r->file = call->file = file;
    r->chunk_size = chunk_size;
    call->reader = r;
    lh_client_complete(r->client, &call->call, LH_OK, NULL);
    lh_client_reader_locate(r, false);
}

static void file_found(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_reader *r = owner;
    struct lh_client_host *c = r->client;
    struct lh_reader_open_call *call = r->opening;
    const Leasehold__StatReply *m = reply;

    r->opening = NULL;
    if (error == LH_OK && (m->info == NULL || m->info->chunk_size < LH_CHUNK_BYTES_MIN ||
                              m->info->chunk_size > LH_CHUNK_BYTES_MAX)) {
        error = LH_ERR_MALFORMED;
        text = "the master's description of the file makes no sense";
    }
    if (error != LH_OK) {
        lh_client_reader_say(r, error, "opening", text);
        lh_client_complete(c, &call->call, error, r->text);
        free_reader(r);
        return;
    }
    is_file(r, call, m->info->file, m->info->chunk_size);
}

static void paused(void *core, struct lh_timer *timer)
{
    struct lh_client_reader *r = LH_OWNER(timer, struct lh_client_reader, timer);

    (void)core;
    if (r->fetch != NULL)
        lh_client_reader_locate(r, false);
}

static void fetch_expired(void *core, struct lh_timer *timer)
{
    struct lh_client_reader *r = LH_OWNER(timer, struct lh_client_reader, fetch_timer);
    char text[LH_CALL_TEXT_BYTES];

    (void)core;
    bool asking = r->ask.active && r->ask.reason != LH_OK;
    if (asking || r->reason != LH_OK) {
        memcpy(text, asking ? r->ask.text : r->text, sizeof text);
        lh_client_reader_end_fetch(r, asking ? r->ask.reason : r->reason, text);
    } else {
        lh_client_reader_end_fetch(r, LH_ERR_DEADLINE_EXCEEDED, "no record came in time");
    }
}

struct lh_client_readers *lh_client_readers_create(
    struct lh_client_host *c, struct lh_client_names *names)
{
    struct lh_client_readers *all = lh_alloc(sizeof *all);

    all->client = c;
    all->names = names;
    lh_client_hedge_init(all);
    return all;
}

void lh_client_readers_destroy(struct lh_client_readers *all)
{
    lh_client_silent_deinit(all);
    free(all);
}

void lh_client_reader_open(struct lh_client_readers *all, struct lh_reader_open_call *call)
{
    struct lh_client_reader *r = lh_alloc(sizeof *r);
    struct lh_client_found found;

    r->client = all->client;
    r->readers = all;
    DL_APPEND(all->all, r);
    r->path = lh_strdup(call->path);
    r->start = r->position = call->offset;
    r->follow = call->follow;
    r->skip_damaged = call->skip_damaged;
    r->readahead = call->readahead;
    r->timer.fire = paused;
    r->fetch_timer.fire = fetch_expired;
    r->from_cache = call->from_cache = lh_client_lookup(all->names, call->path, &found);
    if (r->from_cache) {
        is_file(r, call, found.file, found.chunk_size);
        return;
    }
    r->opening = call;
    leasehold__stat_request__init(&r->stat);
    r->stat.path = r->path;
    r->ask.owner = r;
    r->ask.done = file_found;
    lh_client_ask(
        all->client, &r->ask, LH_METHOD_STAT, &r->stat.base, lh_nanoseconds(0), call->deadline);
}

void lh_client_reader_close(struct lh_reader_close_call *call)
{
    struct lh_client_reader *r = call->reader;
    struct lh_client_host *c = r->client;

    LH_ASSERT(r->opening == NULL);
    lh_client_reader_end_fetch(r, LH_ERR_CANCELLED, "the reader was closed");
    free_reader(r);
    lh_client_complete(c, &call->call, LH_OK, NULL);
}

void lh_client_reader_fetch(struct lh_fetch_call *call)
{
    struct lh_client_reader *r = call->reader;

    LH_ASSERT(r->fetch == NULL && r->opening == NULL);
    r->fetch = call;
    r->fetches++;
    lh_timer_set(&r->client->timers, &r->fetch_timer, call->deadline);
    lh_client_reader_pump(r);
}

void lh_client_readers_end(struct lh_client_readers *all, bool complete)
{
    while (all->all != NULL) {
        struct lh_client_reader *r = all->all;

        if (complete) {
            if (r->opening != NULL)
                lh_client_complete(all->client, &r->opening->call, LH_ERR_CANCELLED, NULL);
            lh_client_reader_end_fetch(r, LH_ERR_CANCELLED, "the cluster was closed");
        }
        free_reader(r);
    }
}

static void check(const struct lh_client_reader *r)
{
    uint64_t held = 0, at = 0;
    bool stuck = r->fetch != NULL;

    for (const struct lh_client_chunk_reader *cr = r->chunks; cr != NULL; cr = cr->next) {
        LH_ASSERT(cr->reader == r && (cr == r->chunks || cr->chunk.start == at));
        LH_ASSERT(cr->chunk.sealed || cr->next == NULL);
        LH_ASSERT(!cr->chunk.sealed || cr->offset <= cr->chunk.length);
        at = cr->chunk.start + cr->chunk.length;
        uint64_t begin = lh_client_chunk_reader_position(cr);
        for (const struct lh_client_ready *b = cr->first; b != NULL; b = b->next) {
            LH_ASSERT(b->next == NULL || b->next->offset == b->offset + b->batches.size);
            LH_ASSERT(b->next != NULL || b->offset + b->batches.size == begin);
            held += b->batches.size;
        }
        for (size_t i = 0; i < 2; i++) {
            const struct lh_client_read *read = &cr->reads[i];
            LH_ASSERT((read->link.id != 0) == lh_timer_is_set(&read->timer));
            if (read->link.id != 0)
                held += r->client->config.read_bytes;
        }
        stuck = stuck && !lh_timer_is_set(&cr->timer) && !lh_client_chunk_reader_reading(cr);
    }
    LH_ASSERT(held == r->held);
    /* A FETCH under way waits for something that will come. */
    LH_ASSERT(!stuck || r->ask.active || lh_timer_is_set(&r->timer));
}

void lh_client_readers_check(const struct lh_client_readers *all)
{
    for (const struct lh_client_reader *r = all->all; r != NULL; r = r->next)
        check(r);
}
