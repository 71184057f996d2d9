/* The READs of one chunk, for a reader.
 *
 * There is one at a time, since only its answer tells where the next batch begins; it is followed
 * by the next READ before the program has asked. Whatever a member gives is checked batch by batch
 * (FAIL-4); what it cannot give or gives wrong is asked of the next member, and of the master's
 * newest list of members once all were tried. A server that has just left somebody without an
 * answer comes last (silent.c). Where the unsealed tail ends is asked of its primary alone (APP-6).
 */
#include "client/internal.h"

#include "base/alloc.h"
#include "batch/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t lh_client_lane_position(const struct lh_client_lane *l)
{
    return l->chunk.start + l->offset;
}

bool lh_client_lane_exhausted(const struct lh_client_lane *l)
{
    return l->chunk.sealed && l->offset >= l->chunk.length;
}

void lh_client_lane_free(struct lh_client_lane *l)
{
    struct lh_client_reader *r = l->reader;

    if (l->link.id != 0) {
        lh_client_link_close(r->client, &l->link);
        r->held -= r->client->config.read_bytes;
    }
    lh_timer_unset(&r->client->timers, &l->timer);
    while (l->first != NULL) {
        struct lh_client_ready *b = l->first;
        l->first = b->next;
        r->held -= b->batches.size;
        lh_buf_clear(&b->batches);
        free(b);
    }
    lh_client_chunk_deinit(&l->chunk);
    free(l->asked);
    free(l);
}

struct lh_client_lane *lh_client_lane_add(
    struct lh_client_reader *r, const Leasehold__ChunkInfo *info, uint64_t offset)
{
    struct lh_client_lane **at = &r->lanes;
    struct lh_client_lane *l = lh_alloc(sizeof *l);

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

bool lh_client_lane_refresh(struct lh_client_lane *l, const Leasehold__ChunkInfo *info)
{
    struct lh_client_chunk old = l->chunk;

    if (info->start != old.start || (info->sealed && info->length < l->offset))
        return false;
    lh_client_chunk_copy(&l->chunk, info);
    /* The pauses were for the primary that was asked in vain. There is another one since, and its
     * lease may be shorter than they have become. */
    if (l->link.id == 0 && l->chunk.version > old.version) {
        lh_timer_unset(&l->reader->client->timers, &l->timer);
        l->failures = 0;
    }
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

/* ---- One READ ---- */

bool lh_client_lane_needs_primary(const struct lh_client_lane *l)
{
    return !l->reader->follow && !l->chunk.sealed && l->at_end;
}

/* The present member did not help. */
static void lane_failed(struct lh_client_lane *l, int error, const char *text)
{
    struct lh_client_reader *r = l->reader;
    struct lh_client *c = r->client;
    size_t count = l->chunk.member_count;
    bool corrupt = error == LH_ERR_CORRUPT || error == LH_ERR_MALFORMED;
    char what[80];

    snprintf(what, sizeof what, "chunk %llu at %llu, %.40s", (unsigned long long)l->chunk.chunk,
        (unsigned long long)l->offset, l->asked == NULL || count == 0 ? "no member" : l->asked);
    lh_client_reader_say(r, error, what, text);
    /* Who is no member any more says nothing about those who are. */
    bool counts =
        count > 0 && l->asked != NULL && strcmp(l->chunk.members[l->member].address, l->asked) == 0;
    l->tried += counts;
    l->corrupt += counts && corrupt;
    if (lh_client_lane_needs_primary(l)) {
        l->tried = l->corrupt = 0;
        lh_client_reader_open_tail(r);
        /* Nothing is read before the master's answer, nor before the pause is over. */
        struct lh_duration pause = lh_client_backoff(c, ++l->failures);
        lh_timer_set(&c->timers, &l->timer, lh_instant_add(c->now, pause));
        return;
    }
    if (counts)
        l->member = (l->member + 1) % count;
    if (l->tried < count) {
        lh_client_reader_pump(r);
        return;
    }
    bool everywhere = count > 0 && l->corrupt == count;
    l->tried = l->corrupt = 0;
    lh_timer_set(&c->timers, &l->timer,
        lh_instant_add(
            c->now, lh_duration_max(lh_client_backoff(c, ++l->failures), c->config.backoff_min)));
    if (everywhere && l == r->lanes && l->first == NULL && lh_client_lane_position(l) == r->start &&
        l->offset > 0) {
        /* Nothing says that a batch ever began here but the program. */
        char why[LH_CALL_TEXT_BYTES];
        snprintf(why, sizeof why,
            "%s: no batch begins at offset %llu; a start is a position from an appender or a "
            "reader",
            r->path, (unsigned long long)r->start);
        lh_client_reader_end_fetch(r, LH_ERR_INVALID_ARGUMENT, why);
    } else if (everywhere && l == r->lanes && l->first == NULL) {
        lh_client_reader_end_fetch(r, LH_ERR_CORRUPT, r->text);
    }
    if (r->fetch != NULL && l == r->lanes)
        lh_client_reader_locate(r, false);
}

/* How many bytes from the front of `batches` are whole, sound batches; `*error` says why not all.
 */
static size_t sound_bytes(const struct lh_client_lane *l, const struct lh_buf *batches, int *error)
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

static void take_bytes(struct lh_client_lane *l, struct lh_buf *batches, size_t size)
{
    struct lh_client_reader *r = l->reader;
    struct lh_client_ready *b = lh_alloc(sizeof *b);

    b->offset = lh_client_lane_position(l);
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
static void nothing_more(struct lh_client_lane *l, const Leasehold__ReadReply *m)
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
            (unsigned long long)lh_client_lane_position(l));
        lh_client_reader_end_fetch(r, LH_ERR_INVALID_ARGUMENT, text);
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
            lh_client_reader_locate(r, true);
            return;
        }
    }
    lh_client_reader_pump(r);
}

static void read_done(struct lh_client_lane *l)
{
    lh_timer_unset(&l->reader->client->timers, &l->timer);
    l->reader->held -= l->reader->client->config.read_bytes;
}

static void read_answered(void *owner, const void *message, struct lh_buf *payload)
{
    struct lh_client_lane *l = owner;
    struct lh_client_reader *r = l->reader;
    const Leasehold__ReadReply *m = message;
    const char *text;
    int error = lh_client_reply_error(m, &text);

    read_done(l);
    lh_client_answered(r->client, l->asked);
    if (error == LH_ERR_INVALID_ARGUMENT && l == r->lanes && l->first == NULL) {
        lh_client_reader_say(r, error, "reading", text);
        l->at_end = true; /* not asked again before the next FETCH */
        lh_client_reader_end_fetch(r, error, r->text);
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
    lh_client_reader_pump(r);
}

static void read_closed(void *owner, int error, const char *text)
{
    struct lh_client_lane *l = owner;

    if (error == LH_OK || error == LH_ERR_CANCELLED)
        error = LH_ERR_UNAVAILABLE;
    read_done(l);
    if (error == LH_ERR_UNAVAILABLE || error == LH_ERR_DEADLINE_EXCEEDED)
        lh_client_no_answer(l->reader->client, l->asked);
    lane_failed(l, error, text);
}

/* Puts whom to ask now in front of those that had no try in this round. The end is known to nobody
 * but the primary: then it makes no difference who is silent. False if no address is left. */
static bool choose_member(struct lh_client_lane *l)
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
        if (!silent || lh_client_lane_needs_primary(l))
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

void lh_client_lane_read(struct lh_client_lane *l)
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
    m.require_primary = lh_client_lane_needs_primary(l);
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

void lh_client_lane_timer(struct lh_client_lane *l)
{
    if (l->link.id != 0) {
        lh_client_link_close(l->reader->client, &l->link);
        read_closed(l, LH_ERR_UNAVAILABLE, "no answer");
    } else {
        lh_client_reader_pump(l->reader);
    }
}
