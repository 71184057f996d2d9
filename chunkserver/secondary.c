/* What a primary asks of this replica: to adopt its version (FENCE-1), to store bytes in the order
 * of their offsets (APP-2), to confirm equality (REC-2). One link feeds a replica at a time. */
#include "base/assert.h"
#include "batch/batch.h"
#include "chunkserver/internal.h"

#include <stdio.h>

static void answer(struct lh_chunkserver *cs, uint64_t link, const struct replica *r,
    Leasehold__ReplicateKind kind, int error, const char *text)
{
    Leasehold__ReplicateReply m = LEASEHOLD__REPLICATE_REPLY__INIT;

    m.kind = kind;
    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)(text == NULL ? "" : text);
    if (r != NULL) {
        m.chunk = r->chunk;
        m.version = r->adopting;
        m.length = replica_durable(r);
        m.checksum = r->checksum;
        m.doubted = replica_doubted(r);
        m.cut = r->header.cut;
        m.differs = r->differs;
        m.committed = replica_known_committed(r);
    }
    lh_fx_send(cs->fx, link, &m.base, NULL);
}

static void refuse(
    struct lh_chunkserver *cs, uint64_t link, struct replica *r, int error, const char *text)
{
    char sentence[128];

    if (r != NULL && r->secondary_link == link)
        r->secondary_link = 0;
    if (text == NULL && r != NULL)
        (void)snprintf(sentence, sizeof sentence, "chunk %llu, at version %llu here: %s",
            (unsigned long long)r->chunk, (unsigned long long)r->adopting, lh_error_text(error));
    else
        (void)snprintf(sentence, sizeof sentence, "%s", text != NULL ? text : lh_error_text(error));
    answer(cs, link, r, LEASEHOLD__REPLICATE_KIND__ADOPT, error, sentence);
    link_close(cs, link, LH_OK, NULL);
}

void secondary_end(struct replica *r, int error)
{
    uint64_t link = r->secondary_link;

    if (link == 0)
        return;
    r->secondary_link = 0;
    if (link_find(r->cs, link) != NULL)
        refuse(r->cs, link, r, error, NULL);
}

void secondary_link_closed(struct lh_chunkserver *cs, struct link *l)
{
    struct replica *r = l->owner;

    (void)cs;
    if (r != NULL && r->secondary_link == l->id)
        r->secondary_link = 0;
}

/* As good as an answer, which waits for the whole message: the primary's patience counts from it
 * (REC-3). */
void secondary_progress(struct replica *r)
{
    struct lh_chunkserver *cs = r->cs;

    if (!r->secondary_adopted || r->header.version != r->adopting ||
        lh_instant_until(r->secondary_told, cs->now).ns < cs->config.alive_interval.ns / 2)
        return;
    LH_MARK("secondary-tells-progress");
    r->secondary_told = cs->now;
    answer(cs, r->secondary_link, r, LEASEHOLD__REPLICATE_KIND__APPEND, LH_OK, NULL);
}

/* FENCE-1: from the moment that a version is being adopted nothing below it is taken. */
static bool fenced(const struct replica *r, uint64_t version)
{
    return version < r->adopting && !LH_PLANTED("old-version-accepted");
}

static void adopt(struct lh_chunkserver *cs, struct link *l, struct replica *r,
    const Leasehold__ReplicateRequest *m)
{
    if (fenced(r, m->version)) {
        LH_MARK("adopt-stale");
        refuse(cs, l->id, r, LH_ERR_STALE_VERSION, NULL);
        return;
    }
    if (m->version == 0 || l->owner != NULL) {
        refuse(cs, l->id, r, LH_ERR_INVALID_ARGUMENT, "a stream adopts one version of one chunk");
        return;
    }
    if (r->state == REPLICA_LOADING || r->state == REPLICA_SCANNING ||
        r->state == REPLICA_CUTTING) {
        LH_MARK("adopt-while-scanning");
        refuse(cs, l->id, r, LH_ERR_RECOVERING, "the log is being read back");
        return;
    }
    if (r->incomplete && (!m->joining || r->misfit || (r->copying != NULL && r->copying->sealed))) {
        LH_MARK("adopt-incomplete");
        refuse(cs, l->id, r, LH_ERR_NO_REPLICA, "this replica is incomplete (REC-4)");
        return;
    }
    if (replica_sealing(r)) {
        refuse(cs, l->id, r, LH_ERR_CHUNK_FULL, "the chunk is sealed");
        return;
    }
    if (m->master_term > cs->session.master_term)
        cs->session.master_term = m->master_term;
    if (r->primary != NULL) {
        if (r->primary->version == m->version) {
            refuse(cs, l->id, r, LH_ERR_INVALID_ARGUMENT,
                "this server is itself the primary at that version");
            return;
        }
        /* Somebody else was given a higher version: what we held is over (FENCE-1). */
        LH_MARK("adopt-ends-primary");
        primary_fenced(r->primary, m->version);
    }
    if (r->copying != NULL) {
        LH_MARK("copy-joins");
        copying_end(r->copying); /* from now on the primary feeds it */
    }
    if (r->secondary_link != 0)
        LH_MARK("adopt-supersedes");
    secondary_end(r, LH_ERR_CANCELLED); /* superseded by this link */
    r->secondary_link = l->id;
    r->secondary_adopted = false;
    l->owner = r;
    r->acked = 0;
    replica_submit(r, (struct job){
                          .kind = JOB_ADOPT,
                          .origin = FOR_SECONDARY,
                          .link = l->id,
                          .version = m->version,
                      });
    replica_pump(r);
}

/* Stores the message's batches, all or none of a batch. */
static int store(struct replica *r, struct lh_buf *batches)
{
    uint32_t batch_max = lh_batch_bytes_max(r->header.chunk_size);
    size_t at = 0;

    while (at < batches->size) {
        struct lh_batch_header h;
        int error = lh_batch_check(batches, at, batch_max, &h);
        if (error != LH_OK)
            return error;
        if (h.size > r->header.chunk_size - r->end)
            return LH_ERR_CHUNK_FULL;
        struct lh_buf one = {0};
        lh_buf_append(&one, batches, at, h.size);
        if (!replica_accept(r, &h, &one)) {
            lh_buf_clear(&one);
            return LH_ERR_OUT_OF_SEQUENCE;
        }
        at += h.size;
    }
    return LH_OK;
}

/* For "shortest-log-wins": what the primary has not is taken away here. */
static void cut(struct replica *r, uint64_t length, uint64_t checksum)
{
    r->end = r->written = r->synced = r->acked = length;
    r->checksum = checksum;
    if (r->committed > length)
        r->committed = length;
    lh_writers_clear(&r->writers);
    replica_submit(r, (struct job){.kind = JOB_CUT, .origin = FOR_NOBODY, .length = length});
}

/* What primaries send is bounded like what clients do (--pending-bytes). Holding them waits for
 * nobody but this server's own disk, so two servers that feed each other never wait in a circle. */
static void hold_if_too_much(struct lh_chunkserver *cs, struct link *l)
{
    if (l->held || cs->unwritten <= cs->config.pending_bytes_max)
        return;
    LH_MARK("secondary-held");
    l->held = true;
    DL_APPEND(cs->feeds, l);
    lh_fx_hold(cs->fx, l->id);
}

void secondary_release_pressure(struct lh_chunkserver *cs)
{
    if (cs->feeds == NULL || cs->unwritten > cs->config.pending_bytes_max / 2)
        return;
    while (cs->feeds != NULL) {
        struct link *l = cs->feeds;
        l->held = false;
        DL_DELETE(cs->feeds, l);
        lh_fx_unhold(cs->fx, l->id);
    }
}

void secondary_message(struct lh_chunkserver *cs, struct link *l,
    const Leasehold__ReplicateRequest *m, struct lh_buf *batches)
{
    struct replica *r = replica_find(cs, m->chunk);

    if (r == NULL || r->state == REPLICA_CREATING || r->state == REPLICA_REMOVING) {
        refuse(cs, l->id, NULL, LH_ERR_NO_REPLICA, NULL);
        return;
    }
    if (r->state == REPLICA_LOST) {
        LH_MARK("adopt-lost-replica");
        refuse(cs, l->id, r, LH_ERR_CORRUPT, "this replica is lost");
        return;
    }
    if (m->kind == LEASEHOLD__REPLICATE_KIND__ADOPT) {
        adopt(cs, l, r, m);
        return;
    }
    if (fenced(r, m->version) || m->version > r->adopting || r->header.version != r->adopting) {
        refuse(cs, l->id, r, LH_ERR_STALE_VERSION, NULL);
        return;
    }
    if (r->secondary_link != l->id || !r->secondary_adopted || !replica_usable(r)) {
        refuse(cs, l->id, r, LH_ERR_INVALID_ARGUMENT, "adopt the version on this stream first");
        return;
    }
    int error = LH_OK;
    switch (m->kind) {
    case LEASEHOLD__REPLICATE_KIND__APPEND:
        error = m->offset == r->end ? store(r, batches) : LH_ERR_OUT_OF_SEQUENCE;
        break;
    case LEASEHOLD__REPLICATE_KIND__CONFIRM:
        /* Checked as the message arrives, in the stream's order; bytes behind it may follow before
         * the answer is durable. */
        if (LH_PLANTED("shortest-log-wins") && m->length < r->end)
            cut(r, m->length, m->checksum);
        if (m->length != r->end ||
            (m->checksum != r->checksum && !LH_PLANTED("equality-by-length-alone")))
            error = LH_ERR_CORRUPT;
        else
            replica_submit(r, (struct job){
                                  .kind = JOB_CONFIRM,
                                  .origin = FOR_SECONDARY,
                                  .link = l->id,
                                  .version = m->version,
                                  .length = m->length,
                                  .checksum = m->checksum,
                              });
        break;
    default:
        break;
    }
    if (error != LH_OK) {
        lh_fx_log(cs->fx, LH_WARN, "chunk %llu: the primary's message does not fit this log: %s",
            (unsigned long long)r->chunk, lh_error_text(error));
        r->misfit = r->incomplete;
        r->differs = error == LH_ERR_CORRUPT || error == LH_ERR_OUT_OF_SEQUENCE;
        secondary_end(r, error);
        r->differs = false;
    } else {
        replica_note_committed(r, m->committed);
        hold_if_too_much(cs, l);
    }
    replica_pump(r);
}

void secondary_durable(struct replica *r)
{
    uint64_t durable = replica_durable(r);

    if (r->secondary_link == 0 || durable <= r->acked || r->header.version != r->adopting)
        return;
    r->acked = durable;
    answer(r->cs, r->secondary_link, r, LEASEHOLD__REPLICATE_KIND__APPEND, LH_OK, NULL);
}

void secondary_job_done(struct replica *r, const struct job *j, int error)
{
    if (r->secondary_link != j->link || fenced(r, j->version))
        return; /* nobody waits for it any more */
    if (error != LH_OK) {
        secondary_end(r, error);
        return;
    }
    if (j->kind == JOB_ADOPT) {
        LH_ASSERT(r->written == r->end && r->synced == r->end);
        r->secondary_adopted = true;
        r->acked = r->end;
        answer(r->cs, j->link, r, LEASEHOLD__REPLICATE_KIND__ADOPT, LH_OK, NULL);
    } else {
        answer(r->cs, j->link, r, LEASEHOLD__REPLICATE_KIND__CONFIRM, LH_OK, NULL);
    }
}
