/* Disk operations under way, and what a shortage makes wait. */
#pragma once

#include "base/time.h"
#include "base/timers.h"

#include <stdint.h>

struct lh_cs_logs;
struct lh_cs_operation;

struct lh_cs_disk {
    struct lh_cs_operation *operations;
    uint64_t last;
    struct lh_instant quiet_since;       /* while operations are out: when the last one came back,
                                            or the first of these went (SES-6) */
    struct lh_instant discounted;        /* `quiet_since` as a pause of ours has moved it */
    struct {                             /* operations that could not be begun */
        struct lh_cs_operation *starved; /* that met it and are not complete */
        uint64_t times;                  /* that anything met it, since it began */
        struct lh_duration pause;
        struct lh_timer timer;
    } shortage;
};

void lh_cs_disk_init(struct lh_cs_logs *logs);
void lh_cs_disk_deinit(struct lh_cs_logs *logs);
/* Operations that met a shortage and are not complete. */
uint64_t lh_cs_disk_starved(const struct lh_cs_logs *logs);
