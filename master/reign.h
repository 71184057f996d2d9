/* How a reign begins: at the master's start, and above one that was seen elsewhere (SES-9). */
#pragma once

#include "master/tables/tables.h"

/* `m->term` is the new reign's. */
void lh_m_reign_start(struct lh_master *m);
/* Begins one above what a client has seen, if this step found that it has to. */
void lh_m_reign_step(struct lh_master *m);
