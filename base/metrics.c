#include "base/metrics.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_MAX 8u

static void add(struct lh_metrics *m, const char *text, size_t size)
{
    LH_GROW(m->text, m->capacity, m->size + size + 1);
    memcpy(m->text + m->size, text, size);
    m->size += size;
    m->text[m->size] = '\0';
}

static void add_text(struct lh_metrics *m, const char *text)
{
    add(m, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static void add_format(
    struct lh_metrics *m, const char *format, ...)
{
    char text[128];
    va_list args;

    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    LH_ASSERT(size >= 0 && (size_t)size < sizeof text);
    add(m, text, (size_t)size);
}

void lh_metrics_family(
    struct lh_metrics *m, const char *name, enum lh_metric_type type, const char *help)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};

    m->family = name;
    add_text(m, "# HELP ");
    add_text(m, name);
    add_text(m, " ");
    add_text(m, help);
    add_text(m, "\n# TYPE ");
    add_text(m, name);
    add_text(m, " ");
    add_text(m, types[type]);
    add_text(m, "\n");
}

static void add_escaped(struct lh_metrics *m, const char *value)
{
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '\n')
            add_text(m, "\\n");
        else if (*c == '\\' || *c == '"')
            add_format(m, "\\%c", *c);
        else
            add(m, c, 1);
    }
}

/* The name with `suffix`, the labels and a blank. */
static void begin(
    struct lh_metrics *m, const char *suffix, const struct lh_label *labels, size_t count)
{
    LH_ASSERT(m->family != NULL && count <= LABELS_MAX);
    add_text(m, m->family);
    add_text(m, suffix);
    for (size_t i = 0; i < count; i++) {
        add_text(m, i == 0 ? "{" : ",");
        add_text(m, labels[i].name);
        add_text(m, "=\"");
        add_escaped(m, labels[i].value);
        add_text(m, "\"");
    }
    add_text(m, count > 0 ? "} " : " ");
}

void lh_metrics_count(
    struct lh_metrics *m, const struct lh_label *labels, size_t label_count, uint64_t value)
{
    begin(m, "", labels, label_count);
    add_format(m, "%" PRIu64 "\n", value);
}

void lh_metrics_value(
    struct lh_metrics *m, const struct lh_label *labels, size_t label_count, double value)
{
    begin(m, "", labels, label_count);
    add_format(m, "%.9g\n", value);
}

void lh_metrics_single(struct lh_metrics *m, const char *name, enum lh_metric_type type,
    const char *help, uint64_t value)
{
    lh_metrics_family(m, name, type, help);
    lh_metrics_count(m, NULL, 0, value);
}

void lh_metrics_deinit(struct lh_metrics *m)
{
    free(m->text);
    *m = (struct lh_metrics){0};
}

/* Upper bounds in nanoseconds. */
static const uint64_t bounds[LH_HISTOGRAM_BUCKETS] = {50000, 100000, 250000, 500000, 1000000,
    2500000, 5000000, 10000000, 25000000, 50000000, 100000000, 250000000, 500000000, 1000000000,
    2500000000, 5000000000, 10000000000, 25000000000, 60000000000};

void lh_histogram_note(struct lh_histogram *h, struct lh_duration took)
{
    lh_histogram_note_many(h, took, 1);
}

void lh_histogram_note_many(struct lh_histogram *h, struct lh_duration took, uint64_t times)
{
    size_t i = 0;

    while (i < LH_HISTOGRAM_BUCKETS && took.ns > bounds[i])
        i++;
    h->counts[i] += times;
    h->sum_ns += took.ns * times;
}

void lh_metrics_histogram(struct lh_metrics *m, const struct lh_label *labels, size_t label_count,
    const struct lh_histogram *h)
{
    struct lh_label all[LABELS_MAX];
    uint64_t total = 0;

    LH_ASSERT(label_count < LABELS_MAX);
    if (label_count > 0)
        memcpy(all, labels, label_count * sizeof *labels);
    for (size_t i = 0; i <= LH_HISTOGRAM_BUCKETS; i++) {
        char le[32] = "+Inf";
        total += h->counts[i];
        if (i < LH_HISTOGRAM_BUCKETS)
            (void)snprintf(le, sizeof le, "%g", (double)bounds[i] / 1e9);
        all[label_count] = (struct lh_label){"le", le};
        begin(m, "_bucket", all, label_count + 1);
        add_format(m, "%" PRIu64 "\n", total);
    }
    begin(m, "_sum", labels, label_count);
    add_format(m, "%.9g\n", (double)h->sum_ns / 1e9);
    begin(m, "_count", labels, label_count);
    add_format(m, "%" PRIu64 "\n", total);
}
