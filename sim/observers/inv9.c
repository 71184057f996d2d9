/* INV-9: a live, connected holder does not lose its lease without cause; one client's bad link is
 * no cause. By what the master hears and says:
 *   - it recalls a lease only for an operator, or because of a primary that lives and that clients
 *     cannot reach, or that cannot reach its members: if that was said more than once, for a while,
 *     and not again and again for one file;
 *   - it does not end a session that heartbeats have renewed, nor replace it by a registration that
 *     comes late (SES-1);
 *   - it extends the leases that a heartbeat in time lists, and continues those that a registration
 *     in time shows (that it frees none in force is INV-2's). */
#include "sim/observers/internal.h"
#include "sim/observers/registrations.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A lease that the master must let go on in its next answer to a server. */
struct due {
    uint64_t chunk, version;
};

struct server_causes {
    uint64_t link;              /* its session's stream, as the master has it; 0: broken, or none */
    bool inquired;              /* the master has asked whether it lives, and has heard nothing */
    struct lh_instant asked_at; /* first, on the master's clock */
    struct registrations registered;
    uint64_t stale_stamp;    /* of a registration that is not new; 0: none */
    uint64_t session;        /* the newest that the master gave */
    bool registering;        /* it has registered again since */
    struct lh_instant until; /* the session's end at the master */
    uint64_t stamp;          /* of the request that `due` is about */
    struct due *due;
    size_t due_count, due_capacity;
};

struct causes {
    struct server_causes servers[LH_SIM_NODES_MAX];
};

/* Ends are compared with this much room: what is about to run out may run out. */
#define ROOM lh_milliseconds(100)

static bool in_force(
    const struct lh_sim_observers *o, const struct chunk *c, uint32_t server, uint64_t version)
{
    for (size_t i = 0; i < c->promise_count; i++) {
        const struct promise *p = &c->promises[i];
        struct lh_ob_promised ends;
        if (p->server != server || p->version != version)
            continue;
        lh_ob_model_promise(o, p, &ends);
        if (lh_instant_before(
                lh_instant_add(o->master->clock, ROOM), lh_ob_grantor_waits_until(o, &ends)))
            return true;
    }
    return false;
}

/* An operator has asked for the lease, or for something that needs it: the server is to be emptied,
 * the file is to be removed, load is to be balanced. */
static bool was_recalled(const struct lh_sim_observers *o, const struct chunk *c)
{
    const struct file *f = lh_ob_file_find(o, c->file);
    uint64_t now = lh_sim_now(o->sim), window = 3 * o->longest_term.ns;

    if (c->holder >= 0 && o->servers[c->holder]->asked_to_drain_at != 0 &&
        now - o->servers[c->holder]->asked_to_drain_at < window)
        return true;
    if (lh_sim_master_config(o->cluster)->balance ||
        (f != NULL && (f->trashed || f->removal_asked)) ||
        (c->holder >= 0 && lh_sim_is_draining(o->cluster, (size_t)c->holder + 1)))
        return true;
    return (c->recalled_at != 0 && now - c->recalled_at < window) ||
           (f != NULL && f->recalled_at != 0 && now - f->recalled_at < window);
}

/* Did the master ask this holder to let another one? */
static bool consents(const struct lh_sim_observers *o, const struct chunk *c)
{
    return c->consent_at != 0 && c->consent_holder == c->decided_holder &&
           lh_sim_now(o->sim) - c->consent_at < 3 * o->longest_term.ns;
}

static bool is_recalled(const struct lh_sim_observers *o, const struct chunk *c)
{
    return was_recalled(o, c) || consents(o, c);
}

/* When the master got what it takes now. One that was not confirmed has kept it until it is (HA-2),
 * and counts from then. */
static uint64_t came_at(const struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    struct lh_instant now = lh_sim_clock(o->master->node);

    return lh_sim_now(o->sim) -
           (lh_instant_before(s->input->now, now) ? lh_instant_until(s->input->now, now).ns : 0);
}

static void note_word(struct words *w, uint64_t version, uint64_t at)
{
    if (w->version != version)
        *w = (struct words){.version = version, .first_at = at};
    w->last_at = at;
    w->count++;
}

static bool said_enough(
    const struct lh_sim_observers *o, const struct chunk *c, const struct words *w)
{
    uint64_t long_ns = lh_sim_master_config(o->cluster)->consent_after.ns / 4 * 3;

    return w->version == c->decided_version && w->count >= 2 &&
           (o->config.clocks_beyond_rho || w->last_at - w->first_at >= long_ns);
}

/* The master recalls the lease, and no operator has asked for it. Is there a cause? */
static void check_consent(struct lh_sim_observers *o, struct chunk *c, const char *server)
{
    struct file *f = lh_ob_file_find(o, c->file);
    uint64_t now = lh_sim_now(o->sim);
    const struct lh_master_config *config = lh_sim_master_config(o->cluster);
    uint64_t rest_ns = lh_duration_min(config->consent_rest, config->consent_rest_max).ns / 4 * 3;

    if (consents(o, c) || f == NULL)
        return; /* it is sent again until it is answered */
    if (!said_enough(o, c, &c->lost) && !said_enough(o, c, &c->lonely)) {
        lh_sim_fail(o->sim, "INV-9", c->id,
            "the master recalls chunk %" PRIu64 " at version %" PRIu64
            " from %s; no operator has asked for it, "
            "and nobody has said for long enough that its primary is of no use",
            c->id, c->decided_version, server);
        return;
    }
    if (f->consent_at > o->master->started_at && now - f->consent_at < rest_ns &&
        !o->config.clocks_beyond_rho)
        lh_sim_fail(o->sim, "INV-9", c->id,
            "the master recalls chunk %" PRIu64
            " from %s, and moved a lease of the same file %" PRIu64 " ms ago",
            c->id, server, (now - f->consent_at) / 1000000);
    f->consent_at = c->consent_at = now;
    c->consent_holder = c->decided_holder;
}

/* A client asks for the tail, and may say which primary it could not reach. */
static void hears_of_loss(
    struct lh_sim_observers *o, const Leasehold__OpenTailRequest *m, uint64_t at)
{
    struct chunk *c = lh_ob_chunk_find(o, m->failed_chunk);
    const struct file *f = c == NULL ? NULL : lh_ob_file_find(o, c->file);

    if (f != NULL && !f->removed && f->chunk_count > 0 && f->chunks[f->chunk_count - 1] == c &&
        (m->file != 0 ? f->id == m->file : strcmp(f->path, m->path) == 0) &&
        m->failed_version != 0 && m->failed_version == c->decided_version)
        note_word(&c->lost, m->failed_version, at);
}

/* The master must let these leases go on, if they are the newest and in force. */
static void note_due(struct lh_sim_observers *o, const struct actor *server, uint64_t stamp,
    Leasehold__ChunkVersion **leases, size_t count, bool continued)
{
    struct server_causes *k = &o->causes->servers[server->number];

    if (!continued && stamp == k->stamp)
        return; /* of the same reading (TIME-1): the answer that comes first is to the first one */
    k->stamp = stamp;
    k->due_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct chunk *c = lh_ob_chunk_find(o, leases[i]->chunk);
        if (c == NULL || !c->known || c->removed || c->sealed ||
            c->decided_holder != (int32_t)server->number ||
            c->decided_version != leases[i]->version ||
            c->holder_incarnation != lh_sim_stored_incarnation(server->node) ||
            (!continued && is_recalled(o, c)) ||
            !in_force(o, c, server->number, leases[i]->version))
            continue;
        LH_GROW(k->due, k->due_capacity, k->due_count + 1);
        k->due[k->due_count++] = (struct due){leases[i]->chunk, leases[i]->version};
    }
}

static void check_due(struct lh_sim_observers *o, const struct actor *server, uint64_t stamp,
    Leasehold__Continued **leases, size_t count, const char *what)
{
    struct server_causes *k = &o->causes->servers[server->number];

    for (size_t i = 0; stamp == k->stamp && i < k->due_count; i++) {
        const struct chunk *c = lh_ob_chunk_find(o, k->due[i].chunk);
        bool there = false;
        for (size_t n = 0; n < count; n++)
            there = there || (leases[n]->chunk == k->due[i].chunk &&
                                 leases[n]->version == k->due[i].version);
        /* Released, or gone, since it was asked for: a registration's answer waits for a commit. */
        if (there || c->removed || c->decided_holder != (int32_t)server->number ||
            c->decided_version != k->due[i].version || lh_ob_ledger_deciding(o, c))
            continue;
        lh_sim_fail(o->sim, "INV-9", c->id,
            "the master does not %s the lease of %s on chunk %" PRIu64 " at version %" PRIu64
            ", which is in force",
            what, server->name, c->id, c->version);
        return;
    }
    k->due_count = 0;
}

/* ---- Rolling over (FAIL-2a) ---- */

/* Inquiries to one server are at least so far apart, so one may go out so much later than the
 * client's word came. */
#define INQUIRY_PAUSE lh_milliseconds(60)

/* By its primary's word, or by the set itself (REC-3). */
static bool short_of_members(const struct lh_sim_observers *o, const struct chunk *c)
{
    const struct file *f = lh_ob_file_find(o, c->file);
    uint64_t now = lh_sim_now(o->sim);
    size_t full = 0;

    for (size_t i = 0; i < c->member_count; i++)
        full += !c->members[i].joining;
    return (f != NULL && full < f->min_replicas) ||
           (c->member_failed_at != 0 && now - c->member_failed_at < UINT64_C(60000000000));
}

void lh_ob_inv9_rolls(struct lh_sim_observers *o, const struct chunk *c)
{
    struct lh_duration suspect = lh_sim_master_config(o->cluster)->suspect_after;

    /* Its timers came first: what was waiting then may have been an answer. */
    if (c->decided_holder < 0 || lh_ob_is_mixed(o))
        return;
    const struct server_causes *k = &o->causes->servers[c->decided_holder];
    struct lh_instant due = lh_instant_add(
        k->asked_at, suspect.ns < INQUIRY_PAUSE.ns ? lh_nanoseconds(0)
                                                   : lh_nanoseconds(suspect.ns - INQUIRY_PAUSE.ns));
    bool silent = k->inquired && !lh_instant_before(o->master->clock, due);
    bool over = !lh_instant_before(o->master->clock, k->until);
    bool shown = false; /* in its present session, and not run out */
    for (size_t i = 0; i < c->promise_count; i++)
        shown = shown || (c->promises[i].server == (uint32_t)c->decided_holder &&
                             c->promises[i].session == k->session);
    shown = shown && in_force(o, c, (uint32_t)c->decided_holder, c->decided_granted);
    if (k->link == 0 || silent || over || !shown || short_of_members(o, c))
        return;
    lh_sim_fail(o->sim, "INV-9", c->id,
        "the master takes chunk %" PRIu64 ", version %" PRIu64
        ", from %s by rolling over, and the stream of its "
        "session is whole and no inquiry went unanswered",
        c->id, c->decided_version, o->servers[c->decided_holder]->name);
}

static void stream_over(struct lh_sim_observers *o, uint64_t link)
{
    for (uint32_t i = 0; link != 0 && i < o->server_count; i++)
        if (o->causes->servers[i].link == link)
            o->causes->servers[i].link = 0;
}

/* ---- What the master hears ---- */

static void registers(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__Register *m)
{
    struct server_causes *k = &o->causes->servers[server->number];

    if (!lh_ob_registration_is_new(&k->registered, m)) {
        k->stale_stamp = m->stamp;
        return;
    }
    k->registering = true;
    note_due(o, server, m->stamp, m->held, m->n_held, true);
}

static void recalls(struct lh_sim_observers *o, const Leasehold__RecallRequest *m)
{
    struct file *f, *next;

    if (m->chunk != 0) {
        lh_ob_chunk(o, m->chunk)->recalled_at = lh_sim_now(o->sim);
        return;
    }
    HASH_ITER(hh, o->files, f, next) {
        if (!f->removed && strcmp(f->path, m->path) == 0)
            f->recalled_at = lh_sim_now(o->sim);
    }
}

void lh_ob_inv9_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part == PART_MASTER && s->input->kind == LH_IN_LINK_CLOSED)
        stream_over(o, s->link);
    if (a->part != PART_MASTER || s->message == NULL || s->peer == NULL)
        return;
    if (s->method == LH_METHOD_OPEN_TAIL) {
        hears_of_loss(o, (const Leasehold__OpenTailRequest *)s->message, came_at(o, s));
    } else if (s->method == LH_METHOD_RECALL) {
        recalls(o, (const Leasehold__RecallRequest *)s->message);
    } else if (s->method == LH_METHOD_SESSION) {
        const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)s->message;
        const struct actor *server = lh_ob_actor(o, s->peer);
        struct server_causes *k = &o->causes->servers[server->number];
        /* What is refused answers nothing: a registration answers when it counts (SES-1b, says()),
         * a heartbeat if its session does. */
        k->inquired = k->inquired && (m->body_case != LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT ||
                                         m->heartbeat->session != k->session);
        if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_MEMBER_FAILED) {
            struct chunk *c = lh_ob_chunk(o, m->member_failed->chunk);
            c->member_failed_at = lh_sim_now(o->sim);
            if (m->member_failed->appends_wait)
                note_word(&c->lonely, m->member_failed->version, came_at(o, s));
            if (!m->member_failed->unsure)
                c->sure_version = m->member_failed->version;
        }
        if (o->leases_whole != NULL)
            registers(o, server, o->leases_whole);
        else if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT)
            note_due(o, server, m->heartbeat->stamp, m->heartbeat->active, m->heartbeat->n_active,
                false);
    }
}

/* ---- What it says ---- */

static void check_unknown(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__HeartbeatReply *m)
{
    const struct server_causes *k = &o->causes->servers[server->number];

    if (m->session == k->session && !k->registering &&
        lh_instant_before(lh_instant_add(o->master->clock, ROOM), k->until))
        lh_sim_fail(o->sim, "INV-9", 0,
            "the master ended the session of %s, which it had renewed for another %" PRIu64 " ms",
            server->name, lh_instant_until(o->master->clock, k->until).ns / 1000000);
}

static void says(struct lh_sim_observers *o, const struct actor *server,
    const Leasehold__SessionReply *m, uint64_t link)
{
    struct server_causes *k = &o->causes->servers[server->number];

    switch (m->body_case) {
    case LEASEHOLD__SESSION_REPLY__BODY_REGISTERED:
        lh_ob_registration_answered(&k->registered, m->registered);
        if (m->registered->error != LEASEHOLD__ERROR_CODE__OK)
            return;
        if (m->registered->stamp == k->stale_stamp) {
            lh_sim_fail(o->sim, "INV-9", 0,
                "the master opens a session for a registration of %s that came after a later one "
                "(SES-1)",
                server->name);
            return;
        }
        check_due(o, server, m->registered->stamp, m->registered->continued,
            m->registered->n_continued, "continue");
        k->session = m->registered->session;
        k->registering = false;
        k->link = link;
        k->inquired = false;
        k->until = lh_ob_model_session_until(o, server, k->session);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT:
        if (m->heartbeat->error != LEASEHOLD__ERROR_CODE__OK) {
            check_unknown(o, server, m->heartbeat);
            return;
        }
        check_due(o, server, m->heartbeat->stamp, m->heartbeat->extended, m->heartbeat->n_extended,
            "extend");
        if (m->heartbeat->session == k->session)
            k->until = lh_ob_model_session_until(o, server, k->session);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_INQUIRY:
        if (!k->inquired)
            k->asked_at = o->master->clock;
        k->inquired = true;
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_RECALL: {
        struct chunk *c = lh_ob_chunk(o, m->recall->chunk);
        if (c->decided_holder != (int32_t)server->number)
            break; /* it acts on what is not its, and is told so (LEASE-8) */
        if (was_recalled(o, c))
            c->recalled_at = lh_sim_now(o->sim); /* it is sent again until it is answered */
        else
            check_consent(o, c, server->name);
        break;
    }
    default:
        break;
    }
}

/* ---- What the holder asks (LEASE-4) ---- */

void lh_ob_inv9_stored(
    struct lh_sim_observers *o, struct chunk *c, uint32_t server, const struct lh_sim_batch *b)
{
    struct replica *r = lh_ob_replica(c, server);

    /* A repeat may have been ordered long before. */
    if (lh_ob_submitted_at(o, b) > r->listed_at)
        r->ordered = true;
}

/* It counts again: the lease may have run out, and been given again at the same version. */
static void recovered(struct replica *r, const struct actor *a)
{
    r->ordered = false;
    r->listed_at = a->stepped_at;
}

static void check_asked(
    struct lh_sim_observers *o, const struct actor *a, const Leasehold__Heartbeat *m)
{
    for (size_t i = 0; i < m->n_active; i++) {
        struct replica *r = lh_ob_replica(lh_ob_chunk(o, m->active[i]->chunk), a->number);
        r->listed_at = a->stepped_at;
        r->ordered = false;
    }
    for (size_t i = 0; !a->stopping && i < lh_ob_model_held(o, a); i++) {
        struct chunk *c = lh_ob_chunk(o, lh_ob_model_held_chunk(o, a, i));
        struct lh_instant end;
        uint64_t version;
        /* It may have let a lease go that an answer under way continues. */
        if (!lh_ob_replica(c, a->number)->ordered || is_recalled(o, c) ||
            c->decided_holder != (int32_t)a->number || /* it is asked to give it up (LEASE-8) */
            !lh_ob_model_right(o, a, c->id, &version, &end) || !lh_instant_before(a->clock, end) ||
            !lh_ob_believes(a, c->id, a->clock, &version) || c->decided_version > version)
            continue; /* nor is one asked for that was recalled, and then overtaken by a roll */
        lh_sim_fail(o->sim, "INV-9", c->id,
            "%s has ordered appends of chunk %" PRIu64 " at version %" PRIu64
            " and does not ask to extend its "
            "lease (LEASE-4)",
            a->name, c->id, version);
        return;
    }
}

void lh_ob_inv9_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part == PART_MASTER && s->effect->kind == LH_FX_CLOSE)
        stream_over(o, s->link);
    if (s->method != LH_METHOD_SESSION || s->message == NULL || s->peer == NULL)
        return;
    const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)s->message;
    if (a->part == PART_MASTER)
        says(o, lh_ob_actor(o, s->peer), (const Leasehold__SessionReply *)s->message, s->link);
    else if (a->part == PART_SERVER && m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT)
        check_asked(o, a, m->heartbeat);
    else if (a->part == PART_SERVER && m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_RECOVERED)
        recovered(lh_ob_replica(lh_ob_chunk(o, m->recovered->chunk), a->number), a);
}

void lh_ob_inv9_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what)
{
    if (a->part != PART_MASTER || what != LH_SIM_LIFE_STARTED)
        return;
    for (uint32_t i = 0; i < o->server_count; i++) {
        o->causes->servers[i].session = 0;
        o->causes->servers[i].due_count = 0;
        o->causes->servers[i].link = 0;
    }
}

void lh_ob_inv9_init(struct lh_sim_observers *o)
{
    o->causes = lh_alloc(sizeof *o->causes);
}

void lh_ob_inv9_deinit(struct lh_sim_observers *o)
{
    for (uint32_t i = 0; i < o->server_count; i++)
        free(o->causes->servers[i].due);
    free(o->causes);
}
