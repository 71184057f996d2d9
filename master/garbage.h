#ifndef LH_MASTER_GARBAGE_H
#define LH_MASTER_GARBAGE_H

#include "master/tables/tables.h"

void lh_m_garbage_init(struct lh_master *m);
/* May anything be deleted now? Not while the store looks like an older copy (KEEP-4). */
bool lh_m_deleting(const struct lh_master *m);
/* The operator says that the store was restored from a backup: raises what may be in use. */
void lh_m_restored(struct lh_master *m);
/* A replica of `c` lies at `s`, which is not a member: reported at, or dropped at, `version`. */
void lh_m_extra_note(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s,
    uint64_t version, bool sealed, bool copying);
/* A chunkserver's session ended or is replaced: its next registration tells anew. */
void lh_m_extras_forget(struct lh_master *m, struct lh_m_server *s);
void lh_m_extras_free(struct lh_master *m, struct lh_m_chunk *c);
/* A live server with room that has a replica of `c`, which a copy can begin with; NULL: none. */
struct lh_m_server *lh_m_extra_fit(struct lh_master *m, const struct lh_m_chunk *c);
/* KEEP-4: the store is older than what a server has; the first sentence is kept. */
__attribute__((format(printf, 2, 3))) void lh_m_set_behind(
    struct lh_master *m, const char *format, ...);
/* Looks for signs of that in a report; `c` is NULL if there is no such chunk. True: it is one. */
bool lh_m_report_evidence(struct lh_master *m, struct lh_m_server *s, struct lh_m_chunk *c,
    const struct lh_m_report *r);
/* A removal that has to wait until the operator has looked. */
void lh_m_keep(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version);
void lh_m_on_removed(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaRemoved *report);
void lh_m_garbage_durable(struct lh_master *m);
void lh_m_garbage_call(
    struct lh_master *m, uint64_t link, const Leasehold__GarbageRequest *request);

#endif
