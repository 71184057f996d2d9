/* Reading ahead over chunks and members.
 *
 * A reader knows a run of consecutive chunks, each a *lane*: the first one is being given out, the
 * next one, if sealed, is read ahead as well. Within a chunk there is one READ at a time, since
 * only its answer tells where the next batch begins; it is followed by the next READ before the
 * program has asked. Whatever a member gives is checked batch by batch (FAIL-4); what it cannot
 * give or gives wrong is asked of the next member, and of the master's newest list of members once
 * all were tried. A server that has just left somebody without an answer comes last (silent.c).
 *
 * The end (APP-6). That a primary under a valid lease has nothing more is not enough: the master
 * must then still call this chunk the file's unsealed tail. Both are asked after the FETCH was fed,
 * so that every append acknowledged before it has been given out. */
#include "client/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES_AHEAD 2u

/* Verified bytes that wait for a FETCH. */
struct ready {
    struct ready *next;
    struct lh_buf batches;
    uint64_t offset; /* in the file */
};

struct lane {
    struct lane *next;
    struct lh_client_reader *reader;
    struct lh_client_chunk chunk;
    uint64_t offset; /* in the chunk: of the next READ */
    struct ready *first, *last;
    struct lh_client_link link;
    struct lh_timer timer; /* the end of a READ or of a pause */
    char *asked;           /* the server of the present READ, or of the last; NULL: none yet */
    size_t member;         /* asked now or next */
    size_t tried;          /* members in a row before it that did not help */
    size_t corrupt;        /* of those, with bad bytes */
    unsigned failures;     /* rounds over all members in a row */
    uint64_t for_fetch;    /* the FETCH that the READ under way was begun for; 0: ahead of any */
    bool at_end;           /* unsealed, and nothing more when last asked */
};

struct lh_client_reader {
    struct lh_client *client;
    struct lh_client_reader *next;
    char *path;
    uint64_t file;
    uint64_t chunk_size;
    uint64_t readahead;
    bool follow;
    struct lh_reader_open_call *opening;
    struct lh_fetch_call *fetch; /* under way, or NULL */
    uint64_t fetches;            /* fed so far: the number of the present one */
    struct lane *lanes;
    uint64_t start;    /* where the program said to begin */
    uint64_t held;     /* bytes ready and under way, in all lanes */
    uint64_t position; /* of the first lane, or of the next chunk when there is none */
    struct lh_client_ask ask;
    Leasehold__StatRequest stat;
    Leasehold__LocateRequest locate;
    Leasehold__OpenTailRequest open_tail;
    uint64_t located_for;        /* the FETCH that the LOCATE under way was begun for */
    bool verifying;              /* ... after the primary said that there is no more */
    struct lh_timer timer;       /* the pause before the next LOCATE */
    struct lh_timer fetch_timer; /* the FETCH's deadline */
    unsigned failures;
    int reason; /* of the last failure since bytes came; LH_OK: none */
    char text[LH_CALL_TEXT_BYTES];
};

static void pump(struct lh_client_reader *r);

static void say(struct lh_client_reader *r, int error, const char *what, const char *text)
{
    r->reason = error;
    snprintf(r->text, sizeof r->text, "%s: %s: %s", r->path, what,
        text != NULL && text[0] != '\0' ? text : lh_error_text(error));
}

static void end_fetch(struct lh_client_reader *r, int error, const char *text)
{
    struct lh_fetch_call *call = r->fetch;

    if (call == NULL)
        return;
    r->fetch = NULL;
    lh_timer_unset(&r->client->timers, &r->fetch_timer);
    lh_client_complete(r->client, &call->call, error, text);
}

static uint64_t end_of(const struct lane *l)
{
    return l->chunk.start + l->offset;
}

static bool exhausted(const struct lane *l)
{
    return l->chunk.sealed && l->offset >= l->chunk.length;
}

static void free_lane(struct lane *l)
{
    struct lh_client_reader *r = l->reader;

    if (l->link.id != 0) {
        lh_client_link_close(r->client, &l->link);
        r->held -= r->client->config.read_bytes;
    }
    lh_timer_unset(&r->client->timers, &l->timer);
    while (l->first != NULL) {
        struct ready *b = l->first;
        l->first = b->next;
        r->held -= b->batches.size;
        lh_buf_clear(&b->batches);
        free(b);
    }
    lh_client_chunk_deinit(&l->chunk);
    free(l->asked);
    free(l);
}

static struct lane *add_lane(
    struct lh_client_reader *r, const Leasehold__ChunkInfo *info, uint64_t offset)
{
    struct lane **at = &r->lanes;
    struct lane *l = lh_alloc(sizeof *l);

    while (*at != NULL)
        at = &(*at)->next;
    *at = l;
    l->reader = r;
    lh_client_chunk_copy(&l->chunk, info);
    l->offset = offset;
    l->timer.kind = LH_TIMER_LANE;
    l->timer.owner = l;
    /* Readers spread over the members of what no longer grows; the tail is freshest at its primary.
     */
    l->member = (size_t)lh_prng_below(&r->client->prng, l->chunk.member_count);
    for (size_t i = 0; !l->chunk.sealed && i < l->chunk.member_count; i++)
        if (l->chunk.primary[0] != '\0' &&
            strcmp(l->chunk.members[i].server_id, l->chunk.primary) == 0)
            l->member = i;
    return l;
}

/* ---- What the master knows ---- */

static void retry_later(struct lh_client_reader *r, struct lh_duration at_least)
{
    struct lh_client *c = r->client;
    struct lh_duration pause = lh_duration_max(lh_client_backoff(c, ++r->failures), at_least);

    lh_timer_set(&c->timers, &r->timer, lh_instant_add(c->now, pause));
}

/* Newer knowledge of the first lane's chunk. False when it cannot be true. */
static bool refresh(struct lane *l, const Leasehold__ChunkInfo *info)
{
    struct lh_client_chunk old = l->chunk;

    if (info->start != old.start || (info->sealed && info->length < l->offset))
        return false;
    lh_client_chunk_copy(&l->chunk, info);
    if (old.sealed && !l->chunk.sealed) {
        /* A replica has told of the seal before the master: a seal is for ever. */
        l->chunk.sealed = true;
        l->chunk.length = old.length;
    }
    lh_client_chunk_deinit(&old);
    l->at_end = l->at_end && !l->chunk.sealed;
    l->tried = l->corrupt = 0;
    l->member = 0;
    for (size_t i = 0; i < l->chunk.member_count; i++)
        if (l->link.id != 0
                ? strcmp(l->chunk.members[i].address, l->asked) == 0
                : !l->chunk.sealed && strcmp(l->chunk.members[i].server_id, l->chunk.primary) == 0)
            l->member = i;
    return true;
}

/* Makes lanes of what the master lists. False when the list cannot be true. */
static bool take_chunks(struct lh_client_reader *r, const Leasehold__LocateReply *m)
{
    struct lane *last = r->lanes;
    size_t i = 0;

    if (r->lanes != NULL && m->n_chunks > 0) {
        struct lane *l = r->lanes;
        if (m->chunks[0]->chunk == l->chunk.chunk) {
            if (!refresh(l, m->chunks[0]))
                return false;
            i = 1;
        } else if (m->chunks[0]->start == end_of(l)) {
            /* The chunk that holds the next byte is another one: this one was sealed here. */
            LH_MARK("reader-at-chunk-end");
            l->chunk.sealed = true;
            l->chunk.length = l->offset;
            l->at_end = false;
        } else {
            return false;
        }
        while (l->next != NULL) {
            struct lane *gone = l->next;
            l->next = gone->next;
            free_lane(gone);
        }
    }
    for (; i < m->n_chunks; i++) {
        const Leasehold__ChunkInfo *info = m->chunks[i];
        uint64_t at = last == NULL ? r->position : last->chunk.start + last->chunk.length;
        if ((last != NULL && (!last->chunk.sealed || info->start != at)) || info->start > at ||
            (info->sealed && at - info->start > info->length))
            return false;
        last = add_lane(r, info, at - info->start);
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
        say(r, error, "locating", text);
        if (lh_error_advice(error) == LH_GIVE_UP)
            end_fetch(r, error, r->text);
        else
            retry_later(r, lh_nanoseconds(0));
        return;
    }
    if (!take_chunks(r, m)) {
        say(r, LH_ERR_MALFORMED, "reading", "the master's list of chunks makes no sense");
        end_fetch(r, r->reason, r->text);
        return;
    }
    struct lane *l = r->lanes;
    if (l == NULL && m->info != NULL && r->position > m->info->sealed_length) {
        say(r, LH_ERR_INVALID_ARGUMENT, "reading", "the start is beyond the file's end");
        end_fetch(r, r->reason, r->text);
        return;
    }
    if (l == NULL || (exhausted(l) && l->first == NULL && l->next == NULL)) {
        /* Every chunk is sealed and was given out. */
        if (r->follow)
            retry_later(r, r->client->config.backoff_min);
        else if (r->fetch != NULL && r->located_for == r->fetches)
            end_fetch(r, LH_ERR_CLOSED, "the end");
        else
            pump(r);
        return;
    }
    if (verified && !l->chunk.sealed && l->next == NULL && l->first == NULL) {
        LH_MARK("reader-end-verified");
        end_fetch(r, LH_ERR_CLOSED, "the end");
    } else {
        pump(r);
    }
}

static void locate(struct lh_client_reader *r, bool verifying)
{
    if (r->ask.active)
        return;
    lh_timer_unset(&r->client->timers, &r->timer);
    r->verifying = verifying;
    r->located_for = r->fetch != NULL ? r->fetches : 0;
    leasehold__locate_request__init(&r->locate);
    r->locate.path = r->path;
    r->locate.file = r->file;
    r->locate.offset = r->lanes != NULL ? end_of(r->lanes) : r->position;
    r->ask.owner = r;
    r->ask.done = located;
    lh_client_ask(
        r->client, &r->ask, LH_METHOD_LOCATE, &r->locate.base, lh_nanoseconds(0), LH_INSTANT_NEVER);
}

static void tail_opened(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_reader *r = owner;
    const Leasehold__OpenTailReply *m = reply;
    struct lh_client *c = r->client;

    if (error != LH_OK) {
        say(r, error, "finding the primary", text);
        if (lh_error_advice(error) == LH_GIVE_UP)
            end_fetch(r, error, r->text);
        else
            retry_later(r, lh_duration_min(m == NULL ? c->config.backoff_min
                                                     : lh_milliseconds(m->retry_after_ms),
                               c->config.backoff_max));
        return;
    }
    if (m->chunk != NULL && r->lanes != NULL && m->chunk->chunk == r->lanes->chunk.chunk &&
        refresh(r->lanes, m->chunk)) {
        pump(r);
    } else {
        locate(r, false);
    }
}

/* Nobody acts as the tail's primary, but only it can say where the end is: have the master bring
 * one. */
static void open_tail(struct lh_client_reader *r)
{
    struct lh_duration wait = r->client->config.tail_wait;

    if (r->ask.active || lh_timer_is_set(&r->timer))
        return;
    leasehold__open_tail_request__init(&r->open_tail);
    r->open_tail.path = r->path;
    r->open_tail.file = r->file;
    r->open_tail.failed_version = r->lanes != NULL ? r->lanes->chunk.version : 0;
    r->open_tail.wait_ms = lh_duration_ms(wait);
    r->ask.owner = r;
    r->ask.done = tail_opened;
    lh_client_ask(
        r->client, &r->ask, LH_METHOD_OPEN_TAIL, &r->open_tail.base, wait, LH_INSTANT_NEVER);
}

/* ---- One READ ---- */

/* The end of the file is asked of the primary alone. */
static bool needs_primary(const struct lane *l)
{
    return !l->reader->follow && !l->chunk.sealed && l->at_end;
}

/* The present member did not help. */
static void lane_failed(struct lane *l, int error, const char *text)
{
    struct lh_client_reader *r = l->reader;
    struct lh_client *c = r->client;
    size_t count = l->chunk.member_count;
    bool corrupt = error == LH_ERR_CORRUPT || error == LH_ERR_MALFORMED;
    char what[80];

    snprintf(what, sizeof what, "chunk %llu at %llu, %.40s", (unsigned long long)l->chunk.chunk,
        (unsigned long long)l->offset, l->asked == NULL || count == 0 ? "no member" : l->asked);
    say(r, error, what, text);
    /* Who is no member any more says nothing about those who are. */
    bool counts =
        count > 0 && l->asked != NULL && strcmp(l->chunk.members[l->member].address, l->asked) == 0;
    l->tried += counts;
    l->corrupt += counts && corrupt;
    if (needs_primary(l)) {
        l->tried = l->corrupt = 0;
        open_tail(r);
        /* Nothing is read before the master's answer, nor before the pause is over. */
        struct lh_duration pause = lh_client_backoff(c, ++l->failures);
        lh_timer_set(&c->timers, &l->timer, lh_instant_add(c->now, pause));
        return;
    }
    if (counts)
        l->member = (l->member + 1) % count;
    if (l->tried < count) {
        pump(r);
        return;
    }
    bool everywhere = count > 0 && l->corrupt == count;
    l->tried = l->corrupt = 0;
    lh_timer_set(&c->timers, &l->timer,
        lh_instant_add(
            c->now, lh_duration_max(lh_client_backoff(c, ++l->failures), c->config.backoff_min)));
    if (everywhere && l == r->lanes && l->first == NULL && end_of(l) == r->start && l->offset > 0) {
        /* Nothing says that a batch ever began here but the program. */
        char why[LH_CALL_TEXT_BYTES];
        snprintf(why, sizeof why,
            "%s: no batch begins at offset %llu; a start is a position from an appender or a "
            "reader",
            r->path, (unsigned long long)r->start);
        end_fetch(r, LH_ERR_INVALID_ARGUMENT, why);
    } else if (everywhere && l == r->lanes && l->first == NULL) {
        end_fetch(r, LH_ERR_CORRUPT, r->text);
    }
    if (r->fetch != NULL && l == r->lanes)
        locate(r, false);
}

/* How many bytes from the front of `batches` are whole, sound batches; `*error` says why not all.
 */
static size_t sound_bytes(const struct lane *l, const struct lh_buf *batches, int *error)
{
    size_t at = 0;

    *error = LH_OK;
    while (at < batches->size) {
        struct lh_batch_header h;
        *error = lh_batch_check(batches, at, lh_batch_bytes_max(l->reader->chunk_size), &h);
        if (*error != LH_OK)
            break;
        at += h.size;
    }
    if (*error != LH_OK && *error != LH_ERR_CORRUPT)
        *error = LH_ERR_MALFORMED;
    return at;
}

static void take_bytes(struct lane *l, struct lh_buf *batches, size_t size)
{
    struct lh_client_reader *r = l->reader;
    struct ready *b = lh_alloc(sizeof *b);

    b->offset = end_of(l);
    if (size == batches->size)
        b->batches = lh_buf_take(batches);
    else
        lh_buf_append(&b->batches, batches, 0, size);
    if (l->first == NULL)
        l->first = b;
    else
        l->last->next = b;
    l->last = b;
    l->offset += size;
    r->held += size;
    l->at_end = false;
    l->tried = l->corrupt = 0;
    l->failures = r->failures = 0;
    if (l == r->lanes)
        r->reason = LH_OK;
}

/* The member has nothing behind `offset` now. */
static void nothing_more(struct lane *l, const Leasehold__ReadReply *m)
{
    struct lh_client_reader *r = l->reader;
    bool asked_for_this = r->fetch != NULL && l->for_fetch == r->fetches;

    if (m->sealed && m->committed == l->offset && !l->chunk.sealed) {
        LH_MARK("reader-told-of-seal");
        l->chunk.sealed = true;
        l->chunk.length = l->offset;
        l->at_end = false;
    } else if (m->committed < l->offset && (m->primary || m->sealed)) {
        char text[LH_CALL_TEXT_BYTES];
        snprintf(text, sizeof text, "%s: offset %llu is beyond the end", r->path,
            (unsigned long long)end_of(l));
        end_fetch(r, LH_ERR_INVALID_ARGUMENT, text);
        l->at_end = true;
        return;
    } else if (l->chunk.sealed || m->committed > l->offset) {
        LH_MARK("reader-at-lagging-member");
        lane_failed(l, LH_ERR_UNAVAILABLE, "this replica lags behind");
        return;
    } else {
        l->at_end = true;
        l->tried = l->corrupt = 0;
        l->failures = r->failures = 0;
        r->reason = LH_OK;
        if (!r->follow && asked_for_this &&
            (m->primary || LH_PLANTED("end-taken-from-secondary"))) {
            locate(r, true);
            return;
        }
    }
    pump(r);
}

static void read_done(struct lane *l)
{
    lh_timer_unset(&l->reader->client->timers, &l->timer);
    l->reader->held -= l->reader->client->config.read_bytes;
}

static void read_answered(void *owner, const void *message, struct lh_buf *payload)
{
    struct lane *l = owner;
    struct lh_client_reader *r = l->reader;
    const Leasehold__ReadReply *m = message;
    const char *text;
    int error = lh_client_reply_error(m, &text);

    read_done(l);
    lh_client_answered(r->client, l->asked);
    if (error == LH_ERR_INVALID_ARGUMENT && l == r->lanes && l->first == NULL) {
        say(r, error, "reading", text);
        l->at_end = true; /* not asked again before the next FETCH */
        end_fetch(r, error, r->text);
        return;
    }
    if (error != LH_OK) {
        lane_failed(l, error, text);
        return;
    }
    if (payload->size == 0) {
        nothing_more(l, m);
        return;
    }
    size_t size = sound_bytes(l, payload, &error);
    if (l->chunk.sealed && size > l->chunk.length - l->offset) {
        lane_failed(l, LH_ERR_MALFORMED, "more bytes than were sealed");
        return;
    }
    if (size > 0)
        take_bytes(l, payload, size);
    if (error != LH_OK)
        lane_failed(l, error, NULL);
    pump(r);
}

static void read_closed(void *owner, int error, const char *text)
{
    struct lane *l = owner;

    if (error == LH_OK || error == LH_ERR_CANCELLED)
        error = LH_ERR_UNAVAILABLE;
    read_done(l);
    if (error == LH_ERR_UNAVAILABLE || error == LH_ERR_DEADLINE_EXCEEDED)
        lh_client_no_answer(l->reader->client, l->asked);
    lane_failed(l, error, text);
}

/* Puts whom to ask now in front of those that had no try in this round. The end is known to nobody
 * but the primary: then it makes no difference who is silent. False if no address is left. */
static bool choose_member(struct lane *l)
{
    struct lh_client_member *members = l->chunk.members;
    size_t count = l->chunk.member_count, chosen = count;

    for (size_t i = l->tried; i < count; i++) {
        size_t at = (l->member + i - l->tried) % count;
        if (members[at].address[0] == '\0') {
            LH_MARK("reader-skips-member-without-address");
            continue;
        }
        bool silent = lh_client_is_silent(l->reader->client, members[at].address);
        if (!silent || chosen == count)
            chosen = at;
        if (!silent || needs_primary(l))
            break;
        LH_MARK("reader-passes-silent-server");
    }
    if (chosen == count)
        return false;
    struct lh_client_member m = members[chosen];
    members[chosen] = members[l->member];
    members[l->member] = m;
    return true;
}

static void begin_read(struct lane *l)
{
    struct lh_client_reader *r = l->reader;
    struct lh_client *c = r->client;
    Leasehold__ReadRequest m = LEASEHOLD__READ_REQUEST__INIT;
    struct lh_duration wait = {0};

    if (!choose_member(l)) {
        l->tried = l->chunk.member_count; /* one that cannot be asked has had its try */
        lane_failed(l, LH_ERR_UNAVAILABLE, "no other member's address is known");
        return;
    }
    if (r->follow && l->at_end)
        wait = c->config.poll_wait;
    m.chunk = l->chunk.chunk;
    m.offset = l->offset;
    m.max_bytes = c->config.read_bytes;
    m.wait_ms = lh_duration_ms(wait);
    m.require_primary = needs_primary(l);
    l->for_fetch = r->fetch != NULL ? r->fetches : 0;
    l->link =
        (struct lh_client_link){.owner = l, .on_message = read_answered, .on_closed = read_closed};
    r->held += c->config.read_bytes;
    wait = lh_duration_add(wait, c->config.try_timeout);
    free(l->asked);
    l->asked = lh_strdup(l->chunk.members[l->member].address);
    lh_client_silent_asked(c, l->asked);
    lh_client_link_open(c, &l->link, LH_METHOD_READ, l->asked, wait);
    lh_fx_send(c->fx, l->link.id, &m.base, NULL);
    lh_timer_set(&c->timers, &l->timer, lh_instant_add(c->now, wait));
}

/* ---- The reader ---- */

static void give_out(struct lh_client_reader *r)
{
    struct lane *l = r->lanes;
    struct ready *b = l->first;

    l->first = b->next;
    r->held -= b->batches.size;
    r->fetch->offset = b->offset;
    r->fetch->batches = b->batches;
    free(b);
    end_fetch(r, LH_OK, NULL);
}

/* Reads where there is room and something to read. */
static void read_ahead(struct lh_client_reader *r)
{
    size_t active = 0;

    for (struct lane *l = r->lanes; l != NULL && active < LANES_AHEAD; l = l->next, active++) {
        /* The first lane may always hold something, or the reader would stand still. */
        bool room = r->held + r->client->config.read_bytes <= r->readahead ||
                    (l == r->lanes && l->first == NULL);
        if (l->link.id != 0 || lh_timer_is_set(&l->timer) || exhausted(l) || !room)
            continue;
        /* At the end, and after failures, only for somebody who waits. */
        if (r->fetch == NULL && (l->at_end || l->failures > 0))
            continue;
        if (!l->chunk.sealed && l != r->lanes)
            continue;
        if (needs_primary(l) && r->ask.active)
            continue;
        begin_read(l);
    }
}

static void pump(struct lh_client_reader *r)
{
    while (r->lanes != NULL && exhausted(r->lanes) && r->lanes->first == NULL) {
        struct lane *l = r->lanes;
        r->position = l->chunk.start + l->chunk.length;
        r->lanes = l->next;
        free_lane(l);
    }
    if (r->fetch != NULL && r->lanes != NULL && r->lanes->first != NULL)
        give_out(r);
    if (r->lanes != NULL)
        read_ahead(r);
    else if (r->fetch != NULL && !lh_timer_is_set(&r->timer))
        locate(r, false);
}

static void free_reader(struct lh_client_reader *r)
{
    struct lh_client_reader **at = &r->client->readers;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    while (r->lanes != NULL) {
        struct lane *l = r->lanes;
        r->lanes = l->next;
        free_lane(l);
    }
    LH_ASSERT(r->held == 0);
    lh_client_ask_cancel(&r->ask);
    lh_timer_unset(&r->client->timers, &r->timer);
    lh_timer_unset(&r->client->timers, &r->fetch_timer);
    free(r->path);
    free(r);
}

static void file_found(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_reader *r = owner;
    struct lh_client *c = r->client;
    struct lh_reader_open_call *call = r->opening;
    const Leasehold__StatReply *m = reply;

    r->opening = NULL;
    if (error == LH_OK && (m->info == NULL || m->info->chunk_size < LH_CHUNK_BYTES_MIN ||
                              m->info->chunk_size > LH_CHUNK_BYTES_MAX)) {
        error = LH_ERR_MALFORMED;
        text = "the master's description of the file makes no sense";
    }
    if (error != LH_OK) {
        say(r, error, "opening", text);
        lh_client_complete(c, &call->call, error, r->text);
        free_reader(r);
        return;
    }
    r->file = m->info->file;
    r->chunk_size = m->info->chunk_size;
    call->reader = r;
    lh_client_complete(c, &call->call, LH_OK, NULL);
    locate(r, false);
}

void lh_client_reader_open(struct lh_client *c, struct lh_reader_open_call *call)
{
    struct lh_client_reader *r = lh_alloc(sizeof *r);

    r->client = c;
    r->next = c->readers;
    c->readers = r;
    r->path = lh_strdup(call->path);
    r->start = r->position = call->offset;
    r->follow = call->follow;
    r->readahead = call->readahead;
    r->timer.kind = LH_TIMER_READER;
    r->timer.owner = r;
    r->fetch_timer.kind = LH_TIMER_FETCH;
    r->fetch_timer.owner = r;
    r->opening = call;
    leasehold__stat_request__init(&r->stat);
    r->stat.path = r->path;
    r->ask.owner = r;
    r->ask.done = file_found;
    lh_client_ask(c, &r->ask, LH_METHOD_STAT, &r->stat.base, lh_nanoseconds(0), call->deadline);
}

void lh_client_reader_close(struct lh_reader_close_call *call)
{
    struct lh_client_reader *r = call->reader;
    struct lh_client *c = r->client;

    LH_ASSERT(r->opening == NULL);
    end_fetch(r, LH_ERR_CANCELLED, "the reader was closed");
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
    pump(r);
}

static void fetch_expired(struct lh_client_reader *r)
{
    char text[LH_CALL_TEXT_BYTES];

    bool asking = r->ask.active && r->ask.reason != LH_OK;
    if (asking || r->reason != LH_OK) {
        memcpy(text, asking ? r->ask.text : r->text, sizeof text);
        end_fetch(r, asking ? r->ask.reason : r->reason, text);
    } else {
        end_fetch(r, LH_ERR_DEADLINE_EXCEEDED, "no record came in time");
    }
}

void lh_client_reader_timer(void *owner, enum lh_client_timer kind)
{
    if (kind == LH_TIMER_LANE) {
        struct lane *l = owner;
        if (l->link.id != 0) {
            lh_client_link_close(l->reader->client, &l->link);
            read_closed(l, LH_ERR_UNAVAILABLE, "no answer");
        } else {
            pump(l->reader);
        }
    } else if (kind == LH_TIMER_READER) {
        struct lh_client_reader *r = owner;
        if (r->fetch != NULL)
            locate(r, false);
    } else {
        fetch_expired(owner);
    }
}

void lh_client_readers_end(struct lh_client *c, bool complete)
{
    while (c->readers != NULL) {
        struct lh_client_reader *r = c->readers;

        if (complete) {
            if (r->opening != NULL)
                lh_client_complete(c, &r->opening->call, LH_ERR_CANCELLED, NULL);
            end_fetch(r, LH_ERR_CANCELLED, "the cluster was closed");
        }
        free_reader(r);
    }
}

static void check(const struct lh_client_reader *r)
{
    uint64_t held = 0, at = 0;
    bool stuck = r->fetch != NULL;

    for (const struct lane *l = r->lanes; l != NULL; l = l->next) {
        LH_ASSERT(l->reader == r && (l == r->lanes || l->chunk.start == at));
        LH_ASSERT(l->chunk.sealed || l->next == NULL);
        LH_ASSERT(!l->chunk.sealed || l->offset <= l->chunk.length);
        at = l->chunk.start + l->chunk.length;
        uint64_t begin = end_of(l);
        for (const struct ready *b = l->first; b != NULL; b = b->next) {
            LH_ASSERT(b->next == NULL || b->next->offset == b->offset + b->batches.size);
            LH_ASSERT(b->next != NULL || b->offset + b->batches.size == begin);
            held += b->batches.size;
        }
        if (l->link.id != 0) {
            LH_ASSERT(lh_timer_is_set(&l->timer));
            held += r->client->config.read_bytes;
        }
        stuck = stuck && !lh_timer_is_set(&l->timer);
    }
    LH_ASSERT(held == r->held);
    /* A FETCH under way waits for something that will come. */
    LH_ASSERT(!stuck || r->ask.active || lh_timer_is_set(&r->timer));
}

void lh_client_readers_check(const struct lh_client *c)
{
    for (const struct lh_client_reader *r = c->readers; r != NULL; r = r->next)
        check(r);
}
