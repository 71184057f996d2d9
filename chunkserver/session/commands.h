/* What the master asks of this server within a session. */
#ifndef LH_CHUNKSERVER_SESSION_COMMANDS_H
#define LH_CHUNKSERVER_SESSION_COMMANDS_H

#include "chunkserver/session/session.h"

void lh_cs_commands_message(struct lh_cs_session *s, const Leasehold__SessionReply *m);

#endif
