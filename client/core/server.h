/* LH_CALL_SERVER: one question to one server. */
#pragma once

#include "client/core/client.h"

void lh_client_server_ask(struct lh_client *c, struct lh_server_call *call);
void lh_client_questions_end(struct lh_client *c, bool complete);
