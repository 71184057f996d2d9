/* Who is a member of a chunk: what the members are worth together, who comes in, and who goes. */
#include "master/keep/internal.h"

#include "master/inventory/inventory.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

struct lh_m_tally lh_m_tally(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_m_tally t = {0};

    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        enum lh_m_health health = lh_m_member_health(m, c, member);
        bool good = health == LH_M_GOOD, stays = !lh_m_leaving(m, member);
        bool source = lh_m_is_source(m, c, member);
        t.good += good;
        t.keep += (good || health == LH_M_AWAY) && stays;
        t.staying += good && stays;
        t.whole += good && stays && (!c->sealed || member->sealed);
        t.sources += source;
        t.sound += source && health != LH_M_LOST;
        t.readable += good || (health != LH_M_LOST && source);
        t.joining += health == LH_M_JOINING;
    }
    return t;
}

unsigned lh_m_uselessness(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member)
{
    switch (lh_m_member_health(m, c, member)) {
    case LH_M_GONE:
        return 7;
    case LH_M_LOST:
    case LH_M_MISSING:
        return 6;
    case LH_M_STALE:
        return 5;
    case LH_M_AWAY:
        return lh_m_leaving(m, member) ? 4 : 2;
    default:
        return lh_m_leaving(m, member) ? 3 : 1;
    }
}

struct lh_m_member *lh_m_most_useless(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_m_member *worst = NULL;

    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_member *member = &c->members[i];
        if (lh_m_server_of(m, member) == lh_m_holder(c))
            continue;
        if (worst == NULL || lh_m_uselessness(m, c, member) >= lh_m_uselessness(m, c, worst))
            worst = member;
    }
    return worst;
}

void lh_m_member_drop(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member)
{
    struct lh_m_member gone = *member;

    LH_MARK("member-dropped");
    m->counts.members_dropped++;
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": %s (%s%s) is no member any more", c->id,
        c->file->path, lh_m_server_of(m, &gone)->id,
        lh_m_health_text(lh_m_member_health(m, c, member)),
        lh_m_leaving(m, member) ? ", leaving" : "");
    lh_m_member_remove(c, member);
    lh_m_dirty_chunk(m, c);
    lh_m_extra_note(m, c, lh_m_server_of(m, &gone), c->version, gone.sealed, false);
}

void lh_m_complete(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s)
{
    struct lh_m_member *member = lh_m_member(c, s);

    if (member == NULL) {
        if (c->member_count == LH_REPLICATION_MAX) {
            member = lh_m_most_useless(m, c);
            if (member == NULL || lh_m_uselessness(m, c, member) < 3)
                return;
            lh_m_member_drop(m, c, member);
        }
        m->counts.members_added++;
        member = lh_m_member_add(c, lh_m_member_at(s));
        member->created = true;
        lh_m_dirty_chunk(m, c);
    } else if (member->lost) {
        lh_m_dirty_chunk(m, c);
    }
    member->lost = member->stale = false;
    member->sealed = true;
    member->seen = lh_m_session_of(s);
    lh_m_enqueue(m, c);
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": %s has a whole replica", c->id,
        c->file->path, s->id);
}
