/* Seals that a primary reports, and who has recorded one (SEAL-1, REC-3). */
#include "master/seal/seal.h"

#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/inventory/inventory.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

void lh_m_seal_load(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_set_sealed(m, c);
    c->seal_reported = true; /* who missed it reports its replica unsealed */
}

void lh_m_seal_durable(struct lh_master *m, struct lh_m_chunk *c)
{
    if (!c->sealed || c->seal_reported)
        return;
    c->seal_reported = true;
    lh_m_record_seal(m, c, NULL);
}

void lh_m_on_seal(struct lh_master *m, struct lh_m_server *s, const Leasehold__SealReport *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);

    if (c != NULL && c->intent_to_seal && lh_m_holder(c) == s &&
        c->active->grant->lease.process == s->incarnation &&
        report->version == c->active->grant->lease.version) {
        LH_MARK(
            "seal-report-after-intent"); /* what is sealed is decided by fences; but it stopped */
        lh_m_lease_over(m, c, "was given up with a seal that came too late");
        return;
    }
    if (c == NULL || lh_m_member(c, s) == NULL ||
        (report->version != c->version && !LH_PLANTED("seal-of-an-older-version")) ||
        c->version == 0 || (lh_m_holder(c) != NULL && lh_m_holder(c) != s))
        return; /* only the newest version's primary can know where the chunk ends */
    if (c->sealed) {
        LH_MARK("seal-report-again");
        if (c->seal_reported && lh_m_is_durable(m, c->active->ticket))
            lh_m_record_seal(m, c, NULL);
        return;
    }
    if (c->intent_to_seal)
        return;
    if (report->length > c->file->chunk_size) {
        lh_fx_log(m->fx, LH_WARN,
            "chunk %" PRIu64 ": %s reports a seal at %" PRIu64
            " bytes, above the chunk size of %" PRIu64 "; ignored",
            c->id, s->id, report->length, c->file->chunk_size);
        return;
    }
    /* Valid also when the lease has run out meanwhile: the version is the newest, so nobody has
     * ordered anything since this primary stopped. */
    if (lh_m_holder(c) != NULL) {
        LH_MARK("seal-gives-lease-up");
        lh_m_lease_over(m, c, "was given up with the seal");
    }
    c->length = report->length;
    c->checksum = report->checksum;
    lh_m_set_sealed(m, c);
    lh_m_dirty_chunk(m, c);
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": sealed by %s at version %" PRIu64 ", %" PRIu64 " bytes",
        c->id, c->file->path, s->id, c->version, c->length);
    lh_m_prealloc_take(m, c->file);
}

void lh_m_on_seal_recorded(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__SealRecorded *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);
    struct lh_m_member *member = c == NULL ? NULL : lh_m_member(c, s);

    if (member == NULL || !c->sealed)
        return;
    if (lh_m_copy_find(c, s) != NULL) {
        LH_MARK("seal-recorded-before-a-copy"); /* which begins again: its end counts */
        return;
    }
    if (member->lost) { /* it is damaged all the same */
        member->sealed = report->error == LEASEHOLD__ERROR_CODE__OK;
        return;
    }
    if (report->error == LEASEHOLD__ERROR_CODE__OK && report->version == c->version) {
        member->sealed = true;
        member->stale = member->kept = false;
        member->seen = lh_m_session_of(s);
    } else if (report->kept && report->version == c->version) {
        LH_MARK("seal-kept-in-memory");
        member->kept = true;
        member->stale = false;
        member->seen = lh_m_session_of(s);
    } else {
        LH_MARK("seal-not-recorded");
        member->stale = true;
        lh_fx_log(m->fx, LH_WARN,
            "chunk %" PRIu64 " of \"%s\": %s lacks what the seal covers, and is refreshed", c->id,
            c->file->path, s->id);
    }
    lh_m_enqueue(m, c);
}
