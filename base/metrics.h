/* What a process counts, as text in the format that Prometheus scrapes (text/plain; version=0.0.4:
 * https://prometheus.io/docs/instrumenting/exposition_formats/).
 *
 *     lh_metrics_family(m, "leasehold_master_grants_total", LH_METRIC_COUNTER, "Leases granted.");
 *     lh_metrics_count(m, NULL, 0, grants);
 *
 * Pure: the text goes to memory. Names, help and label names are the program's own; label values
 * may come from anywhere and are escaped. Not thread-safe. */
#pragma once

#include "base/time.h"

#include <stddef.h>
#include <stdint.h>

enum lh_metric_type { LH_METRIC_COUNTER, LH_METRIC_GAUGE, LH_METRIC_HISTOGRAM };

struct lh_label {
    const char *name;
    const char *value;
};

/* All-zero is an empty text. */
struct lh_metrics {
    char *text; /* ends in NUL; NULL while empty */
    size_t size, capacity;
    const char *family;
};

/* Begins a family: the samples that follow are its. `name` and `help` must stay valid until the
 * next one begins; a counter's name ends in _total, units are base units (seconds, bytes). */
void lh_metrics_family(
    struct lh_metrics *m, const char *name, enum lh_metric_type type, const char *help);

/* One sample, of a counter or of a gauge that counts. At most 8 labels. */
void lh_metrics_count(
    struct lh_metrics *m, const struct lh_label *labels, size_t label_count, uint64_t value);
void lh_metrics_value(
    struct lh_metrics *m, const struct lh_label *labels, size_t label_count, double value);

/* A family of one sample without labels. */
void lh_metrics_single(struct lh_metrics *m, const char *name, enum lh_metric_type type,
    const char *help, uint64_t value);

void lh_metrics_deinit(struct lh_metrics *m);

/* How long something took, in buckets from 50 us to a minute. All-zero is empty. */
#define LH_HISTOGRAM_BUCKETS 19u

struct lh_histogram {
    uint64_t counts[LH_HISTOGRAM_BUCKETS + 1]; /* of each bucket alone; the last: above all */
    uint64_t sum_ns;
};

void lh_histogram_note(struct lh_histogram *h, struct lh_duration took);
/* The same duration `times` over. */
void lh_histogram_note_many(struct lh_histogram *h, struct lh_duration took, uint64_t times);

/* Its samples, in seconds: _bucket with `le`, _sum, _count. At most 7 labels. */
void lh_metrics_histogram(struct lh_metrics *m, const struct lh_label *labels, size_t label_count,
    const struct lh_histogram *h);
