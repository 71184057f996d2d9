/* Who is served what, by his role and what he has shown. Inside sim/observers only. */
#pragma once

#include "sim/observers/internal.h"

/* Whose call is answered, by his role (ACC-3, ACC-7). Of nodes that are no strangers, with a
 * cluster that has roles. */
void lh_ob_access_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_access_does(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_access_deinit(struct lh_sim_observers *o);

/* Whose call is answered, by his cluster (SES-10). Of nodes that are no strangers. */
void lh_ob_foreign_takes(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s);
void lh_ob_foreign_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s);
void lh_ob_foreign_deinit(struct lh_sim_observers *o);

/* Of nodes that are no strangers, with a cluster that has capabilities. */
void lh_ob_capability_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_capability_does(struct lh_sim_observers *o, const struct lh_sim_sight *s);
/* A program's call has ended; also without capabilities. */
void lh_ob_capability_completed(struct lh_sim_observers *o, const struct lh_call *call, int error);
void lh_ob_capability_deinit(struct lh_sim_observers *o);

/* Whose versions are adopted (ACC-9). Of nodes that are no strangers, with a cluster that has
 * capabilities. */
void lh_ob_leads_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_leads_does(struct lh_sim_observers *o, const struct lh_sim_sight *s);
/* What that part has written down; it is made when it is first used. */
struct leads **lh_ob_capability_leads(struct lh_sim_observers *o);
void lh_ob_leads_free(struct leads *leads);
