/* What the files of the service know of each other. Inside lease/ only. */
#pragma once

#include "lease/restart.h"

/* In the engine: granted, or granted again, in that session of the client. */
LH_MUST_USE int lh_lease_engage(struct lh_leases *l, const struct lh_lease *lease,
    struct lh_lease_client *client, lh_session_id session, uint64_t version,
    enum lh_lease_mode mode);
/* Session, confirmation, recall or end are others now. */
void lh_lease_changed(struct lh_lease *lease);
/* All is over that former grantors promised to it: the engine has said so, or the caller does. */
void lh_lease_client_settled(struct lh_leases *l, struct lh_lease_client *client);
void lh_lease_client_drop_promised(struct lh_leases *l, struct lh_lease_client *client);
/* Nothing of its former session is unknown any more. */
void lh_lease_client_back(struct lh_leases *l, struct lh_lease_client *client);
