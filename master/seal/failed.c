/* Members that a primary reports as failed: it goes on without them, it waits, or the file rolls
 * over. */
#include "master/seal/seal.h"

#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static bool is_named(const struct lh_m_server *s, char *const *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(s->id, ids[i]) == 0)
            return true;
    return false;
}

/* How many members, joining ones not counted (REC-4), and which of all, are left without `ids`? */
static uint32_t without(const struct lh_master *m, const struct lh_m_chunk *c, char *const *ids,
    size_t count, struct lh_m_member *left, uint32_t *left_count)
{
    uint32_t full = 0;

    *left_count = 0;
    for (uint32_t i = 0; i < c->member_count; i++) {
        if (is_named(lh_m_server_of(m, &c->members[i]), ids, count))
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
        bool hopeless =
            !lh_m_log_counts(m, member) || lh_m_member_health(m, c, member) == LH_M_MISSING;
        if (is_named(lh_m_server_of(m, member), report->server_ids, report->n_server_ids) &&
            (!report->unsure || hopeless))
            ids[count++] = lh_m_server_of(m, member)->id;
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
        if (is_named(lh_m_server_of(m, &c->members[i]), ids, count))
            return true;
    }
    return false;
}

/* Only the members in `left` are left to the primary. Can the file go on in another chunk, for the
 * sake of appends that wait? */
static bool roll_over_short(struct lh_master *m, struct lh_m_chunk *c,
    const struct lh_m_member *left, uint32_t left_count, bool appends_wait)
{
    lh_m_seal(m, c)->short_at = m->now;
    for (uint32_t i = 0; i < c->member_count; i++)
        c->members[i].excluded = true;
    for (uint32_t i = 0; i < left_count; i++)
        lh_m_member(c, lh_m_server_of(m, &left[i]))->excluded = false;
    return appends_wait && lh_m_roll_short(m, c);
}

/* What lies at the members that are not in `left` is not lost for a repair. */
static void note_left_out(
    struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_member *left, uint32_t left_count)
{
    for (uint32_t i = 0; i < c->member_count; i++) {
        bool out = true;
        for (uint32_t j = 0; j < left_count && out; j++)
            out = lh_m_server_of(m, &left[j]) != lh_m_server_of(m, &c->members[i]);
        if (out)
            lh_m_extra_note(m, c, lh_m_server_of(m, &c->members[i]), c->version, false, false);
    }
}

/* Of the members that leave: one that joined is tried elsewhere, and nothing joins at its server
 * for a while. */
static void rest_joins(struct lh_master *m, struct lh_m_chunk *c, char *const *ids, size_t count)
{
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if (!c->members[i].joining || !is_named(s, ids, count))
            continue;
        lh_m_join_failed(m, s);
        lh_m_move(m, c)->repair.avoid = s;
    }
}

/* The primary waits for members that do not answer: they get the addresses of today, for they may
 * have come back elsewhere. It reports them again and again. */
static void wait_for_members(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_touch(m, c->file);
    if (!c->active->grant->lease.recalling && lh_m_is_durable(m, c->active->ticket))
        lh_m_send_grant(m, c);
}

static void say_unsure(struct lh_master *m, struct lh_m_chunk *c, char *const *ids, size_t count)
{
    if (c->active->seal->unsure_version == c->version)
        return;
    lh_m_seal(m, c)->unsure_version = c->version;
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
    if (c->active->seal->short_version == c->version)
        return;
    lh_m_seal(m, c)->short_version = c->version;
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
    if (c == NULL || lh_m_holder(c) != s ||
        c->active->grant->lease.session != s->session.client.session ||
        c->version != report->version || c->sealed || c->intent_to_seal || !lh_m_held(m, c) ||
        is_named(s, report->server_ids, report->n_server_ids)) {
        LH_MARK("member-failed-ignored");
        return;
    }
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_member *member = &c->members[i];
        if (is_named(lh_m_server_of(m, member), report->server_ids, report->n_server_ids)) {
            lh_m_note_missed(m, lh_m_server_of(m, member));
            if (member->joining)
                lh_m_seal(m, c)->bad_source = c->active->repair.joined_from;
        }
    }
    if (report->unsure && lh_m_roll_unsure_primary(m, c))
        return;
    size_t count = dispensable(m, c, report, ids);
    if (count == 0 && report->unsure) {
        LH_MARK("member-failed-and-nobody-is-sure");
        /* Fences may get to those whom the primary does not reach. */
        (void)without(m, c, report->server_ids, report->n_server_ids, left, &left_count);
        if (roll_over_short(m, c, left, left_count, report->appends_wait))
            return;
        if (report->appends_wait && !LH_PLANTED("unsure-primary-kept"))
            (void)lh_m_consent_primary(m, c, report->server_ids, report->n_server_ids);
        wait_for_members(m, c);
        say_unsure(m, c, report->server_ids, report->n_server_ids);
        return;
    }
    uint32_t full = without(m, c, ids, count, left, &left_count);
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
                    c->active->doubts->short_by_primary.believed &&
                    c->active->doubts->short_by_primary.version == c->version && !report->unsure &&
                    left_count >= c->file->min_replicas;
    if (stand_in)
        LH_MARK("member-failed-joining-stand-in");
    if (too_few && !stand_in && worth_waiting(m, c, ids, count)) {
        LH_MARK("member-failed-too-few-left");
        wait_for_members(m, c);
        say_short(m, c, report, count, full);
        return;
    }
    rest_joins(m, c, ids, count);
    note_left_out(m, c, left, left_count);
    lh_m_members_set(c, left, left_count);
    /* It may be back at once, and has nearly everything then; see lh_m_extra_fit(). */
    lh_m_move(m, c)->repair.at =
        too_few ? m->now : lh_instant_add(m->now, lh_nanoseconds(m->config.session_term.ns / 2));
    for (size_t j = 0; j < count; j++)
        lh_fx_log(m->fx, LH_WARN,
            "chunk %" PRIu64 " of \"%s\": goes on without %.128s (%.128s): "
            "%u replicas at version %" PRIu64,
            c->id, c->file->path, ids[j], report->reason, left_count, c->version + 1);
    lh_m_regrant(m, c);
}
