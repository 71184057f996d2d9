/* The process's own figures: CPU time, memory, open files (the names that Prometheus's clients
 * use for them), and jemalloc's. */
#pragma once

#include "base/metrics.h"

/* Appends them. Any thread. Figures that cannot be had are left out. */
void lh_process_metrics(struct lh_metrics *out);
