#pragma once

#include "master/tables/tables.h"

/* Tells those below whom to tell. */
void lh_m_wire(struct lh_master *m);
/* Takes in a unary call's message. False: a master has no such method. */
bool lh_m_call(struct lh_master *m, uint64_t link, enum lh_method method, const void *message);
