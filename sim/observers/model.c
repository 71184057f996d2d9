/* The lease model: who may act on which chunk until when, reckoned from what was sent and received,
 * from true clock readings and from the master's settings (TIME-4), not from what nodes believe and
 * not from the terms that answers carry.
 *
 * It has two sides. What the master *promised* counts from when it said so: it has to wait for that
 * whether or not the answer arrives. What a holder *holds* counts from when it was told. */
#include "sim/observers/internal.h"
#include "sim/observers/registrations.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* As many requests of a server are remembered for their answers. */
#define REQUESTS_MAX 128u

/* A Register or Heartbeat that a server sent. */
struct request {
    uint64_t stamp, incarnation, process;
    struct lh_instant sent;     /* the sender's clock when it left */
    struct lh_instant received; /* the master's when it came; zero: it has not */
};

struct session {
    uint64_t number, incarnation, process;
    uint64_t master_life;
    const struct actor *master;                  /* whose clock `grantor_end` is on ... */
    uint64_t boot;                               /* ... under that boot */
    uint64_t promised_at;                        /* true ns: last */
    struct lh_duration session_term, chunk_term; /* the master's settings */
    uint32_t drift_ppm;
    struct lh_instant holder_end, grantor_end; /* promised */
    bool over; /* a registration was heard that ends it: what is said in it now binds nobody */
};

/* What a server was told and still has. */
struct holding {
    uint64_t chunk, version;
    struct lh_instant end;
};

struct server_model {
    struct request requests[REQUESTS_MAX];
    size_t request_count; /* ever */
    struct session *sessions;
    size_t session_count, session_capacity;
    char *machine; /* of its last registration */
    struct registrations registered;
    bool registering; /* it has sent one since its last session: that one is over for it */

    /* An answer to its registration, taken in the present step. A server that has heard of a newer
     * master elsewhere refuses it by hanging up. */
    struct answer {
        uint64_t link; /* 0: there is none */
        uint64_t stamp, session;
        struct continued {
            uint64_t chunk, version;
        } * continued;
        size_t count, capacity;
    } answer;

    uint64_t session; /* that it was told of; 0: none in this life */
    struct lh_instant session_end;
    struct holding *holdings;
    size_t holding_count, holding_capacity;
};

/* A master began to act. */
struct start {
    uint64_t at, boot; /* true ns; the boot of its machine */
    const struct lh_sim_node *node;
    struct lh_instant reading; /* of its clock */
};

struct lease_model {
    struct lh_sim_observers *observers;
    struct start *starts;
    size_t start_count, start_capacity;
    struct server_model *servers;
    struct lh_master_config settings; /* of the master that runs */
    uint64_t *promised;               /* chunks, in its present step */
    size_t promised_count, promised_capacity;
};

/* TIME-4. */
static struct lh_instant holder_end(const struct session *s, struct lh_instant sent, uint64_t term)
{
    unsigned __int128 share = (unsigned __int128)term * (1000000 - s->drift_ppm);

    return lh_instant_add(sent, lh_nanoseconds((uint64_t)(share / (1000000 + s->drift_ppm))));
}

static struct lh_instant grantor_end(struct lh_instant received, uint64_t term)
{
    return lh_instant_add(lh_instant_add(received, lh_nanoseconds(term)), lh_milliseconds(1));
}

static struct request *find_request(struct server_model *b, uint64_t stamp)
{
    size_t from = b->request_count < REQUESTS_MAX ? 0 : b->request_count - REQUESTS_MAX;

    for (size_t i = b->request_count; i > from; i--)
        if (b->requests[(i - 1) % REQUESTS_MAX].stamp == stamp)
            return &b->requests[(i - 1) % REQUESTS_MAX];
    return NULL;
}

static struct session *find_session(const struct server_model *b, uint64_t number)
{
    for (size_t i = b->session_count; i > 0; i--)
        if (b->sessions[i - 1].number == number)
            return &b->sessions[i - 1];
    return NULL;
}

static struct holding *find_holding(const struct server_model *b, uint64_t chunk)
{
    for (size_t i = 0; i < b->holding_count; i++)
        if (b->holdings[i].chunk == chunk)
            return &b->holdings[i];
    return NULL;
}

static struct promise *find_promise(
    const struct chunk *c, uint32_t server, uint64_t session, uint64_t version)
{
    for (size_t i = 0; i < c->promise_count; i++)
        if (c->promises[i].server == server && c->promises[i].session == session &&
            c->promises[i].version == version)
            return &c->promises[i];
    return NULL;
}

static void drop_promise(struct chunk *c, size_t index)
{
    memmove(&c->promises[index], &c->promises[index + 1],
        (--c->promise_count - index) * sizeof *c->promises);
}

static struct server_model *model_of(const struct lh_sim_observers *o, const struct actor *a)
{
    LH_ASSERT(a->part == PART_SERVER);
    return &o->model->servers[a->number];
}

/* ---- What the server asks, and gives back ---- */

static void asked(struct lh_sim_observers *o, struct actor *server, uint64_t stamp)
{
    struct server_model *b = model_of(o, server);

    b->requests[b->request_count++ % REQUESTS_MAX] = (struct request){.stamp = stamp,
        .incarnation = lh_sim_stored_incarnation(server->node),
        .process = lh_sim_incarnation(server->node),
        .sent = lh_sim_clock(server->node)};
}

static void drop_holding(struct server_model *b, uint64_t chunk, uint64_t version)
{
    struct holding *h = find_holding(b, chunk);

    if (h != NULL && h->version <= version)
        *h = b->holdings[--b->holding_count];
}

/* LEASE-6: it will never act on that version or a lower one. */
static void gave_up(
    struct lh_sim_observers *o, const struct actor *server, uint64_t chunk, uint64_t version)
{
    struct replica *r = lh_ob_replica(lh_ob_chunk(o, chunk), server->number);

    if (version > r->released)
        r->released = version;
    drop_holding(model_of(o, server), chunk, version);
}

/* And the master hears of it. */
static void given_back(
    struct lh_sim_observers *o, const struct actor *server, uint64_t chunk, uint64_t version)
{
    struct chunk *c = lh_ob_chunk(o, chunk);

    for (size_t i = c->promise_count; i > 0; i--)
        if (c->promises[i - 1].server == server->number && c->promises[i - 1].version <= version)
            drop_promise(c, i - 1);
}

/* Release, SealReport and a GrantConfirm with an error say the same of the lease. */
static bool gives_up(const Leasehold__SessionRequest *m, uint64_t *chunk, uint64_t *version)
{
    switch (m->body_case) {
    case LEASEHOLD__SESSION_REQUEST__BODY_RELEASE:
        *chunk = m->release->chunk;
        *version = m->release->version;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_SEAL:
        *chunk = m->seal->chunk;
        *version = m->seal->version;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM:
        *chunk = m->confirm->chunk;
        *version = m->confirm->version;
        return m->confirm->error != LEASEHOLD__ERROR_CODE__OK;
    default:
        return false;
    }
}

static bool is_shown(Leasehold__ChunkVersion *const *leases, size_t count, uint64_t chunk)
{
    for (size_t i = 0; i < count; i++)
        if (leases[i]->chunk == chunk)
            return true;
    return false;
}

/* SES-5a, LEASE-8: what it does not show it has given up. */
static void shows(struct lh_sim_observers *o, const struct actor *server,
    Leasehold__ChunkVersion *const *leases, size_t count)
{
    const struct server_model *b = model_of(o, server);

    for (size_t i = b->holding_count; i > 0; i--)
        if (!is_shown(leases, count, b->holdings[i - 1].chunk))
            gave_up(o, server, b->holdings[i - 1].chunk, b->holdings[i - 1].version);
}

static void says(
    struct lh_sim_observers *o, struct actor *server, const Leasehold__SessionRequest *m)
{
    uint64_t chunk, version;

    if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_REGISTER) {
        if (o->follows)
            return;
        asked(o, server, m->register_->stamp);
        if (o->leases_whole != NULL)
            shows(o, server, o->leases_whole->held, o->leases_whole->n_held);
        model_of(o, server)->registering = true;
    } else if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_SHOWN) {
        shows(o, server, m->shown->leases, m->shown->n_leases);
    } else if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT) {
        asked(o, server, m->heartbeat->stamp);
    } else if (gives_up(m, &chunk, &version)) {
        gave_up(o, server, chunk, version);
    }
}

/* SES-5: a higher incarnation from the same machine proves that the old process is dead. SES-5a:
 * within one incarnation the process says itself what it may act on, unless a later registration of
 * it has come before. */
static void registers(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__Register *m)
{
    struct server_model *b = model_of(o, server);
    struct chunk *c, *next;

    bool proof =
        b->machine != NULL && strcmp(b->machine, m->machine_id) == 0 && m->machine_id[0] != 0;
    if (!lh_ob_registration_is_new(&b->registered, m))
        return;
    free(b->machine);
    b->machine = lh_strdup(m->machine_id);
    for (size_t i = 0; i < b->session_count; i++) {
        struct session *s = &b->sessions[i];
        if (s->incarnation < m->incarnation
                ? proof
                : s->incarnation == m->incarnation && s->process == m->process)
            s->over = true;
    }
    HASH_ITER(hh, o->chunks, c, next) {
        bool unshown = !is_shown(m->held, m->n_held, c->id);
        for (size_t i = c->promise_count; i > 0; i--)
            if (c->promises[i - 1].server == server->number &&
                (c->promises[i - 1].incarnation < m->incarnation
                        ? proof
                        : unshown && c->promises[i - 1].incarnation == m->incarnation &&
                              c->promises[i - 1].process == m->process))
                drop_promise(c, i - 1);
    }
}

/* LEASE-8: what it had confirmed in this session and does not show. */
static void has_shown(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__ShownLeases *m)
{
    struct chunk *c, *next;

    HASH_ITER(hh, o->chunks, c, next) {
        if (is_shown(m->leases, m->n_leases, c->id))
            continue;
        for (size_t i = c->promise_count; i > 0; i--)
            if (c->promises[i - 1].server == server->number && c->promises[i - 1].confirmed &&
                c->promises[i - 1].session == m->session)
                drop_promise(c, i - 1);
    }
}

static void confirms(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__GrantConfirm *m)
{
    struct promise *p =
        find_promise(lh_ob_chunk(o, m->chunk), server->number, m->session, m->version);

    if (p != NULL)
        p->confirmed = true;
}

static void heard_by_master(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__SessionRequest *m)
{
    uint64_t chunk, version;
    struct request *r = NULL;

    if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_REGISTER) {
        if (o->leases_whole != NULL)
            registers(o, server, o->leases_whole);
        if (!o->follows)
            r = find_request(model_of(o, server), m->register_->stamp);
    } else if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT) {
        r = find_request(model_of(o, server), m->heartbeat->stamp);
    } else if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_SHOWN) {
        has_shown(o, server, m->shown);
    } else if (gives_up(m, &chunk, &version)) {
        given_back(o, server, chunk, version);
    } else if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM) {
        confirms(o, server, m->confirm);
    }
    if (r != NULL)
        r->received = o->master->clock;
}

/* ---- What the master promises ---- */

/* Sessions that have run out on both sides bind nobody. */
static void prune_sessions(struct lh_sim_observers *o, const struct actor *server)
{
    struct server_model *b = model_of(o, server);
    struct lh_instant holder = lh_sim_clock(server->node);
    size_t kept = 0;

    for (size_t i = 0; i < b->session_count; i++) {
        const struct session *s = &b->sessions[i];
        if (lh_instant_before(holder, s->holder_end) ||
            lh_instant_before(lh_sim_clock(s->master->node), s->grantor_end) ||
            s->number == b->session)
            b->sessions[kept++] = *s;
    }
    b->session_count = kept;
}

static void prune_promises(const struct lh_sim_observers *o, struct chunk *c)
{
    for (size_t i = c->promise_count; i > 0; i--)
        if (find_session(
                &o->model->servers[c->promises[i - 1].server], c->promises[i - 1].session) == NULL)
            drop_promise(c, i - 1);
}

static struct session *open_session(struct lh_sim_observers *o, const struct actor *server,
    uint64_t number, const struct request *r)
{
    struct server_model *b = model_of(o, server);

    prune_sessions(o, server);
    LH_GROW(b->sessions, b->session_capacity, b->session_count + 1);
    struct session *s = &b->sessions[b->session_count++];
    *s = (struct session){.number = number,
        .incarnation = r->incarnation,
        .process = r->process,
        .master_life = o->master_life,
        .master = o->master,
        .boot = lh_sim_boot(o->master->node),
        .session_term = o->model->settings.session_term,
        .chunk_term = o->model->settings.chunk_term,
        .drift_ppm = o->model->settings.drift_ppm};
    return s;
}

static struct promise *promise(struct lh_sim_observers *o, const struct actor *server,
    const struct session *s, const struct request *r, uint64_t chunk, uint64_t version, bool make)
{
    struct chunk *c = lh_ob_chunk(o, chunk);
    struct promise *p = find_promise(c, server->number, s->number, version);

    if (p == NULL) {
        if (!make)
            return NULL;
        prune_promises(o, c);
        LH_GROW(c->promises, c->promise_capacity, c->promise_count + 1);
        p = &c->promises[c->promise_count++];
        *p = (struct promise){.server = server->number,
            .incarnation = s->incarnation,
            .process = s->process,
            .session = s->number,
            .version = version};
    }
    LH_GROW(o->model->promised, o->model->promised_capacity, o->model->promised_count + 1);
    o->model->promised[o->model->promised_count++] = chunk;
    p->waited = false;
    p->holder_end = lh_instant_max(p->holder_end, holder_end(s, r->sent, s->chunk_term.ns));
    p->grantor_end = lh_instant_max(p->grantor_end, grantor_end(r->received, s->chunk_term.ns));
    return p;
}

static void renew(const struct lh_sim_observers *o, struct session *s, const struct request *r)
{
    s->promised_at = lh_sim_now(o->sim);
    s->holder_end = lh_instant_max(s->holder_end, holder_end(s, r->sent, s->session_term.ns));
    s->grantor_end = lh_instant_max(s->grantor_end, grantor_end(r->received, s->session_term.ns));
}

/* FAIL-2a: after an intent to seal the old lease is left to run out. */
static void goes_on(struct lh_sim_observers *o, const struct actor *server, const struct request *r,
    const Leasehold__Continued *lease, const char *what)
{
    const struct chunk *c = lh_ob_chunk(o, lease->chunk);

    if (c->decided_intent && lh_instant_before(c->intent_at, r->received))
        lh_sim_fail(o->sim, "INV-2", c->id,
            "the master %s the lease of %s of chunk %" PRIu64 " at version %" PRIu64
            ", and had decided to seal "
            "the chunk without it (FAIL-2a)",
            what, server->name, c->id, lease->version);
}

static void said_by_master(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__SessionReply *m)
{
    struct server_model *b = model_of(o, server);
    const struct request *r;
    struct session *s;

    switch (m->body_case) {
    case LEASEHOLD__SESSION_REPLY__BODY_REGISTERED:
        r = find_request(b, m->registered->stamp);
        lh_ob_registration_answered(&b->registered, m->registered);
        if (m->registered->error != LEASEHOLD__ERROR_CODE__OK || r == NULL)
            return;
        s = open_session(o, server, m->registered->session, r);
        renew(o, s, r);
        for (size_t i = 0; i < m->registered->n_continued; i++) {
            goes_on(o, server, r, m->registered->continued[i], "continues");
            promise(o, server, s, r, m->registered->continued[i]->chunk,
                m->registered->continued[i]->version, true)
                ->confirmed = true;
        }
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT:
        r = find_request(b, m->heartbeat->stamp);
        s = find_session(b, m->heartbeat->session);
        if (m->heartbeat->error != LEASEHOLD__ERROR_CODE__OK || r == NULL || s == NULL)
            return;
        renew(o, s, r);
        for (size_t i = 0; i < m->heartbeat->n_extended; i++) {
            goes_on(o, server, r, m->heartbeat->extended[i], "extends");
            promise(o, server, s, r, m->heartbeat->extended[i]->chunk,
                m->heartbeat->extended[i]->version, false);
        }
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_GRANT:
        r = find_request(b, m->grant->stamp);
        s = find_session(b, m->grant->session);
        if (r == NULL || s == NULL)
            return;
        /* Said between inputs that waited, the release behind it among them: that was looked at. */
        if (lh_ob_is_mixed(o) &&
            m->grant->version <=
                lh_ob_replica(lh_ob_chunk(o, m->grant->chunk), server->number)->released)
            return;
        /* A registration waits for a commit, and what that decided is said before it is taken. */
        if (!s->over)
            promise(o, server, s, r, m->grant->chunk, m->grant->version, true);
        break;
    default:
        break;
    }
}

/* ---- What the holder is told ---- */

static void told_registered(struct server_model *b, uint64_t link, const Leasehold__Registered *m)
{
    struct answer *answer = &b->answer;

    if (m->error != LEASEHOLD__ERROR_CODE__OK)
        return;
    answer->link = link;
    answer->stamp = m->stamp;
    answer->session = m->session;
    answer->count = 0;
    LH_GROW(answer->continued, answer->capacity, m->n_continued);
    for (size_t i = 0; i < m->n_continued; i++)
        answer->continued[answer->count++] =
            (struct continued){m->continued[i]->chunk, m->continued[i]->version};
}

/* It has taken the answer for good. */
static void begin_session(struct lh_sim_observers *o, const struct actor *server)
{
    struct server_model *b = model_of(o, server);
    const struct answer *m = &b->answer;
    const struct request *r = find_request(b, m->stamp);
    const struct session *s = find_session(b, m->session);

    if (r == NULL)
        return;
    b->session = m->session;
    b->registering = false;
    b->session_end =
        s == NULL ? r->sent : holder_end(s, r->sent, s->session_term.ns); /* NULL: long over */
    /* What it does not continue is dropped, here and so in what may still come true of it. */
    size_t kept = 0;
    for (size_t i = 0; i < b->holding_count; i++) {
        struct holding *h = &b->holdings[i];
        for (size_t k = 0; s != NULL && k < m->count; k++) {
            if (m->continued[k].chunk != h->chunk || m->continued[k].version != h->version)
                continue;
            h->end = holder_end(s, r->sent, s->chunk_term.ns);
            b->holdings[kept++] = *h;
            break;
        }
    }
    b->holding_count = kept;
    struct chunk *c, *next;
    HASH_ITER(hh, o->chunks, c, next) {
        for (size_t i = c->promise_count; i > 0; i--)
            if (c->promises[i - 1].server == server->number &&
                c->promises[i - 1].session != m->session)
                drop_promise(c, i - 1);
    }
}

static void told_heartbeat(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__HeartbeatReply *m)
{
    struct server_model *b = model_of(o, server);
    const struct request *r = find_request(b, m->stamp);
    const struct session *s = find_session(b, m->session);

    if (m->error != LEASEHOLD__ERROR_CODE__OK || m->session != b->session || r == NULL || s == NULL)
        return;
    b->session_end = lh_instant_max(b->session_end, holder_end(s, r->sent, s->session_term.ns));
    for (size_t i = 0; i < m->n_extended; i++) {
        struct holding *h = find_holding(b, m->extended[i]->chunk);
        if (h != NULL && h->version == m->extended[i]->version)
            h->end = lh_instant_max(h->end, holder_end(s, r->sent, s->chunk_term.ns));
    }
}

static void told_grant(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__Grant *m)
{
    struct server_model *b = model_of(o, server);
    const struct request *r = find_request(b, m->stamp);
    const struct session *s = find_session(b, m->session);
    struct holding *h = find_holding(b, m->chunk);

    /* SES-3, LEASE-6. */
    if (m->session != b->session || b->registering || r == NULL || s == NULL ||
        m->version <= lh_ob_replica(lh_ob_chunk(o, m->chunk), server->number)->released ||
        (h != NULL && m->version < h->version))
        return;
    if (h == NULL) {
        LH_GROW(b->holdings, b->holding_capacity, b->holding_count + 1);
        h = &b->holdings[b->holding_count++];
        *h = (struct holding){.chunk = m->chunk};
    }
    if (h->version < m->version) {
        struct replica *replica = lh_ob_replica(lh_ob_chunk(o, m->chunk), server->number);
        *h = (struct holding){.chunk = m->chunk, .version = m->version};
        replica->ordered = false; /* nothing yet at this version */
        replica->listed_at = lh_sim_now(o->sim);
    }
    h->end = lh_instant_max(h->end, holder_end(s, r->sent, s->chunk_term.ns));
}

/* ---- Watching ---- */

void lh_ob_model_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (s->method != LH_METHOD_SESSION || s->message == NULL || s->peer == NULL)
        return;
    if (a->part == PART_MASTER) {
        heard_by_master(o, lh_ob_actor(o, s->peer), (const Leasehold__SessionRequest *)s->message);
    } else if (a->part == PART_SERVER) {
        const Leasehold__SessionReply *m = (const Leasehold__SessionReply *)s->message;
        if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_REGISTERED)
            told_registered(model_of(o, a), s->link, m->registered);
        else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT)
            told_heartbeat(o, a, m->heartbeat);
        else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_GRANT)
            told_grant(o, a, m->grant);
    }
}

static void answer_taken(struct lh_sim_observers *o, const struct actor *a)
{
    struct server_model *b = model_of(o, a);

    if (b->answer.link != 0)
        begin_session(o, a);
    b->answer.link = 0;
}

void lh_ob_model_stepped(struct lh_sim_observers *o, const struct actor *a)
{
    answer_taken(o, a);
}

void lh_ob_model_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part == PART_SERVER && s->effect->kind == LH_FX_CLOSE && s->link != 0 &&
        s->link == model_of(o, a)->answer.link)
        model_of(o, a)->answer.link = 0;
    /* Who refuses it hangs up first. What else is said in this step is said in the new session. */
    if (a->part == PART_SERVER && s->effect->kind == LH_FX_SEND)
        answer_taken(o, a);
    if (s->method != LH_METHOD_SESSION || s->message == NULL || s->peer == NULL)
        return;
    if (a->part == PART_MASTER)
        said_by_master(o, lh_ob_actor(o, s->peer), (const Leasehold__SessionReply *)s->message);
    else if (a->part == PART_SERVER)
        says(o, a, (const Leasehold__SessionRequest *)s->message);
}

static void note_start(struct lease_model *m, const struct actor *master)
{
    LH_GROW(m->starts, m->start_capacity, m->start_count + 1);
    m->starts[m->start_count++] = (struct start){.at = master->started_at,
        .boot = lh_sim_boot(master->node),
        .node = master->node,
        .reading = master->started};
}

/* LEASE-9: what was promised before it began to act under this boot is over a term after that, also
 * if it has begun again since. */
static struct lh_instant counts_from(
    const struct lease_model *m, const struct actor *master, uint64_t promised_at)
{
    for (size_t i = 0; i < m->start_count; i++)
        if (m->starts[i].at >= promised_at && m->starts[i].node == master->node &&
            m->starts[i].boot == lh_sim_boot(master->node))
            return m->starts[i].reading;
    return master->started;
}

void lh_ob_model_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what)
{
    if (what != LH_SIM_LIFE_STARTED)
        return;
    if (a->part == PART_MASTER) {
        note_start(o->model, a);
        const struct lh_master_config *settings = lh_sim_running_config(o->cluster, a->node);
        o->model->settings = *settings;
        o->model->promised_count = 0;
        o->longest_term = lh_duration_max(o->longest_term, settings->session_term);
        o->longest_term = lh_duration_max(o->longest_term, settings->chunk_term);
    } else if (a->part == PART_SERVER) {
        struct server_model *b = model_of(o, a);
        b->session = 0;
        b->registering = false;
        b->answer.link = 0;
        b->holding_count = 0;
    }
}

void lh_ob_model_init(struct lh_sim_observers *o)
{
    o->model = lh_alloc(sizeof *o->model);
    o->model->observers = o;
    o->model->servers = lh_alloc_array(o->server_count, sizeof *o->model->servers);
}

void lh_ob_model_deinit(struct lh_sim_observers *o)
{
    for (uint32_t i = 0; i < o->server_count; i++) {
        free(o->model->servers[i].sessions);
        free(o->model->servers[i].holdings);
        free(o->model->servers[i].answer.continued);
        free(o->model->servers[i].machine);
    }
    free(o->model->servers);
    free(o->model->promised);
    free(o->model->starts);
    free(o->model);
}

/* ---- Questions ---- */

bool lh_ob_model_promised(struct lh_sim_observers *o, uint64_t *chunk)
{
    struct lease_model *model = o->model;

    if (model->promised_count == 0)
        return false;
    *chunk = model->promised[--model->promised_count];
    return true;
}

bool lh_ob_model_right(const struct lh_sim_observers *o, const struct actor *server, uint64_t chunk,
    uint64_t *version, struct lh_instant *end)
{
    const struct server_model *b = model_of(o, server);
    const struct holding *h = find_holding(b, chunk);

    if (h == NULL || b->session == 0)
        return false;
    *version = h->version;
    *end = lh_instant_min(h->end, b->session_end);
    return true;
}

struct lh_duration lh_ob_model_session_term(const struct lh_sim_observers *o)
{
    return o->model->settings.session_term;
}

struct lh_instant lh_ob_model_session_until(
    const struct lh_sim_observers *o, const struct actor *server, uint64_t session)
{
    const struct session *s = find_session(model_of(o, server), session);

    return s == NULL ? (struct lh_instant){0} : s->grantor_end;
}

size_t lh_ob_model_held(const struct lh_sim_observers *o, const struct actor *server)
{
    return model_of(o, server)->holding_count;
}

uint64_t lh_ob_model_held_chunk(
    const struct lh_sim_observers *o, const struct actor *server, size_t index)
{
    return model_of(o, server)->holdings[index].chunk;
}

void lh_ob_model_promise(
    const struct lh_sim_observers *o, const struct promise *p, struct lh_ob_promised *ends)
{
    const struct session *s = find_session(&o->model->servers[p->server], p->session);

    *ends = (struct lh_ob_promised){0};
    if (s == NULL)
        return; /* it is over on both sides */
    ends->holder = lh_instant_min(p->holder_end, s->holder_end);
    ends->grantor = lh_instant_min(p->grantor_end, s->grantor_end);
    ends->wait_end =
        lh_instant_add(counts_from(o->model, o->master, s->promised_at), s->session_term);
    ends->this_master = s->master_life == o->master_life;
    ends->waited = p->waited;
    ends->clock = s->master->node;
    if (s->boot != lh_sim_boot(s->master->node)) /* by a clock that is no more */
        ends->grantor = LH_INSTANT_NEVER;
}
