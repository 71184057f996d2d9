/* Tokens over a store that became an older copy (tokens.c). Inside sim/observers only. */
#pragma once

#include "sim/observers/known.h"

void lh_ob_tokens_init(struct lh_sim_observers *o);
void lh_ob_tokens_deinit(struct lh_sim_observers *o);
void lh_ob_tokens_takes(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s);
void lh_ob_tokens_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s);
