/* Chunkservers as clients with sessions: registration, heartbeats and all their messages. */
#pragma once

#include "master/sessions/sessions.h"

extern const struct lh_m_session_kind lh_m_chunkservers;
