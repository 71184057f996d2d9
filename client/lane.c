/* The READs of one chunk, for a reader.
 *
 * They go one after the other, since only an answer tells where the next batch begins; it is
 * followed by the next READ before the program has asked. Whatever a member gives is checked batch
 * by batch (FAIL-4); what it cannot give or gives wrong is asked of the next member, and of the
 * master's newest list of members once all were tried. A server that has just left somebody
 * without an answer comes last (silent.c).
 *
 * When an answer is late, a second READ asks another member for the same bytes (hedge.c). The first
 * sound answer counts, and the other READ is cancelled with it: what comes late finds nobody. Both
 * are answered with committed bytes only, so it makes no difference whose answer it is. Where the
 * unsealed tail ends is asked of its primary alone, and never twice (APP-6). */
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

bool lh_client_lane_reading(const struct lh_client_lane *l)
{
    return l->reads[0].link.id != 0 || l->reads[1].link.id != 0;
}

/* What a READ under way holds; its link is closed or answered. */
static void read_over(struct lh_client_read *read)
{
    struct lh_client_lane *l = read->lane;
    struct lh_client *c = l->reader->client;

    lh_timer_unset(&c->timers, &read->timer);
    l->reader->held -= c->config.read_bytes;
    if (!lh_client_lane_reading(l))
        lh_timer_unset(&c->timers, &l->timer);
}

static void cancel(struct lh_client_read *read)
{
    if (read->link.id == 0)
        return;
    lh_client_link_close(read->lane->reader->client, &read->link);
    read_over(read);
}

void lh_client_lane_free(struct lh_client_lane *l)
{
    struct lh_client_reader *r = l->reader;

    for (size_t i = 0; i < 2; i++) {
        cancel(&l->reads[i]);
        free(l->reads[i].address);
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
    for (size_t i = 0; i < 2; i++) {
        l->reads[i].lane = l;
        l->reads[i].timer.kind = LH_TIMER_READ;
        l->reads[i].timer.owner = &l->reads[i];
    }
    /* Readers spread over the members of what no longer grows; the tail is freshest at its primary.
     */
    l->member = (size_t)lh_prng_below(&r->client->prng, l->chunk.member_count);
    for (size_t i = 0; !l->chunk.sealed && i < l->chunk.member_count; i++)
        if (l->chunk.primary[0] != '\0' &&
            strcmp(l->chunk.members[i].server_id, l->chunk.primary) == 0)
            l->member = i;
    return l;
}

/* Whether a READ is under way at that address. */
static bool is_asked(const struct lh_client_lane *l, const char *address)
{
    for (size_t i = 0; i < 2; i++)
        if (l->reads[i].link.id != 0 && strcmp(l->reads[i].address, address) == 0)
            return true;
    return false;
}

bool lh_client_lane_refresh(struct lh_client_lane *l, const Leasehold__ChunkInfo *info)
{
    struct lh_client_chunk old = l->chunk;

    if (info->start != old.start || (info->sealed && info->length < l->offset))
        return false;
    lh_client_chunk_copy(&l->chunk, info);
    /* The pauses were for the primary that was asked in vain. There is another one since, and its
     * lease may be shorter than they have become. */
    if (!lh_client_lane_reading(l) && l->chunk.version > old.version) {
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
    l->member = 0;
    for (size_t i = 0; i < l->chunk.member_count; i++) {
        struct lh_client_member *m = &l->chunk.members[i];
        m->tried = is_asked(l, m->address);
        if (lh_client_lane_reading(l)
                ? m->tried
                : !l->chunk.sealed && strcmp(m->server_id, l->chunk.primary) == 0)
            l->member = i;
    }
    return true;
}

/* ---- One READ ---- */

bool lh_client_lane_needs_primary(const struct lh_client_lane *l)
{
    return !l->reader->follow && !l->chunk.sealed && l->at_end;
}

/* Begins another round over the members: nobody was asked yet. */
static void new_round(struct lh_client_lane *l)
{
    for (size_t i = 0; i < l->chunk.member_count; i++)
        l->chunk.members[i].tried = l->chunk.members[i].corrupt = false;
}

/* The bytes, or the word that there are none, have come. */
static void helped(struct lh_client_lane *l)
{
    new_round(l);
    l->failures = l->reader->failures = 0;
    if (l == l->reader->lanes)
        l->reader->reason = LH_OK;
}

/* All members were asked in vain. */
static void round_failed(struct lh_client_lane *l)
{
    struct lh_client_reader *r = l->reader;
    struct lh_client *c = r->client;
    bool everywhere = l->chunk.member_count > 0;
    bool at_program = l == r->lanes && l->first == NULL;

    for (size_t i = 0; i < l->chunk.member_count; i++)
        everywhere = everywhere && l->chunk.members[i].corrupt;
    new_round(l);
    lh_timer_set(&c->timers, &l->timer,
        lh_instant_add(
            c->now, lh_duration_max(lh_client_backoff(c, ++l->failures), c->config.backoff_min)));
    if (everywhere && at_program && lh_client_lane_position(l) == r->start && l->offset > 0) {
        /* Nothing says that a batch ever began here but the program. */
        char why[LH_CALL_TEXT_BYTES];
        snprintf(why, sizeof why,
            "%s: no batch begins at offset %llu; a start is a position from an appender or a "
            "reader",
            r->path, (unsigned long long)r->start);
        lh_client_reader_end_fetch(r, LH_ERR_INVALID_ARGUMENT, why);
    } else if (everywhere && at_program) {
        lh_client_reader_end_fetch(r, LH_ERR_CORRUPT, r->text);
    }
    if (r->fetch != NULL && l == r->lanes)
        lh_client_reader_locate(r, false);
}

/* The next member that was not asked in this round and whose address is known; the member count if
 * there is none. Who was silent comes last; with `spoken` it does not come at all. The end is known
 * to nobody but the primary: then it makes no difference who is silent. */
static size_t next_member(const struct lh_client_lane *l, bool spoken)
{
    size_t count = l->chunk.member_count, chosen = count;

    for (size_t i = 0; i < count; i++) {
        size_t at = (l->member + i) % count;
        const struct lh_client_member *m = &l->chunk.members[at];
        if (m->tried)
            continue;
        if (m->address[0] == '\0') {
            LH_MARK("reader-skips-member-without-address");
            continue;
        }
        bool silent = lh_client_is_silent(l->reader->client, m->address);
        if (!silent || (chosen == count && !spoken))
            chosen = at;
        if (!silent || lh_client_lane_needs_primary(l))
            break;
        LH_MARK("reader-passes-silent-server");
    }
    return chosen;
}

/* The member that did not help is the chunk's primary, or that one is silent. The master asks it
 * whether it lives then, and may move the lease: not on the word of somebody who asked another. */
static bool primary_failed(const struct lh_client_lane *l, const char *address)
{
    for (size_t i = 0; i < l->chunk.member_count; i++) {
        const struct lh_client_member *m = &l->chunk.members[i];
        if (strcmp(m->server_id, l->chunk.primary) == 0)
            return strcmp(m->address, address) == 0 ||
                   lh_client_is_silent(l->reader->client, m->address);
    }
    return true;
}

/* A member did not help, or there was none to be asked. */
static void lane_failed(struct lh_client_lane *l, int error, const char *address, const char *text)
{
    struct lh_client_reader *r = l->reader;
    struct lh_client *c = r->client;
    char what[80];

    snprintf(what, sizeof what, "chunk %llu at %llu, %.40s", (unsigned long long)l->chunk.chunk,
        (unsigned long long)l->offset, address);
    lh_client_reader_say(r, error, what, text);
    /* Who is no member any more says nothing about those who are. */
    for (size_t i = 0; i < l->chunk.member_count; i++) {
        struct lh_client_member *m = &l->chunk.members[i];
        if (strcmp(m->address, address) != 0)
            continue;
        m->tried = true;
        m->corrupt = error == LH_ERR_CORRUPT || error == LH_ERR_MALFORMED;
    }
    if (lh_client_lane_reading(l))
        return; /* the other READ may help yet */
    if (lh_client_lane_needs_primary(l)) {
        new_round(l);
        lh_client_reader_open_tail(r, primary_failed(l, address));
        /* Nothing is read before the master's answer, nor before the pause is over. */
        struct lh_duration pause = lh_client_backoff(c, ++l->failures);
        lh_timer_set(&c->timers, &l->timer, lh_instant_add(c->now, pause));
    } else if (next_member(l, false) < l->chunk.member_count) {
        lh_client_reader_pump(r);
    } else {
        round_failed(l);
    }
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
    helped(l);
}

/* An answer counts: the other READ is not needed any more. One that began before it and still has
 * no answer is as good as silent. */
static void cancel_other(const struct lh_client_read *read)
{
    struct lh_client_lane *l = read->lane;
    struct lh_client_read *other = &l->reads[read == &l->reads[0]];

    if (other->link.id == 0 || LH_PLANTED("both-reads-count"))
        return;
    if (other->begun.ns < read->begun.ns) {
        LH_MARK("reader-hedge-wins");
        lh_client_no_answer(l->reader->client, other->address);
    }
    cancel(other);
}

/* The member has nothing behind `offset` now. */
static void nothing_more(struct lh_client_read *read, const Leasehold__ReadReply *m)
{
    struct lh_client_lane *l = read->lane;
    struct lh_client_reader *r = l->reader;
    bool asked_for_this = r->fetch != NULL && read->for_fetch == r->fetches;

    if (m->sealed && m->committed == l->offset && !l->chunk.sealed) {
        LH_MARK("reader-told-of-seal");
        cancel_other(read);
        l->chunk.sealed = true;
        l->chunk.length = l->offset;
        l->at_end = false;
    } else if (m->committed < l->offset && (m->primary || m->sealed)) {
        char text[LH_CALL_TEXT_BYTES];
        snprintf(text, sizeof text, "%s: offset %llu is beyond the end", r->path,
            (unsigned long long)lh_client_lane_position(l));
        cancel_other(read);
        lh_client_reader_end_fetch(r, LH_ERR_INVALID_ARGUMENT, text);
        l->at_end = true;
        return;
    } else if (l->chunk.sealed || m->committed > l->offset) {
        LH_MARK("reader-at-lagging-member");
        lane_failed(l, LH_ERR_UNAVAILABLE, read->address, "this replica lags behind");
        return;
    } else {
        cancel_other(read);
        l->at_end = true;
        helped(l);
        if (!r->follow && asked_for_this &&
            (m->primary || LH_PLANTED("end-taken-from-secondary"))) {
            lh_client_reader_locate(r, true);
            return;
        }
    }
    lh_client_reader_pump(r);
}

static void read_answered(void *owner, const void *message, struct lh_buf *payload)
{
    struct lh_client_read *read = owner;
    struct lh_client_lane *l = read->lane;
    struct lh_client_reader *r = l->reader;
    const Leasehold__ReadReply *m = message;
    const char *text;
    int error = lh_client_reply_error(m, &text);

    read_over(read);
    lh_client_answered(r->client, read->address);
    if (error == LH_OK && !read->waits)
        lh_client_read_took(r->client, lh_instant_until(read->begun, r->client->now));
    if (error == LH_ERR_INVALID_ARGUMENT && l == r->lanes && l->first == NULL) {
        cancel_other(read);
        lh_client_reader_say(r, error, "reading", text);
        l->at_end = true; /* not asked again before the next FETCH */
        lh_client_reader_end_fetch(r, error, r->text);
        return;
    }
    if (error != LH_OK) {
        lane_failed(l, error, read->address, text);
        return;
    }
    if (payload->size == 0) {
        nothing_more(read, m);
        return;
    }
    size_t size = sound_bytes(l, payload, &error);
    if (l->chunk.sealed && size > l->chunk.length - l->offset) {
        lane_failed(l, LH_ERR_MALFORMED, read->address, "more bytes than were sealed");
        return;
    }
    if (size > 0) {
        cancel_other(read);
        take_bytes(l, payload, size);
    }
    if (error != LH_OK)
        lane_failed(l, error, read->address, NULL);
    lh_client_reader_pump(r);
}

/* A part of the answer is here, which is as good as an answer to a question of this size: nobody is
 * silent, and nobody late. */
static void read_progress(void *owner)
{
    struct lh_client_read *read = owner;
    struct lh_client_lane *l = read->lane;
    struct lh_client *c = l->reader->client;
    struct lh_instant by = LH_PLANTED("progress-for-ever") ? LH_INSTANT_NEVER : read->whole_by;

    LH_MARK("reader-answered-in-pieces");
    if (LH_PLANTED("progress-is-no-life"))
        return;
    lh_timer_set(&c->timers, &read->timer,
        lh_instant_min(lh_instant_add(c->now, c->config.try_timeout), by));
    if (lh_timer_is_set(&l->timer))
        lh_timer_set(&c->timers, &l->timer, lh_instant_add(c->now, lh_client_late_after(c)));
}

static void read_closed(void *owner, int error, const char *text)
{
    struct lh_client_read *read = owner;
    struct lh_client *c = read->lane->reader->client;

    if (error == LH_OK || error == LH_ERR_CANCELLED)
        error = LH_ERR_UNAVAILABLE;
    read_over(read);
    if (error == LH_ERR_UNAVAILABLE || error == LH_ERR_DEADLINE_EXCEEDED)
        lh_client_no_answer(c, read->address);
    lane_failed(read->lane, error, read->address, text);
}

void lh_client_read_timer(struct lh_client_read *read)
{
    lh_client_link_close(read->lane->reader->client, &read->link);
    read_closed(read, LH_ERR_UNAVAILABLE, "no answer");
}

/* For how long an answer may take, once the server does not wait any more. Only the primary can
 * tell the end: the master must hear soon when it does not answer, for it may bring another one.
 * But it may be slow: so the time grows. */
static struct lh_duration patience(const struct lh_client_lane *l)
{
    const struct lh_client_config *config = &l->reader->client->config;
    unsigned doublings = l->failures < 10 ? l->failures : 10;

    return lh_client_lane_needs_primary(l)
               ? lh_duration_min(
                     config->try_timeout, lh_nanoseconds(config->hang_timeout.ns << doublings))
               : config->try_timeout;
}

/* Asks that member for what follows `offset`; it may wait for more bytes for so long. */
static void begin(struct lh_client_lane *l, size_t member, struct lh_duration wait)
{
    struct lh_client_reader *r = l->reader;
    struct lh_client *c = r->client;
    struct lh_client_read *read = &l->reads[l->reads[0].link.id != 0];
    struct lh_duration timeout = lh_duration_add(wait, patience(l));
    Leasehold__ReadRequest m = LEASEHOLD__READ_REQUEST__INIT;

    m.chunk = l->chunk.chunk;
    m.offset = l->offset;
    m.max_bytes = c->config.read_bytes;
    m.wait_ms = lh_duration_ms(wait);
    m.require_primary = lh_client_lane_needs_primary(l);
    l->member = member;
    l->chunk.members[member].tried = true;
    free(read->address);
    read->address = lh_strdup(l->chunk.members[member].address);
    read->begun = c->now;
    read->for_fetch = r->fetch != NULL ? r->fetches : 0;
    read->waits = wait.ns > 0;
    read->link = (struct lh_client_link){
        .owner = read,
        .on_message = read_answered,
        .on_progress = read_progress,
        .on_closed = read_closed,
    };
    read->whole_by = lh_instant_add(c->now, lh_duration_add(wait, c->config.arrival_timeout));
    r->held += c->config.read_bytes;
    lh_client_silent_asked(c, read->address);
    lh_client_link_open(c, &read->link, LH_METHOD_READ, read->address, LH_DURATION_FOREVER);
    lh_fx_send(c->fx, read->link.id, &m.base, NULL);
    lh_timer_set(&c->timers, &read->timer, lh_instant_add(c->now, timeout));
}

void lh_client_lane_read(struct lh_client_lane *l)
{
    struct lh_client *c = l->reader->client;
    bool waits = l->reader->follow && l->at_end;
    struct lh_duration wait = waits ? c->config.poll_wait : lh_nanoseconds(0);
    size_t member = next_member(l, false);

    if (member == l->chunk.member_count) {
        lane_failed(l, LH_ERR_UNAVAILABLE, "no member", "no other member's address is known");
        return;
    }
    begin(l, member, wait);
    lh_client_hedge_earn(c);
    if (!lh_client_lane_needs_primary(l))
        lh_timer_set(&c->timers, &l->timer,
            lh_instant_add(c->now, lh_duration_add(wait, lh_client_late_after(c))));
}

/* The READ under way is late. Whoever is asked now says at once what there is. */
static void hedge(struct lh_client_lane *l)
{
    size_t member = next_member(l, true);

    if (member == l->chunk.member_count || !lh_client_hedge_spend(l->reader->client))
        return;
    LH_MARK("reader-hedges");
    begin(l, member, lh_nanoseconds(0));
}

void lh_client_lane_timer(struct lh_client_lane *l)
{
    if (lh_client_lane_reading(l))
        hedge(l);
    else
        lh_client_reader_pump(l->reader);
}
