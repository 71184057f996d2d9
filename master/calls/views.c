/* Chunks, leases and servers as replies have them. */
#include "master/calls/internal.h"

#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/seal/seal.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

void lh_m_chunk_view(
    const struct lh_master *m, const struct lh_m_chunk *c, struct lh_m_chunk_view *view)
{
    leasehold__chunk_info__init(&view->info);
    view->info.chunk = c->id;
    view->info.version = c->version;
    view->info.start = c->start;
    view->info.sealed = c->sealed;
    view->info.length = c->sealed ? c->length : 0;
    view->info.unbacked = !lh_m_backed(m, c);
    uint32_t first = 0, last = c->member_count;
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        leasehold__member__init(&view->members[i]);
        view->members[i].server_id = s->id;
        if (lh_m_live(m, s))
            view->members[i].address = s->address;
        view->members[i].joining = c->members[i].joining;
        view->pointers[c->members[i].lost ? --last : first++] = &view->members[i];
    }
    view->info.n_members = c->member_count;
    view->info.members = view->pointers;
    if (!c->sealed && lh_m_holder(c) != NULL && lh_m_has_primary(m, c))
        view->info.primary = lh_m_holder(c)->id;
}

void lh_m_chunk_view_capability(struct lh_master *m, struct lh_m_chunk_view *view, unsigned rights)
{
    view->info.capability = lh_m_capability(m, view->info.chunk, rights, view->capability);
}

const char *lh_m_lease_state(const struct lh_master *m, const struct lh_m_chunk *c)
{
    if (lh_m_holder(c) == NULL || !lh_m_held(m, c))
        return "FREE";
    if (c->intent_to_seal)
        return "EXPIRING"; /* FAIL-2a: left to run out */
    if (c->active->grant->lease.recalling)
        return "RECALLING";
    if (c->active->grant->lease.session == 0)
        return "WAITING";
    return c->active->grant->lease.confirmed ? "HELD" : "GRANTING";
}

void lh_m_server_view(
    const struct lh_master *m, const struct lh_m_server *s, Leasehold__ServerInfo *info)
{
    leasehold__server_info__init(info);
    info->server_id = s->id;
    info->address = s->address;
    info->incarnation = s->incarnation;
    info->live = lh_m_live(m, s);
    info->failing = s->space.failing;
    info->read_only = s->space.read_only;
    info->reachable = lh_m_reachable(m, s);
    if (info->live)
        info->unheard = (char *)(uintptr_t)lh_m_unheard(s);
    if (info->live)
        info->session_left_ms = lh_duration_ms(
            lh_instant_until(m->now, lh_lease_client_until(&m->leases, &s->session.client)));
    else
        info->away_ms = lh_duration_ms(lh_instant_until(s->session.away_since, m->now));
    info->grace_left_ms = lh_duration_ms(lh_m_grace_left(m, s));
    info->capacity_bytes = s->space.capacity_bytes;
    info->free_bytes = s->space.free_bytes;
    info->replicas = s->space.replicas;
    info->primaries = s->session.client.count;
    info->failure_domain = s->failure_domain;
    info->admin = s->admin;
    info->safe_to_stop = lh_m_safe_to_stop(m, s);
    info->replicas_to_move = lh_m_replicas_to_move(m, s);
    if (s->census.obstacle != NULL)
        info->obstacle = s->census.obstacle;
    info->copies_in = s->copies_in;
    info->copies_out = s->copies_out;
    info->batches_ordered = s->ordered.batches;
    info->bytes_ordered = s->ordered.bytes;
    info->ordered_unreported = s->ordered.at.ns == 0;
    if (!info->ordered_unreported)
        info->ordered_ago_ms = lh_duration_ms(lh_instant_until(s->ordered.at, m->now));
}
