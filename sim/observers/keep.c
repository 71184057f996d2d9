/* KEEP-1 to KEEP-5: what a chunk has, and what is deleted.
 *
 * A replica is worth keeping while its server is a member, and while the chunk lacks any of its
 * members as far as the master can know: it asked for the removal in spite of that, or a server
 * carried it out in spite of being a member. Behind an older copy of the store nothing that was
 * known before counts any more, but that the master has no replica removed. */
#include "sim/observers/internal.h"

#include "sim/cluster/internal.h"
#include "sim/world/disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct member *find_member(const struct chunk *c, uint32_t server)
{
    for (size_t i = 0; i < c->member_count; i++)
        if (c->members[i].server == server)
            return &c->members[i];
    return NULL;
}

/* ---- A server removes a replica ---- */

static void removes(struct lh_sim_observers *o, const struct actor *a, uint64_t file)
{
    uint64_t size = 0;
    const uint8_t *bytes = lh_sim_file(a->node, file, &size);
    struct lh_sim_header h = lh_sim_header_read(bytes, size);

    if (!h.valid || h.lost || h.copying || size <= LH_SIM_LOG_START)
        return;
    const struct chunk *c = lh_ob_chunk_find(o, file);
    if (c == NULL || !c->known || c->removed || c->hopeless)
        return;
    const struct replica *r = &c->replicas[a->number];
    if (r->lost || r->damaged || r->sync_failed || find_member(c, a->number) == NULL)
        return;
    lh_sim_fail(o->sim, "KEEP-3", c->id,
        "%s removes its replica of chunk %" PRIu64 " at version %" PRIu64
        ", and is a member at version %" PRIu64,
        a->name, c->id, h.version, c->version);
}

/* ---- The master has one removed ---- */

/* NULL: as far as the master can know that member may be good. */
static const char *known_bad(
    const struct lh_sim_observers *o, const struct chunk *c, uint32_t server)
{
    const struct actor *a = o->servers[server];
    uint64_t patience = 3 * o->longest_term.ns + UINT64_C(5000000000);

    if (find_member(c, server)->lost)
        return "is lost";
    if (c->replicas[server].missing && !lh_ob_is_mixed(o))
        return "is missing";
    if (find_member(c, server)->joining)
        return "is not full";
    if (!a->alive && lh_sim_now(o->sim) - a->ended_at > patience)
        return "is away";
    return NULL;
}

/* KEEP-3: each of its members was heard from within two thirds of a term, and has answered within
 * a term to what the master said. NULL: as far as can be told from outside. */
static const char *out_of_touch(const struct lh_sim_observers *o, const struct actor *member)
{
    struct lh_duration term = lh_ob_model_session_term(o);
    struct lh_duration recently = lh_nanoseconds(term.ns / 3 * 2);

    /* What waits for a confirmation is as of when it came (HA-2). */
    if (o->config.clocks_beyond_rho || lh_ob_is_mixed(o))
        return NULL;
    if (member->heard_life != o->master_life ||
        lh_instant_reached(o->master->clock, lh_instant_add(member->heard_at, recently)))
        return "was not heard from for two thirds of a term";
    /* By the master's clock it is longer than that, whatever its rate. */
    if (lh_sim_now(o->sim) - member->notified_at > term.ns + term.ns / 4)
        return "has heard nothing from the master for a term";
    return NULL;
}

/* KEEP-3: which member that nothing befell has not recorded the seal? */
static const struct actor *lacks_seal(struct lh_sim_observers *o, struct chunk *c)
{
    for (size_t i = 0; c->sealed && i < c->member_count; i++) {
        uint32_t server = c->members[i].server;
        const struct lh_sim_header *h = lh_ob_kernel(o, c, server);
        const struct replica *r = lh_ob_replica(c, server);
        bool sound = h->valid && !h->lost && !h->copying && !r->lost && !r->damaged;
        if (sound && !h->sealed)
            return o->servers[server];
    }
    return NULL;
}

static void deletes_extra(
    struct lh_sim_observers *o, struct chunk *c, const struct actor *server, const struct file *f)
{
    const struct actor *unsealed = lacks_seal(o, c);
    bool drained = server->asked_to_drain_at != 0;

    if (unsealed != NULL) {
        lh_sim_fail(o->sim, "KEEP-3", c->id,
            "the master has %s remove a replica of chunk %" PRIu64
            ", and its member %s has not recorded the seal",
            server->name, c->id, unsealed->name);
        return;
    }
    if (c->member_count < (drained ? f->min_replicas : f->replication)) {
        lh_sim_fail(o->sim, "KEEP-3", c->id,
            "the master has %s remove a replica of chunk %" PRIu64
            ", which has %zu members and is to have %u",
            server->name, c->id, c->member_count, f->replication);
        return;
    }
    for (size_t i = 0; i < c->member_count; i++) {
        const struct actor *member = o->servers[c->members[i].server];
        const char *what = out_of_touch(o, member);
        if (what == NULL)
            continue;
        lh_sim_fail(o->sim, "KEEP-3", c->id,
            "the master has %s remove a replica of chunk %" PRIu64 ", and its member %s %s",
            server->name, c->id, member->name, what);
        return;
    }
}

static void asks_to_remove(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__RemoveReplica *m)
{
    struct chunk *c = lh_ob_chunk_find(o, m->chunk);

    if (o->restored && !o->resumed && m->version > 0)
        lh_sim_fail(o->sim, "KEEP-4", m->chunk,
            "the master has %s remove its replica of chunk %" PRIu64
            ", and its store is an older copy "
            "that no operator has looked at",
            server->name, m->chunk);
    if (o->restored || c == NULL || !c->known || c->removed || m->version == 0)
        return;
    if (find_member(c, server->number) != NULL) {
        lh_sim_fail(o->sim, "KEEP-3", c->id,
            "the master has %s remove its replica of chunk %" PRIu64 ", and names it as a member",
            server->name, c->id);
        return;
    }
    for (size_t i = 0; i < c->member_count; i++) {
        const char *what = known_bad(o, c, c->members[i].server);
        if (what == NULL)
            continue;
        lh_sim_fail(o->sim, "KEEP-3", c->id,
            "the master has %s remove a replica of chunk %" PRIu64 ", and that of its member %s %s",
            server->name, c->id, o->servers[c->members[i].server]->name, what);
        return;
    }
    const struct file *f = lh_ob_file_find(o, c->file);
    if (f != NULL)
        deletes_extra(o, c, server, f);
}

/* ---- The master has one copied ---- */

/* Only a member that has recorded the seal has what it covers for sure. */
static void asks_to_copy(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__CopyReplica *m)
{
    struct chunk *c = lh_ob_chunk(o, m->chunk);
    const struct member *own = find_member(c, server->number);

    if (m->sealed && server->showing && own != NULL && !own->lost) {
        lh_sim_fail(o->sim, "KEEP-1", c->id,
            "the master has %s copy sealed chunk %" PRIu64
            ", of which it is a member, and has not heard yet all that it has (SES-1a)",
            server->name, c->id);
        return;
    }
    for (size_t i = 0; m->sealed && i < m->n_sources; i++) {
        int32_t source = lh_ob_server_named(o, m->sources[i]->server_id);
        if (source < 0 || c->hopeless)
            continue;
        const struct lh_sim_header *h = lh_ob_kernel(o, c, (uint32_t)source);
        const struct replica *r = lh_ob_replica(c, (uint32_t)source);
        if (!h->valid || h->sealed || h->lost || h->copying || r->lost || r->damaged ||
            r->seal_kept)
            continue;
        lh_sim_fail(o->sim, "KEEP-1", c->id,
            "the master has %s copy sealed chunk %" PRIu64
            " from %s, which has not recorded the seal "
            "(REC-4)",
            server->name, c->id, o->servers[source]->name);
        return;
    }
}

/* ---- Files in the trash ---- */

void lh_ob_keep_purged(struct lh_sim_observers *o, const struct file *f)
{
    uint64_t retention = lh_sim_master_config(o->cluster)->trash_retention.ns;
    uint64_t stayed = lh_sim_now(o->sim) - f->trashed_at;
    uint32_t drift = lh_sim_master_config(o->cluster)->drift_ppm;

    if (!f->trashed || f->purge_asked || o->config.clocks_beyond_rho ||
        stayed >= retention - retention / 1000000 * drift)
        return;
    lh_sim_fail(o->sim, "KEEP-5", 0,
        "%s is gone from the trash after %" PRIu64 " ms, and could have been restored for %" PRIu64
        " ms",
        f->path, stayed / 1000000, retention / 1000000);
}

static void asked_to_remove(struct lh_sim_observers *o, const Leasehold__RemoveRequest *m)
{
    struct file *f, *next;

    HASH_ITER(hh, o->files, f, next) {
        if (f->path == NULL || (m->file != 0 ? f->id != m->file : strcmp(f->path, m->path) != 0))
            continue;
        f->removal_asked = true;
        f->purge_asked = f->purge_asked || m->now;
        f->recalled_at = lh_sim_now(o->sim);
    }
}

/* ---- Members ---- */

void lh_ob_keep_joined(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct lh_sim_header *h = lh_ob_kernel(o, c, server);
    const struct replica *r = lh_ob_replica(c, server);

    if (!h->valid || h->lost || r->lost || r->damaged || c->hopeless)
        return; /* it had it */
    if (h->copying)
        lh_sim_fail(o->sim, "INV-4", c->id,
            "%s was made a full member of chunk %" PRIu64 " at version %" PRIu64
            ", and its replica is incomplete (REC-4)",
            o->servers[server]->name, c->id, c->version);
}

uint32_t lh_ob_fit_servers(const struct lh_sim_observers *o)
{
    uint32_t fit = 0;

    for (uint32_t i = 0; i < o->server_count; i++)
        fit += !lh_sim_is_scrapped(o->servers[i]->node) && !lh_sim_is_draining(o->cluster, i + 1);
    return fit;
}

static bool chunk_is_whole(struct lh_sim_observers *o, const struct file *f, struct chunk *c,
    uint32_t fit, char *text, size_t text_size)
{
    uint32_t wanted = f->replication < fit ? f->replication : fit, there = 0;
    const char *left = NULL;

    for (size_t i = 0; i < c->member_count; i++) {
        uint32_t server = c->members[i].server;
        const struct lh_sim_header *h = lh_ob_kernel(o, c, server);
        if (c->members[i].joining)
            continue;
        if (lh_sim_is_draining(o->cluster, server + 1) && fit >= f->replication)
            left = o->servers[server]->name;
        else
            /* Rot in a header nobody finds before the next start. */
            there += (lh_ob_replica(c, server)->header_damaged ||
                         (h->valid && !h->lost && !h->copying)) &&
                     !lh_sim_is_scrapped(o->servers[server]->node);
    }
    if (there < wanted)
        (void)snprintf(text, text_size,
            "chunk %" PRIu64 " of %s, version %" PRIu64 ", has %u good members of %u", c->id,
            f->path, c->version, there, wanted);
    else if (left != NULL)
        (void)snprintf(text, text_size,
            "chunk %" PRIu64 " of %s, version %" PRIu64 ", still has %s, which drains", c->id,
            f->path, c->version, left);
    return there >= wanted && left == NULL;
}

bool lh_ob_keep_whole(struct lh_sim_observers *o, uint64_t *chunk, char *text, size_t text_size)
{
    uint32_t fit = lh_ob_fit_servers(o);
    struct file *f, *next;

    if (lh_sim_master_config(o->cluster)->repair_streams == 0)
        return true;
    HASH_ITER(hh, o->files, f, next) {
        if (f->removed || lh_ob_inv8_exempt(o, f))
            continue;
        for (size_t i = 0; i < f->chunk_count; i++) {
            struct chunk *c = f->chunks[i];
            if (c->removed || !c->created || c->hopeless || (!c->sealed && f->trashed) ||
                chunk_is_whole(o, f, c, fit, text, text_size))
                continue;
            *chunk = c->id;
            return false;
        }
    }
    return true;
}

/* ---- Watching ---- */

/* What its server has not any more, as the master hears in its registration. */
static void registers(
    struct lh_sim_observers *o, struct actor *server, const Leasehold__Register *m)
{
    struct chunk *c, *next;

    server->showing = false;
    HASH_ITER(hh, o->chunks, c, next) {
        bool there = false;
        for (size_t i = 0; i < m->n_replicas; i++)
            there = there || m->replicas[i]->chunk == c->id;
        bool missing = c->created && !there && !c->replicas[server->number].copied;
        if (missing && !c->replicas[server->number].missing)
            lh_ob_roll_log_goes(o, c, server->number);
        c->replicas[server->number].missing = missing;
    }
}

static void arrives(struct replica *r)
{
    r->missing = false;
    r->copied = true;
}

static void begins(struct lh_sim_observers *o, struct actor *server)
{
    struct chunk *c, *next;

    server->showing = true;
    HASH_ITER(hh, o->chunks, c, next)
        c->replicas[server->number].copied = false;
}

/* LEASE-6: a chunk that each member refuses rests; it is not granted as fast as messages travel.
 * Nothing follows from the refusal of a grant that a newer one has taken the place of (LEASE-3). A
 * server that stood still may refuse many of these at once. */
static void refuses(struct lh_sim_observers *o, const Leasehold__GrantConfirm *m)
{
    struct lh_duration rest = lh_sim_master_config(o->cluster)->refusal_rest; /* 0: the default */
    struct lh_instant now = o->master->clock;
    struct chunk *c = lh_ob_chunk(o, m->chunk);

    if (m->error == LEASEHOLD__ERROR_CODE__OK || m->version <= c->refused_version ||
        m->version < c->decided_version)
        return;
    c->refused_version = m->version;
    struct lh_instant *oldest = &c->refused_at[c->refusals++ % REFUSALS_A_SECOND];
    bool storm = c->refusals > REFUSALS_A_SECOND &&
                 lh_instant_before(now, lh_instant_add(*oldest, lh_milliseconds(1000)));
    *oldest = now;
    if (storm && (rest.ns == 0 || rest.ns >= UINT64_C(100000000)))
        lh_sim_fail(o->sim, "INV-8", c->id,
            "more than %d grants of chunk %" PRIu64 " were refused within a second (LEASE-6)",
            REFUSALS_A_SECOND, c->id);
}

void lh_ob_keep_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (s->message == NULL || s->peer == NULL)
        return;
    if (a->part == PART_SERVER && s->method == LH_METHOD_SESSION)
        a->notified_at = lh_sim_now(o->sim);
    if (a->part != PART_MASTER)
        return;
    if (s->method == LH_METHOD_SESSION) {
        struct actor *server = lh_ob_actor(o, s->peer);
        server->heard_at = a->clock;
        server->heard_life = o->master_life;
        const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)s->message;
        if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM)
            refuses(o, m->confirm);
    }
    if (s->method == LH_METHOD_GARBAGE) {
        o->resumed = o->resumed || ((const Leasehold__GarbageRequest *)s->message)->resume;
    } else if (s->method == LH_METHOD_SET_SERVER) {
        int32_t server =
            lh_ob_server_named(o, ((const Leasehold__SetServerRequest *)s->message)->server_id);
        if (server >= 0)
            o->servers[server]->asked_to_drain_at = lh_sim_now(o->sim);
    } else if (s->method == LH_METHOD_REMOVE) {
        asked_to_remove(o, (const Leasehold__RemoveRequest *)s->message);
    } else if (s->method == LH_METHOD_SESSION && !failed(o)) {
        const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)s->message;
        uint32_t server = lh_ob_actor(o, s->peer)->number;
        if (o->leases_whole != NULL)
            begins(o, lh_ob_actor(o, s->peer));
        if (o->whole != NULL)
            registers(o, lh_ob_actor(o, s->peer), o->whole);
        else if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED)
            lh_ob_chunk(o, m->seal_recorded->chunk)->replicas[server].seal_kept =
                m->seal_recorded->kept;
        else if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_CREATED)
            arrives(&lh_ob_chunk(o, m->created->chunk)->replicas[server]); /* between pieces */
        else if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_COPIED)
            arrives(&lh_ob_chunk(o, m->copied->chunk)->replicas[server]);
    }
}

void lh_ob_keep_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    const struct lh_effect *e = s->effect;

    if (lh_sim_failure(o->sim) != NULL)
        return;
    if (!o->restored && a->part == PART_SERVER && e->kind == LH_FX_DISK &&
        e->op == LH_DISK_REMOVE && e->file != LH_PROBE_FILE)
        removes(o, a, e->file);
    if (a->part != PART_MASTER || s->method != LH_METHOD_SESSION || s->message == NULL ||
        s->peer == NULL)
        return;
    const Leasehold__SessionReply *m = (const Leasehold__SessionReply *)s->message;
    if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_COPY && !o->restored)
        asks_to_copy(o, lh_ob_actor(o, s->peer), m->copy);
    if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_REMOVE)
        asks_to_remove(o, lh_ob_actor(o, s->peer), m->remove);
}

uint64_t lh_sim_observers_copies(const struct lh_sim_observers *o)
{
    return o->copies;
}
