/* What a primary asks of a replica here. */
#pragma once

#include "chunkserver/serve/serving.h"

/* Links that primaries opened; their room is the serving one. */
extern const struct lh_cs_link_user lh_cs_replicate_links;

/* More of the log is durable: its primary hears of it. */
void lh_cs_secondary_durable(struct lh_cs_replica *r);
/* Less is to be written: primaries that were held are heard again. */
void lh_cs_secondary_release_pressure(struct lh_cs_logs *logs);
/* The replica serves its primary no longer: answers with `error` and ends the stream. */
void lh_cs_secondary_end(struct lh_cs_replica *r, int error);
