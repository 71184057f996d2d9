/* Who believes in which lease and session, and until when.
 *
 * A belief begins and moves only in steps, so the cores are asked after each step that can have
 * changed it. It ends in a step, with the process, or by itself when the believer's clock reaches
 * its end. That moment is found by looking at the clock again in good time: between two looks a
 * clock runs evenly (each change of its rate is noted first, and makes us look), so the true moment
 * is interpolated. */
#include "sim/report/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No clock runs more than this many times as fast as true time. */
#define FASTEST 2

/* ---- One belief ---- */

static void look(struct lh_sim_story *s, struct belief *b, const struct lh_sim_node *believer)
{
    uint64_t now = lh_sim_now(s->sim), clock = lh_sim_clock(believer).ns;

    b->looked_at = now;
    b->looked_at_clock = clock;
    b->look_at = now + (b->end.ns > clock ? (b->end.ns - clock) / FASTEST : 0);
    if (b->look_at < s->next_look)
        s->next_look = b->look_at;
}

static void begin(struct lh_sim_story *s, struct belief *b, const struct lh_sim_node *believer,
    struct lh_sim_span span, struct lh_instant end)
{
    LH_ASSERT(!b->open);
    b->open = true;
    b->span = span;
    b->span.begin = lh_sim_now(s->sim);
    b->end = end;
    look(s, b, believer);
}

static void finish(struct lh_sim_story *s, struct belief *b, uint64_t at, const char *how)
{
    b->open = false;
    b->span.how = how;
    lh_sim_narrate_span(s, &b->span, at);
}

/* When its clock showed `b->end`, which it does by now. */
static uint64_t ended_at(
    const struct lh_sim_story *s, const struct belief *b, const struct lh_sim_node *believer)
{
    uint64_t now = lh_sim_now(s->sim), clock = lh_sim_clock(believer).ns;

    if (b->end.ns <= b->looked_at_clock || clock <= b->looked_at_clock)
        return b->looked_at;
    return b->looked_at + (uint64_t)((unsigned __int128)(b->end.ns - b->looked_at_clock) *
                                     (now - b->looked_at) / (clock - b->looked_at_clock));
}

/* When its clock will show `end`, if its rate stays as it is. */
static uint64_t shown_at(
    const struct lh_sim_story *s, const struct lh_sim_node *believer, struct lh_instant end)
{
    uint64_t left = lh_instant_until(lh_sim_clock(believer), end).ns, now = lh_sim_now(s->sim);
    uint64_t million = 1000000, rate = (uint64_t)(1000000 + (int64_t)lh_sim_rate(believer));
    unsigned __int128 wait = (unsigned __int128)left * million / rate;

    return wait > UINT64_MAX - now ? UINT64_MAX : now + (uint64_t)wait;
}

static bool ran_out(const struct belief *b, const struct lh_sim_node *believer)
{
    return lh_instant_reached(lh_sim_clock(believer), b->end);
}

static void __attribute__((format(printf, 6, 7))) notified(struct lh_sim_story *s,
    const struct belief *b, enum lh_sim_topic topic, int node, uint64_t at, const char *format, ...)
{
    struct lh_sim_transition t = {.at = at,
        .topic = topic,
        .node = node,
        .peer = LH_SIM_NOBODY,
        .chunk = b->span.chunk,
        .version = b->span.version};
    char text[128];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lh_sim_narrate(s, t, "%s", text);
}

/* The end moved: how much is left now. */
static void extended(struct lh_sim_story *s, struct belief *b, struct lh_sim_node *believer,
    int peer, struct lh_instant end)
{
    b->end = end;
    look(s, b, believer);
    struct lh_sim_transition t = {.what = LH_SIM_EXTENDED,
        .topic = LH_SIM_TOPIC_LEASE,
        .node = lh_sim_index(s, believer),
        .peer = peer,
        .chunk = b->span.chunk,
        .version = b->span.version,
        .reach = lh_instant_until(lh_sim_clock(believer), end).ns};
    lh_sim_narrate(s, t, "extended");
}

/* ---- The holder ---- */

/* A core says whether, not until when; but what it says is true up to a moment and false from
 * there on. */
struct question {
    const struct lh_chunkserver *cs;
    uint64_t chunk; /* 0: the session */
};

static bool holds_at(const struct question *q, uint64_t ns)
{
    struct lh_instant at = {ns};
    uint64_t version;

    return q->chunk == 0 ? lh_chunkserver_in_session(q->cs, at)
                         : lh_chunkserver_may_act(q->cs, q->chunk, at, &version);
}

/* The first moment, after `now` at which it holds, at which it does not. */
static struct lh_instant end_of(const struct question *q, struct lh_instant now)
{
    uint64_t low = now.ns, high, step = UINT64_C(1) << 30;

    for (high = low + step; holds_at(q, high); step *= 2) {
        low = high;
        if (high > UINT64_MAX - step * 2)
            return LH_INSTANT_NEVER;
        high += step;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (holds_at(q, middle))
            low = middle;
        else
            high = middle;
    }
    return (struct lh_instant){high};
}

/* Is `end` still what the core would say? */
static bool ends_at(const struct question *q, struct lh_instant end)
{
    return end.ns != 0 && end.ns != UINT64_MAX && holds_at(q, end.ns - 1) && !holds_at(q, end.ns);
}

static void look_at_holder(struct lh_sim_story *s, struct lh_sim_node *node, struct chunk *c)
{
    int index = lh_sim_index(s, node);
    struct belief *b = &c->held[index];
    struct question q = {lh_sim_core(node), c->chunk};
    uint64_t version = 0;
    bool acts =
        q.cs != NULL && lh_chunkserver_may_act(q.cs, c->chunk, lh_sim_clock(node), &version);

    if (b->open && acts && version == b->span.version) {
        if (!ends_at(&q, b->end))
            extended(s, b, node, LH_SIM_NOBODY, end_of(&q, lh_sim_clock(node)));
        return;
    }
    if (b->open && ran_out(b, node)) {
        uint64_t at = ended_at(s, b, node);
        notified(s, b, LH_SIM_TOPIC_LEASE, index, at, "its lease has run out here");
        finish(s, b, at, "ran out");
    } else if (b->open) {
        const char *cause = s->servers[index].cause;
        if (!acts)
            notified(s, b, LH_SIM_TOPIC_LEASE, index, 0, "does not act on it any more");
        finish(s, b, lh_sim_now(s->sim), acts ? "a newer version" : cause);
    }
    if (!acts)
        return;
    begin(s, b, node,
        (struct lh_sim_span){.kind = LH_SIM_SPAN_LEASE_HELD,
            .node = index,
            .peer = LH_SIM_NOBODY,
            .chunk = c->chunk,
            .version = version},
        end_of(&q, lh_sim_clock(node)));
    notified(s, b, LH_SIM_TOPIC_LEASE, index, 0, "holds it from here on");
}

static void look_at_session_held(struct lh_sim_story *s, struct lh_sim_node *node)
{
    int index = lh_sim_index(s, node);
    struct server *server = &s->servers[index];
    struct belief *b = &server->held;
    struct question q = {lh_sim_core(node), 0};
    bool live = q.cs != NULL && lh_chunkserver_in_session(q.cs, lh_sim_clock(node));

    if (b->open && live && server->session == b->span.number) {
        if (!ends_at(&q, b->end)) {
            b->end = end_of(&q, lh_sim_clock(node));
            look(s, b, node);
        }
        return;
    }
    if (b->open && ran_out(b, node)) {
        uint64_t at = ended_at(s, b, node);
        notified(s, b, LH_SIM_TOPIC_SESSION, index, at, "its session has run out here");
        finish(s, b, at, "ran out");
    } else if (b->open) {
        if (!live)
            notified(s, b, LH_SIM_TOPIC_SESSION, index, 0, "is not in session any more");
        finish(s, b, lh_sim_now(s->sim), live ? "a newer session" : "given up");
    }
    if (!live)
        return;
    begin(s, b, node,
        (struct lh_sim_span){.kind = LH_SIM_SPAN_SESSION_HELD,
            .node = index,
            .peer = LH_SIM_NOBODY,
            .number = server->session},
        end_of(&q, lh_sim_clock(node)));
    notified(s, b, LH_SIM_TOPIC_SESSION, index, 0, "is in session");
}

/* ---- The master ---- */

static bool master_lease(
    const struct lh_sim_story *s, uint64_t chunk, struct lh_master_lease *lease)
{
    const struct lh_sim_node *node = s->master;

    const struct lh_master *core = lh_sim_acting_core(s->cluster, node);

    return core != NULL && lh_master_lease_of(core, chunk, lh_sim_clock(node), lease);
}

static void given_is_over(struct lh_sim_story *s, struct chunk *c, const char *cause)
{
    struct lh_sim_node *master = s->master;
    struct belief *b = &c->given;
    uint64_t at = lh_sim_now(s->sim);

    if (ran_out(b, master)) {
        at = ended_at(s, b, master);
        cause = "ran out";
    }
    notified(s, b, LH_SIM_TOPIC_LEASE, lh_sim_index(s, master), at, "the lease of %s is over: %s",
        lh_sim_name(lh_sim_at_index(s, b->span.node)), cause);
    finish(s, b, at, cause);
}

static void look_at_given(struct lh_sim_story *s, struct chunk *c)
{
    struct lh_sim_node *master = s->master;
    int index = lh_sim_index(s, master);
    struct belief *b = &c->given;
    struct lh_master_lease lease;
    bool given = master_lease(s, c->chunk, &lease);
    struct lh_sim_node *holder = given ? lh_sim_find(s->sim, lease.holder) : NULL;
    int to = holder == NULL ? LH_SIM_NOBODY : lh_sim_index(s, holder);

    given = holder != NULL;
    if (b->open && given && b->span.node == to && b->span.version == lease.version) {
        if (b->end.ns != lease.end.ns)
            extended(s, b, master, to, lease.end);
    } else {
        if (b->open && given && b->span.node == to) /* LEASE-3: its replica set changed */
            finish(s, b, lh_sim_now(s->sim), "a newer version");
        else if (b->open)
            given_is_over(s, c, s->master_cause);
        c->confirmed = c->waiting = false;
        if (given)
            begin(s, b, master,
                (struct lh_sim_span){.kind = LH_SIM_SPAN_LEASE_GIVEN,
                    .node = to,
                    .peer = index,
                    .chunk = c->chunk,
                    .version = lease.version},
                lease.end);
    }
    if (given && lease.waiting && !c->waiting)
        notified(s, b, LH_SIM_TOPIC_LEASE, index, 0,
            "waits for the lease that a former master gave to %s", lease.holder);
    if (given && lease.confirmed && !c->confirmed && !lease.waiting)
        notified(s, b, LH_SIM_TOPIC_LEASE, index, 0,
            c->waiting ? "goes on with the lease of %s" : "the grant is confirmed by %s",
            lease.holder);
    c->confirmed = given && lease.confirmed && !lease.waiting;
    c->waiting = given && lease.waiting;
}

static void look_at_session_given(struct lh_sim_story *s, int index)
{
    struct lh_sim_node *master = s->master;
    struct belief *b = &s->servers[index].given;
    const struct lh_master *core = lh_sim_acting_core(s->cluster, master);
    uint64_t session;
    struct lh_instant end;
    bool live = core != NULL && lh_master_session_of(core, lh_sim_name(lh_sim_at_index(s, index)),
                                    lh_sim_clock(master), &session, &end);

    if (b->open && live && session == b->span.number) {
        if (b->end.ns != end.ns) {
            b->end = end;
            look(s, b, master);
        }
        return;
    }
    if (b->open && ran_out(b, master)) {
        uint64_t at = ended_at(s, b, master);
        notified(s, b, LH_SIM_TOPIC_SESSION, lh_sim_index(s, master), at,
            "the session of %s has run out", lh_sim_name(lh_sim_at_index(s, index)));
        finish(s, b, at, "ran out");
    } else if (b->open) {
        finish(s, b, lh_sim_now(s->sim), live ? "a newer session" : "closed");
    }
    if (live)
        begin(s, b, master,
            (struct lh_sim_span){.kind = LH_SIM_SPAN_SESSION_GIVEN,
                .node = index,
                .peer = lh_sim_index(s, master),
                .number = session},
            end);
}

/* ---- All of them ---- */

void lh_sim_beliefs_begin(struct lh_sim_story *s)
{
    s->servers = lh_alloc_array(s->nodes, sizeof *s->servers);
    for (size_t i = 0; i < s->nodes; i++)
        s->servers[i].cause = "given up";
    s->next_look = UINT64_MAX;
    s->master = lh_sim_master(s->cluster);
    s->master_cause = "given up";
}

struct chunk *lh_sim_chunk_named(struct lh_sim_story *s, uint64_t chunk)
{
    struct chunk *c;

    HASH_FIND(hh, s->chunks, &chunk, sizeof chunk, c);
    if (c == NULL) {
        c = lh_alloc(sizeof *c);
        c->chunk = chunk;
        c->held = lh_alloc_array(s->nodes, sizeof *c->held);
        HASH_ADD(hh, s->chunks, chunk, sizeof c->chunk, c);
    }
    if (!c->active) {
        c->active = true;
        LH_GROW(s->active, s->active_capacity, s->active_count + 1);
        s->active[s->active_count++] = c;
    }
    return c;
}

/* Nobody can come to believe in a lease of a chunk that was sealed long ago. */
static void retire(struct lh_sim_story *s)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->active_count; i++) {
        struct chunk *c = s->active[i];
        c->active = !c->sealed || c->given.open;
        for (size_t n = 0; n < s->nodes; n++)
            c->active |= c->held[n].open;
        if (c->active)
            s->active[kept++] = c;
    }
    s->active_count = kept;
}

static struct belief *belief_of(const struct lh_sim_story *s, struct chunk *c, int node, bool given)
{
    if (c == NULL)
        return given ? &s->servers[node].given : &s->servers[node].held;
    return given ? &c->given : &c->held[node];
}

/* Calls `visit` for every open belief: of the chunk, or of a session if that is NULL. */
static void each(struct lh_sim_story *s,
    void (*visit)(struct lh_sim_story *, struct chunk *, int node, bool given))
{
    for (int i = 0; i < (int)s->nodes; i++) {
        if (s->servers[i].given.open)
            visit(s, NULL, i, true);
        if (s->servers[i].held.open)
            visit(s, NULL, i, false);
    }
    for (size_t k = 0; k < s->active_count; k++) {
        struct chunk *c = s->active[k];
        if (c->given.open)
            visit(s, c, LH_SIM_NOBODY, true);
        for (int i = 0; i < (int)s->nodes; i++)
            if (c->held[i].open)
                visit(s, c, i, false);
    }
}

/* Looks at its believer's clock if it is time to, and keeps the one that ended first. */
static void look_again(struct lh_sim_story *s, struct chunk *c, int node, bool given)
{
    struct belief *b = belief_of(s, c, node, given);
    const struct lh_sim_node *believer = given ? s->master : lh_sim_at_index(s, node);

    if (b->look_at > lh_sim_now(s->sim)) {
        if (b->look_at < s->next_look)
            s->next_look = b->look_at;
    } else if (!ran_out(b, believer)) {
        look(s, b, believer);
    } else if (!s->first.there || ended_at(s, b, believer) < s->first.at) {
        s->first.there = true;
        s->first.at = ended_at(s, b, believer);
        s->first.chunk = c;
        s->first.node = node;
        s->first.given = given;
    }
}

void lh_sim_beliefs_poll(struct lh_sim_story *s)
{
    while (lh_sim_now(s->sim) >= s->next_look) {
        s->next_look = UINT64_MAX;
        s->first.there = false;
        each(s, look_again);
        if (!s->first.there)
            break;
        s->next_look = 0; /* there may be more */
        /* The core may know better: a step moved the end, and stepped() is still to come. */
        if (s->first.chunk == NULL && s->first.given)
            look_at_session_given(s, s->first.node);
        else if (s->first.chunk == NULL)
            look_at_session_held(s, lh_sim_at_index(s, s->first.node));
        else if (s->first.given)
            look_at_given(s, s->first.chunk);
        else
            look_at_holder(s, lh_sim_at_index(s, s->first.node), s->first.chunk);
    }
}

static void must_look(struct lh_sim_story *s, struct chunk *c, int node, bool given)
{
    belief_of(s, c, node, given)->look_at = 0;
}

void lh_sim_beliefs_look(struct lh_sim_story *s)
{
    each(s, must_look);
    s->next_look = 0;
    lh_sim_beliefs_poll(s);
}

static void all_given_are_over(struct lh_sim_story *s, const char *how)
{
    uint64_t now = lh_sim_now(s->sim);

    for (size_t i = 0; i < s->nodes; i++)
        if (s->servers[i].given.open)
            finish(s, &s->servers[i].given, now, how);
    for (size_t k = 0; k < s->active_count; k++) {
        struct chunk *c = s->active[k];
        if (c->given.open)
            finish(s, &c->given, now, how);
        c->confirmed = c->waiting = false;
    }
}

void lh_sim_beliefs_stepped(struct lh_sim_story *s, struct lh_sim_node *node)
{
    int index = lh_sim_index(s, node);

    if (lh_sim_master(s->cluster) != s->master) {
        all_given_are_over(s, "another master's reign has begun");
        s->master = lh_sim_master(s->cluster);
    }
    if (node == s->master) {
        for (int i = 0; i < (int)s->nodes; i++)
            look_at_session_given(s, i);
        for (size_t k = 0; k < s->active_count; k++)
            look_at_given(s, s->active[k]);
        s->master_cause = "given up";
        retire(s);
        return;
    }
    if (!lh_sim_is_chunkserver(s, index))
        return;
    look_at_session_held(s, node);
    for (size_t k = 0; k < s->active_count; k++)
        look_at_holder(s, node, s->active[k]);
    s->servers[index].cause = "given up";
}

void lh_sim_beliefs_process_ended(struct lh_sim_story *s, struct lh_sim_node *node)
{
    bool master = node == s->master;
    int index = lh_sim_index(s, node);
    uint64_t now = lh_sim_now(s->sim);

    if (master)
        all_given_are_over(s, "the master's process ended");
    if (s->servers[index].held.open)
        finish(s, &s->servers[index].held, now, "its process ended");
    for (size_t k = 0; k < s->active_count; k++) {
        struct chunk *c = s->active[k];
        if (c->held[index].open)
            finish(s, &c->held[index], now, "its process ended");
    }
}

static void still_open(struct lh_sim_story *s, struct chunk *c, int node, bool given)
{
    struct belief *b = belief_of(s, c, node, given);

    const struct lh_sim_node *believer = given ? s->master : lh_sim_at_index(s, node);

    b->span.unfinished = true;
    b->span.until = shown_at(s, believer, b->end);
    finish(s, b, lh_sim_now(s->sim), "");
}

void lh_sim_beliefs_end(struct lh_sim_story *s)
{
    lh_sim_beliefs_look(s);
    each(s, still_open);
}

void lh_sim_beliefs_deinit(struct lh_sim_story *s)
{
    struct chunk *c, *next;

    HASH_ITER(hh, s->chunks, c, next) {
        HASH_DEL(s->chunks, c);
        free(c->held);
        free(c);
    }
    free(s->active);
    free(s->servers);
}
