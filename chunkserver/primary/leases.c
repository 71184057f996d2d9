/* What is reported to the master of leases and of chunks that were led. */
#include "chunkserver/primary/leases.h"

#include "base/alloc.h"

#include <stdlib.h>

void lh_cs_grant_confirm(
    struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version, int error)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__GrantConfirm c = LEASEHOLD__GRANT_CONFIRM__INIT;

    c.session = lh_cs_session_id(primaries->cs);
    c.chunk = chunk;
    c.version = version;
    c.error = (Leasehold__ErrorCode)-error;
    if (error != LH_OK) {
        const struct lh_cs_replica *r = lh_cs_replica_find(primaries->logs, chunk);
        c.adopted = r == NULL ? 0 : r->adopting;
        primaries->cs->counts.grants_refused++;
    }
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM;
    m.confirm = &c;
    lh_cs_send(primaries->cs, &m);
}

void lh_cs_grant_refuse(
    struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version, int error)
{
    struct lh_cs_replica *r = lh_cs_replica_find(primaries->logs, chunk);
    struct lh_cs_primary *p = r == NULL ? NULL : lh_cs_primary_of(r);

    if (p != NULL && p->version <= version)
        lh_cs_primary_discard(p, error); /* the master hears of it with the refusal */
    lh_holder_release(primaries->cs->holder, chunk, version);
    lh_cs_grant_confirm(primaries, chunk, version, error);
}

void lh_cs_lease_report_release(
    struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version, bool ran_out)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Release release = LEASEHOLD__RELEASE__INIT;

    if (!lh_cs_session_live(primaries->cs)) {
        LH_MARK("release-without-session");
        return; /* the next registration does not show it (SES-5a) */
    }
    release.session = lh_cs_session_id(primaries->cs);
    release.chunk = chunk;
    release.version = version;
    release.ran_out = ran_out;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_RELEASE;
    m.release = &release;
    lh_cs_send(primaries->cs, &m);
}

void lh_cs_lease_release(
    struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version, bool ran_out)
{
    if (!ran_out)
        primaries->cs->counts.releases++;
    lh_holder_release(primaries->cs->holder, chunk, version);
    lh_cs_lease_report_release(primaries, chunk, version, ran_out);
}

/* ------------------------------------------------------------------------------------------------
 * Seals (SEAL-1). */

static struct lh_cs_unconfirmed_seal *find_seal(
    const struct lh_cs_primaries *primaries, uint64_t chunk)
{
    struct lh_cs_unconfirmed_seal *seal;

    HASH_FIND(hh, primaries->unreported.seals, &chunk, sizeof chunk, seal);
    return seal;
}

void lh_cs_seals_resend(struct lh_cs_primaries *primaries)
{
    struct lh_cs_unconfirmed_seal *seal, *next;

    HASH_ITER(hh, primaries->unreported.seals, seal, next) {
        const struct lh_cs_replica *r = lh_cs_replica_find(primaries->logs, seal->chunk);
        if (r != NULL && r->adopting > seal->version) {
            /* The version rose before the report arrived: the chunk goes on. */
            LH_MARK("seal-report-outdated");
            HASH_DELETE(hh, primaries->unreported.seals, seal);
            free(seal);
            continue;
        }
        Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
        Leasehold__SealReport report = LEASEHOLD__SEAL_REPORT__INIT;
        report.session = lh_cs_session_id(primaries->cs);
        report.chunk = seal->chunk;
        report.version = seal->version;
        report.length = seal->length;
        report.checksum = seal->checksum;
        m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL;
        m.seal = &report;
        lh_cs_send(primaries->cs, &m);
    }
}

static bool seal_is_reported(const struct lh_cs_primaries *primaries, uint64_t chunk)
{
    return find_seal(primaries, chunk) != NULL;
}

void lh_cs_seal_forget(struct lh_cs_primaries *primaries, uint64_t chunk)
{
    struct lh_cs_unconfirmed_seal *seal = find_seal(primaries, chunk);

    if (seal != NULL) {
        HASH_DELETE(hh, primaries->unreported.seals, seal);
        free(seal);
    }
}

void lh_cs_seal_report(struct lh_cs_primaries *primaries, struct lh_cs_replica *r, uint64_t version)
{
    lh_cs_seal_forget(primaries, r->chunk);
    struct lh_cs_unconfirmed_seal *seal = lh_alloc(sizeof *seal);
    seal->chunk = r->chunk;
    seal->version = version;
    seal->length = r->end;
    seal->checksum = r->checksum;
    HASH_ADD(hh, primaries->unreported.seals, chunk, sizeof seal->chunk, seal);
    if (LH_PLANTED("seal-recorded-before-durable")) {
        lh_cs_replica_submit(r, (struct lh_cs_job){.kind = LH_CS_JOB_SEAL,
                                    .version = version,
                                    .length = r->end,
                                    .checksum = r->checksum});
        lh_cs_replica_pump(r);
    }
    lh_holder_release(primaries->cs->holder, r->chunk, version);
    if (lh_cs_session_live(primaries->cs))
        lh_cs_seals_resend(primaries);
}

void lh_cs_lease_recall(struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version)
{
    struct lh_cs_replica *r = lh_cs_replica_find(primaries->logs, chunk);
    struct lh_cs_primary *p = r == NULL ? NULL : lh_cs_primary_of(r);

    if (p != NULL) {
        if (p->version >= version)
            lh_cs_primary_recall(p);
        return;
    }
    LH_MARK("recall-of-what-is-not-held");
    lh_cs_seals_resend(primaries);
    if (!seal_is_reported(primaries, chunk))
        lh_cs_lease_release(primaries, chunk, version, false);
}

/* ------------------------------------------------------------------------------------------------
 * Possible losses (REC-2a). */

void lh_cs_losses_resend(struct lh_cs_primaries *primaries)
{
    struct lh_cs_unreported_loss *l;

    if (!lh_cs_session_live(primaries->cs))
        return;
    LL_FOREACH(primaries->unreported.losses, l) {
        Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
        Leasehold__PossibleLoss loss = LEASEHOLD__POSSIBLE_LOSS__INIT;
        if (l->session == lh_cs_session_id(primaries->cs))
            continue;
        l->session = loss.session = lh_cs_session_id(primaries->cs);
        l->heartbeat = primaries->cs->master.stamp_sent;
        loss.chunk = l->chunk;
        loss.version = l->version;
        loss.length = l->length;
        m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_POSSIBLE_LOSS;
        m.possible_loss = &loss;
        lh_cs_send(primaries->cs, &m);
    }
}

void lh_cs_losses_reported(struct lh_cs_primaries *primaries, uint64_t stamp)
{
    struct lh_cs_unreported_loss *l, *next;

    LL_FOREACH_SAFE(primaries->unreported.losses, l, next) {
        if (l->session != lh_cs_session_id(primaries->cs) || stamp <= l->heartbeat)
            continue;
        LL_DELETE(primaries->unreported.losses, l);
        free(l);
    }
}

void lh_cs_loss_report(
    struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version, uint64_t length)
{
    struct lh_cs_unreported_loss *l = lh_alloc(sizeof *l);

    *l = (struct lh_cs_unreported_loss){.chunk = chunk, .version = version, .length = length};
    LL_APPEND(primaries->unreported.losses, l);
    lh_cs_losses_resend(primaries);
}

void lh_cs_leases_deinit(struct lh_cs_primaries *primaries)
{
    struct lh_cs_unconfirmed_seal *seal, *next_seal;
    struct lh_cs_unreported_loss *loss, *next_loss;

    HASH_ITER(hh, primaries->unreported.seals, seal, next_seal) {
        HASH_DELETE(hh, primaries->unreported.seals, seal);
        free(seal);
    }
    LL_FOREACH_SAFE(primaries->unreported.losses, loss, next_loss) {
        free(loss);
    }
}
