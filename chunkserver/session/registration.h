/* What this server shows the master when it registers, in pieces. */
#pragma once

#include "chunkserver/session/session.h"

/* A new registration, on a new link: sends its first piece. */
void lh_cs_registration_begin(struct lh_cs_session *s);
/* The piece before is written: sends the next one, if there is one. */
void lh_cs_registration_go_on(struct lh_cs_session *s);
/* Was this stamp a piece's? */
bool lh_cs_registration_answers(const struct lh_cs_session *s, uint64_t stamp);
