/* INV-4: an acknowledged batch stays stored, exactly once, at its acknowledged position, on every
 * full, verified member, from then on, and is what every reader of that position gets.
 *
 * That it is there when somebody is told so, and stays, is committed.c; here is who is told what.
 * And what must not be, because it would lose such a batch later: a version confirmed before what
 * lies below it is durable (FENCE-1), a seal recorded before it is one (SEAL-1), a word from a
 * replica whose sync has failed (FAIL-5). */
#include "sim/observers/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- FAIL-5 ---- */

void lh_ob_inv4_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    const struct lh_input *in = s->input;

    if (a->part == PART_SERVER && in->kind == LH_IN_DISK &&
        (in->op != LH_DISK_READ || in->error == LH_ERR_UNSYNCED) && in->error != LH_OK &&
        in->error != LH_ERR_SHORTAGE && in->file != LH_PROBE_FILE &&
        (in->file & LH_NEW_FILE) == 0) {
        struct replica *r = lh_ob_replica(lh_ob_chunk(o, in->file), a->number);
        r->refused = true;
        r->sync_failed = r->sync_failed || in->op == LH_DISK_SYNC;
    }
    if (a->part != PART_SERVER || s->method != LH_METHOD_SESSION || s->message == NULL)
        return;
    const Leasehold__SessionReply *m = (const Leasehold__SessionReply *)s->message;
    if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL)
        lh_ob_replica(lh_ob_chunk(o, m->record_seal->chunk), a->number)->seal_notified =
            m->record_seal->version;
    else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_COPY)
        lh_ob_replica(lh_ob_chunk(o, m->copy->chunk), a->number)->copy_ordered_at =
            lh_sim_now(o->sim);
}

static bool is_cut(const struct actor *a, const struct replica *r)
{
    return r->truncated && r->truncated_at >= a->started_at;
}

/* What a server cut at its start may be a remnant of what others have. What it cut off later was
 * never whole there or is not in the log that won. A cut that was refused comes when the disk takes
 * it: the frozen replica is shown and read before (REC-6), up to where it is to be cut. */
static bool is_cut_at_start(const struct actor *a, const struct replica *r)
{
    return is_cut(a, r) && r->logged_at < a->started_at && !r->refused;
}

static void check_said(
    struct lh_sim_observers *o, const struct actor *a, uint64_t chunk, const char *what, bool cut)
{
    struct chunk *c = lh_ob_chunk(o, chunk);
    const struct replica *r = lh_ob_replica(c, a->number);

    if (r->header_damaged && !lh_ob_kernel(o, c, a->number)->lost)
        return; /* rot took the mark, and nobody can know any more */
    if (r->sync_failed || r->lost)
        lh_sim_fail(o->sim, "INV-4", chunk, "%s %s of chunk %" PRIu64 ", and %s (FAIL-4, FAIL-5)",
            a->name, what, chunk,
            r->sync_failed ? "a sync of its replica has failed" : "its replica is lost");
    else if (cut)
        lh_sim_fail(o->sim, "INV-4", chunk,
            "%s %s of chunk %" PRIu64 ", whose log it has cut and not synced since (FAIL-3)",
            a->name, what, chunk);
}

static void check_speaker(
    struct lh_sim_observers *o, const struct actor *a, uint64_t chunk, const char *what)
{
    check_said(o, a, chunk, what, is_cut(a, lh_ob_replica(lh_ob_chunk(o, chunk), a->number)));
}

/* A registration's length vouches for nothing; whatever does is told after a sync. */
static void check_registered(struct lh_sim_observers *o, const struct actor *a, struct chunk *c,
    const Leasehold__ReplicaReport *report)
{
    const struct replica *r = lh_ob_replica(c, a->number);

    if (report->copying)
        return; /* it is nobody's full member (REC-4) */
    if (r->sync_failed && (report->unverified || lh_ob_on_platter(o, c, a->number)))
        return; /* it denies nothing (FAIL-5) */
    check_said(o, a, c->id, "registers with its replica", is_cut_at_start(a, r));
}

/* REC-4: a replica that is being copied answers nobody. */
static void check_complete(
    struct lh_sim_observers *o, const struct actor *a, uint64_t chunk, const char *what)
{
    struct chunk *c = lh_ob_chunk(o, chunk);

    /* Of a header that has rotted the older one is left, which its server does not act by. */
    if (lh_ob_kernel(o, c, a->number)->copying && !lh_ob_replica(c, a->number)->header_damaged)
        lh_sim_fail(o->sim, "INV-4", chunk,
            "%s %s of chunk %" PRIu64 ", and its replica is incomplete (REC-4)", a->name, what,
            chunk);
}

/* ---- Answers to clients ---- */

static void stored(struct lh_sim_observers *o, const struct actor *a, struct chunk *c,
    const Leasehold__Stored *s, uint64_t writer, const char *what)
{
    if (!lh_ob_commit_batch(o, c, s->offset, "INV-4", a->name, what))
        return;
    const struct lh_sim_batch *b = lh_ob_committed_at(c, s->offset);
    if (c->hopeless)
        o->nobody_left = true;
    if (c->hopeless || (b == NULL && c->committed <= s->offset))
        return; /* no good member is left, or the chunk is gone */
    if (b == NULL || b->writer != writer || b->sequence != s->sequence || b->count != s->count) {
        lh_sim_fail(o->sim, "INV-4", c->id,
            "%s says that records %" PRIu64 "+%u of writer %" PRIx64 " are stored at %" PRIu64
            " of chunk %" PRIu64 ", and "
            "there "
            "is something else",
            a->name, s->sequence, s->count, writer, s->offset, c->id);
        return;
    }
    if (c->acknowledged < s->offset + b->size)
        c->acknowledged = s->offset + b->size;
    c->acknowledged_at = lh_sim_now(o->sim);
    lh_ob_inv9_stored(o, c, a->number, b);
}

static void append_answer(struct lh_sim_observers *o, const struct actor *a, const struct note *n,
    const Leasehold__AppendAnswer *m)
{
    const struct laned *l = lh_ob_lane(n, m->lane);

    if (l == NULL || l->chunk != m->chunk) {
        lh_sim_fail(o->sim, "INV-4", m->chunk,
            "%s answers for chunk %" PRIu64 " to a lane of %" PRIu64, a->name, m->chunk,
            l == NULL ? 0 : l->chunk);
        return;
    }
    struct chunk *c = lh_ob_chunk(o, l->chunk);
    if (m->n_stored > 0) {
        check_speaker(o, a, l->chunk, "acknowledges appends");
        check_complete(o, a, l->chunk, "acknowledges appends");
    }
    for (size_t i = 0; i < m->n_stored && !failed(o); i++)
        stored(o, a, c, m->stored[i], m->stored[i]->writer, "acknowledged a batch in");
}

/* APP-5a: an answer about a sealed chunk never changes, so it must be the seal's. */
static void settle_reply(struct lh_sim_observers *o, const struct actor *a, const struct note *n,
    const Leasehold__SettleReply *m)
{
    struct chunk *c = lh_ob_chunk(o, n->chunk);
    const struct lh_sim_batch *first = NULL, *last = NULL;

    if (m->error != LEASEHOLD__ERROR_CODE__OK || c->removed)
        return;
    /* REC-7: what adds up to the seal is what was sealed, whatever the disk has of it. */
    const struct replica *r = lh_ob_replica(c, a->number);
    if (!r->sync_failed || r->lost || r->seal_notified != n->version)
        check_speaker(o, a, n->chunk, "settles appends");
    check_complete(o, a, n->chunk, "settles appends");
    /* What is rotten in its header it has still in memory. */
    bool notified = lh_ob_kernel(o, c, a->number)->sealed ||
                    lh_ob_replica(c, a->number)->header_damaged ||
                    lh_ob_replica(c, a->number)->seal_notified == n->version;
    if (!c->known || !c->sealed || c->version != n->version || !notified) {
        lh_sim_fail(o->sim, "INV-4", c->id,
            "%s settles chunk %" PRIu64 " at version %" PRIu64
            ", at which it is not sealed%s (APP-5a)",
            a->name, c->id, n->version, c->sealed ? " there" : "");
        return;
    }
    if (c->committed < c->length || c->hopeless) {
        o->nobody_left = true;
        return; /* no good member is left */
    }
    for (size_t i = 0; i < c->log_count; i++) {
        if (c->log[i].writer != n->writer)
            continue;
        if (first == NULL)
            first = &c->log[i];
        last = &c->log[i];
    }
    if (m->known != (first != NULL) ||
        (first != NULL && (m->first_sequence != first->sequence ||
                              m->last_sequence != last->sequence + last->count - 1))) {
        lh_sim_fail(o->sim, "INV-4", c->id,
            "%s says that sealed chunk %" PRIu64 " has records %" PRIu64 " to %" PRIu64
            " of writer %" PRIx64 ", and it has "
            "%" PRIu64 " "
            "to %" PRIu64 " (APP-5a)",
            a->name, c->id, m->first_sequence, m->last_sequence, n->writer,
            first == NULL ? 0 : first->sequence,
            last == NULL ? 0 : last->sequence + last->count - 1);
        return;
    }
    for (size_t i = 0; i < m->n_last && !failed(o); i++)
        stored(o, a, c, m->last[i], n->writer, "settled a batch in");
}

/* ---- Readers ---- */

static void read_reply(struct lh_sim_observers *o, const struct actor *a, const struct note *n,
    const Leasehold__ReadReply *m, const struct lh_buf *payload)
{
    struct chunk *c = lh_ob_chunk(o, n->chunk);
    struct lh_sim_batch b;

    if (m->error != LEASEHOLD__ERROR_CODE__OK || c->removed || !c->known || c->hopeless)
        return;
    /* One that was asked for before a write failed, and its remains were cut off, is about what is
     * committed: that was on the disk before. */
    const struct replica *r = lh_ob_replica(c, a->number);
    if (n->recovery || (!r->lost && !r->sync_failed)) /* what is whole is read all the same */
        check_said(o, a, n->chunk, "answers a read", is_cut_at_start(a, r));
    check_complete(o, a, n->chunk, "answers a read");
    if (n->recovery || !lh_ob_commit(o, c, m->committed, "INV-4", a->name, "called committed"))
        return;
    if (m->sealed && (!c->sealed || m->committed != c->length))
        lh_sim_fail(o->sim, "INV-4", c->id,
            "%s tells a reader that chunk %" PRIu64 " is sealed at %" PRIu64 ", which it is not",
            a->name, c->id, m->committed);
    /* APP-6: everything that was acknowledged before the read was asked. Once the master intends to
     * seal the chunk without its primary, others acknowledge too (by settling); a reader that wants
     * the end asks the master about that. */
    if (!c->intent && (m->primary || n->require_primary) && m->committed < n->acknowledged_at &&
        n->acknowledged_at <= c->acknowledged)
        lh_ob_fail_unless_excused(o, "INV-6", c->id, &o->seen_inv1,
            "%s answers a read of chunk %" PRIu64 " as its primary up to %" PRIu64 ", and %" PRIu64
            " were acknowledged "
            "before (APP-6)",
            a->name, c->id, m->committed, n->acknowledged_at);
    uint64_t at = 0, before = m->checksum;
    for (; !failed(o) && lh_sim_batch_in(payload, at, &b); at += b.size, before = b.chain) {
        uint64_t offset = n->offset + at;
        if (offset >= c->committed)
            break;
        /* A damaged log is given as it lies there (REC-9). Nobody takes what does not fit. */
        if (r->damaged && b.chain != lh_sim_checksum_after(before, &b))
            return;
        const struct lh_sim_batch *want = lh_ob_committed_at(c, offset);
        if (want == NULL || want->crc != b.crc || want->size != b.size ||
            want->writer != b.writer || want->sequence != b.sequence)
            lh_sim_fail(o->sim, "INV-4", c->id,
                "%s gives a reader something else than what is committed at %" PRIu64
                " of chunk %" PRIu64,
                a->name, offset, c->id);
    }
    if (at < payload->size && c->committed >= m->committed && !failed(o))
        lh_sim_fail(o->sim, "INV-4", c->id,
            "%s gives a reader bytes of chunk %" PRIu64 " behind %" PRIu64
            ", where what is committed ends",
            a->name, c->id, n->offset + at);
}

/* ---- FENCE-1, REC-2 ---- */

/* Is all of the log on the platter, and nothing else, as the kernel shows it? */
static void check_durable(
    struct lh_sim_observers *o, const struct actor *a, uint64_t chunk, uint64_t length)
{
    struct chunk *c = lh_ob_chunk(o, chunk);
    const struct replica *r = lh_ob_replica(c, a->number);
    uint64_t size = 0, platter_size = 0;

    if (r->damaged || r->sync_failed)
        return;
    const uint8_t *log = lh_ob_log(o, c, a->number, false, &size);
    const uint8_t *platter = lh_ob_log(o, c, a->number, true, &platter_size);
    if (log == NULL || platter == NULL || size != platter_size ||
        (length != UINT64_MAX && size != length) || memcmp(log, platter, size) != 0)
        lh_sim_fail(o->sim, "INV-4", chunk,
            "%s confirmed a version of chunk %" PRIu64 " with a log of %" PRIu64
            " bytes: its files have %" PRIu64 ", "
            "%" PRIu64 " of them durable, and they must be the same (FENCE-1)",
            a->name, chunk, length == UINT64_MAX ? size : length, size, platter_size);
}

/* REC-2: equality is length and running checksum, durable; and under this boot (REC-2a). */
static void check_equal(
    struct lh_sim_observers *o, const struct actor *a, uint64_t chunk, struct confirm want)
{
    struct chunk *c = lh_ob_chunk(o, chunk);
    const struct replica *r = lh_ob_replica(c, a->number);
    uint64_t size = 0, checksum;

    if (r->damaged && r->damaged_at >= a->started_at)
        return; /* it has not read its log since */
    for (int platter = 0; platter < (r->damaged ? 1 : 2); platter++) {
        const uint8_t *log = lh_ob_log(o, c, a->number, platter != 0, &size);
        if (log != NULL &&
            lh_sim_log_scan(c->id, log, size, want.length, &checksum) == want.length &&
            checksum == want.checksum)
            continue;
        lh_sim_fail(o->sim, "INV-5", c->id,
            "%s confirmed that its log of chunk %" PRIu64 " is equal up to %" PRIu64
            ", and it is not%s (REC-2)",
            a->name, c->id, want.length, platter != 0 ? " on its disk" : "");
        return;
    }
    if (r->damaged)
        return;
    check_complete(o, a, c->id, "confirms equality");
    const struct lh_sim_header *h = lh_ob_platter(o, c, a->number);
    uint64_t memory = lh_sim_memory(a->node), vouched;
    memcpy(&vouched, h->equal_boot, sizeof vouched);
    if (!h->synced && vouched != memory)
        lh_sim_fail(o->sim, "INV-4", c->id,
            "%s confirmed equality of chunk %" PRIu64
            ", and its header does not say so durably (REC-2a)",
            a->name, c->id);
}

static void replicate_answer(struct lh_sim_observers *o, const struct actor *a,
    const struct note *n, const Leasehold__ReplicateAnswer *m)
{
    struct fed *f = lh_ob_fed(n, m);

    if (f == NULL || m->error != LEASEHOLD__ERROR_CODE__OK)
        return;
    check_speaker(o, a, f->chunk, "answers the primary");
    if (m->kind == LEASEHOLD__REPLICATE_KIND__ADOPT) {
        check_durable(o, a, f->chunk, m->length);
        if (m->equal && !failed(o))
            check_equal(o, a, f->chunk, (struct confirm){m->length, m->checksum});
    } else if (m->kind == LEASEHOLD__REPLICATE_KIND__CONFIRM &&
               f->confirm_first < f->confirm_count) {
        check_equal(o, a, f->chunk, f->confirms[f->confirm_first++]);
    }
}

/* FAIL-3: before a server speaks to anybody, what a torn write left behind its logs is cut off. */
static void check_reports(
    struct lh_sim_observers *o, const struct actor *a, const Leasehold__Register *m)
{
    for (size_t i = 0; i < m->n_replicas && !failed(o); i++) {
        const Leasehold__ReplicaReport *report = m->replicas[i];
        struct chunk *c = lh_ob_chunk(o, report->chunk);
        struct replica *r = lh_ob_replica(c, a->number);
        uint64_t size, checksum;
        if (report->lost)
            r->lost = true;
        else if (m->registration == 1)
            check_registered(o, a, c, report);
        const uint8_t *log = lh_ob_log(o, c, a->number, false, &size);
        /* What this process has written itself may have been cut short since; it tries again. */
        if (m->registration > 1 || report->lost || report->sealed || log == NULL || r->damaged ||
            r->logged_at >= a->started_at)
            continue;
        /* Nothing is cut while the disk refuses it (REC-6), nor of a file that is never written
         * to again (FAIL-5). */
        uint64_t sound = lh_sim_log_scan(c->id, log, size, size, &checksum);
        if (sound != size && !r->in_doubt && !r->refused)
            lh_sim_fail(o->sim, "INV-5", c->id,
                "%s registers with %" PRIu64 " bytes behind the last whole batch of chunk %" PRIu64
                ", at %" PRIu64 " "
                "(FAIL-3)",
                a->name, size - sound, c->id, sound);
    }
}

/* A grant's first confirmation: nothing is appended before it. It may be a late one, when the lease
 * went on with a new session and the version was told in the registration. */
static void confirms(
    struct lh_sim_observers *o, const struct actor *a, const Leasehold__GrantConfirm *m)
{
    const struct replica *r = lh_ob_replica(lh_ob_chunk(o, m->chunk), a->number);

    check_speaker(o, a, m->chunk, "confirms a grant");
    check_complete(o, a, m->chunk, "confirms a grant");
    if (m->version > r->floor && m->version > r->notified)
        check_durable(o, a, m->chunk, UINT64_MAX);
}

/* A lease comes with the first piece, its replica maybe with a later one, or never (SES-1a). */
static void registers(
    struct lh_sim_observers *o, const struct actor *a, const Leasehold__Register *m)
{
    for (size_t i = 0; i < m->n_replicas; i++)
        lh_ob_replica(lh_ob_chunk(o, m->replicas[i]->chunk), a->number)->notified =
            m->replicas[i]->version;
    for (size_t i = 0; i < m->n_held; i++)
        lh_ob_replica(lh_ob_chunk(o, m->held[i]->chunk), a->number)->notified = m->held[i]->version;
}

/* FENCE-1, of a log that is damaged. */
static void check_version_durable(
    struct lh_sim_observers *o, const struct actor *a, struct chunk *c, uint64_t version)
{
    const struct lh_sim_header *h = lh_ob_platter(o, c, a->number);

    if (!lh_ob_replica(c, a->number)->header_damaged && (!h->valid || h->version < version))
        lh_sim_fail(o->sim, "INV-4", c->id,
            "%s answers a fence of chunk %" PRIu64 " at version %" PRIu64
            ", which its header does not have durably (FENCE-1)",
            a->name, c->id, version);
}

/* FAIL-2a: as an ADOPT's answer. */
static void fences(struct lh_sim_observers *o, const struct actor *a, const Leasehold__Fenced *m)
{
    struct chunk *c = lh_ob_chunk(o, m->chunk);

    if (m->error != LEASEHOLD__ERROR_CODE__OK)
        return;
    if (m->damaged) { /* REC-9: its server knows, and takes no part in anything any more */
        check_complete(o, a, m->chunk, "answers a fence");
        check_version_durable(o, a, c, m->version);
        return;
    }
    /* A primary says what it has committed; the log that it has ordered may be longer. If its disk
     * takes no changes its word counts all the same (REC-7). */
    if (!m->primary || !lh_ob_replica(c, a->number)->refused) {
        check_speaker(o, a, m->chunk, "answers a fence");
        check_complete(o, a, m->chunk, "answers a fence");
        check_durable(o, a, m->chunk, m->primary ? UINT64_MAX : m->length);
    }
    lh_ob_replica(c, a->number)->fenced = (struct fenced){.version = m->version,
        .length = m->length,
        .checksum = m->checksum,
        .committed = m->committed,
        .unverified = m->unverified,
        .primary = m->primary};
    if (!failed(o))
        (void)lh_ob_commit(o, c, m->committed, "INV-5", a->name, "called committed");
}

/* REC-4: all of a sealed chunk is here, and durable. */
static void copied(
    struct lh_sim_observers *o, const struct actor *a, const Leasehold__ReplicaCopied *m)
{
    struct chunk *c = lh_ob_chunk(o, m->chunk);
    struct replica *r = lh_ob_replica(c, a->number);
    uint64_t size = 0, checksum = 0;

    if (m->error != LEASEHOLD__ERROR_CODE__OK || !m->sealed || !c->known || c->removed ||
        !c->sealed)
        return;
    /* Rot that came after its process had looked; also if it is only said again that it is here. */
    if (r->damaged && (r->damaged_at >= a->started_at || m->copied_bytes == 0))
        return;
    if (r->astray)
        return;
    r->damaged = r->header_damaged = r->lost = r->missing = false;
    check_speaker(o, a, m->chunk, "has copied its replica");
    check_complete(o, a, m->chunk, "has copied its replica");
    for (int platter = 0; platter < 2 && !failed(o); platter++) {
        const uint8_t *log = lh_ob_log(o, c, a->number, platter != 0, &size);
        if (log == NULL || size != c->length ||
            lh_sim_log_scan(c->id, log, size, c->length, &checksum) != c->length ||
            checksum != c->checksum)
            lh_sim_fail(o->sim, "INV-4", c->id,
                "%s says that it has copied sealed chunk %" PRIu64
                ", and what it has%s is not what was "
                "sealed (REC-4)",
                a->name, c->id, platter != 0 ? " on its disk" : "");
    }
}

static void session_request(
    struct lh_sim_observers *o, const struct actor *a, const Leasehold__SessionRequest *m)
{
    switch (m->body_case) {
    case LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM:
        if (m->confirm->error == LEASEHOLD__ERROR_CODE__OK)
            confirms(o, a, m->confirm);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_FENCED:
        fences(o, a, m->fenced);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_COPIED:
        o->copies += m->copied->error == LEASEHOLD__ERROR_CODE__OK;
        copied(o, a, m->copied);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_POSSIBLE_LOSS:
        lh_ob_commit_lost(o, lh_ob_chunk(o, m->possible_loss->chunk), m->possible_loss->length);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_REGISTER:
        check_reports(o, a, m->register_);
        registers(o, a, m->register_);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_LOST:
        lh_ob_replica(lh_ob_chunk(o, m->lost->chunk), a->number)->lost = true;
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_RECOVERED:
        /* REC-2: from now on the whole length counts as committed. */
        lh_ob_chunk(o, m->recovered->chunk)->recovered = m->recovered->version;
        (void)lh_ob_commit(o, lh_ob_chunk(o, m->recovered->chunk), m->recovered->length, "INV-5",
            a->name, "recovered");
        break;
    default:
        break;
    }
}

/* PossibleLoss does not get to the master when the way to it is just broken; the server's own log
 * is there in any case. */
static void logs(struct lh_sim_observers *o, const struct lh_effect *e)
{
    uint64_t chunk;

    if (e->level == LH_ERROR && sscanf(e->text, "chunk %" SCNu64 ":", &chunk) == 1)
        lh_ob_commit_reported(o, lh_ob_chunk(o, chunk));
}

/* Called before inv3.c, which raises the floors. */
void lh_ob_inv4_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part == PART_SERVER && s->effect->kind == LH_FX_LOG)
        logs(o, s->effect);
    if (a->part != PART_SERVER || s->message == NULL || s->effect->kind != LH_FX_SEND)
        return;
    if (s->method == LH_METHOD_SESSION) {
        session_request(o, a, (const Leasehold__SessionRequest *)s->message);
        return;
    }
    if (s->direction == LH_REQUEST) {
        if (s->method == LH_METHOD_REPLICATE) {
            const Leasehold__ReplicateRequest *m = (const Leasehold__ReplicateRequest *)s->message;
            for (size_t i = 0; i < m->n_parts; i++)
                (void)lh_ob_commit(o, lh_ob_chunk(o, m->parts[i]->chunk), m->parts[i]->committed,
                    "INV-5", a->name, "called committed");
        }
        return;
    }
    struct note *n = lh_ob_note(o, s->link);
    if (n == NULL)
        return;
    if (s->method == LH_METHOD_REPLICATE) {
        const Leasehold__ReplicateReply *m = (const Leasehold__ReplicateReply *)s->message;
        for (size_t i = 0; i < m->n_answers; i++)
            replicate_answer(o, a, n, m->answers[i]);
    }
    if (s->method == LH_METHOD_APPEND) {
        const Leasehold__AppendReply *m = (const Leasehold__AppendReply *)s->message;
        for (size_t i = 0; i < m->n_answers; i++)
            append_answer(o, a, n, m->answers[i]);
    }
    if (n->chunk == 0)
        return;
    if (s->method == LH_METHOD_SETTLE)
        settle_reply(o, a, n, (const Leasehold__SettleReply *)s->message);
    else if (s->method == LH_METHOD_READ)
        read_reply(o, a, n, (const Leasehold__ReadReply *)s->message, s->payload);
}

/* ---- Seals and removals ---- */

void lh_ob_inv4_sealed(struct lh_sim_observers *o, struct chunk *c)
{
    if (c->hopeless) {
        struct file *f = lh_ob_file_find(o, c->file);
        /* What was acknowledged behind it does not order what comes now. */
        if (f != NULL && c->length < c->committed)
            f->loss_reported = true;
        return;
    }
    if (c->length < c->committed) {
        lh_sim_fail(o->sim, "INV-4", c->id,
            "chunk %" PRIu64 " was sealed at %" PRIu64 " bytes, and %" PRIu64 " are committed",
            c->id, c->length, c->committed);
        return;
    }
    if (!lh_ob_commit(o, c, c->length, "INV-4", o->master->name, "sealed"))
        return;
    if (c->committed == c->length && lh_ob_checksum(c) != c->checksum)
        lh_sim_fail(o->sim, "INV-4", c->id,
            "chunk %" PRIu64 " was sealed with another checksum than its bytes have", c->id);
}

void lh_ob_inv4_seal_recorded(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct lh_sim_header *h = lh_ob_kernel(o, c, server);

    if (c->removed || (c->known && c->sealed && c->length == h->sealed_length))
        return;
    lh_sim_fail(o->sim, "INV-4", c->id,
        "%s records that chunk %" PRIu64 " is sealed at %" PRIu64
        ", and the master has no such seal (SEAL-1)",
        o->servers[server]->name, c->id, h->sealed_length);
}

/* A header that vouches for bytes never gets to the disk before them (REC-2, SEAL-1). */
void lh_ob_inv4_header_written(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct replica *r = lh_ob_replica(c, server);
    const struct lh_sim_header *h = lh_ob_kernel(o, c, server);
    uint64_t length = h->sealed ? h->sealed_length : h->equal_length, size = 0, platter_size = 0;

    if (!h->valid || h->lost || h->copying || length == 0 || r->damaged || r->lost)
        return;
    const uint8_t *log = lh_ob_log(o, c, server, false, &size);
    const uint8_t *platter = lh_ob_log(o, c, server, true, &platter_size);
    if (log == NULL || platter == NULL || size < length || platter_size < length ||
        memcmp(log, platter, length) != 0)
        lh_sim_fail(o->sim, "INV-4", c->id,
            "%s writes a header that vouches for %" PRIu64 " bytes of chunk %" PRIu64
            ", and its disk does not "
            "hold "
            "them yet (REC-2, SEAL-1)",
            o->servers[server]->name, length, c->id);
}
