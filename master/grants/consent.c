/* A primary that lives, and is of no use to who wants it: the master asks for the lease back, and
 * another member has it as soon as it is released (LEASE-5). Nothing is taken (INV-9): the holder
 * commits what is under way and lets go by itself; if it does not answer, LEASE-2 stands.
 *
 *   a client says again and again that it cannot reach a primary that the master hears well
 *   a primary says again and again that members do not answer which the master hears well, too few
 *   are left without them, and appends wait
 *
 * Either may be one bad link, and then the next primary may be behind it as well. So one word is no
 * cause, a file moves once and then rests, each time for twice as long, and the cluster's moves are
 * so far apart that nobody's complaints keep it busy. */
#include "master/grants/grants.h"

#include "master/inventory/inventory.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

#include <inttypes.h>

/* Another word about this version's primary: have there been enough of them, for long enough? */
static void hear(struct lh_master *m, const struct lh_m_chunk *c, struct lh_m_words *words)
{
    struct lh_duration most = m->config.consent_after;
    /* Who was served in between begins again: a primary that is paused now and then is no cause. */
    struct lh_duration silence = lh_nanoseconds(most.ns / 3 * 2);
    bool goes_on = words->version == c->version &&
                   lh_instant_before(m->now, lh_instant_add(words->last_at, silence));

    if (!goes_on)
        *words = (struct lh_m_words){.version = c->version, .first_at = m->now};
    words->last_at = m->now;
    words->count++;
    words->believed =
        (words->count >= 2 && lh_instant_reached(m->now, lh_instant_add(words->first_at, most))) ||
        LH_PLANTED("recall-for-one-word");
}

/* Is there another member that could have it, as far as the master sees? */
static bool another_can(const struct lh_master *m, const struct lh_m_chunk *c)
{
    for (uint32_t i = 0; i < c->member_count; i++)
        if (lh_m_server_of(m, &c->members[i]) != lh_m_holder(c) &&
            lh_m_can_lead(m, &c->members[i]) && lh_m_reached(lh_m_server_of(m, &c->members[i])) &&
            lh_m_looks_alive(m, lh_m_server_of(m, &c->members[i])))
            return true;
    return false;
}

/* Could the others make do without the primary, as far as the master sees? Else a file that can be
 * read is no better off. Who is cut off from them all would only recover for ever. */
static bool enough_without(struct lh_master *m, const struct lh_m_chunk *c)
{
    uint32_t full = 0;

    for (uint32_t i = 0; i < c->member_count; i++)
        full += lh_m_server_of(m, &c->members[i]) != lh_m_holder(c) &&
                lh_m_can_lead(m, &c->members[i]) &&
                lh_m_looks_alive(m, lh_m_server_of(m, &c->members[i]));
    return full >= c->file->min_replicas ||
           (full + 1 == c->file->min_replicas && m->config.repair_streams > 0 &&
               lh_m_place_copy(m, c->file->chunk_size, true, c->members, c->member_count) != NULL);
}

static void ask(struct lh_master *m, struct lh_m_chunk *c, const char *why)
{
    struct lh_m_file *f = c->file;

    if (!lh_m_has_primary(m, c) || !lh_m_looks_alive(m, lh_m_holder(c)) || !another_can(m, c) ||
        lh_instant_before(m->now, m->consent_from) || LH_PLANTED("lost-primary-kept"))
        return;
    if (lh_instant_before(m->now, f->active->consent_from)) {
        LH_MARK("consent-rests");
        return;
    }
    struct lh_m_file_active *fm = lh_m_move_file(m, f);
    LH_MARK("recall-for-consent");
    /* What was quiet for as long again begins again. */
    if (lh_instant_reached(m->now, lh_instant_add(fm->consent_from, fm->consent_rest)))
        fm->consents = 0;
    fm->consent_rest =
        lh_m_backoff(m->config.consent_rest, m->config.consent_rest_max, fm->consents++);
    fm->consent_from = lh_instant_add(m->now, fm->consent_rest);
    m->consent_from = lh_instant_add(m->now, m->config.consent_pause);
    lh_fx_log(m->fx, LH_WARN,
        "chunk %" PRIu64 " of \"%s\": primary %s lives, but %s: it is asked to let another one",
        c->id, f->path, lh_m_holder(c)->id, why);
    lh_m_recall(m, c);
}

void lh_m_consent_client(struct lh_master *m, struct lh_m_chunk *c)
{
    hear(m, c, &lh_m_doubts(m, c)->lost_by_clients);
    lh_m_reach_doubt(m, lh_m_holder(c));
    /* What recovers is not disturbed: it would begin again elsewhere. */
    if (c->active->doubts->lost_by_clients.believed &&
        c->active->repair.recovered_version == c->version &&
        (lh_instant_before(c->active->doubts->lost_by_clients.first_at,
             lh_m_holder(c)->session.client.received_at) ||
            LH_PLANTED("recall-for-one-word")))
        ask(m, c, "clients cannot reach it");
}

bool lh_m_consent_primary(struct lh_master *m, struct lh_m_chunk *c, char *const *ids, size_t count)
{
    bool well = false;

    for (uint32_t i = 0; i < c->member_count; i++)
        for (size_t n = 0; n < count; n++)
            well = well || (strcmp(lh_m_server_of(m, &c->members[i])->id, ids[n]) == 0 &&
                               lh_m_server_of(m, &c->members[i]) != lh_m_holder(c) &&
                               lh_m_can_lead(m, &c->members[i]) &&
                               lh_m_looks_alive(m, lh_m_server_of(m, &c->members[i])));
    if (!well)
        return false;
    hear(m, c, &lh_m_doubts(m, c)->short_by_primary);
    if (c->active->doubts->short_by_primary.believed && enough_without(m, c))
        ask(m, c, "it cannot reach members that live");
    return c->active->grant->lease.recalling;
}
