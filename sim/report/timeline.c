/* Keeps the story and writes it as one JSON object into the page. Numbers stand in flat arrays, a
 * fixed number of them for each item; texts that come again and again stand once. page_model.js
 * reads it: the order of the numbers is agreed between write_*() here and there. */
#include "sim/report/timeline.h"

#include "sim/report/page.h"
#include "sim/report/story.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct text {
    char *text;
    size_t number;
    UT_hash_handle hh;
};

struct moment {
    struct lh_sim_transition t; /* without its text */
    size_t text;
};

struct span {
    struct lh_sim_span s;
    size_t how, name;
};

struct arrow {
    struct lh_sim_arrow a;
    size_t name;
};

struct lh_sim_timeline {
    struct lh_sim_cluster *cluster;
    struct lh_sim *sim;
    struct lh_sim_story *story;
    char *title;
    struct text *texts, **by_number;
    size_t text_count, text_capacity;
    struct moment *moments;
    size_t moment_count, moment_capacity;
    struct span *spans;
    size_t span_count, span_capacity;
    struct arrow *arrows;
    size_t arrow_count, arrow_capacity;
};

/* ---- Listening ---- */

static size_t number_of(struct lh_sim_timeline *t, const char *text)
{
    struct text *known;

    HASH_FIND_STR(t->texts, text, known);
    if (known == NULL) {
        known = lh_alloc(sizeof *known);
        known->text = lh_strdup(text);
        known->number = t->text_count;
        HASH_ADD_KEYPTR(hh, t->texts, known->text, strlen(known->text), known);
        LH_GROW(t->by_number, t->text_capacity, t->text_count + 1);
        t->by_number[t->text_count++] = known;
    }
    return known->number;
}

static void on_transition(void *arg, const struct lh_sim_transition *transition)
{
    struct lh_sim_timeline *t = arg;

    LH_GROW(t->moments, t->moment_capacity, t->moment_count + 1);
    struct moment *m = &t->moments[t->moment_count++];
    m->t = *transition;
    m->t.text = NULL;
    m->text = transition->what == LH_SIM_SAID ? number_of(t, transition->text) : 0;
}

static void on_span(void *arg, const struct lh_sim_span *span)
{
    struct lh_sim_timeline *t = arg;

    LH_GROW(t->spans, t->span_capacity, t->span_count + 1);
    t->spans[t->span_count++] = (struct span){
        *span, number_of(t, span->how), number_of(t, span->name == NULL ? "" : span->name)};
}

static void on_arrow(void *arg, const struct lh_sim_arrow *arrow)
{
    struct lh_sim_timeline *t = arg;

    LH_GROW(t->arrows, t->arrow_capacity, t->arrow_count + 1);
    t->arrows[t->arrow_count++] = (struct arrow){*arrow, number_of(t, arrow->name)};
}

/* ---- Writing ---- */

/* A JSON string that is harmless within <script>, whatever it holds. */
static void write_string(FILE *to, const char *text)
{
    fputc('"', to);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f || *c == '<' || *c == '>' || *c == '&' || *c == '\'')
            fprintf(to, "\\u%04x", *c);
        else
            fputc(*c, to);
    }
    fputc('"', to);
}

/* As HTML text or in an attribute. */
static void write_html(FILE *to, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        switch (*c) {
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '&':
            fputs("&amp;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        case '\'':
            fputs("&#39;", to);
            break;
        default:
            fputc((unsigned char)*c < 0x20 ? ' ' : *c, to);
        }
    }
}

static const char *comma(bool *first)
{
    const char *text = *first ? "" : ",";

    *first = false;
    return text;
}

/* Words: time since the one before, node, topic, peer, chunk, version, text. */
static void write_said(const struct lh_sim_timeline *t, FILE *to)
{
    uint64_t before = 0;
    bool first = true;

    fputs(",\n\"said\":[", to);
    for (size_t i = 0; i < t->moment_count; i++) {
        const struct moment *m = &t->moments[i];
        if (m->t.what != LH_SIM_SAID)
            continue;
        fprintf(to, "%s%" PRIu64 ",%d,%d,%d,%" PRIu64 ",%" PRIu64 ",%zu", comma(&first),
            m->t.at - before, m->t.node, (int)m->t.topic, m->t.peer, m->t.chunk, m->t.version,
            m->text);
        before = m->t.at;
    }
    fputs("]", to);
}

/* Time since the one before, kind, node, chunk, version, batches, reach. */
static void write_counted(const struct lh_sim_timeline *t, FILE *to)
{
    uint64_t before = 0;
    bool first = true;

    fputs(",\n\"counted\":[", to);
    for (size_t i = 0; i < t->moment_count; i++) {
        const struct moment *m = &t->moments[i];
        if (m->t.what == LH_SIM_SAID)
            continue;
        fprintf(to, "%s%" PRIu64 ",%d,%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64,
            comma(&first), m->t.at - before, (int)m->t.what, m->t.node, m->t.chunk, m->t.version,
            m->t.count, m->t.reach);
        before = m->t.at;
    }
    fputs("]", to);
}

/* Kind, node, peer, chunk, version, number, begin, end, unfinished, until, how, name. */
static void write_spans(const struct lh_sim_timeline *t, FILE *to)
{
    bool first = true;

    fputs(",\n\"spans\":[", to);
    for (size_t i = 0; i < t->span_count; i++) {
        const struct lh_sim_span *s = &t->spans[i].s;
        fprintf(to,
            "%s%d,%d,%d,%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRIu64 ",%" PRIu64 ",%d,%" PRIu64
            ",%zu,%zu",
            comma(&first), (int)s->kind, s->node, s->peer, s->chunk, s->version, (int64_t)s->number,
            s->begin, s->end, s->unfinished, s->until, t->spans[i].how, t->spans[i].name);
    }
    fputs("]", to);
}

/* Name, from, to, chunk, version, sent, how long it took (-1: it was lost, -2: under way). */
static void write_arrows(const struct lh_sim_timeline *t, FILE *to)
{
    bool first = true;

    fputs(",\n\"arrows\":[", to);
    for (size_t i = 0; i < t->arrow_count; i++) {
        const struct lh_sim_arrow *a = &t->arrows[i].a;
        fprintf(to, "%s%zu,%d,%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64, comma(&first),
            t->arrows[i].name, a->from, a->to, a->chunk, a->version, a->sent,
            a->under_way               ? INT64_C(-2)
            : a->arrived == UINT64_MAX ? INT64_C(-1)
                                       : (int64_t)(a->arrived - a->sent));
    }
    fputs("]", to);
}

static void write_failure(const struct lh_sim_timeline *t, FILE *to)
{
    fputs(",\n\"failure\":", to);
    if (lh_sim_failure(t->sim) == NULL) {
        fputs("null", to);
        return;
    }
    fprintf(to, "{\"at\":%" PRIu64 ",\"chunk\":%" PRIu64 ",\"rule\":", lh_sim_failed_at(t->sim),
        lh_sim_failed_chunk(t->sim));
    write_string(to, lh_sim_failed_rule(t->sim));
    fputs(",\"text\":", to);
    write_string(to, lh_sim_failure(t->sim));
    fputs("}", to);
}

static void write_run(const struct lh_sim_timeline *t, FILE *to)
{
    bool first = true;

    fputs("{\"title\":", to);
    write_string(to, t->title);
    fprintf(to, ",\"end\":%" PRIu64 ",\"nodes\":[", lh_sim_now(t->sim));
    for (size_t i = 0; i < lh_sim_node_count(t->sim); i++) {
        fputs(comma(&first), to);
        write_string(to, lh_sim_name(lh_sim_node(t->sim, i)));
    }
    fputs("],\"topics\":[", to);
    first = true;
    for (int i = 0; i < LH_SIM_TOPIC_COUNT; i++)
        fprintf(to, "%s\"%s\"", comma(&first), lh_sim_topic_name((enum lh_sim_topic)i));
    fputs("],\n\"texts\":[", to);
    first = true;
    for (size_t i = 0; i < t->text_count; i++) {
        fputs(comma(&first), to);
        write_string(to, t->by_number[i]->text);
    }
    fputs("]", to);
    write_said(t, to);
    write_counted(t, to);
    write_spans(t, to);
    write_arrows(t, to);
    write_failure(t, to);
    fputs("}\n", to);
}

int lh_sim_timeline_write(struct lh_sim_timeline *t, FILE *to)
{
    lh_sim_story_end(t->story);
    for (const char *at = (const char *)lh_sim_page; *at != '\0';) {
        const char *mark = strchr(at, '@');
        if (mark == NULL) {
            fputs(at, to);
            break;
        }
        fwrite(at, 1, (size_t)(mark - at), to);
        at = mark + 1;
        if (strncmp(at, "TITLE@", 6) == 0) {
            write_html(to, t->title);
            at += 6;
        } else if (strncmp(at, "STYLE@", 6) == 0) {
            fputs((const char *)lh_sim_page_style, to);
            at += 6;
        } else if (strncmp(at, "SCRIPT@", 7) == 0) {
            fputs((const char *)lh_sim_page_script, to);
            at += 7;
        } else if (strncmp(at, "RUN@", 4) == 0) {
            write_run(t, to);
            at += 4;
        } else {
            fputc('@', to);
        }
    }
    return fflush(to) != 0 || ferror(to) ? LH_ERR_IO : LH_OK;
}

/* ---- Life ---- */

struct lh_sim_timeline *lh_sim_timeline_attach(struct lh_sim_cluster *c, const char *title)
{
    struct lh_sim_timeline *t = lh_alloc(sizeof *t);

    t->cluster = c;
    t->sim = lh_sim_world(c);
    t->title = lh_strdup(title);
    t->story = lh_sim_story_begin(
        c, &(struct lh_sim_listener){
               .arg = t, .transition = on_transition, .span = on_span, .arrow = on_arrow});
    return t;
}

struct lh_sim_timeline_counts lh_sim_timeline_counts(const struct lh_sim_timeline *t)
{
    struct lh_sim_timeline_counts counts = {
        .lanes = lh_sim_node_count(t->sim), .arrows = t->arrow_count};

    for (size_t i = 0; i < t->moment_count; i++)
        counts.transitions += t->moments[i].t.what == LH_SIM_SAID;
    for (size_t i = 0; i < t->span_count; i++) {
        counts.given += t->spans[i].s.kind == LH_SIM_SPAN_LEASE_GIVEN;
        counts.held += t->spans[i].s.kind == LH_SIM_SPAN_LEASE_HELD;
        counts.faults +=
            t->spans[i].s.kind >= LH_SIM_SPAN_DOWN && t->spans[i].s.kind != LH_SIM_SPAN_LOCK_HELD;
        counts.locks += t->spans[i].s.kind == LH_SIM_SPAN_LOCK_HELD;
    }
    return counts;
}

void lh_sim_timeline_destroy(struct lh_sim_timeline *t)
{
    struct text *text, *next;

    if (t == NULL)
        return;
    lh_sim_story_destroy(t->story);
    HASH_ITER(hh, t->texts, text, next) {
        HASH_DEL(t->texts, text);
        free(text->text);
        free(text);
    }
    free(t->by_number);
    free(t->moments);
    free(t->spans);
    free(t->arrows);
    free(t->title);
    free(t);
}
