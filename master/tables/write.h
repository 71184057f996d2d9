/* Emits the step's commit. */
#pragma once

#include "master/tables/tables.h"

/* Emits the step's commit if anything was marked. */
void lh_m_flush(struct lh_master *m);
