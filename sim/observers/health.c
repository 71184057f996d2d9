/* SES-4, SES-6 and SES-8: who is trusted with a lease, or a replica. The master grants only to
 * servers that lately received an answer, and places only where it heard a server. A server calls
 * itself healthy only while its disk answers. Otherwise a file stands still behind a machine that
 * looks well (so these fail as INV-8, of which they are the usual end). */
#include "sim/observers/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ANSWERS_MAX 64u

struct server_health {
    /* SES-4, at the master, on its clock. */
    struct {
        uint64_t stamp;
        struct lh_instant at;
    } answers[ANSWERS_MAX]; /* of the present session; the first is Registered */
    size_t answer_count;
    uint64_t session;
    bool confirmed;
    struct lh_instant confirmed_at;
    /* SES-6, on the server's clock. */
    uint64_t owed;            /* disk operations under way */
    struct lh_instant silent; /* since then none was answered */
    struct lh_duration heartbeat;
    /* SES-8, of the calls to its address. */
    uint64_t called_on;               /* the link of the last one ... */
    uint64_t call;                    /* ... and the master's number of it */
    uint64_t registering, registered; /* processes: the last to do it, and the one before */
    bool was_heard;                   /* by any master */
    bool unheard;                     /* the last call of this master was in vain */
    bool before;                      /* the same, before that call ended by itself */
};

struct health {
    struct server_health servers[LH_SIM_NODES_MAX];
};

/* ---- SES-4 ---- */

static void answered(struct lh_sim_observers *o, struct server_health *h, uint64_t stamp)
{
    size_t i =
        h->answer_count < ANSWERS_MAX ? h->answer_count : 1 + h->answer_count % (ANSWERS_MAX - 1);

    h->answers[i].stamp = stamp;
    h->answers[i].at = o->master->clock;
    h->answer_count++;
}

static void echoed(struct server_health *h, uint64_t stamp)
{
    size_t count = h->answer_count < ANSWERS_MAX ? h->answer_count : ANSWERS_MAX;

    for (size_t i = 0; i < count; i++) {
        if (h->answers[i].stamp != stamp)
            continue;
        h->confirmed_at =
            h->confirmed ? lh_instant_max(h->confirmed_at, h->answers[i].at) : h->answers[i].at;
        h->confirmed = true;
    }
}

static void master_says(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__SessionReply *m)
{
    struct server_health *h = &o->health->servers[server->number];

    if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_REGISTERED &&
        m->registered->error == LEASEHOLD__ERROR_CODE__OK) {
        h->answer_count = 0;
        h->confirmed = false;
        h->session = m->registered->session;
        answered(o, h, m->registered->stamp);
    } else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT &&
               m->heartbeat->error == LEASEHOLD__ERROR_CODE__OK) {
        answered(o, h, m->heartbeat->stamp);
    }
}

static void master_hears(
    struct lh_sim_observers *o, const struct actor *server, const Leasehold__SessionRequest *m)
{
    struct server_health *h = &o->health->servers[server->number];

    if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_REGISTER) {
        if (m->register_->piece == 0 && m->register_->process != h->registering) {
            h->registered = h->registering;
            h->registering = m->register_->process;
        }
        return;
    }
    /* It knows the session's number, so it has received Registered. */
    if (h->answer_count > 0 && !h->confirmed)
        echoed(h, h->answers[0].stamp);
    if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT &&
        m->heartbeat->session == h->session)
        echoed(h, m->heartbeat->last_stamp);
}

void lh_ob_health_granted(
    struct lh_sim_observers *o, const struct chunk *c, const struct actor *server)
{
    const struct server_health *h = &o->health->servers[server->number];
    struct lh_duration term = lh_ob_model_session_term(o);

    if (h->confirmed && lh_instant_before(o->master->clock, lh_instant_add(h->confirmed_at, term)))
        return;
    if (lh_ob_is_mixed(o))
        return; /* it decides as of when it was asked */
    lh_sim_fail(o->sim, "INV-8", c->id,
        "the master grants chunk %" PRIu64
        " to %s, which has not confirmed for a session's term that it "
        "receives answers (SES-4)",
        c->id, server->name);
}

/* ---- SES-8 ---- */

static void called(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    int32_t server = lh_ob_server_named(o, s->effect->text);

    if (server < 0)
        return;
    struct server_health *h = &o->health->servers[server];
    h->called_on = s->link;
    h->call = s->effect->link;
    h->before = h->unheard;
}

/* The master waits no longer: what comes of the call in the same step says nothing to it. */
static void call_ended(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    for (uint32_t i = 0; i < o->server_count; i++) {
        struct server_health *h = &o->health->servers[i];
        if (h->called_on == 0 || h->call != s->effect->link)
            continue;
        h->called_on = 0;
        h->unheard = h->before;
    }
}

static void called_back(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    const Leasehold__IdentifyReply *m = (const Leasehold__IdentifyReply *)s->message;

    for (uint32_t i = 0; i < o->server_count; i++) {
        struct server_health *h = &o->health->servers[i];
        if (h->called_on != s->link)
            continue;
        h->unheard = m == NULL || strcmp(m->server_id, o->servers[i]->name) != 0 ||
                     (m->process != h->registering && m->process != h->registered);
        h->was_heard = h->was_heard || !h->unheard;
        if (m != NULL)
            h->called_on = 0;
    }
}

void lh_ob_health_placed(struct lh_sim_observers *o, const struct chunk *c, const struct actor *a)
{
    const struct server_health *h = &o->health->servers[a->number];

    if ((h->was_heard && !h->unheard) || lh_ob_is_mixed(o))
        return;
    lh_sim_fail(o->sim, "INV-8", c->id,
        "the master has chunk %" PRIu64
        " created at %s, which it did not hear at its address (SES-8)",
        c->id, a->name);
}

/* ---- SES-6 ---- */

static void check_claim(
    struct lh_sim_observers *o, const struct actor *a, const Leasehold__Heartbeat *m)
{
    const struct server_health *h = &o->health->servers[a->number];
    struct lh_duration limit = lh_duration_max(h->heartbeat, lh_milliseconds(500));
    struct lh_duration silence = lh_instant_until(h->silent, a->clock);

    /* A probe begins with the next heartbeat and must be done a limit later; that is noticed with
     * the next heartbeat after that. Timers are late, too: the one that looks for the answer, and
     * the one of the heartbeat. */
    if (m->failing || h->owed == 0 ||
        silence.ns <=
            limit.ns + 2 * h->heartbeat.ns + lh_seconds(1).ns + 2 * lh_sim_timer_latest(a->node).ns)
        return;
    lh_sim_fail(o->sim, "INV-8", 0,
        "%s says that it is well, and its disk has not answered for %" PRIu64 " ms (SES-6)",
        a->name, silence.ns / 1000000);
}

/* ---- Watching ---- */

void lh_ob_health_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    const struct lh_input *in = s->input;

    if (a->part == PART_SERVER && in->kind == LH_IN_DISK) {
        struct server_health *h = &o->health->servers[a->number];
        if (h->owed > 0)
            h->owed--;
        if (in->error != LH_ERR_IO)
            h->silent = in->now;
    } else if (s->method == LH_METHOD_IDENTIFY && a->part == PART_MASTER) {
        called_back(o, s);
    } else if (s->method == LH_METHOD_SESSION && s->message != NULL && s->peer != NULL) {
        if (a->part == PART_MASTER) {
            master_hears(o, lh_ob_actor(o, s->peer), (const Leasehold__SessionRequest *)s->message);
        } else if (a->part == PART_SERVER) {
            const Leasehold__SessionReply *m = (const Leasehold__SessionReply *)s->message;
            if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_REGISTERED)
                o->health->servers[a->number].heartbeat =
                    lh_nanoseconds(m->registered->heartbeat_ns);
        }
    }
}

void lh_ob_health_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part == PART_SERVER && s->effect->kind == LH_FX_DISK) {
        struct server_health *h = &o->health->servers[a->number];
        if (h->owed++ == 0)
            h->silent = lh_sim_clock(a->node);
    } else if (s->method == LH_METHOD_IDENTIFY && s->effect->kind == LH_FX_OPEN) {
        called(o, s);
    } else if (a->part == PART_MASTER && s->effect->kind == LH_FX_CLOSE) {
        call_ended(o, s);
    } else if (s->method == LH_METHOD_SESSION && s->message != NULL && s->peer != NULL) {
        const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)s->message;
        if (a->part == PART_MASTER)
            master_says(o, lh_ob_actor(o, s->peer), (const Leasehold__SessionReply *)s->message);
        else if (a->part == PART_SERVER &&
                 m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT)
            check_claim(o, a, m->heartbeat);
    }
}

void lh_ob_health_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what)
{
    if (a->part == PART_MASTER && what == LH_SIM_LIFE_STARTED) {
        for (uint32_t i = 0; i < o->server_count; i++) {
            o->health->servers[i].answer_count = 0;
            o->health->servers[i].confirmed = false;
            o->health->servers[i].called_on = 0;
            o->health->servers[i].unheard = false; /* it may have been forgotten */
        }
    } else if (a->part == PART_SERVER &&
               (what == LH_SIM_LIFE_STARTED || what == LH_SIM_LIFE_RESUMED)) {
        struct server_health *h = &o->health->servers[a->number];
        h->silent = lh_sim_clock(a->node); /* what waited for it is told now */
        if (what == LH_SIM_LIFE_STARTED)
            h->owed = 0;
    }
}

void lh_ob_health_init(struct lh_sim_observers *o)
{
    o->health = lh_alloc(sizeof *o->health);
}

void lh_ob_health_deinit(struct lh_sim_observers *o)
{
    free(o->health);
}
