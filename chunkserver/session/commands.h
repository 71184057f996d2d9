/* What the master asks of this server within a session. */
#pragma once

#include "chunkserver/session/session.h"

void lh_cs_commands_message(struct lh_cs_session *s, const Leasehold__SessionReply *m);
