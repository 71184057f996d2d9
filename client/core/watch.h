/* Watches of values (VAL-6). */
#pragma once

#include "client/core/leases.h"

void lh_client_watch_open(struct lh_client *c, struct lh_watch_open_call *call);
void lh_client_watch_next(struct lh_watch_next_call *call);
void lh_client_watch_close(struct lh_watch_close_call *call);
void lh_client_watches_end(struct lh_client *c, bool complete);
void lh_client_watches_check(const struct lh_client *c);
