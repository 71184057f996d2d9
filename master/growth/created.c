/* What chunkservers answer to CreateReplica. */
#include "master/growth/growth.h"

#include "master/inventory/inventory.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

/* There is no such chunk any more. The server took no notice of a removal that came before its
 * replica was there, so it is told again. */
static void created_in_vain(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCreated *report)
{

    const struct lh_m_tombstone *t = lh_m_tombstone_find(m, report->chunk);
    if (t == NULL || lh_m_chunk_leaves(m, report->chunk) ||
        report->error != LEASEHOLD__ERROR_CODE__OK)
        return; /* if it leaves: RemoveReplica goes when its removal is durable */
    LH_MARK("created-after-removal");
    lh_m_send_remove(m, s, report->chunk, t->version);
}

void lh_m_on_created(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCreated *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);

    if (lh_m_prealloc_created(m, s, report))
        return;
    if (c == NULL) {
        created_in_vain(m, s, report);
        return;
    }
    struct lh_m_member *member = lh_m_member(c, s);
    bool ok = report->error == LEASEHOLD__ERROR_CODE__OK;
    if (member == NULL) {
        /* Another server took its place. */
        if (ok && lh_m_is_durable(m, c->active->ticket))
            lh_m_send_remove(m, s, c->id, 0);
        else if (ok)
            lh_m_extra_note(m, c, s, LH_M_FIRST_VERSION, false, false);
        return;
    }
    if (!c->active->creation->under_way || member->created)
        return;
    if (ok) {
        member->created = true;
        lh_m_seen(m, c, s);
        member->lost = false; /* what it had of this chunk was thrown away */
        lh_m_touch(m, c->file);
    } else {
        struct lh_m_creation *creation = lh_m_creation(m, c);
        creation->unable = s;
        creation->unable_error = lh_error_from_wire((unsigned)report->error);
        lh_m_creation_replace(
            m, c, (uint32_t)(member - c->members), lh_error_text(creation->unable_error));
    }
}
