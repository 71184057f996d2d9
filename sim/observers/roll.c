/* FAIL-2a: rolling over. The master seals a chunk without its primary: the intent and a new version
 * are durable before any member is fenced, and the length that becomes the seal's is one that a
 * member which is not unverified has answered, the shortest of them, and not below anything that is
 * known as committed. That nothing is granted meanwhile is INV-2's (ledger.c, inv2.c); that there
 * was a cause, INV-9's. */
#include "sim/observers/internal.h"

#include "sim/cluster/stranger.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool lh_ob_roll_covers(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct replica *r = lh_ob_replica(c, server);

    return !c->sealed || !c->intent || lh_ob_kernel(o, c, server)->sealed ||
           (r->fenced.version >= c->version && r->fenced.length >= c->length);
}

/* What the i-th member, a full one, has answered to the master that runs: what a former one heard
 * went with it. NULL: nothing, or it is lost since. */
static const struct fenced *heard_of(
    const struct lh_sim_observers *o, const struct chunk *c, size_t i, uint64_t version)
{
    const struct member *m = &c->members[i];
    const struct fenced *f = &c->replicas[m->server].fenced_heard;
    bool heard = f->version == version && f->heard_at >= o->master->started_at;

    return heard && (!m->lost || f->damaged) && !m->joining ? f : NULL;
}

/* The same; NULL, too, if its server has registered without the replica since. A log that is gone
 * decides nothing. */
static const struct fenced *answer_of(
    const struct lh_sim_observers *o, const struct chunk *c, size_t i, uint64_t version)
{
    return c->replicas[c->members[i].server].missing ? NULL : heard_of(o, c, i, version);
}

/* On how many members' disks must be what clients settle by, unless the primary itself has said
 * what it committed? */
static size_t logs_needed(const struct lh_sim_observers *o, const struct chunk *c)
{
    const struct file *f = lh_ob_file_find(o, c->file);

    /* Later nobody is waited for (KEEP-1); nor is known when that is on a clock that runs as it
     * likes. */
    if (f == NULL || o->config.clocks_beyond_rho ||
        lh_sim_now(o->sim) > lh_sim_master_config(o->cluster)->grace.ns / 4 * 3)
        return 1;
    return f->min_replicas;
}

/* How many logs a roll may have been decided by without waiting any longer. */
static size_t logs_awaited(const struct lh_sim_observers *o, const struct chunk *c)
{
    size_t full = 0, needed = logs_needed(o, c);

    for (size_t i = 0; i < c->member_count; i++)
        full += !c->members[i].joining && !c->members[i].lost;
    return full < needed ? full : needed;
}

/* What a single log has to be waited with for; 3/4, by the fastest clock. */
static uint64_t lone_wait(const struct lh_sim_observers *o)
{
    const struct lh_master_config *config = lh_sim_running_config(o->cluster, o->master->node);

    return (config->lone_log_after.ns != 0 ? config->lone_log_after.ns : config->session_term.ns) /
           4 * 3;
}

/* Before this moment (true ns) nothing can have been decided: so many logs were not heard yet, nor
 * the primary's word, nor was a single one waited with for long enough. */
static uint64_t heard_enough(
    const struct lh_sim_observers *o, const struct chunk *c, uint64_t version)
{
    uint64_t enough_at = UINT64_MAX, first_at = UINT64_MAX;

    for (size_t i = 0; i < c->member_count; i++) {
        const struct fenced *f = answer_of(o, c, i, version);
        if (f != NULL && !f->unverified && f->heard_at < first_at)
            first_at = f->heard_at;
    }
    /* By a clock that runs as fast as it may, if there is a bound at all. */
    if (first_at != UINT64_MAX)
        enough_at = o->config.clocks_beyond_rho ? first_at : first_at + lone_wait(o);

    for (size_t i = 0; i < c->member_count; i++) {
        const struct fenced *f = answer_of(o, c, i, version);
        size_t before = 0;
        if (f == NULL)
            continue;
        for (size_t n = 0; n < c->member_count; n++) {
            const struct fenced *other = answer_of(o, c, n, version);
            before += other != NULL && !other->unverified && other->heard_at <= f->heard_at;
        }
        if ((f->primary || before >= logs_awaited(o, c)) && f->heard_at < enough_at)
            enough_at = f->heard_at;
    }
    return enough_at == UINT64_MAX ? 0 : enough_at;
}

/* Members that have a log and have not answered, as far as anybody can know. */
static size_t silent(struct lh_sim_observers *o, struct chunk *c, uint64_t version)
{
    size_t count = 0;

    for (size_t i = 0; i < c->member_count; i++) {
        const struct member *m = &c->members[i];
        const struct replica *r = lh_ob_replica(c, m->server);
        const struct lh_sim_header *h = lh_ob_kernel(o, c, m->server);
        count += answer_of(o, c, i, version) == NULL && !m->joining && !m->lost && !r->missing &&
                 !r->lost && !r->damaged && h->valid && !h->lost && !h->copying &&
                 !lh_sim_is_decommissioned(o->cluster, m->server + 1);
    }
    return count;
}

/* FAIL-2a: fewer logs than acknowledge an append decide only when no other one was shown for some
 * time. */
static void check_lone(
    struct lh_sim_observers *o, struct chunk *c, uint64_t version, size_t verified)
{
    uint64_t first_at = UINT64_MAX, now = lh_sim_now(o->sim);

    /* What waits for a confirmation is as of when it came (HA-2). */
    if (verified >= logs_needed(o, c) || lh_sim_shared_etcd(o->cluster) != NULL ||
        silent(o, c, version) == 0)
        return;
    for (size_t i = 0; i < c->member_count; i++) {
        const struct fenced *f = &c->replicas[c->members[i].server].fenced_heard;
        if (f->version == version && f->heard_at < first_at)
            first_at = f->heard_at;
    }
    if (first_at <= now && now - first_at < lone_wait(o))
        lh_sim_fail(o->sim, "INV-4", c->id,
            "chunk %" PRIu64 " is to be sealed by %zu log(s) %" PRIu64
            " ms after the first was shown, and %zu of its members are silent (FAIL-2a)",
            c->id, verified, (now - first_at) / 1000000, silent(o, c, version));
}

void lh_ob_roll_log_goes(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct fenced *gone = &lh_ob_replica(c, server)->fenced_heard;
    uint64_t enough_at;

    if (!c->known || !c->intent || c->sealed || gone->version != c->version)
        return;
    enough_at = heard_enough(o, c, c->version);
    for (size_t i = 0; i < c->member_count && enough_at != 0; i++) {
        struct fenced *f = &c->replicas[c->members[i].server].fenced_heard;
        if (f->heard_at > enough_at)
            f->counted_at = UINT64_MAX;
    }
}

/* Are the log's bytes from that committed batch on whole batches, to the end of the file? */
static bool is_whole_from(const uint8_t *log, uint64_t size, const struct lh_sim_batch *committed)
{
    struct lh_sim_batch b;
    uint64_t at = committed->offset;

    if (log == NULL || !lh_sim_batch_read(log, size, at, &b) || b.chain != committed->chain)
        return false;
    while (at < size && lh_sim_batch_read(log, size, at, &b))
        at += b.size;
    return at == size;
}

/* REC-9: no log is evidence, and some are damaged. Everybody is heard who has anything, and nothing
 * is sealed away that was acknowledged and lies whole at one of them. What two truncated logs say
 * is FAIL-3's. */
static void check_damaged(
    struct lh_sim_observers *o, struct chunk *c, uint64_t version, uint64_t length)
{
    const struct lh_sim_batch *last = c->log_count == 0 ? NULL : &c->log[c->log_count - 1];
    size_t verified = 0, truncated = 0, damaged = 0;

    for (size_t i = 0; i < c->member_count; i++) {
        const struct fenced *f = answer_of(o, c, i, version);
        verified += f != NULL && !f->unverified && !f->truncated;
        truncated += f != NULL && f->truncated;
        damaged += f != NULL && f->damaged;
    }
    if (verified > 0 || truncated > 0 || damaged == 0)
        return;
    for (size_t i = 0; i < c->member_count && !failed(o); i++) {
        uint32_t server = c->members[i].server;
        const struct lh_sim_header *h = lh_ob_kernel(o, c, server);
        uint64_t size = 0;
        const uint8_t *log = lh_ob_log(o, c, server, false, &size);
        if (c->members[i].joining || c->replicas[server].header_damaged || !h->valid ||
            h->copying || lh_sim_is_decommissioned(o->cluster, server + 1) ||
            lh_sim_is_scrapped(o->servers[server]->node))
            continue;
        /* What was called lost stays so until it is copied (FAIL-4), whatever is found later. And
         * nobody knows what of a file in doubt is on the disk (FAIL-5). */
        if ((c->members[i].lost && !c->replicas[server].lost) || c->replicas[server].in_doubt)
            continue;
        if (answer_of(o, c, i, version) == NULL)
            lh_sim_fail(o->sim, "INV-4", c->id,
                "chunk %" PRIu64 " is to be sealed at %" PRIu64
                " bytes, no log is sure, and %s was not heard (REC-9)",
                c->id, length, o->servers[server]->name);
        else if (last != NULL && length < last->offset + last->size &&
                 is_whole_from(log, size, last))
            lh_sim_fail(o->sim, "INV-4", c->id,
                "chunk %" PRIu64 " is to be sealed at %" PRIu64
                " bytes, and %s has the acknowledged batch at %" PRIu64 " whole (REC-9)",
                c->id, length, o->servers[server]->name, last->offset);
    }
}

/* Has a member's replica rotted? */
static bool is_rotten(const struct chunk *c)
{
    for (size_t i = 0; i < c->member_count; i++) {
        const struct replica *r = &c->replicas[c->members[i].server];
        if (r->damaged && !r->misled)
            return true;
    }
    return false;
}

void lh_ob_roll_sealed(struct lh_sim_observers *o, struct chunk *c, uint64_t version,
    uint64_t length, uint64_t checksum)
{
    const struct fenced *answer = NULL;
    uint64_t committed = 0, longest = 0;
    size_t verified = 0, whole = 0, reported = 0, full = 0, given_up = 0;
    bool own = false;

    if (c->hopeless) {
        check_damaged(o, c, version, length);
        return;
    }
    for (size_t i = 0; i < c->member_count; i++) {
        const struct fenced *f = answer_of(o, c, i, version);
        bool counts = !c->members[i].joining && !c->members[i].lost;
        full += counts;
        if (f == NULL) {
            given_up += counts && lh_sim_is_decommissioned(o->cluster, c->members[i].server + 1);
            continue;
        }
        if (f->length > longest && f->counted_at != UINT64_MAX)
            longest = f->length;
        if (f->committed > committed)
            committed = f->committed;
        reported++;
        own = own || f->primary;
        if (f->length == length && f->checksum == checksum &&
            (answer == NULL || (answer->unverified && !f->unverified) ||
                (answer->unverified == f->unverified && f->heard_at < answer->heard_at)))
            answer = f;
    }
    for (size_t i = 0; i < c->member_count; i++) {
        const struct fenced *f = answer_of(o, c, i, version);
        bool counts = f != NULL && !f->unverified && f->length >= committed;
        verified += counts;
        whole += counts && !f->truncated;
    }
    bool sure = whole > 0 || verified > 1;
    if (whole == 0 && verified > 1 && is_rotten(c)) {
        c->hopeless = true; /* rot that passed for a tear (FAIL-3) */
        return;
    }
    bool notified = c->loss_reported_version == version && c->loss_reported_length == length;
    if (answer == NULL) {
        lh_sim_fail(o->sim, "INV-4", c->id,
            "chunk %" PRIu64 " is to be sealed at %" PRIu64
            " bytes, which no member has answered to the fence at version %" PRIu64 " (FAIL-2a)",
            c->id, length, version);
        return;
    }
    if (answer->unverified && sure) {
        lh_sim_fail(o->sim, "INV-4", c->id,
            "chunk %" PRIu64 " is to be sealed at %" PRIu64
            " bytes, which a member answered that is unverified (FAIL-2a)",
            c->id, length);
        return;
    }
    /* Then the longest of all logs counts, and the possible loss is told. What a primary answered
     * is what it had committed. */
    if (!sure && (answer->unverified || !own)) {
        if (reported + given_up < full || length < longest || !notified) {
            lh_sim_fail(o->sim, "INV-4", c->id,
                "chunk %" PRIu64 " is to be sealed at %" PRIu64 " bytes, though no log is sure: "
                "%zu of %zu have answered, the longest %" PRIu64 " bytes, and the loss was %s "
                "(FAIL-3)",
                c->id, length, reported, full, longest, notified ? "told" : "not told");
            return;
        }
        lh_ob_commit_lost(o, c, length);
    }
    if (!answer->unverified && length < committed)
        lh_sim_fail(o->sim, "INV-4", c->id,
            "chunk %" PRIu64 " is to be sealed at %" PRIu64 " bytes, and a member knows %" PRIu64
            " as committed (FAIL-2a)",
            c->id, length, committed);
    if (sure && !own && !failed(o))
        check_lone(o, c, version, verified);
    c->sealed_by_primary = own;
    /* Who is joining becomes a member with the seal, and gave no log. */
    c->logs_at_seal = logs_needed(o, c);
    for (size_t i = 0; i < c->member_count; i++) {
        /* Also of who comes back without it just now: it was there, as an acknowledged batch's is,
         * and the master hears what is missing when that server's session has begun. */
        const struct fenced *f = heard_of(o, c, i, version);
        if (f != NULL && f->length >= length)
            c->seal_logs |= UINT64_C(1) << (c->members[i].server % 64);
    }
    uint64_t enough_at = heard_enough(o, c, version);
    for (size_t i = 0; i < c->member_count && !answer->unverified && !failed(o); i++) {
        const struct fenced *f = answer_of(o, c, i, version);
        /* What came later may have come after the decision. */
        bool known = f != NULL && (f->counted_at <= answer->heard_at || f->counted_at <= enough_at);
        if (known && !f->unverified && !f->truncated && f->length >= committed &&
            f->length < length)
            lh_sim_fail(o->sim, "INV-4", c->id,
                "chunk %" PRIu64 " is to be sealed at %" PRIu64 " bytes, and %s answered %" PRIu64
                " (FAIL-2a)",
                c->id, length, o->servers[c->members[i].server]->name, f->length);
    }
}

/* A client settles there: what it finds counts as stored. */
static void settles(struct lh_sim_observers *o, const struct chunk *c, uint64_t version)
{
    size_t there = 0;

    if (!c->known || c->removed || !c->sealed || !c->intent || c->version != version ||
        c->sealed_by_primary || c->hopeless || c->loss_reported_version == version)
        return;
    /* What was on enough disks may have lost some of them since. */
    for (uint32_t i = 0; i < o->server_count; i++)
        there += ((c->seal_recorders | c->seal_logs) >> (i % 64) & 1) != 0 ||
                 lh_ob_roll_covers(o, (struct chunk *)(uintptr_t)c, i);
    size_t needed = logs_needed(o, c);
    if (there < (needed < c->logs_at_seal ? needed : c->logs_at_seal))
        lh_sim_fail(o->sim, "INV-4", c->id,
            "a client settles in chunk %" PRIu64 ", whose %" PRIu64
            " bytes are on the disks of %zu servers, and "
            "what it finds there counts as stored (FAIL-2a)",
            c->id, c->length, there);
}

void lh_ob_roll_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    /* A stranger may ask before it was told to, and whoever asks so keeps nothing. */
    if (a->part == PART_SERVER && s->method == LH_METHOD_SETTLE && s->message != NULL &&
        s->peer != NULL && !lh_sim_is_stranger(s->peer)) {
        const Leasehold__SettleRequest *m = (const Leasehold__SettleRequest *)s->message;
        settles(o, lh_ob_chunk(o, m->chunk), m->version);
    }
    if (a->part != PART_MASTER || s->method != LH_METHOD_SESSION || s->message == NULL ||
        s->peer == NULL)
        return;
    const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)s->message;
    if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_FENCED &&
        m->fenced->error == LEASEHOLD__ERROR_CODE__OK &&
        lh_ob_said_in_session(o, lh_ob_actor(o, s->peer), m->fenced->session)) {
        struct chunk *c = lh_ob_chunk(o, m->fenced->chunk);
        struct fenced *heard = &lh_ob_replica(c, lh_ob_actor(o, s->peer)->number)->fenced_heard;
        struct fenced said = {.version = m->fenced->version,
            .length = m->fenced->length,
            .checksum = m->fenced->checksum,
            .committed = m->fenced->committed,
            .unverified = m->fenced->unverified || m->fenced->damaged,
            .primary = m->fenced->primary,
            .truncated = m->fenced->truncated,
            .damaged = m->fenced->damaged,
            .heard_at = lh_sim_now(o->sim),
            .counted_at = lh_sim_now(o->sim)};
        bool again = heard->heard_at >= o->master->started_at && heard->version == said.version &&
                     heard->length == said.length && heard->checksum == said.checksum &&
                     heard->committed == said.committed && heard->unverified == said.unverified &&
                     heard->primary == said.primary && heard->truncated == said.truncated &&
                     heard->damaged == said.damaged;
        if (!again) /* else it may have decided by the first one */
            *heard = said;
        else if (heard->counted_at == UINT64_MAX)
            heard->counted_at = said.heard_at;
    }
}

/* "chunk 7 of "/log": ... above 300 bytes may be lost (version 4, sealed)": of this seal, and of no
 * other. A primary that is to go on says it in other words (REC-2a). */
static void hear_of_loss(struct lh_sim_observers *o, const char *text)
{
    const char *loss = strstr(text, " records above ");
    uint64_t chunk, length, version;
    int end = 0;

    if (loss == NULL || sscanf(text, "chunk %" SCNu64 " of", &chunk) != 1 ||
        sscanf(loss, " records above %" SCNu64 " bytes may be lost (version %" SCNu64 ", sealed)%n",
            &length, &version, &end) != 2 ||
        end == 0)
        return;
    struct chunk *c = lh_ob_chunk(o, chunk);
    c->loss_reported_version = version;
    c->loss_reported_length = length;
}

void lh_ob_roll_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part == PART_MASTER && s->effect->kind == LH_FX_LOG && s->effect->level == LH_ERROR)
        hear_of_loss(o, s->effect->text);
    if (a->part != PART_MASTER || s->method != LH_METHOD_SESSION || s->message == NULL ||
        s->peer == NULL)
        return;
    const Leasehold__SessionReply *m = (const Leasehold__SessionReply *)s->message;
    if (m->body_case != LEASEHOLD__SESSION_REPLY__BODY_FENCE)
        return;
    const struct chunk *c = lh_ob_chunk(o, m->fence->chunk);
    if (!c->known || !c->intent || c->version != m->fence->version)
        lh_sim_fail(o->sim, "INV-3", c->id,
            "the master fences %s at version %" PRIu64 " of chunk %" PRIu64
            ", and its store does not say that it intends to seal it at that version (FAIL-2a)",
            lh_sim_name(s->peer), m->fence->version, c->id);
}
