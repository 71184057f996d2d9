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
#include "client/core/read/chunk_reader.h"

#include "base/alloc.h"
#include "batch/batch.h"
#include "client/core/read/hedge.h"
#include "client/core/read/silent.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t lh_client_chunk_reader_position(const struct lh_client_chunk_reader *cr)
{
    return cr->chunk.start + cr->offset;
}

bool lh_client_chunk_reader_exhausted(const struct lh_client_chunk_reader *cr)
{
    return cr->chunk.sealed && cr->offset >= cr->chunk.length;
}

bool lh_client_chunk_reader_reading(const struct lh_client_chunk_reader *cr)
{
    return cr->reads[0].link.id != 0 || cr->reads[1].link.id != 0;
}

void lh_client_chunk_reader_free(struct lh_client_chunk_reader *cr)
{
    struct lh_client_reader *r = cr->reader;

    for (size_t i = 0; i < 2; i++) {
        lh_client_read_cancel(&cr->reads[i]);
        free(cr->reads[i].address);
    }
    lh_timer_unset(&r->client->timers, &cr->timer);
    while (cr->first != NULL) {
        struct lh_client_ready *b = cr->first;
        cr->first = b->next;
        r->held -= b->batches.size;
        lh_buf_clear(&b->batches);
        free(b);
    }
    lh_client_chunk_deinit(&cr->chunk);
    free(cr->tried);
    free(cr);
}

static void late_or_paused(void *core, struct lh_timer *timer);

/* Nothing has become of the members that it names. */
static void take_info(struct lh_client_chunk_reader *cr, const Leasehold__ChunkInfo *info)
{
    lh_client_chunk_copy(&cr->chunk, info);
    cr->tried = lh_alloc_array(info->n_members, sizeof *cr->tried);
}

struct lh_client_chunk_reader *lh_client_chunk_reader_add(
    struct lh_client_reader *r, const Leasehold__ChunkInfo *info, uint64_t offset)
{
    struct lh_client_chunk_reader **at = &r->chunks;
    struct lh_client_chunk_reader *cr = lh_alloc(sizeof *cr);

    while (*at != NULL)
        at = &(*at)->next;
    *at = cr;
    cr->reader = r;
    take_info(cr, info);
    cr->offset = offset;
    cr->checksum = lh_log_seed(info->chunk);
    cr->checksum_known = offset == 0;
    cr->timer.fire = late_or_paused;
    for (size_t i = 0; i < 2; i++) {
        cr->reads[i].cr = cr;
        cr->reads[i].timer.fire = lh_client_read_out_of_time;
    }
    /* Readers spread over the members of what no longer grows; the tail is freshest at its primary.
     */
    cr->member = (size_t)lh_prng_below(&r->client->prng, cr->chunk.member_count);
    for (size_t i = 0; !cr->chunk.sealed && i < cr->chunk.member_count; i++)
        if (cr->chunk.primary[0] != '\0' &&
            strcmp(cr->chunk.members[i].server_id, cr->chunk.primary) == 0)
            cr->member = i;
    return cr;
}

/* Whether a READ is under way at that address. */
static bool is_asked(const struct lh_client_chunk_reader *cr, const char *address)
{
    for (size_t i = 0; i < 2; i++)
        if (cr->reads[i].link.id != 0 && strcmp(cr->reads[i].address, address) == 0)
            return true;
    return false;
}

/* The master has given another capability. Nothing was wrong but that, so the pause is for nothing;
 * once, for a server may refuse all. */
static void renewed(struct lh_client_chunk_reader *cr)
{
    bool first = cr->stale && !cr->renewed;

    cr->stale = false;
    if (!first)
        return;
    LH_MARK("reader-capability-renewed");
    cr->renewed = true;
    if (!lh_client_chunk_reader_reading(cr)) {
        lh_timer_unset(&cr->reader->client->timers, &cr->timer);
        cr->failures = 0;
    }
}

bool lh_client_chunk_reader_refresh(
    struct lh_client_chunk_reader *cr, const Leasehold__ChunkInfo *info)
{
    struct lh_client_chunk old = cr->chunk;
    struct lh_client_tried *tried = cr->tried;

    if (info->start != old.start || (info->sealed && info->length < cr->offset))
        return false;
    take_info(cr, info);
    lh_client_gap_refreshed(cr, &old, tried);
    free(tried);
    renewed(cr);
    /* The pauses were for the primary that was asked in vain. There is another one since, and its
     * lease may be shorter than they have become. */
    if (!lh_client_chunk_reader_reading(cr) && cr->chunk.version > old.version) {
        lh_timer_unset(&cr->reader->client->timers, &cr->timer);
        cr->failures = 0;
    }
    if (old.sealed && !cr->chunk.sealed) {
        /* A replica has told of the seal before the master: a seal is for ever. */
        cr->chunk.sealed = true;
        cr->chunk.length = old.length;
    }
    lh_client_chunk_deinit(&old);
    cr->at_end = cr->at_end && !cr->chunk.sealed;
    cr->member = 0;
    for (size_t i = 0; i < cr->chunk.member_count; i++) {
        const struct lh_client_member *m = &cr->chunk.members[i];
        cr->tried[i].tried = is_asked(cr, m->address);
        if (lh_client_chunk_reader_reading(cr)
                ? cr->tried[i].tried
                : !cr->chunk.sealed && strcmp(m->server_id, cr->chunk.primary) == 0)
            cr->member = i;
    }
    return true;
}

/* ---- Members ---- */

bool lh_client_chunk_reader_needs_primary(const struct lh_client_chunk_reader *cr)
{
    return !cr->reader->follow && !cr->chunk.sealed && cr->at_end;
}

/* Begins another round over the members: nobody was asked yet. */
static void new_round(struct lh_client_chunk_reader *cr)
{
    for (size_t i = 0; i < cr->chunk.member_count; i++)
        cr->tried[i].tried = cr->tried[i].corrupt = cr->tried[i].unreadable = false;
}

/* The bytes, or the word that there are none, have come. */
void lh_client_chunk_reader_helped(struct lh_client_chunk_reader *cr)
{
    new_round(cr);
    cr->failures = cr->reader->failures = 0;
    cr->stale = cr->renewed = false;
    if (cr == cr->reader->chunks)
        cr->reader->reason = LH_OK;
}

/* What no member has is not passed over unless the program has asked for that (REC-9a). */
static void damaged_everywhere(struct lh_client_chunk_reader *cr)
{
    struct lh_client_reader *r = cr->reader;
    char text[LH_CALL_TEXT_BYTES], members[200] = "";
    size_t n = 0;

    for (size_t i = 0; i < cr->chunk.member_count && n < sizeof members; i++)
        n += (size_t)snprintf(members + n, sizeof members - n, "%s%s", i > 0 ? ", " : "",
            cr->chunk.members[i].server_id);
    if (cr->chunk.sealed)
        snprintf(text, sizeof text,
            "%s: what begins at offset %" PRIu64 " (chunk %" PRIu64 " at %" PRIu64
            ") is damaged at each of its members (%s): leasehold salvage says what is lost, and a "
            "reader that skips damage goes on behind it",
            r->path, lh_client_chunk_reader_position(cr), cr->chunk.chunk, cr->offset, members);
    else /* whether anything is there only a primary could say */
        snprintf(text, sizeof text,
            "%s: behind offset %" PRIu64 " (chunk %" PRIu64 " at %" PRIu64
            ", which is not sealed) there may be more: each of its members (%s) has a damaged "
            "replica and gives nothing from there on, and it has no primary; leasehold salvage and "
            "leasehold explain say more",
            r->path, lh_client_chunk_reader_position(cr), cr->chunk.chunk, cr->offset, members);
    r->reason = LH_ERR_CORRUPT;
    memcpy(r->text, text, sizeof r->text);
    lh_client_reader_end_fetch(r, LH_ERR_CORRUPT, r->text);
}

/* All members were asked in vain. */
static void round_failed(struct lh_client_chunk_reader *cr)
{
    struct lh_client_reader *r = cr->reader;
    struct lh_client_host *c = r->client;
    bool everywhere = cr->chunk.member_count > 0;
    bool at_program = cr == r->chunks && cr->first == NULL;

    for (size_t i = 0; i < cr->chunk.member_count; i++)
        everywhere = everywhere && cr->tried[i].corrupt;
    if (r->skip_damaged && at_program && r->fetch != NULL) {
        if (lh_client_gap_pass(cr)) {
            lh_client_reader_pump(r);
            return;
        }
        for (size_t i = 0; i < cr->chunk.member_count; i++)
            if (cr->tried[i].corrupt || cr->tried[i].unreadable)
                lh_client_gap_look(cr);
        everywhere = false; /* not before each member has said where it goes on */
    }
    new_round(cr);
    lh_timer_set(&c->timers, &cr->timer,
        lh_instant_add(
            c->now, lh_duration_max(lh_client_backoff(c, ++cr->failures), c->config.backoff_min)));
    if (everywhere && at_program && lh_client_chunk_reader_position(cr) == r->start &&
        cr->offset > 0) {
        /* Nothing says that a batch ever began here but the program. */
        char why[LH_CALL_TEXT_BYTES];
        snprintf(why, sizeof why,
            "%s: no batch begins at offset %" PRIu64
            "; a start is a position from an appender or a "
            "reader",
            r->path, r->start);
        lh_client_reader_end_fetch(r, LH_ERR_INVALID_ARGUMENT, why);
    } else if (everywhere && at_program) {
        damaged_everywhere(cr);
    }
    /* Of a chunk that is read ahead the master knows nothing better, but it can give another
     * capability: before the program comes to it, and then again only for somebody who waits. */
    if (r->fetch != NULL ? cr == r->chunks || cr->stale : cr->stale && !cr->renewed)
        lh_client_reader_locate(r, false);
}

/* The next member that was not asked in this round and whose address is known; the member count if
 * there is none. Who was silent comes last; with `spoken` it does not come at all. The end is known
 * to nobody but the primary: then it makes no difference who is silent. */
static size_t next_member(const struct lh_client_chunk_reader *cr, bool spoken)
{
    size_t count = cr->chunk.member_count, chosen = count;

    for (size_t i = 0; i < count; i++) {
        size_t at = (cr->member + i) % count;
        const struct lh_client_member *m = &cr->chunk.members[at];
        if (cr->tried[at].tried)
            continue;
        if (m->address[0] == '\0') {
            LH_MARK("reader-skips-member-without-address");
            continue;
        }
        bool silent = lh_client_is_silent(cr->reader->readers, m->address);
        if (!silent || (chosen == count && !spoken))
            chosen = at;
        if (!silent || lh_client_chunk_reader_needs_primary(cr))
            break;
        LH_MARK("reader-passes-silent-server");
    }
    return chosen;
}

/* The member that did not help is the chunk's primary, or that one is silent. The master asks it
 * whether it lives then, and may move the lease: not on the word of somebody who asked another. */
static bool primary_failed(const struct lh_client_chunk_reader *cr, const char *address)
{
    for (size_t i = 0; i < cr->chunk.member_count; i++) {
        const struct lh_client_member *m = &cr->chunk.members[i];
        if (strcmp(m->server_id, cr->chunk.primary) == 0)
            return strcmp(m->address, address) == 0 ||
                   lh_client_is_silent(cr->reader->readers, m->address);
    }
    return true;
}

/* A member did not help, or there was none to be asked. */
void lh_client_chunk_reader_failed(
    struct lh_client_chunk_reader *cr, int error, const char *address, const char *text)
{
    struct lh_client_reader *r = cr->reader;
    struct lh_client_host *c = r->client;
    char what[80];

    snprintf(what, sizeof what, "chunk %" PRIu64 " at %" PRIu64 ", %.40s", cr->chunk.chunk,
        cr->offset, address);
    /* It is no reason for a program that a capability ran out: the master gives another one. */
    cr->stale = cr->stale || error == LH_ERR_STALE_CAPABILITY;
    if (error != LH_ERR_STALE_CAPABILITY || cr->renewed)
        lh_client_reader_say(r, error, what, text);
    /* Who is no member any more says nothing about those who are. */
    for (size_t i = 0; i < cr->chunk.member_count; i++) {
        struct lh_client_tried *t = &cr->tried[i];
        if (strcmp(cr->chunk.members[i].address, address) != 0)
            continue;
        t->tried = true;
        t->unreadable = error == LH_ERR_IO;
        t->corrupt = error == LH_ERR_CORRUPT || error == LH_ERR_MALFORMED;
        if (t->said == LH_OK && (t->corrupt || error == LH_ERR_NO_REPLICA))
            lh_client_gap_nothing(cr, address, error);
    }
    if (lh_client_chunk_reader_reading(cr))
        return; /* the other READ may help yet */
    if (lh_client_chunk_reader_needs_primary(cr)) {
        new_round(cr);
        lh_client_reader_open_tail(
            r, error != LH_ERR_STALE_CAPABILITY && primary_failed(cr, address));
        /* Nothing is read before the master's answer, nor before the pause is over. */
        struct lh_duration pause = lh_client_backoff(c, ++cr->failures);
        lh_timer_set(&c->timers, &cr->timer, lh_instant_add(c->now, pause));
    } else if (next_member(cr, false) < cr->chunk.member_count) {
        lh_client_reader_pump(r);
    } else {
        round_failed(cr);
    }
}

/* ---- Reading ---- */

void lh_client_chunk_reader_read(struct lh_client_chunk_reader *cr)
{
    struct lh_client_host *c = cr->reader->client;
    bool waits = cr->reader->follow && cr->at_end;
    struct lh_duration wait = waits ? c->config.poll_wait : lh_nanoseconds(0);
    size_t member = next_member(cr, false);

    if (member == cr->chunk.member_count) {
        lh_client_chunk_reader_failed(
            cr, LH_ERR_UNAVAILABLE, "no member", "no other member's address is known");
        return;
    }
    lh_client_read_begin(cr, member, wait);
    lh_client_hedge_earn(cr->reader->readers);
    if (!lh_client_chunk_reader_needs_primary(cr))
        lh_timer_set(&c->timers, &cr->timer,
            lh_instant_add(
                c->now, lh_duration_add(wait, lh_client_late_after(cr->reader->readers))));
}

/* The READ under way is late. Whoever is asked now says at once what there is. */
static void hedge(struct lh_client_chunk_reader *cr)
{
    size_t member = next_member(cr, true);

    if (cr->resync || member == cr->chunk.member_count ||
        !lh_client_hedge_spend(cr->reader->readers) || LH_PLANTED("late-read-asked-of-one"))
        return;
    LH_MARK("reader-hedges");
    lh_client_read_begin(cr, member, lh_nanoseconds(0));
}

/* A READ is late, or the pause is over. May free chunk readers. */
static void late_or_paused(void *core, struct lh_timer *timer)
{
    struct lh_client_chunk_reader *cr = LH_OWNER(timer, struct lh_client_chunk_reader, timer);

    (void)core;
    if (lh_client_chunk_reader_reading(cr))
        hedge(cr);
    else
        lh_client_reader_pump(cr->reader);
}
