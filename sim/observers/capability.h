/* Who is served what, by his role and what he has shown. Inside sim/observers only. */
#pragma once

#include "sim/observers/internal.h"

/* Whose call is answered, by his role (ACC-3, ACC-7). Of nodes that are no strangers, with a
 * cluster that has roles. */
void lh_ob_access_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_access_does(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_access_deinit(struct lh_sim_observers *o);

/* Of nodes that are no strangers, with a cluster that has capabilities. */
void lh_ob_capability_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_capability_does(struct lh_sim_observers *o, const struct lh_sim_sight *s);
/* A program's call has ended; also without capabilities. */
void lh_ob_capability_completed(struct lh_sim_observers *o, const struct lh_call *call, int error);
void lh_ob_capability_deinit(struct lh_sim_observers *o);
