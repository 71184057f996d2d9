/* What host.c needs of the host's other files. */
#pragma once

#include "client/core/host/host.h"

/* active.c */
void lh_client_active_init(struct lh_client_host *c, const struct lh_client_config *config);
void lh_client_active_deinit(struct lh_client_host *c);
void lh_client_active_check(const struct lh_client_host *c);

/* ask.c */
void lh_client_masters_deinit(struct lh_client_host *c);
void lh_client_masters_check(const struct lh_client_host *c);
