/* The watcher: takes what the world shows apart and hands it to those who understand it. */
#include "sim/report/internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 320

const char *lh_sim_topic_name(enum lh_sim_topic topic)
{
    static const char *const names[LH_SIM_TOPIC_COUNT] = {"fault", "session", "lease", "recovery",
        "append", "seal", "replica", "file", "refusal", "lock", "value", "log"};

    return names[topic];
}

const char *lh_sim_number(char to[LH_SIM_NUMBER_BYTES], uint64_t number)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, number), out = 0;

    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            to[out++] = ',';
        to[out++] = digits[i];
    }
    to[out] = '\0';
    return to;
}

/* Paths and texts of peers may hold anything; a line is a line. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

void lh_sim_narrate(struct lh_sim_story *s, struct lh_sim_transition t, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;

    s->said = true;
    if (s->listener.transition == NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    make_printable(text);
    if (t.at == 0)
        t.at = lh_sim_now(s->sim);
    t.text = text;
    s->listener.transition(s->listener.arg, &t);
}

void lh_sim_narrate_span(struct lh_sim_story *s, struct lh_sim_span *span, uint64_t end)
{
    span->end = end;
    if (span->until < end)
        span->until = end;
    if (s->listener.span != NULL)
        s->listener.span(s->listener.arg, span);
}

int lh_sim_index(const struct lh_sim_story *s, const struct lh_sim_node *node)
{
    for (size_t i = 0; i < s->nodes; i++)
        if (lh_sim_node(s->sim, i) == node)
            return (int)i;
    return LH_SIM_NOBODY;
}

struct lh_sim_node *lh_sim_at_index(const struct lh_sim_story *s, int index)
{
    return lh_sim_node(s->sim, (size_t)index);
}

bool lh_sim_is_chunkserver(const struct lh_sim_story *s, int index)
{
    return strncmp(lh_sim_name(lh_sim_at_index(s, index)), "cs", 2) == 0; /* cluster.h */
}

/* ---- Links ---- */

static struct link *link_of(struct lh_sim_story *s, const struct lh_sim_sight *sight)
{
    struct link *l;

    HASH_FIND(hh, s->links, &sight->link, sizeof sight->link, l);
    if (l != NULL)
        return l;
    l = lh_alloc(sizeof *l);
    l->number = sight->link;
    l->opener = lh_sim_index(s, sight->node);
    HASH_ADD(hh, s->links, number, sizeof l->number, l);
    return l;
}

static void tell_arrow(struct lh_sim_story *s, struct lh_sim_arrow *arrow, uint64_t arrived)
{
    arrow->arrived = arrived;
    if (s->listener.arrow != NULL)
        s->listener.arrow(s->listener.arg, arrow);
}

static void drop_link(struct lh_sim_story *s, struct link *l)
{
    for (int d = 0; d < 2; d++) {
        struct pending *next;
        for (struct pending *p = l->directions[d].first; p != NULL; p = next) {
            next = p->next;
            p->arrow.under_way = s->ending;
            tell_arrow(s, &p->arrow, UINT64_MAX);
            free(p);
        }
    }
    HASH_DEL(s->links, l);
    free(l->path);
    free(l);
}

/* The opener will hear nothing more of it, and nobody else acts on what it said. */
static void closed(struct lh_sim_story *s, const struct lh_sim_sight *sight)
{
    struct link *l;

    HASH_FIND(hh, s->links, &sight->link, sizeof sight->link, l);
    if (l != NULL && l->opener == lh_sim_index(s, sight->node))
        drop_link(s, l);
}

static void sent(struct lh_sim_story *s, const struct lh_sim_sight *sight, struct link *l)
{
    struct direction *d = &l->directions[sight->direction];
    struct lh_sim_arrow arrow;

    d->sent++;
    if (s->listener.arrow == NULL || sight->peer == NULL || !lh_sim_arrow_of(sight, &arrow))
        return;
    struct pending *p = lh_alloc(sizeof *p);
    p->ordinal = d->sent;
    p->arrow = arrow;
    p->arrow.from = lh_sim_index(s, sight->node);
    p->arrow.to = lh_sim_index(s, sight->peer);
    p->arrow.sent = lh_sim_now(s->sim);
    if (p->arrow.chunk == 0) {
        p->arrow.chunk = l->chunk;
        p->arrow.version = l->version;
    }
    if (d->last != NULL)
        d->last->next = p;
    else
        d->first = p;
    d->last = p;
}

/* A link is ordered, and only its end can be lost. */
static void arrived(struct lh_sim_story *s, const struct lh_sim_sight *sight, struct link *l)
{
    struct direction *d = &l->directions[sight->direction];
    struct pending *p = d->first;

    d->taken++;
    if (p == NULL || p->ordinal != d->taken)
        return;
    d->first = p->next;
    if (d->first == NULL)
        d->last = NULL;
    tell_arrow(s, &p->arrow, lh_sim_now(s->sim));
    free(p);
}

/* ---- The watcher ---- */

static void poll(struct lh_sim_story *s)
{
    lh_sim_beliefs_poll(s);
    lh_sim_locks_poll(s);
    lh_sim_faults_poll(s);
}

static void takes(void *arg, const struct lh_sim_sight *sight)
{
    struct lh_sim_story *s = arg;

    if (s->ended)
        return;
    poll(s);
    s->said = s->log.there = false;
    if (sight->message != NULL) {
        struct link *l = link_of(s, sight);
        arrived(s, sight, l);
        lh_sim_hear(s, sight);
    } else if (sight->input->kind == LH_IN_LINK_CLOSED) {
        closed(s, sight);
    } else if (sight->input->kind == LH_IN_CALL) {
        lh_sim_locks_takes(s, sight);
    }
}

static void does(void *arg, const struct lh_sim_sight *sight)
{
    struct lh_sim_story *s = arg;
    const struct lh_effect *e = sight->effect;

    if (s->ended)
        return;
    poll(s);
    if (sight->message != NULL) {
        struct link *l = link_of(s, sight);
        lh_sim_say(s, sight, l);
        sent(s, sight, l);
    } else if (e->kind == LH_FX_OPEN) {
        link_of(s, sight);
    } else if (e->kind == LH_FX_CLOSE) {
        closed(s, sight);
    } else if (e->kind == LH_FX_COMPLETE) {
        lh_sim_locks_does(s, sight);
    } else if (e->kind == LH_FX_LOG && e->level >= LH_WARN) {
        s->log.there = true;
        snprintf(s->log.text, sizeof s->log.text, "%s", e->text);
    }
}

static void stepped(void *arg, struct lh_sim_node *node)
{
    struct lh_sim_story *s = arg;

    if (s->ended)
        return;
    poll(s);
    lh_sim_beliefs_stepped(s, node);
    lh_sim_locks_stepped(s, node);
    /* Most of what a core warns of shows in what it says and believes as well. */
    if (s->log.there && !s->said) {
        struct lh_sim_transition t = {
            .topic = LH_SIM_TOPIC_LOG, .node = lh_sim_index(s, node), .peer = LH_SIM_NOBODY};
        lh_sim_narrate(s, t, "%s", s->log.text);
    }
    s->said = s->log.there = false;
}

static void lives(void *arg, struct lh_sim_node *node, enum lh_sim_life what)
{
    struct lh_sim_story *s = arg;

    if (s->ended)
        return;
    poll(s);
    lh_sim_faults_lives(s, node, what);
    if (what == LH_SIM_LIFE_STOPPED || what == LH_SIM_LIFE_CRASHED ||
        what == LH_SIM_LIFE_POWER_LOST) {
        lh_sim_beliefs_process_ended(s, node);
        lh_sim_locks_process_ended(s, node);
    }
}

static void disk(void *arg, struct lh_sim_node *node, uint64_t file, enum lh_disk_op op,
    uint64_t offset, uint64_t length, int error)
{
    struct lh_sim_story *s = arg;
    char number[LH_SIM_NUMBER_BYTES];
    static const char *const names[LH_DISK_OPS] = {
        "create", "write", "sync", "read", "truncate", "remove", "reserve", "replace"};

    (void)offset;
    if (s->ended || error == LH_ERR_CLOSED)
        return;
    poll(s);
    struct lh_sim_transition t = {.topic = LH_SIM_TOPIC_REPLICA,
        .node = lh_sim_index(s, node),
        .peer = LH_SIM_NOBODY,
        .chunk = file & ~LH_NEW_FILE};
    if (file == LH_PROBE_FILE && error == LH_ERR_ALREADY_EXISTS)
        return; /* as after every restart */
    if (error != LH_OK)
        lh_sim_narrate(s, t, "disk: %s failed: %s", names[op], lh_error_name(error));
    else if (op == LH_DISK_REPLACE)
        lh_sim_narrate(s, t, "puts a new file in the place of its old one");
    else if (op == LH_DISK_TRUNCATE && file != LH_PROBE_FILE)
        lh_sim_narrate(s, t, "cuts its log to %s bytes",
            lh_sim_number(number, length < LH_LOG_START ? 0 : length - LH_LOG_START));
}

static void noted(void *arg, const char *text)
{
    struct lh_sim_story *s = arg;

    if (s->ended)
        return;
    poll(s);
    lh_sim_beliefs_look(s); /* a clock's rate may be what changes */
    lh_sim_faults_noted(s, text);
}

struct lh_sim_story *lh_sim_story_begin(
    struct lh_sim_cluster *c, const struct lh_sim_listener *listener)
{
    struct lh_sim_story *s = lh_alloc(sizeof *s);

    s->cluster = c;
    s->sim = lh_sim_world(c);
    s->nodes = lh_sim_node_count(s->sim);
    s->listener = *listener;
    lh_sim_beliefs_begin(s);
    lh_sim_faults_begin(s);
    lh_sim_watch(s->sim, &(struct lh_sim_watcher){.arg = s,
                             .takes = takes,
                             .does = does,
                             .stepped = stepped,
                             .lives = lives,
                             .disk = disk,
                             .noted = noted});
    return s;
}

void lh_sim_story_end(struct lh_sim_story *s)
{
    struct link *l, *next;

    if (s->ended)
        return;
    poll(s);
    s->ending = true;
    lh_sim_beliefs_end(s);
    lh_sim_locks_end(s);
    lh_sim_faults_end(s);
    HASH_ITER(hh, s->links, l, next) {
        drop_link(s, l);
    }
    s->ended = true;
}

void lh_sim_story_destroy(struct lh_sim_story *s)
{
    struct link *l, *next;

    s->listener = (struct lh_sim_listener){0};
    lh_sim_locks_end(s);
    HASH_ITER(hh, s->links, l, next) {
        drop_link(s, l);
    }
    lh_sim_beliefs_deinit(s);
    lh_sim_faults_deinit(s);
    free(s);
}
