/* The chunk table: what becomes of a chunk's record, its members and its seal. */
#include "master/chunks.h"

#include "master/consent.h"
#include "master/copies.h"
#include "master/creation.h"
#include "master/health.h"
#include "master/inventory/commands.h"
#include "master/inventory/extras.h"
#include "master/inventory/health.h"
#include "master/leases.h"
#include "master/repair.h"
#include "master/roll.h"
#include "master/spare.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

void lh_m_chunk_free(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_copies_free(m, c);
    if (c->attended)
        TAILQ_REMOVE(&m->attention, c, attention_link);
    lh_m_extras_free(m, c);
    lh_m_roll_free(m, c);
    HASH_DELETE(hh, m->chunks, c);
    free(c->members);
    free(c);
}

void lh_m_chunk_remove(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->holder != NULL)
        LH_MARK("remove-while-held");
    else
        LH_MARK("remove-while-free");
    lh_m_creation_stop(m, c);
    lh_m_roll_free(m, c);
    lh_m_timer_disarm(m, &c->timer);
    if (c->waiting)
        TAILQ_REMOVE(&m->waiting, c, waiting_link);
    c->waiting = false;
    RB_REMOVE(lh_m_all, &m->all, c);
    if (!c->sealed)
        RB_REMOVE(lh_m_open, &m->open, c);
    /* The engine keeps a lease that runs: nobody else will ever ask for this key. */
    lh_m_set_holder(m, c, NULL);
    c->session = 0;
    lh_m_dirty_chunk(m, c);
    lh_m_health_forget(m, c);
    c->removed = true;

    struct lh_m_tombstone *t = lh_alloc(sizeof *t);
    t->chunk = c->id;
    t->version = c->version;
    HASH_ADD(hh, m->tombstones, chunk, sizeof t->chunk, t);
}

void lh_m_chunk_durable(struct lh_master *m, struct lh_m_chunk *c)
{
    const struct lh_m_extra *e;
    const struct lh_m_copy *copy;

    if (!lh_m_is_durable(m, c->ticket))
        return; /* a newer change is under way; its commit comes here again */
    if (c->removed) {
        for (uint32_t i = 0; i < c->member_count; i++)
            lh_m_send_remove(m, c->members[i].server, c->id, c->version);
        TAILQ_FOREACH(e, &c->extras, link)
        lh_m_send_remove(m, e->server, c->id, c->version);
        TAILQ_FOREACH(copy, &c->copies, chunk_link)
        if (lh_m_member(c, copy->target) == NULL)
            lh_m_send_remove(m, copy->target, c->id, c->version);
        lh_m_chunk_free(m, c);
        return;
    }
    if (c->sealed && !c->seal_told) {
        c->seal_told = true;
        lh_m_record_seal(m, c, NULL);
    }
    if (c->creating)
        lh_m_creation_send(m, c, NULL);
    lh_m_push(m, c);
    lh_m_tell_full(m, c);
    lh_m_roll_durable(m, c);
    lh_m_attend(m, c);
    lh_m_touch(m, c->file);
}

void lh_m_on_seal(struct lh_master *m, struct lh_m_server *s, const Leasehold__SealReport *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);

    if (c != NULL && c->intent_to_seal && c->holder == s &&
        c->holder_incarnation == s->incarnation && report->version == c->granted_version) {
        LH_MARK(
            "seal-report-after-intent"); /* what is sealed is decided by fences; but it stopped */
        lh_m_lease_over(m, c, "was given up with a seal that came too late");
        return;
    }
    if (c == NULL || lh_m_member(c, s) == NULL || report->version != c->version ||
        c->version == 0 || (c->holder != NULL && c->holder != s))
        return; /* only the newest version's primary can know where the chunk ends */
    if (c->sealed) {
        LH_MARK("seal-report-again");
        if (c->seal_told && lh_m_is_durable(m, c->ticket))
            lh_m_record_seal(m, c, NULL);
        return;
    }
    if (c->intent_to_seal)
        return;
    if (report->length > c->file->chunk_size) {
        lh_fx_log(m->fx, LH_WARN,
            "chunk %" PRIu64 ": %s reports a seal at %" PRIu64
            " bytes, above the chunk size of %" PRIu64 "; ignored",
            c->id, s->id, report->length, c->file->chunk_size);
        return;
    }
    /* Valid also when the lease has run out meanwhile: the version is the newest, so nobody has
     * ordered anything since this primary stopped. */
    if (c->holder != NULL) {
        LH_MARK("seal-gives-lease-up");
        lh_m_lease_over(m, c, "was given up with the seal");
    }
    c->length = report->length;
    c->checksum = report->checksum;
    lh_m_set_sealed(m, c);
    lh_m_dirty_chunk(m, c);
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": sealed by %s at version %" PRIu64 ", %" PRIu64 " bytes",
        c->id, c->file->path, s->id, c->version, c->length);
    lh_m_spare_take(m, c->file);
}

static bool is_named(const struct lh_m_server *s, char *const *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(s->id, ids[i]) == 0)
            return true;
    return false;
}

/* How many members, joining ones not counted (REC-4), and which of all, are left without `ids`? */
static uint32_t without(const struct lh_m_chunk *c, char *const *ids, size_t count,
    struct lh_m_member *left, uint32_t *left_count)
{
    uint32_t full = 0;

    *left_count = 0;
    for (uint32_t i = 0; i < c->member_count; i++) {
        if (is_named(c->members[i].server, ids, count))
            continue;
        left[(*left_count)++] = c->members[i];
        full += !c->members[i].joining;
    }
    return full;
}

/* Of the members that the report names those that the primary can go on without. If what is left
 * does not vouch for all that was acknowledged, these are only such as will not come back with it
 * (REC-2a, FAIL-3). */
static size_t dispensable(const struct lh_master *m, const struct lh_m_chunk *c,
    const Leasehold__MemberFailed *report, char **ids)
{
    size_t count = 0;

    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        enum lh_m_health health = lh_m_member_health(m, c, member);
        bool hopeless = health == LH_M_LOST || health == LH_M_MISSING || health == LH_M_JOINING ||
                        lh_m_given_up(m, member->server);
        if (is_named(member->server, report->server_ids, report->n_server_ids) &&
            (!report->unsure || hopeless))
            ids[count++] = member->server->id;
    }
    return count;
}

/* Could some of the members named, which fail, be of use again by waiting for them? */
static bool worth_waiting(
    const struct lh_master *m, const struct lh_m_chunk *c, char *const *ids, size_t count)
{
    for (uint32_t i = 0; i < c->member_count; i++) {
        enum lh_m_health health = lh_m_member_health(m, c, &c->members[i]);
        if (health == LH_M_LOST || health == LH_M_MISSING || health == LH_M_GONE ||
            health == LH_M_JOINING)
            continue;
        if (is_named(c->members[i].server, ids, count))
            return true;
    }
    return false;
}

/* Only the members in `left` are left to the primary. Can the file go on in another chunk, for the
 * sake of appends that wait? */
static bool roll_over_short(struct lh_master *m, struct lh_m_chunk *c,
    const struct lh_m_member *left, uint32_t left_count, bool appends_wait)
{
    c->short_at = m->now;
    for (uint32_t i = 0; i < c->member_count; i++)
        c->members[i].suspect = true;
    for (uint32_t i = 0; i < left_count; i++)
        lh_m_member(c, left[i].server)->suspect = false;
    return appends_wait && lh_m_roll_short(m, c);
}

/* What lies at the members that are not in `left` is not lost for a repair. */
static void note_left_out(
    struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_member *left, uint32_t left_count)
{
    for (uint32_t i = 0; i < c->member_count; i++) {
        bool out = true;
        for (uint32_t j = 0; j < left_count && out; j++)
            out = left[j].server != c->members[i].server;
        if (out)
            lh_m_extra_note(m, c, c->members[i].server, c->version, false, false);
    }
}

/* The primary waits for members that do not answer: they get the addresses of today, for they may
 * have come back elsewhere. It reports them again and again. */
static void wait_for_members(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_touch(m, c->file);
    if (!c->recalling && lh_m_is_durable(m, c->ticket))
        lh_m_send_grant(m, c);
}

static void say_unsure(struct lh_master *m, struct lh_m_chunk *c, char *const *ids, size_t count)
{
    if (c->unsure_version == c->version)
        return;
    c->unsure_version = c->version;
    for (size_t i = 0; i < count; i++)
        lh_fx_log(m->fx, LH_WARN,
            "chunk %" PRIu64 " of \"%s\": %.128s does not answer, and may be the only one to have "
            "every acknowledged record: it takes no appends until that member is back; if it is "
            "gone for good, decommission it",
            c->id, c->file->path, ids[i]);
}

static void say_short(struct lh_master *m, struct lh_m_chunk *c,
    const Leasehold__MemberFailed *report, size_t count, uint32_t full)
{
    if (c->short_version == c->version)
        return;
    c->short_version = c->version;
    lh_fx_log(m->fx, LH_WARN,
        "chunk %" PRIu64 " of \"%s\": %zu members fail (%.128s) and only "
        "%u would be left of at least %u: it takes no appends until they are back",
        c->id, c->file->path, count, report->reason, full, c->file->min_replicas);
}

void lh_m_on_member_failed(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__MemberFailed *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);
    struct lh_m_member left[LH_REPLICATION_MAX];
    char *ids[LH_REPLICATION_MAX];
    uint32_t left_count;

    /* LEASE-3: in the session that holds the newest version, and not after an intent to seal. */
    if (c == NULL || c->holder != s || c->session != s->session || c->version != report->version ||
        c->sealed || c->intent_to_seal || !lh_m_held(m, c) ||
        is_named(s, report->server_ids, report->n_server_ids)) {
        LH_MARK("member-failed-ignored");
        return;
    }
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_member *member = &c->members[i];
        if (is_named(member->server, report->server_ids, report->n_server_ids)) {
            member->server->missed_at = m->now;
            if (member->joining)
                c->bad_source = c->joined_from;
        }
        if (is_named(member->server, report->lost_ids, report->n_lost_ids) && !member->joining) {
            LH_MARK("member-failed-is-lost");
            lh_m_lose(m, c, member);
        }
    }
    size_t count = dispensable(m, c, report, ids);
    if (count == 0 && report->unsure) {
        LH_MARK("member-failed-and-nobody-is-sure");
        /* Fences may get to those whom the primary does not reach. */
        (void)without(c, report->server_ids, report->n_server_ids, left, &left_count);
        if (roll_over_short(m, c, left, left_count, report->appends_wait))
            return;
        if (report->appends_wait)
            (void)lh_m_consent_primary(m, c, report->server_ids, report->n_server_ids);
        wait_for_members(m, c);
        say_unsure(m, c, report->server_ids, report->n_server_ids);
        return;
    }
    uint32_t full = without(c, ids, count, left, &left_count);
    if (left_count == c->member_count || left_count == 0)
        return;
    /* Members that will not be of use again stand in the way of a repair: without them the primary
     * recovers alone, takes no appends (REC-3), and others can join. */
    bool too_few = full < c->file->min_replicas;
    if (too_few && roll_over_short(m, c, left, left_count, report->appends_wait))
        return;
    /* Joining ones stand in if that lasts, and no other primary helps: nothing is ordered before
     * they are full, and the primary has what they lack. */
    bool stand_in = too_few && report->appends_wait && !lh_m_consent_primary(m, c, ids, count) &&
                    c->short_by_primary.believed &&
                    c->short_by_primary.version == c->version && !report->unsure &&
                    left_count >= c->file->min_replicas;
    if (stand_in)
        LH_MARK("member-failed-joining-stand-in");
    if (too_few && !stand_in && worth_waiting(m, c, ids, count)) {
        LH_MARK("member-failed-too-few-left");
        wait_for_members(m, c);
        say_short(m, c, report, count, full);
        return;
    }
    note_left_out(m, c, left, left_count);
    memcpy(c->members, left, left_count * sizeof *left);
    /* It may be back at once, and has nearly everything then; see lh_m_extra_fit(). */
    c->repair_at =
        too_few ? m->now : lh_instant_add(m->now, lh_nanoseconds(m->config.session_term.ns / 2));
    for (size_t j = 0; j < count; j++)
        lh_fx_log(m->fx, LH_WARN,
            "chunk %" PRIu64 " of \"%s\": goes on without %.128s (%.128s): "
            "%u replicas at version %" PRIu64,
            c->id, c->file->path, ids[j], report->reason, left_count, c->version + 1);
    c->member_count = left_count;
    lh_m_regrant(m, c);
}
