/* Chunkservers as clients with sessions: registration, heartbeats and all their messages. */
#ifndef LH_MASTER_SERVERS_SERVERS_H
#define LH_MASTER_SERVERS_SERVERS_H

#include "master/sessions/sessions.h"

extern const struct lh_m_session_kind lh_m_chunkservers;

#endif
