#ifndef LH_MASTER_KEEP_DRAIN_H
#define LH_MASTER_KEEP_DRAIN_H

#include "master/tables/tables.h"

/* Draining, and no chunk needs what is on it (any more). */
bool lh_m_safe_to_stop(const struct lh_master *m, const struct lh_m_server *s);
/* Draining: replicas that a chunk needs until there is another one. */
uint64_t lh_m_replicas_to_move(const struct lh_master *m, const struct lh_m_server *s);
/* Has a census counted what is on the server since the operator's last word? */
bool lh_m_counted(const struct lh_master *m, const struct lh_m_server *s);
/* Is there anything to be done yet for what the operator wants of the server? */
bool lh_m_draining(const struct lh_master *m, const struct lh_m_server *s);
bool lh_m_anybody_drains(const struct lh_master *m);
/* Are too few servers left for what is to go elsewhere? Then `text` says so. */
bool lh_m_too_few_left(
    const struct lh_master *m, const struct lh_m_server *s, char *text, size_t text_size);
/* What the server said in its session is void, and if that is replaced by a new one, what its
 * registration said, too. */
void lh_m_server_left(struct lh_master *m, struct lh_m_server *s, bool replaced);
/* Ends the server's session and its stream for good; only its name is remembered. It holds no
 * lease. */
void lh_m_dismiss(struct lh_master *m, struct lh_m_server *s);

#endif
