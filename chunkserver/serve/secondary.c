/* What a primary asks of this replica: to adopt its version (FENCE-1), to store bytes in the order
 * of their offsets (APP-2), to confirm equality (REC-2). One feed at a time feeds a replica. */
#include "chunkserver/serve/internal.h"

#include "base/assert.h"
#include "chunkserver/serve/copying.h"
#include "chunkserver/serve/feeder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static Leasehold__ReplicateAnswer answer_of(
    const struct lh_cs_replica *r, uint64_t feed, Leasehold__ReplicateKind kind)
{
    Leasehold__ReplicateAnswer m = LEASEHOLD__REPLICATE_ANSWER__INIT;

    m.kind = kind;
    m.feed = feed;
    m.chunk = r->chunk;
    m.version = r->adopting;
    m.length = lh_cs_replica_durable(r);
    m.checksum = r->checksum;
    m.unverified = lh_cs_replica_unverified(r);
    m.truncated = lh_cs_replica_truncated(r);
    m.committed = lh_cs_replica_known_committed(r);
    return m;
}

/* A durable length. */
static void report(struct lh_cs_feed *f)
{
    Leasehold__ReplicateAnswer m =
        answer_of(f->replica, f->number, LEASEHOLD__REPLICATE_KIND__APPEND);

    lh_cs_feed_report(f, &m);
}

static void refuse(struct lh_cs_feeder *feeder, const Leasehold__ReplicateAnswer *about, int error,
    const char *text)
{
    Leasehold__ReplicateAnswer m = *about;
    char sentence[128];

    if (text == NULL) {
        (void)snprintf(sentence, sizeof sentence,
            "chunk %" PRIu64 ", at version %" PRIu64 " here: %s", m.chunk, m.version,
            lh_error_text(error));
        text = sentence;
    }
    m.error = (Leasehold__ErrorCode)-error;
    lh_cs_feeder_answer(feeder, &m, text);
}

/* Refuses a part. If its feed is the replica's, that is over. */
static void refuse_part(struct lh_cs_feeder *feeder, const Leasehold__ReplicatePart *part,
    struct lh_cs_replica *r, int error, const char *text)
{
    Leasehold__ReplicateAnswer m = LEASEHOLD__REPLICATE_ANSWER__INIT;
    struct lh_cs_feed *f = r == NULL ? NULL : lh_cs_served(r)->feed;

    if (r != NULL)
        m = answer_of(r, part->feed, LEASEHOLD__REPLICATE_KIND__ADOPT);
    m.chunk = part->chunk;
    m.feed = part->feed;
    if (f != NULL && f->feeder == feeder && f->number == part->feed)
        lh_cs_feed_free(f);
    refuse(feeder, &m, error, text != NULL || r != NULL ? text : lh_error_text(error));
}

void lh_cs_secondary_end(struct lh_cs_replica *r, int error)
{
    struct lh_cs_feed *f = lh_cs_served(r)->feed;

    if (f == NULL)
        return;
    Leasehold__ReplicateAnswer m = answer_of(r, f->number, LEASEHOLD__REPLICATE_KIND__ADOPT);
    struct lh_cs_feeder *feeder = f->feeder;
    lh_cs_feed_free(f);
    refuse(feeder, &m, error, NULL);
}

static void link_closed(struct lh_cs_link *l, const char *text)
{
    (void)text;
    if (l->owner != NULL)
        lh_cs_feeder_free(l->owner);
}

/* FENCE-1: from the moment that a version is being adopted nothing below it is taken. */
static bool fenced(const struct lh_cs_replica *r, uint64_t version)
{
    return version < r->adopting && !LH_PLANTED("old-version-accepted");
}

/* A master gives out one version after the other: so many more there never are. Where no capability
 * shows that it did (ACC-9), one message of any chunkserver's would leave a chunk without a next
 * version for ever. */
#define VERSION_LEAP (UINT64_C(1) << 32)

static void job_done(struct lh_cs_replica *r, const struct lh_cs_job *j, int error);

static void adopt(
    struct lh_cs_feeder *feeder, struct lh_cs_replica *r, const Leasehold__ReplicatePart *m)
{
    if (fenced(r, m->version)) {
        LH_MARK("adopt-stale");
        refuse_part(feeder, m, r, LH_ERR_STALE_VERSION, NULL);
        return;
    }
    struct lh_cs_host *cs = feeder->serving->cs;
    const char *text;
    int error = lh_cs_may_lead(cs, m->chunk, m->version, &m->capability, &text);
    if (error != LH_OK) {
        LH_MARK("adopt-without-capability");
        refuse_part(feeder, m, NULL, error, text);
        return;
    }
    if (m->version == 0 || m->feed == 0) {
        refuse_part(feeder, m, r, LH_ERR_INVALID_ARGUMENT, "a feed has a number and a version");
        return;
    }
    if (!cs->config.capabilities && m->version > r->adopting &&
        m->version - r->adopting >= VERSION_LEAP) {
        LH_MARK("adopt-far-above");
        refuse_part(feeder, m, r, LH_ERR_INVALID_ARGUMENT, "no master gives such a version yet");
        return;
    }
    if (r->state == LH_CS_REPLICA_LOADING || r->state == LH_CS_REPLICA_SCANNING ||
        r->state == LH_CS_REPLICA_TRUNCATING) {
        LH_MARK("adopt-while-scanning");
        refuse_part(feeder, m, r, LH_ERR_RECOVERING, "the log is being read back");
        return;
    }
    if (r->incomplete &&
        (!m->joining || lh_cs_served(r)->diverged ||
            (lh_cs_served(r)->copying != NULL && lh_cs_served(r)->copying->sealed))) {
        LH_MARK("adopt-incomplete");
        refuse_part(feeder, m, r, LH_ERR_NO_REPLICA, "this replica is incomplete (REC-4)");
        return;
    }
    if (lh_cs_replica_sealing(r)) {
        refuse_part(feeder, m, r, LH_ERR_CHUNK_FULL, "the chunk is sealed");
        return;
    }
    if (lh_cs_primary_of(r) != NULL) {
        if (lh_cs_primary_version(lh_cs_primary_of(r)) == m->version) {
            refuse_part(feeder, m, r, LH_ERR_INVALID_ARGUMENT,
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
    if (lh_cs_served(r)->feed != NULL)
        LH_MARK("adopt-supersedes");
    lh_cs_secondary_end(r, LH_ERR_CANCELLED);
    const struct lh_cs_feed *f = lh_cs_feed_begin(feeder, r, m);
    lh_cs_replica_submit(r, (struct lh_cs_job){
                                .kind = LH_CS_JOB_ADOPT,
                                .owner = job_done,
                                .feed = f->id,
                                .version = m->version,
                            });
    lh_cs_replica_pump(r);
}

/* Takes bytes in, and stores the batches that are whole now. */
static int store(struct lh_cs_feed *f, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = f->replica;
    struct lh_cs_serving *serving = f->feeder->serving;
    struct lh_buf rest = {0};
    size_t taken;

    if (serving->arriving_bytes + bytes->size > serving->cs->config.bounds.arriving_bytes)
        return LH_ERR_NO_MEMORY;
    serving->arriving_bytes -= f->rest.size;
    lh_buf_append(&f->rest, bytes, 0, bytes->size);
    int error = lh_cs_replica_take(r, &f->rest, r->header.chunk_size, &taken);
    if (taken > 0) {
        lh_buf_append(&rest, &f->rest, taken, f->rest.size - taken);
        lh_buf_clear(&f->rest);
        f->rest = rest;
    }
    serving->arriving_bytes += f->rest.size;
    return error == LH_ERR_WOULD_BLOCK ? LH_OK : error;
}

/* That bytes come is as good as an answer, which waits for the whole batch: the primary's patience
 * counts from it (REC-3). */
static void tell_progress(struct lh_cs_feed *f)
{
    struct lh_cs_host *cs = f->feeder->serving->cs;

    if (f->rest.size == 0 || LH_PLANTED("progress-is-no-life") ||
        lh_instant_until(f->reported_at, cs->now).ns < cs->config.alive_interval.ns / 2)
        return;
    LH_MARK("secondary-tells-progress");
    f->reported_at = cs->now;
    report(f);
}

/* For "shortest-log-wins". */
static void take_away(struct lh_cs_replica *r, uint64_t length, uint64_t checksum)
{
    lh_cs_served(r)->feed->acked = length;
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

static int take(struct lh_cs_feed *f, const Leasehold__ReplicatePart *m, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = f->replica;

    switch (m->kind) {
    case LEASEHOLD__REPLICATE_KIND__APPEND:
        if (m->offset != r->end + f->rest.size)
            return LH_ERR_OUT_OF_SEQUENCE;
        return store(f, bytes);
    case LEASEHOLD__REPLICATE_KIND__CONFIRM:
        /* Checked as the part arrives, in the feed's order; bytes behind it may follow before the
         * answer is durable. */
        if (LH_PLANTED("shortest-log-wins") && m->length < r->end)
            take_away(r, m->length, m->checksum);
        if (m->length != r->end ||
            (m->checksum != r->checksum && !LH_PLANTED("confirmed-by-length-alone")))
            return LH_ERR_CORRUPT;
        lh_cs_replica_submit(r, (struct lh_cs_job){
                                    .kind = LH_CS_JOB_CONFIRM,
                                    .owner = job_done,
                                    .feed = f->id,
                                    .version = m->version,
                                    .length = m->length,
                                    .checksum = m->checksum,
                                });
        return LH_OK;
    default:
        return LH_OK;
    }
}

static void take_part(
    struct lh_cs_feeder *feeder, const Leasehold__ReplicatePart *m, struct lh_buf *bytes)
{
    struct lh_cs_serving *serving = feeder->serving;
    struct lh_cs_replica *r = lh_cs_replica_find(serving->logs, m->chunk);
    struct lh_cs_feed *f = r == NULL ? NULL : lh_cs_served(r)->feed;

    if (f != NULL && (f->feeder != feeder || f->number != m->feed))
        f = NULL;
    if (m->kind == LEASEHOLD__REPLICATE_KIND__END) {
        if (f != NULL)
            lh_cs_feed_free(f);
        return;
    }
    if (m->kind == LEASEHOLD__REPLICATE_KIND__ADOPT && m->server_id[0] != 0 &&
        strcmp(m->server_id, serving->cs->config.server_id) != 0 &&
        !LH_PLANTED("adopted-for-another-server")) {
        LH_MARK("adopt-for-another-server");
        refuse_part(feeder, m, NULL, LH_ERR_WRONG_IDENTITY, "this is another chunkserver");
        return;
    }
    if (r == NULL && m->kind == LEASEHOLD__REPLICATE_KIND__ADOPT &&
        LH_PLANTED("adopted-without-replica")) {
        Leasehold__ReplicateAnswer adopted = LEASEHOLD__REPLICATE_ANSWER__INIT;
        adopted.chunk = m->chunk;
        adopted.feed = m->feed;
        lh_cs_feeder_answer(feeder, &adopted, NULL);
        return;
    }
    if (r == NULL || r->state == LH_CS_REPLICA_CREATING || r->state == LH_CS_REPLICA_REMOVING) {
        refuse_part(feeder, m, NULL, LH_ERR_NO_REPLICA, NULL);
        return;
    }
    if (r->state == LH_CS_REPLICA_LOST) {
        LH_MARK("adopt-lost-replica");
        refuse_part(feeder, m, r, LH_ERR_CORRUPT, "this replica is lost");
        return;
    }
    if (r->state == LH_CS_REPLICA_FROZEN) {
        LH_MARK("adopt-frozen-replica");
        refuse_part(feeder, m, r, LH_ERR_IO, "the disk refuses changes of this replica");
        return;
    }
    if (m->kind == LEASEHOLD__REPLICATE_KIND__ADOPT) {
        adopt(feeder, r, m);
        return;
    }
    if (fenced(r, m->version) || m->version > r->adopting || r->header.version != r->adopting) {
        refuse_part(feeder, m, r, LH_ERR_STALE_VERSION, NULL);
        return;
    }
    if (f == NULL || f->version != m->version || !f->adopted || !lh_cs_replica_usable(r)) {
        refuse_part(feeder, m, r, LH_ERR_INVALID_ARGUMENT, "adopt the version first");
        return;
    }
    int error = take(f, m, bytes);
    if (error == LH_ERR_NO_MEMORY && !LH_PLANTED("no-room-taken-for-difference")) {
        /* Too many large batches have come in part; that says nothing of this log. */
        LH_MARK("secondary-has-no-room");
        lh_cs_secondary_end(r, LH_ERR_RECOVERING);
    } else if (error != LH_OK) {
        lh_fx_log(serving->cs->fx, LH_WARN,
            "chunk %" PRIu64 ": the primary's message does not fit this log of %" PRIu64
            " bytes (checksum %016" PRIx64 "): %s",
            r->chunk, r->end, r->checksum, lh_error_text(error));
        lh_cs_serve(r)->diverged = r->incomplete;
        lh_cs_secondary_end(r, error);
        lh_cs_replica_differs(r);
    } else {
        lh_cs_replica_note_committed(r, m->committed);
        tell_progress(f);
    }
    lh_cs_replica_pump(r);
}

static void message(struct lh_cs_link *l, const void *request, struct lh_buf *batches)
{
    const Leasehold__ReplicateRequest *m = request;
    struct lh_cs_serving *serving = l->user_arg;
    uint64_t at = 0;
    bool sound = true;

    for (size_t i = 0; i < m->n_parts && sound; i++) {
        struct lh_buf bytes = {0};
        sound = m->parts[i]->bytes <= batches->size - at;
        if (!sound)
            break;
        lh_buf_append(&bytes, batches, at, m->parts[i]->bytes);
        at += m->parts[i]->bytes;
        take_part(lh_cs_feeder_of(l), m->parts[i], &bytes);
        lh_buf_clear(&bytes);
    }
    if (!sound || at < batches->size) {
        link_closed(l, NULL);
        lh_cs_link_close(
            serving->cs, l->id, LH_ERR_MALFORMED, "the parts do not add up to the bytes");
        return;
    }
    hold_if_too_much(serving->logs, l);
}

void lh_cs_secondary_durable(struct lh_cs_replica *r)
{
    struct lh_cs_feed *f = lh_cs_served(r)->feed;
    uint64_t durable = lh_cs_replica_durable(r);

    if (f == NULL || durable <= f->acked || r->header.version != r->adopting)
        return;
    f->acked = durable;
    report(f);
}

static void job_done(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    struct lh_cs_feed *f = lh_cs_served(r)->feed;

    if (f == NULL || f->id != j->feed || fenced(r, j->version))
        return; /* nobody waits for it any more */
    if (error != LH_OK) {
        lh_cs_secondary_end(r, error);
        return;
    }
    bool adopted = j->kind == LH_CS_JOB_ADOPT;
    Leasehold__ReplicateAnswer m = answer_of(r, f->number,
        adopted ? LEASEHOLD__REPLICATE_KIND__ADOPT : LEASEHOLD__REPLICATE_KIND__CONFIRM);
    if (adopted) {
        LH_ASSERT(r->written == r->end && r->synced == r->end);
        f->adopted = true;
        f->acked = r->end;
        m.equal = lh_cs_replica_is_vouched_for(r);
    }
    lh_cs_feeder_answer(f->feeder, &m, NULL);
}

const struct lh_cs_link_user lh_cs_replicate_links = {
    .message = message,
    .closed = link_closed,
    .sent = lh_cs_feeder_sent,
    .half_closed = lh_cs_link_end_with_peer,
};
