/* What a primary asks of this replica: to adopt its version (FENCE-1), to store bytes in the order
 * of their offsets (APP-2), to confirm equality (REC-2). One link feeds a replica at a time. */
#include "chunkserver/serve/secondary.h"

#include "base/assert.h"
#include "batch/batch.h"
#include "chunkserver/serve/copying.h"

#include <stdio.h>

static void answer(struct lh_cs_host *cs, uint64_t link, const struct lh_cs_replica *r,
    Leasehold__ReplicateKind kind, int error, const char *text)
{
    Leasehold__ReplicateReply m = LEASEHOLD__REPLICATE_REPLY__INIT;

    m.kind = kind;
    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)(text == NULL ? "" : text);
    if (r != NULL) {
        m.chunk = r->chunk;
        m.version = r->adopting;
        m.length = lh_cs_replica_durable(r);
        m.checksum = r->checksum;
        m.doubted = lh_cs_replica_unverified(r);
        m.cut = r->header.truncated;
        m.committed = lh_cs_replica_known_committed(r);
    }
    lh_fx_send(cs->fx, link, &m.base, NULL);
}

static void refuse(
    struct lh_cs_host *cs, uint64_t link, struct lh_cs_replica *r, int error, const char *text)
{
    char sentence[128];

    if (r != NULL && lh_cs_served(r)->feed.link == link)
        lh_cs_served(r)->feed.link = 0;
    if (text == NULL && r != NULL)
        (void)snprintf(sentence, sizeof sentence, "chunk %llu, at version %llu here: %s",
            (unsigned long long)r->chunk, (unsigned long long)r->adopting, lh_error_text(error));
    else
        (void)snprintf(sentence, sizeof sentence, "%s", text != NULL ? text : lh_error_text(error));
    answer(cs, link, r, LEASEHOLD__REPLICATE_KIND__ADOPT, error, sentence);
    lh_cs_link_close(cs, link, LH_OK, NULL);
}

void lh_cs_secondary_end(struct lh_cs_replica *r, int error)
{
    uint64_t link = lh_cs_served(r)->feed.link;

    if (link == 0)
        return;
    lh_cs_served(r)->feed.link = 0;
    if (lh_cs_link_find(r->cs, link) != NULL)
        refuse(r->cs, link, r, error, NULL);
}

static void link_closed(struct lh_cs_link *l, const char *text)
{
    struct lh_cs_replica *r = l->owner;

    (void)text;
    if (r != NULL && lh_cs_served(r)->feed.link == l->id)
        lh_cs_served(r)->feed.link = 0;
}

/* Does the link feed the replica that it was opened for? */
static bool feeds(const struct lh_cs_link *l)
{
    return l->owner != NULL && lh_cs_served(l->owner)->feed.link == l->id;
}

/* As good as an answer, which waits for the whole message: the primary's patience counts from it
 * (REC-3). */
static void progress(struct lh_cs_link *l)
{
    struct lh_cs_replica *r = l->owner;
    struct lh_cs_host *cs = l->cs;

    if (!feeds(l))
        return;

    if (!lh_cs_served(r)->feed.adopted || r->header.version != r->adopting ||
        lh_instant_until(lh_cs_served(r)->feed.reported_at, cs->now).ns <
            cs->config.alive_interval.ns / 2)
        return;
    LH_MARK("secondary-tells-progress");
    lh_cs_served(r)->feed.reported_at = cs->now;
    answer(cs, lh_cs_served(r)->feed.link, r, LEASEHOLD__REPLICATE_KIND__APPEND, LH_OK, NULL);
}

/* It is not fast enough to be a member. */
static bool late(struct lh_cs_link *l, const char *text)
{
    (void)text;
    if (!feeds(l))
        return false;
    lh_cs_secondary_end(l->owner, LH_ERR_DEADLINE_EXCEEDED);
    return true;
}

/* FENCE-1: from the moment that a version is being adopted nothing below it is taken. */
static bool fenced(const struct lh_cs_replica *r, uint64_t version)
{
    return version < r->adopting && !LH_PLANTED("old-version-accepted");
}

static void job_done(struct lh_cs_replica *r, const struct lh_cs_job *j, int error);

static void adopt(struct lh_cs_host *cs, struct lh_cs_link *l, struct lh_cs_replica *r,
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
    if (r->state == LH_CS_REPLICA_LOADING || r->state == LH_CS_REPLICA_SCANNING ||
        r->state == LH_CS_REPLICA_TRUNCATING) {
        LH_MARK("adopt-while-scanning");
        refuse(cs, l->id, r, LH_ERR_RECOVERING, "the log is being read back");
        return;
    }
    if (r->incomplete &&
        (!m->joining || lh_cs_served(r)->diverged ||
            (lh_cs_served(r)->copying != NULL && lh_cs_served(r)->copying->sealed))) {
        LH_MARK("adopt-incomplete");
        refuse(cs, l->id, r, LH_ERR_NO_REPLICA, "this replica is incomplete (REC-4)");
        return;
    }
    if (lh_cs_replica_sealing(r)) {
        refuse(cs, l->id, r, LH_ERR_CHUNK_FULL, "the chunk is sealed");
        return;
    }
    if (lh_cs_primary_of(r) != NULL) {
        if (lh_cs_primary_of(r)->version == m->version) {
            refuse(cs, l->id, r, LH_ERR_INVALID_ARGUMENT,
                "this server is itself the primary at that version");
            return;
        }
        /* Somebody else was given a higher version: what we held is over (FENCE-1). */
        LH_MARK("adopt-ends-primary");
        lh_cs_primary_fenced(lh_cs_primary_of(r), m->version);
    }
    if (lh_cs_served(r)->copying != NULL) {
        LH_MARK("copy-joins");
        lh_cs_copying_end(lh_cs_served(r)->copying); /* from now on the primary feeds it */
    }
    if (lh_cs_served(r)->feed.link != 0)
        LH_MARK("adopt-supersedes");
    lh_cs_secondary_end(r, LH_ERR_CANCELLED); /* superseded by this link */
    lh_cs_served(r)->feed.link = l->id;
    lh_cs_served(r)->feed.adopted = false;
    l->owner = r;
    lh_cs_served(r)->feed.acked = 0;
    lh_cs_replica_submit(r, (struct lh_cs_job){
                                .kind = LH_CS_JOB_ADOPT,
                                .owner = job_done,
                                .link = l->id,
                                .version = m->version,
                            });
    lh_cs_replica_pump(r);
}

/* For "shortest-log-wins". */
static void take_away(struct lh_cs_replica *r, uint64_t length, uint64_t checksum)
{
    lh_cs_served(r)->feed.acked = length;
    lh_cs_replica_take_away(r, length, checksum);
}

/* What primaries send is bounded like what clients do (--pending-bytes). Holding them waits for
 * nobody but this server's own disk, so two servers that feed each other never wait in a circle. */
static void hold_if_too_much(struct lh_cs_logs *logs, struct lh_cs_link *l)
{
    if (l->held || logs->unwritten <= logs->cs->config.pending_bytes_max)
        return;
    LH_MARK("secondary-held");
    lh_cs_link_hold(l);
}

void lh_cs_secondary_release_pressure(struct lh_cs_logs *logs)
{
    if (logs->unwritten <= logs->cs->config.pending_bytes_max / 2)
        lh_cs_links_unhold(logs->cs);
}

static void message(struct lh_cs_link *l, const void *request, struct lh_buf *batches)
{
    const Leasehold__ReplicateRequest *m = request;
    struct lh_cs_serving *room = l->room;
    struct lh_cs_host *cs = room->cs;
    struct lh_cs_replica *r = lh_cs_replica_find(room->logs, m->chunk);

    if (r == NULL && m->kind == LEASEHOLD__REPLICATE_KIND__ADOPT &&
        LH_PLANTED("adopted-without-replica")) {
        answer(cs, l->id, NULL, m->kind, LH_OK, NULL);
        return;
    }
    if (r == NULL || r->state == LH_CS_REPLICA_CREATING || r->state == LH_CS_REPLICA_REMOVING) {
        refuse(cs, l->id, NULL, LH_ERR_NO_REPLICA, NULL);
        return;
    }
    if (r->state == LH_CS_REPLICA_LOST) {
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
    if (lh_cs_served(r)->feed.link != l->id || !lh_cs_served(r)->feed.adopted ||
        !lh_cs_replica_usable(r)) {
        refuse(cs, l->id, r, LH_ERR_INVALID_ARGUMENT, "adopt the version on this stream first");
        return;
    }
    int error = LH_OK;
    switch (m->kind) {
    case LEASEHOLD__REPLICATE_KIND__APPEND:
        error = m->offset == r->end ? lh_cs_replica_take(r, batches, r->header.chunk_size)
                                    : LH_ERR_OUT_OF_SEQUENCE;
        break;
    case LEASEHOLD__REPLICATE_KIND__CONFIRM:
        /* Checked as the message arrives, in the stream's order; bytes behind it may follow before
         * the answer is durable. */
        if (LH_PLANTED("shortest-log-wins") && m->length < r->end)
            take_away(r, m->length, m->checksum);
        if (m->length != r->end || m->checksum != r->checksum)
            error = LH_ERR_CORRUPT;
        else
            lh_cs_replica_submit(r, (struct lh_cs_job){
                                        .kind = LH_CS_JOB_CONFIRM,
                                        .owner = job_done,
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
        lh_fx_log(cs->fx, LH_WARN,
            "chunk %llu: the primary's message does not fit this log of %llu bytes (checksum "
            "%016llx): %s",
            (unsigned long long)r->chunk, (unsigned long long)r->end,
            (unsigned long long)r->checksum, lh_error_text(error));
        lh_cs_served(r)->diverged = r->incomplete;
        lh_cs_secondary_end(r, error);
        lh_cs_replica_differs(r);
    } else {
        lh_cs_replica_note_committed(r, m->committed);
        hold_if_too_much(room->logs, l);
    }
    lh_cs_replica_pump(r);
}

void lh_cs_secondary_durable(struct lh_cs_replica *r)
{
    uint64_t durable = lh_cs_replica_durable(r);

    if (lh_cs_served(r)->feed.link == 0 || durable <= lh_cs_served(r)->feed.acked ||
        r->header.version != r->adopting)
        return;
    lh_cs_served(r)->feed.acked = durable;
    answer(r->cs, lh_cs_served(r)->feed.link, r, LEASEHOLD__REPLICATE_KIND__APPEND, LH_OK, NULL);
}

static void job_done(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    if (lh_cs_served(r)->feed.link != j->link || fenced(r, j->version))
        return; /* nobody waits for it any more */
    if (error != LH_OK) {
        lh_cs_secondary_end(r, error);
        return;
    }
    if (j->kind == LH_CS_JOB_ADOPT) {
        LH_ASSERT(r->written == r->end && r->synced == r->end);
        lh_cs_served(r)->feed.adopted = true;
        lh_cs_served(r)->feed.acked = r->end;
        answer(r->cs, j->link, r, LEASEHOLD__REPLICATE_KIND__ADOPT, LH_OK, NULL);
    } else {
        answer(r->cs, j->link, r, LEASEHOLD__REPLICATE_KIND__CONFIRM, LH_OK, NULL);
    }
}

const struct lh_cs_link_user lh_cs_replicate_links = {
    .message = message,
    .closed = link_closed,
    .progress = progress,
    .half_closed = lh_cs_link_end_with_peer,
    .late = late,
};
