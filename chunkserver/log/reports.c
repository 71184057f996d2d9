/* What is reported to the master of replicas that come and go. */

#include "chunkserver/log/internal.h"

void lh_cs_report_created(struct lh_cs_host *cs, uint64_t chunk, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaCreated created = LEASEHOLD__REPLICA_CREATED__INIT;

    created.session = lh_cs_session_id(cs);
    created.chunk = chunk;
    created.error = (Leasehold__ErrorCode)-error;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_CREATED;
    m.created = &created;
    lh_cs_send(cs, &m);
}

void lh_cs_report_creation(struct lh_cs_replica *r, int error)
{
    if (lh_cs_session_live(r->logs->cs))
        lh_cs_report_created(r->logs->cs, r->chunk, error);
    else
        r->unreported_creation = error == LH_OK;
}

void lh_cs_report_lost(struct lh_cs_replica *r, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaLost lost = LEASEHOLD__REPLICA_LOST__INIT;

    if (!lh_cs_session_live(r->logs->cs)) {
        /* The next registration reports it, unless that is on its way already. */
        r->unreported_loss = error;
        return;
    }
    r->unreported_loss = LH_OK;
    lost.session = lh_cs_session_id(r->logs->cs);
    lost.chunk = r->chunk;
    lost.version = r->header.version;
    lost.error = (Leasehold__ErrorCode)-error;
    lost.kept = lh_cs_replica_is_kept(r);
    lost.offset = r->written;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_LOST;
    m.lost = &lost;
    lh_cs_send(r->logs->cs, &m);
}

void lh_cs_report_registered(struct lh_cs_replica *r)
{
    r->unreported_loss = LH_OK;
    r->unreported_creation = false;
}

void lh_cs_report_unreported(struct lh_cs_logs *logs)
{
    struct lh_cs_replica *r;

    LH_IDMAP_FOREACH(r, &logs->replicas) {
        if (r->unreported_creation && r->state == LH_CS_REPLICA_READY) {
            LH_MARK("replica-created-while-registering");
            lh_cs_report_created(r->logs->cs, r->chunk, LH_OK);
        }
        r->unreported_creation = false;
        if (r->unreported_loss == LH_OK)
            continue;
        LH_MARK("replica-lost-while-registering");
        lh_cs_report_lost(r, r->unreported_loss);
    }
}
