/* What a master has told servers to remove, and what became of it (KEEP-3). */
#pragma once

#include "sim/observers/internal.h"

/* Nothing that a server was told to remove is still there (KEEP-3); else as lh_ob_inv5_equal(). */
bool lh_ob_leftovers_none(
    struct lh_sim_observers *o, uint64_t *chunk, char *text, size_t text_size);
void lh_ob_leftovers_takes(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s);
void lh_ob_leftovers_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s);
