/* What a chunkserver is to do with its replicas: create, record a seal, remove. While nothing is
 * deleted (behind.h) removals are *kept*, per server and session. */
#include "master/inventory/inventory.h"

#include "master/tables/behind.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

void lh_m_send_create(
    struct lh_master *m, const struct lh_m_file *f, uint64_t id, struct lh_m_server *s)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__CreateReplica create = LEASEHOLD__CREATE_REPLICA__INIT;

    if (!lh_m_live(m, s))
        return;
    create.session = lh_m_wire_session(m, s->session.client.session);
    create.chunk = id;
    create.version = LH_M_FIRST_VERSION;
    create.chunk_size = f->chunk_size;
    create.durability = f->durability;
    create.master_term = m->term;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_CREATE;
    reply.create = &create;
    lh_m_send(m, s, &reply);
}

void lh_m_record_seal(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *only)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__RecordSeal seal = LEASEHOLD__RECORD_SEAL__INIT;

    /* SEAL-1. Its record may be on the way to the store again, for its members' sake. */
    LH_ASSERT(c->sealed && c->seal_reported);
    seal.chunk = c->id;
    seal.version = c->version;
    seal.length = c->length;
    seal.checksum = c->checksum;
    seal.master_term = m->term;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL;
    reply.record_seal = &seal;
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if ((only != NULL && only != s) || !lh_m_live(m, s))
            continue;
        seal.session = lh_m_wire_session(m, s->session.client.session);
        lh_m_send(m, s, &reply);
    }
}

void lh_m_send_remove(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__RemoveReplica remove = LEASEHOLD__REMOVE_REPLICA__INIT;

    if (!lh_m_live(m, s))
        return;
    if (!lh_m_deleting(m) && version != 0) {
        lh_m_keep(m, s, chunk, version); /* KEEP-4 */
        return;
    }
    remove.session = lh_m_wire_session(m, s->session.client.session);
    remove.chunk = chunk;
    remove.version = version;
    remove.master_term = m->term;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_REMOVE;
    reply.remove = &remove;
    lh_m_send(m, s, &reply);
}

void lh_m_keep(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version)
{
    if (!lh_m_live(m, s))
        return;
    if (lh_m_deleting(m)) { /* a planted bug */
        lh_m_send_remove(m, s, chunk, version);
        return;
    }
    LH_MARK("removal-kept");
    lh_m_keep_order(m, s, chunk, version == 0 ? 1 : version);
}

void lh_m_keep_order(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version)
{
    struct lh_m_kept *k = lh_alloc(sizeof *k);

    k->chunk = chunk;
    k->version = version;
    TAILQ_INSERT_TAIL(&s->kept, k, link);
    m->garbage.kept_count++;
}
