/* What the operator is told of a file or a chunk: who may act until when, what is missing, and what
 * happens next. Every sentence stands for itself and is true at the moment of the answer. */
#include "base/plural.h"
#include "master/calls/calls.h"

#include "master/calls/internal.h"
#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/seal/seal.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static uint32_t full_members(const struct lh_m_chunk *c)
{
    uint32_t full = 0;

    for (uint32_t i = 0; i < c->member_count; i++)
        full += !c->members[i].joining;
    return full;
}

/* ---- Where the file's next chunk comes from. */

static bool say_next_chunk(
    struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_file *f)
{
    struct lh_m_server *chosen[LH_REPLICATION_MAX];
    uint32_t fit = lh_m_place(m, f->chunk_size, f->replication, NULL, 0, chosen);

    if (fit < f->min_replicas) {
        lh_m_say(out,
            "A new chunk needs at least %u chunkservers with room, and %u could take a replica "
            "now: appends wait for more.",
            f->min_replicas, fit);
        lh_m_describe_servers(m, out, f->chunk_size, NULL);
        return false;
    }
    lh_m_say(out, "The next append creates a chunk on %u chunkservers (it should have %u).", fit,
        f->replication);
    return true;
}

static void say_creating(
    const struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_chunk *c)
{
    char ready[LH_TEXT_BYTES] = "", open[LH_TEXT_BYTES] = "", when[LH_WHEN_BYTES];

    for (uint32_t i = 0; i < c->member_count; i++)
        lh_m_add_name(c->members[i].created ? ready : open, sizeof ready,
            lh_m_server_of(m, &c->members[i])->id);
    lh_m_say(out,
        "Chunk %" PRIu64 " is being created: replicas are there at [%s], not yet at [%s].", c->id,
        ready, open);
    if (c->active->creation->unable != NULL)
        lh_m_say(out, "%s cannot create its replica: %s.", c->active->creation->unable->id,
            lh_error_text(c->active->creation->unable_error));
    if (open[0] == 0)
        lh_m_say(out,
            "The first grant follows as soon as somebody waits for the file and one of them "
            "can be primary.");
    else if (lh_timer_is_set(&c->active->creation->timer))
        lh_m_say(out,
            "Who has not created it in %s is replaced by another one, or left out if %u remain.",
            lh_m_how_long(lh_instant_until(m->now, c->active->creation->timer.at), when),
            c->file->min_replicas);
}

/* ---- The lease. */

/* What is known of a holder that may have died. */
static void say_holder(
    const struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_server *s)
{
    char silent[LH_WHEN_BYTES], left[LH_WHEN_BYTES];

    lh_m_how_long(lh_instant_until(s->session.client.received_at, m->now), silent);
    if (!lh_m_live(m, s)) {
        lh_m_say(out, "%s has no session with this master.", s->id);
        return;
    }
    lh_m_how_long(
        lh_instant_until(m->now, lh_lease_client_until(&m->leases, &s->session.client)), left);
    if (s->session.link == 0)
        lh_m_say(out,
            "%s is lost: its session stream broke, and nothing came for %s; its session runs for "
            "another %s.",
            s->id, silent, left);
    else if (!lh_m_looks_alive(m, s))
        lh_m_say(out, "%s may be lost: no heartbeat came for %s; its session runs for another %s.",
            s->id, silent, left);
}

/* The full members that have not answered the fence. */
static const char *unheard(
    const struct lh_master *m, const struct lh_m_chunk *c, char names[LH_TEXT_BYTES])
{
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        bool heard = !lh_m_log_counts(m, member) && !lh_m_log_is_damaged(m, member);
        for (uint32_t j = 0; j < c->active->seal->roll->answer_count; j++)
            heard = heard || c->active->seal->roll->answers[j].server == lh_m_server_of(m, member);
        if (!heard)
            lh_m_add_name(names, LH_TEXT_BYTES, lh_m_server_of(m, member)->id);
    }
    return names;
}

/* `heard`: those who have shown what they have; it does not vouch for all that was acknowledged. */
static void say_unsure(struct lh_m_sentences *out, const char *heard, const char *awaited)
{
    lh_m_say(out,
        "What [%s] has may lack acknowledged records: a machine went down before they were on its "
        "disk, or the log was truncated at a start. [%s] may have them and is waited for. Whoever "
        "is "
        "gone for good: `leasehold decommission` it, and the chunk goes on with what is there.",
        heard, awaited);
}

static void say_roll(
    const struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_chunk *c)
{
    char names[LH_TEXT_BYTES] = "", others[LH_TEXT_BYTES] = "", when[LH_WHEN_BYTES];
    const struct lh_m_roll *roll = c->active->seal->roll;

    lh_m_say(out,
        "Chunk %" PRIu64
        " is being rolled over: its primary was lost, it takes no appends any more, "
        "and version %" PRIu64 " shuts the old primary out (FAIL-2a).",
        c->id, c->version);
    if (roll == NULL)
        return;
    for (uint32_t i = 0; i < roll->answer_count; i++)
        lh_m_add_name(names, sizeof names, roll->answers[i].server->id);
    if (!lh_m_is_durable(m, roll->ticket))
        lh_m_say(out, "The intent to seal it is being written; the members are fenced after that.");
    else if (roll->decided)
        lh_m_say(out,
            "It will be sealed at %" PRIu64 " bytes, together with the beginning of the next "
            "chunk, whose replicas are being created.",
            roll->length);
    else if (names[0] == 0)
        lh_m_say(
            out, "No member has answered the fence yet; it needs one full member that is alive.");
    else if (lh_m_roll_unsure(m, roll))
        say_unsure(out, names, unheard(m, c, others));
    else
        lh_m_say(out,
            "The fence was answered by [%s] of %u members; the sealed length is decided when the "
            "others have answered or have had their time.",
            names, full_members(c));
    if (lh_m_holder(c) != NULL)
        lh_m_say(out,
            "%s may believe in its lease for up to another %s, and can commit nothing under it.",
            lh_m_holder(c)->id, lh_m_how_long(lh_m_lease_left(m, c), when));
}

static void say_policy(
    const struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_file *f)
{
    if (lh_m_rolls(m, f))
        lh_m_say(out,
            "When a client waits for it and it is lost, the chunk is sealed and the file goes "
            "on in the next one at once (--on-primary-loss=roll).");
    else
        lh_m_say(
            out, "If it is lost, appends wait until the lease is over (--on-primary-loss=wait).");
}

/* Somebody holds the lease, or may hold it. True: appends are ordered. */
static bool say_held(
    const struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_chunk *c)
{
    char left[LH_WHEN_BYTES];
    const struct lh_m_server *s = lh_m_holder(c);
    bool ordered = false;

    lh_m_how_long(lh_m_lease_left(m, c), left);
    if (c->active->grant->lease.recalling) {
        lh_m_say(out,
            "%s holds the lease at version %" PRIu64 " and was asked to give it up; if it does not "
            "answer, the lease runs for up to another %s.",
            s->id, c->active->grant->lease.version, left);
        say_holder(m, out, s);
    } else if (c->active->grant->lease.session == 0) {
        lh_m_say(out,
            "A former master granted version %" PRIu64 " to %s, which has not registered with this "
            "one yet: until it shows its lease nobody else may be primary, for up to another %s "
            "(LEASE-7).",
            c->active->grant->lease.version, s->id, left);
    } else if (!c->active->grant->lease.confirmed) {
        lh_m_say(out,
            "%s is being made the primary at version %" PRIu64 ": %s; the grant counts as held for "
            "up to another %s.",
            s->id, c->active->grant->lease.version,
            !lh_m_is_durable(m, c->active->ticket) ? "the grant is being written"
            : c->active->grant->lease.sent         ? "it was told and has not confirmed yet"
                                                   : "it cannot be told before it has a session",
            left);
        say_holder(m, out, s);
    } else if (!lh_m_has_primary(m, c)) {
        lh_m_say(out,
            "%s held the lease at version %" PRIu64 " in a session that is over; it may run for up "
            "to another %s, and nobody else may be primary before.",
            s->id, c->active->grant->lease.version, left);
        say_holder(m, out, s);
    } else {
        ordered = lh_m_looks_alive(m, s);
        lh_m_say(out,
            "%s is the primary at version %" PRIu64 ": its lease runs for another %s and is "
            "extended by its heartbeats while there are appends.",
            s->id, c->active->grant->lease.version, left);
        say_holder(m, out, s);
        say_policy(m, out, c->file);
    }
    return ordered;
}

/* Nobody holds the lease. True: somebody can have it at once. */
static bool say_free(
    const struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_chunk *c)
{
    uint32_t able = 0, alive = 0;
    char when[LH_WHEN_BYTES];

    if (c->active->doubts->adopted_above != 0)
        lh_m_say(out,
            "%s has adopted version %" PRIu64 " of chunk %" PRIu64
            ", which is too high to be gone above: no master of this cluster gave it out.",
            c->active->doubts->avoid == NULL ? "A member" : c->active->doubts->avoid->id,
            c->active->doubts->adopted_above, c->id);
    if (lh_m_rests(m, c)) {
        lh_m_say(out,
            "Nobody holds the lease of chunk %" PRIu64 " (version %" PRIu64
            "): its members have refused it, or given it back at once, %u times in a row (%s "
            "last); it is offered again in %s.",
            c->id, c->version, c->active->doubts->refusals,
            c->active->doubts->avoid == NULL ? "?" : c->active->doubts->avoid->id,
            lh_m_how_long(lh_instant_until(m->now, c->active->doubts->rest_until), when));
        return false;
    }
    for (uint32_t i = 0; i < c->member_count; i++) {
        able += lh_m_can_lead(m, &c->members[i]);
        alive += lh_m_live(m, lh_m_server_of(m, &c->members[i])) && !c->members[i].lost;
    }
    if (able == 0) {
        lh_m_say(out,
            "Nobody holds the lease of chunk %" PRIu64 " (version %" PRIu64
            "), and none of its %u members can be primary now: appends wait until one of them is "
            "back.",
            c->id, c->version, c->member_count);
        return false;
    }
    lh_m_say(out,
        "Nobody holds the lease of chunk %" PRIu64 " (version %" PRIu64
        "): the next append has it granted to one of %u members that can be primary.",
        c->id, c->version, able);
    if (alive < c->file->min_replicas) {
        lh_m_say(out,
            "%u members are alive, and the file wants at least %u to take appends: that primary "
            "waits for the others.",
            alive, c->file->min_replicas);
        return false;
    }
    return true;
}

/* Are there enough members for appends? */
static bool say_few(
    const struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_chunk *c)
{
    uint32_t full = full_members(c);

    if (full < c->file->min_replicas) {
        lh_m_say(out,
            "It has %u full members, and its file wants at least %u: it takes no appends until "
            "another one is copied or comes back.",
            full, c->file->min_replicas);
        return true;
    }
    bool is_short =
        c->active->seal->short_version != 0 && c->active->seal->short_version == c->version;
    bool unsure =
        c->active->seal->unsure_version != 0 && c->active->seal->unsure_version == c->version;
    char names[LH_TEXT_BYTES] = "", good[LH_TEXT_BYTES] = "";
    for (uint32_t i = 0; i < c->member_count; i++) {
        bool well = lh_m_member_health(m, c, &c->members[i]) == LH_M_GOOD;
        lh_m_add_name(well ? good : names, LH_TEXT_BYTES, lh_m_server_of(m, &c->members[i])->id);
    }
    if (lh_m_holder(c) != NULL && unsure && c->active->repair.recovered_version != c->version) {
        say_unsure(out, good, names);
        return true;
    }
    if (lh_m_holder(c) != NULL && is_short) {
        lh_m_say(out,
            "The primary reported members that do not answer, and too few of at least %u would be "
            "left without them: it takes no appends until they are back%s%s%s.",
            c->file->min_replicas, names[0] == 0 ? "" : " (not well now: ", names,
            names[0] == 0 ? "" : ")");
        return true;
    }
    return false;
}

/* True: appends would be ordered. */
static bool say_open(
    const struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_chunk *c)
{
    bool ordered;

    if (c->intent_to_seal) {
        say_roll(m, out, c);
        return false;
    }
    ordered = lh_m_holder(c) != NULL && lh_m_held(m, c) ? say_held(m, out, c) : say_free(m, out, c);
    return !say_few(m, out, c) && ordered;
}

/* ---- Files and chunks. */

static void say_trash(
    const struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_file *f)
{
    char left[LH_WHEN_BYTES];

    lh_m_say(out,
        "\"%.256s\" (file %" PRIu64
        ") is in the trash and takes no appends; it can be restored for "
        "another %s of a running master's time and is deleted then.",
        f->path, f->id, lh_m_how_long(lh_m_trash_left(m, f), left));
    if (m->behind != NULL)
        lh_m_say(out, "Nothing is deleted now, and no time in the trash passes: %s.", m->behind);
}

/* TOK-2. */
static void say_fence(
    struct lh_m_sentences *out, const struct lh_m_file *f, const struct lh_m_chunk *tail)
{
    char fence[LH_TEXT_BYTES];

    if (!lh_m_describe_fence(f, fence, sizeof fence))
        return;
    lh_m_say(out, "It takes %s; a higher token is admitted while its lock is in force.", fence);
    if (tail != NULL && !tail->sealed && lh_m_holder(tail) != NULL && !lh_m_fence_carried(tail))
        lh_m_say(out,
            "The present grant, at version %" PRIu64
            ", is from before that: the new token counts from the next version on.",
            tail->active->grant->lease.version);
}

/* VAL-7. */
static void say_lookups(
    const struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_file *f)
{
    bool changing;
    size_t caches = m->lookup_owner->caches(m, f->path, &changing);

    if (changing)
        lh_m_say(out,
            "A rename or removal waits until %zu session%s %s dropped this path, or %s over.",
            caches, lh_plural(caches), lh_one_or_many(caches, "has", "have"),
            lh_one_or_many(caches, "is", "are"));
    else if (caches > 0)
        lh_m_say(out, "%zu session%s may open it without asking which file has its path.", caches,
            lh_plural(caches));
}

/* True: appends to the file would be ordered. */
static bool explain_file(struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_file *f,
    struct lh_m_chunk *tail)
{
    bool writable;

    if (f->trashed)
        say_trash(m, out, f);
    else
        say_lookups(m, out, f);
    say_fence(out, f, tail);
    if (tail == NULL) {
        lh_m_say(out, "\"%.256s\" has no chunk yet.", f->path);
        return !f->trashed && say_next_chunk(m, out, f);
    }
    if (tail->sealed) {
        char when[LH_WHEN_BYTES];
        bool durable = lh_m_is_durable(m, tail->active->ticket);
        lh_m_say(out,
            "Chunk %" PRIu64 " is sealed at %" PRIu64 " bytes (version %" PRIu64
            ") and never changes%s.",
            tail->id, tail->length, tail->version, durable ? "" : "; that is being written");
        if (lh_m_holder(tail) != NULL)
            lh_m_say(out,
                "%s may believe for up to another %s that it holds its lease, and can commit "
                "nothing under it.",
                lh_m_holder(tail)->id, lh_m_how_long(lh_m_lease_left(m, tail), when));
        writable = tail->index + 1 == f->chunk_count && !f->trashed && durable &&
                   say_next_chunk(m, out, f);
    } else if (!tail->created) {
        say_creating(m, out, tail);
        writable = false;
    } else {
        writable = say_open(m, out, tail) && !f->trashed;
    }
    lh_m_describe_replicas(m, out, tail);
    return writable;
}

/* Why there is no such chunk. */
static void no_chunk(const struct lh_master *m, uint64_t chunk, char *text, size_t text_size)
{
    const struct lh_m_tombstone *t = lh_m_tombstone_find(m, chunk);
    if (lh_m_prealloc_known(m, chunk))
        snprintf(text, text_size,
            "chunk %" PRIu64
            " is a preallocated chunk: empty replicas that are the next chunk of a file once "
            "its tail is full",
            chunk);
    else if (t != NULL && t->version > 0)
        snprintf(text, text_size, "chunk %" PRIu64 " was removed at version %" PRIu64, chunk,
            t->version);
    else if (t != NULL)
        snprintf(
            text, text_size, "chunk %" PRIu64 " was a preallocated chunk that was not used", chunk);
    else if (chunk >= m->next_chunk)
        snprintf(text, text_size, "there is no chunk %" PRIu64 " yet: the next one is %" PRIu64,
            chunk, m->next_chunk);
    else
        snprintf(text, text_size, "this master knows nothing of chunk %" PRIu64, chunk);
}

/* What the request is about. NULL: `*error` and `text` say why there is nothing. */
static const struct lh_m_file *named(const struct lh_master *m,
    const Leasehold__ExplainRequest *request, struct lh_m_chunk **chunk, int *error, char *text,
    size_t text_size)
{
    const struct lh_m_file *f;

    *chunk = NULL;
    if (request->chunk != 0) {
        *chunk = lh_m_chunk_find(m, request->chunk);
        if (*chunk != NULL)
            return (*chunk)->file;
        *error = LH_ERR_NOT_FOUND;
        no_chunk(m, request->chunk, text, text_size);
        return NULL;
    }
    f = lh_m_file_named(m, 0, request->path, error, text, text_size);
    if (f == NULL && *error == LH_ERR_NOT_FOUND)
        f = lh_m_trash_find(m, request->path);
    if (f != NULL && f->chunk_count > 0)
        *chunk = lh_m_tail(f);
    return f;
}

void lh_m_explain(struct lh_master *m, uint64_t link, const Leasehold__ExplainRequest *request)
{
    Leasehold__ExplainReply reply = LEASEHOLD__EXPLAIN_REPLY__INIT;
    Leasehold__FileInfo info;
    struct lh_m_sentences out = {0};
    struct lh_m_chunk_state state = {0};
    struct lh_m_chunk *c;
    char text[LH_TEXT_BYTES];
    int error = LH_OK;
    const struct lh_m_file *f = named(m, request, &c, &error, text, sizeof text);

    if (f == NULL) {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
    } else {
        lh_m_trash_info(m, f, &info);
        reply.info = &info;
        reply.writable = explain_file(m, &out, f, c);
        reply.n_sentences = out.count;
        reply.sentences = out.items;
        if (c != NULL) {
            lh_m_chunk_state(m, c, &state);
            reply.chunk = &state.state;
        }
    }
    /* Not held up by commits under way: this is what one asks when something hangs. */
    lh_m_reply(m, link, 1, &reply.base);
    for (size_t i = 0; i < out.count; i++)
        free(out.items[i]);
    free(out.items);
    lh_m_chunk_state_free(&state);
}
