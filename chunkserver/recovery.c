/* The primary's recovery at a new version (REC-2). Every member adopts the version and reports its
 * log; the longest log of a full member is fetched, unless it is here; every member is brought to
 * it and confirms that it is equal; then appends are taken (primary.c).
 *
 * What vouches for all that was acknowledged is decided here too (REC-2a, FAIL-3): a member that
 * is away is waited for until others do, and a possible loss is told if nobody does. */
#include "chunkserver/internal.h"

/* ------------------------------------------------------------------------------------------------
 * Who vouches for what was acknowledged (REC-2a, FAIL-3). */

/* The largest committed length that anybody who has reported knows, this replica included. */
static uint64_t known_committed(const struct primary *p)
{
    uint64_t committed = replica_known_committed(p->replica);

    for (size_t i = 0; i < p->member_count; i++)
        if (p->members[i].state >= MEMBER_ADOPTED && member_counts(&p->members[i]) &&
            p->members[i].committed > committed)
            committed = p->members[i].committed;
    return committed;
}

/* Do the logs of the full members that have adopted this version vouch for all that was
 * acknowledged? */
struct witnesses {
    unsigned undoubted; /* REC-2a: not in doubt, nor below a committed length */
    unsigned uncut;     /* and of these, not cut at a start (FAIL-3) */
};

static void witness(struct witnesses *w, bool doubted, bool cut, bool long_enough)
{
    w->undoubted += !doubted && long_enough;
    w->uncut += !doubted && long_enough && !cut;
}

static struct witnesses witnesses(const struct primary *p)
{
    const struct replica *r = p->replica;
    uint64_t committed = known_committed(p);
    struct witnesses w = {0};

    if (p->state > PRIMARY_EQUALIZING)
        return (struct witnesses){1, 1};
    if (p->state > PRIMARY_ADOPTING)
        witness(&w, replica_doubted(r), r->header.cut, r->end >= committed);
    for (size_t i = 0; i < p->member_count; i++) {
        const struct member *m = &p->members[i];
        if (m->state >= MEMBER_ADOPTED && member_counts(m))
            witness(&w, m->doubted, m->cut, m->length >= committed);
    }
    return w;
}

/* A tear cannot be told from rot, so a log that was cut alone vouches for nothing. Two do: rot is
 * not everywhere. */
bool primary_is_sure(const struct primary *p)
{
    struct witnesses w = witnesses(p);

    return w.uncut > 0 || w.undoubted > 1 || (w.undoubted > 0 && LH_PLANTED("lone-cut-log-counts"));
}

/* ------------------------------------------------------------------------------------------------
 * The longest log, and everybody brought to it (REC-2). */

static void equalize(struct primary *p)
{
    struct replica *r = p->replica;

    p->state = PRIMARY_EQUALIZING;
    p->self_equal = false;
    p->was_cut = r->header.cut;
    replica_submit(r, (struct job){
                          .kind = JOB_CONFIRM,
                          .origin = FOR_PRIMARY,
                          .version = p->version,
                          .length = r->end,
                          .checksum = r->checksum,
                      });
    for (size_t i = 0; i < p->member_count; i++)
        if (p->members[i].state == MEMBER_ADOPTED)
            member_set_target(&p->members[i], r->end, r->checksum);
    replica_pump(r);
}

static void fetch(struct primary *p)
{
    struct lh_chunkserver *cs = p->replica->cs;
    Leasehold__ReadRequest m = LEASEHOLD__READ_REQUEST__INIT;

    p->state = PRIMARY_FETCHING;
    struct link *l = link_open(cs, LINK_FETCH, p, LH_METHOD_READ, p->fetch_from->address,
        lh_milliseconds(cs->config.bounds.fetch_timeout_ms));
    p->fetch_link = l->id;
    m.chunk = p->replica->chunk;
    m.version = p->version;
    m.offset = p->replica->end;
    m.max_bytes = cs->config.bounds.fetch_bytes;
    m.mode = LEASEHOLD__READ_MODE__RECOVERY;
    lh_fx_send(cs->fx, l->id, &m.base, NULL);
}

static void report_possible_loss(struct primary *p, uint64_t length)
{
    struct lh_chunkserver *cs = p->replica->cs;

    lh_fx_log(cs->fx, LH_ERROR,
        "chunk %llu: every member's machine went down; going on with the longest log (%llu bytes); "
        "acknowledged records may be missing",
        (unsigned long long)p->replica->chunk, (unsigned long long)length);
    session_tell_loss(cs, p->replica->chunk, p->version, length);
}

static void gathered(struct primary *p)
{
    struct replica *r = p->replica;

    if (replica_doubted(r))
        LH_MARK("recovery-by-doubted-primary");
    if (witnesses(p).undoubted == 0 && !LH_PLANTED("loss-not-reported")) {
        LH_MARK("recovery-all-doubted");
        uint64_t longest = r->end;
        for (size_t i = 0; i < p->member_count; i++)
            if (member_counts(&p->members[i]) && p->members[i].length > longest)
                longest = p->members[i].length;
        report_possible_loss(p, longest);
    }
    p->fetch_from = NULL;
    for (size_t i = 0; i < p->member_count; i++) {
        struct member *m = &p->members[i];
        if (!member_counts(m))
            LH_MARK("recovery-with-joining-member");
        else if (m->length > (p->fetch_from == NULL ? r->end : p->fetch_from->length))
            p->fetch_from = m;
    }
    if (p->fetch_from != NULL) {
        LH_MARK("recovery-fetches");
        fetch(p);
    } else {
        LH_MARK("recovery-with-own-log");
        equalize(p);
    }
}

void primary_fetch_failed(struct primary *p)
{
    struct member *m = p->fetch_from;

    /* Whoever was to be fetched from reports again, and the choice is made anew. */
    p->fetch_link = 0;
    primary_fetch_cancel(p);
    if (m->link != 0) {
        link_close(p->replica->cs, m->link, LH_ERR_CANCELLED, NULL);
        member_link_closed(m);
    }
}

void primary_fetch_cancel(struct primary *p)
{
    if (p->fetch_link != 0)
        link_close(p->replica->cs, p->fetch_link, LH_ERR_CANCELLED, NULL);
    p->fetch_link = 0;
    p->fetch_from = NULL;
    p->state = PRIMARY_GATHERING;
}

/* Takes what a fetch brought. UNAVAILABLE: it is not what the member had promised. CORRUPT: it is
 * sound, but does not fit what is here. */
static int take_fetched(struct primary *p, struct lh_buf *batches)
{
    struct replica *r = p->replica;
    uint32_t batch_max = lh_batch_bytes_max(r->header.chunk_size);
    size_t at = 0;

    if (batches->size == 0)
        return LH_ERR_UNAVAILABLE;
    while (at < batches->size) {
        struct lh_batch_header h;
        if (lh_batch_check(batches, at, batch_max, &h) != LH_OK ||
            h.size > p->fetch_from->length - r->end)
            return LH_ERR_UNAVAILABLE;
        struct lh_buf one = {0};
        lh_buf_append(&one, batches, at, h.size);
        at += h.size;
        if (!replica_accept(r, &h, &one)) {
            lh_buf_clear(&one);
            return LH_ERR_CORRUPT;
        }
    }
    return LH_OK;
}

void primary_fetched(struct primary *p, const Leasehold__ReadReply *m, struct lh_buf *batches)
{
    struct replica *r = p->replica;

    if (p->state != PRIMARY_FETCHING)
        return;
    link_close(r->cs, p->fetch_link, LH_OK, NULL);
    p->fetch_link = 0;
    /* MALFORMED: no batch of the longest log begins where this one ends. */
    int error = m->error == LEASEHOLD__ERROR_CODE__MALFORMED ? LH_ERR_CORRUPT
                : m->error != LEASEHOLD__ERROR_CODE__OK      ? LH_ERR_UNAVAILABLE
                                                             : take_fetched(p, batches);
    if (error == LH_ERR_UNAVAILABLE) {
        replica_pump(r);
        primary_fetch_failed(p);
        return;
    }
    bool differs = error == LH_ERR_CORRUPT ||
                   (r->end == p->fetch_from->length && r->checksum != p->fetch_from->checksum &&
                       !LH_PLANTED("equality-by-length-alone"));
    if (differs) {
        /* Two full members' logs differ where one should extend the other: bytes have rotted, or
         * were written to the wrong place. What was fetched cannot be told from what was here. */
        LH_MARK("recovery-log-does-not-fit");
        replica_lose(r, LH_ERR_CORRUPT, r->written);
    } else if (r->end < p->fetch_from->length) {
        fetch(p);
    } else {
        equalize(p);
        return;
    }
    replica_pump(r);
}

/* ------------------------------------------------------------------------------------------------
 * From one step to the next. */

void primary_tell_recovered(struct primary *p)
{
    struct lh_chunkserver *cs = p->replica->cs;
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Recovered done = LEASEHOLD__RECOVERED__INIT;

    done.session = session_id(cs);
    done.chunk = p->replica->chunk;
    done.version = p->version;
    done.length = p->replica->committed; /* what was ordered since may not be yet */
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_RECOVERED;
    m.recovered = &done;
    session_send(cs, &m);
}

static void recovered(struct primary *p)
{
    struct replica *r = p->replica;
    struct lh_chunkserver *cs = r->cs;

    LH_MARK("recovery-done");
    cs->counts.recoveries++;
    p->state = PRIMARY_OPEN;
    p->committed_checksum = r->checksum;
    replica_note_committed(r, r->end);
    lh_fx_log(cs->fx, LH_INFO, "chunk %llu: primary at version %llu with %zu members, %llu bytes",
        (unsigned long long)r->chunk, (unsigned long long)p->version, p->member_count + 1,
        (unsigned long long)r->end);
    primary_tell_recovered(p);
    p->notice_at = lh_instant_add(cs->now, cs->config.notice_delay);
    primary_set_timer(p);
    stream_open_all(p);
}

void primary_recover(struct primary *p)
{
    bool all_adopted = true, all_equal = p->self_equal;

    for (size_t i = 0; i < p->member_count; i++) {
        all_adopted = all_adopted && p->members[i].state >= MEMBER_ADOPTED;
        all_equal = all_equal && (p->members[i].state == MEMBER_EQUAL ||
                                     LH_PLANTED("open-before-all-are-equal"));
    }
    if (p->state == PRIMARY_GATHERING && all_adopted)
        gathered(p);
    else if (p->state == PRIMARY_EQUALIZING && all_equal)
        recovered(p);
}

void primary_job_done(struct primary *p, const struct job *j, int error)
{
    if (error != LH_OK)
        return; /* the replica is lost or cut back, and this part has ended or will */
    if (j->kind == JOB_ADOPT && p->state == PRIMARY_ADOPTING) {
        p->state = PRIMARY_GATHERING;
        orders_confirm_grant(p->replica->cs, p->replica->chunk, p->version, LH_OK);
    } else if (j->kind == JOB_CONFIRM) {
        p->self_equal = true;
        /* What was fetched is written by now: members that lack it can be sent it. */
        for (size_t i = 0; i < p->member_count && !LH_PLANTED("fetched-bytes-not-passed-on"); i++)
            member_pump(&p->members[i]);
    }
    primary_member_changed(p);
}
