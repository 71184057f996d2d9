/* What follows when a primary has made all members equal (REC-4). */
#include "master/keep/keep.h"

#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

void lh_m_on_recovered(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Recovered *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);

    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " version %" PRIu64 ": recovered by %s at %" PRIu64 " bytes",
        report->chunk, report->version, s->id, report->length);
    if (c == NULL || lh_m_holder(c) != s ||
        c->active->grant->lease.session != s->session.client.session || c->sealed ||
        c->intent_to_seal || !c->active->grant->lease.sent)
        return;
    /* What was complete at an older version says nothing of the newest one. */
    if (c->version != report->version) {
        LH_MARK("recovered-at-older-version");
        return;
    }
    bool joined = false, unproven = false;
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_member *member = &c->members[i];
        struct lh_m_server *its = lh_m_server_of(m, member);
        /* Every member has confirmed that its log is equal (REC-2). In a session that is younger
         * than the grant it may have lost that again. */
        if (lh_instant_before(its->session.registered_at, c->active->grant->at))
            lh_m_seen(m, c, its);
        if (!member->joining)
            continue;
        if (member->seen != lh_m_session_of(its)) {
            unproven = true;
            continue;
        }
        LH_MARK("joining-member-is-full");
        member->joining = false;
        joined = true;
        lh_m_join_done(its);
        lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": %s is a full member", c->id,
            c->file->path, lh_m_server_of(m, member)->id);
    }
    if (joined)
        lh_m_dirty_chunk(m, c);
    /* The primary counts on full members alone. If it says so in a new session, to this master or
     * to one that started since, it may not have heard who is one by now. And members may know no
     * other reign's keys than this one's (ACC-9). */
    struct lh_m_repair *repair = &lh_m_move(m, c)->repair;
    bool again = repair->recovered_session != s->session.client.session &&
                 (c->active->grant->lease.waiting || repair->recovered_version == c->version);
    if (joined || (again && !LH_PLANTED("lease-goes-on-as-granted")))
        repair->notify_full = true;
    lh_m_refusals_end(m, c);
    if (unproven && lh_m_has_primary(m, c)) {
        LH_MARK("joining-member-registered-since");
        lh_m_regrant(m, c); /* it confirms in its present session, or not */
        return;
    }
    repair->recovered_version = c->version;
    repair->recovered_session = s->session.client.session;
    lh_m_notify_full(m, c);
    if (repair->granted) {
        repair->at = m->now; /* what it was granted for can begin */
        lh_m_repair_round(m);
    }
    lh_m_enqueue(m, c);
}

void lh_m_notify_full(struct lh_master *m, struct lh_m_chunk *c)
{
    if (!c->active->repair.notify_full || !lh_m_is_durable(m, c->active->ticket))
        return;
    lh_m_move(m, c)->repair.notify_full = false;
    if (lh_m_holder(c) != NULL && lh_m_has_primary(m, c))
        lh_m_send_grant(m, c);
}
