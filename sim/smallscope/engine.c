#include "sim/smallscope/engine.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/prng.h"
#include "sim/smallscope/engine_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The tables are used for one way through the space after another, and never see a clock go back:
 * each way begins this much later than the one before. */
#define LIFE_MS ((LH_EXPLORE_DEPTH_MAX + 1) * STEP_MS_FAST)

enum move_kind {
    MOVE_TIME,
    MOVE_RATE_GRANTOR,
    MOVE_GRANT, /* the argument: to whom */
    MOVE_REPEAT,
    MOVE_RECALL,
    MOVE_TIMER,
    MOVE_RESTART_GRANTOR,
    MOVE_REGISTER, /* the argument: which holder; in the next three, too */
    MOVE_RELEASE,
    MOVE_RESTART_HOLDER,
    MOVE_RATE_HOLDER,
    MOVE_ARRIVE, /* the argument: the place on the wire */
};

const char *holder_name(uint32_t holder)
{
    static const char *const names[HOLDERS] = {"A", "B"};

    return names[holder];
}

void say(const struct lh_engine *e, const char *format, ...)
{
    va_list args;

    if (e->words == NULL)
        return;
    va_start(args, format);
    vfprintf(e->words, format, args);
    va_end(args);
}

void emit(struct lh_engine *e, struct message m)
{
    /* It can arrive any number of times: once on the wire is enough. */
    for (size_t i = 0; i < e->wire_count; i++)
        if (memcmp(&e->wire[i], &m, sizeof m) == 0)
            return;
    LH_ASSERT(e->wire_count < MESSAGES_MAX);
    e->wire[e->wire_count++] = m;
}

bool acts(const struct lh_engine *e, uint32_t holder)
{
    const struct holder *h = &e->holders[holder];
    uint64_t version = lh_holder_version(h->table, CHUNK);

    return version != 0 && lh_holder_may_act(h->table, CHUNK, version, h->now);
}

/* ---- The first state. */

static void arrive(struct lh_engine *e, const struct message *m)
{
    if (m->kind == REGISTER || m->kind == HEARTBEAT || m->kind == RELEASE)
        grantor_receive(e, m);
    else
        holder_receive(e, m);
}

static void begin(void *self, FILE *words)
{
    struct lh_engine *e = self;

    e->words = NULL;
    e->first_ms += LIFE_MS;
    struct lh_instant now = {lh_milliseconds(e->first_ms).ns};
    e->grantor.now = now;
    e->grantor.step_ms = STEP_MS_FAST;
    grantor_begin(&e->grantor);
    memset(e->sessions, 0, sizeof e->sessions);
    e->violation = NULL;
    e->version_acted = 0;
    for (uint32_t i = 0; i < HOLDERS; i++) {
        e->holders[i].now = now;
        e->holders[i].step_ms = STEP_MS_SLOW;
        holder_begin(&e->holders[i]);
        e->wire_count = 0;
        holder_register(e, i);
        for (size_t m = 0; m < e->wire_count; m++)
            arrive(e, &e->wire[m]);
    }
    e->wire_count = 0;
    for (uint32_t i = 0; i < HOLDERS; i++)
        holder_heartbeats(e, i);
    e->words = words;
    say(e,
        "A term is %u ms for a session, %u ms for a lease; clocks are up to %u %% off. A and B "
        "have registered.\n",
        SESSION_TERM_MS, LEASE_TERM_MS, DRIFT_PPM / 10000);
}

/* ---- Moves. */

static lh_move move_of(enum move_kind kind, size_t argument)
{
    return (lh_move)((unsigned)kind << 8 | (unsigned)argument);
}

static size_t moves(void *self, lh_move *list)
{
    const struct lh_engine *e = self;
    const struct grantor *g = &e->grantor;
    size_t n = 0;

    for (size_t i = 0; i < e->wire_count; i++)
        list[n++] = move_of(MOVE_ARRIVE, i);
    if (grantor_has_timer(g))
        list[n++] = move_of(MOVE_TIMER, 0);
    if (grantor_can_repeat(g))
        list[n++] = move_of(MOVE_REPEAT, 0);
    if (grantor_can_recall(g))
        list[n++] = move_of(MOVE_RECALL, 0);
    list[n++] = move_of(MOVE_RESTART_GRANTOR, 0);
    for (uint32_t i = 0; i < HOLDERS; i++) {
        const struct lh_holder *h = e->holders[i].table;
        bool holds = lh_holder_version(h, CHUNK) != 0;
        if (g->seen[i].session != 0)
            list[n++] = move_of(MOVE_GRANT, i);
        list[n++] = move_of(MOVE_REGISTER, i);
        if (holds)
            list[n++] = move_of(MOVE_RELEASE, i);
        list[n++] = move_of(MOVE_RESTART_HOLDER, i);
        list[n++] = move_of(MOVE_RATE_HOLDER, i);
    }
    list[n++] = move_of(MOVE_RATE_GRANTOR, 0);
    list[n++] = move_of(MOVE_TIME, 0);
    return n;
}

static void pass_time(struct lh_engine *e)
{
    struct grantor *g = &e->grantor;

    say(e, "%u ms pass, which are", STEP_MS);
    for (uint32_t i = 0; i < HOLDERS; i++) {
        struct holder *h = &e->holders[i];
        h->now = lh_instant_add(h->now, lh_milliseconds(h->step_ms));
        say(e, " %u ms for %s,", h->step_ms, holder_name(i));
    }
    g->now = lh_instant_add(g->now, lh_milliseconds(g->step_ms));
    say(e, " %u ms for the grantor\n", g->step_ms);
}

static void change_rate(struct lh_engine *e, const char *name, uint32_t *step_ms)
{
    *step_ms = *step_ms == STEP_MS_SLOW ? STEP_MS_FAST : STEP_MS_SLOW;
    say(e, "from now on the clock of %s goes %s\n", name,
        *step_ms == STEP_MS_SLOW ? "slow" : "fast");
}

static void say_arrival(const struct lh_engine *e, const struct message *m)
{
    static const char *const to_grantor = "the grantor hears %s's %s";
    static const char *const to_holder = "%s hears %s";
    const char *who = holder_name(m->holder);

    switch (m->kind) {
    case REGISTER:
        say(e, to_grantor, who, "registration");
        say(e, " %u.%u", m->incarnation, m->number);
        break;
    case HEARTBEAT:
        say(e, to_grantor, who, "heartbeat");
        say(e, " in session %u", m->session);
        break;
    case RELEASE:
        say(e, to_grantor, who, "release");
        say(e, " of version %u", m->version);
        break;
    case REGISTERED:
        say(e, to_holder, who, "the answer to its registration");
        say(e, " %u.%u: session %u", m->incarnation, m->number, m->session);
        break;
    case ANSWER:
        say(e, to_holder, who, "the answer to its heartbeat");
        say(e, " in session %u", m->session);
        break;
    case GRANT:
        say(e, to_holder, who, "the grant");
        say(e, " of version %u", m->version);
        break;
    }
}

static void move(struct lh_engine *e, enum move_kind kind, uint32_t argument)
{
    switch (kind) {
    case MOVE_TIME:
        pass_time(e);
        break;
    case MOVE_RATE_GRANTOR:
        change_rate(e, "the grantor", &e->grantor.step_ms);
        break;
    case MOVE_RATE_HOLDER:
        change_rate(e, holder_name(argument), &e->holders[argument].step_ms);
        break;
    case MOVE_GRANT:
        grantor_grant(e, argument);
        break;
    case MOVE_REPEAT:
        grantor_repeat(e);
        break;
    case MOVE_RECALL:
        grantor_recall(e);
        break;
    case MOVE_TIMER:
        grantor_timer(e);
        break;
    case MOVE_RESTART_GRANTOR:
        grantor_restart(e);
        break;
    case MOVE_REGISTER:
        holder_register(e, argument);
        break;
    case MOVE_RELEASE:
        holder_release(e, argument);
        break;
    case MOVE_RESTART_HOLDER:
        holder_restart(e, argument);
        break;
    case MOVE_ARRIVE:
        say_arrival(e, &e->wire[argument]);
        arrive(e, &e->wire[argument]);
        break;
    }
}

static void look(struct lh_engine *e)
{
    uint32_t acting = 0;

    for (uint32_t i = 0; i < HOLDERS; i++) {
        if (!acts(e, i))
            continue;
        const struct holder *h = &e->holders[i];
        uint32_t version = (uint32_t)lh_holder_version(h->table, CHUNK);
        struct lh_duration left = lh_instant_until(h->now, lh_holder_end_of(h->table, CHUNK));
        say(e, "     %s may act at version %u for %" PRIu64 " ms of its clock\n", holder_name(i),
            version, lh_duration_ms(left));
        if (version < e->version_acted)
            e->violation = "INV-3: acts at a lower version than was acted at before";
        else
            e->version_acted = version;
        acting++;
    }
    if (acting > 1)
        e->violation = "INV-1: both holders may act";
    if (e->violation != NULL)
        say(e, "     %s\n", e->violation);
}

static void make(void *self, lh_move m)
{
    struct lh_engine *e = self;

    move(e, (enum move_kind)(m >> 8), m & 0xff);
    for (uint32_t i = 0; i < HOLDERS; i++)
        holder_heartbeats(e, i);
    look(e);
}

static const char *violation(void *self)
{
    return ((const struct lh_engine *)self)->violation;
}

/* ---- What the future can depend on, in a number. */

static void mix(uint64_t *hash, uint64_t value)
{
    *hash = lh_mix64(*hash + 0x9e3779b97f4a7c15u + lh_mix64(value));
}

/* 0 once it has come: no end that has passed differs from another. */
static uint64_t left(struct lh_instant now, struct lh_instant end)
{
    return lh_instant_until(now, end).ns;
}

/* How long ago, up to where a term that counts from there would be over anyway. */
static uint64_t age(struct lh_instant now, struct lh_instant then, struct lh_duration longest)
{
    return lh_duration_min(lh_instant_until(then, now), longest).ns;
}

/* Relative to the newest; 0 is none. */
static uint64_t back(uint32_t newest, uint32_t number)
{
    return number == 0 ? 0 : (uint64_t)newest - number + 1;
}

static uint64_t message_print(const struct lh_engine *e, const struct message *m)
{
    const struct holder *h = &e->holders[m->holder];
    uint64_t print = m->kind;
    struct lh_duration longest = lh_term_for_holder(lh_milliseconds(LEASE_TERM_MS), DRIFT_PPM);

    mix(&print, back(h->incarnation, m->incarnation));
    mix(&print, m->number);
    mix(&print, back(e->sessions[m->holder], m->session));
    mix(&print, back(e->grantor.version, m->version));
    mix(&print, age(h->now, m->stamp, longest));
    return print;
}

static void print_registration(const struct lh_engine *e, uint32_t i, uint64_t *print)
{
    const struct grantor *g = &e->grantor;
    const struct registration *r = &g->seen[i];
    struct lh_duration longest = lh_milliseconds(LEASE_TERM_MS + 1);

    mix(print, back(e->holders[i].incarnation, r->incarnation));
    mix(print, r->number);
    mix(print, back(e->sessions[i], r->session));
    if (r->session != 0) {
        mix(print, age(g->now, r->received_at, longest));
        mix(print, age(e->holders[i].now, r->stamp, longest));
    }
    mix(print, g->to == i ? back(e->holders[i].incarnation, g->incarnation) : 0);
}

/* The sessions that the table knows of, and the lease if it is in one of them. */
static void print_table(const struct lh_engine *e, uint32_t i, uint64_t *print)
{
    const struct grantor *g = &e->grantor;
    struct lh_lease_info info = {0};
    bool is_held = lh_grantor_find(g->table, CHUNK, g->now, &info);

    for (uint32_t s = 1; s <= e->sessions[i]; s++) {
        lh_session_id id = g->sessions[i][s];
        if (id == 0)
            continue;
        mix(print, back(e->sessions[i], s));
        mix(print, left(g->now, lh_grantor_session_end_of(g->table, id)));
        mix(print, lh_grantor_session_live(g->table, id, g->now));
        if (is_held && info.session == id) {
            mix(print, back(g->version, (uint32_t)info.version));
            mix(print, left(g->now, info.own_end));
            mix(print, info.recalling);
        }
    }
}

/* Everything about one holder, at both sides and between them. */
static uint64_t holder_print(const struct lh_engine *e, uint32_t i)
{
    const struct holder *h = &e->holders[i];
    uint32_t version = (uint32_t)lh_holder_version(h->table, CHUNK);
    uint64_t print = 0, messages = 0;

    mix(&print, h->step_ms);
    mix(&print, h->number);
    mix(&print, back(e->grantor.version, h->released));
    mix(&print, back(e->sessions[i], (uint32_t)lh_holder_session(h->table)));
    mix(&print, left(h->now, lh_holder_session_end_of(h->table)));
    mix(&print, back(e->grantor.version, version));
    mix(&print, left(h->now, lh_holder_own_end_of(h->table, CHUNK)));
    print_registration(e, i, &print);
    print_table(e, i, &print);
    for (size_t m = 0; m < e->wire_count; m++)
        if (e->wire[m].holder == i)
            messages += message_print(e, &e->wire[m]); /* in whatever order they were sent */
    mix(&print, messages);
    return print;
}

static struct lh_fingerprint fingerprint(void *self)
{
    const struct lh_engine *e = self;
    const struct grantor *g = &e->grantor;
    uint64_t common = 0;

    mix(&common, g->waiting ? 1 + left(g->now, g->wait_end) : 0);
    mix(&common, back(g->version, e->version_acted));
    mix(&common, g->step_ms);
    mix(&common, lh_grantor_lease_count(g->table));
    mix(&common, grantor_has_timer(g));
    uint64_t a = holder_print(e, 0), b = holder_print(e, 1);
    struct lh_fingerprint print = {.exact = common, .kind = common + lh_mix64(a) + lh_mix64(b)};
    mix(&print.exact, a);
    mix(&print.exact, b);
    return print;
}

struct lh_engine *lh_engine_create(void)
{
    struct lh_engine *e = lh_alloc(sizeof *e);

    e->grantor.table = lh_grantor_create(0);
    for (uint32_t i = 0; i < HOLDERS; i++)
        e->holders[i].table = lh_holder_create();
    return e;
}

void lh_engine_destroy(struct lh_engine *e)
{
    if (e == NULL)
        return;
    lh_grantor_destroy(e->grantor.table);
    for (uint32_t i = 0; i < HOLDERS; i++)
        lh_holder_destroy(e->holders[i].table);
    free(e);
}

struct lh_space lh_engine_space(struct lh_engine *e)
{
    return (struct lh_space){
        .self = e,
        .begin = begin,
        .moves = moves,
        .make = make,
        .fingerprint = fingerprint,
        .violation = violation,
    };
}
