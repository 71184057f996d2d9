/* Which of several masters the observers follow (reign.c). Inside sim/observers only. */
#pragma once

#include "sim/observers/internal.h"

/* True: the master's core takes this input now. A master that acts and is not confirmed takes it
 * when it is: lh_ob_take() comes then. */
bool lh_ob_reign_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_reign_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s);
/* A master has made a step. True: it is the one that acts. */
bool lh_ob_reign_acts(struct lh_sim_observers *o, struct actor *a);
/* Its process is gone, or its reign, and with it what waited. */
void lh_ob_reign_forget(struct lh_sim_observers *o);
/* The master that acted last knows that it acts. */
bool lh_ob_reign_confirmed(const struct lh_sim_observers *o);
/* observers.c: all others are shown what is taken. */
void lh_ob_take(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
