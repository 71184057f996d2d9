/* Does the disk answer (SES-6)? */
#pragma once

#include "chunkserver/session/session.h"

/* Begins a small write and a sync, unless one is still under way. */
void lh_cs_probe(struct lh_cs_session *s);
/* What is under way tells as much as a probe, and earlier. */
bool lh_cs_disk_fails(const struct lh_cs_session *s);
