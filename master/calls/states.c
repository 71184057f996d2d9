/* The state of every chunk, for fsck: its set, where its replicas lie and what each is worth, and
 * who holds its lease. Explain tells the same of one chunk, beside its sentences (explain.c). */
#include "master/calls/calls.h"

#include "master/calls/internal.h"
#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/tables/chunk.h"
#include "master/tables/path.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

static void add_replica(struct lh_m_chunk_state *s, const struct lh_master *m,
    const struct lh_m_server *server, const char *state, bool primary)
{
    Leasehold__ReplicaInfo *r;

    LH_GROW(s->replicas, s->capacity, s->state.n_replicas + 1);
    r = &s->replicas[s->state.n_replicas++];
    leasehold__replica_info__init(r);
    r->server_id = server->id;
    if (lh_m_live(m, server))
        r->address = server->address;
    r->state = (char *)(uintptr_t)state;
    r->primary = primary;
}

/* TIME-4: the holder's own end of the lease, which is that of its session if that is earlier. It
 * counts from when it sent its last heartbeat, which was not later than it was received. */
static struct lh_duration holder_left(const struct lh_master *m, const struct lh_m_chunk *c)
{
    const struct lh_lease *lease = &c->active->grant->lease;
    uint64_t margin = m->config.chunk_term.ns - m->holder_chunk_term.ns;
    struct lh_lease_info info;

    if (!lh_grantor_find(m->leases.engine, lease->key, m->now, &info))
        return lh_nanoseconds(0);
    uint64_t own = lh_instant_until(m->now, info.own_end).ns;
    struct lh_instant session = lh_instant_add(lease->holder->received_at, m->holder_session_term);
    return lh_duration_min(
        lh_nanoseconds(own > margin ? own - margin : 0), lh_instant_until(m->now, session));
}

void lh_m_chunk_state(
    const struct lh_master *m, const struct lh_m_chunk *c, struct lh_m_chunk_state *s)
{
    const struct lh_m_copy *copy;
    const struct lh_m_extra *e;
    bool primary =
        lh_m_holder(c) != NULL && !c->sealed && lh_m_held(m, c) && lh_m_has_primary(m, c);

    memset(s, 0, sizeof *s);
    leasehold__chunk_state__init(&s->state);
    lh_m_chunk_view(m, c, &s->view);
    s->state.chunk = &s->view.info;
    s->state.path = c->file->path;
    s->state.file = c->file->id;
    s->state.replication = c->file->replication;
    s->state.min_replicas = c->file->min_replicas;
    s->state.lease = (char *)(uintptr_t)lh_m_lease_state(m, c);
    if (lh_m_holder(c) != NULL)
        s->state.lease_left_ms = lh_duration_ms(lh_m_lease_left(m, c));
    if (lh_m_holder(c) != NULL)
        s->state.holder_left_ms = lh_duration_ms(holder_left(m, c));
    s->state.rolling = c->intent_to_seal && !c->sealed;
    s->state.trashed = c->file->trashed;
    s->state.checksum = c->sealed ? c->checksum : 0;
    s->state.created = c->created;
    for (uint32_t i = 0; i < c->member_count; i++)
        add_replica(s, m, lh_m_server_of(m, &c->members[i]),
            lh_m_health_text(lh_m_member_health(m, c, &c->members[i])),
            primary && lh_m_server_of(m, &c->members[i]) == lh_m_holder(c));
    TAILQ_FOREACH(copy, &c->active->repair.copies, chunk_link)
        if (lh_m_member(c, copy->target) == NULL)
            add_replica(s, m, copy->target, "COPYING", false);
    TAILQ_FOREACH(e, &c->active->extras, link)
        if (!lh_m_copy_at(m, c, e->server) && lh_m_member(c, e->server) == NULL)
            add_replica(s, m, e->server, "EXTRA", false);
    s->pointers = lh_alloc_array(s->state.n_replicas + 1, sizeof *s->pointers);
    for (size_t i = 0; i < s->state.n_replicas; i++)
        s->pointers[i] = &s->replicas[i];
    s->state.replicas = s->pointers;
}

void lh_m_chunk_state_free(struct lh_m_chunk_state *s)
{
    free(s->replicas);
    free(s->pointers);
}

void lh_m_list_chunks(
    struct lh_master *m, uint64_t link, const Leasehold__ListChunksRequest *request)
{
    Leasehold__ListChunksReply reply = LEASEHOLD__LIST_CHUNKS_REPLY__INIT;
    uint32_t limit = lh_m_page_size(request->limit, m->config.list_default, m->config.list_max);
    size_t prefix_size = strlen(request->prefix), count = 0, passed = 0, bytes = 0;
    char text[LH_TEXT_BYTES];
    int error = lh_path_prefix_check(request->prefix, text, sizeof text);
    struct lh_m_chunk *c = NULL;

    if (error != LH_OK) {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
        lh_m_reply(m, link, 1, &reply.base);
        return;
    }
    struct lh_m_chunk_state *states = lh_alloc_array(limit, sizeof *states);
    Leasehold__ChunkState **pointers = lh_alloc_array(limit, sizeof *pointers);
    if (request->after_chunk != UINT64_MAX)
        c = lh_m_chunk_from(m, request->after_chunk + 1);
    for (; c != NULL; c = lh_m_chunk_from(m, c->id + 1)) {
        if (count == limit || passed == m->config.step_work) {
            reply.more = true;
            break;
        }
        if (strncmp(c->file->path, request->prefix, prefix_size) != 0) {
            reply.next = c->id;
            passed++;
            continue;
        }
        lh_m_chunk_state(m, c, &states[count]);
        lh_m_chunk_view_capability(m, &states[count].view, LH_CAPABILITY_READ);
        if (!lh_m_page_takes(m, &bytes, &states[count].state.base)) {
            lh_m_chunk_state_free(&states[count]);
            reply.more = true;
            break;
        }
        reply.next = c->id;
        pointers[count] = &states[count].state;
        count++;
    }
    reply.n_chunks = count;
    reply.chunks = pointers;
    lh_m_reply(m, link, 1, &reply.base);
    for (size_t i = 0; i < count; i++)
        lh_m_chunk_state_free(&states[i]);
    free(states);
    free(pointers);
}
