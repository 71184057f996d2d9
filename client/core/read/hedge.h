/* When a READ is late, and whether a second one may go out. */
#pragma once

#include "client/core/read/reader.h"

void lh_client_hedge_init(struct lh_client_readers *all);

/* A READ that did not wait for more bytes was answered after that time. */
void lh_client_read_took(struct lh_client_readers *all, struct lh_duration time);

/* After which time one is late. */
struct lh_duration lh_client_late_after(const struct lh_client_readers *all);

/* A READ goes out that is no hedge: so many more hedges are allowed. */
void lh_client_hedge_earn(struct lh_client_readers *all);

/* False: there were too many. */
bool lh_client_hedge_spend(struct lh_client_readers *all);
