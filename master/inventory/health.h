#ifndef LH_MASTER_INVENTORY_HEALTH_H
#define LH_MASTER_INVENTORY_HEALTH_H

#include "master/tables/tables.h"

enum lh_m_health lh_m_member_health(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member);
const char *lh_m_health_text(enum lh_m_health health);
/* Is the server gone (KEEP-1), and has the operator said that it will not come back (by
 * decommissioning it)? Nobody waits for what it alone may have. */
bool lh_m_given_up(const struct lh_master *m, const struct lh_m_server *s);
/* Could others copy the chunk from this member? */
bool lh_m_is_source(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member);
/* How long a server without a session, or with a failing disk, still counts. */
struct lh_duration lh_m_grace_left(const struct lh_master *m, const struct lh_m_server *s);
/* The server has shown in its present session that it has the replica of `c`; nothing if it is no
 * member. */
void lh_m_seen(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s);
/* The server's registration tells of its replica of `c`. */
void lh_m_reported(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, const struct lh_m_report *r);
/* The member's replica is of no use any more (FAIL-4, FAIL-5): durable with this step. */
void lh_m_lose(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member);
/* The server's session began, ended, or its disk began to fail or to answer. */
void lh_m_server_changed(struct lh_master *m, struct lh_m_server *s);

#endif
