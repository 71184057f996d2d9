/* What masters that share a store write over each other (heads.c). Inside sim/observers only. */
#pragma once

#include "sim/observers/known.h"

/* After the cluster looks at the store itself. */
void lh_ob_heads_init(struct lh_sim_observers *o);
void lh_ob_heads_deinit(struct lh_sim_observers *o);
