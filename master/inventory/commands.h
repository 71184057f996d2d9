#ifndef LH_MASTER_INVENTORY_COMMANDS_H
#define LH_MASTER_INVENTORY_COMMANDS_H

#include "master/tables/tables.h"

void lh_m_record_seal(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *only);
void lh_m_send_remove(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version);
/* CreateReplica of chunk `id` of `f`, at that version, to one server, if it is alive. */
void lh_m_send_create(struct lh_master *m, const struct lh_m_file *f, uint64_t id, uint64_t version,
    struct lh_m_server *s);
/* A removal that has to wait until the operator has looked. */
void lh_m_keep(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version);

#endif
