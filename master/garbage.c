/* Replicas that nobody needs, and when they are deleted (KEEP-3, KEEP-4).
 *
 * An *extra* is a replica of a chunk that exists, at a server that is not a member of it: it was
 * reported so, or its server was dropped from the set. It may be the last copy of something, or
 * what a repair can begin with, so it goes only when the chunk is in perfect health without it.
 *
 * If the store is older than what servers have (it was restored from a backup), records are missing
 * that replicas depend on. Then nothing is deleted at all, until the operator has looked: removals
 * are *kept*, per server and session. */
#include "master/garbage.h"

#include "master/chunks.h"
#include "master/health.h"
#include "master/placement.h"
#include "master/sessions.h"
#include "master/tables/dirty.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"
#include "master/trash.h"

#include <inttypes.h>
#include <stdarg.h>

/* Above these a number is not raised to what a server reports: it would run out. */
#define VERSION_MAX    (UINT64_C(1) << 62)
#define CHUNK_LEAP_MAX (UINT64_C(1) << 48)

/* What a restored master skips: more than can have been given out since the backup. */
#define RESTORED_LEAP (UINT64_C(1) << 20)

static void garbage_timer(struct lh_master *m, struct lh_m_timer *timer);

void lh_m_garbage_init(struct lh_master *m)
{
    TAILQ_INIT(&m->extras);
    m->garbage_timer.fire = garbage_timer;
}

bool lh_m_deleting(const struct lh_master *m)
{
    return m->behind == NULL || LH_PLANTED("garbage-goes-on-after-restore");
}

static void look_soon(struct lh_master *m)
{
    if (!m->garbage_timer.armed && lh_m_deleting(m) && (m->extra_count > 0 || m->kept_count > 0))
        lh_m_timer_arm(m, &m->garbage_timer, lh_instant_add(m->now, m->config.garbage_first));
}

/* ---- Extras. */

static struct lh_m_extra *find_extra(const struct lh_m_chunk *c, const struct lh_m_server *s)
{
    struct lh_m_extra *e;

    TAILQ_FOREACH(e, &c->extras, link)
    if (e->server == s)
        return e;
    return NULL;
}

static void forget(struct lh_master *m, struct lh_m_extra *e)
{
    TAILQ_REMOVE(&e->chunk->extras, e, link);
    TAILQ_REMOVE(&e->server->extras, e, of_link);
    TAILQ_REMOVE(&m->extras, e, all_link);
    m->extra_count--;
    free(e);
}

void lh_m_extra_note(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s,
    uint64_t version, bool sealed, bool copying)
{
    struct lh_m_extra *e = find_extra(c, s);

    if (!lh_m_live(m, s))
        return; /* it tells when it registers */
    if (e == NULL) {
        e = lh_alloc(sizeof *e);
        e->chunk = c;
        e->server = s;
        TAILQ_INSERT_TAIL(&c->extras, e, link);
        TAILQ_INSERT_TAIL(&s->extras, e, of_link);
        TAILQ_INSERT_TAIL(&m->extras, e, all_link);
        m->extra_count++;
    }
    e->version = version;
    e->sealed = sealed;
    e->copying = copying;
    e->asked = false;
    look_soon(m);
}

void lh_m_extras_forget(struct lh_master *m, struct lh_m_server *s)
{
    struct lh_m_extra *e;
    struct lh_m_kept *k;

    while ((e = TAILQ_FIRST(&s->extras)) != NULL)
        forget(m, e);
    while ((k = TAILQ_FIRST(&s->kept)) != NULL) {
        TAILQ_REMOVE(&s->kept, k, link);
        m->kept_count--;
        free(k);
    }
}

void lh_m_extras_free(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_extra *e;

    while ((e = TAILQ_FIRST(&c->extras)) != NULL)
        forget(m, e);
}

struct lh_m_server *lh_m_extra_fit(struct lh_master *m, const struct lh_m_chunk *c)
{
    const struct lh_m_extra *e, *best = NULL;

    TAILQ_FOREACH(e, &c->extras, link)
    {
        /* One that was told to go is no start for a copy. */
        if (e->asked || lh_m_member(c, e->server) != NULL ||
            !lh_m_fits(m, e->server, c->file->chunk_size))
            continue;
        if (best == NULL || e->version > best->version)
            best = e;
    }
    return best == NULL ? NULL : best->server;
}

/* A member that a deletion can rely on: what counts as good for a repair may have been down for as
 * long as its session still runs, or may not have heard of the seal. */
static bool well(const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *i)
{
    return lh_m_member_health(m, c, i) == LH_M_GOOD && lh_m_looks_alive(m, i->server) &&
           lh_m_reachable(m, i->server) && (!c->sealed || i->sealed);
}

static uint32_t members_well(const struct lh_master *m, const struct lh_m_chunk *c)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->member_count; i++)
        count += well(m, c, &c->members[i]);
    return count;
}

/* KEEP-3. */
static bool of_no_use(const struct lh_master *m, const struct lh_m_extra *e)
{
    const struct lh_m_chunk *c = e->chunk;
    uint32_t count;

    if (c->removed || !c->created || !lh_m_is_durable(m, c->ticket) ||
        (c->intent_to_seal && !c->sealed) || lh_m_copy_at(m, c, e->server))
        return false;
    if (LH_PLANTED("garbage-ignores-health"))
        return true;
    count = members_well(m, c);
    /* As many as there should be. A server that is being drained does not keep a replica for a
     * file that asks for more of them than there are servers. */
    return count == c->member_count &&
           (count >= c->file->replication ||
               (count >= c->file->min_replicas &&
                   e->server->admin != LEASEHOLD__SERVER_ADMIN__ACTIVE));
}

static void look_at_extra(struct lh_master *m, struct lh_m_extra *e)
{
    struct lh_m_chunk *c = e->chunk;

    if (lh_m_member(c, e->server) != NULL && !LH_PLANTED("garbage-deletes-newest")) {
        LH_MARK("extra-is-member-again");
        forget(m, e);
        return;
    }
    if (e->asked)
        return;
    if (!of_no_use(m, e)) {
        LH_MARK("extra-kept");
        return;
    }
    LH_MARK("extra-deleted");
    /* A half-made copy has no version yet; 0 would spare it for the bytes that it has. */
    uint64_t version = e->version == 0 ? 1 : e->version < c->version ? e->version : c->version;
    if (LH_PLANTED("garbage-deletes-newest"))
        version = c->version;
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": %u good replicas; the one at %s (version %" PRIu64
        ") is of no use and goes",
        c->id, c->file->path, c->member_count, e->server->id, version);
    e->asked = true;
    lh_m_send_remove(m, e->server, c->id, version);
}

void lh_m_on_removed(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaRemoved *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);
    struct lh_m_extra *e = c == NULL ? NULL : find_extra(c, s);

    m->counts.replicas_deleted += report->error == LEASEHOLD__ERROR_CODE__OK;
    if (report->error != LEASEHOLD__ERROR_CODE__OK) {
        LH_MARK("removal-refused");
        lh_fx_log(m->fx, LH_WARN, "chunk %" PRIu64 ": %s keeps its replica: %s", report->chunk,
            s->id, lh_error_text(lh_error_from_wire((unsigned)report->error)));
        return;
    }
    m->extras_deleted++;
    if (e != NULL && e->asked)
        forget(m, e);
}

/* ---- An older copy of the metadata (KEEP-4). */

void lh_m_set_behind(struct lh_master *m, const char *format, ...)
{
    char text[LH_TEXT_BYTES];
    va_list args;

    if (m->behind != NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    m->behind = lh_strdup(text);
    lh_m_dirty_master(m);
    lh_fx_log(m->fx, LH_ERROR,
        "%s. Nothing is deleted any more, and the trash keeps what it has, until somebody has "
        "looked and says \"leasehold garbage --resume\"",
        text);
}

void lh_m_restored(struct lh_master *m)
{
    LH_MARK("metadata-restored");
    m->term += RESTORED_LEAP;
    m->next_chunk += RESTORED_LEAP;
    m->next_file += RESTORED_LEAP;
    lh_m_set_behind(m, "this master was started with --restored: the metadata is an older copy");
}

void lh_m_keep(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version)
{
    struct lh_m_kept *k;

    if (!lh_m_live(m, s))
        return;
    if (lh_m_deleting(m)) { /* a planted bug */
        lh_m_send_remove(m, s, chunk, version);
        return;
    }
    LH_MARK("removal-kept");
    k = lh_alloc(sizeof *k);
    k->chunk = chunk;
    k->version = version == 0 ? 1 : version;
    TAILQ_INSERT_TAIL(&s->kept, k, link);
    m->kept_count++;
}

static bool unknown_evidence(
    struct lh_master *m, const struct lh_m_server *s, const struct lh_m_report *r)
{
    struct lh_m_tombstone *t;
    struct lh_m_chunk *leaving;

    if (r->chunk >= m->next_chunk) {
        lh_m_set_behind(m,
            "chunkserver %s has a replica of chunk %" PRIu64
            ", and this master has not given out a number above %" PRIu64
            " yet: the metadata looks like an older copy",
            s->id, r->chunk, m->next_chunk - 1);
        if (r->chunk - m->next_chunk < CHUNK_LEAP_MAX) {
            m->next_chunk = r->chunk + 1;
            lh_m_dirty_master(m);
        }
        return true;
    }
    HASH_FIND(hh, m->chunks, &r->chunk, sizeof r->chunk, leaving);
    if (leaving != NULL || lh_m_spare_known(m, r->chunk))
        return false;
    HASH_FIND(hh, m->tombstones, &r->chunk, sizeof r->chunk, t);
    if (t == NULL) {
        LH_MARK("report-of-unknown-chunk");
        lh_m_set_behind(m,
            "chunkserver %s has a replica of chunk %" PRIu64
            ", which this master neither knows nor removed: the metadata looks like an older copy",
            s->id, r->chunk);
        return true;
    }
    /* A spare's has the version of its first grant, and never held a byte. */
    if (t->version == 0 ? r->version <= LH_M_SPARE_VERSION && r->length == 0
                        : r->version <= t->version)
        return false;
    LH_MARK("report-above-tombstone");
    lh_m_set_behind(m,
        "chunkserver %s has version %" PRIu64 " of chunk %" PRIu64
        ", which this master removed at version %" PRIu64 ": the metadata looks like an older copy",
        s->id, r->version, r->chunk, t->version);
    return true;
}

bool lh_m_report_evidence(
    struct lh_master *m, struct lh_m_server *s, struct lh_m_chunk *c, const struct lh_m_report *r)
{
    if (c == NULL)
        return unknown_evidence(m, s, r);
    /* A spare that became a chunk has the version of its first grant before it is granted. */
    if (r->version <= c->version || (!c->created && r->version <= LH_M_SPARE_VERSION))
        return false;
    LH_MARK("report-above-record");
    lh_m_set_behind(m,
        "chunkserver %s has version %" PRIu64 " of chunk %" PRIu64 ", and the newest on record is "
        "%" PRIu64 ": the metadata looks like an older copy",
        s->id, r->version, c->id, c->version);
    if (r->version >= VERSION_MAX)
        return true;
    if (r->version > c->seen_version)
        c->seen_version = r->version;
    /* Under a lease it keeps the lease's version; the next grant goes above what was seen. */
    if (c->created && !c->sealed && !c->intent_to_seal && c->holder == NULL) {
        c->version = r->version;
        lh_m_dirty_chunk(m, c);
    }
    return true;
}

/* What was kept may go, all of it, once that is durable: what the operator looked at includes
 * replicas that this metadata knows nothing of. */
static void bury_kept(struct lh_master *m)
{
    struct lh_m_server *s;
    struct lh_m_kept *k;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        TAILQ_FOREACH(k, &s->kept, link)
        {
            struct lh_m_tombstone *t;
            HASH_FIND(hh, m->tombstones, &k->chunk, sizeof k->chunk, t);
            if (lh_m_chunk_find(m, k->chunk) == NULL && !lh_m_spare_known(m, k->chunk) &&
                (t == NULL || t->version < k->version))
                lh_m_bury(m, k->chunk, k->version);
        }
    }
}

static size_t send_kept(struct lh_master *m, size_t left)
{
    struct lh_m_server *s;
    struct lh_m_kept *k;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        while (left > 0 && (k = TAILQ_FIRST(&s->kept)) != NULL) {
            struct lh_m_tombstone *t;
            HASH_FIND(hh, m->tombstones, &k->chunk, sizeof k->chunk, t);
            if (t != NULL && lh_m_chunk_find(m, k->chunk) == NULL)
                lh_m_send_remove(m, s, k->chunk, t->version);
            TAILQ_REMOVE(&s->kept, k, link);
            m->kept_count--;
            free(k);
            left--;
        }
    }
    return left;
}

static void garbage_timer(struct lh_master *m, struct lh_m_timer *timer)
{
    size_t left = m->config.step_work;
    struct lh_m_extra *e;

    if (!lh_m_deleting(m) || !lh_m_is_durable(m, m->resume_ticket))
        return; /* armed again by the operator's word, and when that is durable */
    left = send_kept(m, left);
    if (m->garbage_round == 0)
        m->garbage_round = m->extra_count;
    for (; left > 0 && m->garbage_round > 0; left--, m->garbage_round--) {
        e = TAILQ_FIRST(&m->extras);
        if (e == NULL) {
            m->garbage_round = 0;
            break;
        }
        TAILQ_REMOVE(&m->extras, e, all_link);
        TAILQ_INSERT_TAIL(&m->extras, e, all_link);
        look_at_extra(m, e);
    }
    if (m->garbage_round > 0 || m->kept_count > 0)
        lh_m_timer_arm(m, timer, m->now);
    else if (m->extra_count > 0)
        lh_m_timer_arm(m, timer, lh_instant_add(m->now, m->config.garbage_again));
}

void lh_m_garbage_durable(struct lh_master *m)
{
    if (!m->resumed || !lh_m_is_durable(m, m->resume_ticket))
        return;
    m->resumed = false;
    look_soon(m);
}

void lh_m_garbage_call(struct lh_master *m, uint64_t link, const Leasehold__GarbageRequest *request)
{
    Leasehold__GarbageReply reply = LEASEHOLD__GARBAGE_REPLY__INIT;
    uint64_t ticket = 1; /* a look is not held up by commits under way */

    if (request->resume && m->behind != NULL) {
        LH_MARK("garbage-resumed");
        lh_fx_log(m->fx, LH_WARN, "deletion is resumed; it was stopped because %s", m->behind);
        free(m->behind);
        m->behind = NULL;
        lh_m_dirty_master(m);
        bury_kept(m);
        lh_m_trash_start(m);
        m->resumed = true;
        ticket = m->resume_ticket = m->next_ticket;
    }
    reply.deleting = m->behind == NULL;
    if (m->behind != NULL)
        reply.why_not = m->behind;
    reply.files_trashed = m->trash_count;
    reply.replicas_extra = m->extra_count + m->kept_count;
    reply.replicas_deleted = m->extras_deleted;
    lh_m_reply(m, link, ticket, &reply.base);
}
