#pragma once

#include "master/tables/tables.h"

void lh_m_chunk_durable(struct lh_master *m, struct lh_m_chunk *c);
/* A commit is durable, or failed. */
void lh_m_on_persisted(struct lh_master *m, uint64_t ticket, int error);
