/* Whether the store looks like an older copy (KEEP-4). What shows it is seen in inventory/ and
 * sessions/. */
#pragma once

#include "master/tables/common.h"

/* May anything be deleted now? Not while the store looks like an older copy. */
bool lh_m_deleting(const struct lh_master *m);
/* The store is older than what is known elsewhere; the first sentence is kept. */
__attribute__((format(printf, 2, 3))) void lh_m_set_behind(
    struct lh_master *m, const char *format, ...);
