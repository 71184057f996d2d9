/* Explain: each replica of a chunk, and servers for one more. */
#include "master/calls/internal.h"

#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

#include <inttypes.h>

/* So many refused servers are named; `leasehold servers` has the others. */
#define REFUSED_SAID 4u

static void say_refused(const struct lh_master *m, struct lh_m_sentences *out)
{
    char when[LH_WHEN_BYTES];
    unsigned count = 0;

    for (const struct lh_m_refused *r = NULL; (r = lh_m_refused_next(m, r)) != NULL;)
        if (count++ < REFUSED_SAID)
            lh_m_say(out, "A chunkserver at %s was refused %s ago: %s.", r->peer,
                lh_m_how_long(lh_instant_until(r->at, m->now), when), r->text);
    if (count > REFUSED_SAID)
        lh_m_say(out, "%u others were refused: see leasehold servers.", count - REFUSED_SAID);
}

void lh_m_describe_servers(struct lh_master *m, struct lh_m_sentences *out, uint64_t bytes,
    const struct lh_m_chunk *without)
{
    const struct lh_m_server *s;
    unsigned live = 0, away = 0, failing = 0, drained = 0, full = 0, members = 0, unheard = 0;

    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        if (lh_m_forgotten(s))
            continue;
        if (!lh_m_live(m, s)) {
            away++;
            continue;
        }
        live++;
        if (without != NULL && lh_m_member(without, s) != NULL)
            members++;
        else if (s->space.failing)
            failing++;
        else if (lh_m_drained(s))
            drained++;
        else if (!lh_m_reached(s))
            unheard++;
        else if (!lh_m_has_space(s, bytes))
            full++;
    }
    if (live == 0) {
        lh_m_say(out, "No chunkserver has a session with this master; %u are known.", away);
        say_refused(m, out);
        return;
    }
    lh_m_say(out,
        "Of the %u chunkservers that are alive %u are its members already, %u have no room for "
        "%" PRIu64
        " bytes, %u are being drained, %u have a disk that does not answer or cannot be written, "
        "%u were not heard at their addresses; %u are away.",
        live, members, full, bytes, drained, failing, unheard, away);
    TAILQ_FOREACH(s, &m->all_servers, all_link)
        if (lh_m_live(m, s) && !lh_m_reached(s))
            lh_m_say(out, "Nothing is placed at %s: %s.", s->id, lh_m_unheard(s));
    say_refused(m, out);
}

static void say_member(const struct lh_master *m, struct lh_m_sentences *out,
    const struct lh_m_chunk *c, const struct lh_m_member *member)
{
    const struct lh_m_server *s = lh_m_server_of(m, member);
    char away[LH_WHEN_BYTES], left[LH_WHEN_BYTES];

    switch (lh_m_member_health(m, c, member)) {
    case LH_M_GOOD:
        if (lh_m_leaving(m, member))
            lh_m_say(out,
                "%s is to lose its replica (%s): it stays a member until another one has taken its "
                "place.",
                s->id,
                s->admin == LEASEHOLD__SERVER_ADMIN__ACTIVE ? "it moves to another chunkserver"
                                                            : "the chunkserver is being drained");
        break;
    case LH_M_AWAY:
        lh_m_how_long(lh_instant_until(s->session.away_since, m->now), away);
        lh_m_how_long(lh_m_grace_left(m, s), left);
        if (s->space.failing)
            lh_m_say(out,
                "%s has a disk that %s; if that stays so, its replica is copied elsewhere in %s.",
                s->id,
                s->space.read_only ? "cannot be written (what it has can be read)"
                                   : "does not answer",
                left);
        else if (lh_m_live(m, s))
            lh_m_say(out, "%s has registered, and what it has is being looked at.", s->id);
        else
            lh_m_say(out,
                "%s has been away for %s; if it does not come back, its replica is copied "
                "elsewhere in %s.",
                s->id, away, left);
        break;
    case LH_M_GONE:
        lh_m_say(out, "%s is gone: %s for longer than the grace period.", s->id,
            lh_m_live(m, s) && !lh_m_heard_out(s) ? "it has not shown all that it has"
            : s->space.read_only ? "its disk could not be written (what it has can be read)"
            : s->space.failing   ? "its disk has not answered"
                                 : "it has been away");
        break;
    case LH_M_LOST:
        if (lh_m_is_kept(m, member))
            lh_m_say(out,
                "The replica at %s is damaged: what is whole of it is read, and it is to be copied "
                "again.",
                s->id);
        else
            lh_m_say(out, "%s has lost its replica: it is to be copied again.", s->id);
        break;
    case LH_M_MISSING:
        lh_m_say(out, "%s registered without its replica.", s->id);
        break;
    case LH_M_STALE:
        lh_m_say(out, "%s missed what the seal covers; its replica is to be refreshed.", s->id);
        break;
    case LH_M_JOINING:
        lh_m_say(out,
            "%s is joining: every commit needs it already, and it counts as a replica once the "
            "primary has made it equal (REC-4).",
            s->id);
        break;
    }
}

static void say_copies(
    const struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_chunk *c)
{
    Leasehold__RepairInfo info = LEASEHOLD__REPAIR_INFO__INIT;
    const struct lh_m_copy *copy;

    lh_m_repair_info(m, &info);
    TAILQ_FOREACH(copy, &c->active->repair.copies, chunk_link) {
        char text[LH_TEXT_BYTES] = "", when[LH_WHEN_BYTES];
        if (copy->sealed) {
            uint64_t left = c->length > copy->length ? c->length - copy->length : 0;
            uint64_t rate =
                info.copies_running == 0 ? 0 : info.bytes_per_second / info.copies_running;
            snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " bytes are there", copy->length,
                c->length);
            if (rate > 0)
                snprintf(text + strlen(text), sizeof text - strlen(text), ", about %s left",
                    lh_m_how_long(lh_milliseconds(left * 1000 / rate), when));
        } else {
            snprintf(text, sizeof text, "%s",
                copy->caught_up ? "it has caught up and is to join the set"
                                : "it is catching up, to join the set then");
            if (!copy->caught_up)
                snprintf(text + strlen(text), sizeof text - strlen(text),
                    " (%" PRIu64 " bytes are there)", copy->length);
        }
        lh_m_say(out, "A replica is being %s at %s, from %s: %s.",
            copy->refresh ? "refreshed" : "copied", copy->target->id,
            copy->source == NULL ? "any member" : copy->source->id, text);
    }
}

void lh_m_describe_replicas(
    struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_chunk *c)
{
    uint32_t good = 0, counted = 0, sources = 0, kept = 0;
    char names[LH_TEXT_BYTES] = "";
    struct lh_m_server *chosen[1];
    const struct lh_m_extra *e;

    if (!c->created)
        return;
    for (uint32_t i = 0; i < c->member_count; i++) {
        enum lh_m_health health = lh_m_member_health(m, c, &c->members[i]);
        good += health == LH_M_GOOD;
        sources += lh_m_is_source(m, c, &c->members[i]);
        kept += health == LH_M_LOST && lh_m_is_kept(m, &c->members[i]);
        counted += health == LH_M_GOOD || health == LH_M_AWAY;
        if (health == LH_M_GOOD)
            lh_m_add_name(names, sizeof names, lh_m_server_of(m, &c->members[i])->id);
    }
    lh_m_say(out, "%u of the %u replicas that its file asks for are good: [%s].", good,
        c->file->replication, names);
    for (uint32_t i = 0; i < c->member_count; i++)
        say_member(m, out, c, &c->members[i]);
    say_copies(m, out, c);
    if (good == 0 && sources == 0)
        lh_m_say(out, "%s",
            kept > 0 ? "None of its replicas is whole; what is whole of each is read."
                     : "None of its replicas can be read now.");
    if (counted < c->file->replication && c->active->repair.copy_count == 0) {
        uint64_t bytes = c->sealed ? c->length : c->file->chunk_size;
        if (good + sources > 0 &&
            lh_m_place(m, bytes, 1, c->members, c->member_count, chosen) == 1) {
            lh_m_say(out,
                "It is under repair: another replica will be copied to a chunkserver such as "
                "%s when its turn comes%s.",
                chosen[0]->id,
                c->sealed || (lh_m_holder(c) != NULL && lh_m_held(m, c)) ? ""
                                                                         : " and it has a primary");
        } else {
            lh_m_say(out, "It is degraded, and there is %s.",
                good + sources == 0 ? "no good replica to copy from"
                                    : "no chunkserver to copy it to");
            lh_m_describe_servers(m, out, bytes, c);
        }
    }
    TAILQ_FOREACH(e, &c->active->extras, link)
        if (!lh_m_copy_at(m, c, e->server))
            lh_m_say(out, "%s has a replica of version %" PRIu64 " that is not in the set: %s.",
                e->server->id, e->version,
                m->behind != NULL ? "nothing is deleted now"
                : e->asked        ? "it was told to delete it"
                                  : "it is deleted once all members are well without it");
}
