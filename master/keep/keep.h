/* What keeps replicas: repair, copies, moving, garbage, removal. */
#pragma once

#include "master/tables/tables.h"

/* ---- sweep.c */

void lh_m_sweep_start(struct lh_master *m);
/* A step's share of looking at chunks and starting copies. lh_m_sweep_busy(): there is more at
 * once. */
void lh_m_sweep_step(struct lh_master *m);
bool lh_m_sweep_busy(const struct lh_master *m);
/* The chunk is removed: out of all that health and repair keep. */
void lh_m_sweep_forget(struct lh_master *m, struct lh_m_chunk *c);

/* ---- wanting.c */

/* The lease is over: whoever wants it for appends comes before repair. */
void lh_m_repair_pause(struct lh_master *m, struct lh_m_chunk *c);
/* Begins a round over all that are wanting. */
void lh_m_repair_round(struct lh_master *m);
/* It waits for a copy, or for a primary that looks after its members: `good` members are, `bytes`
 * are still to be copied, but for what copies under way bring. And: it does not (any more). */
void lh_m_want(struct lh_master *m, struct lh_m_chunk *c, uint32_t good, uint64_t bytes);
void lh_m_unwant(struct lh_master *m, struct lh_m_chunk *c);

/* ---- copies.c */

/* Copies to `target` if a source has room for that. */
bool lh_m_copy_begin(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *target);
/* It is forgotten here; `cancel`: and what is at the target becomes an extra, as not needed. */
void lh_m_copy_end(struct lh_master *m, struct lh_m_copy *copy);
void lh_m_copy_cancel(struct lh_master *m, struct lh_m_copy *copy);
/* The chunk is sealed: copies that were to join go on as copies of the whole of it. */
void lh_m_copies_finish(struct lh_master *m, struct lh_m_chunk *c);
/* Ends the copies to that server: its session is over. */
void lh_m_copies_end(struct lh_master *m, struct lh_m_server *target);
void lh_m_copies_free(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_on_copied(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCopied *report);
void lh_m_on_progress(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat);
void lh_m_repair_info(const struct lh_master *m, Leasehold__RepairInfo *info);

/* ---- recovered.c */

/* REC-4: the primary has made all members equal at this version. */
void lh_m_on_recovered(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Recovered *report);
/* The primary hears of members that became full, once that is durable. */
void lh_m_notify_full(struct lh_master *m, struct lh_m_chunk *c);

/* ---- moving.c */

void lh_m_moving_start(struct lh_master *m);
/* Something happened that a drain may go on after: looks at the draining servers soon. */
void lh_m_moving_kick(struct lh_master *m);
/* What can be done now for drains and an even load; the rest follows by a timer. */
void lh_m_moving_advance(struct lh_master *m);
/* The operator wants something else of the server. */
void lh_m_moving_restart(struct lh_master *m, struct lh_m_server *s);

/* ---- drain.c */

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

/* ---- garbage.c */

void lh_m_garbage_init(struct lh_master *m);
void lh_m_on_removed(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaRemoved *report);
void lh_m_garbage_durable(struct lh_master *m);
/* The operator has looked: what was kept may go. */
void lh_m_garbage_resume(struct lh_master *m);

/* ---- remove.c */

void lh_m_chunk_free(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_chunk_remove(struct lh_master *m, struct lh_m_chunk *c);
/* Before the first step: as if it had not been loaded. Its file's place for it is the caller's. */
void lh_m_chunk_unload(struct lh_master *m, struct lh_m_chunk *c);
