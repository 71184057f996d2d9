/* What the files of this folder know of each other. */
#pragma once

#include "master/tables/tables.h"

void lh_m_on_register(struct lh_master *m, struct lh_m_link *l, const Leasehold__Register *request);
