/* What is checked also behind an older copy of the store: what a server says of its own log
 * (own_log.c), and what the master takes on (taken_on.c). Inside sim/observers only. */
#pragma once

#include "sim/observers/known.h"

/* For observers.c. */
void lh_ob_own_log_takes(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s);
void lh_ob_own_log_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s);
void lh_ob_own_log_disk(struct lh_sim_observers *o, const struct actor *a, uint64_t file,
    enum lh_disk_op op, uint64_t offset);
void lh_ob_own_log_init(struct lh_sim_observers *o);
void lh_ob_own_log_deinit(struct lh_sim_observers *o);

/* The master does that. */
void lh_ob_taken_on_does(struct lh_sim_observers *o, const struct lh_sim_sight *s);
