/* What the master asks access/ (ACC), and what it says of refusals. */
#pragma once

#include "master/tables/common.h"

#include "access/access.h"

/* Each returns LH_OK, or PERMISSION with a sentence in `text` (LH_ACCESS_TEXT_MAX); that is counted
 * then, and logged at most every `refusal_log_pause`. `identity` may be NULL. */
int lh_m_access_call(struct lh_master *m, const char *identity, enum lh_method method,
    const void *request, char *text);
int lh_m_access_name(struct lh_master *m, const char *identity, enum lh_right right,
    const char *name, bool below, char *text);
/* May it hear of a rule for all names with that prefix (lh_access_concerns())? */
int lh_m_access_prefix(struct lh_master *m, const char *identity, const char *prefix, char *text);
int lh_m_access_server(
    struct lh_master *m, const char *identity, const char *server_id, char *text);
/* A session is used by whoever opened it, also after a change of masters. */
int lh_m_access_session(
    struct lh_master *m, const char *identity, const char *opened_by, char *text);
