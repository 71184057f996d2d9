#include "sim/report/narrative.h"

#include "sim/report/story.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_DEFAULT 160u
#define LINE_BYTES      1024u
#define TIME_WIDTH      14u /* "  1,234,567.890" and a blank */
#define COLUMN_MIN      4u  /* of a node; narrower, and its name goes in front of each line */

/* What is counted is told once this long has passed since it was last told. */
#define COUNT_FOR_NS UINT64_C(1000000000)
/* The same text again, later than this, is news. */
#define AGAIN_FOR_NS UINT64_C(2000000000)

/* Something that happens over and over at one node. */
struct count {
    enum lh_sim_what what; /* SAID: the same text again */
    int node, peer;
    uint64_t chunk, version;
    char *text; /* of SAID */
    enum lh_sim_topic topic;
    uint64_t since, last, count, reach;
};

struct lh_sim_narrative {
    struct lh_sim_narrative_options options;
    struct lh_sim *sim;
    struct lh_sim_story *story;
    FILE *to;
    bool finished;
    bool narrow;
    unsigned width; /* of a node's column */
    size_t nodes;

    struct count *counts;
    size_t count_count, count_capacity;

    /* The line under way: what one step says to several peers is one line. */
    struct {
        bool there;
        struct lh_sim_transition t;
        char *text;
        char peers[128];
    } line;

    /* What is done to the world at this moment. Lines that differ in one word are one line. */
    struct fault {
        struct lh_sim_transition t;
        char *text;
        size_t from, to; /* the words that differ, as bytes of the text; 0, 0: none yet */
    } * faults;
    size_t fault_count, fault_capacity;

    char **ring; /* `options.last` lines, the next one goes to `ring_at` */
    size_t ring_at;
    uint64_t left_out;
};

struct lh_sim_narrative_options lh_sim_narrative_options_default(void)
{
    return (struct lh_sim_narrative_options){.until_ns = UINT64_MAX, .columns = COLUMNS_DEFAULT};
}

/* ---- Lines ---- */

static void put(struct lh_sim_narrative *n, const char *line)
{
    if (n->options.last == 0) {
        fprintf(n->to, "%s\n", line);
        return;
    }
    n->left_out += n->ring[n->ring_at] != NULL;
    free(n->ring[n->ring_at]);
    n->ring[n->ring_at] = lh_strdup(line);
    n->ring_at = (n->ring_at + 1) % n->options.last;
}

static unsigned column_of(const struct lh_sim_narrative *n, int node)
{
    return TIME_WIDTH + 2 + (unsigned)node * n->width;
}

static unsigned paper(const struct lh_sim_narrative *n)
{
    return n->options.columns < LINE_BYTES / 2 ? n->options.columns : LINE_BYTES / 2;
}

static void print_time(char to[LH_SIM_NUMBER_BYTES + 8], uint64_t at)
{
    char ms[LH_SIM_NUMBER_BYTES];

    snprintf(to, LH_SIM_NUMBER_BYTES + 8, "%s.%03u", lh_sim_number(ms, at / 1000000),
        (unsigned)(at / 1000 % 1000));
}

/* Everybody's line, up to the paper's edge: `line` is filled with blanks and ends there. */
static void draw_lives(const struct lh_sim_narrative *n, char *line, unsigned size)
{
    memset(line, ' ', size);
    line[size] = '\0';
    for (size_t i = 0; i < n->nodes; i++) {
        const struct lh_sim_node *node = lh_sim_node(n->sim, i);
        unsigned at = column_of(n, (int)i);
        if (at < size && lh_sim_is_up(node))
            line[at] = lh_sim_is_paused(node) ? ':' : '|';
    }
}

static void trim(char *line)
{
    size_t size = strlen(line);

    while (size > 0 && line[size - 1] == ' ')
        line[--size] = '\0';
}

static const char *color_of(const struct lh_sim_narrative *n, enum lh_sim_topic topic)
{
    static const char *const codes[LH_SIM_TOPIC_COUNT] = {
        [LH_SIM_TOPIC_FAULT] = "\033[33m",
        [LH_SIM_TOPIC_SESSION] = "\033[36m",
        [LH_SIM_TOPIC_LEASE] = "\033[32m",
        [LH_SIM_TOPIC_RECOVERY] = "\033[34m",
        [LH_SIM_TOPIC_SEAL] = "\033[35m",
        [LH_SIM_TOPIC_REFUSAL] = "\033[31m",
        [LH_SIM_TOPIC_LOCK] = "\033[32m",
        [LH_SIM_TOPIC_VALUE] = "\033[34m",
        [LH_SIM_TOPIC_LOG] = "\033[31m",
    };

    return n->options.color && codes[topic] != NULL ? codes[topic] : "";
}

/* Text at its node's column: to the right of it, or, where there is more room, to its left. */
static void put_in_column(
    struct lh_sim_narrative *n, int node, enum lh_sim_topic topic, const char *time, char *text)
{
    char line[LINE_BYTES / 2 + 1], out[LINE_BYTES * 2];
    unsigned size = paper(n), at = column_of(n, node);
    unsigned length = (unsigned)strlen(text), from;
    const char *color = color_of(n, topic);

    draw_lives(n, line, size);
    if (at + 2 + length > size && at > TIME_WIDTH + 1 + length)
        from = at - 1 - length;
    else
        from = at + 2;
    line[at] = 'o';
    if (from + length >= size) { /* the end may hang over */
        line[from] = '\0';
        snprintf(out, sizeof out, "%*s%.*s%s%s%s", (int)TIME_WIDTH, time, (int)(from - TIME_WIDTH),
            line + TIME_WIDTH, color, text, *color ? "\033[0m" : "");
    } else {
        snprintf(out, sizeof out, "%*s%.*s%s%s%s%s", (int)TIME_WIDTH, time,
            (int)(from - TIME_WIDTH), line + TIME_WIDTH, color, text, *color ? "\033[0m" : "",
            line + from + length);
    }
    trim(out);
    put(n, out);
}

static void put_line(struct lh_sim_narrative *n, int node, enum lh_sim_topic topic, uint64_t at,
    uint64_t chunk, uint64_t version, const char *text, const char *peers)
{
    char time[LH_SIM_NUMBER_BYTES + 8], whole[LINE_BYTES], out[LINE_BYTES + 64];
    int used = 0;

    print_time(time, at);
    if (chunk != 0)
        used = snprintf(whole, sizeof whole, "chunk %" PRIu64, chunk);
    if (chunk != 0 && version != 0)
        used += snprintf(whole + used, sizeof whole - (size_t)used, " v%" PRIu64, version);
    snprintf(
        whole + used, sizeof whole - (size_t)used, "%s%s%s", used > 0 ? ": " : "", text, peers);
    if (node == LH_SIM_NOBODY) {
        const char *color = color_of(n, topic);
        snprintf(out, sizeof out, "%*s %s==== %s ====%s", (int)TIME_WIDTH, time, color, whole,
            *color ? "\033[0m" : "");
        put(n, out);
    } else if (n->narrow) {
        snprintf(out, sizeof out, "%*s %-4s %s", (int)TIME_WIDTH, time,
            lh_sim_name(lh_sim_node(n->sim, (size_t)node)), whole);
        put(n, out);
    } else {
        put_in_column(n, node, topic, time, whole);
    }
}

static void put_heading(struct lh_sim_narrative *n)
{
    char line[LINE_BYTES / 2 + 64] = "", *at = line;

    if (n->narrow)
        return;
    at += snprintf(at, sizeof line, "%*s  ", (int)TIME_WIDTH, "ms");
    for (size_t i = 0; i < n->nodes; i++)
        at += snprintf(at, sizeof line - (size_t)(at - line), "%-*s", (int)n->width,
            lh_sim_name(lh_sim_node(n->sim, i)));
    trim(line);
    fprintf(n->to, "%s\n", line);
}

/* ---- What is counted ---- */

static void tell_count(struct lh_sim_narrative *n, const struct count *c, uint64_t now)
{
    char text[512], count[LH_SIM_NUMBER_BYTES], reach[LH_SIM_NUMBER_BYTES];
    char since[LH_SIM_NUMBER_BYTES + 8];
    const char *times = c->count == 1 ? "" : "es";

    print_time(since, c->since);
    lh_sim_number(count, c->count);
    lh_sim_number(reach, c->what == LH_SIM_EXTENDED ? c->reach / 1000000 : c->reach);
    if (c->what == LH_SIM_STORED)
        snprintf(text, sizeof text, "stored %s batch%s, the last at %s", count, times, reach);
    else if (c->what == LH_SIM_ACKED)
        snprintf(text, sizeof text, "%s batch%s acknowledged, the last at %s", count, times, reach);
    else if (c->what == LH_SIM_EXTENDED)
        snprintf(text, sizeof text, "extended %s time%s since %s, last for %s ms", count,
            c->count == 1 ? "" : "s", since, reach);
    else
        snprintf(text, sizeof text, "%s time%s more since %s: %s%s%s", count,
            c->count == 1 ? "" : "s", since, c->text, c->peer == LH_SIM_NOBODY ? "" : " -> ",
            c->peer == LH_SIM_NOBODY ? "" : lh_sim_name(lh_sim_node(n->sim, (size_t)c->peer)));
    put_line(n, c->node, c->topic, now, c->chunk, c->version, text, "");
}

static void drop_count(struct lh_sim_narrative *n, size_t i)
{
    free(n->counts[i].text);
    memmove(&n->counts[i], &n->counts[i + 1], (n->count_count - i - 1) * sizeof *n->counts);
    n->count_count--;
}

/* Does the line make a new paragraph of what was counted? */
static bool interrupts(const struct lh_sim_transition *t, const struct count *c)
{
    if (t->topic == LH_SIM_TOPIC_FAULT)
        return c->what != LH_SIM_SAID;
    if (c->what == LH_SIM_SAID || t->chunk == 0)
        return false;
    return t->chunk == c->chunk && (c->what != LH_SIM_EXTENDED || t->topic == LH_SIM_TOPIC_LEASE);
}

static bool is_old(const struct count *c, uint64_t now)
{
    switch (c->what) {
    case LH_SIM_EXTENDED:
        return false; /* as long as it goes on like this, that says all */
    case LH_SIM_SAID:
        return now - c->last > AGAIN_FOR_NS;
    default:
        return now - c->since > COUNT_FOR_NS;
    }
}

/* Tells the counts that are old, or that the line interrupts (NULL: all of them). */
static void flush_counts(
    struct lh_sim_narrative *n, const struct lh_sim_transition *t, uint64_t now, bool all)
{
    for (size_t i = 0; i < n->count_count;) {
        struct count *c = &n->counts[i];
        if (!all && !is_old(c, now) && (t == NULL || !interrupts(t, c))) {
            i++;
            continue;
        }
        if (c->count > 0)
            tell_count(n, c, now);
        drop_count(n, i);
    }
}

static struct count *count_of(struct lh_sim_narrative *n, const struct lh_sim_transition *t)
{
    for (size_t i = 0; i < n->count_count; i++) {
        struct count *c = &n->counts[i];
        if (c->what == t->what && c->node == t->node && c->chunk == t->chunk &&
            c->version == t->version &&
            (c->what != LH_SIM_SAID || (c->peer == t->peer && strcmp(c->text, t->text) == 0)))
            return c;
    }
    LH_GROW(n->counts, n->count_capacity, n->count_count + 1);
    struct count *c = &n->counts[n->count_count++];
    *c = (struct count){.what = t->what,
        .node = t->node,
        .peer = t->what == LH_SIM_SAID ? t->peer : LH_SIM_NOBODY,
        .chunk = t->chunk,
        .version = t->version,
        .topic = t->topic,
        .text = t->what == LH_SIM_SAID ? lh_strdup(t->text) : NULL,
        .since = t->at,
        .last = UINT64_MAX};
    return c;
}

static void put_pending(struct lh_sim_narrative *n)
{
    if (!n->line.there)
        return;
    n->line.there = false;
    put_line(n, n->line.t.node, n->line.t.topic, n->line.t.at, n->line.t.chunk, n->line.t.version,
        n->line.text, n->line.peers);
    free(n->line.text);
    n->line.text = NULL;
}

/* ---- What is done to the world ---- */

static void put_faults(struct lh_sim_narrative *n)
{
    for (size_t i = 0; i < n->fault_count; i++) {
        const struct fault *f = &n->faults[i];
        put_line(n, f->t.node, f->t.topic, f->t.at, 0, 0, f->text, "");
        free(f->text);
    }
    n->fault_count = 0;
}

/* Adds the one word in which `text` differs; false: it differs in more, or elsewhere. */
static bool joins(struct fault *f, const char *text)
{
    size_t size = strlen(f->text), length = strlen(text), from = 0, tail = 0;
    size_t end = f->to == 0 ? size : f->from; /* what differs begins by there */

    while (from < end && from < length && f->text[from] == text[from])
        from++;
    while (tail < size - from && tail < length - from &&
           f->text[size - 1 - tail] == text[length - 1 - tail])
        tail++;
    if (f->to != 0) { /* the same place as before */
        from = f->from;
        tail = size - f->to;
        if (length < from + tail || strncmp(f->text, text, from) != 0 ||
            strcmp(f->text + f->to, text + length - tail) != 0)
            return false;
    }
    while (from > 0 && text[from - 1] != ' ')
        from--;
    while (tail > 0 && text[length - tail] != ' ')
        tail--;
    size_t word = length - tail - from;
    if (word == 0 || from + tail == 0 || size < from + tail ||
        memchr(text + from, ' ', word) != NULL ||
        (f->to == 0 && memchr(f->text + from, ' ', size - tail - from) != NULL))
        return false;
    char *joined = lh_alloc(size + 1 + word + 1);
    memcpy(joined, f->text, size - tail);
    joined[size - tail] = ' ';
    memcpy(joined + size - tail + 1, text + from, word);
    memcpy(joined + size - tail + 1 + word, f->text + size - tail, tail);
    free(f->text);
    f->text = joined;
    f->from = from;
    f->to = size + 1 + word - tail;
    return true;
}

static void fault(struct lh_sim_narrative *n, const struct lh_sim_transition *t)
{
    for (size_t i = 0; i < n->fault_count; i++)
        if (n->faults[i].t.node == t->node && joins(&n->faults[i], t->text))
            return;
    LH_GROW(n->faults, n->fault_capacity, n->fault_count + 1);
    n->faults[n->fault_count++] = (struct fault){.t = *t, .text = lh_strdup(t->text)};
}

/* ---- What is said ---- */

static void add_peer(struct lh_sim_narrative *n, int peer)
{
    size_t used = strlen(n->line.peers);

    if (peer != LH_SIM_NOBODY)
        snprintf(n->line.peers + used, sizeof n->line.peers - used, "%s %s", used == 0 ? " ->" : "",
            lh_sim_name(lh_sim_node(n->sim, (size_t)peer)));
}

static bool continues(const struct lh_sim_narrative *n, const struct lh_sim_transition *t)
{
    return n->line.there && n->line.t.at == t->at && n->line.t.node == t->node &&
           n->line.t.chunk == t->chunk && n->line.t.version == t->version &&
           t->peer != LH_SIM_NOBODY && strcmp(n->line.text, t->text) == 0;
}

static void said(struct lh_sim_narrative *n, const struct lh_sim_transition *t)
{
    struct count *c = count_of(n, t);
    bool again = c->last != UINT64_MAX;

    if (again && c->count == 0)
        c->since = c->last;
    c->last = t->at;
    if (again) {
        c->count++;
        return;
    }
    if (!continues(n, t)) {
        put_pending(n);
        n->line.there = true;
        n->line.t = *t;
        n->line.text = lh_strdup(t->text);
        n->line.peers[0] = '\0';
    }
    add_peer(n, t->peer);
}

static void on_transition(void *arg, const struct lh_sim_transition *t)
{
    struct lh_sim_narrative *n = arg;

    if (n->finished || t->at < n->options.from_ns || t->at >= n->options.until_ns ||
        (n->options.chunk != 0 && t->chunk != 0 && t->chunk != n->options.chunk))
        return;
    if (n->line.there && n->line.t.at != t->at)
        put_pending(n);
    if (n->fault_count > 0 && (n->faults[0].t.at != t->at || t->topic != LH_SIM_TOPIC_FAULT))
        put_faults(n);
    if (t->what == LH_SIM_SAID) {
        if (n->count_count > 0 && !continues(n, t)) {
            put_pending(n);
            flush_counts(n, t, t->at, false);
        }
        if (t->topic == LH_SIM_TOPIC_FAULT) {
            put_pending(n);
            fault(n, t);
        } else {
            said(n, t);
        }
        return;
    }
    flush_counts(n, NULL, t->at, false);
    struct count *c = count_of(n, t);
    c->count += t->what == LH_SIM_EXTENDED ? 1 : t->count;
    c->reach = t->reach;
    c->last = t->at;
}

/* ---- Life ---- */

struct lh_sim_narrative *lh_sim_narrative_attach(
    struct lh_sim_cluster *c, const struct lh_sim_narrative_options *options, FILE *to)
{
    struct lh_sim_narrative *n = lh_alloc(sizeof *n);
    size_t longest = 0;

    n->options = *options;
    if (n->options.columns == 0)
        n->options.columns = COLUMNS_DEFAULT;
    n->sim = lh_sim_world(c);
    n->nodes = lh_sim_node_count(n->sim);
    n->to = to;
    for (size_t i = 0; i < n->nodes; i++) {
        size_t size = strlen(lh_sim_name(lh_sim_node(n->sim, i)));
        longest = size > longest ? size : longest;
    }
    /* Half of the paper is for text to the right of the last node. */
    n->width = (unsigned)(paper(n) > TIME_WIDTH ? (paper(n) - TIME_WIDTH) / 2 / n->nodes : 0);
    if (n->width > 12)
        n->width = 12;
    n->narrow = n->width < COLUMN_MIN || n->width <= longest;
    if (n->options.last > 0)
        n->ring = lh_alloc_array(n->options.last, sizeof *n->ring);
    n->story =
        lh_sim_story_begin(c, &(struct lh_sim_listener){.arg = n, .transition = on_transition});
    put_heading(n);
    return n;
}

static void write_ring(struct lh_sim_narrative *n)
{
    char number[LH_SIM_NUMBER_BYTES];

    if (n->left_out > 0)
        fprintf(n->to, "%*s  (%s earlier lines left out)\n", (int)TIME_WIDTH, "...",
            lh_sim_number(number, n->left_out));
    for (size_t i = 0; i < n->options.last; i++) {
        const char *line = n->ring[(n->ring_at + i) % n->options.last];
        if (line != NULL)
            fprintf(n->to, "%s\n", line);
    }
}

void lh_sim_narrative_finish(struct lh_sim_narrative *n)
{
    const char *failure = lh_sim_failure(n->sim);
    uint64_t now = lh_sim_now(n->sim);

    if (n->finished)
        return;
    lh_sim_story_end(n->story);
    put_pending(n);
    put_faults(n);
    flush_counts(n, NULL, now < n->options.until_ns ? now : n->options.until_ns, true);
    n->finished = true;
    if (n->options.last > 0)
        write_ring(n);
    if (failure != NULL)
        fprintf(n->to, "%s!!!! %s%s\n", n->options.color ? "\033[1;31m" : "", failure,
            n->options.color ? "\033[0m" : "");
}

void lh_sim_narrative_destroy(struct lh_sim_narrative *n)
{
    if (n == NULL)
        return;
    lh_sim_story_destroy(n->story);
    for (size_t i = 0; i < n->count_count; i++)
        free(n->counts[i].text);
    for (size_t i = 0; i < n->options.last; i++)
        free(n->ring[i]);
    free(n->counts);
    free(n->ring);
    for (size_t i = 0; i < n->fault_count; i++)
        free(n->faults[i].text);
    free(n->faults);
    free(n->line.text);
    free(n);
}
